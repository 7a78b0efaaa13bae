"""A simulator, and a client that speaks plain HTTP."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from hudtui.sim import PrimeSimulator


class Api:
    """The API as a client without any cleverness sees it."""

    def __init__(self, sim: PrimeSimulator, key: str | None = None) -> None:
        self.sim = sim
        token = sim.api_key if key is None else key
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.http = httpx2.Client(base_url=f"{sim.url}/api/v1", headers=headers, timeout=20)

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, params=query)
        answer.raise_for_status()
        return answer.json()

    def order(self, cloud_id: str = "1H100.80S", **changes: Any) -> dict[str, Any]:
        items = (
            self.get("/availability/gpus")["items"] + self.get("/availability/multi-node")["items"]
        )
        offer = next(item for item in items if item["cloudId"] == cloud_id)
        pod = {name: offer[name] for name in ("cloudId", "gpuType", "socket", "gpuCount")}
        pod |= {"name": "run", "image": offer["images"][0], "dataCenterId": offer["dataCenter"]}
        return {"pod": pod | changes, "provider": {"type": offer["provider"]}}

    def create(self, cloud_id: str = "1H100.80S", **changes: Any) -> dict[str, Any]:
        answer = self.http.post("/pods/", json=self.order(cloud_id, **changes))
        assert answer.status_code == 200, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def ready(self, cloud_id: str = "1H100.80S", **changes: Any) -> dict[str, Any]:
        """A pod that can be logged in to, as the API tells of it."""
        made = self.create(cloud_id, **changes)
        self.sim.clock.advance(60)
        found: dict[str, Any] = self.get(f"/pods/{made['id']}")
        return found


@pytest.fixture
def sim() -> Iterator[PrimeSimulator]:
    with PrimeSimulator() as running:
        yield running


@pytest.fixture
def connect() -> Iterator[Callable[..., Api]]:
    made: list[Api] = []

    def connect(sim: PrimeSimulator, key: str | None = None) -> Api:
        made.append(Api(sim, key))
        return made[-1]

    yield connect
    for api in made:
        api.http.close()


@pytest.fixture
def api(sim: PrimeSimulator, connect: Callable[..., Api], key_pair: Path) -> Api:
    """A client of an account whose primary key is `key_pair`."""
    sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
    return connect(sim)


@pytest.fixture
def ssh(key_pair: Path, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """OpenSSH's own client, which shares no code with the simulator."""

    def run(
        way: str, command: str, *options: str, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        target, _, port = way.partition(" -p ")
        argv = [
            "ssh",
            "-F",
            "none",
            "-i",
            str(key_pair),
            "-o",
            "IdentitiesOnly=yes",
            "-o",
            "BatchMode=yes",
            "-o",
            "LogLevel=ERROR",
        ]
        argv += [
            "-o",
            "StrictHostKeyChecking=accept-new",
            "-o",
            f"UserKnownHostsFile={tmp_path / 'known_hosts'}",
            *options,
        ]
        return subprocess.run(
            [*argv, "-p", port, target, command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


@pytest.fixture
def alive() -> Callable[[int], bool]:
    """Whether a process is there and no zombie."""

    def alive(pid: int) -> bool:
        try:
            os.kill(pid, 0)
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (ProcessLookupError, FileNotFoundError):
            return False

    return alive
