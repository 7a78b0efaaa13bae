"""The command palette: every action there is, those of the current screen first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider, SearchIcon
from textual.content import Content
from textual.widgets import Input, OptionList

from hudtui.tui.actions import Acting, AppAction, chain_actions, in_reach, keymap_of, keys_of, shown
from hudtui.tui.gaps import ClosingPalette
from hudtui.tui.steps import SCREENS, screen_class
from hudtui.tui.theme import OWN
from hudtui.tui.widgets.pick import Pick

if TYPE_CHECKING:
    from collections.abc import Callable

    from hudtui.tui.app import HudtuiApp


_CHOSEN = 8
"""Actions that are offered first: those that were chosen last."""


class ActionProvider(Provider):
    """Offers the registry. An action of another screen opens that screen first."""

    def _actions(self) -> Iterator[tuple[AppAction, str, str, Callable[[], Any]]]:
        """Yield action, title, explanation and what to do, for every action worth a pick."""
        app = cast("HudtuiApp", self.app)
        seen: set[str] = set()
        for action, node in chain_actions(in_reach(self.screen)):
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
                    yield (
                        action,
                        f"{name}: {self._label(action)}",
                        action.tooltip,
                        partial(app.open_and_act, name, action.id),
                    )

    def _label(self, action: AppAction) -> str:
        keys = keys_of(action, keymap_of(self.app))
        return f"{action.title}  ({shown(keys[0])})" if keys else action.title

    async def discover(self) -> Hits:
        """Everything, while nothing is typed; what was chosen last comes first."""
        chosen = cast("HudtuiApp", self.app).chosen
        actions = sorted(
            self._actions(),
            key=lambda found: chosen.index(found[0].id) if found[0].id in chosen else len(chosen),
        )
        for action, label, text, run in actions:
            yield DiscoveryHit(Content(label), self._noted(action, run), text=label, help=text)

    def _noted(self, action: AppAction, run: Callable[[], Any]) -> Callable[[], Any]:
        """Carry an action out, and offer it first the next time."""

        def carry_out() -> Any:
            chosen = cast("HudtuiApp", self.app).chosen
            chosen[:] = [action.id, *(one for one in chosen if one != action.id)][:_CHOSEN]
            return run()

        return carry_out

    async def search(self, query: str) -> Hits:
        """Actions whose title or explanation holds what is typed, letters in order.

        What ends something by its words only.
        """
        matcher = self.matcher(query)
        words = [re.escape(word) for word in query.lower().split()]
        for action, label, text, run in self._actions():
            score = matcher.match(label)
            if action.danger and not all(
                re.search(rf"\b{word}", f"{label} {text}".lower()) for word in words
            ):
                continue
            if score > 0:
                yield Hit(
                    score, matcher.highlight(label), self._noted(action, run), text=label, help=text
                )
            elif all(re.search(word, text.lower()) for word in words):
                yield Hit(0.01, Content(label), self._noted(action, run), text=label, help=text)


class ThemePick(Pick):
    """Gives the index of a theme of `names`. The theme under the cursor is shown at once."""

    def __init__(self, names: Sequence[str], current: str) -> None:
        self._names = names
        at = names.index(current) if current in names else 0
        super().__init__(
            "Theme", (f"{'●' if name == current else ' '} {name}" for name in names), at=at
        )

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self.app.theme = self._names[self._shown[event.option_index]]


def theme_names(themes: Iterable[str]) -> list[str]:
    """Return the names of the themes that can be chosen: hudtui's first, then Textual's."""
    first = [theme.name for theme in OWN]
    return [
        *first,
        *sorted(
            name for name in themes if name not in first and not name.startswith("textual-ansi")
        ),
    ]


class Palette(ClosingPalette):
    """Textual's palette without a blinking cursor."""

    def on_mount(self) -> None:
        """Turn off the blinking, and replace an emoji that many terminals draw too wide."""
        self.query_one(Input).cursor_blink = False
        self.query_one(SearchIcon).icon = "/"
