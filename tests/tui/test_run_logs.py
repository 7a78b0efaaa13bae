"""Long logs, charts under the cursor, and runs whose machine is away, on the screen."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from support import tmux_world
from support.waiting import told, until
from tui import test_run as runs

from hudtui.core.remote import log_search
from hudtui.core.remote.host import Disconnected
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.status import RunView
from hudtui.core.training.axes import value_axis
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.reading import OPENING_LINES
from hudtui.tui.log.view import LogView
from hudtui.tui.runs.logs import RunLogs
from hudtui.tui.runs.words import alarm_lines, head, log_names
from hudtui.tui.widgets.charts import ChartLine, draw
from hudtui.tui.widgets.metrics_pane import MetricsPane
from hudtui.tui.widgets.virtual_table import VirtualTable

own_tmux = tmux_world.own_tmux


def in_sight(log: LogView) -> list[str]:
    lines = log.query_one(LogLines)
    return [log.buffer.text(number) for number in lines.page()]


async def test_g_leads_to_the_first_line_of_a_long_log(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    count = 3 * OPENING_LINES
    runs.make_run(
        project, "long-aaaa", "finished", log="".join(f"line {n}\n" for n in range(count))
    )
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        assert (
            len(log.buffer) == OPENING_LINES and log.before and "kB before this" in screen_text(app)
        )
        await pilot.press("enter", "g")
        await until(
            pilot,
            lambda: (
                len(log.buffer) == count and bool(in_sight(log)) and in_sight(log)[0] == "line 0"
            ),
        )
        assert not log.before and "before this" not in screen_text(app)
        assert "new" not in screen_text(app), "what was read again is not new"
        log.search("line 17")
        await until(
            pilot, lambda: "line 17" in in_sight(log) and "“line 17”: 1 of" in screen_text(app)
        )
        await pilot.press("G")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))


def numbers(log: LogView) -> list[int]:
    """The numbers in the lines that a log pane holds."""
    return [
        int(log.buffer.raw(number).split()[1]) for number in range(log.buffer.first, log.buffer.end)
    ]


async def test_the_whole_log_is_searched(open_app: Any, project: Path, screen_text: Any) -> None:
    count = 5 * OPENING_LINES
    text = "".join(f"line {n}{' here' if n % 3_000 == 17 else ''}\n" for n in range(count))
    runs.make_run(project, "long-aaaa", "finished", log=text)
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        await pilot.press("enter", "slash", *"here", "enter")
        await until(pilot, lambda: "“here”: 4 of 4" in screen_text(app))
        assert "line 9017 here" in screen_text(app), "the first one in the lines that are there"
        assert len(log.buffer) == OPENING_LINES, "the rest of the log is not fetched"
        for key, place, line in (
            ("N", 3, 6017),
            ("N", 2, 3017),
            ("n", 3, 6017),
            ("n", 4, 9017),
            ("n", 1, 17),
            ("N", 4, 9017),
        ):
            await pilot.press(key)
            await until(pilot, lambda place=place: f"“here”: {place} of 4" in screen_text(app))  # type: ignore[misc]
            assert f"line {line} here" in in_sight(log)
        await pilot.press("slash", *"ctrl", "enter")
        await until(pilot, lambda: "“ctrl”: not found" in screen_text(app))


async def test_the_keys_of_matches_are_those_of_the_screen_until_something_is_searched_for(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    runs.make_run(
        project,
        "long-aaaa",
        "finished",
        log="".join(f"line {n} {'hit' if n % 2 else ''}\n" for n in range(10)),
    )
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "line 9" in screen_text(app))
        log, screen = app.screen.query_one(RunLogs).main, app.screen

        async def in_the_log(*keys: str) -> None:
            await until(pilot, lambda: app.screen is screen)
            log.focus()
            await until(pilot, lambda: app.focused is log.lines)
            await pilot.press(*keys)

        await in_the_log("n")
        await until(pilot, lambda: app.screen.NAME == "launch")
        await pilot.press("escape")
        await in_the_log("N")
        await until(pilot, lambda: "Previous match: search first" in screen.message)
        await in_the_log("slash", *"hit", "enter")
        await until(pilot, lambda: "“hit”: 1 of 5" in screen_text(app))
        await pilot.press("n")
        await until(pilot, lambda: "“hit”: 2 of 5" in screen_text(app))
        await pilot.press(
            "slash", *["backspace"] * 3, "enter", "n"
        )  # an empty text ends the search
        await until(pilot, lambda: app.screen.NAME == "launch")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)
        screen.pane.turn_to("events")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "run-events")
        await pilot.press("n")
        await until(pilot, lambda: app.screen.NAME == "launch")


async def test_a_match_outside_of_the_lines_that_are_there_is_gone_to(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    text = "".join(f"line {n} {'seed' if n == 5 else 'loss'}\n" for n in range(3 * OPENING_LINES))
    runs.make_run(project, "long-aaaa", "finished", log=text)
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {3 * OPENING_LINES - 1}" in screen_text(app))
        await pilot.press("enter", "slash", *"seed", "enter")
        await until(
            pilot,
            lambda: "line 5 seed" in screen_text(app) and "“seed”: 1 of 1" in screen_text(app),
        )


async def test_a_long_search_is_cancelled(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.make_run(
        project,
        "long-aaaa",
        "finished",
        log="".join(f"line {n} loss\n" for n in range(3 * OPENING_LINES)),
    )
    waits, ended = asyncio.Event(), asyncio.Event()
    run, asked = LocalHost.run, 0

    async def slow(host: LocalHost, argv: Any, **more: Any) -> Any:
        nonlocal asked
        asked += "grep" in str(argv)
        if asked == 2:
            try:
                await waits.wait()
            finally:
                ended.set()
        return await run(host, argv, **more)

    monkeypatch.setattr(LocalHost, "run", slow)
    monkeypatch.setattr(log_search, "SPAN", 1_295)  # the first hundred lines
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "line 5999" in screen_text(app))
        await pilot.press("enter", "slash", *"loss", "enter")
        await until(
            pilot,
            lambda: (
                "of 2 100+" in screen_text(app) and "bytes of the log searched" in screen_text(app)
            ),
        )
        await pilot.press("ctrl+x")
        await until(pilot, ended.is_set)
        await until(pilot, lambda: "of the log searched" not in screen_text(app))
        assert "of 2 100 " in screen_text(app)


async def test_scrolling_up_reads_earlier_lines(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    count = 3 * OPENING_LINES
    runs.make_run(
        project, "long-aaaa", "finished", log="".join(f"line {n}\n" for n in range(count))
    )
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        await pilot.press("enter")
        for page in (2, 3):
            log.lines.scroll_home(animate=False)
            await pilot.press("up")
            await until(pilot, lambda page=page: len(log.buffer) == page * OPENING_LINES)  # type: ignore[misc]
            assert in_sight(log)[0] == f"line {count - (page - 1) * OPENING_LINES}", (
                "what was in sight stays"
            )
            assert numbers(log) == list(range(count - page * OPENING_LINES, count))
            await pilot.press("k")
            await until(
                pilot,
                lambda page=page: (
                    in_sight(log)[0] == f"line {count - (page - 1) * OPENING_LINES - 1}"
                ),
            )  # type: ignore[misc]
        assert not log.before and "before this" not in screen_text(app)
        log.lines.scroll_home(animate=False)
        await pilot.press("k", "pageup")
        assert numbers(log) == list(range(count))


async def test_earlier_lines_join_those_that_are_held(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    """Also where a log grows so fast that its pane has let lines go."""
    runs.make_run(project, "live-aaaa", "running", log="".join(f"line {n}\n" for n in range(3_000)))
    path = project / ".hudtui" / "runs" / "live-aaaa" / "logs" / "play.log"
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "line 2999" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        log.buffer.cap = 6_000
        for start in range(3_000, 9_000, 1_000):
            with path.open("a") as stream:
                stream.write("".join(f"line {n}\n" for n in range(start, start + 1_000)))
            await until(pilot, lambda start=start: numbers(log)[-1] == start + 999)  # type: ignore[misc]
        assert log.buffer.dropped and log.before
        await pilot.press("enter")
        log.lines.scroll_home(animate=False)
        first = numbers(log)[0]
        await pilot.press("pageup")
        await until(pilot, lambda: numbers(log)[0] < first)
        await until(pilot, lambda: f"line {first}" in in_sight(log))
        held = numbers(log)
        assert held == list(range(held[0], held[0] + len(held))), (
            "nothing is missing, and nothing twice"
        )


async def test_of_a_log_longer_than_the_pane_both_ends_are_shown(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    count = 3 * OPENING_LINES
    runs.make_run(
        project, "long-aaaa", "finished", log="".join(f"line {n}\n" for n in range(count))
    )
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        log.buffer.cap = 4_000
        await pilot.press("enter", "g")
        await until(
            pilot, lambda: log.after and bool(in_sight(log)) and in_sight(log)[0] == "line 0"
        )
        await until(pilot, lambda: len(log.buffer) == 4_000)
        await until(pilot, lambda: "beginning of the log; G: its end" in screen_text(app))
        assert not log.buffer.dropped
        await pilot.press("G")
        await until(pilot, lambda: not log.after and f"line {count - 1}" in screen_text(app))


async def test_the_first_line_of_a_log_of_others(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    path, count = project / "their.log", 6_000
    path.write_text("".join(f"line {n}\n" for n in range(count)))
    async with open_app(project) as (app, pilot):
        app.open_screen("run", file=str(path))
        await until(
            pilot, lambda: app.screen.NAME == "run" and f"line {count - 1}" in screen_text(app)
        )
        await until(pilot, lambda: "kB before this" in screen_text(app))
        await pilot.press("g")
        await until(
            pilot,
            lambda: any(line == "line 0" for line in in_sight(app.screen.logs.main)),
        )


async def test_another_log_may_be_chosen_at_any_moment(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    for name in ("a.log", "b.log"):
        (project / name).write_text(f"this is {name}\n")
    async with open_app(project) as (app, pilot):
        app.open_screen("run")
        await until(pilot, lambda: app.screen.NAME == "run")
        for turn in range(30):
            app.open_screen("run", file=str(project / ("a.log" if turn % 2 else "b.log")))
            await pilot.pause()
        await until(pilot, lambda: "this is a.log" in screen_text(app))
        assert len(app.screen.query(LogView)) == 1


@pytest.mark.parametrize("key", ["m", "escape"])
async def test_one_chart_alone_and_all_again(
    open_app: Any, project: Path, screen_text: Any, key: str
) -> None:
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "step 60/100" in screen_text(app))
        await pilot.press("m")
        await until(pilot, lambda: "entropy" in screen_text(app))
        await pilot.press("down", "v")
        await until(pilot, lambda: "entropy" not in screen_text(app))
        assert "loss" in screen_text(app)
        await pilot.press("down")
        await until(pilot, lambda: "loss" not in screen_text(app) and "entropy" in screen_text(app))
        await pilot.press("up", "v")
        await until(pilot, lambda: "entropy" in screen_text(app))
        await pilot.press("v")
        await until(pilot, lambda: "entropy" not in screen_text(app))
        await pilot.press(key)
        if key == "m":
            await pilot.pause()
            await pilot.press(key)
        await until(pilot, lambda: "entropy" in screen_text(app))
        assert app.screen.query_one("#run-metrics", MetricsPane).has_focus_within
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.runs.has_focus_within)


def rows_of(*values: float, last: float | None = None, **scale: Any) -> list[str]:
    """The rows of a chart's curves, above its x axis."""
    axis = value_axis([*values, *([] if last is None else [last])], **scale)
    line = ChartLine(tuple((float(x), y) for x, y in enumerate(values)))
    width = axis.label_width(6)
    drawn = draw([line], 28 - width, 6, axis, (0.0, len(values) - 1.0))
    return [row.plain for row in drawn.lines(width)]


def test_a_scale_that_is_known_is_kept() -> None:
    rows = rows_of(43.0, 44.0, 43.0, scale=(0.0, 100.0))
    assert rows[0].startswith("100 ┤") and rows[-1].startswith("  0 ┤")
    assert not rows[0][5:].strip() and not rows[-1][5:].strip() and rows[3][5:].strip(), (
        "43 % lies in the middle"
    )
    rows = rows_of(0.0, 0.0, scale=(0.0, None))
    assert rows[-1].startswith("  0 ┤") and rows[-1][5:].strip() and not rows[2][5:].strip(), (
        "nothing lies on the floor"
    )
    assert rows_of(90.0, 120.0, scale=(0.0, 100.0))[0].startswith("120 ┤")


def test_what_adding_up_leaves_over_is_flat() -> None:
    noisy = [0.001 + math.sin(x) * 1e-18 for x in range(50)]
    rows = rows_of(*noisy)
    assert sum(bool(row[10:].strip()) for row in rows[1:]) == 1
    [labelled] = [row for row in rows[1:] if "┤" in row]
    assert labelled.startswith("0.001 ┤") and labelled[7:].strip(), (
        "the value stands beside the curve"
    )


def test_the_newest_value_lies_within_the_axis() -> None:
    assert rows_of(0.1, 0.2, last=0.65)[0].startswith("0.7 ┤")


async def test_a_long_alarm_is_told_as_a_whole(open_app: Any, project: Path) -> None:
    from hudtui.core.diagnosis.facts import Alarm

    fix = (
        "Lower batch_size (and raise gradient_accumulation), max_seq_len or num_generations; "
        "gradient_checkpointing on."
    )
    told = "\n".join(
        line.plain
        for line in alarm_lines(
            [Alarm("memory", "error", "train ran out of memory: " + "x " * 60, fix)], 60
        )
    )
    assert " ".join(told.split()).endswith(fix) and all(
        len(line) <= 60 for line in told.split("\n")
    )


def test_the_head_says_for_how_long_nothing_was_heard() -> None:
    from hudtui.core.runs.values import RunSummary

    run = RunSummary("a", "a", "trl", "box", "/f", state="running", started=1.0)
    told = head(
        RunView(run, elapsed=60.0, away=34.0, problem="status.json of the machine is not readable"),
        80,
        None,
    ).plain
    assert "no contact for 34s" in told and "! status.json of the machine is not readable" in told


async def test_a_machine_that_was_away_is_live_again(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.make_run(project, "live-aaaa", "running", log="begun\n")
    monkeypatch.setattr("hudtui.core.runs.watch._LATE", 0.1)
    cut = False
    look = LocalHost.stat

    async def stat(host: LocalHost, path: Any) -> Any:
        if cut:
            raise Disconnected("the connection was lost")
        return await look(host, path)

    monkeypatch.setattr(LocalHost, "stat", stat)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "● running" in screen_text(app) and "begun" in screen_text(app))
        cut = True
        await until(
            pilot, lambda: screen_text(app).count("no contact for") == 2
        )  # of the run, and of its log
        cut = False
        with (project / ".hudtui" / "runs" / "live-aaaa" / "events.jsonl").open("a") as stream:
            stream.write(
                json.dumps({"seq": 9, "at": runs.NOW - 10, "type": "finished", "data": {}}) + "\n"
            )
        await until(
            pilot,
            lambda: (
                app.screen.view.summary.state == "finished" and "no contact" not in screen_text(app)
            ),
        )


async def test_a_run_that_could_not_be_looked_at_is_tried_again(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.make_run(project, "live-aaaa", "finished", log="begun\n")
    for module in ("runs.screen", "log.reading"):
        monkeypatch.setattr(f"hudtui.tui.{module}._AGAIN", 0.1)
    cut = True
    look = LocalHost.stat

    async def stat(host: LocalHost, path: Any) -> Any:
        if cut:
            raise Disconnected("the connection was lost")
        return await look(host, path)

    monkeypatch.setattr(LocalHost, "stat", stat)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: told(app, "the connection was lost"))
        cut = False
        await until(
            pilot, lambda: "begun" in screen_text(app) and "reward 0.438" in screen_text(app)
        )
        await until(pilot, lambda: app.screen.message == "")


async def test_the_result_of_a_training_is_shown_step_by_step(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "step 60/100" in screen_text(app))
        app.screen.query_one("#run-tabs").active = "result"
        await until(pilot, lambda: len(app.screen.query("#run-result")) == 1)
        table = app.screen.query_one("#run-result", VirtualTable)
        await until(pilot, lambda: table.count == 60)
        assert table.rows.cells(59)[0] == "60" and float(
            str(table.rows.cells(59)[1])
        ) == pytest.approx(app.screen.view.result.steps[-1].reward, abs=0.001)
        assert [column.title for column in table.columns] == [
            "step",
            "reward",
            "±",
            "loss",
            "tokens",
            "seconds",
        ]


def test_dozens_of_logs_take_two_lines_around_the_one_that_is_shown() -> None:
    names = [f"{stage}-{node}" for node in range(16) for stage in ("nodes", "model", "train")]
    for shown in (names[0], names[20], names[-1]):
        told = log_names(names, shown, 78)
        assert shown in told.plain and told.cell_length <= 2 * 78
        assert told.plain.startswith("…") == (shown != names[0])
        assert told.plain.endswith("more") == (shown != names[-1])
    assert log_names(names[:9], names[0], 78).plain == "  ".join(names[:9])


def test_names_of_logs_hold_nothing_that_a_terminal_would_obey() -> None:
    """A machine names the stages of its runs."""
    told = log_names(["play\x1b[2J", "long" * 40], "play", 120).plain
    assert "\x1b" not in told
    assert len(told) < 90
