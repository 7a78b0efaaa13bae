"""Text: foreign text made safe to show, near misses of words, counts and durations.

Logs, tool results, descriptions and error texts come from servers that need not be trusted. All of
it goes through `clean` before it reaches a terminal or a widget, so that none of its control
sequences is ever executed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MASK = "••••"
"""Text that is shown in place of a secret."""

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI, 7 bit
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI, 8 bit
    # OSC, DCS, SOS, PM, APC with their payload. Without an end on the same line only the opening
    # goes: text that merely looks like one (a quotation mark in the wrong encoding holds 0x9d) must
    # not swallow the rest of a log.
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x80-\x9f\n]*+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]?"  # everything else that starts with ESC
)
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_SEPARATORS = re.compile("[\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")
_LONGEST_WORD = 80
_HIDDEN = re.compile("|".join(one.pattern for one in (_CONTROL, _SEPARATORS, _SURROGATES)))
_BLANK = re.compile(
    # Characters that count as printable, and of which a terminal shows nothing: fillers of Hangul,
    # the grapheme joiner, signs of Khmer, variation selectors, the empty Braille pattern.
    r"[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001d159\U000e0000-\U000e0fff]"
)
_OBEYED = re.compile(f"[\\t\\n\u206a-\u206f\ufff9-\ufffb]|{_CONTROL.pattern}|{_SEPARATORS.pattern}")
_TRACEBACK = "Traceback (most recent call last):"
_WIDE_GAP = re.compile(" {9,}")


def clean(text: str) -> str:
    """Return `text` without what a terminal would obey or hide.

    That is control sequences, control characters (tab and newline stay), direction overrides and
    invisible tags.

    A carriage return ends the text before it on its line, as a terminal would show it; CRLF counts
    as a newline, and so do the separators U+2028 and U+2029. Half characters (lone surrogates),
    which no terminal can be sent, become U+FFFD.
    """
    if text.replace("\n", "").isprintable():
        return text
    text = text.replace("\r\n", "\n")
    if "\x1b" in text or _has_c1(text):
        text = _SEQUENCE.sub("", text)
    if "\r" in text:
        text = "\n".join(_fold_returns(line) for line in text.split("\n"))
    text = _SURROGATES.sub("\ufffd", _SEPARATORS.sub("\n", text))
    return _CONTROL.sub("", text)


def clean_line(text: str, limit: int | None = None) -> str:
    """`clean`, on one line.

    White space becomes one blank, and a line of more than `limit` characters ends with an ellipsis.
    """
    line = " ".join(clean(text[: limit * 8] if limit else text).split())
    return line if limit is None or len(line) <= limit else line[: max(limit - 1, 0)] + "…"


def failure_text(message: str, limit: int = 1000) -> str | None:
    """Return the end of what a program printed about its failure, at most `limit` characters.

    None if it printed nothing. Of a Python traceback only the error is returned: the frames are
    those of a program that the reader does not know.
    """
    before, traceback, frames = message.rpartition(_TRACEBACK)
    if traceback:
        lines = [line for line in frames.splitlines() if line.strip()]
        error = next((at for at, line in enumerate(lines) if not line.startswith(" ")), None)
        message = "\n".join(lines[error:]) if error is not None else before
    return clean(message.strip()[-limit:]).strip() or None


def in_full(text: str) -> str:
    r"""`text` whole, on one line, for a question about it.

    What a terminal obeys or does not show is there as `\xXX` or `\uXXXX`.
    Many blanks in a row, which could move what follows out of sight, become their number.
    """
    if not text.isprintable() or _BLANK.search(text):
        text = "".join(map(_escaped, text))
    return _WIDE_GAP.sub(lambda gap: f" [{len(gap[0]):,} blanks] ", text)


def _escaped(letter: str) -> str:
    if letter.isprintable() and not _BLANK.match(letter):
        return letter
    code = ord(letter)
    return {9: r"\t", 10: r"\n", 13: r"\r"}.get(code) or (
        rf"\x{code:02x}" if code < 256 else rf"\u{code:04x}" if code < 0x10000 else rf"\U{code:08x}"
    )


def signs(text: str) -> str:
    """Return `text` with one visible sign for each character that an editor could not show.

    A terminal obeys those characters or does not show them.

    It is as long as `text`. Tabs, line ends and other blanks stay, and so does what joins the parts
    of a pictograph.
    """
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(_sign(text, place) for place in range(len(text)))


def _sign(text: str, place: int) -> str:
    letter = text[place]
    if letter in "\t\n" or (letter.isprintable() and not _BLANK.match(letter)):
        return letter
    kind = unicodedata.category(letter)
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    picture = not before.isascii() and unicodedata.category(before) in (
        "So",
        "Sk",
        "Sm",
        "Po",
        "Mn",
    )
    if kind == "Zs" or (letter == "\ufe0f" and (picture or after == "\u20e3")):
        return letter
    if letter == "\u200d" and picture and after and unicodedata.category(after) == "So":
        return letter
    code = ord(letter)
    return chr(0x2400 + code) if code < 32 else "\u2421" if code == 127 else "\ufffd"


def unobeyed(text: str) -> str:
    """`text` without any character that a terminal obeys, tabs and line ends included.

    The last filter before a terminal.
    """
    return text if text.isprintable() else _OBEYED.sub("", _SURROGATES.sub("\ufffd", text))


def home_short(folder: Path) -> str:
    """Return a path as people write it: `~/x` for what lies in the home folder."""
    text = clean_line(str(folder))
    home = str(Path.home())
    return "~" + text[len(home) :] if text == home or text.startswith(home + "/") else text


def seen_from(folder: Path, text: str) -> str:
    """Return a text for someone who is in a folder: paths inside it are relative."""
    return text.replace(f"{folder}/", "")


def dump_json(value: Any, *, indent: int | None = None) -> str:
    r"""JSON that may be sent to a terminal.

    Nothing is lost, and what `clean` would take out stands there as `\uXXXX`.
    """
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    return (
        text
        if text.isascii() and "\x7f" not in text
        else _HIDDEN.sub(lambda match: json.dumps(match[0])[1:-1], text)
    )


CHARS_PER_TOKEN = 4
"""Estimate for English text, which needs no tokenizer. Tokens of other languages are shorter."""


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return -(-len(text) // CHARS_PER_TOKEN)


def did_you_mean(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known word that `word` is probably a slip of, whatever the case of its letters.

    None when no word is near.

    Args:
        word: What was written. Longer words than 80 characters are not compared.
        known: What could have been meant.
        cutoff: How alike the words must be, from 0 to 1 (`difflib.SequenceMatcher.ratio`).
    """
    import difflib

    if len(word) > _LONGEST_WORD:
        return None
    names = {name.lower(): name for name in known}
    return next(
        (names[name] for name in difflib.get_close_matches(word.lower(), names, 1, cutoff)), None
    )


def confident_match(word: str, known: Iterable[str]) -> str | None:
    """The known word that can only have been meant, sure enough to put it in unasked.

    None when there is any doubt. Sure is a word that differs in nothing but case, blanks, `-` and
    `_`; and a word that is a single slip away (a letter too many, too few, wrong, or two swapped)
    while no other is within two. A slip in a digit is never sure: `click1` and `click2` differ.
    """
    if len(word) > _LONGEST_WORD:
        return None
    names = list(dict.fromkeys(known))
    if word in names:
        return word
    same = [name for name in names if _letters(name) == _letters(word)]
    if same:
        return same[0] if len(same) == 1 else None
    if len(word) < 3:
        return None
    close = [
        name
        for name in names
        if abs(len(name) - len(word)) <= 2 and _slips(word.lower(), name.lower()) <= 2
    ]
    if (
        len(close) != 1
        or max(len(close[0]), len(word)) < 4
        or _slips(word.lower(), close[0].lower()) > 1
    ):
        return None
    return close[0] if re.sub(r"\D", "", word) == re.sub(r"\D", "", close[0]) else None


def _letters(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _slips(one: str, two: str) -> int:
    """Return the number of letters to insert, delete, change or swap between two words.

    The optimal string alignment distance (Damerau 1964; Wagner and Fischer 1974 for the table).
    """
    before: list[int] = []
    row = list(range(len(two) + 1))
    for i, left in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, right in enumerate(two, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (left != right))
            if i > 1 and j > 1 and left == two[j - 2] and one[i - 2] == right:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _has_c1(text: str) -> bool:
    return any(mark in text for mark in "\x90\x98\x9b\x9d\x9e\x9f")


def _fold_returns(line: str) -> str:
    kept = line.rstrip("\r").rpartition("\r")[2]
    return kept if kept else line.rstrip("\r")


def plural(count: int, noun: str) -> str:
    """A number with what it counts, such as `1 task` or `2,000 tasks`.

    For nouns that only take an `s`.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def step_text(step: float) -> str:
    """Return a step in full: `12`, `1000200`, `0.5`."""
    return f"{step:.15g}"


def none_of(count: int, noun: str) -> str:
    """`none of the 6 tasks`, or `no task` where there is only one.

    For nouns that only take an `s`.
    """
    return f"no {noun}" if count == 1 else f"none of the {plural(count, noun)}"


def some_tasks(count: int, verb: str) -> str:
    """Return a count of tasks with a verb that takes an `s`: `1 task runs`, `2 tasks run`."""
    return f"{plural(count, 'task')} {verb}{'s' if count == 1 else ''}"


def duration(seconds: float | None) -> str:
    """A length of time for people.

    `3 d 4 h`, `2 h 05 min`, `7 min`, `12 s`; a dash if it is unknown.
    """
    if seconds is None:
        return "–"
    minutes, rest = divmod(max(int(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} d {hours % 24} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min" if minutes else f"{rest} s"


def money(value: float, currency: str = "USD") -> str:
    """Return an amount of money as text: `$3.20`, `€0.004`, `12.50 GBP`.

    Amounts below one cent keep their digits.
    """
    digits = f"{value:,.2f}" if value == 0 or abs(value) >= 0.1 else f"{value:.3f}"
    sign = {"USD": "$", "EUR": "€"}.get(currency)
    return f"{sign}{digits}" if sign else f"{digits} {currency}"
