"""Channels of a connection: what runs on the machine, and who listens to it here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from hudtui.core.errors import MachineError
from hudtui.core.remote.ssh_connection import SshConnection, whole
from hudtui.core.remote.ssh_errors import connection_error

if TYPE_CHECKING:
    import asyncssh


class NoChannel(MachineError):
    """The machine allows no more channels on this connection."""


class ChannelListener:
    """Listens to a channel. An `asyncssh.SSHClientSession` by its methods, not by its class: asyncssh is imported late."""

    def connection_made(self, chan: Any) -> None:
        """The channel is there."""

    def session_started(self) -> None:
        """The command runs."""

    def data_received(self, data: bytes, datatype: int | None) -> None:
        """Output came; `datatype` is None for standard output."""

    def eof_received(self) -> bool:
        """One direction is closed; True keeps the other open."""
        return True

    def pause_writing(self) -> None:
        """Input waits in the channel."""

    def resume_writing(self) -> None:
        """Input goes on."""

    def exit_status_received(self, status: int) -> None:
        """The command ended."""

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        """A signal ended the command."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is closed, or the connection with it."""


async def open_channel(
    link: SshConnection, connection: asyncssh.SSHClientConnection, command: str, session: ChannelListener
) -> asyncssh.SSHClientChannel[bytes]:
    """A channel that runs `command`.

    Raises:
        Disconnected: The connection was lost before.
        NoChannel: The machine allows no more channels, or no commands.
    """
    import asyncssh

    try:
        with whole(connection):
            channel, _ = await connection.create_session(
                lambda: cast("asyncssh.SSHClientSession[bytes]", session), command, encoding=None
            )
    except asyncssh.ChannelOpenError as error:
        if connection.is_closed() or (error.code == asyncssh.OPEN_CONNECT_FAILED and "closed" in error.reason.lower()):
            raise connection_error(asyncssh.ConnectionLost(error.reason), link.target) from None
        raise NoChannel(
            f"{link.target.name} opened no channel for a command",
            why=error.reason,
            fix="Its SSH server may allow too few at once (MaxSessions in sshd_config).",
        ) from None
    except (asyncssh.Error, OSError) as error:
        raise connection_error(error, link.target) from None
    return channel
