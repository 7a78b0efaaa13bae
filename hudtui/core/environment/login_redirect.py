"""The place that the browser comes back to after a login.

A port of this computer, or an address that the user pastes.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Self
from urllib.parse import parse_qs, urlsplit

from hudtui.core.errors import InputError
from hudtui.core.text import clean_line

_PATH = "/callback"
_MOST_HEAD = 32_768
"""Bytes of a request up to its blank line."""
_PAGE = (
    b"<!doctype html><meta charset=utf-8><title>hudtui</title>"
    b"<p>hudtui has the answer of the login. You can close this page and go back to the "
    b"terminal.</p>"
)


class LoginRedirect:
    """Waits for the answer of an authorization server.

    `async with LoginRedirect(port) as redirect`. Only an answer with the right `state` counts:
    whatever else a page in the browser sends here is ignored.

    Args:
        port: The port to listen at; 0 for any that is free.

    Raises:
        InputError: The port is not free.
    """

    def __init__(self, port: int = 0) -> None:
        self.done = asyncio.Event()
        """The answer is there."""
        self.uri = ""
        """The redirect URI."""
        self.code = ""
        self.state = ""
        self.issuer: str | None = None
        """`iss` of the answer, where it has one."""
        self.refused = ""
        """Reason why there is no code; empty where there is one."""
        self._port = port
        self._expected = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._serve, "127.0.0.1", self._port, limit=_MOST_HEAD
            )
        except OSError as error:
            raise InputError(
                f"port {self._port} of this computer is not free", why=error.strerror
            ) from None
        self.uri = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    def expect(self, state: str) -> None:
        """Take an answer with this `state` from now on."""
        self._expected = state

    def take(self, address: str) -> bool:
        """Take the answer that an address holds.

        Returns False for an address that is not of this login.
        """
        try:
            fields = parse_qs(urlsplit(address.strip()).query)
        except ValueError:
            return False
        state, code, refused = (fields.get(name, [""])[0] for name in ("state", "code", "error"))
        if (
            not self._expected
            or not secrets.compare_digest(state.encode(), self._expected.encode())
            or not (code or refused)
        ):
            return False
        if not self.done.is_set():
            self.code, self.state, self.issuer = code, state, fields.get("iss", [None])[0]
            about = fields.get("error_description", [""])[0]
            self.refused = (
                "" if code else clean_line(f"{refused}: {about}" if about else refused, 300)
            )
            self.done.set()
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(20):
                head = await reader.readuntil(b"\r\n\r\n")
                words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
                asked = words[1] if len(words) == 3 and words[0] == "GET" else ""
                good = asked.partition("?")[0] == _PATH and self.take(asked)
                status, body = (b"200 OK", _PAGE) if good else (b"404 Not Found", b"")
                writer.write(
                    b"HTTP/1.1 %s\r\ncontent-type: text/html\r\ncontent-length: %d\r\n"
                    b"referrer-policy: no-referrer\r\n"
                    b"connection: close\r\n\r\n%s" % (status, len(body), body)
                )
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()
