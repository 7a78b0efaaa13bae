"""A launch on a rented machine, killed at every event, and what else happens to machines: is
anything lost, or left behind?

    python tests/faults/launch.py [--seeds 50] [--first 0] [--only REGEX] [--no-others] [--json
    FILE]

The machines are those of the simulated Prime: real SSH, real tmux, real supervisors. The app is a
process of its own; it is killed (SIGKILL) just before or just after it writes an event of the run
down, and then started anew, as a user would; every third seed is killed once more on the way. After
that has to be true:

- one machine was ordered, never two, and it is gone at the end, in the ledger as well;
- the run went on to its end, or was ended with a reason;
- what ran on the machine was started once, and what it wrote is at home, byte for byte.

Then come the other faults, each with what the user is told. The exit status is 1 when a promise was
broken.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.values import Offer
from hudtui.core.errors import HudtuiError
from hudtui.core.process import machine_label
from hudtui.core.remote.hosts import close_hosts, pod_host
from hudtui.core.runs import remote_run
from hudtui.core.runs.reconcile import reconcile_runs
from hudtui.core.runs.remote_run import RentalContext, run_remote
from hudtui.core.runs.reports import MachineReport
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.values import RunEvent, RunSummary
from hudtui.core.training.plan import Plan, PlanOutput, Stage
from hudtui.sim import PrimeSimulator

RUN = "launch-fault"
LINES = 5
WORK = (
    "echo begun >>out/begun; for step in 1 2 3 4 5; do "
    'echo "{\\"task\\": \\"t$step\\", \\"reward\\": 0.$step}" >>out/metrics.jsonl; sleep 0.05; '
    "done; echo done"
)
EVENTS = (
    "machine intended",
    "machine created",
    "machine waiting",
    "machine trying",
    "machine ready",
    "step ready",
    "step guard",
    "step folder",
    "step files",
    "step plan",
    "step supervisor",
    "started",
    "stage_started",
    "stage_ended",
    "finished",
    "step collect",
    "machine released",
    "step terminate",
)
"""What a launch writes down, in order."""
KILLED = -signal.SIGKILL
AWAY = 150.0
"""Seconds after which the user comes back: whether a machine was created that nobody has seen is
clear by then."""
PATIENCE = 300.0
"""Seconds for one life of the app."""


# --- the app: one life of it ----------------------------------------------------------------------


def label(kind: str, data: Any) -> str:
    """What an event is called in the table."""
    return (
        f"{kind} {data.get('name') or data.get('kind') or ''}".strip()
        if kind in ("machine", "step")
        else kind
    )


class Doomed(RunStore):
    """A store whose process is killed at an event.

    Args:
        state_dir: See `RunStore`.
        event: Its label; empty: never.
        moment: `before` or `after` it is written down.
    """

    def __init__(self, state_dir: Path, event: str, moment: str) -> None:
        super().__init__(state_dir)
        self._event, self._moment = event, moment

    def _meet(self, found: str, moment: str) -> None:
        if found == self._event and moment == self._moment:
            os.kill(os.getpid(), signal.SIGKILL)

    def append(
        self,
        run: str,
        kind: str,
        data: Any = None,
        *,
        at: float | None = None,
        once: str | None = None,
    ) -> Any:
        """Keep an event, unless this is the end."""
        self._meet(label(kind, data or {}), "before")
        event = super().append(run, kind, data, at=at, once=once)
        self._meet(label(kind, data or {}), "after")
        return event

    def append_together(self, run: str, events: Any) -> tuple[RunEvent, ...]:
        """The same for what is written down in one transaction."""
        events = list(events)
        for kind, data, _ in events:
            self._meet(label(kind, data), "before")
        added = super().append_together(run, events)
        for kind, data, _ in events:
            self._meet(label(kind, data), "after")
        return added

    def mirror(self, run: str, lines: Any) -> tuple[RunEvent, ...]:
        """The same for what the machine tells."""
        lines = list(lines)
        for moment in ("before", "after"):
            events: tuple[RunEvent, ...] = super().mirror(run, lines) if moment == "after" else ()
            for line in lines:
                if isinstance(line, MachineReport):
                    self._meet(label(line.type, line.data), moment)
        return events


async def live(url: str, key: str, state: Path, event: str, moment: str) -> str:
    """What `hudtui rl` and `hudtui runs resume` do: reconcile, then tend. Returns what the user is
    told when that fails."""
    store = Doomed(state, event, moment)
    provider = PrimeProvider(key, base_url=url, simulated=True)

    slept = 0.0

    async def hurry(seconds: float) -> None:
        nonlocal slept
        slept += seconds
        body = json.dumps({"seconds": seconds}).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(f"{url}/sim/advance", body, headers, method="POST")

        def advance() -> None:
            while True:
                with contextlib.suppress(ConnectionError, urllib.error.URLError):
                    urllib.request.urlopen(request, timeout=30).read()
                    return
                time.sleep(0.1)  # the fault that refuses connections refuses this one, too

        await asyncio.to_thread(advance)
        await asyncio.sleep(min(seconds, 0.05))

    broker = RentalContext(
        provider,
        lambda name: None,
        sleep=hurry,
        every=0.05,
        within=5.0,
        look=1.0,
        clock=lambda: time.monotonic() + slept,
    )
    try:
        await reconcile_runs(store)
        async with aclosing(run_remote(RUN, store, broker)) as events:
            async for _ in events:
                pass
    except HudtuiError as error:
        return "; ".join(error.lines())
    finally:
        await close_hosts()
        await provider.close()
    return ""


def be_the_app(words: list[str]) -> None:
    """One life, in a process of its own."""
    url, key, state, event, moment, offset, most = words
    if float(offset):
        real = time.time
        time.time = lambda: real() + float(offset)
    if int(most):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(most), int(most)))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    remote_run._FETCHES, remote_run._FETCH_PAUSE = 1, 0.1
    said = asyncio.run(live(url, key, Path(state), event, moment))
    print(json.dumps({"said": said}))


# --- the world around it --------------------------------------------------------------------------


@dataclass
class World:
    """A simulated Prime, and the home of somebody who rents there."""

    sim: PrimeSimulator
    home: Path
    store: RunStore
    environment: dict[str, str]

    @property
    def ordered(self) -> int:
        """Machines that were asked for."""
        return len(
            [
                one
                for one in self.sim.requests
                if one.method == "POST" and one.path.rstrip("/").endswith("/pods")
            ]
        )

    @property
    def results(self) -> Path:
        """Where the results come to."""
        return self.store.folder / RUN

    @property
    def summary(self) -> RunSummary:
        """The run as it stands."""
        return RunStore(self.store.state_dir).summary(RUN)

    def begin(
        self, event: str = "", moment: str = "", *, offset: float = 0.0, most: int = 0
    ) -> subprocess.Popen[str]:
        """Start the app."""
        words = [
            self.sim.url,
            self.sim.api_key,
            str(self.store.state_dir),
            event,
            moment,
            str(offset),
            str(most),
        ]
        argv = [sys.executable, __file__, "--be-the-app", *words]
        return subprocess.Popen(
            argv,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def app(self, event: str = "", moment: str = "", **more: Any) -> tuple[int, str]:
        """One whole life of it: the exit status, and what it said."""
        process = self.begin(event, moment, **more)
        try:
            out, err = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return 124, f"did not end within {PATIENCE:.0f} s"
        said = json.loads(out)["said"] if process.returncode == 0 else err[-2000:]
        return process.returncode, str(said)

    def wait_for(self, event: str) -> bool:
        """Wait until the run has come to an event."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            store = RunStore(self.store.state_dir)
            if any(label(one.type, one.data) == event for one in store.events(RUN)):
                return True
            time.sleep(0.05)
        return False


Make = Callable[[RunStore, PrimeSimulator], RunRecord]


@contextlib.contextmanager
def world(script: str = WORK, make: Make | None = None, **behave: Any) -> Iterator[World]:
    """A run that was planned and agreed to, in a world of its own.

    `make` plans it; by default it is `script`, on the cheapest machine.
    """
    with (
        tempfile.TemporaryDirectory(prefix="hudtui-launch-") as place,
        PrimeSimulator(step=5) as sim,
    ):
        home = Path(place)
        key = home / ".ssh" / "id_ed25519"
        key.parent.mkdir(mode=0o700)
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(key)],
            check=True,
        )
        sim.add_ssh_key(key.with_suffix(".pub").read_text())
        sim.behave(boot=20, install=10, **behave)
        (home / "project").mkdir()
        store = RunStore(home / "project" / ".hudtui")
        store.add(make(store, sim) if make else _record(store, cheapest(sim), script))
        environment = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("XDG_", "HUDTUI_", "SSH_", "TMUX"))
        }
        # The run was agreed to above, by a process that has another state folder.
        yield World(sim, home, store, {**environment, "HOME": str(home), "HUDTUI_TRUST": str(home)})


def cheapest(sim: PrimeSimulator, nodes: int = 1) -> Offer:
    """The cheapest offer with so many machines."""

    async def find() -> Offer:
        provider = PrimeProvider(sim.api_key, base_url=sim.url, simulated=True)
        try:
            offers = [one for one in (await provider.offers()).found if one.nodes == nodes]
        finally:
            await provider.close()
        return min(offers, key=lambda one: one.price.hourly)

    return asyncio.run(find())


def _record(store: RunStore, offer: Offer, script: str) -> RunRecord:
    rent = Rental("prime", f"hudtui-{RUN}", offer, offer.price.hourly, simulated=True)
    spec = RunSpec(
        "rollouts",
        RUN,
        str(store.state_dir.parent),
        rent=rent,
        limits=Limits(max_hours=20.0, run_budget=25.0),
    )
    stage = Stage("play", ("bash", "-c", script), grace=1.0)
    plan = Plan(
        "rollouts",
        (stage,),
        outputs=(PlanOutput("out/metrics.jsonl", "metrics"), PlanOutput("out/begun", "report")),
    )
    folder = f".hudtui/runs/{RUN}"
    host = pod_host(rent.machine)
    return RunRecord(RUN, time.time(), RUN, "rollouts", host, machine_label(), folder, spec, plan)


# --- promises -------------------------------------------------------------------------------------


def broken(one: World, *, whole: bool = True) -> list[str]:
    """What was promised and is not so.

    Args:
        one: The world after it all.
        whole: The run's results have to be at home.
    """
    found = []
    summary = one.summary
    if one.ordered > 1:
        found.append(f"{one.ordered} machines were ordered")
    if one.sim.alive:
        found.append(f"{len(one.sim.alive)} machines still live")
    if summary.active or summary.holds_machine:
        found.append(f"the run is {summary.state}, its machine {summary.machine}")
    if summary.state in ("failed", "stopped") and not summary.why:
        found.append(f"it {summary.state}, and nobody knows why")
    ledger = Ledger(one.home / ".local" / "share" / "hudtui" / "pods.db")
    if open_ones := [owned.name for owned in ledger.records() if owned.open]:
        found.append(f"open in the ledger: {open_ones}")
    if whole and summary.state == "finished":
        begun, metrics = one.results / "out" / "begun", one.results / "out" / "metrics.jsonl"
        if not begun.exists() or begun.read_text() != "begun\n":
            found.append(
                f"started {begun.read_text().count('begun') if begun.exists() else 0} times"
            )
        if not metrics.exists() or metrics.read_text().count("\n") != LINES:
            found.append("results are missing at home")
    return found


@dataclass
class Outcome:
    """What became of one fault."""

    fault: str
    lives: int
    state: str
    machine: str
    broken: list[str]
    said: str = ""
    seconds: float = 0.0
    kills: list[str] = field(default_factory=list)


def killed(seed: int) -> Outcome:
    """A launch that is killed at an event, and started anew until it is at its end."""
    draw = random.Random(seed)
    event = EVENTS[seed % len(EVENTS)]
    kills = [(event, draw.choice(("before", "after")))]
    if seed % 3 == 2:
        later = EVENTS[seed % len(EVENTS) :]
        kills.append((draw.choice(later), draw.choice(("before", "after"))))
    began = time.monotonic()
    with world() as one:
        met = []
        lives = 0
        for what, moment in kills:
            code, said = one.app(what, moment)
            lives += 1
            if code == KILLED:
                met.append(f"{moment} {what}")
        code, said = one.app(offset=AWAY)
        lives += 1
        wrong = broken(one)
        if code != 0:
            wrong.append(f"the last app ended with {code}: {said[-300:]}")
        summary = one.summary
        if summary.state != "finished" and not (summary.state == "failed" and one.ordered == 0):
            wrong.append(f"the run did not finish: {summary.why}")
        return Outcome(
            f"kill -9 {kills[0][1]} {event}",
            lives,
            summary.state,
            summary.machine,
            wrong,
            said,
            time.monotonic() - began,
            met,
        )


# --- other faults ---------------------------------------------------------------------------------

LONG = "echo begun >>out/begun; echo $$ >out/pid; exec sleep 600"
ENDS = f"sleep 10; {WORK}"
"""Work that ends by itself, for a fault that must not end it."""


def _machine(one: World) -> tuple[Any, Path]:
    """The machine that lives, and its home."""
    (pod,) = one.sim.alive
    return pod, one.sim.home(pod.id)


def _to_its_end(one: World, process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 124, "did not end"
    return process.returncode, json.loads(out)["said"] if process.returncode == 0 else err[-2000:]


def _during(
    one: World, act: Callable[[Any, Path], None], *, at: str = "stage_started"
) -> tuple[int, str]:
    """Do something to the machine while its run goes on."""
    process = one.begin()
    if not one.wait_for(at):
        process.kill()
        return 124, f"never came to {at}: {process.communicate()[1][-500:]}"
    time.sleep(0.5)
    act(*_machine(one))
    return _to_its_end(one, process)


def _outcome(
    fault: str, one: World, told: tuple[int, str], *, state: str, words: str, lives: int = 1
) -> Outcome:
    """Judge: the state that was to come about, and words that the user has to be told."""
    summary, wrong = one.summary, broken(one, whole=state == "finished")
    everything = "; ".join([told[1], summary.why or "", *summary.notes])
    if told[0] != 0:
        wrong.append(f"the app ended with {told[0]}: {told[1][-300:]}")
    if summary.state != state:
        wrong.append(f"the run is {summary.state} ({summary.why}), not {state}")
    if not re.search(words, everything):
        wrong.append(f"not told: {words!r} in {everything[:300]!r}")
    return Outcome(
        fault,
        lives,
        summary.state,
        summary.machine,
        wrong,
        (summary.why or told[1] or "; ".join(summary.notes))[:160],
    )


def rebooted() -> Outcome:
    """Every process of the machine is gone, and its files are there."""
    from hudtui.sim.state import end_all

    with world(LONG) as one:
        told = _during(one, lambda pod, home: print(end_all(pod.token), end="", file=sys.stderr))
        return _outcome("the machine is rebooted", one, told, state="failed", words="started again")


def out_of_memory() -> Outcome:
    """The kernel ends what runs."""

    def kill(pod: Any, home: Path) -> None:
        os.kill(int((home / ".hudtui" / "runs" / RUN / "out" / "pid").read_text()), signal.SIGKILL)

    with world(LONG) as one:
        return _outcome(
            "the trainer is killed (OOM)",
            one,
            _during(one, kill),
            state="failed",
            words="play.*(SIGKILL|killed|signal 9)",
        )


def no_tmux_server() -> Outcome:
    """Somebody ends the machine's tmux: the windows are gone, and the work goes on."""

    def kill(pod: Any, home: Path) -> None:
        environment = {**os.environ, "TMUX_TMPDIR": str(home.parent / "tmux")}
        subprocess.run(["tmux", "kill-server"], env=environment, check=False, capture_output=True)

    with world(ENDS) as one:
        return _outcome(
            "tmux is killed on the machine", one, _during(one, kill), state="finished", words=""
        )


def taken_back() -> Outcome:
    """A spot machine is given to somebody else."""
    with world(LONG) as one:
        told = _during(one, lambda pod, home: one.sim.reclaim(pod.id))
        return _outcome("the machine is taken back", one, told, state="failed", words="taken back")


def another_host_key() -> Outcome:
    """The machine answers with another host key: nothing is sent to it; its limit ends it."""
    with world(LONG, rekey=5000) as one:
        process = one.begin()
        one.wait_for("stage_started")
        one.sim.clock.advance(6000)
        one.wait_for("note")
        process.kill()
        process.communicate()
        told = one.app(offset=30 * 3600.0)
        return _outcome(
            "the host key changes", one, told, state="failed", words="host key", lives=2
        )


def wrong_key() -> Outcome:
    """The provider knows another key than the one that logs in."""
    with world() as one:
        key = one.home / ".ssh" / "id_ed25519"
        key.unlink()
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)],
            check=True,
            input="y\n",
            text=True,
        )
        return _outcome(
            "the key is not let in",
            one,
            one.app(),
            state="failed",
            words="rejected every SSH key|does not accept",
        )


def unwritable_home() -> Outcome:
    """What hudtui knows of machines cannot be written down."""
    with world() as one:
        place = one.home / ".local" / "share" / "hudtui"
        place.parent.mkdir(parents=True)
        place.write_text("a file is in the way")
        told = one.app()
        summary, wrong = one.summary, []
        if one.ordered or one.sim.alive:
            wrong.append("a machine was ordered that nobody could find again")
        if told[0] != 0 or not told[1]:
            wrong.append(f"not told in words: {told}")
        return Outcome(
            "the home cannot be written", 1, summary.state, summary.machine, wrong, told[1][:160]
        )


def full_disk_here() -> Outcome:
    """There is no room for the results; later there is."""
    large = (
        "echo begun >>out/begun; head -c 6000000 /dev/zero >>out/metrics.jsonl; printf "
        "'\\n\\n\\n\\n\\n' >>out/metrics.jsonl"
    )
    with world(large) as one:
        first = one.app(most=4_000_000)
        kept = len(one.sim.alive)
        told = one.app()
        found = _outcome(
            "no room for the results, then there is", one, told, state="finished", words="", lives=2
        )
        if kept != 1 or "KEPT" not in first[1]:
            found.broken.append(
                f"the machine with the only results was not kept, or not said so: {first}"
            )
        found.said = first[1][:160]
        return found


def no_python() -> Outcome:
    """The machine has no python3."""

    def hide(pod: Any, home: Path) -> None:
        python = home.parent / "bin" / "python3"
        python.unlink(missing_ok=True)
        python.write_text("#!/bin/sh\necho 'sh: python3: not found' >&2\nexit 127\n")
        python.chmod(0o755)

    with world() as one:
        process = one.begin()
        one.wait_for("machine trying")
        hide(*_machine(one))
        return _outcome(
            "no python on the machine",
            one,
            _to_its_end(one, process),
            state="failed",
            words="python3",
        )


def clock(hours: float, state: str) -> Outcome:
    """This computer's clock jumps while the app is away."""
    with world(
        LONG
        if state == "stopped"
        else "echo begun >>out/begun; sleep 4; " + WORK.partition("; ")[2]
    ) as one:
        process = one.begin()
        one.wait_for("stage_started")
        process.kill()
        process.communicate()
        told = one.app(offset=hours * 3600.0)
        words = "h is reached|reached" if state == "stopped" else ""
        return _outcome(
            f"the clock jumps by {hours:+g} h", one, told, state=state, words=words, lives=2
        )


OTHERS: tuple[Callable[[], Outcome], ...] = (
    rebooted,
    out_of_memory,
    no_tmux_server,
    taken_back,
    another_host_key,
    wrong_key,
    unwritable_home,
    full_disk_here,
    no_python,
    lambda: clock(+40.0, "stopped"),
    lambda: clock(-40.0, "finished"),
)


# --- the table ------------------------------------------------------------------------------------


def table(found: list[Outcome]) -> str:
    """Killed launches by event, then the others."""
    lines = [
        f"{'killed at':<20} {'runs':>4} {'kills':>5} {'lives':>5}  {'outcome':<24} {'broken':>6} "
        f"{'seconds':>7}"
    ]
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for one in found:
        if one.fault.startswith("kill -9 "):
            groups[one.fault.split(" ", 3)[3]].append(one)
    for event in [event for event in EVENTS if event in groups]:
        mine = groups[event]
        states = Counter(f"{one.state}, {one.machine}" for one in mine)
        lines.append(
            f"{event:<20} {len(mine):>4} {sum(len(one.kills) for one in mine):>5} "
            f"{sum(one.lives for one in mine):>5}  "
            f"{'; '.join(f'{count} {state}' for state, count in states.items()):<24} "
            f"{sum(bool(one.broken) for one in mine):>6} "
            f"{sum(one.seconds for one in mine) / len(mine):>7.1f}"
        )
    others = [one for one in found if not one.fault.startswith("kill -9 ")]
    if others:
        lines += ["", f"{'fault':<40} {'outcome':<20} {'broken':>6}  told"]
    for one in others:
        lines.append(
            f"{one.fault:<40} {one.state + ', ' + one.machine:<20} {len(one.broken):>6}  {one.said}"
        )
    wrong = [one for one in found if one.broken]
    lines += [
        "",
        f"{len(found)} faults, {sum(len(one.kills) for one in found)} kills, {len(wrong)} with a "
        "broken promise",
    ]
    lines += [f"  {one.fault} {one.kills}: {'; '.join(one.broken)}" for one in wrong]
    return "\n".join(lines)


def carried_out(
    argv: list[str],
    seeds: int,
    named: Callable[[int], str],
    inject: Callable[[int], Any],
    table: Callable[[list[Any]], str],
    others: tuple[Callable[[], Any], ...] = (),
) -> int:
    """The command line: inject what is asked for, and print a table of what became of it.

    Args:
        argv: Its words.
        seeds: How many, unless they say so.
        named: The name of what a seed injects, for `--only`.
        inject: Carries a seed out.
        table: Tells of the outcomes.
        others: What no seed injects; their docstrings are their names.

    Returns the exit status.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", default="", help="a regular expression for what is injected")
    parser.add_argument("--json", type=Path)
    if others:
        parser.add_argument("--no-others", action="store_true")
    given = parser.parse_args(argv)
    wanted = [
        (f"seed {seed}", partial(inject, seed))
        for seed in range(given.first, given.first + given.seeds)
        if re.search(given.only, named(seed))
    ]
    if others and not given.no_others:
        wanted += [("other", one) for one in others if re.search(given.only, one.__doc__ or "")]
    found = []
    for name, act in wanted:
        found.append(act())
        print(f"{name}: {found[-1]}", file=sys.stderr, flush=True)
    print(table(found))
    if given.json:
        given.json.write_text(json.dumps([vars(one) for one in found], indent=1))
    return 1 if any(one.broken for one in found) else 0


def main(argv: list[str]) -> int:
    """The command line; see the text at the top."""
    if argv[:1] == ["--be-the-app"]:
        be_the_app(argv[1:])
        return 0
    return carried_out(
        argv, 50, lambda seed: f"kill -9 {EVENTS[seed % len(EVENTS)]}", killed, table, OTHERS
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
