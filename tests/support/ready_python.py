"""Python of another environment with its slow imports done: each program that it carries out is a
fork of it."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from support.ready_command import ReadyCommand


class ReadyPython:
    """Carries out one program at a time; a context manager.

    Args:
        python: Python of the environment.
        environment: What the modules see when they are imported.
        modules: What is imported once.
        threads: They start threads of their own, which a fork does not have.
    """

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str],
        modules: tuple[str, ...],
        *,
        threads: bool = False,
    ) -> None:
        entry = "support.ready_python:" + ("main_without_threads" if threads else "main")
        self._command = ReadyCommand(Path(python), entry, environment, modules)
        self.wait = self._command.wait

    def start(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        out: BinaryIO,
        error: BinaryIO,
    ) -> int:
        """Begin a program, given as Python's own command line takes it; returns its process id."""
        with open(os.devnull, "rb") as nothing:
            streams = [nothing.fileno(), out.fileno(), error.fileno()]
            return self._command.start(
                ["python", *words], cwd=cwd, environment=env, streams=streams
            )

    def run(
        self, *words: str, cwd: Path, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Carry a program out to its end."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
            self.start(words, cwd=cwd, env=env, out=out, error=error)
            code = self.wait(600)
            assert code is not None, "it goes on after 600 s"
            for stream in (out, error):
                stream.seek(0)
            return subprocess.CompletedProcess(
                words, code, out.read().decode(), error.read().decode()
            )

    def __enter__(self) -> ReadyPython:
        return self

    def __exit__(self, *_: object) -> None:
        self._command.__exit__()


def main() -> None:
    """Be a Python that was started with `-P` and these words."""
    words = sys.argv[1:]
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        exec(words[1], {"__name__": "__main__"})  # noqa: S102
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def main_without_threads() -> None:
    """As `main`, but without the farewell of the modules, which would wait for their threads."""
    code = 1
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
