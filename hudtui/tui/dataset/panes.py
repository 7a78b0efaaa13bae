"""The panes of the dataset screen: the tasks, what is known of one or of all, and the problems."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from hudtui.tui.dataset.rows import PROBLEMS, Shown, columns_for
from hudtui.tui.widgets.fields import FilterField
from hudtui.tui.widgets.pane import Pane, ViewsPane
from hudtui.tui.widgets.scrolling import Page
from hudtui.tui.widgets.virtual_table import VirtualTable

_VIEWS: dict[str, str] = {"task": "Task", "stats": "Statistics", "test": "Test"}
_EMPTY: dict[str, str] = {
    "task": "No task is selected.",
    "stats": "Counted when the tasks are read.",
    "test": "{key:dataset.test} sets the selected task up and evaluates it at once.",
}


class TasksPane(Pane):
    """The table of tasks, its search, and a line about what it shows."""

    BORDER_TITLE = "Tasks"
    HELP = "The tasks, each checked: ✓ ok, ! warning, ✗ error (left out of every dataset)."

    def __init__(self) -> None:
        super().__init__(id="ds-tasks")
        self.search = FilterField(placeholder="search in ids and prompts", id="ds-search")
        self.table = VirtualTable(columns_for(None), empty="No task yet.", id="ds-table")
        self.shown = Shown(id="ds-shown")

    def compose(self) -> ComposeResult:
        yield self.search
        yield self.table
        yield self.shown

    def on_mount(self) -> None:
        """The search is there once it is asked for."""
        self.search.display = False

    def first_focus(self) -> VirtualTable:
        """The table, also while the search is shown."""
        return self.table


class TaskDetailPane(ViewsPane):
    """The selected task, the statistics of all tasks, or the last test."""

    BORDER_TITLE = "Task"
    HELP = "The selected task in full. {key:views.next} shows the statistics of all tasks, then the last test."
    VIEWS: ClassVar[tuple[str, ...]] = tuple(_VIEWS)

    def __init__(self) -> None:
        super().__init__(id="ds-detail")
        self.texts: dict[str, Static] = {view: Static(id=f"ds-{view}") for view in _VIEWS}
        self.pages: dict[str, Page] = {view: Page(text, id=f"ds-{view}-page") for view, text in self.texts.items()}

    def compose(self) -> ComposeResult:
        yield from self.pages.values()

    def on_mount(self) -> None:
        """Begin with a task that is still to be selected."""
        self.clear()
        self.turn_to("task")

    def clear(self) -> None:
        """Say in each view that it shows nothing."""
        for view, words in _EMPTY.items():
            self.texts[view].update(Content.styled(self.app.keys_in(words), "$foreground-muted"))

    def show_view(self) -> None:
        """Show the page of the view; the focus stays in the pane if it is there."""
        focused = self.has_focus_within
        for name, page in self.pages.items():
            page.display = name == self.view
        self.name_on_border(_VIEWS[self.view])
        if focused:
            self.pages[self.view].focus()

    def first_focus(self) -> Page:
        """The page of the view."""
        return self.pages[self.view]


class ProblemsPane(Pane):
    """The problems of the tasks, and the whole sentence of the selected one."""

    BORDER_TITLE = "Problems"
    HELP = "What is wrong with the tasks. Enter goes to the task."

    def __init__(self) -> None:
        super().__init__(id="ds-problems-pane")
        self.table = VirtualTable(PROBLEMS, empty="No problem was found.", id="ds-problems")
        self.sentence = Static(id="ds-problem")

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.sentence

    def on_mount(self) -> None:
        """Begin without problems."""
        self.count(0)

    def count(self, problems: int) -> None:
        """Show how many problems there are; without one the pane is small."""
        self.name_on_border(f"Problems {problems:,}" if problems else "Problems")
        self.set_class(not problems, "-empty")
        self.sentence.display = bool(problems) and self.sentence.display

    def tell(self, sentence: Content) -> None:
        """Show what is wrong in full."""
        self.sentence.update(sentence)
        self.sentence.display = True
