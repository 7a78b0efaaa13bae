"""`hudtui rl` as a user types it, against the simulated Prime: exit codes, streams, machines that
are gone after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import tmux_world
from support.command import hudtui
from support.compute_world import own_key, simulated_prime

from hudtui.core.text import money
from hudtui.sim import PrimeSimulator

own_tmux = tmux_world.own_tmux

MOVE = "  {0}: {{_parser: {{positional: []}}, _tool: move, direction: {{static: {0}}}}}\n"
CONFIG = "parser: {use_thinking: false}\naction_mappings:\n" + "".join(
    map(MOVE.format, ("left", "right", "up", "down"))
)
SECRET = "hud-secret-0123456789"


@pytest.fixture
def workspace(own_world: Path) -> Path:
    server = {
        "command": "python",
        "args": ["-m", "hudtui.envs.text_2048"],
        "env": {"KEY": "$HUD_API_KEY"},
    }
    tasks = [
        {
            "id": f"seed-{seed}",
            "prompt": "Reach 64.",
            "mcp_config": {"text-2048": server},
            "setup_tool": {
                "name": "setup",
                "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": seed}},
            },
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"name": "max_number", "arguments": {"target": 64}},
            },
        }
        for seed in (1, 2)
    ]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    (own_world / "play.yaml").write_text(CONFIG)
    (own_world / ".env").write_text(f"HUD_API_KEY={SECRET}\n")
    return own_world


@pytest.fixture
def sim(
    own_world: Path, key_pair: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PrimeSimulator]:
    key = own_key(key_pair)
    with simulated_prime(monkeypatch) as running:
        running.behave(boot=0, install=0)
        running.add_ssh_key(key.with_suffix(".pub").read_text())
        yield running


RENT = (
    "rl",
    "--engine",
    "rollouts",
    "--provider",
    "prime",
    "--gpus",
    "H100",
    "--max-turns",
    "5",
    "--python",
    sys.executable,
)


def ordered(sim: PrimeSimulator) -> int:
    return len(
        [
            one
            for one in sim.requests
            if one.method == "POST" and one.path.rstrip("/").endswith("/pods")
        ]
    )


def test_from_nothing_to_results_at_home_and_no_machine(
    workspace: Path, sim: PrimeSimulator
) -> None:
    done = hudtui(*RENT, "--yes", "--json", "--output-dir", "results")
    view = json.loads(done.stdout)
    assert (view["state"], view["machine"], view["result"]["episodes"]) == (
        "finished",
        "released",
        2,
    )
    assert view["billed"] is not None and view["results"] == str(workspace / "results" / view["id"])
    assert not sim.alive and ordered(sim) == 1
    said = done.stderr
    for word in (
        "rented from prime (simulated",
        "2.10",
        "limits",
        "RUN/files/tasks/tasks.json",
        "the secrets HUD_API_KEY",
        "guard ",
    ):
        assert word in said, word
    steps = (
        "the machine is ready",
        "the guard is started on the machine",
        "the run's folder is created",
        "the run's files are written",
        "the plan is written",
        "the supervisor is started",
        "the results are fetched",
        "the machine is ended",
    )
    found = [
        next((step for step in steps if line.startswith(f"  {step}")), None)
        for line in said.splitlines()
    ]
    assert [step for step in found if step is not None] == list(steps)
    assert "task=seed-1" in said and "and that was verified" in said
    assert (workspace / "results" / view["id"] / "out" / "traces.jsonl").read_text().count(
        "\n"
    ) == 2
    (listed,) = json.loads(hudtui("runs", "--json").stdout)
    assert (listed["cost"], listed["step"], listed["simulated"]) == (view["billed"], 2.0, True)
    cost = money(view["billed"], "USD")
    assert (
        f"{cost} (simulated)" in hudtui("runs").stdout
        and f"cost       {cost} billed (simulated)" in hudtui("runs", "show").stdout
    )
    assert (
        "✓ finished" in hudtui("runs", "show").stdout
        and "task=seed-2" in hudtui("runs", "logs", "--all").stdout
    )
    kept = [
        path
        for place in (workspace, Path.home())
        for path in place.rglob("*")
        if path.is_file() and path.name != ".env"
    ]
    assert kept and not [path for path in kept if SECRET.encode() in path.read_bytes()]
    assert SECRET not in said + done.stdout
    (removed,) = json.loads(hudtui("runs", "rm", view["id"], "--yes", "--json").stdout)
    assert removed["run"] == view["id"] and removed["removed"]
    assert json.loads(hudtui("runs", "--json").stdout) == []


def test_a_rented_machine_is_not_left_alone_from_the_beginning(
    workspace: Path, sim: PrimeSimulator
) -> None:
    said = hudtui(*RENT, "--yes", "--detach", code=2).stderr
    assert (
        "managed from this computer" in said and "Leave --detach out" in said and ordered(sim) == 0
    )


def test_a_dry_run_is_the_plan_as_json_and_buys_nothing(
    workspace: Path, sim: PrimeSimulator
) -> None:
    found = json.loads(
        hudtui(*RENT, "--dry-run", "--json", "--budget", "9", "--max-hours", "2").stdout
    )
    assert found["ready"] and {check["state"] for check in found["checks"]} == {"fine"}
    machine = found["machine"]
    assert (machine["provider"], machine["simulated"], machine["hourly"]) == ("prime", True, 2.1)
    assert machine["limits"]["run_budget"] == 9.0 and machine["estimate"]["likely"] > 4
    assert "lowest price" in " ".join(machine["choice"]["reasons"])
    assert [stage["name"] for stage in found["plan"]["stages"]] == ["play"] and found[
        "secrets"
    ] == ["HUD_API_KEY"]
    assert SECRET not in json.dumps(found)
    assert ordered(sim) == 0 and not (workspace / ".hudtui").exists()


def test_a_dry_run_is_readable_unless_json_is_asked_for(
    workspace: Path, sim: PrimeSimulator
) -> None:
    words = [word for word in RENT if word != "--json"]
    told = hudtui(*words, "--dry-run").stdout
    for part in (
        "✓ tasks: ",
        "machine ",
        "lowest price",
        "files/tasks/tasks.json",
        "\nplay ",
        "\nresult ",
        "\nlimits ",
        "\nReady",
    ):
        assert part in told, told
    assert not told.startswith("{") and SECRET not in told and ordered(sim) == 0
    missing = hudtui("rl", "--dry-run", code=2).stdout
    assert "✗ " in missing and "\n    " in missing and "Not ready: " in missing, (
        "each remedy stands below what is missing"
    )


def test_a_dry_run_of_a_training_says_what_is_known_of_its_cost(
    workspace: Path, sim: PrimeSimulator
) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    (workspace / "tasks.json").write_text(
        json.dumps([{**tasks[0], "id": f"t{number}"} for number in range(4)])
    )
    words = ("rl", "--provider", "prime", "--steps", "40", "--dry-run", "--json")
    found = json.loads(hudtui(*words, code=0).stdout)
    assert found["machine"]["choice"]["offer"]["gpu_count"] == 2
    known = found["forecast"]
    assert (known["steps"], known["step"], known["expected"], known["highest"]) == (
        40,
        None,
        None,
        None,
    )
    assert (
        "The time of a step is not known yet" in known["text"]
        and "limits stop the work at about $25.00" in known["text"]
    )


def test_what_was_evaluated_stands_in_the_plan_of_a_training(workspace: Path) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    tasks[0]["mcp_config"]["text-2048"]["command"] = "${HUDTUI_PYTHON:-python3}"
    many = [{**tasks[0], "id": f"t{number}"} for number in range(6)]
    for task, target in zip(many, (4, 4, 64, 64, 64, 64), strict=True):
        judge = {"name": "max_number", "arguments": {"target": target}}
        task["evaluate_tool"] = {"name": "evaluate", "arguments": judge}
    (workspace / "tasks.json").write_text(json.dumps(many))
    training = ("rl", "tasks.json", "-e", "trl", "--host", "local", "-m", "org/model", "--dry-run")
    unknown = json.loads(hudtui(*training, "--json", code=None).stdout)["baseline"]
    assert unknown["players"] == [] and "no evaluation of these tasks" in unknown["line"]
    assert unknown["command"] == "hudtui eval tasks.json -c play.yaml -p openai:org/model -r 16"
    play = ("eval", "tasks.json", "-c", "play.yaml")
    ended = hudtui(*play, "-p", "random", "-r", "4", code=0)
    assert "baseline: mean reward: random 0." in ended.stderr
    told = json.loads(hudtui(*play, "-p", "greedy", "--json", code=0).stdout)
    assert {one["player"] for one in told["known"]["players"]} == {"random", "greedy"}
    found = json.loads(
        hudtui(*training, "--select", "difficulty:0.01-0.99", "--json", code=None).stdout
    )
    assert found["selected"]["kept"] == 4 and found["selected"]["too_easy"] == 2
    assert {one["player"]: one["tasks"] for one in found["baseline"]["players"]} == {
        "random": 4,
        "greedy": 4,
    }
    (check,) = [one for one in found["checks"] if one["name"] == "baseline"]
    assert check["text"] == found["baseline"]["line"] and "just now" in check["text"]
    assert "org/model was not evaluated" in check["text"] and check["fix"]
    many[0]["prompt"] = "Reach 4."
    (workspace / "tasks.json").write_text(json.dumps(many))
    (workspace / "play.yaml").write_text(CONFIG + "defaults: {max_turns: 7}\n")
    changed = json.loads(hudtui(*training, "--json", code=None).stdout)["baseline"]
    assert changed["players"] == [] and changed["stale"] == 5, "the changed task is another one"
    (workspace / "play.yaml").write_text(CONFIG)
    changed = json.loads(hudtui(*training, "--json", code=None).stdout)["baseline"]
    assert [one["tasks"] for one in changed["players"]] == [5, 5] and changed["stale"] == 1


def test_a_key_for_the_guard_is_told_of_and_may_not_be_the_user_s_own(
    workspace: Path, sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*RENT, "--dry-run", "--json")
    assert "may still be charged for" in " ".join(
        json.loads(hudtui(*words).stdout)["plan"]["notes"]
    )
    monkeypatch.setenv("HUDTUI_GUARD_KEY", "key-that-ends-machines")
    found = json.loads(hudtui(*words).stdout)
    assert "with the key that you gave for that" in " ".join(found["plan"]["notes"])
    assert "key-that-ends-machines" not in json.dumps(found)
    monkeypatch.setenv("PRIME_API_KEY", "key-that-ends-machines")
    assert "is your own key" in hudtui(*RENT, "--yes", code=2).stderr and ordered(sim) == 0


def test_nothing_is_bought_without_a_yes(workspace: Path, sim: PrimeSimulator) -> None:
    assert "--yes" in hudtui(*RENT, code=2).stderr
    assert ordered(sim) == 0 and not (workspace / ".hudtui" / "runs.db").exists()


def test_all_that_is_missing_is_told_at_once(own_world: Path) -> None:
    said = hudtui("rl", "--yes", code=2).stderr
    for word in (
        "tasks: there is no task file",
        "hudtui hf",
        "config: there is no config",
        "hudtui rl init",
        "machine: ",
        "PRIME_API_KEY",
    ):
        assert word in said, said
    found = json.loads(hudtui("rl", "--dry-run", "--json", code=2).stdout)
    assert not found["ready"] and {check["name"] for check in found["checks"]} >= {
        "tasks",
        "config",
        "machine",
    }


def test_a_training_needs_four_tasks_and_a_machine_that_knows_the_key(
    workspace: Path, sim: PrimeSimulator
) -> None:
    sim.scenario("key-late")
    said = hudtui("rl", "--provider", "prime", "--yes", code=2).stderr
    assert "2 of 2 tasks of tasks.json can be used; this run needs at least 4" in said
    (Path.home() / ".ssh" / "id_ed25519").unlink()
    assert (
        "there is no SSH key to log in with"
        in hudtui("rl", "--provider", "prime", "--yes", code=2).stderr
    )
    assert ordered(sim) == 0


def test_no_variable_that_may_hold_a_secret_is_printed(
    workspace: Path, sim: PrimeSimulator
) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    for task in tasks:
        for server in task["mcp_config"].values():
            server.setdefault("env", {})["DSN"] = "$MY_DSN"
    (workspace / "tasks.json").write_text(json.dumps(tasks))
    with (workspace / ".env").open("a") as file:
        file.write("\nMY_DSN=postgres://me:hunter2@db/games\n")
    found = hudtui(*RENT, "--dry-run", "--json").stdout
    (stage,) = json.loads(found)["plan"]["stages"]
    assert stage["env"]["MY_DSN"] == "••••" and "hunter2" not in found
    told = hudtui(*RENT, code=2).stderr  # the plan, and a question that nobody answers
    assert "MY_DSN=••••" in told and "hunter2" not in told
    script = hudtui(*RENT[:-2], "--emit-script").stdout
    (needed,) = [
        line for line in script.splitlines() if line.startswith("# Set in the environment: ")
    ]
    assert "MY_DSN" in needed and "hunter2" not in script
    assert ordered(sim) == 0


def test_the_plan_as_a_script(workspace: Path, sim: PrimeSimulator) -> None:
    (Path.home() / ".ssh" / "id_ed25519").unlink()  # nothing is started: nobody has to log in
    script = hudtui(*RENT[:-2], "--emit-script").stdout
    assert (
        script.startswith("#!/usr/bin/env bash")
        and "# --- bootstrap" in script
        and "# --- play" in script
    )
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert ordered(sim) == 0


def test_on_this_machine(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    done = hudtui(
        "rl",
        "tasks.json",
        "--engine",
        "rollouts",
        "--host",
        "local",
        "--max-turns",
        "3",
        "--yes",
        "--no-tmux",
        "-o",
        "home",
    )
    assert "✓ finished" in done.stdout and "this machine, free" in done.stderr
    (run,) = json.loads(hudtui("runs", "--json").stdout)
    assert (workspace / "home" / run["id"] / "out" / "metrics.jsonl").exists()
    assert "on a machine of your own" in hudtui("runs", "limits", "--budget", "3", code=2).stderr


def test_ctrl_c_while_the_machine_is_got_gives_it_up(workspace: Path, sim: PrimeSimulator) -> None:
    sim.behave(boot=3600)
    argv = [sys.executable, "-m", "hudtui", *RENT, "--yes"]
    command = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    for line in command.stderr:
        if "is created as" in line:
            break
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=90)
    assert command.returncode == 130 and "was ended, and that was verified" in said
    assert not sim.alive
    (run,) = json.loads(hudtui("runs", "--json").stdout)
    assert (run["state"], run["machine"]) == ("stopped", "released")


def test_killed_while_it_runs_and_taken_up_again(workspace: Path, sim: PrimeSimulator) -> None:
    argv = [sys.executable, "-m", "hudtui", *RENT, "--yes"]
    command = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert command.stderr is not None
    for line in command.stderr:
        if line.startswith("  the supervisor is started"):
            break
    os.kill(command.pid, signal.SIGKILL)
    command.communicate()
    listed = hudtui("runs")
    assert "hudtui runs resume" in listed.stderr and len(sim.alive) == 1
    done = hudtui("runs", "resume", "--json")
    found = json.loads(done.stdout)
    assert (found["state"], found["machine"]) == ("finished", "released")
    assert not sim.alive and ordered(sim) == 1
    assert (Path(found["results"]) / "out" / "metrics.jsonl").exists()


DIGEST = "sha256:" + "ab" * 32
DOCKER = f"""#!/bin/sh
case "$1" in push) echo "dev: digest: {DIGEST} size: 528";; image) exit 1;; esac
"""


def test_an_image_of_this_computer_alone_is_pushed_first(
    workspace: Path, sim: PrimeSimulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    for task in tasks:
        del task["mcp_config"]
    (workspace / "tasks.json").write_text(json.dumps(tasks))
    lock = workspace / "hud.lock.yaml"
    lock.write_text(
        "version: '1.3'\nimages:\n  local: my-env:dev  # built here\n  full: null\n  pushed: null\n"
    )
    (tmp_path / "bin").mkdir()
    docker = tmp_path / "bin" / "docker"
    docker.write_text(DOCKER)
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    said = json.loads(hudtui(*RENT, "--dry-run", "--json", code=2).stdout)
    (missing,) = [check for check in said["checks"] if check["state"] == "missing"]
    assert (
        "my-env:dev exists only on this computer" in missing["text"]
        and "--push-image" in missing["fix"]
    )
    docker.write_text(
        DOCKER.replace("image) exit 1", "image) echo 'No such image: my-env:dev' >&2; exit 1")
    )
    said = json.loads(hudtui(*RENT, "--dry-run", "--json", code=2).stdout)
    (missing,) = [check for check in said["checks"] if check["state"] == "missing"]
    assert (
        "the container engine here does not have it either" in missing["text"]
        and "push" not in missing["fix"]
    )
    docker.write_text(DOCKER)
    assert (
        "an image is pushed for a run"
        in hudtui(*RENT, "--push-image", "ghcr.io/me/", "--dry-run", "--json", code=2).stderr
    )
    done = hudtui(
        *RENT, "--push-image", "ghcr.io/me/", code=2
    )  # there is no terminal to ask for the rest
    assert f"pushed ghcr.io/me/my-env:dev as {DIGEST}" in done.stderr and "--yes" in done.stderr
    assert f"ghcr.io/me/my-env@{DIGEST}" in lock.read_text() and "# built here" in lock.read_text()
    assert json.loads(hudtui(*RENT, "--dry-run", "--json").stdout)["ready"] and ordered(sim) == 0
    assert (
        "this project has no image" in hudtui(*RENT, "--push-image", "ghcr.io/me/", code=2).stderr
    )


def test_a_rehearsal_on_a_machine_that_is_named(workspace: Path, sim: PrimeSimulator) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    (workspace / "tasks.json").write_text(
        json.dumps([{**task, "id": f"{task['id']}-{n}"} for task in tasks for n in (1, 2)])
    )
    words = (
        "rl",
        "--rehearse",
        "--provider",
        "prime",
        "--python",
        "/opt/train/bin/python",
        "--steps",
        "2",
        "--dry-run",
        "--json",
    )
    found = json.loads(hudtui(*words).stdout)
    (stage,) = found["plan"]["stages"]
    assert (found["engine"], stage["argv"][0], stage["env"]["CUDA_VISIBLE_DEVICES"]) == (
        "trl",
        "/opt/train/bin/python",
        "",
    )
    assert (
        found["machine"]["rented"]
        and "rehearsal" in " ".join(found["plan"]["notes"])
        and ordered(sim) == 0
    )
    assert "only a training" in hudtui("rl", "--rehearse", "--engine", "rollouts", code=2).stderr


def test_environments_of_this_computer_can_run_on_the_platform(
    workspace: Path, sim: PrimeSimulator
) -> None:
    words = (*RENT, "--environments", "remote", "--dry-run", "--json")
    said = json.loads(hudtui(*words, code=2).stdout)
    assert "no lock file contains an image" in " ".join(check["text"] for check in said["checks"])
    (workspace / "hud.lock.yaml").write_text(
        f"version: '1.3'\nimages:\n  local: my-env:dev\n  pushed: me/my-env@{DIGEST}\n"
    )
    found = json.loads(hudtui(*words).stdout)
    assert any(
        check["name"] == "environment" and check["text"].startswith("hud: at ")
        for check in found["checks"]
    ), found["checks"]
    (tasks,) = [
        file["source"]["path"]
        for file in found["plan"]["files"]
        if file["path"].startswith("files/tasks/")
    ]
    (server,) = json.loads(Path(tasks).read_text())[0]["mcp_config"].values()
    assert server["headers"] == {
        "Authorization": "Bearer $HUD_API_KEY",
        "Mcp-Image": f"me/my-env@{DIGEST}",
    }
    assert found["secrets"] == ["HUD_API_KEY"] and SECRET not in Path(tasks).read_text()
    (workspace / ".env").unlink()
    said = json.loads(hudtui(*words, code=2).stdout)
    assert "HUD_API_KEY is not set" in " ".join(check["text"] for check in said["checks"])
    assert (
        "is not a place for environments"
        in hudtui(*RENT, "--environments", "moon", "--yes", code=2).stderr
    )


def test_the_very_offer_or_cloud_or_region_can_be_named(
    workspace: Path, sim: PrimeSimulator
) -> None:
    words = (
        "rl",
        "--engine",
        "rollouts",
        "--max-turns",
        "5",
        "--python",
        sys.executable,
        "--dry-run",
        "--json",
    )
    offers = json.loads(hudtui("gpus", "H100", "--json").stdout)["offers"]
    # What is charged at once may be more than the run's budget, and is refused then.
    rented = [
        offer
        for offer in offers
        if offer["provider"] == "prime" and not offer["price"]["prepaid_hours"]
    ]
    cluster = max(rented, key=lambda offer: offer["nodes"])
    refused = json.loads(hudtui(*words, "--offer", cluster["short"], code=2).stdout)["checks"]
    (machine,) = (check for check in refused if check["name"] == "machine")
    assert machine["text"] == f"offer {cluster['short']} has 2 machines, and the run 1"
    assert machine["fix"] == "Take another offer.", "the engine works on one machine"
    single = [offer for offer in rented if offer["nodes"] == 1]
    dear = max(single, key=lambda offer: offer["price"]["hourly"])
    machine = json.loads(hudtui(*words, "--offer", dear["short"]).stdout)["machine"]
    assert machine["hourly"] == dear["price"]["hourly"] and "you have chosen" in " ".join(
        machine["choice"]["reasons"]
    )
    clouds = {offer["cloud"] for offer in offers if offer["gpu_count"] == 1 and not offer["spot"]}
    for cloud in clouds:
        found = json.loads(hudtui(*words, "--gpus", "H100", "--cloud", cloud).stdout)
        assert cloud in json.dumps(found["machine"]["choice"])
    for spot, kind in ((True, "--spot"), (False, "--no-spot")):
        found = json.loads(hudtui(*words, "--gpus", "H100", kind).stdout)
        assert found["machine"]["choice"]["offer"]["spot"] is spot
    assert "has no offer zzzzzz" in json.dumps(
        json.loads(hudtui(*words, "--offer", "zzzzzz", code=2).stdout)["checks"]
    )
    for wrong in (
        ("--offer", "x", "--gpus", "H100"),
        ("--cloud", "x", "--host", "local"),
        ("--region", "eu", "--provider", "local"),
        ("--spot", "--host", "local"),
        ("--offer", "x", "--no-spot"),
    ):
        assert "Invalid value" in hudtui(*words, *wrong, code=2).stderr
    assert ordered(sim) == 0


def test_a_rehearsal_elsewhere_says_that_it_takes_minutes(
    workspace: Path, sim: PrimeSimulator
) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    (workspace / "tasks.json").write_text(
        json.dumps([{**task, "id": f"{task['id']}-{n}"} for task in tasks for n in (1, 2)])
    )
    words = (
        "rl",
        "--rehearse",
        "--provider",
        "prime",
        "--python",
        "/opt/python",
        "--dry-run",
        "--json",
    )
    assert (
        "a rehearsal takes minutes"
        in json.loads(hudtui(*words).stdout)["machine"]["estimate"]["text"]
    )


def test_each_machine_that_is_named_is_a_node(workspace: Path) -> None:
    key = Path.home() / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    words = ["rl", "tasks.json", "-c", "play.yaml", "--model", "m/x-1B", "--dry-run", "--json"]
    words += ["--host", "a@127.0.0.1:1", "--host", "b@127.0.0.1:2"]
    checks = json.loads(hudtui(*words, code=2).stdout)["checks"]
    machines = [check["text"] for check in checks if check["name"] == "machine"]
    assert ["127.0.0.1:1" in machines[0], "127.0.0.1:2" in machines[1]] == [True, True], checks
    found = json.loads(hudtui(*words, "--nodes", "3", code=2).stdout)["checks"]
    texts = [check["text"] for check in found if check["name"] == "nodes"]
    assert texts == ["3 nodes are asked for, and 2 machines are named"]


def test_a_cluster_that_is_not_offered_is_refused_before_anything_is_rented(
    workspace: Path, sim: PrimeSimulator
) -> None:
    words = ["rl", "tasks.json", "-c", "play.yaml", "--rehearse", "--provider", "prime", "--yes"]
    done = hudtui(*words, "--nodes", "3", code=2)
    assert "no offer fits on 3 machines" in done.stderr
    assert "with --nodes 2: 16x H100_80GB on 2 machines" in done.stderr
    assert ordered(sim) == 0
