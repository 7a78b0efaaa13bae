"""The one table of signatures: everything that a run may suffer from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hudtui.core.diagnosis.facts import Alarm, RunFacts
from hudtui.core.diagnosis.values import Evidence, Remedy, Severity

if TYPE_CHECKING:
    from hudtui.core.diagnosis.observed import Observed


class Sign(NamedTuple):
    """What a test has found."""

    probability: float
    onset: float
    evidence: tuple[Evidence, ...]
    severity: Severity | None = None
    """None: the severity of the signature."""
    title: str = ""
    """Empty: the title of the signature."""


Test = Callable[["Observed"], Sign | None]
"""Looks at the metrics of a run."""
Finder = Callable[[RunFacts, float], Iterable[Alarm]]
"""Yields alarms, from the facts of a run and the threshold of the signature."""
Advice = Callable[[Mapping[str, Any]], tuple[Remedy, ...]]


@dataclass(frozen=True)
class Signature:
    """A known trouble of runs."""

    name: str
    title: str
    """The trouble, in one sentence."""
    meaning: str
    """Why it matters, in one or two sentences."""
    needs: tuple[str, ...]
    """The quantities and signals without which nothing can be said."""
    severity: Severity
    advice: Advice
    """Returns the remedies beside the settings of the run."""
    test: Test | None = None
    """What the statistics of its metrics say; None where they say nothing about it."""
    watch: Finder | None = None
    """What is seen at once, at each look at a run; None where only statistics tell."""
    threshold: str | None = None
    """The name of its threshold in `settings.ALARM_SETTINGS`; None where nothing is compared."""
    explains: tuple[str, ...] = ()
    """Signatures that follow from it, and are left out beside it."""
    shown_by: str = ""
    """A filter of the episodes that show it; empty for all since the onset."""


SIGNATURES: dict[str, Signature] = {}
"""All signatures by name. Commands, screens and documents follow from this table."""


def signature(
    name: str,
    title: str,
    meaning: str,
    *,
    needs: tuple[str, ...],
    severity: Severity,
    advice: Advice,
    explains: tuple[str, ...] = (),
    watch: Finder | None = None,
    threshold: str | None = None,
    shown_by: str = "",
) -> Callable[[Test], Test]:
    """Return a decorator that declares a test of metrics as a signature.

    `watch` is what shows the same trouble at once.
    """

    def declare(test: Test) -> Test:
        SIGNATURES[name] = Signature(
            *(name, title, meaning, needs, severity, advice, test),
            *(watch, threshold, explains, shown_by),
        )
        return test

    return declare


def watched(
    name: str,
    title: str,
    meaning: str,
    *,
    severity: Severity,
    advice: Advice,
    threshold: str | None = None,
) -> Callable[[Finder], Finder]:
    """Return a decorator that declares a signature that only the facts of a run show."""

    def declare(find: Finder) -> Finder:
        SIGNATURES[name] = Signature(
            name, title, meaning, (), severity, advice, watch=find, threshold=threshold
        )
        return find

    return declare


def scaled(name: str, factor: float, words: str, usual: float | None = None) -> Advice:
    """Return advice to multiply a setting, where its value is known, else in words alone."""

    def advice(settings: Mapping[str, Any]) -> tuple[Remedy, ...]:
        value = settings.get(name, usual)
        known = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        changed = {}
        if known:
            exact = float(value) * factor
            changed = {name: round(exact) if isinstance(value, int) else float(f"{exact:.3g}")}
        return (Remedy(words, changed),)

    return advice


def changed(name: str, value: Any, words: str) -> Advice:
    """Return advice to set a setting, where the trainer is known to have it."""
    return lambda settings: (Remedy(words, {name: value} if name in settings else {}),)


def words(*sentences: str) -> Advice:
    """Return advice in words alone."""
    return lambda settings: tuple(Remedy(sentence) for sentence in sentences)


def together(*advices: Advice) -> Advice:
    """Return several pieces of advice as one."""
    return lambda settings: tuple(remedy for advice in advices for remedy in advice(settings))
