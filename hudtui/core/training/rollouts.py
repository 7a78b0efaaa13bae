"""The engine `rollouts`: every task is played with a chosen policy, without a training. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from hudtui.core.errors import InputError
from hudtui.core.python import python_command
from hudtui.core.training.features import Features
from hudtui.core.training.memory import GpuMemory
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.options import JobOptions
from hudtui.core.training.plan import JobSpec, Plan, PlanFile, PlanOutput, Site, Stage, input_files
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.setup import PYTHON, python_environment
from hudtui.core.training.shape import ModelShape
from hudtui.core.trust import RUN_VARIABLE

LOCK = "base"
"""Name of the lock file with hudtui's own requirements."""
_DISK = 2
"""Disk space in GiB of a Python environment for rollouts, downloads included."""
_BESIDE = 'PATH="$(cd "$0" && pwd):$PATH"; export PATH; exec "$@"'
"""Runs a command with a folder first in PATH, because `python` in a task means a Python with
hudtui."""


class Rollouts:
    """Every task is played with a chosen policy.

    Episodes and rewards are logged like training steps. Needs no GPU.
    """

    name = "rollouts"
    title = "play every task with a policy"
    features = Features(trains=False, gpu="unused", continues="episodes", exports=False)

    def check(self, request: JobOptions, recipe: Recipe) -> Iterable[InputError]:
        """See `Engine.check`."""
        return ()

    def memory(
        self, recipe: Recipe, shape: ModelShape, gpus: int, gpu_memory: float, nodes: int = 1
    ) -> tuple[GpuMemory, ...]:
        """See `Engine.memory`."""
        return ()

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """See `Engine.plan`."""
        tasks, config, *code = input_files(spec)
        files, policy = (
            [tasks, config, *code, *(spec.continues.files if spec.continues else ())],
            spec.policy,
        )
        if spec.policy_file is not None:
            files.append(PlanFile(f"files/policy/{spec.policy_file.name}", spec.policy_file))
            policy = f"replay:{site.path(files[-1].path)}"
        options = {
            "--config": site.path(config.path),
            "--policy": policy,
            "--base-url": spec.base_url,
            "--group": spec.group,
            "--concurrency": spec.concurrency,
            "--limit": spec.limit,
            "--seed": spec.seed,
            "--max-turns": spec.max_turns,
            "--dialect": spec.dialect,
            "--output": site.path("out"),
        }
        python, stages = list(site.python), list[Stage]()
        if site.workspace is None:
            wanted = ("--python", PYTHON, "--disk", str(_DISK))
            there, stages, made = python_environment(spec, site, LOCK, wanted, max_seconds=1800)
            files += made
            python = _beside(there)
        argv = [
            *python[:-1],
            *python_command("-m", "hudtui", "eval", site.path(tasks.path), python=python[-1]),
        ]
        for option, value in options.items():
            if value is not None:
                argv += [option, str(value)]
        argv.append("--resume")  # a second attempt continues where the first ended
        env = {**spec.variables, **({"HUDTUI_PLATFORM": spec.platform} if spec.platform else {})}
        env[RUN_VARIABLE] = site.path(
            "files"
        )  # what these tasks ask for was agreed to when the run was started
        return Plan(
            engine=self.name,
            stages=(
                *stages,
                Stage("play", tuple(argv), cwd=site.workspace or "", env=env, secrets=spec.secrets),
            ),
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


def _beside(python: str) -> list[str]:
    folder = python.rpartition("/")[0]
    return ["sh", "-c", _BESIDE, folder, python] if folder else [python]
