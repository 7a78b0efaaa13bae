"""`hudtui env serve` as a user types it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.openenv_client import connected
from typer.testing import CliRunner

from hudtui.cli.app import build


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_it_says_where_it_listens_plays_and_ends_by_a_signal(how):
    command = [
        sys.executable,
        "-m",
        "hudtui",
        "env",
        "serve",
        "--source",
        "text-2048",
        "--port",
        "0",
        "--json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: ASYNC220
    try:
        lines = []
        while not lines or lines[-1] != "}\n":
            lines.append(process.stdout.readline())
            assert lines[-1], process.stderr.read()
        said = json.loads("".join(lines))
        assert (
            said["actions"] == ["move", "done"]
            and len(said["token"]) >= 32
            and said["socket"].startswith("ws://127.0.0.1:")
        )
        async with connected(said["url"], Authorization=f"Bearer {said['token']}") as client:
            await client.reset()
            assert (await client.call("move", direction="left"))["observation"]["is_error"] is False
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            assert len(children) == 1
            process.send_signal(how)
            out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 128 + how
    assert (
        out == ""
        and err.splitlines()[-1].endswith("all sessions are closed")
        and said["token"] not in err
    )
    assert not any(Path(f"/proc/{child}").exists() for child in children)


def test_a_wrong_request_is_said_as_json_too():
    result = CliRunner().invoke(build(), ["env", "serve", "--json"])
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["what"] == "there is nothing to serve"


def test_a_configuration_without_an_action_for_the_environment_is_refused_before_anything_listens():
    Path("c.yaml").write_text("action_mappings:\n  fly: {_tool: fly}\n")
    result = CliRunner().invoke(build(), ["env", "serve", "c.yaml", "--source", "text-2048"])
    assert result.exit_code == 2
    assert "the configuration has no action for this environment" in result.stderr
