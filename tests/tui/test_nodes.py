"""The nodes of a run on the pane of its machine."""

from __future__ import annotations

from dataclasses import replace

from hudtui.core.runs.status import NodeView, RunView
from hudtui.core.runs.values import RunSummary
from hudtui.tui.runs.machine import machine_rows


def test_each_node_is_a_row_of_the_machine_with_its_state() -> None:
    run = RunSummary("a", "a", "trl", "me@a", "/f", state="running", started=1.0)
    nodes = (
        NodeView(1, "me@b", "running", silent=2.0),
        NodeView(2, "me@c", "", problem="me@c does not answer"),
    )
    lines = machine_rows(RunView(run, nodes=nodes), 120, "").plain.splitlines()
    assert lines[0].startswith("node 1") and "me@b: running, heartbeat 2 s ago" in lines[0]
    assert lines[1].startswith("node 2") and "me@c: not known: me@c does not answer" in lines[1]
    over = NodeView(1, "me@b", "running", left=True)
    ended = RunView(replace(run, state="failed"), nodes=(over,))
    assert "hudtui runs stop ends it" in machine_rows(ended, 160, "").plain
    assert machine_rows(RunView(run), 120, "").plain == ""
