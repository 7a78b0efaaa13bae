"""Functions that render the view of a run as text for the screens: title, head, result, events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from textual.content import Content

from hudtui.core.runs.event_text import event_text
from hudtui.core.text import clean_line, money, step_text
from hudtui.core.training.sparkline import sparkline
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.hanging import hanging_lines
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.diagnosis.facts import Alarm
    from hudtui.core.diagnosis.values import Diagnosis
    from hudtui.core.runs.status import RunResult, RunView
    from hudtui.core.runs.store import RunRecord
    from hudtui.core.runs.values import RunEvent
    from hudtui.tui.widgets.metrics_pane import Facts

STYLES = {
    "running": "bold $success",
    "followed": "$success",
    "finished": "$success",
    "failed": "bold $error",
    "lost": "bold $error",
    "stopped": "$warning",
    "stopping": "$warning",
}
_ALARMS = 3
"""Number of alarms that the head shows; further alarms are only counted."""


def title(view: RunView) -> str:
    """Return the title on the border of the pane: name, step, reward, time and cost."""
    run = view.summary
    parts = [clean_line(run.name, 40)]
    if view.step:
        parts.append(f"step {view.step}")
    if view.reward is not None:
        parts.append(f"{view.reward:.3f}")
    if view.elapsed is not None:
        parts.append(span(view.elapsed))
    if view.cost is not None:
        parts.append(money(view.cost, run.currency) + run.cost_note)
    return " · ".join(parts)


def head(view: RunView, width: int, shown: str | None) -> Content:
    """Return the lines of the head.

    State, time left, price, reward, alarms, GPUs, and the names of the logs.

    Args:
        view: The run.
        width: Cells of a line.
        shown: Name of the log that is shown.
    """
    from hudtui.core.runs.status import gpu_text, server_text
    from hudtui.core.runs.values import STATE_GLYPHS

    run = view.summary
    parts: list[Any] = [
        (f"{STATE_GLYPHS[run.state]} {run.state}", STYLES.get(run.state, "$foreground-muted"))
    ]
    if run.active and view.left is not None:
        parts.append((f"  ~{span(view.left)} left", "$foreground-muted"))
    if run.external:
        parts.append(("  read-only", "$foreground-muted"))
    if view.cost is not None:
        hourly = (
            ""
            if run.hourly is None or not run.holds_machine
            else f" at {money(run.hourly, run.currency)}/h"
        )
        whole = (
            ""
            if view.expected_cost is None
            else f", about {money(view.expected_cost, run.currency)} until the last step"
        )
        parts.append(
            (
                f"  {money(view.cost, run.currency)}{hourly}{whole}{run.cost_note}",
                "$foreground-muted",
            )
        )
    if view.away is not None and run.active:
        parts.append((f"  no contact for {span(view.away)}", "bold $error"))
    lines = [Content.assemble(*parts), *_reward(view, width), *alarm_lines(view.alarms, width)]
    if run.labels:
        lines.append(Content.styled(cut(clean_line(run.labels), width), "$foreground-muted italic"))
    if view.problem is not None:
        lines += _wrapped(view.problem, width, "$warning", lead="! ")
    if run.why and not (view.worrying and run.active):
        lines.append(
            Content.styled(
                cut(clean_line(run.why), width), "$warning" if run.state != "finished" else ""
            )
        )
    if run.active and view.gpus:
        lines.append(
            Content.styled(cut("  ".join(map(gpu_text, view.gpus)), width), "$foreground-muted")
        )
    if run.active:
        lines += [
            Content.styled(cut(clean_line(server_text(server), 400), width), "$foreground-muted")
            for server in view.servers
        ]
    if run.mode == "processes":
        lines.append(
            Content.styled(
                cut("○ no tmux here: detached processes, closing hudtui stops nothing", width),
                "$foreground-muted",
            )
        )
    if len(view.windows) > 1:
        lines.append(log_names(view.windows, shown, width))
    return Content("\n").join(lines)


def facts_of(view: RunView, settings: Mapping[str, str]) -> tuple[Facts, ...]:
    """Return what a bar beside the curves of a run says: its settings and its machine.

    Args:
        view: The run.
        settings: What a run of this project was planned with, see `planned`.
    """
    if view.summary.external:
        return tuple((title, tuple(facts.items())) for title, facts in view.about.items() if facts)
    return ("settings", tuple(settings.items())), ("machine", tuple(_machine_of(view)))


def planned(record: RunRecord) -> dict[str, str]:
    """Return the settings that a run was planned with, as texts by their names."""
    from hudtui.core.runs.run_settings import settings_of

    return {one.label: one.text for one in settings_of(record) if one.shown is not None}


def _machine_of(view: RunView) -> Iterator[tuple[str, str]]:
    machine = view.machine
    yield "host", view.summary.host
    if view.gpus:
        memory = view.gpus[0].total_mib
        each = "" if memory is None else f" of {memory / 1024:.0f} GiB"
        yield "GPUs", f"{len(view.gpus)}{each}"
    if machine is not None and machine.cpus is not None:
        yield "processors", f"{machine.cpus:.0f}"
    if machine is not None and machine.memory_total is not None:
        yield "memory", f"{machine.memory_total / 2**30:.0f} GiB"
    if machine is not None and machine.disk_total is not None:
        yield "disk", f"{machine.disk_total / 2**30:.0f} GiB"


def log_names(names: Sequence[str], shown: str | None, width: int) -> Content:
    """Return the names of the logs, with the name of the shown log highlighted.

    Where they do not fit into two lines of `width` cells, those around the shown one: a run of many
    machines has dozens of logs.
    """
    chips = [
        Content.styled(
            clean_line(name, 40), "bold reverse" if name == shown else "$foreground-muted"
        )
        for name in names
    ]
    sizes = [chip.cell_length + 2 for chip in chips]
    if sum(sizes) > 2 * width:
        at = names.index(shown) if shown in names else 0
        near = sorted(range(len(chips)), key=lambda one: (abs(one - at), one))
        used = list(accumulate(sizes[one] for one in near))
        room = 2 * width - 2 * len("… 999 more  ") - max(sizes)  # a broken line leaves some empty
        fitting = near[: bisect_right(used, room)]
        first, last = min(fitting, default=at), max(fitting, default=at)
        before, after = (
            Content.styled(f"… {count} more", "$foreground-muted")
            for count in (first, len(chips) - 1 - last)
        )
        chips = [
            *([before] if first else []),
            *chips[first : last + 1],
            *([after] if last + 1 < len(chips) else []),
        ]
    return Content("  ").join(chips)


def _reward(view: RunView, width: int) -> list[Content]:
    result, points = view.result, view.metrics.quantity("reward")
    if result.reward is not None:
        played = f"{result.episodes} episode{'' if result.episodes == 1 else 's'}"
        broken = f", {result.errors} broken off" if result.errors else ""
        value, told = result.reward, f"{played}{broken}"
    elif points:
        value, told = points[-1].y, f"step {view.step}"
    elif view.step:
        return [Content.styled(f"step {view.step}", "$foreground-muted")]
    else:
        return []
    line = Content.assemble(
        ("reward ", "bold $primary"), f"{value:.3f}", (f"  {told}", "$foreground-muted")
    )
    room = width - line.cell_length - 2
    if room >= 8:
        line += Content.styled(
            "  " + sparkline([point.y for point in points], min(room, 60)), "$accent"
        )
    return [line]


def onsets(diagnosis: Diagnosis | None) -> dict[str, tuple[float, ...]]:
    """Return the steps at which findings began, by the series that show them."""
    steps: dict[str, tuple[float, ...]] = {}
    for finding in diagnosis.findings if diagnosis is not None else ():
        for name in (one.series for one in finding.evidence):
            steps[name] = (*steps.get(name, ()), finding.onset)
    return steps


def alarm_lines(alarms: Sequence[Alarm], width: int) -> list[Content]:
    """Return the alarms and their fixes, wrapped to lines of `width` cells."""
    lines: list[Content] = []
    known = [alarm for alarm in alarms if alarm.acknowledged]
    alarms = [alarm for alarm in alarms if not alarm.acknowledged]
    for alarm in alarms[:_ALARMS]:
        lines += _wrapped(
            alarm.text,
            width,
            "bold $error" if alarm.level == "error" else "bold $warning",
            lead="! ",
        )
        if alarm.fix:
            lines += _wrapped(alarm.fix, width, "$foreground-muted")
    if len(alarms) > _ALARMS:
        lines.append(Content.styled(f"! and {len(alarms) - _ALARMS} more", "$warning"))
    lines += [
        Content.styled(cut(f"acknowledged: {clean_line(alarm.text)}", width), "$foreground-muted")
        for alarm in known
    ]
    return lines


def _wrapped(text: str, width: int, style: str, *, lead: str = "  ") -> list[Content]:
    """Return a sentence, wrapped to lines."""
    return [
        line.stylize(style)
        for line in hanging_lines(Content(lead), Content(clean_line(text)), width)
    ]


def result_table(result: RunResult) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the column titles and rows of a result.

    Its tasks, or the steps of a training; none without either.
    """
    if result.steps:
        steps: list[tuple[str, ...]] = [
            (
                f"{step_text(row.step)}",
                f"{row.reward:.3f}",
                _told(row.reward_std, ".3f"),
                _told(row.loss, ".4g"),
                _told(row.completion_length, ".0f"),
                _told(row.step_time, ".1f"),
            )
            for row in result.steps
        ]
        return ("step", "reward", "±", "loss", "tokens", "seconds"), steps
    if not result.rows:
        return (), []
    tasks: list[tuple[str, ...]] = [
        (
            row.task,
            _told(row.reward, ".3f"),
            _told(row.reward_std, ".3f"),
            str(row.episodes),
            _told(row.turns, "g"),
            str(row.errors or ""),
        )
        for row in result.rows
    ]
    return ("task", "reward", "±", "episodes", "turns", "errors"), tasks


def _told(value: float | None, how: str) -> str:
    return "" if value is None else format(value, how)


def event_cells(event: RunEvent) -> tuple[str, str, str]:
    """Return the cells of an event: its time, its origin, and its text."""
    when = datetime.fromtimestamp(event.at).strftime("%H:%M:%S")
    return when, "machine" if event.origin == "machine" else "hudtui", event_text(event)
