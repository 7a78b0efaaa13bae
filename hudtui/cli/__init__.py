"""The commands: parse arguments, call the core, print. No logic of their own."""

from __future__ import annotations

import os
import sys
from types import TracebackType

_COMPLETION = "_HUDTUI_COMPLETE"
"""Set by a shell that asks for completions: it calls without arguments, and wants no app."""


def main(name: str | None = None) -> None:
    """Entry point of `hudtui`.

    `name` is what help calls the program, where it is started under another one.

    Without arguments the full-screen app opens at once: nothing that only the commands need is
    imported before its first paint.
    """
    _guard_terminal()
    os.umask(os.umask(0o022) | 0o002)  # nothing that is made here may be written by everybody
    folder = _current_folder()
    if len(sys.argv) == 1 and _COMPLETION not in os.environ:
        from hudtui.tui.app import run_app

        sys.exit(run_app())
    from hudtui.cli.app import command
    from hudtui.cli.console import Again

    while True:
        try:
            command()(prog_name=name)
        except Again:
            os.chdir(folder)  # `-C` counts from where the command was given


def _current_folder() -> str:
    """Return the current folder.

    Where it was removed, or may not be read, nothing can be done, and that is said.
    """
    try:
        return os.getcwd()
    except OSError as error:
        if _COMPLETION in os.environ:
            sys.exit(0)
        import typer

        from hudtui.cli import console
        from hudtui.core.errors import InputError

        gone = isinstance(error, FileNotFoundError)
        what = (
            "the current folder does not exist any more"
            if gone
            else "the current folder cannot be used"
        )
        try:
            with console.failures(as_json="--json" in sys.argv):
                raise InputError(
                    what, why=None if gone else error.strerror, fix="Go to another one: cd FOLDER."
                )
        except typer.Exit as end:
            sys.exit(end.exit_code)


def _guard_terminal() -> None:
    """Keep what others wrote from reaching the terminal as it is.

    Logs of libraries, and the texts of unexpected errors.
    """
    import logging

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        import traceback

        from hudtui.core.text import clean

        sys.stderr.write(clean("".join(traceback.format_exception(kind, error, trace))))

    logging.getLogger().addHandler(
        logging.NullHandler()
    )  # without a handler Python writes warnings to standard error
    sys.excepthook = show
