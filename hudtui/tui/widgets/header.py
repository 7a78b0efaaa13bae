"""The first line of every screen: the project, what it costs, alarms, the account."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

from hudtui.core.text import clean_line, home_short, plural
from hudtui.tui.widgets.fit import cut, cut_left

if TYPE_CHECKING:
    from hudtui.tui.facts import Facts, Money


class HeaderBar(Widget):
    """One line; what matters least gives way first when the terminal is narrow."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    HeaderBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[Facts | None, Path | None, str, Money | None, int] = (
            None,
            None,
            "",
            None,
            0,
        )

    def show(
        self,
        facts: Facts | None,
        folder: Path,
        title: str,
        money: Money | None = None,
        alarms: int = 0,
    ) -> None:
        """Show a project.

        Args:
            facts: None while nothing is known but the folder.
            folder: The project.
            title: Of a screen that is no step.
            money: None while nothing is paid for.
            alarms: Of the runs in progress.
        """
        if (new := (facts, folder, title, money, alarms)) != self._shown:
            self._shown = new
            self.refresh()

    def render(self) -> Content:
        """The line, at most as wide as the widget."""
        width = self.content_size.width
        facts, folder, title, money, alarms = self._shown
        right: list[tuple[str, str]] = []
        if money is not None and money.machines:
            right.append(_money(money, width))
        if money is not None and money.taken:
            words = (
                f"{plural(money.taken, 'machine')} taken back"
                if width >= 80
                else f"{money.taken} taken"
            )
            right.append((f"✗ {words}", "bold $error"))
        if alarms:
            right.append((f"! {plural(alarms, 'alarm')}", "bold $warning"))
        if (
            facts is not None
            and facts.account is not None
            and facts.account.origin is not None
            and width >= 80
        ):
            right.append((f"{cut(clean_line(facts.platform), 20)} ✓", "$success"))
        tail = Content("   ").join(Content.styled(text, style) for text, style in right)
        head = Content.styled("hudtui", "bold $primary")
        if title:  # no step is marked then: it alone says where one is
            head += Content.styled(f"  {title}", "bold")
        trust = Content("")
        if facts is not None and not facts.trusted:
            trust = Content.styled("  ! not trusted", "bold $warning")
        elif facts is not None and not facts.empty and width >= 100:
            trust = Content.styled(" (trusted)", "$foreground-muted")
        room = width - head.cell_length - trust.cell_length - tail.cell_length - 4
        if folder is not None and room >= 8:
            head += Content.styled(f"  {cut_left(home_short(folder), room)}", "$foreground-muted")
        head += trust
        gap = max(width - head.cell_length - tail.cell_length, 1)
        return head + Content(" " * gap) + tail


def _money(money: Money, width: int) -> tuple[str, str]:
    """What is being paid for, and its style; short where there is little room."""
    words = f"{plural(money.machines, 'machine')} {money.per_hour}/h"
    if width >= 80:
        words += f" · {money.today} today"
    if money.orphans:
        words += f" ! {money.orphans}" if width < 100 else f" ! {money.orphans} unclaimed"
    if money.as_of:
        words += f" ({money.as_of})" if width < 100 else f" as of {money.as_of}"
    if money.simulated:
        words += " (sim)" if width < 100 else " (simulated)"
    return words, "bold $warning" if money.orphans or money.warn or money.as_of else "bold $accent"
