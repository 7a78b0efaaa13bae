"""How long replies that mean harm take, by their size: ten times the size has to take about ten
times as long.

    python tests/bench/hostile_replies.py [--rounds 3]

Each reply goes the whole way: `interpret`, and its answer as JSON. Milliseconds of processor time,
the best round. The growth is the time for 1 MB over the time for 100 kB.
"""

from __future__ import annotations

import argparse
import json
import time

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpreter

CONFIG = """
action_mappings:
  type:
    _parser: {positional: [text]}
    _tool: computer
    text: {from_arg: text}
"""
SIZES = {"10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
REPLIES = {
    "blanks": ("", " ", ""),
    "blanks in a tool tag": ("<tool>", " ", "</tool>"),
    "unclosed <think>": ("", "<think>", ""),
    "unclosed <tool>": ("", "<tool>", ""),
    "<think></think>": ("", "<think></think>", ""),
    "<tool></tool>": ("", "<tool></tool>", ""),
    "<tool>type(1)</tool>": ("", "<tool>type(1)</tool>", ""),
    "<": ("", "<", ""),
    "long think, one call": ("<think>", "a b ", "</think><tool>type(1)</tool>"),
    "long text": ("<tool>type('", "a b ", "')</tool>"),
    "escapes": ("<tool>type('", "\\n", "')</tool>"),
    "quotes around a think block": ("<tool>type(", "\"'", "<think></think>)</tool>"),
    "opening brackets": ("<tool>type(", "[", ")</tool>"),
    "brackets, closed": ("<tool>type(", "[],", "1)</tool>"),
    "objects in objects": ("<tool>type(", '{"a":', ")</tool>"),
    "list of numbers": ("<tool>type([", "1,", "])</tool>"),
    "too many arguments": ("<tool>type(", "1,", ")</tool>"),
    "parentheses": ("<tool>type(", "(", ")</tool>"),
    "one number": ("<tool>type(", "1", ")</tool>"),
    "one name": ("<tool>", "a", "()</tool>"),
    "commas": ("<tool>type(", ",", ")</tool>"),
    "unclosed quote": ("<tool>type('", "a", ")</tool>"),
}


def measure(interpreter: Interpreter, reply: str, rounds: int) -> float:
    found = 9e9
    for _ in range(rounds):
        began = time.process_time()
        json.dumps(interpreter.interpret(reply).to_json())
        found = min(found, time.process_time() - began)
    return found * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    config, _ = parse_config(CONFIG, name="bench")
    assert config is not None
    interpreter = Interpreter(config)
    print(f"{'milliseconds':30}" + "".join(f"{size:>10}" for size in SIZES) + f"{'growth':>10}")
    for name, (before, unit, after) in REPLIES.items():
        times = [
            measure(interpreter, before + unit * (size // len(unit)) + after, arguments.rounds)
            for size in SIZES.values()
        ]
        growth = times[2] / times[1] if times[1] > 0.05 else None
        print(
            f"{name:30}"
            + "".join(f"{took:10.2f}" for took in times)
            + (f"{growth:10.1f}" if growth else f"{'-':>10}")
        )
    depth = 100_000
    took = measure(interpreter, f"<tool>type({'[' * depth}{']' * depth})</tool>", 1)
    print(f"lists {depth:,} deep, closed: {took:.0f} ms")


if __name__ == "__main__":
    main()
