"""How many replies a second become calls, beside the least that could be done with them.

    python tests/bench/parse.py [--rounds 15] [--replies 2000]

The floor of the same run is `re.match` of the bare tool text and `json.dumps` of the finished call:
no tags, no arguments, no mapping, no transform. `interpret` takes the whole reply and gives
everything that the preview shows. Nothing is remembered from one reply to the next; "all different"
are replies whose thoughts and arguments never repeat, and so are those of the dialects. Times are
the best round of each, on one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.gym.config import load_config, with_dialect
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.interpreter import Interpreter, reply_in

CONFIGS = Path(__file__).parents[2] / "configs"
CALL = re.compile(r"(\w+)\((.*)\)")
INTEGER = {"type": "integer"}
SCHEMAS: dict[str, Any] = {
    "move": {
        "type": "object",
        "properties": {"direction": {"type": "string", "enum": ["left", "right", "up", "down"]}},
        "required": ["direction"],
        "additionalProperties": False,
    },
    "computer": {
        "type": "object",
        "properties": {
            "action": {"type": "string"},
            **{
                name: {"anyOf": [INTEGER, {"type": "null"}]}
                for name in ("x", "y", "scroll_x", "scroll_y", "time")
            },
            "text": {"type": "string"},
            "keys": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["action"],
    },
}


def texts_2048(choice: random.Random, fresh: bool) -> str:
    return choice.choice(["left()", "right()", "up()", "down()"])


def texts_default(choice: random.Random, fresh: bool) -> str:
    kind = choice.randrange(6)
    if not fresh:
        return [
            "screenshot()",
            "click(100, 200)",
            'type("hello")',
            'key("ctrl+a")',
            'scroll("down", 3)',
            "wait(2.5)",
        ][kind]
    number = choice.randrange(10_000)
    return [
        "screenshot()",
        f"click({number}, {choice.randrange(10_000)})",
        f'type("hello {number} times")',
        f'key("ctrl+f{number}")',
        f'scroll("{choice.choice(["up", "down"])}", {number})',
        f"wait({number / 100})",
    ][kind]


def replies(text: Callable[[random.Random, bool], str], count: int, fresh: bool) -> list[str]:
    choice = random.Random(7)
    thoughts = ["I look at the screen, and then I act."] * count
    if fresh:
        thoughts = [
            f"Step {number}: {choice.random()} looks best to me now." for number in range(count)
        ]
    return [f"<think>{thought}</think>\n<tool>{text(choice, fresh)}</tool>" for thought in thoughts]


def seconds(work: Callable[[Any], Any], items: Sequence[Any]) -> float:
    began = time.perf_counter()
    for item in items:
        work(item)
    return (time.perf_counter() - began) / len(items)


def best(
    works: dict[str, tuple[Callable[[Any], Any], Sequence[Any]]], rounds: int
) -> dict[str, float]:
    """The best time of each. They take turns, so that a busy moment of the machine hits all
    alike."""
    found = dict.fromkeys(works, 9e9)
    for _ in range(rounds):
        for name, (work, items) in works.items():
            found[name] = min(found[name], seconds(work, items))
    return found


def floor(item: tuple[str, dict[str, Any]]) -> str:
    CALL.match(item[0])
    return json.dumps(item[1])


def measure(name: str, text: Callable[[random.Random, bool], str], count: int, rounds: int) -> None:
    config = load_config(CONFIGS / f"{name}.yaml")
    plain = Interpreter(config)
    strict = Interpreter(
        config, {tool: Tool(tool, input_schema=schema) for tool, schema in SCHEMAS.items()}
    )
    works: dict[str, tuple[Callable[[Any], Any], Sequence[Any]]] = {}
    for label, fresh in (("same replies", False), ("all different", True)):
        batch = replies(text, count, fresh)
        meanings = [strict.interpret(reply) for reply in batch]
        pairs = [
            (meaning.tool, meaning.call._asdict())
            for meaning in meanings
            if meaning.call is not None
        ]
        assert len(pairs) == count
        works[f"floor, {label}"] = (floor, pairs)
        works[f"interpret, {label}"] = (plain.interpret, batch)
        works[f"interpret with a schema, {label}"] = (strict.interpret, batch)
    for dialect in DIALECTS:
        spoken = with_dialect(config, dialect)
        thoughts = [f"Step {number}: this looks best to me now." for number in range(count)]
        choice = random.Random(7)
        said = [reply_in(spoken, text(choice, True), thought) for thought in thoughts]
        reader = Interpreter(spoken)
        meanings = [reader.interpret(reply) for reply in said]
        assert all(meaning.call is not None for meaning in meanings)
        pairs = [(meaning.tool, meaning.call._asdict()) for meaning in meanings if meaning.call]
        works[f"floor, {dialect}"] = (floor, pairs)
        works[f"interpret, {dialect}"] = (reader.interpret, said)
    found = best(works, rounds)
    print(f"\n{name}.yaml, {count} replies, best of {rounds} rounds")
    print(f"  {'':42} {'us/call':>8} {'calls/s':>10} {'x floor':>8}")
    for label, took in found.items():
        base = found["floor, " + label.split(", ")[1]]
        print(f"  {label:42} {took * 1e6:8.2f} {1 / took:10,.0f} {base / took:8.2f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--replies", type=int, default=2_000)
    arguments = parser.parse_args()
    measure("2048", texts_2048, arguments.replies, arguments.rounds)
    measure("default", texts_default, arguments.replies, arguments.rounds)


if __name__ == "__main__":
    main()
