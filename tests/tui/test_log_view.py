"""The log pane: what it holds, follows, finds, filters, drops and says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.waiting import until
from textual.widget import Widget

from hudtui.core.pattern import Pattern
from hudtui.tui.app import HudtuiApp
from hudtui.tui.facts import Facts
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.model import SHOWN_LENGTH, Level, LogBuffer, level_of
from hudtui.tui.log.view import LogView
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.services import Services

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


class LogScreen(HudtuiScreen):
    """A log pane and nothing else."""

    NAME = "log"
    TITLE = "log"

    def __init__(self, cap: int = 1000) -> None:
        super().__init__()
        self.pane = LogView(cap=cap, save_name="kept.txt")

    def content(self) -> Iterable[Widget]:
        yield self.pane


async def _quiet(folder: Path, first: bool) -> tuple[str, ...]:
    return ()


SERVICES = Services(
    now=lambda: NOON, load_facts=lambda folder: Facts(folder, "HUD"), sync_runs=_quiet
)


@pytest.fixture
def log(open_app: Callable[..., Any], project: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def opened(cap: int = 1000, size: tuple[int, int] = (100, 24)) -> Any:
        async with open_app(project, size=size, services=SERVICES) as (app, pilot):
            screen = LogScreen(cap)
            await app.push_screen(screen)
            screen.pane.focus()
            await pilot.pause()
            yield screen.pane, pilot

    return opened


async def add(pane: LogView, pilot: Any, lines: list[str]) -> None:
    pane.append(lines)
    pane.flush()
    await pilot.pause()


def number(count: int, start: int = 0) -> list[str]:
    return [f"INFO line {n}" for n in range(start, start + count)]


def shown(text: str) -> list[str]:
    """The log lines on screen, without the scroll bar."""
    return [line[:40].rstrip() for line in text.splitlines() if "INFO line" in line]


# -- the buffer
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("2026-11-20 12:00:00 INFO all is well", Level.INFO),
        ("[ERROR] it broke", Level.ERROR),
        ("WARNING:root:careful", Level.WARNING),
        ("(worker pid=7) DEBUG deep inside", Level.DEBUG),
        ("Traceback (most recent call last):", Level.ERROR),
        ("torch.cuda.OutOfMemoryError: CUDA out of memory", Level.ERROR),
        ("ValueError: no", Level.ERROR),
        ("error: no such file", Level.ERROR),
        ("warning: old", Level.WARNING),
        ('{"level": "error", "msg": "x"}', Level.ERROR),
        ("time=12 level=warn msg=x", Level.WARNING),
        ("no error so far", Level.NONE),
        ("0 errors, INFORMATION only", Level.NONE),
        ("MY_ERROR=3", Level.NONE),
        ("the word ERROR after " + "much " * 40, Level.ERROR),
        ("much " * 40 + "ERROR", Level.NONE),
        ("", Level.NONE),
    ],
)
def test_levels(line: str, level: Level) -> None:
    found, start, end = level_of(line)
    assert found is level
    assert (start, end) == (0, 0) or line[start:end]


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=12), max_size=30), max_size=20), st.integers(1, 25))
def test_the_buffer_holds_the_newest_lines_under_their_numbers(
    batches: list[list[str]], cap: int
) -> None:
    buffer = LogBuffer(cap)
    every: list[str] = []
    for at, batch in enumerate(batches):
        before = len(buffer)
        gone = buffer.append(batch, float(at))
        every += batch
        assert gone <= before
        assert buffer.end == len(every) and len(buffer) == min(len(every), cap)
        assert buffer.dropped == len(every) - len(buffer)
        assert [buffer.raw(n) for n in range(buffer.first, buffer.end)] == every[buffer.first :]
        if len(buffer):
            assert buffer.arrived(buffer.end - 1) is not None


def test_text_is_clean_and_bounded() -> None:
    buffer = LogBuffer(10)
    buffer.append(
        ["a\tb\x1b[31mred\x1b[0m\x07", "10%\r100%", "x" * 100_000, "\x1b]52;c;aGk=\x07after"], 0
    )
    assert buffer.text(0) == "a       bred"
    assert buffer.text(1) == "100%"
    assert len(buffer.text(2)) < SHOWN_LENGTH + 40 and buffer.text(2).endswith(
        "96000 more characters"
    )
    assert buffer.text(3) == "after"
    assert "x" * 100_000 in buffer.everything() and "\x1b" not in buffer.everything()


def test_patterns() -> None:
    assert Pattern("loss").matches("LOSS 3") and not Pattern("Loss").matches("LOSS 3")
    assert Pattern("a.c").spans("abc a.c") == [(4, 7)]
    assert Pattern("a.c", regex=True).spans("abc a.c") == [(0, 3), (4, 7)]
    broken = Pattern("a(", regex=True)
    assert broken.error and broken.matches("xa(y")


def test_taking_in_is_fast_whatever_the_lines_hold() -> None:
    lines = ["2026-11-20 INFO " + "x" * 100, "\x1b[31mred", "名前" * 30, "x" * 20_000] * 2500
    buffer = LogBuffer(100_000)
    begun = time.process_time()
    for _ in range(20):
        buffer.append(lines, 0.0)
    assert time.process_time() - begun < 2.0, "200 000 lines are only kept, not looked at"


# -- the pane
# --------------------------------------------------------------------------------------------------


async def test_it_follows_until_scrolled_and_again_at_the_end(log: Any, screen_text: Any) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, number(100))
        assert "line 99" in screen_text(pilot.app) and "● following" in screen_text(pilot.app)
        await pilot.press("k", "k")
        seen = screen_text(pilot.app)
        assert "○ not following" in seen and "line 99" not in seen
        await add(pane, pilot, number(7, 100))
        text = screen_text(pilot.app)
        assert "+7 new: G jumps to now" in text
        assert shown(text) == shown(seen)
        await pilot.press("G")
        text = screen_text(pilot.app)
        assert "line 106" in text and "● following" in text and "new" not in text
        await pilot.press("k")
        await pilot.press("j")
        assert "● following" in screen_text(pilot.app), "scrolled back to the end"


async def test_lines_are_shown_however_busy_the_machine_is(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = iter(range(0, 200, 10))
    async with log() as (pane, pilot):
        # Ten seconds pass between a timer's first look at the clock and its second.
        monkeypatch.setattr(
            "textual.timer._time.get_time", lambda: time.monotonic() + next(lost, 200)
        )
        pane.append(["late"])
        for _ in range(100):
            await pilot.pause(0.01)
            if "late" in pane.buffer.everything():
                return
    raise AssertionError("the line never came")


async def test_what_is_read_stays_when_old_lines_go(log: Any, screen_text: Any) -> None:
    async with log(cap=100) as (pane, pilot):
        await add(pane, pilot, number(100))
        for _ in range(30):
            await pilot.press("k")
        seen = shown(screen_text(pilot.app))
        await add(pane, pilot, number(20, 100))
        text = screen_text(pilot.app)
        assert shown(text) == seen
        assert "20 older lines dropped here" in text and "100 lines" in text
        await add(pane, pilot, number(500, 120))
        text = screen_text(pilot.app)
        assert "line 520" in text and "520 older lines dropped" in text, (
            "what is gone cannot be shown: the oldest lines are"
        )


async def test_pause_holds_and_counts(log: Any, screen_text: Any) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, number(50))
        await pilot.press("space")
        await add(pane, pilot, number(1234, 50))
        text = screen_text(pilot.app)
        assert (
            "‖ paused" in text
            and "+1 234 new" in text
            and "line 49" in text
            and "line 50" not in text
        )
        await pilot.press("space")
        await pilot.pause()
        assert "line 1283" in screen_text(pilot.app)


async def test_a_flood_during_a_pause_is_bounded_and_said(log: Any, screen_text: Any) -> None:
    async with log(cap=100) as (pane, pilot):
        await pilot.press("space")
        for start in range(0, 1000, 100):
            pane.append(number(100, start))
        assert len(pane._pending) <= 200
        await pilot.press("space")
        await pilot.pause()
        text = screen_text(pilot.app)
        assert "line 999" in text and "900 older lines dropped" in text


async def test_search_marks_counts_and_goes_round(log: Any, screen_text: Any, settle: Any) -> None:
    async with log() as (pane, pilot):
        await add(
            pane, pilot, [f"{'hit [bold]' if n % 40 == 5 else 'line'} {n}" for n in range(200)]
        )

        async def shows(*parts: str) -> None:
            await until(pilot, lambda: all(part in screen_text(pilot.app) for part in parts))

        await pilot.press("g", "slash", *"hit [b", "enter")
        await shows("search “hit [b”: 1 of 5", "hit [bold] 5")
        await pilot.press("n")
        await shows("2 of 5", "hit [bold] 45")
        await pilot.press("N", "N")
        await shows("5 of 5", "hit [bold] 165")
        await pilot.press("n")
        await shows("1 of 5")
        await add(pane, pilot, ["hit [bold] late"])
        await shows("1 of 6")
        await pilot.press("slash", *["backspace"] * 10, "enter")
        await settle(pilot)
        assert "search" not in screen_text(pilot.app).splitlines()[-2]


async def test_search_by_regular_expression(log: Any, screen_text: Any, settle: Any) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, number(30))
        await pilot.press("slash", "ctrl+t", *"line .5$", "enter")
        await settle(pilot)
        assert "regex “line .5$”: 1 of 2" in screen_text(pilot.app)
        await pilot.press("slash", *["backspace"] * 10, *"a(", "enter")
        await settle(pilot)
        assert "missing )" in screen_text(pilot.app)


async def test_a_log_without_a_line_says_so(log: Any, screen_text: Any) -> None:
    async with log() as (_, pilot):
        assert "Nothing has been logged yet." in screen_text(pilot.app)


async def test_errors_one_after_the_other(log: Any, screen_text: Any) -> None:
    async with log() as (pane, pilot):
        await add(
            pane,
            pilot,
            [*number(50), "ERROR first", *number(50), "ValueError: second", *number(50)],
        )
        await pilot.press("J")
        assert "ERROR first" in screen_text(pilot.app)
        await pilot.press("J")
        assert "ValueError: second" in screen_text(pilot.app) and "ERROR first" not in screen_text(
            pilot.app
        )
        await pilot.press("J")
        assert "ERROR first" in screen_text(pilot.app)


async def test_wrapping_keeps_the_place_and_shows_all(log: Any, screen_text: Any) -> None:
    async with log(size=(60, 24)) as (pane, pilot):
        long = "INFO " + " ".join(f"word{n}" for n in range(40)) + " the-end"
        await add(pane, pilot, [*number(40), long, *number(40)])
        await pilot.press("backslash")
        assert pane._lines._rows > 81
        await pilot.press("slash", *"the-end", "enter")
        await pilot.pause()
        text = screen_text(pilot.app).replace("\n", "")
        assert "word39" in text and "the-end" in text
        await pilot.resize_terminal(90, 24)
        await pilot.pause()
        assert "the-end" in screen_text(pilot.app)


async def test_wrapped_wide_letters_stay_within_the_width(log: Any) -> None:
    async with log(size=(61, 20)) as (pane, pilot):
        await add(pane, pilot, ["名前" * 60, "ends"])
        await pilot.press("backslash")
        strips = [pane._lines._strip(row) for row in range(pane._lines._rows)]
        width = pane._lines._text_width
        assert "".join(strip.text for strip in strips) == "名前" * 60 + "ends"
        assert all(strip.cell_length <= width for strip in strips)


async def test_arrival_times(log: Any, screen_text: Any) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, ["INFO i"])
        await pilot.press("D")
        assert "12:00:00 INFO i" in screen_text(pilot.app)


async def test_save_writes_what_is_shown_cleaned(
    log: Any, screen_text: Any, settle: Any, project: Path
) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, ["INFO i", "ERROR \x1b[31me\x1b[0m"])
        await pilot.press("W")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert (project / "kept.txt").read_text() == "INFO i\nERROR e\n"
        assert "Saved 2 lines" in screen_text(pilot.app)
        (project / "kept.txt").write_text("mine")
        await pilot.press("W")
        await settle(pilot)
        await pilot.press("enter")
        await settle(pilot)
        assert "Replace kept.txt?" in screen_text(pilot.app)
        await pilot.press("enter")
        await settle(pilot)
        assert (project / "kept.txt").read_text() == "mine", "the focus is on the harmless button"


async def test_copy_takes_the_lines_in_sight(log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(HudtuiApp, "copy", lambda self, text: copied.append(text))
    async with log() as (pane, pilot):
        await add(pane, pilot, number(100))
        await pilot.press("y", "Y")
        assert (
            copied[0].splitlines()[-1] == "INFO line 99" and 10 < len(copied[0].splitlines()) < 24
        )
        assert copied[1].splitlines() == number(100)


async def test_selected_text_is_what_is_seen(log: Any) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, number(5))
        await pilot.mouse_down(pane._lines, offset=(5, 1))
        await pilot.hover(pane._lines, offset=(9, 2))
        await pilot.mouse_up(pane._lines, offset=(9, 2))
        await pilot.pause()
        assert pilot.app.screen.get_selected_text() == "line 1\nINFO line "


async def test_drawing_is_not_more_often_than_ten_times_a_second(log: Any) -> None:
    async with log() as (pane, pilot):
        draws = 0
        draw = pane._draw

        def counted() -> None:
            nonlocal draws
            draws += 1
            draw()

        pane._draw = counted
        begun = time.monotonic()
        fed = 0
        while (spent := time.monotonic() - begun) < 1.0:
            pane.append(number(50, fed))
            fed += 50
            await pilot.pause(0.005)
        assert draws <= spent * 10 + 2
        pane.flush()
        assert pane.buffer.end == fed


async def test_a_flood_draws_its_own_rows_only(log: Any, screen_text: Any) -> None:
    async with log(cap=1000) as (pane, pilot):
        await add(pane, pilot, number(1000))
        layouts = 0
        layout = pane.screen._refresh_layout

        def laid_out(*given: Any, **more: Any) -> None:
            nonlocal layouts
            layouts += 1
            layout(*given, **more)

        pane.screen._refresh_layout = laid_out
        for start in range(1000, 5000, 400):
            await add(pane, pilot, number(400, start))
        assert shown(screen_text(pilot.app))[-1] == "INFO line 4999"
        assert layouts == 0
        pane._lines.scroll_home(animate=False)
        await pilot.pause()
        assert shown(screen_text(pilot.app))[0] == "INFO line 4000"
        await add(
            pane, pilot, ["long " * 100]
        )  # the other scroll bar comes: now the screen is laid out
        assert layouts > 0


async def test_lines_that_come_into_sight_are_drawn_also_while_nothing_is_followed(
    log: Any,
) -> None:
    async with log() as (pane, pilot):
        await add(pane, pilot, number(50))
        pane.clear()
        pane.stay()
        await pilot.pause()
        drawn: list[str] = []
        render = pane._lines.render_lines

        def rendered(crop: Any) -> Any:
            strips = render(crop)
            drawn.extend(strip.text for strip in strips)
            return strips

        pane._lines.render_lines = rendered
        await add(pane, pilot, number(5))
        assert not pane._lines.follow and any("INFO line 4" in text for text in drawn)


async def test_idle_has_no_timer(log: Any, settle: Any) -> None:
    async with log() as (pane, _):
        pane.append(number(5))
        pane.flush()
        assert pane._timer is None


@pytest.mark.parametrize("size", [(120, 35), (80, 24)])
def test_picture(snap: Callable[..., bool], project: Path, size: tuple[int, int]) -> None:
    async def fill(pilot: Any) -> None:
        screen = LogScreen(60)
        await pilot.app.push_screen(screen)
        screen.pane.focus()
        await add(
            screen.pane,
            pilot,
            [
                *number(80),
                "WARNING careful",
                "ERROR [red]broke[/red]",
                "Traceback (most recent call last):",
            ],
        )
        screen.pane.search("line 7")

    assert snap(HudtuiApp(project, services=SERVICES), size=size, run_before=fill)


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("{'loss': 0.5, 'reward': nan}", ["'loss'", "0.5", "'reward'", "nan"]),
        ('12:00 step {"name": "a b", "n": -3e-05}', ['"name"', '"a b"', '"n"', "-3e-05"]),
        ("step 3 reward=0.5", []),
        ("ERROR in {broken", ["ERROR"]),
    ],
)
def test_keys_texts_and_numbers_of_json_and_dicts_stand_out(line: str, marked: list[str]) -> None:
    lines = LogLines(LogBuffer(), empty="")
    assert [line[start:end] for start, end, _ in lines.highlight(line)] == marked


async def test_enter_shows_the_json_of_a_line(log: Any, screen_text: Any) -> None:
    lines = [
        "starting [3] workers",
        '{"step": 1, "nested": {"deep": [1, 2]}}',
        "INFO {'loss': '0.5', 'names': ('a', nan)} and",
        "12:00 INFO {'loss': '0.5', 'reward': 0.25}",
        "plain words",
    ]
    async with log() as (pane, pilot):
        app = pane.app
        await pilot.press("enter")
        assert not app.screen.is_modal, "there is no line yet"
        await add(pane, pilot, ["nothing"])
        await pilot.press("enter")
        assert "No line in sight holds JSON" in screen_text(app)
        await add(pane, pilot, lines)
        await pilot.press("enter")
        await until(pilot, lambda: '"reward": 0.25' in screen_text(app))
        assert "Line 5 of 6" in screen_text(app)
        await pilot.press("K")
        await until(pilot, lambda: "Line 3 of 6" in screen_text(app))
        assert '"deep": [1, 2]' in screen_text(app)
        await pilot.press("K", "J", "J", "enter")
        await until(pilot, lambda: not app.screen.is_modal)
        assert pane.lines.here == 4, "the line that was shown is marked"
        await pilot.press("enter")
        await until(pilot, lambda: '"reward": 0.25' in screen_text(app))
