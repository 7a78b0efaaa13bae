"""What home reads of runs and machines after the first paint: plain values, ready to be drawn.

Imported late.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import HudtuiError
from hudtui.core.runs.listing import model_of
from hudtui.core.runs.news import RunNews, news_between
from hudtui.core.runs.stop_on import stop_at_finding
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.watch import Monitor
from hudtui.core.text import clean_line, money, plural, step_text
from hudtui.core.training.engines import features_of
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.compute.overview import PodsSnapshot
    from hudtui.core.compute.pod_row import PodRow
    from hudtui.core.runs.store import RunRecord
    from hudtui.core.runs.watch import RunView

_PATIENCE = 15.0
"""Seconds for one run: its machine may be away."""


@dataclass(frozen=True)
class RunRead:
    """What home shows of a run."""

    name: str
    model: str = ""
    """The model that is trained, or the policy that plays."""
    reward: str = ""
    """The newest one, or the mean over the tasks."""
    rewards: tuple[float, ...] = ()
    """Over the steps of a training."""
    curve: tuple[tuple[float, float], ...] = ()
    """Steps and rewards of a training."""
    tasks: tuple[tuple[str, float], ...] = ()
    """Tasks and their rewards, of a run that trains nothing."""
    step: str = ""
    stage: str = ""
    """The current stage, while there is no step yet."""
    left: str = ""
    """Estimated time until its end."""
    cost: str = ""
    alarms: tuple[str, ...] = ()
    """Those that the user has not acknowledged."""
    finding: str = ""
    """The worst finding about it that is no alarm."""
    state: str = ""
    """The store's word: `running`, `finished`, `failed`, ..."""
    ended: bool = False
    """It will not change any more."""

    @property
    def note(self) -> str:
        """Return how far it is."""
        if self.tasks:
            return f"mean {self.reward} of {plural(len(self.tasks), 'task')}"
        return f"step {self.step}, {self.reward}" if self.step else self.reward

    def spark(self, width: int) -> str:
        """Return the rewards as a small curve of at most `width` cells."""
        return sparkline(self.rewards, width)

    def progress(self, width: int) -> list[tuple[str, str]]:
        """Return the facts of a run in progress, the most important first.

        Texts with their styles.
        """
        found = [
            (f"step {self.step}" if self.step else self.stage, ""),
            (self.reward, "bold"),
            (self.spark(width), "$primary"),
        ]
        found += [(self.cost, ""), (f"~{self.left} left" if self.left else "", "$foreground-muted")]
        return [(text, style) for text, style in found if text]


class RunReader:
    """Reads runs of a project repeatedly, at the cost of what is new.

    Args:
        state: The project's folder of state.
    """

    def __init__(self, state: Path) -> None:
        self._monitor = Monitor(RunStore(state))
        self._views: dict[str, RunView] = {}

    async def read(self, runs: Iterable[str]) -> tuple[dict[str, RunRead], list[RunNews]]:
        """Return what is known of the runs with these ids, and what is new since the last call.

        A run that cannot be read is left out.
        """
        found: dict[str, RunRead] = {}
        news: list[RunNews] = []
        for run in runs:
            with contextlib.suppress(HudtuiError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    view = await self._monitor.view(run)
                    await stop_at_finding(view, self._monitor.store)
                record = await asyncio.to_thread(self._monitor.store.record, run)
                found[run] = _read(view, record)
                news += news_between(self._views.get(run), view)
                self._views[run] = view
        return found, news


def _read(view: RunView, record: RunRecord) -> RunRead:
    points = view.metrics.quantity("reward") if not view.result.rows else ()
    summary, model = view.summary, model_of(record.spec) or ""
    return RunRead(
        name=clean_line(summary.name, 60),
        model=clean_line(
            model.rpartition("/")[2] if features_of(record.engine).trains else model, 60
        ),
        reward="" if view.reward is None else f"{view.reward:.3f}",
        rewards=tuple(point.y for point in points),
        curve=tuple((point.x, point.y) for point in points) if len(points) > 1 else (),
        tasks=tuple((row.task, row.reward) for row in view.result.rows if row.reward is not None),
        step=(view.step or "") if not view.result.rows else "",
        stage=clean_line(summary.stage or "", 30) if summary.active else "",
        left="" if view.left is None else span(view.left),
        cost=""
        if view.cost is None
        else money(view.cost, summary.currency) + summary.short_cost_note,
        alarms=tuple(clean_line(alarm.text, 300) for alarm in view.open_alarms)
        if summary.active
        else (),
        finding=_finding(view) if summary.active else "",
        state=summary.state,
        ended=not summary.active and not summary.holds_machine,
    )


def _finding(view: RunView) -> str:
    """Return the worst finding that is no alarm, in words; empty without one."""
    alarms = {alarm.kind for alarm in view.alarms}
    findings = view.diagnosis.findings if view.diagnosis is not None else ()
    others = [one for one in findings if one.signature not in alarms]
    if not others:
        return ""
    return clean_line(f"{others[0].title}, since step {step_text(others[0].onset)}", 300)


def pod_words(pods: PodsSnapshot, one: PodRow) -> tuple[str, str, str, str, bool]:
    """Return name, owner, price and time left of a machine, and whether something is wrong."""
    pod, left = one.pod, pods.left(one)
    gpus = f"{pod.gpu_count} x {pod.gpu_type}" if pod.gpu_type and pod.gpu_count else pod.gpu_type
    owner = (
        f"run {one.run}"
        if one.run
        else "unclaimed"
        if one.unclaimed is not None
        else "no run"
        if one.ours
        else "not hudtui's"
    )
    price = "" if pod.hourly is None else f"{money(pod.hourly, pod.currency)}/h"
    warns = (
        one.unclaimed is not None
        or not one.reachable
        or (one.verdict is not None and one.verdict.level != "fine")
    )
    words = f"{clean_line(gpus.replace('_', ' '), 40)} {clean_line(pod.name, 40)}".strip()
    return (
        words,
        clean_line(owner, 40),
        price,
        "" if left is None else f"{span(left * 3600)} left",
        warns,
    )
