"""Compute: on which machine will it run, and what does that cost?"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static, TabbedContent, TabPane

from hudtui.core.compute.market import price_kind
from hudtui.core.compute.offer_filter import SORTS, arrange, parse_filter
from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction
from hudtui.tui.compute import offers as offers_view
from hudtui.tui.compute import pods as pods_view
from hudtui.tui.compute.acts import Acts
from hudtui.tui.compute.core import key_of
from hudtui.tui.compute.machine import machine_lines
from hudtui.tui.compute.offers import OfferRows, offer_lines
from hudtui.tui.compute.pods import PodRows, gone_lines, pod_lines
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.virtual_table import VirtualTable
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from hudtui.core.compute.hardware import Hardware
    from hudtui.core.compute.market import Market, PricePoint
    from hudtui.core.compute.overview import PodsSnapshot
    from hudtui.tui.spending import ComputeSession

OFFERS_AGE = 60.0
"""Seconds after which offers are refreshed while they are shown."""
PODS_AGE = 10.0
"""The same for what is alive."""
_PODS_ONLY = ("terminate", "terminal", "limits")
_OFFERS_ONLY = ("rent", "filter", "sort", "reverse")


class ComputeScreen(Acts):
    """Offers of all providers beside what is alive, and whose money it is above both."""

    NAME = "compute"
    TITLE = "compute"
    AUTO_FOCUS = "#cp-offers"
    CSS_PATH = "compute.tcss"
    HELP = (
        "Every machine that can be had, with its full price; ★ marks the one that would be chosen, and the right half says why. "
        "/ filters: 4xh100 <6 >=80 -spot eu means four H100 below 6 an hour, 80 GB each, no spot, in Europe. "
        "Enter launches a run on the machine under the cursor. p shows the machines that are rented: those that were taken back "
        "and those that no run owns come first; n notes the former, X ends the latter. This machine is an offer too: local."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("compute.use", "Launch on it", "Go to the launch screen with this machine.", "l"),
        AppAction("compute.rent", "Rent", "Rent this machine without a run, after a look at what it costs.", "c", asks=True),
        AppAction("compute.filter", "Filter", "Show only some: 4xh100 <6 >=80 -spot eu.", "slash"),
        AppAction("compute.sort", "Sort", "Sort by the next column.", "s"),
        AppAction("compute.reverse", "Reverse", "Sort the other way round.", "S", show=False),
        AppAction("compute.terminate", "End", "End this machine, and make sure that it is gone.", "x", danger=True, asks=True),
        AppAction("compute.terminal", "Terminal", "Log in to this machine; hudtui steps aside.", "t", decides=True),
        AppAction("compute.limits", "Limits", "Change what this machine may cost, and how long it may live.", "b", asks=True),
        AppAction("compute.noted", "Noted", "Note that machines were taken back: the sign in the header goes.", "n"),
        AppAction("compute.pods", "Alive", "Show the machines that are alive.", "p"),
        AppAction("compute.offers", "Offers", "Show the machines that can be had.", "o"),
        AppAction("compute.orphans", "End orphans", "End every machine that no run owns.", "X", danger=True, asks=True),
        AppAction("compute.access", "Set up", "API key and SSH key for renting machines, step by step.", "a", asks=True),
        AppAction("compute.refresh", "Look again", "Ask all providers again.", "r"),
        AppAction("compute.copy", "Copy", "Copy what is under the cursor, as JSON.", "y", show=False),
        AppAction("compute.warnings", "Warnings", "Show in full what could not be asked.", "w", show=False),
        AppAction(
            "compute.cancel",
            "Cancel",
            "Stop getting a machine; what was created is ended.",
            "ctrl+x",
            show=False,
            priority=True,
            yields=True,
        ),
        AppAction("compute.back", "To the table", "Back to the table; from there, home.", "escape", show=False, palette=False),
        AppAction("compute.pane", "Other pane", "Go to the other pane.", "tab", show=False, palette=False),
    )

    def __init__(self) -> None:
        super().__init__()
        self.machine: Hardware | None = None
        """This machine as it was seen last; None before the first look came back."""
        self.sort, self.backwards = "price", False
        self._moved = False
        """The cursor is where the user put it; until then it is on the offer that would be chosen."""
        self._market: Market | None = None
        self._histories: dict[str, tuple[PricePoint, ...]] = {}
        self._problem = ""
        self._asked_offers: float | None = None

    # -- what is on it -----------------------------------------------------------------------------------------------

    def content(self) -> Iterable[Widget]:
        """Whose money, then offers or what is alive, then what failed."""
        yield Static(Content.styled("Looking for machines…", "$foreground-muted"), id="cp-who")
        with TabbedContent(id="cp-tabs"):
            with TabPane("Offers", id="cp-tab-offers"), Horizontal(classes="cp-panes", id="cp-panes-offers"):
                with Vertical(classes="cp-left"):
                    yield FilterField(placeholder="4xh100 <6 >=80 -spot eu", id="cp-filter")
                    yield VirtualTable(offers_view.COLUMNS, empty="Asking for offers…", id="cp-offers")
                    yield Static(id="cp-shown", classes="cp-shown")
                with Page(classes="cp-right", id="cp-offer-page"):
                    yield Static(Content.styled("No offer is selected.", "$foreground-muted"), id="cp-offer")
            with TabPane("Alive", id="cp-tab-pods"), Horizontal(classes="cp-panes", id="cp-panes-pods"):
                with Vertical(classes="cp-left"):
                    yield VirtualTable(pods_view.COLUMNS, empty="Looking for what is alive…", id="cp-pods")
                    yield Static(id="cp-pods-shown", classes="cp-shown")
                with Page(classes="cp-right", id="cp-pod-page"):
                    yield Static(Content.styled("No machine is selected.", "$foreground-muted"), id="cp-pod")
        yield Static(id="cp-warn")

    def on_mount(self) -> None:
        """Begin empty."""
        self.query_one("#cp-filter").display = False
        self.query_one("#cp-warn").display = False
        super().on_mount()
        self.set_interval(PODS_AGE / 2, self._tick, name="compute")

    def opened(self, **given: Any) -> None:
        """Look, unless that was done a moment ago. `tab="pods"` shows what is alive."""
        if given.get("tab") == "pods":
            self.show_tab("pods")
        if self._asked_offers is None:
            self.action_refresh()

    def on_screen_resume(self) -> None:
        """Settings may have changed meanwhile."""
        super().on_screen_resume()
        if self._asked_offers is not None:
            self.start(self.refresh_offers(only_new=True), group="offers")

    def on_resize(self) -> None:
        """Lines are cut to the width."""
        self.call_after_refresh(self._show_all)

    # -- what can be done --------------------------------------------------------------------------------------------

    def offers(self, action_id: str) -> bool:
        """What belongs to the other tab is not offered."""
        name = action_id.partition(".")[2]
        if not self.is_attached or not self.query(TabbedContent):
            return True
        if name == "noted":
            return bool(self.app.spending.taken)
        if name == "orphans":
            return self.holdings is not None and bool(self.holdings.orphans)
        return name not in (_PODS_ONLY if self.tab == "offers" else _OFFERS_ONLY) and name != self.tab

    def why_not(self, action_id: str) -> str | None:
        """What needs an offer, a machine, an answer."""
        name = action_id.partition(".")[2]
        if name == "use" and self.tab != "offers":
            return "a run gets a machine of its own: o shows the offers"
        if name in ("use", "rent", "copy") and self.tab == "offers":
            return self._why_not_offer(name)
        if name == "rent" and self.getting:
            return "a machine is being got; Ctrl-X cancels"
        if name in (*_PODS_ONLY, "copy"):
            return self._why_not_pod(name)
        if name == "warnings" and not self._warnings():
            return "everybody was asked, and answered"
        if name == "cancel" and not self.getting:
            return "no machine is being got"
        if name == "cancel" and self.app.rented.getting and not self.app.rented.gives_up:
            return "the machine is ready: x ends it"
        return None

    def _why_not_offer(self, name: str) -> str | None:
        offer = self.offer
        if offer is None:
            return "no offer is selected"
        if name == "copy":
            return None
        part = self._market.offers_of_provider(offer) if self._market is not None else None
        if part is not None and part.remembered:
            return f"this is what {part.title} offered {ago(self._age(part.at))}; wait for its answer, or press r"
        if name == "rent":
            if self.getting:
                return "a machine is being got; Ctrl-X cancels"
            provider = self.provider_of(offer.provider)
            if provider is None or not provider.features.paid:
                return "it is your own: there is nothing to rent"
        return None

    def _why_not_pod(self, name: str) -> str | None:
        one = self.holding
        if one is None:
            return "it is gone" if self.gone is not None else "no machine is selected"
        if name == "limits" and not one.ours:
            return "it was not rented by hudtui, which does not watch over it"
        if name == "terminal" and not one.pod.addresses:
            return "its address is not known yet"
        return None

    # -- asking ------------------------------------------------------------------------------------------------------

    def action_noted(self) -> None:
        """Note that machines were taken back."""
        self.start(self.app.spending.note_taken(), group="noted")

    def action_refresh(self) -> None:
        """Ask again."""
        self.start(self.refresh_offers(), group="offers")
        self.start(self.look(), group="look")

    def _tick(self) -> None:
        if not self.is_current or self.session is None:
            return
        if self.tab == "pods" and self._age(self._asked_pods) >= PODS_AGE:
            self.start(self.look(), group="look")
        if self.tab == "offers" and self._age(self._asked_offers) >= OFFERS_AGE and not self.going("offers"):
            self.start(self.refresh_offers(), group="offers")

    async def refresh_offers(self, *, only_new: bool = False) -> None:
        """Show what is remembered, then each answer as it comes. With `only_new` only when the settings have changed."""
        before = self.session
        try:
            session = await self.app.spending.open()
        except Exception as error:
            self._problem = str(error)
            self._show_who()
            raise
        if only_new and session is before:
            return
        self._problem = ""
        self._asked_offers = self.app.services.now().timestamp()
        self._take(session.overview.market)
        async with aclosing(session.overview.refresh()) as markets:
            async for market in markets:
                self._take(market)
        self._histories = await asyncio.to_thread(self._note_prices, session)
        self._show_offer()
        if only_new:
            await self.look()

    def _note_prices(self, session: ComputeSession) -> dict[str, tuple[PricePoint, ...]]:
        """Note what was answered, and give what is known. Runs in a thread."""
        from hudtui.core.compute.market import PriceHistory
        from hudtui.core.errors import InputError

        book = PriceHistory(self.app.workspace.state_dir)
        try:
            whole = [
                p for p in session.overview.market.parts.values() if p.at is not None and not p.remembered and not p.warnings
            ]
            offers = [offer for part in whole for offer in part.offers if part.provider != "local"]
            book.update(offers, self.app.services.now().timestamp())
        except InputError:
            pass  # a read-only project still shows its offers
        return book.histories()

    def _take(self, market: Market) -> None:
        """Show the market as it is known now."""
        self._market = market
        self._show_who()
        self._arrange()

    def money_changed(self) -> None:
        """The machines were refreshed. Messages about a machine that is gone are removed."""
        if self.ready is not None and self.holdings is not None and all(one.pod.name != self.ready for one in self.holdings.pods):
            if self.message.startswith(f"{self.ready} is ready"):
                self.clear_message()
            self.ready = None
        self._asked_pods = self.app.services.now().timestamp()
        self._show_pods()
        self._show_who()

    # -- offers ------------------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        """Filter, sort and show; the cursor stays on its offer."""
        market = self._market
        if market is None:
            return
        wish = parse_filter(self.query_one("#cp-filter", FilterField).value)
        self.listed = arrange(market.offers, wish, self.sort, reverse=self.backwards)
        table, keys = self.table, [key_of(offer) for offer in self.listed.offers]
        if self._offer not in keys:
            self._offer = keys[min(table.cursor, len(keys) - 1)] if keys and self._offer is not None else None
        if keys and (self._offer is None or not self._moved):
            choice = self.listed.choice
            self._offer = key_of(choice.offer) if choice is not None and key_of(choice.offer) in keys else keys[0]
        table.sorted_by = (self.sort, self.backwards)
        table.empty = "No offer fits: Esc shows all." if market.offers else self._nobody(market)
        old = frozenset(name for name, part in market.parts.items() if part.remembered)
        table.show(OfferRows(self.listed, old), cursor=keys.index(self._offer) if self._offer in keys else None)
        self._show_offer()
        self._show_shown()
        self.refresh_bindings()

    def _nobody(self, market: Market) -> str:
        return "Asking for offers…" if market.asking else "Nobody offers a machine: w says what failed, a sets up a key."

    def on_virtual_table_highlighted(self, event: VirtualTable.Highlighted) -> None:
        """Another offer, or another machine."""
        event.stop()
        rows = event.table.rows
        if isinstance(rows, OfferRows) and event.row < len(rows):
            key = key_of(rows.listed.offers[event.row])
            if key != self._offer:
                self._offer, self._moved = key, True
                self._show_offer()
                self.refresh_bindings()
        elif isinstance(rows, PodRows) and event.row < len(rows):
            pod = rows.keys[event.row]
            if pod != self._pod:
                self._pod = pod
                self._show_pod()
                self.refresh_bindings()

    async def on_virtual_table_selected(self, event: VirtualTable.Selected) -> None:
        """Enter: launch on this offer, or the machine in full, to read and to copy."""
        event.stop()
        if event.table is self.table:
            await self.action_act("compute.use")
        elif self._pod is not None:
            one = self.holding
            self.app.read(clean_line(one.pod.name if one else self.gone.name if self.gone else ""), self._pod_content().plain)

    def on_virtual_table_heading_clicked(self, event: VirtualTable.HeadingClicked) -> None:
        """Sort by it; again: the other way round."""
        event.stop()
        if event.table is self.table and event.key in SORTS:
            self.backwards = not self.backwards if event.key == self.sort else False
            self.sort = event.key
            self._arrange()

    def action_sort(self) -> None:
        """By the next column that is shown."""
        shown = [column.key for _, column, _ in self.table.widths() if column.key in SORTS]
        self.sort = shown[(shown.index(self.sort) + 1) % len(shown)] if self.sort in shown else shown[0]
        self.backwards = False
        self._arrange()

    def action_reverse(self) -> None:
        """The other way round."""
        self.backwards = not self.backwards
        self._arrange()

    def action_filter(self) -> None:
        """Type a filter."""
        field = self.query_one("#cp-filter", FilterField)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """The filter changes."""
        event.stop()
        self._moved = False
        self._arrange()

    def on_filter_field_left(self, event: FilterField.Left) -> None:
        """Back to the table."""
        event.stop()
        field = self.query_one("#cp-filter", FilterField)
        field.display = bool(field.value)
        self.table.focus()

    def _show_offer(self) -> None:
        offer, market, shown = self.offer, self._market, self.query_one("#cp-offer", Static)
        if offer is None or market is None:
            words = self.listed.nothing or ("No offer is selected.",)
            shown.update(Content.styled("\n".join(clean_line(line) for line in words), "$foreground-muted"))
            return
        width = max(self.query_one("#cp-offer-page").size.width - 3, 24)
        if offer.provider == "local":
            if self.machine is None:
                self.start(self._look_here(), group="machine")
            body = (
                machine_lines(self.machine, width)
                if self.machine
                else Content.styled("Looking at this machine…", "$foreground-muted")
            )
            shown.update(Content("\n\n").join([body, *offers_view.why_lines(offer, self.listed)]))
            return
        provider = self.provider_of(offer.provider)
        shown.update(
            offer_lines(
                offer,
                self.listed,
                market.offers_of_provider(offer),
                self._histories.get(price_kind(offer), ()),
                self.app.services.now().timestamp(),
                simulated=provider is not None and provider.features.simulated,
                width=width,
            )
        )

    async def _look_here(self) -> None:
        from hudtui.core.compute import hardware
        from hudtui.core.remote.local import LocalHost

        self.machine = await hardware.inspect(LocalHost(), python=sys.executable)
        self._show_offer()

    def _show_shown(self) -> None:
        market, listed = self._market, self.listed
        if market is None:
            return
        count = f"{len(listed.offers)} of {listed.total}" if len(listed.offers) != listed.total else str(listed.total)
        parts: list[Any] = [f"{count} offer{'' if listed.total == 1 else 's'}"]
        parts.append(f", by {self.sort}{' down' if self.backwards else ''}")
        if market.asking:
            parts.append((f"  ● asking {', '.join(market.asking)}", "bold $accent"))
        if market.oldest is not None and (market.remembered or self._age(market.oldest) >= 60):
            parts.append((f"  as of {ago(self._age(market.oldest))}", "$warning" if market.remembered else ""))
        self.query_one("#cp-shown", Static).update(Content.assemble(*parts))

    # -- what is alive -----------------------------------------------------------------------------------------------

    def _show_pods(self) -> None:
        """Show what is alive; the cursor stays on its machine."""
        holdings = self.holdings
        if holdings is None:
            return
        now = self.app.services.now().timestamp()
        rows = PodRows(holdings, self.app.preferences.noted, now)
        table, keys = self.pods_table, rows.keys
        if self._pod not in keys:
            self._pod = keys[min(table.cursor, len(keys) - 1)] if keys else None
        silent = holdings.silent
        table.empty = (
            f"{silent[0].title} does not answer: what is alive there is not known." if silent else "No machine is rented."
        )
        table.show(rows, cursor=keys.index(self._pod) if self._pod in keys else None)
        self._show_pods_shown(holdings, now)
        label = Content(f"Alive {len(holdings.pods)}" if holdings.pods else "Alive")
        tab = self.query_one("#cp-tabs", TabbedContent).get_tab("cp-tab-pods")
        if taken := len(self.app.spending.taken):
            label = Content.assemble(label, (f" ✗ {taken}", "bold $error"))
        if holdings.orphans:
            label = Content.assemble(label, (f" ! {len(holdings.orphans)}", "bold $warning"))
        if label != tab.label:
            tab.label = label
        self._show_pod()
        self.refresh_bindings()

    def _show_pods_shown(self, holdings: PodsSnapshot, now: float) -> None:
        """How many there are, what they need, and how old that is where a provider does not answer."""
        sure = sum(one.reachable for one in holdings.pods)
        parts = [f"{sure} alive"] if sure else []
        if old := len(holdings.unreachable):
            parts.append(f"{old} may be alive")
        if holdings.orphans:
            parts.append(f"{len(holdings.orphans)} owned by no run: X ends them")
        if taken := len(self.app.spending.taken):
            parts.append(f"{taken} taken back: n notes it")
        words = [", ".join(parts) or ("" if holdings.silent else "none rented"), *(one.text(now) for one in holdings.silent)]
        shown = self.query_one("#cp-pods-shown", Static)
        shown.update(Content.styled(clean_line(". ".join(filter(None, words))), "$warning" if holdings.silent else ""))

    def time_passed(self) -> None:
        """What a provider told last grows older while it does not answer."""
        if self.holdings is not None and self.holdings.silent and self.tab == "pods":
            self._show_pods_shown(self.holdings, self.app.services.now().timestamp())
            self._show_pod()

    def _show_pod(self) -> None:
        self.query_one("#cp-pod", Static).update(self._pod_content())

    def _pod_content(self) -> Content:
        """Details of the machine under the cursor."""
        one, holdings = self.holding, self.holdings
        if self.gone is not None:
            return gone_lines(self.gone)
        if one is None or holdings is None:
            return Content.styled("No machine is selected.", "$foreground-muted")
        provider = self.provider_of(one.pod.provider)
        return pod_lines(
            one,
            holdings,
            title=provider.title if provider else one.pod.provider,
            simulated=provider is not None and provider.features.simulated,
            terminal="t opens a terminal on it" if one.pod.addresses else None,
            now=self.app.services.now().timestamp(),
        )

    # -- whose money, what failed ------------------------------------------------------------------------------------

    def _show_all(self) -> None:
        self._show_who()
        self._show_offer()
        self._show_pod()

    def _warnings(self) -> tuple[str, ...]:
        found = [self._problem] if self._problem else []
        holdings = self.holdings
        # What keeps a provider from telling of machines keeps it from telling of offers: it is told once, with the machines.
        told = tuple(one.why for one in holdings.silent) if holdings is not None else ()
        market = self._market.warnings if self._market is not None else ()
        found += [one for one in market if not any(why.startswith(one) for why in told)]
        found += holdings.warnings if holdings is not None else ()
        return tuple(dict.fromkeys(found))

    def _show_who(self) -> None:
        width = max(self.size.width - 2, 20)
        self.query_one("#cp-who", Static).update(self._who(width))
        warnings, bar = self._warnings(), self.query_one("#cp-warn", Static)
        bar.display = bool(warnings)
        if warnings:
            more = f" (and {len(warnings) - 1} more: w)" if len(warnings) > 1 else ""
            bar.update(Content.styled(cut(f"! {clean_line(warnings[0], 400)}", width - len(more)) + more, "$warning"))

    def _who(self, width: int) -> Content:
        from hudtui.core.compute.limits import money

        session, holdings = self.session, self.holdings
        if session is None:
            return Content.styled(self._problem or "Looking for machines…", "$foreground-muted")
        parts: list[Any] = []
        for provider in session.overview.paid:
            account = holdings.accounts.get(provider.name) if holdings is not None else None
            parts.append((provider.title, "bold $warning" if provider.features.simulated else "bold $primary"))
            silent = (
                next((one for one in holdings.silent if one.provider == provider.name), None) if holdings is not None else None
            )
            if silent is not None:
                parts.append(("  does not answer", "bold $warning"))
                continue
            if account is None:
                asked = holdings is not None
                parts.append(("  account not known" if asked else "  asking for the account…", "$foreground-muted"))
                continue
            team = f", team {account.team}" if account.team else ""
            parts.append("  " + cut(clean_line(f"{account.name}{team}"), max(width // 3, 16)))
            if account.balance is not None:
                low = account.balance < 5
                parts.append((f"  wallet {money(account.balance, account.currency)}", "bold $warning" if low else "$success"))
        if not session.overview.paid:
            parts.append(("○ no key for renting machines: a sets one up", "$foreground-muted"))
        if holdings is not None and holdings.spending.pods:
            spending = holdings.spending
            plus = "+" if spending.mixed else ""
            parts.append((f"  {money(spending.per_hour, spending.currency)}{plus}/h", "bold"))
            old = " as last known" if holdings.unreachable else ""
            parts.append(f", {money(spending.today, spending.currency)}{plus} today{old}")
        return Content.assemble(*parts)

    def action_warnings(self) -> None:
        """All of them, in full."""
        self.app.read("What could not be asked", "\n\n".join(self._warnings()))

    # -- moving about ------------------------------------------------------------------------------------------------

    def on_tabbed_content_tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """The other tab has other keys."""
        event.stop()
        self._show_all()
        self.refresh_bindings()

    def action_pods(self) -> None:
        """What is alive."""
        self.show_tab("pods")
        if self._age(self._asked_pods) >= PODS_AGE:
            self.start(self.look(), group="look")

    def action_offers(self) -> None:
        """What can be had."""
        self.show_tab("offers")

    def action_pane(self) -> None:
        """From the table to the detail and back."""
        panes = self.query_one(f"#cp-panes-{self.tab}")
        page = self.query_one("#cp-offer-page" if self.tab == "offers" else "#cp-pod-page")
        there = self.focused is page
        panes.set_class(not there, "-detail")
        target = (self.table if self.tab == "offers" else self.pods_table) if there else page
        self.call_after_refresh(target.focus)
        self.call_after_refresh(self._show_all)

    def action_back(self) -> None:
        """Back to the table; from there, home."""
        if self.focused in (self.table, self.pods_table, None):
            self.leave()
            return
        self.query_one(f"#cp-panes-{self.tab}").remove_class("-detail")
        (self.table if self.tab == "offers" else self.pods_table).focus()

    def action_copy(self) -> None:
        """Copy what is under the cursor."""
        if self.tab == "pods":
            row = self.holding
            data: Any = row.pod.to_json() if row is not None else self.gone.to_json() if self.gone is not None else None
        elif self.offer is not None and self.offer.provider == "local" and self.machine is not None:
            data = self.machine.to_json()
        else:
            data = self.offer.to_json() if self.offer is not None else None
        self.app.copy(json.dumps(data, indent=2, ensure_ascii=False))
