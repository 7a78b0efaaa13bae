"""GRPO on a model that plays tasks.

`python -m hudtui.trainers.grpo --recipe R --tasks T --config C --out DIR`. Writes to DIR:
`metrics.jsonl`, `traces.jsonl`, `checkpoints/`, and `model/` (the adapter or the weights, with the
tokenizer). A second start continues from the last checkpoint.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any, NoReturn

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.evaluate import connector
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import METRICS, TRACES
from hudtui.core.settings import Settings, load_settings
from hudtui.core.tasks.task import Task
from hudtui.core.training.chat_tokens import ChatTokens
from hudtui.core.training.recipe import FEWEST_TASKS, TINY, Recipe
from hudtui.core.training.tool_tokens import ToolTokens
from hudtui.trainers.records import (
    begin_job,
    forget_after,
    forget_traces_after,
    read_inputs,
    say,
    say_error,
)
from hudtui.trainers.refill import Refilled, refill
from hudtui.trainers.replies import BatchReplies, Generated, RankSync, ReplySource, ServerReplies
from hudtui.trainers.rollout import EpisodeRunner, TrainingEpisode
from hudtui.trainers.steps import PAUSES, REHEARSED
from hudtui.trainers.tokens import chat_tokens_for

HANDOVER = "handover"
"""Folder, in the folder of the output, of the adapters that a server on a CPU loads."""
SERVER = "HUDTUI_VLLM_URL"
"""Variable with the address of a model server; empty: the trainer generates by itself."""


class Stopwatch:
    """The seconds of a step's rollouts, and those of them in which the trainer's model generated.

    A batch of replies is generated when every conversation waits for one, so the rest is what the
    environments took.
    """

    def __init__(self) -> None:
        self._began = perf_counter()
        self._generated = 0.0

    @contextlib.contextmanager
    def generation(self) -> Iterator[None]:
        """Count the seconds of a batch."""
        began = perf_counter()
        try:
            yield
        finally:
            self._generated += perf_counter() - began

    def seconds(self, *, batches: bool) -> dict[str, float]:
        """Return the seconds so far, as metrics; without `batches` the parts cannot be told."""
        whole = perf_counter() - self._began
        if not batches:
            return {"time/rollouts": whole}
        parts = {"time/generation": self._generated, "time/tools": whole - self._generated}
        return {"time/rollouts": whole, **parts}


def generate_turn(trainer: Any, prompts: list[list[int]]) -> Generated:
    """Return one reply to each prompt, sampled by the trainer's backend: vLLM, or the model itself.

    TRL has no public method for one turn; `tests/trainers` checks the behaviour of this one.
    """
    ids, logprobs = trainer._generate_single_turn(prompts, None, {}, 1)
    replies = [_trimmed(list(map(int, one)), trainer) for one in ids]
    if logprobs is None:
        return replies, None
    # One for each token that is left; none is known for an end that was put there.
    return replies, [
        [*own, None][: len(reply)] for reply, own in zip(replies, logprobs, strict=True)
    ]


def _trimmed(ids: list[int], trainer: Any) -> list[int]:
    """Return a reply without the padding after its end token; never empty."""
    pad, end = trainer._tokenizer.pad_token_id, trainer._tokenizer.eos_token_id
    if end in ids:
        return ids[: ids.index(end) + 1]
    while pad != end and len(ids) > 1 and ids[-1] == pad:
        ids.pop()
    return ids or [end]


class _Processes(RankSync):
    """All processes of a distributed training."""

    def __init__(self, accelerator: Any) -> None:
        self._accelerator = accelerator

    def any(self, waiting: bool) -> bool:
        import torch

        flag = torch.tensor([int(waiting)], device=self._accelerator.device)
        return bool(self._accelerator.reduce(flag, reduction="sum").item())


def replies_of(
    trainer: Any, server: str, *, cpu: bool = False, watch: Stopwatch | None = None
) -> ReplySource:
    """Return where a trainer's replies come from.

    Its vLLM server, asked for each by itself, or batches of its own, whose time `watch` counts.
    With a server, every process asks for its own conversations: TRL has sent the weights before it
    calls for rollouts.
    """
    end = trainer._tokenizer.eos_token_id
    accelerator = trainer.accelerator
    if server:
        accelerator.wait_for_everyone()  # the first process alone sends the weights
        generation = trainer.vllm_generation
        return ServerReplies(
            server, sampling_of(generation), end=end, model=generation.model if cpu else ""
        )
    peers = _Processes(accelerator) if accelerator.num_processes > 1 else None
    watch = watch or Stopwatch()

    def generate(prompts: list[list[int]]) -> Generated:
        with watch.generation():
            return generate_turn(trainer, prompts)

    return BatchReplies(generate, filler=[end], peers=peers)


def sampling_of(generation: Any) -> dict[str, Any]:
    """Return how TRL's `VLLMGeneration` has a server sample, as fields of a completion request."""
    return {
        "repetition_penalty": generation.repetition_penalty,
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "top_k": generation.top_k,
        "min_p": 0.0 if generation.min_p is None else generation.min_p,
        "max_tokens": generation.max_completion_length,
        **generation.generation_kwargs,
    }


def environment(
    completions: Sequence[Any], episode_reward: Sequence[float | None], **_: Any
) -> list[float | None]:
    """The reward function: returns the rewards of the episodes.

    TRL names the metric after the function.
    """
    return list(episode_reward)


def read_all(
    arguments: argparse.Namespace, settings: Settings
) -> tuple[Recipe, GymConfig, tuple[Task, ...]]:
    """Read and check all input files before anything large is loaded.

    Raises:
        InputError: A file cannot be used, or there are too few tasks.
    """
    recipe, config, read = read_inputs(arguments, settings)
    if len(read.tasks) < FEWEST_TASKS:
        raise InputError(
            f"there are {len(read.tasks)} tasks that can be played; training takes {FEWEST_TASKS} "
            "or more",
            why=str(read.problems[0]) if read.problems else None,
            fix="Add tasks: with so few a model learns them by heart.",
            where=Location(str(arguments.tasks)),
        )
    if len(read.tasks) - recipe.held_out < FEWEST_TASKS:
        raise InputError(
            f"{recipe.held_out} of {len(read.tasks)} tasks are held out: fewer than {FEWEST_TASKS} "
            "are left to train on"
        )
    return recipe, config, tuple(read.tasks)


def load_model(recipe: Recipe, config: GymConfig, tasks: Sequence[Task]) -> tuple[Any, Any]:
    """Load the model and its tokenizer.

    Raises:
        InputError: The model does not exist, or the user may not download it.
    """
    import torch

    if recipe.model == TINY:
        # Its matrices are too small to be shared out: threads would only wait for one another, and
        # add up in another order.
        torch.set_num_threads(1)
        from hudtui.trainers import tiny

        replies = tiny.example_replies(config)
        opening = tiny.opening_of(config)
        texts = [*opening.texts, *(task.prompt for task in tasks), *(replies * 8)]
        tokenizer = tiny.build_tokenizer(texts)
        model = tiny.build_model(tokenizer, seed=recipe.seed, context=recipe.max_seq_len)
        if recipe.warm_start:
            scribe = (ToolTokens if opening.tools else ChatTokens)(tokenizer)
            before = tiny.openings(scribe, config, tasks, seed=recipe.seed)
            loss = tiny.imitate(
                model,
                tokenizer,
                before,
                replies,
                steps=recipe.warm_start,
                seed=recipe.seed,
                whole=DIALECTS[config.parser.dialect].schemas != "none",
            )
            say(
                f"built a model of {sum(p.numel() for p in model.parameters())} parameters; it "
                f"imitates calls (loss {loss:.2f})"
            )
        return model, tokenizer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(recipe.model)
        # On a CPU 16 bits are no faster, and less exact.
        dtype = torch.bfloat16 if recipe.bf16 and torch.cuda.is_available() else torch.float32
        model = AutoModelForCausalLM.from_pretrained(recipe.model, dtype=dtype)
    except (OSError, ValueError) as error:
        raise model_problem(recipe.model, error) from None
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def model_problem(model: str, error: Exception) -> HudtuiError:
    """Return an error that explains why a download failed.

    It is an `InputError` where another attempt would end alike.
    """
    text = str(error)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    kinds = {
        kind.__name__
        for each in (error, error.__cause__, error.__context__)
        if each
        for kind in type(each).__mro__
    }
    missing = (
        "not a valid model identifier" in text
        or "Repository Not Found" in text
        or "RepositoryNotFoundError" in kinds
    )
    if "GatedRepoError" in kinds or ("gated repo" in text and not missing):
        return InputError(
            f"{model} is gated: its owner decides who may have it",
            why=first,
            fix="Ask for access on its page, and set HF_TOKEN.",
        )
    if missing:
        return InputError(
            f"there is no model {model} on the Hub, or it is private",
            why=first,
            fix="Look at its spelling, or set HF_TOKEN.",
        )
    return HudtuiError(f"the model {model} cannot be loaded", why=first)


def needs_vllm(recipe: Recipe, environ: Mapping[str, str], *, gpu: bool) -> bool:
    """Return whether replies come from vLLM in the trainer's own process.

    `gpu`: the trainer sees a GPU. On several machines each process has one of its own.
    """
    return recipe.vllm and gpu and not environ.get(SERVER) and recipe.model != TINY


def check_vllm(recipe: Recipe, environ: Mapping[str, str], *, gpu: bool) -> None:
    """Check that vLLM is installed where replies come from it.

    Raises:
        InputError: It is not.
    """
    if needs_vllm(recipe, environ, gpu=gpu) and not find_spec("vllm"):
        raise InputError(
            f"the Python of this training has no vLLM: {sys.executable}",
            fix="Install it there, or let the trainer generate by itself: --set vllm=false.",
        )


def make_trainer(
    recipe: Recipe,
    model: Any,
    tokenizer: Any,
    players: EpisodeRunner,
    tasks: Sequence[Task],
    journal: Any,
    chronicle: Any,
    out: Path,
) -> Any:
    """Return TRL's trainer, with rollouts played by `EpisodeRunner`.

    Raises:
        InputError: The recipe does not fit the number of processes.
    """
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from hudtui.trainers.training_log import last_checkpoint

    checkpoints = out / "checkpoints"
    by_id = {task.id: task for task in tasks}
    train = list(tasks[: len(tasks) - recipe.held_out])
    held_out = list(tasks[len(tasks) - recipe.held_out :])
    gpu = torch.cuda.is_available() and recipe.model != TINY
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    recipe.check_batch(processes)
    server = os.environ.get(SERVER, "")
    uses_vllm = gpu and (bool(server) or needs_vllm(recipe, os.environ, gpu=gpu))
    arguments = GRPOConfig(
        output_dir=str(checkpoints),
        use_cpu=not gpu,
        bf16=recipe.bf16 and gpu,
        learning_rate=recipe.rate,
        lr_scheduler_type=recipe.lr_scheduler,
        warmup_steps=recipe.warmup_steps,
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.gradient_accumulation,
        num_generations=recipe.num_generations,
        num_generations_eval=1,
        per_device_eval_batch_size=recipe.batch_size,
        num_iterations=recipe.num_iterations,
        max_completion_length=recipe.max_tokens,
        temperature=recipe.temperature,
        top_p=recipe.top_p,
        beta=recipe.beta,
        epsilon=recipe.epsilon,
        loss_type=recipe.loss_type,
        scale_rewards=recipe.scale_rewards,
        max_grad_norm=recipe.max_grad_norm,
        gradient_checkpointing=recipe.gradient_checkpointing,
        logging_steps=1,
        save_strategy="steps",
        save_steps=recipe.save_every,
        save_total_limit=recipe.keep_checkpoints,
        eval_strategy="steps" if held_out else "no",
        eval_steps=recipe.eval_every if held_out else None,
        eval_on_start=recipe.eval_first and bool(held_out) and not last_checkpoint(checkpoints),
        seed=recipe.seed,
        disable_tqdm=True,
        report_to=["wandb"] if recipe.wandb and find_spec("wandb") else [],
        run_name=out.resolve().parent.name,
        use_vllm=uses_vllm,
        vllm_mode="server" if server else "colocate",
        vllm_server_base_url=server or None,
        vllm_gpu_memory_utilization=round(recipe.gpu_memory_utilization / 3, 3),
        vllm_max_model_length=recipe.max_seq_len,
    )
    targets: Any = list(recipe.lora_targets)
    adapter = LoraConfig(
        r=recipe.lora_rank,
        lora_alpha=recipe.lora_alpha,
        lora_dropout=recipe.lora_dropout,
        target_modules="all-linear" if targets == ["all-linear"] else targets,
        task_type="CAUSAL_LM",
    )

    def rollout(prompts: list[str], trainer: Any) -> dict[str, Any]:
        chosen = [by_id[task] for task in prompts]
        split = "train" if trainer.model.training else "eval"
        step = trainer.state.global_step + (split == "train")
        times = recipe.refill_groups if split == "train" else 0
        watch = Stopwatch()

        async def play(wanted: Sequence[Task]) -> Sequence[TrainingEpisode]:
            return await players.play(
                wanted,
                replies_of(trainer, server, cpu=not gpu, watch=watch),
                peers=_Processes(trainer.accelerator)
                if trainer.accelerator.num_processes > 1
                else None,
                info={"step": step, "split": split, "model": recipe.model},
                compares=not times,
            )

        if not times:
            refilled = Refilled(list(asyncio.run(play(chosen))), tuple(chosen), ())
            played: Sequence[TrainingEpisode] = refilled.episodes
        else:
            size, seed = recipe.num_generations, f"{recipe.seed} {step}"
            work = refill(
                chosen,
                play,
                lambda one: one.reward,
                size=size,
                times=times,
                pool=train,
                seed=seed,
                warn=players.warn,
            )
            refilled = asyncio.run(work)
            played = refilled.played
            players.compare(refilled.episodes)
            journal.refilled(refilled)
        if trainer.accelerator.is_main_process:
            journal.keep(refilled.tasks, played, split=split)
            if split == "train":
                journal.count(watch.seconds(batches=not server))
            for text in journal.warnings():
                say(f"warning: {text}")
        return for_trainer(refilled.episodes)

    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[environment],
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [task.id for task in train]}),
        eval_dataset=Dataset.from_dict({"prompt": [task.id for task in held_out]})
        if held_out
        else None,
        processing_class=tokenizer,
        callbacks=[chronicle],
        peft_config=adapter if recipe.lora else None,
        rollout_func=rollout,
    )
    if server and not gpu:
        if not recipe.lora:
            raise InputError(
                "on a CPU a model's server takes adapters alone", fix="Leave out lora: false."
            )
        from hudtui.trainers.handover import attach

        attach(trainer, server, out / HANDOVER)
    # `dr_grpo` divides the loss by the longest completion, which is that of an episode here and not
    # that of a reply.
    trainer.max_completion_length = min(recipe.max_seq_len, recipe.max_tokens * players.most_turns)
    if trainer.accelerator.num_processes > 1:
        chronicle.peers = _Processes(trainer.accelerator)
    trainer.remove_callback(
        PrinterCallback
    )  # it prints what the chronicle writes, in a form of its own
    return trainer


def load_on_numbered_cpus() -> None:
    """Have `torch.load` take `cpu:0` for the CPU.

    Accelerate numbers the device of each of several processes, and transformers loads the state of
    the optimizer to it. PyTorch, which knows the CPU without a number alone, refuses that.
    """
    import torch

    def untagged(_storage: Any) -> None:
        """Leave the name of the place to PyTorch."""

    def restored(storage: Any, location: str) -> Any:
        return storage if location.startswith("cpu:") else None

    torch.serialization.register_package(_NUMBERED_CPUS, untagged, restored)


_NUMBERED_CPUS = 17
"""Place among those whom PyTorch asks in turn; no two may have the same."""


def for_trainer(played: Sequence[TrainingEpisode]) -> dict[str, Any]:
    """Return episodes in the form that TRL expects from a rollout function.

    An episode that ended before its first reply has no log probabilities: its only token is masked,
    and its log probability is 0. An episode without a reward is masked whole, so that no term of
    the loss is made of it.
    """
    known = any(one.logprobs is not None for one in played)
    return {
        "prompt_ids": [one.prompt_ids for one in played],
        "completion_ids": [one.completion_ids for one in played],
        "env_mask": [one.mask if one.reward is not None else [0] * len(one.mask) for one in played],
        "logprobs": [one.logprobs or [0.0] * len(one.completion_ids) for one in played]
        if known
        else None,
        "episode_reward": [one.reward for one in played],
    }


def train(arguments: argparse.Namespace) -> None:
    """Train a model from the input files, and save it.

    Raises:
        HudtuiError: Something cannot be used, or no episode can be played.
    """
    folder = Path.cwd()
    settings = load_settings(folder)
    recipe, config, tasks = read_all(arguments, settings)
    if arguments.model:
        recipe = replace(recipe, model=arguments.model, learning_rate=recipe.rate)
    import torch

    check_vllm(recipe, os.environ, gpu=torch.cuda.is_available())
    load_on_numbered_cpus()
    random.seed(recipe.seed)
    torch.manual_seed(recipe.seed)
    out = Path(arguments.out)
    (out / "checkpoints").mkdir(parents=True, exist_ok=True)
    say(
        f"training {recipe.model} on {len(tasks) - recipe.held_out} tasks ({recipe.held_out} held "
        f"out), {recipe.steps} steps"
    )
    say(
        f"learning rate {recipe.rate:g}, {recipe.num_generations} episodes a task, replies of up "
        f"to {recipe.max_tokens} tokens"
    )
    model, tokenizer = load_model(recipe, config, tasks)
    parser = config.parser
    scribe, warning = chat_tokens_for(
        tokenizer, thinking=parser.use_thinking, dialect=parser.dialect
    )
    if warning:
        say(f"warning: {warning}")
    from hudtui.trainers.training_log import MetricsCallback, TrainingLog, last_checkpoint

    last = last_checkpoint(out / "checkpoints")
    telemetry = begin_job(config, settings, recipe, out)
    journal = TrainingLog(
        out, per_step=recipe.traces_per_step, lookup=settings.lookup, telemetry=telemetry
    )
    chronicle = MetricsCallback(out, journal, recipe)
    players = EpisodeRunner(
        config,
        scribe,
        connector(None, folder, with_python_variable(settings.lookup), timeout=recipe.timeout),
        max_tokens=recipe.max_tokens,
        max_seq_len=recipe.max_seq_len,
        max_turns=recipe.max_turns,
        timeout=recipe.timeout,
        judges=Judges(settings.lookup),
        warn=lambda text: say(f"warning: {text}"),
        pauses=REHEARSED if recipe.model == TINY else PAUSES,
    )
    trainer = make_trainer(recipe, model, tokenizer, players, tasks, journal, chronicle, out)
    if trainer.accelerator.is_main_process:
        step = int(last.name.rpartition("-")[2]) if last else 0
        forget_after(out / METRICS, step)
        forget_traces_after(out / TRACES, step)
    trainer.accelerator.wait_for_everyone()
    chronicle.recall()
    if last:
        say(f"resuming from {last}")
    chronicle.listen()
    try:
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    except BaseException:
        journal.close("failed")
        raise
    journal.close("completed")
    trainer.save_model(str(out / "model"))
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        tokenizer.save_pretrained(str(out / "model"))
        shutil.rmtree(out / HANDOVER, ignore_errors=True)
        why = f" before its end: {chronicle.why}" if chronicle.why else ""
        say(
            f"training is over at step {trainer.state.global_step}{why}; "
            f"{'adapter' if recipe.lora else 'model'} in {out}/model"
        )


def wandb_defaults(environ: Mapping[str, str], out: Path) -> dict[str, str]:
    """Return default variables for Weights & Biases.

    Files below `out`, and offline without a key (see `wandb sync`).
    """
    offline = {} if environ.get("WANDB_API_KEY") else {"WANDB_MODE": "offline"}
    return {"WANDB_PROJECT": "hudtui", "WANDB_DIR": str(out.absolute()), **offline}


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="hudtui.trainers.grpo", description=(__doc__ or "").partition("\n")[0]
    )
    for name in ("recipe", "tasks", "config", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument(
        "--model", help="instead of that of the recipe: the folder that the model was sent to"
    )
    arguments = parser.parse_args(words)
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if find_spec("wandb"):
        for name, value in wandb_defaults(os.environ, Path(arguments.out)).items():
            os.environ.setdefault(name, value)
    try:
        train(arguments)
    except HudtuiError as error:
        say_error(error)
        return error.exit_code
    finally:
        _leave_group()
    return 0


def _leave_group() -> None:
    with contextlib.suppress(Exception):
        import torch.distributed as distributed

        if distributed.is_initialized():
            distributed.destroy_process_group()


def _exit(status: int) -> NoReturn:
    """End this process.

    One of several processes ends without the interpreter's finalization: a worker thread of Gloo
    that still holds a tensor asks for the interpreter then, and the C++ runtime aborts the process
    (https://github.com/pytorch/pytorch/pull/179291). A training that had finished would count as
    failed. Weights & Biases, which sends the rest of its data at exit, is finished by hand.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        wandb = sys.modules.get("wandb")
        if wandb is not None and getattr(wandb, "run", None) is not None:
            wandb.finish(exit_code=status)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    _exit(main())
