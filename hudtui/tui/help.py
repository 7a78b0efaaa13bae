"""Help for the screen one comes from: what it is for, and every key that works there."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from hudtui.tui.actions import ActiveKey, AppAction
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.steps import GLYPHS, STYLES, State
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.dialog import Dialog, dialog_title
from hudtui.tui.widgets.fields import Field
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.pane import Pane, Panes

_SIGNS: tuple[State, ...] = ("done", "next", "missing", "running", "failed")


_MOVING = "Moving"


def _merged(keys: list[ActiveKey]) -> list[ActiveKey]:
    """The keys with those of the same title in one: `j` and `↓` both go down."""
    found: dict[str, ActiveKey] = {}
    for key in keys:
        before = found.get(key.action.title)
        found[key.action.title] = (
            key if before is None else replace(before, keys=(*before.keys, *key.keys))
        )
    return list(found.values())


class HelpScreen(Dialog[None]):
    """Made from the actions that the focus could reach when help was asked for."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("help.close", "Close", "Close the help.", "question_mark,q,f1", palette=False),
        AppAction(
            "help.filter",
            "Filter",
            "Show only the keys whose title or explanation contains a text.",
            "slash",
            palette=False,
        ),
    )
    DEFAULT_CSS = (
        "HelpScreen Field { display: none; } HelpScreen.-filtered Field { display: block; }"
    )

    def __init__(
        self,
        screen: Screen[object],
        keys: list[ActiveKey],
        keymap_file: str,
        text: list[tuple[str, str, str]],
    ) -> None:
        super().__init__()
        self._text = text
        self._from, self._keys, self._keymap_file = screen, keys, keymap_file

    def action_close(self) -> None:
        self.dismiss(None)

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog -wide"):
            yield dialog_title(f"Help: {self._from.TITLE or 'this screen'}")
            yield Field(placeholder="filter the keys")
            with VerticalScroll(classes="dialog-body"):
                yield CalmStatic(id="help-body")
            yield self.key_line("↑↓ scroll   {key:help.filter} filter   {key:dialog.cancel} close")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def action_filter(self) -> None:
        self.add_class("-filtered")
        self.query_one(Field).focus()

    def on_input_changed(self, event: Field.Changed) -> None:
        event.stop()
        self.on_resize()

    def on_resize(self) -> None:
        width = min(int(self.app.size.width * 0.96), 110) - 6
        word = self.query_one(Field).value.casefold()
        self.query_one("#help-body", Static).update(
            self._matches(word, width) if word else self._body(width)
        )

    def _matches(self, word: str, width: int) -> Content:
        """The keys whose title or explanation holds a word."""
        rows = [
            row
            for key in self._keys
            if word in f"{key.action.title} {key.action.tooltip}".casefold()
            for row in self._rows(key, width)
        ]
        return (
            Content("\n").join(rows)
            if rows
            else Content.styled(f"No key matches {word!r}.", "$foreground-muted")
        )

    def _body(self, width: int) -> Content:
        parts: list[Content] = []
        if isinstance(self._from, HudtuiScreen) and self._from.HELP:
            parts += [Content(self._from.app.keys_in(self._from.HELP)), Content("")]
        groups: dict[str, list[ActiveKey]] = {}
        pane = self._pane
        if pane is not None:
            groups[pane.title] = []
            if pane.HELP:
                parts += [Content(pane.app.keys_in(pane.HELP)), Content("")]
        groups["On this screen"] = []
        groups[_MOVING] = []
        for key in self._keys:
            groups.setdefault(self._group(key), []).append(key)
        groups[_MOVING] = _merged(groups[_MOVING])
        for group, keys in groups.items():
            if not keys:
                continue
            parts.append(Content.styled(group, "bold $primary"))
            for key in keys:
                parts += self._rows(key, width)
            parts.append(Content(""))
        if self._text:
            parts.append(Content.styled("In the text", "bold $primary"))
            for names, title, told in self._text:
                parts += self._row(names, title, told, "", "", width)
            parts.append(Content(""))
        parts.append(Content.styled("Signs of the steps", "bold $primary"))
        signs = [Content.styled(f"{GLYPHS[state]} {state}", STYLES[state]) for state in _SIGNS]
        parts += [Content(" ") + Content("   ").join(signs), Content("")]
        parts.append(Content.styled("Changing keys", "bold $primary"))
        parts.append(
            Content(
                f'Write {self._keymap_file} with lines like "home.next" = "n" or "app.help" = '
                '"f1,h".'
            )
        )
        if width < 96:
            parts.append(Content("The names of all actions are shown here on a wider terminal."))
        parts += [
            Content(""),
            Content("Shift and drag selects text with the terminal's own means."),
        ]
        return Content("\n").join(parts)

    @property
    def _pane(self) -> Pane | None:
        """The pane that has the focus; its keys come first."""
        focused = self._from.focused
        nodes = focused.ancestors_with_self if focused is not None else ()
        return next((node for node in nodes if isinstance(node, Pane)), None)

    def _group(self, key: ActiveKey) -> str:
        if key.node is self._from:
            return "On this screen"
        if key.node is self.app:
            return "Everywhere"
        if not key.action.show and not key.action.palette:
            return _MOVING
        pane = self._pane
        if pane is not None and (key.node is pane or pane in key.node.ancestors):
            return pane.title
        return (
            "Panes" if isinstance(key.node, Panes) else f"In the focused part ({key.action.scope})"
        )

    def _rows(self, key: ActiveKey, width: int) -> list[Content]:
        """One action under the keys that reach it."""
        names = (" or " if "," in key.keys else ", ").join(key.keys)
        why = f"Not now: {key.why_not}." if key.why_not else ""
        return self._row(names, key.action.title, key.action.tooltip, why, key.action.id, width)

    @staticmethod
    def _row(
        names: str, title: str, told: str, why_not: str, name: str, width: int
    ) -> list[Content]:
        """Return keys, title and explanation, and on a wide terminal the action's name.

        A long explanation takes several lines below one another.
        """
        named = width >= 96
        first, second = (13, 17) if width >= 70 else (8, 16)
        room = max(width - first - second - 1 - (24 if named else 0), 16)
        said = textwrap.wrap(told, room) or [""]
        why = textwrap.wrap(why_not, room)
        rows = []
        for number, text in enumerate([*said, *why]):
            style = "$warning" if number >= len(said) else ""
            head = (
                (f" {pad(names, first)}", "bold $accent") if not number else (" " * (first + 1), "")
            )
            row = Content.assemble(
                head, pad(title if not number else "", second - 1), " ", (text, style)
            )
            if named and not number:
                row = row.pad_right(width - 22 - row.cell_length) + Content.styled(
                    name, "$foreground-muted"
                )
            rows.append(row)
        return rows
