r"""The short way for plain replies: what `Interpreter.interpret` would find, worked out beforehand as far as it can be.

Most replies hold one call of a few plain arguments. One regular expression takes such a reply apart, and a plan that was made for
the action and the number of its arguments fills in what remains. A plan gives up, and leaves the reply to the long way, as soon
as anything is out of the ordinary. It never decides otherwise than the long way would; `tests/core/gym` compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from hudtui.core.gym.json_safe import NotJsonError, to_json_value
from hudtui.core.gym.json_schema import ArgumentChecker
from hudtui.core.gym.literals import WORDS
from hudtui.core.gym.transform import Transform
from hudtui.core.gym.transform_base import Closure
from hudtui.core.gym.values import MISSING, ActionMapping, FromArg, FromArgs, Static

MOST_ARGUMENTS = 4
"""Arguments that the short way handles."""

_TOKEN = r"""(\"[^\"\\<]*+\"|'[^'\\<]*+'|[^\s\"'(),\[\]{}=<\\]++)\s*+"""
_TOKENS = rf"{_TOKEN}(?:,\s*+{_TOKEN}(?:,\s*+{_TOKEN}(?:,\s*+{_TOKEN})?)?)?"
PLAIN_REPLY = re.compile(
    rf"[^<]*+(?:<think>[^<]*+</think>[^<]*+)?<tool>\s*+(\w++)\(\s*+(?:{_TOKENS})?\)\s*+</tool>[^<]*+"
).fullmatch
"""Matches one think block or none and one call, without anything that needs care. Groups: the name, four arguments."""

_LONGEST_TEXT = 4_096
_LONGEST_NUMBER = 15
_DECIMAL = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,15})?").fullmatch
_ATOMS = frozenset((int, bool, type(None)))
_KNOWN: Mapping[str, Any] = {**{str(number): number for number in range(2_560)}, **WORDS}
"""Values that need no reading: words, and numbers as large as the positions on most screens."""
_GIVE_UP: Any = object()
_new = tuple.__new__  # what a named tuple does itself, without its detour


class McpCall(NamedTuple):
    """What is sent to the environment."""

    tool: str
    arguments: dict[str, Any]


Plan = Callable[[tuple[Any, ...]], McpCall | None]
"""Takes the groups of PLAIN_REPLY, and gives the finished call, or None to leave the reply to the long way."""

_Step = tuple[str, int, Closure | None, bool]
"""Parameter, index of the argument, the body of its transform or None, and whether that is given all arguments."""


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a plan is made of."""

    tool: str
    names: tuple[str, ...]
    """The arguments that are given."""
    template: dict[str, Any]
    """Every parameter of the call in its order, with its value where that is fixed."""
    steps: tuple[_Step, ...]
    lists: tuple[tuple[str, tuple[int, ...], tuple[Any, ...]], ...]
    """Parameter, indexes of the arguments in it, defaults of the others."""
    checks: tuple[tuple[str, Callable[[Any], bool]], ...]
    """Parameters that the schema has to be asked about in each call."""
    whole: Callable[[dict[str, Any]], bool] | None
    """Asked about all arguments, where the schema does not treat each parameter by itself."""

    @property
    def fixed(self) -> bool:
        """Whether the arguments are the same in every call, and hold no lists or objects."""
        return not (self.names or self.steps or self.lists or self.whole or self.copied)

    @property
    def copied(self) -> tuple[str, ...]:
        """Parameters with a fixed list or object."""
        return tuple(name for name, value in self.template.items() if isinstance(value, list | dict))


def _value(token: str) -> Any:
    """The value of an argument as written, or _GIVE_UP."""
    first = token[0]
    if first == '"' or first == "'":
        text = token[1:-1]
        return text if len(text) <= _LONGEST_TEXT and (text.isascii() or _encodable(text)) else _GIVE_UP
    known = _KNOWN.get(token, _GIVE_UP)
    if known is not _GIVE_UP:
        return known
    if token.isdecimal() and token.isascii() and len(token) <= _LONGEST_NUMBER:
        return int(token)
    if first in "0123456789+-.":
        number = _DECIMAL(token)
        return _GIVE_UP if number is None else int(token) if number.lastindex is None else float(token)
    return token if token.isascii() and len(token) <= _LONGEST_TEXT else _GIVE_UP


def _compiled(parts: _Parts) -> Plan:
    """The plan as a function. Calls of one shape are many, so that each shape that is common has one of its own."""
    tool, names, checks = parts.tool, parts.names, parts.checks
    copy = parts.template.copy
    direct = tuple((name, index) for name, index, run, _ in parts.steps if run is None)
    transformed = tuple((name, index, run, wants) for name, index, run, wants in parts.steps if run is not None)
    rare = parts.copied or parts.lists or parts.whole
    if not rare and not checks:
        if not transformed and [index for _, index in direct] == list(range(len(names))) and len(names) in (1, 2):
            return _direct_plan(tool, copy, [name for name, _ in direct])
        if len(names) == len(transformed) == 1 and not direct and not transformed[0][3]:
            return _transformed_plan(tool, copy, transformed[0][0], transformed[0][2])
    end = len(names) + 1
    contextual = any(wants for *_, wants in transformed)

    def general(groups: tuple[Any, ...]) -> McpCall | None:
        values = []
        for token in groups[1:end]:
            value = _value(token)
            if value is _GIVE_UP:
                return None
            values.append(value)
        result = copy()
        for name, index in direct:
            result[name] = values[index]
        if transformed:
            context = dict(zip(names, values, strict=True)) if contextual else None
            for name, index, run, wants in transformed:
                try:
                    value = run([None, values[index], context] if wants else [None, values[index]])
                    kind = type(value)
                    if not (kind in _ATOMS or (kind is str and value.isascii()) or (kind is float and isfinite(value))):
                        value = to_json_value(value)
                except Exception:
                    return None
                result[name] = value
        if rare and not _complete(parts, values, result):
            return None
        for name, fits in checks:
            if not fits(result[name]):
                return None
        return _new(McpCall, (tool, result))

    return general


def _direct_plan(tool: str, copy: Callable[[], dict[str, Any]], targets: list[str]) -> Plan:
    """For one or two arguments that are sent as they are."""
    target, other = targets[0], targets[-1]

    def one(groups: tuple[Any, ...]) -> McpCall | None:
        value = _value(groups[1])
        if value is _GIVE_UP:
            return None
        result = copy()
        result[target] = value
        return _new(McpCall, (tool, result))

    def two(groups: tuple[Any, ...]) -> McpCall | None:
        first, second = _value(groups[1]), _value(groups[2])
        if first is _GIVE_UP or second is _GIVE_UP:
            return None
        result = copy()
        result[target] = first
        result[other] = second
        return _new(McpCall, (tool, result))

    return one if len(targets) == 1 else two


def _transformed_plan(tool: str, copy: Callable[[], dict[str, Any]], target: str, run: Closure) -> Plan:
    """For one argument that is transformed by itself."""

    def plan(groups: tuple[Any, ...]) -> McpCall | None:
        value = _value(groups[1])
        if value is _GIVE_UP:
            return None
        try:
            value = run([None, value])
            kind = type(value)
            if not (kind in _ATOMS or (kind is str and value.isascii()) or (kind is float and isfinite(value))):
                value = to_json_value(value)
        except Exception:
            return None
        result = copy()
        result[target] = value
        return _new(McpCall, (tool, result))

    return plan


def _complete(parts: _Parts, values: list[Any], result: dict[str, Any]) -> bool:
    """Add what few mappings have; whether the arguments still fit."""
    for name in parts.copied:
        result[name] = to_json_value(result[name])
    for name, indexes, defaults in parts.lists:
        result[name] = [*[values[index] for index in indexes], *map(to_json_value, defaults)]
    return parts.whole is None or parts.whole(result)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of one action."""

    by_count: tuple[Plan | None, ...]
    """For each number of arguments up to MOST_ARGUMENTS; None where the long way has to tell what is wrong."""
    fixed: tuple[str, dict[str, Any]] | None
    """Tool and arguments without any given, when they are the same in every call; the arguments are to be copied."""


def make_plans(mapping: ActionMapping, checker: ArgumentChecker) -> Plans:
    """Work out what can be known of an action's calls before the first reply."""
    found = [
        _parts(mapping, mapping.positional[:count], checker) if count <= len(mapping.positional) else None
        for count in range(MOST_ARGUMENTS + 1)
    ]
    bare = found[0]
    return Plans(
        tuple(None if parts is None else _compiled(parts) for parts in found),
        (bare.tool, bare.template) if bare is not None and bare.fixed else None,
    )


def _parts(mapping: ActionMapping, names: tuple[str, ...], checker: ArgumentChecker) -> _Parts | None:
    template: dict[str, Any] = {}
    steps: list[_Step] = []
    lists: list[tuple[str, tuple[int, ...], tuple[Any, ...]]] = []
    try:
        for name, parameter in mapping.parameters.items():
            if isinstance(parameter, Static):
                template[name] = to_json_value(parameter.value)
            elif isinstance(parameter, FromArgs):
                given = [argument for argument in parameter.args if argument in names]
                if parameter.args[: len(given)] != tuple(given):
                    return None  # a default before an argument that is given
                if len(parameter.args) > max(len(parameter.defaults), len(given)):
                    if given or name in checker.required:
                        return None
                    continue
                template[name] = None
                lists.append((name, tuple(map(names.index, given)), parameter.defaults[len(given) : len(parameter.args)]))
                to_json_value(parameter.defaults)
            elif parameter.arg in names:
                template[name] = None
                steps.append((name, names.index(parameter.arg), *_running(parameter)))
            elif parameter.default is not MISSING:
                template[name] = to_json_value(parameter.default)
            elif name in checker.required:
                return None
    except NotJsonError:
        return None
    varying = {name for name, *_ in steps} | {name for name, *_ in lists}
    checked = _checks(template, varying, checker)
    if checked is None:
        return None
    return _Parts(mapping.tool, names, template, tuple(steps), tuple(lists), *checked)


def _running(parameter: FromArg) -> tuple[Closure | None, bool]:
    transform: Transform | None = parameter.transform
    if transform is None:
        return None, False
    return transform.body(parameter.use_context), transform.wants_context(parameter.use_context)


_Checks = tuple[tuple[tuple[str, Callable[[Any], bool]], ...], Callable[[dict[str, Any]], bool] | None]


def _checks(template: dict[str, Any], varying: set[str], checker: ArgumentChecker) -> _Checks | None:
    """What remains to be checked in each call; None when what is known beforehand does not fit.

    Where the schema treats each parameter by itself, the verdict on the fixed ones is the same in every call.
    """
    if not checker.known:
        return (), None
    parts = checker.parameter_predicates()
    if parts is None:
        return (), lambda arguments: checker.check(arguments) is None
    if not checker.required <= template.keys():
        return None
    remaining = []
    for name in template:
        fits = parts(name)
        if fits is None:
            continue
        if name in varying:
            remaining.append((name, fits))
        elif not fits(template[name]):
            return None
    return tuple(remaining), None
