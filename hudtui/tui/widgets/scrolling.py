"""The movements of vi for what is scrolled line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.containers import VerticalScroll

from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.lists import MOVES

if TYPE_CHECKING:
    from textual.widget import Widget


class Scrolling(Acting):
    """Mixin, first in the list of bases, for widgets that scroll.

    They list `MOVES` in their `ACTIONS`: a mixin binds no keys.
    """

    def action_down(self) -> None:
        cast("Widget", self).scroll_down(animate=False)

    def action_up(self) -> None:
        cast("Widget", self).scroll_up(animate=False)

    def action_first(self) -> None:
        cast("Widget", self).scroll_home(animate=False)

    def action_last(self) -> None:
        cast("Widget", self).scroll_end(animate=False)


class Page(Scrolling, VerticalScroll):
    """What is longer than there is room for."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = MOVES
