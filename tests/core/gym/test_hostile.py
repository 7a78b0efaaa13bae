"""Texts and lambdas that mean harm: answered in linear time, refused at load, or stopped within 100
ms and 50 MB.

A machine that others use takes longer for everything. There, 100 ms are as long as `ROUNDS` of a
plain loop take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.reply import spoken

ROUNDS = 3_000_000
"""Rounds of a plain loop in 100 ms of a quiet machine (Xeon, Python 3.11)."""

BIG = "'a' * 1_000_000"
WORDS = "'abcdefghi ' * 99_000"
COLLIDING = "[number * (2**61 - 1) for number in range(40_000)]"

REFUSED = [
    # Out of the value by its attributes
    "lambda x: x.__class__.__mro__[1].__subclasses__()",
    "lambda x: ().__class__.__bases__[0].__subclasses__()",
    "lambda x: x.__init__.__globals__['os'].system('id')",
    "lambda x: x.upper.__self__",
    "lambda x: (x for y in x).gi_frame.f_back.f_builtins",
    "lambda x: [x for y in x].__len__()",
    "lambda x: x.gi_frame",
    "lambda x: x.f_globals",
    "lambda x: x.real.numerator.__class__",
    "lambda x: ctx.__class__",
    "lambda x, ctx: ctx.mro()",
    "lambda x, ctx: ctx.pop('a')",
    "lambda x, ctx: ctx.update({'a': 1})",
    "lambda x, ctx: ctx.setdefault('a', 1)",
    "lambda x, ctx: ctx.clear()",
    "lambda x: x.sort()",
    "lambda x: x.append(x)",
    # Format tricks
    "lambda x: '{0.__class__}'.format(x)",
    "lambda x: '{x.__class__}'.format_map({'x': x})",
    "lambda x: f'{x.__class__}'",
    "lambda x: f'{x:999999999999}'",
    "lambda x: f'{x:.999999999}'",
    "lambda x: f'{(lambda: 1)()}'",
    "lambda x: f'{[y := 1]}'",
    # Names
    "lambda x: __builtins__",
    "lambda x: __import__('os').system('id')",
    "lambda x: eval('1')",
    "lambda x: exec('1')",
    "lambda x: compile('1', '', 'eval')",
    "lambda x: globals()",
    "lambda x: vars(x)",
    "lambda x: type('X', (), {})",
    "lambda x: getattr(x, '__class__')",
    "lambda x: super().__init__",
    "lambda x: object()",
    "lambda x: breakpoint()",
    "lambda x: input()",
    "lambda x: print(x)",
    "lambda x: map(eval, x)",
    "lambda x: isinstance(x, type)",
    "lambda eval: eval('1')",
    "lambda x: [eval('1') for eval in x]",
    "lambda x: ｅｖａｌ('1')",
    "lambda x: x.__ｃｌａｓｓ__",
    "lambda x: ｘ.＿＿class＿＿",
    "lambda x: x.ｆｏｒｍａｔ(1)",
    "lambda __class__: __class__",
    # Syntax that has effects
    "lambda x: (lambda f: f(f))(lambda f: f(f))",
    "lambda x, y=print(1): x",
    "lambda x, y=[].append(1): x",
    "lambda x, y=(lambda: 1)(): x",
    "lambda *x: x",
    "lambda x: (y := 1)",
    "lambda x: [y := y for z in x]",
    "lambda x: (yield)",
    "lambda x: (await x)",
    "lambda x: max(*x)",
    "lambda x: [a async for a in x]",
    "lambda x: x @ x",
    # Deep or huge
    "lambda x: " + "(" * 4000 + "x" + ")" * 4000,
    "lambda x: " + "[" * 4900 + "]" * 4900,
    "lambda x: " + "-" * 9000 + "1",
    "lambda x: " + "not " * 2400 + "x",
    "lambda x: " + "x+" * 4900 + "x",
    "lambda x: " + "x if x else " * 800 + "x",
    "lambda x: " + "x.upper()" + ".upper()" * 1200,
    "lambda x: " + "x" + "[0]" * 3000,
    "lambda x: " + "f'{" * 160 + "x" + "}'" * 160,
    "lambda x: " + "9" * 4000,
    "lambda x: " + "9" * 9000,
    "lambda x: 0x" + "f" * 9000,
    "lambda x: '" + "a" * 10_000 + "'",
    "lambda x: [" + "1," * 6000 + "]",
    "lambda x: '\0'",
    "lambda x: \ud800",
    "(" * 9000,
    "\\" * 9000,
    "lambda x: '''" * 50,
    "lambda " + ",".join(f"a{number}" for number in range(1500)) + ": 1",
]

STOPPED = [
    # Repetition and power
    ("lambda x: 'a' * 10**9", "1"),
    ("lambda x: 10**9 * 'a'", "1"),
    ("lambda x: [0] * 10**9", "1"),
    ("lambda x: (0,) * 10**10", "1"),
    ("lambda x: [[[[1] * 50] * 50] * 50] * 50", "1"),
    ("lambda x: str([[[[[1] * 50] * 50] * 50] * 50])", "1"),
    ("lambda x: 10**10**10", "1"),
    ("lambda x: x**x**x", "9**9"),
    ("lambda x: 2**4096", "1"),
    ("lambda x: 1 << 10**9", "1"),
    ("lambda x: x << x", "2**40"),
    ("lambda x: x * x * x * x", "2**4000"),
    ("lambda x: -x * x", "2**4000"),
    ("lambda x: x", "2**5000"),
    ("lambda x: [a * a for a in range(2**4000, 2**4000 + 5000)]", "1"),
    ("lambda x: int(x)", "'9' * 1_000_000"),
    ("lambda x: int(x, 16)", "'f' * 1_000_000"),
    ("lambda x: int(x, 2)", "'1' * 1_000_000"),
    ("lambda x: float(x)", "'9' * 1_000_000"),
    ("lambda x: round(x, -10**9)", "5"),
    # Text
    ("lambda x: x + x", BIG),
    ("lambda x: ' '.join(['a' * 1_000_000] * 1000)", "1"),
    ("lambda x: x.join(['', ''] * 40000)", "'abc' * 1000"),
    ("lambda x: x.replace('a', 'b' * 1000)", BIG),
    ("lambda x: x.replace('', 'b' * 1000)", BIG),
    ("lambda x: x.replace('a', 'aa').replace('a', 'aa')", BIG),
    ("lambda x: x.zfill(10**12)", "'a'"),
    ("lambda x: x.ljust(10**9)", "'a'"),
    ("lambda x: x.center(10**9, 'b')", "'a'"),
    ("lambda x: f'{x:>{10**9}}'", "'a'"),
    ("lambda x: f'{x:{x}}'", "10**8"),
    ("lambda x: f'{x!a}{x!r}'", "'\\U0001f600' * 900_000"),
    ("lambda x: str([x, x])", BIG),
    ("lambda x: x.upper()", "'\u0390' * 999_999"),
    ("lambda x: x.lower()", "'\u0130' * 999_999"),
    ("lambda x: x.strip(x)", "''.join(map(chr, range(0x4e00, 0x9e00))) * 40"),
    ("lambda x: [x.count('b') for y in range(9000)]", BIG),
    ("lambda x: [x.replace('a', 'b') for y in range(9000)]", BIG),
    ("lambda x: [x[y:] for y in range(9000)]", BIG),
    ("lambda x: [x == x[:999_998] + 'bb' for y in range(9000)]", BIG),
    # Items
    ("lambda x: list(range(10**12))", "1"),
    ("lambda x: sum(range(10**12))", "1"),
    ("lambda x: 10**12 in range(10**30)", "1"),
    ("lambda x: sorted(range(10**7))", "1"),
    ("lambda x: list(x)", BIG),
    ("lambda x: ''.join(reversed(x))", BIG),
    ("lambda x: x.split()", "'a ' * 500_000"),
    ("lambda x: x.split('a')", BIG),
    ("lambda x: x.rsplit('a')", BIG),
    ("lambda x: x.splitlines()", "'\\n' * 1_000_000"),
    ("lambda x: [y for y in range(99_999)]", "1"),
    ("lambda x: [1 for a in range(999) for b in range(999)]", "1"),
    ("lambda x: sum(1 for a in range(999) for b in range(999) if 0)", "1"),
    ("lambda x: any(0 for a in range(999) for b in range(999))", "1"),
    ("lambda x: {a: b for a in range(999) for b in range(999)}", "1"),
    ("lambda x: sum([[1]] * 90_000, [])", "1"),
    ("lambda x: sum(x, [])", "[[1] * 9] * 20_000"),
    ("lambda x: list(zip(" + ",".join(["x"] * 900) + "))", "[1] * 99_999"),
    ("lambda x: all(zip(" + ",".join(["x"] * 900) + "))", "[1] * 99_999"),
    ("lambda x: set(x)", COLLIDING),
    ("lambda x: {y for y in x}", COLLIDING),
    ("lambda x: dict(zip(x, x))", COLLIDING),
    ("lambda x: len({y: 1 for y in x})", COLLIDING),
    ("lambda x: x", "[0] * 1_000_000"),
    ("lambda x: [sorted(x) for y in range(1000)]", "list(range(90_000, 0, -1))"),
    ("lambda x: [" + "x.upper(), [" * 40 + "1" + "]" * 41, BIG),
    ("lambda x: " + "x.split() == (" * 45 + "1" + ")" * 45, WORDS),
    ("lambda x: max(" + ",".join(["x.split()"] * 100) + ")", WORDS),
    ("lambda x: [" + ",".join(["x.upper()"] * 500) + "]", "'a' * 9_999"),
    ("lambda x: [[x] * 100 for y in range(100)]", "'a' * 200"),
    ("lambda x: [*x, *x]", "list(range(90_000))"),
    ("lambda x: [*x, *[*x, *x], *x]", "list(range(60_000))"),
    ("lambda x: {**x, **{k + 'b': v for k, v in x.items()}}", "{str(i): i for i in range(90_000)}"),
]

WIDE = "zip(" + ",".join(["x"] * 1100) + ")"
"""Gives tuples whose size nothing has looked at."""
PAIR_OF_LISTS = "[list(range(50_000)), list(range(50_000))]"
PAIR_OF_TUPLES = "(tuple(range(45_000)), tuple(range(45_000)))"

NESTED = " ".join(
    f"for {name} in [zip({','.join([source] * 300)})]" for name, source in ("ax", "ba", "cb")
)
"""Zips of zips: one step of the last takes 27 million items."""

STOPPED += [
    ("lambda x: [y for y in zip(" + "x," * 4800 + ")]", "[0] * 5_000"),
    ("lambda x: [[0] * 4000 for y in range(3000)]", "1"),
    ("lambda x: [[[0] * 4000] for y in range(3000)]", "1"),
    ("lambda x: [[" + "1," * 4000 + "] for y in range(3000)]", "1"),
    ("lambda x: {y: [0] * 4000 for y in range(3000)}", "1"),
    ("lambda x: {('a', y, 'b' * 4000): 1 for y in range(3000)}", "1"),
    ("lambda x: {(y,) * 4000 for y in range(3000)}", "1"),
    ("lambda x: [chr(128512) * 4000 + str(y) for y in range(3000)]", "1"),
    ("lambda x: [x[y:] for y in range(3000)]", "[0] * 4_000"),
    ("lambda x: [[list(x) for y in range(30)] for z in range(90)]", "[0] * 4_000"),
    ("lambda x: [" + "[0]*4096," * 1000 + "]", "1"),
    ("lambda x: max(" + "[0]*4096," * 1000 + ")", "1"),
    ("lambda x: dict(" + ",".join(f"a{number}=[0]*4096" for number in range(600)) + ")", "1"),
    ("lambda x: list([0] * 4000 for y in range(3000))", "1"),
    ("lambda x: [1 " + NESTED + " for d in c]", "[0] * 99_999"),
    ("lambda x: [d " + NESTED + " for d, e in [c]]", "[0] * 99_999"),
    ("lambda x: [[*c] " + NESTED + "]", "[0] * 99_999"),
    ("lambda x: [any(c) " + NESTED + "]", "[0] * 99_999"),
    ("lambda x: [1 in c " + NESTED + "]", "[0] * 99_999"),
    ("lambda x: [dict(c) " + NESTED + "]", "range(99_999)"),
    ("lambda x: [list(enumerate(c)) " + NESTED + "]", "[0] * 99_999"),
    ("lambda x: [list(enumerate(y for y in c)) " + NESTED + "]", "[0] * 99_999"),
    ("lambda x: [a == b for a, b in [" + WIDE + "]]", PAIR_OF_LISTS),
    ("lambda x: [a < b for a, b in [" + WIDE + "]]", PAIR_OF_LISTS),
    ("lambda x: [a in [b] for a, b in [" + WIDE + "]]", PAIR_OF_LISTS),
    ("lambda x: [a in {b: 1} for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [a in {1} for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [{}.get(a) for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [{1: 2}[a] for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [hash for hash, b in [" + WIDE + "] if [b].count(hash)]", PAIR_OF_LISTS),
    ("lambda x: [max(a, b) for a, b in [" + WIDE + "]]", PAIR_OF_LISTS),
    ("lambda x: [sorted(a) for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [set(a) for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [f'{a}' for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: ['%s' % (a,) for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: {a for a, b in [" + WIDE + "]}", PAIR_OF_TUPLES),
    ("lambda x: {a: 1 for a, b in [" + WIDE + "]}", PAIR_OF_TUPLES),
    ("lambda x: [a + b for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [a * 2 for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [[*a] for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [sum(a, ()) for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [a[:-1] == b[:-1] for a, b in [" + WIDE + "]]", PAIR_OF_TUPLES),
    ("lambda x: [a is None for a, b in [" + WIDE + "] if a[1:] != b[1:]]", PAIR_OF_LISTS),
    ("lambda x: (1,) in " + WIDE + "", PAIR_OF_LISTS),
    ("lambda x: 5 in " + WIDE + "", "[0]*99_999"),
    ("lambda x: [1 for y in range(3000) if 1.5 in range(100000)]", "1"),
    (
        "lambda x: [1 for y in range(3000) if x.keys() == x.keys()]",
        "{str(i):i for i in range(40_000)}",
    ),
    ("lambda x: [1 for y in range(3000) if x == x]", PAIR_OF_LISTS),
    (
        "lambda x: [1 for y in range(3000) if 5.5 in x.values()]",
        "{str(i):i for i in range(40_000)}",
    ),
    (
        "lambda x: [1 for y in range(3000) if x.get((x['0'],)*50_000)]",
        "{str(i):i for i in range(40)}",
    ),
    ("lambda x: [1 for y in [(0,)*90_000] for z in range(3000) if {}.get(y)]", "1"),
    ("lambda x: [1 for y in [(0,)*90_000] for z in range(3000) if y in {1}]", "1"),
    ("lambda x: {y for y in [(0,)*90_000] for z in range(3000)}", "1"),
    ("lambda x: " + " == ".join(["x"] * 400), PAIR_OF_LISTS),
    ("lambda x: " + " <= ".join(["x"] * 400), PAIR_OF_LISTS),
    ("lambda x: " + " == ".join(["x[:]"] * 99), "list(range(90_000))"),
    ("lambda x: [{**x} for y in range(3000)]", "{str(i):i for i in range(40_000)}"),
    ("lambda x: [x | x for y in range(3000)]", "{str(i):i for i in range(40_000)}"),
    ("lambda x: [x.items() & x.items() for y in range(3000)]", "{str(i):i for i in range(40_000)}"),
    ("lambda x: [set(x) for y in range(3000)]", "{str(i):i for i in range(40_000)}"),
    ("lambda x: [dict(x) for y in range(3000)]", "{str(i):i for i in range(40_000)}"),
    ("lambda x: dict(" + ",".join(f"a{number}=x" for number in range(800)) + ")", PAIR_OF_LISTS),
    ("lambda x: [" + "x," * 2000 + "]", PAIR_OF_LISTS),
    ("lambda x: {" + "x," * 2000 + "}", PAIR_OF_TUPLES),
    ("lambda x: {" + "x:1," * 900 + "}", PAIR_OF_TUPLES),
    ("lambda x: {" + "**x," * 900 + "}", "{str(i):i for i in range(40_000)}"),
    ("lambda x: [" + "*x," * 900 + "]", "list(range(90_000))"),
    ("lambda x: [" + "*enumerate(x)," * 600 + "]", "list(range(30_000))"),
    ("lambda x: [*zip(" + "x," * 2000 + ")]", "list(range(90_000))"),
    ("lambda x: f'" + "{x}" * 1000 + "'", "'a'*100_000"),
    ("lambda x: f'" + "{x!r}" * 600 + "'", "'\\n'*400_000"),
    ("lambda x: f'" + "{x:999999}" * 900 + "'", "'a'"),
    ("lambda x: '%999999d' * 9 % (1,2,3,4,5,6,7,8,9)", "1"),
    ("lambda x: '%(a(b))99999999d' % {'a(b)': 1}", "1"),
    ("lambda x: ('%s' * 90_000) % ((x,) * 90_000)", "2**4000"),
    ("lambda x: ('%(a)s' * 90_000) % {'a': x}", "'a'*200"),
    ("lambda x: [str(2**4095) for y in range(3000)]", "1"),
    ("lambda x: [int('9' * 1200) for y in range(3000)]", "1"),
    ("lambda x: [int('z' * 750, 36) for y in range(3000)]", "1"),
    ("lambda x: [2**4000 % (2**2000 - 1) for y in range(3000)]", "1"),
    ("lambda x: [divmod(2**4095, 3) for y in range(3000)]", "1"),
    ("lambda x: [x.title().swapcase() for y in range(3000)]", "'ab '*330_000"),
    ("lambda x: x" + ".title()" * 98 + "", "'ab '*330_000"),
    ("lambda x: x" + ".strip('abcdefghijklmnop')" * 90 + "", "'ab '*330_000"),
    ("lambda x: [1 for y in range(3000) if x.startswith(('b' * 900, ) * 900)]", "'b'*990_000"),
    ("lambda x: [x.rfind('b' + 'a' * 400_000) for y in range(3000)]", "'a'*990_000"),
    ("lambda x: [x.rsplit('b' + 'a' * 400_000) for y in range(3000)]", "'a'*990_000"),
    ("lambda x: [x.rpartition('b' + 'a' * 400_000) for y in range(3000)]", "'a'*990_000"),
    ("lambda x: [x.count('a' * 400_000 + 'b') for y in range(3000)]", "'a'*990_000"),
    (
        "lambda x: [sorted(x, reverse=True) for y in range(30)]",
        "[str(i*7919%100_000) for i in range(90_000)]",
    ),
    ("lambda x: [sorted(x) for y in range(3000)]", "[[0]*400 + [i*7919%200] for i in range(240)]"),
    ("lambda x: [min(x) for y in range(3000)]", "[[0]*400 + [i*7919%200] for i in range(240)]"),
    (
        "lambda x: [x.count([0]*400) for y in range(3000)]",
        "[[0]*400 + [i*7919%200] for i in range(240)]",
    ),
    ("lambda x: [reversed(x) for y in range(9000)]", "1*[1]*90_000"),
    ("lambda x: [enumerate(x) for y in range(5000)]", "1*[1]*90_000"),
    ("lambda x: list(enumerate(enumerate(enumerate(enumerate(x)))))", "[1]*90_000"),
    ("lambda x: [y for y in " + "enumerate(" * 60 + "x" + ")" * 60 + "]", "[1]*90_000"),
    ("lambda x: [" + "list(a for a in " * 30 + "x" + ")" * 30 + "]", "[1]*90_000"),
    ("lambda x: sum([x] * 2, [])", "[[1]*60_000]"),
    ("lambda x: [sum(x, []) for y in range(3000)]", "[[1]]*30_000"),
    ("lambda x: [sum(x) for y in range(3000)]", "[1]*90_000"),
    ("lambda x: [sum(x) for y in range(3000)]", "[2**4000]*9_000"),
    ("lambda x: [len(list(range(90_000))) for y in range(3000)]", "1"),
    ("lambda x: [round(x, -4000) for y in range(3000)]", "2**4000"),
    ("lambda x: [any(x) for y in range(3000)]", "[0]*90_000"),
    ("lambda x: [all(x) for y in range(3000)]", "'a'*900_000"),
    ("lambda x: [','.join(x) for y in range(3000)]", "['a']*90_000"),
    ("lambda x: [x.splitlines() for y in range(3000)]", "'a'*990_000"),
    ("lambda x: [x.isalnum() for y in range(3000)]", "'a'*990_000"),
    (
        "lambda x: [bool(x) or x.upper() for y in range(3000)] and [x.lower() for y in range(30)]",
        "'a'*990_000",
    ),
    ("lambda x: [y[0][0] for y in [{t: 1 for t in x}]]", COLLIDING),
    ("lambda x: [1 for y in range(3000) if 0 in x]", COLLIDING),
    ("lambda x: [a for a in x if a in dict(zip(x[:2000], x[:2000]))]", COLLIDING),
    (
        "lambda x: [[1 for a in x[:2000] if a in d] for d in [set(x[:1500])] for y in range(100)]",
        COLLIDING,
    ),
    ("lambda x: 'a' * (2**62)", "1"),
    ("lambda x: [0] * (2**63)", "1"),
    ("lambda x: x" + "[::-1]" * 92 + "", "'a'*990_000"),
    (
        "lambda x: range(2**4000, 2**4000 + 10**5)[5:][::2] == x or [str(y) for y in "
        "range(2**4000, 2**4000 + 3000)]",
        "1",
    ),
    ("lambda x: {" + ",".join(f"'{number}':x" for number in range(1000)) + "}", "'a'*900_000"),
    ("lambda x: [[[[[[x] * 9] * 9] * 9] * 9] * 9] * 9", "1"),
    ("lambda x: [1 for a in x for b in a for c in b]", "[[[0]*10]*100]*90"),
    ("lambda x: x.zfill(1_000_000).zfill(10**18)", "'a'"),
    ("lambda x: x.ljust(True).center(2**4000)", "'a'"),
    ("lambda x: x.replace('', x[:1000])", "'ab'*5000"),
    ("lambda x: x.replace('a', x, 2**4000)", "'a'*5000"),
    ("lambda x: x.split('a', 2**4000)", "'a'*500_000"),
    ("lambda x: x.split(maxsplit=2**4000)", "'a '*490_000"),
    ("lambda x: {}.keys() | x", COLLIDING),
    ("lambda x: {}.keys() ^ x", COLLIDING),
    ("lambda x: {}.items() | x", COLLIDING),
    ("lambda x: x | {}.keys()", COLLIDING),
    ("lambda x: x - {}.keys()", COLLIDING),
    ("lambda x: {}.keys() & x", COLLIDING),
    ("lambda x: enumerate(x) ^ {}.items()", COLLIDING),
    ("lambda x: {}.keys() | zip(" + "x," * 4800 + ")", "[0] * 99_999"),
    ("lambda x: zip(" + "x," * 4800 + ") | {}.keys()", "[0] * 99_999"),
    ("lambda x: {}.keys() - zip(" + "x," * 4000 + ")", "[0] * 99_999"),
    ("lambda x: max(zip(" + "x," * 4000 + "))", "[0] * 99_999"),
    ("lambda x: [*zip(enumerate(zip(" + "x," * 4000 + ")), x)]", "[0] * 99_999"),
    ("lambda x: all(enumerate(enumerate(zip(" + "x," * 4000 + "))))", "[0] * 99_999"),
    ("lambda x: set(x)", "[number << 40 for number in range(90_000)]"),
    ("lambda x: set(x)", "[float(number) * 2.0**200 for number in range(90_000)]"),
    ("lambda x: set(tuple(x[:2000])) & set(x[2000:4000])", COLLIDING),
    ("lambda x: sorted(enumerate(x))", "[str(number) for number in range(90_000)]"),
    ("lambda x: [y for y in reversed(range(99_999)) if y in x]", "list(range(90_000))"),
    ("lambda x: [x.endswith(x) for y in range(1200)]", "'a' * 990_000"),
    ("lambda x: f'{x!a}'", "['\\U0001f600' * 9] * 90_000"),
]

HARMLESS = [
    ("lambda x: x.rfind(x[:500_000] + 'b') + x.rfind('b' + x[:500_000]) * 9", "'a' * 999_999"),
    ("lambda x: sorted(x)", "[str(number * 7919 % 100_000) for number in range(30_000)]"),
    ("lambda x: x.rfind('b' + 'a' * 500)", BIG),
    ("lambda x: x.rsplit('b' * 600)", BIG),
    ("lambda x: x.rpartition('b' * 600)", BIG),
    ("lambda x: x.strip('b' * 9000 + 'a')", BIG),
    ("lambda x: x.find('a' * 500 + 'b')", BIG),
    ("lambda x: x.title()", BIG),
    ("lambda x: x.partition('b')", BIG),
    ("lambda x: min([x] * 9)", "'a' * 90_000"),
    ("lambda x: x == x[:]", "list(range(90_000))"),
    ("lambda x: sum(x)", "list(range(90_000))"),
    ("lambda x: 0 << 10**30", "1"),
    ("lambda x: (-1) ** 10**9", "1"),
]


def costs(cases: list[tuple[str, str]]) -> list[dict[str, object]]:
    script = Path(__file__).parents[2] / "support" / "hostile_lambdas.py"
    done = subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("expected", "cases"),
    [
        ("refused", [(source, "1") for source in REFUSED]),
        ("stopped", STOPPED),
        ("harmless", HARMLESS),
    ],
    ids=["refused", "stopped", "harmless"],
)
def test_hostile_lambdas(expected: str, cases: list[tuple[str, str]]) -> None:
    found = costs(cases)
    assert len(found) == len(cases)
    wrong = []
    for (source, _), cost in zip(cases, found, strict=True):
        soon = float(str(cost["ms"])) < 100 or float(str(cost["rounds"])) < ROUNDS
        good = str(cost["outcome"]).startswith(expected) and soon and float(str(cost["mb"])) < 50
        if not good:
            wrong.append((source[:80], cost))
    assert not wrong, "\n".join(map(str, wrong))
    worst = max(found, key=lambda cost: float(str(cost["ms"])))
    largest = max(found, key=lambda cost: float(str(cost["mb"])))
    print(
        f"\n{expected}: {len(found)} lambdas, at most {worst['ms']:.0f} ms and {largest['mb']:.0f} "
        "MB"
    )


CONFIG = """
action_mappings:
  type:
    _parser: {positional: [text, more]}
    _tool: computer
    text: {from_arg: text}
    more: {from_arg: more, transform: "lambda x: str(x)"}
"""

REPLIES = {
    "think tags": "<think>",
    "blanks": " ",
    "tool tags": "<tool>",
    "empty tools": "<tool></tool>",
    "calls": "<tool>type(1)</tool>",
    "think blocks": "<think></think>",
    "quotes": "\"'",
    "escapes": "\\",
    "opening tags": "<",
    "opening brackets": "[",
    "nested objects": '{"a":',
    "commas": ",",
    "parentheses": "(",
    "digits": "1",
    "words": "a ",
    "equals": "a=",
    "arguments": "1,",
    "keywords": "a=1,",
    "names": "\\N{",
    "mixed": "<tool><think>\"'</think>(",
}


@pytest.mark.timeout(45)
@pytest.mark.parametrize("name", sorted(REPLIES))
def test_half_a_megabyte_of_anything_gets_an_answer(name: str) -> None:
    """Quadratic work would take minutes and run into the limit; `tests/bench/hostile_replies.py`
    prints the times."""
    config, _ = parse_config(CONFIG, name="c.yaml")
    assert config is not None
    interpreter = Interpreter(config)
    for reply in shapes(REPLIES[name], 500_000):
        json.loads(json.dumps(interpreter.interpret(reply).to_json()))


def shapes(unit: str, size: int) -> list[str]:
    text = unit * (size // len(unit))
    return [
        text,
        f"<tool>{text}</tool>",
        f"<tool>type({text})</tool>",
        f'<tool>type("{text}")</tool>',
        f"<think>{text}<tool>type([{text}",
    ]


def test_a_megabyte_of_think_or_blanks_takes_milliseconds() -> None:
    config, _ = parse_config(CONFIG, name="c.yaml")
    assert config is not None
    interpreter = Interpreter(config)
    for reply in (
        "<think>" * 140_000,
        " " * 1_000_000,
        "<think>" + " " * 1_000_000,
        "<tool>" * 160_000,
    ):
        best = 9.0
        for _ in range(5):
            began = time.thread_time()
            interpreter.interpret(reply)
            best = min(best, time.thread_time() - began)
        assert best < 0.1, "measured: at most 1.4 ms; quadratic work takes minutes"


def test_deep_arguments_reach_the_answer() -> None:
    config, _ = parse_config(CONFIG, name="c.yaml")
    assert config is not None
    depth = 100
    reply = f"<tool>type({'[' * depth}{']' * depth})</tool>"
    meaning = Interpreter(config).interpret(reply)
    assert meaning.error is None
    assert meaning.call is not None
    text = json.dumps(meaning.to_json())
    assert text.count("[" * depth) == 3  # tool text, action, call
    refused = Interpreter(config).interpret(f"<tool>type({'[' * 101}{']' * 101})</tool>")
    assert refused.error is not None and (refused.error.stage, refused.error.column) == (
        "syntax",
        106,
    )


@pytest.mark.parametrize(
    ("pattern", "tail"),
    [
        ("<tool></think>", ""),
        ("<tool></think>", "</tool>"),
        ('<tool>"</think>"', "</tool>"),
        ('<tool>\\"</think>', "</tool>"),
        ("</think><think>", ""),
        ("<think><tool></think>", ""),
    ],
)
def test_what_is_said_beside_very_many_thoughts_is_found_in_linear_time(pattern: str, tail: str):
    text = pattern * (2_000_000 // len(pattern)) + tail
    began = time.process_time()
    spoken(f"{text}It is 42.")
    assert time.process_time() - began < 8


def test_after_many_thoughts_what_stands_behind_the_last_one_is_said():
    assert spoken("It is 41.</think>" * 5000 + "It is 42.<tool>done()</tool>") == "It is 42."
    assert spoken("<think>It is 41.</think>So: " * 5000 + "It is 42.") == "So: It is 42."
