"""A histogram of rewards. Keys or the mouse choose a range of bars as a filter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partialmethod
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from hudtui.core.text import plural
from hudtui.tui.actions import Acting, AppAction, by_key, needing, unless
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from hudtui.core.results.queries import RewardBucket

_EIGHTHS = " ▁▂▃▄▅▆▇█"
_MUTED = "$foreground-muted"


def bar_lines(counts: Sequence[int], width: int, height: int) -> list[str]:
    """Return bars as `height` lines of `width` cells.

    A bar with a count above 0 is at least an eighth of a line high.
    """
    most = max(counts, default=0)
    cells = [counts[at * len(counts) // width] for at in range(width)] if counts else [0] * width
    eighths = [max(round(count / most * height * 8), 1) if count else 0 for count in cells]
    return [
        "".join(_EIGHTHS[min(max(one - row * 8, 0), 8)] for one in eighths)
        for row in range(height - 1, -1, -1)
    ]


_REWARDED = unless(lambda histogram: histogram.buckets, "there is no reward yet")


class Histogram(Acting, Widget, can_focus=True):
    """Bars of rewards, from which the user can choose a range."""

    ALLOW_SELECT = False
    ACTIONS: ClassVar[tuple[AppAction, ...]] = needing(
        _REWARDED,
        (
            AppAction(
                "rewards.right",
                "Next rewards",
                "Show only episodes with rewards in the next range.",
                "right",
                palette=False,
            ),
            AppAction(
                "rewards.left",
                "Rewards before",
                "Show only episodes with rewards in the range before.",
                "left",
                palette=False,
            ),
            AppAction(
                "rewards.wider",
                "Wider",
                "Add the next range of rewards to the ranges that are shown.",
                "shift+right",
                palette=False,
            ),
            by_key(
                "rewards.narrower", "Narrower", "Remove the last range of rewards.", "shift+left"
            ),
            AppAction(
                "rewards.all",
                "All rewards",
                "Show the episodes with all rewards again.",
                "escape",
                palette=False,
            ),
        ),
    )
    DEFAULT_CSS = "Histogram { height: 1fr; width: 1fr; padding: 0 1; }"

    @dataclass
    class Chosen(Message):
        """Sent when the user has chosen another range of rewards."""

        rewards: tuple[float, float] | None
        """The chosen rewards: from the first number up to, but not including, the second; None for
        all."""

    def __init__(self) -> None:
        super().__init__()
        self.buckets: tuple[RewardBucket, ...] = ()
        self.chosen: tuple[int, int] | None = None
        """The first and the last bar that were chosen."""
        self._pressed: int | None = None

    def show(self, buckets: tuple[RewardBucket, ...]) -> None:
        """Show other bars. The choice is kept if the ranges are the same."""
        if [one.low for one in buckets] != [one.low for one in self.buckets]:
            self.forget()
        if buckets != self.buckets:
            self.buckets = buckets
            self.refresh()
            self.refresh_bindings()

    def forget(self) -> None:
        """Clear the choice."""
        self._choose(None)

    # -- drawing
    # ----------------------------------------------------------------------------------------------

    def render(self) -> Content:
        """Return the bars, a line that marks the chosen bars, and the ends of the ranges."""
        width, height = self.content_size
        if width < 4 or height < 1:
            return Content("")
        if not self.buckets:
            return Content.styled("No reward yet.", _MUTED)
        lines = []
        inside = [self._is_chosen(self._bar_at(x)) for x in range(width)]
        for line in bar_lines([one.count for one in self.buckets], width, max(height - 2, 1)):
            lines.append(self._styled(line, inside))
        if height > 2:
            axis = "".join("━" if one and self.chosen is not None else "─" for one in inside)
            lines.append(self._styled(axis, inside))
        if height > 1:
            lines.append(self._words(width))
        return Content("\n").join(lines)

    def _styled(self, line: str, inside: Sequence[bool]) -> Content:
        style = "bold $primary" if self.chosen is not None else "$primary"
        parts: list[tuple[str, str]] = []
        for character, chosen in zip(line, inside, strict=True):
            found = style if chosen else _MUTED
            if parts and parts[-1][1] == found:
                parts[-1] = (parts[-1][0] + character, found)
            else:
                parts.append((character, found))
        return Content.assemble(*parts)

    def _words(self, width: int) -> Content:
        low, high = f"{self.buckets[0].low:.3g}", f"{self.buckets[-1].high:.3g}"
        first, last = self.chosen or (0, len(self.buckets) - 1)
        count = sum(one.count for one in self.buckets[first : last + 1])
        if self.chosen is None:
            middle = plural(count, "episode")
        else:
            middle = (
                f"{self.buckets[first].low:.3g} to {self.buckets[last].high:.3g}: "
                f"{plural(count, 'episode')}"
            )
        middle = cut(middle, max(width - len(low) - len(high) - 2, 0))
        left = max((width - len(middle)) // 2 - len(low), 1)
        right = max(width - len(low) - left - len(middle) - len(high), 0)
        style = "" if self.chosen is None else "bold"
        return Content.assemble(
            (low + " " * left, _MUTED), (middle, style), (" " * right + high, _MUTED)
        )

    def _bar_at(self, x: int) -> int:
        return min(
            max(x, 0) * len(self.buckets) // max(self.content_size.width, 1), len(self.buckets) - 1
        )

    def _is_chosen(self, bar: int) -> bool:
        return self.chosen is None or self.chosen[0] <= bar <= self.chosen[1]

    # -- choosing
    # ----------------------------------------------------------------------------------------------

    def offers(self, action_id: str) -> bool:
        """Leave Esc to the screen while no range is chosen."""
        return action_id != "rewards.all" or self.chosen is not None

    def _choose(self, chosen: tuple[int, int] | None) -> None:
        if chosen == self.chosen:
            return
        self.chosen = chosen
        self.refresh()
        self.refresh_bindings()
        self.post_message(self.Chosen(None if chosen is None else self._rewards(*chosen)))

    def _rewards(self, first: int, last: int) -> tuple[float, float]:
        return self.buckets[first].low, math.inf if last + 1 == len(self.buckets) else self.buckets[
            last
        ].high

    def _step(self, by: int) -> None:
        """Go to the nearest bar with a count above 0.

        A range without episodes would leave the lists empty.
        """
        counts = [one.count for one in self.buckets]
        here = -1 if by > 0 else len(counts)
        if self.chosen is not None:
            here = self.chosen[1] if by > 0 else self.chosen[0]
        places = range(here + 1, len(counts)) if by > 0 else range(here - 1, -1, -1)
        place = next((place for place in places if counts[place]), None)
        if place is not None:
            self._choose((place, place))

    action_right = partialmethod(_step, 1)
    action_left = partialmethod(_step, -1)

    def action_wider(self) -> None:
        first, last = self.chosen or (0, -1)
        self._choose((first, min(last + 1, len(self.buckets) - 1)))

    def action_narrower(self) -> None:
        if self.chosen is not None and self.chosen[1] > self.chosen[0]:
            self._choose((self.chosen[0], self.chosen[1] - 1))

    def action_all(self) -> None:
        self._choose(None)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a range at the bar under the mouse."""
        place = event.get_content_offset(self)
        if place is not None and self.buckets:
            self._pressed = self._bar_at(place.x)
            self.capture_mouse()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Choose the range from the bar where the mouse was pressed to this bar.

        A click on the chosen bar clears the choice.
        """
        if self._pressed is None:
            return
        self.release_mouse()
        pressed, self._pressed = self._pressed, None
        place = event.get_content_offset_capture(self)
        here = self._bar_at(place.x)
        chosen = (min(pressed, here), max(pressed, here))
        self._choose(None if chosen == self.chosen else chosen)


class RewardsPane(Pane):
    """The rewards of all episodes as bars, which filter the lists."""

    BORDER_TITLE = "Rewards"
    HELP = (
        "The number of episodes for each range of rewards. {key:rewards.right} and "
        "{key:rewards.left} show only one range, {key:rewards.wider} adds the next range, "
        "{key:rewards.all} shows all again. Dragging with the mouse does the same."
    )

    def __init__(self) -> None:
        super().__init__(id="results-rewards")
        self.histogram = Histogram()

    def compose(self) -> ComposeResult:
        yield self.histogram
