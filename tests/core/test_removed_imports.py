"""Imports that scripts for HUD's packages have, and that nobody serves any more."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def verifiers(tmp_path: Path) -> Path:
    """A folder with a package like verifiers 0.4: a root without names, and a part."""
    root = tmp_path / "verifiers"
    root.mkdir()
    (root / "__init__.py").write_text('__version__ = "0.4"\n')
    (root / "v1.py").write_text("")
    return tmp_path


def said(place: Path, *lines: str) -> tuple[int, str]:
    """Return the exit code of a script, and the last line of its errors."""
    argv = [sys.executable, "-c", "\n".join(lines)]
    environment = {**os.environ, "PYTHONPATH": f"{place}{os.pathsep}{ROOT}", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        argv, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, done.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize("first", ["hudtui.gym", "art_integration"])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from verifiers.trainers import GRPOTrainer, GRPOConfig", "hudtui rl"),
        ("import verifiers.trainers.grpo", "hudtui rl"),
        ("from verifiers import load_environment", "from hud_vf_gym import load_environment"),
        ("import verifiers as vf; vf.GRPOTrainer", "HudtuiSpec"),
        ("from verifiers import GRPOTrainer", "HudtuiSpec"),
        ("from hud.datasets import to_taskconfigs", "from art_integration import to_taskconfigs"),
        ("import hud", "from art_integration import to_taskconfigs"),
        ("from art.skypilot import SkyPilotBackend", "--provider sky"),
    ],
)
def test_a_removed_import_says_what_replaces_it(
    verifiers: Path, first: str, line: str, words: str
) -> None:
    (verifiers / "art").mkdir()
    (verifiers / "art" / "__init__.py").write_text("")
    code, told = said(verifiers, f"import {first}", line)
    assert code == 1 and "Error: " in told and words in told


def test_what_there_is_is_imported_as_ever(verifiers: Path) -> None:
    (verifiers / "hud").mkdir()
    (verifiers / "hud" / "__init__.py").write_text("here = 1\n")
    (verifiers / "verifiers" / "trainers.py").write_text("GRPOTrainer = 1\n")
    (verifiers / "verifiers" / "__init__.py").write_text("load_environment = 2\n")
    lines = (
        "import hudtui.gym, hud, verifiers.v1",
        "from verifiers import load_environment, trainers",
        "print(hud.here)",
    )
    assert said(verifiers, *lines) == (0, "")
    code, told = said(verifiers, "import hudtui.gym, verifiers", "verifiers.nothing")
    assert (code, told) == (1, "AttributeError: module 'verifiers' has no attribute 'nothing'")
    look = (
        "from importlib.util import find_spec; assert find_spec('art') is "
        "find_spec('verifiers.trainers2') is None"
    )
    assert said(verifiers, "import hudtui.gym", look) == (0, "")
    assert said(
        verifiers, "import verifiers, hudtui.gym", "assert not hasattr(verifiers, 'nothing')"
    ) == (0, "")


def test_verifiers_that_was_imported_before_says_it_too(verifiers: Path) -> None:
    (verifiers / "verifiers" / "__init__.py").write_text("")
    code, told = said(
        verifiers, "import verifiers, hudtui.gym", "from verifiers import load_environment"
    )
    assert code == 1 and "from hud_vf_gym import load_environment" in told


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("from art.skypilot import SkyPilotBackend", "--provider sky"),
        ("from verifiers.trainers import GRPOTrainer", "hudtui rl"),
        ("import verifiers", "pip install 'hudtui[verifiers]'"),
    ],
)
def test_where_the_package_itself_is_missing_its_extra_is_named_too(
    tmp_path: Path, line: str, words: str
) -> None:
    hidden = (
        "import importlib.machinery as m; m.PathFinder.find_spec = staticmethod(lambda *_: None)"
    )
    code, told = said(tmp_path, "import hudtui.gym", hidden, line)
    assert code == 1 and words in told and "hudtui[" in told
