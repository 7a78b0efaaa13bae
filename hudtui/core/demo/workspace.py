"""The demo workspace: a small project around the bundled environment text-2048.

Tasks, `.env.example` and `.gitignore` are written as they stand here; the lock file and the
configuration come from a live look at the environment. Nothing in the files that are meant to be
shared belongs to one machine: tasks start the environment with `${HUDTUI_PYTHON:-python3}`, and the
interpreter of this machine goes into `.env`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.environment.bundled import BUNDLED, PYTHON_VARIABLE
from hudtui.core.errors import InputError, Location
from hudtui.core.events import Notice, Progress
from hudtui.core.files import write_atomic
from hudtui.core.platform import HUD
from hudtui.core.workspace import STATE_FOLDER, make_state_dir

if TYPE_CHECKING:
    from hudtui.core.environment.values import Analysis

DEFAULT_FOLDER = "hudtui-demo"
SOURCE = BUNDLED[0].name
MAX_TURNS = 200
"""Replies an episode of the demo may have: room for a whole game of most players."""

TASKS = "tasks.json"
CONFIG = "configs/2048.yaml"
LOCK = HUD.lock_name
ENV_EXAMPLE = ".env.example"
GITIGNORE = ".gitignore"
FILES = (TASKS, LOCK, CONFIG, ENV_EXAMPLE, GITIGNORE)
_MARK = "demo.json"


@dataclass(frozen=True)
class DemoWorkspace:
    """The workspace is ready."""

    folder: Path
    created: tuple[str, ...]
    """Files created now, relative to the folder. Existing files are unchanged."""
    analysis: Analysis


async def prepare(folder: Path) -> AsyncGenerator[Progress | Notice | DemoWorkspace, None]:
    """Create a demo workspace, or open an existing one. The last event is the workspace.

    A file that exists is never changed, but for `HUDTUI_PYTHON` in the `.env` of a demo, when the
    interpreter there is gone.

    Raises:
        InputError: The folder cannot be used: it has files of the demo's names that are not the
            demo's, or cannot be written to.
        HudtuiError: The bundled environment does not start.
    """
    from hudtui.core.environment.cache import save_analysis
    from hudtui.core.environment.discover import analyze
    from hudtui.core.environment.source import parse_source

    _refuse_foreign(folder)
    yield Progress("discover", f"starting {SOURCE}")
    source = parse_source(SOURCE, folder=folder)
    analysis = await analyze(source, timeout=60.0)
    yield Progress("discover", _found(analysis))
    mark = make_state_dir(_make_folder(folder)) / _MARK
    ours = mark.exists() or not (folder / ".env").exists()
    if not mark.exists():
        write_atomic(
            mark,
            json.dumps({"made_at": datetime.now(UTC).isoformat(timespec="seconds"), "files": FILES})
            + "\n",
        )
    contents: dict[str, Callable[[], str]] = {
        TASKS: lambda: json.dumps(task_records(), indent=2) + "\n",
        LOCK: lambda: lock_text(analysis),
        CONFIG: lambda: config_text(analysis),
        ENV_EXAMPLE: env_example,
        GITIGNORE: lambda: ".env\n.hudtui/\noutputs/\n",
    }
    save_analysis(source, analysis)
    created = []
    for name, content in contents.items():
        if not (folder / name).exists():
            write_atomic(folder / name, content())
            created.append(name)
    if ours and _keep_interpreter(folder):
        created.append(".env")
    yield DemoWorkspace(folder, tuple(created), analysis)


def make_workspace(folder: Path) -> tuple[Path, ...]:
    """`prepare` for callers without an event loop, such as a worker thread.

    The files that were made.

    Raises:
        HudtuiError: As `prepare`.
    """

    async def work() -> tuple[Path, ...]:
        async with aclosing(prepare(folder)) as events:
            async for event in events:
                if isinstance(event, DemoWorkspace):
                    return tuple(folder / name for name in event.created)
        raise AssertionError("prepare ends with the workspace")

    return asyncio.run(work())


def is_demo(folder: Path) -> bool:
    """Return whether a folder is a demo workspace."""
    return (folder / STATE_FOLDER / _MARK).is_file()


def task_records() -> list[dict[str, Any]]:
    """The demo's tasks, in HUD's v4 form. Nothing in them belongs to one machine."""
    records = []
    for size, seed, target in ((3, 5, 128), (4, 1, 256), (4, 7, 512), (4, 42, 1024), (5, 3, 2048)):
        records.append(
            _record(
                f"board-{size}x{size}-seed{seed}",
                f"Play 2048 on a {size}x{size} board and reach the tile {target}.",
                {"board_size": size, "seed": seed},
                {"name": "max_number", "arguments": {"target": target}},
                {"evaluator": "max_number", "target": target},
            )
        )
    records.append(
        _record(
            "efficiency-4x4-seed11",
            "Play 2048 on a 4x4 board and earn at least 20 points a move: merge high tiles, waste "
            "no move.",
            {"board_size": 4, "seed": 11},
            {"name": "efficiency", "arguments": {"min_ratio": 20}},
            {"evaluator": "efficiency", "min_ratio": 20},
        )
    )
    return records


def _record(
    identity: str,
    prompt: str,
    board: dict[str, int],
    evaluate: dict[str, Any],
    metadata: dict[str, Any],
) -> dict[str, Any]:
    return {
        "id": identity,
        "prompt": prompt,
        "mcp_config": BUNDLED[0].portable_config,
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "arguments": board}},
        "evaluate_tool": {"name": "evaluate", "arguments": evaluate},
        "metadata": {**board, **metadata},
    }


def config_text(analysis: Analysis) -> str:
    """The demo's configuration.

    As generated, with one action for each direction, and room for a whole game.
    """
    from hudtui.core.gym.generate import generate
    from hudtui.core.gym.values import DEFAULT_MAX_TURNS

    text = generate(analysis, name="2048", per_value=True)
    return text.replace(f"\n  max_turns: {DEFAULT_MAX_TURNS}\n", f"\n  max_turns: {MAX_TURNS}\n")


def lock_text(analysis: Analysis) -> str:
    """The lock file: what was found in the environment, in format 1.3.

    There is no image, since none is needed here.
    """
    import yaml

    tools = []
    for tool in analysis.tools:
        if tool.kind == "hidden":
            continue
        entry: dict[str, Any] = {"name": tool.name, "description": tool.description}
        if tool.input_schema is not None:
            entry["inputSchema"] = dict(tool.input_schema)
        if tool.name in analysis.hubs:
            entry["internalTools"] = list(analysis.hubs[tool.name])
        tools.append(entry)
    lock = {
        "version": "1.3",
        "images": {"local": None, "full": None, "pushed": None},
        "build": {"generatedAt": analysis.analyzed_at, "version": analysis.server.version},
        "environment": {
            "initializeMs": round(analysis.timings.get("connect", 0.0) * 1000),
            "toolCount": len(tools),
            "internalToolCount": sum(len(functions) for functions in analysis.hubs.values()),
            "runtime": {"python": ".".join(map(str, sys.version_info[:3]))},
        },
        "tools": tools,
        "hubTools": {hub: list(functions) for hub, functions in analysis.hubs.items()},
        "resources": [
            {"uri": one.uri, "name": one.name, "mimeType": one.mime_type}
            for one in analysis.resources
        ],
    }
    heading = (
        f"# What `hudtui demo` found in the bundled environment {SOURCE}. It runs without a "
        "container: no image is named.\n"
    )
    plain = json.loads(
        json.dumps(lock, default=str)
    )  # no aliases, no subclasses: they would show in the YAML
    return heading + yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120)


def env_example() -> str:
    """Every key that hudtui knows, empty, with what it is for."""
    from hudtui.core.settings import known_settings

    lines = [
        "# Copy what you need into .env (which stays out of version control) and fill it in. The "
        "demo needs none of these."
    ]
    for key in known_settings(HUD):
        if key.secret:
            lines += [
                "",
                f"# {key.about}",
                *([f"# {key.get_it}"] if key.get_it else []),
                f"{key.name}=",
            ]
    lines += [
        "",
        "# The Python that has hudtui: tasks start the bundled environment with it.",
        f"# {PYTHON_VARIABLE}=/path/to/python",
    ]
    return "\n".join(lines) + "\n"


def _found(analysis: Analysis) -> str:
    names = ", ".join(tool.name for tool in analysis.agent_tools)
    hubs = "; ".join(f"{hub}: {', '.join(functions)}" for hub, functions in analysis.hubs.items())
    return f"{analysis.server.name} {analysis.server.version}: {names} for the agent; {hubs}"


def _refuse_foreign(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError("this is not a folder", where=Location(os.fspath(folder)))
    if is_demo(folder):
        return
    foreign = [name for name in FILES if name != GITIGNORE and os.path.lexists(folder / name)]
    if foreign:
        raise InputError(
            f"this folder holds a project of its own ({', '.join(foreign)}), and the demo changes "
            "nothing there",
            fix="Give the demo another folder: hudtui demo NEWFOLDER.",
            where=Location(os.fspath(folder)),
        )


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            "this folder cannot be made",
            why=error.strerror or str(error),
            where=Location(os.fspath(folder)),
        ) from None
    return folder


def _keep_interpreter(folder: Path) -> bool:
    """Note this interpreter in `.env`, unless another that exists is set.

    Whether the file was made.
    A file that is made also says that machines of the demo are simulated.
    """
    from hudtui.core.compute.prime.entry import DEMO, SIMULATOR
    from hudtui.core.dotenv import read_env
    from hudtui.core.settings import save_project_setting

    path = folder / ".env"
    existed = path.exists()
    try:
        entry = read_env(path).entries.get(PYTHON_VARIABLE)
        if entry is None or not os.access(entry.value, os.X_OK):
            save_project_setting(folder, PYTHON_VARIABLE, sys.executable)
        if not existed:
            save_project_setting(folder, SIMULATOR, DEMO)
    except InputError:
        # a `.env` that cannot be read or written is the user's affair: commands fall back on their
        # own interpreter
        return False
    return not existed
