r"""The short way for plain replies: what `Interpreter.interpret` would find, worked out beforehand as far as it can be.

Most replies hold one call of a few plain arguments. One regular expression takes such a reply apart, and a plan that was made for
the action and the number of its arguments fills in what remains. A plan gives up, and leaves the reply to the long way, as soon
as anything is out of the ordinary. It never decides otherwise than the long way would; `tests/core/gym` compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from hudtui.core.gym.jsonvalues import NotSendableError, plain
from hudtui.core.gym.literals import WORDS
from hudtui.core.gym.schema import SchemaChecker
from hudtui.core.gym.transform import Transform, TransformFailure
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

_Step = tuple[str, int, Callable[[Any, Any], Any] | None, bool]
"""Parameter, index of the argument, its transform or None, and whether that is given all arguments."""


class Plan:
    """The call of one action with a certain number of arguments.

    Attributes:
        tool: The tool that is called.
        fixed: The arguments, to be copied, when they are the same in every call and hold no lists or objects.
    """

    __slots__ = ("_checks", "_copied", "_lists", "_names", "_steps", "_template", "_wants_context", "_whole", "fixed", "tool")

    def __init__(
        self,
        tool: str,
        names: tuple[str, ...],
        template: dict[str, Any],
        steps: tuple[_Step, ...],
        lists: tuple[tuple[str, tuple[int, ...], tuple[Any, ...]], ...],
        checks: tuple[tuple[str, Callable[[Any], bool]], ...],
        whole: Callable[[dict[str, Any]], bool] | None,
    ) -> None:
        self.tool = tool
        self._names = names
        self._template = template
        self._copied = tuple(name for name, value in template.items() if isinstance(value, list | dict))
        self._steps = steps
        self._lists = lists
        self._checks = checks
        self._whole = whole
        self._wants_context = any(wants for *_, wants in steps)
        self.fixed = None if names or steps or lists or self._copied or whole is not None else template

    def arguments(self, tokens: Iterable[str | None]) -> dict[str, Any] | None:
        """The arguments of the call.

        Args:
            tokens: The arguments as written, None for those that are not there.

        Returns:
            The finished arguments, or None to leave the reply to the long way.
        """
        values: list[Any] = []
        for token in tokens:
            if token is None:
                break
            first = token[0]
            if first == '"' or first == "'":
                text = token[1:-1]
                if len(text) > _LONGEST_TEXT or not (text.isascii() or _encodable(text)):
                    return None
                values.append(text)
            elif token.isdecimal() and len(token) <= _LONGEST_NUMBER and token.isascii():
                values.append(int(token))
            elif first in "0123456789+-.":
                number = _DECIMAL(token)
                if number is None:
                    return None
                values.append(int(token) if number.lastindex is None else float(token))
            elif token.isascii() and len(token) <= _LONGEST_TEXT:
                values.append(WORDS.get(token, token))
            else:
                return None
        result = self._template.copy()
        for name in self._copied:
            result[name] = plain(result[name])
        context = dict(zip(self._names, values, strict=True)) if self._wants_context else None
        for name, index, run, wants in self._steps:
            value = values[index]
            if run is not None:
                try:
                    value = run(value, context if wants else None)
                    kind = type(value)
                    if not (kind in _ATOMS or (kind is str and value.isascii()) or (kind is float and isfinite(value))):
                        value = plain(value)
                except (TransformFailure, NotSendableError):
                    return None
            result[name] = value
        if self._lists:
            for name, indexes, defaults in self._lists:
                result[name] = [*[values[index] for index in indexes], *map(plain, defaults)]
        for name, fits in self._checks:
            if not fits(result[name]):
                return None
        if self._whole is not None and not self._whole(result):
            return None
        return result


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def make_plans(mapping: ActionMapping, checker: SchemaChecker) -> tuple[Plan | None, ...]:
    """A plan for each number of arguments up to MOST_ARGUMENTS; None where the long way has to tell what is wrong."""
    return tuple(
        _plan(mapping, mapping.positional[:count], checker) if count <= len(mapping.positional) else None
        for count in range(MOST_ARGUMENTS + 1)
    )


def _plan(mapping: ActionMapping, names: tuple[str, ...], checker: SchemaChecker) -> Plan | None:
    template: dict[str, Any] = {}
    steps: list[_Step] = []
    lists: list[tuple[str, tuple[int, ...], tuple[Any, ...]]] = []
    try:
        for name, parameter in mapping.parameters.items():
            if isinstance(parameter, Static):
                template[name] = plain(parameter.value)
            elif isinstance(parameter, FromArgs):
                given = [argument for argument in parameter.args if argument in names]
                if parameter.args[: len(given)] != tuple(given):
                    return None  # a default before an argument that is given
                if len(parameter.args) > max(len(parameter.defaults), len(given)):
                    if name in checker.required:
                        return None
                    continue
                template[name] = None
                lists.append((name, tuple(map(names.index, given)), parameter.defaults[len(given) : len(parameter.args)]))
                plain(parameter.defaults)
            elif parameter.arg in names:
                template[name] = None
                steps.append((name, names.index(parameter.arg), *_running(parameter)))
            elif parameter.default is not MISSING:
                template[name] = plain(parameter.default)
            elif name in checker.required:
                return None
    except NotSendableError:
        return None
    varying = {name for name, *_ in steps} | {name for name, *_ in lists}
    checked = _checks(template, varying, checker)
    if checked is None:
        return None
    return Plan(mapping.tool, names, template, tuple(steps), tuple(lists), *checked)


def _running(parameter: FromArg) -> tuple[Callable[[Any, Any], Any] | None, bool]:
    transform: Transform | None = parameter.transform
    if transform is None:
        return None, False
    return transform.run, transform.wants_context(parameter.use_context)


_Checks = tuple[tuple[tuple[str, Callable[[Any], bool]], ...], Callable[[dict[str, Any]], bool] | None]


def _checks(template: dict[str, Any], varying: set[str], checker: SchemaChecker) -> _Checks | None:
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
