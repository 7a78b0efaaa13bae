"""The requests of the OpenEnv protocol as the server reads them.

`environment.openenv_messages` declares the messages. What a client sends is bounded and checked
field by field; `Refused` says what is wrong with it, in the protocol's own codes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from hudtui.core.environment.bounds import excess_words
from hudtui.core.environment.openenv_messages import ErrorAnswer, ErrorCode
from hudtui.core.environment.values import Tool
from hudtui.core.text import clean_line

MAX_BYTES = 4 << 20
"""Bytes of a client's message."""
MAX_REPLY = 1_000_000
"""Characters of a reply."""

RESERVED = frozenset({"reset", "step", "state", "close"})
"""Names that OpenEnv clients take for themselves: an action of such a name is played by a reply
alone."""


class Refused(Exception):
    """A message that is not carried out.

    Args:
        code: The protocol's code.
        message: What is wrong.
        extra: Further fields of the error.
    """

    def __init__(self, code: ErrorCode, message: str, **extra: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.extra = extra

    def to_json(self) -> dict[str, Any]:
        """The error as it is sent."""
        return ErrorAnswer(self.message, self.code).to_json(**self.extra)


@dataclass(frozen=True)
class TaskChoice:
    """Arguments of `reset`; all None for the next task."""

    task_id: str | None = None
    index: int | None = None
    seed: int | None = None
    episode_id: str | None = None


@dataclass(frozen=True)
class ReplyAction:
    """A model's reply as text."""

    reply: str
    cut: bool = False
    """It was cut off at its limit of tokens."""


@dataclass(frozen=True)
class CallAction:
    """A call that a model made by its own tool calling."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ListAction:
    """A question for the tools."""


def read_object(raw: str | bytes) -> dict[str, Any]:
    """The JSON object of a message.

    Raises:
        Refused: It is too large, or no JSON object.
    """
    data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    if len(data) > MAX_BYTES:
        raise Refused("VALIDATION_ERROR", f"the message is too large: {excess_words(MAX_BYTES)}")
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(
            "INVALID_JSON", f"the message is not JSON: {clean_line(str(error), 200)}"
        ) from None
    if not isinstance(value, dict):
        raise Refused("INVALID_JSON", "a message is a JSON object")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a value of JSON")


def read_choice(data: Any) -> TaskChoice:
    """Return the arguments of `reset`.

    Fields that this server does not know are ignored, as the protocol has it.

    Raises:
        Refused: A field is of the wrong kind.
    """
    fields = _object(data, "the data of reset")
    return TaskChoice(
        task_id=_text(fields, "task_id", 1_000),
        index=_whole(fields, "index"),
        seed=_whole(fields, "seed"),
        episode_id=_text(fields, "episode_id", 255),
    )


def read_action(data: Any) -> ReplyAction | CallAction | ListAction:
    """The action of a `step`.

    Raises:
        Refused: The action has none of the three kinds, or a field is of the wrong kind.
    """
    fields = _object(data, "an action")
    kind = fields.get("type", "reply" if "reply" in fields else None)
    if kind == "list_tools":
        _only(fields, "type")
        return ListAction()
    if kind == "call_tool":
        _only(fields, "type", "tool_name", "arguments")
        name = _text(fields, "tool_name", 1_000)
        if not name:
            raise Refused("VALIDATION_ERROR", "a tool call names its tool: tool_name")
        arguments = fields.get("arguments")
        return CallAction(name, _object({} if arguments is None else arguments, "arguments"))
    if kind == "reply":
        _only(fields, "type", "reply", "cut")
        reply, cut = _text(fields, "reply", MAX_REPLY), fields.get("cut", False)
        if not isinstance(cut, bool):
            raise Refused("VALIDATION_ERROR", "cut must be true or false")
        if reply is not None:
            return ReplyAction(reply, cut)
    raise Refused(
        "VALIDATION_ERROR",
        'an action is {"reply": TEXT}, {"type": "call_tool", "tool_name": NAME, "arguments": '
        '{...}} or {"type": "list_tools"}',
    )


def tool_entry(tool: Tool) -> dict[str, Any]:
    """A tool as `list_tools` and `tools/list` give it."""
    schema = dict(tool.input_schema) if tool.input_schema is not None else {"type": "object"}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def rpc_result(request: Any, result: Any) -> dict[str, Any]:
    """A JSON-RPC answer."""
    return {"jsonrpc": "2.0", "id": _rpc_id(request), "result": result}


def rpc_error(request: Any, code: int, message: str) -> dict[str, Any]:
    """A JSON-RPC error."""
    return {"jsonrpc": "2.0", "id": _rpc_id(request), "error": {"code": code, "message": message}}


def _rpc_id(request: Any) -> Any:
    number = request.get("id") if isinstance(request, Mapping) else None
    return number if isinstance(number, str | int) and not isinstance(number, bool) else None


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refused("VALIDATION_ERROR", f"{what} must be an object")
    return value


def _only(fields: Mapping[str, Any], *known: str) -> None:
    odd = [name for name in fields if name not in (*known, "metadata")]
    if odd:
        raise Refused(
            "VALIDATION_ERROR", f"the action has an unknown field: {clean_line(odd[0], 60)}"
        )


def _text(fields: Mapping[str, Any], name: str, most: int) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise Refused("VALIDATION_ERROR", f"{name} must be text")
    if len(value) > most:
        raise Refused("VALIDATION_ERROR", f"{name} is longer than {most:,} characters")
    return value


def _whole(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Refused("VALIDATION_ERROR", f"{name} must be a whole number from 0")
    return value


_TEXT = {"type": "string"}
_CALL = {
    "type": {
        "enum": ["reply", "call_tool", "list_tools"],
        "description": "The kind of action; a reply where it is left out.",
    },
    "tool_name": {
        "type": "string",
        "description": "For call_tool: one of the names that list_tools gives.",
    },
    "arguments": {
        "type": "object",
        "description": "For call_tool: the arguments of the tool by name.",
    },
}

ACTION_SCHEMA: Mapping[str, Any] = {
    "title": "ReplyAction",
    "description": (
        "A model's reply as text. A tool call takes its place: type, tool_name and arguments."
    ),
    "type": "object",
    "properties": {
        "reply": {
            "type": "string",
            "description": (
                "What the model says, with its call in the form that the prompt asks for."
            ),
        },
        "cut": {
            "type": "boolean",
            "description": "True for a reply that was cut off at its limit of tokens.",
        },
        **_CALL,
        "metadata": {"type": "object"},
    },
    "required": ["reply"],
}
"""Replies stand as the one required field: clients with nothing but a model's text send it as that
field."""

_SHOWN = {
    "text": {"type": "string", "description": "What the agent is shown."},
    "images": {
        "type": "array",
        "items": _TEXT,
        "description": "Images that belong to the text, as data: URLs.",
    },
    "task_id": _TEXT,
    "turn": {"type": "integer", "description": "Replies so far."},
    "is_error": {
        "type": "boolean",
        "description": "The reply was refused, or the environment answered with an error.",
    },
    "metadata": {"type": "object"},
}
OBSERVATION_SCHEMA: Mapping[str, Any] = {
    "title": "TurnObservation",
    "type": "object",
    "properties": _SHOWN,
}
RESET_SCHEMA: Mapping[str, Any] = {
    "title": "TaskObservation",
    "type": "object",
    "properties": {
        **_SHOWN,
        "system_prompt": _TEXT,
        "examples": {
            "type": "array",
            "items": {"type": "object", "properties": {"user": _TEXT, "assistant": _TEXT}},
            "description": "Rounds of the conversation between the system prompt and the task.",
        },
        "max_turns": {"type": "integer"},
    },
}
STATE_SCHEMA: Mapping[str, Any] = {
    "title": "EpisodeState",
    "type": "object",
    "properties": {
        "episode_id": {"type": ["string", "null"]},
        "step_count": {"type": "integer"},
        "task_id": {"type": ["string", "null"]},
        "done": {"type": "boolean"},
        "reward": {"type": ["number", "null"]},
    },
}
