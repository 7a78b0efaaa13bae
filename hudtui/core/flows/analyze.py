"""Analyzing an environment, and keeping the analysis in the project."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hudtui.core.environment import discover
from hudtui.core.environment.cache import save_analysis
from hudtui.core.environment.client import DEFAULT_TIMEOUT
from hudtui.core.environment.source import Source
from hudtui.core.environment.values import Analysis
from hudtui.core.errors import InputError
from hudtui.core.events import Progress
from hudtui.core.flows.login import with_login
from hudtui.core.flows.person import Person
from hudtui.core.settings import Settings


async def analyze_source(
    source: Source,
    person: Person,
    *,
    live: bool = True,
    timeout: float = DEFAULT_TIMEOUT,
    on_event: Callable[[Progress], None] | None = None,
    login: Settings | None = None,
) -> Analysis:
    """Analyze an environment and keep the analysis in the project of its source.

    Args:
        source: The environment.
        person: The user. Gets a warning if the analysis cannot be kept; it is returned in any case.
        live: Start or reach the environment even if the source is a lock file, which lists the
            tools.
        timeout: Seconds for the start, and again for the listings.
        on_event: Receives the progress.
        login: The settings for a login, which is offered where a server requires one; None to ask
            nothing.

    Raises:
        InputError: The source cannot be used, or a lock file cannot be read.
        ConnectError: The environment cannot be reached, or the connection breaks.
    """

    async def look() -> Analysis:
        started = live or source.kind != "lock"
        return await discover.analyze(source, live=started, timeout=timeout, on_event=on_event)

    analysis = await (look() if login is None else with_login(source, person, login, look))
    if analysis.analyzed_at is not None:
        try:
            await asyncio.to_thread(save_analysis, source, analysis)
        except InputError as error:
            person.say(f"The analysis is not kept: {error.what}", severity="warning")
    return analysis
