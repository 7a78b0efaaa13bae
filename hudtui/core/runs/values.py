"""Values for runs: events, and the summary that is folded from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

RunState = Literal[
    "planned",
    "starting",
    "running",
    "stopping",
    "finished",
    "failed",
    "stopped",
    "lost",
    "followed",
    "ended",
]
"""State of a run; `followed` and `ended` are those of a run that hudtui did not start."""

ACTIVE: frozenset[RunState] = frozenset({"planned", "starting", "running", "stopping", "followed"})
"""States of a run that may still change by itself."""

MachineState = Literal["none", "asked", "held", "released"]
"""State of a rented machine. `none`: never requested; `asked`: requested, may exist; `held`:
exists; `released`: gone."""

REPORTED = frozenset(
    {
        *("started", "resumed", "stage_started", "stage_ready", "stage_ended"),
        *("stopping", "note", "finished", "failed", "stopped"),
    }
)
"""Event types that a machine may report; `reports` defines the fields."""

LATEST_TIME = 1e10
"""Latest valid time, in seconds since the epoch (the year 2286)."""
MOST_UNREADABLE = 20
"""Largest number of unreadable records of a machine that are counted; further ones are not
stored."""
_NOTES = 50
"""Number of the newest notes that are kept for a run."""

STATE_GLYPHS: Mapping[RunState, str] = {
    "planned": "○",
    "starting": "◔",
    "running": "●",
    "stopping": "◕",
    "finished": "✓",
    "failed": "✗",
    "stopped": "■",
    "lost": "?",
    "followed": "◇",
    "ended": "□",
}
"""One character for each state, always shown together with the word."""


def iso_time(moment: float | None) -> str | None:
    """Return seconds since the epoch as ISO 8601 text in UTC, to the second; None for None."""
    return (
        None
        if moment is None
        else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")
    )


@dataclass(frozen=True)
class RunEvent:
    """An event of a run. Events are never changed or deleted.

    Events of the app have the types `planned`, `machine` (a step on the way to a rented machine, or
    its end), `step`, `stop_requested`, `limits`, `removed`, `failed`, `lost`, `unreadable` (a
    rejected record of the machine), `renamed`, `commented`, `tagged`, `archived`, `acknowledged`
    (alarms that the user knows of, or that are over), `notified` (the user's command was started
    for an event). Events of the supervisor on the machine have the types in `REPORTED`, and no
    others.
    """

    run: str
    number: int
    """Position of the event in the store, growing over all runs."""
    at: float
    """Seconds since the epoch, by the clock of the computer that reports the event."""
    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    origin: Literal["app", "machine"] = "app"

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui runs show --json`."""
        return {
            "at": iso_time(self.at),
            "type": self.type,
            "origin": self.origin,
            "data": dict(self.data),
        }


@dataclass(frozen=True)
class RunSummary:
    """The state of a run after its events so far."""

    id: str
    name: str
    engine: str
    host: str
    """Name of the machine; `local` for this computer."""
    folder: str
    """The run's folder on that machine."""
    state: RunState = "planned"
    created: float = 0.0
    """Seconds since the epoch, as are `started`, `ended` and `updated`."""
    started: float | None = None
    """Time at which the supervisor on the machine started the run."""
    ended: float | None = None
    updated: float = 0.0
    """Time of the newest event."""
    why: str | None = None
    """The reason why the run failed, was stopped or is lost, as a sentence."""
    mode: Literal["tmux", "processes"] | None = None
    """Way in which the stages run: in a tmux session, or as detached processes without tmux."""
    stage: str | None = None
    """Name of the current or last stage."""
    notes: tuple[str, ...] = ()
    """Further remarks for the user, for example that tmux is missing."""
    final: bool = False
    """The machine has reported the end: the state no longer changes."""
    machine: MachineState = "none"
    """State of the rented machine."""
    hourly: float | None = None
    """Price per hour of the rented machine, as stated by the provider."""
    currency: str = "USD"
    prepaid_hours: float = 0.0
    """Hours of the rented machine that are charged up front, used or not."""
    simulated: bool = False
    """True if the rented machine is simulated, so that no real money is spent."""
    held_since: float | None = None
    """Time at which the rented machine was requested; `released` is the time at which it was
    gone."""
    released: float | None = None
    billed: float | None = None
    """Total cost of the rented machine by the provider's bill; None without a bill."""
    results: str | None = None
    """Folder on this computer with the fetched results."""
    removed: bool = False
    """The user has removed the run from the list."""
    comment: str = ""
    """The user's comment on the run."""
    tags: tuple[str, ...] = ()
    """The user's tags, in alphabetical order."""
    archived: bool = False
    """The user has archived the run; see `hidden`."""
    acknowledged: tuple[str, ...] = ()
    """The keys of the acknowledged alarms (`alarms.Alarm.key`), the newest last."""
    unreadable: int = 0
    """Number of skipped invalid records of the machine, counted up to `MOST_UNREADABLE`."""
    unreadable_why: str | None = None
    """The error in the first unreadable record."""

    @property
    def active(self) -> bool:
        """Return whether the run may still change by itself."""
        return self.state in ACTIVE

    @property
    def external(self) -> bool:
        """Return whether hudtui did not start the run, and only reads it."""
        return self.state in ("followed", "ended")

    @property
    def holds_machine(self) -> bool:
        """Return whether a machine may still cost money, or results are not fetched yet."""
        return self.machine in ("asked", "held")

    @property
    def labels(self) -> str:
        """Return the tags and the comment in one text; empty without them."""
        return " ".join(filter(None, (*(f"#{tag}" for tag in self.tags), self.comment)))

    @property
    def hidden(self) -> bool:
        """Return whether lists leave the run out: it is archived, has ended, and costs no money."""
        return self.archived and self.state in END_STATES and not self.holds_machine

    def cost(self, now: float) -> float | None:
        """Return the cost of the rented machine: the bill, or price times time without one.

        None if no machine was rented.
        """
        if self.billed is not None:
            return self.billed
        if self.hourly is None or self.held_since is None:
            return None
        # Offers and pods are not imported for lists of runs that rent nothing.
        from hudtui.core.compute.values import Price

        hours = max((self.released or now) - self.held_since, 0.0) / 3600
        return Price(self.hourly, prepaid_hours=self.prepaid_hours).for_hours(hours)

    @property
    def cost_note(self) -> str:
        """Return what follows an amount of money.

        ` (simulated)` if no real money is spent, else nothing.
        """
        return " (simulated)" if self.simulated else ""

    @property
    def short_cost_note(self) -> str:
        """Return `cost_note` for a narrow column."""
        return " sim" if self.simulated else ""

    @property
    def passed_over(self) -> str | None:
        """Return a sentence about unreadable records of the machine, or None without any."""
        if not self.unreadable:
            return None
        if self.unreadable == 1:
            return f"1 record of the machine was not readable: {self.unreadable_why}"
        more = " or more" if self.unreadable >= MOST_UNREADABLE else ""
        return (
            f"{self.unreadable}{more} records of the machine were not readable, the first one: "
            f"{self.unreadable_why}"
        )

    @property
    def session(self) -> str:
        """Return the name of the run's tmux session."""
        return f"hudtui-{self.id}"

    def elapsed(self, now: float) -> float | None:
        """Return the seconds from the start on the machine to the end, or to `now`.

        None before the start.
        """
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
            "elapsed_seconds": None
            if self.started is None or self.ended is None
            else round(self.ended - self.started, 3),
            "notes": list(self.notes),
            "unreadable": self.unreadable,
            "machine": self.machine,
            "hourly": self.hourly,
            "currency": self.currency,
            "simulated": self.simulated,
            "billed": self.billed,
            "results": self.results,
            "comment": self.comment,
            "tags": list(self.tags),
            "archived": self.archived,
        }


_OF_THE_USER = frozenset({"renamed", "commented", "tagged", "archived", "acknowledged", "notified"})
"""Types of events that do not show that the run is alive."""
_ACKNOWLEDGED = 100
"""Number of the newest acknowledged alarms that are kept for a run."""
END_STATES: Mapping[str, RunState] = {
    "finished": "finished",
    "failed": "failed",
    "stopped": "stopped",
}


def fold(start: RunSummary, events: Iterable[RunEvent]) -> RunSummary:
    """Return the run after `events`, given in the order of their numbers.

    Invalid events never raise. An end reported by the machine is final. `lost` is the app's
    assumption while the machine is silent; any later report of the machine replaces it. Reports of
    a machine change neither the rental nor the local results folder.
    """
    run: dict[str, Any] = dict(vars(start))
    for event in events:
        if event.type not in _OF_THE_USER:
            run["updated"] = max(run["updated"], event.at)
        if event.type == "note" and (message := _text(event, "message")):
            run["notes"] = (*run["notes"], message)[-_NOTES:]
        if event.origin == "machine":
            _take_report(run, event)
        else:
            _take_own(run, event)
    return RunSummary(**run)


def _take_report(run: dict[str, Any], event: RunEvent) -> None:
    """Apply an event of the supervisor on the machine."""
    if event.type not in REPORTED:
        return
    if event.data.get("mode") in ("tmux", "processes"):
        run["mode"] = event.data["mode"]
    if run["final"]:
        return
    if event.type in END_STATES:
        run.update(
            final=True, state=END_STATES[event.type], ended=event.at, why=_text(event, "why")
        )
        return
    stopping = event.type == "stopping" or run["state"] == "stopping"
    run.update(state="stopping" if stopping else "running", ended=None, why=None)
    if event.type == "started":
        run["started"] = event.at
    elif event.type == "stage_started":
        run["stage"] = _text(event, "stage")


def _take_own(run: dict[str, Any], event: RunEvent) -> None:
    """Apply an event of the app."""
    kind = event.type
    if kind == "machine":
        _take_machine(run, event)
    elif kind == "step" and (folder := _text(event, "folder")):
        run["results"] = folder
    elif kind == "removed":
        run["removed"] = True
    elif kind == "renamed":
        run["name"] = _text(event, "name") or run["name"]
    elif kind == "commented":
        run["comment"] = _text(event, "text") or ""
    elif kind == "tagged":
        run["tags"] = tuple(sorted({*run["tags"], *_texts(event, "add")} - _texts(event, "remove")))
    elif kind == "archived":
        run["archived"] = event.data.get("undone") is not True
    elif kind == "acknowledged":
        told = _texts(event, "alarms")
        others = tuple(key for key in run["acknowledged"] if key not in told)
        run["acknowledged"] = (
            others
            if event.data.get("undone") is True
            else (*others, *sorted(told))[-_ACKNOWLEDGED:]
        )
    elif kind == "unreadable":
        run.update(
            unreadable=run["unreadable"] + 1,
            unreadable_why=run["unreadable_why"] or _text(event, "why"),
        )
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
    """Apply an event of the rented machine.

    A released machine stays released unless it is seen again.
    """
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
    if (prepaid := _amount(event, "prepaid_hours")) is not None:
        run["prepaid_hours"] = prepaid


def _text(event: RunEvent, name: str) -> str | None:
    value = event.data.get(name)
    return value if isinstance(value, str) else None


def _texts(event: RunEvent, name: str) -> set[str]:
    value = event.data.get(name)
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


def _amount(event: RunEvent, name: str) -> float | None:
    value = event.data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        return None
    return float(value)
