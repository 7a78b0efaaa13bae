"""A run's folder on its machine: its files, its supervisor, and its events."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePosixPath
from typing import Annotated, Any

import msgspec

from hudtui.core.compute.watchdog import arm_watchdog
from hudtui.core.diagnosis.stop import lookout_plan
from hudtui.core.errors import MachineError, RunError
from hudtui.core.plain import convert
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.host import Completed, Disconnected, Host, Silent
from hudtui.core.remote.hosts import ensure_reachable, find_host
from hudtui.core.remote.logs import TailReader
from hudtui.core.runs.reports import LINE, read_report
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent
from hudtui.core.settings import notify_settings
from hudtui.core.text import clean_line, failure_text
from hudtui.core.training.engines import features_of
from hudtui.core.training.plan import node_folder

_EVENTS = 2 * 1024 * 1024
"""Largest number of bytes of a machine's events per read, ten times those of the longest run. Older
events are skipped."""
_PATIENCE = 90.0
"""Timeout of one supervisor command, in seconds, on a machine under load."""
_ANSWERS = 10.0
"""Seconds to wait for a machine before work that others do not need."""


@dataclass(frozen=True)
class SupervisorStatus:
    """The answer of `supervisor.py status`."""

    status: Mapping[str, Any] | None = None
    """The run's `status.json`; None if the run was never started there."""
    supervisor: int | None = None
    """Process id of the supervisor; None if it is not running."""
    stages: Annotated[tuple[str, ...], msgspec.Meta(max_length=1000)] = ()
    """Names of the stages with running processes."""
    session: bool = False
    """True if the tmux session exists."""
    processes: Annotated[tuple[int, ...], msgspec.Meta(max_length=100_000)] = ()
    """Ids of all running processes that the run has started."""

    @property
    def ended(self) -> bool:
        """Return whether the supervisor has recorded the end of the run."""
        return (
            bool(self.status)
            and self.status is not None
            and self.status.get("state") in ("finished", "failed", "stopped")
        )


@dataclass
class RunFolder:
    """The folder of a run's node on its host.

    Raises:
        RunError: The user did not start this run; see `RunStore.require_own`.
    """

    host: Host
    record: RunRecord
    node: int = 0
    _heard: bytes = field(default=b"", init=False)
    """Bytes of the events that are not in the store yet."""

    def __post_init__(self) -> None:
        self._events = TailReader(self.path("events.jsonl"), most=_EVENTS)
        if not self.record.own:
            raise RunError(
                f"run {self.record.id} was not started here by you, so hudtui does not act on it",
                fix="See what it would do with `hudtui trust --show`.",
            )

    def path(self, *parts: str) -> str:
        """Return a path in the run's folder."""
        return str(PurePosixPath(self.folder, *parts))

    @property
    def folder(self) -> str:
        """Return the folder, as the machine spells it."""
        return node_folder(self.record.folder, self.node)

    @property
    def title(self) -> str:
        """Return the node as people know it."""
        return f"node {self.node} ({clean_line(self.host.name, 60)})"

    async def ensure_answers(self) -> None:
        """Make sure that the machine answers, before work begins that would wait for it.

        Raises:
            MachineError: It does not answer within some seconds, or refuses.
        """
        await ensure_reachable(self.host, within=_ANSWERS)

    @property
    def session(self) -> str:
        """Return the name of the run's tmux session."""
        return f"hudtui-{self.record.id}" + (f"-node-{self.node}" if self.node else "")

    @property
    def python(self) -> str:
        """Return the Python command for the machine; on this computer, the current interpreter."""
        return sys.executable if self.host.name == "local" else "python3"

    async def begun(self) -> bool:
        """Return whether a supervisor has ever started this run."""
        return await self.host.stat(self.path("status.json")) is not None

    async def make_folder(self) -> None:
        """Create the run's folder, accessible to this user only.

        Raises:
            MachineError: The folder cannot be created.
        """
        for command in (
            ["mkdir", "-p", "--", self.folder, self.path("out")],
            ["chmod", "700", "--", self.folder],
        ):
            done = await self.host.run(command, timeout=_PATIENCE)
            if not done.ok:
                place = f" on {self.title}" if self.node else ""
                raise MachineError(
                    f"the folder of the run cannot be created{place}", why=failure_text(done.stderr)
                )

    async def put_supervisor(self, *, tmux: bool = True) -> None:
        """Write the supervisor and its plan into the run's folder."""
        for name in ("supervisor.py", "lookout.py"):
            code = resources.files("hudtui.pod").joinpath(name).read_bytes()
            await self.host.put(code, self.path(name), mode=0o700)
        plan = self.record.plan.for_machine(self.record.id, self.session, tmux=tmux, node=self.node)
        metrics = self.record.plan.output("metrics")
        trains = features_of(self.record.engine).trains
        path = metrics.path if metrics is not None and trains and self.node == 0 else None
        spec = self.record.spec
        continued = spec.continues.step if spec.continues is not None else None
        plan["lookout"] = lookout_plan(path, spec.stop_on, continued)
        await self.host.put(json.dumps(plan, indent=1).encode(), self.path("plan.json"), mode=0o600)

    async def start(self, secrets: Mapping[str, str]) -> None:
        """Start the supervisor unless it is running already.

        The secrets are sent on its standard input, and with them to node 0 where the user wants to
        be told of findings and of the end.

        Raises:
            MachineError: The supervisor did not start; the error says why.
        """
        if self.node == 0:
            secrets = {**secrets, **await asyncio.to_thread(notify_settings)}
        text = json.dumps({"env": secrets}).encode() if secrets else b""
        await self._ask("start", stdin=text, accept=(0, 3))

    async def status(self) -> SupervisorStatus:
        """Return the state of the run's files and processes on the machine.

        Raises:
            MachineError: The run's folder is gone, or the machine does not answer.
        """
        found = await self._ask("status")
        try:
            return convert(found, SupervisorStatus)
        except (msgspec.ValidationError, RecursionError) as error:
            why = clean_line(str(error), 200)
            raise MachineError(
                f"the answer of the run's supervisor on {clean_line(self.host.name)} is not "
                "readable",
                why=why,
            ) from None

    async def request_stop(self, grace: float | None, why: str | None = None) -> None:
        """Ask the supervisor to end the run. A dead supervisor is started again for this."""
        await self._ask(
            "stop", "-" if grace is None else f"{grace:g}", *([why] if why else []), accept=(0, 3)
        )

    async def arm(self, rules: Mapping[str, Any], *, key: str | None = None) -> None:
        """Start the watchdog, or send new rules to the running one.

        It ends the machine according to its rules.

        For the rules see `hudtui/pod/watchdog.py`; `key` is the provider's, for the rule `end`.

        Raises:
            MachineError: The watchdog did not start.
        """
        await arm_watchdog(self.host, self.folder, rules, key=key)

    async def rule(self, rules: Mapping[str, Any]) -> None:
        await self.host.put(
            json.dumps(dict(rules), indent=1).encode(), self.path("guard.json"), mode=0o600
        )

    async def sync(self, store: RunStore) -> tuple[RunEvent, ...]:
        """Copy the supervisor's new events into the store, and return those new to the store."""
        if self._heard.rfind(b"\n") < 0:  # otherwise the store failed to take these bytes last time
            fresh = await self._events.read(self.host)
            if fresh.truncated or fresh.skipped:
                self._heard = b""
            data = fresh.data
            if fresh.skipped:  # the read ended in the middle of a line
                _, _, data = data.partition(b"\n")
            self._heard += data
        whole = self._heard[: self._heard.rfind(b"\n") + 1]
        if not whole:
            self._heard = self._heard[: LINE + 1]  # the line is already longer than allowed
            return ()
        reports = [read_report(line) for line in whole.splitlines() if line.strip()]
        events = await store.run(store.mirror, self.record.id, reports)
        self._heard = self._heard[len(whole) :]
        return events

    async def _ask(
        self,
        command: str,
        *arguments: str,
        stdin: bytes | None = None,
        accept: tuple[int, ...] = (0,),
    ) -> dict[str, Any]:
        words = (self.path("supervisor.py"), command, self.folder, *arguments)
        done = await self._run(isolated_python_command(self.python, *words), stdin)
        try:
            found = json.loads(done.stdout)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or done.exit_status not in accept:
            said = found.get("error") if isinstance(found, dict) else None
            why = (
                clean_line(str(said), 500)
                if said
                else failure_text(done.stderr) or f"status {done.exit_status}"
            )
            place = clean_line(self.host.name)
            raise MachineError(
                f"`{command}` of the supervisor of run {self.record.id} failed on {place}", why=why
            )
        return found

    async def _run(self, argv: tuple[str, ...], stdin: bytes | None) -> Completed:
        """Run a supervisor command, and repeat it after a lost connection.

        It is safe to run any command twice.
        """
        for _ in range(2):
            try:
                return await self.host.run(argv, stdin=stdin, timeout=_PATIENCE)
            except Silent:
                raise
            except Disconnected:
                continue
        return await self.host.run(argv, stdin=stdin, timeout=_PATIENCE)


def peers_of(
    record: RunRecord, hosts: Callable[[str], Host | None] = find_host
) -> tuple[RunFolder, ...]:
    """Return the folders of a run's nodes beside node 0.

    Those on machines that cannot be reached from this computer are left out.
    """
    reached = [(node, hosts(name)) for node, name in enumerate(record.spec.peers, 1)]
    return tuple(RunFolder(host, record, node) for node, host in reached if host is not None)


class MachineEvents:
    """The events that a run's machine reports after `events`, which are stored by now.

    Each event is returned once, even if another reader, such as a screen that shows the run, has
    copied it into the store.
    """

    def __init__(self, machine: RunFolder, store: RunStore, events: Iterable[RunEvent]) -> None:
        self._machine, self._store = machine, store
        self._after = max((event.number for event in events), default=0)

    async def read(self) -> tuple[RunEvent, ...]:
        """Copy the machine's events into the store, and return those that were not returned yet.

        Raises:
            MachineError: The machine does not answer.
            RunError: The store cannot be written.
        """
        await self._machine.sync(self._store)
        return await self.stored()

    async def stored(self) -> tuple[RunEvent, ...]:
        """Return the machine's events in the store that were not returned yet.

        The machine is not asked.
        """
        run = self._machine.record.id
        events = await self._store.run(lambda: self._store.events(run, after=self._after))
        if events:
            self._after = events[-1].number
        return tuple(event for event in events if event.origin == "machine")
