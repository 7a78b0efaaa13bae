"""Runs as values: events, and the summary that is folded from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

RunState = Literal["planned", "starting", "running", "stopping", "finished", "failed", "stopped", "lost"]

ACTIVE: frozenset[RunState] = frozenset({"planned", "starting", "running", "stopping"})
"""States of a run that may still change by itself."""

MachineState = Literal["none", "asked", "held", "released"]
"""Of a rented machine: `none`: there never was one; `asked`: it may exist; `held`: it exists; `released`: it is gone."""

REPORTED = frozenset(
    {
        *("started", "resumed", "stage_started", "stage_ready", "stage_ended"),
        *("stopping", "note", "finished", "failed", "stopped"),
    }
)
"""Types of the events of a machine; `reports` has their fields."""

LATEST_TIME = 1e10
"""Seconds since the epoch, in the year 2286: what is told of later than that is no date."""
MOST_UNREADABLE = 20
"""Unreadable records of a machine that are counted; more of them are not kept."""
_NOTES = 50
"""Notes of a run that are kept, the newest."""

STATE_GLYPHS: Mapping[RunState, str] = {
    "planned": "○",
    "starting": "◔",
    "running": "●",
    "stopping": "◕",
    "finished": "✓",
    "failed": "✗",
    "stopped": "■",
    "lost": "?",
}
"""One character a state, always shown together with the word."""


def iso_time(moment: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 text in UTC, to the second."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunEvent:
    """Something that happened to a run, kept for ever.

    What the app does has the types `planned`, `machine` (a step on the way to a rented machine, or its end), `step`,
    `stop_requested`, `limits`, `removed`, `failed`, `lost`, `unreadable` (a record of the machine that was not taken). What the
    supervisor on the machine reports has those of `REPORTED`, and no others.
    """

    run: str
    number: int
    """Grows over all runs of a store: the order in which the store learned of it."""
    at: float
    """Seconds since the epoch, by the clock of whoever reports it."""
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    origin: Literal["app", "machine"] = "app"

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui runs show --json`."""
        return {"at": iso_time(self.at), "type": self.type, "origin": self.origin, "data": dict(self.data)}


@dataclass(frozen=True)
class RunSummary:
    """A run, as its events so far tell."""

    id: str
    name: str
    engine: str
    host: str
    """Name of the machine; `local` for this one."""
    folder: str
    """The run's folder on that machine."""
    state: RunState = "planned"
    created: float = 0.0
    """Seconds since the epoch, as are `started`, `ended` and `updated`."""
    started: float | None = None
    """When the supervisor on the machine took over."""
    ended: float | None = None
    updated: float = 0.0
    """Time of the newest event."""
    why: str | None = None
    """Why it failed, was stopped or is lost, in words."""
    mode: Literal["tmux", "processes"] | None = None
    """How its stages run there: in a tmux session, or as detached processes where tmux is missing."""
    stage: str | None = None
    """The stage that runs now, or ran last."""
    notes: tuple[str, ...] = ()
    """What the user should know beside it, such as a missing tmux."""
    final: bool = False
    """The machine has reported the end: nothing changes the state any more."""
    machine: MachineState = "none"
    """What is known of its rented machine."""
    hourly: float | None = None
    """Price an hour of the rented machine, as its provider says it."""
    currency: str = "USD"
    held_since: float | None = None
    """When the rented machine was asked for, as `released` is when it was gone."""
    released: float | None = None
    billed: float | None = None
    """What the rented machine has cost in all, where its provider said it."""
    results: str | None = None
    """Folder on this computer that its results were brought to."""
    removed: bool = False
    """The user wants to see no more of it."""
    unreadable: int = 0
    """Records of its machine that were no events, and were passed over. Counted up to `MOST_UNREADABLE`."""
    unreadable_why: str | None = None
    """What was wrong with the first of them."""

    @property
    def active(self) -> bool:
        """It may still change by itself."""
        return self.state in ACTIVE

    @property
    def holds_machine(self) -> bool:
        """Its rented machine may still be there, and cost money, or its results are still to be fetched."""
        return self.machine in ("asked", "held")

    def cost(self, now: float) -> float | None:
        """What its machine has cost: the bill where there is one, else price times time. None for a machine of the user's own."""
        if self.billed is not None:
            return self.billed
        if self.hourly is None or self.held_since is None:
            return None
        return self.hourly * max((self.released or now) - self.held_since, 0.0) / 3600

    @property
    def passed_over(self) -> str | None:
        """That records of its machine were not readable, in words; None where all were."""
        if not self.unreadable:
            return None
        if self.unreadable == 1:
            return f"1 record of the machine was not readable: {self.unreadable_why}"
        more = " or more" if self.unreadable >= MOST_UNREADABLE else ""
        return f"{self.unreadable}{more} records of the machine were not readable, the first one: {self.unreadable_why}"

    @property
    def session(self) -> str:
        """Name of its tmux session."""
        return f"hudtui-{self.id}"

    def elapsed(self, now: float) -> float | None:
        """Seconds from its start on the machine to its end, or to `now`; None before the start."""
        if self.started is None:
            return None
        return max((self.ended if self.ended is not None else now) - self.started, 0.0)

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui runs list --json`."""
        return {
            "id": self.id,
            "name": self.name,
            "engine": self.engine,
            "state": self.state,
            "why": self.why,
            "stage": self.stage,
            "host": self.host,
            "folder": self.folder,
            "mode": self.mode,
            "session": self.session if self.mode == "tmux" else None,
            "created": iso_time(self.created),
            "started": iso_time(self.started),
            "ended": iso_time(self.ended),
            "updated": iso_time(self.updated),
            "elapsed_seconds": None if self.started is None or self.ended is None else round(self.ended - self.started, 3),
            "notes": list(self.notes),
            "unreadable": self.unreadable,
            "machine": self.machine,
            "hourly": self.hourly,
            "currency": self.currency,
            "billed": self.billed,
            "results": self.results,
        }


END_STATES: Mapping[str, RunState] = {"finished": "finished", "failed": "failed", "stopped": "stopped"}


def fold(start: RunSummary, events: Iterable[RunEvent]) -> RunSummary:
    """The run after `events`, which come in the order of their numbers. Whatever they hold, nothing is raised.

    What the machine says about the end is final. `lost` is what the app believes while the machine is silent: any later word of
    the machine overrules it. A machine tells of its run alone: not of its rent, nor of where the results lie here.
    """
    run: dict[str, Any] = dict(vars(start))
    for event in events:
        run["updated"] = max(run["updated"], event.at)
        if event.type == "note" and (message := _text(event, "message")):
            run["notes"] = (*run["notes"], message)[-_NOTES:]
        if event.origin == "machine":
            _take_report(run, event)
        else:
            _take_own(run, event)
    return RunSummary(**run)


def _take_report(run: dict[str, Any], event: RunEvent) -> None:
    """What the supervisor on the machine says."""
    if event.type not in REPORTED:
        return
    if event.data.get("mode") in ("tmux", "processes"):
        run["mode"] = event.data["mode"]
    if run["final"]:
        return
    if event.type in END_STATES:
        run.update(final=True, state=END_STATES[event.type], ended=event.at, why=_text(event, "why"))
        return
    stopping = event.type == "stopping" or run["state"] == "stopping"
    run.update(state="stopping" if stopping else "running", ended=None, why=None)
    if event.type == "started":
        run["started"] = event.at
    elif event.type == "stage_started":
        run["stage"] = _text(event, "stage")


def _take_own(run: dict[str, Any], event: RunEvent) -> None:
    """What the app did, or saw."""
    kind = event.type
    if kind == "machine":
        _take_machine(run, event)
    elif kind == "step" and (folder := _text(event, "folder")):
        run["results"] = folder
    elif kind == "removed":
        run["removed"] = True
    elif kind == "unreadable":
        run.update(unreadable=run["unreadable"] + 1, unreadable_why=run["unreadable_why"] or _text(event, "why"))
    if run["final"]:
        return
    if kind in END_STATES:
        run.update(state=END_STATES[kind], ended=event.at, why=_text(event, "why"))
    elif kind == "lost":
        run.update(state="lost", why=_text(event, "why"))
    elif kind == "stop_requested" and run["state"] in ("planned", "starting", "running"):
        run["state"] = "stopping"
    elif kind in ("step", "machine") and run["state"] == "planned":
        run["state"] = "starting"


_HELD = frozenset({"created", "adopted", "waiting", "installing", "trying", "ready"})


def _take_machine(run: dict[str, Any], event: RunEvent) -> None:
    """A word about the rented machine. What was released stays so, unless it is seen again."""
    kind = _text(event, "kind")
    if kind == "intended":
        run.update(machine="asked", held_since=event.at)
    elif kind in _HELD:
        run["machine"] = "held"
    elif kind == "released":
        run.update(machine="released", released=event.at, billed=_amount(event, "billed"))
    elif kind == "never":
        run.update(machine="none", held_since=None)
    if (hourly := _amount(event, "hourly")) is not None:
        run.update(hourly=hourly, currency=_text(event, "currency") or run["currency"])


def _text(event: RunEvent, name: str) -> str | None:
    value = event.data.get(name)
    return value if isinstance(value, str) else None


def _amount(event: RunEvent, name: str) -> float | None:
    value = event.data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        return None
    return float(value)
