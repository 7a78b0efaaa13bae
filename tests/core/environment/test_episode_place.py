"""A folder, an id and a port of each episode's own."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import aclosing
from pathlib import Path

import pytest

from hudtui.core.environment.client import connect
from hudtui.core.environment.episode_place import episode_place, find_template
from hudtui.core.environment.powers import task_powers
from hudtui.core.environment.servers import parse_mcp_config
from hudtui.core.environment.sharing import shared_places
from hudtui.core.errors import HudtuiError, InputError, SourceError
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import connector, evaluate
from hudtui.core.rollouts.policy import PolicySource
from hudtui.core.tasks.task import Task, ToolCall

SERVER = str(Path(__file__).parents[2] / "support" / "file_server.py")


@pytest.fixture
def place(own_world, monkeypatch):
    """A project with a template, and a folder for temporary files that is empty."""
    temporary = own_world.parent / f"{own_world.name}-temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (own_world / "words" / "sub").mkdir(parents=True)
    (own_world / "words" / "sub" / "a.txt").write_text("alpha\n")
    (own_world / "words" / "link.txt").symlink_to("sub/a.txt")
    yield own_world
    assert list(temporary.iterdir()) == []


def servers(*args, **more):
    return {"files": {"command": sys.executable, "args": [SERVER, *args], **more}}


def task(name, config, files):
    check = (ToolCall("evaluate", {"files": files}),)
    return Task(name, "Write.", config, evaluate=check)


def writing(name="words"):
    """A policy that writes one file, looks, and is done."""

    def for_episode(task, rollout):
        replies = iter(
            (
                f'<tool>write(name="{name}", text="{task.id}-{rollout}")</tool>',
                "<tool>look()</tool>",
                "<tool>done()</tool>",
            )
        )

        async def complete(messages):
            await asyncio.sleep(0)
            return next(replies)

        return complete

    return PolicySource("writing", for_episode)


async def play(tasks, out, folder, *, kept=None, **options):
    timeout = 60.0
    opened = connector(None, folder, os.environ.get, timeout=timeout, kept=kept)
    events = evaluate(
        tasks,
        GymConfig(allow_unmapped=True),
        policy=writing(),
        connect=opened,
        out_dir=out,
        **options,
    )
    async with aclosing(events):
        return [event.episode async for event in events if hasattr(event, "episode")]


async def look(config, folder):
    async with connect(config, folder=folder) as session:
        files = json.loads((await session.call_tool("look", {})).text)
        return session.place, files


async def test_no_episode_sees_another(place):
    tasks = [
        task(f"t{number}", servers("${EPISODE_DIR}"), {"words": f"t{number}-0\n"})
        for number in range(24)
    ]
    episodes = await play(tasks, place / "out", place, concurrency=8, reuse=True)
    assert [episode.scores.task_completion for episode in episodes] == [1.0] * 24
    assert len({episode.info["episode"] for episode in episodes}) == 24


async def test_every_episode_has_a_copy_of_the_template(place):
    config = servers("${EPISODE_DIR:words}")
    own = {"sub/a.txt": "alpha\n", "link.txt": "alpha\n"}
    async with connect(config, folder=place) as first:
        await first.call_tool("write", {"name": "sub/a.txt", "text": "more"})
        _, files = await look(config, place)
        assert files == own
        changed = json.loads((await first.call_tool("look", {})).text)
        assert changed == dict.fromkeys(own, "alpha\nmore\n")
    assert (place / "words" / "sub" / "a.txt").read_text() == "alpha\n"


async def test_servers_of_a_task_have_one_folder(place):
    both = {
        "one": {"command": sys.executable, "args": [SERVER, "${EPISODE_DIR:words}"]},
        "two": {"command": sys.executable, "args": [SERVER, "."], "cwd": "${EPISODE_DIR}/sub"},
    }
    async with connect(both, folder=place) as session:
        await session.call_tool("one_write", {"name": "sub/b.txt", "text": "beta"})
        seen = json.loads((await session.call_tool("two_look", {})).text)
    assert seen == {"a.txt": "alpha\n", "b.txt": "beta\n"}


async def test_id_and_port_are_in_environment_and_command(place):
    (place / "show.py").write_text(
        f"import os, runpy, sys\n"
        f"open(sys.argv[1] + '/told', 'w').write(os.environ['ID'] + ' ' + sys.argv[2])\n"
        f"sys.argv = [{SERVER!r}, sys.argv[1]]\n"
        f"runpy.run_path({SERVER!r}, run_name='__main__')\n"
    )
    args = [str(place / "show.py"), "${EPISODE_DIR}", "$EPISODE_PORT"]
    config = {"files": {"command": sys.executable, "args": args, "env": {"ID": "x-${EPISODE_ID}"}}}
    lookup = {"EPISODE_ID": "stale", "EPISODE_DIR": "/", "EPISODE_PORT": "1"}.get
    seen = []
    async with (
        connect(config, folder=place, lookup=lookup) as one,
        connect(config, folder=place, lookup=lookup) as two,
    ):
        for session in (one, two):
            files = json.loads((await session.call_tool("look", {})).text)
            assert files["told"] == f"x-{session.place.id} {session.place.port}"
            seen.append(files["told"].split())
    ids, ports = zip(*seen, strict=True)
    assert len(set(ids)) == len(set(ports)) == 2


TAKER = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("taken", flush=True)
    time.sleep(60)
"""
LISTENER = """
import os, pathlib, runpy, socket, subprocess, sys
server, folder, port, most = sys.argv[1:]
with open("starts", "a") as starts:
    print(port, folder, file=starts)
pathlib.Path(folder, "half-done").write_text("")
if len(pathlib.Path("starts").read_text().splitlines()) <= int(most):
    words = [sys.executable, "-c", pathlib.Path("taker.py").read_text(), port]
    taker = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    with open("takers", "a") as takers:
        print(taker.pid, file=takers)
    taker.stdout.readline()
listening = socket.create_server(("127.0.0.1", int(port)))
os.remove(os.path.join(folder, "half-done"))
sys.argv = [server, folder]
runpy.run_path(server, run_name="__main__")
"""
"""A server that also listens on its port, and before which another program takes the port."""


@pytest.mark.parametrize("most", [2, 9])
async def test_a_port_that_another_program_takes_is_exchanged(place, most):
    (place / "taker.py").write_text(TAKER)
    (place / "listener.py").write_text(LISTENER)
    args = ["listener.py", SERVER, "${EPISODE_DIR}", "${EPISODE_PORT}", str(most)]
    config = {"files": {"command": sys.executable, "args": args, "cwd": str(place)}}
    try:
        async with connect(config, folder=place, kept=place / "kept") as session:
            assert json.loads((await session.call_tool("look", {})).text) == {}
            assert session.place.port == int(starts(place)[-1][0])
        assert most == 2
        assert not (place / "kept").exists()
    except HudtuiError as error:
        assert most == 9 and "in use" in str(error.why)
        assert len(list((place / "kept").iterdir())) == 1
    finally:
        for pid in (place / "takers").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
    ports, folders = zip(*starts(place), strict=True)
    assert len(set(ports)) == len(set(folders)) == 3
    assert not [folder for folder in folders if Path(folder).exists()]


def starts(place):
    return [line.split() for line in (place / "starts").read_text().splitlines()]


async def test_openenv_never_keeps_such_a_server(place):
    tasks = [task("t", servers("${EPISODE_DIR}"), {})]
    opened = connector(None, place, os.environ.get, timeout=60)
    served = ServedTasks(tasks, GymConfig(allow_unmapped=True), opened, reuse=True)
    session = EpisodeSession(served)
    try:
        for _ in range(2):
            await session.reset({})
            seen = await session.step({"type": "call_tool", "tool_name": "look", "arguments": {}})
            assert "{}" in json.dumps(seen)
            given = {"name": "left", "text": "behind"}
            step = {"type": "call_tool", "tool_name": "write", "arguments": given}
            await session.step(step)
            await session.finish()
    finally:
        await session.close()


async def test_folders_of_failed_episodes_are_kept(place):
    config = servers("${EPISODE_DIR}")
    tasks = [task("good", config, {"words": "good-0\n"}), task("bad", config, {"words": "no"})]
    good, bad = await play(tasks, place / "out", place, kept=place / "kept", concurrency=1)
    assert (good.scores.task_completion, bad.scores.task_completion) == (1.0, 0.0)
    (folder,) = (place / "kept").iterdir()
    assert folder.name == bad.info["episode"]
    assert (folder / "words").read_text() == "bad-0\n"


async def test_the_folder_goes_where_the_connection_fails(place):
    for config in (servers("${EPISODE_DIR}/missing\0"), {"x": {"command": "/no ${EPISODE_DIR}"}}):
        with pytest.raises(HudtuiError):
            async with connect(config, folder=place):
                pass


async def test_a_folder_without_rights_goes(place):
    async with connect(servers("${EPISODE_DIR}"), folder=place) as session:
        folder = session.place.folder
        (folder / "a" / "b").mkdir(parents=True)
        (folder / "a" / "b" / "c").write_text("")
        (folder / "a" / "b").chmod(0)
        (folder / "a").chmod(0o500)
    assert not folder.exists()


async def test_cancelling_removes_the_folder(place):
    begun = asyncio.Event()
    folders = []

    async def stay():
        async with connect(servers("${EPISODE_DIR}"), folder=place) as session:
            folders.append(session.place.folder)
            begun.set()
            await asyncio.Event().wait()

    staying = asyncio.create_task(stay())
    await begun.wait()
    staying.cancel()
    await asyncio.gather(staying, return_exceptions=True)
    assert folders and not folders[0].exists()


PLAYER = """
import asyncio, sys
from pathlib import Path
from hudtui.core.environment.client import connect

async def stay():
    config = {"files": {"command": sys.executable, "args": [sys.argv[1], "${EPISODE_DIR:words}"]}}
    async with connect(config, folder=Path.cwd()) as session:
        await session.call_tool("write", {"name": "left", "text": "behind"})
        print(session.place.folder, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(stay())
"""


def test_folders_of_a_killed_player_go_with_the_next_start(place):
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    command = [sys.executable, "-c", PLAYER, SERVER]

    def start():
        pipe = subprocess.PIPE
        player = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
        players.append(player)
        return player, Path(player.stdout.readline().strip())

    players = []
    try:
        killed, left = start()
        assert (left / "left").exists()
        killed.kill()
        killed.wait()
        player, own = start()
        assert (left.exists(), own.exists()) == (False, True)
        player.communicate()
    finally:
        for player in players:
            player.kill()
            player.communicate()


def refusal(config, folder):
    async def opened():
        async with connect(config, folder=folder):
            pass

    with pytest.raises(SourceError) as error:
        asyncio.run(opened())
    return "; ".join(error.value.lines())


def test_templates_that_cannot_be_used(place):
    (place / "file").write_text("")
    outside = place.parent / f"{place.name}-outside"
    outside.mkdir()
    (outside / "secret").write_text("")
    (place / "away").symlink_to(outside)
    (place / "holed").mkdir()
    (place / "holed" / "out").symlink_to(outside / "secret")
    cases = {
        "${EPISODE_DIR:nowhere}": "nowhere, is no folder",
        "${EPISODE_DIR:file}": "is a file",
        "${EPISODE_DIR:away}": "is a link out of the project",
        "${EPISODE_DIR:holed}": "has a link that leads out of it",
        "${EPISODE_DIR:words}:${EPISODE_DIR:file}": "two templates: words and file",
        "${EPISODE_PORT:80}": "EPISODE_PORT always has a value",
        "${EPISODE_ID:-x}": "EPISODE_ID always has a value",
    }
    assert {text: refusal(servers(text), place).count(said) for text, said in cases.items()} == (
        dict.fromkeys(cases, 1)
    )
    # A folder outside is taken where its own path is written, which the question of trust shows.
    assert find_template(str(outside), place) == outside
    assert find_template("../" + outside.name, place).samefile(outside)


def test_the_question_of_trust_shows_the_template(place):
    (power,) = task_powers([servers("${EPISODE_DIR:/etc/secrets of mine}")], place / "t.json")
    assert power.text.endswith("with EPISODE_DIR, in a copy of '/etc/secrets of mine'")
    (other,) = task_powers([servers("${EPISODE_DIR:/etc}")], place / "t.json")
    assert power.token != other.token


@pytest.mark.parametrize("name", ["EPISODE_DIR", "EPISODE_ID", "EPISODE_PORT"])
def test_tasks_do_not_lack_these_variables(place, name):
    from hudtui.core.tasks.read import read_tasks

    record = {"id": "t", "prompt": "p", "mcp_config": servers(f"${{{name}}}")}
    record["evaluate_tool"] = {"name": "evaluate", "arguments": {}}
    (place / "tasks.json").write_text(json.dumps([record]))
    read = read_tasks("tasks.json", lookup=lambda name: None, folder=place)
    assert read.problems == ()


def test_what_episodes_share_is_said(place):
    (place / "data").mkdir()
    (place / "a.db").write_text("")
    (place / "server.py").write_text("")

    def shared(**server):
        texts = shared_places([{"s": server}], place, {"PLACE": "data"}.get, HUD)
        return " ".join(texts)

    def command(*words, **env):
        return shared(command=words[0], args=list(words[1:]), env=env)

    told = "what one writes there, the others see"
    assert told in command("npx", "-y", "server-filesystem", "./data")
    assert told in command("npx", "-y", "server-filesystem", str(place / "data"))
    assert told in command("server", "$PLACE")
    assert told in command("server", "--root=data")
    assert told in command("uvx", "mcp-server-sqlite", "--db-path", "a.db")
    assert told in command("server", ROOT="data")
    assert told in command("docker", "run", "-v", f"{place}/data:/data", "image")
    assert told in command("podman", "run", "--mount=type=bind,src=./data,dst=/d", "image")
    assert "all episodes use the one server s" in shared(url="http://127.0.0.1:9/mcp")
    assert "${EPISODE_DIR:data}" in command("server", "data")

    assert command("python", "server.py") == ""
    assert command("uv", "run", "--directory", "data", "server.py") == ""
    assert command("python", "data") == ""  # the program is there
    assert command("server", "${EPISODE_DIR:data}") == ""
    assert command("server", "data/${EPISODE_ID}") == ""
    assert command("server", PYTHONPATH="data") == ""
    assert command("docker", "run", "-v", f"{place}/data:/data:ro", "image") == ""
    assert shared(url="https://mcp.hud.so/v3/mcp") == ""
    assert shared(url="ws://127.0.0.1:9") == ""  # OpenEnv has a state for each session


async def made(template, folder):
    """The files of an episode with this template, each with its text; None for a link."""
    config = {"files": {"command": "cat", "args": ["${EPISODE_DIR:" + template + "}"]}}
    specs = parse_mcp_config(config, "mcp_config")
    async with asyncio.timeout(20), episode_place(specs, folder, lambda name: None) as one:
        assert one is not None and one.folder is not None
        paths = [path for path in one.folder.rglob("*") if path.is_symlink() or path.is_file()]
        return {
            str(path.relative_to(one.folder)): None if path.is_symlink() else path.read_bytes()
            for path in paths
        }


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
async def test_a_template_with_what_is_no_file_is_refused(place, kind):
    odd = place / "words" / "sub" / "odd"
    with socket.socket(socket.AF_UNIX) as listening:
        if kind == "pipe":
            os.mkfifo(odd)
        elif kind == "socket":
            listening.bind(os.path.relpath(odd))
        template = "/dev/pts" if kind == "device" else "words"
        with pytest.raises(SourceError, match="neither a file nor a folder"):
            await made(template, place)


async def test_links_that_lead_to_each_other_are_copied(place):
    (place / "words" / "one").symlink_to("two")
    (place / "words" / "two").symlink_to("one")
    assert await made("words", place) == {
        "sub/a.txt": b"alpha\n",
        "link.txt": None,
        "one": None,
        "two": None,
    }


async def test_a_template_does_not_hold_the_copies_of_itself(place, monkeypatch):
    inside = place / "words" / "temporary"
    inside.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(inside))
    with pytest.raises(SourceError, match="holds the folder for temporary files") as refused:
        await made("words", place)
    assert "TMPDIR" in str(refused.value.fix)
    assert list(inside.iterdir()) == []


async def test_a_full_disk_is_an_error_of_the_input(place, monkeypatch):
    def full():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", full)
    with pytest.raises(InputError, match="no folder for the folders of episodes") as refused:
        await made("words", place)
    assert "TMPDIR" in str(refused.value.fix)


async def test_files_that_cannot_be_copied_are_told_by_one_reason(place, monkeypatch):
    for number in range(50):
        (place / "words" / f"{number}.txt").write_text("text")

    def full(source, target, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copymode", full)
    with pytest.raises(InputError) as refused:
        await made("words", place)
    assert "No space left on device" in str(refused.value.why)
    assert len(str(refused.value.why)) < 200


async def test_a_cancelled_start_leaves_no_folder(place, monkeypatch):
    begun, go_on, copy = threading.Event(), threading.Event(), shutil.copymode

    def slow(*paths, **options):
        begun.set()
        go_on.wait(20)
        copy(*paths, **options)

    monkeypatch.setattr(shutil, "copymode", slow)
    making = asyncio.create_task(made("words", place))
    await asyncio.to_thread(begun.wait, 20)
    making.cancel()
    asyncio.get_running_loop().call_soon(go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await making
    # the fixture finds no folder


def test_the_question_of_trust_names_a_template_as_it_is_written():
    config = {"files": {"command": "cat", "args": ["${EPISODE_DIR:${HOME:words}}"]}}
    [power] = task_powers([config], Path("tasks.json"))
    assert "in a copy of '${HOME}'" in power.text
    assert "in a copy of words" not in power.text
