"""A connection to an environment, made with the first call and kept for the next ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from hudtui.core.events import Progress
from hudtui.tui.screen import HudtuiScreen

if TYPE_CHECKING:
    from hudtui.core.environment.client import EnvironmentSession
    from hudtui.core.environment.source import Source
    from hudtui.core.environment.values import ToolResult


class Connection:
    """One session with an environment.

    Args:
        screen: Where it says what it waits for; the screen's action `cancel` cancels that.
        changed: Called when it was connected or disconnected.
    """

    def __init__(self, screen: HudtuiScreen, changed: Callable[[], None]) -> None:
        self._screen, self._changed = screen, changed
        self._stack: AsyncExitStack | None = None
        self._source = ""
        self.session: EnvironmentSession | None = None

    async def call(
        self, source: Source, tool: str, arguments: dict[str, Any], *, title: str
    ) -> tuple[ToolResult, float]:
        """Call a tool, shown as `title`, and return its answer and the seconds that it took.

        A connection that fails is closed.

        Raises:
            HudtuiError: The environment cannot be reached, or does not answer.
        """
        from hudtui.core.flows.login import with_login

        app = self._screen.app

        async def work() -> tuple[ToolResult, float]:
            session = await self._connected(source)
            self.wait_for(f"Waiting for {title}")
            began = time.monotonic()
            try:
                result = await session.call_tool(tool, arguments)
            except Exception:
                await self.close()
                raise
            self._screen.clear_message()
            if session.declined:
                self._screen.say("; ".join(session.declined), "warning")
            return result, self.took(began)

        return await with_login(source, app, await asyncio.to_thread(app.project.settings), work)

    @staticmethod
    def took(began: float) -> float:
        """Seconds since a moment."""
        return time.monotonic() - began

    async def _connected(self, source: Source) -> EnvironmentSession:
        from hudtui.core.environment.client import connect

        if self.session is not None and self._source == source.key:
            return self.session
        await self.close()
        self.wait_for(f"Connecting to {source.text}")
        stack = AsyncExitStack()
        self.session = await stack.enter_async_context(connect(source, on_event=self.show_progress))
        self._stack, self._source = stack, source.key
        self._changed()
        return self.session

    def wait_for(self, words: str) -> None:
        """Show what the screen waits for, and how to cancel it."""
        self._screen.busy(f"{words} ({{key:{self._screen.NAME}.cancel}} cancels)")

    def show_progress(self, event: Progress) -> None:
        """Show the progress of the environment."""
        self.wait_for(event.message or event.stage)

    async def close(self) -> None:
        """End the session and its server."""
        stack, self._stack, self.session = self._stack, None, None
        if stack is not None:
            await stack.aclose()
            if self._screen.is_running:
                self._changed()
