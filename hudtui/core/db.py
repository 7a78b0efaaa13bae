"""SQLite files that several hudtui processes read and write at once.

The list of runs and the list of rented machines. Each transaction opens its own connection: a file
that is removed or replaced meanwhile is noticed, and no lock outlives its transaction. On an event
loop, `await database.run(store.method, ...)` runs a method of a store in the store's own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import functools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

from hudtui.core.errors import HudtuiError, Location
from hudtui.core.paths import private_folder

P = ParamSpec("P")
T = TypeVar("T")

_NO_SIDE_FILES = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_FULL")
"""SQLite cannot make its side files `-wal` and `-shm`: a read-only folder, or a full disk."""
_ROOM = 64 * 1024
"""Bytes that SQLite's side files take."""
_SETTLED = 0.1
"""Age in seconds from which the time of a file is another one after its next change: it advances
every few milliseconds."""


class Database:
    """One SQLite file.

    Args:
        path: The file. The first write makes it and its folder, readable by its owner alone;
            reading leaves no trace.
        title: What messages call it, such as `the list of runs`.
        version: Version of the schema (`PRAGMA user_version`); a file of another version is left
            alone.
        schema: The statements that make the tables, before the first write.
        error: The error to raise.
        damaged_fix: What a user can do when the file is damaged.
        fix: What a user can do about any other failure.
        make_folder: Makes the file's folder; by default with `mkdir`.
        patience: Seconds to wait while another process writes.
    """

    def __init__(
        self,
        path: Path,
        *,
        title: str,
        version: int,
        schema: str,
        error: type[HudtuiError],
        damaged_fix: str | None = None,
        fix: str | None = None,
        make_folder: Callable[[], object] | None = None,
        patience: float = 10.0,
    ) -> None:
        self.path = path
        self.patience = patience
        self._title, self._version, self._schema = title, version, schema
        self._error, self._damaged_fix, self._fix = error, damaged_fix, fix
        self._make_folder = make_folder or (lambda: private_folder(path.parent))

    def stamp(self) -> object:
        """Return what differs after every change of the file.

        None just after a change, when the next might leave it the same.
        """
        found = []
        for file in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            try:
                facts = file.stat()
            except OSError:
                continue
            if facts.st_size:  # an empty write-ahead log comes and goes with every reader
                found.append((facts.st_ino, facts.st_size, facts.st_mtime_ns))
        return tuple(found) if all(time.time() - at / 1e9 > _SETTLED for *_, at in found) else None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection | None]:
        """Open the file for reading; None if nothing was ever written to it.

        Raises:
            HudtuiError: The file cannot be read, as the error class of this database.
        """
        if not self.path.exists():
            yield None
            return
        with self._in_words(), contextlib.closing(self._open_to_read()) as connection:
            yield connection if _schema_version(connection) else None

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction for writing.

        On exit it is on the disk as a whole; on an exception nothing of it is kept.

        Raises:
            HudtuiError: The file cannot be written, as the error class of this database.
        """
        with self._in_words():
            try:
                self._make_folder()
                os.close(
                    os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                )  # side files get the same mode
            except OSError as error:
                raise self._failure(error, errno.errorcode.get(error.errno or 0, "")) from None
            with contextlib.closing(self._connect("mode=rw")) as connection:
                self._use_wal(connection)
                connection.execute(
                    "PRAGMA synchronous = FULL"
                )  # a commit must outlive a crash of the whole machine
                connection.execute("BEGIN IMMEDIATE")
                try:
                    if not _schema_version(connection):
                        _execute_all(connection, self._schema)
                        connection.execute(f"PRAGMA user_version = {self._version}")
                    yield connection
                except BaseException:
                    with contextlib.suppress(
                        sqlite3.Error
                    ):  # a full disk may have rolled it back already
                        connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")

    async def run(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a method of the store in the store's thread.

        Waiting for the disk or for a lock does not block the event loop.

        Work runs in the order of the calls. A cancelled caller is cancelled only after its work has
        ended, so that what follows finds the transaction either committed or rolled back.

        Returns:
            What `work(*args, **kwargs)` returns; its exceptions are raised here.
        """
        call = functools.partial(contextvars.copy_context().run, work, *args, **kwargs)
        future = asyncio.get_running_loop().run_in_executor(self._thread, call)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            while not future.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # marked as seen
            raise

    @functools.cached_property
    def _thread(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, thread_name_prefix=self.path.name)

    def _connect(self, how: str) -> sqlite3.Connection:
        address = f"{self.path.absolute().as_uri()}?{how}"
        connection = sqlite3.connect(address, timeout=self.patience, isolation_level=None, uri=True)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            if _schema_version(connection) not in (0, self._version):
                what = f"{self._title} was written by another version of hudtui"
                raise self._error(
                    what,
                    fix=self._damaged_fix or "Use that version.",
                    where=Location(str(self.path)),
                )
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Turn the write-ahead log on.

        The file stays as it is where the file system cannot have one.
        """
        deadline = time.monotonic() + self.patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                # SQLite answers "locked" at once, without its busy timeout, where several processes
                # do this to a new file.
                if (
                    not error.sqlite_errorname.startswith("SQLITE_BUSY")
                    or time.monotonic() > deadline
                ):
                    raise
                time.sleep(0.01)

    def _open_to_read(self) -> sqlite3.Connection:
        try:
            return self._connect("mode=rw")
        except sqlite3.OperationalError as error:
            # `immutable` ignores locks and the write-ahead log: right only for a file that no
            # process can be writing.
            waiting = self.path.with_name(f"{self.path.name}-wal")
            if not error.sqlite_errorname.startswith(_NO_SIDE_FILES) or (
                waiting.exists() and waiting.stat().st_size
            ):
                raise
            return self._connect("mode=ro&immutable=1")

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._failure(error, getattr(error, "sqlite_errorname", "")) from None

    def _failure(self, error: Exception, code: str) -> HudtuiError:
        what, fix = f"{self._title} cannot be used", self._fix
        if code in ("ENOSPC", "EDQUOT", "SQLITE_FULL") or (
            code.startswith("SQLITE_IOERR") and self._disk_is_full()
        ):
            what = f"the disk is full: {self._title} cannot be written, and is unchanged"
            fix = fix or "Free some space, then try again."
        elif code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            what, fix = (
                f"another program holds {self._title} for too long",
                "Close it, or try again.",
            )
        elif code.startswith(
            ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "EACCES", "EPERM", "EROFS")
        ):
            what = f"{self._title} cannot be written here"
        elif code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            what, fix = f"{self._title} is damaged", self._damaged_fix
        return self._error(what, why=str(error), fix=fix, where=Location(str(self.path)))

    def _disk_is_full(self) -> bool:
        try:
            room = os.statvfs(self.path.parent)
        except OSError:
            return False
        return room.f_bavail * room.f_frsize < _ROOM


def _schema_version(connection: sqlite3.Connection) -> int:
    """The version of the schema in a file; 0 for an empty one."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _execute_all(connection: sqlite3.Connection, statements: str) -> None:
    """Execute statements that each end with a semicolon at a line's end, without committing.

    `executescript` would commit.
    """
    for statement in filter(str.strip, statements.split(";\n")):
        connection.execute(statement)
