"""Export of a selection of episodes.

As records, as readable text, for other tools (ATIF), and for fine-tuning on replies (SFT).

- `jsonl`: the records unchanged from their files, so that the program that wrote them can read them
  again. Rows of Parquet files become lines of ART's JSON format.
- `markdown`: transcripts for reading.
- `atif`: the Agent Trajectory Interchange Format of Harbor, version 1.7, one JSON document per
  line. A single episode in a file `*.json` is written as one document.
- `sft`: one `{"prompt", "completion", "task", "reward"}` per line, for `datasets.load_dataset` and
  TRL's SFTTrainer; or a Parquet file with the same columns. The prompt is everything before the
  agent's first own reply, including the examples of a configuration; the loss does not include it.
  The completion ends with the last reply. Episodes without a reply are left out.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast, get_args

from hudtui import __version__
from hudtui.core.errors import InputError, Location
from hudtui.core.files import write_atomic
from hudtui.core.results.foreign import calls_of, content_images, content_text, decode
from hudtui.core.results.images import describe_image, images_by_turn
from hudtui.core.results.index import JsonLinesFile, ResultIndex
from hudtui.core.results.values import Transcript, TranscriptCall
from hudtui.core.rollouts.values import Message, own_line
from hudtui.core.text import clean

ExportForm = Literal["jsonl", "markdown", "atif", "sft"]
FORMS: tuple[ExportForm, ...] = get_args(ExportForm)

ATIF_VERSION = "ATIF-v1.7"
_SUFFIXES: Mapping[str, ExportForm] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".parquet": "sft",
}
_BATCH = 200
"""Number of rows that are written to a Parquet file at once."""


@dataclass(frozen=True)
class WrittenExport:
    """The result of an export."""

    path: Path
    form: ExportForm
    episodes: int
    skipped: int
    """Number of episodes that were left out because the format cannot represent them."""
    size: int
    """Bytes."""


def form_of(path: Path) -> ExportForm | None:
    """Return the format for the extension of a file.

    None if several formats have this extension.
    """
    return _SUFFIXES.get(path.suffix.lower())


def export_results(
    index: ResultIndex,
    numbers: Sequence[int],
    form: ExportForm,
    path: Path,
    *,
    replace: bool = False,
    progress: Callable[[int], None] | None = None,
) -> WrittenExport:
    """Write episodes to a file, completely or not at all.

    This blocks, so a screen calls it in a thread. The episodes are written in the order of
    `numbers`. A path `*.parquet` is possible only for `sft`. `progress` is called in the caller's
    thread with the number of episodes written so far. An exception from `progress` ends the export.

    Returns:
        The path, and the numbers of written and skipped episodes.

    Raises:
        InputError: The file exists or cannot be written, there is no episode to write, or an
            episode cannot be read.
    """
    if not replace and path.exists():
        raise InputError(
            "this file exists already",
            fix="Choose another name, or replace it (--force).",
            where=Location(str(path)),
        )
    if path.suffix == ".parquet" and form != "sft":
        raise InputError(
            f"{form} cannot be written as Parquet; only sft can", where=Location(str(path))
        )
    count = _Count(progress)
    if path.suffix == ".parquet":
        with tempfile.TemporaryFile() as stream:
            _write_parquet(index, numbers, stream, count)
            stream.seek(0)
            count.require()
            write_atomic(path, cast("BinaryIO", stream))
    else:
        single = form == "atif" and path.suffix == ".json"
        if single and len(numbers) != 1:
            raise InputError(
                f"an ATIF document has one episode, and {len(numbers)} are chosen",
                fix=(
                    "Choose one episode, or write one document per line to a file that ends in "
                    ".jsonl."
                ),
                where=Location(str(path)),
            )
        pieces = _counted(
            _indented(index, numbers) if single else export_pieces(index, numbers, form), count
        )
        if (first := next(pieces, None)) is None:
            count.require()
        write_atomic(path, cast("BinaryIO", _Pieces(first or b"", pieces)))
    return WrittenExport(path, form, count.written, count.skipped, path.stat().st_size)


class _Count:
    def __init__(self, progress: Callable[[int], None] | None) -> None:
        self.written = 0
        self.skipped = 0
        self._progress = progress

    def add(self, *, written: bool) -> None:
        self.written += written
        self.skipped += not written
        if self._progress is not None:
            self._progress(self.written + self.skipped)

    def require(self) -> None:
        if not self.written:
            raise InputError(
                "there is no episode to write",
                why="None of the chosen episodes has a reply and came to its end."
                if self.skipped
                else "No episode is chosen.",
            )


class _Pieces:
    """A stream for `write_atomic` over pieces that are created while it is read."""

    def __init__(self, first: bytes, rest: Iterator[bytes]) -> None:
        self._first: bytes | None = first
        self._rest = rest

    def read(self, _size: int = -1) -> bytes:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return next(self._rest, b"")


def _counted(pieces: Iterator[bytes | None], count: _Count) -> Iterator[bytes]:
    for piece in pieces:
        count.add(written=piece is not None)
        if piece:
            yield piece


def export_pieces(
    index: ResultIndex, numbers: Sequence[int], form: ExportForm
) -> Iterator[bytes | None]:
    """Yield the text of each episode; None for an episode that the format cannot represent.

    Raises:
        InputError: An episode cannot be read.
    """
    if form == "jsonl":
        yield from _records(index, numbers)
        return
    for number in numbers:
        transcript = index.read(index.entries[number])
        if form == "markdown":
            yield (markdown(transcript) + "\n").encode()
        elif form == "atif":
            yield _line(atif(transcript))
        else:
            row = sft_row(transcript)
            yield None if row is None else _line(row)


def _line(value: Any) -> bytes:
    return (
        json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode(
            "utf-8", "replace"
        )
        + b"\n"
    )


def _indented(index: ResultIndex, numbers: Sequence[int]) -> Iterator[bytes]:
    for number in numbers:
        text = json.dumps(
            atif(index.read(index.entries[number])), ensure_ascii=False, indent=2, default=str
        )
        yield text.encode("utf-8", "replace") + b"\n"


def _records(index: ResultIndex, numbers: Sequence[int]) -> Iterator[bytes]:
    written: set[tuple[int, int]] = set()
    for number in numbers:
        entry = index.entries[number]
        file = index.files[entry.file]
        if isinstance(file, JsonLinesFile):
            # A line may hold several episodes; it is written once.
            line = b"" if (entry.file, entry.offset) in written else file.line(entry) + b"\n"
            yield (
                _line(decode(line)) if line.count(b"\n") > 1 else line
            )  # a document over many lines becomes one
            written.add((entry.file, entry.offset))
            continue
        transcript = index.read(entry)
        metadata = {
            "step": entry.step,
            "split": entry.split,
            **transcript.info,
            "task_id": entry.task,
        }
        trajectory = {
            "reward": entry.reward,
            "metrics": entry.parts,
            "metadata": {key: value for key, value in metadata.items() if value is not None},
            "messages_and_choices": list(transcript.messages),
            "tools": list(transcript.tools) or None,
        }
        yield _line({"trajectories": [trajectory]})


def markdown(transcript: Transcript) -> str:
    """Return an episode as Markdown.

    Its metadata, then every message, reply, call and answer in full.
    """
    entry = transcript.entry
    facts: dict[str, object] = {
        "run": entry.run,
        "step": entry.step,
        "split": entry.split or None,
        "rollout": entry.rollout,
        "reward": None if entry.reward is None else f"{entry.reward:.6g}",
        **{name: f"{value:.6g}" for name, value in entry.parts.items()},
        "stop": entry.stop,
        "turns": entry.turns,
        "tokens": entry.tokens,
        "seconds": None if entry.seconds is None else f"{entry.seconds:.3f}",
        "model": transcript.info.get("model") or transcript.info.get("policy"),
    }
    images = {
        turn: "\n".join(f"[image {number}: {describe_image(image)}]" for number, image in found)
        for turn, found in images_by_turn(transcript).items()
    }
    parts = [f"# {_inline(entry.task)}"]
    parts.append(
        "\n".join(
            f"- {_inline(name)}: {_inline(str(value))}"
            for name, value in facts.items()
            if value is not None
        )
    )
    for message, title in zip(transcript.opening, transcript.opening_titles, strict=True):
        parts += [f"## {_inline(title)}", _block(content_text(message.get("content")))]
    if 0 in images:
        parts.append(_block(images[0]))
    for turn in transcript.turns:
        parts.append(f"## Turn {turn.number}")
        if turn.thought:
            parts += ["### Thought", _block(turn.thought)]
        parts += ["### Reply", _block(turn.reply)] if turn.reply or not turn.calls else []
        for call in turn.calls:
            arguments = call.arguments if isinstance(call.arguments, str) else _json(call.arguments)
            parts += [f"### Call: {_inline(call.name)}", _block(arguments, "json")]
        if turn.observation or turn.images:
            answer = "\n".join(filter(None, (turn.observation, images.get(turn.number))))
            parts += [f"### Answer{' (an error)' if turn.is_error else ''}", _block(answer)]
    if transcript.error:
        parts += ["## Error", _block(transcript.error)]
    if transcript.judged:
        lines = "\n".join(part.line() for part in transcript.judged)
        parts += ["## Expected", _block(lines)]
    if transcript.own:
        lines = "\n".join(own_line(name, value) for name, value in transcript.own.items())
        parts += ["## Own reward", _block(lines)]
    if transcript.evaluation is not None:
        parts += ["## Evaluation", _block(_json(transcript.evaluation), "json")]
    return "\n\n".join(parts) + "\n"


def _shown(message: Message) -> str:
    content = message.get("content")
    images = "".join(f"\n[image {describe_image(image)}]" for image in content_images(content))
    return content_text(content) + images


def _json(value: Any) -> str:
    return json.dumps(
        dict(value) if isinstance(value, Mapping) else value,
        ensure_ascii=False,
        indent=1,
        default=str,
    )


def _inline(text: str) -> str:
    return re.sub(r"([\\`*\[\]<>#|])", r"\\\1", " ".join(clean(text).split()))


def _block(text: str, language: str = "text") -> str:
    """Return a text as a fenced block.

    The fence is longer than any run of backticks in the text.
    """
    text = clean(text)
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"{fence}{language}\n{text}\n{fence}"


def atif(transcript: Transcript) -> dict[str, Any]:
    """Return an episode as a document of the Agent Trajectory Interchange Format.

    Source: RFC 0001 of Harbor, Agent Trajectory Interchange Format, version 1.7.
    """
    entry = transcript.entry
    steps: list[dict[str, Any]] = []
    for message in transcript.opening:
        role = message.get("role")
        source = {"system": "system", "developer": "system", "assistant": "agent"}.get(
            str(role), "user"
        )
        shown = {"step_id": len(steps) + 1, "source": source, "message": _shown(message)}
        steps.append(
            {**shown, "is_copied_context": True} if source == "agent" else shown
        )  # an example, not this agent's reply
    for turn in transcript.turns:
        step: dict[str, Any] = {"step_id": len(steps) + 1, "source": "agent", "message": turn.reply}
        if turn.thought:
            step["reasoning_content"] = turn.thought
        calls = [_atif_call(call, turn.number, place) for place, call in enumerate(turn.calls, 1)]
        if calls:
            step["tool_calls"] = calls
        images = "".join(f"\n[image {describe_image(image)}]" for image in turn.images)
        if turn.observation or images:
            result: dict[str, Any] = {"content": turn.observation + images}
            if len(calls) == 1:
                result["source_call_id"] = calls[0]["tool_call_id"]
            step["observation"] = {"results": [result]}
        metrics = {f"{name}_tokens": count for name, count in turn.tokens.items()}
        if metrics:
            step["metrics"] = metrics
        extra = {"seconds": dict(turn.seconds)} if turn.seconds else {}
        if turn.is_error or extra:
            step["extra"] = {**extra, "is_error": turn.is_error}
        steps.append(step)
    totals = {
        "total_prompt_tokens": entry.prompt_tokens,
        "total_completion_tokens": entry.completion_tokens,
        "total_steps": len(steps),
    }
    model = transcript.info.get("model") or transcript.info.get("policy")
    agent: dict[str, Any] = {"name": "hudtui", "version": __version__}
    if isinstance(model, str):
        agent["model_name"] = model
    if transcript.tools:
        agent["tool_definitions"] = [dict(tool) for tool in transcript.tools]
    facts = {
        "task": entry.task,
        "step": entry.step,
        "split": entry.split or None,
        "rollout": entry.rollout,
        "reward": entry.reward,
        "parts": entry.parts,
        "stop": entry.stop,
        "error": transcript.error,
        "started_at": entry.started_at,
        "seconds": entry.seconds,
    }
    return {
        "schema_version": ATIF_VERSION,
        "session_id": f"{entry.run}/{entry.number}",
        "agent": agent,
        "steps": steps,
        "final_metrics": {name: count for name, count in totals.items() if count is not None},
        "extra": {name: value for name, value in facts.items() if value is not None},
    }


def _atif_call(call: TranscriptCall, turn: int, place: int) -> dict[str, Any]:
    arguments = (
        dict(call.arguments) if isinstance(call.arguments, Mapping) else {"text": call.arguments}
    )
    return {
        "tool_call_id": call.id or f"call-{turn}-{place}",
        "function_name": call.name,
        "arguments": arguments,
    }


def sft_row(transcript: Transcript) -> dict[str, Any] | None:
    """Return an episode as a row for fine-tuning.

    The messages before the agent's first reply, and those up to its last reply. Content is text.
    Calls have OpenAI's form, with their arguments as JSON text, so that all rows have columns of
    the same types. Returns None if the episode has no reply, or if an error ended it.
    """
    messages = list(transcript.messages)
    while messages and messages[-1].get("role") != "assistant":
        messages.pop()
    if not messages or not transcript.turns or transcript.entry.failed:
        return None
    said, begin = [_sft_message(message) for message in messages], len(transcript.opening)
    row: dict[str, Any] = {"prompt": said[:begin], "completion": said[begin:]}
    if transcript.tools:
        row["tools"] = json.dumps(
            [dict(tool) for tool in transcript.tools], ensure_ascii=False, default=str
        )
    return {**row, "task": transcript.entry.task, "reward": transcript.entry.reward}


def _sft_message(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {"role": str(message.get("role")), "content": _shown(message)}
    calls = [
        {
            "id": call.id or f"call-{place}",
            "type": "function",
            "function": {
                "name": call.name,
                "arguments": call.arguments
                if isinstance(call.arguments, str)
                else json.dumps(dict(call.arguments), ensure_ascii=False, default=str),
            },
        }
        for place, call in enumerate(calls_of(message), 1)
    ]
    if calls:
        made["tool_calls"] = calls
    if isinstance(message.get("tool_call_id"), str):
        made["tool_call_id"] = message["tool_call_id"]
    return made


def _write_parquet(index: ResultIndex, numbers: Sequence[int], stream: Any, count: _Count) -> None:
    import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-untyped,unused-ignore]

    text = pa.string()
    call = pa.struct(
        [
            ("id", text),
            ("type", text),
            ("function", pa.struct([("name", text), ("arguments", text)])),
        ]
    )
    message = pa.struct(
        [("role", text), ("content", text), ("tool_calls", pa.list_(call)), ("tool_call_id", text)]
    )
    said = pa.list_(message)
    schema = pa.schema(
        [
            ("prompt", said),
            ("completion", said),
            ("tools", text),
            ("task", text),
            ("reward", pa.float64()),
        ]
    )
    rows: list[dict[str, Any]] = []
    with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
        for number in numbers:
            row = sft_row(index.read(index.entries[number]))
            count.add(written=row is not None)
            if row is not None:
                rows.append(json.loads(_line(row)))  # lone surrogates are replaced, as in JSON
            if len(rows) == _BATCH:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                rows.clear()
        if rows:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
