"""Compute: on which machine will it run, and what does that cost?"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.compute.offer_filter import OfferList
from hudtui.core.text import clean_line, money
from hudtui.tui.actions import AppAction, by_key, cancel_action, unless
from hudtui.tui.compute.machine import machine_lines
from hudtui.tui.compute.offers import OffersPane, offer_lines, why_lines
from hudtui.tui.compute.pods import PodsPane, gone_lines, pod_lines
from hudtui.tui.compute.renting import Renting
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.pane import Pane, Panes
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from hudtui.core.compute.hardware import Hardware
    from hudtui.core.compute.market import Market
    from hudtui.core.compute.overview import PodsSnapshot
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.core.compute.pods import PodRecord
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer
    from hudtui.core.runs.demand import Demand
    from hudtui.tui.spending import ComputeSession

OFFERS_AGE = 60.0
"""Seconds after which offers are refreshed while they are shown."""
PODS_AGE = 10.0
"""The same for machines."""
_OF_A_POD = ("terminate", "terminal", "limits")
_OF_AN_OFFER = ("rent",)


class OfferDetailPane(Pane):
    """The offer or the machine under the cursor, in full."""

    BORDER_TITLE = "Detail"
    DEFAULT_CSS = "OfferDetailPane Static { height: auto; padding: 0 1; }"
    _body: Callable[[int], Content] | None = None

    def compose(self) -> ComposeResult:
        with Page():
            yield CalmStatic()

    def show(self, title: str, body: Callable[[int], Content]) -> None:
        """Show a text under a title; `body` makes it for a number of cells."""
        self.name_on_border(title)
        self._body = body
        self._draw()

    def on_resize(self) -> None:
        """Wrap the lines again: a pane that was hidden has no width."""
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        if self._body is not None:
            self.query_one(Static).update(self._body(max(self.content_size.width - 3, 24)))


_THERE = "you are already there"
_ON_PODS = unless(
    lambda screen: screen.pods_chosen,
    "it is for rented machines: {key:compute.pods} goes to them",
)
_OFFER = unless(lambda screen: screen.offer is not None, "no offer is selected")


def _no_pod(screen: ComputeScreen) -> str | None:
    if screen.pod is not None:
        return None
    return "no machine is selected" if screen.gone is None else "it has ended"


def _nothing_to_copy(screen: ComputeScreen) -> str | None:
    if not screen.pods_chosen:
        return _OFFER(screen)
    return "no machine is selected" if screen.pod is None and screen.gone is None else None


def _remembered(screen: ComputeScreen) -> str | None:
    offer, market = screen.offer, screen.market
    part = market.offers_of_provider(offer) if market is not None and offer is not None else None
    if part is None or not part.remembered:
        return None
    return (
        f"{part.title} offered this {ago(screen.age_of(part.at))}; wait for its answer, or press "
        "{key:compute.refresh}"
    )


def _not_to_rent(screen: ComputeScreen) -> str | None:
    if screen.renting:
        return "a machine is being rented; {key:compute.cancel} cancels"
    provider = screen.provider_of(screen.offer.provider) if screen.offer is not None else None
    if provider is None or not provider.features.paid:
        return "it is your own machine: there is nothing to rent"
    return None


class ComputeScreen(HudtuiScreen):
    """The offers of all providers, the machines that are rented, and what is under the cursor."""

    NAME = "compute"
    TITLE = "compute"
    AUTO_FOCUS = "#compute-offers VirtualTable"
    CSS_PATH = "compute.tcss"
    HELP = (
        "All offers with their full prices: ★ marks hudtui's choice, and the pane Offer says why. "
        "{key:table.select} launches a run on the offer under the cursor, {key:compute.rent} rents "
        "it without a run. Once it is known which model will be trained (from Launch, from the "
        "last training, or by {key:compute.model}), machines that hold it come first. Below are "
        "the rented machines. This machine is an offer too: local."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "compute.use",
            "Launch",
            "Go to the launch screen with this machine.",
            "l",
            when=(
                unless(
                    lambda screen: not screen.pods_chosen,
                    "a run rents its own machine: {key:compute.offers} goes to the offers",
                ),
                _OFFER,
                _remembered,
            ),
        ),
        AppAction(
            "compute.rent",
            "Rent",
            "Rent this machine without a run, after you have agreed to its cost.",
            "n,c",
            asks=True,
            when=(
                unless(
                    lambda screen: not screen.pods_chosen,
                    "it is for offers: {key:compute.offers} goes to them",
                ),
                _OFFER,
                _remembered,
                _not_to_rent,
            ),
        ),
        AppAction(
            "compute.terminate",
            "End",
            "End this machine, and verify that it has ended.",
            "x",
            danger=True,
            asks=True,
            when=(_ON_PODS, _no_pod),
        ),
        AppAction(
            "compute.terminal",
            "Terminal",
            "Log in to this machine; hudtui steps aside.",
            "t",
            decides=True,
            when=(
                _ON_PODS,
                _no_pod,
                unless(lambda screen: screen.pod.pod.addresses, "its address is not known yet"),
            ),
        ),
        AppAction(
            "compute.limits",
            "Limits",
            "Change what this machine may cost, and how long it may live.",
            "b",
            asks=True,
            when=(
                _ON_PODS,
                _no_pod,
                unless(
                    lambda screen: screen.pod.ours,
                    "hudtui did not rent it and does not watch over it",
                ),
                unless(lambda screen: not screen.going("limits"), "limits are being changed"),
            ),
        ),
        AppAction(
            "compute.noted",
            "Dismiss",
            "Dismiss the notice that machines were taken back.",
            "d",
            when=(unless(lambda screen: screen.app.spending.taken, "no machine was taken back"),),
        ),
        AppAction(
            "compute.model",
            "Model",
            "Name the model that will be trained: its fit decides before the price, and has a "
            "column.",
            "f",
            show=False,
            asks=True,
        ),
        AppAction(
            "compute.pods",
            "Machines",
            "Go to the machines that are rented.",
            "p",
            when=(unless(lambda screen: screen.offers("compute.pods"), _THERE),),
        ),
        AppAction(
            "compute.offers",
            "Offers",
            "Go to the offers.",
            "o",
            when=(unless(lambda screen: screen.offers("compute.offers"), _THERE),),
        ),
        AppAction(
            "compute.orphans",
            "End unclaimed",
            "End every machine that has no run.",
            "X",
            danger=True,
            asks=True,
            when=(
                unless(
                    lambda screen: screen.snapshot is not None and screen.snapshot.orphans,
                    "no machine is unclaimed",
                ),
            ),
        ),
        AppAction(
            "compute.history",
            "History",
            "Show the machines that have ended, with their costs.",
            "h",
            show=False,
            when=(
                unless(
                    lambda screen: screen.session is not None and screen.session.overview.paid,
                    "no provider of rented machines is set up: {key:compute.access} sets one up",
                ),
            ),
        ),
        AppAction(
            "compute.access",
            "Set up",
            "API key and SSH key for renting machines, step by step.",
            "a",
            asks=True,
        ),
        AppAction("compute.refresh", "Refresh", "Ask all providers again.", "r"),
        AppAction(
            "compute.copy",
            "Copy",
            "Copy what is under the cursor, as JSON.",
            "y",
            show=False,
            when=(_nothing_to_copy,),
        ),
        AppAction(
            "compute.warnings",
            "Warnings",
            "Show the warnings of the providers in full.",
            "w",
            show=False,
            when=(
                unless(lambda screen: screen.warnings(), "all providers were asked, and answered"),
            ),
        ),
        cancel_action(
            "compute",
            "Stop renting a machine; what was created is ended.",
            when=(
                unless(lambda screen: screen.renting, "no machine is being rented"),
                unless(
                    lambda screen: not screen.app.rented.getting or screen.app.rented.gives_up,
                    "the machine is ready: {key:compute.terminate} ends it",
                ),
            ),
        ),
        by_key("compute.back", "Back", "Back to the offers; from there, home.", "escape"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.machine: Hardware | None = None
        """This machine as it was inspected last; None before that."""
        self._offers, self._pods, self._detail = (
            OffersPane(),
            PodsPane(),
            OfferDetailPane(id="compute-detail"),
        )
        self._renting = Renting(self, self.look)
        self.pods_chosen = False
        """The detail shows the machine under the cursor, not the offer."""
        self._last: str | None = None
        """Name of the machine that was under the cursor last."""
        self._ended: PodRecord | None = None
        """That machine, where it has ended and no other one is listed."""
        self.market: Market | None = None
        self._problem = ""
        self._asked_offers: float | None = None
        self._asked_pods: float | None = None
        self._model: str | None = None
        """The model that the user has named; empty for none; None for the model that would be
        trained."""

    def content(self) -> Iterable[Widget]:
        yield CalmStatic(
            Content.styled("Looking for machines…", "$foreground-muted"), id="compute-account"
        )
        with Panes(), Vertical():
            with Horizontal():
                yield self._offers
                yield self._detail
            yield self._pods
        yield CalmStatic(id="compute-warning")

    def on_mount(self) -> None:
        self.query_one("#compute-warning").display = False
        self.set_interval(PODS_AGE / 2, self._tick, name="compute")

    @property
    def place(self) -> dict[str, str]:
        """Offers or machines."""
        return {"tab": "pods"} if self.pods_chosen else {}

    def opened(self, **given: Any) -> None:
        """Ask the providers, unless that was done a moment ago.

        `tab="pods"` goes to the machines.
        """
        if given.get("tab") == "pods":
            self.action_pods()
        if self._asked_offers is None:
            self.action_refresh()
        self._look_for_model()

    def on_screen_resume(self) -> None:
        """Settings may have changed meanwhile."""
        self._look_for_model()
        if self._asked_offers is not None:
            self.start(partial(self.refresh_offers, only_new=True), group="offers")

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_all)

    # -- what is known
    # ----------------------------------------------------------------------------------------------

    @property
    def session(self) -> ComputeSession | None:
        """The overview with its settings, once it is open."""
        return self.app.spending.session

    @property
    def snapshot(self) -> PodsSnapshot | None:
        """The machines at the last check."""
        return self.app.spending.holdings

    @property
    def listed(self) -> OfferList:
        """The offers that are shown."""
        return self._offers.found

    @property
    def offer(self) -> Offer | None:
        """The offer under the cursor."""
        return self._offers.row

    @property
    def pod(self) -> PodRow | None:
        """The machine under the cursor."""
        return self._pods.pod

    @property
    def gone(self) -> PodRecord | None:
        """The machine that the detail shows, if it has ended."""
        return self._pods.gone or (self._ended if self.pod is None else None)

    @property
    def renting(self) -> bool:
        """Whether a machine is being rented."""
        return bool(self.going("rent"))

    def provider_of(self, name: str) -> Provider | None:
        """The provider of that name, if it is open."""
        return self.session.overview.providers.get(name) if self.session is not None else None

    def age_of(self, at: float | None) -> float:
        return float("inf") if at is None else max(self.app.services.now().timestamp() - at, 0.0)

    # -- what can be done
    # --------------------------------------------------------------------------------------------

    def offers(self, action_id: str) -> bool:
        """Actions of offers are not offered on machines, and vice versa."""
        name = action_id.partition(".")[2]
        if name == "noted":
            return bool(self.app.spending.taken)
        if name == "orphans":
            return self.snapshot is not None and bool(self.snapshot.orphans)
        if name in ("pods", "offers"):
            return self.query_one(Panes).current is not (
                self._pods if name == "pods" else self._offers
            )
        return name not in (_OF_AN_OFFER if self.pods_chosen else _OF_A_POD)

    def _look_for_model(self) -> None:
        """Find out which model will be trained."""
        if self.app.facts is not None:
            self.start(self._find_demand, group="model")

    def facts_changed(self, facts: Facts) -> None:
        if self.is_current:
            self._look_for_model()
            if self.session is not None and not self.going("offers"):
                self.start(
                    partial(self.refresh_offers, only_new=True), group="offers"
                )  # a key may count now

    async def _find_demand(self) -> None:
        from hudtui.core.runs.demand import find_demand, newest_demand
        from hudtui.core.runs.request import RunRequest

        folder, request = self.app.folder, self.app.training_request()
        demand: Demand | None = None
        if self._model:
            request = replace(request or RunRequest(), model=self._model)
        if request is not None and self._model != "":
            demand = await asyncio.to_thread(find_demand, request, folder)
        elif self._model is None:
            demand = await asyncio.to_thread(newest_demand, self.app.project.runs, folder)
        self._offers.show_demand(demand)
        self._show_detail()

    @started("ask model")
    async def action_model(self) -> None:
        demand = self._offers.demand
        typed = await self.app.ask(
            "Model that will be trained",
            value="" if demand is None else demand.recipe.model,
            placeholder="ORG/NAME on the Hub, or a folder; empty: no model",
            accept="Show",
        )
        if typed is None:
            return
        self._model = typed.strip()
        await self._find_demand()
        demand = self._offers.demand
        if demand is not None and demand.shape is None:
            name = clean_line(demand.recipe.model, 60)
            self.say(
                f"The size of {name} is unknown: its name does not give one, and its files are not "
                "on this computer.",
                "warning",
            )

    def action_use(self) -> None:
        if self.offer is not None:
            self.app.open_screen("launch", offer=self.offer)

    def action_rent(self) -> None:
        offer = self.offer
        if offer is not None:
            self.start(
                lambda: self._renting.rent(
                    offer, self._fit_words(offer), created=self.action_pods, gone=self._offer_gone
                ),
                group="rent",
                exclusive=False,
            )

    def _offer_gone(self) -> None:
        self.start(self.refresh_offers, group="offers")

    def action_cancel(self) -> None:
        for worker in self.going("rent"):
            worker.cancel()
            self.busy("Cancelling: what was created is being ended")

    def action_terminate(self) -> None:
        if self.pod is not None:
            self.start(partial(self._renting.end, (self.pod,)), group="end", exclusive=False)

    def action_orphans(self) -> None:
        if self.snapshot is not None:
            unclaimed = tuple(one for one in self.snapshot.pods if one.unclaimed is not None)
            self.start(partial(self._renting.end, unclaimed), group="end", exclusive=False)

    def action_limits(self) -> None:
        if self.pod is not None:
            self.start(partial(self._renting.limits, self.pod), group="limits")

    def action_terminal(self) -> None:
        if self.pod is not None:
            self.start(
                partial(self._renting.terminal, self.pod),
                group="terminal",
                busy=f"Logging in to {self.pod.pod.name}",
            )

    def action_history(self) -> None:
        self.start(
            self._renting.history, group="history", busy="Asking for the machines that have ended"
        )

    @started("access")
    async def action_access(self) -> None:
        if await self._renting.set_up():
            # offers can be asked for now, also where only the first step was missing
            self.action_refresh()
            self.say("Everything is set up for renting machines.", "success")

    def action_noted(self) -> None:
        self.start(self.app.spending.note_taken, group="noted")

    def action_warnings(self) -> None:
        self.app.read("Warnings of the providers", "\n\n".join(self.warnings()))

    def action_copy(self) -> None:
        if self.pods_chosen:
            row, gone = self.pod, self.gone
            data: Any = (
                row.pod.to_json()
                if row is not None
                else gone.to_json()
                if gone is not None
                else None
            )
        elif self.offer is not None and self.offer.provider == "local" and self.machine is not None:
            data = self.machine.to_json()
        else:
            data = self.offer.to_json() if self.offer is not None else None
        self.app.copy(json.dumps(data, indent=2, ensure_ascii=False))

    def action_pods(self) -> None:
        self.query_one(Panes).open(self._pods)
        if self.age_of(self._asked_pods) >= PODS_AGE:
            self.start(self.look, group="look")

    def action_offers(self) -> None:
        self.query_one(Panes).open(self._offers)

    def action_back(self) -> None:
        """One level up.

        From a machine to the list of machines, where one pane has room; then to the offers; from
        there, home.
        """
        panes = self.query_one(Panes)
        if panes.alone and self.pods_chosen and panes.current is self._detail:
            panes.open(self._pods)
        elif not panes.back():
            self.leave()

    def action_refresh(self) -> None:
        self.start(self.refresh_offers, group="offers")
        self.start(self.look, group="look")

    # -- asking
    # ----------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        if not self.is_current or self.session is None:
            return
        if self.age_of(self._asked_pods) >= PODS_AGE and (
            self.pods_chosen or (self.snapshot is not None and self.snapshot.pods)
        ):
            self.start(self.look, group="look")
        if self.age_of(self._asked_offers) >= OFFERS_AGE and not self.going("offers"):
            self.start(self.refresh_offers, group="offers")

    async def look(self) -> None:
        """Ask which machines are alive."""
        self._asked_pods = self.app.services.now().timestamp()
        await self.app.spending.look()

    async def refresh_offers(self, *, only_new: bool = False) -> None:
        """Show the remembered offers, then each answer as it comes.

        With `only_new`, only if the settings have changed.
        """
        before = self.session
        try:
            session = await self.app.spending.open()
        except Exception as error:
            self._problem = str(error)
            self._show_account()
            raise
        if only_new and session is before:
            return
        self._problem = ""
        self._asked_offers = self.app.services.now().timestamp()
        self._take(session.overview.market)
        async with aclosing(session.overview.refresh()) as markets:
            async for market in markets:
                self._take(market)
        self._show_detail()
        if only_new:
            await self.look()

    def _take(self, market: Market) -> None:
        self.market = market
        self._show_account()
        self._offers.show_market(market)

    def money_changed(self) -> None:
        """Show the machines, and clear a message about a machine that no longer exists."""
        snapshot, ready = self.snapshot, self._renting.ready
        if (
            ready is not None
            and snapshot is not None
            and all(one.pod.name != ready for one in snapshot.pods)
        ):
            if self.message.startswith(f"{ready} is ready"):
                self.clear_message()
            self._renting.ready = None
        now = self.app.services.now().timestamp()
        self._asked_pods = now
        if snapshot is not None:
            self._pods.show(snapshot, self.app.preferences.noted, now)
        self._show_account()

    def time_passed(self) -> None:
        """Update the age of the last answer of a silent provider."""
        if self.snapshot is not None and self.snapshot.silent:
            self._pods.show_count(self.app.services.now().timestamp(), len(self.app.spending.taken))
            if self.pods_chosen:
                self._show_detail()

    # -- what is shown
    # ----------------------------------------------------------------------------------------------

    def on_descendant_focus(self) -> None:
        """The detail belongs to the table that has the focus."""
        focused = self.focused
        on_pods = self.pods_chosen
        if focused is not None and self._offers in focused.ancestors:
            on_pods = False
        elif focused is not None and self._pods in focused.ancestors:
            on_pods = True
        if on_pods != self.pods_chosen:
            self.pods_chosen = on_pods
            self._show_detail()
            self.refresh_bindings()

    @on(OffersPane.Highlighted)
    def _offer_highlighted(self) -> None:
        self.refresh_bindings()
        if not self.pods_chosen:
            self.when_keys_rest(self._show_detail)

    @on(PodsPane.Highlighted)
    def _pod_highlighted(self) -> None:
        if self.pod is not None:
            self._last, self._ended = self.pod.pod.name, None
        elif self._last is not None:
            self.start(partial(self._read_ended, self._last), group="ended")
        self.refresh_bindings()
        if self.pods_chosen:
            self.when_keys_rest(self._show_detail)

    async def _read_ended(self, name: str) -> None:
        """Find out what became of the machine that is not listed any more."""
        session = self.session
        record = (
            await session.overview.ledger.run(session.overview.ledger.get, name)
            if session is not None
            else None
        )
        if self.pod is None:
            self._ended = record if record is not None and not record.open else None
            if self.pods_chosen:
                self._show_detail()

    @on(OffersPane.Opened)
    async def _offer_opened(self) -> None:
        await self.action_act("compute.use")

    @on(PodsPane.Opened)
    def _pod_opened(self) -> None:
        self._show_detail()
        self.query_one(Panes).open(self._detail)

    def _show_all(self) -> None:
        self._show_account()
        self._show_detail()

    def _show_detail(self) -> None:
        if not self.is_attached:
            return
        if self.pods_chosen:
            self._detail.show("Machine", self._pod_lines)
        else:
            self._detail.show("Offer", self._offer_lines)

    def _offer_lines(self, width: int) -> Content:
        offer, market = self.offer, self.market
        if offer is None or market is None:
            words = self.listed.nothing or ("No offer is selected.",)
            return Content.styled(
                "\n".join(clean_line(line) for line in words), "$foreground-muted"
            )
        if offer.provider == "local":
            if self.machine is None:
                self.start(self._look_here, group="machine")
                body = Content.styled("Inspecting this machine…", "$foreground-muted")
            else:
                body = machine_lines(self.machine, width)
            return Content("\n\n").join([body, *why_lines(offer, self.listed)])
        provider, fit = self.provider_of(offer.provider), self._fit_words(offer)
        if self._offers.demand is None and offer.gpu_count:
            fit = self.app.keys_in("not known without a model: {key:compute.model} names it")
        return offer_lines(
            offer,
            self.listed,
            market.offers_of_provider(offer),
            self.app.services.now().timestamp(),
            simulated=provider is not None and provider.features.simulated,
            width=width,
            fit=fit,
        )

    def _fit_words(self, offer: Offer) -> str:
        """Whether an offer holds the model that will be trained, in a sentence.

        Empty without a model.
        """
        fit, demand = self._offers.fit(offer), self._offers.demand
        return (
            ""
            if fit is None or demand is None
            else f"{fit.mark.split(' ')[0]} {clean_line(demand.title, 60)}: {fit.why}"
        )

    async def _look_here(self) -> None:
        from hudtui.core.compute import hardware
        from hudtui.core.remote.local import LocalHost

        self.machine = await hardware.inspect(LocalHost(), python=sys.executable)
        self._show_detail()

    def _pod_lines(self, width: int) -> Content:
        row, snapshot, keys = self.pod, self.snapshot, self.app.keys_in
        if self.gone is not None:
            return gone_lines(self.gone, keys, width)
        if row is None or snapshot is None:
            words = "No machine is selected." if snapshot is None else self._pods.table.empty
            return Content.styled(words, "$foreground-muted")
        provider = self.provider_of(row.pod.provider)
        return pod_lines(
            row,
            snapshot,
            keys,
            title=provider.title if provider else row.pod.provider,
            simulated=provider is not None and provider.features.simulated,
            width=width,
            now=self.app.services.now().timestamp(),
        )

    def warnings(self) -> tuple[str, ...]:
        found = [self._problem] if self._problem else []
        if self.session is not None and self.session.problem is not None:
            found.append("; ".join(self.session.problem.lines()))
        snapshot = self.snapshot
        # A provider that lists no machines lists no offers for the same reason: it is shown once,
        # with the machines.
        shown = tuple(one.why for one in snapshot.silent) if snapshot is not None else ()
        market = self.market.warnings if self.market is not None else ()
        found += [one for one in market if not any(why.startswith(one) for why in shown)]
        found += snapshot.warnings if snapshot is not None else ()
        return tuple(dict.fromkeys(found))

    def _show_account(self) -> None:
        width = max(self.size.width - 2, 20)
        self.query_one("#compute-account", Static).update(self._account(width))
        warnings, bar = self.warnings(), self.query_one("#compute-warning", Static)
        bar.display = bool(warnings)
        if warnings:
            more = (
                self.app.keys_in(f" (and {len(warnings) - 1} more: {{key:compute.warnings}})")
                if len(warnings) > 1
                else ""
            )
            bar.update(
                Content.styled(
                    cut(f"! {clean_line(warnings[0], 400)}", width - len(more)) + more, "$warning"
                )
            )

    def _account(self, width: int) -> Content:
        session, snapshot = self.session, self.snapshot
        if session is None:
            return Content.styled(self._problem or "Looking for machines…", "$foreground-muted")
        parts: list[Any] = []
        for provider in session.overview.paid:
            account = snapshot.accounts.get(provider.name) if snapshot is not None else None
            parts.append(
                (
                    provider.title,
                    "bold $warning" if provider.features.simulated else "bold $primary",
                )
            )
            silent = (
                next((one for one in snapshot.silent if one.provider == provider.name), None)
                if snapshot is not None
                else None
            )
            if silent is not None:
                parts.append(("  does not answer", "bold $warning"))
                continue
            if account is None:
                asked = snapshot is not None
                parts.append(
                    (
                        "  account not known" if asked else "  asking for the account…",
                        "$foreground-muted",
                    )
                )
                continue
            team = f", team {account.team}" if account.team else ""
            parts.append("  " + cut(clean_line(f"{account.name}{team}"), max(width // 3, 16)))
            if account.balance is not None:
                low = account.balance < 5
                parts.append(
                    (
                        f"  wallet {money(account.balance, account.currency)}",
                        "bold $warning" if low else "$success",
                    )
                )
        if not session.overview.paid:
            words = "○ no key for renting machines: {key:compute.access} sets one up"
            if session.problem is not None:
                words = "○ no machine can be rented at the moment"
            from hudtui.core.compute.registry import usual_rental

            key = usual_rental(session.settings.get).key
            if key is not None and session.settings.waits(key) is not None:
                words = (
                    f"○ {key} {session.settings.lacking(key)[0]}: {{key:app.trust}} asks about it"
                )
            parts.append((self.app.keys_in(words), "$foreground-muted"))
        if snapshot is not None and snapshot.spending.pods:
            spending = snapshot.spending.shown
            parts.append((f"  {spending.per_hour_text}/h", "bold"))
            old = " as last known" if snapshot.unreachable else ""
            parts.append(f", {spending.today_text} today{old}")
        return Content.assemble(*parts)
