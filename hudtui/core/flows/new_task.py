"""A new task from an environment: what the agent is asked to do, and the calls that set the task up and judge the outcome."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hudtui.core.environment.bundled import find_bundled
from hudtui.core.environment.form_args import (
    ALL_ARGUMENTS,
    form_fields,
    hub_call,
    read_form,
    signature,
    typed_arguments,
)
from hudtui.core.environment.source import Source
from hudtui.core.environment.values import EVALUATE_TOOLS, SETUP_TOOLS, Analysis, Tool
from hudtui.core.errors import InputError, Location
from hudtui.core.events import Progress
from hudtui.core.files import file_lock, find_encoding, parse_json, read_bytes, write_atomic
from hudtui.core.flows.person import Choice, Person
from hudtui.core.flows.trial import Trial, try_task
from hudtui.core.gym.environment_name import environment_name
from hudtui.core.paths import typed_path
from hudtui.core.project import Project
from hudtui.core.tasks.task import Task, ToolCall, task_record
from hudtui.core.text import clean_line, plural

if TYPE_CHECKING:
    pass

Stage = Literal["setup", "evaluate"]

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_DONE = ""
"""Value of the choice that ends a list of questions; no tool and no parameter has an empty name."""
_ANYWAY = "write"
_WORDS = {"setup": "setup", "evaluate": "evaluation"}
_HUBS = {"setup": SETUP_TOOLS, "evaluate": EVALUATE_TOOLS}


@dataclass(frozen=True)
class TaskDraft:
    """What is known of a new task before the person is asked for the rest."""

    prompt: str | None = None
    setup: tuple[ToolCall, ...] | None = None
    """None: the person is asked. Empty: there is no set-up."""
    evaluate: tuple[ToolCall, ...] | None = None
    """None: the person is asked. Empty: the configuration's own reward judges."""
    id: str | None = None
    """None: the name of the environment with the next free number."""
    file: Path | None = None
    """Relative to the project folder, or absolute; None: the person is asked."""
    test: bool = True
    """Set the task up and evaluate it before it is written."""


@dataclass(frozen=True)
class NewTask:
    """A task that has been written."""

    task: Task
    file: Path
    """As the person named it."""
    tasks: int
    """Tasks in the file, with this one."""
    trial: Trial | None
    """None if the task was not tested."""

    @property
    def report(self) -> str:
        return f"Added {self.task.id} to {self.file} ({plural(self.tasks, 'task')})"

    def to_json(self) -> dict[str, Any]:
        """Return the form of `hudtui tasks new --json`."""
        return {
            "file": str(self.file),
            "tasks": self.tasks,
            "task": task_record(self.task),
            "test": None if self.trial is None else self.trial.to_json(),
        }


def read_call(text: str, stage: Stage, analysis: Analysis) -> ToolCall:
    """Return the call that `TOOL=ARGS` means; without `=ARGS` the tool gets no arguments.

    Args:
        text: TOOL is a tool, or a function of a hub: `board` or `setup.board`. ARGS is a JSON object.
        stage: Decides between functions of the same name.
        analysis: The environment.

    Raises:
        InputError: There is no such tool or function, the arguments are not a JSON object, or they do not fit the tool's schema.
    """
    name, sign, typed = text.partition("=")
    name = name.strip()
    arguments = parse_json(typed, f"the arguments of {name}") if sign else {}
    if not isinstance(arguments, dict):
        raise InputError(
            "the arguments of a tool are a JSON object",
            fix=f"For example: {name}='{{\"target\": 64}}'",
            where=Location(name),
        )
    tool = _named(name, stage, analysis)
    return _checked(ToolCall(*hub_call(tool, arguments)) if tool else ToolCall(name, arguments), stage, analysis)


async def new_task(
    project: Project, source: Source, analysis: Analysis, person: Person, draft: TaskDraft | None = None
) -> AsyncGenerator[Progress | Trial | NewTask, None]:
    """Ask for what a task needs, test it, and write it into a task file.

    The environment has been started or reached for its analysis, with the person's agreement, and is started again for the test.
    After a failed test, the person can correct the calls, beginning with the failed call, and the task is tested again. Who does
    not answer a question goes back to the one before it, with what was answered; only before the first one nothing is kept.

    Args:
        project: The project. Files are relative to its folder.
        source: The environment.
        analysis: Its tools and their schemas.
        person: Is asked for what `draft` leaves open, before calls that it named are carried out on an environment of
            others, before a task is added to a file that exists, and after a failed test.
        draft: What is decided already.

    Yields:
        The progress of each test, its `Trial`, and at the end the `NewTask`. It ends without one when the person cancels; nothing
        is written then.

    Raises:
        InputError: The environment has no MCP servers, a call does not fit its tool, the id is taken, or the file cannot be used.
        Untrusted: The user has not agreed to what a file of the project starts or connects to.
    """
    draft = draft or TaskDraft()
    config = _mcp_config(source, project)
    if draft.file is not None:
        await asyncio.to_thread(_read_file, project, draft.file)
    asked = [name for name in ("prompt", "setup", "evaluate", "file") if getattr(draft, name) is None]
    known, at = draft, 0
    while True:
        while at < len(asked):
            known, done = await _ask_part(asked[at], known, project, analysis, person)
            at += 1 if done else -1
            if at < 0:
                return
        file = known.file
        assert file is not None
        held = await asyncio.to_thread(_read_file, project, file)
        name = known.id or _free_id(held.ids, environment_name(analysis.image or analysis.source))
        trial: Trial | None = None
        try:
            task = _checked_task(project, analysis, person, name, known, config)
            _require_free(task.id, held, file)
        except InputError as error:
            if not asked:
                raise
            person.say(" ".join(error.lines()), severity="error")
            at -= 1
            continue
        tests: bool | None = known.test
        if tests and {"setup", "evaluate"} & set(asked) and source.kind != "bundled":
            tests = await _ask_test(task, person)
        if tests:
            agreed = {json.dumps(task.mcp_config, sort_keys=True, default=repr)}
            steps = try_task(project, person, task, str(file), agreed=agreed, powers=source.powers)
            async with aclosing(steps):
                async for step in steps:
                    trial = step if isinstance(step, Trial) else trial
                    yield step
            assert trial is not None  # the servers are agreed to
            if trial.severity == "error":
                corrected = await _correct(known, task.id, trial, analysis, person)
                if corrected is not known:
                    known, at = (known, at - 1) if corrected is None else (corrected, at)
                    if at < 0:
                        return
                    continue
        lines = (f"The file has {plural(len(held.records), 'task')}; its contents stay as they are.",)
        if tests is not None and (
            held.text is None
            or await person.confirm(f"Add {task.id} to {file}?", lines, yes="Add", no="Back" if asked else "Cancel")
        ):
            break
        at -= 1
        if at < 0:
            return
    tasks = await asyncio.to_thread(_write, project, file, task, new=held.text is None)
    yield NewTask(task, file, tasks, trial)


async def _ask_part(part: str, known: TaskDraft, project: Project, analysis: Analysis, person: Person) -> tuple[TaskDraft, bool]:
    """Ask for one part of a task, with what is known of it as the suggestion. Returns whether it was answered, too."""
    if part == "prompt":
        prompt = await _ask_prompt(known.prompt or "", analysis, person)
        return (known, False) if prompt is None else (replace(known, prompt=prompt), True)
    if part == "file":
        file = await _ask_file(project, analysis, person, known.file)
        return (known, False) if file is None else (replace(known, file=file), True)
    stage: Stage = "setup" if part == "setup" else "evaluate"
    calls = await _ask_call(stage, analysis, person, known.setup if part == "setup" else known.evaluate)
    if calls is None:
        return known, False
    return (replace(known, setup=calls) if part == "setup" else replace(known, evaluate=calls)), True


async def _ask_prompt(value: str, analysis: Analysis, person: Person) -> str | None:
    lines = ("What the agent is asked to do. It sees this text and the tools, nothing else.",)
    names = ", ".join(clean_line(tool.name, 30) for tool in analysis.agent_tools[:3])
    example = f"what to reach with {names}" if names else "what to reach"
    while True:
        prompt = await person.ask("Prompt", lines=lines, value=value, placeholder=example, accept="Next")
        if prompt is None or prompt.strip():
            return prompt
        person.say("The prompt is empty: the agent would not know what to do.", severity="error")


async def _ask_test(task: Task, person: Person) -> bool | None:
    """Whether the calls of the task are carried out now; None to go back. They may change what the environment works on."""
    calls = [_call_text(call) for call in (*task.setup, *task.evaluate)]
    if not calls:
        return True
    choices = [
        Choice("test", "Test it, then write it", "calls the environment as shown above"),
        Choice(_ANYWAY, "Only write it", "calls nothing"),
    ]
    lines = ("The test carries these calls out for real, on what the environment works on now:", *calls)
    chosen = await person.choose(f"Test {task.id}?", choices, lines=lines)
    return None if chosen is None else chosen == "test"


def _mcp_config(source: Source, project: Project) -> dict[str, Any]:
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
    found = source.mcp_config()
    for entry in found.values():
        if entry.get("cwd") == str(project.folder):  # where a command starts in any case; the path is this machine's alone
            del entry["cwd"]
    return found


def _named(name: str, stage: Stage, analysis: Analysis) -> Tool | None:
    """Return the tool or hub function of a name; None for a hub that is called as an ordinary tool, and for an unknown name."""
    hub, dot, function = name.partition(".")
    functions = [tool for tool in analysis.tools if tool.hub is not None]
    if dot and (found := [tool for tool in functions if (tool.hub, tool.name) == (hub, function)]):
        return found[0]
    if (tool := analysis.tool(name)) is not None and tool.hub is None:
        return tool if name not in analysis.hubs else None
    mine = sorted((tool for tool in functions if tool.name == name), key=lambda tool: tool.hub not in _HUBS[stage])
    return mine[0] if mine else None


def _checked(call: ToolCall, stage: Stage, analysis: Analysis) -> ToolCall:
    from hudtui.core.tasks.validate import check_call

    errors = [one for one in check_call(call.name, call.name, call.arguments, analysis) if one.severity == "error"]
    if errors:
        first = errors[0]
        raise InputError(
            f"the {_WORDS[stage]} cannot be called like this: {first.message}",
            why="\n".join(f"{one.field}: {one.message}" for one in errors[1:]) or None,
            fix="`hudtui env analyze` lists the tools and their parameters.",
            where=Location(call.name, field=(first.field or "").removeprefix(f"{call.name}.") or None),
        )
    return call


def _checked_task(
    project: Project, analysis: Analysis, person: Person, name: str, draft: TaskDraft, config: Mapping[str, Any]
) -> Task:
    """Return the task if it is usable. Warnings about it go to the person."""
    from hudtui.core.tasks.read import as_task
    from hudtui.core.tasks.validate import Rules, TaskChecker

    record = task_record(Task(name, draft.prompt or "", config, draft.setup or (), draft.evaluate or ()))
    settings = project.settings()
    rules = Rules(lookup=settings.lookup, lacking=settings.lacking, platform=project.platform, analysis=analysis)
    checked = TaskChecker(rules).check(record)
    for problem in checked.problems:
        if problem.severity == "error":
            raise InputError(f"{problem.field}: {problem.message}", where=Location(name))
        person.say(f"{problem.field}: {problem.message}", severity="warning")
    return as_task(checked)


async def _correct(draft: TaskDraft, name: str, trial: Trial, analysis: Analysis, person: Person) -> TaskDraft | None:
    """Return the draft with a call corrected; the draft itself if it is to be written as it is; None if the person cancels."""
    calls: dict[Stage, tuple[ToolCall, ...]] = {"setup": draft.setup or (), "evaluate": draft.evaluate or ()}
    made: list[tuple[Stage, int]] = [(stage, place) for stage in calls for place in range(len(calls[stage]))]
    failed = made[trial.at : trial.at + 1]
    places = failed + [one for one in made if one not in failed]
    places += [(stage, 0) for stage in calls if not calls[stage]]
    choices = []
    for stage, place in places:
        told = [_call_text(call) for call in calls[stage][place : place + 1]]
        choices.append(Choice(f"{stage} {place}", f"Correct the {_WORDS[stage]}", *(told or [f"there is no {_WORDS[stage]}"])))
    choices.append(Choice(_ANYWAY, f"Write {name} anyway"))
    while True:
        chosen = await person.choose("The test failed", choices, lines=(trial.verdict, *trial.details))
        if chosen is None or chosen == _ANYWAY:
            return None if chosen is None else draft
        stage, place = places[[choice.value for choice in choices].index(chosen)]
        kept = calls[stage]
        asked = await _ask_call(stage, analysis, person, kept[place : place + 1])
        if asked is not None:
            corrected = (*kept[:place], *asked, *kept[place + 1 :])
            return replace(draft, setup=corrected) if stage == "setup" else replace(draft, evaluate=corrected)


def _call_text(call: ToolCall) -> str:
    return clean_line(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False, default=repr)}", 100)


async def _ask_call(
    stage: Stage, analysis: Analysis, person: Person, before: tuple[ToolCall, ...] | None = None
) -> tuple[ToolCall, ...] | None:
    """Return the calls of a stage, at most one; None if the person goes back. The first of `before` is suggested."""
    offered = {f"{tool.hub}.{tool.name}" if tool.hub else tool.name: tool for tool in _offered(stage, analysis)}
    choices = [Choice(name, signature(tool, name), clean_line(tool.description, 100)) for name, tool in offered.items()]
    if stage == "setup":
        choices.append(Choice(_DONE, "no setup", "the environment begins as it is when it starts"))
        title = "Which call sets the task up?"
    else:
        choices.append(Choice(_DONE, "no evaluator", "set `rubric.reward` in the configuration"))
        title = "Evaluator: which call judges the outcome?"
    suggested, typed = (None if before is None else _DONE, {}) if not before else _typed_call(before[0], offered)
    while True:
        chosen = await person.choose(title, choices, value=suggested)
        if chosen is None or chosen == _DONE:
            return None if chosen is None else ()
        if chosen != suggested:
            suggested, typed = chosen, {}
        while (filled := await _ask_arguments(chosen, offered[chosen], typed, person)) is not None:
            typed = filled
            try:
                call = ToolCall(*hub_call(offered[chosen], read_form(offered[chosen], typed)))
                return (_checked(call, stage, analysis),)
            except InputError as error:
                person.say(" ".join(error.lines()), severity="error")


def _typed_call(call: ToolCall, offered: Mapping[str, Tool]) -> tuple[str | None, dict[str, str]]:
    """Return the name of the tool of a call and what is typed for its arguments; None and nothing if it is not offered."""
    for name, tool in offered.items():
        if tool.hub is None and tool.name == call.name:
            return name, typed_arguments(tool, call.arguments)
        given = call.arguments.get("arguments")
        if tool.hub == call.name and call.arguments.get("name") == tool.name:
            return name, typed_arguments(tool, given if isinstance(given, Mapping) else {})
    return None, {}


def _offered(stage: Stage, analysis: Analysis) -> list[Tool]:
    """The tools and functions that a stage can call, the customary ones first. Hubs themselves are left out."""

    def rank(tool: Tool) -> int:
        other = "evaluate" if stage == "setup" else "setup"
        if (tool.hub or tool.name) in _HUBS[stage] or tool.kind == stage:
            return 0
        return 2 if (tool.hub or tool.name) in _HUBS[other] or tool.kind == other else 1

    tools = [
        tool for tool in analysis.tools if tool.name not in analysis.hubs and (tool.hub is not None or tool.kind != "hidden")
    ]
    return sorted((tool for tool in tools if tool.kind != "lifecycle"), key=rank)


async def _ask_arguments(name: str, tool: Tool, before: Mapping[str, str], person: Person) -> dict[str, str] | None:
    """Return what was typed for each parameter, in one form; None if the person goes back.

    Args:
        name: The tool, for the title.
        tool: The tool or function.
        before: What was typed the last time; it is suggested.
        person: Is asked, unless the tool has no parameters.
    """
    fields = form_fields(tool)
    if not fields:
        return {}
    lines = ('Parameters unknown: enter a JSON object, such as {"target": 64}.',) if fields[0].name == ALL_ARGUMENTS else ()
    shown = []
    for field in fields:
        about = f"{field.type}, default {clean_line(field.default, 40)}" if field.default else field.type
        shown.append(replace(field, type=about, default=before.get(field.name, "{}" if field.name == ALL_ARGUMENTS else "")))
    filled = await person.fill_in(f"{name}: arguments", shown, lines=lines, accept="Next", no="Back")
    return None if filled is None else dict(filled)


async def _ask_file(project: Project, analysis: Analysis, person: Person, before: Path | None) -> Path | None:
    value = f"{environment_name(analysis.image or analysis.source)}-tasks.json" if before is None else str(before)
    lines = ("Relative to the project folder. A task file that exists gets one more task.",)
    while True:
        given = await person.ask("Task file", value=value, lines=lines, accept="Next")
        if given is None:
            return None
        if not given.strip():
            person.say("Name a file that ends in .json or .jsonl.", severity="error")
            continue
        value, file = given.strip(), Path(given.strip())
        try:
            if not (project.folder / file).resolve().is_relative_to(project.folder.resolve()):
                raise InputError(
                    "this is outside of the project folder, and nothing is written",
                    fix="Name a file inside it. In a terminal, hudtui tasks new -o FILE writes anywhere.",
                    where=Location(str(file)),
                )
            await asyncio.to_thread(_read_file, project, file)
            return file
        except InputError as error:
            person.say(" ".join(error.lines()), severity="error")


@dataclass(frozen=True)
class _TaskFile:
    """What a task file holds."""

    text: str | None = None
    """None if there is no file yet."""
    records: tuple[Any, ...] = ()
    mark: bytes = b""
    encoding: str = "utf-8"

    @property
    def ids(self) -> set[str]:
        return {record["id"] for record in self.records if isinstance(record, dict) and isinstance(record.get("id"), str)}


def _read_file(project: Project, file: Path) -> _TaskFile:
    """Read a task file that may get a further task.

    Raises:
        InputError: Its name is not that of a task file, or a v4 task cannot be added to it.
    """
    from hudtui.core.tasks.formats import generation_of

    if file.suffix not in _SUFFIXES:
        raise InputError("a task file ends in .json or .jsonl", where=Location(str(file)))
    path = project.folder / typed_path(file)
    if not path.exists():
        return _TaskFile()
    data = read_bytes(path)
    mark, encoding = find_encoding(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError:
        raise InputError("this file is not text, and no task can be added to it", where=Location(str(file))) from None
    if file.suffix == ".json":
        found = parse_json(text, str(file)) if text.strip() else []
        records = found if isinstance(found, list) else [found]
    else:
        records = [parse_json(line, f"{file}:{number}") for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for record in records:
        if not isinstance(record, dict) or (generation := generation_of(record)) != "v4":
            what = "holds no tasks" if not isinstance(record, dict) else f"holds HUD {generation} tasks"
            raise InputError(
                f"this file {what}, and the new task is one of v4", fix="Name another file.", where=Location(str(file))
            )
    return _TaskFile(text, tuple(records), mark, encoding)


def _free_id(taken: set[str], base: str) -> str:
    number = 1
    while f"{base}-{number}" in taken:
        number += 1
    return f"{base}-{number}"


def _require_free(name: str, held: _TaskFile, file: Path) -> None:
    if name in held.ids:
        raise InputError(f"the file has a task {name} already", fix="Name another id.", where=Location(str(file)))


def _write(project: Project, file: Path, task: Task, *, new: bool) -> int:
    """Add a task to a file as it is now; what it holds stays as it is, to the byte. Returns the number of its tasks.

    Raises:
        InputError: The file has appeared, or has the id by now, or cannot be written.
    """
    path = project.folder / typed_path(file)
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path):
        held = _read_file(project, file)
        if new and held.text is not None:
            raise InputError("this file was written in the meantime, and nothing is changed", where=Location(str(file)))
        _require_free(task.id, held, file)
        text = _with_task(held, task_record(task), lines=file.suffix != ".json")
        write_atomic(path, held.mark + text.encode(held.encoding))
    return len(held.records) + 1


def _with_task(held: _TaskFile, record: Mapping[str, Any], *, lines: bool) -> str:
    text = (held.text or "").rstrip()
    newline = "\r\n" if "\r\n" in text else "\n"
    if lines:
        line = json.dumps(record, ensure_ascii=False)
        return f"{text}{newline if text else ''}{line}{newline}"
    added = "\n".join("  " + line for line in json.dumps(record, ensure_ascii=False, indent=2).split("\n")).replace("\n", newline)
    if not held.records:
        return f"[{newline}{added}{newline}]{newline}"
    kept = text.removesuffix("]").rstrip() if text.lstrip().startswith("[") else f"[{newline}{text}"
    return f"{kept},{newline}{added}{newline}]{newline}"
