"""Engines: each turns a `JobSpec` into a `Plan`, without side effects, and provides a reader for its metrics."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

from hudtui.core.errors import InputError
from hudtui.core.python import python_command
from hudtui.core.training.art import Art
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.plan import JobSpec, Plan, PlanFile, PlanOutput, Site, Stage, input_files
from hudtui.core.training.setup import PYTHON, python_environment
from hudtui.core.training.trl import Trl
from hudtui.core.trust import RUN_VARIABLE

S = TypeVar("S", bound=JobSpec)

ENTRY_POINTS = "hudtui.engines"
"""Group under which other packages offer engines: each entry is an object that is an `Engine`, or a class that makes one."""


class Engine(Protocol):
    """An engine carries out runs: it plans their files and commands."""

    @property
    def name(self) -> str:
        """The name that users type."""
        ...

    @property
    def title(self) -> str:
        """A few words for users."""
        ...

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """Return the files and commands of the run at a site. Pure.

        Raises:
            InputError: Something is missing from the spec.
        """
        ...

    def reader(self) -> MetricsReader:
        """Return a reader for the metrics file among the plan's outputs."""
        ...


class Rollouts:
    """Every task is played with a chosen policy; episodes and rewards are logged like training steps. Needs no GPU."""

    name = "rollouts"
    title = "play every task with a policy"

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """See `Engine.plan`."""
        tasks, config, *code = input_files(spec)
        files, policy = [tasks, config, *code, *(spec.continues.files if spec.continues else ())], spec.policy
        if spec.policy_file is not None:
            files.append(PlanFile(f"files/policy/{spec.policy_file.name}", spec.policy_file))
            policy = f"{policy.partition(':')[0]}:{site.path(files[-1].path)}"
        options = {
            "--config": site.path(config.path),
            "--policy": policy,
            "--base-url": spec.base_url,
            "--group": spec.group,
            "--concurrency": spec.concurrency,
            "--limit": spec.limit,
            "--seed": spec.seed,
            "--max-turns": spec.max_turns,
            "--out": site.path("out"),
        }
        python, stages = list(site.python), list[Stage]()
        if site.workspace is None:
            wanted = ("--python", PYTHON, "--disk", str(_DISK))
            there, stages, made = python_environment(spec, site, LOCK, wanted, max_seconds=1800)
            files += made
            python = _beside(there)
        argv = [*python[:-1], *python_command("-m", "hudtui", "eval", site.path(tasks.path), python=python[-1])]
        for option, value in options.items():
            if value is not None:
                argv += [option, str(value)]
        argv.append("--resume")  # a second attempt continues where the first ended
        env = {**spec.variables, **({"HUDTUI_PLATFORM": spec.platform} if spec.platform else {})}
        env[RUN_VARIABLE] = site.path("files")  # what these tasks ask for was agreed to when the run was started
        return Plan(
            engine=self.name,
            stages=(*stages, Stage("play", tuple(argv), cwd=site.workspace or "", env=env, secrets=spec.secrets)),
            files=tuple(files),
            outputs=(
                PlanOutput("out/metrics.jsonl", "metrics", "one line a task"),
                PlanOutput("out/traces.jsonl", "traces", "one line an episode"),
            ),
            max_seconds=spec.max_seconds,
            wheel=bool(stages),
            notes=(spec.continues.text,) if spec.continues else (),
        )

    def reader(self) -> MetricsReader:
        """See `Engine.reader`."""
        return MetricsReader()


LOCK = "base"
"""Name of the lock file with hudtui's own requirements."""
_DISK = 2
"""Disk space in GiB of a Python environment for rollouts, downloads included."""
_BESIDE = 'PATH="$(cd "$0" && pwd):$PATH"; export PATH; exec "$@"'
"""Runs a command with a folder first in PATH, because `python` in a task means a Python with hudtui."""


def _beside(python: str) -> list[str]:
    folder = python.rpartition("/")[0]
    return ["sh", "-c", _BESIDE, folder, python] if folder else [python]


ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Rollouts(), Trl(), Art())}
"""The engines that come with hudtui, by name."""


@cache
def _others() -> dict[str, str]:
    """Return the entry points of other packages' engines by name. Their code runs only when one is chosen."""
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=ENTRY_POINTS) if entry.name not in ENGINES}


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines, those of other packages included."""
    return (*ENGINES, *sorted(_others()))


def find_engine(name: str) -> Engine:
    """Return the engine with this name.

    Raises:
        InputError: The engine does not exist; the error lists the engines.
    """
    if name in ENGINES:
        return ENGINES[name]
    if name not in _others():
        raise InputError(f"there is no engine called {name!r}", fix=f"Engines: {', '.join(engine_names())}.")
    from importlib.metadata import EntryPoint

    try:
        found = EntryPoint(name, _others()[name], ENTRY_POINTS).load()
        engine: Engine = found() if isinstance(found, type) else found
        engine.plan, engine.reader  # noqa: B018  # it must have both
    except Exception as error:  # code of another package
        raise InputError(f"the engine {name!r} cannot be loaded", why=f"{type(error).__name__}: {error}") from None
    return engine


# --- rehearsals --------------------------------------------------------------------------------------------------------------

PYTHON_VARIABLE = "HUDTUI_TRAINER_PYTHON"
"""Variable with the Python of an existing training environment, used instead of a new one."""
ART_SIZE = "0.7 GB on disk"
SIZE = "1.5 GB on disk with the CPU build of PyTorch; about 5 GB if only the CUDA build is available"


@dataclass(frozen=True)
class TrainerEnvironment:
    """The Python environment of a plan's training."""

    python: Path
    ready: bool
    """Whether it exists; otherwise the plan's first stage makes it."""


def as_rehearsal(spec: S, *, steps: int | None = None, gpus: int = 0) -> S:
    """Return the spec of a rehearsal: the same files and settings, few steps, no GPU, and a tiny model or none (ART).

    It has three steps unless `steps` says how many. `gpus` are those of the training that is rehearsed: with two or more, a model
    of the user's gets a server beside the trainer.
    """
    python = spec.trainer_python or os.environ.get(PYTHON_VARIABLE) or None
    if spec.engine == "art":
        return replace(spec, rehearse=True, steps=steps, gpus=0)
    return replace(
        spec, engine="trl", rehearse=True, model=None, learning_rate=None, steps=steps, gpus=gpus, trainer_python=python
    )


def trainer_environment(plan: Plan) -> TrainerEnvironment:
    """Return the Python environment that a plan for this machine trains in.

    Raises:
        InputError: The plan has no training.
    """
    stage = next((stage for stage in plan.stages if stage.name == "train"), None)
    if stage is None:
        raise InputError("this plan trains nothing")
    python = Path(stage.argv[0])
    made_here = any(stage.name == "bootstrap" for stage in plan.stages)
    marked = (python.parent.parent / ".hudtui").exists()
    return TrainerEnvironment(python, ready=python.exists() and (marked or not made_here))
