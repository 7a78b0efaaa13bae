"""The records of a running training, and the decision when to stop it.

They are `metrics.jsonl` and sample episodes.
"""

from __future__ import annotations

import json
import math
import signal
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from hudtui.core.rollouts.evaluate import secrets_of
from hudtui.core.rollouts.outcome import METRICS, TRACES
from hudtui.core.rollouts.telemetry import Status, Telemetry
from hudtui.core.rollouts.trace import append_line, write_episode
from hudtui.core.tasks.task import Task
from hudtui.core.training.export import checkpoints
from hudtui.core.training.recipe import Recipe
from hudtui.core.variables import Lookup
from hudtui.trainers.refill import Refilled
from hudtui.trainers.replies import RankSync, SingleRank
from hudtui.trainers.rollout import TrainingEpisode

REWARD = "reward"


class TrainingLog:
    """Counts the episodes between two lines of the metrics, and records some of them.

    `per_step` is the number of episodes to record per step. Values that `lookup` gives are redacted
    in the records.
    """

    def __init__(
        self,
        out: Path,
        *,
        per_step: int,
        lookup: Lookup | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._out = out
        self._per_step = per_step
        self._lookup = lookup
        self._telemetry = telemetry
        self._counts: dict[str, list[float]] = {}

    def keep(self, tasks: Sequence[Task], played: Sequence[TrainingEpisode], *, split: str) -> None:
        """Count the episodes of a step, and record some of them."""
        prefix = "" if split == "train" else f"{split}/"
        for one in played:
            scores, episode = one.episode.scores, one.episode
            values = {"broken": float(one.reward is None)}
            if one.reward is not None:  # what broke off says nothing about the model
                values |= {
                    "task_completion": scores.task_completion,
                    "tool_execution": scores.tool_execution,
                    "format_compliance": scores.format_compliance,
                    "turns": float(len(episode.turns)),
                    "seconds": episode.seconds.get("total", 0.0),
                    **{f"rewards/{name}": value for name, value in scores.own.items()},
                }
            for name, value in values.items():
                if math.isfinite(value):
                    self._counts.setdefault(prefix + name, []).append(value)
        if (telemetry := self._telemetry) is not None:
            for task, one in zip(tasks, played, strict=True):
                trace = telemetry.begin(task.id, str(one.episode.info.get("model", "")))
                telemetry.end(trace, one.episode, secrets_of(task.mcp_config, self._lookup))
        for task, one in list(zip(tasks, played, strict=True))[: self._per_step]:
            write_episode(
                self._out / TRACES, one.episode, secrets=secrets_of(task.mcp_config, self._lookup)
            )

    def count(self, values: Mapping[str, float]) -> None:
        """Count numbers of a step that belong to no episode."""
        for name, value in values.items():
            self._counts.setdefault(name, []).append(value)

    def refilled(self, refilled: Refilled[TrainingEpisode]) -> None:
        """Count the groups of a step that were refilled.

        The reward of the step is that of its first episodes, before any was given up: those that
        are trained on are a choice of neither easy nor hopeless ones.
        """
        self.count(refilled.counts)
        first = refilled.played[: refilled.first]
        rewards = [one.reward for one in first if one.reward is not None]
        self._counts.setdefault(REWARD, []).extend(rewards)

    def warnings(self) -> list[str]:
        """Return what went wrong with the telemetry since the last call."""
        return self._telemetry.warnings() if self._telemetry is not None else []

    def close(self, status: Status) -> None:
        """End the job, where there is one."""
        if self._telemetry is not None:
            self._telemetry.close(status)

    def means(self) -> dict[str, float]:
        """Return the means since the last call."""
        counts, self._counts = self._counts, {}
        return {name: sum(values) / len(values) for name, values in counts.items()}


def gpu_memory() -> dict[str, float]:
    """Return the most memory in GiB that PyTorch has used on this process's GPU, and has reserved.

    Empty without a GPU.
    """
    if not torch.cuda.is_available():
        return {}
    used, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    return {"gpu_used_gib": used / 2**30, "gpu_reserved_gib": reserved / 2**30}


def last_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, or None.

    A checkpoint that is only partly written does not count.
    """
    return next(reversed(checkpoints(folder).values()), None)


class MetricsCallback(TrainerCallback):  # type: ignore[misc]
    """Writes the metrics, and ends the training on a signal or when it has come far enough."""

    def __init__(self, out: Path, journal: TrainingLog, recipe: Recipe) -> None:
        self._path = out / METRICS
        self._journal = journal
        self._recipe = recipe
        self._rewards: deque[float] = deque(maxlen=10)
        self._best = -math.inf
        self._since_best = 0
        self._tokens: float | None = None
        self._asked = False
        self.peers: RankSync = SingleRank()
        """The other training processes. All stop together, because a collective call waits for
        every process."""
        self.why: str | None = None
        """Reason why the training stopped before its last step."""

    def recall(self) -> None:
        """Read the rewards so far from the metrics.

        So a resumed training decides on all of them.
        """
        if self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                self._weigh(json.loads(line))

    def listen(self) -> None:
        """Handle SIGTERM and SIGINT.

        The training ends after the current step, with a checkpoint.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)

    def _ask(self, number: int, _frame: Any) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Write a line of the metrics for each log of the trainer."""
        if not logs or "train_runtime" in logs:
            return
        row: dict[str, Any] = {
            "step": state.global_step,
            "max_steps": state.max_steps,
            "time": round(time.time(), 3),
        }
        for name, value in logs.items():
            number = _number(value)
            if number is not None:
                row[name] = number
        tokens, seconds = row.get("num_tokens"), row.get("step_time")
        if tokens is not None and seconds:
            if self._tokens is not None:
                row["tokens_per_s"] = (tokens - self._tokens) / seconds
            self._tokens = tokens
        row |= gpu_memory()
        means = self._journal.means()
        if REWARD in means and REWARD in row:
            row["reward_trained"] = row[REWARD]
        row |= means
        if state.is_world_process_zero:
            append_line(self._path, row)
            print(_line(row), flush=True)  # noqa: T201
        self._weigh(row)
        self._end_if(self._far_enough(row), control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the training if a signal has arrived."""
        self._end_if("it was asked to" if self._asked else None, control)

    def _weigh(self, row: Mapping[str, Any]) -> None:
        """Take a line of the metrics into account."""
        reward, found = row.get("reward"), row.get("eval_reward")
        if reward is not None and math.isfinite(reward):
            self._rewards.append(reward)
        if found is not None and math.isfinite(found):
            self._since_best = 0 if found > self._best else self._since_best + 1
            self._best = max(self._best, found)

    def _far_enough(self, row: Mapping[str, Any]) -> str | None:
        """Return why the training may end after this line; None if it continues."""
        goal, patience = self._recipe.stop_at_reward, self._recipe.patience
        if goal is not None and len(self._rewards) == self._rewards.maxlen:
            mean = sum(self._rewards) / len(self._rewards)
            if mean >= goal:
                return f"the mean reward of the last {len(self._rewards)} steps is {mean:.3f}"
        if patience is not None and "eval_reward" in row and self._since_best >= patience:
            return f"{patience} evaluations were no better than the best ({self._best:.3f})"
        return None

    def _end_if(self, why: str | None, control: Any) -> None:
        if self.peers.any(why is not None):
            self.why = why or "another process was asked to"
            control.should_save = True
            control.should_training_stop = True


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _line(row: dict[str, Any]) -> str:
    names = (
        "reward",
        "reward_std",
        "eval_reward",
        "loss",
        "kl",
        "task_completion",
        "format_compliance",
        "turns",
        "step_time",
    )
    shown = " ".join(f"{name}={row[name]:.4g}" for name in names if name in row)
    return f"step {row['step']}/{row['max_steps']} {shown}"
