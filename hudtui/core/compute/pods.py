"""The machines that this user has asked for, in one place for all workspaces: none is rented that is not written down here first.

A row is made before the request that may create a machine, and outlives every crash: what it says is where the next start goes
on. Any number of processes may use the ledger at once.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hudtui.core.compute.values import Order, Pod, PodStage
from hudtui.core.errors import InputError, Location, MachineError
from hudtui.core.paths import app_paths
from hudtui.core.text import clean_line

RecordState = Literal["intended", "created", "ready", "ending", "ended", "never"]
"""`intended`: it may have been asked for, and may exist; `created`: it exists; `ready`: somebody has logged in to it;
`ending`: its end was asked for and not yet verified; `ended`: it is gone; `never`: it was never created.
"""

OPEN_STATES: frozenset[RecordState] = frozenset({"intended", "created", "ready", "ending"})
"""States in which it may exist, and so cost money."""

_VERSION = 2
_FIRST = """
CREATE TABLE machines (
    name TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    realm TEXT NOT NULL,
    pod TEXT,
    run TEXT,
    workspace TEXT,
    machine TEXT NOT NULL,
    holder TEXT,
    state TEXT NOT NULL,
    hourly REAL,
    currency TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    ended REAL,
    billed REAL,
    why TEXT,
    order_json TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX machines_by_state ON machines (state, created);
"""
_SINCE_2 = {"seen": "REAL", "last_json": "TEXT", "until": "REAL", "account": "TEXT", "unasked": "INTEGER"}
"""Columns that version 2 has added."""
_FACTS = frozenset({"pod", "run", "workspace", "hourly", "currency", "ended", "billed", "why", "account", "unasked"})


@dataclass(frozen=True)
class PodRecord:
    """A machine that this user has asked for. Times are seconds since the epoch."""

    name: str
    """Unique: the name it was ordered under."""
    provider: str
    realm: str
    """Which of its services, by address, where there may be several: a simulator's machines are not the real one's."""
    pod: str | None
    """The provider's id of it; None until it is known."""
    run: str | None
    """The run that it is for; None for one that the user holds in person."""
    workspace: str | None
    """Folder of the project that the run belongs to."""
    machine: str
    """Which machine it was ordered from: see `this_machine_id`; its name, where an older hudtui wrote it down."""
    holder: str | None
    """The process that is getting it at the moment; see `held`."""
    state: RecordState
    hourly: float | None
    """Price an hour as it was ordered, then as the provider says."""
    currency: str
    created: float
    """When it was written down, just before it was asked for."""
    updated: float
    ended: float | None
    billed: float | None
    """What it has cost in all, where the provider said so."""
    why: str | None
    """How it came to the state it is in, in words: why it was ended, or why nothing came of it."""
    order: Mapping[str, Any] = field(default_factory=dict)
    """What was ordered: the offer without the provider's raw words, image, disk."""
    seen: float | None = None
    """When its provider said last that it is alive; None: it never did, or an older hudtui asked."""
    last: Mapping[str, Any] | None = None
    """The machine as its provider told of it then; see `last_pod`."""
    until: float | None = None
    """When its guard ends it by its limits; None: never, or nothing is known of a guard."""
    account: str | None = None
    """Whose money it was rented with, as the provider names the account; None where that was not known."""
    unasked: bool = False
    """It ended without being asked to: it was taken back, or its provider ended it; `why` says what is known of that."""

    def last_pod(self) -> Pod:
        """The machine as it was known last: as its provider told of it, else as it was ordered (stage `unknown`)."""
        import msgspec

        if self.last is not None:
            try:
                pod = msgspec.convert(dict(self.last), Pod)
            except msgspec.ValidationError:
                pass  # of a version with other fields
            else:
                return pod if self.open else replace(pod, stage="gone")
        offer = self.order.get("offer", {})
        stage: PodStage = "unknown" if self.open else "gone"
        return Pod(
            self.provider,
            self.pod or "",
            self.name,
            stage,
            status=self.state,
            gpu_type=str(offer.get("gpu_type") or ""),
            gpu_count=int(offer.get("gpu_count") or 0),
            hourly=self.hourly,
            currency=self.currency,
            created=self.created,
            cloud=str(offer.get("cloud") or ""),
            region=str(offer.get("region") or ""),
            spot=bool(offer.get("spot")),
        )

    @property
    def by_hand(self) -> bool:
        """It was rented for no run, and is ready: the user's own until the user ends it, or its limits do."""
        return self.run is None and self.state == "ready"

    @property
    def open(self) -> bool:
        """It may exist, and cost money."""
        return self.state in OPEN_STATES

    @property
    def held(self) -> bool:
        """A living process on this machine is getting it."""
        here = (this_machine_id(), socket.gethostname())  # a hudtui of before wrote down the name, which changes with the network
        return self.holder is not None and self.machine in here and _alive(self.holder)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {**vars(self), "order": dict(self.order), "last": dict(self.last) if self.last else None, "held": self.held}


Grant = Callable[[Sequence[PodRecord]], float | None]
"""Says of all entries until when a machine may live, in seconds since the epoch (None: for ever), or raises; see `budget`."""


class Ledger:
    """The machines of this user.

    Args:
        path: The database; the user's own by default. Made at the first entry, readable by its owner alone.
        patience: Seconds to wait for another process that writes.
    """

    def __init__(self, path: Path | None = None, *, patience: float = 10.0) -> None:
        self.path = path or app_paths().data / "pods.db"
        self._patience = patience

    def reserve(
        self,
        order: Order,
        *,
        provider: str,
        realm: str = "",
        run: str | None = None,
        workspace: Path | str | None = None,
        account: str | None = None,
        grant: Grant | None = None,
    ) -> PodRecord:
        """Write down that a machine is about to be asked for, held by this process.

        Args:
            order: What is asked for.
            provider: Of whom.
            realm: Which of its services.
            run: The run that it is for.
            workspace: The project that the run belongs to.
            account: Whose money it is, as the provider names the account.
            grant: Says until when it may live. Nobody else can write while it is asked, so that of two launches at the same
                moment the second knows of the first. Where it raises, nothing is written.

        Raises:
            InputError: There is an entry of that name: names are used once.
            MachineError: It cannot be written, and so nothing may be asked for.
        """
        now, price = time.time(), order.offer.price
        said = {
            "offer": order.offer.to_json(),
            "image": order.image,
            "disk_gb": order.disk_gb,
            "max_hours": order.max_hours,
        }
        values = {
            "name": order.name,
            "provider": provider,
            "realm": realm,
            "run": run,
            "workspace": None if workspace is None else str(workspace),
            "machine": this_machine_id(),
            "holder": _this_process(),
            "state": "intended",
            "hourly": price.hourly if price.stated else None,
            "currency": price.currency,
            "created": now,
            "updated": now,
            "account": account,
            "order_json": json.dumps(said, default=str),
        }
        with self._writing() as database:
            try:
                database.execute(
                    f"INSERT INTO machines ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})", tuple(values.values())
                )
            except sqlite3.IntegrityError:
                raise InputError(
                    f"a machine called {clean_line(order.name)} was asked for before", fix="Take another name: each is used once."
                ) from None
            return _grant(database, order.name, grant) if grant is not None else _read(database, order.name)

    def grant(self, name: str, grant: Grant) -> PodRecord:
        """Ask anew until when a machine may live, after its limits were changed; see `reserve`.

        Raises:
            MachineError: There is no such entry, or it cannot be written.
        """
        with self._writing() as database:
            return _grant(database, name, grant)

    def note(self, name: str, state: RecordState | None = None, *, last: Pod | None = None, **facts: Any) -> PodRecord:
        """Write down what became of a machine.

        What has ended stays ended, unless its end is asked for again because it turned out to be there: `ending` is always
        taken. What was thought never to have been created may turn out to have been.

        Args:
            name: The name it was ordered under.
            state: Where it is now; None leaves that.
            last: The machine as its provider tells of it just now.
            facts: Any of pod, run, workspace, hourly, currency, ended, billed, why, account, unasked. None leaves what is there.

        Returns:
            The entry as it stands now.

        Raises:
            MachineError: There is no such entry, or it cannot be written.
        """
        unknown = set(facts) - _FACTS
        if unknown:
            raise TypeError(f"a machine has no {', '.join(sorted(unknown))}")
        values = {key: value for key, value in facts.items() if value is not None}
        if last is not None:
            values |= _seen(last, time.time())
        with self._writing() as database:
            before = _read(database, name)
            if state is not None and (before.state != "ended" or state in ("ending", "ended")):
                values["state"] = state
                if state in ("ended", "never"):
                    values.setdefault("ended", before.ended or time.time())
                    values["holder"] = None
            values["updated"] = time.time()
            places_ = ", ".join(f"{key} = ?" for key in values)
            database.execute(f"UPDATE machines SET {places_} WHERE name = ?", (*values.values(), name))
            return _read(database, name)

    def update_seen(self, pods: Mapping[str, Pod], at: float, account: str | None = None) -> tuple[PodRecord, ...]:
        """Write down what providers said of machines that are alive, so that it is known when they do not answer.

        Args:
            pods: What was said, by the name that each was ordered under.
            at: When, in seconds since the epoch.
            account: Whose they are, as the provider names the account; None leaves what is there.

        Returns:
            Their entries as they stand now.

        Raises:
            MachineError: There is no such entry, or it cannot be written.
        """
        if not pods:
            return ()
        with self._writing() as database:
            for name, pod in pods.items():
                values = _seen(pod, at) | ({} if account is None else {"account": account})
                places_ = ", ".join(f"{key} = ?" for key in values)
                database.execute(f"UPDATE machines SET {places_} WHERE name = ?", (*values.values(), name))
            return tuple(_read(database, name) for name in pods)

    def claim(self, name: str) -> bool:
        """Take a machine into this process's hands, to go on with getting it; False when another living process has it.

        Raises:
            MachineError: There is no such entry, or it cannot be written.
        """
        with self._writing() as database:
            entry = _read(database, name)
            if entry.held and entry.holder != _this_process():
                return False
            database.execute(
                "UPDATE machines SET holder = ?, machine = ? WHERE name = ?", (_this_process(), this_machine_id(), name)
            )
            return True

    def unclaim(self, name: str) -> None:
        """No process is getting the machine any more; whose it is does not change."""
        with self._writing() as database:
            database.execute("UPDATE machines SET holder = NULL WHERE name = ? AND holder = ?", (name, _this_process()))

    def get(self, name: str) -> PodRecord | None:
        """The machine that was ordered under that name, or has that id at its provider; None when there is none."""
        with self._reading() as database:
            if database is None:
                return None
            row = database.execute(
                f"{_select(database)} WHERE name = ? OR pod = ? ORDER BY name = ? DESC, created DESC LIMIT 1", (name, name, name)
            ).fetchone()
        return None if row is None else _owned(row)

    def owned(self, alive: bool = True) -> tuple[PodRecord, ...]:
        """The machines that may exist, the oldest first; with `alive` False also those that have ended."""
        states = sorted(OPEN_STATES)
        where = f"WHERE state IN ({', '.join('?' * len(states))})" if alive else ""
        with self._reading() as database:
            if database is None:
                return ()
            rows = database.execute(f"{_select(database)} {where} ORDER BY created, name", states if alive else ()).fetchall()
        return tuple(map(_owned, rows))

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        if not self.path.exists():
            yield None
            return
        with self._errors(), contextlib.closing(self._connect()) as database:
            yield None if database.execute("PRAGMA user_version").fetchone()[0] == 0 else database

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """The database in a transaction that is on the disk when this returns, or not kept at all."""
        with self._errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))  # SQLite gives its side files the same mode
            with contextlib.closing(self._connect(wal=True)) as database:
                database.execute("BEGIN IMMEDIATE")
                try:
                    _bring_up(database)
                    yield database
                except BaseException:
                    with contextlib.suppress(sqlite3.Error):  # a full disk may have rolled it back already
                        database.execute("ROLLBACK")
                    raise
                database.execute("COMMIT")

    def _connect(self, *, wal: bool = False) -> sqlite3.Connection:
        database = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw", timeout=self._patience, isolation_level=None, uri=True
        )
        try:
            if wal:
                database.execute("PRAGMA journal_mode = WAL").fetchone()  # where it cannot be, SQLite stays with its default
                database.execute("PRAGMA synchronous = FULL")  # what is written here must outlive the machine's own crash
            if database.execute("PRAGMA user_version").fetchone()[0] > _VERSION:
                raise MachineError(
                    "the list of rented machines was kept by a newer hudtui", fix="Update hudtui.", where=Location(str(self.path))
                )
        except BaseException:
            database.close()
            raise
        return database

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Failures of SQLite and of the disk in words."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            code = getattr(error, "sqlite_errorname", "")
            fix = "No machine is asked for until it can be written."
            if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
                fix = "Move it away, then look with `hudtui pods reconcile` for machines that it knew."
            raise MachineError(
                "the list of rented machines cannot be used", why=str(error), fix=fix, where=Location(str(self.path))
            ) from None


_COLUMNS = (
    *("name", "provider", "realm", "pod", "run", "workspace", "machine", "holder", "state", "hourly", "currency"),
    *("created", "updated", "ended", "billed", "why", "order_json", *_SINCE_2),
)


def _bring_up(database: sqlite3.Connection) -> None:
    """Make the table, or bring one of an older version up to date."""
    version = database.execute("PRAGMA user_version").fetchone()[0]
    if version == _VERSION:
        return
    if version == 0:
        for statement in filter(str.strip, _FIRST.split(";\n")):
            database.execute(statement)
    for name, kind in _SINCE_2.items():
        database.execute(f"ALTER TABLE machines ADD COLUMN {name} {kind}")
    database.execute(f"PRAGMA user_version = {_VERSION}")


def _select(database: sqlite3.Connection) -> str:
    """The columns of a table of any version; what an older one lacks is NULL."""
    old = database.execute("PRAGMA user_version").fetchone()[0] < _VERSION
    columns = (f"NULL AS {name}" if old and name in _SINCE_2 else name for name in _COLUMNS)
    return f"SELECT {', '.join(columns)} FROM machines"


def _owned(row: tuple[Any, ...]) -> PodRecord:
    known = dict(zip(_COLUMNS, row, strict=True))
    last = known.pop("last_json")
    unasked = bool(known.pop("unasked"))
    return PodRecord(order=json.loads(known.pop("order_json")), last=json.loads(last) if last else None, unasked=unasked, **known)


def _seen(pod: Pod, at: float) -> dict[str, Any]:
    """The columns that say what a provider told of a machine. A price that it does not tell changes nothing."""
    import msgspec

    told = {"seen": at, "last_json": msgspec.json.encode(pod).decode()}
    return told if pod.hourly is None else {**told, "hourly": pod.hourly}


def _read(database: sqlite3.Connection, name: str) -> PodRecord:
    row = database.execute(f"{_select(database)} WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise MachineError(f"no machine called {clean_line(name)} was ever asked for")
    return _owned(row)


def _grant(database: sqlite3.Connection, name: str, grant: Grant) -> PodRecord:
    rows = database.execute(f"{_select(database)} ORDER BY created, name").fetchall()
    until = grant(tuple(map(_owned, rows)))
    database.execute("UPDATE machines SET until = ? WHERE name = ?", (until, name))
    return _read(database, name)


@functools.cache
def this_machine_id() -> str:
    """What tells the machine that hudtui runs on from others, whatever its name is at the moment; its name where nothing does."""
    for path in (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id")):
        with contextlib.suppress(OSError):
            if found := path.read_text(encoding="utf-8", errors="replace").strip():
                # The id itself is not for others to know (machine-id(5)).
                return hashlib.sha256(f"hudtui {found} {_processes()}".encode()).hexdigest()[:16]
    return socket.gethostname()


def _processes() -> str:
    """Where process numbers mean something: containers of one image share the machine's id, and not their processes."""
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def _this_process() -> str:
    return _mark(os.getpid())


def _mark(pid: int) -> str:
    """A process, told from later ones of the same number by the moment it began, where the system says that."""
    began = ""
    with contextlib.suppress(OSError, IndexError):
        began = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    return f"{pid}:{began}"


def _alive(mark: str) -> bool:
    pid, _, _ = mark.partition(":")
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return _mark(int(pid)) == mark
