"""Values of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from hudtui.core.text import duration, money, step_text

Severity = Literal["critical", "high", "medium", "low"]
SEVERITIES: tuple[Severity, ...] = ("critical", "high", "medium", "low")
"""Severities, the worst first."""
Verdict = Literal["sick", "sound", "not enough evidence"]


@dataclass(frozen=True)
class Evidence:
    """One series, before the trouble and now."""

    series: str
    """Its name, as the run writes it."""
    before: float
    now: float

    def to_json(self) -> dict[str, Any]:
        """Return the evidence as plain data; None for what is no number."""
        values = {"before": self.before, "now": self.now}
        finite = {name: value if isfinite(value) else None for name, value in values.items()}
        return {"series": self.series, **finite}

    def words(self) -> str:
        """Return the evidence on one line."""
        return f"{self.series}: {self.before:.3g} at first, {self.now:.3g} now"


@dataclass(frozen=True)
class Remedy:
    """Something to change in the next run."""

    words: str
    """The change, in one sentence."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the trainer and their new values; empty where no setting does it."""


@dataclass(frozen=True)
class Spent:
    """What a run has gone through since a trouble began."""

    steps: float
    hours: float | None
    """From the step at which it began to the newest one; None where no line tells its time."""
    money: float | None
    """Those hours of the rented machine, in `currency`; None where none is rented."""
    currency: str

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return dict(vars(self))

    def words(self) -> str:
        """Return it on one line."""
        parts = [f"{step_text(self.steps)} step{'' if self.steps == 1 else 's'}"]
        if self.hours is not None:
            parts.append(duration(self.hours * 3600))
        if self.money is not None:
            parts.append(f"about {money(self.money, self.currency)}")
        return f"cost so far: {', '.join(parts)}"


@dataclass(frozen=True)
class Finding:
    """A signature of trouble that a run shows."""

    signature: str
    title: str
    """The trouble, in one sentence."""
    severity: Severity
    probability: float
    """The share of such findings that are right, 0.5 to 1."""
    onset: float
    """The step at which it began."""
    evidence: tuple[Evidence, ...]
    remedies: tuple[Remedy, ...]
    episodes: str = ""
    """A filter of `hudtui rollouts list` for the episodes that show it; empty without any."""
    spent: Spent | None = None
    """What it has cost so far; None where no step has followed."""

    @property
    def changes(self) -> dict[str, Any]:
        """The settings of all its remedies, with their new values; of two for one the first."""
        pairs = (pair for one in reversed(self.remedies) for pair in one.settings.items())
        return dict(pairs)

    @property
    def options(self) -> str:
        """The changes as options of `hudtui rl`."""
        return " ".join(f"--set {name}={value}" for name, value in self.changes.items())

    def to_json(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return {
            "signature": self.signature,
            "title": self.title,
            "severity": self.severity,
            "probability": round(self.probability, 2),
            "onset": self.onset,
            "spent": None if self.spent is None else self.spent.to_json(),
            "evidence": [one.to_json() for one in self.evidence],
            "episodes": self.episodes,
            "remedies": [
                {"words": one.words, "settings": dict(one.settings)} for one in self.remedies
            ],
        }


@dataclass(frozen=True)
class Diagnosis:
    """What the metrics of a run say about its health."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    """The worst first."""
    steps: int
    """Steps that the run has logged."""
    unseen: tuple[str, ...]
    """Signatures that nothing can be said about: the run writes none of the numbers they need."""
    newest: float = 0.0
    """Its newest step."""

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as plain data."""
        return {
            "verdict": self.verdict,
            "steps": self.steps,
            "findings": [finding.to_json() for finding in self.findings],
            "unseen": list(self.unseen),
        }


NOTHING = Diagnosis("not enough evidence", (), 0, ())
"""The diagnosis of a run without any number."""
