"""`hudtui hf`: tasks to a training dataset, on disk or on the Hugging Face Hub."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from hudtui.cli import console
from hudtui.cli.command import top
from hudtui.cli.options import CheckedAgainst, Json, takes_request
from hudtui.cli.person import Terminal
from hudtui.core.events import Notice, Progress
from hudtui.core.plain import to_plain
from hudtui.core.tasks.options import FORMATS, DatasetOptions, TaskSelection

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis
    from hudtui.core.flows.publish import DatasetChoices
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.convert import ConversionResult
    from hudtui.core.tasks.dataset import DatasetRequest, DatasetResult
    from hudtui.core.tasks.task import TaskProblem

T = TypeVar("T")

SHOWN = 20
"""Problems that are shown in full; --json has more."""

SAME = 3
"""If more tasks have the same problem, only the first is shown."""


@top.command("hf")
@takes_request(kind=DatasetOptions, remote=None, min_tasks=None)
@takes_request(kind=TaskSelection, to="selection")
@console.run_async()
async def hf(
    tasks: Annotated[
        str,
        typer.Argument(
            help=(
                "JSON, JSONL, Parquet file or folder of a dataset, or ORG/NAME[@REVISION][:SPLIT] "
                "on the Hub."
            )
        ),
    ],
    *,
    request: DatasetOptions,
    no_push: Annotated[bool, typer.Option("--no-push", help="Stay on this machine.")] = False,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            help=(
                "Hub token; better in HF_TOKEN, because other users of the machine can see options."
            ),
        ),
    ] = None,
    env: CheckedAgainst = None,
    selection: TaskSelection,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Accept every suggestion and the push without asking."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check the tasks, and neither write nor push anything."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Convert tasks into a dataset for training, and push it to the Hugging Face Hub.

    Every task is checked; unusable ones are left out and listed. With --no-push or -o the result is
    a local file, Parquet unless its name says otherwise. A push is asked about first.
    """
    if request.format not in (None, *FORMATS):
        raise typer.BadParameter(
            f"{request.format!r} is none of {', '.join(FORMATS)}", param_hint="--format"
        )
    if request.remote is False and request.image is not None:
        raise typer.BadParameter("an image is for --remote", param_hint="--image")
    from hudtui.core.flows.publish import find_choices, take_choices
    from hudtui.core.project import open_project
    from hudtui.core.tasks.convert import ConversionResult, TaskErrors
    from hudtui.core.tasks.dataset import DatasetRequest, DatasetResult, check_tasks, make_dataset
    from hudtui.core.tasks.hub import use_hub_of
    from hudtui.core.tasks.servers import SECRETS

    settings = open_project().settings()
    if not no_push:
        settings.require_trust()
    use_hub_of(settings)
    # None where the user has not decided: --remote may be needed, and so may copies of tasks.
    decided = {name for name in ("remote", "min_tasks") if getattr(request, name) is not None}
    if request.replace_secrets or request.keep_secrets:
        decided.add("replace_secrets")
    options = {**vars(request), "remote": bool(request.remote), "min_tasks": request.min_tasks or 0}
    secrets = 0
    asked = DatasetRequest(
        tasks,
        push=not no_push,
        selection=replace(selection, test=selection.test or None),
        analysis=await known_analysis(env, settings) if env is not None else None,
        token=token,
        **options,
    )
    if yes:
        asked = take_choices(asked, settings, decided)
    elif not dry_run and console.interactive():
        found = await follow(check_tasks(asked, settings), ConversionResult, quiet=as_json)
        secrets = found.rewritten.get(SECRETS, 0)
        offers = find_choices(asked, settings, found.rewritten, found.tasks)
        asked = await _ask(asked, offers, decided)
    try:
        if asked.push and not dry_run:
            if not yes and not console.interactive():  # what is wrong anyway is said first
                await follow(make_dataset(asked, settings, dry=True), DatasetResult, quiet=as_json)
            await _agree(asked, settings, Terminal(yes=yes), secrets)
        made = await follow(
            make_dataset(asked, settings, dry=dry_run), DatasetResult, quiet=as_json
        )
    except TaskErrors as error:
        if as_json:
            answer = (
                _answer(error.converted)
                | {"output": None, "pushed": None, "lock": None}
                | error.to_json()
            )
            console.out_json(answer)
            console.say(f"error: {error.lines()[0]}")
            raise typer.Exit(error.exit_code) from None
        show_problems(error.converted)
        raise
    if dry_run:
        _show_dry(made.converted, as_json=as_json)
        return
    if as_json:
        console.out_json(
            _answer(made.converted)
            | {
                "output": console.shown(made.output) if made.output is not None else None,
                "pushed": made.pushed.url if made.pushed is not None else None,
                "lock": str(made.lock) if made.lock is not None else None,
            }
        )
        return
    _show(made)


async def known_analysis(text: str, settings: Settings) -> Analysis:
    """Return the analysis of an environment: stored, from its lock file, or made now.

    Raises:
        InputError: The text names no environment.
        ConnectError: The environment cannot be reached.
    """
    from hudtui.cli.analyses import look, say_warnings
    from hudtui.core.environment.source import parse_source

    source = parse_source(text, folder=settings.folder, lookup=settings.use)
    found = await look(source, live=False, timeout=60.0)
    say_warnings(found)
    return found


async def follow(steps: Iterator[Any], kind: type[T], *, quiet: bool = False) -> T:
    """Carry out steps in a thread and print their progress.

    Returns the value of this kind that they end with.
    """
    from hudtui.core.events import iterate_in_thread

    return await console.outcome(iterate_in_thread(steps), kind, teller(quiet=quiet))


def teller(*, quiet: bool = False) -> Callable[[Progress | Notice], None]:
    """Return a function that prints notices and the progress of work with tasks.

    If it is to be quiet, it prints no progress.
    """
    printed, stage = time.monotonic(), ""

    def tell(step: Progress | Notice) -> None:
        nonlocal printed, stage
        if isinstance(step, Notice):
            console.tell(step)
            return
        now = time.monotonic()
        # Reading is reported every two seconds; anything else when it begins, too.
        if not quiet and (now - printed > 2 or (step.stage != stage and step.stage != "read")):
            share = (
                f" ({100 * step.done // step.total} %)"
                if step.done is not None and step.total
                else ""
            )
            console.say(f"{step.stage}: {step.message}{share}")
            printed = now
        stage = step.stage

    return tell


async def _ask(
    request: DatasetRequest, offers: DatasetChoices, decided: set[str]
) -> DatasetRequest:
    """Ask about what the flags leave open and these tasks need."""
    if request.push and request.name is None:
        lines = ("Names like: " + ", ".join(offers.names),)
        name = await Terminal().ask("Name of the dataset", lines=lines, value=offers.names[0])
        request = replace(request, name=name)
    for offer in offers.open(decided):
        confirm = partial(console.confirm, offer.question, default=offer.default)
        if await console.ask(confirm):
            request = offer.taken(request)
    return request


async def _agree(
    request: DatasetRequest, settings: Settings, person: Terminal, secrets: int
) -> None:
    """Ask before a push.

    Raises:
        Abort: The user does not want it.
    """
    from hudtui.core.flows.publish import agree_to_push, find_destination

    there = await find_destination(request, settings)
    if not await agree_to_push(request, there, person, secrets=secrets):
        raise typer.Abort


def _answer(converted: ConversionResult) -> dict[str, Any]:
    """Return the part of the JSON answer about the tasks.

    `remote`: no task has a server on the playing machine.
    """
    findings = converted.findings
    return {
        "source": converted.source,
        "tasks": converted.total,
        "valid": converted.valid,
        "skipped": [to_plain(problem) for problem in findings.errors],
        "warnings": [to_plain(problem) for problem in findings.warnings],
        "problems": {"errors": findings.count("error"), "warnings": findings.count("warning")},
        "written": converted.written,
        "inferred": converted.inferred,
        "duplicated": converted.duplicated,
        "remote": converted.remote,
    }


def show_problems(converted: ConversionResult, say: Callable[[str], None] = console.say) -> None:
    """Print the first problems and the number of further ones.

    A problem of many tasks is printed once.

    `say` prints a line; by default on standard error, for the person beside a result.
    """
    findings = converted.findings
    for problems, severity in ((findings.errors, "error"), (findings.warnings, "warning")):
        _list(problems, severity, findings.count(severity), say)


def _list(
    problems: list[TaskProblem], severity: str, count: int, say: Callable[[str], None]
) -> None:
    alike: dict[tuple[str | None, str], list[TaskProblem]] = {}
    for problem in problems:
        alike.setdefault((problem.field, problem.message), []).append(problem)
    shown = told = 0
    for group in alike.values():
        if shown >= SHOWN:
            break
        same = len(group) > SAME
        for problem in group[:1] if same else group[: SHOWN - shown]:
            say(f"{severity}: {problem}")
            shown += 1
            told += len(group) if same else 1
        if same:
            say(f"    ... and the same for {len(group) - 1:,} other tasks")
    if count > told:
        say(f"... and {count - told:,} more {severity}s; --json lists them")


def _show_dry(converted: ConversionResult, *, as_json: bool) -> None:
    from hudtui.core.text import plural

    if as_json:
        console.out_json(_answer(converted) | {"dry_run": True})
        return
    show_problems(converted)
    console.out(f"{plural(converted.valid, 'task')} of {converted.total:,} can be used")
    console.say("nothing was written or pushed")


def _show(made: DatasetResult) -> None:
    from hudtui.core.text import plural

    converted = made.converted
    show_problems(converted)
    left_out = converted.total - converted.valid
    console.say(
        f"{plural(converted.total, 'task')} read, {converted.valid:,} usable"
        + (f", {left_out:,} left out" if left_out else "")
        + (
            f", {converted.inferred:,} with a server from the lock file"
            if converted.inferred
            else ""
        )
        + (f", {converted.duplicated:,} copies added" if converted.duplicated else "")
    )
    console.say(
        "written: "
        + ", ".join(f"{count:,} in {split}" for split, count in converted.written.items())
    )
    if made.lock is not None:
        console.say(f"{made.lock.name} names it as the primary dataset")
    if made.note is not None:
        console.say(
            f"{console.shown(made.note)} names it as this project's dataset: hudtui rl takes it"
        )
    if made.output is not None:
        console.out(console.shown(made.output))
    if made.pushed is not None:
        console.say(
            "only you and your organisation see it"
            if made.pushed.private
            else "it is public: everyone can read it"
        )
        if made.pushed.commit is None:
            console.say("the Hub had all of it already; nothing was changed there")
        console.out(made.pushed.url)
