"""What a task is checked against, and the checks of its single fields. Pure: values in, remarks out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hudtui.core.environment.validation import NotCheckedError, Validator
from hudtui.core.platform import HUD, Platform
from hudtui.core.tasks.problems import Severity
from hudtui.core.tasks.secrets import literal_secrets
from hudtui.core.text import clean_line, did_you_mean
from hudtui.core.variables import Lookup, substitute_tree

if TYPE_CHECKING:
    from hudtui.core.environment.matching import EnvironmentIdentity
    from hudtui.core.environment.values import Analysis

Rewrite = Callable[[Mapping[str, Any]], tuple[dict[str, Any], tuple[str, ...]]]
"""Gives a new `mcp_config`, and names for what was noticed or changed in it: they are counted."""

_MOST_REMARKS = 100
"""Problems told of one call."""
CHARS_PER_TOKEN = 4
"""How prompts are measured against a token budget: an estimate that needs no tokenizer (English text; others run shorter)."""


@dataclass(frozen=True)
class Rules:
    """What tasks are checked against. Everything is optional: what is not known is not checked."""

    lookup: Lookup | None = None
    """Values of variables by their exact names; None: unresolved ones are not reported."""
    lock_image: str | None = None
    """The image that tasks without `mcp_config` run on."""
    platform: Platform = HUD
    analysis: Analysis | None = None
    """The environment that the tasks are for: its tools, functions and schemas."""
    same_servers: bool = False
    """Calls are checked only of tasks whose servers are the analysed environment; of others it is counted what they run on."""
    folder: Path | None = None
    """The project folder; the current one when None."""
    token_budget: int | None = None
    """Longest prompt in (estimated) tokens."""
    strict: bool = False
    """Warnings are errors."""
    rewrite: Rewrite | None = None
    """A change of every `mcp_config` before it is checked, e.g. from a local to a remote server."""

    @cached_property
    def identity(self) -> EnvironmentIdentity:
        """What the analysed environment is known by."""
        from hudtui.core.environment.matching import identity_of

        assert self.analysis is not None
        return identity_of(self.analysis, self.folder or Path.cwd())

    def elsewhere(self, config: Any) -> str | None:
        """What an `mcp_config` runs on when that is not the analysed environment; None when its calls are to be checked.

        Nothing is elsewhere where nothing was analysed, or where all tasks are checked whatever they run on.
        """
        if self.analysis is None or not self.same_servers:
            return None
        from hudtui.core.environment.matching import servers_in, uses_environment

        return None if uses_environment(config, self.identity) else servers_in(config) or "no server"


class FieldProblem(NamedTuple):
    """A problem before it is known which task has it."""

    field: str | None
    message: str
    code: str
    severity: Severity = "error"


def json_kind(value: Any) -> str:
    """The JSON kind of a value, with its article: `a number`, `an object`, ..."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "an object"
    return "a list"


def is_empty(value: Any) -> bool:
    """Whether a field says nothing: absent, null, empty text, `"{}"`, `"null"`, an empty object or list."""
    if isinstance(value, str):
        return value.strip() in ("", "{}", "[]", "null")
    return value is None or (isinstance(value, Mapping | list) and not value)


def without_nulls(value: Any) -> Any:
    """Nested objects without their null entries: `datasets` fills in every key that another row has."""
    if type(value) is dict:
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value


def check_config(config: Any, rules: Rules) -> list[FieldProblem]:
    """What is wrong with an `mcp_config` that is already data."""
    if not isinstance(config, Mapping):
        return [FieldProblem("mcp_config", f"this is {json_kind(config)}, and an object of servers is needed", "type")]
    found: list[FieldProblem] = []
    for name, server in config.items():
        place = f"mcp_config.{name}"
        if not isinstance(server, Mapping):
            message = f"this is {json_kind(server)}, and a server is an object with `command` or `url`"
            found.append(FieldProblem(place, message, "type"))
            continue
        found += _check_server(place, server)
    found += [FieldProblem(place, message, "secret", "warning") for place, message in literal_secrets(config, rules.platform)]
    if rules.lookup is not None and not any(remark.severity == "error" for remark in found):
        found += _check_variables(config, rules.lookup)
    return found


def _check_server(place: str, server: Mapping[str, Any]) -> list[FieldProblem]:
    found = []
    url, command = server.get("url"), server.get("command")
    if url is None and command is None:
        found.append(FieldProblem(place, "a server needs a `command` to start or a `url` to reach", "missing"))
    for field, value in (("url", url), ("command", command)):
        if value is not None and not isinstance(value, str):
            found.append(FieldProblem(f"{place}.{field}", f"this is {json_kind(value)}, and text is needed", "type"))
        elif value is not None and not value.strip():
            found.append(FieldProblem(f"{place}.{field}", "this is empty", "missing"))
    args = server.get("args")
    if args is not None and not (isinstance(args, list) and all(isinstance(item, str) for item in args)):
        found.append(FieldProblem(f"{place}.args", "arguments are a list of texts", "type"))
    for field in ("env", "headers"):
        entries = server.get(field)
        if entries is None:
            continue
        if not isinstance(entries, Mapping):
            found.append(
                FieldProblem(f"{place}.{field}", f"this is {json_kind(entries)}, and an object of texts is needed", "type")
            )
            continue
        found += [
            FieldProblem(f"{place}.{field}.{key}", f"this is {json_kind(value)}, and text is needed", "type")
            for key, value in entries.items()
            if value is not None and not isinstance(value, str)
        ]
    return found


def _check_variables(config: Mapping[str, Any], lookup: Lookup) -> list[FieldProblem]:
    """Variables without a value, and those that only differ in case from one that has a value."""
    found = []
    for name in substitute_tree(config, lookup)[1]:
        other = name.upper()
        if other != name and lookup(other) is not None:
            message = f"the variable {name} is not set, but {other} is, and is taken for it"
            found.append(FieldProblem("mcp_config", message, "variable-case", "warning"))
        else:
            message = f"the variable {name} has no value here; set it in the environment or in .env before the task is run"
            found.append(FieldProblem("mcp_config", message, "variable", "warning"))
    return found


def check_calls(field: str, value: Any, rules: Rules) -> list[FieldProblem]:
    """What is wrong with `setup_tool` or `evaluate_tool` that is already data: one call or a list of calls."""
    calls = value if isinstance(value, list) else [value]
    found: list[FieldProblem] = []
    for number, call in enumerate(calls):
        place = f"{field}[{number}]" if isinstance(value, list) else field
        if not isinstance(call, Mapping):
            found.append(
                FieldProblem(place, f"this is {json_kind(call)}, and a call is an object with `name` and `arguments`", "type")
            )
            continue
        name, arguments = call.get("name"), call.get("arguments")
        if name is None or name == "":
            found.append(FieldProblem(f"{place}.name", "the call has no name of a tool", "missing"))
        elif not isinstance(name, str):
            found.append(FieldProblem(f"{place}.name", f"this is {json_kind(name)}, and the name of a tool is needed", "type"))
        elif arguments is not None and not isinstance(arguments, Mapping):
            found.append(FieldProblem(f"{place}.arguments", f"this is {json_kind(arguments)}, and an object is needed", "type"))
        elif rules.analysis is not None:
            found += check_call(place, name, arguments or {}, rules.analysis)
    return found


def check_call(place: str, name: str, arguments: Mapping[str, Any], analysis: Analysis) -> list[FieldProblem]:
    """What the environment would refuse in a call: an unknown tool or function, arguments against its schema."""

    def nearest(word: str, known: list[str]) -> str:
        near = did_you_mean(word, known)
        return f"; did you mean {near!r}?" if near else f" (it has {', '.join(known[:8]) or 'none'})"

    tool = analysis.tool(name)
    functions = analysis.hubs.get(name)
    if tool is None and functions is None:
        known = [tool.name for tool in analysis.tools]
        return [FieldProblem(f"{place}.name", f"the environment has no tool {name!r}{nearest(name, known)}", "unknown-tool")]
    if functions is not None:
        function = arguments.get("name")
        if not isinstance(function, str):
            message = f"{name} is a hub: its arguments need the `name` of a function{nearest('', list(functions))}"
            return [FieldProblem(f"{place}.arguments.name", message, "missing")]
        if function not in functions:
            message = f"{name} has no function {function!r}{nearest(function, list(functions))}"
            return [FieldProblem(f"{place}.arguments.name", message, "unknown-tool")]
        inner = next((tool for tool in analysis.tools if tool.hub == name and tool.name == function), None)
        inner_arguments = arguments.get("arguments", {key: value for key, value in arguments.items() if key != "name"})
        if inner is not None and inner.input_schema is not None and isinstance(inner_arguments, Mapping):
            return _check_schema(f"{place}.arguments", inner_arguments, inner.input_schema)
        return []
    if tool is not None and tool.input_schema is not None:
        return _check_schema(f"{place}.arguments", arguments, tool.input_schema)
    return []


def _check_schema(place: str, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[FieldProblem]:

    try:
        errors = Validator(schema).errors(dict(arguments), most=_MOST_REMARKS)
    except NotCheckedError as reason:
        return [FieldProblem(place, f"not checked: {reason}", "unchecked", "warning")]
    return [
        FieldProblem(".".join([place, *map(str, error.absolute_path)]), clean_line(error.message, 300), "schema")
        for error in errors
    ]
