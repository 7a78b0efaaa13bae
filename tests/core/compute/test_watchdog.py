"""The guard on a machine that was rented: armed over SSH, and on its own from then on."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.demo_simulator import DemoSimulator
from hudtui.core.compute.lifecycle import acquire
from hudtui.core.compute.owned_hosts import LocalProvider
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.skypilot import SkyPilotProvider
from hudtui.core.compute.values import Pod
from hudtui.core.compute.watchdog import (
    FOLDER,
    arm_watchdog,
    guard_key,
    start_watchdog,
    terminate_rule,
    watchdog_notice,
    watchdog_promise,
    watchdog_rules,
)
from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote.host import Host
from hudtui.core.remote.local import LocalHost
from hudtui.core.settings import load_settings, user_file

ALL = {"read": True, "write": True}


async def a_machine(world: Any) -> tuple[Host, Pod]:
    order = await world.order("hudtui-guarded", "cpu-8")
    steps = acquire(
        order, world.prime, world.ledger, login=world.login, sleep=world.sleep, clock=world.clock
    )
    last = [step async for step in steps][-1]
    assert last.host is not None and last.pod is not None
    return last.host, last.pod


async def until(host: Host, kind: str) -> dict[str, Any]:
    while True:
        facts = await host.stat(f"{FOLDER}/guard.jsonl")
        lines = (await host.get(f"{FOLDER}/guard.jsonl")).splitlines() if facts else []
        found = [line for line in map(json.loads, lines) if line["type"] == kind]
        if found:
            return dict(found[-1])
        await asyncio.sleep(0.05)


async def test_with_a_narrow_key_the_machine_ends_itself_when_everybody_is_gone(world: Any) -> None:
    world.sim.add_token("pit_only_ends", {"instances": ALL})
    host, pod = await a_machine(world)
    settings = {"HUDTUI_GUARD_KEY": "pit_only_ends", "PRIME_API_KEY": world.sim.api_key}
    told = await start_watchdog(
        host, time.time() + 5 * 3600, world.prime, pod.id, lookup=settings.get
    )
    assert told is not None and "ends it after 5 h" in told.text and not told.caveat
    rules = json.loads(await host.get(f"{FOLDER}/guard.json"))
    facts = await host.stat(f"{FOLDER}/guard.key")
    assert (
        "pit_only" not in json.dumps(rules)
        and 17000 < rules["max_seconds"] <= 18000
        and facts is not None
    )
    done = await host.run(["stat", "-c", "%a", FOLDER, f"{FOLDER}/guard.key"])
    assert done.stdout.split() == ["700", "600"]
    rules |= {"max_seconds": 0.0, "count_from": "now", "look_seconds": 0.05}
    await arm_watchdog(host, FOLDER, rules)
    await world.close()  # hudtui is gone
    while world.sim.alive:  # noqa: ASYNC110 - it ends in another process
        await asyncio.sleep(0.05)
    ends = [request for request in world.sim.requests if request.method == "DELETE"]
    assert [request.path for request in ends] == [f"/api/v1/pods/{pod.id}"]


async def test_a_key_that_may_not_is_said_and_the_machine_is_switched_off(world: Any) -> None:
    world.sim.add_token("pit_only_looks", {"instances": {"read": True, "write": False}})
    host, pod = await a_machine(world)
    lookup = {"HUDTUI_GUARD_KEY": "pit_only_looks"}.get
    rules = watchdog_rules(time.time() + 3600, world.prime, pod.id, lookup=lookup)
    off = (await host.run(["pwd"])).stdout.strip() + "/off"
    rules |= {"max_seconds": 0.0, "look_seconds": 0.05, "power_off": [["touch", off]]}
    await arm_watchdog(host, FOLDER, rules, key="pit_only_looks")
    assert "403" in (await until(host, "not_ended"))["problem"]
    assert (await until(host, "tried"))["status"] == 0 and world.sim.alive
    assert await host.stat(off) is not None


async def test_other_limits_reach_the_guard_that_is_at_work(world: Any) -> None:
    host, pod = await a_machine(world)
    none: dict[str, str] = {}
    told = await start_watchdog(host, time.time() + 2 * 3600, world.prime, pod.id, lookup=none.get)
    assert (
        told is not None
        and "switches it off after 2 h" in told.text
        and "may not stop the billing" in told.caveat
    )
    assert await start_watchdog(host, None, world.prime, pod.id, lookup=none.get) is None
    armed = await host.run(["grep", "-c", "armed", f"{FOLDER}/guard.jsonl"])
    assert armed.stdout.strip() == "1", "there is one, and it has the new rules"
    assert json.loads(await host.get(f"{FOLDER}/guard.json"))["max_seconds"] is None
    assert await host.stat(f"{FOLDER}/guard.key") is None


async def test_a_machine_where_it_cannot_work_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match="could not be armed"):
        await arm_watchdog(LocalHost(), str(tmp_path / "file" / "folder"), {})


async def test_the_users_own_key_never_goes_to_a_machine() -> None:
    prime = PrimeProvider("pit_mine_123", base_url="http://127.0.0.1:1")
    with pytest.raises(InputError, match="your own key"):
        terminate_rule(
            prime, "p", {"HUDTUI_GUARD_KEY": "pit_mine_123", "PRIME_API_KEY": "pit_mine_123"}.get
        )
    with pytest.raises(InputError, match="your own key"):
        watchdog_notice(
            prime, {"HUDTUI_GUARD_KEY": "pit_mine_123", "PRIME_API_KEY": "pit_mine_123"}.get
        )
    assert terminate_rule(prime, "p", {"PRIME_API_KEY": "pit_mine_123"}.get) is None
    narrow = {"HUDTUI_GUARD_KEY": " pit_narrow_123\n"}.get
    assert guard_key("prime", narrow) == "pit_narrow_123"
    assert terminate_rule(prime, "a/b", narrow) == {
        "url": "http://127.0.0.1:1/api/v1/pods/a%2Fb",
        "key_file": "guard.key",
    }
    assert terminate_rule(LocalProvider(None), "p", narrow) is None
    assert "ends it in time" in watchdog_notice(
        prime, narrow
    ) and "switches it off" in watchdog_notice(LocalProvider(None), narrow)
    await prime.close()


async def test_what_ends_by_itself_needs_no_guard(tmp_path: Path) -> None:
    told = await start_watchdog(
        LocalHost(), time.time() + 3600, SkyPilotProvider(("sky",)), "c", lookup={}.get
    )
    assert told is not None and "by itself" in told.text
    assert not (tmp_path / FOLDER).exists()


def test_a_moment_that_is_over_is_now() -> None:
    rules = watchdog_rules(time.time() - 60, LocalProvider(None), "p", lookup={}.get)
    assert rules["max_seconds"] == 0.0 and rules["end"] is None
    assert "2 h" in watchdog_promise(2.0, ends=True).text


OWN = "pit_mine_123"


@pytest.mark.parametrize(
    "place",
    [
        *(
            "~/.prime",
            "user file",
            "~/.hud/.env",
            ".env",
            "Hugging Face login",
            "PRIME_API_KEY",
            "HF_TOKEN",
            "HUDTUI_SIM_KEY",
        ),
        *("HUD_API_KEY", "OPENAI_API_KEY", "GITHUB_TOKEN", "demo"),
    ],
)
@pytest.mark.parametrize("given", [OWN, f" {OWN} ", f"{OWN}\n"])
def test_no_key_that_is_used_elsewhere_goes_to_a_machine(
    own_world: Path, place: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nearer layer has another key: what does not count here is the user's own all the same."""
    files = {
        "~/.prime": (Path.home() / ".prime" / "config.json", json.dumps({"api_key": OWN})),
        "user file": (user_file(), f"PRIME_API_KEY={OWN}\n"),
        "~/.hud/.env": (Path.home() / ".hud" / ".env", f"HUD_API_KEY={OWN}\n"),
        ".env": (own_world / ".env", f"PRIME_API_KEY={OWN}\n"),
        "Hugging Face login": (Path.home() / "hf-token", OWN),
    }
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", str(Path.home() / "hf-token"))
    monkeypatch.setenv("PRIME_API_KEY", "pit_nearer")
    monkeypatch.setenv("HUDTUI_GUARD_KEY", given)
    if place in files:
        path, text = files[place]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    elif place == "demo":
        living = DemoSimulator("http://127.0.0.1:1", OWN)
        monkeypatch.setattr("hudtui.core.compute.watchdog.find_simulator", lambda: living)
    else:
        monkeypatch.setenv(place, OWN)
    lookup = load_settings(own_world).get
    with pytest.raises(InputError, match="your own key"):
        terminate_rule(PrimeProvider("pit_nearer", base_url="http://127.0.0.1:1"), "p", lookup)
    with pytest.raises(InputError, match="your own key"):
        guard_key("prime", lookup)
