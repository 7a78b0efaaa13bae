"""Checks of everything a run needs besides a machine: tasks, configuration, image, environments, keys."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from hudtui.core.environment.servers import mask_url
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.files import read_text, write_atomic
from hudtui.core.runs.judge import judge_of
from hudtui.core.runs.request import AS_IS, REMOTE, RunRequest
from hudtui.core.text import clean_line, plural
from hudtui.core.variables import Lookup, substitute_tree, variable_names
from hudtui.core.workspace import Workspace, last_dataset_name, lost_dataset_name, make_state_dir

if TYPE_CHECKING:
    from hudtui.core.environment.engine import PushProgress
    from hudtui.core.gym.values import GymConfig
    from hudtui.core.lockfile import LockFile
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.read import TaskReader
    from hudtui.core.tasks.task import Task
    from hudtui.core.training.model import ModelAssessment

CheckState = Literal["fine", "warning", "missing"]
Remedy = Literal[
    "generate-config",
    "choose-config",
    "choose-tasks",
    "set-key",
    "make-key",
    "register-key",
    "choose-machine",
    "push-image",
    "trust",
]
_OWN_VARIABLES = ("HUDTUI_PYTHON",)
"""Task variables that depend on the computer, and have a different value on each machine."""
_SERVICES = ("WANDB_API_KEY", "HF_TOKEN")
"""Optional keys that trainers use if they are set."""


@dataclass(frozen=True)
class Check:
    """The result of checking one requirement of a run."""

    name: str
    """`tasks`, `config`, `image`, `keys`, `trust`, `judge`, `machine`, `model`, `memory`, `disk`, `environment`, `training`
    or `plan`."""
    state: CheckState
    text: str
    fix: str | None = None
    """How to fix the problem; a command where one exists."""
    remedy: Remedy | None = None
    """The fix that hudtui can offer immediately."""
    options: tuple[str, ...] = ()
    """The possible choices, or the names of the missing keys."""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("remedy", "options")}


@dataclass
class PreflightReport:
    """The results of the checks of a request."""

    checks: list[Check] = field(default_factory=list)
    tasks: tuple[Task, ...] = ()
    task_file: Path | None = None
    config: Path | None = None
    gym_config: GymConfig | None = None
    """The content of the configuration."""
    model_files: tuple[Path, ...] = ()
    """Files of a model on this computer that are sent to the machine."""
    job: dict[str, Any] | None = None
    """The configuration's `job` section, if it has one."""
    remarks: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    local_image: LockFile | None = None
    """The lock file, if the environment's image is not in a registry."""
    image: str | None = None
    """The environment's image, if it is in a registry."""
    tunnels: list[int] = field(default_factory=list)
    """Ports of this computer that environments listen on."""

    @property
    def missing(self) -> bool:
        """Return whether a check keeps the run from starting."""
        return any(check.state == "missing" for check in self.checks)

    def add(self, name: str, state: CheckState, text: str, fix: str | None = None, **more: Any) -> None:
        self.checks.append(Check(name, state, clean_line(text, 400), fix, **more))

    def lack(self, settings: Settings, name: str, why: str = "", *, check: str = "keys") -> None:
        """Add a check of a variable without a value, once; `why` ends its sentence."""
        if any(one.options == (name,) for one in self.checks):
            return
        remedy: Remedy = "set-key" if settings.waits(name) is None else "trust"
        lack, fix = settings.lacking(name)
        self.add(check, "missing", f"{name} {lack}{why}", fix, remedy=remedy, options=(name,))

    def refuse(self, name: str, error: HudtuiError, **more: Any) -> None:
        place = f"{error.where}: " if error.where else ""
        self.add(name, "missing", place + error.what + (f"; {error.why}" if error.why else ""), error.fix, **more)


# --- files ----------------------------------------------------------------------------------------------------------------


def check_files(request: RunRequest, workspace: Workspace, settings: Settings, report: PreflightReport, read: TaskReader) -> None:
    """Check the lock file, tasks and configuration. Reads files, and the Hub if the tasks are on the Hub."""
    lock_image, dataset = _lock(workspace, report)
    _check_tasks(request, workspace, settings, lock_image, dataset, report, read)
    _check_config(request, workspace, report)
    _check_judged(request, report)


def _check_judged(request: RunRequest, report: PreflightReport) -> None:
    """Check that each task names its evaluate tool, unless the configuration or a judge scores the episodes."""
    from hudtui.core.rollouts.episode import judging_actions

    config = report.gym_config
    if config is not None and (told := judging_actions(config, report.tasks)) is not None:
        report.add("config", "warning", told, "Leave these actions out of action_mappings and of the prompt.")
    bare = [task.id for task in report.tasks if not task.evaluate]
    if bare and config is not None and not config.reward and judge_of(request) is None:
        text = f"{plural(len(bare), 'task')} cannot be judged: {bare[0]} has no evaluate_tool, and {config.path} no rubric.reward"
        report.add("tasks", "missing", text, "Name the evaluate tool in the tasks, or a reward in the configuration.")


def _lock(workspace: Workspace, report: PreflightReport) -> tuple[str | None, str | None]:
    """Return the image and dataset in the lock file; without a lock file, the dataset created last in this workspace."""
    if workspace.lock is None:
        return None, last_dataset_name(workspace.folder)
    from hudtui.core.lockfile import read_lock

    try:
        lock = read_lock(workspace.lock)
    except InputError as error:
        report.add("image", "warning", "the lock file is ignored: " + "; ".join(error.lines()))
        return None, None
    if lock.image_here is not None:
        report.local_image = lock
    elif lock.image is not None:
        report.image = lock.image
        report.add("image", "fine", lock.image)
    return lock.image, lock.primary_dataset.name if lock.primary_dataset else None


async def push_lock_image(workspace: Workspace, name: str) -> AsyncGenerator[PushProgress, None]:
    """Push the lock file's image, which exists only on this computer, and write its digest into the lock file.

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
        raise InputError("this project has no image that exists only on this computer", why=why, fix="Omit --push-image.")
    async with aclosing(push_image(lock.image_here, name)) as steps:
        async for step in steps:
            if step.image is not None:
                set_image(lock.path, step.image)
            yield step


def _check_tasks(
    request: RunRequest,
    workspace: Workspace,
    settings: Settings,
    lock_image: str | None,
    dataset: str | None,
    report: PreflightReport,
    read: TaskReader,
) -> None:
    only = str(workspace.task_files[0]) if len(workspace.task_files) == 1 else None
    source = request.tasks or dataset or only
    gone = lost_dataset_name(workspace.folder) if workspace.lock is None and request.tasks is None else None
    if source is None:
        names = tuple(workspace.relative(path) for path in workspace.task_files)
        text = f"there are {len(names)} task files here" if names else "there is no task file and no dataset in the lock file"
        if gone is not None:
            text = f"the dataset made here last, {gone}, is gone; {text}"
        fix = "Name one: hudtui rl TASKS" + ("" if names else ", or make a dataset: hudtui hf tasks.json --name my-org/my-tasks")
        report.add("tasks", "missing", text, fix, remedy="choose-tasks" if names else None, options=names)
        return
    from hudtui.core.tasks.read import find_source

    try:
        known: dict[str, Any] = {
            "lookup": _without_own(settings),
            "platform": workspace.platform,
            "folder": workspace.folder,
            "token": settings.get("HF_TOKEN"),
        }
        found = read(source, lock_image=lock_image, **known)
        place = find_source(source, folder=workspace.folder)
        plain = place.kind != "hub" and Path(workspace.folder / source).is_file()
        if plain and lock_image is not None:
            plain = len(read(source, **known).tasks) == len(found.tasks)
    except HudtuiError as error:
        report.refuse("tasks", error)
        return
    fewest = request.features.fewest_tasks
    good, name = len(found.tasks), _shown(source, workspace)
    problems = [str(problem) for problem in found.problems if problem.severity == "error"]
    if good < fewest:
        text = f"{good} of {plural(found.total, 'task')} of {name} can be used; this run needs at least {fewest}"
        fix = f"The first problem: {problems[0]}" if problems else f"hudtui hf {name} --min-tasks {fewest} repeats them."
        report.add("tasks", "missing", text, fix)
        return
    report.add("tasks", "fine", f"{good} of {plural(found.total, 'task')} of {name} can be used")
    if gone is not None:
        report.add("tasks", "warning", f"the dataset made here last, {gone}, is gone: {name} is taken instead")
    for problem in problems[:3]:
        report.add("tasks", "warning", problem)
    report.tasks = found.tasks
    if request.environments == REMOTE:
        report.tasks, plain = _on_platform(found.tasks, workspace, settings, lock_image, report), False
    elif request.environments != AS_IS:
        raise InputError(f"{request.environments!r} is not a place for environments", fix=f"{AS_IS}, or {REMOTE}.")
    report.task_file = (workspace.folder / source) if plain else _copy(report.tasks, source, workspace)


def _on_platform(
    tasks: tuple[Task, ...], workspace: Workspace, settings: Settings, image: str | None, report: PreflightReport
) -> tuple[Task, ...]:
    """Return the tasks with the platform's server and the lock file's image, instead of a server on this computer."""
    from hudtui.core.tasks.servers import config_rewriter

    platform = workspace.platform
    if image is None:
        fix = "Build and push the environment's image, to add it to the lock file; or leave the environments as they are."
        report.add("environment", "missing", f"no lock file contains an image that {platform.title} can run", fix)
        return tasks
    try:
        rewrite = config_rewriter(platform, image=image, lookup=settings.lookup, remote=True)
        moved = tuple(replace(task, mcp_config=rewrite(task.mcp_config)[0]) for task in tasks)
    except InputError as error:
        report.refuse("environment", error)
        return tasks
    if settings.get(platform.key_variable) is None:
        report.lack(settings, platform.key_variable, f", and the environments run on {platform.title}")
    return moved


def _shown(source: str, workspace: Workspace) -> str:
    return workspace.relative(Path(source)) if source.startswith("/") else source


def _without_own(settings: Settings) -> Lookup:
    """Return a lookup for the tasks' variables. An empty value counts as missing: no server can use it."""
    return lambda name: settings.lookup(name) or (sys.executable if name in _OWN_VARIABLES else None)


def _copy(tasks: Sequence[Task], source: str, workspace: Workspace) -> Path:
    """Write the tasks into one file, and return its path. Tasks from the Hub, or with the lock file's image, need it."""
    from hudtui.core.tasks.task import task_record

    records = [task_record(task) for task in tasks]
    text = json.dumps(records, indent=1, ensure_ascii=False) + "\n"
    stem = "".join(letter if letter.isalnum() else "-" for letter in Path(source).name)[:40].strip("-") or "tasks"
    folder = make_state_dir(workspace.folder) / "tasks"
    path = folder / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        write_atomic(path, text)
    return path


def _check_config(request: RunRequest, workspace: Workspace, report: PreflightReport) -> None:
    path = (
        workspace.folder / request.config if request.config else (workspace.configs[0] if len(workspace.configs) == 1 else None)
    )
    if path is None:
        names = tuple(workspace.relative(config) for config in workspace.configs)
        text = f"there are {len(names)} configs here" if names else "there is no config"
        fix = "Name one: --config FILE" if names else "Generate one from the environment: hudtui rl init SOURCE"
        remedy: Remedy = "choose-config" if names else "generate-config"
        report.add("config", "missing", text, fix, remedy=remedy, options=names)
        return
    from hudtui.core.gym.config import parse_config
    from hudtui.core.gym.shipped import shipped_config

    if request.config is not None:
        found, told = shipped_config(request.config, workspace.folder)
        if told is not None:
            path = found
            report.add("config", "warning", told)
    name = workspace.relative(path)
    try:
        config, findings = parse_config(read_text(path), name=name)
    except HudtuiError as error:
        if error.where is not None and error.where.file == str(path):
            error.where = replace(error.where, file=name)  # the path that the user knows, relative to the project
        report.refuse("config", error)
        return
    errors = [finding for finding in findings if finding.severity == "error"]
    if config is None or errors:
        first = f"line {errors[0].line}: {errors[0].message}" if errors else "it cannot be read"
        report.add("config", "missing", f"{name} has {plural(len(errors), 'error')}; {first}", f"hudtui config check {name}")
        return
    try:
        _check_policy(request, config)
    except HudtuiError as error:
        report.refuse("config", error)
        return
    actions = plural(len(config.mappings), "action") if config.mappings else "the tools as they are"
    report.add("config", "fine", f"{name}: {actions}")
    report.config, report.gym_config, report.job = path, config, dict(config.job) or None


def _check_policy(request: RunRequest, config: GymConfig) -> None:
    if not request.features.trains and not request.policy.startswith("openai:"):
        from hudtui.core.rollouts.policy import policy_source

        policy_source(request.policy, config)


def check_model(
    request: RunRequest, workspace: Workspace, settings: Settings, report: PreflightReport, *, remote: bool, rented: bool
) -> None:
    """Check whether the model can be trained, as far as this computer and the Hub can tell. Reads the training's settings."""
    features = request.features
    if not features.trains:
        return
    from hudtui.core.training.model import assess_model
    from hudtui.core.training.recipe import read_settings

    name = request.rehearse_model if request.rehearse else request.model or request.settings.get("model")
    if name is None and not request.rehearse and request.training is not None:
        try:
            name = read_settings(read_text(request.training), name=str(request.training)).get("model")
        except HudtuiError as error:
            if all(check.name != "training" or check.state != "missing" for check in report.checks):  # it was said already
                report.refuse("training", error)
            return
    if name is None:
        return  # the engine's own choice
    found = assess_model(str(name), workspace.folder, here=not remote, sent=features.sends_model, config=report.gym_config)
    if found.state == "unknown" and rented and found.fix is not None and not found.files:
        found = replace(found, state="refused")  # a machine that is not rented yet has no files
    if found.state == "unknown" and found.on_hub:
        found = _ask_hub(str(name), settings, found, elsewhere=remote and not rented)
    states: dict[str, CheckState] = {"fine": "fine", "unknown": "warning", "refused": "missing"}
    report.add("model", states[found.state], found.text, found.fix)
    report.model_files = found.files


def _ask_hub(name: str, settings: Settings, found: ModelAssessment, *, elsewhere: bool) -> ModelAssessment:
    """Assess a model by what the Hub says. `elsewhere`: it is trained on a machine of the user's, which may ask another Hub."""
    from hudtui.core.tasks.hub import has_model, use_hub_of

    use_hub_of(settings)
    there, shown = has_model(name, settings.get("HF_TOKEN")), clean_line(name, 100)
    if there is None:
        return found
    if there:
        return replace(found, state="fine", text=f"{shown}, on the Hub")
    text = f"the Hub has no model {shown} that can be read from here"
    fix = "Is the name right? A private model needs a token that may read it: hudtui settings set HF_TOKEN"
    return replace(found, state="unknown" if elsewhere else "refused", text=text, fix=fix)


# --- environments and keys ------------------------------------------------------------------------------------------------


def check_environments(report: PreflightReport, settings: Settings, *, remote: bool) -> None:
    """Check how the run's machine reaches the environments of the tasks."""
    used = _images_of_tasks(report, settings)
    if report.local_image is not None:
        _check_local_image(report, report.local_image, used, remote=remote)
    _check_other_images(report, used, remote=remote)
    if not report.tasks or not remote:
        return
    told: dict[str, CheckState] = {}
    for config in _configs(report):
        found, _ = substitute_tree(config, _without_own(settings))
        for name, server in found.items():
            state, text = _way(str(name), server, report)
            told.setdefault(text, state)
            _check_login(str(name), server, report)
    for text, state in list(told.items())[:8]:
        report.remarks.append(f"environment {text}")
        report.add("environment", state, text)


def _check_login(name: str, server: Any, report: PreflightReport) -> None:
    """Check whether a server requires a login: logins stay on this computer."""
    from hudtui.core.environment.login_file import read_login

    url = server.get("url") if isinstance(server, Mapping) else None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return
    headers = server.get("headers")
    if isinstance(headers, Mapping) and any(str(header).lower() == "authorization" for header in headers):
        return
    if read_login(url) is None:
        return
    shown = clean_line(mask_url(url), 120)
    text = f"{clean_line(name, 60)}: {shown} requires a login, and your login is not sent to the machine"
    if all(check.text != text for check in report.checks):
        fix = f"Set a key as a header in the mcp_config, or run on this computer. `hudtui env logout {shown}` removes the login."
        report.add("environment", "missing", text, fix)


def _configs(report: PreflightReport) -> Iterable[Mapping[str, Any]]:
    """Return the distinct `mcp_config` values of the tasks."""
    return {id(task.mcp_config): task.mcp_config for task in report.tasks}.values()


def _images_of_tasks(report: PreflightReport, settings: Settings) -> dict[str, bool]:
    """Return the images of the tasks; True for images that run on the tasks' machine or behind one of its addresses."""
    from hudtui.core.environment.servers import parse_mcp_config

    found: dict[str, bool] = {}
    for config in _configs(report):
        try:
            servers = parse_mcp_config(substitute_tree(config, _without_own(settings))[0], "mcp_config")
        except InputError:
            continue  # the check of the tasks has reported the error
        for server in servers:
            if server.image is not None:
                beside = server.url is None or _is_here(server.url)
                found[server.image] = found.get(server.image, True) and beside
    return found


def _is_here(url: str) -> bool:
    try:
        return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    except ValueError:
        return False


def _check_local_image(report: PreflightReport, lock: LockFile, used: Mapping[str, bool], *, remote: bool) -> None:
    """Check the use of the lock file's image, which exists only on this computer."""
    from hudtui.core.environment.engine import lacks_image

    image = clean_line(lock.image_here or "", 120)
    ours = [beside for name, beside in used.items() if name in lock.images]
    if lock.image_here is not None and lacks_image(lock.image_here):
        text = f"the lock file's image {image} is in no registry, and the container engine here does not have it either"
        fix = "Build it again, or name an image in a registry in the lock file."
        report.add("image", "missing" if ours else "warning", text, fix)
    elif not ours:
        report.add("image", "fine", f"{image} exists only on this computer; the tasks do not use it")
    elif remote or not all(ours):
        text = f"the environment's image {image} exists only on this computer, and the tasks use it"
        fix = "Push it to a registry that the machine can reach: --push-image ghcr.io/my-org/"
        report.add("image", "missing", text, fix, remedy="push-image", options=(image,))
    else:
        report.add("image", "fine", f"{image}, which exists only on this computer")


def _check_other_images(report: PreflightReport, used: Mapping[str, bool], *, remote: bool) -> None:
    """Check images that tasks name themselves and that may exist only on this computer."""
    from hudtui.core.environment.engine import is_built_locally
    from hudtui.core.lockfile import is_local_image

    known = report.local_image.images if report.local_image is not None else frozenset()
    for name, beside in used.items():
        if name in known or not is_local_image(name) or (beside and not remote):
            continue
        # The platform cannot pull this image. A machine may find the name on Docker Hub, such as `node`.
        state: CheckState = "missing" if not beside or is_built_locally(name) else "warning"
        instead = report.image or "its name in the registry"
        text = f"tasks use the image {clean_line(name, 120)}, whose name belongs to no registry"
        fix = f"Push it, and put {clean_line(instead, 120)} into the tasks. Without an mcp_config they get the lock file's image."
        report.add("image", state, text, fix)


def _way(name: str, server: Any, report: PreflightReport) -> tuple[CheckState, str]:
    """Return how the run's machine reaches a task's server, and the state of that check."""
    name = clean_line(name, 60)
    server = server if isinstance(server, Mapping) else {}
    url = server.get("url")
    if isinstance(url, str):
        if not _is_here(url):
            return "fine", f"{name}: at {clean_line(url.partition('://')[2].partition('/')[0], 80)}, as from this computer"
        parts = urlsplit(url)
        try:
            port = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
        except ValueError:
            return "warning", f"{name}: the address {clean_line(parts.netloc, 80)} has no valid port"
        if port not in report.tunnels:
            report.tunnels.append(port)
        way = f"port {port} of this computer, through a tunnel: hudtui has to stay open until the run ends"
        return "warning", f"{name}: {way}"
    command = str(server.get("command") or "")
    if Path(command).name.startswith("python") and any(str(arg).startswith("hudtui.envs.") for arg in server.get("args") or ()):
        text = f"{name}: started on the machine (hudtui is uploaded)"
        if command in ("python", "python3", sys.executable):
            return "fine", text
        return "warning", f"{text}; {clean_line(command, 80)} must be installed there"
    return "warning", f"{name}: started on the machine by `{clean_line(command, 60)}`, which must be installed there"


def check_keys(request: RunRequest, settings: Settings, report: PreflightReport, *, remote: bool) -> None:
    """Check which settings the run needs, and which are sent to the machine."""
    names: dict[str, None] = {}
    needed: dict[str, None] = {}
    for config in _configs(report):
        names.update(dict.fromkeys(variable_names(config)))
        needed.update(dict.fromkeys(substitute_tree(config, _without_own(settings))[1]))
    for name in needed:
        report.lack(settings, name, ", and the tasks' servers need it")
    trains = request.features.trains
    asks_openai = not trains and request.policy.startswith("openai:") and not request.base_url
    if asks_openai and settings.get("OPENAI_API_KEY") is None:
        report.lack(settings, "OPENAI_API_KEY")
    if words := settings.waiting_words():
        report.add("trust", "warning", words, "hudtui trust", remedy="trust")
    _check_placeholders(tuple(names), settings, report)
    if not remote:
        return
    asks = not trains or judge_of(request) is not None
    models = ["OPENAI_API_KEY", "OPENAI_BASE_URL"] if asks else []
    names.update(dict.fromkeys((*_telemetry_names(report, settings), settings.platform.own_variable("CLIENT_TIMEOUT"))))
    wanted = [*names, *models, *(_SERVICES if trains else ())]
    for name in wanted:
        value = settings.lookup(name)
        if not value or name in _OWN_VARIABLES or settings.origin(name) == "default":
            continue
        if settings.is_secret(name):
            report.secrets.append(name)
        else:
            report.variables[name] = value
    if report.secrets:
        report.add(
            "keys", "fine", f"sent to the machine on standard input, and not written to a file: {', '.join(report.secrets)}"
        )
    if trains and settings.get("WANDB_API_KEY") is None:
        lack, fix = settings.lacking("WANDB_API_KEY")
        text = f"WANDB_API_KEY {lack}: metrics are kept in the run, and not sent to Weights & Biases"
        report.add("keys", "warning", text, fix)


def _telemetry_names(report: PreflightReport, settings: Settings) -> tuple[str, ...]:
    """Return the settings that the machine needs to report the run's job to the platform; empty if it is not reported."""
    from hudtui.core.rollouts.telemetry import sends_telemetry

    if report.job is None or not sends_telemetry(settings):
        return ()
    platform = settings.platform
    return platform.key_variable, *(platform.url_variable(service) for service in ("telemetry", "api", "web"))


def _check_placeholders(names: tuple[str, ...], settings: Settings, report: PreflightReport) -> None:
    """Check for keys with a placeholder instead of a value, such as the sample text in a `.env` file."""
    from hudtui.core.settings import check_setting_value

    for name in names:
        key, value = settings.keys.get(name), settings.get(name)
        problem = check_setting_value(key, value) if key is not None and key.secret and value is not None else None
        if problem is not None:
            text = f"{name}: {problem}; the tasks' servers need it"
            report.add("keys", "missing", text, f"hudtui settings set {name}", remedy="set-key", options=(name,))
