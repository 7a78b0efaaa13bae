"""The beginnings of the lines of a file, so that long lines elsewhere are not fetched whole."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from hudtui.core.errors import MachineError
from hudtui.core.remote.host import LOCAL, Host, file_words
from hudtui.core.text import clean_line, failure_text

_PIECE = 4 * 1024 * 1024
"""Bytes of a file that are looked at together."""
_LONGEST = 64 * 1024 * 1024
"""Bytes of the longest line; a longer one is cut into several."""
_PATIENCE = 60.0
"""Seconds that a machine may take for a piece."""

# Arguments: path, first byte counted from 1, bytes, longest head, a text at which a head ends. For
# each line its number of bytes and its head, also for what stands behind the last end of a line,
# which has a point more; the last line shows that the answer is whole.
_SCRIPT = r"""
export LC_ALL=C
exec < "$1" || exit 3
{ tail -c +"$2" | head -c "$3"; echo .; } | END="$5" awk -v most="$4" '
{ head = substr($0, 1, most); n = index(head, ENVIRON["END"])
  print length($0) " " (n ? substr(head, 1, n + length(ENVIRON["END"]) - 1) : head) }
END { print "end" }'
"""
_ROW = re.compile(rb"(\d{1,12}) (.*)", re.DOTALL)


@dataclass(frozen=True)
class LineHeads:
    """Beginnings of whole lines."""

    lines: list[bytes]
    end: int
    """Byte offset after the last of them."""


async def line_heads(
    host: Host, path: str, offset: int, size: int, *, longest: int, until: bytes
) -> LineHeads | None:
    """Return the beginnings of the next whole lines of a file; None if there is no whole line.

    Args:
        host: The machine of the file.
        path: The file there.
        offset: Byte offset at which a line begins.
        size: Byte offset at which the file ends.
        longest: Bytes of a beginning.
        until: What stands after it is left out where there is such a text.

    Raises:
        MachineError: The machine does not answer, or cannot read the file.
    """
    count = min(_PIECE, size - offset)
    while True:
        if host.name == LOCAL:
            data = await host.get(path, offset=offset, limit=count)
            rows = [(len(line), line) for line in await asyncio.to_thread(data.split, b"\n")]
        else:
            rows = await _ask(host, path, offset, count, longest, until)
        rest = rows.pop()[0]  # has no end yet
        if rows:
            end = offset + sum(length + 1 for length, _ in rows)
            return LineHeads([line[:longest] for _, line in rows], end)
        if rest < count or offset + count >= size:
            return None  # it is shorter by now, or its last line is still being written
        if count >= _LONGEST:
            return LineHeads([], offset + count)
        count = min(2 * count, _LONGEST, size - offset)


async def _ask(
    host: Host, path: str, offset: int, count: int, longest: int, until: bytes
) -> list[tuple[int, bytes]]:
    """Return the bytes and the heads of all lines, and of what stands behind the last end."""
    bounds = (str(offset + 1), str(count), str(longest))
    command = ["sh", "-c", _SCRIPT, "sh", path, *bounds, until.decode()]
    done = await host.run(command, timeout=_PATIENCE)
    *rows, last = done.stdout.encode("utf-8", "surrogateescape").rstrip(b"\n").split(b"\n")
    found = [match for row in rows if (match := _ROW.fullmatch(row)) is not None]
    if last != b"end" or not found:
        why = failure_text(done.stderr, 300) or f"it printed {clean_line(done.stdout, 200)!r}"
        raise MachineError(f"{file_words(host, path)} could not be read", why=why)
    *whole, unfinished = [(int(match[1]), match[2]) for match in found]
    return [*whole, (unfinished[0] - 1, unfinished[1])]
