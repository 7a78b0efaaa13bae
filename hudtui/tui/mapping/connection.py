"""The connection of the mapping screen to the environment, made with the first call and kept for the next ones."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from textual.content import Content

from hudtui.core.errors import HudtuiError
from hudtui.core.events import Progress
from hudtui.core.text import clean_line
from hudtui.core.workspace import STATE_FOLDER
from hudtui.tui.screen import HudtuiScreen

if TYPE_CHECKING:
    from collections.abc import Callable

    from hudtui.core.environment.client import EnvironmentSession
    from hudtui.core.gym.interpreter import McpCall
    from hudtui.tui.mapping.draft import LiveConfig


class Connection:
    """One session with the environment that was analyzed last.

    Args:
        screen: Where it says what it waits for.
        changed: Called when it was connected or disconnected.
    """

    def __init__(self, screen: HudtuiScreen, changed: Callable[[], None]) -> None:
        self._screen, self._changed = screen, changed
        self._stack: AsyncExitStack | None = None
        self.session: EnvironmentSession | None = None

    def words(self, draft: LiveConfig) -> tuple[str, str]:
        """The state of the connection, and its style."""
        if self.session is not None:
            return ("● connected", "bold $success")
        if draft.analysis is None:
            return ("○ no environment was inspected", "$foreground-muted")
        source = clean_line(draft.analysis.source, 40)
        if draft.foreign is not None:
            return (f"○ not checked: for {clean_line(draft.foreign, 30)}; last analyzed: {source}", "$foreground-muted")
        return (f"○ not connected ({source})", "$foreground-muted")

    async def send(self, call: McpCall, source: str) -> list[Content]:
        """Send a call, and return the lines of its answer. A connection that fails is closed.

        Raises:
            HudtuiError: The environment cannot be reached, or does not answer.
        """
        from hudtui.tui.mapping.view import answer_lines

        session = await self._connected(source)
        tool = session.tools.get(call.tool)
        self._screen.busy(f"Waiting for {call.tool} ({{key:mapping.cancel}} cancels)")
        began = time.monotonic()
        try:
            result = await session.call_tool(call.tool, call.arguments)
        except HudtuiError:
            await self.close()
            raise
        self._screen.clear_message()
        answer = answer_lines(result, self.took(began))
        if tool is None:
            answer.insert(1, Content.styled("  ! the environment does not list this tool", "$warning"))
        return answer

    @staticmethod
    def took(began: float) -> float:
        """Seconds since a moment."""
        return time.monotonic() - began

    async def _connected(self, text: str) -> EnvironmentSession:
        from hudtui.core.environment.client import connect
        from hudtui.core.environment.source import parse_source
        from hudtui.core.flows.answers import PersonAnswers
        from hudtui.core.settings import load_settings

        if self.session is not None:
            return self.session
        app = self._screen.app
        folder, platform = app.folder, app.platform
        self._screen.busy(f"Connecting to {text}")
        settings = await asyncio.to_thread(load_settings, folder, platform)
        file = folder / STATE_FOLDER / "analyses"
        source = await asyncio.to_thread(parse_source, text, folder=folder, lookup=settings.lookup, file=file)
        stack = AsyncExitStack()
        answers = PersonAnswers(app, settings)
        self.session = await stack.enter_async_context(connect(source, on_event=self._progress, answerer=answers))
        self._stack = stack
        self._changed()
        return self.session

    def _progress(self, event: Progress) -> None:
        self._screen.busy(event.message or event.stage)

    async def close(self) -> None:
        """End the session, so that no server stays behind."""
        stack, self._stack, self.session = self._stack, None, None
        if stack is not None:
            await stack.aclose()
            if self._screen.is_running:
                self._changed()
