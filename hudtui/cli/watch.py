"""`hudtui runs metrics` and `hudtui watch`: the numbers of runs, and what others have started."""

from __future__ import annotations

import math
import os
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console, runlog
from hudtui.cli import runs as runs_group
from hudtui.cli.options import LogOptions, takes_request
from hudtui.core.knobs import knob
from hudtui.core.text import clean_line, plural, step_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hudtui.core.diagnosis.facts import Alarm
    from hudtui.core.remote.host import Host
    from hudtui.core.runs.external import ExternalPlace, ExternalRun
    from hudtui.core.runs.heat import HeatRow
    from hudtui.core.runs.sessions import ExternalSession, SessionUpdate, SessionWatcher
    from hudtui.core.runs.status import RunView
    from hudtui.core.training.metrics import MetricsReader

_CURVE = 40
_LINES = 200
"""Lines before the end at which a log begins by default."""


@runs_group.app.command("metrics")
@console.run_async()
async def metrics(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|PATH]...",
            help="Ids or names of runs, or logs, files and folders of any trainer or tracker, here "
            "or elsewhere (HOST:PATH); by default the newest run.",
        ),
    ] = None,
    others: Annotated[
        bool, typer.Option("--all", help="Also metrics without a common name.")
    ] = False,
    machine: Annotated[
        bool,
        typer.Option("--machine", help="The load of its machines instead, and of each GPU."),
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Write the numbers into a file; - prints them."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", metavar="FILE", help="Draw all charts into an SVG file."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, with every point.")] = False,
) -> None:
    """Show the metrics of runs: reward, loss, KL and others, with their curves.

    Of runs that hudtui did not start, too. --csv writes a line for each run and step, and a column
    for each number; --picture draws the curves of all runs in the same charts.
    """
    if machine and (others or csv is not None or picture is not None):
        raise typer.BadParameter(
            "all of the load is printed, also as --json: it goes without --all, --csv and "
            "--picture",
            param_hint="--machine",
        )
    async with runlog.machines():
        views = [await _view(run) for run in runs or (None,)]
    if csv is not None or picture is not None:
        _write_curves(views, csv, picture, force)
        return
    if machine:
        _loads(views, as_json)
        return
    if as_json:
        told = [
            {"id": view.summary.id, "name": view.summary.name, **_data(view.metrics)}
            for view in views
        ]
        console.out_json({"runs": told})
        return
    for place, view in enumerate(views):
        if place:
            console.out()
        head = f"{view.summary.id}  {view.summary.state}"
        console.out(f"{head}  step {view.step}" if view.step else head)
        _table(view.metrics, others)
        for alarm in view.alarms:
            console.say(f"{view.summary.id}: {alarm.told}")


async def _view(run: str | None) -> RunView:
    """Return the state of a run of this project, or the numbers of another one."""
    from hudtui.core.runs.external import read_external, read_place

    place = None if run is None else read_place(run)
    if run is not None and place is not None and place.file is not None:
        view = await read_external(place)
        # Two logs may have one name: the path tells them apart.
        return replace(view, summary=replace(view.summary, id=clean_line(run)))
    store, monitor = runlog.open_store()
    return await monitor.view(await store.run(lambda: store.find(run)))


def _loads(views: Sequence[RunView], as_json: bool) -> None:
    """Print the load of the machines of runs: a line for each GPU or node, and each measure."""
    from hudtui.core.runs.heat import heat_maps, other_rows

    told = [(view.summary, heat_maps(view), other_rows(view)) for view in views]
    if as_json:
        console.out_json(
            {
                "runs": [
                    {
                        "id": run.id,
                        "name": run.name,
                        "maps": [one.to_json() for one in maps],
                        "others": [row.to_json() for row in others],
                    }
                    for run, maps, others in told
                ]
            }
        )
        return
    for run, maps, others in told:
        console.out(run.id)
        if not (maps or others):
            console.say("Nothing is known of the load of its machine.")
        for one in maps:
            _print_load(one.title, one.rows, one.scale)
        if others:
            _print_load("machine", others)


def _print_load(
    title: str, rows: Sequence[HeatRow], scale: tuple[float, float] | None = None
) -> None:
    """Print the newest, the lowest and the highest sample of each row, and its curve."""
    from hudtui.core.training.axes import figure
    from hudtui.core.training.sparkline import sparkline

    cells = []
    for row in rows:
        told = map(figure, (row.values[-1], min(row.values), max(row.values)))
        cells.append((row.label, *told, sparkline(row.values, _CURVE, scale=scale)))
    console.out()
    console.table((title, "LAST", "MIN", "MAX", ""), cells, right=(1, 2, 3))


def _write_curves(
    views: Sequence[RunView], csv: Path | None, picture: Path | None, force: bool
) -> None:
    from hudtui.core.files import write_atomic
    from hudtui.core.training.curve_files import charts_of, curve_file

    names = [view.summary.name for view in views]
    runs = {
        view.summary.name if names.count(view.summary.name) == 1 else view.summary.id: view.metrics
        for view in views
    }
    charts = charts_of(runs)
    files = [(path, end) for path, end in ((csv, ".csv"), (picture, ".svg")) if path is not None]
    for path, _ in files:
        _check_target(path, force)
    for path, ending in files:
        text = curve_file(charts, ending)
        if str(path) == "-":
            console.out(text.rstrip("\n"))
            continue
        write_atomic(path, text)
        console.say(f"{plural(len(charts), 'chart')} in {console.shown(path)}")


def _check_target(path: Path, force: bool) -> None:
    from hudtui.core.errors import InputError

    if str(path) == "-":
        return
    if os.path.exists(path) and not force:
        raise InputError(f"{console.shown(path)} exists", fix="Add --force to replace it.")
    if not os.path.isdir(path.parent):
        raise InputError(
            f"{console.shown(path.parent)} is no folder", fix="Make it first, or name another file."
        )


@dataclass(frozen=True, kw_only=True)
class WatchOptions(LogOptions):
    """Choice of a session on a machine, and of its output."""

    session: str | None = knob(
        None,
        "A tmux session there, or the beginning of its name; with --file, a run in a trackio "
        "database.",
        "--session",
        "-s",
    )
    file: str | None = knob(
        None,
        "A log there, the folder of a trainer, or a file or folder of W&B, TensorBoard, trackio or "
        "transformers.",
    )
    port: int | None = knob(
        None, "Show the vLLM server on this port there.", minimum=1, maximum=65535
    )
    log: bool = knob(False, "Print every line, not only numbers and problems.", "--log")
    follow: bool = knob(
        False, "Print what comes, also at a terminal, where the app would open.", "--follow", "-f"
    )
    once: bool = knob(False, "Print what the log holds now, and end.", "--once")
    sessions: bool = knob(False, "List the tmux sessions there, and end.", "--list")

    @property
    def prints(self) -> bool:
        """Return whether an option asks for something that is printed."""
        asked = self.follow or self.once or self.log or self.sessions
        return asked or self.lines is not None or self.grep is not None


@runs_group.app.command("watch")
@takes_request(
    *("session", "file", "port", "follow", "once", "lines", "grep", "log", "sessions"),
    kind=WatchOptions,
)
def watch(
    target: Annotated[
        str,
        typer.Argument(
            help="A log, file or folder here or elsewhere (HOST:PATH), or a machine: `local`, a "
            "name of ~/.ssh/config, user@host[:port]."
        ),
    ],
    *,
    request: WatchOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Follow a run that hudtui did not start, or one of a colleague's.

    The run is a tmux session, a log, or a file or folder of a tracker, on any machine.

    At a terminal the app opens on it, with its curves and its log; Runs lists it from then on.
    --follow, --once, --json and the other options of what is printed print instead, as does a
    pipe.

    It shows what it recognises: the numbers of TRL, verl, prime-rl, OpenRLHF, ART, vLLM and
    others. It reads key=value and JSON lines, files of W&B, TensorBoard, trackio and
    transformers, and lines that report a problem. In the folder of a trainer or a tracker, it
    follows the newest run. Steps are those of the trainer, by its own field, its progress bar
    or its epochs. Read-only: nothing is sent to the session, and nothing is written on the
    machine.
    """
    from hudtui.core.runs.external import read_place

    if request.port is not None and (request.session or request.file or request.sessions):
        raise typer.BadParameter("a model server is shown alone", param_hint="--port")
    place = read_place(target, session=request.session, file=request.file, port=request.port)
    if not as_json and not request.prints and console.at_terminal():
        _open(place)
    if request.port is not None:
        console.run(
            _watch_server(target, request.port, request.once, as_json),
            as_json=as_json,
            compact=True,
        )
        return
    if not request.sessions:
        target, request = place.machine, replace(request, file=place.file)
    console.run(_watch(target, request, as_json), as_json=as_json, compact=not request.sessions)


def _open(place: ExternalPlace) -> None:
    """Open the app on an external run.

    What is wrong with a folder here is said before.
    """
    from hudtui.core.diagnosis.alarms import read_thresholds
    from hudtui.core.remote.host import LOCAL
    from hudtui.core.runs.external import find_external

    external: ExternalPlace | ExternalRun = place
    if place.machine == LOCAL and place.port is None:
        thresholds = partial(read_thresholds, Path.cwd())
        external = console.run(find_external(place, thresholds=thresholds))
    from hudtui.tui.app import run_app

    raise typer.Exit(run_app(debug=console.debug, opens=("run", {"external": external})))


async def _watch_server(target: str, port: int, once: bool, as_json: bool) -> None:
    """Print the numbers of a model server every two seconds, until the user ends it."""
    from hudtui.core.remote.hosts import open_host
    from hudtui.core.runs.status import server_text
    from hudtui.core.runs.vllm import follow_server

    async with runlog.machines(), aclosing(follow_server(await open_host(target), port)) as states:
        async for server in states:
            if as_json:
                console.out_json(server.to_json(), compact=True)
            else:
                console.out(server_text(server))
            if once:
                return


async def _watch(target: str, request: WatchOptions, as_json: bool) -> None:
    from hudtui.core.diagnosis.alarms import read_thresholds
    from hudtui.core.remote.hosts import open_host
    from hudtui.core.runs.sessions import SessionWatcher, find_session

    pattern = runlog.log_pattern(request)
    async with runlog.machines():
        host = await open_host(target)
        if request.sessions:
            await _list(host, as_json)
            return
        foreign = await find_session(host, session=request.session, file=request.file)
        console.say(_about(foreign, host.name))
        count = _LINES if request.lines is None else request.lines
        watching = SessionWatcher(host, foreign, lines=count, from_when=read_thresholds(Path.cwd()))
        if pattern is not None:
            await _filtered(watching, runlog.LogPart(request.lines, pattern), request.once, as_json)
            return
        sink = _Sink(watching, log=request.log, as_json=as_json)
        try:
            async with aclosing(watching.follow(once=request.once)) as events:
                async for seen in events:
                    await watching.diagnose(last=request.once)
                    sink.put(seen)
        finally:
            if not as_json and watching.numbers.told:
                console.out()
                _table(watching.numbers, others=False, more="--json")
                if watching.window is not None:
                    console.say(watching.window)
        if request.once and not as_json and not watching.numbers.told:
            console.say("No numbers were recognised.")


async def _filtered(
    watching: SessionWatcher, part: runlog.LogPart, once: bool, as_json: bool
) -> None:
    """Print the lines of the logs that match, from their first lines on."""
    from hudtui.core.errors import InputError

    async with aclosing(watching.follow(once=True)) as events:
        async for _ in events:
            pass  # what the sources are is known now
    sources = [source.name for source in watching.foreign.sources]
    logs = {name: log for name in sources if (log := watching.log(name)) is not None}
    if not logs:
        raise InputError(
            "there is no log to search",
            why="a terminal keeps no earlier lines",
            fix="Name a log: --file PATH.",
        )
    sink = runlog.Sink(as_json, tuple(logs), key="source")
    if not once:
        await runlog.follow_logs(logs, part, sink)
        return
    for name, log in logs.items():
        await runlog.print_log(log, name, part, sink)


async def _list(host: Host, as_json: bool) -> None:
    from hudtui.core.runs.sessions import list_tmux_sessions

    found = await list_tmux_sessions(host)
    if as_json:
        console.out_json([one.to_json() for one in found])
        return
    for one in found:
        windows = ", ".join(dict.fromkeys(pane.window for pane in one.panes))
        console.out(f"{one.name}  {windows}{'  (a run of hudtui)' if one.run else ''}")
    if not found:
        console.say(f"{host.name} has no tmux session")


def _about(foreign: ExternalSession, host: str) -> str:
    parts = ", ".join(source.name for source in foreign.sources)
    return f"watching {foreign.title} on {host}: {parts}" + (
        f" (run folder {foreign.folder})" if foreign.folder else ""
    )


class _Sink:
    """Prints what is recognised."""

    def __init__(self, watching: SessionWatcher, *, log: bool, as_json: bool) -> None:
        self._watching = watching
        self._several = len(watching.foreign.sources) > 1
        self._log, self._json = log, as_json
        self._told: set[tuple[str, ...]] = set()

    def _alarms(self) -> list[Alarm]:
        """New alarms that no line reports."""
        alarms = {alarm.identity: alarm for alarm in self._watching.alarms if not alarm.logged}
        fresh = [alarm for identity, alarm in alarms.items() if identity not in self._told]
        self._told = set(alarms)
        return fresh

    def put(self, seen: SessionUpdate) -> None:
        if self._json:
            self._put_json(seen)
            return
        prefix = f"{seen.source} | " if self._several else ""
        if self._log:
            for line in seen.lines:
                console.out(prefix + line)
        else:
            for row in seen.rows:
                console.out(prefix + _sentence(row))
        for sign in seen.signs:
            console.say(f"{prefix}! {sign.line}" + (f"\n  {sign.fix}" if sign.fix else ""))
        for alarm in self._alarms():
            console.say(f"! {alarm.text}" + (f"\n  {alarm.fix}" if alarm.fix else ""))
        if seen.note:
            console.say(f"{prefix}{seen.note}")

    def _put_json(self, seen: SessionUpdate) -> None:
        base = {"source": seen.source, "at": round(seen.at, 3)}
        if self._log:
            for line in seen.lines:
                console.out_json({**base, "line": line}, compact=True)
        for row in seen.rows:
            console.out_json({**base, "metrics": _finite(row)}, compact=True)
        for sign in seen.signs:
            console.out_json(
                {**base, "alarm": {"kind": sign.kind, "text": sign.line, "fix": sign.fix}},
                compact=True,
            )
        for alarm in self._alarms():
            console.out_json(
                {**base, "alarm": {"kind": alarm.kind, "text": alarm.text, "fix": alarm.fix}},
                compact=True,
            )
        if seen.note:
            console.out_json({**base, "note": seen.note}, compact=True)


def _finite(row: Mapping[str, float]) -> dict[str, float | None]:
    """JSON knows no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in row.items()}


def _sentence(row: Mapping[str, float]) -> str:
    """The known quantities of a line, in a fixed order.

    Of the line that sums a training up its numbers, by their own names.
    """
    from hudtui.core.training.metrics import (
        LAST_STEPS,
        QUANTITIES,
        STEPS,
        best_series,
        is_number,
        step_of,
        sums_up,
    )

    step, last = (
        step_of(row),
        next((row[name] for name in LAST_STEPS if is_number(row.get(name))), None),
    )
    parts = (
        []
        if step is None
        else [f"step {step_text(step)}" + (f"/{step_text(last)}" if last is not None else "")]
    )
    if sums_up(row):
        numbers = [
            f"{name} {value:.4g}"
            for name, value in row.items()
            if name not in (*STEPS, *LAST_STEPS, "epoch")
        ]
        return "  ".join([*parts, "the training in sum:", *numbers])
    for quantity in QUANTITIES:
        if (name := best_series(quantity.name, row)) is not None:
            parts.append(f"{quantity.title} {row[name]:.4g}")
    return "  ".join(parts)


def _table(reader: MetricsReader, others: bool, *, more: str = "--all") -> None:
    """One line a quantity and a part of the reward: newest, smallest, largest, curve.

    `more` is the option that shows others.
    """
    from hudtui.core.training.metrics import QUANTITIES
    from hudtui.core.training.sparkline import sparkline

    titles = {quantity.name: quantity.title for quantity in QUANTITIES}
    shown = [(titles[quantity], name) for quantity, name in reader.told.items()]
    shown += [(part, name) for part, name in reader.parts.items()]
    used = {name for _, name in shown}
    left = [name for name in reader.names if name not in used]
    if others:
        shown += [(name, name) for name in left]
    if not shown:
        console.say("No numbers yet.")
        return
    wrong = {one.name for one in reader.wrong}
    width = min(max(len(title) for title, _ in shown), 40)
    console.out(f"{'':<{width}}  {'LAST':>10}  {'MIN':>10}  {'MAX':>10}")
    for title, name in shown:
        values = [point.y for point in reader.series(name)]
        newest = math.nan if name in wrong else values[-1]
        cells = "  ".join(f"{value:>10.4g}" for value in (newest, *reader.span(name)))
        console.out(f"{title[:width]:<{width}}  {cells}  {sparkline(values, _CURVE)}")
    if left and not others:
        console.say(f"{plural(len(left), 'other number')} without a common name: {more}")


def _data(reader: MetricsReader) -> dict[str, Any]:
    newest = reader.newest
    return {
        "step": newest[0] if newest else None,
        "max_step": reader.max_step,
        "quantities": reader.told,
        "series": {
            name: [[point.x, point.y, point.at] for point in reader.series(name)]
            for name in reader.names
        },
        "not_finite": [
            {"name": wrong.name, "step": wrong.x, "count": wrong.count} for wrong in reader.wrong
        ],
    }
