"""Checks the arguments of a call against the tool's JSON Schema.

Its messages say what was expected.

Schemas come from untrusted servers. A schema that makes no sense, refers to another document, or
would take too long to check leaves the verdict to the server. Nothing here raises.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hudtui.core.environment.validation import NotCheckedError, Validator
from hudtui.core.text import clean_line

NO_SCHEMA = "the tool's schema is not known"
_MAX_PARTS = 500
"""Subschemas that the quick check goes through; each may be applied to every item of a long
list."""
_ANNOTATIONS = frozenset(
    (
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "format",
    )
)
"""Keywords that restrict nothing. `format` is an annotation unless a validator is set otherwise
(JSON Schema 2020-12, 7.2.1)."""
_OBJECT = frozenset(("properties", "required", "additionalProperties"))
_DIALECTS = frozenset(
    (
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
    )
)
_WORDS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """Reason why the arguments of a call do not fit."""

    parameter: str | None
    """The parameter that is wrong; None where the message is about the arguments as a whole."""
    message: str


class ArgumentChecker:
    """Checks the arguments of one tool.

    Attributes:
        known: Whether the tool has a schema at all.
        required: Parameters that the schema requires.
        parameters: Parameters that the schema describes, in its order.
    """

    def __init__(self, schema: Any) -> None:
        self.schema: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
        self.known = bool(self.schema)
        properties = self.schema.get("properties")
        self.parameters: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        required = self.schema.get("required")
        self.required = (
            frozenset(name for name in required if isinstance(name, str))
            if isinstance(required, list)
            else frozenset()
        )
        self._surely_fit = quick_check(self.schema) if self.known else None
        self._validator = Validator(self.schema)

    def check(self, arguments: Mapping[str, Any]) -> Violation | None:
        """Return the first fault of the arguments.

        None when they fit, and when that is not known.
        """
        return self.judge(arguments)[0]

    def judge(self, arguments: Mapping[str, Any]) -> tuple[Violation | None, str | None]:
        """Check arguments.

        Returns:
            What is wrong with the arguments, or None; and why the schema could not be asked, or
            None where it was.
        """
        if not self.known:
            return None, NO_SCHEMA
        if self._surely_fit is not None and self._surely_fit(arguments):
            return None, None
        try:
            errors = self._validator.errors(arguments)
        except NotCheckedError as reason:
            return None, str(reason)
        return (_violation(errors, self) if errors else None), None


# -- the quick check
# --------------------------------------------------------------------------------------------------

Check = Callable[[Any], bool]


class _NotCovered(Exception):
    """The schema holds something that the quick check leaves to the validator."""


def quick_check(schema: Any) -> Check | None:
    """A function that is true only for values that fit `schema`.

    None for a schema with a keyword that is not covered here. The validator of `jsonschema` costs
    some 60 us a call, this some 1 us. Where the function says False, the validator decides: no
    refusal, and no message, ever comes from here.
    """
    remaining = [_MAX_PARTS]
    dialect = schema.get("$schema") if isinstance(schema, Mapping) else None
    if dialect is not None and not (isinstance(dialect, str) and dialect.rstrip("#") in _DIALECTS):
        return None
    try:
        return _compiled(
            {key: value for key, value in schema.items() if key not in ("$schema", "$id")},
            remaining,
        )
    except _NotCovered:
        return None


def _compiled(schema: Any, remaining: list[int]) -> Check:
    remaining[0] -= 1
    if remaining[0] < 0 or not isinstance(schema, Mapping):
        raise _NotCovered
    passed_over = _ANNOTATIONS | _OBJECT
    if schema.get("type") == "object" and not _OBJECT.isdisjoint(schema):
        passed_over |= {"type"}  # the check of the members looks at it
    keywords = [(name, value) for name, value in schema.items() if name not in passed_over]
    checks = [_KEYWORDS.get(name, _not_covered)(value, remaining) for name, value in keywords]
    if not _OBJECT.isdisjoint(schema):
        checks.append(_object(schema, remaining))
    if len(checks) == 1:
        return checks[0]
    several = tuple(checks)

    def every(value: Any) -> bool:
        for check in several:  # noqa: SIM110 - a loop costs less than a generator
            if not check(value):
                return False
        return True

    return every


def _not_covered(value: Any, remaining: list[int]) -> Check:
    raise _NotCovered


_TYPES: dict[str, frozenset[type]] = {
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "null": frozenset({type(None)}),
    "array": frozenset({list}),
    "object": frozenset({dict}),
}


def _type(value: Any, remaining: list[int]) -> Check:
    names = value if isinstance(value, list) else [value]
    if not names or not all(isinstance(name, str) and name in _TYPES for name in names):
        raise _NotCovered
    allowed = frozenset[type]().union(*(_TYPES[name] for name in names))
    return lambda value: type(value) in allowed


def _enum(value: Any, remaining: list[int]) -> Check:
    if (
        not isinstance(value, list)
        or not value
        or not all(type(member) in (str, int, bool, type(None)) for member in value)
    ):
        raise _NotCovered
    members = frozenset((type(member), member) for member in value)  # True is not 1
    scalars = frozenset((str, int, bool, type(None)))
    return lambda value: type(value) in scalars and (type(value), value) in members


def _any_of(value: Any, remaining: list[int]) -> Check:
    if not isinstance(value, list) or not value:
        raise _NotCovered
    options = tuple(_compiled(option, remaining) for option in value)
    return lambda value: any(option(value) for option in options)


def _items(value: Any, remaining: list[int]) -> Check:
    each = _compiled(value, remaining)
    return lambda value: type(value) is not list or all(map(each, value))


def _object(schema: Mapping[str, Any], remaining: list[int]) -> Check:
    described, required = schema.get("properties", {}), schema.get("required", [])
    others = schema.get("additionalProperties", True)
    if (
        not isinstance(described, Mapping)
        or not isinstance(required, list)
        or not isinstance(others, bool)
    ):
        raise _NotCovered
    if not all(isinstance(name, str) for name in required):
        raise _NotCovered
    known = {name: _compiled(part, remaining) for name, part in described.items()}
    others_fit: bool = schema.get("type") != "object"

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return others_fit
        for name in required:
            if name not in value:
                return False
        for name, member in value.items():
            fits = known.get(name)
            if not others if fits is None else not fits(member):
                return False
        return True

    return check


def _bound(fits: Callable[[Any, Any], bool]) -> Callable[[Any, list[int]], Check]:
    def make(limit: Any, remaining: list[int]) -> Check:
        if type(limit) not in (int, float):
            raise _NotCovered
        return lambda value: type(value) not in (int, float) or fits(value, limit)

    return make


def _length(kind: Any, fits: Callable[[Any, Any], bool]) -> Callable[[Any, list[int]], Check]:
    def make(limit: Any, remaining: list[int]) -> Check:
        if type(limit) is not int:
            raise _NotCovered
        return lambda value: type(value) is not kind or fits(len(value), limit)

    return make


_KEYWORDS: dict[str, Callable[[Any, list[int]], Check]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda value, remaining: _enum([value], remaining),
    "anyOf": _any_of,
    "items": _items,
    "minimum": _bound(operator.ge),
    "maximum": _bound(operator.le),
    "exclusiveMinimum": _bound(operator.gt),
    "exclusiveMaximum": _bound(operator.lt),
    "minLength": _length(str, operator.ge),
    "maxLength": _length(str, operator.le),
    "minItems": _length(list, operator.ge),
    "maxItems": _length(list, operator.le),
}


# -- messages
# --------------------------------------------------------------------------------------------------


def _violation(errors: list[Any], checker: ArgumentChecker) -> Violation:
    from jsonschema.exceptions import best_match

    error = best_match(iter(errors))
    while (
        error.parent is not None
    ):  # the alternatives as a whole, rather than why one of them does not fit
        error = error.parent
    path = list(error.absolute_path)
    if not path:
        return _about_all(error, checker)
    label = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if index else str(step)
        for index, step in enumerate(path)
    )
    return Violation(str(path[0]), f"{clean_line(label, 80)}: {_complaint(error)}")


def _about_all(error: Any, checker: ArgumentChecker) -> Violation:
    arguments = error.instance
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in arguments), None)
        expected = describe(checker.parameters.get(missing)) if missing is not None else ""
        return Violation(
            missing,
            f"the parameter {missing} is missing" + (f"; expected {expected}" if expected else ""),
        )
    if error.validator in ("additionalProperties", "unevaluatedProperties"):
        extra = next((name for name in arguments if name not in checker.parameters), None)
        known = ", ".join(map(str, islice(checker.parameters, 12)))
        return Violation(extra, f"the tool has no parameter {extra}; it has {known or 'none'}")
    return Violation(None, clean_line(error.message, 300))


def _complaint(error: Any) -> str:
    got = shown(error.instance)
    keyword, limit = error.validator, error.validator_value
    if keyword in ("type", "enum", "const", "anyOf", "oneOf"):
        expected = describe({keyword: limit})
    elif keyword in ("minimum", "exclusiveMinimum"):
        expected = f"a number {'of at least' if keyword == 'minimum' else 'greater than'} {limit}"
    elif keyword in ("maximum", "exclusiveMaximum"):
        expected = f"a number {'of at most' if keyword == 'maximum' else 'less than'} {limit}"
    elif keyword == "multipleOf":
        expected = f"a multiple of {limit}"
    elif keyword in ("minLength", "maxLength"):
        expected = f"text of at {'least' if keyword == 'minLength' else 'most'} {limit} characters"
    elif keyword in ("minItems", "maxItems"):
        expected = f"a list of at {'least' if keyword == 'minItems' else 'most'} {limit} items"
    elif keyword == "pattern":
        expected = f"text that matches {limit}"
    elif keyword == "uniqueItems":
        expected = "a list without repetitions"
    elif keyword == "required":
        missing = [name for name in limit if name not in error.instance]
        expected = f"an object with {', '.join(missing)}"
    else:
        return clean_line(error.message, 300)
    return clean_line(f"expected {expected}, got {got}", 400)


def describe(schema: Any) -> str:
    """Return the values that a schema expects, in a few words.

    Empty when it expects nothing in particular.
    """
    if not isinstance(schema, Mapping):
        return ""
    if "const" in schema:
        return shown(schema["const"])
    values = schema.get("enum")
    if isinstance(values, list) and values:
        words = ", ".join(shown(value) for value in values[:12])
        return words if len(values) == 1 else f"one of {words}{', ...' if len(values) > 12 else ''}"
    kinds = schema.get("type")
    names = kinds if isinstance(kinds, list) else [kinds]
    words = " or ".join(_WORDS[name] for name in names if isinstance(name, str) and name in _WORDS)
    if words:
        return words
    for keyword in ("anyOf", "oneOf"):
        options = schema.get(keyword)
        if isinstance(options, list):
            parts = dict.fromkeys(describe(option) for option in options[:8])
            return " or ".join(part for part in parts if part)
    return ""


def shown(value: Any) -> str:
    """A value as an error names it, cut when it is long."""
    if isinstance(value, str):
        return json.dumps(clean_line(value, 60), ensure_ascii=False)
    if isinstance(value, list):
        return f"a list of {len(value)} items" if len(value) != 1 else "a list of 1 item"
    if isinstance(value, Mapping):
        return "an object"
    return (
        "null"
        if value is None
        else "true"
        if value is True
        else "false"
        if value is False
        else clean_line(str(value), 60)
    )
