"""One machine, for all lists, commands and screens.

What its provider says, what the ledger knows, and what it costs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.compute.costs import HOUR, PodCost, pod_cost
from hudtui.core.compute.lifecycle import PREFIX
from hudtui.core.compute.limits import Limits, LimitVerdict
from hudtui.core.compute.pods import UNGUARDED, PodRecord, stray_record
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.values import Pod
from hudtui.core.http import is_loopback
from hudtui.core.text import clean_line, duration, money


@dataclass(frozen=True)
class PodRow:
    """One machine.

    Where `reachable` is False, everything in `pod` is what the ledger knows: stage, price and
    address are those of `seen`, a login with that address may still work, and the machine counts as
    alive and is paid for until its provider says otherwise.
    """

    pod: Pod
    provider: Provider | None
    """None where no key is here for its provider."""
    record: PodRecord | None = None
    """Its record in the ledger; None for a machine that was ordered elsewhere, or before the ledger
    was lost."""
    cost: PodCost | None = None
    """None for a machine that hudtui did not rent, and where nobody asked for its cost."""
    limits: Limits | None = None
    verdict: LimitVerdict | None = None
    """What the guard says; None where there are no limits."""
    unclaimed: str | None = None
    """Why no run owns it, for users. None for the machine of a run, one that was rented by hand,
    and one of others."""
    reachable: bool = True
    """Its provider said just now that it is there."""
    seen: float | None = None
    """When its provider said so last, in seconds since the epoch. None: it never did."""

    @property
    def ours(self) -> bool:
        """It was rented by this program."""
        return self.record is not None or self.pod.name.startswith(PREFIX)

    @property
    def run(self) -> str | None:
        """The run that it is for.

        None for a machine that was rented by hand, or that no run owns.
        """
        return self.record.run if self.record is not None and self.unclaimed is None else None

    @property
    def by_hand(self) -> bool:
        """It was rented on purpose, without a run: it is the user's, and ended by name alone."""
        return self.ours and self.run is None and self.unclaimed is None

    @property
    def simulated(self) -> bool:
        """No real money is spent on it."""
        if self.provider is not None:
            return self.provider.features.simulated
        return self.record is not None and is_loopback(self.record.endpoint)

    @property
    def until(self) -> float | None:
        """When the guard on it ends it, in seconds since the epoch; None: never, or not known.

        See `budget`.
        """
        return self.record.until if self.record is not None else None

    @property
    def cost_text(self) -> str | None:
        """What it has cost so far, and where that comes from; None: unknown."""
        if self.cost is None or not (self.cost.billed or self.cost.spent or self.cost.per_hour):
            return None
        return self.cost.text

    def age(self, now: float) -> float | None:
        """Seconds since it was asked for; None: unknown."""
        if self.cost is not None and (self.record is not None or self.pod.created is not None):
            return self.cost.hours * HOUR
        began = self.pod.created
        return None if began is None else max(now - began, 0.0)

    def seen_ago(self, now: float) -> float | None:
        """Seconds since its provider said that it is there; None: it never did."""
        return None if self.seen is None else max(now - self.seen, 0.0)

    @property
    def gpus_text(self) -> str:
        """Its GPUs, such as `2x H100_80GB`."""
        pod = self.pod
        return f"{pod.gpu_count}x {pod.gpu_type}" if pod.gpu_type else "–"

    @property
    def price_text(self) -> str:
        """Its price an hour."""
        return "–" if self.pod.hourly is None else money(self.pod.hourly, self.pod.currency)

    @property
    def place_text(self) -> str:
        """Where it stands, and whether that is simulated."""
        return (self.pod.cloud or self.pod.provider) + (" (simulated)" if self.simulated else "")

    @property
    def state_text(self) -> str:
        """Its stage, how far its installation is, and why it failed."""
        pod = self.pod
        progress = (
            f" {pod.progress} %" if pod.progress is not None and pod.stage == "installing" else ""
        )
        return f"{pod.stage}{progress}" + (f": {pod.failure}" if pod.failure else "")

    def seen_text(self, now: float) -> str:
        """How old its state is, where its provider does not answer; else empty."""
        return "" if self.reachable else seen_text(self.seen, now)

    def cells(self, now: float) -> tuple[str, ...]:
        """Return the cells under `POD_HEAD`."""
        old = self.seen_text(now)
        owner = (
            self.run or ("by hand" if self.by_hand else "no run") if self.ours else "not hudtui's"
        )
        return (
            self.pod.name or self.pod.id,
            self.state_text + (f", {old}" if old else ""),
            self.gpus_text,
            self.price_text,
            duration(self.age(now)),
            self.cost_text or "–",
            owner,
            str(self.pod.addresses[0]) if self.pod.addresses else "–",
            self.place_text,
        )

    def facts(self, now: float) -> tuple[tuple[str, str], ...]:
        """Return all that is known of it as labels and texts."""
        pod, cost, old = self.pod, self.cost, self.seen_text(now)
        title = self.provider.title if self.provider is not None else pod.provider
        owner = "not rented by hudtui"
        if self.record is not None:
            owner = self.record.run or "none: rented by hand, yours until you end it"
        return (
            ("machine", f"{pod.name}  ({pod.id}, {title})"),
            ("state", f"{self.state_text}  ({pod.status})" + (f", {old}" if old else "")),
            ("GPUs", self.gpus_text + (", spot" if pod.spot and pod.gpu_type else "")),
            ("at", " ".join(word for word in (pod.cloud, pod.region) if word) or "–"),
            ("price", "–" if pod.hourly is None else f"{self.price_text} an hour"),
            (
                "cost",
                f"{self.cost_text} in {duration(cost.hours * HOUR)}"
                if cost and self.cost_text
                else "–",
            ),
            ("run", owner),
            ("login", ", ".join(map(str, pod.addresses)) or "not yet"),
        )

    def to_json(self) -> dict[str, Any]:
        """The form of a machine in all `hudtui pods` commands with `--json`."""
        return {
            **self.pod.to_json(),
            "simulated": self.simulated,
            "ours": self.ours,
            "run": self.run,
            "by_hand": self.by_hand,
            "spent": self.cost.spent if self.cost else None,
            "spent_is_billed": self.cost.billed if self.cost else None,
            "hours": self.cost.hours if self.cost else None,
            "reachable": self.reachable,
            "seen": self.seen,
            "why": self.unclaimed or (self.record.why if self.record else None),
        }


POD_HEAD = ("MACHINE", "STATE", "GPUS", "PRICE/H", "AGE", "COST SO FAR", "RUN", "LOGIN", "AT")


def seen_text(at: float | None, now: float) -> str:
    """Return how long ago a provider said that a machine is there."""
    return "never seen" if at is None else f"as of {duration(max(now - at, 0.0))} ago"


def costed(pod: Pod, record: PodRecord | None, endpoint: str, now: float) -> PodCost:
    """Return what one machine costs.

    By its record where that is open, else by what its provider says.
    """
    if record is None or not record.open:
        record = stray_record(pod, pod.provider, endpoint, now)
    return pod_cost(record, now)


def unclaimed_reason(record: PodRecord | None, *, closed: bool = False) -> str:
    """Return why no run owns a living machine, for users.

    It is neither of a run at work, nor rented by hand.

    `closed`: it was recorded as ended, or as never created, until now.
    """
    if record is None:
        return (
            "it has a name of hudtui's and was not ordered here: you on another machine, or a "
            "member of your team, may use it"
        )
    if record.state == "ending":
        return "its end was requested and is not confirmed"
    if closed or not record.open:
        return "it was recorded as ended, or as never created"
    if record.state != "ready" or record.run is None:
        unguarded = record.state != "ready" or record.why == UNGUARDED
        return "its setup was interrupted" + (", and no guard is on it" if unguarded else "")
    if record.workspace is not None and not Path(record.workspace).is_dir():
        return (
            f"its run {record.run} may be at work: the project {clean_line(record.workspace)} "
            "cannot be read"
        )
    return f"its run {record.run} is over"


def known_row(
    pod: Pod, provider: Provider, record: PodRecord | None, *, reachable: bool = True
) -> PodRow:
    """Return a machine without its cost, as its provider or the ledger knows it.

    The provider's word is of just now.
    """
    seen = time.time() if reachable else record.seen if record is not None else None
    return PodRow(pod, provider, record, reachable=reachable, seen=seen)
