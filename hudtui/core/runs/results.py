"""Bringing a run's results home: what it left behind on its machine, compared byte for byte, and only what is not here yet."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from hudtui.core.compute.hardware import size
from hudtui.core.errors import MachineError
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.host import Host
from hudtui.core.runs.run_folder import RunFolder
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.text import clean, clean_line
from hudtui.core.training.recipe import RECIPE

Progress = Callable[[str, int, int], None]
"""Told the name of a file, its bytes that are here, and its bytes in all."""

_RECORDS = ("events.jsonl", "status.json", "plan.json", "gpu.jsonl", "guard.jsonl", "supervisor.log", "logs", RECIPE)
"""What every run leaves, beside the outputs of its plan; and what a training was, without which its model is of little use."""
_PATIENCE = 900.0
_TOLD = 5
"""Files that were left there and are named."""
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
class FetchedResults:
    """What was brought home."""

    folder: Path
    files: int
    """How many there are."""
    size: int
    """Bytes of all of them."""
    fetched: int
    """Bytes that were not here before."""
    left: tuple[str, ...] = ()
    """Files that the machine offered and that were left there: the plan does not name them, or they have no sane names."""

    @property
    def told(self) -> str | None:
        """That something was left there, in words; None where nothing was."""
        if not self.left:
            return None
        more = ", ..." if len(self.left) > _TOLD else ""
        return f"left on the machine, because the plan does not name it: {', '.join(self.left[:_TOLD])}{more}"


class _Listed(msgspec.Struct, frozen=True, array_like=True):
    name: Annotated[str, msgspec.Meta(max_length=4096)]
    size: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


def results_folder(record: RunRecord, store: RunStore) -> Path:
    """Where the results of a run are, or will be, on this computer."""
    if record.spec.output_dir is not None:
        return Path(record.spec.output_dir) / record.id
    return Path(record.folder) if record.host == "local" else store.folder / record.id


async def fetch_results(machine: RunFolder, target: Path, *, progress: Progress | None = None) -> FetchedResults:
    """Bring the outputs, logs and records of a run into a folder of this computer. What is there already is not fetched again.

    A file that grows while it is fetched comes as it was at the beginning; so the results of a run that goes on can be looked at.

    Args:
        machine: The run's side.
        target: The folder; made when missing.
        progress: Told how it goes.

    Raises:
        MachineError: The machine does not answer, a file cannot be read or written, or arrived damaged; or there is no room here.
    """
    source = Path(machine.record.folder)
    if machine.record.host == "local" and source.absolute() == target.absolute():
        files = [path for path in target.rglob("*") if path.is_file()]
        return FetchedResults(target, len(files), sum(path.stat().st_size for path in files), 0)
    names = [*_RECORDS, *dict.fromkeys(output.path for output in machine.record.plan.outputs)]
    listed = await _list(machine, names)
    wanted = [file for file in listed if _is_wanted(file.name, names)]
    missing = [file for file in wanted if await asyncio.to_thread(_digest, target / file.name) != file.digest]
    needed = sum(file.size for file in missing)
    if needed > (room := await asyncio.to_thread(_room, target)):
        raise MachineError(
            f"the results of run {machine.record.id} do not fit here: they take {size(needed)}",
            why=f"{size(room)} are left for {target}",
            fix="Make room, or name another folder.",
        )
    for file in missing:
        await _fetch(machine.host, machine.path(file.name), target / file.name, file.size, progress)
    left = tuple(clean_line(file.name, 80) for file in listed if file not in wanted)
    return FetchedResults(target, len(wanted), sum(file.size for file in wanted), needed, left)


async def _list(machine: RunFolder, names: list[str]) -> tuple[_Listed, ...]:
    """What the machine says that there is."""
    host = machine.host
    done = await host.run(isolated_python_command(machine.python, "-c", _LIST, machine.record.folder, *names), timeout=_PATIENCE)
    try:
        return msgspec.json.decode(done.stdout, type=tuple[_Listed, ...])
    except (msgspec.DecodeError, RecursionError) as error:
        why = clean(done.stderr[-1000:]).strip() or clean_line(str(error), 200)
        raise MachineError(f"{clean_line(host.name)} could not list the results of the run", why=why) from None


def _is_wanted(name: str, wanted: list[str]) -> bool:
    """Whether a file is one of those that were asked for, or lies below one, under a name that is none but a name."""
    parts = name.split("/")
    sane = name.isprintable() and len(parts) <= 32 and all(0 < len(part) < 256 and part not in (".", "..") for part in parts)
    return sane and any(name == one or name.startswith(f"{one}/") for one in wanted)


def _room(target: Path) -> int:
    """Bytes that are left where a folder is, or will be."""
    place = next(folder for folder in (target, *target.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(place).free


async def _fetch(host: Host, remote: str, here: Path, most: int, progress: Progress | None) -> None:
    def told(done: int, whole: int) -> None:
        if progress is not None:
            progress(here.name, done, whole)

    try:
        here.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"{here} cannot be written", why=error.strerror, fix="Make room, then fetch the results again."
        ) from None
    await host.download(remote, here, most=most, progress=told)


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
