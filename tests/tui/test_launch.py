"""The screen Launch: the plan on this machine and on a rented one, what is missing, and runs that
are really started."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import tmux_world
from support.command import hudtui
from support.compute_world import own_key, simulated_prime
from support.engine_package import install_engine
from textual.widgets import Input

from hudtui.cli import art as art_command
from hudtui.cli import console, rl_run
from hudtui.core.compute import hardware as machines
from hudtui.core.compute import lifecycle
from hudtui.core.compute.hardware import Hardware
from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.flows import baseline as baselines
from hudtui.core.flows import start as starting
from hudtui.core.remote.local import LocalHost
from hudtui.core.rollouts.evaluate import EvalRequest, run_eval
from hudtui.core.runs import prepare as preparing
from hudtui.core.runs import remote_run
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.values import RunEvent
from hudtui.core.settings import load_settings
from hudtui.core.training.engines import recipe_for
from hudtui.core.training.plan import PlanFile
from hudtui.core.training.recipe import Recipe
from hudtui.sim import PrimeSimulator
from hudtui.tui.app import HudtuiApp
from hudtui.tui.launch import form
from hudtui.tui.launch.plan import PlanPane
from hudtui.tui.launch.screen import LaunchScreen
from hudtui.tui.services import Services
from hudtui.tui.widgets.fields import Field

own_tmux = tmux_world.own_tmux

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
PLAIN = Hardware("local", "Linux-6.1", "x86_64", "3.11.7", 2, programs=(("tmux", "/usr/bin/tmux"),))


@pytest.fixture
def workspace(project: Path) -> Path:
    """A project with two small tasks and a config."""
    (project / "configs").mkdir()
    move = "{{_parser: {{positional: []}}, _tool: move, direction: {{static: {0}}}}}"
    moves = "".join(f"  {word}: {move.format(word)}\n" for word in ("left", "right", "up", "down"))
    (project / "configs" / "2048.yaml").write_text(
        f"parser: {{use_thinking: false}}\naction_mappings:\n{moves}"
    )
    task = {
        "prompt": "Play.",
        "mcp_config": {"text-2048": {"command": "python", "args": ["-m", "hudtui.envs.text_2048"]}},
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 1}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }
    (project / "tasks.json").write_text(
        json.dumps([{**task, "id": f"t{number}"} for number in range(4)])
    )
    return project


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures must not depend on the machine that they are taken on, nor on chance."""

    async def inspect(*_: Any, **__: Any) -> Hardware:
        return PLAIN

    monkeypatch.setattr(machines, "inspect", inspect)
    monkeypatch.setattr(
        PlanFile, "size", property(lambda self: 1234)
    )  # of our own files, which change
    monkeypatch.setattr(RunStore, "new_id", lambda self, name: "2048-zzzz")
    monkeypatch.setattr(lifecycle, "unique_name", lambda stem: "hudtui-2048-zzzzzzzz")
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")


@pytest.fixture
def sim(
    own_world: Path, key_pair: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrimeSimulator]:
    key = own_key(key_pair)
    with simulated_prime(monkeypatch) as running:
        running.behave(boot=0, install=0)
        running.add_ssh_key(key.with_suffix(".pub").read_text())
        yield running


async def until(pilot: Any, true: Any, *, checked: bool = True) -> None:
    """Wait until something is so, and the form is complete and checked: what it learns late changes
    its plan."""
    for _ in range(1200):
        screen = pilot.app.screen
        late = isinstance(screen, LaunchScreen) and (
            screen.going("engine", "machines", "environments") or (checked and screen.checking)
        )
        if true() and not late:
            await pilot.pause()
            return
        await pilot.pause(0.05)
    shown = f"{pilot.app.screen} says {getattr(pilot.app.screen, 'message', '')!r}"
    raise AssertionError(f"this never came about: {inspect.getsource(true).strip()}; {shown}")


async def opened(pilot: Any, **given: Any) -> None:
    pilot.app.open_screen("launch", **given)
    await until(pilot, lambda: pilot.app.screen.prepared is not None)


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_on_this_machine(
    snap: Any, workspace: Path, fixed: None, size: tuple[int, int]
) -> None:
    app = HudtuiApp(workspace, services=Services(now=lambda: NOON))
    assert snap(app, size=size, run_before=opened)


def test_picture_on_a_rented_machine(
    snap: Any, workspace: Path, fixed: None, sim: PrimeSimulator
) -> None:
    given = {
        "machine": "prime",
        "engine": "trl",
        "gpus": "2xH100",
        "model": "Qwen/Qwen2.5-3B-Instruct",
        "python": "/opt/train/bin/python",
    }
    app = HudtuiApp(workspace, services=Services(now=lambda: NOON))
    assert snap(app, size=(160, 60), run_before=partial(opened, **given))


@pytest.mark.parametrize(
    ("size", "given", "words"),
    [
        pytest.param(
            (60, 20),
            {},
            (
                "tasks* choose ▼ config* choose ▼ engine rollouts ▼",
                "✗ Not ready: there is no task file and no dataset in the lock file (and 1 more "
                "problem). F4 offers a fix.",
                "F4 Fix",
            ),
            id="empty",
        ),
        pytest.param(
            (80, 24),
            {"engine": "trl"},
            (
                "engine trl ▼ model Qwen/Qwen2.5-3B-Instruct",
                "engine Engine of the run: trl and art train, rollouts only plays the tasks.",
                "✗ Not ready: there is no task file and no dataset in the lock file (and 2 more "
                "problems). F4 offers a fix.",
                "F7 Rehearse",
            ),
            id="training",
        ),
    ],
)
async def test_what_is_missing_is_said(
    says: Any,
    project: Path,
    fixed: None,
    size: tuple[int, int],
    given: dict[str, str],
    words: tuple[str, ...],
) -> None:
    app = HudtuiApp(project, services=Services(now=lambda: NOON))
    await says(app, *words, size=size, run_before=partial(opened, **given))


async def test_a_check_that_goes_on_is_said(
    says: Any, workspace: Path, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    async def prepare(request: Any, *_: Any, **__: Any) -> Any:
        asked.append(request)
        await asyncio.Event().wait()

    monkeypatch.setattr(preparing, "prepare_run", prepare)

    async def begun(pilot: Any) -> None:
        await until(pilot, lambda: pilot.app.facts is not None)
        pilot.app.open_screen("launch")
        await until(pilot, lambda: asked and asked[-1].tasks and asked[-1].config, checked=False)

    app = HudtuiApp(workspace, services=Services(now=lambda: NOON))
    words = ("tasks* tasks.json ▼ config* configs/2048.yaml ▼", "● Checking…")
    await says(app, *words, run_before=begun, wait=False)


async def test_a_task_file_that_is_cut_off_is_said(says: Any, workspace: Path, fixed: None) -> None:
    (workspace / "tasks.json").write_text('[{"id": "t0", "prompt": "Play.", "mcp_con')

    async def failed(pilot: Any) -> None:
        pilot.app.open_screen("launch")
        await until(
            pilot,
            lambda: any(
                "✗" in str(line.content) for line in pilot.app.screen.query("#launch-ready")
            ),
        )

    app = HudtuiApp(workspace, services=Services(now=lambda: NOON))
    words = (
        "✗ Not ready: tasks.json:1: the file ends in the middle of the array: it was cut off, or a "
        "bracket or a quote is missing."
    )
    await says(app, words, run_before=failed)


async def test_what_was_evaluated_comes_under_the_plan_that_is_shown_already(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read, reading = threading.Event(), threading.Event()
    stored = baselines.stored_measures

    def late(*args: Any) -> Any:
        reading.set()
        assert may_read.wait(30)
        return stored(*args)

    tasks = (workspace / "tasks.json").read_text()
    (workspace / "tasks.json").write_text(tasks.replace('"python"', '"${HUDTUI_PYTHON:-python3}"'))
    request = EvalRequest("tasks.json", Path("configs/2048.yaml"), policy="random", limit=2)
    async for _ in run_eval(request, load_settings(workspace)):
        pass
    monkeypatch.setattr(baselines, "stored_measures", late)
    async with open_app(workspace, size=(120, 35)) as (app, pilot):
        app.open_screen("launch")
        screen = app.screen
        await until(pilot, lambda: screen.record is not None and reading.is_set())
        record, turns = screen.record, screen.query_one("#launch-max_turns")
        assert "baseline" not in {check.name for check in screen.prepared.checks}
        turns.focus()
        await pilot.press("7")
        assert turns.value == "7", "no key waits for it"
        await pilot.press("backspace")
        may_read.set()
        await until(
            pilot,
            lambda: screen.prepared is not None and screen.prepared.checks[-1].name == "baseline",
        )
        shown = str(screen.query_one("#launch-plan").content)
        assert "baseline: mean reward: random 0." in shown and "2 of 4 tasks" in shown
        assert screen.record is not None and screen.record.spec.tasks == record.spec.tasks


async def test_a_page_down_shows_a_plan_that_is_out_of_sight(
    open_app: Any, workspace: Path, fixed: None, screen_text: Any
) -> None:
    async with open_app(workspace, size=(80, 24)) as (app, pilot):
        app.open_screen("launch", engine="trl")
        await until(pilot, lambda: app.screen.prepared is not None)
        assert "✓ config" not in screen_text(app)
        await pilot.press("pagedown")
        await pilot.pause()
        assert "✓ config" in screen_text(app) and app.screen.query_one(PlanPane).has_focus_within
        await pilot.press("escape")
        assert app.screen.NAME == "launch" and "tasks*" in screen_text(app)


async def test_a_letter_does_not_look_at_the_machine_again_and_opening_the_screen_does(
    open_app: Any, workspace: Path, fixed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Any] = []

    async def inspect(*_: Any, **__: Any) -> Hardware:
        looks.append(None)
        return PLAIN

    monkeypatch.setattr(machines, "inspect", inspect)
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", engine="rollouts")
        await until(pilot, lambda: app.screen.prepared is not None)
        looked, field = len(looks), app.screen.query_one("#launch-name", Input)
        for name in ("a", "ab", "abc"):
            field.value = name
            await until(
                pilot,
                lambda name=name: (
                    app.screen.prepared is not None and app.screen.prepared.record.name == name
                ),
            )
        assert looked and len(looks) == looked
        app.open_screen("launch", engine="rollouts")
        await until(pilot, lambda: len(looks) > looked)


async def test_a_rented_run_from_the_plan_to_the_end_of_its_machine(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 50)) as (app, pilot):
        app.open_screen(
            "launch",
            machine="prime",
            engine="rollouts",
            gpus="H100",
            max_turns="3",
            limit="1",
            python=sys.executable,
        )
        await until(pilot, lambda: app.screen.record is not None)
        screen = app.screen
        shown = screen_text(app)
        assert (
            "Ready (simulated): $2.10/h; limits: $25.00 for this run" in shown
            and "Prime (simulated)" in shown
        )
        assert [one for one in sim.requests if one.method == "POST"] == []
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen.is_modal)
        assert "$2.10/h (simulated)" in screen_text(app)
        await pilot.press("n")
        await until(pilot, lambda: app.screen is screen and screen.record is not None)
        assert [one for one in sim.requests if one.method == "POST"] == [], "a no is a no"
        record = screen.record
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        store = RunStore(workspace / ".hudtui")
        await until(pilot, lambda: store.ids() and store.summary(record.id).machine == "released")
        summary = store.summary(record.id)
        assert summary.results is not None and not sim.alive
        assert (Path(summary.results) / "logs" / "play.log").exists()


async def test_a_start_that_fails_before_its_question_can_be_tried_again(
    open_app: Any, workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: Any, **__: Any) -> Any:
        raise MachineError("the provider is closed")

    async with open_app(workspace, size=(120, 50)) as (app, pilot):
        app.open_screen("launch", machine="prime", engine="rollouts", gpus="H100")
        await until(pilot, lambda: app.screen.record is not None)
        screen = app.screen
        with monkeypatch.context() as patch:
            patch.setattr(starting, "rental", closed)
            await pilot.press("ctrl+g")
            await until(pilot, lambda: "the provider is closed" in screen.message)
        await until(pilot, lambda: screen.record is not None)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("n")
        assert [one for one in sim.requests if one.method == "POST"] == []


async def test_a_machine_that_is_being_got_can_be_given_up(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 50)) as (app, pilot):
        app.open_screen("launch")
        await pilot.press("f8")
        await until(pilot, lambda: "no machine is being prepared" in app.screen.message)
        await _got(app, pilot, sim)
        screen = app.screen
        await until(pilot, lambda: "(F8 cancels it)" in screen.message)
        await pilot.press("f8")
        await until(pilot, lambda: "its machine is ended, and that was verified" in screen.message)
        assert not sim.alive and not app.rented.getting
        assert RunStore(workspace / ".hudtui").summary(screen.rented.id).state == "stopped"


async def test_the_plan_that_is_being_started_stays_and_its_run_is_gone_to(
    open_app: Any, workspace: Path, sim: PrimeSimulator, settle: Any
) -> None:
    async with open_app(workspace, size=(120, 50)) as (app, pilot):
        await _got(app, pilot, sim)
        screen = app.screen
        screen.query_one("#launch-max_turns").value = "5"
        await pilot.pause()
        await until(pilot, lambda: True)
        plan, ready = (
            str(screen.query_one(f"#launch-{name}").content) for name in ("plan", "ready")
        )
        assert (
            screen.rented.id in plan
            and "A machine is being prepared for" in ready
            and "^g starts" not in ready
        )
        await pilot.press("ctrl+g")
        await settle(pilot)
        assert (
            not app.screen.is_modal and "Start: a machine is being prepared for" in screen.message
        )
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        screen._tell(screen.rented, RunEvent(screen.rented.id, 1, 0.0, "started", {}))
        await pilot.press("n")
        await until(pilot, lambda: getattr(app.screen, "NAME", "") == "run")
        await app.rented.give_up()


async def _rent(pilot: Any, **form: str) -> str:
    """Start a run on a rented machine with this form, and agree to the price. The run."""
    app = pilot.app
    app.open_screen("launch", machine="prime", engine="rollouts", gpus="H100", **form)
    await until(
        pilot, lambda: app.screen.record is not None and app.screen.record.spec.rent is not None
    )
    run: str = app.screen.record.id
    await pilot.press("ctrl+g")
    await until(pilot, lambda: app.screen.is_modal)
    await pilot.press("y")
    return run


async def _got(app: Any, pilot: Any, sim: PrimeSimulator) -> None:
    """Rent a machine that takes an hour to boot."""
    sim.behave(boot=1_000_000)
    await _rent(pilot)
    await until(pilot, lambda: sim.alive and app.rented.getting)


async def test_a_run_whose_machine_is_being_got_can_be_looked_at_and_stopped(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 40)) as (app, pilot):
        await _got(app, pilot, sim)
        app.open_screen("run")
        await until(pilot, lambda: app.screen.view is not None)
        assert "starting" in screen_text(app)
        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        assert "its machine is ended" in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: not sim.alive and not app.rented.getting)
        await until(
            pilot, lambda: "its machine is ended, and that was verified" in screen_text(app)
        )
    (run,) = RunStore(workspace / ".hudtui").runs()
    assert (run.state, run.machine) == ("stopped", "released")


async def test_an_app_that_ends_opens_no_connection_to_a_market_again(
    open_app: Any, workspace: Path, sim: PrimeSimulator
) -> None:
    async with open_app(workspace) as (app, _):
        overview = (await app.spending.open()).overview
        await overview.look()
    asked = len(sim.requests)
    with pytest.raises(HudtuiError, match="hudtui ends"):
        await app.spending.open()
    with pytest.raises(HudtuiError):
        await overview.providers["prime"].pods()
    assert len(sim.requests) == asked


async def test_quitting_gives_up_a_machine_that_is_being_got(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 40)) as (app, pilot):
        await _got(app, pilot, sim)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        said = screen_text(app)
        assert (
            "a machine is being prepared for 2048" in said
            and "Quitting cancels it" in said
            and "continue without" not in said
        )
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
        assert not sim.alive
    (run,) = RunStore(workspace / ".hudtui").runs()
    assert (run.state, run.machine) == ("stopped", "released")


async def test_quitting_before_the_run_has_started_ends_its_machine(
    open_app: Any,
    workspace: Path,
    sim: PrimeSimulator,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting = asyncio.Event()

    async def for_ever(*_: Any, **__: Any) -> None:
        starting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(RunFolder, "start", for_ever)
    async with open_app(workspace, size=(120, 40)) as (app, pilot):
        await _rent(pilot, python=sys.executable)
        await until(pilot, starting.is_set)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        said = prose(screen_text(app))
        assert (
            "Quitting cancels it: it is ended, and that is verified." in said
            and "costs" not in said
            and "costing" not in said
        )
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
        assert not sim.alive and not app.parting
    (run,) = RunStore(workspace / ".hudtui").runs()
    assert (run.state, run.machine) == ("stopped", "released")


async def test_quitting_while_a_failed_run_is_fetched_promises_no_end_of_a_machine_that_is_kept(
    open_app: Any,
    workspace: Path,
    sim: PrimeSimulator,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetching = asyncio.Event()

    async def fails(*_: Any, **__: Any) -> None:
        raise MachineError("the supervisor did not start")

    async def slow(*_: Any, **__: Any) -> Any:
        fetching.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(RunFolder, "start", fails)
    monkeypatch.setattr(remote_run, "fetch_results", slow)
    async with open_app(workspace, size=(120, 60)) as (app, pilot):
        await _rent(pilot, keep_on_failure="true", python=sys.executable)
        await until(pilot, fetching.is_set)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        said = prose(screen_text(app))
        assert "it is ended" not in said and "hudtui pods terminate" in said
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
    assert len(sim.alive) == 1


def _held(workspace: Path) -> Path:
    """Let the environment answer only when a file is there: a run goes on until then, however slow
    the app is. The file."""
    tasks, go_on = json.loads((workspace / "tasks.json").read_text()), workspace / "go-on"
    wait = (
        f"while [ ! -e '{go_on}' ]; do sleep 0.05; done; exec '{sys.executable}' -m "
        "hudtui.envs.text_2048"
    )
    for task in tasks:
        task["mcp_config"]["text-2048"] = {"command": "sh", "args": ["-c", wait]}
    (workspace / "tasks.json").write_text(json.dumps(tasks))
    return go_on


async def test_a_new_app_takes_up_what_another_left(
    open_app: Any, workspace: Path, sim: PrimeSimulator, settle: Any
) -> None:
    go_on = _held(workspace)
    async with open_app(workspace, size=(120, 40)) as (_, pilot):
        run = await _rent(pilot, max_turns="3", limit="1", python=sys.executable)
        store = RunStore(workspace / ".hudtui")
        await until(pilot, lambda: store.ids() and store.summary(run).started is not None)
        await settle(pilot)  # Textual fails on tabs that go while they are mounted
    assert len(sim.alive) == 1, "closing the app stops nothing"
    go_on.touch()
    async with open_app(workspace, size=(120, 40)) as (_, pilot):
        await until(pilot, lambda: store.summary(run).machine == "released")
    assert not sim.alive and len([one for one in sim.requests if one.method == "POST"]) == 1


def prose(text: str) -> str:
    """What a dialog says, without its edges and line breaks."""
    return " ".join(text.replace("│", " ").split())


async def _started(app: Any, pilot: Any, workspace: Path) -> str:
    """A run on a rented machine that goes on; its id."""
    _held(workspace)
    run = await _rent(pilot, max_turns="100000", limit="1", python=sys.executable)
    store = RunStore(workspace / ".hudtui")
    await until(pilot, lambda: store.ids() and store.summary(run).started is not None)
    return run


async def test_quitting_says_what_a_rented_run_goes_on_costing_and_who_ends_it(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 60)) as (app, pilot):
        run = await _started(app, pilot, workspace)
        await until(pilot, lambda: not app.rented.getting)
        await until(pilot, lambda: "$2.10/h" in screen_text(app).splitlines()[0])
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        said = prose(screen_text(app))
        assert (
            "1 machine costs money without hudtui" in said
            and f"costs $2.10/h (simulated): run {run} continues there" in said
        )
        assert (
            "its results are not fetched and its machine is not ended" in said
            and f"hudtui runs resume {run}" in said
        )
        assert (
            "Its guard switches it off in " in said and "1 h 00 min after the run has ended" in said
        )
        assert "without hudtui. Open it here" not in said
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
    (line,) = app.parting
    assert (
        f"costs $2.10/h (simulated): run {run} continues there" in line
        and f"hudtui runs resume {run}" in line
    )
    assert len(sim.alive) == 1


async def test_quitting_while_results_are_fetched_is_asked_about_too(
    open_app: Any,
    workspace: Path,
    sim: PrimeSimulator,
    screen_text: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fetching = asyncio.Event()

    async def slow(*_: Any, **__: Any) -> Any:
        fetching.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(remote_run, "fetch_results", slow)
    async with open_app(workspace, size=(120, 60)) as (app, pilot):
        run = await _rent(pilot, max_turns="3", limit="1", python=sys.executable)
        await until(pilot, fetching.is_set)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        said = prose(screen_text(app))
        assert f"run {run} is finished, and its results are not all fetched yet" in said
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
    assert len(app.parting) == 1 and f"hudtui runs resume {run}" in app.parting[0]


async def test_staying_in_the_question_goes_on_to_the_run_as_without_it(
    open_app: Any, workspace: Path, sim: PrimeSimulator
) -> None:
    async with open_app(workspace, size=(120, 60)) as (app, pilot):
        run = await _rent(pilot, max_turns="100000", limit="1", python=sys.executable)
        launch = app.screen
        await until(pilot, lambda: app.rented.getting)
        assert launch.record is None and "a machine is being prepared for 2048" in launch.why_not(
            "launch.start"
        )
        await pilot.press("ctrl+q")
        store = RunStore(workspace / ".hudtui")
        await until(
            pilot,
            lambda: app.screen.is_modal and store.ids() and store.summary(run).started is not None,
        )
        await until(pilot, lambda: run not in app.rented.getting)
        await pilot.press("n")
        await until(pilot, lambda: app.screen.NAME == "run" and app.screen.chosen == run)


async def test_an_open_app_takes_up_a_run_that_was_left_alone(
    open_app: Any, workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another app or command starts it, and is gone."""
    async with open_app(workspace, size=(120, 40)) as (looking, looking_pilot):
        assert not looking.facts.runs
        run = await asyncio.to_thread(_start_elsewhere, workspace)
        await until(looking_pilot, lambda: [one.id for one in looking.facts.runs] == [run])
        await until(looking_pilot, lambda: looking.rented.manages(run))
        store = RunStore(workspace / ".hudtui")
        await until(looking_pilot, lambda: store.summary(run).machine == "released")
        assert store.summary(run).results is not None and not sim.alive


async def test_an_open_app_takes_up_a_run_whose_hudtui_was_killed(
    open_app: Any, workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that manages a run is killed while it does so: the app leaves the run alone before,
    and manages it afterwards."""
    monkeypatch.setattr(
        "hudtui.tui.rented_runs.LEFT_ALONE", 100.0
    )  # however long the process takes to begin
    go_on = _held(workspace)
    async with open_app(workspace, size=(120, 40)) as (app, pilot):
        argv = [sys.executable, "-c", _ELSEWHERE, "stay"]
        other = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, cwd=workspace
        )
        try:
            assert other.stdout is not None
            run = (await other.stdout.readline()).decode().strip()
            assert run, "the process has ended"
            monkeypatch.setattr("hudtui.tui.rented_runs.LEFT_ALONE", 1.0)
            await until(pilot, lambda: [one.id for one in app.facts.runs] == [run])
            for _ in range(3):
                await app.rented.take_up()
            assert not app.rented.manages(run), "the other process is at it"
        finally:
            other.kill()
            await other.wait()
        await until(pilot, lambda: app.rented.manages(run))
        go_on.touch()
        store = RunStore(workspace / ".hudtui")
        await until(pilot, lambda: store.summary(run).machine == "released")
        assert store.summary(run).state == "finished" and store.summary(run).results is not None
        assert not sim.alive and len([one for one in sim.requests if one.method == "POST"]) == 1, (
            "it is rented once"
        )


_ELSEWHERE = """
import asyncio, sys
from contextlib import aclosing
from pathlib import Path

from hudtui.core.compute.limits import limits_from_settings
from hudtui.core.compute.registry import find_providers
from hudtui.core.runs.remote_run import RentalContext
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.remote_run import run_remote
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.prepare import prepare_run
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace

async def main():
    workspace = open_workspace(Path.cwd())
    settings = load_settings(workspace.folder, workspace.platform)
    store = RunStore(workspace.state_dir)
    providers = find_providers(settings.get)
    wish = RunRequest(
        engine="rollouts", provider="prime", gpus="H100", max_turns=3, limit=1,
        python=sys.executable, host=None,
    )
    record = (await prepare_run(wish, workspace, settings, store, providers=providers)).record
    store.add(record)
    broker = RentalContext(providers["prime"], settings.get)
    async with aclosing(run_remote(record.id, store, broker, lookup=settings.lookup)) as events:
        async for event in events:
            if event.type == "started":
                print(record.id, flush=True)
                if "stay" in sys.argv:
                    await asyncio.Event().wait()
                break

asyncio.run(main())
"""


def _start_elsewhere(workspace: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _ELSEWHERE],
        capture_output=True,
        text=True,
        cwd=workspace,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("advice", "shown"),
    [
        (
            "Take larger GPUs (--gpus), more of them.",
            "Take larger GPUs (the field GPUs), more of them.",
        ),
        ("Play the tasks (--engine rollouts).", "Play the tasks (the field engine: rollouts)."),
        ("Name one: --config FILE", "Name one: the field config"),
        ("Choose one: --host user@host.", "Choose one: the field machine."),
        ("Rehearse: hudtui rl --rehearse", "Rehearse: {key:launch.rehearse}"),
        (
            "Generate one: hudtui rl init SOURCE --force",
            "Generate one: hudtui rl init SOURCE --force",
        ),
        ("Push it: --push-image ghcr.io/my-org/", "Push it: --push-image ghcr.io/my-org/"),
    ],
)
def test_advice_names_fields_in_place_of_options(advice: str, shown: str) -> None:
    assert form.in_form(advice) == shown


async def test_what_is_missing_can_be_mended(
    open_app: Any, workspace: Path, screen_text: Any
) -> None:
    (workspace / "configs" / "other.yaml").write_text(
        (workspace / "configs" / "2048.yaml").read_text()
    )
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", config="")
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.prepared.missing)
        assert "there are 2 configs here" in screen_text(app)
        await pilot.press("f4")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("down", "enter")
        await until(pilot, lambda: not app.screen.is_modal and app.screen.record is not None)
        assert app.screen.record.spec.config.name == "other.yaml"


async def test_an_ssh_key_is_made_and_registered_on_the_way(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    for file in (Path.home() / ".ssh").iterdir():
        file.unlink()
    async with open_app(workspace, size=(120, 50)) as (app, pilot):
        app.open_screen("launch", machine="prime", engine="rollouts", gpus="H100")
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.prepared.missing)
        assert "there is no SSH key to log in with" in screen_text(app)
        await pilot.press("f4")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("enter")  # a new one
        await until(
            pilot, lambda: app.screen.is_modal and "Register this SSH key?" in screen_text(app)
        )
        await pilot.press("y")
        await until(pilot, lambda: not app.screen.is_modal and app.screen.record is not None)
    assert (Path.home() / ".ssh" / "prime_key.pem").stat().st_mode & 0o777 == 0o400
    assert (
        len([one for one in sim.requests if one.method == "POST" and "ssh_keys" in one.path]) == 1
    )


async def test_the_command_that_does_the_same(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    async with open_app(workspace) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        app.open_screen("launch", policy="random", limit="3")
        await until(pilot, lambda: app.screen.record is not None)
        await pilot.press("f6")
        await pilot.pause()
    words = (
        "hudtui rl tasks.json --config configs/2048.yaml --engine rollouts --policy random --limit "
        "3 --host local"
    )
    assert copied == [words]


def asked_by_command(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> list[Any]:
    """The requests that commands make from now on. None of them is carried out."""
    asked: list[Any] = []

    async def note(request: Any, how: Any, **_: Any) -> None:
        asked.append(request)

    def run(work: Any, **_: Any) -> None:
        with contextlib.suppress(StopIteration):
            work.send(None)

    monkeypatch.setattr(module, name, note)
    monkeypatch.setattr(console, "run", run)
    return asked


async def test_the_copied_command_asks_for_the_very_same_run(
    open_app: Any, workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asked_by_command(monkeypatch, rl_run, "carry_out")
    given = {
        "machine": "prime",
        "gpus": "2xH100",
        "spot": "false",
        "steps": "7",
        "learning_rate": "3e-6",
        "lora": "false",
        "temperature": "0.7",
    }
    given |= {
        "model": "x/y-3B",
        "budget": "9",
        "idle_minutes": "none",
        "keep_on_failure": "true",
        "max_turns": "3",
        "dialect": "native",
    }
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen("launch", environments="remote", python="/opt/python", more="true", **given)
        await until(
            pilot, lambda: app.screen.prepared is not None and app.screen._value("engine") == "trl"
        )
        app.screen.query_one("#launch-name").value = "my run"
        request, words = app.screen._request(), shlex.split(app.screen.command())
    hudtui(*words[1:])
    assert asked == [request] and request.dialect == "native"


ART = """\
environments:
  mine: {dataset: tasks.json, max_turns: 5}
training:
  mine: {num_training_scenarios: 2, num_val_scenarios: 2}
"""


async def test_the_form_and_the_plan_of_a_training_with_art(
    says: Any, workspace: Path, fixed: None, sim: PrimeSimulator
) -> None:
    (workspace / "art.yaml").write_text(ART)
    given = {
        "machine": "prime",
        "engine": "art",
        "art_config": "art.yaml",
        "environment": "mine",
        "more": "true",
    }
    words = (
        "engine art ▼ machine* rent: Prime (simu… ▼ budget 25",
        "environment* mine ▼ GPUs by fit, then price max hours 24",
        "config file art.yaml ▼ spot usually on demand ▼ idle minutes 30",
        "dataset the environment's own ▼ environments where the tasks s… ▼ stop on never",
        "reward the environment's python made there keep on failure [ ]",
        "model small",
        "1 x A6000_48GB at $0.57 an hour",
        "scenarios 16 evaluate on 8 epochs 1",
        "tasks a step by the steps steps 10 learning rate by the model's",
        "group 4 max tokens 2048 ruler no judge",
        "project hud-art model name ENV-MODEL all settings [x]",
        "max seq len 8192 temperature 1.0 beta 0.0 lora rank 8 eval every 5 save every 5",
        "! training: 2 steps, not 10: 2 tasks are 2 steps an epoch; --epochs trains on them again",
        "! machine: simulated machines have no GPU: a training fails at the check of the GPUs",
        "✓ tasks: 4 of 4 tasks of .hudtui/art/mine-08dbd861.json can be used",
        "✓ memory: GPU 0 (serve) needs about 17 GiB of 45. ✓ model: Qwen/Qwen2.5-3B-Instruct",
        "6 files · 2 stages: bootstrap, train · results in ~/demo/.hudtui/runs/2048-zzzz",
    )
    app = HudtuiApp(workspace, services=Services(now=lambda: NOON))
    await says(app, *words, size=(120, 50), run_before=partial(opened, **given))


async def test_a_training_with_art_is_that_of_its_command(
    open_app: Any, workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "art.yaml").write_text(ART)
    asked = asked_by_command(monkeypatch, art_command, "train_art")
    given = {
        "model": "medium",
        "scenarios": "3",
        "val_scenarios": "0",
        "num_generations": "3",
        "learning_rate": "3e-6",
    }
    given |= {
        "steps": "2",
        "groups_per_step": "1",
        "epochs": "2",
        "max_turns": "4",
        "project": "games",
        "model_name": "seven",
    }
    given |= {
        "max_seq_len": "4096",
        "gpu_memory_utilization": "0.7",
        "temperature": "0.7",
        "batch_size": "3",
    }  # the last: of trl
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen(
            "launch",
            machine="prime",
            engine="art",
            art_config="art.yaml",
            environment="mine",
            **given,
        )
        await until(
            pilot, lambda: app.screen.prepared is not None and app.screen._value("engine") == "art"
        )
        screen = app.screen
        assert [text for _, text in screen._choice("environment").entries] == [
            "mine",
            "2048",
            "browser",
            "gmail",
        ]
        recipe = recipe_for(screen.record.spec)
        assert (recipe.model, recipe.num_generations, recipe.groups_per_step) == (
            "Qwen/Qwen2.5-7B-Instruct",
            3,
            1,
        )
        assert (recipe.max_seq_len, recipe.max_turns, recipe.temperature, recipe.project) == (
            4096,
            4,
            0.7,
            "games",
        )
        assert screen.record.spec.rent is not None and screen.record.engine == "art"
        request, words = screen._request(), shlex.split(screen.command())
        assert words[:3] == ["hudtui", "art", "train"]
        hudtui(*words[1:])
        assert asked == [request]

        app.open_screen("launch", scenarios="none", machine="local")
        await until(
            pilot,
            lambda: (
                "scenarios: 'none' is not a number" in str(screen.query_one("#launch-plan").content)
            ),
        )
        app.open_screen("launch", scenarios="0")
        await until(
            pilot,
            lambda: "scenarios must be at least 1" in str(screen.query_one("#launch-plan").content),
        )
        app.open_screen("launch", scenarios="2", environment="mien")
        await until(
            pilot,
            lambda: "Unknown environment: mien" in str(screen.query_one("#launch-plan").content),
        )

        monkeypatch.setattr(
            starting,
            "trainer_environment",
            lambda plan: SimpleNamespace(python=Path(sys.executable), ready=True),
        )
        app.open_screen("launch", environment="mine")
        await until(pilot, lambda: screen.prepared is not None)
        started: list[Any] = []

        async def keep(screen: LaunchScreen, record: Any) -> None:
            started.append(record)

        monkeypatch.setattr(LaunchScreen, "_launch", keep)
        await pilot.press("f7")
        await until(pilot, lambda: started)
        assert (started[0].engine, started[0].spec.rehearse, started[0].host) == (
            "art",
            True,
            "local",
        )


async def test_an_engine_of_another_package_is_checked_and_rehearsed_here(
    open_app: Any,
    workspace: Path,
    sim: PrimeSimulator,
    own_world: Path,
    monkeypatch: pytest.MonkeyPatch,
    screen_text: Any,
) -> None:
    monkeypatch.syspath_prepend(str(install_engine(own_world / "lib")))
    given = {
        "engine": "verl",
        "machine": "prime",
        "gpus": "2xH100",
        "model": "Qwen/Qwen2.5-3B-Instruct",
        "steps": "4",
    }
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen("launch", num_generations="8", **given)
        await until(pilot, lambda: app.screen.record is not None)
        screen = app.screen
        assert "verl" in [text for _, text in screen._choice("engine").entries]
        assert any(check.name == "memory" for check in screen.prepared.checks)
        assert (screen.record.engine, recipe_for(screen.record.spec).num_generations) == ("verl", 8)
        shown = screen_text(app)
        assert "batch" in shown and "LoRA" not in shown, "a field that the engine does not take"
        words = shlex.split(screen.command())
        assert words[words.index("--engine") + 1] == "verl" and "num_generations=8" in words
        app.open_screen("launch", batch_size="128")
        await until(
            pilot,
            lambda: (
                "verl takes a batch of at most 64" in str(screen.query_one("#launch-plan").content)
            ),
        )
        app.open_screen("launch", batch_size="8")
        await until(pilot, lambda: screen.record is not None)
        await pilot.press("f7")
        store = app.project.runs
        await until(pilot, lambda: any(run.state == "finished" for run in store.runs()))
        (run,) = store.runs()
        record = store.record(run.id)
        assert (record.engine, record.spec.rehearse, record.host) == ("verl", True, "local")


async def test_a_provider_of_another_package_is_on_compute_and_rented_from_here(
    open_app: Any,
    workspace: Path,
    sim: PrimeSimulator,
    monkeypatch: pytest.MonkeyPatch,
    screen_text: Any,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "support" / "rig"))
    monkeypatch.setenv("RIG_LOGIN", sim.api_key)
    monkeypatch.setenv("RIG_URL", sim.url)
    for name in ("HUDTUI_SIM", "HUDTUI_SIM_KEY"):
        monkeypatch.delenv(name)
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen("compute")
        await until(
            pilot, lambda: any(offer.provider == "rig" for offer in app.screen.listed.offers)
        )
        app.open_screen("launch", machine="rig", engine="rollouts")
        await until(pilot, lambda: app.screen.record is not None)
        screen = app.screen
        assert ("rent: Rig", "rig") in screen._choice("machine").entries
        rent = screen.record.spec.rent
        assert rent is not None and rent.provider == "rig" and "Rig: " in screen_text(app)
        words = shlex.split(screen.command())
        assert words[words.index("--provider") + 1] == "rig"
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "Rent a machine" in screen_text(app), checked=False)
        assert "Rig" in screen_text(app) and "wallet" in screen_text(app).lower()
        await pilot.press("escape")


async def test_what_a_file_for_art_asks_for_is_agreed_to_here(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, screen_text: Any
) -> None:
    monkeypatch.delenv("HUDTUI_TRUST")
    (workspace / "art.yaml").write_text(
        "environments: {mine: {dataset: tasks.json, mcp_config: {own: {command: my-server}}}}\n"
    )
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen("launch", engine="art", art_config="art.yaml", environment="mine")
        await until(pilot, lambda: "this folder is not trusted" in screen_text(app))
        screen = app.screen
        await pilot.press("f4")
        await until(pilot, lambda: app.screen.is_modal)
        assert "my-server" in screen_text(app)
        ready = screen.query_one("#launch-ready")
        ready.update("")
        screen.opened(name="checked-again")
        await until(pilot, lambda: "Not ready" in str(ready.content))
        await pilot.press("y")
        await until(pilot, lambda: not app.screen.is_modal and app.screen.prepared is not None)
        assert not any("trusted" in check.text for check in app.screen.prepared.checks)


async def test_the_engine_follows_the_machine_until_the_user_chooses_one(
    open_app: Any, workspace: Path
) -> None:
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.prepared is not None)
        assert app.screen._value("engine") == "rollouts", "this machine has no GPU"
        app.open_screen("launch", machine="prime")
        await until(pilot, lambda: app.screen._value("engine") == "trl")
        app.open_screen("launch", machine="local")
        await until(pilot, lambda: app.screen._value("engine") == "rollouts")
        app.screen._put("engine", "trl")
        await pilot.pause()
        app.open_screen("launch", machine="local")
        await until(pilot, lambda: not app.screen.going("engine"))
        assert app.screen._value("engine") == "trl", "the user's choice stays"
        offered = {
            name: [text for _, text in app.screen._choice(name).entries]
            for name in ("engine", "dataset")
        }
        assert "" not in offered["engine"] and offered["dataset"].count("") == 1, (
            "none is a choice where the field may be empty"
        )


async def test_another_engine_for_the_chosen_machine_is_said(
    open_app: Any, workspace: Path, screen_text: Any
) -> None:
    async with open_app(workspace, size=(140, 50)) as (app, pilot):
        app.open_screen("launch")
        await until(
            pilot,
            lambda: app.screen.prepared is not None and app.screen._value("engine") == "rollouts",
        )
        machine = app.screen._choice("machine")
        machine.focus()
        for value, words in (
            ("prime", "now trl, because a machine that is rented trains; it was"),
            ("local", "now rollouts, because that machine has no GPU; it was trl"),
        ):
            await until(pilot, lambda: machine.has_focus)
            machine.put(value)
            await until(pilot, lambda words=words: words in screen_text(app))


async def test_nothing_starts_with_the_plan_before_a_change(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, screen_text: Any
) -> None:
    monkeypatch.setattr("hudtui.tui.launch.screen.DELAY", 2.0)
    async with open_app(workspace, size=(120, 35)) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.record is not None)
        screen = app.screen
        screen.query_one("#launch-max_turns").focus()
        await pilot.press("7")
        assert screen.record is None and "Checking" in screen_text(app)
        await pilot.press("ctrl+g")
        store = RunStore(app.workspace.state_dir)
        assert "Checking" in screen.message and not store.runs()
        await until(pilot, lambda: app.screen.NAME == "run")
        assert [spec.max_turns for spec in store.specs().values()] == [7]


async def test_a_start_before_the_check_is_forgotten_when_the_user_leaves(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudtui.tui.launch.screen.DELAY", 1.0)
    async with open_app(workspace, size=(120, 35)) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.record is not None)
        screen = app.screen
        screen.query_one("#launch-max_turns").focus()
        await pilot.press("7", "ctrl+g")
        app.open_screen("home")
        await until(pilot, lambda: app.screen.NAME == "home")
        app.open_screen("launch")
        await until(pilot, lambda: screen.record is not None and screen.record.spec.max_turns == 7)
        assert app.screen is screen and not RunStore(app.workspace.state_dir).runs()
        assert not screen.is_busy


async def test_a_plan_that_is_stale_when_it_comes_is_not_taken(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, asked, may_come = preparing.prepare_run, asyncio.Event(), asyncio.Event()

    async def late(*args: Any, **options: Any) -> Any:
        prepared = await prepare(*args, **options)
        asked.set()
        await may_come.wait()
        return prepared

    monkeypatch.setattr(preparing, "prepare_run", late)
    async with open_app(workspace, size=(120, 35)) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, asked.is_set, checked=False)
        app.screen.query_one("#launch-max_turns").focus()
        await pilot.press("7")
        may_come.set()
        await until(pilot, lambda: app.screen.record is not None)
        assert app.screen.record.spec.max_turns == 7


async def test_a_choice_is_made_in_a_list_and_declined_with_escape(
    open_app: Any, workspace: Path, settle: Any
) -> None:
    async with open_app(workspace, size=(120, 35)) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.prepared is not None)
        screen = app.screen
        screen.query_one("#launch-machine").focus()
        await pilot.press("enter", "down", "enter")  # this machine stands before it
        await until(pilot, lambda: screen._value("machine") == "prime")
        assert screen.query_one("#launch-budget").display, "fields of a rented machine are shown"
        await pilot.press("space", "end", "enter", "escape")  # another machine, which is not named
        await settle(pilot)
        assert app.screen is screen and screen._value("machine") == "prime"
        await pilot.press("enter", "end", "enter", *"me@box", "enter")
        await until(pilot, lambda: screen._value("machine") == "me@box")
        await pilot.press("enter", "escape")
        assert app.screen is screen and screen._value("machine") == "me@box"


async def test_the_focused_field_is_explained_and_esc_restores_its_text(
    open_app: Any, workspace: Path, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 35)) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.prepared is not None)
        app.screen.query_one("#launch-limit").focus()
        await until(pilot, lambda: "Play only the first tasks" in screen_text(app))
        assert "Enter Next field" in screen_text(app)
        await pilot.press("7", "escape")
        assert app.screen.NAME == "launch" and app.screen.query_one("#launch-limit").value == ""
        await pilot.press("escape")
        await until(pilot, lambda: app.screen.NAME == "run")


async def test_the_defaults_come_back_in_all_fields(open_app: Any, workspace: Path) -> None:
    def typed(app: Any) -> dict[str, str]:
        return {name: text for name in form.FORM if (text := app.screen._value(name))}

    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.record is not None)
        untouched = typed(app)
        app.open_screen("launch", policy="random", limit="3", group="2", machine="me@box")
        await until(pilot, lambda: typed(app).get("group") == "2")
        app.screen.action_reset()
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(pilot, lambda: not app.screen.is_modal and typed(app) == untouched)


async def test_the_command_takes_the_very_offer(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[str] = []
    offer = Offer("sky", "aws/g5.xlarge/us-east-1", "A10G", 1, Price(1.006))
    async with open_app(workspace) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        app.open_screen("launch", offer=offer, engine="rollouts", policy="random")
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.offer is offer)
        app.screen.action_copy()
        gpus = app.screen.query_one("#launch-gpus", Field)
        assert (
            gpus.display and gpus.parent.display
        )  # advice names it; other GPUs than the offer's give the offer up
        gpus.value = "2xH100"
        await until(pilot, lambda: app.screen.offer is None)
        assert (
            app.screen.command().count("--provider sky") == 1
            and "--gpus 2xH100" in app.screen.command()
        )
    assert f"--provider sky --offer {offer.short}" in copied[0] and "--gpus" not in copied[0]


async def test_an_offer_of_any_provider_is_rented_from_that_provider(
    open_app: Any, workspace: Path
) -> None:
    offer = Offer("sky", "aws/g5.xlarge/us-east-1", "A10G", 1, Price(1.006))
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", offer=offer)
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.offer is offer)
        request = app.screen._request()
        assert (request.provider, request.host, request.offer) == ("sky", None, offer), (
            "not a machine of that name behind SSH"
        )
        assert app.screen.query_one("#launch-row-budget").display
        assert [check.name for check in app.screen.prepared.missing] == [
            "machine"
        ]  # SkyPilot is not here


async def test_a_second_press_starts_no_second_rehearsal(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, screen_text: Any
) -> None:
    begun, end = [], asyncio.Event()

    async def slow(*asked: Any) -> None:
        begun.append(asked)
        await end.wait()

    monkeypatch.setattr(starting, "plan_rehearsal", slow)
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.prepared is not None)
        await pilot.press("f7")
        await until(pilot, lambda: begun)
        await pilot.press("f7")
        await until(pilot, lambda: "a rehearsal is being started" in app.screen.message)
        end.set()
        await until(pilot, lambda: not app.screen.going("rehearse"))
        assert len(begun) == 1


async def test_a_tunnel_that_cannot_be_kept_is_told(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(LocalHost):
        def reverse(self, *_: Any) -> Any:
            raise MachineError("the machine lets no port through")

    monkeypatch.setattr(starting, "find_host", lambda name: Closed())
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.prepared is not None)
        screen = app.screen
        record = replace(
            screen.record, host="me@box", spec=replace(screen.record.spec, tunnels=(8000,))
        )
        screen.start(lambda: screen._launch(record), group="launch")
        await until(
            pilot,
            lambda: (
                "port 8000 of this computer cannot be reached from its machine" in screen.message
            ),
        )
        assert "the machine lets no port through" in screen.message
    assert RunStore(workspace / ".hudtui").ids() == (), (
        "a run whose environments cannot be reached is not started"
    )


async def test_a_training_is_told_its_settings_here(
    open_app: Any, workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "training.yaml").write_text("temperature: 0.7\nbatch_size: 2\n")
    copied: list[str] = []
    async with open_app(workspace, size=(140, 60)) as (app, pilot):
        monkeypatch.setattr(app, "copy", copied.append)
        given = {
            "machine": "prime",
            "gpus": "2xH100",
            "engine": "trl",
            "python": sys.executable,
            "training": "training.yaml",
        }
        app.open_screen(
            "launch", steps="7", learning_rate="3e-6", num_generations="4", lora="false", **given
        )
        await until(pilot, lambda: app.screen.record is not None)
        recipe = recipe_for(app.screen.record.spec)
        assert (recipe.steps, recipe.learning_rate, recipe.num_generations, recipe.lora) == (
            7,
            3e-6,
            4,
            False,
        )
        assert (recipe.temperature, recipe.batch_size) == (0.7, 2)
        app.screen.query_one(PlanPane).action_unfold()
        shown = " ".join(str(app.screen.query_one("#launch-plan").content).split())
        assert (
            "7 steps, learning rate 3e-06, 4 episodes a task, batch 2 x 2 a GPU, all weights"
            in shown
        )
        await pilot.press("f6")
        await pilot.pause()
        for words in (
            "--steps 7",
            "--set learning_rate=3e-6",
            "--set lora=false",
            "--training training.yaml",
        ):
            assert words in copied[0]
        app.open_screen("launch", num_generations="many")
        await until(
            pilot, lambda: "num_generations" in str(app.screen.query_one("#launch-plan").content)
        )
        assert app.screen.record is None


async def test_each_hint_of_a_setting_says_what_the_trainer_takes_else(
    open_app: Any, workspace: Path
) -> None:
    async with open_app(workspace, size=(140, 60)) as (app, pilot):
        app.open_screen("launch", engine="trl")
        await until(pilot, lambda: app.screen.prepared is not None)
        for name in ("steps", "num_generations", "batch_size", "max_tokens"):
            field = app.screen.query_one(f"#launch-{name}")
            assert field.region.area and str(getattr(Recipe(), name)) in field.placeholder


async def test_a_missing_config_is_generated_without_leaving_the_screen(
    open_app: Any, workspace: Path, settle: Any
) -> None:
    (workspace / "configs" / "2048.yaml").unlink()
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch", config="")
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.prepared.missing)
        screen = app.screen
        assert screen.to_fix.remedy == "generate-config"
        for answer in ("text-2048", "configs/new.yaml"):
            if not app.screen.is_modal:
                await pilot.press("f4")
            await until(pilot, lambda: app.screen.is_modal)
            app.screen.query_one(Field).value = answer
            asked = app.screen
            await pilot.press("enter")
            await until(pilot, lambda asked=asked: app.screen.is_modal and app.screen is not asked)
        await pilot.press("down", "enter")
        await until(pilot, lambda: app.screen is screen and screen.record is not None)
        assert (
            screen.record.spec.config.name == "new.yaml"
            and "Wrote configs/new.yaml" in screen.message
        )


async def test_a_missing_key_is_set_without_leaving_the_screen(
    open_app: Any, workspace: Path, screen_text: Any
) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    for task in tasks:
        task["mcp_config"]["text-2048"]["env"] = {"KEY": "$GAME_KEY"}
    (workspace / "tasks.json").write_text(json.dumps(tasks))
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.prepared.missing)
        screen = app.screen
        await pilot.press("f4")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press(*"s3cret-of-the-game")
        assert "s3cret" not in screen_text(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is screen and screen.record is not None)
        assert "GAME_KEY is in" in screen.message and "s3cret" not in screen_text(app)
    assert "s3cret-of-the-game" in (workspace / ".env").read_text()


@pytest.mark.parametrize(
    ("market", "title"), [("off", "Prime Intellect"), ("demo", "Prime (simulated)")]
)
async def test_the_list_of_machines_says_whether_those_to_rent_are_simulated(
    open_app: Any, workspace: Path, monkeypatch: pytest.MonkeyPatch, market: str, title: str
) -> None:
    monkeypatch.setenv("HUDTUI_SIM", market)
    async with open_app(workspace) as (app, pilot):
        app.open_screen("launch")
        await until(pilot, lambda: app.screen.NAME == "launch" and app.screen.prepared is not None)
        shown = [words for words, _ in app.screen.query_one("#launch-machine").entries]
        assert f"rent: {title}" in shown and sum("Prime" in words for words in shown) == 1


async def test_an_offer_of_a_simulated_market_says_so_among_the_machines(
    open_app: Any, workspace: Path, sim: PrimeSimulator
) -> None:
    async with open_app(workspace) as (app, pilot):
        session = await app.spending.open()
        offer = (await session.overview.providers["prime"].offers()).found[0]
        app.open_screen("launch", offer=offer)
        await until(pilot, lambda: app.screen.NAME == "launch" and app.screen.prepared is not None)
        shown = [
            words
            for words, value in app.screen.query_one("#launch-machine").entries
            if value == form.OFFER
        ]
        assert len(shown) == 1 and shown[0].startswith("rent (simulated) ")


async def test_another_machine_is_chosen_without_leaving_the_screen(
    open_app: Any, workspace: Path, sim: PrimeSimulator, screen_text: Any
) -> None:
    async with open_app(workspace, size=(120, 50)) as (app, pilot):
        app.open_screen("launch", engine="trl", machine="local")
        await until(pilot, lambda: app.screen.prepared is not None and app.screen.prepared.missing)
        screen = app.screen
        assert screen.to_fix.remedy == "choose-machine"
        await pilot.press("f4")
        await until(pilot, lambda: app.screen.is_modal)
        assert "from Prime (simulated)" in screen_text(app)
        await pilot.press("enter")  # rent one
        await until(pilot, lambda: app.screen.is_modal and app.screen.query(Field))
        await pilot.press("enter")  # the suggested GPUs
        await until(pilot, lambda: app.screen is screen and screen.record is not None)
        assert screen.record.spec.rent is not None and screen.record.spec.gpus == 2
        assert [one for one in sim.requests if one.method == "POST"] == []


async def test_esc_in_the_settings_leads_to_where_they_were_opened(
    open_app: Any, workspace: Path, settle: Any
) -> None:
    async with open_app(workspace) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("comma")
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.NAME == "dataset"
        await pilot.press("comma")
        await settle(pilot)
        await pilot.press("0")
        await settle(pilot)
        assert app.screen.NAME == "home"
