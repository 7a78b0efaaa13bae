"""Settings of a task for its agent.

The fields `agent_config` and `system_prompt` of HUD's v4 tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from hudtui.core.tasks.task import FieldProblem, Task, json_kind
from hudtui.core.text import did_you_mean

_LISTS = ("allowed_tools", "disallowed_tools")
SHARES = "allow_setup_tools"
"""Field of `agent_config` that opens the setup tools to the agent."""
_SHOWS = ("append_setup_output", "append_setup_tool")
"""The second name is what HUD called the first one later."""
_FLAGS = (*_SHOWS, SHARES)
_UNUSED = {
    "initial_screenshot": (
        "the agent sees what the setup answers; let a call of `setup_tool` take the picture"
    ),
    "response_tool_name": "map an action to that tool instead",
}
_KNOWN = ("system_prompt", *_LISTS, *_FLAGS, *_UNUSED)


@dataclass(frozen=True)
class AgentSettings:
    """Settings of the agent of one task, beside the configuration."""

    system_prompt: str = ""
    """Added to the configuration's system prompt."""
    allowed: tuple[str, ...] = ()
    """Names or patterns (`*`, `?`) of the tools that actions can reach; empty for all."""
    disallowed: tuple[str, ...] = ()
    """The same of tools that they cannot reach. This wins over `allowed`."""
    shows_setup: bool = True
    """True if the agent sees what the setup calls answered."""
    shares_setup: bool = False
    """True if the agent may call the tools that set the task up, also without a mapping."""

    def allows(self, tool: str) -> bool:
        """Return True if the agent's actions can reach a tool."""
        listed = not self.allowed or any(fnmatchcase(tool, pattern) for pattern in self.allowed)
        return listed and not any(fnmatchcase(tool, pattern) for pattern in self.disallowed)


def agent_settings(task: Task) -> AgentSettings:
    """Return the settings for the agent of a task.

    What `check_agent` reports as wrong counts as not given.
    """
    return settings_in(task.extra)


def settings_in(fields: Mapping[str, Any]) -> AgentSettings:
    """Return the settings in the further fields of a task; see `agent_settings`."""
    return _read(fields, [])


def check_agent(fields: Mapping[str, Any]) -> list[FieldProblem]:
    """Return what is wrong with the fields `agent_config` and `system_prompt` of a record."""
    found: list[FieldProblem] = []
    _read(fields, found)
    return found


def _read(fields: Mapping[str, Any], found: list[FieldProblem]) -> AgentSettings:
    own = fields.get("system_prompt")
    if own is not None and not isinstance(own, str):
        found.append(
            FieldProblem("system_prompt", f"this is {json_kind(own)}, and text is needed", "type")
        )
    config = _object(fields.get("agent_config"), found)
    prompt = config.get("system_prompt")
    if prompt is not None and not isinstance(prompt, str):
        found.append(
            FieldProblem(
                "agent_config.system_prompt",
                f"this is {json_kind(prompt)}, and text is needed",
                "type",
            )
        )
    lists: dict[str, tuple[str, ...]] = {}
    for name in _LISTS:
        value = config.get(name)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(item, str) for item in value)
        ):
            found.append(
                FieldProblem(f"agent_config.{name}", "this is a list of names of tools", "type")
            )
        else:
            lists[name] = tuple(value or ())
    flags: dict[str, bool] = {}
    for name in _FLAGS:
        value = config.get(name)
        if value is not None and not isinstance(value, bool):
            found.append(
                FieldProblem(
                    f"agent_config.{name}",
                    f"this is {json_kind(value)}, and true or false is needed",
                    "type",
                )
            )
        elif value is not None:
            flags[name] = value
    for name, instead in _UNUSED.items():
        if config.get(name):
            found.append(
                FieldProblem(
                    f"agent_config.{name}",
                    f"this has no effect here: {instead}",
                    "unused",
                    "warning",
                )
            )
    for name in config:
        if name not in _KNOWN and (near := did_you_mean(name, _KNOWN)):
            message = f"this means nothing; did you mean {near!r}?"
            found.append(FieldProblem(f"agent_config.{name}", message, "unknown-key", "warning"))
    texts = [text.strip() for text in (own, prompt) if isinstance(text, str) and text.strip()]
    shows = [flags[name] for name in _SHOWS if name in flags]
    return AgentSettings(
        "\n\n".join(dict.fromkeys(texts)),
        lists.get("allowed_tools", ()),
        lists.get("disallowed_tools", ()),
        shows[-1] if shows else True,
        flags.get(SHARES, False),
    )


def _object(value: Any, found: list[FieldProblem]) -> Mapping[str, Any]:
    """The field as data, also where the record holds it as JSON text.

    Empty where it is no mapping.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError):
            found.append(FieldProblem("agent_config", "this text is not JSON", "json"))
            return {}
    if value is not None and not isinstance(value, Mapping):
        found.append(
            FieldProblem(
                "agent_config", f"this is {json_kind(value)}, and an object is needed", "type"
            )
        )
        return {}
    return {name: item for name, item in (value or {}).items() if item is not None}
