"""A pane for one run, of this project or of others: its state, its curves, its log and more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import TabbedContent, TabPane

from hudtui.core.text import clean_line
from hudtui.tui.runs.diagnosis import DiagnosisPane
from hudtui.tui.runs.logs import RunLogs
from hudtui.tui.runs.machine import MachinePane
from hudtui.tui.runs.settings import RunSettings
from hudtui.tui.runs.words import event_cells, result_table
from hudtui.tui.widgets.calm_static import FittedStatic
from hudtui.tui.widgets.metrics_pane import MetricsPane, Numbers
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.search import SEARCH, Searching
from hudtui.tui.widgets.sheet import Sheet
from hudtui.tui.widgets.virtual_table import Column, Rows, VirtualTable

if TYPE_CHECKING:
    from textual.screen import Screen
    from textual.widget import AwaitMount

    from hudtui.core.diagnosis.values import Diagnosis
    from hudtui.core.remote.log_file import Log
    from hudtui.core.runs.plan_text import PlanLine
    from hudtui.core.runs.status import RunResult, RunView
    from hudtui.core.runs.store import RunRecord
    from hudtui.core.runs.values import RunEvent

EVENTS = 500
"""Number of the newest events of a run that are listed."""


_TITLES: Mapping[str, str] = {
    "diagnosis": "Diagnosis",
    "metrics": "Curves",
    "log": "Log",
    "records": "Records",
    "machine": "Machine",
    "result": "Result",
    "events": "Events",
    "plan": "Plan",
    "settings": "Settings",
}
ALL_TABS = tuple(_TITLES)
_EVENT_COLUMNS = (
    Column("when", "when", 8),
    Column("who", "who", 7),
    Column("what", "what", 20, flexible=1),
)


class FoundLines(Searching, Sheet):
    """A sheet that can be searched."""

    ACTIONS = SEARCH

    def __init__(self, *, hang: int, id: str) -> None:  # noqa: A002
        super().__init__(hang=hang, id=id)
        self._given: tuple[Content, ...] = ()
        self._match: int | None = None

    def show(self, lines: Sequence[Content]) -> None:
        """Show other lines, with the matches of the search marked."""
        if [line.plain for line in lines] != self.texts():
            self.forget_matches()
            self._match = None
        self._given = tuple(lines)
        self.mark_matches()

    def texts(self) -> Sequence[str]:
        return [line.plain for line in self._given]

    @property
    def line_here(self) -> int:
        return self.top_line if self._match is None else self._match

    def go_to_line(self, line: int) -> None:
        self._match = line
        self.mark_matches()
        self.go_to(max(line - 2, 0))

    def mark_matches(self) -> None:
        super().show([self._marked(number, line) for number, line in enumerate(self._given)])

    def _marked(self, number: int, line: Content) -> Content:
        for start, end in self.pattern.spans(line.plain) if self.pattern is not None else ():
            line = line.stylize("reverse", start, end)
        return (
            line.stylize("bold underline")
            if number == self._match and self.pattern is not None
            else line
        )


class FoundRows(Searching, VirtualTable):
    """A table that can be searched."""

    ACTIONS = SEARCH

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__((), empty="", id=id)

    def fill(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[str]],
        *,
        cursor: int,
        empty: str = "",
    ) -> None:
        """Show other rows of texts, and go to one of them."""
        self.forget_matches()
        self.columns, self.empty = tuple(columns), empty
        self.show(Rows(rows, tuple), cursor=cursor)

    def texts(self) -> Sequence[str]:
        return (
            ["  ".join(map(str, self.rows.cells(row))) for row in range(self.count)]
            if self.rows is not None
            else []
        )

    @property
    def line_here(self) -> int:
        return self.cursor

    def go_to_line(self, line: int) -> None:
        self.go(line)


class RunTabs(TabbedContent):
    """Tabs whose active one is underlined where it is, also after another one is hidden.

    Textual moves the line two refreshes after that, and the layout may come later.

    Attributes:
        had_focus: Whether the focus was in the tab that was left.
    """

    had_focus = False

    def on_mount(self) -> None:
        self.screen.screen_layout_refresh_signal.subscribe(self, self._underline)

    def watch_active(self, before: str, _: str) -> None:
        """Take the focus from a tab that is left.

        Textual would give it to what stands beside the hidden widget, and turn back to that.
        """
        focused = self.screen.focused
        if before and focused is not None and self.get_pane(before) in focused.ancestors:
            self.screen.set_focus(None)
            self.had_focus = True

    def on_tab_pane_focused(self, event: TabPane.Focused) -> None:
        """Stay at the active tab: the focus follows the tab.

        Textual would show the tab of the focus. Where keys come in bursts, its message comes after
        the next tab was shown, and would turn back.
        """
        event.prevent_default()

    def _underline(self, _: Screen[Any]) -> None:
        if self.active:
            tab, line = self.get_tab(self.active), cast("Any", self.query_one("Underline"))
            place = tab.virtual_region.shrink(tab.styles.gutter)
            line.highlight_start, line.highlight_end = place.column_span


class RunPane(Pane):
    """A run.

    A tab is created when the run has something for it, and its content when it is first shown. The
    content is drawn only while its tab is the active one.

    Args:
        logs: The widget with the run's logs. Its `front`, if any, receives the focus.
        opens: One to three words for the key hint: what Enter opens at a step of the curves.
    """

    BORDER_TITLE = "Run"
    DEFAULT_CSS = """
    RunPane #run-head { height: auto; padding: 0 1; }
    RunPane TabbedContent, RunPane ContentSwitcher { height: 1fr; }
    RunPane TabPane { padding: 0; height: 1fr; }
    """

    def __init__(self, logs: RunLogs, *, opens: str) -> None:
        super().__init__(id="run-pane")
        self._opens = opens
        self.logs = logs
        self.names: tuple[str, ...] = ALL_TABS
        """The tabs that are shown."""
        self._first = "log"
        """The tab that is shown first."""
        self._created: list[str] = []
        """The tabs that were created."""
        self._contents: dict[str, Widget] = {}
        """The content of the tabs that were shown, by their names."""
        self._mounts: dict[str, AwaitMount] = {}
        self._waiting: dict[str, Callable[[Any], object]] = {}
        """Functions that draw the newest state into the content of a tab, by the names of the
        tabs."""
        self._head = FittedStatic(id="run-head")

    def compose(self) -> ComposeResult:
        yield self._head
        with RunTabs(id="run-tabs", initial=self._first):
            for name in self.names:
                content = [self._content(name)] if name == self._first else []
                self._created.append(name)
                yield TabPane(_TITLES[name], *content, id=name)

    def begin_with(self, tab: str, names: Sequence[str]) -> None:
        """Show a tab first, and create only tabs of these names for the first paint.

        Call it before the pane is mounted.
        """
        self._first, self.names = tab, tuple(names)

    def _content(self, tab: str) -> Widget:
        """Create the content of a tab."""
        makers: Mapping[str, Callable[[], Widget]] = {
            "log": lambda: self.logs,
            "diagnosis": lambda: DiagnosisPane(id="run-diagnosis"),
            "metrics": lambda: MetricsPane(opens=self._opens, id="run-metrics"),
            "records": lambda: RunLogs(
                cast("Any", self.screen), empty="The records appear here.", id="run-records"
            ),
            "machine": lambda: MachinePane(id="run-machine"),
            "result": lambda: FoundRows(id="run-result"),
            "events": lambda: FoundRows(id="run-events"),
            "plan": lambda: FoundLines(hang=11, id="run-plan"),
            "settings": lambda: RunSettings(id="run-settings"),
        }
        self._contents[tab] = content = makers[tab]()
        return content

    async def _come_forward(self, tab: str) -> None:
        """Create the content of a tab if it does not exist yet, and update it."""
        if tab not in self._contents:
            self._mounts[tab] = self.query_one(f"#{tab}", TabPane).mount(self._content(tab))
        if tab in self._mounts:
            await self._mounts[tab]
        self._draw()

    def _put(self, tab: str, draw: Callable[[Any], object]) -> None:
        """Draw the content of a tab: now if the tab is active, otherwise when it becomes active."""
        self._waiting[tab] = draw
        self._draw()

    def _draw(self) -> None:
        content = self._contents.get(self.tab)
        if (
            content is not None
            and content.is_mounted
            and (draw := self._waiting.pop(self.tab, None)) is not None
        ):
            draw(content)

    # -- what is shown
    # ----------------------------------------------------------------------------------------------

    def tell(self, title: str, head: Content | Callable[[int], Content]) -> None:
        """Show the title on the border, and the head.

        `head` may be a function of the width of a line in cells.
        """
        self.name_on_border(title or self.BORDER_TITLE)
        self._head.show((lambda width: head) if isinstance(head, Content) else head)

    def show_curves(self, runs: Iterable[Numbers]) -> None:
        """Show the metrics of the run and of the compared runs."""
        numbers = list(runs)

        def draw(pane: MetricsPane) -> None:
            pane.opens = self._opens if "result" in self.names else None
            pane.show(numbers)

        self._put("metrics", draw)

    def show_diagnosis(self, diagnosis: Diagnosis | None) -> None:
        """Show what ails the run."""
        self._put("diagnosis", lambda pane: pane.show(diagnosis))

    def show_records(self, log: Callable[[], Log]) -> None:
        """Show the records of the run's file; `log` returns them, once somebody looks."""
        self._put("records", lambda logs: logs.show(log()))

    def forget_records(self) -> None:
        """Clear the records, and stop reading."""
        self._waiting.pop("records", None)
        content = self._contents.get("records")
        if isinstance(content, RunLogs):
            content.forget()

    def show_load(self, view: RunView | None) -> None:
        """Show the load of the machine."""
        self._put("machine", lambda pane: pane.show_load(view))

    def show_plan(self, plan: Callable[[], Sequence[PlanLine]]) -> None:
        """Show the plan of the run.

        `plan` returns its lines; it is called when the tab is shown.
        """

        def draw(sheet: FoundLines) -> None:
            label = "$foreground-muted"
            sheet.show(
                [
                    Content.assemble(
                        (f"{clean_line(line.label, 10):<10} ", label), clean_line(line.text)
                    )
                    for line in plan()
                ]
            )

        self._put("plan", draw)

    def show_settings(self, record: RunRecord | None) -> None:
        """Show the settings that the run was planned with; None for no run."""
        self._put("settings", lambda pane: pane.show(record))

    def show_events(self, run: str, events: Sequence[RunEvent]) -> None:
        """Show the events, scrolled to the newest."""

        def draw(table: FoundRows) -> None:
            older = max(len(events) - EVENTS, 0)
            rows = [event_cells(event) for event in events[older:]]
            if older:
                rows.insert(
                    0, ("", "", f"… {older:,} events before these: hudtui runs show {run} --json")
                )
            table.fill(_EVENT_COLUMNS, rows, cursor=len(rows) - 1, empty="No event yet.")

        self._put("events", draw)

    def show_result(self, result: RunResult) -> None:
        """Show the result for each task or step; steps are scrolled to the newest."""

        def draw(table: FoundRows) -> None:
            titles, rows = result_table(result)
            first = [Column(title, title, 5, most=60) for title in titles[:1]]
            others = [
                Column(title, title, max(len(title), 8), align="right") for title in titles[1:]
            ]
            newest = len(rows) - 1 if result.steps else min(table.cursor, len(rows) - 1)
            table.fill(
                [*first, *others],
                rows,
                cursor=newest,
                empty="No task and no step has a reward yet.",
            )

        self._put("result", draw)

    def forget(self, *, plan: bool = True) -> None:
        """Clear everything about the run; its plan and settings only if `plan` is set."""
        self._head.show(lambda width: Content(""))
        self.name_on_border(self.BORDER_TITLE)
        self.show_curves(())
        self.show_diagnosis(None)
        self.show_load(None)
        if plan:
            self.show_plan(tuple)
            self.show_settings(None)
        for tab in ("result", "events"):
            self._put(tab, lambda content: content.fill((), (), cursor=0))

    @on(VirtualTable.Selected, "#run-events")
    def _read_event(self, event: VirtualTable.Selected) -> None:
        """Show an event in full when Enter is pressed on it.

        A long one does not fit into its row.
        """
        event.stop()
        cells = event.table.rows.cells(event.row) if event.table.rows is not None else ()
        self.app.read("Event", " ".join(map(str, cells)))

    # -- tabs
    # ----------------------------------------------------------------------------------------------

    @property
    def tab(self) -> str:
        """The name of the tab that is shown."""
        return self.query_one("#run-tabs", TabbedContent).active

    def first_focus(self) -> Widget | None:
        content = self._contents.get(self.tab)
        if isinstance(content, RunLogs):
            return content.front
        if content is None or not content.is_mounted:
            return None  # the tab is being created, and gets the focus then
        if isinstance(content, MetricsPane):
            return content.front
        return next(
            (widget for widget in (content, *content.query(Widget)) if widget.focusable), None
        )

    def turn_to(self, tab: str, *, focus: bool = True) -> None:
        """Show a tab, and give it the focus."""
        self.query_one("#run-tabs", TabbedContent).active = tab
        if focus:
            if (front := self.first_focus()) is not None:
                self.screen.set_focus(front)
            self.call_after_refresh(self._focus_front)

    async def _focus_front(self) -> None:
        await self._come_forward(self.tab)
        self.screen.set_focus(self.first_focus())  # now, so that the next key goes to this tab

    @on(TabbedContent.TabActivated)
    async def _tab_activated(self, event: TabbedContent.TabActivated) -> None:
        """Return from a single chart to the list of charts when its tab is left."""
        event.stop()
        await self._come_forward(self.tab)
        tabs = self.query_one(RunTabs)
        if tabs.had_focus and self.screen.focused is None:
            self.screen.set_focus(self.first_focus())
        tabs.had_focus = False
        for pane in self.query(MetricsPane):
            pane.whole_again()

    @on(TabPane.Focused)
    def _take_focus_from_hidden(self, event: TabPane.Focused) -> None:
        """Take the focus from a tab that is not shown: Textual may give it to one."""
        event.stop()
        focused, hidden = self.screen.focused, event.tab_pane.id != self.tab
        if hidden and focused is not None and event.tab_pane in focused.ancestors:
            self.screen.set_focus(self.first_focus())

    def offer(self, names: Sequence[str]) -> None:
        """Show the tabs that the run has something for, and hide the others."""
        if tuple(names) == self.names:
            return
        self.names = tuple(names)
        tabs = self.query_one("#run-tabs", TabbedContent)
        for place, name in enumerate(ALL_TABS):
            if name in names and name not in self._created:
                behind = (one for one in ALL_TABS[place:] if one in self._created)
                tabs.add_pane(TabPane(_TITLES[name], id=name), before=next(behind, None))
                self._created.append(name)
        if self.tab not in names:
            self.turn_to("log" if "log" in names else names[0], focus=self.has_focus_within)
        for name in self._created:
            (tabs.show_tab if name in names else tabs.hide_tab)(name)

    async def next_tab(self, by: int = 1) -> None:
        """Show the next tab. The focus moves only if it is in the previous tab."""
        focused = self.has_focus_within
        place = self.names.index(self.tab) + by
        self.turn_to(self.names[place % len(self.names)], focus=False)
        if focused:
            await self._focus_front()
