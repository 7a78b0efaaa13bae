"""The real `prime` command line against the simulator, case by case as it was recorded;
tests/real/prime.py prints a table."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from support.ready_command import ReadyCommand

from hudtui.sim import PrimeSimulator
from hudtui.sim.faults import Behaviour

ROOT = Path(__file__).parents[2]
PRIME = (ROOT / ".venv-prime").resolve() / "bin" / "prime"
SURROUNDINGS = {
    "PRIME_DISABLE_VERSION_CHECK": "1",
    "COLUMNS": "160",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "LANG": "C.UTF-8",
    "PYTHONUTF8": "1",
}
HERE = Path(__file__).parent
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((HERE / "cli-conformance.json").read_text())["cases"]
}
ERRORS: dict[str, dict[str, Any]] = {
    case["id"]: case for case in json.loads((HERE / "cli-errors.json").read_text())["cases"]
}
POLLS = 2
"""How often a command that polls for ever is seen polling before it is ended."""


def recorded(case_id: str, index: int = 0) -> Any:
    return CASES[case_id]["requests"][index]["response"]


def order_of(case_id: str) -> dict[str, Any]:
    return next(
        request["body"]
        for request in reversed(CASES[case_id]["requests"])
        if request["method"] == "POST"
    )


# --- the account as it was when each case was recorded ---


def place(sim: PrimeSimulator, case_id: str) -> str:
    """The pod that a case of the record created."""
    body = order_of(case_id)
    return sim.account.create(
        dict(body["pod"]), body["provider"]["type"], (body["team"] or {}).get("teamId")
    ).id


def four_pods(sim: PrimeSimulator) -> None:
    for case_id in (
        "pods-create-flags",
        "pods-create-flags-fixed",
        "pods-create-legacy-menu",
        "pods-create-team-share",
    ):
        place(sim, case_id)


def stuck(sim: PrimeSimulator) -> None:
    sim.scenario("stuck-install")
    place(sim, "pods-create-flags")
    sim.clock.advance(100)


def ready(sim: PrimeSimulator) -> None:
    place(sim, "pods-create-flags")
    sim.clock.advance(100)


def special(sim: PrimeSimulator) -> None:
    """Pods in states that the recording forced; no machine is behind them."""
    pods = recorded("pods-list-mixed")["data"]
    sim.behave(ends="stuck")
    for told in pods:
        pod = sim.account.pods.pop(place(sim, "pods-create-legacy-probe"))
        sim.account.pods[told["id"]] = replace(pod, id=told["id"], name=told["name"], forced=told)


def gone(sim: PrimeSimulator) -> None:
    four_pods(sim)
    for pod_id in list(sim.account.pods)[:2]:
        sim.account.terminate(sim.account.pods[pod_id])


def creates(case: dict[str, Any]) -> bool:
    return any(
        request["method"] == "POST" and "/pods" in request["path"] for request in case["requests"]
    )


def numbered(case_id: str) -> Callable[[PrimeSimulator], None]:
    """So many pods came before that the next has the recorded id."""

    def set_up(sim: PrimeSimulator) -> None:
        sim.account.made = (
            int(CASES[case_id]["requests"][-1]["response"]["id"].removeprefix("simpod")) - 1
        )

    return set_up


SET_UP: dict[str, Callable[[PrimeSimulator], None]] = {
    **{
        case_id: four_pods
        for case_id in ("pods-list", "pods-list-json", "pods-terminate", "pods-terminate-prompt")
    },
    **{case_id: four_pods for case_id in ("pods-terminate-noninteractive",)},
    "pods-status": stuck,
    **{case_id: ready for case_id in ("pods-status-json", "pods-ssh", "pods-ssh-nokey")},
    **{
        case_id: special
        for case_id in (
            "pods-list-mixed",
            "pods-status-multinode",
            "pods-status-error",
            "pods-ssh-multinode",
        )
    },
    **{case_id: special for case_id in ("pods-ssh-weird", "pods-ssh-error")},
    "redirect-list": gone,
    **{case_id: numbered(case_id) for case_id, case in CASES.items() if creates(case)},
}


def account() -> PrimeSimulator:
    records = {
        "history": recorded("pods-history-json")["data"],
        "billings": recorded("wallet-json")["recent_billings"],
    }
    sim = PrimeSimulator(
        balance=42.5,
        offers=recorded("availability-list")["items"],
        clusters=recorded("availability-list", 1)["items"],
        disk_offers=recorded("availability-disks-json")["items"],
        records=records,
    )
    sim.account.behaviour = Behaviour(boot=20, install=20)
    sim.account.disks = recorded("disks-list-json")["data"]
    return sim


# --- running one case ---


@dataclass(frozen=True)
class Outcome:
    rc: int
    stdout: str
    stderr: str
    requests: tuple[tuple[str, str, Any, Any], ...]
    raw: tuple[tuple[str, str, int | None], ...]
    seconds: float


def world_of(folder: Path, sim: PrimeSimulator, case_id: str) -> tuple[dict[str, str], Path]:
    """The environment and working folder of the command: a home of its own, and stand-ins for what
    it starts."""
    home, bin_, work = folder / "home", folder / "bin", folder / "work"
    for path in (home / ".ssh", bin_, work):
        path.mkdir(parents=True)
    (home / ".ssh" / "sim_key").write_text("not a key\n")
    for name in ("ssh", "uv", "pip"):
        (bin_ / name).write_text(f'#!/bin/sh\necho "FAKE-{name.upper()} argv: $*"\n')
        (bin_ / name).chmod(0o755)
    if case_id == "eval-push":
        _, create, samples, _ = CASES[case_id]["requests"]
        run = work / "outputs" / "evals" / "tiny-env--sim--model" / "run1"
        run.mkdir(parents=True)
        (run / "metadata.json").write_text(
            json.dumps({**create["body"]["metadata"], "avg_reward": 1.0, "avg_metrics": {}})
        )
        (run / "results.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in samples["body"]["samples"])
        )
    environment = {
        "HOME": str(home),
        "PATH": f"{bin_}:/usr/bin:/bin",
        "PRIME_API_KEY": sim.api_key,
        "PRIME_API_BASE_URL": sim.url,
        "PRIME_INFERENCE_URL": f"{sim.url}/api/v1",
        "PRIME_SSH_KEY_PATH": "/nonexistent"
        if case_id == "pods-ssh-nokey"
        else str(home / ".ssh" / "sim_key"),
        **SURROUNDINGS,
    }
    return environment, work


def prime_command() -> ReadyCommand:
    """The real command line, with nobody's settings when it is imported."""
    assert PRIME.exists(), "scripts/bootstrap dev fetches the prime command line"
    return ReadyCommand(
        PRIME.with_name("python"),
        "prime_cli.main:run",
        {**SURROUNDINGS, "HOME": "/nonexistent"},
        ("httpcore",),
    )


@pytest.fixture(scope="module")
def prime() -> Iterator[ReadyCommand]:
    with prime_command() as command:
        yield command


def run_command(
    prime: ReadyCommand,
    argv: list[str],
    stdin: str,
    sim: PrimeSimulator,
    folder: Path,
    case_id: str,
    *,
    endless: bool,
) -> Outcome:
    environment, work = world_of(folder, sim, case_id)
    began = time.monotonic()
    paths = [folder / name for name in ("stdin", "stdout", "stderr")]
    paths[0].write_text("" if endless else stdin)
    with paths[0].open() as given, paths[1].open("w") as said, paths[2].open("w") as complained:
        streams = [given.fileno(), said.fileno(), complained.fileno()]
        process = prime.start(
            [str(PRIME), *argv], cwd=work, environment=environment, streams=streams
        )
    rc = None
    if endless:
        while len(sim.requests) < POLLS and (rc := prime.wait(0.05)) is None:
            pass
    else:
        rc = prime.wait(60)
    if rc is None:
        os.killpg(process, signal.SIGKILL)
        prime.wait(60)
        assert endless, f"{argv} did not end"
        rc = 124
    out, err = paths[1].read_text(), paths[2].read_text()
    for text, sign in (
        (sim.url, "{SIM}"),
        (str(PRIME.parents[1]), "<venv>"),
        (environment["HOME"], "~"),
    ):
        out = out.replace(text, sign)
    for pod in sim.pods.values():
        for port in pod.ports:
            out = re.sub(rf"\b{port}\b", "2222", out)
    seen = [item for item in sim.requests if not item.path.startswith("/sim/")]
    plain = tuple(
        (item.method, item.path, dict(item.query), item.body) for item in seen if item.status != 307
    )
    return Outcome(
        rc,
        out,
        err,
        plain,
        tuple((i.method, i.path, i.status) for i in seen),
        time.monotonic() - began,
    )


def expected_requests(case: dict[str, Any]) -> tuple[tuple[str, str, Any, Any], ...]:
    times = {True: POLLS, False: 1}
    return tuple(
        (request["method"], request["path"], request["query"], request["body"])
        for request in case["requests"]
        if request["status"] != 307
        for _ in range(times["repeats" in request])
    )


def same_path(path: str) -> str:
    """The recording's stub took both forms of a path; the simulator redirects to the canonical
    one."""
    return path.rstrip("/")


def run_case(prime: ReadyCommand, case_id: str, folder: Path) -> Outcome:
    case = CASES[case_id]
    with account() as sim:
        SET_UP.get(case_id, lambda sim: None)(sim)
        sim.forget_requests()
        pod = (
            "simpod00000000000000000000000002"
            if case_id == "pods-terminate-prompt"
            else "simpod00000000000000000000000001"
        )
        argv = [word.replace("{POD}", pod) for word in case["argv"][1:]]
        return run_command(
            prime, argv, case["stdin"], sim, folder, case_id, endless=case["rc"] == 124
        )


def differences(case_id: str, outcome: Outcome) -> list[str]:
    """What is not as recorded; empty when all is."""
    case, found = CASES[case_id], []
    if outcome.rc != case["rc"]:
        found.append(
            f"exit status {outcome.rc}, recorded {case['rc']}: {outcome.stdout[-300:]} "
            f"{outcome.stderr[-600:]}"
        )
    wanted, seen = expected_requests(case), outcome.requests
    if len(wanted) != len(seen):
        found.append(
            f"{len(seen)} requests, recorded {len(wanted)}: {[(item[0], item[1]) for item in seen]}"
        )
    for number, (expected, got) in enumerate(zip(wanted, seen, strict=False), 1):
        if (expected[0], same_path(expected[1])) != (got[0], same_path(got[1])):
            found.append(f"request {number}: {got[:2]}, recorded {expected[:2]}")
        if expected[2] != got[2]:
            found.append(f"request {number}: query {got[2]}, recorded {expected[2]}")
        if expected[3] != got[3]:
            found.append(f"request {number}: body {got[3]}, recorded {expected[3]}")
    if any(request["status"] == 307 for request in case["requests"]):
        exact = tuple((r["method"], r["path"], r["status"]) for r in case["requests"])
        if outcome.raw != exact:
            found.append(f"redirects: {outcome.raw}, recorded {exact}")
    if "json" in case["stdout"]:
        try:
            told = json.loads(outcome.stdout)
        except ValueError:
            return [*found, f"no JSON: {outcome.stdout[:300]} {outcome.stderr[-300:]}"]
        wanted_json = case["stdout"]["json"]
        if case_id == "redirect-list":
            # The stub counted the pods that it had terminated; the service lists and counts those
            # that are left.
            told, wanted_json = told["pods"], wanted_json["pods"]
        if told != wanted_json:
            found.append(f"JSON {told}, recorded {wanted_json}")
    for line in case["stdout"].get("lines", ()):
        # What it would start tells how it understood the answers. Lines are wrapped where paths
        # end, so only words are compared.
        if "FAKE-" in line and " ".join(line.split()) not in " ".join(outcome.stdout.split()):
            found.append(f"no line {line!r} in {outcome.stdout[-500:]!r}")
    if case["stderr_has_traceback"] != ("Traceback" in outcome.stderr):
        found.append(f"traceback: {outcome.stderr[-300:]}")
    return found


@pytest.mark.parametrize("case_id", CASES)
def test_as_recorded(prime: ReadyCommand, case_id: str, tmp_path: Path) -> None:
    assert not differences(case_id, run_case(prime, case_id, tmp_path))


def run_error(prime: ReadyCommand, error_id: str, folder: Path) -> Outcome:
    case = ERRORS[error_id]
    with account() as sim:
        kinds = {"503html": "html503", "422b": "errors422"}
        sim.fail_next(
            "GET",
            "/api/v1/pods/",
            kinds.get(error_id, "status"),
            status=case["http_status"],
            detail=_detail(case["response"]),
        )
        return run_command(prime, ["pods", "list"], "", sim, folder, error_id, endless=False)


def error_differences(error_id: str, outcome: Outcome) -> list[str]:
    """What is not as recorded; empty when all is."""
    case, found = ERRORS[error_id], []
    if outcome.rc != case["rc"]:
        found.append(f"exit status {outcome.rc}, recorded {case['rc']}")
    failed = [item for item in outcome.raw if item[2] != 307]
    if failed != [("GET", "/api/v1/pods/", case["http_status"])]:
        found.append(f"more than one request, without a second try: {failed}")
    # The page of 503html has other words in it.
    if error_id != "503html" and "".join(outcome.stdout.split()) != "".join(case["stdout"].split()):
        found.append(f"it printed {outcome.stdout!r}, recorded {case['stdout']!r}")
    return found


def _detail(response: Any) -> str | None:
    detail = response.get("detail") if isinstance(response, dict) else None
    return detail if isinstance(detail, str) else detail[0]["msg"] if detail else None


@pytest.mark.parametrize("error_id", ERRORS)
def test_errors_as_recorded(prime: ReadyCommand, error_id: str, tmp_path: Path) -> None:
    assert not error_differences(error_id, run_error(prime, error_id, tmp_path))
