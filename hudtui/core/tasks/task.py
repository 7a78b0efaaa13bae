"""A task: what an agent is asked to do, where, and how the outcome is judged (HUD's v4 generation, the training format)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ToolCall:
    """A call of an MCP tool that the task itself makes, outside the agent's sight."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """One task, read from a file and valid."""

    id: str
    prompt: str
    mcp_config: Mapping[str, Any] = field(default_factory=dict)
    """Server name -> `{"command", "args", "env"}` or `{"url", "headers"}`; variables unresolved, as written."""
    setup: tuple[ToolCall, ...] = ()
    evaluate: tuple[ToolCall, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the file that hudtui does not interpret, kept for the dataset."""
