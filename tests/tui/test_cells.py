"""What a terminal shows, when it is sent only the cells that differ, is what Textual has drawn."""

from __future__ import annotations

import gc
import io
import json
import os
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from support import tmux_world
from support.grid import Grid
from textual import events
from textual._compositor import ChopsUpdate, Compositor, CompositorUpdate, LayoutUpdate
from textual.containers import Vertical
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from hudtui.core.process import machine_label
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, Stage
from hudtui.tui.app import HudtuiApp
from hudtui.tui.cells import Cells

own_tmux = tmux_world.own_tmux

CONFIGS = Path(__file__).resolve().parents[2] / "configs"

WIDTH, HEIGHT = 40, 6
CONSOLE = Console(
    file=io.StringIO(), force_terminal=True, color_system="truecolor", legacy_windows=False
)
TEXTS = ("a", " ", "hello", "──", "⣿⣀", "漢字", "é", "e\u0301", "  ", "…", "✓", "⚠", "\u0301")
STYLES = (
    None,
    Style(),
    Style(color="red"),
    Style(color="bright_red", bgcolor="green", italic=True),
    Style(color="#102030", bgcolor="#405060", bold=True),
    Style(bgcolor="color(200)", underline=True),
    Style(color="#102030", bgcolor="#405060"),
    Style(color="default", bgcolor="bright_blue", dim=True, reverse=True),
    Style(link="https://example.org", meta={"row": 3}),
    Style(meta={"row": 4}),
)


def random_strip(chance: random.Random, width: int) -> Strip:
    strip, plain = Strip([]), chance.random() < 0.5
    while strip.cell_length < width:
        text = (
            chance.choice("abc ")
            if plain
            else chance.choice(TEXTS if strip.cell_length else TEXTS[:-1])
        )
        strip = Strip([*strip, Segment(text * chance.randint(1, 5), chance.choice(STYLES))])
    return strip.crop(0, width).simplify()


def random_update(chance: random.Random) -> CompositorUpdate:
    cuts = [[0, *sorted(chance.sample(range(1, WIDTH), 3)), WIDTH] for _ in range(HEIGHT)]
    rows = [{x: random_strip(chance, end - x) for x, end in pairwise(line)} for line in cuts]
    if chance.random() < 0.2:
        return LayoutUpdate([row.values() for row in rows], Region(0, 0, WIDTH, HEIGHT))
    spans = sorted(
        (y, chance.randrange(WIDTH // 2), chance.randint(WIDTH // 2 + 1, WIDTH))
        for y in chance.sample(range(HEIGHT), 3)
    )
    return ChopsUpdate(rows, spans, [line[1:] for line in cuts])


def repeated(update: CompositorUpdate, chance: random.Random) -> CompositorUpdate:
    """The same once more, with single characters that differ."""
    if isinstance(update, LayoutUpdate):
        rows = [list(strips) for strips in update.strips]
        row = chance.choice(rows)
        place = chance.randrange(len(row))
        text = row[place].text
        if len(text) == row[place].cell_length:
            at = chance.randrange(len(text))
            row[place] = Strip([Segment(text[:at] + "!" + text[at + 1 :], chance.choice(STYLES))])
        return LayoutUpdate(rows, update.region)
    return update


@pytest.mark.parametrize("seed", range(60))
def test_any_updates_look_as_textual_writes_them(seed: int) -> None:
    chance = random.Random(seed)
    known, theirs, ours = Cells(), Grid(WIDTH, HEIGHT), Grid(WIDTH, HEIGHT)
    update = LayoutUpdate(
        [[random_strip(chance, WIDTH)] for _ in range(HEIGHT)], Region(0, 0, WIDTH, HEIGHT)
    )
    for step in range(60):
        if step:
            update = repeated(update, chance) if chance.random() < 0.4 else random_update(chance)
        theirs.write(update.render_segments(CONSOLE))
        ours.write(known.changes(update, CONSOLE))
        assert ours.lines == theirs.lines
        assert ours.cells == theirs.cells


def row(*pieces: tuple[str, Style | None]) -> LayoutUpdate:
    strip = Strip([Segment(text, style) for text, style in pieces])
    return LayoutUpdate([[strip]], Region(0, 0, strip.cell_length, 1))


def test_only_what_differs_is_sent() -> None:
    known = Cells()
    blue = Style(color="#0000ff", bgcolor="#101010")
    assert "step 12 of 90" in known.changes(row(("step 12 of 90", blue)), CONSOLE)
    assert known.changes(row(("step 12 of 90", blue)), CONSOLE) == ""
    assert (
        known.changes(row(("step 13 of 90", blue)), CONSOLE)
        == "\x1b[1;7H\x1b[38;2;0;0;255;48;2;16;16;16m3\x1b[0m"
    )
    green = Style(color="#00ff00", bgcolor="#101010")
    sent = known.changes(row(("step 1", blue), ("4 of 90", green)), CONSOLE)
    assert sent == "\x1b[1;7H\x1b[38;2;0;255;0;48;2;16;16;16m4 of 90\x1b[0m"
    known.forget()
    assert (
        bytes(known.changes(row(("step 14 of 90", None)), CONSOLE), "ascii")[6:] == b"step 14 of 90"
    )


def test_a_row_with_characters_that_terminals_measure_differently_is_sent_whole() -> None:
    known = Cells()
    known.changes(row(("name ⚠️ broken       ", None)), CONSOLE)
    assert known.changes(row(("name ⚠️ broken again ", None)), CONSOLE).endswith(
        "name ⚠️ broken again "
    )
    assert known.changes(row(("name  is not broken ", None)), CONSOLE).endswith(
        "name  is not broken "
    )
    assert len(known.changes(row(("name  is not broken!", None)), CONSOLE)) < 10


def test_the_colours_of_many_pictures_are_not_kept_for_ever() -> None:
    known = Cells()

    def show(first: int) -> str:
        pieces = [
            (f"{at % 10}", Style(color=f"#{at:06x}", bgcolor=f"#{first:06x}"))
            for at in range(first, first + 1000)
        ]
        return known.changes(row(*pieces), CONSOLE)

    for picture in range(8):
        show(picture * 1000)
    tracemalloc.start()
    for picture in range(8, 40):
        assert show(picture * 1000)
    Style.parse.cache_clear()
    gc.collect()
    kept = tracemalloc.take_snapshot().filter_traces(
        [tracemalloc.Filter(True, "*/hudtui/tui/cells.py")]
    )
    tracemalloc.stop()
    assert sum(one.size for one in kept.statistics("filename")) < 8_000_000, (
        "without a bound it is more than 30 MB"
    )
    assert show(39 * 1000) == "", "what is shown is still known"


def test_another_size_takes_nothing_for_known() -> None:
    known = Cells()
    known.changes(row(("a" * 20, None)), CONSOLE)
    assert known.changes(row(("a" * 21, None)), CONSOLE).endswith("a" * 21)


def whole(screen: Any) -> list[list[tuple[str, frozenset[tuple[str, str]]]]]:
    """The screen as Textual's own compositor draws it, in full."""
    compositor, size = screen._compositor, screen.size
    chops = Compositor._render_chops(compositor, size.region, lambda y: True)
    grid = Grid(*size)
    grid.write(
        LayoutUpdate([line.values() for line in chops], size.region).render_segments(CONSOLE)
    )
    return grid.cells


@pytest.fixture
def worked_in(project: Path) -> Path:
    """A project with a configuration, tasks in several scripts, and a run with a log."""
    words = (
        "Play to 2048.",
        "遊戲を始める",
        "naïve café",
        "⚠ careful 😀",
        "e\u0301t\u00e9 " * 9,
        "한국어 문장",
        "עברית",
    )
    tasks = [
        {"id": f"t-{n}", "prompt": f"{words[n % len(words)]} {n}", "mcp_config": {}}
        for n in range(120)
    ]
    (project / "tasks.json").write_text(json.dumps(tasks))
    (project / "configs").mkdir()
    (project / "configs" / "2048.yaml").write_text(
        (CONFIGS / "2048.yaml").read_text() + "# 遊戲 ⚠ é\n"
    )
    store = RunStore(project / ".hudtui")
    folder = store.folder / "old-1"
    (folder / "logs").mkdir(parents=True)
    lines = [f"12:00:{n % 60:02} INFO step={n} {words[n % len(words)]}" for n in range(300)]
    (folder / "logs" / "play.log").write_text("\n".join(lines) + "\n")
    plan = Plan("rollouts", (Stage("play", ("true",)),))
    spec = RunSpec("rollouts", "old", str(project))
    store.add(
        RunRecord(
            "old-1", 1.0, "old", "rollouts", "local", machine_label(), str(folder), spec, plan
        )
    )
    store.mirror(
        "old-1", [{"seq": 1, "at": 2.0, "type": "failed", "data": {"why": "it ended 漢字"}}]
    )
    return project


async def test_every_screen_is_shown_as_textual_draws_it(
    open_app: Callable[..., Any], worked_in: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, ours = Cells(), Grid(120, 40)

    def display(self: HudtuiApp, screen: Screen[Any], update: Any) -> None:
        if isinstance(update, CompositorUpdate):
            ours.write(known.changes(update, CONSOLE))

    monkeypatch.setattr(HudtuiApp, "_display", display)
    chance = random.Random(3)
    walk = (
        "1",
        "2",
        "escape",
        "3",
        "4",
        "5",
        "n",
        "escape",
        "R",
        "comma",
        "question_mark",
        "escape",
        "0",
    )
    keys = (
        "down",
        "up",
        "tab",
        "pagedown",
        "z",
        "j",
        "right_square_bracket",
        "slash",
        "escape",
        "home",
        "w",
    )
    async with open_app(worked_in, size=(120, 40)) as (app, pilot):
        for name in walk:
            for key in (name, *chance.choices(keys, k=8)):
                await pilot.press(key)
                await settle(pilot)
                # A table draws what was read meanwhile at its next turn, which a timer may bring:
                # cells that are never sent stay.
                end = time.monotonic() + 30
                while ours.cells != whole(app.screen) and time.monotonic() < end:
                    await pilot.pause(0.05)
                assert ours.cells == whole(app.screen), (name, key)


async def test_a_burst_of_keys_and_sizes_leaves_every_widget_in_its_place(
    open_app: Callable[..., Any], worked_in: Path, settle: Any
) -> None:
    chance = random.Random(5)
    async with open_app(worked_in, size=(120, 40)) as (app, pilot):
        for opening in ("35R", "42", "50R", "13", "5m2", "0R5"):
            for key in opening:
                app.post_message(events.Key(key, key))
                if chance.random() < 0.5:
                    await pilot.resize_terminal(*chance.choice(((160, 45), (80, 24), (120, 40))))
            await settle(pilot)
            before = whole(app.screen)
            for widget in app.screen.walk_children(with_self=True):
                widget.refresh(layout=True)
            await settle(pilot)
            assert whole(app.screen) == before, opening


async def test_a_change_of_what_is_hidden_does_not_keep_what_is_shown_from_its_place(
    open_app: Callable[..., Any], project: Path, settle: Any
) -> None:
    async with open_app(project) as (app, pilot):
        await pilot.press("comma")
        await settle(pilot)
        shown, inner = Static("shown"), Static("inner")
        hidden = Vertical(inner)
        hidden.display = False
        await app.screen.query_one("#content").mount(shown, hidden)
        await settle(pilot)
        shown.styles.height = 3
        # both ask for a layout at once, and Textual keeps the second of two such messages
        shown._check_refresh()
        inner.refresh(repaint=False, layout=True)
        inner._check_refresh()
        await settle(pilot)
        assert shown.region.height == 3


class Tmux:
    """The real app in a real terminal: a pane of tmux."""

    def __init__(self, folder: Path) -> None:
        app = ["env", "-u", "COLUMNS", "-u", "LINES", sys.executable, "-m", "hudtui"]
        stay = [
            ";",
            "set-option",
            "-w",
            "remain-on-exit",
            "on",
        ]  # what an app says that ends by mistake is what the test shows
        self._tmux(
            "new-session",
            "-d",
            "-s",
            "cells",
            "-x",
            "110",
            "-y",
            "32",
            "-c",
            str(folder),
            *app,
            *stay,
        )

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-f", os.devnull, "-u", *words], capture_output=True, text=True, check=True
        ).stdout

    def press(self, *keys: str) -> None:
        """Keys by tmux's names of them."""
        self._tmux("send-keys", "-t", "cells", *keys)

    def resize(self, width: int, height: int) -> None:
        self._tmux("resize-window", "-t", "cells", "-x", str(width), "-y", str(height))

    def scribble(self, text: str) -> None:
        """Another program writes on the terminal."""
        Path(self._tmux("display-message", "-p", "-t", "cells", "#{pane_tty}").strip()).write_text(
            text
        )

    def shown(self) -> str:
        """What the pane shows, with colours."""
        return self._tmux("capture-pane", "-e", "-p", "-t", "cells")

    def waits(self) -> bool:
        """Whether no thread of the app works, or would if it got a processor."""
        pid = self._tmux("display-message", "-p", "-t", "cells", "#{pane_pid}").strip()
        states = [
            path.read_text().rpartition(")")[2].split()[0]
            for path in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
        return bool(states) and set(states) == {"S"}

    def settled(self, *words: str, without: str = "\0") -> str:
        """What the pane shows, with colours, once it holds the words and has stayed the same while
        the app waited."""
        end, before, since = time.monotonic() + 90, "", time.monotonic()
        while time.monotonic() < end:
            time.sleep(0.05)
            now = self.shown()
            if now != before or not self.waits():
                before, since = now, time.monotonic()
            elif time.monotonic() - since > 0.5 and without not in now:
                plain = self._tmux("capture-pane", "-p", "-t", "cells")
                if all(word in plain for word in words):
                    return now
        raise AssertionError(f"{words} did not come:\n{before}")

    def redrawn(self) -> str:
        """What the pane shows after everything was painted again, over what another program
        wrote."""
        self.scribble("\x1b[7;3HSCRIBBLED")
        while "SCRIBBLED" not in self.shown():
            time.sleep(0.02)
        self.press("F5")
        return self.settled(without="SCRIBBLED")


def test_a_real_terminal_shows_the_same_as_after_painting_everything(
    worked_in: Path, own_tmux: str
) -> None:
    odd = [
        {"id": f"odd-{n}", "prompt": f"{n} ❤️ 👩‍🚀 {'⚠️' * (n % 4)} e\u0301 漢字", "mcp_config": {}}
        for n in range(60)
    ]
    (worked_in / "tasks.json").write_text(json.dumps(odd, ensure_ascii=False))
    terminal = Tmux(worked_in)
    terminal.settled("Recent runs", "Commands")
    for keys, words in (
        (("3",), ("odd-1",)),
        (("Down", "Down", "Up", "Down", "NPage", "NPage", "PPage", "Down"), ("odd-",)),
        (("2",), ("2048",)),
        (("Escape",), ("2048",)),
        (("5",), ("old",)),
        (("Down", "Tab", "PPage", "PPage"), ("old",)),
    ):
        terminal.press(*keys)
        before = terminal.settled(*words)
        assert terminal.redrawn() == before, keys
    terminal.resize(90, 28)
    terminal.settled("old")
    terminal.resize(110, 32)
    before = terminal.settled("old")
    assert terminal.redrawn() == before
