"""The commands: parse arguments, call the core, print. No logic of their own."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of `hudtui`.

    Without arguments the full-screen app opens at once: nothing that only the commands need is imported before its first paint.
    """
    if len(sys.argv) == 1:
        from hudtui.tui.app import run_app

        sys.exit(run_app())
    import os

    from hudtui.cli.app import build
    from hudtui.cli.console import Again

    folder = os.getcwd()
    while True:
        try:
            build()()
        except Again:
            os.chdir(folder)  # `-C` counts from where the command was given
