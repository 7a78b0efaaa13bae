"""A project: a folder, its platform, and what commands and screens read from it.

A `Project` holds no state of its own. Each of its methods reads the disk, so that another program's
change is seen; none of them connects to anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hudtui.core.lockfile import find_lock
from hudtui.core.platform import Platform, choose_platform
from hudtui.core.runs.store import RunStore
from hudtui.core.settings import Settings, load_settings
from hudtui.core.workspace import STATE_FOLDER, Workspace, open_workspace


@dataclass(frozen=True)
class Project:
    """A project folder and its platform."""

    folder: Path
    platform: Platform

    @property
    def state_dir(self) -> Path:
        """The folder of the project's runs, caches and analyses. It need not exist."""
        return self.folder / STATE_FOLDER

    @property
    def runs(self) -> RunStore:
        """The project's runs. The store opens its database at the first access, not here."""
        return RunStore(self.state_dir)

    @property
    def lock(self) -> Path | None:
        """The platform's lock file, if the folder has one."""
        return find_lock(self.folder, self.platform)

    def settings(self) -> Settings:
        """Read the settings of the folder, of the user and of the process's environment."""
        return load_settings(self.folder, self.platform)

    def workspace(self) -> Workspace:
        """Read which configurations and task files the folder holds."""
        return open_workspace(self.folder, self.platform)


def open_project(folder: Path | None = None) -> Project:
    """Return the project of a folder, with the platform that `platform.choose_platform` picks.

    Args:
        folder: The current folder when None.

    Raises:
        InputError: The platform that the environment names does not exist, or its file cannot be
            used.
    """
    chosen = Path.cwd() if folder is None else folder
    return Project(chosen, choose_platform(chosen))
