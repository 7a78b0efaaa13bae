"""The JSON schema of a tool in plain words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.text import clean_line


@dataclass(frozen=True)
class Parameter:
    """One property of an object schema."""

    name: str
    type: str
    """In words: `list of integer`, `string or null`."""
    required: bool
    notes: str
    """Default, choices and limits in words."""
    description: str
    depth: int = 0
    """Level of the property in the object; 0 for a parameter of the tool itself."""


_LIMITS = {
    "minimum": "≥ {}",
    "exclusiveMinimum": "> {}",
    "maximum": "≤ {}",
    "exclusiveMaximum": "< {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matches {}",
    "format": "{}",
    "multipleOf": "multiple of {}",
}
_MAX_DEPTH = 4
_MAX_ROWS = 500


def describe_schema(schema: Mapping[str, Any]) -> list[Parameter]:
    """Return the properties of an object schema in its order, nested ones after theirs.

    Never fails, whatever the server sent.
    """
    rows: list[Parameter] = []
    _walk(schema, schema, 0, rows, ())
    return rows


def _walk(
    root: Mapping[str, Any], schema: Any, depth: int, rows: list[Parameter], seen: tuple[str, ...]
) -> None:
    schema, seen = _resolve(root, schema, seen)
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping) or depth > _MAX_DEPTH:
        return
    for name, raw in properties.items():
        if len(rows) >= _MAX_ROWS:
            return
        own, path = _resolve(root, raw, seen)
        must = isinstance(required, Sequence) and name in required
        rows.append(
            Parameter(
                clean_line(str(name), 60),
                _type(root, own),
                must,
                _notes(own),
                clean_line(str(own.get("description") or own.get("title") or ""), 1000),
                depth,
            )
        )
        _walk(root, own, depth + 1, rows, path)
        items, item_path = _resolve(root, own.get("items"), path)
        if items.get("properties"):
            _walk(root, items, depth + 1, rows, item_path)


def _resolve(
    root: Mapping[str, Any], schema: Any, seen: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Follow local references, each once along a path."""
    while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        reference = schema["$ref"]
        if reference in seen or not reference.startswith("#/"):
            return {"type": reference.rpartition("/")[2]}, seen
        seen = (*seen, reference)
        target = pointed(root, reference)
        if isinstance(target, Mapping):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**target, **rest}
        else:
            schema = {"type": "unknown reference"}
    return (schema if isinstance(schema, Mapping) else {}), seen


def pointed(root: Any, reference: str) -> Any:
    """Return the part of a document that a reference such as `#/$defs/size` points to.

    None for a part that does not exist, or a reference to another document.
    """
    if not reference.startswith("#"):
        return None
    part = root
    for step in reference[1:].split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, Mapping):
            part = part.get(step)
        elif isinstance(part, list) and step.isdigit() and len(step) < 6 and int(step) < len(part):
            part = part[int(step)]
        else:
            return None
    return part


def _type(root: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> str:
    kind = schema.get("type")
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(kind, list):
        return " or ".join(clean_line(str(one), 20) for one in kind)
    if kind == "array":
        items, _ = _resolve(root, schema.get("items"), ())
        inner = _type(root, items, depth + 1) if items else "anything"
        return f"list of {inner}"
    if isinstance(kind, str):
        return clean_line(kind, 40)
    for word in ("anyOf", "oneOf"):
        options = schema.get(word)
        if isinstance(options, list) and options:
            names = [
                _type(root, _resolve(root, option, ())[0], depth + 1) for option in options[:6]
            ]
            return " or ".join(dict.fromkeys(names))
    if "enum" in schema or "const" in schema:
        return "choice"
    return "object" if "properties" in schema else "anything"


def _notes(schema: Mapping[str, Any]) -> str:
    notes: list[str] = []
    if "const" in schema:
        notes.append(f"always {_short(schema['const'])}")
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        shown = ", ".join(_short(choice) for choice in choices[:12])
        notes.append(
            f"one of {shown}" + (f", and {len(choices) - 12} more" if len(choices) > 12 else "")
        )
    if "default" in schema:
        notes.append(f"default {_short(schema['default'])}")
    notes += [
        words.format(
            _short(schema[key])
            if key not in ("pattern", "format")
            else clean_line(str(schema[key]), 60)
        )
        for key, words in _LIMITS.items()
        if key in schema
    ]
    return "; ".join(notes)


def _short(value: Any) -> str:
    return clean_line(json.dumps(value, ensure_ascii=False, default=repr), 40)
