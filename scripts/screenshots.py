#!/usr/bin/env python3
"""Pictures of every screen, taken from the real app on a real demo workspace with a real run.

    .venv/bin/python scripts/screenshots.py [--only NAME ...] [--svg-only] [--out screenshots]

Writes `screenshots/<name>.svg` for all, and `<name>.png` where a monospaced font is installed under
/usr/share/fonts (Fira Code first). Nothing outside a temporary folder and the output folder is
touched.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "HUDTUI_PICTURES"
"""Set in the process that takes the pictures."""

WIDE, MIDDLE, SMALL, NARROW = (160, 45), (120, 36), (80, 24), (60, 20)


@dataclass(frozen=True)
class Shot:
    """One picture."""

    name: str
    keys: tuple[str, ...] = ()
    """Pressed one after the other, each time waiting until nothing is under way."""
    size: tuple[int, int] = MIDDLE
    theme: str = ""
    folder: str = "demo"
    then: Callable[[Any], Awaitable[None]] | None = None
    """Done at the end."""


async def first_run(pilot: Any) -> None:
    """The newest run's log is read."""
    await pilot.pause(1.5)


async def rehearsed(pilot: Any) -> None:
    """The curves of the newest training."""
    await pilot.pause(2.5)


async def trained(pilot: Any) -> None:
    """A training on the machine that was chosen."""
    pilot.app.screen.query_one("#launch-engine").value = "trl"
    await pilot.pause(4)


async def with_art(pilot: Any) -> None:
    """A training with ART, of an environment that a file describes."""
    pilot.app.open_screen(
        "launch", engine="art", machine="local", art_config="art.yaml", environment="mine"
    )
    await pilot.pause(4)


async def art_records(pilot: Any) -> None:
    """An episode of ART's own records."""
    found = next((pilot.app.folder / ".hudtui" / "runs").glob("*/out/.art"))
    pilot.app.open_screen("results", path=str(found.relative_to(pilot.app.folder)))
    await pilot.pause(2)
    await pilot.press("enter")
    await pilot.pause(1)


async def read_native(pilot: Any) -> None:
    """An episode of native calls, thoughts folded."""
    pilot.app.open_screen("results", path="outputs/native")
    await pilot.pause(0.5)
    await pilot.press("enter")
    await pilot.pause(0.5)


async def compared(pilot: Any) -> None:
    """Two episodes of a task beside each other."""
    pilot.app.open_screen("results", path="outputs/random")
    for key in ("down", "enter", "c", "down", "down"):
        await pilot.pause(0.5)
        await pilot.press(key)
    await pilot.pause(0.5)


SHOTS = (
    Shot("home"),
    Shot("welcome", folder="empty"),
    Shot("environment", ("1",), then=first_run),
    Shot("mapping", ("2",), size=WIDE, then=first_run),
    Shot("dataset", ("3",), then=first_run),
    Shot("run", ("5",), size=WIDE, then=first_run),
    Shot("results", size=WIDE, then=compared),
    Shot("playing", ("3", "h", "P", "down", "enter", "ctrl+g"), size=WIDE, then=rehearsed),
    Shot("launch", ("5", "n"), then=first_run),
    Shot("settings", ("comma",)),
    Shot("palette", ("ctrl+p",), then=first_run),
    Shot("help", ("5", "question_mark")),
    Shot("light", ("1",), theme="hudtui-light", then=first_run),
    Shot("monochrome", theme="monochrome"),
    Shot("home-80x24", size=SMALL),
    Shot("home-60x20", size=NARROW),
    Shot("mapping-80x24", ("2",), size=SMALL, then=first_run),
    Shot("run-80x24", ("5",), size=SMALL, then=first_run),
)
"""Before anything is rented."""

DIALECTS = (
    Shot("mapping-hermes", ("2",), size=WIDE, folder="dialects", then=first_run),
    Shot("results-native", size=WIDE, folder="dialects", then=read_native),
)
"""With a configuration in another dialect, and episodes in a third."""

LATER = (
    Shot("compute", ("4",), size=WIDE, then=first_run),
    Shot("compute-80x24", ("4",), size=SMALL, then=first_run),
    Shot("machines", ("4", "p"), then=first_run),
    Shot("machine-end", ("4", "p", "x"), size=SMALL),
    Shot("training", ("5", "m"), size=WIDE, then=rehearsed),
    Shot("launch-rented", ("4", "l"), size=WIDE, then=trained),
)
"""With machines that are alive, and a training."""

ART = (
    Shot("art-launch", size=WIDE, then=with_art),
    Shot("art-run", ("5", "m"), size=WIDE, then=rehearsed),
    Shot("art-results", size=WIDE, then=art_records),
)
"""With a rehearsal of a training with ART."""


async def settle(pilot: Any) -> None:
    """Wait until no work is under way, except what never ends."""
    for _ in range(3):
        workers = [
            worker
            for worker in pilot.app.workers
            if worker.name != "forever" and not worker.is_finished
        ]
        if workers and not pilot.app.screen.is_modal:
            await asyncio.wait(
                [asyncio.ensure_future(worker.wait()) for worker in workers], timeout=20
            )
        await pilot.pause()


async def take(shot: Shot, home: Path) -> str:
    """The picture as SVG."""
    from hudtui.tui.app import HudtuiApp

    folder = home / shot.folder
    os.chdir(folder)
    os.environ["HUDTUI_THEME"] = shot.theme
    app = HudtuiApp(folder)
    async with app.run_test(size=shot.size) as pilot:
        await settle(pilot)
        for key in shot.keys:
            await pilot.press(key)
            await settle(pilot)
        if shot.then is not None:
            await shot.then(pilot)
            await settle(pilot)
        svg = app.export_screenshot(title="hudtui")
    # The ids are random: without this every run would change every file.
    return re.sub(r"terminal-\d+", f"terminal-{shot.name}", svg)


def fonts() -> list[str]:
    """Font files for PNG.

    One with every weight that is needed, and others for signs that it lacks.
    """
    places = Path("/usr/share/fonts")
    wanted = (
        "FiraCode-Regular.ttf",
        "FiraCode-Bold.ttf",
        "DejaVuSansMono.ttf",
        "DejaVuSansMono-Bold.ttf",
        "DejaVuSans.ttf",
    )
    found = {path.name: str(path) for path in places.rglob("*.ttf")} if places.is_dir() else {}
    return [found[name] for name in wanted if name in found]


def to_png(svg: str, files: list[str]) -> bytes:
    """The picture as PNG. Without a font file the renderer would draw no text at all."""
    import resvg_py

    if not any("FiraCode" in name for name in files):
        svg = svg.replace(
            "Fira Code", "DejaVu Sans Mono"
        )  # what the picture names and nothing here has is not drawn
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, font_files=files, zoom=1))


def make_demo(python: Path, folder: Path) -> None:
    """A demo workspace in which every task was played."""
    done = subprocess.run(
        [python, "-m", "hudtui", "demo", str(folder), "--headless"], text=True, capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"hudtui demo failed:\n{done.stderr}")


def play(python: Path, folder: Path, policy: str, *more: str) -> None:
    """Episodes of each task by a scripted player, under `outputs`."""
    words = ["eval", "tasks.json", "-c", "configs/2048.yaml", "-p", policy, "--max-turns", "12"]
    words += more
    done = subprocess.run(
        [python, "-m", "hudtui", "--trust", *words], cwd=folder, text=True, capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"hudtui {' '.join(words)} failed:\n{done.stderr}")


def make_dialects(python: Path, folder: Path) -> None:
    """A demo workspace whose configuration reads `hermes`, with episodes in `native`."""
    make_demo(python, folder)
    words = ["rl", "init", "text-2048", "--per-value", "--dialect", "hermes"]
    words += ["--output", "configs/2048.yaml", "--force"]
    done = subprocess.run(
        [python, "-m", "hudtui", "--trust", *words], cwd=folder, text=True, capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"hudtui {' '.join(words)} failed:\n{done.stderr}")
    play(python, folder, "greedy", "--dialect", "native", "-o", "outputs/native")


def rent(python: Path, folder: Path) -> None:
    """A simulated machine for a run, and one that nobody remembers."""
    for words in (
        ["keys", "create"],
        ["keys", "register", "--yes"],
        ["pods", "create", "2xH100", "--yes", "--name", "train"],
        ["pods", "create", "A100", "--no-spot", "--yes", "--name", "lost"],
    ):
        done = subprocess.run(
            [python, "-m", "hudtui", *words], cwd=folder, text=True, capture_output=True
        )
        if done.returncode:
            raise SystemExit(f"hudtui {' '.join(words)} failed:\n{done.stderr}")


def rehearse(python: Path, folder: Path) -> None:
    """A training of a tiny model, where the environment of the rehearsal is there."""
    trainer = Path(__file__).resolve().parent.parent / ".venv-train" / "bin" / "python"
    if not trainer.exists():
        print("no .venv-train: the picture of a training shows a run of the demo", file=sys.stderr)
        return
    words = [str(python), "-m", "hudtui", "rehearse", "--yes", "--steps", "12"]
    environment = {**os.environ, "HUDTUI_TRAINER_PYTHON": str(trainer)}
    done = subprocess.run(words, cwd=folder, env=environment, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"hudtui rl --rehearse failed:\n{done.stderr}")


def rehearse_with_art(python: Path, folder: Path) -> bool:
    """A rehearsal of a training with ART, where its environment is there. Returns whether it is."""
    trainer = Path(__file__).resolve().parent.parent / ".venv-art" / "bin" / "python"
    if not trainer.exists():
        print("no .venv-art: no pictures of a training with ART", file=sys.stderr)
        return False
    (folder / "art.yaml").write_text(
        "environments:\n  mine: {dataset: tasks.json, max_turns: 12}\n"
    )
    words = [
        "art",
        "train",
        "--env",
        "mine",
        "--config",
        "art.yaml",
        "--scenarios",
        "4",
        "--val-scenarios",
        "2",
        "--seed",
        "1",
    ]
    words += ["--rehearse", "--python", str(trainer), "--yes"]
    done = subprocess.run(
        [python, "-m", "hudtui", "--trust", *words], cwd=folder, text=True, capture_output=True
    )
    if done.returncode:
        raise SystemExit(f"hudtui art train --rehearse failed:\n{done.stdout[-2000:]}{done.stderr}")
    return True


def end_simulator(home: Path) -> None:
    """End the demo's simulator, with its machines."""
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(
            (home / ".hudtui-home" / "state" / "simulator" / "server.json").read_text()
        )
        os.kill(told["pid"], signal.SIGTERM)


def in_a_clean_home(name: str, script: str) -> int:
    """Run this script in a process that does not know this machine's home and its Python's place.

    Pictures show both.
    """
    home = Path(name) / "home"
    (home / "empty").mkdir(parents=True)
    (home / ".venv").symlink_to(sys.prefix)
    environment = {
        key: os.environ[key] for key in ("PATH", "LANG", "LC_ALL") if key in os.environ
    } | {
        "HOME": str(home),
        "HUDTUI_HOME": str(home / ".hudtui-home"),
        "TMUX_TMPDIR": name,
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "TEXTUAL_ANIMATIONS": "none",
        "TZ": "UTC",
        MARK: name,
    }
    try:
        return subprocess.run(
            [home / ".venv/bin/python", script, *sys.argv[1:]], env=environment
        ).returncode
    finally:
        end_simulator(home)
        subprocess.run(["tmux", "kill-server"], env=environment, capture_output=True)


def main() -> int:
    """Take all pictures, or those that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of pictures")
    parser.add_argument("--svg-only", action="store_true")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent.parent / "screenshots"
    )
    given = parser.parse_args()
    if MARK not in os.environ:
        with tempfile.TemporaryDirectory(prefix="hudtui-") as name:
            return in_a_clean_home(name, __file__)
    # Which system took the pictures is of no interest to their viewers.
    platform.platform = lambda *_, **__: "Linux-6.12-x86_64"
    home = Path.home()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    files = [] if given.svg_only else fonts()
    if not files and not given.svg_only:
        print("no Fira Code or DejaVu under /usr/share/fonts: SVG only", file=sys.stderr)
    make_demo(Path(sys.executable), home / "demo")
    play(Path(sys.executable), home / "demo", "random", "-r", "8", "-o", "outputs/random")
    wanted = [
        shot
        for shot in (*SHOTS, *DIALECTS, *LATER, *ART)
        if not given.only or shot.name in given.only
    ]
    ready = played = False
    if any(shot in DIALECTS for shot in wanted):
        make_dialects(Path(sys.executable), home / "dialects")
    for shot in wanted:
        if shot in LATER and not ready:
            rent(Path(sys.executable), home / "demo")
            rehearse(Path(sys.executable), home / "demo")
            ready = True
        if shot in ART and not played:
            if not rehearse_with_art(Path(sys.executable), home / "demo"):
                break
            played = True
        svg = asyncio.run(take(shot, home))
        if str(home.parent) in svg:
            print(f"{shot.name} shows a path of this machine", file=sys.stderr)
            return 1
        (out / f"{shot.name}.svg").write_text(svg, encoding="utf-8")
        if files:
            (out / f"{shot.name}.png").write_bytes(to_png(svg, files))
        print(out / f"{shot.name}.svg")
    os.chdir(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
