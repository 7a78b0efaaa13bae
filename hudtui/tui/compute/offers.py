"""The offers as the compute screen shows them: the table, and one offer in full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual.content import Content

from hudtui.core.compute.limits import amount, estimate, money
from hudtui.core.compute.market import PricePoint, ProviderOffers
from hudtui.core.compute.offer_filter import OfferList, who
from hudtui.core.compute.values import Offer
from hudtui.core.text import clean_line
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.widgets.virtual_table import Cell, Column
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
HOURS = 4.0
"""The estimate in the detail is for so many hours."""


def price_of(offer: Offer) -> str:
    """What an hour costs, as the table shows it."""
    if not offer.price.stated:
        return "?"
    return ("~" if offer.price.variable else "") + money(offer.price.hourly, offer.price.currency)


class OfferRows:
    """The rows of the table."""

    def __init__(self, listed: OfferList, remembered: frozenset[str] = frozenset()) -> None:
        self.listed = listed
        self._remembered = remembered

    def __len__(self) -> int:
        return len(self.listed.offers)

    def cells(self, row: int) -> Sequence[Cell]:
        """As the table shows it."""
        offer = self.listed.offers[row]
        chosen = self.listed.choice is not None and self.listed.choice.offer == offer
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
    listed: OfferList,
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
    lines += [Content(""), *why_lines(offer, listed)]
    return Content("\n").join(lines)


def why_lines(offer: Offer, listed: OfferList) -> list[Content]:
    """Why this one is chosen, or which is instead."""
    choice = listed.choice
    if choice is None:
        return [Content.styled(clean_line(line), "$foreground-muted") for line in listed.nothing]
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
