"""Help for tests of screens: snapshots under fixed conditions, a fixed clock, a project folder, and
no blinking.

Each screen has one picture test, of its full state, the first in its module; its other states are
tested by the words that a user must read.

async def test_something(open_app, tmp_path):
    async with open_app(tmp_path) as (app, pilot):        # the real app over a real folder, read to
    the end
        await pilot.press("1")
        ...

def test_full(snap, project):
    assert snap(HudtuiApp(project), size=(80, 24), press=["3"])

async def test_empty(says, project):
    await says(HudtuiApp(project), "There is no task file", press=["3"])
"""

from __future__ import annotations

import contextlib
import html
import os
import pickle
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import UTC, datetime
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from pytest_textual_snapshot import node_to_report_path
from support.at_rest import at_rest, quick_waits
from support.parsed_styles import light_styles, parsed_once
from support.waiting import screen_text

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
"""The time in every screen test."""

BASELINE = (3, 11)
"""The Python whose snapshots are kept."""


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "update_snapshots", False) and sys.version_info[:2] != BASELINE:
        raise pytest.UsageError(f"snapshots are written by Python {BASELINE[0]}.{BASELINE[1]} only")
    config.addinivalue_line("markers", "defect: the test makes the app find a defect of its own")
    config.addinivalue_line(
        "filterwarnings",
        "ignore:datetime.datetime.utcnow:DeprecationWarning:pytest_textual_snapshot",
    )


async def settle(pilot: Any) -> None:
    """Wait until no worker runs and nothing is left to draw, three times over: what ends may begin
    something else.

    A worker called "forever" is not waited for, and none is while a dialog is open: it may be what
    waits for the answer.
    """
    quiet = 0
    while quiet < 3:
        while getattr(pilot.app, "typed", None) is not None and pilot.app.typed.pending:
            await pilot.pause()
        while getattr(pilot.app.screen, "waits", False):
            await pilot.pause(0.01)
        workers = [
            worker
            for worker in pilot.app.workers
            if worker.name != "forever" and not worker.is_finished
        ]
        if workers and not pilot.app.screen.is_modal:
            # Any of them may yet open a dialog and wait for its answer.
            while not (pilot.app.screen.is_modal or all(worker.is_finished for worker in workers)):
                await pilot.pause(0.005)
            quiet = 0
        else:
            quiet += 1
        await pilot.pause()
        await at_rest(
            longest=20.0
        )  # a pause ends after a second in any case, also where the machine has too much to do


@pytest.fixture(scope="session", autouse=True)
def no_needless_work() -> Iterator[None]:
    """Styles are parsed once for all apps, and a pause ends when the app is at rest."""
    with parsed_once(), light_styles(), quick_waits():
        yield


@pytest.fixture(autouse=True)
def no_defects(own_world: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """An unexpected exception is shown on screen and goes on: here it fails the test, whatever the
    test looked at."""
    yield
    if request.node.get_closest_marker("defect") is None:
        crashes = sorted(Path(os.environ["XDG_STATE_HOME"]).rglob("crash-*.txt"))
        assert not crashes, crashes[0].read_text()


@pytest.fixture
def project(own_world: Path) -> Path:
    """An empty project folder, the current one, that is shown as `~/demo` in every run."""
    folder = Path.home() / "demo"
    folder.mkdir()
    os.chdir(folder)
    return folder


@pytest.fixture(params=[(160, 45), (80, 24)])
def size(request: pytest.FixtureRequest) -> Any:
    """A size of a terminal at which screens are pictured; home, the launch and the five steps are
    pictured at 60x20 as well."""
    return request.param


@pytest.fixture
def snap(snap_compare: Callable[..., bool], request: pytest.FixtureRequest) -> Callable[..., bool]:
    """Compare the app's picture with the kept one; the differences of their texts are printed.

    `snap(app, size=(80, 24), press=["1"], run_before=async_function_of_pilot)`; `run_before` comes
    after the keys. All workers are waited for before and after, unless `wait` is False: for
    pictures of something that is still going on.
    """

    def compare(
        app: Any,
        *,
        size: tuple[int, int] = (120, 35),
        press: Iterable[str] = (),
        run_before: Callable[[Any], Awaitable[None]] | None = None,
        wait: bool = True,
    ) -> bool:
        async def before(pilot: Any) -> None:
            await _brought_about(pilot, press, run_before, wait)
            app.clear_selection()

        same = snap_compare(app, terminal_size=size, run_before=before)
        if not same:
            taken: tuple[Any, ...] = pickle.loads(node_to_report_path(request.node).read_bytes())
            print(
                *unified_diff(
                    _svg_lines(taken[1]), _svg_lines(taken[2]), "kept", "now", lineterm=""
                ),
                sep="\n",
            )
        return same

    return compare


async def _brought_about(
    pilot: Any,
    press: Iterable[str],
    run_before: Callable[[Any], Awaitable[None]] | None,
    wait: bool,
) -> None:
    """Press the keys, do the rest, and wait before and after each, unless `wait` is False."""

    async def calm() -> None:
        await (settle(pilot) if wait else pilot.pause())

    await calm()
    for key in press:
        await pilot.press(key)
        await calm()
    if run_before is not None:
        await run_before(pilot)
        await calm()


@pytest.fixture
def says() -> Callable[..., Awaitable[str]]:
    """Check what a user reads, and return the text of the screen.

    `await says(app, "words", "others", press=["1"])`: all of the words stand on the screen, however
    they are wrapped. The other arguments are those of `snap`; the size is the smallest one that a
    screen must serve.
    """

    async def check(
        app: Any,
        *words: str,
        size: tuple[int, int] = (60, 20),
        press: Iterable[str] = (),
        run_before: Callable[[Any], Awaitable[None]] | None = None,
        wait: bool = True,
    ) -> str:
        async with app.run_test(size=size) as pilot:
            await _brought_about(pilot, press, run_before, wait)
            text = screen_text(app)
        read = " ".join(text.translate(dict.fromkeys(map(ord, "│▁▂▃▄▅▆▇"), " ")).split())
        for one in words:
            assert one in read, f"{one!r} is not in\n{text}"
        return text

    return check


def _svg_lines(svg: str) -> list[str]:
    """The texts of a picture with their places and the names of their styles."""
    found = re.findall(r'<text class="[^"]*?-(\w+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)', svg)
    return [f"{y:>8} {x:>8} {style:5} {html.unescape(text)}" for style, x, y, text in found]


@pytest.fixture
def reading_app() -> Callable[[Path], Any]:
    """`reading_app(folder)`: an app that reads its project until it is closed; for pictures of
    screens that wait for it."""
    from hudtui.tui.app import HudtuiApp
    from hudtui.tui.facts import Facts
    from hudtui.tui.services import Services

    def made(folder: Path) -> HudtuiApp:
        closed = threading.Event()

        def read(folder: Path) -> Facts:
            closed.wait(20)
            return Facts(folder, "HUD")

        class Reading(HudtuiApp):
            def on_unmount(self) -> None:
                closed.set()

        return Reading(folder, services=Services(now=lambda: NOW, load_facts=read))

    return made


@pytest.fixture
def open_app() -> Callable[..., Any]:
    """`async with open_app(folder, size=(120, 35)) as (app, pilot)`: the app with everything
    read."""

    @contextlib.asynccontextmanager
    async def opened(
        folder: Path, *, size: tuple[int, int] = (120, 35), **options: Any
    ) -> AsyncIterator[tuple[Any, Any]]:
        from hudtui.tui.app import HudtuiApp

        app = HudtuiApp(folder, **options)
        async with app.run_test(size=size) as pilot:
            await settle(pilot)
            yield app, pilot

    return opened


@pytest.fixture(name="screen_text")
def _screen_text() -> Callable[[Any], str]:
    return screen_text


@pytest.fixture(name="settle")
def _settle() -> Callable[[Any], Awaitable[None]]:
    return settle
