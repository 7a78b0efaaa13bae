"""Open, list, lint and dry-run hostile project folders, and count what they get.

    python tests/faults/hostile_folders.py [COUNT] [SEED]

Each folder is made by `tests/support/hostile_folder.py` and looked at in a process of its own, with
the user's keys and limits in the user's own file: a random choice of commands, and the app with all
steps opened. The last lines tell how many programs ran, how many requests came, and how many limits
were lifted; the exit code is 1 unless all three are 0.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from typer.testing import CliRunner

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `support`, also where this runs as a program

from support import hostile_folder as hostile

from hudtui.cli.app import build
from hudtui.core.compute.prime import client
from hudtui.core.http import Retry
from hudtui.core.platform import HUD
from hudtui.core.settings import load_settings
from hudtui.tui.app import HudtuiApp
from hudtui.tui.steps import SCREENS, screen_class

COMMANDS_A_FOLDER = 9
LIMITS = {
    "HUDTUI_BUDGET_RUN": "5",
    "HUDTUI_BUDGET_DAY": "7",
    "HUDTUI_MAX_HOURS": "3",
    "HUDTUI_IDLE_MINUTES": "11",
}


def visit(folder: Path, seed: int, keys: list[str]) -> int:
    """Look at a folder, in this process, as a person would who does not trust it. How many limits
    it lifted or changed."""
    os.chdir(folder)
    changed = sum(load_settings(folder, HUD).get(name) != value for name, value in LIMITS.items())
    pick = random.Random(seed)
    for words in pick.sample(hostile.COMMANDS, COMMANDS_A_FOLDER):
        if words[:3] == ("rl", "--dry-run", "--gpus") or words[0] in (
            "gpus",
            "pods",
            "wallet",
            "keys",
        ):
            # with the user's own key and address they would ask the real service: `asking` does
            # these
            continue
        result = CliRunner().invoke(build(), list(words))
        if result.exception is not None and not isinstance(
            result.exception, SystemExit | sqlite3.Error
        ):
            print(f"{folder.name}: {' '.join(words)}: {result.exception!r}", flush=True)
    asyncio.run(open_app(folder, keys))
    return changed


async def open_app(folder: Path, keys: list[str]) -> None:
    """Open the app on the folder, and press keys; questions are left unanswered."""
    app = HudtuiApp(folder)
    async with app.run_test(size=(160, 45)) as pilot:
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.2)
        await pilot.pause(0.5)


def asking(folder: Path, seed: int) -> None:
    """Commands that ask Prime, at an address of the user's own choice on loopback: only the
    folder's address would be a catch."""
    os.chdir(folder)
    pick = random.Random(seed)
    for words in pick.sample(
        [
            ("gpus",),
            ("pods",),
            ("pods", "reconcile"),
            ("wallet",),
            ("keys",),
            ("rl", "--dry-run", "--gpus", "1xH100"),
        ],
        3,
    ):
        CliRunner().invoke(build(), list(words))


def main() -> int:
    """Visit so many folders, and print the table."""
    client.RETRY = Retry(client.RETRY.attempts, pause=0.01)  # the closed port stays closed
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    base = Path(tempfile.mkdtemp(prefix="hostile-"))
    watch = hostile.Watch(base / "watch")
    for screen in SCREENS:
        screen_class(screen)  # imported here, once
    ran = lifted = requests = failed = 0
    for number in range(count):
        folder, home = base / f"folder-{number}", base / f"home-{number}"
        hostile.build(folder, watch, seed * 100_000 + number)
        home.mkdir()
        before = (len(list(watch.marks.iterdir())), len(watch.requests))
        child = os.fork()
        if child == 0:
            os.environ.update(
                HOME=str(home),
                PATH=f"{watch.tools}:{os.environ['PATH']}",
                TERM="xterm-256color",
                HF_HUB_OFFLINE="1",
            )
            for name in ("CONFIG", "DATA", "STATE", "CACHE"):
                os.environ[f"XDG_{name}_HOME"] = str(home / name.lower())
            for name in [*hostile.KEYS, "HUDTUI_TRUST", "HUDTUI_SIM", "HUDTUI_HOME"]:
                os.environ.pop(name, None)
            hostile.write_user(home / "config")
            code = 99
            try:
                # The user's own address of Prime is a closed port: an answer can only come from the
                # folder's.
                os.environ["PRIME_API_BASE_URL"] = "http://127.0.0.1:9"
                changed = visit(
                    folder,
                    seed + number,
                    random.Random(number).choice(
                        (["1", "2", "3", "4", "5"], ["1"], ["4", "5", "0"])
                    ),
                )
                del os.environ["PRIME_API_BASE_URL"]
                (home / "config" / "hudtui" / "settings.env").open("a").write(
                    "PRIME_API_BASE_URL=http://127.0.0.1:9\n"
                )
                asking(folder, seed + number)
                code = changed
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        failed += code == 99 or code < 0
        lifted += code if 0 < code < 99 else 0
        if code:
            broke = code == 99 or code < 0
            print(
                f"{folder}: {'the visit broke' if broke else f'{code} limits changed'}", flush=True
            )
        marks, seen = len(list(watch.marks.iterdir())), len(watch.requests)
        if (marks, seen) != before:
            print(f"{folder}: {watch.seen()[-3:]}", flush=True)
            ran, requests = ran + marks - before[0], requests + seen - before[1]
        else:
            shutil.rmtree(folder)
        shutil.rmtree(home)
    watch.close()
    print(
        f"folders {count}   programs run {ran}   requests {requests}   limits changed {lifted}   "
        f"visits that broke {failed}"
    )
    if not (ran or requests or lifted or failed):
        shutil.rmtree(base)
    return int(bool(ran or requests or lifted or failed))


if __name__ == "__main__":
    sys.exit(main())
