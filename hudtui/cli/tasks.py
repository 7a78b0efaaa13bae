"""`hudtui tasks`: check, list, test, make and convert task files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.analyses import look, say_warnings
from hudtui.cli.drafts import NewTasks, draft_data, draft_source, make_tasks, show_trial
from hudtui.cli.hf import follow, known_analysis, show_problems, teller
from hudtui.cli.options import CheckedAgainst, Json, Split, TokenBudget
from hudtui.cli.sources import TakesCommand, given_command, read_source
from hudtui.core.plain import to_plain
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.read import OpenedSource

_TASKS = (
    "JSON, JSONL, Parquet file or folder of a dataset, or ORG/NAME[@REVISION][:SPLIT] on the Hub."
)


app = typer.Typer(
    no_args_is_help=True,
    help="Check, list, test, make, convert and push tasks.",
    rich_markup_mode=None,
)


@app.command("check")
@console.run_async()
async def check(
    tasks: Annotated[str, typer.Argument(help=_TASKS)],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings are errors.")] = False,
    split: Split = None,
    token_budget: TokenBudget = None,
    env: CheckedAgainst = None,
    as_json: Json = False,
) -> None:
    """Check every task and list every problem. Exit code 1 if there is an error."""
    from hudtui.core.tasks.convert import ConversionResult
    from hudtui.core.tasks.dataset import DatasetRequest, check_tasks

    settings = _settings()
    analysis = await known_analysis(env, settings) if env is not None else None
    request = DatasetRequest(tasks, split=split, token_budget=token_budget, analysis=analysis)
    found = await follow(check_tasks(request, settings), ConversionResult, quiet=as_json)
    findings = found.findings
    failed = findings.count("error") + (findings.count("warning") if strict else 0)
    if as_json:
        problems = [to_plain(problem) for problem in (*findings.errors, *findings.warnings)]
        if strict:
            problems = [{**problem, "severity": "error"} for problem in problems]
        problems.sort(key=lambda problem: problem["index"])
        console.out_json(
            {
                "source": found.source,
                "tasks": found.total,
                "valid": found.valid,
                "problems": problems,
                "errors": findings.count("error"),
                "warnings": findings.count("warning"),
                "ok": not failed,
            }
        )
    else:
        show_problems(found, console.out)
        counts = (
            f"{plural(findings.count('error'), 'error')}, "
            f"{plural(findings.count('warning'), 'warning')}"
        )
        console.out(f"{plural(found.total, 'task')}, {found.valid:,} usable; {counts}")
    if failed:
        raise typer.Exit(console.FOUND)


@app.command("list")
@console.run_async()
async def list_tasks(
    tasks: Annotated[
        str | None, typer.Argument(help=f"{_TASKS} Without it: the task files of this folder.")
    ] = None,
    split: Split = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Show only the first N.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the task files of this folder, or the usable tasks of one of them."""
    if tasks is None:
        await _list_files(_settings(), as_json=as_json)
        return
    listed = []
    async with contextlib.aclosing(_rows(await _opened(tasks, split), limit)) as rows:
        async for row in rows:
            if as_json:
                listed.append(row)
            else:
                calls = ", ".join(row["evaluate"])
                console.out(
                    f"{clean_line(row['id'], 30):<30}  {clean_line(row['prompt'], 70):<70}  "
                    f"{clean_line(calls, 60)}"
                )
    if as_json:
        console.out_json(listed)


@app.command("stats")
@console.run_async()
async def stats(
    tasks: Annotated[str, typer.Argument(help=_TASKS)], split: Split = None, as_json: Json = False
) -> None:
    """Count the usable tasks by prompt length, evaluator, setup, server and metadata."""
    from hudtui.core.tasks.table import TaskStats, read_stats

    found = await follow(read_stats(await _opened(tasks, split)), TaskStats, quiet=as_json)
    if as_json:
        console.out_json({"source": tasks, **found.to_json()})
        return
    console.out(f"{plural(found.total, 'task')}, {found.tasks:,} usable")
    if (lengths := found.lengths) is not None:
        bins = [
            (f"{low:,}-{high - 1:,}" if high - low > 1 else f"{low:,}", count)
            for low, high, count in lengths.bins
        ]
        told = (
            f"estimated tokens; median {lengths.median:,}, 95 % up to {lengths.most:,}, longest "
            f"{lengths.longest:,}"
        )
        _counts("prompt length", bins, found.tasks, told)
    for group in found.groups:
        _counts(group.title, group.bars, found.tasks, group.note)


@app.command("test")
@console.run_async()
async def test(
    tasks: Annotated[str, typer.Argument(help=_TASKS)],
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="ID", help="Id of the task; by default the first usable one."
        ),
    ] = None,
    split: Split = None,
    as_json: Json = False,
) -> None:
    """Set one task up in its environment and evaluate it right away, without an agent.

    Then its `solution` is played, if it has one, in an environment of its own.

    Finds a broken setup, evaluator or solution before a training does. Exit code 1 if the test
    fails.
    """
    from hudtui.cli.person import Terminal
    from hudtui.core.flows.trial import Trial, try_task
    from hudtui.core.project import open_project
    from hudtui.core.tasks.read import find_task

    chosen = await asyncio.to_thread(find_task, await _opened(tasks, split), task)
    # The command names the task, so that there is nothing to ask.
    trial = await console.outcome(
        try_task(open_project(), Terminal(yes=True), chosen, tasks), Trial, console.tell
    )
    if as_json:
        console.out_json(trial.to_json())
    else:
        show_trial(trial, console.out)
    if trial.severity == "error":
        raise typer.Exit(console.FOUND)


@app.command("new", cls=TakesCommand)
@console.run_async()
async def new(
    ctx: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            help="Environment: bundled name, image, folder, lock file, URL, mcp_config."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Task file, .json or .jsonl; by default a new one, named after the environment.",
        ),
    ] = None,
    draft: Annotated[
        Path | None,
        typer.Option(
            "--draft",
            metavar="FILE",
            help="Draft in YAML or JSON: a task, with variables, count, held_out, split_by, seed.",
        ),
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", help="Text for the agent; ${NAME} is a variable.")
    ] = None,
    setup: Annotated[
        list[str] | None,
        typer.Option("--setup", metavar="CALL", help="Setup call: 'TOOL(PARAMETER=VALUE, …)'."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect",
            metavar="PART",
            help="Expectation: 'TOOL(PARAMETER=VALUE) contains TEXT', 'reply number 42', or JSON.",
        ),
    ] = None,
    solution: Annotated[
        list[str] | None,
        typer.Option(
            "--solution", metavar="STEP", help="Call that solves the task, in order; 'reply TEXT'."
        ),
    ] = None,
    evaluator: Annotated[
        list[str] | None,
        typer.Option(
            "--evaluator", metavar="CALL", help="Call of a tool that answers with a reward."
        ),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--var", metavar="NAME=VALUES", help="Variable: 'a, b', '1..20', JSON list, or seed."
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", help="Tasks; by default one of each combination."),
    ] = None,
    held_out: Annotated[
        float | None,
        typer.Option("--held-out", help="Share for a file of their own, such as 0.1."),
    ] = None,
    split_by: Annotated[
        str | None,
        typer.Option("--split-by", metavar="NAME", help="Variable whose values are held out."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Seed of what is taken and held out.")
    ] = None,
    identity: Annotated[
        str | None, typer.Option("--id", help="Beginning of the tasks' ids.")
    ] = None,
    share: Annotated[
        bool,
        typer.Option("--allow-setup-tools", help="The agent may call the setup tools, too."),
    ] = False,
    own_folder: Annotated[
        bool,
        typer.Option(
            "--own-folder", help="Each episode gets a copy of the folder that the server uses."
        ),
    ] = False,
    test: Annotated[
        bool, typer.Option("--test", help="Set the first task up and evaluate it, then write.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the first tasks and write nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Agree to the test without a question.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Inspect the environment again, even if it is known.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make tasks for an environment, from options or a draft file.

    Each variable's values are put into prompt, calls and expectations. The tasks are added to the
    file, and what is in it stays. Exit code 1 if a test fails or nothing is made.

    Without --prompt and --draft: the template of one task, in a new file.
    """
    from hudtui.core.flows.new_task import write_template
    from hudtui.core.project import open_project
    from hudtui.core.tasks.draft_words import DraftWords

    given = {
        "id": identity,
        "prompt": prompt,
        "count": count,
        "held_out": held_out,
        "split_by": split_by,
        "seed": seed,
    }
    words = DraftWords(
        {name: value for name, value in given.items() if value is not None},
        {"--setup": setup or [], "--expect": expect or [], "--evaluator": evaluator or []}
        | {"--solution": solution or []},
        variables or [],
        share,
    )
    if draft is None and prompt is None:
        if words.is_given or test or dry_run or own_folder:
            raise typer.BadParameter("a draft needs --prompt, or --draft FILE")
        place = read_source(source, given_command(ctx))
        analysis = await look(place, live=live, timeout=60.0)
        say_warnings(analysis)
        made = await asyncio.to_thread(write_template, open_project(), place, analysis, output)
        if as_json:
            console.out_json(made.to_json())
        else:
            console.out(made.report)
        return
    named = source is not None or bool(given_command(ctx)) or draft is None
    data = {} if draft is None else draft_data(draft)
    place = read_source(source, given_command(ctx)) if named else draft_source(data, str(draft))
    analysis = await look(place, live=live, timeout=60.0)
    say_warnings(analysis)
    options = NewTasks(
        str(draft) if data.get("mcp_config") else None,
        output,
        own_folder,
        test,
        dry_run,
        yes,
        as_json,
    )
    if not await make_tasks(open_project(), place, analysis, words.over(data, analysis), options):
        raise typer.Exit(console.FOUND)


@app.command("convert")
@console.run_async()
async def convert(
    tasks: Annotated[str, typer.Argument(help=_TASKS)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Task file to write: .json or .jsonl.")
    ],
    to: Annotated[
        str, typer.Option("--to", help="v4 (fields as nested objects) or v6 (from v5).")
    ] = "v4",
    split: Split = None,
    as_json: Json = False,
) -> None:
    """Write tasks as a task file of another version or format.

    Tasks that cannot be converted are listed with the reason. Exit code 1 if something was left
    out.
    """
    if to not in ("v4", "v6"):
        raise typer.BadParameter(f"{to!r} is neither v4 nor v6", param_hint="--to")
    if output.suffix not in (".json", ".jsonl", ".ndjson"):
        raise typer.BadParameter("a task file ends in .json or .jsonl", param_hint="--output")
    result = await _convert(tasks, output, to, split, quiet=as_json)
    findings = result.findings
    written = result.written if to == "v6" else result.tasks
    if as_json:
        console.out_json(
            {
                "source": tasks,
                "tasks": result.total,
                "written": written,
                "skipped": [to_plain(problem) for problem in findings.errors],
                "warnings": [to_plain(problem) for problem in findings.warnings],
                "output": str(output),
            }
        )
    else:
        show_problems(result)
        console.say(f"{plural(result.total, 'task')} read, {written:,} written")
        console.out(str(output))
    if written < result.total:
        raise typer.Exit(console.FOUND)


async def _opened(tasks: str, split: str | None) -> OpenedSource:
    from hudtui.core.project import open_project
    from hudtui.core.tasks.read import download_source, open_source

    project = open_project()
    opened = open_source(tasks, project.folder, project.platform, split=split)
    for notice in opened.notices:
        console.tell(notice)
    return await asyncio.to_thread(download_source, opened)


def _counts(title: str, counts: Sequence[tuple[str, int]], total: int, note: str) -> None:
    """Print how many tasks have each value, with their share of `total`."""
    console.out(f"\n{clean_line(title)}" + (f" ({clean_line(note)})" if note else ""))
    width = max((len(clean_line(name)) for name, _ in counts), default=0)
    digits = max((len(f"{count:,}") for _, count in counts), default=0)
    for name, count in counts:
        console.out(
            f"  {clean_line(name):<{width}}  {count:>{digits},}  {100 * count / total:>3.0f} %"
        )


def _settings() -> Settings:
    from hudtui.core.settings import load_settings
    from hudtui.core.tasks.hub import use_hub_of

    settings = load_settings(Path.cwd())
    use_hub_of(settings)
    return settings


async def _convert(tasks: str, output: Path, to: str, split: str | None, *, quiet: bool) -> Any:
    from hudtui.cli.person import Terminal
    from hudtui.core.flows.publish import carry_to_v6
    from hudtui.core.project import open_project
    from hudtui.core.tasks.convert import ConversionResult
    from hudtui.core.tasks.dataset import DatasetRequest, convert_request
    from hudtui.core.tasks.migrate import Migration
    from hudtui.core.tasks.read import lock_image
    from hudtui.core.tasks.write import Target

    if to == "v4":
        settings = _settings()
        _, image, _ = lock_image(settings)
        target = Target(output, "json" if output.suffix == ".json" else "tasks-jsonl")
        steps = convert_request(DatasetRequest(tasks, split=split), settings, image, [target])
        return await follow(steps, ConversionResult, quiet=quiet)
    # The command names the file, so that there is nothing to ask.
    carried = carry_to_v6(
        open_project(), Terminal(yes=True), (await _opened(tasks, split)).source, output
    )
    return await console.outcome(carried, Migration, teller(quiet=quiet))


async def _list_files(settings: Settings, *, as_json: bool) -> None:
    from hudtui.core.errors import HudtuiError
    from hudtui.core.tasks.convert import ConversionResult
    from hudtui.core.tasks.dataset import DatasetRequest, check_tasks
    from hudtui.core.workspace import open_workspace

    rows: list[dict[str, Any]] = []
    workspace = open_workspace(settings.folder, settings.platform)
    for path in workspace.task_files:
        row: dict[str, Any] = {
            "file": workspace.relative(path),
            "tasks": None,
            "valid": None,
            "error": None,
        }
        try:
            found = await follow(
                check_tasks(DatasetRequest(path), settings), ConversionResult, quiet=True
            )
            row |= {"tasks": found.total, "valid": found.valid}
        except HudtuiError as error:
            row["error"] = error.lines()[0]
        rows.append(row)
    if as_json:
        console.out_json(rows)
        return
    for row in rows:
        counts = (
            f"{row['tasks']:,} tasks, {row['valid']:,} usable"
            if row["error"] is None
            else row["error"]
        )
        console.out(f"{row['file']:<40}  {counts}")
    if not rows:
        console.say("there are no task files here")


async def _rows(opened: OpenedSource, limit: int | None) -> AsyncGenerator[dict[str, Any], None]:
    from hudtui.core.events import iterate_in_thread
    from hudtui.core.tasks.expectation_form import parts_of
    from hudtui.core.tasks.read import as_task, scan

    rules = replace(opened.rules, lookup=None, rewrite=None)  # no variable has to be set for a list
    batches: Any = iterate_in_thread(scan(opened.source, rules))
    async with contextlib.aclosing(batches):
        async for batch in batches:
            for task in map(as_task, batch.tasks[:limit]):
                yield {
                    "id": task.id,
                    "prompt": task.prompt,
                    "setup": [_words(call.name, call.arguments) for call in task.setup],
                    "evaluate": [
                        *(_words(call.name, call.arguments) for call in task.evaluate),
                        *(part.words() for part in parts_of(task)),
                    ],
                    "servers": list(task.mcp_config),
                    "metadata": dict(task.metadata),
                }
            limit = None if limit is None else limit - len(batch.tasks)
            if limit is not None and limit <= 0:
                return


def _words(name: str, arguments: Any) -> str:
    """Return a call in short: the tool, and the function if the tool is a hub."""
    function = arguments.get("name") if hasattr(arguments, "get") else None
    return f"{name}.{function}" if isinstance(function, str) else name
