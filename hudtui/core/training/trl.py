"""The engine `trl`: GRPO with TRL's trainer, and vLLM beside it.

Pure: a spec and a place become a plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from hudtui.core.errors import InputError
from hudtui.core.plain import to_plain
from hudtui.core.training.engine import Training
from hudtui.core.training.features import Features
from hudtui.core.training.memory import GpuLayout, check_memory, layout
from hudtui.core.training.nodes import beside, launch_words, plan_nodes
from hudtui.core.training.options import JobOptions
from hudtui.core.training.plan import (
    JobSpec,
    Plan,
    PlanFile,
    PlanOutput,
    PlanPort,
    Readiness,
    RestartPolicy,
    Site,
    Stage,
    input_files,
)
from hudtui.core.training.recipe import FEWEST_TASKS, RECIPE, REHEARSAL, TINY, Recipe, recipe_of
from hudtui.core.training.setup import REHEARSE, gpu_options, python_environment, trainer_variables

PORT = 8000
"""Host of the model's server. It listens on the loopback address alone: its admin routes ask for no
key."""
DRIVER = 580
"""Oldest NVIDIA driver for the CUDA that the locked PyTorch is built for."""
_ENVIRONMENT_GIB = 22.0
"""Space of the training environment on disk, with its downloads."""
_STARTS_WITHIN = 1800.0
"""Seconds for the server to download a model and load it."""
_SHARED_SECRETS = ("HF_TOKEN",)
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
_SHARDED = (
    *("--use_fsdp", "--fsdp_version", "2"),
    # Layer by layer: otherwise each GPU would gather the whole model at once.
    *("--fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP"),
    # Otherwise the trainer saves no model that anything else can load.
    *("--fsdp_state_dict_type", "FULL_STATE_DICT"),
)
"""Has `accelerate` spread a model over the GPUs that train it."""
_GLOO = ("--multi_gpu", "--mixed_precision", "no", "--dynamo_backend", "no")
"""Has `accelerate` start processes that meet through the network, without GPUs too."""


class Trl(Training):
    """GRPO with LoRA on TRL; a rehearsal is the same plan with a tiny model on the CPU."""

    name = "trl"
    title = "train a model with GRPO (TRL and vLLM)"
    features = Features(
        gpu="usual",
        continues="checkpoint",
        rehearsal=REHEARSAL,
        installs="PyTorch",
        installed_size=(
            "1.5 GB on disk with the CPU build of PyTorch; about 5 GB if only the CUDA build is "
            "available"
        ),
        fewest_tasks=FEWEST_TASKS,
        sends_model=True,
        nodes=True,
    )

    def check(self, request: JobOptions, recipe: Recipe) -> Iterable[InputError]:
        """See `Engine.check`."""
        if recipe.model == TINY and not request.rehearse:
            yield _only_for_rehearsals()

    def plan(self, spec: JobSpec, site: Site) -> Plan:
        """See `Engine.plan`."""
        if spec.nodes == 1:
            return self._plan(spec, site)
        return plan_nodes(spec, site, lambda place, node: self._plan(spec, place, node))

    def _plan(self, spec: JobSpec, site: Site, node: int = 0) -> Plan:
        """Return the plan of one machine, or of a node without its meeting with the others."""
        tasks, config, *code = input_files(spec)
        recipe = recipe_of(spec, self.features)
        model: list[PlanFile] = []
        source = recipe.model
        if spec.model_files:  # a folder of the user's computer, which becomes one of the run
            here = PurePosixPath(spec.model_files[0].path).parent
            model = [
                PlanFile(f"files/model/{here.name}/{file.name}", file) for file in spec.model_files
            ]
            source = site.path(f"files/model/{here.name}")
            recipe = replace(recipe, model=str(here), learning_rate=recipe.rate)
        chosen = PlanFile(RECIPE, content=json.dumps(to_plain(recipe), indent=1) + "\n")
        files = [
            tasks,
            config,
            *code,
            chosen,
            *model,
            *(spec.continues.files if spec.continues else ()),
        ]
        where = None if spec.rehearse or spec.gpus == 0 else _gpus(spec, recipe)
        if where is None and not spec.rehearse and recipe.model == TINY:
            raise _only_for_rehearsals()
        one = spec.nodes == 1
        served = one and spec.rehearse and spec.gpus > 1 and recipe.model != TINY
        if where is None and not one:
            recipe.check_batch(spec.nodes)
            _check_refill(recipe, spec.nodes)
        if served and spec.trainer_python is None:
            raise InputError(
                "a rehearsal with a model server needs vLLM for CPUs, which is in no lock file",
                fix=(
                    "Name a Python that has `vllm` beside it (--python), or leave out --gpus: the "
                    "model generates by itself."
                ),
            )
        if where is None:
            cpu = [
                "--first",
                site.path("files/torch-cpu.txt"),
                "--cuda",
                site.path("files/rehearse-cuda.txt"),
            ]
            cpu += ["--python", "3.11", "--disk", "7"]
            python, stages, made = python_environment(
                spec, site, REHEARSE, cpu, also=("torch-cpu", "rehearse-cuda")
            )
        else:
            least = [gpu.floor for gpu in where.memory] if where.memory else [0.0] * spec.gpus
            options = gpu_options(
                spec, recipe.model, disk=_ENVIRONMENT_GIB, driver=DRIVER, vram=least
            )
            python, stages, made = python_environment(spec, site, "train", options)
        files += made
        argv = [
            *(
                "-m",
                "hudtui.trainers.grpo",
                "--recipe",
                site.path(chosen.path),
                "--tasks",
                site.path(tasks.path),
            ),
            *("--config", site.path(config.path), "--out", site.path("out")),
            *(("--model", source) if model else ()),
        ]
        base, secrets = trainer_variables(spec, site, code=bool(code))
        cwd = site.workspace or ""
        ports: tuple[PlanPort, ...] = ()
        notes: list[str] = [spec.continues.text] if spec.continues else []
        shared = tuple(name for name in secrets if name in _SHARED_SECRETS)
        words = [
            "-m",
            "hudtui.trainers.fetch",
            "--recipe",
            site.path(chosen.path),
            "--config",
            site.path(config.path),
        ]
        words += ["--model", source] if model else []
        fetch = Stage(
            "model",
            (python, *words),
            cwd=cwd,
            env=base,
            secrets=shared,
            restart=RestartPolicy(2, 15.0),
        )
        if where is None:
            if recipe.model == TINY:
                notes.append(
                    "a rehearsal: a tiny model that knows nothing, on the CPU; its rewards say "
                    "nothing about a real one"
                )
            else:
                stages.append(fetch)
                if served:
                    stages.append(
                        _serve_on_cpu(replace(recipe, model=source), python, base, shared, cwd)
                    )
                    ports = (
                        PlanPort(
                            PORT,
                            f"{recipe.model} (vLLM on the CPU), on the machine's loopback address",
                        ),
                    )
                    notes.append(
                        "a rehearsal with a model server, both on the CPU, in 32 bits: the server "
                        "loads the adapter of each step, where GPUs send all weights with NCCL"
                    )
                else:
                    notes.append(
                        "on the CPU: the model generates by itself, without a server beside it, "
                        "and in 32 bits"
                    )
            # One thread: more of them wait for one another, and are no faster on two cores.
            env = {
                **base,
                "CUDA_VISIBLE_DEVICES": "",
                **({} if recipe.model == TINY else _ONE_THREAD),
            }
            if served:
                env["HUDTUI_VLLM_URL"] = f"http://127.0.0.1:{PORT}"
            words = [python]
            if not one:
                words = [*launch_words(spec, site, node, python, processes=1), *_GLOO]
                env |= {"ACCELERATE_USE_CPU": "true", **_ONE_THREAD}
            train = Stage("train", (*words, *argv), cwd=cwd, env=env, secrets=secrets, grace=120)
        else:
            if where.memory is None:
                notes.append(
                    f"the size of the model {recipe.model} is not known here: the memory of the "
                    "GPUs was not estimated"
                )
            else:
                notes += [gpu.line() for gpu in where.memory]
            stages.append(fetch)
            if not where.shared:
                stages.append(
                    _serve(replace(recipe, model=source), where, python, base, shared, cwd)
                )
                ports = (
                    PlanPort(PORT, f"{recipe.model} (vLLM), on the machine's loopback address"),
                )
            launcher: tuple[str, ...] = ()
            if not one:
                launcher = launch_words(spec, site, node, python, processes=len(where.train))
            train = _train(recipe, where, python, argv, base, secrets, cwd, launcher)
        stages.append(train)
        return Plan(
            engine=self.name,
            stages=tuple(stages),
            files=tuple(files),
            ports=ports,
            outputs=(
                PlanOutput("out/metrics.jsonl", "metrics", "one line a step"),
                PlanOutput("out/traces.jsonl", "traces", "some episodes of each step"),
                PlanOutput("out/model", "model", "the adapter" if recipe.lora else "the weights"),
                PlanOutput("out/checkpoints", "model", "to resume from"),
            ),
            max_seconds=spec.max_seconds,
            wheel=spec.trainer_python is None and site.package is None,
            notes=tuple(notes),
        )


def serve_command(vllm: str, recipe: Recipe, serving: int) -> tuple[str, ...]:
    """The model's server.

    On the loopback address, with the routes by which a trainer sends new weights.
    """
    return (
        *(vllm, "serve", recipe.model, "--host", "127.0.0.1", "--port", str(PORT)),
        *(
            "--max-model-len",
            str(recipe.max_seq_len),
            "--gpu-memory-utilization",
            f"{recipe.gpu_memory_utilization:g}",
        ),
        *(("--tensor-parallel-size", str(serving)) if serving > 1 else ()),
        *(("--enforce-eager",) if recipe.enforce_eager else ()),
        *("--weight-transfer-config", '{"backend": "nccl"}'),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1", "--enable-scale-out"),
    )


def _serve_on_cpu(
    recipe: Recipe, python: str, base: dict[str, str], secrets: tuple[str, ...], cwd: str
) -> Stage:
    """The server of a rehearsal.

    Without the routes of NCCL, and with those that load an adapter.
    """
    argv = (
        *(
            beside(python, "vllm"),
            "serve",
            recipe.model,
            "--host",
            "127.0.0.1",
            "--port",
            str(PORT),
            "--dtype",
            "float32",
        ),
        *("--max-model-len", str(recipe.max_seq_len), "--max-num-seqs", "32", "--enforce-eager"),
        *("--enable-lora", "--max-lora-rank", str(max(recipe.lora_rank, 8)), "--max-loras", "2"),
        *("--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1"),
    )
    env = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "0",
    }
    return Stage(
        "serve",
        argv,
        cwd=cwd,
        env={**base, "CUDA_VISIBLE_DEVICES": "", **env},
        secrets=secrets,
        service=True,
        ready=Readiness(port=PORT, timeout=_STARTS_WITHIN),
        grace=30,
    )


def _serve(
    recipe: Recipe,
    where: GpuLayout,
    python: str,
    base: dict[str, str],
    secrets: tuple[str, ...],
    cwd: str,
) -> Stage:
    return Stage(
        "serve",
        serve_command(beside(python, "vllm"), recipe, len(where.serve)),
        cwd=cwd,
        env={**base, "CUDA_VISIBLE_DEVICES": _numbers(where.serve), "VLLM_SERVER_DEV_MODE": "1"},
        secrets=secrets,
        service=True,
        ready=Readiness(port=PORT, timeout=_STARTS_WITHIN),
        grace=30,
    )


def _train(
    recipe: Recipe,
    where: GpuLayout,
    python: str,
    argv: Sequence[str],
    base: dict[str, str],
    secrets: tuple[str, ...],
    cwd: str,
    launcher: tuple[str, ...] = (),
) -> Stage:
    env = {**base, "CUDA_VISIBLE_DEVICES": _numbers(where.train)}
    if not where.shared:
        env["HUDTUI_VLLM_URL"] = f"http://127.0.0.1:{PORT}"
    command: tuple[str, ...] = (python,)
    if len(where.train) > 1 or launcher:
        command = launcher or (
            beside(python, "accelerate"),
            "launch",
            "--num_machines",
            "1",
            "--num_processes",
            str(len(where.train)),
        )
        command += ("--mixed_precision", "bf16" if recipe.bf16 else "no")
        command += _SHARDED if where.sharded else ("--multi_gpu",)
    return Stage("train", (*command, *argv), cwd=cwd, env=env, secrets=secrets, grace=300)


def _gpus(spec: JobSpec, recipe: Recipe) -> GpuLayout:
    """Assign the GPUs.

    Raises:
        InputError: The training cannot work on them.
    """
    if recipe.model == TINY:
        raise _only_for_rehearsals()
    where = layout(spec.gpus, recipe, spec.gpu_memory, spec.shape, spec.nodes)
    if not recipe.vllm and spec.gpus > 1:
        raise InputError(
            f"a training without vLLM takes one GPU, and this run has {spec.gpus}",
            fix="Take one (--gpus 1), or leave out vllm: false.",
        )
    processes = len(where.train) * spec.nodes
    recipe.check_batch(processes)
    _check_refill(recipe, processes)
    check_memory(where.memory or (), spec.gpu_memory)
    return where


def _check_refill(recipe: Recipe, processes: int) -> None:
    """Check that groups are refilled by one process alone.

    Raises:
        InputError: They would be refilled by several.
    """
    if recipe.refill_groups and processes > 1:
        raise InputError(
            f"groups are refilled on one training GPU, and this run trains on {processes}",
            fix="Leave out refill_groups, or take at most two GPUs: one serves, one trains.",
        )


def _only_for_rehearsals() -> InputError:
    return InputError(
        "the model `tiny` is for rehearsals",
        fix="Name another one with --model, or rehearse: hudtui rl --rehearse.",
    )


def _numbers(gpus: Sequence[int]) -> str:
    return ",".join(map(str, gpus))
