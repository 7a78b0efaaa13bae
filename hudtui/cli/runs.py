"""`hudtui runs`: start, list, look at, follow and stop runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console, runlog
from hudtui.cli.options import (
    DryRun,
    Json,
    Limit,
    LogOptions,
    TrainerSettings,
    Yes,
    takes_request,
)
from hudtui.cli.person import Terminal
from hudtui.cli.rl_run import How, carry_out, checked, manage
from hudtui.core.errors import MachineError
from hudtui.core.plain import to_plain
from hudtui.core.runs.request import RunRequest
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    from hudtui.core.runs.listing import RunRow
    from hudtui.core.runs.store import RunStore

Run = Annotated[
    str | None,
    typer.Argument(
        metavar="[RUN]",
        help="Id or name of the run, or the beginning of its id; by default the newest.",
    ),
]
NamedRun = Annotated[
    str, typer.Argument(help="A run: its id, its name, or the beginning of an id.")
]
Spot = Annotated[
    bool | None,
    typer.Option(
        "--spot/--no-spot",
        help="Rent a spot machine, or an on-demand machine; by default as before.",
    ),
]
Window = Annotated[str | None, typer.Option("--window", "-w", help="Only the log of this stage.")]


_LINES = 200
"""Lines before the end at which a log begins by default."""


app = typer.Typer(
    help="List, show, follow, start and stop runs.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@console.by_default(app)
@app.command("list")
@runlog.run_async()
async def list_runs(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILTER]...",
            help="Words or FIELD:VALUE, such as state:running model:qwen reward:>0.5.",
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="FIELD", help="Sort by this field, the smallest first."),
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The largest first, or the oldest.")
    ] = False,
    by: Annotated[
        str | None, typer.Option("--group", metavar="FIELD", help="List the runs by this field.")
    ] = None,
    limit: Limit = 20,
    active: Annotated[
        bool, typer.Option("--active", help="Only runs that have not ended.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also archived runs.")] = False,
    as_json: Json = False,
) -> None:
    """List the runs of this workspace, the newest first.

    A word of a filter is a regular expression that is searched for in every text of a run.
    FIELD:VALUE searches one field, FIELD:>NUMBER compares, and !WORD excludes. All must match. The
    fields are state, name, id, model, engine, tasks, config, machine, stage, started, minutes,
    cost, why, comment, tag, reward, step, steps and alarm.
    """
    from hudtui.core.row_filter import arrange, group, parse_filter
    from hudtui.core.runs.listing import RUN_FIELDS, RunRow, needs_views
    from hudtui.core.runs.run_lock import is_managed

    text = " ".join(wanted or ())
    asked = parse_filter(text, RUN_FIELDS)
    store, monitor = runlog.open_store()
    await runlog.reconcile_runs(store)
    known = [run for run in (await monitor.refresh())[::-1] if run.active or not active]
    summaries = [run for run in known if everything or not run.hidden]
    specs, now = await asyncio.to_thread(store.specs), time.time()

    async def read(rows: Sequence[RunRow]) -> list[RunRow]:
        views = {
            view.summary.id: view async for view in monitor.views(row.summary.id for row in rows)
        }
        return [replace(row, view=views.get(row.summary.id)) for row in rows]

    of_all = needs_views((*asked.fields, sort, by))
    rows = [RunRow(run, now, specs.get(run.id)) for run in summaries]
    found = arrange(
        await read(rows) if of_all else rows, RUN_FIELDS, wanted=text, sort=sort, reverse=reverse
    )
    shown = found[:limit] if of_all else await read(found[:limit])
    groups = [("", shown)] if by is None else group(shown, RUN_FIELDS, by)
    if as_json:
        console.out_json([_row_json(one) for _, members in groups for one in members])
        if len(found) > len(shown):
            console.say(_left_out(len(shown), len(found)))
        return
    if not known:
        start = (
            "Start one: hudtui rl TASKS --config FILE, or play tasks: hudtui runs start TASKS "
            "--config FILE"
        )
        console.say(f"No runs yet. {start}")
        return
    if len(known) > len(summaries):
        console.say(
            f"Not listed: {plural(len(known) - len(summaries), 'archived run')}; --all lists all."
        )
    if not found:
        if summaries:
            console.say("No run matches.")
        return
    cells = [
        _list_row(one, is_managed(store, one.summary.id))
        for _, members in groups
        for one in members
    ]
    console.table(
        (
            "STATE",
            "RUN",
            "MODEL",
            "STAGE",
            "STEP",
            "STARTED",
            "TIME",
            "REWARD",
            "COST",
            "HEARTBEAT",
            "NOTE",
        ),
        cells,
        titles=None
        if by is None
        else [(f"{by}: {value}", len(members)) for value, members in groups],
    )
    if len(found) > len(shown):
        console.say(_left_out(len(shown), len(found)))


def _left_out(shown: int, found: int) -> str:
    return f"{shown} of {found} runs are shown; --limit {found} shows all."


@app.command("show")
@runlog.run_async()
async def show(run: Run = None, as_json: Json = False) -> None:
    """Show one run: state, stages, result, and where everything is."""
    from hudtui.core.rollouts.telemetry import JOB_FILE, read_job
    from hudtui.core.runs.plan_text import plan_json
    from hudtui.core.runs.results import results_folder
    from hudtui.core.runs.watch import PATIENCE

    store, monitor = runlog.open_store()
    await runlog.reconcile_runs(store)
    wanted = await store.run(store.find, run)
    try:
        view = await monitor.view(wanted, within=PATIENCE)
    except (
        MachineError
    ) as error:  # what is known of a run is worth more than that its machine is silent
        view = await monitor.stored_view(wanted, f"{error.what}; this is what was known before")
    record = await store.run(store.record, wanted)
    job = read_job(results_folder(record, store) / "out" / JOB_FILE)
    if as_json:
        found = record.spec.continues
        continues = {"run": found.run, "step": found.step} if found else None
        told = None if job is None else to_plain(job)
        console.out_json(
            {**view.to_json(), "continues": continues, "job": told, "plan": plan_json(record)}
        )
    else:
        runlog.print_view(view, record, job)


@app.command("logs")
@takes_request(kind=LogOptions, to="log")
@runlog.run_async(compact=True)
async def logs(
    run: Run = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the run ends.")
    ] = False,
    window: Window = None,
    *,
    log: LogOptions,
    everything: Annotated[bool, typer.Option("--all", help="Start at the first line.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line: window and text.")
    ] = False,
) -> None:
    """Print the log of a run. Control sequences are taken out of it.

    `--grep` searches the whole log on its machine, and only the lines that match are fetched.
    Lower-case letters match upper-case ones, unless the pattern has an upper-case letter.
    """
    from hudtui.core.flows.notify import notifying
    from hudtui.core.project import open_project

    pattern = runlog.log_pattern(log)
    count = log.lines if log.lines is not None or everything or pattern is not None else _LINES
    part = runlog.LogPart(None if everything else count, pattern)
    store, monitor = runlog.open_store()
    chosen = await store.run(store.find, run)
    await monitor.refresh()
    if not follow:
        await monitor.require_answer(chosen)
    record = await store.run(store.record, chosen)
    windows = [window] if window else [stage.name for stage in record.plan.stages]
    sink = runlog.Sink(as_json, windows)
    if follow:
        async with notifying(chosen, open_project(), console.say):
            await runlog.follow_all(monitor, chosen, windows, part, sink)
        summary = await store.run(store.summary, chosen)
        console.say(f"run {summary.id} {summary.state}{f': {summary.why}' if summary.why else ''}")
    else:
        others = {stage.name for stage in record.plan.stages if stage.node}
        for name in windows:
            with runlog.lost_node(name, name in others and name != window):
                await runlog.print_log(monitor.log(chosen, name), name, part, sink)


@app.command("start")
@takes_request(
    *(
        "tasks",
        "config",
        "model",
        "engine",
        "policy",
        "training",
        "steps",
        "max_hours",
        "name",
        "group",
        "concurrency",
        "limit",
    ),
    *("seed", "max_turns", "dialect", "base_url", "python"),
    engine=None,
)
@takes_request("dry_run", "no_tmux", kind=How, to="how")
@runlog.run_async(when_ended=runlog.GOES_ON)
async def start(
    request: RunRequest,
    settings: TrainerSettings = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow its log to the end.")
    ] = False,
    *,
    how: How,
    as_json: Json = False,
) -> None:
    """Start a run on this machine: `hudtui rl --host local --detach --yes`.

    It continues when hudtui and the terminal are closed. Without --engine, it trains (trl) if this
    machine has a GPU, and plays the tasks (rollouts) if it has none.

    Exit code 1 if the run did not finish, with --follow.
    """
    from hudtui.core.remote.host import LOCAL
    from hudtui.core.runs.site import default_engine

    engine: str | None = request.engine
    chosen = replace(request, host=LOCAL, engine=engine or (await default_engine(LOCAL)).name)
    await carry_out(
        checked(chosen, settings),
        replace(how, yes=True, detach=not follow, brief=True),
        as_json=as_json,
    )


@app.command("stop")
@runlog.run_async()
async def stop(
    run: Run = None,
    yes: Yes = False,
    now: Annotated[
        bool, typer.Option("--now", help="End it at once, without time to finish.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Stop a run, and verify that it has ended."""
    from hudtui.core.flows.stop import stop as stop_flow
    from hudtui.core.project import open_project

    project = open_project()
    await runlog.reconcile_runs(project.runs)
    chosen = await project.runs.run(project.runs.find, run)
    summary = await project.runs.run(project.runs.summary, chosen)
    if dry_run and not summary.active and not summary.holds_machine:
        console.say(f"{summary.name or chosen} has ended already: {summary.state}.")
        if as_json:
            console.out_json({"dry_run": True, "question": None, "facts": []})
        return
    person = Terminal(yes=yes, dry=dry_run, as_json=as_json)
    stopped = await stop_flow(chosen, project, person, now=now, progress=runlog.progress())
    if stopped is None:
        raise typer.Abort
    console.say(stopped.report)
    if stopped.summary.results is not None:
        console.say(f"its results are in {stopped.summary.results}")
    if as_json:
        console.out_json(stopped.summary.to_json())


@app.command("attach")
def attach(run: Run = None) -> None:
    """Show the tmux session of a run on this terminal; detach with tmux's prefix and d."""
    argv = _attach_command(run)
    if not console.interactive():
        import shlex

        console.out(shlex.join(argv))
        return
    import os

    os.environ.pop("TMUX", None)
    os.execvp(argv[0], argv)


@runlog.run_async()
async def _attach_command(run: str | None) -> tuple[str, ...]:
    from hudtui.core.runs.watch import attach_command

    store, monitor = runlog.open_store()
    return await attach_command(monitor, await store.run(store.find, run))


@app.command("resume")
@runlog.run_async(
    when_ended="a run that has started continues; hudtui runs resume manages it again"
)
async def resume(run: Run = None, as_json: Json = False) -> None:
    """Manage a run on a rented machine: continue its launch, fetch its results, end its machine."""
    from hudtui.core.project import open_project

    project = open_project()
    store = project.runs
    summary = await store.run(lambda: store.summary(store.find(run)))
    if not summary.active and not summary.holds_machine:
        console.say(f"run {summary.id} has ended, and nothing is left to do")
    else:
        await manage(project, summary.id, tmux=True)
        summary = await store.run(store.summary, summary.id)
    if as_json:
        console.out_json(summary.to_json())


@app.command("rerun")
@takes_request("yes", "detach", "dry_run", "no_tmux", kind=How, to="how")
@runlog.run_async(when_ended=runlog.GOES_ON)
async def rerun(run: Run = None, spot: Spot = None, *, how: How, as_json: Json = False) -> None:
    """Start a run again: the same files, settings, kind of machine and limits, in a run of its own.

    Everything is checked as by `hudtui rl`, and nothing is rented before you agree. Files are used
    as they are now. A rented machine is chosen again among the provider's offers with the same
    GPUs: a spot machine among the spot offers, any other machine among the others.
    """
    from hudtui.core.flows.again import rerun_request
    from hudtui.core.project import open_project

    project = open_project()
    chosen = await project.runs.run(project.runs.find, run)
    request = await rerun_request(chosen, project, Terminal(yes=how.yes), spot=spot)
    await carry_out(request, how, as_json=as_json)


@app.command("continue")
@takes_request("yes", "detach", "dry_run", "no_tmux", kind=How, to="how")
@runlog.run_async(when_ended=runlog.GOES_ON)
async def continue_run(
    run: Run = None,
    step: Annotated[
        int | None,
        typer.Option("--step", min=0, help="Checkpoint to continue from; by default the last."),
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Steps in all; by default as before.")
    ] = None,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            help="Your machine to continue on, again for each further node; by default as before.",
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=1, help="Machines to rent as one; by default as before."),
    ] = None,
    spot: Spot = None,
    *,
    how: How,
    as_json: Json = False,
) -> None:
    """Continue a training that failed or was stopped from its last checkpoint.

    Rollouts continue after their last episode.

    The continuation is a run of its own with the same files, settings, kind of machine and limits.
    It takes the checkpoint and the metrics of the earlier run along, so that its curves begin where
    that one's begin. `--steps` also continues a training that has finished. To manage a rented
    machine again that is still running, use `hudtui runs resume`.
    """
    from hudtui.core.flows.again import continue_request
    from hudtui.core.project import open_project

    project, (_, monitor) = open_project(), runlog.open_store()
    await monitor.refresh()
    chosen = await project.runs.run(project.runs.find, run)
    request = await continue_request(
        chosen,
        project,
        step=step,
        steps=steps,
        spot=spot,
        hosts=tuple(host or ()),
        nodes=nodes,
        progress=runlog.progress(),
    )
    await carry_out(request, how, as_json=as_json)


@app.command("pull")
@runlog.run_async()
async def pull(
    run: Run = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Folder for the results; by default the run's own."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Copy the results of a run to this computer. The run may still be running.

    Files that are here already are not copied again.
    """
    from hudtui.core.runs.results import pull as pull_results

    store, monitor = runlog.open_store()
    chosen = await store.run(store.find, run)
    await monitor.refresh()
    await monitor.require_answer(chosen)
    results = await pull_results(chosen, store, output=output, progress=runlog.progress())
    if as_json:
        console.out_json(
            {
                "folder": str(results.folder),
                "files": results.files,
                "bytes": results.size,
                "fetched": results.fetched,
                "left": list(results.skipped),
            }
        )
        return
    console.out(str(results.folder))
    console.say(f"{results.files} files, {results.size:,} bytes; {results.fetched:,} bytes copied")
    if results.skipped_text:
        console.say(results.skipped_text)


@app.command("limits")
@runlog.run_async()
async def limits(
    run: Run = None,
    max_hours: Annotated[
        str | None, typer.Option("--max-hours", help="Time limit in hours, or none.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option("--budget", help="Spending limit for its machine, or none.")
    ] = None,
    idle_minutes: Annotated[
        str | None,
        typer.Option(
            "--idle-minutes", help="End the machine after this many idle minutes, or none."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the limits of a run, or change them while it runs: here, and on its machine."""
    from hudtui.cli import compute
    from hudtui.core.flows.limits import set_limits
    from hudtui.core.project import open_project

    project = open_project()
    chosen = await project.runs.run(project.runs.find, run)
    given = {"max_hours": max_hours, "run_budget": budget, "idle_minutes": idle_minutes}
    wishes = {name: text for name, text in given.items() if text is not None}
    async with compute.busy(f"telling the machine of {chosen}") as line:
        found = await set_limits(chosen, project, wishes, say=line.say)
    if as_json:
        console.out_json(found.limits.to_json())
    else:
        console.out(found.text)


@app.command("rename")
def rename(
    run: NamedRun,
    name: Annotated[str, typer.Argument(help="The new name.")],
    as_json: Json = False,
) -> None:
    """Give a run another name. Its id and its folder stay."""
    with console.failures(as_json=as_json):
        store, _ = runlog.open_store()
        found = store.find(run)
        store.rename(found, name)
        _changed(store, found, as_json)


@app.command("comment")
def comment(
    run: NamedRun,
    text: Annotated[str, typer.Argument(help="The comment; an empty text removes it.")],
    as_json: Json = False,
) -> None:
    """Write a comment on a run, which the list and the run show."""
    with console.failures(as_json=as_json):
        store, _ = runlog.open_store()
        found = store.find(run)
        store.comment(found, text)
        _changed(store, found, as_json)


@app.command("tag")
def tag(
    run: NamedRun,
    tags: Annotated[
        list[str],
        typer.Argument(metavar="TAG...", help="Words without spaces.", show_default=False),
    ],
    remove: Annotated[bool, typer.Option("--remove", help="Take the tags from the run.")] = False,
    as_json: Json = False,
) -> None:
    """Give a run tags; `runs list tag:TAG` lists the runs that have a tag."""
    with console.failures(as_json=as_json):
        store, _ = runlog.open_store()
        found = store.find(run)
        store.tag([found], add=() if remove else tags, remove=tags if remove else ())
        _changed(store, found, as_json)


@app.command("archive")
def archive(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Ids or names of runs that have ended.", show_default=False
        ),
    ],
    undo: Annotated[
        bool, typer.Option("--undo", help="Restore the runs from the archive.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Archive runs that have ended: `runs list` lists them only with --all.

    Their files stay where they are.
    """
    with console.failures(as_json=as_json):
        store, _ = runlog.open_store()
        found = [store.find(run) for run in runs]
        store.archive(found, undo=undo)
        if as_json:
            console.out_json([{"run": run, "archived": not undo} for run in found])
        else:
            console.say(f"{', '.join(found)}: {'listed again' if undo else 'archived'}")


@app.command("acknowledge")
@console.run_async()
@runlog.machines()
async def acknowledge(
    run: Run = None,
    kinds: Annotated[
        list[str] | None,
        typer.Option(
            "--alarm",
            metavar="KIND",
            help="Only alarms of this kind, such as disk; may be repeated.",
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="The alarms are not acknowledged any more.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Acknowledge the alarms of a run.

    They stay listed, and are neither counted nor announced until they come again.

    An unknown kind is refused with the list of them.
    """
    from hudtui.core.runs.watch import acknowledge as acknowledge_alarms

    store, monitor = runlog.open_store()
    chosen = await store.run(store.find, run)
    changed = await acknowledge_alarms(await monitor.view(chosen), store, kinds or (), undo=undo)
    alarms = (await monitor.view(chosen)).alarms if changed or as_json else ()
    if as_json:
        console.out_json(
            {
                "run": chosen,
                "changed": len(changed),
                "alarms": [alarm.to_json() for alarm in alarms],
            }
        )
    elif not changed:
        console.say(f"{chosen}: no alarm to {'undo this for' if undo else 'acknowledge'}")
    else:
        for alarm in alarms:
            console.say(f"{chosen}: {alarm.told}")


@app.command("settings")
def settings(
    run: Run = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that differ from their defaults.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the settings of a run, as they were planned.

    They are the model, trainer, tasks, machine, limits, variables and versions.

    Of a training, every setting of the trainer is shown, with its default where it differs from
    that. Values of variables that may hold a secret are not shown.
    """
    with console.failures(as_json=as_json):
        from hudtui.core.row_filter import group
        from hudtui.core.runs.run_settings import SETTING_FIELDS, settings_of

        store, _ = runlog.open_store()
        record = store.record(store.find(run))
        found = [one for one in settings_of(record) if one.changed or not changed]
        if as_json:
            console.out_json({"run": record.id, "settings": [one.to_json() for one in found]})
        elif not found:
            console.say("no setting differs from its default")
        else:
            groups = group(found, SETTING_FIELDS, "group")
            rows = [
                (f"  {one.label}", one.text, one.default_text if one.changed else "")
                for one in found
            ]
            titles = [(title, len(members)) for title, members in groups]
            console.table(("SETTING", "VALUE", "DEFAULT"), rows, titles=titles)


@app.command("diff")
def diff(
    runs: Annotated[list[str], typer.Argument(help="Two or more runs.")],
    as_json: Json = False,
) -> None:
    """Show the settings in which runs differ."""
    with console.failures(as_json=as_json):
        from hudtui.core.runs.run_settings import differences

        if len(runs) < 2:
            raise typer.BadParameter("name two runs or more", param_hint="RUNS")
        store, _ = runlog.open_store()
        records = [store.record(store.find(run)) for run in runs]
        found = differences(records)
        if as_json:
            rows = [{"field": one.field, "values": list(one.values)} for one in found]
            console.out_json({"runs": [record.id for record in records], "differences": rows})
        elif not found:
            console.say("the settings of these runs are the same")
        else:
            head = ("SETTING", *(record.id for record in records))
            console.table(head, [(one.field, *one.texts) for one in found])


@app.command("rm")
@runlog.run_async()
async def remove(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids or names of runs, or the beginnings of ids; by default the newest run.",
        ),
    ] = None,
    yes: Yes = False,
    keep_results: Annotated[
        bool, typer.Option("--keep-results", help="Leave the files on this computer.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove runs that have ended.

    Their folders on their machines go, their files here, and their places in the list.

    If one of the runs has not ended, or its rented machine may still be there, nothing is removed.
    """
    from hudtui.core.flows.remove import Removed
    from hudtui.core.flows.remove import remove as remove_flow
    from hudtui.core.project import open_project

    project = open_project()
    store = project.runs
    chosen = await store.run(lambda: [store.find(run) for run in runs or (None,)])
    removed: list[dict[str, Any]] = []
    async with aclosing(
        remove_flow(
            chosen,
            project,
            Terminal(yes=yes, dry=dry_run, as_json=as_json),
            keep_results=keep_results,
        )
    ) as steps:
        async for step in steps:
            if isinstance(step, Removed):
                removed.append({"run": step.run, "removed": list(step.gone)})
                for line in step.gone:
                    console.say(line)
            elif step.total != 1:
                console.say(step.message)
    if not removed:
        raise typer.Abort
    if as_json:
        console.out_json(removed)


def _changed(store: RunStore, run: str, as_json: bool) -> None:
    summary = store.summary(run)
    if as_json:
        console.out_json(
            {
                "run": run,
                "name": summary.name,
                "comment": summary.comment,
                "tags": list(summary.tags),
            }
        )
    else:
        console.say(": ".join(filter(None, (run, summary.name, summary.labels))))


def _row_json(row: RunRow) -> dict[str, Any]:
    run, view = row.summary, row.view
    return {
        **run.to_json(),
        "model": row.model,
        "reward": row.reward,
        "step": row.step,
        "cost": run.cost(row.now),
        "silent_seconds": view.silent if view else None,
        "alarms": [alarm.to_json() for alarm in view.alarms] if view else [],
    }


def _list_row(row: RunRow, tended: bool) -> tuple[str, ...]:
    run, view = row.summary, row.view
    note = run.why or (f"! {row.alarm}" if row.alarm else clean_line(run.labels))
    if not run.active and run.holds_machine:
        note = f"its machine may still cost money: hudtui runs resume {run.id}"
        if tended:
            note = "its results are being fetched, and its machine is being ended"
    return (
        runlog.state_text(run),
        run.id,
        clean_line((row.model or "-").rpartition("/")[2], 24),
        run.stage or "-",
        (view.step if view is not None else None) or "-",
        runlog.clock(run.started or run.created),
        runlog.seconds_text(run.elapsed(row.now) if view is None else view.elapsed),
        "-" if row.reward is None else f"{row.reward:.3f}",
        runlog.cost_text(run) + run.cost_note,
        "-" if view is None or view.silent is None else runlog.seconds_text(view.silent),
        note[:70],
    )
