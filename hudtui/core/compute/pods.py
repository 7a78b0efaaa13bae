"""The ledger: the pods that this user has requested, for all workspaces.

Every pod is written down here before it is requested.
A record outlives every crash: the next start continues from there.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.provider import Provider
from hudtui.core.compute.values import Order, Pod, PodStage
from hudtui.core.db import Database
from hudtui.core.errors import InputError, MachineError
from hudtui.core.paths import app_paths
from hudtui.core.plain import from_plain, to_plain
from hudtui.core.process import is_running, is_this_machine, machine_id, process_mark
from hudtui.core.text import clean_line

P = ParamSpec("P")
T = TypeVar("T")

RecordState = Literal["intended", "created", "ready", "ending", "ended", "never"]
"""`intended`: it may have been asked for, and may exist; `created`: it exists; `ready`: a login has
succeeded; `ending`: its end was asked for and not yet verified; `ended`: it is gone; `never`: it
was never created.
"""

OPEN_STATES: frozenset[RecordState] = frozenset({"intended", "created", "ready", "ending"})
"""States in which it may exist, and so cost money."""

UNGUARDED = "no guard is on it"
"""`PodRecord.why` of a pod that is ready, was rented for no run, and has no guard yet."""

_VERSION = 3
_SCHEMA = """
CREATE TABLE machines (
    name TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    endpoint TEXT NOT NULL,
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
    order_json TEXT NOT NULL,
    seen REAL,
    last_json TEXT,
    until REAL,
    account TEXT,
    unasked INTEGER,
    charged_at REAL
) WITHOUT ROWID;
CREATE INDEX machines_by_state ON machines (state, created);
CREATE TABLE limits (name TEXT PRIMARY KEY, limits_json TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE strays (
    provider TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    pod TEXT NOT NULL,
    pod_json TEXT NOT NULL,
    seen REAL NOT NULL,
    PRIMARY KEY (provider, endpoint, pod)
) WITHOUT ROWID;
"""
_FACTS = frozenset(
    {
        "pod",
        "run",
        "workspace",
        "hourly",
        "currency",
        "ended",
        "billed",
        "why",
        "account",
        "unasked",
    }
)


@dataclass(frozen=True)
class PodRecord:
    """A machine that this user has asked for. Times are seconds since the epoch."""

    name: str
    """Unique: the name it was ordered under."""
    provider: str
    endpoint: str
    """Address of the provider's service: a simulator's pods are not the real one's."""
    pod: str | None
    """The provider's id of it; None until it is known."""
    run: str | None
    """The run that it is for; None for a pod that was rented by hand."""
    workspace: str | None
    """Folder of the project that the run belongs to."""
    machine: str
    """Which machine it was ordered from: see `process.machine_id`."""
    holder: str | None
    """The process that is getting it at the moment; see `held`."""
    state: RecordState
    hourly: float | None
    """Price an hour as it was ordered, then as the provider says."""
    currency: str
    """That of `hourly`: the offer's, then the one in which the provider charges."""
    created: float
    """When it was written down, just before it was asked for."""
    updated: float
    ended: float | None
    billed: float | None
    """What it has cost in all, where the provider said so."""
    why: str | None
    """How it came to the state it is in, in words: why it was ended, or why nothing came of it."""
    order: Order | None = None
    """What was ordered; `Offer.kept` of the offer. None if it cannot be read: another version wrote
    it."""
    seen: float | None = None
    """When its provider said last that it is alive; None: it never did."""
    last: Mapping[str, Any] | None = field(default=None, hash=False)
    """The machine as its provider told of it then; see `last_pod`."""
    until: float | None = None
    """When its guard ends it by its limits; None: never, or nothing is known of a guard."""
    account: str | None = None
    """Whose money it was rented with, as the provider names the account; None where that was not
    known."""
    unasked: bool = False
    """It ended without being asked to: it was taken back, or its provider ended it; `why` says what
    is known of that."""

    charged_at: float | None = None
    """When its provider said last what it has cost so far; `last_pod` has the amount. None: it
    never did."""
    stray: bool = False
    """It lives at the provider, and was not ordered here, or is recorded as ended; see
    `stray_record`."""

    def last_pod(self) -> Pod:
        """The machine as it was known last.

        As its provider told of it, else as it was ordered (stage `unknown`).
        """
        if self.last is not None:
            try:
                pod = from_plain(dict(self.last), Pod)
            except InputError:
                pass  # of a version with other fields
            else:
                return pod if self.open else replace(pod, stage="gone")
        stage: PodStage = "unknown" if self.open else "gone"
        pod = Pod(
            self.provider,
            self.pod or "",
            self.name,
            stage,
            status=self.state,
            hourly=self.hourly,
            currency=self.currency,
            created=self.created,
        )
        if self.order is None:
            return pod
        offer = self.order.offer
        return replace(
            pod,
            gpu_type=offer.gpu_type,
            gpu_count=offer.gpu_count,
            cloud=offer.cloud,
            region=offer.region,
            spot=offer.spot,
        )

    @property
    def by_hand(self) -> bool:
        """It was rented for no run, and the user was told that it is ready.

        It is theirs until they or its limits end it.
        It stays claimed until then; the claim of a process that was killed before is left.
        """
        return self.run is None and self.state == "ready" and self.holder is None

    @property
    def open(self) -> bool:
        """It may exist, and cost money."""
        return self.state in OPEN_STATES

    @property
    def held(self) -> bool:
        """A living process on this machine prepares it."""
        return self.holder is not None and is_this_machine(self.machine) and is_running(self.holder)

    def is_at(self, provider: Provider) -> bool:
        """It was requested from that very service.

        A simulator's pods are not the real one's, nor another simulator's.
        """
        return self.provider == provider.name and self.endpoint in ("", provider.endpoint)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        order = None if self.order is None else to_plain(self.order)
        return {
            **vars(self),
            "order": order,
            "last": dict(self.last) if self.last else None,
            "held": self.held,
        }


Grant = Callable[[Sequence[PodRecord]], float | None]
"""Says of all entries until when a machine may live, in seconds since the epoch (None: for ever),
or raises; see `budget`."""


class Ledger:
    """The pods of this user, as rows of a SQLite file. Any number of processes may use it at once.

    The methods wait for the disk and for other processes that write. On an event loop:
    `await ledger.run(ledger.update, ...)`. All of them raise `MachineError` if the file cannot be
    used. `path` is the user's own file by default. The first entry makes it, readable by its owner
    alone. `patience`: seconds to wait for another process that writes.
    """

    def __init__(self, path: Path | None = None, *, patience: float = 10.0) -> None:
        self.path = path or app_paths().data / "pods.db"
        self._database = Database(
            self.path,
            title="the list of rented machines",
            version=_VERSION,
            schema=_SCHEMA,
            error=MachineError,
            damaged_fix=(
                "Move it away, then look with `hudtui pods reconcile` for machines that it knew."
            ),
            fix="No machine is asked for until it can be written.",
            patience=patience,
        )

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method in the ledger's thread.

        A cancelled caller is cancelled after the method has ended. See `Database.run`.
        """
        return await self._database.run(work, *args, **kwargs)

    def reserve(
        self,
        order: Order,
        *,
        provider: str,
        endpoint: str = "",
        run: str | None = None,
        workspace: Path | str | None = None,
        account: str | None = None,
        limits: Limits | None = None,
        grant: Grant | None = None,
    ) -> PodRecord:
        """Add the record of a pod that is about to be requested, claimed by this process.

        `endpoint` is the address of the provider's service, and `account` the provider's name of
        the paying account. `grant` says until when the pod may live. It is called inside the
        transaction, so that of two launches at the same moment the second one knows of the first.
        If it raises, nothing is written.

        Raises:
            InputError: A record of that name exists: names are used once.
            MachineError: The record cannot be written, and so nothing may be requested.
        """
        now, price = time.time(), order.offer.price
        values = {
            "name": order.name,
            "provider": provider,
            "endpoint": endpoint,
            "run": run,
            "workspace": None if workspace is None else str(workspace),
            "machine": machine_id(),
            "holder": process_mark(),
            "state": "intended",
            "hourly": price.hourly if price.stated else None,
            "currency": price.currency,
            "created": now,
            "updated": now,
            "account": account,
            "order_json": json.dumps(to_plain(replace(order, offer=order.offer.kept))),
        }
        with self._database.writing() as database:
            try:
                database.execute(
                    f"INSERT INTO machines ({', '.join(values)}) VALUES "
                    f"({', '.join('?' * len(values))})",
                    tuple(values.values()),
                )
            except sqlite3.IntegrityError:
                raise InputError(
                    f"the name {clean_line(order.name)} is already used: an earlier machine has it",
                    fix="Choose another name: each is used once.",
                ) from None
            if limits is not None:
                _set_limits(database, order.name, limits.to_json())
            return (
                _read(database, order.name)
                if grant is None
                else _grant(database, order.name, grant)
            )

    def grant(self, name: str, grant: Grant, *, limits: Limits | None = None) -> PodRecord:
        """Decide again until when a pod may live, under new limits or those that it has.

        See `reserve`.

        Raises:
            MachineError: There is no such record, or the ledger cannot be written; the limits are
                as before.
        """
        with self._database.writing() as database:
            if limits is not None:
                _set_limits(database, name, limits.to_json())
            return _grant(database, name, grant)

    def keep_strays(self, provider: Provider, pods: Iterable[Pod], at: float) -> None:
        """Replace what is known of a provider's pods that cost money without an open record.

        Args:
            provider: The provider that listed its pods.
            pods: Those that live, bear a name of hudtui's, and have no open record.
            at: The time of that list, in seconds since the epoch.
        """
        service = (provider.name, provider.endpoint)
        rows = [(*service, pod.id, json.dumps(to_plain(pod)), at) for pod in pods]
        if not rows and not self._has_strays(service):
            return
        with self._database.writing() as database:
            database.execute("DELETE FROM strays WHERE provider = ? AND endpoint = ?", service)
            database.executemany("INSERT OR REPLACE INTO strays VALUES (?, ?, ?, ?, ?)", rows)

    def _has_strays(self, service: tuple[str, str]) -> bool:
        select = "SELECT 1 FROM strays WHERE provider = ? AND endpoint = ?"
        with self._database.reading() as database:
            return database is not None and database.execute(select, service).fetchone() is not None

    def costing(self) -> tuple[PodRecord, ...]:
        """Return every record that a sum of money counts: all of the ledger's, and strays."""
        with self._database.reading() as database:
            return () if database is None else _costing(database)

    def limits(self, name: str) -> Limits | None:
        """What the pod of that name may cost; None if no limits were set or they cannot be read."""
        with self._database.reading() as database:
            if database is None:
                return None
            row = database.execute(
                "SELECT limits_json FROM limits WHERE name = ?", (name,)
            ).fetchone()
        try:
            return None if row is None else Limits.from_json(json.loads(row[0]))
        except (TypeError, AttributeError, InputError):
            return None

    def set_limits(self, name: str, limits: Limits) -> None:
        """Set what the pod of that name may cost; the pod may be reserved later."""
        with self._database.writing() as database:
            _set_limits(database, name, limits.to_json())

    def update(
        self, name: str, state: RecordState | None = None, *, last: Pod | None = None, **facts: Any
    ) -> PodRecord:
        """Write down what became of a pod.

        A pod in state `ended` stays so, unless it turns out to exist: `ending` is always accepted.
        A pod in state `never` may turn out to have been created. The `facts` are any of pod, run,
        workspace, hourly, currency, ended, billed, why, account and unasked. None keeps a value.
        `last` is the pod as its provider described it just now.

        Raises:
            MachineError: There is no such record.
        """
        unknown = set(facts) - _FACTS
        if unknown:
            raise TypeError(f"a machine has no {', '.join(sorted(unknown))}")
        values = {key: value for key, value in facts.items() if value is not None}
        with self._database.writing() as database:
            before = _read(database, name)
            if last is not None:
                values |= _seen(before, last, time.time())
            if state is not None and (before.state != "ended" or state in ("ending", "ended")):
                values["state"] = state
                if state in ("ended", "never"):
                    values.setdefault("ended", before.ended or time.time())
                    values["holder"] = None
            return _update(database, name, {**values, "updated": time.time()})

    def update_seen(
        self, pods: Mapping[str, Pod], at: float, account: str | None = None
    ) -> tuple[PodRecord, ...]:
        """Keep what providers said of living pods, for the time when they do not answer.

        `pods` has the pods by the name that each was ordered under; `at` is when the providers said
        so. None keeps the account.

        Raises:
            MachineError: There is no such record.
        """
        if not pods:
            return ()
        more = {} if account is None else {"account": account}
        with self._database.writing() as database:
            return tuple(
                _update(database, name, {**_seen(_read(database, name), pod, at), **more})
                for name, pod in pods.items()
            )

    def claim(self, name: str) -> bool:
        """Claim a pod for this process, which continues preparing it.

        Returns False if another living process prepares it.

        Raises:
            MachineError: There is no such record.
        """
        with self._database.writing() as database:
            record = _read(database, name)
            if record.held and record.holder != process_mark():
                return False
            _update(database, name, {"holder": process_mark(), "machine": machine_id()})
            return True

    def unclaim(self, name: str) -> None:
        """This process no longer prepares the pod; the owner of the pod does not change."""
        with self._database.writing() as database:
            database.execute(
                "UPDATE machines SET holder = NULL WHERE name = ? AND holder = ?",
                (name, process_mark()),
            )

    def get(self, name: str) -> PodRecord | None:
        """The record of a pod, by the name it was ordered under or by its provider's id.

        None if there is none.
        """
        with self._database.reading() as database:
            if database is None:
                return None
            row = database.execute(
                f"{_SELECT} WHERE name = ? OR pod = ? ORDER BY name = ? DESC, created DESC LIMIT 1",
                (name, name, name),
            ).fetchone()
        return None if row is None else _record(row)

    def record_of(self, pod: Pod, provider: Provider) -> PodRecord | None:
        """The record of a provider's pod.

        None for another pod with the same name, or the same id at another service.
        """
        found = (self.get(key) for key in (pod.name, pod.id) if key)
        return next(
            (
                one
                for one in found
                if one and one.is_at(provider) and (not pod.id or one.pod in (None, pod.id))
            ),
            None,
        )

    def records(self, alive: bool = True) -> tuple[PodRecord, ...]:
        """The pods that may exist, the oldest first.

        With `alive` False also those that have ended.
        """
        states = sorted(OPEN_STATES)
        where = f"WHERE state IN ({', '.join('?' * len(states))})" if alive else ""
        with self._database.reading() as database:
            if database is None:
                return ()
            rows = database.execute(
                f"{_SELECT} {where} ORDER BY created, name", states if alive else ()
            ).fetchall()
        return tuple(map(_record, rows))


_COLUMNS = (
    *(
        "name",
        "provider",
        "endpoint",
        "pod",
        "run",
        "workspace",
        "machine",
        "holder",
        "state",
        "hourly",
        "currency",
    ),
    *("created", "updated", "ended", "billed", "why", "order_json"),
    *("seen", "last_json", "until", "account", "unasked", "charged_at"),
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM machines"


def _set_limits(database: sqlite3.Connection, name: str, data: Any) -> None:
    database.execute("INSERT OR REPLACE INTO limits VALUES (?, ?)", (name, json.dumps(data)))


def _record(row: tuple[Any, ...]) -> PodRecord:
    known = dict(zip(_COLUMNS, row, strict=True))
    last = known.pop("last_json")
    unasked = bool(known.pop("unasked"))
    return PodRecord(
        order=_order(known.pop("order_json")),
        last=json.loads(last) if last else None,
        unasked=unasked,
        **known,
    )


def _order(text: str) -> Order | None:
    try:
        return from_plain(json.loads(text), Order)
    except (InputError, ValueError):
        return None  # of a version with other fields


def price_facts(pod: Pod) -> dict[str, Any]:
    """Return the price of a pod as facts for `Ledger.update`.

    Empty where the provider does not tell it.
    """
    return {} if pod.hourly is None else {"hourly": pod.hourly, "currency": pod.currency}


def _seen(before: PodRecord, pod: Pod, at: float) -> dict[str, Any]:
    """The columns that say what a provider told of a machine.

    A price or a charge that it does not tell changes nothing.
    """
    facts = {"seen": at, **price_facts(pod)}
    if pod.billed is not None:
        facts["charged_at"] = at
    elif before.charged_at is not None:
        known = before.last_pod()
        pod = replace(pod, billed=known.billed, estimated=known.estimated)
    return {**facts, "last_json": json.dumps(to_plain(pod))}


def _read(database: sqlite3.Connection, name: str) -> PodRecord:
    row = database.execute(f"{_SELECT} WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise MachineError(f"no machine called {clean_line(name)} was ever requested")
    return _record(row)


def _grant(database: sqlite3.Connection, name: str, grant: Grant) -> PodRecord:
    return _update(database, name, {"until": grant(_costing(database))})


def stray_record(pod: Pod, provider: str, endpoint: str, seen: float) -> PodRecord:
    """Return the record of a living pod that the ledger does not know as alive.

    `seen` is the time at which its provider listed it.
    """
    return PodRecord(
        name=pod.name,
        provider=provider,
        endpoint=endpoint,
        pod=pod.id,
        run=None,
        workspace=None,
        machine="",
        holder=None,
        state="ready",
        hourly=pod.hourly,
        currency=pod.currency,
        created=seen if pod.created is None else pod.created,
        updated=seen,
        ended=None,
        billed=None,
        why=None,
        seen=seen,
        last=to_plain(pod),
        charged_at=None if pod.billed is None else seen,
        stray=True,
    )


def _costing(database: sqlite3.Connection) -> tuple[PodRecord, ...]:
    """All records and the strays; of a pod that is both, the one that is newer or open."""
    rows = database.execute(f"{_SELECT} ORDER BY created, name").fetchall()
    records = tuple(map(_record, rows))
    strays = _strays(database)
    over = {
        stray.name
        for stray in strays
        if any(_same_pod(one, stray) and _outlasts(one, stray) for one in records)
    }
    strays = tuple(stray for stray in strays if stray.name not in over)
    known = [one for one in records if not any(_same_pod(one, stray) for stray in strays)]
    return (*known, *strays)


def _outlasts(one: PodRecord, stray: PodRecord) -> bool:
    """Return whether a record says more of its pod than the last list in which that was a stray."""
    return one.open or one.updated > stray.updated


def _same_pod(one: PodRecord, stray: PodRecord) -> bool:
    if one.provider != stray.provider or one.endpoint not in ("", stray.endpoint):
        return False
    return one.name == stray.name if one.pod is None else one.pod == stray.pod


def _strays(database: sqlite3.Connection) -> tuple[PodRecord, ...]:
    rows = database.execute("SELECT pod_json, provider, endpoint, seen FROM strays ORDER BY pod")
    strays = []
    for text, provider, endpoint, seen in rows.fetchall():
        with contextlib.suppress(InputError, ValueError):  # of a version with other fields
            pod = from_plain(json.loads(text), Pod)
            strays.append(stray_record(pod, provider, endpoint, seen))
    return tuple(strays)


def _update(database: sqlite3.Connection, name: str, values: Mapping[str, Any]) -> PodRecord:
    assignments = ", ".join(f"{key} = ?" for key in values)
    database.execute(f"UPDATE machines SET {assignments} WHERE name = ?", (*values.values(), name))
    return _read(database, name)
