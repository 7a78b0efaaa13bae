"""The files that a run needs.

Its tasks, its configuration, and the lock file of its environment.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.files import read_text, write_atomic
from hudtui.core.runs.checks import Check, Remedy, fine, lacking, missing, refused, warning
from hudtui.core.runs.request import REMOTE, RunRequest
from hudtui.core.text import clean_line, plural
from hudtui.core.variables import EPISODE_VARIABLES, Lookup
from hudtui.core.workspace import Workspace, last_dataset_name, lost_dataset_name, make_state_dir

if TYPE_CHECKING:
    from hudtui.core.environment.engine import PushProgress
    from hudtui.core.gym.prompt_size import PromptSize
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.lockfile import LockFile
    from hudtui.core.runs.work import Work
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.read import TaskReader
    from hudtui.core.tasks.select import Measured, Selected
    from hudtui.core.tasks.task import Task

    Measurer = Callable[[Sequence[Task], GymConfig, Work], Measured]
    """Returns the difficulties that are known of the tasks of a run."""

OWN_VARIABLES = ("HUDTUI_PYTHON", *EPISODE_VARIABLES)
"""Task variables that no setting is sent for: the machine, or the episode, has its own value."""


@dataclass(frozen=True)
class Inputs:
    """The files of a run as they were read.

    What is missing is empty or None, and among the checks.
    """

    checks: tuple[Check, ...] = ()
    lock: LockFile | None = None
    tasks: tuple[Task, ...] = ()
    task_file: Path | None = None
    config: GymConfig | None = None
    config_file: Path | None = None
    reward_files: tuple[Path, ...] = ()
    """Files with the code of the configuration's own reward, the named file first."""
    selected: Selected | None = None
    """The choice among the tasks; None where all are taken."""
    opening: int = 0
    """Estimated tokens that stand before a task in every request, as far as they are known."""

    @property
    def local_image(self) -> LockFile | None:
        """The lock file, if the environment's image is not in a registry."""
        return self.lock if self.lock is not None and self.lock.image_here is not None else None

    @property
    def image(self) -> str | None:
        """The environment's image, if it is in a registry."""
        return self.lock.image if self.lock is not None and self.lock.image_here is None else None


def read_inputs(
    work: Work,
    workspace: Workspace,
    settings: Settings,
    read: TaskReader,
    measure: Measurer | None = None,
) -> Inputs:
    """Read the lock file, tasks and configuration, and the Hub if the tasks are on the Hub.

    Writes at most a copy of the tasks into `.hudtui/`. `measure` knows the difficulties that the
    request may select tasks by.
    """
    lock, lock_checks = _lock(workspace)
    source, source_checks = _task_source(work.request, workspace, lock)
    tasks, task_file, task_checks = (
        _tasks(source, work.request, workspace, settings, lock, read) if source else ((), None, ())
    )
    config_file, file_checks = _config_file(work.request, workspace)
    file_checks = (*lock_checks, *source_checks, *task_checks, *file_checks)
    if config_file is None:
        return Inputs(file_checks, lock, tasks, task_file)
    name = workspace.relative(config_file)
    try:
        config = _read_config(config_file, name)
        code = _reward_code(config, config_file)
        calls = _calls(config, work.dialect)
    except HudtuiError as error:
        if error.where is not None and error.where.file == str(config_file):
            error.where = replace(
                error.where, file=name
            )  # the path that the user knows, relative to the project
        return Inputs((*file_checks, refused("config", error)), lock, tasks, task_file)
    selected: Selected | None = None
    if work.request.select and source is not None and tasks:
        selected, selection = _select(work, tasks, config_in(config, config_file), measure)
        file_checks = (*file_checks, selection)
        tasks = () if selected is None else selected.kept
        task_file = _copy(tasks, source, workspace) if tasks else None
    actions = plural(len(config.mappings), "action") if config.mappings else "the tools as they are"
    policy_checks = _policy(work.request, config)
    size = _size(work, config, workspace)
    checks = (
        *file_checks,
        fine("config", f"{name}: {actions}{calls}"),
        *policy_checks,
        *_forms(work, config),
        *_size_checks(work, size),
        *_scores(work, config, tasks),
    )
    return Inputs(checks, lock, tasks, task_file, config, config_file, code, selected, size.total)


def _calls(config: GymConfig, dialect: str | None) -> str:
    """Name the form of the calls, where it is not the usual one.

    Raises:
        InputError: There is no such dialect.
    """
    from hudtui.core.gym.config import with_dialect
    from hudtui.core.gym.dialects.known import DEFAULT

    spoken = with_dialect(config, dialect).parser.dialect
    return "" if spoken == DEFAULT else f", calls in the dialect {spoken}"


def _forms(work: Work, config: GymConfig) -> Iterator[Check]:
    """Check that the prompt teaches the calls that are read."""
    from hudtui.core.gym.config import with_dialect
    from hudtui.core.gym.lint.prompt import two_forms

    told = two_forms(with_dialect(config, work.dialect))
    if told is not None:
        fix = "Take the usage lines out of system_prompt: the tools' schemas say the same."
        yield warning("config", told, fix)


def _size(work: Work, config: GymConfig, workspace: Workspace) -> PromptSize:
    """Return how many tokens prompt and schemas have, where the environment's tools are known.

    They are those of the last analysis, if it has every tool of the configuration.
    """
    from hudtui.core.environment.cache import latest_analysis
    from hudtui.core.gym.action_tools import action_tools
    from hudtui.core.gym.config import with_dialect
    from hudtui.core.gym.interpreter import DONE
    from hudtui.core.gym.prompt_size import prompt_size

    config = with_dialect(config, work.dialect)
    found = latest_analysis(workspace.folder)
    tools = {} if found is None else {tool.name: tool for tool in found.tools}
    mapped = (mapping.tool for mapping in config.mappings.values() if mapping.name != DONE)
    if not all(tool in tools for tool in mapped):
        tools = {}
    return prompt_size(config, action_tools(config, tools))


def _size_checks(work: Work, size: PromptSize) -> Iterator[Check]:
    """Check that prompt and schemas leave room for a reply, and are worth their tokens."""
    from hudtui.core.gym.prompt_size import size_warning

    learns = work.request.features.trains or work.request.rehearse
    recipe = work.job.recipe if work.job is not None and learns else None
    room = None if recipe is None else recipe.max_seq_len - recipe.max_tokens
    if room is not None and size.total > room:
        text = f"prompt and schemas take about {size.total:,} tokens, as estimated"
        text += f", and there is room for {room:,} before a reply"
        yield warning("config", text, "Raise max_seq_len, or pick fewer actions: `actions: [...]`.")
    elif (told := size_warning(size)) is not None:
        yield warning("config", told)


def config_in(config: GymConfig, file: Path) -> GymConfig:
    """Return a configuration that knows its file by its whole path.

    The code of its reward lies beside it.
    """
    return replace(config, path=str(file))


def _select(
    work: Work, tasks: tuple[Task, ...], config: GymConfig, measure: Measurer | None
) -> tuple[Selected | None, Check]:
    """Choose among the tasks as the request says; those that are held out stay.

    None if the choice cannot be made, or leaves too few.
    """
    from hudtui.core.tasks.select import Measured, names_difficulty, select_tasks

    text = work.request.select or ""
    held_out = 0 if work.job is None else work.job.recipe.held_out
    others = tasks[: len(tasks) - held_out] if held_out < len(tasks) else tasks
    measured = Measured()
    try:
        if measure is not None and names_difficulty(text):
            measured = measure(tasks, config, work)
        selected = select_tasks(others, text, measured)
    except HudtuiError as error:
        return None, refused("tasks", error)
    kept = (*selected.kept, *tasks[len(others) :])
    selected = replace(selected, kept=kept, total=len(tasks), held_out=len(tasks) - len(others))
    fewest = work.request.features.fewest_tasks
    unmeasured = selected.unmeasured == len(others)
    fix = f"{measured.command} measures them." if selected.unmeasured and measured.command else None
    if len(kept) - selected.held_out >= fewest:
        return selected, Check("tasks", "fine", clean_line(selected.text, 400))
    needs = f"; this run needs at least {fewest}" if not unmeasured else ""
    return None, missing("tasks", selected.text + needs, fix or "Widen what is selected.")


def _scores(work: Work, config: GymConfig, tasks: Sequence[Task]) -> Iterator[Check]:
    """Check that each task names its evaluate tool, if nothing else scores the episodes.

    The configuration or a judge may score them.
    """
    from hudtui.core.rollouts.episode import judging_actions

    text = judging_actions(config, tasks)
    if text is not None:
        yield warning(
            "config", text, "Leave these actions out of action_mappings and of the prompt."
        )
    bare = [task.id for task in tasks if not task.judged]
    if bare and not config.reward and work.judge is None:
        text = f"{plural(len(bare), 'task')} cannot be judged: {bare[0]} has no evaluate_tool, "
        text += f"and {config.path} no rubric.reward"
        yield missing(
            "tasks",
            text,
            "Name the evaluate tool in the tasks, say what they expect in `evaluate`, or name a "
            "reward in the configuration.",
        )


# --- the lock file --------------------------------------------------------------------------------


def _lock(workspace: Workspace) -> tuple[LockFile | None, tuple[Check, ...]]:
    """Return the lock file; None where there is none that can be read."""
    if workspace.lock is None:
        return None, ()
    from hudtui.core.lockfile import read_lock

    try:
        lock = read_lock(workspace.lock)
    except InputError as error:
        text = "the lock file is ignored: " + "; ".join(error.lines())
        return None, (warning("image", text),)
    named = lock.image_here is None and lock.image is not None
    return lock, (fine("image", lock.image),) if named and lock.image else ()


async def push_lock_image(workspace: Workspace, name: str) -> AsyncGenerator[PushProgress, None]:
    """Push the lock file's image, and write its digest into the lock file.

    The image exists only on this computer.

    For `name` see `push_name`.

    Raises:
        InputError: The image does not exist, or the name is invalid.
        MachineError: The push failed.
    """
    from hudtui.core.environment.engine import push_image
    from hudtui.core.lockfile import read_lock, set_image

    lock = read_lock(workspace.lock) if workspace.lock is not None else None
    if lock is None or lock.image_here is None:
        why = "there is no lock file" if lock is None else f"its image is {lock.image}"
        raise InputError(
            "this project has no image that exists only on this computer",
            why=why,
            fix="Omit --push-image.",
        )
    async with aclosing(push_image(lock.image_here, name)) as steps:
        async for step in steps:
            if step.image is not None:
                set_image(lock.path, step.image)
            yield step


# --- tasks ----------------------------------------------------------------------------------------


def _task_source(
    request: RunRequest, workspace: Workspace, lock: LockFile | None
) -> tuple[str | None, tuple[Check, ...]]:
    """Return the source of the tasks.

    The request's, the lock file's dataset, the last one made here, or the only file.
    """
    files = workspace.task_files
    dataset = lock.primary_dataset.name if lock is not None and lock.primary_dataset else None
    gone: str | None = None
    if workspace.lock is None:
        dataset = last_dataset_name(workspace.folder)
        gone = lost_dataset_name(workspace.folder) if request.tasks is None else None
    source = request.tasks or dataset or (str(files[0]) if len(files) == 1 else None)
    if source is not None:
        text = (
            f"the dataset made here last, {gone}, is gone: {_shown(source, workspace)} is taken "
            "instead"
        )
        return source, () if gone is None else (warning("tasks", text),)
    names = tuple(workspace.relative(path) for path in files)
    text = (
        f"there are {len(names)} task files here"
        if names
        else "there is no task file and no dataset in the lock file"
    )
    if gone is not None:
        text = f"the dataset made here last, {gone}, is gone; {text}"
    fix = "Name one: hudtui rl TASKS"
    if not names:
        fix += ", or make a dataset: hudtui hf tasks.json --name my-org/my-tasks"
    remedy: Remedy | None = "choose-tasks" if names else None
    return None, (missing("tasks", text, fix, remedy=remedy, options=names),)


def _tasks(
    source: str,
    request: RunRequest,
    workspace: Workspace,
    settings: Settings,
    lock: LockFile | None,
    read: TaskReader,
) -> tuple[tuple[Task, ...], Path | None, tuple[Check, ...]]:
    """Return the tasks that can be used, and a file with exactly these."""
    from hudtui.core.tasks.read import find_source
    from hudtui.core.tasks.solution import FIELD as SOLUTION
    from hudtui.core.tasks.solution import without_solution

    lock_image = None if lock is None else lock.image
    try:
        known: dict[str, Any] = {
            "lookup": task_lookup(settings),
            "platform": workspace.platform,
            "folder": workspace.folder,
            "token": settings.get("HF_TOKEN"),
        }
        loaded = read(source, lock_image=lock_image, **known)
        place = find_source(source, folder=workspace.folder)
        plain = place.kind != "hub" and Path(workspace.folder / source).is_file()
        if plain and lock_image is not None:
            plain = len(read(source, **known).tasks) == len(loaded.tasks)
    except HudtuiError as error:
        return (), None, (refused("tasks", error),)
    fewest = request.features.fewest_tasks
    good, name = len(loaded.tasks), _shown(source, workspace)
    problems = [str(problem) for problem in loaded.problems if problem.severity == "error"]
    usable = f"{good} of {plural(loaded.total, 'task')} of {name} can be used"
    if good < fewest:
        fix = (
            f"The first problem: {problems[0]}"
            if problems
            else f"hudtui hf {name} --min-tasks {fewest} repeats them."
        )
        return (), None, (missing("tasks", f"{usable}; this run needs at least {fewest}", fix),)
    tasks, checks = loaded.tasks, [fine("tasks", usable)]
    checks += [warning("tasks", problem) for problem in problems[:3]]
    if request.environments == REMOTE:
        tasks, more = _on_platform(tasks, workspace, settings, lock_image)
        checks += more
        plain = False
    open_tasks = tuple(map(without_solution, tasks))
    if request.policy != SOLUTION and open_tasks != tasks:
        tasks, plain = open_tasks, False
    file = workspace.folder / source if plain else _copy(tasks, source, workspace)
    return tasks, file, tuple(checks)


def _on_platform(
    tasks: tuple[Task, ...], workspace: Workspace, settings: Settings, image: str | None
) -> tuple[tuple[Task, ...], tuple[Check, ...]]:
    """Return the tasks with the platform's server and the lock file's image.

    They replace a server on this computer.
    """
    from hudtui.core.tasks.servers import config_rewriter

    platform = workspace.platform
    if image is None:
        text = f"no lock file contains an image that {platform.title} can run"
        fix = (
            "Build and push the environment's image, to add it to the lock file; or leave the "
            "environments as they are."
        )
        return tasks, (missing("environment", text, fix),)
    try:
        rewrite = config_rewriter(platform, image=image, lookup=settings.lookup, remote=True)
        moved = tuple(replace(task, mcp_config=rewrite(task.mcp_config)[0]) for task in tasks)
    except InputError as error:
        return tasks, (refused("environment", error),)
    if settings.get(platform.key_variable) is not None:
        return moved, ()
    why = f", and the environments run on {platform.title}"
    return moved, (lacking(settings, platform.key_variable, why),)


def task_lookup(settings: Settings) -> Lookup:
    """Return a lookup for the tasks' variables.

    An empty value counts as missing: no server can use it.
    """
    own = {"HUDTUI_PYTHON": sys.executable}
    return lambda name: (
        None if name in EPISODE_VARIABLES else settings.lookup(name) or own.get(name)
    )


def _shown(source: str, workspace: Workspace) -> str:
    return workspace.relative(Path(source)) if source.startswith("/") else source


def _copy(tasks: Sequence[Task], source: str, workspace: Workspace) -> Path:
    """Write the tasks into one file, and return its path.

    Tasks from the Hub, with the lock file's image, or with solutions need it: no machine that
    trains gets a solution.
    """
    from hudtui.core.tasks.task import task_record

    records = [task_record(task) for task in tasks]
    text = json.dumps(records, indent=1, ensure_ascii=False) + "\n"
    stem = (
        "".join(letter if letter.isalnum() else "-" for letter in Path(source).name)[:40].strip("-")
        or "tasks"
    )
    folder = make_state_dir(workspace.folder) / "tasks"
    path = folder / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        write_atomic(path, text)
    return path


# --- the configuration ----------------------------------------------------------------------------


def _config_file(
    request: RunRequest, workspace: Workspace
) -> tuple[Path | None, tuple[Check, ...]]:
    if request.config:
        from hudtui.core.gym.shipped import shipped_config

        file, text = shipped_config(request.config, workspace.folder)
        if text is not None:
            return file, (warning("config", text),)
        return workspace.folder / request.config, ()
    if len(workspace.configs) == 1:
        return workspace.configs[0], ()
    names = tuple(workspace.relative(config) for config in workspace.configs)
    text = f"there are {len(names)} configs here" if names else "there is no config"
    fix = (
        "Name one: --config FILE"
        if names
        else "Generate one from the environment: hudtui rl init SOURCE"
    )
    remedy: Remedy = "choose-config" if names else "generate-config"
    return None, (missing("config", text, fix, remedy=remedy, options=names),)


def _read_config(path: Path, name: str) -> GymConfig:
    """Return the configuration in a file.

    Raises:
        InputError: The file cannot be read, or has errors.
    """
    from hudtui.core.gym.config import parse_config

    config, findings = parse_config(read_text(path), name=name)
    errors = [finding for finding in findings if finding.severity == "error"]
    if config is not None and not errors:
        return config
    first = f"line {errors[0].line}: {errors[0].message}" if errors else "it cannot be read"
    raise InputError(
        f"{name} has {plural(len(errors), 'error')}; {first}", fix=f"hudtui config check {name}"
    )


def _policy(request: RunRequest, config: GymConfig) -> tuple[Check, ...]:
    """Return a check if the policy cannot play."""
    from hudtui.core.rollouts.policy import default_policy, policy_source

    policy = request.policy or default_policy(config)
    if request.features.trains or policy.startswith("openai:"):
        return ()
    try:
        policy_source(policy, config)
    except HudtuiError as error:
        return (refused("policy", error),)
    return ()


def _reward_code(config: GymConfig, path: Path) -> tuple[Path, ...]:
    """Return the files with the code of the configuration's own reward; empty without one.

    Raises:
        InputError: A file cannot be read, or the code is in none.
    """
    from hudtui.core.rollouts.reward import reward_files

    if not config.reward:
        return ()
    files = reward_files(replace(config, path=str(path)))
    if files:
        return files
    raise InputError(
        f"{config.reward}, which scores the episodes, does not exist on the machine of a run",
        fix="Put the code into a file in the configuration's folder: rubric.reward: FILE.py:NAME.",
        where=Location(str(path)),
    )
