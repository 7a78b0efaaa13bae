"""The demo.

A small project around the bundled environment text-2048, and a complete pass through it without a
screen.
"""

from hudtui.core.demo.walk import DemoResult, DemoRow, LogLine, RunBegun, reached_tile, walk
from hudtui.core.demo.workspace import (
    DEFAULT_FOLDER,
    FILES,
    DemoWorkspace,
    is_demo,
    make_workspace,
    prepare,
    task_records,
)

__all__ = [
    "DEFAULT_FOLDER",
    "FILES",
    "DemoResult",
    "DemoRow",
    "DemoWorkspace",
    "LogLine",
    "RunBegun",
    "is_demo",
    "make_workspace",
    "prepare",
    "reached_tile",
    "task_records",
    "walk",
]
