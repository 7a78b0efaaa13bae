"""A text that is drawn again when it differs, and laid out again when its height does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from textual.content import Content
from textual.visual import VisualType
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.css.styles import RulesMap


class CalmStatic(Static):
    """`Static` for a text that is updated often.

    To lay out the whole screen costs more than to draw it.
    """

    _placing = False
    """A layout was asked for, and has not come."""

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Show a text; see `Static.update`. Nothing is done when it is shown already."""
        before, width = self.content, self.content_size.width
        if isinstance(content, Content) and isinstance(before, Content):
            if content.is_same(before):
                return
            layout = layout and (
                not width or self._height(content, width) != self._height(before, width)
            )
        if layout and self._placing:
            # Textual counts the first of several requests for a layout only. If the screen is laid
            # out between two of them, it takes the height of the first one as known, and keeps it.
            self.call_after_refresh(self.refresh, layout=True)
        elif layout:
            self._placing = True
            self.call_after_refresh(self._placed)
        super().update(content, layout=layout)

    def _placed(self) -> None:
        self._placing = False

    def _height(self, content: Content, width: int) -> int:
        return content.get_height(cast("RulesMap", self.styles), width)


class FittedStatic(CalmStatic):
    """A text that is made for the width that this widget has, and again for each other one."""

    _LEAST = 20
    """Cells of a line before there is a width: a hidden widget has none."""
    _make: Callable[[int], Content] | None = None
    _made_for = 0

    def show(self, make: Callable[[int], Content]) -> None:
        """Show what `make` returns for a width in cells."""
        self._make, self._made_for = make, 0
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        width = max(self.content_size.width, self._LEAST)
        if self._make is not None and width != self._made_for:
            self._made_for = width
            self.update(self._make(width))
