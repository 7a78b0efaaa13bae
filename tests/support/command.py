"""`hudtui` as a user types it, in the process of the test: the start of Python and the imports take
most of a command's time.

A test of signals, of a terminal, or of what stays when a command is killed starts a process
instead.
"""

from __future__ import annotations

import subprocess

from typer.testing import CliRunner

from hudtui.cli.app import build


def hudtui(*words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
    """Carry out one command with nothing on standard input, which is no terminal.

    Args:
        words: What stands behind `hudtui`.
        code: The exit code that is expected; None for any.
    """
    done = CliRunner().invoke(build(), list(words), prog_name="hudtui")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert code in (None, done.exit_code), (done.exit_code, done.stdout, done.stderr)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)
