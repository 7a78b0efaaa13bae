"""What somebody wants to run, checked and turned into a plan on a machine: the core of `hudtui rl` and the screen Launch."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.files import read_text, write_atomic
from hudtui.core.runs.hosts import LOCAL, find_host, rented_host
from hudtui.core.runs.launcher import draft, make_spec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.text import clean_line
from hudtui.core.training.plan import Rent, RunSpec
from hudtui.core.training.recipe import FEWEST_TASKS, read_settings
from hudtui.core.variables import names_in, substitute_tree
from hudtui.core.workspace import Workspace, make_state_dir

if TYPE_CHECKING:
    from hudtui.core.compute.choose import Choice
    from hudtui.core.compute.guard import Estimate, Limits
    from hudtui.core.compute.machine import Machine
    from hudtui.core.compute.provider import Provider
    from hudtui.core.compute.values import Offer
    from hudtui.core.gym.config import GymConfig
    from hudtui.core.settings import Settings
    from hudtui.core.tasks.task import Task

CheckState = Literal["fine", "warning", "missing"]
Remedy = Literal["generate-config", "choose-config", "choose-tasks", "set-key", "register-key", "choose-machine"]
DEFAULT_GPUS = "2xA100"
"""What a training is given where nothing was said: one GPU serves the model, the other trains."""
_OWN_VARIABLES = ("HUDTUI_PYTHON",)
"""Variables of tasks that mean this computer, and have a value of their own on each machine."""
_SERVICES = ("WANDB_API_KEY", "HF_TOKEN")
"""Keys that trainers use when they are there."""


@dataclass(frozen=True)
class Wish:
    """A run as its user asks for it. None leaves the choice to the workspace, the engine or the market."""

    engine: str = "trl"
    tasks: str | None = None
    """A task file or folder, or a dataset on the Hub (`org/name`)."""
    config: Path | None = None
    model: str | None = None
    policy: str = "greedy"
    training: Path | None = None
    """File with the trainer's settings."""
    name: str | None = None
    steps: int | None = None
    group: int = 1
    concurrency: int = 4
    limit: int | None = None
    seed: int | None = None
    max_turns: int | None = None
    base_url: str | None = None
    host: str | None = None
    """A machine of the user's: `local`, or what `ssh` would be given."""
    provider: str | None = None
    """Who to rent from."""
    gpus: str | None = None
    """Such as `4xH100`."""
    offer: Offer | None = None
    """The machine that was chosen already."""
    python: str | None = None
    """Python on the machine with all that the run needs, instead of an environment that is made there."""
    limits: Limits | None = None
    """None: those of the settings."""
    output_dir: Path | None = None
    keep_on_failure: bool = False


@dataclass(frozen=True)
class Check:
    """Something that a run needs, and whether it is there."""

    name: str
    """`tasks`, `config`, `image`, `keys`, `machine`, `environment`, `plan`."""
    state: CheckState
    text: str
    fix: str | None = None
    """What to do about it; a command where there is one."""
    remedy: Remedy | None = None
    """What can be offered on the spot."""
    options: tuple[str, ...] = ()
    """What there is to choose from, or the names of the keys that are missing."""

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {name: value for name, value in vars(self).items() if name not in ("remedy", "options")}


@dataclass(frozen=True)
class Preparation:
    """A wish that was looked at."""

    checks: tuple[Check, ...]
    record: RunRecord | None = None
    """The run as it would be started; None while something is missing."""
    choice: Choice | None = None
    """The machine that would be rented, and why this one."""
    estimate: Estimate | None = None
    provider: Provider | None = None
    """Who it would be rented from."""

    @property
    def missing(self) -> tuple[Check, ...]:
        """What keeps it from starting."""
        return tuple(check for check in self.checks if check.state == "missing")


@dataclass
class _Looked:
    """What was found while looking at the wish."""

    checks: list[Check] = field(default_factory=list)
    tasks: tuple[Task, ...] = ()
    task_file: Path | None = None
    config: Path | None = None
    remarks: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    tunnels: list[int] = field(default_factory=list)

    def add(self, name: str, state: CheckState, text: str, fix: str | None = None, **more: Any) -> None:
        self.checks.append(Check(name, state, clean_line(text, 400), fix, **more))


async def prepare(
    wish: Wish,
    workspace: Workspace,
    settings: Settings,
    store: RunStore,
    *,
    providers: Mapping[str, Provider] | None = None,
) -> Preparation:
    """Look at everything that a run needs, and plan it. Rents nothing; writes at most a copy of the tasks into `.hudtui/`.

    Args:
        wish: What is asked for.
        workspace: The project.
        settings: Its settings.
        store: Where its runs are kept.
        providers: Who can be asked for machines; found by the settings when None.

    Raises:
        InputError: An option makes no sense.
    """
    seen = _Looked()
    await asyncio.to_thread(_look_at_files, wish, workspace, settings, seen)
    choice: Choice | None = None
    estimate: Estimate | None = None
    provider: Provider | None = None
    machine: Machine | None = None
    host = wish.host or (LOCAL if wish.provider == LOCAL else None)
    limits = _limits(wish, settings, seen)
    if host is None and wish.provider is None and wish.offer is None and wish.engine == "rollouts":
        host = LOCAL
    if host is None and wish.offer is not None and wish.offer.provider in ("local", "ssh"):
        host = LOCAL if wish.offer.provider == "local" else wish.offer.id
    if host is not None:
        machine = await _look_at_machine(host, wish, seen)
    else:
        try:
            provider, choice = await _look_at_market(wish, settings, providers, seen)
        except HudtuiError as error:
            remedy: Remedy | None = None if wish.provider or wish.offer else "choose-machine"
            seen.add("machine", "missing", "; ".join(error.lines()[:2]), error.fix, remedy=remedy)
    remote = host != LOCAL
    _look_at_environments(seen, settings, remote=remote)
    _look_at_keys(wish, settings, seen, remote=remote)
    if any(check.state == "missing" for check in seen.checks) or seen.task_file is None or seen.config is None:
        return Preparation(tuple(seen.checks), None, choice, None, provider)
    try:
        spec = await asyncio.to_thread(_spec, wish, workspace, seen, limits)
        if choice is not None and provider is not None:
            spec, estimate = await _rented(spec, wish, choice.offer, provider, settings, limits, seen)
            target = find_host(rented_host(spec.rent.machine)) if spec.rent is not None else find_host(LOCAL)
        else:
            assert host is not None
            spec = _on_machine(spec, wish, machine)
            target = find_host(host)
        if any(check.state == "missing" for check in seen.checks):
            return Preparation(tuple(seen.checks), None, choice, estimate, provider)
        record = await asyncio.to_thread(draft, spec, target, store)
    except HudtuiError as error:
        seen.add("plan", "missing", "; ".join(error.lines()[:2]), error.fix)
        return Preparation(tuple(seen.checks), None, choice, estimate, provider)
    return Preparation(tuple(seen.checks), record, choice, estimate, provider)


# --- files ----------------------------------------------------------------------------------------------------------------


def _look_at_files(wish: Wish, workspace: Workspace, settings: Settings, seen: _Looked) -> None:
    lock_image, dataset = _lock(workspace, seen)
    _look_at_tasks(wish, workspace, settings, lock_image, dataset, seen)
    _look_at_config(wish, workspace, seen)


def _lock(workspace: Workspace, seen: _Looked) -> tuple[str | None, str | None]:
    """Image and dataset that the lock file names."""
    if workspace.lock is None:
        return None, None
    from hudtui.core.lockfile import read_lock

    try:
        lock = read_lock(workspace.lock)
    except InputError as error:
        seen.add("image", "warning", "the lock file is left out: " + "; ".join(error.lines()))
        return None, None
    if lock.image is None and lock.image_local is not None:
        seen.add(
            "image",
            "warning",
            f"the environment's image {lock.image_local} is only on this computer: tasks that run on it cannot have it elsewhere",
            "Push it to a registry (docker push), and write its name into the lock file.",
        )
    elif lock.image is not None:
        seen.add("image", "fine", lock.image)
    return lock.image, lock.primary_dataset.name if lock.primary_dataset else None


def _look_at_tasks(
    wish: Wish, workspace: Workspace, settings: Settings, lock_image: str | None, dataset: str | None, seen: _Looked
) -> None:
    source = wish.tasks or dataset or (str(workspace.task_files[0]) if len(workspace.task_files) == 1 else None)
    if source is None:
        names = tuple(workspace.relative(path) for path in workspace.task_files)
        text = f"there are {len(names)} task files here" if names else "there is no task file and no dataset in the lock file"
        fix = "Name one: hudtui rl TASKS" + ("" if names else ", or make a dataset: hudtui hf tasks.json --name my-org/my-tasks")
        seen.add("tasks", "missing", text, fix, remedy="choose-tasks" if names else None, options=names)
        return
    from hudtui.core.tasks.load import read_tasks
    from hudtui.core.tasks.source import find_source

    try:
        token = settings.secret("HF_TOKEN")
        known: dict[str, Any] = {
            "lookup": _without_own(settings),
            "platform": workspace.platform,
            "folder": workspace.folder,
            "token": token.get_secret_value() if token else None,
        }
        found = read_tasks(source, lock_image=lock_image, **known)
        place = find_source(source, folder=workspace.folder)
        plain = place.kind != "hub" and Path(workspace.folder / source).is_file()
        if plain and lock_image is not None:
            plain = len(read_tasks(source, **known).tasks) == len(found.tasks)
    except HudtuiError as error:
        seen.add("tasks", "missing", "; ".join(error.lines()[:2]), error.fix)
        return
    fewest = 1 if wish.engine == "rollouts" else FEWEST_TASKS
    good = len(found.tasks)
    problems = [str(problem) for problem in found.problems if problem.severity == "error"]
    if good < fewest:
        text = f"{good} of the {found.total} tasks of {source} can be used; this run needs {fewest} at least"
        fix = f"The first problem: {problems[0]}" if problems else f"hudtui hf {source} --min-tasks {fewest} repeats them."
        seen.add("tasks", "missing", text, fix)
        return
    seen.add("tasks", "fine", f"{good} of {found.total} tasks of {_shown(source, workspace)} can be used")
    for problem in problems[:3]:
        seen.add("tasks", "warning", problem)
    seen.tasks = found.tasks
    seen.task_file = (workspace.folder / source) if plain else _copy(found.tasks, source, workspace)


def _shown(source: str, workspace: Workspace) -> str:
    return workspace.relative(Path(source)) if source.startswith("/") else source


def _without_own(settings: Settings) -> Any:
    return lambda name: settings.lookup(name) or (sys.executable if name in _OWN_VARIABLES else None)


def _copy(tasks: Sequence[Task], source: str, workspace: Workspace) -> Path:
    """The tasks as one file that says everything: what comes from the Hub or takes its image from the lock file travels so."""
    records = [_task_record(task) for task in tasks]
    text = json.dumps(records, indent=1, ensure_ascii=False) + "\n"
    stem = "".join(letter if letter.isalnum() else "-" for letter in Path(source).name)[:40].strip("-") or "tasks"
    folder = make_state_dir(workspace.folder) / "tasks"
    path = folder / f"{stem}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        write_atomic(path, text)
    return path


def _task_record(task: Task) -> dict[str, Any]:
    record: dict[str, Any] = {**task.extra, "id": task.id, "prompt": task.prompt, "mcp_config": task.mcp_config}
    for name, calls in (("setup_tool", task.setup), ("evaluate_tool", task.evaluate)):
        made = [{"name": call.name, "arguments": dict(call.arguments)} for call in calls]
        if made:
            record[name] = made[0] if len(made) == 1 else made
    if task.metadata:
        record["metadata"] = dict(task.metadata)
    return record


def _look_at_config(wish: Wish, workspace: Workspace, seen: _Looked) -> None:
    path = workspace.folder / wish.config if wish.config else (workspace.configs[0] if len(workspace.configs) == 1 else None)
    if path is None:
        names = tuple(workspace.relative(config) for config in workspace.configs)
        text = f"there are {len(names)} configs here" if names else "there is no config"
        fix = "Name one: --config FILE" if names else "Generate one from the environment: hudtui rl init SOURCE"
        remedy: Remedy = "choose-config" if names else "generate-config"
        seen.add("config", "missing", text, fix, remedy=remedy, options=names)
        return
    from hudtui.core.gym.config import parse_config

    name = workspace.relative(path)
    try:
        config, findings = parse_config(read_text(path), name=name)
    except HudtuiError as error:
        seen.add("config", "missing", "; ".join(error.lines()[:2]), error.fix)
        return
    errors = [finding for finding in findings if finding.severity == "error"]
    if config is None or errors:
        first = f"line {errors[0].line}: {errors[0].message}" if errors else "it cannot be read"
        seen.add("config", "missing", f"{name} has {len(errors)} errors; {first}", f"hudtui lint {name}")
        return
    try:
        _look_at_policy(wish, config)
    except HudtuiError as error:
        seen.add("config", "missing", "; ".join(error.lines()[:2]), error.fix)
        return
    seen.add("config", "fine", f"{name}: {len(config.mappings)} actions")
    seen.config = path


def _look_at_policy(wish: Wish, config: GymConfig) -> None:
    if wish.engine == "rollouts" and not wish.policy.startswith("openai:"):
        from hudtui.core.rollouts.policy import policy_source

        policy_source(wish.policy, config)


# --- environments and keys ------------------------------------------------------------------------------------------------


def _look_at_environments(seen: _Looked, settings: Settings, *, remote: bool) -> None:
    """How the run's machine reaches the environments of the tasks."""
    if not seen.tasks or not remote:
        return
    told: dict[str, None] = {}
    configs = {id(task.mcp_config): task.mcp_config for task in seen.tasks}
    for config in configs.values():
        found, _ = substitute_tree(config, _without_own(settings))
        for name, server in found.items() if isinstance(found, dict) else ():
            told.setdefault(_way(str(name), server, seen))
    for text in list(told)[:8]:
        seen.remarks.append(text)
        state: CheckState = "warning" if "tunnel" in text or "has to be" in text else "fine"
        seen.add("environment", state, text)


def _way(name: str, server: Any, seen: _Looked) -> str:
    name = clean_line(name, 60)
    server = server if isinstance(server, Mapping) else {}
    url = server.get("url")
    if isinstance(url, str):
        parts = urlsplit(url)
        if parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            return f"environment {name}: at {clean_line(parts.netloc, 80)}, as from here"
        port = parts.port or (443 if parts.scheme == "https" else 80)
        if port not in seen.tunnels:
            seen.tunnels.append(port)
        return (
            f"environment {name}: port {port} of this computer, through a tunnel: hudtui has to stay open while the run goes on"
        )
    command = str(server.get("command") or "")
    if Path(command).name.startswith("python") and any(str(arg).startswith("hudtui.envs.") for arg in server.get("args") or ()):
        there = command in ("python", "python3", sys.executable)
        return f"environment {name}: started on the machine, with the hudtui that travels there" + (
            "" if there else f"; {clean_line(command, 80)} has to be there"
        )
    return f"environment {name}: started on the machine by `{clean_line(command, 60)}`, which has to be there"


def _look_at_keys(wish: Wish, settings: Settings, seen: _Looked, *, remote: bool) -> None:
    """Which settings travel to the machine. What tasks miss was told with the tasks."""
    names: dict[str, None] = {}
    for config in {id(task.mcp_config): task.mcp_config for task in seen.tasks}.values():
        names.update(dict.fromkeys(names_in(config)))
    needed = ["OPENAI_API_KEY"] if wish.engine == "rollouts" and wish.policy.startswith("openai:") and not wish.base_url else []
    missing = [name for name in needed if settings.get(name) is None]
    if missing:
        fix = f"hudtui settings set {missing[0]}"
        seen.add("keys", "missing", f"{', '.join(missing)} is not set", fix, remedy="set-key", options=tuple(missing))
    if not remote:
        return
    wanted = [*names, "OPENAI_API_KEY", "OPENAI_BASE_URL"] if wish.engine == "rollouts" else [*names, *_SERVICES]
    for name in wanted:
        value = settings.lookup(name)
        if not value or name in _OWN_VARIABLES or settings.origin(name) == "default":
            continue
        if settings.is_secret(name):
            seen.secrets.append(name)
        else:
            seen.variables[name] = value
    if seen.secrets:
        seen.add("keys", "fine", f"these go to the machine, by its standard input and into no file: {', '.join(seen.secrets)}")
    if wish.engine != "rollouts" and settings.get("WANDB_API_KEY") is None:
        text = "WANDB_API_KEY is not set: no metrics go to Weights & Biases; they are kept in the run as always"
        seen.add("keys", "warning", text, "hudtui settings set WANDB_API_KEY")


# --- machines -------------------------------------------------------------------------------------------------------------


async def _look_at_machine(host: str, wish: Wish, seen: _Looked) -> Machine | None:
    from hudtui.core.compute.machine import inspect, size

    try:
        found = await inspect(find_host(host), python=sys.executable if host == LOCAL else "python3")
    except HudtuiError as error:
        seen.add("machine", "missing", "; ".join(error.lines()[:2]), error.fix)
        return None
    gpus = f"{len(found.gpus)} x {found.gpus[0].name}" if found.gpus else "no GPU"
    name = "this machine" if host == LOCAL else host
    seen.add("machine", "fine", f"{name}: {gpus}, {found.cpus} processors, {size(found.disk_free_bytes)} of disk free")
    if host != LOCAL and not found.python:
        seen.add("machine", "missing", f"{name} has no python3", "Install it there: the run's supervisor needs it.")
    if not found.program("tmux"):
        seen.add("machine", "warning", f"{name} has no tmux: the stages run as detached processes, without windows")
    if wish.engine == "trl" and not found.gpus:
        seen.add(
            "machine",
            "missing",
            f"{name} has no GPU that can be seen, and training needs one",
            "Choose another machine, or rehearse for nothing: hudtui rl --rehearse",
            remedy="choose-machine",
        )
    return found


async def _look_at_market(
    wish: Wish, settings: Settings, providers: Mapping[str, Provider] | None, seen: _Looked
) -> tuple[Provider, Choice]:
    from hudtui.core.compute.choose import Choice, choose
    from hudtui.core.compute.gpuspec import parse_spec
    from hudtui.core.compute.providers import find_providers, open_provider
    from hudtui.core.compute.values import Query

    known = providers if providers is not None else find_providers(settings.get)
    if wish.offer is not None:
        provider = open_provider(wish.offer.provider, settings.get, providers=known)
        choice = Choice(wish.offer, ("it was chosen by you",))
    else:
        provider = open_provider(wish.provider or "prime", settings.get, providers=known)
        if not provider.paid:
            raise InputError(f"{provider.title} has machines of your own", fix="Name one: --host user@host.")
        text = wish.gpus or (DEFAULT_GPUS if wish.engine != "rollouts" else None)
        spec = parse_spec(text) if text else None
        found = await provider.offers(Query())
        for warning in found.warnings:
            seen.add("machine", "warning", f"{provider.title}: {warning}")
        choice = choose(found.found, spec=spec, query=Query(spot=False) if spec else None)
    seen.add("machine", "fine", f"{provider.title}: {describe(choice.offer)}")
    return provider, choice


def describe(offer: Offer) -> str:
    """An offer in one line."""
    from hudtui.core.compute.choose import price_text

    what = f"{offer.gpu_count} x {offer.gpu_type}" if offer.gpu_count else offer.gpu_type or "a machine"
    where = ", ".join(part for part in (offer.cloud, offer.data_center or offer.region, offer.country) if part)
    spot = ", spot: it can be taken away at any moment" if offer.spot else ""
    return clean_line(f"{what} at {price_text(offer.price)} an hour" + (f" ({where})" if where else "") + spot, 200)


async def _rented(
    spec: RunSpec,
    wish: Wish,
    offer: Offer,
    provider: Provider,
    settings: Settings,
    limits: Limits,
    seen: _Looked,
) -> tuple[RunSpec, Estimate]:
    from hudtui.core.compute.acquire import unique_name
    from hudtui.core.compute.guard import estimate
    from hudtui.core.runs.rented import WARNING, offer_to_json

    key = await _ssh_key(provider, settings, seen)
    rent = Rent(
        provider=provider.name,
        machine=unique_name(spec.name),
        offer=offer_to_json(offer),
        hourly=offer.price.hourly,
        currency=offer.price.currency,
        ssh_key=key,
        keep_on_failure=wish.keep_on_failure,
        simulated=provider.simulated,
    )
    hours = 1.0 if limits.max_hours is None else limits.max_hours
    expected = estimate(offer, hours)
    seen.remarks.append(WARNING)
    spec = replace(
        spec,
        rent=rent,
        gpus=max(offer.gpu_count, 1),
        gpu_memory=offer.gpu_memory or 80.0,
        limits=limits.to_json(),
        max_seconds=None,  # the guard holds the time, and can be told another one
        remarks=tuple(seen.remarks),
    )
    return spec, expected


async def _ssh_key(provider: Provider, settings: Settings, seen: _Looked) -> str | None:
    """The provider's id of the key that this computer logs in with."""
    from hudtui.core.compute.ssh_key import key_path, read_key

    path = key_path(settings.get)
    if path is None:
        fix = "Make one (ssh-keygen -t ed25519), or name it: hudtui settings set PRIME_SSH_KEY_PATH --user"
        seen.add("keys", "missing", "there is no SSH key to log in with", fix)
        return None
    try:
        mine = await asyncio.to_thread(read_key, path)
        known = await provider.keys()
    except HudtuiError as error:
        seen.add("keys", "missing", "; ".join(error.lines()[:2]), error.fix)
        return None
    words = mine.public_key.split()[:2]
    found = next((key for key in known if key.public_key.split()[:2] == words), None)
    if found is None:
        text = f"{provider.title} does not know the SSH key {path}"
        seen.add("keys", "missing", text, "Make it known: hudtui keys register", remedy="register-key", options=(str(path),))
        return None
    return found.id


def _on_machine(spec: RunSpec, wish: Wish, machine: Machine | None) -> RunSpec:
    gpus = len(machine.gpus) if machine is not None else 0
    memory = min((gpu.memory_mib / 1024 for gpu in machine.gpus if gpu.memory_mib), default=80.0) if machine else 80.0
    if wish.gpus is not None:
        from hudtui.core.compute.gpuspec import parse_spec

        wanted = parse_spec(wish.gpus).count
        if wanted > gpus:
            raise InputError(f"{wanted} GPUs are asked for, and the machine has {gpus}")
        gpus = wanted
    return replace(spec, gpus=max(gpus, 1), gpu_memory=memory)


def _limits(wish: Wish, settings: Settings, seen: _Looked) -> Limits:
    from hudtui.core.compute.guard import Limits, limits_from_settings

    if wish.limits is not None:
        return wish.limits
    try:
        return limits_from_settings(settings)
    except InputError as error:
        seen.add("machine", "missing", "; ".join(error.lines()[:2]), error.fix)
        return Limits()


def _spec(wish: Wish, workspace: Workspace, seen: _Looked, limits: Limits) -> RunSpec:
    training: Mapping[str, Any] = {}
    if wish.training is not None:
        training = read_settings(read_text(wish.training), name=str(wish.training))
    spec = make_spec(
        workspace,
        engine=wish.engine,
        tasks=seen.task_file,
        config=seen.config,
        policy=wish.policy,
        name=wish.name or (None if wish.engine == "rollouts" else _name(wish, seen)),
        group=wish.group,
        concurrency=wish.concurrency,
        limit=wish.limit,
        seed=wish.seed,
        max_turns=wish.max_turns,
        base_url=wish.base_url,
        max_seconds=None if wish.limits is None or limits.max_hours is None else limits.max_hours * 3600,
    )
    return replace(
        spec,
        model=wish.model,
        steps=wish.steps,
        training=training,
        trainer_python=wish.python,
        secrets=tuple(dict.fromkeys(seen.secrets)),
        variables=seen.variables,
        tunnels=tuple(seen.tunnels),
        remarks=tuple(seen.remarks),
        output_dir=None if wish.output_dir is None else str(wish.output_dir.expanduser().absolute()),
    )


def _name(wish: Wish, seen: _Looked) -> str:
    stem = seen.config.stem if seen.config else "run"
    return f"{stem} {wish.model.rpartition('/')[2]}" if wish.model else stem
