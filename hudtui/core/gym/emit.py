"""Values as YAML text that every loader reads the same way.

A configuration is read by YAML 1.2 here and by YAML 1.1 loaders elsewhere. They disagree about bare words (`on`, `y`, `1e5`,
`12:30`), so everything they could disagree about is written in double quotes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

MAX_KEY_LENGTH = 128
"""Longest key written; YAML bounds keys on one line, and a longer name is nobody's parameter."""

MAX_EMITTED_DEPTH = 20
"""Deepest nesting of a value written; loaders bound it, too."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TAKEN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf"))
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_UNPRINTABLE = re.compile("[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")


class NotWritable(ValueError):
    """A value that YAML text cannot hold, or cannot hold within bounds; says why."""


def yaml_quoted(text: str) -> str:
    """`text` in double quotes, on one line.

    Raises:
        NotWritable: It holds half a surrogate pair, which no UTF-8 file can hold and no server can be sent.
    """
    parts = []
    for character in text:
        code = ord(character)
        if character in _SHORT:
            parts.append(_SHORT[character])
        elif 0xD800 <= code <= 0xDFFF:
            raise NotWritable("it holds half a surrogate pair")
        elif character.isprintable():
            parts.append(character)
        elif code <= 0xFF:
            parts.append(f"\\x{code:02X}")
        else:
            parts.append(f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}")
    return '"' + "".join(parts) + '"'


def yaml_key(name: str) -> str:
    """A mapping key: bare where every loader reads it as this text, else in quotes.

    Raises:
        NotWritable: See `quoted`; or it is longer than `MAX_KEY_LENGTH`.
    """
    if len(name) > MAX_KEY_LENGTH:
        raise NotWritable(f"its name is longer than {MAX_KEY_LENGTH} characters")
    return name if _WORD.match(name) and name.lower() not in _TAKEN else yaml_quoted(name)


def yaml_value(data: Any, depth: int = 0) -> str:
    """A JSON value on one line.

    Raises:
        NotWritable: It is nested too deeply, not a number (`NaN`, infinity), or holds text or keys that cannot be written.
    """
    if depth > MAX_EMITTED_DEPTH:
        raise NotWritable(f"it is nested more than {MAX_EMITTED_DEPTH} levels deep")
    if data is None:
        return "null"
    if isinstance(data, bool):
        return "true" if data else "false"
    if isinstance(data, str):
        return yaml_quoted(data)
    if isinstance(data, int):
        return _integer(data)
    if isinstance(data, float):
        return _float(data)
    if isinstance(data, Mapping):
        items = (f"{_flow_key(str(name))}: {yaml_value(item, depth + 1)}" for name, item in data.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(data, (list, tuple)):
        return "[" + ", ".join(yaml_value(item, depth + 1) for item in data) + "]"
    raise NotWritable(f"a {type(data).__name__} is no JSON value")


def yaml_printable(text: str) -> str:
    """`text` with every character that a YAML file cannot hold as it is replaced by U+FFFD."""
    return _UNPRINTABLE.sub("\ufffd", text)


def _flow_key(name: str) -> str:
    if len(name) > MAX_KEY_LENGTH:
        raise NotWritable(f"a key in it is longer than {MAX_KEY_LENGTH} characters")
    return yaml_quoted(name)


def _integer(number: int) -> str:
    try:
        return str(number)
    except ValueError:
        raise NotWritable("the number has too many digits") from None


def _float(number: float) -> str:
    if not math.isfinite(number):
        raise NotWritable("it is not a finite number")
    text = repr(number)
    mantissa, mark, exponent = text.partition("e")
    # YAML 1.1 takes a number for a number only with a point in it and a sign in its exponent: 1.0e-05, not 1e-05.
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{mark}{exponent}"
