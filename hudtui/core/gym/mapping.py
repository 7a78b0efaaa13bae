"""From an action to the arguments of an MCP call: names for positional arguments, defaults, transforms."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from hudtui.core.gym.json_safe import NotJsonError, to_json_value
from hudtui.core.gym.reply import Call
from hudtui.core.gym.transform import TransformFailure
from hudtui.core.gym.values import MISSING, ActionMapping, FromArgs, Parameter, Static
from hudtui.core.text import clean_line, did_you_mean

ProblemStage: TypeAlias = Literal["tags", "syntax", "mapping", "transform", "schema"]
ParameterOrigin: TypeAlias = Literal["static", "argument", "default", "transform", "left out", "failed"]


@dataclass(frozen=True, slots=True)
class ReplyProblem:
    """Why a reply becomes no call."""

    stage: ProblemStage
    message: str
    column: int | None = None
    """From 1 in the tool text; None where it is about no place in it."""
    parameter: str | None = None
    """The parameter it is about, where it is about one."""


class ParameterTrace(NamedTuple):
    """Where one parameter of the call comes from."""

    name: str
    origin: ParameterOrigin
    """`left out` and `failed` parameters are not part of the call."""
    before: Any = None
    """What the agent wrote, or the configured value."""
    after: Any = None
    """What is sent."""
    arguments: tuple[str, ...] = ()
    """The arguments of the action that it is taken from."""


class BoundArguments(NamedTuple):
    """The arguments of an action by name."""

    arguments: dict[str, Any]
    columns: Mapping[str, int]
    problem: ReplyProblem | None = None


def bind_arguments(call: Call, positional: Collection[str] | None, keywords: Collection[str] = ()) -> BoundArguments:
    """Give positional arguments their names.

    Args:
        call: What the agent wrote.
        positional: The names that its mapping knows, or None for an action without a mapping, which takes anything.
        keywords: Further names that it knows, which are given by name alone.

    Returns:
        All arguments, further positional ones as `arg<position>`, and what is wrong with them.
    """
    names = list(positional or ())
    arguments: dict[str, Any] = {}
    columns: dict[str, int] = {}
    problem: ReplyProblem | None = None
    for index, value in enumerate(call.args):
        name = names[index] if index < len(names) else f"arg{index}"
        arguments[name] = value
        columns[name] = call.columns[index]
    if positional is not None and len(call.args) > len(names):
        expected = f"{len(names)} argument{'' if len(names) == 1 else 's'}" if names else "no arguments"
        listed = f" ({', '.join(names)})" if names else f"; {', '.join(keywords)} by name" if keywords else ""
        problem = ReplyProblem("mapping", f"{call.name} takes {expected}{listed}, not {len(call.args)}", call.columns[len(names)])
    known = {*names, *keywords}
    for (name, value), column in zip(call.kwargs.items(), call.columns[len(call.args) :], strict=True):
        if name in arguments:
            problem = problem or ReplyProblem("mapping", f"the argument {clean_line(name, 60)} is given twice", column)
            continue
        if positional is not None and name not in known:
            problem = problem or ReplyProblem("mapping", _unknown_argument(call.name, name, [*names, *keywords]), column)
        arguments[name] = value
        columns[name] = column
    return BoundArguments(arguments, columns, problem)


def _unknown_argument(action: str, name: str, names: list[str]) -> str:
    near = did_you_mean(name, names)
    hint = f"; did you mean {near}?" if near else f"; it has {', '.join(names)}" if names else ""
    return f"{action} has no argument {clean_line(name, 60)}{hint}"


class MappedArguments(NamedTuple):
    """The arguments of the MCP call, or why there are none."""

    arguments: dict[str, Any]
    parameters: tuple[ParameterTrace, ...]
    problem: ReplyProblem | None = None


def map_arguments(mapping: ActionMapping, bound: BoundArguments, required: Collection[str]) -> MappedArguments:
    """Work out every parameter of a call.

    Args:
        mapping: The action's mapping.
        bound: What the agent wrote, by name.
        required: Parameters that the tool requires, as far as that is known.

    Returns:
        All parameters, also those behind one that failed; the first problem counts.
    """
    result: dict[str, Any] = {}
    traces: list[ParameterTrace] = []
    problem: ReplyProblem | None = None
    for name, parameter in mapping.parameters.items():
        trace, wrong = _parameter(mapping, name, parameter, bound, required)
        traces.append(trace)
        problem = problem or wrong
        if trace.origin not in ("left out", "failed"):
            result[name] = trace.after
    return MappedArguments(result, tuple(traces), problem)


def _parameter(
    mapping: ActionMapping, name: str, parameter: Parameter, bound: BoundArguments, required: Collection[str]
) -> tuple[ParameterTrace, ReplyProblem | None]:
    if isinstance(parameter, Static):
        return _sent(mapping, name, "static", parameter.value, (), None)
    if isinstance(parameter, FromArgs):
        return _from_args(mapping, name, parameter, bound, required)
    argument = parameter.arg
    if argument not in bound.arguments:
        if parameter.default is not MISSING:
            return _sent(mapping, name, "default", parameter.default, (argument,), None)
        return _left_out(mapping, name, (argument,), [argument], required)
    before = bound.arguments[argument]
    column = bound.columns.get(argument)
    if parameter.transform is None:
        return _sent(mapping, name, "argument", before, (argument,), column)
    try:
        wants = parameter.transform.wants_context(parameter.use_context)
        after = to_json_value(parameter.transform(before, bound.arguments if wants else None))
    except (TransformFailure, NotJsonError) as failure:
        message = f"argument {argument} of {mapping.name}: {failure}"
        return (
            ParameterTrace(name, "failed", before, None, (argument,)),
            ReplyProblem("transform", message, column, name),
        )
    return ParameterTrace(name, "transform", before, after, (argument,)), None


def _from_args(
    mapping: ActionMapping, name: str, parameter: FromArgs, bound: BoundArguments, required: Collection[str]
) -> tuple[ParameterTrace, ReplyProblem | None]:
    values = []
    given = False
    missing = []
    for index, argument in enumerate(parameter.args):
        if argument in bound.arguments:
            given = True
            values.append(bound.arguments[argument])
        elif index < len(parameter.defaults):
            values.append(parameter.defaults[index])
        else:
            missing.append(argument)
    if missing:
        return _left_out(mapping, name, parameter.args, missing, (name,) if given else required)
    column = next((bound.columns[argument] for argument in parameter.args if argument in bound.columns), None)
    return _sent(mapping, name, "argument" if given else "default", values, parameter.args, column)


def _left_out(
    mapping: ActionMapping, name: str, arguments: tuple[str, ...], missing: list[str], required: Collection[str]
) -> tuple[ParameterTrace, ReplyProblem | None]:
    trace = ParameterTrace(name, "left out", None, None, arguments)
    if name not in required:
        return trace, None
    words = " and ".join(missing)
    what = f"the argument {words} is" if len(missing) == 1 else f"the arguments {words} are"
    others = [argument for argument in arguments if argument not in missing]
    why = f"{mapping.tool} requires {name}" if not others else f"{name} is made of {', '.join(arguments)}"
    return trace, ReplyProblem("mapping", f"{what} missing: {why}", None, name)


def _sent(
    mapping: ActionMapping, name: str, origin: ParameterOrigin, value: Any, arguments: tuple[str, ...], column: int | None
) -> tuple[ParameterTrace, ReplyProblem | None]:
    try:
        return ParameterTrace(name, origin, value, to_json_value(value), arguments), None
    except NotJsonError as error:
        subject = f"argument {' and '.join(arguments)} of {mapping.name}" if arguments else f"parameter {name} of {mapping.name}"
        return ParameterTrace(name, "failed", value, None, arguments), ReplyProblem("schema", f"{subject}: {error}", column, name)
