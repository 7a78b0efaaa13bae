"""How values are written on screens: JSON, wrapped lines with a lead, names that give way to
counts, and columns of bars."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.content import Content
from textual.widgets import Static

from hudtui.core.environment.values import ContentBlock, ToolResult
from hudtui.core.json_text import pretty
from hudtui.core.tasks.table import Bars, Lengths, TaskStats
from hudtui.tui.dataset.detail import stats_content
from hudtui.tui.widgets.hanging import Hanging


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    "value",
    [
        {
            "board": [[0, 0, 2], [4, 0, 0]],
            "note": "x",
            "deep": {"a": [1, "b", None], "empty": [], "none": {}},
        },
        [list(range(200)), ["a" * 80, "b"]],
        [{"a": 1}, {"a": [2]}],
        "text\nof two lines",
        None,
        [[[1]]],
    ],
)
def test_json_stays_what_it_is(value: Any) -> None:
    assert json.loads(pretty(value)) == value


def test_a_board_takes_one_line_a_row() -> None:
    assert pretty({"board": [[0, 0, 2], [4, 0, 0]]}).splitlines() == [
        "{",
        '  "board": [',
        "    [0, 0, 2],",
        "    [4, 0, 0]",
        "  ]",
        "}",
    ]
    assert pretty({1, 2}) == '"{1, 2}"'
    assert pretty({"loss": float("nan"), "calls": ((1, 2), Point(3, 4))}).splitlines()[1:3] == [
        '  "loss": NaN,',
        '  "calls": [',
    ]


@pytest.mark.parametrize(
    ("text", "structured", "twice"),
    [
        ('{"score": 4}', {"score": 4}, True),
        ("left", {"result": "left"}, True),
        ('{"score": 4}', {"score": 5}, False),
        ("You have 4.", {"score": 4}, False),
        ("", {"score": 4}, False),
        ("x", None, False),
    ],
)
def test_an_answer_that_says_the_same_twice(text: str, structured: Any, twice: bool) -> None:
    assert ToolResult((ContentBlock("text", text),), structured).repeats_text is twice


async def test_wrapped_lines_begin_below_the_first_word(screen_text: Any) -> None:
    class Host(App[None]):
        def compose(self) -> Any:
            yield Static(
                Hanging(
                    Content("✗  103 "),
                    Content("a finding that says more than fits on one line of this width"),
                )
            )

    app = Host()
    async with app.run_test(size=(30, 8)) as pilot:
        await pilot.pause()
        lines = [line for line in screen_text(app).splitlines() if line.strip()]
        assert lines[0].startswith("✗  103 a finding") and len(lines) > 2
        assert all(line.startswith(" " * 7) and line[7] != " " for line in lines[1:])


def test_bars_begin_and_end_at_the_same_columns_in_every_group() -> None:
    stats = TaskStats(
        20,
        Lengths(((1, 2, 3), (2, 1024, 17)), 1, 3, 9, 1000),
        (
            Bars("metadata.size", (("3", 12), ("4", 8))),
            Bars("a longer one", (("a rather long value", 20),)),
        ),
    )
    rows = [line for line in stats_content(stats, 80).plain.splitlines() if "█" in line]
    assert (
        len(rows) == 5
        and len({line.index("█") for line in rows}) == 1
        and len({len(line) for line in rows}) == 1
    )
    assert all(line.endswith("%") for line in rows) and " 12  60 %" in rows[2]


async def test_whole_ids_are_shown_where_there_is_room_and_what_broken_tasks_name(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    task = {
        "prompt": "p",
        "mcp_config": {"browser": {"command": "b"}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "judge_it"}},
        "system_prompt": "first line\nsecond line",
    }
    tasks: list[Any] = [
        {"id": f"browser_2048_512_without_help_{number}", **task} for number in range(3)
    ]
    tasks += [
        {**tasks[0], "prompt": 3, "id": "broken", "mcp_config": json.dumps({"desk": {}})},
        tasks[1],
        "text",
    ]
    (project / "tasks.json").write_text(json.dumps(tasks))
    async with open_app(project, size=(200, 40)) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        text = screen_text(app)
        assert all(f"browser_2048_512_without_help_{number} " in text for number in range(3))
        rows = [app.screen.open.index.row(number) for number in range(6)]
        assert [row.state for row in rows] == ["ok"] * 3 + ["error"] * 3
        assert [(row.servers, row.evaluator) for row in rows] == [
            *[("browser", "evaluate/judge_it")] * 3,
            ("desk", "evaluate/judge_it"),
            ("browser", "evaluate/judge_it"),
            ("", ""),
        ]
        shown = str(app.screen.query_one("#ds-task", Static).content)
        assert "first line\nsecond line" in shown and "\\n" not in shown
    async with open_app(project, size=(60, 20)) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        assert "browser_2048" in screen_text(app) and "✗ duplicate-id" in screen_text(app)


async def test_a_long_name_gives_way_to_the_errors(
    open_app: Any, project: Path, settle: Any, screen_text: Any
) -> None:
    name = "a_very_long_name_" * 6
    (project / "configs").mkdir()
    (project / "configs" / f"{name}.yaml").write_text("action_mappings:\n  a: {_tool: 3}\n")
    (project / f"{name}tasks.json").write_text(
        json.dumps([{"id": str(number), "prompt": 3} for number in range(7)])
    )
    async with open_app(project, size=(80, 24)) as (app, pilot):
        await pilot.press("2")
        await settle(pilot)
        title = str(app.screen.query_one("#map-file", Static).content)
        assert (
            "✓ saved" in title
            and "✗ 1" in title
            and len(title) <= app.screen.query_one("#map-file").size.width
        )
        await pilot.press("escape", "3")
        await settle(pilot)
        head = str(app.screen.query_one("#ds-head", Static).content)
        assert "✗ 7" in head and "tasks.json" in head and len(head) <= 78
