"""HUD's task formats are told apart, v5 becomes v6 without loss, and what cannot be carried over
says why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.tasks.formats import generation_of, to_v6
from hudtui.core.tasks.migrate import Migration, migrate_to_v6
from hudtui.core.tasks.read import find_source, read_tasks

Make = Callable[..., dict[str, Any]]

V3 = {
    "id": "x",
    "prompt": "p",
    "gym": {"id": "qa"},
    "setup": [],
    "evaluate": ["response_includes", "4"],
}
V5 = {
    "env": {"name": "sheets"},
    "scenario": "sheets:fill",
    "args": {"n": 1},
    "id": "first",
    "metadata": {"level": 1},
}
V6 = {"env": "sheets", "id": "fill", "args": {"n": 1}, "columns": {"level": 1}}
EXPORT = {"env": "sheets", "scenario": "sheets:fill", "name": "first", "args": {"n": 1}}


def test_they_are_told_apart(task: Make) -> None:
    assert [generation_of(record) for record in (V3, task(), V5, V6, EXPORT)] == [
        "v3",
        "v4",
        "v5",
        "v6",
        "v6",
    ]
    assert generation_of(task(env="also", gym={})) == "v4"
    assert generation_of({"scenario": "a:b", "args": {}}) == "v5"
    assert generation_of({"prompt": "p"}) == "v4"


def test_v5_becomes_v6() -> None:
    assert to_v6(V5) == (
        {"env": "sheets", "id": "fill", "args": {"n": 1}, "slug": "first", "columns": {"level": 1}},
        [],
    )
    made, remarks = to_v6(
        {"scenario": "sheets:fill", "validation": [{"name": "v"}], "agent_config": {"max_steps": 3}}
    )
    assert made == {
        "env": "sheets", "id": "fill", "args": {},
        "validation": [{"name": "v"}], "agent_config": {"max_steps": 3},
    }  # fmt: skip
    assert remarks == []
    made, remarks = to_v6({**V5, "env": {"name": "other", "include": ["a"]}})
    assert (
        made is not None
        and made["env"] == "other"
        and made["columns"] == {"level": 1, "env_include": ["a"]}
    )
    assert [remark.code for remark in remarks] == ["conflict", "kept"]


def test_v6_stays_and_an_export_is_put_in_order() -> None:
    assert to_v6(V6) == (V6, [])
    assert to_v6(EXPORT)[0] == {"env": "sheets", "id": "fill", "slug": "first", "args": {"n": 1}}


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (V3, "no longer exists"),
        ({"prompt": "p", "mcp_config": {}}, "cannot become a v6 task"),
        ({**V5, "scenario": 3}, "a number"),
        ({**V5, "args": []}, "a list"),
        ({"scenario": "fill"}, "names no environment"),
        ([], "a list"),
    ],
)
def test_what_cannot_be_carried_over_says_why(record: Any, words: str) -> None:
    made, remarks = to_v6(record)
    assert made is None and words in remarks[0].message


@pytest.mark.parametrize(
    ("record", "words"), [(V3, "v3"), (V5, "convert --to v6"), (V6, "not MCP servers")]
)
def test_other_generations_do_not_train_and_are_told_what_to_do(
    tmp_path: Path, task: Make, record: Any, words: str
) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps([task(), record]))
    read = read_tasks(path)
    (problem,) = read.problems
    assert len(read.tasks) == 1 and problem.code == "generation" and words in problem.message


@pytest.mark.parametrize("name", ["out.json", "out.jsonl"])
def test_a_file_is_carried_over(tmp_path: Path, task: Make, name: str) -> None:
    path = tmp_path / "v5.jsonl"
    path.write_text("\n".join(json.dumps(record) for record in (V5, task(), V6)) + '\n{"broken\n')
    out = tmp_path / name
    *_, result = migrate_to_v6(find_source(path), out)
    assert isinstance(result, Migration) and (result.total, result.written) == (4, 2)
    assert [(problem.index, problem.line) for problem in result.findings.errors] == [(1, 2), (3, 4)]
    written = (
        json.loads(out.read_text())
        if name == "out.json"
        else [json.loads(line) for line in out.read_text().splitlines()]
    )
    assert written == [to_v6(V5)[0], V6]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([name, "v5.jsonl"])


def test_nothing_is_written_when_nothing_can_be_carried_over(tmp_path: Path, task: Make) -> None:
    path = tmp_path / "v4.json"
    path.write_text(json.dumps([task()]))
    with pytest.raises(InputError, match="no task can be"):
        list(migrate_to_v6(find_source(path), tmp_path / "out.json"))
    with pytest.raises(InputError, match="stays as it is"):
        list(migrate_to_v6(find_source(path), path))
    assert [entry.name for entry in tmp_path.iterdir()] == ["v4.json"]
