"""The commands: parse arguments, call the core, print. No logic of their own."""

from __future__ import annotations

import os
import sys
from types import TracebackType

_COMPLETION = "_HUDTUI_COMPLETE"
"""Set by a shell that asks for completions: it calls without arguments, and wants no app."""


def main() -> None:
    """Entry point of `hudtui`.

    Without arguments the full-screen app opens at once: nothing that only the commands need is imported before its first paint.
    """
    _guard_terminal()
    if len(sys.argv) == 1 and _COMPLETION not in os.environ:
        from hudtui.tui.app import run_app

        sys.exit(run_app())
    from hudtui.cli.app import command
    from hudtui.cli.console import Again

    folder = os.getcwd()
    while True:
        try:
            command()()
        except Again:
            os.chdir(folder)  # `-C` counts from where the command was given


def _guard_terminal() -> None:
    """Keep what others wrote from reaching the terminal as it is: logs of libraries, and the texts of unexpected errors."""
    import logging

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        import traceback

        from hudtui.core.text import clean

        sys.stderr.write(clean("".join(traceback.format_exception(kind, error, trace))))

    logging.getLogger().addHandler(logging.NullHandler())  # without a handler Python writes warnings to standard error
    sys.excepthook = show
