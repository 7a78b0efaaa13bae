"""The shell: frame, moving about, words, dialogs, palette and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any, ClassVar

import pytest
from textual.widget import Widget
from textual.widgets import Input, Static

from hudtui.core.errors import InputError, Location
from hudtui.core.process import machine_label
from hudtui.core.remote import hosts
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, Stage
from hudtui.tui import steps
from hudtui.tui.actions import Acting, AppAction, unless
from hudtui.tui.app import HudtuiApp
from hudtui.tui.facts import Facts, RunFact, StepFact, WalletFact
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.services import Services
from hudtui.tui.widgets.dialog import Confirm
from hudtui.tui.widgets.pick import Pick


class StopScreen(HudtuiScreen):
    """A step of the tests' own."""

    NAME = "mapping"
    TITLE = "mapping"
    HELP = "For trying the frame."
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("stop.work", "Work", "Do something.", "w"),
        AppAction(
            "stop.never",
            "Never",
            "Cannot be done.",
            "n",
            when=(
                unless(lambda screen: screen.is_mounted, "the screen is not there"),
                unless(lambda screen: screen.done, "there is nothing to do it with"),
                unless(lambda screen: screen.done, "this comes too late"),
            ),
        ),
        AppAction("stop.fail", "Fail", "Goes wrong.", "x"),
        AppAction("stop.confirm", "Ask", "Asks first.", "a"),
        AppAction("stop.break", "Break", "Has a defect.", "b"),
        AppAction("stop.refuse", "Refuse", "Is refused by the core.", "r"),
    )

    def content(self) -> Iterable[Widget]:
        yield Static("content of the stop", id="stop")

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.given: list[dict[str, Any]] = []

    def opened(self, **given: Any) -> None:
        self.given.append(given)

    def action_work(self) -> None:
        self.done.append("work")

    def action_never(self) -> None:
        self.done.append("never")

    def action_fail(self) -> None:
        async def work() -> None:
            raise InputError(
                "this file is [bold]odd[/bold]\x1b[31m",
                fix="Mend it.",
                where=Location("tasks.json", 3, 7),
            )

        self.start(work, group="fail", busy="Trying")

    def action_break(self) -> None:
        raise KeyError("[red]sk-secret[/red]")

    def action_refuse(self) -> None:
        raise InputError("this cannot be", fix="Do something else.")

    def action_confirm(self) -> None:
        async def work() -> None:
            if await self.app.confirm("Really?", danger=True):
                self.done.append("confirmed")

        self.start(work, group="confirm")


@pytest.fixture
def with_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(steps.SCREENS, "mapping", f"{__name__}:StopScreen")
    monkeypatch.setattr(
        "hudtui.tui.app.screen_class", lambda name: StopScreen if name == "mapping" else _real(name)
    )
    monkeypatch.setattr(
        "hudtui.tui.palette.screen_class",
        lambda name: StopScreen if name == "mapping" else _real(name),
    )


_real = steps.screen_class


def facts(folder: Path, **changes: Any) -> Facts:
    values: dict[str, Any] = {
        "platform": "HUD",
        "account": WalletFact("HUD_API_KEY", ".env"),
        "configs": (folder / "configs" / "a.yaml",),
        "steps": {
            "environment": StepFact("done", "text-2048: 1 tool"),
            "mapping": StepFact("next", "no config", "Generate a config from the environment."),
            "dataset": StepFact("missing", "no task file"),
            "compute": StepFact("done", "this machine"),
            "run": StepFact("missing", "no run yet"),
        },
    }
    return Facts(folder, **{**values, **changes})


def services(**changes: Any) -> Services:
    return Services(load_facts=lambda folder: facts(folder, **changes))


async def test_opens_a_station_by_key_and_comes_back(
    open_app: Callable[..., Any], with_stop: None, tmp_path: Path
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        assert app.screen.NAME == "home"
        await pilot.press("2")
        stop = app.screen
        assert stop.NAME == "mapping" and stop.given == [{}]
        await pilot.press("w", "escape")
        assert app.screen.NAME == "home"
        app.open_screen("mapping", config="x.yaml")
        await pilot.pause()
        assert app.screen is stop, "a screen is kept when it is left"
        assert stop.done == ["work"] and stop.given[-1] == {"config": "x.yaml"}


async def test_a_disabled_action_says_why(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], with_stop: None, tmp_path: Path
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2", "n")
        assert app.screen.done == []
        assert "Never: there is nothing to do it with" in screen_text(app)
        await pilot.press("w", "n")
        assert app.screen.done == ["work", "never"]


async def test_an_error_is_shown_in_place_as_plain_text(
    open_app: Callable[..., Any],
    screen_text: Callable[[Any], str],
    settle: Any,
    with_stop: None,
    tmp_path: Path,
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2", "x")
        await settle(pilot)
        text = screen_text(app)
        assert "error: tasks.json:3:7: this file is [bold]odd[/bold]" in text
        assert "Mend it." in text and "\x1b" not in text


async def test_an_error_of_the_core_in_an_action_is_shown(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], with_stop: None, tmp_path: Path
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2", "r")
        assert "error: this cannot be" in screen_text(app) and "Do something else." in screen_text(
            app
        )


@pytest.mark.defect
async def test_a_defect_in_an_action_ends_nothing(
    open_app: Callable[..., Any],
    screen_text: Callable[[Any], str],
    settle: Any,
    with_stop: None,
    tmp_path: Path,
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2", "b")
        text = screen_text(app)
        assert "hudtui made a mistake here" in text and "Please report it with" in text
        (crash,) = app.places.state.glob("crash-*.txt")
        assert "KeyError" in crash.read_text() and "action_break" in crash.read_text()
        await pilot.press("ctrl+e")
        await settle(pilot)
        assert str(crash.name) in screen_text(app).replace("\n", "").replace(" ", "").replace(
            "│", ""
        )
        await pilot.press("escape", "w")
        assert app.screen.done == ["work"]


async def test_confirm_puts_danger_behind_a_key(
    open_app: Callable[..., Any], with_stop: None, tmp_path: Path
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2")
        stop = app.screen
        await pilot.press("a")
        await pilot.pause()
        assert app.focused.id == "no"
        await pilot.press("enter")
        await pilot.pause()
        assert stop.done == []
        await pilot.press("a")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert stop.done == ["confirmed"]


@pytest.mark.parametrize(
    "dialog", [lambda: Confirm("Sure?"), lambda: Pick("Which one?", ["this", "that"])]
)
async def test_a_dialog_may_be_closed_before_it_is_mounted(
    open_app: Any, settle: Any, tmp_path: Path, dialog: Any
) -> None:
    async with open_app(tmp_path) as (app, pilot):
        app.push_screen(dialog())
        app.pop_screen()
        await settle(pilot)
        assert app.is_running and app.screen.NAME == "home"


def test_two_actions_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two actions are called app\.home"):

        class Twice(Acting):
            ACTIONS = (AppAction("app.home", "Other", "Something else.", "h"),)


async def test_quit_says_that_runs_go_on(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], settle: Any, tmp_path: Path
) -> None:
    run = RunFact("r1", "2048-greedy", "running", True, 0.0)
    async with open_app(tmp_path, services=services(runs=(run,))) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
        text = screen_text(app)
        assert (
            "1 run is active" in text
            and "2048-greedy" in text
            and "It continues without hudtui" in text
        )
        await pilot.press("n")
        await pilot.pause()
        assert app.is_running
        await pilot.press("ctrl+c", "ctrl+c")
        await settle(pilot)
        assert app.is_running and app.screen.is_modal
        await pilot.press("ctrl+c")
        await settle(pilot)
        assert app.is_running and not app.screen.is_modal, "Ctrl-C in a question is no"
        await pilot.press("q")
        await settle(pilot)
        await pilot.press("y")
    assert app.return_code == 0


async def test_machines_can_ask_for_a_pass_phrase(
    open_app: Callable[..., Any], settle: Any, tmp_path: Path
) -> None:
    async with open_app(tmp_path) as (app, pilot):
        await settle(pilot)
        answers: list[str | None] = []

        async def log_in() -> None:
            assert hosts._prompts.ask is not None
            answers.append(await hosts._prompts.ask("pass-phrase of ~/.ssh/work: "))

        work = app.run_worker(log_in())
        for _ in range(200):
            await pilot.pause(0.02)
            if app.screen.is_modal:
                break
        assert app.screen.query_one(Input).password
        await pilot.press(*"open", "enter")
        await work.wait()
        assert answers == ["open"]
    assert hosts._prompts.ask is None


async def test_without_runs_quit_asks_nothing(open_app: Callable[..., Any], tmp_path: Path) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert not app._running


# -- what changes while the app is open
# ------------------------------------------------------------------------------------


async def test_one_look_that_fails_does_not_end_the_refreshing(
    open_app: Callable[..., Any], tmp_path: Path
) -> None:
    looks: list[str] = []

    def load(folder: Path) -> Facts:
        looks.append("look")
        if len(looks) == 2:
            raise InputError("the list of runs is locked")
        return facts(folder, dataset=f"look-{len(looks)}")

    async with open_app(tmp_path, services=Services(load_facts=load)) as (app, pilot):
        await app.reload().wait()
        assert "the list of runs is locked" in app.screen.message
        while app.facts.dataset == "look-1":
            await pilot.pause(0.05)
        assert len(looks) >= 3


async def test_what_cannot_be_read_is_told_once(
    open_app: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(HudtuiApp, "fail", lambda app, error: told.append(str(error)))
    looks: list[str] = []

    def load(folder: Path) -> Facts:
        looks.append("look")
        raise InputError("this folder cannot be opened")

    async with open_app(tmp_path, services=Services(load_facts=load)) as (_, pilot):
        while len(looks) < 3:
            await pilot.pause(0.05)
        assert told == ["this folder cannot be opened"]


async def test_a_slow_look_at_the_project_does_not_take_back_what_was_read_after_it(
    open_app: Any, tmp_path: Path, settle: Any
) -> None:
    name = "old"
    check, slow = Event(), Event()  # set: the next one waits
    checking, reading, checked, read = Event(), Event(), Event(), Event()

    def load(folder: Path) -> Facts:
        seen = name
        if slow.is_set():
            slow.clear()
            reading.set()
            assert read.wait(20)
        return facts(folder, platform=seen)

    def find_errors(facts: Facts) -> bool:
        nonlocal name
        if not check.is_set():
            return False
        check.clear()
        checking.set()
        assert checked.wait(20)
        name = "new"
        return True

    async with open_app(tmp_path, services=Services(load_facts=load, check_files=find_errors)) as (
        app,
        pilot,
    ):
        check.set()
        app.reload()
        while not checking.is_set():
            await pilot.pause(0.01)
        slow.set()
        app.reload()
        while not reading.is_set():
            await pilot.pause(0.01)
        checked.set()
        for _ in range(50):
            if app.facts.platform == "new":
                break
            await pilot.pause(0.01)
        read.set()
        await settle(pilot)
        assert app.facts.platform == "new"


async def test_runs_of_another_process_are_noticed(
    open_app: Callable[..., Any], tmp_path: Path
) -> None:
    async with open_app(tmp_path) as (app, pilot):
        assert app.facts.runs == ()
        store = RunStore(tmp_path / ".hudtui")
        plan, spec = (
            Plan("rollouts", (Stage("play", ("true",)),)),
            RunSpec("rollouts", "theirs", str(tmp_path)),
        )
        record = RunRecord(
            "theirs-1",
            1.0,
            "theirs",
            "rollouts",
            "local",
            machine_label(),
            str(store.folder / "theirs-1"),
            spec,
            plan,
        )
        store.add(record)
        while not app.facts.runs:
            await pilot.pause(0.05)
        assert app.facts.runs[0].id == "theirs-1"
        store.append("theirs-1", "failed", {"why": "it broke"})
        while app.facts.runs[0].state != "failed":
            await pilot.pause(0.05)


async def test_ages_go_on_in_every_row(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], tmp_path: Path
) -> None:
    start = datetime(2026, 11, 20, 12, tzinfo=UTC)
    now = [start]
    runs = tuple(
        RunFact(f"r{n}", f"run {n}", "finished", False, "✓", start.timestamp() - 90, 1.0)
        for n in range(3)
    )
    services_ = Services(now=lambda: now[0], load_facts=lambda folder: facts(folder, runs=runs))
    async with open_app(tmp_path, size=(200, 48), services=services_) as (app, pilot):
        while screen_text(app).count("1 min ago") < 3:
            await pilot.pause(0.05)
        now[0] = start + timedelta(minutes=15)
        while screen_text(app).count("16 min ago") < 3:
            await pilot.pause(0.05)
        assert "1 min ago" not in screen_text(app).replace("16 min ago", "")


async def test_going_to_another_screen_answers_a_dialog_as_cancelled(
    open_app: Callable[..., Any], tmp_path: Path
) -> None:
    answers: list[object] = []
    async with open_app(tmp_path) as (app, pilot):

        async def work() -> None:
            answers.append(await app.confirm("Go?"))
            answers.append(await app.ask("Name"))

        worker = app.run_worker(work())
        for _ in range(2):
            await pilot.pause()
            app.open_screen("settings")
        await worker.wait()
        assert answers == [False, None] and app.screen.NAME == "settings"
