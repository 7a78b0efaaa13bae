"""Choose an offer: filters, order, and the reasons as sentences. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, get_args

from hudtui.core.compute.fit import Fit
from hudtui.core.compute.gpus import GpuSpec, fits_socket, has_gpu, resolve, split_type
from hudtui.core.compute.limits import RATES_FROM, in_usd, rates_text
from hudtui.core.compute.values import Offer, Price, Query
from hudtui.core.errors import InputError
from hudtui.core.text import clean_line, money

SortOrder = Literal["price", "gpu-price", "vram", "count", "setup"]
"""The first offer has: the lowest price, the lowest price per GPU, the most memory per GPU, the
most GPUs, the shortest setup."""
ORDERS: tuple[str, ...] = get_args(SortOrder)

OWN_PROVIDERS = ("ssh", "local")
"""Providers of machines that the user owns: more GPUs than requested cost nothing there."""
_DOUBTFUL = 0.1
"""Share of the median price of a model below which a price is doubted: spot machines cost a third,
and clearances a fifth."""
_LITTLE = ("low",)
_NONE = ("unavailable", "none", "out of stock", "not confirmed")


@dataclass(frozen=True)
class OfferMismatch:
    """One condition that an offer does not meet."""

    kind: str
    """The condition: `type`, `nodes`, `count`, `socket`, `vram`, `price`, `spot`, `region`,
    `cloud`, `stock`."""
    text: str


@dataclass(frozen=True)
class RejectedOffer:
    """An offer that was left out."""

    offer: Offer
    objections: tuple[OfferMismatch, ...]

    @property
    def reason(self) -> str:
        """Return all mismatches as text."""
        return ", ".join(objection.text for objection in self.objections)


@dataclass(frozen=True)
class OfferSelection:
    """The offers that meet all conditions, the best first, and those that do not."""

    found: tuple[Offer, ...]
    rejected: tuple[RejectedOffer, ...]
    doubts: Mapping[Offer, str] = field(default_factory=dict)
    """Why the prices of some of them are hardly right; see `doubtful_prices`."""


@dataclass(frozen=True)
class OfferChoice:
    """The chosen offer."""

    offer: Offer
    reasons: tuple[str, ...]
    """Reasons for the choice and remarks about the offer, one sentence each."""
    rejected: tuple[RejectedOffer, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the choice as JSON values; rejected offers are only counted, by reason."""
        counts = Counter(
            objection.kind for rejected in self.rejected for objection in rejected.objections
        )
        return {
            "offer": self.offer.to_json(),
            "reasons": list(self.reasons),
            "rejected": dict(counts),
        }


def price_text(price: Price) -> str:
    """Return the hourly price as text.

    `$2.10`; with `~` if it may change, `unknown` if it is not stated.
    """
    return (
        ("~" if price.variable else "") + money(price.hourly, price.currency)
        if price.stated
        else "unknown"
    )


def doubtful_prices(market: Iterable[Offer]) -> dict[Offer, str]:
    """Return the offers whose prices are hardly right, each with the reason.

    At or below 0, or a tenth of what the others ask. A GPU is compared with the same model of
    others on the market. Machines of the user's own are never among them. Such an offer is shown,
    and is rented only if it is named.
    """
    offers = [
        offer for offer in market if offer.price.stated and offer.provider not in OWN_PROVIDERS
    ]
    asked: dict[tuple[str, float | None], list[float]] = defaultdict(list)
    for offer in offers:
        if offer.price.hourly > 0 and has_gpu(offer):
            asked[_kind(offer)].append(_gpu_in_usd(offer))
    usual = {kind: median(prices) for kind, prices in asked.items()}
    found: dict[Offer, str] = {}
    for offer in offers:
        kind = _kind(offer)
        if offer.price.hourly <= 0:
            found[offer] = f"{price_text(offer.price)} is no price"
        elif has_gpu(offer):
            price, prices = _gpu_in_usd(offer), asked[kind]
            others = max(prices) if len(prices) == 2 else usual[kind]
            if price < _DOUBTFUL * others:
                found[offer] = (
                    f"it is less than a tenth of the usual {money(others)} for a "
                    f"{clean_line(offer.gpu_type, 40)}"
                )
    return found


def _kind(offer: Offer) -> tuple[str, float | None]:
    """The model of an offer's GPUs and their memory in GB.

    Providers name it in the type, beside it, or both.
    """
    name, memory = split_type(offer.gpu_type)
    memory = offer.gpu_memory if memory is None else memory
    return name, None if memory is None else round(memory)


def _gpu_in_usd(offer: Offer) -> float:
    return price_in_usd(offer) / max(offer.gpu_count, 1)


def price_in_usd(offer: Offer, hours: float | None = None) -> float:
    """Return the price to compare offers by, in USD.

    Per hour, or for `hours` including prepaid hours. See `in_usd`.
    """
    return in_usd(
        offer.price.hourly if hours is None else offer.price.for_hours(hours), offer.price.currency
    )


def select(
    offers: Iterable[Offer],
    *,
    query: Query | None = None,
    spec: GpuSpec | None = None,
    order: str = "price",
    hours: float | None = None,
    fit: Callable[[Offer], Fit] | None = None,
    market: Iterable[Offer] | None = None,
) -> OfferSelection:
    """Sort the offers that meet all conditions.

    Machines without a GPU are rejected unless they are requested by name.

    Args:
        offers: All offers on the market; GPU names are resolved against them.
        query: Conditions. Its count and types apply in addition to `spec`.
        spec: The wanted GPUs.
        order: One of `ORDERS`.
        hours: How long the machine will be used: prices are then compared with prepaid hours.
        fit: Whether the GPUs of an offer hold the model to train. Those that hold it come first,
            then the order counts.
        market: All offers that are known, by which prices are doubted, where `offers` is a part of
            them.

    Raises:
        InputError: No provider offers such a GPU, or the order does not exist.
    """
    offers = tuple(offers)
    query = query or Query()
    types = resolve(spec, offers) if spec is not None else ()
    found: list[Offer] = []
    rejected: list[RejectedOffer] = []
    for offer in offers:
        objections = tuple(_objections(offer, query, spec, types))
        if objections:
            rejected.append(RejectedOffer(offer, objections))
        else:
            found.append(offer)
    key, doubts = _sort_key(order, hours), doubtful_prices(offers if market is None else market)
    found.sort(key=key)
    if fit is not None:
        ranks = {id(offer): fit(offer).rank for offer in found}
        found.sort(key=lambda offer: ranks[id(offer)])
    return OfferSelection(tuple(found), tuple(rejected), doubts)


def choose(
    offers: Iterable[Offer],
    *,
    query: Query | None = None,
    spec: GpuSpec | None = None,
    order: str = "price",
    hours: float | None = None,
    fit: Callable[[Offer], Fit] | None = None,
    named: Offer | None = None,
    market: Iterable[Offer] | None = None,
) -> OfferChoice:
    """Return the first offer in the given order, by default the cheapest.

    Arguments as for `select`. Machines without a stated price come last in an order by price. An
    offer with a doubtful price is never chosen; `named` is one that the user has named, which is
    taken whatever its price.

    Raises:
        InputError: No offer meets all conditions; the error lists the failed conditions and the
            nearest offer.
    """
    if named is not None:
        doubt = doubtful_prices(offers).get(named)
        only = select([named], query=Query(gpu_types=(named.gpu_type,)))
        if not only.found:
            raise _nothing(only, None)
        reasons = _reasons(named, only, order, hours, False, fit)
        return OfferChoice(
            named, (*([f"Its price is doubtful: {doubt}."] if doubt else []), *reasons)
        )
    query = query or Query()
    wanted = (
        spec
        if spec is None or spec.counted or query.gpu_count is not None
        else GpuSpec(1, spec.name, spec.memory, spec.socket)
    )
    selection = select(
        offers, query=query, spec=wanted, order=order, hours=hours, fit=fit, market=market
    )
    if not selection.found:
        raise _nothing(selection, wanted, query.nodes)
    sound = tuple(offer for offer in selection.found if offer not in selection.doubts)
    if not sound:
        raise _only_doubtful(selection)
    doubted, selection = (
        selection.found[: selection.found.index(sound[0])],
        replace(selection, found=sound),
    )
    best = sound[0]
    reasons = [*_reasons(best, selection, order, hours, wanted is not spec, fit)]
    reasons += [
        f"Passed over: {_brief(offer)}: {selection.doubts[offer]}." for offer in doubted[:2]
    ]
    return OfferChoice(best, tuple(reasons), selection.rejected)


def _objections(
    offer: Offer, query: Query, spec: GpuSpec | None, types: tuple[str, ...]
) -> Iterable[OfferMismatch]:
    if (spec is not None and offer.gpu_type not in types) or (
        query.gpu_types and offer.gpu_type not in query.gpu_types
    ):
        yield OfferMismatch("type", f"it has {clean_line(offer.gpu_type, 40) or 'no GPU'}")
    elif spec is None and not query.gpu_types and not has_gpu(offer):
        yield OfferMismatch("type", "it has no GPU")
    if query.nodes is not None and offer.nodes != query.nodes:
        yield OfferMismatch("nodes", f"it is {_machines(offer.nodes)}")
    own = _counted(offer, query.nodes)
    count = (
        query.gpu_count
        if query.gpu_count is not None
        else spec.count
        if spec is not None and spec.counted
        else None
    )
    enough = (
        count is None
        or not own
        or own == count
        or (own > count and offer.provider in OWN_PROVIDERS)
    )
    if not enough:
        told = f"{own} GPU{'s' * (own != 1)}{_each(offer, query.nodes, ' on each machine')}"
        yield OfferMismatch("count", f"it has {told}, not {count}")
    if offer.gpu_count % offer.nodes and query.nodes is not None:
        text = f"its {offer.gpu_count} GPUs are not equally many on {offer.nodes} machines"
        yield OfferMismatch("nodes", text)
    if spec is not None and spec.socket and not fits_socket(spec, offer):
        yield OfferMismatch("socket", f"its socket is {clean_line(offer.socket, 20) or 'unknown'}")
    if query.min_vram is not None and (
        offer.gpu_memory is None or offer.gpu_memory < query.min_vram
    ):
        told = "unknown" if offer.gpu_memory is None else f"{offer.gpu_memory:g} GB a GPU"
        yield OfferMismatch("vram", f"its memory is {told}")
    if query.max_price is not None and (
        not offer.price.stated or price_in_usd(offer) > query.max_price
    ):
        yield OfferMismatch("price", f"its price is {price_text(offer.price)}")
    if query.spot is not None and offer.spot != query.spot:
        yield OfferMismatch("spot", "it is spot" if offer.spot else "it is not spot")
    if query.regions and not any(_is_in(offer, region) for region in query.regions):
        yield OfferMismatch(
            "region",
            f"it is in {clean_line(offer.region or offer.country, 30) or 'an unknown place'}",
        )
    if query.clouds and _fold(offer.cloud or offer.provider) not in map(_fold, query.clouds):
        yield OfferMismatch("cloud", f"it is {clean_line(offer.cloud or offer.provider, 30)}'s")
    if offer.stock.lower() in _NONE:
        yield OfferMismatch("stock", "there is none left")


def _counted(offer: Offer, nodes: int | None) -> int:
    """GPUs that a count means: of each machine where a number of machines is asked for."""
    return offer.gpu_count if nodes is None else offer.node_gpus


def _each(offer: Offer, nodes: int | None, words: str) -> str:
    return words if offer.nodes > 1 and nodes is not None else ""


def _machines(count: int) -> str:
    return "one machine" if count == 1 else f"a cluster of {count} machines"


def _is_in(offer: Offer, region: str) -> bool:
    """`eu` and `eu_north` mean regions, `FI` a country, `FIN-01` a data centre."""
    wanted = _fold(region)
    return _fold(offer.region).split(" ")[: wanted.count(" ") + 1] == wanted.split(
        " "
    ) or wanted in (
        _fold(offer.country),
        _fold(offer.data_center),
    )


def _fold(text: str) -> str:
    return " ".join(text.lower().replace("_", " ").replace("-", " ").split())


def _sort_key(order: str, hours: float | None) -> Callable[[Offer], tuple[Any, ...]]:
    firsts: dict[str, Callable[[Offer], tuple[float, ...]]] = {
        "price": lambda _: (),
        "gpu-price": lambda offer: (price_in_usd(offer, hours) / max(offer.gpu_count, 1),),
        "vram": lambda offer: (-(offer.gpu_memory or 0.0),),
        "count": lambda offer: (-offer.gpu_count,),
        "setup": lambda offer: (
            float("inf") if offer.setup_minutes is None else offer.setup_minutes,
        ),
    }
    if order not in firsts:
        raise InputError(
            f"offers cannot be sorted by {clean_line(order, 30)!r}",
            fix=f"Sort by {', '.join(ORDERS)}.",
        )
    first, by_price = firsts[order], order in ("price", "gpu-price")

    def key(offer: Offer) -> tuple[Any, ...]:
        price = offer.price
        return (
            (by_price and not price.stated, *first(offer)),
            (not price.stated, price_in_usd(offer, hours), price.variable, price.prepaid_hours),
            (
                offer.spot,
                offer.stock.lower() in _LITTLE,
                offer.setup_minutes is None,
                offer.setup_minutes or 0.0,
            ),
            (offer.provider, offer.id),
        )

    return key


_BEST = {
    "price": "the lowest price",
    "gpu-price": "the lowest price of a GPU",
    "vram": "the most memory of one GPU",
    "count": "the most GPUs",
    "setup": "the shortest setup",
}


def _reasons(
    best: Offer,
    selection: OfferSelection,
    order: str,
    hours: float | None,
    one_gpu: bool,
    fit: Callable[[Offer], Fit] | None,
) -> Iterable[str]:
    verdict = None if fit is None else fit(best)
    found = selection.found
    if fit is not None and verdict is not None:
        found = tuple(offer for offer in found if fit(offer).state == verdict.state)
        yield verdict.why
    others = found[1:]
    if verdict is not None and verdict.state in ("short", "unable"):
        all_of = len(selection.found)
        yield (
            f"None of the {all_of} offers of this choice holds it."
            if all_of > 1
            else "It is the only offer of this choice."
        )
    elif verdict is not None and verdict.state == "unknown":
        yield f"It has {_BEST[order]} of the {len(found)} offers of which the fit is not known."
    elif not others:
        yield f"It is the only offer {'of this choice' if fit is None else 'that fits'}."
    else:
        span = "" if hours is None else f" for {hours:g} h"
        those = f"{len(found)} offers{' with one GPU' if one_gpu else ''}"
        if fit is not None:  # otherwise no model is named that they could fit
            those = f"the {those} that fit"
        if verdict is not None and verdict.state == "tight":
            those += ", all of them tightly"
        yield f"It has {_BEST[order]}{span} of {those}; next comes {_brief(others[0])}."
    if fit is not None and verdict is not None and verdict.state in ("short", "unable"):
        holding = [item for item in selection.rejected if fit(item.offer).holds]
        for item in sorted(
            holding, key=lambda item: (len(item.objections), price_in_usd(item.offer, hours))
        )[:2]:
            yield f"Left out, but holds the model: {_brief(item.offer)}: {item.reason}."
    if fit is not None and verdict is not None and verdict.holds:
        least = price_in_usd(best, hours)
        worse = [
            offer
            for offer in selection.found
            if fit(offer).state != verdict.state and offer.price.stated
        ]
        for offer in [one for one in worse if price_in_usd(one, hours) < least][
            :2
        ]:  # the nearest to a fit come first
            yield f"Cheaper, but {fit(offer).reason or 'its memory is not known'}: {_brief(offer)}."
    others = selection.found[1:]
    price = best.price
    if best.spot:
        firm = next((offer for offer in others if not offer.spot), None)
        instead = f"; the cheapest on-demand machine is {_brief(firm)} (--no-spot)" if firm else ""
        yield f"It is spot: it can be taken away at any moment{instead}."
    if not price.stated:
        yield "Its price is not stated."
    if price.variable:
        yield "Its price may change while it runs."
    if price.prepaid_hours:
        up_front = money(price.for_hours(0), price.currency)
        yield f"{price.prepaid_hours:g} hours are charged at once, used or not: {up_front}."
    if price.disk:
        yield f"Its price includes {money(price.disk, price.currency)} for the disk in it."
    foreign = {offer.price.currency.upper() for offer in selection.found} - {"USD"}
    if foreign:
        yield (
            f"For ranking, prices in other currencies are rounded up at rates of {RATES_FROM}: "
            f"{rates_text(foreign)}."
        )
    if best.stock.lower() in _LITTLE:
        yield "There are few of them: it may be gone when you rent it."
    left_out = [
        item
        for item in selection.rejected
        if _one_step_away(item)
        and price_in_usd(item.offer) < price_in_usd(best)
        and item.offer not in selection.doubts
    ]
    for item in sorted(left_out, key=lambda item: price_in_usd(item.offer))[:2]:
        yield f"Cheaper, but left out: {_brief(item.offer)}: {item.reason}."
    own = next(
        (offer for offer in others if offer.provider in OWN_PROVIDERS and not offer.price.stated),
        None,
    )
    if own is not None:
        yield (
            f"Your own machine {clean_line(own.cloud_id, 60)} would do too (--provider "
            f"{own.provider})."
        )


def _one_step_away(item: RejectedOffer) -> bool:
    """Return whether the offer fails only a condition that the user can relax.

    The kind of machine is none of those.
    """
    return item.offer.price.stated and all(
        objection.kind in ("spot", "region", "cloud", "stock") for objection in item.objections
    )


def _brief(offer: Offer) -> str:
    where = " ".join(
        clean_line(word, 30) for word in (offer.cloud or offer.provider, offer.region) if word
    )
    gpus = f"{offer.gpu_count}x {clean_line(offer.gpu_type, 40)}" if offer.gpu_type else "no GPU"
    spot = ", spot" if offer.spot else ""
    return f"{gpus}{offer.spread} at {price_text(offer.price)} ({where}{spot})"


def _only_doubtful(selection: OfferSelection) -> InputError:
    first = selection.found[0]
    return InputError(
        "every offer that fits has a doubtful price",
        why="; ".join(
            f"{_brief(offer)}: {selection.doubts[offer]}" for offer in selection.found[:3]
        ),
        fix=f"Take one all the same by naming it, such as {first.short}; or ask for other GPUs.",
    )


_HINTS: dict[str, Callable[[Offer], str]] = {
    "nodes": lambda offer: f"with --nodes {offer.nodes}",
    "socket": lambda offer: f"with the socket {clean_line(offer.socket, 20) or 'unknown'}",
    "vram": lambda offer: f"with --min-vram {offer.gpu_memory or 0:g}",
    "price": lambda offer: "at a higher --max-price",
    "spot": lambda offer: "with --spot" if offer.spot else "with --no-spot",
    "region": lambda offer: f"with --region {clean_line(offer.region, 30)}",
    "cloud": lambda offer: f"with --cloud {clean_line(offer.cloud, 30)}",
}


def _count_hint(offer: Offer, nodes: int | None) -> str:
    count = _counted(offer, nodes)
    return f"with {count} GPU{'s' * (count != 1)}{_each(offer, nodes, ' on each')}"


def _nearest_counts(
    rejected: Sequence[RejectedOffer], spec: GpuSpec | None, nodes: int | None
) -> list[Offer]:
    """Return the cheapest offers with the next smaller and the next larger number of GPUs.

    Only offers that lack nothing but the number count.
    """
    only = [
        item.offer
        for item in rejected
        if [objection.kind for objection in item.objections] == ["count"]
    ]
    only.sort(key=lambda offer: (not offer.price.stated, price_in_usd(offer)))
    if spec is None:
        return only[:1]
    sizes = {_counted(offer, nodes) for offer in only}
    near = {
        max((size for size in sizes if size < spec.count), default=None),
        min((size for size in sizes if size > spec.count), default=None),
    }
    return [
        next(offer for offer in only if _counted(offer, nodes) == size)
        for size in sorted(size for size in near if size)
    ]


def _nearest_nodes(rejected: Sequence[RejectedOffer], nodes: int) -> list[Offer]:
    """Return the cheapest offer with the next smaller number of machines, and with the next larger.

    Only offers that lack nothing but the number count.
    """
    only = [item.offer for item in rejected if [one.kind for one in item.objections] == ["nodes"]]
    only.sort(key=lambda offer: (not offer.price.stated, price_in_usd(offer)))
    numbers = sorted({offer.nodes for offer in only if offer.nodes != nodes})
    near = [
        *[one for one in numbers if one < nodes][-1:],
        *[one for one in numbers if one > nodes][:1],
    ]
    return [next(offer for offer in only if offer.nodes == number) for number in near]


def _nothing(
    selection: OfferSelection, spec: GpuSpec | None, nodes: int | None = None
) -> InputError:
    rejected = [
        item for item in selection.rejected if item.offer not in selection.doubts
    ] or selection.rejected
    what = f"no offer fits {spec}" if spec is not None else "no offer fits"
    if nodes is not None and nodes > 1:
        what += f" on each of {nodes} machines" if spec is not None else f" on {nodes} machines"
    if not rejected:
        return InputError(what, why="There are no offers at all at the moment.")
    of_type = [
        item for item in rejected if all(objection.kind != "type" for objection in item.objections)
    ]
    counts = Counter(objection.kind for item in of_type for objection in item.objections)
    words = {
        "vram": "memory",
        "price": "their price",
        "spot": "spot",
        "stock": "nothing left in stock",
    }
    why = ", ".join(f"{number} by {words.get(kind, kind)}" for kind, number in counts.most_common())
    near: dict[str, Offer] = {}  # by failed condition, for offers with only one
    for item in sorted(
        of_type, key=lambda item: (not item.offer.price.stated, price_in_usd(item.offer))
    ):
        if len(item.objections) == 1 and item.objections[0].kind in _HINTS:
            near.setdefault(item.objections[0].kind, item.offer)
    pairs = [(_HINTS[kind](offer), offer) for kind, offer in near.items() if kind != "nodes"]
    pairs += [(_count_hint(offer, nodes), offer) for offer in _nearest_counts(of_type, spec, nodes)]
    pairs += [(_HINTS["nodes"](offer), offer) for offer in _nearest_nodes(of_type, nodes or 1)]
    hints = [f"{hint}: {_brief(offer)}" for hint, offer in pairs]
    return InputError(
        what,
        why=f"{len(of_type)} of the kind are left out: {why}." if of_type else None,
        fix=f"Nearest, {'; '.join(hints)}." if hints else None,
    )
