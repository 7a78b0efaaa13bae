"""Traces of hudtui, one episode per line.

`core.rollouts.trace` writes them and describes the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hudtui.core.plain import convert
from hudtui.core.results.foreign import (
    Place,
    as_message,
    content_text,
    conversation,
    decode,
    error_text,
    mapping,
    name,
    number,
    numbers,
    sequence,
    whole,
)
from hudtui.core.results.values import (
    EpisodeEntry,
    Transcript,
    TranscriptCall,
    TranscriptImage,
    TranscriptTurn,
)
from hudtui.core.rollouts.trace import HEAD_BYTES, HEAD_END, VERSION_MARK, images_from_json
from hudtui.core.rollouts.values import without_parts
from hudtui.core.tasks.expectation import JudgedPart

RUBRIC_PARTS = ("task_completion", "tool_execution", "format_compliance")


class _Head(msgspec.Struct):
    task: str | int
    stop: str
    scores: dict[str, Any]
    error: str | None = None
    seconds: dict[str, Any] = {}
    info: dict[str, Any] = {}
    started_at: str | None = None
    turn_count: int | None = None
    slips: dict[str, Any] = {}
    turns: list[msgspec.Raw] = []


_heads = msgspec.json.Decoder(_Head)


def entries(line: bytes, place: Place) -> list[EpisodeEntry]:
    """Return the entry of a line.

    Raises:
        ValueError: The line is not a record of an episode.
    """
    head = _head(line)
    info = head.info
    usage = mapping(info.get("usage"))
    has_reward = head.scores.get("reward_found") is not False and info.get("judged") is not False
    parts = {
        part: head.scores.get(part)
        for part in RUBRIC_PARTS
        if has_reward or part != "task_completion"
    }
    of_task = {mapping(part).get("name") for part in sequence(head.scores.get("parts"))}
    own = sorted(mapping(head.scores.get("own")).items(), key=lambda part: part[0] in of_task)
    split, count = info.get("split"), whole(head.turn_count)
    return [
        place.entry(
            0,
            task=name(head.task),
            step=whole(info.get("step")),
            split=name(split) if isinstance(split, str) else "",
            rollout=whole(info.get("rollout")),
            reward=number(head.scores.get("reward")),
            parts=numbers({**parts, **dict(own)}),
            stop=name(head.stop),
            error=error_text(head.error),
            turns=len(head.turns) if count is None else count,
            prompt_tokens=whole(usage.get("prompt_tokens")),
            completion_tokens=whole(usage.get("completion_tokens")),
            seconds=number(head.seconds.get("total")),
            started_at=head.started_at,
            slips={kind: count for kind, given in head.slips.items() if (count := whole(given))},
        )
    ]


def _head(line: bytes) -> _Head:
    """Read the part of a line before the messages if they come last, otherwise the whole."""
    if line.startswith(VERSION_MARK):
        end = line.find(HEAD_END, 0, HEAD_BYTES)
        if end > 0:
            # Half a record rarely ends with a brace; the rest is read only when one opens it.
            if not line.rstrip().endswith(b"}"):
                raise ValueError("this record is cut off")
            try:
                return _heads.decode(line[:end] + b"}")
            except msgspec.DecodeError:  # the text occurs deeper in the record
                pass
    try:
        return _heads.decode(line)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        record = dict(mapping(decode(line)))
        return convert({"turn_count": len(sequence(record.pop("turns", ()))), **record}, _Head)


def transcript(line: bytes, entry: EpisodeEntry) -> Transcript:
    """Return an episode in full.

    Raises:
        ValueError: The line is not a record of an episode.
    """
    record = mapping(decode(line))
    messages = tuple(filter(None, map(as_message, sequence(record.get("messages")))))
    recorded = [mapping(turn) for turn in sequence(record.get("turns"))]
    opening, plain = conversation(messages, most=len(recorded))
    turns = []
    for count, turn in enumerate(recorded, 1):
        # The last observation is not among the messages, because no reply follows it.
        plain_turn = plain[count - 1] if count <= len(plain) else None
        turns.append(_turn(count, turn, plain_turn))
    scores = mapping(record.get("scores"))
    judged = _judged(scores.get("parts"))
    return Transcript(
        entry=entry,
        opening=opening,
        turns=tuple(turns),
        messages=messages,
        error=record["error"] if isinstance(record.get("error"), str) else None,
        judged=judged,
        own=without_parts(numbers(scores.get("own")), judged),
        evaluation=record.get("evaluation"),
        seconds=numbers(record.get("seconds")),
        images=_images(record),
        info=mapping(record.get("info")),
    )


def _judged(parts: Any) -> tuple[JudgedPart, ...]:
    judged = []
    for part in map(mapping, sequence(parts)):
        score, weight = number(part.get("score")), number(part.get("weight"))
        if score is None or weight is None:
            continue
        texts = (content_text(part.get(field)) for field in ("words", "seen", "judge"))
        judged.append(JudgedPart(content_text(part.get("name")), score, weight, *texts))
    return tuple(judged)


def _images(record: Mapping[str, Any]) -> tuple[TranscriptImage, ...]:
    return tuple(
        TranscriptImage(image.kind, image.data, image.size)
        for image in images_from_json(record.get("images"))
    )


def _turn(count: int, turn: Mapping[str, Any], plain_turn: TranscriptTurn | None) -> TranscriptTurn:
    call = mapping(turn.get("call"))
    arguments = call.get("arguments")
    tokens = mapping(turn.get("tokens"))
    return TranscriptTurn(
        number=count,
        reply=content_text(turn.get("reply")),
        calls=(
            TranscriptCall(
                str(call.get("tool")), arguments if isinstance(arguments, Mapping) else {}
            ),
        )
        if call
        else (),
        observation=content_text(turn.get("observation")),
        images=_images(turn) or (plain_turn.images if plain_turn is not None else ()),
        is_error=turn.get("is_error") is True,
        seconds=numbers(turn.get("seconds")),
        tokens={
            key: value
            for key in ("prompt", "completion")
            if (value := whole(tokens.get(key))) is not None
        },
        result=turn.get("result"),
        interpretation=mapping(turn.get("interpretation")) or None,
    )
