from __future__ import annotations

import asyncio
import json
import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from support import tmux_world
from support.runs import NOW, make_run
from support.waiting import screen_text, until

from hudtui.core.compute.values import Offer, Price
from hudtui.core.plain import to_plain
from hudtui.core.process import machine_label
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.launch import launch, stop_run
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.plan import FileRef, Plan, Stage
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.app import HudtuiApp
from hudtui.tui.log.lines import LogLines
from hudtui.tui.log.view import LogView
from hudtui.tui.notification import notification
from hudtui.tui.runs.screen import RunScreen
from hudtui.tui.runs.words import event_cells
from hudtui.tui.screen import TOGETHER
from hudtui.tui.services import Services
from hudtui.tui.widgets.dialog import Ask
from hudtui.tui.widgets.virtual_table import VirtualTable

own_tmux = tmux_world.own_tmux

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def make_training(
    project: Path, run: str, name: str, *, seed: int, engine: str = "rollouts"
) -> None:
    """A training of 60 steps that was stopped, with numbers as TRL writes them."""
    draw = random.Random(seed)
    rows, lines = [], []
    for step in range(1, 61):
        reward = 1 - math.exp(-step / (15 * seed)) + draw.gauss(0, 0.05)
        row = {
            "step": step,
            "max_steps": 100,
            "time": NOW - 3600 + 30 * step,
            "reward": reward,
            "reward_std": 0.3 / step**0.3,
        }
        row |= {
            "loss": draw.gauss(0, 0.02),
            "kl": 0.0005 * step,
            "entropy": 2 - step / 60,
            "learning_rate": 1e-5 * min(step / 10, 1),
        }
        row |= {
            "tokens_per_s": 1400 + draw.gauss(0, 60),
            "step_time": 28 + draw.random() * 4,
            "clip_ratio": draw.random(),
        }
        row |= {"completions/mean_length": 240 - step}
        rows.append(row)
        lines.append(f"step {step}/100 reward={reward:.4g} loss={row['loss']:.4g}\n")
    make_run(
        project,
        run,
        "stopped",
        name=name,
        why="stopped by the user",
        log="".join(lines),
        rows=rows,
        engine=engine,
    )


LOG = "".join(
    f"12:00:{n:02} episode {n}/40 task=board-{n} reward=0.{n:02} turns=20 stop=done\n"
    for n in range(1, 41)
)


def _app(project: Path) -> HudtuiApp:
    return HudtuiApp(project, services=Services(now=lambda: NOON))


@pytest.fixture
def runs(project: Path) -> Path:
    make_run(project, "demo-aaaa", "finished", name="demo", log=LOG)
    make_run(
        project,
        "2048-bbbb",
        "failed",
        why="the stage play ended with status 1",
        log="12:00:00 start\nERROR: no \x1b[31mserver\x07\n",
    )
    return project


async def test_without_a_run_the_screen_says_how_one_is_started(says: Any, project: Path) -> None:
    words = "No run yet. n starts one; o follows one of others; R shows episodes without a run"
    await says(_app(project), words, press=["5"])


async def test_reading_is_said(says: Any, runs: Path, reading_app: Any) -> None:
    async def show(pilot: Any) -> None:
        pilot.app.open_screen("run")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen))

    await says(reading_app(runs), "Reading the runs …", run_before=show, wait=False)


async def test_a_store_that_cannot_be_read_is_said(says: Any, project: Path) -> None:
    (project / ".hudtui").mkdir()
    (project / ".hudtui" / "runs.db").write_bytes(b"this is no database" * 100)
    words = (
        "No run can be shown. .hudtui/runs.db: the list of runs is damaged hudtui doctor shows "
        "details"
    )
    await says(_app(project), words, press=["5"])


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_full(snap: Any, runs: Path, size: tuple[int, int]) -> None:
    async def wait(pilot: Any) -> None:
        await _drawn(pilot, "demo-aaaa", "episode 40/40")

    assert snap(_app(runs), size=size, press=["5", "down"], run_before=wait)


async def test_one_run_on_a_narrow_terminal(says: Any, runs: Path) -> None:
    async def wait(pilot: Any) -> None:
        await pilot.press("enter")
        await _drawn(pilot, "2048-bbbb", "no server")

    words = (
        "2048 greedy · step 6 · 0.438 · 1m 00s",
        "✗ failed reward 0.438 12 episodes, 1 broken off",
        "the stage play ended with status 1",
        "Curves Log Machine Result Events Plan Settings",
        "12:00:00 start ERROR: no server",
        "■ end of log 2 lines",
    )
    await says(_app(runs), *words, press=["5"], run_before=wait)


async def test_the_result_of_a_run_is_a_row_for_each_task(says: Any, runs: Path) -> None:
    async def wait(pilot: Any) -> None:
        await _drawn(pilot, "demo-aaaa", "episode 40/40")
        pilot.app.screen.query_one("#run-tabs").active = "result"
        await _drawn(pilot, "demo-aaaa", "episode 40/40")

    words = (
        "demo · step 6 · 0.438 · 1m 00s",
        "✓ finished",
        "reward 0.438 12 episodes, 1 broken off",
        "task reward ± episodes turns errors",
        "board-1 0.125 0.100 2 10",
        "board-3 0.375 0.100 2 30 1",
        "board-6 0.750 0.100 2 60",
    )
    await says(_app(runs), *words, size=(120, 35), press=["5", "down"], run_before=wait)


def test_picture_of_metrics(snap: Any, project: Path, size: tuple[int, int]) -> None:
    make_training(project, "train-cccc", "grpo lora 8", seed=1)
    make_training(project, "train-dddd", "grpo lora 16", seed=2)

    async def wait(pilot: Any) -> None:
        await _drawn(pilot, "train-cccc", "step 60/100")
        await pilot.press("c")
        assert "The run is marked" in pilot.app.screen.message
        await pilot.press("down")
        await _drawn(pilot, "train-dddd", "step 60/100")
        await pilot.press("m", "u")
        await _drawn(pilot, "train-dddd", "step 60/100")

    assert snap(_app(project), size=size, press=["5"], run_before=wait)


async def _drawn(pilot: Any, run: str, text: str) -> None:
    """Wait until all of a run that has ended is on the screen: list, head, result, log with
    `text`."""
    last = None
    for _ in range(1_500):
        screen = pilot.app.screen
        pane = screen.query_one(LogView)
        lines = pane.query_one(LogLines)
        view, shown = screen.view, pane.buffer.everything()
        if (
            view is not None
            and view.summary.id == screen.chosen == run
            and all(
                table.count == len(view.result.rows or view.result.steps)
                for table in screen.query("#run-result").results(VirtualTable)
                if screen.pane.tab == "result"
            )
            and text in shown
            and pane.pending == 0
            and lines.scroll_offset.y == lines.max_scroll_y
            and not any(
                worker.group in ("watch", "log") and worker.is_running
                for worker in pilot.app.workers
            )
            and all(run in screen._views for run in screen.rows)
        ):
            if (now := screen_text(pilot.app)) == last:
                return
            last = now
        else:
            last = None
        await pilot.pause(0.02)
    place = f"{lines.scroll_offset} of {lines.max_scroll_y}"
    raise AssertionError(
        f"{run} was not drawn: {screen.view}; {place}; {text!r} in {shown[-200:]!r}; "
        f"{screen.message}"
    )


async def _log_of(app: Any, text: str = "") -> str:
    """The log pane's text as soon as it holds `text` and the run was looked at."""
    for _ in range(1_000):
        shown: str = app.screen.query_one(LogView).buffer.everything()
        if shown and text in shown and app.screen.view is not None:
            return shown
        await asyncio.sleep(0.02)
    raise AssertionError(
        f"{text!r} did not appear in {shown!r}; {app.screen.view}; {app.screen.message}"
    )


@pytest.mark.defect
async def test_what_keeps_the_list_from_being_looked_at_is_told(
    open_app: Any, project: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(screen: RunScreen, view: Any) -> None:
        raise ZeroDivisionError("a defect")

    make_run(project, "a-1", "finished")
    make_run(project, "b-1", "finished")
    async with open_app(project) as (app, pilot):
        app.open_screen("run")
        await settle(pilot)
        monkeypatch.setattr(RunScreen, "_see", broken)
        app.screen.workers.cancel_group(app.screen, "watch")
        app.screen._views.clear()
        while "hudtui made a mistake here" not in app.screen.message:
            await pilot.pause(0.05)


async def test_remote_text_is_harmless(open_app: Any, runs: Path) -> None:
    async with open_app(runs) as (app, pilot):
        await pilot.press("5")
        shown = await _log_of(app, "ERROR")
        assert "ERROR: no server" in shown and "\x1b" not in shown and "\x07" not in shown


def test_a_screen_that_is_still_being_made_is_shown_later() -> None:
    screen = RunScreen()  # `5` may come before the first look at the project has ended
    screen.show_facts()
    screen.show_frame()


async def test_moving_in_the_list_shows_the_other_run(
    open_app: Any, runs: Path, settle: Any
) -> None:
    async with open_app(runs) as (app, pilot):
        await pilot.press("5")
        await _log_of(app, "ERROR")
        await pilot.press("down")
        await _log_of(app, "episode 40/40")
        assert app.screen.chosen == "demo-aaaa"
        app.screen.pane.turn_to("result")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "run-result")
        table = app.screen.query_one("#run-result", VirtualTable)
        assert table.count == 6 and table.rows.cells(2)[1] == "0.375"


async def test_what_has_ended_has_neither_limits_nor_a_terminal(open_app: Any, runs: Path) -> None:
    async with open_app(runs) as (app, pilot):
        await pilot.press("5")
        await _log_of(app, "ERROR")
        await pilot.press("b")
        assert "ended already: failed" in app.screen.message
        await pilot.press("t")
        assert "so has its session" in app.screen.message


@pytest.fixture
def workspace(project: Path) -> Path:
    """A demo workspace with one small task."""
    (project / "configs").mkdir()
    (project / "configs" / "2048.yaml").write_text(
        "job: {name: test}\n"
        "system_prompt: |\n  Play. <tool>move('left')</tool> <tool>done()</tool>\n"
        "action_mappings:\n  move: {_tool: move, _parser: {positional: [direction]}, direction: "
        "{from_arg: direction}}\n"
        "rubric: {weights: {task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}}\n"
        "defaults: {max_turns: 5}\n"
    )
    task = {
        "id": "small",
        "prompt": "Play.",
        "mcp_config": {
            "text-2048": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 1}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }
    (project / "tasks.json").write_text(json.dumps([task]))
    return project


async def test_a_run_is_started_and_followed_to_its_end(
    open_app: Any, workspace: Path, settle: Any
) -> None:
    async with open_app(workspace) as (app, pilot):
        await pilot.press("5", "n")
        await settle(pilot)
        await pilot.pause(0.4)
        await settle(pilot)
        assert app.screen.NAME == "launch" and app.screen.record is not None
        await pilot.press("ctrl+g")
        await settle(pilot)
        for _ in range(300):
            if app.screen.NAME == "run":
                break
            await pilot.pause(0.05)
        shown = await _log_of(app, "end episodes=1/1")
        assert "task=small" in shown
        for _ in range(300):
            if app.screen.view.summary.state == "finished":
                break
            await pilot.pause(0.05)
        assert app.screen.view.summary.state == "finished"
        assert app.screen.view.result.episodes == 1


async def test_a_run_survives_the_app_and_can_be_stopped_by_the_next(
    open_app: Any, workspace: Path, settle: Any
) -> None:
    text = (
        (workspace / "configs" / "2048.yaml")
        .read_text()
        .replace("max_turns: 5", "max_turns: 100000")
    )
    (workspace / "configs" / "2048.yaml").write_text(text)
    tasks = json.loads((workspace / "tasks.json").read_text())
    (workspace / "tasks.json").write_text(
        json.dumps([{**tasks[0], "id": f"t{n}"} for n in range(200)])
    )
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", limit="", policy="random")
        await until(pilot, lambda: "Ready" in screen_text(app))
        await settle(pilot)
        await pilot.press("ctrl+g")
        for _ in range(400):
            if app.screen.NAME == "run" and app.screen.chosen:
                break
            await pilot.pause(0.05)
        await _log_of(app, "start episodes=200")
        run = app.screen.chosen
    async with open_app(workspace) as (app, pilot):
        await pilot.press("5")
        await _log_of(app, "start episodes=200")
        assert app.screen.chosen == run and app.screen.view.summary.state == "running"
        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        sentence = "is stopped; none of its processes is running."
        await until(pilot, lambda: any(sentence in words for _, _, words in app.messages))


async def test_what_is_wrong_is_said_before_anything_starts(
    open_app: Any, workspace: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", config="configs/none.yaml")
        await until(pilot, lambda: "there is no such file" in screen_text(app))
        app.open_screen("launch", config="configs/2048.yaml", group="many")
        await pilot.pause(0.5)
        await settle(pilot)
        assert "'many' is not a number" in screen_text(app)
        await pilot.press("ctrl+g")
        assert "something is missing" in app.screen.message
        (workspace / "configs" / "odd.yaml").write_text(
            "action_mappings: {wait: {_tool: wait, _parser: {positional: []}}}\n"
        )
        app.open_screen("launch", config="configs/odd.yaml", policy="greedy", group="")
        await pilot.pause(0.5)
        await settle(pilot)
        assert "the policy greedy cannot play with this configuration" in screen_text(app)


def test_curve() -> None:
    assert sparkline([], 10) == "" and sparkline([1.0], 0) == ""
    assert sparkline([0, 1, 2, 3], 4) == "▁▃▆█"
    assert sparkline([5, 5, 5], 2) == "▄▄"
    assert sparkline(list(range(100)), 8) == "▁▂▃▄▅▆▇█"


async def test_two_runs_are_compared(open_app: Any, project: Path, screen_text: Any) -> None:
    make_training(project, "train-cccc", "grpo lora 8", seed=1)
    make_training(project, "train-dddd", "grpo lora 16", seed=2)
    async with open_app(project, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        await _drawn(pilot, "train-cccc", "step 60/100")
        assert "60/100" in screen_text(app)
        await pilot.press("c", "down")
        await _drawn(pilot, "train-dddd", "step 60/100")
        assert "◆ grpo lora 8" in screen_text(app)
        await pilot.press("m")
        await _drawn(pilot, "train-dddd", "step 60/100")
        shown = screen_text(app)
        assert (
            "━ grpo lora 16  ━━ grpo lora 8" in shown
            and "reward std" in shown
            and "O: 1 more" not in shown
        )
        await pilot.press("A", "O")
        await _drawn(pilot, "train-dddd", "step 60/100")
        shown = screen_text(app)
        assert "by time" in shown and "29m 30s" in shown and "O: 1 more" in shown
        app.screen.action_refresh()
        app.screen._show_curves()
        assert "━━ grpo lora 8" in screen_text(app), "a compared run stays until it is read again"
        await pilot.press("v")
        await _drawn(pilot, "train-dddd", "step 60/100")
        assert "reward std" not in screen_text(app)
        await pilot.press("escape", "escape", "up")
        await _drawn(pilot, "train-cccc", "step 60/100")
        await pilot.press("c")
        await _drawn(pilot, "train-cccc", "step 60/100")
        assert "◆" not in screen_text(app)


async def test_a_run_is_renamed(open_app: Any, project: Path, screen_text: Any) -> None:
    make_training(project, "train-cccc", "grpo lora 8", seed=1)
    async with open_app(project, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        await _drawn(pilot, "train-cccc", "step 60/100")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("end", "ctrl+u", *"warmer", "enter")
        await until(pilot, lambda: "warmer" in screen_text(app) and not isinstance(app.screen, Ask))
        assert RunStore(project / ".hudtui").summary("train-cccc").name == "warmer"
        await pilot.press("d")
        await until(pilot, lambda: "there is no earlier run" in screen_text(app))


async def test_marked_runs_are_tagged_and_archived(
    open_app: Any, runs: Path, screen_text: Any
) -> None:
    async with open_app(runs, size=(120, 35)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "2 runs" in screen_text(app) and app.screen.view is not None)
        await pilot.press("asterisk", "number_sign")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press(*"old paper", "enter")
        await until(pilot, lambda: "#old #paper" in screen_text(app))
        await pilot.press("slash", *"tag:old", "enter")
        await until(pilot, lambda: "2 marked · 2 of 2 runs" in screen_text(app))
        await pilot.press("Z")
        await until(
            pilot,
            lambda: (
                "2 archived" in screen_text(app) and "All runs are archived" in screen_text(app)
            ),
        )
        assert "2 runs are archived; U lists archived runs" in app.screen.message
        await pilot.press("U")
        await until(
            pilot, lambda: "demo" in screen_text(app) and "2 archived" not in screen_text(app)
        )
        second = app.screen.runs.listed[1].summary.id
        await pilot.press("home", "down", "Z", "U")
        await until(pilot, lambda: "1 archived" in screen_text(app))
        listed = [row.summary.id for row in app.screen.runs.listed]
        assert listed == [second], "the run under the cursor, also while another one is still shown"
        store = RunStore(runs / ".hudtui")
        assert sorted((run.tags, run.hidden) for run in store.runs()) == [
            (("old", "paper"), False),
            (("old", "paper"), True),
        ]
        (hidden,) = [run.id for run in store.runs() if run.hidden]
        app.open_screen("run", run=hidden)
        await until(pilot, lambda: app.screen.runs.row.summary.id == hidden)


async def test_settings_of_two_runs_are_compared(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    make_training(project, "train-cccc", "grpo lora 8", seed=1)
    make_training(project, "train-dddd", "grpo lora 16", seed=2)
    store = RunStore(project / ".hudtui")
    other = store.record("train-dddd")
    later = replace(
        other,
        id="train-eeee",
        name="種を変えた学習",
        created=NOW,
        spec=replace(other.spec, seed=7),
        folder=f"{other.folder}-e",
    )
    store.add(later)
    async with open_app(project, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        await until(
            pilot,
            lambda: app.screen.view is not None and app.screen.view.summary.id == "train-eeee",
        )
        await pilot.press("d")
        await until(pilot, lambda: "Differences in the settings" in screen_text(app))
        shown = screen_text(app)
        head = next(line for line in shown.splitlines() if "種を変えた学習  grpo lora 8" in line)
        row = next(line for line in shown.splitlines() if " seed " in line)
        column = cell_len(head[: head.index("grpo lora 8")])
        assert cell_len(row[: row.index(" - ") + 1]) == column, "columns are measured in cells"
        assert [cell for cell in row.split() if cell in ("7", "-")] == ["7", "-"]
        await until(pilot, lambda: "grpo lora 16" in screen_text(app))  # of the list behind it


async def test_what_is_wrong_is_told(open_app: Any, project: Path, screen_text: Any) -> None:
    log = (
        "loading\ntorch.OutOfMemoryError: CUDA out of \x1b[31mmemory\x1b[0m. Tried to allocate 2 "
        "GiB\n"
    )
    rows = [{"step": 1, "reward": 0.5, "loss": 0.1}, {"step": 2, "reward": 0.5, "loss": math.nan}]
    make_run(
        project,
        "bad-eeee",
        "failed",
        name="too large",
        why="the stage play ended with status 1",
        log=log,
        rows=rows,
    )
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await _drawn(pilot, "bad-eeee", "Tried to allocate")
        shown = screen_text(app)
        assert "! play ran out of memory: torch.OutOfMemoryError: CUDA out of memory." in shown
        assert "Lower batch_size" in shown and "! loss is NaN or infinite since step 2" in shown
        await until(pilot, lambda: "■ end of log" in screen_text(app))


async def test_an_acknowledged_alarm_is_said_to_be_one(says: Any, project: Path) -> None:
    _worried(project)

    async def show(pilot: Any) -> None:
        await _drawn(pilot, "live-aaaa", "episode 40/40")
        await pilot.press("K")
        await until(pilot, lambda: not pilot.app.screen.view.open_alarms)
        await _drawn(pilot, "live-aaaa", "episode 40/40")
        pilot.app.screen.panes.open(pilot.app.screen.pane)

    words = (
        "grpo · step 5 · 0.500 · 1m 00s",
        "✗ failed reward 0.500 step 5",
        "acknowledged: loss is NaN or infinite since step 3",
        "✓ 1 alarm is acknowledged; K undoes that.",
    )
    await says(_app(project), *words, press=["5"], run_before=show)


def _worried(project: Path) -> None:
    rows = [
        {"step": step, "reward": 0.5, "loss": math.nan if step > 2 else 0.1} for step in range(1, 6)
    ]
    make_run(
        project,
        "live-aaaa",
        "failed",
        name="grpo",
        why="the stage play ended with status 1",
        log=LOG,
        rows=rows,
    )


async def test_alarms_are_acknowledged_by_a_key(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    _worried(project)
    async with open_app(project, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        await until(pilot, lambda: "! loss is NaN or infinite since step 3" in screen_text(app))
        await pilot.press("K")
        await until(
            pilot, lambda: "acknowledged: loss is NaN or infinite since step 3" in screen_text(app)
        )
        assert "! loss" not in screen_text(app) and "The weights are lost" not in screen_text(app)
        await until(pilot, lambda: "1 alarm is acknowledged; K undoes that." in screen_text(app))
        await pilot.press("K")
        await until(pilot, lambda: "! loss is NaN or infinite since step 3" in screen_text(app))
        make_run(project, "fine-bbbb", "finished", name="fine")
        app.reload(everything=True)
        await until(pilot, lambda: "fine" in screen_text(app))
        app.screen.opened(run="fine-bbbb")
        await until(
            pilot, lambda: app.screen.view is not None and app.screen.view.summary.id == "fine-bbbb"
        )
        await pilot.press("K")
        await until(pilot, lambda: "Acknowledge: the run has no alarm" in screen_text(app))


async def test_the_header_counts_no_acknowledged_alarm(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    rows = [{"step": step, "reward": 0.5, "loss": math.nan} for step in range(1, 6)]
    make_run(project, "live-aaaa", "running", name="grpo", log=LOG, rows=rows)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await until(pilot, lambda: " alarm" in screen_text(app).splitlines()[0])
        await pilot.press("5")
        await until(pilot, lambda: "! loss is NaN" in screen_text(app))
        await pilot.press("K")
        await until(pilot, lambda: " alarm" not in screen_text(app).splitlines()[0])
        assert "acknowledged: loss is NaN or infinite since step 1" in screen_text(app)


async def test_the_end_of_a_run_is_told_on_another_screen(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(project, "live-aaaa", "running")
    monkeypatch.setattr("hudtui.tui.app.EVERY", 0.1)
    monkeypatch.setattr("hudtui.tui.progress.SHOWN", 0.1)
    rung: list[bool] = []
    async with open_app(project, size=(120, 35)) as (app, pilot):
        monkeypatch.setattr(app, "bell", lambda: rung.append(True))
        app.action_desktop()
        sent: list[str] = []
        monkeypatch.setattr(app._driver, "write", sent.append)
        await until(pilot, lambda: "live-aaaa" in app.progress.found)
        assert not rung
        RunStore(project / ".hudtui").append("live-aaaa", "finished")
        await until(pilot, lambda: "2048 greedy: finished, reward 0.438" in screen_text(app))
        assert rung == [True]
        assert sent.count(notification("2048 greedy: finished, reward 0.438")) == 1


async def test_the_command_of_the_user_is_started_at_the_end_of_a_run(
    open_app: Any,
    project: Path,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    make_run(project, "live-aaaa", "running")
    make_run(project, "live-bbbb", "running")
    told = project / "told.jsonl"
    monkeypatch.setenv(
        "HUDTUI_NOTIFY_COMMAND", f"sh -c 'cat >>\"$0\"; echo no room >&2; exit 3' '{told}'"
    )
    monkeypatch.setattr("hudtui.tui.app.EVERY", 0.1)
    monkeypatch.setattr("hudtui.tui.progress.SHOWN", 0.1)

    def heard() -> list[str]:
        return (
            [json.loads(line)["text"] for line in told.read_text().splitlines()]
            if told.exists()
            else []
        )

    async with open_app(project, size=(120, 35)) as (app, pilot):
        await until(pilot, lambda: len(app.progress.found) == 2)
        store = RunStore(project / ".hudtui")
        store.append("live-aaaa", "failed", {"why": "out of memory"})
        await until(
            pilot, lambda: "the command of HUDTUI_NOTIFY_COMMAND failed" in screen_text(app)
        )
        assert heard() == ["2048 greedy: failed, reward 0.438"]
        app.say("something else")
        store.append("live-bbbb", "stopped")
        await until(
            pilot,
            lambda: len(heard()) == 2 and not any(one.group == "notify" for one in app.workers),
        )
        assert "NOTIFY" not in app.screen.message, "it is said once"
        assert [event.data for event in store.events("live-bbbb") if event.type == "notified"] == [
            {"about": "the end"}
        ]
    assert (
        caplog.messages.count("the command of HUDTUI_NOTIFY_COMMAND failed: status 3: no room") == 2
    )


def test_a_notification_is_what_the_terminal_understands() -> None:
    assert notification("a\x1b]0;b\a", {}) == "\x1b]9;hudtui: a\a"
    assert notification("a; b", {"TERM": "rxvt-unicode"}) == "\x1b]777;notify;hudtui;a; b\a"
    assert (
        notification("a", {"TMUX": "x", "TERM": "tmux"}) == "\x1bPtmux;\x1b\x1b]9;hudtui: a\a\x1b\\"
    )


# -- several stages, the machine, events
# ---------------------------------------------------------------------------------


@pytest.fixture
def staged(project: Path) -> Path:
    """A run of three stages that has ended, with the GPUs that were seen."""
    store = RunStore(project / ".hudtui")
    folder = store.folder / "grpo-1"
    plan = Plan(
        "trl",
        tuple(
            Stage(name, ("true",), service=name == "serve") for name in ("setup", "serve", "train")
        ),
    )
    spec = RunSpec("trl", "grpo", str(project))
    store.add(
        RunRecord(
            "grpo-1", NOW - 120, "grpo", "trl", "local", machine_label(), str(folder), spec, plan
        )
    )
    (folder / "logs").mkdir(parents=True)
    for name, text in (
        ("setup", "installed all\n"),
        ("serve", "INFO the model is served\n"),
        ("train", "step 1/2 loss=0.5\n"),
    ):
        (folder / "logs" / f"{name}.log").write_text(text)
    events: list[dict[str, Any]] = [
        {"seq": 1, "at": NOW - 100, "type": "started", "data": {"mode": "tmux", "run": "grpo-1"}}
    ]
    for place, name in enumerate(("setup", "serve", "train")):
        data = {"stage": name, "attempt": 1}
        events.append(
            {"seq": place + 2, "at": NOW - 99 + place, "type": "stage_started", "data": data}
        )
    events.append(
        {"seq": 5, "at": NOW - 40, "type": "note", "data": {"message": "careful \x1b]0;x\x07now"}}
    )
    events.append({"seq": 6, "at": NOW - 40, "type": "finished", "data": {}})
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    stages = {
        name: {"state": "ended", "attempt": 1, "exit": 0} for name in ("setup", "serve", "train")
    }
    (folder / "status.json").write_text(
        json.dumps({"run": "grpo-1", "state": "finished", "stages": stages})
    )
    gpus: list[dict[str, Any]] = [
        {
            "at": NOW - 100 + 10 * n,
            "gpus": [
                {
                    "index": 0,
                    "utilization": 50 + 5 * n,
                    "used_mib": 1024 * n,
                    "memory_mib": 81559,
                    "celsius": 60 + n,
                    "watts": 402.5,
                },
                {
                    "index": 1,
                    "utilization": 90,
                    "used_mib": 80_000,
                    "memory_mib": 81559,
                    "celsius": None,
                    "watts": None,
                },
            ],
        }
        for n in range(1, 7)
    ]
    load = {
        "cpus": 16,
        "memory_total": 128 * 2**30,
        "disk_used": 310e9,
        "disk_total": 750e9,
        "disk_free": 402e9,
        "sent": 1.2e6,
    }
    gpus += [
        {
            "at": NOW - 99 + 10 * n,
            "machine": load | {"cpu": 5.0 * n, "memory_used": n * 10 * 2**30, "received": n * 1e6},
        }
        for n in range(1, 7)
    ]
    (folder / "gpu.jsonl").write_text("".join(json.dumps(row) + "\n" for row in gpus))
    store.mirror("grpo-1", events)
    return project


@pytest.mark.parametrize(
    ("kind", "data", "words"),
    [
        (
            "stage_ended",
            {"stage": "play", "attempt": 1, "exit": 0, "by": "itself", "max_rss_kib": 8},
            "stage play ends",
        ),
        (
            "stage_ended",
            {"stage": "play", "exit": 3, "by": "itself"},
            "stage play ends with exit code 3",
        ),
        (
            "stage_ended",
            {"stage": "play", "exit": None, "by": "limit"},
            "stage play ends: its time is over",
        ),
        (
            "stage_started",
            {"stage": "serve", "attempt": 2, "pid": 7},
            "stage serve starts, attempt 2",
        ),
        (
            "step",
            {"name": "collect", "seconds": 12.3, "files": 4},
            "the results are fetched after 12 s",
        ),
        ("step", {"name": "folder", "seconds": 0.01}, "the run's folder is created"),
        (
            "failed",
            {"why": "train failed", "exits": {"train": 1}},
            "the run has failed: train failed",
        ),
        ("machine", {"kind": "never"}, "the machine was never created"),
        ("step", {"name": ["x"], "seconds": "y"}, "['x']"),
    ],
)
def test_an_event_is_a_sentence_without_numbers_of_processes(
    kind: str, data: dict[str, Any], words: str
) -> None:
    assert event_cells(RunEvent("r", 1, NOW, kind, data))[2] == words


async def test_events_are_told_in_words(open_app: Any, staged: Path, screen_text: Any) -> None:
    async with open_app(staged, size=(120, 35)) as (app, pilot):
        await pilot.press("5")
        await _log_of(app, "step 1/2")
        await pilot.press("h")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "run-events")
        table = app.screen.query_one("#run-events", VirtualTable)
        rows = [list(table.rows.cells(place)[1:]) for place in range(table.count)]
        assert rows[0] == ["hudtui", "the run is planned"] and rows[1] == [
            "machine",
            "the run is started in tmux",
        ]
        assert ["machine", "stage train starts"] in rows and ["machine", "careful now"] in rows
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.is_modal and rows[-1][1] in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.is_modal)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: app.focused is not None and app.focused.id == "run-plan")
        await until(
            pilot,
            lambda: (
                "machine    this machine, free" in screen_text(app)
                and "serve      true" in screen_text(app)
            ),
        )


async def test_events_and_the_plan_are_searched(
    open_app: Any, staged: Path, screen_text: Any
) -> None:
    async with open_app(staged, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: getattr(app.screen, "view", None) is not None)
        app.screen.pane.turn_to("events")
        await until(
            pilot, lambda: getattr(app.focused, "id", "") == "run-events" and app.focused.count > 1
        )
        await pilot.press("slash", *"STARTS", "enter")
        await until(pilot, lambda: "search “STARTS”: not found" in screen_text(app))
        await pilot.press("slash", *"starts", "enter", "n")
        await until(pilot, lambda: "search “starts”: 2 of" in screen_text(app))
        assert "starts" in app.focused.rows.cells(app.focused.cursor)[2]
        await pilot.press("right_square_bracket", "slash", *"engine", "enter")  # in one burst
        await until(pilot, lambda: "search “engine”: 1 of 1" in screen_text(app))


async def test_the_plan_of_a_run_stays_while_its_first_view_is_late(
    open_app: Any, staged: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    view, may_come = Monitor.view, asyncio.Event()

    async def late(self: Monitor, run: str, **options: Any) -> Any:
        await may_come.wait()
        return await view(self, run, **options)

    async with open_app(staged, size=(120, 35)) as (app, pilot):
        monkeypatch.setattr(Monitor, "view", late)
        await pilot.press("5")
        await until(pilot, lambda: app.screen.chosen is not None)
        app.screen.pane.turn_to("plan")
        await until(pilot, lambda: "serve      true" in screen_text(app))
        await pilot.pause(5 * TOGETHER)
        assert "serve      true" in screen_text(app) and app.screen.view is None
        may_come.set()
        await until(pilot, lambda: app.screen.view is not None)
        assert "serve      true" in screen_text(app)


@pytest.fixture
def trained(project: Path) -> Path:
    """A training that was stopped, with settings of its own."""
    make_training(project, "train-cccc", "grpo lora 8", seed=1)
    store = RunStore(project / ".hudtui")
    record = store.record("train-cccc")
    spec = RunSpec(
        "trl",
        record.name,
        "/work/project",
        model="Qwen/Qwen2.5-7B-Instruct",
        tasks=FileRef("/work/project/tasks.json", 2048, "ab" * 32),
        config=FileRef("/work/project/configs/2048.yaml", 512, "cd" * 32),
        training={"learning_rate": 2e-5, "temperature": 0.7},
        variables={"MY_DSN": "hunter2"},
        steps=60,
    )
    first, *others = record.plan.stages
    plan = replace(record.plan, stages=(replace(first, env={"MY_DSN": "hunter2"}), *others))
    later = replace(
        record,
        id="train-dddd",
        created=NOW,
        engine="trl",
        spec=spec,
        plan=plan,
        name="grpo lora 16",
    )
    store.add(later)
    store.append("train-dddd", "stopped", {"why": "on request"})
    return project


def test_picture_of_the_settings(snap: Any, trained: Path, size: tuple[int, int]) -> None:
    async def show(pilot: Any) -> None:
        await until(pilot, lambda: pilot.app.screen.view is not None)
        pilot.app.screen.pane.turn_to("settings")
        pilot.app.screen.panes.open(pilot.app.screen.pane)
        await until(pilot, lambda: "learning_rate" in screen_text(pilot.app) or size[1] < 35)
        await until(pilot, lambda: "Qwen2.5" in screen_text(pilot.app))

    assert snap(_app(trained), size=size, press=["5"], run_before=show)


async def test_the_plan_of_a_run_masks_what_its_settings_mask(
    open_app: Any, trained: Path, screen_text: Any
) -> None:
    async with open_app(trained, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        await until(
            pilot,
            lambda: app.screen.view is not None and app.screen.view.summary.id == "train-dddd",
        )
        app.screen.pane.turn_to("plan")
        await until(pilot, lambda: "MY_DSN=••••" in screen_text(app))
        assert "hunter2" not in screen_text(app)


async def test_the_settings_of_a_run_are_filtered_and_copied(
    open_app: Any, trained: Path, screen_text: Any
) -> None:
    async with open_app(trained, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        await until(
            pilot,
            lambda: app.screen.view is not None and app.screen.view.summary.id == "train-dddd",
        )
        assert not app.screen.query("#run-settings"), "made when it is shown first"
        await until(pilot, lambda: "diagnosis" in app.screen.pane.names)
        await pilot.press("tab", *["left_square_bracket"] * 3)
        await until(pilot, lambda: "warmup_steps" in screen_text(app))
        assert "2e-05 (default 5e-06)" in screen_text(app) and "hunter2" not in screen_text(app)
        rows = [" ".join(line.split()) for line in screen_text(app).splitlines()]
        assert any("tasks.size 2.0 KiB" in row for row in rows) and any(
            "config.size 512 B" in row for row in rows
        )
        await until(pilot, lambda: app.focused is app.screen.query_one("#run-settings").table)
        await pilot.press("slash", *"changed:yes temperature", "enter")
        await until(
            pilot,
            lambda: (
                "warmup_steps" not in screen_text(app) and "0.7 (default 1.0)" in screen_text(app)
            ),
        )
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard == "0.7")
        await pilot.press("Y")
        await until(pilot, lambda: app.clipboard == "temperature=0.7")
        await pilot.press("enter")
        await until(pilot, lambda: "Temperature of the sampling" in screen_text(app))
        await pilot.press("escape", "slash", *"x:", "enter")
        await until(pilot, lambda: "there is no field" in screen_text(app))
        await pilot.press("slash", "escape", "tab", "down")
        await until(
            pilot,
            lambda: app.screen.view is not None and app.screen.view.summary.id == "train-cccc",
        )
        await until(
            pilot,
            lambda: "greedy" in screen_text(app) and "num_generations" not in screen_text(app),
        )


@pytest.mark.parametrize("size", [(120, 35)])
def test_picture_of_the_machine(snap: Any, staged: Path, size: tuple[int, int]) -> None:
    async def ready(pilot: Any) -> None:
        await pilot.press("5")
        await _drawn(pilot, "grpo-1", "step 1/2")
        await pilot.press("right_square_bracket")
        await _drawn(pilot, "grpo-1", "step 1/2")

    assert snap(_app(staged), size=size, run_before=ready)


@pytest.mark.parametrize("size", [(160, 45)])
def test_picture_of_the_heat_maps(snap: Any, staged: Path, size: tuple[int, int]) -> None:
    async def ready(pilot: Any) -> None:
        await pilot.press("5")
        await _drawn(pilot, "grpo-1", "step 1/2")
        await pilot.press("enter", "right_square_bracket")
        await _drawn(pilot, "grpo-1", "step 1/2")
        await pilot.press("H")
        await until(pilot, lambda: "0 is 0, 9 is 100" in screen_text(pilot.app))

    assert snap(_app(staged), size=size, run_before=ready)


async def test_the_machine_is_a_row_for_each_of_its_parts(
    open_app: Any, staged: Path, screen_text: Any
) -> None:
    async with open_app(staged, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await _drawn(pilot, "grpo-1", "step 1/2")
        await pilot.press("right_square_bracket")
        await _drawn(pilot, "grpo-1", "step 1/2")
        lines = str(app.screen.query_one("#machine-rows").content).splitlines()
        told = {line.split("  ")[0]: " ".join(line.split()) for line in lines}
        assert "When the run ended:" in told
        first, second = told["GPU 0"], told["GPU 1"]
        assert (
            "80 %" in first
            and "6.0/80 GiB" in first
            and "66 °C" in first
            and "402 W" in first
            and "▅▅▆" in first
        )
        assert "90 %" in second and "78/80 GiB" in second and "°C" not in second
        assert "30 %" in told["CPU"] and "16 processors" in told["CPU"]
        assert "47 % 60/128 GiB" in told["memory"] and "41 % 289/698 GiB, 374 free" in told["disk"]
        assert "6.0 MB/s in, 1.2 MB/s out" in told["network"]
        shown = screen_text(app)
        assert "GPU utilization %" in shown and "GPU memory GiB" in shown and "GPU power W" in shown
        await pilot.press("left")
        await pilot.pause()
        assert "GPU utilization % GPU 0 80 · GPU 1 90" in screen_text(app)


async def test_others_are_a_key_away(open_app: Any, project: Path, screen_text: Any) -> None:
    async with open_app(project) as (app, pilot):
        await pilot.press("5", "o")
        for _ in range(500):
            if app.screen.is_modal:
                break
            await pilot.pause(0.02)
        assert "External run on this machine" in screen_text(app)


# -- the list as a tool
# --------------------------------------------------------------------------------------------------


def names(app: Any) -> list[str]:
    return [row.summary.id for row in app.screen.runs.listed]


@pytest.fixture
def many(project: Path) -> Path:
    """Three runs of different states, rewards and engines."""
    make_run(project, "one-aaaa", "finished", name="base line", log="one\n")
    make_training(project, "two-bbbb", "grpo lora 8", seed=1)
    make_run(
        project,
        "bad-cccc",
        "failed",
        name="too large",
        why="out of memory",
        rows=[{"step": 1, "reward": 0.1}],
        log="bad\n",
    )
    return project


async def test_the_list_is_filtered_and_sorted(open_app: Any, many: Path, screen_text: Any) -> None:
    async with open_app(many, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: len(getattr(app.screen, "_views", ())) == 3)
        await pilot.press("slash", *"state:failed")
        await until(pilot, lambda: names(app) == ["bad-cccc"])
        await pilot.press("escape")
        await until(pilot, lambda: len(names(app)) == 3)
        await pilot.press("slash", *"memory", "enter")
        await until(pilot, lambda: names(app) == ["bad-cccc"] and "1 of 3" in screen_text(app))
        await pilot.press("slash", "escape")
        await until(pilot, lambda: len(names(app)) == 3)
        while app.screen.runs.sort != "reward":
            await pilot.press("s")
        assert names(app)[0] == "bad-cccc"
        await pilot.press("S")
        assert names(app)[-1] == "bad-cccc"


async def test_a_held_key_moves_the_cursor_and_the_run_follows_when_it_rests(
    open_app: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudtui.tui.screen.REST", 60.0)  # the keys of a busy machine are far apart
    async with open_app(many, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: len(getattr(app.screen, "_views", ())) == 3)
        first, chosen = app.screen.chosen, []
        choose = RunScreen._choose
        monkeypatch.setattr(
            RunScreen, "_choose", lambda screen, run: (chosen.append(run), choose(screen, run))
        )
        await pilot.press("down", "down")
        assert app.screen.chosen == first and app.screen.runs.table.cursor == 2
        monkeypatch.setattr("hudtui.tui.screen.REST", 0.1)
        await pilot.press("up")
        await until(pilot, lambda: app.screen.chosen == names(app)[1])
        assert chosen == [names(app)[1]]


async def test_a_run_that_has_ended_is_deleted_after_a_question(
    open_app: Any, many: Path, settle: Any
) -> None:
    async with open_app(many, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await _log_of(app, "bad")
        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("escape")
        await until(pilot, lambda: not app.screen.is_modal)
        assert len(RunStore(many / ".hudtui").runs()) == 3
        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(
            pilot,
            lambda: (
                not app.screen.is_modal and "bad-cccc" not in names(app) and len(names(app)) == 2
            ),
        )
        assert not (many / ".hudtui" / "runs" / "bad-cccc").exists()
        await until(pilot, lambda: app.screen.chosen in names(app))


async def test_marked_runs_are_deleted_together_after_one_question(
    open_app: Any, many: Path, settle: Any, screen_text: Any
) -> None:
    make_run(many, "now-dddd", "running", name="at work")
    async with open_app(many, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: len(getattr(app.screen, "_views", ())) == 4)
        order = names(app)
        await pilot.press("space", "space", "space", "space")  # in a burst, before a run is shown
        assert app.screen.runs.marked == tuple(order)
        await until(pilot, lambda: "4 marked" in screen_text(app))
        await pilot.press("x")
        await until(pilot, lambda: "now-dddd (at work, running)" in app.screen.message)
        assert len(RunStore(many / ".hudtui").runs()) == 4
        await pilot.press("escape")
        assert app.screen.NAME == "run" and not app.screen.runs.marked
        await pilot.press("slash", *"!state:running !state:failed", "enter", "asterisk")
        await until(pilot, lambda: set(app.screen.runs.marked) == {"one-aaaa", "two-bbbb"})
        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        await settle(pilot)
        assert "Remove 2 runs?" in screen_text(app) and "grpo lora 8" in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: not app.screen.is_modal and not names(app))
        assert {run.id for run in RunStore(many / ".hudtui").runs()} == {"bad-cccc", "now-dddd"}


async def test_removing_runs_whose_machine_is_slow_is_cancelled(
    open_app: Any, many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any, **__: Any) -> tuple[str, ...]:
        return await asyncio.Event().wait() or ()

    monkeypatch.setattr("hudtui.core.flows.remove.remove_run", never)
    async with open_app(many, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await _log_of(app, "bad")
        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(pilot, lambda: "Removing too large (^x cancels)" in app.screen.message)
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "Cancelled." in app.screen.message)
        assert len(names(app)) == 3


async def test_a_run_that_another_program_starts_appears(open_app: Any, many: Path) -> None:
    async with open_app(many, services=Services(now=lambda: NOON)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: len(getattr(app.screen, "_views", ())) == 3)
        make_run(many, "new-dddd", "finished", name="of a command")
        await until(pilot, lambda: "new-dddd" in names(app))


async def test_a_run_is_started_again_and_continued_by_keys(
    open_app: Any, workspace: Path, settle: Any
) -> None:
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", limit="", policy="random")
        await until(pilot, lambda: "Ready" in screen_text(app))
        await settle(pilot)
        await pilot.press("ctrl+g")
        for _ in range(400):
            if (
                app.screen.NAME == "run"
                and app.screen.view is not None
                and app.screen.view.summary.state == "finished"
            ):
                break
            await pilot.pause(0.05)
        first = app.screen.chosen
        store = RunStore(workspace / ".hudtui")
        for key, before in (("a", 1), ("C", 2)):
            if key == "C":
                await until(pilot, lambda: not app.screen.view.summary.active)
                await pilot.press(key)
                await until(pilot, lambda: "has played all of its episodes" in app.screen.message)
                metrics = Path(store.record(app.screen.chosen).folder) / "out" / "metrics.jsonl"
                metrics.write_text(
                    "".join(metrics.read_text().splitlines(keepends=True)[:-1])
                )  # an episode is left
            for _ in range(
                50
            ):  # the list may learn a moment later than the pane that the run has ended
                await pilot.press(key)
                await pilot.pause(0.3)
                if app.screen.is_modal:
                    break
            assert app.screen.is_modal
            await pilot.press("y")
            for _ in range(400):
                runs = store.runs()
                if (
                    len(runs) == before + 1
                    and not any(run.active for run in runs)
                    and not app.screen.is_modal
                ):
                    break
                await pilot.pause(0.05)
            assert len(store.runs()) == before + 1
            await until(
                pilot,
                lambda: app.screen.chosen == store.runs()[-1].id and app.screen.view is not None,
            )
        last = store.record(store.runs()[-1].id)
        assert last.spec.continues is not None and last.spec.continues.run != first


async def test_results_are_fetched_by_a_key(open_app: Any, project: Path) -> None:
    make_run(project, "far-aaaa", "finished", log=LOG)
    store, results = RunStore(project / ".hudtui"), project / "results"
    spec = replace(store.record("far-aaaa").spec, output_dir=str(results))
    with store.database.writing() as database:
        database.execute("UPDATE runs SET spec = ?", (json.dumps(to_plain(spec)),))
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.screen.view is not None)
        for fetched in (True, False):  # what is here already is not fetched again
            await pilot.press("p")
            await until(pilot, lambda: f"bytes into {results}/far-aaaa" in app.screen.message)
            assert app.screen.message.endswith("; all of them were here already") != fetched, (
                app.screen.message
            )
            await pilot.press("r")
    there = store.folder / "far-aaaa"
    for name in ("out/metrics.jsonl", "logs/play.log"):
        assert (results / "far-aaaa" / name).read_text() == (there / name).read_text()


async def test_a_run_that_only_played_has_no_model_to_export(
    open_app: Any, runs: Path, screen_text: Any
) -> None:
    async with open_app(runs, size=(120, 35)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.screen.view is not None)
        await pilot.press("E")
        await until(pilot, lambda: "trains no model" in screen_text(app))
        assert not app.screen.is_modal


@pytest.mark.parametrize("simulated", [True, False])
async def test_the_cost_of_a_run_says_whether_it_is_simulated(
    open_app: Any, project: Path, screen_text: Any, simulated: bool
) -> None:
    offer = Offer("prime", "x", "H100_80GB", 1, Price(2.0, "EUR"))
    rent = Rental("prime", "hudtui-rented", offer, 2.0, "EUR", simulated=simulated)
    make_run(project, "rented-aaaa", "finished", name="rented", rent=rent)
    store = RunStore(project / ".hudtui")
    store.append(
        "rented-aaaa",
        "machine",
        {"kind": "intended", "hourly": 2.0, "currency": "EUR"},
        at=NOW - 120,
    )
    store.append("rented-aaaa", "machine", {"kind": "released", "billed": 1.5}, at=NOW - 30)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(
            pilot,
            lambda: app.screen.view is not None and "€1.50" in str(app.screen.pane.border_title),
        )
        assert ("(simulated)" in str(app.screen.pane.border_title)) is simulated
        await pilot.press("z")  # in the whole width the list has a column for it
        await until(pilot, lambda: "cost" in screen_text(app) and "€1.50" in screen_text(app))
        assert ("€1.50 sim" in screen_text(app)) is simulated
        await pilot.press("z", "escape")
        await until(
            pilot, lambda: "Recent runs" in screen_text(app) and "€1.50" in screen_text(app)
        )
        assert ("€1.50 sim" in screen_text(app)) is simulated


async def test_a_narrow_list_stays_in_front_after_a_rename_and_its_curves_come_at_once(
    open_app: Any, runs: Path
) -> None:
    async with open_app(runs, size=(80, 24)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.screen.view is not None)
        run = app.screen
        for key in ("m", "escape", "m"):
            await pilot.press(key)
        assert run.pane.display and run.pane.tab == "metrics", (
            "the key that shows curves does not take them away unseen"
        )
        await pilot.press("escape", "e")
        await until(pilot, lambda: isinstance(app.screen, Ask))
        await pilot.press("end", "ctrl+u", *"warmer", "enter")
        await until(
            pilot, lambda: app.screen is run and run.message == "2048 greedy is renamed to warmer."
        )
        assert run.runs.display and run.runs.has_focus_within


async def test_a_model_is_exported_by_keys(open_app: Any, project: Path, settle: Any) -> None:
    make_training(project, "train-cccc", "grpo lora 8", seed=1, engine="trl")
    folder = RunStore(project / ".hudtui").folder / "train-cccc"
    (folder / "out" / "model").mkdir()
    (folder / "out" / "model" / "adapter_model.safetensors").write_bytes(b"weights")
    (folder / "out" / "model" / "adapter_config.json").write_text('{"r": 8}')
    (folder / "files").mkdir()
    (folder / "files" / "recipe.json").write_text('{"model": "Qwen/Qwen2.5-3B-Instruct"}')
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.screen.view is not None)
        await pilot.press("E")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("enter")  # as it was trained
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, Ask)
                and app.screen.query_one("Input").value.startswith("exports/")
            ),
        )
        await pilot.press("end", "ctrl+u", *"out of it", "enter")
        await until(
            pilot, lambda: isinstance(app.screen, Ask) and not app.screen.query_one("Input").value
        )
        await pilot.press("enter")  # not to the Hub
        await until(pilot, lambda: "The model is in" in getattr(app.screen, "message", ""))
        assert "serve it: vllm serve Qwen/Qwen2.5-3B-Instruct" in app.screen.message
        assert (project / "out of it" / "adapter_model.safetensors").read_bytes() == b"weights"
        await pilot.press("E")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("escape")
        await settle(pilot)
        assert not app.screen.is_modal


async def test_the_time_of_a_run_is_limited_by_keys(open_app: Any, project: Path) -> None:
    store = RunStore(project / ".hudtui")
    plan = Plan("rollouts", (Stage("play", ("sleep", "600"), grace=1.0),))
    spec = RunSpec("rollouts", "endless", str(project))
    record = RunRecord(
        "endless-1",
        NOW,
        "endless",
        "rollouts",
        "local",
        machine_label(),
        str(store.folder / "endless-1"),
        spec,
        plan,
    )
    async for _ in launch(record, LocalHost(), store, tmux=False):
        pass
    try:
        async with open_app(project, size=(160, 45)) as (app, pilot):
            await pilot.press("5")
            await until(
                pilot,
                lambda: app.screen.view is not None and app.screen.view.summary.state == "running",
            )
            await pilot.press("b")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            await pilot.press("end", "ctrl+u", *"many", "enter")
            assert "'many' is not a limit" in str(app.screen.query_one("#answer-wrong").content)
            await pilot.press("end", "ctrl+u", "2", "enter")
            await until(pilot, lambda: "Limits: " in getattr(app.screen, "message", ""))
            assert "2 h" in app.screen.message or "2 hours" in app.screen.message
            await pilot.press("b")
            await until(pilot, lambda: isinstance(app.screen, Ask))
            assert app.screen.query_one("Input").value == "2", "the limit that holds now"
            await pilot.press("escape")
        assert json.loads((store.folder / "endless-1" / "limits.json").read_text()) == {
            "max_seconds": 7200
        }
    finally:
        await stop_run("endless-1", LocalHost(), store, grace=0.0)


async def test_ages_go_on_in_a_wide_list(open_app: Any, many: Path, screen_text: Any) -> None:
    now = [NOON]
    async with open_app(many, services=Services(now=lambda: now[0])) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: len(getattr(app.screen, "_views", ())) == 3)
        await pilot.press("z")
        await until(pilot, lambda: screen_text(app).count("1 min ago") == 3)
        now[0] = NOON + timedelta(minutes=15)
        await until(pilot, lambda: screen_text(app).count("16 min ago") == 3)


async def test_episodes_without_a_run_are_shown(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    from support.played import played, task, write

    write(project / "outputs" / "played" / "traces.jsonl", played(task("near")))
    async with open_app(project) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "R shows episodes without a run" in screen_text(app))
        await pilot.press("R")
        await until(pilot, lambda: app.screen.NAME == "results" and "near" in screen_text(app))


async def test_a_run_that_ended_while_another_screen_was_shown_is_read_again(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    make_training(project, "train-cccc", "one", seed=1)
    make_training(project, "train-dddd", "two", seed=2)
    async with open_app(project, size=(160, 45), services=Services(now=lambda: NOON)) as (
        app,
        pilot,
    ):
        await pilot.press("5")
        screen = app.screen
        await until(pilot, lambda: len(screen._views) == 2)
        app.open_screen("home")
        await until(pilot, lambda: not screen.going("glance"))
        other = next(run for run in screen._views if run != screen.chosen)
        view = screen._views[other]
        active = replace(view, summary=replace(view.summary, state="running"))
        assert active.summary.active
        screen._views[other] = active  # as it was seen before the other screen was opened
        app.open_screen("run")
        await until(pilot, lambda: screen._views[other] is not active)
