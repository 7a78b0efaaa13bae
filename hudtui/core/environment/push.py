"""Pushing the image of an environment to a registry, so that other machines can have it; and the digest for the lock file."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from hudtui.core.environment.engine import engine_note, find_engine
from hudtui.core.errors import InputError, MachineError
from hudtui.core.text import clean_line

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_NAME = re.compile(
    r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?::[0-9]+)?(?:/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)+(?::[\w][\w.-]{0,127})?"
)
_KEPT = 12


@dataclass(frozen=True)
class PushProgress:
    """A line of what the container engine says, or the end."""

    text: str
    image: str | None = None
    """The pushed image with its digest; set once, at the end."""


def push_name(local: str, wanted: str) -> str:
    """The name that a local image is pushed under.

    Args:
        local: Such as `my-env:dev`.
        wanted: Such as `ghcr.io/my-org/my-env:1.0`; with a slash at its end, the local name is put behind it.

    Raises:
        InputError: It is no name of an image in a registry.
    """
    name = wanted.strip()
    if name.endswith("/"):
        name += local.partition("@")[0].rpartition("/")[2]
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{clean_line(wanted, 100)!r} is no name for an image in a registry",
            fix="Such as ghcr.io/my-org/my-env:1.0; small letters. With a / at its end the image keeps its own name.",
        )
    return name


async def push_image(local: str, wanted: str, *, engine: str | None = None) -> AsyncGenerator[PushProgress, None]:
    """Tag a local image and push it; the last thing that is told is the image with its digest.

    Leaving it early ends the push; what was pushed by then stays in the registry, without a name.

    Args:
        local: The image, as this computer's container engine knows it.
        wanted: See `push_name`.
        engine: `docker` or `podman`; the one that answers by default.

    Raises:
        InputError: The name is none, or there is no container engine.
        MachineError: The image is not there, or the registry did not take it.
    """
    name = push_name(local, wanted)
    note = None
    if engine is None:
        engine, note = await asyncio.to_thread(lambda: (find_engine(), engine_note()))
    if engine is None:
        raise InputError("there is neither docker nor podman on this computer", fix="Install one, or push the image elsewhere.")
    if note is not None:
        yield PushProgress(note)
    yield PushProgress(f"{engine} tag {local} {name}")
    tagging = _run(engine, "tag", local, name, problem=f"{local} could not be tagged", fix="Is it built?")
    async with contextlib.aclosing(tagging) as lines:
        async for line in lines:
            yield PushProgress(line)
    yield PushProgress(f"{engine} push {name}")
    registry = name.partition("/")[0]
    digest = None
    fix = f"Perhaps {engine} has to be let in: {engine} login {registry}"
    with tempfile.TemporaryDirectory(prefix="hudtui-push-") as folder:
        # docker tells the digest while it pushes; podman writes it down, and what it keeps as RepoDigests is another one
        file = Path(folder) / "digest"
        words = ("push", "--digestfile", str(file), name) if Path(engine).name.startswith("podman") else ("push", name)
        async with contextlib.aclosing(_run(engine, *words, problem=f"{name} could not be pushed", fix=fix)) as lines:
            async for line in lines:
                digest = (_DIGEST.findall(line) or [digest])[-1] if "digest" in line.lower() else digest
                yield PushProgress(line)
        if file.exists():
            digest = (_DIGEST.findall(file.read_text()) or [None])[0]
    if digest is None:
        raise MachineError(
            f"{name} was pushed, and {engine} does not tell its digest", fix="Write it into the lock file by hand."
        )
    repository = name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]
    yield PushProgress(f"pushed {name} as {digest}", f"{repository}@{digest}")


async def _run(engine: str, *words: str, problem: str, fix: str) -> AsyncGenerator[str, None]:
    """The lines of a command."""
    try:
        process = await asyncio.create_subprocess_exec(
            engine, *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
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
