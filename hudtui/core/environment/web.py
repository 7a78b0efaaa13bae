"""HTTP requests to a server: asked again where it said so, watched for answers that are none."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from hudtui.core.environment.bounds import MAX_MESSAGE_BYTES
from hudtui.core.environment.calls import Call, Calls, is_answer, mended
from hudtui.core.environment.errors import (
    ResponseInfo,
    explain_failure,
    http_status_error,
    lost_session,
    rpc_fault,
    session_words,
)
from hudtui.core.environment.servers import Secrets, ServerSpec
from hudtui.core.errors import ConnectError
from hudtui.core.http import error_message, retry_after

_TOO_BUSY = (429, 502, 503)
"""Statuses of a server, or of a proxy in front of it, that has done nothing yet."""
_AGAIN = 3
"""Times that a request is sent again."""
_FIRST_WAIT = 0.1
"""Seconds before the first of them, where the server names none; twice as long before each further
one."""
_TEXT_SECONDS = 1.0
"""Seconds that the body of an error may take."""
_INVALID_PARAMS = -32602
_NO_BODY = (202, 204, 205)
"""Statuses of a response that holds no answer."""
_MESSAGE, _LOCATION = "hudtui.message", "hudtui.location"
"""Extensions: of a request its message, which a redirected one does not tell; of a response the
redirect that is not followed."""
_FIELD = re.compile(rb"[A-Za-z][\w-]*")
_MOST_LOOKS = 100
"""Times that what has come of a message is read, to see whether it is whole."""


class HttpWatch:
    """The requests to a server at a URL, and its answers.

    Args:
        spec: The server, variables filled in.
        written: The server as configured.
        secrets: Masked in every message.
        calls: The calls that wait.
        seconds: The limit of requests that are no call.
    """

    def __init__(
        self,
        spec: ServerSpec,
        *,
        written: ServerSpec,
        secrets: Secrets,
        calls: Calls,
        seconds: float,
    ) -> None:
        self._spec = spec
        self._written = written
        self._secrets = secrets
        self._calls = calls
        self._seconds = seconds
        self.responses: list[ResponseInfo] = []
        """The last responses, the newest last."""
        self._ids_vary = False
        """The server names another session with every answer, and so means nothing by it."""

    async def send(self, request: Any, forward: Callable[[], Awaitable[Any]]) -> Any:
        """Send a request by `forward`, and again where the server is too busy.

        Returns its response.
        """
        import httpx2

        message = _message_of(request)
        number = message.get("id") if "method" in message else None
        call = self._calls.find(number) if number is not None else None
        until = asyncio.get_running_loop().time() + self._seconds if call is None else call.until
        for tried in range(_AGAIN + 1):
            try:
                response = await forward()
            except httpx2.TransportError as error:
                self._not_sent(error, request, number)
                raise
            except ConnectError as error:  # of the response's form
                if call is not None:
                    self._calls.fail(error, number)
                raise
            info = await self._info(request, response)
            if request.method == "POST" or self._spec.sse:
                self.responses[:] = [*self.responses[-19:], info]
            wait = self._wait(response, tried)
            if wait is None or (call is not None and not call.waits) or _now() + wait > until:
                break
            await response.aclose()
            await asyncio.sleep(wait)
            if call is not None and not call.waits:
                break
        if call is not None:
            self._judge(request, response, message, call, info)
        elif info.status >= 400 and request.method == "GET" and "last-event-id" in request.headers:
            self._calls.fail(self._refused(info))  # the rest of an answer's stream is not to be had
        return response

    def watch_body(self, response: Any, stream: Any) -> Any:
        """Return the body of a response, mended.

        The call that waits for it is told what is no answer.
        """
        kind = response.headers.get("content-type", "").lower()
        message = _message_of(response.request)
        number = message.get("id") if "method" in message else None
        if not 200 <= response.status_code < 300 or (
            number is None and response.request.method == "POST"
        ):
            return stream
        if self._spec.sse and response.request.method == "POST":
            return _body(
                stream,
                functools.partial(
                    self._read_beside, number=number, json_=kind.startswith("application/json")
                ),
            )
        if kind.startswith("text/event-stream"):
            return _body(stream, functools.partial(_events, number=number, calls=self._calls))
        if kind.startswith("application/json") and number is not None:
            return _body(
                stream,
                functools.partial(
                    _whole, check=functools.partial(self._calls.check, number=number, alone=True)
                ),
            )
        return stream

    async def _read_beside(self, stream: Any, *, number: Any, json_: bool) -> AsyncIterator[bytes]:
        """The response to a message over SSE, whose answer comes on the stream of events.

        Only an error in it means something.
        """
        import httpx2

        try:
            data = mended(b"".join([part async for part in stream]))
        except httpx2.TransportError as error:
            self._calls.fail(self._broke_off(error), number)
            return  # raised, it would end the sending of messages, and leave the call waiting
        if json_ or data.lstrip().startswith(b"{"):
            self._check_beside(data, number)
        yield data

    def _check_beside(self, data: bytes, number: Any) -> None:
        try:
            answer = json.loads(data) if data.strip() else None
        except (ValueError, RecursionError):
            self._calls.refuse(data, number)
            return
        error = answer.get("error", answer.get("detail")) if isinstance(answer, dict) else None
        if error:
            call, fault = self._calls.find(number), None
            if call is not None and isinstance(error, dict):
                code, words = error.get("code"), error.get("message")
                if isinstance(code, int) and isinstance(words, str):
                    fault = rpc_fault(self._name, code, self._secrets.hide(words), call.text)
            self._calls.fail(fault, number) if fault is not None else self._calls.refuse(
                data, number
            )
        elif (
            isinstance(answer, dict) and "result" in answer and str(answer.get("id")) == str(number)
        ):
            self._calls.refuse(data, number, patient=True)  # the stream may bring it all the same

    def _wait(self, response: Any, tried: int) -> float | None:
        """Seconds until the request is sent again; None: it is not."""
        if response.status_code not in _TOO_BUSY or tried == _AGAIN:
            return None
        asked = retry_after(response.headers)
        return _FIRST_WAIT * 2**tried if asked is None else asked

    async def _info(self, request: Any, response: Any) -> ResponseInfo:
        headers, text = response.headers, ""
        kind = headers.get("content-type", "").lower()
        if response.status_code >= 400:
            import httpx2

            with contextlib.suppress(
                httpx2.HTTPError, httpx2.StreamError, TimeoutError, ConnectError
            ):
                async with asyncio.timeout(_TEXT_SECONDS):
                    await response.aread()
                text = error_message(
                    response.content[:MAX_MESSAGE_BYTES].decode("utf-8", "replace")[:20_000], kind
                )
        return ResponseInfo(
            response.status_code,
            str(response.request.url),
            kind,
            headers.get("www-authenticate", ""),
            headers.get("location", response.extensions.get(_LOCATION, "")),
            self._secrets.hide(text),
            session=bool(request.headers.get("mcp-session-id")),
        )

    def _judge(
        self, request: Any, response: Any, message: dict[str, Any], call: Call, info: ResponseInfo
    ) -> None:
        """Fail a call whose response cannot hold its answer, or says that the session is gone."""
        sse = self._spec.sse
        if call.handshake and not sse:
            return  # the handshake reads statuses by itself
        if (error := self._problem(info, response, call)) is not None:
            self._calls.fail(error, call.id)
        given, sent = response.headers.get("mcp-session-id"), request.headers.get("mcp-session-id")
        if given and sent and given != sent and not sse and not self._ids_vary:
            if message.get("method") != "tools/call":
                self._ids_vary = True
            else:
                self._calls.fail(
                    lost_session(self._name, "It answered in another session."), call.id
                )
        if sse and info.status >= 400:
            response.status_code = (
                202  # the SDK would send no further message; what became of this one is told
            )

    def _problem(self, info: ResponseInfo, response: Any, call: Call) -> ConnectError | None:
        if info.status >= 400:
            code = _error_code(response)
            if code is not None and not call.of_tool and not call.handshake:
                return None  # a method that it does not know
            if info.status == 404 and (info.session or self._spec.sse):
                return lost_session(self._name, f"It answered {info.status_and_words}.")
            if (
                code == _INVALID_PARAMS
                and info.status in (400, 422)
                and not session_words(info.text, call.text)
            ):
                return None  # of the arguments: the agent may do better
            if info.status == 400 and info.session:
                return lost_session(self._name, f"It answered {info.status_and_words}.")
            return http_status_error(info, self._spec, self._written, self._secrets)
        if info.status >= 300 and response.next_request is None:
            return http_status_error(info, self._spec, self._written, self._secrets)
        kinds = ("application/json", "text/event-stream")
        wrong = "html" in info.content_type or (
            not self._spec.sse
            and (info.status in _NO_BODY or not info.content_type.startswith(kinds))
        )
        if 200 <= info.status < 300 and wrong:
            if not info.content_type or info.status in _NO_BODY:
                info = replace(info, content_type="nothing")
            empty = ConnectionError(f"{info.status} without an answer")
            return _connect_error(empty, self._spec, self._written, info, self._secrets)
        return None

    def _refused(self, info: ResponseInfo) -> ConnectError:
        if info.status == 404:
            return lost_session(self._name, f"It answered {info.status_and_words}.")
        return ConnectError(
            f"the server {self._name!r} broke off its answer",
            why=f"Asked for the rest, it answered {info.status_and_words}.",
        )

    def _not_sent(self, error: Exception, request: Any, number: Any) -> None:
        """Fail the call of a request where the SDK would not, or only after many tries."""
        if (request.method == "POST" and self._spec.sse) or (
            request.method == "GET" and "last-event-id" in request.headers
        ):
            self._calls.fail(self._broke_off(error), number)

    def _broke_off(self, error: Exception) -> ConnectError:
        info = self.responses[-1:]
        why = explain_failure(
            error,
            self._spec,
            written=self._written,
            process=None,
            responses=info,
            secrets=self._secrets,
            connected=True,
        )
        return why if isinstance(why, ConnectError) else ConnectError(why.what, why=why.why)

    @property
    def _name(self) -> str:
        return self._spec.name


def _connect_error(
    error: Exception, spec: ServerSpec, written: ServerSpec, info: ResponseInfo, secrets: Secrets
) -> ConnectError:
    failure = explain_failure(
        error,
        spec,
        written=written,
        process=None,
        responses=[info],
        secrets=secrets,
        connected=True,
    )
    assert isinstance(failure, ConnectError)
    return failure


def web_client(watch: HttpWatch, **options: Any) -> Any:
    """An `httpx2.AsyncClient` whose requests go through `watch`; the options are its own."""
    return _client_class()(watch, **options)


@functools.cache
def _client_class() -> Any:
    import httpx2

    class WatchedClient(httpx2.AsyncClient):
        def __init__(self, watch: HttpWatch, **options: Any) -> None:
            super().__init__(**options)
            self._watched_by = watch

        async def send(self, request: Any, **options: Any) -> Any:
            return await self._watched_by.send(
                request, functools.partial(super().send, request, **options)
            )

    return WatchedClient


def _now() -> float:
    return asyncio.get_running_loop().time()


def keep_location(response: Any, location: str) -> None:
    """Take a redirect for none, and keep where it leads for messages."""
    del response.headers["location"]
    response.extensions[_LOCATION] = location


def _message_of(request: Any) -> dict[str, Any]:
    """The JSON-RPC message in a request; empty without one."""
    if request.method != "POST":
        return {}
    if _MESSAGE not in request.extensions:
        try:
            content = json.loads(request.content)
        except (ValueError, RecursionError, RuntimeError):  # RuntimeError: the content is a stream
            content = None
        request.extensions[_MESSAGE] = content if isinstance(content, dict) else {}
    message: dict[str, Any] = request.extensions[_MESSAGE]
    return message


def _error_code(response: Any) -> int | None:
    """The code of the JSON-RPC error in a response; None where it holds none."""
    import httpx2

    try:
        message = json.loads(response.content)
    except (ValueError, RecursionError, httpx2.StreamError):  # no JSON, or the body did not come
        return None
    error = message.get("error") if isinstance(message, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _body(stream: Any, read: Callable[[Any], AsyncIterator[bytes]]) -> Any:
    import httpx2

    class Watched(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in read(stream):
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return Watched()


async def _whole(stream: Any, *, check: Callable[[bytes], None]) -> AsyncIterator[bytes]:
    """One message as it comes, whole: nothing is read behind it, whatever length was announced.

    Where it is not whole by a few parts, it is read to its end: looking again at each part would
    take too long.
    """
    parts: list[bytes] = []
    looks = 0
    async for part in stream:
        parts.append(part)
        if looks < _MOST_LOOKS and part.rstrip().endswith(b"}"):
            looks += 1
            if _is_object(b"".join(parts)):
                break
    data = mended(b"".join(parts))
    check(data)
    yield data


def _is_object(data: bytes) -> bool:
    from pydantic_core import from_json

    try:
        return isinstance(from_json(data), dict)
    except ValueError:
        return False


async def _events(stream: Any, *, number: Any, calls: Calls) -> AsyncIterator[bytes]:
    """A stream of events, in whole lines."""
    rest: list[bytes] = []
    event = _EventReader(number, calls)
    returned = (
        False  # the last part ended with a carriage return: a line feed after it belongs to that
    )
    async for part in stream:
        data = part[1:] if returned and part.startswith(b"\n") else part
        returned = part.endswith(b"\r")
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, last = data.split(b"\n")
        if not lines:
            rest.append(last)
            continue
        lines[0] = b"".join([*rest, lines[0]])
        rest = [last]
        lines = [mended(line) for line in lines]
        for line in lines:
            event.take(line)
        yield b"".join(line + b"\n" for line in lines)
    if last := mended(b"".join(rest)):
        yield last


class _EventReader:
    """The event of a stream that is being read."""

    def __init__(self, number: Any, calls: Calls) -> None:
        self._number = number
        self._calls = calls
        self._kind = b"message"
        self._data: list[bytes] = []

    def take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            data = b"\n".join(self._data)
            if self._kind == b"message" and any(self._data):
                self._calls.check(data, self._number)
            elif self._kind == b"error" or is_answer(
                data
            ):  # the SDK passes over events of other kinds
                self._calls.refuse(data, self._number)
            self._kind, self._data = b"message", []
        elif name == b"event":
            self._kind = value or b"message"
        elif name == b"data":
            self._data.append(value)
        elif name and not _FIELD.fullmatch(name):  # neither a comment nor a field of any name
            self._calls.refuse(line, self._number)
