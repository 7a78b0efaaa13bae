"""The commands: parse arguments, call the core, print. No logic of their own."""

from __future__ import annotations

import gc
import os
import sys
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hudtui.core.runs.external import ExternalRun

_COMPLETION = "_HUDTUI_COMPLETE"
"""Set by a shell that asks for completions: it calls without arguments, and wants no app."""


def main(name: str | None = None) -> None:
    """Entry point of `hudtui`.

    `name` is what help calls the program, where it is started under another one.

    Without arguments the full-screen app opens at once, and with `watch PATH` on the run at that
    path: nothing that only the commands need is imported before its first paint.
    """
    gc.disable()  # what is imported stays
    _guard_terminal()
    os.umask(os.umask(0o022) | 0o002)  # nothing that is made here may be written by everybody
    folder = _current_folder()
    if len(sys.argv) == 1 and _COMPLETION not in os.environ:
        from hudtui.tui.app import run_app

        sys.exit(run_app())
    if (external := _watched()) is not None:
        from hudtui.tui.app import run_app

        sys.exit(run_app(opens=("run", {"external": external})))
    from hudtui.cli.app import command
    from hudtui.cli.console import Again

    gc.enable()
    while True:
        try:
            command()(prog_name=name)
        except Again:
            os.chdir(folder)  # `-C` counts from where the command was given


def _watched() -> ExternalRun | None:
    """Return what `watch PATH` opens at a terminal.

    None for every other command, and where the command has to say what is wrong.
    """
    if len(sys.argv) != 3 or sys.argv[1] != "watch" or not os.path.exists(sys.argv[2]):
        return None
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return None
    import asyncio
    from importlib import import_module

    from hudtui.core.errors import HudtuiError
    from hudtui.core.runs.external import find_external, read_place

    place = read_place(sys.argv[2])
    if place.file is None:
        return None

    async def find() -> ExternalRun:
        # The app is imported while programs of the system look into a folder.
        app = asyncio.to_thread(import_module, "hudtui.tui.app")
        return (await asyncio.gather(find_external(place, thresholds=_thresholds), app))[0]

    try:
        return asyncio.run(find())
    except HudtuiError:
        return None
    except KeyboardInterrupt:
        sys.exit(130)


def _thresholds() -> Mapping[str, float]:
    from pathlib import Path

    from hudtui.core.diagnosis.alarms import read_thresholds

    return read_thresholds(Path.cwd())


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
