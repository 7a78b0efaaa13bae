"""Bringing a run's results home: what it left behind on its machine, compared byte for byte, and only what is not here yet."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hudtui.core.errors import MachineError
from hudtui.core.python import bare_python
from hudtui.core.remote.host import Host
from hudtui.core.runs.hosts import Distant
from hudtui.core.runs.machine import Machine
from hudtui.core.text import clean, clean_line

Progress = Callable[[str, int, int], None]
"""Told the name of a file, its bytes that are here, and its bytes in all."""

_RECORDS = ("events.jsonl", "status.json", "plan.json", "gpu.jsonl", "guard.jsonl", "supervisor.log", "logs")
"""What every run leaves, beside the outputs of its plan."""
_PATIENCE = 900.0
_LIST = r"""
import hashlib, json, os, sys
folder, names, found = sys.argv[1], sys.argv[2:], []
for name in names:
    top = os.path.join(folder, name)
    for place, _, files in ([(os.path.dirname(top), [], [os.path.basename(top)])] if os.path.isfile(top) else os.walk(top)):
        for file in sorted(files):
            path = os.path.join(place, file)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            digest, size = hashlib.sha256(), 0
            with open(path, "rb") as stream:
                for block in iter(lambda: stream.read(1 << 20), b""):
                    digest.update(block)
                    size += len(block)
            found.append([os.path.relpath(path, folder), size, digest.hexdigest()])
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True)
class Collected:
    """What was brought home."""

    folder: Path
    files: int
    """How many there are."""
    size: int
    """Bytes of all of them."""
    fetched: int
    """Bytes that were not here before."""


async def collect(machine: Machine, target: Path, *, progress: Progress | None = None) -> Collected:
    """Bring the outputs, logs and records of a run into a folder of this computer. What is there already is not fetched again.

    A file that grows while it is fetched comes as it was at the beginning; so the results of a run that goes on can be looked at.

    Args:
        machine: The run's side.
        target: The folder; made when missing.
        progress: Told how it goes.

    Raises:
        MachineError: The machine does not answer, a file cannot be read or written, or arrived damaged.
    """
    source = Path(machine.record.folder)
    if machine.record.host == "local" and source.absolute() == target.absolute():
        files = [path for path in target.rglob("*") if path.is_file()]
        return Collected(target, len(files), sum(path.stat().st_size for path in files), 0)
    names = [*_RECORDS, *dict.fromkeys(output.path for output in machine.record.plan.outputs)]
    wanted = await _list(machine, names)
    fetched = 0
    for name, size, digest in wanted:
        here = target / name
        if await asyncio.to_thread(_digest, here) == digest:
            continue
        await _fetch(machine.host, machine.path(name), here, size, progress)
        fetched += size
    return Collected(target, len(wanted), sum(size for _, size, _ in wanted), fetched)


async def _list(machine: Machine, names: list[str]) -> list[tuple[str, int, str]]:
    host = machine.host
    done = await host.run(bare_python(machine.python, "-c", _LIST, machine.record.folder, *names), timeout=_PATIENCE)
    try:
        found: list[Any] = json.loads(done.stdout)
    except ValueError:
        raise MachineError(
            f"{clean_line(host.name)} could not list the results of the run", why=clean(done.stderr[-1000:]).strip() or None
        ) from None
    wanted = []
    for name, size, digest in found:
        parts = PurePosixPath(str(name)).parts
        if parts and not str(name).startswith("/") and ".." not in parts and "\0" not in str(name):
            wanted.append((str(name), int(size), str(digest)))
    return wanted


async def _fetch(host: Host, remote: str, here: Path, size: int, progress: Progress | None) -> None:
    def told(done: int, whole: int) -> None:
        if progress is not None:
            progress(here.name, done, whole)

    try:
        here.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(host, Distant):
            await (await host.reach()).get_file(remote, here, progress=told)
        else:
            await asyncio.to_thread(_copy, Path.home() / remote, here)
            told(size, size)
    except OSError as error:
        raise MachineError(
            f"{here} cannot be written", why=error.strerror, fix="Make room, then fetch the results again."
        ) from None


def _copy(source: Path, target: Path) -> None:
    part = target.with_name(f".{target.name[:40]}.part")
    shutil.copyfile(source, part)
    os.replace(part, target)


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
