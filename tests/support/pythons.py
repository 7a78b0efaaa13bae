"""Interpreters for what travels to machines, which may have an old one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


def _old_pythons() -> list[str]:
    """The oldest interpreter of 3.8 to 3.10 that is at hand; none is needed, the syntax is checked
    anyway."""
    for minor in (8, 9, 10):
        places = [
            shutil.which(f"python3.{minor}"),
            *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python")),
        ]
        for place in places:
            if (
                place
                and subprocess.run([place, "-c", "import ctypes"], capture_output=True).returncode
                == 0
            ):
                return [place]
    return []


PYTHONS = [sys.executable, *_old_pythons()]
