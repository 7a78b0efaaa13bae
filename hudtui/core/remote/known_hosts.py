"""Host keys, stored per machine at the first contact. A changed key stops everything."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.errors import InputError, MachineError
from hudtui.core.files import file_lock, write_atomic

if TYPE_CHECKING:
    import asyncssh


class HostKeyChanged(MachineError):
    """A machine shows another key than before.

    It may be another machine, or an attacker in between.
    """


@dataclass(frozen=True)
class HostKey:
    """A host key that was accepted."""

    machine: str
    fingerprint: str
    """`SHA256:...`, as `ssh-keygen -l` shows it."""
    algorithm: str
    first: bool
    """True at first sight; the key is stored from now on."""


class KnownHosts:
    """The known host keys, one file per machine."""

    def __init__(self, folder: Path | None = None) -> None:
        if folder is None:
            from hudtui.core.paths import app_paths

            folder = app_paths().state / "host-keys"
        self.folder = folder

    def path(self, machine: str) -> Path:
        """The file that holds the key of `machine`."""
        plain = re.sub(r"[^A-Za-z0-9.@_-]+", "_", machine)[:60].lstrip(".")
        return self.folder / f"{plain}-{hashlib.sha256(machine.encode()).hexdigest()[:12]}.pub"

    def known(self, machine: str) -> asyncssh.SSHKey | None:
        """The stored key of a machine; None before the first contact.

        Raises:
            MachineError: The file exists but cannot be read: that must not pass for a first
                contact.
        """
        import asyncssh

        path = self.path(machine)
        try:
            text = path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MachineError(
                f"the host key of {machine} cannot be read", why=f"{path}: {error.strerror}"
            ) from None
        try:
            return asyncssh.import_public_key(text)
        except asyncssh.KeyImportError:
            raise MachineError(
                f"the stored host key of {machine} is damaged",
                why=str(path),
                fix=(
                    "If you are sure that it is the right machine, remove that file and connect "
                    "again."
                ),
            ) from None

    def check(self, machine: str, key: asyncssh.SSHKey) -> HostKey:
        """Compare the key that a machine shows with the stored key.

        A new key is not stored yet: see `keep`.

        Raises:
            HostKeyChanged: The machine shows another key.
            MachineError: The known key cannot be read.
        """
        known = self.known(machine)
        fingerprint = key.get_fingerprint()
        algorithm = key.get_algorithm()
        if known is not None and known.public_data != key.public_data:
            raise HostKeyChanged(
                f"the host key of {machine} has CHANGED: nothing was sent to it",
                why=f"known is {known.get_fingerprint()}, it shows {fingerprint} ({algorithm}); "
                "this may be another machine, or an attacker between you and it",
                fix=(
                    f"If you know why (the machine was reinstalled), remove {self.path(machine)} "
                    "and connect again."
                ),
            )
        return HostKey(machine, fingerprint, algorithm, known is None)

    def keep(self, machine: str, key: asyncssh.SSHKey) -> None:
        """Store the key of a machine that has proved to own it.

        Raises:
            HostKeyChanged: Another key was stored meanwhile.
            MachineError: The key cannot be stored: the next contact would pass for a first contact
                again.
        """
        path = self.path(machine)
        try:
            with file_lock(path):
                if not self.check(machine, key).first:
                    return
                write_atomic(path, key.export_public_key("openssh").strip() + b"\n", mode=0o600)
        except InputError as error:
            raise MachineError(
                f"the host key of {machine} cannot be stored",
                why=f"{error.where}: {error.why}",
                fix=error.fix,
            ) from None

    def forget(self, machine: str) -> bool:
        """Remove the key of a machine that has ended; returns whether there was one."""
        try:
            self.path(machine).unlink()
        except OSError:
            return False
        return True
