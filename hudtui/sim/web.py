"""The HTTP side: the port, keys and scopes, faults, and the record of requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hudtui.sim.account import SimAccount
from hudtui.sim.api import ENTRIES, PREFIX, ApiRoute, SimRefused, SimRequest
from hudtui.sim.faults import Fault, FaultList, RecordedRequest

TRANSPORT = "hudtui.sim.transport"
"""Where a request's scope holds the transport of its connection."""
_HERE = frozenset({"127.0.0.1", "localhost", "[::1]"})
_LONGEST_BODY = 2**20
_HTML = (
    "<html><head><title>503 Service Temporarily "
    "Unavailable</title></head><body><h1>503</h1></body></html>"
)


@dataclass
class AppState:
    """What requests are answered from."""

    account: SimAccount
    lock: RLock
    faults: FaultList = field(default_factory=FaultList)
    requests: list[RecordedRequest] = field(default_factory=list)
    origin: str = ""
    sync: Callable[[], Awaitable[None]] | None = None
    """Brings machines in step with the account; before and after each request."""
    refuse: Callable[[float], Awaitable[None]] | None = None
    """Closes the port for some seconds."""


def _allowed(scopes: Mapping[str, Any] | None, entry: ApiRoute) -> bool:
    if scopes is None or entry.area is None:
        return True
    scope = scopes.get(entry.area)
    return bool(scope and scope.get("read" if entry.method == "GET" else "write"))


def _token(headers: Headers) -> str:
    header = headers.get("authorization", "")
    return header.removeprefix("Bearer ") if header.startswith("Bearer ") else ""


def _unauthorized() -> Response:
    return JSONResponse({"detail": "Could not validate credentials"}, 401)


def _foreign(headers: Headers) -> Response | None:
    """What a request is refused with that a web page sends, or that is for another host.

    Any name can be made to lead here.
    """
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name.lower() not in _HERE:
        return JSONResponse(
            {"detail": "The simulator answers for 127.0.0.1, localhost and [::1] only"}, 421
        )
    if "origin" in headers:
        return JSONResponse({"detail": "The simulator does not answer web pages"}, 403)
    return None


def _endpoint(entry: ApiRoute, state: AppState) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        token = _token(request.headers)
        if entry.area is not None:
            if token not in state.account.tokens:
                return _unauthorized()
            if not _allowed(state.account.tokens[token], entry):
                return JSONResponse({"detail": "Insufficient permissions"}, 403)
        raw = await request.body()
        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            return JSONResponse(
                {
                    "detail": [
                        {"loc": ["body", 0], "msg": "JSON decode error", "type": "json_invalid"}
                    ]
                },
                422,
            )
        query = parse_qs(request.url.query, keep_blank_values=True)
        assert state.sync
        await state.sync()
        with state.lock:
            try:
                given = entry.handler(
                    SimRequest(
                        state.account,
                        {**request.path_params, "token": token},
                        query,
                        body,
                        state.origin,
                    )
                )
            except SimRefused as refusal:
                given = refusal.answer
            # Written down now: what is answered must not change with the account while it is sent.
            response = JSONResponse(given.body, given.status)
        if entry.method != "GET":
            await state.sync()
        return response

    return answer


def make_app(state: AppState, control: Sequence[Route]) -> ASGIApp:
    """The whole service.

    Paths that lack (or have) the slash of their canonical form are answered with a 307 to it.
    """
    routes = [
        Route(entry.path, _endpoint(entry, state), methods=[entry.method]) for entry in ENTRIES
    ]

    async def unknown(request: Request, error: Exception) -> Response:
        return JSONResponse(
            {
                "detail": "Not Found"
                if getattr(error, "status_code", 404) == 404
                else "Method Not Allowed"
            },
            getattr(error, "status_code", 404),
        )

    return _Gate(
        Starlette(routes=[*routes, *control], exception_handlers={404: unknown, 405: unknown}),
        state,
    )


class _Gate:
    """Every request passes here.

    With one to the API time passes, and faults happen; all others need a key that may do all.
    """

    def __init__(self, app: ASGIApp, state: AppState) -> None:
        self._app = app
        self._state = state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        state, method, path, headers = (
            self._state,
            scope["method"],
            scope["path"],
            Headers(scope=scope),
        )
        refusal = _foreign(headers)
        if (
            refusal is None
            and not path.startswith(PREFIX)
            and state.account.tokens.get(_token(headers), {}) is not None
        ):
            refusal = _unauthorized()
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        if not path.startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        raw = await _body(receive)
        if raw is None:
            await JSONResponse({"detail": "Request body is too large"}, 413)(scope, receive, send)
            return
        with state.lock:
            state.account.clock.tick()
            fault = state.faults.take(method, path)
            place = len(state.requests)
            query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            state.requests.append(
                RecordedRequest(
                    state.account.clock.now(),
                    method,
                    path,
                    query,
                    _parsed(raw),
                    None,
                    fault.kind if fault else None,
                )
            )

        def note(status: int | None, handled: bool) -> None:
            seen = state.requests[place]
            state.requests[place] = RecordedRequest(
                seen.at, method, path, query, seen.body, status, seen.fault, handled
            )

        if fault is None or fault.kind in ("slow", "malformed", "reset_after"):
            held = await self._handled(scope, raw)
            status, lost = held[0]["status"], fault is not None and fault.kind == "reset_after"
            # Before the client can know: who saw the connection end finds it in the record.
            note(None if lost else status, status < 300)
            if lost:
                await _reset(scope)
                return
            if fault is not None and fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            for message in _cut(held) if fault is not None and fault.kind == "malformed" else held:
                await send(message)
            return
        await self._fail(fault, scope, receive, send, note)

    async def _handled(self, scope: Scope, raw: bytes) -> list[Message]:
        held: list[Message] = []

        async def keep(message: Message) -> None:
            held.append(message)

        async def again() -> Message:
            return {"type": "http.request", "body": raw, "more_body": False}

        await self._app(scope, again, keep)
        return held

    async def _fail(
        self,
        fault: Fault,
        scope: Scope,
        receive: Receive,
        send: Send,
        note: Callable[[int | None, bool], None],
    ) -> None:
        if fault.kind in ("reset_before", "refuse", "timeout"):
            note(None, False)
            if fault.kind == "timeout":
                await _wait_or_gone(receive, fault.seconds)
            elif fault.kind == "refuse" and self._state.refuse:
                await self._state.refuse(fault.seconds)
            await _reset(scope)
            return
        status = {"html503": 503, "errors422": 422}.get(fault.kind, fault.status)
        response: Response = (
            Response(_HTML, 503, media_type="text/html")
            if fault.kind == "html503"
            else JSONResponse(fault.body(), status)
        )
        if fault.retry_after is not None:
            response.headers["Retry-After"] = f"{fault.retry_after:g}"
        note(status, False)
        await response(scope, receive, send)


def _cut(held: list[Message]) -> list[Message]:
    """An answer that is whole as HTTP, and whose JSON stops in the middle."""
    body = b"".join(message.get("body", b"") for message in held[1:])
    cut = body[: max(1, len(body) * 2 // 3)]
    headers = [
        (name, value) for name, value in held[0]["headers"] if name.lower() != b"content-length"
    ]
    start = {**held[0], "headers": [*headers, (b"content-length", str(len(cut)).encode())]}
    return [start, {"type": "http.response.body", "body": cut}]


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None when it is longer than any that the API takes."""
    body, more = b"", True
    while more and len(body) <= _LONGEST_BODY:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body if len(body) <= _LONGEST_BODY else None


def _parsed(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw.decode(errors="replace")


async def _wait_or_gone(receive: Receive, seconds: float) -> None:
    """Until the client has gone, but no longer than `seconds`."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    try:
        await asyncio.wait_for(gone(), seconds)
    except TimeoutError:
        return


async def _reset(scope: Scope) -> None:
    """Reset the connection of a request: the client sees RST, not an orderly end."""
    transport = scope[TRANSPORT]
    connection = transport.get_extra_info("socket")
    if connection is not None and not transport.is_closing():
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
    # The protocol must learn of it before this request returns without an answer.
    for _ in range(3):
        await asyncio.sleep(0)


class _Protocol(H11Protocol):
    """Gives requests the transport of their connection, so that it can be reset."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        app = self.app

        async def with_transport(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, TRANSPORT: transport}, receive, send)

        self.app = with_transport


class Listener:
    """Serves an ASGI application at one loopback port.

    Args:
        app: What answers.
        port: 0 chooses a free one.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.port = port
        self._config = uvicorn.Config(
            app, lifespan="off", log_config=None, log_level="critical", access_log=False
        )
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._closed_until = 0.0

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: The port is taken.
        """
        if self._server is not None:
            return
        loop = asyncio.get_running_loop()

        def protocol() -> Any:
            return _Protocol(
                config=self._config, server_state=self._state, app_state={}, _loop=loop
            )

        self._server = await loop.create_server(
            protocol, "127.0.0.1", self.port, family=socket.AF_INET, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def shut(self) -> None:
        """Refuse connections from now on, and drop those that are idle."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._state.connections):
            cycle = getattr(connection, "cycle", None)
            if (cycle is None or cycle.response_complete) and connection.transport is not None:
                connection.transport.abort()

    async def refuse(self, seconds: float) -> None:
        """Refuse connections for `seconds`."""
        loop = asyncio.get_running_loop()
        self._closed_until = loop.time() + seconds
        self.shut()
        loop.call_later(seconds, lambda: loop.create_task(self._again()))

    async def _again(self) -> None:
        if asyncio.get_running_loop().time() >= self._closed_until - 0.001:
            with contextlib.suppress(OSError):
                await self.open()

    async def close(self) -> None:
        """Close the port and every connection, and end requests still being answered."""
        self._closed_until = float("inf")
        self.shut()
        # First the connections: a request that is cancelled before would be answered with an error
        # of the simulator's own.
        for connection in tuple(self._state.connections):
            if connection.transport is not None:
                connection.transport.abort()
        for _ in range(3):
            await asyncio.sleep(0)
        tasks = list(self._state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
