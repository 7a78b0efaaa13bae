"""`hudtui pods create`: choose a machine, say what it costs, ask, and rent it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import compute, console
from hudtui.cli.compute import Cloud, Count, Hours, Json, MaxPrice, MinVram, Providers, Region, Sort, Spot, Yes
from hudtui.cli.person import Terminal
from hudtui.core.text import duration

if TYPE_CHECKING:
    from hudtui.core.compute.choose import OfferChoice
    from hudtui.core.compute.limits import Limits
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Account, Order
    from hudtui.core.flows.keys import LoginKey
    from hudtui.core.settings import Settings


@dataclass(frozen=True)
class _Prepared:
    """Everything that is to be known before money is spent."""

    choice: OfferChoice
    provider: str
    title: str
    simulated: bool
    account: Account | None
    key: LoginKey
    limits: Limits
    afterwards: str
    """What holds the limits when hudtui is gone."""


def create(
    spec: Annotated[
        str | None,
        typer.Argument(
            metavar="[SPEC|OFFER]", help="Which GPUs (2xA100), or the six characters of an offer.", show_default=False
        ),
    ] = None,
    min_vram: MinVram = None,
    max_price: MaxPrice = None,
    spot: Spot = None,
    region: Region = None,
    provider: Providers = None,
    cloud: Cloud = None,
    count: Count = None,
    sort: Sort = "price",
    hours: Hours = None,
    image: Annotated[
        str | None, typer.Option(help="System image, one of the offer's; by default one with PyTorch.", show_default=False)
    ] = None,
    disk: Annotated[
        float | None, typer.Option(min=1, help="GB of disk, where the offer lets choose.", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option(help="Part of its name, to know it by.", show_default=False)] = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Rent a machine and wait until it can be logged in to.

    The lowest price wins unless something else is asked for. The full price is shown before anything is rented; without a
    terminal to ask in, --yes is needed. It costs money until `hudtui pods terminate`.
    """
    settings = compute.settings(as_json=as_json)
    query = compute.make_query(min_vram, max_price, spot, region, cloud, count)

    async def prepare() -> _Prepared:
        from hudtui.core.compute.choose import choose
        from hudtui.core.compute.gpus import parse_spec
        from hudtui.core.compute.provider import find_offer
        from hudtui.core.errors import InputError
        from hudtui.core.flows.keys import prepare_key
        from hudtui.core.project import open_project

        async with compute.asked(settings, provider or (), paid=True) as providers:
            market, _ = await compute.gather_offers(providers, strict=len(providers) == 1)
            named = find_offer(market.found, spec) if spec else None
            if named is not None:
                choice = choose([named], query=_of_type(named.gpu_type))
            elif spec is None and all(value in (None, ()) for value in vars(query).values()):
                raise InputError("say which GPUs", fix="For instance: hudtui pods create 2xA100, or --min-vram 80.")
            else:
                choice = choose(market.found, query=query, spec=parse_spec(spec) if spec else None, order=sort, hours=hours)
            for warning in market.warnings:
                console.say(f"warning: {warning}")
            chosen = providers[choice.offer.provider]
            key = await prepare_key(open_project(), chosen, Terminal(yes=yes), set_up=not yes)
            if key is None:
                raise typer.Abort
            return await _prepared(choice, chosen, key, settings)

    ready = console.run(prepare(), as_json=as_json)
    _say_price(ready, hours)
    if not yes:
        console.run(console.confirm(f"Rent it for {_hourly(ready)}?"))

    async def rent() -> dict[str, Any]:
        from hudtui.core.compute.lifecycle import unique_name
        from hudtui.core.compute.values import Order

        async with compute.asked(settings, [ready.provider], paid=True) as providers:
            chosen = providers[ready.provider]
            order = Order(
                unique_name(name or "pod"),
                ready.choice.offer,
                image=image,
                disk_gb=disk,
                ssh_key=ready.key.id,
            )
            return await _acquire(order, chosen, settings, ready.limits, ready.account.name if ready.account else None)

    made = console.run(rent(), as_json=as_json)
    if as_json:
        console.out_json(made)
        return
    console.out(made["name"])
    console.say(f"It is ready, and costs {_hourly(ready)} until it is ended:")
    console.say(f"  hudtui pods ssh {made['name']}")
    console.say(f"  hudtui pods terminate {made['name']}")


def _of_type(gpu_type: str) -> Any:
    from hudtui.core.compute.values import Query

    return Query(gpu_types=(gpu_type,))


async def _prepared(choice: OfferChoice, provider: Provider, key: LoginKey, settings: Settings) -> _Prepared:
    from hudtui.core.compute.budget import grant_new
    from hudtui.core.compute.limits import limits_from_settings
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.compute.watchdog import UNLIMITED, watchdog_notice

    limits = replace(limits_from_settings(settings), idle_minutes=None)  # nobody measures whether it is idle
    until = grant_new("", choice.offer.price, provider.endpoint, limits)(Ledger().records(alive=False))
    afterwards = (
        UNLIMITED if until is None and not provider.features.terminates_itself else watchdog_notice(provider, settings.get)
    )
    account = None
    try:
        account = await provider.account()
    except ProviderError as error:
        console.say(f"warning: {provider.title} does not say what the wallet has: {error.what}")
    return _Prepared(
        choice,
        provider.name,
        provider.title,
        provider.features.simulated,
        account,
        key,
        limits,
        afterwards,
    )


def _hourly(ready: _Prepared) -> str:
    from hudtui.core.compute.choose import price_text

    return f"{price_text(ready.choice.offer.price)} an hour" + (" (simulated)" if ready.simulated else "")


def _say_price(ready: _Prepared, hours: float | None) -> None:
    from hudtui.core.compute.limits import estimate, money

    offer, account = ready.choice.offer, ready.account
    where = " ".join(word for word in (offer.cloud, offer.region, offer.data_center) if word)
    console.say(f"{ready.title}: {compute.gpus_text(offer)} at {where} (offer {offer.short})")
    sizes = [f"{offer.vcpus} vCPUs" if offer.vcpus else "", f"{offer.memory_gb:g} GB memory" if offer.memory_gb else ""]
    sizes += [f"{offer.disk_gb:g} GB disk" if offer.disk_gb else ""]
    if any(sizes):
        console.say(f"  {', '.join(filter(None, sizes))}")
    for reason in ready.choice.reasons:
        console.say(f"  {reason}")
    console.say(f"  Price: {_hourly(ready)}, all of it; {estimate(offer, hours or 24).text}.")
    if account is not None and account.balance is not None:
        lasts = account.lasts(offer.price.hourly, offer.price.currency)
        enough = f", enough for {duration(lasts * 3600)}" if lasts is not None else ""
        console.say(f"  The wallet has {money(account.balance, account.currency)}{enough}.")
    console.say(f"  {ready.afterwards}")


async def _acquire(order: Order, provider: Provider, settings: Settings, limits: Limits, account: str | None) -> dict[str, Any]:
    """Get it, and leave a guard there."""
    from contextlib import aclosing

    from hudtui.core.compute.lifecycle import acquire
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.compute.registry import pod_login
    from hudtui.core.compute.watchdog import UNLIMITED, start_watchdog
    from hudtui.core.errors import HudtuiError

    pod, said = None, ""
    async with compute.busy(f"renting {order.name}") as line:
        ledger = Ledger()
        steps = acquire(
            order,
            provider,
            ledger,
            login=pod_login(settings.get),
            limits=limits,
            account=account,
            workspace=Path.cwd(),
            say=console.say,
        )
        async with aclosing(steps) as events:
            async for step in events:
                pod = step.pod or pod
                if step.text != said:
                    line.say(f"  {step.text}")
                    said = line.text = step.text
                if step.host is None or pod is None:
                    continue
                try:  # while the steps are not left: they say what becomes of the machine when this is cancelled
                    owned = ledger.get(order.name)
                    until = owned.until if owned is not None else None
                    kept = await start_watchdog(step.host, until, provider, pod.id, lookup=settings.get)
                    told = f"{kept.text} {kept.caveat}".strip() if kept else UNLIMITED
                except HudtuiError as error:
                    told = f"warning: no guard is on the machine, which costs money until you end it: {'; '.join(error.lines())}"
                line.say(f"  {told}")
        assert pod is not None
    return {**pod.to_json(), "simulated": provider.features.simulated}
