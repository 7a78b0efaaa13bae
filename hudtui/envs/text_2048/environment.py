"""What the environment offers, as plain data and functions.

Tools, hubs and resources in the conventions of HUD's v4 generation.
    move(direction)                      for the agent
    setup(name, arguments)               hub: board(board_size, seed, board)
    evaluate(name, arguments)            hub: max_number(target), efficiency(min_ratio)
    int_board, int_max_number, ...       the hubs' functions, callable but not listed
    file:///setup/functions              the names of a hub's functions, as JSON

A hub takes its function's arguments as an object or as JSON text under `arguments`, or flat beside
`name`: `{"name": "board", "board_size": 4}`.

Whoever serves this (`stdio.py`, `server.py`) gives every connection a `GameTable` of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from hudtui.envs.text_2048.game import DIRECTIONS, LARGEST, SMALLEST, Game, RuleError

NAME = "text-2048"
VERSION = "1.0.0"
INSTRUCTIONS = (
    "The game 2048 in text. `move` pushes all tiles in one direction; equal tiles that meet merge, "
    "and every move that changes the board adds a new tile. `setup` and `evaluate` begin and judge "
    "a task and are not meant for the agent."
)

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The generations of MCP with sessions, the newest first: a game needs one."""

Answer = dict[str, Any]
"""`{"text": str, "structured": object or None, "is_error": bool}`: what a tool answers, before it
is put into MCP's form."""


def _hub(hub: str, purpose: str, functions: Mapping[str, str]) -> dict[str, Any]:
    listed = "\n".join(f"- {name}{signature}" for name, signature in functions.items())
    return {
        "name": hub,
        "description": f"{purpose} Calls one of its internal functions:\n{listed}",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "enum": list(functions),
                    "description": "The function to call",
                },
                "arguments": {
                    "anyOf": [{"type": "object"}, {"type": "string"}, {"type": "null"}],
                    "default": None,
                    "description": (
                        "Its arguments, as an object or as JSON text; they may also stand beside "
                        "`name`"
                    ),
                },
            },
            "required": ["name"],
        },
    }


TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "move",
        "description": (
            "Push all tiles of the 2048 board in one direction. Answers with the score and the "
            "board."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "direction": {
                    "type": "string",
                    "enum": list(DIRECTIONS),
                    "description": "Where the tiles go",
                }
            },
            "required": ["direction"],
            "additionalProperties": False,
        },
    },
    _hub(
        "setup",
        "Begin a new game.",
        {
            "board": f"(board_size=4, seed=None, board=None): a square board of {SMALLEST} to "
            f"{LARGEST} cells a side (`size` is understood, too), the same for the same "
            "seed; or the given rows as the start position"
        },
    ),
    _hub(
        "evaluate",
        "Judge the game as it stands.",
        {
            "max_number": (
                "(target): reward 1 when the highest tile reaches the target, below it "
                "log2(highest) / log2(target)"
            ),
            "efficiency": (
                "(min_ratio=10): points a move, reward 1 from min_ratio on, below it ratio / "
                "min_ratio"
            ),
        },
    ),
)

HUBS: dict[str, tuple[str, ...]] = {"setup": ("board",), "evaluate": ("efficiency", "max_number")}

RESOURCES: tuple[dict[str, Any], ...] = tuple(
    {
        "uri": f"file:///{hub}/functions",
        "name": f"{hub} functions",
        "description": f"The functions that the hub tool `{hub}` can call",
        "mimeType": "application/json",
    }
    for hub in HUBS
)


def read_resource(uri: str) -> str | None:
    """The JSON text of a resource, or None when there is no such resource."""
    for hub, functions in HUBS.items():
        if uri == f"file:///{hub}/functions":
            return json.dumps(sorted(functions))
    return None


class GameTable:
    """One player's table: the game of one connection, and the tools that act on it.

    Args:
        seed: Seed of the game that is on the table before any setup.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.game = Game(seed=seed)
        self._functions: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "board": self._board,
            "max_number": self._max_number,
            "efficiency": self._efficiency,
        }

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer | None:
        """What a tool answers; None when there is no tool of that name.

        Requests against the rules or with unfit arguments are answered with an error that says what
        is expected.
        """
        try:
            if tool == "move":
                return self._move(dict(arguments))
            if tool in HUBS:
                name, given = _hub_call(tool, arguments)
                return self._functions[name](given)
            if tool.removeprefix("int_") in self._functions and tool.startswith("int_"):
                return self._functions[tool.removeprefix("int_")](dict(arguments))
        except RuleError as error:
            return {"text": str(error), "structured": None, "is_error": True}
        return None

    def _move(self, given: dict[str, Any]) -> Answer:
        _only(given, "move", "direction")
        direction = given.get("direction")
        if not isinstance(direction, str):
            raise RuleError(f"move needs a direction: one of {', '.join(DIRECTIONS)}")
        gained = self.game.move(direction)
        told = (
            f"Moved {direction}, +{gained}."
            if gained is not None
            else f"Nothing moves {direction}; the board is unchanged."
        )
        return {
            "text": f"{told} {self.game.text()}",
            "structured": {"moved": gained is not None, "gained": gained or 0, **self.game.state()},
            "is_error": False,
        }

    def _board(self, given: dict[str, Any]) -> Answer:
        if "size" in given:
            if "board_size" in given:
                raise RuleError("board takes board_size or size, not both")
            given["board_size"] = given.pop("size")
        _only(given, "board", "board_size", "seed", "board")
        board = given.get("board")
        if isinstance(board, str):
            board = _json(board, "board")
        if board is not None and not (
            isinstance(board, list) and all(isinstance(row, list) for row in board)
        ):
            raise RuleError("board.board must be a list of rows of numbers")
        size = _integer(given, "board", "board_size")
        if board is not None and size is not None and size != len(board):
            raise RuleError(f"board_size is {size}, but the given board has {len(board)} rows")
        self.game = Game(4 if size is None else size, _integer(given, "board", "seed"), board)
        return {
            "text": f"A new game on {self.game.size}x{self.game.size}. {self.game.text()}",
            "structured": {**self.game.state(), "seed": self.game.seed},
            "is_error": False,
        }

    def _max_number(self, given: dict[str, Any]) -> Answer:
        _only(given, "max_number", "target")
        target = _integer(given, "max_number", "target")
        if target is None or target < 4:
            raise RuleError("max_number needs a target: a whole number from 4 on, such as 2048")
        highest = self.game.highest
        return self._judged(
            self.game.progress(target),
            highest >= target,
            f"Highest tile {highest}, target {target}.",
            {"target": target},
        )

    def _efficiency(self, given: dict[str, Any]) -> Answer:
        _only(given, "efficiency", "min_ratio")
        wanted = given.get("min_ratio")
        wanted = 10 if wanted is None else wanted
        if (
            isinstance(wanted, bool)
            or not isinstance(wanted, int | float)
            or not 0 < wanted < float("inf")
        ):
            raise RuleError(f"efficiency.min_ratio must be a number above 0, not {wanted!r}")
        ratio = self.game.efficiency
        return self._judged(
            min(1.0, ratio / wanted),
            ratio >= wanted,
            f"{ratio:.2f} points a move ({self.game.score} in {self.game.attempts}), {wanted:g} "
            "wanted.",
            {"ratio": ratio, "min_ratio": wanted},
        )

    def _judged(self, reward: float, reached: bool, content: str, info: dict[str, Any]) -> Answer:
        verdict = {
            "reward": reward,
            "done": reached,
            "content": content,
            "info": {**info, **self.game.state(), "reached": reached},
            "isError": False,
        }
        return {"text": json.dumps(verdict), "structured": verdict, "is_error": False}


def _hub_call(hub: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    flat = dict(arguments)
    name = flat.pop("name", None)
    if name not in HUBS[hub]:
        raise RuleError(
            f"{hub} needs the name of a function: one of {', '.join(HUBS[hub])}, not {name!r}"
        )
    inner = flat.pop("arguments", None)
    if isinstance(inner, str):
        inner = _json(inner, "arguments") if inner.strip() else None
    if inner is None:
        inner = {}
    if not isinstance(inner, dict):
        raise RuleError(f"{hub}.arguments must be an object, or JSON text of one")
    if twice := sorted(inner.keys() & flat.keys()):
        raise RuleError(f"{', '.join(twice)}: given both in `arguments` and beside `name`")
    return name, {**inner, **flat}


def _json(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RuleError(f"{name} is text, but not valid JSON: {error}") from None


def _only(given: Mapping[str, Any], function: str, *known: str) -> None:
    if unknown := sorted(given.keys() - set(known)):
        raise RuleError(
            f"{function} takes {', '.join(known)}; it does not know {', '.join(unknown)}"
        )


def _integer(given: Mapping[str, Any], function: str, name: str) -> int | None:
    value = given.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and type(value) is not int:
        raise RuleError(f"{function}.{name} must be a whole number, not {value!r}")
    return value
