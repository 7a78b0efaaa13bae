"""Changing single values of a YAML file in place.

Where the file is written in the ordinary way, only the characters of the value change: everything else stays as it is, byte for
byte. Where it is not (flow style, anchors, several lines), ruamel.yaml rewrites the file and keeps comments and order. Either way
the result is read again before anybody writes it, and must differ from the original in the given values alone.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.yaml_doc import YamlDocument, YamlPath, dotted_path, load_yaml

Scalar = str | int | float | bool | None

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_/.@+-]*(?: [A-Za-z0-9_/.@+()-]+)*\Z")
_RESERVED = re.compile(r"(?:y|yes|n|no|on|off|true|false|null|nan|inf)\Z", re.IGNORECASE)
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n]*")
_SPECIALS = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def set_values(text: str, changes: Mapping[YamlPath, Scalar], *, name: str) -> str:
    """The text with the value at each path changed, or put in where it is missing.

    Args:
        text: A YAML document whose top is a mapping, or an empty one.
        changes: New values by path. Mappings on the way are made where they are missing, at the end of the one around them.
        name: What errors call the text, usually the file's path.

    Raises:
        InputError: The text is not valid YAML, a path leads through something that is no mapping, or the values cannot be put
            into this text without harm to the rest.
    """
    document = load_yaml(text, name=name)
    if document.data is None:
        document.data = {}
    wanted = load_yaml(text, name=name).data or {}
    if not isinstance(wanted, dict):
        raise InputError("the top of this file is no mapping", where=document.location())
    for path, value in changes.items():
        _put(wanted, path, value, document)
    edited: str | None = text
    for path, value in changes.items():
        edited = _spliced(edited, path, value, name)
        if edited is None:
            break
    if edited is None or not _says(edited, wanted, name):
        edited = _rewritten(text, changes)
        if not _says(edited, wanted, name) or _comments(text) != _comments(edited):
            edited = None
    if edited is None:
        raise InputError(
            f"{', '.join(dotted_path(path) for path in changes)} cannot be changed in this file without harm to the rest of it",
            fix="Change it in an editor.",
            where=document.location(next(iter(changes))),
        )
    return edited


def scalar_text(value: Scalar, style: str = "") -> str:
    """How a value is written on one line, so that every YAML reader takes it for the same.

    Args:
        value: The value.
        style: `"` or `'` to keep to those quotes where a text allows it; empty for none where possible.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if style == "" and _PLAIN.match(value) and not _RESERVED.match(value):
        return value
    if style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return '"' + "".join(_escaped(character) for character in value) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _SPECIALS:
        return _SPECIALS[character]
    if character.isprintable() and code != 0xFEFF:
        return character
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _put(data: dict[str, Any], path: YamlPath, value: Scalar, document: YamlDocument) -> None:
    place: Any = data
    for depth, step in enumerate(path):
        if isinstance(place, list) and isinstance(step, int):
            if not 0 <= step < len(place):
                raise InputError(f"{dotted_path(path[:depth])} has no item {step}", where=document.location(path[:depth]))
        elif not isinstance(place, dict):
            raise InputError(f"{dotted_path(path[:depth])} is no mapping", where=document.location(path[:depth]))
        elif depth < len(path) - 1 and place.get(step) is None:
            place[step] = {}
        if depth == len(path) - 1:
            place[step] = value
        else:
            place = place[step]


def _same(one: Any, other: Any) -> bool:
    # Like ==, but 1, 1.0 and True are three things, the order of keys counts, and nan is nan.
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other) or (one != one and other != other)


def _says(text: str, wanted: Any, name: str) -> bool:
    try:
        return _same(load_yaml(text, name=name).data, wanted)
    except InputError:
        return False


def _comments(text: str) -> list[str]:
    """Everything that could be a comment, in the order of the alphabet; enough to see whether one was lost."""
    return sorted(found.rstrip() for found in _COMMENT.findall(text))


def _spliced(text: str | None, path: YamlPath, value: Scalar, name: str) -> str | None:
    """The text with one value changed where it stands; None where that is not simple."""
    if text is None:
        return None
    try:
        document = load_yaml(text, name=name)
    except InputError:
        return None
    lines = document.text.split("\n")
    mark_cut = len(text) - len(document.text)  # a byte order mark, kept in front
    parent: Any = document.data or {}
    known: YamlPath = ()
    for step in path:
        if not (step in parent if isinstance(parent, dict) else isinstance(parent, list) and isinstance(step, int)):
            break
        parent = parent[step]
        known = (*known, step)
    if known == path:
        if not _replace(document, lines, path, value):
            return None
    elif not _insert(document, lines, known, path[len(known) :], value):
        return None
    return text[:mark_cut] + "\n".join(lines)


def _replace(document: YamlDocument, lines: list[str], path: YamlPath, value: Scalar) -> bool:
    mark, style = document.value_mark(path), document.style(path)
    if style not in ("", "'", '"') or mark.line != mark.end_line:
        return False
    row = lines[mark.line - 1]
    old = row[mark.column - 1 : mark.end_column - 1]
    if old.startswith(("&", "!", "*")):
        return False
    if old == "":  # a key without a value
        key = document.mark(path)
        after = row.find(":", key.end_column - 1)
        if key.line != mark.line or after < 0:
            return False
        lines[mark.line - 1] = f"{row[: after + 1]} {scalar_text(value)}{row[after + 1 :]}"
        return True
    lines[mark.line - 1] = row[: mark.column - 1] + scalar_text(value, style) + row[mark.end_column - 1 :]
    return True


def _insert(document: YamlDocument, lines: list[str], known: YamlPath, missing: YamlPath, value: Scalar) -> bool:
    """Put `missing` into the mapping at `known`, below what is there."""
    if document.style(known) == "{" and isinstance(document.at(known), dict):
        return _insert_in_braces(document, lines, known, missing, value)
    end = "\r" if any(line.endswith("\r") for line in lines[:1]) else ""
    last = document.last_line(known)
    if known and document.at(known) is None:
        return False  # `key:` with nothing below it; rare enough for the rewriter
    if not known and not document.data:
        # Nothing but comments.
        indent = 0
        while lines and not lines[-1].strip():
            lines.pop()
        last = len(lines)
    else:
        if document.style(known) != "block" or not document.at(known):
            return False
        children = document.at(known)
        first = document.mark((*known, next(iter(children))))
        indent = first.column - 1
        if lines[first.line - 1][:indent].strip():
            return False
    fresh = []
    for depth, step in enumerate(missing[:-1]):
        fresh.append(f"{' ' * (indent + 2 * depth)}{scalar_text(str(step))}:{end}")
    style = '"' if isinstance(value, str) else ""
    fresh.append(f"{' ' * (indent + 2 * (len(missing) - 1))}{scalar_text(str(missing[-1]))}: {scalar_text(value, style)}{end}")
    lines[last:last] = fresh
    if lines[-1].rstrip("\r") != "":
        lines.append("")
    return True


def _insert_in_braces(document: YamlDocument, lines: list[str], known: YamlPath, missing: YamlPath, value: Scalar) -> bool:
    mark = document.value_mark(known)
    row, column = mark.end_line - 1, mark.end_column - 2
    if lines[row][column : column + 1] != "}":
        return False
    # In the manner of JSON where the others are, so that what was JSON stays JSON.
    first = next(iter(document.at(known)), None)
    key = None if first is None else document.mark((*known, first))
    style = '"' if key is None or lines[key.line - 1][key.column - 1 : key.column] == '"' else ""
    shown = scalar_text(value, '"')
    fresh = f"{scalar_text(str(missing[-1]), style)}: {shown}"
    for step in reversed(missing[:-1]):
        fresh = f"{scalar_text(str(step), style)}: {{{fresh}}}"
    before = lines[row][:column]
    body = before.rstrip()
    blanks = before[len(body) :]
    if first is not None and not "\n".join([*lines[:row], body]).rstrip().endswith(","):
        fresh = f", {fresh}"
    lines[row] = body + fresh + blanks + lines[row][column:] if body else before + fresh + lines[row][column:]
    return True


def _rewritten(text: str, changes: Mapping[YamlPath, Scalar]) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.comments import CommentedMap
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 1 << 30
    yaml.allow_unicode = True
    stream = io.StringIO()
    try:
        data = yaml.load(text.removeprefix("\ufeff"))
        if data is None:
            data = CommentedMap()
        for path, value in changes.items():
            place = data
            for step in path[:-1]:
                if place.get(step) is None:
                    place[step] = CommentedMap()
                place = place[step]
            place[path[-1]] = DoubleQuotedScalarString(value) if isinstance(value, str) else value
        yaml.dump(data, stream)
    except (YAMLError, ValueError, TypeError, AttributeError, RecursionError):
        return text
    return stream.getvalue()
