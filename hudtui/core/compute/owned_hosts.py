"""Machines that the user has already, as offers.

What they have is looked up, what they cost is what the user states.
Nothing is rented here: `create` and `terminate` leave the machine as it is.
"""

from __future__ import annotations

import asyncio
import glob
import shlex
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.compute.gpus import type_from_driver
from hudtui.core.compute.hardware import Gpu, Hardware, inspect
from hudtui.core.compute.provider import Features, ListedProvider
from hudtui.core.compute.values import Address, Offer, Offers, Order, Pod, Price
from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.paths import typed_path
from hudtui.core.remote.host import Host
from hudtui.core.remote.hosts import open_host
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.target import parse_target
from hudtui.core.text import clean_line

LOOK = 30.0
"""Seconds that a machine may take to say what it has: connecting, and a GPU driver that has to wake
up."""
_BUSY = 0.1
"""Share of a GPU's memory in use from which on another program counts as working there."""


@dataclass(frozen=True)
class OwnedHost:
    """A machine of the user's, and what they say of it."""

    name: str
    """`local`, a name of ~/.ssh/config, or `user@host[:port]`."""
    price: float | None = None
    """An hour, for the whole machine; None if it is not stated."""
    currency: str = "USD"


def owned_hosts_file() -> Path:
    """Where the user lists machines and prices. It need not exist."""
    from hudtui.core.paths import app_paths

    return app_paths().config / "machines.yaml"


def read_owned_hosts(path: Path) -> tuple[OwnedHost, ...]:
    """The machines that the user has listed; none where there is no such file.

    The file maps names to facts: `gpu-box: {price: 1.2, currency: EUR}`. Both facts may be missing.

    Raises:
        InputError: The file cannot be read or understood.
    """
    if not path.exists():
        return ()
    from hudtui.core.files import read_text
    from hudtui.core.yaml_doc import load_yaml

    document = load_yaml(read_text(path), name=str(path))
    data = {} if document.data is None else document.data
    if not isinstance(data, dict):
        raise InputError(
            "the list of machines maps names to facts",
            fix="Write for instance: gpu-box: {price: 1.2}",
            where=Location(str(path), 1),
        )
    found = []
    for name, facts in data.items():
        facts = {} if facts is None else facts

        def bad(what: str, key: str | None = None, name: str = name) -> InputError:
            return InputError(
                what,
                fix="Write price: NUMBER and currency: USD.",
                where=document.location((name, *([key] if key else []))),
            )

        if not isinstance(facts, dict):
            raise bad("the facts of a machine are a mapping")
        if unknown := set(facts) - {"price", "currency"}:
            key = min(unknown)
            raise bad(f"a machine has no {clean_line(str(key), 30)!r}", key)
        price, currency = facts.get("price"), facts.get("currency", "USD")
        if price is not None and (
            isinstance(price, bool) or not isinstance(price, int | float) or not 0 <= price < 1e6
        ):
            raise bad("the price of an hour is a number", "price")
        if not isinstance(currency, str) or not (
            len(currency) == 3 and currency.isascii() and currency.isalpha()
        ):
            raise bad("a currency has three letters", "currency")
        found.append(
            OwnedHost(str(name), None if price is None else float(price), currency.upper())
        )
    return tuple(found)


def offers_of(machine: Hardware, own: OwnedHost, provider: str) -> tuple[Offer, ...]:
    """The offers of a machine: one for each kind of GPU in it, or a single offer without GPUs."""
    price = Price(own.price or 0.0, own.currency, stated=own.price is not None)
    facts: dict[str, Any] = {
        "cloud_id": own.name,
        "vcpus": machine.cpus,
        "memory_gb": None if machine.memory_bytes is None else round(machine.memory_bytes / 1e9),
        "disk_gb": None
        if machine.disk_free_bytes is None
        else round(machine.disk_free_bytes / 1e9),
        "setup_minutes": 0.0,
    }
    kinds: dict[tuple[str, float | None, str], list[Gpu]] = defaultdict(list)
    for gpu in machine.gpus:
        kinds[type_from_driver(gpu.name, gpu.memory_mib)].append(gpu)
    if not kinds:
        return (Offer(provider, own.name, "", 0, price, stock="here", **facts),)
    return tuple(
        Offer(
            provider,
            own.name if len(kinds) == 1 else f"{own.name} {kind}",
            kind,
            len(gpus),
            price,
            gpu_memory=memory,
            socket=socket,
            stock="in use" if any(map(_busy, gpus)) else "idle",
            **facts,
        )
        for (kind, memory, socket), gpus in kinds.items()
    )


def _busy(gpu: Gpu) -> bool:
    return bool(
        gpu.memory_mib and gpu.used_mib is not None and gpu.used_mib > _BUSY * gpu.memory_mib
    )


class OwnedHostsProvider(ListedProvider):
    """A provider of machines that are there already. See `Provider`.

    `machines` tells which machines are asked when offers are wanted; `look` looks at one, for
    `patience` seconds at most; `address` tells how to log in to one, None for this machine.
    """

    features = Features(paid=False)

    def __init__(
        self,
        name: str,
        title: str,
        machines: Sequence[OwnedHost],
        look: Callable[[str], Awaitable[Hardware]],
        *,
        address: Callable[[str], Address | None] = lambda name: None,
        patience: float = LOOK,
    ) -> None:
        self.name, self.title, self.machines = name, title, tuple(machines)
        self._look, self._address, self._patience = look, address, patience

    async def offers(self) -> Offers:
        """What the machines have now."""
        answers = await asyncio.gather(*(self._ask(machine) for machine in self.machines))
        found = tuple(offer for offers, _ in answers for offer in offers)
        return Offers(found, tuple(warning for _, warning in answers if warning))

    async def _ask(self, own: OwnedHost) -> tuple[tuple[Offer, ...], str | None]:
        try:
            async with asyncio.timeout(self._patience):
                machine = await self._look(own.name)
        except TimeoutError:
            return (
                (),
                f"{clean_line(own.name, 60)} did not say what it has within {self._patience:g} s",
            )
        except HudtuiError as error:
            return (), f"{clean_line(own.name, 60)}: {clean_line('; '.join(error.lines()), 300)}"
        warning = "; ".join(machine.warnings)
        return offers_of(
            machine, own, self.name
        ), f"{clean_line(own.name, 60)}: {warning}" if warning else None

    async def create(self, order: Order) -> Pod:
        """The machine as it is; nothing is requested."""
        return self._pod(order.offer.cloud_id, order)

    async def status(self, ids: Sequence[str]) -> tuple[Pod, ...]:
        """They are there: whether they can be used, a login tells."""
        return tuple(self._pod(name) for name in ids)

    async def get(self, pod: str) -> Pod | None:
        """It is there: whether it can be used, a login tells."""
        return self._pod(pod)

    def _pod(self, name: str, order: Order | None = None) -> Pod:
        own = next((machine for machine in self.machines if machine.name == name), OwnedHost(name))
        address = self._address(name)
        offer = order.offer if order else None
        return Pod(
            self.name,
            name,
            order.name if order else name,
            "ready",
            "yours",
            gpu_type=offer.gpu_type if offer else "",
            gpu_count=offer.gpu_count if offer else 0,
            hourly=own.price,
            currency=own.currency,
            addresses=(address,) if address else (),
        )

    async def terminate(self, pod: str) -> None:
        """Nothing: the machine is the user's, and stays."""


_DEEPEST = 8
_FORGES = (
    "github.com",
    "gitlab.com",
    "bitbucket.org",
    "codeberg.org",
    "hf.co",
    "ssh.dev.azure.com",
)
"""Hosts in many SSH configs that give no shell."""


_SSH_PATIENCE = 30.0
"""Seconds that a machine behind SSH may take to answer."""


class SshProvider(OwnedHostsProvider):
    """The user's machines behind SSH."""

    def __init__(
        self,
        machines: Sequence[OwnedHost],
        *,
        connect: Callable[[str], Awaitable[Host]] = open_host,
    ) -> None:
        async def look(name: str) -> Hardware:
            return await inspect(await connect(name))

        super().__init__(
            "ssh", "your own machines", machines, look, address=_address, patience=_SSH_PATIENCE
        )


def _address(name: str) -> Address:
    target = parse_target(name)
    return Address(target.user, target.host, target.port)


def config_names(config: Path | None = None) -> tuple[str, ...]:
    """The names of machines in an SSH config and in what it includes, in their order.

    Patterns and code forges are left out.
    By default the file is `~/.ssh/config`. It need not exist.
    """
    found: dict[str, None] = {}
    for name in _names(config or Path.home() / ".ssh" / "config", 0):
        if not any(mark in name for mark in "*?!") and name.lower() not in _FORGES:
            found.setdefault(name)
    return tuple(found)


def _names(path: Path, depth: int) -> Iterable[str]:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        key, _, rest = line.strip().replace("=", " ", 1).replace("\t", " ").partition(" ")
        if key.lower() not in ("host", "include"):
            continue
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:
            continue
        if key.lower() == "host":
            yield from words
        elif depth < _DEEPEST:
            for pattern in words:
                for name in sorted(glob.glob(str(Path.home() / ".ssh" / typed_path(pattern)))):
                    yield from _names(Path(name), depth + 1)


class LocalProvider(OwnedHostsProvider):
    """This machine.

    `own` is what the user says of it. Without a price it costs nothing: it runs anyway.
    """

    def __init__(self, own: OwnedHost | None = None) -> None:
        own = own or OwnedHost("local")
        stated = OwnedHost("local", 0.0 if own.price is None else own.price, own.currency)
        super().__init__("local", "this machine", (stated,), _inspect_here)


async def _inspect_here(name: str) -> Hardware:
    return await inspect(LocalHost(), python=sys.executable)
