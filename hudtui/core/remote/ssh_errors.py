"""What can go wrong between here and a machine, in words; and which of it may heal by itself."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hudtui.core.errors import MachineError
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.remote.target import SshTarget


class Disconnected(MachineError):
    """The machine cannot be reached at the moment: it may be there again in a while."""


class LoginRefused(MachineError):
    """The machine was reached, and let none of the keys in."""


def connection_error(
    error: BaseException, target: SshTarget, tried: Sequence[str] = (), *, timeout: float | None = None
) -> MachineError:
    """The failure of a connection as an error for a user.

    Args:
        error: What asyncssh or the system raised.
        target: The machine.
        tried: The keys that were offered, in words.
        timeout: Seconds that were waited.
    """
    import asyncssh

    if isinstance(error, MachineError):
        return error
    name = target.name
    if isinstance(error, asyncssh.PermissionDenied | asyncssh.IllegalUserName):
        offered = "tried: " + ", ".join(tried) if tried else "there was no key to try"
        return LoginRefused(
            f"{name} refused the login",
            why=f"{offered}",
            fix="Check the user name, and that the public key is in ~/.ssh/authorized_keys there; "
            "name the right key by IdentityFile in ~/.ssh/config.",
        )
    if isinstance(error, ConnectionRefusedError) or getattr(error, "errno", None) == errno.ECONNREFUSED:
        return Disconnected(
            f"{name} refused the connection",
            why=f"nothing listens on port {target.port} of {target.host}",
            fix="Check the port; a machine that is starting may need a minute.",
        )
    if isinstance(error, TimeoutError):
        waited = f" within {timeout:g} s" if timeout else ""
        return Disconnected(
            f"{name} did not answer{waited}", fix="Check the address, your network, and whether a firewall is in between."
        )
    if isinstance(error, socket.gaierror):
        return Disconnected(
            f"the address of {name} is not known", why=error.strerror, fix="Check the spelling, and your network or VPN."
        )
    if isinstance(error, OSError):
        return Disconnected(f"{name} cannot be reached", why=error.strerror or str(error), fix="Check your network or VPN.")
    if isinstance(error, asyncssh.KeyExchangeFailed | asyncssh.ProtocolNotSupported):
        return MachineError(f"{name} and this program have no way to talk in common", why=clean_line(str(error), 300))
    if isinstance(error, asyncssh.Error):
        return Disconnected(f"the connection with {name} was lost", why=clean_line(str(error), 300) or None)
    return MachineError(f"{name} cannot be used", why=clean_line(str(error), 300) or type(error).__name__)
