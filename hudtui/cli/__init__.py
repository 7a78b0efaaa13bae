"""The commands: parse arguments, call the core, print. No logic of their own."""

from __future__ import annotations

import os
import sys

_COMPLETION = "_HUDTUI_COMPLETE"
"""Set by a shell that asks for completions: it calls without arguments, and wants no app."""


def main() -> None:
    """Entry point of `hudtui`.

    Without arguments the full-screen app opens at once: nothing that only the commands need is imported before its first paint.
    """
    if len(sys.argv) == 1 and _COMPLETION not in os.environ:
        from hudtui.tui.app import run_app

        sys.exit(run_app())
    from hudtui.cli.app import build

    build()()
