"""Events of long work: values on an async iterator, rendered by commands and screens alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Progress:
    """Progress of the work. `total` is None while the end is not known."""

    stage: str
    message: str = ""
    done: int | None = None
    total: int | None = None


@dataclass(frozen=True)
class Notice:
    """A message that the user should read; the work continues."""

    severity: Literal["info", "warning", "error"]
    message: str
