"""The panes of the environment screen.

What the environment offers, one tool with its form, and the last result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from hudtui.core.environment.form_args import form_fields, signature
from hudtui.core.environment.images import describe_image
from hudtui.core.environment.values import (
    Analysis,
    ContentBlock,
    Prompt,
    Resource,
    Tool,
    ToolResult,
)
from hudtui.core.json_text import pretty
from hudtui.core.text import clean, clean_line, plural
from hudtui.tui.environment.tool_form import ToolForm
from hudtui.tui.environment.tree import Branches
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fit import cut
from hudtui.tui.widgets.json_view import JsonView, schema_text
from hudtui.tui.widgets.pane import Pane, ViewsPane
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.table_pane import FilteredPane
from hudtui.tui.widgets.words import took

MOST_TOOLS = 500
"""Most tools in the tree; the filter finds the others."""

Leaf = Tool | Resource | Prompt | None

_MEANS = {
    "agent": "for the agent",
    "setup": "sets a task up; not for the agent",
    "evaluate": "judges a task; not for the agent",
    "lifecycle": "lifecycle; not for the agent",
}


class ToolsPane(FilteredPane):
    """What the environment offers, as a tree: tools with their parameters, resources, prompts."""

    BORDER_TITLE = "Tools"
    HELP = (
        "The tools of the environment. Functions of a hub are listed below its tool. ▸ 3x: the "
        "tool was called three times."
    )

    @dataclass
    class Highlighted(Message):
        """The cursor is on another leaf."""

        leaf: Leaf

    class Opened(Highlighted):
        """Enter was pressed on a leaf."""

    def __init__(self) -> None:
        super().__init__("words of a name or a description", id="env-tools")
        self.branches: Branches[Leaf] = Branches("tools", id="env-tree")
        self.selected: Leaf = None
        self.calls: dict[str, int] = {}
        """Tool -> how often it was called since the environment was opened."""
        self._analysis: Analysis | None = None

    def compose(self) -> ComposeResult:
        yield self.branches

    def first_focus(self) -> Branches[Leaf]:
        return self.branches

    def show(self, analysis: Analysis | None) -> None:
        """Show what an environment offers; None empties the pane."""
        if analysis is None:
            self.selected = None
            self.calls.clear()
            self.filter_field.begin("")
            self.show_filter(False)
            self.branches.clear()
        self._analysis = analysis
        self._fill()

    def called(self, tool: Tool) -> None:
        self.calls[tool.name] = self.calls.get(tool.name, 0) + 1
        for node in self._leaves(self.branches.root):
            if node.data is tool:
                node.set_label(self._label(tool))

    def _leaves(self, node: TreeNode[Leaf]) -> list[TreeNode[Leaf]]:
        return [leaf for child in node.children for leaf in (child, *self._leaves(child))]

    def _label(self, tool: Tool) -> Text:
        kind = tool.kind if tool.kind in ("setup", "evaluate", "lifecycle") else ""
        parts: list[Any] = [clean_line(signature(tool), 200)]
        if kind and kind != tool.name:
            parts.append((f"  {kind}", "dim"))
        if count := self.calls.get(tool.name):
            parts.append((f"  ▸ {count}x", "dim"))
        return Text.assemble(*parts)

    def _fill(self) -> None:
        analysis, tree = self._analysis, self.branches
        if analysis is None:
            return
        word = self.filter_field.value.casefold().strip()
        before = getattr(self.selected, "name", None)
        tree.clear()
        fits = [
            tool
            for tool in analysis.tools
            if word in tool.name.casefold() or word in tool.description.casefold()
        ]
        hidden = [tool for tool in fits if tool.kind == "hidden"]
        groups: tuple[tuple[str, list[Tool]], ...] = (
            ("Agent tools", [tool for tool in fits if tool.kind == "agent"]),
            (
                "Setup and evaluation",
                [tool for tool in fits if tool.kind not in ("agent", "hidden")],
            ),
        )
        nodes: dict[str, TreeNode[Leaf]] = {}
        for title, tools in groups:
            if not tools:
                continue
            branch = tree.root.add(f"{title} ({len(tools)})", expand=True)
            for tool in tools[:MOST_TOOLS]:
                below = any(one.hub == tool.name for one in hidden)
                label = self._label(tool)
                node = (
                    branch.add(label, tool, expand=True) if below else branch.add_leaf(label, tool)
                )
                nodes.setdefault(tool.name, node)
            if len(tools) > MOST_TOOLS:
                branch.add_leaf(
                    self.app.keys_in(
                        f"… {len(tools) - MOST_TOOLS} more: {{key:list.filter}} filters"
                    ),
                    None,
                )
        alone: TreeNode[Leaf] | None = None
        for tool in hidden[:MOST_TOOLS]:
            hub = nodes.get(tool.hub or "")
            if hub is None and alone is None:
                alone = tree.root.add("Hidden functions", expand=True)
            parent = hub or alone
            assert parent is not None
            nodes.setdefault(tool.name, parent.add_leaf(self._label(tool), tool))
        for title, others in (("Resources", analysis.resources), ("Prompts", analysis.prompts)):
            kept = [
                one
                for one in others
                if word in one.name.casefold() or word in getattr(one, "uri", "").casefold()
            ]
            if kept:
                branch = tree.root.add(f"{title} ({len(kept)})", expand=len(kept) <= 20)
                for one in kept[:MOST_TOOLS]:
                    nodes.setdefault(
                        one.name, branch.add_leaf(one.name or getattr(one, "uri", ""), one)
                    )
        current = nodes.get(before) if before is not None else None
        current = current or next(iter(nodes.values()), None)
        self.note_on_border(f"{len(fits)} of {plural(len(analysis.tools), 'tool')}" if word else "")
        if current is not None:
            self.call_after_refresh(tree.move_cursor, current)
            if current.data is not self.selected:
                self._select(current.data)

    def _select(self, leaf: Leaf) -> None:
        self.selected = leaf
        self.post_message(self.Highlighted(leaf))

    @on(Tree.NodeHighlighted)
    def _highlight(self, event: Tree.NodeHighlighted[Leaf]) -> None:
        event.stop()
        if event.node.data is not None and event.node.data is not self.selected:
            self._select(event.node.data)

    @on(Tree.NodeSelected)
    def _open(self, event: Tree.NodeSelected[Leaf]) -> None:
        event.stop()
        if event.node.data is None:
            event.node.toggle()
        else:
            if event.node.data is not self.selected:
                self._select(event.node.data)
            self.post_message(self.Opened(event.node.data))

    def filtered(self) -> None:
        self._fill()


class ToolPane(Pane):
    """One tool: what it does, its parameters, and the form that calls it.

    Resources and prompts are shown without a form.
    """

    BORDER_TITLE = "Tool"
    HELP = "What the tool does, and a form with its arguments. Enter in the form calls the tool."
    DEFAULT_CSS = """
    ToolPane > Page { height: 1fr; }
    ToolPane > Page > Static { height: auto; padding: 0 1; }
    ToolPane > ToolForm { height: auto; border-top: solid $panel; }
    """

    def __init__(self) -> None:
        super().__init__(id="env-tool")
        self.about = CalmStatic(id="env-about")
        self.form = ToolForm(id="env-form")

    def compose(self) -> ComposeResult:
        with Page(id="env-page"):
            yield self.about
        yield self.form

    def show(self, leaf: Leaf) -> None:
        """Show a tool, a resource or a prompt."""
        self.name_on_border(
            signature(leaf) if isinstance(leaf, Tool) else getattr(leaf, "name", "") or "Tool"
        )
        self.about.update(about_leaf(leaf))
        self.form.display = isinstance(leaf, Tool)
        self.form.ask(form_fields(leaf) if isinstance(leaf, Tool) else ())


def about_leaf(leaf: Leaf) -> Content:
    """What is known of a tool, a resource or a prompt."""
    lines: list[Content] = []
    if isinstance(leaf, Tool):
        means = _MEANS.get(leaf.kind) or f"function of the hub {leaf.hub}; not listed to the agent"
        lines.append(
            Content.assemble((clean_line(leaf.name), "bold"), (f"  {means}", "$foreground-muted"))
        )
        lines.append(Content(clean(leaf.description) or "No description."))
        lines += [
            Content(""),
            Content.styled("Parameters", "bold $primary"),
            schema_text(leaf.input_schema),
        ]
    elif isinstance(leaf, Resource):
        lines.append(
            Content.assemble(
                (clean_line(leaf.uri), "bold"),
                (f"  {clean_line(leaf.mime_type or '')}", "$foreground-muted"),
            )
        )
        lines.append(Content(clean(leaf.description or leaf.name)))
    elif isinstance(leaf, Prompt):
        lines.append(Content.styled(clean_line(leaf.name), "bold"))
        lines.append(Content(clean(leaf.description)))
        lines.append(Content(f"Arguments: {clean_line(', '.join(leaf.arguments)) or 'none'}"))
    return Content("\n").join(lines)


class ResultPane(ViewsPane):
    """The last result as text or as JSON, its request, and the tool's JSON.

    The request led to the result; the tool is as the server lists it.
    """

    BORDER_TITLE = "Result"
    HELP = (
        "The result of the last call. {key:views.next} shows the text, the JSON, the request, then "
        "the tool's JSON."
    )
    VIEWS: ClassVar[tuple[str, ...]] = ("text", "json", "request", "tool")

    def __init__(self) -> None:
        super().__init__(id="env-result")
        self.json_view = JsonView(empty="The result of a call appears here.", id="env-answer")
        self.images: tuple[ContentBlock, ...] = ()
        self._leaf: Leaf = None
        self._called: tuple[dict[str, Any], ToolResult, float] | None = None

    def compose(self) -> ComposeResult:
        yield self.json_view

    def show_leaf(self, leaf: Leaf) -> None:
        """Show another tool, and clear the previous result."""
        self._leaf, self._called, self.images = leaf, None, ()
        self.turn_to(self.view)

    def show_result(self, request: dict[str, Any], result: ToolResult, seconds: float) -> None:
        """Show the result of a call, and the seconds that it took."""
        self._called = (request, result, seconds)
        self.images = tuple(block for block in result.blocks if block.type == "image")
        self.turn_to(self.view if self.view in ("text", "json") else "text")

    def show_view(self) -> None:
        called, view = self._called, self.view
        if view == "tool":
            leaf = self._leaf
            self.json_view.show(
                leaf.to_json()
                if isinstance(leaf, Tool)
                else dict(vars(leaf))
                if leaf is not None
                else None
            )
        elif called is None:
            self.json_view.clear()
        elif view == "request":
            self.json_view.show(called[0])
        elif view == "json":
            self.json_view.show(_result_json(called[1]))
        else:
            hint = self.app.keys_in("; Esc, then {key:environment.image} opens it")
            self.json_view.show_text(result_text(called[1], called[2], hint))
        title = "Result"
        if called is not None:
            title = f"Result · {took(called[2])} · {'✗ error' if called[1].is_error else '✓ ok'}"
        self.name_on_border(title)


def _result_json(result: ToolResult) -> dict[str, Any]:
    """A result as in the protocol, with the size of an image in place of its data."""
    blocks = []
    for block in result.blocks:
        fields = {
            "type": block.type,
            "text": block.text,
            "uri": block.uri,
            "mimeType": block.mime_type,
        }
        if block.type == "image":
            fields["data"] = describe_image(block)
        blocks.append({name: value for name, value in fields.items() if value is not None})
    found: dict[str, Any] = {"content": blocks, "isError": result.is_error}
    if result.structured is not None:
        found["structuredContent"] = result.structured
    return found


def result_text(result: ToolResult, seconds: float, image_hint: str = "") -> str:
    """A result in words.

    Its duration, then its blocks as the agent sees them; `image_hint` says how to open an image.
    """
    parts = [f"{'✗ error' if result.is_error else '✓ answered'} in {took(seconds)}"]
    for block in result.blocks:
        if block.type == "text":
            parts.append(clean(block.text or ""))
        elif block.type == "image":
            parts.append(f"[image: {describe_image(block)}{image_hint}]")
        else:
            parts.append(
                f"[{clean_line(block.type, 40)} "
                f"{clean_line(block.uri or block.mime_type or '', 200)}]"
            )
            if block.text:
                parts.append(clean(block.text))
    if result.structured is not None:
        parts += (
            ["structured: the same"]
            if result.repeats_text
            else ["structured:", pretty(result.structured)]
        )
    return "\n".join(cut(line, 100_000) for part in parts for line in part.split("\n"))
