"""The line above the footer."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.content import Content

from hudtui.core.errors import ConnectError
from hudtui.tui.widgets.message import MessageBar


class Shown(App[None]):
    def compose(self) -> ComposeResult:
        yield MessageBar()


async def test_of_a_failed_programs_words_the_end_is_shown():
    traceback = "\n".join(f"  line {number}" for number in range(12))
    error = ConnectError("it ended", why=f"The end of its standard error:\n{traceback}\nValueError: no board", fix="Mend it.")
    app = Shown()
    async with app.run_test(size=(80, 24)):
        bar = app.query_one(MessageBar)
        bar.fail(error)
        assert isinstance(bar.content, Content)
        lines = bar.content.plain.split("\n")
        assert len(lines) <= 6, "more is cut off at its end"
        assert "ValueError: no board" in bar.content.plain
        assert lines[1].strip() == "The end of its standard error:"
        assert lines[-1].strip() == "Mend it."
        assert "line 0" in bar.plain, "all of it can be copied"
