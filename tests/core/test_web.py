from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from hudtui.core.http import is_loopback, retry_after


@pytest.mark.parametrize("url", ["http://localhost:8000", "https://127.0.0.1/api", "http://127.3.2.1", "http://[::1]:80/x"])
def test_addresses_of_this_machine(url: str) -> None:
    assert is_loopback(url)


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1", "ftp://127.0.0.1", "http://localhost.example.com", "http://10.0.0.1", "http://[::1", "http://0.0.0.0"],
)
def test_addresses_that_are_not(url: str) -> None:
    assert not is_loopback(url)


@pytest.mark.parametrize(
    ("value", "seconds"), [("7", 7.0), ("0.5", 0.5), ("-3", 0.0), ("", None), ("soon", None), ("inf", None), ("nan", None)]
)
def test_seconds_to_wait(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}) == seconds


def test_a_date_to_wait_for() -> None:
    later, past = (datetime.now(UTC) + timedelta(seconds=shift) for shift in (3600, -3600))
    told = retry_after({"retry-after": format_datetime(later, usegmt=True)})
    assert told is not None and 3500 < told <= 3600
    assert retry_after({"retry-after": format_datetime(past, usegmt=True)}) == 0.0
    assert retry_after({"retry-after": format_datetime(later.replace(tzinfo=None))}) is None, "of which zone?"
    assert retry_after({}) is None
