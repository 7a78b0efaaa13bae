"""The quick way says "fine" only of what the precise way finds fine, and then both give the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.files import parse_json
from hudtui.core.tasks.columns import CheckedRecords, TaskChecker
from hudtui.core.tasks.rewrite import rewriting
from hudtui.core.tasks.rules import Rules

ANALYSIS = Analysis("env", tools=(Tool("evaluate"), Tool("setup")), hubs={"evaluate": ("max",)})
RULES = [
    Rules(),
    Rules(lock_image="o/e:1", lookup={"HUD_API_KEY": "k"}.get),
    Rules(strict=True, lock_image="o/e:1", token_budget=2),
    Rules(analysis=ANALYSIS),
    Rules(rewrite=rewriting(Rules().platform, image="o/e:1", remote=True, replace_secrets=True)),
]

SMALL = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x", " ", ":", '":', "\\", "é", "{}", "null"])
ANY = st.recursive(
    SMALL, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner), max_leaves=5
)
CALL = st.fixed_dictionaries(
    {"name": st.sampled_from(["evaluate", "setup", "other", "", None, 1])},
    optional={"arguments": ANY | st.fixed_dictionaries({"name": st.sampled_from(["max", "min"])}), "more": SMALL},
)
SERVER = st.fixed_dictionaries(
    {},
    optional={
        "url": st.sampled_from(["https://mcp.hud.ai/v3/mcp", "http://localhost:1/mcp", "", None, 3, "http://["]),
        "command": st.sampled_from(["docker", "ssh", "", None, ["docker"]]),
        "args": ANY | st.just(["run", "-e", "API_KEY=abcdefghij"]),
        "headers": st.sampled_from([{"Authorization": "Bearer abcdefghijkl"}, {"Authorization": "Bearer $KEY"}, [], {"A": 1}]),
        "env": st.sampled_from([{"A_TOKEN": "$A_TOKEN"}, {"A": None}]),
    },
)  # fmt: skip
CONFIG = st.dictionaries(st.sampled_from(["hud", "local", ":"]), SERVER | SMALL, max_size=2)


def or_text(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return strategy | strategy.map(json.dumps) | SMALL | st.sampled_from(["{not", "[]", '{"a":1,"a":2}', "{}\n"])


RECORD = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "b", "", " c", 3, None, True, 1.5, "\x07"]),
        "prompt": st.sampled_from(["Reach 128.", "two words", " ", "", None, 3, "é"]),
        "mcp_config": or_text(CONFIG),
        "setup_tool": or_text(CALL | st.lists(CALL, max_size=2)),
        "evaluate_tool": or_text(CALL | st.lists(CALL, max_size=2)),
        "metadata": or_text(ANY),
        "extra": ANY,
        ":": ANY,
        "env": st.sampled_from(["e", {"name": "e"}]),
        "scenario": st.just("e:s"),
        "gym": st.just({}),
    },
)
CONFIGS = [
    {"hud": {"url": "https://mcp.hud.ai/v3/mcp", "headers": {"Authorization": "Bearer $HUD_API_KEY"}}},
    {"hud": {"url": "https://mcp.hud.ai/v3/mcp", "headers": {"Authorization": "Bearer abcdefghijkl"}}},
    {"local": {"command": "docker", "args": ["run", "-e", "API_KEY=abcdefghij"], "env": {"A_TOKEN": "$A_TOKEN"}}, "gone": None},
    {"a": {"command": "ssh"}, "b": {"url": "http://127.0.0.1:1/mcp"}},
]
CALLS = [
    {"name": "evaluate", "arguments": {"name": "max"}},
    {"name": "evaluate"},
    [{"name": "setup", "arguments": {}}, {"name": "evaluate", "arguments": None}],
    {"arguments": {"name": "max", "é": [1.5, ":", {"a": '":'}]}, "name": "evaluate"},
]


def maybe_text(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values) | st.sampled_from([json.dumps(value, indent=1) for value in values])


GOOD = st.fixed_dictionaries(
    {"prompt": st.sampled_from(["Reach 128.", "two"]), "evaluate_tool": maybe_text(CALLS)},
    optional={
        "id": st.sampled_from(["a", "b", "", 3, None]),
        "mcp_config": maybe_text(CONFIGS),
        "setup_tool": maybe_text([*CALLS, {}, None, []]),
        "metadata": maybe_text([{"a": 1}, {}, {"b": {"c": [None]}}]),
        "extra": ANY,
        ":": ANY,
    },
)


SPACINGS: list[dict[str, Any]] = [
    {"separators": (",", ":")},
    {},
    {"indent": 1},
    {"ensure_ascii": False},
    {"separators": (" , ", ":")},
]


def spelled(record: Any, twice: str | None, spacing: dict[str, Any]) -> bytes:
    """The record as JSON, one of its keys said twice if it is there."""
    text = json.dumps(record, **spacing)
    if twice is not None and record.get(twice) is not None:
        comma = spacing.get("separators", (", ", ": "))[0]
        text = text[:-1].rstrip() + f"{comma}{json.dumps({twice: record[twice]}, **spacing)[1:]}"
    return text.encode()


def quickly(checker: TaskChecker, texts: list[bytes], between: bytes = b",") -> CheckedRecords | None:
    parsed = checker.parse(b"[%b]" % between.join(texts))
    return checker.quick(parsed, len(texts)) if parsed is not None else None


def meaning(part: CheckedRecords) -> tuple[Any, ...]:
    columns = {
        name: [None if text is None else json.loads(text) for text in column]
        for name, column in part.columns.items()
        if any(text is not None for text in column)
    }
    return part.ids, part.prompts, columns, list(part.kept), part.remarks, part.inferred, part.rewritten


@given(
    st.lists(GOOD, min_size=1, max_size=6) | st.lists(RECORD | GOOD, min_size=1, max_size=3),
    st.sampled_from([None, None, None, None, None, None, "id", "prompt", "metadata", "evaluate_tool"]),
    st.sampled_from(RULES),
    st.lists(st.sampled_from(SPACINGS), min_size=1, max_size=6),
    st.sampled_from([b",", b", ", b"\r,", b"\n ,\t"]),
)
@settings(deadline=None, max_examples=800)
@example(
    [{"prompt": "p", "mcp_config": {"a": {"url": "u"}}, "evaluate_tool": {"name": "e", "arguments": {":": ":"}}}],
    None,
    RULES[0],
    SPACINGS,
    b",",
)
@example(
    [{"prompt": "p", "mcp_config": {"a": {"url": "u"}}, "evaluate_tool": {"name": "e"}, "extra": 2**70}],
    None, RULES[0], SPACINGS[1:], b", ",
)  # fmt: skip
def test_the_quick_way_agrees_with_the_precise_way(
    records: list[Any], twice: str | None, rules: Rules, spacings: list[dict[str, Any]], between: bytes
) -> None:
    texts = [spelled(record, twice, spacings[number % len(spacings)]) for number, record in enumerate(records)]
    even = [spelled(record, None, spacings[0]) for record in records]
    checker = TaskChecker(rules)
    for given_texts in (even, texts, texts):  # the second time the fields are known, the third time everything
        quick = quickly(checker, given_texts, between)
        if quick is None:
            continue
        precise = CheckedRecords(0)
        for text in given_texts:
            precise.append(checker.precise(parse_json(text.decode(), "t")))
        assert meaning(quick) == meaning(precise)
        for column in quick.columns.values():
            for made in column:
                assert made is None or made == msgspec.json.format(made, indent=-1)


@pytest.mark.parametrize("place", ["top", "call", "arguments", "deep", "metadata", "mcp", "extra", "in text"])
def test_duplicate_keys_are_never_fine(place: str) -> None:
    texts = {
        "mcp": '{"hud":{"url":"u"}}',
        "call": '{"name":"e","arguments":{"a":{"b":1}}}',
        "metadata": '{"a":":","c":"\\":"}',
        "extra": "[1]",
    }
    spoiled = {
        "top": ("metadata", texts["metadata"] + ',"metadata":{}'),
        "call": ("call", '{"name":"e","name":"e"}'),
        "arguments": ("call", '{"name":"e","arguments":{"a":1,"a":1}}'),
        "deep": ("call", '{"name":"e","arguments":{"a":{"b":"é","b":1e5}}}'),
        "metadata": ("metadata", '{"a":":","a":1.50}'),
        "mcp": ("mcp", '{"hud":{"url":"u","url":"u"}}'),
        "extra": ("extra", '[{"a":1,"a":2}]'),
        "in text": ("metadata", '"{\\"a\\":1,\\"a\\":2}"'),
    }

    def rows(changed: dict[str, str]) -> bytes:
        now = {**texts, **changed}
        return (
            f'{{"id":"x","prompt":"p","mcp_config":{now["mcp"]},"evaluate_tool":{now["call"]},'
            f'"metadata":{now["metadata"]},"extra":{now["extra"]}}}'
        ).encode()

    good = rows({})
    checker = TaskChecker(Rules())
    name, text = spoiled[place]
    for between in (b",", b", ", b"\n,"):
        assert quickly(checker, [good] * 3, between) is not None
        assert quickly(checker, [good, rows({name: text}), good], between) is None
    if place != "in text":
        with pytest.raises(InputError, match="twice"):
            parse_json(rows({name: text}).decode(), "t")


def test_numbers_and_escapes_do_not_take_the_slow_way() -> None:
    call = '{"arguments":{"x":1.50,"y":"\\u00e9\\/","z":1e5,"big":12345678901},"name":"e"}'
    text = f'{{"prompt":"\\u00e9","mcp_config":{{"a":{{"url":"u"}}}},"evaluate_tool":{call}}}'.encode()
    part = quickly(TaskChecker(Rules()), [text])
    assert part is not None and part.prompts == ["é"]
    assert part.columns["evaluate_tool"] == [call.encode()]
    assert msgspec.json.decode(call.encode()) == json.loads(call)


def test_columns_whose_values_differ_and_then_do_not() -> None:
    checker = TaskChecker(Rules())
    config = {"a": {"url": "u"}}

    def texts(chunk: int, spacing: dict[str, Any]) -> list[bytes]:
        varied = chunk % 7 != 6
        calls = [{"name": "e", "arguments": {"n": number if varied else 0}} for number in range(40)]
        setups = [{} if chunk == 12 and number == 3 else call for number, call in enumerate(calls)]
        return [
            json.dumps({"prompt": "p", "mcp_config": config, "setup_tool": setup, "evaluate_tool": call}, **spacing).encode()
            for setup, call in zip(setups, calls, strict=True)
        ]

    for chunk in range(30):
        given_texts = texts(chunk, SPACINGS[1] if chunk % 2 else SPACINGS[0])
        part = quickly(checker, given_texts)
        assert part is not None
        assert part.columns["evaluate_tool"] == [
            msgspec.json.format(json.dumps(json.loads(text)["evaluate_tool"]).encode(), indent=-1) for text in given_texts
        ]
        assert (part.columns["setup_tool"][3] == b"{}") is (chunk == 12)
