"""The pane with the text of a configuration.

Editor, search, completion, and the finding at the cursor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.widgets import Static, TextArea

from hudtui.core.text import clean_line
from hudtui.tui.actions import keymap_of, with_keys
from hudtui.tui.editor.find_bar import FindBar
from hudtui.tui.editor.popup import Popup
from hudtui.tui.editor.yaml_editor import GLYPHS, Note, YamlEditor
from hudtui.tui.mapping.draft import LiveConfig
from hudtui.tui.widgets.calm_static import CalmStatic
from hudtui.tui.widgets.fit import cut_left
from hudtui.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from hudtui.core.gym.lint.findings import Finding

SEVERITIES = {"error": "$error", "warning": "$warning", "info": "$primary"}


class ConfigurationPane(Pane):
    """The configuration as text.

    Args:
        draft: What the text means.
        changed: Called within each keystroke, before anything is painted.
    """

    BORDER_TITLE: ClassVar[str] = "Configuration"
    HELP = "The text of the configuration. The line below it names the finding at the cursor."

    class Left(Message):
        """The user leaves the text."""

    text_file = query_one("#map-file", Static)
    editor = query_one("#map-text", YamlEditor)
    find_bar = query_one(FindBar)
    popup = query_one(Popup)

    def __init__(self, draft: LiveConfig, changed: Callable[[], None]) -> None:
        super().__init__(id="map-left")
        self._draft, self._changed = draft, changed
        self._file_line: Content | None = None
        self._popup_row = 0

    def compose(self) -> ComposeResult:
        yield Static(id="map-file")
        yield FindBar()
        yield YamlEditor(id="map-text")
        yield CalmStatic(id="map-cursor")
        yield CalmStatic(id="map-brief")
        yield Popup()

    def on_mount(self) -> None:
        self.editor.after_change = self._changed

    # -- what is shown
    # ----------------------------------------------------------------------------------------------

    def shift_notes(self, before: list[str], after: list[str]) -> None:
        """Let the marks of the findings follow their lines until the next check."""
        by = len(after) - len(before)
        if by:
            pairs = enumerate(zip(before, after, strict=False))
            same = next(
                (row for row, (old, new) in pairs if old != new), min(len(before), len(after))
            )
            self.editor.shift_notes(same + 1, by)

    def show_file(self, name: str, modified: bool, outside: str) -> bool:
        """Show the file's name, its state and the number of findings.

        Return whether that is news.
        """
        state = ("● not saved", "bold $warning") if modified else ("✓ saved", "$success")
        counts = [
            (f"  {GLYPHS[word]} {number}", SEVERITIES[word])
            for word in GLYPHS
            if (number := sum(finding.severity == word for finding in self._draft.findings))
        ]
        rest = Content.assemble(
            "  ", state, *counts, (f"  {outside}", "bold $error") if outside else ""
        )
        room = self.text_file.size.width - 2 - rest.cell_length
        name = clean_line(name)
        # A long name gives way to the state of the file and the number of errors.
        line = Content.styled(cut_left(name, max(room, 8)) if room > 0 else name, "bold") + rest
        if line == self._file_line:
            return False
        self._file_line = line
        self.text_file.update(line, layout=False)
        return True

    def show_findings(self) -> None:
        """Mark the findings in the text."""
        lines = self.editor.lines
        self.editor.show_notes(Note.of(finding, lines) for finding in self._draft.findings)

    def show_brief(self, words: Content) -> None:
        """Show what the reply becomes if there is no room for the preview."""
        self.query_one("#map-brief", CalmStatic).update(words, layout=False)

    def finding_at_cursor(self) -> Finding | None:
        """The worst finding under the cursor, or else on its line."""
        row, column = self.editor.cursor_location
        here = [finding for finding in self._draft.findings if finding.line == row + 1]
        rank = list(GLYPHS)

        def order(finding: Finding) -> tuple[bool, int]:
            end = finding.end_column if finding.end_column is not None else 1_000_000
            return not finding.column <= column + 1 <= end, rank.index(finding.severity)

        return min(here, key=order, default=None)

    def finding_to_fix(self) -> Finding | None:
        """The finding at the cursor, or another one of its line that can be fixed."""
        found = self.finding_at_cursor()
        if found is not None and (found.fix or found.guess):
            return found
        row = self.editor.cursor_location[0] + 1
        here = [finding for finding in self._draft.findings if finding.line == row]
        return next(
            (finding for finding in here if finding.fix),
            next((finding for finding in here if finding.guess), found),
        )

    def show_cursor_line(self) -> None:
        """Show the finding at the cursor below the text, or the cursor's place."""
        row, column = self.editor.cursor_location
        finding = self.finding_at_cursor()
        if finding is not None:
            fix = (
                with_keys("{key:mapping.fix}: ", keymap_of(self.app)) + change.title
                if (change := finding.fix or finding.guess) is not None
                else ""
            )
            words = Content.assemble(
                (f"{GLYPHS[finding.severity]} ", f"bold {SEVERITIES[finding.severity]}"),
                clean_line(finding.message, 300),
                (f"  {clean_line(fix, 100)}", "bold $accent"),
            )
        else:
            words = Content.styled(f"{row + 1}:{column + 1}", "$foreground-muted")
        self.query_one("#map-cursor", CalmStatic).update(words, layout=False)

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self.show_cursor_line()
        # A list of completions belongs to the line it was made for.
        row, column = self.editor.cursor_location
        completion = self.popup.completion
        if (
            self.popup.display
            and completion is not None
            and (column < completion.start or row != self._popup_row)
        ):
            self.hide_popup()
        self._popup_row = row

    @on(TextArea.Changed)
    def _edited(self, event: TextArea.Changed) -> None:
        event.stop()  # `changed` was called already

    # -- moving about
    # ----------------------------------------------------------------------------------------------

    def come(self) -> None:
        """Bring the text to the front, with the focus."""
        if (above := self._panes()) is not None:
            above.bring(self)
        self.editor.focus()

    def jump(self, row: int, column: int = 0) -> None:
        """Go to a place of the text."""
        self.come()
        self.editor.go(row, column)

    def next_finding(self, step: int) -> None:
        """Go to the next finding, or with -1 to the one before."""
        places = sorted(
            {(finding.line - 1, finding.column - 1) for finding in self._draft.findings}
        )
        here = self.editor.cursor_location
        if step > 0:
            place = next((place for place in places if place > here), places[0])
        else:
            place = next((place for place in reversed(places) if place < here), places[-1])
        self.jump(*place)

    @on(YamlEditor.Left)
    def _leave(self, event: YamlEditor.Left) -> None:
        event.stop()
        self.post_message(self.Left())

    # -- search
    # ----------------------------------------------------------------------------------------------

    def find(self) -> None:
        """Search; what is selected is searched for."""
        word = self.editor.selected_text
        if (above := self._panes()) is not None:
            above.bring(self)
        self.find_bar.open(word if "\n" not in word else "")

    @on(FindBar.Closed)
    def _find_closed(self, event: FindBar.Closed) -> None:
        event.stop()
        self.editor.show_pattern(None)
        self.editor.focus()

    @on(FindBar.Sought)
    def _sought(self, event: FindBar.Sought) -> None:
        event.stop()
        self.seek(event.step)

    def seek(self, step: int) -> None:
        """Go to the next match, with -1 to the one before, with 0 to the one at the cursor."""
        bar, editor = self.find_bar, self.editor
        pattern = bar.pattern
        editor.show_pattern(pattern if bar.display else None)
        if pattern is None:
            bar.count(0, 0)
            return
        found = editor.matches(pattern)
        if not found:
            bar.count(0, 0)
            return
        start, end = sorted(editor.selection)
        if step == 0:
            index = next((number for number, (first, _) in enumerate(found) if first >= start), 0)
        elif step > 0:
            index = next(
                (
                    number
                    for number, (first, _) in enumerate(found)
                    if first >= end and (first, _) != (start, end)
                ),
                0,
            )
        else:
            index = next(
                (number for number in range(len(found) - 1, -1, -1) if found[number][0] < start),
                len(found) - 1,
            )
        first, last = found[index]
        editor.go(*first)
        editor.selection = type(editor.selection)(first, last)
        bar.count(index + 1, len(found))

    @on(FindBar.Replace)
    def _replace(self, event: FindBar.Replace) -> None:
        event.stop()
        bar, editor = self.find_bar, self.editor
        pattern = bar.pattern
        if pattern is None:
            return
        if event.everything:
            text, count = pattern.subn(lambda _: bar.replacement, editor.text)
            editor.replace_all(text)
            words = (
                f"{count} {'match' if count == 1 else 'matches'} replaced. {{key:editor.undo}} in "
                "the text takes that back."
            )
            self.app.say(words, severity="success")
            self.seek(0)
            return
        if pattern.fullmatch(editor.selected_text):
            start, end = sorted(editor.selection)
            result = editor.replace(bar.replacement, start, end)
            editor.move_cursor(result.end_location)
        self.seek(0)

    # -- completion
    # ----------------------------------------------------------------------------------------------

    @on(YamlEditor.Wants)
    def _complete(self, event: YamlEditor.Wants) -> None:
        from hudtui.core.gym.editing.completion import complete

        event.stop()
        popup, editor = self.popup, self.editor
        row, column = editor.cursor_location
        found = (
            complete(editor.lines, row, column, self._draft.all_tools)
            if editor.selection.is_empty
            else None
        )
        typed = "" if found is None else editor.document.get_line(row)[found.start : column]
        wanted = event.asked or popup.display or bool(typed.strip("\"'"))
        if found is None or not wanted or not editor.has_focus:
            self.hide_popup()
            if event.asked:
                self.app.say("There is no completion here.")
            return
        popup.offer(found, editor.cursor_screen_offset, self.screen.size)
        editor.popup = True

    def hide_popup(self) -> None:
        self.popup.hide()
        self.editor.popup = False

    @on(YamlEditor.PopupKey)
    def _popup_key(self, event: YamlEditor.PopupKey) -> None:
        event.stop()
        if event.key in ("enter", "tab"):
            self._insert_completion()
        elif event.key == "escape":
            self.hide_popup()
        else:
            self.popup.move(event.key)

    def _insert_completion(self) -> None:
        popup, editor = self.popup, self.editor
        chosen, completion = popup.chosen, popup.completion
        self.hide_popup()
        if chosen is None or completion is None:
            return
        row, column = editor.cursor_location
        line = editor.document.get_line(row)
        end = column
        insert = chosen.insert
        if (
            insert[-1:] in ("'", '"')
            and line[column : column + 1] in ("'", '"')
            and line[completion.start : completion.start + 1] in ("'", '"')
        ):
            end += 1
        elif insert.rstrip().endswith(":") and line[column:].lstrip().startswith(":"):
            insert = insert.rstrip().removesuffix(":")
        result = editor.replace(
            insert, (row, completion.start), (row, end), maintain_selection_offset=False
        )
        editor.move_cursor(result.end_location)
