"""JSON to look at, and what a JSON schema says in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from hudtui.core.json_text import pretty
from hudtui.core.text import clean, clean_line
from hudtui.tui.keymap import AppAction
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.lists import MOVES
from hudtui.tui.widgets.log_lines import LogLines
from hudtui.tui.widgets.log_model import LogBuffer
from hudtui.tui.widgets.scrolling import Scrolling

_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|\b(true|false|null)\b')


class JsonView(Scrolling, LogLines):
    """A value as indented JSON, or a text as it is. Draws what is in sight only, so size does not matter."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"json--key", "json--text", "json--number", "json--word"}
    DEFAULT_CSS = """
    JsonView { overflow-y: auto; }
    JsonView > .json--key { color: $primary; text-style: bold; }
    JsonView > .json--text { color: $success; }
    JsonView > .json--number { color: $accent; }
    JsonView > .json--word { color: $warning; text-style: italic; }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("json.copy", "Copy", "Copy the whole text.", "y", palette=False),
        AppAction("json.wrap", "Wrap", "Wrap long lines, or scroll sideways.", "w", palette=False, show=False),
        *MOVES,
    )

    def __init__(self, *, empty: str = "Nothing to show.", id: str | None = None) -> None:  # noqa: A002
        super().__init__(LogBuffer(cap=2_000_000), empty=empty, id=id)
        self.follow = False
        self._json = False

    def show(self, value: Any) -> None:
        """Show a value that JSON can hold. What it cannot hold is shown as Python writes it."""
        self._json = True
        self._take(pretty(value))

    def show_text(self, text: str) -> None:
        """Show plain text."""
        self._json = False
        self._take(clean(text))

    def clear(self) -> None:
        """Show nothing."""
        self._take("")

    @property
    def text(self) -> str:
        """What is shown, cleaned."""
        return self.buffer.everything()

    def _take(self, text: str) -> None:
        self.buffer.clear()
        if text:
            self.buffer.append(text.split("\n"), 0.0)
        self.here = None
        self.follow = False
        self.rebuild()
        self.follow = False
        self._place(0)
        self.refresh_bindings()

    def highlight(self, text: str) -> list[tuple[int, int, str]]:
        """Keys, texts, numbers and words."""
        if not self._json:
            return []
        found = []
        for match in _TOKEN.finditer(text):
            if match.group(1):
                found.append((*match.span(1), "json--key" if match.group(2) else "json--text"))
            else:
                found.append((*match.span(), "json--number" if match.group(3) else "json--word"))
        return found

    def why_not(self, action_id: str) -> str | None:
        """Nothing to copy."""
        return "there is nothing to copy" if action_id == "json.copy" and not len(self.buffer) else None

    def action_copy(self) -> None:
        """Copy everything."""
        cast(Any, self.app).copy(self.text)

    def action_wrap(self) -> None:
        """Wrap or not."""
        self.wrap = not self.wrap
        self.rebuild()


@dataclass(frozen=True)
class ShownProperty:
    """One property of an object schema, nested ones with their depth."""

    name: str
    type: str
    required: bool
    notes: str
    """Default, choices and limits."""
    description: str
    depth: int = 0


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


def describe(schema: Mapping[str, Any]) -> list[ShownProperty]:
    """The properties of an object schema, in its own order. Takes any nonsense a server may send."""
    found: list[ShownProperty] = []
    _walk(schema, schema, 0, found, ())
    return found


def _walk(root: Mapping[str, Any], schema: Any, depth: int, found: list[ShownProperty], seen: tuple[str, ...]) -> None:
    schema, seen = _resolve(root, schema, seen)
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping) or depth > _MAX_DEPTH:
        return
    for name, raw in properties.items():
        if len(found) >= _MAX_ROWS:
            return
        own, path = _resolve(root, raw, seen)
        must = isinstance(required, Sequence) and name in required
        found.append(
            ShownProperty(
                clean_line(str(name), 60),
                _type(root, own),
                must,
                _notes(own),
                clean_line(str(own.get("description") or own.get("title") or ""), 1000),
                depth,
            )
        )
        _walk(root, own, depth + 1, found, path)
        items, item_path = _resolve(root, own.get("items"), path)
        if items.get("properties"):
            _walk(root, items, depth + 1, found, item_path)


def _resolve(root: Mapping[str, Any], schema: Any, seen: tuple[str, ...]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Follow local references, each once along a path."""
    while isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        reference = schema["$ref"]
        if reference in seen or not reference.startswith("#/"):
            return {"type": reference.rpartition("/")[2]}, seen
        seen = (*seen, reference)
        target: Any = root
        for part in reference[2:].split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **rest} if isinstance(target, Mapping) else {"type": "unknown reference"}
    return (schema if isinstance(schema, Mapping) else {}), seen


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
            names = [_type(root, _resolve(root, option, ())[0], depth + 1) for option in options[:6]]
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
        notes.append(f"one of {shown}" + (f", and {len(choices) - 12} more" if len(choices) > 12 else ""))
    if "default" in schema:
        notes.append(f"default {_short(schema['default'])}")
    notes += [
        words.format(_short(schema[key]) if key not in ("pattern", "format") else clean_line(str(schema[key]), 60))
        for key, words in _LIMITS.items()
        if key in schema
    ]
    return "; ".join(notes)


def _short(value: Any) -> str:
    return clean_line(json.dumps(value, ensure_ascii=False, default=repr), 40)


class SchemaView(VerticalScroll):
    """The parameters of a tool: name, type, whether it must be given, limits, description."""

    DEFAULT_CSS = "SchemaView { height: 1fr; padding: 0 1; } SchemaView > Static { height: auto; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._body = Static()

    def compose(self) -> Any:
        """One text."""
        yield self._body

    def show(self, schema: Mapping[str, Any] | None) -> None:
        """Show a schema; None means that the server gave none."""
        self._body.update(schema_text(schema))
        self.scroll_home(animate=False)


def schema_text(schema: Mapping[str, Any] | None) -> Content:
    """A schema in plain words."""
    if schema is None:
        return Content.styled("The server gives no schema: arguments are sent unchecked.", "$warning")
    rows = describe(schema)
    if not rows:
        return Content.styled("No parameters.", "$foreground-muted")
    width = min(max(len(row.name) + 2 * row.depth for row in rows), 32)
    lines: list[Content] = []
    for row in rows:
        name = "  " * row.depth + row.name
        line = Content.assemble(
            (pad(name, width), "bold $primary"),
            "  ",
            ("required  " if row.required else "optional  ", "bold $accent" if row.required else "$foreground-muted"),
            row.type,
        )
        if row.notes:
            line += Content.styled(f"  ({row.notes})", "$foreground-muted")
        lines.append(line)
        if row.description:
            lines.append(Content(" " * (width + 2) + row.description))
    return Content("\n").join(lines)
