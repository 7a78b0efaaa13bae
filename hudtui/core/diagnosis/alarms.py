"""Alarms of a run, from all signatures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hudtui.core.diagnosis.facts import Alarm, RunFacts, Thresholds
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.values import SEVERITIES, Diagnosis, Finding, Remedy, Severity
from hudtui.core.errors import InputError
from hudtui.core.settings import ALARM_SETTINGS, check_settings, load_settings
from hudtui.core.text import step_text

_SEVERE: tuple[Severity, ...] = ("critical", "high")
"""Severities of a finding that is an alarm."""
_WARNINGS: Mapping[Severity, Severity] = {"critical": "high"}
"""Severities of a warning, where they differ from that of its signature."""
_SEEN = 0.97
"""Probability of what is seen, and not concluded."""
USUAL: Thresholds = {
    name: float(setting.default or "inf") for name, setting in ALARM_SETTINGS.items()
}


def read_thresholds(folder: Path) -> Thresholds:
    """Return the thresholds in the settings of a project folder.

    A value that cannot be used counts as none given.
    """
    try:
        values = check_settings(load_settings(folder)).values
    except InputError:  # of the platform
        return USUAL
    given = {name: values.get(setting.name) for name, setting in ALARM_SETTINGS.items()}
    return {**USUAL, **{name: value for name, value in given.items() if isinstance(value, float)}}


def find_alarms(
    facts: RunFacts,
    from_when: Thresholds = USUAL,
    *,
    findings: Iterable[Finding] = (),
    acknowledged: Collection[str] = (),
) -> tuple[Alarm, ...]:
    """Return the alarms of a run, the worst first, and acknowledged alarms last.

    Args:
        facts: The facts about the run.
        from_when: The thresholds.
        findings: What the statistics of its metrics say: of a run that goes on, those that are
            severe and likely are alarms too.
        acknowledged: The keys of the alarms that the user has acknowledged.
    """
    alarms: list[Alarm] = []
    for known in SIGNATURES.values():
        if known.watch is not None:
            limit = from_when[known.threshold] if known.threshold is not None else 0.0
            alarms += known.watch(facts, limit)
    names = {one.kind for one in alarms}
    known_by_others = names.union(*(SIGNATURES[name].explains for name in names))
    if facts.active:
        least = from_when["learning"]
        likely = (one for one in findings if 100 * one.probability >= least)
        alarms += (
            _alarm_of(one)
            for one in likely
            if one.severity in _SEVERE and one.signature not in known_by_others
        )
    alarms = [replace(one, acknowledged=one.key in acknowledged) for one in alarms]
    return tuple(sorted(alarms, key=lambda one: (one.acknowledged, one.level != "error")))


def _alarm_of(finding: Finding) -> Alarm:
    title = finding.title[0].lower() + finding.title[1:]
    return Alarm(
        finding.signature,
        "error" if finding.severity == "critical" else "warning",
        f"{title}, since step {step_text(finding.onset)}",
        finding.remedies[0].words if finding.remedies else None,
    )


def with_findings(diagnosis: Diagnosis, findings: Iterable[Finding]) -> Diagnosis:
    """Return a diagnosis with more findings; what follows from another one is left out."""
    every = {one.signature: one for one in (*findings, *diagnosis.findings)}
    explained = {one for name in every for one in SIGNATURES[name].explains}
    kept = [one for name, one in every.items() if name not in explained]
    kept.sort(key=lambda one: (SEVERITIES.index(one.severity), -one.probability))
    return replace(diagnosis, verdict="sick" if kept else diagnosis.verdict, findings=tuple(kept))


def with_alarms(
    diagnosis: Diagnosis, alarms: Iterable[Alarm], settings: Mapping[str, Any]
) -> Diagnosis:
    """Return a diagnosis with what else is known of the run.

    Args:
        diagnosis: What its metrics say.
        alarms: Its alarms.
        settings: The settings of its trainer, from which remedies name new values.
    """
    named = {one.signature for one in diagnosis.findings}
    more = [_finding_of(one, diagnosis.newest, settings) for one in alarms]
    return with_findings(diagnosis, (one for one in more if one.signature not in named))


def _finding_of(alarm: Alarm, step: float, settings: Mapping[str, Any]) -> Finding:
    """Return an alarm as a finding; `step` is the newest one."""
    known = SIGNATURES[alarm.kind]
    began = known.test is not None and alarm.mark
    severity = known.severity
    if alarm.level == "warning":
        severity = _WARNINGS.get(severity, severity)
    return Finding(
        alarm.kind,
        alarm.text[0].upper() + alarm.text[1:],
        severity,
        _SEEN,
        float(alarm.mark) if began else step,
        (),
        (Remedy(alarm.fix),) if alarm.fix else known.advice(settings),
    )
