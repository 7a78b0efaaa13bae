r"""YAML files.

Reading them with the place of every value, changing single values in place, and writing values.
Reading follows YAML 1.2 and returns plain data. It differs from a plain YAML loader:

- `on`, `off`, `yes`, `no`, dates and `12:30` are text; `1e-5` is a number (core schema of YAML
  1.2).
- Keys are always text, spelled as written. A duplicate key is an error that names both lines.
- Aliases and merge keys (`<<`) work; what they expand to, the depth and the size are bounded.
- Tags other than those of the core schema are errors; only dict, list, str, int, float, bool and
  None are constructed.

libyaml parses, and this module builds data and marks from its events: 3,600 lines take about 40 ms,
where ruamel.yaml takes 900. `yaml.compose` is fast too, but refuses anchors that are defined again,
and recurses in C: 100,000 brackets end the program.

Edits put their characters into the text. Through ruamel.yaml, a change of one value changes more
than that in most texts that are not in its own style: indentation, folded lines, line ends, `~`,
escapes, blanks at line ends.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import InputError, Location
from hudtui.core.text import did_you_mean

if TYPE_CHECKING:
    import yaml

YamlPath = tuple[str | int, ...]
"""Keys and indexes from the top of a document to one of its values."""
Scalar = str | int | float | bool | None

MAX_CHARACTERS = 16_000_000
MAX_DEPTH = 100
MAX_ALIASED = 100_000
"""The most values that all aliases of a document together may stand for."""
MAX_KEY_LENGTH = 128
"""The longest key that is written: YAML bounds keys on one line."""
MAX_EMITTED_DEPTH = 20
"""The deepest nesting of a value that is written."""

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_SPECIAL = re.compile(r"(?:(?P<inf>[-+]?\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN))\Z")
_NUMERIC_START = frozenset("0123456789+-.")
_CORE = "tag:yaml.org,2002:"
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_LINE_END = re.compile("\r\n|\n|\r")
_ODD_LINE_END = re.compile("[\x85\u2028\u2029]")


# --- documents ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mark:
    """A range of the text.

    Lines and columns count from 1; the end is the first character behind it.
    """

    line: int
    column: int
    end_line: int
    end_column: int


def _no_children(
    empty: Mapping[str | int, _Node] = MappingProxyType({}),
) -> Mapping[str | int, _Node]:
    return empty  # shared by all scalars


@dataclass(slots=True, eq=False)
class _Node:
    key: Mark
    value: Mark
    style: str = ""
    children: Mapping[str | int, _Node] = field(default_factory=_no_children)


class YamlDocument:
    """A YAML text that has been read.

    Attributes:
        name: What errors call it, usually the file's path.
        text: The text it was read from, without a byte order mark.
        data: Its value: dict, list, str, int, float, bool or None. Dicts have text keys. The caller
            may change it.
    """

    def __init__(self, name: str, text: str, data: Any, root: _Node) -> None:
        self.name = name
        self.text = text
        self.data = data
        self._root = root

    def mark(self, path: YamlPath = ()) -> Mark:
        """The place of the key of the value at `path`.

        For an item of a list, the place of the item.
        If there is no such value, the place of its nearest ancestor that exists.
        """
        return self._nearest(path).key

    def value_mark(self, path: YamlPath = ()) -> Mark:
        """The place of the value at `path` itself, or of its nearest ancestor that exists."""
        return self._nearest(path).value

    def style(self, path: YamlPath = ()) -> str:
        """Style in which the value at `path` is written.

        Empty for plain text; a quotation mark, `|` or `>` for other scalars; `block` or `{` for a
        mapping or list; `*` for a mapping or list that an alias stands for.
        """
        return self._nearest(path).style

    def at(self, path: YamlPath = ()) -> Any:
        """The value at `path`; None if there is none."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (LookupError, TypeError):
                return None
        return value

    def location(self, path: YamlPath = ()) -> Location:
        """The same place as `mark`, in the form that errors carry."""
        place = self.mark(path)
        return Location(self.name, place.line, place.column, dotted_path(path) or None)

    def last_line(self, path: YamlPath = ()) -> int:
        """The last line, counting from 1, of the value at `path`.

        Comments below it do not count.
        """
        node = self._nearest(path)
        while node.style == "block":
            own = [child for child in node.children.values() if _owns(node, child)]
            if not own:
                break
            node = max(own, key=lambda child: (child.key.line, child.key.column))
        last = node.value.end_line
        if not self._line(last)[: node.value.end_column - 1].strip():
            last -= 1
        keeps_blank_lines = (
            node.style in ("|", ">")
            and "+" in self._line(node.value.line)[node.value.column :].partition("#")[0]
        )
        while not keeps_blank_lines and last > node.value.line and not self._line(last).strip():
            last -= 1
        return max(last, node.value.line)

    def inside(self, path: YamlPath, offset: int) -> tuple[int, int]:
        """Line and column of the character `offset` (from 0) of the text at `path`.

        Exact for a text on one line and for a literal block (`|`); otherwise the beginning of the
        value.
        """
        node = self._nearest(path)
        lines = self.text.split("\n")
        row = node.value.line - 1
        if node.style in ("", "'", '"') and node.value.line == node.value.end_line:
            line = lines[row]
            column = node.value.column - 1 + (1 if node.style else 0)
            for _ in range(offset):
                if node.style == "'" and line.startswith("''", column):
                    column += 2
                elif node.style == '"' and line.startswith("\\", column):
                    column += {"x": 4, "u": 6, "U": 10}.get(line[column + 1 : column + 2], 2)
                else:
                    column += 1
            return node.value.line, min(column, node.value.end_column - 1) + 1
        if node.style == "|":
            body = [line for line in lines[row + 1 : node.value.end_line] if line.strip()]
            indent = len(body[0]) - len(body[0].lstrip(" ")) if body else 0
            for number, line in enumerate(lines[row + 1 : node.value.end_line], row + 2):
                length = max(len(line.rstrip("\r")) - indent, 0)
                if offset <= length:
                    return number, indent + offset + 1
                offset -= length + 1
        return node.value.line, node.value.column

    def path_at(self, line: int, column: int = 1_000_000) -> YamlPath:
        """The path of the innermost value whose key or text covers this place, such as a cursor's.

        `()` if there is none.
        A line that holds only blanks or a comment belongs to the entry before it.
        """
        path: list[str | int] = []
        node = self._root
        while True:
            best: tuple[tuple[int, int], str | int, _Node] | None = None
            for step, child in node.children.items():
                begin = (child.key.line, child.key.column)
                if (
                    begin <= (line, column)
                    and (best is None or begin >= best[0])
                    and _owns(node, child)
                ):
                    best = (begin, step, child)
            if best is None:
                return tuple(path)
            path.append(best[1])
            node = best[2]

    def offset(self, line: int, column: int) -> int:
        """The index in `text` of a place of a `Mark`."""
        # An empty value at the end of a text without a line end stands on the line behind it.
        return self._starts[line - 1] + column - 1 if line <= len(self._starts) else len(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return _line_starts(self.text)

    def _line(self, number: int) -> str:
        return self.text[self.offset(number, 1) : self.offset(number + 1, 1)].rstrip("\r\n")

    def _nearest(self, path: YamlPath) -> _Node:
        node = self._root
        for step in path:
            below = node.children.get(step)
            if below is None:
                break
            node = below
        return node


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in _LINE_END.finditer(text))]


def _owns(parent: _Node, child: _Node) -> bool:
    """True if the child stands inside its parent's text.

    What an alias or a merge brought in stands elsewhere.
    """
    around, key = parent.value, child.key
    return (
        (around.line, around.column)
        <= (key.line, key.column)
        <= (around.end_line, around.end_column)
    )


def dotted_path(path: YamlPath) -> str:
    """A path as people write it: `action_mappings.click.x`, `tools[2].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


# --- reading --------------------------------------------------------------------------------------


def load_yaml(text: str, *, name: str, limit: int = MAX_CHARACTERS) -> YamlDocument:
    """Read one YAML document.

    Args:
        text: The text; a byte order mark and every kind of line end are accepted.
        name: What errors call it, usually the file's path.
        limit: The most characters the text may have.

    Raises:
        InputError: The text is not one well-formed YAML document, or exceeds a bound; with line and
            column.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > limit:
        raise InputError(
            f"this YAML is too large: {len(text):,} characters, and {limit:,} are allowed",
            where=Location(name),
        )
    if forbidden := _FORBIDDEN.search(text):
        column = forbidden.start() - text.rfind("\n", 0, forbidden.start())
        raise InputError(
            f"the character U+{ord(forbidden[0]):04X} is not allowed in YAML",
            fix='Remove it, or write it as an escape in double quotes, e.g. "\\x1b".',
            where=Location(name, text.count("\n", 0, forbidden.start()) + 1, column),
        )
    import yaml

    try:
        data, root = _NodeBuilder(name, text).read()
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text, name) from None
    except yaml.YAMLError as error:
        raise InputError("this is not valid YAML", why=str(error), where=Location(name)) from None
    return YamlDocument(name, text, data, root)


def _events(text: str) -> Iterator[Any]:
    import yaml

    events: Iterator[Any] = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return events


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    node: _Node
    size: int
    """Number of values in it, itself included."""
    height: int
    """Levels of nesting."""


class _NodeBuilder:
    """Builds data and nodes from the parser's events, by recursion that `MAX_DEPTH` bounds."""

    def __init__(self, name: str, text: str) -> None:
        import yaml

        self.name = name
        self.yaml = yaml
        self.events = _events(text)
        self.steps: list[str | int] = []
        """Path of the value that is being read."""
        self.anchors: dict[str, _Anchored | None] = {}
        """None while the anchored value is being read."""
        self.count = 0
        self.aliased = 0
        # The parser takes further characters for line ends, which no editor does.
        self.starts = _line_starts(text) if _ODD_LINE_END.search(text) else None

    def read(self) -> tuple[Any, _Node]:
        yaml = self.yaml
        result: tuple[Any, _Node] | None = None
        documents = 0
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error(
                        "a second document begins here, and only one is expected",
                        self._mark(event),
                        fix="Remove the line `---`.",
                    )
            elif isinstance(event, yaml.NodeEvent):
                result = self._value(event)[:2]
        return result or (None, _Node(Mark(1, 1, 1, 1), Mark(1, 1, 1, 1)))

    def _value(self, event: Any) -> tuple[Any, _Node, int]:
        """A value, its node, and how deep it is nested."""
        kind = type(event)
        if kind is self.yaml.ScalarEvent:
            mark = self._mark(event)
            value = (
                self._plain(event.value, mark) if event.implicit[0] else self._tagged(event, mark)
            )
            node = _Node(mark, mark, event.style or "")
            self.count += 1
            if event.anchor is not None:
                self.anchors[event.anchor] = _Anchored(value, node, 1, 0)
            return value, node, 0
        if kind is self.yaml.AliasEvent:
            return self._alias(event)
        return self._collection(event, kind is self.yaml.MappingStartEvent)

    def _collection(self, event: Any, mapping: bool) -> tuple[Any, _Node, int]:
        mark = self._mark(event)
        if len(self.steps) >= MAX_DEPTH:
            raise self._error(f"this is nested too deeply: more than {MAX_DEPTH} levels", mark)
        if event.tag not in (None, "!", _CORE + ("map" if mapping else "seq")):
            raise self._bad_tag(event.tag, mark)
        before = self.count
        self.count += 1
        if event.anchor is not None:
            self.anchors[event.anchor] = None
        children: dict[str | int, _Node] = {}
        value, height, end = self._mapping(children) if mapping else self._sequence(children)
        mark = Mark(mark.line, mark.column, end.end_line, end.end_column)
        node = _Node(mark, mark, "{" if event.flow_style else "block", children)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(value, node, self.count - before, height)
        return value, node, height

    def _sequence(self, children: dict[str | int, _Node]) -> tuple[list[Any], int, Mark]:
        items: list[Any] = []
        height = 0
        self.steps.append(0)
        while type(event := next(self.events)) is not self.yaml.SequenceEndEvent:
            value, children[len(items)], below = self._value(event)
            items.append(value)
            self.steps[-1] = len(items)
            height = max(height, below)
        self.steps.pop()
        return items, height + 1, self._mark(event)

    def _mapping(self, children: dict[str | int, _Node]) -> tuple[dict[str, Any], int, Mark]:
        data: dict[str, Any] = {}
        merges: list[tuple[dict[str, Any], _Node]] | None = None
        height = 0
        while type(event := next(self.events)) is not self.yaml.MappingEndEvent:
            key, mark, merging = self._key(event)
            if key in children or (merging and merges is not None):
                raise self._duplicate(key, mark, children.get(key), merging)
            self.steps.append(key)
            value, node, below = self._value(next(self.events))
            height = max(height, below)
            if merging:
                merges = self._merge_sources(value, node)
            else:
                node.key = mark
                data[key], children[key] = value, node
            self.steps.pop()
        if merges:
            # Earlier sources win over later ones, and what the mapping says itself wins over all.
            own, own_children = dict(data), dict(children)
            data.clear()
            children.clear()
            for source, source_node in reversed(merges):
                data.update(source)
                children.update(source_node.children)
            data.update(own)
            children.update(own_children)
        return data, height + 1, self._mark(event)

    def _key(self, event: Any) -> tuple[str, Mark, bool]:
        """A key, its place, and whether it is the merge key `<<`."""
        mark, kind = self._mark(event), type(event)
        if kind is self.yaml.AliasEvent:
            key = self._known(event, mark).value
            if not isinstance(key, str):
                raise self._error("an alias as a key must stand for a text", mark)
            return key, mark, False
        if kind is not self.yaml.ScalarEvent:
            what = "a mapping" if kind is self.yaml.MappingStartEvent else "a list"
            fix = 'Text that begins with a brace or bracket needs quotes: "{{ name }}".'
            raise self._error(f"{what} cannot be a key; keys are text", mark, fix=fix)
        plain = event.implicit[0]
        if plain and event.value == "" and not event.style:
            raise self._error("a key is missing before this colon", mark)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(
                event.value, _Node(mark, mark, event.style or ""), 1, 0
            )
        return event.value, mark, plain and event.value == "<<"

    def _duplicate(self, key: str, mark: Mark, earlier: _Node | None, merging: bool) -> InputError:
        first = f" first on line {earlier.key.line}," if earlier is not None else ""
        fix = "Rename one of them, or remove it; readers disagree on which of the two counts."
        return self._error(
            f"the key {_short(key)} is a duplicate:{first} again on line {mark.line}",
            mark,
            fix="List what is to be merged: `<<: [*one, *other]`." if merging else fix,
        )

    def _merge_sources(self, value: Any, node: _Node) -> list[tuple[dict[str, Any], _Node]]:
        pairs = (
            [(item, node.children[index]) for index, item in enumerate(value)]
            if isinstance(value, list)
            else [(value, node)]
        )
        if not all(isinstance(source, dict) for source, _ in pairs):
            raise self._error(
                "<< takes over the keys of a mapping, and this is not a mapping",
                node.value,
                fix=(
                    "Give an alias of a mapping, or a list of them; a key of the name << needs "
                    'quotes: "<<".'
                ),
            )
        return pairs

    def _known(self, event: Any, mark: Mark) -> _Anchored:
        """Return the value that an alias stands for."""
        name: str = event.anchor
        anchor = self.anchors.get(name)
        if anchor is not None:
            return anchor
        if name in self.anchors:
            raise self._error(f"*{name} refers to the value that it is part of", mark)
        near = did_you_mean(
            name, [known for known, anchored in self.anchors.items() if anchored is not None]
        )
        hint = f" Did you mean *{near}?" if near else ""
        raise self._error(
            f"*{_short(name, '')} refers to an anchor that is not defined above",
            mark,
            fix=(
                f"Define it with &{_short(name, '')}, or put quotes around text that begins with a "
                f"star.{hint}"
            ),
        )

    def _alias(self, event: Any) -> tuple[Any, _Node, int]:
        mark = self._mark(event)
        known = self._known(event, mark)
        self.aliased += known.size
        self.count += known.size
        if self.aliased > MAX_ALIASED:
            raise self._error(
                f"the aliases of this file stand for more than {MAX_ALIASED:,} values", mark
            )
        if len(self.steps) + known.height > MAX_DEPTH:
            raise self._error(
                f"this alias makes the nesting too deep: more than {MAX_DEPTH} levels", mark
            )
        node = _Node(
            mark, mark, "*" if known.node.children else known.node.style, known.node.children
        )
        return _copied(known.value), node, known.height

    def _plain(self, text: str, mark: Mark) -> Any:
        """The value of a scalar without quotes and tag."""
        if text in _NULL:
            return None
        if text in _BOOL:
            return _BOOL[text]
        if text[0] not in _NUMERIC_START:
            return text
        try:
            if _INT.match(text):
                return int(text)
            if _FLOAT.match(text):
                return float(text)
            if _OCTAL.match(text):
                return int(text[2:], 8)
            if _HEX.match(text):
                return int(text[2:], 16)
        except ValueError:
            raise self._error(f"this number has too many digits: {len(text):,}", mark) from None
        if special := _SPECIAL.match(text):
            return float((special["inf"] or "nan").replace(".", ""))
        return text

    def _tagged(self, event: Any, mark: Mark) -> Any:
        text: str = event.value
        if event.tag is None or event.tag in ("!", _CORE + "str"):
            return text
        kind = event.tag.removeprefix(_CORE)
        value = self._plain(text, mark)
        wanted: dict[str, tuple[type, ...]] = {
            "int": (int,),
            "float": (float, int),
            "bool": (bool,),
            "null": (type(None),),
        }
        if not event.tag.startswith(_CORE) or kind not in wanted:
            raise self._bad_tag(event.tag, mark)
        if not isinstance(value, wanted[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise self._error(f"{_short(text)} is not what its tag !!{kind} says", mark)
        return float(text) if kind == "float" and isinstance(value, int) else value

    def _mark(self, event: Any) -> Mark:
        start, end = event.start_mark, event.end_mark
        if self.starts is None:
            return Mark(start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        places = [
            (line := bisect_right(self.starts, at.index), at.index - self.starts[line - 1] + 1)
            for at in (start, end)
        ]
        return Mark(*places[0], *places[1])

    def _bad_tag(self, tag: str, mark: Mark) -> InputError:
        short = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
        return self._error(
            f"the tag {_short(short, '')} is not supported",
            mark,
            fix=(
                "Remove the tag; only plain values are read. Text that begins with an exclamation "
                "mark needs quotes."
            ),
        )

    def _error(self, what: str, mark: Mark, *, fix: str | None = None) -> InputError:
        place = Location(
            self.name, mark.line, mark.column, dotted_path(tuple(self.steps[:12])) or None
        )
        return InputError(what, fix=fix, where=place)


def _copied(value: Any) -> Any:
    """A deep copy of plain data, so that a change at one place does not show up at another."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _short(text: str, quote: str = '"') -> str:
    return f"{quote}{text if len(text) <= 60 else text[:59] + '…'}{quote}"


# --- the parser's complaints in words -------------------------------------------------------------

_TAB = ("a tab stands in the indentation", "Use blanks; YAML allows no tabs there.")
_OPEN_LIST = ("the list that begins here is not closed properly", "A comma or `]` is missing.")
_OPEN_MAPPING = (
    "the mapping that begins here is not closed properly",
    "A comma or `}` is missing.",
)
_COMPLAINTS: Mapping[str, tuple[str, str | None]] = {
    "mapping values are not allowed": (
        'unexpected ":"',
        "Put quotes around text that holds a colon and a blank, and check the indentation of this "
        "line and the one before.",
    ),
    "did not find expected key": (
        "wrong indentation: a key was expected here",
        "Check its indentation, and quotes that close too early on the line before.",
    ),
    "could not find expected ':'": (
        "a key without a colon",
        "Write `key: value` with a space after the colon; check the indentation and the quotes "
        "around here.",
    ),
    "did not find expected '-' indicator": (
        "wrong indentation: a list item was expected here",
        "Begin it with `- `, or check its indentation.",
    ),
    "expected ',' or ']'": _OPEN_LIST,
    "expected ',' or '}'": _OPEN_MAPPING,
    "found unexpected end of stream": ("the quote that opens here is never closed", None),
    "found unknown escape character": (
        "unknown escape in double quotes",
        "Write a backslash as `\\\\`, or use single quotes.",
    ),
    "did not find expected hexdecimal number": (
        "an escape in double quotes lacks its digits",
        "Write a backslash as `\\\\`.",
    ),
    "found invalid Unicode character escape code": (
        "an escape in double quotes stands for half a character",
        "Write the character itself, or its full number: \\U0001f600.",
    ),
    "found a tab character": _TAB,
    "did not find expected <document start>": (
        "text after the end of the document",
        "Check the indentation of this line.",
    ),
    "did not find expected node content": ("a value is missing here", None),
    "block sequence entries are not allowed": (
        "a list cannot begin here",
        "Put it on a line of its own, indented below its key.",
    ),
    "found undefined tag handle": (
        "a tag that is not supported",
        'Text that begins with "!" needs quotes.',
    ),
    "found duplicate anchor": ("this anchor is defined twice", None),
}
"""Part of the parser's complaint -> what is wrong, and how to put it right. Both libyaml's words
and PyYAML's."""
_AT_OPENING = ("expected ',' or", "found unexpected end of stream", "could not find expected ':'")
"""Complaints that are best shown where the quote, list or mapping opens."""


def _explained(error: yaml.MarkedYAMLError, text: str, name: str) -> InputError:
    problem = error.problem or "this is not valid YAML"
    at = error.problem_mark or error.context_mark
    what, fix = next(
        (words for part, words in _COMPLAINTS.items() if part in problem),
        ("this is not valid YAML", None),
    )
    if error.context_mark is not None and any(part in problem for part in _AT_OPENING):
        at = error.context_mark
    if at is None:
        return InputError(what, why=problem, where=Location(name))
    lines = text.split("\n")
    line = lines[at.line] if at.line < len(lines) else ""
    if "did not find expected key" in problem and line[: at.column].strip():
        if (opening := _quote_before(text, at.line, at.column)) is not None:
            return InputError(
                f"the quote that opens here is closed only on line {at.line + 1}, and more text "
                "follows",
                fix=(
                    "Close the quote where the value ends; a quote inside single quotes is written "
                    "twice."
                ),
                where=Location(name, opening[0] + 1, opening[1] + 1),
            )
        what = "unexpected text after the value"
        fix = "Put quotes around the whole value; a quote inside single quotes is written twice."
    if (
        "did not find expected node content" in problem
        and not "\n".join([line[at.column :], *lines[at.line + 1 :]]).strip()
    ):
        what, fix = (
            "the text ends in the middle of a list or mapping",
            "A closing `]` or `}` is missing.",
        )
    if "cannot start any token" in problem:
        character = line[at.column : at.column + 1]
        shown = f'"{character}"' if character in ("%", "@", "`") else repr(character)
        what, fix = (
            _TAB
            if character == "\t"
            else (f"text cannot begin with {shown}", "Put quotes around it.")
        )
    elif "\t" in line[: len(line) - len(line.lstrip())] and "quote" not in what:
        what, fix = _TAB
    return InputError(
        what,
        why=f"The parser says: {problem}.",
        fix=fix,
        where=Location(name, at.line + 1, at.column + 1),
    )


def _quote_before(text: str, row: int, column: int) -> tuple[int, int] | None:
    """Return the place of a quote that closes right before a place; else None.

    The quote opens on an earlier line. Line and column count from 0.
    """
    import yaml

    last: Any = None
    try:
        for event in _events(text):
            if type(event) is yaml.ScalarEvent and event.style in ("'", '"'):
                last = event
    except yaml.YAMLError:
        pass
    if last is None or last.end_mark.line != row or last.start_mark.line == row:
        return None
    between = text.split("\n")[row][last.end_mark.column : column]
    return None if between.strip() else (last.start_mark.line, last.start_mark.column)


# --- changing single values -----------------------------------------------------------------------

_YAML_LINE_END = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
"""As YAML counts lines."""
_COMMENT = re.compile(r"(?:^|(?<=\s))#[^\r\n]*")


def set_values(text: str, changes: Mapping[YamlPath, Scalar], *, name: str) -> str:
    """Change or add single values.

    Only their own characters change: the rest of the text stays as it is, byte for byte. The new
    text is read again: it must differ from the old one in the given values alone, and keep every
    comment.

    Args:
        text: A YAML document whose top is a mapping, or an empty one.
        changes: New values by path. Missing mappings on the way are added at the end of the one
            around them.
        name: What errors call the text, usually the file's path.

    Returns:
        The new text.

    Raises:
        InputError: The text is not valid YAML, a path leads through something that is not a
            mapping, or the values cannot be put into this text without changing more of it.
    """
    document = load_yaml(text, name=name)
    wanted = {} if document.data is None else _copied(document.data)
    if not isinstance(wanted, dict):
        raise InputError("the top of this file is not a mapping", where=document.location())
    for path, value in changes.items():
        _put(wanted, path, value, document)
    for start in (text, _stripped_block(text, document)):
        edited: str | None = start
        for path, value in changes.items():
            edited = _spliced(edited, path, value, name)
        if (
            edited is not None
            and _says(edited, wanted, name)
            and _comments(text) == _comments(edited)
        ):
            return edited
    raise InputError(
        f"{', '.join(dotted_path(path) for path in changes)} cannot be changed in this file "
        "without harm to the rest of it",
        fix="Change it in an editor.",
        where=document.location(next(iter(changes))),
    )


def _put(data: dict[str, Any], path: YamlPath, value: Scalar, document: YamlDocument) -> None:
    place: Any = data
    for depth, step in enumerate(path):
        if isinstance(place, list) and isinstance(step, int):
            if not 0 <= step < len(place):
                raise InputError(
                    f"{dotted_path(path[:depth])} has no item {step}",
                    where=document.location(path[:depth]),
                )
        elif not isinstance(place, dict):
            raise InputError(
                f"{dotted_path(path[:depth])} is not a mapping",
                where=document.location(path[:depth]),
            )
        elif depth < len(path) - 1 and place.get(step) is None:
            place[step] = {}
        if depth == len(path) - 1:
            place[step] = value
        else:
            place = place[step]


def _same(one: Any, other: Any) -> bool:
    """Like ==, but 1, 1.0 and True are three things, the order of keys counts, and nan is nan."""
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
    """Everything outside of quotation marks that could be a comment, sorted.

    Enough to see whether one was lost.
    """
    import yaml

    lines = _YAML_LINE_END.split(text)
    for event in _events(text):
        if type(event) is yaml.ScalarEvent and event.style in ("'", '"'):
            first, last = event.start_mark, event.end_mark
            assert first is not None and last is not None  # events of a parser have their places
            for row in range(first.line, last.line + 1):
                begin = first.column if row == first.line else 0
                end = last.column if row == last.line else len(lines[row])
                lines[row] = lines[row][:begin] + "x" * (end - begin) + lines[row][end:]
    return sorted(found.rstrip() for found in _COMMENT.findall("\n".join(lines)))


def _stripped_block(text: str, document: YamlDocument) -> str:
    """The text with the sign `-` at a block scalar (`|` or `>`) that ends it without a line end.

    More lines would add one.
    """
    path = document.path_at(1_000_000_000)
    if document.style(path) not in ("|", ">"):
        return text
    mark = document.value_mark(path)
    start = len(text) - len(document.text) + document.offset(mark.line, mark.column)
    return text[:start] + re.sub(r"([|>])([0-9]?)[+]?", r"\1\2-", text[start:], count=1)


def _spliced(text: str | None, path: YamlPath, value: Scalar, name: str) -> str | None:
    """The text with one value changed or added; None if there is no simple way."""
    if text is None:
        return None
    try:
        document = load_yaml(text, name=name)
        known: YamlPath = ()
        for step in path:
            around = document.at(known)
            if not (
                step in around
                if isinstance(around, dict)
                else isinstance(around, list) and isinstance(step, int)
            ):
                break
            known = (*known, step)
        splice = (
            _replace(document, path, scalar_text(value, document.style(path).strip("|>{*")))
            if known == path
            else None
        )
        if known != path:
            splice = _insert(document, known, path[len(known) :], value)
    except (InputError, NotWritable):
        return None
    if splice is None:
        return None
    start, end, new = splice
    mark = text[: len(text) - len(document.text)]  # a byte order mark stays in front
    return mark + document.text[:start] + new + document.text[end:]


_Splice = tuple[int, int, str]
"""Begin and end of the characters that are replaced, and what replaces them."""


def _replace(document: YamlDocument, path: YamlPath, new: str) -> _Splice | None:
    start, end = _span(document, path)
    if start == end:  # a key or a dash without a value
        return (start, end, f" {new}") if document.text[start - 1 : start] in (":", "-") else None
    old = document.text[start:end]
    return start, start + len(old.rstrip()), new


def _insert(
    document: YamlDocument, known: YamlPath, missing: YamlPath, value: Scalar
) -> _Splice | None:
    """Adds `missing` to the mapping at `known`, below what it holds."""
    text, around = document.text, document.at(known)
    if document.style(known) == "{" and isinstance(around, dict):
        return _insert_in_braces(document, known, missing, value)
    if known and around is None:
        start, end = _span(document, known)
        if start != end:
            return _replace(document, known, f"{{{_in_braces(missing, value, '')}}}")
        mark = document.mark(known)
        indent, last = mark.column + 1, document.value_mark(known).line
    elif around is None:  # nothing but comments
        head = re.split(r"^\.\.\.", text, maxsplit=1, flags=re.MULTILINE)[0].rstrip()
        indent, last = 0, len(_LINE_END.findall(head)) + bool(head)
    elif around and document.style(known) == "block":
        first = document.mark((*known, next(iter(around))))
        indent, last = first.column - 1, document.last_line(known)
        row = document.offset(first.line, 1)
        if text[row : row + indent].strip():
            return None
    else:
        return None
    lines = []
    for depth, step in enumerate(missing):
        lines.append(f"{' ' * (indent + 2 * depth)}{scalar_text(str(step))}:")
    lines[-1] += " " + scalar_text(value, '"')
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"
    starts = _line_starts(text)
    at = starts[last] if last < len(starts) else len(text)
    gap = newline if at and not text[:at].endswith(("\n", "\r")) else ""
    only_comments = around is None and not known and not text[at:].strip()
    end = len(text) if only_comments else at
    return at, end, gap + "".join(line + newline for line in lines)


def _in_braces(missing: YamlPath, value: Scalar, style: str) -> str:
    """`name: {more: value}`, with keys in this style."""
    shown = scalar_text(value, '"')
    for depth, step in enumerate(reversed(missing)):
        shown = f"{scalar_text(str(step), style)}: {f'{{{shown}}}' if depth else shown}"
    return shown


def _insert_in_braces(
    document: YamlDocument, known: YamlPath, missing: YamlPath, value: Scalar
) -> _Splice | None:
    text, mark = document.text, document.value_mark(known)
    close = document.offset(mark.end_line, mark.end_column) - 1
    if text[close : close + 1] != "}":
        return None
    # In the manner of JSON if the other keys are, so that what was JSON stays JSON.
    first = next(iter(document.at(known)), None)
    key = None if first is None else document.mark((*known, first))
    style = '"' if key is None or text[document.offset(key.line, key.column)] == '"' else ""
    fresh = _in_braces(missing, value, style)
    row = document.offset(mark.end_line, 1)
    at = row + len(text[row:close].rstrip())
    if first is not None and not text[:at].rstrip().endswith(","):
        fresh = f", {fresh}"
    return (at, at, fresh) if at > row else (close, close, fresh)


# --- adding items to a list -----------------------------------------------------------------------


def append_items(text: str, key: str, items: Sequence[Mapping[str, str]], *, name: str) -> str:
    """Add mappings of texts to the end of the list at a key of the top.

    What the text holds stays as it is, comments included. The new text is read again: it must
    differ from the old one by the items alone, and keep every comment. Texts of several lines are
    written as blocks (`|`) where that is possible.

    Args:
        text: A YAML document whose top is a mapping, or an empty one.
        key: The list is added at the end of the document if there is none.
        items: What is added, at least one.
        name: What errors call the text, usually the file's path.

    Raises:
        InputError: The text is not valid YAML, the value at the key is not a list, or the items
            cannot be added without changing more of the text.
    """
    document = load_yaml(text, name=name)
    wanted = {} if document.data is None else _copied(document.data)
    if not isinstance(wanted, dict):
        raise InputError("the top of this file is not a mapping", where=document.location())
    if not isinstance(wanted.get(key), list | None):
        raise InputError(f"{key} is not a list", where=document.location((key,)))
    wanted[key] = [*(wanted.get(key) or ()), *map(dict, items)]
    for start in (text, _stripped_block(text, document)):
        for blocks in (True, False):
            edited = _appended(start, key, items, name, blocks=blocks)
            if (
                edited is not None
                and _says(edited, wanted, name)
                and _comments(text) == _comments(edited)
            ):
                return edited
    raise InputError(
        f"nothing can be added to {key} in this file without harm to the rest of it",
        fix="Add it in an editor.",
        where=document.location((key,)),
    )


def _appended(
    text: str, key: str, items: Sequence[Mapping[str, str]], name: str, *, blocks: bool
) -> str | None:
    """The text with items added; None if there is no simple way."""
    document = load_yaml(text, name=name)
    before = document.at((key,))
    mark = text[: len(text) - len(document.text)]  # a byte order mark stays in front
    try:
        if before and document.style((key,)) == "{":
            body = _appended_in_brackets(document, key, items)
        else:
            body = _appended_as_lines(document, key, items, blocks=blocks)
    except NotWritable:
        return None
    return None if body is None else mark + body


def _span(document: YamlDocument, path: YamlPath) -> tuple[int, int]:
    """Begin and end of a value in the text."""
    mark = document.value_mark(path)
    return document.offset(mark.line, mark.column), document.offset(mark.end_line, mark.end_column)


def _appended_in_brackets(
    document: YamlDocument, key: str, items: Sequence[Mapping[str, str]]
) -> str | None:
    body = document.text
    close = body.rfind("]", *_span(document, (key,)))
    if close < 0:
        return None
    place = len(body[:close].rstrip())
    comma = "" if body[:place].endswith(",") else ","
    added = ", ".join(map(yaml_value, items))
    return f"{body[:place]}{comma} {added}{body[place:]}"


def _appended_as_lines(
    document: YamlDocument, key: str, items: Sequence[Mapping[str, str]], *, blocks: bool
) -> str | None:
    """The text with items below those of a list in block style, or as a new list."""
    body = document.text
    before, known = document.at((key,)), key in (document.data or {})
    if before and document.style((key,)) == "block":
        first = document.mark((key, 0))
        row = document.offset(first.line, 1)
        indent = body.rfind("-", row, document.offset(first.line, first.column)) - row
        last = document.last_line((key,))
    elif known and not before:  # its empty value goes, and what stands behind it on the line stays
        start, end = _span(document, (key,))
        body = body[:start] + body[end:]
        indent, last = document.mark((key,)).column + 1, document.value_mark((key,)).line
    elif not known and document.style() in ("block", ""):
        indent, last = 2, document.last_line() if document.data else body.count("\n") + 1
    else:
        return None
    lines = [] if known else [f"{yaml_key(key)}:"]
    for item in items:
        lines += _item_lines(item, indent, blocks)
    newline = "\r\n" if body.partition("\n")[0].endswith("\r") else "\n"
    starts = _line_starts(body)
    at = starts[last] if last < len(starts) else len(body)
    gap = newline if at and not body[:at].endswith(("\n", "\r")) else ""
    added = "".join(line + newline for line in lines)
    return body[:at] + gap + added + body[at:]


def _item_lines(item: Mapping[str, str], indent: int, blocks: bool) -> list[str]:
    """The lines of a mapping of texts as an item of a list."""
    lines: list[str] = []
    for key, text in item.items():
        dash = "  " if lines else "- "
        head, *rest = _block_lines(text, indent + 4, blocks)
        lines += [f"{' ' * indent}{dash}{yaml_key(key)}: {head}", *rest]
    return lines


def _block_lines(text: str, indent: int, blocks: bool) -> list[str]:
    """A text as a block of lines behind its key, or as one line in quotes."""
    inner = text.removesuffix("\n")
    plain = not _UNPRINTABLE.search(text) and not _COMMENT.search(text)
    if not blocks or not plain or "\n" not in inner or inner[0].isspace() or inner.endswith("\n"):
        return [yaml_quoted(text)]
    sign = "|" if text.endswith("\n") else "|-"
    return [sign, *(" " * indent + line if line else "" for line in inner.split("\n"))]


# --- writing values -------------------------------------------------------------------------------
#
# YAML 1.2 readers and YAML 1.1 readers disagree about bare words (`on`, `y`, `1e5`, `12:30`), so
# whatever they could disagree about is written in double quotes.

_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_BARE_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_/.@+-]*(?: [A-Za-z0-9_/.@+()-]+)*\Z")
_RESERVED = frozenset(
    ("y", "n", "yes", "no", "on", "off", "true", "false", "null", "none", "nan", "inf")
)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_UNPRINTABLE = re.compile(
    # Python takes each character of a class one by one: naming the few that are not is quick.
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]"
)


class NotWritable(ValueError):
    """A value that YAML text cannot hold, or cannot hold within bounds; says why."""


def yaml_quoted(text: str) -> str:
    """`text` in double quotes, on one line.

    Raises:
        NotWritable: It holds half a surrogate pair, which neither a UTF-8 file nor a server
            accepts.
    """
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if 0xD800 <= code <= 0xDFFF:
        raise NotWritable("it holds half a surrogate pair")
    if character.isprintable():
        return character
    return (
        f"\\x{code:02X}"
        if code <= 0xFF
        else f"\\u{code:04X}"
        if code <= 0xFFFF
        else f"\\U{code:08X}"
    )


def yaml_key(name: str) -> str:
    """A mapping key: bare if every reader takes it for this text, else in quotes.

    Raises:
        NotWritable: It is longer than `MAX_KEY_LENGTH`, or see `yaml_quoted`.
    """
    if len(name) > MAX_KEY_LENGTH:
        raise NotWritable(f"its name is longer than {MAX_KEY_LENGTH} characters")
    return name if _BARE_KEY.match(name) and name.lower() not in _RESERVED else yaml_quoted(name)


def scalar_text(value: Scalar, style: str = "") -> str:
    """A value on one line, written so that every YAML reader takes it for the same.

    Args:
        value: The value.
        style: `"` or `'` to use those quotes if the text allows it; empty for none where possible.

    Raises:
        NotWritable: See `yaml_value`.
    """
    if (
        isinstance(value, str)
        and style == ""
        and _BARE_TEXT.match(value)
        and value.lower() not in _RESERVED
    ):
        return value
    if isinstance(value, str) and style == "'" and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return yaml_value(value)


def yaml_value(data: Any, depth: int = 0) -> str:
    """A JSON value on one line.

    Raises:
        NotWritable: It is nested too deeply, not a number (`NaN`, infinity), or holds text or keys
            that cannot be written.
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
        try:
            return str(data)
        except ValueError:
            raise NotWritable("the number has too many digits") from None
    if isinstance(data, float):
        return _float_text(data)
    if isinstance(data, Mapping):
        items = []
        for name, item in data.items():
            if len(str(name)) > MAX_KEY_LENGTH:
                raise NotWritable(f"a key in it is longer than {MAX_KEY_LENGTH} characters")
            items.append(f"{yaml_quoted(str(name))}: {yaml_value(item, depth + 1)}")
        return "{" + ", ".join(items) + "}"
    if isinstance(data, (list, tuple)):
        return "[" + ", ".join(yaml_value(item, depth + 1) for item in data) + "]"
    raise NotWritable(f"a {type(data).__name__} is not a JSON value")


def _float_text(number: float) -> str:
    if not math.isfinite(number):
        raise NotWritable("it is not a finite number")
    mantissa, sign, exponent = repr(number).partition("e")
    # YAML 1.1 takes a number for a number only with a point in it and a sign in its exponent:
    # 1.0e-05, not 1e-05.
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}{sign}{exponent}"


def yaml_printable(text: str) -> str:
    """`text` with U+FFFD in place of every character that a YAML file cannot hold as it is."""
    return _UNPRINTABLE.sub("\ufffd", text)
