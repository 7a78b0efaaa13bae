"""Scripted players of 2048: they read a board from an observation, and choose a move.

Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from hudtui.envs.text_2048.game import LARGEST, SMALLEST, Board, push

PREFERENCE = ("left", "down", "right", "up")
"""The directions in their order among equals: tiles gather in the lower left corner."""

_CELL = re.compile(r"\d+|[.·_-]")
_RULE = re.compile(r"[\s+|=─━═┌┐└┘├┤┬┴┼╔╗╚╝╠╣╦╩╬:-]*")


def read_board(text: str) -> Board | None:
    """The last board in `text`, or None where there is none.

    A board is as many neighbouring lines as each has cells: numbers, and blanks or one of
    `. · _ - 0` for empty. Cells stand between bars or are set apart by blanks; empty lines and
    lines of dashes and the like between the rows do not count.
    """
    best: Board | None = None
    for rows in _blocks(text):
        size = len(rows[0])
        if SMALLEST <= size <= LARGEST and len(rows) >= size:
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
    cells = (
        [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if "|" in line
        else line.split()
    )
    if len(cells) < 2 or not all(cell == "" or _CELL.fullmatch(cell) for cell in cells):
        return None
    if "|" not in line and all(not cell.isdigit() and cell != "." for cell in cells):
        return None  # a rule written with blanks: `- - - -`
    tiles = tuple(int(cell) if cell.isdigit() else 0 for cell in cells)
    return tiles if all(_is_tile(tile) for tile in tiles) else None


def _is_tile(number: int) -> bool:
    return number == 0 or (number > 1 and number & (number - 1) == 0)


def greedy_move(board: Board) -> str | None:
    """Return the direction with the most points at once.

    Of equal ones, the one with most free tiles; then by `PREFERENCE`.
    None when no move is possible.
    """
    best: tuple[tuple[int, int], str] | None = None
    for direction in PREFERENCE:
        moved, score = push(board, direction)
        if moved == board:
            continue
        rank = (score, sum(tile == 0 for row in moved for tile in row))
        if best is None or rank > best[0]:
            best = (rank, direction)
    return best[1] if best else None
