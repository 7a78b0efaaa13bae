"""A folder from elsewhere holds modules with names that Python and hudtui use: no command of hudtui
carries them out."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hudtui.core.compute.hardware import inspect
from hudtui.core.demo import make_workspace
from hudtui.core.environment.discover import analyze
from hudtui.core.environment.source import parse_source
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.local import LocalHost

MODULES = ("random", "json", "asyncio", "typing", "sitecustomize", "yaml", "hudtui")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demo workspace, made once."""
    folder = tmp_path_factory.mktemp("template") / "demo"
    make_workspace(folder)
    return folder


@pytest.fixture
def hostile(own_world: Path, demo: Path) -> Path:
    """A copy of it, with modules in it that leave a mark when they are imported."""
    shutil.copytree(demo, own_world, dirs_exist_ok=True)
    mark = f"open({str(own_world / 'ran')!r}, 'a').write(__name__ + '\\n')\nraise SystemExit(3)\n"
    for name in MODULES:
        (own_world / name).mkdir()
        (own_world / name / "__init__.py").write_text(mark)
    return own_world


COMMANDS = (
    ("env", "analyze", "text-2048", "--live"),
    ("env", "call", "text-2048", "move", '{"direction": "up"}'),
    ("lint", "configs/2048.yaml", "--env", "text-2048"),
    (
        "eval",
        "tasks.json",
        "-c",
        "configs/2048.yaml",
        "--limit",
        "1",
        "--max-turns",
        "2",
        "--output",
        "out",
    ),
    ("rl", "init", "text-2048", "-o", "new.yaml"),
    ("doctor",),
)


def test_a_folder_with_modules_of_its_own(hostile: Path):
    # `-P`: the installed program has the folder of the program in front, not the current one.
    code = f"""
from hudtui.cli.app import build
for words in {COMMANDS}:
    try:
        build()(words)
    except SystemExit as end:
        print("ended", words[0], end.code)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=hostile,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not (hostile / "ran").exists(), (hostile / "ran").read_text()
    ended = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("ended")]
    assert ended[:-1] == [[words[0], "0"] for words in COMMANDS[:-1]], done.stdout + done.stderr
    assert ended[-1] in (["doctor", "0"], ["doctor", "1"]), done.stderr


async def test_a_path_for_modules_in_the_folders_own_settings_is_not_taken(hostile: Path):
    said = {"PYTHONPATH": str(hostile)}
    found = await analyze(parse_source("text-2048", folder=hostile, lookup=said.get))
    assert found.tools
    assert not (hostile / "ran").exists()


async def test_this_machine_is_looked_at(hostile: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(hostile))  # where commands on this machine begin
    assert (await inspect(LocalHost(), python=sys.executable)).python
    assert not (hostile / "ran").exists()


def test_what_needs_the_standard_library_alone(hostile: Path):
    code = "import json, random, sys; print(json.dumps(sys.path))"
    done = subprocess.run(
        isolated_python_command(sys.executable, "-c", code),
        cwd=hostile,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(hostile) not in json.loads(done.stdout)
    assert not (hostile / "ran").exists()
