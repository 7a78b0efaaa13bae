"""The rules of 2048, on square boards of any size.

Standard library only, and nothing here knows of MCP. A board is a tuple of rows, each a tuple of
numbers; 0 is an empty cell. Everything random comes from one seed, and by `random.random` alone,
the one draw that Python promises never to change: the same seed gives the same game everywhere.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Iterable, Sequence
from typing import Any

Board = tuple[tuple[int, ...], ...]

DIRECTIONS = ("left", "right", "up", "down")
SMALLEST, LARGEST = 2, 16
"""Limits of a board's side, in cells."""

FOURS = 0.1
"""Chance that a new tile is a 4 rather than a 2."""


class RuleError(ValueError):
    """A request that the rules do not allow; the message is for the agent."""


def slide(row: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """One row pushed to its start.

    Equal neighbours merge, those nearest the start first, and a merged tile does not merge again in
    the same move.

    Returns:
        The new row, and the points gained: the sum of the merged tiles.
    """
    tiles = [tile for tile in row if tile]
    pushed: list[int] = []
    gained = 0
    at = 0
    while at < len(tiles):
        if at + 1 < len(tiles) and tiles[at] == tiles[at + 1]:
            pushed.append(tiles[at] * 2)
            gained += tiles[at] * 2
            at += 2
        else:
            pushed.append(tiles[at])
            at += 1
    return tuple(pushed) + (0,) * (len(row) - len(pushed)), gained


def push(board: Board, direction: str) -> tuple[Board, int]:
    """The whole board pushed in a direction, before any new tile appears.

    Returns:
        The new board, and the points gained. The board is equal to the old one when the move is not
        possible.

    Raises:
        RuleError: The direction is none of `DIRECTIONS`.
    """
    if direction not in DIRECTIONS:
        raise RuleError(f"direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
    upright = direction in ("up", "down")
    backwards = direction in ("right", "down")
    lines: Iterable[tuple[int, ...]] = zip(*board, strict=True) if upright else board
    moved: list[tuple[int, ...]] = []
    gained = 0
    for line in lines:
        line, points = slide(line[::-1] if backwards else line)
        moved.append(line[::-1] if backwards else line)
        gained += points
    return tuple(zip(*moved, strict=True)) if upright else tuple(moved), gained


def possible(board: Board) -> tuple[str, ...]:
    """The directions that change the board; none when the game is over."""
    return tuple(direction for direction in DIRECTIONS if push(board, direction)[0] != board)


def draw(board: Board) -> str:
    """The board as text: one line a row, columns aligned, a dot for an empty cell.

    `players.read_board` reads it back.
    """
    width = max(len(str(tile)) for row in board for tile in row)
    return "\n".join(
        " ".join((str(tile) if tile else ".").rjust(max(width, 4)) for tile in row) for row in board
    )


class Game:
    """One game: a board, a score and what is left of a seed.

    Args:
        size: Cells a side, `SMALLEST` to `LARGEST`. Ignored when `board` is given.
        seed: Any integer; None draws one, which the attribute `seed` holds.
        board: Start from this position instead of from two random tiles.

    Raises:
        RuleError: The size is out of range, or the board is not a square of empty cells and powers
            of two.
    """

    def __init__(
        self, size: int = 4, seed: int | None = None, board: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.seed = secrets.randbits(31) if seed is None else seed
        self.score = 0
        self.moves = 0
        """Moves that changed the board."""
        self.attempts = 0
        """All moves asked for, those that changed nothing included."""
        self._random = random.Random(self.seed)
        if board is not None:
            self.board = _checked(board)
            return
        if not SMALLEST <= size <= LARGEST:
            raise RuleError(f"the board size must be {SMALLEST} to {LARGEST}, not {size}")
        self.board = ((0,) * size,) * size
        self._spawn()
        self._spawn()

    @property
    def size(self) -> int:
        """Cells a side."""
        return len(self.board)

    @property
    def highest(self) -> int:
        """The highest tile; 0 on an empty board."""
        return max(tile for row in self.board for tile in row)

    @property
    def over(self) -> bool:
        """True if no move changes the board any more."""
        return not possible(self.board)

    @property
    def efficiency(self) -> float:
        """Points a move: `score / attempts`, 0 before the first move.

        A move that changes nothing costs, too.
        """
        return self.score / self.attempts if self.attempts else 0.0

    def move(self, direction: str) -> int | None:
        """Push the board; when that changed it, a new tile appears.

        Returns:
            The points gained, or None when nothing moved.

        Raises:
            RuleError: The direction is none of `DIRECTIONS`. It does not count as an attempt.
        """
        board, gained = push(self.board, direction)
        self.attempts += 1
        if board == self.board:
            return None
        self.board = board
        self.score += gained
        self.moves += 1
        self._spawn()
        return gained

    def progress(self, target: int) -> float:
        """How near the highest tile is to `target` on the scale of doublings.

        `log2(highest) / log2(target)`, at most 1.
        """
        return min(1.0, math.log2(self.highest) / math.log2(target)) if self.highest else 0.0

    def text(self) -> str:
        """The game as the agent sees it: a line of figures, then the board."""
        figures = f"Score {self.score}, moves {self.moves}, highest tile {self.highest}."
        return (
            f"{figures}{' Game over: no move is possible.' if self.over else ''}\n\n"
            f"{draw(self.board)}"
        )

    def state(self) -> dict[str, Any]:
        return {
            "board": [list(row) for row in self.board],
            "score": self.score,
            "moves": self.moves,
            "attempts": self.attempts,
            "highest_tile": self.highest,
            "game_over": self.over,
        }

    def _spawn(self) -> None:
        empty = [
            (y, x) for y, row in enumerate(self.board) for x, tile in enumerate(row) if not tile
        ]
        if not empty:
            return
        y, x = empty[int(self._random.random() * len(empty))]
        tile = 4 if self._random.random() < FOURS else 2
        row = self.board[y]
        self.board = (*self.board[:y], (*row[:x], tile, *row[x + 1 :]), *self.board[y + 1 :])


def _checked(board: Sequence[Sequence[int]]) -> Board:
    size = len(board)
    if not SMALLEST <= size <= LARGEST or any(len(row) != size for row in board):
        raise RuleError(f"a start board must be a square of {SMALLEST} to {LARGEST} rows")
    for tile in (tile for row in board for tile in row):
        if type(tile) is not int or tile < 0 or tile == 1 or tile & (tile - 1):
            raise RuleError(f"a start board holds 0 and powers of two from 2 on, not {tile!r}")
    return tuple(tuple(row) for row in board)
