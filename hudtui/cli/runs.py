"""`hudtui runs`: start, list, look at, follow and stop runs."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console

if TYPE_CHECKING:
    from hudtui.core.runs.launcher import Lookup
    from hudtui.core.runs.monitor import Monitor, RunView
    from hudtui.core.runs.store import RunStore
    from hudtui.core.runs.values import RunEvent, RunSummary
    from hudtui.core.workspace import Workspace

Run = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="Id or name of the run, or the beginning of its id; by default the newest.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Window = Annotated[str | None, typer.Option("--window", "-w", help="Only the log of this stage.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    runs = typer.Typer(help="Runs: list, show, follow, start and stop them.", invoke_without_command=True, rich_markup_mode=None)
    runs.callback()(_default)
    for name, command in (
        ("list", list_runs),
        ("show", show),
        ("logs", logs),
        ("start", start),
        ("stop", stop),
        ("attach", attach),
    ):
        runs.command(name)(command)
    app.add_typer(runs, name="runs")


def _default(context: typer.Context, as_json: Json = False) -> None:
    if context.invoked_subcommand is None:
        list_runs(as_json=as_json)


def list_runs(
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, the newest.")] = 20,
    active: Annotated[bool, typer.Option("--active", help="Only those that have not ended.")] = False,
    as_json: Json = False,
) -> None:
    """List the runs of this workspace, the newest first."""

    async def work() -> None:
        store, monitor = _open()
        await _reconcile(store)
        runs = [run for run in await monitor.refresh() if run.active or not active]
        shown = runs[: -limit - 1 : -1]
        views = [(run, await _view_or_none(monitor, run)) for run in shown]
        if as_json:
            console.out_json([{**run.to_json(), "reward": view.result.reward if view else None} for run, view in views])
            return
        if not runs:
            console.say("No runs yet. Start one: hudtui runs start --tasks FILE --config FILE")
            return
        _table(
            ("STATE", "RUN", "STAGE", "STARTED", "TIME", "REWARD", "NOTE"),
            [_list_row(run, view) for run, view in views],
        )
        if len(runs) > len(shown):
            console.say(f"{len(runs) - len(shown)} older ones are not shown; --limit N shows more.")

    console.run(work(), as_json=as_json)


def show(run: Run = None, as_json: Json = False) -> None:
    """Show one run: state, stages, result, and where everything is."""

    async def work() -> None:
        store, monitor = _open()
        await _reconcile(store)
        view = await monitor.view(store.find(run))
        if as_json:
            console.out_json({**view.to_json(), "plan": store.record(view.summary.id).plan.to_json()})
        else:
            _print_view(view)

    console.run(work(), as_json=as_json)


def logs(
    run: Run = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    window: Window = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="Begin so many lines before the end; 0 for none.")] = 200,
    everything: Annotated[bool, typer.Option("--all", help="Begin at the first line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line: window and text.")] = False,
) -> None:
    """Print the log of a run. Control sequences are taken out of it."""

    async def work() -> None:
        store, monitor = _open()
        chosen = store.find(run)
        await monitor.refresh()
        windows = [window] if window else [stage.name for stage in store.record(chosen).plan.stages]
        sink = _Sink(as_json, prefix=len(windows) > 1)
        count = None if everything else lines
        if follow:
            await _follow_all(monitor, chosen, windows, count, sink)
            summary = store.summary(chosen)
            console.say(f"run {summary.id} {summary.state}{f': {summary.why}' if summary.why else ''}")
        else:
            for name in windows:
                await _print_log(monitor, chosen, name, count, sink)

    console.run(work())


def start(
    tasks: Annotated[
        Path | None,
        typer.Option("--tasks", "-t", help="Task file; by default the only one in the workspace.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Gym configuration; by default the only one in the workspace.", show_default=False),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", "-e", help="What carries it out.")] = "rollouts",
    policy: Annotated[str, typer.Option("--policy", "-p", help="random, greedy, replay:TRACE, or openai:MODEL.")] = "greedy",
    name: Annotated[str | None, typer.Option("--name", help="What to call it.", show_default=False)] = None,
    group: Annotated[int, typer.Option("--group", "-r", min=1, help="Episodes for each task.")] = 1,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, max=256, help="Episodes at once.")] = 4,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Play only the first tasks.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Seed of the policy's choices.")] = None,
    max_turns: Annotated[int | None, typer.Option("--max-turns", min=1, help="Replies an episode may have.")] = None,
    base_url: Annotated[str | None, typer.Option("--base-url", help="Endpoint for openai:MODEL.")] = None,
    max_hours: Annotated[float | None, typer.Option("--max-hours", min=0.001, help="Stop the run after this time.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and start nothing.")] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow its log to the end.")] = False,
    no_tmux: Annotated[bool, typer.Option("--no-tmux", help="Detached processes, also where there is tmux.")] = False,
    as_json: Json = False,
) -> None:
    """Start a run on this machine. It goes on when hudtui and the terminal are closed."""

    async def work() -> None:
        from contextlib import aclosing

        from hudtui.core.remote.local import LocalHost
        from hudtui.core.runs import launcher
        from hudtui.core.runs.launcher import draft, launch, make_spec

        workspace = _workspace()
        spec = make_spec(
            workspace,
            engine=engine,
            tasks=tasks,
            config=config,
            policy=policy,
            name=name,
            group=group,
            concurrency=concurrency,
            limit=limit,
            seed=seed,
            max_turns=max_turns,
            base_url=base_url,
            max_seconds=None if max_hours is None else max_hours * 3600,
        )
        store, monitor = _open()
        record = draft(spec, LocalHost(), store)
        if dry_run:
            if as_json:
                console.out_json({"id": record.id, "folder": record.folder, "plan": record.plan.to_json()})
            else:
                _print_plan(record.plan.to_json(), record.folder)
            return
        await _reconcile(store)
        try:
            async with aclosing(launch(record, LocalHost(), store, lookup=_lookup(workspace), tmux=not no_tmux)) as events:
                async for event in events:
                    _say_event(event)
        except asyncio.CancelledError:  # Ctrl-C before it runs: it is not wanted
            if record.id in store.ids():
                await launcher.stop(record.id, LocalHost(), store)
                console.say(f"run {record.id} is not started")
            raise
        if follow:
            sink = _Sink(False, prefix=len(record.plan.stages) > 1, to_stderr=as_json)
            await _follow_all(monitor, record.id, [stage.name for stage in record.plan.stages], None, sink)
        view = await monitor.view(record.id)
        if as_json:
            console.out_json(view.to_json())
        elif follow:
            _print_view(view)
        else:
            console.out(record.id)
            console.say(f"hudtui runs logs -f {record.id}" + (f"   or   {' '.join(view.attach)}" if view.attach else ""))
        if follow and view.summary.state != "finished":
            raise typer.Exit(1)

    console.run(work(), as_json=as_json)


def stop(
    run: Run = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Do not wait for it to end by itself.")] = False,
    as_json: Json = False,
) -> None:
    """Stop a run, and make sure that it is gone."""

    async def work() -> None:
        from hudtui.core.runs import launcher

        store, _ = _open()
        await _reconcile(store)
        summary = store.summary(store.find(run))
        if not summary.active:
            console.say(f"run {summary.id} has ended already: {summary.state}")
        else:
            if not yes:
                _confirm(f"Stop run {summary.id} ({summary.name}, {summary.state})?")
            host = launcher.find_host(summary.host)
            if host is None:
                from hudtui.core.errors import MachineError

                raise MachineError(f"{summary.host} cannot be reached from here")
            summary = await launcher.stop(summary.id, host, store, grace=0.0 if now else None)
            console.say(f"run {summary.id} {summary.state}; nothing of it is left running")
        if as_json:
            console.out_json(summary.to_json())

    console.run(work(), as_json=as_json)


def attach(run: Run = None) -> None:
    """Show the tmux session of a run on this terminal; detach with tmux's prefix and d."""

    async def work() -> tuple[str, ...]:
        from hudtui.core.errors import RunError

        store, monitor = _open()
        view = await monitor.view(store.find(run))
        if view.attach is None:
            why = "it has ended" if not view.summary.active else "it runs as detached processes"
            raise RunError(f"run {view.summary.id} has no tmux session: {why}", fix=f"hudtui runs logs {view.summary.id}")
        return view.attach

    argv = console.run(work())
    if not console.interactive():
        console.out(" ".join(argv))
        return
    import os

    os.environ.pop("TMUX", None)
    os.execvp(argv[0], argv)


def _workspace() -> Workspace:
    from hudtui.core.workspace import open_workspace

    return open_workspace(Path.cwd())


def _open() -> tuple[RunStore, Monitor]:
    from hudtui.core.runs.monitor import Monitor
    from hudtui.core.runs.store import RunStore
    from hudtui.core.workspace import STATE

    store = RunStore(Path.cwd() / STATE)
    return store, Monitor(store)


def _lookup(workspace: Workspace) -> Lookup:
    from hudtui.core.settings import load_settings

    return load_settings(workspace.folder, workspace.platform).get


async def _reconcile(store: RunStore) -> None:
    from hudtui.core.runs.launcher import reconcile

    for notice in await reconcile(store):
        console.say(f"{notice.severity}: {notice.message}")


async def _view_or_none(monitor: Monitor, run: RunSummary) -> RunView | None:
    from hudtui.core.errors import HudtuiError

    with contextlib.suppress(HudtuiError):
        return await monitor.view(run.id)
    return None


def _confirm(question: str) -> None:
    if not console.interactive():
        raise typer.BadParameter("nobody can be asked here: add --yes", param_hint="--yes")
    typer.confirm(question, abort=True, err=True)


class _Sink:
    """Where log lines go."""

    def __init__(self, as_json: bool, *, prefix: bool, to_stderr: bool = False) -> None:
        self._json, self._prefix, self._stderr = as_json, prefix, to_stderr

    def put(self, window: str, lines: list[str]) -> None:
        if not lines:
            return
        if self._json:
            import json

            text = "\n".join(json.dumps({"window": window, "line": line}, ensure_ascii=False) for line in lines)
        else:
            text = "\n".join(f"{window} | {line}" for line in lines) if self._prefix else "\n".join(lines)
        # The lines are clean already, and there may be very many of them.
        stream = sys.stderr if self._stderr else sys.stdout
        stream.write(text + "\n")
        stream.flush()


async def _begin(monitor: Monitor, run: str, window: str, lines: int | None) -> int:
    return 0 if lines is None else await monitor.tail(run, window, lines=lines)


async def _follow_all(monitor: Monitor, run: str, windows: list[str], lines: int | None, sink: _Sink) -> None:
    try:
        await asyncio.gather(*(_follow(monitor, run, window, lines, sink) for window in windows))
    except asyncio.CancelledError:
        if monitor.store.summary(run).active:
            console.say("The run goes on; hudtui runs stop ends it.")
        raise


async def _follow(monitor: Monitor, run: str, window: str, lines: int | None, sink: _Sink) -> None:
    from contextlib import aclosing

    from hudtui.core.remote.lines import LineFeed

    offset = await _begin(monitor, run, window, lines)
    feed, partial = LineFeed(offset=offset), ""
    async with aclosing(monitor.follow(run, window, offset=offset)) as chunks:
        async for chunk in chunks:
            found = feed.feed(chunk)
            if found.restarted:
                console.say(f"{window}: the log was begun anew")
            sink.put(window, found.done)
            partial = found.partial
    if partial:
        sink.put(window, [partial])


async def _print_log(monitor: Monitor, run: str, window: str, lines: int | None, sink: _Sink) -> None:
    from hudtui.core.remote.lines import LineFeed

    offset = await _begin(monitor, run, window, lines)
    feed, partial = LineFeed(offset=offset), ""
    async for chunk in monitor.read(run, window, offset=offset):
        found = feed.feed(chunk)
        sink.put(window, found.done)
        partial = found.partial
    if partial:
        sink.put(window, [partial])


def _say_event(event: RunEvent) -> None:
    data = event.data
    if event.type == "planned":
        console.say(f"run {event.run}")
    elif event.type == "step":
        console.say(f"  {data.get('name')} {data.get('seconds', 0):.2f} s")
    elif event.type == "note":
        console.say(f"  {data.get('message')}")
    elif event.type == "stage_started":
        console.say(f"  stage {data.get('stage')} started")


def _state(run: RunSummary) -> str:
    from hudtui.core.runs.values import GLYPHS

    return f"{GLYPHS[run.state]} {run.state}"


def _list_row(run: RunSummary, view: RunView | None) -> tuple[str, ...]:
    reward = view.result.reward if view else None
    note = run.why or ("no sign of life for " + _seconds(view.silent) if view and view.worrying else "")
    return (
        _state(run),
        run.id,
        run.stage or "-",
        _clock(run.started or run.created),
        _seconds(run.elapsed(time.time())),
        "-" if reward is None else f"{reward:.3f}",
        note[:60],
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        console.out("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _print_view(view: RunView) -> None:
    run = view.summary
    facts: list[tuple[str, Any]] = [
        ("run", f"{run.id}  ({run.name})"),
        ("state", _state(run) + (f": {run.why}" if run.why else "")),
        ("engine", run.engine),
        ("started", _clock(run.started) if run.started else "-"),
        ("time", _seconds(view.elapsed)),
        ("folder", run.folder),
        ("attach", " ".join(view.attach) if view.attach else None),
    ]
    if view.silent is not None:
        facts.insert(5, ("last sign", f"{_seconds(view.silent)} ago" + (" (it may be dead)" if view.worrying else "")))
    for name, value in facts:
        if value is not None:
            console.out(f"{name:<10} {value}")
    for note in run.notes:
        console.out(f"{'note':<10} {note}")
    console.out()
    ends = [
        (stage.name, stage.state, "-" if stage.exit is None else str(stage.exit), _stage_time(stage)) for stage in view.stages
    ]
    _table(("STAGE", "STATE", "EXIT", "TIME"), ends)
    if view.result.rows:
        console.out()
        rows = [
            (row.task, f"{row.reward:.3f}", str(row.episodes), _number(row.turns), str(row.errors)) for row in view.result.rows
        ]
        _table(("TASK", "REWARD", "EPISODES", "TURNS", "ERRORS"), rows)
        console.out(f"mean reward {view.result.reward:.3f} over {view.result.episodes} episodes")


def _print_plan(plan: dict[str, Any], folder: str) -> None:
    import shlex

    console.out(f"folder     {folder}")
    for file in plan["files"]:
        source = file["source"]
        size = source["size"] if source else len(file["content"])
        console.out(f"file       {file['path']}  {size} bytes" + (f"  from {source['path']}" if source else ""))
    for stage in plan["stages"]:
        console.out(f"stage      {stage['name']}: {shlex.join(stage['argv'])}")
        if stage["cwd"]:
            console.out(f"             in {stage['cwd']}")
        if stage["secrets"]:
            console.out(f"             with the secrets {', '.join(stage['secrets'])}")
    for port in plan["ports"]:
        console.out(f"port       {port['number']}  {port['what']}")
    for output in plan["outputs"]:
        console.out(f"output     {output['path']}  {output['what']}")


def _stage_time(stage: Any) -> str:
    if stage.started is None:
        return "-"
    return _seconds((stage.ended or time.time()) - stage.started)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _clock(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 60:
        return f"{value:.1f}s"
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s"
