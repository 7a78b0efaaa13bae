"""What servers leave behind is named: processes, their memory and ports, files."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hudtui.core.audit.leftovers import marked

LISTENS = """
import pathlib, os, socket, sys
listening = socket.create_server(("127.0.0.1", 0))
pathlib.Path(os.environ["TMPDIR"], "left.txt").write_text("one")
print(listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are seen on Linux")
def test_processes_their_ports_and_files_are_named():
    with marked() as mark:
        (server,) = mark.put({"one": {"command": "x"}}).values()
        left = subprocess.Popen(
            [sys.executable, "-c", LISTENS],
            env={**os.environ, **server["env"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            port = left.stdout.readline().strip()
            process, ports, files = asyncio.run(mark.leftovers())
        finally:
            left.communicate()
        assert process.startswith("1 process (python") and process.endswith(" MB")
        assert ports == f"1 open port ({port})"
        assert files == "1 temporary file (left.txt)"


def test_nothing_that_is_left_is_nothing_to_say():
    with marked() as mark:
        assert asyncio.run(mark.leftovers()) == ()
