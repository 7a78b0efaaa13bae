"""The Machine tab.

Rows for GPUs, model servers, processors, memory, disk and network, and their curves over time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.content import Content

from hudtui.core.text import clean_line
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.charts import series_styles
from hudtui.tui.widgets.fit import cut, pad
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers

if TYPE_CHECKING:
    from hudtui.core.runs.heat import HeatMap
    from hudtui.core.runs.status import GpuLoad, NodeView, RunView
    from hudtui.core.training.metrics import MetricsReader

EMPTY = "No figures of the machine yet. It reports its load every 10 seconds during the run."
RECENT = 600.0
"""Time that the small curve of a row covers, in seconds."""
NEARLY_FULL = 0.95
"""Share of used memory or disk from which the bar has the warning colour."""
_MUTED = "$foreground-muted"


@dataclass(frozen=True)
class _Bar:
    """A share, drawn as a bar with a label."""

    share: float | None
    words: str
    warns: bool = False
    """Whether a nearly full bar has the warning colour."""


@dataclass(frozen=True)
class _Row:
    label: str
    bar: _Bar
    second: _Bar | None = None
    more: str = ""
    recent: Sequence[float] = ()
    scale: tuple[float, float] | None = None
    """Lowest and highest value of the axis of `recent`."""


def _recent(load: MetricsReader, name: str) -> list[float]:
    """Return the values of a curve from its last `RECENT` seconds."""
    points = [point for point in load.series(name) if point.at is not None]
    return [point.y for point in points if (point.at or 0.0) >= (points[-1].at or 0.0) - RECENT]


def _share(used: float | None, total: float | None) -> float | None:
    return None if used is None or not total else used / total


def _filled(used: float, total: float | None) -> _Bar:
    share = _share(used, total)
    return _Bar(share, "" if share is None else f"{100 * share:.0f} %", warns=True)


def _of(used: float | None, total: float | None) -> str:
    """Return used and total as GiB."""
    if used is None:
        return ""
    return f"{_gib(used)} GiB" if total is None else f"{_gib(used)}/{_gib(total)} GiB"


def _gib(size: float) -> str:
    gib = size / 2**30
    return f"{gib:.1f}" if gib < 10 else f"{gib:,.0f}"


def _load_bars(
    utilization: float | None, used_mib: float | None, total_mib: float | None
) -> tuple[_Bar, _Bar]:
    """Return the bars of a GPU, or of several: how busy, and how full."""
    busy = _Bar(_share(utilization, 100.0), "" if utilization is None else f"{utilization:.0f} %")
    used, total = (None if mib is None else mib * 2**20 for mib in (used_mib, total_mib))
    return busy, _Bar(_share(used, total), _of(used, total), warns=True)


def _gpu_rows(view: RunView) -> list[_Row]:
    from hudtui.core.runs.status import gpu_busy_series

    rows = []
    for gpu in view.gpus:
        more = [
            f"{gpu.celsius:.0f} °C" if gpu.celsius is not None else "",
            f"{gpu.watts:.0f} W" if gpu.watts is not None else "",
        ]
        told = "  ".join(f"{one:>5}" for one in more if one)
        bars = _load_bars(gpu.utilization, gpu.used_mib, gpu.total_mib)
        recent = _recent(view.load, gpu_busy_series(gpu))
        rows.append(_Row(f"GPU {gpu.index}", *bars, told, recent, (0.0, 100.0)))
    return rows


def _row_of(label: str, gpus: Sequence[GpuLoad], words: str) -> _Row:
    """Return the load of several GPUs as one row: their mean, and the fullest of them."""
    told = [gpu.utilization for gpu in gpus if gpu.utilization is not None]
    full = max(gpus, key=lambda gpu: gpu.used_mib or 0.0, default=None)
    if full is None or not told:
        return _Row(label, _Bar(None, ""), None, words)
    return _Row(label, *_load_bars(fmean(told), full.used_mib, full.total_mib), words)


def _node_row(node: NodeView) -> _Row:
    gpus = node.gpus if node.problem is None else ()
    return _row_of(f"node {node.node}", gpus, clean_line(node.text, 200))


def _node_rows(view: RunView) -> list[_Row]:
    """Return the nodes that need a look, then all others as one row."""
    from hudtui.core.diagnosis.facts import SILENT

    def well(node: NodeView) -> bool:
        same = node.state == view.summary.state and not node.left and node.problem is None
        return same and (node.silent or 0.0) <= SILENT

    fine = [node for node in view.nodes if well(node)]
    if len(fine) < 2:
        return [_node_row(node) for node in view.nodes]
    beat = max((node.silent for node in fine if node.silent is not None), default=None)
    words = fine[0].state + ("" if beat is None else f", heartbeats within {beat:.0f} s")
    together = _row_of(f"{len(fine)} nodes", [gpu for node in fine for gpu in node.gpus], words)
    return [*(_node_row(node) for node in view.nodes if not well(node)), together]


def _rows(view: RunView, most: int) -> list[_Row]:
    """Return the rows; those of GPUs and of nodes are put together where `most` are too few."""
    gpus, nodes, rest = _gpu_rows(view), [_node_row(node) for node in view.nodes], _other_rows(view)
    if len(gpus) + len(nodes) + len(rest) > most:
        nodes = _node_rows(view)
        if len(gpus) > 1:
            gpus = [_row_of(f"{len(gpus)} GPUs", view.gpus, "")]
    return [*gpus, *nodes, *rest]


def _other_rows(view: RunView) -> list[_Row]:
    from hudtui.core.runs.status import rate_text

    load, rows = view.load, list[_Row]()
    for server in view.servers:
        sample, stage = server.sample, clean_line(server.stage, 20)
        if not server.answers:
            rows.append(
                _Row(
                    stage,
                    _Bar(None, ""),
                    None,
                    f"does not answer: {clean_line(server.problem or '', 200)}",
                )
            )
            continue
        told = (
            (sample.running, "running"),
            (sample.waiting, "waiting"),
            (server.tokens_per_s, "tokens/s"),
        )
        words = ", ".join(f"{value:,.0f} {word}" for value, word in told if value is not None)
        cache = _Bar(
            sample.kv_cache,
            "" if sample.kv_cache is None else f"KV {100 * sample.kv_cache:.0f} %",
            warns=True,
        )
        rows.append(
            _Row(stage, cache, None, words, _recent(load, f"{server.stage} generated tokens/s"))
        )
    machine = view.machine
    if machine is None:
        return rows
    if machine.cpu is not None:
        of = "" if machine.cpus is None else f"{machine.cpus:.0f} processors"
        cpu = _Bar(machine.cpu / 100, f"{machine.cpu:.0f} %")
        rows.append(_Row("CPU", cpu, None, of, _recent(load, "CPU %"), (0.0, 100.0)))
    if machine.memory_used is not None:
        used, total = machine.memory_used, machine.memory_total
        recent, scale = _recent(load, "memory GiB"), (0.0, (total or used) / 2**30)
        rows.append(_Row("memory", _filled(used, total), None, _of(used, total), recent, scale))
    if machine.disk_used is not None:
        used, total = machine.disk_used, machine.disk_total
        free = "" if machine.disk_free is None else f", {_gib(machine.disk_free)} free"
        rows.append(_Row("disk", _filled(used, total), None, _of(used, total) + free))
    if machine.received is not None:
        words = f"{rate_text(machine.received)} in, {rate_text(machine.sent)} out"
        rows.append(_Row("network", _Bar(None, ""), None, words, _recent(load, "network in MB/s")))
    return rows


def machine_rows(view: RunView, width: int, colour: str, most: int) -> Content:
    """Return the load of a run's machine as lines, one for each GPU, server or other resource.

    Args:
        view: The run.
        width: Cells of a line.
        colour: Style of bars and small curves; empty for none.
        most: Lines that there is room for. Where there are more, GPUs and nodes share a line.
    """
    rows = _rows(view, most)
    if not rows:
        return Content("")
    label = min(max(len(row.label) for row in rows), 12) + 2
    words = max(len(row.bar.words) for row in rows) + 1
    seconds = max((len(row.second.words) for row in rows if row.second is not None), default=-1) + 1
    bar = max(min((width - label - words - seconds - 34) // (2 if seconds else 1), 24), 6)
    # A row without a second bar has its label in the place of that bar.
    beside = bar + seconds + 3 if seconds else 0
    more = max((len(row.more) - (0 if row.second else beside) for row in rows), default=0)
    more = max(min(more, width - label - bar - words - beside - 3), 0)
    spark = min(width - label - bar - words - beside - more - 5, 40)
    lines = []
    for row in rows:
        parts: list[Content | str | tuple[str, str]] = [
            (pad(row.label, label), "bold"),
            *_bar_parts(row.bar, bar, words, colour),
        ]
        if row.second is not None:
            parts += [
                "   ",
                *_bar_parts(row.second, bar, seconds, colour),
                "  ",
                pad(row.more, more),
            ]
        else:
            parts += ["   ", (pad(row.more, beside + more - 1 if beside else more), _MUTED)]
        if spark >= 6 and row.recent:
            parts += ["  ", (sparkline(row.recent, spark, scale=row.scale), colour)]
        lines.append(Content.assemble(*parts).truncate(width, ellipsis=True))
    when = Content.styled(cut("When the run ended:", width), _MUTED)
    return Content("\n").join(lines if view.summary.active else [when, *lines])


def _bar_parts(bar: _Bar, width: int, words: int, colour: str) -> list[tuple[str, str]]:
    if bar.share is None:
        return [(" " * width, ""), (bar.words.rjust(words), "")]
    full = min(max(round(bar.share * width), 0), width)
    style = "$warning" if bar.warns and bar.share >= NEARLY_FULL else colour
    return [
        ("▆" * full, style),
        ("▁" * (width - full), _MUTED),
        (bar.words.rjust(words), style if style == "$warning" else ""),
    ]


def heat_of(view: RunView) -> Callable[[], Sequence[HeatMap]] | None:
    """Return what makes maps of the load of a run's GPUs and nodes; None without any."""
    from hudtui.core.runs.heat import has_heat_maps, heat_maps

    return partial(heat_maps, view) if has_heat_maps(view) else None


class MachinePane(MetricsPane):
    """The load of a run's machine: rows, and curves by time below them."""

    DEFAULT_CSS = """
    MachinePane #machine-rows {
        height: auto; padding: 0 1 1 1; background: $background; color: $foreground;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(by_time=True, empty=EMPTY, id=id)
        self._view: RunView | None = None
        self._rows = CalmStatic(id="machine-rows")

    def compose_above(self) -> ComposeResult:
        yield self._rows

    def show_load(self, view: RunView | None) -> None:
        """Show the newest load of a run's machine; None for no run."""
        self._view = view
        if view is None:
            self.show(())
        else:
            self.show(
                [
                    Numbers(
                        view.summary.name,
                        view.load,
                        view.scales,
                        view.load_groups,
                        heat=heat_of(view),
                    )
                ]
            )
        self._show_rows()

    def on_resize(self) -> None:
        super().on_resize()
        self._show_rows()

    def _show_rows(self) -> None:
        styles = series_styles(self.app.current_theme)
        width = max(self.size.width - 3, 20)
        rows = Content("")
        if self._view is not None:
            most = self.size.height - 1 if self.size.height else 100  # not laid out yet
            rows = machine_rows(self._view, width, styles[0].colour, max(most, 4))
        self._rows.display = bool(rows)
        if rows != self._rows.content:
            self._rows.update(rows)
