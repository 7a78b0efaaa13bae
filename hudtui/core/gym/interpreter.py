"""Meaning of an agent's reply.

From its text to the call of a tool, or to the reason why there is none. Every reply of every
episode is interpreted, so the named tuples on the way are made by `_new`, at a third of the usual
cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from hudtui.core.environment.values import Tool
from hudtui.core.gym.dialects.known import DEFAULT, DIALECTS
from hudtui.core.gym.json_safe import NotJsonError, to_json_value
from hudtui.core.gym.json_schema import NO_SCHEMA, ArgumentChecker, Violation
from hudtui.core.gym.reply import Call, ParseFailure, Reply, parse_call, spell_call, split_reply
from hudtui.core.gym.transform import TransformFailure
from hudtui.core.gym.values import MISSING, ActionMapping, FromArg, FromArgs, GymConfig, Static
from hudtui.core.text import clean_line, did_you_mean

DONE = "done"
"""The action that ends an episode. It never reaches a server."""

_KEPT_FROM_AGENT = frozenset({"setup", "evaluate", "lifecycle", "hidden"})
_MOST_NAMES = 12
_CUT = "the reply was cut off at its limit of tokens, without a whole call; write less"
_new = tuple.__new__

ProblemStage: TypeAlias = Literal["tags", "syntax", "mapping", "transform", "schema"]
ParameterOrigin: TypeAlias = Literal[
    "static", "argument", "default", "transform", "left out", "failed"
]


@dataclass(frozen=True, slots=True)
class ReplyProblem:
    """Reason why a reply does not become a call."""

    stage: ProblemStage
    message: str
    column: int | None = None
    """Counted from 1 in the tool text; None when the problem has no place in it."""
    parameter: str | None = None
    """The parameter that the problem is about, if it is about one."""


class ParameterTrace(NamedTuple):
    """Origin of one parameter of the call."""

    name: str
    origin: ParameterOrigin
    """`left out` and `failed` parameters are not part of the call."""
    before: Any = None
    """Value that the agent wrote, or the configured one."""
    after: Any = None
    """Value that is sent."""
    arguments: tuple[str, ...] = ()
    """The arguments of the action that the parameter is taken from."""


class BoundArguments(NamedTuple):
    """The arguments of an action by name."""

    arguments: dict[str, Any]
    columns: Mapping[str, int]
    """Column of each argument in the tool text, from 1."""
    problem: ReplyProblem | None = None


class Action(NamedTuple):
    """Request of the agent: the action's name, and its arguments by name."""

    name: str
    arguments: dict[str, Any]


class McpCall(NamedTuple):
    """Call that is sent to the environment."""

    tool: str
    arguments: dict[str, Any]


class FormatScore(NamedTuple):
    """Parts of format compliance of one reply, each 0 or 1."""

    xml: int
    """True if the expected tags are there."""
    action: int
    """True if the tool text is a call."""


_FORMATS = tuple(tuple(FormatScore(xml, action) for action in (0, 1)) for xml in (0, 1))
"""By whether the tags are there, then by whether there is an action."""


class Interpretation(NamedTuple):
    """The meaning of one reply."""

    think: str | None
    tool: str | None
    extra_calls: int
    """Number of further tool tags that hold something. They are ignored."""
    action: Action | None
    """The action of the agent; None where there is no tool text, or it is not a call."""
    error: ReplyProblem | None
    call: McpCall | None
    """The call of the tool; None where there is an error, and for `done`."""
    done: bool
    format: FormatScore
    parameters: tuple[ParameterTrace, ...] = ()
    """Origin of each parameter of the call; complete even if one of them is wrong."""
    draft: McpCall | None = None
    """The call as far as it could be worked out, even if it is refused."""
    checked: bool = False
    """True if the call was checked against a schema."""
    reply: Reply | None = None
    """The parts of the reply, with the places of its tags."""
    unchecked: str | None = None
    """Reason why the call could not be checked against a schema; None if it was, and if there is no
    call."""
    more: tuple[Interpretation, ...] = ()
    """The further calls of a reply whose calls are all played."""
    note: str | None = None
    """What the agent is told beside the answer of its call."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hudtui config try` prints."""
        action, error, call = self.action, self.error, self.call
        return {
            "think": self.think,
            "tool": self.tool,
            "extra_calls": self.extra_calls,
            "action": None
            if action is None
            else {"name": action.name, "arguments": action.arguments},
            "error": None
            if error is None
            else {"stage": error.stage, "message": error.message, "column": error.column},
            "call": None if call is None else {"tool": call.tool, "arguments": call.arguments},
            "done": self.done,
            "format": {"xml": self.format.xml, "action": self.format.action},
            **({"more": [one.to_json() for one in self.more]} if self.more else {}),
        }


def bind_arguments(
    call: Call, positional: Collection[str] | None, keywords: Collection[str] = ()
) -> BoundArguments:
    """Give positional arguments their names.

    Args:
        call: What the agent wrote.
        positional: The names that its mapping knows, or None for an action without a mapping, which
            takes anything.
        keywords: Further names that the mapping knows, of arguments that are given by name alone.

    Returns:
        All arguments, further positional ones as `arg<position>`, and what is wrong with them.
    """
    if not call.columns:
        return _new(BoundArguments, ({}, {}, None))
    names = positional or ()
    if not call.kwargs and len(call.args) <= len(names):
        arguments = dict(zip(names, call.args, strict=False))
        return _new(BoundArguments, (arguments, dict(zip(names, call.columns, strict=False)), None))
    names = [*names, *(f"arg{index}" for index in range(len(names), len(call.args)))]
    arguments = dict(zip(names, call.args, strict=False))
    columns = dict(zip(names, call.columns, strict=False))
    problem: ReplyProblem | None = None
    if positional is not None and len(call.args) > len(positional):
        message = f"{call.name} takes {_expected(positional, keywords)}, not {len(call.args)}"
        problem = ReplyProblem("mapping", message, call.columns[len(positional)])
    known = [*(positional or ()), *keywords]
    for (name, value), column in zip(
        call.kwargs.items(), call.columns[len(call.args) :], strict=True
    ):
        if name in arguments:
            problem = problem or ReplyProblem(
                "mapping", f"the argument {clean_line(name, 60)} is given twice", column
            )
            continue
        if positional is not None and name not in known:
            problem = problem or ReplyProblem(
                "mapping", _unknown_argument(call.name, name, known), column
            )
        arguments[name] = value
        columns[name] = column
    return BoundArguments(arguments, columns, problem)


def _expected(positional: Collection[str], keywords: Collection[str]) -> str:
    """Words for the arguments of an action: `2 arguments (x, y)`."""
    if positional:
        count = len(positional)
        return f"{count} argument{'' if count == 1 else 's'} ({', '.join(positional)})"
    by_name = f"; {', '.join(keywords)} by name" if keywords else ""
    return f"no arguments{by_name}"


def _unknown_argument(action: str, name: str, names: list[str]) -> str:
    near = did_you_mean(name, names)
    hint = f"; did you mean {near}?" if near else f"; it has {', '.join(names)}" if names else ""
    return f"{action} has no argument {clean_line(name, 60)}{hint}"


class MappedArguments(NamedTuple):
    """The arguments of the MCP call, or why there are none."""

    arguments: dict[str, Any]
    parameters: tuple[ParameterTrace, ...]
    problem: ReplyProblem | None = None


def map_arguments(
    mapping: ActionMapping, bound: BoundArguments, required: Collection[str]
) -> MappedArguments:
    """Work out every parameter of a call.

    `bound` is what the agent wrote, by name; `required` the parameters that the tool requires, as
    far as that is known.

    Returns:
        All parameters, also those after a failed one; the first problem counts.
    """
    given = bound.arguments
    result: dict[str, Any] = {}
    traces: list[ParameterTrace] = []
    problem: ReplyProblem | None = None
    for name, parameter in mapping.parameters.items():
        origin: ParameterOrigin
        before: Any
        used: tuple[str, ...]
        missing: list[str] = []
        transform = None
        if isinstance(parameter, Static):
            origin, before, used = "static", parameter.value, ()
        elif isinstance(parameter, FromArg):
            used = (parameter.arg,)
            if parameter.arg in given:
                transform = parameter.transform
                origin, before = (
                    "argument" if transform is None else "transform",
                    given[parameter.arg],
                )
            elif parameter.default is not MISSING:
                origin, before = "default", parameter.default
            else:
                origin, before, missing = "left out", None, [parameter.arg]
        else:
            used = parameter.args
            origin, before, missing = _list_of(parameter, given)
        if missing:
            traces.append(ParameterTrace(name, "left out", None, None, used))
            if name in required or origin == "argument":
                problem = problem or _missing_arguments(mapping, name, used, missing)
            continue
        try:
            if transform is None:
                after = to_json_value(before)
            else:
                context = given if transform.wants_context(parameter.use_context) else None  # type: ignore[union-attr]
                after = to_json_value(transform(before, context))
        except (TransformFailure, NotJsonError) as failure:
            traces.append(ParameterTrace(name, "failed", before, None, used))
            subject = f"argument {' and '.join(used)}" if used else f"parameter {name}"
            message = f"{subject} of {mapping.name}: {failure}"
            stage: ProblemStage = "schema" if transform is None else "transform"
            problem = problem or ReplyProblem(stage, message, _column(bound, used), name)
            continue
        traces.append(_new(ParameterTrace, (name, origin, before, after, used)))
        result[name] = after
    return _new(MappedArguments, (result, tuple(traces), problem))


def _list_of(
    parameter: FromArgs, given: Mapping[str, Any]
) -> tuple[ParameterOrigin, list[Any], list[str]]:
    """Return where a list of several arguments comes from, its values, and the missing arguments.

    The list comes from arguments if at least one of them is given, else from defaults.
    """
    values = []
    missing = []
    for index, argument in enumerate(parameter.args):
        if argument in given:
            values.append(given[argument])
        elif index < len(parameter.defaults):
            values.append(parameter.defaults[index])
        else:
            missing.append(argument)
    return "default" if given.keys().isdisjoint(parameter.args) else "argument", values, missing


def _missing_arguments(
    mapping: ActionMapping, name: str, used: tuple[str, ...], missing: list[str]
) -> ReplyProblem:
    words = " and ".join(missing)
    what = f"the argument {words} is" if len(missing) == 1 else f"the arguments {words} are"
    why = f"{mapping.tool} requires {name}"
    if len(missing) < len(used):
        why = f"{name} is made of {', '.join(used)}"
    return ReplyProblem("mapping", f"{what} missing: {why}", None, name)


def _column(bound: BoundArguments, used: Iterable[str]) -> int | None:
    """Return the column of the first argument that is given."""
    return next((bound.columns[argument] for argument in used if argument in bound.columns), None)


def open_to_agent(tool: Tool) -> bool:
    """True if an agent may call a tool that no action stands for."""
    return tool.hub is None and tool.kind not in _KEPT_FROM_AGENT


class Interpreter:
    """Applies one configuration to replies. Safe to use from several threads.

    Args:
        config: The configuration.
        tools: The environment's tools by name; None when they are not known: then calls are not
            checked against them.
        reserved: The task's own tools, which actions cannot reach, and what each does:
            `judges this task`.
    """

    def __init__(
        self,
        config: GymConfig,
        tools: Mapping[str, Tool] | None = None,
        *,
        reserved: Mapping[str, str] | None = None,
    ) -> None:
        self.config = config
        self.tools = tools
        self._reserved = reserved or {}
        self._targets: dict[str, tuple[ArgumentChecker, ReplyProblem | None]] = {}
        self.dialect = DIALECTS[config.parser.dialect]
        """The form in which replies make calls."""
        self._plain = self.dialect.name == DEFAULT

    def interpret(self, reply: str, *, cut: bool = False) -> Interpretation:
        """Interpret a reply. Never raises: any text has an interpretation.

        One that was `cut` off at its limit of tokens ends no episode for want of a call: it is
        malformed, unless it makes a whole call.
        """
        if cut:
            return _cut_off(self.interpret(reply))
        if not self._plain:
            return self._said(reply)
        parts = split_reply(reply, self.config.parser.use_thinking)
        if parts.tool is None:
            return _meaning(
                parts, None, ReplyProblem("tags", parts.problem or "there is no tool text")
            )
        call = parse_call(parts.tool)
        if isinstance(call, ParseFailure):
            return _meaning(parts, None, ReplyProblem("syntax", call.message, call.column))
        return self._called(parts, call)

    def _said(self, reply: str) -> Interpretation:
        """Interpret a reply in a dialect that may make several calls, or end an episode."""
        parser = self.config.parser
        parts, calls, ends = self.dialect.read(reply, parser.use_thinking)
        if ends:
            return self.interpret_call(DONE, {})._replace(think=parts.think, reply=parts)
        if not calls:
            problem = ReplyProblem("tags", parts.problem or "there is no call")
            return _meaning(parts, None, problem)
        if len(calls) == 1:
            return self._one(parts, calls[0])
        if parser.parallel == "all":
            parts = parts._replace(extra_calls=0)
            first, *more = (self._one(parts, call) for call in calls)
            return first._replace(more=tuple(more))
        count = len(calls)
        if parser.parallel == "refuse":
            message = f"the reply makes {count} calls, and none was played: make one in each reply"
            return _meaning(parts, None, ReplyProblem("tags", message))
        note = f"note: only the first of your {count} calls was played; make one in each reply"
        return self._one(parts, calls[0])._replace(note=note)

    def _one(self, parts: Reply, call: Call | ParseFailure) -> Interpretation:
        """The meaning of one call that a dialect has read."""
        if isinstance(call, ParseFailure):
            return _meaning(parts, None, ReplyProblem("syntax", call.message, call.column))
        return _without_column(self._called(parts, call))

    def interpret_call(self, name: str, arguments: Mapping[str, Any]) -> Interpretation:
        """Interpret a call that a model made by its own tool calling.

        It counts as the reply with that call in its tool tag.

        Returns:
            The interpretation. Its format is that of a complete reply: there is no text that could
                be malformed.
        """
        call = _new(Call, (name, (), dict(arguments), (1,) * len(arguments)))
        parts = Reply(None, spell_call(name, arguments), 0, (), True, None, None)
        return _without_column(self._called(parts, call))

    def direct_call(self, tool: str, arguments: Mapping[str, Any]) -> Interpretation:
        """Return the meaning of a call of a tool itself, which no action has to lead to."""
        parts = Reply(None, spell_call(tool, arguments), 0, (), True, None, None)
        action = _new(Action, (tool, dict(arguments)))
        call = _new(McpCall, (tool, dict(arguments)))
        return _meaning(parts, action, draft=call, unchecked="the call is the task's own")

    def _called(self, parts: Reply, call: Call) -> Interpretation:
        mapping = self.config.mappings.get(call.name)
        if call.name == DONE:
            bound = bind_arguments(
                call, mapping.positional if mapping else None, mapping.keywords if mapping else ()
            )
            return _meaning(parts, Action(DONE, bound.arguments), done=True)
        if mapping is None:
            return self._unmapped(parts, call)
        return self._mapped(
            parts, mapping, bind_arguments(call, mapping.positional, mapping.keywords), call.name
        )

    def _target(self, tool: str) -> tuple[ArgumentChecker, ReplyProblem | None]:
        """The checker of a tool's arguments, and the reason why the tool cannot be called.

        The reason is None if there is none.
        """
        target = self._targets.get(tool)
        if target is None:
            known = None if self.tools is None else self.tools.get(tool)
            checker = ArgumentChecker(None if known is None else known.input_schema)
            target = self._targets[tool] = checker, self._missing_tool(tool)
        return target

    def _mapped(
        self, parts: Reply, mapping: ActionMapping, bound: BoundArguments, name: str
    ) -> Interpretation:
        checker, missing = self._target(mapping.tool)
        mapped = map_arguments(mapping, bound, checker.required)
        problem = bound.problem or missing or mapped.problem
        unchecked = None if checker.known else NO_SCHEMA
        if problem is None and checker.known:
            violation, unchecked = checker.judge(mapped.arguments)
            problem = None if violation is None else _violated(violation, bound, mapped.parameters)
        draft = _new(McpCall, (mapping.tool, mapped.arguments))
        action = _new(Action, (name, bound.arguments))
        return _meaning(parts, action, problem, draft, mapped.parameters, unchecked)

    def _missing_tool(self, tool: str) -> ReplyProblem | None:
        if self.tools is None or self._callable(tool):
            return None
        if tool in self._reserved:
            return ReplyProblem(
                "mapping",
                f"{clean_line(tool, 60)} {self._reserved[tool]}; the agent cannot call it",
            )
        near = did_you_mean(tool, [name for name in self.tools if self._callable(name)])
        hint = f"; did you mean {near}?" if near else ""
        return ReplyProblem("mapping", f"the environment has no tool {clean_line(tool, 60)}{hint}")

    def _callable(self, name: str) -> bool:
        tool = self.tools.get(name) if self.tools is not None else None
        return tool is not None and tool.hub is None

    def _unmapped(self, parts: Reply, call: Call) -> Interpretation:
        invalid = self.config.invalid.get(call.name)
        if invalid is None and self.config.allow_unmapped and self._open_to_agent(call.name):
            bound = bind_arguments(call, None)
            if bound.problem is not None:
                return _meaning(parts, Action(call.name, bound.arguments), bound.problem)
            mapping = ActionMapping(
                call.name,
                call.name,
                tuple(bound.arguments),
                {argument: FromArg(argument) for argument in bound.arguments},
            )
            return self._mapped(parts, mapping, bound, call.name)
        action = Action(call.name, bind_arguments(call, None).arguments)
        column = parts.tool.find(call.name) + 1 or None if parts.tool else None
        if invalid is not None:
            message = (
                f"the action {clean_line(call.name, 60)} cannot be used, its mapping has an error: "
                f"{invalid}"
            )
        else:
            message = self._unknown_action(call.name)
        return _meaning(parts, action, ReplyProblem("mapping", message, column))

    def _open_to_agent(self, name: str) -> bool:
        if name in self._reserved or not self.config.offers(name):
            return False
        if self.tools is None:
            return True
        return name in self.tools and open_to_agent(self.tools[name])

    def _unknown_action(self, name: str) -> str:
        known = [*self.config.mappings, *([] if DONE in self.config.mappings else [DONE])]
        if self.config.allow_unmapped and self.tools is not None:
            known += [
                tool for tool in self.tools if self._open_to_agent(tool) and tool not in known
            ]
        near = did_you_mean(name, known)
        if near is not None:
            return f"unknown action {clean_line(name, 60)}; did you mean {near}?"
        names = ", ".join(known[:_MOST_NAMES]) + (", ..." if len(known) > _MOST_NAMES else "")
        return f"unknown action {clean_line(name, 60)}; known actions are {names}"


def text_interpreter(config: GymConfig, tools: Mapping[str, Tool] | None = None) -> Interpreter:
    """Return the interpreter of calls as people write them, whatever dialect replies have."""
    parser = replace(config.parser, dialect=DEFAULT)
    return Interpreter(replace(config, parser=parser), tools)


def reply_in(config: GymConfig, call: str, thought: str = "Let me try this.") -> str:
    """Return a whole reply that makes a call, in the configuration's dialect.

    The `call` is written as in `name(arguments)`; one that cannot be read stays in the dialect
    `text`. There is a thought where the configuration expects one.
    """
    dialect, written = DIALECTS[config.parser.dialect], f"<tool>{call}</tool>"
    if dialect.name != DEFAULT:
        action = text_interpreter(config).interpret(written).action
        written = written if action is None else dialect.write(action.name, action.arguments)
    return f"{dialect.think(thought)}\n{written}" if config.parser.use_thinking else written


def _cut_off(meaning: Interpretation) -> Interpretation:
    """The meaning of a reply that was cut off; that of its calls, where there are whole ones."""
    parts, error = meaning.reply, meaning.error
    assert parts is not None
    refused = error is not None and error.stage == "tags" and parts.tool is not None
    if refused or (meaning.action is not None and parts.tool is not None):
        return meaning
    why = f"{_CUT} ({error.message})" if error is not None and error.stage == "syntax" else _CUT
    return _meaning(parts._replace(tags=False), None, ReplyProblem("tags", why))


def _without_column(meaning: Interpretation) -> Interpretation:
    """The meaning of a call that was not read from a text of arguments."""
    if meaning.error is None or meaning.error.column is None:
        return meaning
    return meaning._replace(error=replace(meaning.error, column=None))


def _violated(
    violation: Violation, bound: BoundArguments, parameters: tuple[ParameterTrace, ...]
) -> ReplyProblem:
    trace = next((trace for trace in parameters if trace.name == violation.parameter), None)
    column = (
        _column(bound, trace.arguments)
        if trace is not None and trace.origin in ("argument", "transform")
        else None
    )
    return ReplyProblem("schema", violation.message, column, violation.parameter)


def _meaning(
    parts: Reply,
    action: Action | None,
    problem: ReplyProblem | None = None,
    draft: McpCall | None = None,
    parameters: tuple[ParameterTrace, ...] = (),
    unchecked: str | None = None,
    *,
    done: bool = False,
) -> Interpretation:
    think, tool, extra, _, tags, _, _ = parts
    return _new(
        Interpretation,
        (
            think,
            tool,
            extra,
            action,
            problem,
            draft if problem is None else None,
            done,
            _FORMATS[tags][action is not None],
            parameters,
            draft,
            draft is not None and unchecked is None,
            parts,
            unchecked,
            (),
            None,
        ),
    )
