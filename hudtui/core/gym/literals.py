"""The values that an agent can write as arguments: numbers, words, quoted text, and lists and objects of them.

JSON's spelling and Python's are both understood, in any mix.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, Final

MAX_DIGITS = 4_300
"""Digits of a whole number. Reading one takes time with the square of its length."""

MAX_DEPTH = 100
"""How deep lists and objects may be nested in one argument."""

MAX_ODD_KEYS = 1_000
"""Keys that are not text, in all objects of one argument. Numbers can be chosen so that looking up one compares all others."""

WORDS: Final = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None, "null": None}

_DIGITS = r"[0-9](?:_?[0-9])*+"
_INTEGER = re.compile(rf"[+-]?{_DIGITS}")
_FLOAT = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")

_STRINGS = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*)'", re.DOTALL),
    '"""': re.compile(r'"""([^"\\]*+(?:(?:\\.|(?!""")")[^"\\]*+)*)"""', re.DOTALL),
    "'''": re.compile(r"'''([^'\\]*+(?:(?:\\.|(?!''')')[^'\\]*+)*)'''", re.DOTALL),
}
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^{}]{1,120})\}|(\r?\n|.))", re.DOTALL
)
_SIMPLE = {
    "\n": "",
    "\r\n": "",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}

_WORD = re.compile(r"[^\s\"',:()\[\]{}]++")
_BLANKS = re.compile(r"\s*+")
_OPENING = "[{("
_CLOSES = {"[": "]", "{": "}", "(": ")"}


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """A text that means nothing, with the reason. The column counts from 1 in the text that was parsed."""

    message: str
    column: int


class _EscapeError(ValueError):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def number_or_word(raw: str, at: int) -> Any:
    """The value of a text without quotes: a number, a word of JSON or Python, else the text itself.

    Args:
        raw: The text, stripped and not empty.
        at: Its offset, for the column of a refusal.

    Returns:
        The value, or a `ParseFailure` of a number that is not finite or too long.
    """
    if raw[0] in "0123456789+-.":
        number = _number(raw, at)
        return raw if number is None else number
    return WORDS.get(raw, raw)


def _number(raw: str, at: int) -> Any:
    if _INTEGER.fullmatch(raw):
        if len(raw) > MAX_DIGITS:
            return ParseFailure(f"a number of {len(raw):,} digits is too long", at + 1)
        return int(raw)
    if _FLOAT.fullmatch(raw):
        if len(raw) > MAX_DIGITS:
            return ParseFailure(f"a number of {len(raw):,} digits is too long", at + 1)
        value = float(raw)
        return value if math.isfinite(value) else ParseFailure(f"the number {raw[:40]} is not finite", at + 1)
    return None


def quoted(text: str, at: int) -> tuple[str, int] | ParseFailure:
    """The quoted text that begins at `at`, escapes decoded, and where it ends."""
    quote = text[at]
    if text.startswith(quote * 3, at):
        quote *= 3
    found = _STRINGS[quote].match(text, at)
    if found is None:
        return ParseFailure(f"the quote {quote} is not closed", at + 1)
    raw = found[1]
    if "\\" in raw:
        try:
            return _ESCAPE.sub(_unescape, raw), found.end()
        except _EscapeError as error:
            return ParseFailure(str(error), found.start(1) + error.at + 1)
    return raw, found.end()


def _unescape(found: re.Match[str]) -> str:
    octal, x, u, long, name, simple = found.groups()
    if simple is not None:
        if simple in "xuUN":
            raise _EscapeError(f"the escape \\{simple} is not complete", found.start())
        return _SIMPLE.get(simple, found[0])
    if octal is not None:
        return chr(int(octal, 8))
    if name is not None:
        try:
            character = unicodedata.lookup(name)
        except KeyError:
            character = ""
        if len(character) != 1:
            raise _EscapeError(f"there is no character of the name {name}", found.start())
        return character
    code = int(x or u or long, 16)
    if code > 0x10FFFF:
        raise _EscapeError("an escape beyond the last character of Unicode", found.start())
    return chr(code)


_ITEM_WANTED, _VALUE_WANTED, _SEPARATOR_WANTED = "item", "value", "separator"


def nested(text: str, at: int) -> tuple[Any, int] | ParseFailure:
    """The list or object that begins at `at`, and where it ends. What is open is kept in a list."""
    size = len(text)
    outer: list[tuple[Any, str, str, Any, int]] = []
    # The innermost open bracket: its value, what closes it, what may come next, the key that waits for a value, its place.
    holder, closes, wants, key, opened = _opened(text, at)
    at += 1
    odd = 0
    while True:
        sign = text[at] if at < size else ""
        if sign in _OPENING and sign and wants != _SEPARATOR_WANTED:
            if wants == _ITEM_WANTED and closes == "}":
                return ParseFailure("a key is a text or a number", at + 1)
            if len(outer) + 2 > MAX_DEPTH:
                return ParseFailure(f"nested more than {MAX_DEPTH} deep", at + 1)
            outer.append((holder, closes, wants, key, opened))
            holder, closes, wants, key, opened = _opened(text, at)
            at += 1
            continue
        if sign == closes and wants != _VALUE_WANTED:
            at += 1
            value = holder
            if not outer:
                return value, at
            holder, closes, wants, key, opened = outer.pop()
        elif wants == _SEPARATOR_WANTED and sign == ",":
            at += 1
            wants = _ITEM_WANTED
            continue
        elif sign.isspace():
            at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
            continue
        elif not sign:
            return ParseFailure(f"the bracket that opens in column {opened + 1} is not closed", opened + 1)
        elif wants == _SEPARATOR_WANTED:
            return ParseFailure(f"expected , or {closes} before {sign!r}", at + 1)
        elif sign in "\"'":
            result = quoted(text, at)
            if isinstance(result, ParseFailure):
                return result
            value, at = result
        else:
            found = _WORD.match(text, at)
            if found is None:
                what = "a key" if wants == _ITEM_WANTED and closes == "}" else "a value"
                return ParseFailure(f"expected {what} before {sign!r}", at + 1)
            value = number_or_word(found[0], at)
            if type(value) is str:
                return ParseFailure(f"the text {value[:40]!r} needs quotes inside brackets", at + 1)
            if isinstance(value, ParseFailure):
                return value
            at = found.end()
        if closes != "}":
            holder.append(value)
            wants = _SEPARATOR_WANTED
        elif wants == _VALUE_WANTED:
            holder[key] = value
            wants = _SEPARATOR_WANTED
        else:
            if type(value) is not str:
                odd += 1
                if odd > MAX_ODD_KEYS:
                    return ParseFailure(f"more than {MAX_ODD_KEYS:,} keys that are not text", at + 1)
            at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]
            if not text.startswith(":", at):
                return ParseFailure("expected : after a key", at + 1)
            at += 1
            key = value
            wants = _VALUE_WANTED


def _opened(text: str, at: int) -> tuple[Any, str, str, Any, int]:
    bracket = text[at]
    return ({} if bracket == "{" else []), _CLOSES[bracket], _ITEM_WANTED, None, at
