"""A template of a task for an environment.

Its servers, its setup and evaluation tools, and what is left to fill in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hudtui.core import trust
from hudtui.core.environment.bundled import find_bundled
from hudtui.core.environment.form_args import ALL_ARGUMENTS, form_fields, hub_call, signature
from hudtui.core.environment.powers import task_powers
from hudtui.core.environment.source import Source
from hudtui.core.environment.values import EVALUATE_TOOLS, SETUP_TOOLS, Analysis, Tool
from hudtui.core.errors import InputError, Location
from hudtui.core.files import file_lock, write_atomic
from hudtui.core.gym.environment_name import environment_name
from hudtui.core.paths import typed_path
from hudtui.core.project import Project
from hudtui.core.tasks.draft import DraftedTasks
from hudtui.core.tasks.expectation_form import read_parts
from hudtui.core.tasks.read import as_task
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.task import Task
from hudtui.core.tasks.task_file import SUFFIXES, add_tasks, check_new
from hudtui.core.tasks.validate import TODO, Rules, TaskChecker
from hudtui.core.text import clean_line, plural
from hudtui.core.workspace import HELD_OUT

Stage = Literal["setup", "evaluate"]

NOTES = "template"
"""Field of the metadata that holds the comments: JSON has none."""
_HUBS = {"setup": SETUP_TOOLS, "evaluate": EVALUATE_TOOLS}
_MOST_LISTED = 20


@dataclass(frozen=True)
class TaskTemplate:
    """A template that has been written."""

    record: dict[str, Any]
    file: Path
    """As it was named: relative to the project folder, or absolute."""

    @property
    def report(self) -> str:
        return f"Wrote {self.file}: replace each TODO, then check and test it"

    def to_json(self) -> dict[str, Any]:
        """Return the form of `hudtui tasks new --json`."""
        return {"file": str(self.file), "task": self.record}


def write_template(
    project: Project, source: Source, analysis: Analysis, file: Path | None = None
) -> TaskTemplate:
    """Write a file with the template of a task.

    Args:
        project: The project; paths are relative to its folder.
        source: The environment.
        analysis: Its tools and their schemas.
        file: A new file, `.json` or `.jsonl`; by default one named after the environment.

    Raises:
        InputError: The environment has no MCP servers, or the file exists or cannot be written.
    """
    name = environment_name(analysis.image or analysis.source)
    record = _template(name, source_config(source, project), analysis)
    chosen = free_name(project, analysis) if file is None else file
    if chosen.suffix not in SUFFIXES:
        raise InputError("a task file ends in .json or .jsonl", where=Location(str(chosen)))
    indent = 2 if chosen.suffix == ".json" else None
    text = json.dumps([record] if indent else record, ensure_ascii=False, indent=indent) + "\n"
    path = project.folder / typed_path(chosen)
    with file_lock(path):
        if path.exists() or path.is_symlink():
            raise InputError(
                "there is a file of this name already, and it stays as it is",
                fix="Name another one with -o.",
                where=Location(str(chosen)),
            )
        write_atomic(path, text)
    return TaskTemplate(record, chosen)


@dataclass(frozen=True)
class WrittenTasks:
    """Tasks of a draft in task files."""

    tasks: DraftedTasks
    file: Path
    """As it was named: relative to the project folder, or absolute."""
    held_out_file: Path | None = None
    """File of the tasks that are held out."""

    @property
    def report(self) -> str:
        apart = ""
        if self.held_out_file is not None:
            apart = f", and {len(self.tasks.held_out)} held out to {self.held_out_file}"
        return f"Wrote {plural(len(self.tasks.train), 'task')} to {self.file}{apart}"


def write_drafted(
    project: Project, tasks: DraftedTasks, file: Path, *, named: Source | None = None
) -> WrittenTasks:
    """Write the tasks of a draft; what is in the files stays.

    Those that are held out have a file of their own, so that no training reads them.

    Args:
        project: The project; paths are relative to its folder.
        tasks: Tasks without errors.
        file: The file, `.json` or `.jsonl`, new or not.
        named: The environment, where the person named it: so no question is asked about its
            servers in the file. What a file of the folder names is asked about.

    Raises:
        InputError: A file has a task of one of the ids, or cannot be read or written. Nothing is
            written then.
    """
    apart = file.with_name(f"{file.stem}{HELD_OUT}{file.suffix}") if tasks.held_out else None
    path = project.folder / typed_path(file)
    check_new(path, tasks.train, str(file))
    if apart is not None:
        add_tasks(path.with_name(apart.name), tasks.held_out, str(apart))
    add_tasks(path, tasks.train, str(file))
    if named is not None and named.file is None:
        servers = [record["mcp_config"] for record in (*tasks.train, *tasks.held_out)[:1]]
        trust.agree(project.folder, task_powers(servers, path))
    return WrittenTasks(tasks, file, apart)


def task_lines(record: Mapping[str, Any]) -> list[str]:
    """Return a task of a draft in a few lines: id, prompt, calls, expectations."""
    setup, evaluators = record.get("setup_tool"), record.get("evaluate_tool")
    calls = [*_listed(setup), *_listed(evaluators)]
    lines = [clean_line(f"{record.get('id')}: {record.get('prompt')}", 200)]
    for call in calls[:_MOST_LISTED]:
        lines.append(f"  {clean_line(call_words(call), 200)}")
    parts, _ = read_parts(record.get("evaluate") or [])
    lines += [f"  expects {part.words()} ({part.weight:g})" for part in parts]
    steps = [_step_words(step) for step in _listed(record.get(SOLUTION))[:_MOST_LISTED]]
    if steps:
        lines.append(f"  solved by {clean_line('; '.join(steps), 200)}")
    return lines


def _step_words(step: Any) -> str:
    if isinstance(step, Mapping) and "reply" in step:
        return f"reply {_short(step['reply'])}"
    return call_words(step)


def errors_note(record: Mapping[str, Any]) -> str:
    """Return what to know about error answers to a task's expectations; empty where it is said."""
    parts, _ = read_parts(record.get("evaluate") or [])
    names = [
        part.call.name
        for part in parts
        if part.call is not None and not part.condition.judges_errors
    ]
    if not names:
        return ""
    tools = clean_line(" or ".join(dict.fromkeys(names)), 100)
    return (
        f"an error answer of {tools}, such as for a missing file, breaks the evaluation, and the "
        "episode counts nowhere; add `error false` where it is the agent's failure"
    )


def call_words(call: Any) -> str:
    """Return a call of a draft as it is read: `write_file(path=words.txt, content=a)`."""
    if not isinstance(call, Mapping):
        return clean_line(json.dumps(call, ensure_ascii=False, default=str))
    name, arguments = call.get("name"), call.get("arguments") or {}
    function = arguments.get("name") if isinstance(arguments, Mapping) else None
    if isinstance(function, str) and isinstance(arguments.get("arguments"), Mapping):
        name, arguments = f"{name}.{function}", arguments["arguments"]
    values = arguments.items() if isinstance(arguments, Mapping) else ()
    return f"{name}({', '.join(f'{key}={_short(value)}' for key, value in values)})"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean_line(text, 60)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def first_task(tasks: DraftedTasks) -> Task:
    """Return the first task of a draft without errors, to test it."""
    checked = TaskChecker(Rules()).check(dict((*tasks.train, *tasks.held_out)[0]))
    return as_task(checked)


def free_name(project: Project, analysis: Analysis) -> Path:
    """Return the name of a new file for a template, relative to the project folder."""
    name = environment_name(analysis.image or analysis.source)
    number, file = 1, Path(f"{name}-tasks.json")
    while (project.folder / file).exists() or (project.folder / file).is_symlink():
        number += 1
        file = Path(f"{name}-tasks-{number}.json")
    return file


def _template(name: str, config: dict[str, Any], analysis: Analysis) -> dict[str, Any]:
    setup, evaluate = _tools("setup", analysis), _tools("evaluate", analysis)
    agent = ", ".join(signature(tool) for tool in analysis.agent_tools[:_MOST_LISTED]) or "no tools"
    notes = [
        "Replace each TODO. This list is a comment: delete it.",
        f"prompt: the agent sees this text and its tools, nothing else: {agent}",
        *_choices(
            "setup_tool",
            setup,
            "No tool sets a task up: the environment begins as it is when it starts.",
        ),
        *_choices(
            "evaluate_tool",
            evaluate,
            "No tool judges the outcome: say in `evaluate` what is expected of a call's answer or "
            "of the last reply, or set `rubric.reward` in the configuration.",
        ),
        "Then: hudtui tasks check FILE --env ENVIRONMENT, and hudtui tasks test FILE",
    ]
    record: dict[str, Any] = {
        "id": f"{name}-1",
        "prompt": f"{TODO}what the agent is to reach",
        "mcp_config": config,
    }
    for field, tools in (("setup_tool", setup), ("evaluate_tool", evaluate)):
        if tools:
            called, arguments = hub_call(tools[0], _placeholders(tools[0]))
            record[field] = {"name": called, "arguments": arguments}
    return {**record, "metadata": {NOTES: [clean_line(note, 2000) for note in notes]}}


def _choices(field: str, tools: Sequence[Tool], nothing: str) -> list[str]:
    if not tools:
        return [f"{field}: {nothing}"]
    lines = []
    for tool in tools[:_MOST_LISTED]:
        about = f": {clean_line(tool.description, 100)}" if tool.description else ""
        name = f"{tool.hub}.{tool.name}" if tool.hub else tool.name
        lines.append(f"{field}: {signature(tool, name)}{about}")
    more = len(tools) - _MOST_LISTED
    return [*lines, f"{field}: {more} more, see `hudtui env analyze`"] if more > 0 else lines


def _tools(stage: Stage, analysis: Analysis) -> list[Tool]:
    """Return the tools and hub functions that set a task up or judge it.

    The hubs themselves are left out.
    """
    tools = [tool for tool in analysis.tools if tool.name not in analysis.hubs]
    return [tool for tool in tools if (tool.hub or tool.name) in _HUBS[stage] or tool.kind == stage]


def _placeholders(tool: Tool) -> dict[str, Any]:
    """Return the required arguments.

    The first of their choices, or text that no check takes for a number.
    """
    needed = [
        field for field in form_fields(tool) if field.required and field.name != ALL_ARGUMENTS
    ]
    return {
        field.name: field.choices[0] if field.choices else f"{TODO}{field.type}" for field in needed
    }


def source_config(source: Source, project: Project) -> dict[str, Any]:
    """Return the `mcp_config` of tasks for an environment.

    Raises:
        InputError: The environment has no MCP servers.
    """
    if source.address is not None or not source.servers:
        raise InputError(
            "a task needs an environment with MCP servers",
            why="A HUD v6 environment holds its tasks itself."
            if source.address is not None
            else "This lock file names no image that could be started.",
            where=Location(source.text),
        )
    if (bundled := find_bundled(source.text)) is not None and source.kind == "bundled":
        return dict(bundled.portable_config)
    config = source.mcp_config()
    for entry in config.values():
        if entry.get("cwd") == str(
            project.folder
        ):  # where a command starts in any case; the path is this machine's alone
            del entry["cwd"]
    return config
