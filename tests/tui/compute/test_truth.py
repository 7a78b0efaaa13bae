"""What the app says of money is so: with the provider away, with machines taken back, when it is
left, and what others rent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until

from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.tui.widgets.pane import Pane

pytestmark = pytest.mark.usefixtures("hosts_closed")


def header(app: Any, screen_text: Any) -> str:
    return str(screen_text(app).splitlines()[0])


def prose(text: str) -> str:
    """What a dialog says, without its edges and line breaks."""
    return " ".join(text.replace("│", " ").split())


def away(world: Any) -> None:
    """The provider answers nothing any more."""
    world.sim.fail_next("*", "/api/*", kind="status", status=503, times=10_000)


async def alive(world: Any) -> str:
    """A machine that was rented by hand an hour ago; its id."""
    pod: str = await world.rent("hudtui-mine", "1H100.80S")
    world.advance(3600)
    return pod


# -- a provider that does not answer
# -------------------------------------------------------------------------------------


async def test_machines_stay_in_sight_while_their_provider_does_not_answer(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    world.key()
    await alive(world)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        assert "● ready" in screen_text(app) and "/h" in header(app, screen_text)
        away(world)
        await app.screen.look()
        text = screen_text(app)
        assert "hudtui-mine" in text and "? ready" in text and "1 may be rented" in text
        assert "does not answer" in text and "last known state" in text
        assert "No machine is rented" not in text and "Nothing is alive" not in text
        assert "/h" in header(app, screen_text) and " as of " in header(app, screen_text)
        assert app.screen.why_not("compute.terminal") is None, "its address is known"
        assert (
            app.screen.why_not("compute.terminate") is None
            and app.screen.why_not("compute.limits") is None
        )
        world.sim.heal()
        await app.screen.look()
        assert "● ready" in screen_text(app) and " as of " not in header(app, screen_text)


async def test_at_a_start_with_the_provider_away_what_the_ledger_knows_is_shown(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    await alive(world)
    away(world)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await settle(pilot)
        assert "/h" in header(app, screen_text)
        await pilot.press("4", "p")
        await settle(pilot)
        assert "hudtui-mine" in screen_text(app) and "1 may be rented" in screen_text(app)


async def test_without_machines_it_is_not_said_that_nothing_is_alive_unless_that_was_heard(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    away(world)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        assert "whether a machine is alive there is not known" in screen_text(app)
        world.sim.heal()
        await app.screen.look()
        assert "No machine is rented." in screen_text(app)


async def test_what_keeps_a_provider_from_answering_is_told_once(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    async with open_app(project, services=world.services) as (app, pilot):
        away(world)
        await pilot.press("4")
        await settle(pilot)
        assert app.screen.snapshot.silent and len(app.screen.warnings()) == 1


# -- a machine that is taken back
# ----------------------------------------------------------------------------------------


async def test_a_machine_that_is_taken_back_is_told_until_it_is_noted(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    pod = await alive(world)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        screen = app.screen
        screen._renting.ready = "hudtui-mine"
        screen.say("hudtui-mine is ready: t opens a terminal on it", "success")
        await app.spending.look()
        assert "is ready" in screen.message, "as long as it is there"
        world.sim.reclaim(pod)
        await app.spending.look()
        assert "hudtui-mine is gone" in screen.message and "is ready" not in screen.message
        assert "✗ taken back" in screen_text(app) and "1 machine taken back" in header(
            app, screen_text
        )
        screen.say("something else")
        await app.spending.look()
        assert screen.message == "something else", "it is told once; the header and the row stay"
        assert "1 machine taken back" in header(app, screen_text)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await settle(pilot)
        assert "1 machine taken back" in header(app, screen_text), "a new start does not forget it"
        await pilot.press("4", "p", "d")
        await until(pilot, lambda: "taken back" not in header(app, screen_text))
        assert "✗ taken back" in screen_text(app), "the row stays"
        assert not app.screen.offers("compute.noted")
    async with open_app(project, services=world.services) as (app, pilot):
        await settle(pilot)
        assert "taken back" not in header(app, screen_text) and "is gone" not in app.screen.message


# -- leaving
# --------------------------------------------------------------------------------------------------


async def test_quitting_names_a_machine_that_was_rented_by_hand(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    await alive(world)
    async with open_app(project, size=(120, 48), services=world.services) as (app, pilot):
        await settle(pilot)
        await pilot.press("q")
        await until(pilot, lambda: app.screen.is_modal)
        text = prose(screen_text(app))
        assert (
            "1 machine costs money without hudtui" in text
            and "hudtui-mine costs $" in text
            and "and has no run" in text
        )
        assert "hudtui pods terminate hudtui-mine" in text and "nothing ends it by itself" in text
        await pilot.press("n")
        await until(pilot, lambda: not app.screen.is_modal)
        assert app.is_running
        await pilot.press("q")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
    (line,) = app.parting
    assert line.startswith("hudtui-mine costs $") and "hudtui pods terminate hudtui-mine" in line


async def test_the_last_words_come_however_the_app_is_left(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    await alive(world)
    away(world)
    async with open_app(project, services=world.services) as (app, pilot):
        await settle(pilot)
        app.exit()
    assert len(app.parting) == 1 and "hudtui-mine" in app.parting[0], "also with the provider away"


async def test_without_rented_machines_nothing_is_said_of_them(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    async with open_app(project, services=world.services) as (app, pilot):
        await settle(pilot)
        await pilot.press("q")
        await pilot.pause()
    assert app.parting == ()


# -- what is rented elsewhere, and from the first moment on
# --------------------------------------------------------------


def order(name: str) -> Order:
    return Order(name, Offer("prime", "x", "H100_80GB", 1, Price(2.45)))


async def test_the_header_counts_a_machine_from_the_order_on(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await settle(pilot)
        assert app.spending.money is None
        realm = (await app.spending.open()).overview.providers["prime"].endpoint
        await asyncio.to_thread(
            Ledger().reserve, order("hudtui-new"), provider="prime", endpoint=realm
        )
        app.spending.look_soon()
        await until(pilot, lambda: "$2.45/h" in header(app, screen_text))
        assert not world.sim.pods, "nobody has created it yet"


async def test_what_another_process_rents_is_noticed(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await settle(pilot)
        assert "/h" not in header(app, screen_text)
        await world.rent("hudtui-theirs", "1H100.80S")
        await until(pilot, lambda: "/h" in header(app, screen_text))


async def test_a_look_that_is_written_down_makes_no_new_one(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    await alive(world)
    async with open_app(project, services=world.services) as (app, pilot):
        await settle(pilot)
        await app.spending.look()
        world.sim.forget_requests()
        await app.spending._look_if_new()
        assert world.sim.requests == ()


# -- keys and words on the list
# ------------------------------------------------------------------------------------------


async def test_keys_on_the_list_of_machines_say_what_they_do(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    await alive(world)
    async with open_app(project, size=(120, 35), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        await pilot.press("l")
        await until(pilot, lambda: "o goes to the offers" in app.screen.message)
        assert app.screen.NAME == "compute"
        await pilot.press("enter")
        await settle(pilot)
        detail = app.screen.query_one("#compute-detail", Pane)
        assert (
            detail.has_focus_within
            and detail.title == "Machine"
            and "hudtui-mine" in screen_text(app)
        )
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen.query_one("#compute-pods").has_focus_within, (
            "Esc goes back to the list that Enter came from"
        )
        await pilot.press("enter", "p")
        await settle(pilot)
        assert app.screen.query_one("#compute-pods").has_focus_within, (
            "p goes to the list also from the detail of a machine"
        )
        await pilot.press("p")
        await until(pilot, lambda: app.screen.message == "Machines: you are already there")


async def test_how_long_the_wallet_lasts_is_said_before_renting_and_beside_what_is_alive(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    world.key()
    world.sim.account.balance = 0.05
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("c")
        await until(pilot, lambda: "Rent 1 ×" in screen_text(app))
        assert "! Your wallet ($0.050) lasts 6 min." in screen_text(app)


async def test_an_offer_that_is_gone_leaves_the_list(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    world.key()
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("c")
        await until(pilot, lambda: app.screen.is_modal)
        world.sim.fail_next(
            "POST", "/api/v1/pods/", kind="status", status=404, detail="No capacity"
        )
        world.sim.forget_requests()
        await pilot.press("y")
        await until(pilot, lambda: any("availability" in one.path for one in world.sim.requests))
        await settle(pilot)


async def test_own_machines_are_there_while_the_simulator_is_gone(
    open_app: Any, settle: Any, screen_text: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDTUI_SIM", "demo")

    def gone(lookup: Any) -> None:
        raise ProviderError("the demo's simulator did not start", why="no room")

    monkeypatch.setattr("hudtui.core.compute.demo_simulator.ensure_simulator", gone)
    async with open_app(project, size=(160, 40)) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        text = screen_text(app)
        assert "this machine" in text and "the demo's simulator did not start; no room" in text
        assert (
            "no machine can be rented at the moment" in text
            and app.spending.session.problem is not None
        )
        await pilot.press("a")
        await settle(pilot)
        assert "the demo's simulator did not start" in screen_text(app)
