"""Files of trackers: whole, torn at every byte, damaged; tests/real/trackers.py has them from the
libraries themselves."""

from __future__ import annotations

import math
import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tracker_files import (
    TENSORBOARD,
    TENSORBOARDX,
    WANDB_CONFIG,
    WANDB_ENVIRONMENT,
    WANDB_HISTORY,
    WANDB_RUN,
    WANDB_STATS,
    field,
    history,
    trackio_file,
    wandb_file,
)

from hudtui.core.training import tracker_files
from hudtui.core.training.tracker_files import (
    EventsFile,
    Row,
    TooLong,
    TrackerFile,
    WandbFile,
    read_trackio,
    read_trainer_state,
    tracker_file,
    trackio_runs,
)


def joined(rows: list[Row]) -> dict[str, list[float]]:
    """The values of each name: where a file is cut between two values of a step, the step has two
    rows."""
    found: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            if name not in ("step", "time", "_step", "_timestamp"):
                found.setdefault(name, []).append(value)
    return found


def test_what_the_real_libraries_write() -> None:
    (row,) = WandbFile().feed(wandb_file([WANDB_HISTORY]))
    assert math.isnan(row.pop("kl"))
    assert row == {
        "_step": 6,
        "_timestamp": 1795422784.4430335,
        "train/reward": 0.21899553290626303,
        "loss": 0.125,
        "grad_norm": 0.001,
        "completions/mean_length": 7,
        "nested/a": 6,
    }
    (row,) = EventsFile().feed(TENSORBOARDX)
    assert row == {
        "step": 0,
        "time": 1795422786.0865054,
        "train/reward": 0.28049033880233765,
        "loss": 0.5,
    }
    assert [(row["step"], row["loss"]) for row in EventsFile().feed(TENSORBOARD)] == [
        (0, 1),
        (1, 0.5),
        (2, 0.3333333432674408),
    ]


RUN = wandb_file([history({"_step": n, "loss": n / 3, "note": "x" * (n * 700)}) for n in range(60)])


@pytest.mark.parametrize("whole", [TENSORBOARD, TENSORBOARDX, RUN[:70_000]])
def test_a_file_that_is_read_while_it_is_written(whole: bytes) -> None:
    at_once = joined(tracker_file("x.wandb", whole[:64]).feed(whole))  # type: ignore[union-attr]
    for size in (1, 7, 4096) if len(whole) < 5000 else (1023, 32768, 50_000):
        reader = tracker_file("x.wandb", whole[:64])
        assert reader is not None
        rows = [
            row for at in range(0, len(whole), size) for row in reader.feed(whole[at : at + size])
        ]
        assert joined(rows) == at_once and reader.damaged == 0 and rows


def test_damage_costs_what_is_damaged() -> None:
    for place in (100_000, 100_001, 200_000):
        reader = WandbFile()
        torn = RUN[:place] + bytes([RUN[place] ^ 1]) + RUN[place + 1 :]
        steps = [row["_step"] for row in reader.feed(torn)]
        assert (
            reader.damaged == 1 and steps[0] == 0 and steps[-1] == 59 and 55 <= len(steps) < 60
        ), steps
        assert reader.damage is not None
        byte, whole = reader.damage
        assert (
            place - 32768 < byte <= place and steps[whole - 1] == whole - 1 and steps[whole] > whole
        )
    value = TENSORBOARD.index(bytes.fromhex("0000003f"))
    reader = EventsFile()
    rows = reader.feed(TENSORBOARD[:value] + b"\1" + TENSORBOARD[value + 1 :])
    assert [row["step"] for row in rows] == [0, 2] and reader.damaged == 1
    reader = EventsFile()
    assert reader.feed(TENSORBOARDX + bytes(64)) and reader.damaged == 1  # a disk that was full
    assert reader.feed(TENSORBOARD) == [] and reader.damaged == 1


@settings(max_examples=60)
@given(
    st.lists(st.binary(max_size=200), max_size=5), st.sampled_from([b"", TENSORBOARD, RUN[:3000]])
)
def test_any_bytes_are_taken(pieces: list[bytes], head: bytes) -> None:
    for kind in (WandbFile, EventsFile):
        reader: TrackerFile = kind()
        reader.feed(head)
        for piece in pieces:
            reader.feed(piece)
    for row in WandbFile().feed(wandb_file(pieces)):
        assert row


def test_a_trackio_database(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    trackio_file(
        path,
        [
            ("first", 0, {"reward": 0.1}),
            (
                "second",
                0,
                {"reward": 0.5, "kl": "NaN", "inner": {"a": 1}, "text": {"_type": "x", "n": 1}},
            ),
        ],
    )
    trackio_file(path, [("first", 1, {"reward": 1e-300}), ("first", 2, {"reward": "Infinity"})])
    assert trackio_runs(path) == ["first", "second"]
    rows, last = read_trackio(path, "first", 0)
    assert [(row["step"], row["reward"]) for row in rows] == [(0, 0.1), (1, 1e-300), (2, math.inf)]
    assert rows[0]["timestamp"] == 1795422790.488935
    assert read_trackio(path, "first", last) == ([], last)
    ((row,), _) = read_trackio(path, "second", 0)
    assert row.keys() == {"reward", "kl", "inner/a", "step", "timestamp"} and math.isnan(row["kl"])
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(sqlite3.Error):
        trackio_runs(tmp_path / "other.db")


def test_a_database_whose_query_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker_files, "_SQL_SECONDS", 0.2)
    path = tmp_path / "p.db"
    for name in ("metrics", "Metrics"):  # SQLite takes them for the same
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as database:
            database.execute(
                f"CREATE VIEW {name} AS WITH RECURSIVE more(id) AS (SELECT 1 UNION ALL SELECT id + "
                "1 FROM more) SELECT id, 'run' AS run_name, 0 AS step, '' AS timestamp, '{}' AS "
                "metrics FROM more"
            )
        with pytest.raises(sqlite3.DatabaseError, match="its metrics are no table"):
            trackio_runs(path)
    path = tmp_path / "large.db"
    trackio_file(path, [("r", n, {"loss": n / 3, "text": "x" * 900}) for n in range(9000)])
    monkeypatch.setattr(tracker_files, "_SQL_SECONDS", 0.0)
    with pytest.raises(TooLong, match="takes longer to read than 0 seconds"):
        trackio_runs(path)
    with pytest.raises(TooLong, match="takes longer to read than 0 seconds"):
        read_trackio(path, "r", 0)


def test_a_value_that_is_longer_than_its_file(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE metrics (id INTEGER PRIMARY KEY, timestamp TEXT, run_name TEXT, step "
            "INTEGER, metrics TEXT AS (hex(zeroblob(20000000))) VIRTUAL); INSERT INTO metrics "
            "VALUES (1, '', 'r', 1)"
        )
        database.commit()
    assert path.stat().st_size < 20_000 and trackio_runs(path) == ["r"]
    with pytest.raises(sqlite3.DatabaseError, match="too big"):
        read_trackio(path, "r", 0)


ODD_ROWS = (
    ("step", "'12'"), ("step", "'twelve'"), ("step", "NULL"),
    ("step", "x'ff'"), ("step", "1e400"), ("step", "-9e999"),
    ("timestamp", "NULL"), ("timestamp", "'yesterday'"), ("timestamp", "x'ff00'"),
    ("timestamp", "1e300"), ("timestamp", "5"),
    ("metrics", "NULL"), ("metrics", "7"), ("metrics", "x'ff'"),
    ("metrics", "'[1]'"), ("metrics", "'{'"), ("metrics", "x'7b7d'"),
    ("run_name", "NULL"), ("run_name", "x'ff'"), ("run_name", "3"),
)  # fmt: skip


@pytest.mark.parametrize(("column", "value"), ODD_ROWS, ids=lambda one: str(one))
def test_a_database_with_odd_rows(tmp_path: Path, column: str, value: str) -> None:
    path = tmp_path / "p.db"
    trackio_file(path, [("r", n, {"loss": n / 3}) for n in range(3)])
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE free AS SELECT * FROM metrics; DROP TABLE metrics; ALTER TABLE free "
            f"RENAME TO metrics;UPDATE metrics SET {column} = {value} WHERE id = 2"
        )
        database.commit()
    assert "r" in trackio_runs(path)
    rows, last = read_trackio(path, "r", 0)
    assert last == 3 and [row["loss"] for row in rows if row.get("step") in (0, 2)] == [0, 2 / 3]
    assert all(isinstance(number, int | float) for row in rows for number in row.values())
    if (column, value) == ("step", "'12'"):
        assert rows[1]["step"] == 12


def test_the_state_of_a_trainer() -> None:
    state = (
        b'{"best_metric": null, "log_history": [{"loss": 0.5, "reward": NaN, "epoch": 0.1, '
        b'"step": 1}, 7, {"step": 2}]}'
    )
    first, second = read_trainer_state(state)
    assert (first["loss"], first["step"], second) == (0.5, 1, {"step": 2}) and math.isnan(
        first["reward"]
    )
    for torn in (state[:50], b"[]", b'{"log_history": 3}'):
        with pytest.raises(ValueError):
            read_trainer_state(torn)


def test_what_a_file_of_wandb_says_of_the_run() -> None:
    records = [WANDB_RUN, WANDB_STATS, WANDB_HISTORY, WANDB_CONFIG, WANDB_ENVIRONMENT, b"\x3a\x01"]
    file = WandbFile()
    rows = [row for byte in wandb_file(records) for row in file.feed(bytes([byte]))]
    assert len(rows) == 1 and file.damaged == 0
    assert file.load == [
        {"time": 1700000030.5, "gpu.0.gpu": 55.5, "gpu.1.gpu": 20, "cpu": 3.25},
    ]
    assert file.about["settings"] == {
        "lr": "1e-05",
        "model.name": "tiny",
        "model.layers": "4",
        "tags": '["a", "b"]',
        "optimizer.betas": "[0.9, 0.95]",
    }
    assert file.about["machine"] == {
        "project": "games",
        "run": "long",
        "host": "box",
        "system": "Linux-6",
        "Python": "CPython 3.11.7",
        "arguments": "--steps 9",
        "commit": "af07",
        "cores": "8",
        "GPU": "NVIDIA H100",
        "GPUs": "2",
        "memory": "64 GiB",
        "CPU": "EPYC",
    }


def test_values_of_one_name_that_differ_in_length() -> None:
    """Names are known by their bytes after the first item, whatever values follow."""
    values: list[object] = [1, 0.5, 10**120, "x" * 300, {"deep": {"er": 2}}, "NaN", None, True, -3]
    data = wandb_file(history({"_step": n, "a/b": value}) for n, value in enumerate(values))
    rows = WandbFile().feed(data)
    assert [row.get("a/b") for row in rows[:3]] == [1, 0.5, 10**120]
    assert rows[4] == {"_step": 4, "a/b/deep/er": 2} and math.isnan(rows[5]["a/b"])
    assert [row.keys() - {"_step"} for row in rows[6:]] == [set(), set(), {"a/b"}]


def test_what_a_program_with_wandb_prints() -> None:
    """Pieces of two streams are lines, of which a carriage return begins the newest again."""
    out = ("a ", "whole ", "line\n\n", "10%\r", "20%", "\r", "  done\nrest")
    records = [field(13, b"\x08\x01" + field(3, piece.encode())) for piece in out]
    records.insert(1, field(13, field(3, b"of stderr\n")))
    file = WandbFile()
    assert file.feed(wandb_file(records)) == []
    assert file.printed == ["of stderr", "a whole line", "  done"]


def test_a_record_of_a_million_empty_chunks_is_read_in_linear_time() -> None:
    """A chunk that looks at all before it makes that take hours."""

    def chunk(kind: int, data: bytes = b"") -> bytes:
        return struct.pack("<IHB", zlib.crc32(data, zlib.crc32(bytes([kind]))), len(data), kind)

    begin = b":W&B\0\0\0" + chunk(2)
    block, empty = 32 * 1024, chunk(3)
    first = begin + empty * ((block - len(begin)) // 7)
    rest = (empty * (block // 7)).ljust(block, b"\0") * 230
    reader = WandbFile()
    reader.feed(first.ljust(block, b"\0") + rest)
    last = chunk(4, WANDB_HISTORY) + WANDB_HISTORY
    assert reader.feed(last) and reader.damaged == 0


def test_a_record_of_megabytes_is_read_in_linear_time_and_left_out() -> None:
    """Each of the 20,000 pieces would copy all before it: that takes minutes."""
    after, record = TENSORBOARD[0x58:], bytes(60_000_000)
    reader = EventsFile()
    reader.feed(bytes.fromhex("00879303000000002973e682"))  # its length, and the sum of that
    for place in range(0, len(record), 3_000):
        assert reader.feed(record[place : place + 3_000]) == []
    assert reader.feed(b"\0\0\0\0" + after) and reader.damaged == 0
