"""Values of an audit."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hudtui.core.diagnosis.values import SEVERITIES, Remedy, Severity
from hudtui.core.results.baseline import Estimate
from hudtui.core.text import clean_line

Verdict = Literal["sound", "unsound", "not enough evidence"]

UNSOUND: tuple[Severity, ...] = ("critical", "high")
"""Severities of findings with which an environment is unsound."""
_APART = 0.05
"""Difference of two shares that is worth a word."""


@dataclass(frozen=True)
class Proof:
    """An episode that shows a finding."""

    file: Path
    """Its traces, as they are named beside the project folder."""
    number: int
    """Its number there, from 0."""
    player: str
    task: str
    words: str
    """The thing to see in it, in a few words."""

    def line(self) -> str:
        """Return the proof on one line, with the command that shows the episode."""
        who = f"{self.player} on {clean_line(self.task, 60)}"
        command = shlex.join(("hudtui", "rollouts", "show", str(self.file), str(self.number)))
        return f"{who}: {self.words} ({command})"

    def to_json(self) -> dict[str, Any]:
        """Return the proof as plain data."""
        return {**vars(self), "file": str(self.file)}


@dataclass(frozen=True)
class AuditFinding:
    """A defect of an environment."""

    signature: str
    title: str
    """The defect, in one sentence."""
    severity: Severity
    evidence: tuple[Proof, ...]
    """Empty where no single episode shows it."""
    remedies: tuple[Remedy, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the finding in the form of those of a diagnosis.

        It has no onset, and no probability: what share of such findings is right was not measured
        on environments other than those that the checks were fitted to.
        """
        remedies = [{"words": one.words, "settings": {}} for one in self.remedies]
        return {
            "signature": self.signature,
            "title": self.title,
            "severity": self.severity,
            "probability": None,
            "onset": None,
            "evidence": [proof.to_json() for proof in self.evidence],
            "remedies": remedies,
        }


@dataclass(frozen=True)
class Audit:
    """What was found about an environment, its configuration and its tasks."""

    verdict: Verdict
    why: str
    """The reason of the verdict, in one sentence."""
    findings: tuple[AuditFinding, ...]
    """The worst first."""
    episodes: int
    """Episodes that were played to an end of their own."""
    tasks: int
    """Tasks that were played."""
    signal: Estimate | None
    """The share of groups whose rewards differ, of random legal calls; None without such groups."""
    task_signal: float | None
    """The share of groups whose rewards would differ if the form of calls earned nothing."""
    group: int
    """Episodes a group that `signal` is estimated for."""
    signal_by_task: Mapping[str, float]
    unseen: tuple[str, ...]
    """Checks that could not be made: nothing was played that they need."""
    seconds: float = 0.0

    def worst(self) -> Severity | None:
        """Return the worst severity among the findings; None without one."""
        kinds = {finding.severity for finding in self.findings}
        return next((one for one in SEVERITIES if one in kinds), None)

    def line(self) -> str:
        """Return the verdict on one line."""
        names = ", ".join(finding.signature for finding in self.findings[:3])
        more = f" and {len(self.findings) - 3} more" if len(self.findings) > 3 else ""
        return f"{self.verdict}{f': {names}{more}' if names else ''}"

    def signal_line(self) -> str | None:
        """Return what groups of random calls would teach, on one line; None if it is not known."""
        if self.signal is None:
            return None
        share, low, high = (
            f"{value:.0%}" for value in (self.signal.value, self.signal.low, self.signal.high)
        )
        line = (
            f"signal: with {self.group} episodes a group, {share} of the groups of random calls "
            f"have different rewards (95 %: {low} to {high})"
        )
        own = self.task_signal
        if own is None or self.signal.value - own < _APART:
            return line
        return f"{line}; {own:.0%} by more than the form of calls"

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain data."""
        return {
            "verdict": self.verdict,
            "why": self.why,
            "findings": [finding.to_json() for finding in self.findings],
            "episodes": self.episodes,
            "tasks": self.tasks,
            "signal": None if self.signal is None else self.signal.to_json(),
            "task_signal": self.task_signal,
            "group": self.group,
            "signal_by_task": dict(self.signal_by_task),
            "unseen": list(self.unseen),
            "seconds": round(self.seconds, 1),
        }
