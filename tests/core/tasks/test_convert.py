"""Tasks become datasets: the right rows in the right form, all or nothing, and repeatably."""

from __future__ import annotations

import gc
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
from hudtui.core.events import iterate_in_thread
from hudtui.core.tasks import write as write_module
from hudtui.core.tasks.convert import ConversionResult, TaskErrors, convert
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.read import find_source, read_tasks
from hudtui.core.tasks.validate import Rules
from hudtui.core.tasks.write import Target

Make = Callable[..., dict[str, Any]]
Write = Callable[..., Path]
COLUMNS = ["id", "prompt", "mcp_config", "setup_tool", "evaluate_tool", "metadata"]


def run(source: Path, *targets: Target, strict: bool = False, **more: Any) -> ConversionResult:
    *_, last = convert(find_source(source), Rules(strict=strict), targets, **more)
    assert isinstance(last, ConversionResult)
    return last


def entries(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def test_the_dataset_format_of_the_seeds(write: Write, task: Make, tmp_path: Path) -> None:
    path = write("t.json", task(), task(id="b", setup_tool=..., metadata=...), indent=2)
    found = run(path, Target(tmp_path / "o.parquet", "parquet"))
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.schema.names == COLUMNS and set(map(str, table.schema.types)) == {"string"}
    first, second = table.to_pylist()
    good = task()
    assert {name: json.loads(first[name]) for name in COLUMNS[2:]} == {
        name: good[name] for name in COLUMNS[2:]
    }
    assert (second["id"], second["setup_tool"], second["metadata"]) == ("b", "{}", "{}")
    assert (found.total, found.valid, found.written, found.files) == (
        2,
        2,
        {"train": 2},
        ((tmp_path / "o.parquet",),),
    )
    assert entries(tmp_path) == ["o.parquet", "t.json"]


@pytest.mark.parametrize(
    "form", ["parquet", "jsonl", "dataset", "json", "tasks-jsonl", "repository"]
)
def test_every_form_comes_back_as_the_same_tasks(
    write: Write, task: Make, tmp_path: Path, form: Any
) -> None:
    tasks = [
        task(
            id=str(n),
            prompt="é\n" * (n + 1),
            system_prompt="brief",
            agent_config={"n": n},
            mixed=["x", 1, None, "7"][n % 4],
        )
        for n in range(9)
    ]
    path = write("t.jsonl", *tasks)
    target = tmp_path / {
        "parquet": "o.parquet",
        "json": "o.json",
        "jsonl": "o.jsonl",
        "tasks-jsonl": "o.jsonl",
    }.get(form, "o")
    run(path, Target(target, form))
    read = read_tasks(target)
    assert read.problems == ()
    for one, before in zip(read.tasks, read_tasks(path).tasks, strict=True):
        extra = {key: value for key, value in before.extra.items() if value is not None}
        assert (one.id, one.prompt, one.mcp_config, one.setup, one.evaluate, one.metadata) == (
            before.id, before.prompt, before.mcp_config,
            before.setup, before.evaluate, before.metadata,
        )  # fmt: skip
        if form == "jsonl":  # a line has no place for the mark that a text is JSON
            extra["agent_config"] = json.dumps(extra["agent_config"], separators=(",", ":"))
            mixed = {"mixed": json.loads(one.extra["mixed"])} if "mixed" in one.extra else {}
            assert extra == {**one.extra, **mixed}
        else:
            assert one.extra == extra


def test_datasets_loads_what_is_written(
    write: Write, task: Make, tmp_path: Path, no_network: None
) -> None:
    from datasets import load_dataset, load_from_disk

    path = write("t.json", *(task(id=str(n), weight=n) for n in range(10)))
    split = TaskSelection(test=0.2)
    run(path, Target(tmp_path / "o.parquet", "parquet"), Target(tmp_path / "o.jsonl", "jsonl"))
    run(path, Target(tmp_path / "saved", "dataset"))
    run(
        path,
        Target(tmp_path / "both", "dataset"),
        Target(tmp_path / "set", "parquet"),
        selection=split,
    )
    run(path, Target(tmp_path / "repo", "repository"), selection=split)
    cache = str(tmp_path / "cache")
    one = load_dataset(
        "parquet", data_files=str(tmp_path / "o.parquet"), split="train", cache_dir=cache
    )
    lines = load_dataset(
        "json", data_files=str(tmp_path / "o.jsonl"), split="train", cache_dir=cache
    )
    assert (
        one.column_names == lines.column_names == [*COLUMNS, "weight"]
        and one.to_list() == lines.to_list()
    )
    assert load_from_disk(str(tmp_path / "saved")).to_list() == one.to_list()
    for found in (
        load_from_disk(str(tmp_path / "both")),
        load_dataset(str(tmp_path / "set"), cache_dir=cache),
        load_dataset(str(tmp_path / "repo"), cache_dir=cache),
    ):
        assert (found["train"].num_rows, found["test"].num_rows) == (8, 2)
        assert sorted([*found["train"]["id"], *found["test"]["id"]]) == sorted(map(str, range(10)))


def test_fields_that_turn_up_late(write: Write, task: Make, tmp_path: Path) -> None:
    tasks = [task(id=str(n), prompt="p" * 1000) for n in range(4000)]
    tasks[-1]["late"] = "x"
    tasks[0]["text"], tasks[-2]["text"] = "x", {"no": "text"}
    run(write("t.jsonl", *tasks), Target(tmp_path / "o.parquet", "parquet"))
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.schema.names == [*COLUMNS, "text", "late"]
    assert (
        table["late"].to_pylist()[-2:] == [None, "x"]
        and table["text"].to_pylist()[-2] == '{"no":"text"}'
    )
    assert read_tasks(tmp_path / "o.parquet").tasks[-2].extra == {"text": {"no": "text"}}


class TestSelection:
    @pytest.fixture
    def path(self, write: Write, task: Make) -> Path:
        return write(
            "t.jsonl",
            *(
                task(id=f"t{n}", metadata={"n": n, "kind": "odd" if n % 2 else "even"})
                for n in range(200)
            ),
        )

    def ids(self, path: Path, tmp_path: Path, **more: Any) -> tuple[list[str], list[str]]:
        selection = TaskSelection(**more)
        run(
            path,
            Target(tmp_path / "o", "parquet" if more.get("test") else "dataset"),
            selection=selection,
        )
        train = [one.id for one in read_tasks(tmp_path / "o", split="train").tasks]
        return train, [
            one.id for one in read_tasks(tmp_path / "o", split="test").tasks
        ] if more.get("test") else []

    def test_shuffle_sample_and_split(self, path: Path, tmp_path: Path) -> None:
        everything = [f"t{n}" for n in range(200)]
        train, test = self.ids(path, tmp_path, shuffle=True, seed=3)
        assert sorted(train) == sorted(everything) and train != everything and test == []
        assert self.ids(path, tmp_path, shuffle=True, seed=3)[0] == train
        assert self.ids(path, tmp_path, shuffle=True, seed=4)[0] != train
        train, test = self.ids(path, tmp_path, shuffle=True, sample=50, test=0.1)
        assert (len(train), len(test), len({*train, *test})) == (45, 5, 50)
        train, test = self.ids(path, tmp_path, sample=50, test=7)
        assert (len(train), len(test), len({*train, *test})) == (43, 7, 50)
        assert train == sorted(train, key=everything.index) and test == sorted(
            test, key=everything.index
        )
        assert self.ids(path, tmp_path, sample=50, test=7) == (train, test)

    def test_a_shuffle_puts_every_task_everywhere(self, path: Path, tmp_path: Path) -> None:
        firsts = {
            self.ids(path, tmp_path, shuffle=True, sample=1, seed=seed)[0][0] for seed in range(40)
        }
        assert len(firsts) > 25

    @pytest.mark.parametrize(
        ("test", "count"),
        [("metadata.kind:odd", 100), ("-metadata.kind:=odd", 100), ("metadata.n:<10", 10),
         ("metadata.n:>197", 2), ("id:=t7", 1), ("prompt:REACH", 200), ("reach", 200),
         ("evaluate_tool.arguments.name:=max_number", 200), ("metadata.n:=7", 1),
         ("metadata.n:>=100 metadata.kind:odd", 50), ("metadata.gone:-", 200),
         ("gone.deeper:=x", 0)],
    )  # fmt: skip
    def test_filters(self, path: Path, tmp_path: Path, test: str, count: int) -> None:
        if count:
            assert len(self.ids(path, tmp_path, filters=(test,))[0]) == count
        else:
            with pytest.raises(TaskErrors, match="passes the filters"):
                self.ids(path, tmp_path, filters=(test,))

    def test_filters_that_are_none(self, path: Path) -> None:
        with pytest.raises(InputError, match="not a number"):
            run(path, selection=TaskSelection(filters=("metadata.n:<b",)))

    def test_filters_that_nothing_passes(self, path: Path, tmp_path: Path) -> None:
        with pytest.raises(TaskErrors, match="none of the 200 usable tasks passes"):
            run(
                path,
                Target(tmp_path / "o.parquet", "parquet"),
                selection=TaskSelection(filters=("id:=no",)),
            )
        assert entries(tmp_path) == ["t.jsonl"]


def test_copies_have_ids_of_their_own(write: Write, task: Make, tmp_path: Path) -> None:
    path = write("t.json", task(id="a"), task(id="a-2"), task(id="b"))
    found = run(path, Target(tmp_path / "o.json", "json"), min_tasks=8)
    assert (found.duplicated, found.written) == (5, {"train": 8})
    ids = [one.id for one in read_tasks(tmp_path / "o.json").tasks]
    assert ids == ["a", "a-2", "b", "a-3", "a-2-2", "b-2", "a-4", "a-2-3"]


def test_strict_and_nothing_usable_write_nothing(write: Write, task: Make, tmp_path: Path) -> None:
    path = write("t.json", task(), task(id=5))
    target = Target(tmp_path / "o.parquet", "parquet")
    with pytest.raises(TaskErrors, match="--strict allows none") as caught:
        run(path, target, strict=True)
    assert [problem.index for problem in caught.value.converted.findings.errors] == [1]
    with pytest.raises(TaskErrors, match="no task can be"):
        run(write("u.json", task(prompt=...)), target)
    with pytest.raises(TaskErrors, match="no task in it"):
        run(write("v.json"), target)
    assert entries(tmp_path) == ["t.json", "u.json", "v.json"]


def test_the_source_is_never_the_target(write: Write, task: Make, tmp_path: Path) -> None:
    path = write("t.json", task())
    (tmp_path / "link.json").symlink_to(path)
    for target in (path, tmp_path / "link.json"):
        with pytest.raises(InputError, match="stays as it is"):
            run(path, Target(target, "json"))


def test_a_folder_of_something_else_is_left_alone(write: Write, task: Make, tmp_path: Path) -> None:
    path = write("t.json", task())
    other = tmp_path / "other"
    (other / "data").mkdir(parents=True)
    (other / "README.md").write_text("mine")
    (other / "data" / "notes.txt").write_text("mine")
    for form in ("dataset", "repository", "parquet"):
        with pytest.raises(InputError, match="holds something else"):
            run(path, Target(other, form))  # type: ignore[arg-type]
    run(path, Target(tmp_path / "mine", "dataset"))
    run(path, Target(tmp_path / "mine", "repository"))
    assert entries(tmp_path / "mine") == ["data/train-00000-of-00001.parquet"]
    assert entries(other) == ["README.md", "data/notes.txt"]


def test_shards(write: Write, task: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_module, "SHARD", 1000)
    monkeypatch.setattr(write_module, "ROW_GROUP", 100)
    path = write(
        "t.jsonl", *(task(id=str(n), prompt=f"{n} {n * n}", pad="x" * 2000) for n in range(3000))
    )
    found = run(path, Target(tmp_path / "o", "repository"))
    names = [file.name for file in found.files[0]]
    assert len(names) > 2 and names[0] == f"train-00000-of-{len(names):05d}.parquet"
    assert [one.id for one in read_tasks(tmp_path / "o").tasks] == [str(n) for n in range(3000)]


def test_a_conversion_that_is_closed_leaves_nothing(
    write: Write, task: Make, tmp_path: Path
) -> None:
    path = write("t.jsonl", *(task(id=str(n), prompt="p" * 900) for n in range(5000)))
    before = path.read_bytes()
    for selection in (TaskSelection(), TaskSelection(shuffle=True)):
        steps = convert(
            find_source(path),
            Rules(),
            [Target(tmp_path / "o.parquet", "parquet")],
            selection=selection,
        )
        next(steps)
        next(steps)
        assert len(list(tmp_path.iterdir())) > 1
        steps.close()  # type: ignore[attr-defined]
        assert [entry.name for entry in tmp_path.iterdir()] == ["t.jsonl"]
    assert path.read_bytes() == before


async def test_a_conversion_in_a_thread_can_be_cancelled(
    write: Write, task: Make, tmp_path: Path
) -> None:
    import asyncio

    path = write("t.jsonl", *(task(id=str(n), prompt="p" * 900) for n in range(5000)))
    begun = asyncio.Event()

    async def work() -> None:
        async for _ in iterate_in_thread(
            convert(find_source(path), Rules(), [Target(tmp_path / "o.parquet", "parquet")])
        ):
            begun.set()

    job = asyncio.create_task(work())
    await begun.wait()
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.jsonl"]


_FULL = """
import resource, signal, sys
from pathlib import Path
from hudtui.core.errors import InputError
from hudtui.core.tasks.convert import convert
from hudtui.core.tasks.read import find_source
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.validate import Rules
from hudtui.core.tasks.write import Target
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), int(sys.argv[4])))
selection = TaskSelection(shuffle=len(sys.argv) > 5)
try:
    targets = [Target(Path(sys.argv[2]), sys.argv[3])]
    list(convert(find_source(sys.argv[1]), Rules(), targets, selection=selection))
except InputError as error:
    print(error)
"""


@pytest.mark.parametrize("form", ["parquet", "jsonl", "dataset", "json"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_full_disk(write: Write, task: Make, tmp_path: Path, form: str, shuffle: bool) -> None:
    rows = (task(id=str(n), prompt=os.urandom(300).hex()) for n in range(4000))
    path = write("t.jsonl", *rows)
    out = tmp_path / "out" / "o"
    out.parent.mkdir()
    command = [
        sys.executable,
        "-c",
        _FULL,
        str(path),
        str(out),
        form,
        "500000",
        *(["x"] if shuffle else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert "the disk is full" in done.stdout, done.stderr
    assert list(out.parent.iterdir()) == []


def test_an_old_result_stays_when_a_new_one_fails(write: Write, task: Make, tmp_path: Path) -> None:
    target = Target(tmp_path / "o.parquet", "parquet")
    run(write("t.json", task()), target)
    before = target.path.read_bytes()
    (tmp_path / "t.json").write_text('[{"prompt": "cut')
    with pytest.raises(InputError):
        run(tmp_path / "t.json", target)
    assert target.path.read_bytes() == before and entries(tmp_path) == ["o.parquet", "t.json"]


@pytest.mark.parametrize("full", [False, True])
def test_a_dataset_that_is_given_up_prints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], full: bool
) -> None:
    monkeypatch.setattr(write_module, "ROW_GROUP", 10)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    schema = pa.schema(
        [(name, pa.string()) for name in ("id", "mcp_config", "setup_tool", "evaluate_tool")]
    )
    rows = pa.RecordBatch.from_pylist([dict.fromkeys(schema.names, "x" * 1000)] * 20, schema)
    with (
        pytest.raises(KeyError),
        write_module.DatasetWriter(
            Target(tmp_path / "x.parquet", "parquet"), schema, ("train",)
        ) as out,
    ):
        sink: Any = out.sink("train")
        for _ in range(4):
            sink.write(rows)
        sink._under_way.result()
        if full:
            sink._stream.close()  # as a disk that takes nothing more
        raise KeyError
    del out, sink
    gc.collect()
    assert capfd.readouterr().err == "" and not list(tmp_path.iterdir())
