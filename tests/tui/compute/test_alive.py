"""What is alive: renting, watching, ending; and the machines that nobody remembers."""

from __future__ import annotations

import asyncio
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.waiting import until
from textual.widgets import Static

from hudtui.core.compute.budget import BudgetExceeded, grant_new
from hudtui.core.compute.costs import sum_costs
from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.values import Price
from hudtui.core.flows import rent as rent_flow
from hudtui.tui.app import HudtuiApp
from hudtui.tui.compute.offers import OffersPane
from hudtui.tui.compute.pods import PodsPane

pytestmark = pytest.mark.usefixtures("hosts_closed")


# -- the picture, and the words of other states
# --------------------------------------------------------------------------------------------------


@pytest.fixture
async def two_alive(world: Any) -> Any:
    """One that a run owns and whose budget is nearly used up, one that no run owns."""
    await world.rent("hudtui-train-bcdfgh", "2H100.80S", run="grpo-x7k2")
    world.advance(1800)
    await world.rent("hudtui-lost-zyxwvt", "1A100.22V", written=False)
    world.advance(7200)
    for pod in world.sim.pods:
        world.sim.set_pod(
            pod, sshConnection="root@10.0.0.7 -p 22"
        )  # the real port is another one each time
    Ledger().set_limits("hudtui-train-bcdfgh", Limits(run_budget=12))
    return world


def test_picture_full(snap: Any, project: Path, two_alive: Any, size: tuple[int, int]) -> None:
    assert snap(HudtuiApp(project, services=two_alive.services), size=size, press=["4", "p"])


ONE = (
    "2 machines $5.49/h ! 1 (sim)",
    "wallet $86.95 $5.49/h, $13.05 today",
    "Machines 2 ! 1 unclaimed",
    "hudtui-train-bcdfgh (simulated) state ready Prime (simulated) says ACTIVE/FINISHED",
    "machine 2 × H100_80GB where datacrunch id simpod00000000000000000000000001",
    "owner run grpo-x7k2 login root@10.0.0.7",
    "t opens a terminal on it age 2h 30m price $4.20 an hour cost $10.48 billed so far",
    "wallet pays for 15 h 50 min of all machines",
    "budget █████████░ 87 % of $12.00",
)
END = (
    "End hudtui-lost-zyxwvt?",
    "A100_80GB, $1.29/h, $2.57 billed, simulated",
    "! It is unclaimed, and alive for 2 h 00 min: it has a name",
    "of hudtui's and was not ordered here: you on another",
    "machine, or a member of your team, may use it.",
    "Everything on it is lost.",
    "End (y) Cancel (n)",
    "2 rented, 1 unclaimed (X ends it)",
)
START = (
    "There is no project in this folder yet. Begin with:",
    "2 machines $5.49/h today $13.05 of $100.00 simulated",
    "1 x A100 80GB hudtui-lost-zyxwvt unclaimed $1.29/h 15h 50m left",
    "2 x H100 80GB hudtui-train-bcdfgh run grpo-x7k2 $4.20/h 21m 46s left",
    "! warning: A machine without a run is alive: hudtui-lost-zyxwvt, for 2h 00m, $2.57 so far "
    "(simulated). 4, then p, shows it; x ends it.",
)


@pytest.mark.parametrize(
    ("size", "press", "words"),
    [
        pytest.param((80, 24), ("4", "p", "j", "enter"), ONE, id="one machine"),
        pytest.param((80, 24), ("4", "p", "x"), END, id="end"),
        pytest.param((120, 35), (), START, id="start"),
    ],
)
async def test_the_words_about_what_is_alive(
    says: Any,
    project: Path,
    two_alive: Any,
    size: tuple[int, int],
    press: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    await says(HudtuiApp(project, services=two_alive.services), *words, size=size, press=press)


RENT = (
    "Rent 1 × RTX4090_24GB for ~$0.44/h (simulated)?",
    "No real money is spent.",
    "$10.56 to $10.78 for 24 h at $0.44/h",
    "setting it up takes a few minutes to half an hour the price may change while it runs",
    "Your wallet ($100.00) lasts 9 d 11 h.",
    "It is ended at $25.00 or after 24 h or at $100.00 a day for all machines.",
    "When hudtui is closed, a guard on it switches it off in time. Only ending it is sure to stop "
    "the billing.",
    "Rent (y) Cancel (n)",
)


async def test_the_words_before_renting(says: Any, project: Path, world: Any) -> None:
    world.key()
    app = HudtuiApp(project, services=world.services)
    await says(app, *RENT, press=["4", "c"])


async def test_the_words_where_nothing_is_rented(says: Any, project: Path, world: Any) -> None:
    app = HudtuiApp(project, services=world.services)
    await says(app, "No machine is rented.", "l Launch", press=["4", "p"])


# -- renting
# --------------------------------------------------------------------------------------------------


async def test_rent_log_in_and_end(
    open_app: Any,
    settle: Any,
    screen_text: Any,
    project: Path,
    world: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world.key()
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        offer = app.screen.offer
        await pilot.press("c")
        await until(pilot, lambda: "Rent 1 × RTX4090_24GB" in screen_text(app))
        text = screen_text(app)
        assert "$0.44" in text and "No real money" in text and "at $25.00" in text
        await pilot.press("y")
        await until(pilot, lambda: not app.screen.is_modal and "x ends it." in app.screen.message)
        await settle(pilot)

        entry = Ledger().records()[0]
        assert entry.state == "ready" and entry.order.offer.id == offer.id
        assert Ledger().limits(entry.name) == Limits(idle_minutes=None)
        text = screen_text(app)
        assert entry.name in text and "$0.44/h" in text and "(simulated)" in text
        assert app.screen.query_one(PodsPane).has_focus_within and len(world.sim.alive) == 1

        commands: list[list[str]] = []
        monkeypatch.setattr(app.screen, "step_aside", commands.append)
        await pilot.press("t")
        await until(pilot, lambda: commands)
        plain = [word for word in commands[0] if word != "-t"]
        said = await asyncio.to_thread(
            subprocess.run, [*plain, "echo hello"], capture_output=True, text=True, timeout=60
        )
        assert said.stdout == "hello\n", said.stderr
        await settle(pilot)

        await pilot.press("x")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(
            pilot, lambda: not app.screen.is_modal and "has ended, verified" in app.screen.message
        )
        await settle(pilot)
        assert not world.sim.alive and Ledger().records() == ()
        ended = Ledger().get(entry.name)
        assert ended is not None and ended.state == "ended" and ended.why == "ended by hand"
        assert app.spending.money is None and "/h" not in screen_text(app).splitlines()[0]


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
async def test_the_detail_shows_the_next_machine_and_then_that_the_last_one_is_gone(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any, size: tuple[int, int]
) -> None:
    for name, offer in (
        ("hudtui-first-bcdfgh", "2H100.80S"),
        ("hudtui-second-bcdfgh", "1A100.22V"),
    ):
        await world.rent(name, offer)
    async with open_app(project, size=size, services=world.services) as (app, pilot):

        def detail() -> str:
            return str(app.screen.query_one("#compute-detail CalmStatic", Static).content)

        async def end() -> None:
            await pilot.press("x")
            await until(pilot, lambda: app.screen.is_modal)
            await pilot.press("y")
            await until(
                pilot,
                lambda: not app.screen.is_modal and "has ended, verified" in app.screen.message,
            )
            await settle(pilot)

        for key in ("4", "p", "enter"):
            await pilot.press(key)
            await settle(pilot)
        first = app.screen.pod.pod.name
        await end()
        second = app.screen.pod.pod.name
        await until(pilot, lambda: detail().startswith(second))
        assert {first, second} == {"hudtui-first-bcdfgh", "hudtui-second-bcdfgh"}
        await end()
        await until(pilot, lambda: detail().startswith(f"{second}  (simulated)"))
        assert (
            "It has ended: ended by hand." in detail()
            and " billed" in detail()
            and "Limits" not in detail()
        )
        assert "It has ended: ended by hand." in screen_text(app) and app.screen.focused is not None
        await pilot.press("x")
        await settle(pilot)
        assert not app.screen.is_modal and "it has ended" in app.screen.message, (
            "nothing else can be ended from there"
        )
        await pilot.press("y")
        await until(pilot, lambda: f'"{second}"' in app.clipboard)
        for _ in range(2):  # to the list of machines, where one pane has room, and to the offers
            if not app.screen.query_one(OffersPane).has_focus_within:
                await pilot.press("escape")
                await settle(pilot)
        assert app.screen.NAME == "compute" and app.screen.query_one(OffersPane).has_focus_within
        await pilot.press("p")
        await settle(pilot)
        assert app.screen.query_one(PodsPane).has_focus_within


async def test_cancelling_ends_what_was_created(
    open_app: Any, settle: Any, project: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.key()
    world.sim.behave(boot=10**6)
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        screen = app.screen
        await pilot.press("c")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(pilot, lambda: world.sim.alive and screen.renting)
        await pilot.press("ctrl+x")
        await until(pilot, lambda: not screen.renting)
        await settle(pilot)
        assert not world.sim.alive and Ledger().records() == ()
        assert len(world.sim.pods) == 1


async def _getting(pilot: Any, settle: Any, world: Any) -> None:
    """Rent a machine that takes forever to boot."""
    world.key()
    world.sim.behave(boot=10**6)
    await pilot.press("4")
    await settle(pilot)
    await pilot.press("c")
    await until(pilot, lambda: pilot.app.screen.is_modal)
    await pilot.press("y")
    await until(pilot, lambda: world.sim.alive and pilot.app.rented.getting)


async def test_quitting_gives_up_a_machine_that_is_being_got(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    async with open_app(project, services=world.services) as (app, pilot):
        await _getting(pilot, settle, world)
        (name,) = app.rented.getting
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        text = screen_text(app)
        assert f"the machine {name} is being prepared" in text and "Quitting cancels it" in text
        await pilot.press("n")
        await until(pilot, lambda: not app.screen.is_modal)
        assert world.sim.alive and app.rented.getting, "whoever stays keeps it"
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(pilot, lambda: not app.is_running)
        entry = Ledger().get(name)
        assert not world.sim.alive and entry is not None and entry.state == "ended"


async def test_a_machine_that_is_ready_stays_and_quitting_waits_for_its_guard(
    open_app: Any,
    settle: Any,
    screen_text: Any,
    project: Path,
    world: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guarding, put = asyncio.Event(), asyncio.Event()

    async def slow(*_: Any, **__: Any) -> None:
        guarding.set()
        await put.wait()

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", slow)
    world.key()
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("c")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(pilot, guarding.is_set)
        await pilot.press("ctrl+x")
        await until(pilot, lambda: "the machine is ready: x ends it" in app.screen.message)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: app.screen.is_modal)
        assert "is ready and stays" in screen_text(
            app
        ) and "Quitting cancels it" not in screen_text(app)
        await pilot.press("y")
        await until(pilot, lambda: app.screen.message.endswith("Waiting for the guard"))
        assert app.is_running
        put.set()
        await until(pilot, lambda: not app.is_running)
    assert len(world.sim.alive) == 1 and [one.state for one in Ledger().records()] == ["ready"]


async def test_a_lost_terminal_gives_up_a_machine_that_is_being_got_too(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    async with open_app(project, services=world.services) as (app, pilot):
        await _getting(pilot, settle, world)
        world.sim.fail_next("DELETE", "/api/v1/pods/*", kind="slow", seconds=1)
        app.terminal_lost()
    assert not world.sim.alive and Ledger().records() == (), "the app has waited for it"


async def test_a_key_that_the_provider_does_not_know_is_registered_first(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    world.key(known=False)
    async with open_app(project, services=world.services) as (app, pilot):
        await pilot.press("4")
        await settle(pilot)
        await pilot.press("c")
        await until(pilot, lambda: "Register this SSH key?" in screen_text(app))
        await pilot.press("n")
        await settle(pilot)
        assert not world.sim.pods and not app.screen.renting
        await pilot.press("c")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(
            pilot,
            lambda: (
                "Rent" in screen_text(app)
                and app.screen.is_modal
                and "Register" not in screen_text(app)
            ),
        )
        await pilot.press("escape")
        await settle(pilot)
        assert not world.sim.pods
        keys = [
            request
            for request in world.sim.requests
            if request.path.startswith("/api/v1/ssh_keys") and request.method == "POST"
        ]
        assert len(keys) == 1


# -- those that nobody remembers
# -----------------------------------------------------------------------------------------


async def test_orphans_are_told_at_the_start_and_end_with_one_key(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    first = await world.rent("hudtui-a", "1A100.22V", run="over", workspace=project)
    by_hand = await world.rent("hudtui-d", "1A100.22V")
    second = await world.rent("hudtui-b", "1H100.80S", written=False)
    await world.rent("hudtui-c", "1H100.80S", run="r1")
    world.advance(3600)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await settle(pilot)
        assert (
            "A machine without a run is alive: hudtui-b" in app.screen.message
            and "and " in app.screen.message
        )
        assert app.screen.message.endswith("4, then p, shows it; x ends it.")
        assert "unclaimed" in screen_text(app).splitlines()[0]
        await pilot.press("4", "p")
        await settle(pilot)
        assert {one.pod.id for one in app.screen.snapshot.pods if one.unclaimed} >= {first, second}
        assert app.screen.snapshot.pods[0].unclaimed is not None
        assert by_hand not in {one.pod.id for one in app.screen.snapshot.pods if one.unclaimed}
        orphans = len(app.screen.snapshot.orphans)
        assert (
            f"4 rented, {orphans} unclaimed (X ends {'it' if orphans == 1 else 'them'})"
            in screen_text(app)
        )
        await pilot.press("X")
        await until(pilot, lambda: f"End {orphans} machines?" in screen_text(app))
        await pilot.press("enter")  # the careless key does no harm
        await settle(pilot)
        assert len(world.sim.alive) == 4
        await pilot.press("X")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(
            pilot, lambda: not app.screen.is_modal and "has ended, verified" in app.screen.message
        )
        await settle(pilot)
        assert len(world.sim.alive) == 4 - orphans and by_hand in {
            pod.id for pod in world.sim.alive
        }
        assert not app.screen.offers("compute.orphans")
        await pilot.press("h")
        await until(pilot, lambda: "Machines that have ended" in screen_text(app))
        await settle(pilot)
        lines = screen_text(app).splitlines()
        told = lines[next(place for place, line in enumerate(lines) if "hudtui-b " in line) + 1]
        assert re.search(r"/h, [\d-]+ \d\d:\d\d +│", told), "hudtui does not know why it ended"


async def test_a_machine_whose_results_are_being_fetched_is_no_orphan(
    open_app: Any, settle: Any, project: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.rent("hudtui-a", "1H100.80S", run="r1", workspace=project)
    async with open_app(project, services=world.services) as (app, pilot):
        await settle(pilot)
        assert [one.pod.name for one in app.spending.holdings.orphans] == ["hudtui-a"], (
            "no workspace knows its run"
        )
        monkeypatch.setattr(app.rented, "manages", lambda run: run == "r1")
        await app.spending.look()
        assert not app.spending.holdings.orphans and app.spending.holdings.pods[0].run == "r1"


async def test_of_several_that_are_ended_all_are_accounted_for(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    await world.rent("hudtui-a", "1A100.22V", run="over", workspace=project)
    await world.rent("hudtui-b", "1H100.80S", run="over", workspace=project)
    bad = await world.rent("hudtui-c", "1H100.80S", run="over", workspace=project)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        world.sim.fail_next(
            "DELETE",
            f"/api/v1/pods/{bad}*",
            kind="status",
            status=403,
            detail="not yours",
            times=50,
        )
        await pilot.press("X")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("y")
        await until(
            pilot, lambda: not app.screen.is_modal and "has ended, verified" in app.screen.message
        )
        told = app.screen.message
        assert "hudtui-c" in told and "hudtui-a has ended" in told and "hudtui-b has ended" in told
        assert [pod.name for pod in world.sim.alive] == ["hudtui-c"]


@pytest.mark.defect
async def test_whatever_keeps_the_guard_from_looking_is_told_once_and_it_looks_again(
    open_app: Any, settle: Any, project: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.rent("hudtui-a", "1A100.22V")
    async with open_app(project, services=world.services) as (app, pilot):
        await settle(pilot)
        told: list[str] = []
        monkeypatch.setattr(app, "say", lambda message, **_: told.append(message))

        async def broken() -> None:
            raise ZeroDivisionError("a defect")

        monkeypatch.setattr(app.spending.session.overview, "look", broken)
        for _ in range(2):
            app.spending._timer.stop()
            app.spending._timer = None
            app.spending._look_again()
            while app.spending._timer is None:
                await pilot.pause(0.02)
        assert told == ["The state of rented machines is unknown: hudtui made a mistake here"]


async def test_without_a_key_and_without_a_ledger_nobody_is_asked(
    open_app: Any, settle: Any, project: Path
) -> None:
    async with open_app(project) as (app, pilot):
        await settle(pilot)
        assert app.spending.session is None and app.spending.money is None


# -- limits
# --------------------------------------------------------------------------------------------------


async def test_limits_can_be_changed_while_it_runs(
    open_app: Any, settle: Any, screen_text: Any, project: Path, world: Any
) -> None:
    await world.rent("hudtui-a", "1H100.80S")
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        assert "nothing ends this machine automatically" in screen_text(app)
        await pilot.press("b")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.query("#answer"))
        app.screen.query_one("#answer").value = "7,5"
        await pilot.press("enter")
        assert (
            "'7,5' is not a limit" in screen_text(app)
            and app.screen.query_one("#answer").value == "7,5"
        )
        app.screen.query_one("#answer").value = "7.5"
        await pilot.press("enter")
        await until(pilot, lambda: not app.screen.is_modal and "is $7.50 now" in app.screen.message)
        assert Ledger().limits("hudtui-a") == Limits(run_budget=7.5)
        assert "% of $7.50" in screen_text(app)


async def test_changing_limits_is_shown_until_the_machine_has_them(
    open_app: Any, settle: Any, project: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.rent("hudtui-a", "1H100.80S")
    change, go_on = rent_flow.change_limits, asyncio.Event()

    async def slowly(*given: Any, **more: Any) -> str:
        await go_on.wait()
        return await change(*given, **more)

    monkeypatch.setattr(rent_flow, "change_limits", slowly)
    async with open_app(project, size=(160, 45), services=world.services) as (app, pilot):
        await pilot.press("4", "p")
        await settle(pilot)
        await pilot.press("b")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.query("#answer"))
        app.screen.query_one("#answer").value = "7.5"
        await pilot.press("enter")
        await until(pilot, lambda: not app.screen.is_modal and app.screen.is_busy)
        assert "Changing the limits of hudtui-a" in app.screen.message
        await pilot.press("b")
        await until(pilot, lambda: "limits are being changed" in app.screen.message)
        assert not app.screen.is_modal and app.screen.going("limits"), (
            "a change that was begun is not cut off"
        )
        go_on.set()
        await until(pilot, lambda: "is $7.50 now" in app.screen.message)
        assert Ledger().limits("hudtui-a") == Limits(run_budget=7.5) and not app.screen.is_busy


async def test_the_guard_ends_a_machine_without_a_run(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    await world.rent("hudtui-a", "1H100.80S")
    await world.rent("hudtui-b", "1H100.80S", run="r1")
    for name in ("hudtui-a", "hudtui-b"):
        Ledger().set_limits(name, Limits(run_budget=1))
    world.advance(3600)
    async with open_app(project, services=world.services) as (app, pilot):
        await until(pilot, lambda: "has ended, verified" in app.screen.message)
        await settle(pilot)
        entry = Ledger().get("hudtui-a")
        assert entry is not None and entry.state == "ended" and "guard" in (entry.why or "")
        assert [pod.name for pod in world.sim.alive] == ["hudtui-b"], (
            "a run's machine is the launcher's to end"
        )


async def test_a_limit_that_is_near_is_told_once(
    open_app: Any, settle: Any, project: Path, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(HudtuiApp, "say", lambda app, message, **_: told.append(message))
    await world.rent("hudtui-a", "1H100.80S")
    Ledger().set_limits("hudtui-a", Limits(run_budget=2.2))
    world.advance(3600)
    async with open_app(project, services=world.services) as (app, pilot):
        await app.spending.look()
        await app.spending.look()
        await settle(pilot)
        assert len([one for one in told if "budget of $2.20" in one]) == 1
        assert (
            app.spending.money is not None and app.spending.money.warn and len(world.sim.alive) == 1
        )


async def test_header_and_refusal_name_the_same_money(
    open_app: Any, settle: Any, project: Path, world: Any
) -> None:
    """Bills are lower than price times time: a machine that boots is not charged yet."""
    await world.rent("hudtui-a", "1H100.80S")
    await world.rent("hudtui-b", "2H100.80S")
    world.advance(3600)
    async with open_app(project, services=world.services) as (app, pilot):
        await app.spending.look()
        await settle(pilot)
        entries, now = Ledger().records(alive=False), world.services.now().timestamp()
        assert all(one.charged_at == now for one in entries)
        price, limits = Price(500.0), Limits(run_budget=None, day_budget=30)
        new = replace(
            entries[0], name="hudtui-c", pod=None, state="intended", created=now, charged_at=None
        )
        with pytest.raises(BudgetExceeded) as caught:
            grant_new(new.name, price, new.endpoint, limits)((*entries, new))
        assert str(caught.value.why).startswith(f"{app.spending.money.today} is spent today, ")
        listed = sum_costs(Ledger(), now, here=app.spending.session.overview.paid).shown
        assert (
            app.spending.money.today
            == listed.today_text
            == app.spending.holdings.spending.today_text
        )
        lowest = sum((one.hourly or 0) * (now - one.created) / 3600 for one in entries)
        assert 0 < listed.today["USD"] < lowest, "the bill counts"
        kept = sum(pod.today_in_usd + pod.pending for pod in listed.pods)
        assert kept == pytest.approx(lowest), "what may still be charged is kept"
