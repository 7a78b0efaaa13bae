"""Values on their way into JSON."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 200
"""Levels of lists and objects inside each other. An argument has at most half of that (see
`reply`)."""

_ATOMS = frozenset((int, bool, type(None)))
_ADVICE = {"set": "; sorted(...) makes a list of it"} | dict.fromkeys(
    ("range", "zip", "enumerate", "dict_keys", "dict_values", "dict_items"),
    "; list(...) makes a list of it",
)


class NotJsonError(Exception):
    """A value that JSON cannot hold; the text says why."""


def to_json_value(value: Any, depth: int = 0) -> Any:
    """Return a copy of a value, made of what JSON knows.

    Tuples become lists, and numbers that are keys become text.

    Raises:
        NotJsonError: It holds a number that is not finite, half a surrogate pair, or something that
            is no JSON at all, or it is nested too deeply.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is str:
        return value if value.isascii() else _text(value)
    if kind is float:
        if math.isfinite(value):
            return value
        raise NotJsonError(f"the number {value} is not finite")
    if depth == MAX_DEPTH:
        raise NotJsonError(f"the value is nested more than {MAX_DEPTH} deep")
    depth += 1
    if kind is list or kind is tuple:
        return [to_json_value(item, depth) for item in value]
    if kind is dict:
        return {_key(key): to_json_value(item, depth) for key, item in value.items()}
    raise NotJsonError(
        f"a value of type {kind.__name__} cannot be sent{_ADVICE.get(kind.__name__, '')}"
    )


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        return text
    try:
        # Two escapes that make one character in JSON's spelling arrive as two halves.
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise NotJsonError("the text holds half a surrogate pair") from None


def _key(key: Any) -> str:
    if type(key) is str:
        return key if key.isascii() else _text(key)
    if type(key) in _ATOMS or (type(key) is float and math.isfinite(key)):
        return json.dumps(key)
    raise NotJsonError(f"a key of type {type(key).__name__} cannot be sent")


def dumps(value: Any) -> str:
    """Return a value as compact JSON on one line, all ASCII.

    What a server nested too deeply is left out.

    Raises:
        TypeError: It holds something that is no JSON.
    """
    try:
        return json.dumps(value)
    except RecursionError:
        return '"[nested too deeply]"'
