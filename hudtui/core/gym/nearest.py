"""Names that are nearly the one that was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LONGEST = 80


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like `word`, for a "did you mean"; None when none does."""
    if len(word) > _LONGEST:
        return None
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), names, 1, 0.7)
    return names[found[0]] if found else None


def confident_match(word: str, known: Iterable[str]) -> str | None:
    """The known name that can only have been meant, sure enough to put it in unasked; None when there is any doubt.

    Sure is one that differs in nothing but case, blanks, `-` and `_`; and one that is a single slip away (a letter too many, too
    few, wrong, or two swapped) while no other is within two. A slip in a digit is never sure: `click1` and `click2` differ.
    """
    if len(word) > _LONGEST:
        return None
    names = list(dict.fromkeys(known))
    if word in names:
        return word
    same = [name for name in names if _plain(name) == _plain(word)]
    if same:
        return same[0] if len(same) == 1 else None
    if len(word) < 3:
        return None
    close = [name for name in names if abs(len(name) - len(word)) <= 2 and _slips(word.lower(), name.lower()) <= 2]
    if len(close) != 1 or max(len(close[0]), len(word)) < 4 or _slips(word.lower(), close[0].lower()) > 1:
        return None
    return close[0] if re.sub(r"\D", "", word) == re.sub(r"\D", "", close[0]) else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _slips(one: str, two: str) -> int:
    """How many letters must be put in, taken out, changed or swapped with their neighbour to get from one to the other."""
    before: list[int] = []
    row = list(range(len(two) + 1))
    for i, left in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, right in enumerate(two, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == two[j - 2] and one[i - 2] == right:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
