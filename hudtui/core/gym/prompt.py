"""What a system prompt tells the agent about its actions, as far as its conventions can be read.

- click(x, y): Click somewhere          a heading, with or without arguments
  Usage: <tool>click(100, 200)</tool>   a usage example
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PLACEHOLDERS = frozenset(
    {
        "action",
        "action_name",
        "function",
        "function_name",
        "function_call",
        "func",
        "my_tool",
        "name",
        "some_tool",
        "tool",
        "tool_call",
        "tool_name",
        "toolname",
        "your_action",
        "your_tool",
    }
)
"""Names that stand for any action when the prompt explains the form of a call."""

_OPEN, _CLOSE = "<tool>", "</tool>"
_HEADING = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+[`*\"']{0,3}(\w+)([`*\"']{0,3}(?=[:\s]|$)|\()", re.MULTILINE)
_CALLED = re.compile(r"\b(\w++)[ \t]*+\(")
_QUOTED = re.compile(r"[`\"'*<](\w++)(?=[`\"'*>])")
_ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+(\w+)", re.MULTILINE)
_DOTS = frozenset({"", "...", "…"})


@dataclass(frozen=True)
class UsageExample:
    """The content of one pair of tool tags in the prompt."""

    text: str
    """Stripped."""
    start: int
    """Where `text` begins in the prompt, from 0."""


@dataclass(frozen=True)
class Heading:
    """A list item that begins with a name."""

    name: str
    start: int
    call: bool
    """It has a parenthesis: it is meant as a call, not as any other item of a list."""


def usage_examples(prompt: str) -> tuple[UsageExample, ...]:
    """The usage examples, in their order; explanations such as `<tool>...</tool>` are none."""
    found = []
    at = 0
    while (start := prompt.find(_OPEN, at)) >= 0:
        begin = start + len(_OPEN)
        end = prompt.find(_CLOSE, begin)
        if end < 0:
            break
        # An opening tag that is only talked about: the innermost pair counts.
        begin = max(begin, prompt.rfind(_OPEN, begin, end) + len(_OPEN)) if _OPEN in prompt[begin:end] else begin
        body = prompt[begin:end]
        if body.strip() not in _DOTS:
            found.append(UsageExample(body.strip(), begin + len(body) - len(body.lstrip())))
        at = end + len(_CLOSE)
    return tuple(found)


def headings(prompt: str) -> tuple[Heading, ...]:
    """The list items that begin with a name."""
    return tuple(Heading(match[1], match.start(1), match[2] == "(") for match in _HEADING.finditer(prompt))


def mentioned(prompt: str) -> frozenset[str]:
    """All names that stand in the prompt as a call, as the beginning of a list item, or in quotes of any kind."""
    return frozenset(name for pattern in (_CALLED, _QUOTED, _ITEM) for name in pattern.findall(prompt))
