"""Success rates, spread and gains with their intervals."""

import itertools
import math
import random

import numpy as np
import pytest

from hudtui.core.results.baseline import (
    PlayedEpisode,
    baseline,
    estimate,
    gain_summary,
    spread_chance,
    student_t,
    wilson,
)


def episodes(*rewards):
    return [PlayedEpisode(reward, reward >= 1) for reward in rewards]


def test_wilson_is_the_root_of_its_equation():
    for share, tries in ((0.5, 10), (0.1, 50), (0.0, 3), (1.0, 7), (0.999, 4.5)):
        # Its ends are where the score test just holds: (p - x)^2 = z^2 x (1 - x) / n.
        z2 = 1.959963984540054**2
        roots = np.roots([1 + z2 / tries, -(2 * share + z2 / tries), share**2])
        assert wilson(share, tries) == pytest.approx(sorted(roots.real), abs=1e-9)
    for wrong in ((0.5, 0), (1.1, 3), (-0.1, 3)):
        with pytest.raises(ValueError):
            wilson(*wrong)


def test_students_t_is_that_of_the_tables():
    known = {1: 12.7062, 2: 4.3027, 3: 3.1824, 4: 2.7764, 9: 2.2622, 30: 2.0423, 120: 1.9799}
    assert {freedom: round(student_t(freedom), 4) for freedom in known} == known


def test_the_spread_of_a_group_is_that_of_all_groups_that_can_be_drawn():
    chance = random.Random(3)
    for _ in range(40):
        rewards = [chance.choice((0.0, 0.1 + 0.2, 0.3, 1.0)) for _ in range(chance.randint(2, 7))]
        group = chance.randint(1, len(rewards))
        drawn = list(itertools.combinations([round(one, 9) for one in rewards], group))
        share = sum(len(set(one)) > 1 for one in drawn) / len(drawn)
        assert spread_chance(rewards, group) == pytest.approx(share, abs=1e-12)
    assert spread_chance([0, 1], 4) == pytest.approx(1 - 2 / 16)  # fewer than a group: again
    assert spread_chance([0.0] * 1000 + [1.0] * 1000, 900) == 1.0  # numbers above any float
    with pytest.raises(ValueError):
        spread_chance([1.0], 4)


def test_episodes_of_one_task_are_no_independent_tries():
    alike = estimate([0.0, 1.0, 0.0, 1.0], 400)  # whole tasks are solved or not
    even = estimate([0.5, 0.5, 0.5, 0.5], 400)
    assert (alike.low, alike.high) == pytest.approx(wilson(0.5, 4))
    assert (even.low, even.high) == pytest.approx(wilson(0.5, 400))


def test_the_interval_covers_the_truth():
    numbers = np.random.default_rng(5)
    held = 0
    for _ in range(400):
        truth = numbers.beta(1, 2, 20)
        shares = numbers.binomial(8, truth) / 8
        made = estimate(list(shares), 160)
        held += made.low <= 1 / 3 <= made.high
    assert held / 400 > 0.92


def test_a_baseline_is_one_line():
    known = baseline(
        {"a": episodes(1, 0, 0, 0), "b": episodes(0, 0, 0, 0), "c": episodes(1, 1, 1, 1), "d": []},
        group=4,
    )
    assert known.solved == {"a": 0.25, "b": 0.0, "c": 1.0}
    assert known.pass_1.value == pytest.approx(np.mean([0.25, 0, 1]))
    assert known.pass_k[4].value == pytest.approx(2 / 3)
    assert known.spread.value == pytest.approx(1 / 3)
    assert "pass@1 0.42 (" in known.line() and "pass@4 0.67 (" in known.line()
    assert "with 4 episodes a group, a training would learn from 33% of the groups" in known.line()
    single = baseline({"a": episodes(1), "b": episodes(0)}, group=1)
    assert (single.spread, single.pass_k, single.pass_1.value) == (None, {}, 0.5)
    empty = baseline({"a": []}, group=4)
    assert (empty.line(), empty.to_json()["pass@1"]) == ("", None)


def test_gains_are_paired_by_task():
    gains = [0.3, 0.1, -0.1, 0.1 + 0.2 - 0.3, 0.0]
    found = gain_summary(gains)
    mean, error = np.mean(gains), np.std(gains, ddof=1) / math.sqrt(5)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (mean, mean - 2.776445 * error, mean + 2.776445 * error)
    )
    assert (found.wins, found.ties, found.losses) == (2, 2, 1)
    assert found.sign_test == 1.0
    assert gain_summary([1.0] * 6).sign_test == pytest.approx(2 / 64)
    assert gain_summary([1.0, -1.0] * 1000).sign_test == 1.0
    assert gain_summary([]).line() == ""
    assert gain_summary([0.5]).line() == (
        "mean gain +0.5; 1 better, 0 equal, 0 worse, sign test p = 1"
    )
