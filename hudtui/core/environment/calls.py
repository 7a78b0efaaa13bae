"""The calls of one connection that wait for an answer, and what becomes of an answer that is none.

An answer that cannot be read, or that is for another call, fails the call that waits for it at
once, with the server's words: who waits would otherwise learn of it by the time limit, and without
them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hudtui.core.errors import ConnectError
from hudtui.core.http import error_message
from hudtui.core.text import clean_line

TWICE_PATIENCE = 1.5
"""Seconds that a call waits on after an answer to an earlier call came once more: the right one may
be behind it."""

_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
    rb"|\\.",
    re.DOTALL,
)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_BYTE_ORDER = "\N{ZERO WIDTH NO-BREAK SPACE}".encode()
_MARK = "\N{REPLACEMENT CHARACTER}".encode()
_ID = re.compile(rb'"id"\s*:\s*("[^"\\]{1,64}"|-?[0-9]{1,18})')
_MEMBER = re.compile(rb'"(?:jsonrpc|result|error)"\s*:')
_PAGE = re.compile(rb"\s*<(?:!doctype\s+)?html\b", re.IGNORECASE)
_NO_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
_SHOWN = 300


def mended(data: bytes) -> bytes:
    """Return JSON as it came, with replacement marks for what is no text.

    There is a mark for each wrong byte and for each half of a surrogate pair.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode("utf-8", "replace").encode()
    if _BYTE_ORDER in data[:16]:  # before the JSON, or behind the name of an event's field
        data = data[:16].replace(_BYTE_ORDER, b"") + data[16:]
    return _ESCAPES.sub(_without_half, data) if _SURROGATE.search(data) else data


def _without_half(escape_match: re.Match[bytes]) -> bytes:
    escape = escape_match[0]
    return _MARK if len(escape) == 6 else escape


def is_answer(line: bytes) -> bool:
    """True if a line that cannot be read was meant as an answer.

    Otherwise it is a program's other output.
    """
    text = line.strip()
    if text.startswith(b"{'jsonrpc'"):
        return True  # a value of Python, printed
    return (text.startswith((b"{", b"[{")) or b'"jsonrpc"' in text) and _MEMBER.search(
        text
    ) is not None


def is_noise(line: bytes) -> bool:
    """True if a line is neither a message nor text that a program prints.

    A page, or bytes that are no text.
    """
    return _PAGE.match(line) is not None or _NO_TEXT.search(line) is not None


class Call:
    """A request that waits for its answer."""

    def __init__(
        self, asked: str, params: Mapping[str, Any] | None, until: float, *, handshake: bool
    ) -> None:
        self.asked = asked
        """The method and what it is about, for messages."""
        self.params = params
        self.until = until
        """Time at which it is given up, on the loop's clock."""
        self.handshake = handshake
        self.id: Any = None
        self.result: Mapping[str, Any] | None = None
        """The result as the server sent it."""
        self.waits = True
        self.fault: asyncio.Future[ConnectError] = asyncio.get_running_loop().create_future()
        """Done when no answer can come, or when what came is none."""

    @property
    def of_tool(self) -> bool:
        """True if it is a call of a tool, and not a question about what the server has."""
        return self.asked.startswith("tools/call")

    @property
    def text(self) -> str:
        """The call with its arguments: an error about a word in it may be about the arguments."""
        return f"{self.asked} {json.dumps(self.params, default=str)}"


_CALL: ContextVar[Call | None] = ContextVar("hudtui.call", default=None)


class Calls:
    """Calls of one connection that have no answer yet, the oldest first.

    Args:
        name: The server's name.
        hide: Masks secrets.
    """

    def __init__(self, name: str, hide: Callable[[str], str]) -> None:
        self._name = name
        self._hide = hide
        self._waiting: list[Call] = []
        self._sent: set[str] = set()
        self._answered: set[str] = set()

    @property
    def any(self) -> bool:
        """True if a call waits."""
        return bool(self._waiting)

    @contextmanager
    def waiting(
        self,
        asked: str,
        params: Mapping[str, Any] | None,
        seconds: float,
        *,
        handshake: bool = False,
    ) -> Iterator[Call]:
        """A call, for the length of the block; the requests that are sent in it are its own."""
        call = Call(asked, params, asyncio.get_running_loop().time() + seconds, handshake=handshake)
        self._waiting.append(call)
        before = _CALL.set(call)
        try:
            yield call
        finally:
            _CALL.reset(before)
            call.waits = False
            self._waiting.remove(call)

    def sent(self, number: Any) -> None:
        """Note the id of a request."""
        self._sent.add(str(number))
        if (call := _CALL.get()) is not None:
            call.id = number

    def find(self, number: Any) -> Call | None:
        """The call that waits for the answer with an id."""
        return next((call for call in self._waiting if str(call.id) == str(number)), None)

    def fail(self, error: ConnectError, number: Any = None) -> None:
        """Fail the call with an id.

        Without one, or if no call has it, the one that has waited longest.
        """
        if (call := self._of(number)) is not None:
            self._fail_one(call, error)

    def take(self, number: Any, error: Any) -> bool:
        """Note an answer that came.

        Returns whether it is for a call that was made, and not answered before.

        Args:
            number: Its id.
            error: The error that it holds, if it holds one.
        """
        key = str(number)
        if number is None:
            self.fail(self._malformed(getattr(error, "message", "") or "an error without an id"))
            return False
        if key in self._answered:
            if self._waiting:
                call = self._waiting[0]
                error = self._other(number, call)
                asyncio.get_running_loop().call_later(TWICE_PATIENCE, self._fail_one, call, error)
            return False
        if key not in self._sent:
            if self._waiting:
                self.fail(self._other(number, self._waiting[0]))
            return False
        self._answered.add(key)
        return True

    def is_for_one(self, line: bytes) -> bool:
        """True if a line is an object with the id of a call that waits."""
        from pydantic_core import from_json

        try:
            value = from_json(line)
        except ValueError:
            return False
        return (
            isinstance(value, dict)
            and value.get("id") is not None
            and self.find(value["id"]) is not None
        )

    def has_answered(self, call: Call) -> bool:
        """True if the server itself has answered a call."""
        return str(call.id) in self._answered

    def refuse(self, data: bytes, number: Any = None, *, patient: bool = False) -> None:
        """Fail a call with the words of `data`, which is no answer.

        The call is the one with the id, or else the one that has waited longest.

        Args:
            data: What came.
            number: The id, where the transport tells.
            patient: Wait a little before: its answer may be on its way.
        """
        from pydantic_core import from_json

        call = self._of(number)
        if call is None:
            return
        try:
            words = words_of(from_json(data))
        except ValueError:
            words = data.decode("utf-8", "replace")
        error = self._malformed(words, call.id)
        if patient:
            asyncio.get_running_loop().call_later(TWICE_PATIENCE, self._fail_one, call, error)
        else:
            self._fail_one(call, error)

    def check(self, data: bytes, number: Any = None, *, alone: bool = False) -> None:
        """Fail the waiting call if `data` is no message of the protocol, or answers another.

        Args:
            data: One message.
            number: The id of the request that `data` came in answer to, where the transport tells.
            alone: Nothing else can come in answer to it.
        """
        from mcp.types import jsonrpc_message_adapter
        from pydantic import ValidationError
        from pydantic_core import from_json

        try:
            value = from_json(data)
        except ValueError:
            number_match = _ID.search(data)
            known = number_match[1].strip(b'"').decode() if number_match else None
            self.fail(
                self._malformed(data.decode("utf-8", "replace"), known or number), known or number
            )
            return
        try:
            read = jsonrpc_message_adapter.validate_python(value, by_name=False)
        except ValidationError:
            if isinstance(value, dict) and "method" in value:
                return  # a malformed question of the server's own: no call waits for it
            known = value.get("id") if isinstance(value, dict) else None
            self.fail(self._malformed(words_of(value), known or number), known or number)
            return
        if alone and hasattr(read, "method"):
            self.refuse(data, number)
            return
        other = getattr(read, "id", None)
        call = (
            None
            if number is None or other is None or hasattr(read, "method")
            else self.find(number)
        )
        if call is not None and str(other) != str(number):
            self.fail(self._other(other, call), number)

    def _of(self, number: Any) -> Call | None:
        """The call with an id.

        Without one, or if no call has it, the one that has waited longest.
        """
        return (self.find(number) if number is not None else None) or (
            self._waiting[0] if self._waiting else None
        )

    def _fail_one(self, call: Call, error: ConnectError) -> None:
        if call.waits and not call.fault.done():
            call.fault.set_result(error)

    def _malformed(self, words: str, number: Any = None) -> ConnectError:
        call = self._of(number)
        to = f" to {call.asked}" if call is not None else ""
        text = self._hide(clean_line(words, _SHOWN)).strip()
        if call is not None and call.handshake:
            return ConnectError(
                f"the server {self._name!r} does not answer as an MCP server",
                why=f"It said: {text}" if text else "Its answer is empty.",
                fix=(
                    "Check the command; at a URL, the path: MCP endpoints usually end in /mcp or "
                    "/sse."
                ),
            )
        return ConnectError(
            f"the server {self._name!r} gave an answer{to} that is not of the protocol",
            why=f"It said: {text}" if text else "The answer is empty.",
            fix="Check the server's log, or use another version of it.",
        )

    def _other(self, number: Any, call: Call) -> ConnectError:
        return ConnectError(
            f"the server {self._name!r} answered another call than {call.asked}",
            why=(
                f"It answered the id {clean_line(str(number), 40)}, and was asked "
                f"{clean_line(str(call.id), 40)}."
            ),
            fix="Check the server, and any proxy in front of it.",
        )


class ClientMessages:
    """The messages to a server as a session writes them; notes the ids of its requests.

    Args:
        outgoing: The stream of messages.
        calls: Told of each request.
    """

    def __init__(self, outgoing: Any, calls: Calls) -> None:
        self._outgoing = outgoing
        self._calls = calls

    async def send(self, item: Any, /) -> None:
        """Write one message."""
        message = item.message
        if hasattr(message, "method") and getattr(message, "id", None) is not None:
            self._calls.sent(message.id)
        await self._outgoing.send(item)

    async def aclose(self) -> None:
        await self._outgoing.aclose()

    async def __aenter__(self) -> ClientMessages:
        await self._outgoing.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._outgoing.__aexit__(*error)


def words_of(message: Any) -> str:
    """The words of a message that is not of the protocol, as a server may mean them."""
    if isinstance(message, dict):
        error = message.get("error")
        if isinstance(error, dict) and isinstance(error.get("message"), str):
            code = error.get("code")
            return str(error["message"]) + (
                "" if isinstance(code, int) else f" (error code {json.dumps(code, default=str)})"
            )
        if isinstance(error, str):
            return error
    text = json.dumps(message, ensure_ascii=False, default=str)
    return error_message(text) if isinstance(message, dict) and "detail" in message else text
