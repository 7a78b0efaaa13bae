"""The diagnosis of a run: each signature asked, and what follows from another left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hudtui.core.diagnosis.observed import Observed
from hudtui.core.diagnosis.series import FEWEST
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.values import SEVERITIES, Diagnosis, Finding, Verdict
from hudtui.core.training.metrics import MetricsReader

LEAST = 0.5
"""Probability from which a finding is told."""
_CORE = ("reward", "reward_std", "loss", "kl", "entropy", "grad_norm", "no_spread")
"""Series of which at least two must be there to call a run sound."""


def diagnose(metrics: MetricsReader, settings: Mapping[str, Any] | None = None) -> Diagnosis:
    """Return what the metrics of a run say about its health.

    Args:
        metrics: All metrics of the run.
        settings: Settings of its trainer, from which remedies name new values.
    """
    run = Observed(metrics, settings)
    findings = []
    unseen = []
    for name, known in SIGNATURES.items():
        if not run.sees(known.needs):
            unseen.append(name)
            continue
        sign = known.test(run)
        if sign is None or sign.probability < LEAST:
            continue
        findings.append(
            Finding(
                name,
                sign.title or known.title,
                sign.severity or known.severity,
                sign.probability,
                sign.onset,
                sign.evidence,
                known.advice(run.settings),
            )
        )
    explained = {one for finding in findings for one in SIGNATURES[finding.signature].explains}
    kept = [finding for finding in findings if finding.signature not in explained]
    kept.sort(key=lambda one: (SEVERITIES.index(one.severity), -one.probability))
    steps = metrics.steps
    return Diagnosis(_verdict(run, kept, steps), tuple(kept), steps, tuple(unseen))


def _verdict(run: Observed, findings: list[Finding], steps: int) -> Verdict:
    if findings:
        return "sick"
    seen = sum(run.series(name) is not None for name in _CORE)
    return "sound" if seen >= 2 and steps >= FEWEST else "not enough evidence"
