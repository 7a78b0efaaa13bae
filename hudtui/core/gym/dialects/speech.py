"""Replies without their thoughts."""

from __future__ import annotations

import re
from typing import NamedTuple

from hudtui.core.gym.dialects.objects import Fault, decode
from hudtui.core.gym.reply import Reply, TagSpan

THINK, THINK_END = "<think>", "</think>"

UNCLOSED = (
    "the <think> tag is not closed, so all after it is thought; close it, and write the call after "
    "</think>"
)

TORN = "a text in the call holds </think>, which ends a thought; write it as \\u003c/think>"

_OBJECT = re.compile(
    r"<tool_call>\s*+(?=\{)|\[TOOL_CALLS\][^{\[<]{0,200}+(?=[{\[])|<\|message\|>\s*+(?=\{)"
    r"|```[\w-]*+\s*+(?=[{\[])|\A\s*+(?=[{\[])"
)
"""What stands before the JSON of a call, in any dialect."""
_MOST_OBJECTS = 64

CUT = "the reply is cut off where a tool call begins"

_CALL = re.compile(
    r"<[^\s<>]{0,30}(?:tool|function|START_ACTION)|\[TOOL_CALLS|<\|(?:channel|python_tag|start)\|"
    r'|"(?:arguments|parameters)"\s*+:'
)
"""What begins a call in the template of any model, also of those that no dialect reads."""
_CUT_MARKS = (
    *(THINK, THINK_END, "<tool_call>", "[TOOL_CALLS]", "<function"),
    *("<|channel|>", "<|python_tag|>", "<|start|>"),
)


class Speech(NamedTuple):
    """Where the speech of a reply begins, and the thought before it."""

    think: str | None
    start: int
    spans: tuple[TagSpan, ...]
    torn: bool = False
    """True if the end of the thought may be a text in a call: then no call counts."""


def speech_of(text: str) -> Speech:
    """Return the speech of a reply: what stands behind its first `</think>`.

    All before that is thought, also where a chat template has opened it. Later thoughts are still
    in it.
    """
    end = text.find(THINK_END)
    if end < 0:
        return Speech(None, 0, ())
    opened = max(text.find(THINK, 0, end), 0)
    think = text[opened:end].removeprefix(THINK).strip()
    stop = end + len(THINK_END)
    spans = (TagSpan("think", opened, stop),)
    return Speech(think, stop, spans, _inside_object(text, end))


def _inside_object(text: str, place: int) -> bool:
    """True if a place is inside the JSON of a call, or may be: in one that breaks behind it."""
    at = 0
    for _ in range(_MOST_OBJECTS):
        match = _OBJECT.search(text, at, place)
        if match is None:
            return False
        at = match.end()
        try:
            at = max(at, decode(text, at).end)
        except Fault as fault:
            if fault.cut or fault.at is None or fault.at > place:
                return True
        if at > place:
            return True
    return True


def call_mark(text: str) -> int | None:
    """Return the place of the first mark of a call, wherever it stands; None without one."""
    match = _CALL.search(text)
    return None if match is None else match.start()


def is_cut(text: str) -> bool:
    """Return True if a text ends inside the mark of a call or of a thought."""
    return any(text.endswith(mark[:size]) for mark in _CUT_MARKS for size in range(1, len(mark)))


def outside(text: str, parts: Reply) -> str:
    """Return what a reply says outside of its spans; its tool text where it says nothing."""
    pieces, at = [], 0
    for span in sorted(parts.spans, key=lambda span: span.start):
        pieces.append(text[at : span.start].strip())
        at = len(text) if span.kind == "unclosed" else max(at, span.end)
    pieces.append(text[at:].strip())
    return " ".join(filter(None, pieces)) or parts.tool or ""
