"""Parts of the commands about runs: store, machines, and printing of runs and their logs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

from hudtui.cli import console
from hudtui.core.text import clean_line, money, step_text

if TYPE_CHECKING:
    from hudtui.cli.options import LogOptions
    from hudtui.core.pattern import Pattern
    from hudtui.core.project import Project
    from hudtui.core.remote.log_file import Log
    from hudtui.core.rollouts.telemetry import TelemetryJob
    from hudtui.core.runs.status import StepRow
    from hudtui.core.runs.store import RunRecord, RunStore
    from hudtui.core.runs.values import RunEvent, RunSummary
    from hudtui.core.runs.watch import Monitor, RunView


P = ParamSpec("P")
T = TypeVar("T")

_STEPS = 20
"""Steps of a training that `runs show` prints."""


_MOST, _MOST_SEARCHED = 2**30, 2**34
"""Bytes of a log that are printed, and that are searched, the last ones: a machine may call a log
endless."""

GOES_ON = "a run that has started keeps running: hudtui runs shows it"
"""Said when a signal ends a command that had started a run."""
_FORMATS = (".3f", ".3f", ".4g", ".0f", ".1f")
_COLOURS = (
    "cyan",
    "yellow",
    "magenta",
    "green",
    "blue",
    "bright_cyan",
    "bright_yellow",
    "bright_magenta",
)
"""Colours of the names of windows, without red, which means an error."""


def open_store() -> tuple[RunStore, Monitor]:
    """The runs of the current folder, and who watches them."""
    from hudtui.core.runs.store import RunStore
    from hudtui.core.runs.watch import Monitor
    from hudtui.core.workspace import STATE_FOLDER

    store = RunStore(Path.cwd() / STATE_FOLDER)
    return store, Monitor(store)


@contextlib.asynccontextmanager
async def machines() -> AsyncIterator[None]:
    """For work that may reach machines.

    Asks for pass-phrases in a terminal, shows new host keys, closes connections.
    """
    from hudtui.core.remote.hosts import close_hosts, set_prompts

    set_prompts(**console.host_prompts())
    try:
        yield
    finally:
        await close_hosts()


def run_async(**options: Any) -> Callable[[Callable[P, Coroutine[Any, Any, T]]], Callable[P, T]]:
    """Make a command of an async function that may reach machines.

    See `console.run_async` and `machines`.
    """
    return lambda command: console.run_async(**options)(machines()(command))


async def reconcile_runs(store: RunStore) -> None:
    """Compare the store with the machines, and print notices."""
    from hudtui.core.runs.reconcile import reconcile_runs

    for notice in await reconcile_runs(store):
        console.say(f"{notice.severity}: {notice.message}")


class Sink:
    """Target of log lines.

    Args:
        as_json: One object a line.
        names: The windows. If there are several, each line begins with the name of its window, on a
            terminal in its own colour.
        to_stderr: Standard output is kept for something else.
        key: What JSON calls a window.
    """

    def __init__(
        self,
        as_json: bool,
        names: Sequence[str] = (),
        *,
        to_stderr: bool = False,
        key: str = "window",
    ) -> None:
        self._json, self._key = as_json, key
        self._stream = sys.stderr if to_stderr else sys.stdout
        width = max(map(len, names), default=0)
        leads = {name: f"{name:<{width}} |" for name in names} if len(names) > 1 else {}
        if self._stream.isatty() and not os.environ.get("NO_COLOR"):
            leads = {
                name: typer.style(lead, fg=_COLOURS[at % len(_COLOURS)])
                for at, (name, lead) in enumerate(leads.items())
            }
        self._leads = leads

    def put(self, window: str, lines: Sequence[str]) -> None:
        """Print lines of a window."""
        if not lines:
            return
        if self._json:
            from hudtui.core.text import dump_json

            text = "\n".join(dump_json({self._key: window, "line": line}) for line in lines)
        else:
            lead = self._leads.get(window)
            text = "\n".join(f"{lead} {line}" for line in lines) if lead else "\n".join(lines)
        # The lines are clean already, and there may be very many of them.
        self._stream.write(text + "\n")
        self._stream.flush()


@dataclass(frozen=True)
class LogPart:
    """Which part of a log is printed."""

    lines: int | None = None
    """Number of lines before the end, of those that match; None for all of them."""
    pattern: Pattern | None = None
    """Only the lines that match."""


EVERYTHING = LogPart()


def log_pattern(options: LogOptions) -> Pattern | None:
    """Pattern of `--grep`; None without one.

    Raises:
        InputError: It is not a regular expression.
    """
    from hudtui.core.pattern import Pattern

    if not options.grep:
        return None
    pattern = Pattern(options.grep, regex=True)
    pattern.require_valid()
    return pattern


async def _begin(log: Log, part: LogPart) -> int:
    """Byte offset at which the log is printed or searched from."""
    most = _MOST if part.pattern is None else _MOST_SEARCHED
    first = max(await log.tail(lines=0) - most, 0)
    if first:
        from hudtui.core.compute.hardware import size

        console.say(f"{clean_line(log.name, 60)}: the first {size(first)} of the log are left out")
    if part.lines is None or part.pattern is not None:
        return first
    return max(first, await log.tail(lines=part.lines))


async def follow_all(
    monitor: Monitor, run: str, windows: list[str], part: LogPart, sink: Sink
) -> None:
    """Print the logs of a run as they grow, until it has ended.

    Args:
        monitor: Who watches.
        run: The run.
        windows: Whose logs.
        part: What of them is printed.
        sink: Where they go.
    """
    record = await asyncio.to_thread(monitor.record, run)
    others = {stage.name for stage in record.plan.stages if stage.node}
    logs = {window: monitor.log(run, window) for window in windows}
    try:
        await follow_logs(logs, part, sink, may_be_lost=others)
    except asyncio.CancelledError:
        if await monitor.is_active(run):
            console.say("The run continues; hudtui runs stop ends it.")
        raise


async def follow_logs(
    logs: Mapping[str, Log], part: LogPart, sink: Sink, *, may_be_lost: Collection[str] = ()
) -> None:
    """Print logs, by their windows, as they grow; see `follow_all`.

    One of `may_be_lost`, whose machine does not answer any more, ends with a sentence.
    """

    async def follow(window: str, log: Log) -> None:
        with lost_node(window, window in may_be_lost):
            await _follow(log, window, part, sink)

    tasks = [asyncio.create_task(follow(window, log)) for window, log in logs.items()]
    try:
        await asyncio.gather(*tasks)
    finally:  # an error of one log ends them all
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def lost_node(window: str, may_be_lost: bool) -> Iterator[None]:
    """Say why the log of a node that is gone cannot be read: those of the others can."""
    from hudtui.core.errors import MachineError

    try:
        yield
    except MachineError as error:
        if not may_be_lost:
            raise
        console.say(f"{window}: its log cannot be read: {clean_line(error.what, 200)}")


async def follow_run(monitor: Monitor, record: RunRecord) -> None:
    """Print the logs of all stages of a run on standard error.

    It begins at their first line, and ends when the run has ended.
    """
    windows = [stage.name for stage in record.plan.stages]
    await follow_all(monitor, record.id, windows, EVERYTHING, Sink(False, windows, to_stderr=True))


async def launch(record: RunRecord, project: Project, *, tmux: bool) -> None:
    """Start a run and print each step.

    A launch that is interrupted before the run starts is cancelled.

    Raises:
        Untrusted: The run needs something that the user has not agreed to.
    """
    from hudtui.core.flows.start import start
    from hudtui.core.flows.stop import end

    try:
        async with aclosing(start(record, project, tmux=tmux)) as events:
            async for event in events:
                say_event(event)
    except asyncio.CancelledError:
        store = project.runs

        def waits() -> bool:
            return record.id in store.ids() and store.summary(record.id).started is None

        if await store.run(waits):
            await end(record.id, project)
            console.say(f"run {record.id} is not started")
        raise


async def _follow(log: Log, window: str, part: LogPart, sink: Sink) -> None:
    batches = log.follow_lines(
        offset=await _begin(log, part), pattern=part.pattern, last=part.lines
    )
    async with aclosing(batches) as lines:
        async for batch in lines:
            if batch.restarted:
                console.say(f"{window}: the log was truncated")
            sink.put(window, batch.done)


async def print_log(log: Log, window: str, part: LogPart, sink: Sink) -> None:
    """Print a log as it is now; see `follow_all`."""
    from hudtui.core.remote.logs import LineSplitter

    offset = await _begin(log, part)
    if part.pattern is not None:
        await _search(log, window, part.pattern, part.lines, sink, offset)
        return
    feed, partial = LineSplitter(offset=offset), ""
    async with aclosing(log.read(offset=offset)) as chunks:
        async for chunk in chunks:
            found = feed.feed(chunk)
            sink.put(window, found.done)
            partial = found.partial
    if partial:
        sink.put(window, [partial])


async def _search(
    log: Log, window: str, pattern: Pattern, lines: int | None, sink: Sink, offset: int
) -> None:
    """Print the lines that match; with a number of lines, the last ones."""
    from collections import deque

    last: deque[str] = deque(maxlen=lines)
    async with aclosing(log.search(pattern, offset=offset)) as matches:
        async for match in matches:
            if lines is None:
                sink.put(window, [match.text])
            else:
                last.append(match.text)
    sink.put(window, list(last))


def progress() -> Any:
    """Return what reports large files as they are copied; None without a terminal."""
    if not console.interactive():
        return None
    told: dict[str, int] = {}

    def report(name: str, done: int, whole: int) -> None:
        tenth = done * 10 // whole if whole > 10_000_000 else -1
        if tenth > told.get(name, 0):
            told[name] = tenth
            console.say(f"  {name}: {done:,} of {whole:,} bytes")

    return report


def say_event(event: RunEvent) -> None:
    """One event of a run in a line."""
    from hudtui.core.runs.event_text import event_text

    if event.type == "planned":
        console.say(f"run {event.run}")
    elif event.type in ("step", "note", "machine", "stage_started", "stage_ended"):
        console.say(f"  {event_text(event)}{_results(event.data)}")


def _results(data: Any) -> str:
    if "files" not in data:
        return ""
    return f": {data['files']} files, {data['bytes']:,} bytes in {data['folder']}"


def state_text(run: RunSummary) -> str:
    """Glyph and word."""
    from hudtui.core.runs.values import STATE_GLYPHS

    return f"{STATE_GLYPHS[run.state]} {run.state}"


def cost_text(run: RunSummary) -> str:
    """Cost of its machine so far; a dash for one of the user's own."""
    cost = run.cost(time.time())
    if cost is None:
        return "-"
    return money(cost, run.currency) if run.billed is not None else f"~{money(cost, run.currency)}"


def print_view(
    view: RunView, record: RunRecord | None = None, job: TelemetryJob | None = None
) -> None:
    """Print everything about a run.

    With its record, also what it continues, and its job on the platform, where it has one.
    """
    from hudtui.core.runs.status import gpu_text, machine_text, server_text

    run = view.summary
    dead = " (it may be dead)" if view.worrying else ""
    facts: list[tuple[str, Any]] = [
        ("run", f"{run.id}  ({run.name})"),
        ("comment", clean_line(run.comment) if run.comment else None),
        ("tags", " ".join(run.tags) if run.tags else None),
        (
            "continues",
            record.spec.continues.text.partition(" ")[2]
            if record is not None and record.spec.continues
            else None,
        ),
        ("state", state_text(run) + (f": {run.why}" if run.why else "")),
        ("engine", run.engine),
        ("started", clock(run.started) if run.started else "-"),
        ("time", seconds_text(view.elapsed)),
        ("heartbeat", None if view.silent is None else f"{seconds_text(view.silent)} ago{dead}"),
        ("step", view.step),
        ("left", _left(view)),
        ("machine", None if run.host == "local" else run.host),
        *((f"node {node.node}", node.text) for node in view.nodes),
        (
            "cost",
            cost_text(run) + _price(run) + _in_all(view) + run.cost_note
            if run.hourly is not None
            else None,
        ),
        ("folder", run.folder if run.results is None else run.results),
        (
            "job",
            f"{job.id}  ({job.name})" + (f"  {job.url}" if job.url else "")
            if job is not None
            else None,
        ),
        ("attach", " ".join(view.attach) if view.attach else None),
    ]
    for name, value in facts:
        if value is not None:
            console.out(f"{name:<10} {value}")
    if run.active:
        for gpu in view.gpus:
            console.out(f"{'gpu':<10} {gpu_text(gpu)}")
        if view.machine is not None:
            console.out(f"{'machine':<10} {machine_text(view.machine)}")
        for server in view.servers:
            console.out(f"{'server':<10} {server_text(server)}")
    for note in (*run.notes, view.problem):
        if note is not None:
            console.out(f"{'note':<10} {note}")
    for alarm in view.alarms:
        console.out(
            f"{'alarm':<10} {alarm.told}" + (f"\n{'':<10} {alarm.fix}" if alarm.fix else "")
        )
    console.out()
    ends = [
        (
            stage.name,
            stage.state,
            "-" if stage.exit is None else str(stage.exit),
            _stage_time(stage, view.ahead),
        )
        for stage in view.stages
    ]
    console.table(("STAGE", "STATE", "EXIT", "TIME"), ends)
    if view.result.rows:
        console.out()
        rows = [
            (row.task, _mean(row.reward), str(row.episodes), _number(row.turns), str(row.errors))
            for row in view.result.rows
        ]
        console.table(("TASK", "REWARD", "EPISODES", "TURNS", "ERRORS"), rows)
        whole, broken = view.result.episodes - view.result.errors, view.result.errors
        lost = f"; {broken} broke off and count in no mean" if broken else ""
        console.out(f"mean reward {_mean(view.result.reward)} over {whole} episodes{lost}")
    elif view.result.steps:
        console.out()
        steps = [_step_cells(row) for row in view.result.steps[-_STEPS:]]
        console.table(("STEP", "REWARD", "STD", "LOSS", "LENGTH", "SECONDS"), steps)
        if len(view.result.steps) > _STEPS:
            console.say(f"the newest {_STEPS} steps; all: hudtui runs show {run.id} --json")


def _mean(reward: float | None) -> str:
    return "-" if reward is None else f"{reward:.3f}"


def _step_cells(row: StepRow) -> tuple[str, ...]:
    values = (row.reward, row.reward_std, row.loss, row.completion_length, row.step_time)
    told = (
        "-" if value is None else format(value, how)
        for value, how in zip(values, _FORMATS, strict=True)
    )
    return (step_text(row.step), *told)


def print_script(record: RunRecord) -> None:
    """Print what a run does as a shell script, for any machine.

    Variables that may hold a secret are named, without a value.
    """
    from hudtui.core.runs.plan_text import without_hidden_variables
    from hudtui.core.training.engines import find_engine
    from hudtui.core.training.plan import Site
    from hudtui.core.training.script import plan_script

    plan = find_engine(record.engine).plan(record.spec, Site("run", ("python3",)))
    sys.stdout.write(plan_script(without_hidden_variables(plan, record.spec), name=record.name))


def _stage_time(stage: Any, ahead: float) -> str:
    if stage.started is None:
        return "-"
    return seconds_text(max((stage.ended or time.time() - ahead) - stage.started, 0.0))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def clock(moment: float) -> str:
    """A moment by the clock on the wall."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def seconds_text(value: float | None) -> str:
    """A time for people."""
    if value is None:
        return "-"
    if value < 60:
        return f"{value:.1f}s"
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02}m" if hours else f"{minutes}m{seconds:02}s"


def _price(run: RunSummary) -> str:
    if not run.holds_machine:
        return " billed" if run.billed is not None else ""
    return f", at {money(run.hourly or 0.0, run.currency)} an hour"


def _left(view: RunView) -> str | None:
    if not view.summary.active or view.left is None:
        return None
    return (
        f"about {seconds_text(view.left)}; the last step at about {clock(time.time() + view.left)}"
    )


def _in_all(view: RunView) -> str:
    if view.expected_cost is None:
        return ""
    return f", about {money(view.expected_cost, view.summary.currency)} until the last step"
