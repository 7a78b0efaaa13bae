"""The user's SSH key for rented machines.

Where it is, whether it can be used, and its public part.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core.compute.values import SshKey
from hudtui.core.errors import InputError, Location
from hudtui.core.paths import private_folder, typed_path
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    import asyncssh

    from hudtui.core.settings import Settings

VARIABLE = "PRIME_SSH_KEY_PATH"
"""The setting that names the private key. Prime's own command reads and keeps it too."""
USUAL = ("prime_key.pem", "id_ed25519", "id_ecdsa", "id_rsa")
"""Files of ~/.ssh of which the first existing one is taken where nothing is set."""


@dataclass(frozen=True)
class KeyFile:
    """A private key."""

    path: Path
    public_key: str
    """One line, as in `authorized_keys`."""
    fingerprint: str
    """`SHA256:...`, as `ssh-keygen -l` shows it."""
    locked: bool = False
    """It has a pass-phrase."""
    exposed: bool = False
    """Others on this machine may read it: `ssh` refuses such a key."""

    @property
    def warning(self) -> str | None:
        """What keeps `ssh` from using it, and what to do."""
        return (
            f"others may read {self.path}, and ssh refuses such a key: chmod 400 {self.path}"
            if self.exposed
            else None
        )

    @property
    def label(self) -> str:
        """What it is called at a provider: enough to know it by, and nothing about this machine."""
        return clean_line(f"hudtui {self.path.name}", 60)


def key_path(lookup: Callable[[str], str | None]) -> Path | None:
    """Where the private key is.

    The file that is set, or the first of `USUAL` that exists; None if there is none.
    """
    chosen = lookup(VARIABLE)
    if chosen:
        return typed_path(chosen).absolute()
    folder = Path.home() / ".ssh"
    return next((folder / name for name in USUAL if (folder / name).is_file()), None)


def usual_path() -> Path:
    """Where a new key goes, and is found without being named."""
    return Path.home() / ".ssh" / USUAL[0]


def unused_path() -> Path:
    """Where a new key goes without replacing one: the usual path, or one beside it."""
    path = usual_path()
    while path.exists():
        path = path.with_name(f"{path.stem}-new{path.suffix}")
    return path


def private_keys() -> list[Path]:
    """Return the private keys in `~/.ssh`, by name."""
    found = []
    try:
        files = sorted((Path.home() / ".ssh").iterdir())
    except OSError:
        return []
    for path in files:
        try:
            if (
                path.is_file()
                and path.suffix != ".pub"
                and b"PRIVATE KEY" in path.read_bytes()[:200]
            ):
                found.append(path)
        except OSError:
            continue
    return found


def keep_path(path: Path, settings: Settings) -> Path | None:
    """Write down that this key is for machines.

    In the user's own settings, or in the project's `.env` where that names another.

    Returns:
        The file that says it; None where the key is found without.

    Raises:
        InputError: The file cannot be written.
    """
    from hudtui.core.settings import save_project_setting, save_user_setting

    if key_path(settings.get) == path:
        return None
    if settings.origin(VARIABLE) == ".env":
        return save_project_setting(settings.folder, VARIABLE, str(path))
    return save_user_setting(VARIABLE, str(path))


def make_key(path: Path) -> Path:
    """Make a new key without a pass-phrase, with its public part beside it.

    Its owner alone can read it.

    Raises:
        InputError: It cannot be written, or there is a file of that name.
    """
    import asyncssh

    key = asyncssh.generate_private_key("ssh-ed25519", comment="hudtui")
    try:
        private_folder(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(handle, "wb") as file:
            file.write(key.export_private_key("openssh"))
        path.with_name(path.name + ".pub").write_bytes(key.export_public_key("openssh"))
    except OSError as error:
        raise InputError(f"{path} cannot be written", why=error.strerror or str(error)) from None
    return path


def read_key(path: Path) -> KeyFile:
    """Look at a private key. Its pass-phrase is not needed; its secret part is not kept.

    Raises:
        InputError: There is no such file, or it holds no private key.
    """
    import asyncssh

    path = typed_path(path).absolute()
    where = Location(str(path))
    try:
        data, mode = path.read_bytes()[:100_000], path.stat().st_mode
    except FileNotFoundError:
        raise InputError(
            "there is no such key",
            fix=f"Make one with: hudtui pods keys create {path}",
            where=where,
        ) from None
    except OSError as error:
        raise InputError("this key cannot be read", why=error.strerror, where=where) from None
    if b"PRIVATE KEY" not in data:
        hint = (
            "It is a public key; the private one has the same name without .pub."
            if path.suffix == ".pub"
            else None
        )
        raise InputError("this is not a private key", fix=hint, where=where)
    locked = False
    try:
        key = asyncssh.import_private_key(data)
        public = key.convert_to_public()
    except asyncssh.KeyEncryptionError:
        locked = True
        public = _public_beside(path)
    except asyncssh.KeyImportError as error:
        locked = "assphrase" in str(error)
        if not locked:
            raise InputError(
                "this private key cannot be understood", why=str(error), where=where
            ) from None
        public = _public_beside(path)
    exposed = os.name == "posix" and bool(stat.S_IMODE(mode) & 0o077)
    return KeyFile(
        path,
        public.export_public_key("openssh").decode().strip(),
        public.get_fingerprint(),
        locked,
        exposed,
    )


def _public_beside(path: Path) -> asyncssh.SSHKey:
    import asyncssh

    try:
        return asyncssh.read_public_key(path.with_name(path.name + ".pub"))
    except (OSError, asyncssh.KeyImportError):
        raise InputError(
            "this key has a pass-phrase, and its public part is not beside it",
            fix=f"Write it with: ssh-keygen -y -f {path} > {path}.pub",
            where=Location(str(path)),
        ) from None


def find_registered(key: KeyFile, known: Iterable[SshKey]) -> SshKey | None:
    """The provider's entry of a key: the same key, whatever its comment is."""
    return next((entry for entry in known if entry.holds(key.public_key)), None)
