"""Serving: an environment with its tasks and its rubric for trainers, over the OpenEnv protocol."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList

from hudtui.core.events import Notice, Progress
from hudtui.core.flows.serve import Serving, exposure
from hudtui.core.openenv.options import ServeRequest
from hudtui.core.text import clean_line, plural
from hudtui.tui.actions import AppAction, by_key, cancel_action
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.dialog import whole_number
from hudtui.tui.widgets.field_rows import FieldRow, FieldRows
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.pane import Pane, Panes
from hudtui.tui.widgets.pick import Pick, pick_file
from hudtui.tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from hudtui.core.workspace import Workspace

_MUTED = "$foreground-muted"
_MOST_LINES = 500
"""Episodes and errors that are listed."""
_EVERY = 1.0
"""Seconds between two updates of the server's figures."""


class ServerPane(Pane):
    """What is served where; below it the server, while there is one."""

    BORDER_TITLE = "Server"
    HELP = "The configuration, the tasks and the address. Enter changes a row; a running server is not changed."

    def __init__(self) -> None:
        super().__init__(id="serve-server")
        self.rows, self.state = FieldRows(id="serve-rows"), CalmStatic(id="serve-state")

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self.state


class EventsPane(Pane):
    """Finished episodes and refused requests, the newest last."""

    BORDER_TITLE = "Episodes and errors"
    HELP = "A line for each episode that is over, and for each request that was answered with an error, the newest last."

    def __init__(self) -> None:
        super().__init__(id="serve-events")
        self.sheet = Sheet(id="serve-lines")

    def compose(self) -> ComposeResult:
        # Before the pane is mounted: an event may come while it is.
        self.sheet.show((Content.styled("Each episode appears here when it has ended.", _MUTED),))
        yield self.sheet


class ServingScreen(HudtuiScreen):
    """Start a server, see its address and what it does, end it."""

    NAME = "serving"
    TITLE = "serving"
    AUTO_FOCUS = "#serve-rows"
    CSS_PATH = "serving.tcss"
    HELP = (
        "Serve an environment to trainers (TRL, verifiers, ART and others) over the OpenEnv protocol: each client plays the "
        "tasks in an environment of its own, and the rubric gives the reward. {key:serving.start} starts the server, "
        "{key:serving.copy} copies its address or its token, {key:serving.end} ends it. The server continues while you look at "
        "another screen, and ends with hudtui; `hudtui env serve` does the same without the app."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("serving.start", "Start", "Start the server.", "ctrl+g", priority=True, decides=True),
        AppAction("serving.end", "End", "End the server and all its sessions.", "x", danger=True, asks=True),
        AppAction("serving.copy", "Copy", "Copy the address, the token or both.", "y", asks=True),
        cancel_action("serving", "Stop starting the server."),
        by_key("serving.back", "Back", "To the first pane; from there, back.", "escape"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.request = ServeRequest()
        """What is served next."""
        self.serving: Serving | None = None
        """The server that listens."""
        self._starting = False
        """A server is being started, and does not listen yet."""
        self._decided: set[str] = set()
        """Fields that the user has chosen: defaults of the project do not replace them."""
        self._lines: deque[Content] = deque(maxlen=_MOST_LINES)
        self._episodes, self._played, self._rewards = 0, 0, 0.0
        self._server, self._events = ServerPane(), EventsPane()

    def content(self) -> Iterable[Widget]:
        yield Panes(self._server, self._events)

    def on_mount(self) -> None:
        self._show()
        self.set_interval(_EVERY, self._show_state)

    def opened(self, **given: Any) -> None:
        """Take the given environment; missing values come from the project."""
        if given and self.serving is None:
            self.request = replace(self.request, **given)
            self._decided |= given.keys()
        self.start(self._choose_defaults, group="choose")

    def facts_changed(self, facts: Facts) -> None:
        if self.is_current:
            self.start(self._choose_defaults, group="choose")

    async def on_unmount(self) -> None:
        await self.stop("serve")

    def why_not(self, action_id: str) -> str | None:
        name = action_id.partition(".")[2]
        if name == "start" and self.going("serve"):
            return "a server is running; {key:serving.end} ends it"
        if name == "start" and self.request.tasks is None and self.request.source is None and not self.going("choose"):
            return "choose tasks or an environment first"
        if name in ("end", "copy") and self.serving is None:
            return "no server is running; {key:serving.start} starts one"
        return None

    def has_use(self, action_id: str) -> bool:
        return bool(self.going("serve")) and self.serving is None

    # -- choices -----------------------------------------------------------------------------------------------------

    async def _choose_defaults(self) -> None:
        workspace: Workspace = await asyncio.to_thread(lambda: self.app.workspace)
        request = self.request
        if request.tasks is None and request.source is None and "tasks" not in self._decided and workspace.task_files:
            request = replace(request, tasks=workspace.relative(workspace.task_files[0]))
        if request.config is None and request.source is None and "config" not in self._decided and workspace.configs:
            request = replace(request, config=Path(workspace.relative(workspace.configs[0])))
        self.request = request
        self._show()

    def _show(self) -> None:
        request = self.request
        self._server.rows.show(
            [
                FieldRow("config", "config", str(request.config or ""), "none: every tool is an action"),
                FieldRow("tasks", "tasks", request.tasks or "", "none: one task without a prompt"),
                FieldRow("source", "played in", request.source or "", "the environment of each task"),
                FieldRow("host", "host", request.host),
                FieldRow("port", "port", str(request.port) if request.port else "", "a free one"),
                FieldRow("token", "token", request.token_variable or ("not required" if request.open else ""), "a random one"),
                FieldRow("sessions", "sessions", str(request.sessions)),
                FieldRow("images", "images", "sent" if request.images else "", "not sent"),
                FieldRow("output", "kept in", str(request.out_dir or ""), "no file"),
            ]
        )
        self._show_state()

    @on(OptionList.OptionSelected, "#serve-rows")
    def _change(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        name = str(event.option.id)
        self.start(lambda: self._ask(name), group="ask")

    async def _ask(self, name: str) -> None:
        changed = await getattr(self, f"_ask_{name}")()
        if changed is not None:
            self.request = replace(self.request, **changed)
            self._decided |= changed.keys()
            self._show()
            if self.going("serve"):
                self.say("The running server is unchanged; this applies to the next one.")

    async def _ask_config(self) -> dict[str, Any] | None:
        chosen = await pick_file(self.app, "configs", str(self.request.config), none="none: every tool is an action")
        return None if chosen is None else {"config": Path(chosen) if chosen else None}

    async def _ask_tasks(self) -> dict[str, Any] | None:
        chosen = await pick_file(self.app, "task_files", self.request.tasks, none="none: one task without a prompt")
        return None if chosen is None else {"tasks": chosen or None}

    async def _ask_source(self) -> dict[str, Any] | None:
        lines = ("Empty: each task is played in its own environment.",)
        value = self.request.source or ""
        return _text("source", await self.app.ask("Play in", lines=lines, value=value, placeholder="text-2048, a URL, a folder"))

    async def _ask_host(self) -> dict[str, Any] | None:
        lines = ("127.0.0.1: this computer alone reaches the server.",)
        return _text("host", await self.app.ask("Listen at", lines=lines, value=self.request.host), empty="127.0.0.1")

    async def _ask_port(self) -> dict[str, Any] | None:
        return await self._number("port", "Port (0: a free one)", 0, 65_535)

    async def _ask_sessions(self) -> dict[str, Any] | None:
        return await self._number("sessions", "Sessions at once", 1, 4_096)

    async def _ask_token(self) -> dict[str, Any] | None:
        options = ("a random token", "the value of a setting …", "no token; only at an address of this computer alone")
        at = 1 if self.request.token_variable else 2 if self.request.open else 0
        index = await self.app.push_screen_wait(Pick("Which token do clients send?", options, at=at))
        if index is None:
            return None
        if index != 1:
            return {"token_variable": None, "open": index == 2}
        named = await self.app.ask("Setting that holds the token", placeholder="MY_SERVER_TOKEN")
        return None if not (named or "").strip() else {"token_variable": (named or "").strip(), "open": False}

    async def _ask_images(self) -> dict[str, Any] | None:
        return {"images": not self.request.images}

    async def _ask_output(self) -> dict[str, Any] | None:
        value = str(self.request.out_dir or "outputs/served")
        lines = ("The folder gets traces.jsonl. Empty: episodes are not kept.",)
        given = await self.app.ask("Keep episodes in", lines=lines, value=value)
        return None if given is None else {"out_dir": Path(given.strip()) if given.strip() else None}

    async def _number(self, name: str, title: str, least: int, most: int) -> dict[str, Any] | None:
        given = await self.app.ask(title, value=str(getattr(self.request, name)), check=whole_number(least, most))
        return None if given is None else {name: int(given)}

    # -- the server --------------------------------------------------------------------------------------------------

    @started("begin")
    async def action_start(self) -> None:
        await self.finish("choose")
        if reason := self.why_not("serving.start"):
            self.say(f"Start: {reason}")
            return
        request = self.request
        told = exposure(request)
        if told is not None and not await self.app.confirm(f"Listen at {request.host}?", (told,), yes="Listen", danger=True):
            return
        self.start(lambda: self._serve(request), group="serve")

    async def _serve(self, request: ServeRequest) -> None:
        from hudtui.core.flows.serve import serve_environment

        self._lines.clear()
        self._episodes, self._played, self._rewards = 0, 0, 0.0
        settings = await asyncio.to_thread(self.app.project.settings)
        try:
            self._starting = True
            async with aclosing(serve_environment(request, settings)) as events:
                async for event in events:
                    if isinstance(event, Progress):
                        self.busy(f"{event.message} ({{key:serving.cancel}} cancels)")
                    elif isinstance(event, Serving):
                        self.serving = event
                        self.say(f"Listening at {event.url}", "success")
                    elif isinstance(event, Notice):
                        self._add(event.message, "$warning" if event.severity != "info" else "")
                    else:
                        self._episodes += 1
                        if event.episode.ok:
                            self._played += 1
                            self._rewards += event.episode.scores.reward
                        self._add(event.line(), "$error" if event.episode.stop == "error" else "")
                    self._show_state()
        except asyncio.CancelledError:
            if self.is_attached and self.app.is_running:
                self.say("The server has ended, and so have its sessions." if self.serving else "The server was not started.")
            raise
        finally:
            self.serving, self._starting = None, False
            if self.is_attached and self.app.is_running:
                self._show_state()

    def _add(self, line: str, style: str) -> None:
        now = self.app.services.now().astimezone()
        self._lines.append(Content.assemble((f"{now:%H:%M:%S} ", _MUTED), (clean_line(line, 600), style)))
        self._events.sheet.show(tuple(self._lines))
        self._events.sheet.scroll_end(animate=False)

    def _show_state(self) -> None:
        state, serving = self._server.state, self.serving
        self._server.note_on_border("listens" if serving is not None else "", "bold $success")
        if serving is None:
            state.update(Content.styled("The server is starting …" if self._starting else "No server is running.", _MUTED))
            self.refresh_bindings()
            return
        load = serving.load()
        mean = f", mean reward {self._rewards / self._played:.3f}" if self._played else ""
        denied = f", {load.denied:,} denied" if load.denied else ""
        rows = {
            "address": serving.url,
            "token": "not required" if serving.token is None else self.app.keys_in("required; {key:serving.copy} copies it"),
            "serves": f"{plural(serving.tasks, 'task')}; {', '.join(serving.actions)}",
            "sessions": f"{load.sessions} of {serving.sessions} open",
            "requests": f"{load.requests:,}, {plural(load.errors, 'error')}{denied}",
            "episodes": f"{self._episodes:,}{mean}",
        }
        lines = [Content.assemble((pad(name, 10), "bold $primary"), clean_line(value, 300)) for name, value in rows.items()]
        state.update(Content("\n").join(lines))
        self.refresh_bindings()

    @started("end")
    async def action_end(self) -> None:
        serving = self.serving
        if serving is None:
            return
        count = serving.load().sessions
        if count and not await self.app.confirm(
            "End the server?", (f"{plural(count, 'session')} with a client would end with it.",), yes="End it", danger=True
        ):
            return
        await self.stop("serve")

    def action_cancel(self) -> None:
        for worker in self.going("serve", "begin"):
            worker.cancel()

    @started("copy")
    async def action_copy(self) -> None:
        serving = self.serving
        assert serving is not None
        texts = {"the address": serving.url, "the address of the socket": serving.socket}
        if serving.token is not None:
            texts |= {
                "the token": serving.token,
                "the header of the token": f"Authorization: Bearer {serving.token}",
                "the address with the token in it": f"{serving.url}/{serving.token}",
            }
        index = await self.app.push_screen_wait(Pick("Copy what?", list(texts)))
        if index is not None:
            text = list(texts.values())[index]
            self.app.copy(text, secret=serving.token is not None and serving.token in text)

    def action_back(self) -> None:
        if not self.query_one(Panes).back():
            self.leave()


def _text(name: str, given: str | None, *, empty: str | None = None) -> dict[str, Any] | None:
    return None if given is None else {name: given.strip() or empty}
