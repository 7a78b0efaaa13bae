"""The offers of all providers as they are known at a moment.

What was answered, what failed, what is still only remembered.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hudtui.core.compute.provider import Provider
from hudtui.core.compute.values import Offer, Offers
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.files import write_atomic
from hudtui.core.plain import from_plain, to_plain

_VERSION = 1
UNCONFIRMED = "not confirmed"
"""The stock of an offer that was there a moment ago, and that an answer with failures lacked."""


@dataclass(frozen=True)
class ProviderOffers:
    """What is known of one provider's offers."""

    provider: str
    title: str
    offers: tuple[Offer, ...] = ()
    at: float | None = None
    """When it answered last, in seconds since the epoch; None: never."""
    asking: bool = False
    """An answer is on its way."""
    remembered: bool = False
    """The offers are of an earlier session: they can be shown, but not ordered."""
    warnings: tuple[str, ...] = ()
    """What failed when it was asked last. What was known before is among the offers for one answer
    more; see `unconfirmed`."""
    unconfirmed: frozenset[str] = frozenset()
    """Ids of offers that the last answer did not have, and may have lacked. What the next one lacks
    as well is gone."""


@dataclass(frozen=True)
class Market:
    """What is known of all of them."""

    parts: Mapping[str, ProviderOffers] = field(default_factory=dict)
    """By the provider's name."""

    @property
    def offers(self) -> tuple[Offer, ...]:
        return tuple(offer for part in self.parts.values() for offer in part.offers)

    @property
    def asking(self) -> tuple[str, ...]:
        """Titles of those whose answer is on its way."""
        return tuple(part.title for part in self.parts.values() if part.asking)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What failed, each with the provider's title."""
        return tuple(
            warning if warning.startswith(part.title) else f"{part.title}: {warning}"
            for part in self.parts.values()
            for warning in part.warnings
        )

    @property
    def oldest(self) -> float | None:
        """When the oldest of what is shown was heard; None while nothing is."""
        return min(
            (part.at for part in self.parts.values() if part.offers and part.at is not None),
            default=None,
        )

    @property
    def remembered(self) -> bool:
        """Some of what is shown is of an earlier session."""
        return any(part.remembered and part.offers for part in self.parts.values())

    def offers_of_provider(self, offer: Offer) -> ProviderOffers | None:
        """The part that an offer is in."""
        return self.parts.get(offer.provider)


async def fetch_offers(
    market: Market, providers: Mapping[str, Provider], now: Callable[[], float]
) -> AsyncGenerator[Market, None]:
    """Ask all providers side by side.

    Yields:
        The market as it is known then: at once, with everything on its way, and after each answer.
            Of a provider that
        fails, the earlier offers stay, with a warning.
    """
    parts = {
        name: market.parts.get(name, ProviderOffers(name, provider.title))
        for name, provider in providers.items()
    }
    parts = {name: replace(part, asking=True) for name, part in parts.items()}
    yield Market(dict(parts))
    tasks = {asyncio.ensure_future(provider.offers()): name for name, provider in providers.items()}
    waiting = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=lambda one: tasks[one]):
                name = tasks[task]
                parts[name] = _after(parts[name], task, now())
            yield Market(dict(parts))
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _after(before: ProviderOffers, task: asyncio.Future[Offers], now: float) -> ProviderOffers:
    error = task.exception()
    if error is None:
        answer = task.result()
        kept: tuple[Offer, ...] = ()
        if answer.warnings and not before.remembered:
            # Such an answer may lack offers: what was there a moment ago is not taken for gone, nor
            # for as it was.
            gone = {offer.id for offer in answer.found} | before.unconfirmed
            kept = tuple(
                replace(offer, stock=UNCONFIRMED) for offer in before.offers if offer.id not in gone
            )
        return replace(
            before,
            offers=answer.found + kept,
            at=now,
            asking=False,
            remembered=False,
            warnings=answer.warnings,
            unconfirmed=frozenset(offer.id for offer in kept),
        )
    if not isinstance(error, HudtuiError):
        raise error
    return replace(before, asking=False, warnings=(error.lines()[0],))


def save_cache(market: Market, path: Path) -> None:
    """Keep the providers' answers for the next start and for completion in a shell.

    The next session shows them in its first moment.

    Offers are kept by the provider's title: a simulated provider is another one. Those of providers
    that are not in the market stay as they are.

    Raises:
        InputError: The file cannot be written.
    """
    kept = _cached(path) | {
        part.title: {"at": part.at, "offers": [to_plain(offer.kept) for offer in part.offers]}
        for part in market.parts.values()
        if part.at is not None
    }
    write_atomic(
        path,
        json.dumps({"version": _VERSION, "providers": kept}, separators=(",", ":")),
        mode=0o600,
    )


def _cached(path: Path) -> dict[str, Any]:
    """Return what the file holds, by the title of the provider."""
    try:
        data = json.loads(path.read_bytes())
        found = data["providers"] if data["version"] == _VERSION else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def cached_offers(path: Path) -> tuple[Offer, ...]:
    """Return all offers that were kept, whoever made them.

    Offers that cannot be read are left out.
    """
    found = []
    for part in _cached(path).values():
        with contextlib.suppress(KeyError, TypeError, ValueError, InputError):
            found += from_plain(part["offers"], list[Offer])
    return tuple(found)


def load_cache(path: Path, providers: Iterable[Provider]) -> Market:
    """What was kept of these providers; nothing of those whose offers cannot be read."""
    kept = _cached(path)
    parts = {}
    for provider in providers:
        part = ProviderOffers(provider.name, provider.title)
        try:
            one = kept[provider.title]
            offers = from_plain(one["offers"], tuple[Offer, ...])
            part = replace(part, offers=offers, at=float(one["at"]), remembered=True)
        except (KeyError, TypeError, ValueError, InputError):
            pass
        parts[provider.name] = part
    return Market(parts)
