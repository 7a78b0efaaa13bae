"""The pane with the offers, and one offer in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from textual.content import Content

from hudtui.core.compute.fit import Fit, FitState
from hudtui.core.compute.limits import amount, estimate
from hudtui.core.compute.market import ProviderOffers
from hudtui.core.compute.offer_filter import FIELDS, SORTS, OfferList, arrange, who
from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.row_filter import parse_filter
from hudtui.core.text import clean_line, money
from hudtui.tui.widgets.hanging import fact_lines
from hudtui.tui.widgets.table_pane import TablePane
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows
from hudtui.tui.widgets.words import ago

if TYPE_CHECKING:
    from hudtui.core.compute.market import Market
    from hudtui.core.runs.demand import Demand

COLUMNS = (
    Column("chosen", "", 1),
    Column("gpu", "GPU", 12, flexible=3),
    Column("count", "n", 3, align="right"),
    Column("vram", "VRAM", 6, align="right"),
    Column("price", "price/h", 9, align="right"),
    Column("gpu-price", "GPU/h", 8, from_width=66, align="right"),
    Column("spot", "spot", 4),
    Column("provider", "provider", 12, flexible=2),
    Column("region", "region", 10, flexible=1, from_width=78),
    Column("stock", "stock", 9, from_width=89),
    Column("setup", "setup", 6, from_width=95, align="right"),
    Column("images", "images", 6, from_width=102, align="right"),
)
FITS = Column("fits", "fits", 14)
"""Whether the GPUs hold the model that will be trained; shown while that is known."""
HOURS = 4.0
"""Hours of the estimate in the detail."""


_FIT_STYLES: Mapping[FitState, str] = {
    "fits": "table--ok",
    "tight": "table--warning",
    "unknown": "table--muted",
    "short": "table--error",
    "unable": "table--error",
}


def price_of(offer: Offer) -> str:
    """What an hour costs, as the table shows it."""
    if not offer.price.stated:
        return "?"
    return ("~" if offer.price.variable else "") + money(offer.price.hourly, offer.price.currency)


class OffersPane(TablePane[Offer]):
    """All offers. The cursor keeps its offer; until the user moves it, it follows the best one."""

    BORDER_TITLE, NOUN = "Offers", "offer"
    HELP = (
        "/ filters: gpus:h100 count:=4 price:<6 -spot eu means four H100 below $6 an hour, not "
        "spot, in Europe."
    )

    def __init__(self) -> None:
        super().__init__(
            COLUMNS,
            FIELDS,
            key=key_of,
            cells=self._offer_cells,
            empty="Asking for offers…",
            placeholder="gpus:h100 price:<6 -spot eu",
            sort="price",
            id="compute-offers",
        )
        self.found = OfferList()
        """The offers that are shown, and hudtui's choice among them."""
        self.demand: Demand | None = None
        """What the training of the column FITS needs."""
        self._market: Market | None = None
        self._led = True
        """The cursor follows hudtui's choice, as long as the user has not moved it."""
        self._verdicts: dict[str, Fit] = {}

    def show_market(self, market: Market) -> None:
        """Show the offers as they are known now."""
        self._market = market
        self._verdicts.clear()
        self._arrange()

    def show_demand(self, demand: Demand | None) -> None:
        """Show which offers hold the model of a training, and choose by that before the price.

        None for no model.
        """
        if demand == self.demand:
            return
        self.demand = demand
        self._verdicts.clear()
        place = next(number for number, column in enumerate(COLUMNS) if column.key == "price")
        self.table.columns = (
            COLUMNS if demand is None else (*COLUMNS[:place], FITS, *COLUMNS[place:])
        )
        self._arrange()

    def fit(self, offer: Offer) -> Fit | None:
        """Whether the GPUs of an offer hold the model; None without a model."""
        if self.demand is None:
            return None
        key = key_of(offer)
        if key not in self._verdicts:
            self._verdicts[key] = self.demand.fit(offer)
        return self._verdicts[key]

    def _offer_cells(self, offer: Offer) -> tuple[Cell, ...]:
        choice, part = (
            self.found.choice,
            self._market.parts.get(offer.provider) if self._market is not None else None,
        )
        style = "table--muted" if part is not None and part.remembered else ""
        low = offer.stock.lower() in ("low", "unavailable")
        verdict = self.fit(offer)
        doubtful = offer in self.found.doubts
        best = choice is not None and choice.offer == offer
        return (
            ("★", "table--ok") if best else ("!", "table--warning") if doubtful else "",
            (offer.gpu_type or "no GPU", style),
            (str(offer.gpu_count or "–"), style),
            (f"{amount(offer.gpu_memory)}G" if offer.gpu_memory else "–", style),
            *(() if verdict is None else ((verdict.mark, style or _FIT_STYLES[verdict.state]),)),
            (price_of(offer), "table--warning" if doubtful else style),
            (
                money(offer.gpu_hour, offer.price.currency)
                if offer.price.stated and offer.gpu_count
                else "–",
                style,
            ),
            ("spot", "table--warning") if offer.spot else "",
            (who(offer), style),
            (offer.region or offer.country or "–", style),
            (offer.stock or "–", "table--warning" if low else style),
            (f"{amount(offer.setup_minutes)}m" if offer.setup_minutes is not None else "–", style),
            (str(len(offer.images)) if offer.images else "–", style),
        )

    def _arrange(self) -> None:
        market = self._market
        if market is None:
            return
        fit = cast("Callable[[Offer], Fit] | None", None if self.demand is None else self.fit)
        try:
            wanted = parse_filter(self.filter_field.value, FIELDS)
        except InputError as error:
            self.note_on_border(str(error))
            return
        self.found = arrange(
            market.offers, wanted, self.sort or "price", reverse=self.reverse, fit=fit
        )
        self.listed = list(self.found.offers)
        keys, choice = list(map(key_of, self.listed)), self.found.choice
        place = (
            keys.index(self._chosen)
            if self._chosen in keys
            else min(self.table.cursor, max(len(keys) - 1, 0))
        )
        if self._led or self._chosen is None:
            best = None if choice is None else key_of(choice.offer)
            place = keys.index(best) if best in keys else 0
        self._chosen = keys[place] if keys else None
        self.table.sorted_by = (self.sort or "price", self.reverse)
        self.table.empty = "No offer matches the filter." if market.offers else self._none(market)
        self.table.show(Rows(self.listed, self._offer_cells), cursor=place if keys else None)
        self.show_count()
        self.post_message(self.Highlighted(self, self.row))

    def _tell(self) -> None:
        before = self._chosen
        super()._tell()
        self._led = self._led and self._chosen == before

    def _none(self, market: Market) -> str:
        if market.asking:
            return "Asking for offers…"
        return self.app.keys_in(
            "No provider has an offer. {key:compute.warnings} shows what failed, "
            "{key:compute.access} sets up a key."
        )

    def show_count(self) -> None:
        """Write the state of the offers on the border.

        It is how many offers are shown, which providers are still asked, and how old the offers
        are.
        """
        market, found = self._market, self.found
        if market is None:
            return
        age = (
            None
            if market.oldest is None
            else max(self.app.services.now().timestamp() - market.oldest, 0.0)
        )
        count = (
            f"{len(found.offers)} of {found.total}"
            if len(found.offers) != found.total
            else str(found.total)
        )
        note = f"{count} offer{'' if found.total == 1 else 's'}"
        if market.asking:
            note += f" · asking {', '.join(market.asking)}"
        if age is not None and (market.remembered or age >= 60):
            note += f" · as of {ago(age)}"
        if self.demand is not None:
            note += f" · fits: {clean_line(self.demand.title, 40)}"
        self.note_on_border(note, "$warning" if market.remembered else "")

    def sortable(self) -> list[str | None]:
        """The columns in sight."""
        return [column.key for _, column, _ in self.table.widths() if column.key in SORTS]

    def filtered(self) -> None:
        self._led = True
        self._arrange()


def key_of(offer: Offer) -> str:
    """What identifies an offer in all answers."""
    return f"{offer.provider} {offer.id}"


def offer_lines(
    offer: Offer,
    listed: OfferList,
    part: ProviderOffers | None,
    now: float,
    *,
    simulated: bool,
    width: int,
    fit: str = "",
) -> Content:
    """One offer in full; `fit` says whether its GPUs hold the model that will be trained."""
    price = offer.price
    lines: list[Content] = []
    gpus = (
        f"{offer.gpu_count} × {offer.gpu_type}" if offer.gpu_count else offer.gpu_type or "no GPU"
    )
    title: list[Any] = [
        (clean_line(gpus + offer.spread, 60), "bold $primary"),
        (f"  {offer.short}", "$foreground-muted"),
    ]
    lines.append(Content.assemble(*title, ("  (simulated)", "bold $warning") if simulated else ""))
    if part is not None and part.remembered and part.at is not None:
        lines.append(
            Content.styled(
                f"! As of {ago(now - part.at)}; it cannot be ordered until the provider answers.",
                "$warning",
            )
        )
    lines.append(Content(""))

    def fact(name: str, value: str, style: str = "") -> None:
        if value:
            lines.extend(fact_lines(name, value, style, width))

    if price.stated:
        what = "the machine" if offer.nodes == 1 else f"all {offer.nodes} machines"
        fact("price", f"{price_of(offer)} an hour for {what}", "bold")
        if offer in listed.doubts:
            fact(
                "", f"! doubtful: {listed.doubts[offer]}; it is never chosen by itself", "$warning"
            )
        if offer.gpu_count > 1:
            fact("", f"{money(offer.gpu_hour, price.currency)} for one GPU and hour")
    else:
        fact("price", "no price is set: it is your own machine")
    fact("spot", "the provider can take it back at any time" if offer.spot else "", "$warning")
    if offer.gpu_memory:
        together = f" each, {amount(offer.vram or 0.0)} together" if offer.gpu_count > 1 else ""
        fact("VRAM", f"{amount(offer.gpu_memory)} GB{together}")
    fact("fits", fit)
    sizes = [
        f"{offer.vcpus} vCPUs" if offer.vcpus else "",
        f"{amount(offer.memory_gb)} GB memory" if offer.memory_gb else "",
    ]
    sizes.append(f"{amount(offer.disk_gb)} GB disk" if offer.disk_gb else "")
    fact("machine", ", ".join(filter(None, (*sizes, offer.socket))))
    if offer.nodes_guessed:
        said = f"{offer.nodes}, by the number of GPUs: the offer does not say how many"
        fact("machines", said)
    fact(
        "provider",
        offer.provider
        + (f", {offer.cloud}" if offer.cloud and offer.cloud != offer.provider else ""),
    )
    fact(
        "where",
        ", ".join(filter(None, (offer.region, offer.country, offer.data_center, offer.security))),
    )
    fact("stock", offer.stock)
    fact(
        "setup",
        f"about {amount(offer.setup_minutes)} min" if offer.setup_minutes is not None else "",
    )
    fact("images", ", ".join(offer.images))
    if price.stated and (price.hourly or offer.provider not in ("local", "ssh")):
        lines += [Content(""), Content.styled(f"What {amount(HOURS)} hours cost", "bold $primary")]
        lines.append(Content(clean_line(estimate(offer, HOURS).text + ".")))
    lines += [Content(""), *why_lines(offer, listed)]
    return Content("\n").join(lines)


def why_lines(offer: Offer, listed: OfferList) -> list[Content]:
    """Why this offer is chosen, or which one is chosen instead."""
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
        words += (
            f" This one costs {money(abs(more), best.price.currency)}/h "
            f"{'more' if more >= 0 else 'less'}."
        )
    return [
        Content.styled("Why another one is chosen", "bold $primary"),
        Content(clean_line(words)),
    ]
