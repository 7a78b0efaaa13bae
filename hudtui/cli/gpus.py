"""`hudtui pods offers`: which machines can be had now, and what they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import compute, console
from hudtui.cli.command import top
from hudtui.cli.compute import Machines, OfferOptions, Spec
from hudtui.cli.options import Json, Limit, takes_request
from hudtui.core.text import money

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice, OfferSelection
    from hudtui.core.compute.fit import Fit
    from hudtui.core.compute.values import Offer, Offers
    from hudtui.core.runs.demand import Demand


@top.command("gpus")
@takes_request(kind=OfferOptions)
@console.run_async()
async def gpus(
    spec: Spec = None,
    *,
    request: OfferOptions,
    host: Machines = None,
    offer_filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            help="Filter as on the screen: 'gpus:h100 count:=4 price:<6 -spot eu'.",
            metavar="TEXT",
        ),
    ] = None,
    limit: Limit = 20,
    as_json: Json = False,
) -> None:
    """List the machines on offer, the lowest price first, and name the best pick with the reasons.

    Prices are per hour for the whole machine with its disk. The providers are Prime Intellect (with
    a key), this machine, and the machines behind SSH that you have listed; `--provider ssh` asks
    all of ~/.ssh/config.

    With --model or --training, the column FITS compares the memory of the GPUs with the estimated
    need of the training. It says `✓`, `✓ tight` where the estimate's error may exceed it, or the
    GiB that are missing. Machines that fit come first, then the price counts.
    """
    from hudtui.core.compute.choose import choose, select
    from hudtui.core.compute.gpus import has_gpu, parse_spec
    from hudtui.core.compute.offer_filter import FIELDS
    from hudtui.core.compute.registry import simulation_words, unavailable_providers, usual_rental
    from hudtui.core.errors import InputError
    from hudtui.core.row_filter import parse_filter

    settings = compute.settings()
    wanted = parse_spec(spec) if spec is not None else None
    typed = parse_filter(offer_filter or "", FIELDS)
    query = request.query
    demand = request.demand()
    fit = None if demand is None else demand.fit
    async with compute.asked(settings, request.provider, machines=host or ()) as providers:
        market, simulated = await compute.gather_offers(
            providers, strict=len(request.provider) == 1
        )
    absent = {} if request.provider else dict(unavailable_providers(settings.get))
    unset = absent.get(usual_rental(settings.get).name)
    named = [offer for offer in market.found if typed.matches(offer)]
    conditions = (wanted, offer_filter, *vars(query).values())
    narrow = demand is not None or any(value not in (None, ()) for value in conditions)
    if market.found and not named:
        raise InputError(
            "no offer matches the filter",
            why=offer_filter,
            fix="hudtui pods offers without --filter shows all offers.",
        )
    try:
        selection = select(
            named,
            query=query,
            spec=wanted,
            order=request.sort,
            hours=request.hours,
            fit=fit,
            market=market.found,
        )
        choice = (
            choose(
                named,
                query=query,
                spec=wanted,
                order=request.sort,
                hours=request.hours,
                fit=fit,
                market=market.found,
            )
            if narrow
            else None
        )
    except InputError as error:
        told = [*market.warnings, *filter(None, [unset])]
        lines = [error.fix, *told] if error.fix else told
        raise InputError(error.what, why=error.why, fix="\n".join(lines) or None) from None
    if as_json:
        console.out_json(_to_json(market, simulated, selection, choice, absent, limit, demand))
        return
    if selection.found:
        _print(selection.found[:limit], simulated, fit, selection.doubts)
    if demand is not None:
        console.say("")
        console.say(f"FITS is for a training of {demand.title}, {demand.size}.")
    if choice is not None:
        console.say("")
        nearest = demand is not None and demand.fit(choice.offer).state in ("short", "unable")
        words = "comes nearest, and does not fit" if nearest else "is the best pick"
        console.say(f"{choice.offer.short} {words}:")
        for reason in choice.reasons:
            console.say(f"  {reason}")
    bare = 0 if narrow else sum(not has_gpu(offer) for offer in market.found)
    if bare:
        console.say(
            f"Machines without a GPU are not shown: {bare}. hudtui pods offers cpu shows them."
        )
    if len(selection.found) > limit:
        console.say(f"{len(selection.found) - limit} more; --limit N shows them.")
    for warning in market.warnings:
        console.say(f"warning: {warning}")
    if simulated:
        console.say(f"{simulation_words(simulated)}: no real machines, no real money.")
    if unset is not None:
        console.say(unset)


def _print(
    offers: tuple[Offer, ...],
    simulated: frozenset[str],
    fit: Callable[[Offer], Fit] | None,
    doubts: Mapping[Offer, str],
) -> None:
    from hudtui.core.compute.choose import price_text

    columns: list[tuple[str, Callable[[Offer], str]]] = [
        ("OFFER", lambda offer: offer.short),
        ("GPUS", compute.gpus_text),
        ("VRAM", lambda offer: f"{offer.gpu_memory:g} GB" if offer.gpu_memory else "–"),
        ("PRICE/H", lambda offer: price_text(offer.price)),
        ("PER GPU", _per_gpu),
        ("FROM", lambda offer: compute.from_text(offer, offer.provider in simulated)),
        (
            "REGION",
            lambda offer: " ".join(word for word in (offer.region, offer.country) if word) or "–",
        ),
        ("STOCK", lambda offer: offer.stock or "–"),
        (
            "SETUP",
            lambda offer: "–" if offer.setup_minutes is None else f"{offer.setup_minutes:g} min",
        ),
        (
            "NOTE",
            lambda offer: ", ".join(
                filter(
                    None, ("! doubtful price" if offer in doubts else "", compute.notes_text(offer))
                )
            ),
        ),
    ]
    if fit is not None:
        columns.insert(3, ("FITS", lambda offer: fit(offer).mark))
    right = [
        place
        for place, (title, _) in enumerate(columns)
        if title in ("VRAM", "PRICE/H", "PER GPU", "SETUP")
    ]
    compute.table(
        [title for title, _ in columns],
        [[cell(offer) for _, cell in columns] for offer in offers],
        right=right,
    )
    for offer in offers:
        if offer in doubts:
            console.say(f"! {offer.short}: {doubts[offer]}; it is rented only if you name it.")


def _per_gpu(offer: Offer) -> str:
    return (
        money(offer.gpu_hour, offer.price.currency)
        if offer.price.stated and offer.gpu_count > 1
        else ""
    )


def _to_json(
    market: Offers,
    simulated: frozenset[str],
    selection: OfferSelection,
    choice: OfferChoice | None,
    absent: dict[str, str],
    limit: int,
    demand: Demand | None,
) -> dict[str, Any]:
    def row(offer: Offer) -> dict[str, Any]:
        told = {
            **offer.to_json(),
            "simulated": offer.provider in simulated,
            "doubtful": selection.doubts.get(offer),
        }
        return told if demand is None else {**told, "fit": demand.fit(offer).to_json()}

    return {
        "offers": [row(offer) for offer in selection.found[:limit]],
        "total": len(selection.found),
        "left_out": len(selection.rejected),
        "choice": choice.to_json() if choice else None,
        "warnings": list(market.warnings),
        "missing": absent,
    }
