"""Trajectories in the Agent Trajectory Interchange Format (ATIF) of Harbor.

A document a line, or one document in a file. Source: RFC 0001 of Harbor, Agent Trajectory
Interchange Format, version 1.7. What hudtui itself writes (`export.atif`) has task, reward and stop
in `extra`; of other documents these are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hudtui.core.results.foreign import (
    Place,
    content_text,
    conversation,
    decode,
    error_text,
    mapping,
    mappings,
    name,
    number,
    numbers,
    whole,
)
from hudtui.core.results.values import EpisodeEntry, Transcript
from hudtui.core.rollouts.values import Message

_ROLES = {"system": "system", "user": "user", "agent": "assistant"}


def entries(line: bytes, place: Place) -> list[EpisodeEntry]:
    """Return the entry of a document.

    Raises:
        ValueError: It is no document of ATIF.
    """
    document = _document(line)
    extra, total = mapping(document.get("extra")), mapping(document.get("final_metrics"))
    steps = mappings(document.get("steps"))
    error = error_text(extra.get("error"))
    started = extra.get("started_at") or next(
        (step["timestamp"] for step in steps if step.get("timestamp")), None
    )
    return [
        place.entry(
            0,
            task=name(extra.get("task"))
            or name(document.get("session_id"))
            or f"trajectory {place.line - 1}",
            step=whole(extra.get("step")),
            split=name(extra.get("split")),
            rollout=whole(extra.get("rollout")),
            reward=number(extra.get("reward")),
            parts=numbers(extra.get("parts")),
            stop=name(extra.get("stop")) or ("error" if error else "done"),
            error=error,
            turns=sum(_own(step) for step in steps),
            prompt_tokens=whole(total.get("total_prompt_tokens")),
            completion_tokens=whole(total.get("total_completion_tokens")),
            seconds=number(extra.get("seconds")),
            started_at=started if isinstance(started, str) else None,
        )
    ]


def transcript(line: bytes, entry: EpisodeEntry) -> Transcript:
    """Return an episode in full.

    Raises:
        ValueError: It is no document of ATIF.
    """
    document = _document(line)
    steps = mappings(document.get("steps"))
    messages = tuple(message for step in steps for message in _messages(step))
    own = [step for step in steps if _own(step)]
    opening, turns = conversation(messages, most=len(own))
    told = []
    for turn, step in zip(turns, own, strict=True):
        metrics, extra = mapping(step.get("metrics")), mapping(step.get("extra"))
        tokens = {
            kind: count
            for kind in ("prompt", "completion")
            if (count := whole(metrics.get(f"{kind}_tokens"))) is not None
        }
        told.append(
            replace(
                turn,
                tokens=tokens,
                seconds=numbers(extra.get("seconds")),
                is_error=turn.is_error or extra.get("is_error") is True,
            )
        )
    agent, extra = mapping(document.get("agent")), mapping(document.get("extra"))
    known = (
        "task",
        "step",
        "split",
        "rollout",
        "reward",
        "parts",
        "stop",
        "error",
        "started_at",
        "seconds",
    )
    info = {
        **{key: value for key, value in extra.items() if key not in known},
        **{
            key: value
            for key, value in (("model", agent.get("model_name")), ("notes", document.get("notes")))
            if value
        },
        "agent": " ".join(filter(None, (name(agent.get("name")), name(agent.get("version"))))),
    }
    error = extra.get("error")
    return Transcript(
        entry=entry,
        opening=opening,
        turns=tuple(told),
        messages=messages,
        tools=mappings(agent.get("tool_definitions")),
        error=error if isinstance(error, str) else error_text(error),
        info=info,
    )


def is_document(record: Mapping[str, Any]) -> bool:
    """Return whether a record is a document of ATIF."""
    return isinstance(record.get("steps"), list | tuple) and (
        str(record.get("schema_version", "")).upper().startswith("ATIF")
        or ("agent" in record and "session_id" in record)
    )


def _document(line: bytes) -> Mapping[str, Any]:
    record = mapping(decode(line))
    if not is_document(record):
        raise ValueError("this is no document of ATIF")
    return record


def _own(step: Mapping[str, Any]) -> bool:
    """Return whether a step is a reply of this agent, and not one of an example."""
    return step.get("source") == "agent" and step.get("is_copied_context") is not True


def _messages(step: Mapping[str, Any]) -> list[Message]:
    """Return a step as chat messages: what was said, and what the tools answered."""
    role = _ROLES.get(str(step.get("source")))
    if role is None:
        return []
    said: dict[str, Any] = {"role": role, "content": _text(step.get("message"))}
    if isinstance(thought := step.get("reasoning_content"), str) and thought:
        said["reasoning_content"] = thought
    calls = [
        {
            "id": name(call.get("tool_call_id")) or None,
            "type": "function",
            "function": {
                "name": name(call.get("function_name")),
                "arguments": call.get("arguments"),
            },
        }
        for call in mappings(step.get("tool_calls"))
    ]
    if calls:
        said["tool_calls"] = calls
    answers: list[Message] = []
    for result in mappings(mapping(step.get("observation")).get("results")):
        call = name(result.get("source_call_id"))
        words = {"content": _text(result.get("content"))}
        answers.append(
            {"role": "tool", "tool_call_id": call, **words} if call else {"role": "user", **words}
        )
    return [said, *answers]


def _text(content: object) -> str:
    """Return a message or an answer as text; a picture is named by its path."""
    parts = []
    for part in mappings(content):
        picture = f"[image {name(mapping(part.get('source')).get('path'))}]"
        parts.append({"type": "text", "text": picture} if part.get("type") == "image" else part)
    return content_text(parts or content)
