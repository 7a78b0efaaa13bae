"""The diagnosis of a run: each signature asked, and what follows from another left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hudtui.core.diagnosis.alarms import with_alarms, with_findings
from hudtui.core.diagnosis.facts import Alarm
from hudtui.core.diagnosis.likelihood import FEWEST
from hudtui.core.diagnosis.observed import Observed
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.values import Diagnosis, Finding, Verdict
from hudtui.core.text import step_text
from hudtui.core.training.metrics import MetricsReader

LEAST = 0.5
"""Probability from which a finding is told."""
_CORE = ("reward", "reward_std", "loss", "kl", "entropy", "grad_norm", "no_spread")
"""Series of which at least two must be there to call a run sound."""


def diagnose(
    metrics: MetricsReader,
    settings: Mapping[str, Any] | None = None,
    *,
    alarms: Iterable[Alarm] = (),
    episodes: MetricsReader | None = None,
) -> Diagnosis:
    """Return what the metrics of a run say about its health.

    Args:
        metrics: All metrics of the run.
        settings: Settings of its trainer, from which remedies name new values.
        alarms: What else is known of the run.
        episodes: What its episodes show by step, see `results.evidence`.
    """
    run = Observed(metrics, settings, episodes)
    return with_alarms(examine(run), alarms, settings or {})


def examine(run: Observed) -> Diagnosis:
    """Return what the series of a run say about its health."""
    findings = []
    unseen = []
    for name, known in SIGNATURES.items():
        if known.test is None:
            continue
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
                f"{known.shown_by} step:>={step_text(sign.onset)}".strip()
                if run.episodes.names
                else "",
            )
        )
    enough = sum(run.series(name) is not None for name in _CORE) >= 2 and run.steps >= FEWEST
    verdict: Verdict = "sound" if enough else "not enough evidence"
    bare = Diagnosis(verdict, (), run.steps, tuple(unseen), run.newest)
    return with_findings(bare, findings)
