"""A run on a rented cluster of two machines, while things go wrong: is anything lost, or left?

    python tests/faults/clusters.py [--seeds 150] [--first 0] [--only REGEX] [--json FILE]

The cluster is that of the simulated Prime: one pod with two logins, real SSH, real supervisors, and
nodes that really meet. A seed is one injection: the app is killed (SIGKILL) at an event of the run,
or an answer of the provider breaks on the way, or a machine goes out, or cannot be reached, or the
limits are reached. After it the app is started anew until the run is at its end. Then has to be
true:

- one cluster was ordered, never two, and it is gone at the end, in the ledger as well;
- the run went on to its end, or was ended with a reason that names what happened;
- each node's work was begun once, and what both wrote is at home;
- whatever was said of the end of a machine is so.

The exit status is 1 when a promise was broken.
"""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `faults`, also where this runs as a program

from faults.launch import (
    AWAY,
    EVENTS,
    KILLED,
    PATIENCE,
    RUN,
    World,
    carried_out,
    cheapest,
    world,
)

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import Ledger
from hudtui.core.process import machine_label
from hudtui.core.runs.spec import Rental, RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.nodes import plan_nodes
from hudtui.core.training.plan import Plan, PlanOutput, Site, Stage
from hudtui.sim import PrimeSimulator

NODES = 2
SHORT = "sleep 0.3"
LONG = "sleep 600"
"""What a node's work waits for after it has begun."""
BILL = 25.0
"""USD that the run may cost."""


def planned(wait: str = SHORT, budget: float = BILL) -> Callable[..., RunRecord]:
    """Return what plans the run: both nodes begin, wait, and write down that they have ended."""

    def make(store: RunStore, sim: PrimeSimulator) -> RunRecord:
        offer = cheapest(sim, NODES)
        rent = Rental("prime", f"hudtui-{RUN}", offer, offer.price.hourly, simulated=True)
        spec = RunSpec(
            "trl",
            RUN,
            str(store.state_dir.parent),
            nodes=NODES,
            peers=rent.hosts[1:],
            rent=rent,
            limits=Limits(max_hours=20.0, run_budget=budget, day_budget=200.0),
        )

        def own(place: Site, node: int) -> Plan:
            words = ("python3", place.path("nodes.py"), "run", place.path("."))
            script = (
                f"echo begun >>out/begun; echo begun node {node}; {wait}; "
                f"echo '{{\"step\": 1}}' >>out/metrics.jsonl; echo ended node {node}"
            )
            train = Stage("train", (*words, "bash", "-c", script), grace=1.0)
            outputs = (
                PlanOutput("out/metrics.jsonl", "metrics"),
                PlanOutput("out/begun", "report"),
            )
            return Plan("trl", (train,), outputs=outputs)

        site = Site(f".hudtui/runs/{RUN}", ("python3",))
        plan = plan_nodes(spec, site, own)
        host = rent.hosts[0]
        return RunRecord(
            RUN, time.time(), RUN, "trl", host, machine_label(), site.folder, spec, plan
        )

    return make


# --- promises -------------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What became of one injection."""

    kind: str
    what: str
    state: str
    why: str
    broken: list[str]
    said: list[str] = field(default_factory=list)
    twice: int = 0
    """Clusters that were ordered beyond the first."""
    left: int = 0
    """Clusters that live at the end."""
    false: int = 0
    """Sentences that were not so."""
    seconds: float = 0.0


def judged(
    one: World, kind: str, what: str, said: list[str], *, states: str, words: str
) -> Outcome:
    """Compare the world after it all with what was promised.

    `states` and `words` are regular expressions: how the run may have ended, and what the user has
    to be told.
    """
    summary, wrong, false = one.summary, [], []
    created = len(one.sim.pods)
    if summary.active or summary.holds_machine:
        wrong.append(f"the run is {summary.state}, its machine {summary.machine}")
    if not re.fullmatch(states, summary.state):
        wrong.append(f"it {summary.state} ({summary.why}), not {states}")
    if summary.state != "finished" and not summary.why:
        wrong.append("nobody knows why")
    ledger = Ledger(one.home / ".local" / "share" / "hudtui" / "pods.db")
    records = ledger.records(alive=False)
    if found := [record.name for record in records if record.open]:
        false.append(f"open in the ledger: {found}")
    if any(record.state == "never" for record in records) and created:
        false.append("the ledger says that it was never created")
    if summary.machine == "never" and created:
        false.append("the run says that it was never created")
    told = "; ".join([*said, summary.why or "", *summary.notes])
    if re.search("was never created|is ended, and that was verified", told) and one.sim.alive:
        false.append(f"said of a cluster that lives: {told[:200]}")
    if re.search(r"may (be alive|still run|still cost)", said[-1] if said else ""):
        false.append(f"said of a cluster that is gone: {said[-1][:200]}")
    if not re.search(words, told):
        false.append(f"not told: {words!r} in {told[:300]!r}")
    if summary.state == "finished":
        for node in range(NODES):
            folder = one.results.with_name(one.results.name + (f".node-{node}" if node else ""))
            log = folder / "logs" / (f"train-{node}.log" if node else "train.log")
            text = log.read_text() if log.exists() else ""
            if text.count(f"\nbegun node {node}\n") != 1 or f"ended node {node}" not in text:
                wrong.append(f"the log of node {node} is not at home: {text[-200:]!r}")
        begun = one.results / "out" / "begun"
        if not begun.exists() or begun.read_text() != "begun\n":
            wrong.append("the results are not at home")
    twice, left = max(created - 1, 0), len(one.sim.alive)
    if twice or left:
        wrong.append(f"{twice} ordered twice, {left} left")
    return Outcome(
        kind, what, summary.state, summary.why or "", wrong + false, said, twice, left, len(false)
    )


def to_the_end(one: World, said: list[str], *, offset: float = AWAY, lives: int = 3) -> None:
    """Start the app anew until the run is at its end, as a user would."""
    for life in range(lives):
        code, told = one.app(offset=offset + life * AWAY)
        said.append(told if code == 0 else f"ended with {code}: {told[-300:]}")
        summary = one.summary
        if code == 0 and not (summary.active or summary.holds_machine):
            return


# --- injections -----------------------------------------------------------------------------------

LATE = ("after", "before")


def killed(draw: random.Random, seed: int) -> Outcome:
    """The app is killed at an event, and once more on the way."""
    event, moment = EVENTS[seed % len(EVENTS)], draw.choice(LATE)
    with world(make=planned()) as one:
        said: list[str] = []
        code, told = one.app(event, moment)
        missed = [] if code == KILLED else [f"was not killed at {event}: {told}"]
        if draw.random() < 0.3:
            one.app(draw.choice(EVENTS[seed % len(EVENTS) :]), draw.choice(LATE))
        to_the_end(one, said)
        states = "finished|failed" if one.ordered == 0 else "finished"
        found = judged(one, "kill -9", f"{moment} {event}", said, states=states, words="")
        found.broken += missed
        return found


def created(draw: random.Random, _: int) -> Outcome:
    """An answer breaks on the way while the cluster is ordered."""
    kind = draw.choice(("reset_before", "reset_after", "malformed", "html503", "refuse"))
    with world(make=planned()) as one:
        more = {"seconds": 0.5} if kind == "refuse" else {}
        one.sim.fail_next("POST", "/api/v1/pods/", kind=kind, **more)
        if draw.random() < 0.5:
            one.sim.fail_next("GET", "/api/v1/pods/", kind="status", status=503, times=2)
        said: list[str] = []
        to_the_end(one, said)
        states = "finished" if kind in ("reset_after", "malformed") else "finished|failed"
        return judged(one, "create", kind, said, states=states, words="")


def adopted(draw: random.Random, _: int) -> Outcome:
    """The answer to the order is lost, and so is the app, before it could look."""
    with world(make=planned()) as one:
        one.sim.fail_next("POST", "/api/v1/pods/", kind="reset_after")
        one.sim.fail_next("GET", "/api/v1/pods/", kind="status", status=503, times=40)
        process = one.begin()
        until = time.monotonic() + 60
        while not one.sim.pods and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(draw.random())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        one.sim.heal()
        said: list[str] = []
        to_the_end(one, said)
        return judged(one, "adopt", "an answer and the app lost", said, states="finished", words="")


def _during(
    one: World, act: Callable[[str, subprocess.Popen[str]], object], said: list[str]
) -> None:
    """Do something to the cluster, or to the app, while both nodes work, and let the app go on."""
    process = one.begin()
    homes: list[Path] = []
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        homes = [home for pod in one.sim.alive for home in one.sim.homes(pod.id)]
        if len(homes) == NODES and all(_begun(home, node) for node, home in enumerate(homes)):
            break
        time.sleep(0.05)
    else:
        process.kill()
        said.append(f"both nodes never worked: {process.communicate()[1][-300:]}")
        return
    (pod,) = one.sim.alive
    act(pod.id, process)
    try:
        out, err = process.communicate(timeout=PATIENCE)
        said.append(json.loads(out)["said"] if process.returncode == 0 else err[-300:])
    except Exception as error:  # whatever it is, it is what became of this life
        process.kill()
        process.communicate()
        said.append(f"did not end: {error}")


def _begun(home: Path, node: int) -> bool:
    name = RUN + (f".node-{node}" if node else "")
    return (home / ".hudtui" / "runs" / name / "out" / "begun").exists()


def lost(draw: random.Random, seed: int) -> Outcome:
    """One machine of the cluster goes out."""
    node = seed % NODES
    with world(make=planned(LONG)) as one:
        said: list[str] = []
        _during(one, lambda pod, _: one.sim.lose(pod, node), said)
        to_the_end(one, said)
        words = rf"node {node} .*it is gone"
        return judged(one, "node lost", f"node {node}", said, states="failed", words=words)


def taken_back(_: random.Random, __: int) -> Outcome:
    """The provider takes the whole cluster back."""
    with world(make=planned(LONG)) as one:
        said: list[str] = []
        _during(one, lambda pod, _: one.sim.reclaim(pod), said)
        to_the_end(one, said)
        return judged(one, "node lost", "all", said, states="failed", words="taken back")


def unplugged(draw: random.Random, seed: int) -> Outcome:
    """A machine cannot be reached by SSH for a while; the run goes on meanwhile."""
    node, pause = seed % NODES, draw.choice((1.0, 3.0, 6.0))
    with world(make=planned("sleep 8")) as one:
        said: list[str] = []

        def cut(pod: str, _: object) -> None:
            one.sim.unplug(pod, node)
            time.sleep(pause)
            one.sim.plug(pod, node)

        _during(one, cut, said)
        to_the_end(one, said)
        what = f"node {node} for {pause:g} s"
        return judged(one, "SSH lost", what, said, states="finished", words="")


def spent(draw: random.Random, _: int) -> Outcome:
    """The run reaches the sum that it may cost, with the app there or away."""
    away = draw.random() < 0.5
    with world(make=planned(LONG, BILL if away else 0.4)) as one:
        said: list[str] = []
        _during(one, lambda _, app: app.kill() if away else None, said)
        to_the_end(one, said, offset=3 * 3600.0)
        what = "the app is away" if away else "the app watches"
        states, words = "stopped|failed", "reached|is over|budget"
        return judged(one, "budget", what, said, states=states, words=words)


INJECTIONS: tuple[Callable[[random.Random, int], Outcome], ...] = (
    killed,
    created,
    lost,
    killed,
    adopted,
    unplugged,
    killed,
    spent,
    taken_back,
    killed,
)
"""What a seed injects, by its last digit."""


def injected(seed: int) -> Outcome:
    """Carry out one injection."""
    began = time.monotonic()
    chosen = INJECTIONS[seed % len(INJECTIONS)]
    found = chosen(random.Random(seed), seed // len(INJECTIONS) + seed % len(INJECTIONS))
    found.seconds = time.monotonic() - began
    return found


def table(found: list[Outcome]) -> str:
    """The injections by kind."""
    head = f"{'injected':<10} {'times':>5} {'finished':>8} {'failed':>6} {'stopped':>7}"
    lines = [f"{head} {'twice':>5} {'left':>4} {'false words':>11} {'broken':>6} {'seconds':>7}"]
    kinds: dict[str, list[Outcome]] = defaultdict(list)
    for one in found:
        kinds[one.kind].append(one)
    for kind, mine in [*kinds.items(), ("all", found)]:
        by = [
            sum(one.state == state for one in mine) for state in ("finished", "failed", "stopped")
        ]
        lines.append(
            f"{kind:<10} {len(mine):>5} {by[0]:>8} {by[1]:>6} {by[2]:>7} "
            f"{sum(one.twice for one in mine):>5} {sum(one.left for one in mine):>4} "
            f"{sum(one.false for one in mine):>11} {sum(bool(one.broken) for one in mine):>6} "
            f"{sum(one.seconds for one in mine) / max(len(mine), 1):>7.1f}"
        )
    lines += [f"  {one.kind}, {one.what}: {'; '.join(one.broken)}" for one in found if one.broken]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(
        carried_out(
            sys.argv[1:],
            150,
            lambda seed: INJECTIONS[seed % len(INJECTIONS)].__name__,
            injected,
            table,
        )
    )
