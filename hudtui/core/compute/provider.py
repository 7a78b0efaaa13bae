"""One protocol for every source of machines.

Prime Intellect, SkyPilot, the user's own hosts, this computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from hudtui.core.compute.values import Account, Offer, Offers, Order, Pod, SshKey
from hudtui.core.errors import InputError, MachineError
from hudtui.core.text import clean_line


class ProviderError(MachineError):
    """A provider refused, or its answer could not be understood."""


class AuthError(ProviderError):
    """The key is missing, wrong, or may not do this."""


class InsufficientFunds(ProviderError):
    """The wallet is empty."""


class OutOfCapacity(ProviderError):
    """The offer is gone, though it was there a moment ago. Nothing was created."""


class OutcomeUnknown(ProviderError):
    """A request may or may not have been carried out: its answer was lost.

    Look before asking again.
    """


class ProvisionFailed(ProviderError):
    """A machine was created and never became usable."""


class PodGone(ProviderError):
    """A machine was taken back, or ended, before it was ready."""


@dataclass(frozen=True)
class Features:
    """What a provider does and what it leaves to hudtui."""

    paid: bool
    """Its pods cost money from `create` until `terminate`, and hudtui ends them. False: the
    machines are the user's own."""
    simulated: bool = False
    """No real money is spent. Shown wherever the provider is."""
    brings_ssh_key: bool = False
    """It puts an SSH key of its own onto its pods: the user's key is not needed."""
    clusters: bool = False
    """It rents several machines as one pod; see `Offer.nodes`."""
    multiplies: bool = False
    """It makes a cluster of any number of one offer's machines; see `Offer.times`."""
    terminates_itself: bool = False
    """Its pods end for good by themselves when their time is over; a pod that is only switched off
    would not."""


@runtime_checkable
class Provider(Protocol):
    """A source of machines.

    Reading methods may be called at any time and repeat themselves after passing faults; those that
    change something are never repeated blindly. All raise `ProviderError` (or a subclass) in words
    for the user; none lets a key out.
    """

    @property
    def name(self) -> str:
        """Short and fixed: `prime`, `ssh`, `local`, `sky`."""
        ...

    @property
    def title(self) -> str:
        """For people: `Prime Intellect`, or `Prime (simulated)`."""
        ...

    @property
    def endpoint(self) -> str:
        """Address of the service, so that a simulator's pods are never taken for real ones.

        Empty where there is only one.
        """
        ...

    @property
    def features(self) -> Features:
        """What it does and what it leaves to hudtui."""
        ...

    def terminate_url(self, pod: str) -> str | None:
        """The address to which a pod's own watchdog sends a DELETE with its key.

        None where that is not possible.
        """
        ...

    async def offers(self) -> Offers:
        """What can be had now, all of it: `choose` applies conditions."""
        ...

    async def create(self, order: Order) -> Pod:
        """Rent a machine. At most one request; see `acquire` for doing it safely.

        Raises:
            OutOfCapacity: It is taken, and nothing was created.
            InsufficientFunds: Nothing was created.
            OutcomeUnknown: Something may have been created under the order's name.
            ProviderError: It was refused; nothing was created.
            InputError: The offer cannot be had as it was ordered; nothing was sent.
        """
        ...

    async def pods(self) -> tuple[Pod, ...]:
        """All that the account can see and that are not gone."""
        ...

    async def find(self, name: str) -> Pod | None:
        """The pod that was ordered under a name, also while its order still waits for the provider.

        None: there is no such pod, and this computer and the provider are at work on no such order
        that is known to them.
        """
        ...

    async def status(self, ids: Sequence[str]) -> tuple[Pod, ...]:
        """The state of many at once.

        Ids that are not in the answer are unknown there, which is not the same as gone.
        """
        ...

    async def get(self, pod: str) -> Pod | None:
        """Everything about one; None where the provider knows no such id."""
        ...

    async def terminate(self, pod: str) -> None:
        """Ask for its end. Harmless when it has ended.

        Verified by `pods`, `get` and `history`, not by the answer.
        """
        ...

    async def history(self) -> tuple[Pod, ...]:
        """Those that have ended lately, with what they cost, the newest first."""
        ...

    async def account(self) -> Account:
        """Whose money it is, and how much there is."""
        ...

    async def keys(self) -> tuple[SshKey, ...]:
        """Public keys that may log in to new machines."""
        ...

    async def register_key(self, name: str, public_key: str) -> SshKey:
        """Make a public key known, and the primary one; a known key is not added again."""
        ...

    async def close(self) -> None:
        """Let connections go."""
        ...


class ListedProvider:
    """The usual answers of a provider that has one list of pods, and no keys of its own.

    What derives from it has `name`, `title`, `features`, `offers`, `create`, `pods` and
    `terminate`.
    """

    title: str
    endpoint = ""

    async def pods(self) -> tuple[Pod, ...]:
        """None: nothing is rented."""
        return ()

    async def find(self, name: str) -> Pod | None:
        """The pod of that name in the list."""
        return next((pod for pod in await self.pods() if pod.name == name), None)

    async def status(self, ids: Sequence[str]) -> tuple[Pod, ...]:
        """Those in the list."""
        return tuple(pod for pod in await self.pods() if pod.id in ids)

    async def get(self, pod: str) -> Pod | None:
        """The one in the list."""
        return next((one for one in await self.pods() if one.id == pod), None)

    def terminate_url(self, pod: str) -> str | None:
        """None: a machine cannot end itself."""
        return None

    async def history(self) -> tuple[Pod, ...]:
        """None is remembered."""
        return ()

    async def account(self) -> Account:
        """The provider itself; no money is counted."""
        return Account(self.title)

    async def keys(self) -> tuple[SshKey, ...]:
        """None: keys are on the machines themselves."""
        return ()

    async def register_key(self, name: str, public_key: str) -> SshKey:
        """Not possible.

        Raises:
            ProviderError: Always; it says what to do instead.
        """
        raise ProviderError(
            f"{self.title} has no list of keys",
            fix="Put a key onto a machine with: ssh-copy-id USER@HOST",
        )

    async def close(self) -> None:
        """Nothing is held open."""


def find_offer(offers: Sequence[Offer], name: str) -> Offer | None:
    """The offer that is called that: by its whole id, or its six characters.

    Raises:
        InputError: Several offers have those six characters: which one is meant, its id says.
    """
    found = [offer for offer in offers if name == offer.id] or [
        offer for offer in offers if name == offer.short
    ]
    if len({(offer.provider, offer.id) for offer in found}) > 1:
        raise InputError(
            f"{clean_line(name, 60)} means several offers",
            fix=f"Name one by its id: {', '.join(clean_line(offer.id, 120) for offer in found)}.",
        )
    return found[0] if found else None
