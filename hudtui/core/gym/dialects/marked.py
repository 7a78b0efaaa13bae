"""Dialects whose calls are JSON objects between marks, in fences, or bare."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.gym.dialects.blocks import (
    MOST_CALLS,
    PLAIN_THOUGHT,
    Block,
    Scan,
    closed_object,
    plain_reading,
    reading,
    scan,
)
from hudtui.core.gym.dialects.dialect import Reading, as_function
from hudtui.core.gym.dialects.objects import (
    Fault,
    call_of,
    decode,
    named_call,
    skip_blanks,
    spell_object,
)
from hudtui.core.gym.dialects.speech import THINK, outside, speech_of
from hudtui.core.gym.reply import Call, ParseFailure

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_PLAIN_HERMES = re.compile(
    PLAIN_THOUGHT + r"(?![\[{])[^<`\[]*+(<tool_call>\s*+(\{[^<]*+)</tool_call>)\s*+"
).fullmatch
_PLAIN_JSON = re.compile(
    PLAIN_THOUGHT + r"(?![\[{])(?:[^<`\n]*+\n)*+(```(?:json)?[ \t]*+\n\s*+(\{[^<`]*+)```)\s*+"
).fullmatch
_HERMES = re.compile(r"<think>|<tool_call>")
FENCE = r"(?:^|(?<=</think>))[ \t]*+```"
"""The pattern of a fence's beginning, for `re.MULTILINE`."""
_FENCES = re.compile(rf"<think>|{FENCE}[ \t]*+([\w-]*+)[^\n`]*+(?:\n|\Z)", re.MULTILINE)
_FENCE_END = re.compile(r"^[ \t]*+```[ \t\r]*+$", re.MULTILINE)
_CALL_FENCES = frozenset({"", "json", "tool_call", "tool"})
_MISTRAL = re.compile(r"<think>|\[TOOL_CALLS\]")
_MISTRAL_NAME = re.compile(
    r"[ \t]*+([^\s\[\]{}\"<>]++)(?:\[CALL_ID\][\w-]++)?(?:\[ARGS\])?\s*+(?=\{)"
)


# -- Hermes
# --------------------------------------------------------------------------------------------------


def read_hermes(text: str, thinking: bool) -> Reading:
    """Read a reply with calls between `<tool_call>` and `</tool_call>`."""
    if (plain := read_plain_hermes(text, thinking)) is not None:
        return plain
    speech = speech_of(text)
    return reading(
        text,
        speech,
        scan(text, speech.start, _HERMES, _tagged),
        thinking=thinking,
        missing=f"there is no {OPEN}...{CLOSE} in the reply",
        in_thought=text.find(OPEN, 0, speech.start) >= 0,
    )


def read_plain_hermes(text: str, thinking: bool) -> Reading | None:
    """Return the reading of a plain reply, as most are; None of any other."""
    plain = _PLAIN_HERMES(text)
    return None if plain is None else plain_reading(text, plain, thinking=thinking)


def _tagged(text: str, match: re.Match[str]) -> tuple[Sequence[Block], int]:
    block = closed_object(text, match.start(), match.end(), CLOSE)
    return (block,), block.end


def write_hermes(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call between the tags."""
    return f"{OPEN}\n{spell_object(name, arguments)}\n{CLOSE}"


def spoken_hermes(text: str) -> str:
    """Return what a reply says beside thoughts and tags."""
    return outside(text, read_hermes(text, False).parts)


def teach_hermes(tools: Sequence[Tool], thinking: bool) -> str:
    """Return the tools and the form of a call."""
    return _taught(tools, thinking, write_hermes)


def answer_hermes(observation: str) -> str:
    """Return a tool's answer between the tags that Hermes models know."""
    return f"<tool_response>\n{observation}\n</tool_response>"


# -- JSON, in a fence or bare
# --------------------------------------------------------------------------------------------------


def read_json(text: str, thinking: bool) -> Reading:
    """Read a reply with calls in fences, or one that is nothing but calls."""
    if (plain := read_plain_json(text, thinking)) is not None:
        return plain
    speech = speech_of(text)
    start = skip_blanks(text, speech.start)
    if begins_bare(text, start):
        scanned = read_bare(text, start)
    else:
        scanned = scan(text, speech.start, _FENCES, _fenced)
    return reading(
        text,
        speech,
        scanned,
        thinking=thinking,
        missing="there is no JSON object with a call in the reply",
        in_thought=text.find('"name"', 0, speech.start) >= 0,
    )


def read_plain_json(text: str, thinking: bool) -> Reading | None:
    """Return the reading of a plain reply with a fence, as most are; None of any other."""
    plain = _PLAIN_JSON(text)
    return None if plain is None else plain_reading(text, plain, thinking=thinking)


def begins_bare(text: str, start: int) -> bool:
    """Return True where the JSON of a call, or of a list of calls, begins."""
    return text.startswith("{", start) or (
        text.startswith("[", start) and text.startswith("{", skip_blanks(text, start + 1))
    )


def read_bare(text: str, start: int) -> Scan:
    """Return the calls of a text that is nothing but JSON from a place on."""
    result, at = Scan(), start
    while at < len(text) and len(result.blocks) < MOST_CALLS:
        try:
            value, stop = decode(text, at)
        except Fault as fault:
            column = 1 if fault.at is None else fault.at - at + 1
            failure = ParseFailure(fault.message, column)
            result.blocks.append(Block(failure, at, at, len(text), len(text), False))
            break
        result.blocks += _calls_of(value, at, stop)
        at = skip_blanks(text, stop)
        at = skip_blanks(text, at + text.startswith(";", at))
    return result


def _calls_of(value: Any, at: int, stop: int) -> list[Block]:
    """The call of an object, or those of a list."""
    values = value[:MOST_CALLS] if isinstance(value, list) else [value]
    return [Block(call_of(one), at, at, stop, stop, True) for one in values]


def _fenced(text: str, match: re.Match[str]) -> tuple[Sequence[Block], int]:
    begin = match.end()
    at = skip_blanks(text, begin)
    if match[1].lower() not in _CALL_FENCES or not text.startswith(("{", "["), at):
        closing = _FENCE_END.search(text, begin)
        return (), len(text) if closing is None else closing.end()
    if text[at] == "{":
        block = closed_object(text, match.start(), begin, "```")
        return (block,), block.end
    try:
        value, stop = decode(text, at)
    except Fault:
        block = closed_object(text, match.start(), begin, "```")
        return (block,), block.end
    after = skip_blanks(text, stop)
    if not text.startswith("```", after):
        failure = ParseFailure("the fence is not closed behind the list", after - at + 1)
        return (Block(failure, match.start(), at, stop, len(text), False),), len(text)
    end = after + 3
    calls = _calls_of(value, at, stop)
    return [one._replace(start=match.start(), end=end) for one in calls], end


def write_json(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call in a fence."""
    return f"```json\n{spell_object(name, arguments)}\n```"


def spoken_json(text: str) -> str:
    """Return what a reply says beside thoughts and calls."""
    return outside(text, read_json(text, False).parts)


def teach_json(tools: Sequence[Tool], thinking: bool) -> str:
    """Return the tools and the form of a call."""
    return _taught(tools, thinking, write_json)


# -- Mistral, read where a template's own form is
# --------------------------------------------------------------------------------------------------


def read_mistral(text: str, thinking: bool) -> Reading:
    """Read a reply with calls behind `[TOOL_CALLS]`: a list of objects, or a name and an object."""
    speech = speech_of(text)
    return reading(
        text,
        speech,
        scan(text, speech.start, _MISTRAL, _behind_mark),
        thinking=thinking,
        missing="there is no [TOOL_CALLS] in the reply",
        in_thought=text.find("[TOOL_CALLS]", 0, speech.start) >= 0,
    )


def _behind_mark(text: str, match: re.Match[str]) -> tuple[Sequence[Block], int]:
    start, begin = match.span()
    named = _MISTRAL_NAME.match(text, begin)
    at = skip_blanks(text, begin if named is None else named.end())
    try:
        value, stop = decode(text, at)
    except Fault as fault:
        column = 1 if fault.at is None else fault.at - at + 1
        failure = ParseFailure(fault.message, column)
        return (Block(failure, start, at, len(text), len(text), False),), len(text)
    if named is None:
        return [one._replace(start=start) for one in _calls_of(value, at, stop)], stop
    call: Call | ParseFailure = named_call(named[1], value)
    return (Block(call, start, at, stop, stop, True),), stop


# -- words for the prompt
# --------------------------------------------------------------------------------------------------


def _taught(tools: Sequence[Tool], thinking: bool, write: Any) -> str:
    listed = [json.dumps(as_function(tool), ensure_ascii=False, default=str) for tool in tools]
    form = write("NAME", {"ARGUMENT": "VALUE"})
    first = f"First think between {THINK} and </think>. " if thinking else ""
    return "\n".join(
        (
            "# Tools",
            "",
            "The tools, each with the JSON Schema of its arguments:",
            "<tools>",
            *listed,
            "</tools>",
            "",
            f"{first}Call one tool in each reply, in this form:",
            form,
        )
    )
