"""Keys are handled in order: each is passed on once the one before it has had its whole effect.

Textual hands each key to the widget that has the focus when the key arrives. What the key before it does may still be under way
then: a field that gets the focus, a dialog that opens, a screen that is made. On a slow line several keys arrive at once, and
those meant for the field would act on the list behind it. So each key waits for its turn here; but for a key that cancels or
leaves, which ends the waiting.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from textual import events
from textual.app import ScreenStackError

from hudtui.tui.actions import REGISTRY, keys_of
from hudtui.tui.texts import takes_text

if TYPE_CHECKING:
    from textual._queue import Queue
    from textual.message_pump import MessagePump
    from textual.screen import Screen
    from textual.worker import Worker

    from hudtui.tui.app import HudtuiApp

LONGEST = 1.0
"""Most seconds that a key waits for the widgets that handle the one before it."""

QUESTION = 0.5
"""Most seconds that a key waits for work that the one before it began, which may ask a question."""

ASKED = 10.0
"""Most seconds that a key waits for a question that the action before it is known to ask."""

URGENT = 0.2
"""Most seconds that a key which cancels or leaves waits for the key before it; `QUESTION` where both came at once."""

TICK = 0.005
"""Seconds between two checks of what is awaited."""

_TURNS = 50
"""Turns of the event loop in which most keys are handled, so that no `TICK` passes after them."""

BURST = 0.03
"""Seconds between two keys below which they come from a paste, a held key or a line that stalled, not from a decision."""


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
        self._before = self._came = 0.0
        self._urgent: set[events.Event] = set()
        """The keys that do not wait, until they are passed on."""
        self._grace = URGENT
        self._since = 0.0
        """When the current key was passed on, or the urgent one came."""
        self._cut = False
        """What the key before it began was waited for no longer."""
        self.key = ""
        """The key that is being handled."""
        self.asking = False
        """Whether the current action is known to ask a question; see `AppAction.asks`."""
        self.deliberate = True
        """Whether the current key came alone. A key in the middle of a burst decides nothing."""

    @property
    def pending(self) -> bool:
        """Whether a key is being handled, or waits."""
        return self._settling is not None

    async def take(self, event: events.Key | events.Paste) -> None:
        """Pass a key or a paste on, now or when its turn comes."""
        if self._settling is not None and self._is_urgent(event):
            self._urgent.add(event)
            self._grace = URGENT if event.time - self._came >= BURST else QUESTION
            self._since = asyncio.get_running_loop().time()
        self._came = event.time
        self._waiting.append(event)
        if self._settling is None:
            await self._next()

    def _is_urgent(self, event: events.Key | events.Paste) -> bool:
        """Whether a key cancels, closes, goes back or leaves, and cannot be a part of a text."""
        if not isinstance(event, events.Key) or event.is_printable:
            return False
        mine = (action for action in REGISTRY.values() if action.id in _URGENT or action.method == "action_cancel")
        return event.key == "escape" or any(event.key in keys_of(action, self._app.keymap) for action in mine)

    def asks(self, screen: Screen[Any], worker: Worker[Any]) -> None:
        """This work waits for the answer of this dialog."""
        self._askers[screen] = worker

    async def _next(self) -> None:
        """Pass on the first key. Runs in the app's own message loop, as all handling of keys does."""
        self._settling = None
        if not self._waiting:
            return
        event = self._waiting.popleft()
        while self._cut and event not in self._urgent:
            self._before = event.time  # typed for what the user waits for no longer
            event = self._waiting.popleft()
        self._urgent.discard(event)
        self._cut, self._since = False, asyncio.get_running_loop().time()
        app = self._app
        target: MessagePump = app.focused or app.screen
        writes = isinstance(event, events.Paste) or _writes(target, event)
        if isinstance(event, events.Key):
            self.deliberate = event.time - self._before >= BURST
            self._before, self.key = event.time, event.key
        screens, workers = list(app.screen_stack), set(app.workers)
        self._settling = asyncio.create_task(self._settle(target, screens, None if writes else workers))
        await app.hand_on(event)

    async def _settle(self, target: MessagePump, screens: Sequence[Screen[Any]], workers: set[Worker[Any]] | None) -> None:
        """Wait until a key has had its whole effect, then pass on the next one."""
        try:
            await self._handled(target)
            await self._shown()
            if workers is not None:
                await self._may_ask(screens, workers)
                await self._shown()
        except ScreenStackError:
            pass  # the app ends, and has no screen any more
        finally:
            if not self._app.call_later(self._next):
                self._settling = None

    async def _handled(self, target: MessagePump) -> None:
        """Wait until a widget, its screen and what lies between have handled every message, or the widget is shown no longer."""
        for _ in range(_TURNS):
            if _rest(target):
                return
            await asyncio.sleep(0)
        await self._until(lambda: _rest(target) or not self._on_screen(target), LONGEST)

    def _on_screen(self, target: MessagePump) -> bool:
        return target.is_attached and getattr(target, "screen", None) in self._app.screen_stack

    async def _shown(self) -> None:
        """Wait until the screen on top is mounted, has its focus, and has run its callbacks after drawing."""
        app = self._app
        await self._until(lambda: app.screen.is_mounted, ASKED)
        await self._handled(app.screen)
        await self._until(lambda: not app.screen._callbacks, QUESTION)

    async def _may_ask(self, screens: Sequence[Screen[Any]], workers: set[Worker[Any]]) -> None:
        """Wait for work that the key began, or whose question it answered, until it asks, shows progress, or ends."""
        app = self._app
        answered = {self._askers[screen] for screen in screens if screen not in app.screen_stack and screen in self._askers}
        begun = {worker for worker in app.workers if worker not in workers and worker.name != "forever"}
        work = answered | begun

        known, self.asking = self.asking, False

        def clear() -> bool:
            ended = all(worker.is_finished for worker in work)
            return app.screen not in screens or ended or (app.is_busy and not known)

        await self._until(clear, ASKED if known else QUESTION)

    async def _until(self, come: Callable[[], bool], longest: float) -> None:
        """Wait until `come` is true, the app ends, `longest` seconds have passed, or a key that does not wait has waited."""
        time = asyncio.get_running_loop().time
        end = time() + longest
        while self._app.is_running and not self._app.asked_to_end and not come():
            self._cut = self._cut or (bool(self._urgent) and time() > self._since + self._grace)
            if self._cut or time() > end:
                return
            await asyncio.sleep(TICK)


def _rest(target: MessagePump) -> bool:
    """Return whether a widget and all its parents wait for their next message.

    A widget that handles a message posts what follows before it waits again, so one look at all of them is enough.
    """
    pump: MessagePump | None = target
    while pump is not None:
        queue: Queue[Any] = pump._message_queue
        if not queue.empty() or not queue.ready_event._waiters:
            return False
        pump = pump._parent
    return True


_URGENT = {"app.home", "app.leave", "app.stop"}
"""Actions whose keys do not wait, apart from those called cancel."""

_EDITS = {"backspace", "delete", "left", "right", "up", "down", "home", "end", "pageup", "pagedown"}


def _writes(target: MessagePump, event: events.Key) -> bool:
    """Whether a key only changes a text. What that begins (a search, a preview) asks nothing, and is not waited for."""
    return takes_text(target) and (event.is_printable or event.key in _EDITS)
