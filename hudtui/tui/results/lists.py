"""The lists of the results: groups, failures by their cause, and episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import fmean
from typing import TYPE_CHECKING

from textual.message import Message

from hudtui.core.results.queries import EPISODE_FIELDS, GROUP_FIELDS, FailureCause, pass_table
from hudtui.core.results.values import EXPECTED_STOPS, stop_words
from hudtui.core.text import clean_line
from hudtui.tui.results.transcript import episode_name, reward_text, time_text
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.table_pane import TablePane
from hudtui.tui.widgets.virtual_table import Cell, Column

if TYPE_CHECKING:
    from hudtui.core.results.search import SearchHit
    from hudtui.core.results.values import EpisodeEntry, GroupKey, ResultGroup

_BARS = "▁▂▃▄▅▆▇█"
SPREAD = 8
"""Width of the column with the rewards of a group, in cells."""


def reward_marks(
    rewards: Sequence[float | None], low: float, high: float, most: int = SPREAD
) -> str:
    """Return one bar for each reward, scaled from the lowest to the highest reward.

    `·` for an episode without a reward.
    """
    size = (high - low) or 1.0
    marks = [
        "·" if one is None else _BARS[min(max(int((one - low) / size * 8), 0), 7)]
        for one in rewards[:most]
    ]
    return "".join(marks) + ("…" if len(rewards) > most else "")


_GROUPS = (
    Column("task", "task", 10, flexible=1, ends=True),
    Column("run", "run", 8, flexible=1),
    Column("step", "step", 5, align="right"),
    Column("episodes", "n", 4, align="right"),
    Column("reward", "mean", 6, align="right"),
    Column("spread", "±", 5, align="right", from_width=40),
    Column("rewards", "rewards", SPREAD + 1, from_width=46),
    Column("failed", "✗", 3, align="right", from_width=34),
    Column("pass", "pass@1", 6, align="right", from_width=56),
    Column("turns", "turns", 5, align="right", from_width=64),
)
_PART = 9
"""Width of the column of a part of the reward, in cells."""
_PARTS_FROM = 56
"""The narrowest list that shows the first of them."""


class GroupList(TablePane["ResultGroup"]):
    """The groups: the episodes of a task, or of a task at one step of a training.

    Args:
        members: Returns the episodes of a group, in the order of the file.
        ends: Returns the smallest and the largest of all rewards.
        is_marked: Returns whether other groups are compared with this group.
    """

    @dataclass
    class Filtered(Message):
        """Other groups are listed, because the filter was changed."""

        pane: GroupList

    BORDER_TITLE, NOUN = "Groups", "group"
    HELP = (
        "The episodes by task, in a training also by step: their number, mean reward, spread, a "
        "bar for each episode, and the means of further parts of the reward, as many as there is "
        "room for. {key:list.filter} filters by words and fields, such as step:34 "
        "reward:<0.5 spread:0."
    )

    def __init__(
        self,
        members: Callable[[ResultGroup], Sequence[EpisodeEntry]],
        ends: Callable[[], tuple[float, float]],
        is_marked: Callable[[ResultGroup], bool],
    ) -> None:
        super().__init__(
            _GROUPS,
            GROUP_FIELDS,
            key=lambda row: key_text(row.key),
            cells=self._group_cells,
            empty="No episode yet.",
            id="results-groups",
        )
        self._members, self._ends, self._is_marked = members, ends, is_marked
        self._parts: tuple[str, ...] = ()

    def filtered(self) -> None:
        super().filtered()
        self.post_message(self.Filtered(self))

    def with_columns(self, *, steps: bool, runs: bool, parts: Sequence[str] = ()) -> None:
        """Show or hide the columns of steps and runs, and show those of further parts.

        In many results steps and runs are empty or constant. `parts` are names in the order of
        their columns, which come before those of pass@1 and turns.
        """
        self._parts = tuple(parts)
        left = {name for name, there in (("step", steps), ("run", runs)) if not there}
        kept = tuple(column for column in _GROUPS if column.key not in left)
        more = tuple(
            Column(f"part {name}", _part_title(name), _PART, align="right", from_width=width)
            for name, width in zip(self._parts, count(_PARTS_FROM, _PART + 1), strict=False)
        )
        room = len(more) * (_PART + 1)
        last = tuple(replace(one, from_width=one.from_width + room) for one in kept[-2:])
        columns = (*kept[:-2], *more, *last)
        if columns != self.table.columns:
            self.table.columns = columns

    def _group_cells(self, row: ResultGroup) -> tuple[Cell, ...]:
        members = self._members(row)
        passes = pass_table(members, (1,)).rates.get(1)
        split = "" if row.key.split in ("", "train") else f" ({row.key.split})"
        spread = "" if row.reward_std is None else f"{row.reward_std:.2f}"
        cells: dict[str, Cell] = {
            "task": ("◆ " if self._is_marked(row) else "") + row.key.task + split,
            "run": row.key.run,
            "step": "" if row.key.step is None else str(row.key.step),
            "episodes": str(len(row.numbers)),
            "reward": "" if row.reward is None else f"{row.reward:.3f}",
            "spread": (spread, "table--muted" if row.reward_std else "table--warning"),
            "rewards": reward_marks([entry.reward for entry in members], *self._ends()),
            "failed": (str(row.failed or ""), "table--error"),
            "pass": "" if passes is None else f"{passes:.2f}",
            "turns": f"{row.turns:.1f}",
        }
        for name in self._parts:
            values = [one for entry in members if (one := entry.parts.get(name)) is not None]
            cells[f"part {name}"] = f"{fmean(values):.3f}" if values else ""
        return tuple(cells[column.key] for column in self.table.columns)


def _part_title(name: str) -> str:
    return cut(clean_line(name, 60).replace("_", " "), _PART)


def key_text(key: GroupKey) -> str:
    """Return a text that identifies a group."""
    return f"{key.run}\0{key.split}\0{key.step}\0{key.task}"


class FailureList(TablePane[FailureCause]):
    """The episodes that ended with an error or did not solve their task.

    Errors are grouped by their cause, the others by their ends.
    """

    BORDER_TITLE, NOUN = "Failures", "cause"
    HELP = (
        "Episodes that ended with an error, by its cause; then those that ended without solving "
        "their task, by how they ended; then what went wrong within episodes. The episodes of the "
        "chosen cause are listed below."
    )

    def __init__(self) -> None:
        super().__init__(
            (
                Column("cause", "cause", 16, flexible=1),
                Column("episodes", "n", 5, align="right"),
                Column("tasks", "tasks", 5, align="right", from_width=40),
            ),
            {
                "cause": lambda row: row.cause,
                "episodes": lambda row: len(row.numbers),
                "tasks": lambda row: row.tasks,
            },
            key=lambda row: row.cause,
            cells=lambda row: (
                _cause_cell(row),
                str(len(row.numbers)),
                str(row.tasks),
            ),
            empty="No episode ended with an error, and each solved its task.",
            id="results-failures",
        )


def _cause_cell(row: FailureCause) -> Cell:
    if row.times is not None:
        return (f"{row.times:,} {row.cause}", "table--muted")
    return (row.cause, "table--warning" if row.cause.startswith("not solved, ") else "table--error")


_EPISODES = (
    Column("rollout", "#", 5),
    Column("reward", "reward", 6, align="right"),
    Column("stop", "ended", 9, flexible=1),
    Column("turns", "turns", 5, align="right"),
    Column("tokens", "tokens", 7, align="right", from_width=46),
    Column("seconds", "time", 7, align="right", from_width=38),
)
_TASK = Column("task", "task", 8, flexible=1, ends=True)


class EpisodeList(TablePane["EpisodeEntry"]):
    """The episodes of a group, of a cause of failure, or of a search.

    Args:
        is_marked: Returns whether other episodes are compared with this episode.
    """

    BORDER_TITLE, NOUN = "Episodes", "episode"
    HELP = (
        "The episodes of the group. {key:list.filter} filters by words and fields, such as "
        "reward:<0.5 stop:max_turns. {key:results.compare} marks an episode: the others are then "
        "shown beside it."
    )

    def __init__(self, is_marked: Callable[[EpisodeEntry], bool]) -> None:
        super().__init__(
            _EPISODES,
            EPISODE_FIELDS,
            key=lambda row: f"{row.run}\0{row.number}",
            cells=self._episode_cells,
            empty="No episode.",
            id="results-episodes",
        )
        self._is_marked = is_marked

    def with_tasks(self, there: bool) -> None:
        """Show or hide the column of tasks, which is constant within a group."""
        columns = (_EPISODES[0], _TASK, *_EPISODES[1:]) if there else _EPISODES
        if columns != self.table.columns:
            self.table.columns = columns

    def _episode_cells(self, row: EpisodeEntry) -> tuple[Cell, ...]:
        style = (
            "table--error" if row.failed else "" if row.stop in EXPECTED_STOPS else "table--warning"
        )
        cells: tuple[Cell, ...] = (
            ("◆" if self._is_marked(row) else "") + episode_name(row),
            reward_text(row.reward),
            (f"✗ {row.error or row.stop}" if row.failed else stop_words(row.stop), style),
            str(row.turns),
            "" if row.tokens is None else f"{row.tokens:,}",
            ("" if row.seconds is None else time_text(row.seconds), "table--muted"),
        )
        tasks = len(self.table.columns) > len(_EPISODES)
        step = "" if row.step is None else f"{row.step}: "
        return (cells[0], step + row.task, *cells[1:]) if tasks else cells


class HitList(TablePane["SearchHit"]):
    """The result of a search: the turns that contain the text.

    Args:
        entry: Returns the episode with a number.
    """

    BORDER_TITLE, NOUN = "Found", "hit"
    HELP = (
        "The turns that match the search. {key:table.select} opens the episode there, "
        "{key:results.back} leaves the search."
    )

    def __init__(self, entry: Callable[[int], EpisodeEntry | None]) -> None:
        super().__init__(
            (
                Column("task", "task", 8, flexible=1, ends=True),
                Column("rollout", "#", 5),
                Column("turn", "turn", 4, align="right"),
                Column("excerpt", "text", 12, flexible=3),
            ),
            {
                "task": lambda row: (
                    found.task if (found := entry(row.number)) is not None else None
                ),
                "turn": lambda row: row.turn,
                "field": lambda row: row.field,
                "excerpt": lambda row: row.excerpt,
            },
            key=lambda row: f"{row.number}\0{row.turn}\0{row.field}",
            cells=self._hit_cells,
            empty="Nothing found.",
            id="results-hits",
        )
        self._entry = entry

    def _hit_cells(self, row: SearchHit) -> tuple[Cell, ...]:
        entry = self._entry(row.number)
        start = max(row.start - 12, 0)  # keeps the match visible in a narrow column
        return (
            "" if entry is None else entry.task,
            "" if entry is None else episode_name(entry),
            (str(row.turn) if row.turn else "–", "table--muted"),
            ("…" if start else "") + row.excerpt[start:],
        )
