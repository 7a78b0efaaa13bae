"""Tasks on one page: for an environment, for a task that is changed, and for one that is copied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.waiting import screen_text, until
from textual import events

from hudtui.core.environment.cache import save_analysis
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError
from hudtui.core.project import open_project
from hudtui.core.tasks.draft_form import DraftForm
from hudtui.core.tasks.expectation_form import read_parts
from hudtui.tui.app import HudtuiApp
from hudtui.tui.task_form.open import for_environment
from hudtui.tui.task_form.page import TaskPage
from hudtui.tui.widgets.dialog import Confirm

EDITS = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}},
                "required": ["oldText", "newText"],
            },
        },
        "how": {"type": "string", "enum": ["fast", "slow"]},
    },
    "required": ["path", "edits"],
}
WRITE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    "required": ["path", "content"],
}
FILES = Analysis(
    "files",
    tools=(
        Tool("write_file", "Writes.", WRITE),
        Tool("read_file", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}}),
        Tool("edit_file", "Edits.", EDITS),
        Tool("list_files", "Lists.", {"type": "object", "properties": {}}),
        Tool("setup", "", None, "setup"),
        Tool("board", "", None, "hidden", "setup"),
        Tool("evaluate", "", None, "evaluate"),
        Tool("reached", "", None, "hidden", "evaluate"),
    ),
    hubs={"setup": ("board",), "evaluate": ("reached",)},
)


def page_for(chosen: Tool | None = None, typed: dict[str, str] | None = None) -> TaskPage:
    Path("data").mkdir(exist_ok=True)
    source = parse_source('{"files": {"command": "file-server", "args": ["data"]}}')
    return TaskPage(for_environment(open_project(), source, FILES, chosen, typed or {}))


async def opened(app: Any, pilot: Any, page: TaskPage) -> TaskPage:
    app.push_screen(page)
    await until(pilot, lambda: app.screen is page and bool(page.query("#tasks-preview")))
    return page


async def made(pilot: Any, page: TaskPage) -> Any:
    """The tasks of what is typed, once the preview has them."""
    await until(pilot, lambda: page.made is not None)
    return page.made


async def type_text(pilot: Any, text: str) -> None:
    names = {" ": "space", "\n": "enter"}
    await pilot.press(*(names.get(letter, letter) for letter in text))


# -- a picture
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(160, 45), (80, 24)])
def test_picture_of_a_page(snap: Any, project: Path, size: tuple[int, int]) -> None:
    async def begin(pilot: Any) -> None:
        page = page_for()
        page.form.prompt = "Write ${word} into ${n}.txt."
        page._prompt.text = page.form.prompt
        page.form.add_setup(FILES.tools[0])
        page.form.setup[0].texts |= {"path": "${n}.txt", "content": "old"}
        page.form.add_part("call", FILES.tools[1])
        page.form.put("part.0.call.path", "${n}.txt")
        page.form.put("part.0.value", "${word}")
        page.form.add_variable("word")
        page.form.variables[0]["values"] = "alpha, beta"
        page.form.add_variable("n")
        page.form.variables[1]["values"] = "1..50"
        page.form.put("task.held_out", "0.1")
        await opened(pilot.app, pilot, page)
        await made(pilot, page)

    assert snap(HudtuiApp(project), size=size, run_before=begin)


# -- by keys
# --------------------------------------------------------------------------------------------------


async def test_a_hundred_tasks_by_keys(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await type_text(pilot, "Write ${word} into\nout.txt")
        await pilot.press("down", "up", "f2", *"write_file", "enter")
        await type_text(pilot, "out.txt\nold\n")
        await pilot.press("f3", *"answer", "space", *"of", "space", *"read_f", "enter")
        await type_text(pilot, "out.txt")
        await pilot.press("down", "down")
        await type_text(pilot, "${word}")
        await pilot.press("f4")
        await type_text(pilot, "word\nalpha, beta\n")
        await pilot.press("f4")
        await type_text(pilot, "s\nseed\n")
        form = page.form
        assert form.prompt == "Write ${word} into\nout.txt" and form.shares
        form.put("task.count", "100")
        form.put("task.file", "t.json")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: Path("t.json").exists())
        await until(pilot, lambda: app.screen is not page)
    rows = json.loads(Path("t.json").read_text())
    assert len(rows) == 100 and rows[1]["prompt"] == "Write beta into\nout.txt"
    assert rows[0]["mcp_config"]["files"]["args"] == ["${EPISODE_DIR:data}"]
    assert rows[0]["setup_tool"] == {
        "name": "write_file",
        "arguments": {"path": "out.txt", "content": "old"},
    }
    assert rows[0]["evaluate"][0]["expect"] == {"contains": "alpha"}
    assert rows[0]["agent_config"] == {"allow_setup_tools": True}


async def test_esc_asks_when_something_was_typed(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is not page)
        page = await opened(app, pilot, page_for())
        page._prompt.focus()
        app.post_message(events.Key("W", "W"))  # at once, as a paste or a slow line brings them
        app.post_message(events.Key("escape", None))
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("enter")  # the careless answer
        await until(pilot, lambda: app.screen is page)
        assert page.form.prompt == "W"
        await type_text(pilot, "rite.")
        await pilot.press("f2", *"nosuchtool", "enter", "escape")
        await until(pilot, lambda: app.screen is page)
        assert page.form.prompt == "Write." and not page.form.setup
        await pilot.press("f3", "escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await until(pilot, lambda: app.screen is not page and not isinstance(app.screen, Confirm))


@pytest.mark.parametrize("tick", ["_shared", "_own"])
async def test_esc_at_once_after_a_tick_asks_too(open_app: Any, project: Path, tick: str) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        getattr(page, tick).toggle()
        app.post_message(events.Key("escape", None))  # before the tick has said so
        await until(pilot, lambda: app.screen is not page)
        assert isinstance(app.screen, Confirm)


async def test_a_mistake_is_said_and_nothing_is_written(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await type_text(pilot, "Write ${word}.")
        page.form.put("task.file", "t.json")
        page.form.add_part("reply")
        page.form.put("part.0.value", "x")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "there is no variable 'word'" in screen_text(app))
        assert "Nothing was done: mend what is marked" in screen_text(app)
        page.form.add_variable("word")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "has no values" in screen_text(app))
        page.form.variables[0]["values"] = "a"
        Path("t.json").write_text('[{"id": "files", "prompt": "x"}]')
        page.form.put("task.id", "files")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "already" in screen_text(app))
        assert app.screen is page and len(json.loads(Path("t.json").read_text())) == 1


async def test_a_row_of_choices_and_the_rows_of_a_number(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await pilot.press("f3", "enter")
        await until(pilot, lambda: app.screen is page and bool(page.form.parts))
        await until(pilot, lambda: getattr(page.focused, "row", None) is not None)
        await pilot.press("enter")
        await until(pilot, lambda: app.screen is not page)
        await pilot.press(*"number", "enter")
        await until(pilot, lambda: app.screen is page)
        await until(pilot, lambda: "tolerance" in screen_text(app))
        await pilot.press("down")
        await type_text(pilot, "42")
        assert page.form.parts[0].part(FILES) == {"reply": {"number": 42}}
        await pilot.press("f8")
        await until(pilot, lambda: not page.form.parts)


async def test_the_prompt_in_the_editor(
    open_app: Any, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "two\\nlines\\n" > "$1"\n')
    editor.chmod(0o755)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", str(editor))
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        monkeypatch.setattr(type(app), "suspend", _nothing)
        await pilot.press("f7")
        await until(pilot, lambda: page.form.prompt == "two\nlines")


async def test_a_terminal_that_cannot_be_left_is_said(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await pilot.press("f7")
        page.dismiss(None)
        await until(pilot, lambda: "cannot be left to another program" in screen_text(app))


def _nothing(app: Any) -> Any:
    import contextlib

    return contextlib.nullcontext()


# -- from Environment and Dataset
# --------------------------------------------------------------------------------------------------


def test_a_chosen_tool_begins_the_page(project: Path) -> None:
    tools = {tool.name: tool for tool in FILES.tools}
    assert page_for(tools["board"]).form.setup[0].name == "setup.board"
    assert page_for(tools["reached"]).form.evaluators[0].name == "evaluate.reached"
    assert not page_for(tools["read_file"]).form.parts
    (part,) = page_for(tools["read_file"], {"path": "a.txt"}).form.parts
    part.texts["value"] = "x"
    assert part.part(FILES)["call"] == {"name": "read_file", "arguments": {"path": "a.txt"}}


TASK = {
    "id": "one",
    "prompt": "Keep ${HOME} and\nlines.",
    "mcp_config": {"files": {"command": "file-server", "args": ["data"]}},
    "setup_tool": [{"name": "write_file", "arguments": {"path": "a", "content": "x\ny", "z": [1]}}],
    "evaluate": [
        {"call": {"name": "read_file", "arguments": {"path": "a"}}, "expect": {"contains": "x"}},
        {"judge": {"rubric": "is it kind?"}, "weight": 2},
        {"reply": {"all": [{"contains": "a"}, {"most": 3}]}, "name": "both"},
        {"reply": {"json": {"path": "a[0]", "number": 1.50, "tolerance": 0.1}}},
    ],
    "solution": [{"name": "write_file", "arguments": {}}],
    "own": {"deep": [None, 1.5]},
    "agent_config": {"allowed_tools": ["*"]},
}


def test_what_the_page_does_not_know_is_kept() -> None:
    form = DraftForm(TASK, FILES, single=True)
    assert form.data() == TASK
    form.put("part.0.value", "z")
    form.put("part.3.tolerance", "0.2")
    form.put("setup.0.path", "b")
    changed = form.data()
    assert changed["evaluate"][0]["expect"] == {"contains": "z"}
    assert changed["evaluate"][1:3] == TASK["evaluate"][1:3]  # type: ignore[index]
    assert changed["evaluate"][3]["reply"]["json"]["tolerance"] == 0.2
    assert changed["setup_tool"][0]["arguments"] == {"path": "b", "content": "x\ny", "z": [1]}
    same = ("solution", "own", "agent_config", "mcp_config", "prompt")
    assert all(changed[name] == TASK[name] for name in same)
    assert not read_parts([*changed["evaluate"][:1], *changed["evaluate"][2:]])[1]


def test_what_an_error_answer_means_is_a_row() -> None:
    form = DraftForm({"id": "a"}, FILES)
    form.add_part("call", FILES.tools[1])
    form.put("part.0.call.path", "a.txt")
    form.put("part.0.value", "x")
    assert form.data()["evaluate"][0]["expect"] == {"contains": "x"}
    form.put("part.0.errs", "not met")
    written = form.data()["evaluate"][0]
    assert written["expect"] == {"contains": "x", "error": False}
    assert not read_parts([written])[1]
    again = DraftForm({"id": "a", "evaluate": [written]}, FILES, single=True)
    rows = {row.key: row for block in again.blocks() for row in block.rows}
    assert rows["part.0.errs"].text == "not met"
    again.put("part.0.path", "items[0]")
    nested = again.data()["evaluate"][0]["expect"]
    assert nested == {"json": {"path": "items[0]", "contains": "x"}, "error": False}
    third = DraftForm({"id": "a", "evaluate": [{**written, "expect": nested}]}, FILES, single=True)
    third.put("part.0.errs", "")
    third.put("part.0.path", "")
    assert third.data()["evaluate"][0]["expect"] == {"contains": "x"}
    third.put("part.0.errs", "whatever")
    with pytest.raises(InputError, match="cannot mean this"):
        third.data()
    third.put("part.0.errs", "not met")
    third.put("part.0.expect", "error")
    third.put("part.0.value", "true")
    assert third.data()["evaluate"][0]["expect"] == {"error": True}


def test_a_judge_has_rows_and_keeps_what_has_none() -> None:
    judge = {"rubric": "kind?", "model": "m", "price": {"input": 1, "output": 2}, "of": "reply"}
    part = {"judge": judge, "weight": 2, "name": "kind"}
    form = DraftForm({"id": "a", "evaluate": [part]}, FILES, single=True)
    rows = {row.label: row.text for row in form.blocks()[0].rows}
    assert rows["rubric"] == "kind?" and rows["judges the"] == "reply" and rows["weight"] == "2"
    form.put("part.0.rubric", "polite?")
    form.put("part.0.endpoint", "http://127.0.0.1:9/v1")
    (changed,) = form.data()["evaluate"]
    endpoint = {"rubric": "polite?", "endpoint": "http://127.0.0.1:9/v1"}
    assert changed == {**part, "judge": {**judge, **endpoint}}
    form.put("part.0.endpoint", "")
    assert "endpoint" not in form.data()["evaluate"][0]["judge"]
    of_call = {"judge": {"rubric": "r", "model": "m", "of": {"call": {"name": "list_files"}}}}
    kept = DraftForm({"id": "a", "evaluate": [of_call]}, FILES, single=True)
    kept.put("part.0.model", "n")
    assert kept.data()["evaluate"][0]["judge"]["of"] == of_call["judge"]["of"]
    fresh = DraftForm({"id": "a"}, FILES)
    fresh.add_part("judge")
    assert read_parts(fresh.data()["evaluate"])[1][0].field == "evaluate[0].judge.rubric"
    fresh.put("part.0.rubric", "r")
    fresh.put("part.0.model", "m")
    assert fresh.data()["evaluate"] == [{"judge": {"rubric": "r", "model": "m"}}]
    odd = DraftForm({"id": "a", "evaluate": [{"judge": "a"}]}, FILES, single=True)
    assert odd.data()["evaluate"] == [{"judge": "a"}]


def test_a_solution_has_rows_and_its_reply_stays_the_last() -> None:
    form = DraftForm({"id": "a"}, FILES)
    form.add_step()
    form.add_step(FILES.tools[0])
    form.add_step()
    form.put("step.0.call.path", "a")
    form.put("step.0.call.content", "x")
    form.put("step.1.reply", "done")
    steps = [{"name": "write_file", "arguments": {"path": "a", "content": "x"}}, {"reply": "done"}]
    assert form.data()["solution"] == steps
    odd = [{"name": "write_file"}, 7, {"reply": 1}, {"name": "x", "arguments": [1], "more": 2}]
    kept = DraftForm({"id": "a", "solution": odd}, FILES, single=True)
    assert kept.data()["solution"] == odd
    first = kept.blocks()[0]
    assert (first.kind, first.title) == ("step", "Solution: write_file")
    kept.remove(first)
    assert kept.data()["solution"] == odd[1:]


async def test_every_button_is_seen_on_a_small_screen(open_app: Any, project: Path) -> None:
    async with open_app(project, size=(80, 24)) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await until(pilot, lambda: "Write ^g" in screen_text(app))
        for name in ("setup", "expect", "variable", "solve", "remove", "test", "write"):
            assert page.query_one(f".dialog-buttons #{name}").region.right <= 78


async def test_a_judge_and_a_solution_by_keys(open_app: Any, project: Path) -> None:
    async with open_app(project) as (app, pilot):
        page = await opened(app, pilot, page_for())
        await type_text(pilot, "Go")
        await pilot.press("f3")
        await until(pilot, lambda: app.screen is not page)
        await type_text(pilot, "judges\n")
        await until(pilot, lambda: app.screen is page and len(page.form.parts) == 1)
        await type_text(pilot, "kind")
        await pilot.press("down")
        await type_text(pilot, "m")
        await pilot.press("f5")
        await until(pilot, lambda: app.screen is not page)
        await type_text(pilot, "last\n")
        await until(pilot, lambda: app.screen is page and len(page.form.steps) == 1)
        await type_text(pilot, "ok")
        await until(pilot, lambda: page.form.steps[0].texts["reply"] == "ok")
        task = (await made(pilot, page)).train[0]
        assert task["evaluate"] == [{"judge": {"rubric": "kind", "model": "m"}}]
        assert task["solution"] == [{"reply": "ok"}]


def test_lists_and_objects_begin_with_a_skeleton() -> None:
    form = DraftForm({"id": "a"}, FILES)
    form.add_setup(FILES.tools[2])
    assert form.setup[0].texts == {"edits": '[{"oldText": "", "newText": ""}]'}
    rows = {row.key: row for row in form.blocks()[0].rows}
    assert rows["setup.0.how"].choices == ("fast", "slow") and rows["setup.0.path"].required


def test_parameters_that_no_schema_lists_are_typed_as_words() -> None:
    form = DraftForm({"id": "a"}, FILES)
    form.add_setup(FILES.tools[5])
    form.put("setup.0.", "size=4 seed=${s} 'name=a b'")
    inner = {"size": 4, "seed": "${s}", "name": "a b"}
    assert form.data()["setup_tool"]["arguments"] == {"name": "board", "arguments": inner}


async def test_a_task_of_a_file_is_changed_and_copied(open_app: Any, project: Path) -> None:
    tasks = [{**TASK, "evaluate": TASK["evaluate"][:1]}, {**TASK, "id": "two"}]  # type: ignore[index]
    text = json.dumps(tasks, indent=1)
    Path("tasks.json").write_text(text)
    source = parse_source('{"files": {"command": "file-server", "args": ["data"]}}')
    save_analysis(source, FILES)
    async with open_app(project) as (app, pilot):
        await pilot.press("3")
        await until(pilot, lambda: app.screen.NAME == "dataset" and app.screen.open.complete)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, TaskPage))
        await type_text(pilot, "Now ")
        await pilot.press("ctrl+g")
        await until(pilot, lambda: "Now Keep" in Path("tasks.json").read_text())
        await until(pilot, lambda: not isinstance(app.screen, TaskPage))
        rows = json.loads(Path("tasks.json").read_text())
        assert rows == [{**tasks[0], "prompt": f"Now {TASK['prompt']}"}, tasks[1]]
        await until(pilot, lambda: app.screen.open.complete)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, TaskPage))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: len(json.loads(Path("tasks.json").read_text())) == 3)
        last = json.loads(Path("tasks.json").read_text())[2]
        assert last == {**rows[0], "id": "one-copy"}


async def test_without_known_tools_the_page_says_where_they_are_looked_at(
    open_app: Any, project: Path
) -> None:
    (project / "tasks.json").write_text(json.dumps([TASK]))
    async with open_app(project, size=(100, 40)) as (app, pilot):
        await pilot.press("3")
        await until(pilot, lambda: app.screen.NAME == "dataset" and app.screen.open.complete)
        await pilot.press("n")
        await until(pilot, lambda: isinstance(app.screen, TaskPage))
        await pilot.press("f2")
        await until(
            pilot, lambda: "The tools of these servers are not known yet" in screen_text(app)
        )
        assert isinstance(app.screen, TaskPage), "no empty list of choices"
