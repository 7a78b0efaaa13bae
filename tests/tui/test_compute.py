from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute import machine as machines
from hudtui.core.compute.machine import Gpu, Machine
from hudtui.core.errors import MachineError
from hudtui.tui.app import HudtuiApp

GIB = 2**30
PROGRAMS = (
    ("tmux", "/usr/bin/tmux"),
    ("docker", None),
    ("podman", None),
    ("uv", "/usr/bin/uv"),
    ("nvidia-smi", None),
    ("git", "/usr/bin/git"),
)
PLAIN = Machine("local", "Linux-6.1", "x86_64", "3.11.7", 2, 24 * GIB, 20 * GIB, 252 * GIB, 80 * GIB, (), PROGRAMS)
GPUS = Machine(
    "local",
    "Linux-6.1",
    "x86_64",
    "3.11.7",
    16,
    128 * GIB,
    120 * GIB,
    500 * GIB,
    64 * GIB,
    (Gpu(0, "NVIDIA H100 80GB HBM3", 81559, 4, 0, "580"), Gpu(1, "NVIDIA H100 80GB HBM3", 81559, 70311, 97, "580")),
    PROGRAMS,
    ("The GPU driver is old.",),
)


@pytest.fixture
def looks_like(monkeypatch: pytest.MonkeyPatch) -> Callable[[Machine | Exception], None]:
    """Let the machine be another one: pictures must not depend on where they are taken."""

    def be(found: Machine | Exception) -> None:
        async def inspect(host: object, *, python: str = "") -> Machine:
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(machines, "inspect", inspect)

    return be


@pytest.mark.parametrize("size", [(160, 48), (80, 24), (60, 20)])
@pytest.mark.parametrize("machine", [PLAIN, GPUS], ids=["plain", "gpus"])
def test_picture(snap: Any, project: Path, looks_like: Any, machine: Machine, size: tuple[int, int]) -> None:
    looks_like(machine)
    assert snap(HudtuiApp(project), size=size, press=["4"])


def test_picture_of_an_error(snap: Any, project: Path, looks_like: Any) -> None:
    looks_like(MachineError("local did not say what it has", why="no such library", fix="Install Python again."))
    assert snap(HudtuiApp(project), size=(80, 24), press=["4"])


async def test_the_real_machine_is_shown(open_app: Any, settle: Any, screen_text: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        text = screen_text(app)
        assert "processors" in text and "tmux" in text and "Looking" not in text


async def test_copy_gives_json(
    open_app: Any, settle: Any, project: Path, looks_like: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks_like(GPUS)
    copied: list[str] = []
    async with open_app(project) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("y")
        await pilot.pause()
    assert '"NVIDIA H100 80GB HBM3"' in copied[0]
