"""A simulated Prime Intellect, a machine that is always the same, and a clock that stands still."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncssh
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hudtui.core.compute import hardware as machines
from hudtui.core.compute import owned_hosts
from hudtui.core.compute.hardware import Gpu, Hardware
from hudtui.core.compute.overview import Overview
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.values import Order
from hudtui.core.http import Retry
from hudtui.core.paths import app_paths
from hudtui.core.remote.hosts import close_hosts
from hudtui.sim import PrimeSimulator
from hudtui.tui.services import Services

NOW = datetime(2026, 11, 20, 23, 30, tzinfo=UTC)
"""Two and a half hours after the simulator's world began."""
GIB = 2**30
PROGRAMS = (
    ("tmux", "/usr/bin/tmux"),
    ("docker", None),
    ("podman", None),
    ("uv", "/usr/bin/uv"),
    ("nvidia-smi", None),
    ("git", "/usr/bin/git"),
)
PLAIN = Hardware(
    "local",
    "Linux-6.1",
    "x86_64",
    "3.11.7",
    2,
    24 * GIB,
    20 * GIB,
    252 * GIB,
    80 * GIB,
    (),
    PROGRAMS,
)
GPUS = Hardware(
    "local",
    "Linux-6.1",
    "x86_64",
    "3.11.7",
    16,
    128 * GIB,
    120 * GIB,
    500 * GIB,
    64 * GIB,
    (
        Gpu(0, "NVIDIA H100 80GB HBM3", 81559, 4, 0, "580"),
        Gpu(1, "NVIDIA H100 80GB HBM3", 81559, 70311, 97, "580"),
    ),
    PROGRAMS,
    ("The GPU driver is old.",),
)


@pytest.fixture
def looks_like(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hardware | Exception], None]:
    """Let the machine be another one: pictures must not depend on where they are taken."""

    def be(found: Hardware | Exception) -> None:
        async def inspect(*_: object, python: str = "") -> Hardware:
            if isinstance(found, Exception):
                raise found
            return found

        monkeypatch.setattr(machines, "inspect", inspect)
        monkeypatch.setattr(owned_hosts, "_inspect_here", inspect)

    return be


@pytest.fixture(autouse=True)
def this_machine(looks_like: Any) -> None:
    """A machine without GPUs, unless a test says otherwise."""
    looks_like(PLAIN)


@dataclass
class World:
    """A market on loopback, and the settings that lead to it."""

    sim: PrimeSimulator
    services: Services

    async def rent(
        self,
        name: str,
        cloud_id: str,
        *,
        run: str | None = None,
        workspace: Path | None = None,
        written: bool = True,
    ) -> str:
        """A machine as one is left when the app was killed; its id."""
        provider = PrimeProvider(self.sim.api_key, base_url=self.sim.url, simulated=True)
        try:
            offer = next(one for one in (await provider.offers()).found if one.cloud_id == cloud_id)
            order, ledger = Order(name, offer), Ledger()
            if written:
                ledger.reserve(
                    order,
                    provider="prime",
                    endpoint=provider.endpoint,
                    run=run,
                    workspace=workspace,
                )
            pod = await provider.create(order)
            if written:
                ledger.update(name, "ready", pod=pod.id, hourly=pod.hourly)
                ledger.unclaim(name)
                with sqlite3.connect(
                    ledger.path
                ) as database:  # as if it had been written down in the simulator's time
                    database.execute(
                        "UPDATE machines SET created = ? WHERE name = ?", (pod.created, name)
                    )
                database.close()
            return pod.id
        finally:
            await provider.close()

    def key(self, *, known: bool = True) -> Path:
        """The user's SSH key, which the account knows or not."""
        path = Path.home() / ".ssh" / "prime_key.pem"
        path.parent.mkdir(mode=0o700, exist_ok=True)
        made = Ed25519PrivateKey.from_private_bytes(
            bytes(range(32))
        )  # always the same: its fingerprint is shown
        path.write_bytes(made.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        key = asyncssh.read_private_key(path)
        path.chmod(0o400)
        if known:
            self.sim.add_ssh_key(key.export_public_key("openssh").decode().strip())
        return path

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self.sim.clock.advance(seconds)


@pytest.fixture
def world(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """The simulator, with its key in the environment. Waiting for a machine moves its clock."""
    with PrimeSimulator() as sim:
        monkeypatch.setenv("PRIME_API_KEY", sim.api_key)
        monkeypatch.setenv("PRIME_API_BASE_URL", sim.url)
        monkeypatch.setattr("hudtui.core.compute.prime.client.RETRY", Retry(attempts=4, pause=0.01))

        async def sleep(seconds: float) -> None:
            await asyncio.to_thread(sim.clock.advance, seconds)

        yield World(sim, Services(now=lambda: NOW, sleep=sleep))


@pytest.fixture
async def hosts_closed() -> Any:
    """Connections to machines end with the test's loop."""
    yield
    await close_hosts()


async def remembered(world: World, offers_at: float) -> None:
    """Offers of an earlier session, in the cache."""
    provider = PrimeProvider(world.sim.api_key, base_url=world.sim.url, simulated=True)

    desk = Overview(
        {"prime": provider},
        Ledger(),
        cache=app_paths().cache / "offers.json",
        now=lambda: offers_at,
    )
    async for _ in desk.refresh():
        pass
    await desk.close()


@pytest.fixture(name="remembered")
def _remembered() -> Any:
    return remembered


@pytest.fixture
def plain_machine() -> Hardware:
    return PLAIN


@pytest.fixture
def gpu_machine() -> Hardware:
    return GPUS
