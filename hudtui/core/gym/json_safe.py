"""Values on their way into JSON: checked, copied and written without recursion, however deeply they are nested."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_PLAIN = frozenset((int, bool, type(None)))
_ADVICE = {
    "set": "; sorted(...) makes a list of it",
    "range": "; list(...) makes a list of it",
    "zip": "; list(...) makes a list of it",
    "enumerate": "; list(...) makes a list of it",
    "dict_keys": "; list(...) makes a list of it",
    "dict_values": "; list(...) makes a list of it",
    "dict_items": "; list(...) makes a list of it",
}


class NotJsonError(Exception):
    """A value that JSON cannot hold; the text says why."""


def to_json_value(value: Any) -> Any:
    """A copy of `value` made of what JSON knows: tuples become lists, numbers as keys become text.

    Raises:
        NotSendableError: It holds a number that is not finite, half a surrogate pair, or something that is no JSON at all.
    """
    kind = type(value)
    if kind in _PLAIN or (kind is str and value.isascii()):
        return value
    if kind is list and value and type(value[0]) is str:
        try:
            if "".join(value).isascii():
                return value[:]
        except TypeError:  # not all of it is text
            pass
    top: list[Any] = []
    pending: list[tuple[Any, Any]] = [((value,), top)]
    while pending:
        source, target = pending.pop()
        if type(source) is dict:
            for key, item in source.items():
                target[_key(key)] = _converted(item, pending)
        else:
            for item in source:
                target.append(_converted(item, pending))
    return top[0]


def _converted(item: Any, pending: list[tuple[Any, Any]]) -> Any:
    kind = type(item)
    if kind in _PLAIN:
        return item
    if kind is str:
        return item if item.isascii() else _text(item)
    if kind is float:
        if math.isfinite(item):
            return item
        raise NotJsonError(f"the number {item} is not finite")
    if kind is list or kind is tuple:
        copy: Any = []
    elif kind is dict:
        copy = {}
    else:
        name = kind.__name__
        raise NotJsonError(f"a value of type {name} cannot be sent{_ADVICE.get(name, '')}")
    if item:
        pending.append((item, copy))
    return copy


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
    kind = type(key)
    if kind is str:
        return key if key.isascii() else _text(key)
    if kind is bool or key is None or kind is int or (kind is float and math.isfinite(key)):
        return json.dumps(key)
    raise NotJsonError(f"a key of type {kind.__name__} cannot be sent")


def dumps(value: Any) -> str:
    """`value` as compact JSON on one line, all ASCII, at any depth.

    `json.dumps` recurses, and an agent can nest its arguments as deeply as its reply is long.

    Raises:
        TypeError: It holds something that is no JSON.
    """
    try:
        return json.dumps(value)
    except RecursionError:
        return _dumped(value)


class _Raw(str):
    __slots__ = ()


def _dumped(value: Any) -> str:
    parts: list[str] = []
    pending: list[Any] = [value]
    while pending:
        item = pending.pop()
        if type(item) is _Raw:
            parts.append(item)
        elif isinstance(item, Mapping):
            pending.append(_Raw("}"))
            first = True
            for key, member in reversed(list(item.items())):
                if not first:
                    pending.append(_Raw(", "))
                first = False
                pending.append(member)
                pending.append(_Raw(json.dumps(key if isinstance(key, str) else json.dumps(key)) + ": "))
            pending.append(_Raw("{"))
        elif isinstance(item, list | tuple):
            pending.append(_Raw("]"))
            for index, member in enumerate(reversed(item)):
                if index:
                    pending.append(_Raw(", "))
                pending.append(member)
            pending.append(_Raw("["))
        else:
            parts.append(json.dumps(item))
    return "".join(parts)
