"""Logging in to a machine that its provider calls ready: keys that come late, users with other names, doors that stay shut."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from hudtui.core.compute.provider import ProvisionFailed
from hudtui.core.compute.values import Pod
from hudtui.core.errors import HudtuiError, MachineError
from hudtui.core.remote.host import Host, LoginRefused
from hudtui.core.remote.known_hosts import HostKeyChanged
from hudtui.core.text import clean_line

Login = Callable[[Pod], Awaitable[Host]]
"""Logs in to the first of a pod's addresses. `LoginRefused` tells that none of the keys fit (yet)."""

_KEY_PATIENCE = 130.0
"""Seconds for which a refused key may yet be accepted: users report up to 90."""
_DOOR_PATIENCE = 300.0
"""Seconds for which a machine that is said to be ready may not answer."""
_LOGIN_TIMEOUT = 90.0
_USERS = ("root", "ubuntu")
"""Users to try when the one that the provider named is refused."""


async def log_in_to_pod(pod: Pod, login: Login) -> tuple[Pod, Host]:
    """Log in to a machine, as the user that its provider names or another usual one.

    Returns:
        The machine, with the user that was let in, and the connection.

    Raises:
        LoginRefused: None of them was let in.
        MachineError: It could not be reached.
    """
    refusal: LoginRefused | None = None
    for user in dict.fromkeys((*(address.user for address in pod.addresses[:1]), *_USERS)):
        tried = replace(pod, addresses=tuple(replace(address, user=user) for address in pod.addresses))
        try:
            return tried, await login(tried)
        except LoginRefused as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


class LoginAttempts:
    """Attempts to log in to one machine."""

    def __init__(self, login: Login, clock: Callable[[], float]) -> None:
        self._login, self._clock = login, clock
        self._refused: float | None = None
        self._silent: float | None = None
        self.news = ""
        """What the last attempt led to, when that was new."""
        self._told = ""

    async def try_login(self, pod: Pod) -> tuple[Pod, Host] | None:
        """Log in; see `enter`. None when it may work later.

        Raises:
            ProvisionFailed: It will not work any more.
            HostKeyChanged: Somebody else answers.
        """
        try:
            async with asyncio.timeout(_LOGIN_TIMEOUT):
                return await log_in_to_pod(pod, self._login)
        except HostKeyChanged:
            raise
        except LoginRefused as error:
            refusal = error
        except (MachineError, OSError, TimeoutError) as error:
            self._closed(pod, error)
            return None
        now = self._clock()
        self._refused, self._silent = (now if self._refused is None else self._refused), None
        if now - self._refused > _KEY_PATIENCE:
            raise ProvisionFailed(
                f"{pod.addresses[0]} let none of the keys in for {now - self._refused:.0f} s",
                why=refusal.why,
                fix="Is the key that you log in with the one that the provider has for you? `hudtui keys list` shows it.",
            )
        self._say(f"{pod.addresses[0]} does not accept the key yet; trying again")
        return None

    def _closed(self, pod: Pod, error: BaseException) -> None:
        now = self._clock()
        self._silent = now if self._silent is None else self._silent
        what = error.what if isinstance(error, HudtuiError) else clean_line(str(error)) or type(error).__name__
        if now - self._silent > _DOOR_PATIENCE:
            raise ProvisionFailed(f"{pod.addresses[0]} could not be reached for {now - self._silent:.0f} s", why=what)
        self._say(f"{what}; trying again")

    def _say(self, text: str) -> None:
        self.news = text if text != self._told else ""
        self._told = text
