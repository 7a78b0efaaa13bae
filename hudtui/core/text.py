"""Text that came from elsewhere, made safe to show.

Logs, tool results, descriptions and error texts are written by servers that nobody vouches for. Whatever reaches a terminal or
a widget goes through `clean` first, so that no control sequence of theirs is ever carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI, 7 bit
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI, 8 bit
    # OSC, DCS, SOS, PM, APC with their payload. Without an end on the same line only the opening goes: text that merely looks
    # like one (a quotation mark in the wrong encoding holds 0x9d) must not swallow the rest of a log.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x80-\x9f\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"  # everything else that starts with ESC
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_SEPARATORS = re.compile("[\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_HIDDEN = re.compile("|".join(one.pattern for one in (_CONTROL, _SEPARATORS, _SURROGATES)))


def clean(text: str) -> str:
    """`text` without control sequences, control characters (tab and newline stay), direction overrides and invisible tags.

    A carriage return ends the text before it on its line, as a terminal would show it; CRLF counts as a newline, and so do the
    separators U+2028 and U+2029. Half characters (lone surrogates), which no terminal can be sent, become U+FFFD.
    """
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    if "\x1b" in text or _has_c1(text):
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(_fold_returns(line) for line in text.split("\n"))
    text = _SURROGATES.sub("\ufffd", _SEPARATORS.sub("\n", text))
    return _CONTROL.sub("", text)


def clean_line(text: str, limit: int | None = None) -> str:
    """`clean` for a place that holds one line.

    Runs of white space become one blank; what goes beyond `limit` characters is cut, with an ellipsis.
    """
    line = " ".join(clean(text[: limit * 8] if limit else text).split())
    return line if limit is None or len(line) <= limit else line[: max(limit - 1, 0)] + "…"


def dump_json(value: Any, *, indent: int | None = None) -> str:
    r"""JSON that may be sent to a terminal: nothing is lost, and what `clean` would take out stands there as `\uXXXX`."""
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return text if text.isascii() and "\x7f" not in text else _HIDDEN.sub(lambda found: json.dumps(found[0])[1:-1], text)


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that `word` is probably a slip of, for "did you mean ...?"; None if none is near.

    Args:
        word: What was written.
        known: What could have been meant.
        cutoff: How alike they must be, from 0 to 1.
    """
    import difflib

    return next(iter(difflib.get_close_matches(word, list(known), 1, cutoff)), None)


def _has_c1(text: str) -> bool:
    return any(mark in text for mark in "\x90\x98\x9b\x9d\x9e\x9f")


def _fold_returns(line: str) -> str:
    kept = line.rstrip("\r").rpartition("\r")[2]
    return kept if kept else line.rstrip("\r")


def plural(count: int, noun: str) -> str:
    """A number with what it counts, such as `1 task` or `2,000 tasks`; for nouns that only take an `s`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """A length of time for people: `3 d 4 h`, `2 h 05 min`, `7 min`, `12 s`; a dash where unknown."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min" if minutes else f"{rest} s"
