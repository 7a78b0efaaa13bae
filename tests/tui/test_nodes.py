"""The nodes of a run on the pane of its machine."""

from __future__ import annotations

from dataclasses import replace

from hudtui.core.runs.heat import HeatMap, HeatRow
from hudtui.core.runs.status import GpuLoad, NodeView, RunView
from hudtui.core.runs.values import RunSummary
from hudtui.tui.runs.machine import machine_rows
from hudtui.tui.widgets.heat_maps import heat_lines


def test_each_node_is_a_row_of_the_machine_with_its_state() -> None:
    run = RunSummary("a", "a", "trl", "me@a", "/f", state="running", started=1.0)
    nodes = (
        NodeView(1, "me@b", "running", silent=2.0),
        NodeView(2, "me@c", "", problem="me@c does not answer"),
    )
    lines = machine_rows(RunView(run, nodes=nodes), 120, "", 40).plain.splitlines()
    assert lines[0].startswith("node 1") and "me@b: running, heartbeat 2 s ago" in lines[0]
    assert lines[1].startswith("node 2") and "me@c: not known: me@c does not answer" in lines[1]
    over = NodeView(1, "me@b", "running", left=True)
    ended = RunView(replace(run, state="failed"), nodes=(over,))
    assert "hudtui runs stop ends it" in machine_rows(ended, 160, "", 40).plain
    assert machine_rows(RunView(run), 120, "", 40).plain == ""


def test_many_nodes_share_a_line_where_there_is_little_room() -> None:
    run = RunSummary("a", "a", "trl", "me@a", "/f", state="running", started=1.0)
    gpus = tuple(GpuLoad(index, 1024, 81920, 50.0) for index in range(8))
    nodes = [
        NodeView(node, f"me@{node}", "running", silent=node / 2, gpus=gpus) for node in range(1, 16)
    ]
    nodes[4] = replace(nodes[4], gpus=(GpuLoad(0, 40960, 81920, 5.0),))
    nodes[8] = NodeView(9, "me@9", "", problem="me@9 does not answer")
    view = RunView(run, gpus=gpus, nodes=tuple(nodes))
    wide = machine_rows(view, 120, "", 40).plain.splitlines()
    assert len(wide) == 8 + 15
    small = machine_rows(view, 76, "", 8).plain.splitlines()
    assert [line.split("  ")[0] for line in small] == ["8 GPUs", "node 9", "14 nodes"]
    assert "me@9 does not answer" in small[1]
    assert "50 %" in small[2] and "40/80 GiB" in small[2] and "running" in small[2]


def test_a_map_has_a_row_for_each_gpu_and_fits_into_any_width() -> None:
    rows = tuple(
        HeatRow(f"node 1 GPU {gpu}", [10.0 * n for n in range(200)], [gpu * 10.0] * 200)
        for gpu in range(3)
    )
    found = HeatMap("GPU utilization %", rows, 0, 100, 0, 1990)
    for width in (160, 80, 40, 12):
        lines = [line.plain for line in heat_lines(found, width)]
        assert len(lines) == 6 and all(len(line) <= width for line in lines)
    title, first, _, last, times, _ = (line.plain for line in heat_lines(found, 80))
    assert title == "GPU utilization %  0 is 0, 9 is 100"
    assert first.startswith("node 1 GPU 0 000") and first.endswith(" 0")
    assert "2222" in last and last.endswith(" 20")
    assert times.split() == ["0", "s", "33", "min"]
