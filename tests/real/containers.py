"""An image of this computer alone, pushed by a real podman to a real registry on loopback.

Run by hand: it needs root and Debian's `podman`, `runc` and `docker-registry`.

    .venv/bin/python tests/real/containers.py

The image holds one file, so that nothing has to be fetched. Everything is made below a temporary folder, and gone at the end.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

CONTAINERS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=2048:2048"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
"""
STORAGE = '[storage]\ndriver = "vfs"\nrunroot = "{0}/run"\ngraphroot = "{0}/graph"\n'
REGISTRY = "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {0}/registry}}}}\nhttp: {{addr: '127.0.0.1:{1}'}}\n"
TASK = {"prompt": "Go left.", "evaluate_tool": {"name": "evaluate", "arguments": {}}}
CONFIG = "parser: {use_thinking: false}\naction_mappings:\n  left: {_parser: {positional: []}, _tool: move}\n"


def main() -> None:
    """Build, look, push, look again; stops at the first thing that is not as it should be."""
    place = Path(tempfile.mkdtemp(prefix="hudtui-containers-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    registry = f"127.0.0.1:{port}"
    for name, text in (
        ("containers.conf", CONTAINERS),
        ("storage.conf", STORAGE.format(place)),
        ("registries.conf", f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n'),
        ("registry.yml", REGISTRY.format(place, port)),
    ):
        (place / name).write_text(text)
    os.environ |= {
        "CONTAINERS_CONF": str(place / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(place / "storage.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(place / "registries.conf"),
        "HOME": str(place),
        "HUD_API_KEY": "sk-hud-0123456789",
    }
    os.environ.pop("HUDTUI_ENGINE", None)
    server = subprocess.Popen(
        ["docker-registry", "serve", str(place / "registry.yml")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        play(place, registry)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(place, ignore_errors=True)


def play(place: Path, registry: str) -> None:
    """The scenario, in a project of its own."""
    project = place / "project"
    project.mkdir()
    (project / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    say(subprocess.run(["podman", "build", "-q", "-t", "my-env:dev", "."], cwd=project, check=True, capture_output=True))
    (project / "tasks.json").write_text(json.dumps([{**TASK, "id": f"t{number}"} for number in range(4)]))
    (project / "play.yaml").write_text(CONFIG)
    lock = project / "hud.lock.yaml"
    lock.write_text("image: my-env:dev  # built here\n")
    rl = ("rl", "--engine", "rollouts", "--policy", "random", "--host", "local", "--dry-run")

    before = json.loads(hudtui(project, *rl, code=2).stdout)
    (missing,) = [check for check in before["checks"] if check["state"] == "missing"]
    assert "my-env:dev is on this computer alone" in missing["text"], missing
    print("refused before it is pushed:", missing["text"])

    pushed = hudtui(project, *rl[:-1], "--push-image", f"{registry}/me/", code=2)
    assert "is on this computer alone" in pushed.stderr  # as a registry on loopback is
    print(pushed.stderr)
    with urllib.request.urlopen(f"http://{registry}/v2/me/my-env/tags/list") as answer:
        assert json.load(answer)["tags"] == ["dev"]
    name = yaml.safe_load(lock.read_text())["image"]
    digest = name.partition("@")[2]
    manifest = urllib.request.Request(
        f"http://{registry}/v2/me/my-env/manifests/{digest}",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"},
    )
    try:
        with urllib.request.urlopen(manifest) as answer:
            assert answer.status == 200
    except urllib.error.HTTPError as error:
        raise SystemExit(f"the registry does not have {digest}: {error}, {error.read().decode()}") from None
    assert name == f"{registry}/me/my-env@{digest}" and "# built here" in lock.read_text(), lock.read_text()
    inspect = ["podman", "image", "inspect", "--format", "{{json .RepoDigests}}", f"{registry}/me/my-env:dev"]
    print("podman's RepoDigests:", subprocess.run(inspect, check=True, capture_output=True, text=True).stdout.strip())
    print("the registry has it under the digest of the lock file:", name)


def hudtui(project: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """The command, in the project."""
    done = subprocess.run([sys.executable, "-m", "hudtui", *words], cwd=project, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def say(done: subprocess.CompletedProcess[Any]) -> None:
    """What a program printed."""
    print(done.stdout.decode().strip())


if __name__ == "__main__":
    began = time.monotonic()
    main()
    print(f"all as it should be, in {time.monotonic() - began:.0f} s")
