"""The filter language for offers, `4xh100 <6 >=80 -spot eu`, and the list that it leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hudtui.core.compute.choose import OWN_PROVIDERS, OfferChoice, choose, doubtful_prices, price_in_usd, select
from hudtui.core.compute.fit import Fit
from hudtui.core.compute.gpus import has_gpu
from hudtui.core.compute.values import Offer, Query
from hudtui.core.errors import InputError

SORTS = ("price", "gpu-price", "gpu", "count", "vram", "spot", "provider", "region", "stock", "setup", "images")
"""What a list of offers can be sorted by."""

_CONDITIONS: tuple[tuple[re.Pattern[str], str, Callable[[str], Any]], ...] = (
    (re.compile(r"<=?[$€]?(\d+(?:\.\d+)?)"), "max_price", float),
    (re.compile(r">=?(\d+(?:\.\d+)?)(?:gb?)?"), "min_vram", float),
    (re.compile(r"(\d{1,3})[x×]"), "gpu_count", int),
    (re.compile(r"[x×](\d{1,3})"), "gpu_count", int),
)
_STOCKS = {"high": 0, "medium": 1, "low": 2, "": 3, "unavailable": 4}


@dataclass(frozen=True)
class OfferFilter:
    """A filter: conditions, and words that an offer must have or must not have."""

    query: Query = field(default_factory=Query)
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    """Parts without a meaning, such as `<` or `>x`. They filter nothing: the user may still be typing them."""

    def names(self, offer: Offer) -> bool:
        """Return whether the words fit an offer."""
        said = (offer.gpu_type, offer.provider, offer.cloud, offer.cloud_id, offer.region, offer.country, offer.data_center)
        text = " ".join((*said, offer.socket, offer.stock, offer.security, offer.short, "spot" if offer.spot else "")).lower()
        return all(word in text for word in self.words) and not any(word in text for word in self.without)


def parse_filter(text: str) -> OfferFilter:
    """Return the filter that a text means.

    `4x` or `x4` is the number of GPUs, `<6` the highest price in USD an hour, `>=80` the least GB of one GPU, `spot` and `-spot`
    choose between spot machines and others; any other word is part of an offer's GPU, provider, place or stock, or with `-` not.
    """
    query, words, without, incomplete = Query(), [], [], []
    for token in text.lower().split():
        if match := re.fullmatch(r"(\d{1,3})[x×](\D.*)", token):
            query = replace(query, gpu_count=int(match[1]))
            words.append(match[2])
            continue
        for pattern, name, kind in _CONDITIONS:
            if match := pattern.fullmatch(token):
                query = replace(query, **{name: kind(match[1])})
                break
        else:
            if token in ("spot", "-spot", "!spot"):
                query = replace(query, spot=token == "spot")
            elif token[0] in "-!" and len(token) > 1:
                without.append(token[1:])
            elif token[0] not in "<>-!":
                words.append(token)
            else:
                incomplete.append(token)
    return OfferFilter(query, tuple(words), tuple(without), tuple(incomplete))


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
    wanted: OfferFilter,
    sort: str,
    *,
    reverse: bool = False,
    fit: Callable[[Offer], Fit] | None = None,
) -> OfferList:
    """Return the offers that match a filter, sorted.

    `sort` is one of `SORTS`; for `fit` see `select`.
    """
    named = [offer for offer in offers if wanted.names(offer)]
    order = sort if sort in ("gpu-price", "vram", "count", "setup") else "price"
    fits = (*select(named, query=wanted.query, order=order, fit=fit).found, *_plain(named, wanted.query))
    key = _KEYS.get(sort)
    shown = sorted(fits, key=key) if key is not None else list(fits)
    if reverse:
        shown.reverse()
    choice: OfferChoice | None = None
    doubts = doubtful_prices(offers)
    nothing: tuple[str, ...] = ("No offer has these words.",) if offers else ()
    try:
        choice = choose(named, query=wanted.query, order=order, fit=fit, market=offers) if named else None
    except InputError as error:
        doubted = any(offer in doubts for offer in named)
        nothing = tuple(error.lines()) if wanted.query != Query() or doubted else ("No machine with a GPU is on offer.",)
    return OfferList(tuple(shown), len(offers), choice, nothing, doubts)


def _plain(offers: Sequence[Offer], query: Query) -> list[Offer]:
    """Return the machines without a GPU, which `select` leaves out; none if the filter asks for GPUs."""
    if query.gpu_count is not None or query.min_vram is not None:
        return []
    fits = [
        offer
        for offer in offers
        if not has_gpu(offer)
        and query.spot in (None, offer.spot)
        and (query.max_price is None or (offer.price.stated and price_in_usd(offer) <= query.max_price))
    ]
    return sorted(fits, key=lambda offer: (offer.provider not in OWN_PROVIDERS, price_in_usd(offer)))


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
