"""The offers as the compute screen shows them: what is asked for in the filter, the table, and one offer in full."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from textual.content import Content

from hudtui.core.compute.choose import OWN_PROVIDERS, OfferChoice, choose, price_in_usd, select
from hudtui.core.compute.gpus import has_gpu
from hudtui.core.compute.limits import amount, estimate, money
from hudtui.core.compute.market import PricePoint, ProviderOffers
from hudtui.core.compute.values import Offer, Query
from hudtui.core.errors import InputError
from hudtui.core.text import clean_line
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.widgets.task_table import Cell, Column
from hudtui.tui.widgets.words import ago

COLUMNS = (
    Column("chosen", "", 1),
    Column("gpu", "GPU", 12, flexible=3),
    Column("count", "×", 3),
    Column("vram", "VRAM", 6),
    Column("price", "price/h", 9),
    Column("gpu-price", "GPU/h", 8, from_width=66),
    Column("spot", "spot", 4),
    Column("provider", "provider", 12, flexible=2),
    Column("region", "region", 10, flexible=1, from_width=78),
    Column("stock", "stock", 9, from_width=89),
    Column("setup", "setup", 6, from_width=95),
    Column("images", "images", 6, from_width=102),
)
SORTS = ("price", "gpu-price", "gpu", "count", "vram", "spot", "provider", "region", "stock", "setup", "images")
HOURS = 4.0
"""The estimate in the detail is for so many hours."""

_CONDITIONS: tuple[tuple[re.Pattern[str], str, Callable[[str], Any]], ...] = (
    (re.compile(r"<=?[$€]?(\d+(?:\.\d+)?)"), "max_price", float),
    (re.compile(r">=?(\d+(?:\.\d+)?)(?:gb?)?"), "min_vram", float),
    (re.compile(r"(\d{1,3})[x×]"), "gpu_count", int),
    (re.compile(r"[x×](\d{1,3})"), "gpu_count", int),
)
_STOCKS = {"high": 0, "medium": 1, "low": 2, "": 3, "unavailable": 4}


@dataclass(frozen=True)
class OfferFilter:
    """What is asked for: conditions, and words that an offer must have or must not have."""

    query: Query = field(default_factory=Query)
    words: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def names(self, offer: Offer) -> bool:
        """Whether the words fit an offer."""
        said = (offer.gpu_type, offer.provider, offer.cloud, offer.cloud_id, offer.region, offer.country, offer.data_center)
        text = " ".join((*said, offer.socket, offer.stock, offer.security, offer.short, "spot" if offer.spot else "")).lower()
        return all(word in text for word in self.words) and not any(word in text for word in self.without)


def parse_wish(text: str) -> OfferFilter:
    """The filter as typed: `4xh100 <6 >=80 -spot eu`."""
    query, words, without = Query(), [], []
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
    return OfferFilter(query, tuple(words), tuple(without))


@dataclass(frozen=True)
class Shelf:
    """The offers that match, in the order of the table, and the offer that would be rented."""

    offers: tuple[Offer, ...] = ()
    total: int = 0
    """All that there are."""
    choice: OfferChoice | None = None
    nothing: tuple[str, ...] = ()
    """Why none fits, in words."""


def arrange(offers: Sequence[Offer], wish: OfferFilter, sort: str, *, reverse: bool = False) -> Shelf:
    """Filter and sort.

    Args:
        offers: All of them.
        wish: What is asked for.
        sort: One of `SORTS`.
        reverse: The other way round.
    """
    named = [offer for offer in offers if wish.names(offer)]
    order = sort if sort in ("gpu-price", "vram", "count", "setup") else "price"
    fits = (*select(named, query=wish.query, order=order).found, *_plain(named, wish.query))
    key = _KEYS.get(sort)
    shown = sorted(fits, key=key) if key is not None else list(fits)
    if reverse:
        shown.reverse()
    choice: OfferChoice | None = None
    nothing: tuple[str, ...] = ("No offer has these words.",) if offers else ()
    try:
        choice = choose(named, query=wish.query, order=order) if named else None
    except InputError as error:
        nothing = tuple(error.lines()) if wish.query != Query() else ("No machine with a GPU is on offer.",)
    return Shelf(tuple(shown), len(offers), choice, nothing)


def _plain(offers: Sequence[Offer], query: Query) -> list[Offer]:
    """Machines without a GPU, the first of them: listed, though a filter for GPUs leaves them out."""
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
    """Whose machine it is: `datacrunch`, `this machine`, the name of one behind SSH."""
    if offer.provider == "local":
        return "this machine"
    return offer.cloud_id if offer.provider == "ssh" else offer.cloud or offer.provider


def price_of(offer: Offer) -> str:
    """What an hour costs, as the table shows it."""
    if not offer.price.stated:
        return "?"
    return ("~" if offer.price.variable else "") + money(offer.price.hourly, offer.price.currency)


class OfferRows:
    """The rows of the table."""

    def __init__(self, shelf: Shelf, remembered: frozenset[str] = frozenset()) -> None:
        self.shelf = shelf
        self._remembered = remembered

    def __len__(self) -> int:
        return len(self.shelf.offers)

    def cells(self, row: int) -> Sequence[Cell]:
        """As the table shows it."""
        offer = self.shelf.offers[row]
        chosen = self.shelf.choice is not None and self.shelf.choice.offer == offer
        style = "table--muted" if offer.provider in self._remembered else ""
        low = offer.stock.lower() in ("low", "unavailable")
        return (
            ("★", "table--ok") if chosen else "",
            (offer.gpu_type or "no GPU", style),
            (str(offer.gpu_count or "–"), style),
            (f"{amount(offer.gpu_memory)}G" if offer.gpu_memory else "–", style),
            (price_of(offer), style),
            (money(offer.gpu_hour, offer.price.currency) if offer.price.stated and offer.gpu_count else "–", style),
            ("spot", "table--warning") if offer.spot else "",
            (who(offer), style),
            (offer.region or offer.country or "–", style),
            (offer.stock or "–", "table--warning" if low else style),
            (f"{amount(offer.setup_minutes)}m" if offer.setup_minutes is not None else "–", style),
            (str(len(offer.images)) if offer.images else "–", style),
        )


def offer_lines(
    offer: Offer,
    shelf: Shelf,
    part: ProviderOffers | None,
    history: Sequence[PricePoint],
    now: float,
    *,
    simulated: bool,
    width: int,
) -> Content:
    """One offer in full."""
    price = offer.price
    lines: list[Content] = []
    gpus = f"{offer.gpu_count} × {offer.gpu_type}" if offer.gpu_count else offer.gpu_type or "no GPU"
    title: list[Any] = [(clean_line(gpus, 60), "bold $primary"), (f"  {offer.short}", "$foreground-muted")]
    lines.append(Content.assemble(*title, ("  (simulated)", "bold $warning") if simulated else ""))
    if part is not None and part.remembered and part.at is not None:
        lines.append(
            Content.styled(f"! Remembered from {ago(now - part.at)}; it cannot be ordered before the answer.", "$warning")
        )
    lines.append(Content(""))

    def fact(name: str, value: str, style: str = "") -> None:
        if value:
            lines.append(Content.assemble((f"{name:<9}", "$foreground-muted"), (clean_line(value), style)))

    if price.stated:
        fact("price", f"{price_of(offer)} an hour for all of it", "bold")
        if offer.gpu_count > 1:
            fact("", f"{money(offer.gpu_hour, price.currency)} for one GPU and hour")
    else:
        fact("price", "nobody has said one: it is your own")
    fact("spot", "it can be taken away at any moment" if offer.spot else "", "$warning")
    if offer.gpu_memory:
        together = f" each, {amount(offer.vram or 0.0)} together" if offer.gpu_count > 1 else ""
        fact("VRAM", f"{amount(offer.gpu_memory)} GB{together}")
    sizes = [f"{offer.vcpus} vCPUs" if offer.vcpus else "", f"{amount(offer.memory_gb)} GB memory" if offer.memory_gb else ""]
    sizes.append(f"{amount(offer.disk_gb)} GB disk" if offer.disk_gb else "")
    fact("machine", ", ".join(filter(None, (*sizes, offer.socket))))
    fact("provider", offer.provider + (f", {offer.cloud}" if offer.cloud and offer.cloud != offer.provider else ""))
    fact("where", ", ".join(filter(None, (offer.region, offer.country, offer.data_center, offer.security))))
    fact("stock", offer.stock)
    fact("setup", f"about {amount(offer.setup_minutes)} min" if offer.setup_minutes is not None else "")
    fact("images", ", ".join(offer.images))
    if price.stated and (price.hourly or offer.provider not in ("local", "ssh")):
        lines += [Content(""), Content.styled(f"What {amount(HOURS)} hours cost", "bold $primary")]
        lines.append(Content(clean_line(estimate(offer, HOURS).text + ".")))
    if history:
        lines += [Content(""), *_history(history, offer, now, width)]
    lines += [Content(""), *why_lines(offer, shelf)]
    return Content("\n").join(lines)


def why_lines(offer: Offer, shelf: Shelf) -> list[Content]:
    """Why this one is chosen, or which is instead."""
    choice = shelf.choice
    if choice is None:
        return [Content.styled(clean_line(line), "$foreground-muted") for line in shelf.nothing]
    if choice.offer == offer:
        lines = [Content.styled("★ Why this one is chosen", "bold $success")]
        return lines + [Content(clean_line(reason)) for reason in choice.reasons]
    best = choice.offer
    gpus = f"{best.gpu_count}x {best.gpu_type}" if best.gpu_count else best.gpu_type or "no GPU"
    words = f"★ is {gpus} of {who(best)} at {price_of(best)}/h."
    if offer.price.stated and best.price.stated and offer.price.currency == best.price.currency:
        more = offer.price.hourly - best.price.hourly
        words += f" This one costs {money(abs(more), best.price.currency)}/h {'more' if more >= 0 else 'less'}."
    return [Content.styled("Why another one is chosen", "bold $primary"), Content(clean_line(words))]


def _history(history: Sequence[PricePoint], offer: Offer, now: float, width: int) -> list[Content]:
    prices = [price for _, price in history]
    low, high, currency = min(prices), max(prices), offer.price.currency
    span = money(low, currency) if low == high else f"{money(low, currency)} to {money(high, currency)}"
    times = "once" if len(prices) == 1 else f"{len(prices)} times"
    return [
        Content.styled("Price of one GPU and hour, the lowest of its kind", "bold $primary"),
        Content.assemble((sparkline(prices, max(min(width - 2, 48), 8)), "$accent"), f"  {span}"),
        Content.styled(f"seen {times}, {'' if len(prices) == 1 else 'first '}{ago(now - history[0][0])}", "$foreground-muted"),
    ]
