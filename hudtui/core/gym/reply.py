r"""The agent's text: a reply into think and tool, a tool text into a call.

Everything here is linear in the length of its input, keeps its own stack instead of recursing, and answers any text with a value:
what cannot be read comes back as a `ParseFailure` that says why and where.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from hudtui.core.gym.literals import ParseFailure, nested, number_or_word, quoted

__all__ = ["Call", "ParseFailure", "Reply", "TagSpan", "parse_call", "split_reply"]

_OPEN = re.compile(r"<(?:think|tool)>")
_PLAIN = re.compile(r"[^<]*+(<think>([^<]*+)</think>)?[^<]*+(<tool>([^<]*+)</tool>)[^<]*+").fullmatch
"""A reply with one think block or none before one tool tag, and no other angle brackets."""
_THINK, _THINK_END = "<think>", "</think>"
_TOOL, _TOOL_END = "<tool>", "</tool>"
_INSIDE = re.compile(r"\"\"\"|'''|[\"']|<think>|</tool>")
_QUOTE_REST = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.DOTALL),
    '"""': re.compile(r'[^"\\]*+(?:(?:\\.|(?!""")")[^"\\]*+)*"""', re.DOTALL),
    "'''": re.compile(r"[^'\\]*+(?:(?:\\.|(?!''')')[^'\\]*+)*'''", re.DOTALL),
}

_NAME = re.compile(r"\s*+(\w++)\s*+")
_BLANKS = re.compile(r"\s*+")
_KEYWORD = re.compile(r"([^\W\d]\w*+)\s*+=(?!=)\s*+")
_BARE = re.compile(r"[^\"',()\[\]{}]*+")
_SIMPLE = re.compile(r"\s*+(?:(-?[0-9]{1,18})|\"([^\"\\]*+)\"|'([^'\\]*+)')\s*+(?:,|(?=\)))")
"""An argument that needs no further look, and the comma behind it or the parenthesis that follows."""

_PARENTHESIS = re.compile(r"[()]")


class TagSpan(NamedTuple):
    """A stretch of a reply, tags included; the end is exclusive."""

    kind: Literal["think", "tool", "extra", "empty", "unclosed"]
    """A think block, the tool tag that counts, a further one, an empty one, or an opening tag without its end."""
    start: int
    end: int


class Reply(NamedTuple):
    """A reply, taken apart."""

    think: str | None
    """Text of the first think block, stripped."""
    tool: str | None
    """Text of the tool tag that counts, stripped and without think blocks."""
    extra_calls: int
    """How many further tool tags hold something. They are not carried out."""
    spans: tuple[TagSpan, ...]
    """In the order of their beginnings; a think block inside a tool tag stands before that tag."""
    tags: bool
    """Whether the expected tags are there: a tool, and a think block where the configuration expects one."""
    tool_start: int | None = None
    """Where `tool` begins in the reply; None when think blocks had to be cut out of it."""
    problem: str | None = None
    """Why there is no tool text."""


class Call(NamedTuple):
    """A tool text that was understood. Columns count from 1 in the tool text."""

    name: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = MappingProxyType({})
    columns: tuple[int, ...] = ()
    """Where each positional argument begins, then where the name of each keyword argument does."""


def split_reply(text: str, use_thinking: bool = True) -> Reply:
    """Take a reply apart.

    Args:
        text: Any text.
        use_thinking: Whether a think block is expected, for `Reply.tags`. Think blocks are never carried out either way.
    """
    plain = _PLAIN(text)
    if plain is not None:
        think, body = plain[2], plain[4]
        tool = body.strip()
        if tool:
            spans: tuple[TagSpan, ...] = (TagSpan("tool", *plain.span(3)),)
            if think is not None:
                think = think.strip()
                spans = (TagSpan("think", *plain.span(1)), *spans)
            at = plain.start(4) + len(body) - len(body.lstrip())
            return Reply(think, tool, 0, spans, think is not None or not use_thinking, at)
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
        None if splitter.tool is not None else splitter.problem or "there is no <tool>...</tool> in the reply",
    )


class _Splitter:
    def __init__(self, text: str) -> None:
        self.text = text
        self.think: str | None = None
        self.tool: str | None = None
        self.tool_start: int | None = None
        self.extra = 0
        self.spans: list[TagSpan] = []
        self.problem: str | None = None
        self.thinks_close = True
        self.tools_close = True

    def run(self) -> None:
        at = 0
        while True:
            start = self._next(at)
            if start < 0:
                return
            if self.text.startswith(_TOOL, start):
                at = self._tool(start)
            else:
                end = self._skip_think(start)
                at = start + len(_THINK) if end < 0 else end

    def _next(self, at: int) -> int:
        """Where the next opening tag begins that may have an end; -1 for none."""
        if not self.tools_close:
            # Nothing is carried out any more; only what the agent thought is still of interest.
            return self.text.find(_THINK, at) if self.thinks_close and self.think is None else -1
        if not self.thinks_close:
            return self.text.find(_TOOL, at)
        found = _OPEN.search(self.text, at)
        return -1 if found is None else found.start()

    def _skip_think(self, start: int) -> int:
        """Where a think block ends; -1 when it is not closed, and then no later one is."""
        end = self.text.find(_THINK_END, start + len(_THINK)) if self.thinks_close else -1
        if end < 0:
            if self.thinks_close:
                self.spans.append(TagSpan("unclosed", start, start + len(_THINK)))
            self.thinks_close = False
            return -1
        if self.think is None:
            self.think = self.text[start + len(_THINK) : end].strip()
        self.spans.append(TagSpan("think", start, end + len(_THINK_END)))
        return end + len(_THINK_END)

    def _tool(self, start: int) -> int:
        begin = start + len(_TOOL)
        end = self.text.find(_TOOL_END, begin)
        body: str | None
        cut = False
        if end >= 0 and self.thinks_close and self.text.find(_THINK, begin, end) >= 0:
            body, end, cut = self._body_with_thinking(begin)
        else:
            body = self.text[begin:end] if end >= 0 else None
        if body is None:
            self.tools_close = False
            self.spans.append(TagSpan("unclosed", start, begin))
            self.problem = self.problem or "the <tool> tag is not closed"
            return begin
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

    def _body_with_thinking(self, begin: int) -> tuple[str | None, int, bool]:
        """The text of a tool tag without its think blocks, except those inside a quoted argument.

        Returns:
            The text or None when the tag is not closed, where its closing tag begins, and whether something was cut out.
        """
        text, at, kept_from = self.text, begin, begin
        parts: list[str] = []
        close = text.find(_TOOL_END, begin)
        literal: set[str] = set()  # quotes that turned out to be apostrophes
        while (found := _INSIDE.search(text, at)) is not None:
            token, at = found[0], found.end()
            if token == _TOOL_END:
                parts.append(text[kept_from : found.start()])
                return "".join(parts), found.start(), len(parts) > 1
            if token == _THINK:
                end = self._skip_think(found.start())
                if end >= 0:
                    parts.append(text[kept_from : found.start()])
                    at = kept_from = end
                    if close < end:
                        close = text.find(_TOOL_END, end)
                        if close < 0:
                            return None, -1, True
            elif token not in literal:
                rest = _QUOTE_REST[token].match(text, at, close)
                if rest is None:
                    literal.add(token)
                else:
                    at = rest.end()
        return None, -1, True


def parse_call(text: str) -> Call | ParseFailure:
    """Read `name(arguments)`.

    Args:
        text: The text of a tool tag, stripped; any text will do.

    Returns:
        The call, or why it is none with the column (from 1) of the place that says so.
    """
    head = _NAME.match(text)
    if head is None:
        return ParseFailure("expected a call like name(arguments)", _BLANKS.match(text).end() + 1 if text.strip() else 1)  # type: ignore[union-attr]
    name, at = head[1], head.end()
    if not text.startswith("(", at):
        return ParseFailure(f"expected ( after the name {_cut(name)}", at + 1)
    opened = at
    at += 1
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    arg_columns: list[int] = []
    kwarg_columns: list[int] = []
    size = len(text)
    while True:
        while not kwargs and (simple := _SIMPLE.match(text, at)) is not None:
            index = simple.lastindex or 1
            args.append(int(simple[1]) if index == 1 else simple[index])
            arg_columns.append(simple.start(index) + (1 if index == 1 else 0))
            at = simple.end()
        at = _skip(text, at)
        if at < size and text[at] == ")":
            break
        column = at + 1
        keyword = _KEYWORD.match(text, at)
        if keyword is not None:
            at = keyword.end()
        result = _argument(text, at, opened)
        if isinstance(result, ParseFailure):
            return result
        value, at = result
        if keyword is not None:
            word = keyword[1]
            if word in kwargs:
                return ParseFailure(f"the argument {_cut(word)} is given twice", column)
            kwargs[word] = value
            kwarg_columns.append(column)
        elif kwargs:
            return ParseFailure("an argument without a name cannot follow one with a name", column)
        else:
            args.append(value)
            arg_columns.append(column)
        at = _skip(text, at)
        if at < size and text[at] == ",":
            at += 1
        elif at >= size:
            return _not_closed(opened)
        elif text[at] != ")":
            return ParseFailure(f"expected , or ) before {text[at]!r}", at + 1)
    rest = _PARENTHESIS.search(text, at + 1)
    if rest is not None:
        return ParseFailure("expected one call; after it there is another parenthesis", rest.start() + 1)
    return Call(name, tuple(args), kwargs, (*arg_columns, *kwarg_columns))


def _argument(text: str, at: int, opened: int) -> tuple[Any, int] | ParseFailure:
    if at >= len(text):
        return _not_closed(opened)
    first = text[at]
    if first in "\"'":
        return quoted(text, at)
    if first in "[{(":
        return nested(text, at)
    end = _BARE.match(text, at).end()  # type: ignore[union-attr]
    raw = text[at:end].strip()
    if end >= len(text):
        return _not_closed(opened)
    if text[end] not in ",)":
        if not raw:
            return ParseFailure(f"unexpected {text[end]}", end + 1)
        what = "a quote" if text[end] in "\"'" else text[end]
        return ParseFailure(f"{what} in the middle of a text without quotes; put the whole text in quotes", end + 1)
    if not raw:
        return ParseFailure("a value is missing", at + 1)
    value = number_or_word(raw, at)
    return value if isinstance(value, ParseFailure) else (value, end)


def _skip(text: str, at: int) -> int:
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def _not_closed(opened: int) -> ParseFailure:
    return ParseFailure(f"the parenthesis that opens in column {opened + 1} is not closed", opened + 1)


def _cut(name: str) -> str:
    return name if len(name) <= 40 else name[:39] + "…"
