"""Logins at servers, kept in the user's state folder: one file a server, with mode 0600.

No project ever holds one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from hudtui.core.errors import InputError
from hudtui.core.files import read_json, write_atomic
from hudtui.core.masking import mask_url
from hudtui.core.paths import app_paths, private_folder
from hudtui.core.plain import from_plain
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.environment.login_redirect import LoginRedirect

Visit = Callable[[str, str, "LoginRedirect"], Awaitable[bool]]
"""Has the user open an address until the browser is back; False if the user gives up. Gets the
server as it can be shown, the address, and the redirect that waits for the browser."""

FORMAT = 1
LOGIN_LIMIT = 300.0
"""Seconds that the user has for a login in the browser."""
_LONGEST_WAIT = LOGIN_LIMIT + 30.0
"""Seconds to wait for another login at the same server: longer than a person has for one."""


@dataclass(frozen=True)
class ClientCredentials:
    """A client that the user registered at an authorization server beforehand."""

    client_id: str
    secret: str | None = field(default=None, repr=False)
    issuer: str | None = None
    """The authorization server that the client is registered at; None for a client without a
    secret."""


@dataclass(frozen=True)
class LoginOptions:
    """A login that the user asks for."""

    credentials: ClientCredentials | None = None
    """A client that was registered beforehand; else hudtui registers itself."""
    scope: str | None = None
    """Scopes, separated by blanks, that are asked for besides those that the server names."""
    port: int = 0
    """Port of this computer that the browser comes back to; 0 for any."""
    document: str | None = None
    """Address of a client metadata document, which some authorization servers take in place of a
    registration."""
    browser: bool | None = None
    """True to open the browser of this computer, False to show the address; None asks the user."""
    visit: Visit | None = None
    """Has the user open an address."""


@dataclass(frozen=True)
class KeptLogin:
    """A login as it is kept. The values of `tokens` and `client` are secrets."""

    server: str
    tokens: Mapping[str, Any] = field(repr=False)
    expires_at: float | None = None
    """Seconds since 1970 when the access token expires; None where the authorization server does
    not say."""
    client: Mapping[str, Any] | None = field(default=None, repr=False)
    """The client as the authorization server registered it."""
    issuer: str = ""
    """The authorization server."""
    authorization_server: Mapping[str, Any] | None = None
    """Its metadata: without them a token would be refreshed at a guessed address."""
    resource: Mapping[str, Any] | None = None
    """The metadata of the server as a protected resource."""
    saved_at: float = 0.0

    @property
    def renews(self) -> bool:
        """True if a new access token is fetched without the user."""
        return bool(self.tokens.get("refresh_token"))

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be shown."""
        values = [
            self.tokens.get("access_token"),
            self.tokens.get("refresh_token"),
            (self.client or {}).get("client_secret"),
        ]
        return tuple(value for value in values if isinstance(value, str))

    @property
    def _end(self) -> datetime | None:
        """`expires_at` as a date.

        None where there is none, as when a server gives a token for a trillion years.
        """
        try:
            return (
                None
                if self.expires_at is None
                else datetime.fromtimestamp(self.expires_at, UTC).astimezone()
            )
        except (OverflowError, ValueError, OSError):
            return None

    def words(self, now: float | None = None) -> str:
        """The login in a few words: where, until when, and whether it is renewed."""
        at = (
            f"at {clean_line(mask_url(self.issuer), 120)}"
            if self.issuer
            else "without an authorization server's name"
        )
        if self.expires_at is None or (end := self._end) is None:
            return f"logged in {at}"
        when = f"{end:%Y-%m-%d %H:%M}"
        if self.renews:
            return f"logged in {at}; renewed by itself"
        if self.expires_at < (time.time() if now is None else now):
            return f"the login {at} has expired ({when})"
        return f"logged in {at} until {when}"

    def to_json(self) -> dict[str, Any]:
        """The form of `--json`: no token, no secret."""
        return {
            "server": mask_url(self.server),
            "issuer": mask_url(self.issuer),
            "scope": self.tokens.get("scope"),
            "expires_at": None
            if (end := self._end) is None
            else end.astimezone(UTC).isoformat(timespec="seconds"),
            "renews": self.renews,
        }


def server_name(url: str) -> str:
    """A server's address in the one form that its login is kept under.

    Without fragment, default port and final slash.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    default = {"http": 80, "https": 443}.get(parts.scheme)
    netloc = host if parts.port in (None, default) else f"{host}:{parts.port}"
    return urlunsplit((parts.scheme.lower(), netloc, parts.path.rstrip("/"), parts.query, ""))


def login_path(url: str) -> Path:
    """The file that holds the login at a server; it need not exist."""
    return _folder() / f"{hashlib.sha256(server_name(url).encode()).hexdigest()[:32]}.json"


def read_login(url: str) -> KeptLogin | None:
    """The login that is kept for a server, or None, also where `url` is no address.

    A damaged file counts as none.
    """
    try:
        name = server_name(url)
    except ValueError:
        return None
    login = _read(login_path(url))
    return login if login is not None and login.server == name else None


def all_logins() -> tuple[KeptLogin, ...]:
    """Every login that is kept, by server."""
    logins = (_read(path) for path in _folder().glob("*.json"))
    return tuple(
        sorted((login for login in logins if login is not None), key=lambda login: login.server)
    )


_secrets: dict[Path, dict[str, tuple[tuple[int, int], tuple[str, ...]]]] = {}
"""Values that `login_secrets` has read, by folder and file, with the file's inode and time."""


def login_secrets() -> tuple[str, ...]:
    """Return the values of all logins that must not be shown.

    Those that renewed logins had before in this process are among them.

    A file is read again only when it was replaced, so that this may be called for every episode.
    """
    folder = _folder()
    kept = _secrets.setdefault(folder, {})
    try:
        with os.scandir(folder) as entries:
            files = [
                (entry.name, entry.stat()) for entry in entries if entry.name.endswith(".json")
            ]
    except OSError:
        files = []
    for name, stat in files:
        mark, values = kept.get(name, (None, ()))
        if mark != (stat.st_ino, stat.st_mtime_ns):
            login = _read(folder / name)
            fresh = () if login is None else login.secrets
            kept[name] = (stat.st_ino, stat.st_mtime_ns), tuple(dict.fromkeys((*fresh, *values)))
    return tuple(value for _, values in kept.values() for value in values)


def write_login(login: KeptLogin) -> None:
    """Keep a login; the file is readable by the user alone.

    Raises:
        InputError: The state folder cannot be written to.
    """
    path = login_path(login.server)
    with contextlib.suppress(OSError):  # the write says what is wrong
        private_folder(path.parent)
    write_atomic(path, json.dumps({"format": FORMAT, **asdict(login)}, indent=1), mode=0o600)


def remove_login(url: str) -> bool:
    """Remove the login at a server. Returns whether there was one.

    Raises:
        InputError: The file cannot be removed.
    """
    try:
        login_path(url).unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise InputError("the login cannot be removed", why=error.strerror or str(error)) from None
    return True


@contextlib.asynccontextmanager
async def login_lock(url: str) -> AsyncGenerator[None, None]:
    """One login or refresh at a server at a time, in all processes: a refresh token counts once.

    Raises:
        InputError: Another process keeps it, or the state folder cannot be used.
    """
    import fcntl

    path = login_path(url).with_suffix(".lock")
    try:
        private_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InputError(
            f"the folder {path.parent} cannot be used", why=error.strerror or str(error)
        ) from None
    until = time.monotonic() + _LONGEST_WAIT
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise InputError(
                        f"another hudtui is logging in at {mask_url(url)}", fix="Finish that first."
                    ) from None
                await asyncio.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _folder() -> Path:
    return app_paths().state / "logins"


def _read(path: Path) -> KeptLogin | None:
    try:
        data = read_json(path)
        known = isinstance(data, dict) and data.get("format") == FORMAT
        return from_plain(data, KeptLogin) if known else None
    except InputError:
        return None
