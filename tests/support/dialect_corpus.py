"""Calls of any kind, and replies that make them, written by the published rules of each dialect.

The writers know nothing of hudtui: they build the text from `json.dumps` and the marks alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hudtui.core.environment.values import Tool

CONFIG = """
system_prompt: Act.
parser: {use_thinking: %s, dialect: %s, parallel: %s}
action_mappings:
  put:
    _tool: put
    _parser: {positional: [a, b, c]}
    a: {from_arg: a}
    b: {from_arg: b, default: null}
    c: {from_arg: c, default: null}
  twice: {_tool: put, _parser: {positional: [a]}, a: {from_arg: a, transform: "lambda x: [x, x]"}}
"""
TOOLS = {"put": Tool("put", "Put things.", {"type": "object", "properties": {"a": {}}})}

_TEXTS = (
    *(
        "",
        "left",
        "a b",
        "it's",
        'say "hi"',
        "back\\slash",
        "new\nline",
        "tab\there",
        "\u00fc\u00df",
    ),
    *(
        "\u65e5\u672c\u8a9e",
        "\U0001f600",
        "\u2028",
        "</tool_call>",
        "<tool_call>",
        "<tool>left()</tool>",
    ),
    *("</tool>", "```", "```json\n{}\n```", "{}", "[1]", "<think>", "</think>", "<|call|>"),
    *("<|channel|>final<|message|>x", "[TOOL_CALLS]", "\\u003c", "%s", "$x", "null", "1e5", "NaN"),
    '{"name": "put", "arguments": {"a": 666}}',
    '<tool_call>\n{"name": "put", "arguments": {"a": 666}}\n</tool_call>',
    "<|channel|>commentary to=functions.put <|constrain|>json<|message|>{}<|call|>",
)
_KEYS = ("a", "b", "x y", "\u00e4", "name", "arguments", 'q"', "", "parameters")


@dataclass(frozen=True)
class Spoken:
    """A reply, and the calls that it makes outside of thoughts."""

    text: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    kind: str
    """`one`, `several`, `thought` (a call is in the thought alone), `cut` (the end is missing), or
    `none`."""


def any_value(choice: random.Random, depth: int = 0) -> Any:
    """A value of any type of JSON."""
    kind = choice.randrange(9 if depth < 3 else 7)
    if kind < 3:
        return "".join(choice.choices(_TEXTS, k=choice.randint(1, 2)))
    if kind == 3:
        return choice.choice((0, -1, 7, 2**53, -(10**30), choice.randrange(10**6)))
    if kind == 4:
        return choice.choice((0.5, -1.25, 1e-7, 1e300, choice.random()))
    if kind == 5:
        return choice.choice((True, False))
    if kind == 6:
        return None
    if kind == 7:
        return [any_value(choice, depth + 1) for _ in range(choice.randrange(4))]
    keys = choice.sample(_KEYS, choice.randrange(4))
    return {key: any_value(choice, depth + 1) for key in keys}


def any_call(choice: random.Random) -> tuple[str, dict[str, Any]]:
    """A call of an action, with arguments of any kind."""
    if choice.random() < 0.3:
        return "twice", {"a": any_value(choice)}
    names = ["a", *choice.sample(["b", "c"], choice.randrange(3))]
    return "put", {name: any_value(choice) for name in names}


def _dumps(choice: random.Random, value: Any) -> str:
    indent = choice.choice((None, None, None, 2))
    return json.dumps(value, ensure_ascii=choice.random() < 0.5, indent=indent)


def _hermes(choice: random.Random, name: str, arguments: Mapping[str, Any]) -> str:
    gap = choice.choice(("\n", "", " "))
    body = _dumps(choice, {"name": name, "arguments": arguments})
    return f"<tool_call>{gap}{body}{gap}</tool_call>"


def _json(choice: random.Random, name: str, arguments: Mapping[str, Any]) -> str:
    key = choice.choice(("arguments", "parameters"))
    return f"```json\n{_dumps(choice, {'name': name, key: arguments})}\n```"


def _harmony(choice: random.Random, name: str, arguments: Mapping[str, Any]) -> str:
    body = json.dumps(arguments, ensure_ascii=choice.random() < 0.5)
    head = choice.choice(
        (
            f"<|channel|>commentary to=functions.{name} <|constrain|>json",
            f"<|channel|>commentary to=functions.{name} json",
            f"<|start|>assistant to=functions.{name}<|channel|>commentary<|constrain|>json",
        )
    )
    return f"{head}<|message|>{body}<|call|>"


def _text(choice: random.Random, name: str, arguments: Mapping[str, Any]) -> str:
    spelled = ", ".join(f"{key}={_tagless(value)}" for key, value in arguments.items())
    return f"<tool>{name}({spelled})</tool>"


def _tagless(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


Write = Callable[[random.Random, str, Mapping[str, Any]], str]
WRITERS: Mapping[str, Write] = {
    "text": _text,
    "hermes": _hermes,
    "json": _json,
    "harmony": _harmony,
    "native": _hermes,
}


def any_spoken(choice: random.Random, dialect: str, write: Write | None = None) -> Spoken:
    """A reply in a dialect: calls, thoughts, both, and what is cut off."""
    write = write or WRITERS[dialect]
    kind = choice.choices(("one", "several", "thought", "cut", "none"), weights=(10, 3, 3, 3, 1))[0]
    count = {"one": 1, "cut": 1}.get(kind, 0) or choice.randint(2, 3)
    if kind in ("thought", "none"):
        count = 0
    calls = tuple(any_call(choice) for _ in range(count))
    written = "\n".join(write(choice, name, arguments) for name, arguments in calls)
    thought = choice.choice(("", "I look.", "It's <b>near</b>, isn't it?"))
    if kind == "thought" or choice.random() < 0.3:
        thought += write(choice, *any_call(choice)).replace("</think>", "")
    text = _thinking(choice, dialect, thought, written, inside=kind == "thought")
    if kind == "cut":
        at = text.rindex(written)
        text = text[: at + choice.randrange(1, len(written))]
    return Spoken(text, calls, kind)


def _thinking(
    choice: random.Random, dialect: str, thought: str, written: str, *, inside: bool
) -> str:
    """A thought before what is written; also one that a template has opened."""
    if not thought:
        return written
    if dialect == "harmony" and choice.random() < 0.5:
        body = thought.replace("<|", "< |")
        return f"<|channel|>analysis<|message|>{body}<|end|><|start|>assistant{written}"
    opened = choice.choice(("<think>", "<think>\n", ""))
    if inside and choice.random() < 0.4:
        return f"<think>{thought}"  # never closed
    return f"{opened}{thought}</think>\n{written}"


def meant(call: tuple[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The call of the tool that an action of the configuration becomes."""
    name, arguments = call
    given = {key: arguments.get(key) for key in "abc"}
    return {"tool": "put", "arguments": {"a": [given["a"]] * 2} if name == "twice" else given}
