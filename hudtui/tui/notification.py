"""Desktop notifications, which the terminal shows.

Also over SSH, where no program of the desktop can be reached.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from hudtui.core.text import clean_line


def notification(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return what a terminal has to be sent.

    OSC 9, of rxvt OSC 777, through tmux where hudtui runs inside it. A terminal that knows neither
    shows nothing. tmux passes it on with `set -g allow-passthrough on`.
    """
    words = clean_line(text, 200)
    rxvt = environ.get("TERM", "").startswith("rxvt")
    sequence = f"\x1b]777;notify;hudtui;{words}\a" if rxvt else f"\x1b]9;hudtui: {words}\a"
    return (
        f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
        if environ.get("TMUX")
        else sequence
    )
