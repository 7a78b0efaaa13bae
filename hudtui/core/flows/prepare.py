"""Fixes of what a run lacks.

The checks of `runs.prepare` name a remedy, and the user agrees to it here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from hudtui.core.compute.provider import Provider
from hudtui.core.compute.registry import usual_rental
from hudtui.core.errors import InputError
from hudtui.core.events import Progress
from hudtui.core.flows.generate import generate_from
from hudtui.core.flows.keys import prepare_key
from hudtui.core.flows.person import Choice, Person
from hudtui.core.project import Project
from hudtui.core.remote.host import LOCAL
from hudtui.core.runs.checks import Check
from hudtui.core.runs.inputs import push_lock_image
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.site import DEFAULT_GPU, open_request_provider, request_host
from hudtui.core.settings import (
    check_setting_value,
    save_project_setting,
    save_user_setting,
    user_file,
)
from hudtui.core.text import clean_line, home_short

OnEvent = Callable[[Progress], None]


async def fix(
    check: Check,
    request: RunRequest,
    project: Project,
    person: Person,
    *,
    providers: Mapping[str, Provider] | None = None,
    on_event: OnEvent | None = None,
) -> RunRequest | None:
    """Offer to fix what a check has found missing.

    Args:
        check: A check with a remedy.
        request: The run as the user asks for it.
        project: The project. What the fix writes, it reads at the next check.
        person: The user.
        providers: Providers by name; None opens them by the settings.
        on_event: Receives the progress.

    Returns:
        The request, changed where the remedy is a choice. None if nothing was done.

    Raises:
        Untrusted: The user has not agreed to what the check needs; whoever shows the error asks.
        HudtuiError: The fix failed.
    """
    if check.remedy in ("choose-config", "choose-tasks"):
        what = "configuration" if check.remedy == "choose-config" else "task file"
        chosen = await person.choose(
            f"Which {what}?", [Choice(option, option) for option in check.options]
        )
        if chosen is None:
            return None
        return (
            replace(request, config=Path(chosen))
            if check.remedy == "choose-config"
            else replace(request, tasks=chosen)
        )
    if check.remedy == "generate-config":
        return await _generate(request, project, person, on_event)
    if check.remedy == "choose-machine":
        return await _choose_machine(request, project, person)
    if check.remedy == "trust":
        (await asyncio.to_thread(project.settings)).require_trust()
        return request
    if check.remedy == "set-key":
        done = await set_key(check.options[0], project, person)
    elif check.remedy == "push-image":
        done = await _push(check.options[0], project, person, on_event)
    elif check.remedy in ("make-key", "register-key"):
        done = await _log_in(request, project, person, providers)
    else:
        return None
    return request if done else None


async def set_key(name: str, project: Project, person: Person) -> bool:
    """Ask for the value of a setting and write it down.

    In the project's `.env`, or in the user's settings if it is the user's.

    Args:
        name: The setting, or another variable that the servers of the tasks need.
        project: The project.
        person: The user. The value is asked for as a secret.

    Returns:
        Whether the setting has the new value.

    Raises:
        Untrusted: A value stands in the project's `.env`, and the user has not agreed to it.
        InputError: The value cannot be right, or cannot be written.
    """
    settings = await asyncio.to_thread(project.settings)
    settings.use(name)
    known = settings.keys.get(name)
    needs = None if known is None else known.needs
    users = needs is not None and settings.origin(name) != ".env"
    file = user_file() if users else project.folder / ".env"
    lines = [f"It is kept in {home_short(file)}, which only you can read."]
    if known is not None and known.get_it:
        lines[:0] = [f"Make one at {known.get_it}", *filter(None, [needs])]
    given = await person.ask(
        f"What is {name}?",
        lines=tuple(lines),
        placeholder="it is not shown",
        secret=True,
        accept="Save",
    )
    value = (given or "").strip()
    if not value:
        person.say(f"Nothing was changed: {name} has no value yet.", severity="warning")
        return False
    problem = check_setting_value(known, value) if known is not None else None
    if problem is not None:
        raise InputError(f"{name} cannot be that", why=problem)
    if users:
        await asyncio.to_thread(save_user_setting, name, value)
    else:
        await asyncio.to_thread(save_project_setting, project.folder, name, value)
    settings = await asyncio.to_thread(project.settings)
    if settings.get(name) != value:
        person.say(
            f"{name} is also set in {settings.origin(name)}, and that value takes precedence.",
            severity="warning",
        )
        return False
    person.say(f"{name} is in {home_short(file)} now.")
    return True


async def _generate(
    request: RunRequest, project: Project, person: Person, on_event: OnEvent | None
) -> RunRequest | None:
    source = await person.ask(
        "Generate a configuration from which environment?",
        value=project.lock.name if project.lock is not None else "",
        placeholder="text-2048, org/name:tag, folder, URL, -- command",
        accept="Generate",
    )
    if source is None or not source.strip():
        return None
    made = await generate_from(project, source.strip(), person, on_event=on_event)
    if made is None:
        return None
    person.say(f"Wrote {made.report}")
    return replace(request, config=made.file)


async def _choose_machine(
    request: RunRequest, project: Project, person: Person
) -> RunRequest | None:
    """Ask for another machine.

    The offer, and what narrows the choice of one, go with the machine before.
    """
    settings = await asyncio.to_thread(project.settings)
    rental = usual_rental(settings.get)
    choices = [
        Choice("rent", "Rent one", f"from {rental.title(settings.get)}"),
        Choice("host", "A machine of yours", "user@host, or a name of ~/.ssh/config"),
        Choice(LOCAL, "This machine"),
    ]
    before = request_host(request)
    chosen = await person.choose(
        "On which machine?", [one for one in choices if one.value != before]
    )
    if chosen is None:
        return None
    request = replace(
        request,
        offer=None,
        offer_name=None,
        clouds=(),
        regions=(),
        spot=None,
        provider=None,
        host=chosen,
    )
    if chosen == LOCAL:
        return replace(request, gpus=None)
    if chosen == "host":
        host = (await person.ask("Which machine?", placeholder="user@host") or "").strip()
        return replace(request, host=host, gpus=None) if host else None
    request = replace(request, host=None, provider=rental.name)
    if not request.trains:
        return request
    usual = f"{request.features.usual_gpus}x{DEFAULT_GPU}"
    gpus = await person.ask(
        "Which GPUs?", value=request.gpus or usual, placeholder="such as 4xH100"
    )
    return replace(request, gpus=gpus.strip()) if gpus and gpus.strip() else None


async def _push(image: str, project: Project, person: Person, on_event: OnEvent | None) -> bool:
    name = await person.ask(
        f"Push {clean_line(image, 60)} under which name?",
        placeholder="ghcr.io/my-org/",
        accept="Push",
    )
    if name is None or not name.strip():
        return False
    async with aclosing(push_lock_image(project.workspace(), name.strip())) as steps:
        async for step in steps:
            if on_event is not None:
                on_event(Progress("push", clean_line(step.text, 200)))
    return True


async def _log_in(
    request: RunRequest, project: Project, person: Person, providers: Mapping[str, Provider] | None
) -> bool:
    """Set up an SSH key that the provider of the run's machine knows."""
    settings = await asyncio.to_thread(project.settings)
    provider = await asyncio.to_thread(open_request_provider, request, settings, providers)
    try:
        return await prepare_key(project, provider, person) is not None
    finally:
        if providers is None:
            await provider.close()
