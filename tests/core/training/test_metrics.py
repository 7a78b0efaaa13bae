from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.training.metrics import MetricsReader, Point

FILE = (
    b'{"step": 1, "reward": 0.5, "task": "a", "ok": true}\n{"step": 2, "reward": 0.75, "loss": 2}\n'
)


def test_numbers_become_series() -> None:
    reader = MetricsReader()
    assert reader.feed(FILE) == 2
    assert reader.names == ("reward", "loss")
    assert reader.series("reward") == (Point(1.0, 0.5), Point(2.0, 0.75))
    assert reader.series("loss") == (Point(2.0, 2.0),)
    assert reader.series("none") == ()
    assert reader.rows[0]["task"] == "a"


@given(st.lists(st.integers(0, len(FILE)), max_size=8))
def test_half_lines_wait_for_their_rest(cuts: list[int]) -> None:
    reader, places = MetricsReader(), [0, *sorted(cuts), len(FILE)]
    for start, end in pairwise(places):
        reader.feed(FILE[start:end])
    assert (len(reader.rows), reader.bad) == (2, 0)
    assert reader.series("reward") == (Point(1.0, 0.5), Point(2.0, 0.75))


def test_what_is_no_metric_is_passed_over_and_counted() -> None:
    reader = MetricsReader()
    junk = b'\n  \nno json\n[1]\n"x"\n\xff\xfe\n' + b"[" * 100_000 + b"\n"
    assert (
        reader.feed(
            junk + b'{"loss": NaN, "kl": Infinity, "reward": 1, "big": 1' + b"0" * 400 + b"}\n"
        )
        == 1
    )
    assert (reader.bad, reader.not_finite) == (5, 3)
    assert reader.series("reward") == (Point(1.0, 1.0),)
    assert reader.names == ("reward",)


def test_without_steps_the_lines_are_counted() -> None:
    reader = MetricsReader()
    reader.feed(b'{"reward": 1}\n{"reward": 2, "step": "x"}\n{"reward": 3, "global_step": 40}\n')
    assert [point.x for point in reader.series("reward")] == [1.0, 2.0, 40.0]


def _steps(rows: list[dict[str, Any]]) -> int:
    reader = MetricsReader()
    for row in rows:
        reader.add(row)
    return reader.steps


TRAINED = [{"step": step, "loss": 0.1, "epoch": step / 10} for step in range(1, 41)]


@pytest.mark.parametrize(
    "others",
    [
        [],
        [{"step": step, "eval_loss": 0.1, "epoch": step / 10} for step in range(2, 41, 2)],
        [{"step": 40 + step, "eval_reward": 0.1, "epoch": 4.0} for step in range(20)],
        [{"epoch": 4.0, "val/reward": 0.5}] * 20,
        [{"step": 40, "gpu_memory": 3.0}] * 20,
        [{"step": 40, "loss": 0.2}] * 20,
        [{"step": step, "loss": 0.1} for step in range(21, 41)],
        [{"step": 40, "train_runtime": 9.0, "train_loss": 0.1}],
    ],
)
def test_steps_are_counted_once_and_without_those_of_evaluations(
    others: list[dict[str, Any]],
) -> None:
    assert _steps([*TRAINED, *others]) == 40
    between = sorted([*TRAINED, *others], key=lambda row: row.get("step", 99))
    assert _steps(between) == 40


def test_lines_without_a_step_are_counted_without_those_of_evaluations() -> None:
    pair = [{"reward": 0.5, "epoch": 1.0}, {"eval/reward": 0.5, "epoch": 1.0}]
    assert _steps(pair * 15) == 15


def test_steps_of_a_long_run_and_of_numbers_that_nobody_knows_are_counted() -> None:
    assert _steps([{"step": step, "loss": 1.0} for step in range(9001)]) == 9001
    assert _steps([{"step": step, "cats": 1.0} for step in range(30)]) == 30
    assert _steps([]) == 0
