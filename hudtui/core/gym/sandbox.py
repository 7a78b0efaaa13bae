"""The sandbox of transforms: the budget of a run, and the guards that a compiled transform calls in place of Python's operators.

A compiled transform (see `transform`) holds no operator, call, attribute, subscript or loop of its own. It calls the functions of
`GUARDS`, which check before an operation what could be expensive, and after it what was made. All values are of Python's built-in
types, and no guard returns a function, a type or a module.

A value's size is its logical size: a list that holds the same big list a thousand times counts it a thousand times, because
whatever prints, compares or sends it does so, too. Each guard that walks through a value, or hashes it, checks that size first:
the tuples that `zip` gives may be of any size.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count, islice, repeat, zip_longest
from time import thread_time
from typing import Any, Final

MAX_STEPS = 10_000
"""Expressions evaluated inside comprehensions in one run."""
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
MAX_PRECISION = 4_096
"""Digits after the decimal point that a format may ask for."""

LARGE = 1024
"""Texts and collections beyond this length make an operation worth a look at the clock."""

_STEPS_BETWEEN_CHECKS = 100
_CHUNK = 64
_SORTED_RUN = 2_048
_NUMBERS = frozenset((int, float, bool))
_SEQUENCES = frozenset((list, tuple))
_COLLECTIONS = frozenset((list, tuple, set, dict))
_SIZED = frozenset((list, tuple, set, dict, str, range))
_VIEWS = frozenset((type({}.keys()), type({}.values()), type({}.items())))

Guard = Callable[..., Any]
"""Takes the run's budget first, unless it is one of Python's own functions or takes no time."""

GUARDS: dict[str, Guard] = {}
"""All that a compiled transform can call: operators by the name of their syntax node, functions, methods with a dot before them,
and the helpers that stand for other syntax."""


def _guard(name: str) -> Callable[[Guard], Guard]:
    def register(function: Guard) -> Guard:
        GUARDS[name] = function
        return function

    return register


class BudgetExceededError(Exception):
    """A run went beyond a limit; the text says which."""


def _too_long() -> BudgetExceededError:
    return BudgetExceededError(f"it makes a text of more than {MAX_CHARACTERS:,} characters")


def _too_many() -> BudgetExceededError:
    return BudgetExceededError(f"it makes a value of more than {MAX_ITEMS:,} items")


def _too_big() -> BudgetExceededError:
    return BudgetExceededError(f"it makes a number of more than {MAX_BITS:,} bits")


class Budget:
    """What one run has used up. The clock starts with the first check: what comes before it cannot take long."""

    _steps = 0
    _checked_at = 0
    _memory = 0
    _deadline: float | None = None

    def spend(self, steps: int) -> None:
        """Use up steps, and check the clock every hundred of them."""
        self._steps += steps
        if self._steps > self._checked_at + _STEPS_BETWEEN_CHECKS:
            if self._steps > MAX_STEPS:
                raise BudgetExceededError(f"it takes more than {MAX_STEPS:,} steps")
            self._checked_at = self._steps
            self.check_time()

    def check_time(self) -> None:
        """Raise `BudgetExceededError` when the run's time is up."""
        now = thread_time()
        if self._deadline is None:
            self._deadline = now + MAX_SECONDS
        elif now > self._deadline:
            raise BudgetExceededError(f"it takes longer than {MAX_SECONDS * 1000:.0f} ms")

    def allocate(self, size: int) -> None:
        """Use up memory, about `size` bytes, and check the clock."""
        self._memory += size
        if self._memory > MAX_BYTES:
            raise BudgetExceededError(f"it needs more than {MAX_BYTES // 1_000_000} MB")
        self.check_time()


# Sizes


def size_of(value: Any, items: int = 0, characters: int = 0) -> tuple[int, int]:
    """Count the items and characters of a value and of everything in it.

    The count goes level by level and stops at the first limit, so that its cost is bounded for any value.

    Args:
        value: Any value.
        items: Items counted so far.
        characters: Characters counted so far.

    Returns:
        The items and the characters, added to those given.

    Raises:
        BudgetExceededError: A limit is exceeded.
    """
    if type(value) not in _COLLECTIONS:
        check_number(value)
        characters += len(value) if type(value) is str else 0
        if characters > MAX_CHARACTERS:
            raise _too_long()
        return items, characters
    level = [value]
    for _ in range(MAX_LEVELS):
        items += sum(map(len, level))
        if items > MAX_ITEMS:
            raise _too_many()
        members = list(chain.from_iterable(level))
        for collection in level:
            if type(collection) is dict:
                members += collection.values()
        kinds = set(map(type, members))
        if str in kinds:
            characters += sum(map(len, members if len(kinds) == 1 else [part for part in members if type(part) is str]))
            if characters > MAX_CHARACTERS:
                raise _too_long()
        if kinds.isdisjoint(_COLLECTIONS):
            return items, characters
        level = [part for part in members if type(part) in _COLLECTIONS]
    raise BudgetExceededError("a value is nested too deeply")


def check_argument(value: Any) -> None:
    """Raise `BudgetExceededError` for a value that is too large to be given to a transform."""
    if type(value) in _COLLECTIONS or (type(value) is str and len(value) > LARGE):
        size_of(value)
    else:
        check_number(value)


def check_number(value: Any) -> Any:
    """Return `value`, unless it is a whole number beyond the limit."""
    if type(value) is int and value.bit_length() > MAX_BITS:
        raise _too_big()
    return value


def check_result(budget: Budget, value: Any) -> Any:
    """Return a value that an operation just made, charged to the budget when it is large."""
    kind = type(value)
    if kind is int:
        if value.bit_length() > MAX_BITS:
            raise _too_big()
    elif kind is str:
        if len(value) > LARGE:
            if len(value) > MAX_CHARACTERS:
                raise _too_long()
            budget.allocate(sys.getsizeof(value))
    elif kind in _COLLECTIONS and len(value) > LARGE:
        if len(value) > MAX_ITEMS:
            raise _too_many()
        budget.allocate(sys.getsizeof(value) + 64 * len(value))
    return value


@_guard("built")
def check_built(budget: Budget, value: Any) -> Any:
    """Return a collection that was just built from parts of any size, charged to the budget when it is large."""
    items, characters = size_of(value)
    if items > LARGE or characters > LARGE:
        budget.allocate(72 * items + 4 * characters)
    return value


# Iteration


@_guard("loop")
def loop(budget: Budget, steps: int, source: Iterable[Any]) -> Iterator[Any]:
    """Iterate over the source of a comprehension, and charge each item with the expressions that are evaluated for it."""
    return _charged(budget, steps, iter(source))  # a source that cannot be iterated over fails here, as in Python


def _charged(budget: Budget, steps: int, source: Iterator[Any]) -> Iterator[Any]:
    for item in source:
        budget.spend(steps)
        yield item


def iter_checked(budget: Budget, source: Iterable[Any]) -> Iterator[Any]:
    """Iterate with checks of the clock and of the number of items."""
    for number, item in enumerate(source, 1):
        if number % _CHUNK == 0:
            if number > MAX_ITEMS:
                raise _too_many()
            budget.check_time()
        yield item


@_guard("materialise")
def materialise(budget: Budget, source: Any) -> Any:
    """Return the source itself if its length is known, else a list of its items.

    Raises:
        TypeError: The source cannot be iterated over.
        BudgetExceededError: It has too many items, or producing them takes too long.
    """
    if type(source) in _SIZED:
        if len(source) > MAX_ITEMS:
            raise _too_many()
        items, characters = size_of(source)
        if items > LARGE or characters > LARGE:
            budget.check_time()
        return source
    result: list[Any] = []
    items = characters = 0
    iterator = iter(source)
    while chunk := list(islice(iterator, _CHUNK)):
        items, characters = size_of(chunk, items, characters)
        result += chunk
        if len(chunk) == _CHUNK:
            budget.check_time()
    return check_built(budget, result) if items > LARGE or characters > LARGE else result


# Displays: lists, tuples, sets and dicts that are written out. Their size is checked before anything in them is hashed.


@_guard("Set")
def _new_set(budget: Budget, members: tuple[Any, ...]) -> set[Any]:
    check_built(budget, members)
    return set(members)


@_guard("Dict")
def new_dict(budget: Budget, *pairs: Any) -> dict[Any, Any]:
    """Build `{key: value, **other}` from keys and values in turn; a `**` is the key `UNPACK`."""
    check_built(budget, pairs)
    result: dict[Any, Any] = {}
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        if key is UNPACK:
            result.update(value)
        else:
            result[key] = value
    return result


UNPACK: Final = object()
"""The place of the key of `**other` in the arguments of `new_dict`."""


@_guard("mapping")
def mapping_of(value: Any) -> dict[Any, Any]:
    """Return what follows a `**`, if it is a dict."""
    if type(value) is not dict:
        raise TypeError(f"'{type(value).__name__}' object is not a mapping")
    return value


@_guard("unpack")
def unpack(budget: Budget, kind: str, *parts: Any) -> Any:
    """Build `[*a, b]`, a tuple or a set: each part is a sized iterable, single members stand in a tuple."""
    items = characters = 0
    for part in parts:
        items, characters = size_of(list(part), items, characters)
    if kind == "set":
        result: set[Any] = set()
        for part in parts:
            _fill(budget, result, part)
        return check_built(budget, result)
    members = list(chain.from_iterable(parts))
    return check_built(budget, members if kind == "list" else tuple(members))


# Operators


@_guard("Add")
def _add(budget: Budget, left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is type(right):
        if kind is str:
            if len(left) + len(right) > MAX_CHARACTERS:
                raise _too_long()
        elif kind in _SEQUENCES:
            items, characters = size_of(right, *size_of(left))
            if items > LARGE or characters > LARGE:
                budget.check_time()
    return check_result(budget, left + right)


@_guard("Mult")
def _multiply(budget: Budget, left: Any, right: Any) -> Any:
    if type(left) not in _NUMBERS or type(right) not in _NUMBERS:
        thing, times = (right, left) if isinstance(left, int) else (left, right)
        if isinstance(times, int) and times > 0 and (type(thing) is str or type(thing) in _SEQUENCES):
            items, characters = size_of(thing)
            if items * times > MAX_ITEMS:
                raise _too_many()
            if characters * times > MAX_CHARACTERS:
                raise _too_long()
    return check_result(budget, left * right)


@_guard("Pow")
def _power(budget: Budget, base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        least = (abs(base).bit_length() - 1) * exponent  # bits of the result
        if least > MAX_BITS:
            raise _too_big()
    return check_result(budget, base**exponent)


@_guard("LShift")
def _shift_left(budget: Budget, left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int) and left and right > 0 and left.bit_length() + right > MAX_BITS:
        raise _too_big()
    return check_result(budget, left << right)


@_guard("Mod")
def _modulo(budget: Budget, left: Any, right: Any) -> Any:
    return _percent(budget, left, right) if type(left) is str else left % right


def _operator(function: Callable[[Any, Any], Any]) -> Guard:
    """An operator whose result is never much larger than its operands."""

    def run(budget: Budget, left: Any, right: Any) -> Any:
        result = function(left, right)
        if type(result) in _COLLECTIONS:  # of sets, dicts and the views of dicts
            budget.check_time()
            return check_built(budget, result)
        return check_result(budget, result)

    return run


GUARDS |= {
    "Sub": _operator(operator.sub),
    "Div": _operator(operator.truediv),
    "FloorDiv": _operator(operator.floordiv),
    "RShift": _operator(operator.rshift),
    "BitAnd": _operator(operator.and_),
    "BitOr": _operator(operator.or_),
    "BitXor": _operator(operator.xor),
}


@_guard("Invert")
def _invert(budget: Budget, value: Any) -> Any:
    return check_result(budget, ~value)


@_guard("operand")
def operand(budget: Budget, value: Any) -> Any:
    """Return the right side of a comparison, with a check of the clock where comparing may take long."""
    if type(value) in _COLLECTIONS:
        size_of(value)
    if type(value) not in _NUMBERS and (type(value) is not str or len(value) > LARGE):
        budget.check_time()
    return value


@_guard("container")
def container(budget: Budget, value: Any) -> Any:
    """Return the right side of `in`; something that is used up by searching in it is watched meanwhile."""
    return iter_checked(budget, value) if hasattr(value, "__next__") else operand(budget, value)


@_guard("item")
def _item(budget: Budget, value: Any, index: Any) -> Any:
    if type(index) is tuple or (type(value) is dict and len(value) > LARGE):
        size_of(index)
        budget.check_time()
    return value[index]


@_guard("slice")
def _part(budget: Budget, value: Any, start: Any, stop: Any, step: Any) -> Any:
    return check_result(budget, value[start:stop:step])


@_guard("element")
def element(budget: Budget, value: Any) -> Any:
    """Return a value that a comprehension is about to keep, charged to the budget."""
    if type(value) in _COLLECTIONS:
        items, characters = size_of(value)
        budget.allocate(72 * items + 4 * characters)
    elif type(value) is str and len(value) > _CHUNK:
        budget.allocate(4 * len(value))
    return value


@_guard("hashable")
def hashable(budget: Budget, value: Any) -> Any:
    """Return a value that is about to be hashed or searched for, with a check of the clock where that may take long."""
    if type(value) in _COLLECTIONS:
        size_of(value)
        budget.check_time()
    return value


# Texts of values

_PERCENT = re.compile(
    r"%(?:\((?P<name>[^()]*)\))?(?P<flags>[-#0 +]*)(?P<width>\*|[0-9]*)(?:\.(?P<precision>\*|[0-9]*))?[hlL]?(?P<kind>[a-zA-Z%])",
    re.ASCII,
)


def _percent(budget: Budget, text: str, values: Any) -> str:
    """Return `text % values`.

    Raises:
        TypeError: As Python's, and for a width or precision that is taken from the values (`*`).
        ValueError: As Python's, and for a name in nested parentheses.
        BudgetExceededError: The text, a width or a precision is beyond its limit.
    """
    size = len(text)
    at = 0
    named = False
    for number in count():
        at = text.find("%", at)
        if at < 0:
            break
        if number % _CHUNK == 0:
            budget.check_time()
        mark = _PERCENT.match(text, at)
        if mark is None:
            raise ValueError("incomplete format")
        if "*" in (mark["width"], mark["precision"]):
            raise TypeError("a width of * is not available here")
        size += _check_width(mark["width"], mark["precision"])
        if mark["name"] is not None and type(values) is dict:
            named = True
            size += printed_size(budget, values.get(mark["name"]))
            if size > MAX_CHARACTERS:
                raise _too_long()
        at = mark.end()
    if not named:
        size += printed_size(budget, values)
    if size > MAX_CHARACTERS:
        raise _too_long()
    shown: str = text % values
    return shown


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
    _check_width(found["width"], found["precision"])


def _check_width(width: str, precision: str | None) -> int:
    """Return how many characters they add at most."""
    if len(width) > 9 or int(width or 0) > MAX_CHARACTERS:
        raise _too_long()
    if precision and (len(precision) > 9 or int(precision) > MAX_PRECISION):
        raise BudgetExceededError(f"it formats with more than {MAX_PRECISION:,} digits")
    return int(width or 0) + int(precision or 0)


_PRINTABLE = frozenset((str, int, float, bool, complex, type(None), range))


def printed_size(budget: Budget, value: Any) -> int:
    """Return about how many characters `str(value)` or `repr(value)` has.

    Raises:
        TypeError: It has no text that means anything, like an iterator's.
        BudgetExceededError: The text is far too long.
    """
    pending = list(value) if type(value) in _VIEWS else [value]
    check_built(budget, pending)
    total = 2
    for member in pending:
        kind = type(member)
        if kind is str:
            total += len(member) + 4
        elif kind is int:
            total += member.bit_length() // 4 + 4
        elif kind is dict:
            pending += chain(member, member.values())
        elif kind in _COLLECTIONS:
            pending += member
        elif kind in _PRINTABLE:
            total += 4
        else:
            raise TypeError(f"a value of type {kind.__name__} cannot be turned into text")
    if total > MAX_CHARACTERS:
        raise _too_long()
    return total


@_guard("format")
def formatted(budget: Budget, value: Any, conversion: str, spec: str) -> str:
    """Format one field of an f-string.

    Args:
        budget: The run's.
        value: What is formatted.
        conversion: `s`, `r`, `a` or nothing.
        spec: The format spec.
    """
    if type(value) is not str or conversion in ("r", "a"):
        printed_size(budget, value)
    if conversion:
        convert: Callable[[object], str] = {"s": str, "r": repr, "a": ascii}[conversion]  # type: ignore[assignment]  # mypy joins str and ascii to object
        value = check_result(budget, convert(value))
    if spec:
        check_spec(spec)
    elif type(value) is str:
        return value
    return str(check_result(budget, format(value, spec)))


@_guard("join")
def concatenate(budget: Budget, *texts: str) -> str:
    """Join the parts of an f-string."""
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise _too_long()
    return str(check_result(budget, "".join(texts)))


# Functions


def _number(function: Callable[..., Any]) -> Guard:
    def run(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
        text = arguments[0] if arguments else ""
        if type(text) is str and len(text) > MAX_NUMBER_TEXT and len(text.strip()) > MAX_NUMBER_TEXT:
            raise BudgetExceededError(f"a number of more than {MAX_NUMBER_TEXT:,} characters")
        return check_number(function(*arguments, **keywords))

    return run


@_guard("str")
def _str(budget: Budget, /, *arguments: Any) -> Any:
    if len(arguments) == 1 and type(arguments[0]) is not str:
        printed_size(budget, arguments[0])
    return check_result(budget, str(*arguments))


@_guard("round")
def _round(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    digits = keywords.get("ndigits", arguments[1] if len(arguments) > 1 else None)
    if isinstance(digits, int) and digits < -MAX_BITS:
        number = keywords.get("number", arguments[0] if arguments else None)
        if isinstance(number, int):
            raise BudgetExceededError("it rounds to more digits than any number here has")
    return check_number(round(*arguments, **keywords))


@_guard("range")
def _range(budget: Budget, /, *arguments: Any) -> Any:
    result = range(*arguments)
    try:
        small = len(result) <= MAX_ITEMS
    except OverflowError:
        small = False
    if not small:
        raise _too_many()
    return result


def _all_or_any(function: Callable[[Iterable[Any]], bool]) -> Guard:
    def run(budget: Budget, /, *arguments: Any) -> Any:
        if len(arguments) != 1:
            return function(*arguments)
        (values,) = arguments  # not a list of its items: the first item that decides ends the search
        return function(materialise(budget, values) if type(values) in _SIZED else iter_checked(budget, values))

    return run


def _extreme(function: Callable[..., Any]) -> Guard:
    def run(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
        if len(arguments) == 1:
            return function(materialise(budget, arguments[0]), **keywords)
        if len(arguments) > 3:
            size_of(arguments)
        return function(*map(hashable, repeat(budget), arguments), **keywords)

    return run


@_guard("sum")
def _sum(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    if not arguments:
        return sum(*arguments, **keywords)
    values, *rest = arguments
    values = materialise(budget, values)
    start = keywords.get("start", rest[0] if rest else 0)
    if type(start) in _SEQUENCES and len(rest) + len(keywords) == 1:
        return _concatenated(budget, values, start)
    return check_number(sum(values, *rest, **keywords))


def _concatenated(budget: Budget, values: Iterable[Any], start: Any) -> Any:
    # sum() copies the growing result for each item. This takes one pass, and gives the same result and the same errors.
    kind = type(start)
    result = list(start)
    for value in values:  # whose sizes have been checked
        if type(value) is not kind:
            return kind() + value  # raises as Python does
        result += value
    return check_built(budget, kind(result))


@_guard("sorted")
def _sorted(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    if len(arguments) != 1:
        return sorted(*arguments, **keywords)
    values = list(materialise(budget, arguments[0]))
    if len(values) <= _SORTED_RUN:
        return sorted(values, **keywords)
    # In runs, merged two by two, with checks of the clock. Sorting is stable, and quick on what is sorted already.
    runs: list[list[Any]] = [values[start : start + _SORTED_RUN] for start in range(0, len(values), _SORTED_RUN)]
    for run in runs:
        run.sort(**keywords)
        budget.check_time()
    while len(runs) > 1:
        merged = []
        for left, right in zip_longest(runs[::2], runs[1::2], fillvalue=()):
            merged.append(sorted([*left, *right], **keywords))
            budget.check_time()
        runs = merged
    return check_result(budget, runs[0])


def _sequence(function: Callable[..., Any]) -> Guard:
    def run(budget: Budget, /, *arguments: Any) -> Any:
        return check_result(budget, function(*[materialise(budget, argument) for argument in arguments]))

    return run


@_guard("zip")
def _zip(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    # A zip of zips takes many items at a time from each, and those from theirs, without a guard in between. Ranges make numbers.
    parts = [_pulled(budget, part) if hasattr(part, "__next__") or type(part) is range else part for part in arguments]
    return zip(*parts, **keywords)  # noqa: B905 - `strict` may be among the keywords


def _pulled(budget: Budget, source: Iterable[Any]) -> Iterator[Any]:
    for member in source:
        budget.allocate(8 * len(member) if type(member) is tuple else 40)
        yield member


@_guard("set")
def _set(budget: Budget, /, *arguments: Any) -> Any:
    if len(arguments) != 1:
        return set(*arguments)
    result: set[Any] = set()
    _fill(budget, result, arguments[0])
    return check_result(budget, result)


@_guard("dict")
def _dict(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    if len(arguments) != 1:
        return check_built(budget, dict(*arguments, **keywords))
    (source,) = arguments
    result: dict[Any, Any] = {}
    if type(source) is dict:
        result.update(source)
    else:
        _fill(budget, result, source)
    result.update(keywords)
    return check_built(budget, result)


def _fill(budget: Budget, result: Any, source: Any) -> None:
    # In pieces: numbers can be chosen so that putting one in compares it with all that are there.
    source = materialise(budget, source)
    if type(source) in (set, dict) and type(result) is set:
        result.update(source)  # for the order of its members
        return
    iterator = iter(source)
    while chunk := list(islice(iterator, _CHUNK)):
        result.update(chunk)
        if len(chunk) == _CHUNK:
            budget.check_time()


UNGUARDED: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in (bool, len, abs, reversed, enumerate, ord, chr, divmod)
}
"""Python's own functions that make nothing large and take no time."""

_GUARDED = (int, float, str, round, range, sum, min, max, sorted, zip, list, tuple, set, dict, any, all)
FUNCTIONS = frozenset({*UNGUARDED, *(function.__name__ for function in _GUARDED)})
"""Every function that a transform can call but `isinstance`, whose second argument is no value."""

KEYWORDS: Mapping[str, tuple[str, ...]] = {
    "int": ("base",),
    "round": ("number", "ndigits"),
    "sum": ("start",),
    "min": ("default",),
    "max": ("default",),
    "sorted": ("reverse",),
    "enumerate": ("start",),
    "zip": ("strict",),
    "split": ("sep", "maxsplit"),
    "rsplit": ("sep", "maxsplit"),
    "splitlines": ("keepends",),
}
"""Keyword arguments of functions and methods. `dict` takes any."""

CONSUMES = frozenset({"sum", "sorted", "list", "tuple", "dict", "set", "any", "all", "min", "max", "join"})
"""Functions and methods that use up a generator before they return."""

PASSES_ON = frozenset({"enumerate", "zip"})
"""Functions whose result uses up a generator when it is itself used up."""

GUARDS |= {**UNGUARDED, "isinstance": isinstance, "any": _all_or_any(any), "all": _all_or_any(all)}
GUARDS |= {"min": _extreme(min), "max": _extreme(max), "list": _sequence(list), "tuple": _sequence(tuple)}
GUARDS |= {"int": _number(int), "float": _number(float)}

TYPES: Mapping[str, type] = {
    kind.__name__: kind for kind in (int, float, str, bool, list, tuple, dict, set, range, enumerate, zip, reversed)
}
"""What `isinstance` may ask for."""


# Methods


def _split(method: str) -> Guard:
    def run(budget: Budget, text: str, sep: Any = None, maxsplit: Any = -1) -> Any:
        if type(maxsplit) is int and not 0 <= maxsplit <= MAX_ITEMS:
            maxsplit = MAX_ITEMS
        if method == "rsplit" and _slow_from_the_right(text, sep):
            backwards = text[::-1].split(sep[::-1], maxsplit)
            return [piece[::-1] for piece in reversed(backwards)]
        return text.split(sep, maxsplit) if method == "split" else text.rsplit(sep, maxsplit)

    return run


def _slow_from_the_right(text: str, sought: Any) -> bool:
    """Whether a search from the right may take long: it compares each place in full, in the worst case."""
    return type(sought) is str and len(sought) > 1 and len(text) * len(sought) > 1_000_000


def _rfind(budget: Budget, text: str, sought: Any, *place: Any) -> Any:
    if _slow_from_the_right(text, sought) and all(bound is None or isinstance(bound, int) for bound in place) and len(place) < 3:
        start, end, _ = slice(*(*place, None, None)[:2]).indices(len(text))
        found = text[start:end][::-1].find(sought[::-1])
        return -1 if found < 0 else end - found - len(sought)
    return text.rfind(sought, *place)


def _rpartition(budget: Budget, text: str, sep: Any) -> Any:
    if _slow_from_the_right(text, sep):
        found = _rfind(budget, text, sep)
        return ("", "", text) if found < 0 else (text[:found], sep, text[found + len(sep) :])
    return text.rpartition(sep)


def _strip(function: Callable[..., str]) -> Guard:
    def run(budget: Budget, text: str, *arguments: Any) -> Any:
        if arguments and type(arguments[0]) is str and len(text) * len(arguments[0]) > 1_000_000:
            # Each character of the text is sought among all of those.
            characters = "".join(set(arguments[0])) if len(arguments[0]) <= MAX_ITEMS else arguments[0]
            if len(text) * len(characters) > 20_000_000:
                raise BudgetExceededError("it strips too many different characters")
            arguments = (characters, *arguments[1:])
        return function(text, *arguments)

    return run


def _replace(budget: Budget, text: str, *arguments: Any) -> Any:
    if len(arguments) >= 2 and type(arguments[0]) is str and type(arguments[1]) is str:
        growth = len(arguments[1]) - len(arguments[0])
        if growth > 0 and (len(text) + 1) * growth + len(text) > MAX_CHARACTERS:
            count = text.count(arguments[0])
            if len(arguments) > 2 and isinstance(arguments[2], int) and arguments[2] >= 0:
                count = min(count, arguments[2])
            if len(text) + count * growth > MAX_CHARACTERS:
                raise _too_long()
    return text.replace(*arguments)


def _join(budget: Budget, text: str, *arguments: Any) -> Any:
    if len(arguments) != 1:
        return text.join(*arguments)
    parts = materialise(budget, arguments[0])
    total = len(text) * max(len(parts) - 1, 0)
    total += len(parts) if type(parts) is str else sum(len(part) for part in parts if type(part) is str)
    if total > MAX_CHARACTERS:
        raise _too_long()
    return text.join(parts)


def _pad(function: Callable[..., str]) -> Guard:
    def run(budget: Budget, text: str, *arguments: Any) -> Any:
        if arguments and isinstance(arguments[0], int) and arguments[0] > MAX_CHARACTERS:
            raise _too_long()
        return function(text, *arguments)

    return run


_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def _splitlines(budget: Budget, text: str, *arguments: Any, **keywords: Any) -> Any:
    if len(text) > MAX_ITEMS and sum(map(text.count, _LINE_ENDS)) > MAX_ITEMS:
        raise _too_many()
    return text.splitlines(*arguments, **keywords)


def _simple(function: Callable[..., Any]) -> Guard:
    return lambda _, *arguments: function(*arguments)


_SIMPLE = (
    *(str.upper, str.lower, str.title, str.capitalize, str.swapcase, str.isdigit, str.isalpha, str.isalnum, str.isspace),
    *(str.startswith, str.endswith, str.find, str.count, str.index, str.partition, str.removeprefix, str.removesuffix),
)

_METHODS: dict[str, dict[type, Guard]] = {
    **{method.__name__: {str: _simple(method)} for method in _SIMPLE},
    **{method.__name__: {str: _strip(method)} for method in (str.strip, str.lstrip, str.rstrip)},
    **{method.__name__: {str: _pad(method)} for method in (str.zfill, str.ljust, str.rjust, str.center)},
    **{method.__name__: {dict: _simple(method)} for method in (dict.get, dict.keys, dict.values, dict.items)},
    "split": {str: _split("split")},
    "rsplit": {str: _split("rsplit")},
    "replace": {str: _replace},
    "join": {str: _join},
    "rfind": {str: _rfind},
    "rpartition": {str: _rpartition},
    "splitlines": {str: _splitlines},
}
for _name in ("index", "count"):
    _METHODS[_name] |= {list: _simple(getattr(list, _name)), tuple: _simple(getattr(tuple, _name))}


@_guard("receiver")
def receiver(name: str, value: Any) -> Any:
    """Return a value, if it has the method."""
    if type(value) not in _METHODS[name]:
        raise AttributeError(f"a value of type {type(value).__name__} has no method {name}")
    return value


def _method(name: str, by_type: Mapping[type, Guard]) -> Guard:
    def run(budget: Budget, value: Any, /, *arguments: Any, **keywords: Any) -> Any:
        method = by_type.get(type(value)) or by_type[type(receiver(name, value))]
        if len(value) > LARGE:
            budget.check_time()
        if arguments and type(arguments[0]) in _COLLECTIONS:
            hashable(budget, arguments[0])
        return check_result(budget, method(budget, value, *arguments, **keywords))

    return run


GUARDS |= {f".{name}": _method(name, by_type) for name, by_type in _METHODS.items()}
