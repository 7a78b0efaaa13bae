"""The container engine of this computer: docker or podman, whichever answers.

A `docker` that is installed need not have a daemon behind it. Where both are there, docker is asked once, for a short time;
podman, which needs no daemon, is taken when it does not answer.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess

ENGINES = ("docker", "podman")
ENGINE_VARIABLE = "HUDTUI_ENGINE"
"""Decides, where it is set: nothing is asked then."""

_PATIENCE = 3.0
"""Seconds that an engine has for its answer."""


def find_engine() -> str | None:
    """The engine to use, None where there is none. Takes up to three seconds at its first call, where both are installed."""
    return os.environ.get(ENGINE_VARIABLE) or _answering(*(shutil.which(engine) for engine in ENGINES))


def engine_note() -> str | None:
    """What a user should know about the choice: that docker is there and was not taken. None where it was."""
    if os.environ.get(ENGINE_VARIABLE) or find_engine() != "podman" or shutil.which("docker") is None:
        return None
    return f"podman is used: docker is installed, and its daemon does not answer ({ENGINE_VARIABLE}=docker uses it all the same)"


@functools.cache
def _answering(docker: str | None, podman: str | None) -> str | None:
    """The choice for two programs, remembered as long as this process lives."""
    if docker is None or podman is None:
        return "docker" if docker else "podman" if podman else None
    return "docker" if _has_daemon(docker) else "podman"


def _has_daemon(docker: str) -> bool:
    return _say(docker, "version", "--format", "{{.Server.Version}}") is not None


def is_built_locally(image: str) -> bool:
    """Whether this computer's engine has an image, and has it from no registry. False where the engine does not answer."""
    from hudtui.core.lockfile import is_local_image

    engine = find_engine()
    said = _say(engine, "image", "inspect", "--format", "{{json .RepoDigests}}", "--", image) if engine else None
    if said is None:
        return False
    try:
        digests = json.loads(said)
    except ValueError:
        return False
    return not any(not is_local_image(str(digest)) for digest in digests or ())


def _say(*command: str) -> str | None:
    """What a short command of an engine prints; None where it fails or takes too long."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None
