"""The template of a task for an environment: what it holds, what is left to fill in, and that no
file is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.environment.source import Source, parse_source
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.flows.new_task import write_template
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.tasks.read import read_tasks

SIZED = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 2},
        "mode": {"enum": ["easy", "hard"]},
        "seed": {"type": "integer", "default": 7},
    },
    "required": ["size", "mode"],
}
ANALYSIS = Analysis(
    "board",
    tools=(
        Tool("move", "Moves the tiles."),
        Tool("setup", "Sets up.", kind="setup"),
        Tool("evaluate", "Judges.", kind="evaluate"),
        Tool("board", "A new\n\x1b[31mboard.", SIZED, "hidden", "setup"),
        Tool("empty", "", {"type": "object", "properties": {}}, "hidden", "setup"),
        Tool("reached", "", None, "hidden", "evaluate"),
    ),
    hubs={"setup": ("board", "empty"), "evaluate": ("reached",)},
)
SOURCE = parse_source('{"board": {"command": "board-server"}}')


@pytest.fixture(autouse=True)
def here(own_world: Path) -> Path:
    return own_world


def write(
    file: str | None = None, *, source: Source = SOURCE, analysis: Analysis = ANALYSIS
) -> Any:
    return write_template(
        Project(Path.cwd(), HUD), source, analysis, None if file is None else Path(file)
    )


def test_a_template_names_what_is_to_be_filled_in() -> None:
    made = write()
    (record,) = json.loads(made.file.read_text())
    assert str(made.file) == "board-tasks.json" and record == made.record
    assert record["mcp_config"] == {"board": {"command": "board-server", "args": []}}
    assert record["setup_tool"] == {
        "name": "setup",
        "arguments": {"name": "board", "arguments": {"size": "TODO: integer", "mode": "easy"}},
    }
    assert record["evaluate_tool"] == {
        "name": "evaluate",
        "arguments": {"name": "reached", "arguments": {}},
    }
    notes = record["metadata"]["template"]
    assert (
        "setup_tool: setup.board(size, mode, seed?): A new board." in notes
        and "setup_tool: setup.empty()" in notes
    )
    assert any(
        note.startswith("prompt:") and "move(" in note for note in notes
    ) and "\x1b" not in str(record)


def test_a_template_that_is_not_filled_in_is_refused_with_its_place() -> None:
    made = write()
    (problem,) = [
        one for one in read_tasks(made.file, analysis=ANALYSIS).problems if one.severity == "error"
    ]
    assert "size" in (problem.field or "") and "integer" in problem.message
    made.file.write_text(made.file.read_text().replace('"TODO: integer"', "4"))
    read = read_tasks(made.file, analysis=ANALYSIS)
    assert len(read.tasks) == 1 and any(
        "still the text of the template" in one.message for one in read.problems
    )
    made.file.write_text(
        made.file.read_text().replace("TODO: what the agent is to reach", "Reach 128.")
    )
    assert not any(
        "template" in one.message for one in read_tasks(made.file, analysis=ANALYSIS).problems
    )


def test_an_environment_without_such_tools() -> None:
    record = write(analysis=Analysis("plain", tools=(Tool("move", "Moves."),))).record
    assert "setup_tool" not in record and "evaluate_tool" not in record
    notes = record["metadata"]["template"]
    assert any("`evaluate`" in note and "rubric.reward" in note for note in notes)


@pytest.mark.parametrize("name", ["board-tasks.json", "mine.jsonl", "sub/new.json"])
def test_no_file_is_overwritten(name: str) -> None:
    write(name)
    before = Path(name).read_bytes()
    with pytest.raises(InputError, match="a file of this name already"):
        write(name)
    assert Path(name).read_bytes() == before and len(read_tasks(Path(name)).tasks) == 1


def test_a_free_name_is_taken_where_none_is_given() -> None:
    Path("board-tasks-2.json").symlink_to("nowhere")
    assert [str(write().file) for _ in range(3)] == [
        "board-tasks.json",
        "board-tasks-3.json",
        "board-tasks-4.json",
    ]
    assert not Path("nowhere").exists()


def test_what_cannot_be() -> None:
    with pytest.raises(InputError, match="ends in"):
        write("tasks.yaml")
    for lock in ("{}", "image: ''"):
        Path("hud.lock.yaml").write_text(lock)
    with pytest.raises(InputError, match="MCP servers"):
        write(source=Source("lock", "hud.lock.yaml"))
    assert not list(Path().glob("*tasks*"))
