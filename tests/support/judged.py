"""Tasks that say what they expect, and the same replies to them as text and as calls of a model."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hudtui.core.tasks.task import Task

CONFIG = """
parser: {use_thinking: false}
action_mappings:
  write:
    _tool: write
    _parser: {positional: [name, text]}
    name: {from_arg: name}
    text: {from_arg: text}
  look: {_tool: look}
rubric: {weights: {task_completion: 0.7, tool_execution: 0.2, format_compliance: 0.1}}
defaults: {max_turns: 4}
"""
LOOK = {"name": "look", "arguments": {}}
EVALUATE: Mapping[str, Sequence[Any]] = {
    "all": [
        {"call": LOOK, "expect": {"json": {"path": "words", "contains": "delta"}}, "weight": 0.6},
        {"reply": {"number": 42}, "name": "said", "weight": 0.3},
        {"turns": {"most": 2}, "weight": 0.1},
    ],
    "a third": [
        {
            "call": LOOK,
            "expect": [{"contains": "alpha"}, {"contains": "beta"}, {"contains": "gamma"}],
            "name": "words",
        }
    ],
    "said at once": [{"reply": {"contains": "attic"}}, {"turns": {"most": 1}, "weight": 2}],
    "too long": [{"turns": {"most": 2}, "weight": 0.7}, {"reply": {"equals": "x"}, "weight": 0.1}],
}
CALLS: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]] = {
    "all": [("write", {"name": "words", "text": "alpha delta"})],
    "a third": [("write", {"name": "words", "text": "alpha"}), ("drop", {"name": "words"})],
    "said at once": [],
    "too long": [("look", {}), ("look", {}), ("look", {})],
    "by a rubric": [("write", {"name": "words", "text": "alpha"})],
}
WORDS = {
    "all": "It is 42.",
    "said at once": "It lies in the attic.",
    "by a rubric": "Please look \u2603.",
}
"""What the last reply says, by task."""
SCORES = {
    "all": {"look": 1.0, "said": 1.0, "length": 1.0},
    "a third": {"words": 1 / 3},
    "said at once": {"reply": 1.0, "length": 1.0},
    "too long": {"length": 0.0, "reply": 0.0},
}
"""The score of each part, by task."""


def records() -> list[dict[str, Any]]:
    """Return the tasks as records of a file; each episode has a folder of its own."""
    server = str(Path(__file__).with_name("file_server.py"))
    files = {"command": sys.executable, "args": [server, "."], "cwd": "${EPISODE_DIR}"}
    made = []
    for name, parts in EVALUATE.items():
        prompt = f"Do this: {name}."
        one = {"id": name, "prompt": prompt, "mcp_config": {"files": files}, "evaluate": parts}
        made.append(one)
    return made


def by_rubric(url: str) -> list[dict[str, Any]]:
    """Return the record of a task that a model behind `url` judges, beside a condition."""
    asked = {"rubric": "Is it polite?", "model": "judge", "endpoint": url}
    parts = [
        {"judge": asked, "weight": 0.3},
        {"judge": {**asked, "of": {"call": LOOK}}, "name": "state", "weight": 0.5},
        {"call": LOOK, "expect": {"json": {"path": "words", "contains": "alpha"}}, "weight": 0.2},
    ]
    [first, *_] = records()
    return [{**first, "id": "by a rubric", "prompt": "Do this: by a rubric.", "evaluate": parts}]


def verdict(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the verdict of a judge that depends on all that it is sent."""
    sent = json.dumps([message["content"] for message in messages])
    score = int(hashlib.sha256(sent.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return json.dumps({"reason": "So it is.", "score": score})


def write_files(folder: Path) -> None:
    """Write `judged.json`, the tasks, and `judged.yaml`, the configuration."""
    (folder / "judged.json").write_text(json.dumps(records()))
    (folder / "judged.yaml").write_text(CONFIG)


def tasks(found: Sequence[Mapping[str, Any]] | None = None) -> list[Task]:
    """Return the tasks of records as they are read; those of `records` by default."""
    made = []
    for one in records() if found is None else found:
        servers, parts = one["mcp_config"], one["evaluate"]
        made.append(Task(one["id"], one["prompt"], servers, extra={"evaluate": parts}))
    return made


def task_of(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the task that a conversation is about."""
    first = next(message for message in messages if message["role"] == "user")
    return str(first["content"]).partition("Do this: ")[2].partition(".")[0]


def words(task: str) -> str:
    """Return what the last reply says."""
    return WORDS.get(task, "I am done.")


def replies(task: str) -> list[str]:
    """Return the replies in the configuration's form."""
    calls = []
    for name, arguments in CALLS[task]:
        given = ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
        calls.append(f"<tool>{name}({given})</tool>")
    return [*calls, f"{words(task)}\n<tool>done()</tool>"]


def reply(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the next reply of a conversation."""
    said = sum(message["role"] == "assistant" for message in messages)
    return replies(task_of(messages))[said]
