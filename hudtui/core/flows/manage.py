"""Managing a run on a rented machine.

From the order to its results and the end of the machine, also after an interruption.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from hudtui.core.compute.lifecycle import run_shielded
from hudtui.core.compute.provider import Provider
from hudtui.core.errors import HudtuiError
from hudtui.core.flows.stop import rental
from hudtui.core.project import Project
from hudtui.core.runs.remote_run import RentalContext, run_remote
from hudtui.core.runs.results import Progress
from hudtui.core.runs.run_lock import is_managed
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.unattended import find_unattended
from hudtui.core.runs.values import RunEvent


async def manage_run(
    run: str,
    project: Project,
    *,
    providers: Mapping[str, Provider] | None = None,
    tmux: bool = True,
    progress: Progress | None = None,
    say: Callable[[str], None] | None = None,
) -> AsyncGenerator[RunEvent, None]:
    """Do the remaining steps of a run on a rented machine.

    Closing the iterator before a machine was requested cancels the run; for later, see
    `runs.remote_run.run_remote`.

    Args:
        run: Id of a run in the project's store.
        project: The project.
        providers: Providers by name; None opens the run's provider by the settings.
        tmux: Run the stages in a tmux session, if the machine has tmux.
        progress: Called while the results are fetched.
        say: Called with what became of the machine of a run that is left.

    Yields:
        Each step as an event of the run.

    Raises:
        HudtuiError: See `runs.remote_run.run_remote` and `flows.stop.rental`.
    """
    store, context = project.runs, None
    try:
        record = await asyncio.to_thread(store.record, run)
        settings = await asyncio.to_thread(project.settings)
        async with rental(record, project, providers=providers, say=say) as context:
            steps = run_remote(
                run, store, context, lookup=settings.lookup, tmux=tmux, progress=progress
            )
            async with aclosing(steps) as events:
                async for event in events:
                    yield event
    except HudtuiError:
        raise
    except BaseException:
        await run_shielded(_leave(run, store, context, say))
        raise


async def _leave(
    run: str, store: RunStore, context: RentalContext | None, say: Callable[[str], None] | None
) -> None:
    """Give up a run that has not asked for a machine, or say what becomes of its machine."""
    for text in await asyncio.to_thread(_left, run, store, context):
        if say is not None:
            say(text)


def _left(run: str, store: RunStore, context: RentalContext | None) -> list[str]:
    with contextlib.suppress(HudtuiError):
        summary = store.summary(run)
        if summary.active and summary.machine == "none" and not is_managed(store, run):
            store.append(run, "stopped", {"why": "cancelled before a machine was requested"})
        elif context is not None:
            providers, folder = {context.provider.name: context.provider}, store.state_dir.parent
            left = find_unattended(context.ledger, providers, context.settings, folder=folder)
            return [" ".join(one.words) for one in left if one.run == run]
    return []
