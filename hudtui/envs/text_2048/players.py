"""What the scripted policies know of 2048: to read a board from text, and to slide it."""

from __future__ import annotations

import re
from collections.abc import Iterator

Board = tuple[tuple[int, ...], ...]
"""Rows of tiles; 0 is an empty cell."""

DIRECTIONS = ("left", "down", "right", "up")
"""In the order of preference among equals: tiles gather in the lower left corner."""

_CELL = re.compile(r"\d+|[.·_-]")
_RULE = re.compile(r"[\s+|=─━═┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬:-]*")
_SIZES = range(2, 11)


def read_board(text: str) -> Board | None:
    """The last board in `text`, or None where there is none.

    A board is as many neighbouring lines as each has cells: numbers, and blanks or one of `. · _ - 0` for empty. Cells stand
    between bars or are set apart by blanks; empty lines and lines of dashes and the like between the rows do not count.
    """
    best: Board | None = None
    for rows in _blocks(text):
        size = len(rows[0])
        if size in _SIZES and len(rows) >= size:
            best = tuple(rows[-size:])
    return best


def _blocks(text: str) -> Iterator[list[tuple[int, ...]]]:
    """Runs of rows with the same number of cells."""
    rows: list[tuple[int, ...]] = []
    for line in text.splitlines():
        row = _row(line)
        if row is None:
            if _RULE.fullmatch(line):  # a rule or a blank line
                continue
            if rows:
                yield rows
            rows = []
            continue
        if rows and len(row) != len(rows[0]):
            yield rows
            rows = []
        rows.append(row)
    if rows:
        yield rows


def _row(line: str) -> tuple[int, ...] | None:
    line = line.strip().replace("│", "|").replace("║", "|").replace("┃", "|")
    cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")] if "|" in line else line.split()
    if len(cells) < 2 or not all(cell == "" or _CELL.fullmatch(cell) for cell in cells):
        return None
    if "|" not in line and all(not cell.isdigit() and cell != "." for cell in cells):
        return None  # a rule written with blanks: `- - - -`
    tiles = tuple(int(cell) if cell.isdigit() else 0 for cell in cells)
    return tiles if all(_is_tile(tile) for tile in tiles) else None


def _is_tile(number: int) -> bool:
    return number == 0 or (number > 1 and number & (number - 1) == 0)


def slide(board: Board, direction: str) -> tuple[Board, int]:
    """The board after a move, before a new tile appears, and the points of its merges. An illegal move leaves it as it is."""
    if direction == "left":
        moved = [_slide_row(row) for row in board]
    elif direction == "right":
        moved = [(row[::-1], score) for row, score in (_slide_row(row[::-1]) for row in board)]
    else:
        turned, score = slide(tuple(zip(*board, strict=True)), "left" if direction == "up" else "right")
        return tuple(zip(*turned, strict=True)), score
    return tuple(row for row, _ in moved), sum(score for _, score in moved)


def _slide_row(row: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    tiles = [tile for tile in row if tile]
    kept: list[int] = []
    score = 0
    mergeable = False
    for tile in tiles:
        if mergeable and kept[-1] == tile:
            kept[-1] *= 2
            score += kept[-1]
            mergeable = False  # one merge a tile and move
        else:
            kept.append(tile)
            mergeable = True
    return tuple(kept + [0] * (len(row) - len(kept))), score


def legal_moves(board: Board) -> tuple[str, ...]:
    """The directions that change the board."""
    return tuple(direction for direction in DIRECTIONS if slide(board, direction)[0] != board)


def greedy_move(board: Board) -> str | None:
    """The direction with the most points at once; among equals the one that leaves most room; then the order of `DIRECTIONS`.

    None when no move is possible.
    """
    best: tuple[tuple[int, int], str] | None = None
    for direction in DIRECTIONS:
        moved, score = slide(board, direction)
        if moved == board:
            continue
        rank = (score, sum(tile == 0 for row in moved for tile in row))
        if best is None or rank > best[0]:
            best = (rank, direction)
    return best[1] if best else None


def highest_tile(board: Board) -> int:
    """The highest tile."""
    return max((tile for row in board for tile in row), default=0)
