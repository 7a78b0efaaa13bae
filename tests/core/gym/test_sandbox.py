"""Attempts to get out of the sandbox of transforms: what they reach, what they cost, and that
results stay Python's own."""

from __future__ import annotations

import builtins
import contextlib
import types
import unicodedata
from collections.abc import Iterator
from typing import Any

import pytest

from hudtui.core.gym import sandbox, transform
from hudtui.core.gym.transform import TransformError, TransformFailure, compile_transform

REFUSED = [
    # The guards, the budget and what they are made of
    "lambda x: $budget",
    "lambda x: $Add(x, 1)",
    "lambda $budget: 1",
    "lambda x: UNPACK",
    "lambda x: loop(1, 2, x)",
    "lambda x: receiver('upper', x)",
    "lambda x: hashable(x)",
    "lambda x: [budget for budget in [budget]]",
    "lambda x: {UNPACK: x, **UNPACK}",
    # Functions as values
    "lambda x: [len][0](x)",
    "lambda x: (len if x else str)(x)",
    "lambda x: (x or len)(x)",
    "lambda x: {'f': eval}['f']('1')",
    "lambda x: f'{len}'",
    "lambda x: '%s' % len",
    "lambda x: isinstance",
    "lambda x: [int, str]",
    "lambda x: isinstance(int, str)",
    "lambda x: isinstance(x, x)",
    "lambda x: isinstance(x, [int][0])",
    "lambda x: isinstance(x, (int, (str, x)))",
    "lambda x: isinstance(x, int | x)",
    "lambda x: isinstance(x, int if x else str)",
    "lambda x: isinstance(x, object)",
    "lambda x: isinstance(x, types)",
    "lambda x: x.upper",
    "lambda x: x.upper.upper()",
    "lambda x: x.items().mapping",
    "lambda x: x.upper()()",
    "lambda x: sorted(x, key=lambda y: y)",
    "lambda x: min(x, key=str)",
    "lambda x: max(x, key=len)",
    # Attributes of values, generators and frames
    "lambda x: (y for y in x).gi_frame",
    "lambda x: [g.gi_frame for g in [(y for y in x)]]",
    "lambda x: [g.gi_frame.f_back for g in x]",
    "lambda x: [g.gi_code() for g in x]",
    "lambda x: [y.__class__ for y in x]",
    "lambda x: {y: y.__dict__ for y in x}",
    "lambda x: x.__getattribute__('upper')()",
    "lambda x: x.__reduce__()",
    "lambda x: x.__add__(x)",
    "lambda x: x.__format__('>10')",
    "lambda x: x.__mod__(x)",
    "lambda x: x.__len__()",
    "lambda x: x._upper()",
    "lambda x: x.send(None)",
    "lambda x: x.throw(ValueError)",
    "lambda x: x.fromkeys(x)",
    "lambda x: x.maketrans(x)",
    "lambda x: x.expandtabs(10**9)",
    "lambda x: x.copy()",
    "lambda x: x.real()",
    "lambda x: x.to_bytes(10**9)",
    "lambda x: x.as_integer_ratio()",
    "lambda x: x.conjugate()",
    "lambda x: x.casefold()",
    # Formats that look inside a value
    "lambda x: '{0.__class__.__mro__}'.format(x)",
    "lambda x: '{a.__init__.__globals__}'.format_map({'a': x})",
    "lambda x: f'{x.__class__.__mro__[1].__subclasses__()}'",
    "lambda x: f'{x:{x.__class__}}'",
    "lambda x: f'{x!r:{(lambda: 1)()}}'",
    "lambda x: f'{x:c}{x:%H}'",
    "lambda x: f'{x:>1000001}'",
    # Defaults, scopes and names
    "lambda x, y=open('f'): x",
    "lambda x, y=x: x",
    "lambda x, y=[z for z in x]: x",
    "lambda x, y=(z for z in []): x",
    "lambda x, y='a'.__class__: x",
    "lambda x, y=10**10**10: x",
    "lambda x, y=[0] * 10**9: x",
    "lambda x, y=f'{1:99999999}': x",
    "lambda x=__import__('os'), y=1: x",
    "lambda x, /, *, y: x",
    "lambda x, **y: y",
    "lambda __builtins__: __builtins__",
    "lambda x: [__builtins__ for __builtins__ in x]",
    "lambda x: [1 for a__b in x]",
    "lambda x: __debug__",
    "lambda x: __name__",
    "lambda x: __loader__",
    "lambda x: (print := 1)",
    "lambda x: [x := y for y in x]",
    "lambda x: [1 for x[0] in [1]]",
    "lambda x: [1 for x.a in [1]]",
    "lambda x: [1 for (a, *b) in x]",
    "lambda x: [y async for y in x]",
    "lambda x: (yield)",
    "lambda x: [(yield y) for y in x]",
    "lambda x: x[y := 1]",
    "lambda x: x[1:2, 3]",
    "lambda x: x[::, ::]",
    "lambda x: ...",
    "lambda x: b'a' * 10**9",
    "lambda x: 1j",
    "lambda x: print(*x)",
    "lambda x: max(*x, **x)",
    "lambda x: dict(**{'a': 1})",
    "lambda x: (lambda: x)()",
    "lambda x: type(x)(x)",
    "lambda x: memoryview(x)",
    "lambda x: iter(x)",
    "lambda x: next(x)",
    "lambda x: iter(int, 1)",
    "lambda x: filter(None, x)",
    "lambda x: slice(1)",
    "lambda x: hash(x)",
    "lambda x: id(x)",
    "lambda x: repr(x)",
    "lambda x: ascii(x)",
    "lambda x: format(x, '>9')",
    "lambda x: pow(9, 10**9)",
    "lambda x: hex(x)",
    "lambda x: bytes(10**9)",
    "lambda x: frozenset(x)",
    "lambda x: complex(x)",
    "lambda x: callable(x)",
    "lambda x: delattr(x, 'a')",
    "lambda x: setattr(x, 'a', 1)",
    "lambda x: hasattr(x, '__class__')",
    "lambda x: dir(x)",
    "lambda x: locals()",
    "lambda x: help()",
    "lambda x: exit()",
    "lambda x: vars()",
    "lambda x: property(x)",
    "x if True else lambda x: x",
    "[lambda x: x][0]",
    "(yield)",
    "import os",
    "lambda x: x\nimport os",
    "lambda x: x; import os",
    "lambda x: (x\n)\n\n+ __import__('os')",
]


@pytest.mark.parametrize("source", REFUSED)
def test_refused(source: str) -> None:
    with pytest.raises(TransformError):
        compile_transform(source)


ANSWERED = [
    # Values that show what they are made of
    ("lambda x: str(zip(x))", "ab"),
    ("lambda x: f'{enumerate(x)}'", "ab"),
    ("lambda x: f'{reversed(x)!r}'", "ab"),
    ("lambda x: '%s' % (zip(x),)", "ab"),
    ("lambda x: '%r' % reversed(x)", "ab"),
    ("lambda x: str([zip(x)])", "ab"),
    ("lambda x: str({'a': enumerate(x)})", "ab"),
    ("lambda x: f'{[zip(x)]}'", "ab"),
    ("lambda x: '%(a)s' % {'a': zip(x)}", "ab"),
    # Methods of other types
    ("lambda x: x.get('a')", "text"),
    ("lambda x: x.count('a', 0, 10, 20)", "text"),
    ("lambda x: x.join(x, x)", "text"),
    ("lambda x: x.keys().keys()", {}),
    ("lambda x: x.items().count(1)", {"a": 1}),
    ("lambda x: x.upper(1)", "text"),
    ("lambda x: [].upper()", "text"),
    ("lambda x: x.index(x)", [1]),
    # Wrong arguments reach Python's functions
    ("lambda x: int(x, x, x)", 1),
    ("lambda x: dict(x, x)", {}),
    ("lambda x: dict(budget=1, frame=2, self=3)", {}),
    ("lambda x: dict(x, budget=1)", {}),
    ("lambda x: zip(x, strict='a')", "ab"),
    ("lambda x: sorted(x, reverse='a')", "ab"),
    ("lambda x: sorted(x, x)", "ab"),
    ("lambda x: sum(x, x, x)", [1]),
    ("lambda x: sum(x, start='')", ["a"]),
    ("lambda x: range(x)", "a"),
    ("lambda x: range()", 1),
    ("lambda x: range(1, 2, 0)", 1),
    ("lambda x: chr(x)", 2**70),
    ("lambda x: chr(x)", 0xD800),
    ("lambda x: ord(x)", "ab"),
    ("lambda x: divmod(x, 0)", 1),
    ("lambda x: enumerate(x, 'a')", "ab"),
    ("lambda x: min()", 1),
    ("lambda x: min(x, default=1)", 1),
    ("lambda x: max(1, 2, default=3)", 1),
    ("lambda x: set(x, x)", "ab"),
    ("lambda x: list(x, x)", "ab"),
    ("lambda x: tuple(5)", "ab"),
    ("lambda x: reversed({1, 2})", 1),
    ("lambda x: len(5)", 1),
    ("lambda x: abs('a')", 1),
    ("lambda x: round('a')", 1),
    ("lambda x: round(x, 10**9)", 1.5),
    ("lambda x: float(x)", "1_0.5"),
    ("lambda x: float('nan') == float('nan')", 1),
    ("lambda x: int(x)", float("1e300")),
    ("lambda x: int('0' * 5000)", 1),
    ("lambda x: str('a', 'utf8')", 1),
    ("lambda x: isinstance(x, ())", 1),
    ("lambda x: isinstance(x, (int, (str, float)))", 1),
    ("lambda x: isinstance(x, int | str | float)", 1),
    ("lambda x: isinstance(x, (int | str, list))", []),
    ("lambda x: isinstance(zip(x), zip)", "ab"),
    # Operators on what they were not made for
    ("lambda x: x + 1", "a"),
    ("lambda x: x - x", "a"),
    ("lambda x: x * 1.5", "a"),
    ("lambda x: -x", "a"),
    ("lambda x: ~x", 1.5),
    ("lambda x: ~x", True),
    ("lambda x: x << -1", 1),
    ("lambda x: x >> 10**9", 5),
    ("lambda x: x ** -1", 0),
    ("lambda x: x ** 0.5", -8),
    ("lambda x: (x ** 0.5).upper()", -8),
    ("lambda x: x ** 10000", 1.5),
    ("lambda x: x / 0", 1),
    ("lambda x: x % 0", 1),
    ("lambda x: x[x]", "a"),
    ("lambda x: x[1.5]", [1]),
    ("lambda x: x[[1]]", {}),
    ("lambda x: x['a':'b']", [1]),
    ("lambda x: x[::0]", [1]),
    ("lambda x: x[10**30:]", [1]),
    ("lambda x: 5[0]", [1]),
    ("lambda x: None[0]", [1]),
    ("lambda x: x < {}", {}),
    ("lambda x: x in 5", 1),
    ("lambda x: 5 in x", "a"),
    ("lambda x: {x}", []),
    ("lambda x: {x: 1}", {}),
    ("lambda x: {[]: 1, 'a': 1 / 0}", 1),
    ("lambda x: {y: 1 for y in [x]}", []),
    ("lambda x: {**x, **5}", {}),
    ("lambda x: [*5]", {}),
    ("lambda x: [y for y in 5]", {}),
    ("lambda x: sum(y for y in 5)", {}),
    ("lambda x: list(zip((y for y in 5), 1 / 0))", {}),
    ("lambda x: [a for a, b in [5]]", {}),
    ("lambda x: [a for a, b in [zip(x)]]", "ab"),
    ("lambda x: [a for a, b in [zip(x, x), 'ab', {1: 2, 3: 4}, range(2)]]", "ab"),
    ("lambda x: [1 in z for z in [zip(x)]]", "ab"),
    ("lambda x: x[*x]", [1]),
    ("lambda x: x[*x]", {(): 1}),
    ("lambda x: f'{x:{{}}}'", 5),
    ("lambda x: [(('b',) in z, list(z)) for z in [zip(x)]]", "abcd"),
    ("lambda x: [[*z, *z] for z in [zip(x)]]", "abcd"),
    ("lambda x: [[*z, list(z), *z] for z in [enumerate(x)]]", "abcd"),
    ("lambda x: [(any(z), all(z), list(z)) for z in [enumerate(x)]]", "abcd"),
    ("lambda x: [(max(z), sorted(z)) for z in [reversed(x)]]", "abcd"),
    ("lambda x: [dict(z) for z in [zip(x, x), zip(x)]]", "abcd"),
    ("lambda x: x.upper(1 / 0)", 5),
    ("lambda x: x.upper(1 / 0)", "a"),
    ("lambda x: x.replace([1][5], 1 / 0)", []),
    # Scopes
    ("lambda x: [x for x in x]", "ab"),
    ("lambda x: [[x for x in x] for x in [x, x]]", "ab"),
    ("lambda x: [y for y in [z for z in x] for z in y]", ["ab"]),
    ("lambda x: [z for y in x if z for z in y]", ["ab"]),
    ("lambda x: [y for y in [1] for y in [y, 2]]", "ab"),
    ("lambda x: {k: v for v in x for k in [v]}", "ab"),
    ("lambda x: list(y + z for y in x for z in (w for w in x if w != y))", "ab"),
    ("lambda len: [len for len in [len]]", 5),
    ("lambda budget: budget", 5),
    ("lambda UNPACK: {**{UNPACK: 1}}", 5),
    ("lambda x: {3, 1, 2, *'ba', *[9, 8], *{5, 4}}", 5),
    ("lambda x: [*{3, 1, 2, 99, 'a'}, *{x, 1, 'b'}]", 5),
    ("lambda x: [*set(x), *set({'q', 'w', 'e'}), *set(x.keys())]", {"a": 1, "b": 2}),
    ("lambda x: {1: 'a', True: 'b', 1.0: 'c'}", 5),
    ("lambda x: {1, True, 1.0}", 5),
    ("lambda x: {**{'a': 1}, 'a': 2, 'b': 3, **{'b': 4}}", 5),
    # Formats
    ("lambda x: f'{x!a}{x!s:>5}{x:<5}'", "é"),
    ("lambda x: f'{x:d}'", "a"),
    ("lambda x: f'{x:s}'", 5),
    ("lambda x: f'{x:>5}'", [1]),
    ("lambda x: f'{x:{x}}'", 5),
    ("lambda x: f'{x:0{1 + 2}d}'", 5),
    ("lambda x: f'{x:,.2f}|{x:+e}|{x:%}'", 1234.5),
    ("lambda x: f'{x=}' f'{{}}'", 5),
    ("lambda x: f'{None}{True}{[x]}'", 5),
    ("lambda x: '%5%' % x", ()),
    ("lambda x: '%c%c' % (x, 66)", "a"),
    ("lambda x: '%c' % x", 2**40),
    ("lambda x: '%d' % x", "a"),
    ("lambda x: '%s' % x", (1, 2)),
    ("lambda x: '%s' % (x,)", (1, 2)),
    ("lambda x: '%(a)s %(b)s' % x", {"a": 1}),
    ("lambda x: '%(a)s %%' % x", {"a": 1}),
    ("lambda x: '%(a)s %s' % x", {"a": 1}),
    ("lambda x: '%s %(a)s' % x", {"a": 1}),
    ("lambda x: '%()s' % x", {"": 1}),
    ("lambda x: '%x' % x", 1.5),
    ("lambda x: 'a' % x", {}),
    ("lambda x: 'a' % x", []),
    ("lambda x: '%' % x", {}),
    ("lambda x: '%s%s' % x", {}),
    ("lambda x: '%hd%ld%Ld' % (x, x, x)", 3),
    ("lambda x: '%+-# 05.3d|' % x", 3),
]

SCOPE = {name: getattr(builtins, name) for name in (*sandbox.FUNCTIONS, "isinstance")}


@pytest.mark.parametrize(("source", "value"), ANSWERED)
@pytest.mark.filterwarnings("ignore")
def test_answered_as_python_does(source: str, value: Any) -> None:
    """With Python's value, or an error of the same type; a value that has no text of its own is an
    error here."""
    assert compile_transform(source) is not None
    try:
        expected: Any = eval(source, {"__builtins__": SCOPE})(value)  # noqa: S307 - written above
    except Exception as error:
        with pytest.raises(TransformFailure) as caught:
            compile_transform(source)(value)
        name = "NameError" if isinstance(error, NameError) else type(error).__name__
        assert str(caught.value).startswith((name, "TypeError: a value of type")), (
            str(caught.value),
            repr(error),
        )
        return
    try:
        found = compile_transform(source)(value)
    except TransformFailure as failure:
        assert str(failure).startswith(("TypeError: a value of type", "it ")), str(failure)
        assert " object at 0x" in str(expected) or str(failure).startswith("it ")
        return
    if hasattr(found, "__next__"):
        found, expected = list(found), list(expected)
    assert repr(found) == repr(expected) and type(found) is type(expected)


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def test_compiled_code_only_calls_guards() -> None:
    """A code object lists the globals and the attributes that it uses; no attribute's name begins
    with a dollar sign."""
    for source, _ in ANSWERED:
        for code in codes(compile_transform(source)._function.__code__):
            assert all(
                name.startswith("$") and name in transform._GLOBALS for name in code.co_names
            ), (source, code.co_names)


def test_transforms_share_nothing_that_can_change() -> None:
    before = dict(transform._GLOBALS)
    for source, value in ANSWERED:
        with contextlib.suppress(TransformFailure):
            compile_transform(source)(value)
    assert before == transform._GLOBALS
    assert transform._GLOBALS["__builtins__"] == {}


def test_no_guard_gives_its_tools_away() -> None:
    """Each guard is a function of the sandbox or one of Python's own that gives plain values."""
    plain = {bool, len, abs, reversed, enumerate, ord, chr, divmod, isinstance}
    for name, guard in sandbox.GUARDS.items():
        assert guard in plain or (
            isinstance(guard, types.FunctionType) and guard.__module__ == sandbox.__name__
        ), name


def test_no_character_becomes_a_guard_s_name() -> None:
    """Python normalises names; no character that it allows in one turns into a dollar sign, a dot
    or a blank."""
    for code in range(0x110000):
        character = chr(code)
        if ("a" + character).isidentifier():
            assert ("a" + unicodedata.normalize("NFKC", character)).isidentifier(), hex(code)
