"""Everything that can go wrong while a machine is rented: is one ever created twice, forgotten, or
lied about?

    python tests/faults/compute.py [--seed 1] [--only REGEX] [--sample N] [--json FILE] [--provider
    MODULE:CLASS]

Each injection has a simulator of its own, whose pods are real SSH endpoints; time passes by
sleeping alone. A machine is ordered, waited for, logged in to and ended, with one fault on the way:
in the API, in the life of the machine, or of this program, which is cancelled or killed (a real
process, SIGKILL) at an await. Then the app starts anew. Prints a table of fault, injection point
and outcome; the exit status is 1 when a promise was broken:

- at most one machine is created for an order;
- every machine that lives is in the ledger as one that may, and the next start shows it as
  nobody's, and can end it;
- what the user was told is so: "was ended" and "nothing was created" leave no machine, and whatever
  may live is said to.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hudtui.core.compute.lifecycle import (
    PodGone,
    ProvisionFailed,
    TerminationUnverified,
    acquire,
    resume,
    terminate_pod,
)
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import (
    AuthError,
    InsufficientFunds,
    OutcomeUnknown,
    OutOfCapacity,
    ProviderError,
)
from hudtui.core.compute.reconcile import reconcile
from hudtui.core.errors import HudtuiError
from hudtui.sim import PrimeSimulator

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1])
)  # for `support`, also where this runs as a program

from support import compute_world as world

NAME = "hudtui-fault-1"
_PODS = "/api/v1/pods/"
_LATER = 3600.0
_CLASS = "HUDTUI_FAULTS_PROVIDER"
"""Variable with the class of the provider, `MODULE:CLASS`, called with key, address, `timeout` and
`sleep`; else Prime's."""
_TOLD = "told"
"""A file of a world whose user has seen that the machine is ready."""


@dataclass(frozen=True)
class Injection:
    """One thing that goes wrong."""

    fault: str
    point: str
    requests: tuple[dict[str, Any], ...] = ()
    """Faults of the API, for `PrimeSimulator.fail_next`, in place before the order."""
    at_end: tuple[dict[str, Any], ...] = ()
    """The same, in place before the machine is ended."""
    behave: dict[str, Any] = field(default_factory=dict)
    """Traits of the machine."""
    balance: float | None = None
    offer: str = "1H100.80S"
    stop: str = ""
    """`kill` or `cancel`: this program is stopped, at `label`, the `nth` time."""
    label: str = ""
    nth: int = 0
    after: str = "release"
    """What the next start does with what it finds: `release` or `resume`."""


@dataclass
class Outcome:
    """What came of it."""

    injection: Injection
    told: str = ""
    """In a word: `ready and ended`, the kind of the error, `killed`."""
    created: int = 0
    left: int = 0
    """Machines that lived when the program had stopped."""
    found: int = 0
    """Machines that the next start showed as nobody's."""
    broken: list[str] = field(default_factory=list)
    """Promises that were broken."""
    reached: bool = True
    told_ready: bool = False
    """The user was told that the machine is ready: it is theirs."""


# --- the injections ---


def _http_faults() -> dict[str, dict[str, Any]]:
    return {
        "refused": {"kind": "refuse", "seconds": 0.2},
        "reset before": {"kind": "reset_before"},
        "reset after": {"kind": "reset_after"},
        "429": {"kind": "status", "status": 429},
        "429 Retry-After": {"kind": "status", "status": 429, "retry_after": 9.0},
        "500": {"kind": "status", "status": 500},
        "503 HTML": {"kind": "html503"},
        "timeout": {"kind": "timeout", "seconds": 5.0},
        "malformed JSON": {"kind": "malformed"},
    }


def injections(seed: int) -> list[Injection]:
    """All injections of a seed but those that stop this program, whose moments are found by a run
    without faults."""
    chance = random.Random(seed)
    made: list[Injection] = []
    lost = {"method": "POST", "path": _PODS, "kind": "reset_after"}
    for name, fault in _http_faults().items():

        def at(
            method: str, path: str, times: int = 1, after: int = 0, fault: dict[str, Any] = fault
        ) -> dict[str, Any]:
            return {"method": method, "path": path, "times": times, "after": after, **fault}

        few = chance.randint(2, 5)
        polls = chance.sample(range(8), 2)
        made += [
            Injection(name, "offers", (at("GET", "/api/v1/availability/gpus", few),)),
            Injection(name, "POST pods, once", (at("POST", _PODS),)),
            Injection(name, "POST pods, always", (at("POST", _PODS, 99),)),
            Injection(
                name, "POST pods, then key late", (at("POST", _PODS),), behave={"key_delay": 90.0}
            ),
            Injection(name, "looking after a lost POST, once", (lost, at("GET", _PODS))),
            Injection(name, "looking after a lost POST, long", (lost, at("GET", _PODS, few * 4))),
            Injection(name, "looking after a lost POST, always", (lost, at("GET", _PODS, 999))),
            *(
                Injection(
                    name,
                    f"status, from the {poll + 1}. on, {few} times",
                    (at("GET", "/api/v1/pods/status", few, poll),),
                )
                for poll in polls
            ),
            Injection(name, "status, always", (at("GET", "/api/v1/pods/status", 9999),)),
            Injection(name, "DELETE, once", at_end=(at("DELETE", "/api/v1/pods/*"),)),
            Injection(name, "DELETE, 4 times", at_end=(at("DELETE", "/api/v1/pods/*", 4),)),
            Injection(name, "DELETE, always", at_end=(at("DELETE", "/api/v1/pods/*", 999),)),
            Injection(
                name, "GET pod after DELETE", at_end=(at("GET", "/api/v1/pods/simpod*", few),)
            ),
            Injection(name, "list after DELETE", at_end=(at("GET", _PODS, few),)),
            Injection(name, "history", at_end=(at("GET", "/api/v1/pods/history", few),)),
            Injection(
                name,
                "DELETE of a failed machine",
                (at("DELETE", "/api/v1/pods/*", few),),
                behave={"ends": "error"},
            ),
            Injection(
                name,
                "everything, from some request on",
                (at("*", "/api/v1/*", 999, chance.randint(3, 12)),),
            ),
        ]
    for name, traits in {
        "offer gone": {"offer_gone": True},
        "ERROR": {"ends": "error"},
        "installation ERROR": {"ends": "install_error"},
        "stuck installation": {"ends": "stuck"},
        "STOPPED": {"ends": "stopped"},
        "key 90 s late": {"key_delay": 90.0},
        "key never": {"key_delay": 1e9},
        "another user": {"user": "ubuntu", "connection": "root@{host} -p {port}"},
        "maxPrice demanded": {"max_price_demanded": True},
        "status leaves it out": {"status_forgets": True},
        "unknown words": {"strange_values": True},
        "slow boot": {"boot": 720.0, "install": 480.0},
        "DELETE ignored": {"delete_ignored": True},
        "DELETE slow": {"delete": 60.0},
        "host key changes": {"rekey": 30.0},
    }.items():
        made.append(Injection(name, "life of the machine", behave=traits))
        made.append(Injection(name, "with the POST's answer lost", (lost,), behave=traits))
        made.append(
            Injection(
                name, "with the DELETE lost", (at_delete(),), at_end=(at_delete(),), behave=traits
            )
        )
    for when in sorted(chance.sample(range(1, 60), 6)):
        spot = {"behave": {"reclaimed": float(when)}, "offer": "1H100.80S-spot"}
        made.append(Injection("spot reclaim", f"after {when} s", **spot))
        made.append(
            Injection("spot reclaim", f"after {when} s, POST's answer lost", (lost,), **spot)
        )
    for balance in (0.0, 0.001, 0.005, 0.01):
        made.append(Injection("wallet empty", f"{balance} USD", balance=balance))
    return made


def at_delete() -> dict[str, Any]:
    """A termination that is lost on its way."""
    return {"method": "DELETE", "path": "/api/v1/pods/*", "kind": "reset_before"}


def stops(seed: int, moments: dict[str, int], *, most: int = 3) -> list[Injection]:
    """This program is killed, and cancelled, at every kind of moment: the first of it, the last,
    and some between."""
    chance = random.Random(seed)
    made = []
    for label, count in moments.items():
        chosen = sorted({0, count - 1, *(chance.randrange(count) for _ in range(max(0, most - 2)))})
        for nth in chosen:
            for stop in ("kill", "cancel"):
                made.append(
                    Injection(
                        stop,
                        label,
                        stop=stop,
                        label=label,
                        nth=nth,
                        after=chance.choice(("release", "resume")),
                    )
                )
    return made


# --- carrying one out ---


def carry_out(injection: Injection, folder: Path, key: Path) -> Outcome:
    """One injection in a world of its own."""
    outcome = Outcome(injection)
    with PrimeSimulator() as sim:
        sim.add_ssh_key(key.with_suffix(".pub").read_text())
        if injection.balance is not None:
            sim.account.balance = injection.balance
        if injection.behave:
            sim.behave(**injection.behave)
        for fault in injection.requests:
            sim.fail_next(**fault)
        if injection.stop == "kill":
            _in_child(injection, sim, folder, key, outcome)
        else:
            asyncio.run(_rent(injection, sim, folder, key, outcome))
        sim.heal()
        _wait_until_open(sim)
        asyncio.run(_start_anew(injection, sim, folder, key, outcome))
        outcome.created = len(sim.pods)
        if outcome.created > 1:
            outcome.broken.append(f"{outcome.created} machines were created")
    return outcome


def _user(
    sim_url: str, api_key: str, folder: Path, key: Path, advance: Any = None, timeout: float = 1.0
) -> Any:
    make = None
    if place := os.environ.get(_CLASS):
        module, _, name = place.partition(":")
        make = getattr(importlib.import_module(module), name)
    ledger = Ledger(folder / "pods.db")
    return world.User(
        sim_url, api_key, ledger, key, folder / "pins", timeout=timeout, advance=advance, make=make
    )


async def _rent(
    injection: Injection, sim: PrimeSimulator, folder: Path, key: Path, outcome: Outcome
) -> None:
    silent = injection.fault == "timeout" and injection.point.startswith(
        "everything"
    )  # every answer is waited for in real time
    user = _user(sim.url, sim.api_key, folder, key, sim.clock.advance, 0.2 if silent else 1.0)
    said: list[str] = []
    try:
        error, kind = await _to_ready(user, injection, folder, said, outcome)
        outcome.told_ready = (folder / _TOLD).exists() or any(
            "is ready, and stays" in text for text in said
        )
        _compare(sim, user.ledger, error, said, outcome)
        outcome.told = kind
        if error is None and outcome.reached:
            for fault in injection.at_end:
                sim.fail_next(**fault)
            problem = None
            try:
                await terminate_pod(NAME, user.provider, user.ledger, why="over", sleep=user.sleep)
                outcome.told = "ready, then ended"
            except HudtuiError as caught:
                problem, outcome.told = caught, f"ready, then {_kind(caught)}"
            _compare(sim, user.ledger, problem, [], outcome)
            if problem is None and user.ledger.records():
                outcome.broken.append("ended, and the ledger does not say so")
    finally:
        await user.close()


async def _to_ready(
    user: Any, injection: Injection, folder: Path, said: list[str], outcome: Outcome
) -> tuple[BaseException | None, str]:
    """Order a machine and wait for it; the error that ended that, and what to call it."""
    try:
        order = await user.order(NAME, injection.offer)
    except ProviderError as error:
        return error, f"no offers: {_kind(error)}"
    except LookupError as error:
        return ProviderError(str(error)), "no such offer, and why"
    watch = world.Watch(injection.label, injection.nth, None)
    watch_over = injection.stop == "cancel"
    task = asyncio.ensure_future(
        _all_steps(user, order, folder, said, watch if watch_over else None)
    )
    if watch_over:
        watch._act = task.cancel
        asyncio.get_running_loop().set_task_factory(watch.factory)
    try:
        await task
        outcome.reached = watch.reached or not watch_over
        return None, "ready"
    except asyncio.CancelledError as error:
        return error, "cancelled"
    except HudtuiError as error:
        return error, _kind(error)
    finally:
        asyncio.get_running_loop().set_task_factory(None)


async def _all_steps(user: Any, order: Any, folder: Path, said: list[str], watch: Any) -> None:
    provider, ledger = user.provider, user.ledger
    if watch is not None:
        provider, ledger = (
            world.Watched("provider", provider, watch),
            world.Watched("ledger", ledger, watch),
        )
    # As `pods create` rents: a machine for a run has a manager, which ends it or says that it
    # stays.
    steps = acquire(
        order,
        provider,
        ledger,
        login=user.login,
        sleep=user.sleep,
        clock=user.clock,
        say=said.append,
    )
    async with contextlib.aclosing(steps):
        async for step in steps:
            if watch is not None:
                watch.did(f"step {step.kind}")
            if step.kind == "ready":
                (folder / _TOLD).touch()


def _compare(
    sim: PrimeSimulator,
    ledger: Ledger,
    error: BaseException | None,
    said: list[str],
    outcome: Outcome,
) -> None:
    """Is what the user was told so?"""
    alive = len(sim.alive)
    entry = ledger.get(NAME)
    words = " ".join([str(error or ""), *said])
    unsure = (
        isinstance(error, OutcomeUnknown | TerminationUnverified)
        or "could not be confirmed" in words
        or "could not be ended" in words
    )
    stays = "is ready, and stays: it costs money" in words
    if alive and (entry is None or not entry.open):
        outcome.broken.append("a machine lives, and the ledger does not know")
    if error is not None and alive and not unsure and not stays and outcome.reached:
        outcome.broken.append(f"a machine lives, and the user was told: {words[:200]}")
    if (
        error is not None
        and alive
        and isinstance(error, TerminationUnverified)
        and "may still cost" not in words
        and "exists" not in words
    ):
        outcome.broken.append(f"a machine lives, and nobody said that it may cost: {words[:200]}")
    if error is not None and not alive and not unsure and entry is not None and entry.open:
        outcome.broken.append(
            f"the ledger has a machine ({entry.state}) that is gone; the user was told: "
            f"{words[:200]}"
        )
    if stays and not alive:
        outcome.broken.append("said to stay, and is gone")
    if "was ended, and that was verified" in words and alive:
        outcome.broken.append("said to be ended, and lives")
    if isinstance(error, asyncio.CancelledError) and not said and outcome.reached:
        outcome.broken.append("cancelled without a word")
    if entry is not None and entry.state == "ended" and entry.billed is not None:
        cost = sum(pod.cost(sim.clock.now()) for pod in sim.pods.values())
        if abs(entry.billed - cost) > 0.001:
            outcome.broken.append(f"the bill is {cost:.4f}, the ledger says {entry.billed:.4f}")


def _in_child(
    injection: Injection, sim: PrimeSimulator, folder: Path, key: Path, outcome: Outcome
) -> None:
    request = {
        "url": sim.url,
        "api_key": sim.api_key,
        "folder": str(folder),
        "key": str(key),
        "injection": asdict(injection),
    }
    child = subprocess.run(
        [sys.executable, __file__, "--child"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    outcome.told = "killed"
    outcome.told_ready = (folder / _TOLD).exists()
    if child.returncode != -signal.SIGKILL:
        outcome.reached = False
        if child.returncode:
            outcome.broken.append(f"the child failed: {child.stderr[-300:]}")
        return
    _wait_until_quiet(sim)
    outcome.told = f"killed, {len(sim.alive)} alive"
    entry = Ledger(folder / "pods.db").get(NAME)
    if sim.alive and (entry is None or not entry.open):
        outcome.broken.append("a machine lives, and the ledger does not know")


def _wait_until_open(sim: PrimeSimulator) -> None:
    """The port may still refuse connections."""
    place = sim.url.removeprefix("http://").split(":")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            socket.create_connection((place[0], int(place[1])), timeout=1).close()
            return
        time.sleep(0.02)


def _wait_until_quiet(sim: PrimeSimulator) -> None:
    """What a process sent before it was killed may be carried out after it."""
    before, calm = -1, 0
    deadline = time.monotonic() + 10
    while calm < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
        state = len(sim.requests) * 1000 + len(sim.pods)
        calm = (
            calm + 1
            if state == before and all(r.handled or r.status or r.fault for r in sim.requests)
            else 0
        )
        before = state


async def _start_anew(
    injection: Injection, sim: PrimeSimulator, folder: Path, key: Path, outcome: Outcome
) -> None:
    """The next start of the app, an hour later, with everything well again: who is found, and can
    it be ended?"""
    user = _user(sim.url, sim.api_key, folder, key, sim.clock.advance)
    for pod in sim.pods.values():
        pod.behaviour = replace(pod.behaviour, delete_ignored=False, key_delay=0.0)
    sim.account.balance += 100.0
    try:
        left = {pod.id for pod in sim.alive}
        outcome.left = len(left)
        entry = user.ledger.get(NAME)
        may_go_on = (
            injection.after == "resume"
            and injection.stop == "kill"
            and entry is not None
            and entry.open
        )
        if may_go_on and entry is not None and entry.state != "ending":
            await _go_on(user, entry, outcome)
        else:
            first = await reconcile([user.provider], user.ledger, active=lambda owned: False)
            shown = {orphan.pod.id for orphan in first.orphans}
            outcome.found = len(shown)
            by_hand = {entry.pod for entry in first.by_hand}
            if by_hand and not outcome.told_ready:
                outcome.broken.append(
                    "it counts as rented by hand, and the user was not told of it"
                )
            if shown | by_hand != left:
                outcome.broken.append(f"{len(left)} live, the next start shows {len(shown)}")
            if any(orphan.record is None for orphan in first.orphans):
                outcome.broken.append("the next start does not know whose machine it is")
            for orphan in first.orphans:
                await terminate_pod(
                    orphan.pod, user.provider, user.ledger, why="nobody's", sleep=user.sleep
                )
            for entry in first.by_hand:
                await terminate_pod(
                    entry.name, user.provider, user.ledger, why="ended by hand", sleep=user.sleep
                )
        last = await reconcile(
            [user.provider],
            user.ledger,
            active=lambda owned: False,
            now=lambda: time.time() + _LATER,
        )
        if last.orphans or sim.alive:
            outcome.broken.append("it cannot be ended by the next start")
        if user.ledger.records():
            outcome.broken.append(f"the ledger still waits for {user.ledger.records()[0].state}")
    except HudtuiError as error:
        outcome.broken.append(f"the next start failed: {error}")
    finally:
        await user.close()


async def _go_on(user: Any, entry: Any, outcome: Outcome) -> None:
    try:
        steps = resume(
            entry, user.provider, user.ledger, login=user.login, sleep=user.sleep, clock=user.clock
        )
        kinds = [step.kind async for step in steps]
        outcome.told += ", gone on with"
        if kinds[-1] != "ready":
            outcome.broken.append(f"gone on with, and only {kinds[-1]}")
    except OutcomeUnknown:
        outcome.told += ", looked for"  # never created; the last reconcile says so
        return
    await terminate_pod(NAME, user.provider, user.ledger, why="over", sleep=user.sleep)


def _kind(error: BaseException) -> str:
    names = {
        OutOfCapacity: "offer gone",
        InsufficientFunds: "no money",
        AuthError: "key refused",
        OutcomeUnknown: "unclear, kept",
        TerminationUnverified: "may still cost, kept",
        ProvisionFailed: "unusable, ended",
        PodGone: "taken back",
        ProviderError: "refused",
    }
    return next((name for kind, name in names.items() if type(error) is kind), type(error).__name__)


# --- the child ---


def _child() -> None:
    request = json.loads(sys.stdin.read())
    asked = request["injection"]
    injection = Injection(**{**asked, "requests": (), "at_end": ()})
    folder, key = Path(request["folder"]), Path(request["key"])
    watch = world.Watch(
        injection.label,
        injection.nth,
        lambda: os.kill(os.getpid(), signal.SIGKILL) if injection.label else None,
    )

    async def main() -> None:
        user = _user(request["url"], request["api_key"], folder, key)
        order = await user.order(NAME, injection.offer)
        asyncio.get_running_loop().set_task_factory(watch.factory)
        await asyncio.create_task(_all_steps(user, order, folder, [], watch))
        asyncio.get_running_loop().set_task_factory(None)
        await user.close()

    asyncio.run(main())
    print(json.dumps(watch.seen))


def find_moments(folder: Path, key: Path) -> dict[str, int]:
    """Every kind of moment of an undisturbed run, and how often it comes."""
    folder.mkdir(exist_ok=True)
    with PrimeSimulator() as sim:
        sim.add_ssh_key(key.with_suffix(".pub").read_text())
        request = {"url": sim.url, "api_key": sim.api_key, "folder": str(folder), "key": str(key)}
        request["injection"] = asdict(Injection("none", "none"))  # type: ignore[assignment]
        child = subprocess.run(
            [sys.executable, __file__, "--child"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    found: dict[str, int] = json.loads(child.stdout)
    return found


# --- the table ---


def make_key(folder: Path) -> Path:
    """A key pair for logging in."""
    path = folder / "id_ed25519"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True
    )
    return path


def run_all(
    chosen: list[Injection], folder: Path, key: Path, tell: Callable[[int, Outcome], None]
) -> Iterator[Outcome]:
    """Carry out many, one after another."""
    for number, injection in enumerate(chosen):
        place = folder / f"{number}"
        place.mkdir()
        outcome = carry_out(injection, place, key)
        tell(number, outcome)
        yield outcome


def table(outcomes: list[Outcome]) -> str:
    """Fault x injection point x outcome."""
    rows: dict[tuple[str, str], Counter[str]] = {}
    broken: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        place = (outcome.injection.fault, outcome.injection.point)
        rows.setdefault(place, Counter())[outcome.told if outcome.reached else "not reached"] += 1
        broken[place] += bool(outcome.broken)
    lines = [
        "| fault | injection point | n | outcome | broken |",
        "| --- | --- | ---: | --- | ---: |",
    ]
    for place, told in rows.items():
        words = "; ".join(
            f"{text} ({count})" if sum(told.values()) > 1 else text for text, count in told.items()
        )
        lines.append(
            f"| {place[0]} | {place[1]} | {sum(told.values())} | {words} | {broken[place]} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the table."""
    parser = argparse.ArgumentParser(description="Faults while machines are rented.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="injections whose fault and point match")
    parser.add_argument("--sample", type=int, default=0, help="so many of them, chosen by the seed")
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--provider", default="", help="class of another provider, MODULE:CLASS, on PYTHONPATH"
    )
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        _child()
        return 0
    if asked.provider:
        os.environ[_CLASS] = asked.provider
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ht-faults-") as name:
        folder = Path(name)
        key = make_key(folder)
        everything = [
            *injections(asked.seed),
            *stops(asked.seed, find_moments(folder / "moments", key)),
        ]
        chosen = [one for one in everything if re.search(asked.only, f"{one.fault} {one.point}")]
        if asked.sample:
            chosen = random.Random(asked.seed).sample(chosen, min(asked.sample, len(chosen)))

        def tell(number: int, outcome: Outcome) -> None:
            mark = "BROKEN " + "; ".join(outcome.broken) if outcome.broken else outcome.told
            text = (
                f"{number + 1}/{len(chosen)} {outcome.injection.fault}, {outcome.injection.point}: "
                f"{mark}"
            )
            print(
                text if outcome.broken else f"\r\033[K{text[:150]}",
                end="\n" if outcome.broken else "",
                file=sys.stderr,
                flush=True,
            )

        outcomes = list(run_all(chosen, folder, key, tell))
    print(file=sys.stderr)
    print(table(outcomes))
    reached = [outcome for outcome in outcomes if outcome.reached]
    bad = [outcome for outcome in outcomes if outcome.broken]
    print(
        f"\n{len(reached)} injections (seed {asked.seed}, {time.monotonic() - began:.0f} s), "
        f"{sum(outcome.created for outcome in reached)} machines created, "
        f"{sum(outcome.created > 1 for outcome in reached)} created twice, "
        f"{sum(outcome.left for outcome in reached)} left behind and all but {len(bad)} found and "
        f"ended by the next start; {len(bad)} broken promises; {len(outcomes) - len(reached)} "
        "moments not reached."
    )
    if asked.json:
        asked.json.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
