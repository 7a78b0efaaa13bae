from __future__ import annotations

import asyncio
import json
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest
from support import at_rest
from support.waiting import told, until

from hudtui.core.environment.cache import save_analysis
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import Analysis, Server, Tool
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.table import TaskIndex
from hudtui.core.workspace import save_dataset_name
from hudtui.tui.app import HudtuiApp
from hudtui.tui.dataset.dialogs import MakeDialog, OpenDialog
from hudtui.tui.dataset.rows import ProblemRows
from hudtui.tui.dataset.screen import DatasetScreen
from hudtui.tui.services import Services
from hudtui.tui.widgets.pick import Pick
from hudtui.tui.widgets.tick import Tick
from hudtui.tui.widgets.virtual_table import Column, VirtualTable

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ANALYSIS = Analysis(
    "text-2048",
    Server("text-2048", "1.0.0"),
    None,
    (Tool("setup"), Tool("evaluate"), Tool("move")),
    {},
    analyzed_at="2026-11-20T11:00:00+00:00",
)


def good(number: int, **changes: Any) -> dict[str, Any]:
    task = {
        "id": f"board-{number}",
        "prompt": f"Play 2048 and reach the tile {2 ** (number % 5 + 5)}."
        + " Take care." * (number % 7),
        "mcp_config": {
            "text-2048": {"command": "python3", "args": ["-m", "hudtui.envs.text_2048"]}
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": number}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
        "metadata": {"category": ["easy", "hard"][number % 2], "seed": number},
    }
    return {key: value for key, value in {**task, **changes}.items() if value is not ...}


SECRET = {
    "hud": {
        "url": "https://mcp.hud.so/v3/mcp",
        "headers": {"Authorization": "Bearer sk-live-0123456789abcdef"},
    }
}


@pytest.fixture
def mixed(project: Path) -> Path:
    """A project with good, doubtful and broken tasks."""
    tasks = [good(number) for number in range(8)]
    tasks[2] = good(2, prompt=...)
    tasks[3] = good(3, mcp_config=SECRET)
    tasks[5] = good(4)
    tasks[6] = {"id": "old", "env": {"name": "x"}, "scenario": "y"}
    (project / "tasks.json").write_text(json.dumps(tasks, indent=1))
    return project


def app_of(folder: Path) -> HudtuiApp:
    return HudtuiApp(folder, services=Services(now=lambda: NOON))


def read_so_far(app: Any) -> TaskIndex | None:
    """What the dataset screen has read; None while another screen is shown."""
    return app.screen.open.index if app.screen.NAME == "dataset" else None


async def previewed(pilot: Any) -> None:
    await until(
        pilot,
        lambda: (
            isinstance(pilot.app.screen, MakeDialog)
            and bool(pilot.app.screen.query("#make-preview"))
        ),
    )
    dialog = pilot.app.screen
    shown = dialog.query_one("#make-preview")
    await until(
        pilot,
        lambda: dialog._timer is None and any(mark in str(shown.content)[:2] for mark in "✓✗"),
    )
    await pilot.pause()


# -- the picture, and the words of other states
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(160, 45), (80, 24), (60, 20)])
def test_picture_full(snap: Any, mixed: Path, size: tuple[int, int]) -> None:
    save_analysis(parse_source("text-2048", folder=mixed), ANALYSIS)
    assert snap(app_of(mixed), size=size, press=["3", "down"])


def test_picture_statistics(snap: Any, mixed: Path, size: tuple[int, int]) -> None:
    assert snap(app_of(mixed), size=size, press=["3", "i"])


async def test_without_a_task_file_the_screen_says_where_one_comes_from(
    says: Any, project: Path
) -> None:
    words = (
        "No task file was found in this project.",
        "o names one, or a dataset on the Hub; 1, then n, makes one for an environment",
    )
    await says(app_of(project), *words, press=["3"])


HEAD = "8 tasks ✓ 4 ok ! 1 warning ✗ 3 errors"
CONVERT = (
    "Convert to a dataset: tasks.json",
    "write to tasks.parquet",
    "servers – 4 local, and no lock file names",
    "at least Duplicate tasks under new ids up to",
    "✓ 5 rows: 5 in train; 3 unusable left out",
    "columns id, prompt, mcp_config, setup_tool, evalua",
    "row 0 id board-0 prompt Play 2048 and reach the tile 32.",
    "Write (^g) Cancel (Esc)",
)
PUBLISH = (
    "Publish on the Hugging Face Hub: tasks.json",
    "name demo-tasks",
    "private [x] Only you and your organisation",
    "write to Local result: .parquet, .jsonl,",
    "✓ 5 rows: 5 in train; 3 unusable left out",
    "✗ no token for the Hub: set HF_TOKEN in the setting",
    "Publish (^g) Cancel (Esc)",
)


@pytest.mark.parametrize(
    ("press", "words"),
    [
        pytest.param(
            ("down", "down", "enter"),
            (
                HEAD,
                "board-2 task 2, line 74 ✗ error",
                "✗ error prompt: required: it tells the agent what to do",
                "In the file excluded from datasets until fixed; secrets hidden",
                '"command": "python3", "args": ["-m", "hudtui.envs.text_2048"]',
            ),
            id="broken task",
        ),
        pytest.param(
            ("l", "j"),
            (
                "Problems 4",
                "✗ error board-2 prompt: required: it tells the a",
                "! warning board-3 mcp_config.hud.headers.Authoriza",
                "✗ error board-4 id: task 4 has this id already",
                "✗ error task-0006 this is a HUD v5 task (scenario",
                "! warning mcp_config.hud.headers.Authorization: a secret (…cdef) is written "
                "out here; write ${HUD_API_KEY} instead",
            ),
            id="problems",
        ),
        pytest.param(
            ("p", "slash", *"requ"),
            (
                HEAD,
                "No task fits: Esc in the search, or p, shows others.",
                "0 of 8 with problems matching “requ”",
                "Enter To the list Esc Clear filter",
            ),
            id="filtered",
        ),
        pytest.param(("c",), CONVERT, id="convert"),
        pytest.param(("P",), PUBLISH, id="publish"),
    ],
)
async def test_the_words_of_a_state(
    says: Any, mixed: Path, press: tuple[str, ...], words: tuple[str, ...]
) -> None:
    asked = words in (CONVERT, PUBLISH)
    await says(app_of(mixed), *words, press=["3", *press], run_before=previewed if asked else None)


async def test_tasks_are_listed_while_the_file_is_read(
    says: Any, mixed: Path, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudtui.core.tasks import table

    real = table.read_into

    def half(index: TaskIndex, opened: Any, stop: Any, told: Any) -> bool:
        real(index, opened, stop, told)
        index.size = index.done * 3
        stop.wait(20)
        return False

    class Unwatched(WeakSet[Any]):
        def add(self, item: Any) -> None:
            """No pause waits for a thread: the one that reads waits for the end of the app."""

    monkeypatch.setattr(table, "read_into", half)
    monkeypatch.setattr(at_rest, "_threads", Unwatched())

    async def begun(pilot: Any) -> None:
        await pilot.press("3")
        await until(
            pilot,
            lambda: all(
                words in screen_text(pilot.app) for words in ("reading 33 %", "✗ 3 da", "board-7")
            ),
        )

    words = (
        "✓ 4 ! 1 ✗ 3 ● reading 33 %",
        "board-2 ✗ missing",
        "board-3 ! warning Play 2048 and reach the tile",
        "task-0006 ✗ generation",
        "calls not checked: no environment was analyzed yet",
    )
    await says(app_of(mixed), *words, run_before=begun, wait=False)


async def test_without_a_task_the_key_for_a_new_one_says_where_one_is_made(
    open_app: Any, project: Path, settle: Any
) -> None:
    (project / "tasks.json").write_text("[]")
    async with open_app(project) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("n")
        await pilot.pause()
        assert app.screen.message.endswith("1, then n, makes one for an environment")


async def test_a_file_that_is_cut_off_is_said(says: Any, project: Path) -> None:
    (project / "tasks.json").write_text(
        '[{"id": "a", "prompt": "x", "evaluate_tool": {"name": "e"}, "mcp_config": {"a": {"com'
    )

    async def failed(pilot: Any) -> None:
        screen = pilot.app.screen
        await until(
            pilot,
            lambda: (
                screen.open.source is not None
                and not screen.open.reading
                and "cut off" in screen.message
            ),
        )

    words = (
        "0 tasks ✓ 0 ! 0 ✗ 0 ✗ not read to the end",
        "No task was read.",
        "✗ error: tasks.json:1: the file ends in the middle of the array: it was cut off, or a "
        "bracket or a quote is missing",
    )
    await says(app_of(project), *words, press=["3"], run_before=failed)


# -- the table
# --------------------------------------------------------------------------------------------------


async def test_a_task_says_what_it_expects(project: Path, says: Any) -> None:
    answer = {"name": "read_text_file", "arguments": {"path": "words.txt"}}
    parts = [
        {"call": answer, "expect": {"contains": "delta"}, "weight": 0.6},
        {"turns": {"most": 5}, "weight": 0.1},
        {"judge": {"rubric": "Is it polite?", "model": "m", "endpoint": "http://10.0.0.5/v1"}},
    ]
    servers = {"files": {"command": "npx", "args": ["files", "."]}}
    task = {"id": "a", "prompt": "Write delta.", "mcp_config": servers, "evaluate": parts}
    (project / "tasks.json").write_text(json.dumps([task]))
    lines = ("read_text_file read_text_file(words.txt) contains delta 0.6",)
    asked = "judge judge: Is it polite? m at http://10.0.0.5/v1 1"
    words = (*lines, "is at most 5 0.1", asked)
    text = await says(app_of(project), *words, press=["3"], size=(160, 45))
    assert "kept" not in text


async def test_a_task_shows_its_solution_to_the_user(project: Path, says: Any) -> None:
    servers = {"files": {"command": "npx", "args": ["files", "."]}}
    parts = [{"reply": {"contains": "delta"}}]
    read = {"name": "read_text_file", "arguments": {"path": "words.txt"}}
    task = {"id": "a", "prompt": "Which?", "mcp_config": servers, "evaluate": parts}
    task["solution"] = [read, {"reply": "It is delta."}]
    (project / "tasks.json").write_text(json.dumps([task]))
    lines = ("Solution never shown to the agent", "read_text_file", "words.txt", "It is delta.")
    text = await says(app_of(project), *lines, press=["3"], size=(160, 45))
    assert "kept" not in text


async def test_a_file_is_opened_and_every_task_is_there(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        assert (
            screen.open.complete
            and screen.open.source == "tasks.json"
            and screen.tasks.table.count == 8
        )
        whole = read_tasks(mixed / "tasks.json")
        usable = screen.open.index.counts["ok"] + screen.open.index.counts["warning"]
        assert usable == len(whole.tasks) == 5
        text = screen_text(app)
        assert (
            "8 tasks" in text
            and "✓ 4 ok" in text
            and "! 1 warning" in text
            and "✗ 3 errors" in text
        )
        assert (
            screen.open.index.row(5).problem == "duplicate-id"
            and "✗ duplicate-id" in text
            and "id: task 4 has" in text
        )


async def test_filters_go_round_and_the_search_narrows(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        seen = []
        for _ in range(8):
            await pilot.press("p")
            await settle(pilot)
            seen.append((screen.tasks.filter, screen.tasks.table.count))
        assert seen[:3] == [(("problems",), 4), (("error",), 3), (("warning",), 1)]
        assert (("error", "duplicate-id"), 1) in seen and ((), 8) in seen
        while screen.tasks.filter:
            await pilot.press("p")
            await settle(pilot)
        await pilot.press("slash", *"board-4")
        await settle(pilot)
        assert screen.tasks.table.count == 2 and "2 of 8" in screen_text(app)
        await pilot.press("enter", "down")
        await settle(pilot)
        assert screen.tasks.chosen == 5
        await pilot.press("slash", *"zzz")
        await settle(pilot)
        assert screen.tasks.table.count == 0 and "No task fits" in screen_text(app)
        await pilot.press("enter", "escape")
        await settle(pilot)
        assert (
            screen.tasks.table.count == 8
            and not screen.query_one("#ds-search").display
            and app.screen is screen
        )


async def test_sorting_goes_through_the_columns_and_keeps_the_task(
    open_app: Any, mixed: Path, settle: Any
) -> None:
    async with open_app(mixed, size=(160, 40)) as (app, pilot):
        await pilot.press("3", "down", "down", "down")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        assert screen.tasks.chosen == 3
        await pilot.press("s", "s", "s", "S")
        await settle(pilot)
        assert screen.tasks.sort == ("prompt", True) and screen.tasks.chosen == 3
        lengths = [screen.open.index.row(screen.tasks.rows.task(row)).length for row in range(8)]
        assert lengths == sorted(lengths, reverse=True)
        assert screen.tasks.rows.task(screen.tasks.table.cursor) == 3
        await pilot.click(VirtualTable, offset=(12, 0))
        await settle(pilot)
        assert screen.tasks.sort == ("id", False)


async def test_problems_jump_to_their_task(open_app: Any, mixed: Path, settle: Any) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3", "right_curly_bracket")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        assert screen.tasks.chosen == 2
        await pilot.press("right_curly_bracket", "right_curly_bracket")
        await settle(pilot)
        assert screen.tasks.chosen == 5
        await pilot.press("left_curly_bracket")
        await settle(pilot)
        assert screen.tasks.chosen == 3
        await pilot.press("p", "p", "p")  # only warnings
        await settle(pilot)
        assert screen.tasks.table.count == 1
        await pilot.press("l", "G", "enter")
        await settle(pilot)
        rows = screen.query_one("#ds-problems", VirtualTable).rows
        assert (
            isinstance(rows, ProblemRows) and screen.tasks.chosen == rows.task(len(rows) - 1) == 6
        )
        assert screen.tasks.table.count == 8 and screen.tasks.table.cursor == 6  # the filter hid it
        await pilot.press("right_curly_bracket")
        await settle(pilot)
        assert screen.tasks.chosen == 2 and "beginning" in screen.message


async def test_details_mask_secrets_and_copies_do_too(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(mixed, size=(160, 60)) as (app, pilot):
        await pilot.press("3", "down", "down", "down")
        await settle(pilot)
        text = screen_text(app)
        assert "Bearer …cdef" in text and "0123456789" not in text
        copied: list[str] = []
        monkeypatch.setattr(app, "copy", copied.append)
        await pilot.press("y")
        await settle(pilot)
        assert json.loads(copied[0])["id"] == "board-3" and "0123456789" not in copied[0]


async def test_a_change_outside_is_noticed(open_app: Any, mixed: Path, settle: Any) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3", "down")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        (mixed / "tasks.json").write_text(json.dumps([good(number) for number in range(11)]))
        await screen._look_outside()
        await settle(pilot)
        assert (
            screen.open.index.counts == {"ok": 11, "warning": 0, "error": 0}
            and screen.tasks.chosen == 1
        )
        assert "has changed" in screen.message


async def test_reading_can_be_cancelled_and_begun_again(
    open_app: Any, mixed: Path, settle: Any, monkeypatch: pytest.MonkeyPatch, screen_text: Any
) -> None:
    from hudtui.core.tasks import table

    real = table.read_into

    def slow(index: TaskIndex, opened: Any, stop: Any, told: Any) -> bool:
        return real(index, opened, stop, told) and not stop.wait(30)

    monkeypatch.setattr(table, "read_into", slow)
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await until(
            pilot,
            lambda: read_so_far(app) is not None and app.screen.tasks.table.count == 8,
        )
        screen: DatasetScreen = app.screen
        assert screen.open.reading and screen.why_not("list.sort") is not None
        await pilot.press("ctrl+x")
        await settle(pilot)
        assert (
            not screen.open.reading
            and not screen.open.complete
            and "not read to the end" in screen_text(app)
        )
        monkeypatch.setattr(table, "read_into", real)
        await pilot.press("r")
        await settle(pilot)
        assert screen.open.complete


async def test_a_file_that_breaks_under_a_filter_blames_no_filter(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3", "p")
        await settle(pilot)
        assert app.screen.tasks.filter == ("problems",) and app.screen.tasks.table.count
        for text, said in (('[{"id": "a", "pro', "No task was read."), ("[]", "There is no task.")):
            (mixed / "tasks.json").write_text(text)
            await pilot.press("r")
            await settle(pilot)
            assert said in screen_text(app) and "No task fits" not in screen_text(app)


async def test_a_reading_that_was_cancelled_does_not_end_the_next(
    open_app: Any, mixed: Path, settle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudtui.core.tasks import table

    real, go, begun = table.read_into, threading.Event(), []

    def slow(index: TaskIndex, opened: Any, stop: Any, told: Any) -> bool:
        begun.append(index)
        while not (go.is_set() or stop.is_set()):
            stop.wait(0.01)
        return real(index, opened, stop, told)

    monkeypatch.setattr(table, "read_into", slow)
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await until(pilot, lambda: len(begun) == 1)
        screen: DatasetScreen = app.screen
        await pilot.press("r")
        await until(pilot, lambda: len(begun) == 2 and len(screen.going("read")) == 1)
        await pilot.pause()
        assert screen.open.reading and not screen.open.complete
        go.set()
        await settle(pilot)
        assert not screen.open.reading and screen.open.complete and screen.open.index.total == 8


async def test_calls_are_checked_against_the_last_environment(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    save_analysis(
        parse_source("text-2048", folder=mixed),
        replace(ANALYSIS, tools=(Tool("setup"), Tool("judge"))),
    )
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        # board-3 runs on a server of its own: what text-2048 has says nothing of it
        assert screen.open.index.counts["error"] == 7 and "calls of 1 task " in screen_text(app)
        await pilot.press("v")
        await settle(pilot)
        assert screen.open.index.counts["error"] == 3 and "v switches that on" in screen_text(app)


async def test_tasks_on_another_server_are_not_judged_by_the_last_environment(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    config = {
        "hud": {
            "url": "https://mcp.hud.so/v3/mcp",
            "headers": {"Mcp-Image": "hudevals/hud-browser:0.1.6"},
        }
    }
    tasks = [
        good(number, mcp_config=config, setup_tool={"name": "launch_app", "arguments": {}})
        for number in range(3)
    ]
    (project / "tasks.json").write_text(json.dumps(tasks))
    save_analysis(parse_source("text-2048", folder=project), ANALYSIS)
    async with open_app(project, size=(160, 45)) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        assert screen.open.index.counts["error"] == 0 and len(screen.open.index.problems) == 0
        assert (
            "Calls not checked: these tasks use hud-browser; last analyzed: text-2048"
            in screen_text(app)
        )
        assert all(
            screen.why_not(f"dataset.{name}") is None for name in ("test", "convert", "publish")
        )
        await pilot.press("c")
        await previewed(pilot)
        assert "3 rows" in str(app.screen.query_one("#make-preview").content)


# -- opening
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\x7fELF\0\1\2binary", b"[]", b'{"what": 1}'])
async def test_nothing_of_the_file_before_is_shown_for_a_bad_one(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any, content: bytes
) -> None:
    (mixed / "bad.data").write_bytes(content)
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3", "right_curly_bracket", "l", "i")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        app.open_screen("dataset", path=mixed / "bad.data")
        await settle(pilot)
        assert screen.open.source == "bad.data" and (
            screen.open.index is None
            or not screen.open.index.total
            or screen.open.index.counts["error"]
        )
        for view in ("task", "stats", "test"):
            screen.show_view(view)
            await settle(pilot)
            text = screen_text(app)
            assert "board-" not in text and "tasks.json" not in text and "8 tasks" not in text


async def test_a_path_that_does_not_exist_leaves_what_is_open(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        app.open_screen("dataset", path=mixed / "nosuch.json")
        await settle(pilot)
        assert "there is no such file" in screen.message and screen.open.source == "tasks.json"
        assert "tasks.json" in screen_text(app).splitlines()[2] + screen_text(app).splitlines()[3]
        assert screen.open.complete and screen.tasks.table.count == 8
        await pilot.press("r")
        await settle(pilot)
        assert screen.open.complete and screen.tasks.table.count == 8


async def test_another_file_is_picked_or_named(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    (mixed / "more_tasks.jsonl").write_text(json.dumps(good(77)) + "\n")
    (mixed / "plain.data").write_text(json.dumps(good(78)))
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        first = screen.open.source
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, OpenDialog))
        await pilot.press("down" if first == "more_tasks.jsonl" else "up", "enter")
        await settle(pilot)
        assert {first, screen.open.source} == {"tasks.json", "more_tasks.jsonl"}
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, OpenDialog))
        await pilot.press(*"plain", "full_stop", *"data", "enter")
        await settle(pilot)
        assert screen.open.source == "plain.data" and screen.open.index.row(0).id == "board-78"
        app.open_screen("dataset", path=mixed / "nothing.json")
        await settle(pilot)
        assert "there is no such file" in screen.message and "nothing.json" in screen_text(app)


@pytest.mark.parametrize("locked", [True, False])
async def test_the_dataset_of_the_project_is_among_those_to_open(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any, locked: bool
) -> None:
    if locked:
        (mixed / "hud.lock.yaml").write_text(
            "image: a/b:1\nprimary_dataset: {name: someone/games}\n"
        )
    else:
        save_dataset_name(mixed, "someone/games", 3, datetime.now(UTC))
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, OpenDialog))
        assert "someone/games  dataset of this project, on the Hub" in screen_text(app)
        assert "tasks.json" in screen_text(app)


async def test_a_lock_file_that_names_no_possible_dataset_keeps_no_file_from_being_opened(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    (mixed / "hud.lock.yaml").write_text(f"image: a/b:1\nprimary_dataset: {{name: {'x' * 400}}}\n")
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, OpenDialog))
        assert "tasks.json" in screen_text(app)


async def test_scenarios_are_written_for_hud_v6(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    tasks = [
        {"env": {"name": "shop"}, "scenario": name, "args": {"items": 3}}
        for name in ("checkout", "login")
    ]
    before = json.dumps(tasks)
    (project / "old.json").write_text(before)
    async with open_app(project) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen: DatasetScreen = app.screen
        assert screen.open.source == "old.json" and screen.open.index.counts["error"] == 2
        assert "6 writes v5 tasks for HUD v6" in screen_text(app)
        await pilot.press("c")
        assert "no task can be used" in screen.message
        await pilot.press("6")
        await until(pilot, lambda: app.screen is not screen)
        await pilot.press("enter")
        await until(pilot, lambda: told(app, "Wrote old-v6.json: 2 of 2 tasks"))
    written = json.loads((project / "old-v6.json").read_text())
    assert [(task["env"], task["id"], task["args"]) for task in written] == [
        ("shop", "checkout", {"items": 3}),
        ("shop", "login", {"items": 3}),
    ]
    assert (project / "old.json").read_text() == before


async def test_actions_say_why_they_cannot(
    open_app: Any, project: Path, mixed: Path, settle: Any
) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3", "down", "down", "T")
        await settle(pilot)
        assert "cannot be used as it is" in app.screen.message
        (mixed / "tasks.json").write_text(json.dumps([{"id": "x", "prompt": 3, "mcp_config": {}}]))
        await pilot.press("r")
        await settle(pilot)
        await pilot.press("c")
        await settle(pilot)
        assert "no task can be used" in app.screen.message


# -- testing
# --------------------------------------------------------------------------------------------------


async def _test_first(app: Any, pilot: Any, settle: Any) -> str:
    await pilot.press("3")
    await settle(pilot)
    await pilot.press("T")
    await until(pilot, lambda: app.screen.is_modal)
    await pilot.press("enter")
    await settle(pilot)
    return str(app.screen.query_one("#ds-test").content)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "setup and evaluation work: reward 0."),
        ({"setup_tool": {"name": "setup", "arguments": {"name": "bored"}}}, "the setup failed"),
        (
            {"evaluate_tool": {"name": "evaluate", "arguments": {"name": "nothing_such"}}},
            "the evaluator is broken",
        ),
        (
            {
                "mcp_config": {"bare": {"command": sys.executable, "args": ["bare.py"]}},
                "setup_tool": ...,
                "evaluate_tool": {"name": "judge"},
            },
            "the evaluator returned no",
        ),
        ({"mcp_config": {"a": {"command": "/no/such/program"}}}, "the environment failed"),
        (
            {
                "setup_tool": {
                    "name": "setup",
                    "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": 2}},
                },
                "evaluate_tool": {
                    "name": "evaluate",
                    "arguments": {"name": "max_number", "arguments": {"target": 4}},
                },
            },
            "full marks without a move",
        ),
    ],
)
async def test_a_task_is_tried_for_real(
    open_app: Any, project: Path, settle: Any, changes: dict[str, Any], said: str
) -> None:
    config = {"text-2048": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}}
    (project / "bare.py").write_text(
        "from mcp.server import MCPServer\nserver = MCPServer('bare')\n"
        "@server.tool()\ndef judge() -> str:\n    return 'looks fine'\nserver.run()\n"
    )
    (project / "tasks.json").write_text(json.dumps([good(1, **{"mcp_config": config, **changes})]))
    async with open_app(project) as (app, pilot):
        shown = await _test_first(app, pilot, settle)
        assert said in shown
        assert said in app.screen.message


# -- auditing
# --------------------------------------------------------------------------------------------------


async def test_an_audit_shows_its_findings_and_opens_the_episode_of_one(
    open_app: Any, project: Path, settle: Any, screen_text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"text-2048": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}}
    easy = {"name": "max_number", "arguments": {"target": 4}}
    task = good(1, mcp_config=config, evaluate_tool={"name": "evaluate", "arguments": easy})
    (project / "tasks.json").write_text(json.dumps([task]))
    moves = "".join(
        f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n" for name in ("left", "up")
    )
    (project / "c.yaml").write_text(f"defaults: {{max_turns: 3}}\naction_mappings:\n{moves}")
    async with open_app(project) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        screen = app.screen
        await pilot.press("A")
        await until(pilot, lambda: app.screen.is_modal)
        assert "Audit the grader?" in screen_text(app)
        told: list[str] = []
        busy = screen.busy
        monkeypatch.setattr(screen, "busy", lambda words: (told.append(words), busy(words)))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, Pick))
        assert any("Audit: players that never look, " in words for words in told)
        folder = next((project / "outputs").iterdir())
        assert screen.message.startswith(
            "The audit says unsound: what a training would be misled by"
        )
        assert screen.message.endswith(f"kept in outputs/{folder.name}/audit.json.")
        await pilot.pause()
        shown = screen_text(app)
        assert "Audit: unsound" in shown and "high" in shown
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.NAME == "results")
        results = app.screen
        file = next((project / "outputs").glob("*/audit.json"))
        proof = json.loads(file.read_text())["findings"][0]["evidence"][0]
        await until(pilot, lambda: results.chosen_entry is not None)
        await until(pilot, lambda: results.chosen_entry.number == proof["number"])


# -- making
# --------------------------------------------------------------------------------------------------


async def test_converting_previews_writes_and_names_it_in_the_lock(
    open_app: Any, mixed: Path, settle: Any, screen_text: Any
) -> None:
    lock = mixed / "hud.lock.yaml"
    lock.write_text("image: my-org/my-env@sha256:" + "0" * 64 + "\n")
    async with open_app(mixed, size=(120, 40)) as (app, pilot):
        await pilot.press("3", "c")
        await previewed(pilot)
        dialog: MakeDialog = app.screen
        assert "5 rows" in str(dialog.query_one("#make-preview").content)
        assert "0123456789" not in str(dialog.query_one("#make-preview").content)
        dialog.query_one("#make-remote", Tick).toggle()
        dialog.query_one("#make-min_tasks").value = "7"
        await pilot.pause()
        await previewed(pilot)
        shown = str(dialog.query_one("#make-preview").content)
        assert "7 rows" in shown and "2 copies" in shown and "Mcp-Image" in shown
        await pilot.press("ctrl+g")
        await settle(pilot)
        message = app.screen.message
        assert (
            "Wrote tasks.parquet: 7 in train; 3 unusable left out; 2 copies; hud.lock.yaml names "
            "it." in message
        )
        found = read_tasks(mixed / "tasks.parquet")
        assert len(found.tasks) == 7 and all("hud" in task.mcp_config for task in found.tasks)
        assert "0123456789" not in (mixed / "tasks.parquet").read_bytes().decode("latin-1")
        assert "task_count: 7" in lock.read_text() and app.facts.dataset == "tasks.parquet"


async def test_a_bad_filter_is_said_in_the_dialog(open_app: Any, mixed: Path, settle: Any) -> None:
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3", "c")
        await previewed(pilot)
        dialog: MakeDialog = app.screen
        dialog.query_one("#make-filters").value = "metadata.n:<x"
        await pilot.press("ctrl+g")
        await pilot.pause()
        assert app.screen is dialog and "not a number" in str(
            dialog.query_one("#make-preview").content
        )
        dialog.query_one("#make-filters").value = "metadata.category:easy"
        await pilot.pause()
        await previewed(pilot)
        assert "2 rows" in str(dialog.query_one("#make-preview").content)
        assert "3 filtered out" in str(dialog.query_one("#make-preview").content)
        await pilot.press("escape")
        await settle(pilot)
        assert not list(mixed.glob("*.parquet"))


async def test_a_file_in_the_way_is_asked_about(open_app: Any, mixed: Path, settle: Any) -> None:
    (mixed / "tasks.parquet").write_text("mine")
    async with open_app(mixed) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("c")
        await previewed(pilot)
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen.is_modal and not isinstance(app.screen, MakeDialog))
        await pilot.press("n")
        await settle(pilot)
        assert (mixed / "tasks.parquet").read_text() == "mine"


async def test_publishing_without_a_token_says_so_in_place(
    open_app: Any, mixed: Path, settle: Any
) -> None:
    async with open_app(mixed, size=(120, 40)) as (app, pilot):
        await pilot.press("3", "P")
        await previewed(pilot)
        dialog = app.screen
        assert "no token for the Hub" in str(dialog.query_one("#make-preview").content)
        dialog.query_one("#make-name").value = "my-org/my-tasks"
        dialog.query_one("#make-shuffle", Tick).toggle()
        await pilot.press("ctrl+g")
        await settle(pilot)
        assert app.screen is dialog and "no token for the Hub" in str(
            dialog.query_one("#make-preview").content
        )
        await pilot.press("escape")
        await settle(pilot)
        await pilot.press("P")
        await previewed(pilot)
        dialog = app.screen
        assert (
            dialog.query_one("#make-name").value == "my-org/my-tasks"
            and dialog.query_one("#make-shuffle", Tick).value
        )


async def test_no_task_is_repeated_unasked(open_app: Any, project: Path, settle: Any) -> None:
    (project / "tasks.json").write_text(json.dumps([good(1)]))
    async with open_app(project, size=(120, 40)) as (app, pilot):
        await pilot.press("3", "c")
        await previewed(pilot)
        assert app.screen.query_one("#make-min_tasks").value == ""
        assert "1 rows" in str(app.screen.query_one("#make-preview").content)
        app.screen.query_one("#make-min_tasks").value = "4"
        await pilot.pause()
        await previewed(pilot)
        assert "! 3 rows are copies of other tasks" in str(
            app.screen.query_one("#make-preview").content
        )


@pytest.mark.parametrize("asked", [False, True])
async def test_tasks_from_elsewhere_are_named_in_the_lock_file_only_when_asked(
    open_app: Any, mixed: Path, settle: Any, tmp_path: Path, asked: bool
) -> None:
    lock = mixed / "hud.lock.yaml"
    lock.write_text("image: my-org/my-env@sha256:" + "0" * 64 + "\n")
    (tmp_path / "theirs.json").write_text(json.dumps([good(number) for number in range(5)]))
    async with open_app(mixed, size=(120, 40)) as (app, pilot):
        app.open_screen("dataset", path=tmp_path / "theirs.json")
        await settle(pilot)
        await pilot.press("c")
        await previewed(pilot)
        toggle = app.screen.query_one("#make-name_in_lock", Tick)
        assert not toggle.value
        if asked:
            toggle.toggle()
            await pilot.pause()
            await previewed(pilot)
        await pilot.press("ctrl+g")
        await settle(pilot)
        assert "Wrote theirs.parquet" in app.screen.message
        assert ("primary_dataset" in lock.read_text()) is asked


# -- the widget
# --------------------------------------------------------------------------------------------------


class Numbers:
    """A million rows that count how often they are asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.asked = count, 0

    def __len__(self) -> int:
        return self.count

    def cells(self, row: int) -> tuple[str, tuple[str, str]]:
        self.asked += 1
        return f"row {row}", ("[red]not markup[/]\x1b[31m", "table--error")


async def test_a_million_rows_ask_only_for_what_is_in_sight(screen_text: Any) -> None:
    from textual.app import App

    rows = Numbers(1_000_000)
    table = VirtualTable(
        (
            Column("a", "first", 12),
            Column("b", "second", 10, flexible=1),
            Column("c", "wide", 5, from_width=200),
        )
    )

    class Host(App[None]):
        def compose(self) -> Any:
            yield table

    app = Host()
    async with app.run_test(size=(60, 20)) as pilot:
        table.show(rows)
        table.focus()
        await pilot.pause()
        await pilot.press("G")
        await pilot.pause()
        assert table.cursor == 999_999
        text = screen_text(app)
        assert (
            "row 999999" in text
            and "first" in text
            and "wide" not in text
            and "[red]not markup[/]" in text
        )
        await pilot.press("g", "pagedown", "j", "k", "down")
        await pilot.pause()
        assert 0 < table.cursor < 30
        asked = rows.asked
        table.scroll_to(y=500_000, animate=False, immediate=True)
        await pilot.pause()
        assert "row 500000" in screen_text(app)
        assert rows.asked - asked < 400
        table.show(Numbers(0))
        await pilot.pause()
        assert "Nothing here." in screen_text(app) and table.cursor == 0


async def test_rows_that_come_later_do_not_move_the_cursor() -> None:
    from textual.app import App

    rows, told = Numbers(10), []

    class Host(App[None]):
        def compose(self) -> Any:
            yield VirtualTable((Column("a", "first", 12), Column("b", "second", 10, flexible=1)))

        def on_virtual_table_highlighted(self, event: VirtualTable.Highlighted) -> None:
            told.append(event.row)

    async with Host().run_test(size=(40, 8)) as pilot:
        table = pilot.app.query_one(VirtualTable)
        table.show(rows, cursor=4)
        await pilot.pause()
        rows.count = 100_000
        table.took()
        await pilot.pause()
        assert table.cursor == 4 and table.count == 100_000 and told == [4]
        await pilot.resize_terminal(30, 6)
        await pilot.pause()
        assert table.cursor == 4 and told == [4]
        await asyncio.sleep(0)
