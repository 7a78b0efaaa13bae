"""Drafts of tasks in commands: read from options and files, previewed, tested and written."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hudtui.cli import console
from hudtui.core.plain import to_plain
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    from hudtui.core.environment.source import Source
    from hudtui.core.environment.values import Analysis
    from hudtui.core.flows.trial import Trial
    from hudtui.core.project import Project
    from hudtui.core.tasks.draft import DraftedTasks
    from hudtui.core.tasks.task import FieldProblem

SHOWN = 3
"""Tasks of a preview."""


@dataclass(frozen=True)
class NewTasks:
    """Options of a command that makes tasks."""

    draft: str | None
    """Draft file that names the servers; None if the command line does."""
    output: Path | None
    own_folder: bool
    test: bool
    dry_run: bool
    yes: bool
    as_json: bool


def draft_data(path: Path) -> dict[str, Any]:
    """Return the fields of a draft file.

    Raises:
        InputError: The file cannot be read, or holds no object.
    """
    from hudtui.core.errors import InputError, Location
    from hudtui.core.files import read_text
    from hudtui.core.tasks.task import json_kind
    from hudtui.core.yaml_doc import load_yaml

    data = load_yaml(read_text(path), name=str(path)).data
    if not isinstance(data, dict):
        raise InputError(
            f"this is {json_kind(data)}, and a draft is an object with the fields of a task",
            where=Location(str(path)),
        )
    return data


def draft_source(data: Mapping[str, Any], name: str) -> Source:
    """Return the environment that a draft names as its `mcp_config`.

    Raises:
        InputError: It names none.
    """
    from hudtui.core.environment.bundled import with_python_variable
    from hudtui.core.environment.source import parse_source
    from hudtui.core.errors import InputError, Location
    from hudtui.core.settings import load_settings

    config = data.get("mcp_config")
    if not config:
        raise InputError(
            "this draft names no environment",
            fix="Give it an mcp_config, or name the environment: hudtui tasks new ENVIRONMENT …",
            where=Location(name, field="mcp_config"),
        )
    settings = load_settings(Path.cwd())
    lookup = with_python_variable(settings.use)
    return parse_source(json.dumps(config), folder=settings.folder, lookup=lookup)


async def make_tasks(
    project: Project, source: Source, analysis: Analysis, data: Mapping[str, Any], how: NewTasks
) -> bool:
    """Make the tasks of a draft, show the first ones, test one where that is wanted, write them.

    Returns:
        True if nothing is wrong with the draft, and the test passed.

    Raises:
        InputError: The tasks cannot be written.
    """
    from hudtui.core.environment.sharing import with_own_folder
    from hudtui.core.flows.new_task import free_name, source_config, write_drafted
    from hudtui.core.gym.environment_name import environment_name
    from hudtui.core.tasks.draft import DraftedTasks, draft_tasks, read_draft

    record = {"id": environment_name(analysis.image or analysis.source), **data}
    if not record.get("mcp_config"):
        record["mcp_config"] = source_config(source, project)
    if how.own_folder:
        own = with_own_folder(record["mcp_config"], project.folder)
        if own is None:
            message = "the servers name no folder, several, or one of each episode already"
            raise typer.BadParameter(message, param_hint="--own-folder")
        record["mcp_config"] = own[0]
    draft, problems = read_draft(record)
    wrong = any(problem.severity == "error" for problem in problems)
    tasks = DraftedTasks() if wrong else draft_tasks(draft, analysis=analysis)
    problems = [*problems, *tasks.problems]
    _report(problems)
    if any(problem.severity == "error" for problem in problems):
        if how.as_json:
            console.out_json({**_made(tasks, problems), "ok": False})
        return False
    if not how.as_json:
        show_tasks(tasks, console.out)
    trial = await _tested(project, tasks, how) if how.test else None
    failed = how.test and (trial is None or trial.severity == "error")
    shown = _made(tasks, problems) | {"trial": None if trial is None else trial.to_json()}
    if not failed and not how.dry_run:
        output = how.output or free_name(project, analysis)
        named = source if how.draft is None else None
        written = write_drafted(project, tasks, output, named=named)
        apart = written.held_out_file
        files = {"file": str(written.file), "held_out_file": apart and str(apart)}
        shown |= files
        if not how.as_json:
            console.out(written.report)
    if how.as_json:
        console.out_json({**shown, "ok": not failed})
    if failed:
        console.say("nothing is written: the test did not pass")
    return not failed


async def _tested(project: Project, tasks: DraftedTasks, how: NewTasks) -> Trial | None:
    from hudtui.cli.person import Terminal
    from hudtui.core.flows.new_task import first_task
    from hudtui.core.flows.trial import Trial, try_task

    task = first_task(tasks)
    steps = try_task(project, Terminal(yes=how.yes), task, how.draft)
    trial: Trial | None = None
    async for step in steps:
        if isinstance(step, Trial):
            trial = step
    if trial is not None and not how.as_json:
        show_trial(trial, console.out)
    return trial


def _report(problems: list[FieldProblem]) -> None:
    for problem in problems:
        place = f"{problem.field}: " if problem.field else ""
        console.say(f"{problem.severity}: {place}{problem.message}")


def _made(tasks: DraftedTasks, problems: list[FieldProblem]) -> dict[str, Any]:
    return {
        "tasks": len(tasks.train),
        "held_out": len(tasks.held_out),
        "first": list((*tasks.train, *tasks.held_out)[:SHOWN]),
        "problems": [to_plain(problem._asdict()) for problem in problems],
    }


def show_tasks(tasks: DraftedTasks, out: Callable[[str], None]) -> None:
    """Print the first tasks of a draft, and how many there are."""
    from hudtui.core.flows.new_task import errors_note, task_lines

    made = (*tasks.train, *tasks.held_out)
    for record in made[:SHOWN]:
        for line in task_lines(record):
            out(line)
    apart = f", {len(tasks.held_out):,} of them held out" if tasks.held_out else ""
    out(f"{plural(len(made), 'task')}{apart}")
    if made and (note := errors_note(made[0])):
        console.say(f"note: {note}")


def show_trial(trial: Trial, out: Callable[[str], None]) -> None:
    """Print what a test of a task did."""
    for step in trial.steps:
        arguments = clean_line(
            json.dumps(dict(step.arguments), ensure_ascii=False, default=repr), 400
        )
        out(
            f"{'solution: ' if step.solution else ''}{clean_line(step.tool)} {arguments}  "
            f"{'failed' if step.failed else 'answered'} in {step.seconds:.1f} s"
        )
        out(textwrap.indent(step.answer, "  "))
    for line in trial.details:
        console.say(line)
    out(f"{trial.task}: {trial.verdict}")
