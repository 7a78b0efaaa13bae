"""The load of many GPUs and nodes as maps."""

from __future__ import annotations

from collections.abc import Iterable

from hudtui.core.runs.heat import HeatMap, has_heat_maps, heat_maps
from hudtui.core.runs.status import NodeView, RunView, gpu_load
from hudtui.core.runs.values import RunSummary
from hudtui.core.training.metrics import MetricsReader

BEGIN = 1.7e9
RUN = RunSummary("a", "a", "trl", "me@a", "/f", state="running", started=1.0)


def load(gpus: int, samples: Iterable[int], machine: float | None = None) -> MetricsReader:
    """The load of a node, whose GPU n is at 10 n and a tenth of a per cent more each sample."""
    reader = MetricsReader()
    for number in samples:
        rows = [
            {"index": gpu, "utilization": 10 * gpu + number / 10, "celsius": 40 + gpu}
            for gpu in range(gpus)
        ]
        row = {"gpus": rows, "machine": None if machine is None else {"cpu": machine}}
        reader.add({**gpu_load(row), "time": BEGIN + 10 * number})
    return reader


def labels(found: HeatMap) -> list[str]:
    return [row.label for row in found.rows]


def test_a_row_for_each_gpu_in_their_order() -> None:
    view = RunView(RUN, load=load(12, range(30)))
    busy, hot = heat_maps(view)
    assert (busy.title, hot.title) == ("GPU utilization %", "GPU temperature °C")
    assert labels(busy) == [f"GPU {n}" for n in range(12)]
    assert (busy.low, busy.high, hot.low, hot.high) == (0, 100, 40, 51)
    assert [busy.digit(value) for value in busy.cells(busy.rows[7], 3)] == ["7", "7", "7"]
    assert [hot.digit(hot.cells(row, 1)[0]) for row in (hot.rows[0], hot.rows[11])] == ["0", "9"]


def test_nodes_stand_in_one_map() -> None:
    nodes = tuple(NodeView(n, f"me@{n}", "running", load=load(2, range(30), 50)) for n in (1, 2))
    maps = heat_maps(RunView(RUN, load=load(2, range(30), 20), nodes=nodes))
    assert labels(maps[0]) == [f"node {n} GPU {gpu}" for n in range(3) for gpu in range(2)]
    of_nodes = next(one for one in maps if one.title == "CPU %")
    assert labels(of_nodes) == ["node 0", "node 1", "node 2"]
    assert [row.samples[0][1] for row in of_nodes.rows] == [20, 50, 50]
    assert "nodes" in RunView(RUN, nodes=nodes).to_json()


def test_times_without_samples_are_empty() -> None:
    (busy, _) = heat_maps(RunView(RUN, load=load(1, [*range(10), *range(90, 100)])))
    digits = [busy.digit(one) for one in busy.cells(busy.rows[0], 10)]
    assert digits == ["0", "0", *"·" * 7, "0"]
    assert busy.digit(float("1e9")) == "9" and busy.digit(-5.0) == "0"
    (only, _) = heat_maps(RunView(RUN, load=load(1, [3])))
    assert only.cells(only.rows[0], 1) == [0.3]


def test_machines_that_write_one_run_of_wandb_are_told_apart() -> None:
    reader = MetricsReader()
    for number in range(5):
        names = [f"gpu.{gpu}.gpu/l:{box}" for box in ("b", "a") for gpu in (1, 0)]
        row = dict.fromkeys([*names, "cpu/l:a", "cpu/l:b", "gpu.0.\x1b[2J/l:a"], 50 + number)
        reader.add({**row, "time": BEGIN + number})
    view = RunView(RUN, load=reader)
    busy, *others = heat_maps(view)
    assert has_heat_maps(view) and busy.title == "GPU utilization %"
    assert labels(busy) == ["a GPU 0", "a GPU 1", "b GPU 0", "b GPU 1"]
    assert {one.title: labels(one) for one in others}["cpu"] == ["a", "b"]
    assert all(one.title.isprintable() for one in others)


def test_one_machine_without_a_gpu_has_no_map() -> None:
    view = RunView(RUN, load=load(0, range(30), 20))
    assert view.load.count and heat_maps(view) == () and not has_heat_maps(view)
