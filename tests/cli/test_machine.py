from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import sshd, tmux_world
from typer.testing import CliRunner

from hudtui.cli.app import build

own_tmux = tmux_world.own_tmux


@pytest.fixture
def box(own_tmux: str, tmp_path: Path) -> Iterator[Any]:
    with sshd.running_server() as server:
        found = sshd.Box(server, Path.home(), tmp_path / "pins")
        found.world()
        ssh = Path.home() / ".ssh"
        ssh.mkdir()
        (ssh / "config").write_text(
            f"Host box\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.key}\n  "
            "IdentityAgent none\n"
        )
        yield found


def test_this_machine() -> None:
    done = CliRunner().invoke(build(), ["machine", "--json"])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["name"] == "local" and found["python"] == platform.python_version()


def test_a_machine_behind_ssh(box: Any) -> None:
    done = CliRunner().invoke(build(), ["machine", "box", "--json"])
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["name"].endswith(f"@127.0.0.1:{box.port}")
    assert found["cpus"] == len(os.sched_getaffinity(0))
    assert "first contact" in done.stderr and "SHA256:" in done.stderr
    done = CliRunner().invoke(build(), ["machine", "box"])
    assert (
        done.exit_code == 0 and "processors" in done.stdout and "first contact" not in done.stderr
    )


def test_a_machine_that_is_another_one_now(box: Any) -> None:
    assert CliRunner().invoke(build(), ["machine", "box", "--json"]).exit_code == 0
    box.server.stop()
    box.server.new_host_key()
    box.server.start()
    done = CliRunner().invoke(build(), ["machine", "box", "--json"])
    assert done.exit_code == 5
    error = json.loads(done.stdout)["error"]
    assert (
        error["type"] == "HostKeyChanged"
        and "CHANGED" in error["what"]
        and "CHANGED" in done.stderr
    )


def test_machines_that_are_none(box: Any) -> None:
    done = CliRunner().invoke(build(), ["machine", "no machine"])
    assert done.exit_code == 2 and "names no machine" in done.stderr
    box.server.stop()
    done = CliRunner().invoke(build(), ["machine", "box"])
    assert done.exit_code == 5 and "refused the connection" in done.stderr


def test_asyncssh_is_not_imported_for_this_machine() -> None:
    import subprocess

    code = (
        "import sys; from typer.testing import CliRunner; from hudtui.cli.app import build;done = "
        "CliRunner().invoke(build(), ['machine', '--json']); assert done.exit_code == 0, "
        "done.output;print('asyncssh' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
