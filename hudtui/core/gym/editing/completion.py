"""Completions at a place of a configuration that is being written, and the place of a new action.

Works on lines and their indentation alone, because a text is hardly ever valid YAML while something
is being typed into it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.gym.config import TOP_KEYS
from hudtui.core.gym.dialects.known import DIALECTS, PARALLEL
from hudtui.core.gym.editing.outline import outline, split_parts, unquoted
from hudtui.core.gym.generate import action_snippet
from hudtui.core.gym.lint.findings import MAPPINGS, TextEdit
from hudtui.core.gym.schema_examples import ToolSchema
from hudtui.core.gym.values import OBSERVATIONS
from hudtui.core.text import clean_line
from hudtui.core.yaml_doc import NotWritable, yaml_key, yaml_value

_KEY = re.compile(
    r"""^(\s*(?:-\s+)?)("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#"'][^:#]*?)\s*:(?:\s+(.*)|\s*)$"""
)
_WORD = re.compile(r"[\w$.-]*\Z")
_QUOTE_OPEN = re.compile(r"""(["'])([^"']*)\Z""")
_FORMS: Mapping[str, str] = {
    "from_arg": "from an argument of the action",
    "static": "the same in every call",
    "default": "sent when the argument is missing",
    "transform": 'a lambda in quotes: "lambda x: ..."',
    "use_context": "give the transform all arguments",
    "from_args": "a list of several arguments",
    "defaults": "of from_args, in their order",
}
_KEYS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    (): dict.fromkeys(TOP_KEYS, "section"),
    ("parser",): {
        "use_thinking": "a think block is expected",
        "xml_weight": "share of the expected tags",
        "action_weight": "share of tool texts that parse",
        "dialect": "form of the model's calls",
        "parallel": "what is played of several calls",
    },
    ("rubric",): {
        "weights": "of the reward's components",
        "reward": "code of your own: FILE.py:NAME",
    },
    ("rubric", "weights"): dict.fromkeys(
        ("task_completion", "tool_execution", "format_compliance"), "weight, 0 to 1"
    ),
    ("defaults",): {"max_turns": "replies an episode may have"},
    ("examples",): {"user": "the user's message", "assistant": "its reply"},
    ("job",): {"name": "of the run", "metadata": "kept with the run"},
}
_WORDS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("parser", "dialect"): {name: dialect.title for name, dialect in DIALECTS.items()},
    ("parser", "parallel"): dict(
        zip(PARALLEL, ("the first call alone", "all, in order", "none"), strict=True)
    ),
    ("observations",): dict(
        zip(
            OBSERVATIONS,
            ("an answer's text", "its structured content, where it has some", "both, once"),
            strict=True,
        )
    ),
}
"""Keys whose value is one of a few words."""
_FLAGS = frozenset(("use_thinking", "use_context", "allow_unmapped"))


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that can stand at the cursor."""

    label: str
    """Text that is matched against what is typed."""
    insert: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """Candidates that are offered at a place."""

    start: int
    """Column (from 0) from which the inserted text replaces what stands before the cursor."""
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class CursorContext:
    """Place of the cursor."""

    path: tuple[str, ...]
    """Keys around it, outermost first, without its own."""
    key: str | None
    """The key whose value is being written; None where a key is being written."""
    typed: str
    start: int
    quote: str
    """The quotation mark that is open, if any."""


def cursor_context(lines: Sequence[str], row: int, column: int) -> CursorContext | None:
    """Return the kind of text that is being written at a place.

    None inside a comment or a block of text.
    """
    line = lines[row][:column]
    if _commented(line):
        return None
    path = _path_above(lines, row, _indent(line))
    if path is None:
        return None
    pair = re.match(
        r"""\s*("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#"'\[{-][^:#]*?)\s*:\s+(.*)$""", line
    )
    if pair is not None:
        rest, name = pair[2], unquoted(pair[1].strip())
    else:
        item = re.match(r"\s*-\s+(.*)$", line)
        if item is not None and path:
            rest, name, path = item[1], path[-1], path[:-1]
        else:
            rest, name = line.lstrip(" "), None
            if rest.endswith(":") or rest.startswith("-"):
                return None
    opened = _QUOTE_OPEN.search(rest)
    closed = rest[: opened.start()] if opened is not None else ""
    if opened is not None and closed.count(opened[1]) % 2 == 0:
        return CursorContext(path, name, opened[2], column - len(opened[0]), opened[1])
    word = _WORD.search(rest)
    typed = word[0] if word is not None else ""
    if (
        name is not None
        and rest[: len(rest) - len(typed)].strip(" ,[")
        and not rest.lstrip().startswith("[")
    ):
        return None
    return CursorContext(path, name, typed, column - len(typed), "")


def _commented(line: str) -> bool:
    return (
        re.search(r"(?:^|\s)#", re.sub(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""", "", line))
        is not None
    )


def _path_above(lines: Sequence[str], row: int, indent: int) -> tuple[str, ...] | None:
    keys: list[str] = []
    margin = " " * indent
    for above in range(row - 1, -1, -1):
        if not indent:
            break
        line = lines[above]
        if line.startswith(margin):
            continue
        bare = line.lstrip(" ")
        depth = len(line) - len(bare)
        if not bare.strip() or bare[0] == "#":
            continue
        if _item_indent(line) >= indent:  # a key of the same item, as `user` is for `assistant`
            indent = (
                depth + 1
            )  # the list may stand as far to the left as the key that it belongs to
            margin = " " * indent
            continue
        pair = _KEY.match(line)
        if pair is None:
            return None
        if re.match(r"[|>]", pair[3] or ""):
            return None
        keys.append(unquoted(pair[2].strip()))
        indent = depth
        margin = " " * indent
    return tuple(reversed(keys))


def complete(
    lines: Sequence[str], row: int, column: int, tools: Mapping[str, Tool] | None
) -> Completion | None:
    """Return the candidates at a place that go with what is typed there already.

    Row and column of the cursor count from 0.
    """
    context = cursor_context(lines, row, column)
    if context is None:
        return None
    scene = _CursorPlace(lines, row, context, tools)
    if context.key == "examples" and not context.path:  # the line begins a round
        candidates = tuple(
            Candidate(name, f"{name}: ", detail) for name, detail in _KEYS[("examples",)].items()
        )
    else:
        candidates = tuple(scene.values(context.key) if context.key is not None else scene.keys())
    word = context.typed.casefold()
    begins = [one for one in candidates if one.label.casefold().startswith(word)]
    holds = [one for one in candidates if word in one.label.casefold() and one not in begins]
    fitting = (*begins, *holds)
    if not fitting or (len(fitting) == 1 and fitting[0].label == context.typed):
        return None
    return Completion(context.start, fitting)


class _CursorPlace:
    """The cursor's surroundings.

    The entry around it, the tool of that, and the keys beside the cursor.
    """

    def __init__(
        self,
        lines: Sequence[str],
        row: int,
        context: CursorContext,
        tools: Mapping[str, Tool] | None,
    ) -> None:
        self.lines = lines
        self.row = row
        self.path = context.path
        self.tools = tools or {}

    def keys(self) -> Iterable[Candidate]:
        """Keys that can stand here and do not stand here yet."""
        taken = self._siblings()
        yield from (candidate for candidate in self._keys() if candidate.label not in taken)

    def _keys(self) -> Iterable[Candidate]:
        path = self.path
        if path in _KEYS:
            for name, detail in _KEYS[path].items():
                section = name in (
                    "rubric",
                    "weights",
                    "job",
                    "examples",
                    MAPPINGS,
                    "parser",
                ) and path != ("job",)
                yield Candidate(name, f"{name}:" if section else f"{name}: ", detail)
        elif path == (MAPPINGS,):
            for tool in self._agent_tools():
                yield Candidate(
                    tool.name, f"{tool.name}:", clean_line(tool.description, 60) or "tool"
                )
        elif not path or path[0] != MAPPINGS:
            return
        elif len(path) == 2:
            yield Candidate("_tool", "_tool: ", "the MCP tool that is called")
            yield Candidate("_parser", "_parser:", "names of positional arguments")
            for prop, words in self._parameters():
                yield Candidate(prop, f"{_written(yaml_key, prop) or prop}:", words)
        elif len(path) == 3 and path[2] == "_parser":
            yield Candidate("positional", "positional: ", "names of the arguments, in their order")
        elif len(path) == 3 and not path[2].startswith("_"):
            for name, detail in _FORMS.items():
                yield Candidate(name, f"{name}: ", detail)

    def values(self, name: str) -> Iterable[Candidate]:
        """Values that the key `name` can have."""
        path = self.path
        if name in _FLAGS:
            yield from (Candidate(word, word) for word in ("true", "false"))
        for word, about in _WORDS.get((*path, name), {}).items():
            yield Candidate(word, word, clean_line(about, 60))
        if len(path) < 2 or path[0] != MAPPINGS:
            return
        if len(path) == 2 and name == "_tool":
            for tool in self._agent_tools():
                yield Candidate(tool.name, yaml_value(tool.name), clean_line(tool.description, 60))
        elif len(path) == 3 and path[2] == "_parser" and name == "positional":
            for prop, words in self._parameters():
                if re.fullmatch(r"\w+", prop):
                    yield Candidate(prop, yaml_value(prop), words)
        elif len(path) == 3 and name in ("from_arg", "from_args"):
            for argument in self._positional():
                yield Candidate(argument, yaml_value(argument), "argument of the action")
        elif (len(path) == 3 and name in ("static", "default")) or (
            len(path) == 2 and not name.startswith("_")
        ):
            parameter = path[2] if len(path) == 3 else name
            for allowed in self._allowed(parameter):
                text = _written(yaml_value, allowed)
                if text is not None:
                    yield Candidate(
                        allowed if isinstance(allowed, str) else text,
                        text,
                        f"allowed for {parameter}",
                    )

    def _agent_tools(self) -> list[Tool]:
        return [tool for tool in self.tools.values() if tool.kind == "agent" and tool.hub is None]

    @cached_property
    def _entry(self) -> range:
        """The rows of the action around the cursor."""
        parts = split_parts(self.lines)
        starts = [part.line for part in parts]
        index = bisect_right(starts, self.row) - 1
        if index < 0 or not parts[index].action:
            return range(self.row, self.row + 1)
        return range(
            starts[index], starts[index + 1] if index + 1 < len(starts) else len(self.lines)
        )

    def _pairs(self) -> Iterable[tuple[int, str, str]]:
        """Row, key and written value of the lines of the entry."""
        for row in self._entry:
            pair = _KEY.match(self.lines[row])
            if pair is not None:
                yield row, unquoted(pair[2].strip()), pair[3] or ""

    @cached_property
    def _schema(self) -> ToolSchema | None:
        """The schema of the entry's tool."""
        name = next(
            (
                unquoted(value.partition(" #")[0].strip())
                for _, key, value in self._pairs()
                if key == "_tool"
            ),
            "",
        )
        tool = self.tools.get(name)
        return None if tool is None or tool.input_schema is None else ToolSchema(tool.input_schema)

    def _parameters(self) -> Iterable[tuple[str, str]]:
        """The parameters of the tool, each with its type in words."""
        if self._schema is None:
            return
        for prop in self._schema.properties():
            need = "required" if prop.required else "optional"
            yield prop.name, clean_line(f"{self._schema.words(prop.schema)}; {need}", 60)

    def _allowed(self, parameter: str) -> Iterable[Any]:
        """The values that a parameter may have, where they are few."""
        properties = self._schema.properties() if self._schema is not None else ()
        schema = next((prop.schema for prop in properties if prop.name == parameter), {})
        choices = schema.get("enum")
        if isinstance(choices, list):
            yield from choices
        elif schema.get("type") == "boolean":
            yield from (True, False)
        elif "const" in schema:
            yield schema["const"]

    def _positional(self) -> Iterable[str]:
        for row, key, value in self._pairs():
            if key != "positional":
                continue
            if value.startswith("["):
                yield from re.findall(r"\w+", value.partition("]")[0])
            for below in range(row + 1, self._entry.stop):
                item = re.match(r"""\s*-\s+["']?(\w+)""", self.lines[below])
                if item is None:
                    break
                yield item[1]

    def _siblings(self) -> set[str]:
        """The keys beside the key that is being written."""
        indent = _indent(self.lines[self.row])
        keys: set[str] = set()
        for rows in (range(self.row - 1, -1, -1), range(self.row + 1, len(self.lines))):
            for row in rows:
                line = self.lines[row]
                bare = line.lstrip(" ")
                if not bare.strip() or bare[0] == "#":
                    continue
                first = _item_indent(line) == indent and row < self.row
                pair = _KEY.match(line) if _indent(line) == indent or first else None
                if pair is not None:
                    keys.add(unquoted(pair[2].strip()))
                if _indent(line) < indent:
                    break
        return keys


def _item_indent(line: str) -> int:
    """The column at which the first key of a list's item stands; -1 for another line."""
    item = re.match(r" *-\s+(?=\S)", line)
    return -1 if item is None else len(item[0])


def _written(write: Callable[[Any], str], data: Any) -> str | None:
    try:
        return write(data)
    except NotWritable:
        return None


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


@dataclass(frozen=True, slots=True)
class NewAction:
    """An action for a tool, as edits of the text."""

    edits: tuple[TextEdit, ...]
    """In the order of their places."""
    line: int
    """Row of its entry, from 0, once the edits are done."""
    described: bool
    """True if the prompt is extended, too."""


def new_action(lines: Sequence[str], tool: Tool) -> NewAction | str:
    """Return the edits that put an action for a tool into a text; or why that is not possible."""
    entries = outline(lines)
    made = action_snippet(tool, {entry.name for entry in entries if entry.action})
    if not isinstance(made, tuple):
        return made.reason
    mapping, described = made
    edits: list[TextEdit] = []
    prompt = _into_prompt(lines, described)
    if prompt is not None:
        edits.append(prompt)
    place, text, first = _into_mappings(lines, mapping)
    edits.append(
        TextEdit(place + 1, 1, place + 1, 1, text) if place < len(lines) else _at_end(lines, text)
    )
    edits.sort(key=lambda edit: edit.line)
    line = place + first
    if prompt is not None and prompt.line <= place:
        line += prompt.text.count("\n")
    return NewAction(tuple(edits), line, prompt is not None)


def _at_end(lines: Sequence[str], text: str) -> TextEdit:
    last = len(lines)
    column = len(lines[-1]) + 1 if lines else 1
    return TextEdit(last, column, last, column, "\n" + text.rstrip("\n") + "\n")


_PROMPT = re.compile(r"system_prompt\s*:\s*\|")
_MAPPINGS = re.compile(r"action_mappings\s*:")
_NOT_INDENTED = re.compile(r"\S")
_SECTION = re.compile(r"[^ #\t\r]")
_DONE_ITEM = re.compile(r"\s*[-*•]\s+done\b")


def _first_row(lines: Sequence[str], start: int, pattern: re.Pattern[str]) -> int | None:
    """The first row from `start` that begins as the pattern says."""
    return next((row for row in range(start, len(lines)) if pattern.match(lines[row])), None)


def _indented(text: str, indent: int) -> str:
    margin = " " * indent
    return "\n".join(margin + line if line else line for line in text.split("\n"))


def _into_mappings(lines: Sequence[str], mapping: str) -> tuple[int, str, int]:
    """Return the row before which an entry goes, its text, and the lines in it before the entry.

    The last is a number.
    """
    header = _first_row(lines, 0, _MAPPINGS)
    if header is None:
        last = _last_full(lines, 0, len(lines))
        return last + 1, f"\n{MAPPINGS}:\n{_indented(mapping, 2)}\n", 2
    entries = [entry for entry in outline(lines) if entry.action]
    indent = _indent(lines[entries[0].line]) if entries else 2
    end = _first_row(lines, header + 1, _SECTION) or len(lines)
    last = _last_full(lines, header, end)
    text = _indented(mapping, indent)
    return last + 1, ("\n" if entries else "") + text + "\n", 1 if entries else 0


def _into_prompt(lines: Sequence[str], described: str) -> TextEdit | None:
    header = _first_row(lines, 0, _PROMPT)
    if header is None:
        return None
    end = _first_row(lines, header + 1, _NOT_INDENTED) or len(lines)
    last = _last_full(lines, header, end)
    body = [line for line in lines[header + 1 : last + 1] if line.strip()]
    if not body:
        return None
    text = _indented(described, _indent(body[0])) + "\n"
    done = _first_row(lines[: last + 1], header + 1, _DONE_ITEM)
    if done is not None:
        return TextEdit(done + 1, 1, done + 1, 1, text + "\n")
    return (
        TextEdit(last + 2, 1, last + 2, 1, "\n" + text)
        if last + 1 < len(lines)
        else _at_end(lines, text)
    )


def _last_full(lines: Sequence[str], start: int, end: int) -> int:
    return next((row for row in range(end - 1, start - 1, -1) if lines[row].strip()), start)
