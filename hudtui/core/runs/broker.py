"""Who the machines of runs are rented from, what is asked of them, and what people are told of that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.limitbook import LimitBook
from hudtui.core.compute.limits import money
from hudtui.core.compute.pods import Ledger, PodRecord
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.release import Sleep
from hudtui.core.compute.values import Offer, Order
from hudtui.core.errors import HudtuiError, InputError, RunError
from hudtui.core.events import Notice
from hudtui.core.runs.launch import Lookup
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunSummary
from hudtui.core.training.plan import Rental
from hudtui.core.workspace import STATE_FOLDER

if TYPE_CHECKING:
    from hudtui.core.settings import Settings

WATCHDOG_POWERS_OFF = (
    "the guard on the machine stops the run and switches the machine off when its limits are reached or nobody fetches "
    "the results; a machine that is switched off may still be charged for: only ending it at its provider, as hudtui does, "
    "stops that"
)
"""What people have to know of the guard before they pay."""
WATCHDOG_ENDS = (
    "the guard on the machine stops the run and ends the machine, with the key that you gave for that, when its limits are "
    "reached or nobody fetches the results"
)
"""The same, where a key was given that ends machines."""


@dataclass
class Broker:
    """Whoever machines are rented from, and what is written down about them."""

    provider: Provider
    settings: Lookup
    """The value of a setting by its name: for the key to log in with."""
    ledger: Ledger = field(default_factory=Ledger)
    book: LimitBook = field(default_factory=LimitBook)
    sleep: Sleep = asyncio.sleep
    every: float = 5.0
    """Seconds between looks at a run that goes on."""
    within: float = 20.0
    """Seconds for an answer of the machine; after that the provider is asked whether it exists at all."""
    say: Callable[[str], None] | None = None
    """Told what became of a machine when its order was cancelled."""
    clock: Callable[[], float] = time.monotonic
    """For how long a machine is waited for."""
    look: float = 30.0
    """Seconds between looks whether the supervisor is still at work, which a machine that was rebooted has lost."""


def broker_for(record: RunRecord, settings: Settings, *, say: Callable[[str], None] | None = None) -> Broker:
    """Whoever the machine of a run is rented from, by the user's settings.

    Raises:
        RunError: No machine was rented for it.
        InputError: There is no such provider, or it is another one than the run's: simulated ones and real ones are not mixed up.
        AuthError: Its key is missing.
    """
    from hudtui.core.compute.registry import open_provider

    rent = record.spec.rent
    if rent is None:
        raise RunError(f"run {record.id} is on {record.host}, which was not rented for it")
    provider = open_provider(rent.provider, settings.get)
    if provider.simulated != rent.simulated:
        kind = "simulated" if rent.simulated else "real"
        raise InputError(
            f"run {record.id} is on a {kind} machine, and the settings lead to {provider.title}",
            fix="See HUDTUI_SIM and PRIME_API_BASE_URL.",
        )
    return Broker(provider, settings.get, say=say)


def offer_to_json(offer: Offer) -> dict[str, Any]:
    """An offer as plain data, with what its provider needs for the order."""
    import msgspec

    data: dict[str, Any] = msgspec.to_builtins(offer)
    return data


def order_of(rent: Rental) -> Order:
    """What is asked of the provider."""
    import msgspec

    offer = msgspec.convert(dict(rent.offer), Offer)
    return Order(rent.machine, offer, image=rent.image, disk_gb=rent.disk_gb, ssh_key=rent.ssh_key)


def results_folder(record: RunRecord, store: RunStore) -> Path:
    """Where the results of a run are, or will be, on this computer."""
    if record.spec.output_dir is not None:
        return Path(record.spec.output_dir) / record.id
    return Path(record.folder) if record.host == "local" else store.folder / record.id


def is_run_active(owned: PodRecord) -> bool:
    """Whether the run that a machine was rented for is still at work, as the run's own workspace says."""
    if owned.run is None or owned.state == "ending":
        return False
    if owned.workspace is None:
        return True
    state = Path(owned.workspace) / STATE_FOLDER
    if not (state / "runs.db").is_file():
        return False
    try:
        return any(run.id == owned.run and run.active for run in RunStore(state).runs())
    except HudtuiError:
        return True  # nobody can say; a machine is not offered for ending on a guess


def holds_machine(summary: RunSummary) -> Notice:
    """What the user should know of a run on a rented machine that nobody tends."""
    price = f", which costs {money(summary.hourly, summary.currency)} an hour" if summary.hourly else ""
    if summary.active:
        return Notice("info", f"run {summary.id} is on a rented machine{price}: hudtui runs resume {summary.id} watches over it")
    return Notice(
        "warning",
        f"run {summary.id} has ended ({summary.state}), and its machine{price + ',' if price else ''} may still be there: "
        f"hudtui runs resume {summary.id} fetches the results and ends it",
    )
