"""The screen Results: the recorded episodes of a run or a file."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from hudtui.core.results.queries import (
    diff_transcripts,
    failures,
    further_parts,
    histogram,
    slips,
    step_map,
    unsolved,
)
from hudtui.core.text import clean, clean_line, plural, step_text
from hudtui.tui.actions import AppAction, by_key, cancel_action, needing, unless
from hudtui.tui.facts import Facts
from hudtui.tui.results.episode_pane import EpisodePane
from hudtui.tui.results.group_view import GroupSide, group_lines
from hudtui.tui.results.histogram import Histogram, RewardsPane
from hudtui.tui.results.lists import EpisodeList, FailureList, GroupList, HitList, key_text
from hudtui.tui.results.transcript import Beside
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.table_pane import TablePane

if TYPE_CHECKING:
    from hudtui.core.results.index import ResultIndex
    from hudtui.core.results.queries import FailureCause, RewardBucket
    from hudtui.core.results.search import SearchHit
    from hudtui.core.results.values import (
        EpisodeEntry,
        IndexProgress,
        ResultGroup,
        ResultRun,
        Transcript,
    )
    from hudtui.tui.results.reward_map import RewardMapDialog

_KEPT, _KEPT_BYTES = 16, 4_000_000
"""Number of episodes kept in full, and the total size of their records in bytes; in memory they
take about five times as much."""
_SHARE = 0.1
"""Share of the time for drawing the lists while a file is being read."""


@dataclass(frozen=True)
class _Lists:
    """The content of the lists."""

    buckets: tuple[RewardBucket, ...]
    groups: tuple[ResultGroup, ...]
    steps: bool
    """Whether a group belongs to a step of a training."""
    causes: tuple[FailureCause, ...]
    parts: tuple[str, ...]
    """Names of the parts of the reward beside those of every rubric."""


def _summed(
    index: ResultIndex,
    rewards: tuple[float, float] | None,
    matching: Callable[[Sequence[ResultGroup]], Sequence[ResultGroup]] | None,
) -> _Lists:
    """Read the lists from an index.

    `matching` filters the groups whose episodes the histogram counts.
    """
    entries, groups = index.entries, index.groups()
    counted = (
        entries
        if matching is None
        else [entry for group in matching(groups) for entry in index.members(group)]
    )
    steps = any(group.key.step is not None for group in groups)
    if rewards is not None:
        groups = [
            group
            for group in groups
            if any(_within(entry, rewards) for entry in index.members(group))
        ]
    return _Lists(
        histogram(counted),
        tuple(groups),
        steps,
        (*failures(entries), *unsolved(entries), *slips(entries)),
        further_parts(entries),
    )


def _within(entry: EpisodeEntry, rewards: tuple[float, float] | None) -> bool:
    return rewards is None or (entry.reward is not None and rewards[0] <= entry.reward < rewards[1])


_RECORDED = unless(
    lambda screen: screen.index is not None and screen.index.entries, "no episode is recorded yet"
)


def _nothing_differs(screen: ResultsScreen) -> str | None:
    diff = screen.episode.diff
    if diff is not None and diff.first is not None:
        return None
    if screen.marked_episode is None:
        return "{key:results.compare} marks an episode first"
    return "nothing differs from the marked episode"


class ResultsScreen(HudtuiScreen):
    """The episodes of a run or a file: groups, episodes, turns."""

    NAME = "results"
    TITLE = "results"
    AUTO_FOCUS = "#results-groups VirtualTable"
    CSS_PATH = "results.tcss"
    HELP = (
        "The recorded episodes of a run or a file. The left side shows the groups of each task, "
        "the episodes of a group, and a histogram of rewards that filters them; the right side "
        "shows the episode, turn by turn. {key:results.search} searches the texts of all episodes, "
        "{key:results.failures} lists failures by their cause. {key:results.compare} marks a group "
        "or an episode, to show others beside it. New episodes appear while a file is being "
        "written."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = needing(
        _RECORDED,
        (
            AppAction(
                "results.open",
                "Open",
                "Choose a run, or enter the path of a file or a folder with episodes.",
                "o",
                asks=True,
            ),
            AppAction(
                "results.search",
                "Search texts",
                "Search every message, reply, call and answer of all episodes.",
                "f",
                asks=True,
            ),
            AppAction(
                "results.failures",
                "Failures",
                "Show failures by their cause, or the groups again.",
                "F",
            ),
            AppAction(
                "results.rewards",
                "Rewards",
                "Go to the rewards: the arrow keys choose a range, which filters the lists.",
                "h",
            ),
            AppAction(
                "results.map",
                "Map",
                "Show the mean reward of each listed task at each step of a training, as a map.",
                "M",
                show=False,
                when=(
                    unless(
                        lambda screen: any(
                            group.key.step is not None for group in screen.groups.listed
                        ),
                        "no listed group belongs to a step of a training",
                    ),
                ),
            ),
            AppAction(
                "results.compare",
                "Compare",
                "Mark this group or episode, compare another with it, or unmark it.",
                "c",
                when=(
                    unless(
                        lambda screen: (
                            screen.panes.current is screen.groups or screen.chosen_entry is not None
                        ),
                        "choose an episode first",
                    ),
                ),
            ),
            AppAction(
                "results.difference",
                "Next difference",
                "Go to the next turn in which the two episodes differ.",
                "d",
                when=(_nothing_differs,),
            ),
            AppAction(
                "results.export",
                "Export",
                "Write episodes to a file: as records, Markdown, ATIF or training data.",
                "E",
                asks=True,
            ),
            AppAction(
                "results.image",
                "Open image",
                "Open an image of this turn outside the terminal.",
                "I",
                show=False,
                asks=True,
                when=(unless(lambda screen: screen.episode.images, "this episode has no image"),),
            ),
            AppAction(
                "results.copy",
                "Copy",
                "Copy the episode as Markdown.",
                "y",
                show=False,
                when=(
                    unless(
                        lambda screen: screen.episode.transcript is not None,
                        "choose an episode first",
                    ),
                ),
            ),
            AppAction(
                "results.refresh",
                "Refresh",
                "Read everything again from the beginning.",
                "r",
                show=False,
            ),
            cancel_action(
                "results", "Stop the search, and keep what it has found; or stop the export."
            ),
            by_key(
                "results.back",
                "Back",
                "Go one level up: to the groups, then to the previous screen.",
                "escape",
            ),
        ),
        but=(
            "results.open",
            "results.refresh",
            "results.cancel",
            "results.back",
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.sources: tuple[ResultRun, ...] = ()
        """The open results: of one run, or of all runs in a folder."""
        self.index: ResultIndex | None = None
        self.groups = GroupList(self._members, lambda: self._ends, self._is_marked_group)
        self.failures = FailureList()
        self.episodes = EpisodeList(self._is_marked)
        self.hits = HitList(self._entry)
        self.rewards = RewardsPane()
        self.episode = EpisodePane(id="results-episode")
        self.marked = EpisodePane(title="Marked episode", id="results-marked")
        self.sums = ContentSwitcher(
            self.groups, self.failures, initial=self.groups.id, id="results-sums"
        )
        """The groups, or the failures by their cause."""
        self.listing = ContentSwitcher(
            self.episodes, self.hits, initial=self.episodes.id, id="results-listing"
        )
        """The episodes of the chosen group or cause, or what a search has found."""
        self.marked.disabled = True
        left = Vertical(self.sums, self.listing, self.rewards, id="results-left")
        right = Horizontal(self.episode, self.marked, id="results-right")
        self.panes = Panes(left, right, id="results-panes")
        self._found: list[SearchHit] = []
        self._searched = ""
        """The text of the last search."""
        self._rewards: tuple[float, float] | None = None
        """The chosen rewards, from the first number up to the second; None for all."""
        self._ends = (0.0, 1.0)
        self.marked_episode: Transcript | None = None
        self._marked_group: GroupSide | None = None
        self._hinted = ""
        """The message that was shown after marking."""
        self._kept: dict[tuple[str, int, int], Transcript] = {}
        self._opened_key: tuple[str, int, int] | None = None
        """The episode that was opened last; see `_key`."""
        self._generation = 0
        self._map: RewardMapDialog | None = None
        """The map above this screen, which follows the index as the lists do."""
        self._place: tuple[float | None, str | None] | None = None
        """The step and the task to show as soon as they have been read."""
        self._number: int | None = None
        """The number of the requested episode, until it is read and chosen."""
        self._complete = False
        """Whether the files were read to their current end."""
        self._draw_after = 0.0
        self._complained = 0

    def content(self) -> Iterable[Widget]:
        yield EmptyState("Reading …", id="results-empty")
        yield self.panes

    def on_mount(self) -> None:
        self.panes.display = False

    @property
    def by_cause(self) -> bool:
        """Whether failures are listed in place of groups."""
        return self.sums.current == self.failures.id

    @property
    def searching(self) -> bool:
        """Whether the hits of a search are listed in place of episodes."""
        return self.listing.current == self.hits.id

    def _switch(self, to: TablePane[Any], *, focus: bool = False) -> None:
        """Show one of two lists in place of the other; the focus goes with it, or to it."""
        switcher = self.listing if to in (self.episodes, self.hits) else self.sums
        focus = focus or switcher.has_focus_within
        switcher.current = to.id
        self.panes.rearrange()
        if focus:
            self.panes.open(to)

    # -- what is open
    # ----------------------------------------------------------------------------------------------

    @property
    def place(self) -> dict[str, str]:
        """The run whose episodes are shown, and the task under the cursor."""
        if len(self.sources) != 1 or self.sources[0].run is None:
            return {}
        group = self.groups.row
        return {"run": self.sources[0].run} | (
            {"task": group.key.task} if group is not None else {}
        )

    def opened(self, **given: Any) -> None:
        """Show the episodes of `run`, of the file `path`, or of the newest run.

        Begin at `step`, at `task`, or at the `episode` of this number of a task, if given.
        """
        run, path = given.get("run"), given.get("path")
        if run is None and path is None:
            if self.index is None:
                self.start(self._open_newest, group="open")
            return
        self._place, self._number = (given.get("step"), given.get("task")), given.get("episode")
        if path is not None or run not in [source.run for source in self.sources]:
            self._begin_anew()
        if path is not None:
            self.start(partial(self._open_named, str(path)), group="open")
        elif run in [source.run for source in self.sources]:
            self._go_to_place()
        else:
            self.start(partial(self._open_run, str(run)), group="open")

    def _begin_anew(self) -> None:
        """Leave what was marked and how it was looked at.

        Another screen asks for other episodes.
        """
        self.marked_episode = self._marked_group = None
        if self.panes.is_attached:
            self._switch(self.groups)
            self.groups.filter_by("")

    def facts_changed(self, facts: Facts) -> None:
        """Open the newest run if no results are open.

        The first run may have recorded episodes by now.
        """
        if not self.sources and self.is_current and not self.going("open"):
            self.start(self._open_newest, group="open")

    def _find(self) -> tuple[ResultRun, ...]:
        from hudtui.core.results.find import find_results

        return find_results(self.app.folder, self.app.project.runs)

    async def _open_newest(self) -> None:
        found = await asyncio.to_thread(self._find)
        if found:
            self._take(found[:1])  # the newest
        else:
            hint = "A run, or hudtui eval, records every episode; {key:results.open} opens a file"
            self._show_empty("No episode is recorded in this project yet.", hint)

    async def _open_run(self, run: str) -> None:
        found = await asyncio.to_thread(self._find)
        if mine := [one for one in found if one.run == run]:
            self._take(mine)
            return
        self._forget()
        self._show_empty(
            "The run has no episode on this computer yet.",
            "If it plays on another machine, {key:run.pull} in Runs fetches them",
        )

    async def _open_named(self, text: str) -> None:
        from hudtui.core.results.find import results_named

        self._take(
            await asyncio.to_thread(results_named, text, self.app.folder, self.app.project.runs)
        )

    def _take(self, sources: Sequence[ResultRun]) -> None:
        """Open runs or files, and show their episodes as they are read."""
        from hudtui.core.results.index import ResultIndex

        self._forget()
        self.sources, self.index = tuple(sources), ResultIndex(sources)
        self.groups.name_on_border(f"Groups · {self._open_name}")
        if self._place is not None and self._place[0] is not None:
            self.groups.filter_by(f"step:={step_text(self._place[0])}")
        self._show_empty("Reading …")
        self._follow()

    @property
    def _open_name(self) -> str:
        return (
            self.sources[0].name if len(self.sources) == 1 else plural(len(self.sources), "result")
        )

    def _forget(self) -> None:
        """Clear the screen. The marks are kept, for a comparison with another run."""
        for group in ("read", "episode", "search"):
            self.workers.cancel_group(self, group)
        self.sources, self.index = (), None
        self._kept.clear()
        self._generation, self._complained, self._draw_after, self._complete = 0, 0, 0.0, False
        self.rewards.histogram.forget()
        self._leave_search()
        for pane in (self.groups, self.failures, self.episodes):
            pane.filter_by("")
            pane.show(())
        self.episode.show(None)

    def _show_empty(self, words: str, hint: str = "") -> None:
        empty = self.query_one(EmptyState)
        empty.tell(words, hint)
        empty.display, self.panes.display = True, False

    def action_refresh(self) -> None:
        if self.sources:
            self._take(self.sources)
        else:
            self.start(self._open_newest, group="open")

    # -- reading
    # ----------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        if self.index is not None:
            work: Callable[[], Any] = partial(self._read, self.index)
            self.run_worker(work, name="forever", group="read", exclusive=True)

    def on_screen_suspend(self) -> None:
        """The screen is hidden: stop reading.

        Behind a dialog everything continues, such as the map.
        """
        if not self.app.screen.is_modal:
            self.workers.cancel_group(self, "read")

    def on_screen_resume(self) -> None:
        self._follow()

    async def _read(self, index: ResultIndex) -> None:
        """Index the episodes, and new ones as they are written."""
        from hudtui.core.results.index import follow

        try:
            async with aclosing(follow(index)) as pieces:
                async for progress in pieces:
                    await self._show_progress(index, progress)
        except Exception:
            if not index.entries:
                self._show_empty(
                    "These episodes cannot be read.",
                    "{key:results.open} opens others, {key:results.refresh} tries again",
                )
            raise

    async def _show_progress(self, index: ResultIndex, progress: IndexProgress) -> None:
        if progress.generation != self._generation:
            self._generation = progress.generation
            self._kept.clear()
            self._leave_search()
        share = progress.read / progress.size if progress.size else 1.0
        told = "" if progress.complete else f" · {share:.0%} read"
        self.groups.name_on_border(f"Groups · {self._open_name}{told}")
        if not progress.entries:
            if progress.complete:
                words = (
                    "No episode is recorded here yet."
                    if not progress.unread
                    else "No line of this file is an episode."
                )
                self._show_empty(
                    words,
                    "New episodes appear automatically"
                    if not progress.unread
                    else "{key:results.open} opens another",
                )
        elif progress.complete or time.monotonic() >= self._draw_after:
            began = time.monotonic()
            await self._show_lists()
            self._draw_after = began + (time.monotonic() - began) / _SHARE
            self._complete = progress.complete
            self._go_to_place()
        if progress.complete and progress.unread > self._complained:
            self._complained = progress.unread
            first = index.unread[0]
            self.say(
                f"{plural(progress.unread, 'line')} could not be read; the first is line "
                f"{first.line:,}: {first.why}",
                "warning",
            )

    async def _show_lists(self) -> None:
        """Update all lists. Work that goes through all episodes runs in a thread."""
        index, rewards = self.index, self._rewards
        if index is None:
            return
        wanted = self.groups.filter_field.value
        found = await asyncio.to_thread(
            _summed, index, rewards, self.groups.matching if wanted else None
        )
        now = (self.index, self._rewards, self.groups.filter_field.value)
        if now != (index, rewards, wanted) or not index.entries:
            return  # a later call draws the newer state
        first = not self.panes.display
        if first:
            self.query_one(EmptyState).display, self.panes.display = False, True
        if found.buckets:
            self._ends = found.buckets[0].low, found.buckets[-1].high
        self.rewards.histogram.show(found.buckets)
        runs = len(self.sources) > 1
        self.groups.with_columns(steps=found.steps, runs=runs, parts=found.parts)
        self.groups.show(found.groups)
        if self._map is not None:
            self._map.show(step_map(self.groups.listed))
        self.failures.show(found.causes)
        self._show_episodes()
        if first and self.focused is None and self.is_current:
            self.groups.focus()
        self.refresh_bindings()

    def _go_to_place(self) -> None:
        """Go to the requested step or task as soon as it has been read."""
        if self._place is None or not self.panes.display:
            return
        (step, task), final = self._place, self._complete
        if step is not None:
            wanted = f"step:={step_text(step)}"
            if self.groups.filter_field.value != wanted:
                self.groups.filter_by(wanted)
            if not self.groups.listed and final:
                self.groups.filter_by("")
                self.say(
                    f"No episode of step {step_text(step)} is recorded: a training records some "
                    "episodes of each step",
                    "warning",
                )
        group = next(
            (
                one
                for one in self.groups.listed
                if task is None or clean_line(one.key.task, 200) == clean_line(task, 200)
            ),
            None,
        )
        if group is not None:
            self.groups.choose(key_text(group.key))
            self.when_keys_rest(self._open_group)
        elif final and task is not None:
            self.say(f"No episode of {task} is recorded.", "warning")
        if group is not None or final:
            self._place = None

    # -- lists
    # ----------------------------------------------------------------------------------------------

    def _entry(self, number: int) -> EpisodeEntry | None:
        entries = self.index.entries if self.index is not None else ()
        return entries[number] if number < len(entries) else None

    def _members(self, group: ResultGroup) -> Sequence[EpisodeEntry]:
        return self.index.members(group) if self.index is not None else ()

    def _is_marked_group(self, group: ResultGroup) -> bool:
        return self._marked_group is not None and group.key == self._marked_group.group.key

    def _is_marked(self, entry: EpisodeEntry) -> bool:
        marked = self.marked_episode
        return marked is not None and (entry.run, entry.number, entry.offset) == (
            marked.entry.run,
            marked.entry.number,
            marked.entry.offset,
        )

    def _show_episodes(self) -> None:
        if self.index is None:
            return
        if self.by_cause:
            cause = self.failures.row
            found = (
                [entry for number in cause.numbers if (entry := self._entry(number)) is not None]
                if cause is not None
                else []
            )
        else:
            found = self.index.members(self.groups.row) if self.groups.row is not None else []
        self.episodes.with_tasks(self.by_cause)
        self.episodes.show(entry for entry in found if _within(entry, self._rewards))
        self._choose_requested()
        self._show_group()

    def _choose_requested(self) -> None:
        """Put the cursor on the requested episode, once it is read, until it is opened."""
        rows = (row for row in self.episodes.listed if row.number == self._number)
        if self._number is not None and (row := next(rows, None)) is not None:
            self.episodes.choose(f"{row.run}\0{row.number}")

    def _show_group(self) -> None:
        self.episode.show_group(self._group_lines)
        side = self._side()
        two = (
            side is not None
            and self._marked_group is not None
            and not self._is_marked_group(side.group)
        )
        if two and not self.panes.alone:
            self._clear_hint()

    def _group_lines(self) -> Sequence[Content]:
        side, other = self._side(), self._marked_group
        if side is None or self.index is None:
            return ()
        beside = other if other is not None and other.group.key != side.group.key else None
        return group_lines(side, beside, self.episode.width)

    def _side(self) -> GroupSide | None:
        group = self.groups.row
        return (
            GroupSide(group, self.index.members(group))
            if group is not None and self.index is not None
            else None
        )

    @on(TablePane.Highlighted, "#results-groups, #results-failures")
    def _group_chosen(self, event: TablePane.Highlighted) -> None:
        """Show the episodes of the group, and the first of them, as soon as the cursor rests."""
        event.stop()
        self.when_keys_rest(self._open_group)

    def _open_group(self) -> None:
        self._show_episodes()
        self._open_episode()

    @on(TablePane.Highlighted, "#results-episodes, #results-hits")
    def _episode_chosen(self, event: TablePane.Highlighted) -> None:
        event.stop()
        row = self.episodes.row
        if self.searching or row is None or self._key(row) != self._opened_key:
            self.when_keys_rest(self._open_episode)

    @on(TablePane.Opened, "#results-groups, #results-failures")
    def _group_opened(self, event: TablePane.Opened) -> None:
        event.stop()
        self.keys_rested()
        self.panes.open(self._listed)

    @on(TablePane.Opened, "#results-episodes, #results-hits")
    def _episode_opened(self, event: TablePane.Opened) -> None:
        event.stop()
        self.keys_rested()
        self.panes.open(self.episode)

    @on(GroupList.Filtered)
    def _groups_filtered(self, event: GroupList.Filtered) -> None:
        """Count the rewards of the listed groups alone."""
        event.stop()
        if self.index is not None and self.panes.display:
            self.start(self._show_lists, group="lists")

    @on(Histogram.Chosen)
    def _rewards_chosen(self, event: Histogram.Chosen) -> None:
        event.stop()
        self._rewards = event.rewards
        if self.index is not None and self.panes.display:
            self.start(self._show_lists, group="lists")

    @property
    def _listed(self) -> TablePane[Any]:
        """The list of episodes, or of what a search has found."""
        return self.hits if self.searching else self.episodes

    def action_failures(self) -> None:
        self._leave_search()
        self._switch(self.groups if self.by_cause else self.failures, focus=self.panes.alone)
        self._show_episodes()

    @started("map")
    async def action_map(self) -> None:
        from hudtui.tui.results.reward_map import RewardMapDialog

        found, row = step_map(self.groups.listed), self.groups.row
        at = next((place for place, group in found.groups.items() if group is row), None)
        self._map = RewardMapDialog(found, at)
        try:
            chosen = await self.app.push_screen_wait(self._map)
        finally:
            self._map = None
        if chosen is not None and self.groups.choose(key_text(chosen.key)):
            self._leave_search()
            self._switch(self.groups)
            self._show_episodes()
            self.panes.open(self.episodes)

    def action_rewards(self) -> None:
        self.panes.open(self.rewards)

    def action_back(self) -> None:
        """Go back one level, or leave the screen.

        It leads from an episode to the lists, from a search to the episodes, and from failures to
        groups.
        """
        current = self.panes.current
        above = self._listed if current in (self.episode, self.marked) else None
        if current is self.hits:
            self._leave_search()
        elif self.panes.back(above if self.panes.alone else None):
            return
        elif self.searching:
            self._leave_search()
        elif self.by_cause:
            self.action_failures()
        else:
            self.leave()

    # -- one episode
    # ----------------------------------------------------------------------------------------------

    @property
    def chosen_entry(self) -> EpisodeEntry | None:
        """The episode under the cursor, or that of the hit."""
        if self.searching:
            return self._entry(self.hits.row.number) if self.hits.row is not None else None
        return self.episodes.row

    def _open_episode(self) -> None:
        entry = self.chosen_entry
        self._opened_key = None if entry is None else self._key(entry)
        if entry is not None and entry.number == self._number:
            self._number = None
        if entry is None:
            self._show_pair(None, None)
        elif (known := self._kept.get(self._key(entry))) is not None:
            self._show_pair(entry, known)
        else:
            self.start(partial(self._read_episode, entry), group="episode")

    def _key(self, entry: EpisodeEntry) -> tuple[str, int, int]:
        return entry.run, self._generation, entry.number

    async def _transcript(self, entry: EpisodeEntry) -> Transcript | None:
        """Return an episode in full; it is read from the disk unless it is kept in memory."""
        key, index = self._key(entry), self.index
        if key in self._kept or index is None:
            return self._kept.get(key)
        found = await asyncio.to_thread(index.read, entry)
        self._kept[key] = found
        while len(self._kept) > 1 and (
            len(self._kept) > _KEPT
            or sum(one.entry.length for one in self._kept.values()) > _KEPT_BYTES
        ):
            del self._kept[next(iter(self._kept))]
        return found

    async def _read_episode(self, entry: EpisodeEntry) -> None:
        try:
            transcript = await self._transcript(entry)
        except Exception:
            self._show_pair(entry, None)
            raise
        if transcript is not None:
            await self.episode.prepare(transcript)
        if entry == self.chosen_entry:
            self._show_pair(entry, transcript)

    def _show_pair(self, entry: EpisodeEntry | None, transcript: Transcript | None) -> None:
        """Show an episode, and the marked episode beside it."""
        wanted = None
        if self.searching and self._searched:
            wanted = re.compile(
                re.escape(self._searched), re.IGNORECASE if self._searched.islower() else 0
            )
        marked = self.marked_episode
        beside = marked is not None and entry is not None and not self._is_marked(entry)
        diff = (
            diff_transcripts(transcript, marked)
            if beside and marked is not None and transcript is not None
            else None
        )
        if diff is not None:
            self._clear_hint()
        hit = self.hits.row if self.searching else None
        at = hit.turn if hit is not None else 0
        self.episode.show(
            entry,
            transcript,
            beside=Beside(diff, "left") if diff is not None else None,
            wanted=wanted,
            at=at,
        )
        if marked is not None and beside:
            self.marked.show(
                marked.entry,
                marked,
                beside=Beside(diff, "right") if diff is not None else None,
                marked=True,
            )
        if self.marked.disabled == beside:
            self.marked.disabled = not beside
            if beside:  # both in the same view; that of the group says nothing of two episodes
                if self.episode.view == "group":
                    self.episode.turn_to("turns")
                if self.marked.view != self.episode.view:
                    self.marked.turn_to(self.episode.view)
            self.panes.rearrange()
        self.refresh_bindings()

    @on(EpisodePane.Turned)
    def _turned(self, event: EpisodePane.Turned) -> None:
        event.stop()
        table = self._listed.table
        table.go(table.cursor + event.by)

    @on(EpisodePane.AtTurn)
    def _at_turn(self, event: EpisodePane.AtTurn) -> None:
        """Scroll both episodes to the same turn."""
        event.stop()
        if not self.marked.disabled:
            (self.marked if event.pane is self.episode else self.episode).go_to_turn(event.turn)

    # -- comparing
    # ----------------------------------------------------------------------------------------------

    def action_compare(self) -> None:
        """Mark the group if the groups have the focus, otherwise the episode.

        Unmark it if it is marked already.
        While an episode is marked, another episode is opened beside it.
        """
        self.keys_rested()
        if self.panes.current is self.groups:
            side = self._side()
            if (
                self.panes.alone
                and self._marked_group is not None
                and side is not None
                and not self._is_marked_group(side.group)
            ):
                self.panes.open(self.episode)  # two are chosen
                return
            self._marked_group = None if side is None or self._is_marked_group(side.group) else side
            self.groups.redraw()
            self.episode.turn_to("group")
            self._show_group()
            if self._marked_group is not None:
                self._hint(
                    "The group is marked. Choose another group to compare the two; "
                    "{key:results.compare} here unmarks it"
                )
        else:
            self.start(self._mark_episode, group="mark")

    def _hint(self, message: str) -> None:
        """Show what to do next until the user has done it."""
        self.say(message)
        self._hinted = self.message

    def _clear_hint(self) -> None:
        if self.message == self._hinted:
            self.clear_message()

    async def _mark_episode(self) -> None:
        entry = self.chosen_entry
        if entry is None:
            return
        if self.marked_episode is not None and not self._is_marked(entry):  # two are chosen
            self.panes.open(self.episode)
            return
        self.marked_episode = None if self._is_marked(entry) else await self._transcript(entry)
        self.episodes.redraw()
        if self.marked_episode is not None:
            self._hint(
                "The episode is marked. Choose another episode to show both; {key:results.compare} "
                "here unmarks it"
            )
        self._open_episode()

    def action_difference(self) -> None:
        diff = self.episode.diff
        assert diff is not None
        numbers = [turn.number for turn in diff.turns if turn.change != "same"]
        here = self.episode.turn
        number = next((number for number in numbers if number > here), numbers[0])
        for pane in (self.episode, self.marked):
            pane.turn_to("turns")
            pane.go_to_turn(number)

    # -- searching
    # ----------------------------------------------------------------------------------------------

    @started("search")
    async def action_search(self) -> None:
        text = await self.app.ask(
            "Search the texts of all episodes",
            value=self._searched,
            placeholder="a word, a call, an error",
            accept="Search",
        )
        if text and text.strip():
            await self._search(text.strip())

    async def _search(self, text: str) -> None:
        from hudtui.core.results.search import search

        index = self.index
        assert index is not None
        self._searched, self._found = text, []
        self.hits.filter_by("")
        self.hits.show(())
        self.hits.name_on_border(f"Found · {text}")
        self._switch(self.hits, focus=True)
        try:
            async with aclosing(search(index, text)) as pieces:
                async for progress in pieces:
                    self._found += progress.hits
                    if progress.hits:
                        self.hits.show(self._found)
                    if not progress.complete:
                        share = progress.read / progress.size if progress.size else 1.0
                        self.busy(
                            f"Searching: {share:.0%} read, {plural(progress.found, 'hit')}. "
                            "{key:results.cancel} cancels"
                        )
            if self.is_busy:
                self.clear_message()
            if not self._found:
                self.say(f"No episode contains {text}.")
        finally:
            if self.is_attached and self.is_busy:
                self.clear_message()

    def _leave_search(self) -> None:
        if self.searching:
            self.workers.cancel_group(self, "search")
            self._switch(self.episodes)
            self._open_episode()

    def action_cancel(self) -> None:
        if self.going("export"):
            self.workers.cancel_group(self, "export")
            self.say("The export was cancelled, and nothing was written.")
            return
        self.workers.cancel_group(self, "search")
        self.say(f"The search was cancelled; it had found {plural(len(self._found), 'hit')}.")

    # -- opening, copying
    # --------------------------------------------------------------------------------------------

    @started("open")
    async def action_open(self) -> None:
        from hudtui.core.compute.hardware import size
        from hudtui.tui.widgets.pick import Pick
        from hudtui.tui.widgets.words import ago

        found = await asyncio.to_thread(self._find)
        now = self.app.services.now().timestamp()
        lines = [
            (one.name, f"{one.kind}, {size(one.size)}, {ago(max(now - one.modified, 0.0))}")
            for one in found
        ]
        lines.append(("another file or folder …", ""))
        at = next((place for place, one in enumerate(found) if one in self.sources), 0)
        place: int | None = await self.app.push_screen_wait(Pick("Results", lines, at=at))
        if place is None:
            return
        self._place = None
        if place < len(found):
            self._take(found[place : place + 1])
            return
        typed = await self.app.ask(
            "File or folder with episodes",
            placeholder="outputs/mine/traces.jsonl, trajectories",
            accept="Open",
        )
        if typed and typed.strip():
            await self._open_named(typed.strip())

    @started("image")
    async def action_image(self) -> None:
        """Open an image of the turn at the top; if that turn has none, an image of any turn."""
        from hudtui.core.results.images import describe_image, image_data
        from hudtui.tui.widgets.pick import Pick

        images, place = self.episode.images, 0
        if len(images) > 1:
            lines = [f"image {number}: {describe_image(image)}" for number, image in images]
            place = await self.app.push_screen_wait(Pick("Which image?", lines))
        if place is not None:
            await self.open_image(await asyncio.to_thread(image_data, images[place][1]))

    def action_copy(self) -> None:
        from hudtui.core.results.export import markdown

        assert self.episode.transcript is not None
        self.app.copy(clean(markdown(self.episode.transcript)))

    @started("export")
    async def action_export(self) -> None:
        from hudtui.core.flows.export_episodes import export_episodes

        index = self.index
        assert index is not None
        numbers = await self._ask_which()
        if not numbers:
            return
        words = f"Writing {plural(len(numbers), 'episode')}. {{key:results.cancel}} cancels"
        made = await export_episodes(
            self.app,
            index,
            numbers,
            self.app.folder,
            self._open_name,
            begins=lambda: self.busy(words),
        )
        if made is not None:
            left = (
                f"; {plural(made.skipped, 'episode')} left out: no reply, or broken off"
                if made.skipped
                else ""
            )
            self.say(
                f"{plural(made.episodes, 'episode')} written to "
                f"{self.app.workspace.relative(made.path)}{left}",
                "success",
            )

    async def _ask_which(self) -> list[int]:
        """Ask which episodes to export, and return their numbers; empty if the user cancels."""
        from hudtui.core.flows.person import Choice

        self.keys_rested()
        entry, listed = self.chosen_entry, [one.number for one in self.episodes.listed]
        if self.searching:
            listed = list(dict.fromkeys(hit.number for hit in self.hits.listed))
        members = [
            one
            for group in self.groups.listed
            for one in self._members(group)
            if _within(one, self._rewards)
        ]
        wanted = {
            "one": [] if entry is None else [entry.number],
            "listed": listed,
            "all": [one.number for one in members],
        }
        words = {
            "one": "this episode",
            "listed": "the listed episodes",
            "all": "the episodes of all listed groups",
        }
        choices = [
            Choice(name, words[name], plural(len(wanted[name]), "episode"))
            for name in words
            if wanted[name]
        ]
        chosen = await self.app.choose("Which episodes?", choices)
        return wanted[chosen] if chosen is not None else []
