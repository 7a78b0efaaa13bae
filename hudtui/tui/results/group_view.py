"""The numbers of a group as lines of text, alone or beside those of another group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from textual.content import Content

from hudtui.core.results.queries import histogram, pass_table
from hudtui.core.text import clean_line
from hudtui.tui.results.histogram import bar_lines
from hudtui.tui.results.transcript import episode_name, reward_text, time_text
from hudtui.tui.widgets.fit import cut, pad

if TYPE_CHECKING:
    from hudtui.core.results.values import EpisodeEntry, ResultGroup

_MUTED = "$foreground-muted"
_LABEL = 18
_BARS = 5
"""Lines of a histogram."""


@dataclass(frozen=True)
class GroupSide:
    """A group and its episodes."""

    group: ResultGroup
    entries: Sequence[EpisodeEntry]


def group_lines(side: GroupSide, other: GroupSide | None, width: int) -> list[Content]:
    """Return reward, spread, pass@k, parts, lengths, ends and the rewards of each episode.

    Args:
        side: The group under the cursor.
        other: The marked group, shown to the right of it.
        width: Cells of a line.
    """
    sides = [side] if other is None else [side, other]
    room = max((width - _LABEL) // len(sides) - 1, 10)
    lines = [_row("", [_name(one.group) for one in sides], room, "bold $primary")]
    tables = [dict(_facts(one)) for one in sides]
    for label in dict.fromkeys(label for table in tables for label in table):
        lines.append(_row(label, [table.get(label, "") for table in tables], room))
    lines += [Content(""), Content.styled("rewards", _MUTED)]
    bars = [_bars(one, room) for one in sides]
    lines += [_row("", [one[line] for one in bars], room, "$primary") for line in range(_BARS)]
    lines.append(_row("", [_ends(one, room) for one in sides], room, _MUTED))
    lines += [Content(""), Content.styled("episodes", _MUTED)]
    ranked = [
        sorted(one.entries, key=lambda entry: (entry.reward is None, -(entry.reward or 0.0)))
        for one in sides
    ]
    for place in range(max(map(len, ranked))):
        lines.append(
            _row("", [_episode(rank[place]) if place < len(rank) else "" for rank in ranked], room)
        )
    return lines


def _row(label: str, values: Iterable[str], room: int, style: str = "") -> Content:
    cells = " ".join(pad(cut(value, room), room) for value in values)
    return Content.assemble((pad(label, _LABEL), _MUTED), (cells.rstrip(), style))


def _name(group: ResultGroup) -> str:
    step = "" if group.key.step is None else f"step {group.key.step} · "
    return clean_line(step + group.key.task, 200)


def _facts(side: GroupSide) -> Iterable[tuple[str, str]]:
    group, entries = side.group, side.entries
    yield "run", clean_line(group.key.run, 80)
    yield "episodes", str(len(entries))
    spread = "" if group.reward_std is None else f" ± {group.reward_std:.3f}"
    yield "reward", f"{reward_text(group.reward)}{spread}"
    if group.reward_min is not None and group.reward_max is not None:
        yield "lowest, highest", f"{group.reward_min:.3f}, {group.reward_max:.3f}"
    passes = pass_table(entries)
    solved = sum(task.solved for task in passes.tasks)
    yield "solved", f"{solved} (own reward {passes.solved_at:g} or more)"
    yield "pass@k", "  ".join(f"{k}: {rate:.2f}" for k, rate in passes.rates.items())
    for name in dict.fromkeys(name for entry in entries for name in entry.part_names):
        values = [value for entry in entries if (value := entry.parts.get(name)) is not None]
        yield clean_line(name, _LABEL - 1).replace("_", " "), f"{fmean(values):.3f}"
    yield "turns", f"{group.turns:.1f}"
    if tokens := [count for entry in entries if (count := entry.tokens) is not None]:
        yield "tokens", f"{fmean(tokens):,.0f}"
    if seconds := [entry.seconds for entry in entries if entry.seconds is not None]:
        yield "time", time_text(fmean(seconds))
    stops: dict[str, int] = {}
    for entry in entries:
        stops[entry.stop] = stops.get(entry.stop, 0) + 1
    yield (
        "ended",
        ", ".join(f"{clean_line(stop, 40) or 'unknown'} {count}" for stop, count in stops.items()),
    )
    if group.failed:
        yield "failed", str(group.failed)


def _bars(side: GroupSide, room: int) -> list[str]:
    buckets = histogram(side.entries)
    return (
        bar_lines([one.count for one in buckets], min(room, 40), _BARS) if buckets else [""] * _BARS
    )


def _ends(side: GroupSide, room: int) -> str:
    buckets = histogram(side.entries)
    if not buckets:
        return "no reward"
    low, high = f"{buckets[0].low:.3g}", f"{buckets[-1].high:.3g}"
    return low + high.rjust(min(room, 40) - len(low))


def _episode(entry: EpisodeEntry) -> str:
    end = clean_line(entry.error or entry.stop, 200) if entry.failed else clean_line(entry.stop, 40)
    return f"{pad(episode_name(entry), 5)} {reward_text(entry.reward):>6}  {end}"
