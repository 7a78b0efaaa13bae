"""Episodes as evidence: what went wrong in them, by step, and where to find them."""

from __future__ import annotations

from typing import Any

import pytest
from support.training_runs import healthy

from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.diagnosis.values import Finding
from hudtui.core.results.evidence import episode_numbers
from hudtui.core.results.values import EpisodeEntry
from hudtui.core.training.metrics import MetricsReader

STEPS, GROUP, ONSET = 60, 8, 30


def episode(step: int | None, **changes: Any) -> EpisodeEntry:
    known: dict[str, Any] = {
        **dict(number=0, run="r", file=0, offset=0, length=1, part=0, task="t", step=step),
        **dict(split="train", rollout=0, reward=0.5, part_names=(), part_values=()),
        **dict(stop="done", error=None, turns=4, prompt_tokens=None, completion_tokens=None),
        **dict(seconds=None, started_at=None),
    }
    return EpisodeEntry(**{**known, **changes})


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
        ("done-at-once", {"turns": 1}, "stop:done turns:<2"),
        ("turn-limit", {"stop": "max_turns"}, "stop:max_turns"),
        ("context-full", {"stop": "context"}, "stop:context"),
        ("tools-fail", {"slips": (("tool", 4),)}, ""),
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
    assert "done-at-once" not in findings({"turns": 1}, 1.0, reward=0.9)


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
