"""The tab Diagnosis of a run, the marks on its curves, and the line on Home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.runs import make_run
from support.training_runs import healthy, sick
from support.waiting import until

from hudtui.core.diagnosis.values import Diagnosis, Finding, Remedy
from hudtui.tui.home.reads import RunRead

SLOW = "Steps take longer and longer"


def ill(project: Path, *, state: str = "stopped", signature: str = "slower") -> None:
    rows = sick(signature, "strong", 1)
    make_run(project, "ill-aaaa", state, name="grpo", rows=rows, engine="trl")


async def test_a_run_that_ails_has_the_tab_first_and_what_to_change(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    ill(project, signature="repetition")
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "Diagnosis" in screen_text(app))
        line = next(line for line in screen_text(app).splitlines() if "Diagnosis" in line)
        assert line.index("Diagnosis") < line.index("Curves") < line.index("Log")
        app.screen.pane.turn_to("diagnosis")
        await until(pilot, lambda: "> Lower learning_rate." in screen_text(app))
        shown = screen_text(app)
        assert "Replies repeat themselves" in shown and "repetition_rate:" in shown
        assert "hudtui rl --set" in shown and "cost so far: " in shown


async def test_a_run_that_is_well_has_no_such_tab(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    make_run(project, "well-aaaa", "stopped", rows=healthy("rising", 1), engine="trl")
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "Curves" in screen_text(app))
        await until(pilot, lambda: app.screen.view is not None and app.screen.view.diagnosis)
        await pilot.pause()
        assert "Diagnosis" not in screen_text(app)


async def test_what_the_episodes_of_an_ended_run_show_is_told_too(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    """The numbers of this training say nothing of its calls, of which all fail."""
    rows = [{"step": step, "reward": 0.3, "reward_std": 0.2} for step in range(1, 61)]
    make_run(project, "ill-aaaa", "finished", rows=rows, engine="trl")
    scores = {"reward": 0.3, "reward_found": True, "task_completion": 0.3}
    episodes = [
        {
            **dict(version=2, task="t", stop="max_turns", error=None, scores=scores),
            **dict(turn_count=3, slips={"failed": 3 * (step > 30)}, messages=[], turns=[]),
            "info": {"step": step, "split": "train"},
        }
        for step in range(1, 61)
        for _ in range(4)
    ]
    traces = project / ".hudtui" / "runs" / "ill-aaaa" / "out" / "traces.jsonl"
    traces.write_text("".join(f"{json.dumps(one)}\n" for one in episodes))
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "Diagnosis" in screen_text(app))
        app.screen.pane.turn_to("diagnosis")
        await until(pilot, lambda: "Many tool calls fail" in screen_text(app))
        assert "episodes/failed_turns: 0 at first, 1 now" in screen_text(app)


async def test_enter_opens_the_episodes_of_the_onset(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: Any
) -> None:
    ill(project)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "Diagnosis" in screen_text(app))
        app.screen.pane.turn_to("diagnosis")
        await until(pilot, lambda: SLOW in screen_text(app))
        opened: list[Any] = []
        monkeypatch.setattr(app, "open_screen", lambda name, **given: opened.append((name, given)))
        await pilot.press("enter")
        await until(pilot, lambda: opened)
        ((name, given),) = opened
        assert (name, given["run"]) == ("results", "ill-aaaa") and 90 <= given["step"] <= 150


async def test_the_cure_is_put_into_launch(
    open_app: Any, project: Path, screen_text: Any, monkeypatch: Any
) -> None:
    ill(project, signature="repetition")
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "Diagnosis" in screen_text(app))
        app.screen.pane.turn_to("diagnosis")
        await until(pilot, lambda: "hudtui rl --set" in screen_text(app))
        await pilot.press("A")
        await until(pilot, lambda: app.screen.NAME == "launch")
        wanted = next(line for line in shown_changes(app) if "beta" in line)
        await until(pilot, lambda: app.screen._texts().get("beta") == wanted.partition("=")[2])


def shown_changes(app: Any) -> list[str]:
    return [f"{name}={value}" for name, value in finding_of(app).changes.items()]


def finding_of(app: Any) -> Finding:
    run = next(screen for screen in app._opened.values() if screen.NAME == "run")
    finding: Finding = run.view.diagnosis.findings[0]
    return finding


async def test_the_onset_is_marked_on_the_curve(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    ill(project)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: "Diagnosis" in screen_text(app))
        await pilot.press("m")
        await until(pilot, lambda: "┊" in screen_text(app))


async def test_home_tells_a_finding_that_is_no_alarm(
    open_app: Any, project: Path, screen_text: Any
) -> None:
    ill(project, state="running")
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await until(pilot, lambda: f"? {SLOW}, since step" in screen_text(app))
    assert RunRead("x").finding == ""


def test_of_two_remedies_for_one_setting_the_first_counts() -> None:
    remedies = (Remedy("Less.", {"beta": 1}), Remedy("More.", {"beta": 2, "steps": 3}))
    finding = Finding("slower", "Slow", "low", 0.9, 1.0, (), remedies)
    assert finding.changes == {"beta": 1, "steps": 3}
    assert finding.options in ("--set beta=1 --set steps=3", "--set steps=3 --set beta=1")
    assert Diagnosis("sick", (finding,), 1, ()).findings == (finding,)
