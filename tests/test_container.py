"""What `container/` says of the image with hudtui and an SSH server.

tests/real/containers.py builds it and logs in."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.sshd import SSHD

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "container"
FILE = (FOLDER / "Containerfile").read_text()
PAGE = (ROOT / "docs" / "container.md").read_text()
DEBIAN_PYTHON = {"12": (3, 11), "13": (3, 13)}
"""Which Python a release of Debian has."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_base_has_a_python_that_hudtui_takes() -> None:
    (release,) = re.findall(r"^ARG BASE=docker\.io/library/debian:(\d+)-slim$", FILE, re.MULTILINE)
    lowest, highest = re.findall(r"3\.(\d+)", PROJECT["requires-python"])
    assert (3, int(lowest)) <= DEBIAN_PYTHON[release] < (3, int(highest))
    assert f"Python 3.{lowest} to 3.{int(highest) - 1}" in PAGE


def test_all_that_is_copied_is_there() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (\S+) (\S+)$", FILE, re.MULTILINE)
    assert len(copied) == len(re.findall("^COPY", FILE, re.MULTILINE)) == 3
    for source, _ in copied:
        assert any(
            one.startswith("!") and fnmatch.fnmatch(source, f"{one[1:]}*") for one in ignored
        ), source
        if source.startswith("dist/"):
            assert fnmatch.fnmatch("dist/hudtui-1.2.3-py3-none-any.whl", source)
        else:
            assert (ROOT / source).is_file()
    (command,) = re.findall(r'^CMD \["(\w+)"\]$', FILE, re.MULTILINE)
    assert ("container/serve", f"/usr/local/bin/{command}") in copied
    assert (FOLDER / "serve").stat().st_mode & 0o111


def test_the_command_and_the_user_are_those_of_the_page() -> None:
    assert "hudtui" in PROJECT["scripts"] and "/opt/hudtui/bin/hudtui /usr/local/bin/hudtui" in FILE
    (user,) = re.findall(r"useradd .* (\w+)$", FILE, re.MULTILINE)
    (entered,) = re.findall(r"^\$ ssh .* (\w+)@127\.0\.0\.1 hudtui$", PAGE, re.MULTILINE)
    assert user == entered
    assert f"\nAllowUsers {user}\n" in (FOLDER / "sshd.conf").read_text()
    volumes = re.findall(r"^VOLUME (.*)$", FILE, re.MULTILINE)[0].split()
    mounted = re.findall(r"-v [^\s:]+:([^\s:]+)", PAGE.partition("podman run")[2])
    assert set(mounted[:3]) == {"/keys", *volumes}
    assert f"/home/{user}" in volumes


def test_keys_alone_open_it(tmp_path: Path, key_pair: Path) -> None:
    """As OpenSSH itself reads the settings."""
    settings = tmp_path / "sshd.conf"
    text = (FOLDER / "sshd.conf").read_text()
    settings.write_text(text.replace("/hostkeys/ssh_host_ed25519_key", str(key_pair)))
    assert str(key_pair) in settings.read_text()
    done = subprocess.run([SSHD, "-T", "-f", str(settings)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    for line in (
        "authenticationmethods publickey",
        "passwordauthentication no",
        "kbdinteractiveauthentication no",
        "permitrootlogin no",
        "allowusers hud",
        "authorizedkeysfile /etc/ssh/authorized_keys",
        "setenv LANG=C.UTF-8",
    ):
        assert line in said


@pytest.mark.skipif(Path("/keys").exists(), reason="this machine has a /keys of its own")
def test_without_keys_it_says_what_to_mount() -> None:
    done = subprocess.run([FOLDER / "serve"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "mount the public keys" in done.stderr and "/keys" in done.stderr
