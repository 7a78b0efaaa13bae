"""Questions to results: histograms, causes, pass@k, comparisons."""

from __future__ import annotations

import itertools
from pathlib import Path
from statistics import fmean

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import own_episode, write_own

from hudtui.core.results.find import results_at
from hudtui.core.results.index import ResultIndex
from hudtui.core.results.queries import (
    EPISODE_FIELDS,
    cause_of,
    compare_groups,
    diff_transcripts,
    failures,
    histogram,
    pass_at_k,
    pass_table,
    slips,
    step_map,
    unsolved,
    word_diff,
)
from hudtui.core.results.values import EpisodeEntry, GroupKey, ResultGroup
from hudtui.core.row_filter import arrange


def entry(
    reward: float | None = 0.5,
    *,
    task: str = "a",
    number: int = 0,
    error: str | None = None,
    stop: str = "done",
) -> EpisodeEntry:
    return EpisodeEntry(
        number=number, run="r", file=0, offset=0, length=1, part=0, task=task, step=None, split="",
        rollout=None, reward=reward, part_names=(), part_values=(), stop=stop, error=error, turns=1,
        prompt_tokens=None, completion_tokens=None, seconds=None, started_at=None,
    )  # fmt: skip


def test_histogram() -> None:
    assert histogram([]) == () and histogram([entry(None)]) == ()
    bars = histogram([entry(value) for value in (0.0, 0.05, 0.3, 0.95, 1.0, None)])
    assert [bar.count for bar in bars] == [2, 0, 0, 1, 0, 0, 0, 0, 0, 2]
    assert (bars[0].low, bars[-1].high) == (0.0, 1.0)
    (only,) = histogram([entry(7.0)] * 3)
    assert (only.low, only.high, only.count) == (7.0, 7.0, 3)
    wide = histogram([entry(-1.0), entry(3.0)], 4)
    assert [(bar.low, bar.count) for bar in wide] == [(-1.0, 1), (0.0, 0), (1.0, 0), (2.0, 1)]


@given(st.lists(st.floats(-5, 5, allow_nan=False), min_size=1, max_size=40), st.integers(1, 12))
def test_a_bar_counts_the_rewards_between_its_ends(rewards: list[float], buckets: int) -> None:
    bars = histogram(
        [entry(reward, number=number) for number, reward in enumerate(rewards)], buckets
    )
    assert sum(bar.count for bar in bars) == len(rewards)
    for bar in bars:
        last = bar is bars[-1]
        assert (
            sum(bar.low <= reward < bar.high or (last and reward == bar.high) for reward in rewards)
            == bar.count
        )


def test_causes() -> None:
    told = [
        "the server at 127.0.0.1:8001 died after 3.5 s",
        "the server at 127.0.0.1:8417 died after 12 s",
        "there is no file /tmp/x/1f/board.json",
        "there is no file /tmp/y/board-2.json\nand a second line",
        "request 3f2a9c4d-11aa refused",
        "request 99aa0cde-0b1c refused",
    ]
    entries = [
        entry(0.0, task=f"t{number // 2}", number=number, error=text, stop="error")
        for number, text in enumerate(told)
    ]
    entries += [
        entry(1.0, number=6),
        entry(0.0, number=7, stop="cancelled"),
        entry(0.0, number=8, error=told[0], stop="error"),
    ]
    found = failures(entries)
    assert [(one.cause, one.numbers, one.tasks) for one in found] == [
        ("the server at <n>:<n> died after <n> s".replace("<n>:<n>", "<n>"), (0, 1, 8), 2),
        ("there is no file <path>", (2, 3), 1),
        ("request <id> refused", (4, 5), 1),
        ("cancelled", (7,), 1),
    ]
    assert found[0].example == told[0] and cause_of(entries[6]) is None
    assert [
        one.number for one in arrange(entries, EPISODE_FIELDS, wanted='cause:"the server"')
    ] == [0, 1, 8]


def test_ends_without_a_solution_are_causes_too() -> None:
    def ended(number: int, stop: str, completion: float, tools: float, form: float) -> EpisodeEntry:
        names = ("task_completion", "tool_execution", "format_compliance")
        made = entry(0.5, task=f"t{number % 2}", number=number, stop=stop)
        return msgspec.structs.replace(
            made, part_names=names, part_values=(completion, tools, form)
        )

    entries = [
        ended(0, "max_turns", 0, 0, 0),
        ended(1, "max_turns", 0, 0, 0),
        ended(2, "max_turns", 0.5, 0, 0.6),
        ended(3, "done", 0.5, 0.5, 1),
        ended(4, "done", 0.5, 1, 0.9),
        ended(5, "ended", 0, 1, 1),
        ended(6, "done", 1, 1, 1),
        entry(0.2, number=7, stop="context"),
        entry(1.0, number=8),
        entry(None, number=9),
        entry(0.0, number=10, stop="error", error="x"),
    ]
    assert [(one.cause, one.numbers, one.tasks) for one in unsolved(entries)] == [
        ("not solved, max_turns: no reply holds a call", (0, 1), 2),
        ("not solved, max_turns: no call succeeded", (2,), 1),
        ("not solved, done too early: some calls were refused or failed", (3,), 1),
        ("not solved, done too early: some replies are out of form", (4,), 1),
        ("not solved, ended by you", (5,), 1),
        ("not solved, context", (7,), 1),
    ]
    assert not unsolved(entries, solved_at=0.0)


def test_what_went_wrong_within_episodes_is_counted() -> None:
    made = [
        msgspec.structs.replace(entry(0.5, task=f"t{number % 2}", number=number), slips=told)
        for number, told in enumerate(
            [(("no_call", 3),), (), (("no_call", 1), ("failed", 9)), (("refused", 1),)]
        )
    ]
    assert [(one.times, one.cause, one.numbers, one.tasks) for one in slips(made)] == [
        (9, "calls that the environment answered with an error", (2,), 1),
        (4, "replies without a call that can be read", (0, 2), 1),
        (1, "calls that were refused", (3,), 1),
    ]


@given(
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_pass_at_k_is_the_share_of_all_choices_of_k_with_a_success(
    numbers: tuple[int, int, int],
) -> None:
    n, c, k = numbers
    tries = [True] * c + [False] * (n - c)
    assert pass_at_k(n, c, k) == pytest.approx(
        fmean(any(choice) for choice in itertools.combinations(tries, k))
    )


def test_pass_at_k_of_more_than_there_are_is_refused() -> None:
    for wrong in ((3, 1, 4), (3, 4, 1), (3, 1, 0), (0, 0, 1)):
        with pytest.raises(ValueError):
            pass_at_k(*wrong)


def test_pass_table() -> None:
    rewards = {"a": [1.0, 0.0, 0.0, 1.0], "b": [0.0, 0.0], "c": [1.0]}
    entries = [entry(reward, task=task) for task, found in rewards.items() for reward in found]
    entries.append(
        entry(1.0, task="c", error="it broke", stop="error")
    )  # says nothing, whatever its reward
    entries.append(entry(None, task="c"))
    table = pass_table(entries, (1, 2, 4, 8))
    assert [(one.task, one.episodes, one.solved) for one in table.tasks] == [
        ("a", 4, 2),
        ("b", 2, 0),
        ("c", 2, 1),
    ]
    assert table.tasks[0].rates == {1: 0.5, 2: pytest.approx(5 / 6), 4: 1.0}
    assert table.rates[1] == pytest.approx((0.5 + 0 + 1 / 2) / 3) and table.rates[4] == 1.0
    assert dict(table.counted) == {1: 3, 2: 3, 4: 1}
    assert pass_table([entry(0.7)], (1,), solved_at=0.7).rates == {1: 1.0}


def make(tmp_path: Path) -> ResultIndex:
    write_own(
        tmp_path / "one" / "traces.jsonl",
        own_episode("a", 0.25, replies=("left()", "up()", "down()")),
        own_episode("a", 0.75, replies=("left()", "down()")),
        own_episode("b", 1.0),
    )
    write_own(tmp_path / "two" / "traces.jsonl", own_episode("a", 1.0), own_episode("c", 0.0))
    index = ResultIndex(results_at(tmp_path))
    index.finish()
    return index


def test_groups_side_by_side(tmp_path: Path) -> None:
    groups = make(tmp_path).groups()
    pairs = compare_groups(
        *([group for group in groups if group.key.run == run] for run in ("one", "two"))
    )
    assert [(pair.task, pair.gain) for pair in pairs] == [("a", 0.5), ("b", None), ("c", None)]
    assert pairs[1].right is None and pairs[2].left is None


def test_groups_by_task_and_step() -> None:
    def group(step: int | None, split: str, task: str, reward: float | None) -> ResultGroup:
        return ResultGroup(
            GroupKey("r", split, step, task), (0,), 0, reward, None, reward, reward, 1.0
        )

    played = (
        (3, "eval", "a", 0.6),
        (1, "train", "b", None),
        (1, "train", "a", 0.25),
        (3, "train", "a", 1.0),
        (None, "", "c", 7.0),
    )
    found = step_map(group(*one) for one in played)
    assert [found.name(task) for task in found.tasks] == ["a", "b", "a (eval)"] and found.steps == (
        1,
        3,
    )
    cells = [
        [found.digit(found.groups.get((task, step))) for step in found.steps]
        for task in found.tasks
    ]
    assert cells == [["0", "9"], ["-", " "], [" ", "4"]] and (found.low, found.high) == (0.25, 1.0)
    assert step_map(()).steps == ()


def test_two_episodes_turn_by_turn(tmp_path: Path) -> None:
    index = make(tmp_path)
    left, right = (index.read(index.entries[number]) for number in (0, 1))
    found = diff_transcripts(left, right)
    assert [(turn.number, turn.change, turn.fields) for turn in found.turns] == [
        (1, "same", ()),
        (2, "changed", ("reply", "calls")),
        (3, "left", ()),
    ]
    assert found.opening and found.first is found.turns[1]
    assert diff_transcripts(left, left).first is None


@given(st.text("ab \n", max_size=30), st.text("ab \n", max_size=30))
def test_the_pieces_of_a_word_diff_are_both_texts(left: str, right: str) -> None:
    pieces = word_diff(left, right)
    assert "".join(text for change, text in pieces if change != "right") == left
    assert "".join(text for change, text in pieces if change != "left") == right


def test_word_diff() -> None:
    assert word_diff("move left now", "move right now") == (
        ("same", "move "),
        ("left", "left"),
        ("right", "right"),
        ("same", " now"),
    )
    long = "word " * 5_000
    assert word_diff(long, long) == (("same", long),)


REPEATING = {
    "words": ("x " * 1_990, "x y " * 990),
    "boards": (". 2 " * 900, ". 4 " * 900),
    "lines": (" .\n" * 1_300, " .  .\n" * 900),
    "empty lines": ("\n" * 4_100, "\n" * 4_000),
}


@pytest.mark.parametrize("kind", REPEATING)
def test_texts_that_repeat_themselves_are_compared_too(kind: str) -> None:
    """In moments: a search for the best of all matches takes minutes with them."""
    left, right = REPEATING[kind]
    pieces = word_diff(left, right)
    assert "".join(text for change, text in pieces if change != "right") == left
    assert "".join(text for change, text in pieces if change != "left") == right
