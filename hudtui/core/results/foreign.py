"""Read untrusted records of other programs.

Every value is checked, and values of the wrong type count as missing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from hudtui.core.plain import convert
from hudtui.core.results.values import (
    EpisodeEntry,
    TranscriptCall,
    TranscriptImage,
    TranscriptTurn,
)
from hudtui.core.rollouts.values import BROKEN_OFF, Message

T = TypeVar("T")
_NAME = 300
_ERROR = 600
_MOST_PARTS = 40
_LARGEST = 1e100
"""Largest magnitude of a valid number. Larger numbers are not measurements, and their squares and
sums would overflow a float."""
_names: dict[tuple[str, ...], tuple[str, ...]] = {}


def decode(line: bytes) -> Any:
    """Return the JSON value of a line.

    Raises:
        ValueError: The line is not JSON, or is nested too deeply.
    """
    try:
        return msgspec.json.decode(line)
    except msgspec.DecodeError:
        try:  # Python's JSON module writes NaN and lone surrogates, and can read them
            return json.loads(line)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def decode_as(decoder: msgspec.json.Decoder[T], line: bytes) -> T:
    """Return a line as the decoder's type, even if `msgspec` cannot read its JSON; see `decode`.

    Raises:
        ValueError: The line is not JSON, is nested too deeply, or has another type.
    """
    try:
        return decoder.decode(line)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, RecursionError):
        return convert(decode(line), decoder.type)


def number(value: object) -> float | None:
    """Return the value if it is a finite number up to 1e100 in magnitude, else None."""
    if (
        type(value) is float
    ):  # the common case first: an index reads hundreds of thousands of numbers
        return value if -_LARGEST <= value <= _LARGEST else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        converted = float(value)
    except OverflowError:
        return None
    return converted if -_LARGEST <= converted <= _LARGEST else None


def whole(value: object) -> int | None:
    """Return the value if it is a whole number from 0 that fits into 64 bits, else None."""
    if type(value) is int:
        return value if 0 <= value < 2**63 else None
    if value is None:
        return None
    converted = number(value)
    return (
        int(converted)
        if converted is not None and converted == int(converted) and 0 <= converted < 2**63
        else None
    )


def name(value: object) -> str:
    """Return a text or a number as a short interned text; empty for anything else."""
    if type(value) is str and len(value) <= _NAME:
        return sys.intern(value)
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return sys.intern(str(value)[:_NAME])
    return ""


def error_text(value: object) -> str | None:
    """Return the message of an error, cut to the length that an entry keeps.

    An error is a text, or has a type and a message.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        words = [
            str(value[key])
            for key in ("type", "error", "message")
            if isinstance(value.get(key), str)
        ]
        value = ": ".join(dict.fromkeys(words)) or "an error without a message"
    if not isinstance(value, str) or not value.strip():
        return None
    return sys.intern(value[:_ERROR])


def mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is a mapping, else an empty mapping."""
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def sequence(value: object) -> Sequence[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list | tuple) else ()


def mappings(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the mappings of a list."""
    return tuple(one for one in sequence(value) if isinstance(one, Mapping))


def numbers(*sources: object) -> dict[str, float]:
    """Return the numbers of several mappings in one.

    The first mapping wins, and only as many as can be shown are kept.
    """
    by_name: dict[str, float] = {}
    for source in sources:
        for key, value in mapping(source).items():
            known = float(value) if value is True or value is False else number(value)
            if known is not None and len(by_name) < _MOST_PARTS:
                by_name.setdefault(key if len(key) <= _NAME else key[:_NAME], known)
    return by_name


@dataclass
class Place:
    """The place of a line or a row, and the facts in the name of its file."""

    run: str
    file: int
    offset: int = 0
    length: int = 0
    line: int = 0
    """From 1."""
    number: int = 0
    """Number of the next entry."""
    step: int | None = None
    split: str = ""

    def entry(
        self,
        part: int,
        *,
        task: str,
        reward: float | None,
        stop: str,
        turns: int,
        parts: Mapping[str, float],
        error: str | None = None,
        step: int | None = None,
        split: str = "",
        rollout: int | None = None,
        prompt_tokens: int | None = None,
        completion_tokens: int | None = None,
        seconds: float | None = None,
        started_at: str | None = None,
        slips: Mapping[str, int] | None = None,
    ) -> EpisodeEntry:
        """Return the entry of the next episode of this line.

        An episode that an error ended has no reward.
        """
        names = tuple(parts)
        if error is not None or stop in BROKEN_OFF:
            reward = None
        self.number += 1
        return EpisodeEntry(
            number=self.number - 1,
            run=self.run,
            file=self.file,
            offset=self.offset,
            length=self.length,
            part=part,
            task=task,
            step=self.step if step is None else step,
            split=split or self.split,
            rollout=rollout,
            reward=reward,
            part_names=_names.setdefault(names, names),
            part_values=tuple(parts.values()),
            stop=stop,
            error=error,
            turns=turns,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            seconds=seconds,
            started_at=started_at,
            slips=tuple((slips or {}).items()),
        )


def as_message(value: object) -> dict[str, Any] | None:
    """Return a chat message whose role is a text, and whose content is a text or a list of parts.

    None for anything else.
    For a choice of a completion (`{"finish_reason", "message"}`), its message is returned.
    """
    message = mapping(value)
    if "finish_reason" in message and isinstance(message.get("message"), Mapping):
        message = message["message"]
    role, content = message.get("role"), message.get("content")
    if not isinstance(role, str):
        return None
    if isinstance(content, list | tuple):
        content = [part for part in content if isinstance(part, Mapping)]
    elif not isinstance(content, str):
        content = "" if content is None else json.dumps(content, ensure_ascii=False, default=str)
    return {**message, "content": content}


def content_text(content: object) -> str:
    """Return the text of a message's content, without its images."""
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in sequence(content) if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def content_images(content: object) -> tuple[TranscriptImage, ...]:
    """Return the images of a message's content."""
    images = []
    for part in sequence(content):
        url = mapping(mapping(part).get("image_url")).get("url")
        if isinstance(url, str):
            kind, mark, data = url.removeprefix("data:").partition(";base64,")
            images.append(
                TranscriptImage(kind, data)
                if mark and url.startswith("data:")
                else TranscriptImage("", url)
            )
    return tuple(images)


def calls_of(message: Mapping[str, Any]) -> tuple[TranscriptCall, ...]:
    """Return the calls of an assistant's message.

    They may have the form of OpenAI or of verifiers, or be JSON text.
    """
    calls = []
    for call in sequence(message.get("tool_calls")):
        if isinstance(call, str):
            try:
                call = decode(call.encode("utf-8", "replace"))
            except ValueError:
                continue
        call = mapping(call)
        inner = mapping(call.get("function")) or call
        arguments = inner.get("arguments")
        if isinstance(arguments, str):
            try:
                read = decode(arguments.encode("utf-8", "replace"))
            except ValueError:
                read = None
            arguments = read if isinstance(read, Mapping) else arguments
        id_ = call.get("id")
        calls.append(
            TranscriptCall(
                str(inner.get("name") or ""),
                arguments if isinstance(arguments, Mapping | str) else {},
                id_ if isinstance(id_, str) else None,
            )
        )
    return tuple(calls)


def conversation(
    messages: Sequence[Message], *, most: int | None = None
) -> tuple[tuple[Message, ...], tuple[TranscriptTurn, ...]]:
    """Split a conversation into the messages before the first reply, and its turns.

    `most` is the number of the agent's own replies. These are the last ones; earlier replies are
    examples. None: all replies are the agent's own.
    """
    starts = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    starts = starts if most is None else starts[max(len(starts) - most, 0) :]
    turns = []
    for count, (start, end) in enumerate(
        zip(starts, [*starts[1:], len(messages)], strict=False), 1
    ):
        reply, answers = messages[start], messages[start + 1 : end]
        thought = reply.get("reasoning_content") or reply.get("reasoning")
        turns.append(
            TranscriptTurn(
                number=count,
                reply=content_text(reply["content"]),
                thought=thought if isinstance(thought, str) else "",
                calls=calls_of(reply),
                observation="\n".join(
                    filter(None, (content_text(answer["content"]) for answer in answers))
                ),
                images=tuple(
                    image for answer in answers for image in content_images(answer["content"])
                ),
                is_error=any(
                    answer.get("is_error") is True or answer.get("status") == "error"
                    for answer in answers
                ),
            )
        )
    return tuple(messages[: starts[0] if starts else len(messages)]), tuple(turns)
