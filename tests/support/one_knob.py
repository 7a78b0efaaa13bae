"""hudtui with one option more, which is declared and nothing else:
`python one_knob.py JobOptions|RunRequest` in a project.

Prints a JSON object with what the option does at each place where a user meets options.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import importlib.util
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hudtui.core.knobs import knob
from hudtui.core.training import options


def _declared_in(kind: type) -> Any:
    """The class with the option `curriculum`."""
    choices = (("easy tasks first", "easy"), ("any order", "random"))
    about = {
        "choices": choices,
        "unset": "as they are listed",
        "when": options.trains,
        "group": options.TRAINING,
    }
    curriculum = (
        "curriculum",
        str | None,
        knob(None, "Order of the tasks of a training.", "--curriculum", **about),
    )
    return dataclasses.make_dataclass(
        kind.__name__, [curriculum], bases=(kind,), frozen=True, kw_only=True
    )


def declare(kind: str) -> None:
    """Give a class the option, before the modules are imported that take the class from its
    module."""
    module = (
        options if kind == "JobOptions" else importlib.import_module("hudtui.core.runs.request")
    )
    setattr(module, kind, _declared_in(getattr(module, kind)))


async def _until(pilot: Any, true: Callable[[], Any]) -> None:
    for _ in range(1200):
        if true():
            return
        await pilot.pause(0.05)
    raise AssertionError("this never came about")


async def _on_launch() -> dict[str, Any]:
    from hudtui.tui.app import HudtuiApp

    app: Any = HudtuiApp(Path.cwd())
    async with app.run_test(size=(160, 50)) as pilot:

        def rows(name: str) -> list[Any]:
            return [row for row in app.screen.query(f"#launch-row-{name}") if row.display]

        app.open_screen("launch", engine="rollouts")
        await _until(pilot, lambda: rows("policy") and rows("limit"))
        seen: dict[str, Any] = {"beside rollouts": bool(rows("curriculum"))}
        app.open_screen("launch", engine="trl")
        await _until(pilot, lambda: rows("steps") and not rows("policy"))
        row = app.screen.query_one("#launch-row-curriculum")
        entries = [list(entry) for entry in row.control.entries]
        seen |= {"beside trl": row.display, "choices": entries, "pane": row.parent.parent.id}
        app.open_screen("launch", curriculum="easy", engine="trl")
        await _until(pilot, lambda: row.text)
        return {**seen, "text": row.text, "copied": shlex.split(app.screen.command())}


def _again() -> Any:
    from support.specs import spec_of

    from hudtui.core.project import open_project
    from hudtui.core.remote.hosts import find_host
    from hudtui.core.runs.again import request_again
    from hudtui.core.runs.launch import draft_run
    from hudtui.core.runs.request_texts import request_from

    project = open_project(Path.cwd())
    spec = spec_of(request_from({"engine": "trl", "curriculum": "easy"}), project.workspace())
    record = draft_run(spec, find_host("local"), project.runs)
    project.runs.add(record)
    return request_again(open_project(Path.cwd()).runs.record(record.id)).curriculum  # type: ignore[attr-defined]


def main() -> None:
    """Print where the option is."""
    from support.command import hudtui

    script = Path(__file__).resolve().parents[2] / "scripts" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", script)
    assert spec is not None and spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    shown = {
        "help": hudtui("rl", "--help").stdout,
        "help of art": hudtui("art", "train", "--help").stdout,
        "reference": "\n".join(reference.commands()),
        "again": _again(),
        "launch": asyncio.run(_on_launch()),
    }
    print(json.dumps(shown))


if __name__ == "__main__":
    declare(sys.argv[1])
    main()
