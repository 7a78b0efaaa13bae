"""Environment: what can the agent do here?"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from hudtui.core.environment.form_args import hub_call, read_form
from hudtui.core.environment.images import image_bytes
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.text import clean_line
from hudtui.core.workspace import STATE_FOLDER
from hudtui.tui.actions import AppAction, Reason, by_key, cancel_action, unless
from hudtui.tui.environment.connection import Connection
from hudtui.tui.environment.panes import Leaf, ResultPane, ToolPane, ToolsPane
from hudtui.tui.environment.tool_form import ToolForm
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen, started
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.fields import Field, TextEntry
from hudtui.tui.widgets.pane import Panes
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.environment.source import Source

_NOTHING = "No environment is open."
_NAME = "Name one above ({key:environment.source}) and press Enter"
_HINT = f"{_NAME}; an empty field takes text-2048, which comes with hudtui"


RECENT = 3600.0
"""Seconds for which a program of the project is not started again unasked: the MCP SDK alone takes
30 MiB and a second."""


class _Source(TextEntry):
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "source.submit",
            "Connect",
            "Connect to the environment that is named here, and analyze it.",
            "enter",
            palette=False,
        ),
    )

    def __init__(self, *, placeholder: str, id: str) -> None:  # noqa: A002
        super().__init__(placeholder=placeholder, id=id)
        self.recent: tuple[str, ...] = ()
        """Sources that were used, the last one first: the up and down keys go through them."""
        self._back, self._typed = -1, ""

    async def on_key(self, event: events.Key) -> None:
        if event.key not in ("up", "down"):
            self._back = -1
            return
        event.stop()
        event.prevent_default()
        if self._back < 0:
            self._typed = self.value
        others = [one for one in self.recent if one != self._typed]
        self._back = max(min(self._back + (1 if event.key == "up" else -1), len(others) - 1), -1)
        self.value = others[self._back] if self._back >= 0 else self._typed
        self.cursor_position = len(self.value)


_NAMED = unless(lambda screen: screen.source is not None, "name an environment first")
_CONNECTED = unless(
    lambda screen: screen.analysis is not None, "the environment is not connected yet"
)


def _servers(words: str) -> Reason:
    """Return a reason against actions on an environment that has no servers."""
    return unless(lambda screen: screen.source is None or screen.source.servers, words)


class EnvironmentScreen(HudtuiScreen):
    """Name a source, see its tools, call one by hand, generate a configuration."""

    NAME = "environment"
    TITLE = "environment"
    AUTO_FOCUS = ""
    CSS_PATH = "environment.tcss"
    HELP = (
        "Name an environment: a bundled one (text-2048), an image (org/name:tag), a folder, a lock "
        "file, a URL, an mcp_config, tcp://host:port, or a command after `--`. The last analysis "
        "is shown at once; {key:environment.look} analyzes again. A call by hand shows what the "
        "agent would see. {key:environment.generate} writes a configuration for the environment, "
        "{key:environment.new-task} makes tasks on one page: prompt, calls, expectations and "
        "variables. `hudtui env serve` serves it to trainers over the OpenEnv protocol."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("environment.source", "Source", "Name the environment to open.", "a"),
        AppAction(
            "environment.look",
            "Refresh",
            "Connect to the environment and analyze it again.",
            "r",
            when=(_NAMED,),
        ),
        AppAction(
            "environment.call",
            "Call",
            "Fill in the form and call the selected tool.",
            "c",
            when=(
                unless(lambda screen: isinstance(screen.selected, Tool), "select a tool first"),
                _servers("this source can be read, but not connected to"),
            ),
        ),
        AppAction(
            "environment.generate",
            "Generate config",
            "Write a gym configuration for this environment.",
            "w",
            asks=True,
            when=(
                _NAMED,
                _CONNECTED,
                unless(
                    lambda screen: screen.analysis.agent_tools,
                    "this environment has no tools for an agent",
                ),
            ),
        ),
        AppAction(
            "environment.new-task",
            "New tasks",
            "Make tasks for this environment on one page.",
            "n",
            asks=True,
            when=(
                _NAMED,
                _CONNECTED,
                _servers("a task needs an environment with servers that can be started or reached"),
            ),
        ),
        AppAction(
            "environment.play", "Play", "Play a task of this project: by hand, or by a policy.", "p"
        ),
        AppAction(
            "environment.image",
            "Open image",
            "Open the image of the last answer outside the terminal.",
            "o",
            show=False,
            when=(unless(lambda screen: screen.result.images, "the last result has no image"),),
        ),
        AppAction(
            "environment.login",
            "Log in or out",
            "Log in at the server, in a browser; or forget the login.",
            "L",
            show=False,
            when=(
                unless(
                    lambda screen: (
                        screen.source is not None
                        and any(not spec.command for spec in screen.source.servers)
                    ),
                    "a login is for environments at an http(s) address",
                ),
            ),
        ),
        AppAction(
            "environment.disconnect",
            "Disconnect",
            "End the connection that calls by hand keep open.",
            "x",
            show=False,
            when=(
                unless(
                    lambda screen: screen.connection.session is not None, "there is no connection"
                ),
            ),
        ),
        cancel_action("environment", "Stop the analysis, the call or the test of a new task."),
        AppAction(
            "environment.notes",
            "Notes",
            "Read the warnings and the server's instructions.",
            "i",
            show=False,
            when=(_NAMED, _CONNECTED),
        ),
        by_key(
            "environment.back",
            "Back",
            "Go to the tools; there, show all of them; from there, home.",
            "escape",
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.source: Source | None = None
        self.analysis: Analysis | None = None
        self._tools, self._tool, self.result = ToolsPane(), ToolPane(), ResultPane()
        self.connection = Connection(self, self._connection_changed)

    # -- what is on it
    # ----------------------------------------------------------------------------------------------

    def content(self) -> Iterable[Widget]:
        with Horizontal(id="env-source"):
            yield Static(Content.styled("Source ", "bold $primary"), classes="label")
            yield _Source(
                placeholder="text-2048, org/name:tag, folder, URL, lock file, -- command …",
                id="source",
            )
            yield CalmStatic(id="env-state")
        yield EmptyState(_NOTHING, _HINT, id="env-empty")
        with Panes(id="env-panes"):
            yield self._tools
            with Vertical():
                yield self._tool
                yield self.result

    def on_mount(self) -> None:
        self.query_one(Panes).display = False
        self.query_one(EmptyState).display = False  # until it is known that nothing is remembered
        self._show_state()

    @property
    def selected(self) -> Leaf:
        """The tool, resource or prompt under the cursor."""
        return self._tools.selected

    def opened(self, **given: Any) -> None:
        """Open `source` if one is given; otherwise show the last analysis, or the lock file."""
        wanted = given.get("source")
        if wanted:
            self._look_at(str(wanted))
        elif self.source is None:
            self.start(self._recall, group="look")
        elif self.focused is None:
            self._to_tools()

    def facts_changed(self, facts: Facts) -> None:
        """Update the hint of the empty screen."""
        if self.analysis is None and self.source is None:
            self._show_nothing()

    def _show_nothing(self) -> None:
        facts = self.app.facts
        hint = (
            _HINT if facts is None or facts.lock is None else f"{_NAME}; {facts.lock.name} is here"
        )
        self.query_one(EmptyState).tell(_NOTHING, hint)

    # -- the source
    # ----------------------------------------------------------------------------------------------

    @started("recent")
    async def _read_recent(self) -> None:
        from hudtui.core.environment.cache import recent_sources

        self.query_one("#source", _Source).recent = await asyncio.to_thread(
            recent_sources, self.app.folder
        )

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The source field knows the sources that were used."""
        if event.widget.id == "source":
            self._read_recent()

    def action_source(self) -> None:
        field = self.query_one("#source", TextEntry)
        self.set_focus(field)
        field.action_select_all()

    def on_text_entry_left(self, event: TextEntry.Left) -> None:
        """Esc in the source field or the form."""
        event.stop()
        self._to_tools()

    def on_input_submitted(self, event: Field.Submitted) -> None:
        if event.input.id == "source":
            event.stop()
            self._look_at(event.value.strip() or "text-2048")

    def _look_at(self, text: str) -> None:
        self.query_one("#source", TextEntry).begin(text)
        self.start(lambda: self._open(text), group="look")

    async def _recall(self) -> None:
        """Open the environment that was analyzed last in this workspace, or its lock file."""
        from hudtui.core.environment.cache import latest_analysis

        found = await asyncio.to_thread(latest_analysis, self.app.folder)
        facts = self.app.facts
        if found is not None:
            await self._open(found.source, self.app.folder / STATE_FOLDER / "analyses")
        elif facts is not None and facts.lock is not None:
            await self._open(facts.lock.name)
        else:
            self.query_one(EmptyState).display = True
            self.set_focus(self.query_one("#source", TextEntry))

    async def _open(self, text: str, file: Path | None = None) -> None:
        """Show the cached analysis of a source at once, then analyze it again.

        A program of the project is not started if its analysis is recent. A server is always asked:
        a login may have expired.

        Args:
            text: The source.
            file: The file that names it; None when the user did.
        """
        from hudtui.core.environment.cache import analysis_age, load_analysis
        from hudtui.core.flows.generate import typed_source

        self._show_state("● analyzing", "$accent")
        try:
            source = await asyncio.to_thread(typed_source, self.app.project, text, file=file)
        except Exception:
            await self._forget()
            self._show_state("✗ not found", "$error")
            raise
        if self.source is None or source.key != self.source.key:
            await self._forget()
        self.source = source
        self.query_one("#source", TextEntry).begin(text)
        remembered = await asyncio.to_thread(load_analysis, source)
        if remembered is not None:
            self._take(remembered, fresh=False)
            age = analysis_age(remembered, self.app.services.now())
            programs = source.servers and all(server.command for server in source.servers)
            if file is not None and programs and age is not None and age < RECENT:
                return
        await self._look(by_itself=file is not None)

    async def _forget(self) -> None:
        """Clear what is shown of the previous environment."""
        await self.connection.close()
        self.source, self.analysis = None, None
        self._tools.show(None)
        self.query_one(Panes).display = False
        self.refresh_bindings()

    def action_look(self) -> None:
        self.start(self._look, group="look")

    async def _look(self, *, by_itself: bool = False) -> None:
        """Analyze the environment.

        With `by_itself`, the user did not ask for it and is asked nothing.
        """
        from hudtui.core.flows.analyze import analyze_source

        source = self.source
        if source is None:
            return
        self.connection.wait_for(f"Analyzing {source.text}")
        self._show_state("● analyzing", "$accent")
        self.query_one(EmptyState).tell("The environment is being analyzed …")
        shown = ", showing the last analysis" if self.analysis else ""
        try:
            login = None if by_itself else await asyncio.to_thread(self.app.project.settings)
            found = await analyze_source(
                source, self.app, on_event=self.connection.show_progress, login=login
            )
        except Exception:
            self._show_state(f"✗ connection failed{shown}", "$error")
            self._show_nothing()
            raise
        except asyncio.CancelledError:
            self._show_state(f"○ cancelled{shown}")
            self._show_nothing()
            raise
        self._take(found, fresh=True)
        if self.is_busy:
            self.clear_message()
        self.app.reload()

    @started("look")
    async def action_login(self) -> None:
        from hudtui.core.flows.login import kept_logins, log_in, log_out
        from hudtui.core.flows.person import Choice

        source = self.source
        assert source is not None
        if kept := await asyncio.to_thread(kept_logins, source):
            choices = (Choice("in", "Log in again"), Choice("out", "Log out: forget the login"))
            wanted = await self.app.choose("; ".join(login.words() for login in kept), choices)
            if wanted is None:
                return
            if wanted == "out":
                await self.connection.close()
                await log_out(source)
                self.say("The login is forgotten.", "success")
                return
        self.connection.wait_for(f"Logging in at {source.text}")
        settings = await asyncio.to_thread(self.app.project.settings)
        made = await log_in(source, self.app, settings, on_event=self.connection.show_progress)
        await self._look()
        words = "; ".join(login.words() for login in made)
        self.say(
            words[:1].upper() + words[1:] + "." if made else f"{source.text} asks for no login.",
            "success",
        )

    def has_use(self, action_id: str) -> bool:
        """There is something to cancel."""
        return bool(self.going("look", "call", "new-task"))

    def action_cancel(self) -> None:
        self.cancel("look", "call", "new-task")

    def _take(self, analysis: Analysis, *, fresh: bool) -> None:
        from hudtui.core.environment.cache import age_text, analysis_age

        self.analysis = analysis
        self.query_one(EmptyState).display = False
        self.query_one(Panes).display = True
        self._tools.show(analysis)
        if self.focused is None or self.focused.id == "source":
            self._to_tools()
        server = clean_line(f"{analysis.server.name} {analysis.server.version}".strip(), 40)
        if analysis.analyzed_at is None:
            self._show_state("○ read from a file", "$foreground-muted", server)
        elif fresh:
            took = analysis.timings.get("connect", 0.0)
            self._show_state(
                f"✓ connected{f' in {span(took)}' if took >= 0.05 else ''}", "$success", server
            )
        else:
            self._show_state(
                f"○ inspected {age_text(analysis_age(analysis, self.app.services.now()))}",
                "$foreground-muted",
                server,
            )
        self.refresh_bindings()

    def _show_state(
        self, text: str = "", style: str = "$foreground-muted", server: str = ""
    ) -> None:
        if self.connection.session is not None:
            text, style = "● connected", "bold $success"
        parts: list[Any] = [(f" {text}" if text else "", style)]
        if server:
            parts.append((f"  {server}", "$foreground-muted"))
        self.query_one("#env-state", Static).update(Content.assemble(*parts))

    # -- the panes
    # ----------------------------------------------------------------------------------------------

    @on(ToolsPane.Highlighted)
    def _show_leaf(self, event: ToolsPane.Highlighted) -> None:
        leaf = event.leaf

        def show() -> None:
            self._tool.show(leaf)
            self.result.show_leaf(leaf)
            self.refresh_bindings()

        self.when_keys_rest(show)

    @on(ToolsPane.Opened)
    def _open_leaf(self, event: ToolsPane.Opened) -> None:
        event.stop()
        self.keys_rested()
        self.query_one(Panes).open(self._tool)
        if isinstance(event.leaf, Tool):
            self._tool.form.enter()

    def action_back(self) -> None:
        """Go to the tools; from there, do what Esc does in every list."""
        if self.focused is self.query_one("#source") or not self.query_one(Panes).back():
            self.leave()

    def _to_tools(self) -> None:
        self.query_one(Panes).open(self._tools)

    def action_notes(self) -> None:
        analysis = self.analysis
        if analysis is None:
            return
        parts = [
            f"source      {analysis.source}",
            f"protocol    {analysis.protocol or 'not asked'}",
        ]
        parts += [f"{name:<11} {span(seconds)}" for name, seconds in analysis.timings.items()]
        if analysis.image:
            parts.append(f"image       {analysis.image}")
        if self.source is not None:
            from hudtui.core.flows.login import kept_logins

            parts += [f"login       {login.words()}" for login in kept_logins(self.source)]
        parts += ["", *(f"! {warning}" for warning in analysis.warnings)]
        if analysis.instructions:
            parts += ["", "Instructions of the server:", analysis.instructions]
        self.app.read("What is known of this environment", "\n".join(parts))

    # -- calling
    # ----------------------------------------------------------------------------------------------

    def action_call(self) -> None:
        """Go to the form; a tool without parameters is called at once."""
        self.keys_rested()
        if self._tool.form.fields:
            self.query_one(Panes).open(self._tool)
            self._tool.form.enter()
        else:
            self._call()

    def on_tool_form_submitted(self, event: ToolForm.Submitted) -> None:
        event.stop()
        self._call()

    def _call(self) -> None:
        self.keys_rested()
        tool = self.selected
        if isinstance(tool, Tool) and self.why_not("environment.call") is None:
            typed = self._tool.form.typed()
            self.start(lambda: self._called(tool, typed), group="call")

    async def _called(self, tool: Tool, typed: Any) -> None:
        name, arguments = hub_call(tool, read_form(tool, typed))
        assert self.source is not None
        result, seconds = await self.connection.call(self.source, name, arguments, title=tool.name)
        self._tools.called(tool)
        if tool is self.selected:
            self.result.show_result({"tool": name, "arguments": arguments}, result, seconds)
        panes = self.query_one(Panes)
        if panes.alone and panes.current is not self._tools:
            panes.open(self.result)
        self.refresh_bindings()

    def _connection_changed(self) -> None:
        self._show_state("○ not connected")
        self.refresh_bindings()

    @started("call", busy="Disconnecting")
    async def action_disconnect(self) -> None:
        await self.connection.close()
        self.say("Disconnected: the environment that calls by hand went to has ended.")

    async def on_unmount(self) -> None:
        await self.connection.close()

    def action_image(self) -> None:
        block = self.result.images[-1]
        self.start(lambda: self.open_image(image_bytes(block)), group="image")

    def action_play(self) -> None:
        self.app.open_screen("playing", back="environment")

    # -- on to the mapping
    # -------------------------------------------------------------------------------------------

    @started("generate")
    async def action_generate(self) -> None:
        from hudtui.core.flows.generate import write_config

        assert self.analysis is not None
        made = await write_config(self.app.project, self.analysis, self.app)
        if made is None or made.file is None:
            return
        self.app.reload()
        self.say(f"Wrote {made.report}", "success")
        if self.app.leads_back(self.NAME):
            self.app.go_back(self.NAME)
        else:
            self.app.open_screen("mapping", path=self.app.folder / made.file)

    # -- a new task
    # ----------------------------------------------------------------------------------------------

    @started("new-task")
    async def action_new_task(self) -> None:
        from hudtui.tui.task_form.open import for_environment
        from hudtui.tui.task_form.page import TaskPage

        source, analysis = self.source, self.analysis
        assert source is not None and analysis is not None
        tool = self.selected if isinstance(self.selected, Tool) else None
        typed = self._tool.form.typed() if tool is not None else {}
        context = await asyncio.to_thread(
            for_environment, self.app.project, source, analysis, tool, typed
        )
        made: str | None = await self.app.push_screen_wait(TaskPage(context))
        if made is None:
            return
        self.app.reload()
        self.say(made, "success")
