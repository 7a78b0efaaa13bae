import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.envs.text_2048 import game
from hudtui.envs.text_2048.players import PREFERENCE, greedy_move, read_board

TILES = st.sampled_from([0, 0, 0, 2, 4, 8, 16, 1024])
BOARDS = st.integers(2, 6).flatmap(
    lambda size: st.lists(
        st.lists(TILES, min_size=size, max_size=size).map(tuple), min_size=size, max_size=size
    ).map(tuple)
)


@given(BOARDS)
def test_what_the_environment_draws_is_read(board):
    assert (
        read_board(f"Moved left, +4. Score 12, moves 3, highest tile 8.\n\n{game.draw(board)}")
        == board
    )


@given(BOARDS)
def test_greedy_takes_the_most_points_and_only_legal_moves(board):
    move = greedy_move(board)
    if move is None:
        assert game.possible(board) == ()
    else:
        assert move in game.possible(board)
        assert game.push(board, move)[1] == max(game.push(board, other)[1] for other in PREFERENCE)


@pytest.mark.parametrize(
    "text",
    [
        "+------+------+\n|    2 |      |\n+------+------+\n|      |    4 |\n+------+------+",
        "┌──┬──┐\n│2 │  │\n├──┼──┤\n│  │4 │\n└──┴──┘",
        "2 0\n0 4",
        "2 .\n\n. 4",
        "   2    .\n   .    4   ",
        "|2|_|\n|_|4|",
    ],
)
def test_boards_in_other_spellings(text):
    assert read_board(text) == ((2, 0), (0, 4))


def test_the_last_board_counts():
    assert read_board("2 4\n8 16\n\nthen\n\n32 64\n. .") == ((32, 64), (0, 0))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no board",
        "Score 12 of 30",
        "1 2 3\n4 5 6\n7 8 9",
        "2 4 8",
        "- - - -\n- - - -\n- - - -\n- - - -",
    ],
)
def test_no_board(text):
    assert read_board(text) is None


def test_an_unfinished_board_does_not_hide_the_whole_one():
    assert read_board("2 4\n8 16\nand so on\n2 4 8 16\n2 4 8 16") == ((2, 4), (8, 16))


def test_reading_is_linear_in_the_text():
    text = "2 4 8 16\n" * 50_000 + "|" * 200_000
    assert read_board(text) == ((2, 4, 8, 16),) * 4


def test_greedy_reaches_more_than_random_play():
    def play(choose):
        total = 0
        for seed in range(12):
            one = game.Game(seed=seed)
            while not one.over:
                one.move(choose(one.board))
            total += one.score
        return total

    chance = random.Random(1)
    greedy = play(greedy_move)
    assert greedy > 1.5 * play(lambda board: chance.choice(game.possible(board)))
