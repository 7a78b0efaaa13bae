from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from hudtui.core.errors import MachineError
from hudtui.core.remote import tmux
from hudtui.core.remote.host import Host
from hudtui.core.remote.local import LocalHost


@pytest.fixture
def host() -> Host:
    return LocalHost()


async def test_run_gives_status_and_output(host: Host) -> None:
    done = await host.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in \xff")
    assert (done.exit_status, done.stdout, done.stderr, done.ok) == (3, "in \ufffd", "err\n", False)
    assert (await host.run(["true"])).ok


async def test_run_has_the_folder_and_the_environment(host: Host, tmp_path: Path) -> None:
    done = await host.run(["sh", "-c", "pwd; echo $WORD; echo $HOME"], cwd=str(tmp_path), env={"WORD": "a b"})
    assert done.stdout.split("\n")[:3] == [str(tmp_path), "a b", os.environ["HOME"]]
    assert (await host.run(["pwd"])).stdout.strip() == os.environ["HOME"]


async def test_no_shell_is_in_between(host: Host) -> None:
    done = await host.run(["printf", "%s|", "$HOME", "a b", "*", "; rm x"])
    assert done.stdout == "$HOME|a b|*|; rm x|"


async def test_much_output_on_both_pipes(host: Host) -> None:
    script = "import sys; sys.stdout.write('o' * 3000000); sys.stderr.write('e' * 3000000)"
    done = await host.run([sys.executable, "-c", script])
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


async def test_a_missing_program_is_told(host: Host) -> None:
    with pytest.raises(MachineError, match="no-such-program") as caught:
        await host.run(["no-such-program"])
    assert caught.value.why == "No such file or directory"


async def test_a_command_that_takes_too_long_ends_with_its_children(host: Host, own_tmux: str) -> None:
    began = time.monotonic()
    with pytest.raises(MachineError, match=r"did not end within 0.3 s"):
        await host.run(["sh", "-c", "sleep 1000 & sleep 1000"], timeout=0.3)
    assert time.monotonic() - began < 10


async def test_cancelling_ends_the_command(host: Host, own_tmux: str) -> None:
    task = asyncio.create_task(host.run(["sh", "-c", "sleep 1000 & sleep 1000"]))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_daemon_that_holds_the_pipes_does_not_hold_us(host: Host, own_tmux: str) -> None:
    began = time.monotonic()
    done = await host.run(["sh", "-c", "setsid sleep 5 & echo $!"], timeout=30)
    assert time.monotonic() - began < 4
    os.kill(int(done.stdout), 9)


async def test_put_and_get(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    await host.put(b"secret", str(path), mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    assert await host.get(str(path)) == b"secret"
    assert await host.get(str(path), offset=2, limit=3) == b"cre"
    await host.put(path, "in-home")
    assert (Path.home() / "in-home").read_bytes() == b"secret"
    facts = await host.facts("in-home")
    assert facts is not None and facts.size == 6
    assert await host.facts("in-home/nothing") is None


async def test_failures_of_put_and_get_are_told(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MachineError, match="cannot be written"):
        await host.put(b"x", str(tmp_path / "file" / "below"))
    with pytest.raises(MachineError, match="cannot be read"):
        await host.get(str(tmp_path / "none"))
    with pytest.raises(MachineError, match="cannot be read"):
        await host.put(tmp_path / "none", str(tmp_path / "copy"))


async def test_sessions_of_runs_are_found_and_closed(host: Host) -> None:
    assert (await tmux.version(host) or "").startswith("tmux ")
    assert await tmux.sessions(host) == ()
    for name in ("hudtui-a", "hudtui-ab", "mine"):
        assert (await host.run(["tmux", "new-session", "-d", "-s", name, "sleep", "1000"])).ok
    assert await tmux.sessions(host) == ("hudtui-a", "hudtui-ab")
    assert await tmux.close_unwatched(host, "hudtui-a")
    assert not await tmux.kill_session(host, "hudtui-a")
    assert await tmux.sessions(host) == ("hudtui-ab",)
