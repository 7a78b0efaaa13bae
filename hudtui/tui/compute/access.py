"""What renting machines needs: an API key, and an SSH key that the provider knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hudtui.tui.screen import HudtuiScreen

KEY = "PRIME_API_KEY"


async def set_up(screen: HudtuiScreen) -> bool:
    """Ask for what is missing. Returns whether everything is there now."""
    from hudtui.core.flows.keys import prepare_key

    session = await screen.app.spending.open()
    if session.access.key is None:
        if not await _api_key(screen):
            return False
        session = await screen.app.spending.open()
    provider = session.overview.providers.get("prime")
    if provider is None:
        return False
    ready = await prepare_key(screen.app.project, provider, screen.app) is not None
    screen.app.reload()
    return ready


async def _api_key(screen: HudtuiScreen) -> bool:
    """Ask for the provider's key and check that it works. Returns whether it may be used."""
    from hudtui.core.credentials import check_key
    from hudtui.core.flows.prepare import set_key

    shell = screen.app
    if not await set_key(KEY, shell.project, shell):
        return False
    screen.busy("Asking whether the key works")
    check = await check_key(KEY, await asyncio.to_thread(shell.project.settings))
    screen.say(check.message, "success" if check.ok else "warning")
    shell.reload()
    return check.ok or check.verdict in ("limited", "unclear", "unreachable", "untestable")
