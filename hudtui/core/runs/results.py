"""Fetch a run's results from its machine, verified byte for byte.

Files that exist here already are not transferred again.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec

from hudtui.core.compute.hardware import size
from hudtui.core.errors import MachineError
from hudtui.core.plain import decode
from hudtui.core.python import isolated_python_command
from hudtui.core.remote.host import LOCAL, FileChanged
from hudtui.core.remote.hosts import find_host
from hudtui.core.runs.launch import error_sentence
from hudtui.core.runs.run_folder import RunFolder, peers_of
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.text import clean_line, failure_text
from hudtui.core.training.plan import node_folder
from hudtui.core.training.recipe import RECIPE

Progress = Callable[[str, int, int], None]
"""Called with the name of a file, its bytes fetched so far, and its size in bytes."""

_RECORDS = (
    "events.jsonl",
    "status.json",
    "plan.json",
    "gpu.jsonl",
    "guard.jsonl",
    "supervisor.log",
    "logs",
    "out/job.json",
    RECIPE,
)
"""Files that are fetched besides the outputs of the plan; a training's recipe is needed to use its
model."""
_PATIENCE, _SILENCE = 900.0, 20.0
"""Seconds that a machine may take to list its results, and seconds in which it says nothing
meanwhile."""
_TRIES = 5
"""Times that a file is fetched while it changes."""
_NAMED = 5
"""Largest number of skipped files that are named."""
_LIST = r"""
import hashlib, json, os, sys, time
folder, most, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
paths, found, told = [], [], time.time()
for name in names:
    top = os.path.join(folder, name)
    alone = [(os.path.dirname(top), [], [os.path.basename(top)])]
    for place, _, files in (alone if os.path.isfile(top) else os.walk(top)):
        for file in sorted(files):
            path = os.path.join(place, file)
            if not os.path.islink(path) and os.path.isfile(path):
                paths.append((path, os.path.getsize(path)))
fit = sum(size for _, size in paths) <= most
for path, size in paths:
    digest = hashlib.sha256()
    if fit:
        size = 0
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
                size += len(block)
                if time.time() > told + 1:
                    told = time.time()
                    sys.stderr.write("\n")
                    sys.stderr.flush()
    found.append([os.path.relpath(path, folder), size, digest.hexdigest()])
json.dump(found, sys.stdout)
"""


@dataclass(frozen=True)
class FetchedResults:
    """The result of a fetch."""

    folder: Path
    files: int
    """Number of files."""
    size: int
    """Total size of the files, in bytes."""
    fetched: int
    """Bytes that were transferred."""
    skipped: tuple[str, ...] = ()
    """Paths on the machine that were not fetched, because the plan does not list them or they are
    invalid."""
    lacking: tuple[str, ...] = ()
    """Sentences about the nodes whose logs could not be fetched."""

    @property
    def skipped_text(self) -> str | None:
        """Return what was not fetched, with the reasons; None if all was."""
        if not self.skipped:
            return "; ".join(self.lacking) or None
        more = ", ..." if len(self.skipped) > _NAMED else ""
        skipped = (
            "not fetched, because the plan does not list it: "
            f"{', '.join(self.skipped[:_NAMED])}{more}"
        )
        return "; ".join((*self.lacking, skipped))


class _Listed(msgspec.Struct, frozen=True, array_like=True):
    name: Annotated[str, msgspec.Meta(max_length=4096)]
    size: Annotated[int, msgspec.Meta(ge=0, le=2**53)]
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


def results_folder(record: RunRecord, store: RunStore) -> Path:
    """Return the folder on this computer for a run's results; it may not exist yet."""
    if record.spec.output_dir is not None:
        return Path(record.spec.output_dir) / record.id
    return Path(record.folder) if record.host == LOCAL else store.folder / record.id


async def pull(
    run: str, store: RunStore, *, output: Path | None = None, progress: Progress | None = None
) -> FetchedResults:
    """Fetch the results of a run from its machine. The run may continue meanwhile.

    Args:
        run: Id of the run.
        store: The list of runs that keeps it.
        output: Folder for the results; None for the run's own.
        progress: Called with the progress of each file.

    Raises:
        MachineError: See `fetch_node`.
        RunError: The run does not exist.
        Untrusted: The user did not start this run.
    """
    record = await store.run(store.own_record, run)
    target = results_folder(record, store) if output is None else output.absolute()
    return await fetch_results(RunFolder(find_host(record.host), record), target, progress=progress)


async def fetch_results(
    machine: RunFolder, target: Path, *, progress: Progress | None = None
) -> FetchedResults:
    """Fetch the results of a run from node 0, and the logs of its other nodes beside them.

    Raises:
        MachineError: See `fetch_node`.
    """
    fetched = await fetch_node(machine, target, progress=progress)
    for peer in peers_of(machine.record):
        place = Path(node_folder(str(target), peer.node))
        try:
            await peer.ensure_answers()
            more = await fetch_node(peer, place, progress=progress)
        except MachineError as error:  # a lost node keeps its logs, and nothing else
            lack = f"the logs of {peer.title} were not fetched: {error_sentence(error)}"
            fetched = replace(fetched, lacking=(*fetched.lacking, lack))
        else:
            fetched = _together(fetched, more)
    return fetched


def _together(first: FetchedResults, more: FetchedResults) -> FetchedResults:
    """Return what was fetched of two nodes, as that of the first."""
    return FetchedResults(
        first.folder,
        first.files + more.files,
        first.size + more.size,
        first.fetched + more.fetched,
        (*first.skipped, *more.skipped),
        first.lacking,
    )


async def results_here(
    record: RunRecord, store: RunStore, *, progress: Progress | None = None
) -> Path:
    """Return the folder on this computer with a run's results.

    Those on another machine are fetched first.

    Raises:
        HudtuiError: See `pull`.
    """
    if record.host == LOCAL:
        return Path(record.folder)
    return (await pull(record.id, store, progress=progress)).folder


async def fetch_node(
    machine: RunFolder, target: Path, *, progress: Progress | None = None
) -> FetchedResults:
    """Fetch the outputs, logs and records of a run into a local folder.

    Files that exist there already are not fetched again. A file that grows during the fetch is cut
    to its size at the start, so the results of an active run can be fetched.

    Raises:
        MachineError: The machine does not answer, a file cannot be read or written or is damaged,
            or the local disk is full.
    """
    source = Path(machine.folder)
    if machine.record.host == LOCAL and source.absolute() == target.absolute():
        files = [path for path in target.rglob("*") if path.is_file()]
        return FetchedResults(target, len(files), sum(path.stat().st_size for path in files), 0)
    outputs = () if machine.node else machine.record.plan.outputs
    names = [*_RECORDS, *dict.fromkeys(output.path for output in outputs)]
    room = await asyncio.to_thread(_room, target)
    listed = await _list(machine, names, room + await asyncio.to_thread(_size, target))
    wanted = [file for file in listed if _is_wanted(file.name, names)]
    missing = [
        file
        for file in wanted
        if await asyncio.to_thread(_digest, target / file.name) != file.digest
    ]
    needed = sum(file.size for file in missing)
    if needed > room:
        raise MachineError(
            f"the results of run {machine.record.id} do not fit here: they take {size(needed)}",
            why=f"{size(room)} are left for {target}",
            fix="Free some disk space, or choose another folder.",
        )
    for file in missing:
        await _fetch(machine, file, target / file.name, progress)
    skipped = tuple(clean_line(file.name, 80) for file in listed if file not in wanted)
    return FetchedResults(target, len(wanted), sum(file.size for file in wanted), needed, skipped)


async def _list(machine: RunFolder, names: list[str], most: int = 2**60) -> tuple[_Listed, ...]:
    """Return the machine's list of files.

    With wrong digests if they have over `most` bytes in all, and so cannot be fetched.
    """
    host = machine.host
    command = isolated_python_command(
        machine.python, "-c", _LIST, machine.folder, str(most), *names
    )
    done = await host.run(command, timeout=_PATIENCE, silence=_SILENCE)
    try:
        return decode(done.stdout, tuple[_Listed, ...])
    except (msgspec.DecodeError, RecursionError) as error:
        why = failure_text(done.stderr) or clean_line(str(error), 200)
        raise MachineError(
            f"{clean_line(host.name)} could not list the results of the run", why=why
        ) from None


def _is_wanted(name: str, names: list[str]) -> bool:
    """Return whether a file is wanted and its name is a safe relative path.

    It is in `wanted`, or below a folder in it.
    """
    parts = name.split("/")
    sane = (
        name.isprintable()
        and len(parts) <= 32
        and all(0 < len(part) < 256 and part not in (".", "..") for part in parts)
    )
    return sane and any(name == one or name.startswith(f"{one}/") for one in names)


def _room(target: Path) -> int:
    """Return the free bytes on the disk of a folder, which may not exist yet."""
    place = next(folder for folder in (target, *target.absolute().parents) if folder.is_dir())
    return shutil.disk_usage(place).free


def _size(folder: Path) -> int:
    """Return the bytes of all files in a folder, which may not exist yet."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


async def _fetch(machine: RunFolder, file: _Listed, here: Path, progress: Progress | None) -> None:
    """Fetch a file, as it was listed.

    A file that has changed since, as a run's records do, is listed again.
    """

    def report(done: int, whole: int) -> None:
        if progress is not None:
            progress(here.name, done, whole)

    try:
        here.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"{here} cannot be written",
            why=error.strerror,
            fix="Free some disk space, then fetch the results again.",
        ) from None
    tries = _TRIES
    while True:
        try:
            remote = machine.path(file.name)
            return await machine.host.download(
                remote, here, most=file.size, digest=file.digest, progress=report
            )
        except FileChanged:
            tries -= 1
            again = next(
                (one for one in await _list(machine, [file.name]) if one.name == file.name), None
            )
            if again is None or not tries:
                raise
            file = again


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None
