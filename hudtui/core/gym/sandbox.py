"""The guards that a compiled transform calls in place of Python's operators, and its budget.

The guards of a run share the budget.

A compiled transform (see `transform`) holds no operator, call, attribute, subscript or loop of its
own. It calls the functions of `GUARDS`. They bound each value by its size, and the run by its steps
and by all that its operations go through, so that neither a clock nor an account of memory is
needed: the same run ends the same way on every machine. All values are of Python's built-in types,
and no guard returns a function, a type or a module.

A value's size is its logical size: a list that holds the same big list a thousand times counts it a
thousand times, because whatever prints, compares or sends it does so, too. The tuples that `zip`
gives may be of any size, so that each guard counts what it walks through or hashes.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, NamedTuple

MAX_STEPS = 10_000
"""Expressions evaluated inside comprehensions in one run."""
MAX_CHARACTERS = 1_000_000
"""Characters of text in one value, all its parts together."""
MAX_ITEMS = 100_000
"""Items of one value, all levels together."""
MAX_LEVELS = 500
"""Levels of lists and objects inside each other."""
MAX_BITS = 4096
"""Binary digits of a whole number."""
MAX_WORK = 8_000_000
"""Characters that all operations of a run may go through: less than 0.1 s, and less than 30 MB.
What is made counts twice."""
MAX_NUMBER_TEXT = 6_000
"""Characters of a text that is turned into a number; enough for MAX_BITS in any base."""
MAX_PRECISION = 4_096
"""Digits after the decimal point that a format may ask for."""

_ITEM = 36
"""Characters that an item of a collection counts as, where it is looked at."""
_COPIED = 8
"""Characters that an item counts as where a collection is copied without a look at what it
holds."""
_LEVEL = 600
"""Characters that a level of lists and objects counts as."""
_SMALL = 64
"""Texts up to this length, and what is made of so few parts, cost nothing: the number of steps
bounds them."""
_CHUNK = 64
_MOST_ALIKE = 64
"""Different values with one hash that a set or a dict may be made of: each is compared with all the
others."""
_NUMBERS = frozenset((int, float, bool))
_SEQUENCES = frozenset((list, tuple))
_COLLECTIONS = frozenset((list, tuple, set, dict))
_SIZED = frozenset((list, tuple, set, dict, str, range))
_VIEWS = frozenset((type({}.keys()), type({}.values()), type({}.items())))

Guard = Callable[..., Any]
"""Takes the run's budget first, unless it is one of Python's own functions or takes no time."""

GUARDS: dict[str, Guard] = {}
"""All that a compiled transform can call: operators by the name of their syntax node, functions,
methods with a dot before them, and the helpers that stand for other syntax."""


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


# Sizes


class Size(NamedTuple):
    """Size of a value, with everything in it."""

    items: int
    characters: int
    levels: int

    @property
    def work(self) -> int:
        """Cost of going through the value."""
        return _ITEM * self.items + self.characters + _LEVEL * self.levels


def size_of(value: Any) -> Size:
    """Measure a value; a whole number beyond 64 bits counts by its digits.

    The count goes level by level and stops at the first limit, so that its cost is bounded for any
    value.

    Raises:
        BudgetExceededError: A limit is exceeded.
    """
    items = characters = 0
    parts: list[Any] = [value]
    keys: list[Any] = []
    for depth in range(MAX_LEVELS):
        # Apart from the values beside them, keys are of one type, and need not be picked out one by
        # one.
        collections: list[Any] = []
        for part in (parts, keys):
            kinds = set(map(type, part))
            characters += _characters(part, kinds)
            if not kinds.isdisjoint(_COLLECTIONS):
                collections += (
                    part
                    if kinds <= _COLLECTIONS
                    else [one for one in part if type(one) in _COLLECTIONS]
                )
        if characters > MAX_CHARACTERS:
            raise _too_long()
        if not collections:
            return Size(items, characters, depth)
        items += sum(map(len, collections))
        if items > MAX_ITEMS:
            raise _too_many()
        dicts = [one for one in collections if type(one) is dict]
        others = collections if not dicts else [one for one in collections if type(one) is not dict]
        keys = list(chain.from_iterable(dicts))
        parts = [*chain.from_iterable(others), *chain.from_iterable(map(dict.values, dicts))]
    raise BudgetExceededError("a value is nested too deeply")


def _characters(parts: list[Any], kinds: set[type]) -> int:
    """Count the characters of texts and long numbers in a list that holds these types."""
    count = 0
    if str in kinds:
        count += sum(map(len, _of_kind(parts, str, kinds)))
    if int in kinds:
        numbers = _of_kind(parts, int, kinds)
        if max(map(int.bit_length, numbers)) > 64:
            count += sum(map(_digits, numbers))
    return count


def _of_kind(parts: list[Any], kind: type, kinds: set[type]) -> list[Any]:
    return parts if len(kinds) == 1 else [part for part in parts if type(part) is kind]


def _digits(number: int) -> int:
    bits = number.bit_length()
    if bits > MAX_BITS:
        raise _too_big()
    return bits // 3 if bits > 64 else 0


def check_argument(value: Any) -> None:
    """Raise `BudgetExceededError` for a value that is too large to be given to a transform."""
    kind = type(value)
    if kind is int:
        _digits(value)
    elif kind in _COLLECTIONS or (kind is str and len(value) > MAX_CHARACTERS):
        size_of(value)


class Budget:
    """Steps and work that remain to one run."""

    steps = MAX_STEPS
    work = MAX_WORK

    def spend(self, work: int) -> None:
        """Use up work, in characters gone through."""
        self.work -= work
        if self.work < 0:
            raise BudgetExceededError(
                f"it goes through more than {MAX_WORK // 2:,} characters and items in all"
            )

    def take(self, value: Any) -> Any:
        """Return a value that an operation is about to go through."""
        kind = type(value)
        if kind is str:
            if len(value) > _SMALL:
                self.spend(len(value))
        elif kind in _COLLECTIONS:
            self.spend(size_of(value).work)
        elif kind is range:
            self.spend(_ITEM * len(value) // 2)
        elif kind in _VIEWS:
            self.take(list(value))
        return value

    def made(self, value: Any) -> Any:
        """Return the result of an operation whose parts are no larger than its input."""
        kind = type(value)
        if kind is int:
            if value.bit_length() > MAX_BITS:
                raise _too_big()
        elif kind is str:
            if len(value) > _SMALL:
                if len(value) > MAX_CHARACTERS:
                    raise _too_long()
                self.spend(2 * len(value))
        elif kind in _COLLECTIONS and len(value) > _SMALL:
            if len(value) > MAX_ITEMS:
                raise _too_many()
            self.spend(2 * _COPIED * len(value))
        return value


@_guard("built")
def built(budget: Budget, value: Any) -> Any:
    """Return a collection that was built from parts of any size."""
    budget.spend(2 * size_of(value).work)
    if type(value) is set or type(value) is dict:
        _check_hashes(budget, value)
    return value


def _check_hashes(budget: Budget, members: Collection[Any]) -> None:
    """Charge values that are about to be put into a set or a dict.

    Values that cannot be told apart by their hashes are refused.

    Texts have hashes that nobody can choose.
    """
    budget.spend(4 * _ITEM * len(members))
    chosen = [member for member in members if type(member) is not str]
    if len(chosen) <= _MOST_ALIKE:
        return
    hashes = list(map(_hash, chosen))
    value, count = Counter(hashes).most_common(1)[0]
    if count <= _MOST_ALIKE or value is None:
        return
    alike = [member for member, number in zip(chosen, hashes, strict=True) if number == value]
    if any(member != alike[0] for member in alike):
        raise BudgetExceededError("it puts many values with the same hash into a set or a dict")


def _hash(value: Any) -> int | None:
    try:
        return hash(value)
    except TypeError:
        return None  # whatever hashes it raises


# Iteration


@_guard("loop")
def loop(budget: Budget, steps: int, source: Iterable[Any]) -> Iterator[Any]:
    """Iterate over the source of a comprehension, and charge each item.

    An item costs the expressions that are evaluated for it.
    """
    return _pulled(
        budget, iter(source), steps
    )  # a source that cannot be iterated over fails here, as in Python


def _pulled(budget: Budget, source: Iterable[Any], steps: int = 0) -> Iterator[Any]:
    for item in source:
        budget.steps -= steps
        if budget.steps < 0:
            raise BudgetExceededError(f"it takes more than {MAX_STEPS:,} steps")
        if type(item) is tuple:
            budget.spend(2 * size_of(item).work)  # made for this step
        elif not steps:
            budget.spend(_ITEM)
        yield item


@_guard("materialise")
def materialise(budget: Budget, source: Any) -> Any:
    """Return the source itself if its length is known, else a list of its items.

    Raises:
        TypeError: The source cannot be iterated over.
        BudgetExceededError: It has too many items, or they are too large.
    """
    if type(source) in _SIZED:
        if len(source) > MAX_ITEMS:
            raise _too_many()
        return budget.take(source)
    members: list[Any] = []
    iterator = iter(source)
    items = 0
    while chunk := list(islice(iterator, _CHUNK)):
        size = size_of(chunk)
        budget.spend(2 * size.work)
        items += size.items
        if items > MAX_ITEMS:
            raise _too_many()
        members += chunk
    if items > _CHUNK:
        size_of(members)
    return members


# Displays: lists, tuples, sets and dicts that are written out. What they hold is checked before
# anything in them is hashed.


@_guard("Set")
def _new_set(budget: Budget, members: Iterable[Any]) -> set[Any]:
    known = materialise(budget, members)
    _check_hashes(budget, known)
    return set(known)


@_guard("hashed")
def _hashed(budget: Budget, *parts: Any) -> Any:
    """Return a member of a set, or the key and value of a dict's, once the key is hashed.

    The set or dict is about to be built.
    """
    hash(budget.take(parts[0]))
    return parts if len(parts) > 1 else parts[0]


@_guard("Pairs")
def _new_dict_of(budget: Budget, pairs: Iterator[tuple[Any, Any]]) -> dict[Any, Any]:
    known = list(pairs)
    _check_hashes(budget, [key for key, _ in known])
    return dict(built(budget, known))


@_guard("Dict")
def new_dict(budget: Budget, *pairs: Any) -> dict[Any, Any]:
    """Build `{key: value, **other}` from keys and values in turn; a `**` is the key `UNPACK`."""
    built(budget, pairs)
    keys: list[Any] = []
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        keys += value if key is UNPACK else (key,)
    _check_hashes(budget, keys)
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
    """Build `[*a, b]`, a tuple or a set.

    Each part is a sized iterable, single members stand in a tuple.
    """
    if sum(map(len, parts)) > MAX_ITEMS:
        raise _too_many()
    members = list(chain.from_iterable(parts))
    built(budget, members)
    if kind != "set":
        return members if kind == "list" else tuple(members)
    _check_hashes(budget, members)
    result: set[Any] = set()
    for part in parts:
        result.update(part)  # one by one, for the order of the members
    return result


# Operators


def _of_view(budget: Budget, side: Any) -> Any:
    """Return an operand beside the view of a dict, whose members are about to be put into a set."""
    members = materialise(budget, side)
    _check_hashes(budget, members)
    return side if type(side) in _VIEWS else members


def _operator(function: Callable[[Any, Any], Any]) -> Guard:
    """An operator whose result is never much larger than its operands."""

    def run(budget: Budget, left: Any, right: Any) -> Any:
        if (
            type(left) in _VIEWS or type(right) in _VIEWS
        ):  # which take any iterable on the other side
            left, right = _of_view(budget, left), _of_view(budget, right)
        elif type(left) is set or type(left) is dict:
            budget.take(left)
            budget.take(right)
        result = function(left, right)
        return built(budget, result) if type(result) in _COLLECTIONS else budget.made(result)

    return run


_OPERATORS = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
}
GUARDS |= {name: _operator(function) for name, function in _OPERATORS.items()}


@_guard("Mult")
def _multiply(budget: Budget, left: Any, right: Any) -> Any:
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return budget.made(left * right)
    thing, times = (right, left) if isinstance(left, int) else (left, right)
    if isinstance(times, int) and times > 0 and (type(thing) is str or type(thing) in _SEQUENCES):
        size = size_of(thing)
        if size.items * times > MAX_ITEMS:
            raise _too_many()
        if size.characters * times > MAX_CHARACTERS:
            raise _too_long()
        budget.spend(2 * times * (_ITEM * size.items + size.characters))
    return left * right


@_guard("Pow")
def _power(budget: Budget, base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        least = (abs(base).bit_length() - 1) * exponent  # bits of the result
        if least > MAX_BITS:
            raise _too_big()
    return budget.made(base**exponent)


@_guard("LShift")
def _shift_left(budget: Budget, left: Any, right: Any) -> Any:
    whole = isinstance(left, int) and isinstance(right, int)
    if whole and left and right > 0 and left.bit_length() + right > MAX_BITS:
        raise _too_big()
    return budget.made(left << right)


@_guard("Mod")
def _modulo(budget: Budget, left: Any, right: Any) -> Any:
    return _percent(budget, left, right) if type(left) is str else left % right


@_guard("Invert")
def _invert(budget: Budget, value: Any) -> Any:
    return budget.made(~value)


@_guard("operand")
def _operand(budget: Budget, value: Any) -> Any:
    """Return a side of a comparison, or a value that is about to be hashed."""
    return value if type(value) in _NUMBERS else budget.take(value)


@_guard("container")
def _container(budget: Budget, value: Any) -> Any:
    """Return the right side of `in`.

    Something that is used up by searching in it is watched meanwhile.
    """
    return _pulled(budget, value) if hasattr(value, "__next__") else budget.take(value)


@_guard("item")
def _item(budget: Budget, value: Any, index: Any) -> Any:
    if type(index) is tuple:
        budget.take(index)
    return value[index]


@_guard("slice")
def _part(budget: Budget, value: Any, start: Any, stop: Any, step: Any) -> Any:
    return budget.made(value[start:stop:step])


# Texts of values

_PERCENT = re.compile(
    r"%(?:\((?P<name>[^()]*)\))?(?P<flags>[-#0 +]*)(?P<width>\*|[0-9]*)"
    r"(?:\.(?P<precision>\*|[0-9]*))?[hlL]?(?P<kind>[a-zA-Z%])",
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
    while (at := text.find("%", at)) >= 0:
        budget.spend(_ITEM)
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
    return str(budget.made(text % values))


_SPEC = re.compile(
    r"(?:(?s:.)?[<>=^])?[-+ ]?z?#?0?(?P<width>[0-9]*)[,_]?(?:\.(?P<precision>[0-9]+))?"
    r"[bcdeEfFgGosxX%]?\Z"
)


def check_spec(spec: str) -> None:
    """Refuse a format spec that is not of the simple kind or asks for too much.

    Raises:
        ValueError: It is not `[[fill]align][sign][z][#][0][width][,][.precision][type]`.
        BudgetExceededError: Its width or precision is beyond the limit.
    """
    parts = _SPEC.match(spec)
    if parts is None:
        raise ValueError(f"the format spec {spec[:40]!r} is not available here")
    _check_width(parts["width"], parts["precision"])


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
    budget.take(pending)
    total = 2
    for member in pending:
        kind = type(member)
        total += 4
        if kind is str:
            total += len(member)
        elif kind is int:
            bits = member.bit_length()
            total += bits // 4
            if bits > 64:
                budget.spend(4 * bits)  # its digits are worked out one from the other
        elif kind in _COLLECTIONS:
            pending += member
            pending += member.values() if kind is dict else ()
        elif kind not in _PRINTABLE:
            raise TypeError(f"a value of type {kind.__name__} cannot be turned into text")
    if total > MAX_CHARACTERS:
        raise _too_long()
    return total


@_guard("format")
def formatted(budget: Budget, value: Any, conversion: str, spec: str) -> str:
    """Format one field of an f-string; the conversion is `s`, `r`, `a` or empty."""
    if type(value) is not str or conversion in ("r", "a"):
        printed_size(budget, value)
    if conversion:
        convert: Callable[[object], str] = {"s": str, "r": repr, "a": ascii}[conversion]  # type: ignore[assignment]  # mypy joins str and ascii to object
        value = budget.made(convert(value))
    if spec:
        check_spec(spec)
    elif type(value) is str:
        return value
    return str(budget.made(format(value, spec)))


@_guard("join")
def concatenate(budget: Budget, *texts: str) -> str:
    """Join the parts of an f-string."""
    if sum(map(len, texts)) > MAX_CHARACTERS:
        raise _too_long()
    return str(budget.made("".join(texts)))


# Functions


def _number(function: Callable[..., Any]) -> Guard:
    def run(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
        text = arguments[0] if arguments else ""
        if (
            type(text) is str
            and len(text) > MAX_NUMBER_TEXT
            and len(text.strip()) > MAX_NUMBER_TEXT
        ):
            raise BudgetExceededError(f"a number of more than {MAX_NUMBER_TEXT:,} characters")
        return budget.made(function(*arguments, **keywords))

    return run


@_guard("str")
def _str(budget: Budget, /, *arguments: Any) -> Any:
    if len(arguments) == 1 and type(arguments[0]) is not str:
        printed_size(budget, arguments[0])
    return budget.made(str(*arguments))


@_guard("round")
def _round(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    digits = keywords.get("ndigits", arguments[1] if len(arguments) > 1 else None)
    number = keywords.get("number", arguments[0] if arguments else None)
    if isinstance(digits, int) and isinstance(number, int):
        if digits < -MAX_BITS:
            raise BudgetExceededError("it rounds to more digits than any number here has")
        budget.spend(2 * number.bit_length())
    return budget.made(round(*arguments, **keywords))


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
        (values,) = (
            arguments  # not a list of its items: the first item that decides ends the search
        )
        return function(
            materialise(budget, values) if type(values) in _SIZED else _pulled(budget, values)
        )

    return run


def _extreme(function: Callable[..., Any]) -> Guard:
    def run(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
        if len(arguments) == 1:
            return function(materialise(budget, arguments[0]), **keywords)
        return function(*map(budget.take, arguments), **keywords)

    return run


@_guard("sum")
def _sum(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    if not arguments:
        return sum(*arguments, **keywords)
    values, *rest = arguments
    values = materialise(budget, values)
    start = keywords.get("start", rest[0] if rest else 0)
    if type(start) not in _SEQUENCES:
        return budget.made(sum(values, *rest, **keywords))
    budget.spend(
        len(values) * size_of([values, start]).items // 2
    )  # the growing result is copied for each item
    return built(budget, sum(values, *rest, **keywords))


@_guard("sorted")
def _sorted(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    if len(arguments) != 1:
        return sorted(*arguments, **keywords)
    values = materialise(budget, arguments[0])
    size = size_of(values if type(values) in _COLLECTIONS else list(values))
    budget.spend((_ITEM * size.items + size.characters) * len(values).bit_length() // 3)
    return sorted(values, **keywords)


def _sequence(function: Callable[..., Any]) -> Guard:
    def run(budget: Budget, /, *arguments: Any) -> Any:
        return budget.made(function(*[materialise(budget, argument) for argument in arguments]))

    return run


@_guard("zip")
def _zip(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    # A zip of zips takes many items at a time from each, and those from theirs, without a guard in
    # between.
    parts = [_pulled(budget, part) if hasattr(part, "__next__") else part for part in arguments]
    return zip(*parts, **keywords)  # noqa: B905 - `strict` may be among the keywords


@_guard("set")
def _set(budget: Budget, /, *arguments: Any) -> Any:
    if len(arguments) != 1:
        return set(*arguments)
    members = materialise(budget, arguments[0])
    _check_hashes(budget, members)
    return budget.made(set(members))


@_guard("dict")
def _dict(budget: Budget, /, *arguments: Any, **keywords: Any) -> Any:
    if len(arguments) == 1 and type(arguments[0]) is not dict:
        pairs = materialise(budget, arguments[0])
        _check_hashes(budget, [pair[0] for pair in pairs if type(pair) in _SEQUENCES and pair])
        arguments = (pairs,)
    return built(budget, dict(*arguments, **keywords))


UNGUARDED: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (bool, len, abs, reversed, enumerate, ord, chr, divmod)
}
"""Python's own functions that make nothing large and take no time."""

_GUARDED = (
    int,
    float,
    str,
    round,
    range,
    sum,
    min,
    max,
    sorted,
    zip,
    list,
    tuple,
    set,
    dict,
    any,
    all,
)
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

CONSUMES = frozenset(
    {"sum", "sorted", "list", "tuple", "dict", "set", "any", "all", "min", "max", "join"}
)
"""Functions and methods that use up a generator before they return."""

PASSES_ON = frozenset({"enumerate", "zip"})
"""Functions whose result uses up a generator when it is itself used up."""

GUARDS |= {**UNGUARDED, "isinstance": isinstance, "any": _all_or_any(any), "all": _all_or_any(all)}
GUARDS |= {
    "min": _extreme(min),
    "max": _extreme(max),
    "list": _sequence(list),
    "tuple": _sequence(tuple),
}
GUARDS |= {"int": _number(int), "float": _number(float)}

TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (int, float, str, bool, list, tuple, dict, set, range, enumerate, zip, reversed)
}
"""Types that `isinstance` may ask for."""


# Methods


def _is_slow_from_the_right(text: str, sought: Any) -> bool:
    """True if Python's search from the right may take long.

    It compares each place in full, in the worst case.
    """
    return type(sought) is str and len(sought) > 1 and len(text) * len(sought) > 1_000_000


def _split(text: str, sep: Any = None, maxsplit: Any = -1) -> Any:
    return text.split(sep, _bounded(maxsplit))


def _rsplit(text: str, sep: Any = None, maxsplit: Any = -1) -> Any:
    if not _is_slow_from_the_right(text, sep):
        return text.rsplit(sep, _bounded(maxsplit))
    backwards = text[::-1].split(sep[::-1], _bounded(maxsplit))
    return [piece[::-1] for piece in reversed(backwards)]


def _bounded(maxsplit: Any) -> Any:
    return MAX_ITEMS if type(maxsplit) is int and not 0 <= maxsplit <= MAX_ITEMS else maxsplit


def _rfind(text: str, sought: Any, *place: Any) -> Any:
    plain = len(place) < 3 and all(bound is None or isinstance(bound, int) for bound in place)
    if not plain or not _is_slow_from_the_right(text, sought):
        return text.rfind(sought, *place)
    start, end, _ = slice(*(*place, None, None)[:2]).indices(len(text))
    distance = text[start:end][::-1].find(sought[::-1])
    return -1 if distance < 0 else end - distance - len(sought)


def _rpartition(text: str, sep: Any) -> Any:
    if not _is_slow_from_the_right(text, sep):
        return text.rpartition(sep)
    at = _rfind(text, sep)
    return ("", "", text) if at < 0 else (text[:at], sep, text[at + len(sep) :])


def _strip(function: Callable[..., str]) -> Callable[..., Any]:
    def run(text: str, *arguments: Any) -> Any:
        if arguments and type(arguments[0]) is str and len(text) * len(arguments[0]) > 1_000_000:
            # Each character of the text is sought among all of those.
            characters = (
                "".join(set(arguments[0])) if len(arguments[0]) <= MAX_ITEMS else arguments[0]
            )
            if len(text) * len(characters) > 20_000_000:
                raise BudgetExceededError("it strips too many different characters")
            arguments = (characters, *arguments[1:])
        return function(text, *arguments)

    return run


def _replace(text: str, *arguments: Any) -> Any:
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
    total += (
        len(parts) if type(parts) is str else sum(len(part) for part in parts if type(part) is str)
    )
    if total > MAX_CHARACTERS:
        raise _too_long()
    return text.join(parts)


def _pad(function: Callable[..., str]) -> Callable[..., Any]:
    def run(text: str, *arguments: Any) -> Any:
        if arguments and isinstance(arguments[0], int) and arguments[0] > MAX_CHARACTERS:
            raise _too_long()
        return function(text, *arguments)

    return run


_LINE_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def _splitlines(text: str, *arguments: Any, **keywords: Any) -> Any:
    if len(text) > MAX_ITEMS and sum(map(text.count, _LINE_ENDS)) > MAX_ITEMS:
        raise _too_many()
    return text.splitlines(*arguments, **keywords)


_SIMPLE = (
    *(
        str.upper,
        str.lower,
        str.title,
        str.capitalize,
        str.swapcase,
        str.isdigit,
        str.isalpha,
        str.isalnum,
        str.isspace,
    ),
    *(
        str.startswith,
        str.endswith,
        str.find,
        str.count,
        str.index,
        str.partition,
        str.removeprefix,
        str.removesuffix,
    ),
)
_OF_TEXTS: Mapping[str, Callable[..., Any]] = {
    **{method.__name__: method for method in _SIMPLE},
    **{method.__name__: _strip(method) for method in (str.strip, str.lstrip, str.rstrip)},
    **{method.__name__: _pad(method) for method in (str.zfill, str.ljust, str.rjust, str.center)},
    "split": _split,
    "rsplit": _rsplit,
    "replace": _replace,
    "rfind": _rfind,
    "rpartition": _rpartition,
    "splitlines": _splitlines,
    "join": str.join,
}
_METHODS: dict[str, dict[type, Callable[..., Any]]] = {
    name: {str: method} for name, method in _OF_TEXTS.items()
}
for _name in ("get", "keys", "values", "items"):
    _METHODS[_name] = {dict: getattr(dict, _name)}
for _name in ("index", "count"):
    _METHODS[_name] |= {list: getattr(list, _name), tuple: getattr(tuple, _name)}


@_guard("receiver")
def receiver(name: str, value: Any) -> Any:
    """Return a value, if it has the method."""
    if type(value) not in _METHODS[name]:
        raise AttributeError(f"a value of type {type(value).__name__} has no method {name}")
    return value


def _method(name: str, by_type: Mapping[type, Callable[..., Any]]) -> Guard:
    def run(budget: Budget, value: Any, /, *arguments: Any, **keywords: Any) -> Any:
        method = by_type.get(type(value)) or by_type[type(receiver(name, value))]
        if (
            type(value) is not dict and len(value) > _SMALL
        ):  # the methods of a dict do not go through it
            budget.take(value)
        for argument in arguments:
            if type(argument) in _COLLECTIONS or (type(argument) is str and len(argument) > _SMALL):
                budget.take(argument)
        return budget.made(method(value, *arguments, **keywords))

    return run


GUARDS |= {f".{name}": _method(name, by_type) for name, by_type in _METHODS.items()}


@_guard(".join")
def _joined(budget: Budget, value: Any, /, *arguments: Any) -> Any:
    return budget.made(_join(budget, receiver("join", value), *arguments))
