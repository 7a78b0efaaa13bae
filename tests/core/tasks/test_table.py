from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.errors import InputError
from hudtui.core.events import Progress
from hudtui.core.platform import HUD
from hudtui.core.row_filter import parse_filter
from hudtui.core.settings import load_settings
from hudtui.core.tasks.dataset import (
    DatasetPreview,
    DatasetRequest,
    DatasetResult,
    make_dataset,
    preview,
)
from hudtui.core.tasks.options import TaskSelection
from hudtui.core.tasks.read import fingerprint, open_source, read_tasks
from hudtui.core.tasks.table import (
    TASK_FIELDS,
    TaskFilter,
    TaskIndex,
    TaskText,
    raw_record,
    read_into,
    task_stats,
)
from hudtui.core.tasks.table import test_of as table_test_of

Make = Callable[..., dict[str, Any]]


def index_of(path: Path, **options: Any) -> TaskIndex:
    index = TaskIndex()
    assert read_into(
        index, open_source(path.name, path.parent, HUD, **options), Event(), lambda: None
    )
    return index


def found(index: TaskIndex, want: TaskFilter, start: int = 0) -> list[int]:
    return [row for part, _ in index.matching(want, start) for row in part]


@pytest.fixture
def mixed(task: Make, write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Good tasks, warned ones and broken ones, in several batches."""
    monkeypatch.setenv("HUD_API_KEY", "a-key-for-tests")
    tasks: list[Any] = []
    for number in range(6000):
        changes: dict[str, Any] = {
            "id": f"t{number}",
            "prompt": f"Reach {number} with care" + " ." * (number % 50),
        }
        changes["metadata"] = {
            "category": "abc"[number % 3],
            "seed": number,
            "hard": number % 2 == 0,
        }
        if number % 500 == 499:
            changes["prompt"] = ...
        if number % 700 == 699:
            changes["mcp_config"] = {
                "hud": {
                    "url": "https://mcp.hud.so",
                    "headers": {"Authorization": "Bearer abcdefgh12345678"},
                }
            }
        tasks.append(task(**changes))
    tasks[1234] = "no task"
    return write("tasks.json", *tasks)


def test_an_index_holds_what_reading_everything_finds(mixed: Path) -> None:
    index = index_of(mixed)
    whole = read_tasks(mixed)
    assert index.total == whole.total == 6000
    assert len(list(index.matching(TaskFilter()))) > 2, "several batches"
    assert index.counts["ok"] + index.counts["warning"] == len(whole.tasks)
    usable = [row for row in range(index.total) if index.states[row] != 2]
    some = random.Random(1).sample(range(len(usable)), 300)
    # Each jump reads a part of the file again: most rows are looked at in their order.
    for row, task in [
        (usable[number], whole.tasks[number]) for number in [*some[:60], *sorted(some[60:])]
    ]:
        record, shown = index.record(row), index.row(row)
        assert record is not None
        assert (record.id, record.prompt, record.columns["mcp_config"]) == (
            task.id,
            task.prompt,
            task.mcp_config,
        )
        assert record.columns["metadata"] == task.metadata
        assert (
            shown.id == task.id
            and shown.length == len(task.prompt)
            and task.prompt.startswith(shown.head)
        )
        assert (shown.servers, shown.evaluator) == ("hud", "evaluate/max_number")
        assert shown.category == task.metadata["category"]
    problems = index.problems
    told = [
        (
            problems.tasks[number],
            problems.kind(number).message,
            problems.line(number),
            problems.kind(number).severity,
        )
        for number in range(len(problems))
    ]
    assert told and told == [
        (problem.index, problem.message, problem.line, problem.severity)
        for problem in whole.problems
    ]


def test_broken_tasks_show_their_problem_and_what_stands_in_the_file(mixed: Path) -> None:
    index = index_of(mixed)
    source = open_source(mixed.name, mixed.parent, HUD).source
    row = index.row(499)
    assert (row.state, row.problem, row.head) == ("error", "missing", "") and index.record(
        499
    ) is None
    raw = raw_record(source, index, 499)
    assert raw["id"] == "t499" and "prompt" not in raw
    assert raw_record(source, index, 1234) == "no task"
    assert raw_record(source, index, 5999)["id"] == "t5999"
    assert index.row(1234).id == "task-1234"
    assert {index.problems.kind(number).code for number in index.problems.of(499)} == {"missing"}
    assert not index.problems.of(0)


def test_lines_and_tables_give_back_broken_records(
    task: Make, write: Callable[..., Path], tmp_path: Path
) -> None:
    lines = write("tasks.jsonl", *(task(id=f"t{number}") for number in range(3)))
    with lines.open("a") as out:
        out.write('{"id": "bad", "prompt":\n')
        out.write(json.dumps(task(id="last", prompt=3)) + "\n")
    index, source = index_of(lines), open_source(lines.name, tmp_path, HUD).source
    assert index.counts == {"ok": 0, "warning": 3, "error": 2}  # the key has no value here
    assert raw_record(source, index, 3) == '{"id": "bad", "prompt":'
    assert raw_record(source, index, 4)["prompt"] == 3
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = tmp_path / "tasks.parquet"
    pq.write_table(
        pa.table(
            {
                "id": pa.array(["a", "b"], pa.string()),
                "prompt": pa.array(["go", None], pa.string()),
                "mcp_config": ['{"a": {"command": "x"}}'] * 2,
                "evaluate_tool": ['{"name": "e"}'] * 2,
            }
        ),
        table,
    )
    index, source = index_of(table), open_source(table.name, tmp_path, HUD).source
    assert index.counts == {"ok": 1, "warning": 0, "error": 1}
    assert raw_record(source, index, 1)["id"] == "b"


def test_search_finds_what_a_plain_loop_finds(mixed: Path) -> None:
    index = index_of(mixed)
    records = {row: index.record(row) for row in range(index.total)}
    for text in ('"REACH 59"', "t42", "max_num", "nowhere"):
        word = text.strip('"')
        plain = [
            row
            for row, record in records.items()
            if (
                record is not None
                and word.casefold()
                in f"{record.id}\n{record.prompt}\n{index.row(row).evaluator}".casefold()
            )
            or (
                record is None
                and word.casefold()
                in "\n".join(
                    (index.row(row).id, index.row(row).head, index.row(row).evaluator)
                ).casefold()
            )
        ]
        assert found(index, TaskFilter(text)) == plain
    assert found(index, TaskFilter("", frozenset((2,)))) == [
        row for row in range(6000) if index.states[row] == 2
    ]
    assert found(index, TaskFilter("", None, ("warning", "secret"))) == [
        row
        for row in range(6000)
        if any(
            index.problems.kind(number).code == "secret"
            and index.problems.kind(number).severity == "warning"
            for number in index.problems.of(row)
        )
    ]
    late = found(index, TaskFilter("care"), 5000)
    assert late and min(late) >= 5000


def test_filters_of_tasks_are_those_of_all_tables(mixed: Path) -> None:
    index = index_of(mixed)
    rows = [index.row(number) for number in range(index.total)]
    assert found(index, TaskFilter("id:^t42")) == [
        row.index for row in rows if row.id.startswith("t42")
    ]
    assert found(index, TaskFilter("-state:ok")) == [row.index for row in rows if row.state != "ok"]
    assert found(index, TaskFilter("task:>=5990")) == list(range(5990, 6000))
    for words in ("reach 59", "MAX_num t1", "error"):  # plain words have a faster way
        general = parse_filter(words, TASK_FIELDS)
        plain = table_test_of(words)
        assert plain is not None and plain != general.matches
        texts = [
            TaskText(row, "" if (record := index.record(row.index)) is None else record.prompt)
            for row in rows
        ]
        texts = [text if text.prompt else TaskText(text.row, text.row.head) for text in texts]
        assert found(index, TaskFilter(words)) == [
            text.row.index for text in texts if general.matches(text)
        ]
    with pytest.raises(InputError, match="there is no field 'reward'"):
        found(index, TaskFilter("reward:>1"))


def test_sorting_is_that_of_python(mixed: Path) -> None:
    index = index_of(mixed)
    rows = list(range(0, 6000, 7))
    values: dict[str, Callable[[int], Any]] = {
        "task": lambda row: row,
        "id": lambda row: index.row(row).id,
        "state": lambda row: index.states[row],
        "prompt": lambda row: index.row(row).length,
        "servers": lambda row: index.row(row).servers,
        "evaluator": lambda row: index.row(row).evaluator,
        "category": lambda row: index.row(row).category,
    }
    for key, value in values.items():
        for reverse in (False, True):
            assert list(index.arranged(rows, key, reverse=reverse)) == sorted(
                rows, key=value, reverse=reverse
            ), key


def test_statistics_count_every_usable_task(mixed: Path) -> None:
    index = index_of(mixed)
    stats = task_stats(index)
    groups = {group.title: dict(group.bars) for group in stats.groups}
    assert groups["evaluators"] == {"evaluate/max_number": stats.tasks}
    assert groups["setup"] == {"setup/board": stats.tasks}
    assert (
        sum(groups["metadata.category"].values())
        == sum(groups["metadata.hard"].values())
        == stats.tasks
    )
    assert set(groups["metadata.hard"]) == {"yes", "no"}
    assert index.crowded == {"seed"} and "metadata.seed" not in groups
    assert (
        stats.lengths is not None
        and sum(count for _, _, count in stats.lengths.bins) == stats.tasks
    )
    tokens = sorted(-(-index.row(row).length // 4) for row in range(6000) if index.states[row] != 2)
    assert (stats.lengths.shortest, stats.lengths.longest) == (tokens[0], tokens[-1])
    assert tokens[0] <= stats.lengths.median <= stats.lengths.most <= tokens[-1]


def test_lengths_of_nothing_and_of_one_length(task: Make, write: Callable[..., Path]) -> None:
    assert task_stats(index_of(write("bad.json", {"id": "x"}))).lengths is None
    same = task_stats(
        index_of(write("same.json", *(task(id=str(number), prompt="four") for number in range(5))))
    ).lengths
    assert (
        same is not None
        and sum(count for _, _, count in same.bins) == 5
        and same.shortest == same.longest == 1
    )


def test_reading_stops_when_it_is_told(mixed: Path) -> None:
    index, stop = TaskIndex(), Event()
    assert not read_into(index, open_source(mixed.name, mixed.parent, HUD), stop, stop.set)
    assert 0 < index.total < 6000
    assert index.row(0).id == "t0"


def test_the_project_gives_image_variables_and_environment(
    task: Make, write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        "tasks.json",
        task(mcp_config=...),
        task(id="b", mcp_config={"a": {"command": "x", "args": ["$NOPE"]}}),
    )
    assert index_of(path).counts == {"ok": 0, "warning": 1, "error": 1}
    (tmp_path / "hud.lock.yaml").write_text("image: my-org/my-env@sha256:" + "0" * 64 + "\n")
    (tmp_path / ".env").write_text("NOPE=1\nHUD_API_KEY=k\n")
    index = index_of(path)
    assert index.counts["error"] == 0 and index.inferred == 1 and index.noticed["local"] == 1
    analysis = Analysis(
        "my-org/my-env",
        Server("a"),
        None,
        (Tool("setup"), Tool("evalute")),
        {},
        image="my-org/my-env",
    )
    assert index_of(path, analysis=analysis).counts["error"] == 2
    other = index_of(path, analysis=replace(analysis, source="x", server=Server("x"), image=None))
    assert other.counts["error"] == 0 and other.other_servers == {"my-env": 1, "a": 1}
    (tmp_path / "hud.lock.yaml").write_text("image: [")
    assert "lock file is ignored" in open_source(path.name, tmp_path, HUD).notices[0].message


def test_calls_are_checked_only_of_tasks_on_the_analysed_environment(
    task: Make, write: Callable[..., Path]
) -> None:
    def on(server: str, number: int, tool: str) -> dict[str, Any]:
        return task(
            id=f"t{number}",
            mcp_config={server: {"command": server}},
            evaluate_tool={"name": tool, "arguments": {}},
        )

    # Long enough for several parts: of one environment, of the other, and of both.
    servers = ["a"] * 3000 + ["b"] * 3000 + ["a", "b"] * 1500
    tools = ["good" if number % 100 else "bad" for number in range(len(servers))]
    path = write("many_tasks.jsonl", *map(on, servers, range(len(servers)), tools))
    index = index_of(
        path, analysis=Analysis("a", Server("a"), None, (Tool("good"), Tool("setup")), {})
    )
    wrong = {
        number
        for number, (server, tool) in enumerate(zip(servers, tools, strict=True))
        if server == "a" and tool == "bad"
    }
    assert set(index.problems.tasks) == wrong and index.counts["error"] == len(wrong)
    assert index.other_servers == {"b": servers.count("b")}


def test_a_fingerprint_changes_with_the_file(
    task: Make, write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write("tasks.json", task())
    source = open_source("tasks.json", tmp_path, HUD).source
    before = fingerprint(source)
    assert before == fingerprint(source) is not None
    os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns + 1))
    assert fingerprint(source) != before
    path.unlink()
    assert fingerprint(source) is None


@pytest.mark.parametrize(
    ("selection", "min_tasks"),
    [
        (TaskSelection(), 0),
        (TaskSelection(filters=("metadata.category:=a",)), 0),
        (TaskSelection(sample=50, test=0.2, seed=3), 0),
        (TaskSelection(filters=("id:=t3",)), 4),
        (TaskSelection(shuffle=True, test=10), 7000),
    ],
)
def test_a_preview_says_what_is_then_written(
    mixed: Path, tmp_path: Path, selection: TaskSelection, min_tasks: int
) -> None:
    settings = load_settings(tmp_path, HUD)
    request = DatasetRequest(
        mixed.name,
        push=False,
        output=Path("out") if selection.test else Path("out.parquet"),
        selection=selection,
        min_tasks=min_tasks,
    )
    source = open_source(mixed.name, tmp_path, HUD).source
    last = [
        step for step in preview(request, settings, source) if isinstance(step, DatasetPreview)
    ][-1]
    quick = [
        step
        for step in preview(request, settings, source, known=index_of(mixed))
        if isinstance(step, DatasetPreview)
    ][-1]
    assert last == quick and last.exact
    made = [step for step in make_dataset(request, settings) if isinstance(step, DatasetResult)][
        -1
    ].converted
    assert (last.total, last.valid, last.splits, last.duplicated) == (
        made.total,
        made.valid,
        made.written,
        made.duplicated,
    )
    assert last.columns == made.columns and len(last.rows) == min(3, last.passed)
    assert all(len(row) == len(last.columns) for row in last.rows)


def test_a_preview_begins_before_everything_is_read(mixed: Path, tmp_path: Path) -> None:
    steps = preview(
        DatasetRequest(mixed.name, push=False),
        load_settings(tmp_path, HUD),
        open_source(mixed.name, tmp_path, HUD).source,
    )
    first = next(steps)
    assert (
        isinstance(first, DatasetPreview)
        and not first.exact
        and first.rows[0][0] == "t0"
        and first.total < 6000
    )
    assert isinstance(next(steps), Progress)
    steps.close()


def test_a_task_that_is_opened_is_the_one_that_was_read(
    task: Make, write: Callable[..., Path]
) -> None:
    """Nothing of a task is lost between the table and what plays it."""
    evaluate = [{"reply": {"contains": "done"}, "weight": 2}, {"turns": {"most": 3}}]
    further = {"agent_config": {"system_prompt": "Be brief."}, "difficulty": 0.5}
    expects = task(id="expects", evaluate=evaluate, evaluate_tool=..., **further)
    path = write("tasks.json", expects, task(id="plain"))
    opened = [index_of(path).record(row) for row in range(2)]
    tasks = [record.task() for record in opened if record is not None]
    assert tasks == list(read_tasks(path).tasks)
    assert tasks[0].extra["evaluate"] == evaluate and tasks[0].extra["difficulty"] == 0.5
