"""The tab Diagnosis of a run: what ails it, since when, and what to change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.message import Message

from hudtui.core.text import clean_line, step_text
from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.virtual_table import Cell, Column, Rows, VirtualTable

if TYPE_CHECKING:
    from hudtui.core.diagnosis.values import Diagnosis, Finding
    from hudtui.tui.app import HudtuiApp

_COLUMNS = (
    Column("severity", "severity", 8),
    Column("since", "since step", 10, align="right"),
    Column("likely", "likely", 6, align="right"),
    Column("finding", "finding", 20, flexible=1),
)
_STYLES = {"critical": "table--error", "high": "table--warning"}
_MUTED = "$foreground-muted"


def _no_setting(pane: DiagnosisPane) -> str:
    finding = pane.finding
    if finding is None:
        return "no finding is listed"
    return "" if finding.changes else "no setting of the trainer cures this"


class DiagnosisPane(Acting, Container):
    """The findings of a run in a table, and below it the numbers and remedies of one."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "finding.apply",
            "Try the cure",
            "Start the run again with the settings that may cure this; the plan is shown first.",
            "A",
            when=(_no_setting,),
        ),
        AppAction(
            "finding.copy",
            "Copy settings",
            "Copy these settings as options of hudtui rl.",
            "y",
            palette=False,
            when=(_no_setting,),
        ),
    )
    DEFAULT_CSS = """
    DiagnosisPane { height: 1fr; layout: vertical; }
    DiagnosisPane > VirtualTable { height: auto; max-height: 50%; }
    DiagnosisPane > VerticalScroll { height: 1fr; padding: 1 1 0 1; }
    DiagnosisPane CalmStatic { height: auto; }
    """

    @dataclass
    class Opened(Message):
        """Enter was pressed on a finding."""

        finding: Finding

    @dataclass
    class Applied(Message):
        """The remedies of a finding are wanted in a new run."""

        finding: Finding

    if TYPE_CHECKING:
        app: HudtuiApp

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.table = VirtualTable(_COLUMNS, empty="No known trouble.")
        self._detail = CalmStatic()
        self._findings: tuple[Finding, ...] = ()

    def compose(self) -> ComposeResult:
        yield self.table
        with VerticalScroll(can_focus=False):
            yield self._detail

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor."""
        place = self.table.cursor
        return self._findings[place] if place < len(self._findings) else None

    def show(self, diagnosis: Diagnosis | None) -> None:
        """Show what ails a run; None for a run of which nothing is known."""
        findings = diagnosis.findings if diagnosis is not None else ()
        if findings == self._findings:
            return
        before = self.finding
        self._findings = findings
        names = [one.signature for one in findings]
        chosen = before.signature if before is not None else ""
        cursor = names.index(chosen) if chosen in names else 0
        self.table.show(Rows(findings, _cells), cursor=cursor)
        self._tell()

    def _tell(self) -> None:
        finding = self.finding
        lines = [] if finding is None else _detail(finding)
        self._detail.update(Content("\n").join(lines))

    def action_apply(self) -> None:
        if self.finding is not None:
            self.post_message(self.Applied(self.finding))

    def action_copy(self) -> None:
        if self.finding is not None:
            self.app.copy(self.finding.options)

    @on(VirtualTable.Highlighted)
    def _moved(self, event: VirtualTable.Highlighted) -> None:
        event.stop()
        self._tell()

    @on(VirtualTable.Selected)
    def _opened(self, event: VirtualTable.Selected) -> None:
        event.stop()
        if self.finding is not None:
            self.post_message(self.Opened(self.finding))


def _cells(finding: Finding) -> tuple[Cell, ...]:
    style = _STYLES.get(finding.severity, "")
    return (
        (finding.severity, style),
        f"{step_text(finding.onset)}",
        f"{finding.probability:.0%}",
        clean_line(finding.title),
    )


def _detail(finding: Finding) -> list[Content]:
    from hudtui.core.diagnosis.signatures import SIGNATURES

    lines = [Content(SIGNATURES[finding.signature].meaning)]
    if finding.spent is not None:
        lines.append(Content(finding.spent.words()))
    lines += [Content.styled(clean_line(one.words()), _MUTED) for one in finding.evidence]
    lines += [Content(f"> {clean_line(one.words)}") for one in finding.remedies]
    if finding.changes:
        lines.append(Content.styled(f"hudtui rl {finding.options}", "$accent"))
    return lines
