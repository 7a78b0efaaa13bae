"""The app itself: one process, one project folder, one screen at a time."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial, partialmethod
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from textual import events, work
from textual.app import SuspendNotSupported
from textual.css.query import NoMatches
from textual.filter import Monochrome, NoColor
from textual.notifications import Notification, Notify
from textual.screen import ModalScreen
from textual.scrollbar import ScrollBar
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker, get_current_worker

from hudtui import __version__
from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.paths import AppPaths, app_paths
from hudtui.tui import preferences
from hudtui.tui.actions import (
    REGISTRY,
    Acting,
    AppAction,
    chain_actions,
    in_reach,
    keys_of,
    load_all_actions,
    named_key,
    shown,
    unless,
    with_keys,
)
from hudtui.tui.gaps import TerminalApp
from hudtui.tui.progress import RunProgress
from hudtui.tui.rented_runs import RentedRuns
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.services import Marks, Services
from hudtui.tui.spending import Spending
from hudtui.tui.steps import SCREENS, STEPS, screen_class
from hudtui.tui.texts import takes_text
from hudtui.tui.theme import MONOCHROME, default_theme, themes_for
from hudtui.tui.typed import TypedAhead
from hudtui.tui.widgets.message import GLYPHS, Severity
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.scrollbar import ThinScrollBar
from hudtui.tui.widgets.step_bar import StepBar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.dom import DOMNode
    from textual.driver import Driver

    from hudtui.core.flows.person import Choice
    from hudtui.core.platform import Platform
    from hudtui.core.project import Project
    from hudtui.core.runs.request import RunRequest
    from hudtui.core.runs.unattended import UnattendedPod
    from hudtui.core.trust import Power
    from hudtui.core.workspace import Workspace
    from hudtui.tui.facts import Facts, RunFact
    from hudtui.tui.home.screen import HomeScreen
    from hudtui.tui.launch.screen import LaunchScreen
    from hudtui.tui.widgets.dialog import Dialog
    from hudtui.tui.widgets.pictures import Pictures

T = TypeVar("T")

EVERY = 2.0
"""Seconds between two checks for changes by other processes."""

FACTS_WHILE_RUNNING = 3.0
"""Seconds between two requests to the machines of active runs."""

MESSAGE_EXPIRES = 60.0
"""Seconds after which information and success messages expire; warnings and errors stay until they
were seen."""
MESSAGE_STAYS = 8.0
"""Seconds after which the next key takes a message away; an error stays until the next action."""

MESSAGES_KEPT = 100

_READS_FIRST = 4.0
"""Seconds that a screen asked for at the start has for what it shows, before the project is read
and others are imported."""

_ABOUT = {
    "app.message",
    "app.help",
    "app.jump",
    "app.palette",
    "app.theme",
    "app.mouse",
    "app.suspend",
}
"""Actions that leave the message in the bar."""


def _palette() -> type:
    from hudtui.tui.palette import ActionProvider

    return ActionProvider


class HudtuiApp(Acting, TerminalApp, inherit_bindings=False):
    """Mission control over one project folder.

    Args:
        folder: The project; None means the current folder.
        services: What the app takes from outside: the clock, and how the project is read.
        debug: Log in detail.
        opens: Name of a screen to open at once, and what its `opened` takes; home where None.
    """

    TITLE = "hudtui"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS: ClassVar[Any] = {_palette}
    ENABLE_COMMAND_PALETTE = (
        False  # Textual would bind a key of its own; ours is an action like all others
    )
    HORIZONTAL_BREAKPOINTS = [(0, "-w-tiny"), (60, "-w60"), (80, "-w80"), (120, "-w120")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-h-tiny"), (20, "-h20"), (24, "-h24"), (40, "-h40")]  # noqa: RUF012
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("app.home", "Home", "Go to the overview of the project.", "0,escape", show=False),
        *(
            AppAction(
                f"app.open-{step.name}",
                step.title.capitalize(),
                step.question,
                step.key,
                show=False,
            )
            for step in STEPS
        ),
        AppAction(
            "app.open-results",
            "Results",
            "The episodes that runs and files hold, turn by turn.",
            show=False,
        ),
        AppAction(
            "app.settings",
            "Settings",
            "Keys and other values: where each comes from.",
            "comma,f2",
            show=False,
        ),
        AppAction(
            "app.palette",
            "Commands",
            "Search everything that can be done.",
            "ctrl+p,colon",
            palette=False,
        ),
        AppAction(
            "app.jump",
            "Jump",
            "Show a letter on each field, pane and tab, and go to the one whose letter is typed.",
            "ctrl+backslash",
            show=False,
            priority=True,
        ),
        AppAction("app.help", "Help", "What this screen is for, and its keys.", "question_mark,f1"),
        AppAction(
            "app.leave", "Quit", "Leave hudtui. Runs continue without it.", "q,ctrl+q", decides=True
        ),
        AppAction(
            "app.stop",
            "Quit",
            "Copy what is selected; close a dialog; empty a field; pressed twice elsewhere, leave.",
            "ctrl+c",
            show=False,
            palette=False,
            priority=True,
        ),
        AppAction(
            "app.refresh",
            "Read again",
            "Read the project folder again, and paint the whole screen again.",
            "f5,ctrl+r",
            show=False,
        ),
        AppAction(
            "app.trust",
            "Trust folder",
            "See what the files of this folder ask for, and agree to it or not.",
            "exclamation_mark",
            show=False,
        ),
        AppAction(
            "app.picture",
            "Screenshot",
            "Write this screen into the folder, as an SVG picture.",
            show=False,
        ),
        AppAction(
            "app.log",
            "Log of hudtui",
            "Follow hudtui's own log.",
            show=False,
            when=(unless(lambda app: app.log_file, "no log is written"),),
        ),
        AppAction(
            "app.doctor",
            "Doctor",
            "Show versions, folders and files, keys, and missing programs.",
            show=False,
        ),
        AppAction(
            "app.ring",
            "Bell on/off",
            "Ring the terminal's bell when a run ends or has an alarm, or not.",
            show=False,
        ),
        AppAction(
            "app.desktop",
            "Desktop notifications on/off",
            "Have the terminal show a desktop notification when a run ends or has an alarm, or "
            "not.",
            show=False,
        ),
        AppAction(
            "app.theme", "Theme", "Choose the colours; the monochrome theme has none.", show=False
        ),
        AppAction(
            "app.mouse",
            "Mouse on/off",
            "Leave the mouse to the terminal, for selecting and pasting, or take it back.",
            show=False,
        ),
        AppAction(
            "app.suspend",
            "Suspend",
            "Go to the shell; `fg` comes back.",
            "ctrl+z",
            show=False,
            decides=True,
        ),
        AppAction(
            "app.message",
            "Messages",
            "Show the last message in full, and those before it.",
            "ctrl+e,f10",
            show=False,
        ),
    )

    def __init__(
        self,
        folder: Path | None = None,
        *,
        services: Services | None = None,
        debug: bool = False,
        opens: tuple[str, Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self._opens = opens
        self.keymap: Mapping[str, str] = {}
        """Keys of the user's own, by the ids of their actions."""
        self.folder = (folder or Path.cwd()).absolute()
        self.services = services or Services()
        self.facts: Facts | None = None
        """The project as it was read last; None before that."""
        self.places: AppPaths = app_paths()
        self.log_file: Path | None = None
        self.verbose = debug
        self.animation_level = "none"
        ScrollBar.renderer = ThinScrollBar
        self._imposed = preferences.from_environment()
        """Preferences that the environment gives, until the user chooses another value."""
        self.preferences = preferences.load(self.places.state / preferences.FILE)
        self.lost = False
        """The terminal went away."""
        self._visited = ""
        """The screen that was shown last, apart from home."""
        self._back: dict[str, str | None] = {}
        self._messages: deque[tuple[datetime, Severity, str]] = deque(maxlen=MESSAGES_KEPT)
        self.chosen: list[str] = []
        """Actions that were chosen from the palette, the last one first."""
        self._told_how_to_leave = False
        self.asked_to_end = False
        """The user left, or the system told hudtui to end."""
        self.crash_words: tuple[str, ...] = ()
        """What to tell the user after the end, when the app broke."""
        self.open_next: Path | None = None
        """The folder to open after the end, in place of the shell."""
        self.parting: tuple[str, ...] = ()
        """Lines to print after the app has ended: one for each machine that still costs money."""
        self.typed = TypedAhead(self)
        """Keys that came while the one before was still being handled."""
        self.spending = Spending(self)
        """What is rented, and what it costs."""
        self.progress = RunProgress(self)
        """What the newest runs have measured."""
        self.rented = RentedRuns(self)
        """Runs on rented machines."""
        self._begun = False
        """The project was read, and machines may be asked."""
        self._not_read = False
        """The last attempt to read the project has failed."""
        self._reading = asyncio.Lock()
        """Held while the project is read."""
        self._marks = Marks()
        """How what is written down looked when it was read last."""
        self._told: set[str] = set()
        self._toasts: list[Notification] = []
        """The toasts that were shown, until they expire."""
        self._opened: dict[str, HudtuiScreen] = {}
        colours = self.console.color_system
        for theme in themes_for(colours):
            self.register_theme(theme)
        # Textual answers NO_COLOR with shades of grey; ours is a theme without any colour.
        self._filters = [one for one in self._filters if not isinstance(one, Monochrome | NoColor)]
        wanted = self.preferences.theme
        self.theme = (
            MONOCHROME
            if self.no_color
            else wanted
            if wanted in self.available_themes
            else default_theme(colours)
        )

    @cached_property
    def pictures(self) -> Pictures:
        """Images of tools' answers."""
        from hudtui.tui.widgets.pictures import Pictures

        return Pictures(self)

    def watch_theme(self, name: str) -> None:
        """The theme without colour lets none through, whatever a widget asks for."""
        self._filters = [one for one in self._filters if not isinstance(one, NoColor)]
        if name == MONOCHROME:
            self._filters.append(NoColor())

    # -- start and end
    # ----------------------------------------------------------------------------------------------

    def get_driver_class(self) -> type[Driver]:
        """Our own for a terminal; what Textual says for everything else."""
        found = super().get_driver_class()
        if found.__name__ == "LinuxDriver":
            from hudtui.tui.driver import TerminalDriver

            return TerminalDriver
        return found

    def get_default_screen(self) -> HudtuiScreen:
        """Home, or the screen that is opened at once: home is made when it is asked for."""
        if self._opens is None:
            return self._made("home")
        self._visited, given = self._opens
        screen = self._made(self._visited)
        screen.opened_with = given
        return screen

    @property
    def home(self) -> HomeScreen:
        return cast("HomeScreen", self._made("home"))

    def _made(self, name: str) -> HudtuiScreen:
        """A screen, which is made once."""
        screen = self._opened.get(name)
        if screen is None:
            screen = self._opened[name] = screen_class(name)()
            self.read_styles(screen.css_path)
            # Textual adds them late, and works out every style a second time.
            screen.add_class(*self._size_classes(), update=False)
            self.install_screen(screen, name)
        return screen

    def on_mount(self) -> None:
        """Everything else waits for the first paint."""
        # Coming back from a shell or another program: nothing has changed, but the terminal shows
        # nothing of it any more.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh())
        loop = asyncio.get_running_loop()
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(
                    number, self.terminal_lost if number == signal.SIGHUP else self.exit
                )
        self.call_after_refresh(self._painted)

    async def _painted(self) -> None:
        """The first paint is on the terminal."""
        from hudtui.tui import applog

        if not self.is_headless:
            gc.freeze()  # what is there until the end is not looked at again and again
            gc.enable()
            self.log_file = applog.start_logging(self.places.state, debug=self.verbose)
            applog.log.info("hudtui %s opens %s", __version__, self.folder)
        keymap, complaints = preferences.load_keymap(self.places.config / preferences.KEYMAP_FILE)
        complaints += preferences.set_aside(self.places.state / preferences.FILE)
        if keymap:
            self.keymap = keymap
            self.set_keymap(keymap)
            self.screen.query_one(StepBar).refresh()  # was drawn with the usual keys
        if self._opens is None:
            self.reload()
        else:
            self.set_timer(_READS_FIRST, self.reload)
        for endless in (self._keep_up(), self._keep_asking()):
            self.run_worker(endless, name="forever", group="forever")
        if complaints:
            self.say("; ".join(complaints), severity="warning")

    async def on_unmount(self) -> None:
        """Close connections, and collect what is printed when the terminal is back."""
        await self.rented.gone()
        try:
            self.parting = tuple(" ".join(one.words) for one in await self.spending.unattended())
        except Exception as error:
            self.parting = (
                f"Rented machines may still cost money; which could not be read: {error}. See: "
                "hudtui pods",
            )
        self.rented.close()
        await self.spending.close()

    def exit(self, result: None = None, return_code: int = 0, message: Any = None) -> None:
        """End, because someone asked for it."""
        self.asked_to_end = True
        self._remember_place()
        super().exit(result, return_code, message)

    def prefer(self, **changes: Any) -> None:
        """Keep choices for the next start; see `Preferences`. May run in a thread."""
        self._imposed = {
            name: value for name, value in self._imposed.items() if name not in changes
        }
        self.preferences = replace(
            preferences.change(self.places.state / preferences.FILE, **changes), **self._imposed
        )

    @property
    def _preferred(self) -> preferences.Preferences:
        """The choices as they are kept now: another hudtui may have changed them."""
        return preferences.load(self.places.state / preferences.FILE)

    def _remember_place(self) -> None:
        screen = self._opened.get(self._visited)
        if screen is not None and screen.is_attached:
            self.prefer(
                places=preferences.with_row(
                    self._preferred.places, self.folder, self._visited, screen.place
                )
            )

    def last_place(self) -> tuple[str, Mapping[str, str]] | None:
        """Return the screen that was shown last in this folder, and values for its `opened`.

        None if hudtui was never left in this folder, or the screen does not exist.
        """
        name, place = preferences.row_of(self.preferences.places, self.folder) or ("", {})
        return (name, place) if name in SCREENS else None

    def followed(self) -> list[Mapping[str, str]]:
        """Return the external runs that this folder lists, the newest last."""
        return [row[1] for row in self.preferences.followed if row[0] == str(self.folder)]

    def remember_followed(self, place: Mapping[str, str], *, listed: bool = True) -> None:
        """List an external run here from now on, or no longer. May run in a thread."""
        rows = self._preferred.followed
        own = (str(self.folder), place)
        others = tuple(row for row in rows if row != own)
        after = (*others, own)[-preferences.KEPT :] if listed else others
        if after != rows:
            self.prefer(followed=after)

    def remember_config(self, path: Path) -> None:
        """Note which configuration of this folder is open, so that the next start opens it again.

        May run in a thread.
        """
        name = os.path.relpath(path, self.folder)
        if name != self.last_config():
            self.prefer(configs=preferences.with_row(self._preferred.configs, self.folder, name))

    def last_config(self) -> str | None:
        """The configuration that was open last in this folder, relative to it; or None."""
        row = preferences.row_of(self.preferences.configs, self.folder)
        return None if row is None else str(row[0])

    def terminal_lost(self) -> None:
        """The terminal went away: end quietly. Runs live in tmux and continue."""
        self.lost = True
        self.exit()

    def ended_unasked(self) -> None:
        """Report an end of the app's loop without a known cause, as a crash.

        Neither the user nor a known error has caused it.
        """
        from hudtui.tui import applog

        applog.log.error("the app ended without having been asked to")
        log = f"Its log may say why: {self.log_file}" if self.log_file else "There is no log of it"
        self.crash_words = (
            "hudtui ended without having been asked to. Runs continue; your files are as they "
            "were.",
            log,
        )

    def broke(self, error: Exception) -> None:
        """Keep what broke in a file, and say so in plain words when the terminal is back."""
        from hudtui.tui import applog

        applog.log.error("the app broke", exc_info=error)
        path = applog.write_crash(self.places.state, error, __version__)
        self.crash_words = (
            "hudtui broke and had to stop. Runs continue; your files are as they were.",
            f"What happened: {type(error).__name__}",
            f"Details for a report: {path}"
            if path
            else "The details could not be written to a file.",
        )

    # -- keys
    # ----------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Keys and pastes wait for their turn; everything else is Textual's."""
        if isinstance(event, events.Resize) and self.cells is not None:
            self.cells.forget()  # terminals move, wrap or cut what they show
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self.typed.take(event)
        else:
            if isinstance(event, events.MouseDown):
                self.typed.deliberate = True
            await super().on_event(event)

    async def hand_on(self, event: events.Key | events.Paste) -> None:
        """Pass a key or paste to the focused widget in its turn, and clear an older message."""
        if isinstance(self.screen, HudtuiScreen) and self.screen.is_mounted:
            self.screen.forget_message(older=MESSAGE_STAYS)
        if not (isinstance(event, events.Key) and event.key == "ctrl+c"):
            self._told_how_to_leave = False
        await super().on_event(event)

    async def on_key(self, event: events.Key) -> None:
        """A key that no widget took. One of an action that is not offered now says why.

        The key of the filter goes to the pane with a filter that was used last: what is typed next
        would be taken for other keys.
        """
        screen = self.screen
        if not isinstance(screen, HudtuiScreen):
            return
        refused = [
            (action, node)
            for action, node in chain_actions(in_reach(screen))
            if isinstance(node, Acting)
            and self._has_key(action, event.key)
            and not node.offers(action.id)
        ]
        filters = "list.filter" in REGISTRY and self._has_key(REGISTRY["list.filter"], event.key)
        if not (refused or filters) or event.key in screen.active_bindings:
            return
        if refused:
            action, node = refused[0]
            self.say(
                f"{action.title}: "
                f"{cast(Acting, node).why_not(action.id) or 'it does not apply here'}"
            )
            return
        for panes in screen.query(Panes):
            for pane in panes.by_use:
                if any(action.id == "list.filter" for action in pane.all_actions()):
                    panes.open(pane)
                    await pane.action_act("list.filter")
                    return

    def _has_key(self, action: AppAction, key: str) -> bool:
        return any(named_key(one) == key for one in keys_of(action, self.keymap))

    def begins(self, action: AppAction) -> None:
        """An action begins: what the one before it left in the message bar is over."""
        self.typed.begins(action)
        if action.palette and action.id not in _ABOUT and isinstance(self.screen, HudtuiScreen):
            self.screen.forget_message()

    async def push_screen_wait(self, screen: Any, *, mode: str | None = None) -> Any:
        """Show a dialog, from a worker, and wait for its answer.

        What is typed meanwhile waits for what the worker asks next.
        """
        if not isinstance(screen, str):
            self.typed.asks(screen, get_current_worker())
        if isinstance(self.screen, HudtuiScreen):
            self.screen.make_way()
        return await super().push_screen_wait(screen, mode=mode)

    # -- the project
    # ----------------------------------------------------------------------------------------------

    def reload(self, *, everything: bool = False) -> Worker[Any]:
        """Read the project again, behind the screen. Call it after anything in the folder changed.

        Args:
            everything: Tell the screens even when nothing that the shell shows has changed: they
                may read more than that.
        """
        return self.run_worker(partial(self._reload, everything), group="facts", exclusive=True)

    async def _reload(self, everything: bool = False) -> None:
        """Read the project. A failure is reported once, and reading is tried again."""
        try:
            await self._read(everything)
        except Exception as error:
            self._not_read = True
            if self.facts is None and self.home.is_attached:
                self.home.not_read()
            self._complain(error)
            return
        self._not_read = False
        # What comes next imports much: the picture would wait for it.
        self.call_after_refresh(self._shown)

    def _shown(self) -> None:
        """What was read is on the terminal."""
        check: Callable[[], Any] = (
            self._check_files
        )  # where the app ends before it begins, no coroutine was made
        self.run_worker(check, group="check")
        if not self._begun:
            self._begun = True
            self._begin()

    async def _check_files(self) -> None:
        """The bar of steps shows errors in the files of the project, not only that they exist."""
        try:
            if self.facts is not None and await asyncio.to_thread(
                self.services.check_files, self.facts
            ):
                await self._read()
        except Exception as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        """Report a recurring error once."""
        if str(error) not in self._told:
            self._told.add(str(error))
            self.fail(error)

    @work(group="begin")
    async def _begin(self) -> None:
        """Ask machines, now that the folder is shown."""
        try:
            await self.rented.introduce()
        except Exception as error:  # logins ask nothing then; machines are asked in any case
            self.fail(error)
        self.spending.begin()
        self.rented.begin()
        if not self.is_headless:
            ahead: Callable[[], Any] = self._load_ahead
            self.run_worker(ahead, name="forever", group="ahead")
        await self._ask_machines(first=True)

    async def _load_ahead(self) -> None:
        """Import the other screens, so that they open faster.

        Not beside a screen that was asked for at the start and still reads what it shows.
        """
        if self._opens is not None:
            await asyncio.sleep(_READS_FIRST)
        await asyncio.to_thread(load_all_actions)

    async def _keep_up(self) -> None:
        """Notice runs and rented machines of other processes."""
        while True:
            await asyncio.sleep(EVERY)
            try:
                await self._look_around()
            except Exception as error:
                self._complain(error)

    async def _look_around(self) -> None:
        before, now = self._marks, await asyncio.to_thread(self.services.marks, self.folder)
        if now.runs != before.runs or now.trust != before.trust or self._not_read:
            await self._reload(everything=now.trust != before.trust)
        if self._begun:
            if now.machines != before.machines:
                self._marks = replace(self._marks, machines=now.machines)
                self.spending.look_soon()
            await self.rented.take_up()
            await self._check_files()
        if isinstance(self.screen, HudtuiScreen):
            self.screen.time_passed()
            self.screen.expire_message(MESSAGE_EXPIRES)

    async def _keep_asking(self) -> None:
        """Ask the machines of active runs for their state."""
        while True:
            await asyncio.sleep(FACTS_WHILE_RUNNING)
            if self._begun and self.facts is not None and self.facts.running:
                await self._ask_machines()

    async def _ask_machines(self, *, first: bool = False) -> None:
        try:
            notices = await self.services.sync_runs(self.folder, first)
        except Exception as error:
            self._complain(error)
            return
        await self._reload()
        for notice in notices:
            self.say(notice, severity="warning")

    async def _read(self, everything: bool = False) -> Facts:
        def read() -> tuple[Marks, Facts]:
            # The marks come first: what is written meanwhile is read again.
            return self.services.marks(self.folder), self.services.load_facts(self.folder)

        async with self._reading:  # one after the other: what was read first is never shown last
            marks, facts = await asyncio.to_thread(read)
            # Rented machines are not read here: what became of them is seen at the next look
            # around.
            self._marks = (
                marks if self.facts is None else replace(marks, machines=self._marks.machines)
            )
            if everything or facts != self.facts:
                self.facts = facts
                for screen in self._opened.values():
                    if screen.is_attached:
                        screen.show_facts()
            self.progress.follow(facts)
            return facts

    def show_progress(self) -> None:
        """Update the screens with what runs have measured."""
        for screen in self._opened.values():
            if screen.is_attached:
                screen.show_frame()
                screen.progress_changed()

    def show_money(self) -> None:
        """Update the screens with the rented machines and their costs."""
        for screen in self._opened.values():
            if screen.is_attached:
                screen.show_frame()
                screen.money_changed()

    @property
    def workspace(self) -> Workspace:
        """The project folder as it was read last; read now if it was not.

        Raises:
            InputError: The folder cannot be read.
        """
        if self.facts is not None and self.facts.workspace is not None:
            return self.facts.workspace
        from hudtui.core.workspace import open_workspace

        return open_workspace(self.folder)

    def relative(self, path: Path) -> str:
        """A path as it is shown: relative to the folder if it lies inside."""
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)

    @property
    def platform(self) -> Platform:
        """The platform of the project."""
        return self.workspace.platform

    @property
    def project(self) -> Project:
        """The project, as the core's flows take it."""
        from hudtui.core.project import Project

        return Project(self.folder, self.platform)

    async def make_demo(self, folder: Path) -> None:
        """Write the demo workspace into a folder and show it.

        The app restarts in another folder.
        """
        from contextlib import aclosing

        from hudtui.core.events import Notice, Progress

        async with aclosing(self.services.make_demo(folder)) as events:  # type: ignore[type-var]
            async for event in events:
                if isinstance(event, Progress):
                    self.say(event.message or event.stage, severity="busy")
                elif isinstance(event, Notice):
                    self.say(event.message, severity="warning")
        if folder != self.folder:
            self.open_next = folder
            self.exit()
            return
        await self._reload()
        self.say("The demo workspace is ready.", severity="success")

    def on_app_focus(self) -> None:
        """The terminal has the focus again: files may have changed meanwhile."""
        if self.facts is not None:
            self.reload()

    # -- moving about
    # ----------------------------------------------------------------------------------------------

    def open_screen(self, name: str, *, back: str | None = None, **given: Any) -> None:
        """Show a screen of `steps.SCREENS` and hand `given` to its `opened`.

        Args:
            name: The screen.
            back: Where Esc leads from there, once; home when None.
            given: Values for the screen's fields.
        """
        self._back[name] = back
        self._visited = name if name != "home" else self._visited
        screen = self._made(name)
        while isinstance(dialog := self.screen, ModalScreen) and len(self.screen_stack) > 1:
            # The worker that asked gets the answer of a cancelled dialog, and does not wait
            # forever.
            dialog.dismiss(getattr(dialog, "cancelled", None))
        if screen is self.screen_stack[0]:
            while len(self.screen_stack) > 1:
                self.pop_screen()
        elif len(self.screen_stack) == 1:
            self.push_screen(screen)
        elif self.screen is not screen:
            self.switch_screen(screen)
        screen.call_after_refresh(screen.opened, **given)

    def training_request(self) -> RunRequest | None:
        """The training that the form of Launch asks for.

        None if it plays tasks, is not filled in, or was not opened.
        """
        launch = cast("LaunchScreen | None", self._opened.get("launch"))
        return None if launch is None else launch.training_request()

    def leads_back(self, name: str) -> str | None:
        """Where Esc leads from a screen, if that is not home."""
        return self._back.get(name)

    def go_back(self, name: str) -> None:
        """Leave a screen for the screen that opened it, or for home."""
        self.open_screen(self._back.get(name) or "home")

    def read_styles(self, paths: Sequence[PurePath]) -> None:
        """Read style sheets of screens, each once.

        A sheet is for its own screen: what is shown already keeps its styles.
        Textual would read the sheets of all screens again, and work out the styles of all widgets.
        """
        unknown = [path for path in paths if not self.stylesheet.has_source(str(path))]
        if unknown:
            self.stylesheet.read_all(unknown)
            self.stylesheet.parse()

    def _size_classes(self) -> tuple[str, ...]:
        sides = (
            (self.HORIZONTAL_BREAKPOINTS, self.size.width),
            (self.VERTICAL_BREAKPOINTS, self.size.height),
        )
        return tuple(
            max(point for point in points if point[0] <= side)[1] for points, side in sides
        )

    @work(group="open and act", exclusive=True)
    async def open_and_act(self, name: str, action_id: str) -> None:
        """Open a screen, let it read what it reads first, then carry out one of its actions."""
        from textual.worker import WorkerCancelled, WorkerFailed

        self.open_screen(name)
        screen = self._opened[name]
        ready = asyncio.Event()
        screen.call_after_refresh(ready.set)
        await ready.wait()
        begun = [
            worker
            for worker in self.workers
            if worker.node is screen and worker.name != "forever" and not worker.is_finished
        ]
        for worker in begun:
            with contextlib.suppress(WorkerCancelled, WorkerFailed, TimeoutError):
                await asyncio.wait_for(worker.wait(), timeout=5)
        if self.screen is screen:
            await screen.action_act(action_id)

    # -- words
    # ----------------------------------------------------------------------------------------------

    def keys_in(self, text: str) -> str:
        """A text with the user's keys in place of `{key:scope.name}`; see `actions.with_keys`."""
        return with_keys(text, self.keymap)

    @property
    def messages(self) -> Sequence[tuple[datetime, Severity, str]]:
        """The messages that screens have shown: when, how grave, and the words; newest last."""
        return tuple(self._messages)

    def remember(self, severity: Severity, words: str) -> None:
        """Keep a message of a screen for the history; progress is not kept."""
        if severity != "busy":
            self._messages.append((self.services.now(), severity, words))

    def say(self, message: str, *, severity: Severity = "information") -> None:
        """Show a line on the current screen, or as a toast over a dialog.

        Messages after the end are lost.
        """
        if not self.is_running:
            return
        screen = self.screen
        if isinstance(screen, HudtuiScreen):
            screen.say(message, severity)
        else:
            kind = {"warning": "warning", "error": "error"}.get(severity, "information")
            self.notify(message, severity=kind, markup=False)  # type: ignore[arg-type]

    def on_notify(self, event: Notify) -> None:
        """Leave a toast out that is shown already.

        A key that is held down asks for it many times.
        """
        new = event.notification
        self._toasts = [one for one in self._toasts if not one.has_expired]
        if any((one.message, one.title) == (new.message, new.title) for one in self._toasts):
            event.prevent_default()
        else:
            self._toasts.append(new)

    def fail(self, error: BaseException) -> None:
        """Show an error on the current screen; as a toast too where a dialog is over it."""
        if self.is_running:
            shown = (
                screen for screen in reversed(self.screen_stack) if isinstance(screen, HudtuiScreen)
            )
            next(shown, self.home).fail(error)

    def work_failed(self, node: DOMNode, error: Exception) -> None:
        """Show what ended the work of a worker, on the screen that it works for, and log it.

        Args:
            node: The widget, screen or app that started the work.
            error: Any exception.
        """
        from hudtui.tui import applog

        if (
            not self.is_running
            or self.asked_to_end
            or (isinstance(error, NoMatches) and not node.is_attached)
        ):
            applog.log.info(
                "work that nobody waits for has failed", exc_info=error
            )  # its widgets are gone
            return
        if isinstance(error, HudtuiError):  # of others `defect` logs the traceback
            applog.log.warning("%s", error)
        screen = node.screen if isinstance(node, Widget) else self.screen
        (screen if isinstance(screen, HudtuiScreen) else self).fail(error)

    def defect(self, error: BaseException) -> HudtuiError:
        """An unexpected exception as an error that can be shown.

        Its traceback goes to a crash file and the log.
        """
        from hudtui.tui import applog

        applog.log.error("unexpected", exc_info=error)
        path = applog.write_crash(self.places.state, error, __version__)
        return HudtuiError(
            "hudtui made a mistake here",
            why=f"{type(error).__name__}: {error}",
            fix=f"Please report it with {path}." if path else None,
        )

    async def confirm(
        self,
        title: str,
        lines: tuple[str, ...] = (),
        *,
        yes: str = "Yes",
        no: str = "Cancel",
        danger: bool = False,
    ) -> bool:
        """Ask, from a worker, and wait for the answer."""
        from hudtui.tui.widgets.dialog import Confirm

        answer: bool = await self.push_screen_wait(
            Confirm(title, lines, yes=yes, no=no, danger=danger)
        )
        return answer

    async def permit(self, powers: Sequence[Power]) -> bool:
        """Whether the user agrees to what files of the project ask for.

        Asks, from a worker, where that is not known yet.
        The question is about everything that the folder asks for, so that it comes once.
        """
        from hudtui.core import trust
        from hudtui.core.flows.trust import listing, question

        lacking, before = await asyncio.to_thread(question, self.folder, powers, self.platform)
        if not lacking:
            return True
        lines = ["Its files would have hudtui", *listing(lacking, self.folder)]
        if before:
            lines += ["", "instead of what you agreed to before:", *before]
        if not await self.confirm(
            "Trust this folder?", tuple(lines), yes="Trust", no="Only look", danger=True
        ):
            return False
        await asyncio.to_thread(trust.agree, self.folder, lacking)
        self.reload()
        return True

    async def ask(self, title: str, **options: Any) -> str | None:
        """Ask for one line of text, from a worker; None when the user cancels.

        Options are those of `Ask`.
        """
        from hudtui.tui.widgets.dialog import Ask

        return await self._answered(Ask(title, **options))

    async def _answered(self, dialog: Dialog[T]) -> T:
        """The answer to a dialog, which goes when the work that asked is cancelled."""
        try:
            answer: T = await self.push_screen_wait(dialog)
        except asyncio.CancelledError:
            if dialog.is_current:
                dialog.dismiss()
            raise
        return answer

    async def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        *,
        lines: tuple[str, ...] = (),
        value: str | None = None,
    ) -> str | None:
        """Ask, from a worker, for one of several choices; None when the user cancels."""
        from hudtui.tui.widgets.pick import Pick

        options = [(one.label, one.help) for one in choices]
        at = next((place for place, one in enumerate(choices) if one.value == value), 0)
        index: int | None = await self.push_screen_wait(
            Pick(title, options, at=at, lines=lines, careful=True)
        )
        return None if index is None else choices[index].value

    def read(self, title: str, text: str) -> None:
        """Show a text in full, to read and to copy."""
        from hudtui.tui.widgets.dialog import TextDialog

        self.push_screen(TextDialog(title, text))

    def copy(self, text: str, *, secret: bool = False) -> Worker[Any] | None:
        """Copy, and report by which way.

        Returns None if there is nothing to copy; what was copied before stays. What is pasted with
        Ctrl-V here is what was copied here last, whichever way. No file keeps a secret.
        """
        if not text:
            return None
        self._clipboard = text
        return self.run_worker(self._copy(text, secret), group="copy")

    def copy_to_clipboard(self, text: str) -> None:
        """Textual's own copying (selections, text fields) takes the same way."""
        self.copy(text)

    async def _copy(self, text: str, secret: bool) -> None:
        from hudtui.tui import clipboard

        driver = self.terminal
        write = driver.write if driver is not None and not self.is_headless else None
        copied = await clipboard.copy(
            text, write=write, file=None if secret else self.places.state / "copied.txt"
        )
        self.say(copied.note)  # a toast would cover what is being looked at

    # -- actions
    # ----------------------------------------------------------------------------------------------

    def action_home(self) -> None:
        """Go home; with Esc, to where the screen was opened from."""
        if self.typed.key == "escape" and isinstance(self.screen, HudtuiScreen):
            self.go_back(self.screen.NAME)
        else:
            self.open_screen("home")

    action_open_environment = partialmethod(open_screen, "environment")
    action_open_mapping = partialmethod(open_screen, "mapping")
    action_open_dataset = partialmethod(open_screen, "dataset")
    action_open_compute = partialmethod(open_screen, "compute")
    action_open_run = partialmethod(open_screen, "run")
    action_open_results = partialmethod(open_screen, "results")

    def action_settings(self) -> None:
        """Open the settings; Esc returns from there."""
        name = self.screen.NAME if isinstance(self.screen, HudtuiScreen) else None
        self.open_screen(
            "settings", back=self.leads_back("settings") if name == "settings" else name
        )

    def action_palette(self) -> None:
        from hudtui.tui.palette import Palette

        if not isinstance(self.screen, ModalScreen):
            self.push_screen(Palette())

    def action_jump(self) -> None:
        from hudtui.tui.palette import Palette
        from hudtui.tui.widgets.jump import Jump, go

        if isinstance(self.screen, Jump):
            self.screen.dismiss(None)
        elif not isinstance(self.screen, Palette):
            jump = Jump(self.screen)
            if jump.targets:
                self.push_screen(jump, go)
            else:
                self.say("Jump: there is no field, pane or tab here")

    def action_help(self) -> None:
        from hudtui.core.text import home_short
        from hudtui.tui.help import HelpScreen
        from hudtui.tui.widgets.keybar import active_keys, text_keys

        if not isinstance(self.screen, ModalScreen):
            keymap_file = home_short(self.places.config / preferences.KEYMAP_FILE)
            self.push_screen(
                HelpScreen(
                    self.screen, active_keys(self.screen), keymap_file, text_keys(self.screen)
                )
            )

    async def action_stop(self) -> None:
        """Ctrl-C.

        Copy what is selected, close a dialog, empty a field; elsewhere leave, when it is pressed
        twice.
        """
        from hudtui.tui.widgets.dialog import Dialog

        focused, screen = self.focused, self.screen
        if selected := screen.get_selected_text() or getattr(focused, "selected_text", ""):
            if (
                isinstance(focused, Input)
                and focused.password
                and selected == focused.selected_text
            ):
                self.notify("A secret is not copied.", severity="warning")
            else:
                self.copy(selected)
                screen.clear_selection()
        elif isinstance(screen, Dialog):
            await screen.action_act("dialog.cancel")
        elif isinstance(screen, ModalScreen):
            screen.dismiss()
        elif isinstance(focused, Input) and focused.value:
            focused.value = ""
        elif self._told_how_to_leave:
            await self.action_act("app.leave")
        else:
            self._told_how_to_leave = True
            keys = [shown(key) for key in keys_of(REGISTRY["app.leave"], self.keymap)]
            key = keys[-1] if takes_text(focused) else keys[0]
            self.say(f"Press Ctrl-C again, or {key}, to quit.")

    @work(group="leave", exclusive=True)
    async def action_leave(self) -> None:
        """Leave; with active runs or unsaved work, ask first.

        Nothing that goes wrong meanwhile holds the user here.
        """
        try:
            leaves = await self._may_leave()
        except Exception as error:
            self.fail(error)
            words = (
                "hudtui could not find out what is unsaved, or what costs money without it. Runs "
                "continue."
            )
            leaves = await self.confirm(
                "Quit hudtui all the same?", (words,), yes="Quit", no="Stay", danger=True
            )
        if leaves:
            self.exit()

    async def _may_leave(self) -> bool:
        """Whether nothing is left behind, or the user agrees to leave it."""
        if self.facts is not None and self.facts.running:
            await self._reload()  # what was read some seconds ago may have ended
        running = self.facts.running if self.facts else ()
        unsaved = [
            screen for screen in self._opened.values() if screen.is_attached and screen.unsaved
        ]
        complaints = [told for screen in unsaved if (told := await self._kept(screen))]
        parts: list[list[str]] = []
        if unsaved:
            words = [f"! {screen.unsaved} is not saved" for screen in unsaved]
            parts.append(
                [
                    *words,
                    *(complaints or ["A copy is kept, and offered when it is opened here again."]),
                ]
            )
        if getting := self.rented.getting:
            running = tuple(run for run in running if run.id not in getting)
            words = [f"● {one}" for one in getting.values()]
            if self.rented.gives_up:
                words.append("Quitting cancels it: it is ended, and that is verified.")
            parts.append(words)
        paid = tuple(one for one in await self._paid() if one.run not in getting)
        running = tuple(run for run in running if run.id not in {one.run for one in paid})
        parts += [[f"◆ {one.words[0]}", *one.words[1:]] for one in paid]
        if running:
            goes = "It continues" if len(running) == 1 else "They continue"
            words = [f"● {run.title}" for run in running[:5]]
            words += [f"and {len(running) - 5} more"] if len(running) > 5 else []
            parts.append(
                [
                    *words,
                    "",
                    f"{goes} without hudtui. Open it here again to watch,",
                    "or type: hudtui runs list",
                ]
            )
        if parts:
            title, lines = (
                _quit_title(running, paid),
                tuple(line for part in parts for line in ("", *part))[1:],
            )
            real = any(not one.simulated for one in paid)
            if unsaved:
                if not await self.settle_unsaved(
                    unsaved, title, lines, leave="Quit", lost=bool(complaints)
                ):
                    return False
            elif not await self.confirm(title, lines, yes="Quit", no="Stay", danger=real):
                return False
        if self.rented.getting:
            gives_up = self.rented.gives_up
            self.say(
                "Giving the machine up, and making sure that it is gone"
                if gives_up
                else "Waiting for the guard"
            )
            await self.rented.give_up()
        return True

    async def _kept(self, screen: HudtuiScreen) -> str | None:
        """Have a screen keep a copy of its unsaved work; None, or why there is none."""
        try:
            return await screen.keep_unsaved()
        except Exception as error:
            return f"No copy could be kept. {self.defect(error)}"

    async def _paid(self) -> tuple[UnattendedPod, ...]:
        """Machines that still cost money without the app, as far as hudtui knows."""
        try:
            return await self.spending.unattended()
        except Exception as error:
            self._complain(error)
            return ()

    async def settle_unsaved(
        self,
        screens: Sequence[HudtuiScreen],
        title: str,
        lines: Sequence[str],
        *,
        leave: str,
        lost: bool,
    ) -> bool:
        """Ask, from a worker, whether to save unsaved work, and save it if the user wants that.

        Args:
            screens: Those that hold it.
            title: The question.
            lines: What is not saved.
            leave: What leaving is called.
            lost: No copy of it can be kept.

        Returns:
            Whether the work may be left. False too when it cannot be saved; that is said.
        """
        from hudtui.tui.widgets.unsaved import Unsaved

        answer: str | None = await self.push_screen_wait(
            Unsaved(title, tuple(lines), leave=leave, lost=lost)
        )
        if answer != "save":
            return answer == "leave"
        try:
            return all([await screen.save_unsaved() for screen in screens])
        except Exception as error:
            self.fail(error)
            return False

    def action_refresh(self) -> None:
        """Read the project again, and paint everything.

        Another program may have written over it.
        """
        if self.cells is not None:
            self.cells.forget()
        self.refresh()
        self.reload(everything=True)

    @work(group="trust")
    async def action_trust(self) -> None:
        from hudtui.core import trust
        from hudtui.core.flows.trust import listing, survey

        powers = await asyncio.to_thread(survey, self.folder, self.platform)
        if await asyncio.to_thread(trust.missing, self.folder, powers):
            await self.permit(powers)
            return
        lines = listing(powers, self.folder) or ("The files of this folder ask for no permission.",)
        if not powers:
            self.read("This folder", lines[0])
        elif await self.confirm(
            "You trust this folder. It may", lines, yes="Stop trusting it", no="Close", danger=True
        ):
            await asyncio.to_thread(trust.revoke, self.folder)
            self.reload()

    def action_log(self) -> None:
        self.open_screen("run", file=str(self.log_file))

    def action_doctor(self) -> None:
        if isinstance(self.screen, HudtuiScreen):
            self.screen.start(
                self._examine, group="doctor", busy="Asking the programs for their versions"
            )

    async def _examine(self) -> None:
        from hudtui.core.doctor import examine

        report = await asyncio.to_thread(
            lambda: asyncio.run(examine(self.folder))
        )  # it reads files between its questions
        self.read("Doctor", "\n".join(report.lines()))

    def action_picture(self) -> None:
        """Write a picture, once the palette is gone."""
        self.call_after_refresh(self._shoot)

    def _shoot(self) -> None:
        screen = getattr(self.screen, "NAME", "") or "screen"
        name = f"hudtui-{screen}-{self.services.now():%H%M%S}.svg"
        try:
            self.say(
                f"The picture is in {self.save_screenshot(name, str(self.folder))}",
                severity="success",
            )
        except OSError as error:
            self.say(f"The picture cannot be written: {error.strerror}", severity="error")

    def action_ring(self) -> None:
        on = not self.preferences.bell
        self.prefer(bell=on)
        self.say("The bell rings when a run ends or has an alarm." if on else "The bell is off.")

    def action_desktop(self) -> None:
        on = not self.preferences.desktop
        self.prefer(desktop=on)
        if on:
            self._show_on_desktop("a run that ends or has an alarm is shown like this")
        words = (
            "Runs that end or have an alarm are shown as notifications, if the terminal supports "
            "them (OSC 9)."
        )
        self.say(words if on else "Desktop notifications are off.")

    def _show_on_desktop(self, text: str) -> None:
        from hudtui.tui.notification import notification

        if self.terminal is not None:
            self.terminal.write(notification(text))

    def tell_of_run(self, text: str, *, bad: bool) -> None:
        """Report news of a run: by the bell, and if no screen shows it, as a message."""
        if self.preferences.bell:
            self.bell()
        if self.preferences.desktop:
            self._show_on_desktop(text)
        if getattr(self.screen, "NAME", "") != "run":
            self.say(text, severity="warning" if bad else "success")

    def action_theme(self) -> None:
        from hudtui.tui.palette import ThemePick, theme_names

        before, names = self.theme, theme_names(self.available_themes)

        def chosen(at: int | None) -> None:
            if at is None:
                self.theme = before
            else:
                self.set_theme(names[at])

        self.push_screen(ThemePick(names, before), chosen)

    def set_theme(self, name: str) -> None:
        """Take a theme and keep the choice."""
        self.theme = name
        self.prefer(theme=name)

    def action_mouse(self) -> None:
        on = not self.preferences.mouse
        self.prefer(mouse=on)
        if use_mouse := getattr(self.terminal, "use_mouse", None):
            use_mouse(on)
        self.say("The mouse is hudtui's." if on else "The mouse is the terminal's: drag to select.")

    @contextlib.contextmanager
    def suspend(self) -> Iterator[None]:
        """Leave the terminal to another program for a while.

        Raises:
            MachineError: There is no terminal that can be left.
        """
        try:
            with super().suspend():
                yield
        except SuspendNotSupported as error:
            raise MachineError(
                "this terminal cannot be left to another program",
                fix="Start the program in a terminal of its own.",
            ) from error

    def action_suspend(self) -> None:
        self.action_suspend_process()

    def action_message(self) -> None:
        """Show the message bar's text in full, and earlier messages, the newest first."""
        screen = self.screen
        current = screen.message if isinstance(screen, HudtuiScreen) else ""
        before = [
            (at, severity, words)
            for at, severity, words in reversed(self.messages)
            if words != current
        ]
        lines = [current] if current else []
        lines += ["", "Before:"] if current and before else []
        lines += [
            f"{at.astimezone():%H:%M:%S}  {GLYPHS[severity][0]} {words}"
            for at, severity, words in before
        ]
        if lines:
            self.read("Messages", "\n".join(lines))
        else:
            self.say("No messages yet.")


def _quit_title(running: tuple[RunFact, ...], paid: tuple[UnattendedPod, ...]) -> str:
    """The question, with the most important fact in it."""
    from hudtui.core.text import plural

    title = "Quit hudtui?"
    if paid:
        title += (
            f" {plural(len(paid), 'machine')} {'costs' if len(paid) == 1 else 'cost'} money "
            "without hudtui"
        )
    elif running:
        title += f" {plural(len(running), 'run')} {'is' if len(running) == 1 else 'are'} active"
    return title


def run_app(
    folder: Path | None = None,
    debug: bool = False,
    *,
    opens: tuple[str, Mapping[str, Any]] | None = None,
) -> int:
    """Open the app and wait for its end.

    Args:
        folder: See `HudtuiApp`, as for the others.
        debug: Log in detail.
        opens: A screen to open at once.

    Returns:
        The exit status: 0, or 1 when the app broke.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        print("hudtui needs a terminal. The same work without one: hudtui --help", file=sys.stderr)  # noqa: T201
        return 2
    app = HudtuiApp(folder, debug=debug, opens=opens)
    app.run(mouse=app.preferences.mouse)
    while app.open_next is not None and not app.lost:
        app = HudtuiApp(app.open_next, debug=debug)
        app.run(mouse=app.preferences.mouse)
    if app.lost:
        # Nothing can be printed any more, not even by the interpreter's last flush.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
    elif not app.asked_to_end and not app.crash_words:
        app.ended_unasked()
    for line in (*app.crash_words, *app.parting):
        print(line, file=sys.stderr)  # noqa: T201
    return 1 if app.crash_words else app.return_code or 0
