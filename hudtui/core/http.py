"""What every client of a web service needs to know: whose address it is, and when to try again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether an http address is of this machine."""
    import ipaddress

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in ("http", "https") and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
    except ValueError:
        return False


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a service asks to wait, given as a number or as a date; None where it does not.

    Args:
        headers: Of the answer. Their names are found in small letters.
    """
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
        return max(0.0, seconds) if math.isfinite(seconds) else None
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (when - datetime.now(UTC)).total_seconds()) if when.tzinfo else None


def bad_key_character(text: str) -> int | None:
    """The position, counting from 1, of the first character that no API key has; None if all could be in one.

    Keys are visible ASCII characters. A header with any other cannot be sent, and the error of the attempt would quote the key.
    """
    return next((place for place, character in enumerate(text, 1) if not "!" <= character <= "~"), None)
