"""Pods are real machines: OpenSSH's client, SFTP, tmux, terminals, and the end of all that they
started."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.waiting import wait_for

from hudtui.sim import PrimeSimulator
from hudtui.sim.state import processes_of


def test_a_login_has_its_own_home_and_nothing_of_ours(api, ssh, sim, monkeypatch):
    monkeypatch.setenv("A_SECRET_OF_THE_SIMULATOR", "1")
    pod = api.ready()
    told = ssh(pod["sshConnection"], "pwd; echo $HOME; whoami >/dev/null; env; exit 7")
    assert told.returncode == 7, told.stderr
    lines = told.stdout.splitlines()
    assert lines[0] == lines[1] == str(sim.home(pod["id"])) and not lines[0].startswith("/root")
    assert "A_SECRET" not in told.stdout


def test_input_output_and_errors_are_kept_apart(api, ssh):
    pod = api.ready()
    told = ssh(pod["sshConnection"], "tr a-z A-Z; echo wrong >&2", stdin="hello" * 50_000)
    assert told.stdout == "HELLO" * 50_000 and told.stderr == "wrong\n"


def test_a_signal_is_told_as_one(api, ssh):
    assert ssh(api.ready()["sshConnection"], "kill -TERM $$").returncode == 255


def test_a_terminal(api, ssh):
    told = ssh(api.ready()["sshConnection"], "test -t 0 && test -t 1 && echo $TERM", "-tt")
    assert told.returncode == 0 and told.stdout.strip()


def test_files_over_sftp(api, key_pair, sim, tmp_path):
    pod = api.ready()
    tmp_path.joinpath("data").write_bytes(os.urandom(1_000_000))
    port = pod["primePortMapping"][0]["external"]
    options = [
        "-F",
        "none",
        "-i",
        str(key_pair),
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
    ]
    batch = (
        f"put {tmp_path}/data data\nmkdir sub\nrename data sub/data\nget sub/data {tmp_path}/back\n"
    )
    done = subprocess.run(
        ["sftp", *options, "-P", port, "-b", "-", "root@127.0.0.1"],
        input=batch,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert tmp_path.joinpath("back").read_bytes() == tmp_path.joinpath("data").read_bytes()
    assert sim.home(pod["id"]).joinpath("sub/data").stat().st_size == 1_000_000


def test_the_stand_in_for_nvidia_smi(api, ssh):
    pod = api.ready("4H100.80S")
    told = ssh(
        pod["sshConnection"],
        "nvidia-smi --query-gpu=index,memory.total --format=csv,noheader,nounits; nvidia-smi -L | "
        "wc -l",
    )
    assert told.stdout.splitlines() == [*(f"{index}, 81920" for index in range(4)), "4"]
    assert "simulated" in ssh(pod["sshConnection"], "bash -lc nvidia-smi").stdout, (
        "a login shell finds it too"
    )
    cpu = api.ready("cpu-8")
    assert "simulated" not in ssh(cpu["sshConnection"], "nvidia-smi").stdout


def test_pods_do_not_see_each_others_sessions(api, ssh):
    one, two = api.ready(), api.ready("2H100.80S")
    assert ssh(one["sshConnection"], "tmux new -d -s mine 'sleep 600'").returncode == 0
    assert "mine" in ssh(one["sshConnection"], "tmux ls").stdout
    assert "mine" not in ssh(two["sshConnection"], "tmux ls").stdout


def test_terminating_ends_everything_that_was_started(api, ssh, sim, alive):
    pod = api.ready()
    ssh(
        pod["sshConnection"],
        "tmux new -d -s run 'sleep 600'; setsid nohup sleep 601 >/dev/null 2>&1 & sleep 602 "
        ">/dev/null 2>&1 &",
    )
    token = sim.pods[pod["id"]].token
    wait_for(lambda: len(processes_of(token)) >= 4)
    there = processes_of(token)
    api.http.delete(f"/pods/{pod['id']}")
    assert not processes_of(token) and not any(alive(pid) for pid in there)
    assert ssh(pod["sshConnection"], "true").returncode == 255
    assert not sim.home(pod["id"]).exists()


def test_the_end_of_the_simulator_ends_everything(connect, key_pair, ssh):
    with PrimeSimulator() as sim:
        sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
        pod = connect(sim).ready()
        ssh(pod["sshConnection"], "tmux new -d -s run 'sleep 600'")
        token, home = sim.pods[pod["id"]].token, sim.home(pod["id"])
        assert processes_of(token)
    assert not processes_of(token) and not home.exists()


def test_the_end_of_a_pod_does_not_wait_for_its_files(
    connect, key_pair, ssh, monkeypatch, tmp_path
):
    may_go = threading.Event()
    rmtree = shutil.rmtree

    def slow(path: Any, **more: Any) -> None:
        assert may_go.wait(60)
        rmtree(path, **more)

    with PrimeSimulator(state=tmp_path / "state") as sim:
        monkeypatch.setattr(shutil, "rmtree", slow)
        sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
        api = connect(sim)
        pod = api.ready("h100-cluster-2")
        for way in pod["sshConnection"]:
            ssh(way, "echo big > package; tmux new -d -s run 'sleep 600'")
        token, homes = sim.pods[pod["id"]].token, sim.homes(pod["id"])
        assert processes_of(token) and all((home / "package").exists() for home in homes)
        assert api.http.delete(f"/pods/{pod['id']}").json() == {"status": "TERMINATED"}
        assert not processes_of(token) and not any(home.exists() for home in homes)
        left = [path for path in homes[0].parents[1].rglob("package") if path.is_file()]
        assert len(left) == 2, "the files go later"
        may_go.set()
    assert not homes[0].parents[1].exists(), "the end of the simulator waits for them"


def test_a_reclaimed_machine_is_gone(api, ssh, sim):
    sim.scenario("spot-reclaim")
    pod = api.ready("1H100.80S-spot")
    ssh(pod["sshConnection"], "setsid sleep 600 >/dev/null 2>&1 &")
    sim.clock.advance(300)
    assert not processes_of(sim.pods[pod["id"]].token)
    assert api.get(f"/pods/{pod['id']}")["status"] == "TERMINATED"
    row = api.get("/pods/history")["data"][0]
    assert row["terminatedAt"] == "2026-11-20T21:05:00.000000Z" and row[
        "totalBilledPrice"
    ] == pytest.approx(1.05 * 280 / 3600, abs=1e-5)


def test_a_late_key(api, ssh, sim):
    sim.scenario("key-late")
    pod = api.ready()
    assert pod["installationStatus"] == "FINISHED"
    assert ssh(pod["sshConnection"], "true").returncode == 255
    sim.clock.advance(90)
    assert ssh(pod["sshConnection"], "true").returncode == 0


def test_ubuntu_and_not_root(api, ssh, sim):
    sim.scenario("ubuntu-user")
    pod = api.ready()
    assert pod["sshConnection"].startswith("ubuntu@")
    assert ssh(pod["sshConnection"], "echo $USER").stdout == "ubuntu\n"
    assert ssh(pod["sshConnection"].replace("ubuntu", "root"), "true").returncode == 255


def test_only_the_installed_key_opens(api, ssh, sim):
    sim.account.ssh_keys[0]["isPrimary"] = False
    assert ssh(api.ready()["sshConnection"], "true").returncode == 255
    pinned = api.ready("2H100.80S", sshKeyId=sim.account.ssh_keys[0]["id"])
    assert ssh(pinned["sshConnection"], "true").returncode == 0


def test_a_recycled_address_has_another_host_key(api, ssh, sim, tmp_path):
    first = api.ready()
    assert ssh(first["sshConnection"], "true").returncode == 0
    api.http.delete(f"/pods/{first['id']}")
    sim.scenario("recycled-address")
    second = api.ready()
    assert second["sshConnection"] == first["sshConnection"]
    assert ssh(second["sshConnection"], "true").returncode == 255, "the known host has changed"
    tmp_path.joinpath("known_hosts").unlink()
    assert ssh(second["sshConnection"], "true").returncode == 0


def test_a_host_key_that_changes_under_a_living_pod(api, ssh, sim, tmp_path):
    sim.scenario("host-key-changes")
    pod = api.ready()
    assert ssh(pod["sshConnection"], "true").returncode == 0
    sim.clock.advance(60)
    assert ssh(pod["sshConnection"], "true").returncode == 255
    assert api.get(f"/pods/{pod['id']}")["sshConnection"] == pod["sshConnection"]


def test_several_nodes(api, ssh):
    pod = api.ready("h100-cluster-2")
    assert len(pod["sshConnection"]) == 2 == len(pod["ip"])
    for way in pod["sshConnection"]:
        assert ssh(way, "nvidia-smi -L | wc -l").stdout == "8\n"


@contextlib.contextmanager
def started(
    *argv: str, program: tuple[str, ...] = ("-m", "hudtui.sim")
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    with subprocess.Popen(
        [sys.executable, *program, *argv], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            yield process, json.loads(process.stdout.readline())
        finally:  # also when the test fails: nothing is left, and nobody waits for ever
            process.kill()


def header(told: dict[str, str]) -> dict[str, str]:
    return {"Authorization": f"Bearer {told['key']}"}


def ordered(http: httpx2.Client, cloud_id: str = "1H100.80S", **more: Any) -> dict[str, Any]:
    """The answer to the order of a pod."""
    offers = http.get("/api/v1/availability/gpus", params={"cloud_id": cloud_id}).json()["items"]
    order = {name: offers[0][name] for name in ("cloudId", "gpuType", "socket", "gpuCount")}
    order |= {"dataCenterId": offers[0]["dataCenter"], **more}
    body = {"pod": order, "provider": {"type": offers[0]["provider"]}}
    made: dict[str, Any] = http.post("/api/v1/pods/", json=body).json()
    return made


def test_signals_in_a_burst_end_it():
    with started("--idle", "900") as (process, _):
        with contextlib.suppress(ProcessLookupError):
            for _ in range(2_000):
                os.kill(process.pid, signal.SIGTERM)
                os.kill(process.pid, signal.SIGINT)
        process.wait(60)


def test_pods_survive_the_sudden_death_of_the_simulator(ssh, key_pair, tmp_path):
    state = tmp_path / "state"
    with (
        started("--state", str(state), "--rate", "0") as (process, told),
        httpx2.Client(base_url=told["url"], headers=header(told)) as http,
    ):
        http.post(
            "/api/v1/ssh_keys/",
            json={"name": "test", "publicKey": key_pair.with_suffix(".pub").read_text()},
        )
        pod = ordered(http)
        seen = http.post("/sim/advance", json={"seconds": 60}).json()
        way = seen["pods"][0]["sshConnection"]
        assert ssh(way, "tmux new -d -s run 'sleep 600'").returncode == 0
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    token = json.loads((state / "state.json").read_text())["world"]["pods"][0]["token"]
    assert processes_of(token), "what runs on a machine does not care for the API"

    with (
        started("--state", str(state), "--rate", "0") as (process, told),
        httpx2.Client(base_url=told["url"], headers=header(told)) as http,
    ):
        again = http.get(f"/api/v1/pods/{pod['id']}").json()
        assert again["sshConnection"] == way, "the same port"
        assert "run" in ssh(way, "tmux ls").stdout, "the same host key, home and sessions"
        assert http.get("/sim/state").json()["now"] == pytest.approx(seen["now"])
        assert http.delete(f"/api/v1/pods/{pod['id']}").json() == {"status": "TERMINATED"}
        assert not processes_of(token)
        process.terminate()
        assert process.wait() == 0


_NEVER_REMOVES = (
    "-c",
    "import shutil, sys, threading; shutil.rmtree = lambda *_, **__: threading.Event().wait(); "
    "from hudtui.sim.__main__ import main; sys.exit(main())",
)


def test_files_that_a_killed_simulator_was_removing_go_at_the_next_start(tmp_path):
    state = tmp_path / "state"
    with (
        started("--state", str(state), "--rate", "0", program=_NEVER_REMOVES) as (process, told),
        httpx2.Client(base_url=told["url"], headers=header(told)) as http,
    ):
        pod = ordered(http)
        http.post("/sim/advance", json={"seconds": 60})
        machines = Path(json.loads((state / "state.json").read_text())["machines"])
        assert list(machines.rglob("home"))
        http.delete(f"/api/v1/pods/{pod['id']}")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert list(machines.rglob("home"))
    with PrimeSimulator(state=state):
        wait_for(lambda: not list(machines.iterdir()))
    assert not machines.exists()


def test_a_pod_that_ended_while_no_simulator_lived_is_cleared_up(ssh, key_pair, tmp_path):
    state = tmp_path / "state"
    argv = ("--state", str(state), "--rate", "0", "--scenario", "spot-reclaim")
    with (
        started(*argv) as (process, told),
        httpx2.Client(base_url=told["url"], headers=header(told)) as http,
    ):
        http.post(
            "/api/v1/ssh_keys/",
            json={"name": "test", "publicKey": key_pair.with_suffix(".pub").read_text()},
        )
        ordered(http, "1H100.80S-spot")
        seen = http.post("/sim/advance", json={"seconds": 60}).json()["pods"][0]
        told_there = ssh(
            seen["sshConnection"], "tmux new -d -s run 'sleep 600'; echo $HUDTUI_SIM_POD $HOME"
        )
        token, home = told_there.stdout.split()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert processes_of(token) and Path(home).exists()
    with PrimeSimulator(state=state, rate=1e6) as sim:
        assert not sim.alive
        assert not processes_of(token) and not Path(home).exists()


def test_the_next_simulator_clears_up_after_one_that_was_killed(ssh, key_pair):
    with (
        started("--rate", "0") as (process, told),
        httpx2.Client(base_url=told["url"], headers=header(told)) as http,
    ):
        http.post(
            "/api/v1/ssh_keys/",
            json={"name": "test", "publicKey": key_pair.with_suffix(".pub").read_text()},
        )
        ordered(http, "cpu-8", envVars=[{"key": "WANDB_MODE", "value": "offline"}])
        way = http.post("/sim/advance", json={"seconds": 60}).json()["pods"][0]["sshConnection"]
        told_there = ssh(
            way, "tmux new -d -s run 'sleep 600'; echo $HUDTUI_SIM_POD $WANDB_MODE $HOME"
        ).stdout.split()
        token, mode, home = told_there
        assert mode == "offline" and processes_of(token) and Path(home).exists()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    with PrimeSimulator():
        assert not processes_of(token) and not Path(home).exists()


def test_a_state_folder_has_one_simulator(tmp_path):
    with started("--state", str(tmp_path)) as (process, _):
        other = subprocess.run(
            [sys.executable, "-m", "hudtui.sim", "--state", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert other.returncode == 1 and "another simulator" in other.stderr
        process.terminate()
        assert process.wait() == 0


def test_real_time_moves_by_itself(connect, key_pair, ssh):
    with PrimeSimulator(rate=200) as sim:
        sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
        api = connect(sim)
        made = api.create()
        wait_for(lambda: api.get(f"/pods/{made['id']}")["sshConnection"])
        assert ssh(api.get(f"/pods/{made['id']}")["sshConnection"], "echo here").stdout == "here\n"
        assert Path(sim.home(made["id"])).exists()


def test_simulators_of_one_seed_do_not_end_each_others_processes(ssh, key_pair):
    with PrimeSimulator(seed=1) as one, PrimeSimulator(seed=1) as other:
        tokens = []
        for sim in (one, other):
            sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
            with httpx2.Client(
                base_url=sim.url, headers={"Authorization": f"Bearer {sim.api_key}"}
            ) as http:
                ordered(http, "cpu-8")
                sim.clock.advance(60)
                (pod,) = http.get("/api/v1/pods/").json()["data"]
            tokens.append(
                ssh(
                    pod["sshConnection"], "tmux new -d -s run 'sleep 600'; echo $HUDTUI_SIM_POD"
                ).stdout.strip()
            )
        assert processes_of(tokens[0]) and processes_of(tokens[1])
        one.stop()
        assert not processes_of(tokens[0]) and processes_of(tokens[1])
