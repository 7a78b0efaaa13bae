"""What renting machines needs: an API key, and an SSH key that the provider knows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError
from hudtui.core.text import home_short

if TYPE_CHECKING:
    from hudtui.tui.screens.base import StationScreen

KEY = "PRIME_API_KEY"


async def set_up(screen: StationScreen) -> bool:
    """Ask for what is missing. Returns whether everything is there now."""
    from hudtui.core.flows.keys import prepare_key

    office = await screen.shell.purse.open()
    if office.access.key is None:
        if not await _ask_api_key(screen):
            return False
        office = await screen.shell.purse.open()
    provider = office.desk.providers.get("prime")
    if provider is None:
        return False
    ready = await prepare_key(screen.shell.project, provider, screen.shell) is not None
    screen.shell.reload()
    return ready


async def _ask_api_key(screen: StationScreen) -> bool:
    from hudtui.core.credentials import check_key
    from hudtui.core.settings import check_setting_value, load_settings, mask, save_project_setting

    shell = screen.shell
    known = (await shell.purse.open()).settings.keys[KEY]
    given = await shell.ask(
        "An API key of Prime Intellect",
        lines=(f"Make one at {known.get_it}", "It may need to read availability and to read and write instances and SSH keys."),
        placeholder="paste the key; it is not shown",
        secret=True,
        accept="Next",
    )
    value = (given or "").strip()
    if not value:
        screen.say("Nothing was changed: renting machines needs a key.", "warning")
        return False
    problem = check_setting_value(known, value)
    if problem is not None:
        raise InputError(f"{KEY} cannot be that", why=problem)
    path = shell.folder / ".env"
    lines = (f"{KEY} = {mask(value)}", f"into {home_short(path)}", "Only you will be able to read the file (mode 0600).")
    if not await shell.confirm("Write this key?", lines, yes="Write"):
        return False
    await asyncio.to_thread(save_project_setting, shell.folder, KEY, value)
    screen.busy("Asking whether the key works")
    check = await check_key(KEY, await asyncio.to_thread(load_settings, shell.folder, shell.platform))
    screen.say(check.message, "success" if check.ok else "warning")
    shell.reload()
    return check.ok or check.verdict in ("limited", "unclear", "unreachable", "untestable")
