"""The last line of every screen: the keys that do something now, the most important ones first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from textual import events
from textual.content import Content
from textual.keys import KEY_NAME_REPLACEMENTS, key_to_character
from textual.widget import Widget

from hudtui.tui.actions import (
    Acting,
    ActiveKey,
    chain_actions,
    in_reach,
    keymap_of,
    keys_of,
    named_key,
    shown,
    with_keys,
)
from hudtui.tui.texts import takes_text

if TYPE_CHECKING:
    from textual.binding import ActiveBinding
    from textual.screen import Screen


_FULL_NAMES = {short: full for full, short in KEY_NAME_REPLACEMENTS.items()}


def active_keys(screen: Screen[Any], *, hidden: bool = True) -> list[ActiveKey]:
    """Every action that can be reached from where the focus is.

    Only those that the last line shows unless `hidden`. What Enter does in the focused field comes
    first, and how a text is left, which takes the keys of other screens as text; then the screen's
    own, the focused widget's, and the app's.
    """
    app, focused = screen.app, screen.focused
    bound: dict[str, list[str]] = {}
    for key, active in screen.active_bindings.items():
        if active.binding.id and not _is_typed(focused, key, active):
            bound.setdefault(active.binding.id, []).append(key)
    keymap = keymap_of(app)
    found = []
    for action, node in chain_actions(in_reach(screen)):
        if isinstance(node, Acting) and (hidden or action.show) and (keys := bound.get(action.id)):
            # Of its keys, those that a text field takes for itself are not bound now; the first of
            # the others is shown.
            wanted = [named_key(key) for key in keys_of(action, keymap)]
            now = tuple(shown(key) for key in wanted if key in keys) or (shown(keys[0]),)
            reason = node.why_not(action.id)
            found.append(ActiveKey(action, node, now[0], reason and with_keys(reason, keymap), now))

    def place(item: ActiveKey) -> int:
        if item.node is focused and (
            item.key == "Enter" or (item.key == "Esc" and takes_text(focused))
        ):
            return 0
        return 3 if item.node is app else 1 if item.node is screen else 2

    return sorted(found, key=place)


_IN_A_TEXT = {
    "cut": ("Cut", "Cut the selection, and keep it for pasting."),
    "paste": ("Paste", "Paste what was copied or cut last."),
    "undo": ("Undo", "Undo the last change."),
    "redo": ("Redo", "Redo the change that was undone."),
    "select_all": ("Select all", "Select the whole text."),
    "delete_left_word": ("Word", "Delete the word before the cursor."),
}


def text_keys(screen: Screen[Any]) -> list[tuple[str, str, str]]:
    """What Textual's own keys do in the text that has the focus: keys, title, explanation.

    Empty where no text has it.
    """
    focused = screen.focused
    if not takes_text(focused):
        return []
    bound: dict[str, list[str]] = {}
    for key, active in screen.active_bindings.items():
        if active.node is focused and not active.binding.id and active.binding.action in _IN_A_TEXT:
            bound.setdefault(active.binding.action, []).append(shown(key))
    copy = ("^c", "Copy", "Copy what is selected; with nothing selected, empty the field.")
    return [
        copy,
        *(
            (", ".join(bound[name][:2]), *words)
            for name, words in _IN_A_TEXT.items()
            if name in bound
        ),
    ]


def _is_typed(focused: Widget | None, key: str, active: ActiveBinding) -> bool:
    """Whether a text field has the focus and takes the key as text.

    Textual knows, but for `/` and others with short names.
    """
    if focused is None or active.node is focused or active.binding.priority:
        return False
    return focused.check_consume_key(key, key_to_character(_FULL_NAMES.get(key, key)))


def _reachable(screen: Screen[Any]) -> tuple[object, ...]:
    """Return what decides which keys the line shows.

    To compare it takes a quarter of the time of `active_keys`.
    """
    chain = in_reach(screen)
    offered = [
        (action.id, node.why_not(action.id) if action.show else None)
        for action, node in chain_actions(chain)
        if isinstance(node, Acting) and node.offers(action.id)
    ]
    return chain, keymap_of(screen.app), offered


class KeyBar(Widget):
    """Shows as many keys as fit, then `? more`. A click does the same as the key."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyBar {
        height: 1; padding: 0 1; pointer: pointer;
        background: $footer-background; color: $foreground;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: list[ActiveKey] = []
        self._spans: list[tuple[int, int, ActiveKey]] = []
        self._asked = False
        self._reachable: tuple[object, ...] = ()

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._bindings_changed)

    def _bindings_changed(self, screen: Screen[Any]) -> None:
        """One action changes bindings several times: they are looked up once, at its end."""
        if not self._asked:
            self._asked = True
            self.call_next(self._look_up, screen)

    def _look_up(self, screen: Screen[Any]) -> None:
        self._asked = False
        if not self.is_attached or screen is not self.screen or not screen.is_active:
            return
        if (reachable := _reachable(screen)) == self._reachable:
            return
        self._reachable = reachable
        keys = active_keys(screen, hidden=False)
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def render(self) -> Content:
        """The line, with the app's own keys kept at its right end."""
        width = self.size.width
        own = [key for key in self._keys if key.node is not self.app]
        general = [key for key in self._keys if key.node is self.app]
        pieces = [(key, self._piece(key)) for key in own]
        tail = [(key, self._piece(key)) for key in general]
        gap = 2
        more = False
        while pieces or tail:
            total = (
                sum(piece.cell_length + gap for _, piece in pieces + tail)
                - gap
                + (len(" more") if more else 0)
            )
            if total <= width:
                break
            more = True
            # Help is what "more" points at, so it stays; quit goes first, then the least important
            # of the screen's keys.
            if len(tail) > 1:
                drop = next(
                    index
                    for index in range(len(tail) - 1, -1, -1)
                    if tail[index][0].action.id != "app.help"
                )
                del tail[drop]
            elif pieces:
                pieces.pop()
            else:
                break
        line = Content("")
        self._spans = []
        for index, (key, piece) in enumerate(pieces + tail):
            if index:
                line += Content(" " * gap)
            if index == len(pieces) and pieces and not more:
                line += Content(
                    " "
                    * max(
                        width - line.cell_length - sum(p.cell_length + gap for _, p in tail) + gap,
                        0,
                    )
                )
            start = line.cell_length
            if more and key.action.id == "app.help":
                piece = Content.assemble((key.key, "bold $footer-key-foreground"), " more")
            line += piece
            self._spans.append((start, line.cell_length, key))
        return line

    @staticmethod
    def _piece(key: ActiveKey) -> Content:
        if key.why_not:
            return Content.styled(f"{key.key} {key.action.title}", "$foreground-disabled")
        return Content.assemble((key.key, "bold $footer-key-foreground"), " ", key.action.title)

    async def on_click(self, event: events.Click) -> None:
        """Do what the key under the pointer does."""
        offset = event.get_content_offset(self)
        if offset is None:
            return
        for start, end, key in self._spans:
            if start <= offset.x < end and isinstance(key.node, Acting):
                await key.node.action_act(key.action.id)
                return
