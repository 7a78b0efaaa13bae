"""The container engine of this computer, docker or podman.

Which one answers, and pushing images to a registry. An installed `docker` need not have a daemon
behind it. Where both are installed, docker is tried once, for a short time; podman, which needs no
daemon, is used when docker does not answer. The setting `HUDTUI_ENGINE` decides without a try.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.environment.servers import ENGINES
from hudtui.core.errors import InputError, MachineError
from hudtui.core.files import temporary_folder
from hudtui.core.settings import user_setting
from hudtui.core.text import clean_line

ENGINE_SETTING = "HUDTUI_ENGINE"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PUSH_NAME = re.compile(
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)+"
    r"(?::[\w][\w.-]{0,127})?"
)
_NO_IMAGE = re.compile(r"no such image|image not known|image not found", re.IGNORECASE)
_KEPT = 12
_PATIENCE = 3.0
"""Seconds within which an engine has to answer."""


def find_engine() -> str | None:
    """The engine to use, or None.

    The first call takes up to three seconds where both are installed.

    Raises:
        InputError: The setting `HUDTUI_ENGINE` names neither docker nor podman.
    """
    chosen = user_setting(ENGINE_SETTING)
    if chosen is None:
        return _answering(*(shutil.which(engine) for engine in ENGINES))
    if Path(chosen).name not in ENGINES:
        raise InputError(
            f"{ENGINE_SETTING} names {clean_line(chosen, 60)!r}, which is neither docker nor "
            "podman",
            fix=(
                "Set it to docker or podman, or leave it out: hudtui settings unset "
                f"{ENGINE_SETTING} --user"
            ),
        )
    return chosen


def engine_note() -> str | None:
    """A note for the user when docker is installed and was not chosen, else None."""
    if user_setting(ENGINE_SETTING) or find_engine() != "podman" or shutil.which("docker") is None:
        return None
    return (
        "podman is used: docker is installed, and its daemon does not answer "
        f"({ENGINE_SETTING}=docker uses it all the same)"
    )


@functools.cache
def _answering(docker: str | None, podman: str | None) -> str | None:
    """The choice between two programs, cached for the life of this process."""
    if docker is None or podman is None:
        return "docker" if docker else "podman" if podman else None
    return "docker" if _has_daemon(docker) else "podman"


def _has_daemon(docker: str) -> bool:
    return _output(docker, "version", "--format", "{{.Server.Version}}") is not None


def is_built_locally(image: str) -> bool:
    """True if this computer's engine has an image that comes from no registry.

    False where the engine does not answer.
    """
    from hudtui.core.lockfile import is_local_image

    engine = find_engine()
    printed = (
        _output(engine, "image", "inspect", "--format", "{{json .RepoDigests}}", "--", image)
        if engine
        else None
    )
    if printed is None:
        return False
    try:
        digests = json.loads(printed)
    except ValueError:
        return False
    return not any(not is_local_image(str(digest)) for digest in digests or ())


def lacks_image(image: str) -> bool:
    """True if this computer's engine answers that it has no such image.

    False where there is no engine, or it says nothing.
    """
    engine = find_engine()
    if engine is None:
        return False
    command = (engine, "image", "inspect", "--format", "{{.Id}}", "--", image)
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return (
        done.returncode != 0 and _NO_IMAGE.search(done.stderr.decode(errors="replace")) is not None
    )


def _output(*command: str) -> str | None:
    """The output of a short command of an engine; None where it fails or takes too long."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace") if done.returncode == 0 else None


@dataclass(frozen=True)
class PushProgress:
    """A line of output of the container engine, or the end."""

    text: str
    image: str | None = None
    """The pushed image with its digest; set once, at the end."""


def push_name(local: str, wanted: str) -> str:
    """The name that a local image is pushed under.

    Args:
        local: Such as `my-env:dev`.
        wanted: Such as `ghcr.io/my-org/my-env:1.0`; with a slash at its end, the local name is
            added.

    Raises:
        InputError: It is not a name of an image in a registry.
    """
    name = wanted.strip()
    if name.endswith("/"):
        name += local.partition("@")[0].rpartition("/")[2]
    if not _PUSH_NAME.fullmatch(name):
        raise InputError(
            f"{clean_line(wanted, 100)!r} is not a name for an image in a registry",
            fix=(
                "Such as ghcr.io/my-org/my-env:1.0; lower case. With a / at its end the image "
                "keeps its own name."
            ),
        )
    return name


async def push_image(
    local: str, wanted: str, *, engine: str | None = None
) -> AsyncGenerator[PushProgress, None]:
    """Tag a local image and push it; the last event holds the image with its digest.

    Leaving it early ends the push; what was pushed by then stays in the registry, without a name.

    Args:
        local: The image, as this computer's container engine knows it.
        wanted: See `push_name`.
        engine: `docker` or `podman`; the result of `find_engine` by default.

    Raises:
        InputError: The name is not valid, or there is no container engine.
        MachineError: There is no such image, or the registry refused it.
    """
    name = push_name(local, wanted)
    note = None
    if engine is None:
        engine, note = await asyncio.to_thread(lambda: (find_engine(), engine_note()))
    if engine is None:
        raise InputError(
            "there is neither docker nor podman on this computer",
            fix="Install one, or push the image elsewhere.",
        )
    if note is not None:
        yield PushProgress(note)
    yield PushProgress(f"{engine} tag {local} {name}")
    tagging = _lines_of(
        engine, "tag", local, name, problem=f"{local} could not be tagged", fix="Is it built?"
    )
    async with contextlib.aclosing(tagging) as lines:
        async for line in lines:
            yield PushProgress(line)
    yield PushProgress(f"{engine} push {name}")
    registry = name.partition("/")[0]
    digest = None
    fix = f"Perhaps {engine} needs a login: {engine} login {registry}"
    with temporary_folder("hudtui-push") as folder:
        # docker prints the digest while it pushes; podman writes it to a file, and its RepoDigests
        # hold another one
        file = folder / "digest"
        words = (
            ("push", "--digestfile", str(file), name)
            if Path(engine).name.startswith("podman")
            else ("push", name)
        )
        async with contextlib.aclosing(
            _lines_of(engine, *words, problem=f"{name} could not be pushed", fix=fix)
        ) as lines:
            async for line in lines:
                digest = (
                    (_DIGEST.findall(line) or [digest])[-1] if "digest" in line.lower() else digest
                )
                yield PushProgress(line)
        if file.exists():
            digest = (_DIGEST.findall(file.read_text()) or [None])[0]
    if digest is None:
        raise MachineError(
            f"{name} was pushed, and {engine} does not print its digest",
            fix="Write it into the lock file by hand.",
        )
    repository = name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]
    yield PushProgress(f"pushed {name} as {digest}", f"{repository}@{digest}")


async def _lines_of(engine: str, *words: str, problem: str, fix: str) -> AsyncGenerator[str, None]:
    """Run a command of the engine; yields its lines of output."""
    try:
        process = await asyncio.create_subprocess_exec(
            engine,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
    except OSError as error:
        raise MachineError(f"{engine} cannot be started", why=error.strerror) from None
    last: list[str] = []
    try:
        assert process.stdout is not None
        while piece := await process.stdout.readline():
            for text in piece.decode("utf-8", "replace").replace("\r", "\n").splitlines():
                line = clean_line(text, 300).strip()
                if line:
                    last = [*last[-_KEPT:], line]
                    yield line
        status = await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if status != 0:
        raise MachineError(problem, why=" ".join(last[-3:]) or f"status {status}", fix=fix)
