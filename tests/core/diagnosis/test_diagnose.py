"""The diagnosis of trainings that are made up: what ails them is found, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

import pytest
from support.training_runs import HEALTHY, ONSET, SICK, STEPS, healthy, sick

from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.diagnosis.observed import KNOWN
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.spent import with_spent
from hudtui.core.diagnosis.values import Diagnosis
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.recipe import Recipe

GRADUAL = ("no-learning",)
"""Troubles that a run has from its beginning."""


def seen(lines: Iterable[dict[str, Any]], **settings: Any) -> Diagnosis:
    metrics = MetricsReader()
    for line in lines:
        metrics.add(line)
    return diagnose(metrics, settings)


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_healthy_run_is_not_accused(kind: str) -> None:
    for seed in range(5):
        diagnosis = seen(healthy(kind, seed))
        assert (diagnosis.verdict, diagnosis.findings) == ("sound", ()), (kind, seed)


@pytest.mark.parametrize("signature", SICK)
def test_a_strong_trouble_is_found_with_its_onset(signature: str) -> None:
    for seed in range(3):
        found = {one.signature: one for one in seen(sick(signature, "strong", seed)).findings}
        assert signature in found, (signature, seed, list(found))
        finding = found[signature]
        began = 0 if signature in GRADUAL else ONSET * STEPS
        assert abs(finding.onset - began) <= 0.12 * STEPS, (signature, seed, finding.onset)
        assert 0.85 <= finding.probability < 1 and finding.remedies and finding.evidence


@pytest.mark.parametrize("signature", sorted(set(SICK) - {"reward-hacking", "no-learning"}))
def test_a_mild_trouble_is_found_and_less_sure(signature: str) -> None:
    strong = seen(sick(signature, "strong", 0))
    mild = [seen(sick(signature, "mild", seed)) for seed in range(4)]
    told = [one for diagnosis in mild for one in diagnosis.findings if one.signature == signature]
    sure = next(one for one in strong.findings if one.signature == signature)
    assert len(told) >= 3
    assert all(one.probability <= sure.probability for one in told)


def test_what_follows_from_another_trouble_is_left_out() -> None:
    lines = sick("constant-reward", "strong", 1)
    for line in lines[150:]:
        line["frac_reward_zero_std"] = 1.0
    names = [one.signature for one in seen(lines).findings]
    assert "constant-reward" in names and not [one for one in names if one.startswith("no-spread")]


def test_a_run_that_has_only_begun_is_not_judged() -> None:
    diagnosis = seen(sick("entropy-collapse", "strong", 0)[:12])
    assert diagnosis.verdict == "not enough evidence" and not diagnosis.findings
    assert "entropy-collapse" in diagnosis.unseen


def test_evaluations_are_no_steps_of_a_run_that_has_only_begun() -> None:
    lines = [{**line, "epoch": line["step"] / 10} for line in healthy("rising", 0)[:14]]
    evaluated = [{"step": line["step"], "eval_reward": 0.5, "epoch": 1.0} for line in lines]
    both = [one for pair in zip(lines, evaluated, strict=True) for one in pair]
    diagnosis = seen(both)
    assert (diagnosis.verdict, diagnosis.steps) == ("not enough evidence", 14)


def test_numbers_of_another_kind_say_nothing() -> None:
    diagnosis = seen({"step": step, "cats": 3.0 + step % 2} for step in range(100))
    assert diagnosis.verdict == "not enough evidence" and len(diagnosis.unseen) >= 15


def test_a_loss_that_is_no_number_is_critical_at_its_first_step() -> None:
    lines = healthy("rising", 3)
    for line in lines[200:]:
        line["loss"] = float("nan")
    for line in lines[:200]:
        line["loss"] = 0.1
    worst = seen(lines).findings[0]
    assert (worst.signature, worst.severity, worst.onset) == ("not-a-number", "critical", 201)
    assert json.loads(json.dumps(worst.to_json(), allow_nan=False))["evidence"][0]["now"] is None


def test_remedies_are_settings_of_the_run_with_new_values() -> None:
    lines = sick("kl-blow-up", "strong", 2)
    finding = seen(lines, learning_rate=3e-5, beta=0.01).findings[0]
    changed = {name: value for one in finding.remedies for name, value in one.settings.items()}
    assert finding.signature == "kl-blow-up" and changed == {"learning_rate": 1e-5, "beta": 0.1}


def test_every_signature_names_what_it_needs_and_settings_that_exist() -> None:
    settings = {field.name: field.default for field in fields(Recipe)}
    for known in SIGNATURES.values():
        assert set(known.needs) <= KNOWN and set(known.explains) <= set(SIGNATURES)
        remedies = known.advice({**settings, "learning_rate": 1e-5})
        assert remedies and all(set(one.settings) <= set(settings) for one in remedies)


def test_a_training_of_many_steps_is_diagnosed_whole() -> None:
    lines = []
    for number, line in enumerate(sick("entropy-collapse", "strong", 5) * 40):
        lines.append({**line, "step": number + 1})
    lines.sort(key=lambda line: line["entropy"], reverse=True)
    diagnosis = seen({**line, "step": number + 1} for number, line in enumerate(lines))
    assert "entropy-collapse" in [one.signature for one in diagnosis.findings]


def test_a_finding_says_what_it_has_cost_so_far() -> None:
    metrics = MetricsReader()
    for number, line in enumerate(sick("kl-blow-up", "strong", 0)):
        metrics.add({**line, "time": 1.7e9 + 36 * number})
    bare = diagnose(metrics)
    (finding,) = with_spent(bare, metrics, hourly=2.0, currency="EUR").findings
    assert finding.spent is not None and finding.spent.hours is not None
    assert finding.spent.steps == STEPS - finding.onset
    assert finding.spent.hours == pytest.approx(finding.spent.steps * 36 / 3600)
    assert finding.spent.money == pytest.approx(2 * finding.spent.hours)
    assert finding.spent.words().startswith(f"cost so far: {finding.spent.steps:g} steps, 1 h")
    assert finding.spent.words().endswith(f", about €{finding.spent.money:.2f}")
    (free,) = with_spent(bare, metrics).findings
    assert free.spent is not None and free.spent.money is None
    for read_at in (None, 1.7e9):
        untimed = MetricsReader()
        for line in sick("kl-blow-up", "strong", 0):
            untimed.add(line, at=read_at)
        (unknown,) = with_spent(diagnose(untimed), untimed, hourly=2.0).findings
        assert unknown.spent is not None
        assert (unknown.spent.hours, unknown.spent.money) == (None, None)
