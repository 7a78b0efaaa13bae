"""What is to be done, as data: a `RunSpec` says what the user wants, a `Plan` says which files and commands that takes.

Both are frozen, go to JSON and back, and hold no secrets: only the names of those that a stage needs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

from hudtui.core.errors import InputError, Location
from hudtui.core.training.package_data import resource_bytes

T = TypeVar("T")
_STAGE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class FileRef:
    """A file of the user's, and what was in it when the run was planned."""

    path: str
    """Absolute."""
    size: int
    """Bytes."""
    sha256: str

    @property
    def name(self) -> str:
        """The file's own name."""
        return PurePosixPath(self.path).name


def file_ref(path: Path | str) -> FileRef:
    """Look at a file that a run needs.

    Raises:
        InputError: It is missing, a folder or unreadable.
    """
    place = Path(path).expanduser().absolute()
    digest, size = hashlib.sha256(), 0
    try:
        with open(place, "rb") as stream:
            for block in iter(partial(stream.read, 1024 * 1024), b""):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise InputError("this file cannot be read", why=error.strerror or str(error), where=Location(str(path))) from None
    return FileRef(str(place), size, digest.hexdigest())


@dataclass(frozen=True)
class Rental:
    """A machine that is rented for a run, and given back after it."""

    provider: str
    """Name of the provider."""
    machine: str
    """What it is ordered under: unique, and the name by which it is found again."""
    offer: Mapping[str, Any]
    """The offer that is taken, as plain data with all that its provider needs for the order."""
    hourly: float = 0.0
    """Price an hour, as is `currency`: what the user has agreed to."""
    currency: str = "USD"
    image: str | None = None
    disk_gb: float | None = None
    ssh_key: str | None = None
    """The provider's id of the public key that may log in."""
    keep_on_failure: bool = False
    """A run that failed leaves its machine to the user, who pays for it."""
    simulated: bool = False
    """No money is spent, and nothing is switched off."""


@dataclass(frozen=True)
class RunSpec:
    """What the user wants to run."""

    engine: str
    """Name of the engine, e.g. `rollouts`."""
    name: str
    """What the user calls it; need not be unique."""
    workspace: str
    """Absolute path of the project folder."""
    tasks: FileRef | None = None
    config: FileRef | None = None
    policy: str = "greedy"
    policy_file: FileRef | None = None
    """The trace behind `replay:`."""
    base_url: str | None = None
    """Endpoint of a model policy."""
    group: int = 1
    """Episodes a task."""
    concurrency: int = 4
    """Episodes at once."""
    limit: int | None = None
    """Only the first tasks."""
    seed: int | None = None
    max_turns: int | None = None
    max_seconds: float | None = None
    """After this time the run is stopped."""
    platform: str | None = None
    secrets: tuple[str, ...] = ()
    """Names of the settings that travel to the machine."""
    model: str | None = None
    """What is trained: an id on the Hub, or a folder on the machine. None: what the engine or `training` says."""
    gpus: int = 2
    """How many the machine has for this run."""
    gpu_memory: float = 80.0
    """GiB each of them has."""
    steps: int | None = None
    """Training steps, as is `learning_rate` and `held_out`: None for what `training` or the engine's defaults say."""
    learning_rate: float | None = None
    held_out: int | None = None
    """Tasks kept out of the training, to evaluate on."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """What a trainer is told, by the names of `recipe.Recipe`; what stands in this spec goes before it."""
    rehearse: bool = False
    """A tiny model, a few steps, on the CPU: the same plan for nothing."""
    trainer_python: str | None = None
    """Python on the machine with all that the run needs; None: an environment is made there."""
    rent: Rental | None = None
    """The machine is rented for this run."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Settings that travel to the machine and are no secrets."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """What the run may cost and how long it may take, by the names of `compute.limits.Limits`; empty for no limits."""
    output_dir: str | None = None
    """Absolute path of a folder on this machine that the results are brought to, in a folder named after the run."""
    tunnels: tuple[int, ...] = ()
    """Ports of this machine that the environments of the tasks listen on: the run's machine gets the same ports, for as long as
    hudtui is open."""
    remarks: tuple[str, ...] = ()
    """What people should know before they start it."""

    def to_json(self) -> dict[str, Any]:
        """As plain data; `spec_from_json` reads it back."""
        return _plain(self)


@dataclass(frozen=True)
class Site:
    """The place where a plan will be carried out: all that an engine needs to know of it."""

    folder: str
    """The run's folder there; relative to the home folder, or absolute."""
    python: tuple[str, ...]
    """Command that runs Python with hudtui in it."""
    workspace: str | None = None
    """The project folder, where it exists there too: stages run in it, so that the tasks' relative paths hold."""
    environments: str = "../../environments"
    """Folder of the Python environments that outlive a run, as its stages spell it: from the run's folder, or absolute."""
    package: str | None = None
    """Folder of the hudtui package, where it exists there too; None: a wheel of it is put into the run's folder."""

    def path(self, relative: str) -> str:
        """A path in the run's folder, as a stage must spell it: relative where stages run in that folder."""
        return str(PurePosixPath(self.folder, relative)) if self.workspace else relative


@dataclass(frozen=True)
class PlanFile:
    """A file to put into the run's folder: a copy of the user's, or text made by the plan."""

    path: str
    """Relative to the run's folder."""
    source: FileRef | None = None
    content: str | None = None
    resource: str | None = None
    """Name of a file that comes with hudtui; see `resources`."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.source.size if self.source else len(self.text)

    @property
    def text(self) -> bytes:
        """What is in it, where that is no file of the user's."""
        return resource_bytes(self.resource) if self.resource else (self.content or "").encode()

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts:
            raise ValueError(f"{self.path!r} is no path inside the run's folder")
        if sum(given is not None for given in (self.source, self.content, self.resource)) != 1:
            raise ValueError(f"{self.path}: either a source, a content or a resource")


@dataclass(frozen=True)
class Readiness:
    """How a service shows that it can be used: it listens, or a file appears."""

    port: int | None = None
    path: str | None = None
    """Relative to the run's folder."""
    timeout: float = 600.0
    """Seconds to wait for it."""


@dataclass(frozen=True)
class RestartPolicy:
    """What to do about a stage that ends badly."""

    times: int = 0
    delay: float = 2.0
    """Seconds before each new attempt."""


@dataclass(frozen=True)
class Stage:
    """One command, in a window of its own. Stages run one after the other; services go on beside those after them."""

    name: str
    """Also the name of its window and its log: small letters, digits, `-` and `_`."""
    argv: tuple[str, ...]
    cwd: str = ""
    """Folder to run in; relative to the run's folder."""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of the secrets it gets as environment variables."""
    service: bool = False
    """It runs until the stages after it are done."""
    ready: Readiness | None = None
    restart: RestartPolicy = RestartPolicy()
    max_seconds: float | None = None
    grace: float = 10.0
    """Seconds between the polite and the hard request to end."""
    stop_signal: Literal["TERM", "INT"] = "TERM"

    def __post_init__(self) -> None:
        if not _STAGE_NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name for a stage")
        if not self.argv:
            raise ValueError(f"stage {self.name} has no command")
        for name in (*self.env, *self.secrets):
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"stage {self.name}: {name!r} is no name for a variable")
        if both := set(self.env) & set(self.secrets):
            raise ValueError(f"stage {self.name}: {', '.join(sorted(both))} both written out and secret")


@dataclass(frozen=True)
class PlanPort:
    """A port that a stage listens on."""

    number: int
    what: str


@dataclass(frozen=True)
class PlanOutput:
    """A file that the run leaves behind in its folder."""

    path: str
    kind: Literal["metrics", "traces", "model", "report"]
    what: str = ""


WHEELS = "files/wheel"
"""Folder, in a run's folder, that the wheel of hudtui is put into for plans with `wheel` set."""


@dataclass(frozen=True)
class Plan:
    """Everything that a run will do on its machine."""

    engine: str
    stages: tuple[Stage, ...]
    files: tuple[PlanFile, ...] = ()
    ports: tuple[PlanPort, ...] = ()
    outputs: tuple[PlanOutput, ...] = ()
    max_seconds: float | None = None
    wheel: bool = False
    """Whoever carries it out puts a wheel of hudtui into `WHEELS`: the machine has no hudtui of its own."""
    notes: tuple[str, ...] = ()
    """What people should know before they start it, such as the memory it takes."""

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if not names or len(set(names)) < len(names):
            raise ValueError("a plan needs stages, each with a name of its own")
        if all(stage.service for stage in self.stages):
            raise ValueError("a plan of services alone would never end")
        if len({file.path for file in self.files}) < len(self.files):
            raise ValueError("two files of a plan have one path")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of all secrets that its stages need."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.secrets))

    def output(self, kind: str) -> PlanOutput | None:
        """The first output of a kind."""
        return next((output for output in self.outputs if output.kind == kind), None)

    def to_json(self) -> dict[str, Any]:
        """As plain data; `plan_from_json` reads it back."""
        return _plain(self)

    def for_machine(self, run: str, session: str, *, tmux: bool = True) -> dict[str, Any]:
        """The part that the supervisor reads."""
        return {
            "run": run,
            "session": session,
            "tmux": tmux,
            "max_seconds": self.max_seconds,
            "stages": [_plain(stage) for stage in self.stages],
        }


def plan_from_json(data: Any) -> Plan:
    """A plan from what `Plan.to_json` gave.

    Raises:
        InputError: It is not one.
    """
    return _value(data, Plan)


def spec_from_json(data: Any) -> RunSpec:
    """A spec from what `RunSpec.to_json` gave.

    Raises:
        InputError: It is not one.
    """
    return _value(data, RunSpec)


def _plain(value: object) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _value(data: Any, kind: type[T]) -> T:
    import msgspec

    try:
        return msgspec.convert(data, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise InputError(f"this is no {kind.__name__} that this version of hudtui understands", why=str(error)) from None
