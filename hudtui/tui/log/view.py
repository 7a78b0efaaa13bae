"""A log pane: it follows a log, pauses when scrolled, searches, and says how many lines it dropped.

pane = LogView()
pane.append(lines)      # as often as wanted; drawn at most ten times a second

A pane holds a part of a log. It requests other parts from its owner by messages, if the owner has
set `reaches`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from time import monotonic, time
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer

from hudtui.core.pattern import Pattern
from hudtui.tui.actions import Acting, AppAction, by_key, keymap_of, unless, with_keys
from hudtui.tui.log.lines import FloodLines, LogLines
from hudtui.tui.log.model import LogBuffer
from hudtui.tui.widgets.search import SearchField, StatusLine, search_words, spaced
from hudtui.tui.widgets.words import span

PERIOD = 0.1
"""Shortest time between two updates of the screen, in seconds."""

_SEARCH_STEP = 5000
"""Number of lines that are searched before other tasks of the event loop run."""


_SEARCHED = unless(lambda log: log.pattern is not None, "search first, with {key:log.search}")
_LINES = unless(lambda log: len(log.buffer), "there is no line yet")


class LogView(Acting, Vertical):
    """A log pane over the newest `cap` lines.

    Args:
        cap: Largest number of lines in the pane; older lines are dropped, and the pane says how
            many.
        empty: The text to show while there are no lines.
        save_name: Suggested name for saving.
    """

    DEFAULT_CSS = """
    LogView { height: 1fr; }
    """
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("log.now", "Now", "Jump to the newest line and follow it.", "G,f", palette=False),
        AppAction("log.pause", "Pause", "Pause the log, or continue.", "space", palette=False),
        AppAction("log.search", "Search", "Mark and find text in the log.", "slash", palette=False),
        by_key(
            "log.next",
            "Next match",
            "Go to the next match.",
            "n",
            when=(_SEARCHED,),
        ),
        by_key(
            "log.previous",
            "Previous match",
            "Go to the match before.",
            "N",
            when=(_SEARCHED,),
        ),
        AppAction(
            "log.error",
            "Next error",
            "Go to the first error, then to the one after.",
            "J",
            palette=False,
            when=(_LINES,),
        ),
        by_key(
            "log.cancel",
            "Cancel",
            "Stop searching the log.",
            "ctrl+x",
            when=(unless(lambda log: log.searching, "nothing is being searched"),),
        ),
        AppAction(
            "log.open",
            "JSON",
            "Show the JSON in a line as an indented tree: in the marked line, or in the first one "
            "in sight that has some. Of a log that is followed, it is the last one.",
            "enter",
            palette=False,
            when=(_LINES,),
        ),
        by_key("log.wrap", "Wrap", "Wrap long lines, or scroll sideways.", "backslash"),
        by_key("log.times", "Times", "Show when each line arrived.", "D"),
        by_key(
            "log.save",
            "Save",
            "Write the shown lines into a file.",
            "W",
            when=(_LINES,),
        ),
        by_key(
            "log.copy",
            "Copy",
            "Copy the visible lines.",
            "y",
            when=(_LINES,),
        ),
        by_key(
            "log.copy-all",
            "Copy all",
            "Copy every line of the pane.",
            "Y",
            when=(_LINES,),
        ),
        by_key("log.down", "Down", "One line down.", "j"),
        by_key("log.up", "Up", "One line up.", "k"),
        by_key("log.top", "First", "Go to the first line of the log.", "g"),
    )

    @dataclass
    class Asked(Message):
        """Base class of the messages by which a pane requests another part of the log."""

        log: LogView

    class Earlier(Asked):
        """Requests the log from its first line on."""

    class Latest(Asked):
        """Requests the end of the log."""

    class Above(Asked):
        """Requests some of the lines before the first one; answer with `put_before`."""

    class Searched(Asked):
        """Starts a search of the whole log for `pattern`, or ends it (None).

        Answer with `found` and `searched`.
        """

    @dataclass
    class Wanted(Asked):
        """Requests the lines around a place in the log."""

        offset: int
        """Byte offset of the line to scroll to."""

    def __init__(
        self,
        *,
        cap: int = 100_000,
        empty: str = "Nothing has been logged yet.",
        save_name: str = "log.txt",
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.buffer = LogBuffer(cap)
        self.paused = False
        self.save_name = save_name
        self._lines = FloodLines(self.buffer, empty=empty)
        self._status = StatusLine()
        self._field = SearchField(self.search, self._lines.focus)
        self._pending: list[str] = []
        self._skipped = 0
        """Number of lines that were dropped before the pending lines."""
        self._missed = 0
        self._counts = True
        """Whether lines that arrive while the end is not visible are counted as new."""
        self._drawn_at = 0.0
        self._timer: Timer | None = None
        self._pattern: Pattern | None = None
        self._matches: list[int] = []
        self._ended = False
        self._before = 0
        self._after: int | None = None
        self._away: float | None = None
        self.reaches = False
        """Whether the owner answers requests for other parts of the log. `Earlier` and `Latest` are
        sent in any case."""
        self._loading = False
        self._elsewhere: list[int] = []
        """Byte offsets of all matches in the whole log, in order; see `Searched`."""
        self._reached: int | None = None
        """Byte offset up to which the whole log was searched; None once the search is complete."""

    def compose(self) -> ComposeResult:
        yield self._lines
        yield self._status
        yield self._field

    def on_mount(self) -> None:
        self._show_status()

    # -- appending
    # ----------------------------------------------------------------------------------------------

    def append(self, lines: Sequence[str]) -> None:
        """Append lines, without line ends.

        Returns at once; the lines are shown with the next update.
        """
        if not lines:
            return
        self._pending.extend(lines)
        excess = len(self._pending) - 2 * self.buffer.cap
        if excess > 0:
            del self._pending[:excess]
            self._skipped += excess
            self.buffer.dropped += excess
        if self._timer is None:
            wait = self._drawn_at + PERIOD - monotonic()
            self._timer = self.set_timer(max(wait, 0.001), self._draw, name="log")

    @property
    def pending(self) -> int:
        """The number of lines that were appended and are not shown yet."""
        return len(self._pending)

    @property
    def room(self) -> int:
        """The number of lines that can be added before the first line is dropped."""
        return max(self.buffer.cap - len(self.buffer) - self.pending, 0)

    @property
    def ended(self) -> bool:
        """Whether the log is complete: the pane then says so instead of "following".

        `clear` resets this.
        """
        return self._ended

    @ended.setter
    def ended(self, ended: bool) -> None:
        self._ended = ended
        self._show_status()

    @property
    def pattern(self) -> Pattern | None:
        """The pattern of the search."""
        return self._pattern

    @property
    def searching(self) -> bool:
        """Whether the whole log is being searched."""
        return self._reached is not None

    @property
    def before(self) -> int:
        """Byte offset of the first line in its log.

        If it is not 0, `g` requests the log from its start with `Earlier`.

        `clear` resets this.
        """
        return self._before

    @before.setter
    def before(self, before: int) -> None:
        self._before = before
        self._show_status()

    @property
    def after(self) -> int | None:
        """Byte offset of the unread part after the last line, if there is one.

        `G` then requests the end with `Latest`.

        `clear` resets this.
        """
        return self._after

    @after.setter
    def after(self, after: int | None) -> None:
        self._after = after
        self._show_status()

    def hear(self, away: float | None) -> None:
        """Show for how many seconds the log's machine has not answered; None if it answers."""
        self._away = away
        self._show_status()

    def stay(self) -> None:
        """Stay at the first line while more lines are appended; these are not counted as new."""
        self._lines.follow, self._counts = False, False
        self._show_status()

    def flush(self) -> None:
        """Show the pending lines now instead of with the next update."""
        if self._timer is not None:
            self._timer.stop()
        self._draw()

    def clear(self) -> None:
        held = len(self.buffer)
        self.buffer.clear()
        self.buffer.dropped = 0
        self._pending.clear()
        self._skipped = 0
        self._missed = self._before = 0
        self._counts = True
        self._ended = self._loading = False
        self._away = self._after = None
        self._matches.clear()
        self._lines.here = None
        if held:
            self._lines.rebuild()
        self._show_status()

    def put_before(self, lines: Sequence[str], number: int, offset: int) -> None:
        """Answer `Above`: insert earlier lines before a line of the pane.

        Args:
            lines: The lines; no more than there is `room` for.
            number: Number of the line to insert them before. They replace the lines that the pane
                has before it.
            offset: Byte offset of the first inserted line.
        """
        self._loading = False
        self._before = offset
        if lines:
            self._lines.put_before(lines, number)
            if self._pattern is not None:
                found = self.buffer.search(self._pattern.matches, self.buffer.first, number)
                self._matches = [*found, *(match for match in self._matches if match >= number)]
        self._show_status()

    def found(self, offsets: Sequence[int]) -> None:
        """Answer `Searched`: these lines match, in order of their byte offsets."""
        self._elsewhere.extend(offsets)
        self._show_status()

    def forget_found(self) -> None:
        """Forget the matches in the other parts of the log: the pane shows another log."""
        self._elsewhere = []
        self._reached = None

    def searched(self, reached: int | None) -> None:
        """Answer `Searched`.

        Report the byte offset up to which the log was searched; None once all of it was searched.
        If no line of the pane matches, the pane then goes to the first match.
        """
        self._reached = reached
        self._show_status()
        if reached is None and not self._matches and self._lines.here is None and self._elsewhere:
            self.action_next()

    def _draw(self) -> None:
        self._timer = None
        self._drawn_at = monotonic()
        if self.paused:
            self._show_status()
            return
        lines, self._pending = self._pending, []
        if lines:
            skipped, self._skipped = self._skipped, 0
            self.buffer.append(lines, self._time(), skipped=skipped)
            start = max(self.buffer.end - len(lines), self.buffer.first)
            self._lines.took(start)
            if self._pattern is not None:
                self._matches.extend(
                    self.buffer.search(self._pattern.matches, start, self.buffer.end)
                )
                while self._matches and self._matches[0] < self.buffer.first:
                    self._matches = [
                        number for number in self._matches if number >= self.buffer.first
                    ]
            self._missed = (
                0 if self._lines.follow or not self._counts else self._missed + len(lines)
            )
        self._show_status()

    def _time(self) -> float:
        services = getattr(self.app, "services", None)
        return time() if services is None else float(services.now().timestamp())

    # -- the status line
    # ---------------------------------------------------------------------------------------------

    def on_log_lines_moved(self, event: LogLines.Moved) -> None:
        """Update the status line after the view was scrolled away from the end, or back to it."""
        event.stop()
        if self._lines.follow:
            self._missed, self._counts = 0, True
        self._show_status()

    def _show_status(self) -> None:
        missed = self._missed + (len(self._pending) if self.paused else 0)
        key = partial(with_keys, keymap=keymap_of(self.app))
        parts: list[tuple[str, str]] = []
        if missed:
            parts.append(
                (key(f" +{spaced(missed)} new: {{key:log.now}} jumps to now "), "bold reverse")
            )
        if self.paused:
            parts.append(("‖ paused", "bold $warning"))
        elif self._after is not None:
            where = "part" if self._before else "beginning"
            parts.append(
                (key(f"○ {where} of the log; {{key:log.now}}: its end"), "$foreground-muted")
            )
        elif self._away is not None:
            parts.append((f"○ no contact for {span(self._away)}", "bold $error"))
        elif self._ended:
            brief = self._pattern is not None or self._before  # the words beside it matter more
            parts.append(("■ ended" if brief else "■ end of log", "$foreground-muted"))
        elif self._lines.follow:
            parts.append(("● following", "$success"))
        else:
            parts.append(("○ not following", "$foreground-muted"))
        if self.buffer.dropped:
            parts.append((f"! {spaced(self.buffer.dropped)} older lines dropped here", "$warning"))
        if self._pattern is not None:
            parts.append((self._search_words(self._pattern), "$accent"))
            if self._reached is not None:
                parts.append((f"{_size(self._reached)} of the log searched", "$foreground-muted"))
            elif not self.reaches and (
                self._before or self._after is not None or self.buffer.dropped
            ):
                parts.append((f"in these {spaced(len(self.buffer))} lines", "$foreground-muted"))
        if self._loading:
            parts.append(("reading earlier lines", "$foreground-muted"))
        elif self._before:
            parts.append(
                (key(f"{{key:log.top}}: {_size(self._before)} before this"), "$foreground-muted")
            )
        total = len(self.buffer)
        parts.append((f"{spaced(total)} line{'' if total == 1 else 's'}", ""))
        if self._lines.wrap:
            parts.append(("wrapped", ""))
        self._status.show(parts)

    def _search_words(self, pattern: Pattern) -> str:
        earlier, later = self._others()
        here = self._lines.here
        place = len(earlier) + self._matches.index(here) + 1 if here in self._matches else 0
        return search_words(
            pattern,
            place,
            len(earlier) + len(self._matches) + len(later),
            more=self._reached is not None,
        )

    def _others(self) -> tuple[list[int], list[int]]:
        """Return the matches before and after the lines of the pane, as byte offsets in the log."""
        first = bisect_left(self._elsewhere, self._before)
        last = (
            len(self._elsewhere)
            if self._after is None
            else bisect_left(self._elsewhere, self._after)
        )
        return self._elsewhere[:first], self._elsewhere[last:]

    # -- actions
    # ----------------------------------------------------------------------------------------------

    @property
    def lines(self) -> LogLines:
        """The widget that scrolls and has the focus."""
        return self._lines

    def focus(self, scroll_visible: bool = True) -> LogView:
        """Focus the lines."""
        self._lines.focus(scroll_visible)
        return self

    def offers(self, action_id: str) -> bool:
        """Return whether an action is offered.

        Some actions need an owner that answers requests. `n` and `N` belong to the screen while no
        text is searched for.
        """
        if action_id in ("log.next", "log.previous"):
            return self._pattern is not None
        return self.reaches or action_id != "log.cancel"

    def action_now(self) -> None:
        if self._after is not None:
            self.post_message(self.Latest(self))
            return
        self.paused = False
        self._missed = 0
        self._lines.to_end()
        self._draw()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self._draw()

    def action_cancel(self) -> None:
        """Stop the search."""
        self._reached = None
        self.post_message(self.Searched(self))
        self._show_status()

    def action_wrap(self) -> None:
        self._lines.wrap = not self._lines.wrap
        self._lines.rebuild()
        self._show_status()

    def action_times(self) -> None:
        self._lines.times = not self._lines.times
        self._lines.rebuild()

    def action_error(self) -> None:
        """Go to the next error, from the first one on."""
        here = self._lines.here
        start = self.buffer.first if here is None or here < self.buffer.first else here + 1
        found = self.buffer.next_error(start)
        if found is None and start > self.buffer.first:
            found = self.buffer.next_error(self.buffer.first)
        if found is None:
            more = (
                " {key:log.search} searches the whole log." if self.reaches and self._before else ""
            )
            self.app.say(f"The shown lines contain no error.{more}")
            return
        self.go_to(found)

    def action_open(self) -> None:
        from hudtui.tui.log.json_lines import JsonLines, first_value

        numbers = self._lines.page()
        if self._lines.follow:
            numbers.reverse()
        if self._lines.here in numbers:
            numbers = [self._lines.here, *numbers]
        found = first_value(self.buffer.raw, numbers)
        if found is None:
            self.app.say("No line in sight holds JSON.")
            return
        self.app.push_screen(JsonLines(self, *found))

    def action_down(self) -> None:
        self._lines.scroll_down(animate=False)

    def action_up(self) -> None:
        self._lines.scroll_further_up()
        self._lines.scroll_up(animate=False)

    def on_log_lines_above(self, event: LogLines.Above) -> None:
        """Request earlier lines when the user scrolls up at the first line."""
        event.stop()
        if self.reaches and self._before and not self._loading:
            self._loading = True
            self._show_status()
            self.post_message(self.Above(self))

    def action_top(self) -> None:
        if self._before:
            self.post_message(self.Earlier(self))
            return
        self._lines.scroll_home(animate=False)

    def action_copy(self) -> None:
        self.app.copy(self.buffer.everything(self._lines.page()))

    def action_copy_all(self) -> None:
        self.app.copy(self.buffer.everything(self._lines.numbers()))

    @work(group="log-save", exclusive=True)
    async def action_save(self) -> None:
        from pathlib import Path

        from hudtui.core.files import write_atomic
        from hudtui.core.flows.person import may_replace
        from hudtui.core.paths import typed_path

        name = await self.app.ask("Save the log", value=self.save_name, accept="Save")
        if not name:
            return
        path = Path(getattr(self.app, "folder", "."), typed_path(name))
        if not await may_replace(self.app, path, name):
            return
        numbers = self._lines.numbers()
        text = self.buffer.everything(numbers)
        await asyncio.to_thread(write_atomic, path, text)
        self.app.say(f"Saved {spaced(len(numbers))} lines in {path}.")

    # -- search
    # ----------------------------------------------------------------------------------------------

    def action_search(self) -> None:
        self._field.open()

    def search(self, text: str) -> None:
        """Mark every match and go to the first match at or after the visible lines.

        An empty text ends the search.
        """
        self._pattern = self._field.pattern_of(text)
        self._lines.pattern = self._pattern
        self._lines.here = None
        self._matches = []
        self._elsewhere = []
        self._reached = None
        self._lines.repaint()
        self.refresh_bindings()
        if self.reaches:
            elsewhere = self._before or self._after is not None
            self._reached = 0 if self._pattern is not None and elsewhere else None
            self.post_message(self.Searched(self))
        if self._pattern is None:
            self._show_status()
            return
        self.run_worker(self._search(self._pattern), group="log-search", exclusive=True)

    async def _search(self, pattern: Pattern) -> None:
        start = self.buffer.first
        while start < self.buffer.end:
            stop = min(start + _SEARCH_STEP, self.buffer.end)
            found = list(self.buffer.search(pattern.matches, start, stop))
            if pattern is not self._pattern:
                return
            # Lines that were appended meanwhile have been searched already.
            self._matches = sorted({*self._matches, *found})
            start = stop
            await asyncio.sleep(0)
        if self._matches:
            top = self._lines.top_number()
            self.go_to(
                next((number for number in self._matches if number >= top), self._matches[0])
            )
        self._show_status()

    def action_next(self) -> None:
        """Go to the next match; after the last match of the log, to the first."""
        here = self._lines.here
        after = here if here is not None else self._lines.top_number() - 1
        found = next((number for number in self._matches if number > after), None)
        earlier, later = self._others()
        if found is not None:
            self.go_to(found)
        elif away := later or earlier:
            self.post_message(self.Wanted(self, away[0]))
        elif self._matches:
            self.go_to(self._matches[0])

    def action_previous(self) -> None:
        """Go to the previous match; before the first match of the log, to the last."""
        here = self._lines.here
        before = here if here is not None else self._lines.top_number()
        found = next((number for number in reversed(self._matches) if number < before), None)
        earlier, later = self._others()
        if found is not None:
            self.go_to(found)
        elif away := earlier or later:
            self.post_message(self.Wanted(self, away[-1]))
        elif self._matches:
            self.go_to(self._matches[-1])

    def go_to(self, number: int) -> None:
        """Scroll to a line of the pane, and mark it."""
        self._lines.to_line(number)
        self._show_status()


def _size(count: int) -> str:
    if count < 10_000:
        return f"{spaced(count)} bytes"
    return f"{count / 1000:.0f} kB" if count < 10_000_000 else f"{count / 1e6:,.0f} MB"
