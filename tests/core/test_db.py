"""The SQLite files: transactions, versions, failures in words, and work off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from hudtui.core.db import Database
from hudtui.core.errors import RunError

SCHEMA = """
CREATE TABLE notes (text TEXT PRIMARY KEY);
CREATE INDEX by_text ON notes (text);
"""


def open_notes(path: Path, *, version: int = 2, patience: float = 10.0) -> Database:
    return Database(
        path,
        title="the list of notes",
        version=version,
        schema=SCHEMA,
        error=RunError,
        damaged_fix="Move it away.",
        patience=patience,
    )


@pytest.fixture
def notes(tmp_path: Path) -> Database:
    return open_notes(tmp_path / "folder" / "notes.db")


def add(notes: Database, text: str) -> None:
    with notes.writing() as connection:
        connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def texts(notes: Database) -> list[str]:
    with notes.reading() as connection:
        return (
            []
            if connection is None
            else [row[0] for row in connection.execute("SELECT text FROM notes ORDER BY text")]
        )


def test_the_first_write_makes_the_file_for_its_owner_alone(notes: Database) -> None:
    assert texts(notes) == [] and not notes.path.parent.exists(), "reading leaves no trace"
    add(notes, "a")
    assert texts(notes) == ["a"] and notes.path.stat().st_mode & 0o777 == 0o600


def test_an_empty_file_holds_nothing_yet(notes: Database) -> None:
    notes.path.parent.mkdir()
    notes.path.touch()
    assert texts(notes) == []
    add(notes, "a")
    assert texts(notes) == ["a"]


def test_a_transaction_is_kept_as_a_whole_or_not_at_all(notes: Database) -> None:
    with pytest.raises(ZeroDivisionError), notes.writing() as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('a')")
        _ = 1 / 0
    with notes.reading() as connection:
        assert connection is None, "not even the tables"
    add(notes, "a")
    with pytest.raises(RunError, match="the list of notes cannot be used"):
        add(notes, "a")
    assert texts(notes) == ["a"]


def test_a_file_of_another_version_is_left_alone(notes: Database) -> None:
    add(notes, "a")
    for version in (1, 3):
        other = open_notes(notes.path, version=version)
        for use in (texts, lambda database: add(database, "b")):
            with pytest.raises(
                RunError, match="the list of notes was written by another version of hudtui"
            ):
                use(other)
    assert texts(notes) == ["a"]


def test_a_damaged_file(notes: Database) -> None:
    notes.path.parent.mkdir()
    notes.path.write_bytes(b"this is not a database, whatever its name says " * 40)
    with pytest.raises(RunError, match="the list of notes is damaged") as caught:
        texts(notes)
    assert caught.value.fix == "Move it away." and str(notes.path) in str(caught.value)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="the list of notes cannot be used"):
        add(open_notes(tmp_path / "file" / "notes.db"), "a")


def test_a_lock_of_another_program(notes: Database) -> None:
    add(notes, "a")
    impatient = open_notes(notes.path, patience=0.1)
    with contextlib.closing(sqlite3.connect(notes.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert texts(impatient) == ["a"], "readers do not wait"
        with pytest.raises(RunError, match="another program holds the list of notes"):
            add(impatient, "b")


def test_a_new_file_that_another_program_is_writing_is_waited_for(notes: Database) -> None:
    notes.path.parent.mkdir()
    with contextlib.closing(
        sqlite3.connect(notes.path, isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")  # before anyone has turned the write-ahead log on
        done = threading.Timer(0.3, other.execute, ["COMMIT"])
        done.start()
        add(notes, "a")
        done.join()
    assert texts(notes) == ["a"]


def test_a_locked_file_is_not_read_as_if_it_were_frozen(notes: Database) -> None:
    add(notes, "a")
    with contextlib.closing(sqlite3.connect(notes.path, isolation_level=None)) as other:
        other.execute(
            "PRAGMA journal_mode = DELETE"
        ).fetchone()  # as on a file system without shared memory
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(RunError, match="another program holds the list of notes"):
            texts(open_notes(notes.path, patience=0.1))


@pytest.mark.parametrize(
    "code", ["SQLITE_READONLY_DIRECTORY", "SQLITE_CANTOPEN", "SQLITE_IOERR_SHMOPEN"]
)
def test_a_file_whose_side_files_cannot_be_made_is_read_only_when_no_log_waits(
    notes: Database, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    add(notes, "a")
    connect = notes._connect

    def refuse(how: str) -> sqlite3.Connection:
        if how == "mode=rw":
            error = sqlite3.OperationalError("no side files")
            error.sqlite_errorname = code
            raise error
        return connect(how)

    monkeypatch.setattr(notes, "_connect", refuse)
    assert texts(notes) == ["a"]
    notes.path.with_name("notes.db-wal").write_bytes(b"something that is not in the file yet")
    with pytest.raises(RunError):
        texts(notes)


def test_a_full_disk(notes: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    add(notes, "a")
    connect = notes._connect

    def small(how: str) -> sqlite3.Connection:
        connection = connect(how)
        connection.execute(
            f"PRAGMA max_page_count = {connection.execute('PRAGMA page_count').fetchone()[0]}"
        )
        return connection

    monkeypatch.setattr(notes, "_connect", small)
    with pytest.raises(
        RunError, match="the disk is full: the list of notes cannot be written"
    ) as caught:
        add(notes, "x" * 100_000)
    assert caught.value.fix == "Free some space, then try again."
    monkeypatch.undo()
    assert texts(notes) == ["a"]


async def test_work_runs_off_the_event_loop_in_its_order(notes: Database) -> None:
    async def count() -> int:
        turns = 0
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                turns += 1
                await asyncio.sleep(0.01)
        return turns

    add(notes, "first")
    ticking = asyncio.create_task(count())
    with contextlib.closing(sqlite3.connect(notes.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writers = [asyncio.create_task(notes.run(add, notes, text)) for text in "abc"]
        await asyncio.sleep(0.3)
        assert not any(writer.done() for writer in writers)
        other.execute("ROLLBACK")
    await asyncio.gather(*writers)
    ticking.cancel()
    assert await ticking > 5, "the loop went on while a transaction waited for the lock"
    assert texts(notes) == ["a", "b", "c", "first"]
    assert await notes.run(threading.get_ident) not in (threading.get_ident(), None)
    assert await notes.run(threading.get_ident) == await notes.run(threading.get_ident), (
        "one thread"
    )


async def test_errors_of_work_are_raised_where_it_was_asked_for(notes: Database) -> None:
    await notes.run(add, notes, "a")
    with pytest.raises(RunError, match="cannot be used"):
        await notes.run(add, notes, "a")


async def test_a_cancelled_caller_leaves_only_when_its_transaction_has_ended(
    notes: Database,
) -> None:
    begun = threading.Event()

    def slow() -> None:
        with notes.writing() as connection:
            begun.set()
            time.sleep(0.3)
            connection.execute("INSERT INTO notes (text) VALUES ('kept')")

    caller = asyncio.create_task(notes.run(slow))
    await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0.01)
    assert not caller.done()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert texts(notes) == ["kept"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EPERM, errno.EROFS])
def test_a_folder_that_may_not_be_written(
    notes: Database, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(
        os, "open", refuse
    )  # the superuser, whom tests may run as, may write into every folder
    with pytest.raises(RunError, match="cannot be written here"):
        add(notes, "a")
    monkeypatch.undo()
    assert texts(notes) == []
