"""An evaluation through `vf-eval` of verifiers, in a process of its own, with the same events as `evaluate.run_eval`.

`vf-eval` plays hudtui's gym (`hudtui.trainers.verifiers_gym`) and writes its own traces; rewards are read from there. Nothing is
uploaded to Prime, and Prime's key is not passed on.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hudtui.core import platform
from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.events import Notice, Progress
from hudtui.core.files import temporary_folder
from hudtui.core.python import python_command
from hudtui.core.rollouts.chat import ChatOptions
from hudtui.core.rollouts.evaluate import (
    EpisodeDone,
    EvalFinished,
    EvalPrepared,
    EvalRequest,
    find_endpoint,
    new_out_dir,
    playable_tasks,
)
from hudtui.core.rollouts.outcome import TRACES, EpisodeOutcome, outcome_of, summarise
from hudtui.core.rollouts.reward import load_playable_config
from hudtui.core.rollouts.trace import episode_from_json, read_lines
from hudtui.core.rollouts.values import Episode, Scores, plain_number
from hudtui.core.text import clean_line

if TYPE_CHECKING:
    from hudtui.core.settings import Settings

INSTALL = "pip install 'hudtui[verifiers]'"
RECORD = "hudtui"
"""Key in a trace's `info` with the gym's own record of the episode."""

_MAIN = "from verifiers.v1.cli.eval.main import main; main()"
_POLL = 0.2
_END_SECONDS = 30.0
"""Seconds that `vf-eval` has to close its environments when it is interrupted."""
_TAIL = 4_000
_NOT_THERE = ("seed", "resume", "reuse")
"""Options of `EvalRequest` that verifiers has no equivalent of."""


async def run_via_verifiers(
    request: EvalRequest, settings: Settings, *, gym: str = "hud-vf-gym"
) -> AsyncGenerator[EvalPrepared | EpisodeDone | Progress | Notice | EvalFinished, None]:
    """Play an evaluation with `vf-eval`; consume it inside `contextlib.aclosing`: leaving it interrupts `vf-eval`.

    `gym` is the id by which verifiers finds the gym.

    Raises:
        InputError: verifiers is not installed here, or a file or an option cannot be used.
        Untrusted: The files name a server or code that the user has not agreed to.
        HudtuiError: `vf-eval` failed.
    """
    require_verifiers()
    kind, _, model = request.policy.partition(":")
    if kind != "openai" or not model:
        raise InputError("verifiers plays with a model", fix="Name one: --model NAME, and its endpoint with --base-url.")
    for name in _NOT_THERE:
        if getattr(request, name):
            raise InputError(f"--{name} does not go through verifiers", fix="Leave it out, or leave out --via verifiers.")
    if request.max_context is not None:
        raise InputError("--max-context does not go through verifiers", fix="vf-eval has --env.agent.max-total-tokens.")
    folder = settings.folder
    config = await asyncio.to_thread(load_playable_config, folder / request.config, folder, reward=request.reward)
    read, warning = await playable_tasks(
        request.tasks, config, settings, split=request.split, limit=request.limit, source=request.source
    )
    if warning is not None:
        yield warning
    endpoint = find_endpoint(settings, request)
    out_dir = folder / (request.out_dir or new_out_dir(folder, request))
    traces = out_dir / TRACES
    if traces.exists() and traces.stat().st_size:
        raise InputError("this folder holds an evaluation already", fix="Choose another folder.", where=Location(str(traces)))
    total = len(read.tasks) * request.group
    yield EvalPrepared(config, read.tasks, read.problems, request.policy, out_dir, total)
    outcomes: list[EpisodeOutcome] = []
    rollouts: dict[str, int] = {}
    with temporary_folder("hudtui-vf") as place, tempfile.TemporaryFile() as log:
        file = Path(place, "eval.json")
        file.write_text(json.dumps(_options(request, endpoint, model, gym, out_dir)))
        process = await asyncio.create_subprocess_exec(
            *python_command("-c", _MAIN, "@", str(file), "--no-push", "--no-rich"),
            cwd=folder,
            env=_environment(settings, request.key_variable, endpoint),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield Progress("play", "vf-eval begins", 0, total)
            offset, running = 0, True
            while running:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(process.wait()), _POLL)
                running = process.returncode is None
                for _, end, record in read_lines(traces, offset) if traces.exists() else ():
                    offset = end
                    episode = read_episode(record, traces)
                    rollout = rollouts.get(episode.task_id, 0)
                    rollouts[episode.task_id] = rollout + 1
                    episode = replace(episode, info={**episode.info, "rollout": rollout})
                    outcomes.append(outcome_of(episode))
                    yield EpisodeDone(len(outcomes), total, episode, rollout, request.group)
            if process.returncode or len(outcomes) < total:
                what = f"vf-eval ended with exit code {process.returncode} after {len(outcomes)} of {total} episodes"
                raise HudtuiError(what, why=_last_words(log))
        finally:
            await _end(process)
    yield EvalFinished(summarise(outcomes, read.tasks, request.group), out_dir)


def _options(request: EvalRequest, endpoint: ChatOptions, model: str, gym: str, out_dir: Path) -> dict[str, Any]:
    """The configuration of `vf-eval`."""
    taskset = {
        "id": gym,
        "taskset": request.tasks,
        "config_path": str(request.config),
        "split": request.split,
        "num_tasks": request.limit,
        "reward": request.reward,
        "source": request.source,
        "max_turns": request.max_turns,
        "timeout": request.timeout,
        "images": request.images is not False,
    }
    return {
        "env": {"taskset": taskset},
        "run": {"name": out_dir.name},
        "model": model,
        "client": {"base_url": endpoint.base_url, "api_key_var": request.key_variable, "timeout": {"read": endpoint.timeout}},
        "sampling": {"temperature": endpoint.temperature, "max_tokens": endpoint.max_tokens},
        "num_rollouts": request.group,
        "max_concurrent": request.concurrency,
        "output_dir": str(out_dir.parent),
    }


def _environment(settings: Settings, key_variable: str, endpoint: ChatOptions) -> dict[str, str]:
    """The environment of `vf-eval`: the key of the endpoint, nothing of Prime's, and the same platform."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRIME_")}
    environment |= {"PRIME_RUNS_MODE": "disabled", platform.VARIABLE: settings.platform.name}
    if endpoint.key is not None:
        environment[key_variable] = endpoint.key
    return environment


def require_verifiers() -> None:
    """Check that verifiers 0.4 is installed beside this hudtui.

    Raises:
        InputError: It is not, or in another version.
    """
    if find_spec("verifiers") is None:
        raise InputError("verifiers is not installed beside this hudtui", why=f"This is {sys.executable}.", fix=f"{INSTALL}.")
    version = metadata.version("verifiers")
    if version.split(".")[:2] != ["0", "4"]:
        raise InputError(f"verifiers {version} is installed, and hudtui plays with 0.4", fix=f"{INSTALL}.")


def read_episode(record: Any, file: Path) -> Episode:
    """The episode in a record of `traces.jsonl` of verifiers 0.4. Its rewards are those that verifiers recorded.

    Raises:
        InputError: This is no such record, or one of another gym.
    """
    try:
        (trace,) = record["traces"]
        messages = [node["message"] for node in trace["nodes"]]
        usages = [call["usage"] for call in trace["calls"] if call.get("usage")]
        usage = {
            "prompt_tokens": sum(int(one["prompt_tokens"]) for one in usages),
            "completion_tokens": sum(int(one["completion_tokens"]) for one in usages),
            "requests": len(trace["calls"]),
        }
        kept = trace["info"].get(RECORD)
        if kept is None:
            failure = [*trace["errors"], *record["errors"]]
            told = clean_line(str(failure[-1]["message"]), 2_000) if failure else "verifiers recorded no reason"
            scores = Scores(0.0, 0.0, 0.0, 0.0, False)
            task = str(record["task"]["data"]["id"])
            return Episode(task, tuple(messages), (), scores, "error", told, info={"usage": usage})
        episode = episode_from_json({**kept, "messages": messages}, where=Location(str(file)))
        rewards: Mapping[str, Any] = trace["rewards"]
        reward = plain_number(sum(float(one["score"]) * float(one["weight"]) for one in rewards.values()))
        return replace(episode, scores=replace(episode.scores, reward=reward), info={**episode.info, "usage": usage})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError("this is not a trace of hudtui's gym in verifiers 0.4", why=why, where=Location(str(file))) from None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Interrupt `vf-eval`, which then closes its environments, and end what is left of it after some time."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _last_words(log: IO[bytes]) -> str | None:
    log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL))
    lines = log.read().decode("utf-8", "replace").splitlines()
    said = [clean_line(line, 300) for line in lines if line.strip() and " INFO " not in line and not line.startswith(" ")]
    return "\n".join(said[-3:]) or None
