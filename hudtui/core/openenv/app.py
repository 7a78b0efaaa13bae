"""The web application of an OpenEnv server.

Who may ask, the routes over HTTP, and the socket with one session each. A client of `/ws` has a
session as long as its connection stands; what it has not finished ends with it. Over HTTP there is
no connection to see the end of: `/reset` gives an `episode_id`, `/step` and `/state` name it, and
the session ends with the episode or after a while without a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from hudtui import __version__
from hudtui.core.environment.openenv_messages import message
from hudtui.core.openenv.messages import (
    ACTION_SCHEMA,
    MAX_BYTES,
    OBSERVATION_SCHEMA,
    RESET_SCHEMA,
    STATE_SCHEMA,
    Refused,
    read_object,
    rpc_error,
)
from hudtui.core.openenv.session import EpisodeSession, ServedTasks
from hudtui.core.text import clean_line

IDLE = 600.0
"""Seconds after which a session over HTTP that is not asked ends, and a connection that has never
said anything."""
_WAITING = 16
"""Messages of a client that wait for their turn; more are not read before."""
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
_MAX_LISTED = 10_000
_PATHS = {
    "/health": "get",
    "/metadata": "get",
    "/schema": "get",
    "/state": "get",
    "/reset": "post",
    "/step": "post",
    "/mcp": "post",
    "/list_environments": "get",
}


@dataclass(frozen=True)
class Access:
    """Permission to use the server."""

    token: str | None
    """Wanted as `Authorization: Bearer TOKEN`, or as the first part of the path; None: nothing is
    wanted."""
    loopback: bool = True
    """The server answers for addresses of this machine alone, whatever name leads to it."""


@dataclass
class _HttpSession:
    session: EpisodeSession
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: float = field(default_factory=time.monotonic)


class OpenEnvApp:
    """The application, and the sessions that it holds.

    Args:
        served: What is played.
        name: The environment's name.
        description: What it is, in a sentence.
        access: Who may use it.
        most: Sessions at once.
        idle: Seconds after which a session over HTTP that is not asked ends, and a connection that
            has never said anything.
        on_refusal: Receives code and message of each error that a client is answered; of those who
            may not use the server, the first of each code.
    """

    def __init__(
        self,
        served: ServedTasks,
        *,
        name: str,
        description: str,
        access: Access,
        most: int = 64,
        idle: float = IDLE,
        on_refusal: Callable[[str, str], None] = lambda code, message: None,
    ) -> None:
        self._served = served
        self._name = name
        self._about = {"name": name, "description": description, "version": __version__}
        self._most = most
        self._idle = idle
        self._sockets = 0
        self._over_http: dict[str, _HttpSession] = {}
        self._reaper: asyncio.Task[None] | None = None
        self._on_refusal = on_refusal
        self._denied: set[int] = set()
        """HTTP statuses that were answered to those who may not use the server."""
        self.asgi = _guarded(self._routes(), access, self._deny)

    def _deny(self, status: int) -> None:
        """Report the first request with this answer.

        Whoever reaches the server can send any number of them.
        """
        if status not in self._denied:
            self._denied.add(status)
            self._on_refusal(f"HTTP {status}", _REFUSALS[status])

    @property
    def sessions(self) -> int:
        """Number of sessions now."""
        return self._sockets + len(self._over_http)

    async def aclose(self) -> None:
        """End the sessions that no connection ends."""
        if self._reaper is not None:
            self._reaper.cancel()
        held, self._over_http = list(self._over_http.values()), {}
        await asyncio.gather(*(one.session.close() for one in held), return_exceptions=True)

    def _routes(self) -> ASGIApp:
        def get(path: str, value: Callable[[], Any]) -> Route:
            async def answer(request: Request) -> Response:
                return JSONResponse(value())

            return Route(path, answer, methods=["GET"])

        def post(path: str, handler: Callable[[Request, dict[str, Any]], Awaitable[Any]]) -> Route:
            async def answer(request: Request) -> Response:
                try:
                    return JSONResponse(await handler(request, read_object(await _body(request))))
                except Refused as refused:
                    self._on_refusal(refused.code, refused.message)
                    status = {
                        "CAPACITY_REACHED": 503,
                        "EXECUTION_ERROR": 500,
                        "FACTORY_ERROR": 500,
                        "SESSION_ERROR": 500,
                    }.get(refused.code, 422)
                    return JSONResponse({"detail": refused.message, "code": refused.code}, status)

            return Route(path, answer, methods=["POST"])

        schema = {
            "action": ACTION_SCHEMA,
            "observation": OBSERVATION_SCHEMA,
            "state": STATE_SCHEMA,
            "reset_observation": RESET_SCHEMA,
        }
        return Starlette(
            routes=[
                get("/health", lambda: {"status": "healthy"}),
                get("/metadata", lambda: self._about),
                get("/schema", lambda: schema),
                get("/openapi.json", self._openapi),
                get("/list_environments", lambda: [self._name]),
                Route("/state", self._state, methods=["GET"]),
                post("/reset", self._reset),
                post("/step", self._step),
                Route("/mcp", self._mcp, methods=["POST"]),
                Route("/{name}/splits", self._splits, methods=["GET"]),
                post("/{name}/tasks", self._tasks),
                post("/{name}/num_tasks", self._count),
                post("/{name}/task", self._task),
                post("/{name}/task_range", self._range),
                WebSocketRoute("/ws", self._socket),
            ]
        )

    def _openapi(self) -> dict[str, Any]:
        paths = {
            path: {method: {"responses": {"200": {"description": "OK"}}}}
            for path, method in _PATHS.items()
        }
        return {
            "openapi": "3.1.0",
            "info": {"title": self._name, "version": "1.0.0"},
            "paths": paths,
        }

    # Over HTTP

    async def _reset(self, request: Request, body: dict[str, Any]) -> Any:
        wanted = body.get("episode_id")
        before = self._over_http.pop(wanted, None) if isinstance(wanted, str) else None
        if before is not None:
            async with before.lock:
                await before.session.close()
        self._make_room()
        held = _HttpSession(EpisodeSession(self._served))
        key = f"starting {id(held)}"
        self._over_http[key] = held  # counted while it starts
        try:
            async with held.lock:
                answer = await held.session.reset(body)
        except BaseException:
            del self._over_http[key]
            await held.session.close()
            raise
        del self._over_http[key]
        held.asked = time.monotonic()
        self._over_http[answer["metadata"]["episode_id"]] = held
        if self._reaper is None:
            self._reaper = asyncio.create_task(self._reap())
        return answer

    async def _step(self, request: Request, body: dict[str, Any]) -> Any:
        name = body.get("episode_id")
        held = self._over_http.get(name) if isinstance(name, str) else None
        if held is None or not isinstance(name, str):
            raise Refused(
                "VALIDATION_ERROR",
                "name the episode_id that /reset answered with, of an episode that is not over; or "
                "use /ws",
            )
        async with held.lock:
            held.asked = time.monotonic()
            try:
                answer = await held.session.step(body.get("action"))
            finally:
                held.asked = time.monotonic()
                if held.session.state()["done"]:
                    self._over_http.pop(name, None)
                    await held.session.close()
        return answer

    async def _state(self, request: Request) -> Response:
        held = self._over_http.get(request.query_params.get("episode_id", ""))
        return JSONResponse(
            (held.session if held is not None else EpisodeSession(self._served)).state()
        )

    async def _mcp(self, request: Request) -> Response:
        try:
            body: Any = read_object(await _body(request))
        except Refused:
            return JSONResponse(rpc_error(None, -32700, "Parse error"))
        if body.get("method") == "tools/call":
            return JSONResponse(
                rpc_error(body, -32000, "a call needs an episode: use /ws, or /reset and /step")
            )
        return JSONResponse(await EpisodeSession(self._served).rpc(body))

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(min(self._idle / 4, 30.0))
            now = time.monotonic()
            for name, held in list(self._over_http.items()):
                if now - held.asked > self._idle and not held.lock.locked():
                    self._over_http.pop(name, None)
                    with contextlib.suppress(Exception):
                        await held.session.close()

    def _make_room(self) -> None:
        if self.sessions >= self._most:
            raise Refused(
                "CAPACITY_REACHED",
                f"all {self._most} sessions are in use",
                active_sessions=self.sessions,
                max_sessions=self._most,
            )

    # Tasks

    async def _splits(self, request: Request) -> Response:
        if request.path_params["name"].lower() != self._name.lower():
            return JSONResponse({"detail": "unknown environment"}, 404)
        return JSONResponse([{"name": "train", "type": "train"}])

    async def _tasks(self, request: Request, body: dict[str, Any]) -> Any:
        self._check_split(request, body)
        return {"tasks": self._listed(0, len(self._served.tasks)), "env_name": self._name}

    async def _count(self, request: Request, body: dict[str, Any]) -> Any:
        self._check_split(request, body)
        return {"num_tasks": len(self._served.tasks)}

    async def _task(self, request: Request, body: dict[str, Any]) -> Any:
        self._check_split(request, body)
        index = body.get("index")
        if not isinstance(index, int) or not 0 <= index < len(self._served.tasks):
            raise Refused("VALIDATION_ERROR", "Invalid task index")
        return {"task": self._listed(index, index + 1)[0]}

    async def _range(self, request: Request, body: dict[str, Any]) -> Any:
        self._check_split(request, body)
        start, stop = body.get("start"), body.get("stop")
        if any(
            value is not None and (not isinstance(value, int) or value < 0)
            for value in (start, stop)
        ):
            raise Refused("VALIDATION_ERROR", "start and stop are whole numbers from 0")
        return {
            "tasks": self._listed(start or 0, len(self._served.tasks) if stop is None else stop)
        }

    def _check_split(self, request: Request, body: Mapping[str, Any]) -> None:
        if request.path_params["name"].lower() != self._name.lower():
            raise Refused("VALIDATION_ERROR", "unknown environment")
        if body.get("split") != "train":
            raise Refused("VALIDATION_ERROR", "the only split is train")

    def _listed(self, start: int, stop: int) -> list[dict[str, Any]]:
        chosen = self._served.tasks[start : min(stop, start + _MAX_LISTED)]
        return [
            {"index": start + n, "task_id": task.id, "prompt": task.prompt}
            for n, task in enumerate(chosen)
        ]

    # The socket

    async def _socket(self, socket: WebSocket) -> None:
        await socket.accept()
        try:
            self._make_room()
        except Refused as refused:
            self._on_refusal(refused.code, refused.message)
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.send_text(json.dumps(refused.to_json()))
                await socket.close()
            return
        self._sockets += 1
        session = EpisodeSession(self._served)
        waiting: asyncio.Queue[str | bytes] = asyncio.Queue(_WAITING)
        # The client is listened to while a step is under way: a client that leaves ends its session
        # at once.
        tasks = [
            asyncio.create_task(_receive(socket, waiting)),
            asyncio.create_task(self._work(socket, session, waiting)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            try:
                await asyncio.shield(asyncio.ensure_future(self._end(session)))
            finally:
                with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                    await socket.close()

    async def _work(
        self, socket: WebSocket, session: EpisodeSession, waiting: asyncio.Queue[str | bytes]
    ) -> None:
        """Carry out one message after the other until the client closes.

        It also ends if the client says nothing from the beginning.

        Later a client may be silent for as long as it trains.
        """
        patience: float | None = self._idle
        while True:
            try:
                async with asyncio.timeout(patience):
                    raw = await waiting.get()
            except TimeoutError:
                return
            patience = None
            try:
                request = read_object(raw)
                if request.get("type") == "close":
                    return
                answer = await _carry_out(session, request)
            except Refused as refused:
                self._on_refusal(refused.code, refused.message)
                answer = refused.to_json()
            except Exception as error:  # a defect costs the message, and not the session
                failed = Refused("SESSION_ERROR", f"the server failed: {type(error).__name__}")
                self._on_refusal(failed.code, failed.message)
                answer = failed.to_json()
            await socket.send_text(
                json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace").decode()
            )

    async def _end(self, session: EpisodeSession) -> None:
        try:
            with contextlib.suppress(Exception):
                await session.close()
        finally:
            self._sockets -= 1


async def _receive(socket: WebSocket, waiting: asyncio.Queue[str | bytes]) -> None:
    """Read messages until the client goes."""
    while True:
        event = await socket.receive()
        if event["type"] == "websocket.disconnect":
            return
        text, data = event.get("text"), event.get("bytes")
        await waiting.put(text if text is not None else data or b"")


async def _carry_out(session: EpisodeSession, request: Mapping[str, Any]) -> dict[str, Any]:
    kind = request.get("type")
    if kind == "reset":
        return message("observation", await session.reset(request.get("data", {})))
    if kind == "step":
        return message("observation", await session.step(request.get("data")))
    if kind == "state":
        return message("state", session.state())
    if kind == "mcp":
        return message("mcp", await session.rpc(request.get("data")))
    raise Refused("UNKNOWN_TYPE", f"unknown type of message: {clean_line(str(kind), 60)}")


async def _body(request: Request) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BYTES:
            raise Refused("VALIDATION_ERROR", f"the request is larger than {MAX_BYTES >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def _guarded(app: ASGIApp, access: Access, deny: Callable[[int], None]) -> ASGIApp:
    """Return `app` for those who may use it.

    `deny` gets the HTTP status of each answer to others.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return
        headers = Headers(scope=scope)
        status = _refusal(headers, access)
        if status is None and access.token is not None:
            path = _without_token(scope["path"], access.token)
            if path is not None:
                scope = {**scope, "path": path, "raw_path": path.encode()}
            elif not _same(headers.get("authorization", "").removeprefix("Bearer "), access.token):
                status = 401
        if status is None:
            await app(scope, receive, send)
            return
        deny(status)
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
        else:
            await JSONResponse({"detail": _REFUSALS[status]}, status)(scope, receive, send)

    return guard


_REFUSALS = {
    401: "a token is wanted: Authorization: Bearer TOKEN",
    403: "web pages are not answered",
    421: "this server answers for 127.0.0.1, localhost and [::1] alone",
}


def _refusal(headers: Headers, access: Access) -> int | None:
    """Return why a request is refused whatever its token.

    A web page sends it, or a name that was made to lead here.
    """
    if "origin" in headers:
        return 403
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return 421 if access.loopback and name.lower() not in _LOOPBACK else None


def _without_token(path: str, token: str) -> str | None:
    """The path behind the token that it begins with; None where it does not."""
    first, _, rest = path.removeprefix("/").partition("/")
    return f"/{rest}" if _same(first, token) else None


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), token.encode())
