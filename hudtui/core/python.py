"""Commands that start a Python for hudtui's own work.

Python looks for modules first in the folder that it is started in, or that its script is in. That is the user's folder, and what
lies there must not stand in for a module: a `random.py` of a folder from elsewhere would be carried out. Every such command is
made here.
"""

from __future__ import annotations

import sys


def python_command(*words: str, python: str | None = None) -> tuple[str, ...]:
    """The command `python WORDS` that passes over the folder it is started in (`-P`). Needs Python 3.11.

    Args:
        words: Its arguments, such as `-m`, `hudtui.sim`.
        python: The interpreter; our own by default.
    """
    return (python or sys.executable, "-P", *words)


def isolated_python_command(python: str, *words: str) -> tuple[str, ...]:
    """The same for what needs the standard library alone, on any Python 3: no installed packages, no `PYTHON...` variables."""
    return (python, "-I", "-S", *words)
