"""The base of all editors.

Text of others is drawn with signs in place of what a terminal obeys or does not show. The text
itself stays as it is. `TextArea` measures its text at several places, so each of them gets the text
with the signs: they take a cell where Textual counts none for what they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast, overload

from rich.text import Text
from textual._cells import cell_len, cell_width_to_column_index
from textual.document._document import DocumentBase
from textual.document._document_navigator import DocumentNavigator
from textual.document._wrapped_document import WrappedDocument
from textual.expand_tabs import expand_tabs_inline
from textual.widgets import TextArea

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
    """What is drawn of a document, for those that measure it.

    Rows and columns are the document's own.
    """

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

    def _set_document(self, text: str, language: str | None) -> None:
        super()._set_document(text, language)
        drawn = cast(DocumentBase, _SignedDocument(self.document))
        self.wrapped_document = self.WRAPPED(drawn, tab_width=self.indent_width)
        self.navigator = DocumentNavigator(self.wrapped_document)
        if self.soft_wrap:
            self._rewrap_and_refresh_virtual_size()

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
        return cell_width_to_column_index(
            signs(self.document[row_index]), cell_width, self.indent_width
        )
