"""What is new about a run, for those who want to hear of it: its end, and its alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hudtui.core.runs.alarms import Alarm
from hudtui.core.runs.status import RunView
from hudtui.core.text import clean_line


@dataclass(frozen=True)
class RunNews:
    """The end of a run, or an alarm that is new."""

    view: RunView
    alarm: Alarm | None = None
    """None for the end of the run."""

    @property
    def mark(self) -> str:
        """Return what tells this event from the others of the run."""
        if self.alarm is None:
            return f"end:{self.view.summary.state}"
        return ":".join(("alarm", *self.alarm.identity))

    @property
    def about(self) -> str:
        """Return in a few words what has happened."""
        if self.alarm is None:
            return "the end"
        return f"the alarm {self.alarm.kind}" + (f" of {self.alarm.stage}" if self.alarm.stage else "")

    @property
    def text(self) -> str:
        """Return the event in a line, without the name of the run."""
        if self.alarm is not None:
            return clean_line(self.alarm.text, 300)
        reward = self.view.reward
        return f"{self.view.summary.state}{'' if reward is None else f', reward {reward:.3f}'}"

    @property
    def bad(self) -> bool:
        """Return whether the user may want to do something."""
        return self.alarm is not None or self.view.summary.state not in ("finished", "stopped")

    def to_json(self) -> dict[str, Any]:
        """The form that the user's command gets; see `flows.notify`."""
        run, view = self.view.summary, self.view
        alarm = self.alarm or next(iter(view.alarms), None)
        return {
            "event": "end" if self.alarm is None else "alarm",
            "text": f"{clean_line(run.name, 60)}: {self.text}",
            "run": run.id,
            "name": run.name,
            "state": run.state,
            "why": run.why,
            "step": view.step,
            "reward": view.reward,
            "cost": view.cost,
            "currency": run.currency,
            "alarm": None if alarm is None else alarm.to_json(),
        }


def news_between(before: RunView | None, now: RunView) -> tuple[RunNews, ...]:
    """Return what is new in a view of a run since the view before it: nothing in the first view, nor after the end of the run."""
    if before is None or not before.summary.active:
        return ()
    if not now.summary.active:
        return (RunNews(now),)
    # Of an alarm that was acknowledged, a later one is new.
    known = {alarm.identity for alarm in before.open_alarms}
    fresh = {alarm.identity: alarm for alarm in now.open_alarms}
    return tuple(RunNews(now, alarm) for identity, alarm in fresh.items() if identity not in known)
