"""The command palette: every action there is, those of the current screen first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content
from textual.widgets import Input

from hudtui.tui.actions import Acting, AppAction, chain_actions, keys_of, shown
from hudtui.tui.steps import SCREENS, screen_class
from hudtui.tui.theme import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from hudtui.tui.app import HudtuiApp


class ActionProvider(Provider):
    """Offers the registry. An action of another screen opens that screen first."""

    def _actions(self) -> Iterator[tuple[AppAction, str, str, Callable[[], Any]]]:
        """Action, title, explanation and what to do, for every action that a pick makes sense for."""
        app = cast("HudtuiApp", self.app)
        seen: set[str] = set()
        for action, node in chain_actions([node for node, _ in self.screen._modal_binding_chain]):
            acting = cast(Acting, node)
            if action.palette and acting.offers(action.id):
                seen.add(action.id)
                reason = acting.why_not(action.id)
                yield (
                    action,
                    self._label(action),
                    f"Not now: {app.keys_in(reason)}" if reason else action.tooltip,
                    partial(acting.action_act, action.id),
                )
        for name in SCREENS:
            for action in screen_class(name).all_actions():
                if action.palette and action.id not in seen:
                    seen.add(action.id)
                    yield action, f"{name}: {self._label(action)}", action.tooltip, partial(app.open_and_act, name, action.id)

    def _label(self, action: AppAction) -> str:
        keys = keys_of(action, self.app._keymap)
        return f"{action.title}  ({shown(keys[0])})" if keys else action.title

    async def discover(self) -> Hits:
        """Everything, while nothing is typed."""
        for _, label, text, run in self._actions():
            yield DiscoveryHit(Content(label), run, text=label, help=text)

    async def search(self, query: str) -> Hits:
        """Actions whose title or explanation holds what is typed, letters in order; what ends something by its words only."""
        matcher = self.matcher(query)
        words = [re.escape(word) for word in query.lower().split()]
        for action, label, text, run in self._actions():
            score = matcher.match(label)
            if action.danger and not all(re.search(rf"\b{word}", f"{label} {text}".lower()) for word in words):
                continue
            if score > 0:
                yield Hit(score, matcher.highlight(label), run, text=label, help=text)
            elif all(re.search(word, text.lower()) for word in words):
                yield Hit(0.01, Content(label), run, text=label, help=text)


class ThemeProvider(Provider):
    """Offers the themes; the choice is kept."""

    def _themes(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        app = cast("HudtuiApp", self.app)
        own = [theme.name for theme in OWN]
        for name in [
            *own,
            *sorted(name for name in app.available_themes if name not in own and not name.startswith("textual-ansi")),
        ]:
            yield name, partial(app.set_theme, name)

    async def discover(self) -> Hits:
        """All themes, our own first."""
        for name, run in self._themes():
            yield DiscoveryHit(Content(name), run, text=name)

    async def search(self, query: str) -> Hits:
        """Themes by name."""
        matcher = self.matcher(query)
        for name, run in self._themes():
            score = matcher.match(name)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, text=name)


class Palette(CommandPalette):
    """Textual's palette with a cursor that stands still."""

    def on_mount(self) -> None:
        """No blinking, and no picture that half of all terminals draw too wide."""
        self.query_one(Input).cursor_blink = False
        self.query_one(SearchIcon).icon = "/"
