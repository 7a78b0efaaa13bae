"""Step by step to what renting machines needs: an API key, an SSH key, and the SSH key known to the provider."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError
from hudtui.tui.widgets.fit import home_short

if TYPE_CHECKING:
    from hudtui.core.compute.provider import Provider
    from hudtui.tui.purse import Office
    from hudtui.tui.screens.base import StationScreen

KEY = "PRIME_API_KEY"
SSH = "PRIME_SSH_KEY_PATH"


@dataclass(frozen=True)
class Registered:
    """A key that the provider knows and that is at hand here."""

    id: str | None
    """The provider's; None where it brings a key of its own."""
    fingerprint: str


async def set_up(screen: StationScreen) -> bool:
    """All three steps; those that are done already are passed over. Whether everything is there now."""
    office = await screen.shell.purse.open()
    if office.access.key is None:
        if not await _ask_api_key(screen):
            return False
        office = await screen.shell.purse.open()
    provider = office.desk.providers.get("prime")
    if provider is None:
        return False
    return await ready_to_log_in(screen, office, provider) is not None


async def _ask_api_key(screen: StationScreen) -> bool:
    from hudtui.core.credentials import check_key
    from hudtui.core.settings import check_setting_value, load_settings, mask, save_project_setting

    shell = screen.shell
    known = (await shell.purse.open()).settings.keys[KEY]
    given = await shell.ask(
        "Step 1: the key of Prime Intellect",
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


async def ready_to_log_in(screen: StationScreen, office: Office, provider: Provider) -> Registered | None:
    """An SSH key that is at hand and that the provider knows: found, chosen, made or registered; None when the user gave up.

    Raises:
        HudtuiError: The key cannot be used, or the provider did not answer.
    """
    from hudtui.core.compute.ssh_key import find_registered, key_path, read_key

    if provider.features.brings_ssh_key:
        return Registered(None, f"of {provider.title}'s own")
    path = await asyncio.to_thread(key_path, office.settings.get)
    if path is None or not path.is_file():
        path = await _choose_key(screen, path)
        if path is None:
            screen.say("Nothing was changed: logging in to a rented machine needs an SSH key.", "warning")
            return None
    key = await asyncio.to_thread(read_key, path)
    if key.exposed:
        if not await screen.shell.confirm(
            "Others may read your private key",
            (f"{home_short(path)}", "ssh refuses such a key."),
            yes="Make it yours alone (chmod 400)",
        ):
            return None
        await asyncio.to_thread(path.chmod, 0o400)
    found = find_registered(key, await provider.keys())
    if found is None:
        lines = (
            home_short(path),
            key.fingerprint,
            "",
            f"{provider.title} does not know it yet. New machines let only known keys in.",
        )
        if not await screen.shell.confirm("Register this SSH key?", lines, yes="Register"):
            return None
        found = await provider.register_key(key.label, key.public_key)
        screen.say(f"{provider.title} knows {home_short(path)} now.", "success")
    return Registered(found.id, key.fingerprint)


async def _choose_key(screen: StationScreen, wanted: Path | None) -> Path | None:
    """One of the user's keys, or a new one; None when they gave up."""
    from hudtui.core.compute.ssh_key import USUAL, keep_path, make_key
    from hudtui.core.settings import load_settings
    from hudtui.tui.widgets.pick import Pick

    shell, folder = screen.shell, Path.home() / ".ssh"
    keys = await asyncio.to_thread(_private_keys, folder)
    new = folder / USUAL[0]
    while new.exists():
        new = new.with_name(f"{new.stem}-new{new.suffix}")
    options = [f"make a new one: {home_short(new)}", *(f"take {home_short(path)}" for path in keys)]
    missing = f"; {home_short(wanted)} is not there" if wanted is not None else ""
    chosen: int | None = await shell.push_screen_wait(Pick(f"Step 2: an SSH key for machines{missing}", options, careful=True))
    if chosen is None:
        return None
    path = await asyncio.to_thread(make_key, new) if chosen == 0 else keys[chosen - 1]
    settings = await asyncio.to_thread(load_settings, shell.folder, shell.platform)
    file = await asyncio.to_thread(keep_path, path, settings)
    screen.say(f"{SSH} is {home_short(path)} now" + (f", in {home_short(file)}." if file else "."), "success")
    shell.reload()
    return path


def _private_keys(folder: Path) -> list[Path]:
    """The private keys in a folder, by name."""
    found = []
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return []
    for path in files:
        try:
            if path.is_file() and path.suffix != ".pub" and b"PRIVATE KEY" in path.read_bytes()[:200]:
                found.append(path)
        except OSError:
            continue
    return found
