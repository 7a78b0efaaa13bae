"""Waiting for what others bring about: a worker of a screen, a task on the loop, another process.

Each wait ends before the time limit of a test, which ends nothing inside of an event loop: a
machine may be slow, and a condition that never comes is an assertion that fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 90.0
"""Seconds for which something is waited for."""


def screen_text(app: Any) -> str:
    """The text of the screen now, as lines."""
    lines = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line).rstrip() for line in lines)


async def until(pilot: Any, condition: Callable[[], object]) -> None:
    """Wait for something that workers of a screen bring about.

    Something that the current screen does not have has not come yet: a dialog may be about to open
    or to close.

    Raises:
        AssertionError: It never came; with the message and the text of the screen.
    """
    from textual.css.query import QueryError

    end = time.monotonic() + PATIENCE
    lacking: Exception | None = None
    while time.monotonic() < end:
        try:
            come, lacking = condition(), None
        except (AttributeError, QueryError) as error:
            come, lacking = False, error
        if come:
            await pilot.pause()
            return
        await pilot.pause(0.02)
    message = getattr(pilot.app.screen, "message", "")
    raise AssertionError(f"it never came: {message}\n{screen_text(pilot.app)}") from lacking


def told(app: Any, words: str) -> bool:
    """Whether a screen has shown a message with these words, also one that another has replaced."""
    return any(words in text for _, _, text in app.messages)


async def eventually(condition: Callable[[], object]) -> None:
    """Wait for something that tasks on the loop or other processes bring about."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def wait_for(condition: Callable[[], object]) -> None:
    """Wait, without a loop, for something that other threads or processes bring about."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
