"""The base of all editors: text of others is drawn with signs in place of what a terminal obeys or does not show.

The text itself stays as it is. `TextArea` measures its text at several places, so each of them gets the text with the signs: they
take a cell where Textual counts none for what they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast, overload

from rich.cells import cell_len
from rich.text import Text
from textual.expand_tabs import expand_tabs_inline
from textual.geometry import Size
from textual.widgets import TextArea
from textual.widgets.text_area import DocumentBase, DocumentNavigator, WrappedDocument

from hudtui.core.text import signs


class _SignedLines(Sequence[str]):
    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        found = self._lines[place]
        return signs(found) if isinstance(found, str) else list(map(signs, found))


class _SignedDocument:
    """What is drawn of a document, for those that measure it. Rows and columns are the document's own."""

    def __init__(self, document: DocumentBase) -> None:
        self._document = document

    @property
    def lines(self) -> Sequence[str]:
        return _SignedLines(self._document.lines)

    @property
    def line_count(self) -> int:
        return self._document.line_count

    def get_line(self, index: int) -> str:
        return signs(self._document.get_line(index))

    def __getitem__(self, row: int) -> str:
        return self.get_line(row)


class SignedArea(TextArea):
    """A `TextArea` whose lines are drawn by `signed_line`."""

    DEFAULT_CSS = """
    SignedArea > .signed--sign { color: $warning; text-style: reverse; }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"signed--sign"}
    WRAPPED: ClassVar[type[WrappedDocument]] = WrappedDocument

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._measure_signs()

    def load_text(self, text: str) -> None:
        """Load another text; the history of changes begins again."""
        super().load_text(text)
        self._measure_signs()

    def _measure_signs(self) -> None:
        """Have the text measured as it is drawn."""
        drawn = cast(DocumentBase, _SignedDocument(self.document))
        self.wrapped_document = self.WRAPPED(drawn, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        if self.soft_wrap:
            self.wrapped_document.wrap(self.wrap_width, tab_width=self.indent_width)
            self.virtual_size = Size(0, self.wrapped_document.height)

    def validate_virtual_size(self, size: Size) -> Size:
        """Leave room for signs, which may be wider than what they stand for."""
        if self.soft_wrap:
            return size
        odd = (signs(line) for line in self.document.lines if not line.isprintable())
        width = max((cell_len(expand_tabs_inline(line, self.indent_width)) for line in odd), default=0)
        return Size(max(size.width, width + self.gutter_width + 1), size.height)

    def signed_line(self, row: int) -> Text:
        """A line as it is drawn."""
        line = self.document.get_line(row)
        drawn = signs(line)
        text = Text(drawn, end="", no_wrap=True)
        if drawn != line:
            style = self.get_component_rich_style("signed--sign", partial=True)
            for place, (shown, letter) in enumerate(zip(drawn, line, strict=True)):
                if shown != letter:
                    text.stylize(style, place, place + 1)
        return text

    def get_line(self, line_index: int) -> Text:
        return self.signed_line(line_index)

    def get_column_width(self, row: int, column: int) -> int:
        return cell_len(expand_tabs_inline(signs(self.document[row])[:column], self.indent_width))

    def cell_width_to_column_index(self, cell_width: int, row_index: int) -> int:
        line, places = signs(self.document[row_index]), range(len(self.document[row_index]))
        ends = (cell_len(expand_tabs_inline(line[: place + 1], self.indent_width)) for place in places)
        return next((place for place, end in enumerate(ends) if end > cell_width), len(places))
