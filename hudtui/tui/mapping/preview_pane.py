"""The pane with the meaning of a configuration.

What a reply becomes, every action with an example, and the findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import OptionList, Static, TabbedContent, TabPane, TextArea

from hudtui.core.text import clean_line
from hudtui.tui.editor.reply_editor import ReplyEditor
from hudtui.tui.editor.yaml_editor import GLYPHS
from hudtui.tui.mapping.configuration_pane import SEVERITIES
from hudtui.tui.mapping.draft import LiveConfig
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.hanging import Hanging
from hudtui.tui.widgets.lists import Choices
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.sheet import Sheet
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows, VirtualTable

if TYPE_CHECKING:
    from hudtui.core.gym.editing.preview import ActionRow
    from hudtui.core.gym.editing.samples import SampleReply
    from hudtui.core.gym.interpreter import Interpretation
    from hudtui.core.gym.lint.findings import Finding

_MARKS = {"✓": "table--ok", "✗": "table--error", "■": "table--changed"}
_COLUMNS = (
    Column("mark", "", 1),
    Column("action", "action", 8, most=40),
    Column("example", "example", 12, most=80),
    Column("becomes", "becomes", 12, flexible=1),
)
_FRONTS = {"preview": "#map-meaning", "actions": "#map-table", "findings": "#map-findings"}


class PreviewPane(Pane):
    """What the configuration means.

    Args:
        draft: The configuration.
    """

    BORDER_TITLE: ClassVar[str] = "Preview"
    HELP = (
        "What the sample reply becomes with this configuration; every action with an example; the "
        "findings."
    )

    class Edited(Message):
        """The reply was edited."""

    @dataclass
    class ActionOpened(Message):
        """Enter was pressed on an action."""

        row: ActionRow

    @dataclass
    class FindingOpened(Message):
        """Enter was pressed on a finding."""

        finding: Finding

    tabs = query_one("#map-tabs", TabbedContent)
    reply = query_one(ReplyEditor)
    sheet = query_one("#map-meaning", Sheet)
    table = query_one("#map-table", VirtualTable)
    found = query_one("#map-findings", Choices)

    def __init__(self, draft: LiveConfig) -> None:
        from hudtui.core.gym.editing.samples import SampleReply

        super().__init__(id="map-right")
        self._draft = draft
        self.sample: SampleReply = SampleReply("", "")
        self.meaning: Interpretation | None = None
        """What the reply becomes; None while there is no configuration."""
        self.answer: list[Content] = []
        """The answer of the environment to the last call."""
        self._listed: tuple[Finding, ...] | None = None

    def compose(self) -> ComposeResult:
        with TabbedContent(id="map-tabs"):
            with TabPane("Preview", id="preview"):
                yield CalmStatic(id="map-sample-name")
                yield ReplyEditor(id="map-reply")
                yield CalmStatic(id="map-state")
                yield Sheet(id="map-meaning")
            with TabPane("Actions", id="actions"):
                yield VirtualTable(_COLUMNS, empty="There is no action yet.", id="map-table")
            with TabPane("Findings", id="findings"):
                yield Choices(id="map-findings")

    # -- tabs
    # ----------------------------------------------------------------------------------------------

    def turn_to(self, tab: str) -> None:
        """Show one of the tabs, with the focus."""
        self.tabs.active = tab
        if (above := self._panes()) is not None:
            above.bring(self)
        self.underline_tab()
        self.query_one(_FRONTS[tab]).focus()

    def underline_tab(self) -> None:
        """Tabs that were laid out while they were hidden have no line below the active one."""
        self.call_after_refresh(self.tabs.show_tab, self.tabs.active)

    # -- a reply
    # ----------------------------------------------------------------------------------------------

    def try_sample(self, sample: SampleReply) -> None:
        """Take a sample reply; `show_meaning` shows what it becomes."""
        self.sample, self.answer = sample, []
        if self.reply.text != sample.text:
            self.reply.load_text(sample.text)

    @on(TextArea.Changed)
    def _edited(self, event: TextArea.Changed) -> None:
        from hudtui.core.gym.editing.samples import SampleReply

        event.stop()
        if self.reply.text != self.sample.text:
            self.sample = SampleReply("your own", self.reply.text)
        self.answer = []
        self.post_message(self.Edited())

    @on(TextArea.SelectionChanged)
    def _moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()

    @on(ReplyEditor.Left)
    def _leave_reply(self, event: ReplyEditor.Left) -> None:
        event.stop()
        self.sheet.focus()

    def show_sample(self, *, connected: bool) -> None:
        """Show which reply is tried, and the state of the connection to send it over."""
        draft, muted = self._draft, "$foreground-muted"
        state = (
            ("● connected", "bold $success")
            if connected
            else ("○ no environment was inspected", muted)
        )
        if not connected and draft.analysis is not None:
            source = clean_line(draft.analysis.source, 40)
            state = (f"○ not connected ({source})", muted)
            if draft.foreign is not None:
                state = (
                    f"○ not checked: for {clean_line(draft.foreign, 30)}; last analyzed: {source}",
                    muted,
                )
        label = (clean_line(self.sample.label, 40), muted)
        self.query_one("#map-sample-name", CalmStatic).update(
            Content.assemble(("sample reply ", "bold $primary"), label, "  ", state), layout=False
        )

    def show_meaning(self) -> Interpretation | None:
        """Show what the reply becomes, and return it."""
        from hudtui.core.gym.interpreter import Interpreter
        from hudtui.tui.mapping.view import preview_lines

        draft, note = self._draft, self.query_one("#map-state", Static)
        if draft.config is None:
            self.meaning = None
            words = clean_line(draft.stale or "There is no configuration yet.", 400)
            self.sheet.show([Content.styled(words, "$foreground-muted")])
            note.display = False
            return None
        self.reply.read_as(draft.config.parser.dialect)
        self.meaning = Interpreter(draft.config, draft.tools).interpret(self.reply.text)
        lines = preview_lines(self.meaning, draft.config)
        if self.answer:
            lines += [Content(""), *self.answer]
        self.sheet.show(lines)
        note.display = draft.stale is not None
        if draft.stale is not None:
            words = clean_line(draft.stale, 200)
            self.query_one("#map-state", CalmStatic).update(
                Content.assemble(("! last good meaning: ", "bold $warning"), words), layout=False
            )
        return self.meaning

    # -- findings
    # ----------------------------------------------------------------------------------------------

    def show_findings(self) -> bool:
        """List the findings; return whether that is news."""
        findings = self._draft.findings
        if findings == self._listed:
            return False
        self._listed = findings
        at = self.found.highlighted
        self.found.clear_options()
        self.found.add_options(Choices.option(_finding_line(finding)) for finding in findings)
        if not findings:
            words = Content.styled("✓ Nothing is wrong with this configuration.", "$success")
            self.found.add_option(Choices.option(words, disabled=True))
        elif at is not None:
            self.found.highlighted = min(at, len(findings) - 1)
        self.tabs.get_tab("findings").label = Content(
            f"Findings {len(findings)}" if findings else "Findings"
        )
        return True

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor of the list while the list has the focus."""
        at = self.found.highlighted
        return (
            self._draft.findings[at]
            if self.found.has_focus and at is not None and at < len(self._draft.findings)
            else None
        )

    @on(OptionList.OptionSelected, "#map-findings")
    def _open_finding(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_index < len(self._draft.findings):
            self.post_message(self.FindingOpened(self._draft.findings[event.option_index]))

    # -- actions
    # ----------------------------------------------------------------------------------------------

    def show_table(self) -> None:
        """Show the table of actions."""
        self.table.show(Rows(self._draft.rows, _cells))
        bad = sum(row.verdict in ("error", "broken") for row in self._draft.rows)
        label = Content.assemble("Actions", (f" ✗{bad}" if bad else "", "bold $error"))
        if self.tabs.get_tab("actions").label != label:
            self.tabs.get_tab("actions").label = label

    @on(VirtualTable.Highlighted, "#map-table")
    def _row_passed(self, event: VirtualTable.Highlighted) -> None:
        event.stop()

    @on(VirtualTable.Selected, "#map-table")
    def _open_action(self, event: VirtualTable.Selected) -> None:
        event.stop()
        self.post_message(self.ActionOpened(self._draft.rows[event.row]))


def _cells(row: ActionRow) -> tuple[Cell, ...]:
    from hudtui.tui.mapping.view import row_cells

    mark, *others = row_cells(row)
    return ((mark, _MARKS.get(mark, "")), *others)


def _finding_line(finding: Finding) -> Hanging:
    where = ".".join(part for part in (finding.mapping, finding.parameter) if part)
    fix = f"(f: {change.title})" if (change := finding.fix or finding.guess) is not None else ""
    return Hanging(
        Content.assemble(
            (f"{GLYPHS[finding.severity]} ", f"bold {SEVERITIES[finding.severity]}"),
            (f"{finding.line:>4} ", "$foreground-muted"),
        ),
        Content.assemble(
            (f"{clean_line(where, 40)}: " if where else "", "bold"),
            clean_line(finding.message, 300),
            (f"  {clean_line(fix, 80)}", "$accent"),
        ),
    )
