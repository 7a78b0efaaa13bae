"""What every screen is made of: header, steps, content, message bar, keys."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from hudtui.core.errors import HudtuiError
from hudtui.tui.actions import Acting
from hudtui.tui.steps import STEPS
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.header import HeaderBar
from hudtui.tui.widgets.keybar import KeyBar
from hudtui.tui.widgets.message import MessageBar, Severity
from hudtui.tui.widgets.step_bar import StepBar

if TYPE_CHECKING:
    from textual.timer import Timer

    from hudtui.tui.app import HudtuiApp
    from hudtui.tui.facts import Facts

T = TypeVar("T")
S = TypeVar("S", bound="HudtuiScreen")

REST = 0.05
"""Seconds without a key after which a detail is drawn."""

_SAID_WITH = 1.0
"""Seconds within which a message and a question are of the same work."""

TOGETHER = 0.1
"""Seconds within which parts that come one by one are drawn together."""


def started(
    group: str, *, exclusive: bool = True, busy: str | None = None
) -> Callable[[Callable[[S], Awaitable[Any]]], Callable[[S], None]]:
    """Have `HudtuiScreen.start` carry out an action that asks or waits, with these arguments."""

    def decorate(action: Callable[[S], Awaitable[Any]]) -> Callable[[S], None]:
        @wraps(action)
        def begin(screen: S) -> None:
            screen.start(partial(action, screen), group=group, exclusive=exclusive, busy=busy)

        return begin

    return decorate


class HudtuiScreen(Acting, Screen[None]):
    """Base of home, settings and the steps.

    A subclass gives `NAME` (as in `steps.SCREENS`), `TITLE`, `HELP`, its `ACTIONS`, and
    `content()`. It is made once and kept: leaving it and coming back finds it as it was.
    """

    NAME: ClassVar[str] = ""
    HELP: ClassVar[str] = ""
    """What this screen is for, in two or three sentences; help shows it."""

    def __init__(self) -> None:
        super().__init__(id=f"screen-{self.NAME}")
        # Each read of a run would send several. Errors of work come from `run_worker` itself: these
        # would be lost with a widget.
        self.disable_messages(Worker.StateChanged)
        self._bar = MessageBar()
        self.opened_with: Mapping[str, Any] | None = None
        """What `opened` takes before the first paint, on a screen that the app begins with."""
        self._framed = False
        self._changing = asyncio.Lock()
        self._rest: Timer | None = None
        self._at_rest: Callable[[], object] = lambda: None

    if TYPE_CHECKING:
        app: HudtuiApp

    def compose(self) -> ComposeResult:
        yield HeaderBar()
        yield StepBar()
        with Container(id="content"):
            yield from self.content()
        yield self._bar
        yield KeyBar()
        yield Static("Make the terminal at least 60x20.", id="too-small")

    def content(self) -> Iterable[Widget]:
        """The widgets of this screen. Runs before the project is read, and does nothing slow."""
        raise NotImplementedError

    def opened(self, **given: Any) -> None:
        """The screen was opened by `app.open_screen(name, **given)`, each time.

        `given` is what the opener passes on.
        """

    def facts_changed(self, facts: Facts) -> None:
        """The project was read again, or for the first time."""

    @property
    def place(self) -> dict[str, str]:
        """Where the user is on this screen, as values for `opened`.

        The next start of hudtui can go there again.
        """
        return {}

    @property
    def unsaved(self) -> str | None:
        """Name of the unsaved work on this screen, if any; hudtui asks about it before it quits."""
        return None

    async def save_unsaved(self) -> bool:
        """Save what `unsaved` names.

        Returns:
            Whether it is saved now; False when the user gave that up.

        Raises:
            HudtuiError: It cannot be written.
        """
        return True

    async def keep_unsaved(self) -> str | None:
        """Keep a copy of what `unsaved` names, to be offered when it is opened again.

        None when it is kept, or why it is not.
        """
        return None

    def money_changed(self) -> None:
        """Machines and their costs were refreshed; see `app.spending`."""

    def progress_changed(self) -> None:
        """The numbers of runs were read again; see `app.progress`."""

    def time_passed(self) -> None:
        """Some seconds passed while this screen is shown: update times and ages.

        Draw only what has changed.
        """

    def leave(self) -> None:
        """What Esc does in a list: clear the filter; without a filter go back, or home."""
        for field in self.query(FilterField):
            if field.value:
                field.action_leave()
                return
        self.app.go_back(self.NAME)

    def has_use(self, action_id: str) -> bool:
        """Cancelling has, while the screen says that something is being waited for."""
        return self.is_busy

    # -- what a screen says
    # ------------------------------------------------------------------------------------------

    def say(self, message: str, severity: Severity = "information") -> None:
        """Show a line in the message bar until the next one, the next action, or `clear_message`.

        Ctrl-E shows it later on.
        """
        self._bar.say(message, severity)
        self.app.remember(severity, self.message)

    def busy(self, message: str) -> None:
        """Show what the screen waits for.

        Nothing is animated: call it again with progress, at most ten times a second.
        """
        self._bar.say(message, "busy")

    def fail(self, error: BaseException) -> None:
        """Show an error in place.

        An error that is not meant for users is logged with its traceback and shown as a defect.
        Where a dialog or another screen covers this one, a toast shows it as well.
        Errors while hudtui closes are ignored: work may still look for widgets that are gone.
        """
        if not self.app.is_running:
            return
        if not isinstance(error, HudtuiError):
            error = self.app.defect(error)
        self._bar.fail(error, self.app.folder)
        self.app.remember("error", self.message)
        if self.app.screen is not self:
            self.app.notify(self.message, severity="error", markup=False)

    async def open_image(self, data: bytes) -> None:
        """Save an image below the project's state folder, and open it with what the desktop has."""
        from hudtui.core.desktop import open_externally
        from hudtui.core.environment.images import save_bytes
        from hudtui.core.workspace import make_state_dir

        folder = await asyncio.to_thread(make_state_dir, self.app.folder)
        path = await asyncio.to_thread(save_bytes, data, folder / "images")
        if await open_externally(path):
            self.say(f"Opened {path}", "success")
        else:
            self.say(f"No desktop to open it on; it is in {path}")

    def clear_message(self) -> None:
        self._bar.clear()

    def forget_message(self, *, older: float = 0.0) -> None:
        """Clear a message that is at least `older` seconds old.

        Progress stays, and so does an error if an age is given.
        """
        bar = self._bar
        if bar.severity != "busy" and bar.age >= older and not (older and bar.severity == "error"):
            bar.clear()

    def expire_message(self, seconds: float) -> None:
        """Clear information that is at least `seconds` old; Ctrl-E still shows it."""
        if self._bar.severity in ("information", "success") and self._bar.age >= seconds:
            self._bar.clear()

    @property
    def is_busy(self) -> bool:
        """Whether the message bar says that something is being waited for."""
        return self._bar.severity == "busy"

    @property
    def message(self) -> str:
        """What the message bar says, as plain text."""
        return self._bar.plain

    def make_way(self) -> None:
        """Clear the message bar before a question is asked.

        A message of the work that asks stays if it is new.
        """
        if self.is_busy or self._bar.age >= _SAID_WITH:
            self._bar.clear()

    # -- work
    # ----------------------------------------------------------------------------------------------

    def start(
        self,
        work: Callable[[], Awaitable[Any]],
        *,
        group: str,
        exclusive: bool = True,
        busy: str | None = None,
    ) -> Worker[Any]:
        """Carry out async work without holding up the screen.

        Errors are shown here; a newer start in the same group cancels the older one when
        `exclusive`. What needs the user's trust in the folder is asked about, and carried out from
        its beginning once the user agrees.

        Args:
            work: Makes the coroutine, twice where trust is asked for. Blocking calls inside go
                through `asyncio.to_thread`.
            group: One name a purpose, unique within the screen.
            exclusive: A newer request makes the older one stale.
            busy: Shown while it runs; taken away when it ends, unless the work said something else
                meanwhile.
        """
        if busy:
            self.busy(busy)

        async def guarded() -> Any:
            try:
                result = await work()
            except HudtuiError as failure:
                from hudtui.core.trust import (
                    Untrusted,
                )  # late: nothing before the first paint needs it

                error = failure
                if failure.lacks is not None:
                    from hudtui.core.flows.trust import with_reason

                    error = await asyncio.to_thread(
                        with_reason, failure, self.app.folder, self.app.platform
                    )
                if not isinstance(error, Untrusted):
                    raise error from None
                if not await self.app.permit(error.powers):
                    self.say("Not done: this folder is not trusted.", "warning")
                    return None
                result = await work()
            if busy and self.is_attached and self.is_busy:
                self.clear_message()
            return result

        return self.run_worker(guarded, group=group, exclusive=exclusive)

    def when_keys_rest(self, work: Callable[[], object]) -> None:
        """Call `work` once no further call has come for a moment.

        A held arrow key draws the detail once, at its end.
        """
        if self._rest is not None:
            self._rest.stop()

        self._at_rest = work
        self._rest = self.set_timer(REST, self.keys_rested, name="keys rest")

    def keys_rested(self) -> None:
        """Do now what waits for a pause of the keys, because an action needs it."""
        if self._rest is not None:
            self._rest.stop()
            self._rest = None
            self._at_rest()

    @property
    def waits(self) -> bool:
        """Whether work waits for a pause of the keys."""
        return self._rest is not None

    async def unbroken(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out to its end what mounts or removes widgets.

        It goes on also where the work that waits for it is cancelled meanwhile.

        Textual waits for the widgets themselves: a cancelled wait would end their message loops
        half-way, and the app with them. One such change comes after the other.
        """

        async def in_turn() -> T:
            async with self._changing:
                return await work

        return await asyncio.shield(asyncio.create_task(in_turn()))

    def going(self, *groups: str) -> list[Worker[Any]]:
        """Return this screen's work of these groups that has not ended.

        Work of other screens is not among it.
        """
        return [
            one
            for one in self.workers
            if one.node is self and one.group in groups and not one.is_finished
        ]

    async def stop(self, group: str) -> None:
        """Cancel the work of a group, and wait until what it has begun has ended."""
        for worker in self.going(group):
            worker.cancel()
            with suppress(WorkerCancelled, WorkerFailed):
                await worker.wait()

    async def finish(self, group: str) -> None:
        """Wait until the work of a group has ended."""
        for worker in self.going(group):
            with suppress(WorkerCancelled, WorkerFailed):
                await worker.wait()

    def cancel(self, *groups: str) -> None:
        """Cancel the work of these groups, and say so."""
        going = self.going(*groups)
        for worker in going:
            worker.cancel()
        self.say("Cancelled." if going else "There is nothing to cancel.")

    def step_aside(self, command: Sequence[str]) -> None:
        """Leave the terminal to a program until it ends.

        tmux as the program must not see that hudtui may run inside tmux.
        """
        environment = {name: value for name, value in os.environ.items() if name != "TMUX"}
        with self.app.suspend():
            subprocess.run(command, env=environment, check=False)

    # -- frame
    # ----------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Show what is known already.

        Textual calls this, as each handler of a message, after a subclass's own.
        """
        self._framed = True
        self.show_facts()
        if self.opened_with is not None:
            self.opened(**self.opened_with)

    def on_screen_resume(self) -> None:
        """The frame may have changed while another screen was shown."""
        self.show_frame()

    def show_frame(self) -> None:
        """Update the header and the bar of steps once they exist."""
        if not self._framed or not self.app.is_running:
            return
        app = self.app
        title = (
            "" if self.NAME in ("home", *(step.name for step in STEPS)) else self.TITLE or ""
        )  # the bar below marks those
        self.query_one(HeaderBar).show(
            app.facts, app.folder, title, app.spending.money, app.progress.alarms
        )
        running = len(app.facts.running) if app.facts else 0
        self.query_one(StepBar).show(app.facts.steps if app.facts else {}, self.NAME, running)

    def show_facts(self) -> None:
        """Update the frame and the screen with `app.facts` once the widgets exist."""
        if not self._framed or not self.app.is_running:
            return
        self.show_frame()
        if self.app.facts is not None:
            self.facts_changed(self.app.facts)

    def on_step_bar_chosen(self, event: StepBar.Chosen) -> None:
        event.stop()
        self.app.open_screen(event.name)
