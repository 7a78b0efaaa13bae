"""Transforms against Python's own `eval`: whatever the subset gives, Python gives, types
included."""

from __future__ import annotations

import builtins
import random
import warnings
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.gym.sandbox import FUNCTIONS
from hudtui.core.gym.transform import TransformFailure, compile_transform

SCOPE = {name: getattr(builtins, name) for name in (*FUNCTIONS, "isinstance")}
BATCH = 25
"""Pairs of a lambda and an input for each example."""
PLAIN_METHODS = (
    "upper",
    "lower",
    "title",
    "capitalize",
    "swapcase",
    "strip",
    "lstrip",
    "rstrip",
)


class Writer:
    """Writes lambdas: mostly well-typed, so that most of them give values, with a wrong type now
    and then."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scope: list[tuple[str, str]] = []
        self.fresh = 0

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def write(self, kind: str, depth: int) -> str:
        if self.random.random() < 0.04:
            kind = self.pick("int", "float", "str", "bool", "list", "dict", "tuple", "set")
        if depth <= 0 or self.random.random() < 0.1:
            return self.leaf(kind)
        if self.random.random() < 0.08:
            return self.general(kind, depth - 1)
        return getattr(self, f"_{kind}")(depth - 1)

    def leaf(self, kind: str) -> str:
        known = [name for name, its in self.scope if its == kind]
        if known and self.random.random() < 0.75:
            return self.pick(*known)
        leaves = {
            "int": ("0", "1", "2", "-1", "7", "10", "255", "1_000", "0x1F", "0b101"),
            "float": ("0.5", "-2.25", "1e3", ".1", "100.0", "0.0", "-0.0"),
            "str": (
                "''",
                "'a'",
                "'+'",
                "'ctrl+a'",
                '"é"',
                "'A b  c'",
                "'12'",
                "'x\\ny'",
                "'ß'",
                "'-3.5'",
                "r'\\d'",
                "'a' 'b'",
            ),
            "bool": ("True", "False"),
            "list": ("[]", "[1, 2, 3]", "['b', 'a']", "[0.5, 2]", "[[1], [2, 3]]"),
            "dict": ("{}", "{'a': 1}", "{'k': 'v', 'n': 2}", "{1: 'x'}"),
            "tuple": ("()", "(1,)", "('a', 'b')", "(3, 1, 2)"),
            "set": ("{1, 2}", "set()", "{'a'}"),
        }
        leaf: str = self.pick(*leaves[kind])
        return f"({leaf})" if kind in ("int", "float") else leaf

    def general(self, kind: str, depth: int) -> str:
        w = self.write
        return self.pick(
            lambda: f"({w(kind, depth)} if {w('bool', depth)} else {w(kind, depth)})",
            lambda: f"({w(kind, depth)} or {w(kind, depth)})",
            lambda: f"({w(kind, depth)} and {w(kind, depth)})",
            lambda: f"[{w(kind, depth)}, {w(kind, depth)}][{self.pick(0, 1, -1)}]",
            lambda: f"({w(kind, depth)},)[0]",
            lambda: (
                f"{{'q': {w(kind, depth)}}}.get({self.pick(repr('q'), repr('z'))}, "
                f"{w(kind, depth)})"
            ),
            lambda: f"ctx.get({self.pick('a', 'b', 'n', 's')!r}, {w(kind, depth)})",
            lambda: f"[{w(kind, depth)} for {self.variable('int')} in range(2)][0]",
        )()

    def variable(self, kind: str) -> str:
        self.fresh += 1
        return f"v{self.fresh}"

    def loop(self, body_kind: str, depth: int) -> tuple[str, str]:
        """A body and its `for` clauses."""
        clauses = []
        added = 0
        for _ in range(self.pick(1, 1, 1, 2)):
            name = self.pick(self.variable("int"), self.variable("int"), "x")
            source, kinds = self.pick(
                (lambda: f"range({self.pick(0, 1, 3, 5)})", ["int"]),
                (lambda: self.write("str", depth), ["str"]),
                (lambda: self.pick("[1, 2, 3]", "(4, 5)", "[0, -1]", "sorted({3, 1})"), ["int"]),
                (lambda: f"enumerate({self.write('str', depth)})", ["int", "str"]),
                (
                    lambda: f"zip({self.write('str', depth)}, {self.write('list', depth)})",
                    ["str", "int"],
                ),
                (lambda: self.pick("{'a': 1, 'b': 2}.items()", "ctx.items()"), ["str", "int"]),
                (lambda: f"reversed({self.write('list', depth)})", ["int"]),
                (lambda: f"({self.leaf('int')} + i for i in range(3))", ["int"]),
            )
            text = source()
            if len(kinds) == 2:
                other = self.variable("int")
                both = f"{name}, {other}"
                clauses.append(f"for {self.pick(both, f'({both})', f'[{both}]')} in {text}")
                self.scope += [(name, kinds[0]), (other, kinds[1])]
                added += 2
            else:
                clauses.append(f"for {name} in {text}")
                self.scope.append((name, kinds[0]))
                added += 1
            if self.random.random() < 0.3:
                clauses.append(f"if {self.write('bool', min(depth, 1))}")
        body = self.write(body_kind, depth)
        del self.scope[-added:]
        return body, " ".join(clauses)

    def _int(self, d: int) -> str:
        w = self.write
        return self.pick(
            lambda: (
                f"({w('int', d)} {self.pick('+', '-', '*', '//', '%', '&', '|', '^')} "
                f"{w('int', d)})"
            ),
            lambda: f"({w('int', d)} ** {self.pick(0, 1, 2, 3)})",
            lambda: f"({w('int', d)} {self.pick('<<', '>>')} {self.pick(0, 1, 5)})",
            lambda: f"{self.pick('-', '+', '~')}{w('int', d)}",
            lambda: f"len({w(self.pick('str', 'list', 'dict', 'tuple', 'set'), d)})",
            lambda: f"int({w(self.pick('float', 'str', 'bool'), d)})",
            lambda: f"int({w('str', d)}, {self.pick(2, 10, 16, 36)})",
            lambda: f"abs({w('int', d)})",
            lambda: f"{self.pick('min', 'max')}({w('int', d)}, {w('int', d)})",
            lambda: f"{self.pick('min', 'max')}({w('list', d)}, default={w('int', d)})",
            lambda: f"round({w('float', d)})",
            lambda: f"round({w('int', d)}, {self.pick(-2, -1, 0, 1)})",
            lambda: f"sum({w('list', d)})",
            lambda: f"sum({w('list', d)}, {w('int', d)})",
            lambda: (lambda loop: f"sum({loop[0]} {loop[1]})")(self.loop("int", d)),
            lambda: f"ord({w('str', d)})",
            lambda: f"{w('str', d)}.{self.pick('find', 'rfind', 'count')}({w('str', d)})",
            lambda: (
                f"{w('str', d)}.{self.pick('find', 'rfind')}({w('str', d)}, {self.pick(0, 1, -1)}, "
                f"{self.pick(0, 2, -1)})"
            ),
            lambda: (
                f"{w(self.pick('str', 'list', 'tuple'), d)}.{self.pick('index', 'count')}("
                f"{w(self.pick('int', 'str'), d)})"
            ),
            lambda: f"{w(self.pick('list', 'tuple'), d)}[{w('int', d)}]",
            lambda: f"{w('dict', d)}[{w('str', d)}]",
            lambda: f"divmod({w('int', d)}, {w('int', d)})[{self.pick(0, 1)}]",
        )()

    def _float(self, d: int) -> str:
        w = self.write
        return self.pick(
            lambda: (
                f"({w('float', d)} {self.pick('+', '-', '*', '/', '//', '%')} "
                f"{w(self.pick('int', 'float'), d)})"
            ),
            lambda: f"({w('int', d)} / {w('int', d)})",
            lambda: f"({w('float', d)} ** {self.pick(2, -1, 0.5)})",
            lambda: f"-{w('float', d)}",
            lambda: f"float({w(self.pick('int', 'str'), d)})",
            lambda: f"round({w('float', d)}, {self.pick(0, 1, 2, -1)})",
            lambda: f"abs({w('float', d)})",
            lambda: f"{self.pick('min', 'max')}({w('float', d)}, {w('int', d)})",
            lambda: f"sum({w('list', d)}, {w('float', d)})",
        )()

    def _str(self, d: int) -> str:
        w = self.write
        return self.pick(
            lambda: f"({w('str', d)} + {w('str', d)})",
            lambda: f"({w('str', d)} * {self.pick(0, 1, 2, 3, -1)})",
            lambda: f"{w('str', d)}.{self.pick(*PLAIN_METHODS)}()",
            lambda: f"{w('str', d)}.{self.pick('strip', 'lstrip', 'rstrip')}({w('str', d)})",
            lambda: f"{w('str', d)}.replace({w('str', d)}, {w('str', d)})",
            lambda: (
                f"{w('str', d)}.replace({w('str', d)}, {w('str', d)}, {self.pick(-1, 0, 1, 2)})"
            ),
            lambda: (
                f"{w('str', d)}.join({self.pick(*['list', 'tuple', 'str', 'set'])}({w('str', d)}))"
            ),
            lambda: (lambda loop: f"{w('str', 0)}.join({loop[0]} {loop[1]})")(self.loop("str", d)),
            lambda: (
                f"{w('str', d)}[{self.pick('0', '-1', ':1', '1:', '::-1', ':', '5', '::2', '-2:')}]"
            ),
            lambda: (
                f"str({w(self.pick('int', 'float', 'bool', 'list', 'dict', 'tuple', 'str'), d)})"
            ),
            lambda: f"chr({w('int', d)})",
            lambda: (
                f"{w('str', d)}.{self.pick('zfill', 'ljust', 'rjust', 'center')}("
                f"{self.pick(0, 3, 9)})"
            ),
            lambda: (
                f"{w('str', d)}.{self.pick('ljust', 'rjust', 'center')}(6, "
                f"{self.pick(repr('*'), repr(''), repr('é'))})"
            ),
            lambda: f"{w('str', d)}.{self.pick('removeprefix', 'removesuffix')}({w('str', d)})",
            lambda: f"{self.pick('min', 'max')}({w('str', d)}, {w('str', d)})",
            lambda: f"f'{{{self.plain(d)}}}-{{{self.plain(d)}{self.pick('', '!r', '!s', '!a')}}}'",
            lambda: (
                "f'{"
                + self.plain(d)
                + ":"
                + self.pick(">8", "<6", "^5", "05", ".2f", "x", ",", "+d", "%", "e", "08.3f", "*^9")
                + "}'"
            ),
            lambda: f"f'{{{self.plain(d)}:{{{self.pick(3, 8)}}}}}'",
            lambda: (
                f"{w('str', d)}.{self.pick('partition', 'rpartition')}({w('str', d)})["
                f"{self.pick(0, 1, 2)}]"
            ),
            lambda: (
                f"{w('str', d)}.{self.pick('split', 'rsplit', 'splitlines')}()[{self.pick(0, -1)}]"
            ),
        )()

    def plain(self, depth: int) -> str:
        """An expression without quotes and braces, for the inside of an f-string."""
        for _ in range(20):
            text = self.write(self.pick("int", "str", "float"), min(depth, 1))
            if not set("'\"{}\\!:=") & set(text):
                return f"({text})" if text[0] == "-" or " " in text else text
        return "7"

    def _bool(self, d: int) -> str:
        w = self.write
        kind = self.pick("int", "float", "str", "list", "tuple")
        return self.pick(
            lambda: f"({w(kind, d)} {self.pick('==', '!=', '<', '<=', '>', '>=')} {w(kind, d)})",
            lambda: (
                f"({w('int', d)} {self.pick('<', '<=')} {w('int', d)} {self.pick('<', '==', '!=')} "
                f"{w('int', d)})"
            ),
            lambda: (
                f"({w('str', d)} {self.pick('in', 'not in')} "
                f"{w(self.pick('str', 'list', 'dict', 'set'), d)})"
            ),
            lambda: f"(not {w('bool', d)})",
            lambda: f"({w('bool', d)} {self.pick('and', 'or')} {w('bool', d)})",
            lambda: (
                f"({w(kind, d)} {self.pick('is', 'is not')} {self.pick('None', 'True', 'False')})"
            ),
            lambda: f"bool({w(kind, d)})",
            lambda: (
                f"isinstance({w(kind, d)}, "
                f"{self.pick('int', 'str', 'float', 'list', '(int, float)', 'int | str', 'bool')})"
            ),
            lambda: f"{w('str', d)}.{self.pick('isdigit', 'isalpha', 'isalnum', 'isspace')}()",
            lambda: f"{w('str', d)}.{self.pick('startswith', 'endswith')}({w('str', d)})",
            lambda: f"{w('str', d)}.startswith(({w('str', d)}, 'a'))",
            lambda: f"{self.pick('any', 'all')}({w('list', d)})",
            lambda: (lambda loop: f"{self.pick('any', 'all')}({loop[0]} {loop[1]})")(
                self.loop("bool", d)
            ),
        )()

    def _list(self, d: int) -> str:
        w = self.write
        kind = self.pick("int", "int", "str", "float")
        return self.pick(
            lambda: f"[{w(kind, d)}, {w(kind, d)}, {w(kind, d)}]",
            lambda: f"({w('list', d)} + {w('list', d)})",
            lambda: (
                f"[*{w(self.pick('str', 'list', 'tuple', 'set', 'dict', 'int'), d)}, {w('int', d)}]"
            ),
            lambda: f"({w('list', d)} * {self.pick(0, 1, 2)})",
            lambda: (lambda loop: f"[{loop[0]} {loop[1]}]")(
                self.loop(self.pick("int", "str", "list", "tuple"), d)
            ),
            lambda: (
                f"{self.pick('list', 'sorted')}("
                f"{w(self.pick('str', 'list', 'tuple', 'set', 'dict'), d)})"
            ),
            lambda: f"sorted({w('list', d)}, reverse={w('bool', d)})",
            lambda: (
                f"list({self.pick('reversed', 'enumerate')}("
                f"{w(self.pick('str', 'list', 'tuple'), d)}))"
            ),
            lambda: f"list(zip({w('str', d)}, {w('list', d)}))",
            lambda: f"list(range({w('int', 0)}))",
            lambda: (
                f"{w('str', d)}.{self.pick('split', 'rsplit')}("
                f"{self.pick('', repr('+'), 'None, 1', 'maxsplit=1')})"
            ),
            lambda: f"{w('str', d)}.splitlines({self.pick('', 'True', 'keepends=True')})",
            lambda: f"{w('list', d)}[{self.pick(':1', '1:', '::-1', ':', '-1:', '::2')}]",
            lambda: f"list({w('dict', d)}.{self.pick('keys', 'values', 'items')}())",
            lambda: f"sum([{w('list', d)}, {w('list', d)}], [])",
        )()

    def _tuple(self, d: int) -> str:
        w = self.write
        return self.pick(
            lambda: f"({w('int', d)}, {w('str', d)})",
            lambda: f"tuple({w('list', d)})",
            lambda: f"({w('tuple', d)} + {w('tuple', d)})",
            lambda: f"divmod({w('int', d)}, {w('int', d)})",
            lambda: f"{w('str', d)}.partition({w('str', d)})",
            lambda: (lambda loop: f"tuple({loop[0]} {loop[1]})")(self.loop("int", d)),
            lambda: f"{w('tuple', d)}[{self.pick('::-1', ':1', '1:')}]",
        )()

    def _dict(self, d: int) -> str:
        w = self.write
        return self.pick(
            lambda: f"{{{w('str', d)}: {w('int', d)}, {w('str', d)}: {w('str', d)}}}",
            lambda: (lambda loop: f"{{{loop[0]}: {w('int', 0)} {loop[1]}}}")(self.loop("str", d)),
            lambda: f"dict(zip({w('str', d)}, {w('list', d)}))",
            lambda: f"dict(a={w('int', d)}, b={w('str', d)})",
            lambda: f"({w('dict', d)} | {w('dict', d)})",
            lambda: "ctx",
        )()

    def _set(self, d: int) -> str:
        w = self.write
        return self.pick(
            lambda: f"{{{w('int', d)}, {w('int', d)}}}",
            lambda: f"set({w(self.pick('str', 'list', 'tuple'), d)})",
            lambda: f"({w('set', d)} {self.pick('|', '&', '-', '^')} {w('set', d)})",
            lambda: (lambda loop: f"{{{loop[0]} {loop[1]}}}")(self.loop("int", d)),
        )()


def lambdas(seed: int, kind: str) -> Iterator[str]:
    """A batch of lambdas over a value of that kind."""
    writer = Writer(seed)
    for _ in range(BATCH):
        writer.scope = [("x", kind), ("x", kind), ("ctx", "dict")]
        body = writer.write(
            writer.pick("int", "float", "str", "bool", "list", "tuple", "dict", "set"),
            writer.pick(1, 2, 2, 3),
        )
        yield f"lambda x, ctx: {body}" if len(body) < 4_000 else "lambda x, ctx: x"


def same(ours: Any, theirs: Any) -> bool:
    """Equal, and of the same types all the way down. Iterators by what is left in them."""
    if type(ours) is not type(theirs):
        return False
    if isinstance(ours, float):
        return repr(ours) == repr(theirs)
    if isinstance(ours, list | tuple):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return same(list(ours.items()), list(theirs.items()))
    if isinstance(ours, set):
        return same(sorted(ours, key=repr), sorted(theirs, key=repr))
    if isinstance(ours, zip | enumerate | type({}.keys()) | type({}.values()) | type({}.items())):
        return same(list(ours), list(theirs))
    return bool(ours == theirs)


def compare(
    source: str, value: Any, context: dict[str, Any]
) -> Literal["value", "error", "budget"]:
    """Run one lambda both ways, and tell what came out. Ours goes first, so that nothing expensive
    ever reaches `eval`."""
    compiled = compile_transform(source)
    try:
        ours, failure = compiled(value, context), ""
    except TransformFailure as error:
        ours, failure = None, str(error)
        if failure.startswith(("it ", "a number of more")):
            return "budget"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = eval(source, {"__builtins__": SCOPE})  # noqa: S307
        theirs = function(value, context) if compiled.wants_context() else function(value)
    except Exception as error:
        expected = (
            "a value is nested too deeply"
            if isinstance(error, RecursionError)
            else type(error).__name__
        )
        assert failure.startswith(expected) or (
            expected == "UnboundLocalError" and failure.startswith("NameError")
        ), (
            source,
            value,
            context,
            failure,
            ours,
            repr(error),
        )
        return "error"
    assert not failure, (source, value, context, failure, theirs)
    assert same(ours, theirs), (source, value, context, ours, theirs)
    return "value"


INPUTS = {
    "int": st.integers(-(2**40), 2**40) | st.integers(-3, 12),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "str": st.text(max_size=20)
    | st.sampled_from(["ctrl+a", "left", "12", "-3.5", "a b\tc\n d", "ßİﬁ", "\ud800"]),
    "bool": st.booleans(),
    "list": st.lists(st.integers(-9, 9) | st.text(max_size=3), max_size=6)
    | st.lists(st.lists(st.integers(0, 3), max_size=3)),
    "dict": st.dictionaries(
        st.text(max_size=3) | st.integers(0, 5),
        st.integers(-9, 9) | st.text(max_size=3),
        max_size=5,
    ),
}
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(-9, 9),
        "b": st.text(max_size=4),
        "n": st.none() | st.floats(-9, 9),
        "s": st.lists(st.integers()),
    },
)


@settings(max_examples=max(settings.default.max_examples, 100), deadline=None)
@given(st.data(), st.sampled_from(sorted(INPUTS)), st.integers(0, 2**64), CONTEXTS)
def test_the_subset_means_what_python_means(
    data: st.DataObject, kind: str, seed: int, context: dict[str, Any]
) -> None:
    value = data.draw(INPUTS[kind])
    for source in lambdas(seed, kind):
        compare(source, value, context)


def test_most_pairs_give_values() -> None:
    """Lambdas that mostly raise would show nothing."""
    inputs = {
        "int": 3,
        "float": 0.5,
        "str": "a b 12",
        "bool": True,
        "list": [1, "b", 2],
        "dict": {"a": 1, 2: "b"},
    }
    found = [
        compare(source, value, {"a": 2, "b": "x"})
        for kind, value in inputs.items()
        for seed in range(10)
        for source in lambdas(seed, kind)
    ]
    assert len(found) == len(inputs) * 10 * BATCH
    assert found.count("value") > len(found) * 0.4


@pytest.mark.parametrize(
    ("source", "value", "context"),
    [
        (
            "lambda d, ctx: ctx.get('amount', 3) if d == 'right' else -ctx.get('amount', 3)",
            "left",
            {"amount": 5},
        ),
        ("lambda x, ctx: (x, len(ctx), sorted(ctx), 'a' in ctx, ctx['a'])", 1, {"a": 1}),
        ("lambda x, ctx: [y for x in x for y in x]", [[1], [2]], {}),
        ("lambda x, ctx: [y for y in x if y for y in [y, y]]", [1, 0, 2], {}),
        ("lambda x, ctx: [(z, y) for y in [1] if z for z in [2]]", 1, {}),
        ("lambda x, ctx: [y for x in [1] for y in (x for x in [x, 2])]", 1, {}),
        ("lambda x, ctx: any(1 / n for n in x)", [1, 0], {}),
        ("lambda x, ctx: all(n for n in x if 1 / n)", [0], {}),
        ("lambda x, ctx: [sum(a * b for b in range(a)) for a in x]", [1, 2, 3], {}),
        ("lambda x, ctx: list(zip((a for a in x), (b * b for b in x)))", [1, 2], {}),
        ("lambda x, ctx: max((a for a in x), default=3)", [], {}),
        ("lambda x, ctx: [(any(z), list(z)) for z in [zip(x, x)]]", [1, 2, 3], {}),
        ("lambda x, ctx: (-8) ** 0.5", 1, {}),
        ("lambda x, ctx: {'a': 1, 'a': 2}", 1, {}),
        ("lambda x, ctx: 1 < 2 < 3 != 4 in [4]", 1, {}),
        ("lambda x, ctx: x[1:][::-1]", "abcd", {}),
        ("lambda x, ctx: f'{x!r:>8}{x=}'", "é", {}),
        ("lambda x, ctx: '%'.join(['a', 'b'])", 1, {}),
        ("lambda x, ctx: sum([[1], [2]], [0])", 1, {}),
        ("lambda x, ctx: sum([(1,), [2]], ())", 1, {}),
        ("lambda x, ctx: sum(['a'], '')", 1, {}),
        ("lambda x, ctx: dict([('a', 1), ('b', 2)], c=3)", 1, {}),
        ("lambda x, ctx: dict([1])", 1, {}),
        ("lambda x, ctx: set([[]])", 1, {}),
        ("lambda x, ctx: x.rsplit('ab', 2)", "xababyab" * 30, {}),
        ("lambda x, ctx: x.keys() & {'a'}", {"a": 1, "b": 2}, {}),
        ("lambda x, ctx: list(range(10, 0, -3))", 1, {}),
        ("lambda x, ctx: range(5)", 1, {}),
        ("lambda x, ctx: round(2.5) + round(x)", 3.5, {}),
        ("lambda x, ctx: 0 << 10**30", 1, {}),
        ("lambda x, ctx: [a for a, (b, c) in x]", [[1, [2, 3]]], {}),
        ("lambda x, ctx: [a for a, b in x]", [[1, 2, 3]], {}),
        ("lambda x, ctx: [a for a, b in x]", [[1]], {}),
        ("lambda x, ctx: int(' 1_2 ') + int('7', base=8)", 1, {}),
        ("lambda x, ctx: [*x, 1, *'ab', *(n for n in x), *range(2)]", [3, 4], {}),
        ("lambda x, ctx: (*x,)", {"a": 1}, {}),
        ("lambda x, ctx: {*x, 1}", [1, 2], {}),
        ("lambda x, ctx: {*x}", [[1]], {}),
        ("lambda x, ctx: {**x, 'k': 1, **{'a': 5}}", {"a": 1, "k": 0}, {}),
        ("lambda x, ctx: {**x, **ctx, 'b': x['a']}", {"a": 1}, {"a": 2}),
        ("lambda x, ctx: {**x}", [1], {}),
        *(
            (f"lambda x, ctx: {text!r} % x", value, {})
            for text in (
                "%s",
                "%r|%a",
                "%d",
                "%05.1f",
                "%x%%",
                "%-8s|%+d",
                "% d",
                "%c",
                "%",
                "%z",
                "%5%",
                "%(a)s",
                "%(a)s %s",
                "%s %(a)s",
                "%(b)s",
                "plain",
                "%%",
                "%.3s",
                "%#o",
                "%i %u",
                "%e",
                "%s %s",
                "%hd %lf",
            )
            for value in ("é", 7, -2.5, True, None, [1, "b"], {"a": "x"}, [], {})
        ),
        ("lambda x, ctx: '%s-%s' % (x, [x])", "b", {}),
        ("lambda x, ctx: '%s-%d' % (*x,)", ["a", 1], {}),
        ("lambda x, ctx: '%(a)s' % ctx", 1, {"a": [2]}),
        ("lambda x, ctx: not x", [], {}),
        ("lambda x, ctx: x.index(3)", [1], {}),
        ("lambda x, ctx: min([])", 1, {}),
        ("lambda x, ctx: 'é' < 'f' if x is None else x is not None", None, {}),
    ],
)
def test_known_corners(source: str, value: Any, context: dict[str, Any]) -> None:
    compare(source, value, context)


@settings(deadline=None, max_examples=30)
@given(
    st.text(alphabet="ab", max_size=60),
    st.text(alphabet="ab", min_size=2, max_size=4),
    st.integers(-3, 5),
)
def test_searching_from_the_right_by_the_other_way(text: str, part: str, limit: int) -> None:
    """Long searches from the right run backwards from the left; Python's own would take long on
    texts like these."""
    sought = part * 300
    value = (text + sought) * 3 + text * 30
    for call in (
        "x.rsplit(ctx['s'], ctx['n'])",
        "x.rfind(ctx['s'])",
        "x.rfind(ctx['s'], ctx['n'])",
        "x.rfind(ctx['s'], None, ctx['n'])",
        "x.rpartition(ctx['s'])",
    ):
        compare(f"lambda x, ctx: {call}", value, {"s": sought, "n": limit})
