"""The dialect of models that call tools by themselves, and the one that takes any form.

An endpoint that is sent tools answers with calls apart from the text; a chat template that is given
tools lets the model write them in a form of its own. `native` reads the forms of templates, and
`message_text` writes an endpoint's message as a reply in one of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hudtui.core.gym.dialects.blocks import Scan, reading, scan
from hudtui.core.gym.dialects.dialect import Read, Reading
from hudtui.core.gym.dialects.harmony import CHANNEL, read_harmony, spoken_harmony
from hudtui.core.gym.dialects.marked import (
    CLOSE,
    FENCE,
    OPEN,
    begins_bare,
    read_bare,
    read_hermes,
    read_json,
    read_mistral,
    read_plain_hermes,
    read_plain_json,
    write_hermes,
)
from hudtui.core.gym.dialects.objects import named_call, skip_blanks
from hudtui.core.gym.dialects.speech import (
    CUT,
    THINK,
    THINK_END,
    Speech,
    call_mark,
    is_cut,
    outside,
    speech_of,
)
from hudtui.core.gym.reply import (
    Call,
    ParseFailure,
    TagSpan,
    parse_call,
    split_reply,
    spoken,
)

_new = tuple.__new__
_PYTHON = "<|python_tag|>"
_MISTRAL = "[TOOL_CALLS]"
_MARKS = re.compile(r"<tool_call>|\[TOOL_CALLS\]|<\|channel\|>|<\|python_tag\|>|<think>")
_THINK = re.compile(THINK)
_UNREAD = (
    "there is the mark of a tool call in the reply, but no call that can be read; call a tool, or "
    "end with a reply without such marks"
)
_BEGUN = re.compile(r'[\[{\s]*+(?:"|\Z)').match
"""The beginning of an object, even if the rest of it is missing."""
_FENCE = "```"
_ANY_MARK = re.compile(rf"{_MARKS.pattern}|<tool>|{FENCE}", re.MULTILINE)
_PLAIN_TEXT = re.compile(
    r"(?:<think>[^<`\[{]*+</think>)?[^<`\[{]*+<tool>[^<]*+</tool>\s*+"
).fullmatch
"""A plain reply in `text`: no other mark can stand before its call."""
_OWN_READERS: Mapping[str, Read] = {
    OPEN: read_hermes,
    _MISTRAL: read_mistral,
    CHANNEL: read_harmony,
}
_IN_TEXT = re.compile(r"</?tool(?:_call)?>|\[TOOL_CALLS\]|<\|\w+\|>|^[ \t]*+```", re.MULTILINE)
"""Marks of calls in any dialect, which `auto` reads."""


def read_text(text: str, thinking: bool) -> Reading:
    """Read a reply with a call in `<tool>` and `</tool>`."""
    parts = split_reply(text, thinking)
    calls = () if parts.tool is None else (parse_call(parts.tool),)
    return _new(Reading, (parts, calls, False))


def _mark(text: str, start: int, marks: re.Pattern[str]) -> str:
    """The first mark of a call in a reply's speech; `<think>` for a thought that is not closed."""
    at = start
    while (match := marks.search(text, at)) is not None:
        if match[0] != THINK:
            return match[0]
        at = text.find(THINK_END, match.end())
        if at < 0:
            return THINK
    return ""


def read_native(text: str, thinking: bool) -> Reading:
    """Read a reply in the form of its model's template.

    A reply without a call ends the episode: that is how such models end their work. One with a call
    in its thought, with half a call, or with one in a form that is not read here does not. No
    thought is expected, because endpoints may keep it to themselves.
    """
    if (plain := read_plain_hermes(text, False)) is not None:
        return plain
    speech = speech_of(text)
    start = skip_blanks(text, speech.start)
    mark = "{" if begins_bare(text, start) else _mark(text, speech.start, _MARKS)
    if mark in _OWN_READERS:
        return _OWN_READERS[mark](text, False)
    scanned = Scan()
    if mark == _PYTHON:
        scanned = read_bare(text, skip_blanks(text, text.index(mark, start) + len(mark)))
    elif mark == "{":
        scanned = read_bare(text, start)
        if not _MARKS.search(text, start) and not (_has_call(scanned) or _broken(text, scanned)):
            scanned = Scan()  # an answer in JSON
    elif mark == THINK:
        scanned = Scan([], [TagSpan("unclosed", start, len(text))], True)
    else:
        scanned = scan(text, speech.start, _THINK, lambda text, match: ((), match.end()))
    at = call_mark(text)
    in_thought = at is not None and _thought_has(speech, scanned, at)
    missing = "" if at is None else _UNREAD
    if not in_thought and is_cut(text):
        missing = CUT
    found = reading(text, speech, scanned, thinking=False, missing=missing, in_thought=in_thought)
    return found._replace(ends=not found.calls and not found.parts.problem)


def _thought_has(speech: Speech, scanned: Scan, at: int) -> bool:
    """True if a place is in one of a reply's thoughts."""
    return at < speech.start or any(span.start <= at < span.end for span in scanned.spans)


def _broken(text: str, scanned: Scan) -> bool:
    """True if there is an object that has no end."""
    return any(not one.whole and _BEGUN(text, one.begin) for one in scanned.blocks)


def _has_call(scanned: Scan) -> bool:
    return any(isinstance(block.call, Call) for block in scanned.blocks)


def read_any(text: str, thinking: bool) -> Reading:
    """Read a reply in the dialect of the first mark in its speech."""
    if _PLAIN_TEXT(text) is not None:
        return read_text(text, thinking)
    if (plain := read_plain_hermes(text, thinking)) is not None:
        return plain
    if _MISTRAL not in text and (plain := read_plain_json(text, thinking)) is not None:
        return plain
    speech = speech_of(text)
    if speech.torn:
        return reading(text, speech, Scan(), thinking=thinking, missing="")
    mark = _any_mark(text, speech.start)
    if mark in (*_OWN_READERS, _PYTHON):
        read = _OWN_READERS.get(mark, read_native)
        return read(text, thinking)
    if mark in ("{", _FENCE):
        found = read_json(text, thinking)
        if found.calls:
            return found
    return read_text(text, thinking)


def _any_mark(text: str, start: int) -> str:
    """The first mark in a reply's speech, which begins at `start`; empty without one."""
    if begins_bare(text, skip_blanks(text, start)):
        return "{"
    return _mark(text, start, _ANY_MARK).lstrip()


def spoken_native(text: str) -> str:
    """Return what a reply says beside thoughts and calls."""
    found = read_native(text, False).parts
    return spoken_harmony(text) if CHANNEL in text else outside(text, found)


def spoken_any(text: str) -> str:
    """Return what a reply says beside thoughts and calls, in the dialect of its first mark."""
    mark = _any_mark(text, speech_of(text).start)
    if mark in (*_OWN_READERS, _PYTHON):
        return spoken_native(text)
    return outside(text, read_json(text, False).parts) if mark in ("{", _FENCE) else spoken(text)


def message_text(said: str, calls: Any, *, thought: str = "") -> str:
    """Return an endpoint's message as a reply in `native`.

    Args:
        said: The text of the message.
        calls: Its `tool_calls`, as they came. Where there are some, no mark of a call in the text
            counts beside them.
        thought: What the endpoint names as the model's reasoning.
    """
    parts = [thought] if thought else []
    listed = calls if isinstance(calls, list) else []
    if listed:
        said = _IN_TEXT.sub(lambda mark: f"({mark[0].strip('<|>[]')})", said)
        said = f"({said})" if begins_bare(said, skip_blanks(said, 0)) else said
    if said:
        parts.append(said)
    return "\n".join((*parts, *map(_spelled, listed)))


def _spelled(entry: Any) -> str:
    """A call of an endpoint between tags; with arguments as they are where they cannot be read."""
    function = entry.get("function") if isinstance(entry, Mapping) else None
    function = function if isinstance(function, Mapping) else {}
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(name, str) and name:
        call = named_call(name, arguments)
        if not isinstance(call, ParseFailure):
            return write_hermes(name, call.kwargs)
    raw = json.dumps({"name": name, "arguments": arguments}, default=str)
    return f"{OPEN}\n{raw.replace('<', chr(92) + 'u003c')}\n{CLOSE}"
