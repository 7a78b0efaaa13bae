"""Times in words short enough for a table."""

from __future__ import annotations


def span(seconds: float) -> str:
    """A duration: `0.4s`, `12s`, `3m 05s`, `2h 10m`, `4d 3h`."""
    if seconds < 10:
        return f"{max(seconds, 0):.1f}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def took(seconds: float) -> str:
    """How long an answer took: as `span`, but never nothing."""
    return span(seconds) if seconds >= 0.05 else "less than 0.1s"


def ago(seconds: float) -> str:
    """How long ago: `now`, `5 min ago`, `3 h ago`, `2 d ago`."""
    if seconds < 60:
        return "now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min ago"
    if seconds < 86400:
        return f"{int(seconds // 3600)} h ago"
    return f"{int(seconds // 86400)} d ago"
