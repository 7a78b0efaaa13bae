"""One open MCP connection to one server.

A task of its own enters the SDK's contexts and leaves them; whoever uses the link may live in any task. A connection that breaks
is therefore never a cancellation that comes out of nowhere: requests answer with a `ConnectError` that says why.

The classic handshake is tried first, and the newer sessionless generation of the protocol only where a server does not know the
handshake. Environments keep a state from call to call, and over HTTP only the classic generations have sessions to keep it in;
and the servers of older environments answer at once instead of after the ten seconds that a probe for the newer one costs.

Results come as the server's raw JSON: one malformed tool or an unknown kind of content must not cost the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from hudtui.core.environment.bounds import MAX_MESSAGE_BYTES, MessageSizeCounter, ServerMessages, limit_stream
from hudtui.core.environment.errors import ResponseInfo, explain_failure, http_status_error, start_error, timeout_error
from hudtui.core.environment.servers import Secrets, ServerSpec
from hudtui.core.environment.stdio import ServerProcess, child_environment, run_server
from hudtui.core.errors import ConnectError, HudtuiError
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from mcp import ClientSession

MAX_PAGES = 1000
"""Pages of one listing that are asked for."""

MAX_LISTED = 10_000
"""Entries of one listing that are kept."""

_log = logging.getLogger("hudtui.environment")
_ENDED = ("Server returned an error response", "Session terminated", "Not Found")
_raw: ContextVar[bool] = ContextVar("hudtui_raw_results", default=False)


class RpcError(Exception):
    """The server answered a request with a protocol error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _RawResult(Exception):
    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__()
        self.result = result


class ServerConnection:
    """A connection to one server.

    Args:
        spec: The server, variables put in.
        written: The server as configured.
        timeout: Seconds for the start and the handshake together, and for a request that has no limit of its own.
        secrets: Taken out of every message.
    """

    def __init__(self, spec: ServerSpec, *, written: ServerSpec, timeout: float, secrets: Secrets) -> None:
        self.spec = spec
        self.timeout = timeout
        self._written = written
        self._secrets = secrets
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._child: ServerProcess | None = None
        self._answers: list[ResponseInfo] = []
        self._failure: BaseException | None = None
        self._excess: str | None = None
        """What was too much in an answer over HTTP."""
        self._wide = True
        self.server: tuple[str, str] = ("", "")
        """Name and version that the server gives itself."""
        self.protocol = ""
        self.instructions = ""
        self.capabilities: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """Process id of a server that was started."""
        return self._child.pid if self._child is not None else None

    @property
    def junk(self) -> tuple[int, str]:
        """How many lines of stray text the server has written to its standard output, and the first of them."""
        return (0, "") if self._child is None else (self._child.junk, self._secrets.hide(clean_line(self._child.first_junk, 120)))

    def errors(self) -> str:
        """The end of what a started server has written to standard error."""
        return "" if self._child is None else self._secrets.hide(self._child.errors())

    async def open(self) -> None:
        """Start or reach the server and shake hands.

        Raises:
            SourceError: The program cannot be started.
            ConnectError: There is no connection; the error says why.
        """
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.spec.name}")
        ready = asyncio.create_task(self._ready.wait())
        try:
            done, _ = await asyncio.wait({self._owner, ready}, timeout=self.timeout, return_when=asyncio.FIRST_COMPLETED)
            if ready in done:
                return
            if self._owner in done:
                raise self._why()
            error = timeout_error(self.spec, self.timeout, self._child, self._secrets)
            await self.close(hurry=True)
            raise error
        except asyncio.CancelledError:
            await self.close(hurry=True)
            raise
        finally:
            ready.cancel()

    async def close(self, *, hurry: bool = False) -> None:
        """Leave. A server that was started has ended when this returns, by itself or by force.

        Args:
            hurry: Allow it no time to end by itself.
        """
        owner = self._owner
        if owner is None:
            return
        loop = asyncio.get_running_loop()
        self._stop.set()
        if hurry and self._child is not None:
            self._child.hurry = True
        if not self._ready.is_set():
            owner.cancel()
        cancelled: asyncio.CancelledError | None = None
        deadline = loop.time() + (1.0 if hurry and self._child is None else 8.0)
        while not owner.done():
            try:
                await asyncio.wait({owner}, timeout=max(0.0, deadline - loop.time()))
            except asyncio.CancelledError as error:
                if cancelled is not None:  # told twice to go: the owner's own clean-up ends the process without us
                    raise
                cancelled = error
                if self._child is not None:
                    self._child.hurry = True
                else:
                    owner.cancel()
            if not owner.done() and loop.time() >= deadline:
                owner.cancel()
                deadline = loop.time() + 1.0
        if cancelled is not None:
            raise cancelled

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Ask the server, and give its result as JSON.

        Args:
            method: `tools/list`, `tools/call`, `resources/read` and so on.
            params: The request's parameters.
            timeout: Seconds to wait; None for the link's own limit.

        Raises:
            Refused: The server answered with a protocol error.
            ConnectError: The connection is gone, or no answer came in time. After the latter the connection stays usable.
        """
        import anyio
        from mcp import MCPError
        from mcp.types import REQUEST_TIMEOUT, EmptyResult

        if self._session is None or self._owner is None or self._owner.done():
            raise self._why()
        limit = self.timeout if timeout is None else timeout
        before = len(self._answers)
        token = _raw.set(True)
        try:
            await self._session.send_request(_request(method, params), EmptyResult, request_read_timeout_seconds=limit)
        except _RawResult as answer:
            return answer.result
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise await self._broken() from None
        except MCPError as error:
            if self._excess is not None:
                raise self._excessive() from None
            if error.code == REQUEST_TIMEOUT:
                asked = f"{method} {clean_line(str(params['name']), 60)}" if params and "name" in params else method
                raise timeout_error(self.spec, limit, self._child, self._secrets, asked) from None
            if error.code == -32000 and (self._owner.done() or error.message == "Connection closed"):
                raise await self._broken() from None
            latest = self._answers[-1] if len(self._answers) > before else None
            if latest is not None and latest.status >= 300 and error.message in _ENDED:
                raise self._http_error(latest, error.message) from None
            if error.message.startswith("SSE stream"):
                raise ConnectError(
                    f"the server {self.spec.name!r} broke off its answer to {method}",
                    why=error.message,
                    fix=None
                    if self._wide
                    else "It may have been over 1 MiB, which this version of the MCP SDK does not take: use mcp 2.3.",
                ) from None
            if latest is not None and latest.status < 300 and error.message.startswith("Unexpected content type"):
                raise explain_failure(
                    error, self.spec, written=self._written, child=None, answers=[latest], secrets=self._secrets
                ) from None
            raise RpcError(error.code, error.message) from None
        finally:
            _raw.reset(token)
        raise AssertionError("results always come raw")  # pragma: no cover

    async def pages(self, method: str, field: str) -> tuple[list[Any], list[str]]:
        """All entries of a listing, page by page, and warnings where the server's paging makes no sense.

        Raises:
            Refused: As for `request`.
            ConnectError: As for `request`.
        """
        found: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            raw = await self.request(method, {"cursor": cursor} if cursor else None)
            entries = raw.get(field)
            if not isinstance(entries, list):
                return found, [f"the server's answer to {method} holds no list of {field}"]
            found.extend(entries)
            if len(found) > MAX_LISTED:
                del found[MAX_LISTED:]
                return found, [f"the server lists too many {field}: the first {MAX_LISTED:,} are taken, the others left out"]
            cursor = raw.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return found, []
            if cursor in seen:
                return found, [f"the server's pages of {field} go in a circle: reading stopped after {len(found)}"]
            seen.add(cursor)
        return found, [f"the server lists {field} without end: reading stopped after {len(found)}"]

    async def learn_headers(self, tools: list[Any]) -> None:
        """Let the SDK see the tools, where a server wants arguments of theirs repeated in HTTP headers (`x-mcp-header`)."""
        if self._session is not None and self.spec.url and self.protocol >= "2026" and "x-mcp-header" in repr(tools):
            with contextlib.suppress(Exception):
                await self._session.list_tools()

    async def _own(self) -> None:
        try:
            if self.spec.url is not None:
                await self._over_http(self.spec.url)
            else:
                await self._over_pipes()
        except asyncio.CancelledError as error:
            self._failure = self._failure or error
        except BaseException as error:
            self._failure = error
            if self._stop.is_set():
                _log.info("the connection to %s did not close cleanly", self.spec.name, exc_info=error)
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._session = None

    async def _over_pipes(self) -> None:
        command, cleanup = self.spec.to_start()
        try:
            async with run_server(command, env=child_environment(self.spec.env), cwd=self.spec.cwd, cleanup=cleanup) as (
                child,
                *pipes,
            ):
                self._child = child
                child.hurry = self._stop.is_set()
                try:
                    await asyncio.to_thread(_load)
                    await self._serve(*pipes, gone=child.gone)
                except Exception:
                    await child.settle()
                    raise
        except (OSError, ValueError) as error:
            if self._child is not None:
                raise
            raise start_error(self.spec, error) from None

    async def _over_http(self, url: str) -> None:
        await asyncio.to_thread(_load)
        import httpx2

        # Packed, a small answer could become any size.
        headers = {"accept-encoding": "identity", **self.spec.headers}
        hooks: dict[str, list[Any]] = {"response": [self._note]}
        patience = httpx2.Timeout(self.timeout, read=None)

        if self.spec.sse:
            from mcp.client.sse import sse_client

            def client(
                headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
            ) -> httpx2.AsyncClient:
                return httpx2.AsyncClient(headers=headers, timeout=patience, auth=auth, follow_redirects=True, event_hooks=hooks)

            async with sse_client(url, headers=headers, httpx_client_factory=client) as streams:
                await self._serve(*streams)
            return
        from mcp.client.streamable_http import streamable_http_client

        # The SDK's limit of 1 MiB an event, where it has one, is less than a screenshot.
        known = inspect.signature(streamable_http_client).parameters
        self._wide = "max_sse_event_size" in known
        options: dict[str, Any] = {"max_sse_event_size": MAX_MESSAGE_BYTES} if self._wide else {}
        async with (
            httpx2.AsyncClient(headers=headers, follow_redirects=True, timeout=patience, event_hooks=hooks) as web,
            streamable_http_client(url, http_client=web, **options) as streams,
        ):
            await self._serve(*streams)

    async def _serve(self, incoming: Any, outgoing: Any, *, gone: asyncio.Event | None = None) -> None:
        """Hold the session open over a pair of streams, until told to stop or until the other side is gone."""
        from mcp import ClientSession
        from mcp.types import Implementation

        from hudtui import __version__

        dispatcher = _dispatcher(ServerMessages(incoming, self.spec.name), outgoing)
        about = Implementation(name="hudtui", version=__version__)
        async with ClientSession(dispatcher=dispatcher, client_info=about, message_handler=_ignore) as session:
            await self._shake_hands(session)
            info = session.server_info
            self.server = (info.name, info.version) if info is not None else ("", "")
            self.protocol = session.protocol_version or ""
            self.instructions = session.instructions or ""
            known = session.server_capabilities
            self.capabilities = known.model_dump(by_alias=True, exclude_none=True) if known is not None else {}
            self._session = session
            self._ready.set()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._stop, gone) if event is not None]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if not self._stop.is_set():
                raise ConnectionResetError("the server has closed its standard output")

    async def _shake_hands(self, session: ClientSession) -> None:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED
        from pydantic import ValidationError

        try:
            await session.initialize()
            return
        except MCPError as error:
            refused = bool(self._answers) and (
                self._answers[-1].status in (401, 403, 407, 429) or self._answers[-1].status >= 500
            )
            if error.code == CONNECTION_CLOSED or refused:
                raise
            first: Exception = error
        except RuntimeError as error:  # the SDK's way to say that the version is unknown to it
            first = error
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValidationError):
            raise first from None

    async def _note(self, response: Any) -> None:
        request = response.request
        packed = response.headers.get("content-encoding", "identity").lower()
        if packed != "identity" and response.status_code < 300:
            raise ConnectError(
                f"the server {self.spec.name!r} packs its answer ({clean_line(packed, 40)}) without being asked to",
                fix="Turn compression off at the server, or at what stands in front of it.",
            )
        events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        # Of an error that is packed the status is enough.
        bounds = MessageSizeCounter(events=events, most=MAX_MESSAGE_BYTES if packed == "identity" else 0)
        response.stream = limit_stream(response.stream, bounds, self._too_much)
        if request.method == "POST" or self.spec.sse:
            headers = response.headers
            self._answers[:-20] = []
            self._answers.append(
                ResponseInfo(
                    response.status_code,
                    str(request.url),
                    headers.get("content-type", "").lower(),
                    headers.get("www-authenticate", ""),
                    headers.get("location", ""),
                )
            )

    def _too_much(self, words: str) -> None:
        self._excess = words

    def _excessive(self) -> ConnectError:
        words, self._excess = self._excess, None
        fix = "Ask it for less at a time, or look at what it does."
        return ConnectError(f"the server {self.spec.name!r} answers more than is taken", why=f"It sent {words}.", fix=fix)

    async def _broken(self) -> HudtuiError:
        """Why the connection that just failed a request is gone. Lets the owner finish first: it is who knows."""
        if self._owner is not None:
            await asyncio.wait({self._owner}, timeout=3.0)
        return self._why()

    def _why(self) -> HudtuiError:
        if self._excess is not None:
            return self._excessive()
        if self._failure is None or isinstance(self._failure, asyncio.CancelledError):
            return ConnectError(f"the connection to the server {self.spec.name!r} is closed")
        return explain_failure(
            self._failure,
            self.spec,
            written=self._written,
            child=self._child,
            answers=self._answers,
            secrets=self._secrets,
            connected=self._ready.is_set(),
        )

    def _http_error(self, answer: ResponseInfo, message: str) -> ConnectError:
        if message == "Session terminated":
            return ConnectError(
                f"the server {self.spec.name!r} has ended the session", why=f"It answered {answer.status}.", fix="Connect again."
            )
        return http_status_error(answer, self.spec, self._written, self._secrets)


def _load() -> None:
    """Import the SDK. It takes a second or two: done in a thread, so that a screen goes on being drawn meanwhile."""
    _quiet()
    import mcp.client.sse
    import mcp.client.streamable_http
    import mcp.shared.jsonrpc_dispatcher  # noqa: F401


def _dispatcher(incoming: Any, outgoing: Any) -> Any:
    """The SDK's dispatcher, which hands out a result before it is validated when `_raw` says so."""
    from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

    class RawDispatcher(JSONRPCDispatcher[Any]):
        async def send_raw_request(self, *args: Any, **options: Any) -> dict[str, Any]:
            result = await super().send_raw_request(*args, **options)
            if _raw.get():
                raise _RawResult(result)
            return result

    return RawDispatcher(incoming, outgoing)


def _request(method: str, params: Mapping[str, Any] | None) -> Any:
    from mcp import types

    if method == "tools/call":
        return types.CallToolRequest(params=types.CallToolRequestParams.model_validate(params))
    if method == "resources/read":
        return types.ReadResourceRequest(params=types.ReadResourceRequestParams.model_validate(params))
    pages = types.PaginatedRequestParams.model_validate(params) if params else None
    listings: dict[str, Any] = {
        "tools/list": types.ListToolsRequest,
        "resources/list": types.ListResourcesRequest,
        "resources/templates/list": types.ListResourceTemplatesRequest,
        "prompts/list": types.ListPromptsRequest,
    }
    return listings[method](params=pages)


async def _ignore(message: Any) -> None:
    """Notifications and stray transport faults: the SDK would otherwise log them."""


def _quiet() -> None:
    """Keep the logs of libraries off standard error, where Python puts what no handler takes. A log file still gets them."""
    for name in ("mcp", "httpx2", "httpcore2", "asyncio"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())
