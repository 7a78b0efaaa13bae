"""`hudtui demo`.

A ready workspace around the bundled environment, opened in the app or walked through without a
screen.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudtui.cli import console
from hudtui.cli.command import top

if TYPE_CHECKING:
    from hudtui.core.demo import DemoResult


@top.command("demo")
def demo(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help=(
                "Where to make it; by default ./hudtui-demo, or the current folder if it is a demo "
                "workspace."
            ),
        ),
    ] = None,
    headless: Annotated[
        bool,
        typer.Option(
            "--headless", help="Go through all steps without the app, and print the rewards."
        ),
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="With --headless: print the results as one JSON document."),
    ] = False,
) -> None:
    """Make a workspace for the bundled game 2048, and open the app in it.

    Needs no account, GPU or container engine.
    An existing demo workspace is used again. Existing files are never changed.
    """
    if as_json and not headless:
        raise typer.BadParameter("--json goes with --headless", param_hint="--json")
    from hudtui.core.demo import DEFAULT_FOLDER, DemoWorkspace, is_demo, prepare

    folder = folder or (Path() if is_demo(Path()) else Path(DEFAULT_FOLDER))
    if not headless:
        workspace = console.run(
            console.outcome(
                prepare(folder), DemoWorkspace, lambda event: console.say(event.message)
            )
        )
        os.chdir(workspace.folder)
        from hudtui.tui.app import run_app

        raise typer.Exit(run_app(debug=console.debug))
    result = console.run(_walk(folder), as_json=as_json)
    if as_json:
        console.out_json(result.to_json())
        return
    for line in reward_table(result):
        console.out(line)


async def _walk(folder: Path) -> DemoResult:
    from hudtui.core.demo import DemoResult, DemoWorkspace, LogLine, RunBegun, walk
    from hudtui.core.events import Notice, Progress

    run: str | None = None
    over = False
    try:
        async with contextlib.aclosing(walk(folder)) as events:
            async for event in events:
                if isinstance(event, Progress):
                    console.say(f"{event.stage:<9} {event.message}")
                elif isinstance(event, Notice):
                    console.say(f"{event.severity}: {event.message}")
                elif isinstance(event, DemoWorkspace):
                    made = f"made {', '.join(event.created)}" if event.created else "used as it is"
                    console.say(f"{'workspace':<9} {console.shown(event.folder)}: {made}")
                elif isinstance(event, RunBegun):
                    run = event.run
                elif isinstance(event, LogLine):
                    console.say(f"{'':<9} | {event.text}")
                elif isinstance(event, DemoResult):
                    over = True
                    return event
    finally:
        if run is not None and not over:
            place = f"hudtui -C {console.shown(folder)} runs"
            console.say(
                f"see the run {run}: {place} show {run} (`{place} stop {run}` ends it if it is "
                "still running)"
            )
    raise AssertionError("walk ends with the result")


def reward_table(result: DemoResult) -> list[str]:
    """The rewards as lines of a table, with their mean."""
    rows = [("task", "reward", "turns", "best tile", "stop")]
    rows += [
        (
            row.task,
            f"{row.reward:.3f}",
            str(row.turns),
            "–" if row.best_tile is None else str(row.best_tile),
            row.stop,
        )
        for row in result.rows
    ]
    rows.append(("mean", f"{result.reward:.3f}", "", "", ""))
    return console.columns(rows, right=range(1, len(rows[0]) - 1))
