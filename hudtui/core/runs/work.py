"""The work that a request asks for.

Its files and texts are read here, once for the whole preparation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core import trust
from hudtui.core.compute.gpus import GpuSpec, parse_spec
from hudtui.core.compute.limits import Limits, limits_from_settings
from hudtui.core.diagnosis.stop import check_stop_on
from hudtui.core.errors import InputError
from hudtui.core.runs.checks import Check, refused
from hudtui.core.runs.demand import Demand, read_training, training_demand
from hudtui.core.runs.judge import judge_power
from hudtui.core.runs.request import AS_IS, REMOTE, RunRequest
from hudtui.core.training.engines import find_engine
from hudtui.core.training.recipe import settings_taken

if TYPE_CHECKING:
    from hudtui.core.settings import Settings


@dataclass(frozen=True)
class Work:
    """A request, with everything that its own texts and files say."""

    request: RunRequest
    gpus: GpuSpec | None
    """The GPUs that are asked for."""
    training: Mapping[str, Any]
    """Settings of the trainer: those of the file, then the single ones."""
    limits: Limits
    """Limits of a rented machine."""
    job: Demand | None = None
    """The demand of the training or its rehearsal; None for other work, and for settings that
    cannot be used."""
    checks: tuple[Check, ...] = ()

    @property
    def demand(self) -> Demand | None:
        """The demand of the training, which decides about the machine.

        None for rehearsals and other work.
        """
        return self.job if self.request.trains else None

    @property
    def dialect(self) -> str | None:
        """The form of the model's calls; None: as the configuration says."""
        written = self.training.get("dialect")
        if self.request.dialect is None and isinstance(written, str):
            return written
        return self.request.dialect

    @property
    def judge(self) -> str | None:
        """The model that compares the episodes (RULER); None without one."""
        taken = settings_taken(self.request.features)
        judge = self.training.get("ruler") if "ruler" in taken else None
        return judge if isinstance(judge, str) else None


def read_work(request: RunRequest, folder: Path, settings: Settings) -> Work:
    """Read the texts of a request, the training file, and local files of the model.

    Relative paths start in `folder`.

    Raises:
        InputError: An option is invalid.
        Untrusted: The training file names a judge that the user has not agreed to.
    """
    if request.environments not in (AS_IS, REMOTE):
        problem = f"{request.environments!r} is not a place for environments"
        raise InputError(problem, fix=f"{AS_IS}, or {REMOTE}.")
    check_stop_on(request.stop_on)
    gpus = None if request.gpus is None else parse_spec(request.gpus)
    limits, problems = _limits(request, settings)
    checks = list(problems)
    try:
        training = read_training(request, folder)
    except InputError as error:
        checks.append(refused("training", error))
        return Work(request, gpus, request.settings, limits, checks=tuple(checks))
    work = Work(request, gpus, training, limits)
    if work.judge is not None and request.training is not None and "ruler" not in request.settings:
        trust.require(settings.folder, [judge_power(work.judge, settings, request.training)])
    job: Demand | None = None
    if request.trains or request.rehearse:
        try:
            job = training_demand(request, training, folder)
        except InputError as error:
            checks.append(refused("training", error))
        else:
            checks += _engine_checks(request, job)
    return Work(request, gpus, training, limits, job, tuple(checks))


def _engine_checks(request: RunRequest, job: Demand) -> Iterator[Check]:
    """Yield what the engine itself cannot carry out of a training or a rehearsal."""
    for error in find_engine(request.engine).check(request, job.recipe):
        yield refused("training", error)


def _limits(request: RunRequest, settings: Settings) -> tuple[Limits, tuple[Check, ...]]:
    """Return the limits of a rented machine, and what is wrong with those of the settings."""
    try:
        limits = limits_from_settings(settings)
    except InputError as error:
        if request.limits:
            raise
        return Limits(), (refused("machine", error),)
    for name, text in request.limits.items():
        limits = limits.with_value(name, text)
    return limits, ()
