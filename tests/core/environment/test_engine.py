"""Which container engine is used: programs on the PATH that answer, or do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hudtui.core.environment.engine import engine_note, find_engine, is_built_locally, push_image
from hudtui.core.environment.source import image_source

ANSWERS = "exit 0"
NO_DAEMON = "echo 'Cannot connect to the Docker daemon' >&2; exit 1"
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
def test_the_engine_that_answers_is_used(install: Install, programs: dict[str, str], engine: str | None) -> None:
    install(**programs)
    assert find_engine() == engine
    assert (engine_note() is not None) == (engine == "podman" and "docker" in programs)


def test_it_is_asked_once_and_the_command_goes_by_it(install: Install) -> None:
    place = install(docker=NO_DAEMON, podman=ANSWERS)
    assert [image_source(f"org/env:{tag}").servers[0].command for tag in range(3)] == ["podman"] * 3
    assert (place / "docker.asked").read_text() == "x\n" and "docker is installed" in (engine_note() or "")


def test_the_user_decides(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    place = install(docker=NO_DAEMON, podman=ANSWERS)
    monkeypatch.setenv("HUDTUI_ENGINE", "docker")
    assert (find_engine(), engine_note()) == ("docker", None) and not (place / "docker.asked").exists()


async def test_a_push_says_which_one_and_why(install: Install) -> None:
    install(docker=NO_DAEMON, podman=f"[ $1 = push ] && echo sha256:{'ab' * 32} >$3; exit 0")
    said = [step.text async for step in push_image("env:1", "ghcr.io/me/")]
    assert said[:3] == [engine_note(), "podman tag env:1 ghcr.io/me/env:1", "podman push ghcr.io/me/env:1"]


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
