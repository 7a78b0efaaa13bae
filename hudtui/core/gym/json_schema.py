"""Checking a finished call against the tool's JSON Schema, with words for what was expected.

Schemas come from servers that nobody vouches for. A schema that makes no sense, that refers to somewhere else, or that would take
too long to check leaves open whether a call fits: the server decides then. Nothing here raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from hudtui.core.environment.validation import NotCheckedError, Validator
from hudtui.core.gym.schema_predicates import SILENT, Predicate, predicate_of
from hudtui.core.text import clean_line

_BY_PARAMETER = SILENT | {"type", "properties", "required", "additionalProperties"}
NO_SCHEMA = "the tool's schema is not known"
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
    """Why a call does not fit."""

    parameter: str | None
    """The parameter it is about, where it is about one."""
    message: str


class ArgumentChecker:
    """Checks the arguments of one tool.

    Attributes:
        known: Whether there is a schema that can be checked at all.
        required: Parameters that the schema requires.
        parameters: Parameters that the schema describes, in its order.
    """

    def __init__(self, schema: Any) -> None:
        usable = isinstance(schema, Mapping)
        self.schema: Mapping[str, Any] = schema if usable else {}
        self.known = bool(self.schema)
        properties = self.schema.get("properties")
        self.parameters: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        required = self.schema.get("required")
        self.required = (
            frozenset(name for name in required if isinstance(name, str)) if isinstance(required, list) else frozenset()
        )
        self.fits: Predicate | None = predicate_of(self.schema) if self.known else None
        """Tells quickly whether arguments fit, for the schemas that most tools have; None for the others."""
        self._validator = Validator(self.schema)

    def parameter_predicates(self) -> Callable[[str], Predicate | None] | None:
        """Predicates for single parameters, where the schema treats each by itself; None where it does not.

        Returns:
            A function that gives a parameter's predicate, or None for one that may be anything. Required parameters are not
            looked at.
        """
        if self.fits is None or not self.schema.keys() <= _BY_PARAMETER or self.schema.get("type", "object") != "object":
            return None
        known = {name: predicate_of(part) for name, part in self.parameters.items()}
        others = self.schema.get("additionalProperties", True)
        other = None if others is True else predicate_of(others)
        return lambda name: known.get(name, other)

    def check(self, arguments: Mapping[str, Any]) -> Violation | None:
        """What is wrong with the arguments; None when they fit, and when that is not known."""
        return self.judge(arguments)[0]

    def judge(self, arguments: Mapping[str, Any]) -> tuple[Violation | None, str | None]:
        """What is wrong with the arguments, if something is; and why that is not known, if it is not."""
        if not self.known:
            return None, NO_SCHEMA
        if self.fits is not None and self.fits(arguments):
            return None, None
        try:
            errors = self._validator.errors(arguments)
        except NotCheckedError as reason:
            return (self._misfit(arguments), None) if self.fits is not None else (None, str(reason))
        return (_violation(errors, self) if errors else None), None

    def _misfit(self, arguments: Mapping[str, Any]) -> Violation:
        """The first parameter that does not fit, in fewer words: the full validator could not cope with its value."""
        parts = self.parameter_predicates()
        for name, value in arguments.items():
            fits = None if parts is None else parts(name)
            if fits is not None and not fits(value):
                expected = describe(self.parameters.get(name)) or "something else"
                return Violation(name, clean_line(f"{name}: expected {expected}, got {shown(value)}", 400))
        return Violation(None, "the arguments do not fit the tool's schema")


def _violation(errors: list[Any], checker: ArgumentChecker) -> Violation:
    from jsonschema.exceptions import best_match

    error = best_match(iter(errors))
    while error.parent is not None:  # the alternatives as a whole, rather than why one of them does not fit
        error = error.parent
    path = list(error.absolute_path)
    if not path:
        return _about_all(error, checker)
    label = "".join(
        f"[{step}]" if isinstance(step, int) else f".{step}" if index else str(step) for index, step in enumerate(path)
    )
    return Violation(str(path[0]), f"{clean_line(label, 80)}: {_complaint(error)}")


def _about_all(error: Any, checker: ArgumentChecker) -> Violation:
    arguments = error.instance
    if error.validator == "required":
        missing = next((name for name in error.validator_value if name not in arguments), None)
        expected = describe(checker.parameters.get(missing)) if missing is not None else ""
        return Violation(missing, f"the parameter {missing} is missing" + (f"; expected {expected}" if expected else ""))
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
    """What a schema expects, in a few words; empty when it expects nothing in particular."""
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
    return "null" if value is None else "true" if value is True else "false" if value is False else clean_line(str(value), 60)
