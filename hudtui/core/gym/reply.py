r"""The agent's text.

Splits a reply into its think block and its tool text, and parses the tool text as a call. All
functions take time linear in the length of the text, and never raise: a text that is not a call
gives a `ParseFailure` that says why and where. Values may be spelled as in JSON or as in Python, in
any mix.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

_new = tuple.__new__  # makes a named tuple at a third of the usual cost

_OPEN = re.compile(r"<(?:think|tool)>")
_MARK = re.compile(r"<think>|</think>|<tool>")
_PLAIN = re.compile(
    r"[^<]*+(<think>([^<]*+)</think>)?[^<]*+(<tool>([^<]*+)</tool>)[^<]*+"
).fullmatch
"""A reply with one think block or none before one tool tag, and no other angle brackets."""
_TOOL_TEXT = re.compile(r"<tool>(.*?)(?:</tool>|\Z)", re.DOTALL)
_THINK, _THINK_END = "<think>", "</think>"
_TOOL, _TOOL_END = "<tool>", "</tool>"
_INSIDE = re.compile(r"\"\"\"|'''|[\"']|</?think>|</tool>")

_MOST_THOUGHTS = 8
"""Thoughts of a reply that are told apart from what is said between them."""

MAX_DIGITS = 4_300
"""Digits of a whole number. Reading one takes time with the square of its length."""

MAX_DEPTH = 100
"""Levels of lists and objects inside each other in one argument."""

MAX_ODD_KEYS = 1_000
"""Keys that are not text, in all objects of one argument. Numbers can be chosen so that finding one
compares all others."""

_NAME = re.compile(r"\s*+(\w++)\s*+")
_BLANKS = re.compile(r"\s*+")
_KEYWORD = re.compile(r"([^\W\d]\w*+)\s*+=(?!=)\s*+")
_BARE = re.compile(r"[^\"',()\[\]{}]*+")
_WORD = re.compile(r"[^\s\"',:()\[\]{}]++")
_SIMPLE = re.compile(
    r"\s*+(?:(-?[0-9]{1,18})|(-?[0-9]{1,18}\.[0-9]{1,18})|\"([^\"\\]*+)\"|'([^'\\]*+)')\s*+"
    r"(?:,|(?=\)))"
)
"""A number or a quoted text without escapes, and the comma after it or the parenthesis that
follows."""
_PARENTHESIS = re.compile(r"[()]")
_CLOSES = {"[": "]", "{": "}", "(": ")"}
_QUOTES = {'"', "'"}
_STRINGS = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL),
    # The last group is not possessive: of Python before 3.11.5 such a group with choices inside
    # matches wrongly (cpython#106052).
    '"""': re.compile(
        r'"""([^"\\]*+(?:\\.[^"\\]*+)*+(?:(?!""")"[^"\\]*+(?:\\.[^"\\]*+)*+)*)"""', re.DOTALL
    ),
    "'''": re.compile(
        r"'''([^'\\]*+(?:\\.[^'\\]*+)*+(?:(?!''')'[^'\\]*+(?:\\.[^'\\]*+)*+)*)'''", re.DOTALL
    ),
}
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|N\{([^{}]{1,120})\}"
    r"|(\r?\n|.))",
    re.DOTALL,
)
_ESCAPES = {"\n": "", "\r\n": "", "\\": "\\", "'": "'", '"': '"'} | dict(
    zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True)
)
_WORDS = {
    "true": True,
    "True": True,
    "false": False,
    "False": False,
    "none": None,
    "None": None,
    "null": None,
}
_DIGITS = r"[0-9](?:_?[0-9])*+"
_INTEGER = re.compile(rf"[+-]?{_DIGITS}")
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")


class ParseFailure(NamedTuple):
    """Reason why a text is not a call. The column counts from 1 in the text that was parsed."""

    message: str
    column: int


class TagSpan(NamedTuple):
    """A stretch of a reply, tags included; the end is exclusive."""

    kind: Literal["think", "tool", "extra", "empty", "unclosed"]
    """A think block, the tool tag that counts, a further one, an empty one, or an opening tag
    without its end."""
    start: int
    end: int


class Reply(NamedTuple):
    """The parts of a reply."""

    think: str | None
    """The first thought, stripped and without its tags."""
    tool: str | None
    """Text of the tool tag that counts, stripped and without think blocks."""
    extra_calls: int
    """Number of further tool tags that hold something. They are ignored."""
    spans: tuple[TagSpan, ...]
    """Tags in the order they begin; a think block inside a tool tag comes before that tag."""
    tags: bool
    """True if the expected tags are there: a tool, and a thought where the configuration expects
    one."""
    tool_start: int | None = None
    """Index of `tool` in the reply; None when think blocks had to be cut out of it."""
    problem: str | None = None
    """Reason why there is no tool text."""


class Call(NamedTuple):
    """A parsed tool text."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    columns: tuple[int, ...] = ()
    """Column of each positional argument, then of the name of each keyword argument, from 1 in the
    tool text."""


def split_reply(text: str, use_thinking: bool = True) -> Reply:
    """Split a reply into its parts.

    Everything up to the first `</think>` is thought, also where the reply does not open it: chat
    templates do so for the model. A `</think>` in a quoted argument of a call is text, unless a
    thought was opened before. What follows a `<think>` that is not closed is thought, too. No tool
    tag in a thought counts.

    With `use_thinking` a thought is expected, for `Reply.tags`; it changes nothing else.
    """
    plain = _PLAIN(text)
    if plain is not None and (tool := plain[4].strip()):
        think = plain[2]
        spans: tuple[TagSpan, ...] = (_new(TagSpan, ("tool", *plain.span(3))),)
        if think is not None:
            think = think.strip()
            spans = (_new(TagSpan, ("think", *plain.span(1))), *spans)
        return _new(
            Reply,
            (
                think,
                tool,
                0,
                spans,
                think is not None or not use_thinking,
                text.index(tool, plain.start(4)),
                None,
            ),
        )
    splitter = _Splitter(text)
    splitter.run()
    tags = splitter.tool is not None and (splitter.think is not None or not use_thinking)
    return Reply(
        splitter.think,
        splitter.tool,
        splitter.extra,
        tuple(splitter.spans),
        tags,
        splitter.tool_start,
        None if splitter.tool is not None else splitter.problem or splitter.nothing,
    )


def as_thought(text: str) -> str:
    """`text` as the thought of a reply, in think tags: its own tags do not count in there."""
    return f"{_THINK}{text.replace(_THINK_END, '[/think]')}{_THINK_END}"


def spoken(text: str) -> str:
    """What a reply says: its text without thoughts and without the tool text.

    The tool text where nothing else is said. Of very many thoughts, all up to the last end of one
    counts as thought.
    """
    start = 0
    for _ in range(_MOST_THOUGHTS):
        end = _end_of_thought(text, start)
        if end < 0:
            break
        start = end + len(_THINK_END)
    else:  # each look may take as long as the text
        start = text.rfind(_THINK_END) + len(_THINK_END)
    text = text[start:].partition(_THINK)[0]
    pieces = [piece.strip() for piece in _TOOL_TEXT.split(text)]
    said, called = filter(None, pieces[::2]), filter(None, pieces[1::2])
    return " ".join(said) or next(called, "")


def _end_of_thought(text: str, at: int = 0) -> int:
    """Index of the `</think>` that ends the first thought from `at` on; -1 for none."""
    if text.find(_THINK_END, at) < 0:
        return -1
    while (match := _MARK.search(text, at)) is not None:
        if match[0] == _THINK_END:
            return match.start()
        at = match.end()
        close = text.find(_TOOL_END, at) if match[0] == _TOOL else -1
        if close < 0:
            return text.find(_THINK_END, at)
        if text.find(_THINK, at, close) >= 0 or text.find(_THINK_END, at, close) >= 0:
            tag = _next_tag(text, at, close, set())
            # Thoughts name tags and are full of apostrophes: only the quotes of a call count.
            if (
                tag is None
                or tag[0] != _TOOL_END
                or isinstance(parse_call(text[at:close]), ParseFailure)
            ):
                return text.find(_THINK_END, at)
        at = close + len(_TOOL_END)
    return -1


def _next_tag(text: str, at: int, close: int, literal: set[str]) -> re.Match[str] | None:
    """The next think tag in a tool tag, or the end of that tag, without those in quoted arguments.

    Arguments end before `close`. `literal` collects the quotes that turn out to be apostrophes.
    """
    while (match := _INSIDE.search(text, at)) is not None:
        token, at = match[0], match.end()
        if token not in _STRINGS:
            return match
        if token not in literal:
            string = _STRINGS[token].match(text, match.start(), close)
            if string is None:
                literal.add(token)
            else:
                at = string.end()
    return None


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.think: str | None = None
        self.tool: str | None = None
        self.tool_start: int | None = None
        self.extra = 0
        self.spans: list[TagSpan] = []
        self.problem: str | None = None
        self.nothing = "there is no <tool>...</tool> in the reply"

    def run(self) -> None:
        text = self.text
        at = 0
        end = _end_of_thought(text)
        if end >= 0:
            start = text.find(_THINK, 0, end)
            if start < 0 or text.find(_TOOL, 0, start) >= 0:
                start = 0
            self.think = text[start:end].removeprefix(_THINK).strip()
            at = end + len(_THINK_END)
            self.spans.append(TagSpan("think", start, at))
            if text.find(_TOOL, 0, end) >= 0:
                self.nothing = "the <tool> tag is in the thought; write the call after </think>"
        while (match := _OPEN.search(text, at)) is not None:
            at = self._tool(match.start()) if match[0] == _TOOL else self._think(match.start())
            if at < 0:
                return

    def _think(self, start: int) -> int:
        """Index of the end of a think block.

        -1 when it is not closed: all that follows is thought.
        """
        end = self.text.find(_THINK_END, start + len(_THINK))
        if end < 0:
            self.spans.append(TagSpan("unclosed", start, start + len(_THINK)))
            self.problem = (
                "the <think> tag is not closed, so all after it is thought; close it, and write "
                "the call after </think>"
            )
            return -1
        end += len(_THINK_END)
        self.spans.append(TagSpan("think", start, end))
        return end

    def _tool(self, start: int) -> int:
        """Index of the end of a tool tag; -1 when no later one counts."""
        begin = start + len(_TOOL)
        end = self.text.find(_TOOL_END, begin)
        body: str | None = None
        cut = False
        if end >= 0 and self.text.find(_THINK, begin, end) >= 0:
            body, end, cut = self._body_with_thinking(begin, end)
        elif end >= 0:
            body = self.text[begin:end]
        if body is None:
            self.spans.append(TagSpan("unclosed", start, begin))
            self.problem = self.problem or "the <tool> tag is not closed"
            return -1
        stop = end + len(_TOOL_END)
        content = body.strip()
        if not content:
            self.spans.append(TagSpan("empty", start, stop))
            self.problem = "the <tool> tag is empty"
        elif self.tool is None:
            self.spans.append(TagSpan("tool", start, stop))
            self.tool = content
            self.tool_start = None if cut else begin + len(body) - len(body.lstrip())
        else:
            self.spans.append(TagSpan("extra", start, stop))
            self.extra += 1
        return stop

    def _body_with_thinking(self, begin: int, close: int) -> tuple[str | None, int, bool]:
        """The text of a tool tag without its think blocks, except those inside a quoted argument.

        Returns:
            The text or None when the tag is not closed, where its closing tag begins, and whether
            something was cut out.
        """
        text, at, kept_from = self.text, begin, begin
        parts: list[str] = []
        literal: set[str] = set()
        while (match := _next_tag(text, at, close, literal)) is not None:
            at = match.end()
            if match[0] == _TOOL_END:
                parts.append(text[kept_from : match.start()])
                return "".join(parts), match.start(), len(parts) > 1
            if match[0] == _THINK:
                at = self._think(match.start())
                if at < 0:
                    return None, -1, True
                parts.append(text[kept_from : match.start()])
                kept_from = at
                if close < at and (close := text.find(_TOOL_END, at)) < 0:
                    return None, -1, True
        return None, -1, True


def parse_call(text: str) -> Call | ParseFailure:
    """Read `name(arguments)`.

    Returns:
        The call, or why the text is not a call, with the column of the place that shows it.
    """
    try:
        return _Parser(text).call()
    except _ParseError as error:
        return ParseFailure(error.message, error.at + 1)


def spell_call(name: str, arguments: Mapping[str, Any]) -> str:
    """The tool text of a call, its values spelled as in JSON.

    Where the names are words, `parse_call` reads the same call.
    """
    spelled = (f"{key}={_spell(value)}" for key, value in arguments.items())
    return f"{name}({', '.join(spelled)})"


def _spell(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False).replace(
            "<", "\\u003c"
        )  # a tag inside a text would end the tool text
    except (ValueError, TypeError, RecursionError):
        return '"..."'


class _ParseError(Exception):
    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.message = message
        self.at = at


class _Parser:
    """Reads one call.

    Each method takes an offset in the text, and returns what it read and the offset behind it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.odd_keys = 0

    def skip(self, at: int) -> int:
        return _BLANKS.match(self.text, at).end()  # type: ignore[union-attr]

    def call(self) -> Call:
        text = self.text
        head = _NAME.match(text)
        if head is None:
            raise _ParseError(
                "expected a call like name(arguments)", self.skip(0) if text.strip() else 0
            )
        name, opened = head[1], head.end()
        if not text.startswith("(", opened):
            raise _ParseError(f"expected ( after the name {_cut(name)}", opened)
        at = opened + 1
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        columns: list[int] = []
        while True:
            while not kwargs and (simple := _SIMPLE.match(text, at)) is not None:
                index = simple.lastindex or 1
                written = simple[index]
                args.append(
                    written if index > 2 else int(written) if index == 1 else float(written)
                )
                columns.append(simple.start(index) + (index <= 2))  # a text begins with its quote
                at = simple.end()
            if not text.startswith(")", at):
                at = self.skip(at)
            if text.startswith(")", at):
                break
            begin = at
            keyword = _KEYWORD.match(text, at)
            value, at = self.argument(at if keyword is None else keyword.end(), opened)
            columns.append(begin + 1)
            if keyword is not None:
                if keyword[1] in kwargs:
                    raise _ParseError(f"the argument {_cut(keyword[1])} is given twice", begin)
                kwargs[keyword[1]] = value
            elif kwargs:
                raise _ParseError("an argument without a name cannot follow one with a name", begin)
            else:
                args.append(value)
            at = self.skip(at)
            if text.startswith(",", at):
                at += 1
            elif at >= len(text):
                raise _not_closed("parenthesis", opened)
            elif text[at] != ")":
                raise _ParseError(f"expected , or ) before {text[at]!r}", at)
        rest = _PARENTHESIS.search(text, at + 1)
        if rest is not None:
            raise _ParseError(
                "expected one call; after it there is another parenthesis", rest.start()
            )
        return _new(Call, (name, tuple(args), kwargs, tuple(columns)))

    def argument(self, at: int, opened: int) -> tuple[Any, int]:
        text = self.text
        first = text[at : at + 1]
        if first in _QUOTES:
            return self.quoted(at)
        if first in _CLOSES:
            self.odd_keys = 0
            return self.nested(at, 1)
        end = _BARE.match(text, at).end()  # type: ignore[union-attr]
        if end >= len(text):
            raise _not_closed("parenthesis", opened)
        raw = text[at:end].strip()
        if text[end] not in ",)":
            if not raw:
                raise _ParseError(f"unexpected {text[end]}", end)
            what = "a quote" if text[end] in _QUOTES else text[end]
            raise _ParseError(
                f"{what} in the middle of a text without quotes; put the whole text in quotes", end
            )
        if not raw:
            raise _ParseError("a value is missing", at)
        return _bare(raw, at), end

    def nested(self, at: int, depth: int) -> tuple[Any, int]:
        """Read a list or an object."""
        if depth > MAX_DEPTH:
            raise _ParseError(f"nested more than {MAX_DEPTH} deep", at)
        text, opened, closes = self.text, at, _CLOSES[self.text[at]]
        items: list[Any] = []
        members: dict[Any, Any] = {}
        at = self.skip(at + 1)
        while not text.startswith(closes, at):
            if closes != "}":
                value, at = self.member(at, depth, opened)
                items.append(value)
            else:
                key, at = self.key(at, opened)
                members[key], at = self.member(self.skip(at), depth, opened)
            at = self.skip(at)
            if text.startswith(",", at):
                at = self.skip(at + 1)
            elif at >= len(text):
                raise _not_closed("bracket", opened)
            elif text[at] != closes:
                raise _ParseError(f"expected , or {closes} before {text[at]!r}", at)
        return (members if closes == "}" else items), at + 1

    def member(self, at: int, depth: int, opened: int) -> tuple[Any, int]:
        """Read a value inside brackets."""
        if self.text[at : at + 1] in _CLOSES:
            return self.nested(at, depth + 1)
        return self.atom(at, opened, "a value")

    def key(self, at: int, opened: int) -> tuple[Any, int]:
        """Read the key of an object and the colon after it."""
        if self.text[at : at + 1] in _CLOSES:
            raise _ParseError("a key is a text or a number", at)
        key, at = self.atom(at, opened, "a key")
        if type(key) is not str:
            self.odd_keys += 1
            if self.odd_keys > MAX_ODD_KEYS:
                raise _ParseError(f"more than {MAX_ODD_KEYS:,} keys that are not text", at)
        at = self.skip(at)
        if not self.text.startswith(":", at):
            raise _ParseError("expected : after a key", at)
        return key, at + 1

    def atom(self, at: int, opened: int, what: str) -> tuple[Any, int]:
        """Read a quoted text, a number or a word of JSON or Python."""
        first = self.text[at : at + 1]
        if not first:
            raise _not_closed("bracket", opened)
        if first in _QUOTES:
            return self.quoted(at)
        match = _WORD.match(self.text, at)
        if match is None:
            raise _ParseError(f"expected {what} before {first!r}", at)
        value = _bare(match[0], at)
        if type(value) is str:
            raise _ParseError(f"the text {value[:40]!r} needs quotes inside brackets", at)
        return value, match.end()

    def quoted(self, at: int) -> tuple[str, int]:
        """Read a quoted text, and decode its escapes."""
        quote = self.text[at]
        if self.text.startswith(quote * 3, at):
            quote *= 3
        match = _STRINGS[quote].match(self.text, at)
        if match is None:
            raise _ParseError(f"the quote {quote} is not closed", at)
        raw = match[1]
        if "\\" in raw:
            try:
                raw = _ESCAPE.sub(_unescape, raw)
            except _ParseError as error:
                raise _ParseError(error.message, match.start(1) + error.at) from None
        return raw, match.end()


def _bare(raw: str, at: int) -> Any:
    """The value of a text without quotes.

    A number, a word of JSON or Python, else the text itself.
    """
    if raw[0] not in "0123456789+-.":
        return _WORDS.get(raw, raw)
    if not _NUMBER.fullmatch(raw):
        return raw
    if len(raw) > MAX_DIGITS:
        raise _ParseError(f"a number of {len(raw):,} digits is too long", at)
    if _INTEGER.fullmatch(raw):
        return int(raw)
    value = float(raw)
    if not math.isfinite(value):
        raise _ParseError(f"the number {raw[:40]} is not finite", at)
    return value


def _unescape(match: re.Match[str]) -> str:
    octal, x, u, long, name, simple = match.groups()
    if simple is not None:
        if simple in "xuUN":
            raise _ParseError(f"the escape \\{simple} is not complete", match.start())
        return _ESCAPES.get(simple, match[0])
    if octal is not None:
        return chr(int(octal, 8))
    if name is not None:
        try:
            character = unicodedata.lookup(name)
        except KeyError:
            character = ""
        if len(character) != 1:
            raise _ParseError(f"there is no character of the name {name}", match.start())
        return character
    code = int(x or u or long, 16)
    if code > 0x10FFFF:
        raise _ParseError("an escape beyond the last character of Unicode", match.start())
    return chr(code)


def _not_closed(what: str, opened: int) -> _ParseError:
    return _ParseError(f"the {what} that opens in column {opened + 1} is not closed", opened)


def _cut(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"
