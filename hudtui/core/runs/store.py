"""The run store of a workspace.

An append-only list of events in SQLite, from which the state of each run is folded. Any number of
processes may use the store at once, and any of them may be killed at any moment: each change is one
transaction, and an event that must happen only once has a mark that is unique in the database.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import shlex
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from hudtui.core import trust
from hudtui.core.db import Database
from hudtui.core.errors import InputError, RunError
from hudtui.core.paths import private_folder
from hudtui.core.plain import from_plain, to_plain
from hudtui.core.process import machine_label
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.values import (
    END_STATES,
    LATEST_TIME,
    MOST_UNREADABLE,
    RunEvent,
    RunSummary,
    fold,
)
from hudtui.core.text import clean_line
from hudtui.core.training.plan import Plan
from hudtui.core.workspace import STATE_FOLDER, make_state_dir

if TYPE_CHECKING:
    from hudtui.core.runs.reports import MachineReport, UnreadableReport

P = ParamSpec("P")
T = TypeVar("T")

MOST_REPORTS = 10_000
"""Largest number of events of the machine that are kept for a run."""

_LONGEST_NAME, _LONGEST_COMMENT = 100, 2_000
_TAG = re.compile(r"\w[\w.=+/-]{0,39}")
_MOST_TAGS = 20

_VERSION = 1
_SCHEMA = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    created REAL NOT NULL,
    name TEXT NOT NULL,
    engine TEXT NOT NULL,
    host TEXT NOT NULL,
    machine TEXT NOT NULL,
    folder TEXT NOT NULL,
    spec TEXT NOT NULL,
    plan TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run TEXT NOT NULL REFERENCES runs (id),
    at REAL NOT NULL,
    type TEXT NOT NULL,
    origin TEXT NOT NULL,
    data TEXT NOT NULL,
    once TEXT
);
CREATE INDEX events_of_run ON events (run, number);
CREATE UNIQUE INDEX events_once ON events (run, once) WHERE once IS NOT NULL;
"""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A valid run id; the id is also the name of a folder and of a tmux session."""
_ID_LETTERS = "bcdfghjkmnpqrstvwxyz23456789"


@dataclass(frozen=True)
class RunRecord:
    """A run without its progress: its name, its spec and plan, and its machine."""

    id: str
    created: float
    name: str
    engine: str
    host: str
    machine: str
    """Name of the computer on which hudtui ran; a run on `local` is on that computer."""
    folder: str
    spec: RunSpec
    plan: Plan
    own: bool = True
    """True if the user has started the run or taken it over. Otherwise hudtui must not act on the
    run; see `core.trust`."""


class RunStore:
    """The runs of one workspace.

    Args:
        state_dir: `Workspace.state_dir`. Created when the first run is added; reading creates
            nothing.
        patience: Seconds to wait while another process writes.
    """

    def __init__(self, state_dir: Path, *, patience: float = 10.0) -> None:
        self.state_dir = state_dir
        self.path = state_dir / "runs.db"
        self.database = Database(
            self.path,
            title="the list of runs",
            version=_VERSION,
            schema=_SCHEMA,
            error=RunError,
            damaged_fix=f"Move it away; the runs themselves are in {self.folder}.",
            make_folder=self._make_folder,
            patience=patience,
        )
        self._lock = threading.Lock()
        self._folded: dict[str, RunSummary] = {}
        self._seen = 0
        self._stamp: object = None

    def _make_folder(self) -> None:
        if self.state_dir.name == STATE_FOLDER:
            make_state_dir(self.state_dir.parent)
        else:
            private_folder(self.state_dir)

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run work that reads or writes the store in the store's thread, off the event loop.

        See `Database.run`.
        """
        return await self.database.run(work, *args, **kwargs)

    @property
    def folder(self) -> Path:
        """Return the folder that contains the folders of local runs."""
        return self.state_dir / "runs"

    def new_id(self, name: str) -> str:
        """Return an unused id derived from `name`."""
        slug = (
            re.sub(r"[^a-z0-9]+", "-", clean_line(name).lower()).strip("-")[:24].rstrip("-")
            or "run"
        )
        while True:
            run = f"{slug}-{''.join(secrets.choice(_ID_LETTERS) for _ in range(4))}"
            if (
                not any(record == run for record in self._ids())
                and not (self.folder / run).exists()
            ):
                return run

    def add(self, record: RunRecord) -> RunEvent:
        """Store a new run and mark it as the user's own. Return its first event, `planned`.

        Raises:
            RunError: The id is already used, or the store cannot be written.
            InputError: The mark cannot be written.
        """
        row = (
            *(
                record.id,
                record.created,
                record.name,
                record.engine,
                record.host,
                record.machine,
                record.folder,
            ),
            *(json.dumps(to_plain(record.spec)), json.dumps(to_plain(record.plan))),
        )
        # The mark comes first, so that no run is stored without it. A mark without a run has no
        # effect.
        trust.mark_run(self.path, record.id, _content(row))
        with self.database.writing() as database:
            try:
                database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            except sqlite3.IntegrityError:
                raise RunError(f"a run called {record.id} exists already") from None
            event = self._insert(
                database, record.id, "planned", {}, record.created, "app", "planned"
            )
        assert event is not None
        return event

    def append(
        self,
        run: str,
        kind: str,
        data: Mapping[str, Any] | None = None,
        *,
        at: float | None = None,
        once: str | None = None,
    ) -> RunEvent | None:
        """Store an event of the app and return it.

        Return None if an event with the mark `once` exists already.

        Raises:
            RunError: The run does not exist, or the store cannot be written.
        """
        moment = time.time() if at is None else at
        with self.database.writing() as database:
            return self._insert(database, run, kind, data or {}, moment, "app", once)

    def rename(self, run: str, name: str) -> None:
        """Give a run another name. Its id and its folder stay.

        Raises:
            InputError: The name is empty, has more than 100 characters, or contains unprintable
                characters.
            RunError: The run does not exist, or the store cannot be written.
        """
        name = name.strip()
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise InputError(
                "this is not a valid name for a run",
                fix=f"A name has 1 to {_LONGEST_NAME} printable characters.",
            )
        self.append(run, "renamed", {"name": name})

    def comment(self, run: str, text: str) -> None:
        """Store a comment on a run; an empty text removes the comment.

        Raises:
            InputError: The text has more than 2,000 characters.
            RunError: The run does not exist, or the store cannot be written.
        """
        text = text.strip()
        if len(text) > _LONGEST_COMMENT:
            raise InputError(
                f"this comment has {len(text):,} characters",
                fix=f"A comment has at most {_LONGEST_COMMENT:,}.",
            )
        self.append(run, "commented", {"text": text})

    def tag(
        self, runs: Sequence[str], *, add: Iterable[str] = (), remove: Iterable[str] = ()
    ) -> None:
        """Add tags to runs, and remove tags from them. If one run cannot be changed, none is.

        Raises:
            InputError: A text is not a tag, or a run would have more than 20 tags.
            RunError: A run does not exist, or the store cannot be written.
        """
        given, taken = set(add), set(remove)
        if wrong := [tag for tag in given if _TAG.fullmatch(tag) is None]:
            raise InputError(
                f"{clean_line(wrong[0], 60)!r} is not a tag",
                fix="A tag has 1 to 40 letters, digits, and characters of _.=+/-.",
            )
        if any(len({*self.summary(run).tags, *given} - taken) > _MOST_TAGS for run in runs):
            raise InputError(f"a run has at most {_MOST_TAGS} tags")
        self._append_to_all(runs, "tagged", {"add": sorted(given), "remove": sorted(taken)})

    def archive(self, runs: Sequence[str], *, undo: bool = False) -> None:
        """Archive runs, so that lists leave them out, or restore them.

        If one run cannot be archived, none is.

        Raises:
            RunError: A run does not exist, has not ended, or its machine may still cost money; or
                the store cannot be written.
        """
        for run in () if undo else map(self.summary, runs):
            if run.state not in END_STATES or run.holds_machine:
                why = (
                    "its machine may still be there"
                    if run.state in END_STATES
                    else f"the run has not ended: {run.state}"
                )
                raise RunError(
                    f"run {run.id} is not archived: {why}", fix=f"hudtui runs stop {run.id}"
                )
        self._append_to_all(runs, "archived", {"undone": undo})

    def acknowledge(self, run: str, alarms: Iterable[str], *, undo: bool = False) -> None:
        """Store that the user has acknowledged alarms of a run, or has undone that.

        They are named by their keys (`alarms.Alarm.key`).

        Raises:
            RunError: The run does not exist, or the store cannot be written.
        """
        self.append(run, "acknowledged", {"alarms": sorted(alarms), "undone": undo})

    def _append_to_all(self, runs: Iterable[str], kind: str, data: Mapping[str, Any]) -> None:
        moment = time.time()
        with self.database.writing() as database:
            for run in runs:
                self._insert(database, run, kind, data, moment, "app", None)

    def append_together(
        self, run: str, events: Iterable[tuple[str, Mapping[str, Any], str | None]]
    ) -> tuple[RunEvent, ...]:
        """Store events (kind, data, `once`) in one transaction; see `append`.

        A reader sees all of them or none.

        Returns:
            The events that were new.
        """
        moment = time.time()
        with self.database.writing() as database:
            added = [
                self._insert(database, run, kind, data, moment, "app", once)
                for kind, data, once in events
            ]
        return tuple(event for event in added if event is not None)

    def mirror(
        self, run: str, lines: Iterable[Mapping[str, Any] | MachineReport | UnreadableReport]
    ) -> tuple[RunEvent, ...]:
        """Store events that the supervisor on the machine wrote, and return the new ones.

        Known events are skipped. Invalid records are counted (`RunSummary.unreadable`) and
        rejected. Only the first `MOST_REPORTS` events of a run and its end are kept.

        Args:
            run: The run.
            lines: Objects of the run's `events.jsonl`, or the results of `reports.read_report`.
        """
        from hudtui.core.runs.reports import MachineReport, UnreadableReport, check_report

        found = [
            line if isinstance(line, MachineReport | UnreadableReport) else check_report(line)
            for line in lines
        ]
        if not found:
            return ()
        with self.database.writing() as database:
            kept = {
                row[0]
                for row in database.execute(
                    "SELECT once FROM events WHERE run = ? AND once IS NOT NULL", (run,)
                )
            }
            counts = {"machine": 0, "unreadable": 0}
            for mark in kept:
                kind = mark.partition(":")[0]
                counts[kind] = counts.get(kind, 0) + 1
            added = []
            for one in found:
                kind = "machine" if isinstance(one, MachineReport) else "unreadable"
                mark = f"{kind}:{one.seq if isinstance(one, MachineReport) else one.mark}"
                if mark in kept:
                    continue
                if isinstance(one, UnreadableReport):
                    if counts[kind] < MOST_UNREADABLE:
                        self._insert(
                            database, run, kind, {"why": one.why}, time.time(), "app", mark
                        )
                elif counts[kind] < MOST_REPORTS or (
                    one.type in END_STATES and counts[kind] < MOST_REPORTS + MOST_UNREADABLE
                ):
                    added.append(
                        self._insert(database, run, one.type, one.data, one.at, "machine", mark)
                    )
                else:
                    continue
                kept.add(mark)
                counts[kind] += 1
        return tuple(event for event in added if event is not None)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all runs, oldest first."""
        return tuple(self._ids())

    def find(self, text: str | None) -> str:
        """Return the id of the run with this id, prefix of an id, or name.

        None stands for the newest run.

        Raises:
            RunError: No run matches, or several do.
        """
        runs = self.runs()
        if not runs:
            raise RunError(
                "there are no runs in this workspace",
                fix="Start one: hudtui rl, or the screen Run.",
            )
        if text is None:
            return runs[-1].id
        exact = [run.id for run in runs if run.id == text]
        fit = (
            exact
            or [run.id for run in runs if run.name == text]
            or [run.id for run in runs if run.id.startswith(text)]
        )
        if len(fit) == 1:
            return fit[0]
        if fit:
            raise RunError(f"{clean_line(text)!r} matches several runs", why=", ".join(fit))
        raise RunError(
            f"there is no run {clean_line(text)!r}", fix="hudtui runs list shows all runs."
        )

    def record(self, run: str) -> RunRecord:
        """Return the record of a run.

        If its rented machine is gone, the record names the local results folder.

        Raises:
            RunError: The run does not exist, was stored by another version of hudtui, or its record
                is invalid.
        """
        return self._record(self._row(run))

    def records(self) -> dict[str, RunRecord]:
        """Return the records of all runs by id, in one read; see `record`.

        Invalid records are left out.
        """
        with self.database.reading() as database:
            rows = database.execute("SELECT * FROM runs").fetchall() if database else []
        found = {}
        for row in filter(_is_named, rows):
            with contextlib.suppress(RunError):
                found[row[0]] = self._record(row)
        return found

    def _record(self, row: tuple[Any, ...]) -> RunRecord:
        known, created, _, engine, host, machine, folder, spec, plan = row
        try:
            made = from_plain(json.loads(spec), RunSpec), from_plain(json.loads(plan), Plan)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise RunError(
                f"the record of run {clean_line(known)!r} is not readable",
                why=clean_line(repr(error), 200),
            ) from None
        own = self._is_own(row)
        summary = self.summary(known)
        if summary.machine == "released" and (home := results_folder_of(summary)) is not None:
            host, machine, folder = "local", machine_label(), home
        return RunRecord(known, created, summary.name, engine, host, machine, folder, *made, own)

    def specs(self) -> dict[str, RunSpec]:
        """Return the spec of each run, by id, in one read. Unreadable records are left out."""
        with self.database.reading() as database:
            rows = database.execute("SELECT id, spec FROM runs").fetchall() if database else []
        found = {}
        for run, spec in rows:
            with contextlib.suppress(InputError, ValueError, TypeError, RecursionError):
                found[str(run)] = from_plain(json.loads(spec), RunSpec)
        return found

    def is_own(self, run: str) -> bool:
        """Return whether the user has started a run from this folder, or has taken it over.

        Raises:
            RunError: The run does not exist.
        """
        return self._is_own(self._row(run))

    def require_own(self, run: str) -> None:
        """Check that a run is the user's own.

        The check comes before hudtui connects to its machine, ends its processes or removes its
        files.

        Raises:
            RunError: The run does not exist.
            Untrusted: The user did not start this run.
        """
        row = self._row(run)
        if not self._is_own(row):
            raise trust.Untrusted(self.state_dir.parent, [self._power(row)])

    def own_record(self, run: str) -> RunRecord:
        """Return the record of a run that is the user's own.

        See `record` and `require_own` for the errors.
        """
        row = self._row(run)
        if not self._is_own(row):
            raise trust.Untrusted(self.state_dir.parent, [self._power(row)])
        return self._record(row)

    def powers(self) -> tuple[trust.Power, ...]:
        """Return one power for each run that may still change and that the user has not started.

        See `core.trust`.
        """
        waiting = [
            run.id for run in self.runs() if run.active or run.holds_machine or run.state == "lost"
        ]
        rows = [
            row
            for row in map(self._row, waiting)
            if not trust.owns_run(self.path, row[0], _content(row))
        ]
        return tuple(map(self._power, rows))

    def _row(self, run: str) -> tuple[Any, ...]:
        with self.database.reading() as database:
            row: tuple[Any, ...] | None = None
            if database is not None:
                row = database.execute("SELECT * FROM runs WHERE id = ?", (run,)).fetchone()
        if row is None or not _is_named(row):
            raise RunError(f"there is no run {clean_line(str(run))!r}")
        return row

    def _is_own(self, row: tuple[Any, ...]) -> bool:
        owns = trust.owns_run(self.path, row[0], _content(row))
        return owns or not trust.missing(self.state_dir.parent, [self._power(row)])

    def _power(self, row: tuple[Any, ...]) -> trust.Power:
        run, *_, host, _, folder, _, plan = row
        try:
            commands = "; ".join(map(_command, json.loads(plan)["stages"]))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            commands = "unreadable commands"
        return trust.power(
            "run", f"{run} on {host}, in {folder}: {commands}", self.path, _content(row)
        )

    def events(self, run: str, *, after: int = 0) -> tuple[RunEvent, ...]:
        """Return the events of a run, in order; only those with a number above `after`."""
        with self.database.reading() as database:
            query = f"{_EVENTS} WHERE run = ? AND number > ? ORDER BY number"
            rows = database.execute(query, (run, after)).fetchall() if database else []
        return tuple(map(_event, rows))

    def summary(self, run: str) -> RunSummary:
        """Return the state of a run, folded from its events.

        Raises:
            RunError: The run does not exist.
        """
        with self._lock:
            self._catch_up()
            found = self._folded.get(run)
        if found is None or found.removed:
            raise RunError(f"there is no run {clean_line(run)!r}")
        return found

    def runs(self) -> tuple[RunSummary, ...]:
        """Return all runs that are not removed, oldest first.

        A repeated call reads only new events.
        """
        with self._lock:
            self._catch_up()
            kept = (run for run in self._folded.values() if not run.removed)
            return tuple(sorted(kept, key=lambda run: (run.created, run.id)))

    def _catch_up(self) -> None:
        """Fold in the events written since the last call."""
        stamp = self.database.stamp()
        if stamp is not None and stamp == self._stamp:
            return
        with self.database.reading() as database:
            rows = []
            if database is not None:
                rows = database.execute(
                    f"{_EVENTS} WHERE number > ? ORDER BY number", (self._seen,)
                ).fetchall()
            if database is None or (self._seen and not rows and not self._continues(database)):
                self._folded, self._seen = {}, 0  # the file was removed, or replaced by another
                if database is not None:
                    rows = database.execute(f"{_EVENTS} ORDER BY number").fetchall()
            if not rows or database is None:
                self._stamp = stamp
                return
            fresh: dict[str, list[RunEvent]] = {}
            for row in rows:
                fresh.setdefault(row[0], []).append(_event(row))
            starts = {}
            if any(run not in self._folded for run in fresh):
                found = database.execute(
                    f"SELECT id, name, engine, host, folder, created, {_SIMULATED} FROM runs"
                ).fetchall()
                starts = {row[0]: _start(*row) for row in found}
        for run, events in fresh.items():
            if (before := self._folded.get(run) or starts.get(run)) is not None:
                self._folded[run] = fold(before, events)
        self._seen, self._stamp = rows[-1][1], stamp

    def _continues(self, database: sqlite3.Connection) -> bool:
        highest: int | None = database.execute("SELECT MAX(number) FROM events").fetchone()[0]
        return highest == self._seen

    def _ids(self) -> list[str]:
        with self.database.reading() as database:
            rows = (
                database.execute("SELECT id FROM runs ORDER BY created, id").fetchall()
                if database
                else []
            )
        return [row[0] for row in rows]

    @staticmethod
    def _insert(
        database: sqlite3.Connection,
        run: str,
        kind: str,
        data: Mapping[str, Any],
        at: float,
        origin: Literal["app", "machine"],
        once: str | None,
    ) -> RunEvent | None:
        row = (run, at, kind, origin, json.dumps(dict(data)), once)
        try:
            done = database.execute(
                "INSERT INTO events (run, at, type, origin, data, once) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT (run, once) WHERE once IS NOT NULL DO NOTHING",
                row,
            )
        except sqlite3.IntegrityError:
            raise RunError(f"there is no run {clean_line(run)!r}") from None
        if done.rowcount == 0 or done.lastrowid is None:
            return None
        return RunEvent(run, done.lastrowid, at, kind, dict(data), origin)


_ORIGINS: Mapping[object, Literal["app", "machine"]] = {"app": "app"}


def _is_named(row: Sequence[Any]) -> bool:
    return isinstance(row[0], str) and _ID.fullmatch(row[0]) is not None


def _command(stage: Mapping[str, Any]) -> str:
    """A stage of a plan as a command line: its variables, its words, and the keys that it gets."""
    given = [f"{name}={value}" for name, value in stage.get("env", {}).items()]
    names = ", ".join(map(str, stage.get("secrets", ())))
    return shlex.join([*given, *map(str, stage["argv"])]) + (f" with {names}" if names else "")


def _content(row: Sequence[Any]) -> str:
    """Return all fields that determine the work of a run, as one text."""
    return json.dumps(list(row), default=str)


_EVENTS = "SELECT run, number, at, type, data, origin FROM events"


def _event(row: tuple[Any, ...]) -> RunEvent:
    """Return the event in a row.

    The file may be damaged: invalid fields are replaced by defaults, and nothing raises.
    """
    run, number, at, kind, data, origin = row
    try:
        told = json.loads(data)
    except (ValueError, TypeError, RecursionError):
        told = None
    return RunEvent(
        run,
        number,
        _moment(at),
        str(kind),
        told if isinstance(told, dict) else {},
        _ORIGINS.get(origin, "machine"),
    )


_SIMULATED = "CASE WHEN instr(spec, 'simulated') THEN spec END"
"""The spec of a run on a rented machine; those of other runs are not parsed."""


def _start(
    run: str, name: str, engine: str, host: str, folder: str, created: float, spec: str | None
) -> RunSummary:
    at = _moment(created)
    return RunSummary(
        str(run),
        str(name),
        str(engine),
        str(host),
        str(folder),
        created=at,
        updated=at,
        simulated=_is_simulated(spec),
    )


def _is_simulated(spec: str | None) -> bool:
    """Return whether the machine of a run is simulated (`Rental.simulated`).

    False for a damaged spec.
    """
    try:
        found = json.loads(spec or "null")
        return found is not None and found["rent"]["simulated"] is True
    except (ValueError, TypeError, KeyError, RecursionError):
        return False


def _moment(value: object) -> float:
    """Return the value if it is a valid time in seconds since the epoch, else 0."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= LATEST_TIME else 0.0


def results_folder_of(run: RunSummary) -> str | None:
    """Return the local results folder of an ended run.

    None if its results were not fetched or the folder is gone.
    """
    return run.results if run.results and not run.active and Path(run.results).is_dir() else None
