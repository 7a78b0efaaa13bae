"""The functions and methods that transforms may call: Python's own, each behind the checks that keep it within the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice, zip_longest
from typing import Any

from hudtui.core.gym.sandbox import (
    LARGE,
    MAX_BITS,
    MAX_CHARACTERS,
    MAX_ITEMS,
    MAX_NUMBER_TEXT,
    SIZED,
    BudgetExceededError,
    Frame,
    check_number,
    check_text,
    check_time,
    iter_checked,
    materialise,
    size_of,
    too_long,
    too_many,
)
from hudtui.core.gym.transform_operators import to_text

Function = Callable[..., Any]
"""Takes the run's frame, then what the transform passes."""

_CHUNK = 128
_RUN = 2_048


def _number_text(value: Any) -> None:
    if type(value) is str and len(value) > MAX_NUMBER_TEXT and len(value.strip()) > MAX_NUMBER_TEXT:
        raise BudgetExceededError(f"a number of more than {MAX_NUMBER_TEXT:,} characters")


def _int(frame: Frame, *arguments: Any, **keywords: Any) -> Any:
    if arguments:
        _number_text(arguments[0])
    return check_number(int(*arguments, **keywords))


def _float(frame: Frame, *arguments: Any) -> Any:
    if arguments:
        _number_text(arguments[0])
    return float(*arguments)


def _str(frame: Frame, *arguments: Any) -> Any:
    return to_text(frame, arguments[0]) if len(arguments) == 1 else str(*arguments)


def _round(frame: Frame, *arguments: Any, **keywords: Any) -> Any:
    digits = keywords.get("ndigits", arguments[1] if len(arguments) > 1 else None)
    if isinstance(digits, int) and digits < -MAX_BITS and arguments and isinstance(arguments[0], int):
        raise BudgetExceededError("it rounds to more digits than any number here has")
    return check_number(round(*arguments, **keywords))


def _range(frame: Frame, *arguments: Any) -> Any:
    result = range(*arguments)
    if len(arguments) < 4 and _length_of_range(result) > MAX_ITEMS:
        raise too_many()
    return result


def _length_of_range(value: range) -> int:
    # len() itself fails on ranges that no machine can hold.
    if value.step > 0:
        return max(0, (value.stop - value.start + value.step - 1) // value.step)
    return max(0, (value.start - value.stop - value.step - 1) // -value.step)


def _all_or_any(function: Callable[[Iterable[Any]], bool]) -> Function:
    def run(frame: Frame, *arguments: Any) -> Any:
        if len(arguments) == 1:
            (values,) = arguments
            return function(values if type(values) in SIZED else iter_checked(frame, values))
        return function(*arguments)

    return run


def _extreme(function: Callable[..., Any]) -> Function:
    def run(frame: Frame, *arguments: Any, **keywords: Any) -> Any:
        if len(arguments) == 1:
            values = materialise(frame, arguments[0])
            result = function(values, **keywords)
            if len(values) > _CHUNK:
                check_time(frame)
            return result
        return function(*arguments, **keywords)

    return run


def _sum(frame: Frame, *arguments: Any, **keywords: Any) -> Any:
    if not arguments:
        return sum(*arguments, **keywords)
    values = materialise(frame, arguments[0])
    rest = arguments[1:]
    start = keywords.get("start", rest[0] if rest else 0)
    if len(rest) <= 1 and not (rest and keywords) and type(start) in (list, tuple):
        return _concatenated(frame, values, start)
    return check_number(sum(values, *rest, **keywords))


def _concatenated(frame: Frame, values: Iterable[Any], start: Any) -> Any:
    # sum() copies the growing result for each item. This gives the same result and the same refusals in one pass.
    kind = type(start)
    items, characters = size_of(start)
    result = list(start)
    empty: Any = kind()
    for value in values:
        if type(value) is not kind:
            return empty + value  # raises as Python does
        items, characters = size_of(value, items, characters)
        result.extend(value)
        if len(value) > LARGE:
            check_time(frame)
    return kind(result)


def _sorted(frame: Frame, *arguments: Any, **keywords: Any) -> Any:
    if len(arguments) != 1:
        return sorted(*arguments, **keywords)
    values = list(materialise(frame, arguments[0]))
    if len(values) <= _RUN:
        return sorted(values, **keywords)
    # In runs, merged two by two, with a look at the clock in between. Sorting is stable and quick on what is sorted already.
    runs: list[list[Any]] = []
    for start in range(0, len(values), _RUN):
        runs.append(sorted(values[start : start + _RUN], **keywords))
        check_time(frame)
    nothing: list[Any] = []
    while len(runs) > 1:
        merged = []
        for left, right in zip_longest(runs[::2], runs[1::2], fillvalue=nothing):
            merged.append(sorted(left + right, **keywords))
            check_time(frame)
        runs = merged
    return runs[0]


def _list(frame: Frame, *arguments: Any) -> Any:
    return list(materialise(frame, arguments[0])) if len(arguments) == 1 else list(*arguments)


def _tuple(frame: Frame, *arguments: Any) -> Any:
    return tuple(materialise(frame, arguments[0])) if len(arguments) == 1 else tuple(*arguments)


def _set(frame: Frame, *arguments: Any) -> Any:
    if len(arguments) != 1:
        return set(*arguments)
    # In pieces: numbers can be chosen so that each insertion looks at all that are there.
    source = iter(materialise(frame, arguments[0]))
    result: set[Any] = set()
    while chunk := list(islice(source, _CHUNK)):
        result.update(chunk)
        if len(result) > _CHUNK:
            check_time(frame)
    return result


def _dict(frame: Frame, *arguments: Any, **keywords: Any) -> Any:
    if len(arguments) != 1:
        return dict(*arguments, **keywords)
    (source,) = arguments
    if type(source) is dict:
        return {**source, **keywords}
    result: dict[Any, Any] = {}
    pairs = iter(materialise(frame, source))
    while chunk := list(islice(pairs, _CHUNK)):
        result.update(chunk)
        if len(result) > _CHUNK:
            check_time(frame)
    result.update(keywords)
    size_of(result)
    return result


def _plain(function: Callable[..., Any]) -> Function:
    return lambda frame, *arguments, **keywords: function(*arguments, **keywords)


def _len(frame: Frame, *arguments: Any) -> Any:
    return len(*arguments)


FUNCTIONS: dict[str, Function] = {
    "int": _int,
    "float": _float,
    "str": _str,
    "bool": _plain(bool),
    "len": _len,
    "abs": _plain(abs),
    "min": _extreme(min),
    "max": _extreme(max),
    "round": _round,
    "sum": _sum,
    "sorted": _sorted,
    "reversed": _plain(reversed),
    "range": _range,
    "list": _list,
    "tuple": _tuple,
    "dict": _dict,
    "set": _set,
    "enumerate": _plain(enumerate),
    "zip": _plain(zip),
    "any": _all_or_any(any),
    "all": _all_or_any(all),
    "ord": _plain(ord),
    "chr": _plain(chr),
    "divmod": _plain(divmod),
}
"""Every function but `isinstance`, whose second argument is no value."""

KEYWORDS: dict[str, frozenset[str] | None] = {
    "int": frozenset({"base"}),
    "round": frozenset({"ndigits", "number"}),
    "sum": frozenset({"start"}),
    "min": frozenset({"default"}),
    "max": frozenset({"default"}),
    "sorted": frozenset({"reverse"}),
    "enumerate": frozenset({"start"}),
    "zip": frozenset({"strict"}),
    "dict": None,
}
"""Keyword arguments that a function takes; None for any."""

CONSUMES = frozenset({"sum", "sorted", "list", "tuple", "dict", "set", "any", "all", "min", "max", "join"})
"""Functions that use up a generator before they return."""

PASSES_ON = frozenset({"enumerate", "zip"})
"""Functions whose result uses up a generator when it is itself used up."""

TYPES: dict[str, type] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "range": range,
    "enumerate": enumerate,
    "zip": zip,
    "reversed": reversed,
}
"""What `isinstance` may ask for."""


def _bounded_split(method: str) -> Function:
    def run(frame: Frame, text: str, sep: Any = None, maxsplit: Any = -1) -> Any:
        if type(maxsplit) is int and (maxsplit < 0 or maxsplit > MAX_ITEMS):
            maxsplit = MAX_ITEMS
        if method == "rsplit" and _slow_from_the_right(text, sep):
            backwards = text[::-1].split(sep[::-1], maxsplit)
            result = [part[::-1] for part in reversed(backwards)]
        else:
            result = text.split(sep, maxsplit) if method == "split" else text.rsplit(sep, maxsplit)
        if len(result) > MAX_ITEMS:
            raise too_many()
        if len(text) > LARGE:
            check_time(frame)
        return result

    return run


def _slow_from_the_right(text: str, part: Any) -> bool:
    # Searching from the right compares each place in full, in the worst case.
    return type(part) is str and len(part) > 1 and len(text) * len(part) > 1_000_000


def _rfind(frame: Frame, text: str, part: Any, *place: Any) -> Any:
    if _slow_from_the_right(text, part) and all(bound is None or isinstance(bound, int) for bound in place) and len(place) < 3:
        start, end, _ = slice(*(*place, None, None)[:2]).indices(len(text))
        found = text[start:end][::-1].find(part[::-1])
        check_time(frame)
        return -1 if found < 0 else end - found - len(part)
    return text.rfind(part, *place)


def _rpartition(frame: Frame, text: str, sep: Any) -> Any:
    if _slow_from_the_right(text, sep):
        found = _rfind(frame, text, sep)
        return ("", "", text) if found < 0 else (text[:found], sep, text[found + len(sep) :])
    return text.rpartition(sep)


def _stripped(function: Callable[..., str]) -> Function:
    def run(frame: Frame, text: str, *arguments: Any) -> Any:
        if arguments and type(arguments[0]) is str and len(text) * len(arguments[0]) > 1_000_000:
            # Each character of the text is looked for among all of those.
            characters = "".join(set(arguments[0])) if len(arguments[0]) <= MAX_ITEMS else arguments[0]
            if len(text) * len(characters) > 20_000_000:
                raise BudgetExceededError("it strips too many different characters")
            arguments = (characters, *arguments[1:])
            check_time(frame)
        return function(text, *arguments)

    return run


def _replace(frame: Frame, text: str, *arguments: Any) -> Any:
    if len(arguments) >= 2 and type(arguments[0]) is str and type(arguments[1]) is str:
        old, new = arguments[0], arguments[1]
        growth = len(new) - len(old)
        if growth > 0 and (len(text) + 1) * growth + len(text) > MAX_CHARACTERS:
            count = text.count(old)
            if len(arguments) > 2 and isinstance(arguments[2], int) and arguments[2] >= 0:
                count = min(count, arguments[2])
            if len(text) + count * growth > MAX_CHARACTERS:
                raise too_long()
        if len(text) > LARGE:
            check_time(frame)
    return text.replace(*arguments)


def _join(frame: Frame, text: str, *arguments: Any) -> Any:
    if len(arguments) != 1:
        return text.join(*arguments)
    parts = materialise(frame, arguments[0])
    total = len(text) * max(len(parts) - 1, 0) + (
        len(parts) if type(parts) is str else sum(len(part) for part in parts if type(part) is str)
    )
    if total > MAX_CHARACTERS:
        raise too_long()
    if total > LARGE:
        check_time(frame)
    return text.join(parts)


def _padded(function: Callable[..., str]) -> Function:
    def run(frame: Frame, text: str, *arguments: Any) -> Any:
        if arguments and isinstance(arguments[0], int) and arguments[0] > MAX_CHARACTERS:
            raise too_long()
        return function(text, *arguments)

    return run


_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def _splitlines(frame: Frame, text: str, *arguments: Any, **keywords: Any) -> Any:
    if len(text) > MAX_ITEMS and sum(map(text.count, _LINE_ENDS)) > MAX_ITEMS:
        raise too_many()
    if len(text) > LARGE:
        check_time(frame)
    return text.splitlines(*arguments, **keywords)


def _on_text(function: Callable[..., Any]) -> Function:
    def run(frame: Frame, text: str, *arguments: Any) -> Any:
        if len(text) > LARGE:
            check_time(frame)
            result = function(text, *arguments)
            return check_text(result) if type(result) is str else result
        return function(text, *arguments)

    return run


def _on_collection(function: Callable[..., Any]) -> Function:
    def run(frame: Frame, values: Any, *arguments: Any) -> Any:
        result = function(values, *arguments)
        if len(values) > _CHUNK:
            check_time(frame)
        return result

    return run


def _get(frame: Frame, values: dict[Any, Any], *arguments: Any) -> Any:
    return values.get(*arguments)


METHODS: dict[str, dict[type, Function]] = {
    "split": {str: _bounded_split("split")},
    "rsplit": {str: _bounded_split("rsplit")},
    "strip": {str: _stripped(str.strip)},
    "lstrip": {str: _stripped(str.lstrip)},
    "rstrip": {str: _stripped(str.rstrip)},
    "replace": {str: _replace},
    "join": {str: _join},
    "rfind": {str: _rfind},
    "rpartition": {str: _rpartition},
    "zfill": {str: _padded(str.zfill)},
    "ljust": {str: _padded(str.ljust)},
    "rjust": {str: _padded(str.rjust)},
    "center": {str: _padded(str.center)},
    "splitlines": {str: _splitlines},
    "get": {dict: _get},
    "keys": {dict: _on_collection(dict.keys)},
    "values": {dict: _on_collection(dict.values)},
    "items": {dict: _on_collection(dict.items)},
    "index": {str: _on_text(str.index), list: _on_collection(list.index), tuple: _on_collection(tuple.index)},
    "count": {str: _on_text(str.count), list: _on_collection(list.count), tuple: _on_collection(tuple.count)},
    **{
        name: {str: _on_text(getattr(str, name))}
        for name in (
            "upper",
            "lower",
            "title",
            "capitalize",
            "swapcase",
            "startswith",
            "endswith",
            "find",
            "isdigit",
            "isalpha",
            "isalnum",
            "isspace",
            "partition",
            "removeprefix",
            "removesuffix",
        )
    },
}
"""Method name -> type of the value -> the method."""

QUICK = frozenset(name for name, table in METHODS.items() if table.keys() == {str}) - {"join"}
"""Methods of text alone. On a short text, with short constants, they need no checks."""

METHOD_KEYWORDS: dict[str, frozenset[str]] = {
    "split": frozenset({"sep", "maxsplit"}),
    "rsplit": frozenset({"sep", "maxsplit"}),
    "splitlines": frozenset({"keepends"}),
}
