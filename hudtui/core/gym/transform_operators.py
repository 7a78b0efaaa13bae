"""The operators of transforms: Python's own, behind a check of what they are about to make."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hudtui.core.gym.sandbox import (
    COLLECTIONS,
    LARGE,
    MAX_BITS,
    MAX_CHARACTERS,
    MAX_ITEMS,
    BudgetExceededError,
    Frame,
    check_number,
    check_text,
    check_time,
    size_of,
    too_big,
    too_long,
    too_many,
)

Binary = Callable[[Frame, Any, Any], Any]

_JOINABLE = frozenset((list, tuple))
_NUMBERS = frozenset((int, float, bool))

MAX_PRECISION = 4_096
"""Digits behind the point that a format may ask for."""


def _add(frame: Frame, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind in _NUMBERS:
        return check_number(left + right)
    if kind is str and type(right) is str:
        if len(left) + len(right) > MAX_CHARACTERS:
            raise too_long()
    elif kind in _JOINABLE and type(right) is kind:
        _weigh_together(frame, left, right)
    return left + right


def _weigh_together(frame: Frame, left: Any, right: Any) -> None:
    items, characters = size_of(left)
    items, characters = size_of(right, items, characters)
    if items > LARGE or characters > LARGE:
        check_time(frame)


def _subtract(frame: Frame, left: Any, right: Any) -> Any:
    return check_number(left - right) if type(left) in _NUMBERS else _combined(operator.sub, frame, left, right)


def _multiply(frame: Frame, left: Any, right: Any) -> Any:
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        # Both are within the limit or come from the agent's text, so that the product is cheap to make.
        return check_number(left * right)
    thing, times = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(times, int) and times > 0:
        if type(thing) is str:
            if len(thing) * times > MAX_CHARACTERS:
                raise too_long()
        elif type(thing) in _JOINABLE:
            items, characters = size_of(thing)
            if items * times > MAX_ITEMS:
                raise too_many()
            if characters * times > MAX_CHARACTERS:
                raise too_long()
            if items * times > LARGE:
                check_time(frame)
    return left * right


def _power(frame: Frame, base: Any, exponent: Any) -> Any:
    # The result has at least (bits - 1) * exponent bits.
    if (
        isinstance(base, int)
        and isinstance(exponent, int)
        and exponent > 0
        and (abs(base).bit_length() - 1) * exponent > MAX_BITS
    ):
        raise too_big()
    return check_number(base**exponent)


def _shift_left(frame: Frame, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left and right > 0 and left.bit_length() + right > MAX_BITS:
        raise too_big()
    return left << right


def _modulo(frame: Frame, left: Any, right: Any) -> Any:
    return _percent(frame, left, right) if type(left) is str else left % right


_PERCENT = re.compile(
    r"%(?:\((?P<name>[^()]*)\))?(?P<flags>[-#0 +]*)(?P<width>\*|[0-9]*)(?:\.(?P<precision>\*|[0-9]*))?[hlL]?(?P<kind>[a-zA-Z%])",
    re.ASCII,
)


def _percent(frame: Frame, text: str, values: Any) -> str:
    """`text % values`, one mark after the other, so that the text cannot grow beyond its limit in between.

    Raises:
        TypeError: As Python's, and for a width or precision that is taken from the values (`*`).
        ValueError: As Python's.
        BudgetExceededError: The text, a width or a precision is beyond its limit.
    """
    waiting: Iterator[Any] = iter(values if type(values) is tuple else (values,))
    parts: list[str] = []
    size = at = 0
    while (begin := text.find("%", at)) >= 0:
        if text.startswith("%(", begin) and not isinstance(values, Mapping):
            raise TypeError("format requires a mapping")
        mark = _PERCENT.match(text, begin)
        if mark is None:
            raise ValueError("incomplete format")
        width, precision = mark["width"], mark["precision"] or "0"
        if "*" in width + precision:
            raise TypeError("a width of * is not available here")
        if len(width) > 9 or (width and int(width) > MAX_CHARACTERS):
            raise too_long()
        if len(precision) > 9 or int(precision) > MAX_PRECISION:
            raise BudgetExceededError(f"it formats with more than {MAX_PRECISION:,} digits")
        name, whole = mark["name"], mark[0]
        if mark["kind"] == "%" and whole != "%%":
            raise ValueError("unsupported format character '%'")
        if name is not None:
            waiting = iter(())
            check_printable(frame, values[name])
            found = whole % {name: values[name]}
        elif whole == "%%":
            found = "%"
        else:
            try:
                value = next(waiting)
            except StopIteration:
                raise TypeError("not enough arguments for format string") from None
            check_printable(frame, value)
            found = whole % (value,)
        size += begin - at + len(found)
        if size > MAX_CHARACTERS:
            raise too_long()
        parts += (text[at:begin], found)
        at = mark.end()
    if not isinstance(values, Mapping | list | range) and next(waiting, _percent) is not _percent:
        raise TypeError("not all arguments converted during string formatting")
    return check_text("".join(parts) + text[at:])


def _combined(function: Callable[[Any, Any], Any], frame: Frame, left: Any, right: Any) -> Any:
    """Union, intersection and difference of sets, dicts and the views of dicts."""
    result = function(left, right)
    if type(result) in COLLECTIONS:
        size_of(result)
        check_time(frame)
    return result


def _plain(function: Callable[[Any, Any], Any]) -> Binary:
    return lambda frame, left, right: function(left, right)


def _setwise(function: Callable[[Any, Any], Any]) -> Binary:
    def run(frame: Frame, left: Any, right: Any) -> Any:
        return function(left, right) if type(left) in _NUMBERS else _combined(function, frame, left, right)

    return run


BINARY: dict[str, Binary] = {
    "Add": _add,
    "Sub": _subtract,
    "Mult": _multiply,
    "Div": _plain(operator.truediv),
    "FloorDiv": _plain(operator.floordiv),
    "Mod": _modulo,
    "Pow": _power,
    "LShift": _shift_left,
    "RShift": _plain(operator.rshift),
    "BitAnd": _setwise(operator.and_),
    "BitOr": _setwise(operator.or_),
    "BitXor": _setwise(operator.xor),
}

UNARY: dict[str, Callable[[Any], Any]] = {
    "UAdd": operator.pos,
    "USub": operator.neg,
    "Invert": operator.invert,
    "Not": operator.not_,
}

PLAIN_COMPARISON: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "In": lambda left, right: left in right,
    "NotIn": lambda left, right: left not in right,
    "Is": operator.is_,
    "IsNot": operator.is_not,
}


def _guarded(function: Callable[[Any, Any], Any]) -> Binary:
    def run(frame: Frame, left: Any, right: Any) -> Any:
        result = function(left, right)
        if type(right) not in _NUMBERS and type(right) is not str:
            check_time(frame)
        return result

    return run


COMPARISON: dict[str, Binary] = {name: _guarded(function) for name, function in PLAIN_COMPARISON.items()}

_SPEC = re.compile(r"(?:(?s:.)?[<>=^])?[-+ ]?z?#?0?(?P<width>[0-9]*)[,_]?(?:\.(?P<precision>[0-9]+))?[bcdeEfFgGosxX%]?\Z")


def check_spec(spec: str) -> None:
    """Refuse a format spec that is not of the simple kind or asks for too much.

    Raises:
        ValueError: It is not `[[fill]align][sign][z][#][0][width][,][.precision][type]`.
        BudgetExceededError: Its width or precision is beyond the limit.
    """
    found = _SPEC.match(spec)
    if found is None:
        raise ValueError(f"the format spec {spec[:40]!r} is not available here")
    width, precision = found["width"], found["precision"] or "0"
    if len(width) > 9 or (width and int(width) > MAX_CHARACTERS):
        raise too_long()
    if len(precision) > 9 or int(precision) > MAX_PRECISION:
        raise BudgetExceededError(f"it formats with more than {MAX_PRECISION:,} digits")


_LONGEST = {int: 1_300, float: 32, bool: 5, complex: 70, type(None): 4}


def check_printable(frame: Frame, value: Any) -> None:
    """Make sure that `str(value)` or `repr(value)` is within the limit, before it is made.

    Raises:
        TypeError: It has no text that means anything, like an iterator's.
        BudgetExceededError: The text could be far too long.
    """
    kind = type(value)
    if kind is str:
        return
    if kind in COLLECTIONS:
        items, characters = size_of(value)
        if items > LARGE or characters > LARGE:
            check_time(frame)
        total = 0
        pending = [value]
        while pending:
            for part in _parts(pending.pop()):
                inner = type(part)
                if inner in COLLECTIONS:
                    pending.append(part)
                elif inner is str:
                    total += len(part) + 2
                elif inner is int:
                    total += part.bit_length() // 4 + 2
                else:
                    _check_kind(inner)
                total += 2
            if total > MAX_CHARACTERS:
                raise too_long()
        return
    if kind not in _LONGEST and kind is not range:
        if kind in (type({}.keys()), type({}.values()), type({}.items())):
            check_printable(frame, list(value))
            return
        _check_kind(kind)


def _parts(value: Any) -> Any:
    return [*value.keys(), *value.values()] if type(value) is dict else value


def _check_kind(kind: type) -> None:
    if kind not in _LONGEST and kind is not range and kind is not str:
        raise TypeError(f"a value of type {kind.__name__} cannot be turned into text")


def to_text(frame: Frame, value: Any) -> str:
    """`str(value)` within the limit."""
    if type(value) is str:
        return value
    check_printable(frame, value)
    return check_text(str(value))


def formatted(frame: Frame, value: Any, conversion: int, spec: str) -> str:
    """One field of an f-string.

    Args:
        frame: The run.
        value: What is formatted.
        conversion: The code of `s`, `r` or `a`, or -1.
        spec: The format spec, already checked when it is a constant.
    """
    if conversion == 115 or (conversion == -1 and not spec and type(value) is not str):
        value = to_text(frame, value)
    elif conversion != -1:
        if type(value) is str:
            check_text(value)
        check_printable(frame, value)
        value = check_text(repr(value) if conversion == 114 else ascii(value))
    if not spec:
        return value if type(value) is str else check_text(format(value, ""))
    check_spec(spec)
    return check_text(format(value, spec))
