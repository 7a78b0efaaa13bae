from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.variables import lookup_in_any_case, substitute, substitute_tree, variable_names

VALUES = {"A": "1", "LONG_NAME_2": "two", "EMPTY": "", "DOLLAR": "$A ${A} }"}
look = VALUES.get


@pytest.mark.parametrize(
    ("text", "result", "missing"),
    [
        ("", "", ()),
        ("no variables }{ here", "no variables }{ here", ()),
        ("$A", "1", ()),
        ("${A}", "1", ()),
        ("$A$A ${A}x", "11 1x", ()),
        ("${LONG_NAME_2}.$LONG_NAME_2!", "two.two!", ()),
        ("Bearer $NOPE", "Bearer $NOPE", ("NOPE",)),
        ("${NOPE} $B ${NOPE}", "${NOPE} $B ${NOPE}", ("NOPE", "B")),
        ("${NOPE:default}", "default", ()),
        ("${NOPE:-default}", "default", ()),
        ("${NOPE:}|${NOPE:-}", "|", ()),
        ("${NOPE:--5}", "-5", ()),
        ("${A:default}${A:-x}", "11", ()),
        ("${EMPTY:default}${EMPTY:-d}", "defaultd", ()),
        ("$EMPTY|${EMPTY}", "|", ()),
        ("${NOPE:http://localhost:8765/mcp}", "http://localhost:8765/mcp", ()),
        ("${NOPE:${A}}", "1", ()),
        ("${NOPE:-a${B:-b$A}c}", "ab1c", ()),
        ("${A:${NOPE}}", "1", ()),
        ("${NOPE:$B}", "$B", ("B",)),
        ("$$A $$ $${A}", "$A $ ${A}", ()),
        ("$$$A", "$1", ()),
        ("$5 $ 5$ $-", "$5 $ 5$ $-", ()),
        ("${} ${5} ${a-b} ${A", "${} ${5} ${a-b} ${A", ()),
        ("${NOPE:open $A", "${NOPE:open 1", ()),
        ("${NOPE:a}}", "a}", ()),
        ("$DOLLAR", "$A ${A} }", ()),
        ("${NOPE:$DOLLAR}", "$A ${A} }", ()),
        ("$Aé", "1é", ()),
        ("$é", "$é", ()),
        ("line\n$A\n", "line\n1\n", ()),
    ],
)
def test_forms(text: str, result: str, missing: tuple[str, ...]) -> None:
    assert substitute(text, look) == (result, missing)


def escape(text: str) -> str:
    return text.replace("$", "$$")


@given(st.text())
@settings(deadline=None)
def test_escaped_text_comes_back(text: str) -> None:
    assert substitute(escape(text), look) == (text, ())


@given(st.text(alphabet="$${}}:-AB1a é\n"))
@settings(deadline=None)
def test_any_text_gives_an_answer(text: str) -> None:
    result, missing = substitute(text, look)
    assert isinstance(result, str)
    assert not set(missing) & set(VALUES)
    if "$" not in text:
        assert result == text


def literals() -> st.SearchStrategy[tuple[str, str, list[str]]]:
    return st.text().filter(lambda text: "}" not in text).map(lambda text: (escape(text), text, []))


def references(
    inner: st.SearchStrategy[tuple[str, str, list[str]]],
) -> st.SearchStrategy[tuple[str, str, list[str]]]:
    def build(name: str, part: tuple[str, str, list[str]], sign: str) -> tuple[str, str, list[str]]:
        source = f"${{{name}{sign}{part[0]}}}"
        return (source, VALUES[name], []) if VALUES.get(name) else (source, part[1], part[2])

    def bare(name: str) -> tuple[str, str, list[str]]:
        source = f"${{{name}}}"
        return (source, VALUES[name], []) if name in VALUES else (source, source, [name])

    names = st.sampled_from([*VALUES, "NOPE", "B", "_x"])
    return st.builds(build, names, inner, st.just(":-")) | st.builds(bare, names)


def joined(parts: list[tuple[str, str, list[str]]]) -> tuple[str, str, list[str]]:
    return (
        "".join(p[0] for p in parts),
        "".join(p[1] for p in parts),
        [name for p in parts for name in p[2]],
    )


@given(
    st.recursive(
        literals(), lambda inner: st.lists(references(inner) | inner, max_size=4).map(joined)
    )
)
@settings(deadline=None)
def test_nested_references_mean_the_sum_of_their_parts(case: tuple[str, str, list[str]]) -> None:
    source, result, missing = case
    assert substitute(source, look) == (result, tuple(dict.fromkeys(missing)))


def test_trees() -> None:
    tree = {
        "url": "${U:http://x}",
        "headers": {"Authorization": "Bearer $A", "n": 5, "none": None},
        "args": ["$B", ("$A", True)],
    }
    result, missing = substitute_tree(tree, look)
    assert result == {
        "url": "http://x",
        "headers": {"Authorization": "Bearer 1", "n": 5, "none": None},
        "args": ["$B", ["1", True]],
    }
    assert list(result) == list(tree)
    assert missing == ("B",)
    assert tree["headers"]["Authorization"] == "Bearer $A"  # the original is untouched
    assert substitute_tree("$A", look) == ("1", ())
    assert substitute_tree(7, look) == (7, ())


def test_keys_are_no_templates() -> None:
    assert substitute_tree({"$A": "x"}, look) == ({"$A": "x"}, ())


def test_very_deep_trees_do_not_overflow() -> None:
    tree: Any = "$A"
    for _ in range(50_000):
        tree = [tree]
    result, _ = substitute_tree(tree, look)
    for _ in range(50_000):
        result = result[0]
    assert result == "1"


def test_names_in() -> None:
    assert variable_names({"a": ["$X ${Y:$Z} $$N", {"b": "$X"}], "c": 3}) == ("X", "Z", "Y")
    assert variable_names("plain") == ()


@pytest.mark.parametrize(
    "piece", ["${A:", "${A:}", "$", "$$", "${", "}", "${NOPE:x", "$A", "${NOPE:${A:"]
)
def test_time_grows_with_the_length_only(piece: str) -> None:
    def cost(times: int) -> float:
        text = piece * times + "}" * times
        best = 9.0
        for _ in range(3):
            start = time.process_time()
            substitute(text, look)
            best = min(best, time.process_time() - start)
        return best

    # A quadratic implementation would need 100 times as long for ten times the text.
    assert cost(50_000) < 40 * cost(5_000) + 0.05


def test_lookup_in_any_case() -> None:
    lookup = lookup_in_any_case(
        {"BUCKEYE_API_KEY": "k", "path": "p", "Two": "1", "tWo": "2", "THREE": "3", "three": "4"}
    )
    assert lookup("buckeye_API_KEY") == "k"
    assert lookup("PATH") == "p"
    assert lookup("BUCKEYE_API_KEY") == "k"
    assert lookup("two") is None  # two candidates, neither in capitals
    assert lookup("Three") == "3"
    assert lookup("missing") is None
