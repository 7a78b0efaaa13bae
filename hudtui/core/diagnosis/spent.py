"""What a training has gone through since a trouble began: steps, hours, money."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hudtui.core.diagnosis.values import Diagnosis, Spent
from hudtui.core.training.metrics import MetricsReader, Point


def with_spent(
    diagnosis: Diagnosis,
    metrics: MetricsReader,
    *,
    hourly: float | None = None,
    currency: str = "USD",
) -> Diagnosis:
    """Return a diagnosis whose findings say what they have cost so far.

    Args:
        diagnosis: What ails the run.
        metrics: All its metrics; where no line says when it was written, hours are not known.
        hourly: Price per hour of its machine, in `currency`; None where none is rented.
        currency: See `hourly`.
    """
    newest = metrics.newest
    if newest is None or not diagnosis.findings:
        return diagnosis
    names = (*metrics.told.values(), *metrics.names)
    times = next((found for name in names if (found := _times(metrics.series(name)))), {})
    findings = []
    for finding in diagnosis.findings:
        steps = newest[0] - finding.onset
        began = next((at for x, at in times.items() if x >= finding.onset), None)
        hours = None
        if began is not None and newest[1] is not None:
            hours = max(newest[1] - began, 0.0) / 3600
        money = None if hours is None or hourly is None else hours * hourly
        spent = Spent(steps, hours, money, currency) if steps > 0 else None
        findings.append(replace(finding, spent=spent))
    return replace(diagnosis, findings=tuple(findings))


def _times(points: Iterable[Point]) -> dict[float, float]:
    """Return when the steps of a series were written; nothing where they were read at once."""
    times = {one.x: one.at for one in points if one.at is not None}
    return times if len(set(times.values())) == len(times) else {}
