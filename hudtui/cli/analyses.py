"""The analysis that a command needs: remembered, read from a file, or taken afresh."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.cli import console
from hudtui.cli.person import Terminal
from hudtui.cli.sources import login_settings

if TYPE_CHECKING:
    from hudtui.core.environment.source import Source
    from hudtui.core.environment.values import Analysis


async def look(source: Source, *, live: bool, timeout: float) -> Analysis:
    """Return the analysis of an environment. A new analysis is kept in the workspace.

    Args:
        source: The environment.
        live: Start or ask it. Otherwise what is remembered counts, then what a lock file says, and
            only then is it asked.
        timeout: Seconds for its start, and for each answer after that.

    Raises:
        InputError: The source cannot be used.
        ConnectError: It cannot be reached.
    """
    from hudtui.core.environment import cache
    from hudtui.core.flows.analyze import analyze_source

    if not live and (known := cache.load_analysis(source)) is not None:
        console.say(
            f"as inspected {cache.age_text(cache.analysis_age(known))}; --live inspects it again"
        )
        return known
    if not live and source.kind == "lock":
        console.say("as listed in the lock file; --live starts the environment and inspects it")
    login = login_settings()
    return await analyze_source(
        source, Terminal(), live=live, timeout=timeout, on_event=console.tell, login=login
    )


def read_analysis(path: Path) -> Analysis:
    """An analysis that `hudtui env show --json` wrote.

    Raises:
        InputError: The file cannot be read, or holds something else.
    """
    from hudtui.core.environment.values import analysis_from_json
    from hudtui.core.errors import InputError, Location
    from hudtui.core.files import read_json

    data = read_json(path)
    fix = "`hudtui env show SOURCE --json` writes one."
    if not isinstance(data, dict):
        raise InputError(
            "this is not an analysis of an environment", fix=fix, where=Location(str(path))
        )
    try:
        return analysis_from_json(data)
    except ValueError as error:
        raise InputError(
            "this is not an analysis of an environment",
            why=str(error),
            fix=fix,
            where=Location(str(path)),
        ) from None


def say_warnings(found: Analysis) -> None:
    """What an environment did that a user should know, on standard error."""
    for warning in found.warnings:
        console.say(f"warning: {warning}")
