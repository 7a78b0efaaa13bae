"""The simulator as one object.

It serves from a thread of its own, so that its clients may block.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hudtui.sim.account import SimAccount
from hudtui.sim.catalogue import SimOffer
from hudtui.sim.clock import SimClock
from hudtui.sim.faults import SCENARIOS, Behaviour, Fault, RecordedRequest
from hudtui.sim.machine import PodFleet
from hudtui.sim.pod import SimPod
from hudtui.sim.state import StateFolder
from hudtui.sim.web import AppState, Listener, make_app

_TICK = 0.2
"""Real seconds between two looks at a clock that flows by itself."""


class PrimeSimulator:
    """A simulated Prime Intellect API on loopback.

    Use it as a context manager, with or without `async`. Entering returns once requests are
    answered.

    Args:
        port: 0 takes the one before when `state` has it and it is free, or else any free one.
        seed: Of all that is random.
        state: Folder in which everything outlives this object; None forgets it all.
        rate: Simulated seconds per real second. 0: time moves by `clock.advance` (and by `step`)
            alone.
        step: Simulated seconds that each request takes.
        start: Seconds from `clock.EPOCH` to the beginning, unless `state` continues an earlier one.
        balance: USD in the wallet.
        api_key: The key that may do everything. None: the one before when `state` has it, or a
            random one.
        scenario: Names of `SCENARIOS` to begin with.
        offers: The market instead of the default one.
        clusters: Offers of several machines instead of the default ones.
        disk_offers: Offers of storage instead of the default ones.
        records: Parts of the account's records; see `account.default_records`.

    Raises:
        StateInUse: Another simulator has the state folder.
        ValueError: No such scenario.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        seed: int = 0,
        state: Path | None = None,
        rate: float = 0.0,
        step: float = 0.0,
        start: float = 0.0,
        balance: float = 100.0,
        api_key: str | None = None,
        scenario: str | Sequence[str] = (),
        offers: Sequence[SimOffer] | None = None,
        clusters: Sequence[SimOffer] | None = None,
        disk_offers: Sequence[SimOffer] | None = None,
        records: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder = StateFolder(state)
        saved = self._folder.saved
        self.api_key: str = (
            api_key or (saved or {}).get("key") or f"sim_{secrets.token_urlsafe(24)}"
        )
        """The key that may do everything."""
        if saved:
            start = saved["clock"] + max(0.0, time.time() - saved["saved_at"]) * rate
        self.clock = SimClock(rate, step, start)
        self.account = SimAccount(
            self.clock,
            self.api_key,
            seed=seed,
            balance=balance,
            offers=offers,
            clusters=clusters,
            disk_offers=disk_offers,
            records=records,
        )
        if saved:
            self.account.load(saved["world"])
        self._port = port
        self._port_before = saved["port"] if saved else 0
        self._lock = threading.RLock()
        self._app_state = AppState(self.account, self._lock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ticker: asyncio.Task[None] | None = None
        self._fleet: PodFleet | None = None
        self.listener: Listener
        names = (scenario,) if isinstance(scenario, str) else tuple(scenario)
        if names:
            self.scenario(*names)

    # --- what tests look at ---

    @property
    def url(self) -> str:
        """The origin, without a path: `http://127.0.0.1:PORT`."""
        return self._app_state.origin

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """Every request to the API so far."""
        with self._lock:
            return tuple(self._app_state.requests)

    @property
    def pods(self) -> dict[str, SimPod]:
        """Every pod that was ever created, by id."""
        with self._lock:
            return dict(self.account.pods)

    @property
    def alive(self) -> tuple[SimPod, ...]:
        """The pods that cost money, or may."""
        with self._lock:
            return tuple(self.account.listed())

    def state(self) -> dict[str, Any]:
        """An overview: time, money, pods, waiting faults."""
        with self._lock:
            now = self.account.settle()
            return {
                "now": now,
                "balance_usd": round(self.account.money(now), 6),
                "behaviour": self.account.behaviour.to_json(),
                "pods": [
                    {
                        **pod.describe(now),
                        "alive": pod.alive(now),
                        "cost_usd": round(pod.cost(now), 6),
                        "why_ended": pod.why_ended,
                    }
                    for pod in self.account.pods.values()
                ],
                "faults": [vars(fault) for fault in self._app_state.faults.waiting()],
                "requests": len(self._app_state.requests),
            }

    def home(self, pod_id: str) -> Path:
        """The home folder of a pod's first machine."""
        return self.homes(pod_id)[0]

    def homes(self, pod_id: str) -> list[Path]:
        """The home folders of a pod's machines."""
        assert self._fleet
        return self._fleet.homes(pod_id)

    # --- what tests change ---

    def scenario(self, *names: str) -> None:
        """Begin situations.

        Pods created from now on, and requests that come from now on, are treated as `SCENARIOS`
        says. Each call starts from plain behaviour; waiting faults are dropped.

        Raises:
            ValueError: A name is unknown.
        """
        unknown = [name for name in names if name not in SCENARIOS]
        if unknown:
            raise ValueError(
                f"no scenario is called {', '.join(unknown)}; there are: {', '.join(SCENARIOS)}"
            )
        with self._lock:
            behaviour = Behaviour()
            self._app_state.faults.clear()
            for name in names:
                chosen = SCENARIOS[name]
                behaviour = chosen.apply(behaviour)
                self._app_state.faults.add(*chosen.faults)
                if chosen.balance is not None:
                    now = self.clock.now()
                    self.account.balance += chosen.balance - self.account.money(now)
            self.account.behaviour = behaviour

    def behave(self, **changes: Any) -> None:
        """Change single traits of `Behaviour` for pods that are created from now on."""
        with self._lock:
            self.account.behaviour = Behaviour(**{**self.account.behaviour.to_json(), **changes})

    def fail_next(self, method: str, path: str, kind: str, times: int = 1, **more: Any) -> None:
        """Let the next requests that fit go wrong; see `faults.Fault`.

        Args:
            method: A method or `*`.
            path: A glob over the path: `/api/v1/pods/*`. `*` matches slashes too.
            kind: One of `faults.KINDS`.
            times: How often.
            more: status, detail, retry_after, seconds, after.
        """
        with self._lock:
            self._app_state.faults.add(Fault(method, path, kind, times, **more))

    def heal(self) -> None:
        """Drop the faults that are still to come."""
        with self._lock:
            self._app_state.faults.clear()

    def forget_requests(self) -> None:
        """Clear the record of requests."""
        with self._lock:
            self._app_state.requests.clear()

    def add_token(self, token: str, scopes: Mapping[str, Any] | None) -> None:
        """Make an API key that ends with this object.

        `scopes` is `{area: {"read": bool, "write": bool}}`, None may do all.
        """
        with self._lock:
            self.account.tokens[token] = dict(scopes) if scopes is not None else None

    def add_ssh_key(self, public: str, name: str = "test") -> str:
        """Register a public key (OpenSSH's form) with the account; returns its id.

        The first one is installed on pods.
        """
        with self._lock:
            return str(self.account.add_key(name, public)["id"])

    def set_pod(self, pod_id: str, **fields: Any) -> None:
        """Force fields of the API's answers about a pod."""
        with self._lock:
            self.account.pods[pod_id].forced.update(fields)

    def reclaim(self, pod_id: str) -> None:
        """Take a pod's machine away, as providers do with spot machines."""
        with self._lock:
            self.account.reclaim(self.account.pods[pod_id])
        self._from_outside()

    def unplug(self, pod_id: str, node: int) -> None:
        """Cut a machine of a pod off from SSH: what runs on it goes on."""
        assert self._fleet
        self._call(self._fleet.node(pod_id, node).close())

    def plug(self, pod_id: str, node: int) -> None:
        """Let a machine that was unplugged answer again, at the same port."""
        assert self._fleet
        self._call(self._fleet.node(pod_id, node).reopen())

    def lose(self, pod_id: str, node: int) -> None:
        """Let a machine of a pod go out: nothing runs on it any more, and nobody can log in."""
        assert self._fleet
        lost = self._fleet.node(pod_id, node)
        self._call(lost.close())
        lost.halt()

    def refuse(self, seconds: float) -> None:
        """Refuse connections to the API for some real seconds."""
        self._call(self.listener.refuse(seconds))

    def settle(self) -> None:
        """Wait until machines match the account: up when ready, gone when over."""
        self._call(self.sync())

    async def sync(self) -> None:
        """The same within the simulator's own loop."""
        assert self._fleet
        await self._fleet.sync()
        self._save()

    def _save(self) -> None:
        if self._folder.lasting:
            with self._lock:
                self._folder.save(
                    {
                        "clock": self.clock.now(),
                        "port": self.listener.port,
                        "key": self.api_key,
                        "world": self.account.to_json(),
                    }
                )

    # --- its life ---

    def start(self) -> Self:
        """Serve.

        Raises:
            OSError: The port is taken.
        """
        loop = asyncio.new_event_loop()
        self._loop = loop

        def live() -> None:
            asyncio.set_event_loop(loop)
            loop.run_forever()

        self._thread = threading.Thread(target=live, name="prime-simulator", daemon=True)
        self._thread.start()
        try:
            self._call(self._open())
        except BaseException:
            self._end_thread()
            self._folder.close()
            raise
        self.clock.on_advance = self._from_outside
        return self

    async def _open(self) -> None:
        self._fleet = PodFleet(self.account, self._folder)
        self._app_state.sync = self.sync
        app = make_app(self._app_state, control_routes(self))
        self.listener = Listener(app, self._port or self._port_before)
        try:
            await self.listener.open()
        except OSError:
            if self._port:
                raise
            self.listener = Listener(app, 0)  # another program has the port of before by now
            await self.listener.open()
        self._app_state.refuse = self.listener.refuse
        self._app_state.origin = f"http://127.0.0.1:{self.listener.port}"
        await self._fleet.clear()
        await self.sync()
        if self.clock.rate:
            self._ticker = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            await self.sync()

    def stop(self) -> None:
        """End everything: requests, machines and what they started.

        What lasts is in the state folder.
        """
        if self._loop is None:
            return
        self.clock.on_advance = None
        try:
            self._call(self._close())
        finally:
            self._end_thread()
            self._folder.close()

    async def _close(self) -> None:
        assert self._fleet
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
        await self.listener.close()
        self._save()
        await self._fleet.close()
        # What is still joined to a machine's process ends now that the processes have.
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        if others:
            await asyncio.wait(others, timeout=2)
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _end_thread(self) -> None:
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            return
        self._finish(loop)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()

    @staticmethod
    def _finish(loop: asyncio.AbstractEventLoop) -> None:
        async def last() -> None:
            await asyncio.get_running_loop().shutdown_asyncgens()
            await asyncio.get_running_loop().shutdown_default_executor()

        with contextlib.suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(last(), loop).result(10)

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._loop is not None, "the simulator is not running"
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def _from_outside(self) -> None:
        """Bring machines in step after a change made by a test.

        A change made over HTTP does so itself.
        """
        if self._loop is not None and threading.current_thread() is not self._thread:
            self.settle()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.start)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.stop)


def control_routes(sim: PrimeSimulator) -> list[Route]:
    """Everything that `PrimeSimulator` offers in a process of its own, as HTTP."""

    def post(path: str, act: Callable[[Request, dict[str, Any]], Any]) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                body = await request.json() if await request.body() else {}
                result = act(request, body)
                if isinstance(result, Awaitable):
                    await result
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                return JSONResponse({"detail": f"{type(error).__name__}: {error}"}, 400)
            await sim.sync()
            return JSONResponse(sim.state())

        return Route(path, endpoint, methods=["POST"])

    async def state(request: Request) -> Response:
        await sim.sync()
        return JSONResponse(sim.state())

    async def requests(request: Request) -> Response:
        return JSONResponse([seen.to_json() for seen in sim.requests])

    return [
        Route("/sim/state", state),
        Route("/sim/requests", requests),
        post("/sim/advance", lambda request, body: sim.clock.advance(float(body["seconds"]))),
        post("/sim/fail", lambda request, body: sim.fail_next(**body)),
        post("/sim/heal", lambda request, body: sim.heal()),
        post(
            "/sim/scenario",
            lambda request, body: sim.scenario(*body.get("names", [body.get("name", "plain")])),
        ),
        post("/sim/refuse", lambda request, body: sim.listener.refuse(float(body["seconds"]))),
        post("/sim/tokens", lambda request, body: sim.add_token(body["token"], body.get("scopes"))),
        post(
            "/sim/pods/{pod_id}",
            lambda request, body: sim.set_pod(request.path_params["pod_id"], **body),
        ),
        post(
            "/sim/pods/{pod_id}/reclaim",
            lambda request, body: sim.reclaim(request.path_params["pod_id"]),
        ),
    ]
