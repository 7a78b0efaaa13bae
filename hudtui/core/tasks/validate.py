"""Checking tasks.

The one place that decides whether a record is a usable task, and what is wrong with it.
Imports msgspec: import this module late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hudtui.core.environment.episode_place import find_template, template_name
from hudtui.core.environment.servers import WRAPPERS, listening_problem
from hudtui.core.environment.validation import NotCheckedError, Validator
from hudtui.core.errors import InputError, SourceError
from hudtui.core.files import parse_json
from hudtui.core.platform import HUD, Platform
from hudtui.core.tasks.agent import check_agent, settings_in
from hudtui.core.tasks.call_secrets import call_secrets, known_secrets
from hudtui.core.tasks.expectation_form import part_calls, read_parts
from hudtui.core.tasks.formats import not_for_training
from hudtui.core.tasks.json_records import decode_json, encode_json
from hudtui.core.tasks.judges import Lacking, key_problems, no_value
from hudtui.core.tasks.servers import Rewrite, literal_secrets
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.tasks.solution import calls_in, check_solution
from hudtui.core.tasks.task import FieldProblem, json_kind
from hudtui.core.text import clean_line, did_you_mean, estimated_tokens
from hudtui.core.variables import EPISODE_VARIABLES, Lookup, substitute_tree

if TYPE_CHECKING:
    from hudtui.core.environment.matching import EnvironmentIdentity
    from hudtui.core.environment.values import Analysis

TODO = "TODO: "
"""Begins what the template of a task leaves to be written; see `flows.new_task`."""
TASK_FIELDS = ("id", "prompt", "mcp_config", "setup_tool", "evaluate_tool", "metadata")
"""The columns of the dataset format, in its order. Other fields of a task are kept as further
columns."""
UNJUDGED = "required: neither the task nor `rubric.reward` of the configuration judges the outcome"

_MOST_PROBLEMS = 100
"""Problems reported for one call."""
_MOST_REMEMBERED = 20_000
_INVALID: Any = object()
"""Stands for a field whose text is not JSON; a problem has been added for it."""


@dataclass(frozen=True)
class Rules:
    """Facts that tasks are checked against. A missing one checks nothing."""

    lookup: Lookup | None = None
    """Values of variables by their exact names; None: unresolved variables are not reported."""
    lacking: Lacking | None = None
    """Reason why a variable has no value, and what mends that; see `Settings.lacking`."""
    lock_image: str | None = None
    """Image for tasks without `mcp_config`."""
    elsewhere: bool = False
    """The tasks are played in an environment that is named beside them: they need no `mcp_config`,
    and theirs does not count."""
    platform: Platform = HUD
    analysis: Analysis | None = None
    """Environment of the tasks: its tools, functions and schemas."""
    same_servers: bool = False
    """Check the calls only of tasks whose servers are the analyzed environment."""
    folder: Path | None = None
    """Project folder; the current folder when None."""
    token_budget: int | None = None
    """Longest prompt in (estimated) tokens."""
    strict: bool = False
    """Treat warnings as errors."""
    own_reward: bool | None = None
    """True if something beside the tasks judges the outcome, such as `rubric.reward` of the
    configuration: then tasks need no `evaluate_tool`. None: no configuration is known, and a task
    without one gets a warning."""
    rewrite: Rewrite | None = None
    """Change of each `mcp_config` before it is checked; see `servers.config_rewriter`."""

    @cached_property
    def identity(self) -> EnvironmentIdentity:
        """Identity of the analyzed environment."""
        from hudtui.core.environment.matching import identity_of

        assert self.analysis is not None
        return identity_of(self.analysis, self.folder or Path.cwd())

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """The values of known credentials."""
        return known_secrets(self.lookup)

    def other_servers(self, config: Any) -> str | None:
        """Return the names of a task's servers if they are not the analyzed environment.

        None if the calls can be checked.
        """
        if self.analysis is None or not self.same_servers:
            return None
        from hudtui.core.environment.matching import servers_in, uses_environment

        return (
            None if uses_environment(config, self.identity) else servers_in(config) or "no server"
        )


class CheckedTask(msgspec.Struct, gc=False):
    """A record after its checks.

    With an error among its problems the fields below must not be used.
    """

    record: Any = None
    """The record as it was read."""
    index: int = 0
    """Position in the source, counting from 0."""
    id: str = ""
    """Empty while the record has no id of its own."""
    prompt: str = ""
    mcp_config: dict[str, Any] = {}
    setup_tool: list[dict[str, Any]] | dict[str, Any] = {}
    evaluate_tool: list[dict[str, Any]] | dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    """Other fields that are not null."""
    other_servers: str | None = None
    """Servers of the task, if its calls were not checked because the analyzed environment is
    another one."""
    inferred: bool = False
    """True if `mcp_config` comes from the lock file's image."""
    rewritten: tuple[str, ...] = ()
    """Remarks of `Rules.rewrite` about changes."""
    problems: list[FieldProblem] = []

    @property
    def usable(self) -> bool:
        """True if no problem is an error."""
        return not self.problems or all(problem.severity != "error" for problem in self.problems)

    def add(self, field: str | None, message: str, code: str, severity: Any = "error") -> None:
        self.problems.append(FieldProblem(field, message, code, severity))


@dataclass(slots=True)
class CheckedConfig:
    """A distinct `mcp_config` after its checks."""

    config: dict[str, Any] = field(default_factory=dict)
    other_servers: str | None = None
    inferred: bool = False
    rewritten: tuple[str, ...] = ()
    problems: list[FieldProblem] = field(default_factory=list)


class TaskChecker:
    """Checks records against rules.

    Most tasks of a file share their `mcp_config`, so each distinct one is checked once.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._configs: dict[str | bytes, CheckedConfig] = {}
        self._last: tuple[Any, CheckedConfig] = (None, CheckedConfig())
        """The last `mcp_config`: records that were decoded together share it."""
        self._calls: dict[tuple[str, bytes], list[FieldProblem]] = {}

    def check(self, record: Any, *, sound: bool = False) -> CheckedTask:
        """Check a task of HUD's v4 format. Never raises; what is wrong is among the problems.

        Args:
            record: Its data, or the problem with its text.
            sound: Whether the data is known to be free of what JSON cannot hold, e.g. NaN.
        """
        task = CheckedTask(record)
        if isinstance(record, FieldProblem):
            task.problems.append(record)
        elif not isinstance(record, dict):
            task.add(None, f"this is {json_kind(record)}, and a task is an object", "type")
        elif not record.keys() >= _V4_FIELDS and (problem := not_for_training(record)) is not None:
            task.problems.append(problem)
        else:
            self._check_fields(task, record)
            if not sound and (problem := _unwritable(None, record)) is not None:
                task.id, task.problems = "", [problem]
        if self.rules.strict:
            task.problems = [problem._replace(severity="error") for problem in task.problems]
        return task

    def _check_fields(self, task: CheckedTask, record: dict[str, Any]) -> None:
        identity, prompt = record.get("id"), record.get("prompt")
        if type(identity) is str and identity.isprintable() and identity.strip() == identity:
            task.id = identity
        else:
            _check_id(task, identity)
        if self.rules.token_budget is None and type(prompt) is str and _is_written(prompt):
            task.prompt = prompt
        else:
            _check_prompt(task, prompt, self.rules.token_budget)
        config = self.check_config(record.get("mcp_config"))
        task.mcp_config, task.inferred, task.rewritten = (
            config.config,
            config.inferred,
            config.rewritten,
        )
        task.other_servers = config.other_servers
        task.problems += config.problems
        analysis = self.rules.analysis if config.other_servers is None else None
        task.setup_tool = (
            self._check_calls(task, "setup_tool", record.get("setup_tool"), analysis) or {}
        )
        evaluate_tool = record.get("evaluate_tool")
        if not is_empty(evaluate_tool) or is_empty(record.get("evaluate")):
            calls = self._check_calls(task, "evaluate_tool", evaluate_tool, analysis)
            task.evaluate_tool = calls or {}
        metadata = _data(task.problems, "metadata", record.get("metadata"))
        if isinstance(metadata, dict):
            task.metadata = metadata
        elif metadata is not _INVALID and not is_empty(metadata):
            task.add("metadata", f"this is {json_kind(metadata)}, and an object is needed", "type")
        if not record.keys() <= _FIELDS:
            task.extra = {
                name: value
                for name, value in record.items()
                if name not in _FIELDS and value is not None
            }
            if not task.extra.keys().isdisjoint(_AGENT_FIELDS):
                task.problems += check_agent(task.extra)
            if "evaluate" in task.extra:
                _check_parts(task, analysis, self.rules)
            if SOLUTION in task.extra:
                _check_solution(task, analysis, self.rules)
            for name in task.extra:
                if (near := _slip_of(name)) is not None:
                    message = f"this is kept and means nothing here; did you mean {near!r}?"
                    task.add(clean_line(name, 40), message, "unknown-key", "warning")

    def check_config(self, value: Any) -> CheckedConfig:
        """Check the `mcp_config` of a record. Equal ones share their result."""
        if value is not None and value is self._last[0]:
            return self._last[1]
        self._last = value, self._remembered_config(value)
        return self._last[1]

    def _remembered_config(self, value: Any) -> CheckedConfig:
        try:
            key: str | bytes = value if isinstance(value, str) else encode_json(value)
        except ValueError:
            return self._new_config(value)
        found = self._configs.get(key)
        if found is None:
            if len(self._configs) >= _MOST_REMEMBERED:
                self._configs.clear()
            found = self._configs[key] = self._new_config(value)
        return found

    def _new_config(self, value: Any) -> CheckedConfig:
        found, rules = CheckedConfig(), self.rules
        if rules.elsewhere:
            return found
        config = _data(found.problems, "mcp_config", value)
        if config is _INVALID:
            return found
        if isinstance(config, dict):
            config = without_nulls(config)
        if is_empty(config):
            if rules.lock_image is None:
                message = "required; there is no lock file with an image to infer it from"
                found.problems.append(FieldProblem("mcp_config", message, "missing"))
                return found
            config, found.inferred = rules.platform.mcp_config(rules.lock_image, rules.lookup), True
        if isinstance(config, dict):
            wrapper, inner = next(iter(config.items())) if len(config) == 1 else ("", None)
            if (
                wrapper in WRAPPERS
                and isinstance(inner, dict)
                and inner
                and all(isinstance(one, dict) for one in inner.values())
            ):
                message = (
                    f"the servers stand inside `{wrapper}`, as in files of other clients: they are "
                    "taken from there"
                )
                found.problems.append(FieldProblem("mcp_config", message, "wrapped", "warning"))
                config = inner
            found.other_servers = rules.other_servers(config)
            if rules.rewrite is not None:
                config, found.rewritten = rules.rewrite(config)
            found.config = config
        found.problems += check_config(config, rules)
        return found

    def _check_calls(
        self, task: CheckedTask, name: str, value: Any, analysis: Analysis | None
    ) -> Any:
        """Return the calls of a field (one or a list) with their arguments as data.

        None if there are none.
        """
        if analysis is None and type(value) is dict and _is_sound_call(value):  # as most calls are
            return value
        calls = _data(task.problems, name, value)
        if calls is _INVALID:
            return None
        if is_empty(calls):
            if name == "evaluate_tool" and self.rules.own_reward is None:
                task.add(
                    name,
                    "nothing judges the outcome: say what is expected in `evaluate`, or set "
                    "`rubric.reward` in the configuration",
                    "unjudged",
                    "warning",
                )
            elif name == "evaluate_tool" and not self.rules.own_reward:
                task.add(name, UNJUDGED, "missing")
            return None
        calls = (
            [_plain_call(task, f"{name}[{at}]", call) for at, call in enumerate(calls)]
            if type(calls) is list
            else _plain_call(task, name, calls)
        )
        if analysis is None:
            task.problems += check_calls(name, calls, None)
            return calls
        try:
            key = (name, encode_json(calls))
        except ValueError:
            task.problems += check_calls(name, calls, analysis)
            return calls
        if key not in self._calls:
            if len(self._calls) >= _MOST_REMEMBERED:
                self._calls.clear()
            self._calls[key] = check_calls(name, calls, analysis)
        task.problems += self._calls[key]
        return calls


_FIELDS = frozenset(TASK_FIELDS)
_KNOWN_FIELDS = (*TASK_FIELDS, "evaluate", SOLUTION, "agent_config", "system_prompt")


@lru_cache(maxsize=1024)  # the tasks of a file have the same further fields
def _slip_of(name: str) -> str | None:
    """Return the field of a task that a further field is probably a slip of."""
    return None if name in _KNOWN_FIELDS else did_you_mean(name, _KNOWN_FIELDS, cutoff=0.85)


_AGENT_FIELDS = frozenset(("agent_config", "system_prompt"))
_KEPT_FROM_AGENT = ("setup", "evaluate", "lifecycle", "hidden")
_V4_FIELDS = frozenset(("prompt", "mcp_config"))
"""Only v4 tasks have both."""


def is_empty(value: Any) -> bool:
    """Return whether a field is absent, null, an empty collection, or text for nothing.

    Such a text is empty, `"{}"`, `"[]"` or `"null"`; a collection is an object or a list.
    """
    if isinstance(value, str):
        return value.strip() in ("", "{}", "[]", "null")
    return value is None or (not value and isinstance(value, dict | list))


def without_nulls(value: Any) -> Any:
    """Return nested objects without their null entries.

    `datasets` adds each key that another row has.
    """
    if type(value) is dict:
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value


def _data(problems: list[FieldProblem], name: str, value: Any) -> Any:
    """Return a field as data, also where the record holds it as JSON text."""
    if not isinstance(value, str) or is_empty(value):
        return value
    try:
        return decode_json(value.encode())
    except ValueError:
        pass
    try:
        found = parse_json(value, name)
    except InputError as error:
        place = error.where.field if error.where is not None and error.where.field else None
        reason = f"{error.what} ({place})" if place else error.what
        problems.append(FieldProblem(name, f"this text is not JSON: {reason}", "json"))
        return _INVALID
    if (problem := _unwritable(name, found)) is not None:
        problems.append(problem)
        return _INVALID
    return found


def _unwritable(name: str | None, value: Any) -> FieldProblem | None:
    """Return the problem with a value that cannot be written as JSON; None if it can."""
    try:
        encode_json(value)
    except ValueError as error:
        why = "half of a surrogate pair" if isinstance(error, UnicodeEncodeError) else str(error)
        return FieldProblem(name, f"this cannot be written as JSON: {why}", "json")
    return None


def _check_id(task: CheckedTask, value: Any) -> None:
    if isinstance(value, str):
        task.id = value
        if not value.isprintable() or value != value.strip():
            task.add("id", "the id holds control characters or blanks at its ends", "id", "warning")
    elif isinstance(value, int) and not isinstance(value, bool):
        task.id = str(value)
        task.add("id", f"the id is a number; it is kept as the text {value}", "id", "warning")
    elif value is not None:
        task.add("id", f"this is {json_kind(value)}, and text is needed", "type")


def _is_written(prompt: str) -> bool:
    return bool(prompt) and not prompt.isspace() and not prompt.startswith(TODO)


def _check_prompt(task: CheckedTask, value: Any, budget: int | None) -> None:
    if value is None:
        task.add("prompt", "required: it tells the agent what to do", "missing")
    elif not isinstance(value, str):
        task.add("prompt", f"this is {json_kind(value)}, and text is needed", "type")
    elif not value or value.isspace():
        task.add("prompt", "this is empty: the agent would not know what to do", "missing")
    else:
        task.prompt = value
        if value.startswith(TODO):
            task.add(
                "prompt",
                "this is still the text of the template: write what the agent is to reach",
                "template",
                "warning",
            )
        if budget is not None and (tokens := estimated_tokens(value)) > budget:
            task.add(
                "prompt",
                f"about {tokens} tokens, and the budget is {budget}",
                "too-long",
                "warning",
            )


def check_config(config: Any, rules: Rules) -> list[FieldProblem]:
    """Return what is wrong with an `mcp_config` that is data already."""
    if not isinstance(config, dict):
        return [
            FieldProblem(
                "mcp_config",
                f"this is {json_kind(config)}, and an object of servers is needed",
                "type",
            )
        ]
    found: list[FieldProblem] = []
    for name, server in config.items():
        place = f"mcp_config.{name}"
        if not isinstance(server, dict):
            message = (
                f"this is {json_kind(server)}, and a server is an object with `command` or `url`"
            )
            found.append(FieldProblem(place, message, "type"))
            continue
        found += _check_server(place, server)
    found += [
        FieldProblem(place, message, "secret", "warning")
        for place, message in literal_secrets(config, rules.platform)
    ]
    if any(problem.severity == "error" for problem in found):
        return found
    found += _check_place(config, rules)
    if rules.lookup is not None:
        found += _check_variables(config, rules.lookup, rules.lacking)
    return found


def _check_place(config: Mapping[str, Any], rules: Rules) -> Iterator[FieldProblem]:
    """Yield what is wrong with the variables of an episode, and with the template they name."""
    lookup = rules.lookup or (lambda name: None)
    try:
        name = template_name(config, lookup)
    except SourceError as error:
        yield FieldProblem("mcp_config", f"{error.what}: {error.fix}", "episode")
        return
    if name is None:
        return
    try:
        find_template(name, rules.folder or Path.cwd())
    except InputError as error:
        # Only a warning: the task may be sound in another folder.
        message = ": ".join(filter(None, (error.what, error.fix)))
        yield FieldProblem("mcp_config", message, "template", "warning")


def _check_server(place: str, server: Mapping[str, Any]) -> list[FieldProblem]:
    found = []
    url, command = server.get("url"), server.get("command")
    if url is None and command is None:
        found.append(
            FieldProblem(
                place, "a server needs a `command` to start or a `url` to reach", "missing"
            )
        )
    for name, value in (("url", url), ("command", command)):
        if value is not None and not isinstance(value, str):
            found.append(
                FieldProblem(
                    f"{place}.{name}", f"this is {json_kind(value)}, and text is needed", "type"
                )
            )
        elif value is not None and not value.strip():
            found.append(FieldProblem(f"{place}.{name}", "this is empty", "missing"))
    args = server.get("args")
    if args is not None and not (
        isinstance(args, list) and all(isinstance(item, str) for item in args)
    ):
        found.append(FieldProblem(f"{place}.args", "arguments are a list of texts", "type"))
    for name in ("env", "headers"):
        entries = server.get(name)
        if entries is None:
            continue
        if not isinstance(entries, dict):
            message = f"this is {json_kind(entries)}, and an object of texts is needed"
            found.append(FieldProblem(f"{place}.{name}", message, "type"))
            continue
        found += [
            FieldProblem(
                f"{place}.{name}.{key}", f"this is {json_kind(value)}, and text is needed", "type"
            )
            for key, value in entries.items()
            if value is not None and not isinstance(value, str)
        ]
    if not found and (problem := listening_problem(server)) is not None:
        message = f"{problem.what}. {problem.fix}"
        found.append(FieldProblem(f"{place}.{problem.field}", message, "address"))
    return found


def _check_variables(
    config: Mapping[str, Any], lookup: Lookup, lacking: Lacking | None
) -> list[FieldProblem]:
    """Return the variables without a value, and those with a value in another case only."""
    found = []
    for name in substitute_tree(config, lookup)[1]:
        if name in EPISODE_VARIABLES:
            continue
        other = name.upper()
        if other != name and lookup(other) is not None:
            message = f"the variable {name} is not set, but {other} is, and is used instead"
            found.append(FieldProblem("mcp_config", message, "variable-case", "warning"))
        else:
            why, fix = (lacking or no_value)(name)
            message = f"the variable {name} {why}, and the task needs it: {fix}"
            found.append(FieldProblem("mcp_config", message, "variable", "warning"))
    return found


def _check_parts(task: CheckedTask, analysis: Analysis | None, rules: Rules) -> None:
    """Check `evaluate`, and keep it as data, also where the record holds it as JSON text."""
    field = _data(task.problems, "evaluate", task.extra.pop("evaluate"))
    if field is _INVALID or is_empty(field):
        return
    task.extra["evaluate"] = field
    if task.evaluate_tool:
        message = "the task is judged by `evaluate_tool` already: keep one of the two"
        task.add("evaluate", message, "conflict")
        return
    parts, problems = read_parts(field)
    task.problems += problems
    if rules.lookup is not None:
        task.problems += key_problems(parts, rules.lookup, rules.lacking)
    if problems:
        return
    for place, call in part_calls(parts):
        task.problems += call_secrets(f"{place}.arguments", call.arguments, rules.secrets)
        if analysis is not None:
            task.problems += check_call(place, call.name, call.arguments, analysis)


def _check_solution(task: CheckedTask, analysis: Analysis | None, rules: Rules) -> None:
    """Check `solution`, and keep it as data, also where the record holds it as JSON text."""
    steps = _data(task.problems, SOLUTION, task.extra.pop(SOLUTION))
    if steps is _INVALID or is_empty(steps):
        return
    if isinstance(steps, list):
        steps = [_plain_call(task, f"{SOLUTION}[{at}]", step) for at, step in enumerate(steps)]
    task.extra[SOLUTION] = steps
    problems = check_solution(steps)
    if not problems:
        problems = check_calls(SOLUTION, calls_in(steps), analysis)
    task.problems += problems
    if problems:
        return
    task.problems += _unreachable(task, steps, analysis)
    for number, call in enumerate(calls_in(steps)):
        place = f"{SOLUTION}[{number}].arguments"
        task.problems += call_secrets(place, call.get("arguments") or {}, rules.secrets)


def _unreachable(
    task: CheckedTask, steps: list[Any], analysis: Analysis | None
) -> list[FieldProblem]:
    """Return a warning for each call of a solution that the agent cannot make in this task."""
    agent = settings_in(task.extra)
    judges = task.evaluate_tool if isinstance(task.evaluate_tool, list) else [task.evaluate_tool]
    judging = {call.get("name") for call in judges if isinstance(call, dict)}
    found = []
    for number, call in enumerate(calls_in(steps)):
        tool = None if analysis is None else analysis.tool(call["name"])
        closed = call["name"] in judging or not agent.allows(call["name"])
        if closed or (tool is not None and tool.kind in _KEPT_FROM_AGENT):
            message = f"the agent cannot call {clean_line(call['name'], 60)} in this task, so that "
            message += "this does not prove that it can solve it"
            place = f"{SOLUTION}[{number}].name"
            found.append(FieldProblem(place, message, "unreachable", "warning"))
    return found


def _plain_call(task: CheckedTask, place: str, call: Any) -> Any:
    """Return a call with its arguments as data, also where they are JSON text."""
    if isinstance(call, dict) and isinstance(call.get("arguments"), str):
        arguments = _data(task.problems, f"{place}.arguments", call["arguments"])
        return {
            **call,
            "arguments": {} if arguments is _INVALID or is_empty(arguments) else arguments,
        }
    return call


def _is_sound_call(call: dict[str, Any]) -> bool:
    name, arguments = call.get("name"), call.get("arguments")
    return type(name) is str and name != "" and (arguments is None or type(arguments) is dict)


def check_calls(name: str, value: Any, analysis: Analysis | None) -> list[FieldProblem]:
    """Return what is wrong with the calls of a field.

    Args:
        name: `setup_tool` or `evaluate_tool`.
        value: One call or a list of calls, as data.
        analysis: Environment to check the calls against.
    """
    found: list[FieldProblem] = []
    for number, call in enumerate(value if isinstance(value, list) else (value,)):
        place = f"{name}[{number}]" if isinstance(value, list) else name
        if not isinstance(call, dict):
            message = (
                f"this is {json_kind(call)}, and a call is an object with `name` and `arguments`"
            )
            found.append(FieldProblem(place, message, "type"))
            continue
        tool, arguments = call.get("name"), call.get("arguments")
        if tool is None or tool == "":
            found.append(FieldProblem(f"{place}.name", "the call has no name of a tool", "missing"))
        elif not isinstance(tool, str):
            message = f"this is {json_kind(tool)}, and the name of a tool is needed"
            found.append(FieldProblem(f"{place}.name", message, "type"))
        elif arguments is not None and not isinstance(arguments, dict):
            message = f"this is {json_kind(arguments)}, and an object is needed"
            found.append(FieldProblem(f"{place}.arguments", message, "type"))
        elif analysis is not None:
            found += check_call(place, tool, arguments or {}, analysis)
    return found


def check_call(
    place: str, name: str, arguments: Mapping[str, Any], analysis: Analysis
) -> list[FieldProblem]:
    """Return what the environment would refuse in a call.

    An unknown tool or function, arguments that break its schema.
    """
    tool = analysis.tool(name)
    functions = analysis.hubs.get(name)
    if tool is None and functions is None:
        known = [tool.name for tool in analysis.tools]
        return [
            FieldProblem(
                f"{place}.name",
                f"the environment has no tool {name!r}{_hint(name, known)}",
                "unknown-tool",
            )
        ]
    if functions is not None:
        function = arguments.get("name")
        if not isinstance(function, str):
            message = (
                f"{name} is a hub: its arguments need the `name` of a "
                f"function{_hint('', list(functions))}"
            )
            return [FieldProblem(f"{place}.arguments.name", message, "missing")]
        if function not in functions:
            message = f"{name} has no function {function!r}{_hint(function, list(functions))}"
            return [FieldProblem(f"{place}.arguments.name", message, "unknown-tool")]
        tool = next(
            (tool for tool in analysis.tools if tool.hub == name and tool.name == function), None
        )
        arguments = arguments.get(
            "arguments", {key: value for key, value in arguments.items() if key != "name"}
        )
    if tool is None or tool.input_schema is None or not isinstance(arguments, dict):
        return []
    place = f"{place}.arguments"
    try:
        errors = Validator(tool.input_schema).errors(dict(arguments), most=_MOST_PROBLEMS)
    except NotCheckedError as reason:
        return [FieldProblem(place, f"not checked: {reason}", "unchecked", "warning")]
    return [
        FieldProblem(
            ".".join([place, *map(str, error.absolute_path)]),
            clean_line(error.message, 300),
            "schema",
        )
        for error in errors
    ]


def _hint(word: str, known: list[str]) -> str:
    close = did_you_mean(word, known) if word else None
    return f"; did you mean {close!r}?" if close else f" (it has {', '.join(known[:8]) or 'none'})"
