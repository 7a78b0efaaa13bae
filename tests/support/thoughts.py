"""Replies with thoughts and calls in any order, and what each of them calls, worked out in another
way than hudtui does."""

from __future__ import annotations

import random
import re

CONFIG = """
system_prompt: |
  - mark(n): Mark a number
    Usage: <tool>mark(1)</tool>
parser: {use_thinking: %s}
action_mappings:
  mark:
    _tool: note
    _parser: {positional: [n]}
    n: {from_arg: n}
defaults: {max_turns: 1000000}
"""

_PIECES = (
    *("<think>", "</think>") * 4,
    *("<tool>mark({})</tool>",) * 6,
    *(
        "<tool>mark( {} )\n</tool>",
        "<tool></tool>",
        "<tool> \n</tool>",
        "<tool>",
        "</tool>",
        "mark({})",
    ),
    *(
        "<THINK>",
        "</THINK>",
        "<TOOL>mark({})</TOOL>",
        "<think >",
        "<tool>mark({}, 2)</tool>",
        "<tool>nothing({})</tool>",
    ),
    *("```xml\n", "\n```\n", "I don't know. ", "\n", " ", "5 < 6 ", "<", "🙂"),
)


def any_replies(count: int, seed: int = 1) -> list[str]:
    """So many replies; every call in them marks another number."""
    choose = random.Random(seed)
    numbers = iter(range(1_000_000))
    return [
        "".join(
            choose.choice(_PIECES).replace("{}", str(next(numbers)))
            for _ in range(choose.randint(1, 9))
        )
        for _ in range(count)
    ]


def wanted_call(reply: str) -> int | None:
    """The number that a reply marks; None where nothing may be played."""
    _, closed, rest = reply.partition("</think>")
    rest = rest if closed else reply
    rest = re.sub(r"<think>.*?(</think>|\Z)", "", rest, flags=re.DOTALL)
    texts = [text.strip() for text in re.findall(r"<tool>(.*?)</tool>", rest, flags=re.DOTALL)]
    first = next((text for text in texts if text), "")
    found = re.fullmatch(r"mark\(\s*(\d+)\s*\)[^()]*", first)
    return int(found[1]) if found else None
