"""Commands that start a Python for hudtui's own work.

Python looks for modules first in the folder that it is started in, or that its script is in. That
is the user's folder, and a file there must not replace a module: a `random.py` of a foreign folder
would be executed. Every such command is made here.
"""

from __future__ import annotations

import sys


def python_command(*words: str, python: str | None = None) -> tuple[str, ...]:
    """The command `python WORDS` that does not import from the folder it is started in (`-P`).

    Needs Python 3.11.

    Args:
        words: Its arguments, such as `-m`, `hudtui.sim`.
        python: The interpreter; the running one by default.
    """
    return (python or sys.executable, "-P", *words)


def isolated_python_command(python: str, *words: str) -> tuple[str, ...]:
    """The command for a program of the standard library, on any Python 3.

    No installed packages, no `PYTHON...` variables.
    """
    return (python, "-I", "-S", *words)
