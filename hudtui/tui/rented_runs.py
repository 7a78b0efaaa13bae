"""Runs on rented machines that the app takes care of.

From the order to the end of the machine, whatever screen is shown.
Imported before the first paint: the runs and everything behind them come later.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.worker import Worker

    from hudtui.core.errors import HudtuiError
    from hudtui.core.runs.store import RunRecord
    from hudtui.core.runs.values import RunEvent
    from hudtui.tui.app import HudtuiApp

LEFT_ALONE = 6.0
"""Seconds for which a run on a rented machine stays unmanaged before an open app takes it up."""

_GONE = {
    "released": "its machine is ended, and that was verified",
    "never": "no machine was created for it",
}

Told = Callable[["RunEvent"], None]


class RentedRuns:
    """Manages rented runs while the app is open.

    A run that has started on its machine continues without it.

    Args:
        app: The app whose screens are updated.
    """

    def __init__(self, app: HudtuiApp) -> None:
        self._app = app
        self._workers: dict[str, Worker[Any]] = {}
        self._left: dict[str, asyncio.Event] = {}
        self.getting: dict[str, str] = {}
        """Machines that are being prepared, in words, by the run or the machine. Quitting cancels
        them."""
        self._alone: dict[str, float] = {}
        """When a run was first seen unmanaged, by `time.monotonic`."""
        self._ended: set[str] = set()
        """Runs that this app has finished with."""

    async def introduce(self) -> None:
        """Let logins to machines ask here for pass-phrases, and report new host keys here."""
        from importlib import import_module

        hosts = await asyncio.to_thread(import_module, "hudtui.core.remote.hosts")
        hosts.set_prompts(ask=self._ask, say=lambda notice: self._app.say(notice.message))

    def close(self) -> None:
        """The app has ended and cannot ask any more."""
        from importlib import import_module

        if "hudtui.core.remote.hosts" in sys.modules:
            import_module(
                "hudtui.core.remote.hosts"
            ).set_prompts()  # waits for a thread that may be importing it just now

    async def _ask(self, prompt: str) -> str | None:
        from textual.worker import NoActiveWorker

        try:
            return await self._app.ask(prompt, secret=True)
        except NoActiveWorker:
            return None  # a question without a screen that waits for its answer

    def begin(self) -> None:
        """The app has started: continue what an earlier app has left."""
        self._app.run_worker(self._take_up(), name="forever", group="manage")

    async def _take_up(self) -> None:
        workspace = self._app.workspace
        if not (workspace.state_dir / "runs.db").is_file():
            return
        try:
            from hudtui.core.runs.run_lock import unfinished_runs

            for record in await asyncio.to_thread(unfinished_runs, self._app.project.runs):
                self.manage(record, again=True)
        except Exception as error:
            self._app.fail(error)

    async def take_up(self) -> None:
        """Resume runs on rented machines whose managing process ended while this app is open.

        A run that another process is just launching has no lock for a moment: only runs unmanaged
        for a while are resumed.
        """
        facts = self._app.facts
        rented = (
            set(facts.rented) - self._workers.keys() - self._ended if facts is not None else set()
        )
        from hudtui.core.runs.run_lock import abandoned_runs

        records = (
            await asyncio.to_thread(abandoned_runs, self._app.project.runs, rented)
            if rented
            else []
        )
        now = time.monotonic()
        self._alone = {record.id: self._alone.get(record.id, now) for record in records}
        for record in records:
            if now - self._alone[record.id] >= LEFT_ALONE:
                self.manage(record, again=True)

    def manage(self, record: RunRecord, *, told: Told | None = None, again: bool = False) -> None:
        """Bring a run to the end of its machine.

        Args:
            record: The run.
            told: Called with each step, in addition to the notices of the app.
            again: It was begun before; another process may manage it already.
        """
        if record.id in self._workers:
            return
        self._left[record.id] = asyncio.Event()
        work = self._manage(record, told, again)
        self._workers[record.id] = self._app.run_worker(
            work, name="forever", group=f"manage-{record.id}"
        )

    def manages(self, run: str | None) -> bool:
        """Whether the app manages a run, until its results are here and its machine is ended."""
        return run in self._workers

    @contextmanager
    def getting_one(self, name: str) -> Iterator[Callable[[], None]]:
        """Cover the time in which the calling worker rents a machine without a run.

        It calls the result when that is ready.
        """
        from textual.worker import get_current_worker

        self._workers[name], self._left[name] = get_current_worker(), asyncio.Event()
        self.getting[name] = f"the machine {name} is being prepared"

        def ready() -> None:
            self.getting[name] = (
                f"the machine {name} is ready and stays; a guard is being put onto it"
            )
            del self._workers[name]

        try:
            yield ready
        finally:
            self._leave(name)

    @property
    def gives_up(self) -> bool:
        """Whether leaving cancels a machine that is not ready."""
        return any(key in self._workers for key in self.getting)

    def _leave(self, key: str) -> None:
        self.getting.pop(key, None)
        self._workers.pop(key, None)
        self._left.pop(key).set()

    async def give_up(self) -> None:
        """Cancel the machines that are being prepared.

        It waits until they are gone or guarded, before the app ends.
        """
        for worker in [self._workers[key] for key in self.getting if key in self._workers]:
            worker.cancel()
        await self.gone()

    async def gone(self) -> None:
        """Wait until the cancelled machines are gone.

        However the app ends, all of them are cancelled by now.
        """
        await asyncio.gather(*(self._left[key].wait() for key in self.getting))

    async def _manage(self, record: RunRecord, told: Told | None, again: bool) -> None:
        from hudtui.core.errors import HudtuiError, RunError
        from hudtui.core.flows.manage import manage_run
        from hudtui.core.runs.remote_run import may_have_begun
        from hudtui.core.runs.run_lock import is_managed
        from hudtui.tui import applog

        try:
            session = await self._app.spending.open()
            store = self._app.project.runs
            if not again:
                await store.run(store.add, record)
                self._app.reload()
            summary, stored = await store.run(
                lambda: (store.summary(record.id), store.events(record.id))
            )
            if summary.active and not may_have_begun(summary, stored):
                self.getting[record.id] = f"a machine is being prepared for {record.name}"
            steps = manage_run(record.id, self._app.project, providers=session.overview.providers)
            async with aclosing(steps) as events:
                async for event in events:
                    self._tell(record, event)
                    if told is not None:
                        told(event)
            self._ended.add(record.id)
        except Exception as error:
            if (
                again
                and isinstance(error, RunError)
                and await asyncio.to_thread(is_managed, self._app.project.runs, record.id)
            ):
                applog.log.warning("run %s is left to others: %s", record.id, error)
            else:
                self._ended.add(record.id)
                self._fail(
                    record, error if isinstance(error, HudtuiError) else self._app.defect(error)
                )
        finally:
            self._leave(record.id)
            if self._app.is_running:
                self._app.reload()

    def _fail(self, record: RunRecord, error: HudtuiError) -> None:
        self._app.notify(
            "\n".join(error.lines()), title=record.name, severity="error", timeout=30, markup=False
        )

    def _tell(self, record: RunRecord, event: RunEvent) -> None:
        """Notify of what matters on every screen."""
        from hudtui.core.text import clean_line

        data = event.data
        if event.type == "machine":
            self._app.spending.look_soon()
        rent = record.spec.rent
        if event.type == "started" or (
            event.type == "failed" and rent is not None and rent.keep_on_failure
        ):
            self.getting.pop(record.id, None)  # leaving gives up nothing any more
        elif event.type == "note":
            text = clean_line(str(data.get("message")), 400)
            self._app.notify(text, title=record.name, severity="warning", markup=False)
        elif event.type == "step" and data.get("name") == "collect":
            self._app.notify(
                f"results are in {data.get('folder')}", title=record.name, markup=False
            )
        elif event.type == "machine" and (gone := _GONE.get(str(data.get("kind")))):
            self._app.notify(gone, title=record.name, markup=False)
