"""The logs of a run whose other node is gone."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from hudtui.cli import runlog
from hudtui.core.errors import MachineError
from hudtui.core.process import machine_label
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.plan import Plan, Stage


class Answers(LocalHost):
    name = "me@a"


class Gone(LocalHost):
    name = "me@b"

    async def stat(self, path: Any) -> Any:
        raise MachineError("me@b cannot be reached")

    async def get(self, path: Any, **_: Any) -> Any:
        raise MachineError("me@b cannot be reached")


def gone_run(folder: Path) -> tuple[RunStore, Monitor]:
    """A failed run on two nodes, of which the second is gone."""
    store = RunStore(folder / ".hudtui")
    stages = (Stage("train", ("true",)), Stage("train-1", ("true",), node=1))
    spec = RunSpec("trl", "t", str(folder), nodes=2, peers=("me@b",))
    place = folder / "there"
    (place / "logs").mkdir(parents=True)
    (place / "logs" / "train.log").write_text("the words of node 0\n")
    plan = Plan("trl", stages)
    store.add(
        RunRecord("r", time.time(), "t", "trl", "me@a", machine_label(), str(place), spec, plan)
    )
    store.append("r", "failed", {"why": "node 1 (me@b): nothing was heard of it for 75 s"})
    hosts = {"me@a": Answers(), "me@b": Gone()}
    return store, Monitor(store, hosts=hosts.get)


async def test_a_node_that_is_gone_keeps_nobody_from_the_other_logs(
    own_world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, monitor = gone_run(own_world)
    windows = ["train", "train-1"]
    sink = runlog.Sink(False, windows)
    await runlog.follow_all(monitor, "r", windows, runlog.EVERYTHING, sink)
    said = capsys.readouterr()
    assert "the words of node 0" in said.out
    assert "train-1: its log cannot be read: me@b cannot be reached" in said.err


async def test_the_first_node_has_to_answer(own_world: Path) -> None:
    store, _ = gone_run(own_world)
    monitor = Monitor(store, hosts=lambda name: Gone())
    sink = runlog.Sink(False, ["train"])
    with pytest.raises(MachineError, match="cannot be reached"):
        await runlog.follow_all(monitor, "r", ["train"], runlog.EVERYTHING, sink)
