"""The pane Plan of Launch: the checks, and everything that the run will do."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.actions import AppAction, unless
from hudtui.tui.launch.form import in_form
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.hanging import hanging_lines
from hudtui.tui.widgets.pane import Pane
from hudtui.tui.widgets.scrolling import Page

if TYPE_CHECKING:
    from hudtui.core.errors import HudtuiError
    from hudtui.core.runs.plan_text import PlanLine
    from hudtui.core.runs.prepare import Preparation

_GLYPHS = {
    "fine": ("✓ ", "$success"),
    "missing": ("✗ ", "bold $error"),
    "warning": ("! ", "$warning"),
}


class PlanPane(Pane):
    """The checks, the worst first, then the plan: in a line, or unfolded."""

    BORDER_TITLE = "Plan"
    HELP = (
        "The checks of everything that the run needs, and the plan: machine and cost, files, every "
        "command, where results go. {key:launch.unfold} unfolds the plan or folds it into one line."
    )
    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "launch.unfold",
            "Unfold",
            "Unfold the plan, or fold it into one line.",
            "enter,space",
            when=(unless(lambda pane: pane.plan, "there is no plan yet"),),
        ),
    )
    DEFAULT_CSS = "PlanPane { min-height: 5; } PlanPane Static { height: auto; padding: 0 1; }"

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._prepared: Preparation | None = None
        self.plan: tuple[PlanLine, ...] = ()
        """The lines of the plan; empty before there is one."""
        self._summary = ""
        self._problem: HudtuiError | None = None
        self._unfolded = False

    def compose(self) -> ComposeResult:
        with Page():
            yield CalmStatic(id="launch-plan")

    @property
    def page(self) -> Page:
        """What scrolls."""
        return self.query_one(Page)

    def show(
        self,
        prepared: Preparation | None,
        plan: tuple[PlanLine, ...],
        summary: str,
        problem: HudtuiError | None,
    ) -> None:
        """Show checks and plan.

        Args:
            prepared: The checks; None if the form could not be read.
            plan: The lines of the plan; empty while something is missing.
            summary: The plan in one line.
            problem: Why the form could not be read.
        """
        self._prepared, self.plan, self._summary, self._problem = prepared, plan, summary, problem
        self._draw()

    def action_unfold(self) -> None:
        self._unfolded = not self._unfolded
        self._draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        lines: list[Content] = []
        width = max(self.query_one("#launch-plan").content_size.width, 40)
        order = ("missing", "warning", "fine")
        checks = self._prepared.checks if self._prepared is not None else ()
        for check in sorted(checks, key=lambda check: order.index(check.state)):
            words = Content(f"{clean_line(check.name, 60)}: {clean_line(check.text, 300)}")
            lines += hanging_lines(Content.assemble(_GLYPHS[check.state]), words, width)
            if check.fix and check.state != "fine":
                fix = self.app.keys_in(in_form(clean_line(check.fix, 300)))
                lines += hanging_lines(
                    Content("  "), Content.styled(fix, "$foreground-muted"), width
                )
        if self._prepared is None and self._problem is None:
            lines.append(Content.styled("Checking what the run needs …", "$foreground-muted"))
        if self._problem is not None:
            first, *rest = self._problem.lines()
            lines.append(Content.assemble(("✗ ", "bold $error"), clean_line(first)))
            lines += [
                Content.styled(
                    f"  {self.app.keys_in(in_form(clean_line(line)))}", "$foreground-muted"
                )
                for line in rest
            ]
        if self.plan:
            keys = self.app.keys_in(
                " ({key:launch.unfold} folds it)"
                if self._unfolded
                else " ({key:launch.unfold} unfolds it)"
            )
            lines += [
                Content(""),
                Content.assemble(("Plan", "bold $primary"), (keys, "$foreground-muted")),
            ]
            if self._unfolded:
                for line in self.plan:
                    lines += hanging_lines(
                        Content(f"{clean_line(line.label, 10):<10} "),
                        Content(clean_line(line.text)),
                        width,
                    )
            else:
                lines.append(Content(clean_line(self._summary, 300)))
        self.query_one("#launch-plan", Static).update(Content("\n").join(lines))
