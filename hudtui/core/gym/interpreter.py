"""What an agent's reply means: the whole way from its text to the call of a tool, or to the reason why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from hudtui.core.environment.values import Tool
from hudtui.core.gym.json_schema import NO_SCHEMA, ArgumentChecker, Violation
from hudtui.core.gym.mapping import BoundArguments, ParameterTrace, ReplyProblem, bind_arguments, map_arguments
from hudtui.core.gym.reply import Call, ParseFailure, Reply, parse_call, split_reply
from hudtui.core.gym.values import ActionMapping, FromArg, GymConfig
from hudtui.core.text import clean_line, did_you_mean

DONE = "done"
"""The action that ends an episode. It never reaches a server."""

_KEPT_FROM_AGENT = frozenset({"setup", "evaluate", "lifecycle", "hidden"})
_MOST_NAMES = 12


class Action(NamedTuple):
    """What the agent said, understood: a name and arguments by name."""

    name: str
    arguments: dict[str, Any]


class McpCall(NamedTuple):
    """What is sent to the environment."""

    tool: str
    arguments: dict[str, Any]


class FormatScore(NamedTuple):
    """What the reply contributes to format compliance, each 0 or 1."""

    xml: int
    """The expected tags are there."""
    action: int
    """The tool text is a call."""


class Interpretation(NamedTuple):
    """The meaning of one reply."""

    think: str | None
    tool: str | None
    extra_calls: int
    """Further tool tags with something in them, which are not carried out."""
    action: Action | None
    """None when the tool text is missing or no call."""
    error: ReplyProblem | None
    call: McpCall | None
    """None when there is an error, and for `done`."""
    done: bool
    format: FormatScore
    parameters: tuple[ParameterTrace, ...] = ()
    """Where each parameter of the call comes from; complete also when one of them is wrong."""
    draft: McpCall | None = None
    """The call as far as it could be worked out, also when it is refused."""
    checked: bool = False
    """Whether the call was held against a schema."""
    reply: Reply | None = None
    """The reply taken apart, with the places of its tags."""
    unchecked: str | None = None
    """Why the call could not be held against a schema, where one was asked for and that was not possible."""

    def to_json(self) -> dict[str, Any]:
        """Return the object that `hudtui parse` prints."""
        action, error, call = self.action, self.error, self.call
        return {
            "think": self.think,
            "tool": self.tool,
            "extra_calls": self.extra_calls,
            "action": None if action is None else {"name": action.name, "arguments": action.arguments},
            "error": None if error is None else {"stage": error.stage, "message": error.message, "column": error.column},
            "call": None if call is None else {"tool": call.tool, "arguments": call.arguments},
            "done": self.done,
            "format": {"xml": self.format.xml, "action": self.format.action},
        }


class Interpreter:
    """Applies one configuration to replies. What it works out for an action it keeps; safe to use from several threads.

    Args:
        config: The configuration.
        tools: The environment's tools by name; None when they are not known, and then nothing is checked against them.
        reserved: Tools of the task itself, which no action may reach, and what each does: `judges this task`.
    """

    def __init__(
        self, config: GymConfig, tools: Mapping[str, Tool] | None = None, *, reserved: Mapping[str, str] | None = None
    ) -> None:
        self.config = config
        self.tools = tools
        self._reserved = reserved or {}
        self._checkers: dict[str, ArgumentChecker] = {}

    def interpret(self, reply: str) -> Interpretation:
        """Everything about a reply. Any text has a meaning; none raises."""
        parts = split_reply(reply, self.config.parser.use_thinking)
        if parts.tool is None:
            return self._refused(parts, ReplyProblem("tags", parts.problem or "there is no tool text"))
        call = parse_call(parts.tool)
        if isinstance(call, ParseFailure):
            return self._refused(parts, ReplyProblem("syntax", call.message, call.column))
        mapping = self.config.mappings.get(call.name)
        if call.name == DONE:
            bound = bind_arguments(call, mapping.positional if mapping else None, mapping.keywords if mapping else ())
            return self._understood(parts, Action(DONE, bound.arguments), done=True)
        if mapping is None:
            return self._unmapped(parts, call)
        bound = bind_arguments(call, mapping.positional, mapping.keywords)
        return self._mapped(parts, mapping, bound, Action(call.name, bound.arguments))

    def _checker(self, tool: str) -> ArgumentChecker:
        checker = self._checkers.get(tool)
        if checker is None:
            known = None if self.tools is None else self.tools.get(tool)
            checker = self._checkers[tool] = ArgumentChecker(None if known is None else known.input_schema)
        return checker

    def _refused(self, parts: Reply, problem: ReplyProblem) -> Interpretation:
        return Interpretation(
            parts.think,
            parts.tool,
            parts.extra_calls,
            None,
            problem,
            None,
            False,
            FormatScore(int(parts.tags), 0),
            reply=parts,
        )

    def _understood(
        self,
        parts: Reply,
        action: Action,
        problem: ReplyProblem | None = None,
        *,
        done: bool = False,
        draft: McpCall | None = None,
        parameters: tuple[ParameterTrace, ...] = (),
        unchecked: str | None = None,
    ) -> Interpretation:
        return Interpretation(
            parts.think,
            parts.tool,
            parts.extra_calls,
            action,
            problem,
            draft if problem is None else None,
            done,
            FormatScore(int(parts.tags), 1),
            parameters,
            draft,
            draft is not None and unchecked is None,
            parts,
            unchecked,
        )

    def _mapped(self, parts: Reply, mapping: ActionMapping, bound: BoundArguments, action: Action) -> Interpretation:
        checker = self._checker(mapping.tool)
        mapped = map_arguments(mapping, bound, checker.required)
        draft = McpCall(mapping.tool, mapped.arguments)
        problem = bound.problem or self._missing_tool(mapping) or mapped.problem
        unchecked = None if checker.known else NO_SCHEMA
        if problem is None:
            violation, unchecked = checker.judge(draft.arguments)
            problem = None if violation is None else self._refusal(violation, bound, mapped.parameters)
        return self._understood(parts, action, problem, draft=draft, parameters=mapped.parameters, unchecked=unchecked)

    def _refusal(self, violation: Violation, bound: BoundArguments, parameters: tuple[ParameterTrace, ...]) -> ReplyProblem:
        trace = next((trace for trace in parameters if trace.name == violation.parameter), None)
        column = None
        if trace is not None and trace.origin in ("argument", "transform"):
            column = next((bound.columns[name] for name in trace.arguments if name in bound.columns), None)
        return ReplyProblem("schema", violation.message, column, violation.parameter)

    def _missing_tool(self, mapping: ActionMapping) -> ReplyProblem | None:
        if self.tools is None or self._callable(mapping.tool):
            return None
        if mapping.tool in self._reserved:
            return ReplyProblem(
                "mapping", f"{clean_line(mapping.tool, 60)} {self._reserved[mapping.tool]}; the agent cannot call it"
            )
        near = did_you_mean(mapping.tool, [name for name in self.tools if self._callable(name)])
        hint = f"; did you mean {near}?" if near else ""
        return ReplyProblem("mapping", f"the environment has no tool {clean_line(mapping.tool, 60)}{hint}")

    def _callable(self, name: str) -> bool:
        tool = self.tools.get(name) if self.tools is not None else None
        return tool is not None and tool.hub is None

    def _unmapped(self, parts: Reply, call: Call) -> Interpretation:
        invalid = self.config.invalid.get(call.name)
        if invalid is None and self.config.allow_unmapped and self._open_to_agent(call.name):
            bound = bind_arguments(call, None)
            action = Action(call.name, bound.arguments)
            if bound.problem is not None:
                return self._understood(parts, action, bound.problem)
            mapping = ActionMapping(
                call.name, call.name, tuple(bound.arguments), {argument: FromArg(argument) for argument in bound.arguments}
            )
            return self._mapped(parts, mapping, bound, action)
        action = Action(call.name, bind_arguments(call, None).arguments)
        column = parts.tool.index(call.name) + 1 if parts.tool else None
        if invalid is not None:
            message = f"the action {clean_line(call.name, 60)} cannot be used, its mapping has an error: {invalid}"
        else:
            message = self._unknown_action(call.name)
        return self._understood(parts, action, ReplyProblem("mapping", message, column))

    def _open_to_agent(self, name: str) -> bool:
        if name in self._reserved:
            return False
        if self.tools is None:
            return True
        return self._callable(name) and self.tools[name].kind not in _KEPT_FROM_AGENT

    def _unknown_action(self, name: str) -> str:
        known = [*self.config.mappings, *([] if DONE in self.config.mappings else [DONE])]
        if self.config.allow_unmapped and self.tools is not None:
            known += [tool for tool in self.tools if self._open_to_agent(tool) and tool not in known]
        near = did_you_mean(name, known)
        if near is not None:
            return f"unknown action {clean_line(name, 60)}; did you mean {near}?"
        names = ", ".join(known[:_MOST_NAMES]) + (", ..." if len(known) > _MOST_NAMES else "")
        return f"unknown action {clean_line(name, 60)}; known actions are {names}"
