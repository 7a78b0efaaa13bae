"""Filtering, sorting and grouping the rows of a table.

Offers, machines, runs, tasks and episodes alike.
A filter is a line of terms, and a row must match all of them:

- `qwen`: a regular expression that is searched for in every text of the row; small letters match
  large ones;
- `state:running`: the same in one field;
- `reward:>0.5`, `step:<=40`: a comparison of a field that holds a number;
- `reward:0.1-0.9`: a range of such a field, both ends included;
- `-state:failed`, `!qwen`: the term must not match;
- `"two words"`, `name:"two words"`: a term with spaces, searched for literally.

A term that is not a valid regular expression is searched for literally. A term without a value,
such as `state:`, matches every row: the user may still be typing it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from hudtui.core.errors import InputError
from hudtui.core.text import clean_line

R = TypeVar("R")
Value = str | float | None
Fields = Mapping[str, Callable[[R], Value]]
"""The fields of a row by their names, in the order in which they are listed to users."""

NONE = "-"
"""Text for a missing value: the title of its group, and a filter that finds it (`model:^-$`)."""

_TERM = re.compile(
    r'(?P<no>[-!])?(?:(?P<field>[A-Za-z_][\w.-]*):)?(?:"(?P<quoted>[^"]*)"?|(?P<plain>\S*))'
    r"(?:\s+|$)"
)
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_COMPARISON = re.compile(r"(>=|<=|>|<|=)(.*)")
_RANGE = re.compile(r"(-?\d+(?:\.\d+)?|-?\.\d+)-(-?\d+(?:\.\d+)?|-?\.\d+)")


@dataclass(frozen=True)
class RowFilter(Generic[R]):
    """A filter that was read by `parse_filter`."""

    fields: frozenset[str]
    """The fields that the filter names."""
    terms: tuple[Callable[[R], bool], ...] = ()

    def matches(self, row: R) -> bool:
        """Return whether a row matches all terms."""
        return all(term(row) for term in self.terms)


def parse_filter(text: str, fields: Fields[R]) -> RowFilter[R]:
    """Read a filter.

    Args:
        text: The terms, separated by spaces.
        fields: The fields of the rows.

    Raises:
        InputError: A term names a field that does not exist, or compares with something that is not
            a number.
    """
    terms, named, place, text = [], set(), 0, text.strip()
    while place < len(text):
        match = _TERM.match(text, place)
        assert match is not None  # the pattern matches any text
        place = max(match.end(), place + 1)
        field, quoted = match["field"], match["quoted"]
        wanted = match["plain"] if quoted is None else quoted
        if field is not None:
            _require(field, fields)
            named.add(field)
        if wanted:
            test = _test(field, wanted, quoted is not None, fields)
            terms.append(_negated(test) if match["no"] else test)
    return RowFilter(frozenset(named), tuple(terms))


def arrange(
    rows: Iterable[R],
    fields: Fields[R],
    *,
    wanted: str = "",
    sort: str | None = None,
    reverse: bool = False,
) -> list[R]:
    """Return the rows that match a filter, sorted.

    Args:
        rows: All rows.
        fields: Their fields.
        wanted: The filter.
        sort: Field to sort by, the smallest value first; None keeps the order of the rows. Rows
            without a value come last.
        reverse: The largest value first; without `sort`, the order of the rows the other way round.

    Raises:
        InputError: See `parse_filter`; or the field to sort by does not exist.
    """
    conditions = parse_filter(wanted, fields)
    kept = [row for row in rows if conditions.matches(row)]
    if sort is None:
        return kept[::-1] if reverse else kept
    _require(sort, fields)
    value = fields[sort]
    with_value = sorted(
        (row for row in kept if value(row) is not None),
        key=lambda row: _order(value(row)),
        reverse=reverse,
    )
    return [*with_value, *(row for row in kept if value(row) is None)]


def group(rows: Iterable[R], fields: Fields[R], field: str) -> list[tuple[str, list[R]]]:
    """Return the rows by the values of a field.

    The values as text, in the order in which they first occur.

    Raises:
        InputError: The field does not exist.
    """
    _require(field, fields)
    groups: dict[str, list[R]] = {}
    for row in rows:
        groups.setdefault(value_text(fields[field](row)) or NONE, []).append(row)
    return list(groups.items())


def value_text(value: Value) -> str:
    """Return a value as one line of text; empty for a missing value."""
    if value is None:
        return ""
    return clean_line(value) if isinstance(value, str) else f"{value:.10g}"


def _require(field: str, fields: Fields[R]) -> None:
    if field not in fields:
        raise InputError(
            f"there is no field {clean_line(field, 40)!r}",
            fix=(
                f"The fields are {', '.join(fields)}. To search for a text with a colon, write it "
                "in quotation marks."
            ),
        )


def _order(value: Value) -> tuple[bool, float, tuple[tuple[int, str], ...]]:
    """Numbers come before texts.

    Texts are compared without regard to case, and the numbers in them as numbers: try-2, try-10.
    """
    if not isinstance(value, str):
        return False, value or 0.0, ()
    parts = re.split(r"([0-9]+)", value.casefold())
    numbers = (part.lstrip("0") for part in parts[1::2])
    parts[1::2] = numbers
    return True, 0.0, tuple((len(part) if at % 2 else 0, part) for at, part in enumerate(parts))


def _negated(test: Callable[[R], bool]) -> Callable[[R], bool]:
    return lambda row: not test(row)


def _test(field: str | None, wanted: str, literal: bool, fields: Fields[R]) -> Callable[[R], bool]:
    if field is not None and not literal and (comparison := _COMPARISON.fullmatch(wanted)):
        sign, text = comparison.groups()
        return _comparison(sign, text, field, fields[field])
    search = _pattern(wanted, literal).search
    if field is not None:
        value = fields[field]
        if not literal and (ends := _RANGE.fullmatch(wanted)):
            return _within(float(ends[1]), float(ends[2]), value, search)
        return lambda row: search(value_text(value(row)) or NONE) is not None
    values = tuple(fields.values())
    return lambda row: any(
        isinstance(found := value(row), str) and search(clean_line(found)) is not None
        for value in values
    )


def _comparison(
    sign: str, text: str, field: str, value: Callable[[R], Value]
) -> Callable[[R], bool]:
    if not text:
        return lambda row: True  # `reward:>` while the number is still to be typed

    def equal(row: R) -> bool:
        return value_text(value(row)).casefold() == text.casefold()

    try:
        bound = float(text)
    except ValueError:
        if sign == "=":
            return equal
        raise InputError(
            f"{field}:{sign}{clean_line(text, 40)} compares with something that is not a number"
        ) from None
    compare = _COMPARE[sign]

    def holds(row: R) -> bool:
        number = value(row)
        if isinstance(number, int | float):
            return compare(number, bound)
        return sign == "=" and equal(row)  # an id may be a text of digits

    return holds


def _within(
    low: float,
    high: float,
    value: Callable[[R], Value],
    search: Callable[[str], re.Match[str] | None],
) -> Callable[[R], bool]:
    """Test numbers by a range; in texts, such as a date, it is searched for like any other."""

    def holds(row: R) -> bool:
        held = value(row)
        if isinstance(held, int | float):
            return low <= held <= high
        return search(value_text(held) or NONE) is not None

    return holds


def _pattern(wanted: str, literal: bool) -> re.Pattern[str]:
    try:
        return re.compile(re.escape(wanted) if literal else wanted, re.IGNORECASE)
    except re.error:
        return re.compile(re.escape(wanted), re.IGNORECASE)
