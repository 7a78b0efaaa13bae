"""Transforms: what is refused at load, with its column; what a run may use up; how failures
read."""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from typing import Any

import pytest

from hudtui.core.gym.transform import TransformError, TransformFailure, compile_transform


def run(source: str, value: Any = 1, context: dict[str, Any] | None = None) -> Any:
    return compile_transform(source)(value, context)


@pytest.mark.parametrize(
    ("source", "value", "expected"),
    [
        ("lambda x: x.upper()", "ab", "AB"),
        ("lambda x: int(x * 1000)", 2.5, 2500),
        ("lambda x: x * 2", 4, 8),
        ("lambda x: x.split('+')", "ctrl+a", ["ctrl", "a"]),
        ("  lambda x: x  ", 1, 1),
        ("(lambda x: x + 1)", 1, 2),
        ("lambda x, /: x", 1, 1),
        ("lambda x, n=3: x * n", 2, 6),
        ("lambda x=5: x", 2, 2),
        ("int", "12", 12),
        ("str", 5, "5"),
        ("lambda ｘ: x", 3, 3),  # Python normalises identifiers, and so does this
        ("lambda x: [y for y in x if y != 'b']", "abc", ["a", "c"]),
        ("lambda len: len + 1", 1, 2),  # a parameter hides a function
    ],
    ids=lambda part: part[:60] if isinstance(part, str) else type(part).__name__,
)
def test_runs(source: str, value: Any, expected: Any) -> None:
    assert run(source, value) == expected


def test_the_signature_decides_about_the_context() -> None:
    source = "lambda d, ctx: ctx.get('amount', 3) if d == 'right' else -ctx.get('amount', 3)"
    assert run(source, "right", {"amount": 5}) == 5
    assert run(source, "left", {"amount": 5}) == -5
    assert run(source, "left", {}) == -3
    assert compile_transform(source).wants_context()
    assert compile_transform("lambda d, others: others['a']").wants_context()
    assert not compile_transform("lambda ctx: ctx").wants_context(use_context=True)
    optional = compile_transform("lambda x, n=3: n")
    assert not optional.wants_context()
    assert optional.wants_context(use_context=True)


@pytest.mark.parametrize(
    ("source", "column", "words"),
    [
        ("", 1, "not Python"),
        ("lambda", 7, "not Python"),
        ("lambda x:", 10, "not Python"),
        ("print(1)", 1, "a transform is a lambda"),
        ("x.y", 1, "a transform is a lambda"),
        ("lambda: 1", 1, "has a parameter"),
        ("lambda a, b, c: 1", 14, "one or two parameters"),
        ("lambda *a: 1", 9, "plain parameters"),
        ("lambda x, **k: 1", 13, "plain parameters"),
        ("lambda x, *, k: 1", 14, "plain parameters"),
        ("lambda x, x: 1", 11, "two parameters are called x"),
        ("lambda __x: 1", 8, "__x"),
        ("lambda x, n=print('hi'): 1", 13, "print"),
        ("lambda x, n=x: 1", 13, "not known"),
        ("lambda x: y", 11, "y is not known"),
        ("lambda x: len", 11, "only be called"),
        ("lambda x: isinstance", 11, "only be called"),
        ("lambda x: __import__('os')", 11, "__import__"),
        ("lambda x: eval('1')", 11, "eval"),
        ("lambda x: open('f')", 11, "open"),
        ("lambda x: getattr(x, 'a')", 11, "getattr"),
        ("lambda x: x.__class__", 13, "attribute"),
        ("lambda x: x.__class__()", 13, "__class__"),
        ("lambda x: x.real", 13, "not called"),
        ("lambda x: 'a' + x.format(1)", 19, "format"),
        ("lambda x: x.format_map({})", 13, "format_map"),
        ("lambda x: x.encode()", 13, "encode"),
        ("lambda x: x.translate({})", 13, "translate"),
        ("lambda x: x.append(1)", 13, "append"),
        ("lambda x: (lambda y: y)(x)", 12, "functions and methods"),
        ("lambda x: [lambda y: y]", 12, "lambda inside"),
        ("lambda x: x[0](1)", 11, "functions and methods"),
        ("lambda x: x(1)", 11, "cannot be called"),
        ("lambda len: len(1)", 13, "cannot be called"),
        ("lambda x: [int(1) for int in x]", 12, "cannot be called"),
        ("lambda x: (y := x)", 12, ":="),
        ("lambda x: max(*x)", 15, "star-argument"),
        ("lambda x: dict(**x)", 18, "**"),
        ("lambda x: [a for a, *b in x]", 21, "starred target"),
        ("lambda x: [1 for x[0] in x]", 18, "only assign to names"),
        ("lambda x: [1 for x.y in x]", 20, "only assign to names"),
        ("lambda x: (yield x)", 12, "yield"),
        ("lambda x: (yield from x)", 12, "yield"),
        ("lambda x: (await x)", 12, "await"),
        ("lambda x: [a async for a in x]", 24, "async"),
        ("lambda x: x @ x", 11, "@"),
        ("lambda x: x is 1", 11, "use =="),
        ("lambda x: b'a'", 11, "bytes"),
        ("lambda x: 1j", 11, "complex"),
        ("lambda x: ...", 11, "ellipsis"),
        ("lambda x: (a for a in x)", 11, "generator"),
        ("lambda x: reversed(a for a in x)", 19, "generator"),
        ("lambda x: [list(e) for e in [enumerate(a for a in x)]]", 39, "generator"),
        ("lambda x: sorted(x, key=len)", 25, "key"),
        ("lambda x: x.split(foo=1)", 23, "foo"),
        ("lambda x: round(x, ndigits=1, ndigits=2)", 39, "given twice"),
        ("lambda x: isinstance(x, type)", 25, "isinstance only"),
        ("lambda x: isinstance(x)", 11, "a value and a type"),
        ("lambda x: isinstance(x, int if x else str)", 25, "isinstance only"),
        ("lambda x: f'{x:1000000000}'", 0, "characters"),
        ("lambda x: f'{x:.99999}'", 0, "digits"),
        ("lambda x: f'{x:n}'", 0, "format spec"),
        ("lambda x: f'{x:%Y}'", 0, "format spec"),
        ("lambda x: 'é' + y", 17, "y is not known"),
        ("lambda x: (\n  x +\n  nope)", 21, "nope"),
        ("lambda x: 2**5 + " + "9" * 1300, 18, "bits"),
        ("lambda x: " + "9" * 5000, 0, "not Python"),
        ("lambda x: 'a\0b'", 0, "not Python"),
        ("lambda x: '\ud800'", 0, "not Python"),
        ("lambda x: " + "-" * 150 + "x", 111, "deeper than"),
        ("lambda x: " + "(" * 300 + "x" + ")" * 300, 0, ""),
        ("lambda x: " + "[" * 5000 + "]" * 5000, 0, ""),
        ("lambda x: " + "not " * 2400 + "x", 0, ""),
        ("lambda x: " + "x" + "+x" * 4900, 0, "nested"),
        ("lambda x: " + "x" + "+x" * 300, 11, "deeper than"),
        ("lambda x: " + "x." + "a." * 3000 + "b", 0, ""),
        ("lambda x: " + " " * 10_000 + "x", 10_001, "longer than"),
        ("lambda x: ｘ.__ｃlass__()", 13, "__class__"),
    ],
    ids=lambda part: part[:40] if isinstance(part, str) else str(part),
)
def test_refused_at_load(source: str, column: int, words: str) -> None:
    with pytest.raises(TransformError) as caught:
        compile_transform(source)
    assert words in caught.value.what
    assert 1 <= caught.value.column <= max(len(source), 1) + 1
    if column:
        assert caught.value.column == column, caught.value.what


def test_odd_spellings_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(r"lambda x: x.split('\d')", r"a\db") == ["a", "b"]
        assert run("lambda x: 1if x else 2") == 1


def test_the_remembered_result_is_the_same_object() -> None:
    assert compile_transform("lambda x: x + 41") is compile_transform("lambda x: x + 41")


def test_it_travels() -> None:
    transform = compile_transform("lambda x: x + 1")
    assert pickle.loads(pickle.dumps(transform))(1) == 2
    assert copy.deepcopy(transform) == transform


@pytest.mark.parametrize(
    ("source", "value", "message"),
    [
        ("lambda x: int(x)", "a", "ValueError: invalid literal for int() with base 10: 'a'"),
        ("lambda x: x.upper()", 5, "AttributeError: a value of type int has no method upper"),
        ("lambda x: x['k']", {}, "KeyError: 'k'"),
        ("lambda x: 1 / x", 0, "ZeroDivisionError: division by zero"),
        ("lambda x: '%s %s' % x", 1, "TypeError: not enough arguments for format string"),
        ("lambda x: 'a' % x", 1, "TypeError: not all arguments converted during string formatting"),
        ("lambda x: '%(a)s' % x", 1, "TypeError: format requires a mapping"),
        ("lambda x: '%*d' % (3, x)", 1, "TypeError: a width of * is not available here"),
        ("lambda x: '%' % x", 1, "ValueError: incomplete format"),
        ("lambda x: [*x]", 1, "TypeError: 'int' object is not iterable"),
        ("lambda x: {**x}", [1], "TypeError: 'list' object is not a mapping"),
        ("lambda x: [y for y in [1] if z for z in [2]]", 1, "NameError: z has no value yet"),
        ("lambda x: str(zip(x))", "a", "TypeError: a value of type zip cannot be turned into text"),
    ],
    ids=lambda part: part[:60] if isinstance(part, str) else type(part).__name__,
)
def test_failures_say_why(source: str, value: Any, message: str) -> None:
    with pytest.raises(TransformFailure) as caught:
        run(source, value)
    assert str(caught.value) == message


def test_remote_text_in_failures_is_cleaned() -> None:
    with pytest.raises(TransformFailure) as caught:
        run("lambda x: int(x)", "\x1b[31m" + "9x" * 1000)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 300


BIG = "a" * 1_000_000
STEPS = "it takes more than 10,000 steps"
TEXT = "it makes a text of more than 1,000,000 characters"
ITEMS = "it makes a value of more than 100,000 items"
BITS = "it makes a number of more than 4,096 bits"


@pytest.mark.parametrize(
    ("source", "value", "message"),
    [
        ("lambda x: sum(1 for a in range(200) for b in range(200))", 1, STEPS),
        ("lambda x: [a for a in range(9000) if a]", 1, STEPS),
        ("lambda x: x + 'a'", BIG, TEXT),
        ("lambda x: x * 1000001", "a", TEXT),
        ("lambda x: 'ab' * x", 10**30, TEXT),
        ("lambda x: '%999999999999d' % x", 1, TEXT),
        ("lambda x: '%2000000s' % x", 1, TEXT),
        ("lambda x: ('%(a)s' * 30) % {'a': 'b' * 90000 + x}", "c", TEXT),
        ("lambda x: '%.5000f' % x", 1, "it formats with more than 4,096 digits"),
        ("lambda x: [*range(x), *range(x)]", 60_000, ITEMS),
        (
            "lambda x: {**{n: 1 for n in range(x)}, **{-n: 1 for n in range(x)}}",
            9_000,
            "it takes more than 10,000 steps",
        ),
        ("lambda x: ','.join([x, x])", BIG, TEXT),
        ("lambda x: x.replace('a', 'aa')", BIG, TEXT),
        ("lambda x: x.zfill(1000001)", "a", TEXT),
        ("lambda x: f'{x}{x}'", BIG, TEXT),
        ("lambda x: f'{x:{1000001}}'", "a", TEXT),
        ("lambda x: [x, x]", BIG, TEXT),
        ("lambda x: str([x] * 90000)", 2**100, TEXT),
        ("lambda x: [0] * 100001", 1, ITEMS),
        ("lambda x: [[0] * 1000] * 200", 1, ITEMS),
        ("lambda x: range(100001)", 1, ITEMS),
        ("lambda x: range(0, 10**30)", 1, ITEMS),
        ("lambda x: list(x)", "ab" * 60_000, ITEMS),
        ("lambda x: x.split()", "a " * 110_000, ITEMS),
        ("lambda x: x.splitlines()", "\n" * 110_000, ITEMS),
        ("lambda x: x", [0] * 100_001, ITEMS),
        ("lambda x: x ** 2", 2**4000, BITS),
        ("lambda x: x * x", 2**2100, BITS),
        ("lambda x: 1 << x", 4096, BITS),
        ("lambda x: x + x", 2**4095, BITS),
        ("lambda x: x", 2**4096, BITS),
        ("lambda x: int(x, 16)", "f" * 1025, BITS),
        ("lambda x: round(x, -10**9)", 5, "it rounds to more digits than any number here has"),
        ("lambda x: int(x)", "9" * 7000, "a number of more than 6,000 characters"),
    ],
    ids=lambda part: part[:60] if isinstance(part, str) else type(part).__name__,
)
def test_limits(source: str, value: Any, message: str) -> None:
    with pytest.raises(TransformFailure) as caught:
        run(source, value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("lambda x: len(x * 1000000)", "a"),
        ("lambda x: len(x + 'a')", "a" * 999_999),
        ("lambda x: len([0] * 100000)", 1),
        ("lambda x: len(list(range(100000)))", 1),
        ("lambda x: x << 4095", 1),
        ("lambda x: 2 ** 4095 - 1 + 2 ** 4095", 1),
        ("lambda x: sum(a for a in range(3000))", 1),
        ("lambda x: (-1) ** 10 ** 9", 1),
    ],
    ids=lambda part: part[:60] if isinstance(part, str) else type(part).__name__,
)
def test_just_within_the_limits(source: str, value: Any) -> None:
    assert run(source, value) is not None


def test_values_nested_without_end_are_refused() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    for source in ("lambda x: str(x)", "lambda x: x == [x]", "lambda x, ctx: len(ctx)"):
        with pytest.raises(TransformFailure, match="nested too deeply"):
            run(source, value, {"a": value})


def test_the_work_of_a_run_is_bounded() -> None:
    message = "it goes through more than 4,000,000 characters and items in all"
    for source in (
        "lambda x: x" + "[::-1]" * 20,
        "lambda x: [x == x[:-1] + 'b' for y in range(9)]",
    ):
        with pytest.raises(TransformFailure, match=message):
            run(source, "a" * 900_000)


@pytest.mark.parametrize(
    "source",
    [
        "lambda x: set(x)",
        "lambda x: {*x}",
        "lambda x: {n for n in x}",
        "lambda x: {n: 1 for n in x}",
        "lambda x: dict(zip(x, x))",
        "lambda x: {(n,) for n in x}",
        "lambda x: dict([*zip(x, x), [[], 1]])",
        "lambda x: {*zip(x)}",
        "lambda x: {" + ",".join(f"x[{n}]" for n in range(99)) + "}",
        "lambda x: {" + ",".join(f"x[{n}]: 1" for n in range(99)) + "}",
        "lambda x: {**{n: 1 for n in x[:60]}, **{n: 1 for n in x[60:120]}}",
    ],
)
def test_values_with_one_hash_are_not_put_together(source: str) -> None:
    colliding = [number * (2**61 - 1) for number in range(1, 999)]
    assert len(set(map(hash, colliding))) == 1
    with pytest.raises(TransformFailure, match=r"many values with the same hash|unhashable"):
        run(source, colliding)
    for alike in ([7] * 500, ["a"] * 500, list(range(500)), [n / 3 for n in range(500)]):
        if "[]" not in source:
            run(source, alike)


@pytest.mark.parametrize("value", [{"a": 1}, [0.5] * 70 + [None] * 70, [[1]] * 5, True])
def test_other_values_go_into_a_set_as_in_python(value: Any) -> None:
    """None, True and lists beside many others; what cannot be hashed is Python's own error."""
    source = "lambda x: {*x, None, True, 1, 1.0} if x is not True else {x, None}"
    try:
        expected: Any = eval(source)(value)  # noqa: S307 - written above
    except TypeError as error:
        with pytest.raises(TransformFailure, match=str(error)):
            run(source, value)
    else:
        assert run(source, value) == expected


def test_it_changes_nothing_outside() -> None:
    value = {"a": [1, 2], "b": {"c": "d"}}
    kept = copy.deepcopy(value)
    for source in (
        "lambda x, ctx: [x | {'z': 1}, ctx | {'q': 2}, x['a'] + [3], sorted(x['a'], reverse=True), "
        "dict(x, k=1)]",
        "lambda x, ctx: [x for x in [1] for ctx in [2]]",
    ):
        run(source, value, value)
        assert value == kept


def test_threads_share_a_transform() -> None:
    transform = compile_transform("lambda x: [a * x for a in range(50) if a % 2]")
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            if transform(number) != [a * number for a in range(50) if a % 2]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
