"""Reply -> think and tool; tool text -> call. Each rule of the contract's table has a test here."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudtui.core.gym.reply import Call, ParseFailure, parse_call, split_reply


def call(text: str) -> Call:
    result = parse_call(text)
    assert isinstance(result, Call), result
    return result


def refusal(text: str) -> ParseFailure:
    result = parse_call(text)
    assert isinstance(result, ParseFailure), result
    return result


def value(text: str) -> Any:
    result = call(f"f({text})")
    assert len(result.args) == 1
    return result.args[0]


# Reply -> think, tool


@pytest.mark.parametrize(
    ("reply", "think", "tool", "extra"),
    [
        ("<think>go left</think>\n<tool>left()</tool>", "go left", "left()", 0),
        ("<tool>left()</tool>", None, "left()", 0),
        ("<tool>\n  left()  \n</tool> and more", None, "left()", 0),
        (
            "<think>a <tool>up()</tool> b</think><tool>left()</tool>",
            "a <tool>up()</tool> b",
            "left()",
            0,
        ),
        ("<think>only <tool>up()</tool></think>", "only <tool>up()</tool>", None, 0),
        ("<think>a</think><think>b</think><tool>left()</tool>", "a", "left()", 0),
        ("<tool>left()</tool><think>late</think>", "<tool>left()</tool><think>late", None, 0),
        (
            "<tool>left()</tool><think>late</think><tool>up()</tool>",
            "<tool>left()</tool><think>late",
            "up()",
            0,
        ),
        (
            "perhaps <tool>left()</tool></think> <tool>up()</tool>",
            "perhaps <tool>left()</tool>",
            "up()",
            0,
        ),
        ("perhaps</think><tool>up()</tool></think><tool>left()</tool>", "perhaps", "up()", 1),
        ("well <think> hm </think> <tool>up()</tool>", "hm", "up()", 0),
        ("<think>a <think>b</think> <tool>up()</tool>", "a <think>b", "up()", 0),
        ("<think>open <tool>left()</tool>", None, None, 0),
        ("<think>a</think> <think>open <tool>left()</tool>", "a", None, 0),
        ("<think>a</think> <tool>up()</tool> <think>open <tool>left()</tool>", "a", "up()", 0),
        ("<tool>up()</tool> <think>open <tool>left()</tool>", None, "up()", 0),
        ("<tool>up(<think>open)</tool> <tool>left()</tool>", None, None, 0),
        ("<THINK>a <tool>up()</tool></THINK>", None, "up()", 0),
        ("<tool>left()", None, None, 0),
        ("left()</tool>", None, None, 0),
        ("<tool></tool>", None, None, 0),
        ("<tool> \n </tool><tool>left()</tool>", None, "left()", 0),
        ("<tool>left()</tool><tool> </tool>", None, "left()", 0),
        ("<tool>left()</tool><tool>up()</tool><tool>x</tool>", None, "left()", 2),
        ("<tool>not a call</tool><tool>up()</tool>", None, "not a call", 1),
        ("<TOOL>left()</TOOL>", None, None, 0),
        ("< tool>left()</tool>", None, None, 0),
        ("<tool >left()</tool>", None, None, 0),
        ('<tool>type("<think>x</think>")</tool>', None, 'type("<think>x</think>")', 0),
        ("<tool>type('<think>x</think>')</tool>", None, "type('<think>x</think>')", 0),
        ('<tool>type("""<think>"x"</think>""")</tool>', None, 'type("""<think>"x"</think>""")', 0),
        ('<tool>type("a\\"<think>x</think>")</tool>', None, 'type("a\\"<think>x</think>")', 0),
        ('<tool>type("</think>")</tool>', None, 'type("</think>")', 0),
        ('<tool>type("<think>")</tool>', None, 'type("<think>")', 0),
        (
            '<tool>type("</think>")</tool></think><tool>up()</tool>',
            '<tool>type("</think>")</tool>',
            "up()",
            0,
        ),
        ('<think>a <tool>type("</think>")</tool>', 'a <tool>type("', None, 0),
        ('<think>a</think><tool>type("</think><think>")</tool>', "a", 'type("</think><think>")', 0),
        ("<tool>don't </think> <tool>up('</think>')</tool>", "<tool>don't", "up('</think>')", 0),
        (
            "a <tool> tag, isn't it</think> <tool>say('up')</tool>",
            "a <tool> tag, isn't it",
            "say('up')",
            0,
        ),
        ("<tool>left(<think>hm</think>)</tool>", "<tool>left(<think>hm", None, 0),
        ("<think>a</think><tool><think>hm</think>left()</tool>", "a", "left()", 0),
        ("<think>a</think><tool>left(<think>hm</think>)</tool>", "a", "left()", 0),
        ("<think>a</think><tool>left() # don't <think>x</think></tool>", "a", "left() # don't", 0),
        ("<think>a</think><tool>a() <think></tool></think></tool>", "a", "a()", 0),
        ("<think>a</think><tool>a() <think></tool></think>", "a", None, 0),
        ("<tool>oops <think>a</think>", "<tool>oops <think>a", None, 0),
        ('<tool>type("</tool>")</tool>', None, 'type("', 0),
        ("<tool>a<tool>b()</tool>", None, "a<tool>b()", 0),
        ("", None, None, 0),
        ("no tags at all", None, None, 0),
    ],
)
@pytest.mark.parametrize("thinking", [True, False])
def test_reply(reply: str, think: str | None, tool: str | None, extra: int, thinking: bool) -> None:
    parts = split_reply(reply, thinking)
    assert (parts.think, parts.tool, parts.extra_calls) == (think, tool, extra)
    assert parts.tags == (tool is not None and (think is not None or not thinking))
    assert (parts.problem is None) == (tool is not None)
    if parts.tool is not None and parts.tool_start is not None:
        assert reply.startswith(parts.tool, parts.tool_start)


UNCLOSED = (
    "the <think> tag is not closed, so all after it is thought; close it, and write the call after "
    "</think>"
)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("left()", "there is no <tool>...</tool> in the reply"),
        ("<tool>left()", "the <tool> tag is not closed"),
        ("<tool> </tool>", "the <tool> tag is empty"),
        (
            "<think><tool>left()</tool></think>",
            "the <tool> tag is in the thought; write the call after </think>",
        ),
        (
            "<tool>left()</tool> so be it</think>",
            "the <tool> tag is in the thought; write the call after </think>",
        ),
        ("<tool>left()</tool></think> <tool>", "the <tool> tag is not closed"),
        ("<think>a</think> left()", "there is no <tool>...</tool> in the reply"),
        ("<think>a <tool>left()</tool>", UNCLOSED),
        ("<tool></tool><think>a <tool>left()</tool>", UNCLOSED),
        ("<tool>left(<think>)</tool>", UNCLOSED),
    ],
)
def test_why_there_is_no_tool(reply: str, problem: str) -> None:
    assert split_reply(reply).problem == problem


def test_spans_cover_the_tags() -> None:
    reply = "a <think>b</think> <tool> </tool><tool>left()</tool> <tool>up()</tool> <tool>x"
    spans = [(span.kind, reply[span.start : span.end]) for span in split_reply(reply).spans]
    assert spans == [
        ("think", "<think>b</think>"),
        ("empty", "<tool> </tool>"),
        ("tool", "<tool>left()</tool>"),
        ("extra", "<tool>up()</tool>"),
        ("unclosed", "<tool>"),
    ]


# Tool text -> call


@pytest.mark.parametrize(
    ("text", "name", "args"),
    [
        ("left()", "left", ()),
        ("  left  (  )  ", "left", ()),
        ("click(100, 200)", "click", (100, 200)),
        ("click(\n  100,\n  200,\n)", "click", (100, 200)),
        ("click(1,2,)", "click", (1, 2)),
        ("click(1,2 , )", "click", (1, 2)),
        ("type('its' )", "type", ("its",)),
        ("done();", "done", ()),
        ("screenshot() # look", "screenshot", ()),
        ("f(1) and more text, with 'quotes'", "f", (1,)),
        ("2048()", "2048", ()),
        ("klick_ü9(1)", "klick_ü9", (1,)),
        ("key(ctrl+a)", "key", ("ctrl+a",)),
        ("key( ctrl+a )", "key", ("ctrl+a",)),
        ("type(hello world)", "type", ("hello world",)),
        ("open(https://example.com/?a=b)", "open", ("https://example.com/?a=b",)),
        ("f(q == 1)", "f", ("q == 1",)),
        ("f(3=4)", "f", ("3=4",)),
        ("f(a <think> b)", "f", ("a <think> b",)),
    ],
)
def test_calls(text: str, name: str, args: tuple[Any, ...]) -> None:
    assert call(text).name == name
    assert call(text).args == args
    assert not call(text).kwargs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("007", 7),
        ("-0", 0),
        ("1_000", 1000),
        ("2.5", 2.5),
        ("1e5", 1e5),
        ("1E-5", 1e-5),
        (".5", 0.5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("+1.5e+3", 1500.0),
        ("1e-999", 0.0),
        ("true", True),
        ("True", True),
        ("false", False),
        ("False", False),
        ("none", None),
        ("None", None),
        ("null", None),
        ("TRUE", "TRUE"),
        ("nan", "nan"),
        ("-inf", "-inf"),
        ("0x1F", "0x1F"),
        ("1.2.3", "1.2.3"),
        ("12px", "12px"),
        ("- 3", "- 3"),
        ("3 4", "3 4"),
        ("１２", "１２"),
        ('"a, b"', "a, b"),
        ("'(a)'", "(a)"),
        ('""', ""),
        ("''", ""),
        ('"""a "quoted" text"""', 'a "quoted" text'),
        ("'''a\nb'''", "a\nb"),
        ('""""""', ""),
        ('"a\nb"', "a\nb"),
        (r'"a\nb\t\\\"\x41\u00e9\101\0"', 'a\nb\t\\"Aé' + "A\0"),
        (r"'it\'s'", "it's"),
        (r'"\N{BULLET}"', "•"),
        (r'"\d"', r"\d"),
        ('"a\\\nb"', "ab"),
        ("[]", []),
        ("{}", {}),
        ("()", []),
        ("(1)", [1]),
        ("(1,)", [1]),
        ("[1, 2,]", [1, 2]),
        ("[[1], [2, [3]]]", [[1], [2, [3]]]),
        (
            "[true, None, 'a', \"b\", {\"x\": False, 'y': null, 'z': (1, 2.5)}]",
            [True, None, "a", "b", {"x": False, "y": None, "z": [1, 2.5]}],
        ),
        ("{'a': 1, 'a': 2}", {"a": 2}),
        ("{1: 'x', true: 2, null: 3}", {1: 2, None: 3}),
        ("{\n 'a' : 1 ,\n}", {"a": 1}),
    ],
)
def test_values(text: str, expected: Any) -> None:
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


def test_keywords() -> None:
    found = call("click(1, y = 2, button='left', more=[1])")
    assert found.args == (1,)
    assert found.kwargs == {"y": 2, "button": "left", "more": [1]}
    assert found.columns == (7, 10, 17, 32)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "name(arguments)"),
        ("(1)", 1, "name(arguments)"),
        ("click", 6, "expected ("),
        ("click 1", 7, "expected ("),
        ("click(", 6, "not closed"),
        ("click(1", 6, "not closed"),
        ("click(1,", 6, "not closed"),
        ("f()()", 4, "another parenthesis"),
        ("left() or right()", 16, "another parenthesis"),
        ("click(1, 2) :)", 14, "another parenthesis"),
        ("f(,)", 3, "missing"),
        ("f(,1)", 3, "missing"),
        ("f(1,,2)", 5, "missing"),
        ("f(a=)", 5, "missing"),
        ("f(1e999)", 3, "not finite"),
        ("f(-1e999)", 3, "not finite"),
        ("f([1, 1e999])", 7, "not finite"),
        ('f("a)', 3, "not closed"),
        ("f('a\")", 3, "not closed"),
        ('f("""a")', 3, "not closed"),
        ('f("a" "b")', 7, "expected , or )"),
        ('f("a" + "b")', 7, "expected , or )"),
        ("f(it's)", 5, "quote"),
        ("f(a(1))", 4, "in the middle"),
        ("f(a])", 4, "in the middle"),
        ("f(])", 3, "unexpected"),
        ("f([1 2])", 6, "expected , or ]"),
        ("f([1,,2])", 6, "expected a value"),
        ("f([a])", 4, "quotes"),
        ("f([1, 2)", 8, "expected , or ]"),
        ("f([1", 3, "not closed"),
        ("f({'a' 1})", 8, "expected :"),
        ("f({'a':})", 8, "expected a value"),
        ("f({'a': 1,, })", 11, "expected a key"),
        ("f({1})", 5, "expected :"),
        ("f({[1]: 2})", 4, "a key is"),
        ("f({a: 1})", 4, "quotes"),
        (r'f("\x4")', 4, "not complete"),
        (r'f("ab\u12")', 6, "not complete"),
        (r'f("\U99999999")', 4, "beyond"),
        (r'f("\N{no such thing}")', 4, "no character"),
        ("f(a=1, a=2)", 8, "given twice"),
        ("f(a=1, 2)", 8, "cannot follow"),
        ("f(" + "9" * 5000 + ")", 3, "too long"),
    ],
)
def test_refusals_say_where(text: str, column: int, words: str) -> None:
    found = refusal(text)
    assert words in found.message
    assert found.column == column


def test_a_hundred_deep_and_no_deeper() -> None:
    found: Any = value("[" * 100 + "]" * 100)
    for _ in range(99):
        (found,) = found
    assert found == []
    nested: Any = value('{"a":' * 100 + "1" + "}" * 100)
    for _ in range(100):
        nested = nested["a"]
    assert nested == 1
    for depth in (101, 100_000):
        for text, column in (
            ("[" * depth + "]" * depth, 103),
            ('{"a":' * depth + "1" + "}" * depth, 503),
            ("[" * depth, 103),
        ):
            found = refusal(f"f({text})")
            assert (found.message, found.column) == ("nested more than 100 deep", column)


def test_keys_that_collide_are_bounded() -> None:
    # Numbers that all have one hash: each insertion would look at all before it.
    text = ",".join(f"{number * (2**61 - 1)}:1" for number in range(20_000))
    assert "keys that are not text" in refusal(f"f({{{text}}})").message


# Properties


@settings(deadline=None)
@given(st.text(), st.booleans())
@example("<tool>\ud800</tool>", True)
def test_no_text_raises(text: str, thinking: bool) -> None:
    for reply in (
        text,
        f"<tool>{text}</tool>",
        f"<think>{text}<tool>{text}",
        f"<tool>f({text})</tool>",
    ):
        parts = split_reply(reply, thinking)
        assert parts.extra_calls >= 0
        found = parse_call(parts.tool or reply)
        if isinstance(found, ParseFailure):
            assert 1 <= found.column <= len(parts.tool or reply) + 1
            assert found.message
        else:
            assert all(1 <= column <= len(parts.tool or reply) for column in found.columns)
            assert len(found.columns) == len(found.args) + len(found.kwargs)


@settings(deadline=None)
@given(st.text(alphabet="<>/thinktool()[]{}\"'\\,:=1e.-+ aN#\n", max_size=80))
def test_no_text_of_the_grammar_raises(text: str) -> None:
    test_no_text_raises.hypothesis.inner_test(text, True)  # type: ignore[attr-defined]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BLANK = st.sampled_from(["", "", " ", "\n", " \n\t "])


@st.composite
def spelled(draw: st.DrawFn, of: Any = None) -> tuple[str, Any]:
    """A value and one of the ways to write it: JSON, Python, or any mix, with blanks anywhere."""
    data = draw(JSON) if of is None else of[0]
    blank = draw(BLANK)
    if isinstance(data, list):
        parts = [draw(spelled((item,)))[0] for item in data]
        tail = draw(st.sampled_from(["", ","])) if parts else ""
        opening, closing = draw(st.sampled_from(["[]", "()"]))
        return f"{blank}{opening}{','.join(parts)}{tail}{blank}{closing}{blank}", data
    if isinstance(data, dict):
        parts = [
            f"{draw(spelled((key,)))[0]}:{draw(spelled((item,)))[0]}" for key, item in data.items()
        ]
        return f"{blank}{{{','.join(parts)}{blank}}}{blank}", data
    if isinstance(data, str):
        text = draw(
            st.sampled_from([json.dumps(data, ensure_ascii=False), repr(data), ascii(data)])
        )
    elif isinstance(data, bool) or data is None:
        text = draw(st.sampled_from([json.dumps(data), repr(data)]))
    else:
        text = draw(st.sampled_from([json.dumps(data), repr(data)]))
    return f"{blank}{text}{blank}", data


@settings(deadline=None)
@given(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True),
    st.lists(spelled(), max_size=4),
    st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), spelled(), max_size=3),
    BLANK,
    st.booleans(),
    st.sampled_from(["", ";", " # a note", "\nthen we see"]),
)
def test_well_formed_calls_round_trip(
    name: str,
    args: list[tuple[str, Any]],
    kwargs: dict[str, tuple[str, Any]],
    blank: str,
    comma: bool,
    rest: str,
) -> None:
    parts = [text for text, _ in args] + [
        f"{key}{blank}={text}" for key, (text, _) in kwargs.items()
    ]
    text = f"{blank}{name}{blank}({','.join(parts)}{',' if comma and parts else ''}{blank}){rest}"
    found = call(text)
    assert found.name == name
    assert repr(found.args) == repr(tuple(data for _, data in args))
    assert repr(dict(found.kwargs)) == repr({key: data for key, (_, data) in kwargs.items()})
    reply = f"<think>because</think>{blank}<tool>{text}</tool>"
    parts_of = split_reply(reply)
    if "<" not in text:
        assert parts_of.tool == text.strip()


@settings(deadline=None)
@given(st.text())
def test_quoted_text_is_read_as_python_reads_it(text: str) -> None:
    for written in (repr(text), ascii(text)):
        assert value(written) == ast.literal_eval(written) == text


@settings(deadline=None)
@given(st.from_regex(r"(\\[abfnrtvNuUx0-9'\"\\qd {}]|[0-9a-fA-F{} ]){0,12}", fullmatch=True))
def test_escapes_are_pythons(text: str) -> None:
    import warnings

    written = f'"""{text} """'
    found = parse_call(f"f({written})")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = ast.literal_eval(written)
    except SyntaxError:
        assert isinstance(found, ParseFailure)
        return
    assert isinstance(found, Call)
    assert found.args == (expected,)
