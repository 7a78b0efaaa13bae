"""`gpus`, `pods`, `keys` and `wallet` against the simulator: what they print, what they ask, and
what they ask for."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from support.compute_world import own_key, simulated_prime
from typer.testing import CliRunner

from hudtui.cli import console
from hudtui.cli.app import build
from hudtui.cli.compute import notes_text
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.values import Offer, Order, Price
from hudtui.core.paths import app_paths
from hudtui.sim import PrimeSimulator

Run = Callable[..., Result]


@pytest.fixture
def key(key_pair: Path) -> Path:
    """The user's key, where it is looked for."""
    return own_key(key_pair)


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch) -> Iterator[PrimeSimulator]:
    with simulated_prime(monkeypatch, step=1) as running:
        running.behave(boot=0, install=0)
        yield running


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between two looks and two attempts are left out: the simulator's clock moves with each
    request."""
    from hudtui.core.compute.lifecycle import acquire, terminate_pod
    from hudtui.core.compute.prime.provider import PrimeProvider
    from hudtui.core.flows.rent import end_pods, rent

    for function in (acquire, terminate_pod, rent, end_pods, PrimeProvider.__init__):
        monkeypatch.setitem(function.__kwdefaults__, "sleep", lambda seconds: asyncio.sleep(0.01))


@pytest.fixture
def known(sim: PrimeSimulator, key: Path) -> PrimeSimulator:
    """A simulator that knows the user's key."""
    sim.add_ssh_key(key.with_name("id_ed25519.pub").read_text())
    return sim


@pytest.fixture
def run() -> Run:
    def run(*words: str, rc: int = 0, answers: str | None = None) -> Result:
        done = CliRunner().invoke(build(), list(words), input=answers)
        assert done.exit_code == rc, f"{done.stdout}\n{done.stderr}\n{done.exception!r}"
        return done

    return run


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "interactive", lambda: True)


def posts(sim: PrimeSimulator, path: str = "/api/v1/pods/") -> list[Any]:
    return [
        request.body
        for request in sim.requests
        if request.method == "POST" and request.path == path
    ]


# --- gpus ---


def test_offers_as_a_table(sim: PrimeSimulator, run: Run) -> None:
    done = run("gpus")
    lines = done.stdout.splitlines()
    assert lines[0].split()[:4] == ["OFFER", "GPUS", "VRAM", "PRICE/H"]
    prices = [line.split("$")[1].split()[0] for line in lines[1:] if "$" in line]
    assert (
        prices == sorted(prices, key=float) and "~$0.44" in lines[1] and "price varies" in lines[1]
    )
    assert all("(simulated)" in line for line in lines[1:])
    assert any("24 h prepaid" in line for line in lines) and any("€2.52" in line for line in lines)
    assert any(
        "$0.87" in line and "incl. $0.008/h disk" in line for line in lines
    )  # 0.86 and its disk
    assert "no real money" in done.stderr and "without a GPU are not shown" in done.stderr


def test_offers_say_whether_a_model_fits_and_choose_by_it(sim: PrimeSimulator, run: Run) -> None:
    done = run(
        "pods", "offers", "--model", "Qwen/Qwen2.5-3B-Instruct", "--no-spot", "--provider", "prime"
    )
    rows = {" ".join(line.split()[1:3]): line for line in done.stdout.splitlines()}
    assert "FITS" in done.stdout.splitlines()[0]
    assert "✓ tight" in rows["1x A6000_48GB"] and "✗ 21 GiB short" in rows["1x RTX4090_24GB"]
    assert "on 2 machines" in rows["16x H100_80GB"] and "✓ " in rows["16x H100_80GB"]
    assert "3 billion parameters by its name" in done.stderr
    found = json.loads(
        run(
            "pods", "offers", "--model", "x/y-3B", "--no-spot", "--provider", "prime", "--json"
        ).stdout
    )
    assert (
        found["choice"]["offer"]["gpu_type"] == "A100_80GB"
        and found["offers"][0]["fit"]["state"] == "fits"
    )
    assert [one["fit"]["state"] for one in found["offers"]][-1] == "short"
    cluster = next(one for one in found["offers"] if one["nodes"] == 2)
    assert (cluster["gpu_count"], cluster["fit"]["state"]) == (16, "fits"), "eight on each machine"
    done = run("pods", "offers", "--model", "x/y-671B", "--provider", "prime")
    assert (
        "comes nearest, and does not fit" in done.stderr and "is the best pick" not in done.stderr
    )


def test_a_training_file_decides_what_fits(sim: PrimeSimulator, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "training.yaml"
    file.write_text("model: x/y-7B\nlora: false\n")
    found = json.loads(
        run(
            "pods", "offers", "1xH100", "--training", str(file), "--provider", "prime", "--json"
        ).stdout
    )
    assert {one["fit"]["state"] for one in found["offers"]} == {"short"}


def test_offers_as_json_and_the_choice_with_its_reasons(sim: PrimeSimulator, run: Run) -> None:
    found = json.loads(run("gpus", "H100", "--no-spot", "--region", "eu", "--json").stdout)
    assert [offer["gpu_count"] for offer in found["offers"]] == [1, 1, 2, 4, 8]
    assert {offer["spot"] for offer in found["offers"]} == {False} and all(
        offer["simulated"] for offer in found["offers"]
    )
    assert (
        found["choice"]["offer"]["price"]["hourly"] == 2.1
        and found["choice"]["offer"]["gpu_count"] == 1
    )
    assert any("left out" in reason and "spot" in reason for reason in found["choice"]["reasons"])
    assert found["warnings"] == [] and "prime" not in found["missing"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["4xH100"], [(4, "H100_80GB")]),
        (["2xA100"], [(2, "A100_80GB")]),
        (["A100_80GB:2"], [(2, "A100_80GB")]),
        (["--min-vram", "141"], [(1, "B200_180GB"), (8, "H200_141GB")]),
        (["--max-price", "0.6"], [(1, "RTX4090_24GB"), (1, "A6000_48GB")]),
        (["--spot"], [(1, "A100_80GB"), (1, "H100_80GB")]),
        (["--cloud", "scaleway"], [(1, "H100_80GB")]),
        (["--count", "8", "--sort", "vram"], [(8, "H200_141GB"), (8, "H100_80GB")]),
        (["H100", "--limit", "1", "--sort", "count"], [(16, "H100_80GB")]),
        (["cpu", "--provider", "prime"], [(0, "CPU_NODE")]),
        (["--filter", "count:=8 price:<20 -spot h100"], [(8, "H100_80GB")]),
        (["H100", "--no-spot", "--filter", "eu price:<2.2"], [(1, "H100_80GB")]),
        (["--filter", "count:=8", "--max-price", "30"], [(8, "H100_80GB"), (8, "H200_141GB")]),
    ],
)
def test_filters(
    sim: PrimeSimulator, run: Run, words: list[str], expected: list[tuple[int, str]]
) -> None:
    found = json.loads(run("gpus", *words, "--json").stdout)
    assert [(offer["gpu_count"], offer["gpu_type"]) for offer in found["offers"]] == expected


def test_nothing_fits(sim: PrimeSimulator, run: Run) -> None:
    assert "Nearest, with 2 GPUs: 2x H100_80GB" in run("gpus", "3xH100", rc=2).stderr
    done = run("gpus", "L40", "--json", rc=2)
    assert json.loads(done.stdout)["error"]["fix"] == "Near it: L40S_48GB."
    assert "sorted by 'luck'" in run("gpus", "--sort", "luck", rc=2).stderr
    assert "no offer matches the filter" in run("gpus", "--filter", "gpuzilla", rc=2).stderr
    assert (
        "price:<5,5 compares with something that is not a number"
        in run("gpus", "--filter", "price:<5,5", rc=2).stderr
    )


def test_a_failing_part_is_named_and_the_rest_is_shown(sim: PrimeSimulator, run: Run) -> None:
    sim.fail_next("GET", "/api/v1/availability/multi-node", kind="status", status=500, times=20)
    done = run("gpus", "H100")
    assert (
        "warning: " in done.stderr
        and "clusters" in done.stderr
        and "16x" not in done.stdout
        and "8x" in done.stdout
    )


def test_prime_is_away(sim: PrimeSimulator, run: Run) -> None:
    sim.stop()
    done = run("gpus", "--json")
    assert (
        json.loads(done.stdout)["offers"] == []
        and "Prime (simulated)" in json.loads(done.stdout)["warnings"][0]
    )
    assert "error" in json.loads(run("gpus", "--provider", "prime", "--json", rc=5).stdout)


def test_without_a_key_it_says_what_to_do(run: Run) -> None:
    for words in (["pods"], ["pods", "create", "H100", "--yes"], ["wallet"], ["keys"]):
        if words[0] == "pods" and len(words) > 1:
            (Path.home() / ".ssh").mkdir()
            subprocess.run(
                [
                    "ssh-keygen",
                    "-q",
                    "-t",
                    "ed25519",
                    "-N",
                    "",
                    "-f",
                    str(Path.home() / ".ssh/id_ed25519"),
                ],
                check=True,
            )
        done = run(*words, rc=5)
        assert (
            "Prime Intellect needs a key" in done.stderr
            and "hudtui settings set PRIME_API_KEY" in done.stderr
        )
    assert "hudtui settings set PRIME_API_KEY" in run("gpus").stderr
    assert "hudtui settings set PRIME_API_KEY" in run("gpus", "H100", rc=2).stderr


# --- pods ---


def test_the_life_of_a_pod(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run("pods", "create", "2xA100", "--name", "demo", "--yes")
    name = done.stdout.strip()
    assert name.startswith("hudtui-demo-")
    for said in (
        "$2.71 an hour (simulated)",
        "disk",
        "Your wallet ($100.00) lasts",
        "is ready: root@127.0.0.1:",
        "Safety stop: a guard on the machine switches it off after 9.21 h",
        "That may not stop the billing",
        f"hudtui pods terminate {name}",
    ):
        assert said in done.stderr
    assert [body["pod"]["name"] for body in posts(known)] == [name]
    assert posts(known)[0]["pod"]["sshKeyId"]

    (pod,) = json.loads(run("pods", "--json").stdout)["pods"]
    assert (pod["name"], pod["stage"], pod["simulated"], pod["ours"], pod["hourly"]) == (
        name,
        "ready",
        True,
        True,
        2.714,
    )
    assert name in (table := run("pods", "list").stdout) and "(simulated)" in table
    (shown,) = json.loads(
        run("pods", "status", "hudtui-demo", "--json").stdout
    )  # the beginning will do
    assert shown["id"] == pod["id"] and "2x A100_80GB" in run("pods", "status", pod["id"]).stdout

    argv: list[str] = []
    monkeypatch.setattr(os, "execvp", lambda program, words: argv.extend(words))
    run("pods", "ssh", name, "--", "sh", "-c", "echo $((6 * 7))")
    assert "StrictHostKeyChecking=yes" in argv
    said = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert said.stdout.strip() == "42", said.stderr
    assert run("pods", "ssh", name).stdout.startswith("ssh -t ")  # nobody is there for a shell

    found = json.loads(run("pods", "reconcile", "--json").stdout)
    assert found["orphans"] == [] and found["by_hand"] == [name], "it was rented on purpose"
    assert f"{name} was rented by hand" in run("pods", "reconcile").stderr and "by hand" in table

    assert "add --yes" in run("pods", "terminate", name, rc=2).stderr and len(known.alive) == 1
    (gone,) = json.loads(run("pods", "terminate", name, "--yes", "--json").stdout)
    assert gone["stage"] == "gone" and gone["billed"] > 0 and not known.alive
    assert "has ended already" in run("pods", "terminate", name, "--yes").stderr
    assert name in run("pods", "history").stdout
    assert json.loads(run("pods", "history", "--json").stdout)[0]["billed"] == gone["billed"]
    assert "accounted for" in run("pods", "reconcile").stderr
    assert "No machine is rented" in run("pods").stderr


def test_nothing_is_rented_without_a_yes(known: PrimeSimulator, run: Run) -> None:
    done = run("pods", "create", "H100", rc=2)
    assert "add --yes" in done.stderr and "$1.05/h" in done.stderr and "spot" in done.stderr
    assert posts(known) == []


def test_a_person_is_asked_with_the_full_price(
    known: PrimeSimulator, run: Run, person: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "less than what is charged at once" in run("pods", "create", "8xH200", rc=5).stderr
    for name in ("HUDTUI_BUDGET_RUN", "HUDTUI_BUDGET_DAY"):
        monkeypatch.setenv(name, "1000")
    done = run("pods", "create", "8xH200", rc=1, answers="n\n")
    assert (
        "Rent 8 × H200_141GB for $22.40/h (simulated)?" in done.stderr
        and "24 hours are charged at once, used or not: $537.60" in done.stderr
    )
    assert posts(known) == []
    done = run("pods", "create", "H100", "--no-spot", "--json", answers="y\n")
    assert (
        json.loads(done.stdout[done.stdout.index("{") :])["stage"] == "ready"
        and len(known.alive) == 1
    )


def test_an_offer_by_its_six_characters(known: PrimeSimulator, run: Run) -> None:
    offers = json.loads(run("gpus", "1xH100", "--no-spot", "--region", "canada", "--json").stdout)[
        "offers"
    ]
    made = json.loads(run("pods", "create", offers[0]["short"], "--yes", "--json").stdout)
    assert made["simulated"] and posts(known)[0]["pod"]["dataCenterId"] == "CANADA-1"


def test_a_machine_is_chosen_for_a_model_and_refused_where_the_model_does_not_fit(
    known: PrimeSimulator, run: Run
) -> None:
    done = run(
        "pods", "create", "RTX4090_24GB", "--model", "Qwen/Qwen2.5-32B-Instruct", "--yes", rc=2
    )
    assert (
        "cannot be trained on" in done.stderr and "GiB short" in done.stderr and posts(known) == []
    )
    done = run(
        "pods", "create", "--model", "Qwen/Qwen2.5-14B-Instruct", "--no-spot", rc=2
    )  # it asks
    assert (
        "Qwen2.5-14B-Instruct, LoRA: " in done.stderr
        and "needs about" in done.stderr
        and posts(known) == []
    )
    done = run("pods", "create", "1xA100_80GB", "--model", "me/mine", "--yes", "--json")
    assert "Warning: mine, LoRA: Whether it fits is not known: the size of the model" in done.stderr
    assert len(known.alive) == 1


def test_what_cannot_be_rented(known: PrimeSimulator, run: Run) -> None:
    assert "say which GPUs" in run("pods", "create", "--yes", rc=2).stderr
    assert "no offer fits" in run("pods", "create", "3xH100", "--yes", rc=2).stderr
    done = run("pods", "create", "4xH100", "--image", "windows", "--yes", "--json", rc=2)
    assert "windows" in json.loads(done.stdout)["error"]["what"]
    assert posts(known) == []


def test_an_empty_wallet_is_told_and_nothing_is_left(known: PrimeSimulator, run: Run) -> None:
    known.fail_next(
        "POST", "/api/v1/pods/", kind="status", status=402, detail="Insufficient balance"
    )
    done = run("pods", "create", "4xH100", "--yes", "--json", rc=5)
    assert json.loads(done.stdout)["error"]["type"] == "InsufficientFunds" and not known.alive
    assert json.loads(run("pods", "--json").stdout)["unseen"] == []


def test_the_days_budget_is_one_for_all_machines(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDTUI_BUDGET_DAY", "3")
    done = run("pods", "create", "1xH100", "--no-spot", "--yes")
    assert "after 1.43 h" in done.stderr  # all of it, at $2.10
    name = done.stdout.strip()
    done = run("pods", "create", "1xH100", "--no-spot", "--yes", rc=5)
    assert (
        "the day's budget of $3.00 has no room" in done.stderr
        and f"{name} may cost $" in done.stderr
    )
    assert len(posts(known)) == 1 and len(known.alive) == 1
    run("pods", "terminate", name, "--yes")
    run("pods", "create", "1xH100", "--no-spot", "--yes")


def test_the_limits_of_a_pod_are_shown_and_changed(known: PrimeSimulator, run: Run) -> None:
    name = run("pods", "create", "H100", "--no-spot", "--yes").stdout.strip()
    assert "at $25.00 or after 24 h" in run("pods", "limits", name).stdout
    done = run(
        "pods", "limits", name, "--max-hours", "2", "--budget", "none", "--day-budget", "none"
    )
    assert (
        done.stdout == "It is ended after 2 h.\n"
        and "a guard on the machine switches it off after " in done.stderr
    )
    assert json.loads(run("pods", "limits", name, "--json").stdout)["max_hours"] == 2
    assert json.loads(run("pods", "list", "--json").stdout)["pods"][0]["left_hours"] <= 2
    assert "is not a limit" in run("pods", "limits", name, "--budget", "much", rc=2).stderr
    run("pods", "terminate", name, "--yes")
    assert f"{name} has ended" in run("pods", "limits", name, "--max-hours", "9", rc=2).stderr


def test_an_unknown_key_is_told_before_money_is_spent(
    sim: PrimeSimulator, key: Path, run: Run
) -> None:
    done = run("pods", "create", "H100", "--yes", rc=2)
    assert (
        "does not know your SSH key" in done.stderr
        and "hudtui pods keys register" in done.stderr
        and posts(sim) == []
    )


def test_a_person_registers_the_key_on_the_way(
    sim: PrimeSimulator, key: Path, run: Run, person: None
) -> None:
    run("pods", "create", "H100", rc=1, answers="n\n")
    assert posts(sim) == [] and posts(sim, "/api/v1/ssh_keys/") == []
    run("pods", "create", "H100", rc=1, answers="y\nn\n")
    assert posts(sim) == [] and len(posts(sim, "/api/v1/ssh_keys/")) == 1, (
        "the key is known, and the machine too dear"
    )
    done = run("pods", "create", "H100", answers="y\n")
    assert "is ready: root@" in done.stderr and len(posts(sim, "/api/v1/ssh_keys/")) == 1
    assert posts(sim, "/api/v1/ssh_keys/")[0]["name"] == "hudtui id_ed25519", (
        "the label that all parts of hudtui give it"
    )


def test_a_key_that_others_may_read_is_repaired_on_the_way(
    known: PrimeSimulator, key: Path, run: Run, person: None
) -> None:
    key.chmod(0o644)
    assert (
        "Others may read your private key"
        in run("pods", "create", "H100", rc=1, answers="n\n").stderr
    )
    assert posts(known) == [] and key.stat().st_mode & 0o777 == 0o644
    run("keys", "register", "--yes")
    assert key.stat().st_mode & 0o777 == 0o400


def test_the_way_in_is_found_also_where_the_provider_names_another_user(
    known: PrimeSimulator, run: Run
) -> None:
    known.behave(user="ubuntu", connection="root@{host} -p {port}")
    name = json.loads(run("pods", "create", "H100", "--yes", "--json").stdout)["name"]
    argv = json.loads(run("pods", "ssh", name, "--json", "--", "whoami").stdout)["argv"]
    assert argv[:2] == ["ssh", "-t"] and argv[argv.index("-l") + 1] == "ubuntu"


def test_pods_that_are_none(known: PrimeSimulator, run: Run) -> None:
    for command in (["status"], ["ssh"], ["terminate", "--yes"]):
        assert "there is no machine 'nix'" in run("pods", *command, "nix", rc=5).stderr


def test_orphans_are_ended_by_one_command(known: PrimeSimulator, run: Run) -> None:
    kept = json.loads(run("pods", "create", "H100", "--yes", "--json").stdout)
    made = json.loads(run("pods", "create", "H100", "--yes", "--json").stdout)
    Ledger().update(
        made["name"], "created"
    )  # as if hudtui had been killed while it was getting ready
    found = json.loads(run("pods", "reconcile", "--json").stdout)["orphans"]
    assert [orphan["pod"]["name"] for orphan in found] == [made["name"]] and found[0][
        "age_seconds"
    ] < 600
    assert "hudtui pods reconcile --end" in run("pods", "reconcile").stderr
    assert "add --yes" in run("pods", "reconcile", "--end", rc=2).stderr
    (ended,) = json.loads(run("pods", "reconcile", "--end", "--yes", "--json").stdout)
    assert ended["name"] == made["name"] and [pod.name for pod in known.alive] == [kept["name"]]
    assert json.loads(run("pods", "reconcile", "--end", "--yes", "--json").stdout) == []


def test_an_api_that_is_down_never_means_that_nothing_is_alive(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(run("pods", "create", "H100", "--yes", "--json").stdout)
    name, address = made["name"], made["addresses"][0]
    known.fail_next("*", "/api/v1/*", kind="html503", times=999)
    told = json.loads(run("pods", "--json").stdout)
    (pod,) = told["pods"]
    assert (pod["name"], pod["addresses"], pod["hourly"]) == (name, [address], made["hourly"])
    assert pod["reachable"] is False and pod["alive"] and 0 <= time.time() - pod["seen"] < 600
    assert told["per_hour"] == made["hourly"] and told["silent"][0]["provider"] == "prime"
    done = run("pods", "list")
    assert name in done.stdout and address in done.stdout and "as of" in done.stdout
    assert (
        "Prime (simulated) unreachable: last known state," in done.stderr
        and "No machine is rented" not in done.stderr
    )
    assert (
        address in run("pods", "status", "hudtui-").stdout and name in run("pods", "status").stdout
    )

    argv: list[str] = []
    monkeypatch.setattr(os, "execvp", lambda program, words: argv.extend(words))
    assert (
        "does not answer: its address is that as of"
        in run("pods", "ssh", name, "--", "echo", "here").stderr
    )
    said = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60
    )
    assert said.stdout.strip() == "here", said.stderr
    done = run("pods", "terminate", name, "--yes", rc=5)
    assert (
        "could not be ended: its end is not verified" in done.stderr
        and "may still cost $" in done.stderr
    )
    known.heal()
    assert json.loads(run("pods", "--json").stdout)["pods"][0]["reachable"]
    run("pods", "terminate", name, "--yes")
    assert not known.alive


def test_an_api_that_is_down_and_nothing_is_known(known: PrimeSimulator, run: Run) -> None:
    known.fail_next("*", "/api/v1/*", kind="html503", times=999)
    done = run("pods", rc=5)
    assert "but there may be one" in done.stderr and "No machine is rented" not in done.stderr


def test_a_machine_that_is_taken_back_is_told_and_stays_in_the_history(
    known: PrimeSimulator, run: Run
) -> None:
    made = json.loads(run("pods", "create", "H100", "--spot", "--yes", "--json").stdout)
    known.reclaim(made["id"])
    done = run("pods")
    assert (
        f"{made['name']} has ended" in done.stderr
        and "spot machine can be taken away" in done.stderr
    )
    (row,) = json.loads(run("pods", "history", "--json").stdout)
    assert (
        row["name"] == made["name"]
        and "spot machine" in row["why"]
        and "spot machine" in run("pods", "history").stdout
    )
    known.fail_next("*", "/api/v1/*", kind="html503", times=999)
    assert made["name"] in run("pods", "history").stdout, "the ledger knows it as well"


def test_one_that_was_asked_for_and_never_came(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order("hudtui-lost", Offer("prime", "o", "H100_80GB", 1, Price(2.0)))
    monkeypatch.setattr(
        "hudtui.core.compute.pods.process_mark", lambda: "1:"
    )  # of a process that is gone
    Ledger().reserve(order, provider="prime", endpoint=known.url)
    assert "a moment ago" in run("pods", "terminate", "hudtui-lost", "--yes", rc=5).stderr
    later = time.time() + 600
    monkeypatch.setattr(time, "time", lambda: later)
    assert (
        "hudtui-lost was never created." in run("pods", "terminate", "hudtui-lost", "--yes").stderr
    )
    assert all(request.method != "DELETE" for request in known.requests)


def start(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hudtui", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(condition: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < limit, process.communicate()
        time.sleep(0.02)


def test_ctrl_c_ends_a_question(sim: PrimeSimulator) -> None:
    sim.fail_next("GET", "/api/v1/availability/*", kind="timeout", seconds=300, times=20)
    process = start("gpus", "H100")
    until(lambda: sim.requests, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.strip().endswith("stopped")


def test_ctrl_c_while_a_machine_boots_ends_the_machine(known: PrimeSimulator) -> None:
    known.behave(boot=1e9)
    process = start("pods", "create", "H100", "--yes")
    until(lambda: known.alive, process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=100)
    assert process.returncode == 130, said
    assert not known.alive and len(posts(known)) == 1


def test_ctrl_c_while_the_guard_is_put_there_leaves_a_machine_that_is_told_of(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)

    monkeypatch.setattr("hudtui.core.compute.watchdog.start_watchdog", interrupted)
    said = run("pods", "create", "H100", "--yes", rc=130).stderr
    (pod,) = known.alive
    assert (
        f"{pod.name} is ready, and stays: it costs money until `hudtui pods terminate {pod.name}`"
        in said
    )


def test_what_the_guard_may_not_have_is_found_before_anything_is_rented(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDTUI_GUARD_KEY", "pit_mine_123")
    monkeypatch.setenv("PRIME_API_KEY", "pit_mine_123")
    assert (
        "is your own key" in run("pods", "create", "H100", "--yes", rc=2).stderr
        and posts(known) == []
    )


def test_without_limits_no_guard_is_promised(
    known: PrimeSimulator, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BUDGET_RUN", "BUDGET_DAY", "MAX_HOURS"):
        monkeypatch.setenv(f"HUDTUI_{name}", "none")
    said = run("pods", "create", "H100", "--yes").stderr
    assert (
        said.count("No limit is set: it costs money until you end it.") == 2
        and "guard on it" not in said
    )


# --- keys and wallet ---


def test_a_key_is_made_once(sim: PrimeSimulator, run: Run) -> None:
    (Path.home() / ".ssh" / "id_ed25519").unlink(missing_ok=True)
    told = json.loads(run("keys", "create", "--json").stdout)
    path = Path(told["path"])
    assert path == Path.home() / ".ssh" / "prime_key.pem" and path.stat().st_mode & 0o777 == 0o400
    assert path.with_name("prime_key.pem.pub").read_text() == told["public"] + "\n"
    before = path.read_bytes()
    assert "cannot be written" in run("keys", "create", rc=2).stderr and path.read_bytes() == before
    other = path.with_name("other")
    assert "makes it known to Prime (simulated)" in run("keys", "create", str(other)).stderr
    assert json.loads(run("keys", "--json").stdout)["path"] == str(other)


def test_keys(sim: PrimeSimulator, key: Path, run: Run) -> None:
    done = run("keys")
    assert (
        str(key) in done.stdout
        and "SHA256:" in done.stdout
        and "does not know your key" in done.stderr
    )
    assert "add --yes" in run("keys", "register", rc=2).stderr
    (entry,) = json.loads(run("keys", "register", "--yes", "--json").stdout)
    assert (
        entry["primary"]
        and entry["public_key"].split()[:2]
        == key.with_name("id_ed25519.pub").read_text().split()[:2]
    )
    run("keys", "register", "--yes")
    assert len(posts(sim, "/api/v1/ssh_keys/")) == 1  # never twice
    told = json.loads(run("keys", "--json").stdout)
    assert (
        told["registered"] == ["Prime (simulated)"]
        and told["path"] == str(key)
        and told["trouble"] is None
    )
    assert "<- yours" in run("keys", "list").stdout
    assert "PRIVATE" not in str([request.body for request in sim.requests])


def test_the_path_of_the_key(sim: PrimeSimulator, key: Path, run: Run, tmp_path: Path) -> None:
    other = tmp_path / "prime_key.pem"
    other.write_bytes(key.read_bytes())
    other.chmod(0o644)
    done = run("keys", "set-path", str(other))
    assert f"chmod 400 {other}" in done.stderr and "SHA256:" in done.stdout
    assert "makes it known to Prime (simulated)" in done.stderr
    assert json.loads(run("keys", "list", "--json").stdout)["path"] == str(other)
    run("keys", "set-path", str(key), "--project")
    assert json.loads(run("keys", "list", "--json").stdout)["path"] == str(key)
    assert "PRIME_SSH_KEY_PATH" in Path(".env").read_text()
    assert "also set in .env" in run("keys", "set-path", str(other)).stderr
    assert "not a private key" in run("keys", "set-path", str(key) + ".pub", rc=2).stderr
    assert "no such key" in run("keys", "set-path", str(tmp_path / "none"), rc=2).stderr


def test_money_is_in_the_currency_of_the_provider(known: PrimeSimulator, run: Run) -> None:
    price = Price(2.52, "EUR", disk=0.5)
    assert notes_text(Offer("prime", "x", "H100_80GB", 1, price)) == "incl. €0.50/h disk"
    made = run("pods", "create", "H100", "--cloud", "scaleway", "--yes")
    name, charged = (
        made.stdout.strip(),
        "$2.77",
    )  # the offer was in EUR, and the provider charges USD
    assert "€2.52" in made.stderr and f"it costs {charged} an hour, not €2.52" in made.stderr
    known.clock.advance(3600)
    listed = run("pods", "list").stdout
    assert charged in listed and "€" not in listed
    assert (
        f"now       {charged} an hour" in run("wallet").stdout and "€" not in run("wallet").stdout
    )
    assert ", simulated" in run("pods", "terminate", name, rc=2).stderr


def test_the_wallet(known: PrimeSimulator, run: Run) -> None:
    assert "$100.00 (simulated)" in run("wallet").stdout
    run("pods", "create", "4xH100", "--yes")
    known.clock.advance(3600)
    (told,) = json.loads(run("wallet", "--json").stdout)
    assert (
        told["simulated"]
        and told["per_hour"] == 8.4
        and told["balance"] < 92
        and sum(told["spent"].values()) > 8
    )
    assert (
        told["per_hour_by_currency"] == {"USD": 8.4}
        and told["today"] == told["today_by_currency"]["USD"]
    )
    assert "$8.40 an hour" in run("wallet").stdout


def test_another_simulators_machines_are_not_this_ones(
    known: PrimeSimulator, run: Run, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("pods", "create", "4xH100", "--yes", "--name", "first")
    with simulated_prime(monkeypatch, step=1) as other:
        other.behave(boot=0, install=0)
        other.add_ssh_key(key.with_name("id_ed25519.pub").read_text())
        assert json.loads(run("wallet", "--json").stdout)[0]["per_hour"] == 0
        assert json.loads(run("pods", "list", "--json").stdout)["unseen"] == []
        shutil.rmtree(app_paths().state / "host-keys")
        made = json.loads(
            run("pods", "create", "H100", "--no-spot", "--yes", "--json", "--name", "second").stdout
        )
        assert made["id"] == known.alive[0].id, "they call their machines alike"
        told = json.loads(run("pods", "list", "--json").stdout)
        assert (
            told["per_hour"] == told["pods"][0]["hourly"] == 2.1
            and "second" in told["pods"][0]["name"]
        )
        run("pods", "terminate", made["name"], "--yes")
    assert known.alive
