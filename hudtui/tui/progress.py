"""What the newest runs have measured, read for home and the header.

Those in progress again and again.
Imported before the first paint: what reads runs is imported later.
"""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hudtui.core.runs.news import RunNews
    from hudtui.tui.app import HudtuiApp
    from hudtui.tui.facts import Facts
    from hudtui.tui.home.reads import RunRead, RunReader

READ = 8
"""Runs that are read: the newest."""
SHOWN = 2.0
"""Seconds between two readings of runs in progress while home shows them."""
HIDDEN = 10.0
"""The same while another screen is shown: the header counts alarms."""


class RunProgress:
    """What was read of the newest runs.

    Args:
        app: The app whose screens are updated.
    """

    def __init__(self, app: HudtuiApp) -> None:
        self._app = app
        self.found: dict[str, RunRead] = {}
        """By the ids of the runs."""
        self._reader: RunReader | None = None
        self._unread: set[str] = set()
        """Runs that could not be read: their machines may be away."""
        self._home = asyncio.Event()
        self._notify_failed = False
        """The failure of the user's command was reported."""

    @property
    def alarms(self) -> int:
        """Return the number of alarms of the runs in progress.

        Alarms that the user has acknowledged do not count.
        """
        facts = self._app.facts
        going = () if facts is None else (run.id for run in facts.running)
        return sum(len(self.found[run].alarms) for run in going if run in self.found)

    def follow(self, facts: Facts) -> None:
        """Read the newest runs that were not read yet, and those in progress until they end."""
        if facts.workspace is None or not any(
            run.running or not self._is_final(run.id) for run in facts.listed[:READ]
        ):
            return
        name = "forever" if facts.running else "reads"  # nothing waits for what never ends
        if not any(
            worker.group == "reads" and not worker.is_finished for worker in self._app.workers
        ):
            work: Callable[[], Any] = self._keep_reading
            self._app.run_worker(work, name=name, group="reads", exclusive=True)

    def look_now(self) -> None:
        """Home is shown again: read at once."""
        self._home.set()

    async def _keep_reading(self) -> None:
        app = self._app
        try:
            while (facts := app.facts) is not None:
                if self._reader is None:
                    self._reader = await asyncio.to_thread(_reader, app.workspace.state_dir)
                # A run that has just ended is read once more, for its last numbers.
                wanted = [
                    run for run in facts.listed[:READ] if run.running or not self._is_final(run.id)
                ]
                found, news = await self._reader.read([run.id for run in wanted])
                if news:
                    self._announce(news)
                if any(self.found.get(run) != read for run, read in found.items()):
                    self.found |= found
                    app.show_progress()
                self._unread = {run.id for run in wanted} - set(found)
                if not facts.running and not any(run.running for run in (app.facts or facts).runs):
                    return
                self._home.clear()
                pause = SHOWN if app.screen is app.home else HIDDEN
                try:
                    await asyncio.wait_for(self._home.wait(), pause)
                except TimeoutError:
                    continue
        except Exception as error:
            app.fail(error)

    def _announce(self, news: Sequence[RunNews]) -> None:
        """Tell the user of runs that have ended, and of new alarms, whatever screen is shown.

        And the user's command.
        """
        for _, group in groupby(news, key=lambda one: one.view.summary.id):
            told = list(group)
            words = "; ".join(one.text for one in told)
            self._app.tell_of_run(
                f"{clean_line(told[0].view.summary.name, 60)}: {words}",
                bad=any(one.bad for one in told),
            )
        self._app.run_worker(self._notify(news), group="notify")

    async def _notify(self, news: Sequence[RunNews]) -> None:
        """Start the user's command. Its failure is shown once, and logged each time."""
        from hudtui.core.flows.notify import notify
        from hudtui.tui import applog

        try:
            await notify(news, self._app.project)
        except Exception as error:
            applog.log.warning("%s", str(error).replace("\n", ": "))
            if not self._notify_failed:
                self._notify_failed = True
                self._app.fail(error)

    def _is_final(self, run: str) -> bool:
        """Whether nothing new will be read of a run."""
        found = self.found.get(run)
        return run in self._unread or (found is not None and found.ended)


def _reader(state: Path) -> RunReader:
    from hudtui.tui.home.reads import RunReader

    return RunReader(state)
