"""Offers, pods and money as values: what can be rented, what was rented, and what it costs.

Money is in the currency that the provider names, times are seconds since the epoch, sizes are in GB as the providers count them.
Words of a provider that are not known here (a new state, a new GPU type) pass through as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

PodStage = Literal["booting", "installing", "ready", "failed", "stopped", "gone", "unknown"]
"""Where a pod is in its life, whatever its provider calls that.

`booting`: no system yet; `installing`: the system is there, its image is not; `ready`: the provider says that it can be used,
which only a real login proves; `failed`: it will never be ready, and may cost money all the same; `stopped`: not running, still
kept and possibly paid for; `gone`: ended, and no more is charged; `unknown`: the provider does not say.
"""

ALIVE: frozenset[PodStage] = frozenset({"booting", "installing", "ready", "failed", "stopped", "unknown"})
"""Everything that may still cost money: all but what is known to be gone."""


@dataclass(frozen=True)
class Price:
    """What an offer costs."""

    hourly: float
    """For the whole offer and one hour: all its GPUs, and the disk where that is charged by itself."""
    currency: str = "USD"
    disk: float = 0.0
    """The part of `hourly` that the disk makes."""
    variable: bool = False
    """It may change while the machine runs."""
    prepaid_hours: float = 0.0
    """So many hours are charged at once, used or not."""
    stated: bool = True
    """False: no price is stated, and 0 means unknown (a machine of the user's own)."""

    def for_hours(self, hours: float) -> float:
        """What that many hours cost, with what is charged up front."""
        return self.hourly * max(hours, self.prepaid_hours)


@dataclass(frozen=True)
class Offer:
    """A machine that can be had now."""

    provider: str
    """Name of the provider that it is got from: `prime`, `ssh`, `local`, `sky`."""
    id: str
    """What makes it that offer and no other, by the provider's own rules; `short` of it is shown."""
    gpu_type: str
    """As the provider spells it, e.g. `H100_80GB`; `CPU_NODE` or empty for a machine without a GPU."""
    gpu_count: int
    price: Price
    gpu_memory: float | None = None
    """GB of one GPU."""
    cloud: str = ""
    """Who owns the machine, where the provider is a broker: `datacrunch`."""
    cloud_id: str = ""
    """The owner's name of the kind of machine; not unique."""
    socket: str = ""
    region: str = ""
    country: str = ""
    data_center: str = ""
    security: str = ""
    spot: bool = False
    """It can be taken away at any moment."""
    stock: str = ""
    """How many there are, in the provider's words: `High`, `Low`."""
    disk_gb: float | None = None
    """What it comes with, or is asked for by default; as are `vcpus` and `memory_gb`."""
    vcpus: int | None = None
    memory_gb: float | None = None
    images: tuple[str, ...] = ()
    """Names of the system images that can be put onto it."""
    setup_minutes: float | None = None
    """How long it takes to be ready, as the provider estimates."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What the provider said, for the request that takes it."""

    @property
    def short(self) -> str:
        """Six characters to name it by."""
        return hashlib.sha256(f"{self.provider} {self.id}".encode()).hexdigest()[:6]

    @property
    def gpu_hour(self) -> float:
        """Price of one GPU for one hour; of the machine, where it has none."""
        return self.price.hourly / max(self.gpu_count, 1)

    @property
    def vram(self) -> float | None:
        """GB of all its GPUs together."""
        return None if self.gpu_memory is None else self.gpu_memory * self.gpu_count

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui gpus --json`; what the provider said is left out."""
        kept = {name: value for name, value in vars(self).items() if name not in ("raw", "price", "images")}
        return {**kept, "short": self.short, "price": vars(self.price), "gpu_hour": self.gpu_hour, "images": list(self.images)}


@dataclass(frozen=True)
class Query:
    """Which offers are asked for. What is None or empty does not matter."""

    gpu_types: tuple[str, ...] = ()
    """Any of these, as the provider spells them; `gpuspec` finds them from what people write."""
    gpu_count: int | None = None
    min_vram: float | None = None
    """GB of one GPU, at least."""
    max_price: float | None = None
    """An hour, for the whole offer."""
    spot: bool | None = None
    regions: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offers:
    """An answer to a query: what was found, and what could not be asked."""

    found: tuple[Offer, ...] = ()
    warnings: tuple[str, ...] = ()
    """Parts that failed, in words. An answer with warnings may lack offers, and is never taken for the whole."""


@dataclass(frozen=True)
class Address:
    """How to log in to a pod."""

    user: str
    host: str
    port: int = 22

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.user}@{host}" + (f":{self.port}" if self.port != 22 else "")


@dataclass(frozen=True)
class Pod:
    """A rented machine, as its provider tells of it."""

    provider: str
    id: str
    name: str
    """What it was called at creation. Unique among ours: it is what tells a pod of ours from another."""
    stage: PodStage
    status: str = ""
    """The provider's own word, or words: `ACTIVE`, `ACTIVE/FINISHED`."""
    gpu_type: str = ""
    gpu_count: int = 0
    hourly: float | None = None
    """Price an hour at the moment; None where the provider does not say."""
    currency: str = "USD"
    created: float | None = None
    terminated: float | None = None
    billed: float | None = None
    """What the provider has charged for it in all, where it says so."""
    estimated: bool = False
    """`billed` is no bill: the provider estimates it by itself."""
    addresses: tuple[Address, ...] = ()
    """Logins, one a node; empty until they are known."""
    cloud: str = ""
    region: str = ""
    spot: bool = False
    progress: int | None = None
    """Percent of the installation."""
    failure: str | None = None
    """Why it failed, in the provider's words."""
    team: str | None = None

    @property
    def alive(self) -> bool:
        """It may cost money."""
        return self.stage in ALIVE

    @property
    def bill(self) -> float | None:
        """What was charged in all; None where there is no bill, or no more than an estimate."""
        return None if self.estimated else self.billed

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui pods --json`."""
        return {**vars(self), "addresses": [str(address) for address in self.addresses], "alive": self.alive}


@dataclass(frozen=True)
class Order:
    """A request for one machine."""

    name: str
    """Unique: `unique_name` makes one."""
    offer: Offer
    image: str | None = None
    """One of the offer's images; None lets the provider choose by its order of preference."""
    disk_gb: float | None = None
    """None: what the offer comes with."""
    ssh_key: str | None = None
    """The provider's id of the public key that may log in; None for the account's primary one."""
    max_hours: float | None = None
    """For providers that end machines by themselves."""


@dataclass(frozen=True)
class Account:
    """Whose money it is."""

    name: str
    """A name or an address that the user knows the account by; never a key."""
    team: str | None = None
    balance: float | None = None
    currency: str = "USD"
    spent: Mapping[str, float] = field(default_factory=dict)
    """By pod id: what was charged so far."""
    estimated: bool = False
    """What was charged is an estimate of the provider's, and no bill."""
    scopes: tuple[str, ...] = ()
    """What the key may do, such as `instances:write`; empty where the provider does not say."""

    def lasts(self, per_hour: float, currency: str = "USD") -> float | None:
        """Hours for which the balance pays `per_hour`; None where it is not told or in another currency, or nothing is paid."""
        if self.balance is None or per_hour <= 0 or currency != self.currency:
            return None
        return max(self.balance, 0.0) / per_hour

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui wallet --json`."""
        return {**vars(self), "spent": dict(self.spent), "scopes": list(self.scopes)}


@dataclass(frozen=True)
class SshKey:
    """A public key that the provider knows."""

    id: str
    name: str
    public_key: str
    primary: bool = False

    def holds(self, public_key: str) -> bool:
        """It is that key, whatever the comments say."""
        return self.public_key.split()[:2] == public_key.split()[:2]
