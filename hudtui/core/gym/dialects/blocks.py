"""Calls in a reply's speech, from their marks to a reading."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hudtui.core.gym.dialects.dialect import Reading
from hudtui.core.gym.dialects.objects import Fault, call_of, decode, named_call, skip_blanks
from hudtui.core.gym.dialects.speech import THINK, THINK_END, TORN, UNCLOSED, Speech
from hudtui.core.gym.reply import Call, ParseFailure, Reply, TagSpan

MOST_CALLS = 64
"""Calls of a reply that are read; a model that writes more is running away."""

_new = tuple.__new__


class Block(NamedTuple):
    """One call in a reply, and the place of its text and of the marks around it."""

    call: Call | ParseFailure
    start: int
    begin: int
    """Where its text begins, behind the mark."""
    stop: int
    end: int
    """Where reading goes on, behind the closing mark."""
    whole: bool
    """True if both marks are there."""


ReadBlocks = Callable[[str, re.Match[str]], "tuple[Sequence[Block], int]"]
"""Reads what stands behind a mark: its calls, and where reading goes on."""


@dataclass
class Scan:
    """The calls of a reply's speech, from its first mark on."""

    blocks: list[Block] = field(default_factory=list)
    spans: list[TagSpan] = field(default_factory=list)
    unclosed: bool = False
    """True if a thought is not closed: all behind it is thought."""


def scan(text: str, start: int, marks: re.Pattern[str], read: ReadBlocks) -> Scan:
    """Read the calls of a reply's speech; `marks` matches what begins one, and `<think>`."""
    result = Scan()
    at = start
    while len(result.blocks) < MOST_CALLS and (match := marks.search(text, at)) is not None:
        if match[0] != THINK:
            blocks, at = read(text, match)
            result.blocks += blocks
            if any(isinstance(block.call, ParseFailure) for block in blocks):
                break  # what looks like a call behind it may be a text inside it
            continue
        end = text.find(THINK_END, match.end())
        if end < 0:
            result.unclosed = True
            result.spans.append(TagSpan("unclosed", match.start(), match.end()))
            break
        at = end + len(THINK_END)
        result.spans.append(TagSpan("think", match.start(), at))
    return result


def closed_object(text: str, start: int, begin: int, close: str) -> Block:
    """Read the JSON object between a mark, which ends at `begin`, and the mark that closes it."""
    at = skip_blanks(text, begin)
    try:
        value, stop = decode(text, at)
    except Fault as fault:
        return _broken(text, start, at, close, fault)
    after = skip_blanks(text, stop)
    if text.startswith(close, after):
        return _new(Block, (call_of(value), start, at, stop, after + len(close), True))
    why = f"the call is not closed: {close} is missing"
    if after < len(text):
        why = f"expected {close} behind the object"
    return _broken(text, start, at, close, Fault(why, after))


def _broken(text: str, start: int, at: int, close: str, fault: Fault) -> Block:
    column = 1 if fault.at is None else fault.at - at + 1
    failure = ParseFailure(fault.message, column)
    stop = text.find(close, max(at, fault.at or 0))
    if stop < 0:
        return Block(failure, start, at, len(text), len(text), False)
    return Block(failure, start, at, stop, stop + len(close), True)


def reading(
    text: str,
    speech: Speech,
    scanned: Scan,
    *,
    thinking: bool,
    missing: str,
    in_thought: bool = False,
) -> Reading:
    """Make the reading of what was scanned.

    Args:
        text: The reply.
        speech: Where its speech begins.
        scanned: The calls in it.
        thinking: A thought is expected.
        missing: What is wrong with a reply without a call.
        in_thought: The thought has the mark of a call.
    """
    think, spans, blocks = speech.think, [*speech.spans, *scanned.spans], scanned.blocks
    if not blocks or speech.torn:
        problem = missing
        if speech.torn:
            problem = TORN
        elif scanned.unclosed:
            problem = UNCLOSED
        elif in_thought:
            problem = "the call is in the thought; write it after </think>"
        return Reading(Reply(think, None, 0, tuple(spans), False, None, problem))
    first, extra = blocks[0], len(blocks) - 1
    spans.append(_new(TagSpan, ("tool", first.start, first.end)))
    spans += (TagSpan("extra", block.start, block.end) for block in blocks[1:])
    tool = text[first.begin : first.stop].rstrip()
    tags = first.whole and (think is not None or not thinking)
    parts = _new(Reply, (think, tool, extra, tuple(spans), tags, first.begin, None))
    return _new(Reading, (parts, tuple([block.call for block in blocks]), False))


PLAIN_THOUGHT = r"\s*+(?:(<think>([^<{\[]*+)</think>)\s*+)?"
"""The beginning of the pattern of a plain reply: a thought or none.

In one with a bracket its end may be a text inside the JSON of a call."""


def plain_reading(
    text: str, match: re.Match[str], *, thinking: bool, name: str | None = None
) -> Reading | None:
    """Read a plain reply: a thought or none, and one call, with no other mark.

    Most replies are of this kind, so it has a way of its own, and equals `reading`.

    Args:
        text: The reply.
        match: Its thought with tags, its thought, its call with marks, and the JSON of the call.
        thinking: A thought is expected.
        name: The name of the call, where the JSON has its arguments alone.

    Returns:
        The reading; None where there is more to it.
    """
    begin, end = match.span(4)
    try:
        value, stop = decode(text, begin)
    except Fault:
        return None
    if stop != end and skip_blanks(text, stop) != end:
        return None
    call = call_of(value) if name is None else named_call(name, value)
    think = match[2]
    spans: tuple[TagSpan, ...] = (_new(TagSpan, ("tool", *match.span(3))),)
    if think is not None:
        think = think.strip()
        spans = (_new(TagSpan, ("think", *match.span(1))), *spans)
    tags = think is not None or not thinking
    parts = _new(Reply, (think, text[begin:stop], 0, spans, tags, begin, None))
    return _new(Reading, (parts, (call,), False))
