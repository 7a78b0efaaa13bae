"""A tree whose labels are plain text."""

from __future__ import annotations

from typing import ClassVar, TypeVar

from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from hudtui.core.text import clean_line
from hudtui.tui.actions import Acting, AppAction, by_key
from hudtui.tui.widgets.lists import MOVES

T = TypeVar("T")


class Branches(Acting, Tree[T]):
    """A tree.

    It posts `Tree.NodeSelected` for Enter or a click, and `NodeHighlighted` for movement.
    """

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        *MOVES,
        by_key("tree.open", "Open branch", "Open the branch, or go to its first leaf.", "l,right"),
        by_key("tree.close", "Close branch", "Close the branch, or go to the one above.", "h,left"),
    )
    DEFAULT_CSS = """
    Branches { background: $background; height: 1fr; padding: 0; }
    Branches:focus { background-tint: $foreground 0%; }
    """
    show_root = False
    auto_expand = (
        False  # Enter opens what a row is about; a click on its arrow still closes the branch
    )
    guide_depth = 2

    def process_label(self, label: str | Text) -> Text:
        """Labels are cleaned and never read as markup."""
        return Text(clean_line(label)) if isinstance(label, str) else label

    action_down, action_up = Tree.action_cursor_down, Tree.action_cursor_up
    action_first, action_last = Tree.action_scroll_home, Tree.action_scroll_end

    def action_open(self) -> None:
        node = self.cursor_node
        if node is None or not node.allow_expand:
            return
        if node.is_expanded:
            self.action_cursor_down()
        else:
            node.expand()

    def action_close(self) -> None:
        node: TreeNode[T] | None = self.cursor_node
        if node is None:
            return
        if node.is_expanded and node.allow_expand:
            node.collapse()
        elif node.parent is not None and node.parent is not self.root:
            self.move_cursor(node.parent)
