"""Keys at random, faster than anyone types, into the real app over a folder of odd files; and what
they left behind."""

from __future__ import annotations

import asyncio
import hashlib
import random
import string
from pathlib import Path
from typing import Any

from textual import events
from textual.keys import _character_to_key

PACE = 1 / 60
"""Seconds between two keys, by their own clock: however slow the machine is, they come as a
burst."""

NAMED = (
    *(
        "enter",
        "escape",
        "tab",
        "shift+tab",
        "backspace",
        "delete",
        "up",
        "down",
        "left",
        "right",
        "home",
        "end",
    ),
    *(
        "pageup",
        "pagedown",
        "shift+up",
        "shift+down",
        "shift+left",
        "shift+right",
        "shift+home",
        "shift+end",
        "ctrl+home",
    ),
    *(
        "ctrl+end",
        "ctrl+left",
        "ctrl+right",
        "ctrl+@",
        "ctrl+underscore",
        "ctrl+backslash",
        "insert",
    ),
    *(f"ctrl+{letter}" for letter in string.ascii_lowercase),
    *(f"f{number}" for number in range(1, 13)),
    *("shift+f3", "shift+f4"),
)
TYPED = string.ascii_letters + string.digits + string.punctuation + " äß名😀"


def some_keys(chance: random.Random, number: int) -> list[str]:
    """Keys: as often a named one as one that is typed; now and then one is held for a while."""
    keys: list[str] = []
    while len(keys) < number:
        key = chance.choice(TYPED) if chance.random() < 0.5 else chance.choice(NAMED)
        keys += [key] * (chance.randint(5, 30) if chance.random() < 0.03 else 1)
    return keys[:number]


def send(app: Any, keys: list[str], begin: float) -> None:
    """Let keys come in, the first at `begin` of the event clock."""
    for number, key in enumerate(keys):
        name = _character_to_key(key) if len(key) == 1 else key
        event = events.Key(name, key if len(key) == 1 else None)
        event.time = begin + number * PACE
        app.post_message(event)


async def storm(app: Any, chance: random.Random, number: int, *, pace: float = 0.0) -> None:
    """Send keys, and wait until all were handled. Ends early when the app does."""
    keys = some_keys(chance, number)
    begin = events.Key("a", "a").time
    # The first key of a burst comes by itself; let it be one that does nothing.
    for at, key in enumerate(["shift+f12", *keys]):
        if not app.is_running:
            return
        send(app, [key], begin + at * PACE)
        await asyncio.sleep(pace)
    while app.is_running and app.typed.pending:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def odd_files(folder: Path) -> None:
    """Ten files of a project, none as it should be, and a config and tasks that are."""
    configs = folder / "configs"
    configs.mkdir(parents=True)
    (configs / "good.yaml").write_text(
        "parser: {use_thinking: false}\naction_mappings:\n  go: {_tool: tool_1}\n"
    )
    (configs / "bytes.yaml").write_bytes(bytes(range(256)))
    (configs / "open.yaml").write_text('a: "never closed\nb: [1, 2\n')
    (folder / "tasks.json").write_text('[{"id": "one", "prompt": "Play.", "mcp_config": {}}]')
    (folder / "empty.json").write_bytes(b"")
    (folder / "cut.jsonl").write_text('{"prompt": "a", "mcp_config": {}}\n{"prompt": "b", ')
    (folder / "wide.json").write_text('[{"prompt": "x"}]', encoding="utf-16")
    (folder / "old.json").write_bytes('[{"prompt": "ä"}]'.encode("latin-1"))
    (folder / "long.jsonl").write_text('{"prompt": "' + "x" * 200_000 + '", "mcp_config": {}}\n')
    (folder / "deep.json").write_text("[" * 5000 + "]" * 5000)
    (folder / "hud.lock.yaml").write_text("image: [not: a: lock")
    (folder / "itself").symlink_to(folder)


def state_of(*folders: Path) -> dict[str, str]:
    """Every file below some folders with a digest, but for what hudtui keeps for itself in
    `.hudtui`."""
    found: dict[str, str] = {}
    for folder in folders:
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if ".hudtui" not in path.parts and path.is_file() and not path.is_symlink():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
