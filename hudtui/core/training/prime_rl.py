"""The engine `prime-rl`: many GPUs, or several machines. Its plan follows the published form; it was never run here.

The trainer is fetched at a fixed release with its own lock, reads one TOML file, and plays the tasks through the gym that hudtui
installs (`hud_vf_gym`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.training.metrics import MetricsReader
from hudtui.core.training.plan import WHEELS, JobSpec, Plan, PlanFile, PlanOutput, Site, Stage, input_files
from hudtui.core.training.recipe import Recipe, recipe_for
from hudtui.core.trust import RUN_VARIABLE

REPOSITORY = "https://github.com/PrimeIntellect-ai/prime-rl.git"
RELEASE = "v0.8.1.dev67"
"""Of August 2026, the newest one seen. Its configuration is that of verifiers 0.4."""
FOLDER = "prime-rl"

_TOGETHER = (
    f"prime-rl {RELEASE} locks mcp 1 and verifiers 0.3; hudtui's gym needs mcp 2 and verifiers 0.4, and the two cannot be "
    "installed together"
)


NAMES = {
    "reward/all/mean": "reward",
    "loss/mean": "loss",
    "optim/lr": "learning_rate",
    "optim/grad_norm": "grad_norm",
    "mismatch_kl/all/mean": "kl",
    "perf/throughput": "tokens_per_s",
    "time/step": "step_time",
}
"""What it calls the numbers that other engines have too."""


class PrimeRlReader(MetricsReader):
    """Its metrics, under the names that all engines share; numbers that only it has keep theirs."""

    def add(self, row: Mapping[str, Any], *, at: float | None = None, x: float | None = None) -> None:
        super().add({NAMES.get(name, name): value for name, value in row.items()}, at=at, x=x)


class PrimeRl:
    """prime-rl: asynchronous training on many GPUs."""

    name = "prime-rl"
    title = "train a model on many GPUs (prime-rl)"

    ready = False
    """It is on no package index, and no release of it that was seen can be installed beside hudtui. It plans all the same."""

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        if spec.rehearse:
            raise InputError("prime-rl cannot be rehearsed: it needs GPUs", fix="Rehearse with --engine trl.")
        tasks, config, *code = input_files(spec)
        if spec.continues is not None:
            raise InputError("hudtui cannot continue a training of prime-rl", fix="Start it again: hudtui runs rerun RUN.")
        if spec.gpus < 2:
            raise InputError("prime-rl needs 2 GPUs or more", fix="Train on one with --engine trl.")
        recipe = recipe_for(spec)
        toml = PlanFile("files/rl.toml", content=to_toml(settings(spec, recipe, f"../{tasks.path}", f"../{config.path}")))
        script = PlanFile("files/setup.sh", content=_setup(site))
        return Plan(
            engine=self.name,
            stages=(
                Stage("bootstrap", ("sh", "files/setup.sh"), max_seconds=3600),
                Stage(
                    "train",
                    ("uv", "run", "--no-sync", "rl", "@", "../files/rl.toml", "--output-dir", "..", "--run.name", "out"),
                    cwd=FOLDER,
                    env={RUN_VARIABLE: "../files"},  # the user agreed to what these files ask for when the run was started
                    secrets=spec.secrets,
                    grace=300,
                ),
            ),
            files=(tasks, config, *code, toml, script),
            outputs=(
                PlanOutput("out/metrics.jsonl", "metrics", "one line or more a step"),
                PlanOutput("out/checkpoints", "model", "checkpoints"),
            ),
            max_seconds=spec.max_seconds,
            wheel=True,
            notes=(
                "this engine's plan follows prime-rl's published configuration; hudtui's makers have never run it",
                f"prime-rl is on no package index and is cloned from GitHub; {_TOGETHER}: the setup looks at its lock first and "
                "stops if that is still so",
            ),
        )

    def reader(self) -> MetricsReader:
        return PrimeRlReader()


def settings(spec: JobSpec, recipe: Recipe, tasks: str, config: str) -> dict[str, Any]:
    """The TOML's content: half of the GPUs (rounded down) generate, the others train."""
    serving = spec.gpus // 2
    adapter = {"lora": {"rank": recipe.lora_rank, "alpha": recipe.lora_alpha}} if recipe.lora else {}
    name = f"hudtui-r{recipe.lora_rank}"
    return {
        "max_steps": recipe.steps,
        "seq_len": recipe.max_seq_len,
        "model": {"name": recipe.model},
        "deployment": {"num_train_gpus": spec.gpus - serving, "num_infer_gpus": serving},
        "ckpt": {"interval": recipe.save_every, "keep_last": recipe.keep_checkpoints},
        "trainer": {
            "model": adapter,
            "optim": {"lr": recipe.rate},
        },
        "orchestrator": {
            "batch_size": recipe.batch_size * recipe.gradient_accumulation * (spec.gpus - serving),
            "group_size": recipe.num_generations,
            "renderer": {"name": "default"},  # the model's own chat template; prime-rl knows few models by name
            **({"model": {"lora": {"name": name}}} if recipe.lora else {}),
            "train": {
                "sampling": {"temperature": recipe.temperature, "max_completion_tokens": recipe.max_tokens},
                "source": [
                    {
                        "name": "hudtui",
                        "env": {
                            "taskset": {"id": "hud-vf-gym", "taskset": tasks, "config_path": config},
                            "agent": {"runtime": {"type": "subprocess"}},
                        },
                    }
                ],
            },
        },
        "inference": {"vllm": {"enable_lora": recipe.lora, "gpu_memory_utilization": recipe.gpu_memory_utilization}},
    }


def to_toml(data: dict[str, Any]) -> str:
    """`data` as TOML: values, then tables, then lists of tables."""
    lines: list[str] = []
    _table(data, (), lines)
    return "\n".join(lines).strip() + "\n"


def _table(data: dict[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    for name, value in data.items():
        if not isinstance(value, dict) and not _tables(value):
            lines.append(f"{name} = {json.dumps(value)}")  # the values used here look the same in both
    for name, value in data.items():
        inner = (*path, name)
        if isinstance(value, dict) and value:
            if any(not isinstance(item, dict) and not _tables(item) for item in value.values()):
                lines += ["", f"[{'.'.join(inner)}]"]
            _table(value, inner, lines)
        elif _tables(value):
            for item in value:
                lines += ["", f"[[{'.'.join(inner)}]]"]
                _table(item, inner, lines)


def _tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _setup(site: Site) -> str:
    return f"""set -eu
command -v uv >/dev/null 2>&1 || {{ echo "error: uv is not on the PATH; install it first"; exit 5; }}
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader
if [ ! -d {FOLDER} ]; then
    git clone --depth 1 --branch {RELEASE} --recurse-submodules --shallow-submodules {REPOSITORY} {FOLDER}.part
    mv {FOLDER}.part {FOLDER}
fi
cd {FOLDER}
if sed -n '/^name = "mcp"$/{{n;p;}}' uv.lock | grep -q '"1\\.'; then
    echo "error: {_TOGETHER}"
    echo "  A newer release may do; until then: --engine trl"
    exit 5
fi
uv sync --locked --all-extras
uv pip install ../{WHEELS}/*.whl
"""
