"""The HTTP side: who is answered, keys and scopes, faults, and the record of requests."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hudtui.sim.account import SimAccount
from hudtui.sim.api import ENTRIES, PREFIX, ApiRoute
from hudtui.sim.call import SimRefused, SimRequest
from hudtui.sim.faults import Fault, FaultList, RecordedRequest

TRANSPORT = "hudtui.sim.transport"
"""Where a request's scope holds the transport of its connection."""
_HERE = frozenset({"127.0.0.1", "localhost", "[::1]"})
_LONGEST_BODY = 2**20
_HTML = "<html><head><title>503 Service Temporarily Unavailable</title></head><body><h1>503</h1></body></html>"


@dataclass
class AppState:
    """What requests are answered from."""

    world: SimAccount
    lock: RLock
    faults: FaultList = field(default_factory=FaultList)
    requests: list[RecordedRequest] = field(default_factory=list)
    origin: str = ""
    sync: Callable[[], Awaitable[None]] | None = None
    """Brings machines in step with the world; before and after each request."""
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
    """What a request is refused with that a web page sends, or that is for another host: any name can be made to lead here."""
    host = headers.get("host", "")
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    if name.lower() not in _HERE:
        return JSONResponse({"detail": "The simulator answers for 127.0.0.1, localhost and [::1] only"}, 421)
    if "origin" in headers:
        return JSONResponse({"detail": "The simulator does not answer web pages"}, 403)
    return None


def _endpoint(entry: ApiRoute, desk: AppState) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        token = _token(request.headers)
        if entry.area is not None:
            if token not in desk.world.tokens:
                return _unauthorized()
            if not _allowed(desk.world.tokens[token], entry):
                return JSONResponse({"detail": "Insufficient permissions"}, 403)
        raw = await request.body()
        try:
            body = json.loads(raw) if raw else None
        except (ValueError, RecursionError):
            return JSONResponse({"detail": [{"loc": ["body", 0], "msg": "JSON decode error", "type": "json_invalid"}]}, 422)
        query = parse_qs(request.url.query, keep_blank_values=True)
        assert desk.sync
        await desk.sync()
        with desk.lock:
            try:
                given = entry.handler(SimRequest(desk.world, {**request.path_params, "token": token}, query, body, desk.origin))
            except SimRefused as refusal:
                given = refusal.answer
            # Written down now: what is answered must not change with the world while it is sent.
            response = JSONResponse(given.body, given.status)
        if entry.method != "GET":
            await desk.sync()
        return response

    return answer


def make_app(desk: AppState, control: Sequence[Route]) -> ASGIApp:
    """The whole service.

    Paths that lack (or have) the slash of their canonical form are answered with a 307 to it.
    """
    routes = [Route(entry.path, _endpoint(entry, desk), methods=[entry.method]) for entry in ENTRIES]

    async def unknown(request: Request, error: Exception) -> Response:
        return JSONResponse(
            {"detail": "Not Found" if getattr(error, "status_code", 404) == 404 else "Method Not Allowed"},
            getattr(error, "status_code", 404),
        )

    return _Gate(Starlette(routes=[*routes, *control], exception_handlers={404: unknown, 405: unknown}), desk)


class _Gate:
    """Every request passes here. With one to the API time passes, and faults happen; all others need a key that may do all."""

    def __init__(self, app: ASGIApp, desk: AppState) -> None:
        self._app = app
        self._desk = desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        desk, method, path, headers = self._desk, scope["method"], scope["path"], Headers(scope=scope)
        refusal = _foreign(headers)
        if refusal is None and not path.startswith(PREFIX) and desk.world.tokens.get(_token(headers), {}) is not None:
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
        with desk.lock:
            desk.world.clock.tick()
            fault = desk.faults.take(method, path)
            place = len(desk.requests)
            query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            desk.requests.append(
                RecordedRequest(desk.world.clock.now(), method, path, query, _parsed(raw), None, fault.kind if fault else None)
            )

        def note(status: int | None, handled: bool) -> None:
            seen = desk.requests[place]
            desk.requests[place] = RecordedRequest(seen.at, method, path, query, seen.body, status, seen.fault, handled)

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
        self, fault: Fault, scope: Scope, receive: Receive, send: Send, note: Callable[[int | None, bool], None]
    ) -> None:
        if fault.kind in ("reset_before", "refuse", "timeout"):
            note(None, False)
            if fault.kind == "timeout":
                await _wait_or_gone(receive, fault.seconds)
            elif fault.kind == "refuse" and self._desk.refuse:
                await self._desk.refuse(fault.seconds)
            await _reset(scope)
            return
        status = {"html503": 503, "errors422": 422}.get(fault.kind, fault.status)
        response: Response = (
            Response(_HTML, 503, media_type="text/html") if fault.kind == "html503" else JSONResponse(fault.body(), status)
        )
        if fault.retry_after is not None:
            response.headers["Retry-After"] = f"{fault.retry_after:g}"
        note(status, False)
        await response(scope, receive, send)


def _cut(held: list[Message]) -> list[Message]:
    """An answer that is whole as HTTP, and whose JSON stops in the middle."""
    body = b"".join(message.get("body", b"") for message in held[1:])
    cut = body[: max(1, len(body) * 2 // 3)]
    headers = [(name, value) for name, value in held[0]["headers"] if name.lower() != b"content-length"]
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
