"""Parts of the commands about machines: providers, filters, tables, and a sign of progress."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import console, runlog
from hudtui.core.errors import MachineError
from hudtui.core.knobs import knob
from hudtui.core.text import clean_line, duration, money

if TYPE_CHECKING:
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer, Offers, Query
    from hudtui.core.runs.demand import Demand
    from hudtui.core.settings import Settings

Providers = Annotated[
    list[str] | None,
    typer.Option(
        "--provider", help="Ask only this provider: prime, sky, ssh, local. May be repeated."
    ),
]
Spec = Annotated[
    str | None,
    typer.Argument(
        metavar="[SPEC]", help="Which GPUs: H100, 4xH100, A100_80GB:2, H100-SXM, 4090, cpu."
    ),
]
Machines = Annotated[
    list[str] | None,
    typer.Option(
        "--host", help="Also list this machine behind SSH: user@host[:port]. May be repeated."
    ),
]

_WHEEL = "|/-\\"


def settings() -> Settings:
    """The settings of the project folder; all those of machines count.

    Raises:
        Untrusted: The user has not agreed to settings of machines in the project's `.env`.
    """
    from hudtui.core.settings import load_settings, machine_prefixes

    found = load_settings(Path.cwd())
    found.require_trust(*machine_prefixes())
    return found


@dataclass(frozen=True, kw_only=True)
class OfferOptions:
    """Which offers are meant, and what decides between them.

    None and empty values leave all of them.
    """

    min_vram: float | None = knob(None, "Least memory of a GPU in GB.")
    max_price: float | None = knob(
        None, "Highest price in USD per hour, for the whole machine and its disk.", minimum=0
    )
    spot: bool | None = knob(
        None,
        "Only spot machines, which the provider may take back at any time, or only others.",
        "--spot/--no-spot",
    )
    region: tuple[str, ...] = knob(
        (), "Region (eu, eu_north), country (FI) or data centre. May be repeated."
    )
    provider: tuple[str, ...] = knob(
        (), "Ask only this provider: prime, sky, ssh, local. May be repeated."
    )
    cloud: tuple[str, ...] = knob(
        (), "Owner of the machines: datacrunch, hyperstack, ... May be repeated."
    )
    count: int | None = knob(None, "GPUs in the machine.", minimum=1)
    sort: str = knob("price", "price, gpu-price, vram, count or setup.")
    hours: float | None = knob(
        None, "Compare prices for this many hours, with charges up front.", minimum=0.01
    )
    model: str | None = knob(
        None, "Model to train: machines whose GPUs hold it come first.", "--model", "-m"
    )
    training: Path | None = knob(None, "Training file whose settings, and model, count for that.")

    @property
    def query(self) -> Query:
        """The conditions, as the core takes them."""
        from hudtui.core.compute.values import Query

        return Query(
            gpu_count=self.count,
            min_vram=self.min_vram,
            max_price=self.max_price,
            spot=self.spot,
            regions=self.region,
            clouds=self.cloud,
        )

    def demand(self) -> Demand | None:
        """What the training that `--model` and `--training` name needs of its GPUs.

        None without them.

        Raises:
            InputError: The training file cannot be used.
        """
        if self.model is None and self.training is None:
            return None
        from hudtui.core.runs.demand import find_demand
        from hudtui.core.runs.request import RunRequest

        return find_demand(RunRequest(model=self.model, training=self.training), Path.cwd())


@contextlib.asynccontextmanager
async def asked(
    lookup: Settings, names: Sequence[str] = (), *, machines: Sequence[str] = (), paid: bool = False
) -> AsyncIterator[Mapping[str, Provider]]:
    """Open providers, and close their connections at the end.

    Args:
        lookup: The settings.
        names: Those that the user named; by default all that are set up.
        machines: Further machines behind SSH.
        paid: Only those whose machines cost money.

    Raises:
        HudtuiError: A provider that the user named is not set up; or, with `paid`, no provider is.
    """
    from hudtui.core.compute.demo_simulator import STANDS_FOR, ensure_simulator
    from hudtui.core.compute.registry import find_providers, open_provider, usual_rental

    try:
        await asyncio.to_thread(ensure_simulator, lookup.get)
    except MachineError as error:
        if paid or STANDS_FOR in names:
            raise
        console.say(
            f"warning: {'; '.join(error.lines())}"
        )  # the user's own machines are there all the same
    whole = "ssh" in names
    found = await asyncio.to_thread(
        find_providers, lookup.get, machines=machines, whole_config=whole, named=names
    )
    async with runlog.machines():
        try:
            chosen = {
                name: open_provider(name, lookup.get, providers=found) for name in names
            } or dict(found)
            if paid:
                chosen = {
                    name: provider for name, provider in chosen.items() if provider.features.paid
                }
                if not chosen and not names:
                    open_provider(
                        usual_rental(lookup.get).name, lookup.get, providers=found
                    )  # says what is missing
            yield chosen
        finally:
            await asyncio.gather(
                *(provider.close() for provider in found.values()), return_exceptions=True
            )


async def gather_offers(
    providers: Mapping[str, Provider], *, strict: bool = False
) -> tuple[Offers, frozenset[str]]:
    """Return the offers of all providers, and the names of the providers that are simulated.

    The offers are kept for completion in a shell.

    Args:
        providers: Whom to ask.
        strict: A failure of one is an error, and not a warning beside the others' offers.
    """
    from hudtui.core.compute.market import Market, ProviderOffers, save_cache
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.compute.values import Offers
    from hudtui.core.errors import InputError
    from hudtui.core.paths import app_paths

    parts: dict[str, ProviderOffers] = {}

    async def ask(provider: Provider) -> Offers:
        try:
            answer = await provider.offers()
        except ProviderError as error:
            if strict:
                raise
            return Offers(warnings=(f"{provider.title}: {'; '.join(error.lines())}",))
        parts[provider.name] = ProviderOffers(
            provider.name, provider.title, answer.found, at=time.time()
        )
        return answer

    async with busy(
        f"asking {', '.join(provider.title for provider in providers.values()) or 'no provider'}"
    ):
        answers = await asyncio.gather(*map(ask, providers.values()))
    with contextlib.suppress(InputError):
        await asyncio.to_thread(save_cache, Market(parts), app_paths().cache / "offers.json")
    found = tuple(offer for answer in answers for offer in answer.found)
    warnings = tuple(warning for answer in answers for warning in answer.warnings)
    return Offers(found, warnings), frozenset(
        provider.name for provider in providers.values() if provider.features.simulated
    )


class Spinner:
    """One line on the terminal that says what the command waits for, after one second.

    Nothing where stderr is no terminal.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._shown = False

    def say(self, message: str) -> None:
        self._clear()
        console.say(message)

    async def turn(self) -> None:
        """Show it until cancelled."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        await asyncio.sleep(1)
        for turn in itertools.count():
            line = (
                f"{_WHEEL[turn % 4]} {self.text} … {duration(loop.time() - started)} (Ctrl-C stops)"
            )
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r\x1b[K{clean_line(line, width)}")
            sys.stderr.flush()
            self._shown = True
            await asyncio.sleep(0.25)

    def _clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False


@contextlib.asynccontextmanager
async def busy(text: str) -> AsyncIterator[Spinner]:
    """Say what the command waits for while the block runs."""
    line = Spinner(text)
    if not console.interactive():
        yield line
        return
    turning = asyncio.create_task(line.turn())
    try:
        yield line
    finally:
        turning.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await turning
        line._clear()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print rows of foreign text under a head; see `console.table`."""
    console.table(head, [[clean_line(cell, 60) for cell in row] for row in rows], right=right)


def gpus_text(offer: Offer) -> str:
    """`4x H100_80GB SXM5`, `16x H100_80GB SXM5 on 2 machines`, or `no GPU`."""
    if not offer.gpu_type or not offer.gpu_count or offer.gpu_type == "CPU_NODE":
        return "no GPU"
    socket = f" {offer.socket}" if offer.socket else ""
    return f"{offer.gpu_count}x {offer.gpu_type}{socket}{offer.spread}"


def from_text(offer: Offer, simulated: bool) -> str:
    """Whose machine it is."""
    return (offer.cloud or (offer.cloud_id if offer.provider == "ssh" else offer.provider)) + (
        " (simulated)" if simulated else ""
    )


def notes_text(offer: Offer) -> str:
    """Remarks about an offer's price and stay."""
    price = offer.price
    notes = ["spot"] if offer.spot else []
    notes += ["price varies"] if price.variable else []
    notes += [f"{price.prepaid_hours:g} h prepaid"] if price.prepaid_hours else []
    notes += [f"incl. {money(price.disk, price.currency)}/h disk"] if price.disk else []
    return ", ".join(notes)
