from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hudtui import __version__
from hudtui.cli.app import build


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with no programs at all."""
    monkeypatch.setenv("PATH", str(tmp_path))


def test_text(own_world: Path, bare: None) -> None:
    result = CliRunner().invoke(build(), ["doctor"])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    for words in (
        "versions",
        "hudtui.log",
        "tmux",
        "HUD_API_KEY",
        "not there, and what it would be for:",
        "○ docker or podman",
    ):
        assert words in result.stdout
    assert "to put right" not in result.stdout


def test_json(own_world: Path, bare: None) -> None:
    result = CliRunner().invoke(build(), ["doctor", "--json"])
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert report["ok"] is True
    assert {"name": "HUD_API_KEY", "value": "not set", "state": "missing"}.items() <= report[
        "keys"
    ][0].items()
    assert [fact["name"] for fact in report["versions"]][:2] == ["hudtui", "python"]


def test_an_installation_of_another_version(
    own_world: Path, bare: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = importlib.metadata.version
    monkeypatch.setattr(
        importlib.metadata, "version", lambda name: "0.0.9" if name == "hudtui" else told(name)
    )
    result = CliRunner().invoke(build(), ["doctor"])
    assert result.exit_code == 1
    wrong = result.stdout.split("to put right:")[1]
    assert f"{__version__}, but installed as 0.0.9" in wrong and "Install it again" in wrong


def test_something_wrong(own_world: Path, bare: None) -> None:
    (own_world / ".env").write_text("HUD_API_KEY=your-hud-api-key\n")
    (own_world / ".env").chmod(0o644)
    result = CliRunner().invoke(build(), ["doctor"])
    assert result.exit_code == 1
    wrong = result.stdout.split("to put right:")[1]
    assert "chmod 600" in wrong
    assert "hudtui settings set HUD_API_KEY" in wrong
    assert json.loads(CliRunner().invoke(build(), ["doctor", "--json"]).stdout)["ok"] is False
