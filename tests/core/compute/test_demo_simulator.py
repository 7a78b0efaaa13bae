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

import httpx2
import pytest

from hudtui.core.compute import demo_simulator as demo
from hudtui.core.compute.demo_simulator import demo_simulator
from hudtui.core.compute.provider import ProviderError
from hudtui.core.compute.providers import prime_access
from hudtui.core.platform import HUD
from hudtui.core.settings import load_settings


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
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "simulator"
    yield place
    if (place / "server.json").exists():
        pid = _pid(place)
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        _gone(pid)


def test_it_is_started_once_and_again_when_it_was_killed(folder: Path) -> None:
    with ThreadPoolExecutor(2) as two:
        first, other = two.map(demo_simulator, [folder, folder])
    assert first == other
    assert httpx2.get(f"{first}/sim/state").json()["pods"] == []
    assert (folder / "server.json").stat().st_mode & 0o777 == 0o600

    pid = _pid(folder)
    os.kill(pid, signal.SIGKILL)
    _gone(pid)
    again = demo_simulator(folder)
    assert httpx2.get(f"{again}/sim/state").json()["pods"] == []
    assert _pid(folder) != pid


def test_it_ends_when_nobody_needs_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "IDLE", 0.4)
    demo_simulator(folder)
    _gone(_pid(folder))


def test_what_does_not_start_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho no such luck >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(ProviderError, match="did not start") as caught:
        demo_simulator(folder)
    assert caught.value.why == "no such luck"


def test_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("hudtui.core.compute.providers.demo_simulator", lambda: "http://127.0.0.1:9")
    monkeypatch.delenv("HUDTUI_SIM")
    (tmp_path / ".env").write_text("HUDTUI_SIM=demo\nPRIME_API_KEY=real\n")
    access = prime_access(load_settings(tmp_path, HUD).get)
    assert access.simulated and access.base_url == "http://127.0.0.1:9"
    assert access.key is not None and access.key.get_secret_value() != "real"
    monkeypatch.setenv("HUDTUI_SIM", "off")
    access = prime_access(load_settings(tmp_path, HUD).get)
    assert not access.simulated and access.key is not None and access.key.get_secret_value() == "real"
