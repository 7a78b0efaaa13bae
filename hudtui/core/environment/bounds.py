"""Limits on what a server may send: size of a message, and requests between two of its answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import ConnectError

if TYPE_CHECKING:
    from hudtui.core.environment.calls import Calls

MAX_MESSAGE_BYTES = 64 << 20
"""Bytes of one message."""
MAX_MESSAGE_VALUES = 2_000_000
"""Braces, brackets and commas of one message, also in texts: 32 MB of empty objects took 2.7 GB."""
MAX_LOGIN_BYTES = 1 << 20
"""Bytes of an answer of an authorization server."""
MAX_SERVER_REQUESTS = 1_000
"""Requests of the server between two of its answers."""

_EVENT_END = re.compile(rb"\n\r?\n|\r\r|\r\n\r\n")


def excess_words(most: int) -> str:
    """A message of more than `most` bytes, in words."""
    return f"more than {most >> 20} MiB in one message"


def count_values(data: bytes) -> int:
    """Braces, brackets and commas: no fewer than the values of a JSON text, but for one."""
    return data.count(b"{") + data.count(b"[") + data.count(b",")


def excess_of(size: int, values: int, most: int) -> str:
    """The exceeded limit of a message in words; empty if there is none.

    Args:
        size: Its bytes.
        values: Its number of values, by `count_values`.
        most: Bytes that it may have.
    """
    if size > most:
        return excess_words(most)
    if values > MAX_MESSAGE_VALUES:
        return f"more than {MAX_MESSAGE_VALUES:,} values in one message"
    return ""


def limit_stream(stream: Any, most: int, *, events: bool, tell: Callable[[str], None]) -> Any:
    """The body of an HTTP response, broken off where a message is too large.

    Args:
        stream: The stream of an `httpx2` response, not compressed.
        most: Bytes of a message.
        events: The body is a stream of events; an empty line ends each.
        tell: Receives the exceeded limit in words.
    """
    import httpx2

    class LimitedStream(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            size, values, tail = 0, 0, b""
            async for data in stream:
                size += len(data)
                values += count_values(data)
                if events:
                    part = tail + data  # the end of an event may lie on both sides of a cut
                    ends = [match.end() for match in _EVENT_END.finditer(part)]
                    if ends:
                        size, values = len(part) - ends[-1], count_values(part[ends[-1] :])
                    tail = part[-3:]
                if words := excess_of(size, values, most):
                    tell(words)
                    raise httpx2.StreamError(words)
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return LimitedStream()


class ServerMessages:
    """The messages of a server as a session reads them.

    Notifications and endless questions are left out.

    Args:
        incoming: The stream of messages.
        name: The server's name.
        calls: Told of each answer; those to no call are left out.
        asked: Receives the method and the parameters of each request of the server.
    """

    def __init__(
        self, incoming: Any, name: str, calls: Calls, *, asked: Callable[[str, Any], None]
    ) -> None:
        self._incoming = incoming
        self._name = name
        self._calls = calls
        self._tell_asked = asked
        self._asked = 0
        self.gone = asyncio.Event()
        """Set when no more messages can come."""
        self.why: Exception | None = None
        """The last error of the transport."""

    async def receive(self) -> Any:
        """The next message.

        Raises:
            anyio.EndOfStream: There are no more messages.
            ConnectError: The server asks without end, and does not answer.
        """
        while True:
            try:
                item = await self._incoming.receive()
            except Exception:
                self.gone.set()
                raise
            if isinstance(item, Exception):
                self.why = item  # the transport has failed the call already, or is about to end
                continue
            message: Any = item.message
            answered = hasattr(message, "result")
            if answered or not hasattr(message, "method"):
                self._asked = 0
                if not self._calls.take(message.id, getattr(message, "error", None)):
                    continue
                if answered and (call := self._calls.find(message.id)) is not None:
                    call.result = message.result
                return item
            if hasattr(message, "id"):
                self._asked += 1
                if self._asked > MAX_SERVER_REQUESTS:
                    raise ConnectError(
                        f"the server {self._name!r} sends requests without end instead of "
                        "answering",
                        why=f"It sent {MAX_SERVER_REQUESTS:,} requests in a row.",
                        fix="Check what it does, or use another version of it.",
                    )
                self._tell_asked(message.method, message.params)
                return item

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> ServerMessages:
        return self

    async def __anext__(self) -> Any:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> ServerMessages:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._incoming.__aexit__(*error)
