"""How soon the dataset screen shows tasks, and how it holds while it reads the rest.

    python tests/bench/dataset_open.py [--tasks 1000000] [--file TASKS]

The real app runs without a terminal over a generated file (a JSON array; every 1000th task is
broken). Printed: from pressing the key of the step to the first rows on it, as time and as
processor time (own work of all threads: the machine may be busy), at once after the start and after
the app's idle moment, in which it imports what steps need; how far the reading was by then; the
longest time that the event loop was held up while the rest was read (no key works meanwhile); the
time until everything was read; then, over all tasks: the time for a page down, for a jump to the
end, for a search of every prompt, for sorting by id; and the peak memory. The peer is what must be
waited for when everything is read first: `json.load` of the same file, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = """
import asyncio, json, os, resource, sys, time
from pathlib import Path
from hudtui.tui.actions import load_all_actions
from hudtui.tui.app import HudtuiApp

async def settled(pilot):
    for _ in range(3):
        for worker in list(pilot.app.workers):
            if worker.name != "forever" and not worker.is_finished:
                await pilot.app.workers.wait_for_complete([worker])
        await pilot.pause()

drawn = False

def watch():
    # Note when a first row is drawn; asking the screen for its picture would be work
    # that is not the screen's own.
    from hudtui.tui.widgets.virtual_table import VirtualTable
    draw = VirtualTable.render_line
    def render_line(table, y):
        global drawn
        strip = draw(table, y)
        drawn = drawn or y == 1 and "t0000000" in strip.text
        return strip
    VirtualTable.render_line = render_line

async def main():
    ready = sys.argv[1] == "ready"
    app, told, watching = HudtuiApp(Path.cwd()), {}, False
    async with app.run_test(size=(120, 40)) as pilot:
        await settled(pilot)
        if ready:  # as the app does by itself on a terminal
            await asyncio.to_thread(load_all_actions)
        lags, stop = [0.0], False
        async def heart():
            while not stop:
                before = time.perf_counter()
                await asyncio.sleep(0.005)
                lags.append(time.perf_counter() - before - 0.005)
        wall, cpu, own = time.perf_counter(), time.process_time(), time.thread_time()
        app.open_screen("dataset")
        while not drawn:
            await asyncio.sleep(0.002)
            if not watching and "hudtui.tui.widgets.virtual_table" in sys.modules:
                watch()
                watching = True
        told["first_ui"] = time.thread_time() - own
        told["first"], told["first_cpu"] = time.perf_counter() - wall, time.process_time() - cpu
        screen = app.screen
        told["read_by_then"], told["reading"] = screen.open.index.total, screen.open.reading
        beat = asyncio.ensure_future(heart())
        while screen.open.reading:
            await asyncio.sleep(0.05)
        stop = True
        await beat
        lags.sort()
        told["lag_worst"], told["lag_99"] = lags[-1], lags[int(len(lags) * 0.99)]
        await settled(pilot)
        told["all"], told["all_cpu"] = time.perf_counter() - wall, time.process_time() - cpu
        told["tasks"], told["errors"] = screen.open.index.total, screen.open.index.counts["error"]
        screen.tasks.table.focus()
        cpu = time.process_time()
        for _ in range(50):
            await pilot.press("pagedown")
        told["page"] = (time.process_time() - cpu) / 50
        cpu = time.process_time()
        await pilot.press("G")
        await pilot.pause()
        told["end"] = time.process_time() - cpu
        from hudtui.core.tasks.table import TaskFilter
        wall = time.perf_counter()
        matching = screen.open.index.matching(TaskFilter("tile 77"))
        told["found"] = sum(len(rows) for rows, _ in matching)
        told["search"] = time.perf_counter() - wall
        wall = time.perf_counter()
        screen.open.index.arranged(range(screen.open.index.total), "id", reverse=True)
        told["sort"] = time.perf_counter() - wall
        told["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(told))

asyncio.run(main())
"""

PEER = """
import json, resource, sys, time
began = time.perf_counter()
with open(sys.argv[1]) as file:
    tasks = json.load(file)
told = {"first": time.perf_counter() - began, "cpu": time.process_time(), "tasks": len(tasks)}
told["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(told))
"""


def generate(path: Path, count: int) -> None:
    """Write tasks of about 600 bytes."""
    config = {
        "text-2048": {
            "command": "${HUDTUI_PYTHON:-python3}",
            "args": ["-m", "hudtui.envs.text_2048"],
        }
    }
    with path.open("w") as out:
        out.write("[")
        for number in range(count):
            task = {
                "id": f"t{number:07}",
                "prompt": f"Play 2048 on a board and reach the tile {number % 101}. "
                + "Be quick and careful. " * (number % 13),
                "mcp_config": config,
                "setup_tool": {
                    "name": "setup",
                    "arguments": {"name": "board", "arguments": {"board_size": 4, "seed": number}},
                },
                "evaluate_tool": {
                    "name": "evaluate",
                    "arguments": {"name": "max_number", "arguments": {"target": 256}},
                },
                "metadata": {
                    "category": "abc"[number % 3],
                    "seed": number,
                    "difficulty": number % 5,
                },
            }
            if number % 1000 == 999:
                task["prompt"] = 5
            out.write((",\n" if number else "") + json.dumps(task))
        out.write("]\n")


def run(code: str, folder: Path, *arguments: str) -> dict[str, float]:
    """Carry out a child."""
    environment = {**os.environ, "HUDTUI_HOME": str(folder / "home")}
    made = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder / "project",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise SystemExit(made.stderr)
    found: dict[str, float] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--file", type=Path, help="an existing file, made by this script")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="hudtui-bench-") as name:
        folder = Path(name)
        path = folder / "project" / "tasks.json"
        path.parent.mkdir()
        if options.file:
            path.symlink_to(options.file.absolute())
        else:
            generate(path, options.tasks)
        peer = run(PEER, folder, str(path))
        print(f"{peer['tasks']:,} tasks, {path.stat().st_size / 1e6:,.0f} MB")
        print(
            f"json.load alone: {peer['first']:.2f} s, {peer['cpu']:.2f} s of own work, peak "
            f"{peer['peak'] / 1024:,.0f} MB"
        )
        for start, words in (
            ("at once", "the first import included"),
            ("ready", "after the app's idle moment"),
        ):
            told = run(CHILD, folder, start)
            print(f"\n{start} ({words})")
            print(
                f"  first rows   {1000 * told['first']:7.0f} ms, {1000 * told['first_cpu']:.0f} ms "
                f"of own work, {1000 * told['first_ui']:.0f} of it on the screen's side; "
                f"{told['read_by_then']:,} of {told['tasks']:,} tasks checked; json.load / ours "
                f"{peer['first'] / told['first']:.0f}"
            )
            print(
                f"  everything   {told['all']:7.1f} s, {told['all_cpu']:.1f} s of own work; "
                f"{told['errors']:,} broken"
            )
            print(
                f"  keys held up {1000 * told['lag_worst']:7.0f} ms at worst, "
                f"{1000 * told['lag_99']:.0f} ms in 99 of 100 moments"
            )
            print(
                f"  page down    {1000 * told['page']:7.1f} ms; to the end "
                f"{1000 * told['end']:.0f} ms (own work)"
            )
            print(
                f"  search       {told['search']:7.1f} s through every prompt, {told['found']:,} "
                "found"
            )
            print(f"  sort         {told['sort']:7.1f} s by id")
            print(
                f"  peak         {told['peak'] / 1024:7,.0f} MB; json.load / ours "
                f"{peer['peak'] / told['peak']:.1f}"
            )


if __name__ == "__main__":
    main()
