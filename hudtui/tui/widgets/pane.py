"""Panes: the parts of a screen, each with a border, a title and keys of its own.

A screen composes `Pane`s inside one `Panes`, in any nesting of `Horizontal` and `Vertical`. The
border shows which pane has the focus. On a narrow terminal one pane is shown at a time, and the
titles of the others stand beside its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partialmethod
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, Self

from rich.cells import cell_len
from textual import events
from textual.containers import Container
from textual.content import Content
from textual.css.scalar import Scalar, Unit
from textual.geometry import Offset, Region
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from hudtui.tui.actions import Acting, AppAction, by_key, unless
from hudtui.tui.widgets.fit import cut

if TYPE_CHECKING:
    from hudtui.tui.app import HudtuiApp

SIDE_BY_SIDE = 100
"""Width in columns from which panes are side by side."""
_STEP = 4
"""Cells that a divider moves at a key; half as many lines."""
_SHORTEST = 4
"""Cells that a title beside that of the front pane keeps."""
_LEAST = 8
"""Cells that a pane keeps; a third as many lines."""


class Pane(Acting, Container):
    """A part of a screen with a border and a title.

    It knows no other pane: it posts messages, and the screen connects them. A subclass gives
    `BORDER_TITLE`, its `ACTIONS`, `HELP` and `compose`. `name_on_border` changes the title later
    on, and `note_on_border` the small text at the lower right, such as "23 of 61".
    """

    DEFAULT_CSS = """
    Pane {
        width: 1fr; height: 1fr; border: round $border-blurred;
        border-title-color: $foreground-muted; border-title-style: none;
        border-subtitle-color: $foreground-muted; border-subtitle-style: none;
    }
    Pane:focus-within {
        border: round $primary; border-title-color: $primary; border-title-style: bold;
    }
    .-w60 Pane, .-h20 Pane, .-w60 Pane:focus-within, .-h20 Pane:focus-within {
        border-left: none; border-right: none; border-bottom: none;
    }
    """

    _edge: Region | None = None
    """The part of the border that is being written."""
    HELP: ClassVar[str] = ""
    """What the pane shows, in a sentence or two: help says it first while the pane has the
    focus."""

    if TYPE_CHECKING:
        app: HudtuiApp

    def __init__(
        self,
        *children: Widget,
        title: str = "",
        id: str | None = None,  # noqa: A002
        classes: str | None = None,
    ) -> None:
        super().__init__(*children, id=id, classes=classes)
        self._title = title or type(self).BORDER_TITLE or ""
        self._note: Content | None = None
        if self._title:
            self.border_title = Content(self._title)

    @property
    def title(self) -> str:
        """The title alone, without the titles of other panes that may stand beside it."""
        return self._title

    def name_on_border(self, title: str) -> None:
        """Show another title; foreign text is cleaned."""
        from hudtui.core.text import clean_line

        title = clean_line(title)
        if title == self._title:
            return
        self._title = title
        above = self._panes()
        if above is not None and above.alone:
            above.name_panes()
        else:
            self.write_title(Content(title))

    def write_title(self, title: Content) -> None:
        """Write the upper border; the rest of the pane stays as it is drawn."""
        gutter = self.gutter
        self._edge = Region(-gutter.left, -gutter.top, self.outer_size.width, 1)
        self.border_title = title
        self._edge = None

    def note_on_border(self, note: str, style: str = "") -> None:
        """Show a short text at the lower right of the border, such as "23 of 61".

        `style` is one of the theme's colours.
        """
        from hudtui.core.text import clean_line

        content = Content.styled(clean_line(self.app.keys_in(note)), style)
        if self._note is not None and self._note.is_same(content):
            return
        self._note, gutter = content, self.gutter
        self._edge = Region(
            -gutter.left, self.outer_size.height - gutter.top - 1, self.outer_size.width, 1
        )
        self.border_subtitle = content
        self._edge = None

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Draw the pane again; for a text on its border that line alone."""
        if self._edge is not None and not regions:
            regions = (self._edge,)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def _panes(self) -> Panes | None:
        return next((node for node in self.ancestors if isinstance(node, Panes)), None)

    def focus(self, scroll_visible: bool = True) -> Pane:
        """Give the focus to the part of the pane that takes keys.

        Its first widget that can have it.
        """
        target = self.first_focus()
        if target is not None:
            target.focus(scroll_visible)
        return self

    def turn_to(self, tab: str) -> None:
        """Show one of the pane's tabs, and give it the focus. A pane with tabs has its own."""
        raise NotImplementedError

    def first_focus(self) -> Widget | None:
        """The widget that gets the focus when the pane does; None while there is none."""
        for node in self.walk_children(Widget):
            if (
                node.focusable
                and node.display
                and all(one.display for one in node.ancestors if isinstance(one, Widget))
            ):
                return node
        return None


class ViewsPane(Pane):
    """A pane with several views of one thing, one shown at a time; the lower border names them.

    A subclass gives `VIEWS` and `show_view`, which draws `view`.
    """

    VIEWS: ClassVar[tuple[str, ...]] = ()
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "views.next",
            "Next view",
            "Show the next view of this pane.",
            "right_square_bracket",
            palette=False,
        ),
        by_key(
            "views.previous",
            "Previous view",
            "Show the previous view of this pane.",
            "left_square_bracket",
        ),
    )

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.view = self.VIEWS[0]

    def on_mount(self) -> None:
        """The first view is shown once the pane is made."""
        self.turn_to(self.view)

    def show_view(self) -> None:
        """Draw the view that `view` names."""
        raise NotImplementedError

    def turn_to(self, view: str) -> None:
        """Show a view of `VIEWS`."""
        self.view = view
        self.note_on_border(" │ ".join(f"[{one}]" if one == view else one for one in self.VIEWS))
        self.show_view()
        self.refresh_bindings()

    def action_next(self) -> None:
        self.turn_to(self.VIEWS[(self.VIEWS.index(self.view) + 1) % len(self.VIEWS)])

    def action_previous(self) -> None:
        self.turn_to(self.VIEWS[self.VIEWS.index(self.view) - 1])


def _panes_in(node: Widget) -> Iterator[Pane]:
    """The panes below a widget; of those in a switcher, the one that it shows."""
    for child in node.children:
        if isinstance(node, ContentSwitcher) and node.current not in (None, child.id):
            continue  # before it is mounted, it shows none
        if isinstance(child, Pane):
            yield child
        else:
            yield from _panes_in(child)


def show(widget: Widget, wanted: bool) -> None:
    """Show or hide a widget.

    Textual repeats the layout when `display` is set, even to the same value.
    """
    if widget.display is not wanted:
        widget.display = wanted


def _fitted(titles: list[str], front: int, width: int) -> list[str]:
    """The titles of panes for one border.

    Where they are too long, those of the panes behind the front one are shortened.
    """
    room = width - 3 * (len(titles) - 1)
    if width <= 0 or sum(map(cell_len, titles)) <= room:
        return titles
    titles = [
        title if number == front else title.partition(" · ")[0]
        for number, title in enumerate(titles)
    ]
    while sum(map(cell_len, titles)) > room:
        number = max(
            range(len(titles)), key=lambda one: (cell_len(titles[one]) if one != front else 0, one)
        )
        if cell_len(titles[number]) <= _SHORTEST:
            titles[front] = cut(
                titles[front],
                max(room - sum(map(cell_len, titles)) + cell_len(titles[front]), _SHORTEST),
            )
            break
        titles[number] = cut(titles[number], cell_len(titles[number]) - 1)
    return titles


_ALONE = "one pane is shown at a time"


class Panes(Acting, Container):
    """The panes of a screen, beside and below each other.

    One at a time where the terminal is narrow.

    Args:
        children: Panes, and `Horizontal` or `Vertical` containers of panes.
        side_by_side: Width in columns from which they are side by side.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        by_key("panes.next", "Next pane", "Go to the next pane or field.", "tab"),
        by_key("panes.previous", "Previous pane", "Go to the previous pane or field.", "shift+tab"),
        AppAction(
            "panes.zoom",
            "Zoom",
            "Show this pane alone, or all of them again.",
            "z",
            show=False,
            when=(unless(lambda panes: panes.offers("panes.zoom"), _ALONE),),
        ),
        AppAction(
            "panes.larger",
            "Larger pane",
            "Make this pane larger.",
            "greater_than_sign",
            show=False,
            when=(unless(lambda panes: panes.offers("panes.larger"), _ALONE),),
        ),
        AppAction(
            "panes.smaller",
            "Smaller pane",
            "Make this pane smaller.",
            "less_than_sign",
            show=False,
            when=(unless(lambda panes: panes.offers("panes.smaller"), _ALONE),),
        ),
    )
    DEFAULT_CSS = """
    Panes { width: 1fr; height: 1fr; layout: horizontal; }
    Panes > Horizontal, Panes > Vertical { width: 1fr; height: 1fr; }
    """

    class Changed(Message):
        """Another pane has come to the front, or all are shown again."""

    def __init__(
        self,
        *children: Widget,
        side_by_side: int = SIDE_BY_SIDE,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(*children, id=id)
        self._least_width = side_by_side
        self._front: Pane | None = None
        self._recent: list[Pane] = []
        self._zoomed = False
        self._narrow = False
        self._dragged: tuple[Widget, Widget, bool] | None = None

    # -- which pane
    # ----------------------------------------------------------------------------------------------

    @property
    def panes(self) -> list[Pane]:
        """Return the panes of the screen, in their order.

        Those that the screen itself hides (`pane.disabled`) are left out.
        """
        return [pane for pane in _panes_in(self) if not pane.disabled]

    @property
    def by_use(self) -> list[Pane]:
        """The panes, the one that had the focus last first.

        Those that never had it at the end, in their order.
        """
        panes = self.panes
        recent = [pane for pane in self._recent if pane in panes]
        return [*recent, *(pane for pane in panes if pane not in recent)]

    @property
    def alone(self) -> bool:
        """Whether one pane is shown and the others are not."""
        return self._narrow or self._zoomed

    @property
    def current(self) -> Pane | None:
        """The pane that has the focus, or had it last."""
        focused = self.screen.focused
        if focused is not None:
            for node in focused.ancestors_with_self:
                if isinstance(node, Pane) and self in node.ancestors:
                    return node
        return self._front if self._front in self.panes else next(iter(self.panes), None)

    def open(self, pane: Pane) -> None:
        """Bring a pane to the front and give it the focus, at once.

        The next key that was typed is the pane's.
        """
        self.bring(pane)
        if (target := pane.first_focus()) is not None:
            self.screen.set_focus(target)

    def back(self, to: Pane | None = None) -> bool:
        """Go one level up: from a zoomed pane to all of them, else to the pane above.

        Args:
            to: The pane above; None: the first one.

        Returns:
            Whether there was a level to go up; False on the pane above.
        """
        if self._zoomed:
            self.action_zoom()
            return True
        panes = self.panes
        above = panes[0] if to is None and panes else to
        if above is None or self.current is above:
            return False
        self.open(above)
        return True

    def bring(self, pane: Pane) -> None:
        """Show a pane where only one has room; the focus stays where it is."""
        if pane is self._front:
            return
        self._front = pane
        self.rearrange()

    def begin_with(self, pane: Pane) -> None:
        """Show one pane alone from the first paint on; call it before the panes are mounted.

        Zooming later would work out every style a second time.
        """
        self._front, self._zoomed = pane, True
        self.add_class("-alone", update=False)

    def rearrange(self) -> None:
        """Show all panes that are not disabled, or the front one alone.

        Call it when a pane was disabled, or is not any more, and when a switcher shows another.
        """
        alone, front = self.alone, self._front
        if alone and front not in self.panes:
            front = self._front = self.current
        for pane in _panes_in(self):
            show(pane, not pane.disabled and (not alone or pane is front))
        for box in reversed(list(self.query(Widget))):
            if not isinstance(box, Pane) and any(
                isinstance(child, Pane) or child.has_class("-box") for child in box.children
            ):
                box.add_class("-box", update=False)  # no style asks for it
                show(box, any(child.display for child in box.children))
        self.set_class(alone, "-alone")
        self.name_panes()
        self.post_message(self.Changed())

    def name_panes(self) -> None:
        """Write the titles on the borders.

        Of a pane that is shown alone, those of the others too.
        """
        panes = self.panes
        for pane in panes:
            if not self.alone or len(panes) == 1:
                pane.write_title(Content(pane.title))
                continue
            parts = [
                Content.styled(title, "bold $primary" if one is pane else "$foreground-muted")
                for one, title in self._titles(pane)
            ]
            pane.write_title(Content.styled(" │ ", "$foreground-muted").join(parts))

    def _titles(self, front: Pane) -> Iterator[tuple[Pane, str]]:
        """The panes with their titles, as long as they are on the border of this one."""
        panes = self.panes
        return zip(
            panes,
            _fitted([pane.title for pane in panes], panes.index(front), self.size.width - 6),
            strict=True,
        )

    def hidden(self) -> Iterator[tuple[Pane, Offset]]:
        """The panes behind the front one, each with a cell before its title."""
        if self.alone and (front := self.current) is not None and front.region:
            place = front.region.offset + Offset(1, 0)
            for pane, title in self._titles(front):
                if pane is not front:
                    yield pane, place
                place += Offset(cell_len(title) + 3, 0)

    def on_mount(self) -> None:
        """Panes of a narrow terminal are never all shown first."""
        self._narrow = self.app.size.width < self._least_width
        self._zoomed = self._zoomed and not self._narrow
        if self.alone:
            self.rearrange()
        self.call_after_refresh(self.rearrange)  # once the screen has disabled panes of its own

    def on_resize(self) -> None:
        """A terminal that became narrow shows one pane."""
        narrow = self.size.width < self._least_width
        if narrow != self._narrow:
            self._front = self.current
            self._narrow = narrow
            self.rearrange()
        elif self.alone:
            self.name_panes()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The pane with the focus is the front one."""
        for node in event.widget.ancestors_with_self:
            if isinstance(node, Pane):
                self._recent = [node, *(one for one in self._recent if one is not node)]
                if node is not self._front:
                    if self.alone:
                        self.bring(node)
                    else:
                        self._front = node
                return

    # -- keys
    # ----------------------------------------------------------------------------------------------

    def step(self, by: int) -> None:
        """Go to the next field or pane (1), or to the one before (-1)."""
        chain = [widget for widget in self.screen.focus_chain if self in widget.ancestors]
        focused, current = self.screen.focused, self.current
        if self.alone and current is not None:
            inside = [widget for widget in chain if current in widget.ancestors_with_self]
            place = inside.index(focused) + by if focused in inside else len(inside)
            if 0 <= place < len(inside):
                inside[place].focus()
                return
            panes = self.panes
            self.open(panes[(panes.index(current) + by) % len(panes)])
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    action_next = partialmethod(step, 1)
    action_previous = partialmethod(step, -1)

    def action_zoom(self) -> None:
        self._front = self.current
        self._zoomed = not self._zoomed
        front = self._front
        self.rearrange()
        if front is not None and front.first_focus() is not None and self.screen.focused is None:
            self.call_after_refresh(front.focus)

    def offers(self, action_id: str) -> bool:
        """On a narrow terminal there is one pane, and nothing to zoom or resize."""
        if action_id in ("panes.larger", "panes.smaller"):
            return not self.alone and len(self.panes) > 1
        return action_id != "panes.zoom" or (not self._narrow and len(self.panes) > 1)

    def _resize(self, by: int) -> None:
        node: Widget | None = self.current
        while node is not None and node is not self:
            parent = node.parent
            if not isinstance(parent, Widget):
                return
            shown = [child for child in parent.children if child.display]
            if len(shown) > 1 and node in shown:
                place = shown.index(node)
                if place + 1 < len(shown):
                    self._shift(node, shown[place + 1], by * _STEP)
                else:
                    self._shift(shown[place - 1], node, -by * _STEP)
                return
            node = parent

    action_larger = partialmethod(_resize, 1)
    action_smaller = partialmethod(_resize, -1)

    def _shift(self, first: Widget, second: Widget, by: int) -> None:
        """Move the divider between two neighbours by some cells; half as many lines."""
        parent = first.parent
        assert isinstance(parent, Widget)
        across = parent.layout.name == "horizontal"
        shown = [child for child in parent.children if child.display]
        sizes = {
            child: child.outer_size.width if across else child.outer_size.height for child in shown
        }
        by = by if across else by // 2 if abs(by) > 1 else by
        least = _LEAST if across else _LEAST // 3 + 1
        by = max(min(by, sizes[second] - least), least - sizes[first])
        sizes[first] += by
        sizes[second] -= by
        for child, cells in sizes.items():
            share = Scalar(
                float(max(cells, 1)), Unit.FRACTION, Unit.WIDTH if across else Unit.HEIGHT
            )
            if across:
                child.styles.width = share
            else:
                child.styles.height = share

    # -- mouse
    # ----------------------------------------------------------------------------------------------

    def _divider(self, x: int, y: int) -> tuple[Widget, Widget, bool] | None:
        """Return the neighbours whose common edge is here, and whether they are side by side.

        The place is one of the screen.
        """
        boxes = [self, *(box for box in self.query(Widget) if box.has_class("-box"))]
        for box in boxes:
            across = box.layout.name == "horizontal"
            shown = [child for child in box.children if child.display]
            for first, second in pairwise(shown):
                region = first.region
                if (
                    across
                    and x in (region.right - 1, region.right)
                    and region.y < y < region.bottom - 1
                ):
                    return first, second, True
                if (
                    not across
                    and y in (region.bottom - 1, region.bottom)
                    and region.x < x < region.right - 1
                ):
                    return first, second, False
        return None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Take hold of a divider."""
        found = None if self.alone else self._divider(event.screen_x, event.screen_y)
        if found is not None:
            event.stop()
            self._dragged = found
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """A divider follows the mouse."""
        if self._dragged is None:
            return
        first, second, across = self._dragged
        edge = first.region.right if across else first.region.bottom
        by = (event.screen_x if across else event.screen_y) - edge + 1
        if by:
            self._shift(first, second, by if across else by * 2 if abs(by) > 1 else by)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Let go of the divider."""
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()
