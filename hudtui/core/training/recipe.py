"""How a model is trained.

Every setting of a trainer with its default and bounds, read from a YAML or JSON file. The defaults
are those of the trainer that hudtui's predecessor used (GRPO with LoRA on `Qwen2.5-3B-Instruct`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.gym.dialects.names import check_dialect
from hudtui.core.knobs import is_number, knob, out_of_bounds
from hudtui.core.plain import convert
from hudtui.core.text import clean_line, did_you_mean, plural
from hudtui.core.training.features import Features
from hudtui.core.training.options import TRAINING, JobOptions
from hudtui.core.training.plan import JobSpec
from hudtui.core.training.shape import billions

RECIPE = "files/recipe.json"
"""Where the recipe lies in a run's folder."""
TINY = "tiny"
"""Name of the model that is built in code, for rehearsals."""

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_PROJECT = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
FEWEST_TASKS = 4
"""Tasks below which there is nothing to generalise from."""


@dataclass(frozen=True)
class Recipe:
    """The settings of a trainer. Fields that count tokens count tokens of the model."""

    model: str = knob("Qwen/Qwen2.5-3B-Instruct", "An id on the Hub, a folder, or `tiny`.")
    learning_rate: float | None = knob(
        None,
        "Learning rate; by default it depends on the model's size.",
        minimum=0,
        label="learning rate",
        group=TRAINING,
    )
    lr_scheduler: str = "constant_with_warmup"
    warmup_steps: int = knob(10, "Steps in which the learning rate rises.", minimum=0)
    steps: int = knob(100, "Training steps.", minimum=1)
    num_generations: int = knob(
        16,
        "Episodes of one task that are compared with one another.",
        minimum=2,
        label="group",
        group=TRAINING,
    )
    refill_groups: int = knob(
        0,
        "Times a step that groups whose episodes all got the same reward are played again with "
        "other tasks. Each costs as many episodes as these groups have.",
        minimum=0,
        maximum=16,
        label="refill groups",
    )
    batch_size: int = knob(
        8,
        "Episodes that one GPU computes gradients for at once.",
        minimum=1,
        label="batch",
        group=TRAINING,
    )
    gradient_accumulation: int = knob(2, "Batches per step.", minimum=1, label="batches")
    num_iterations: int = knob(1, "Updates per batch of episodes.", minimum=1)
    lora: bool = knob(
        True,
        "Train an adapter; otherwise all weights.",
        label="LoRA",
        choices=(("an adapter", "true"), ("all weights", "false")),
        group=TRAINING,
    )
    max_tokens: int = knob(
        1024, "Tokens of one reply.", minimum=1, label="max tokens", group=TRAINING
    )
    max_seq_len: int = knob(
        4096,
        "Tokens of a conversation. An episode ends when another reply might not fit.",
        minimum=16,
    )
    max_turns: int | None = knob(
        None,
        "Replies of an episode; by default as many as the gym's configuration says.",
        minimum=1,
    )
    dialect: str | None = None
    """Form of the model's calls; None: as the gym's configuration says."""
    temperature: float = knob(1.0, "Temperature of the sampling.", minimum=0.01)
    top_p: float = 1.0
    beta: float = knob(0.001, "Weight of the distance from the model before training.", minimum=0)
    epsilon: float = 0.2
    loss_type: str = "dr_grpo"
    max_grad_norm: float = 0.01
    scale_rewards: str = "group"
    gradient_checkpointing: bool = True
    bf16: bool = True
    lora_rank: int = knob(8, "Rank of the adapter.", minimum=1)
    lora_alpha: int = 16
    lora_dropout: float = 0.0
    lora_targets: tuple[str, ...] = knob(
        ("q_proj", "k_proj", "v_proj", "o_proj"),
        "Names of the layers that get an adapter; `all-linear` for all.",
        in_form=False,
    )
    held_out: int = knob(
        0, "Number of tasks at the end of the list that are kept for evaluation.", minimum=0
    )
    eval_every: int = knob(20, "Steps between evaluations.", minimum=1)
    eval_first: bool = knob(
        False, "Evaluate before the first step, too: what the held-out tasks earn untrained."
    )
    save_every: int = knob(10, "Steps between checkpoints.", minimum=1)
    keep_checkpoints: int = knob(3, "Checkpoints kept, the newest.", minimum=1)
    patience: int | None = knob(
        None,
        "Evaluations without a better reward after which training stops; by default it does not "
        "stop.",
        minimum=1,
    )
    stop_at_reward: float | None = knob(
        None, "Mean reward of the last ten steps at which training stops."
    )
    traces_per_step: int = knob(32, "Episodes of a step that are recorded in full.", minimum=0)
    timeout: float = knob(
        60.0, "Seconds for a connection to an environment, and for one call.", minimum=0.1
    )
    seed: int = 0
    gpu_memory_utilization: float = knob(
        0.9,
        "Share of a GPU that the model's server takes; a third of it where training shares the "
        "GPU.",
        minimum=0.05,
        maximum=1,
        label="vLLM share",
    )
    enforce_eager: bool = knob(
        False,
        "The model's server generates without CUDA graphs: it starts sooner, takes less memory, "
        "and is slower.",
    )
    vllm: bool = knob(
        True,
        "Generate with vLLM. Without it the trainer generates by itself, on one GPU and more "
        "slowly: for a Python that has no vLLM.",
        in_form=False,
    )
    groups_per_step: int | None = knob(
        None, "Only with art: tasks of a step; by default two.", minimum=1
    )
    episode_timeout: float | None = knob(
        None, "Only with art: seconds for one episode; by default there is no limit.", minimum=1
    )
    ruler: str | None = knob(
        None,
        "Only with art: model that judges the episodes of a task against one another (RULER), such "
        "as openai/o3.",
    )
    project: str = knob("hud-art", "Only with art: project in ART's records.")
    model_name: str | None = knob(
        None, "Only with art: name of the trained model; by default it is made from the base model."
    )
    log_level: str = knob(
        "INFO", "Only with art: level of the log of the libraries: DEBUG, INFO, WARNING or ERROR."
    )
    wandb: bool = knob(True, "Send metrics to Weights & Biases where WANDB_API_KEY is set.")
    warm_start: int = knob(
        0,
        "Only with `tiny`: steps of imitating the calls that the configuration describes, before "
        "the training.",
        minimum=0,
        in_form=False,
    )

    def __post_init__(self) -> None:
        if problem := out_of_bounds(self):
            raise InputError(problem)
        check_project(self.project)
        if self.dialect is not None:
            check_dialect(self.dialect)
        if self.log_level not in LOG_LEVELS:
            raise InputError(
                f"{clean_line(self.log_level, 80)!r} is no level of the log",
                fix=f"Levels: {', '.join(LOG_LEVELS)}.",
            )
        if self.max_tokens >= self.max_seq_len:
            raise InputError(
                f"a reply may have {self.max_tokens} tokens, and a whole conversation "
                f"{self.max_seq_len}",
                fix="Lower max_tokens, or raise max_seq_len.",
            )

    @property
    def rate(self) -> float:
        """The learning rate that is used."""
        return (
            default_learning_rate(self.model) if self.learning_rate is None else self.learning_rate
        )

    def _whole_batch(self, processes: int) -> int:
        """Return the smallest batch from the present one on that makes whole groups."""
        others = self.gradient_accumulation * processes
        part = self.num_generations // math.gcd(self.num_generations, others)
        return -(-self.batch_size // part) * part

    def check_batch(self, processes: int) -> None:
        """Whether the episodes of a step can be dealt out in whole groups.

        Raises:
            InputError: They cannot.
        """
        batch = self.batch_size * self.gradient_accumulation * processes
        if batch % self.num_generations:
            raise InputError(
                f"num_generations ({self.num_generations}) does not divide the {batch} episodes of "
                "a step",
                why=(
                    f"batch_size {self.batch_size} x gradient_accumulation "
                    f"{self.gradient_accumulation} x {processes} training processes"
                ),
                fix=(
                    f"With batch_size={self._whole_batch(processes)} the episodes of a step are "
                    "whole groups; or change one of the others."
                ),
            )


REHEARSAL: Mapping[str, Any] = {
    "model": TINY,
    "learning_rate": 1e-3,
    "warmup_steps": 0,
    "steps": 3,
    "batch_size": 4,
    "gradient_accumulation": 1,
    "num_generations": 4,
    "max_tokens": 48,
    "max_seq_len": 2048,
    "max_turns": 3,
    "max_grad_norm": 1.0,
    "gradient_checkpointing": False,
    "bf16": False,
    "lora_targets": ("all-linear",),
    "eval_every": 2,
    "save_every": 2,
    "warm_start": 80,
}
"""What a rehearsal changes, so that it takes a minute on a CPU."""


ART: Mapping[str, Any] = {
    "steps": 10,
    "num_generations": 4,
    "groups_per_step": 2,
    "max_tokens": 2048,
    "max_seq_len": 8192,
    "max_turns": 10,
    "beta": 0.0,
    "gpu_memory_utilization": 0.8,
    "eval_every": 5,
    "save_every": 5,
    "held_out": 0,
}
"""Defaults of a training with ART, where they are not those above."""
ONLY_ART = ("groups_per_step", "episode_timeout", "ruler", "project", "model_name", "log_level")
"""Settings that only a training with ART has."""
ALSO_ART = (
    *(
        "model",
        "learning_rate",
        "steps",
        "num_generations",
        "refill_groups",
        "max_tokens",
        "max_seq_len",
        "max_turns",
        "temperature",
        "top_p",
    ),
    *(
        "beta",
        "epsilon",
        "scale_rewards",
        "lora_rank",
        "lora_alpha",
        "held_out",
        "eval_every",
        "save_every",
        "keep_checkpoints",
    ),
    *("timeout", "seed", "gpu_memory_utilization", "enforce_eager", "wandb"),
)
"""Settings of the other trainers that ART takes."""


_OTHERS: Mapping[str, Sequence[str]] = {
    "model": ("model_name_or_path", "model_name_or_id", "base_model", "pretrain"),
    "batch_size": ("per_device_train_batch_size", "micro_batch_size", "train_batch_size"),
    "gradient_accumulation": ("gradient_accumulation_steps",),
    "num_generations": (
        "rollouts_per_group",
        "rollouts_per_example",
        "n_samples_per_prompt",
        "group_size",
    ),
    "num_iterations": ("num_ppo_epochs", "ppo_epochs"),
    "steps": ("max_steps",),
    "steps (hudtui counts no epochs)": ("num_train_epochs", "num_epochs", "epochs"),
    "max_tokens": (
        "max_completion_length",
        "max_new_tokens",
        "max_response_length",
        "generate_max_len",
    ),
    "max_seq_len": (
        "max_seq_length",
        "max_length",
        "max_prompt_length",
        "max_model_len",
        "cutoff_len",
        "sequence_len",
    ),
    "learning_rate": ("lr", "actor_learning_rate"),
    "lr_scheduler": ("lr_scheduler_type",),
    "warmup_steps": ("num_warmup_steps",),
    "warmup_steps (a number of steps)": ("warmup_ratio",),
    "beta": ("kl_coef", "kl_penalty_coef", "init_kl_coef", "kl_loss_coef"),
    "epsilon": ("cliprange", "clip_range", "eps_clip", "clip_ratio"),
    "max_grad_norm": ("max_norm", "grad_clip"),
    "gradient_checkpointing": ("use_gradient_checkpointing",),
    "bf16 (true or false)": ("fp16", "torch_dtype", "dtype"),
    "lora (true or false)": ("use_peft", "use_lora", "finetuning_type", "adapter", "peft_config"),
    "lora_rank": ("lora_r", "r"),
    "lora_targets": ("lora_target_modules", "lora_target", "target_modules"),
    "save_every": ("save_steps", "save_checkpoints_every", "save_freq"),
    "eval_every": ("eval_steps", "validate_every", "test_freq"),
    "keep_checkpoints": ("save_total_limit",),
    "held_out": ("num_val_scenarios", "num_eval_examples"),
    "gpu_memory_utilization": ("vllm_gpu_memory_utilization", "vllm_gpu_util"),
    "wandb (true or false)": ("report_to", "wandb_project"),
    "the option --output-dir": ("output_dir",),
    "the option --name": ("run_name",),
    "the option --dataset": ("dataset", "dataset_name", "train_dataset"),
}
"""Settings, and what other trainers call them: verifiers, TRL, transformers, ART, verl, OpenRLHF,
LLaMA-Factory, axolotl."""
OTHER_NAMES: Mapping[str, str] = {
    other: name for name, others in _OTHERS.items() for other in others
}
"""Names of other trainers, and what the setting is called here."""


def check_project(name: str) -> None:
    """Raises InputError unless a folder for ART's records can have this name."""
    if not _PROJECT.fullmatch(name):
        raise InputError(
            f"{clean_line(name, 80)!r} is not a valid name of a project: a folder gets this name",
            fix="Letters, digits, -, _ and dots, not a dot first.",
        )


def default_learning_rate(model: str) -> float:
    """A learning rate by size.

    1e-5 up to 4 billion parameters, 5e-6 up to 10 (and where the size is unknown), else 1e-6.
    """
    size = billions(model)
    if size is None:
        return 5e-6
    return 1e-5 if size <= 4 else 5e-6 if size <= 10 else 1e-6


def recipe_from(data: Mapping[str, Any], *, name: str = "the training file") -> Recipe:
    """A recipe from plain data; what is not mentioned keeps its default.

    Raises:
        InputError: A name is unknown, or a value is not of its kind.
    """
    import msgspec

    known = {field.name for field in fields(Recipe)}
    unknown = [str(key) for key in data if key not in known]
    if unknown:
        named = [f"{key} is {OTHER_NAMES[key]}" for key in unknown if key in OTHER_NAMES]
        strange = [key for key in unknown if key not in OTHER_NAMES]
        near = did_you_mean(strange[0], known) if strange else None
        fixes = [f"Here {', '.join(named)}."] if named else []
        if near:
            fixes.append(
                f"Did you mean {near} by {strange[0]}?" if named else f"Did you mean {near}?"
            )
        elif strange:
            fixes.append(f"Settings: {', '.join(sorted(known))}.")
        what = (
            "there is no training setting "
            f"{', '.join(repr(clean_line(key, 80)) for key in unknown[:20])}"
        )
        raise InputError(what, fix=" ".join(fixes), where=Location(name))
    try:
        return convert(dict(data), Recipe)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(
            "the training settings cannot be used", why=str(error), where=Location(name)
        ) from None


def read_recipe(text: str, *, name: str) -> Recipe:
    """A recipe from the text of a YAML or JSON file.

    Raises:
        InputError: It is not one.
    """
    return recipe_from(read_settings(text, name=name), name=name)


def read_settings(text: str, *, name: str) -> Mapping[str, Any]:
    """The settings of a training file, as `JobSpec.training` takes them.

    Raises:
        InputError: It is no mapping, or a name or value in it cannot be used.
    """
    from hudtui.core.yaml_doc import load_yaml

    data = load_yaml(text, name=name).data
    if data is None:
        return {}
    if not isinstance(data, Mapping):
        raise InputError("training settings are a mapping of names to values", where=Location(name))
    recipe_from(data, name=name)
    return data


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Settings that are written one by one, as `name=value`.

    The value as it would stand in a training file.

    Raises:
        InputError: One of them has no `=`, or is no setting.
    """
    from hudtui.core.yaml_doc import load_yaml

    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = (part.strip() for part in pair.partition("="))
        if not equals or not text:
            raise InputError(
                f"{pair!r} is not a training setting",
                fix="Write it as NAME=VALUE, such as learning_rate=1e-5.",
            )
        value = load_yaml(text, name=name).data
        if isinstance(value, str) and is_number(value):
            value = float(value)  # YAML takes 1e-5 for a word
        recipe_from({name: value}, name=pair)
        found[name] = value
    return found


def recipe_text(recipe: Recipe) -> str:
    """What decides about a training, in one line.

    Steps, learning rate, episodes, what is trained, lengths.
    """
    adapter = f"LoRA of rank {recipe.lora_rank}" if recipe.lora else "all weights"
    batch = f"batch {recipe.batch_size} x {recipe.gradient_accumulation} a GPU"
    if recipe.refill_groups:
        batch += f", groups without a spread refilled up to {plural(recipe.refill_groups, 'time')}"
    if recipe.groups_per_step is not None:  # ART
        batch = f"{plural(recipe.groups_per_step, 'task')} a step"
    dialect = f", calls in {recipe.dialect}" if recipe.dialect else ""
    return (
        f"{recipe.steps} steps, learning rate {recipe.rate:g}, {recipe.num_generations} episodes a "
        f"task, {batch}, {adapter}, replies of at most {recipe.max_tokens:,} tokens, conversations "
        f"of at most {recipe.max_seq_len:,}{dialect}"
    )


def settings_taken(features: Features) -> frozenset[str]:
    """Return the names of the settings that an engine takes."""
    if features.settings is not None:
        return frozenset(features.settings)
    return frozenset(field.name for field in fields(Recipe)) - frozenset(ONLY_ART)


def check_taken(names: Iterable[str], engine: str, features: Features) -> None:
    """Check that an engine takes the settings that a user has named.

    Raises:
        InputError: It has no such settings.
    """
    taken = settings_taken(features)
    refused = sorted(name for name in names if name not in taken)
    if not refused:
        return
    if all(name in ONLY_ART for name in refused):
        fix = "Leave it out, or train with ART: hudtui art train."
        raise InputError(f"only the engine art takes {', '.join(refused)}", fix=fix)
    raise InputError(
        f"the engine {engine} has no setting {', '.join(refused)}",
        fix=f"It takes: {', '.join(sorted(taken))}.",
    )


def resolve_recipe(
    options: JobOptions,
    given: Mapping[str, Any],
    engine: str,
    features: Features,
    **more: float | None,
) -> Recipe:
    """Return the settings of a training.

    The engine's defaults, then the user's, then what a rehearsal changes, then options.

    `given` are the user's settings by name, and `more` further ones that an option names; None
    leaves one as it is.

    Raises:
        InputError: A setting cannot be used.
    """
    recipe_from(given)
    check_taken(given, engine, features)
    values = {**features.defaults, **given}
    chosen: dict[str, Any] = {
        "model": options.model,
        "steps": options.steps,
        "max_turns": options.max_turns,
        "dialect": options.dialect,
    }
    chosen |= {"seed": options.seed, **more}
    if options.rehearse:
        changes = features.rehearsal or {}
        values |= changes
        if "model" in changes:  # a small model of its own, with its own rate
            chosen |= {"model": options.rehearse_model, "learning_rate": None}
        if options.rehearse_model is not None:
            values |= {"warm_start": 0, "learning_rate": None}
    return recipe_from(
        values | {name: value for name, value in chosen.items() if value is not None}
    )


def recipe_of(spec: JobSpec, features: Features) -> Recipe:
    """Return the settings of a run's trainer.

    Raises:
        InputError: A setting cannot be used.
    """
    more = {"learning_rate": spec.learning_rate, "held_out": spec.held_out}
    return resolve_recipe(spec, spec.training, spec.engine, features, **more)
