from __future__ import annotations

import asyncio
import os
import stat
import time
from pathlib import Path

import pytest

import hudtui.core.doctor as doctor
from hudtui.core.doctor import GROUPS, DoctorReport, Fact, examine


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the path: what is put in there is all that is installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def fact(report: DoctorReport, group: str, name: str) -> Fact:
    found = [one for one in report.group(group) if one.name == name]
    assert found, [one.name for one in report.group(group)]
    return found[-1]


async def test_a_bare_machine(own_world: Path, programs: Path) -> None:
    report = await examine(own_world)
    assert report.ok
    assert [fact.name for fact in report.of_state("problem")] == []
    for name in ("tmux", "ssh", "git", "npx", "uv", "docker or podman"):
        missing = fact(report, "programs", name)
        assert missing.state == "missing"
        assert missing.fix
    for name in ("HUD_API_KEY", "WANDB_API_KEY", "PRIME_API_KEY", "OPENAI_API_KEY", "HF_TOKEN"):
        assert fact(report, "keys", name).state == "missing"
    assert fact(report, "keys", "BUCKEYE_API_KEY").state == "info"
    assert fact(report, "keys", "HUDTUI_SIM_KEY").state == "info"
    assert fact(report, "workspace", "platform").value == "HUD (the default)"
    assert list(report.to_json()) == ["ok", *GROUPS]
    assert list(own_world.iterdir()) == []


async def test_places(own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = own_world / "home"
    monkeypatch.setenv("HUDTUI_HOME", str(home))
    report = await examine(own_world)
    for name in ("config", "data", "state", "cache"):
        assert fact(report, "places", name).value == f"{home / name} (not made yet)"
    assert str(home / "state" / "hudtui.log") in fact(report, "places", "log").value
    (own_world / "file").touch()
    monkeypatch.setenv("HUDTUI_HOME", str(own_world / "file"))
    report = await examine(own_world)
    assert fact(report, "places", "state").state == "problem"
    assert not report.ok


async def test_programs_say_their_version(own_world: Path, programs: Path) -> None:
    program(programs, "tmux", "echo tmux 3.4")
    program(programs, "ssh", "echo OpenSSH_9 >&2")
    program(programs, "git", "echo broken >&2; exit 3")
    program(programs, "docker", "echo Cannot connect to the daemon >&2; exit 1")
    program(programs, "podman", "printf '5.1\\033[31m\\n'")
    report = await examine(own_world)
    assert fact(report, "programs", "tmux") == Fact(
        "programs", "tmux", f"tmux 3.4 ({programs}/tmux)", "ok"
    )
    assert "OpenSSH_9" in fact(report, "programs", "ssh").value
    assert fact(report, "programs", "git").state == "problem"
    assert "broken" in fact(report, "programs", "git").value
    assert fact(report, "programs", "podman").value == f"5.1 ({programs}/podman)"
    # One engine that works is enough.
    assert fact(report, "programs", "docker").state == "info"
    (programs / "podman").unlink()
    report = await examine(own_world)
    assert fact(report, "programs", "docker").state == "missing"
    assert "Cannot connect" in fact(report, "programs", "docker").value


async def test_a_program_that_hangs(
    own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PROGRAM_TIMEOUT", 0.3)
    program(programs, "tmux", f"echo $$ > {own_world}/pid; exec /bin/sleep 60")
    start = time.monotonic()
    report = await examine(own_world)
    assert time.monotonic() - start < 20
    assert "does not answer" in fact(report, "programs", "tmux").value
    with pytest.raises(ProcessLookupError):
        os.kill(int((own_world / "pid").read_text()), 0)


async def test_keys_are_never_shown(
    own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "secret-wandb-value-1")
    (own_world / ".env").write_text("HUD_API_KEY=secret-hud-value-123\nHF_TOKEN=your-token\n")
    (own_world / ".env").chmod(0o600)
    report = await examine(own_world)
    assert fact(report, "keys", "HUD_API_KEY").value == f"set (from {own_world}/.env:1)"
    assert fact(report, "keys", "WANDB_API_KEY").value == "set (from environment)"
    assert fact(report, "keys", "HF_TOKEN").state == "problem"
    assert "secret" not in str(report.to_json())
    assert not report.ok


async def test_the_env_file(
    own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = own_world / ".env"
    env.write_text("A=1\n")
    env.chmod(0o644)
    report = await examine(own_world)
    assert fact(report, "workspace", ".env").fix == f"chmod 600 {env}"
    env.chmod(0o600)
    report = await examine(own_world)
    assert fact(report, "workspace", ".env").state == "ok"


async def test_the_key_of_a_simulator_is_missing_only_where_one_is_used(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for simulator, state in (("demo", "info"), ("http://127.0.0.1:9", "missing")):
        monkeypatch.setenv("HUDTUI_SIM", simulator)
        assert fact(await examine(own_world), "keys", "HUDTUI_SIM_KEY").state == state


async def test_keys_that_git_would_take_along(own_world: Path) -> None:
    (own_world / ".env").write_text("A=1\n")
    (own_world / ".env").chmod(0o600)
    assert fact(await examine(own_world), "workspace", ".env").state == "ok"  # no repository
    git = await asyncio.create_subprocess_exec("git", "init", "-q", cwd=own_world)
    assert await git.wait() == 0
    bad = fact(await examine(own_world), "workspace", ".env")
    assert bad.state == "problem"
    assert ".gitignore" in (bad.fix or "")
    (own_world / ".gitignore").write_text(".env\n")
    assert fact(await examine(own_world), "workspace", ".env").state == "ok"


async def test_the_ssh_key(
    own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = own_world / "prime_key.pem"
    monkeypatch.setenv("PRIME_SSH_KEY_PATH", str(key))
    assert fact(await examine(own_world), "keys", "SSH key").state == "problem"
    key.write_text("x")
    key.chmod(0o644)
    assert "chmod 400" in (fact(await examine(own_world), "keys", "SSH key").fix or "")
    key.chmod(stat.S_IRUSR)
    assert fact(await examine(own_world), "keys", "SSH key").state == "ok"


async def test_trouble_in_the_workspace_is_a_fact(
    own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (own_world / "hud.lock.yaml").touch()
    (own_world / "buckeye.lock.yaml").touch()
    report = await examine(own_world)
    assert "both here" in fact(report, "workspace", "note").value
    monkeypatch.setenv("HUDTUI_PLATFORM", "nope")
    report = await examine(own_world)
    assert "nope" in fact(report, "workspace", "folder").value
    assert not report.ok
    assert not (await examine(own_world / "missing")).ok


async def test_the_terminal(
    own_world: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", "x")
    monkeypatch.setenv("SSH_CONNECTION", "x")
    report = await examine(own_world)
    assert fact(report, "terminal", "inside").value == "tmux, ssh"
    assert fact(report, "terminal", "colours").value == "truecolor"
    assert fact(report, "terminal", "locale").state == "ok"
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LC_ALL", "C")
    report = await examine(own_world)
    assert "NO_COLOR" in fact(report, "terminal", "colours").value
    assert fact(report, "terminal", "locale").state == "missing"


async def test_what_a_folder_says_to_git_is_not_started(own_world: Path) -> None:
    (own_world / ".env").write_text("A=1\n")
    for words in (("init", "-q"), ("config", "core.fsmonitor", f"touch {own_world / 'ran'};:")):
        git = await asyncio.create_subprocess_exec("git", *words, cwd=own_world)
        assert await git.wait() == 0
    report = await examine(own_world)
    assert any(found.value == "git does not ignore it" for found in report.facts)
    assert not (own_world / "ran").exists()
