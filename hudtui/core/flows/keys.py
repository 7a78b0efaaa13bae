"""The SSH key for rented machines.

Chosen or made, readable by its owner alone, and known to the provider.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from hudtui.core.compute.provider import Provider
from hudtui.core.compute.ssh_key import (
    VARIABLE,
    KeyFile,
    find_registered,
    keep_path,
    key_path,
    make_key,
    private_keys,
    read_key,
    unused_path,
)
from hudtui.core.compute.values import SshKey
from hudtui.core.errors import InputError
from hudtui.core.flows.person import Choice, Person
from hudtui.core.project import Project
from hudtui.core.text import home_short


@dataclass(frozen=True)
class LoginKey:
    """A key that logs in to a provider's new machines."""

    id: str | None
    """The provider's id of the key; None where the provider brings a key of its own."""
    fingerprint: str


async def prepare_key(
    project: Project, provider: Provider, person: Person, *, set_up: bool = True
) -> LoginKey | None:
    """Return a key that logs in to the provider's new machines.

    All that is missing for that is done first.

    Args:
        project: Whose settings name the key.
        provider: Where machines will be rented.
        person: Chooses or makes a key, lets its mode be repaired, and agrees to its registration.
        set_up: A key may be made and registered. False: a missing key and an unregistered one are
            errors.

    Returns:
        The key. None if the user declined.

    Raises:
        InputError: The key cannot be used, or, without `set_up`, something is missing.
        ProviderError: The provider did not answer.
    """
    if provider.features.brings_ssh_key:
        return LoginKey(None, f"of {provider.title}'s own")
    path = await asyncio.to_thread(lambda: key_path(project.settings().get))
    if path is None or (set_up and not path.is_file()):
        if not set_up:
            raise InputError(
                "you have no SSH key to log in with",
                fix="Make one: hudtui pods keys create. Then: hudtui pods keys register",
            )
        path = await _choose(project, path, person)
        if path is None:
            person.say(
                "Nothing was changed: logging in to a rented machine needs an SSH key.",
                severity="warning",
            )
            return None
    key = await make_private(await asyncio.to_thread(read_key, path), person)
    if key.exposed:
        return None
    found = find_registered(key, await provider.keys())
    if found is None and not set_up:
        raise InputError(
            f"{provider.title} does not know your SSH key {home_short(key.path)}, so you could not "
            "log in",
            fix="Register it first: hudtui pods keys register",
        )
    found = found or await register(key, provider, person)
    return None if found is None else LoginKey(found.id, key.fingerprint)


async def create_key(project: Project, path: Path, person: Person) -> tuple[KeyFile, Path | None]:
    """Make a key without a pass-phrase and keep its path in the user's settings.

    So all projects use it.

    Returns:
        The key, and the file that keeps its path; None where hudtui finds the key without. See
        `ssh_key.keep_path`.

    Raises:
        InputError: There is a file of that name, or a file cannot be written.
    """
    key = await asyncio.to_thread(lambda: read_key(make_key(path)))
    return key, await _keep(project, key.path, person)


async def make_private(key: KeyFile, person: Person) -> KeyFile:
    """Offer to let the owner alone read a key.

    Returns the key; it is still `exposed` if the user declined.
    """
    if not key.exposed:
        return key
    lines = (home_short(key.path), "ssh refuses it.")
    if await person.confirm(
        "Others may read your private key", lines, yes="Make it readable by you only (chmod 400)"
    ):
        await asyncio.to_thread(key.path.chmod, 0o400)
        person.say(f"Only you can read {home_short(key.path)} now.")
        return replace(key, exposed=False)
    return key


async def register(
    key: KeyFile,
    provider: Provider,
    person: Person,
    *,
    known: SshKey | None = None,
    name: str | None = None,
) -> SshKey | None:
    """Make a public key known to a provider, as the primary one.

    Args:
        key: The key. Its private part stays here.
        provider: Whose account gets the key.
        person: Agrees to it. Is not asked if the key is the primary one already.
        known: The provider's entry of the key, if there is one.
        name: What the provider calls a new entry; `KeyFile.label` when None.

    Returns:
        The provider's entry. None if the user declined.

    Raises:
        ProviderError: The provider refused, or did not answer.
    """
    if known is not None and known.primary:
        person.say(f"{provider.title} knows {home_short(key.path)} already.")
        return known
    why = (
        "does not know it yet. New machines accept only registered keys."
        if known is None
        else "knows it, but another key is the primary one."
    )
    lines = (home_short(key.path), key.fingerprint, "", f"{provider.title} {why}")
    question = "Register this SSH key?" if known is None else "Make this SSH key the primary one?"
    if not await person.confirm(
        question, lines, yes="Register" if known is None else "Make it primary"
    ):
        return None
    entry = await provider.register_key(name or key.label, key.public_key)
    done = (
        f"knows {home_short(key.path)} now"
        if known is None
        else f"prefers {home_short(key.path)} now"
    )
    person.say(f"{provider.title} {done}.")
    return entry


async def _choose(project: Project, missing: Path | None, person: Person) -> Path | None:
    """Return one of the user's keys, or a new one; None if the user declined."""
    keys, new = await asyncio.to_thread(lambda: (private_keys(), unused_path()))
    choices = [
        Choice("", f"make a new one: {home_short(new)}"),
        *(Choice(str(one), f"take {home_short(one)}") for one in keys),
    ]
    gone = "" if missing is None else f"; {home_short(missing)} is not there"
    chosen = await person.choose(f"An SSH key for rented machines{gone}", choices)
    if chosen is None:
        return None
    if not chosen:
        key, _ = await create_key(project, new, person)
        return key.path
    await _keep(project, Path(chosen), person)
    return Path(chosen)


async def _keep(project: Project, path: Path, person: Person) -> Path | None:
    file = await asyncio.to_thread(lambda: keep_path(path, project.settings()))
    settings = await asyncio.to_thread(project.settings)
    if key_path(settings.get) != path:
        text = (
            f"{VARIABLE} is set to {settings.get(VARIABLE)} in {settings.origin(VARIABLE)}, and "
            "that key takes precedence."
        )
        person.say(text, severity="warning")
    else:
        person.say(
            f"{home_short(path)} is the key for rented machines now"
            + (f", in {home_short(file)}." if file else ".")
        )
    return file
