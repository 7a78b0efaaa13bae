from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.errors import InputError
from hudtui.core.yaml_doc import Scalar, append_items, load_yaml, scalar_text, set_values

Changes = dict[tuple[str | int, ...], Scalar]
DATASET: Changes = {("primary_dataset", "name"): "o/new", ("primary_dataset", "task_count"): 3}


def edit(text: str, changes: Changes) -> str:
    return set_values(text, changes, name="f.yaml")


@pytest.mark.parametrize(
    ("text", "changes", "result"),
    [
        ("a: 1\n", {("a",): 2}, "a: 2\n"),
        ("a: 1", {("a",): 2}, "a: 2"),
        ("a:   1   # why\n", {("a",): 2}, "a:   2   # why\n"),
        ("a: 'x'\n", {("a",): "it's"}, "a: 'it''s'\n"),
        ('a: "x"\n', {("a",): 'say "hi"'}, 'a: "say \\"hi\\""\n'),
        (
            "a: x\n",
            {("a",): "y"},
            "a: 'y'\n".replace("'y'", '"y"'),
        ),  # y is a boolean to older readers
        ("a: x\n", {("a",): "my-org/my-env:1@sha256:00"}, 'a: "my-org/my-env:1@sha256:00"\n'),
        ("a: x\n", {("a",): "plain"}, "a: plain\n"),
        ("a:\nb: 1\n", {("a",): 2}, "a: 2\nb: 1\n"),
        ("a:   # nothing yet\nb: 1\n", {("a",): 2}, "a: 2   # nothing yet\nb: 1\n"),
        ("a: ~\n", {("a",): True}, "a: true\n"),
        ("a: 1\r\nb: 2\r\n", {("b",): 3, ("c",): 4}, "a: 1\r\nb: 3\r\nc: 4\r\n"),
        ("\ufeffa: 1\n", {("a",): 2}, "\ufeffa: 2\n"),
        ("x: {a: 1, b: [1,  2]}\n", {("x", "a"): 9}, "x: {a: 9, b: [1,  2]}\n"),
        ("x:\n- a: 1\n- a: 2\n", {("x", 1, "a"): 9}, "x:\n- a: 1\n- a: 9\n"),
        ("x: [1, 2]\n", {("x", 0): 9}, "x: [9, 2]\n"),
        ("x: {}\n", {("x", "a"): 1}, 'x: {"a": 1}\n'),
        ("x: {b: 1}\n", {("x", "a"): 1}, "x: {b: 1, a: 1}\n"),
        ("x: { b: 1 }  # c\n", {("x", "a"): "t"}, 'x: { b: 1, a: "t" }  # c\n'),
        ("x: {b: 1,}\n", {("x", "a"): 1}, "x: {b: 1,a: 1}\n"),
        ("x: {\n  b: 1 # c\n}\n", {("x", "a"): 1}, "x: {\n  b: 1 # c\n, a: 1}\n"),
        ('# c\n{"b": 1}  # d\n', {("x", "a"): 1}, '# c\n{"b": 1, "x": {"a": 1}}  # d\n'),
        ("", DATASET, 'primary_dataset:\n  name: "o/new"\n  task_count: 3\n'),
        ("%YAML 1.2\n---\n...\n", {("a",): 1}, "%YAML 1.2\n---\na: 1\n...\n"),
        ("a: 1\nb: |+\n   t\n\n", {("c",): 1}, "a: 1\nb: |+\n   t\n\nc: 1\n"),
        ("a: |\n   t", {("c",): 1}, "a: |-\n   t\nc: 1\n"),
        ("x: ~  # c\n", {("x", "a"): 1, ("x", "b"): "t"}, 'x: {a: 1, b: "t"}  # c\n'),
        ("# top\n", DATASET, '# top\nprimary_dataset:\n  name: "o/new"\n  task_count: 3\n'),
        ("a: 1", DATASET, 'a: 1\nprimary_dataset:\n  name: "o/new"\n  task_count: 3\n'),
        (
            "a: 1\n\n# end\n",
            DATASET,
            'a: 1\nprimary_dataset:\n  name: "o/new"\n  task_count: 3\n\n# end\n',
        ),
        (
            "primary_dataset:\n    task_count: 1 # n\n    # note\n    extra: {k: v}\nz: |\n  "
            "text\n",
            DATASET,
            "primary_dataset:\n    task_count: 3 # n\n    # note\n    extra: {k: v}\n    name: "
            '"o/new"\nz: |\n  text\n',
        ),
        (
            "a:\n  - x\n  - |\n    text\n\n    more\n",
            DATASET,
            'a:\n  - x\n  - |\n    text\n\n    more\nprimary_dataset:\n  name: "o/new"\n  '
            "task_count: 3\n",
        ),
    ],
)
def test_edits_in_place(text: str, changes: Changes, result: str) -> None:
    assert edit(text, changes) == result


@pytest.mark.parametrize(
    "text",
    [
        "# c\n{a: 1, b: 2}  # d\n",
        "primary_dataset: {name: old}  # c\nz: 1\n",
        "primary_dataset:\nz: 1  # c\n",
        "primary_dataset:\n  name: >-\n    two\n    lines\n  # c\nz: 1\n",
        'primary_dataset:\n  name: "two\n    lines"\nz: 1  # c\n',
        "%YAML 1.2\n---\na: 1  # c\n...\n",
        "--- # c\na: 1\n",
    ],
)
def test_other_layouts_are_changed_too_and_keep_comments(text: str) -> None:
    before = load_yaml(text, name="f").data
    changed = edit(text, DATASET)
    after = load_yaml(changed, name="f").data
    assert after["primary_dataset"]["name"] == "o/new"
    assert after["primary_dataset"]["task_count"] == 3
    assert {key: value for key, value in after.items() if key != "primary_dataset"} == {
        key: value for key, value in before.items() if key != "primary_dataset"
    }
    for comment in re.findall("# [cd]", text):
        assert comment in changed


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\na: 2\n", 2, "duplicate"),
        ("a: [1\n", 1, "not closed"),
        ("- a\n", 1, "not a mapping"),
        ("text\n", 1, "not a mapping"),
        ("primary_dataset: [a]\n", 1, "not a mapping"),
        ("primary_dataset: text\n", 1, "not a mapping"),
        ("base: &b {name: old}\nprimary_dataset: *b\n# c\n", 1, "without harm"),
        ("primary_dataset:\n  name: &n old\n# c\nother: *n\n", 2, "without harm"),
        ("# c\n? [a]\n: 1\n", 2, "keys are text"),
    ],
)
def test_what_cannot_be_edited(text: str, line: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        edit(text, DATASET)
    assert caught.value.where is not None
    assert caught.value.where.line == line
    assert words in str(caught.value)


def test_a_text_that_neither_way_can_change_is_refused() -> None:
    # The change would also change what the alias stands for.
    with pytest.raises(InputError, match="has no item"):
        edit("x: [1]\n", {("x", 3): 1})
    with pytest.raises(InputError, match="without harm"):
        edit("a: &x\n  k: 1\nb: *x\n", {("b", "k"): 2, ("a", "z"): 1})


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.sampled_from(
        [
            "yes",
            "on",
            "12",
            "1e5",
            "null",
            "",
            " x",
            "x ",
            "a: b",
            "a #b",
            "- a",
            "2024-01-01",
            "é",
            "\u2028",
            "\x85",
            "🙂",
        ]
    ),
)


@given(values, st.sampled_from(["", "'", '"']))
@settings(deadline=None, max_examples=300)
def test_every_reader_takes_a_value_for_the_same(value: Scalar, style: str) -> None:
    text = f"k: {scalar_text(value, style)}\n"
    mine = load_yaml(text, name="f").data["k"]
    assert mine == value
    assert type(mine) is type(value)
    theirs = yaml.safe_load(text)["k"]  # a reader of YAML 1.1
    assert theirs == value or isinstance(value, float)


names = st.sampled_from(["image", "version", "tools", "build", "x y", "n1", "primary_dataset"])
simple = st.one_of(
    st.sampled_from(
        [
            "text",
            "'q u'",
            '"d\\tq"',
            "12",
            "1.0",
            "null",
            "~",
            "",
            "2024-01-01",
            "[1, {a: b}]",
            "{}",
            "{a: [x]}",
            "on",
        ]
    )
)
comments = st.sampled_from(["", "  # note", " # x: y"])


def block(depth: int) -> st.SearchStrategy[list[str]]:
    """Lines of a mapping in block style, without indentation."""

    def scalar_entry(name: str, value: str, comment: str) -> list[str]:
        return [f"{name}: {value}{comment}"]

    def text_entry(name: str, sign: str) -> list[str]:
        return [f"{name}: {sign}", "  first", "", "    deeper # no comment", "  last"]

    def list_entry(name: str, items: list[str], indent: bool) -> list[str]:
        return [f"{name}:", *(f"{'  ' if indent else ''}- {item}" for item in items)]

    def map_entry(name: str, comment: str, body: list[str], width: int) -> list[str]:
        return [f"{name}:{comment}", *((" " * width + line if line else line) for line in body)]

    entry = st.one_of(
        st.builds(scalar_entry, names, simple, comments),
        st.builds(text_entry, names, st.sampled_from(["|", ">", "|-", ">+"])),
        st.builds(
            list_entry,
            names,
            st.lists(st.sampled_from(["x", "a: 1", "'q'"]), min_size=1, max_size=3),
            st.booleans(),
        ),
    )
    if depth:
        entry = entry | st.builds(
            map_entry,
            names,
            comments,
            st.deferred(lambda: block(depth - 1)),
            st.sampled_from([1, 2, 4]),
        )
    filler = st.sampled_from([[], [], [""], ["# comment"]])
    parts = st.lists(
        st.tuples(filler, entry),
        min_size=1,
        max_size=4,
        unique_by=lambda part: part[1][0].split(":")[0],
    )
    return parts.map(lambda found: [line for before, lines in found for line in (*before, *lines)])


@given(
    block(2),
    st.sampled_from(["", "\n", "\n\n# end\n"]),
    st.sampled_from(["o/n", "a b", "on", "1"]),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=200)
def test_an_edit_changes_the_values_and_nothing_else(
    lines: list[str], end: str, name: str, count: int
) -> None:
    text = "\n".join(lines) + end
    before = load_yaml(text, name="f").data
    changes: Changes = {("primary_dataset", "name"): name, ("primary_dataset", "task_count"): count}
    try:
        changed = edit(text, changes)
    except InputError:
        assert not isinstance(before.get("primary_dataset"), (dict, type(None)))
        return
    expected: dict[str, Any] = {
        **before,
        "primary_dataset": {
            **(before.get("primary_dataset") or {}),
            "name": name,
            "task_count": count,
        },
    }
    after = load_yaml(changed, name="f").data
    assert after == expected
    assert list(after) == list(expected)
    assert after["primary_dataset"]["name"] == name
    assert sorted(re.findall("# .*", text)) == sorted(re.findall("# .*", changed))
    assert edit(changed, changes) == changed


@given(block(2))
@settings(deadline=None, max_examples=100)
def test_ordinary_files_keep_every_line(lines: list[str]) -> None:
    text = (
        "first: 1\n" + "\n".join(line.replace("primary_dataset", "other") for line in lines) + "\n"
    )
    if "other" in text and text.count("other") > 1:
        return
    changed = edit(text, DATASET)
    rest = changed.replace('primary_dataset:\n  name: "o/new"\n  task_count: 3\n', "", 1)
    assert rest.rstrip("\n") == text.rstrip("\n")


# -- adding items to a list
# ----------------------------------------------------------------------------------------------

ROUND = {"user": "2 .\n. 4", "assistant": "left()"}
BLOCK = '- user: |-\n      2 .\n      . 4\n    assistant: "left()"\n'


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("", "x:\n  " + BLOCK),
        ("# mine\n", "# mine\nx:\n  " + BLOCK),
        ("a: 1  # why", "a: 1  # why\nx:\n  " + BLOCK),
        ("x: []  # none yet\nb: 2\n", "x:   # none yet\n  " + BLOCK + "b: 2\n"),
        ("x:\nb: 2\n", "x:\n  " + BLOCK + "b: 2\n"),
        (
            "x:\n  - {user: a, assistant: b}  # good\n  # more\nb: 2\n",
            "x:\n  - {user: a, assistant: b}  # good\n  " + BLOCK + "  # more\nb: 2\n",
        ),
        ("x:\n- user: a\n  assistant: |\n    b\n\n# next\nb: 2\n", None),
        (
            "x: [{user: a, assistant: b}]  # flow\n",
            'x: [{user: a, assistant: b}, {"user": "2 .\\n. 4", "assistant": "left()"}]  # flow\n',
        ),
        ("a: |+\n  text\n\n", None),
        ("\ufeffa: 1\r\n", "\ufeffa: 1\r\nx:\r\n  " + BLOCK.replace("\n", "\r\n")),
    ],
)
def test_items_are_added_and_nothing_else_changes(text: str, result: str | None) -> None:
    added = append_items(text, "x", [ROUND], name="f.yaml")
    assert result is None or added == result
    before = load_yaml(text, name="f.yaml").data or {}
    assert load_yaml(added, name="f.yaml").data == {
        **before,
        "x": [*(before.get("x") or []), ROUND],
    }


@pytest.mark.parametrize(
    "text", ["x: a\n", "[1]\n", "a: &l [{user: a}]\nx: *l\n", '{"x": 1}', "x: [\n"]
)
def test_a_list_that_cannot_be_added_to_is_an_error(text: str) -> None:
    with pytest.raises(InputError):
        append_items(text, "x", [ROUND], name="f.yaml")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_added(user: str, assistant: str) -> None:
    text = "# first\nx:\n  - user: a\n    assistant: b  # good\nb: 2\n"
    item = {"user": user, "assistant": assistant}
    try:
        added = append_items(text, "x", [item], name="f.yaml")
    except InputError:
        assert any(0xD800 <= ord(letter) <= 0xDFFF for letter in user + assistant)
        return
    assert (
        load_yaml(added, name="f.yaml").data["x"][1] == item
        and "# first\n" in added
        and "# good\n" in added
    )


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('a: 1{}b: "x{}{} y" # c\n', 'a: 2{}b: "x{}{} y" # c\n'),
        ("{}{}a: \"q\" # c{}b: 'z'", "{}{}a: 2 # c{}b: 'z'"),
        ('# d{}a: 1 # c{}b:{}  - "y"', '# d{}a: 2 # c{}b:{}  - "y"'),
    ],
)
def test_lines_end_where_yaml_ends_them(end: str, text: str, result: str) -> None:
    before, after = (one.replace("{}", end) for one in (text, result))
    assert set_values(before, {("a",): 2}, name="f.yaml") == after
