"""Offers, pods and money as values: what can be rented, what was rented, and what it costs.

Money is in the currency that the provider names, times are seconds since the epoch, sizes are in GB
as the providers count them. A provider's unknown words (a new state, a new GPU type) are kept
unchanged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

PodStage = Literal["booting", "installing", "ready", "failed", "stopped", "gone", "unknown"]
"""The stage of a pod's life, the same words for all providers.

`booting`: no system yet; `installing`: the system is there, its image is not; `ready`: the provider
says that it can be used, which only a real login proves; `failed`: it will never be ready, and may
cost money all the same; `stopped`: not running, still kept and possibly paid for; `gone`: ended,
and no more is charged; `unknown`: the provider does not say.
"""

ALIVE: frozenset[PodStage] = frozenset(
    {"booting", "installing", "ready", "failed", "stopped", "unknown"}
)
"""Stages in which a pod may still cost money: all except `gone`."""


@dataclass(frozen=True)
class Price:
    """What an offer costs."""

    hourly: float
    """Price per hour of the whole offer: all GPUs, and the disk if it is charged separately."""
    currency: str = "USD"
    disk: float = 0.0
    """The disk's part of `hourly`."""
    variable: bool = False
    """The price may change while the machine runs."""
    prepaid_hours: float = 0.0
    """Hours charged up front, used or not."""
    stated: bool = True
    """False: no price is stated, and 0 means unknown (a machine of the user's own)."""

    def for_hours(self, hours: float) -> float:
        """Return the cost of that many hours, including prepaid hours."""
        return self.hourly * max(hours, self.prepaid_hours)


@dataclass(frozen=True)
class Offer:
    """A machine that can be rented now."""

    provider: str
    """Name of the provider: `prime`, `ssh`, `local`, `sky`."""
    id: str
    """Unique id by the provider's rules; the user sees `short`."""
    gpu_type: str
    """As the provider spells it, e.g. `H100_80GB`; `CPU_NODE` or empty for a machine without a
    GPU."""
    gpu_count: int
    price: Price
    gpu_memory: float | None = None
    """GB of one GPU."""
    cloud: str = ""
    """Owner of the machine if the provider is a broker: `datacrunch`."""
    cloud_id: str = ""
    """The owner's name of the kind of machine; not unique."""
    socket: str = ""
    region: str = ""
    country: str = ""
    data_center: str = ""
    security: str = ""
    spot: bool = False
    """The provider may end the machine at any moment."""
    stock: str = ""
    """Availability, in the provider's words: `High`, `Low`."""
    disk_gb: float | None = None
    """Disk in GB by default; `vcpus` and `memory_gb` are defaults, too."""
    vcpus: int | None = None
    memory_gb: float | None = None
    images: tuple[str, ...] = ()
    """Names of the available system images."""
    setup_minutes: float | None = None
    """The provider's estimate of the setup time, in minutes."""
    nodes: int = 1
    """Machines that are rented as one: a cluster has several. Price and GPUs are those of all."""
    nodes_guessed: bool = False
    """The provider does not say how many machines there are: `nodes` follows from the GPUs."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The provider's own data, needed to order the offer."""

    @property
    def short(self) -> str:
        """Return the six characters that name the offer to the user."""
        return hashlib.sha256(f"{self.provider} {self.id}".encode()).hexdigest()[:6]

    @property
    def kept(self) -> Offer:
        """Return the offer as hudtui writes it down.

        Without the provider's own data, and so not to be ordered.
        """
        return replace(self, raw={})

    @property
    def node_gpus(self) -> int:
        """Return the GPUs of each machine of the offer."""
        return self.gpu_count // self.nodes

    def times(self, nodes: int) -> Offer:
        """Return so many of this machine, as a cluster that is rented as one."""
        price = self.price
        hourly, disk = round(price.hourly * nodes, 6), round(price.disk * nodes, 6)
        return replace(
            self,
            gpu_count=self.gpu_count * nodes,
            nodes=nodes,
            price=replace(price, hourly=hourly, disk=disk),
        )

    @property
    def spread(self) -> str:
        """Return the machines of a cluster in words, ` on 2 machines`; empty for one machine."""
        return f" on {self.nodes} machines" if self.nodes > 1 else ""

    @property
    def gpu_hour(self) -> float:
        """Return the hourly price per GPU; of the whole machine if it has no GPU."""
        return self.price.hourly / max(self.gpu_count, 1)

    @property
    def vram(self) -> float | None:
        """Return the memory of all GPUs together, in GB."""
        return None if self.gpu_memory is None else self.gpu_memory * self.gpu_count

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui pods offers --json`; what the provider said is left out."""
        kept = {
            name: value
            for name, value in vars(self).items()
            if name not in ("raw", "price", "images")
        }
        return {
            **kept,
            "short": self.short,
            "price": vars(self.price),
            "gpu_hour": self.gpu_hour,
            "images": list(self.images),
        }


@dataclass(frozen=True)
class Query:
    """Conditions for offers. None and empty values match every offer."""

    gpu_types: tuple[str, ...] = ()
    """Any of these types, in the provider's spelling; `gpus.resolve` finds them from the user's
    spelling."""
    gpu_count: int | None = None
    min_vram: float | None = None
    """Least memory of one GPU, in GB."""
    max_price: float | None = None
    """Highest price per hour of the whole offer."""
    spot: bool | None = None
    regions: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ()
    nodes: int | None = None
    """Machines that are rented as one; counts of GPUs are those of each of them then."""


@dataclass(frozen=True)
class Offers:
    """The answer to a query: the offers, and warnings about failed requests."""

    found: tuple[Offer, ...] = ()
    warnings: tuple[str, ...] = ()
    """Sentences about failed requests. An answer with warnings may lack offers."""


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
    """A rented machine, as reported by its provider."""

    provider: str
    id: str
    name: str
    """The name given at creation. It is unique, and identifies the pods that hudtui rented."""
    stage: PodStage
    status: str = ""
    """The provider's own word, or words: `ACTIVE`, `ACTIVE/FINISHED`."""
    gpu_type: str = ""
    gpu_count: int = 0
    socket: str = ""
    hourly: float | None = None
    """Current price per hour; None if the provider does not state it."""
    currency: str = "USD"
    created: float | None = None
    terminated: float | None = None
    billed: float | None = None
    """Total charge so far; None if the provider does not state it."""
    estimated: bool = False
    """`billed` is the provider's estimate, not a bill."""
    addresses: tuple[Address, ...] = ()
    """Logins, one per node; empty until they are known."""
    cloud: str = ""
    region: str = ""
    spot: bool = False
    progress: int | None = None
    """Percent of the installation."""
    failure: str | None = None
    """Why it failed, in the provider's words."""
    team: str | None = None
    ending: bool = False
    """The provider is at work on its end. It may cost money until it has ended."""

    @property
    def alive(self) -> bool:
        """Return whether the pod may still cost money."""
        return self.stage in ALIVE

    @property
    def bill(self) -> float | None:
        """Return the total bill; None without a bill, or with only an estimate."""
        return None if self.estimated else self.billed

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui pods --json`."""
        return {
            **vars(self),
            "addresses": [str(address) for address in self.addresses],
            "alive": self.alive,
        }


@dataclass(frozen=True)
class Order:
    """A request for one machine."""

    name: str
    """Unique: `unique_name` makes one."""
    offer: Offer
    image: str | None = None
    """One of the offer's images; None lets the provider choose by its order of preference."""
    disk_gb: float | None = None
    """Disk in GB; None for the offer's default."""
    ssh_key: str | None = None
    """The provider's id of the public key that may log in; None for the account's primary one."""
    max_hours: float | None = None
    """Hours after which the provider ends the machine, for providers that can."""


@dataclass(frozen=True)
class Account:
    """A provider's account and its balance."""

    name: str
    """A name or an address that the user knows the account by; never a key."""
    team: str | None = None
    balance: float | None = None
    currency: str = "USD"
    spent: Mapping[str, float] = field(default_factory=dict)
    """Charges so far, by pod id."""
    estimated: bool = False
    """`spent` holds the provider's estimates, not bills."""
    scopes: tuple[str, ...] = ()
    """Permissions of the key, such as `instances:write`; empty if the provider does not state
    them."""

    def lasts(self, per_hour: float, currency: str = "USD") -> float | None:
        """Return the hours for which the balance pays `per_hour`.

        None if unknown, in another currency, or `per_hour` is 0.
        """
        if self.balance is None or per_hour <= 0 or currency != self.currency:
            return None
        return max(self.balance, 0.0) / per_hour

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui pods wallet --json`."""
        return {**vars(self), "spent": dict(self.spent), "scopes": list(self.scopes)}


@dataclass(frozen=True)
class SshKey:
    """A public key that the provider knows."""

    id: str
    name: str
    public_key: str
    primary: bool = False

    def holds(self, public_key: str) -> bool:
        """Return whether this is the same key; comments are ignored."""
        return self.public_key.split()[:2] == public_key.split()[:2]
