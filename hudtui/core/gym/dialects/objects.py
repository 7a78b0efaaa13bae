"""Calls that are written as JSON objects: `{"name": ..., "arguments": {...}}`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from hudtui.core.gym.reply import MAX_DEPTH, MAX_DIGITS, Call, ParseFailure
from hudtui.core.text import clean_line

_BLANKS = re.compile(r"[ \t\r\n]*+")
_ARGUMENTS = ("arguments", "parameters")
_new = tuple.__new__


class Fault(Exception):
    """A text that is no JSON value, or one that is refused; `at` is the place in the text.

    `cut` is true where the text ends before the value.
    """

    def __init__(self, message: str, at: int | None = None, *, cut: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.cut = cut


class Decoded(NamedTuple):
    """A JSON value in a text, and where it ends."""

    value: Any
    end: int


def skip_blanks(text: str, at: int) -> int:
    """Return the place of the next character that is no blank."""
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def decode(text: str, at: int) -> Decoded:
    """Read the JSON value that begins at a place of a text.

    Raises:
        Fault: There is none, an object has a key twice, a number is not finite or too long, or it
            is nested too deeply.
    """
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(text) or error.msg.startswith("Unterminated string")
        why = "it is cut off" if cut else error.msg[:1].lower() + error.msg[1:]
        raise Fault(f"this is no JSON: {why}", min(error.pos, len(text)), cut=cut) from None
    except RecursionError:
        raise Fault(f"nested more than {MAX_DEPTH} deep") from None
    if text.count("{", at, end) + text.count("[", at, end) > MAX_DEPTH:
        _check_depth(value)
    return Decoded(value, end)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise Fault(f"the key {clean_line(key, 60)} stands twice in an object")
        seen.add(key)
    return members


def _no_constant(name: str) -> Any:
    raise Fault(f"{name} is no number of JSON")


def _finite(raw: str) -> float:
    value = float(raw)
    if not math.isfinite(value):
        raise Fault(f"the number {raw[:40]} is not finite")
    return value


def _whole(raw: str) -> int:
    if len(raw) > MAX_DIGITS:
        raise Fault(f"a number of {len(raw):,} digits is too long")
    return int(raw)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_constant=_no_constant,
    parse_float=_finite,
    parse_int=_whole,
    strict=False,
)


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    raise Fault(f"nested more than {MAX_DEPTH} deep")


def call_of(value: Any) -> Call | ParseFailure:
    """Return the call that an object of JSON stands for.

    Its arguments are in `arguments` or `parameters`, as an object or as the text of one.
    """
    if not isinstance(value, dict):
        return _failure('a call is an object {"name": ..., "arguments": {...}}')
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return _failure("the call has no `name`")
    given = [key for key in _ARGUMENTS if key in value]
    if len(given) > 1:
        return _failure("the call has both `arguments` and `parameters`")
    return named_call(name, value[given[0]] if given else {})


def named_call(name: str, arguments: Any) -> Call | ParseFailure:
    """Return the call of a name with the arguments as a model gives them: an object, or its text.

    None stands for no arguments.
    """
    if isinstance(arguments, str):
        try:
            arguments = _whole_value(arguments)
        except Fault as fault:
            return _failure(f"the arguments of {clean_line(name, 60)}: {fault.message}")
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        return _failure(f"the arguments of {clean_line(name, 60)} are no JSON object")
    return _new(Call, (name, (), arguments, (1,) * len(arguments)))


def _whole_value(text: str) -> Any:
    """The value of a text that is nothing else; None of an empty one."""
    start = skip_blanks(text, 0)
    if start == len(text):
        return None
    value, end = decode(text, start)
    if skip_blanks(text, end) != len(text):
        raise Fault("there is more than one JSON value")
    return value


def _failure(message: str) -> ParseFailure:
    return _new(ParseFailure, (message, 1))


def spell_object(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the JSON object of a call, on one line.

    No `<` stands in it: a tag in a text would end what surrounds the object.
    """
    try:
        text = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        text = json.dumps({"name": name, "arguments": "..."}, ensure_ascii=False)
    return text.replace("<", "\\u003c")
