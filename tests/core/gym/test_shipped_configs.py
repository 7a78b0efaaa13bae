"""The configurations in configs/: complete, clean, and every action becomes the call that the
documentation promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support import old_gym

from hudtui.core.environment.values import Tool
from hudtui.core.gym.config import load_config
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.lint.prompt import usage_examples
from hudtui.core.yaml_doc import load_yaml
from hudtui.envs.text_2048.environment import HUBS, TOOLS

CONFIGS = Path(__file__).parents[3] / "configs"

INTEGER, TEXT = (
    {"type": ["integer", "null"], "default": None},
    {"type": ["string", "null"], "default": None},
)
COMPUTER = Tool(
    "computer",
    "Control a computer.",
    {
        "type": "object",
        "properties": {
            "action": {"enum": ["screenshot", "click", "move", "type", "press", "scroll", "wait"]},
            "x": INTEGER,
            "y": INTEGER,
            "button": {"enum": ["left", "right", "middle", None], "default": None},
            "pattern": {"type": ["array", "null"], "items": {"type": "integer"}},
            "text": TEXT,
            "keys": {"type": ["array", "null"], "items": {"type": "string"}},
            "scroll_x": INTEGER,
            "scroll_y": INTEGER,
            "time": {**INTEGER, "minimum": 0},
        },
        "required": ["action"],
        "additionalProperties": False,
    },
)

GAME_CALLS = [(f"{way}()", "move", {"direction": way}) for way in ("left", "right", "up", "down")]
COMPUTER_CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("screenshot()", "computer", {"action": "screenshot"}),
    ("click(100, 200)", "computer", {"action": "click", "x": 100, "y": 200}),
    (
        "double_click(100, 200)",
        "computer",
        {"action": "click", "x": 100, "y": 200, "pattern": [100]},
    ),
    (
        "right_click(100, 200)",
        "computer",
        {"action": "click", "x": 100, "y": 200, "button": "right"},
    ),
    ("move(100, 200)", "computer", {"action": "move", "x": 100, "y": 200}),
    ('type("hello")', "computer", {"action": "type", "text": "hello"}),
    ('key("ctrl+a")', "computer", {"action": "press", "keys": ["ctrl", "a"]}),
    ("key(ctrl+a)", "computer", {"action": "press", "keys": ["ctrl", "a"]}),
    ('key("enter")', "computer", {"action": "press", "keys": ["enter"]}),
    ('key("+")', "computer", {"action": "press", "keys": ["+"]}),
    ('scroll("down", 3)', "computer", {"action": "scroll", "scroll_x": 0, "scroll_y": 3}),
    ('scroll("up")', "computer", {"action": "scroll", "scroll_x": 0, "scroll_y": -3}),
    ('scroll("right", 2)', "computer", {"action": "scroll", "scroll_x": 2, "scroll_y": 0}),
    (
        'scroll("left", 2, 5, 6)',
        "computer",
        {"action": "scroll", "scroll_x": -2, "scroll_y": 0, "x": 5, "y": 6},
    ),
    ("wait(2.5)", "computer", {"action": "wait", "time": 2500}),
    ("wait()", "computer", {"action": "wait", "time": 1000}),
]


def game_tools() -> dict[str, Tool]:
    return {
        tool["name"]: Tool(
            tool["name"],
            tool["description"],
            tool["inputSchema"],
            tool["name"] if tool["name"] in HUBS else "agent",
        )
        for tool in TOOLS
    }


def tools_for(name: str) -> dict[str, Tool]:
    return game_tools() if name == "2048" else {"computer": COMPUTER}


SHIPPED = ("2048", "default")


@pytest.mark.parametrize("name", SHIPPED)
def test_complete(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    assert {"job", "system_prompt", "parser", "action_mappings", "rubric", "defaults"} == set(
        config.raw
    )
    assert config.job["name"] and config.job["metadata"]["environment"]
    assert config.weights == {
        "task_completion": 0.8,
        "tool_execution": 0.1,
        "format_compliance": 0.1,
    }
    assert (config.parser.use_thinking, config.parser.xml_weight, config.parser.action_weight) == (
        True,
        0.6,
        0.4,
    )
    assert config.raw["defaults"]["max_turns"] == config.max_turns


@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.parametrize("with_tools", [False, True])
def test_lint_has_nothing_to_say(name: str, with_tools: bool) -> None:
    text = (CONFIGS / f"{name}.yaml").read_text()
    assert lint(text, name=name, tools=tools_for(name) if with_tools else None) == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_both_kinds_of_yaml_read_the_same(name: str) -> None:
    text = (CONFIGS / f"{name}.yaml").read_text()
    assert old_gym.loads(text) == yaml.safe_load(text) == load_yaml(text, name=name).data


@pytest.mark.parametrize(
    "name, said, tool, arguments",
    [("2048", *call) for call in GAME_CALLS] + [("default", *call) for call in COMPUTER_CALLS],
)
def test_every_action_becomes_its_call(
    name: str, said: str, tool: str, arguments: dict[str, Any]
) -> None:
    for tools in (None, tools_for(name)):
        result = Interpreter(load_config(CONFIGS / f"{name}.yaml"), tools).interpret(
            f"<think>so</think>\n<tool>{said}</tool>"
        )
        assert result.error is None
        assert result.call is not None
        assert (result.call.tool, dict(result.call.arguments)) == (tool, arguments)
        assert result.format == (1, 1)


@pytest.mark.parametrize("name, calls", [("2048", GAME_CALLS), ("default", COMPUTER_CALLS)])
def test_no_mapping_is_left_out_above(
    name: str, calls: list[tuple[str, str, dict[str, Any]]]
) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    assert {said.partition("(")[0] for said, _, _ in calls} == set(config.mappings)
    assert config.invalid == {}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_usage_line_of_the_prompt_works(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    interpreter = Interpreter(config, tools_for(name))
    said = [usage.text for usage in usage_examples(config.system_prompt)]
    for text in said:
        result = interpreter.interpret(f"<think>so</think><tool>{text}</tool>")
        assert result.error is None and (result.done or result.call is not None), text
    assert {text.partition("(")[0] for text in said} == {*config.mappings, "done"}


@pytest.mark.parametrize("name", SHIPPED)
def test_done_ends_the_episode_and_calls_nothing(name: str) -> None:
    result = Interpreter(load_config(CONFIGS / f"{name}.yaml")).interpret(
        "<think>so</think><tool>done()</tool>"
    )
    assert result.done and result.call is None and result.error is None


def test_an_unknown_direction_is_an_error_not_a_scroll_by_nothing() -> None:
    result = Interpreter(load_config(CONFIGS / "default.yaml")).interpret(
        '<think>x</think><tool>scroll("sideways")</tool>'
    )
    assert result.call is None and result.error is not None and result.error.stage == "transform"


@pytest.mark.parametrize(
    "action, values, arguments",
    [
        ("screenshot", (), {"action": "screenshot"}),
        ("click", (100, 200), {"action": "click", "x": 100, "y": 200}),
        ("type", ("hello",), {"action": "type", "text": "hello"}),
        ("key", ("ctrl+a",), {"action": "press", "keys": ["ctrl", "a"]}),
        (
            "scroll",
            ("down", 3),
            {"action": "scroll", "scroll_x": 0, "scroll_y": 3, "x": None, "y": None},
        ),
        (
            "scroll",
            ("up",),
            {"action": "scroll", "scroll_x": 0, "scroll_y": -3, "x": None, "y": None},
        ),
        ("wait", (2.5,), {"action": "wait", "time": 2500}),
    ],
)
def test_the_older_gym_makes_the_same_calls(
    action: str, values: tuple[Any, ...], arguments: dict[str, Any]
) -> None:
    # It differs in two things: what was not given it sends as null, and it runs defaults through
    # the transform.
    config = old_gym.loads((CONFIGS / "default.yaml").read_text())
    assert old_gym.call(config, action, *values) == ("computer", arguments)


def test_the_older_gym_plays_2048() -> None:
    config = old_gym.loads((CONFIGS / "2048.yaml").read_text())
    for said, tool, arguments in GAME_CALLS:
        assert old_gym.call(config, said.removesuffix("()")) == (tool, arguments)
