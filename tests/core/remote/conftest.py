from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults import ssh_follow
from support import bad_line as lines
from support import sshd, tmux_world

from hudtui.core.remote.host import Host
from hudtui.core.remote.local import LocalHost

own_tmux = tmux_world.own_tmux
ssh_server = sshd.ssh_server
ssh_box = sshd.ssh_box


@pytest.fixture(params=["here", "behind SSH"])
async def host(request: pytest.FixtureRequest) -> AsyncIterator[Host]:
    """This computer, and one behind SSH."""
    if request.param == "here":
        yield LocalHost()
        return
    box = request.getfixturevalue("ssh_box")
    async with await sshd.connect_ssh(box.target(), known_hosts=box.known_hosts()) as there:
        yield there


@pytest.fixture
def bad_line() -> Any:
    """The class of proxies that stand for a bad line."""
    return lines.BadLine


@pytest.fixture
def make_key() -> Any:
    """Makes a key: `make_key(path, words="pass-phrase")`."""
    return sshd.make_key


@pytest.fixture
def own_server(own_tmux: str, tmp_path: Path) -> Iterator[Any]:
    """A machine whose server belongs to this test alone."""
    with sshd.running_server() as server:
        box = sshd.Box(server, Path.home(), tmp_path / "own-pins")
        box.world()
        yield box


@pytest.fixture
def faults() -> Any:
    """The script `tests/faults/ssh_follow.py` as a module."""
    return ssh_follow
