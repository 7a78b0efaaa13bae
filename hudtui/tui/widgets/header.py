"""The first line of every screen: platform, workspace, account, running work."""

from __future__ import annotations

from pathlib import Path

from textual.content import Content
from textual.widget import Widget

from hudtui.core.text import clean_line, home_short
from hudtui.tui.facts import Facts, Money
from hudtui.tui.widgets.fit import cut, cut_left


class HeaderBar(Widget):
    """One line; what matters least gives way first when the terminal is narrow."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    HeaderBar { height: 1; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._facts: Facts | None = None
        self._title = ""
        self._folder: Path | None = None
        self._money: Money | None = None

    def show(self, facts: Facts | None, folder: Path, title: str, money: Money | None = None) -> None:
        """Show a project. `facts` is None while nothing is known but the folder, `money` while nothing is paid for."""
        if (facts, folder, title, money) != (self._facts, self._folder, self._title, self._money):
            self._facts, self._folder, self._title, self._money = facts, folder, title, money
            self.refresh()

    def render(self) -> Content:
        """The line, at most as wide as the widget."""
        width = self.size.width
        facts = self._facts
        left = [("hudtui", "bold $primary")]
        if self._title and width >= 80:
            left.append((f"  {self._title}", "bold"))
        if facts is not None:
            left.append((f"  {cut(clean_line(facts.platform), 20)}", "$accent"))
        right: list[tuple[str, str]] = []
        if facts is not None and not facts.trusted:
            right.append(("! not trusted", "bold $warning"))
        if facts is not None and facts.account is not None:
            account = facts.account
            if account.origin is None:
                right.append((f"○ no {account.variable}" if width >= 80 else "○ no key", "$foreground-muted"))
            elif width >= 100:
                right.append((f"✓ {account.variable} from {account.origin}", "$success"))
            else:
                right.append(("✓ key", "$success"))
        if facts is not None and facts.running:
            count = len(facts.running)
            right.append(
                (f"● {count} run{'s' if count > 1 else ''} running" if width >= 80 else f"● {count} running", "$success")
            )
        if self._money is not None and self._money.machines:
            right.append(_money(self._money, width))
        if self._money is not None and self._money.taken:
            taken = self._money.taken
            words = f"{taken} machine{'s' if taken > 1 else ''} taken back" if width >= 80 else f"{taken} taken"
            right.append((f"✗ {words}", "bold $error"))
        tail = Content("   ").join(Content.styled(text, style) for text, style in right)
        head = Content.assemble(*left)
        room = width - head.cell_length - tail.cell_length - 4
        if self._folder is not None and room >= 8:
            head += Content.styled(f"  {cut_left(home_short(self._folder), room)}", "$foreground-muted")
        gap = max(width - head.cell_length - tail.cell_length, 1)
        return head + Content(" " * gap) + tail


def _money(money: Money, width: int) -> tuple[str, str]:
    """What is being paid for, and its style; short where there is little room."""
    words = f"{money.per_hour}/h" if width < 80 else f"{money.per_hour}/h, {money.spent} so far"
    if money.orphans:
        words += f" ! {money.orphans}" if width < 100 else f" ! {money.orphans} unclaimed"
    if money.as_of:
        words += f" ({money.as_of})" if width < 100 else f" as of {money.as_of}"
    if money.simulated:
        words += " (sim)" if width < 100 else " (simulated)"
    return f"◆ {words}", "bold $warning" if money.orphans or money.warn or money.as_of else "bold $accent"
