"""Environment: what can the agent do here?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static, TabbedContent, TabPane, Tree
from textual.widgets._tabbed_content import ContentTabs
from textual.widgets.tree import TreeNode

from hudtui.core.environment.form_args import form_fields, hub_call, read_form
from hudtui.core.environment.images import describe_image, save_image
from hudtui.core.environment.values import Analysis, ContentBlock, Prompt, Resource, Tool, ToolResult
from hudtui.core.errors import HudtuiError
from hudtui.core.events import Progress
from hudtui.core.json_text import pretty
from hudtui.core.text import clean, clean_line
from hudtui.core.workspace import STATE_FOLDER
from hudtui.tui.actions import AppAction
from hudtui.tui.environment.tool_form import ToolForm
from hudtui.tui.environment.tree import Branches
from hudtui.tui.facts import Facts
from hudtui.tui.screen import HudtuiScreen
from hudtui.tui.widgets.empty import EmptyState
from hudtui.tui.widgets.fields import Field, FilterField, TextEntry
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.json_view import JsonView, schema_text
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.words import span

if TYPE_CHECKING:
    from hudtui.core.environment.client import EnvironmentSession
    from hudtui.core.environment.source import Source

MOST_TOOLS = 500
"""A tree holds this many tools at once; beyond that the filter finds the others."""

_NOTHING = "No environment was looked at yet."
_NAME = "Name one above (a) and press Enter"
_HINT = f"{_NAME}; an empty field takes text-2048, which comes with hudtui"

Leaf = Tool | Resource | Prompt | None


class EnvironmentScreen(HudtuiScreen):
    """Name a source, see its tools, call one by hand, generate a configuration."""

    NAME = "environment"
    TITLE = "environment"
    AUTO_FOCUS = ""
    CSS_PATH = "environment.tcss"
    HELP = (
        "Name an environment: a bundled one (text-2048), an image (org/name:tag), a folder, a lock file, a URL, an mcp_config, "
        "tcp://host:port, or a command after `--`. Its tools appear on the left; what was seen last is shown at once and looked "
        "at anew with r. Call a tool by hand to see what the agent would see. w writes a configuration from what was found. "
        "Tab goes through everything that can be read or filled in, Esc back to the tools."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction("environment.source", "Source", "Name the environment to look at.", "a"),
        AppAction("environment.look", "Look again", "Connect to the environment and analyze it again.", "r"),
        AppAction("environment.filter", "Filter", "Show only tools whose name or description holds a word.", "slash"),
        AppAction("environment.call", "Call", "Fill in the form and call the selected tool.", "c"),
        AppAction("environment.generate", "Generate config", "Write a gym configuration for this environment.", "w", asks=True),
        AppAction("environment.image", "Open image", "Open the image of the last answer outside the terminal.", "o", show=False),
        AppAction("environment.disconnect", "Disconnect", "End the connection that calls by hand keep open.", "x", show=False),
        AppAction(
            "environment.cancel",
            "Cancel",
            "Stop the look or the call that is going on.",
            "ctrl+x",
            show=False,
            priority=True,
            yields=True,
        ),
        AppAction("environment.notes", "Notes", "Read the warnings and the server's instructions.", "i", show=False),
        AppAction(
            "environment.back",
            "Back",
            "Go to the tools; there, show all of them; from there, home.",
            "escape",
            show=False,
            palette=False,
        ),
        AppAction("environment.pane", "Next", "Go to the next field or pane.", "tab", show=False, palette=False),
        AppAction("environment.pane-before", "Before", "Go to the field or pane before.", "shift+tab", show=False, palette=False),
    )

    def __init__(self) -> None:
        super().__init__()
        self.source: Source | None = None
        self.analysis: Analysis | None = None
        self.selected: Leaf = None
        self._stack: AsyncExitStack | None = None
        self._session: EnvironmentSession | None = None
        self._images: tuple[ContentBlock, ...] = ()

    # -- what is on it -----------------------------------------------------------------------------------------------

    def content(self) -> Iterable[Widget]:
        """Source line, tree on the left, detail on the right."""
        with Horizontal(id="env-source"):
            yield Static(Content.styled("Source ", "bold $primary"), classes="label")
            yield TextEntry(placeholder="text-2048, org/name:tag, folder, URL, lock file, -- command …", id="source")
            yield Static(id="env-state")
        with Horizontal(id="env-panes"):
            with Vertical(id="env-left"):
                yield FilterField(placeholder="filter", id="env-filter")
                tree: Branches[Leaf] = Branches("tools", id="env-tree")
                yield tree
            with Vertical(id="env-right"):
                yield EmptyState(_NOTHING, _HINT, id="env-empty")
                with TabbedContent(id="env-tabs"):
                    with TabPane("About", id="about"), Page(id="env-page"):
                        yield Static(id="env-about")
                    with TabPane("Call", id="call"):
                        yield ToolForm(id="env-form")
                        yield JsonView(empty="The answer appears here.", id="env-answer")
                    with TabPane("JSON", id="json"):
                        yield JsonView(id="env-json")

    def on_mount(self) -> None:
        """Begin empty, with the source field waiting."""
        self.query_one("#env-tabs").display = False
        self.query_one(EmptyState).display = False  # until it is known that nothing is remembered
        self.query_one(FilterField).display = False
        self._show_state()

    def opened(self, **given: Any) -> None:
        """Look at `source` when one is handed on; else show what was seen last, or the lock file."""
        wanted = given.get("source")
        if wanted:
            self._look_at(str(wanted))
        elif self.source is None:
            self.start(self._recall, group="look")
        elif self.focused is None:
            self._to_tools()

    def facts_changed(self, facts: Facts) -> None:
        """Nothing here depends on them but the offers of the empty screen."""
        if self.analysis is None and self.source is None:
            hint = _HINT if facts.lock is None else f"{_NAME}; {facts.lock.name} is here"
            self.query_one(EmptyState).tell(_NOTHING, hint)

    def why_not(self, action_id: str) -> str | None:
        """What needs a source, a tool, an answer or a connection."""
        name = action_id.partition(".")[2]
        if name in ("look", "filter", "generate", "notes") and self.source is None:
            return "name an environment first"
        if name in ("filter", "generate", "notes") and self.analysis is None:
            return "the environment was not reached yet"
        if name == "generate" and self.analysis is not None and not self.analysis.agent_tools:
            return "this environment has no tools for an agent"
        if name == "call" and not isinstance(self.selected, Tool):
            return "select a tool first"
        if name == "call" and self.source is not None and not self.source.servers:
            return "this source can be read, but not connected to"
        if name == "image" and not self._images:
            return "the last answer held no image"
        if name == "disconnect" and self._session is None:
            return "there is no connection"
        return None

    # -- the source --------------------------------------------------------------------------------------------------

    def action_source(self) -> None:
        """Write into the source field."""
        field = self.query_one("#source", TextEntry)
        self.set_focus(field)
        field.action_select_all()

    def on_text_entry_left(self, event: TextEntry.Left) -> None:
        """Esc in the source field or the form."""
        event.stop()
        self._to_tools()

    def on_input_submitted(self, event: Field.Submitted) -> None:
        """Enter in the source field."""
        if event.input.id == "source":
            event.stop()
            self._look_at(event.value.strip() or "text-2048")

    def _look_at(self, text: str) -> None:
        self.query_one("#source", TextEntry).begin(text)
        self.start(lambda: self._open(text), group="look")

    async def _recall(self) -> None:
        """What was seen last in this workspace, else its lock file."""
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

        Args:
            text: The source.
            file: The file that names it; None when the user did.
        """
        from hudtui.core.environment.cache import load_analysis
        from hudtui.core.flows.generate import typed_source

        self._show_state("● looking", "$accent")
        try:
            source = await asyncio.to_thread(typed_source, self.app.project, text, file=file)
        except HudtuiError:
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
        await self._look()

    async def _forget(self) -> None:
        """Show nothing of the environment before: what stands here belongs to the name above it."""
        await self._disconnect()
        self.source, self.analysis, self.selected = None, None, None
        self.query_one(Branches).clear()
        self.query_one("#env-tabs").display = False
        self.query_one("#env-panes").remove_class("-detail")
        self.query_one(FilterField).display = False
        self.query_one(FilterField).begin("")
        self.refresh_bindings()

    def action_look(self) -> None:
        """Analyze the environment again."""
        self.start(self._look, group="look")

    async def _look(self) -> None:
        from hudtui.core.flows.analyze import analyze_source

        source = self.source
        if source is None:
            return
        self.busy(f"Looking at {source.text} (Ctrl-X cancels)")
        self._show_state("● looking", "$accent")
        shown = ", showing what was seen last" if self.analysis else ""
        try:
            found = await analyze_source(source, self.app, on_event=self._progress)
        except HudtuiError:
            self._show_state(f"✗ not reached{shown}", "$error")
            raise
        except asyncio.CancelledError:
            self._show_state(f"○ cancelled{shown}")
            raise
        self._take(found, fresh=True)
        if self.is_busy:
            self.clear_message()
        self.app.reload()

    def _progress(self, event: Progress) -> None:
        self.busy(f"{event.message or event.stage} (Ctrl-X cancels)")

    def has_use(self, action_id: str) -> bool:
        """There is something to cancel."""
        return bool(self.going("look", "call"))

    def action_cancel(self) -> None:
        """Stop what is going on."""
        going = self.going("look", "call")
        for worker in going:
            worker.cancel()
        self.say("Cancelled." if going else "Nothing is going on.", "information")

    def _take(self, analysis: Analysis, *, fresh: bool) -> None:
        from hudtui.core.environment.cache import age_text, analysis_age

        self.analysis = analysis
        self.query_one(EmptyState).display = False
        self.query_one("#env-tabs").display = True
        self._fill()
        if self.focused is None or self.focused.id == "source":
            self.set_focus(self.query_one(Branches))
        server = clean_line(f"{analysis.server.name} {analysis.server.version}".strip(), 40)
        if analysis.analyzed_at is None:
            self._show_state("○ read from a file", "$foreground-muted", server)
        elif fresh:
            took = analysis.timings.get("connect")
            self._show_state(f"✓ seen now{f' in {span(took)}' if took is not None else ''}", "$success", server)
        else:
            self._show_state(f"○ seen {age_text(analysis_age(analysis, self.app.services.now()))}", "$foreground-muted", server)
        self.refresh_bindings()

    def _show_state(self, text: str = "", style: str = "$foreground-muted", server: str = "") -> None:
        if self._session is not None:
            text, style = "● connected", "bold $success"
        parts: list[Any] = [(f" {text}" if text else "", style)]
        if server:
            parts.append((f"  {server}", "$foreground-muted"))
        self.query_one("#env-state", Static).update(Content.assemble(*parts))

    # -- the tree ----------------------------------------------------------------------------------------------------

    def _fill(self) -> None:
        analysis = self.analysis
        if analysis is None:
            return
        tree: Branches[Leaf] = self.query_one(Branches)
        word = self.query_one(FilterField).value.casefold().strip()
        before = getattr(self.selected, "name", None)
        tree.clear()
        fits = [tool for tool in analysis.tools if word in tool.name.casefold() or word in tool.description.casefold()]
        groups: tuple[tuple[str, list[Tool]], ...] = (
            ("Agent tools", [tool for tool in fits if tool.kind == "agent"]),
            ("Set-up and evaluation", [tool for tool in fits if tool.kind not in ("agent", "hidden")]),
            ("Hidden functions", [tool for tool in fits if tool.kind == "hidden"]),
        )
        chosen: TreeNode[Leaf] | None = None
        first: TreeNode[Leaf] | None = None
        for title, tools in groups:
            if not tools:
                continue
            branch = tree.root.add(f"{title} ({len(tools)})", expand=True)
            for tool in tools[:MOST_TOOLS]:
                kind = (
                    f"  {tool.kind}" if tool.kind in ("setup", "evaluate", "lifecycle") else f"  {tool.hub}" if tool.hub else ""
                )
                node = branch.add_leaf(f"{tool.name}{kind}", tool)
                first = first or node
                if tool.name == before:
                    chosen = node
            if len(tools) > MOST_TOOLS:
                branch.add_leaf(f"… {len(tools) - MOST_TOOLS} more: / filters", None)
        for title, others in (("Resources", analysis.resources), ("Prompts", analysis.prompts)):
            kept = [one for one in others if word in one.name.casefold() or word in getattr(one, "uri", "").casefold()]
            if kept:
                branch = tree.root.add(f"{title} ({len(kept)})", expand=len(kept) <= 20)
                for one in kept[:MOST_TOOLS]:
                    branch.add_leaf(one.name or getattr(one, "uri", ""), one)
        current = chosen or first
        if current is not None:
            self.call_after_refresh(tree.move_cursor, current)
            if current.data is not self.selected:
                self._select(current.data)
        elif word:
            self.say(f"Nothing holds {word!r}.", "information")

    def action_filter(self) -> None:
        """Show the filter and write into it."""
        field = self.query_one(FilterField)
        field.display = True
        self._to_tools(field)

    def on_input_changed(self, event: Field.Changed) -> None:
        """Narrow the tree while the filter is typed."""
        if event.input.id == "env-filter":
            event.stop()
            self._fill()

    def on_filter_field_left(self, event: FilterField.Left) -> None:
        """Back to the tree; an empty filter goes away."""
        event.stop()
        field = self.query_one(FilterField)
        field.display = bool(field.value)
        self._to_tools()

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Leaf]) -> None:
        """Show what the cursor is on."""
        if event.node.data is not None and event.node.data is not self.selected:
            self._select(event.node.data)

    def on_tree_node_selected(self, event: Tree.NodeSelected[Leaf]) -> None:
        """Enter on a leaf goes to its detail; on a narrow terminal that takes the place of the tree."""
        if event.node.data is not None:
            self._select(event.node.data)
            self._to_detail(self.query_one(TabbedContent).query_one(ContentTabs))

    def action_back(self) -> None:
        """To the tools; from there, what Esc does in every list."""
        if self.focused is self.query_one(Branches):
            self.leave()
        else:
            self._to_tools()

    def _to_tools(self, widget: Widget | None = None) -> None:
        """Go to the tools, or what stands beside them; a narrow terminal shows them in place of the detail."""
        self.query_one("#env-panes").remove_class("-detail")
        self.set_focus(widget or self.query_one(Branches))

    def _to_detail(self, widget: Widget) -> None:
        """Go to a part of the detail."""
        self.query_one("#env-panes").add_class("-detail")
        self.set_focus(widget)

    def action_pane(self) -> None:
        """Go to what comes next."""
        self._walk(1)

    def action_pane_before(self) -> None:
        """Go to what comes before."""
        self._walk(-1)

    def _walk(self, step: int) -> None:
        """Walk through everything that can have the focus, in the order in which it stands."""
        left: list[Widget] = [self.query_one("#source", TextEntry), self.query_one(FilterField), self.query_one(Branches)]
        left = [widget for widget in left if widget.display]
        right: list[Widget] = []
        tabs = self.query_one(TabbedContent)
        if tabs.display:
            inside: dict[str, list[Widget]] = {
                "about": [self.query_one("#env-page")],
                "call": [*self.query_one(ToolForm).entries, self.query_one("#env-answer")],
                "json": [self.query_one("#env-json")],
            }
            right = [tabs.query_one(ContentTabs), *inside[tabs.active]]
        order = [*left, *right]
        at = order.index(self.focused) if self.focused in order else -1 if step > 0 else 0
        widget = order[(at + step) % len(order)]
        (self._to_detail if widget in right else self._to_tools)(widget)

    # -- the detail --------------------------------------------------------------------------------------------------

    def _select(self, leaf: Leaf) -> None:
        self.selected = leaf
        self.query_one("#env-about", Static).update(self._about(leaf))
        if isinstance(leaf, Tool):
            self.query_one("#env-json", JsonView).show(leaf.to_json())
        elif leaf is not None:
            self.query_one("#env-json", JsonView).show(dict(vars(leaf)))
        self.query_one("#env-answer", JsonView).clear()
        self._images = ()
        self.query_one(ToolForm).ask(form_fields(leaf) if isinstance(leaf, Tool) else ())
        self.refresh_bindings()

    @staticmethod
    def _about(leaf: Leaf) -> Content:
        lines: list[Content] = []
        if isinstance(leaf, Tool):
            told = {
                "agent": "for the agent",
                "setup": "sets a task up; not for the agent",
                "evaluate": "judges a task; not for the agent",
                "lifecycle": "lifecycle; not for the agent",
                "hidden": f"function of the hub {leaf.hub}; not listed to the agent",
            }[leaf.kind]
            lines.append(Content.assemble((clean_line(leaf.name), "bold"), (f"  {told}", "$foreground-muted")))
            lines.append(Content(clean(leaf.description) or "No description."))
            lines += [Content(""), Content.styled("Parameters", "bold $primary"), schema_text(leaf.input_schema)]
        elif isinstance(leaf, Resource):
            lines.append(
                Content.assemble((clean_line(leaf.uri), "bold"), (f"  {clean_line(leaf.mime_type or '')}", "$foreground-muted"))
            )
            lines.append(Content(clean(leaf.description or leaf.name)))
        elif isinstance(leaf, Prompt):
            lines.append(Content.styled(clean_line(leaf.name), "bold"))
            lines.append(Content(clean(leaf.description)))
            lines.append(Content(f"Arguments: {clean_line(', '.join(leaf.arguments)) or 'none'}"))
        return Content("\n").join(lines)

    def action_notes(self) -> None:
        """Everything else that is known."""
        analysis = self.analysis
        if analysis is None:
            return
        parts = [f"source      {analysis.source}", f"protocol    {analysis.protocol or 'not asked'}"]
        parts += [f"{name:<11} {span(seconds)}" for name, seconds in analysis.timings.items()]
        if analysis.image:
            parts.append(f"image       {analysis.image}")
        parts += ["", *(f"! {warning}" for warning in analysis.warnings)]
        if analysis.instructions:
            parts += ["", "Instructions of the server:", analysis.instructions]
        self.app.read("What is known of this environment", "\n".join(parts))

    # -- calling -----------------------------------------------------------------------------------------------------

    def action_call(self) -> None:
        """Go to the form; from inside it, call."""
        tabs = self.query_one(TabbedContent)
        self.query_one("#env-panes").add_class("-detail")
        if tabs.active == "call" and not self.query_one(ToolForm).fields:
            self._call()
            return
        tabs.active = "call"
        self.call_after_refresh(self._enter_form)

    def _enter_form(self) -> None:
        form = self.query_one(ToolForm)
        if form.fields:
            form.enter()
        else:
            self._call()

    def on_tool_form_submitted(self, event: ToolForm.Submitted) -> None:
        """Enter in the form."""
        event.stop()
        self._call()

    def _call(self) -> None:
        tool = self.selected
        if isinstance(tool, Tool) and self.why_not("environment.call") is None:
            typed = self.query_one(ToolForm).typed()
            self.start(lambda: self._called(tool, typed), group="call")

    async def _called(self, tool: Tool, typed: Any) -> None:
        name, arguments = hub_call(tool, read_form(tool, typed))
        session = await self._connected()
        self.busy(f"Waiting for {tool.name} (Ctrl-X cancels)")
        began = time.monotonic()
        try:
            result = await session.call_tool(name, arguments)
        except HudtuiError:
            await self._disconnect()
            raise
        self.clear_message()
        self._images = tuple(block for block in result.blocks if block.type == "image")
        self.query_one("#env-answer", JsonView).show_text(_told(result, time.monotonic() - began))
        self.refresh_bindings()

    async def _connected(self) -> EnvironmentSession:
        from hudtui.core.environment.client import connect

        if self._session is None:
            assert self.source is not None
            self.busy(f"Connecting to {self.source.text} (Ctrl-X cancels)")
            stack = AsyncExitStack()
            self._session = await stack.enter_async_context(connect(self.source, on_event=self._progress))
            self._stack = stack
            self._show_state()
        return self._session

    def action_disconnect(self) -> None:
        """End the connection."""
        self.start(self._end(), group="call", busy="Disconnecting")

    async def _end(self) -> None:
        await self._disconnect()
        self.say("Disconnected: the environment that calls by hand went to has ended.")

    async def _disconnect(self) -> None:
        stack, self._stack, self._session = self._stack, None, None
        if stack is not None:
            await stack.aclose()
            if self.is_running:
                self._show_state("○ not connected")
                self.refresh_bindings()

    async def on_unmount(self) -> None:
        """Leave no server behind."""
        await self._disconnect()

    def action_image(self) -> None:
        """Save the image and open it with what the desktop has."""
        self.start(self._open_image(self._images[-1]), group="image")

    async def _open_image(self, block: ContentBlock) -> None:
        from hudtui.core.workspace import make_state_dir
        from hudtui.tui.open_externally import open_file

        folder = await asyncio.to_thread(make_state_dir, self.app.folder)
        path: Path = await asyncio.to_thread(save_image, block, folder / "images")
        if await open_file(path):
            self.say(f"Opened {path}", "success")
        else:
            self.say(f"No desktop to open it on; it is in {path}")

    # -- on to the mapping -------------------------------------------------------------------------------------------

    def action_generate(self) -> None:
        """Write a configuration."""
        self.start(self._generate(), group="generate")

    async def _generate(self) -> None:
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


def _told(result: ToolResult, seconds: float) -> str:
    took = span(seconds) if seconds >= 0.05 else "less than 0.1s"
    parts = [f"{'✗ error' if result.is_error else '✓ answered'} in {took}"]
    for block in result.blocks:
        if block.type == "text":
            parts.append(clean(block.text or ""))
        elif block.type == "image":
            parts.append(f"[image: {describe_image(block)}; Esc, then o opens it]")
        else:
            parts.append(f"[{clean_line(block.type, 40)} {clean_line(block.uri or block.mime_type or '', 200)}]")
            if block.text:
                parts.append(clean(block.text))
    if result.structured is not None:
        parts += ["structured: the same"] if result.repeats_text else ["structured:", pretty(result.structured)]
    return "\n".join(cut(line, 100_000) for part in parts for line in part.split("\n"))
