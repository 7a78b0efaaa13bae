"""`hudtui pods wallet`: whose money it is, how much there is, and what it went for."""

from __future__ import annotations

import time

from hudtui.cli import compute, console
from hudtui.cli.command import top
from hudtui.cli.compute import Providers
from hudtui.cli.options import Json
from hudtui.core.text import duration


@top.command("wallet")
@console.run_async()
async def wallet(provider: Providers = None, as_json: Json = False) -> None:
    """Show the account, its balance, and the cost of the rented machines."""
    from hudtui.core.compute.costs import sum_costs
    from hudtui.core.compute.limits import money
    from hudtui.core.compute.pods import Ledger

    async with compute.asked(compute.settings(), provider or (), paid=True) as providers, compute.busy("asking for the wallet"):
        found = {one.name: (one.title, one.features.simulated, await one.account()) for one in providers.values()}
        accounts = {name: account for name, (_, _, account) in found.items()}
        spending = sum_costs(Ledger(), accounts, time.time(), here=tuple(providers.values()), elsewhere=False)
    if as_json:
        console.out_json(
            [
                {
                    **account.to_json(),
                    "provider": name,
                    "simulated": simulated,
                    "per_hour": sum(one.per_hour for one in spending.pods if one.provider == name and one.open),
                    "today": sum(one.today for one in spending.pods if one.provider == name),
                }
                for name, (_, simulated, account) in found.items()
            ]
        )
        return
    for name, (title, simulated, account) in found.items():
        unreal = " (simulated)" if simulated else ""
        console.out(f"{title}: {account.name}" + (f", team {account.team}" if account.team else ""))
        console.out(f"  balance   {'not told' if account.balance is None else money(account.balance, account.currency) + unreal}")
        ours = [one for one in spending.pods if one.provider == name]
        console.out(f"  now       {money(sum(one.per_hour for one in ours if one.open), account.currency)} an hour")
        console.out(f"  today     {money(sum(one.today for one in ours), account.currency)}")
        for one in sorted(ours, key=lambda one: -one.spent)[:10]:
            console.out(f"  {one.name}  {one.text}, {duration(one.hours * 3600)}{'' if one.open else ', ended'}")
    if any(simulated for _, simulated, _ in found.values()):
        console.say("Prime is simulated: no real money.")
