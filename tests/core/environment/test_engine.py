"""Which container engine is used: programs on the PATH that answer, or do not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hudtui.core.environment.client import connect
from hudtui.core.environment.engine import (
    engine_note,
    find_engine,
    is_built_locally,
    lacks_image,
    push_image,
)
from hudtui.core.environment.servers import ServerSpec
from hudtui.core.environment.source import image_source, parse_source, with_engine
from hudtui.core.errors import ConnectError, InputError, SourceError
from hudtui.core.settings import save_user_setting

ANSWERS = "exit 0"
NO_DAEMON = "echo 'Cannot connect to the Docker daemon' >&2; exit 1"
SERVER = f"""
case "$1" in
run) echo $$ >{{place}}/pid; echo "$@" >{{place}}/words; echo "$TOKEN" >{{place}}/token
    {sys.executable} -m hudtui.envs.text_2048; {{after}};;
rm) echo "$@" >{{place}}/removed; kill -9 $({{cat}} {{place}}/pid);;
esac"""
"""What an engine does with an image of text-2048; `after` is what its container does when its input
has ended."""
Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts programs on a PATH that holds nothing else."""

    def put(**programs: str) -> Path:
        for name, script in programs.items():
            (tmp_path / name).write_text(f"#!/bin/sh\necho x >>{tmp_path}/{name}.asked\n{script}\n")
            (tmp_path / name).chmod(0o755)
        return tmp_path

    monkeypatch.setenv("PATH", str(tmp_path))
    return put


def wait_until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("programs", "engine"),
    [
        ({}, None),
        ({"docker": NO_DAEMON}, "docker"),
        ({"podman": ANSWERS}, "podman"),
        ({"docker": ANSWERS, "podman": ANSWERS}, "docker"),
        ({"docker": NO_DAEMON, "podman": ANSWERS}, "podman"),
    ],
)
def test_the_engine_that_answers_is_used(
    install: Install, programs: dict[str, str], engine: str | None
) -> None:
    install(**programs)
    assert find_engine() == engine
    assert (engine_note() is not None) == (engine == "podman" and "docker" in programs)


def test_it_is_asked_once_and_the_command_goes_by_it(install: Install) -> None:
    place = install(docker=NO_DAEMON, podman=ANSWERS)
    assert [image_source(f"org/env:{tag}").servers[0].command for tag in range(3)] == ["podman"] * 3
    assert (place / "docker.asked").read_text() == "x\n" and "docker is installed" in (
        engine_note() or ""
    )


def test_the_user_decides(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    place = install(docker=NO_DAEMON, podman=ANSWERS)
    monkeypatch.setenv("HUDTUI_ENGINE", "docker")
    assert (find_engine(), engine_note()) == ("docker", None) and not (
        place / "docker.asked"
    ).exists()


async def test_a_push_says_which_one_and_why(install: Install) -> None:
    install(docker=NO_DAEMON, podman=f"[ $1 = push ] && echo sha256:{'ab' * 32} >$3; exit 0")
    said = [step.text async for step in push_image("env:1", "ghcr.io/me/")]
    assert said[:3] == [
        engine_note(),
        "podman tag env:1 ghcr.io/me/env:1",
        "podman push ghcr.io/me/env:1",
    ]


@pytest.mark.parametrize(
    ("script", "here"),
    [
        ("echo '[]'", True),
        ("echo '[\"localhost/env@sha256:1\"]'", True),
        ("echo '[\"ghcr.io/me/env@sha256:1\"]'", False),
        ("echo null", True),
        ("echo broken", False),
        ("exit 1", False),
    ],
)
def test_an_image_that_was_built_here(install: Install, script: str, here: bool) -> None:
    install(podman=script)
    assert is_built_locally("env:1") is here


def test_the_setting_counts_and_a_slip_in_it_is_named(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(docker=ANSWERS, podman=ANSWERS)
    save_user_setting("HUDTUI_ENGINE", "podman")
    assert find_engine() == "podman"
    monkeypatch.setenv("HUDTUI_ENGINE", "pdoman")
    with pytest.raises(InputError, match="names 'pdoman', which is neither docker nor podman"):
        find_engine()


@pytest.mark.parametrize(
    ("words", "here", "env", "contained"),
    [
        ("run --rm -i org/env:1 serve", "run --rm -i org/env:1 serve", {}, True),
        (
            "run -i -e KEY=$KEY --env=B=x${B} -eC=$C org/env",
            "run -i -e KEY --env=B -eC org/env",
            {"KEY": "$KEY", "B": "x${B}", "C": "$C"},
            True,
        ),
        (
            "run -i -e PLAIN=1 -v $PWD:/x org/env --e=$Y",
            "run -i -e PLAIN=1 -v $PWD:/x org/env --e=$Y",
            {},
            True,
        ),
        ("run -i --name mine org/env", "run -i --name mine org/env", {}, False),
        ("run -id org/env", "run -id org/env", {}, False),
    ],
)
def test_a_task_that_names_docker(
    install: Install, words: str, here: str, env: dict[str, str], contained: bool
) -> None:
    install(docker=NO_DAEMON, podman=ANSWERS)
    made = with_engine(ServerSpec("env", command="docker", args=tuple(words.split())))
    assert (made.command, " ".join(made.args), made.env, made.contained) == (
        "podman",
        here,
        env,
        contained,
    )
    for other in (
        ServerSpec("env", command="docker", args=tuple(words.split()), literal=True),
        ServerSpec("env", command="docker", args=("compose", "run", "env")),
        ServerSpec("env", command="ssh", args=("box", "docker", *words.split())),
    ):
        assert with_engine(other) == other


async def test_what_answers_is_said_and_no_value_is_in_a_list_of_processes(
    install: Install,
) -> None:
    place = install(docker=NO_DAEMON)
    install(podman=SERVER.format(place=place, after=":", cat=shutil.which("cat", path=os.defpath)))
    task = {
        "env": {
            "command": "docker",
            "args": ["run", "--rm", "-i", "-e", "TOKEN=$TOKEN", "org/env:1"],
        }
    }
    async with connect(task, lookup={"TOKEN": "a-very-secret-value"}.get) as session:
        assert "move" in session.tools and session.warnings == [engine_note()]
    name = (place / "words").read_text().split()[2]
    assert (place / "words").read_text() == f"run --name {name} --rm -i -e TOKEN org/env:1\n"
    assert (place / "token").read_text() == "a-very-secret-value\n"
    assert not (place / "removed").exists(), "it has ended by itself"


def test_a_killed_hudtui_leaves_no_container(install: Install) -> None:
    place = install(podman="")
    cat, sleep = (shutil.which(name, path=os.defpath) for name in ("cat", "sleep"))
    install(
        podman=SERVER.format(place=place, after=f"exec {sleep} 1000", cat=cat),
        sleep=f"exec {sleep} $1",
    )
    play = (
        "import asyncio, json\nfrom hudtui.core.environment import client, stdio\nstdio.GRACE = "
        "0.1\n"
        "async def main():\n    async with client.connect(json.loads(input())):\n"
        "        print('open', flush=True)\n        await asyncio.sleep(1000)\n"
        "asyncio.run(main())"
    )
    task = {"env": {"command": "podman", "args": ["run", "--rm", "-i", "org/env:1"]}}
    pipe = subprocess.PIPE
    child = subprocess.Popen([sys.executable, "-c", play], stdin=pipe, stdout=pipe)
    assert child.stdin is not None and child.stdout is not None
    with child, child.stdin as told, child.stdout as said:
        told.write(json.dumps(task).encode() + b"\n")
        told.flush()
        assert said.readline() == b"open\n"
        child.kill()
    wait_until((place / "removed").exists)
    name = (place / "words").read_text().split()[2]
    assert (place / "removed").read_text() == f"rm -f -v {name}\n"
    server = Path(f"/proc/{(place / 'pid').read_text().strip()}/exe")
    wait_until(lambda: not server.exists())


async def test_an_engine_that_is_not_there(install: Install) -> None:
    install()
    with pytest.raises(
        SourceError, match="no container engine on this machine: docker is not installed"
    ):
        async with connect(image_source("org/env:1")):
            pass


async def test_a_single_word_is_never_fetched_from_a_registry(
    install: Install, tmp_path: Path
) -> None:
    script = (
        f'[ "$1" = run ] || exit 0; echo "$@" >>{tmp_path}/words; echo "Error: image not known" '
        ">&2; exit 125"
    )
    place = install(podman=script)
    for word, near in (
        ("text-2047", "Did you mean text-2048?"),
        ("nosuch", "An image is fetched by"),
    ):
        with pytest.raises(ConnectError, match="no image") as error:
            async with connect(parse_source(word, folder=tmp_path).mcp_config()):
                pass
        assert near in (error.value.fix or "") and f"podman pull {word}" in (error.value.fix or "")
    assert all("--pull=never" in line for line in (place / "words").read_text().splitlines())
    assert "--pull=never" not in parse_source("nosuch:latest", folder=tmp_path).servers[0].args


async def test_a_misspelled_environment_is_told_where_no_engine_runs(
    install: Install, tmp_path: Path
) -> None:
    install(docker="echo 'docker: Cannot connect to the Docker daemon' >&2; exit 125")
    for word, hint in (("text2048", "Did you mean text-2048? Try it"), ("nosuch", "Try it")):
        with pytest.raises(ConnectError, match="exit code 125") as error:
            async with connect(parse_source(word, folder=tmp_path).mcp_config()):
                pass
        assert (error.value.fix or "").startswith(hint)
        assert "Cannot connect" in (error.value.why or "")


@pytest.mark.parametrize(
    ("says", "lacks"),
    [
        ("echo 'Error: inspecting object: env:1: image not known' >&2; exit 125", True),
        ("echo 'Error response from daemon: No such image: env:1' >&2; exit 1", True),
        ("echo 'Error: No such image: env:1' >&2; exit 1", True),
        ("echo 'Cannot connect to the Docker daemon' >&2; exit 1", False),
        ("exit 1", False),
        ("echo sha256:11", False),
    ],
)
def test_an_image_is_missed_only_where_the_engine_says_so(
    install: Install, says: str, lacks: bool
) -> None:
    install(podman=f"#!/bin/sh\n{says}\n")
    assert lacks_image("env:1") is lacks


def test_without_an_engine_no_image_is_missed(install: Install) -> None:
    install()
    assert not lacks_image("env:1")
