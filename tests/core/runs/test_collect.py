"""Results of runs on this machine; those of other machines are in `test_rented.py`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.remote.host import FileChanged
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.results import fetch_results
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.store import RunRecord


async def test_results_come_once_whatever_python_the_user_has(
    make: Callable[..., RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = make("true")
    out = Path(record.folder) / "out"
    out.mkdir(parents=True)
    (out / "metrics.jsonl").write_text('{"reward": 1}\n')
    (out / "unasked").write_text("no result")
    machine, home = RunFolder(LocalHost(), record), tmp_path / "home"
    with monkeypatch.context() as bare:
        bare.setenv("PATH", str(tmp_path))
        first = await fetch_results(machine, home)
    assert (first.files, first.size, first.fetched) == (1, 14, 14)
    assert (home / "out" / "metrics.jsonl").read_text() == '{"reward": 1}\n' and not (
        home / "out" / "unasked"
    ).exists()
    assert (await fetch_results(machine, home)).fetched == 0


class _Changing(LocalHost):
    """A machine on which a file changes between its being listed and being fetched, so many
    times."""

    def __init__(self, path: Path, times: int) -> None:
        super().__init__()
        self.path, self.times = path, times

    async def download(self, remote: Any, local: Path, **more: Any) -> None:
        if Path(remote) == self.path and self.times:
            self.times -= 1
            self.path.write_text(f"{self.times:08}")
        await super().download(remote, local, **more)


@pytest.mark.parametrize("times", [0, 1, 3, 99])
async def test_what_is_fetched_is_what_was_listed(
    make: Callable[..., RunRecord], tmp_path: Path, times: int
) -> None:
    record = make("true")
    out = Path(record.folder) / "out"
    out.mkdir(parents=True)
    (out / "metrics.jsonl").write_text("as it was")
    machine = RunFolder(_Changing(out / "metrics.jsonl", times), record)
    if times < 99:
        await fetch_results(machine, tmp_path / "home")
        assert (tmp_path / "home/out/metrics.jsonl").read_text() == (
            out / "metrics.jsonl"
        ).read_text()
    else:
        with pytest.raises(FileChanged, match="cannot be brought"):
            await fetch_results(machine, tmp_path / "home")
        assert os.listdir(tmp_path / "home/out") == []
