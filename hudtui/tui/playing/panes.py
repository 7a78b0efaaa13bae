"""The panes of an episode: its setup, the turns, the next reply, and the actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from hudtui.core.text import clean_line
from hudtui.tui.editor.reply_editor import ReplyEditor
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.field_rows import FieldRow, FieldRows
from hudtui.tui.widgets.fit import pad
from hudtui.tui.widgets.lists import Choices
from hudtui.tui.widgets.pane import Pane, ViewsPane
from hudtui.tui.widgets.sheet import Sheet

if TYPE_CHECKING:
    from hudtui.core.gym.interpreter import Interpretation
    from hudtui.core.gym.values import GymConfig

_MUTED = "$foreground-muted"


class SetupPane(Pane):
    """What is played, and by whom; below it the scores."""

    BORDER_TITLE = "Episode"
    HELP = (
        "The task, the configuration and who plays. Enter changes a row; the bars are the parts of "
        "the reward."
    )

    def compose(self) -> ComposeResult:
        yield FieldRows(id="play-rows")
        yield CalmStatic(id="play-scores")

    def on_mount(self) -> None:
        self.query_one("#play-scores").display = False

    def show(self, fields: Sequence[FieldRow]) -> None:
        """Show the choices."""
        self.query_one(FieldRows).show(fields)

    def show_scores(self, lines: Content) -> None:
        """Show the scores of the episode."""
        scores = self.query_one("#play-scores", Static)
        scores.display = True
        scores.update(lines)


class TranscriptPane(Pane):
    """The turns, as they arrive."""

    BORDER_TITLE = "Transcript"
    HELP = (
        "The turns as they arrive: what was said, the call it became, the answer. Enter shows a "
        "turn in full."
    )

    def compose(self) -> ComposeResult:
        yield Choices(id="play-turns")
        yield CalmStatic(id="play-hint")

    @property
    def rows(self) -> Choices:
        """The turns."""
        return self.query_one("#play-turns", Choices)

    @property
    def turn(self) -> int | None:
        """The turn under the cursor.

        0 for what the agent sees first, None while there is nothing.
        """
        return self.rows.highlighted

    @property
    def picture_width(self) -> int:
        """Cells that an image may have."""
        return max(self.size.width - 10, 20)

    def hint(self, words: str) -> None:
        """Say something in place of the turns."""
        line = self.query_one("#play-hint", Static)
        line.update(Content(clean_line(self.app.keys_in(words))))
        line.display, self.rows.display = True, False

    def begin(self, opening: Content) -> None:
        """Show a new episode, of which this is what the agent sees first."""
        rows = self.rows
        rows.clear_options()
        rows.add_option(Choices.option(opening))
        rows.highlighted = 0
        rows.display, self.query_one("#play-hint").display = True, False

    def add(self, turn: Content) -> None:
        """Show another turn. The cursor follows, unless it is on an earlier turn."""
        rows = self.rows
        follow = rows.highlighted in (None, rows.option_count - 1)
        rows.add_option(Choices.option(turn))
        if follow:
            rows.highlighted = rows.option_count - 1

    def end(self, words: Content) -> None:
        """Show the end of the episode behind its last turn; the cursor does not go there."""
        rows = self.rows
        rows.add_option(Choices.option(words, disabled=True))
        if rows.highlighted == rows.option_count - 2:
            self.call_after_refresh(rows.scroll_end, animate=False)


class ReplyPane(Pane):
    """The next reply, and what it would become."""

    BORDER_TITLE = "Reply"
    HELP = (
        "Write the next reply. Below it is the call that it becomes, or why it is no call. A call "
        "alone, such as left(), is put in the tags that the configuration asks for. "
        "{key:playing.send} plays it, Esc leaves the text."
    )

    def compose(self) -> ComposeResult:
        yield ReplyEditor(id="play-reply")
        yield Sheet(id="play-meaning")

    @property
    def editor(self) -> ReplyEditor:
        """The text."""
        return self.query_one(ReplyEditor)

    def write(self, text: str) -> None:
        """Put another text into the editor, with the cursor where an argument would stand."""
        editor = self.editor
        editor.load_text(text)
        place = text.rfind("(") + 1 or len(text)
        editor.move_cursor((text.count("\n", 0, place), place - (text.rfind("\n", 0, place) + 1)))

    def show_meaning(
        self, meaning: Interpretation | None, config: GymConfig | None, played: str
    ) -> None:
        """Show what the text becomes; `played` is the reply as it is played."""
        from hudtui.tui.mapping.view import preview_lines

        sheet = self.query_one(Sheet)
        if meaning is None or config is None:
            sheet.show([])
            return
        self.editor.read_as(config.parser.dialect)
        lines = preview_lines(meaning, config)
        if played != self.editor.text:
            lines.insert(
                0,
                Content.assemble(
                    (pad("played", 8), "$primary"),
                    (clean_line(played.replace("\n", " "), 300), _MUTED),
                ),
            )
        sheet.show(lines)


class ActionsPane(ViewsPane):
    """The actions, and the system prompt."""

    BORDER_TITLE = "Actions"
    HELP = (
        "What the agent can call in this task. Enter puts an example into the reply; the other "
        "view is the prompt."
    )
    VIEWS: ClassVar[tuple[str, ...]] = ("actions", "prompt")

    def compose(self) -> ComposeResult:
        yield Choices(id="play-actions")
        yield Sheet(id="play-prompt")

    def show(self, actions: Iterable[tuple[str, str, str]], prompt: str) -> None:
        """Show actions as name, call and description, and the prompt."""
        from hudtui.core.text import clean

        rows = self.query_one("#play-actions", Choices)
        rows.clear_options()
        rows.add_options(
            Choices.option(
                Content.assemble(
                    (clean_line(call, 100), "bold $accent"), (f"  {_sentence(description)}", _MUTED)
                ),
                name,
            )
            for name, call, description in actions
        )
        rows.highlighted = 0 if rows.option_count else None
        lines = clean(prompt).split("\n") if prompt else ["The configuration has no system prompt."]
        self.query_one("#play-prompt", Sheet).show([Content(line) for line in lines])

    def show_view(self) -> None:
        self.query_one("#play-actions").display = self.view == "actions"
        self.query_one("#play-prompt").display = self.view == "prompt"


def _sentence(text: str) -> str:
    first, dot, _ = clean_line(text, 200).partition(". ")
    return first + dot.rstrip()
