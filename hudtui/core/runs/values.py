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

GLYPHS: Mapping[RunState, str] = {
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


def iso(moment: float | None) -> str | None:
    """Seconds since the epoch as ISO 8601 text in UTC, to the second."""
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class RunEvent:
    """Something that happened to a run, kept for ever.

    What the app does has the types `planned`, `machine` (a step on the way to a rented machine, or its end), `step`,
    `stop_requested`, `limits`, `removed`, `failed`, `lost`. What the supervisor on the machine
    reports has `started`, `resumed`, `stage_started`, `stage_ready`, `stage_ended`, `stopping`, `note`, `finished`, `failed`
    and `stopped`.
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
        return {"at": iso(self.at), "type": self.type, "origin": self.origin, "data": dict(self.data)}


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

    @property
    def active(self) -> bool:
        """It may still change by itself."""
        return self.state in ACTIVE

    @property
    def unsettled(self) -> bool:
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
            "created": iso(self.created),
            "started": iso(self.started),
            "ended": iso(self.ended),
            "updated": iso(self.updated),
            "elapsed_seconds": None if self.started is None or self.ended is None else round(self.ended - self.started, 3),
            "notes": list(self.notes),
            "machine": self.machine,
            "hourly": self.hourly,
            "currency": self.currency,
            "billed": self.billed,
            "results": self.results,
        }


_ENDS: Mapping[str, RunState] = {"finished": "finished", "failed": "failed", "stopped": "stopped"}


def fold(start: RunSummary, events: Iterable[RunEvent]) -> RunSummary:
    """The run after `events`, which come in the order of their numbers.

    What the machine says about the end is final. `lost` is what the app believes while the machine is silent: any later word of
    the machine overrules it.
    """
    run: dict[str, Any] = dict(vars(start))
    for event in events:
        _take(run, event)
    return RunSummary(**run)


def _take(run: dict[str, Any], event: RunEvent) -> None:
    kind, data, machine = event.type, event.data, event.origin == "machine"
    run["updated"] = max(run["updated"], event.at)
    if machine and data.get("mode"):
        run["mode"] = data["mode"]
    if kind == "note" and data.get("message"):
        run["notes"] = (*run["notes"], str(data["message"]))
    if kind == "machine":
        _take_machine(run, event)
    elif kind == "step" and data.get("folder"):
        run["results"] = str(data["folder"])
    elif kind == "removed":
        run["removed"] = True
    if run["final"]:
        return
    if kind in _ENDS:
        run.update(final=machine, state=_ENDS[kind], ended=event.at, why=data.get("why"))
    elif machine:
        stopping = kind == "stopping" or run["state"] == "stopping"
        run.update(state="stopping" if stopping else "running", ended=None, why=None)
        if kind == "started":
            run["started"] = event.at
        elif kind == "stage_started":
            run["stage"] = data.get("stage")
    elif kind == "lost":
        run.update(state="lost", why=data.get("why"))
    elif kind == "stop_requested" and run["state"] in ("planned", "starting", "running"):
        run["state"] = "stopping"
    elif kind in ("step", "machine") and run["state"] == "planned":
        run["state"] = "starting"


_HELD = frozenset({"created", "adopted", "waiting", "installing", "trying", "ready"})


def _take_machine(run: dict[str, Any], event: RunEvent) -> None:
    """A word about the rented machine. What was released stays so, unless it is seen again."""
    kind, data = event.data.get("kind"), event.data
    if kind == "intended":
        run.update(machine="asked", held_since=event.at)
    elif kind in _HELD:
        run["machine"] = "held"
    elif kind == "released":
        run.update(machine="released", released=event.at, billed=data.get("billed"))
    elif kind == "never":
        run.update(machine="none", held_since=None)
    if data.get("hourly") is not None:
        run.update(hourly=float(data["hourly"]), currency=str(data.get("currency") or run["currency"]))
