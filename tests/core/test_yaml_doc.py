from __future__ import annotations

import io
import json
import math
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from hudtui.core.errors import InputError
from hudtui.core.yaml_doc import MAX_ALIASED, MAX_DEPTH, Mark, dotted_path, load_yaml


def load(text: str) -> Any:
    return load_yaml(text, name="f.yaml").data


def refusal(text: str, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        load_yaml(text, name="f.yaml", **options)
    assert caught.value.where is not None
    assert caught.value.where.file == "f.yaml"
    return caught.value


# Values


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("tRue", "tRue"),
        ("~", None),
        ("null", None),
        ("Null", None),
        ("", None),
        ("nUll", "nUll"),
        ("12", 12),
        ("-3", -3),
        ("+4", 4),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("2.5", 2.5),
        (".5", 0.5),
        ("5.", 5.0),
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("-1.5e+3", -1500.0),
        ("1e", "1e"),
        (".", "."),
        ("-", [None]),
        ("1.2.3", "1.2.3"),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("=", "="),
        ("<<", "<<"),
        ("'on'", "on"),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("!!float 3", 3.0),
        ("!!bool 'true'", True),
        ("!!null ''", None),
        ("!!seq [1]", [1]),
        ("!!map {a: 1}", {"a": 1}),
        ('"\\x41\\u00e9\\n"', "Aé\n"),
        ("|\n a\n b", "a\nb"),
        (">-\n a\n b", "a b"),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = load(text)
    assert found == value
    assert type(found) is type(value)


def test_nan() -> None:
    assert math.isnan(load(".nan"))


def test_empty_documents() -> None:
    for text in ("", "\n\n", "# only a comment\n", "---\n", "\ufeff"):
        assert load(text) is None


@pytest.mark.parametrize(
    "key",
    ["on", "off", "yes", "no", "true", "null", "12", "1e-5", "2024-01-01", "~", "a b", "'quoted'"],
)
def test_keys_are_text_as_written(key: str) -> None:
    assert load(f"{key}: 1") == {key.strip("'"): 1}


def test_line_ends_and_byte_order_mark() -> None:
    plain = "a: 1\nb:\n  - x\n  - y\n"
    assert load("\ufeff" + plain) == load(plain)
    assert load(plain.replace("\n", "\r\n")) == load(plain)
    document = load_yaml("\ufeff" + plain.replace("\n", "\r\n"), name="f")
    assert document.mark(("b", 1)).line == 4


# Without what YAML takes for the end of a line, and control characters, which it wants escaped in a
# way that JSON does not know.
texts = st.text(
    st.characters(
        exclude_categories=["Cs", "Cc"], exclude_characters="\u2028\u2029\ufeff\uffff\ufffe"
    )
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(trees)
@settings(deadline=None)
def test_reads_json(tree: Any) -> None:
    text = json.dumps(tree, ensure_ascii=False)
    assert repr(load(text)) == repr(tree)


@given(trees)
@settings(deadline=None)
def test_reads_what_a_yaml_1_2_writer_writes(tree: Any) -> None:
    writer = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    stream = io.StringIO()
    writer.dump(tree, stream)
    assert load(stream.getvalue()) == tree


@given(st.text(alphabet=" \t\n\r-:?,[]{}#&*!|>'\"%@`ab1.<~\\/é") | st.text())
@settings(max_examples=600, deadline=None)
def test_any_text_gives_a_value_or_a_refusal(text: str) -> None:
    try:
        document = load_yaml(text, name="f.yaml")
    except InputError as error:
        assert error.where is not None
        assert (
            error.where.line is None
            or 1 <= error.where.line <= sum(text.count(end) for end in "\n\r\x85\u2028\u2029") + 2
        )
        return
    json.dumps(document.data)  # plain data, no cycles
    document.mark(("a", 0))
    document.path_at(1)


@given(st.text(alphabet="ab: \n-[]{},'\"1", max_size=60))
@settings(max_examples=400, deadline=None)
def test_accepts_no_more_than_pyyaml(text: str) -> None:
    try:
        mine = load(text)
    except InputError:
        return
    assert _texts(mine) == _texts(yaml.load(text, Loader=yaml.BaseLoader))


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return (
        None
        if value in (None, "")
        else str(value).lstrip("0")
        if str(value).isdigit()
        else str(value)
    )


# Places


SAMPLE = """\
# comment
job:
  name: "RL Training"   # why
action_mappings:
  click:
    _parser:
      positional: ["x", "y"]
    x:
      from_arg: x
      transform: "lambda x: x + 'é' + x"
  wait:
    time: {from_arg: 'it''s', default: 5}
    code: |
      first
        second

      third
tail: 'end'
"""


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("job",), (2, 1), (3, 3)),
        (("job", "name"), (3, 3), (3, 9)),
        (("action_mappings", "click", "_parser", "positional"), (7, 7), (7, 19)),
        (("action_mappings", "click", "_parser", "positional", 1), (7, 25), (7, 25)),
        (("action_mappings", "click", "x", "transform"), (10, 7), (10, 18)),
        (("action_mappings", "wait", "time", "default"), (12, 31), (12, 40)),
        (("tail",), (18, 1), (18, 7)),
        ((), (2, 1), (2, 1)),
        # Unknown ones: the nearest ancestor.
        (("job", "nope", "deeper"), (2, 1), (3, 3)),
        (("action_mappings", "click", "_parser", "positional", 9), (7, 7), (7, 19)),
        (("nope",), (2, 1), (2, 1)),
    ],
)
def test_places(path: tuple[str | int, ...], key: tuple[int, int], value: tuple[int, int]) -> None:
    document = load_yaml(SAMPLE, name="f")
    mark, value_mark = document.mark(path), document.value_mark(path)
    assert (mark.line, mark.column) == key
    assert (value_mark.line, value_mark.column) == value


def test_ends_of_places() -> None:
    document = load_yaml(SAMPLE, name="f")
    assert document.mark(("job", "name")) == Mark(3, 3, 3, 7)
    assert document.value_mark(("job", "name")) == Mark(3, 9, 3, 22)
    assert document.last_line(("job",)) == 3
    assert document.last_line(("action_mappings", "click")) == 10
    assert document.last_line(("action_mappings",)) == 17
    assert document.last_line() == 18


def test_place_inside_a_text() -> None:
    document = load_yaml(SAMPLE, name="f")
    lines = SAMPLE.split("\n")

    def character(path: tuple[str, ...], offset: int) -> str:
        line, column = document.inside(path, offset)
        return lines[line - 1][column - 1]

    transform = ("action_mappings", "click", "x", "transform")
    text = document.at(transform)
    assert [character(transform, index) for index in range(len(text))] == list(text)
    quoted = ("action_mappings", "wait", "time", "from_arg")
    assert [character(quoted, index) for index in range(4)] == ["i", "t", "'", "s"]
    code = ("action_mappings", "wait", "code")
    value = document.at(code)
    assert value == "first\n  second\n\nthird\n"
    for index, letter in enumerate(value):
        if letter not in "\n":
            assert character(code, index) == letter
    plain = ("action_mappings", "click", "x", "from_arg")
    assert document.inside(plain, 0) == (9, 17)


def test_place_inside_escapes() -> None:
    document = load_yaml('k: "a\\tb\\u00e9c"', name="f")
    assert document.at(("k",)) == "a\tbéc"
    assert [document.inside(("k",), index)[1] for index in range(5)] == [5, 6, 8, 9, 15]


@pytest.mark.parametrize(
    ("line", "path"),
    [
        (1, ()),
        (2, ("job",)),
        (3, ("job", "name")),
        (6, ("action_mappings", "click", "_parser")),
        (8, ("action_mappings", "click", "x")),
        (10, ("action_mappings", "click", "x", "transform")),
        (14, ("action_mappings", "wait", "code")),
        (16, ("action_mappings", "wait", "code")),
        (18, ("tail",)),
        (99, ("tail",)),
    ],
)
def test_path_at_a_line(line: int, path: tuple[str, ...]) -> None:
    assert load_yaml(SAMPLE, name="f").path_at(line) == path


def test_path_at_a_column() -> None:
    document = load_yaml(SAMPLE, name="f")
    assert document.path_at(12, 12) == ("action_mappings", "wait", "time", "from_arg")
    assert document.path_at(12, 33) == ("action_mappings", "wait", "time", "default")
    assert document.path_at(7, 26) == ("action_mappings", "click", "_parser", "positional", 1)


keys = st.text(alphabet="abcxyz_", min_size=1, max_size=6)
nested = st.recursive(
    st.integers(0, 9),
    lambda inner: (
        st.dictionaries(keys, inner, min_size=1, max_size=4)
        | st.lists(inner, min_size=1, max_size=3)
    ),
)


@given(nested)
@settings(deadline=None)
def test_every_key_is_where_its_mark_says(tree: Any) -> None:
    text = yaml.safe_dump(tree, sort_keys=False)
    document = load_yaml(text, name="f")
    lines = text.split("\n")

    def visit(value: Any, path: tuple[str | int, ...]) -> None:
        mark = document.mark(path)
        if path and isinstance(path[-1], str):
            assert lines[mark.line - 1][mark.column - 1 :].startswith(f"{path[-1]}:")
        if not isinstance(value, (dict, list)):
            place = document.value_mark(path)
            assert lines[place.line - 1][place.column - 1 : place.end_column - 1] == str(value)
            if path and isinstance(path[-1], str):
                assert document.path_at(mark.line, mark.column) == path
        for step, item in (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        ):
            visit(item, (*path, step))

    visit(tree, ())


def test_dotted() -> None:
    assert dotted_path(()) == ""
    assert dotted_path(("a", "b", 2, "c")) == "a.b[2].c"


# Refusals


def test_duplicate_keys_name_both_lines() -> None:
    error = refusal("action_mappings:\n  click: 1\n  wait: 2\n  click: 3\n")
    assert '"click"' in error.what
    assert "line 2" in error.what
    assert "line 4" in error.what
    assert error.where is not None
    assert (error.where.line, error.where.column, error.where.field) == (4, 3, "action_mappings")


@pytest.mark.parametrize(
    "text", ["a: 1\n'a': 2", "{a: 1, a: 2}", "1: x\n'1': y", "a: &k x\nb: 1\n*k : 2\nx: 3"]
)
def test_duplicate_keys_in_other_spellings(text: str) -> None:
    assert "is a duplicate" in refusal(text).what


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: b: c", 1, 5, "colon"),
        ("a:\n\tb: 1", 2, 1, "tab"),
        ("\ta: 1", 1, 1, "tab"),
        ("a:\n  b: 1\n\tc: 1", 3, 1, "tab"),
        ("a: [1,\n 2", 1, 4, "list that begins here is not closed"),
        ("a: [", 2, 1, "ends in the middle"),
        ("a: ]", 1, 4, "value is missing"),
        ("a: {b: 1", 1, 4, "mapping that begins here is not closed"),
        ('x: 1\na: "foo\nb: 1', 2, 4, "quote that opens here is never closed"),
        ('a: "\\q"', 1, 5, "unknown escape"),
        ("a: @x", 1, 4, '"@"'),
        ("a: `x`", 1, 4, '"`"'),
        ("a: %x", 1, 4, '"%"'),
        ("a: 'it's'", 1, 8, "unexpected text after the value"),
        ("a: - 1", 1, 4, "list cannot begin here"),
        ("- 1\nb: 2", 2, 1, "list item"),
        ("a:\n  - 1\n b: 2", 3, 2, "wrong indentation"),
        ("a: !!python/object:os.system x", 1, 4, "tag"),
        ("a: !!binary aGk=", 1, 4, "!!binary"),
        ("a: !custom x", 1, 4, "!custom"),
        ("a: !e!foo x", 1, 4, "tag"),
        ("a: !!int foo", 1, 4, "!!int"),
        ("a: *x", 1, 4, "not defined"),
        ("a: &a [*a]", 1, 8, "part of"),
        ("a: &a {b: [1, *a]}", 1, 15, "part of"),
        ("{{ name }}: 1", 1, 1, "keys are text"),
        ("? [a]\n: 1", 1, 3, "keys are text"),
        ("a: 1\n---\nb: 1", 2, 1, "second document"),
        ("a: 1\n...\nfoo", 3, 1, "after the end"),
        ("a: \x1b[0m", 1, 4, "U+001B"),
        ("ok: 1\nb: \ud800", 2, 4, "U+D800"),
        ("a: " + "9" * 5000, 1, 4, "too many digits"),
        ('a: "\\ud83d\\ude00"', 1, 7, "half a character"),
        ("<<: 3", 1, 5, "mapping"),
        ("<<: [{a: 1}, 3]", 1, 5, "mapping"),
    ],
)
def test_refusals(text: str, line: int, column: int, words: str) -> None:
    error = refusal(text)
    assert error.where is not None
    assert (error.where.line, error.where.column) == (line, column)
    assert words in str(error)


def test_an_unknown_alias_names_its_neighbour() -> None:
    assert "*click" in str(refusal("a: &click 1\nb: *clik"))


def test_too_deep() -> None:
    fine = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert load(fine)
    assert "too deeply" in refusal("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)).what
    start = time.monotonic()
    assert "too deeply" in refusal("[" * 1_000_000).what
    assert "too deeply" in refusal("".join(" " * depth + "a:\n" for depth in range(1000))).what
    assert time.monotonic() - start < 20


def test_depth_cannot_be_smuggled_in_by_aliases() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, MAX_DEPTH + 5))
    assert "too deep" in refusal(text).what


def test_alias_bombs_stop_at_once() -> None:
    text = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
    )
    start = time.monotonic()
    assert f"{MAX_ALIASED:,}" in refusal(text).what
    assert time.monotonic() - start < 10


def test_too_large() -> None:
    assert "too large" in refusal("a" * 101, limit=100).what
    assert load_yaml("a" * 100, name="f", limit=100).data == "a" * 100


# Aliases and merges


def test_aliases_are_copies() -> None:
    data = load("a: &x {k: [1]}\nb: *x\nc: *x\n")
    assert data == {"a": {"k": [1]}, "b": {"k": [1]}, "c": {"k": [1]}}
    data["b"]["k"].append(2)
    assert data["a"] == data["c"] == {"k": [1]}


def test_an_anchor_may_be_defined_again() -> None:
    assert load("a: &x 1\nb: *x\nc: &x 2\nd: *x") == {"a": 1, "b": 1, "c": 2, "d": 2}


def test_alias_as_key() -> None:
    assert load("a: &x name\n*x : 1") == {"a": "name", "name": 1}
    assert "text" in refusal("a: &x [1]\n*x : 1").what


@pytest.mark.parametrize(
    "text",
    [
        "base: &b {x: 1, y: 2}\nd:\n  <<: *b\n  y: 3\n",
        "base: &b {x: 1, y: 2}\nd:\n  y: 3\n  <<: *b\n",
        "one: &b {x: 1}\ntwo: &c {x: 2, y: 2}\nd: {<<: [*b, *c], z: 1}\n",
        "d: {<<: {x: 1}, z: 1}\n",
        "d: {<<: [], z: 1}\n",
        "b: &b {<<: {x: 1}, y: 1}\nd: {<<: *b, z: 1}\n",
    ],
)
def test_merge_keys_as_pyyaml_has_them(text: str) -> None:
    assert load(text) == yaml.safe_load(text)
    assert list(load(text)["d"]) == list(yaml.safe_load(text)["d"])


def test_a_quoted_merge_sign_is_an_ordinary_key() -> None:
    assert load('"<<": 3') == {"<<": 3}


def test_places_of_merged_and_aliased_values() -> None:
    document = load_yaml("base: &b\n  x: 1\nd:\n  <<: *b\n  y: 2\ne: *b\n", name="f")
    assert document.mark(("d", "x")).line == 2
    assert document.mark(("d", "y")).line == 5
    assert document.mark(("e",)).line == 6
    assert document.value_mark(("e",)).line == 6
    assert document.path_at(6) == ("e",)
    assert document.path_at(4) == ("d",)


def test_without_the_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(yaml, "CSafeLoader")
    document = load_yaml(SAMPLE, name="f")
    assert document.value_mark(("job", "name")) == Mark(3, 9, 3, 22)
    assert "tab" in refusal("a:\n\tb: 1").what
    assert "never closed" in refusal('a: "foo').what


@pytest.mark.parametrize(
    ("text", "path", "last"),
    [
        ("a: 'x\u2028\n\n y'", ("a",), 3),
        ("a: |\n  x\u2028  y\u2028  z\n", ("a",), 2),
        ("a: {b: 'x\u2028  y\x85  z', c: 3}\nd: 1", ("a",), 1),
        ("a:\n  b: 'x\u2028y'\n  c: 1\nd: 2\n", ("a",), 3),
        ("a: 1\rb: 2\rc: 3", ("c",), 3),
    ],
)
def test_lines_are_counted_as_editors_count_them(
    text: str, path: tuple[str, ...], last: int
) -> None:
    """YAML 1.1 has further characters that end a line."""
    document = load_yaml(text, name="c.yaml")
    assert document.last_line(path) == last


@pytest.mark.parametrize("text", ["---", "a:\n  b:", "? a", "? !!int "])
def test_an_empty_value_behind_the_last_line_has_a_place(text: str) -> None:
    document = load_yaml(text, name="f")
    path = document.path_at(9)
    assert document.last_line(path) >= 1 and document.offset(
        *_end(document.value_mark(path))
    ) == len(text)


def _end(mark: Mark) -> tuple[int, int]:
    return mark.end_line, mark.end_column


def test_an_alias_inside_its_own_value_is_not_suggested() -> None:
    assert "Did you mean" not in str(refusal("a: &click [*clik]"))
