"""The command that the user has set for the end of a run and for alarms."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

from hudtui.core.errors import HudtuiError, InputError, MachineError, RunError
from hudtui.core.project import Project
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs.news import RunNews, news_between
from hudtui.core.runs.status import RunView
from hudtui.core.runs.stop_on import stop_at_finding
from hudtui.core.runs.watch import Monitor
from hudtui.core.settings import user_setting
from hudtui.core.text import clean_line, dump_json

NOTIFY_COMMAND = "HUDTUI_NOTIFY_COMMAND"
PATIENCE = 30.0
"""Seconds that the command may take."""
LOOK = 2.0
"""Seconds between two looks at a run for its alarms."""
_LONGEST = 2_000
"""Characters of a text that the command gets."""


def notify_argv() -> tuple[str, ...]:
    """Return the command, from the environment or the user's own file, in words.

    None where it is not set.

    Raises:
        InputError: It cannot be split into words.
    """
    try:
        program, *words = shlex.split(user_setting(NOTIFY_COMMAND) or "") or [""]
    except ValueError as error:
        raise InputError(f"{NOTIFY_COMMAND} cannot be read", why=str(error)) from None
    return (os.path.expanduser(program), *words) if program else ()


async def notify(found: Iterable[RunNews], project: Project) -> None:
    """Start the command for each event, with a JSON object on its standard input.

    One event comes after the other.

    An event is marked in the list of runs first, so that of several programs that see it only one
    starts the command. The values of keys that hudtui knows are masked.

    Raises:
        InputError: The command cannot be split into words.
        MachineError: The command could not be started, failed, or took longer than `PATIENCE`. It
            was started for the other events all the same.
    """
    argv = await asyncio.to_thread(notify_argv)
    if not argv:
        return
    settings, store, failure = await asyncio.to_thread(project.settings), project.runs, ""
    for one in found:
        run, mark = one.view.summary.id, f"notified:{one.mark}"
        with contextlib.suppress(
            RunError
        ):  # a full disk, for example, is what the user wants to hear of
            if (
                await store.run(store.append, run, "notified", {"about": one.about}, once=mark)
                is None
            ):
                continue
        told = dump_json(_masked(one.to_json(), settings.redact)).encode()
        try:
            done = await LocalHost().run(
                argv, cwd=str(Path.home()), stdin=told + b"\n", timeout=PATIENCE
            )
        except MachineError as error:
            failure = f"{error.what}: {error.why}" if error.why else error.what
            continue
        if not done.ok:
            failure = f"status {done.exit_status}: {done.stderr[-300:].strip()}"
    if failure:
        raise MachineError(
            f"the command of {NOTIFY_COMMAND} failed", why=clean_line(settings.redact(failure), 400)
        )


@contextlib.asynccontextmanager
async def notifying(
    run: str, project: Project, say: Callable[[str], object]
) -> AsyncIterator[None]:
    """Start the command at the alarms of an active run, and at its end.

    It does so for as long as this is open, and stops the run at a finding that the user has named.

    Args:
        run: Id of the run.
        project: The project that keeps it.
        say: Called with the first failure of the command.
    """
    monitor = Monitor(project.runs)
    summary = await project.runs.run(project.runs.summary, run)
    stops = bool((await project.runs.run(project.runs.record, run)).spec.stop_on)
    if not summary.active or not (stops or user_setting(NOTIFY_COMMAND)):
        yield
        return
    seen, busy, failed = RunView(summary), asyncio.Lock(), False

    async def tell(view: RunView) -> None:
        nonlocal seen, failed
        async with busy:
            before, seen = seen, view
            try:
                if (why := await stop_at_finding(view, project.runs)) is not None:
                    say(clean_line(why, 400))
                await notify(news_between(before, view), project)
            except HudtuiError as error:
                if not failed:
                    say("\n".join(error.lines()))
                failed = True

    async def look() -> None:
        while True:
            with contextlib.suppress(
                HudtuiError
            ):  # whoever follows the run says that its machine does not answer
                async with contextlib.aclosing(monitor.watch(run, every=LOOK)) as views:
                    async for view in views:
                        await tell(view)
                return
            await asyncio.sleep(LOOK)

    looking = asyncio.create_task(look())
    try:
        yield
        async with busy:  # a command that was started is not cut off
            looking.cancel()
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    with contextlib.suppress(HudtuiError):
        await tell(await monitor.view(run))


def _masked(value: Any, redact: Callable[[str], str]) -> Any:
    """Return a JSON value with every text masked and cut."""
    if isinstance(value, dict):
        return {name: _masked(one, redact) for name, one in value.items()}
    return clean_line(redact(value), _LONGEST) if isinstance(value, str) else value
