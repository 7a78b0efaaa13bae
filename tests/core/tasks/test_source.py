"""Every dress that a task file comes in, and files that are not what they seem."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudtui.core.errors import InputError
from hudtui.core.tasks.read import SourceFile, find_source, read_tasks

Make = Callable[..., dict[str, Any]]


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    packed: bytes = out.getvalue().to_pybytes()
    return packed


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
@pytest.mark.parametrize("packing", [bytes, gzip.compress, zstd], ids=["plain", "gz", "zst"])
@pytest.mark.parametrize("form", ["array", "lines", "crlf", "pretty", "single"])
def test_encodings_packings_and_forms(
    tmp_path: Path, task: Make, encoding: str, packing: Callable[[bytes], bytes], form: str
) -> None:
    tasks = [task(id=f"t{number}", prompt=f"Größe 漢字 {number} 😀") for number in range(3)]
    if form == "single":
        tasks = tasks[:1]
        text = "\n" + json.dumps(tasks[0], indent=2, ensure_ascii=False)
    elif form in ("lines", "crlf"):
        text = ("\r\n" if form == "crlf" else "\n").join(
            json.dumps(one, ensure_ascii=False) for one in tasks
        )
    else:
        text = json.dumps(tasks, indent=1 if form == "pretty" else None, ensure_ascii=False)
    path = tmp_path / "tasks.bin"
    path.write_bytes(packing(text.encode(encoding)))
    read = read_tasks(path)
    assert read.problems == ()
    assert [(one.id, one.prompt) for one in read.tasks] == [
        (one["id"], one["prompt"]) for one in tasks
    ]


def test_a_file_of_many_blocks(tmp_path: Path, task: Make) -> None:
    tasks = [task(id=f"t{number}", prompt="é" * (number % 700)) for number in range(1, 5000)]
    for name, text in (
        ("a.json", json.dumps(tasks, ensure_ascii=False)),
        ("a.jsonl", "\n".join(map(json.dumps, tasks))),
    ):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        read = read_tasks(path)
        assert path.stat().st_size > 3 << 20
        assert [one.id for one in read.tasks] == [one["id"] for one in tasks if one["prompt"]]
        assert [problem.line for problem in read.problems] == (
            [None] * 0
            if not read.problems
            else [1 if name == "a.json" else problem.index + 1 for problem in read.problems]
        )
        assert len(read.problems) == sum(not one["prompt"] for one in tasks)


@pytest.mark.parametrize("packing", [gzip.compress, zstd])
def test_a_packed_file_that_is_cut_off(
    tmp_path: Path, task: Make, packing: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "t.jsonl.gz"
    path.write_bytes(
        packing(b"".join(json.dumps(task(id=str(n))).encode() + b"\n" for n in range(2000)))[:-20]
    )
    with pytest.raises(InputError, match="cut off"):
        read_tasks(path)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x1f\x8b" + b"\x07" * 30, "is damaged"),
        (b"PAR1garbagePAR1", "damaged"),
        ("[{".encode("utf-16") + b"\xd8", "UTF-16"),
        (b'[{"prompt": "\xff"}]', None),
    ],
)
def test_damaged_files(tmp_path: Path, data: bytes, words: str | None) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    if words is None:
        (problem,) = read_tasks(path).problems
        assert "UTF-8" in problem.message
    else:
        with pytest.raises(InputError, match=words):
            read_tasks(path)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, task: Make) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(json.dumps(task()) + "\n")
    with SourceFile(path, "t.jsonl") as reading:
        with path.open("a") as more:
            more.write(json.dumps(task(id="b")) + "\n")
        with pytest.raises(InputError, match="changed while it was read"):
            reading.text()
    with SourceFile(path, "t.jsonl") as reading:
        other = tmp_path / "other"
        other.write_bytes(path.read_bytes())
        os.replace(other, path)
        with pytest.raises(InputError, match="changed while it was read"):
            reading.text()


def test_what_is_meant_by_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "here").mkdir()
    assert find_source("org/here").kind == "folder"
    hub = find_source("hud-evals/2048-taskset@v1.0:test")
    assert (hub.kind, hub.repo, hub.revision, hub.split) == (
        "hub",
        "hud-evals/2048-taskset",
        "v1.0",
        "test",
    )
    assert find_source("org/name", split="x").split == "x"
    assert find_source("here", folder=tmp_path / "org").path == tmp_path / "org" / "here"
    for text in ("tasks.json", "data/tasks.jsonl.gz", "a/b/c", "none/", "../x"):
        with pytest.raises(InputError, match="no such file"):
            find_source(text)


class TestTables:
    @pytest.fixture
    def rows(self, task: Make) -> list[dict[str, Any]]:
        fields = ("mcp_config", "setup_tool", "evaluate_tool", "metadata")
        return [
            {
                **task(id=f"t{n}"),
                **{name: json.dumps(task()[name]) for name in fields},
                "extra": "7",
            }
            for n in range(3)
        ]

    def test_parquet_with_json_text(self, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
        path = tmp_path / "t.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        read = read_tasks(path)
        assert read.problems == () and [one.id for one in read.tasks] == ["t0", "t1", "t2"]
        assert read.tasks[0].evaluate[0].arguments["name"] == "max_number" and read.tasks[
            0
        ].extra == {"extra": "7"}

    def test_parquet_with_nested_data_has_a_null_for_every_foreign_key(
        self, tmp_path: Path, task: Make
    ) -> None:
        path = tmp_path / "t.parquet"
        local = {"local": {"command": "docker", "args": ["run", "x"]}}
        table = pa.Table.from_pylist([task(id=1), task(id=2, mcp_config=local, setup_tool=None)])
        assert table["mcp_config"][0].as_py()["local"] is None
        pq.write_table(table, path)
        read = read_tasks(path)
        assert [dict(one.mcp_config) for one in read.tasks] == [task()["mcp_config"], local]
        assert [one.id for one in read.tasks] == ["1", "2"] and read.tasks[1].setup == ()
        assert [problem.code for problem in read.problems] == ["id", "id"]

    def test_folders_that_datasets_saved(
        self, tmp_path: Path, rows: list[dict[str, Any]], no_network: None
    ) -> None:
        from datasets import Dataset, DatasetDict

        one = Dataset.from_list(rows)
        one.save_to_disk(tmp_path / "one")
        DatasetDict({"train": one, "test": one.select([1])}).save_to_disk(tmp_path / "several")
        assert len(read_tasks(tmp_path / "one").tasks) == 3
        assert len(read_tasks(tmp_path / "several").tasks) == 3
        assert [found.id for found in read_tasks(tmp_path / "several", split="test").tasks] == [
            "t1"
        ]
        with pytest.raises(InputError, match="no split 'dev'; there are train, test"):
            read_tasks(tmp_path / "several", split="dev")

    def test_folders_of_parquet(self, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
        data = tmp_path / "set" / "data"
        data.mkdir(parents=True)
        for number, row in enumerate(rows):
            pq.write_table(
                pa.Table.from_pylist([row]), data / f"train-{number:05d}-of-00003.parquet"
            )
        pq.write_table(pa.Table.from_pylist(rows[:1]), data / "test-00000-of-00001.parquet")
        assert [one.id for one in read_tasks(tmp_path / "set").tasks] == ["t0", "t1", "t2"]
        assert len(read_tasks(tmp_path / "set", split="test").tasks) == 1

    def test_a_folder_of_something_else(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("hello")
        with pytest.raises(InputError, match="no dataset"):
            read_tasks(tmp_path)

    def test_a_table_that_is_cut_off(self, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
        path = tmp_path / "t.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        path.write_bytes(path.read_bytes()[:-30])
        with pytest.raises(InputError, match="damaged or cut off"):
            read_tasks(path)

    def test_problems_in_a_table(self, tmp_path: Path, rows: list[dict[str, Any]]) -> None:
        path = tmp_path / "t.parquet"
        rows[1]["evaluate_tool"] = "{"
        pq.write_table(pa.Table.from_pylist(rows), path)
        read = read_tasks(path)
        assert [
            (problem.index, problem.line, problem.field, problem.code) for problem in read.problems
        ] == [(1, None, "evaluate_tool", "json")]
        assert [one.id for one in read.tasks] == ["t0", "t2"]


_FUZZ = """
import random, sys
from pathlib import Path
from hudtui.core.errors import InputError
from hudtui.core.tasks.read import read_tasks

base, made, form = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), sys.argv[3]
chance, refused = random.Random(4), 0
for _ in range(250):
    data = bytearray(base)
    for _ in range(chance.randint(1, 6)):
        first = 8 if chance.random() < 0.6 else max(8, len(data) - 1_500)
        place = chance.randrange(first, len(data))
        data[place] = chance.choice([0, 1, 127, 128, 255, chance.randrange(256)])
    made.write_bytes(data)
    try:
        read_tasks(made)
    except InputError:
        refused += 1
print(refused)
"""


@pytest.mark.parametrize("form", ["file", "stream", "parquet"])
def test_damaged_tables_are_refused_in_words(tmp_path: Path, form: str) -> None:
    """Offsets of an Arrow file that are followed unchecked end the process; names and texts need
    not be UTF-8."""
    configs = ['{"x": {"url": "https://a.example/mcp"}}'] * 400
    nested = pa.array([{"a": 1, "b": [1, 2]}] * 400)
    columns = {
        "id": [f"t{n}" for n in range(400)],
        "prompt": ["häuser"] * 400,
        "mcp_config": configs,
        "metadata": nested,
    }
    table = pa.table({**columns, "kind": pa.array(["x", "y"] * 200).dictionary_encode()})
    base = tmp_path / "base"
    if form == "parquet":
        pq.write_table(table, base, compression="none", use_dictionary=False)
    else:
        make = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with pa.OSFile(str(base), "wb") as file, make(file, table.schema) as writer:
            writer.write_table(table)
    command = [sys.executable, "-c", _FUZZ, str(base), str(tmp_path / "made"), form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 50
