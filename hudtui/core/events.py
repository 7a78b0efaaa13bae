"""What long work reports while it goes on: values on an async iterator, rendered by commands and screens alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Progress:
    """Work that moves on. `total` is None while the end is not known."""

    stage: str
    message: str = ""
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class Notice:
    """Something the user should read but that stops nothing."""

    severity: Literal["info", "warning", "error"]
    message: str
