"""Validation of values against the JSON Schemas of servers, which are not trusted.

Nothing is ever fetched for a schema. The work of a check is counted, and a check that would take
more than `MAX_WORK` steps is given up; so is a check against a schema that makes no sense.

The checker is Python's, because its steps can be counted and ended. A compiled one (jsonschema-rs
0.61) holds the interpreter until it is done: 39 references that double take 2**39 steps, and a
value nested 50,000 deep ends the program.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from hudtui.core.text import clean_line

MAX_WORK = 100_000
"""Steps of one check: less than 0.1 s."""
MAX_SCHEMA_PARTS = 2_000
"""Objects and lists that a schema may consist of to be checked against."""

_MOST_VALUES = 20_000
_KEYWORD = 20
"""Steps of a keyword, whatever else it does."""
_REFUSED = 1_000
"""Steps to find out that a pattern cannot be looked for."""
_PATTERN_MEMORY = 1 << 18
"""Bytes that a pattern may take when it is compiled: about 20,000 instructions."""
_CLASSES = re.compile(r"\\[bBdDsSwW]")
"""Classes that stand for ASCII alone in RE2 and in ECMAScript, and for more in Python and Rust."""
_HALVES = re.compile("[\ud800-\udfff]")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class NotCheckedError(Exception):
    """The value could not be checked.

    The message gives the reason, to stand after "not checked: ".
    """


class CheckTooLongError(NotCheckedError):
    """The check would take more steps than are left."""


class WorkBudget:
    """Steps that are left, for one check or for several."""

    def __init__(self, steps: int = MAX_WORK) -> None:
        self.steps = steps

    def spend(self, steps: int) -> None:
        """Use up steps.

        Raises:
            CheckTooLongError: Fewer steps are left.
        """
        self.steps -= steps
        if self.steps < 0:
            raise CheckTooLongError("the check against the tool's schema would take too long")


class Validator:
    """One schema, as far as it can be checked against.

    Args:
        schema: The JSON Schema, of whatever dialect; 2020-12 where it names none.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._made: Any = None
        self._lock = threading.Lock()

    def errors(
        self, value: Any, *, part: Any = None, most: int = 16, work: WorkBudget | None = None
    ) -> list[Any]:
        """Return the faults of a value, as errors of the `jsonschema` package; none when it fits.

        Args:
            value: JSON data.
            part: The part of the schema that it is checked against; None for all of it.
            most: Errors to look for.
            work: The steps that are left; `MAX_WORK` when None.

        Raises:
            NotCheckedError: The schema cannot be checked against.
            CheckTooLongError: The check would take more steps.
        """
        with self._lock:
            if self._made is None:
                self._made = _made(self._schema)
        if isinstance(self._made, str):
            raise NotCheckedError(self._made)
        try:
            _check.work = work or WorkBudget()
            _check.size = _size(value, _check.work.steps)
            _check.skipped = []
            validator = self._made if part is None else self._made.evolve(schema=_nameless(part))
            errors = list(islice(validator.iter_errors(value), most))
        except NotCheckedError:
            raise
        except RecursionError:
            raise NotCheckedError("the value, or the tool's schema, is nested too deeply") from None
        except Exception:  # whatever a senseless schema leads to
            raise NotCheckedError("the tool's schema makes no sense") from None
        if not errors and _check.skipped:
            raise NotCheckedError(_check.skipped[-1])
        return errors


_check = threading.local()
"""The check that is under way in this thread: its `work`, the `size` of the value, and why patterns
were `skipped`."""


def _made(schema: Mapping[str, Any]) -> Any:
    """The validator of a schema, or the reason why there is none."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for
    from referencing import Registry

    reason = _unfit(schema)
    if reason is None:
        try:
            text = json.dumps(schema, sort_keys=True)
        except (TypeError, ValueError, RecursionError):
            text = ""
        # Many tools of a server have equal schemas, and to check one takes milliseconds.
        reason = _refused_text(text) if 0 < len(text) <= _LONGEST_REMEMBERED else _refused(schema)
    if reason is not None:
        return reason
    plain: Any = validator_for(schema, default=Draft202012Validator)
    # An empty registry: references to other documents are never fetched.
    return _guarded(plain)(_nameless(schema), registry=Registry())


_LONGEST_REMEMBERED = 16_384
"""Characters of a schema whose check is remembered."""


@lru_cache(maxsize=256)
def _refused_text(text: str) -> str | None:
    return _refused(json.loads(text))


def _refused(schema: Mapping[str, Any]) -> str | None:
    """Reason why a schema does not follow its own meta-schema; None if it does."""
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        plain: Any = validator_for(schema, default=Draft202012Validator)
        plain.check_schema(dict(schema), format_checker=FormatChecker(()))
    except SchemaError:
        return "the tool's schema is not valid"
    except RecursionError:
        return "the tool's schema is nested too deeply"
    except Exception:
        return "the tool's schema makes no sense"
    return None


def _nameless(schema: Any) -> Any:
    """Return a schema without the name of its dialect.

    For a name, `jsonschema` would take a class where nothing is counted.
    """
    return (
        {key: value for key, value in schema.items() if key != "$schema"}
        if isinstance(schema, Mapping)
        else schema
    )


def _unfit(schema: Mapping[str, Any]) -> str | None:
    """Reason why a schema is refused unused.

    Its size, or keywords that lead past the counting; None when it is fine.
    """
    pending: list[Any] = [schema]
    parts = values = 0
    words: set[str] = set()
    while pending:
        part = pending.pop()
        parts += isinstance(part, Mapping | list)
        values += 1
        if parts > MAX_SCHEMA_PARTS or values > _MOST_VALUES:
            return "the tool's schema is too large"
        if isinstance(part, Mapping):
            for key, value in part.items():
                if (
                    key in _REFERENCES
                    and isinstance(value, str)
                    and value != "#"
                    and not value.startswith("#/")
                ):
                    return "the tool's schema refers to something outside of it"
                if (
                    key in ("$schema", "$id", "id")
                    and isinstance(value, str)
                    and part is not schema
                ):
                    return "the tool's schema holds another schema with a name of its own"
            words.update(part)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    if {"patternProperties", "unevaluatedProperties"} <= words:
        return "the tool's schema joins `patternProperties` with `unevaluatedProperties`"
    return None


def _size(value: Any, most: int) -> int:
    """Size of a value: its parts, and its text by sixteens. Stops counting beyond `most`."""
    pending, size = [value], 0
    while pending and size <= most:
        part = pending.pop()
        size += 1
        if isinstance(part, str):
            size += len(part) >> 4
        elif isinstance(part, Mapping):
            size += sum(len(str(key)) >> 4 for key in part)
            pending += part.values()
        elif isinstance(part, list):
            pending += part
    return size


@lru_cache(maxsize=16)
def _guarded(plain: Any) -> Any:
    """Return a class of `jsonschema` whose keywords count what they do.

    They look for patterns in linear time.
    """
    from jsonschema import validators

    own = {
        "pattern": _pattern,
        "uniqueItems": _unique_items,
        "additionalProperties": _additional_properties,
    }
    if "patternProperties" in plain.VALIDATORS:
        own["patternProperties"] = _pattern_properties
    extend: Any = validators.extend
    return extend(
        plain,
        {name: _counted(name, function) for name, function in {**plain.VALIDATORS, **own}.items()},
    )


def _counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    compares = name in ("enum", "const", "uniqueItems")
    turns = name in (
        "not",
        "oneOf",
        "if",
        "contains",
    )  # into a mistake what fits, or what is only taken to fit

    def run(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        holds = isinstance(instance, list | dict)
        spend: Callable[[int], None] = _check.work.spend
        spend(
            _KEYWORD
            + (len(value) if isinstance(value, list | dict | str) else 0)
            + (len(instance) if holds else 0)
        )
        if compares and holds:
            spend(_check.size)
        skipped = len(_check.skipped)
        for error in function(validator, value, instance, schema) or ():
            if turns and len(_check.skipped) > skipped:
                return
            spend(_KEYWORD + _check.size // 4)  # it quotes the value
            yield error

    return run


@lru_cache(maxsize=128)
def _compiled(pattern: str) -> Any:
    """A pattern compiled by RE2, which searches in linear time.

    None for a pattern that RE2 refuses, such as a look-ahead.
    """
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors, options.never_capture = _PATTERN_MEMORY, False, True
    _check.work.spend(len(pattern))
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError):
        _check.work.spend(_REFUSED)
        return None
    _check.work.spend(compiled.programsize)
    return compiled


def _found(pattern: str, text: str) -> bool | None:
    """True if a pattern is found in a text; None where that is not known."""
    compiled = _compiled(pattern)
    if compiled is None:
        _check.skipped.append(
            f"the pattern {clean_line(pattern, 60)} cannot be looked for in a bounded time"
        )
        return None
    if not text.isascii() and _CLASSES.search(pattern):
        _check.skipped.append(
            f"what the pattern {clean_line(pattern, 60)} takes beyond ASCII differs from server to "
            "server"
        )
        return None
    encoded = _HALVES.sub("\ufffd", text).encode()
    _check.work.spend(len(encoded) * (1 + compiled.programsize // 32))
    return compiled.search(encoded) is not None


def _pattern(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if (
        isinstance(instance, str)
        and isinstance(pattern, str)
        and _found(pattern, instance) is False
    ):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not isinstance(instance, dict):
        return
    for pattern, part in patterns.items():
        for name, value in instance.items():
            if _found(pattern, name):
                yield from validator.descend(value, part, path=name, schema_path=pattern)


def _additional_properties(
    validator: Any, wanted: Any, instance: Any, schema: Any
) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        # A pattern that cannot be looked for may fit: what is not known is not refused.
        if name in known or any(_found(pattern, name) is not False for pattern in patterns):
            continue
        if wanted is False:
            yield ValidationError(
                f"Additional properties are not allowed ({name!r} was unexpected)"
            )
            return
        yield from validator.descend(value, wanted, path=name)


def _unique_items(validator: Any, wanted: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not wanted or not isinstance(instance, list):
        return
    seen = set()
    for item in instance:
        key = json.dumps(_without_points(item), sort_keys=True)
        if key in seen:
            yield ValidationError(f"{instance!r} has non-unique elements")
            return
        seen.add(key)


def _without_points(value: Any) -> Any:
    # 1 and 1.0 are the same number in JSON Schema.
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_without_points(item) for item in value]
    return (
        {key: _without_points(item) for key, item in value.items()}
        if isinstance(value, dict)
        else value
    )
