"""From an analysed environment to the actions that a configuration offers: which, under what names, with which arguments.

A draft is data; `generate` writes it down. Screens take single actions from it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.gym.names import RESERVED, as_identifier, environment_name, unique_identifiers
from hudtui.core.gym.schema_examples import UNSET, SchemaProperty, ToolSchema, literal
from hudtui.core.text import clean_line
from hudtui.core.yaml_doc import NotWritable, yaml_key, yaml_printable, yaml_value

MOST_VALUES = 8
"""A parameter with more values than this is not offered as one action a value."""

_MOST_CALLS = 60
_LONGEST_ACTION = 64
_TAG = re.compile(r"<(/?(?:tool|think))>")


@dataclass(frozen=True)
class DraftArgument:
    """One argument of an action."""

    name: str
    """As the agent may write it, one word."""
    parameter: str
    """Of the tool."""
    words: str
    """Its type, e.g. `integer from 1 to 10`."""
    description: str
    required: bool
    default: Any = UNSET
    """Sent when the agent does not give it; `UNSET` leaves the parameter out."""


@dataclass(frozen=True)
class DraftAction:
    """One thing that the agent may say, and what it becomes."""

    name: str
    tool: str
    description: str = ""
    arguments: tuple[DraftArgument, ...] = ()
    """In the order in which the agent writes them; required ones first."""
    static: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that are always sent with the same value."""
    usage: str = ""
    """A correct call, e.g. `move("left")`."""
    renamed: str = ""
    """Why it does not have the name of its tool, where that needs a word."""
    notes: tuple[str, ...] = ()
    """What the reader of the configuration should know: what is missing, or could not be taken over."""


@dataclass(frozen=True)
class SkippedTool:
    """A tool that no action stands for, and why."""

    tool: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """The content of a configuration, before it is written."""

    name: str
    """Of the environment."""
    environment: str
    """Where it comes from: its image, else its source."""
    instructions: str
    actions: tuple[DraftAction, ...]
    left_out: tuple[SkippedTool, ...]
    per_value: Mapping[str, tuple[str, ...]]
    """Tools that could be, or are, written as one action a value -> those actions."""


def per_value_tools(analysis: Analysis) -> tuple[str, ...]:
    """The agent's tools whose only parameter has a few values that make good action names, such as the directions of a move."""
    return tuple(tool.name for tool in _unique(analysis) if _values(tool))


def draft_config(analysis: Analysis, *, name: str | None = None, per_value: bool | Collection[str] = False) -> Draft:
    """Decide what a configuration for an environment offers.

    Args:
        analysis: What is known of the environment. Only tools of kind `agent` become actions.
        name: What to call the environment; taken from the source by default.
        per_value: Write tools with one small enum parameter as one action a value: all that allow it, or those named here.
    """
    tools = _unique(analysis)
    values = {tool.name: found for tool in tools if (found := _values(tool))}
    split = {tool for tool in values if (per_value if isinstance(per_value, bool) else tool in per_value)}
    actions: list[DraftAction] = []
    offered: dict[str, tuple[str, ...]] = {}
    left_out = [SkippedTool(tool.name, _whose(tool)) for tool in analysis.tools if tool.kind not in ("agent", "hidden")]
    names = dict(zip((tool.name for tool in tools), _action_names(tools), strict=True))
    taken = {*RESERVED, *(name for tool, name in names.items() if tool not in split)}
    for tool in tools:
        if tool.name in values:
            made = _one_a_value(tool, values[tool.name], taken - {names[tool.name]})
            offered[tool.name] = tuple(action.name for action in made)
            if tool.name in split:
                taken.update(offered[tool.name])
                actions += made
                continue
        action = _action(tool, names[tool.name])
        if isinstance(action, DraftAction):
            actions.append(action)
        else:
            left_out.append(action)
    return Draft(
        name=clean_line(name, 100) if name and name.strip() else environment_name(analysis.image or analysis.source),
        environment=_environment(analysis),
        instructions=tidy(analysis.instructions, 1000),
        actions=tuple(actions),
        left_out=tuple(left_out),
        per_value=offered,
    )


def action_for(tool: Tool, taken: Collection[str] = ()) -> DraftAction | SkippedTool:
    """The action that stands for one tool, under a name that is not in `taken`."""
    name = _action_names((tool,), taken)[0]
    return _action(tool, name)


def tidy(text: str, limit: int) -> str:
    """Foreign text as one line of a prompt: no control characters, nothing that reads as a tag, at most `limit` characters."""
    return yaml_printable(_TAG.sub(r"[\1]", clean_line(text, limit)))


def _unique(analysis: Analysis) -> tuple[Tool, ...]:
    return tuple({tool.name: tool for tool in reversed(analysis.agent_tools)}.values())[::-1]


def _whose(tool: Tool) -> str:
    return {"setup": "it sets up tasks", "evaluate": "it judges them"}.get(tool.kind, "it is not meant for the agent")


def _environment(analysis: Analysis) -> str:
    if analysis.image:
        return tidy(analysis.image, 300)
    source = analysis.source.strip().removeprefix("-- ")
    if source.startswith("{"):
        return environment_name(source)
    # An address may carry a password or a token that has no business in a file that is shared.
    address = re.match(r"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#@\s]*@)?([^?#\s]*)", source)
    return tidy(address[1] + address[2] if address else source, 300)


def _action_names(tools: Collection[Tool], taken: Collection[str] = ()) -> tuple[str, ...]:
    plain = [f"{tool.name} tool" if tool.name in RESERVED else tool.name for tool in tools]
    short = [name if len(name) <= _LONGEST_ACTION else as_identifier(name, empty="tool")[:_LONGEST_ACTION] for name in plain]
    return unique_identifiers(short, empty="tool", taken={*RESERVED, *taken})


def _why_renamed(name: str) -> str:
    if name in RESERVED:
        return "that word ends the episode"
    if not re.fullmatch(r"\w+", name):
        return "an agent can write letters, digits and underscores only"
    return "another action has that name" if len(name) <= _LONGEST_ACTION else "that is long"


def _action(tool: Tool, name: str) -> DraftAction | SkippedTool:
    if not tool.name.strip():
        return SkippedTool(tool.name, "it has no name")
    if (reason := _unwritable(tool.name)) is not None:
        return SkippedTool(tool.name, f"it cannot be written down: {reason}")
    description = tidy(tool.description, 1000)
    notes: list[str] = []
    renamed = "" if name == tool.name else f"The tool is called {literal(tool.name)}, but {_why_renamed(tool.name)}."
    if tool.input_schema is None:
        notes.append("The server gave no schema for this tool: if it takes parameters, list them here and in the prompt.")
        return DraftAction(name, tool.name, description, usage=f"{name}()", renamed=renamed, notes=tuple(notes))
    schema = ToolSchema(tool.input_schema)
    static: dict[str, Any] = {}
    offered: list[SchemaProperty] = []
    for prop in schema.properties():
        fixed = _fixed(prop)
        if fixed is not UNSET and _writable(prop.name, fixed):
            static[prop.name] = fixed
            continue
        reason = _unmappable(prop)
        if reason is None:
            offered.append(prop)
        elif prop.required:
            return SkippedTool(tool.name, f"it needs the parameter {literal(clean_line(prop.name, 60))}, but {reason}")
        elif reason:
            notes.append(f"Not offered: {literal(clean_line(prop.name, 60))}, because {reason}.")
    arguments, remarks = _arguments(schema, offered)
    call = _example(schema, arguments, static)
    if call is None and any(argument.default is not UNSET for argument in arguments):
        bare = tuple(replace(argument, default=UNSET) for argument in arguments)
        call = _example(schema, bare, static)
        if call is not None:
            arguments = bare
            remarks.append("The schema's defaults are not sent: together they do not fit the schema.")
    if call is None:
        call = next(schema.calls())
        remarks.append("No example that fits the schema was found: correct the usage line in the prompt.")
    elif reason := schema.unchecked(_sent(arguments, static, call)):
        remarks.append(f"Whether the example fits is not checked: {reason}.")
    usage = _usage(name, arguments, call)
    return DraftAction(name, tool.name, description, arguments, static, usage, renamed, tuple(notes + remarks))


def _arguments(schema: ToolSchema, offered: list[SchemaProperty]) -> tuple[tuple[DraftArgument, ...], list[str]]:
    # A keyword in a call begins with a letter.
    names = unique_identifiers((f"arg_{prop.name}" if prop.name[:1].isdigit() else prop.name for prop in offered), empty="arg")
    arguments, remarks = [], []
    for prop, name in zip(offered, names, strict=True):
        default = UNSET if prop.required else prop.default
        if default is not UNSET:
            reason = _bad_default(schema, prop)
            if reason is not None:
                default = UNSET
                remarks.append(f"The default of {literal(clean_line(prop.name, 60))} is not sent: {reason}.")
        words = tidy(schema.words(prop.schema), 400)
        arguments.append(DraftArgument(name, prop.name, words, tidy(prop.description, 400), prop.required, default))
    return tuple(arguments), remarks


def _bad_default(schema: ToolSchema, prop: SchemaProperty) -> str | None:
    try:
        yaml_value(prop.default)
    except NotWritable as error:
        return str(error)
    return None if schema.fits(prop.schema, prop.default) else "it does not fit the schema"


def _fixed(prop: SchemaProperty) -> Any:
    """The one value that a required parameter can have, or `UNSET`."""
    if not prop.required:
        return UNSET
    if "const" in prop.schema:
        return prop.schema["const"]
    choices = prop.schema.get("enum")
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else UNSET


def _unmappable(prop: SchemaProperty) -> str | None:
    """Why a mapping cannot hold this parameter; empty where that is not worth a word."""
    if prop.schema == {"not": {}}:
        return "the schema allows no value for it" if prop.required else ""
    return _unwritable(prop.name, parameter=True)


def _unwritable(name: str, *, parameter: bool = False) -> str | None:
    if parameter and name.startswith("_"):
        return "keys that begin with _ are the gym's own"
    try:
        yaml_key(name)
    except NotWritable as error:
        return str(error)
    return None


def _writable(name: str, value: Any) -> bool:
    try:
        yaml_value(value)
    except NotWritable:
        return False
    return _unwritable(name, parameter=True) is None


def _example(schema: ToolSchema, arguments: tuple[DraftArgument, ...], static: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to give in an example call, by parameter, so that what is sent fits the schema."""
    known = {argument.parameter for argument in arguments}
    for call in itertools.islice(schema.calls(), _MOST_CALLS):
        given = {name: item for name, item in call.items() if name in known}
        if schema.accepts(_sent(arguments, static, given)):
            return given
    return None


def _sent(arguments: tuple[DraftArgument, ...], static: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {argument.parameter: argument.default for argument in arguments if argument.default is not UNSET}
    return {**static, **defaults, **given}


def _usage(name: str, arguments: tuple[DraftArgument, ...], call: Mapping[str, Any]) -> str:
    """Arguments by position as far as they follow each other, then by name."""
    written: list[str] = []
    gap = False
    for argument in arguments:
        if argument.parameter not in call:
            gap = True
            continue
        text = literal(call[argument.parameter])
        written.append(f"{argument.name}={text}" if gap else text)
    return f"{name}({', '.join(written)})"


def _values(tool: Tool) -> tuple[str, ...]:
    """The values that could become actions of their own; empty where that does not suit the tool."""
    if tool.input_schema is None or not tool.name.strip() or _unwritable(tool.name) is not None:
        return ()
    schema = ToolSchema(tool.input_schema)
    properties = schema.properties()
    if len(properties) != 1:
        return ()
    prop = properties[0]
    choices = prop.schema.get("enum")
    if (
        not isinstance(choices, list)
        or not 2 <= len(choices) <= MOST_VALUES
        or len({str(choice) for choice in choices}) < len(choices)
    ):
        return ()
    values = tuple(
        choice for choice in choices if isinstance(choice, str) and re.match(r"[^\W\d]\w*\Z", as_identifier(choice, empty=""))
    )
    mapped = _unmappable(prop) is None and all(_writable(prop.name, value) for value in values)
    omitted = prop.required or prop.default in values
    return values if len(values) == len(choices) and mapped and omitted and all(len(value) <= 40 for value in values) else ()


def _one_a_value(tool: Tool, values: tuple[str, ...], taken: Collection[str]) -> list[DraftAction]:
    prop = ToolSchema(tool.input_schema or {}).properties()[0]
    plain = [as_identifier(value, empty="") for value in values]
    if set(plain) & set(taken) or len(set(plain)) < len(plain):
        plain = [f"{as_identifier(tool.name, empty='tool')}_{value}" for value in plain]
    names = unique_identifiers(plain, empty="action", taken=taken)
    text = tidy(tool.description, 1000)
    return [
        DraftAction(
            name,
            tool.name,
            f"{text.rstrip('.')} ({tidy(prop.name, 60)}: {tidy(value, 60)})"
            if text
            else f"{tidy(prop.name, 60)}: {tidy(value, 60)}",
            static={prop.name: value},
            usage=f"{name}()",
        )
        for name, value in zip(names, values, strict=True)
    ]
