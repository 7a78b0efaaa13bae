"""A command of another Python environment, imported once: each use of it is a fork, with a status
and streams of its own.

As a script, started by `ReadyCommand`: `python ready_command.py MODULE:FUNCTION [MODULE...]`, with
a socket as standard input.
"""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


class ReadyCommand:
    """The command, ready to be used; a context manager. Carries out one use at a time.

    Args:
        python: Python of the environment.
        entry: What an installed script of the command calls, as `module:function`.
        environment: What the modules see when they are imported.
        also: Modules that the command imports late, to be imported early.
    """

    def __init__(
        self, python: Path, entry: str, environment: Mapping[str, str], also: tuple[str, ...] = ()
    ) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [str(python), __file__, entry, *also], stdin=theirs, env=dict(environment)
            )

    def start(
        self, argv: list[str], *, cwd: Path, environment: Mapping[str, str], streams: list[int]
    ) -> int:
        """Begin a use in a session of its own; returns its process id. The streams are its standard
        input, output and error."""
        order = {"argv": argv, "cwd": str(cwd), "environment": dict(environment)}
        socket.send_fds(self._ours, [json.dumps(order).encode()], streams)
        return int(
            self._answer(300)
        )  # the imports come first, and take a minute on a machine that has much to do

    def wait(self, seconds: float) -> int | None:
        """The exit status of the use, negative where a signal ended it; None while it goes on after
        so many seconds."""
        try:
            return int(self._answer(seconds))
        except TimeoutError:
            return None

    def _answer(self, seconds: float) -> bytes:
        self._ours.settimeout(seconds)
        answer = self._ours.recv(100)
        assert answer, "the program that forks has ended"
        return answer

    def __enter__(self) -> ReadyCommand:
        return self

    def __exit__(self, *_: Any) -> None:
        self._ours.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    sys.path[0] = str(
        Path(__file__).parents[1]
    )  # for `support`; what stands beside this file has common names
    module, _, name = sys.argv[1].partition(":")
    function = getattr(import_module(module), name)
    for late in sys.argv[2:]:
        import_module(late)
    del sys.path[0]
    gc.freeze()  # no fork goes through what was imported
    with socket.socket(fileno=os.dup(0)) as orders:
        while True:
            text, streams, *_ = socket.recv_fds(orders, 1 << 16, 3)
            if not text:
                return
            child = os.fork()
            if child == 0:
                break
            for stream in streams:
                os.close(stream)
            orders.send(str(child).encode())
            orders.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    order = json.loads(text)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = order["argv"]
    sys.exit(function())


if __name__ == "__main__":
    main()
