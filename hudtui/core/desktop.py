"""Opening files and web pages outside the terminal, where there is a desktop to do it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path


def has_desktop() -> bool:
    """Return True if this process runs on a desktop that the user looks at; False over SSH."""
    return _opener() is not None and "SSH_CONNECTION" not in os.environ


async def open_externally(target: Path | str) -> bool:
    """Open a file or a web page with the desktop's own program for it.

    False where there is no desktop, as over SSH.
    """
    program = _opener()
    if program is None:
        return False
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        program, os.fspath(target), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        return await asyncio.wait_for(process.wait(), 5) == 0
    except TimeoutError:
        return True  # still running: some openers stay as long as their program does


def _opener() -> str | None:
    if sys.platform == "darwin":
        return shutil.which("open")
    desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return shutil.which("xdg-open") if desktop else None
