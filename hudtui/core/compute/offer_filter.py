"""The fields of offers for filters, and the list that a filter leaves.

A filter is such as `gpus:h100 count:=4 price:<6 -spot eu`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hudtui.core.compute.choose import (
    OWN_PROVIDERS,
    OfferChoice,
    choose,
    doubtful_prices,
    price_in_usd,
    select,
)
from hudtui.core.compute.fit import Fit
from hudtui.core.compute.gpus import has_gpu
from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.row_filter import Fields, RowFilter

SORTS = (
    "price",
    "gpu-price",
    "gpu",
    "count",
    "vram",
    "spot",
    "provider",
    "region",
    "stock",
    "setup",
    "images",
)
"""What a list of offers can be sorted by."""

_STOCKS = {"high": 0, "medium": 1, "low": 2, "": 3, "unavailable": 4}


@dataclass(frozen=True)
class OfferList:
    """The offers that match a filter, in order, and the offer that would be rented."""

    offers: tuple[Offer, ...] = ()
    total: int = 0
    """How many offers there are without the filter."""
    choice: OfferChoice | None = None
    nothing: tuple[str, ...] = ()
    """Why no offer fits, for people."""
    doubts: Mapping[Offer, str] = field(default_factory=dict)
    """The offers with doubtful prices, and why; see `choose.doubtful_prices`."""


def arrange(
    offers: Sequence[Offer],
    wanted: RowFilter[Offer],
    sort: str,
    *,
    reverse: bool = False,
    fit: Callable[[Offer], Fit] | None = None,
) -> OfferList:
    """Return the offers that match a filter, sorted.

    `sort` is one of `SORTS`; for `fit` see `select`.
    """
    named = [offer for offer in offers if wanted.matches(offer)]
    order = sort if sort in ("gpu-price", "vram", "count", "setup") else "price"
    bare = sorted((offer for offer in named if not has_gpu(offer)), key=_own_first)
    fits = (*select(named, order=order, fit=fit).found, *bare)
    key = _KEYS.get(sort)
    shown = sorted(fits, key=key) if key is not None else list(fits)
    if reverse:
        shown.reverse()
    choice: OfferChoice | None = None
    doubts = doubtful_prices(offers)
    nothing: tuple[str, ...] = ("No offer matches the filter.",) if offers else ()
    try:
        choice = choose(named, order=order, fit=fit, market=offers) if named else None
    except InputError as error:
        doubted = any(offer in doubts for offer in named)
        nothing = tuple(error.lines()) if doubted else ("No machine with a GPU is on offer.",)
    return OfferList(tuple(shown), len(offers), choice, nothing, doubts)


def _own_first(offer: Offer) -> tuple[bool, float]:
    return offer.provider not in OWN_PROVIDERS, price_in_usd(offer)


_KEYS: dict[str, Callable[[Offer], Any]] = {
    "gpu": lambda offer: (offer.gpu_type, offer.gpu_count, price_in_usd(offer)),
    "spot": lambda offer: (not offer.spot, not offer.price.stated, price_in_usd(offer)),
    "provider": lambda offer: (who(offer), not offer.price.stated, price_in_usd(offer)),
    "region": lambda offer: (offer.region or offer.country or "~", price_in_usd(offer)),
    "stock": lambda offer: (_STOCKS.get(offer.stock.lower(), 3), price_in_usd(offer)),
    "images": lambda offer: (-len(offer.images), price_in_usd(offer)),
}


def who(offer: Offer) -> str:
    """Return whose machine it is: `datacrunch`, `this machine`, the name of one behind SSH."""
    if offer.provider == "local":
        return "this machine"
    return offer.cloud_id if offer.provider == "ssh" else offer.cloud or offer.provider


def _words(*values: str) -> str | None:
    return " ".join(filter(None, values)) or None


FIELDS: Fields[Offer] = {
    "gpus": lambda offer: offer.gpu_type or None,
    "count": lambda offer: offer.gpu_count or None,
    "vram": lambda offer: offer.gpu_memory,
    "price": lambda offer: price_in_usd(offer) if offer.price.stated else None,
    "spot": lambda offer: "spot" if offer.spot else None,
    "provider": lambda offer: _words(who(offer), offer.provider, offer.cloud, offer.cloud_id),
    "region": lambda offer: _words(offer.region, offer.country, offer.data_center),
    "stock": lambda offer: offer.stock or None,
    "socket": lambda offer: _words(offer.socket, offer.security),
    "offer": lambda offer: offer.short,
}
"""Fields of an offer by name: GB of one GPU as `vram`, USD an hour for the machine as `price`. See
`core.row_filter`."""
