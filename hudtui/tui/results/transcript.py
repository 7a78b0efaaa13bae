"""Functions that render an episode as lines of styled text: its head, its turns, its messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from textual.content import Content, Span

from hudtui.core.gym.dialects.dialect import Dialect
from hudtui.core.gym.dialects.known import DEFAULT, DIALECTS
from hudtui.core.gym.json_safe import dumps
from hudtui.core.results.foreign import content_images, content_text
from hudtui.core.results.images import describe_image, images_by_turn
from hudtui.core.results.queries import word_diff
from hudtui.core.results.values import stop_words
from hudtui.core.rollouts.values import own_line
from hudtui.core.text import clean, clean_line, plural
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.results.queries import EpisodeDiff, TurnDiff
    from hudtui.core.results.values import (
        EpisodeEntry,
        Transcript,
        TranscriptCall,
        TranscriptImage,
        TranscriptTurn,
    )

LONGEST = 8_000
"""Largest number of characters shown of one text; the view of the record shows all."""
MOST_TURNS = 2_000
"""Largest number of turns, and of messages, that are shown; the view of the record shows all."""
_OPENING = 6
"""Number of lines of the system prompt shown above the turns; the view of the messages shows
all."""
_CALL = 600
_FOLDED = 160
"""Characters of a text that is folded to one line."""
_ANSWER = 12
"""Lines of an answer that is folded."""
_MUTED = "$foreground-muted"
_CHANGED = "bold $warning"


@dataclass(frozen=True)
class Beside:
    """How an episode differs from the episode beside it."""

    diff: EpisodeDiff
    side: Literal["left", "right"]
    """Which of the two episodes is shown: `left` or `right`."""

    def turn(self, number: int) -> TurnDiff | None:
        """Return how a turn differs; None if it is the same."""
        found = self.diff.turns[number - 1] if 0 < number <= len(self.diff.turns) else None
        return None if found is None or found.change == "same" else found

    def changed(self, number: int, name: Literal["reply", "observation"]) -> list[tuple[int, int]]:
        """Return the ranges of a turn's text that the other episode does not contain."""
        found = self.turn(number)
        if found is None or found.left is None or found.right is None or name not in found.fields:
            return []
        spans, place = [], 0
        for change, text in word_diff(
            clean(getattr(found.left, name))[:LONGEST], clean(getattr(found.right, name))[:LONGEST]
        ):
            if change == self.side and text.strip():
                spans.append((place, place + len(text)))
            place += len(text) if change in ("same", self.side) else 0
        return spans


@dataclass(frozen=True)
class TranscriptPage:
    """The lines of an episode, and the lines at which its parts begin."""

    lines: tuple[Content, ...] = ()
    turns: tuple[int, ...] = ()
    """The first line of each turn, in the order of the turns."""
    found: tuple[int, ...] = field(default=())
    """The lines that match the search."""
    more: int = 0
    """Estimated number of lines of the turns that were left out; see `turn_page`."""


def reward_text(value: float | None) -> str:
    """Return a reward as text for a table or a title."""
    return "–" if value is None else f"{value:.3f}"


def episode_name(entry: EpisodeEntry) -> str:
    """Return a short text that identifies an episode within its group, such as `#3`."""
    return f"#{entry.rollout if entry.rollout is not None else entry.number}"


def stop_style(entry: EpisodeEntry) -> str:
    """Return the style for the reason why an episode ended."""
    return "bold $error" if entry.failed else "$success" if entry.stop == "done" else "$warning"


def head_lines(entry: EpisodeEntry, transcript: Transcript | None) -> list[Content]:
    """Return the lines of the head.

    Reward and parts, end of the episode, times, tokens, and its error.
    """
    first: list[Any] = [(f"reward {reward_text(entry.reward)}", "bold $primary")]
    for name, value in entry.parts.items():
        first += [("  " + clean_line(name, 40).replace("_", " ") + " ", _MUTED), f"{value:.3g}"]
    second: list[Any] = [
        (clean_line(stop_words(entry.stop), 60) or "no reason given", stop_style(entry)),
        f"  {plural(entry.turns, 'turn')}",
    ]
    if entry.seconds is not None:
        second.append(f"  {time_text(entry.seconds)}")
    if transcript is not None and (parts := _timings(transcript.seconds)):
        second.append((f" ({parts})", _MUTED))
    if entry.tokens is not None:
        both = entry.prompt_tokens is not None and entry.completion_tokens is not None
        split = f" ({entry.prompt_tokens:,} + {entry.completion_tokens:,})" if both else ""
        second.append(f"  {entry.tokens:,} tokens{split}")
    lines = [Content.assemble(*first), Content.assemble(*second)]
    error = (transcript.error if transcript is not None else None) or entry.error
    if error:
        lines.append(Content.styled("✗ " + clean_line(error, 600), "$error"))
    return lines


def _timings(seconds: Mapping[str, float]) -> str:
    named = [
        (name, value)
        for name, value in seconds.items()
        if name != "total" and isinstance(value, int | float) and value >= 0.001
    ]
    return ", ".join(f"{clean_line(name, 20)} {time_text(value)}" for name, value in named)


def time_text(seconds: float) -> str:
    """Return a duration in seconds as text; below one second, in milliseconds."""
    return span(seconds) if seconds >= 1 else f"{seconds * 1000:.0f} ms"


_plain_line = lru_cache(maxsize=2048)(Content)
"""Returns a line without style. It is cached, because most lines of an episode, such as those of
boards, occur repeatedly."""


class _Lines:
    """Collects lines, and marks the matches of a search."""

    def __init__(self, wanted: re.Pattern[str] | None) -> None:
        self.lines: list[Content] = []
        self.found: list[int] = []
        self._wanted = wanted

    def add(self, line: Content) -> None:
        if "\t" in line.plain:
            line = line.expand_tabs()
        if self._wanted is not None and (
            hits := [match.span() for match in self._wanted.finditer(line.plain) if match[0]]
        ):
            self.found.append(len(self.lines))
            for start, end in hits:
                line = line.stylize("bold reverse", start, end)
        self.lines.append(line)

    def text(
        self,
        text: str,
        style: str = "",
        *,
        lead: str = "",
        spans: Iterable[tuple[int, int, str]] = (),
    ) -> None:
        """Add a text that may have several lines; `spans` are styled ranges of its characters."""
        cut = len(text) > LONGEST
        ranges, place = list(spans), 0
        for line in text[:LONGEST].split("\n"):
            ends, begin = place + len(line), len(lead)
            parts = [Span(begin, begin + len(line), style)] if style and line else []
            for start, end, own in ranges:
                if max(start, place) < min(end, ends):
                    parts.append(
                        Span(begin + max(start - place, 0), begin + min(end, ends) - place, own)
                    )
            self.add(Content(lead + line, parts) if parts else _plain_line(lead + line))
            place = ends + 1
        if cut:
            more = f"{lead}… {len(text) - LONGEST:,} more characters; the record shows all"
            self.lines.append(Content.styled(more, _MUTED))


Picture = Callable[["TranscriptImage"], Sequence[Content]]
"""Returns an image as lines; an empty list if it is not shown."""


def turn_page(
    transcript: Transcript,
    *,
    beside: Beside | None = None,
    wanted: re.Pattern[str] | None = None,
    picture: Picture = lambda image: (),
    hint: str = "",
    most: int | None = None,
    folded: bool = False,
) -> TranscriptPage:
    """Return the opening, each reply with its calls and the answer, and the end.

    Args:
        transcript: The episode.
        beside: How it differs from another episode; the differences are marked.
        wanted: The pattern whose matches are marked.
        picture: Returns an image as lines.
        hint: Text for the note of the first image: how to open it.
        most: Number of lines after which the remaining turns are left out; None for the whole
            episode.
        folded: Show thoughts on one line, calls without their marks, and the beginnings of answers;
            see `folds`.
    """
    out = _Lines(wanted)
    starts: list[int] = []
    images = images_by_turn(transcript)
    dialect = _dialect_of(transcript)
    folded = folded and folds(transcript) and beside is None and wanted is None

    def add_images(turn: int) -> None:
        for number, image in images.get(turn, ()):
            more = f"; {hint}" if hint and number == 1 else ""
            out.add(Content.styled(f"  [image {number}: {describe_image(image)}{more}]", _MUTED))
            out.lines += [Content("  ") + line for line in picture(image)]

    for message, title in zip(transcript.opening, transcript.opening_titles, strict=True):
        role = message.get("role")
        out.add(Content.styled(f"─ {clean_line(title, 40)}", f"bold {_MUTED}"))
        lines = clean(content_text(message.get("content"))).rstrip().split("\n")
        shown = (
            _OPENING
            if role == "system" and wanted is None and len(lines) > _OPENING + 2
            else len(lines)
        )
        out.text("\n".join(lines[:shown]))
        if shown < len(lines):
            out.add(
                Content.styled(
                    f"… {len(lines) - shown:,} more lines; the messages show all", _MUTED
                )
            )
    add_images(0)
    for turn in transcript.turns[:MOST_TURNS]:
        out.add(_plain_line(""))
        starts.append(len(out.lines))
        out.add(_turn_title(turn, beside.turn(turn.number) if beside is not None else None))
        if folded:
            _add_reply(out, turn, dialect)
            _add_answer(out, turn, (), most=_ANSWER)
        else:
            _add_turn(out, turn, beside, dialect)
        add_images(turn.number)
        left = len(transcript.turns) - len(starts)
        if most is not None and len(out.lines) >= most and left:
            more = (len(out.lines) - starts[0]) * min(left, MOST_TURNS) // len(starts)
            return TranscriptPage(tuple(out.lines), tuple(starts), tuple(out.found), more)
    _say_more(out, len(transcript.turns) - MOST_TURNS, "turn")
    out.add(Content(""))
    out.add(Content.styled("─ end", f"bold {_MUTED}"))
    stop = clean_line(transcript.entry.stop, 200) or "no reason given"
    out.add(Content.styled(stop, stop_style(transcript.entry)))
    if transcript.error:
        out.text(clean(transcript.error), "$error")
    for part in transcript.judged:
        out.text(part.line())
    for name, value in transcript.own.items():
        out.text(own_line(name, value))
    if transcript.evaluation is not None:
        told = (
            transcript.evaluation
            if isinstance(transcript.evaluation, str)
            else dumps(transcript.evaluation)
        )
        out.add(Content.styled("evaluation", _MUTED))
        out.text(clean(told))
    return TranscriptPage(tuple(out.lines), tuple(starts), tuple(out.found))


def _say_more(out: _Lines, count: int, noun: str) -> None:
    if count > 0:
        out.add(Content.styled(f"… {plural(count, f'more {noun}')}; the record shows all", _MUTED))


def _turn_title(turn: TranscriptTurn, differs: TurnDiff | None) -> Content:
    text = f"─ turn {turn.number}"
    spans = [Span(0, len(text), "bold $primary")]

    def add(more: str, style: str) -> None:
        nonlocal text
        spans.append(Span(len(text), len(text) + len(more), style))
        text += more

    if differs is not None:
        add(f"  ≠ {', '.join(differs.fields) or 'only here'}", "bold $warning")
    if timings := _timings(turn.seconds):
        add(f"  {timings}", _MUTED)
    if turn.tokens:
        add(f"  {' + '.join(f'{count:,}' for count in turn.tokens.values())} tokens", _MUTED)
    return Content(text, spans)


def _add_turn(out: _Lines, turn: TranscriptTurn, beside: Beside | None, dialect: Dialect) -> None:
    def changed(name: Literal["reply", "observation"]) -> list[tuple[int, int, str]]:
        return (
            []
            if beside is None
            else [(start, end, _CHANGED) for start, end in beside.changed(turn.number, name)]
        )

    if turn.thought:
        out.text(clean(turn.thought), _MUTED)
    reply = clean(turn.reply)
    if reply:
        out.text(reply, spans=[*_thoughts(reply, dialect), *changed("reply")])
    _add_answer(out, turn, changed("observation"))


def _add_answer(
    out: _Lines,
    turn: TranscriptTurn,
    spans: Iterable[tuple[int, int, str]],
    *,
    most: int | None = None,
) -> None:
    """Add the calls of a turn, and what the agent was shown; of that at most so many lines."""
    for call in turn.calls:
        out.add(_call_text(call))
    if (
        not turn.calls
        and turn.interpretation is not None
        and not turn.is_error
        and turn.interpretation.get("done")
    ):
        out.add(Content.styled("→ the agent declared the task done", "$accent"))
    if turn.observation:
        style, lead = ("$error", "✗ ") if turn.is_error else ("", "  ")
        lines = clean(turn.observation).split("\n")
        left = 0 if most is None or len(lines) <= most + 2 else len(lines) - most
        out.text("\n".join(lines[: len(lines) - left]), style, lead=lead, spans=spans)
        if left:
            out.add(Content.styled(f"  … {plural(left, 'more line')}", _MUTED))
    elif turn.is_error:
        out.add(Content.styled("✗ no answer", "$error"))


def folds(transcript: Transcript) -> bool:
    """Return whether an episode can be folded: its calls have marks that are no text to read."""
    return _dialect_of(transcript).name != DEFAULT


def _add_reply(out: _Lines, turn: TranscriptTurn, dialect: Dialect) -> None:
    """Add a reply with its thought on one line, and without the marks of its calls."""
    reply = clean(turn.reply)
    parts = dialect.read(reply, True).parts
    open_thought = next((part.start for part in parts.spans if part.kind == "unclosed"), None)
    thought = clean(turn.thought) or parts.think or ""
    if not thought and open_thought is not None:
        thought = reply[open_thought:]
    said = dialect.spoken(reply)
    said = "" if said == parts.tool else said
    if thought:
        out.add(_folded("thought", thought))
    if said:
        out.text(said)
    if parts.tool and not turn.calls:
        out.add(_folded("call", parts.tool))
    if reply.strip() and not (thought or said or parts.tool):
        out.text(reply)


def _folded(what: str, text: str) -> Content:
    """A text on one line, with the number of its lines."""
    lines = text.strip().count("\n") + 1
    more = f" ({lines} lines)" if lines > 1 else ""
    return Content.styled(f"… {what}: {clean_line(text, _FOLDED)}{more}", _MUTED)


def _dialect_of(transcript: Transcript) -> Dialect:
    """The dialect in which an episode's replies were read; `text` where the record names none."""
    return DIALECTS.get(str(transcript.info.get("dialect")), DIALECTS[DEFAULT])


def _thoughts(reply: str, dialect: Dialect) -> list[tuple[int, int, str]]:
    """The thoughts of a reply as they count; one that is not closed reaches to the end."""
    spans = [
        part
        for part in dialect.read(reply, True).parts.spans
        if part.kind == "think" or reply.startswith("<think>", part.start)
    ]
    return [
        (part.start, part.end if part.kind == "think" else len(reply), _MUTED) for part in spans
    ]


def _call_text(call: TranscriptCall) -> Content:
    """Return a call as source text: its name, and its arguments."""
    if isinstance(call.arguments, str):
        told = clean_line(call.arguments, _CALL)
    else:
        told = ", ".join(f"{name}={dumps(value)}" for name, value in call.arguments.items())
    return _call_line(clean_line(call.name, 120), clean_line(told, _CALL))


@lru_cache(maxsize=1024)
def _call_line(name: str, told: str) -> Content:
    return Content.assemble(("→ ", "bold $accent"), (name, "bold"), f"({told})")


def message_text(message: Mapping[str, Any]) -> str:
    """Return the text of a message in OpenAI's form, with a note for each image."""
    content = message.get("content")
    return "\n".join(
        [
            content_text(content),
            *(f"[image {describe_image(image)}]" for image in content_images(content)),
        ]
    )


def message_page(transcript: Transcript, wanted: re.Pattern[str] | None = None) -> TranscriptPage:
    """Return the whole conversation as the model saw it. Each reply counts as a turn."""
    out = _Lines(wanted)
    starts: list[int] = []
    for tool in transcript.tools:
        inner = tool.get("function")
        told = inner if isinstance(inner, Mapping) else tool
        out.add(
            Content.assemble(("tool ", _MUTED), (clean_line(str(told.get("name", "")), 80), "bold"))
        )
        out.text(clean_line(str(told.get("description") or ""), 400), _MUTED)
    for message in transcript.messages[:MOST_TURNS]:
        role = clean_line(str(message.get("role", "")), 40)
        if out.lines:
            out.add(_plain_line(""))
        if role == "assistant":
            starts.append(len(out.lines))
        out.add(
            Content.styled(
                f"─ {role}", "bold $primary" if role == "assistant" else f"bold {_MUTED}"
            )
        )
        text = clean(message_text(message))
        out.text(
            text, spans=_thoughts(text, _dialect_of(transcript)) if role == "assistant" else ()
        )
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            out.add(Content.assemble(("→ ", "bold $accent"), clean_line(dumps(call), _CALL)))
    _say_more(out, len(transcript.messages) - MOST_TURNS, "message")
    return TranscriptPage(tuple(out.lines), tuple(starts), tuple(out.found))
