"""`hudtui pods create`: choose an offer and rent it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import compute, console
from hudtui.cli.compute import OfferOptions
from hudtui.cli.options import DryRun, Json, Yes, takes_request
from hudtui.cli.person import Terminal

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Pod


@takes_request(kind=OfferOptions)
@console.run_async()
async def create(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC|OFFER]", help="Which GPUs (2xA100), or the six characters of an offer."
        ),
    ] = None,
    *,
    request: OfferOptions,
    image: Annotated[
        str | None,
        typer.Option(help="System image of the offer; by default an image with PyTorch."),
    ] = None,
    disk: Annotated[
        float | None, typer.Option(min=1, help="Disk size in GB, if the offer has a choice.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Part of the machine's name.")] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Rent a machine and wait until it accepts logins.

    Takes the lowest price by default. The full price is shown before anything is rented; without a
    terminal to ask in, --yes is needed. It costs money until `hudtui pods terminate`.

    With --model or --training, the machine is chosen by the memory that the training needs, then by
    price. A machine on which the model certainly does not fit is not rented.
    """
    from hudtui.core.compute.choose import price_text
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.flows.rent import Ordered, Rented, RentRequest, rent
    from hudtui.core.project import open_project

    pod: Pod | None = None
    async with compute.asked(compute.settings(), request.provider, paid=True) as providers:
        choice = await _choose(providers, spec, request)
        chosen = providers[choice.offer.provider]
        wanted = RentRequest(
            choice.offer, choice.reasons, request.hours, name or "pod", image, disk
        )
        # --yes agrees to the price, and to no change of the account.
        steps = rent(
            open_project(),
            wanted,
            chosen,
            Ledger(),
            Terminal(yes=yes, dry=dry_run, as_json=as_json),
            set_up_key=not yes and not dry_run,
        )
        line, said = compute.Spinner(""), ""
        async with AsyncExitStack() as stack, aclosing(steps):
            async for step in steps:
                if isinstance(step, Ordered):
                    line = await stack.enter_async_context(compute.busy(f"renting {step.name}"))
                elif isinstance(step, Rented):
                    pod = step.pod
                    line.say(f"  {step.guard}")
                    simulated = " (simulated)" if chosen.features.simulated else ""
                    line.say(
                        f"It is ready, and costs {price_text(choice.offer.price)} an "
                        f"hour{simulated} until it is ended:"
                    )
                    line.say(f"  hudtui pods ssh {pod.name}")
                    line.say(f"  hudtui pods terminate {pod.name}")
                elif step.text != said:
                    line.say(f"  {step.text}")
                    said = line.text = step.text
    if pod is None:
        raise typer.Abort
    if as_json:
        console.out_json({**pod.to_json(), "simulated": chosen.features.simulated})
    else:
        console.out(pod.name)


async def _choose(
    providers: Mapping[str, Provider], spec: str | None, request: OfferOptions
) -> OfferChoice:
    """Choose the offer that was named, or the best that fits.

    Raises:
        InputError: No offer fits, or the model of the training does not fit.
    """
    from hudtui.core.compute import choose
    from hudtui.core.compute.gpus import parse_spec
    from hudtui.core.compute.provider import find_offer
    from hudtui.core.errors import InputError

    query, demand = request.query, request.demand()
    market, _ = await compute.gather_offers(providers, strict=len(providers) == 1)
    named = find_offer(market.found, spec) if spec else None
    bare = (
        spec is None
        and demand is None
        and all(value in (None, ()) for value in vars(query).values())
    )
    if named is None and bare:
        raise InputError(
            "say which GPUs", fix="For instance: hudtui pods create 2xA100, or --min-vram 80."
        )
    if named is not None:
        choice = choose.choose(market.found, named=named)
    else:
        fit = None if demand is None else demand.fit
        wanted = parse_spec(spec) if spec else None
        choice = choose.choose(
            market.found, query=query, spec=wanted, order=request.sort, hours=request.hours, fit=fit
        )
    for warning in market.warnings:
        console.say(f"warning: {warning}")
    if demand is not None:
        from hudtui.core.runs.demand import check_rental

        choice = replace(choice, reasons=(check_rental(demand, choice.offer), *choice.reasons))
    return choice
