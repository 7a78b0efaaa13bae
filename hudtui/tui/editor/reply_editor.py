"""A small editor for an agent's reply: its tags stand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import events
from textual.message import Message

from hudtui.tui.actions import Acting, AppAction
from hudtui.tui.editor.signed_area import SignedArea

if TYPE_CHECKING:
    from hudtui.core.gym.reply import TagSpan


class ReplyEditor(Acting, SignedArea):
    """Text with think and tool tags coloured as they count. It posts `TextArea.Changed`."""

    ACTIONS: ClassVar[tuple[AppAction, ...]] = (
        AppAction(
            "reply.leave",
            "Leave reply",
            "Go from the reply to what it means.",
            "escape",
            palette=False,
        ),
    )
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "reply--think",
        "reply--tool",
        "reply--extra",
        "reply--unclosed",
        "reply--outside",
    }
    DEFAULT_CSS = """
    ReplyEditor, ReplyEditor:focus { border: none; padding: 0 1; background: $surface; }
    ReplyEditor > .reply--think { color: $secondary; text-style: italic; }
    ReplyEditor > .reply--tool { color: $success; text-style: bold; }
    ReplyEditor > .reply--extra { color: $warning; text-style: strike; }
    ReplyEditor > .reply--unclosed { color: $error; text-style: underline; }
    ReplyEditor > .reply--outside { color: $foreground-muted; }
    """
    _STYLES: ClassVar[dict[str, str]] = {
        "think": "think",
        "tool": "tool",
        "extra": "extra",
        "empty": "unclosed",
        "unclosed": "unclosed",
    }

    class Left(Message):
        """The user leaves the reply."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        self._spans_of = ""
        self._spans: tuple[TagSpan, ...] = ()
        self._dialect = "text"
        super().__init__(soft_wrap=True, tab_behavior="focus", highlight_cursor_line=False, id=id)
        self.cursor_blink = False

    def read_as(self, dialect: str) -> None:
        """Colour the text as it counts in a dialect."""
        if dialect != self._dialect:
            self._dialect, self._spans_of = dialect, ""
            self.refresh()

    def get_line(self, line_index: int) -> Text:
        from hudtui.core.gym.dialects.known import DIALECTS

        text = self.text
        if text != self._spans_of:
            spans = DIALECTS[self._dialect].read(text, False).parts.spans
            self._spans_of, self._spans = text, spans
        line = self.signed_line(line_index)
        start = self.document.get_index_from_location((line_index, 0))  # type: ignore[attr-defined]
        line.stylize(self._style("outside"))
        for span in sorted(self._spans, key=lambda one: one.start):
            first, last = span.start - start, span.end - start
            if last > 0 and first < len(line.plain):
                line.stylize(self._style(self._STYLES[span.kind]), max(first, 0), last)
        return line

    def _style(self, name: str):  # type: ignore[no-untyped-def]
        return self.get_component_rich_style(f"reply--{name}", partial=True)

    async def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            event.prevent_default()
            self.action_leave()

    def action_leave(self) -> None:
        self.post_message(self.Left())
