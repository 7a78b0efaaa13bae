r"""YAML as this program reads it: plain data by the rules of YAML 1.2, with the place of every key and value.

What differs from a plain YAML loader, and why:

- `on`, `off`, `yes`, `no`, dates and `12:30` are text; `1e-5` is a number (YAML 1.2, core schema).
- Keys are always text, spelled as written. A key that stands twice in one mapping is an error that names both lines.
- Aliases and merge keys (`<<`) work, but what they expand to, the depth and the size are bounded.
- Tags other than those of the core schema are refused; nothing is ever constructed but dicts, lists, text, numbers,
  booleans and None.

The data are read from the parser's event stream, which is iterative: no nesting, however deep, overflows a stack.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.text import did_you_mean

YamlPath = tuple[str | int, ...]
"""Keys and indexes from the top of a document to one of its values."""

MAX_CHARACTERS = 16_000_000
MAX_DEPTH = 100
MAX_ALIASED = 100_000
"""How many values all aliases of a document together may stand for."""

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


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of the text. Lines and columns count from 1; the end is the first character behind it."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(slots=True, eq=False)
class _Node:
    key: Mark
    value: Mark
    style: str = ""
    children: dict[str | int, _Node] = field(default_factory=dict)


class YamlDocument:
    """A YAML text that has been read.

    Attributes:
        name: What errors call it, usually the file's path.
        text: The text it was read from, without a byte order mark.
        data: Its value: dict, list, str, int, float, bool or None. Dicts have text keys. The caller may change it.
    """

    def __init__(self, name: str, text: str, data: Any, root: _Node) -> None:
        self.name = name
        self.text = text
        self.data = data
        self._root = root

    def mark(self, path: YamlPath = ()) -> Mark:
        """Where the key of the value at `path` stands; for an item of a list, where the item begins.

        Where there is no such value, the place of its nearest ancestor that exists.
        """
        return self._nearest(path).key

    def value_mark(self, path: YamlPath = ()) -> Mark:
        """Where the value at `path` itself stands, or that of its nearest ancestor that exists."""
        return self._nearest(path).value

    def style(self, path: YamlPath = ()) -> str:
        """How the value at `path` is written.

        Empty for plain text, a quotation mark, `|` or `>` for a scalar; `block` or `{` for a mapping or list; `*` for one that an
        alias stands for.
        """
        return self._nearest(path).style

    def at(self, path: YamlPath = ()) -> Any:
        """The value at `path`; None where there is none."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (LookupError, TypeError):
                return None
        return value

    def last_line(self, path: YamlPath = ()) -> int:
        """The last line, counting from 1, that holds a part of the value at `path`; comments below it do not count."""
        node = self._nearest(path)
        lines = _LINE_END.split(self.text)
        while node.style == "block":
            own = [child for child in node.children.values() if self._owns(node, child)]
            if not own:
                break
            node = max(own, key=lambda child: (child.key.line, child.key.column))
        last = node.value.end_line
        if node.value.end_column == 1 or not lines[last - 1][: node.value.end_column - 1].strip():
            last -= 1
        while last > node.value.line and not lines[last - 1].strip():
            last -= 1
        return max(last, node.value.line)

    def location(self, path: YamlPath = ()) -> Location:
        """The same place as `mark`, in the form that errors carry."""
        place = self.mark(path)
        return Location(self.name, place.line, place.column, dotted_path(path) or None)

    def inside(self, path: YamlPath, offset: int) -> tuple[int, int]:
        """Line and column of the character `offset` (from 0) of the text at `path`.

        Exact for text that the document spells out on one line or as a literal block (`|`); elsewhere the beginning of the value.
        """
        node = self._nearest(path)
        start = (node.value.line, node.value.column)
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
            return (start[0], min(column, node.value.end_column - 1) + 1)
        if node.style == "|":
            body = [line for line in lines[row + 1 : node.value.end_line] if line.strip()]
            indent = len(body[0]) - len(body[0].lstrip(" ")) if body else 0
            for number, line in enumerate(lines[row + 1 : node.value.end_line], row + 2):
                length = max(len(line.rstrip("\r")) - indent, 0)
                if offset <= length:
                    return (number, indent + offset + 1)
                offset -= length + 1
        return start

    def path_at(self, line: int, column: int = 1_000_000) -> YamlPath:
        """The path of the innermost value whose key or text covers this place; the top (`()`) where there is none.

        Useful to know which entry a cursor is in. A line that holds only blanks or a comment belongs to the entry before it.
        """
        path: list[str | int] = []
        node = self._root
        while True:
            best: tuple[tuple[int, int], str | int, _Node] | None = None
            for step, child in node.children.items():
                begin = (child.key.line, child.key.column)
                if begin <= (line, column) and (best is None or begin >= best[0]) and self._owns(node, child):
                    best = (begin, step, child)
            if best is None:
                return tuple(path)
            path.append(best[1])
            node = best[2]

    def _owns(self, parent: _Node, child: _Node) -> bool:
        # What an alias or a merge brought in stands elsewhere in the text.
        return (
            (parent.value.line, parent.value.column)
            <= (child.key.line, child.key.column)
            <= (
                parent.value.end_line,
                parent.value.end_column,
            )
        )

    def _nearest(self, path: YamlPath) -> _Node:
        node = self._root
        for step in path:
            below = node.children.get(step)
            if below is None:
                break
            node = below
        return node


def dotted_path(path: YamlPath) -> str:
    """A path as people write it: `action_mappings.click.x`, `tools[2].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def load_yaml(text: str, *, name: str, limit: int = MAX_CHARACTERS) -> YamlDocument:
    """Read one YAML document.

    Args:
        text: The text; a byte order mark and every kind of line end are accepted.
        name: What errors call it, usually the file's path.
        limit: The most characters the text may have.

    Raises:
        InputError: The text is not one well-formed YAML document, or goes beyond a bound; with line and column.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > limit:
        raise InputError(f"this YAML is too large: {len(text):,} characters, and {limit:,} are allowed", where=Location(name))
    _check_characters(text, name)
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data, root = _Reader(name, text).read(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        from hudtui.core.yamlwords import explained

        raise explained(error, text, name) from None
    except yaml.YAMLError as error:
        raise InputError("this is not valid YAML", why=str(error), where=Location(name)) from None
    return YamlDocument(name, text, data, root)


def _check_characters(text: str, name: str) -> None:
    found = _FORBIDDEN.search(text)
    if found is None:
        return
    start = text.rfind("\n", 0, found.start()) + 1
    code = ord(found[0])
    raise InputError(
        f"the character U+{code:04X} is not allowed in YAML",
        fix='Remove it, or write it as an escape in double quotes, e.g. "\\x1b".',
        where=Location(name, text.count("\n", 0, found.start()) + 1, found.start() - start + 1),
    )


@dataclass(slots=True, eq=False)
class _Frame:
    """A mapping or a list that is being read."""

    value: Any
    node: _Node
    mapping: bool
    anchor: str | None
    counted: int
    key: str | None = None
    key_mark: Mark | None = None
    merging: bool = False
    merges: list[tuple[dict[str, Any], _Node]] = field(default_factory=list)
    height: int = 0


@dataclass(frozen=True, slots=True)
class _Anchored:
    value: Any
    node: _Node
    size: int
    height: int


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.frames: list[_Frame] = []
        self.anchors: dict[str, _Anchored] = {}
        self.open_anchors: dict[str, int] = {}
        self.count = 0
        self.aliased = 0
        self.result: tuple[Any, _Node] | None = None
        # The parser counts further characters as line ends, which no editor does.
        self.starts = [0, *(found.end() for found in _LINE_END.finditer(text))] if _ODD_LINE_END.search(text) else None

    def _mark(self, event: Any) -> Mark:
        start, end = event.start_mark, event.end_mark
        if self.starts is None:
            return Mark(start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        return Mark(*self._place(self.starts, start.index), *self._place(self.starts, end.index))

    @staticmethod
    def _place(starts: list[int], index: int) -> tuple[int, int]:
        line = bisect_right(starts, index)
        return line, index - starts[line - 1] + 1

    def read(self, events: Iterator[Any]) -> tuple[Any, _Node]:
        import yaml

        documents = 0
        for event in events:
            kind = type(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, kind is yaml.MappingStartEvent)
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._close(event)
            elif kind is yaml.AliasEvent:
                self._alias(event)
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise self._error(
                        "a second document begins here, and only one is expected", self._mark(event), fix="Remove the line `---`."
                    )
        if self.result is None:
            return None, _Node(Mark(1, 1, 1, 1), Mark(1, 1, 1, 1))
        return self.result

    def _error(self, what: str, mark: Mark, *, why: str | None = None, fix: str | None = None) -> InputError:
        path: list[str | int] = []
        for frame in self.frames:
            if not frame.mapping:
                path.append(len(frame.value))
            elif frame.key is not None:
                path.append(frame.key)
        place = Location(self.name, mark.line, mark.column, dotted_path(tuple(path[:12])) or None)
        return InputError(what, why=why, fix=fix, where=place)

    def _expects_key(self) -> bool:
        return bool(self.frames) and self.frames[-1].mapping and self.frames[-1].key is None

    def _scalar(self, event: Any) -> None:
        mark = self._mark(event)
        if self._expects_key():
            self._key(event, mark)
            return
        plain = event.implicit[0]
        value = self._value_of(event.value, mark) if plain else self._tagged(event, mark)
        self.count += 1
        node = _Node(mark, mark, event.style or "")
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(value, node, 1, 0)
        self._put(value, node)

    def _key(self, event: Any, mark: Mark) -> None:
        frame = self.frames[-1]
        text: str = event.value
        if event.implicit[0] and text == "" and not event.style:
            raise self._error("a key is missing before this colon", mark)
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchored(text, _Node(mark, mark, event.style or ""), 1, 0)
        merging = event.implicit[0] and text == "<<"
        earlier = frame.node.children.get(text)
        if earlier is not None or (merging and frame.merges):
            first = f" first on line {earlier.key.line}," if earlier is not None else ""
            error = self._error(
                f"the key {_shown(text)} stands twice in one mapping:{first} again on line {mark.line}",
                mark,
                fix="Rename one of them, or remove it; which of the two would count is anybody's guess.",
            )
            if merging:
                error.fix = "List what is to be merged: `<<: [*one, *other]`."
            raise error
        frame.key, frame.key_mark, frame.merging = text, mark, merging

    def _open(self, event: Any, mapping: bool) -> None:
        mark = self._mark(event)
        if self._expects_key():
            what = "a mapping" if mapping else "a list"
            raise self._error(
                f"{what} cannot be a key; keys are text",
                mark,
                fix='Text that begins with a brace or bracket needs quotes: "{{ name }}".',
            )
        if len(self.frames) >= MAX_DEPTH:
            raise self._error(f"this is nested too deeply: more than {MAX_DEPTH} levels", mark)
        if event.tag not in (None, "!", _CORE + ("map" if mapping else "seq")):
            raise self._bad_tag(event.tag, mark)
        node = _Node(mark, mark, "{" if event.flow_style else "block")
        self.count += 1
        if event.anchor is not None:
            self.open_anchors[event.anchor] = mark.line
        self.frames.append(_Frame({} if mapping else [], node, mapping, event.anchor, self.count - 1))

    def _close(self, event: Any) -> None:
        frame = self.frames.pop()
        begin, end = frame.node.value, self._mark(event)
        frame.node.value = Mark(begin.line, begin.column, end.end_line, end.end_column)
        if frame.node.key is begin:
            frame.node.key = frame.node.value
        if frame.merges:
            self._merge(frame)
        height = frame.height + 1
        if frame.anchor is not None:
            self.open_anchors.pop(frame.anchor, None)
            self.anchors[frame.anchor] = _Anchored(frame.value, frame.node, self.count - frame.counted, height)
        self._put(frame.value, frame.node, height)

    def _merge(self, frame: _Frame) -> None:
        # Earlier sources win over later ones, and what the mapping says itself wins over all.
        data: dict[str, Any] = {}
        children: dict[str | int, _Node] = {}
        for source, node in reversed(frame.merges):
            data.update(source)
            children.update(node.children)
        data.update(frame.value)
        children.update(frame.node.children)
        frame.value = data
        frame.node.children = children

    def _alias(self, event: Any) -> None:
        mark = self._mark(event)
        name = event.anchor
        if name in self.open_anchors:
            raise self._error(f"*{name} refers to the value that it is part of", mark)
        known = self.anchors.get(name)
        if known is None:
            near = did_you_mean(name, self.anchors)
            hint = f" Did you mean *{near}?" if near else ""
            raise self._error(
                f"*{_shown(name, '')} refers to an anchor that is not defined above",
                mark,
                fix=f"Define it with &{_shown(name, '')}, or put quotes around text that begins with a star.{hint}",
            )
        if self._expects_key():
            if not isinstance(known.value, str):
                raise self._error("an alias as a key must stand for a text", mark)
            self._key(_AliasKey(known.value), mark)
            return
        self.aliased += known.size
        self.count += known.size
        if self.aliased > MAX_ALIASED:
            raise self._error(f"the aliases of this file stand for more than {MAX_ALIASED:,} values", mark)
        if len(self.frames) + known.height > MAX_DEPTH:
            raise self._error(f"this alias makes the nesting too deep: more than {MAX_DEPTH} levels", mark)
        node = _Node(mark, mark, known.node.style if not known.node.children else "*", known.node.children)
        self._put(_copied(known.value), node, known.height)

    def _put(self, value: Any, node: _Node, height: int = 0) -> None:
        if not self.frames:
            self.result = (value, node)
            return
        frame = self.frames[-1]
        frame.height = max(frame.height, height)
        if not frame.mapping:
            frame.node.children[len(frame.value)] = node
            frame.value.append(value)
            return
        assert frame.key is not None and frame.key_mark is not None
        if frame.merging:
            self._note_merge(frame, value, node)
        else:
            node.key = frame.key_mark
            frame.value[frame.key] = value
            frame.node.children[frame.key] = node
        frame.key = frame.key_mark = None
        frame.merging = False

    def _note_merge(self, frame: _Frame, value: Any, node: _Node) -> None:
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise self._error(
                "<< takes over the keys of a mapping, and this is none",
                node.value,
                fix='Give an alias of a mapping, or a list of them; a key of the name << needs quotes: "<<".',
            )
        if isinstance(value, list):
            frame.merges = [(source, node.children[index]) for index, source in enumerate(sources)]
        else:
            frame.merges = [(value, node)]
        if not frame.merges:
            frame.merges = [({}, node)]

    def _value_of(self, text: str, mark: Mark) -> Any:
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
        special = _SPECIAL.match(text)
        if special:
            return float((special["inf"] or "nan").replace(".", ""))
        return text

    def _tagged(self, event: Any, mark: Mark) -> Any:
        text: str = event.value
        if event.tag is None or event.tag in ("!", _CORE + "str"):
            return text
        kind = event.tag.removeprefix(_CORE)
        value = self._value_of(text, mark)
        wanted: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float, int), "bool": (bool,), "null": (type(None),)}
        if not event.tag.startswith(_CORE) or kind not in wanted:
            raise self._bad_tag(event.tag, mark)
        if not isinstance(value, wanted[kind]) or (isinstance(value, bool) and kind != "bool"):
            raise self._error(f"{_shown(text)} is not what its tag !!{kind} says", mark)
        return float(text) if kind == "float" and isinstance(value, int) else value

    def _bad_tag(self, tag: str, mark: Mark) -> InputError:
        short = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
        return self._error(
            f"the tag {_shown(short, '')} is not supported",
            mark,
            fix="Remove the tag; only plain values are read. Text that begins with an exclamation mark needs quotes.",
        )


class _AliasKey:
    """What an alias that stands as a key looks like to `_Reader._key`."""

    implicit = (False, True)
    style = '"'
    anchor = None

    def __init__(self, value: str) -> None:
        self.value = value


def _copied(value: Any) -> Any:
    # The depth is bounded by MAX_DEPTH. Copies, so that a change at one place does not show up at another.
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _shown(text: str, quote: str = '"') -> str:
    short = text if len(text) <= 60 else text[:59] + "…"
    return f"{quote}{short}{quote}"
