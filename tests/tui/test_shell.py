"""The shell: frame, moving about, words, dialogs, palette and help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from textual.widget import Widget
from textual.widgets import Input, Static

from hudtui.core.errors import InputError, Location
from hudtui.core.runs import hosts
from hudtui.tui import stations
from hudtui.tui.facts import Account, Facts, RunFact, Services, StationFact
from hudtui.tui.keymap import Acting, Action
from hudtui.tui.screens.base import StationScreen


class StopScreen(StationScreen):
    """A station of the tests' own."""

    NAME = "mapping"
    TITLE = "mapping"
    HELP = "For trying the frame."
    ACTIONS: ClassVar[tuple[Action, ...]] = (
        Action("stop.work", "Work", "Do something.", "w"),
        Action("stop.never", "Never", "Cannot be done.", "n"),
        Action("stop.fail", "Fail", "Goes wrong.", "x"),
        Action("stop.confirm", "Ask", "Asks first.", "a"),
        Action("stop.break", "Break", "Has a defect.", "b"),
        Action("stop.refuse", "Refuse", "Is refused by the core.", "r"),
    )

    def content(self) -> Iterable[Widget]:
        yield Static("content of the stop", id="stop")

    def __init__(self) -> None:
        super().__init__()
        self.done: list[str] = []
        self.given: list[dict[str, Any]] = []

    def opened(self, **given: Any) -> None:
        self.given.append(given)

    def why_not(self, action_id: str) -> str | None:
        return "there is nothing to do it with" if action_id == "stop.never" else None

    def action_work(self) -> None:
        self.done.append("work")

    def action_never(self) -> None:
        self.done.append("never")

    def action_fail(self) -> None:
        async def work() -> None:
            raise InputError("this file is [bold]odd[/bold]\x1b[31m", fix="Mend it.", where=Location("tasks.json", 3, 7))

        self.start(work(), group="fail", busy="Trying")

    def action_break(self) -> None:
        raise KeyError("[red]sk-secret[/red]")

    def action_refuse(self) -> None:
        raise InputError("this cannot be", fix="Do something else.")

    def action_confirm(self) -> None:
        async def work() -> None:
            if await self.shell.confirm("Really?", danger=True):
                self.done.append("confirmed")

        self.start(work(), group="confirm")


@pytest.fixture
def with_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(stations.SCREENS, "mapping", f"{__name__}:StopScreen")
    monkeypatch.setattr("hudtui.tui.app.screen_class", lambda name: StopScreen if name == "mapping" else _real(name))
    monkeypatch.setattr("hudtui.tui.palette.screen_class", lambda name: StopScreen if name == "mapping" else _real(name))


_real = stations.screen_class


def facts(folder: Path, **changes: Any) -> Facts:
    values: dict[str, Any] = {
        "platform": "HUD",
        "account": Account("HUD_API_KEY", ".env"),
        "configs": (folder / "configs" / "a.yaml",),
        "stations": {
            "environment": StationFact("done", "text-2048: 1 tool"),
            "mapping": StationFact("next", "no config", "Generate a config from the environment."),
            "dataset": StationFact("missing", "no task file"),
            "compute": StationFact("done", "this machine"),
            "run": StationFact("missing", "no run yet"),
        },
    }
    return Facts(folder, **{**values, **changes})


def services(**changes: Any) -> Services:
    return Services(load_facts=lambda folder: facts(folder, **changes))


async def test_opens_a_station_by_key_and_comes_back(open_app: Callable[..., Any], with_stop: None, tmp_path: Path) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        assert app.screen.NAME == "home"
        await pilot.press("2")
        stop = app.screen
        assert stop.NAME == "mapping" and stop.given == [{}]
        await pilot.press("w", "escape")
        assert app.screen.NAME == "home"
        app.open_station("mapping", config="x.yaml")
        await pilot.pause()
        assert app.screen is stop, "a screen is kept when it is left"
        assert stop.done == ["work"] and stop.given[-1] == {"config": "x.yaml"}


async def test_a_station_without_a_screen_is_not_offered(
    open_app: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(stations.SCREENS, "compute", raising=False)
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("4")
        assert app.screen.NAME == "home"
        assert not any(key.binding.id == "app.open-compute" for key in app.screen.active_bindings.values())


async def test_a_disabled_action_says_why(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], with_stop: None, tmp_path: Path
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2", "n")
        assert app.screen.done == []
        assert "Never: there is nothing to do it with" in screen_text(app)


async def test_an_error_is_shown_in_place_as_plain_text(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], settle: Any, with_stop: None, tmp_path: Path
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
        assert "error: this cannot be" in screen_text(app) and "Do something else." in screen_text(app)


@pytest.mark.defect
async def test_a_defect_in_an_action_ends_nothing(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], settle: Any, with_stop: None, tmp_path: Path
) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("2", "b")
        text = screen_text(app)
        assert "hudtui made a mistake here" in text and "Please report it with" in text
        (crash,) = app.places.state.glob("crash-*.txt")
        assert "KeyError" in crash.read_text() and "action_break" in crash.read_text()
        await pilot.press("ctrl+e")
        await settle(pilot)
        assert str(crash.name) in screen_text(app).replace("\n", "").replace(" ", "").replace("│", "")
        await pilot.press("escape", "w")
        assert app.screen.done == ["work"]


async def test_confirm_puts_danger_behind_a_key(open_app: Callable[..., Any], with_stop: None, tmp_path: Path) -> None:
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


def test_two_actions_with_one_id_are_refused() -> None:
    with pytest.raises(ValueError, match=r"two actions are called app\.home"):

        class Twice(Acting):
            ACTIONS = (Action("app.home", "Other", "Something else.", "h"),)


async def test_quit_says_that_runs_go_on(
    open_app: Callable[..., Any], screen_text: Callable[[Any], str], settle: Any, tmp_path: Path
) -> None:
    run = RunFact("r1", "2048-greedy", "running", True, 0.0)
    async with open_app(tmp_path, services=services(runs=(run,))) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
        text = screen_text(app)
        assert "1 run is going on" in text and "2048-greedy" in text and "go on without hudtui" in text
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


async def test_machines_can_ask_for_a_pass_phrase(open_app: Callable[..., Any], settle: Any, tmp_path: Path) -> None:
    async with open_app(tmp_path) as (app, pilot):
        await settle(pilot)
        answers: list[str | None] = []

        async def log_in() -> None:
            assert hosts._person.ask is not None
            answers.append(await hosts._person.ask("pass-phrase of ~/.ssh/work: "))

        work = app.run_worker(log_in())
        for _ in range(200):
            await pilot.pause(0.02)
            if app.screen.is_modal:
                break
        assert app.screen.query_one(Input).password
        await pilot.press(*"open", "enter")
        await work.wait()
        assert answers == ["open"]
    assert hosts._person.ask is None


async def test_without_runs_quit_asks_nothing(open_app: Callable[..., Any], tmp_path: Path) -> None:
    async with open_app(tmp_path, services=services()) as (app, pilot):
        await pilot.press("q")
        await pilot.pause()
        assert not app._running
