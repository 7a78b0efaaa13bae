"""Keys are handled in order.

A key waits until the screen or dialog that the key before it opened is there. Textual hands each
key to the widget that has the focus when the key arrives. On a slow line several keys arrive at
once, and what the first of them does may still be under way then: a field that gets the focus, a
dialog that opens, a screen that is made. Keys meant for those would act on the list behind them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from textual import events
from textual.app import ScreenStackError

from hudtui.tui.actions import REGISTRY, AppAction, keys_of
from hudtui.tui.texts import takes_text

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.screen import Screen
    from textual.worker import Worker

    from hudtui.tui.app import HudtuiApp

LONGEST = 2.0
"""Most seconds that a key waits for a widget that handles the one before it, or for a screen that
opens."""

QUESTION = 0.5
"""Most seconds that a key waits for a question that the action before it asks after some work."""

_TICK = 0.01
"""Seconds between two looks for a question."""

_LAYERS = 2
"""Messages that follow from a message within one widget: a field says that it was left, and its
pane says what that means."""

BURST = 0.03
"""Seconds between two keys below which they come from a paste, a held key or a line that stalled,
not from a decision."""

_URGENT = {"app.home", "app.leave", "app.stop"}
"""Actions whose keys do not wait, apart from those called cancel."""

_EDITS = {"backspace", "delete", "left", "right", "up", "down", "home", "end", "pageup", "pagedown"}


class TypedAhead:
    """The keys and pastes that wait for their turn.

    Args:
        app: Whose keys they are.
    """

    def __init__(self, app: HudtuiApp) -> None:
        self._app = app
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._settling: asyncio.Task[None] | None = None
        self._askers: WeakKeyDictionary[Screen[Any], Worker[Any]] = WeakKeyDictionary()
        self._came = self._before = 0.0
        self._action: AppAction | None = None
        """The action that the current key has begun."""
        self.key = ""
        """The key that is being handled."""
        self.deliberate = True
        """Whether the current key came alone. A key in the middle of a burst decides nothing."""

    @property
    def pending(self) -> bool:
        """Whether a key is being handled, or waits."""
        return self._settling is not None

    async def take(self, event: events.Key | events.Paste) -> None:
        """Pass a key or a paste on, now or when its turn comes.

        A key that cancels or leaves does not wait, unless it is a part of what came at once. What
        waits was meant for what the user gives up with it, and is dropped.
        """
        alone, self._came = event.time - self._came >= BURST, event.time
        if self._settling is not None and alone and self._is_urgent(event):
            self._settling.cancel()
            self._waiting.clear()
            await self._hand_on(event)
            return
        self._waiting.append(event)
        if self._settling is None:
            await self._next(None)

    def begins(self, action: AppAction) -> None:
        """The current key has begun this action."""
        self._action = action

    def asks(self, screen: Screen[Any], worker: Worker[Any]) -> None:
        """This work waits for the answer of this dialog."""
        self._askers[screen] = worker

    def _is_urgent(self, event: events.Key | events.Paste) -> bool:
        """Whether a key cancels, closes, goes back or leaves, and cannot be a part of a text."""
        if not isinstance(event, events.Key) or event.is_printable:
            return False
        mine = (
            action
            for action in REGISTRY.values()
            if action.id in _URGENT or action.method == "action_cancel"
        )
        return event.key == "escape" or any(
            event.key in keys_of(action, self._app.keymap) for action in mine
        )

    async def _next(self, settled: object) -> None:
        """Pass on the first key.

        Runs in the app's own message loop, as all handling of keys does.
        """
        if self._settling is not settled:
            return  # a key that does not wait came meanwhile
        self._settling = None
        if self._waiting:
            await self._hand_on(self._waiting.popleft())

    async def _hand_on(self, event: events.Key | events.Paste) -> None:
        app = self._app
        target = app.focused or app.screen
        if isinstance(event, events.Key):
            self.deliberate = event.time - self._before >= BURST
            self._before, self.key = event.time, event.key
        self._action = None
        if isinstance(event, events.Paste) or _writes(target, event):
            effect = partial(self._handled, target)
        else:
            effect = partial(self._effect, target, list(app.screen_stack), set(app.workers))
        self._settling = asyncio.create_task(self._settle(effect))
        await app.hand_on(event)

    async def _settle(self, effect: Callable[[], Awaitable[None]]) -> None:
        """Wait for the effect of a key, then pass on the next one."""
        with suppress(ScreenStackError):  # the app ends, and has no screen any more
            await effect()
        if not self._app.call_later(self._next, asyncio.current_task()):
            self._settling = None

    async def _effect(
        self, target: DOMNode, screens: Sequence[Screen[Any]], workers: set[Worker[Any]]
    ) -> None:
        """Wait until a key was handled and what it opened is there."""
        app = self._app
        await self._handled(target)
        work = {
            self._askers[one]
            for one in screens
            if one not in app.screen_stack and one in self._askers
        }
        if self._action is not None and self._action.asks:
            work |= {one for one in app.workers if one not in workers and one.name != "forever"}
        if work:
            await self._question(screens, work)
        if app.screen not in screens or (self._action is not None and self._action.palette):
            await self._opened(app.screen)

    async def _handled(self, target: DOMNode) -> None:
        """Wait until a widget and those above it have handled what they were sent.

        Each handles one message after the other.
        """
        for node in target.ancestors_with_self:
            for _ in range(_LAYERS):
                passed = asyncio.Event()
                if not node.call_later(passed.set):
                    break  # it is gone
                await self._within(passed)

    async def _opened(self, screen: Screen[Any]) -> None:
        """Wait until a screen is mounted, was drawn, and has set its focus."""
        drawn = asyncio.Event()
        screen.call_after_refresh(drawn.set)
        await self._within(drawn)
        await self._handled(self._app)

    async def _question(self, screens: Sequence[Screen[Any]], work: set[Worker[Any]]) -> None:
        """Wait until work asks something or has ended."""
        time = asyncio.get_running_loop().time
        end = time() + QUESTION

        def waits() -> bool:
            return self._app.screen in screens and not all(one.is_finished for one in work)

        while time() < end and waits():  # noqa: ASYNC110
            await asyncio.sleep(_TICK)

    async def _within(self, passed: asyncio.Event) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(passed.wait(), LONGEST)


def _writes(target: DOMNode, event: events.Key) -> bool:
    """Whether a key only changes a text.

    What that begins (a search, a preview) asks nothing, and is not waited for.
    """
    return takes_text(target) and (event.is_printable or event.key in _EDITS)
