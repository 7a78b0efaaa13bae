"""A provider of another package, found by its entry point: what commands, checks, guards and the
fault campaign make of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from faults import compute as faults
from support.command import hudtui

from hudtui.core.compute.registry import (
    find_providers,
    open_provider,
    unavailable_providers,
    usual_rental,
)
from hudtui.core.compute.watchdog import guard_key, terminate_rule, watchdog_promise
from hudtui.core.errors import InputError
from hudtui.core.platform import HUD
from hudtui.core.settings import load_settings, machine_prefixes
from hudtui.sim import PrimeSimulator

RIG = Path(__file__).parents[2] / "support" / "rig"
"""The folder of the package, as `pip install` leaves it."""
TASK = {
    "prompt": "x",
    "mcp_config": {"a": {"command": "python", "args": ["-m", "hudtui.envs.text_2048"]}},
}


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is installed."""
    monkeypatch.syspath_prepend(str(RIG))


@pytest.fixture
def login(sim: PrimeSimulator, monkeypatch: pytest.MonkeyPatch) -> PrimeSimulator:
    """The user has a login of the service."""
    monkeypatch.setenv("RIG_LOGIN", sim.api_key)
    monkeypatch.setenv("RIG_URL", sim.url)
    return sim


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(rig: None, login: PrimeSimulator, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs hudtui in a project, where the package is installed."""
    monkeypatch.setenv("PYTHONPATH", str(RIG))  # for programs that hudtui starts
    return partial(hudtui, code=None)


def test_its_offers_are_among_the_others(run: Run) -> None:
    done = run("pods", "offers", "--provider", "rig", "--json")
    assert done.returncode == 0, done.stderr
    assert {offer["provider"] for offer in json.loads(done.stdout)["offers"]} == {"rig"}
    everywhere = run("pods", "offers")
    assert "A100_80GB" in everywhere.stdout and "PRIME_API_KEY" not in everywhere.stderr, (
        "one that rents is enough"
    )
    assert "Did you mean rig" in run("pods", "offers", "--provider", "rigg").stderr


def test_a_run_is_planned_on_it(run: Run, own_world: Path) -> None:
    (own_world / "tasks.json").write_text(
        json.dumps([{**TASK, "id": str(n), "evaluate_tool": {"name": "e"}} for n in range(4)])
    )
    (own_world / "c.yaml").write_text("allow_unmapped: true\n")
    words = (
        "rl",
        "tasks.json",
        "-c",
        "c.yaml",
        "--provider",
        "rig",
        "--gpus",
        "2xH100",
        "--dry-run",
        "--json",
    )
    planned = json.loads(run(*words).stdout)
    machine = [
        check for check in planned["checks"] if check["name"] in ("machine", "memory", "keys")
    ]
    assert any(check["text"].startswith("Rig: 2 x H100") for check in machine), planned["checks"]
    assert any(
        "Rig does not know the SSH key" in check["text"] or "no SSH key" in check["text"]
        for check in machine
    )


def test_its_settings_are_known_and_its_key_is_masked(rig: None, run: Run, own_world: Path) -> None:
    settings = load_settings(own_world, HUD)
    assert settings.is_secret("RIG_LOGIN") and "RIG_" in machine_prefixes()
    shown = run("settings", "list", "--json")
    assert (
        shown.returncode == 0
        and os.environ["RIG_LOGIN"] not in shown.stdout
        and "RIG_LOGIN" in shown.stdout
    )
    tested = run("settings", "test", "RIG_LOGIN")
    assert "sim@example.invalid" in tested.stdout + tested.stderr


async def test_it_is_what_a_run_without_a_provider_takes(rig: None, login: PrimeSimulator) -> None:
    assert usual_rental(os.environ.get).name == "rig"
    assert (
        usual_rental(
            {
                "RIG_LOGIN": "a",
                "RIG_URL": "http://127.0.0.1:1",
                "PRIME_API_KEY": "pit_1234567890",
            }.get
        ).name
        == "prime"
    )
    demo = {"RIG_LOGIN": "a", "RIG_URL": "http://127.0.0.1:1", "HUDTUI_SIM": "demo"}
    assert usual_rental(demo.get).name == "prime", (
        "real machines are no substitute for simulated ones"
    )
    assert (
        "rig" not in unavailable_providers(os.environ.get)
        and "RIG_LOGIN" in unavailable_providers({}.get)["rig"]
    )
    found = find_providers(os.environ.get)
    assert open_provider("rig", os.environ.get, providers=found) is found["rig"]
    await found["rig"].close()


async def test_no_key_of_the_user_guards_a_machine(
    rig: None, login: PrimeSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = open_provider("rig", os.environ.get)
    monkeypatch.setenv("HUDTUI_GUARD_KEY", "pit_guard_of_prime")
    assert terminate_rule(provider, "p", os.environ.get) is None, (
        "the guard's key of another provider is not sent there"
    )
    monkeypatch.setenv("RIG_GUARD", "guard_of_rig_123")
    rule = terminate_rule(provider, "p", os.environ.get)
    assert rule is not None and rule["url"] == f"{login.url}/api/v1/pods/p"
    assert (
        guard_key("rig", os.environ.get) == "guard_of_rig_123"
        and guard_key("prime", os.environ.get) == "pit_guard_of_prime"
    )
    for name in ("RIG_LOGIN", "PRIME_API_KEY", "HUDTUI_GUARD_KEY"):
        monkeypatch.setenv(name, "guard_of_rig_123")
        with pytest.raises(InputError, match=f"RIG_GUARD is your own key {name}"):
            terminate_rule(provider, "p", os.environ.get)
        monkeypatch.delenv(name)
    monkeypatch.setenv("PRIME_API_KEY", "guard_of_rig_123")
    monkeypatch.setenv("HUDTUI_GUARD_KEY", "guard_of_rig_123")
    with pytest.raises(InputError, match="HUDTUI_GUARD_KEY is your own key"):
        guard_key("prime", os.environ.get)
    assert "RIG_GUARD" in watchdog_promise(1.0, ends=False, setting="RIG_GUARD").caveat
    assert "With" not in watchdog_promise(1.0, ends=False).caveat, "it has no such keys"
    await provider.close()


def test_one_that_cannot_be_loaded_stops_nothing(run: Run, own_world: Path) -> None:
    about = own_world / "bad" / "bad-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[hudtui.providers]\nbad = bad:X\nodd = bad:ODD\nprime = bad:ODD\n"
    )
    (own_world / "bad" / "bad.py").write_text("ODD = 3\n")
    env = {**os.environ, "PYTHONPATH": str(own_world / "bad")}
    command = [sys.executable, "-m", "hudtui", "pods", "offers", "--json"]
    done = subprocess.run(
        command, cwd=own_world, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr
    words = subprocess.run(
        [*command[:-1], "--provider", "bad"],
        cwd=own_world,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert words.returncode != 0 and "The provider bad cannot be loaded" in words.stderr
    assert "Traceback" not in words.stderr


@pytest.mark.parametrize(
    "injection",
    [
        faults.Injection(
            "lost", "POST", ({"method": "POST", "path": "/api/v1/pods/", "kind": "reset_after"},)
        ),
        faults.Injection("slow", "DELETE", behave={"delete": 60.0}),
        faults.Injection("broken", "installation", behave={"ends": "install_error"}),
        faults.Injection("cancel", "waiting", stop="cancel", label="after provider.get, waiting"),
        faults.Injection("kill", "create", stop="kill", label="provider.create, waiting"),
    ],
    ids=lambda one: f"{one.fault}-{one.point}",
)
def test_no_machine_of_it_is_lost(
    injection: faults.Injection,
    rig: None,
    tmp_path: Path,
    key_pair: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HUDTUI_FAULTS_PROVIDER", "rig_provider:Rig")
    monkeypatch.setenv("PYTHONPATH", str(RIG))
    outcome = faults.carry_out(injection, tmp_path, key_pair)
    assert outcome.reached and outcome.broken == [], outcome.told
