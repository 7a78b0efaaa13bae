"""The limits of each rented machine, by its name: a small file for all workspaces, so that they can be changed while it runs."""

from __future__ import annotations

import json
from pathlib import Path

from hudtui.core.compute.limits import Limits
from hudtui.core.errors import InputError
from hudtui.core.files import file_lock, write_atomic
from hudtui.core.paths import app_paths

MOST = 500
"""Machines whose limits are kept; those that were written first are forgotten first."""


class LimitBook:
    """Who may cost how much.

    Args:
        path: The file; the user's own by default.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or app_paths().data / "limits.json"

    def get(self, name: str) -> Limits | None:
        """The limits of a machine; None where none were set, or they cannot be read."""
        try:
            return Limits.from_json(self._all()[name])
        except (KeyError, TypeError, AttributeError, InputError):
            return None

    def set(self, name: str, limits: Limits) -> None:
        """Set the limits of a machine.

        Raises:
            InputError: The file cannot be written.
        """
        with file_lock(self.path):
            kept = self._all()
            kept.pop(name, None)
            kept[name] = limits.to_json()
            while len(kept) > MOST:
                kept.pop(next(iter(kept)))
            write_atomic(self.path, json.dumps(kept, indent=1) + "\n", mode=0o600)

    def _all(self) -> dict[str, dict[str, float | None]]:
        try:
            data = json.loads(self.path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return data if isinstance(data, dict) else {}
