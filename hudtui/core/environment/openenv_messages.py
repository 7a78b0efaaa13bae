"""Messages of the OpenEnv protocol, declared once for client and server.

The client is hudtui's own (`openenv`); the server is `core.openenv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hudtui.core.text import clean_line

MessageKind = Literal["reset", "step", "state", "mcp", "close", "observation", "error"]
"""The first four are requests; the answers are `observation`, `state`, `mcp` and `error`."""
ErrorCode = Literal[
    "INVALID_JSON",
    "UNKNOWN_TYPE",
    "VALIDATION_ERROR",
    "EXECUTION_ERROR",
    "CAPACITY_REACHED",
    "FACTORY_ERROR",
    "SESSION_ERROR",
]
ACTION_ERRORS: frozenset[ErrorCode] = frozenset({"VALIDATION_ERROR", "EXECUTION_ERROR"})
"""The action was refused: the agent may do better. Any other error ends the session."""
LIST_TOOLS: Mapping[str, Any] = {"type": "list_tools"}
"""The action that asks for the tools."""

_LARGEST = 1e300
"""A larger number is not a reward."""


def message(kind: MessageKind, data: Any = None) -> dict[str, Any]:
    """A request or an answer as it is sent; `close` has no data."""
    return {"type": kind} if data is None else {"type": kind, "data": data}


def call_action(tool: Any, arguments: Any) -> dict[str, Any]:
    """The action that calls a tool."""
    return {"type": "call_tool", "tool_name": tool, "arguments": arguments}


def call_outcome(tool: str, text: str, *, is_error: bool) -> dict[str, Any]:
    """The fields of an observation that answers a call of a tool.

    `data` is for OpenEnv's own clients.
    """
    content = [{"type": "text", "text": text}]
    result = {"content": content, "structured_content": None, "data": text, "is_error": is_error}
    return {"tool_name": tool, "result": result, "error": None}


@dataclass(frozen=True)
class ErrorAnswer:
    """The data of an answer `error`."""

    text: str
    code: str | None = None
    errors: Any = None
    """The problems of single fields, as pydantic lists them."""

    def to_json(self, **extra: Any) -> dict[str, Any]:
        """The whole message, with further fields in its data."""
        return message("error", {"message": self.text, "code": self.code, **extra})


@dataclass(frozen=True)
class Observation:
    """The data of an answer `observation`, which follows `reset` and `step`."""

    fields: Mapping[str, Any]
    reward: float | None
    done: bool
    no_reward: str = ""
    """The text of a reward that is no number."""

    def to_json(self, metadata: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The data as it is sent.

        Metadata are inside the observation for clients with classes, and beside it for others.
        """
        written = dict(metadata or {})
        fields = {**self.fields, "metadata": written}
        answer: dict[str, Any] = {"observation": fields, "reward": self.reward, "done": self.done}
        return {**answer, "metadata": written} if written else answer


def read_error(data: Any) -> ErrorAnswer:
    """The data of an answer `error`; what is missing or of the wrong kind is left out."""
    fields = data if isinstance(data, Mapping) else {}
    code = fields.get("code")
    text = str(fields.get("message") or "no reason given")
    return ErrorAnswer(text, code if isinstance(code, str) else None, fields.get("errors"))


def read_observation(data: Any) -> Observation | None:
    """The data of an answer `observation`; None if they hold none."""
    observation = data.get("observation") if isinstance(data, Mapping) else None
    if not isinstance(observation, Mapping):
        return None
    done, reward = data.get("done") is True, data.get("reward")
    if reward is None:
        return Observation(observation, None, done)
    if isinstance(reward, int | float) and abs(reward) <= _LARGEST:
        return Observation(observation, float(reward), done)
    return Observation(observation, None, done, clean_line(repr(reward), 60))
