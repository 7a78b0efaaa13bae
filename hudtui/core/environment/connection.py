"""One open MCP connection to one server.

Each connection has a task of its own that enters and leaves the SDK's contexts; requests may come
from any task. A broken connection is therefore a `ConnectError` of the next request, and never a
stray cancellation.

The classic handshake comes first, and the newer sessionless protocol only where a server does not
know the handshake. Environments keep state between calls, which over HTTP only the classic protocol
has sessions for; and older servers answer at once instead of after the ten seconds that a probe for
the newer protocol costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from hudtui.core.environment.bounds import (
    MAX_LOGIN_BYTES,
    MAX_MESSAGE_BYTES,
    ServerMessages,
    limit_stream,
)
from hudtui.core.environment.calls import Call, Calls, ClientMessages
from hudtui.core.environment.errors import (
    LOGIN_REQUEST,
    SDK_BROKEN_STREAM,
    explain_failure,
    rpc_fault,
    start_error,
    timeout_error,
    too_much_error,
)
from hudtui.core.environment.login_file import LOGIN_LIMIT, LoginOptions
from hudtui.core.environment.servers import Secrets, ServerSpec
from hudtui.core.environment.stdio import ServerProcess, child_environment, run_server
from hudtui.core.environment.web import HttpWatch, keep_location, web_client
from hudtui.core.errors import ConnectError, HudtuiError
from hudtui.core.http import past_proxies, tls_context
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from mcp import ClientSession

    from hudtui.core.environment.login import ServerLogin
    from hudtui.core.environment.program import Program

T = TypeVar("T")

MAX_PAGES = 1000
"""Pages of one listing that are requested."""

MAX_LISTED = 10_000
"""Entries of one listing that are kept."""

MAX_REDIRECTS = 10
"""Redirects of one message that are followed."""

_FOLLOWED = "hudtui.followed"
_QUESTIONS = {
    "elicitation/create": "you to fill in a form or to open a page",
    "sampling/createMessage": "for the answer of a model",
}
"""Requests of servers to the user that hudtui declines."""
_log = logging.getLogger("hudtui.environment")


class RpcError(Exception):
    """The server answered a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class ServerConnection:
    """An open connection to one server.

    Args:
        spec: The server, variables filled in.
        written: The server as configured.
        timeout: Seconds for the start and the handshake together, and for a request that has no
            limit of its own.
        secrets: Masked in every message.
        login: The login that the user asks for; None where only a kept one counts. The time limits
            are longer then, by what a person may take.
    """

    def __init__(
        self,
        spec: ServerSpec,
        *,
        written: ServerSpec,
        timeout: float,
        secrets: Secrets,
        login: LoginOptions | None = None,
    ) -> None:
        self.spec = spec
        self.timeout = timeout
        self._login = login
        self.written = written
        self.secrets = secrets
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._session: ClientSession | None = None
        self._process: ServerProcess | None = None
        self.program: Program | None = None
        """The program that listens at the server's URL, where it was started here."""
        self._calls = Calls(spec.name, secrets.hide)
        self._watch = HttpWatch(
            spec, written=written, secrets=secrets, calls=self._calls, seconds=timeout
        )
        self._failure: BaseException | None = None
        self._failed = asyncio.Event()
        """Set when the connection is gone and the reason known."""
        self._excess: str | None = None
        """The limit that an HTTP response exceeded, in words."""
        self._small_events = False
        """The SDK limits an event to 1 MiB."""
        self.over = False
        """The environment said with its last answer that the episode is over. MCP has no word for
        that."""
        self.declined: dict[str, str] = {}
        """Kind of question -> the first question of that kind that the server asked the user, and
        its answer, in words."""
        self.server: tuple[str, str] = ("", "")
        """The server's own name and version."""
        self.protocol = ""
        self.instructions = ""
        self.capabilities: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """Process id of a server that was started."""
        started = self._process or self.program
        return None if started is None else started.pid

    @property
    def _login_time(self) -> float:
        """Seconds that the user may take."""
        return LOGIN_LIMIT if self._login is not None else 0.0

    @property
    def refused(self) -> bool:
        """True if the server at a URL answered that it does not know the request.

        It does not know MCP's requests, or not this path.
        """
        if not self._watch.responses:
            return False
        return self._watch.responses[-1].status < 500 and self._watch.responses[-1].status not in (
            401,
            403,
            407,
            429,
        )

    @property
    def stray_output(self) -> tuple[int, str]:
        """The number of lines on standard output that were no messages, and the first of them."""
        process = self._process
        return (
            (0, "")
            if process is None
            else (process.stray, self.secrets.hide(clean_line(process.first_stray, 120)))
        )

    def errors(self) -> str:
        """The end of a started server's standard error."""
        return "" if self._process is None else self.secrets.hide(self._process.errors())

    async def open(self) -> None:
        """Start or reach the server and shake hands.

        Raises:
            SourceError: The program cannot be started.
            ConnectError: There is no connection; the error says why.
        """
        self._owner = asyncio.create_task(self._own(), name=f"mcp {self.spec.name}")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait(
                {self._owner, ready},
                timeout=self.timeout + self._login_time,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if ready.done():
                return
            if self._owner.done():
                raise self._why()
            error = timeout_error(self.spec, self.timeout, self._process, self.secrets)
            await self.close(hurry=True)
            raise error
        except asyncio.CancelledError:
            await self.close(hurry=True)
            raise
        finally:
            ready.cancel()

    async def close(self, *, hurry: bool = False) -> None:
        """Close the connection.

        A server that was started has ended when this returns, by itself or by force.

        Args:
            hurry: Allow it no time to end by itself.
        """
        owner = self._owner
        if owner is None:
            return
        loop = asyncio.get_running_loop()
        self._stop.set()
        if hurry and self._process is not None:
            self._process.hurry = True
        if not self._ready.is_set():
            owner.cancel()
        cancelled: asyncio.CancelledError | None = None
        deadline = loop.time() + (1.0 if hurry and self._process is None else 8.0)
        while not owner.done():
            try:
                await asyncio.wait({owner}, timeout=max(0.0, deadline - loop.time()))
            except asyncio.CancelledError as error:
                if (
                    cancelled is not None
                ):  # the second cancellation: the owner's own clean-up ends the process without us
                    raise
                cancelled = error
                if self._process is not None:
                    self._process.hurry = True
                else:
                    owner.cancel()
            if not owner.done() and loop.time() >= deadline:
                owner.cancel()
                deadline = loop.time() + 1.0
        if cancelled is not None:
            raise cancelled

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Send a request and return its result as raw JSON.

        The SDK checks a result as a whole, and one malformed tool would cost the others. So the
        result is what the server sent, whatever the SDK makes of it.

        Args:
            method: `tools/list`, `tools/call`, `resources/read` and so on.
            params: The request's parameters.
            timeout: Seconds to wait; None for the connection's own limit.

        Raises:
            RpcError: The server answered with a JSON-RPC error.
            ConnectError: The connection is gone, or no answer came in time. After a timeout the
                connection stays usable.
        """
        import anyio
        from mcp import MCPError
        from mcp.types import EmptyResult
        from pydantic import ValidationError

        if self._session is None or self._owner is None or self._owner.done():
            raise self._why()
        limit = self.timeout if timeout is None else timeout
        message = _request_type()(method=method, params=None if params is None else dict(params))
        asked = (
            f"{method} {clean_line(str(params['name']), 60)}"
            if params and "name" in params
            else method
        )
        with self._calls.waiting(asked, params, limit) as call:
            try:
                async with asyncio.timeout(limit + self._login_time):
                    with contextlib.suppress(ValidationError):
                        await _unless_faulty(call, self._session.send_request(message, EmptyResult))
                    assert call.result is not None
                    return call.result
            except TimeoutError:
                raise timeout_error(self.spec, limit, self._process, self.secrets, asked) from None
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                raise await self._broken() from None
            except MCPError as error:
                raise await self._request_error(error, call) from None

    async def pages(self, method: str, field: str) -> tuple[list[Any], list[str]]:
        """Return all entries of a listing, page by page, and warnings about odd paging.

        There are warnings where the server's paging makes no sense.

        Raises:
            RpcError: As for `request`.
            ConnectError: As for `request`.
        """
        listing: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            raw = await self.request(method, {"cursor": cursor} if cursor else None)
            entries = raw.get(field)
            if not isinstance(entries, list):
                return listing, [f"the server's answer to {method} holds no list of {field}"]
            listing.extend(entries)
            if len(listing) > MAX_LISTED:
                del listing[MAX_LISTED:]
                return listing, [
                    f"the server lists too many {field}: the first {MAX_LISTED:,} are used, the "
                    "others left out"
                ]
            cursor = raw.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return listing, []
            if cursor in seen:
                return listing, [
                    f"the server's pages of {field} go in a circle: reading stopped after "
                    f"{len(listing)}"
                ]
            seen.add(cursor)
        return listing, [
            f"the server lists {field} without end: reading stopped after {len(listing)}"
        ]

    async def learn_headers(self, tools: list[Any]) -> None:
        """Show the SDK the tools if the server wants arguments repeated in HTTP headers.

        Such tools name the header with `x-mcp-header`.
        """
        if self._session is None or not self.spec.url:
            return
        if self.protocol >= "2026" and "x-mcp-header" in repr(tools):
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
                _log.info(
                    "the connection to %s did not close cleanly", self.spec.name, exc_info=error
                )
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
        finally:
            self._session = None

    async def _over_pipes(self) -> None:
        command, cleanup = self.spec.to_start()
        try:
            env = child_environment(self.spec.env)
            async with run_server(
                command, self._calls, env=env, cwd=self.spec.cwd, cleanup=cleanup
            ) as (process, *pipes):
                self._process = process
                process.hurry = self._stop.is_set()
                try:
                    await asyncio.to_thread(_import_sdk)
                    await self._serve(*pipes)
                except Exception as error:
                    await process.settle()
                    self._failure = error  # who waits need not wait for the end of the process
                    self._failed.set()
                    raise
        except (OSError, ValueError) as error:
            if self._process is not None:
                raise
            raise start_error(self.spec, error) from None

    async def _over_http(self, url: str) -> None:
        await asyncio.to_thread(_import_sdk)
        import httpx2

        # Compressed, a small response could unpack to any size.
        headers = {"accept-encoding": "identity", **self.spec.headers}
        hooks: dict[str, list[Any]] = {"response": [self._note_response, _keep_origin]}
        # Each request of a login has its limit, as the connection has to wait for the user.
        limits = httpx2.Timeout(self.timeout, read=self.timeout if self._login else None)
        tls, direct = tls_context(), past_proxies(url)
        login = None
        # A login belongs to a server that stays at its address.
        if self.spec.command is None and not any(
            name.lower() == "authorization" for name in self.spec.headers
        ):
            login = await asyncio.to_thread(self._find_login, url)

        if self.spec.sse:
            from mcp.client.sse import sse_client

            def client(
                headers: dict[str, str] | None = None,
                timeout: httpx2.Timeout | None = None,
                auth: httpx2.Auth | None = None,
            ) -> Any:
                return web_client(
                    self._watch,
                    headers=headers,
                    timeout=limits,
                    auth=auth,
                    verify=tls,
                    mounts=direct,
                    follow_redirects=True,
                    event_hooks=hooks,
                )

            async with sse_client(
                url, headers=headers, httpx_client_factory=client, auth=login
            ) as streams:
                await self._serve(*streams)
            return
        from mcp.client.streamable_http import streamable_http_client

        async with web_client(
            self._watch,
            headers=headers,
            auth=login,
            verify=tls,
            mounts=direct,
            follow_redirects=True,
            timeout=limits,
            event_hooks=hooks,
        ) as web:
            try:  # the SDK's own limit of 1 MiB an event is less than a screenshot
                transport = streamable_http_client(
                    url, http_client=web, max_sse_event_size=MAX_MESSAGE_BYTES
                )
            except TypeError:  # mcp before 2.3, which trainings pin, cannot raise it
                self._small_events = True
                transport = streamable_http_client(url, http_client=web)
            async with transport as streams:
                await self._serve(*streams)

    def _find_login(self, url: str) -> ServerLogin | None:
        from hudtui.core.environment.login import login_for

        return login_for(url, self._login, self.secrets)

    async def _serve(self, incoming: Any, outgoing: Any) -> None:
        """Hold a session open over a pair of streams, until `close` or the other side's end."""
        from mcp import ClientSession
        from mcp.types import Implementation

        from hudtui import __version__

        messages = ServerMessages(incoming, self.spec.name, self._calls, asked=self._note_question)
        requests = ClientMessages(outgoing, self._calls)
        about = Implementation(name="hudtui", version=__version__)
        async with ClientSession(
            messages,
            requests,
            client_info=about,
            message_handler=_ignore,
            elicitation_callback=_decline,
        ) as session:
            with self._calls.waiting("initialize", None, self.timeout, handshake=True) as call:
                await _unless_faulty(call, self._shake_hands(session))
            info, abilities = session.server_info, session.server_capabilities
            self.server = (info.name, info.version) if info is not None else ("", "")
            self.protocol = session.protocol_version or ""
            self.instructions = session.instructions or ""
            self.capabilities = (
                abilities.model_dump(by_alias=True, exclude_none=True)
                if abilities is not None
                else {}
            )
            self._session = session
            self._ready.set()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._stop, messages.gone)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if not self._stop.is_set():
                raise messages.why or ConnectionResetError("the server has closed the connection")

    def _note_question(self, method: str, params: Any) -> None:
        if method not in _QUESTIONS or method in self.declined:
            return
        words = params.get("message") if isinstance(params, Mapping) else None
        shown = f": {clean_line(words, 200)}" if isinstance(words, str) else ""
        text = f"the server {self.spec.name!r} asked {_QUESTIONS[method]}, and was declined{shown}"
        self.declined[method] = self.secrets.hide(text)
        _log.info("%s", self.declined[method])

    async def _shake_hands(self, session: ClientSession) -> None:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED
        from pydantic import ValidationError

        try:
            await session.initialize()
            return
        except MCPError as error:
            refused = bool(self._watch.responses) and (
                self._watch.responses[-1].status in (401, 403, 407, 429)
                or self._watch.responses[-1].status >= 500
            )
            if error.code == CONNECTION_CLOSED or refused:
                raise
            first: Exception = error
        except RuntimeError as error:  # the SDK's way to say that it does not know the version
            first = error
        try:
            await session.discover()
        except (MCPError, RuntimeError, ValidationError):
            raise first from None

    async def _note_response(self, response: Any) -> None:
        """Remember a response for error messages, and limit the size of its body."""
        headers, login = response.headers, LOGIN_REQUEST in response.request.extensions
        encoding = headers.get("content-encoding", "identity").lower()
        if encoding != "identity" and response.status_code < 300:
            raise ConnectError(
                f"the server {self.spec.name!r} compresses its answer "
                f"({clean_line(encoding, 40)}), which was not asked for",
                fix="Turn compression off at the server, or at the proxy in front of it.",
            )
        kind = headers.get("content-type", "").lower()
        # Of a compressed error response the status is enough.
        most = MAX_LOGIN_BYTES if login else MAX_MESSAGE_BYTES
        response.stream = limit_stream(
            response.stream,
            most if encoding == "identity" else 0,
            events=kind.startswith("text/event-stream"),
            tell=self._ignore_excess if login else self._note_excess,
        )
        if not login:
            response.stream = self._watch.watch_body(response, response.stream)

    @staticmethod
    def _ignore_excess(words: str) -> None:
        """The login says by itself that an answer makes no sense."""

    def _note_excess(self, words: str) -> None:
        self._excess = words

    async def _request_error(self, error: Any, call: Call) -> Exception:
        """The error of a request that the SDK failed with an `MCPError`."""
        from mcp.types import CONNECTION_CLOSED

        if self._excess is not None:
            return self._excess_error()
        if error.code == CONNECTION_CLOSED and not self._calls.has_answered(call):
            return await self._broken()
        if error.message.startswith(SDK_BROKEN_STREAM):
            return ConnectError(
                f"the server {self.spec.name!r} broke off its answer to {call.asked}",
                why=error.message,
                fix=(
                    "It may have been over 1 MiB, which this version of the MCP SDK does not "
                    "accept: use mcp 2.3."
                )
                if self._small_events
                else None,
            )
        fault = (
            rpc_fault(self.spec.name, error.code, self.secrets.hide(error.message), call.text)
            if call.of_tool
            else None
        )
        return fault or RpcError(error.code, error.message)

    def _excess_error(self) -> ConnectError:
        words, self._excess = self._excess or "", None
        return too_much_error(repr(self.spec.name), words)

    async def _broken(self) -> HudtuiError:
        """Reason why the connection that just failed a request is gone.

        Lets the owner task finish first: it has the reason.
        """
        if self._owner is not None:
            reason = asyncio.ensure_future(self._failed.wait())
            await asyncio.wait(
                {self._owner, reason}, timeout=3.0, return_when=asyncio.FIRST_COMPLETED
            )
            reason.cancel()
        return self._why()

    def _why(self) -> HudtuiError:
        if self._excess is not None:
            return self._excess_error()
        if self._failure is None or isinstance(self._failure, asyncio.CancelledError):
            return ConnectError(f"the connection to the server {self.spec.name!r} is closed")
        return explain_failure(
            self._failure,
            self.spec,
            written=self.written,
            process=self._process,
            responses=self._watch.responses,
            secrets=self.secrets,
            connected=self._ready.is_set(),
        )


async def _unless_faulty(call: Call, work: Coroutine[Any, Any, T]) -> T:
    """Wait for the answer to a call.

    Raises:
        ConnectError: It turns out that none can come, or what came is none.
    """
    task = asyncio.ensure_future(work)
    first: set[asyncio.Future[Any]] = {task, call.fault}
    try:
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if not call.fault.done():
            return await task
        raise call.fault.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait(
                {task}, timeout=0.2
            )  # it tells the server that nobody waits; a stuck one is not waited for
        elif not task.cancelled():
            task.exception()  # what became of it is told by the fault


async def _keep_origin(response: Any) -> None:
    """Take a redirect for no redirect if it leads astray.

    Such a redirect leads to another origin or in a circle, or would drop the message.

    The SDK does this by itself since mcp 2.3. Before, and trainings pin 2.0, a message with its
    headers goes where a server says.
    """
    import httpx2

    location, asked = response.headers.get("location"), response.request
    if location is None or not response.has_redirect_location:
        return
    followed = asked.extensions[_FOLLOWED] = asked.extensions.get(_FOLLOWED, 0) + 1
    with contextlib.suppress(httpx2.InvalidURL, ValueError):
        target = asked.url.join(location)
        kept = asked.method == "GET" or response.status_code in (307, 308)
        upgrade = (asked.url.scheme, target.scheme) == (
            "http",
            "https",
        ) and asked.url.port is target.port is None
        same = (target.scheme, target.port) == (asked.url.scheme, asked.url.port) or upgrade
        if (
            followed <= MAX_REDIRECTS
            and kept
            and same
            and target.host == asked.url.host
            and target.userinfo in (b"", asked.url.userinfo)
        ):
            return
    keep_location(response, location)


def _import_sdk() -> None:
    """Import the MCP SDK, which takes a second or two.

    Call it in a thread, so that a screen keeps being drawn. Python writes log records that no
    handler takes to standard error; null handlers keep the libraries' records off it. A log file
    still gets them.
    """
    for name in ("mcp", "httpx2", "httpcore2", "asyncio"):
        logger = logging.getLogger(name)
        if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            logger.addHandler(logging.NullHandler())
    import mcp.client.sse
    import mcp.client.streamable_http  # noqa: F401


@functools.cache
def _request_type() -> Any:
    """A request of any method. Each parametrisation costs pydantic 30 us, so it is made once."""
    from mcp.types import Request

    return Request[dict[str, Any] | None, str]


async def _decline(context: Any, params: Any) -> Any:
    """Decline a form or a page.

    A request for a model's answer is refused by the SDK, which offers none.
    """
    from mcp.types import ElicitResult

    return ElicitResult(action="decline")


async def _ignore(message: Any) -> None:
    """Drop stray transport faults: the SDK would log them otherwise."""
