"""Records of verifiers 0.4: `traces.jsonl`, one episode with its agents' traces per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec

from hudtui.core.results.foreign import (
    Place,
    as_message,
    conversation,
    decode,
    decode_as,
    error_text,
    mapping,
    mappings,
    name,
    number,
    numbers,
    sequence,
    whole,
)
from hudtui.core.results.values import EpisodeEntry, Transcript, TranscriptTurn


class _Node(msgspec.Struct):
    sampled: bool = False


class _Trace(msgspec.Struct):
    task: dict[str, Any] = {}
    agent: dict[str, Any] = {}
    nodes: list[_Node] = []
    rewards: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    ok: bool = False
    is_timeout: bool = False
    stop_condition: str | None = None
    errors: list[Any] = []
    timing: dict[str, Any] = {}
    num_input_tokens: int | None = None
    num_output_tokens: int | None = None


class _Line(msgspec.Struct):
    traces: list[_Trace]
    task: dict[str, Any] = {}
    run: dict[str, Any] | None = None
    errors: list[Any] = []
    is_timeout: bool = False


_lines = msgspec.json.Decoder(_Line)


def entries(line: bytes, place: Place) -> list[EpisodeEntry]:
    """Return the entries of a line, one for each agent's trace.

    One for the episode if it has no trace.

    Raises:
        ValueError: The line is not a record of an episode.
    """
    record = decode_as(_lines, line)
    run = record.run or {}
    work = mapping(run.get("work"))
    step = whole(work.get("step"))
    split = name(work.get("type")) if run.get("type") == "train" else ""
    task = _task(record.task)
    if not record.traces:
        why = _last_error(record.errors, record.is_timeout) or "no trace was recorded"
        return [
            place.entry(
                0,
                task=task,
                step=step,
                split=split,
                reward=None,
                parts={},
                stop="error",
                error=why,
                turns=0,
            )
        ]
    several = len(record.traces) > 1
    read = []
    for part, trace in enumerate(record.traces):
        error = None if trace.ok else _last_error([*record.errors, *trace.errors], trace.is_timeout)
        agent = name(trace.agent.get("name"))
        start = number(trace.timing.get("start"))
        rewards = {
            key: mapping(reward)
            for key, reward in trace.rewards.items()
            if isinstance(reward, Mapping)
        }
        values = [_weighted(reward) for reward in rewards.values()]
        known = [value for value in values if value is not None]
        read.append(
            place.entry(
                part,
                task=f"{task} ({agent})" if several and agent else task,
                step=step,
                split=split,
                reward=number(sum(known)) if known else None,
                parts=numbers(
                    {key: reward.get("score") for key, reward in rewards.items()}, trace.metrics
                ),
                stop=name(trace.stop_condition)
                or ("error" if error else "done" if trace.ok else "unknown"),
                error=error,
                turns=sum(node.sampled for node in trace.nodes),
                prompt_tokens=whole(trace.num_input_tokens),
                completion_tokens=whole(trace.num_output_tokens),
                seconds=_duration(trace.timing),
                started_at=_iso(start),
            )
        )
    return read


def _task(record: Mapping[str, Any]) -> str:
    data = mapping(record.get("data"))
    return (
        next(filter(None, (name(data.get(key)) for key in ("id", "name", "idx"))), "")
        or name(record.get("key"))
        or "task"
    )


def _weighted(reward: Mapping[str, Any]) -> float | None:
    score, weight = number(reward.get("score")), number(reward.get("weight", 1.0))
    return None if score is None or weight is None else score * weight


def _last_error(errors: Sequence[Any], timeout: bool) -> str | None:
    return error_text(errors[-1]) if errors else "timeout" if timeout else None


def _duration(timing: Mapping[str, Any]) -> float | None:
    start = number(timing.get("start"))
    ends = [
        number(mapping(span).get("end")) for span in timing.values() if isinstance(span, Mapping)
    ]
    end = max((end for end in ends if end is not None), default=None)
    return None if start is None or end is None or end < start else end - start


def _iso(moment: float | None) -> str | None:
    try:
        return (
            None
            if moment is None
            else datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
        )
    except (OverflowError, ValueError, OSError):
        return None


def transcript(line: bytes, entry: EpisodeEntry) -> Transcript:
    """Return an agent's episode in full.

    Of a conversation with branches, the branch that ends with the last message.

    Raises:
        ValueError: The line is not a record of an episode.
    """
    record = mapping(decode(line))
    traces = sequence(record.get("traces"))
    trace = mapping(traces[entry.part]) if entry.part < len(traces) else {}
    nodes = [mapping(node) for node in sequence(trace.get("nodes"))]
    path = _branch(nodes)
    read = [
        (place, message)
        for place in path
        if (message := as_message(nodes[place].get("message"))) is not None
    ]
    messages = tuple(message for _, message in read)
    opening, turns = conversation(messages)
    calls = {whole(call.get("node")): call for call in map(mapping, sequence(trace.get("calls")))}
    replies = [calls.get(place, {}) for place, message in read if message["role"] == "assistant"]
    errors = [*sequence(record.get("errors")), *sequence(trace.get("errors"))]
    timing = mapping(trace.get("timing"))
    return Transcript(
        entry=entry,
        opening=opening,
        turns=tuple(_timed(turn, call) for turn, call in zip(turns, replies, strict=True)),
        messages=messages,
        tools=mappings(trace.get("tools")),
        error="\n".join(filter(None, (_error_in_full(mapping(error)) for error in errors)))
        or entry.error,
        evaluation=trace.get("rewards"),
        seconds={
            key: seconds
            for key, span in timing.items()
            if (seconds := _span(mapping(span))) is not None
        },
        info={
            **mapping(trace.get("info")),
            **{key: record[key] for key in ("id", "env", "run") if key in record},
            "model": next(
                (call.get("model") for call in calls.values() if call.get("model")), None
            ),
            "metrics": trace.get("metrics"),
        },
    )


def _branch(nodes: Sequence[Mapping[str, Any]]) -> list[int]:
    path: list[int] = []
    place: int | None = len(nodes) - 1 if nodes else None
    while place is not None and place < len(nodes) and len(path) <= len(nodes):
        path.append(place)
        parent = whole(nodes[place].get("parent"))
        place = parent if parent is not None and parent < place else None
    return path[::-1]


def _timed(turn: TranscriptTurn, call: Mapping[str, Any]) -> TranscriptTurn:
    usage, seconds = mapping(call.get("usage")), _span(mapping(call.get("time")))
    fresh, cached = whole(usage.get("prompt_tokens")), whole(usage.get("cached_input_tokens"))
    counts = {
        "prompt": None if fresh is None else fresh + (cached or 0),
        "completion": whole(usage.get("completion_tokens")),
    }
    return replace(
        turn,
        seconds={} if seconds is None else {"complete": seconds},
        tokens={key: count for key, count in counts.items() if count is not None},
    )


def _span(span: Mapping[str, Any]) -> float | None:
    start, end = number(span.get("start")), number(span.get("end"))
    return end - start if start is not None and end is not None and end >= start else None


def _error_in_full(error: Mapping[str, Any]) -> str:
    traceback = error.get("traceback")
    return "\n".join(
        filter(None, (error_text(error), traceback if isinstance(traceback, str) else None))
    )
