"""A user of the simulated Prime whose time passes by sleeping alone, and a watch over every await
of what that user does."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import types
import urllib.request
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.prime.provider import PrimeProvider
from hudtui.core.compute.values import Offer, Order, Pod
from hudtui.core.remote.host import Host
from hudtui.core.remote.hosts import HostPool
from hudtui.core.remote.known_hosts import KnownHosts
from hudtui.core.remote.target import SshTarget
from hudtui.sim import PrimeSimulator


@contextlib.contextmanager
def simulated_prime(
    monkeypatch: pytest.MonkeyPatch, *, step: float = 5.0, **more: Any
) -> Iterator[PrimeSimulator]:
    """A simulator that stands in for Prime in everything that the test does from now on.

    `step` and `more` are its own arguments.
    """
    with PrimeSimulator(step=step, **more) as sim:
        monkeypatch.setenv("HUDTUI_SIM", sim.url)
        monkeypatch.setenv("HUDTUI_SIM_KEY", sim.api_key)
        yield sim


def own_key(key_pair: Path) -> Path:
    """A copy of a pair of SSH keys where those of the user are looked for; the private one."""
    folder = Path.home() / ".ssh"
    folder.mkdir(mode=0o700, exist_ok=True)
    for end in ("", ".pub"):
        key = folder / f"id_ed25519{end}"
        key.write_bytes(key_pair.with_name(key_pair.name + end).read_bytes())
        key.chmod(0o600)
    return folder / "id_ed25519"


class User:
    """A client, a ledger, a key and a clock.

    Args:
        url: The simulator.
        api_key: Its key.
        ledger: Where machines are written down.
        key: The private key that logs in.
        pins: Folder of host keys.
        timeout: Seconds for a request.
        advance: Lets simulated time pass; by default over HTTP, for a simulator in another process.
        make: Makes the provider from key, address, `timeout` and `sleep`; by default Prime's.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        ledger: Ledger,
        key: Path,
        known_hosts: Path,
        *,
        timeout: float = 10.0,
        advance: Callable[[float], None] | None = None,
        make: Callable[..., Any] | None = None,
    ) -> None:
        self.url, self.ledger, self.key = url, ledger, key
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {api_key}"}
        self._advance = advance or self._over_http
        self.now = 0.0
        self.logins: list[str] = []
        self.provider: Any = (make or _prime)(api_key, url, timeout=timeout, sleep=self.sleep)
        self.prime = self.provider
        self.pool = HostPool(KnownHosts(known_hosts), timeout=10)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.to_thread(self._advance, seconds)

    def _over_http(self, seconds: float) -> None:
        body = json.dumps({"seconds": seconds}).encode()
        request = urllib.request.Request(
            f"{self.url}/sim/advance", body, self._headers, method="POST"
        )
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=30
        ).close()

    async def login(self, pod: Pod, node: int = 0) -> Host:
        address = pod.addresses[node]
        self.logins.append(address.user)
        pin = f"{pod.id}.{node}"
        target = SshTarget(
            address.user, address.host, address.port, keys=(self.key,), pin=pin, agent=""
        )
        return await self.pool.open(target)

    async def offer(self, cloud_id: str = "1H100.80S") -> Offer:
        offers = await self.provider.offers()
        found = next((offer for offer in offers.found if offer.cloud_id == cloud_id), None)
        if found is None:
            raise LookupError(f"{cloud_id} is not offered: {'; '.join(offers.warnings)}")
        return found

    async def order(
        self, name: str = "hudtui-test-1", cloud_id: str = "1H100.80S", **more: Any
    ) -> Order:
        return Order(name, await self.offer(cloud_id), **more)

    async def close(self) -> None:
        await self.pool.aclose()
        await self.provider.close()


def _prime(api_key: str, url: str, **more: Any) -> PrimeProvider:
    return PrimeProvider(api_key, base_url=url, simulated=True, **more)


class Watch:
    """Calls `act` at one moment of what goes on in an event loop.

    Moments are named by what was done last (a call of the provider, a note in the ledger, a step
    that was yielded) and counted: each such deed is one, and so is each time that any task waits
    after it.

    Args:
        label: Name of the moment to act at.
        nth: Which of the moments of that name, from 0.
        act: What to do there, once.
    """

    def __init__(
        self, label: str = "", nth: int = 0, act: Callable[[], None] | None = None
    ) -> None:
        self._label, self._nth, self._act = label, nth, act
        self._doing = "start"
        self.seen: Counter[str] = Counter()
        self.reached = False

    def did(self, what: str) -> None:
        """Something was done, or begins."""
        self._doing = what
        self._tick(what)

    def _tick(self, label: str) -> None:
        count = self.seen[label]
        self.seen[label] += 1
        if (
            label == self._label
            and count == self._nth
            and self._act is not None
            and not self.reached
        ):
            self.reached = True
            self._act()

    def factory(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        """A task factory that watches over every wait."""
        return asyncio.Task(self._whole(coro), loop=loop, **more)

    async def _whole(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return await self._stepwise(coro)

    @types.coroutine
    def _stepwise(self, coro: Any) -> Generator[Any, Any, Any]:
        inner = coro.__await__() if hasattr(coro, "__await__") else coro
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waits_for = inner.throw(error) if error is not None else inner.send(value)
            except StopIteration as end:
                return end.value
            self._tick(f"{self._doing}, waiting")
            value, error = None, None
            try:
                value = yield waits_for
            except GeneratorExit:
                inner.close()
                raise
            except BaseException as thrown:
                error = thrown


class Watched:
    """An object whose calls are deeds for a watch."""

    def __init__(self, name: str, inner: Any, watch: Watch) -> None:
        self._name, self._inner, self._watch = name, inner, watch

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name.startswith("_") or not callable(found):
            return found
        label, watch = f"{self._name}.{name}", self._watch
        if inspect.iscoroutinefunction(found):

            async def later(*args: Any, **more: Any) -> Any:
                watch.did(label)
                try:
                    return await found(*args, **more)
                finally:
                    watch.did(f"after {label}")

            return later

        def now(*args: Any, **more: Any) -> Any:
            watch.did(label)
            try:
                return found(*args, **more)
            finally:
                watch.did(f"after {label}")

        return now
