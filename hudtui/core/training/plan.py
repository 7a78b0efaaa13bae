"""A run as data: a `JobSpec` says what to do, a `Plan` which files and commands that takes.

Both are frozen, convert to JSON and back, and hold no secrets, only the names of the secrets that a
stage needs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from hudtui.core.errors import InputError, Location
from hudtui.core.paths import typed_path
from hudtui.core.plain import to_plain
from hudtui.core.training.options import JobOptions
from hudtui.core.training.package_data import resource_bytes
from hudtui.core.training.shape import ModelShape

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
    place = typed_path(path).absolute()
    digest, size = hashlib.sha256(), 0
    try:
        with open(place, "rb") as stream:
            for block in iter(partial(stream.read, 1024 * 1024), b""):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise InputError(
            "this file cannot be read", why=error.strerror or str(error), where=Location(str(path))
        ) from None
    return FileRef(str(place), size, digest.hexdigest())


@dataclass(frozen=True)
class JobSpec(JobOptions):
    """A run as an engine plans it: what to do, without where it runs and what it may cost."""

    engine: str
    """Name of the engine, e.g. `rollouts`."""
    name: str
    """Chosen by the user; not necessarily unique."""
    workspace: str
    """Absolute path of the project folder."""
    tasks: FileRef | None = None
    config: FileRef | None = None
    policy_file: FileRef | None = None
    """The trace behind `replay:`."""
    reward_file: FileRef | None = None
    """The file behind `rubric.reward` of the configuration; it lies in the configuration's folder,
    or below."""
    reward_modules: tuple[FileRef, ...] = ()
    """The modules beside that file that it imports."""
    templates: tuple[PlanFile, ...] = ()
    """The templates of the episodes' folders, where the run's machine does not have the project."""
    model_files: tuple[FileRef, ...] = ()
    """The files of the model, where it is a folder of this computer and the run's machine is
    another one."""
    max_seconds: float | None = None
    """Time after which the run is stopped."""
    platform: str | None = None
    secrets: tuple[str, ...] = ()
    """Names of the secret settings that travel to the machine."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Other settings that travel to the machine, with their values."""
    gpus: int = 2
    """GPUs of each machine that this run uses."""
    nodes: int = 1
    """Machines that carry it out together."""
    gpu_memory: float = 80.0
    """Memory of each GPU in GiB."""
    shape: ModelShape | None = None
    """The size of the model; None: as its name tells."""
    learning_rate: float | None = None
    held_out: int | None = None
    """Tasks kept out of the training for evaluation."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the trainer, by the names of `recipe.Recipe`. The fields of this spec take
    precedence."""
    trainer_python: str | None = None
    """Python on the machine with everything the run needs; None: the plan makes an environment."""
    continues: Continuation | None = None
    """The earlier run that this run continues."""


def input_files(spec: JobSpec) -> tuple[PlanFile, ...]:
    """The task file, the configuration, and the code of its own reward at the same place beside it.

    Raises:
        InputError: The run has no task file, or no configuration.
    """
    if spec.tasks is None:
        raise InputError("this run needs a task file", fix="Name one.")
    if spec.config is None:
        raise InputError(
            "this run needs a config",
            fix="Name one (--config FILE), or generate it: hudtui rl init SOURCE.",
        )
    folder = PurePosixPath(spec.config.path).parent
    code = (spec.reward_file, *spec.reward_modules) if spec.reward_file is not None else ()
    return (
        PlanFile(f"files/tasks/{spec.tasks.name}", spec.tasks),
        PlanFile(f"files/config/{spec.config.name}", spec.config),
        *(
            PlanFile(f"files/config/{PurePosixPath(file.path).relative_to(folder)}", file)
            for file in code
        ),
        *spec.templates,
    )


@dataclass(frozen=True)
class Site:
    """The place where a plan will be carried out: all that an engine needs to know of it."""

    folder: str
    """The run's folder there; relative to the home folder, or absolute."""
    python: tuple[str, ...]
    """Command that runs Python with hudtui in it."""
    workspace: str | None = None
    """The project folder, where it exists there too: stages run in it, so that the tasks' relative
    paths hold."""
    environments: str = "../../environments"
    """Folder of the Python environments that outlive a run, as its stages spell it: from the run's
    folder, or absolute."""
    package: str | None = None
    """Folder of the hudtui package, where it exists there too; None: a wheel of it is put into the
    run's folder."""

    def at(self, node: int) -> Site:
        """The place of a node of the run."""
        return replace(self, folder=node_folder(self.folder, node))

    def path(self, relative: str) -> str:
        """A path in the run's folder, as a stage must spell it.

        Relative where stages run in that folder.
        """
        return str(PurePosixPath(self.folder, relative)) if self.workspace else relative


def node_folder(folder: str, node: int) -> str:
    """Return the folder of a node of a run, whose node 0 has `folder`.

    Each has a name of its own: nodes may share a disk.
    """
    return f"{folder}.node-{node}" if node else folder


@dataclass(frozen=True)
class PlanFile:
    """A file to put into the run's folder: a copy of the user's, or text made by the plan."""

    path: str
    """Relative to the run's folder."""
    source: FileRef | None = None
    content: str | None = None
    resource: str | None = None
    """Name of a file that comes with hudtui; see `package_data`."""

    @property
    def size(self) -> int:
        """Bytes."""
        return self.source.size if self.source else len(self.text)

    @property
    def text(self) -> bytes:
        """Content, unless it is a file of the user's."""
        return resource_bytes(self.resource) if self.resource else (self.content or "").encode()

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.path).parts
        if not parts or self.path.startswith("/") or ".." in parts:
            raise ValueError(f"{self.path!r} is not a path inside the run's folder")
        if sum(given is not None for given in (self.source, self.content, self.resource)) != 1:
            raise ValueError(f"{self.path}: either a source, a content or a resource")


@dataclass(frozen=True)
class Continuation:
    """Files and settings of an earlier run that a run continues."""

    run: str
    """Id of the earlier run."""
    step: int | None = None
    """Step of the checkpoint that a training continues from; None for rollouts."""
    files: tuple[PlanFile, ...] = ()
    """The checkpoint and the records of the earlier run, at the paths that they get in the new
    run's folder."""

    @property
    def text(self) -> str:
        """Say what is continued, in a few words."""
        return f"continues run {self.run}" + (
            "" if self.step is None else f" from its checkpoint of step {self.step}"
        )


@dataclass(frozen=True)
class Readiness:
    """Sign that a service can be used: it listens, or a file appears."""

    port: int | None = None
    path: str | None = None
    """Relative to the run's folder."""
    timeout: float = 600.0
    """Seconds to wait for it."""


@dataclass(frozen=True)
class RestartPolicy:
    """Rule for a stage that ends badly: status 2, as of an `InputError`, is final."""

    times: int = 0
    delay: float = 2.0
    """Seconds before each new attempt."""


@dataclass(frozen=True)
class Stage:
    """One command, in a window of its own.

    Stages run one after the other; services run on beside those after them.
    """

    name: str
    """Also the name of its window and its log: small letters, digits, `-` and `_`; not `all`, which
    names all logs as one."""
    argv: tuple[str, ...]
    cwd: str = ""
    """Folder to run in; relative to the run's folder."""
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of the secrets it gets as environment variables."""
    service: bool = False
    """True if it runs until the stages after it are done."""
    ready: Readiness | None = None
    restart: RestartPolicy = RestartPolicy()
    max_seconds: float | None = None
    grace: float = 10.0
    """Seconds between the polite and the hard request to end."""
    stop_signal: Literal["TERM", "INT"] = "TERM"
    node: int = 0
    """The node of the run that it runs on."""

    def __post_init__(self) -> None:
        if not _STAGE_NAME.fullmatch(self.name) or self.name == "all":
            raise ValueError(f"{self.name!r} is not a name for a stage")
        if not self.argv:
            raise ValueError(f"stage {self.name} has no command")
        for name in (*self.env, *self.secrets):
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"stage {self.name}: {name!r} is not a name for a variable")
        if both := set(self.env) & set(self.secrets):
            raise ValueError(
                f"stage {self.name}: {', '.join(sorted(both))} both written out and secret"
            )


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
    """Files that each node gets."""
    ports: tuple[PlanPort, ...] = ()
    outputs: tuple[PlanOutput, ...] = ()
    max_seconds: float | None = None
    wheel: bool = False
    """Whoever carries it out puts a wheel of hudtui into `WHEELS`: the machine has no hudtui of its
    own."""
    notes: tuple[str, ...] = ()
    """Remarks for the user before the start, such as the memory it takes."""

    def __post_init__(self) -> None:
        names = [stage.name for stage in self.stages]
        if not names or len(set(names)) < len(names):
            raise ValueError("a plan needs stages, each with a name of its own")
        if any(self._only_serves(node) for node in range(self.nodes)):
            raise ValueError("a plan of services alone would never end")
        if len({file.path for file in self.files}) < len(self.files):
            raise ValueError("two files of a plan have one path")

    def _only_serves(self, node: int) -> bool:
        return all(stage.service for stage in self.stages if stage.node == node)

    @property
    def nodes(self) -> int:
        """Number of machines that carry it out together."""
        return 1 + max(stage.node for stage in self.stages)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Names of all secrets that its stages need."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.secrets))

    def output(self, kind: str) -> PlanOutput | None:
        """The first output of a kind."""
        return next((output for output in self.outputs if output.kind == kind), None)

    def for_machine(
        self, run: str, session: str, *, tmux: bool = True, node: int = 0
    ) -> dict[str, Any]:
        """The part that the supervisor of a node reads."""
        stages = [stage for stage in self.stages if stage.node == node]
        return {
            "run": run,
            "session": session,
            "tmux": tmux,
            "max_seconds": self.max_seconds,
            "stages": [to_plain(stage, without=("node",)) for stage in stages],
        }
