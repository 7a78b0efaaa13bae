"""Generating a hud-vf-gym configuration for an analyzed environment.

`draft_config` decides which actions the configuration offers, under what names, with which
arguments; `render` writes the draft as YAML. Screens take single actions (`action_snippet`).
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.gym.dialects.known import DEFAULT as TEXT
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.environment_name import environment_name
from hudtui.core.gym.schema_examples import UNSET, SchemaProperty, ToolSchema, literal
from hudtui.core.gym.values import DEFAULT_MAX_TURNS
from hudtui.core.platform import HUD, Platform
from hudtui.core.text import clean_line, did_you_mean
from hudtui.core.yaml_doc import NotWritable, yaml_key, yaml_printable, yaml_quoted, yaml_value

RESERVED = frozenset({"done"})
"""Actions that never stand for a tool: they belong to the episode."""

DONE_LINES = (
    "- done(): End the episode when the task is complete.",
    "  Usage: <tool>done()</tool>",
)
"""Description of the action that ends an episode, in prompts."""

MOST_VALUES = 8
"""A parameter with more values than this is not offered as one action a value."""

_MOST_CALLS = 60
_LONGEST_ACTION = 64
_TAG = re.compile(r"<(/?(?:tool|think))>")
_DEPRECATED = re.compile(
    r"\bDEPRECATED\b|(?i:(?:\A|[.!?:;(\[]|\n)\s*(?:\*+\s*)?(?:this (?:tool|function|method) )?"
    r"(?:is )?(?:now )?deprecated\b)"
)
"""Words by which a description calls its own tool deprecated; a tool that looks for deprecated
things is none."""


# -- the draft
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DraftArgument:
    """One argument of an action."""

    name: str
    """As the agent may write it, one word."""
    parameter: str
    """Name of the tool."""
    words: str
    """Its type, e.g. `integer from 1 to 10`."""
    description: str
    required: bool
    default: Any = UNSET
    """Sent when the agent does not give the argument; `UNSET` leaves the parameter out."""


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
    """Reason why the action has another name than its tool, where that needs a word."""
    notes: tuple[str, ...] = ()
    """Notes for the reader of the configuration, such as a parameter that is not offered."""


@dataclass(frozen=True)
class SkippedTool:
    """A tool that no action stands for, and why."""

    tool: str
    reason: str


@dataclass(frozen=True)
class Draft:
    """The content of a configuration, before it is written."""

    name: str
    """Name of the environment."""
    environment: str
    """Origin of the environment: its image, else its source."""
    instructions: str
    actions: tuple[DraftAction, ...]
    left_out: tuple[SkippedTool, ...]
    per_value: Mapping[str, tuple[str, ...]]
    """Tools that could be, or are, written as one action a value -> those actions."""


@dataclass(frozen=True)
class ToolChoice:
    """The tools of an environment that become actions. Names may have `*` and `?`."""

    only: tuple[str, ...] = ()
    """These alone, deprecated ones too; empty for all that are not deprecated."""
    without: tuple[str, ...] = ()
    """Not these."""

    def check(self, tools: Collection[str]) -> None:
        """Check that each name stands for a tool.

        Raises:
            InputError: One does not.
        """
        for wanted in (*self.only, *self.without):
            if not any(fnmatchcase(name, wanted) for name in tools):
                near = did_you_mean(wanted, list(tools))
                raise InputError(
                    f"the environment has no tool {clean_line(wanted, 60)} for the agent",
                    fix=f"Did you mean {clean_line(near, 60)}?" if near else None,
                )

    def why_not(self, tool: Tool) -> str | None:
        """Reason why a tool is left out; None where it is not."""
        if any(fnmatchcase(tool.name, pattern) for pattern in self.without):
            return "it is not wanted"
        if self.only:
            return (
                None
                if any(fnmatchcase(tool.name, pattern) for pattern in self.only)
                else "it is not among the wanted ones"
            )
        if tool.deprecated:
            return "its server says that it is deprecated"
        return (
            "its description says that it is deprecated"
            if _DEPRECATED.search(tool.description)
            else None
        )


ALL_TOOLS = ToolChoice()


def draft_config(
    analysis: Analysis,
    *,
    name: str | None = None,
    per_value: bool | Collection[str] = False,
    choice: ToolChoice = ALL_TOOLS,
) -> Draft:
    """Decide what a configuration for an environment offers.

    Args:
        analysis: What is known of the environment. Only tools of kind `agent` become actions.
        name: What to call the environment; taken from the source by default.
        per_value: Write tools with one small enum parameter as one action a value: all that allow
            it, or those named here.
        choice: Which tools become actions.

    Raises:
        InputError: A tool that is chosen, or left out, does not exist.
    """
    every = _unique_tools(analysis)
    choice.check([tool.name for tool in every])
    unwanted = {tool.name: why for tool in every if (why := choice.why_not(tool)) is not None}
    tools = tuple(tool for tool in every if tool.name not in unwanted)
    values = {
        tool.name: values_of_tool for tool in tools if (values_of_tool := _action_values(tool))
    }
    split = {
        tool for tool in values if (per_value if isinstance(per_value, bool) else tool in per_value)
    }
    actions: list[DraftAction] = []
    offered: dict[str, tuple[str, ...]] = {}
    reasons = {"setup": "it sets up tasks", "evaluate": "it judges them"}
    left_out = [
        SkippedTool(tool.name, reasons.get(tool.kind, "it is not meant for the agent"))
        for tool in analysis.tools
        if tool.kind not in ("agent", "hidden")
    ]
    left_out += [SkippedTool(tool, why) for tool, why in unwanted.items()]
    names = dict(zip((tool.name for tool in tools), _action_names(tools), strict=True))
    taken = {*RESERVED, *(name for tool, name in names.items() if tool not in split)}
    for tool in tools:
        if tool.name in values:
            made = _value_actions(tool, values[tool.name], taken - {names[tool.name]})
            offered[tool.name] = tuple(action.name for action in made)
            if tool.name in split:
                taken.update(offered[tool.name])
                actions += made
                continue
        action = _tool_action(tool, names[tool.name])
        if isinstance(action, DraftAction):
            actions.append(action)
        else:
            left_out.append(action)
    return Draft(
        name=clean_line(name, 100)
        if name and name.strip()
        else environment_name(analysis.image or analysis.source),
        environment=_environment(analysis),
        instructions=tidy(analysis.instructions, 1000),
        actions=tuple(actions),
        left_out=tuple(left_out),
        per_value=offered,
    )


def usable_draft(
    analysis: Analysis,
    *,
    name: str | None = None,
    per_value: bool | Collection[str] = False,
    choice: ToolChoice = ALL_TOOLS,
) -> Draft:
    """`draft_config`, where the draft has an action.

    Raises:
        InputError: The environment has no tool for the agent, as far as is known: a configuration
            of it could play nothing. Or a tool that is chosen, or left out, does not exist.
    """
    plan = draft_config(analysis, name=name, per_value=per_value, choice=choice)
    if plan.actions:
        return plan
    if analysis.analyzed_at is None and not analysis.tools:
        raise InputError(
            "the lock file lists no tools, and a configuration is made of them; nothing is written",
            fix=(
                "Start the environment and look (hudtui rl init SOURCE --live), or build it again "
                "so that the file lists them."
            ),
        )
    left = "; ".join(
        f"{clean_line(item.tool, 60)}: {clean_line(item.reason, 100)}" for item in plan.left_out[:6]
    )
    raise InputError(
        "the environment has no tool for the agent, and a configuration is made of them; nothing "
        "is written",
        why=f"Left out: {left}." if left else "It lists no tools at all.",
        fix=(
            "Name the server that has the agent's tools, or write the configuration by hand "
            "(docs/configuration.md)."
        ),
    )


def tidy(text: str, limit: int) -> str:
    """Foreign text as one line of a prompt.

    No control characters, nothing that reads as a tag, at most `limit` characters.
    """
    return yaml_printable(_TAG.sub(r"[\1]", clean_line(text, limit)))


def as_identifier(name: str, *, empty: str) -> str:
    r"""`name` as one word (`\w+`), the only spelling that an agent's call can hold.

    `empty` where nothing is left of it.
    """
    return (
        re.sub(r"\W+", "_", name).strip("_") or empty
        if re.search(r"\W", name) or not name
        else name
    )


def unique_identifiers(
    names: Iterable[str], *, empty: str, taken: Collection[str] = ()
) -> tuple[str, ...]:
    r"""One word (`\w+`) for each name, all different and none in `taken`.

    Names that are words already keep their spelling; the others get a number at the end where they
    clash.
    """
    wanted = list(names)
    result = [as_identifier(name, empty=empty) for name in wanted]
    used = set(taken)
    for index in sorted(range(len(wanted)), key=lambda index: result[index] != wanted[index]):
        plain, number = result[index], 2
        while result[index] in used:
            result[index], number = f"{plain}_{number}", number + 1
        used.add(result[index])
    return tuple(result)


def _unique_tools(analysis: Analysis) -> tuple[Tool, ...]:
    return tuple({tool.name: tool for tool in reversed(analysis.agent_tools)}.values())[::-1]


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
    names = []
    for tool in tools:
        name = f"{tool.name} tool" if tool.name in RESERVED else tool.name
        if len(name) > _LONGEST_ACTION:
            name = as_identifier(name, empty="tool")[:_LONGEST_ACTION]
        names.append(name)
    return unique_identifiers(names, empty="tool", taken={*RESERVED, *taken})


def _why_renamed(name: str) -> str:
    if name in RESERVED:
        return "that word ends the episode"
    if not re.fullmatch(r"\w+", name):
        return "an agent can write letters, digits and underscores only"
    return "another action has that name" if len(name) <= _LONGEST_ACTION else "that is long"


# -- one tool as one action
# --------------------------------------------------------------------------------------------------


def _tool_action(tool: Tool, name: str) -> DraftAction | SkippedTool:
    if not tool.name.strip():
        return SkippedTool(tool.name, "it has no name")
    if (reason := _unwritable(yaml_key, tool.name)) is not None:
        return SkippedTool(tool.name, f"it cannot be written down: {reason}")
    description = tidy(tool.description, 1000)
    renamed = (
        ""
        if name == tool.name
        else f"The tool is called {literal(tool.name)}, but {_why_renamed(tool.name)}."
    )
    if tool.input_schema is None:
        note = (
            "The server gave no schema for this tool: if it takes parameters, list them here and "
            "in the prompt."
        )
        return DraftAction(
            name, tool.name, description, usage=f"{name}()", renamed=renamed, notes=(note,)
        )
    schema = ToolSchema(tool.input_schema, tool.name)
    notes: list[str] = []
    static: dict[str, Any] = {}
    offered: list[SchemaProperty] = []
    for prop in schema.properties():
        fixed = _only_value(prop)
        if (
            fixed is not UNSET
            and _unwritable(yaml_value, fixed) is None
            and _unmappable(prop) is None
        ):
            static[prop.name] = fixed
            continue
        reason = _unmappable(prop)
        if reason is None:
            offered.append(prop)
        elif prop.required:
            return SkippedTool(
                tool.name,
                f"it needs the parameter {literal(clean_line(prop.name, 60))}, but {reason}",
            )
        elif reason:
            notes.append(f"Not offered: {literal(clean_line(prop.name, 60))}, because {reason}.")
    arguments = _arguments(schema, offered, notes)
    call = _example_call(schema, arguments, static)
    if call is None and any(argument.default is not UNSET for argument in arguments):
        bare = tuple(replace(argument, default=UNSET) for argument in arguments)
        call = _example_call(schema, bare, static)
        if call is not None:
            arguments = bare
            notes.append("The schema's defaults are not sent: together they do not fit the schema.")
    if call is None:
        call = next(schema.calls())
        notes.append(
            "No example that fits the schema was found: correct the usage line in the prompt."
        )
    elif reason := schema.unchecked(_sent(arguments, static, call)):
        notes.append(f"Whether the example fits is not checked: {reason}.")
    return DraftAction(
        name,
        tool.name,
        description,
        arguments,
        static,
        _usage(name, arguments, call),
        renamed,
        tuple(notes),
    )


def _arguments(
    schema: ToolSchema, offered: list[SchemaProperty], notes: list[str]
) -> tuple[DraftArgument, ...]:
    # A keyword in a call begins with a letter.
    names = unique_identifiers(
        (f"arg_{prop.name}" if prop.name[:1].isdigit() else prop.name for prop in offered),
        empty="arg",
    )
    arguments = []
    for prop, name in zip(offered, names, strict=True):
        default = UNSET if prop.required else prop.default
        if default is not UNSET:
            reason = _unwritable(yaml_value, default)
            if reason is None and not schema.fits(prop.schema, default):
                reason = "it does not fit the schema"
            if reason is not None:
                default = UNSET
                notes.append(
                    f"The default of {literal(clean_line(prop.name, 60))} is not sent: {reason}."
                )
        words = tidy(schema.words(prop.schema), 400)
        arguments.append(
            DraftArgument(
                name, prop.name, words, tidy(prop.description, 400), prop.required, default
            )
        )
    return tuple(arguments)


def _only_value(prop: SchemaProperty) -> Any:
    """The one value that a required parameter can have, or `UNSET`."""
    if not prop.required:
        return UNSET
    if "const" in prop.schema:
        return prop.schema["const"]
    choices = prop.schema.get("enum")
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else UNSET


def _unmappable(prop: SchemaProperty) -> str | None:
    """Reason why a mapping cannot hold this parameter.

    Empty where it is not worth a note, None where a mapping can hold it.
    """
    if prop.schema == {"not": {}}:
        return "the schema allows no value for it" if prop.required else ""
    if prop.name.startswith("_"):
        return "keys that begin with _ are the gym's own"
    return _unwritable(yaml_key, prop.name)


def _unwritable(write: Callable[[Any], str], data: Any) -> str | None:
    """Reason why YAML cannot hold a key or a value."""
    try:
        write(data)
    except NotWritable as error:
        return str(error)
    return None


def _example_call(
    schema: ToolSchema, arguments: tuple[DraftArgument, ...], static: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Values of an example call, by parameter, so that what is sent fits the schema."""
    known = {argument.parameter for argument in arguments}
    for call in itertools.islice(schema.calls(), _MOST_CALLS):
        given = {name: item for name, item in call.items() if name in known}
        if schema.accepts(_sent(arguments, static, given)):
            return given
    return None


def _sent(
    arguments: tuple[DraftArgument, ...], static: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    defaults = {
        argument.parameter: argument.default
        for argument in arguments
        if argument.default is not UNSET
    }
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


# -- one tool as one action a value
# ----------------------------------------------------------------------------------------------


def _action_values(tool: Tool) -> tuple[str, ...]:
    """The values that could become actions of their own.

    Empty where that does not suit the tool.
    """
    if (
        tool.input_schema is None
        or not tool.name.strip()
        or _unwritable(yaml_key, tool.name) is not None
    ):
        return ()
    properties = ToolSchema(tool.input_schema).properties()
    choices = properties[0].schema.get("enum") if len(properties) == 1 else None
    if not isinstance(choices, list) or not 2 <= len(choices) <= MOST_VALUES:
        return ()
    prop = properties[0]
    suited = all(
        isinstance(choice, str)
        and len(choice) <= 40
        and re.match(r"[^\W\d]\w*\Z", as_identifier(choice, empty=""))
        and _unwritable(yaml_value, choice) is None
        for choice in choices
    )
    if not suited or len(set(choices)) < len(choices) or _unmappable(prop) is not None:
        return ()
    return tuple(choices) if prop.required or prop.default in choices else ()


def _value_actions(
    tool: Tool, values: tuple[str, ...], taken: Collection[str]
) -> list[DraftAction]:
    prop = ToolSchema(tool.input_schema or {}).properties()[0]
    plain = [as_identifier(value, empty="") for value in values]
    if set(plain) & set(taken) or len(set(plain)) < len(plain):
        plain = [f"{as_identifier(tool.name, empty='tool')}_{value}" for value in plain]
    names = unique_identifiers(plain, empty="action", taken=taken)
    text = tidy(tool.description, 1000).rstrip(".")
    actions = []
    for name, value in zip(names, values, strict=True):
        words = f"{tidy(prop.name, 60)}: {tidy(value, 60)}"
        description = f"{text} ({words})" if text else words
        actions.append(
            DraftAction(name, tool.name, description, static={prop.name: value}, usage=f"{name}()")
        )
    return actions


# -- writing
# --------------------------------------------------------------------------------------------------


def generate(
    analysis: Analysis,
    *,
    name: str | None = None,
    per_value: bool | Collection[str] = False,
    platform: Platform = HUD,
) -> str:
    """The YAML text of a configuration for an environment. The same analysis gives the same text.

    For `name` and `per_value` see `draft_config`; `platform` is the one whose gym the first comment
    names.

    Raises:
        InputError: See `usable_draft`.
    """
    return render(usable_draft(analysis, name=name, per_value=per_value), platform=platform)


def render(plan: Draft, *, platform: Platform = HUD, dialect: str = TEXT) -> str:
    """Return a draft as YAML text.

    In a `dialect` whose models are given schemas the prompt has no lines about the tools.
    """
    taught = DIALECTS[dialect].schemas == "none"
    apart = DIALECTS[dialect].schemas == "apart"
    return "\n".join(
        [
            *_heading(plan, platform),
            "",
            "job:",
            f"  name: {yaml_quoted('RL Training - ' + plan.name)}",
            "  metadata:",
            f"    environment: {yaml_quoted(plan.environment)}",
            "",
            "# The system prompt of the agent. "
            + (
                "The parameters of each tool are listed below it."
                if taught
                else "The tools are told by their schemas."
            ),
            *(
                _comment("The server's own instructions: " + plan.instructions)
                if plan.instructions
                else []
            ),
            "system_prompt: |",
            *(f"  {line}".rstrip() for line in (_prompt(plan) if taught else _short_prompt(plan))),
            "",
            "parser:",
            f"  use_thinking: {'false' if apart else 'true'}",
            "  xml_weight: 0.6",
            "  action_weight: 0.4",
            *([] if dialect == TEXT else [f"  dialect: {dialect}"]),
            "",
            "# What each action becomes. `done` needs no entry: it ends the episode.",
            *_mappings(plan),
            "",
            "rubric:",
            "  weights:",
            "    task_completion: 0.8",
            "    tool_execution: 0.1",
            "    format_compliance: 0.1",
            "",
            "defaults:",
            f"  max_turns: {DEFAULT_MAX_TURNS}",
            "",
        ]
    )


def action_yaml(action: DraftAction) -> list[str]:
    """Return the entry of one action under `action_mappings`, as lines without indentation."""
    positional = ", ".join(yaml_quoted(argument.name) for argument in action.arguments)
    lines = [f"{yaml_key(action.name)}:"]
    notes = (action.renamed, *action.notes) if action.renamed else action.notes
    lines += (f"  {line}" for note in notes for line in _comment(note))
    lines += [
        f"  _tool: {yaml_quoted(action.tool)}",
        "  _parser:",
        f"    positional: [{positional}]",
    ]
    for parameter, fixed in action.static.items():
        lines += [f"  {yaml_key(parameter)}:", f"    static: {yaml_value(fixed)}"]
    for argument in action.arguments:
        lines += [
            f"  {yaml_key(argument.parameter)}:",
            f"    from_arg: {yaml_quoted(argument.name)}",
        ]
        if argument.default is not UNSET:
            lines.append(f"    default: {yaml_value(argument.default)}")
    return lines


def prompt_lines(action: DraftAction) -> list[str]:
    """Return the description of one action in the prompt, as lines without indentation."""
    arguments = ", ".join(argument.name for argument in action.arguments)
    heading = f"- {action.name}({arguments})"
    return [
        f"{heading}: {action.description}" if action.description else heading,
        *(f"      {_described(argument)}" for argument in action.arguments),
        f"  Usage: <tool>{action.usage}</tool>",
    ]


def action_snippet(tool: Tool, taken: Collection[str] = ()) -> tuple[str, str] | SkippedTool:
    """Make a new action for a tool, ready to be put into a configuration.

    `taken` has the names of the actions that are there already.

    Returns:
        The lines for `action_mappings` and the lines for the prompt, both without indentation; or
        why there are none.
    """
    action = _tool_action(tool, _action_names((tool,), taken)[0])
    if isinstance(action, SkippedTool):
        return action
    return "\n".join(action_yaml(action)), "\n".join(prompt_lines(action))


def _heading(plan: Draft, platform: Platform) -> list[str]:
    lines = [
        f"# {tidy(platform.gym_id, 60)} configuration for {tidy(plan.name, 100)}, written by "
        "`hudtui rl init`.",
        "# It is yours to edit; `hudtui config check` checks it, `hudtui config try` shows what a "
        "reply becomes.",
    ]
    if plan.left_out:
        lines.append("#")
        lines += [
            "# No action stands for these tools:",
            *(f"#   {_left_out(item)}" for item in plan.left_out),
        ]
    return lines


def _left_out(item: SkippedTool) -> str:
    name = tidy(item.tool, 80) or '""'
    return f"{name}: {tidy(item.reason, 200)}"


def _prompt(plan: Draft) -> list[str]:
    lines = [
        f"You are an AI agent interacting with {tidy(plan.name, 100)}.",
        "",
        "In every reply, reason inside <think>...</think> tags first, then make exactly one tool "
        "call inside",
        "<tool>...</tool> tags. You will see its result before your next reply.",
        "",
        "Available tools:",
    ]
    for action in plan.actions:
        lines += [*prompt_lines(action), ""]
    return [*lines, *DONE_LINES]


def _short_prompt(plan: Draft) -> list[str]:
    return [
        f"You are an AI agent interacting with {tidy(plan.name, 100)}.",
        "",
        "Call one tool in each reply. You will see its result before your next reply.",
        "Call done when the task is complete.",
    ]


@dataclass(frozen=True)
class TokenEstimate:
    """About how many tokens a configuration costs in every episode: one for four characters."""

    prompt: int
    """Those of the system prompt."""
    schemas: int
    """Those of the tools as JSON, as a trainer or an endpoint takes them that calls by itself."""

    def line(self) -> str:
        """The numbers in one line."""
        return f"about {self.prompt:,} tokens of prompt, {self.schemas:,} of schemas (estimated)"

    def to_json(self) -> dict[str, int]:
        """The numbers as JSON."""
        return {"prompt": self.prompt, "schemas": self.schemas}


def estimate_tokens(plan: Draft, tools: Iterable[Tool]) -> TokenEstimate:
    """Return about how many tokens a draft costs; `tools` are the environment's."""
    called = {action.tool for action in plan.actions}
    schemas = [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema or {}}
        for tool in tools
        if tool.name in called
    ]
    text = json.dumps(schemas, ensure_ascii=False, default=str)
    return TokenEstimate(_tokens("\n".join(_prompt(plan))), _tokens(text))


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _described(argument: DraftArgument) -> str:
    if argument.required:
        need = "required"
    elif argument.default is UNSET:
        need = "optional"
    else:
        need = f"optional, default {tidy(literal(argument.default), 200)}"
    text = f"{argument.name} ({argument.words}; {need})"
    return f"{text}: {argument.description}" if argument.description else text


def _mappings(plan: Draft) -> list[str]:
    lines: list[str] = []
    if any(
        not argument.required and argument.default is UNSET
        for action in plan.actions
        for argument in action.arguments
    ):
        lines.append(
            "# An optional argument without a `default` is not sent when the agent does not give "
            "it."
        )
    lines.append("action_mappings:")
    for number, action in enumerate(plan.actions):
        lines += [*([""] if number else []), *(f"  {line}" for line in action_yaml(action))]
    return lines


def _comment(text: str) -> list[str]:
    """A comment, folded at about 120 characters."""
    lines, line = [], "#"
    for piece in yaml_printable(clean_line(text)).split(" "):
        if len(line) + len(piece) > 118 and line != "#":
            lines.append(line)
            line = "#"
        line = f"{line} {piece}"
    return [*lines, line]
