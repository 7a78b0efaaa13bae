from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.tasks.agent import AgentSettings, agent_settings, check_agent
from hudtui.core.tasks.task import Task
from hudtui.core.tasks.validate import Rules, TaskChecker


def settings(**fields: Any) -> AgentSettings:
    return agent_settings(Task("t", "p", extra=fields))


def test_a_task_without_these_fields_asks_for_nothing() -> None:
    assert settings() == settings(agent_config=None) == settings(agent_config="") == AgentSettings()
    assert settings(agent_config={"allowed_tools": None, "other": 1}) == AgentSettings()


@pytest.mark.parametrize(
    ("config", "allowed", "kept"),
    [
        ({}, ["a", "b"], []),
        ({"allowed_tools": []}, ["a", "b"], []),
        ({"allowed_tools": ["*"]}, ["a", "b"], []),
        ({"allowed_tools": ["a"]}, ["a"], ["b", "A"]),
        (
            {"allowed_tools": ["fs_*"], "disallowed_tools": ["fs_write"]},
            ["fs_read"],
            ["fs_write", "web"],
        ),
        ({"disallowed_tools": ["b?"]}, ["a", "b"], ["b1"]),
    ],
)
def test_the_tools_of_an_agent(config: Any, allowed: list[str], kept: list[str]) -> None:
    found = settings(agent_config=config)
    assert all(found.allows(name) for name in allowed) and not any(
        found.allows(name) for name in kept
    )


@pytest.mark.parametrize(
    ("fields", "field", "code", "severity"),
    [
        ({"agent_config": "{"}, "agent_config", "json", "error"),
        ({"agent_config": [1]}, "agent_config", "type", "error"),
        ({"system_prompt": 5}, "system_prompt", "type", "error"),
        ({"agent_config": {"system_prompt": ["x"]}}, "agent_config.system_prompt", "type", "error"),
        (
            {"agent_config": {"allow_setup_tools": 1}},
            "agent_config.allow_setup_tools",
            "type",
            "error",
        ),
        (
            {"agent_config": {"allowed_tools": "move"}},
            "agent_config.allowed_tools",
            "type",
            "error",
        ),
        (
            {"agent_config": {"disallowed_tools": [1]}},
            "agent_config.disallowed_tools",
            "type",
            "error",
        ),
        (
            {"agent_config": {"append_setup_output": "no"}},
            "agent_config.append_setup_output",
            "type",
            "error",
        ),
        (
            {"agent_config": '{"initial_screenshot": true}'},
            "agent_config.initial_screenshot",
            "unused",
            "warning",
        ),
        (
            {"agent_config": {"response_tool_name": "answer"}},
            "agent_config.response_tool_name",
            "unused",
            "warning",
        ),
        (
            {"agent_config": {"alowed_tools": ["a"]}},
            "agent_config.alowed_tools",
            "unknown-key",
            "warning",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_field(
    fields: Any, field: str, code: str, severity: str
) -> None:
    (problem,) = check_agent(fields)
    assert (problem.field, problem.code, problem.severity) == (field, code, severity)
    record = {
        "prompt": "p",
        "mcp_config": {"s": {"command": "x"}},
        "evaluate_tool": {"name": "e"},
        **fields,
    }
    checked = TaskChecker(Rules()).check(record)
    assert checked.problems == [problem] and checked.usable is (severity == "warning")
    assert checked.extra == fields  # kept as it was written
