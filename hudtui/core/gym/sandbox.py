"""What a transform may use up: steps, time, text, items and digits, and how each is counted.

The limits are checked before an operation where it could be expensive, and after it where it cannot. A value's size is its
logical size: a list that holds the same big list a thousand times counts it a thousand times, because whatever prints, compares
or sends it does so, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from time import thread_time
from typing import Any

MAX_STEPS = 10_000
"""Expressions evaluated in one run; those inside a comprehension count once an item."""
MAX_SECONDS = 0.05
"""Processor time of the thread, so that a busy machine does not make a good transform fail."""
MAX_CHARACTERS = 1_000_000
"""Characters of text in one value, all its parts together."""
MAX_ITEMS = 100_000
"""Items of one value, all levels together."""
MAX_LEVELS = 500
"""Levels of lists and objects inside each other."""
MAX_BITS = 4096
"""Binary digits of a whole number."""
MAX_BYTES = 24_000_000
"""Memory that one run may ask for, all its large values together, whether still in use or not."""
MAX_NUMBER_TEXT = 6_000
"""Characters of a text that is turned into a number; enough for MAX_BITS in any base."""

LARGE = 4096
"""Texts and collections beyond this length make an operation worth a look at the clock."""

_STEPS_BETWEEN_LOOKS = 100

Frame = list[Any]
"""The variables of one run: its budget or None, the parameters, then the variables of comprehensions."""

COLLECTIONS = frozenset((list, tuple, set, dict))
SIZED = frozenset((list, tuple, set, dict, str, range))


class BudgetExceededError(Exception):
    """A run went beyond a limit; the text says which."""


class Budget:
    """What is left of one run's steps, time and memory."""

    __slots__ = ("deadline", "look_below", "room", "steps")

    def __init__(self) -> None:
        self.steps = MAX_STEPS
        self.look_below = MAX_STEPS - _STEPS_BETWEEN_LOOKS
        self.room = MAX_BYTES
        self.deadline = thread_time() + MAX_SECONDS

    def spend(self, steps: int) -> None:
        """Use up steps, with a look at the clock now and then.

        Raises:
            BudgetExceededError: Steps or time are used up.
        """
        self.steps -= steps
        if self.steps < self.look_below:
            if self.steps < 0:
                raise BudgetExceededError(f"it takes more than {MAX_STEPS:,} steps")
            self.look_below = self.steps - _STEPS_BETWEEN_LOOKS
            self.look()

    def look(self) -> None:
        """Look at the clock.

        Raises:
            BudgetExceededError: The time is up.
        """
        if thread_time() > self.deadline:
            raise BudgetExceededError(f"it takes longer than {MAX_SECONDS * 1000:.0f} ms")


def budget_of(frame: Frame) -> Budget:
    """The run's budget. It starts with the first operation that is worth counting; what came before cannot take long."""
    budget: Budget | None = frame[0]
    if budget is None:
        budget = frame[0] = Budget()
    return budget


def check_time(frame: Frame) -> None:
    """Stop the run when its time is up."""
    budget_of(frame).look()


def charge(frame: Frame, size: int) -> None:
    """Count memory against the run, and look at the clock.

    Args:
        frame: The run.
        size: Bytes, roughly.

    Raises:
        BudgetExceededError: The run has asked for too much, or its time is up.
    """
    budget = budget_of(frame)
    budget.room -= size
    if budget.room < 0:
        raise BudgetExceededError(f"it needs more than {MAX_BYTES // 1_000_000} MB")
    budget.look()


def checked_result(frame: Frame, value: Any) -> Any:
    """`value`, just made by a function or an operator, counted against the run when it is large."""
    kind = type(value)
    if kind is str:
        if len(value) > LARGE:
            if len(value) > MAX_CHARACTERS:
                raise too_long()
            charge(frame, sys.getsizeof(value))
    elif kind in COLLECTIONS:
        size = len(value)
        if size > LARGE:
            if size > MAX_ITEMS:
                raise too_many()
            charge(frame, sys.getsizeof(value) + 64 * size)
    return value


def too_long() -> BudgetExceededError:
    """The text limit is exceeded."""
    return BudgetExceededError(f"it makes a text of more than {MAX_CHARACTERS:,} characters")


def too_many() -> BudgetExceededError:
    """The item limit is exceeded."""
    return BudgetExceededError(f"it makes a value of more than {MAX_ITEMS:,} items")


def too_big() -> BudgetExceededError:
    """The number limit is exceeded."""
    return BudgetExceededError(f"it makes a number of more than {MAX_BITS:,} bits")


def check_text(text: str) -> str:
    """`text`, when it is within the limit."""
    if len(text) > MAX_CHARACTERS:
        raise too_long()
    return text


def check_number(value: Any) -> Any:
    """`value`, when it is no whole number beyond the limit."""
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise too_big()
    return value


def size_of(value: Any, items: int = 0, characters: int = 0) -> tuple[int, int]:
    """Items and characters of a value and all it holds, added to those given.

    Level by level rather than by recursion, and it stops as soon as a limit is exceeded, so that its cost is bounded.

    Raises:
        BudgetExceededError: A limit is exceeded.
    """
    kind = type(value)
    if kind not in COLLECTIONS:
        check_number(value)
        characters += len(value) if kind is str else 0
        if characters > MAX_CHARACTERS:
            raise too_long()
        return items, characters
    level = [value]
    for _ in range(MAX_LEVELS):
        items += sum(map(len, level))
        if items > MAX_ITEMS:
            raise too_many()
        members = list(chain.from_iterable(level))
        for collection in level:
            if type(collection) is dict:
                members += collection.values()
        kinds = set(map(type, members))
        if str in kinds:
            characters += sum(map(len, members if len(kinds) == 1 else [part for part in members if type(part) is str]))
            if characters > MAX_CHARACTERS:
                raise too_long()
        if kinds.isdisjoint(COLLECTIONS):
            return items, characters
        level = [part for part in members if type(part) in COLLECTIONS]
    raise BudgetExceededError("a value is nested too deeply")


class Load:
    """Counts what goes into a collection while it is built."""

    __slots__ = ("characters", "items")

    def __init__(self) -> None:
        self.items = 0
        self.characters = 0

    def add(self, value: Any) -> None:
        """Count one more item.

        Raises:
            BudgetExceededError: The collection would go beyond a limit.
        """
        self.items += 1
        kind = type(value)
        if kind is str or kind in COLLECTIONS:
            self.items, self.characters = size_of(value, self.items, self.characters)
        if self.items > MAX_ITEMS:
            raise too_many()

    def settle(self, frame: Frame) -> None:
        """Count the finished collection against the run."""
        if self.items > LARGE or self.characters > LARGE:
            charge(frame, 72 * self.items + 4 * self.characters)


def iter_checked(frame: Frame, iterable: Iterable[Any]) -> Iterator[Any]:
    """The items one by one, with an eye on their number and on the clock."""
    for count, item in enumerate(iterable, 1):
        if not count & 63:
            if count > MAX_ITEMS:
                raise too_many()
            check_time(frame)
        yield item


def materialise(frame: Frame, iterable: Any) -> Any:
    """Something to iterate over whose size is known and within the limits: the thing itself, or a list of its items.

    Raises:
        TypeError: It cannot be iterated over.
        BudgetExceededError: It has too many items, or making them takes too long.
    """
    if type(iterable) in SIZED:
        size = len(iterable)
        if size > MAX_ITEMS:
            raise too_many()
        if size > LARGE:
            check_time(frame)
        return iterable
    load = Load()
    result = []
    for item in iter_checked(frame, iterable):
        load.add(item)
        result.append(item)
    load.settle(frame)
    return result
