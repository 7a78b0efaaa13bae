"""Limits on what a server may send: bytes and values of one message, requests between two of its answers.

A few bytes of JSON become a Python object of hundreds, so values are counted before any of them is parsed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import ConnectError

if TYPE_CHECKING:
    from hudtui.core.environment.calls import Calls

MAX_MESSAGE_BYTES = 128 * 1024 * 1024
"""Bytes of one message."""
MAX_LOGIN_BYTES = 1024 * 1024
"""Bytes of an answer of an authorization server."""
MAX_MESSAGE_VALUES = 1_000_000
"""Objects, lists and what is in them, in one message."""
MAX_SERVER_REQUESTS = 1_000
"""Requests of the server between two of its answers."""

_ESCAPED = re.compile(rb"\\.", re.DOTALL)


class MessageTooLargeError(ValueError):
    """A message is too large; the text of the error says which limit it exceeded."""


class MessageSizeCounter:
    """The size so far of one message, or of each event of a stream, which a blank line ends.

    Args:
        events: A blank line begins the next message.
        most: Bytes that one message may have.
    """

    def __init__(self, *, events: bool = False, most: int = MAX_MESSAGE_BYTES) -> None:
        self._events = events
        self._most = most
        self._size = self._values = 0
        self._early: list[bytes] | None = []
        """What came so far, while it is too short to exceed a limit: a value has a byte at least."""
        self._early_size = 0
        self._inside = False
        """The next byte is inside a JSON text."""
        self._blank = False
        """Nothing came since the last line end."""
        self._rest = b""

    def take(self, data: bytes) -> None:
        """Count the next bytes.

        Raises:
            MessageTooLargeError: The message exceeds a limit.
        """
        if self._early is not None:
            self._early.append(data)
            self._early_size += len(data)
            if self._early_size <= min(self._most, MAX_MESSAGE_VALUES):
                return
            data, self._early = b"".join(self._early), None
        data = self._rest + data
        # The last character may be the first half of a line end or of an escape.
        cut = len(data) - 1 if data.endswith(b"\r") or _open_escape(data) else len(data)
        data, self._rest = data[:cut], data[cut:]
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = data.split(b"\n")
        self._line(first)
        for line in others:
            if self._events and self._blank:
                self._size = self._values = 0
            self._inside, self._blank = False, True  # no JSON text reaches over the end of a line
            self._line(line)

    def _line(self, data: bytes) -> None:
        if not data:
            return
        self._blank = False
        self._size += len(data)
        if self._size > self._most:
            raise MessageTooLargeError(f"more than {self._most >> 20} MiB in one message")
        parts = (_ESCAPED.sub(b"", data) if b"\\" in data else data).split(b'"')
        for part in parts[self._inside :: 2]:
            self._values += part.count(b"{") + part.count(b"[") + part.count(b",")
        self._inside ^= len(parts) % 2 == 0
        if self._values > MAX_MESSAGE_VALUES:
            raise MessageTooLargeError(f"more than {MAX_MESSAGE_VALUES:,} values in one message")


def _open_escape(data: bytes) -> bool:
    return (len(data) - len(data.rstrip(b"\\"))) % 2 == 1


def limit_stream(stream: Any, bounds: MessageSizeCounter, tell: Callable[[str], None]) -> Any:
    """The body of an HTTP response, broken off where it exceeds a limit.

    Args:
        stream: The stream of an `httpx2` response, not compressed.
        bounds: Counts the bytes.
        tell: Receives the name of the exceeded limit.
    """
    import httpx2

    class Bounded(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in stream:
                try:
                    bounds.take(data)
                except MessageTooLargeError as error:
                    tell(str(error))
                    raise httpx2.StreamError(str(error)) from None
                yield data

        async def aclose(self) -> None:
            await stream.aclose()

    return Bounded()


class ServerMessages:
    """The messages of a server as a session reads them, without notifications and endless questions.

    Args:
        incoming: The stream of messages.
        name: The server's name.
        calls: Told of each answer; those to no call are left out.
        asked: Receives the method and the parameters of each request of the server.
    """

    def __init__(self, incoming: Any, name: str, calls: Calls, *, asked: Callable[[str, Any], None]) -> None:
        self._incoming = incoming
        self._name = name
        self._calls = calls
        self._tell_asked = asked
        self._asked = 0
        self.gone = asyncio.Event()
        """Set when no more messages can come."""
        self.why: Exception | None = None
        """What the transport last failed with."""
        self.raw = False
        """Hide results from the SDK, which validates them as a whole; `raw_result` returns them."""

    @property
    def last_context(self) -> Any:
        """The context variables of the last message's sender, where the stream keeps them."""
        return getattr(self._incoming, "last_context", None)

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
                if self.raw and answered:
                    message.result = {**_ANY_RESULT, "_meta": {_RAW: _Hidden.of(message.result)}}
                return item
            if hasattr(message, "id"):
                self._asked += 1
                if self._asked > MAX_SERVER_REQUESTS:
                    raise ConnectError(
                        f"the server {self._name!r} sends requests without end instead of answering",
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


class _Hidden(str):
    """A raw result that travels through the SDK as an (empty) text in `_meta`, which the SDK hands on without looking at it."""

    result: Mapping[str, Any]

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> _Hidden:
        hidden = cls()
        hidden.result = result
        return hidden


_RAW = "hudtui/result"
_LISTS = ("tools", "content", "resources", "resourceTemplates", "prompts", "contents")
# A valid result of every request that we send, in every version of the protocol.
_ANY_RESULT = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **{name: [] for name in _LISTS}}


def raw_result(result: Any) -> Mapping[str, Any]:
    """The result as the server sent it, from what the SDK made of it while `ServerMessages.raw` was set."""
    hidden: _Hidden = result.meta[_RAW]
    return hidden.result
