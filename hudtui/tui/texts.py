"""Which widgets take text.

Textual's `TextArea` is slow to import, and nothing before the first paint needs it.
"""

from __future__ import annotations

import sys

from textual.widgets import Input


def takes_text(widget: object) -> bool:
    """Whether a widget is a field or an editor, where letters are typed and not actions."""
    areas = sys.modules.get(
        "textual.widgets._text_area"
    )  # where nothing has imported it, there is none
    area = getattr(areas, "TextArea", None)  # None while another thread imports the module
    return isinstance(widget, Input) or (area is not None and isinstance(widget, area))
