"""Long logs, charts under the cursor, and runs whose machine is away, on the screen."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import tmux_world
from tui import test_run as runs

from hudtui.core.remote.host import Disconnected
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.status import RunView
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.view import LogView
from hudtui.tui.runs.logs import OPENING_LINES, RunLogs
from hudtui.tui.runs.words import alarm_lines, head, log_names
from hudtui.tui.widgets.charts import ChartLine, curves
from hudtui.tui.widgets.metrics_pane import MetricsPane
from hudtui.tui.widgets.tables import Grid

own_tmux = tmux_world.own_tmux


async def until(pilot: Any, done: Callable[[], bool]) -> None:
    for _ in range(1_500):
        if done():
            return
        await pilot.pause(0.02)
    shown = "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
    raise AssertionError(f"it did not come to that: {pilot.app.screen.message}\n{shown}")


def in_sight(log: LogView) -> list[str]:
    lines = log.query_one(LogLines)
    return [log.buffer.text(number) for number in lines.page()]


async def test_g_leads_to_the_first_line_of_a_long_log(open_app: Any, project: Path, screen_text: Any) -> None:
    count = 3 * OPENING_LINES
    runs.make_run(project, "long-aaaa", "finished", log="".join(f"line {n}\n" for n in range(count)))
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        assert len(log.buffer) == OPENING_LINES and log.before and "kB before this" in screen_text(app)
        log.search("line 17")
        await until(pilot, lambda: "“line 17”: not found  in these 2 000 lines" in screen_text(app))
        await pilot.press("enter", "g")
        await until(pilot, lambda: len(log.buffer) == count and bool(in_sight(log)) and in_sight(log)[0] == "line 0")
        assert not log.before and "before this" not in screen_text(app)
        log.search("line 17")
        await until(pilot, lambda: "line 17" in in_sight(log) and "“line 17”: 1 of" in screen_text(app))
        await pilot.press("G")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))


async def test_of_a_log_longer_than_the_pane_both_ends_are_shown(open_app: Any, project: Path, screen_text: Any) -> None:
    count = 3 * OPENING_LINES
    runs.make_run(project, "long-aaaa", "finished", log="".join(f"line {n}\n" for n in range(count)))
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: f"line {count - 1}" in screen_text(app))
        log = app.screen.query_one(RunLogs).main
        log.buffer.cap = 4_000
        await pilot.press("enter", "g")
        await until(pilot, lambda: log.after and bool(in_sight(log)) and in_sight(log)[0] == "line 0")
        await until(pilot, lambda: len(log.buffer) == 4_000)
        await until(pilot, lambda: "beginning of the log; G: its end" in screen_text(app))
        assert not log.buffer.dropped
        await pilot.press("G")
        await until(pilot, lambda: not log.after and f"line {count - 1}" in screen_text(app))


async def test_the_first_line_of_a_log_of_others(open_app: Any, project: Path, screen_text: Any) -> None:
    path, count = project / "their.log", 6_000
    path.write_text("".join(f"line {n}\n" for n in range(count)))
    async with open_app(project) as (app, pilot):
        app.open_screen("watch", file=str(path))
        await until(pilot, lambda: app.screen.NAME == "watch" and f"line {count - 1}" in screen_text(app))
        await until(pilot, lambda: "kB before this" in screen_text(app))
        await pilot.press("g")
        await until(pilot, lambda: any(line == "line 0" for log in app.screen.logs.by_source.values() for line in in_sight(log)))


async def test_another_log_may_be_chosen_at_any_moment(open_app: Any, project: Path, screen_text: Any) -> None:
    for name in ("a.log", "b.log"):
        (project / name).write_text(f"this is {name}\n")
    async with open_app(project) as (app, pilot):
        app.open_screen("watch")
        await until(pilot, lambda: app.screen.NAME == "watch")
        for turn in range(30):
            app.open_screen("watch", file=str(project / ("a.log" if turn % 2 else "b.log")))
            await pilot.pause()
        await until(pilot, lambda: "this is a.log" in screen_text(app))
        assert len(app.screen.query(LogView)) == 1


@pytest.mark.parametrize("key", ["m", "escape"])
async def test_one_chart_alone_and_all_again(open_app: Any, project: Path, screen_text: Any, key: str) -> None:
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    async with open_app(project, size=(160, 48)) as (app, pilot):
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


def rows_of(*values: float, **more: Any) -> list[str]:
    """The rows of a chart's curves, above its x axis."""
    drawn = curves([ChartLine(tuple((float(x), y) for x, y in enumerate(values)))], 30, 7, **more)
    return drawn.plain.split("\n")[:-1]


def test_a_scale_that_is_known_is_kept() -> None:
    rows = rows_of(43.0, 44.0, 43.0, scale=(0.0, 100.0))
    assert rows[0].startswith("100 ┤") and rows[-1].startswith("  0 ┤")
    assert not rows[0][5:].strip() and not rows[-1][5:].strip() and rows[3][5:].strip(), "43 % lies in the middle"
    rows = rows_of(0.0, 0.0, scale=(0.0, None))
    assert rows[-1].startswith("  0 ┤") and rows[-1][5:].strip() and not rows[2][5:].strip(), "nothing lies on the floor"
    assert rows_of(90.0, 120.0, scale=(0.0, 100.0))[0].startswith("120 ┤")


def test_what_adding_up_leaves_over_is_flat() -> None:
    noisy = [0.001 + math.sin(x) * 1e-18 for x in range(50)]
    rows = rows_of(*noisy)
    assert sum(bool(row[10:].strip()) for row in rows[1:]) == 1
    [labelled] = [row for row in rows[1:] if "┤" in row]
    assert labelled.startswith("0.001 ┤") and labelled[7:].strip(), "the value stands beside the curve"


def test_the_newest_value_lies_within_the_axis() -> None:
    assert rows_of(0.1, 0.2, last=0.65)[0].startswith("0.7 ┤")


async def test_a_long_alarm_is_told_as_a_whole(open_app: Any, project: Path) -> None:
    from hudtui.core.runs.alarms import Alarm

    fix = "Lower batch_size (and raise gradient_accumulation), max_seq_len or num_generations; gradient_checkpointing on."
    told = "\n".join(
        line.plain for line in alarm_lines([Alarm("memory", "error", "train ran out of memory: " + "x " * 60, fix)], 60)
    )
    assert " ".join(told.split()).endswith(fix) and all(len(line) <= 60 for line in told.split("\n"))


def test_the_head_says_for_how_long_nothing_was_heard() -> None:
    from hudtui.core.runs.values import RunSummary

    run = RunSummary("a", "a", "trl", "box", "/f", state="running", started=1.0)
    told = head(RunView(run, elapsed=60.0, away=34.0, problem="status.json of the machine is not readable"), 80, None).plain
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
    async with open_app(project, size=(160, 48)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "● running" in screen_text(app) and "begun" in screen_text(app))
        cut = True
        await until(pilot, lambda: screen_text(app).count("no contact for") == 2)  # of the run, and of its log
        cut = False
        with (project / ".hudtui" / "runs" / "live-aaaa" / "events.jsonl").open("a") as stream:
            stream.write(json.dumps({"seq": 9, "at": runs.NOW - 10, "type": "finished", "data": {}}) + "\n")
        await until(pilot, lambda: app.screen.view.summary.state == "finished" and "no contact" not in screen_text(app))


async def test_a_run_that_could_not_be_looked_at_is_tried_again(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.make_run(project, "live-aaaa", "finished", log="begun\n")
    for module in ("screen", "logs"):
        monkeypatch.setattr(f"hudtui.tui.runs.{module}._AGAIN", 0.1)
    cut = True
    look = LocalHost.stat

    async def stat(host: LocalHost, path: Any) -> Any:
        if cut:
            raise Disconnected("the connection was lost")
        return await look(host, path)

    monkeypatch.setattr(LocalHost, "stat", stat)
    async with open_app(project, size=(160, 48)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "the connection was lost" in app.screen.message)
        cut = False
        await until(pilot, lambda: "begun" in screen_text(app) and "reward 0.438" in screen_text(app))
        await until(pilot, lambda: app.screen.message == "")


async def test_the_result_of_a_training_is_shown_step_by_step(open_app: Any, project: Path, screen_text: Any) -> None:
    runs.make_training(project, "train-cccc", "grpo lora 8", seed=1)
    async with open_app(project, size=(160, 48)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "step 60/100" in screen_text(app))
        app.screen.query_one("#run-tabs").active = "result"
        table = app.screen.query_one("#run-result", Grid)
        await until(pilot, lambda: table.row_count == 60)
        assert str(table.get_row_at(59)[0]) == "60" and float(str(table.get_row_at(59)[1])) == pytest.approx(
            app.screen.view.result.steps[-1].reward, abs=0.001
        )
        assert [str(column.label) for column in table.columns.values()] == ["step", "reward", "±", "loss", "tokens", "seconds"]


def test_names_of_logs_hold_nothing_that_a_terminal_would_obey() -> None:
    """A machine names the stages of its runs."""
    told = log_names(["play\x1b[2J", "long" * 40], "play").plain
    assert "\x1b" not in told
    assert len(told) < 90
