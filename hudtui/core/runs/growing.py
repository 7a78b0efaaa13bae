"""Files on a run's machine that are looked at again and again: only what is new is fetched."""

from __future__ import annotations

from dataclasses import dataclass

from hudtui.core.remote.host import FileFacts, Host

SEAM = 64
"""Bytes before the offset that are read again, to notice a file that was written anew."""
PIECE = 4 * 1024 * 1024
"""Bytes that are fetched at once."""


@dataclass(frozen=True)
class Fresh:
    """What a look at a file brought."""

    data: bytes
    anew: bool = False
    """The file was emptied or replaced: what was read before belongs to an older one."""
    skipped: int = 0
    """Bytes before `data` that were passed over."""


class GrowingFile:
    """A file that is read on from where the last look ended.

    Args:
        path: On its machine.
        most: Bytes of one look. What is older is passed over; None to read everything.
    """

    def __init__(self, path: str, *, most: int | None = None) -> None:
        self.path = path
        self.facts: FileFacts | None = None
        """What the last look saw; None for a file that was not there."""
        self._most = most
        self._offset, self._seam = 0, b""

    async def look(self, host: Host) -> Fresh:
        """Fetch what is new.

        Raises:
            MachineError: It cannot be read.
        """
        self.facts = facts = await host.facts(self.path)
        if facts is None or (facts.size == self._offset and facts.size > 0):
            return Fresh(b"")
        anew = False
        if self._seam:
            head = await host.get(self.path, offset=self._offset - len(self._seam), limit=len(self._seam))
            if head != self._seam:
                anew, self._offset, self._seam = True, 0, b""
        skipped = 0
        if self._most is not None and facts.size - self._offset > self._most:
            skipped = facts.size - self._most - self._offset
            self._offset, self._seam = self._offset + skipped, b""
        parts: list[bytes] = []
        while self._offset < facts.size:
            data = await host.get(self.path, offset=self._offset, limit=min(PIECE, facts.size - self._offset))
            if not data:
                break
            parts.append(data)
            self._offset += len(data)
            self._seam = (self._seam + data)[-SEAM:]
        return Fresh(b"".join(parts), anew, skipped)
