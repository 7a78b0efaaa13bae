"""Episodes as evidence: what went wrong in them, by step, and where to find them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.training_runs import healthy, sick

from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.diagnosis.stop import CERTAIN
from hudtui.core.diagnosis.values import Finding
from hudtui.core.runs.evidence import About, EpisodeNumbers, Played, Usage
from hudtui.core.training.metrics import MetricsReader

STEPS, GROUP, ONSET = 60, 8, 30


def episode(
    step: int | None, *, split: str = "train", completion_tokens: int | None = None, **changes: Any
) -> Played:
    about = About(step, split, Usage(completion_tokens))
    return Played(**{"stop": "done", "info": about, "turn_count": 4, **changes})


def episode_numbers(episodes: list[Played]) -> MetricsReader:
    played = EpisodeNumbers()
    played.add(episodes)
    return played.numbers


def findings(
    changes: dict[str, Any],
    share: float,
    reward: float = 0.3,
    *,
    onset: int = ONSET,
    settings: dict[str, Any] | None = None,
) -> dict[str, Finding]:
    """What is found where a share of the episodes is changed from the onset on."""
    entries = []
    for step in range(1, STEPS + 1):
        for number in range(GROUP):
            ill = step > onset and number < share * GROUP
            entries.append(episode(step, **(changes if ill else {})))
    metrics = MetricsReader()
    for step in range(1, STEPS + 1):
        metrics.add({"step": step, "reward": reward, "reward_std": 0.2})
    found = diagnose(metrics, settings, episodes=episode_numbers(entries)).findings
    return {one.signature: one for one in found}


@pytest.mark.parametrize(
    ("signature", "changes", "where"),
    [
        ("done-at-once", {"turn_count": 1}, "stop:done turns:<2"),
        ("turn-limit", {"stop": "max_turns"}, "stop:max_turns"),
        ("context-full", {"stop": "context"}, "stop:context"),
        ("tools-fail", {"slips": {"failed": 4}}, ""),
        ("episodes-break", {"stop": "error", "error": "gone"}, ""),
    ],
)
def test_what_goes_wrong_in_episodes_is_found_with_where_they_are(
    signature: str, changes: dict[str, Any], where: str
) -> None:
    found = findings(changes, 1.0)
    assert list(found) == [signature]
    finding = found[signature]
    assert abs(finding.onset - ONSET) <= 0.1 * STEPS
    assert finding.episodes == f"{where} step:>={finding.onset:g}".strip()
    assert finding.to_json()["episodes"] == finding.episodes
    assert findings(changes, 0.1) == {}


def test_a_game_that_is_played_to_its_last_turn_is_well() -> None:
    assert findings({"stop": "max_turns"}, 1.0, reward=0.95) == {}
    assert "done-at-once" not in findings({"turn_count": 1}, 1.0, reward=0.9)


def test_episodes_that_are_all_as_long_from_the_first_step_on_are_well() -> None:
    limit = {"stop": "max_turns"}
    assert findings(limit, 1.0, onset=0) == {}, "a game without an end, with a part of the reward"
    assert list(findings(limit, 1.0, reward=0.02, onset=0)) == ["turn-limit"]
    single = {"max_turns": 1}
    assert findings(limit, 1.0, reward=0.02, onset=0, settings=single) == {}


def test_episodes_of_an_evaluation_or_without_a_step_say_nothing() -> None:
    entries = [episode(None), episode(3, split="eval", stop="error", error="gone")]
    assert episode_numbers(entries).names == ()


def test_numbers_of_the_run_count_before_those_of_its_episodes() -> None:
    metrics = MetricsReader()
    for line in healthy("rising", 1):
        metrics.add(line)
    entries = [episode(step, stop="error", error="gone") for step in range(1, 301)]
    found = diagnose(metrics, episodes=episode_numbers(entries)).findings
    assert "episodes-break" not in [one.signature for one in found]


def named(rows: list[dict[str, float]], **tokens: int) -> list[str]:
    """The signatures that rows of numbers show, of episodes with such a number of tokens."""
    metrics = MetricsReader()
    for step, row in enumerate(rows, 1):
        metrics.add({"step": step, "reward": 0.3, "reward_std": 0.2, **row})
    entries = [episode(step, **tokens) for step in range(1, len(rows) + 1)] if tokens else []
    found = diagnose(metrics, episodes=episode_numbers(entries)).findings
    return [one.signature for one in found]


@pytest.mark.parametrize(
    ("trained", "broken", "found"),
    [
        (24.0, 0.0, []),
        (27.0, 0.0, []),
        (20.0, 0.0, []),
        (60.0, 0.0, ["wrong-tokens"]),
        (6.0, 0.0, ["wrong-tokens"]),
        (6.0, 0.12, []),
    ],
)
def test_other_tokens_in_the_loss_than_the_model_has_said_are_found(
    trained: float, broken: float, found: list[str]
) -> None:
    row = {"completions/mean_length": trained, "broken": broken}
    assert named([row] * 40, completion_tokens=24) == found
    assert named([row] * 40) == [], "nobody knows what was said"


@pytest.mark.parametrize("seed", range(20))
def test_a_sample_of_episodes_of_unlike_tasks_accuses_nobody(seed: int) -> None:
    """Half of the tasks take ten times as many tokens, and four groups of a step are recorded."""
    random = Random(seed)
    metrics, played = MetricsReader(), EpisodeNumbers()
    for step in range(1, 101):
        groups = [random.choice((100, 1000)) for _ in range(32)]
        length = sum(groups) / len(groups)
        metrics.add(
            {"step": step, "reward": 0.3, "reward_std": 0.2, "completions/mean_length": length}
        )
        played.add(
            episode(step, completion_tokens=tokens) for tokens in groups[:4] for _ in range(8)
        )
        if step >= 20 and step % 5 == 0:
            assert diagnose(metrics, episodes=played.numbers).findings == (), step


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        ({"stop": "max_turns"}, 0.35),
        ({"turn_count": 1}, 0.15),
        ({"slips": {"failed": 4}}, 0.2),
        ({"stop": "context"}, 0.08),
        ({"stop": "error", "error": "gone"}, 0.05),
    ],
)
def test_a_few_tasks_that_end_badly_are_no_certain_trouble(
    changes: dict[str, Any], share: float
) -> None:
    """All episodes of such a task end so, and a step records those of four tasks."""
    for seed in range(8):
        random = Random(seed)
        metrics, played = MetricsReader(), EpisodeNumbers()
        for step in range(1, 101):
            metrics.add({"step": step, "reward": random.gauss(0.3, 0.03), "reward_std": 0.2})
            ill = [random.random() < share for _ in range(4)]
            played.add(
                episode(step, **(changes if bad else {})) for bad in ill for _ in range(GROUP)
            )
            if step >= 20 and step % 5 == 0:
                found = diagnose(metrics, episodes=played.numbers).findings
                assert not [one for one in found if one.probability >= CERTAIN], (seed, step)


@pytest.mark.parametrize(
    "signature",
    ["gradient-spikes", "kl-blow-up", "clip-saturation", "entropy-collapse", "stale-weights"],
)
def test_numbers_of_other_tokens_in_the_loss_are_no_trouble_of_their_own(signature: str) -> None:
    rows = [{**line, "reward_std": 0.2} for line in sick(signature, "strong", 1)]
    right = [{**row, "completions/mean_length": 24.0} for row in rows]
    assert named(right, completion_tokens=24) == [signature]
    wrong = [{**row, "completions/mean_length": 60.0} for row in rows]
    assert named(wrong, completion_tokens=24) == ["wrong-tokens"]


def test_replies_that_no_call_is_read_from_are_found_before_what_follows_from_them() -> None:
    def form(number: int) -> dict[str, float]:
        return {"format_compliance": 0.9 if number < 10 else 0.02, "reward_std": 0.0}

    assert named([form(number) for number in range(60)]) == ["unreadable-replies"]
    learns = [{"format_compliance": min(number / 80, 1.0)} for number in range(40)]
    assert named(learns[:22]) == [] and named(learns) == []
    assert named([{"format_compliance": 0.5}] * 60) == []


def test_an_outcome_that_never_changes_is_a_constant_reward_whatever_the_form_adds() -> None:
    rows = [{"task_completion": 0.5, "format_compliance": 1 - n % 3 / 20} for n in range(40)]
    assert named(rows) == ["constant-reward"]
    assert named([{**row, "task_completion": 0.0} for row in rows]) == []
    assert named([{**row, "task_completion": 1.0} for row in rows]) == []
    assert named([*rows[:39], {"task_completion": 0.6}]) == []


def test_a_gradient_that_is_none_where_nothing_is_taught_does_not_jump() -> None:
    taught = [{"grad_norm": 0.01, "reward_std": 0.2}, {"grad_norm": 1e-8, "reward_std": 0.0}]
    rows = [taught[1] if n < 30 and n % 4 else taught[0] for n in range(60)]
    assert named(rows) == []
    worse = [{**row, "grad_norm": 0.2} if n > 40 else row for n, row in enumerate(rows)]
    assert named(worse) == ["gradient-spikes"]


def test_three_slow_steps_at_the_end_of_a_short_run_are_no_trend() -> None:
    metrics = MetricsReader()
    for line in healthy("noisy", 5017)[:30]:
        metrics.add(line)
    assert diagnose(metrics).findings == ()
