"""Training with ART.

`python -m hudtui.trainers.art_worker --recipe R --tasks T --config C --out DIR`. Writes to DIR:
`metrics.jsonl`, `traces.jsonl`, and `.art/PROJECT/models/NAME/` with ART's own records
(`history.jsonl`, `trajectories/`) and checkpoints. A second start continues after the last
checkpoint.

The episodes are gathered here and not by ART: with a time limit for each, a line for each that is
over, and a look at the model's server meanwhile, because a server that has died would otherwise
leave the training waiting without a word.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import shutil
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

# ART asks for a table of prices on the network at its import, and hands metrics to services that
# are not asked for.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ.setdefault("WEAVE_DISABLED", "true")

import art
import httpx2
from art.utils.output_dirs import get_model_dir
from openai import APIConnectionError, APIError, AsyncOpenAI
from openai.types.chat import ChatCompletion

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.errors import HudtuiError, InputError, MachineError
from hudtui.core.gym.values import GymConfig
from hudtui.core.platform import choose_platform
from hudtui.core.rollouts.evaluate import connector, secrets_of
from hudtui.core.rollouts.judging import Judges
from hudtui.core.rollouts.outcome import METRICS, TRACES, EpisodeRemarks
from hudtui.core.rollouts.telemetry import Status, Telemetry
from hudtui.core.rollouts.trace import append_line, write_episode
from hudtui.core.settings import Settings, load_settings
from hudtui.core.tasks.task import Task
from hudtui.core.text import clean_line
from hudtui.core.training.art import AT_ONCE, ArtLayout, art_layout, model_name
from hudtui.core.training.recipe import Recipe
from hudtui.core.variables import Lookup
from hudtui.trainers.art_rehearsal import RehearsalBackend, RehearsalChat
from hudtui.trainers.art_rollout import Chat, ModelError, Played, RolloutLimits, ToolRollouts
from hudtui.trainers.records import (
    begin_job,
    forget_after,
    forget_traces_after,
    read_inputs,
    say,
    say_error,
)
from hudtui.trainers.refill import has_spread, refill
from hudtui.trainers.steps import PAUSES, REHEARSED, play_step

ART = ".art"
LOOK_EVERY = 10.0
"""Seconds between two looks at the model's server while episodes are played."""
DEAD_AFTER = 4
"""Looks in a row without an answer after which the server counts as dead."""
PATIENCE = 5.0
"""Seconds that the server has for an answer to such a look."""
JUDGE_PATIENCE = 180.0
"""Seconds that the judge of RULER has for an answer."""
SILENT = 30.0
"""Seconds without a line in the log after which a line says what the training waits for."""


class EndpointChat:
    """The model at an endpoint: ART's own server, or any other for a rehearsal."""

    def __init__(self, client: AsyncOpenAI, name: str, recipe: Recipe) -> None:
        self._client = client
        self._name = name
        self._recipe = recipe

    async def complete(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
    ) -> ChatCompletion:
        """See `Chat.complete`."""
        given: dict[str, Any] = {"tools": list(tools)} if tools else {}
        try:
            return await self._client.chat.completions.create(
                model=self._name,
                messages=list(messages),
                max_completion_tokens=self._recipe.max_tokens,
                temperature=self._recipe.temperature,
                top_p=self._recipe.top_p,
                logprobs=True,
                **given,
            )
        except APIConnectionError as error:
            raise ModelError(
                "the model's server does not answer",
                why=clean_line(str(error.__cause__ or error), 300),
            ) from None
        except APIError as error:
            text = clean_line(str(error), 300)
            if "context length" in text or "max_model_len" in text or "maximum context" in text:
                raise ModelError(
                    f"the conversation is longer than the model's {self._recipe.max_seq_len} "
                    "tokens",
                    why=text,
                    fix="Raise max_seq_len, or lower max_turns.",
                ) from None
            raise ModelError("the model's server refused the request", why=text) from None


class Gatherer:
    """Plays the groups of a step, and watches what they wait for.

    `group` is the number of episodes of each task; `health` an address that answers while the
    model's server lives, None: it is not watched.
    """

    def __init__(self, rollouts: ToolRollouts, group: int, *, health: str | None = None) -> None:
        self._rollouts = rollouts
        self._group = group
        self._health = health
        self._seats = asyncio.Semaphore(AT_ONCE)
        self._open: dict[int, tuple[str, float]] = {}
        self._spoke = time.monotonic()
        self._remarks = EpisodeRemarks(rollouts.config)

    async def groups(
        self,
        tasks: Sequence[Task],
        chat: Chat,
        *,
        info: Mapping[str, Any],
        version: int,
        group: int | None = None,
    ) -> list[list[Played]]:
        """Play every task of a step.

        Raises:
            MachineError: The model's server has died.
        """
        count = group or self._group
        jobs = [(task, number) for task in tasks for number in range(count)]
        async with asyncio.TaskGroup() as work:
            watch = work.create_task(self._watch(info))
            played = [
                work.create_task(self._one(task, chat, number, info, version))
                for task, number in jobs
            ]
            done = await asyncio.gather(*played)
            watch.cancel()
        return [list(done[start : start + count]) for start in range(0, len(done), count)]

    async def _one(
        self, task: Task, chat: Chat, number: int, info: Mapping[str, Any], version: int
    ) -> Played:
        async with self._seats:
            key = id(asyncio.current_task())
            self._open[key] = (task.id, time.monotonic())
            try:
                one = await self._rollouts.play(
                    task, chat, info={**info, "rollout": number}, version=version
                )
            finally:
                self._open.pop(key, None)
        metrics, episode = one.trajectory.metrics, one.episode
        told = f" error={clean_line(episode.error, 200)!r}" if episode.error else ""
        reward = f"{one.trajectory.reward:.4g}" if episode.ok else "none"
        self._say(
            f"rollout {clean_line(task.id, 60)}#{number} reward={reward} "
            f"turns={metrics['num_turns']} stop={episode.stop} "
            f"seconds={episode.seconds.get('total', 0.0):.1f}{told}"
        )
        for text in self._remarks.about(episode):
            self._say(f"warning: {text}")
        return one

    def _say(self, text: str) -> None:
        self._spoke = time.monotonic()
        say(text)

    async def _watch(self, info: Mapping[str, Any]) -> None:
        async for why in server_states(self._health):
            if time.monotonic() - self._spoke >= SILENT and self._open:
                task, since = min(self._open.values(), key=lambda one: one[1])
                state = "answers" if why is None else "does NOT answer"
                self._say(
                    f"step {info.get('step')}: {len(self._open)} episodes are being played, the "
                    f"oldest ({clean_line(task, 60)}) for {time.monotonic() - since:.0f} s; the "
                    f"model's server {state}"
                )


async def server_states(address: str | None, *, ends: bool = True) -> AsyncIterator[str | None]:
    """Look at the model's server again and again.

    `ends`: a server that stays silent is an error.

    Yields:
        Why the server does not answer; None if it does, or is not watched.

    Raises:
        MachineError: The server has not answered `DEAD_AFTER` times in a row.
    """
    failed = 0
    async with httpx2.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        while True:
            await asyncio.sleep(LOOK_EVERY)
            why = await _health(client, address)
            failed = 0 if why is None else failed + 1
            if ends and failed >= DEAD_AFTER:
                raise MachineError(
                    f"the model's server has not answered for {failed * LOOK_EVERY:.0f} s",
                    why=why,
                    fix="Look at the end of its log (vllm.log, below .art). Often the memory of "
                    "the GPU was full: lower gpu_memory_utilization or max_seq_len, or set "
                    "enforce_eager.",
                )
            yield why


async def _health(client: httpx2.AsyncClient, address: str | None) -> str | None:
    """Return why the server does not answer; None if it does, or is not watched."""
    if address is None:
        return None
    try:
        await client.get(address)
    except httpx2.HTTPError as error:
        return f"{type(error).__name__}: {clean_line(str(error), 200)}"
    return None


class Training:
    """A training: steps of gathering and learning, with records and checkpoints.

    The last `recipe.held_out` tasks are for evaluation. Values that `lookup` gives are redacted in
    the records. A rehearsal has no layout; its calls are random without an endpoint.
    """

    def __init__(
        self,
        recipe: Recipe,
        config: GymConfig,
        tasks: Sequence[Task],
        out: Path,
        *,
        lookup: Lookup,
        layout: ArtLayout | None = None,
        endpoint: tuple[str, str] | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.recipe, self.config, self.out, self.layout = recipe, config, out, layout
        self.endpoint = endpoint
        self._lookup = lookup
        self._telemetry = telemetry
        cut = len(tasks) - recipe.held_out
        self.tasks, self.held_out = tuple(tasks[:cut]), tuple(tasks[cut:])
        self.pauses = PAUSES if layout is not None else REHEARSED
        self._asked = False
        self._client: AsyncOpenAI | None = None
        """To the endpoint that answers in a rehearsal."""
        self.rollouts = ToolRollouts(
            config,
            connector(None, out, with_python_variable(lookup), timeout=recipe.timeout),
            RolloutLimits(
                recipe.max_turns or config.max_turns, recipe.timeout, recipe.episode_timeout
            ),
            judged=recipe.ruler is not None,
            judges=Judges(lookup),
        )

    async def run(self) -> int:
        """Train to the last step. Returns the last step that was done.

        Raises:
            HudtuiError: The model's server died, or every episode fails.
        """
        recipe = self.recipe
        async with self._backend() as backend:
            model = await self._registered(backend)
            step: int = await model.get_step()
            if step:
                say(
                    f"resuming after step {step}; the state of the optimizer is not kept, the "
                    "adapter is"
                )
            forget_after(self.out / METRICS, step)
            if (self.out / TRACES).exists():
                forget_traces_after(self.out / TRACES, step)
            gatherer = Gatherer(
                self.rollouts, recipe.num_generations, health=self._health_address(model)
            )
            began = time.monotonic()
            while step < recipe.steps and not self._asked:
                step = await self._step(model, backend, gatherer, step, began)
                began = time.monotonic()
            if self._asked:
                say(f"training stops at step {step}: it was asked to")
        return step

    async def _step(
        self, model: Any, backend: Any, gatherer: Gatherer, done: int, began: float
    ) -> int:
        recipe = self.recipe
        step = done + 1
        chosen = tasks_of_step(self.tasks, done, recipe.groups_per_step or 2, seed=recipe.seed)
        info = {"step": step, "split": "train", "model": recipe.model}
        size = recipe.num_generations

        async def play(tasks: Sequence[Task]) -> list[Played]:
            made = await play_step(
                lambda: gatherer.groups(
                    tasks[::size], self._chat(model, step), info=info, version=done
                ),
                lambda made: [one.episode for group in made for one in group],
                lambda text: say(f"warning: {text}"),
                pauses=self.pauses,
            )
            return [one for group in made for one in group]

        refilled = await refill(
            [task for task in chosen for _ in range(size)],
            play,
            lambda one: one.trajectory.reward if one.episode.ok else None,
            size=size,
            times=recipe.refill_groups,
            pool=self.tasks,
            seed=f"{recipe.seed} {step}",
            warn=lambda text: say(f"warning: {text}"),
        )
        played = _grouped(refilled.episodes, size)
        by_id = {task.id: task for task in self.tasks}
        learned = [by_id[group[0].episode.task_id] for group in played]
        groups = await asyncio.gather(*map(self._judged, played, learned))
        self._keep(refilled.tasks[::size], _grouped(refilled.played, size))
        rewards = [one.trajectory.reward for group in played for one in group]
        groups = [group for group in groups if group.trajectories]  # ART takes no empty ones
        spread = [has_spread([one.reward for one in group.trajectories]) for group in groups]
        if not any(spread):
            say(
                f"warning: step {step}: the rewards of each group are equal, so that there is "
                "nothing to learn from it"
            )
        gathered = time.monotonic() - began
        say(
            f"step {step}/{recipe.steps}: {len(rewards)} episodes in {gathered:.1f} s, training "
            "begins"
        )
        result = await self._learn(backend, model, groups, step)
        first = refilled.played[: refilled.first]
        await model.log(groups, metrics=dict(result.metrics), step=result.step, split="train")
        row = {
            **_row(first, step, recipe.steps),
            **(refilled.counts if recipe.refill_groups else {}),
            **{
                name: float(value)
                for name, value in result.metrics.items()
                if isinstance(value, int | float)
            },
            "reward_std": statistics.fmean(
                _spread([one.reward for one in group.trajectories]) for group in groups
            ),
            "frac_reward_zero_std": 1 - statistics.fmean(spread),
            "learning_rate": recipe.rate,
            "gather_s": round(gathered, 3),
            "step_time": round(time.monotonic() - began, 3),
        }
        if self.held_out and (step % recipe.eval_every == 0 or step == recipe.steps):
            row |= await self._evaluate(model, gatherer, step)
        append_line(self.out / METRICS, row)
        say(_line(row))
        self._prune(model, step)
        return step

    async def _learn(
        self, backend: Any, model: Any, groups: Sequence[art.TrajectoryGroup], step: int
    ) -> Any:
        recipe = self.recipe
        work = asyncio.create_task(
            backend.train(
                model,
                groups,
                learning_rate=recipe.rate,
                kl_penalty_coef=recipe.beta,
                epsilon=recipe.epsilon,
                scale_rewards=recipe.scale_rewards != "none",
            )
        )
        watch = asyncio.create_task(self._watch_training(self._health_address(model), step))
        done, _ = await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
        for other in {work, watch} - done:
            other.cancel()
        return (work if work in done else watch).result()

    async def _watch_training(self, address: str | None, step: int) -> None:
        """Say how long a training takes, and whether the model's server lives behind it.

        With a GPU of its own the server has to answer all the time. On a shared one it sleeps
        meanwhile, so silence is said only.
        """
        began = spoke = time.monotonic()
        dedicated = self.layout is not None and self.layout.dedicated
        async for why in server_states(address, ends=dedicated):
            if time.monotonic() - spoke >= SILENT:
                spoke = time.monotonic()
                state = "" if why is None else "; the model's server does NOT answer"
                say(f"step {step}: training for {spoke - began:.0f} s{state}")

    async def _judged(self, group: Sequence[Played], task: Task) -> art.TrajectoryGroup:
        """The group as it is learned from.

        RULER's scores replace the rewards where a judge is named; broken episodes stay out. A
        broken episode says nothing about the model, and RULER drops failures without a word: they
        are counted here.
        """
        broken = [one for one in group if not one.episode.ok]
        whole = [one.trajectory for one in group if one.episode.ok]
        made = art.TrajectoryGroup(
            whole,
            exceptions=[
                RuntimeError(clean_line(one.episode.error or one.episode.stop, 300))
                for one in broken
            ],
            metadata={"task_id": task.id, "scenario_id": task.id},
        )
        if self.recipe.ruler is None or len(whole) < 2:
            return made
        from art.rewards import ruler_score_group

        # Every judge is a model of this one endpoint, whatever other keys its name may stand for
        # elsewhere.
        extra = {"api_key": self._lookup("OPENAI_API_KEY") or "none", "timeout": JUDGE_PATIENCE}
        if base := self._lookup("OPENAI_BASE_URL"):
            extra["api_base"] = base
        judge = f"openai/{self.recipe.ruler.removeprefix('openai/')}"
        try:
            judged = await ruler_score_group(
                made, judge, extra_litellm_params=extra, swallow_exceptions=False
            )
        except (
            Exception
        ) as error:  # of litellm, of the judge's answer: the environment's rewards are still there
            why = clean_line(str(error), 300)
            say(
                f"warning: the judge {self.recipe.ruler} gave no scores for "
                f"{clean_line(task.id, 60)}: {why}"
            )
            return made
        if judged is None:
            return made
        judged.exceptions, judged.metadata = made.exceptions, made.metadata
        return judged

    async def _evaluate(self, model: Any, gatherer: Gatherer, step: int) -> dict[str, float]:
        info = {"step": step, "split": "eval", "model": self.recipe.model}
        played = await gatherer.groups(
            self.held_out, self._chat(model, step), info=info, version=step, group=1
        )
        self._keep(self.held_out, played)
        groups = [
            art.TrajectoryGroup([one.trajectory])
            for group in played
            for one in group
            if one.episode.ok
        ]
        if groups:
            await model.log(groups, step=step, split="val")
        return {
            f"eval_{name}": value
            for name, value in _means([one for group in played for one in group]).items()
        }

    def _keep(self, tasks: Sequence[Task], played: Sequence[Sequence[Played]]) -> None:
        for task, group in zip(tasks, played, strict=True):
            secrets = secrets_of(task.mcp_config, self._lookup)
            for one in group:
                write_episode(self.out / TRACES, one.episode, secrets=secrets)
                if self._telemetry is not None:
                    self._telemetry.end(
                        self._telemetry.begin(task.id, self.recipe.model), one.episode, secrets
                    )
        for text in self._telemetry.warnings() if self._telemetry is not None else ():
            say(f"warning: {text}")

    # --- the model and its backend ----------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _backend(self) -> AsyncIterator[Any]:
        if self.layout is None:
            async with contextlib.AsyncExitStack() as stack:
                if self.endpoint is not None:
                    key = self._lookup("OPENAI_API_KEY") or "none"
                    client = AsyncOpenAI(base_url=self.endpoint[0], api_key=key, max_retries=4)
                    self._client = await stack.enter_async_context(client)
                yield RehearsalBackend(self.endpoint)
            return
        from art.local import LocalBackend

        # In the process: a process of its own ends every process called model-service on the
        # machine when it starts.
        backend = LocalBackend(in_process=not self.layout.dedicated, path=str(self.out / ART))
        try:
            yield backend
        finally:
            await backend.close()

    async def _registered(self, backend: Any) -> Any:
        recipe = self.recipe
        # The one private argument: there is no public way to these settings in the version that is
        # locked.
        own: Any = None if self.layout is None else internal_config(recipe, self.layout)
        model = art.TrainableModel(
            name=model_name(recipe),
            project=recipe.project,
            base_model=recipe.model,
            base_path=str(self.out / ART),
            report_metrics=None if os.environ.get("WANDB_API_KEY") else [],
            _internal_config=own,
        )
        say(
            f"loading {recipe.model}; the first start of a model server takes minutes"
            if self.layout
            else "a rehearsal: no model is trained"
        )
        await model.register(backend)
        return model

    def _chat(self, model: Any, step: int) -> Chat:
        if self.layout is not None:
            return EndpointChat(model.openai_client(), model.get_inference_name(), self.recipe)
        if self._client is None or self.endpoint is None:
            return RehearsalChat(f"{self.recipe.seed} {step}")
        return EndpointChat(self._client, self.endpoint[1], self.recipe)

    def _health_address(self, model: Any) -> str | None:
        base = (
            self.endpoint[0]
            if self.layout is None and self.endpoint
            else model.inference_base_url
            if self.layout
            else None
        )
        return None if not base else f"{str(base).rstrip('/')}/models"

    def _prune(self, model: Any, step: int) -> None:
        """Remove the checkpoints between those that are kept. ART needs the newest ones."""
        recipe = self.recipe
        checkpoints = Path(get_model_dir(model, model.base_path)) / "checkpoints"
        found = sorted(path for path in checkpoints.glob("[0-9]*") if path.name.isdigit())
        kept = [path for path in found if int(path.name) % recipe.save_every == 0][
            -recipe.keep_checkpoints :
        ]
        for path in found[:-2]:
            if path not in kept and int(path.name) < step:
                shutil.rmtree(path, ignore_errors=True)

    def listen(self) -> None:
        """Handle SIGTERM and SIGINT: the training ends after the current step.

        A second signal ends it at once.
        """

        def ask(number: int, frame: Any) -> None:
            if self._asked:
                raise KeyboardInterrupt
            self._asked = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, ask)


def internal_config(recipe: Recipe, layout: ArtLayout) -> Any:
    """The settings of the trainer and of the model's server.

    The longest conversation is set in both: ART does not link them.
    """
    from art import dev

    config: dict[str, Any] = {
        "init_args": dev.InitArgs(max_seq_length=recipe.max_seq_len),
        "engine_args": dev.EngineArgs(
            gpu_memory_utilization=recipe.gpu_memory_utilization,
            max_model_len=recipe.max_seq_len,
            enforce_eager=recipe.enforce_eager,
        ),
        "peft_args": dev.PeftArgs(r=recipe.lora_rank, lora_alpha=recipe.lora_alpha),
    }
    if layout.dedicated:
        config |= {"trainer_gpu_ids": list(layout.train), "inference_gpu_ids": list(layout.serve)}
    return dev.InternalModelConfig(**config)


def tasks_of_step(tasks: Sequence[Task], done: int, count: int, *, seed: int) -> list[Task]:
    """The tasks of a step.

    Each task once in an epoch, in an order that the seed decides: a resumed training continues it.

    `done` is the number of steps that are done, `count` that of the tasks of a step; at most all of
    them. The seed decides the order.
    """
    chosen: list[Task] = []
    count = min(count, len(tasks))
    for index in range(done * count, (done + 1) * count):
        epoch, place = divmod(index, len(tasks))
        order = list(range(len(tasks)))
        random.Random(f"{seed} {epoch}").shuffle(order)
        chosen.append(tasks[order[place]])
    return chosen


def _grouped(episodes: Sequence[Played], size: int) -> list[Sequence[Played]]:
    return [episodes[at : at + size] for at in range(0, len(episodes), size)]


# --- records --------------------------------------------------------------------------------------


def _means(played: Sequence[Played]) -> dict[str, float]:
    whole = [one for one in played if one.episode.ok]  # what broke off says nothing about the model
    means = {"broken": 1 - len(whole) / len(played)}
    if not whole:
        return means
    return {
        "reward": statistics.fmean(one.trajectory.reward for one in whole),
        "task_completion": statistics.fmean(one.episode.scores.task_completion for one in whole),
        "turns": statistics.fmean(float(one.trajectory.metrics["num_turns"]) for one in whole),
        **{
            f"rewards/{name}": statistics.fmean(values)
            for name, values in _own_parts(whole).items()
        },
        **means,
    }


def _own_parts(played: Sequence[Played]) -> dict[str, list[float]]:
    """Return the values of each further part of the reward. Tasks may have parts of their own."""
    values: dict[str, list[float]] = {}
    for one in played:
        for name, value in one.episode.scores.own.items():
            values.setdefault(name, []).append(value)
    return values


def _row(played: Sequence[Played], step: int, steps: int) -> dict[str, Any]:
    tokens = sum(float(one.trajectory.metrics["completion_tokens"]) for one in played) / len(played)
    row = {"step": step, "max_steps": steps, "time": round(time.time(), 3), **_means(played)}
    row["tool_errors"] = statistics.fmean(
        float(one.trajectory.metrics["tool_errors"]) for one in played
    )
    return {**row, "completion_length": tokens}


def _spread(rewards: Sequence[float]) -> float:
    return statistics.pstdev(rewards) if len(rewards) > 1 else 0.0


def _line(row: Mapping[str, Any]) -> str:
    names = (
        "reward",
        "reward_std",
        "eval_reward",
        "loss/train",
        "task_completion",
        "turns",
        "broken",
        "step_time",
    )
    shown = " ".join(f"{name}={row[name]:.4g}" for name in names if name in row)
    return f"step {row['step']}/{row['max_steps']} {shown}"


# --- the program ----------------------------------------------------------------------------------


def read_all(
    arguments: argparse.Namespace, settings: Settings
) -> tuple[Recipe, GymConfig, tuple[Task, ...]]:
    """Read and check all input files.

    Raises:
        InputError: A file cannot be used, or no task is left to train on.
    """
    recipe, config, read = read_inputs(arguments, settings)
    if len(read.tasks) <= recipe.held_out:
        raise InputError(
            f"{recipe.held_out} of {len(read.tasks)} tasks are held out: none is left to train on"
        )
    return recipe, config, tuple(read.tasks)


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the training of the command line.

    Exit code 0 at its end, 1 if it failed, 2 if an input cannot be used.
    """
    parser = argparse.ArgumentParser(prog="art_worker", description="Train a model with ART.")
    for name in ("recipe", "tasks", "config", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--gpus", type=int, default=0, help="GPUs to train on; 0: a rehearsal")
    parser.add_argument("--base-url", help="endpoint that answers in a rehearsal")
    parser.add_argument("--endpoint-model", help="name of the model there")
    arguments = parser.parse_args(words)
    try:
        folder = Path.cwd()
        settings = load_settings(folder, choose_platform(folder))
        recipe, config, tasks = read_all(arguments, settings)
        logging.basicConfig(level=recipe.log_level)
        if recipe.log_level != "DEBUG":
            for name in ("LiteLLM", "httpx", "mcp"):  # a line for each request
                logging.getLogger(name).setLevel(logging.WARNING)
        if not recipe.wandb:
            os.environ.pop("WANDB_API_KEY", None)
        out = Path(arguments.out).absolute()
        out.mkdir(parents=True, exist_ok=True)
        telemetry = begin_job(config, settings, recipe, out)
        training = Training(
            recipe,
            config,
            tasks,
            out,
            lookup=settings.lookup,
            layout=art_layout(arguments.gpus) if arguments.gpus else None,
            endpoint=(arguments.base_url, arguments.endpoint_model or recipe.model)
            if arguments.base_url
            else None,
            telemetry=telemetry,
        )
        training.listen()
        say(
            f"{recipe.steps} steps, {len(training.tasks)} tasks ({len(training.held_out)} for "
            f"evaluation), {recipe.groups_per_step} tasks a step, {recipe.num_generations} "
            f"episodes a task, learning rate {recipe.rate:g}"
        )
        status: Status = "failed"
        try:
            step = asyncio.run(training.run())
            status = "completed"
        finally:
            if telemetry is not None:
                telemetry.close(status)
        records = out / ART / recipe.project / "models" / model_name(recipe)
        say(f"training is over at step {step}; records and checkpoints in {records}")
    except* HudtuiError as group:
        error = _first(group)
        say_error(error)
        sys.exit(2 if isinstance(error, InputError) else 1)
    sys.exit(0)


def _first(group: BaseExceptionGroup[HudtuiError]) -> HudtuiError:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, HudtuiError)
    return found


if __name__ == "__main__":
    main()
