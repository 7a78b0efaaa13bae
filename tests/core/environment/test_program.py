"""Servers that listen: started for each episode, waited for, reached at their URL, and ended."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import aclosing
from pathlib import Path

import pytest
from support import servers
from support.waiting import wait_for

from hudtui.core.environment.client import connect
from hudtui.core.environment.episode_place import episode_place
from hudtui.core.environment.matching import identity_of, uses_environment
from hudtui.core.environment.powers import server_lines, task_powers
from hudtui.core.environment.servers import parse_mcp_config
from hudtui.core.environment.sharing import shared_places, with_own_folder
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis, Server
from hudtui.core.errors import ConnectError, HudtuiError, SourceError
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import connector, evaluate
from hudtui.core.rollouts.policy import PolicySource
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.task import Task, ToolCall

SERVER = str(Path(__file__).parents[2] / "support" / "file_server.py")
URL = "http://127.0.0.1:${EPISODE_PORT}/mcp"
NOTED = """
import os, runpy, sys
with open(sys.argv[1], "a") as pids:
    print(os.getpid(), file=pids)
del sys.argv[0:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Starts a program of Python, and notes its process id in a file."""


@pytest.fixture
def place(own_world, monkeypatch):
    """A project, and a folder for temporary files that is empty in the end."""
    temporary = own_world.parent / f"{own_world.name}-temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (own_world / "words").mkdir()
    (own_world / "words" / "a.txt").write_text("alpha\n")
    yield own_world
    assert list(temporary.iterdir()) == []
    # What was killed behind its parent's back is there until the system has looked after it.
    wait_for(lambda: not any(map(is_there, pids(own_world))))


def pids(place):
    noted = place / "pids"
    return [int(pid) for pid in noted.read_text().split()] if noted.exists() else []


def is_there(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def files(place, folder="${EPISODE_DIR}", port="${EPISODE_PORT}", **more):
    args = ["-c", NOTED, str(place / "pids"), SERVER, folder, port]
    url = f"http://127.0.0.1:{port}/mcp"
    return {"files": {"command": sys.executable, "args": args, "url": url, **more}}


def program(code, **more):
    """An `mcp_config` with a program of Python, which is told its port."""
    args = ["-c", code, "${EPISODE_PORT}"]
    return {"x": {"command": sys.executable, "args": args, "url": URL, **more}}


async def looked(config, place, **options):
    async with connect(config, folder=place, **options) as session:
        return json.loads((await session.call_tool("look", {})).text)


def refusal(config, place, kind=HudtuiError, **options):
    with pytest.raises(kind) as error:
        asyncio.run(looked(config, place, **options))
    return "; ".join(error.value.lines())


async def test_no_episode_sees_another(place):
    def policy(task, rollout):
        calls = (f'write(name="words", text="{task.id}")', "done()")
        replies = iter([f"<tool>{call}</tool>" for call in calls])

        async def complete(messages):
            return next(replies)

        return complete

    tasks = [
        Task(
            f"t{number}",
            "Write.",
            files(place, "${EPISODE_DIR:words}"),
            evaluate=(
                ToolCall("evaluate", {"files": {"a.txt": "alpha\n", "words": f"t{number}\n"}}),
            ),
        )
        for number in range(8)
    ]
    events = evaluate(
        tasks,
        GymConfig(allow_unmapped=True),
        policy=PolicySource("writing", policy),
        connect=connector(None, place, os.environ.get, timeout=120),
        out_dir=place / "out",
        concurrency=4,
        reuse=True,
    )
    async with aclosing(events):
        episodes = [event.episode async for event in events if hasattr(event, "episode")]
    assert [episode.scores.task_completion for episode in episodes] == [1.0] * 8
    assert len(set(pids(place))) == 8


async def test_a_server_of_the_sdk(place):
    module = ["-P", "-m", "hudtui.envs.text_2048", "--http", "--port", "${EPISODE_PORT}"]
    config = {"game": {"command": sys.executable, "args": module, "url": URL}}
    async with connect(config, folder=place, timeout=120) as session:
        result = await session.call_tool("setup", {"name": "board", "arguments": {"seed": 7}})
        assert not result.is_error
        pid = session.links[0].pid
    assert not is_there(pid)


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_a_server_of_npm(place, everything, transport):
    url = URL.replace("mcp", "sse") if transport == "sse" else URL
    args, env = [str(everything), transport], {"PORT": "${EPISODE_PORT}"}
    config = {"everything": {"command": "node", "args": args, "env": env, "url": url}}
    async with connect(config, folder=place, timeout=120) as session:
        assert "Echo: hello" in (await session.call_tool("echo", {"message": "hello"})).text
        pid = session.links[0].pid
    assert not is_there(pid)


FAILING = {
    "ends at once": ("import sys; print('no disk', file=sys.stderr); sys.exit(3)", "no disk"),
    "leaves the foreground": ("print('started')", "It has to stay in the foreground"),
    "prints forever": ("while True: print('x' * 1000)", "although the program"),
    "takes connections and says nothing": (
        "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
        "time.sleep(60)",
        "although the program",
    ),
    "is no MCP server": (
        "import http.server, sys\n"
        "where = ('127.0.0.1', int(sys.argv[1]))\n"
        "http.server.HTTPServer(where, http.server.SimpleHTTPRequestHandler).serve_forever()",
        "501: the server at",
    ),
    "does not mind signals": (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "although the program",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_programs_that_do_not_serve(place, case):
    code, said = FAILING[case]
    noted = f"import os; print(os.getpid(), file=open({str(place / 'pids')!r}, 'a'))\n{code}"
    limit = 2 if said == "although the program" else 120
    assert said in refusal(program(noted), place, ConnectError, timeout=limit)


def test_a_program_that_listens_elsewhere(place):
    args = ["-c", "echo at another port; sleep 60", "sh", "${EPISODE_PORT}"]
    config = {"x": {"command": "sh", "args": args, "url": URL}}
    said = refusal(config, place, ConnectError, timeout=5)
    assert "although the program of the server 'x' runs; The end of its output:\nat another" in said


def test_a_program_that_is_not_there(place):
    config = {"x": {"command": "no-such-program", "args": ["${EPISODE_PORT}"], "url": URL}}
    assert "no program called 'no-such-program'" in refusal(config, place, SourceError)


async def test_a_program_that_ends_in_the_middle(place):
    async with connect(files(place), folder=place) as session:
        os.kill(session.links[0].pid, signal.SIGKILL)
        with pytest.raises(ConnectError, match="'files' was ended by signal 9"):
            await session.call_tool("look", {})


async def test_its_group_ends_with_it(place):
    code = f"""
import subprocess, sys
command = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); "
           "print(flush=True); time.sleep(600)"]
child = subprocess.Popen(command, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, file=open({str(place / "pids")!r}, "a"), flush=True)
sys.argv = [{SERVER!r}, ".", sys.argv[1]]
import runpy
runpy.run_path(sys.argv[0], run_name="__main__")
"""
    async with connect(program(code), folder=place) as session:
        assert is_there(pids(place)[0]) and session.tools
    # The fixture looks whether it has gone.


async def test_cancelling_ends_it(place):
    opened = asyncio.Event()

    async def stay():
        async with connect(files(place), folder=place):
            opened.set()
            await asyncio.Event().wait()

    staying = [asyncio.create_task(stay()), asyncio.create_task(stay())]
    await opened.wait()  # the other one may be starting
    for task in staying:
        task.cancel()
    await asyncio.gather(*staying, return_exceptions=True)


PLAYER = """
import asyncio, json, sys
from pathlib import Path
from hudtui.core.environment.client import connect

async def stay():
    async with connect(json.loads(sys.argv[1]), folder=Path.cwd(), timeout=600) as session:
        print(session.links[0].pid, session.place.folder, flush=True)
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(stay())
"""


def test_the_program_of_a_killed_player_ends(place):
    environment = {**os.environ, "TMPDIR": tempfile.gettempdir()}
    command = [sys.executable, "-c", PLAYER, json.dumps(files(place))]
    pipe = subprocess.PIPE
    player = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    try:
        pid, folder = player.stdout.readline().split()
        assert is_there(int(pid))
    finally:
        player.kill()
        player.communicate()
    wait_for(lambda: not is_there(int(pid)))
    null = subprocess.DEVNULL
    again = subprocess.run(command, env=environment, stdin=null, stdout=pipe, check=True)
    assert again.stdout and not Path(folder).exists()


TAKING = """
import os, runpy, subprocess, sys
server, folder, port = sys.argv[1:]
if not os.path.exists("taker"):
    code = ("import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])"
            ")); print(flush=True); time.sleep(600)")
    taker = subprocess.Popen([sys.executable, "-c", code, port], stdout=subprocess.PIPE,
                             start_new_session=True)
    taker.stdout.readline()
    open("taker", "w").write(str(taker.pid))
sys.argv = [server, folder, port]
runpy.run_path(server, run_name="__main__")
"""


async def test_a_port_that_another_program_takes_is_exchanged(place):
    args = ["-c", TAKING, SERVER, "${EPISODE_DIR}", "${EPISODE_PORT}"]
    config = {"x": {"command": sys.executable, "args": args, "url": URL, "cwd": str(place)}}
    try:
        assert await looked(config, place) == {}
    finally:
        os.kill(int((place / "taker").read_text()), signal.SIGKILL)


def test_processes_do_not_choose_the_same_port(place, monkeypatch):
    code = (
        "import asyncio, sys\n"
        "from hudtui.core.environment.episode_place import episode_place\n"
        "from hudtui.core.environment.servers import ServerSpec\n"
        "async def hold():\n"
        "    spec = ServerSpec('x', command='${EPISODE_PORT}')\n"
        "    async with episode_place([spec], '.', lambda name: None) as place:\n"
        "        print(place.port, flush=True)\n"
        "        sys.stdin.read()\n"
        "asyncio.run(hold())\n"
    )
    pipe = subprocess.PIPE
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, text=True)
    specs = parse_mcp_config(files(place), "mcp_config")

    async def chosen():
        async with episode_place(specs, place, lambda name: None) as own:
            return own.port

    try:
        held = int(holder.stdout.readline())
        offered, asked = [held, held], socket.socket.getsockname
        monkeypatch.setattr(
            socket.socket,
            "getsockname",
            lambda one: ("127.0.0.1", offered.pop()) if offered else asked(one),
        )
        assert asyncio.run(chosen()) != held and offered == []
        holder.communicate()
        offered.append(held)
        assert asyncio.run(chosen()) == held
    finally:
        holder.kill()
        holder.communicate()


async def test_at_a_port_that_never_changes_all_use_one_program(place):
    config = files(place, str(place / "words"), str(servers.free_port()))
    async with connect(config, folder=place) as first:
        async with connect(config, folder=place) as second, connect(config, folder=place) as third:
            await second.call_tool("write", {"name": "b", "text": "beta"})
            assert "beta" in (await first.call_tool("look", {})).text
            assert len({session.links[0].pid for session in (first, second, third)}) == 1
        assert "beta" in (await first.call_tool("look", {})).text
    assert "beta\n" in (await looked(config, place)).values()
    assert len(pids(place)) == 2


async def test_connections_that_begin_and_end_at_once_share_it(place):
    config = files(place, str(place / "words"), str(servers.free_port()))
    for _ in range(3):
        found = await asyncio.gather(*[looked(config, place) for _ in range(6)])
        assert found == [{"a.txt": "alpha\n"}] * 6


async def test_a_program_that_was_killed_is_started_again(place):
    config = files(place, str(place / "words"), str(servers.free_port()))
    async with connect(config, folder=place) as session:
        os.kill(session.links[0].pid, signal.SIGKILL)
        with pytest.raises(ConnectError, match="signal 9"):
            await session.call_tool("look", {})
    assert await looked(config, place) == {"a.txt": "alpha\n"}


async def test_a_port_has_one_program_at_a_time(place):
    port = str(servers.free_port())
    one, other = files(place, str(place / "words"), port), files(place, str(place), port)
    async with connect(one, folder=place):
        with pytest.raises(ConnectError, match="the server 'files' of other episodes answers at"):
            await looked(other, place, timeout=0.5)
        waiting = asyncio.create_task(looked(other, place, timeout=60))
        await asyncio.sleep(0)
    assert "words/a.txt" in await waiting


def test_a_port_that_is_taken(place):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = refusal(files(place, str(place), port), place, ConnectError)
    assert f"another program answers at http://127.0.0.1:{port}/mcp" in said
    assert "${EPISODE_PORT}" in said


async def test_openenv_plays_in_a_server_of_its_own(place):
    tasks = [Task("t", "Write.", files(place), evaluate=(ToolCall("evaluate", {"files": {}}),))]
    opened = connector(None, place, os.environ.get, timeout=60)
    session = EpisodeSession(ServedTasks(tasks, GymConfig(allow_unmapped=True), opened, reuse=True))
    try:
        for _ in range(2):
            await session.reset({})
            action = {"type": "call_tool", "tool_name": "look", "arguments": {}}
            assert "{}" in json.dumps(await session.step(action))
            given = {"name": "left", "text": "behind"}
            await session.step({"type": "call_tool", "tool_name": "write", "arguments": given})
            await session.finish()
    finally:
        await session.close()
    assert len(set(pids(place))) == 2


WRONG = {
    "another machine": ({"url": "http://10.0.0.1:${EPISODE_PORT}/mcp"}, "url", "of another"),
    "hidden machine": (
        {"url": "http://127.0.0.1@example.org:${EPISODE_PORT}"},
        "url",
        "of another",
    ),
    "any address": ({"url": "http://0.0.0.0:${EPISODE_PORT}"}, "url", "of another"),
    "no port": ({"url": "http://127.0.0.1:0/${EPISODE_ID}", "args": []}, "url", "has no port"),
    "large port": ({"url": "http://127.0.0.1:70000", "args": []}, "url", "has no port"),
    "one port": ({"url": "http://127.0.0.1:3000/mcp"}, "url", "at one address"),
    "port not told": ({"args": []}, "command", "nothing tells the program the port"),
    "pipes": ({"type": "stdio"}, "type", "does not speak over its standard streams"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_entries_are_refused_at_their_place(place, case):
    changed, field, said = WRONG[case]
    entry = {"command": "server", "args": ["${EPISODE_PORT}"], "url": URL, **changed}
    refused = refusal({"x": entry}, place, SourceError)
    assert f"mcp_config (x.{field})" in refused and said in refused
    record = {"id": "t", "prompt": "p", "mcp_config": {"x": entry}}
    record["evaluate_tool"] = {"name": "evaluate", "arguments": {}}
    (place / "tasks.jsonl").write_text(json.dumps(record))
    (problem,) = read_tasks("tasks.jsonl", lookup=lambda name: None, folder=place).problems
    assert (problem.line, problem.field) == (1, f"mcp_config.x.{field}")
    assert said in problem.message


def test_an_address_from_a_variable_is_looked_at_as_well(place):
    entry = {"command": "server", "args": ["${EPISODE_PORT}"]}
    config = {"x": {**entry, "url": "http://${WHERE}:${EPISODE_PORT}/mcp"}}
    said = refusal(config, place, SourceError, lookup={"WHERE": "example.org"}.get)
    assert "http://example.org:" in said and "of another" in said


def test_the_question_of_trust_shows_command_and_address(place):
    entry = {"command": "node", "args": ["s.js"], "env": {"PORT": "${EPISODE_PORT}"}, "url": URL}
    entry["headers"] = {"X-Key": "${MY_TOKEN}"}

    def power(**changed):
        (one,) = task_powers([{"x": {**entry, **changed}}], place / "t.json")
        return one

    assert (power().kind, power().text) == (
        "command",
        f"'PORT=${{EPISODE_PORT}}' node s.js, and connects to {URL}, header X-Key: ${{MY_TOKEN}}, "
        "with EPISODE_PORT, MY_TOKEN",
    )
    assert server_lines({"x": entry})[0].startswith("x: starts 'PORT=")
    changes = (
        {},
        {"url": URL + "2"},
        {"args": ["t.js"]},
        {"headers": {"X-Key": "$OTHER"}},
        {"transport": "sse"},
    )
    assert len({power(**changed).token for changed in changes}) == len(changes)


def test_what_episodes_share_is_said(place):
    def shared(config):
        return " ".join(shared_places([config], place, lambda name: None, HUD))

    assert shared(files(place)) == ""
    assert "all episodes use words (server files)" in shared(files(place, "words"))
    said = shared(files(place, str(place / "words"), "3000"))
    assert "all episodes use the one server files at http://127.0.0.1:3000/mcp" in said
    assert "${EPISODE_PORT} in its command and its url starts one for each" in said
    assert "what one writes there, the others see" in said


def test_a_folder_of_its_own_needs_a_port_of_its_own(place):
    own = with_own_folder(files(place, "words"), place)
    assert own is not None and "${EPISODE_DIR:words}" in own[0]["files"]["args"]
    assert with_own_folder(files(place, "words", "3000"), place) is None


def test_a_source_of_both_is_a_program(place):
    source = parse_source(json.dumps(files(place)), folder=place)
    assert source.mcp_config() == files(place)
    given = parse_source(json.dumps(files(place)), env={"A": "b"}, folder=place)
    assert given.servers[0].env == {"A": "b"}
    # Two programs at the address of their episode are not the same environment.
    analysis = Analysis(server=Server("one", "1"), source=json.dumps(files(place)))
    known = identity_of(analysis, place)
    assert uses_environment(files(place), known)
    assert not uses_environment({"y": {**program("other")["x"]}}, known)
