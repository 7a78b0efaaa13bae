"""Which widgets take text. Textual's `TextArea` is slow to import, and nothing before the first paint needs it."""

from __future__ import annotations

import sys

from textual.widgets import Input


def takes_text(widget: object) -> bool:
    """Whether a widget is a field or an editor, where letters are typed and not actions."""
    areas = sys.modules.get("textual.widgets._text_area")  # where nothing has imported it, there is none
    return isinstance(widget, Input) or (areas is not None and isinstance(widget, areas.TextArea))
