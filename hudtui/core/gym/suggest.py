"""Scalars that a JSON Schema may accept: numbers by its bounds, texts by its format, its pattern and the parameter's name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hudtui.core.gym.patterns import sample_matches

_LONGEST_TEXT = 200
_LARGEST = 1e300

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
_TEXTS: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"url", "uri", "href", "link"}), "https://example.com"),
    (frozenset({"path", "file", "filename"}), "notes.txt"),
    (frozenset({"query", "search", "question"}), "weather tomorrow"),
    (frozenset({"email", "mail"}), "name@example.com"),
    (frozenset({"date", "day"}), "2025-01-31"),
    (frozenset({"key", "keys"}), "enter"),
    (frozenset({"command", "cmd"}), "ls"),
    (frozenset({"timezone", "tz"}), "Europe/Paris"),
    (frozenset({"name", "title"}), "example"),
)
"""Parts of a parameter's name, and the text that suits it."""


def number_of(plain: Mapping[str, Any], word: str) -> int | float | None:
    """The number that a keyword holds; None where it holds none, or one beyond all use."""
    found = plain.get(word)
    return found if isinstance(found, int | float) and not isinstance(found, bool) and abs(found) < _LARGEST else None


def count_of(plain: Mapping[str, Any], word: str, most: int) -> int:
    """The whole number that a keyword holds, from 0 to `most`; 0 where it holds none."""
    found = number_of(plain, word)
    return min(max(int(found), 0), most) if found is not None else 0


def numbers(plain: Mapping[str, Any], *, whole: bool) -> Iterator[int | float]:
    """Numbers around the bounds of a schema and on its steps, the plainest first; not all of them fit.

    Args:
        plain: The schema, references resolved.
        whole: Only whole numbers are of use.
    """
    low, high = number_of(plain, "minimum"), number_of(plain, "maximum")
    above, below = number_of(plain, "exclusiveMinimum"), number_of(plain, "exclusiveMaximum")
    step = number_of(plain, "multipleOf")
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
            yield from (_tidy(bound, whole) + away, *(() if whole else (bound + away * 0.5, bound + away * 0.001)))
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


def texts(plain: Mapping[str, Any], name: str) -> Iterator[str]:
    """Texts that look natural, made to fit the lengths of a schema; not all of them fit.

    Args:
        plain: The schema, references resolved.
        name: Of the parameter: an address for `url`, a file name for `path`.
    """
    form, pattern = plain.get("format"), plain.get("pattern")
    natural = _FORMATS.get(form, "") if isinstance(form, str) else ""
    if not natural:
        parts = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:200]).lower()))
        natural = next((text for words, text in _TEXTS if parts & words), "hello")
    least, most = count_of(plain, "minLength", _LONGEST_TEXT), number_of(plain, "maxLength")
    if isinstance(pattern, str):
        yield from sample_matches(pattern, least)
    plain_ones = [natural, "hello", "a", "1", "abc", "A", "2025-01-31", "a@b.co", "https://example.com", ""]
    for text in plain_ones:
        fitted = text + "x" * (least - len(text)) if len(text) < least else text
        yield fitted if most is None or len(fitted) <= most else fitted[: max(int(most), 0)]


def more_like(like: list[Any], count: int) -> list[Any]:
    """Further values of the kind of the first one, none alike."""
    first = like[0] if like else "x"
    if isinstance(first, str):
        return [f"{first}{number}" for number in range(2, count + 2)]
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        return [first + number for number in range(1, count + 1)]
    return []
