"""The scripts that check hudtui beside a real counterpart do not rot: each smoke mode plays what
needs no download."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REAL = Path(__file__).parent / "real"
SMOKE = (
    *("art", "containers", "diagnosis", "dialects", "from_zero", "gpu", "learns", "learns_files"),
    *("openenv", "prime", "servers", "trackers", "trainings", "two_gpus", "verifiers", "vllm"),
)


@pytest.mark.parametrize("name", SMOKE)
def test_the_smoke_mode_passes(name: str, own_world: Path) -> None:
    words = [sys.executable, str(REAL / f"{name}.py"), "--smoke", "--out", str(own_world / "out")]
    done = subprocess.run(
        words, cwd=own_world, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert (
        "FAIL" not in done.stdout and "MISS" not in done.stdout and done.stdout.count("\n") >= 2
    ), done.stdout


@pytest.mark.parametrize("path", sorted(REAL.glob("*.py")), ids=lambda path: path.stem)
def test_each_script_says_what_it_needs(path: Path) -> None:
    if "__main__" not in path.read_text():  # a module of the others
        return
    words = [sys.executable, str(path), "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr[-2000:]


def test_what_was_verified_is_short_and_names_scripts_that_exist() -> None:
    text = (REAL.parents[1] / "docs" / "verified.md").read_text()
    assert len(text.splitlines()) <= 150
    named = set(re.findall(r"`(tests/[\w/]+\.\w+)", text))
    assert len(named) > 20
    assert not [path for path in named if not (REAL.parents[1] / path).exists()]
