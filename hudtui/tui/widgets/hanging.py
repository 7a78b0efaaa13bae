"""Text after a lead, such as a mark or a line number.

The lines that it wraps to begin below its first word.
"""

from __future__ import annotations

from textual.content import Content
from textual.css.styles import RulesMap
from textual.strip import Strip
from textual.style import Style
from textual.visual import RenderOptions, Visual

from hudtui.core.text import clean_line


def hanging_lines(lead: Content, body: Content, width: int) -> list[Content]:
    """Return a lead and what follows it, wrapped at spaces.

    The lines have at most `width` cells where words allow it.
    """
    indent = lead.cell_length
    first, *rest = body.wrap(max(width - indent, 1)) or [Content("")]
    return [lead + first, *(Content(" " * indent) + line for line in rest)]


def fact_lines(name: str, value: str, style: str, width: int) -> list[Content]:
    """Return a name and its value in lines of at most `width` cells.

    All lines of the value begin in the same column.
    """
    return hanging_lines(
        Content.styled(f"{name:<9}", "$foreground-muted"),
        Content.styled(clean_line(value), style),
        width,
    )


class Hanging(Visual):
    """A lead and what follows it, wrapped to whatever width there is.

    Args:
        lead: On the first line only.
        body: The text.
    """

    def __init__(self, lead: Content, body: Content) -> None:
        self.lead, self.body = lead, body

    def _lines(self, width: int) -> Content:
        return Content("\n").join(hanging_lines(self.lead, self.body, width))

    def render_strips(
        self, width: int, height: int | None, style: Style, options: RenderOptions
    ) -> list[Strip]:
        return self._lines(width).render_strips(width, height, style, options)

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        """All of it on one line."""
        return self.lead.cell_length + self.body.cell_length

    def get_height(self, rules: RulesMap, width: int) -> int:
        """How many lines it takes."""
        return self._lines(width).get_height(rules, width)
