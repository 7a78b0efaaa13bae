"""News about a run for notifications: its end, and new alarms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hudtui.core.diagnosis.facts import Alarm
from hudtui.core.runs.status import RunView
from hudtui.core.text import clean_line


@dataclass(frozen=True)
class RunNews:
    """The end of a run, or a new alarm."""

    view: RunView
    alarm: Alarm | None = None
    """The new alarm; None for the end of the run."""

    @property
    def mark(self) -> str:
        """Return a text that identifies this event within the run."""
        if self.alarm is None:
            return f"end:{self.view.summary.state}"
        return ":".join(("alarm", *self.alarm.identity))

    @property
    def about(self) -> str:
        """Return the event in a few words."""
        if self.alarm is None:
            return "the end"
        return f"the alarm {self.alarm.kind}" + (
            f" of {self.alarm.stage}" if self.alarm.stage else ""
        )

    @property
    def text(self) -> str:
        """Return the event in a line, without the name of the run."""
        if self.alarm is not None:
            return clean_line(self.alarm.text, 300)
        reward = self.view.reward
        return f"{self.view.summary.state}{'' if reward is None else f', reward {reward:.3f}'}"

    @property
    def bad(self) -> bool:
        """Return whether the event may need the user's attention."""
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
            "simulated": run.simulated,
            "alarm": None if alarm is None else alarm.to_json(),
        }


def news_between(before: RunView | None, now: RunView) -> tuple[RunNews, ...]:
    """Return the news between two views of a run.

    None for the first view, and none after the end of the run.
    """
    if before is None or not before.summary.active:
        return ()
    if not now.summary.active:
        return (RunNews(now),)
    # After an alarm was acknowledged, a later alarm of this kind is new.
    known = {alarm.identity for alarm in before.open_alarms}
    fresh = {alarm.identity: alarm for alarm in now.open_alarms}
    return tuple(RunNews(now, alarm) for identity, alarm in fresh.items() if identity not in known)
