"""What is peculiar to this machine as a host; what all hosts have in common is in
`test_host_contract.py`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from hudtui.core.remote.local import LocalHost


async def test_cancelled_twice_it_still_waits_for_the_end_of_the_command(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    task = asyncio.create_task(
        LocalHost().run(["sh", "-c", f"echo $$ >{told}.new; mv {told}.new {told}; exec sleep 60"])
    )
    while not told.exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.sleep(0)  # it has killed the command, and waits
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)


@pytest.mark.parametrize("turns", range(12))
async def test_cancelled_while_it_starts_it_leaves_nothing(turns: int) -> None:
    task = asyncio.create_task(LocalHost().run(["sh", "-c", "sleep 1000 & sleep 1000"]))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # own_tmux proves that nothing is left
