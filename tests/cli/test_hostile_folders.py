"""A few folders of `tests/faults/hostile_folders.py`, which looks at hundreds: nothing of theirs
runs, and nothing goes out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "faults" / "hostile_folders.py"


@pytest.mark.timeout(400)  # four folders, a dozen commands each
def test_hostile_folders_get_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(SCRIPT), "4", "11"],
        capture_output=True,
        text=True,
        timeout=350,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    assert (
        "folders 4   programs run 0   requests 0   limits changed 0   visits that broke 0"
        in done.stdout
    )
