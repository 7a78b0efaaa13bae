"""Reading a tool's JSON Schema.

Its parameters, their types in words, and an example value that fits. Schemas come from untrusted
servers: references may run in circles, patterns may be no patterns, whole schemas may make no
sense. Nothing here raises on them; what cannot be read counts as unrestricted.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from hudtui.core.environment.schema_words import pointed
from hudtui.core.environment.validation import (
    MAX_WORK,
    CheckTooLongError,
    NotCheckedError,
    Validator,
    WorkBudget,
)
from hudtui.core.text import clean_line

UNSET: Final[Any] = object()
"""Stands for "no value", where None is a value."""

_MOST_TRIED = 60
_CANDIDATE = 150
"""Steps of going through one part of a schema for candidates: schemas that refer to themselves
branch without end."""
_CHECK = 50
"""Steps of a check, besides what it counts itself."""
_DEEPEST = 6
_LONGEST_LIST = 24
_LONGEST_TEXT = 200
_LONGEST_PATTERN = 2_000
_LONGEST_SAMPLE = 4_096
_LARGEST = 1e300
_HOPS = 20
_FORMATS: Mapping[str, str] = {
    "date": "2025-01-31",
    "date-time": "2025-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "name@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com",
    "uri-reference": "/page",
    "iri": "https://example.com",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "json-pointer": "/a",
    "regex": "a+",
}
_FILE_WORDS = frozenset({"file", "directory", "folder", "path"})
_FOLDER_TOOLS = frozenset(
    {"directory", "dir", "folder", "tree", "list", "search", "ls", "cd", "mkdir", "glob", "find"}
)
"""Words in the name of a tool on files that works on folders."""
_SHEET_WORDS = frozenset(
    {"excel", "spreadsheet", "workbook", "worksheet", "sheet", "xlsx", "cell", "range"}
)
_OF_FILES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"source", "src", "from"}), "notes.txt"),
    (frozenset({"destination", "dest", "dst", "target", "to"}), "archive/notes.txt"),
    (frozenset({"pattern", "glob"}), "*.txt"),
)
"""Parts of a parameter's name, and the text that suits it in a tool on files."""
_NAMED_TEXTS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"url", "uri", "href", "link"}), "https://example.com"),
    (frozenset({"repo", "repository"}), "."),
    (frozenset({"directory", "dir", "folder", "cwd"}), "docs"),
    (frozenset({"path", "file", "filename"}), "notes.txt"),
    (frozenset({"query", "search", "question"}), "weather tomorrow"),
    (frozenset({"email", "mail"}), "name@example.com"),
    (frozenset({"date", "day"}), "2025-01-31"),
    (frozenset({"key"}), "enter"),
    (frozenset({"command", "cmd"}), "ls"),
    (frozenset({"timezone", "tz"}), "Europe/Paris"),
    (frozenset({"city", "location", "place"}), "Paris"),
    (frozenset({"time"}), "14:30"),
    (frozenset({"expression", "formula"}), "2 * (3 + 4)"),
    (frozenset({"worksheet", "sheet"}), "Sheet1"),
    (frozenset({"cell"}), "A1"),
    (frozenset({"range"}), "A1:C3"),
    (frozenset({"table"}), "items"),
    (frozenset({"branch"}), "main"),
    (frozenset({"revision", "commit", "ref", "sha"}), "HEAD"),
    (frozenset({"language", "lang", "locale"}), "en"),
    (frozenset({"user", "username", "owner", "author"}), "alice"),
    (frozenset({"replacement", "newtext", "newstr", "newstring"}), "goodbye"),
    (
        frozenset(
            {
                "text",
                "content",
                "message",
                "body",
                "comment",
                "note",
                "prompt",
                "input",
                "value",
                "string",
                "word",
            }
        ),
        "hello",
    ),
    (frozenset({"name", "title"}), "example"),
)
"""Parts of a parameter's name, and the text that suits it."""
_OF_SQL: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"select"}), "SELECT * FROM items"),
    (frozenset({"create"}), "CREATE TABLE items (id INTEGER, name TEXT)"),
    (frozenset({"insert", "write"}), "INSERT INTO items (name) VALUES ('example')"),
    (frozenset({"update"}), "UPDATE items SET name = 'example' WHERE id = 1"),
    (frozenset({"delete"}), "DELETE FROM items WHERE id = 1"),
)
"""Words in a description or in a tool's name, and the statement of SQL that suits them."""
_TIME_WORDS: tuple[tuple[str, str], ...] = (
    ("HH:MM:SS", "14:30:00"),
    ("HH:MM", "14:30"),
    ("YYYY-MM-DD", "2025-01-31"),
    ("ISO 8601", "2025-01-31T12:00:00Z"),
)
"""Words of a description for how a time is written, and such a time."""
_STATED = re.compile(
    r"""(?:\be\.?\s?g\.|\bfor\ example\b|\bfor\ instance\b|\bexamples?\s?:|\bsuch\ as\b)
    [,:]?\s*(?:(?P<quote>['"`])(?P<text>[^'"`\n]{1,60})(?P=quote)
    |(?P<bare>[^\s'"`,;()]{2,40})(?=[,;)]|\.?\s*$))""",
    re.IGNORECASE | re.VERBOSE,
)
"""An example that a description states: `e.g. 'A1:D20'`, `(e.g., main, HEAD~1)`."""
_TEXTS = ("hello", "a", "1", "abc", "A", "2025-01-31", "a@b.co", "https://example.com", "")


@dataclass(frozen=True)
class SchemaProperty:
    """One parameter of a tool."""

    name: str
    schema: Mapping[str, Any]
    """References resolved at the top."""
    required: bool
    default: Any = UNSET

    @property
    def description(self) -> str:
        """Description in the schema, as it stands there; not cleaned."""
        text = self.schema.get("description") or self.schema.get("title") or ""
        return text if isinstance(text, str) else ""


class ToolSchema:
    """The input schema of one tool, whose name is a hint for what texts look natural."""

    def __init__(self, root: Mapping[str, Any], tool: str = "") -> None:
        self.root = root
        self._tool = tool
        self._validator = Validator(root)
        self._work = WorkBudget()
        """Steps that remain to the search for an example."""

    def properties(self) -> tuple[SchemaProperty, ...]:
        """The parameters, required ones first, each group in the order of the schema.

        Alternatives (`anyOf`, `oneOf`) count with all their parameters; required is what every
        alternative requires.
        """
        shape = self._shape(self.root, 0)
        names = [*(name for name in shape.schemas if name in shape.required), *shape.schemas]
        return tuple(self._property(name, shape) for name in dict.fromkeys(names))

    def accepts(self, arguments: Any) -> bool:
        """True if the arguments of a call fit.

        Everything fits a schema that makes no sense; nothing fits where the check takes too long.
        """
        return self._valid(self.root, arguments, WorkBudget(), too_long=False)

    def unchecked(self, arguments: Any) -> str | None:
        """Reason why the arguments of a call cannot be checked; None where they can."""
        try:
            self._validator.errors(arguments, most=1)
        except NotCheckedError as error:
            return str(error)
        return None

    def fits(self, schema: Any, value: Any) -> bool:
        """True if a value fits a part of this schema."""
        return self._valid(schema, value, WorkBudget())

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """`schema` with references at its top followed; `{}` for what is no schema."""
        for _ in range(_HOPS):
            if schema is False:
                return {"not": {}}
            if not isinstance(schema, Mapping):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            target = pointed(self.root, reference)
            beside = {name: item for name, item in schema.items() if name != "$ref"}
            schema = {**target, **beside} if isinstance(target, Mapping) else beside
        return {}

    def words(self, schema: Any, depth: int = 0) -> str:
        """Values that a schema allows, in a few words.

        `integer from 1 to 10`, `one of "left", "right"`.
        """
        plain = self.resolved(schema)
        if "const" in plain:
            return f"always {literal(plain['const'])}"
        choices = plain.get("enum")
        if isinstance(choices, list) and choices:
            return _choice_words(choices, _kinds(plain))
        branches = plain.get("anyOf") or plain.get("oneOf")
        if isinstance(branches, list) and branches and depth < 3:
            return " or ".join(
                dict.fromkeys(self.words(branch, depth + 1) for branch in branches[:6])
            )
        parts = (
            [part for part in plain.get("allOf") or () if isinstance(part, Mapping)]
            if depth < 3
            else []
        )
        if parts:
            merged: dict[str, Any] = {}
            for part in parts:
                merged.update(self.resolved(part))
            merged.update((name, item) for name, item in plain.items() if name != "allOf")
            return self.words(merged, depth + 1)
        kinds = _kinds(plain)
        return (
            " or ".join(self._kind_words(kind, plain, depth) for kind in kinds)
            if kinds
            else "any value"
        )

    def example(self, schema: Any, name: str = "") -> Any:
        """A value that fits a part of this schema, or `UNSET` where none was found.

        `name` is the parameter's, a hint for what texts look natural.
        """
        self._work = WorkBudget(MAX_WORK * 3)
        for candidate in itertools.islice(self._candidates(schema, name, 0), _MOST_TRIED):
            if self._valid(schema, candidate, self._work):
                return candidate
        return UNSET

    def calls(self) -> Iterator[dict[str, Any]]:
        """Arguments to try for an example call, the shortest first; not all of them fit."""
        shape = self._shape(self.root, 0)
        properties = self.properties()
        required = self._filled(prop for prop in properties if prop.required)
        yield required
        given = self.root.get("examples")
        yield from (
            (dict(example) for example in given if isinstance(example, Mapping))
            if isinstance(given, list)
            else ()
        )
        for branch in shape.branches:
            names = {*self._shape(branch, 1).required, *shape.required}
            schemas = {**shape.schemas, **self._shape(branch, 1).schemas}
            yield self._filled(
                SchemaProperty(name, self.resolved(schemas.get(name, {})), True)
                for name in schemas
                if name in names
            )
        for prop in properties:
            if not prop.required:
                yield {**required, **self._filled([prop])}
        yield self._filled(properties)

    def _filled(self, properties: Iterable[SchemaProperty]) -> dict[str, Any]:
        examples = {prop.name: self.example(prop.schema, prop.name) for prop in properties}
        return {name: None if example is UNSET else example for name, example in examples.items()}

    def _property(self, name: str, shape: _ObjectShape) -> SchemaProperty:
        schema = self.resolved(shape.schemas[name])
        default = schema.get("default", UNSET)
        return SchemaProperty(name, schema, name in shape.required, default)

    def _shape(self, schema: Any, depth: int) -> _ObjectShape:
        """The parameters of an object schema, over references, `allOf` and alternatives."""
        plain = self.resolved(schema)
        own = plain.get("properties")
        schemas = (
            {str(name): part for name, part in own.items()} if isinstance(own, Mapping) else {}
        )
        listed = plain.get("required")
        required = (
            {name for name in listed if isinstance(name, str)}
            if isinstance(listed, list)
            else set()
        )
        branches: list[Any] = []
        if depth < _DEEPEST:
            for part in _parts(plain, "allOf"):
                inner = self._shape(part, depth + 1)
                schemas = {
                    **schemas,
                    **{
                        name: member
                        for name, member in inner.schemas.items()
                        if not schemas.get(name)
                    },
                }
                required |= inner.required
                branches += inner.branches
            for word in ("anyOf", "oneOf"):
                alternatives = _parts(plain, word)
                shapes = [self._shape(part, depth + 1) for part in alternatives]
                for inner in shapes:
                    schemas = {
                        **schemas,
                        **{
                            name: member
                            for name, member in inner.schemas.items()
                            if not schemas.get(name)
                        },
                    }
                if shapes:
                    required |= set.intersection(*(set(inner.required) for inner in shapes))
                branches += alternatives
        for name in sorted(required):
            schemas.setdefault(name, {})
        return _ObjectShape(schemas, frozenset(required), tuple(branches))

    def _valid(self, schema: Any, value: Any, work: WorkBudget, *, too_long: bool = True) -> bool:
        """True if a value fits a part of this schema; `too_long` where the check takes too long."""
        work.steps -= _CHECK
        try:
            return not self._validator.errors(
                value, part=None if schema is self.root else schema, most=1, work=work
            )
        except CheckTooLongError:
            return too_long
        except NotCheckedError:
            return True  # whatever is wrong with the schema, it is not the example's fault

    def _kind_words(self, kind: str, plain: Mapping[str, Any], depth: int) -> str:
        if kind in ("integer", "number"):
            return kind + _span(plain)
        if kind == "array":
            items = plain.get("items")
            return (
                f"list of {self.words(items, depth + 1)}"
                if isinstance(items, Mapping) and items and depth < 3
                else "list"
            )
        if kind == "object":
            own = plain.get("properties")
            if isinstance(own, Mapping) and own and depth < 2:
                required = plain.get("required")
                needed = required if isinstance(required, list) else []
                fields = (
                    f"{clean_line(str(name), 60)} "
                    f"({self.words(part, depth + 2)}{'' if name in needed else ', optional'})"
                    for name, part in itertools.islice(own.items(), 12)
                )
                return f"object with {', '.join(fields)}"
            return "object"
        if kind == "string":
            form = plain.get("format")
            pattern = plain.get("pattern")
            text = (
                f"string ({clean_line(form, 40)})" if isinstance(form, str) and form else "string"
            )
            return (
                f"{text} matching {clean_line(pattern, 80)}"
                if isinstance(pattern, str) and pattern
                else text
            )
        return kind

    def _candidates(self, schema: Any, name: str, depth: int) -> Iterator[Any]:
        plain = self.resolved(schema)
        if "const" in plain:
            yield plain["const"]
            return
        choices = plain.get("enum")
        if isinstance(choices, list) and choices:
            yield from choices
            return
        given = plain.get("examples")
        yield from (given if isinstance(given, list) else ())
        self._work.steps -= _CANDIDATE
        if depth > _DEEPEST or self._work.steps < 0:
            yield from (None, "", 1, [], {})
            return
        for word in ("anyOf", "oneOf", "allOf"):
            for part in _parts(plain, word):
                beside = {key: item for key, item in plain.items() if key != word}
                yield from itertools.islice(
                    self._candidates({**beside, **self.resolved(part)}, name, depth + 1), 12
                )
        if "default" in plain and plain["default"] is not None:
            yield plain["default"]
        for kind in _kinds(plain) or ("string", "integer", "object"):
            yield from self._of_kind(kind, plain, name, depth)

    def _of_kind(self, kind: str, plain: Mapping[str, Any], name: str, depth: int) -> Iterator[Any]:
        if kind == "string":
            yield from _texts(plain, name, self._tool)
        elif kind == "integer":
            yield from (int(number) for number in _numbers(plain, whole=True))
        elif kind == "number":
            yield from _numbers(plain, whole=False)
        elif kind == "boolean":
            yield from (True, False)
        elif kind == "null":
            yield None
        elif kind == "array":
            yield from self._lists(plain, name, depth)
        elif kind == "object":
            yield from self._objects(plain, depth)

    def _lists(self, plain: Mapping[str, Any], name: str, depth: int) -> Iterator[list[Any]]:
        front = [self._first(part, name, depth) for part in _parts(plain, "prefixItems")]
        items = plain.get("items", plain.get("contains", {}))
        least = _count(plain, "minItems", _LONGEST_LIST)
        some = list(itertools.islice(self._candidates(items, name, depth + 1), _LONGEST_LIST + 8))
        fitting = [item for item in some if self._valid(items, item, self._work)] or some[:1]
        if fitting:
            yield [*front, *([fitting[0]] if not front else [])][: max(least, len(front), 1)]
            padding = itertools.islice(itertools.cycle(fitting), max(least - len(front), 0))
            yield [*front, *padding]
        different: list[Any] = [*front]
        for item in fitting:
            if len(different) >= least:
                break
            if item not in different:
                different.append(item)
        yield different
        if plain.get("uniqueItems") and len(different) < least:
            yield [*different, *_more_like(fitting[:1], least - len(different))]
        yield []

    def _objects(self, plain: Mapping[str, Any], depth: int) -> Iterator[dict[str, Any]]:
        shape = self._shape(plain, depth)
        yield {
            name: self._first(part, name, depth)
            for name, part in shape.schemas.items()
            if name in shape.required
        }
        yield {name: self._first(part, name, depth) for name, part in shape.schemas.items()}
        least = _count(plain, "minProperties", _LONGEST_LIST)
        extra = plain.get("additionalProperties", {})
        if extra is not False:
            filled = {name: self._first(part, name, depth) for name, part in shape.schemas.items()}
            for number in range(least):
                if len(filled) >= least:
                    break
                filled.setdefault(f"key{number + 1}", self._first(extra, "", depth))
            yield filled

    def _first(self, schema: Any, name: str, depth: int) -> Any:
        tried = list(itertools.islice(self._candidates(schema, name, depth + 1), 20))
        return next(
            (candidate for candidate in tried if self._valid(schema, candidate, self._work)),
            tried[0] if tried else None,
        )


@dataclass(frozen=True)
class _ObjectShape:
    schemas: dict[str, Any]
    required: frozenset[str]
    branches: tuple[Any, ...]


def literal(data: Any) -> str:
    r"""A JSON value as an agent may write it in a call.

    On one line, without anything that reads as a tag.

    `<` before `tool`, `/tool`, `think` and `/think` is written as the escape `\x3c`, so that an
    example cannot end its own tag.
    """
    try:
        text = json.dumps(data, ensure_ascii=False)
    except (
        RecursionError,
        ValueError,
        TypeError,
    ):  # nested without end, a number of thousands of digits, no JSON at all
        return '"..."'
    for tag in ("tool>", "/tool>", "think>", "/think>"):
        text = text.replace("<" + tag, "\\x3c" + tag)
    return "".join(
        character if character.isprintable() else _escaped(character) for character in text
    )


def _escaped(character: str) -> str:
    code = ord(character)
    return (
        f"\\x{code:02x}"
        if code <= 0xFF
        else f"\\u{code:04x}"
        if code <= 0xFFFF
        else f"\\U{code:08x}"
    )


def _parts(plain: Mapping[str, Any], word: str) -> list[Any]:
    parts = plain.get(word)
    return (
        [part for part in parts if isinstance(part, (Mapping, bool))]
        if isinstance(parts, list)
        else []
    )


def _kinds(plain: Mapping[str, Any]) -> tuple[str, ...]:
    kind = plain.get("type")
    if isinstance(kind, str):
        return (kind,)
    if isinstance(kind, list):
        return tuple(word for word in kind if isinstance(word, str))
    if isinstance(plain.get("properties"), Mapping):
        return ("object",)
    if any(word in plain for word in ("items", "prefixItems", "minItems", "contains")):
        return ("array",)
    if any(word in plain for word in ("pattern", "minLength", "maxLength", "format")):
        return ("string",)
    if any(
        word in plain
        for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    ):
        return ("number",)
    return ()


def _kind_of(data: Any) -> str:
    kinds = (
        (bool, "boolean"),
        (int, "integer"),
        (float, "number"),
        (str, "string"),
        (list, "array"),
        (Mapping, "object"),
    )
    return next((kind for types, kind in kinds if isinstance(data, types)), "null")


def _span(plain: Mapping[str, Any]) -> str:
    low, high = _number(plain, "minimum"), _number(plain, "maximum")
    above, below = _number(plain, "exclusiveMinimum"), _number(plain, "exclusiveMaximum")
    if low is not None and high is not None:
        text = f" from {low} to {high}"
    else:
        sides = (("at least", low), ("more than", above), ("at most", high), ("less than", below))
        limits = [f"{words} {bound}" for words, bound in sides if bound is not None]
        text = f" {' and '.join(limits)}" if limits else ""
    step = _number(plain, "multipleOf")
    return f"{text}, a multiple of {step}" if step else text


# -- scalars that a schema may accept
# -------------------------------------------------------------------------------------------


def _number(plain: Mapping[str, Any], word: str) -> int | float | None:
    """The number that a keyword holds; None where it holds none, or one beyond all use."""
    number = plain.get(word)
    return (
        number
        if isinstance(number, int | float)
        and not isinstance(number, bool)
        and abs(number) < _LARGEST
        else None
    )


def _count(plain: Mapping[str, Any], word: str, most: int) -> int:
    """The whole number that a keyword holds, from 0 to `most`; 0 where it holds none."""
    number = _number(plain, word)
    return min(max(int(number), 0), most) if number is not None else 0


def _numbers(plain: Mapping[str, Any], *, whole: bool) -> Iterator[int | float]:
    """Numbers around the bounds of a schema and on its steps, the plainest first.

    Not all of them fit.
    """
    low, high = _number(plain, "minimum"), _number(plain, "maximum")
    above, below = _number(plain, "exclusiveMinimum"), _number(plain, "exclusiveMaximum")
    step = _number(plain, "multipleOf")
    yield from (1,) if whole else (1.5, 1)
    if step:
        start = low if low is not None else above if above is not None else 0
        first = start // step
        for index in range(4):
            yield _tidy((first + index) * step, whole)
        end = high if high is not None else below
        if end is not None:
            yield from (_tidy((end // step - index) * step, whole) for index in range(2))
    for bound in (low, high):
        if bound is not None:
            yield _tidy(bound, whole)
            yield from (_tidy(bound, True), _tidy(bound, True) + 1) if whole else ()
    for bound, away in ((above, 1), (below, -1)):
        if bound is not None:
            yield from (
                _tidy(bound, whole) + away,
                *(() if whole else (bound + away * 0.5, bound + away * 0.001)),
            )
    edges = [bound for bound in (low, above, high, below) if bound is not None]
    if len(edges) > 1 and not whole:
        yield sum(edges[:1] + edges[-1:]) / 2
    yield from (0, -1, 2, 10, 100)


def _tidy(number: int | float, whole: bool) -> int | float:
    if isinstance(number, int):
        return number
    if not math.isfinite(number):
        return 0
    return int(number) if whole or number == int(number) else number


def _choice_words(choices: list[Any], kinds: tuple[str, ...]) -> str:
    shown = ", ".join(map(literal, choices[:20]))
    if len(choices) == 1:
        return f"always {shown}"
    more = f" and {len(choices) - 20} more" if len(choices) > 20 else ""
    known = kinds or tuple(dict.fromkeys(map(_kind_of, choices)))
    return f"{' or '.join(known)}, one of {shown}{more}"


def _words_of(name: str) -> set[str]:
    """The words in a name, in the singular too, and each two neighbours as one.

    `newText` is `new`, `text` and `newtext`.
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:200])
    words = re.findall(r"[a-z]+", parted.lower())
    known = set(words)
    for word in words:
        if word.endswith("ies"):
            known.add(f"{word[:-3]}y")
        elif word.endswith("s"):
            known.add(word[:-1])
    known.update(first + second for first, second in itertools.pairwise(words))
    return known


def _stated_example(description: str) -> str:
    """The first example that a description states; empty where it states none."""
    match = _STATED.search(description[:_LONGEST_PATTERN])
    return clean_line((match["text"] or match["bare"]).rstrip("."), 60) if match else ""


def _natural_text(name: str, tool: str, description: str) -> str:
    """A text that suits a parameter of a tool, by their names and the parameter's description.

    An address for `url`, a file for `path`; else its own name.
    """
    words, doing = _words_of(name), _words_of(tool)
    if "sql" in words or re.search(r"\bSQL\b", description):
        hints = _words_of(description.lower()) | doing
        return next((text for verbs, text in _OF_SQL if verbs & hints), _OF_SQL[0][1])
    time = next((text for form, text in _TIME_WORDS if form in description), None)
    if time is not None:
        return time
    if doing & _SHEET_WORDS and words & {"path", "file", "filename"}:
        return "report.xlsx"
    if (
        doing & _FILE_WORDS
        and (example := next((text for named, text in _OF_FILES if words & named), None))
        is not None
    ):
        return example
    if "path" in words and doing & _FOLDER_TOOLS:
        return "docs"
    return next(
        (text for named, text in _NAMED_TEXTS if words & named), clean_line(name, 40) or "hello"
    )


def _texts(plain: Mapping[str, Any], name: str, tool: str) -> Iterator[str]:
    """Texts that look natural, made to fit the lengths of a schema; not all of them fit.

    The names are hints.
    """
    form, pattern = plain.get("format"), plain.get("pattern")
    natural = _FORMATS.get(form, "") if isinstance(form, str) else ""
    given = plain.get("description")
    description = given if isinstance(given, str) else ""
    natural = natural or _natural_text(name, tool, description)
    stated = _stated_example(description)
    least, most = _count(plain, "minLength", _LONGEST_TEXT), _number(plain, "maxLength")
    if isinstance(pattern, str):
        yield from _matches(pattern, least)
    longest = None if most is None else max(int(most), 0)
    for text in (*filter(None, (stated,)), natural, *_TEXTS):
        yield text.ljust(least, "x")[:longest]


def _more_like(like: list[Any], count: int) -> list[Any]:
    """Further values of the kind of the first one, none alike."""
    first = like[0] if like else "x"
    if isinstance(first, str):
        return [f"{first}{number}" for number in range(2, count + 2)]
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        return [first + number for number in range(1, count + 1)]
    return []


def _matches(pattern: str, least: int) -> Iterator[str]:
    """Texts that are meant to match a regular expression, the shortest first; the caller checks.

    The pattern is read by Python's own parser, which knows most of what patterns of JSON Schema
    (ECMA 262) hold; open repetitions are stretched towards `least`, the shortest length that is of
    use.
    """
    from re import _parser  # type: ignore[attr-defined]  # the tree of a pattern is nowhere public; an error here costs an example

    if len(pattern) > _LONGEST_PATTERN:
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = _parser.parse(re.sub(r"\(\?<(?![=!])", "(?P<", pattern))
        for repeat in dict.fromkeys((1, min(max(least, 3), 64), min(least + 1, 64))):
            yield _sample(tree, repeat)
    except (re.error, ValueError, OverflowError, RecursionError):
        return


def _sample(tree: Any, repeat: int) -> str:
    """A text for the parsed pattern. Look-arounds and back-references are left out.

    Raises:
        ValueError: The text would be long.
    """
    text = ""
    for kind, content in tree:
        match str(kind):
            case "LITERAL":
                text += chr(content)
            case "NOT_LITERAL":
                text += _class([(kind, content)], negated=True)
            case "ANY":
                text += "a"
            case "IN":
                negated = str(content[0][0]) == "NEGATE"
                text += _class(content[negated:], negated=negated)
            case "BRANCH":
                text += next(filter(None, (_sample(branch, repeat) for branch in content[1])), "")
            case "SUBPATTERN":
                text += _sample(content[-1], repeat)
            case "ATOMIC_GROUP":
                text += _sample(content, repeat)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                fewest, most, inner = content
                piece, times = _sample(inner, repeat), min(max(fewest, repeat), most)
                if len(piece) * times > _LONGEST_SAMPLE:
                    raise ValueError("a long text")
                text += piece * times
        if len(text) > _LONGEST_SAMPLE:
            raise ValueError("a long text")
    return text


def _class(members: list[tuple[Any, Any]], *, negated: bool) -> str:
    """A character of a class, or outside of a negated class."""
    picks = {
        "DIGIT": "1",
        "WORD": "a",
        "SPACE": " ",
        "NOT_DIGIT": "x",
        "NOT_WORD": "-",
        "NOT_SPACE": "x",
    }
    kind, content = members[0]
    if not negated:
        if str(kind) == "CATEGORY":
            return picks[str(content).removeprefix("CATEGORY_")]
        return chr(content[0] if str(kind) == "RANGE" else content)
    outside = next(
        (pick for pick in "axX1-_ ,." if not any(_is_member(pick, *member) for member in members)),
        None,
    )
    if outside is None:
        raise ValueError("nothing is outside of the class")
    return outside


def _is_member(character: str, kind: Any, content: Any) -> bool:
    if str(kind) == "RANGE":
        return bool(content[0] <= ord(character) <= content[1])
    if str(kind) == "CATEGORY":
        name = str(content).removeprefix("CATEGORY_")
        tests = {
            "DIGIT": character.isdigit(),
            "WORD": character.isalnum() or character == "_",
            "SPACE": character.isspace(),
        }
        return tests[name.removeprefix("NOT_")] != name.startswith("NOT_")
    return bool(ord(character) == content)
