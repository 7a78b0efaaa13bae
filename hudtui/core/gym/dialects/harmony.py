"""The dialect of messages in channels: harmony, of gpt-oss models.

A thought is a message in the channel `analysis`, a call one in `commentary` to a function, and what
is said stands in `final`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hudtui.core.environment.values import Tool
from hudtui.core.gym.dialects.blocks import MOST_CALLS, Block, Scan, plain_reading, reading
from hudtui.core.gym.dialects.dialect import Reading
from hudtui.core.gym.dialects.objects import Fault, decode, named_call, skip_blanks
from hudtui.core.gym.dialects.speech import THINK, THINK_END, call_mark, is_cut, speech_of
from hudtui.core.gym.reply import Call, ParseFailure, TagSpan
from hudtui.core.text import clean_line

CHANNEL = "<|channel|>"
_HEADER = re.compile(
    r"(?:(?:<\|start\|>|\A)([^<]{0,200}+))?<\|channel\|>([^<]{0,200}+)"
    r"(?:<\|constrain\|>[^<]{0,200}+)?<\|message\|>"
)
_PLAIN = re.compile(
    r"\s*+(?:(<\|channel\|>analysis<\|message\|>([^<]*+))<\|end\|>(?=<\|start\|>))?"
    r"((?:<\|start\|>assistant\s*+)?<\|channel\|>commentary to=functions\.\w++ "
    r"<\|constrain\|>json<\|message\|>(\{[^<]*+)<\|call\|>)\s*+"
).fullmatch
_STOP = re.compile(r"<\|(?:end|call|return|start)\|>")
_TO = re.compile(r"to=(\S*+(?:\s++(?!(?:json|code)?\s*+\Z)\S++)*)")
"""The recipient; a word for the kind of its message may follow."""
_THOUGHT = "analysis"
_MISSING = "there is no call in the channel commentary"
_IN_THOUGHT = "the call is in the channel analysis; write it in commentary"
_OPEN_THOUGHT = "the message in the channel analysis has no end, so all of it is thought"


class _Message(NamedTuple):
    channel: str
    to: str | None
    start: int
    begin: int
    end: int
    """Where its body ends, before the mark that ends it."""


def _messages(text: str, at: int) -> list[_Message]:
    """The messages of a reply, from a place on."""
    result: list[_Message] = []
    while len(result) < 2 * MOST_CALLS and (match := _HEADER.search(text, at)) is not None:
        channel = match[2].split(maxsplit=1)
        to = _TO.search(match[2]) or _TO.search(match[1] or "")
        begin = match.end()
        end = _body_end(text, begin, is_call=to is not None)
        name = channel[0] if channel else ""
        target = None if to is None else to[1]
        result.append(_Message(name, target, match.start(), begin, end))
        at = end
    return result


def _body_end(text: str, begin: int, *, is_call: bool) -> int:
    """The end of a message; a mark in a text of a call's object does not end it."""
    if is_call:
        with contextlib.suppress(Fault):
            begin = decode(text, skip_blanks(text, begin)).end
    stop = _STOP.search(text, begin)
    return len(text) if stop is None else stop.start()


def read_harmony(text: str, thinking: bool) -> Reading:
    """Read a reply of messages in channels."""
    plain = _PLAIN(text)
    if plain is not None:
        name = plain[3].partition("functions.")[2].partition(" ")[0]
        if (found := plain_reading(text, plain, thinking=thinking, name=name)) is not None:
            return found
    speech = speech_of(text)
    messages = _messages(text, speech.start)
    scanned = Scan()
    think, in_thought, speaks = speech.think, False, False
    for message in messages:
        in_open = text.rfind(THINK, speech.start, message.start)
        if in_open >= 0 and text.find(THINK_END, in_open, message.start) < 0:
            scanned.unclosed = True
            scanned.spans.append(TagSpan("unclosed", in_open, in_open + len(THINK)))
            break
        if message.channel == _THOUGHT:
            scanned.spans.append(TagSpan("think", message.start, message.end))
            in_thought = in_thought or message.to is not None
            think = text[message.begin : message.end].strip() if think is None else think
        elif message.to is not None and len(scanned.blocks) < MOST_CALLS:
            scanned.blocks.append(_call_block(text, message))
        else:
            speaks = speaks or bool(text[message.begin : message.end].strip())
    if not scanned.blocks:
        opened = text.find(THINK, speech.start)
        scanned.unclosed = opened >= 0 and text.find(THINK_END, opened) < 0
    told = speech._replace(think=think)
    missing = _IN_THOUGHT if in_thought else _MISSING
    if messages and messages[-1].channel == _THOUGHT and messages[-1].end == len(text):
        missing = _OPEN_THOUGHT
    found = reading(text, told, scanned, thinking=thinking, missing=missing)
    if scanned.blocks or scanned.unclosed or speech.torn or not speaks:
        return found
    return found._replace(ends=not in_thought and _is_whole(text, messages))


def _is_whole(text: str, messages: Sequence[_Message]) -> bool:
    """True if all of a reply without a call was read, and no other mark of a call is in it."""
    if is_cut(text) or text.count(CHANNEL) != len(messages):
        return False
    return call_mark(_HEADER.sub("", text)) is None


def _call_block(text: str, message: _Message) -> Block:
    at = skip_blanks(text, message.begin)
    call: Call | ParseFailure
    try:
        value, stop = decode(text, at)
        stop = skip_blanks(text, stop)
        if stop < message.end:
            raise Fault("expected <|call|> behind the object", stop)
    except Fault as fault:
        column = 1 if fault.at is None else fault.at - at + 1
        call = ParseFailure(fault.message, column)
    else:
        name = (message.to or "").removeprefix("functions.")
        call = named_call(name, value)
        if not name or len(name.split()) > 1:
            call = ParseFailure(f"the recipient {clean_line(name, 60)!r} is no name", 1)
    mark = _STOP.match(text, message.end)
    end = message.end if mark is None or mark[0] != "<|call|>" else mark.end()
    whole = end > message.end or message.end == len(text)
    return Block(call, message.start, at, message.end, end, whole)


def write_harmony(name: str, arguments: Mapping[str, Any]) -> str:
    """Write a call in the channel commentary."""
    try:
        spelled = json.dumps(arguments, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        spelled = '"..."'
    spelled = spelled.replace("<", "\\u003c")
    return f"{CHANNEL}commentary to=functions.{name} <|constrain|>json<|message|>{spelled}<|call|>"


def think_harmony(text: str) -> str:
    """Write a text as a thought."""
    inside = text.replace("<|", "[").replace(THINK_END, "[/think]")
    return f"{CHANNEL}{_THOUGHT}<|message|>{inside}<|end|><|start|>assistant"


def spoken_harmony(text: str) -> str:
    """Return what a reply says: its messages in other channels than thoughts and calls."""
    messages = _messages(text, speech_of(text).start)
    said = [
        text[one.begin : one.end].strip()
        for one in messages
        if one.channel != _THOUGHT and one.to is None
    ]
    called = [text[one.begin : one.end].strip() for one in messages if one.to is not None]
    return " ".join(filter(None, said)) or next(iter(called), "")


def teach_harmony(tools: Sequence[Tool], thinking: bool) -> str:
    """Return the tools as the namespace `functions`."""
    lines = ["# Tools", "", "## functions", "", "namespace functions {", ""]
    for tool in tools:
        lines += [f"// {line}" for line in tool.description.strip().splitlines()]
        lines += [f"type {tool.name} = {_signature(tool)};", ""]
    lines += ["} // namespace functions", ""]
    first = "Think first, in the channel analysis. " if thinking else ""
    lines += [f"{first}Call one function in each reply, in the channel commentary."]
    return "\n".join(lines)


def _signature(tool: Tool) -> str:
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "() => any"
    given = schema.get("required")
    required = given if isinstance(given, list) else []
    fields = [
        f"{name}{'' if name in required else '?'}: {_type_of(one)},"
        for name, one in properties.items()
    ]
    return "\n".join(("(_: {", *fields, "}) => any"))


def _type_of(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return " | ".join(json.dumps(one, ensure_ascii=False, default=str) for one in choices)
    kind = schema.get("type")
    if kind == "array":
        return f"{_type_of(schema.get('items'))}[]"
    simple = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}
    return simple.get(kind, "any") if isinstance(kind, str) else "any"
