"""Messages of a model that calls tools by itself, with what such models do wrong."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Sequence
from typing import Any

from hudtui.core.tasks.task import Task, ToolCall

Message = dict[str, Any]

GAMES = 12
MOVES = ("left", "right", "up", "down")


def games() -> list[Task]:
    """Games of 2048 that differ."""
    server = {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
    judged = ToolCall("evaluate", {"name": "max_number", "target": 64})
    return [
        Task(
            id=f"game {seed}",
            prompt=f"Play {seed}.",
            mcp_config={"env": server},
            setup=(ToolCall("setup", {"name": "board", "seed": seed}),),
            evaluate=(judged,),
        )
        for seed in range(GAMES)
    ]


def _calls(*named: tuple[str, str]) -> list[Message]:
    return [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(named)
    ]


def native_reply(messages: Sequence[Message]) -> Message:
    """The model's next message, by the number of its messages and the first one to it.

    `finish_reason` in it belongs to the choice, as `scripted_chat` has it.
    """
    turn = sum(message["role"] == "assistant" for message in messages)
    asked = next(message["content"] for message in messages if message["role"] == "user")
    digest = hashlib.sha256(json.dumps([turn, asked]).encode()).hexdigest()
    choice = random.Random(digest)
    move = choice.choice(MOVES)
    said: list[Message] = [
        {"content": None, "tool_calls": _calls((move, "{}"))},
        {"content": "I push.", "tool_calls": _calls((move, "{}"))},
        {"content": None, "reasoning_content": f"So {move}.", "tool_calls": _calls((move, ""))},
        {"content": "", "tool_calls": _calls((move, "{}"), ("up", "{}"))},
        {"content": "", "tool_calls": _calls(("fly", "{}"))},
        {"content": "", "tool_calls": _calls((move, '{"a": '))},
        {"content": "", "tool_calls": _calls((move, '{"a": "\u2603 </think>"}'))},
        {"content": "I think I", "finish_reason": "length"},
        {"content": None, "reasoning_content": "Hm, well", "finish_reason": "length"},
        {"content": "", "tool_calls": _calls((move, '{"a')), "finish_reason": "length"},
        {"content": "I am done."},
    ]
    weights = [9, 3, 3, 2, 1, 1, 1, 2, 2, 1, 2]
    return {"role": "assistant", **choice.choices(said, weights=weights)[0]}
