"""Managing a run on a rented machine: from the order to its results and the end of the machine, also after an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from hudtui.core.compute.provider import Provider
from hudtui.core.flows.stop import rental
from hudtui.core.project import Project
from hudtui.core.runs.remote_run import run_remote
from hudtui.core.runs.results import Progress
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

    Args:
        run: Id of a run in the project's store.
        project: The project.
        providers: Providers by name; None opens the run's provider by the settings.
        tmux: Run the stages in a tmux session, if the machine has tmux.
        progress: Called while the results are fetched.
        say: Called with a message when a cancelled order has been cleaned up.

    Yields:
        Each step as an event of the run.

    Raises:
        HudtuiError: See `runs.remote_run.run_remote` and `flows.stop.rental`.
    """
    store = project.runs
    record = await asyncio.to_thread(store.record, run)
    settings = await asyncio.to_thread(project.settings)
    async with rental(record, project, providers=providers, say=say) as context:
        steps = run_remote(run, store, context, lookup=settings.lookup, tmux=tmux, progress=progress)
        async with aclosing(steps) as events:
            async for event in events:
                yield event
