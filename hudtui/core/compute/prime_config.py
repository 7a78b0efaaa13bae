"""What the Prime command line keeps, and the environment: key, address, team, SSH key. Read and never written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.prime import BASE_URL
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from pydantic import SecretStr

_FILE_KEYS = {"api_key": "api_key", "base_url": "base_url", "team_id": "team_id", "ssh_key_path": "ssh_key_path"}
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "api_key": ("PRIME_API_KEY",),
    "base_url": ("PRIME_API_BASE_URL", "PRIME_BASE_URL"),
    "team_id": ("PRIME_TEAM_ID",),
    "ssh_key_path": ("PRIME_SSH_KEY_PATH",),
}


@dataclass(frozen=True)
class PrimeConfig:
    """How to reach Prime, and as whom."""

    api_key: SecretStr | None = field(default=None, repr=False)
    base_url: str = BASE_URL
    team_id: str | None = None
    ssh_key_path: Path | None = None
    """The private key for its pods; None where nothing names one."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each value comes from: the variable's name, the file, or `default`."""
    notices: tuple[str, ...] = ()
    """What could not be read."""


def read_prime_config(lookup: Callable[[str], str | None], *, home: Path | None = None) -> PrimeConfig:
    """Key, address, team and SSH key: from the settings, else from what the `prime` command keeps in `~/.prime`.

    `PRIME_CONTEXT` names one of the command's profiles (`~/.prime/environments/<name>.json`). Empty values count as none.

    Args:
        lookup: The settings: `Settings.get` or `os.environ.get`.
        home: The user's home folder.
    """
    from pydantic import SecretStr

    folder = (home or Path.home()) / ".prime"
    profile = lookup("PRIME_CONTEXT")
    paths = [folder / "config.json"]
    if profile and Path(profile).name == profile:
        paths.insert(0, folder / "environments" / f"{profile}.json")
    notices: list[str] = []
    files = [(path, _read(path, notices)) for path in paths]
    if profile and not files[0][1]:
        notices.append(f"PRIME_CONTEXT is left out: there is no profile {clean_line(profile)} in {folder}")
    values: dict[str, str] = {}
    origins: dict[str, str] = {}
    for name, variables in _VARIABLES.items():
        for variable in variables:
            text = lookup(variable)
            if name not in values and text and text.strip():
                values[name], origins[name] = text.strip(), variable
        for path, known in files:
            text = known.get(_FILE_KEYS[name])
            if name not in values and isinstance(text, str) and text.strip():
                values[name], origins[name] = text.strip(), str(path)
    origins.setdefault("base_url", "default")
    key, ssh_key = values.get("api_key"), values.get("ssh_key_path")
    return PrimeConfig(
        api_key=SecretStr(key) if key else None,
        base_url=values.get("base_url", BASE_URL).rstrip("/").removesuffix("/api/v1"),
        team_id=values.get("team_id"),
        ssh_key_path=Path(ssh_key).expanduser() if ssh_key else None,
        origins=origins,
        notices=tuple(notices),
    )


def _read(path: Path, notices: list[str]) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_bytes()[:200_000])
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError):
        notices.append(f"{path} is left out: it cannot be read as JSON")
        return {}
    return data if isinstance(data, Mapping) else {}
