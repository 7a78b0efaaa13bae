"""Ending a run at a trouble that is certain: what the user names, and who looks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from hudtui.core.diagnosis.likelihood import BOUNDS
from hudtui.core.diagnosis.signals import SIGNALS
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.values import Diagnosis, Finding
from hudtui.core.errors import InputError
from hudtui.core.text import clean_line, step_text
from hudtui.core.training.metrics import QUANTITIES

CERTAIN = 0.965
"""Probability from which a finding is certain."""
CRITICAL = "critical"
"""Stands for all signatures whose finding is critical."""
_WATCHED = ("reward", "reward_std", "no_spread", "entropy", "kl", "broken")
"""The quantities and signals that the lookout of a machine knows."""


def check_stop_on(names: Iterable[str]) -> None:
    """Check that these are signatures.

    Raises:
        InputError: One is none.
    """
    known = (CRITICAL, *(name for name, one in SIGNATURES.items() if one.test is not None))
    for name in names:
        if name not in known:
            raise InputError(
                f"--stop-on {clean_line(name, 40)!r} is no signature",
                fix=f"Those that can stop a run are {', '.join(known)}.",
            )


def lookout_plan(
    metrics: str | None, stop_on: Iterable[str], continued: int | None = None
) -> dict[str, Any]:
    """Return what the lookout of a machine obeys, see `pod/lookout.py`.

    Args:
        metrics: The file with the metrics in the run's folder; None without one.
        stop_on: The signatures at which the run is to be stopped.
        continued: The step of the checkpoint of an earlier run from which this one goes on.
    """
    aliases: Mapping[str, tuple[str, ...]] = {
        **{quantity.name: quantity.aliases for quantity in QUANTITIES},
        **SIGNALS,
    }
    names = {what: [one for one in aliases[what] if "*" not in one] for what in _WATCHED}
    return {
        "metrics": metrics,
        "names": names,
        "stop_on": list(stop_on),
        "bounds": asdict(BOUNDS),
        "continued": continued,
    }


def stopping(diagnosis: Diagnosis | None, stop_on: Iterable[str]) -> Finding | None:
    """Return the finding at which a run is to be stopped; None without one."""
    wanted = set(stop_on)
    for finding in diagnosis.findings if diagnosis is not None and wanted else ():
        named = finding.signature in wanted or (
            CRITICAL in wanted and finding.severity == "critical"
        )
        concluded = SIGNATURES[finding.signature].test is not None
        if named and concluded and finding.probability >= CERTAIN:
            return finding
    return None


def stop_reason(finding: Finding) -> str:
    """Return why a run is stopped at a finding, in words."""
    numbers = "; ".join(one.words() for one in finding.evidence)
    about = f" ({numbers})" if numbers else ""
    since = f"since step {step_text(finding.onset)}"
    return f"stopped on {finding.signature}: {finding.title}{about}, {since}"
