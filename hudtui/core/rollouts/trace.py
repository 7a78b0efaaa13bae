"""Episodes on disk: one JSON object a line, appended whole, readable while more is written.

A line is what `episode_to_json` gives; `docs/results.md` describes it. What a list of episodes
needs stands before the messages, so that a reader can index a large file without parsing
conversations. Images stand in the turns, within bounds (`observation.KEPT_IMAGES`); in the messages
a note of their type and size stands in, so that no image is there twice. The secrets that a caller
names never enter a trace, wherever an environment may have echoed them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.files import MAX_BYTES, open_file, parse_json
from hudtui.core.gym.json_safe import dumps
from hudtui.core.rollouts.values import Episode, KeptImage, Scores, Turn
from hudtui.core.tasks.expectation import JudgedPart
from hudtui.core.text import clean, clean_line

VERSION = 2
"""Version of the record. Those without one are of version 1: their messages stand before
the turns, and they count no turns."""
VERSION_MARK = b'{"version":2,'
"""First bytes of a line of this version."""
HEAD_END = b',"messages":['
"""Bytes that follow the part of a line that a list of episodes needs."""
HEAD_BYTES = 1 << 16
"""Longest such part that is looked for."""

IMAGES_UNTIL = 1 << 30
"""Bytes of a trace file up to which the data of images is written to it."""

MASK = "********"
_DEEPEST = 100
_TOO_DEEP = "[nested too deeply]"
_PLAIN = frozenset({int, bool, type(None)})
_PLAIN_OR_TEXT = _PLAIN | {str}
_SHORTEST_SECRET = 8  # shorter values (a port, "dev") would tear holes into ordinary text


def episode_to_json(episode: Episode) -> dict[str, Any]:
    """The record of an episode; `episode_from_json` reads it back."""
    record = {
        "version": VERSION,
        "task": episode.task_id,
        "started_at": episode.started_at,
        "stop": episode.stop,
        "error": episode.error,
        "scores": scores_to_json(episode.scores),
        "seconds": dict(episode.seconds),
        "info": dict(episode.info),
        "turn_count": len(episode.turns),
        "slips": slips(episode.turns),
        "messages": [_without_images(message) for message in episode.messages],
        "turns": [turn_to_json(turn) for turn in episode.turns],
        "evaluation": episode.evaluation,
    }
    return {**record, **_images_to_json(episode.images)}


def scores_to_json(scores: Scores) -> dict[str, Any]:
    """Return scores as plain data: numbers by name, `own` and `parts` where there are some."""
    record = {**vars(scores), "parts": [part.to_json() for part in scores.parts]}
    empty = {name for name in ("own", "parts") if not record[name]}
    return {name: value for name, value in record.items() if name not in empty}


def slips(turns: Iterable[Turn]) -> dict[str, int]:
    """Return the numbers of failed turns of an episode, by kind; kinds without any are left out.

    `no_call`: replies without a call that can be read; `refused`: calls that were not made;
    `failed`: calls that the environment answered with an error.
    """
    counts = dict.fromkeys(("no_call", "refused", "failed"), 0)
    for turn in turns:
        if turn.is_error:
            action = turn.interpretation.get("action")
            counts[
                "failed" if turn.call is not None else "no_call" if action is None else "refused"
            ] += 1
    return {kind: count for kind, count in counts.items() if count}


def turn_to_json(turn: Turn) -> dict[str, Any]:
    """The record of a turn."""
    fields = dict(vars(turn))
    more, cut = list(fields.pop("more")), fields.pop("cut")
    kept = _images_to_json(fields.pop("images"))
    return {**fields, **kept, **({"more": more} if more else {}), **({"cut": True} if cut else {})}


def _images_to_json(images: Iterable[KeptImage]) -> dict[str, Any]:
    kept = [
        {"type": one.kind, "bytes": one.size, **({} if one.data is None else {"data": one.data})}
        for one in images
    ]
    return {"images": kept} if kept else {}


def images_from_json(value: Any) -> tuple[KeptImage, ...]:
    """The images of a record. Values of the wrong type count as missing."""
    images = []
    for one in value if isinstance(value, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("type"), str):
            size, data = one.get("bytes"), one.get("data")
            images.append(
                KeptImage(
                    one["type"],
                    size if type(size) is int else 0,
                    data if isinstance(data, str) else None,
                )
            )
    return tuple(images)


def episode_from_json(record: Any, *, where: Location | None = None) -> Episode:
    """The episode of a trace record.

    Raises:
        InputError: This is not a record of an episode; the error names the missing or wrong field.
    """
    if not isinstance(record, Mapping):
        raise InputError("a trace record must be a JSON object", where=where)
    try:
        scores = record["scores"]
        return Episode(
            task_id=str(record["task"]),
            messages=tuple(dict(message) for message in record["messages"]),
            turns=tuple(_turn(turn) for turn in record["turns"]),
            scores=Scores(
                task_completion=float(scores["task_completion"]),
                tool_execution=float(scores["tool_execution"]),
                format_compliance=float(scores["format_compliance"]),
                reward=float(scores["reward"]),
                reward_found=bool(scores["reward_found"]),
                own={
                    str(name): float(value) for name, value in dict(scores.get("own") or {}).items()
                },
                parts=tuple(map(_part, scores.get("parts") or ())),
            ),
            stop=str(record["stop"]),
            error=record.get("error"),
            evaluation=record.get("evaluation"),
            seconds=dict(record.get("seconds") or {}),
            info=dict(record.get("info") or {}),
            started_at=record.get("started_at"),
            images=images_from_json(record.get("images")),
        )
    except KeyError as error:
        raise InputError(f"this is not a trace record: {error} is missing", where=where) from None
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError("this is not a trace record", why=str(error), where=where) from None


def _turn(record: Mapping[str, Any]) -> Turn:
    return Turn(
        reply=str(record["reply"]),
        interpretation=dict(record.get("interpretation") or {}),
        call=record.get("call"),
        observation=str(record["observation"]),
        is_error=bool(record["is_error"]),
        seconds=dict(record.get("seconds") or {}),
        result=record.get("result"),
        tokens=dict(record.get("tokens") or {}),
        images=images_from_json(record.get("images")),
        more=tuple(dict(one) for one in record.get("more") or ()),
        cut=record.get("cut") is True,
    )


def _without_images(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    return {
        **message,
        "content": [
            _image_note(part) if part.get("type") == "image_url" else part for part in content
        ],
    }


def _image_note(part: Mapping[str, Any]) -> dict[str, str]:
    url = str((part.get("image_url") or {}).get("url", ""))
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    size = f", {len(data) * 3 // 4} bytes" if data else ""
    return {"type": "text", "text": f"[image {kind if data else url}{size}]"}


def redact(value: Any, secrets: Iterable[str] = ()) -> Any:
    """A copy of `value` that can be kept: secrets masked, numbers finite, nesting bounded.

    Secrets are masked in every text, keys included. Those under eight characters are left alone.
    """
    return _redact(value, _maskable(secrets), 0)


def _maskable(secrets: Iterable[str]) -> list[str]:
    """The longest first: one may be a part of another."""
    return sorted(
        {secret for secret in secrets if len(secret) >= _SHORTEST_SECRET}, key=len, reverse=True
    )


def _redact(value: Any, secrets: list[str], depth: int) -> Any:
    # A record has hundreds of small values, and all episodes of a batch may end at once: nothing is
    # called for plain ones.
    if isinstance(value, str):
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, MASK)
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has no word for it
    kept = _PLAIN if secrets else _PLAIN_OR_TEXT
    if isinstance(value, (list, tuple)):
        if depth >= _DEEPEST:
            return _TOO_DEEP
        return [item if type(item) in kept else _redact(item, secrets, depth + 1) for item in value]
    if isinstance(value, (dict, Mapping)):  # `dict` first: the check for `Mapping` is slow
        if depth >= _DEEPEST:
            return _TOO_DEEP
        return {
            key if type(key) is str and not secrets else _redact(str(key), secrets, depth): (
                item if type(item) in kept else _redact(item, secrets, depth + 1)
            )
            for key, item in value.items()
        }
    return value


def write_episode(path: Path, episode: Episode, *, secrets: Iterable[str] = ()) -> None:
    """Append an episode to a trace file, as one whole line or not at all.

    In a file of more than `IMAGES_UNTIL` bytes, the data of its images is left out: screenshots
    must not fill a disk.

    Raises:
        InputError: The file cannot be written. What it held before is untouched.
    """
    if _size(path) > IMAGES_UNTIL:
        turns = tuple(replace(turn, images=_without_data(turn.images)) for turn in episode.turns)
        episode = replace(episode, turns=turns, images=_without_data(episode.images))
    _append(path, _episode_line(episode_to_json(episode), _maskable(secrets)))


def _episode_line(record: dict[str, Any], secrets: list[str]) -> bytes:
    """The line of a record.

    One look at the encoded text tells whether there is anything to mask or to replace in it at all.
    """
    from pydantic_core import to_json

    with contextlib.suppress(
        ValueError
    ):  # what JSON cannot hold, or nested too deeply for the encoder (255)
        line = to_json(record, inf_nan_mode="constants")
        if not any(
            mark in line
            for mark in (b"NaN", b"Infinity", *(to_json(secret)[1:-1] for secret in secrets))
        ):
            return line
    return _encode(_redact(record, secrets, 0))


def _without_data(images: Iterable[KeptImage]) -> tuple[KeptImage, ...]:
    return tuple(replace(image, data=None) for image in images)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def append_line(path: Path, value: Any) -> None:
    """Append `value` as one line of JSON, whole or not at all.

    Other processes may append to the same file.

    A half-written last line, left by a process that was killed or by a full disk, is removed first.

    Raises:
        InputError: The file cannot be written. What it held before is untouched.
    """
    _append(path, _encode(value))


def _append(path: Path, line: bytes) -> None:
    line += b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            end = _whole_end(handle)
            try:
                _write_all(handle, line, end)
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)
    except OSError as error:
        raise InputError(
            "the record cannot be written; what the file held before is untouched",
            why=error.strerror or str(error),
            where=Location(os.fspath(path)),
        ) from None


def _encode(value: Any) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # lone surrogates, which a server may send as \ud800
        return json.dumps(value, default=str, separators=(",", ":")).encode()


def _write_all(handle: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(handle, view, offset)
        view, offset = view[written:], offset + written


def _whole_end(handle: int) -> int:
    """Offset behind the last whole line.

    What stands beyond it is cut off unless it is a record that merely lacks its newline.
    """
    end = os.fstat(handle).st_size
    start, tail = end, b""
    while start > 0 and b"\n" not in tail:
        step = min(start, 1 << 16)
        start -= step
        tail = os.pread(handle, step, start) + tail
    rest = tail[tail.rfind(b"\n") + 1 :]
    if not rest:
        return end
    try:
        json.loads(rest)
    except ValueError:
        os.ftruncate(handle, end - len(rest))
        return end - len(rest)
    _write_all(handle, b"\n", end)
    return end + 1


def read_trace(path: Path) -> Iterator[Episode]:
    """The episodes of a trace file, in the order of their ends.

    The file may be in the middle of being written: an incomplete last line is left out.

    Raises:
        InputError: The file cannot be read, or a line of it is not a trace record; the error names
            the line.
    """
    for _, episode in scan_trace(path):
        yield episode


def scan_trace(path: Path, offset: int = 0) -> Iterator[tuple[int, Episode]]:
    """As `read_trace`, from a byte offset on.

    Each episode comes with the offset behind it, from which a later call can continue.

    Raises:
        InputError: As `read_trace`. Line numbers count from `offset`.
    """
    for line, end, record in read_lines(path, offset):
        yield end, episode_from_json(record, where=Location(os.fspath(path), line))


def read_lines(path: Path, offset: int = 0) -> Iterator[tuple[int, int, Any]]:
    """The JSON values of a file with one a line.

    Line number (from 1 at `offset`), offset behind the line, value.
    Blank lines are passed over, and so is a last line that is still being written.

    Raises:
        InputError: The file cannot be read, or a whole line is not JSON.
    """
    name = os.fspath(path)
    with open_file(path) as stream:
        stream.seek(offset)
        for number, line in enumerate(iter(lambda: stream.readline(MAX_BYTES + 1), b""), 1):
            if len(line) > MAX_BYTES:
                raise InputError(
                    f"a line is longer than {MAX_BYTES >> 20} MiB", where=Location(name, number)
                )
            offset += len(line)
            if not line.strip():
                continue
            try:
                value = parse_json(line.decode(), name)
            except UnicodeDecodeError as error:
                if not line.endswith(b"\n"):
                    return
                raise InputError(
                    "this is not UTF-8 text", why=error.reason, where=Location(name, number)
                ) from None
            except InputError as error:
                if not line.endswith(b"\n"):
                    return
                column = error.where.column if error.where else None
                raise InputError(
                    error.what, why=error.why, where=Location(name, number, column)
                ) from None
            yield number, offset, value


def example_count(episode: Episode) -> int:
    """Return the number of the configuration's `examples` in the messages before the task."""
    count = episode.info.get("examples")
    return count if isinstance(count, int) and count > 0 else 0


def opening_of(episode: Episode) -> Any:
    """The content of the first message about the task.

    Its prompt and what the setup answered; None without one.
    """
    prompts = [message for message in episode.messages if message.get("role") == "user"][
        example_count(episode) :
    ]
    return prompts[0].get("content") if prompts else None


def transcript(episode: Episode, *, over: bool = True) -> str:
    """An episode as text: every reply, call and answer in full, with the scores at the end."""
    parts = [opening_text(episode.task_id, opening_of(episode))]
    parts += [turn_text(number, turn) for number, turn in enumerate(episode.turns, 1)]
    return "\n\n".join((*parts, end_text(episode, over=over))) + "\n"


def opening_text(task: str, content: object) -> str:
    """The beginning of a transcript.

    The id of the task, and the content that `opening_of` gives.
    """
    return f"task {clean_line(task)}" + (
        "" if content is None else f"\n\n## opening\n{_readable(content)}"
    )


def turn_text(number: int, turn: Turn) -> str:
    """One turn of a transcript: reply, call and answer. Turns count from 1."""
    parts = [f"## reply {number}\n{clean(turn.reply)}"]
    if turn.call is not None:
        parts.append(
            f"## call {number}\n{clean(turn.call['tool'])} {dumps(turn.call['arguments'])}"
        )
    parts.append(
        f"## answer {number}{' (an error)' if turn.is_error else ''}\n{clean(turn.observation)}"
    )
    return "\n\n".join(parts)


def end_text(episode: Episode, *, over: bool = True) -> str:
    """The end of a transcript: why the episode ended, the evaluation and the scores."""
    scores = episode.scores
    completion = (
        f"task_completion {scores.task_completion:.3f}"
        if scores.reward_found
        else "task_completion: no reward found"
    )
    own = "".join(f"{clean(name)} {value:.3f}, " for name, value in scores.own.items())
    stop = (
        f"{episode.stop}{f': {clean(episode.error)}' if episode.error else ''}"
        if over
        else "not over yet"
    )
    judged = "".join(f"\n{part.line()}" for part in scores.parts)
    evaluation = "" if episode.evaluation is None else f"\nevaluation {dumps(episode.evaluation)}"
    return (
        f"## end\n{stop}{evaluation}{judged}\n{completion}, "
        f"tool_execution {scores.tool_execution:.3f}, "
        f"format_compliance {scores.format_compliance:.3f}, {own}reward {scores.reward:.3f}"
    )


def _part(record: Mapping[str, Any]) -> JudgedPart:
    return JudgedPart(
        str(record["name"]),
        float(record["score"]),
        float(record["weight"]),
        str(record["words"]),
        str(record["seen"]),
        str(record.get("judge") or ""),
    )


def _readable(content: object) -> str:
    parts = content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]
    return clean(
        "\n".join(
            str(part.get("text", f"[{part.get('type')}]"))
            for part in parts
            if isinstance(part, dict)
        )
    )
