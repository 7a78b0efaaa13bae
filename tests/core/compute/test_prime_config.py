"""Key, address and team: from the settings, else from what the prime command keeps, which is never written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hudtui.core.compute.prime_config import read_prime_config


def _keep(home: Path, name: str = "config.json", **values: Any) -> Path:
    path = home / ".prime" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(values))
    return path


def _none(name: str) -> str | None:
    return None


def test_nothing_is_set(tmp_path: Path) -> None:
    config = read_prime_config(_none, home=tmp_path)
    assert config.api_key is None and config.team_id is None and config.ssh_key_path is None
    assert config.base_url == "https://api.primeintellect.ai" and config.origins == {"base_url": "default"}
    assert not (tmp_path / ".prime").exists()


def test_the_command_s_own_file(tmp_path: Path) -> None:
    file = _keep(tmp_path, api_key="pit_1", base_url="https://x.invalid/api/v1", team_id="t", ssh_key_path="~/k", other=[1])
    before = file.read_bytes(), file.stat().st_mtime_ns
    config = read_prime_config(_none, home=tmp_path)
    assert config.api_key is not None and config.api_key.get_secret_value() == "pit_1"
    assert (config.base_url, config.team_id, config.ssh_key_path) == ("https://x.invalid", "t", Path("~/k").expanduser())
    assert set(config.origins.values()) == {str(file)}
    assert "pit_1" not in repr(config) and (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_the_environment_goes_first(tmp_path: Path) -> None:
    _keep(tmp_path, api_key="pit_1", team_id="")
    environment = {"PRIME_API_KEY": "pit_2", "PRIME_BASE_URL": "https://y.invalid/", "PRIME_TEAM_ID": " "}
    config = read_prime_config(environment.get, home=tmp_path)
    assert config.api_key is not None and config.api_key.get_secret_value() == "pit_2"
    assert (config.base_url, config.team_id) == ("https://y.invalid", None)
    assert config.origins == {"api_key": "PRIME_API_KEY", "base_url": "PRIME_BASE_URL"}


def test_a_profile(tmp_path: Path) -> None:
    _keep(tmp_path, api_key="pit_1", team_id="a")
    _keep(tmp_path, "environments/work.json", api_key="pit_3")
    config = read_prime_config({"PRIME_CONTEXT": "work"}.get, home=tmp_path)
    assert config.api_key is not None and config.api_key.get_secret_value() == "pit_3"
    assert config.team_id == "a"
    for name in ("../../secret", "none"):
        other = read_prime_config({"PRIME_CONTEXT": name}.get, home=tmp_path)
        assert other.api_key is not None and other.api_key.get_secret_value() == "pit_1"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    _keep(tmp_path).write_text("{broken")
    assert "cannot be read" in read_prime_config(_none, home=tmp_path).notices[0]
    _keep(tmp_path).write_text("[]")
    assert read_prime_config(_none, home=tmp_path).notices == ()
