r"""Copying that arrives: also from a remote machine, also inside tmux.

A bare OSC 52 sequence is swallowed by tmux unless it was configured for it; `tmux load-buffer -w -`
passes it on in every case. Whatever way is taken, a text that is no secret is also kept in a file:
a terminal never says whether it took an OSC 52.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

OSC52_LIMIT = 74_000
"""Bytes of text beyond which common terminals drop the sequence."""


@dataclass(frozen=True)
class Copied:
    """Where the text went."""

    way: str
    """`tmux`, `osc52`, or `file` when only the file holds it."""
    file: Path | None
    note: str
    """One sentence for the user."""


async def copy(
    text: str,
    *,
    write: Callable[[str], None] | None,
    file: Path | None,
    environ: Mapping[str, str] = os.environ,
) -> Copied:
    """Copy `text` by the surest way there is.

    The copy has nothing that a terminal would obey when it is pasted into a shell.

    Args:
        text: What to copy; goes through `text.clean`.
        write: Sends a sequence to the terminal; None when there is none.
        file: Where the text is kept as well, mode 0600; None for a secret, which no file keeps.
        environ: Tells about tmux and the terminal.
    """
    from hudtui.core.errors import HudtuiError
    from hudtui.core.files import write_atomic
    from hudtui.core.text import clean

    text = clean(text)
    kept: Path | None = file
    place = f"also in {file}" if file else "no file keeps it, as it is a secret"
    try:
        if file is not None:
            await asyncio.to_thread(write_atomic, file, text, mode=0o600)
    except HudtuiError:
        kept, place = None, "no file could be written"
    size = len(text.encode())
    amount = f"{len(text.splitlines())} lines" if "\n" in text else f"{len(text)} characters"
    if environ.get("TMUX") and await _tmux(text):
        return Copied("tmux", kept, f"Copied {amount} through tmux; {place}.")
    if (
        write is not None
        and size <= OSC52_LIMIT
        and environ.get("TERM_PROGRAM") != "Apple_Terminal"
    ):
        write(f"\x1b]52;c;{b64encode(text.encode()).decode()}\a")
        inside = " (tmux refused its buffer)" if environ.get("TMUX") else ""
        return Copied(
            "osc52", kept, f"Copied {amount} through the terminal (OSC 52){inside}; {place}."
        )
    reason = (
        "it is too long for the terminal" if size > OSC52_LIMIT else "this terminal takes no copies"
    )
    if kept is None:
        return Copied("file", None, f"Not copied: {reason}, and {place}.")
    return Copied("file", kept, f"Copied {amount} into {kept} only: {reason}.")


async def _tmux(text: str) -> bool:
    """Hand the text to tmux.

    tmux gives it to its outer terminal (3.2 and later) and keeps it as its own buffer.
    """
    for options in (["-w"], []):
        try:
            process = await asyncio.create_subprocess_exec(
                "tmux",
                "load-buffer",
                *options,
                "-",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
        except OSError:
            return False
        try:
            await asyncio.wait_for(process.communicate(text.encode()), timeout=5)
        except (TimeoutError, OSError):
            return False
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode == 0:
            return bool(options)
    return False
