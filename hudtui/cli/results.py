"""`hudtui rollouts list|show|open|stats|compare|diff|search|export`.

Recorded episodes, of hudtui and of other frameworks.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.options import Json
from hudtui.core.paths import typed_path
from hudtui.core.text import clean, clean_line, plural

if TYPE_CHECKING:
    from hudtui.core.results.index import ResultIndex
    from hudtui.core.results.values import (
        EpisodeEntry,
        ResultGroup,
        ResultRun,
        Transcript,
        TranscriptImage,
    )

_RESULTS = "Results: a file, a folder, a run, or a name that `hudtui rollouts list` shows."
Results = Annotated[str, typer.Argument(metavar="RESULTS", help=_RESULTS)]
Filter = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILTER]...", help="Words or FIELD:VALUE, such as stop:error reward:<0.5 step:12."
    ),
]

_ENTRY_FIELDS = (
    *(
        "number",
        "run",
        "task",
        "step",
        "split",
        "rollout",
        "reward",
        "parts",
        "stop",
        "failed",
        "error",
        "turns",
        "tokens",
    ),
    *("prompt_tokens", "completion_tokens", "seconds", "started_at"),
)
_GROUP_COLUMNS = ["run", "step", "split", "task", "episodes", "reward", "spread", "failed", "turns"]
_EPISODE_COLUMNS = [
    "number",
    "run",
    "step",
    "split",
    "task",
    "rollout",
    "reward",
    "stop",
    "turns",
    "tokens",
    "seconds",
    "error",
]


app = typer.Typer(
    no_args_is_help=True,
    help="Episodes of agents: list, read, search and export them; play one.",
    rich_markup_mode=None,
)


@app.command("list")
@console.run_async()
async def list_results(
    results: Annotated[
        str | None,
        typer.Argument(metavar="[RESULTS]", help=f"{_RESULTS} Without it: all results here."),
    ] = None,
    wanted: Filter = None,
    groups: Annotated[
        bool,
        typer.Option(
            "--groups", help="List the groups: the rollouts of a task, or of a task at a step."
        ),
    ] = False,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="FIELD", help="Sort by this field, the smallest first."),
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The largest first, or the last.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show at most N.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the results of this project, or the episodes of one of them.

    A word of a filter is a regular expression that is searched for in the short texts of an episode
    (hudtui rollouts search searches conversations). FIELD:VALUE searches one field, FIELD:>NUMBER
    compares, and !WORD excludes. All must match. The fields are task, reward, step, split, rollout,
    stop, turns, tokens, seconds, cause, error, run, started and number; of groups task, reward,
    spread, step, split, episodes, failed, turns and run.
    """
    from hudtui.core.results.queries import GROUP_FIELDS
    from hudtui.core.row_filter import arrange

    if results is None:
        await _list_runs(limit, as_json=as_json)
        return
    index = await _index(results)
    if groups:
        found = arrange(
            index.groups(), GROUP_FIELDS, wanted=" ".join(wanted or ()), sort=sort, reverse=reverse
        )
        rows = [
            {name: value(group) for name, value in GROUP_FIELDS.items()} for group in found[:limit]
        ]
        columns = _GROUP_COLUMNS
    else:
        rows = [
            entry_json(entry)
            for entry in _chosen(index, wanted, sort=sort, reverse=reverse)[:limit]
        ]
        columns = _EPISODE_COLUMNS
    if as_json:
        console.out_json(rows)
    else:
        _table([name for name in columns if any(row[name] is not None for row in rows)], rows)
    _say_unread(index)


@app.command("show")
@console.run_async()
async def show(
    results: Results,
    number: Annotated[
        int,
        typer.Argument(
            metavar="[NUMBER]", min=0, help="Number of the episode; the first by default."
        ),
    ] = 0,
    image: Annotated[
        int | None,
        typer.Option("--image", min=1, help="Write this image of the episode to a file."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File for the image; by default a new one in this folder."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Show one episode: every message, reply, call and answer, as Markdown.

    Images are named by their number, type and size, and --image NUMBER writes one to a file.
    """
    if image is None and output is not None:
        raise typer.BadParameter(
            "name the image that is written: --image NUMBER", param_hint="--output"
        )
    from hudtui.core.results.export import markdown
    from hudtui.core.results.images import write_image

    index = await _index(results)
    transcript = await _transcript(index, number)
    if image is not None:
        path, what = write_image(transcript, image, output, replace=force)
        if as_json:
            console.out_json({"path": str(path), "image": what})
        else:
            console.say(what)
            console.out(str(path))
    elif as_json:
        console.out_json(transcript_json(transcript))
    else:
        console.out(markdown(transcript).rstrip("\n"))


@app.command("open")
def open_app(results: Results) -> None:
    """Open the full-screen app at the episodes of some results."""
    from hudtui.tui.app import run_app

    with console.failures():
        found = _find(results)
    named = typed_path(results)  # a folder with several results is opened with all of them
    path = named if len(found) > 1 and named.exists() else found[0].path
    raise typer.Exit(run_app(debug=console.debug, opens=("results", {"path": path.absolute()})))


@app.command("stats")
@console.run_async()
async def stats(
    results: Results,
    wanted: Filter = None,
    solved_at: Annotated[
        float, typer.Option("--solved-at", help="The task's own reward from which it is solved.")
    ] = 1.0,
    k: Annotated[
        list[int] | None,
        typer.Option("--k", min=1, help="Estimate pass@K; repeatable. 1, 2, 4, ... by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Count episodes by reward and by cause of failure, and estimate pass@k.

    pass@k is the chance that at least one of k rollouts of a task solves it, estimated without bias
    from its rollouts.
    """
    from hudtui.core.results.queries import failures, histogram, pass_table, slips, unsolved
    from hudtui.core.rollouts.values import plain_number

    index = await _index(results)
    entries = _chosen(index, wanted)
    rewards = [entry.reward for entry in entries if entry.reward is not None]
    bars, causes, missed = (
        histogram(entries),
        failures(entries),
        unsolved(entries, solved_at=solved_at),
    )
    within = slips(entries)
    table = (
        pass_table(entries, k, solved_at=solved_at)
        if k
        else pass_table(entries, solved_at=solved_at)
    )
    mean = plain_number(math.fsum(rewards) / len(rewards)) if rewards else None
    if as_json:
        console.out_json(
            {
                "episodes": len(entries),
                "rewards": len(rewards),
                "reward": mean,
                "failed": sum(len(cause.numbers) for cause in causes),
                "histogram": [
                    {"low": bar.low, "high": bar.high, "episodes": bar.count} for bar in bars
                ],
                **{
                    name: [
                        {"cause": one.cause, "episodes": len(one.numbers), "tasks": one.tasks,
                         "example": one.example, "numbers": list(one.numbers)} for one in found
                    ] for name, found in (("failures", causes), ("unsolved", missed))
                },
                "within": [
                    {"cause": one.cause, "times": one.times, "episodes": len(one.numbers),
                     "tasks": one.tasks, "numbers": list(one.numbers)} for one in within
                ],
                "pass": {
                    "solved_at": solved_at,
                    "rates": {str(k): rate for k, rate in table.rates.items()},
                    "tasks": [
                        {"task": task.task, "episodes": task.episodes, "solved": task.solved,
                         "rates": {str(k): rate for k, rate in task.rates.items()}}
                        for task in table.tasks
                    ],
                },
                "unread": index.unread_count,
            }
        )  # fmt: skip
        return
    told = "" if mean is None else f", mean reward {mean:.4g}"
    console.out(f"{plural(len(entries), 'episode')} of {plural(len(table.tasks), 'task')}{told}")
    if bars:
        console.out("\nreward")
        most = max(bar.count for bar in bars)
        for bar in bars:
            console.out(
                f"  {bar.low:>8.3g} to {bar.high:<8.3g} {bar.count:>8,}  "
                f"{'█' * round(40 * bar.count / most)}".rstrip()
            )
    if table.rates:
        bound = f"solved: an own reward of the task of {solved_at:g} or more"
        console.out(f"\npass@k ({bound})")
        for place, rate in table.rates.items():
            console.out(f"  pass@{place:<4} {rate:.3f}  ({plural(table.counted[place], 'task')})")
    for title, found in (("failures", causes), ("not solved", missed)):
        if found:
            console.out(f"\n{title}")
        for cause in found:
            console.out(
                f"  {len(cause.numbers):>8,}  "
                f"{clean_line(cause.cause.removeprefix('not solved, '), 150)}"
            )
    if within:
        console.out("\nwithin episodes")
    for cause in within:
        console.out(
            f"  {cause.times:>8,}  {cause.cause}, in {plural(len(cause.numbers), 'episode')}"
        )
    _say_unread(index)


@app.command("map")
@console.run_async()
async def reward_map(results: Results, wanted: Filter = None, as_json: Json = False) -> None:
    """Show the mean reward of each task at each step of a training, as a digit.

    0 is for the smallest, 9 for the largest.

    A filter takes the fields of groups: task, reward, spread, step, split, episodes, failed, turns
    and run.
    """
    from hudtui.core.results.queries import GROUP_FIELDS, step_map
    from hudtui.core.row_filter import arrange

    index = await _index(results)
    found = step_map(arrange(index.groups(), GROUP_FIELDS, wanted=" ".join(wanted or ())))
    if as_json:
        cells = {
            task: [(step, found.groups.get((task, step))) for step in found.steps]
            for task in found.tasks
        }
        rows = [
            {
                "run": task.run,
                "split": task.split,
                "task": task.task,
                "steps": [
                    {"step": step, "reward": group.reward, "episodes": len(group.numbers)}
                    for step, group in row
                    if group is not None
                ],
            }
            for task, row in cells.items()
        ]
        console.out_json(
            {"steps": list(found.steps), "low": found.low, "high": found.high, "tasks": rows}
        )
    elif not found.steps:
        console.say("No episode is of a step of a training.")
    else:
        first, last = str(found.steps[0]), str(found.steps[-1])
        names = [clean_line(found.name(task), 40) for task in found.tasks]
        width = max(4, *map(len, names))
        axis = first if len(found.steps) < 2 else f"{first:<{len(found.steps) - len(last)}}{last}"
        console.out(f"{'step':<{width}}  {axis}")
        for name, task in zip(names, found.tasks, strict=True):
            digits = "".join(found.digit(found.groups.get((task, step))) for step in found.steps)
            console.out(f"{name:<{width}}  {digits}".rstrip())
        console.say(f"0 is a mean reward of {found.low:.3g}, 9 of {found.high:.3g}")
    _say_unread(index)


@app.command("compare")
@console.run_async()
async def compare(
    results: Results,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="Other results.")],
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="Step of RESULTS; the last one by default.")
    ] = None,
    other_step: Annotated[
        int | None,
        typer.Option("--other-step", min=0, help="Step of OTHER; the last one by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare the groups of two results task by task: the mean reward in each, and the gain.

    The mean gain has an interval of 95 % over the tasks that both have.
    Two steps of one training are compared with
    `hudtui rollouts compare RUN RUN --step 1 --other-step 40`.
    """
    from hudtui.core.results.baseline import gain_summary
    from hudtui.core.results.queries import compare_groups

    left, right = await _index(results), await _index(other)
    pairs = compare_groups(_at(left, step), _at(right, other_step))
    rows: list[dict[str, Any]] = [
        {
            "task": pair.task,
            "left": pair.left and pair.left.reward,
            "right": pair.right and pair.right.reward,
            "gain": pair.gain,
            "episodes": [len(group.numbers) if group else 0 for group in (pair.left, pair.right)],
        }
        for pair in pairs
    ]
    gains = [pair.gain for pair in pairs if pair.gain is not None]
    summary = gain_summary(gains)
    if as_json:
        console.out_json({"tasks": rows, "compared": len(gains), **summary.to_json()})
        return
    _table(("task", "left", "right", "gain", "episodes"), rows)
    if gains:
        console.say(f"{plural(len(gains), 'task')} in both, {summary.line()}")


def _at(index: ResultIndex, step: int | None) -> list[ResultGroup]:
    """Return the groups of a step, or all of them."""
    return [group for group in index.groups() if step is None or group.key.step == step]


@app.command("diff")
@console.run_async()
async def diff(
    results: Results,
    left: Annotated[int, typer.Argument(min=0, help="Number of an episode.")],
    right: Annotated[int, typer.Argument(min=0, help="Number of another one.")],
    as_json: Json = False,
) -> None:
    """Compare two episodes turn by turn. Exit code 1 if they differ."""
    from hudtui.core.results.queries import diff_transcripts

    index = await _index(results)
    found = diff_transcripts(await _transcript(index, left), await _transcript(index, right))
    if as_json:
        turns = [
            {"turn": turn.number, "change": turn.change, "fields": list(turn.fields)}
            for turn in found.turns
        ]
        console.out_json(
            {
                "same_opening": found.opening,
                "first": found.first and found.first.number,
                "turns": turns,
            }
        )
    else:
        _show_diff(found)
    if not found.opening or found.first is not None:
        raise typer.Exit(console.FOUND)


def _show_diff(found: Any) -> None:
    import difflib

    if not found.opening:
        console.out("the episodes begin with different messages")
    for turn in found.turns:
        if turn.change == "same":
            console.out(f"turn {turn.number}: the same")
            continue
        if turn.left is None or turn.right is None:
            console.out(
                f"turn {turn.number}: only in the {'left' if turn.right is None else 'right'} "
                "episode"
            )
            continue
        console.out(f"turn {turn.number}: {', '.join(turn.fields)}")
        for name in ("reply", "observation"):
            if name in turn.fields:
                lines = difflib.unified_diff(
                    getattr(turn.left, name).splitlines(),
                    getattr(turn.right, name).splitlines(),
                    lineterm="",
                    n=1,
                )
                for line in list(lines)[2:]:
                    console.out(f"  {line}")


@app.command("search")
@console.run_async(compact=True)
async def search(
    results: Results,
    text: Annotated[
        str, typer.Argument(help="Text to search for; lower-case letters match upper-case ones.")
    ],
    wanted: Filter = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Stop after N hits.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Search the conversations for a text, and print each turn that has it.

    Exit code 1 if none has.
    """
    from hudtui.core.results.search import search as find

    index = await _index(results, whole=bool(wanted))
    within = [entry.number for entry in _chosen(index, wanted)] if wanted else None
    found = 0
    async with aclosing(find(index, text, limit=limit, within=within)) as pieces:
        async for piece in pieces:
            found = piece.found
            for hit in piece.hits:
                entry = index.entries[hit.number]
                if as_json:
                    about = {
                        "number": hit.number,
                        "run": entry.run,
                        "task": entry.task,
                        "turn": hit.turn,
                    }
                    console.out_json(
                        {**about, "field": hit.field, "excerpt": hit.excerpt}, compact=True
                    )
                else:
                    where = f"{hit.number}:{hit.turn}"
                    console.out(
                        f"{where:<10} {clean_line(entry.task, 30)} {hit.field}: "
                        f"{clean_line(hit.excerpt, 200)}"
                    )
    if found >= limit:
        console.say(f"stopped after {plural(found, 'hit')}; --limit N finds more")
    _say_unread(index)
    if not found:
        raise typer.Exit(console.FOUND)


@app.command("export")
@console.run_async()
async def export(
    results: Results,
    wanted: Filter = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write; standard output by default."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help=(
                "jsonl, markdown, atif or sft; by default what the file's ending says, else jsonl."
            ),
        ),
    ] = None,
    sort: Annotated[
        str | None, typer.Option("--sort", metavar="FIELD", help="Write the smallest first.")
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The largest first, or the last.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Write at most N episodes.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Write the episodes that match a filter to a file.

    jsonl: the records as they are. markdown: to read. atif: the Agent Trajectory Interchange
    Format, a document a line, or one document for one episode in a file that ends in .json. sft:
    prompts and completions to fine-tune on, as JSON lines or Parquet.
    """
    from hudtui.core.results.export import FORMS, export_pieces, export_results, form_of

    chosen = form or (form_of(output) if output is not None else None) or "jsonl"
    if chosen not in FORMS:
        raise typer.BadParameter(f"one of {', '.join(FORMS)}", param_hint="--format")
    if output is None and as_json:
        raise typer.BadParameter(
            "needs --output: standard output holds the episodes", param_hint="--json"
        )
    index = await _index(results)
    numbers = [entry.number for entry in _chosen(index, wanted, sort=sort, reverse=reverse)][:limit]
    if output is None:
        skipped = 0
        for piece in export_pieces(index, numbers, chosen):
            skipped += piece is None
            if piece:
                text = piece.decode("utf-8", "replace")
                typer.echo(clean(text) if sys.stdout.isatty() else text, nl=False)
                await asyncio.sleep(0)  # a signal may end it
        if skipped:
            console.say(f"{plural(skipped, 'episode')} left out: no reply, or broken off")
    else:
        made = await asyncio.to_thread(
            export_results, index, numbers, chosen, output, replace=force
        )
        if as_json:
            found = {"path": str(made.path), "format": made.form, "episodes": made.episodes}
            console.out_json({**found, "skipped": made.skipped, "bytes": made.size})
        else:
            left = (
                f", {plural(made.skipped, 'episode')} left out: no reply, or broken off"
                if made.skipped
                else ""
            )
            console.say(f"{plural(made.episodes, 'episode')} written as {made.form}{left}")
            console.out(str(made.path))
    _say_unread(index)


def entry_json(entry: EpisodeEntry) -> dict[str, Any]:
    """Return an episode as `rollouts list --json` prints it."""
    return {name: getattr(entry, name) for name in _ENTRY_FIELDS} | {"split": entry.split or None}


def transcript_json(transcript: Transcript) -> dict[str, Any]:
    """Return an episode as `rollouts show --json` prints it."""
    from hudtui.core.results.images import images_by_turn

    images = images_by_turn(transcript)
    return {
        **entry_json(transcript.entry),
        "error": transcript.error,
        "opening": [dict(message) for message in transcript.opening],
        "images": _images_json(images.get(0)),
        "turns": [
            {
                "number": turn.number,
                "reply": turn.reply,
                "thought": turn.thought or None,
                "calls": [{"name": call.name, "arguments": call.arguments} for call in turn.calls],
                "observation": turn.observation,
                "images": _images_json(images.get(turn.number)),
                "is_error": turn.is_error,
                "seconds": dict(turn.seconds),
                "tokens": dict(turn.tokens),
                "result": turn.result,
            }
            for turn in transcript.turns
        ],
        "judged": [part.to_json() for part in transcript.judged],
        "own": dict(transcript.own),
        "evaluation": transcript.evaluation,
        "timings": dict(transcript.seconds),
        "info": dict(transcript.info),
    }


def _images_json(images: Sequence[tuple[int, TranscriptImage]] | None) -> list[dict[str, Any]]:
    from hudtui.core.results.images import describe_image

    return [{"number": number, "image": describe_image(image)} for number, image in images or ()]


def _find(results: str) -> tuple[ResultRun, ...]:
    from hudtui.core.project import open_project
    from hudtui.core.results.find import results_named

    project = open_project()
    return results_named(results, project.folder, project.runs)


async def _index(results: str, *, whole: bool = True) -> ResultIndex:
    """Open results, and read all their entries if `whole` is set."""
    from hudtui.core.errors import InputError, Location
    from hudtui.core.events import Progress
    from hudtui.core.results.index import ResultIndex, follow

    runs = await asyncio.to_thread(_find, results)
    index = ResultIndex(runs)
    if whole:
        async with aclosing(follow(index, every=None, piece=0.5)) as pieces:
            async for progress in pieces:
                if not progress.complete and progress.size:
                    share = progress.read / progress.size
                    console.tell(
                        Progress(
                            "read", f"reading: {share:.0%}, {plural(progress.entries, 'episode')}"
                        )
                    )
        if not index.entries and index.unread:
            first = index.unread[0]
            raise InputError(
                "there is no record of an episode here",
                why=first.why,
                where=Location(str(first.file), first.line),
            )
        half = next(
            (run.path for run in runs if run.path.is_file() and run.path.stat().st_size), None
        )
        if not index.entries and half is not None:
            raise InputError(
                "there is no whole record of an episode here",
                why="Its only line has no end: it is still being written, or was cut.",
                where=Location(str(half), 1),
            )
    return index


async def _transcript(index: ResultIndex, number: int) -> Transcript:
    from hudtui.core.errors import InputError

    if number >= len(index.entries):
        last = len(index.entries) - 1
        raise InputError(
            f"there is no episode {number}",
            why=f"The episodes are numbered from 0 to {last}."
            if last >= 0
            else "There are no episodes.",
            fix="hudtui rollouts list RESULTS shows them.",
        )
    return await asyncio.to_thread(index.read, index.entries[number])


def _chosen(
    index: ResultIndex,
    wanted: Sequence[str] | None,
    *,
    sort: str | None = None,
    reverse: bool = False,
) -> list[EpisodeEntry]:
    from hudtui.core.results.queries import EPISODE_FIELDS
    from hudtui.core.row_filter import arrange

    return arrange(
        index.entries, EPISODE_FIELDS, wanted=" ".join(wanted or ()), sort=sort, reverse=reverse
    )


def _say_unread(index: ResultIndex) -> None:
    """Say which lines are no episodes."""
    unread = index.unread
    for one in unread[:3]:
        where = f"{one.file}:{one.line}" if one.line else str(one.file)
        console.say(f"warning: {where}: {clean_line(one.why, 200)}")
    if index.unread_count > 3:
        console.say(
            f"warning: {index.unread_count - 3:,} more lines are no episodes, and were passed over"
        )


async def _list_runs(limit: int | None, *, as_json: bool) -> None:
    from hudtui.core.compute.hardware import size
    from hudtui.core.project import open_project
    from hudtui.core.results.find import find_results

    project = open_project()
    found = (await asyncio.to_thread(find_results, project.folder, project.runs))[:limit]
    if as_json:
        console.out_json(
            [
                {"name": one.name, "kind": one.kind, "run": one.run, "path": str(one.path),
                 "bytes": one.size, "modified":
                 datetime.fromtimestamp(one.modified).astimezone().isoformat(timespec="seconds")}
                for one in found
            ]
        )  # fmt: skip
        return
    if not found:
        console.say("There are no results here yet. Play tasks: hudtui eval TASKS --config FILE")
        return
    rows = [
        {
            "name": one.name,
            "kind": one.kind,
            "size": size(one.size or None),
            "modified": datetime.fromtimestamp(one.modified).strftime("%Y-%m-%d %H:%M"),
        }
        for one in found
    ]
    _table(["name", "kind", "size", "modified"], rows)


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
    console.table(tuple(name.upper() for name in columns), list(_cells(columns, rows)))


def _cells(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        values = [row[name] for name in columns]
        yield tuple(
            f"{one:.4g}"
            if isinstance(one, float)
            else "-"
            if one is None
            else clean_line(str(one), 60)
            for one in values
        )
