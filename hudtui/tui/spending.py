"""The app's money.

One overview for all screens, refreshed from the start for as long as a machine costs money.
Imported before the first paint: the overview and everything behind it is imported later.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.text import money

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from hudtui.core.compute.limit_guard import LimitGuard
    from hudtui.core.compute.overview import Overview, PodsSnapshot
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.core.compute.pods import PodRecord
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.runs.unattended import UnattendedPod
    from hudtui.core.settings import Settings
    from hudtui.tui.app import HudtuiApp
    from hudtui.tui.facts import Money

WHILE_PAID = 30.0
"""Seconds between two checks while a machine costs money. Otherwise one check at the start is
enough."""


@dataclass(frozen=True)
class ComputeSession:
    """The overview of offers and pods, with the settings that it was opened with."""

    overview: Overview
    settings: Settings
    problem: ProviderError | None = None
    """Why a simulator cannot be asked. The user's own machines are there all the same."""

    @property
    def mark(self) -> tuple[Any, ...]:
        """What the providers depend on: another one means another overview."""
        return _mark(self.settings)


class Spending:
    """What is rented, and what it costs.

    Args:
        app: The app whose screens are updated.
    """

    def __init__(self, app: HudtuiApp) -> None:
        self._app = app
        self.session: ComputeSession | None = None
        """None until a screen has asked for it."""
        self.money: Money | None = None
        """For the header; None while no machine is known or being rented."""
        self._before: list[ComputeSession] = []
        self._opening = asyncio.Lock()
        self._closed = False
        self._seen: object = None
        """Records of rented machines at the last refresh."""
        self._news = 0
        """Number of writes since the last check began."""
        self._told: set[tuple[str, ...]] = set()
        self._guard: LimitGuard | None = None
        self._timer: Any = None

    @property
    def holdings(self) -> PodsSnapshot | None:
        """The result of the last check."""
        return self.session.overview.holdings if self.session is not None else None

    async def open(self) -> ComputeSession:
        """The overview with the settings as they are now.

        Raises:
            HudtuiError: The settings or the list of machines cannot be used, or the app ends.
        """
        async with self._opening:
            if self._closed:
                from hudtui.core.errors import HudtuiError

                raise HudtuiError("hudtui ends", why="no machine is asked any more")
            found = await asyncio.to_thread(_open, self._app, self.session)
            if self.session is not None and found is not self.session:
                self._before.append(self.session)  # a screen may be waiting for its answer
            self.session = found
            return found

    async def close(self) -> None:
        """Close all connections; what still asks is refused, because nobody would close it."""
        async with self._opening:
            self._closed = True
        offices = [*self._before, *([self.session] if self.session is not None else [])]
        self._before, self.session = [], None
        if offices:
            from hudtui.core.remote.hosts import close_hosts

            await asyncio.gather(*(session.overview.close() for session in offices))
            await close_hosts()

    def begin(self) -> None:
        """Check at the start whether machines are alive, if any can be.

        Warns of machines without a run.
        """
        self._app.run_worker(self._begin(), group="spending", exclusive=True)

    async def _begin(self) -> None:
        try:
            if await asyncio.to_thread(_possible, self._app.folder):
                self._report(await self.look())
        except Exception as error:
            self._not_looked(error)

    def is_simulated(self, provider: str) -> bool:
        """Return whether a provider is a simulator; False if the provider is not open."""
        found = self.session.overview.providers.get(provider) if self.session is not None else None
        return found is not None and found.features.simulated

    def _report(self, holdings: PodsSnapshot) -> None:
        from hudtui.tui.widgets.words import span

        orphans = holdings.orphans
        if orphans:
            first = orphans[0]
            words = [first.pod.name]
            if (age := first.age(holdings.at)) is not None:
                words.append(f"for {span(age)}")
            if first.cost_text is not None:
                simulated = " (simulated)" if self.is_simulated(first.pod.provider) else ""
                words.append(f"{first.cost_text.removesuffix(' billed')} so far{simulated}")
            more = f" (and {len(orphans) - 1} more)" if len(orphans) > 1 else ""
            self._app.say(
                f"A machine without a run is alive: {', '.join(words)}{more}. "
                "{key:app.open-compute}, then {key:compute.pods}, shows it; "
                "{key:compute.terminate} ends it.",
                severity="warning",
            )
        elif holdings.unclear or any("may be alive" in warning for warning in holdings.warnings):
            told = (
                holdings.warnings[0]
                if holdings.warnings
                else f"{holdings.unclear[0]} may exist: its provider cannot say yet"
            )
            self._app.say(told, severity="warning")

    async def look(self) -> PodsSnapshot:
        """Check which machines are alive and what they cost, and update the screens.

        Raises:
            HudtuiError: The settings or the ledger cannot be used.
        """
        session = await self.open()
        holdings = await session.overview.look()
        self._seen = await asyncio.to_thread(_written)
        await self._count(session)
        self._tell_taken(holdings)
        self._watch_limits(session, holdings)
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        if any(one.ours for one in holdings.pods) or holdings.unclear:
            self._timer = self._app.set_timer(WHILE_PAID, self._look_again, name="money")
        return holdings

    def look_soon(self) -> None:
        """Check soon: the list of rented machines was changed, here or by another process."""
        self._news += 1
        if self._news == 1:
            work: Callable[[], Any] = self._look_at_news
            self._app.run_worker(work, name="forever", group="spending news")

    async def _look_at_news(self) -> None:
        """Check until nothing is new."""
        try:
            while self._news:
                before = self._news
                await self._look_if_new()
                self._news -= before
        finally:
            self._news = 0

    async def _look_if_new(self) -> None:
        try:
            # Each check of any process is recorded, too; only other machines or other states are
            # news.
            if await asyncio.to_thread(_written) == self._seen:
                return
            await self._count(await self.open())
            await self.look()
        except Exception as error:
            self._not_looked(error)

    async def _count(self, session: ComputeSession) -> None:
        """Add up the known costs, without a request, and update the screens."""
        noted = frozenset(self._app.preferences.noted)
        self.money = await asyncio.to_thread(_money, session, noted)
        self._app.show_money()

    # -- machines that were taken back
    # ---------------------------------------------------------------------------------------

    @property
    def taken(self) -> tuple[PodRecord, ...]:
        """Machines that their provider took back, until the user dismisses the notice."""
        taken = self.holdings.taken if self.holdings is not None else ()
        return tuple(one for one in taken if one.name not in self._app.preferences.noted)

    def _tell_taken(self, holdings: PodsSnapshot) -> None:
        """Report each machine once; header and list show it until the user dismisses the notice."""
        from hudtui.core.text import clean_line
        from hudtui.tui import applog

        for one in self.taken:
            if (one.name, "taken") in self._told:
                continue
            self._told.add((one.name, "taken"))
            name, why = clean_line(one.name), clean_line(one.why or "its provider does not say why")
            run = f" Its run was {clean_line(one.run)}." if one.run else ""
            applog.log.error("%s is gone: %s", name, why)
            self._app.notify(
                f"{why}.{run}", title=f"{name} is gone", severity="error", timeout=60, markup=False
            )
            self._app.say(
                f"{name} is gone: {why}.{run} {{key:app.open-compute}}, then {{key:compute.pods}}, "
                "shows it; {key:compute.noted} there dismisses the notice.",
                severity="error",
            )

    async def note_taken(self) -> None:
        """Dismiss the notices of machines that were taken back."""
        from hudtui.tui import preferences

        app = self._app
        noted = (*app.preferences.noted, *(one.name for one in self.taken))[-preferences.KEPT :]
        await asyncio.to_thread(app.prefer, noted=noted)
        if self.session is not None:
            await self._count(self.session)

    # -- leaving
    # ----------------------------------------------------------------------------------------------

    async def unattended(self) -> tuple[UnattendedPod, ...]:
        """Machines that still cost money when the app is closed.

        Raises:
            HudtuiError: The ledger cannot be read.
        """
        return await asyncio.to_thread(_unattended, self._app, self.session)

    def _look_again(self) -> None:
        self._app.run_worker(self._look_quietly(), name="forever", group="spending", exclusive=True)

    async def _look_quietly(self) -> None:
        try:
            await self.look()
        except Exception as error:
            self._not_looked(error)

    def _not_looked(self, error: Exception) -> None:
        """Report once why machines cannot be checked, and try again: one may cost money."""
        from hudtui.core.errors import HudtuiError

        if not self._app.is_running:
            return
        self._timer = self._app.set_timer(WHILE_PAID, self._look_again, name="money")
        if (str(error),) in self._told:
            return
        self._told.add((str(error),))
        if not isinstance(error, HudtuiError):
            error = self._app.defect(error)
        self._app.say(
            f"The state of rented machines is unknown: {error.lines()[0]}", severity="warning"
        )

    # -- the limits of machines without a run; those of runs are the launcher's
    # -----------------------------------------------

    def _watch_limits(self, session: ComputeSession, snapshot: PodsSnapshot) -> None:
        if self._guard is None:
            from hudtui.core.compute.limit_guard import LimitGuard

            self._guard = LimitGuard()
        for text in self._guard.warnings(snapshot):
            self._app.say(text, severity="warning")
        for row in self._guard.due(snapshot):
            self._app.run_worker(
                self._end(self._guard, session, row), group=f"guard {row.pod.name}"
            )

    async def _end(self, guard: LimitGuard, session: ComputeSession, row: PodRow) -> None:
        """End a machine that has reached a limit, and verify its end."""
        from hudtui.core.compute.limit_guard import reasons_of

        self._app.say(f"{row.pod.name} is being ended: {reasons_of(row)}", severity="warning")
        try:
            self._app.say(
                await guard.end(row, session.overview, sleep=self._app.services.sleep),
                severity="warning",
            )
        except Exception as error:
            self._app.fail(error)
        await self._look_quietly()


def _possible(folder: Path) -> bool:
    """Whether machines can be rented, or were.

    Runs in a thread, and imports nothing of the overview.
    """
    from hudtui.core.compute.registry import rents
    from hudtui.core.paths import app_paths

    if (app_paths().data / "pods.db").is_file():
        return True
    from hudtui.core.project import open_project

    settings = open_project(folder).settings()
    # The demo's own simulator starts with the first question to it.
    return rents(settings.get, demo=False)


def _open(app: HudtuiApp, before: ComputeSession | None) -> ComputeSession:
    """The overview, or `before` if its settings have not changed.

    Runs in a thread: the imports take a moment.
    """
    from hudtui.core.compute.demo_simulator import ensure_simulator
    from hudtui.core.compute.overview import Overview
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.compute.registry import find_providers
    from hudtui.core.paths import app_paths
    from hudtui.core.project import open_project
    from hudtui.core.runs.remote_run import is_run_active

    settings = open_project(app.folder).settings()
    problem: ProviderError | None = None
    try:
        ensure_simulator(settings.get)
    except ProviderError as error:
        problem = error
    if before is not None and before.mark == _mark(settings):
        return before
    overview = Overview(
        find_providers(settings.get),
        Ledger(),
        cache=app_paths().cache / "offers.json",
        # A run that has ended may still be bringing its results home.
        active=lambda owned: app.rented.manages(owned.run) or is_run_active(owned),
        now=lambda: app.services.now().timestamp(),
    )
    return ComputeSession(overview, settings, problem)


def _mark(settings: Settings) -> tuple[Any, ...]:
    from hudtui.core.compute.demo_simulator import find_simulator
    from hudtui.core.compute.owned_hosts import owned_hosts_file
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.settings import provider_settings

    try:
        simulator = find_simulator()
    except ProviderError:
        simulator = None

    try:
        listed = owned_hosts_file().stat().st_mtime_ns
    except OSError:
        listed = 0
    values = tuple(
        (settings.get(one.name), settings.waits(one.name)) for one in provider_settings()
    )
    return values, simulator, listed


def _written() -> object:
    """The recorded machines that may be alive, with their states. Runs in a thread."""
    from hudtui.core.compute.pods import Ledger

    return tuple((one.name, one.state, one.pod) for one in Ledger().records())


def _unattended(app: HudtuiApp, session: ComputeSession | None) -> tuple[UnattendedPod, ...]:
    """Runs in a thread."""
    from hudtui.core.paths import app_paths

    if not (app_paths().data / "pods.db").is_file():
        return ()
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.runs.unattended import find_unattended

    providers = session.overview.providers if session is not None else {}
    settings = session.settings.get if session is not None else lambda name: None
    return find_unattended(
        Ledger(), providers, settings, folder=app.folder, mine=app.rented.manages
    )


def _money(session: ComputeSession, noted: Collection[str]) -> Money | None:
    """What the header shows, from the last check and the current records. Runs in a thread."""
    from datetime import datetime

    from hudtui.core.compute.costs import sum_costs
    from hudtui.core.compute.limits import limits_from_settings
    from hudtui.core.errors import HudtuiError
    from hudtui.core.http import is_loopback
    from hudtui.tui.facts import Money

    overview = session.overview
    held = overview.holdings
    orphans = held.orphans if held is not None else ()
    costs = sum_costs(overview.ledger, overview.now(), here=overview.paid)
    alive = [pod for pod in costs.open if pod.expected]
    taken = sum(one.name not in noted for one in held.taken) if held is not None else 0
    if not alive and not taken:
        return None
    names = {pod.name for pod in alive}
    known = [one for one in held.pods if one.pod.name in names] if held is not None else []
    old = [one.seen for one in known if not one.reachable and one.seen is not None]
    budget = ""
    with contextlib.suppress(
        HudtuiError
    ):  # a mistyped limit is reported where money is about to be spent
        day = limits_from_settings(session.settings).day_budget
        budget = "" if day is None else money(day)
    return Money(
        machines=len(alive),
        per_hour=costs.shown.per_hour_text,
        today=costs.shown.today_text,
        budget=budget,
        orphans=len(orphans),
        warn=any(one.verdict is not None and one.verdict.level != "fine" for one in known),
        simulated=bool(alive) and all(is_loopback(pod.endpoint) for pod in alive),
        as_of=datetime.fromtimestamp(min(old)).strftime("%H:%M") if old else "",
        taken=taken,
    )
