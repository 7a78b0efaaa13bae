"""The user's keys: which there are, and the pass-phrases of those that are locked, asked once."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.remote.target import SshTarget
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import asyncssh

AskPassphrase = Callable[[str], Awaitable[str | None]]
"""Asks the user for a secret with a prompt; None when there is nobody to ask, or they declined."""

_USUAL = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
_ATTEMPTS = 3


class KeyRing:
    """The keys to try at one machine. Opened keys stay in memory, never on disk.

    Args:
        target: The machine.
        ask: Asks for pass-phrases. Without it locked keys are left to the agent.
    """

    def __init__(self, target: SshTarget, ask: AskPassphrase | None = None) -> None:
        self._target = target
        self._ask = ask
        self._open: dict[Path, asyncssh.SSHKey] = {}
        self._locked: list[Path] = []
        self._bad: dict[Path, str] = {}
        self._offered: list[str] = []

    @property
    def paths(self) -> tuple[Path, ...]:
        """The key files that count for this machine."""
        folder = Path.home() / ".ssh"
        return self._target.keys or tuple(folder / name for name in _USUAL if (folder / name).is_file())

    @property
    def agent(self) -> str:
        """Socket of the key agent; empty when there is none."""
        path = os.environ.get("SSH_AUTH_SOCK", "") if self._target.agent is None else self._target.agent
        return path if path and os.path.exists(path) else ""

    @property
    def locked(self) -> bool:
        """Some key still waits for its pass-phrase."""
        return bool(self._locked)

    @contextlib.asynccontextmanager
    async def offers(self) -> AsyncIterator[list[asyncssh.SSHKey | asyncssh.SSHKeyPair]]:
        """The keys to offer, without asking anybody: the agent's that are named, those from files, the agent's others."""
        for path in self.paths:
            if path not in self._open and path not in self._bad and path not in self._locked:
                await asyncio.to_thread(self._read, path)
        files: list[asyncssh.SSHKey | asyncssh.SSHKeyPair] = list(self._open.values())
        async with self._agent_keys() as held:
            named = {data for path in self.paths if (data := _public_data(path)) is not None}
            first = [key for key in held if key.public_data in named]
            others = [] if self._target.identities_only else [key for key in held if key.public_data not in named]
            self._offered = [f"{_comment(key)} of the agent" for key in first + others]
            yield [*first, *files, *others]

    @contextlib.asynccontextmanager
    async def _agent_keys(self) -> AsyncIterator[Sequence[asyncssh.SSHKeyPair]]:
        import asyncssh

        try:
            agent = await asyncssh.connect_agent(self.agent) if self.agent else None
        except OSError:
            agent = None  # it has gone and left its socket
        if agent is None:
            yield ()
            return
        try:
            try:
                keys = await agent.get_keys()
            except (ValueError, OSError):
                keys = ()
            yield keys
        finally:
            agent.close()
            await agent.wait_closed()

    async def unlock(self) -> bool:
        """Ask for the pass-phrases of the locked keys; whether one was opened. Each key is asked for once in a process."""
        import asyncssh

        if self._ask is None:
            return False
        opened = False
        waiting, self._locked = self._locked, []
        for path in waiting:
            self._bad[path] = "locked, and its pass-phrase was not given"
            for _ in range(_ATTEMPTS):
                words = await self._ask(f"Pass-phrase of {path}: ")
                if not words:
                    break
                try:
                    self._open[path] = await asyncio.to_thread(asyncssh.read_private_key, path, words)
                except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError):
                    self._bad[path] = "locked, and the pass-phrase was wrong"
                    continue
                del self._bad[path]
                opened = True
                break
        return opened

    def tried(self) -> tuple[str, ...]:
        """What was offered and what could not be, in words for an error."""
        words = [str(path) for path in self.paths if path in self._open]
        words += [f"{path} ({why})" for path, why in self._bad.items()]
        words += [f"{path} (locked by a pass-phrase, and nobody to ask; add it to your agent)" for path in self._locked]
        return (*words, *self._offered)

    def _read(self, path: Path) -> None:
        import asyncssh

        try:
            self._open[path] = asyncssh.read_private_key(path)
        except FileNotFoundError:
            self._bad[path] = "there is no such file"
        except OSError as error:
            self._bad[path] = error.strerror or "cannot be read"
        except (asyncssh.KeyEncryptionError, asyncssh.KeyImportError) as error:
            if "passphrase" in str(error).lower():
                self._locked.append(path)
            else:
                self._bad[path] = "is no private key that can be used"


def _public_data(path: Path) -> bytes | None:
    """What identifies a key, from the public half beside it: the private one may be locked, or in the agent alone."""
    import asyncssh

    public = path if path.suffix == ".pub" else path.with_name(path.name + ".pub")
    try:
        return asyncssh.read_public_key(public).public_data
    except (OSError, asyncssh.KeyImportError):
        return None


def _comment(key: asyncssh.SSHKeyPair) -> str:
    return clean_line(key.get_comment() or key.get_algorithm(), 80)
