"""The simulator that demo workspaces have in Prime Intellect's place."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hudtui.core.compute import demo_simulator as demo
from hudtui.core.compute.demo_simulator import (
    DemoSimulator,
    ensure_simulator,
    find_simulator,
    start_simulator,
)
from hudtui.core.compute.prime.entry import prime_access
from hudtui.core.compute.provider import ProviderError
from hudtui.core.paths import app_paths
from hudtui.core.platform import HUD
from hudtui.core.settings import load_settings
from hudtui.sim import PrimeSimulator as Simulated


def _pid(folder: Path) -> int:
    return int(json.loads((folder / "server.json").read_text())["pid"])


def _gone(pid: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for process in demo._started:
            process.poll()  # this process started it, and has to take note of its end
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"{pid} lives")


@pytest.fixture
def folder() -> Iterator[Path]:
    place = app_paths().state / "simulator"
    yield place
    if (place / "server.json").exists():
        pid = _pid(place)
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        _gone(pid)


def _state(simulator: DemoSimulator) -> Any:
    return httpx2.get(
        f"{simulator.url}/sim/state", headers={"Authorization": f"Bearer {simulator.key}"}
    ).json()


def test_it_is_started_once_and_again_when_it_was_killed(folder: Path) -> None:
    assert find_simulator(folder) is None
    with ThreadPoolExecutor(2) as two:
        first, other = two.map(start_simulator, [folder, folder])
    assert first == other == find_simulator(folder)
    assert _state(first)["pods"] == []
    for name in ("server.json", "state.json"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert first.key not in repr(first) and httpx2.get(f"{first.url}/sim/state").status_code == 401

    pid = _pid(folder)
    os.kill(pid, signal.SIGKILL)
    _gone(pid)
    assert find_simulator(folder) is None
    again = start_simulator(folder)
    assert again == first, "whoever looks after a machine there goes on"
    assert _state(again)["pods"] == []
    assert _pid(folder) != pid


def test_each_has_a_key_of_its_own(folder: Path, tmp_path: Path) -> None:
    with Simulated(state=tmp_path / "other") as other:
        key = start_simulator(folder).key
        assert len({key, other.api_key, "sim-key"}) == 3 and min(len(key), len(other.api_key)) >= 32


def test_it_ends_when_nobody_needs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "IDLE", 0.4)
    start_simulator(folder)
    _gone(_pid(folder))


def test_what_does_not_start_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(ProviderError, match="did not start") as caught:
        start_simulator(folder)
    assert caught.value.why == "no such luck"


def test_the_setting(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HUDTUI_SIM")
    (tmp_path / ".env").write_text("HUDTUI_SIM=demo\nPRIME_API_KEY=real\n")
    settings = load_settings(tmp_path, HUD)
    with pytest.raises(ProviderError, match="does not run"):
        prime_access(settings.get)  # reading a setting starts nothing
    assert not folder.exists()
    ensure_simulator(settings.get)
    access = prime_access(settings.get)
    assert access.simulated and DemoSimulator(access.base_url, access.key) == find_simulator(folder)
    monkeypatch.setenv("HUDTUI_SIM", "off")
    access = prime_access(load_settings(tmp_path, HUD).get)
    assert not access.simulated and access.key is not None and access.key == "real"
