"""Opening things outside the terminal, where there is a desktop to do it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path


async def open_file(path: Path) -> bool:
    """Open a file with the desktop's own program for it. False where there is no desktop, as over SSH."""
    if sys.platform == "darwin":
        program = shutil.which("open")
    else:
        desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        program = shutil.which("xdg-open") if desktop else None
    if program is None:
        return False
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        program, os.fspath(path), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    try:
        return await asyncio.wait_for(process.wait(), 5) == 0
    except TimeoutError:
        return True  # still running: some openers stay as long as their program does
