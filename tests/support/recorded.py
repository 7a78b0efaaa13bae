"""Recorded episodes in every format that results are read from; the foreign ones as verifiers 0.4.0
and ART 0.5 write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hudtui.core.rollouts.trace import episode_to_json, write_episode
from hudtui.core.rollouts.values import Episode, Scores, Turn

PIXEL = "data:image/png;base64,iVBORw0KGgo="


def own_episode(
    task: str = "a",
    reward: float | None = 0.5,
    *,
    replies: Iterable[str] = ("left()",),
    error: str | None = None,
    **info: Any,
) -> Episode:
    """An episode of hudtui: each reply is a call, and each is answered with `Moved`."""
    turns = tuple(
        Turn(
            reply=f"<tool>{reply}</tool>",
            interpretation={"tool": reply, "done": False},
            call={"tool": "move", "arguments": {"direction": reply.partition("(")[0]}},
            observation=f"Moved {number}",
            is_error=False,
            seconds={"complete": 0.5, "call": 0.25},
            result={"score": number},
            tokens={"prompt": 10 * number, "completion": 3},
        )
        for number, reply in enumerate(replies, 1)
    )
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You play."},
        {"role": "user", "content": "Go ✓"},
    ]
    for turn in turns:
        messages += [
            {"role": "assistant", "content": turn.reply},
            {"role": "user", "content": turn.observation},
        ]
    return Episode(
        task_id=task,
        messages=tuple(messages[:-1] if turns else messages),
        turns=turns,
        scores=Scores(reward or 0.0, 1.0, 0.75, reward or 0.0, reward is not None),
        stop="error" if error else "done",
        error=error,
        evaluation={"reward": reward},
        seconds={"setup": 0.1, "total": 2.5},
        info={"usage": {"prompt_tokens": 10, "completion_tokens": 3}, **info},
        started_at="2026-01-01T00:00:00.000+00:00",
    )


def write_own(path: Path, *episodes: Episode) -> Path:
    """Append episodes to a trace."""
    for episode in episodes:
        write_episode(path, episode)
    return path


def version_1(episode: Episode) -> dict[str, Any]:
    """The record as hudtui wrote it before it had a version."""
    record = episode_to_json(episode)
    order = (
        "task",
        "started_at",
        "stop",
        "error",
        "scores",
        "evaluation",
        "messages",
        "turns",
        "seconds",
        "info",
    )
    return {key: record[key] for key in order}


def write_lines(path: Path, *records: Any) -> Path:
    """Write values as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def verifiers_episode(
    task: str = "board-1",
    score: float | None = 1.0,
    *,
    error: str | None = None,
    step: int | None = None,
    agents: int = 1,
) -> dict[str, Any]:
    """A line of `traces.jsonl` of verifiers 0.4."""
    about = {
        "type": "GymTask",
        "data": {"idx": 1, "id": task, "prompt": "Go"},
        "key": "f00",
        "hash": "f00",
    }

    def node(
        parent: int | None, message: Mapping[str, Any], *, sampled: bool = False
    ) -> dict[str, Any]:
        return {
            "parent": parent,
            "message": dict(message),
            "sampled": sampled,
            "timestamp": 1.0,
            "token_ids": [],
            "mask": [],
        }

    call = {"id": "c1", "type": "function", "name": "move", "arguments": '{"direction":"left"}'}
    trace = {
        "version": 1,
        "id": "f00",
        "task": about,
        "agent": {"config": {}, "name": "agent"},
        "tools": [{"name": "move", "parameters": {}}],
        "nodes": [
            node(None, {"role": "system", "content": "You play."}),
            node(
                0,
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Go"},
                        {"type": "image_url", "image_url": {"url": PIXEL}},
                    ],
                },
            ),
            node(1, {"role": "assistant", "content": "a branch that was given up"}, sampled=True),
            node(
                1,
                {
                    "role": "assistant",
                    "content": "I move.",
                    "reasoning_content": "Left?",
                    "tool_calls": [call],
                },
                sampled=True,
            ),
            node(3, {"role": "tool", "tool_call_id": "c1", "content": "Moved left."}),
            node(4, {"role": "assistant", "content": "done"}, sampled=True),
        ],
        "calls": [
            {
                "node": 3,
                "model": "m",
                "usage": {"prompt_tokens": 8, "cached_input_tokens": 2, "completion_tokens": 5},
                "time": {"start": 1.0, "end": 1.5},
            },
            {
                "node": 5,
                "model": "m",
                "usage": {"prompt_tokens": 20, "completion_tokens": 2},
                "time": {"start": 2.0, "end": 3.0},
            },
        ],
        "rewards": {
            "task": None if score is None else {"score": score, "weight": 0.5},
            "form": {"score": 1.0, "weight": 0.1},
        },
        "metrics": {"attempts": 2.0},
        "ok": error is None,
        "stop_condition": "done_tool",
        "errors": [{"type": "ToolError", "message": error, "traceback": "in line 7"}]
        if error
        else [],
        "timing": {
            "start": 1_700_000_000.0,
            "agent": {"start": 1_700_000_000.0, "end": 1_700_000_003.0},
        },
        "num_input_tokens": 30,
        "num_output_tokens": 7,
    }
    run = (
        {"type": "eval", "id": "r"}
        if step is None
        else {"type": "train", "id": "r", "work": {"type": "train", "step": step}}
    )
    return {
        "id": "f00",
        "env": {"id": "hud-vf-gym"},
        "task": about,
        "run": run,
        "ok": error is None,
        "errors": [],
        "traces": [
            {**trace, "agent": {"name": f"agent-{number}" if agents > 1 else "agent"}}
            for number in range(agents)
        ],
    }


def verifiers_conversation(
    *messages: Mapping[str, Any], task: str = "board-1", reward: float = 1.0
) -> dict[str, Any]:
    """A line of `traces.jsonl` of verifiers 0.4 for one agent with these messages; each reply was
    sampled."""
    record = verifiers_episode(task)
    (trace,) = record["traces"]
    trace["nodes"] = [
        {
            "parent": number - 1 if number else None,
            "message": dict(message),
            "sampled": message["role"] == "assistant",
            "timestamp": 1.0,
            "token_ids": [],
            "mask": [],
        }
        for number, message in enumerate(messages)
    ]
    trace["calls"] = []
    trace["rewards"] = {"task": {"score": reward, "weight": 1.0}}
    return record


def art_trajectory(reward: float = 0.25, **metadata: Any) -> dict[str, Any]:
    """A trajectory of ART, as its JSON lines have it."""
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "move", "arguments": '{"direction": "left"}'},
    }
    return {
        "reward": reward,
        "metrics": {"duration": 1.5},
        "metadata": metadata,
        "messages_and_choices": [
            {"role": "system", "content": "You play."},
            {"role": "user", "content": "Go"},
            {
                "finish_reason": "tool_calls",
                "index": 0,
                "message": {"role": "assistant", "content": None, "tool_calls": [call]},
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Moved left."},
            {
                "finish_reason": "stop",
                "index": 0,
                "message": {"role": "assistant", "content": "done"},
            },
        ],
        "tools": None,
        "logs": ["a line"],
    }


def write_art_parquet(path: Path, *groups: Iterable[Mapping[str, Any]]) -> Path:
    """Write groups of trajectories as a Parquet file of ART."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def flat(message: Mapping[str, Any]) -> dict[str, Any]:
        inner = message.get("message", message)
        calls = inner.get("tool_calls")
        return {
            "role": inner["role"],
            "content": inner.get("content"),
            "tool_calls": json.dumps(calls) if calls else None,
            "tool_call_id": inner.get("tool_call_id"),
            "trainable": "finish_reason" in message,
        }

    rows = [
        {
            "group_index": number,
            "reward": one["reward"],
            "metrics": json.dumps(one["metrics"]),
            "metadata": json.dumps(one["metadata"]) if one["metadata"] else None,
            "tools": None,
            "logs": one["logs"],
            "messages": [flat(message) for message in one["messages_and_choices"]],
        }
        for number, group in enumerate(groups)
        for one in group
    ]
    text = pa.string()
    message = pa.struct(
        [(name, text) for name in ("role", "content", "tool_calls", "tool_call_id")]
        + [("trainable", pa.bool_())]
    )
    columns = [
        ("group_index", pa.int64()),
        ("reward", pa.float64()),
        *((name, text) for name in ("metrics", "metadata", "tools")),
    ]
    schema = pa.schema([*columns, ("logs", pa.list_(text)), ("messages", pa.list_(message))])
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")
    return path
