"""The components of the reward, and the reward in an evaluate tool's answer."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment.values import ContentBlock, ToolResult
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.rubric import (
    find_reward,
    format_score,
    reward_warning,
    tool_execution,
    total_reward,
    why_no_reward,
)
from hudtui.core.gym.values import GymConfig, ParserSettings

CONFIG = "action_mappings: {left: {_tool: move}}\n"


def config(extra: str = "") -> GymConfig:
    found, findings = parse_config(CONFIG + extra, name="c.yaml")
    assert found is not None, findings
    return found


@pytest.mark.parametrize(
    ("replies", "extra", "score"),
    [
        ([], "", 0.0),
        (["<think>a</think><tool>left()</tool>"], "", 1.0),
        (["<tool>left()</tool>"], "", 0.4),
        (["<tool>left()</tool>"], "parser: {use_thinking: false}\n", 1.0),
        (["<think>a</think><tool>left(</tool>"], "", 0.6),
        (["<think>a</think>"], "", 0.0),
        (["nothing"], "", 0.0),
        (["<think>a</think><tool>up()</tool>"], "", 1.0),  # not mapped, but in form
        (["<think>a</think><tool>left()</tool>", "nothing"], "", 0.7),
        (["<think>a</think><tool>left()</tool>", "<tool>left(</tool>"], "", 0.5),
        (["<tool>left()</tool>"], "parser: {xml_weight: 3, action_weight: 1}\n", 0.25),
        (["<tool>left()</tool>"], "parser: {xml_weight: 0, action_weight: 7}\n", 1.0),
        (
            ["<think>a</think><tool>left()</tool>"],
            "parser: {xml_weight: 0, action_weight: 0}\n",
            0.0,
        ),
    ],
)
def test_format_score(replies: list[str], extra: str, score: float) -> None:
    made = config(extra)
    interpreter = Interpreter(made)
    assert format_score([interpreter.interpret(reply) for reply in replies], made) == pytest.approx(
        score
    )


def test_tool_execution() -> None:
    assert tool_execution(0, 0) == 0
    assert tool_execution(3, 4) == 0.75


def test_total() -> None:
    assert total_reward(1, 1, 1, config()) == pytest.approx(1.0)
    assert total_reward(0.5, 0.25, 0.75, config()) == pytest.approx(0.5)
    changed = config("rubric: {weights: {task_completion: 0.9, format_compliance: 0}}\n")
    assert changed.weights == {
        "task_completion": 0.9,
        "tool_execution": 0.1,
        "format_compliance": 0.0,
    }
    assert total_reward(1, 0.5, 1, changed) == pytest.approx(0.95)


def result(structured: Any = None, *texts: str, error: bool = False) -> ToolResult:
    return ToolResult(tuple(ContentBlock("text", text=text) for text in texts), structured, error)


@pytest.mark.parametrize(
    ("answer", "reward", "found"),
    [
        (result({"reward": 0.5}), 0.5, True),
        (result({"grade": 0.25}), 0.25, True),
        (result({"score": 1}), 1.0, True),
        (result({"score": 3, "grade": 2, "reward": 1}), 1.0, True),
        (result({"score": 3, "grade": 2}), 2.0, True),
        (result({"reward": None, "grade": 2}), 2.0, True),
        (result({"reward": "0.5"}), 0.5, True),
        (result({"reward": True}), 1.0, True),
        (result({"reward": "good", "score": 1}), 1.0, True),
        (result({"reward": "nan", "score": 1}), 0.0, False),
        (result({"reward": float("nan"), "score": 1}), 0.0, False),
        (result({"reward": float("-inf")}, '{"reward": 1}'), 0.0, False),
        (result({"reward": -1.5}), -1.5, True),
        (result({"reward": 0}), 0.0, True),
        (result({"reward": 1}, error=True), 0.0, False),
        (result({"reward": 10**400}), 0.0, False),
        (result({"subscores": {"a": 1, "b": 0.5}, "weights": {"a": 0.5, "b": 0.5}}), 0.75, True),
        (result({"subscores": {"a": 1, "b": 0.5}, "weights": {"a": 0.5}}), 0.5, True),
        (
            result(
                {
                    "subscores": [
                        {"name": "a", "value": 1, "weight": 0.25},
                        {"name": "b", "value": 0.5, "weight": 0.5},
                    ]
                }
            ),
            0.5,
            True,
        ),
        (result({"subscores": [{"value": 1}]}), 1.0, True),
        (
            result({"subscores": [{"value": 1, "weight": 1}, {"value": 1, "weight": -0.5}]}),
            0.5,
            True,
        ),
        (result({"subscores": [{"value": "x"}]}), 0.0, False),
        (result({"subscores": [1, 2]}), 0.0, False),
        (result({"subscores": {"a": 1}}), 0.0, False),
        (result({"subscores": {}, "weights": {}}), 0.0, False),
        (result({"grade": 0.2, "subscores": [{"value": 1}]}), 0.2, True),
        (result({"result": {"reward": 0.5}}), 0.5, True),
        (result({"result": 0.5}), 0.5, True),
        (result({"result": "0.5"}), 0.5, True),
        (result({"result": '{"reward": 0.5}'}), 0.5, True),
        (result({"result": {"result": {"grade": 0.5}}}), 0.5, True),
        (result({"result": True}), 1.0, True),
        (result({"result": 0.5, "more": 1}), 0.0, False),
        (result({"result": None}), 0.0, False),
        (result({"result": [0.5]}), 0.0, False),
        (result({"result": float("inf")}), 0.0, False),
        (result({"result": 0.5}, "0.5"), 0.5, True),
        (result({"success": True}), 1.0, True),
        (result({"success": False, "message": "not there yet"}), 0.0, True),
        (result({"success": True, "score": 0.25}), 0.25, True),
        (result({"success": True}, '{"reward": 0.25}'), 0.25, True),
        (result({"success": "true"}), 0.0, False),
        (result({"success": 1}), 0.0, False),
        (result({"success": None}), 0.0, False),
        (result(None, json.dumps({"reward": 0.5})), 0.5, True),
        (result({"note": 1}, '{"score": 0.5}'), 0.5, True),
        (result(None, "all good", ' \n{"grade": 0.5}\n'), 0.5, True),
        (result(None, '{"note": 1}', '{"grade": 0.5}'), 0.5, True),
        (result({"reward": 0.25}, '{"reward": 0.5}'), 0.25, True),
        (result(None, "0.5"), 0.5, True),
        (result(None, " -1 \n"), -1.0, True),
        (result(None, '"0.5"'), 0.5, True),
        (result(None, "5e-1"), 0.5, True),
        (result(None, "true"), 1.0, True),
        (result(None, "False"), 0.0, True),
        (result(None, "0.5", "0.75"), 0.0, False),
        (result(None, "0.5", '{"reward": 0.75}'), 0.75, True),
        (result(None, "nan"), 0.0, False),
        (result(None, "Infinity"), 0.0, False),
        (result(None, "1e999"), 0.0, False),
        (result(None, "1_000"), 0.0, False),
        (result(None, "٠.٥"), 0.0, False),
        (result(None, "0,5"), 0.0, False),
        (result(None, "50%"), 0.0, False),
        (result(None, "1/2"), 0.0, False),
        (result(None, "The reward is 0.5."), 0.0, False),
        (result(None, "reward: 0.5"), 0.0, False),
        (result(None, '```json\n{"reward": 0.5}\n```'), 0.5, True),
        (result(None, 'Judged:\n```\n{"score": 0.5}\n```\nBye.'), 0.5, True),
        (result(None, '```python\n{x}\n```\n```json\n{"success": true}\n```'), 1.0, True),
        (result(None, "```json\n0.5\n```"), 0.5, True),
        (result(None, "Run this:\n```\n3\n```"), 0.0, False),
        (result(None, '```json\n{"reward": 0.5}'), 0.0, False),
        (result(None, '{"reward": 1, "reward": 0}'), 0.0, False),
        (result(None, "[0.5]"), 0.0, False),
        (result(None, '{"reward": 0.5'), 0.0, False),
        (result(None, '{"reward": NaN}'), 0.0, False),
        (result(None, '{"a":' * 5000 + "1" + "}" * 5000), 0.0, False),
        (result([0.5]), 0.0, False),
        (result(0.5), 0.5, True),
        (result(), 0.0, False),
        (
            ToolResult(
                (ContentBlock("image", data="x"), ContentBlock("resource", text='{"reward": 1}'))
            ),
            0.0,
            False,
        ),
    ],
)
def test_find_reward(answer: ToolResult, reward: float, found: bool) -> None:
    value, known = find_reward(answer)
    assert (value, known) == (pytest.approx(reward), found)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (result(), "the evaluator returned no `reward`"),
        (result(None, "well done"), "the evaluator returned no `reward`"),
        (result({"reward": float("nan")}), "the evaluator returned the reward nan"),
        (result(None, "-inf"), "the evaluator returned the reward -inf"),
        (result(None, '{"reward": NaN}'), "the evaluator returned the reward nan"),
        (result({"reward": 10**400}), "the evaluator returned the reward inf"),
    ],
)
def test_why_there_is_no_reward(answer: ToolResult, words: str) -> None:
    assert find_reward(answer) == (0.0, False)
    assert why_no_reward(answer).startswith(words)


@pytest.mark.parametrize(
    ("reward", "told"), [(0, False), (1, False), (1 + 1e-12, False), (-0.1, True), (12, True)]
)
def test_a_reward_outside_of_its_range_is_told(reward: float, told: bool) -> None:
    warning = reward_warning(reward)
    assert (warning is not None) == told
    assert warning is None or f"the reward {reward:g}, outside 0 to 1" in warning


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "reward",
                    "grade",
                    "score",
                    "subscores",
                    "weights",
                    "weight",
                    "value",
                    "result",
                    "a",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON, st.lists(st.text() | JSON.map(json.dumps), max_size=3), st.booleans())
def test_no_answer_raises(structured: Any, texts: list[str], error: bool) -> None:
    value, found = find_reward(result(structured, *texts, error=error))
    assert math.isfinite(value)
    assert found or value == 0


def test_settings_by_hand() -> None:
    made = GymConfig(parser=ParserSettings(False, 1, 1))
    assert format_score([Interpreter(made).interpret("<tool>x</tool>")], made) == 0.5
