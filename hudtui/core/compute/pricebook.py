"""What GPUs have cost as this workspace saw it: a file of lines that only grows, and forgets its older half when it is full."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from hudtui.core.compute.values import Offer
from hudtui.core.errors import InputError
from hudtui.core.files import file_lock, write_atomic

FILE = "prices.jsonl"
MOST = 256 * 1024
"""Bytes that the file may have."""
OFTEN = 600.0
"""Seconds within which the same prices are not noted again."""

PricePoint = tuple[float, float]
"""When, in seconds since the epoch, and the price of one GPU for one hour."""


def price_kind(offer: Offer) -> str:
    """The name that prices are kept under: the same GPU on the same terms, whoever has it."""
    return f"{offer.gpu_type or 'CPU_NODE'} x{offer.gpu_count}{' spot' if offer.spot else ''} {offer.price.currency}"


class PriceHistory:
    """The lowest price of each kind of offer over time.

    Args:
        state_dir: `Workspace.state_dir`. Nothing is kept while it does not exist: only looking leaves no trace.
        most: Bytes that the file may have.
    """

    def __init__(self, state_dir: Path, *, most: int = MOST) -> None:
        self.path = state_dir / FILE
        self._most = most

    def note(self, offers: Iterable[Offer], now: float) -> bool:
        """Note the lowest price of each kind, unless that was done a moment ago with the same result.

        Returns:
            Whether something was noted.

        Raises:
            InputError: The file cannot be written.
        """
        prices: dict[str, float] = {}
        for offer in offers:
            if offer.price.stated:
                kind = price_kind(offer)
                prices[kind] = min(prices.get(kind, offer.gpu_hour), offer.gpu_hour)
        if not prices or not self.path.parent.is_dir():
            return False
        with file_lock(self.path):
            lines = self._lines()
            if lines and lines[-1][1] == prices and 0 <= now - lines[-1][0] < OFTEN:
                return False
            line = json.dumps({"at": round(now, 1), "prices": prices}, separators=(",", ":"), sort_keys=True) + "\n"
            size = self._size()
            if size + len(line) > self._most:
                kept = [json.dumps({"at": at, "prices": old}, separators=(",", ":"), sort_keys=True) for at, old in lines]
                while kept and sum(len(one) + 1 for one in kept) + len(line) > self._most // 2:
                    kept.pop(0)
                write_atomic(self.path, "".join(one + "\n" for one in kept) + line)
            else:
                self._append(line)
        return True

    def histories(self) -> dict[str, tuple[PricePoint, ...]]:
        """What each kind has cost, the oldest first, by `price_kind`. Lines that cannot be read are passed over."""
        found: dict[str, list[PricePoint]] = {}
        for at, prices in self._lines():
            for kind, price in prices.items():
                found.setdefault(kind, []).append((at, price))
        return {kind: tuple(points) for kind, points in found.items()}

    def history(self, offer: Offer) -> tuple[PricePoint, ...]:
        """What the kind of an offer has cost."""
        return self.histories().get(price_kind(offer), ())

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _append(self, line: str) -> None:
        try:
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                # One that was cut off by a crash must not spoil the next.
                whole = self._size() == 0 or self.path.read_bytes().endswith(b"\n")
                os.write(handle, (line if whole else "\n" + line).encode())
            finally:
                os.close(handle)
        except OSError as error:
            raise InputError("the price history cannot be written", why=error.strerror or str(error)) from None

    def _lines(self) -> list[tuple[float, dict[str, float]]]:
        try:
            text = self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return []
        found = []
        for line in text.splitlines():
            try:
                data = json.loads(line)
                found.append((float(data["at"]), {str(kind): float(price) for kind, price in data["prices"].items()}))
            except (ValueError, TypeError, KeyError, AttributeError):
                continue
        return found
