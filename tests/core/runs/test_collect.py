"""Results of runs on this machine; those of other machines are in `test_rented.py`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
    assert (home / "out" / "metrics.jsonl").read_text() == '{"reward": 1}\n' and not (home / "out" / "unasked").exists()
    assert (await fetch_results(machine, home)).fetched == 0
