"""Looking for a pattern in a text in linear time.

Python's `re` tries one way after the other, and a pattern from elsewhere can have more ways than there is time for. Here all ways
are followed at once: a step through the text costs at most the size of the pattern. A look ahead is an
automaton of its own. A pattern with back references, looks behind or flags has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import Any

LONGEST = 1_000
"""Characters of a pattern; a longer one has no automaton."""
_MOST_STATES = 3_000

Spend = Callable[[int], None]
"""Told the steps that are about to be taken; raises when there have been too many."""
_Test = Callable[[str], bool]
_Condition = Callable[[str, int, Spend], bool]


class Automaton:
    """A pattern, ready to be looked for."""

    def __init__(self, items: Sequence[Any], room: int = _MOST_STATES) -> None:
        self._tests: list[_Test | None] = []
        """For a state that takes a character: whether it takes this one."""
        self._conditions: list[_Condition | None] = []
        """For a state that is passed at certain places alone: whether this is one."""
        self._next: list[tuple[int, ...]] = []
        self._room = room
        """States, and parts of the pattern, that there may still be."""
        self._end = self._add()
        self._start = self._sequence(items, self._end)

    def search(self, text: str, spend: Spend) -> bool:
        """Whether the pattern is found anywhere in the text, as `re.search` would.

        Args:
            text: Where to look.
            spend: Told the steps, place by place.
        """
        return self._run(text, 0, spend, anywhere=True)

    def _run(self, text: str, first: int, spend: Spend, *, anywhere: bool) -> bool:
        waiting = {self._start}
        for place in range(first, len(text) + 1):
            alive = self._reached(waiting, text, place, spend)
            spend(1 + len(alive))
            if self._end in alive:
                return True
            if place < len(text):
                character = text[place]
                waiting = {
                    self._next[state][0] for state in alive if (test := self._tests[state]) is not None and test(character)
                }
            if anywhere:
                waiting.add(self._start)
            elif not waiting:
                return False
        return False

    def _reached(self, states: set[int], text: str, place: int, spend: Spend) -> set[int]:
        """The states that can be reached from these without taking a character, themselves included."""
        found, left = set(states), list(states)
        while left:
            state = left.pop()
            condition = self._conditions[state]
            if self._tests[state] is not None or (condition is not None and not condition(text, place, spend)):
                continue
            fresh = [other for other in self._next[state] if other not in found]
            found.update(fresh)
            left += fresh
        return found

    def _add(self, *following: int, test: _Test | None = None, condition: _Condition | None = None) -> int:
        self._take(1)
        self._tests.append(test)
        self._conditions.append(condition)
        self._next.append(following)
        return len(self._next) - 1

    def _take(self, room: int) -> None:
        self._room -= room
        if self._room < 0:
            raise _IrregularError

    def _sequence(self, items: Sequence[Any], then: int) -> int:
        self._take(1)
        for operation, argument in reversed(items):
            then = self._one(str(operation), argument, then)
        return then

    def _one(self, operation: str, argument: Any, then: int) -> int:
        if operation == "AT":
            return self._add(then, condition=partial(_holds, str(argument)))
        if operation in ("ASSERT", "ASSERT_NOT") and argument[0] == 1:
            return self._add(then, condition=self._ahead(argument[1], operation == "ASSERT"))
        if operation == "SUBPATTERN" and not argument[1] and not argument[2]:
            return self._sequence(argument[3], then)
        if operation == "BRANCH":
            return self._add(*[self._sequence(option, then) for option in argument[1]])
        if operation in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, items = argument
            return self._repeated(least, most, items, then)
        return self._add(then, test=_test(operation, argument))

    def _ahead(self, items: Sequence[Any], wanted: bool) -> _Condition:
        inner = Automaton(items, self._room)
        self._take(self._room - inner._room)
        return lambda text, place, spend: inner._run(text, place, spend, anywhere=False) is wanted

    def _repeated(self, least: int, most: int, items: Sequence[Any], then: int) -> int:
        if str(most) == "MAXREPEAT":
            loop = self._add()
            self._next[loop] = (self._sequence(items, loop), then)
            then = loop
        else:
            end = then
            for _ in range(most - least):
                then = self._add(self._sequence(items, then), end)
        for _ in range(least):
            then = self._sequence(items, then)
        return then


class _IrregularError(Exception):
    """No automaton can do this, or it would be too large."""


@lru_cache(maxsize=256)
def automaton(pattern: str) -> Automaton | None:
    """The automaton of a pattern in Python's syntax; None for one that is too long, is not regular, or is no pattern."""
    if len(pattern) > LONGEST:
        return None
    parser: Any = import_module("re._parser")
    try:
        parsed = parser.parse(pattern)
        plain = parsed.state.flags == 32  # Unicode, and no flag of the pattern's own
        return Automaton(parsed) if plain else None
    except (_IrregularError, parser.error, RecursionError, OverflowError, ValueError):
        return None


def _test(operation: str, argument: Any) -> _Test:
    if operation == "LITERAL":
        wanted = chr(argument)
        return lambda character: character == wanted
    if operation == "NOT_LITERAL":
        unwanted = chr(argument)
        return lambda character: character != unwanted
    if operation == "ANY":
        return lambda character: character != "\n"
    if operation == "IN":
        return _one_of(argument)
    raise _IrregularError


def _one_of(members: Sequence[Any]) -> _Test:
    single = frozenset(chr(value) for kind, value in members if str(kind) == "LITERAL")
    ranges = [value for kind, value in members if str(kind) == "RANGE"]
    kinds = [_CATEGORIES[str(value)] for kind, value in members if str(kind) == "CATEGORY"]
    positive = not any(str(kind) == "NEGATE" for kind, _ in members)
    known: dict[str, bool] = {}

    def test(character: str) -> bool:
        found = known.get(character)
        if found is None:
            code = ord(character)
            inside = (
                character in single or any(low <= code <= high for low, high in ranges) or any(kind(character) for kind in kinds)
            )
            found = inside is positive
            if len(known) < 1_000:
                known[character] = found
        return found

    return test


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


_CATEGORIES: dict[str, _Test] = {
    "CATEGORY_DIGIT": str.isdecimal,
    "CATEGORY_NOT_DIGIT": lambda character: not character.isdecimal(),
    "CATEGORY_SPACE": str.isspace,
    "CATEGORY_NOT_SPACE": lambda character: not character.isspace(),
    "CATEGORY_WORD": _is_word,
    "CATEGORY_NOT_WORD": lambda character: not _is_word(character),
}


def _holds(where: str, text: str, place: int, spend: Spend) -> bool:
    if where in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return place == 0
    if where == "AT_END_STRING":
        return place == len(text)
    if where == "AT_END":
        return place == len(text) or (place == len(text) - 1 and text[place] == "\n")
    before = place > 0 and _is_word(text[place - 1])
    after = place < len(text) and _is_word(text[place])
    if not text:  # as `re` has it: an empty text has no boundary, and does not lack one
        return False
    return (before is not after) is (where == "AT_BOUNDARY")
