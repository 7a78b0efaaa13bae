"""Requests for a run that repeats or continues an earlier run, and the files that they need."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.compute.gpus import parse_spec
from hudtui.core.errors import InputError
from hudtui.core.knobs import values_from
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.engines import features_of, recipe_for
from hudtui.core.training.export import checkpoints
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.options import JobOptions
from hudtui.core.training.plan import Continuation, FileRef, PlanFile, file_ref

if TYPE_CHECKING:
    from hudtui.core.compute.values import Offer

_CHECKPOINTS = "out/checkpoints"
_METRICS, _TRACES = "out/metrics.jsonl", "out/traces.jsonl"
ART_FILES = "art"
"""Folder below `.hudtui` with the tasks, configurations and code of rewards that `hudtui art train`
makes."""


def request_again(record: RunRecord) -> RunRequest:
    """Return the request that asks for a run once more.

    The same files by their paths, settings, kind of machine and limits. A rented machine is chosen
    again among the offers of its provider with the same GPUs, because offers come and go: a spot
    machine among the spot offers, any other machine among the others.

    Options that the spec does not hold in another form are those that the user has set.
    """
    spec, rent = record.spec, record.spec.rent
    options = {option.name: getattr(spec, option.name) for option in fields(JobOptions)}
    if spec.policy_file is not None:
        options["policy"] = f"replay:{spec.policy_file.path}"
    limits: Mapping[str, Any] = {}
    if rent is not None:
        limits = {
            "budget": _limit(spec.limits.run_budget),
            "max_hours": _limit(spec.limits.max_hours),
            "idle_minutes": _limit(spec.limits.idle_minutes),
        }
    elif spec.max_seconds is not None:
        limits = {"max_hours": _limit(spec.max_seconds / 3600)}
    asked = RunRequest(**values_from(RunRequest, spec.asked))
    return replace(
        asked,
        **options,
        engine=spec.engine,
        name=record.name,
        tasks=spec.tasks.path if spec.tasks else None,
        select=None,  # the file holds the selected tasks alone
        config=Path(spec.config.path) if spec.config else None,
        training=None,  # the settings are those of the file, too
        settings=dict(spec.training),
        host=",".join(dict.fromkeys((record.host, *spec.peers))) if rent is None else None,
        nodes=spec.nodes,
        provider=None if rent is None else rent.provider,
        gpus=None if rent is None else _gpus(rent.offer),
        offer_name=None,
        spot=None if rent is None else rent.offer.spot,
        keep_on_failure=rent is not None and rent.keep_on_failure,
        python=spec.trainer_python,
        output_dir=None if spec.output_dir is None else Path(spec.output_dir),
        **limits,
    )


def changed_files(record: RunRecord) -> tuple[str, ...]:
    """Return the paths of the run's input files that are missing or have changed.

    They have changed since the run was planned.
    """
    return tuple(file.path for file in _inputs(record) if not _is_same(file, Path(file.path)))


class NothingLeft(InputError):
    """A training has done all steps that it was asked for."""

    def __init__(self, run: str, done: int, whole: int) -> None:
        fix = (
            f"Name a larger number of steps, or an earlier checkpoint: hudtui runs continue {run} "
            f"--steps {done * 2}"
        )
        super().__init__(
            f"run {run} has done {done} of its {whole} steps: nothing is left to do", fix=fix
        )
        self.done = done
        """Step of the checkpoint."""


def continuation_request(
    record: RunRecord, folder: Path, *, step: int | None = None, steps: int | None = None
) -> RunRequest:
    """Return the request for a run that continues another one, with the same files and settings.

    Reads and hashes files. The run continues from the checkpoint of `step`, by default the last
    one, up to `steps` steps in all, by default as many as the earlier run was to do.

    Raises:
        InputError: There is no complete checkpoint, every episode was played, or an input file has
            changed.
        NothingLeft: The checkpoint is that of the last step.
    """
    continues = features_of(record.engine).continues
    if continues is None:
        raise InputError(
            f"hudtui cannot continue a run of {record.engine}",
            fix=f"Start it again: hudtui runs rerun {record.id}",
        )
    request = request_again(record)
    if continues == "episodes":
        if step is not None or steps is not None:
            raise InputError("only a training has steps to continue from")
        found = Continuation(record.id, None, tuple(_files(folder, folder / _TRACES)))
        if not found.files:
            raise InputError(
                f"run {record.id} has recorded no episode that could be kept", fix=_instead(record)
            )
        if _has_played_all(folder):
            raise InputError(
                f"run {record.id} has played all of its episodes: nothing is left to do",
                fix=f"Play them again in a new run: hudtui runs rerun {record.id}",
            )
    else:
        place, done = _checkpoint(record, folder, step)
        whole = steps or recipe_for(record.spec).steps
        if done >= whole:
            raise NothingLeft(record.id, done, whole)
        request = replace(request, steps=whole)
        found = Continuation(
            record.id, done, (*_files(folder, place), *_files(folder, folder / _METRICS))
        )
    # Another order of the tasks, or another configuration, would make the checkpoint that of
    # another training.
    same = {file.path: _unchanged(record, file, folder) for file in _inputs(record)}
    if request.tasks is not None:
        request = replace(request, tasks=str(same[request.tasks]))
    if request.config is not None:
        request = replace(request, config=same[str(request.config)])
    if record.spec.policy_file is not None:
        request = replace(request, policy=f"replay:{same[record.spec.policy_file.path]}")
    return replace(request, continues=found)


def _has_played_all(folder: Path) -> bool:
    """Return whether a run of rollouts has recorded all its episodes, and none is broken.

    The traces are counted as well as the metrics: a continued run keeps what is in the traces, and
    they may have been shortened.
    """
    reader = MetricsReader()
    if (metrics := folder / _METRICS).is_file():
        reader.feed(metrics.read_bytes())
    newest = reader.newest
    if (
        newest is None
        or newest[0] != reader.max_step
        or any(point.y for point in reader.series("errors"))
    ):
        return False
    with (folder / _TRACES).open("rb") as traces:
        return sum(1 for line in traces if line.strip()) >= newest[0]


def remove_unused(
    store: RunStore, *, of: RunRecord | None = None, minimum_age: float = 0.0
) -> None:
    """Remove files that were created for trainings with ART and belong to no listed run.

    A dry run leaves such files.

    With `of`, only the files of this run are removed. A file must be `minimum_age` seconds old.
    """
    folder = (store.state_dir / ART_FILES).resolve()
    if folder.parent != store.state_dir.resolve() or not folder.is_dir():
        return
    listed, records = {run.id for run in store.runs()}, store.records()
    if listed - set(records):
        return  # perhaps the run of another version of hudtui: its files are unknown
    used = {Path(file.path).resolve() for run in listed for file in _inputs(records[run])}
    candidates = (
        {Path(file.path).resolve() for file in _inputs(of)}
        if of is not None
        else set(folder.rglob("*"))
    )
    for path in candidates - used:
        if (
            path.is_relative_to(folder)
            and path.is_file()
            and time.time() - path.stat().st_mtime >= minimum_age
        ):
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # fails if the folder is not empty


def _limit(value: float | None) -> str:
    return "none" if value is None else f"{value:.10g}"


def _gpus(offer: Offer) -> str:
    """Return the GPUs of an offer as they are typed; with the socket where one can be asked for."""
    if not offer.gpu_count:
        return "cpu"
    gpus = f"{offer.node_gpus}x{offer.gpu_type}"
    with contextlib.suppress(InputError):  # the socket is the provider's text, and may be anything
        if offer.socket and parse_spec(with_socket := f"{gpus} {offer.socket}").socket:
            return with_socket
    return gpus


def _instead(record: RunRecord) -> str:
    return f"Start it from the beginning: hudtui runs rerun {record.id}"


def _inputs(record: RunRecord) -> Iterator[FileRef]:
    spec = record.spec
    named = (spec.tasks, spec.config, spec.reward_file, *spec.reward_modules, spec.policy_file)
    yield from (file for file in named if file is not None)


def _is_same(file: FileRef, path: Path) -> bool:
    try:
        return path.stat().st_size == file.size and file_ref(path).sha256 == file.sha256
    except (OSError, InputError):
        return False


def _unchanged(record: RunRecord, file: FileRef, folder: Path) -> Path:
    """Return a file with the content that an input file had when the run was planned.

    Itself, or the copy of the run.
    """
    copies = [folder / copy.path for copy in record.plan.files if copy.source == file]
    for path in (Path(file.path), *copies):
        if _is_same(file, path):
            return path
    raise InputError(
        f"{file.path} has changed since run {record.id} was planned, and a run is continued with "
        "the same files",
        fix=f"Restore the file, or start the run with the new one: hudtui runs rerun {record.id}",
    )


def _checkpoint(record: RunRecord, folder: Path, step: int | None) -> tuple[Path, int]:
    found = checkpoints(folder / _CHECKPOINTS)
    if step is not None and step not in found:
        known = (
            f"There are checkpoints of the steps {', '.join(map(str, found))}."
            if found
            else _instead(record)
        )
        raise InputError(f"run {record.id} has no complete checkpoint of step {step}", fix=known)
    if not found:
        raise InputError(
            f"run {record.id} has no complete checkpoint on this computer", fix=_instead(record)
        )
    last = max(found) if step is None else step
    return found[last], last


def _files(folder: Path, place: Path) -> Iterator[PlanFile]:
    """Yield a file, or the files in a folder, as files of a plan.

    Their paths are those that they have in a run's folder.
    """
    files = (
        sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    )
    for path in files:
        if path.is_file():
            yield PlanFile(path.relative_to(folder).as_posix(), file_ref(path))
