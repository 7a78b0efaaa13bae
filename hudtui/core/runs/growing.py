"""Files on a run's machine that are looked at again and again: only what is new is fetched, and never more than a look may."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

from hudtui.core.remote.host import NOT_A_FILE, FileRefused, FileStat, Host

SEAM = 64
"""Bytes before the offset that are read again, to notice a file that was written anew."""
PIECE = 1024 * 1024
"""Bytes that are fetched at once."""


@dataclass(frozen=True)
class TailRead:
    """What a look at a file brought."""

    data: bytes
    truncated: bool = False
    """The file was emptied or replaced: what was read before belongs to an older one."""
    skipped: int = 0
    """Bytes before `data` that were passed over: the first line of `data` may lack its beginning."""


class TailReader:
    """A file that is read on from where the last look ended.

    Args:
        path: On its machine.
        most: Bytes of one look. What is older is passed over.
    """

    def __init__(self, path: str, *, most: int) -> None:
        self.path = path
        self.facts: FileStat | None = None
        """What the last look saw; None for a file that was not there."""
        self.skipped = 0
        """Bytes that were passed over in all, of the file as it is now."""
        self._most = most
        self._offset, self._seam = 0, b""

    async def look(self, host: Host) -> TailRead:
        """Fetch what is new, as a whole.

        Raises:
            FileRefused: It cannot be read, or is no ordinary file.
            MachineError: The machine does not answer.
        """
        found = [piece async for piece in self.pieces(host)]
        return TailRead(b"".join(piece.data for piece in found), *((found[0].truncated, found[0].skipped) if found else ()))

    async def pieces(self, host: Host) -> AsyncGenerator[TailRead, None]:
        """Fetch what is new, piece by piece; the first one tells what happened to the file.

        Raises:
            FileRefused: It cannot be read, or is no ordinary file.
            MachineError: The machine does not answer.
        """
        self.facts = facts = await host.facts(self.path)
        if facts is None or (facts.size == self._offset and facts.size > 0):
            return
        if not facts.regular:
            raise FileRefused(f"{self.path} on {host.name} is not read", why=NOT_A_FILE)
        truncated = False
        if self._seam:
            head = await host.get(self.path, offset=self._offset - len(self._seam), limit=len(self._seam))
            if head != self._seam:
                truncated, self._offset, self._seam, self.skipped = True, 0, b"", 0
        skipped = max(facts.size - self._offset - self._most, 0)
        if skipped:
            self._offset, self._seam = self._offset + skipped, b""
            self.skipped += skipped
        first = True
        while self._offset < facts.size:
            data = await host.get(self.path, offset=self._offset, limit=min(PIECE, facts.size - self._offset))
            if not data:
                break
            self._offset += len(data)
            self._seam = (self._seam + data)[-SEAM:]
            yield TailRead(data, truncated and first, skipped if first else 0)
            first = False
        if first and truncated:
            yield TailRead(b"", truncated)
