"""A training with ART.

From the name of an environment and its `config.yaml` to the request of a run. The names and
defaults of the options are those of the command that HUD shipped for ART; see docs/art.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from hudtui.core.compute.gpus import parse_spec
from hudtui.core.environment.powers import task_powers
from hudtui.core.errors import InputError, Location
from hudtui.core.files import write_atomic
from hudtui.core.gym.config import load_config
from hudtui.core.knobs import knobs_of
from hudtui.core.paths import typed_path
from hudtui.core.project import Project
from hudtui.core.rollouts.reward import reward_powers
from hudtui.core.rollouts.reward_code import RewardCode, read_code
from hudtui.core.runs.again import ART_FILES, remove_unused
from hudtui.core.runs.art_config import DATASETS, ArtConfig, ArtEnvironment, read_art_config
from hudtui.core.runs.art_request import ART_VERSIONS, SCENARIOS, VAL_SCENARIOS, ArtRequest
from hudtui.core.runs.judge import judge_power
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.site import require_python
from hudtui.core.settings import Settings
from hudtui.core.tasks.judges import required_powers
from hudtui.core.tasks.task import Task, task_record
from hudtui.core.text import clean_line, none_of, plural
from hudtui.core.training.recipe import ART
from hudtui.core.trust import Power, Untrusted, agree, power, require
from hudtui.core.workspace import last_dataset_name, make_state_dir

_KEPT = 24 * 3600.0
"""Seconds for which the files of a plan that no run was started from are kept: a screen may still
show it."""
_TARGETS = ("target", "target_value")
"""Arguments of an evaluate tool that say what a task wants to reach."""
_GYM = """\
# The tools of the environment are the model's tools, and the reward is that of {whose}.
allow_unmapped: true
defaults:
  max_turns: {turns}
rubric:
  weights: {{task_completion: {completion}, tool_execution: 0.0, format_compliance: 0.0}}
"""


class NoTasks(InputError):
    """An environment whose tasks nobody has named."""


async def plan_art(asked: ArtRequest, project: Project) -> RunRequest:
    """Turn what the user asks for into the request of a run.

    Reads the file and the tasks, and writes the chosen tasks and a gym configuration below
    `.hudtui/art`. Files there that are older than a day, and that no run was planned with, are
    removed.

    Args:
        asked: The training.
        project: The project.

    Returns:
        The request, with what the user should know as its remarks.

    Raises:
        NoTasks: Nothing names tasks of the environment, and the project has none, or several files.
        InputError: The environment, a setting, the tasks or the Python of the machine cannot be
            used; nothing was written.
        Untrusted: The file or the tasks name a server that the user has not agreed to.
        HubError: The Hub refuses or cannot be reached.
    """
    await require_python(asked, project.folder)
    return await asyncio.to_thread(_plan, asked, project)


def art_powers(file: Path, settings: Settings) -> tuple[Power, ...]:
    """Return what a file for `--config` needs the user's agreement for.

    Its servers, the code of its rewards, its judges.

    Raises:
        InputError: The file cannot be read.
    """
    config = read_art_config(file)
    found = [
        *task_powers(
            (one.mcp_config for one in config.environments.values() if one.mcp_config), file
        )
    ]
    for one in config.environments.values():
        if one.reward is not None:
            name, code = _beside(one.reward, settings.folder)
            exact = (name,) if code is None else (name, code.digest)
            found.append(power("code", f"{one.reward}, named by {file.name}", file, *exact))
    judges = {
        block["ruler"]: None
        for block in (config.default, *config.blocks.values())
        if "ruler" in block
    }
    return (*found, *(judge_power(judge, settings, file) for judge in judges))


def _plan(asked: ArtRequest, project: Project) -> RunRequest:
    if asked.engine_version is not None and asked.engine_version not in ART_VERSIONS:
        raise InputError(
            f"hudtui has no lock file for ART {asked.engine_version}",
            why=(
                "Newer releases cannot be installed from the package index alone: they want "
                "PyTorch from an index of its own."
            ),
            fix=f"Versions: {', '.join(ART_VERSIONS)}.",
        )
    _check_options(asked)
    config = ArtConfig()
    if asked.art_config is not None:
        config = read_art_config(project.folder / asked.art_config, name=str(asked.art_config))
    environment = config.environment(asked.environment)

    def setting(name: str, default: Any = None) -> Any:
        given = getattr(asked, name, None)
        if given is None:
            given = config.setting(environment.name, name)
        return default if given is None else given

    remarks = list(config.remarks)
    seed = asked.seed or 0
    scenarios, held = setting("scenarios", SCENARIOS), setting("val_scenarios", VAL_SCENARIOS)
    tasks = _tasks(asked, config, environment, project, remarks)
    train, val = _split(
        tasks, scenarios, held, seed, remarks, given=asked.val_scenarios is not None
    )
    steps, groups = _steps(
        len(train),
        setting("steps", ART["steps"]),
        setting("groups_per_step"),
        setting("epochs", 1),
        remarks,
    )
    turns = (
        setting("max_turns")
        if asked.max_turns is not None
        else environment.max_turns or setting("max_turns", ART["max_turns"])
    )
    files = make_state_dir(project.folder) / ART_FILES
    remove_unused(project.runs, minimum_age=_KEPT)
    files.mkdir(exist_ok=True)
    model = setting("model", "small")
    model = config.base_models.get(model, model)
    conversation = setting("max_seq_len", ART["max_seq_len"])
    judge = setting("ruler")
    if judge is not None and asked.ruler is None:
        file = project.folder / config.name
        require(project.folder, [judge_power(judge, project.settings(), file)])
    settings: dict[str, Any] = {
        "model_name": asked.model_name
        or f"{environment.name}-{model.rstrip('/').rpartition('/')[2].lower()}",
        "project": asked.project or config.wandb_project or "hud-art",
        "groups_per_step": groups,
        "num_generations": setting("num_generations", ART["num_generations"]),
        "learning_rate": setting("learning_rate"),
        "max_seq_len": conversation,
        "max_tokens": min(ART["max_tokens"], conversation // 2),
        "gpu_memory_utilization": asked.gpu_memory_utilization or config.gpu_memory_utilization,
        "enforce_eager": config.enforce_eager,
        "held_out": len(val),
        "ruler": judge,
        "log_level": config.log_level,
        "wandb": config.wandb,
        "save_every": config.save_every,
        "eval_every": config.eval_every,
    }
    request = RunRequest(**{one.name: getattr(asked, one.name) for one in fields(RunRequest)})
    request = _machine(
        replace(request, output_dir=asked.output_dir or _output_dir(config, project)),
        config,
        remarks,
    )
    records = json.dumps(
        [task_record(task) for task in (*train, *val)], indent=1, ensure_ascii=False
    )
    return replace(
        request,
        engine="art",
        remarks=tuple(remarks),
        tasks=str(_write(files, environment.name, ".json", f"{records}\n")),
        config=_gym(files, environment, config, turns, project, asked.reward),
        model=model,
        steps=steps,
        max_turns=turns,
        seed=seed,
        name=asked.name
        or config.cluster_name
        or f"{environment.name} {'rehearsal' if asked.rehearse else model.rpartition('/')[2]}",
        settings={
            **{name: value for name, value in settings.items() if value is not None},
            **asked.settings,
        },
    )


def _check_options(asked: ArtRequest) -> None:
    """Raises an error for an option that is empty, or that has no meaning here."""
    if asked.gpus:
        parse_spec(asked.gpus)
    for name, about in knobs_of(ArtRequest).items():
        if getattr(asked, name) in ("", Path()) and name != "art_config":
            flag = about.flag(name)
            raise InputError(f"{flag} is empty", fix=f"Name a value, or leave out {flag}.")
    if asked.base_url is not None:
        if not asked.rehearse:
            raise InputError(
                "--base-url is only for a rehearsal: a training serves its own model",
                fix="Add --rehearse.",
            )
        if not asked.base_url.startswith(("http://", "https://")):
            raise InputError(
                f"{clean_line(asked.base_url, 100)!r} is not an address",
                fix="Such as --base-url http://127.0.0.1:8000/v1.",
            )


@contextmanager
def _named_at(place: Location | None) -> Iterator[None]:
    """Errors about what a value of the file names have the place of the value.

    None: the value is not the file's.
    """
    try:
        yield
    except Untrusted:
        raise
    except InputError as error:
        if place is None:
            raise
        why = "; ".join(filter(None, (str(error.where) if error.where else None, error.why)))
        raise InputError(error.what, why=why or None, fix=error.fix, where=place) from error


def _output_dir(config: ArtConfig, project: Project) -> Path | None:
    """The folder that the file names for the results.

    Files of others write nothing outside of the project.
    """
    if config.output_dir is None:
        return None
    path = (project.folder / config.output_dir).resolve()
    if not path.is_relative_to(project.folder.resolve()):
        raise InputError(
            f"{clean_line(config.output_dir, 200)} lies outside of the project",
            fix="Name the folder with --output-dir.",
            where=config.place("resources", "backend", "output_dir"),
        )
    return path


# --- tasks ----------------------------------------------------------------------------------------


def _tasks(
    asked: ArtRequest,
    config: ArtConfig,
    environment: ArtEnvironment,
    project: Project,
    remarks: list[str],
) -> tuple[Task, ...]:
    """The tasks of the environment, with the servers that the file names for it."""
    source = asked.dataset or environment.dataset or DATASETS.get(environment.name)
    if source is None:
        source = _tasks_of_project(project)
        if source is not None:
            remarks.append(
                f"{environment.name} names no dataset: {clean_line(source, 120)} is taken, the "
                "tasks of this project"
            )
    named = asked.dataset is None and environment.dataset is not None
    place = config.place("environments", environment.name, "dataset") if named else None
    if source is None:
        raise NoTasks(
            f"no tasks are known for the environment {environment.name}",
            fix=(
                "Name a file or a dataset on the Hub: --dataset, or "
                f"environments.{environment.name}.dataset in the file."
            ),
            where=config.place("environments", environment.name),
        )
    with _named_at(place):
        tasks = _read_tasks(source, environment, project)
    tasks = _with_targets(tasks, config.targets.get(environment.name), config, environment)
    file = project.folder / (config.name if environment.mcp_config is not None else source)
    lookup = project.settings().lookup
    require(project.folder, required_powers(tasks, file, lookup))
    return tasks


def _tasks_of_project(project: Project) -> str | None:
    """The dataset that was made last in the project, else its only task file.

    None if there are none, or several.
    """
    workspace = project.workspace()
    files = workspace.task_files
    return last_dataset_name(project.folder) or (
        workspace.relative(files[0]) if len(files) == 1 else None
    )


def _read_tasks(source: str, environment: ArtEnvironment, project: Project) -> tuple[Task, ...]:
    from hudtui.core.tasks.read import read_tasks

    settings = project.settings()
    own = environment.mcp_config
    read = read_tasks(
        source,
        lookup=None if own is not None else settings.lookup,
        # Where the file names the servers, tasks need none of their own: any image stands for them
        # until they are replaced.
        lock_image="replaced" if own is not None else None,
        platform=project.platform,
        split=environment.split,
        folder=project.folder,
        token=settings.use("HF_TOKEN"),
    )
    if not read.tasks:
        lacking = any(
            problem.field == "mcp_config" and problem.code == "missing" for problem in read.problems
        )
        if lacking:
            raise InputError(
                f"No MCP configuration found for the environment {environment.name}",
                why=str(read.problems[0]),
                fix=(
                    f"Write environments.{environment.name}.mcp_config into a file for --config, "
                    "or give the tasks one."
                ),
                where=Location(source),
            )
        first = str(read.problems[0]) if read.problems else None
        raise InputError(
            f"{none_of(read.total, 'task')} can be played", why=first, where=Location(source)
        )
    return (
        read.tasks if own is None else tuple(replace(task, mcp_config=own) for task in read.tasks)
    )


def _with_targets(
    tasks: tuple[Task, ...],
    targets: Sequence[Any] | None,
    config: ArtConfig,
    environment: ArtEnvironment,
) -> tuple[Task, ...]:
    if targets is None:
        return tasks
    kept = tuple(task for task in tasks if (wanted := _target(task)) is None or wanted in targets)
    if not kept:
        raise InputError(
            f"no task of {environment.name} has one of the targets {', '.join(map(str, targets))}",
            fix=f"Tasks have: {', '.join(sorted({str(_target(task)) for task in tasks}))}.",
            where=config.place("scenarios", f"{environment.name}_targets"),
        )
    return kept


def _target(task: Task) -> Any:
    for call in task.evaluate:
        for arguments in (call.arguments, call.arguments.get("arguments")):
            if isinstance(arguments, Mapping):
                for name in _TARGETS:
                    if name in arguments:
                        return arguments[name]
    return None


def _split(
    tasks: tuple[Task, ...],
    scenarios: int,
    held: int,
    seed: int,
    remarks: list[str],
    *,
    given: bool,
) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
    """Choose the tasks to train on and those to evaluate on, in an order that the seed decides."""
    order = list(tasks)
    random.Random(seed).shuffle(order)
    train, val = order[:scenarios], order[scenarios : scenarios + held]
    if len(train) < scenarios:
        remarks.append(
            f"{plural(len(tasks), 'task')}, fewer than the {scenarios} asked for: all are trained "
            "on"
        )
    if len(val) < held and (val or given):
        remarks.append(f"{plural(len(val), 'task')} left for evaluation, and not {held}")
    elif held and not val:
        remarks.append("no task is left for evaluation: lower --scenarios to keep some")
    return tuple(train), tuple(val)


def _steps(
    tasks: int, steps: int, groups: int | None, epochs: int, remarks: list[str]
) -> tuple[int, int]:
    """The number of steps, and of tasks in each. `steps` is the most that are done."""
    if groups is not None and groups > tasks:
        remarks.append(f"{plural(tasks, 'task')} a step, and not {groups}: there are no more")
    groups = min(groups or max(1, tasks * epochs // steps), tasks)
    whole = math.ceil(tasks * epochs / groups)
    if whole < steps:
        text = (
            f"{whole} steps, not {steps}: {plural(tasks, 'task')} are {math.ceil(tasks / groups)} "
            "steps an epoch"
        )
        remarks.append(f"{text}; --epochs trains on them again")
    return min(steps, whole), groups


def _write(folder: Path, name: str, ending: str, text: str) -> Path:
    """Write a text into a file whose name has the text's digest."""
    path = folder / f"{_stem(name)}-{hashlib.sha256(text.encode()).hexdigest()[:8]}{ending}"
    write_atomic(path, text)
    return path


def _gym(
    folder: Path,
    environment: ArtEnvironment,
    config: ArtConfig,
    turns: int,
    project: Project,
    typed: str | None,
) -> Path:
    reward = typed or environment.reward
    if environment.gym is not None:
        if reward is not None:
            raise InputError(
                f"the environment {environment.name} has a gym configuration, and a reward beside "
                "it",
                fix=f"Name the reward there: rubric.reward in {environment.gym}.",
                where=config.place("environments", environment.name, "gym"),
            )
        with _named_at(config.place("environments", environment.name, "gym")):
            load_config(project.folder / environment.gym)
        return project.folder / environment.gym
    if reward is None:
        return _write(
            folder,
            environment.name,
            ".yaml",
            _GYM.format(turns=turns, completion=1.0, whose="the environment"),
        )
    text = _GYM.format(turns=turns, completion=0.0, whose="your code")
    with _named_at(
        None if typed is not None else config.place("environments", environment.name, "reward")
    ):
        name, code = _beside(reward, project.folder)
        if code is not None:
            target = folder / name.rpartition(":")[0]
            target.parent.mkdir(parents=True, exist_ok=True)
            for module, source in code.sources.items():
                write_atomic(
                    target if module == code.file.stem else target.parent / f"{module}.py", source
                )
        path = _write(folder, environment.name, ".yaml", f"{text}  reward: {json.dumps(name)}\n")
        powers = reward_powers(load_config(path))
    if typed is not None:
        agree(project.folder, powers)  # its user has just named it
    require(project.folder, powers)
    return path


def _beside(reward: str, folder: Path) -> tuple[str, RewardCode | None]:
    """Return the reward as a configuration beside a copy of its code names it, and the code.

    None for an installed package.
    """
    place, _, name = reward.rpartition(":")
    if not place.endswith(".py"):
        return reward, None
    code = read_code(folder / typed_path(place))
    target = f"{_stem(code.file.stem)}-{code.digest[:8]}"
    return f"{target}/{code.file.name}:{name}" if code.modules else f"{target}.py:{name}", code


def _stem(name: str) -> str:
    return (
        "".join(letter if letter.isalnum() else "-" for letter in name)[:40].strip("-")
        or "environment"
    )


# --- the machine ----------------------------------------------------------------------------------


def _machine(request: RunRequest, config: ArtConfig, remarks: list[str]) -> RunRequest:
    """The machine that the file names, where the command line names none."""
    chosen = any((request.host, request.provider, request.offer, request.offer_name))
    if config.backend == "skypilot" and not chosen:
        request = replace(request, provider="sky")
        if config.gpu is not None and request.gpus is None:
            gpu = config.gpu.partition("-")[0]  # H100-SXM: the socket is no part of the name here
            request = replace(request, gpus=gpu if gpu[:1].isdigit() and "x" in gpu else f"1x{gpu}")
        if config.spot and request.spot is None:
            remarks.append(
                "resources.skypilot.spot: this one is not a spot machine; --spot rents one, which "
                "can be taken away"
            )
    return request
