"""Folders of this program's own files, outside any workspace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_NAMED_BY = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class AppPaths:
    """The program's folders. None of them need exist."""

    config: Path
    """Settings of the user, and platforms of their own."""
    data: Path
    """Folder of files that are kept for good."""
    state: Path
    """Logs and what the app remembers between sessions."""
    cache: Path
    """Folder of files that can be made again at any time."""

    @property
    def log_file(self) -> Path:
        """The log of the app itself."""
        return self.state / "hudtui.log"

    @property
    def settings_file(self) -> Path:
        """The user's settings, in the form of a `.env` file."""
        return self.config / "settings.env"

    @property
    def platforms(self) -> Path:
        """Platforms that the user has declared, one YAML file each."""
        return self.config / "platforms"


def typed_path(text: str | Path) -> Path:
    """A path as a user writes it, with `~` and `~name` as homes.

    That of a user who is not known stays as it stands.

    `Path.expanduser` raises `RuntimeError` for it.
    """
    return Path(os.path.expanduser(text))


def private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone.

    The umask makes no difference.

    Whoever could write one above it could put another folder in its place.

    Raises:
        OSError: It cannot be made.
    """
    if not path.parent.exists():
        private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def app_paths() -> AppPaths:
    """The folders by the rules of the system; all of them below `HUDTUI_HOME` when that is set."""
    home = os.environ.get("HUDTUI_HOME")
    if home:
        base = typed_path(home).absolute()
        return AppPaths(base / "config", base / "data", base / "state", base / "cache")
    return _system_paths(*(os.environ.get(name) for name in _NAMED_BY))


@lru_cache(maxsize=4)
def _system_paths(*named_by: str | None) -> AppPaths:
    """The folders by the variables that name them; they are asked for with every episode."""
    from platformdirs import PlatformDirs

    folders = PlatformDirs("hudtui", appauthor=False)
    return AppPaths(
        folders.user_config_path,
        folders.user_data_path,
        folders.user_state_path,
        folders.user_cache_path,
    )
