"""Machines that continue to cost money while hudtui is closed.

Their purpose, and when and by what they are ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.compute.costs import CostSummary, sum_costs
from hudtui.core.compute.limits import hours_left
from hudtui.core.compute.pods import UNGUARDED, Ledger, PodRecord
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.watchdog import terminate_rule
from hudtui.core.errors import HudtuiError
from hudtui.core.http import is_loopback
from hudtui.core.runs.launch import Lookup
from hudtui.core.runs.remote_run import FETCH_WITHIN, START_WITHIN, is_guarded, may_have_begun
from hudtui.core.runs.run_lock import is_managed
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunSummary
from hudtui.core.text import clean_line, duration, money
from hudtui.core.workspace import STATE_FOLDER


@dataclass(frozen=True)
class UnattendedPod:
    """A machine that costs money and that no other hudtui manages once this one is closed."""

    name: str
    run: str | None
    """Id of the machine's run; None for a machine that was rented by hand."""
    hourly: float
    """Price per hour; 0 if unknown."""
    currency: str
    simulated: bool
    """True if the machine is simulated, so that no real money is spent."""
    words: tuple[str, ...]
    """Sentences for the user: the cost and purpose of the machine, what ends it, and the commands
    to type."""


def find_unattended(
    ledger: Ledger,
    providers: Mapping[str, Provider],
    settings: Lookup,
    *,
    folder: Path,
    mine: Callable[[str], bool] = lambda run: False,
) -> tuple[UnattendedPod, ...]:
    """Return the machines that cost money without this hudtui, the most expensive first.

    Machines that another running hudtui is renting, or whose run it manages, are left out. A
    simulator's machines count only if that simulator is among the providers. `settings` returns the
    value of a setting by its name. `mine` returns whether this process manages a run; that run
    counts as unmanaged, because the process is about to end.

    Raises:
        MachineError: The ledger cannot be read.
    """
    spending = sum_costs(ledger, time.time(), here=tuple(providers.values()))
    counted = {pod.name for pod in spending.open}
    found = []
    for one in ledger.records():
        store = _store_of(one)
        if one.name not in counted or one.held:
            continue
        if (
            one.run is not None
            and store is not None
            and is_managed(store, one.run)
            and not mine(one.run)
        ):
            continue
        provider = next((provider for provider in providers.values() if one.is_at(provider)), None)
        known = _known(store, one.run)
        events = store.events(known[0].id) if store is not None and known is not None else ()
        guarded = one.why != UNGUARDED and (known is None or is_guarded(events))
        begun = known is not None and may_have_begun(known[1], events)
        left = _RemainingPod(one, known, provider, guarded, begun)
        guard = left.guard(ledger, spending, settings)
        words = (*left.purpose(folder), *((guard,) if guard else ()))
        found.append(
            UnattendedPod(one.name, one.run, one.hourly or 0.0, one.currency, left.simulated, words)
        )
    return tuple(sorted(found, key=lambda one: -one.hourly))


def _store_of(one: PodRecord) -> RunStore | None:
    state = (
        Path(one.workspace) / STATE_FOLDER
        if one.run is not None and one.workspace is not None
        else None
    )
    return RunStore(state) if state is not None and (state / "runs.db").is_file() else None


def _known(store: RunStore | None, run: str | None) -> tuple[RunRecord, RunSummary] | None:
    try:
        return (
            (store.record(run), store.summary(run))
            if store is not None and run is not None
            else None
        )
    except HudtuiError:
        return None


@dataclass(frozen=True)
class _RemainingPod:
    """A machine that remains when hudtui is closed."""

    owned: PodRecord
    known: tuple[RunRecord, RunSummary] | None
    """The run and its state, from the store of the machine's project."""
    provider: Provider | None
    guarded: bool
    """True if a guard was started on the machine, as far as is known."""
    begun: bool
    """True if the run has started, or may have; see `may_have_begun`."""

    @property
    def simulated(self) -> bool:
        return is_loopback(self.owned.endpoint)

    @property
    def kept(self) -> bool:
        """Return whether the machine is kept: its run has failed, and the user wanted that."""
        return self._may_keep and self.known is not None and self.known[1].state == "failed"

    @property
    def _may_keep(self) -> bool:
        rent = self.known[0].spec.rent if self.known is not None else None
        return rent is not None and rent.keep_on_failure

    def purpose(self, folder: Path) -> tuple[str, ...]:
        """Return sentences about the machine's cost, its purpose, and the commands to type."""
        one, name = self.owned, clean_line(self.owned.name)
        price = f"{money(one.hourly, one.currency)}/h" if one.hourly else "an unknown price"
        price += " (simulated)" if self.simulated else ""
        end = f"`hudtui pods terminate {name}`"
        if one.state == "intended":
            return (
                f"{name} may exist and cost {price}: it was ordered and not seen yet. `hudtui pods "
                "reconcile` looks for it.",
            )
        if one.state == "ending":
            return (
                f"{name} may still cost {price}: its end was requested and is not verified. {end} "
                "requests it again.",
            )
        if one.run is None:
            return (f"{name} costs {price}, and has no run. It stays until you end it: {end}.",)
        run = clean_line(one.run)
        if self.known is None:
            return (
                f"{name} costs {price}. Its run {run} is no longer known. {end} ends the machine.",
            )
        if self.kept:
            return (
                f"{name} costs {price}. It is kept, as you wished, because its run {run} has "
                f"failed. {end} ends the machine.",
            )
        resume = f"`hudtui runs resume {run}`"
        if one.workspace is not None and Path(one.workspace) != folder:
            resume += f" in {clean_line(one.workspace)}"
        state = self.known[1]
        if state.active and state.started is None and self.begun:
            return (
                f"{name} costs {price}: run {run} may have started there.",
                f"{resume} continues the run. {end} ends the machine.",
            )
        if state.active and state.started is None:
            return (
                f"{name} costs {price}: run {run} has not started there.",
                f"{resume} starts it. {end} ends the machine.",
            )
        if state.active:
            return (
                f"{name} costs {price}: run {run} continues there.",
                "While hudtui is closed, its results are not fetched and its machine is not ended "
                f"when it is done. Open hudtui again for that, or type {resume}.",
            )
        return (
            f"{name} costs {price}: run {run} is {state.state}, and its results are not all "
            "fetched yet.",
            f"{resume} fetches them and ends the machine.",
        )

    def guard(self, ledger: Ledger, spending: CostSummary, settings: Lookup) -> str:
        """Return a sentence that says when, and by what, the machine is ended automatically."""
        one = self.owned
        if self.provider is not None and self.provider.features.terminates_itself:
            return f"{self.provider.title} ends it by itself when its time is over."
        if one.state == "created":
            return "Its setup was interrupted, and no guard is on it: nothing ends it by itself."
        if one.state != "ready":
            return ""
        if not self.guarded:
            return "No guard is on it: nothing ends it by itself."
        times = []
        if (left := _seconds_left(one, ledger, spending)) is not None:
            times.append(f"in {duration(left)}")
        if self.known is not None and self.known[1].started is None:
            times.append(f"{duration(START_WITHIN)} after it was put there, unless the run starts")
        if self.known is not None and not self._may_keep:
            times.append(f"{duration(FETCH_WITHIN)} after the run has ended")
        if not times:
            return "No limit is set: nothing ends it by itself."
        latest = f"{' or '.join(times)}{', whichever comes first' if len(times) > 1 else ''}"
        if self._guard_ends(settings):
            return f"Its guard ends it {latest}."
        return (
            f"Its guard switches it off {latest}. That may not stop the billing: only ending it "
            "does."
        )

    def _guard_ends(self, settings: Lookup) -> bool:
        """Return whether the watchdog has a key to end the machine.

        Otherwise it can only switch the machine off.
        """
        try:
            return (
                self.provider is not None
                and terminate_rule(self.provider, self.owned.pod or "", settings) is not None
            )
        except HudtuiError:
            return False


def _seconds_left(one: PodRecord, ledger: Ledger, spending: CostSummary) -> float | None:
    """Return the seconds until the machine's limits end it; None without such a limit."""
    if one.until is not None:
        return max(one.until - time.time(), 0.0)
    limits, used = ledger.limits(one.name), spending.of(one.name)
    if limits is None or used is None:
        return None
    hours = hours_left(limits, spending.usage(used), one.hourly or 0.0)
    return None if hours is None else hours * 3600
