"""The rules of the game, against a slow and obvious second opinion."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.envs.text_2048.game import DIRECTIONS, Game, RuleError, draw, possible, push, slide
from hudtui.envs.text_2048.players import read_board

TILES = st.sampled_from([0, 0, 0, 2, 2, 4, 4, 8, 16, 1024, 2048])


def boards(smallest: int = 2, largest: int = 6):
    return st.integers(smallest, largest).flatmap(
        lambda size: st.lists(
            st.lists(TILES, min_size=size, max_size=size).map(tuple), min_size=size, max_size=size
        ).map(tuple)
    )


def slow_slide(row):
    """Tile by tile, as a hand would push them: each goes as far as it can, and merges at most
    once."""
    cells, merged = list(row), [False] * len(row)
    gained = 0
    for start in range(len(cells)):
        at = start
        while cells[at] and at > 0:
            if cells[at - 1] == 0:
                cells[at - 1], cells[at] = cells[at], 0
                at -= 1
            elif cells[at - 1] == cells[at] and not merged[at - 1]:
                cells[at - 1], cells[at] = 2 * cells[at], 0
                merged[at - 1] = True
                gained += cells[at - 1]
                break
            else:
                break
    return tuple(cells), gained


@pytest.mark.parametrize(
    ("row", "wanted", "points"),
    [
        ((2, 2, 2, 2), (4, 4, 0, 0), 8),
        ((4, 2, 2, 0), (4, 4, 0, 0), 4),
        ((2, 2, 4, 0), (4, 4, 0, 0), 4),
        ((0, 2, 0, 2), (4, 0, 0, 0), 4),
        ((2, 2, 2, 0), (4, 2, 0, 0), 4),
        ((2, 4, 2, 4), (2, 4, 2, 4), 0),
        ((0, 0, 0, 0), (0, 0, 0, 0), 0),
    ],
)
def test_a_row_by_hand(row, wanted, points):
    assert slide(row) == (wanted, points)


@given(st.lists(TILES, min_size=2, max_size=8).map(tuple))
def test_a_row_slides_as_by_hand(row):
    assert slide(row) == slow_slide(row)


@given(boards())
def test_directions_are_one_push_turned(board):
    def turned(rows):
        return tuple(zip(*rows[::-1], strict=True))

    left = push(board, "left")
    for direction, turns in (("down", 1), ("right", 2), ("up", 3)):
        rotated = board
        for _ in range(turns):
            rotated = turned(rotated)
        result, gained = push(rotated, "left")
        for _ in range((4 - turns) % 4):
            result = turned(result)
        assert push(board, direction) == (result, gained), direction
    assert sum(map(sum, left[0])) == sum(map(sum, board))


@given(boards(), st.integers(), st.lists(st.sampled_from(DIRECTIONS), max_size=60))
def test_a_game_follows_the_rules(board, seed, moves):
    game = Game(seed=seed, board=board)
    score = made = 0
    for number, direction in enumerate(moves, 1):
        before = game.board
        pushed, points = push(before, direction)
        gained = game.move(direction)
        if pushed == before:
            assert gained is None
            assert game.board == before, "a move that changes nothing brings no new tile"
        else:
            assert gained == points
            score, made = score + points, made + 1
            new = [
                (a, b)
                for row, old in zip(game.board, pushed, strict=True)
                for a, b in zip(row, old, strict=True)
                if a != b
            ]
            assert len(new) == 1, "a move that changes the board brings one new tile"
            assert new[0][0] in (2, 4)
            assert new[0][1] == 0
        assert (game.score, game.moves, game.attempts) == (score, made, number)
        assert game.over == (not possible(game.board))
        assert game.efficiency == score / number


@given(st.integers(2, 16), st.integers())
def test_a_new_game_has_two_tiles_and_depends_on_its_seed_alone(size, seed):
    game, again = Game(size, seed), Game(size, seed)
    tiles = [tile for row in game.board for tile in row if tile]
    assert len(game.board) == size == len(game.board[0])
    assert len(tiles) == 2
    assert set(tiles) <= {2, 4}
    for direction in DIRECTIONS * 5:
        game.move(direction)
        again.move(direction)
    assert game.state() == again.state()


def test_a_seed_gives_this_very_game_for_ever():
    game = Game(4, 2048)
    for direction in ("left", "down", "right", "up") * 3:
        game.move(direction)
    assert game.board == GOLDEN


GOLDEN = ((2, 4, 4, 8), (0, 0, 0, 8), (0, 0, 0, 0), (0, 0, 0, 2))


def test_without_a_seed_games_differ_and_can_be_replayed():
    games = [Game(6) for _ in range(20)]
    assert len({game.board for game in games}) > 1
    assert all(Game(6, game.seed).board == game.board for game in games)


def test_new_tiles_are_fours_one_time_in_ten():
    fours = total = 0
    for seed in range(400):
        game = Game(16, seed)
        fours += sum(row.count(4) for row in game.board)
        total += 2
    assert 0.05 < fours / total < 0.16


def test_the_game_ends_when_nothing_moves():
    full = ((2, 4), (4, 2))
    game = Game(board=full)
    assert game.over
    assert [game.move(direction) for direction in DIRECTIONS] == [None] * 4
    assert game.attempts == 4
    assert game.moves == 0
    assert "Game over" in game.text()
    assert not Game(board=((2, 2), (4, 8))).over, "a full board with equal neighbours goes on"


@pytest.mark.parametrize(
    ("highest", "target", "wanted"),
    [(2048, 2048, 1.0), (4096, 2048, 1.0), (64, 2048, 6 / 11), (2, 4, 0.5)],
)
def test_progress_counts_doublings(highest, target, wanted):
    assert math.isclose(Game(board=((highest, 0), (0, 0))).progress(target), wanted)


def test_progress_of_an_empty_board_is_none():
    assert Game(board=((0, 0), (0, 0))).progress(2048) == 0


def test_efficiency_is_points_for_each_attempt():
    game = Game(seed=1, board=((2, 2, 0), (0, 0, 0), (0, 0, 0)))
    assert game.efficiency == 0
    assert game.move("left") == 4
    assert game.efficiency == 4.0
    blocked = next(
        direction for direction in DIRECTIONS if push(game.board, direction)[0] == game.board
    )
    assert game.move(blocked) is None
    assert game.efficiency == 2.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 1}, "2 to 16, not 1"),
        ({"size": 17}, "2 to 16, not 17"),
        ({"board": [[2, 2]]}, "square"),
        ({"board": []}, "square"),
        ({"board": [[2, 3], [0, 0]]}, "not 3"),
        ({"board": [[1, 0], [0, 0]]}, "not 1"),
        ({"board": [[-2, 0], [0, 0]]}, "not -2"),
        ({"board": [[True, 0], [0, 0]]}, "not True"),
        ({"board": [[2.0, 0], [0, 0]]}, "not 2.0"),
    ],
)
def test_what_is_no_game(arguments, message):
    with pytest.raises(RuleError, match=message):
        Game(**arguments)


@pytest.mark.parametrize("direction", ["", "Left", "north", "l"])
def test_what_is_no_direction(direction):
    game = Game(seed=1)
    with pytest.raises(RuleError, match="left, right, up, down"):
        game.move(direction)
    assert game.attempts == 0


@given(boards(), st.booleans())
def test_a_drawn_board_reads_back(board, told):
    text = draw(board)
    assert (
        read_board(f"Moved left, +4. Score 12.\n\n{text}\n\nWhat now?" if told else text) == board
    )
    assert len({len(line) for line in text.splitlines()}) == 1, "columns are aligned"


def test_the_last_of_several_boards_counts():
    first, second = ((2, 0), (0, 2)), ((4, 0), (2, 0))
    assert read_board(f"{draw(first)}\n\nthen\n\n{draw(second)}") == second
    assert read_board("no board here: 4 and 2") is None
    assert read_board("1 2 3\n4 5 6") is None
