"""Chunks that are certainly fine are recognised as such, and checked to the same result as by
`TaskChecker` alone."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment.values import Analysis
from hudtui.core.platform import HUD
from hudtui.core.tasks import prefilter
from hudtui.core.tasks.json_records import decode_array, split_array
from hudtui.core.tasks.prefilter import check_fine
from hudtui.core.tasks.read import TaskBatch, _check_chunk
from hudtui.core.tasks.servers import config_rewriter
from hudtui.core.tasks.validate import Rules, TaskChecker
from tests.core.tasks.conftest import GOOD

LOCAL = {
    "game": {
        "command": "docker",
        "args": ["run", "-e", "API_KEY=0123456789abcdef", "my-org/my-env"],
        "env": None,
    }
}
RULES = {
    "plain": Rules(),
    "strict": Rules(strict=True),
    "budget": Rules(token_budget=3),
    "image": Rules(lock_image="my-org/my-env:latest", lookup={"HUD_API_KEY": "x"}.get),
    "lookup": Rules(lookup={}.get),
    "rewrite": Rules(
        lock_image="my-org/my-env", rewrite=config_rewriter(HUD, image="my-org/my-env", remote=True)
    ),
}
CALLS = [
    {"name": "setup"},
    {"name": "setup", "arguments": None},
    {"name": "setup", "arguments": {}, "more": 1},
    {"name": "setup", "arguments": '{"size": 4}'},
    {"name": "setup", "arguments": [1]},
    {"name": "", "arguments": {}},
    {"name": 3},
    {"arguments": {}},
    {},
    [],
    [{"name": "setup", "arguments": {"size": 4}}],
    '{"name": "setup", "arguments": {}}',
    "",
    "no JSON",
    None,
    7,
]
ODD: dict[str, list[Any]] = {
    "id": ["t1", "t2", "t3", "", " t", "t\t", "ä", "a b", 7, True, None, ["t"]],
    "prompt": ["Win.", "", "  ", " \u2003", "Reach 2048\nin time.", None, 5],
    "mcp_config": [
        LOCAL,
        {**GOOD["mcp_config"], **LOCAL},
        {},
        None,
        "{}",
        "[",
        {"a": 1},
        {"a": {}},
        3,
        json.dumps(LOCAL),
    ],
    "setup_tool": CALLS,
    "evaluate_tool": CALLS,
    "metadata": [{}, {"level": None}, None, "", '{"level": 1}', "x", [], [1], 0, 1.5, False],
    "system_prompt": ["Be brief.", None, {"a": 1}],
}
PLAIN: dict[str, list[Any]] = {
    "prompt": ["Win.", "Reach 2048\nin time.", " a"],
    "mcp_config": [GOOD["mcp_config"], {"web": {"url": "https://example.org/mcp"}}],
    "setup_tool": [None, *CALLS[:3]],
    "evaluate_tool": CALLS[:3],
    "metadata": [None, {}, {"level": 1}],
}


@st.composite
def records(draw: st.DrawFn) -> Any:
    """Usual tasks, up to three of whose fields are something else or not there."""
    record = copy.deepcopy(GOOD) | {"id": f"t{draw(st.integers(0, 10**6))}"}
    record |= {name: draw(st.sampled_from(values)) for name, values in PLAIN.items()}
    spoiled = draw(st.sampled_from([0, 0, 0, 0, 1, 3]))
    for name in draw(
        st.lists(st.sampled_from(list(ODD)), min_size=min(spoiled, 1), max_size=spoiled)
    ):
        record[name] = draw(st.sampled_from([*ODD[name], ...]))
    record = {name: value for name, value in record.items() if value is not ...}
    return draw(st.sampled_from([record] * 30 + [[], None, "task"]))


def checked(chunks: Sequence[Sequence[Any]], rules: Rules) -> list[TaskBatch]:
    """Check chunks of a source one after another, as `scan` does."""
    checker, ids, start, batches = TaskChecker(rules), dict[str, int](), 0, list[TaskBatch]()
    for values in chunks:
        data = json.dumps(values).encode()
        for chunk in split_array(data, "tasks.json"):
            batches.append(
                _check_chunk(
                    chunk, checker, ids, TaskBatch(start, 0, [], [], [], 0, 0), "tasks.json"
                )
            )
        start += len(values)
    return batches


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@given(st.lists(st.lists(records(), max_size=4), min_size=1, max_size=3))
def test_the_result_is_that_of_the_checker_alone(rules: Rules, chunks: list[list[Any]]) -> None:
    found = checked(chunks, rules)
    with patch.object(prefilter, "check_fine", return_value=None):
        assert found == checked(chunks, rules)


@given(
    st.lists(
        st.fixed_dictionaries({name: st.sampled_from(values) for name, values in PLAIN.items()}),
        min_size=1,
        max_size=5,
    )
)
def test_usual_tasks_are_recognised(found: list[dict[str, Any]]) -> None:
    tasks = decode_array(
        json.dumps([{"id": f"t{number}", **task} for number, task in enumerate(found)]).encode()
    )
    fine = check_fine(tasks, 10, TaskChecker(Rules()))
    assert fine is not None
    assert [(task.index, task.id, task.prompt) for task in fine] == [
        (10 + number, f"t{number}", task["prompt"]) for number, task in enumerate(found)
    ]


def test_fields_that_may_be_absent_are_absent() -> None:
    text = json.dumps(
        [{name: GOOD[name] for name in ("id", "prompt", "mcp_config", "evaluate_tool")}]
    ).encode()
    assert check_fine(decode_array(text), 0, TaskChecker(Rules())) is not None


@pytest.mark.parametrize("name", ["id", "prompt", "evaluate_tool", "mcp_config"])
def test_a_task_without_a_field_is_left_to_the_checker(name: str) -> None:
    assert check_fine([GOOD, {**GOOD, name: None}], 0, TaskChecker(Rules())) is None


@pytest.mark.parametrize(
    "rules", [Rules(token_budget=1000), Rules(analysis=Analysis(""))], ids=["budget", "analysis"]
)
def test_what_needs_more_checks_is_left_to_the_checker(rules: Rules) -> None:
    assert check_fine([GOOD], 0, TaskChecker(rules)) is None


def test_an_id_from_an_earlier_chunk_is_found() -> None:
    first, second = checked([[GOOD], [{**GOOD, "id": "other"}, GOOD]], Rules())
    assert len(first.tasks) == len(second.tasks) == 1
    assert [(problem.index, problem.code) for problem in second.problems] == [(2, "duplicate-id")]
