"""Checks of single tasks: what was checked before changes nothing, and a written task is read back
as the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.tasks.servers import config_rewriter
from hudtui.core.tasks.validate import Rules, TaskChecker, check_config
from hudtui.core.tasks.write import DatasetLayout

ANALYSIS = Analysis("env", tools=(Tool("evaluate"), Tool("setup")), hubs={"evaluate": ("max",)})
RULES = [
    Rules(),
    Rules(lock_image="o/e:1", lookup={"HUD_API_KEY": "k"}.get),
    Rules(strict=True, lock_image="o/e:1", token_budget=2),
    Rules(analysis=ANALYSIS),
    Rules(
        rewrite=config_rewriter(Rules().platform, image="o/e:1", remote=True, replace_secrets=True)
    ),
]

SMALL = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "x", " ", ":", '":', "\\", "é", "{}", "null"])
)
ANY = st.recursive(
    SMALL,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner),
    max_leaves=5,
)
CALL = st.fixed_dictionaries(
    {"name": st.sampled_from(["evaluate", "setup", "other", "", None, 1])},
    optional={
        "arguments": ANY | st.fixed_dictionaries({"name": st.sampled_from(["max", "min"])}),
        "more": SMALL,
    },
)
SERVER = st.fixed_dictionaries(
    {},
    optional={
        "url": st.sampled_from(["https://mcp.hud.ai/v3/mcp", "http://localhost:1/mcp", "", None, 3, "http://["]),
        "command": st.sampled_from(["docker", "ssh", "", None, ["docker"]]),
        "args": ANY | st.just(["run", "-e", "API_KEY=abcdefghij"]),
        "headers": st.sampled_from(
            [{"Authorization": "Bearer abcdefghijkl"}, {"Authorization": "Bearer $KEY"},
             [], {"A": 1}]
        ),
        "env": st.sampled_from([{"A_TOKEN": "$A_TOKEN"}, {"A": None}]),
    },
)  # fmt: skip
CONFIG = st.dictionaries(st.sampled_from(["hud", "local", ":"]), SERVER | SMALL, max_size=2)


def or_text(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        strategy
        | strategy.map(json.dumps)
        | SMALL
        | st.sampled_from(["{not", "[]", '{"a":1,"a":2}', "{}\n"])
    )


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
    {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer $HUD_API_KEY"},
        }
    },
    {
        "hud": {
            "url": "https://mcp.hud.ai/v3/mcp",
            "headers": {"Authorization": "Bearer abcdefghijkl"},
        }
    },
    {
        "local": {
            "command": "docker",
            "args": ["run", "-e", "API_KEY=abcdefghij"],
            "env": {"A_TOKEN": "$A_TOKEN"},
        },
        "gone": None,
    },
    {"a": {"command": "ssh"}, "b": {"url": "http://127.0.0.1:1/mcp"}},
]
CALLS = [
    {"name": "evaluate", "arguments": {"name": "max"}},
    {"name": "evaluate"},
    [{"name": "setup", "arguments": {}}, {"name": "evaluate", "arguments": None}],
    {"arguments": {"name": "max", "é": [1.5, ":", {"a": '":'}]}, "name": "evaluate"},
]


def maybe_text(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values) | st.sampled_from(
        [json.dumps(value, indent=1) for value in values]
    )


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


@given(st.lists(GOOD | RECORD, min_size=1, max_size=6), st.sampled_from(RULES))
@settings(deadline=None, max_examples=500)
def test_what_was_checked_before_changes_nothing(records: list[Any], rules: Rules) -> None:
    checker = TaskChecker(rules)
    for record in [*records, *records]:
        assert checker.check(record) == TaskChecker(rules).check(record)


@given(GOOD | RECORD, st.sampled_from(RULES))
@example({"prompt": "Reach 128.", "mcp_config": {"hud": None}}, Rules())
@example({"prompt": "Reach 128.", "mcp_config": '{"hud": null}'}, Rules(own_reward=True))
@settings(deadline=None, max_examples=300)
def test_a_usable_task_is_checked_again_as_the_same(record: Any, rules: Rules) -> None:
    """Written as a dataset and read again, a task is the same and has no further problem."""
    once = TaskChecker(rules).check(record)
    if not once.usable:
        assert any(problem.severity == "error" for problem in once.problems)
        return
    (row,) = DatasetLayout().record_batch([once]).to_pylist()
    again = TaskChecker(replace(rules, rewrite=None)).check({**row, **once.extra})
    assert {problem.code for problem in again.problems} <= {
        problem.code for problem in once.problems
    }
    for name in ("mcp_config", "setup_tool", "evaluate_tool", "metadata"):
        assert getattr(again, name) == getattr(once, name)


def test_servers_inside_a_wrapper_of_other_clients_are_taken_from_there() -> None:
    servers = {
        "game": {"command": "python3", "args": ["-m", "game"]},
        "web": {"url": "https://e.example/mcp"},
    }
    evaluate = {"name": "evaluate", "arguments": {}}
    for wrapper in ("mcpServers", "mcp_config", "servers"):
        for written in ({wrapper: servers}, json.dumps({wrapper: servers})):
            task = TaskChecker(Rules()).check(
                {"id": "t", "prompt": "p", "mcp_config": written, "evaluate_tool": evaluate}
            )
            assert task.mcp_config == servers
            assert [(one.code, one.severity) for one in task.problems] == [("wrapped", "warning")]
    for server in (
        {"servers": servers["web"]},
        {"mcpServers": {}},
        {"mcpServers": servers, "more": servers["web"]},
    ):
        task = TaskChecker(Rules()).check(
            {"id": "t", "prompt": "p", "mcp_config": server, "evaluate_tool": evaluate}
        )
        assert task.mcp_config == server and "wrapped" not in {one.code for one in task.problems}


@pytest.mark.parametrize(
    ("args", "severity", "words"),
    [
        (["${EPISODE_PORT:80}"], "error", "${EPISODE_PORT:80} has a default"),
        (["${EPISODE_ID:-x}"], "error", "has a default"),
        (["${EPISODE_DIR:one}", "${EPISODE_DIR:two}"], "error", "two templates: one and two"),
        (["${EPISODE_DIR:absent}"], "warning", "absent, is no folder"),
        (["${EPISODE_DIR:file.txt}/sub"], "warning", "is no folder"),
        (["${EPISODE_DIR:one}", "${EPISODE_DIR}", "${EPISODE_PORT}"], None, ""),
    ],
)
def test_a_place_of_an_episode_is_checked_before_anything_starts(
    tmp_path: Path, args: list[str], severity: str | None, words: str
) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "file.txt").write_text("x")
    config = {"files": {"command": "server", "args": args}}
    found = check_config(config, Rules(folder=tmp_path))
    assert [one.severity for one in found] == ([severity] if severity else [])
    assert all(one.field == "mcp_config" and words in one.message for one in found)


def test_arguments_that_are_no_json_are_named_with_their_call() -> None:
    call = {"name": "look", "arguments": "x"}
    reply = [{"reply": {"contains": "a"}}]
    record = {"id": "a", "prompt": "x", "mcp_config": {"a": {"command": "b"}}, "evaluate": reply}
    for field, value, place in (
        ("solution", [{"name": "a"}, call], "solution[1].arguments"),
        ("setup_tool", [call], "setup_tool[0].arguments"),
        ("setup_tool", call, "setup_tool.arguments"),
    ):
        (problem,) = TaskChecker(Rules()).check({**record, field: value}).problems
        assert problem.field == place
