"""`hudtui pods`: the machines that are rented, what they cost, their end, and the wallet."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import compute, console
from hudtui.cli.command import top
from hudtui.cli.compute import Providers
from hudtui.cli.options import DryRun, Json, Limit, Yes
from hudtui.cli.person import Terminal
from hudtui.cli.pods_create import create
from hudtui.core.errors import InputError, MachineError
from hudtui.core.text import duration, money

if TYPE_CHECKING:
    from hudtui.core.compute.overview import PodsSnapshot
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.core.compute.pods import Ledger
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.reconcile import Reconciliation

Name = Annotated[
    str,
    typer.Argument(metavar="MACHINE", help="Name or id of the machine, or the beginning of one."),
]
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="MACHINE...", help="Names or ids of machines, or the beginnings of them."
    ),
]
_MAY_LIVE = "a machine may still be alive and cost money: hudtui pods list"


app = typer.Typer(
    help="Find offers; rent, list, reach and end machines.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@console.by_default(app)
@app.command("list")
@console.run_async()
async def list_pods(provider: Providers = None, as_json: Json = False) -> None:
    """List the machines that are rented now, with what they have cost so far.

    Machines of a provider that does not answer are shown in their last known state.
    """
    from hudtui.core.compute.costs import in_currency
    from hudtui.core.compute.pod_row import POD_HEAD

    async with compute.asked(compute.settings(), provider or (), paid=True) as providers:
        ledger = _ledger()
        found = await _look(providers, ledger)
        silent = {one.provider for one in found.silent}
        unclear = await ledger.run(lambda: [ledger.get(name) for name in found.unclear])
        unseen = [owned for owned in unclear if owned and owned.provider not in silent]
        simulated = frozenset(one.name for one in providers.values() if one.features.simulated)
    spending = found.spending
    if as_json:
        console.out_json(
            {
                "pods": [{**one.to_json(), "left_hours": found.left(one)} for one in found.pods],
                "unseen": [owned.to_json() for owned in unseen],
                "per_hour": in_currency(spending.currency, spending.per_hour),
                "per_hour_by_currency": spending.per_hour,
                "currency": spending.currency,
                "taken": [owned.to_json() for owned in found.taken],
                "silent": [one.to_json() for one in found.silent],
                "warnings": list(found.warnings),
            }
        )
        return
    if found.pods:
        compute.table(POD_HEAD, [one.cells(found.at) for one in found.pods], right=(3, 4, 5))
    elif not found.warnings:
        console.say(
            "No machine is rented now. hudtui pods offers lists offers; hudtui pods create rents "
            "one."
        )
    for owned in unseen:
        ago = duration(time.time() - owned.created)
        console.say(
            f"{owned.name} was asked for {ago} ago and is not listed: hudtui pods reconcile"
        )
    for owned in found.taken:
        console.say(
            f"{owned.name} has ended {duration(time.time() - owned.updated)} ago: {owned.why}"
        )
    _say_all((*(one.text(time.time()) for one in found.silent), *found.warnings), simulated)


app.command("create")(create)


@app.command("status")
@console.run_async()
async def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE...]", help="By default all rented machines."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show all details of machines."""
    from hudtui.core.compute.known_pods import find_pod

    ledger = _ledger()
    async with compute.asked(compute.settings(), paid=True) as providers:
        seen = await _look(providers, ledger)
        wanted = names or [
            one.pod.id or one.pod.name for one in seen.pods if one.pod.provider in providers
        ]
        found = [await find_pod(name, providers, ledger) for name in wanted]
        simulated = [one.name for one in providers.values() if one.features.simulated]
    rows = [seen.costed(one) for one in found]
    if as_json:
        console.out_json([one.to_json() for one in rows])
        return
    for one in rows:
        for label, text in one.facts(seen.at):
            console.out(f"{label:<8} {text}")
        console.out()
    if not (found or seen.warnings):
        console.say("No machine is rented now.")
    _say_all((*(one.text(time.time()) for one in seen.silent), *seen.warnings), simulated)


@app.command("ssh", context_settings={"ignore_unknown_options": True})
def ssh(
    name: Name,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="By default a shell.")
    ] = None,
    node: Annotated[
        int, typer.Option("--node", min=0, help="Number of the machine in a cluster, from 0.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the command for ssh, and do not run it.")
    ] = False,
) -> None:
    """Open a shell on a machine, or run a command there, by the system's ssh.

    It trusts no host key but the one that hudtui has seen, and uses your key for machines. The exit
    code is that of ssh: that of the command, or 255 without a connection.
    """

    async def work() -> tuple[str, ...]:
        from hudtui.core.compute.known_pods import find_pod
        from hudtui.core.compute.registry import pod_ssh_command

        settings = compute.settings()
        async with compute.asked(settings, paid=True) as providers:
            found = await find_pod(name, providers, _ledger())
            if not found.reachable:
                title = found.provider.title if found.provider is not None else found.pod.provider
                console.say(
                    f"{title} does not answer: its address is that {found.seen_text(time.time())}"
                )
            async with compute.busy(f"connecting to {found.pod.name}"):
                tty = console.interactive() or as_json or not command
                words = command or ()
                return await pod_ssh_command(found.pod, settings.get, words, tty=tty, node=node)

    argv = console.run(work(), as_json=as_json)
    if as_json:
        console.out_json({"argv": list(argv)})
    elif console.interactive() or command:
        try:
            os.execvp(argv[0], argv)
        except OSError as error:
            console.say(f"error: {argv[0]} cannot be started: {error.strerror}")
            raise typer.Exit(MachineError.exit_code) from None
    else:
        import shlex

        console.out(shlex.join(argv))


@app.command("limits")
@console.run_async()
async def limits(
    name: Name,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Spending limit for the machine, or none.")
    ] = None,
    day_budget: Annotated[
        str | None,
        typer.Option("--day-budget", help="Spending limit for all machines in a day, or none."),
    ] = None,
    max_hours: Annotated[
        str | None,
        typer.Option("--max-hours", help="Time limit for the machine in hours, or none."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the limits of a machine without a run, or change them: here, and for the guard on it."""
    from hudtui.core.compute.known_pods import find_pod
    from hudtui.core.compute.limits import Limits, limits_from_settings
    from hudtui.core.flows.rent import change_limits, limits_sentence

    settings, ledger = compute.settings(), _ledger()
    given = {"run_budget": budget, "day_budget": day_budget, "max_hours": max_hours}
    changes = {field: text for field, text in given.items() if text is not None}
    async with compute.asked(settings, paid=True) as providers:
        found = await find_pod(name, providers, ledger)
        if found.record is None:
            raise InputError(
                f"{found.pod.name or found.pod.id} was not rented by hudtui",
                why="hudtui keeps no limits for it.",
            )
        if not found.pod.alive:
            raise InputError(f"{found.record.name} has ended")
        if found.record.run is not None:
            run = found.record.run
            raise InputError(
                f"{found.record.name} has the limits of its run",
                fix=f"See: hudtui runs limits {run}",
            )
        none = limits_from_settings(settings) if changes else Limits(None, None, None, None)
        now = await ledger.run(ledger.limits, found.record.name) or none
        for field, text in changes.items():
            now = now.with_value(field, text)
        if changes:
            async with compute.busy(f"telling {found.record.name}"):
                guard = await change_limits(
                    found.pod, now, providers[found.pod.provider], ledger, settings.get
                )
            if guard:
                console.say(guard)
    if as_json:
        console.out_json(now.to_json())
    else:
        console.out(limits_sentence(now))


@app.command("terminate")
@console.run_async(when_ended=_MAY_LIVE)
async def terminate(
    names: Names, yes: Yes = False, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """End machines, verify that they have ended, and show their bills."""
    from hudtui.core.compute.known_pods import find_pod

    ledger = _ledger()
    async with compute.asked(compute.settings(), paid=True) as providers:
        found = [await find_pod(name, providers, ledger, ended=True) for name in names]
        already = [one for one in found if not one.pod.alive]
        for one in already:
            console.say(f"{one.pod.name or one.pod.id} has ended already")
        living = await _to_end([one for one in found if one.pod.alive], ledger)
        ended = await _end(living, ledger, Terminal(yes=yes, dry=dry_run, as_json=as_json))
    if as_json:
        console.out_json([*(one.to_json() for one in already), *ended])


async def _end(pods: Sequence[PodRow], ledger: Ledger, person: Terminal) -> list[dict[str, Any]]:
    """End pods and print how each has ended. Returns them as JSON values.

    Raises:
        Abort: The user declined.
    """
    from hudtui.core.flows.rent import Ended, end_pods

    simulated = {one.pod.provider: one.simulated for one in pods}
    ended: list[dict[str, Any]] = []
    line = compute.Spinner("")
    async with AsyncExitStack() as stack, aclosing(end_pods(pods, ledger, person)) as steps:
        async for step in steps:
            if isinstance(step, Ended):
                line.say(step.text)
                ended.append({**step.pod.to_json(), "simulated": simulated[step.pod.provider]})
            elif line.text:
                line.text = step.message
            else:
                line = await stack.enter_async_context(compute.busy(step.message))
    if pods and not ended:
        raise typer.Abort
    return ended


async def _to_end(found: Sequence[PodRow], ledger: Ledger) -> list[PodRow]:
    """Pods with what the user should know before their end."""
    from dataclasses import replace

    from hudtui.core.compute.costs import sum_costs
    from hudtui.core.compute.pod_row import unclaimed_reason
    from hudtui.core.runs.remote_run import is_run_active

    def work() -> list[PodRow]:
        costs = sum_costs(
            ledger, time.time(), here=[one.provider for one in found if one.provider is not None]
        )
        rows = []
        for one in found:
            over = one.run is not None and one.record is not None and not is_run_active(one.record)
            cost = costs.of(one.pod.name) or costs.of(one.pod.id)
            rows.append(
                replace(one, cost=cost, unclaimed=unclaimed_reason(one.record) if over else None)
            )
        return rows

    return await ledger.run(work)


@app.command("history")
@console.run_async()
async def history(
    provider: Providers = None,
    limit: Limit = 20,
    as_json: Json = False,
) -> None:
    """List the machines that ended lately with their cost and the reason, the newest first."""
    from hudtui.core.compute.known_pods import HISTORY_HEAD, history_row, pods_history

    async with (
        compute.asked(compute.settings(), provider or (), paid=True) as providers,
        compute.busy("asking for the history"),
    ):
        found, warnings = await pods_history(providers, _ledger())
    for warning in warnings:
        console.say(f"warning: {warning}")
    found = found[:limit]
    if as_json:
        console.out_json([one.to_json() for one in found])
    elif found:
        compute.table(HISTORY_HEAD, [history_row(one) for one in found], right=(3, 4, 5))
    else:
        console.say("No machine has ended yet.")


@app.command("reconcile")
def reconcile(
    end: Annotated[
        bool,
        typer.Option(
            "--end", help="End the machines without a run. Machines that you rented by hand stay."
        ),
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Compare the providers' machines with hudtui's records, and show machines without a run.

    Each is shown with its age and its cost.
    """
    console.run(
        _reconcile(end, Terminal(yes=yes, dry=dry_run, as_json=as_json), as_json=as_json),
        as_json=as_json,
        when_ended=_MAY_LIVE if end else "",
    )


async def _reconcile(end: bool, person: Terminal, *, as_json: bool) -> None:
    from hudtui.core.compute.reconcile import reconcile as compare

    ledger = _ledger()
    async with compute.asked(compute.settings(), paid=True) as providers:
        async with compute.busy("comparing"):
            found = await compare(providers, ledger)
        if not (as_json and end):
            _print_reconciled(found, providers, as_json)
        ended = await _end(found.orphans, ledger, person) if end else []
    if end and as_json:
        console.out_json(ended)


def _print_reconciled(
    found: Reconciliation, providers: Mapping[str, Provider], as_json: bool
) -> None:
    if as_json:
        console.out_json(found.to_json())
        return
    from hudtui.core.compute.pod_row import seen_text

    now = time.time()

    def row(orphan: PodRow) -> tuple[str, ...]:
        name, state, _, price, age, cost, *_ = orphan.cells(now)
        return name, state, price, age, cost, orphan.unclaimed or ""

    if found.orphans:
        compute.table(
            ("MACHINE", "STATE", "PRICE/H", "AGE", "COST", "WHY"),
            [row(one) for one in found.orphans],
            right=(2, 3, 4),
        )
        console.say(
            "No run owns these, and they cost money. hudtui pods reconcile --end ends them."
        )
    for owned in found.by_hand:
        console.say(
            f"{owned.name} was rented by hand, without a run, and costs money: hudtui pods "
            f"terminate {owned.name}"
        )
    for owned in found.lost:
        console.say(f"{owned.name} has ended: {owned.why or 'why is not known'}")
    for owned in found.unclear:
        console.say(
            f"{owned.name} may exist ({seen_text(owned.seen, now)}). It is looked for again at the "
            "next start."
        )
    if not (found.orphans or found.unclear or found.warnings):
        alive = f"{len(found.alive)} alive and owned" if found.alive else "none is alive"
        console.say(f"Every machine is accounted for; {alive}.")
    _say_all(
        found.warnings,
        [name for name, provider in providers.items() if provider.features.simulated],
    )


@top.command("wallet")
@console.run_async()
async def wallet(provider: Providers = None, as_json: Json = False) -> None:
    """Show the account, its balance, and the cost of the rented machines."""
    from hudtui.core.compute.costs import sum_costs, sum_text

    async with (
        compute.asked(compute.settings(), provider or (), paid=True) as providers,
        compute.busy("asking for the wallet"),
    ):
        found = {
            one.name: (one.title, one.features.simulated, await one.account())
            for one in providers.values()
        }
        accounts = {name: account for name, (_, _, account) in found.items()}
        ledger, here = _ledger(), tuple(providers.values())
        spending = await ledger.run(sum_costs, ledger, time.time(), here=here, accounts=accounts)
    if as_json:
        console.out_json(
            [
                {
                    **account.to_json(),
                    "provider": name,
                    "simulated": simulated,
                    **spending.to_json(name, account.currency),
                }
                for name, (_, simulated, account) in found.items()
            ]
        )
        return
    for name, (title, simulated, account) in found.items():
        unreal = " (simulated)" if simulated else ""
        console.out(f"{title}: {account.name}" + (f", team {account.team}" if account.team else ""))
        balance = None if account.balance is None else money(account.balance, account.currency)
        console.out(f"  balance   {'unknown' if balance is None else balance + unreal}")
        ours = spending.at(name)
        console.out(f"  now       {sum_text(ours.per_hour, account.currency)} an hour")
        console.out(f"  today     {sum_text(ours.today, account.currency)}")
        for one in sorted(ours.pods, key=lambda one: -one.spent)[:10]:
            console.out(
                f"  {one.name}  {one.text}, "
                f"{duration(one.hours * 3600)}{'' if one.open else ', ended'}"
            )
    unreal_ones = [name for name, (_, simulated, _) in found.items() if simulated]
    if unreal_ones:
        from hudtui.core.compute.registry import simulation_words

        console.say(f"{simulation_words(unreal_ones)}: no real money.")


async def _look(providers: Mapping[str, Provider], ledger: Ledger) -> PodsSnapshot:
    """All that is alive, and what it costs; of providers that do not answer what is known.

    Raises:
        ProviderError: None of them answers, and no machine there is known.
    """
    from hudtui.core.compute.overview import Overview
    from hudtui.core.compute.provider import ProviderError
    from hudtui.core.paths import app_paths

    async with compute.busy("asking for the rented machines"):
        found = await Overview(providers, ledger, cache=app_paths().cache / "offers.json").look()
    if found.silent and not found.pods and len(found.silent) == len(providers):
        raise ProviderError(
            found.silent[0].why, fix="hudtui knows of no machine there, but there may be one."
        )
    return found


def _ledger() -> Ledger:
    from hudtui.core.compute.pods import Ledger

    return Ledger()


def _say_all(warnings: Sequence[str], simulated: Collection[str]) -> None:
    from hudtui.core.compute.registry import simulation_words

    for warning in warnings:
        console.say(f"warning: {warning}")
    if simulated:
        console.say(f"{simulation_words(simulated)}: no real machines, no real money.")
