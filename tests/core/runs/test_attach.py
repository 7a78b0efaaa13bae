from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import RunError
from hudtui.core.remote.hosts import close_hosts
from hudtui.core.runs.status import RunView
from hudtui.core.runs.values import RunSummary
from hudtui.core.runs.watch import Monitor, attach_command


class Shows(Monitor):
    """Shows these views, one after the other; the last one again and again."""

    def __init__(self, *views: RunView) -> None:
        self.views_left = list(views)

    async def view(self, run: str, *, brief: bool = False) -> RunView:
        return self.views_left.pop(0) if len(self.views_left) > 1 else self.views_left[0]


def view(host: str = "local", **more: Any) -> RunView:
    return RunView(
        RunSummary(
            "a-1",
            "a",
            "rollouts",
            host,
            "/runs/a-1",
            **{"state": "running", "mode": "tmux", "stage": "s0", **more},
        )
    )


async def test_here_it_is_tmux_itself() -> None:
    assert await attach_command(Shows(view()), "a-1") == (
        "tmux",
        "attach-session",
        "-t",
        "=hudtui-a-1",
    )


async def test_the_session_of_a_run_that_has_just_started_is_waited_for() -> None:
    command = await attach_command(Shows(view(stage=None), view(stage=None), view()), "a-1")
    assert command == ("tmux", "attach-session", "-t", "=hudtui-a-1")


async def test_elsewhere_it_is_ssh_with_the_key_that_is_known(ssh_box: Any) -> None:
    config = Path.home() / ".ssh" / "config"
    config.parent.mkdir(mode=0o700)
    lines = (
        "HostName 127.0.0.1",
        f"Port {ssh_box.port}",
        f"User {getpass.getuser()}",
        f"IdentityFile {ssh_box.server.key}",
    )
    config.write_text("\n  ".join(("Host box", *lines, "IdentityAgent none")) + "\n")
    command = await attach_command(Shows(view("box")), "a-1")
    assert command[0] == "ssh" and "-t" in command and "attach-session" in " ".join(command)
    assert "StrictHostKeyChecking=no" not in " ".join(command)
    await close_hosts()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"mode": "processes"}, "detached processes"),
        ({"state": "finished"}, "the run has ended"),
        (
            {"state": "planned", "mode": None, "stage": None},
            "the run's first stage has not started yet",
        ),
    ],
)
async def test_where_there_is_none_it_is_said(more: dict[str, Any], why: str) -> None:
    with pytest.raises(RunError, match=why) as caught:
        await attach_command(Shows(view(**more)), "a-1")
    assert caught.value.fix == "hudtui runs logs a-1"
