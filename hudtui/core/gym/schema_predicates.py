"""Yes or no to the question whether a value fits a schema, fast, for the keywords that most tools' schemas are made of.

A predicate answers exactly as a full validator does. A schema with anything else in it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Predicate = Callable[[Any], bool]

MAX_DEPTH = 20
MAX_PARTS = 2_000
MAX_REPEATED = 200
"""Parts of a schema that has some of them looked at for each item of a list or each property of an object."""

SILENT = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "format",
        "$schema",
        "$id",
    }
)
_DIALECTS = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
    }
)


class _UnsupportedError(Exception):
    pass


def predicate_of(schema: Any) -> Predicate | None:
    """A predicate that answers as validating against `schema` would, or None for a schema that it does not cover."""
    builder = _Builder()
    try:
        made = builder.build(schema, 0)
    except _UnsupportedError:
        return None
    return None if builder.repeats and builder.parts > MAX_REPEATED else made


def _integer(value: Any) -> bool:
    kind = type(value)
    return kind is int or (kind is float and value.is_integer())


def _number(value: Any) -> bool:
    kind = type(value)
    return kind is int or kind is float


_TYPES: dict[str, Predicate] = {
    "integer": _integer,
    "number": _number,
    "string": lambda value: type(value) is str,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict,
}


def _counting(value: Any) -> bool:
    return type(value) is int or type(value) is float


class _Builder:
    def __init__(self) -> None:
        self.parts = 0
        self.repeats = False

    def build(self, schema: Any, depth: int) -> Predicate:
        self.parts += 1
        if depth > MAX_DEPTH or self.parts > MAX_PARTS:
            raise _UnsupportedError
        if schema is True:
            return lambda value: True
        if schema is False:
            return lambda value: False
        if not isinstance(schema, Mapping):
            raise _UnsupportedError
        dialect = schema.get("$schema")
        if dialect is not None and (not isinstance(dialect, str) or dialect.rstrip("#") not in _DIALECTS or depth > 0):
            raise _UnsupportedError
        if "$id" in schema and depth > 0:
            raise _UnsupportedError
        checks: list[Predicate] = []
        for key, value in schema.items():
            if key in SILENT or key in _SHAPE:
                continue
            maker = _MAKERS.get(key)
            if maker is None:
                raise _UnsupportedError
            checks.append(maker(self, value, depth))
        if not _SHAPE.isdisjoint(schema):
            checks.append(self._object(schema, depth))
        if len(checks) == 1:
            return checks[0]
        first = tuple(checks)

        def every(value: Any) -> bool:
            for check in first:  # noqa: SIM110 - a loop costs less than a generator
                if not check(value):
                    return False
            return True

        return every

    def kinds(self, value: Any, depth: int) -> Predicate:
        names = value if isinstance(value, list) else [value]
        if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
            raise _UnsupportedError
        if len(names) == 1:
            return _TYPES[names[0]]
        options = tuple(_TYPES[name] for name in names)
        return lambda found: any(option(found) for option in options)

    def _enum(self, value: Any, depth: int) -> Predicate:
        if not isinstance(value, list) or not value:
            raise _UnsupportedError
        texts = set()
        numbers = set()
        singles = set()
        for member in value:
            if type(member) is str:
                texts.add(member)
            elif type(member) is int or type(member) is float:
                numbers.add(member)
            elif member is None or type(member) is bool:
                singles.add(member)
            else:
                raise _UnsupportedError

        def check(found: Any) -> bool:
            kind = type(found)
            if kind is str:
                return found in texts
            if kind is int or kind is float:
                return found in numbers
            return (found is None or kind is bool) and found in singles

        return check

    def _const(self, value: Any, depth: int) -> Predicate:
        return self._enum([value], depth)

    def _any_of(self, value: Any, depth: int) -> Predicate:
        if not isinstance(value, list) or not value:
            raise _UnsupportedError
        options = tuple(self.build(option, depth + 1) for option in value)
        return lambda found: any(option(found) for option in options)

    def _items(self, value: Any, depth: int) -> Predicate:
        if not isinstance(value, Mapping | bool):
            raise _UnsupportedError
        self.repeats = True
        each = self.build(value, depth + 1)
        return lambda found: type(found) is not list or all(map(each, found))

    def _object(self, schema: Mapping[str, Any], depth: int) -> Predicate:
        described = schema.get("properties", {})
        required = schema.get("required", [])
        if not isinstance(described, Mapping) or not isinstance(required, list):
            raise _UnsupportedError
        if not all(isinstance(name, str) for name in required):
            raise _UnsupportedError
        known = {name: self.build(part, depth + 1) for name, part in described.items()}
        needed = tuple(required)
        others = schema.get("additionalProperties", True)
        closed = others is False
        other = None if closed or others is True else self.build(others, depth + 1)
        self.repeats = self.repeats or other is not None

        def check(found: Any) -> bool:
            if type(found) is not dict:
                return True
            for name in needed:
                if name not in found:
                    return False
            for name, value in found.items():
                fits = known.get(name)
                if fits is None:
                    if closed or (other is not None and not other(value)):
                        return False
                elif not fits(value):
                    return False
            return True

        return check


_SHAPE = frozenset({"properties", "required", "additionalProperties"})


def _limit(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any, int], Predicate]:
    def make(builder: Any, limit: Any, depth: int) -> Predicate:
        if not _counting(limit):
            raise _UnsupportedError
        return lambda value: not _counting(value) or test(value, limit)

    return make


def _length(kind: type[str] | type[list[Any]], least: bool) -> Callable[[Any, Any, int], Predicate]:
    def make(builder: Any, limit: Any, depth: int) -> Predicate:
        if not _counting(limit):
            raise _UnsupportedError
        if least:
            return lambda value: type(value) is not kind or len(value) >= limit
        return lambda value: type(value) is not kind or len(value) <= limit

    return make


_MAKERS: dict[str, Callable[[Any, Any, int], Predicate]] = {
    "type": _Builder.kinds,
    "enum": _Builder._enum,
    "const": _Builder._const,
    "anyOf": _Builder._any_of,
    "items": _Builder._items,
    "minimum": _limit(lambda value, limit: value >= limit),
    "maximum": _limit(lambda value, limit: value <= limit),
    "exclusiveMinimum": _limit(lambda value, limit: value > limit),
    "exclusiveMaximum": _limit(lambda value, limit: value < limit),
    "minLength": _length(str, True),
    "maxLength": _length(str, False),
    "minItems": _length(list, True),
    "maxItems": _length(list, False),
}
