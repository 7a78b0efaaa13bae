"""A login that a server asks the user for while a session is open. The core's flows answer as the user (`flows.answers`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from hudtui.core.environment.login_file import ClientCredentials

if TYPE_CHECKING:
    from hudtui.core.environment.login_redirect import LoginRedirect

LOGIN_REQUEST = "hudtui.login"
"""Extension of an HTTP request that is part of a login, and does not go to the server itself."""


@dataclass(frozen=True)
class LoginOptions:
    """How to log in."""

    credentials: ClientCredentials | None = None
    """A client that was registered beforehand; else hudtui registers itself."""
    scope: str | None = None
    """Scopes, separated by blanks, that are asked for besides those that the server names."""
    port: int = 0
    """Port of this computer that the browser comes back to; 0 for any."""
    document: str | None = None
    """Address of a client metadata document, which some authorization servers take in place of a registration."""
    browser: bool | None = None
    """Whether the browser of this computer opens the address; None asks the user."""
    again: bool = False
    """Log in even though a login is kept."""


@dataclass(frozen=True)
class LoginNeeded:
    """A server wants a login."""

    server: str
    """The server's address as it can be shown."""
    why: Literal["none", "expired", "scope"]
    """There is no login; it has expired; or it does not cover what was asked."""
    scope: str = ""
    """The scopes that the server asks for."""


class Answerer(Protocol):
    """Answers for the user. Servers are named as they can be shown; all other texts come from them and are not trusted."""

    options: LoginOptions

    async def may_log_in(self, needed: LoginNeeded) -> bool:
        """Return whether hudtui may begin a login."""
        ...

    async def may_send_secret(self, server: str, issuer: str) -> bool:
        """Return whether the client's secret may go to the authorization server that the server names."""
        ...

    async def visit(self, server: str, address: str, redirect: LoginRedirect) -> bool:
        """Have the user open an address, until the browser has come back; False if the user gives up."""
        ...


@dataclass
class Patience:
    """Limits in seconds that stand still while a person is asked."""

    _left: dict[asyncio.Timeout, float] = field(default_factory=dict)
    """The limits that run -> the seconds that were left when the person was asked."""
    _asking: int = 0

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncGenerator[None, None]:
        """Limit the block.

        Raises:
            TimeoutError: The limit is over.
        """
        async with asyncio.timeout(None if self._asking else seconds) as limit:
            self._left[limit] = seconds
            try:
                yield
            finally:
                del self._left[limit]

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """The block waits for a person."""
        loop = asyncio.get_running_loop()
        self._asking += 1
        if self._asking == 1:
            for limit in self._left:
                if (when := limit.when()) is not None and not limit.expired():
                    self._left[limit] = max(0.0, when - loop.time())
                    limit.reschedule(None)
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                for limit, left in self._left.items():
                    if not limit.expired():
                        limit.reschedule(loop.time() + left)
