"""Start-up is a feature: what is imported when the first picture is on the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAVY = {
    "asyncssh",
    "click",
    "datasets",
    "dotenv",
    "httpx2",
    "jsonschema",
    "mcp",
    "msgspec",
    "pyarrow",
    "pydantic",
    "re2",
    "ruamel",
    "sqlite3",
    "tree_sitter",
    "typer",
    "verifiers",
    "yaml",
}

SCRIPT = """
import asyncio, json, sys
from hudtui.tui.app import HudtuiApp

class Watched(HudtuiApp):
    modules = None

    def post_display_hook(self):
        # The first picture that holds the frame: header, road and the keys.
        if self.modules is None and self._compositor_has_frame():
            type(self).modules = sorted(sys.modules)

    def _compositor_has_frame(self):
        try:
            shown = self.screen._compositor.visible_widgets
            return bool(self.screen.query("KeyBar")) and bool(shown)
        except Exception:
            return False

async def main():
    async with Watched().run_test() as pilot:
        for _ in range(100):
            await pilot.pause()
            if Watched.modules:
                break

asyncio.run(main())
print(json.dumps(Watched.modules))
"""


def test_first_paint_imports_nothing_heavy(own_world: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    modules = json.loads(done.stdout.splitlines()[-1])
    assert "textual.app" in modules and "hudtui.tui.home.screen" in modules
    assert {name.partition(".")[0] for name in modules} & HEAVY == set()
    ours = {name for name in modules if name.startswith("hudtui.")}
    screens = {name for name in ours if name.startswith("hudtui.tui.") and name.endswith(".screen")}
    assert screens == {"hudtui.tui.screen", "hudtui.tui.home.screen"}
    core = {name for name in ours if name.startswith("hudtui.core.")}
    assert core <= {"hudtui.core.errors", "hudtui.core.text", "hudtui.core.paths"}
    assert not any(name.startswith("hudtui.cli.") for name in ours)


WHOLE = """
import asyncio, json, sys
from dataclasses import replace
from hudtui.tui.app import HudtuiApp
from hudtui.tui.services import Services

order = []

class Watched(HudtuiApp):
    def post_display_hook(self):
        if self.facts is not None:
            order.append("shown")

def check(facts):
    order.append("checked")
    return False

async def main():
    async with Watched(services=replace(Services(), check_files=check)).run_test() as pilot:
        while "checked" not in order:
            await pilot.pause()

asyncio.run(main())
print(json.dumps(order))
"""


def test_the_whole_picture_waits_for_nothing_that_comes_after_it(own_world: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHOLE], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])[0] == "shown"


def test_reading_a_project_without_runs_imports_no_runs_and_no_machines(own_world: Path) -> None:
    read = (
        "import json, sys; from pathlib import Path; from hudtui.tui.services import Services; "
        "Services().load_facts(Path.cwd()); print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, timeout=100)
    modules = set(json.loads(done.stdout))
    assert "hudtui.core.runs.project_status" in modules
    assert not modules & {
        "hudtui.core.compute.owned_hosts",
        "hudtui.core.environment.cache",
        "hudtui.core.remote.host",
        "hudtui.core.runs.store",
        "hudtui.core.training.plan",
    }
