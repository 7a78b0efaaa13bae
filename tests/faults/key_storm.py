"""Sixty keys a second into every screen, at random: the app lives, nothing is written, nothing is
rented.

    python tests/faults/key_storm.py [--seconds 20] [--seed 1] [--screens home environment ...]
    [--sizes 160x45 80x24]

The real app without a terminal, over a folder of ten odd files, an environment with 200 tools that
is really started, and a simulated Prime Intellect. No key is left out. Prints a table; the exit
status is 1 when something was written, rented, or broke.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `support`, also where this runs as a program

from support import key_storm as storms

from hudtui.tui.steps import SCREENS


@contextmanager
def own_world(home: Path) -> Iterator[None]:
    """A home of its own, no service on the network, and no tmux that is somebody's."""
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        os.environ[f"XDG_{name}_HOME"] = str(home / name.lower())
    nowhere = "http://127.0.0.1:9"
    os.environ |= {
        "HOME": str(home),
        "HF_ENDPOINT": nowhere,
        "HUD_MCP_URL": nowhere,
        "TMUX_TMPDIR": str(home),
    }
    os.environ.pop("TMUX", None)
    yield


async def one(screen: str, size: tuple[int, int], seconds: float, seed: int) -> list[str]:
    """One storm; what is wrong after it."""
    from hudtui.sim import PrimeSimulator
    from hudtui.tui.app import HudtuiApp

    server = (
        f"-- {sys.executable} {Path(__file__).parents[1] / 'support' / 'odd_server.py'} many 200"
    )
    with (
        tempfile.TemporaryDirectory() as made,
        own_world(Path(made)),
        PrimeSimulator(step=5) as sim,
    ):
        os.environ |= {"HUDTUI_SIM": sim.url, "HUDTUI_SIM_KEY": sim.api_key}
        folder = Path(made) / "project"
        storms.odd_files(folder)
        os.chdir(folder)
        app = HudtuiApp(folder)
        kept = (folder, Path(made) / "config", Path(made) / ".ssh")
        try:
            async with app.run_test(size=size) as pilot:
                await pilot.pause(0.5)
                app.open_screen("environment", source=server)
                for _ in range(600):
                    await pilot.pause(0.05)
                    if getattr(app.screen, "analysis", None) is not None:
                        break
                else:
                    return ["the environment was not reached before the storm"]
                app.open_screen(screen)
                await pilot.pause(0.5)
                before = storms.state_of(*kept)
                await storms.storm(
                    app,
                    random.Random(f"{seed} {screen} {size}"),
                    int(seconds * 60),
                    pace=storms.PACE,
                )
                lives = app.is_running and not app.asked_to_end
                wrong = [] if lives else ["the app ended"]
                after = storms.state_of(*kept)
        except BaseException as error:
            os.chdir("/")
            return [f"{type(error).__name__}: {error}"]
        os.chdir("/")
        wrong += [
            f"written: {path}"
            for path in sorted(before.keys() | after.keys())
            if before.get(path) != after.get(path)
        ]
        wrong += [
            f"rented: {request.path}"
            for request in sim.requests
            if request.method not in ("GET", "HEAD")
        ]
        wrong += [
            f"broke: {crash.read_text()[-2000:]}" for crash in Path(made).rglob("crash-*.txt")
        ]
        return wrong


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--screens", nargs="+", default=SCREENS)
    arguments.add_argument("--sizes", nargs="+", default=["160x45", "80x24"])
    given = arguments.parse_args()
    failed = 0
    for screen in given.screens:
        for text in given.sizes:
            width, height = map(int, text.split("x"))
            began = time.monotonic()
            wrong = asyncio.run(one(screen, (width, height), given.seconds, given.seed))
            failed += bool(wrong)
            print(
                f"{screen:<12} {text:>7}  {time.monotonic() - began:5.0f} s  "
                f"{'✗' if wrong else '✓'}",
                flush=True,
            )
            for line in wrong:
                print(f"    {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
