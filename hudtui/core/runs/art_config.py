"""The `config.yaml` of a training with ART.

Environments, settings of the training for each of them, resources, monitoring.
    environments:
      my_env:
        mcp_config:
          local: {command: docker, args: [run, --rm, -i, my-mcp-server]}
        dataset: tasks.json
        max_turns: 15
    training:
      default: {learning_rate: 1e-5, rollouts_per_group: 4}
      my_env: {num_training_scenarios: 24}

A value of the command line precedes that of the environment's block, which precedes `default`,
which precedes what is built in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args

from hudtui.core.environment.servers import parse_mcp_config
from hudtui.core.errors import InputError, Location, SourceError
from hudtui.core.files import read_text
from hudtui.core.knobs import kinds_of, knobs_of
from hudtui.core.runs.art_request import ArtRequest
from hudtui.core.text import did_you_mean
from hudtui.core.training.recipe import LOG_LEVELS, check_project
from hudtui.core.yaml_doc import YamlDocument, YamlPath, load_yaml

DATASETS: Mapping[str, str] = {
    "2048": "hud-evals/2048-taskset",
    "browser": "hud-evals/SheetBench-50",
    "gmail": "hud-evals/gmail-taskset",
}
"""The environments that are built in, and their tasks on the Hub."""
BASE_MODELS: Mapping[str, str] = {
    "small": "Qwen/Qwen2.5-3B-Instruct",
    "medium": "Qwen/Qwen2.5-7B-Instruct",
    "large": "Qwen/Qwen2.5-14B-Instruct",
}
"""Names for models by their size."""

_KEYS: Mapping[YamlPath, Collection[str] | None] = {
    (): ("environments", "training", "scenarios", "resources", "monitoring"),
    ("environments",): None,
    ("training",): None,
    ("resources",): ("gpu_memory_utilization", "enforce_eager", "backend", "skypilot"),
    ("resources", "backend"): ("type", "in_process", "output_dir"),
    ("resources", "skypilot"): ("cluster_name", "gpu", "spot"),
    ("monitoring",): ("wandb", "log_level", "save_checkpoints_every", "validate_every"),
    ("monitoring", "wandb"): ("enabled", "project"),
}
"""The mappings of the file, and the keys of each; None: names that the user chooses."""
_ENVIRONMENT = ("mcp_config", "description", "max_turns", "dataset", "split", "gym", "reward")
_COMMAND, _ADDRESS = ("command", "args", "env", "cwd"), ("url", "headers", "transport", "type")
_BLOCK: Mapping[str, str] = {
    "base_model": "model",
    "learning_rate": "learning_rate",
    "rollouts_per_group": "num_generations",
    "groups_per_step": "groups_per_step",
    "num_epochs": "epochs",
    "max_seq_length": "max_seq_len",
    "num_training_scenarios": "scenarios",
    "num_val_scenarios": "val_scenarios",
    "steps": "steps",
    "max_turns": "max_turns",
    "ruler": "ruler",
}
"""Keys of a block of `training`, and the options of `ArtRequest` that they set: these have the
types and bounds."""


@dataclass(frozen=True)
class ArtEnvironment:
    """An environment of the file."""

    name: str
    mcp_config: Mapping[str, Any] | None = None
    """Servers by name; None: those that the tasks name."""
    description: str = ""
    max_turns: int | None = None
    dataset: str | None = None
    """Its tasks: a file or folder, or a dataset on the Hub."""
    split: str | None = None
    gym: str | None = None
    """A gym configuration whose actions are the model's tools; None: the tools of the environment
    themselves."""
    reward: str | None = None


@dataclass(frozen=True)
class ArtConfig:
    """The whole file. An empty one is that of a training without `--config`."""

    environments: Mapping[str, ArtEnvironment] = field(default_factory=dict)
    default: Mapping[str, Any] = field(default_factory=dict)
    """Settings of every training, by the names of options; see `_BLOCK`."""
    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings of the trainings of one environment."""
    base_models: Mapping[str, str] = field(default_factory=lambda: dict(BASE_MODELS))
    targets: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Of each environment, the targets of the tasks that are taken; tasks without a target are
    always taken."""
    gpu_memory_utilization: float | None = None
    enforce_eager: bool | None = None
    backend: Literal["local", "skypilot"] = "local"
    output_dir: str | None = None
    cluster_name: str | None = None
    gpu: str | None = None
    spot: bool | None = None
    wandb: bool | None = None
    wandb_project: str | None = None
    log_level: str | None = None
    save_every: int | None = None
    eval_every: int | None = None
    name: str = ""
    """The file, for messages."""
    remarks: tuple[str, ...] = ()
    """What of the file has no effect, and why."""
    document: YamlDocument | None = field(default=None, repr=False, compare=False)
    """The file itself, for the places in it."""

    def place(self, *path: str) -> Location:
        """The place of a value in the file, or of its nearest ancestor that exists."""
        return Location(self.name) if self.document is None else self.document.location(path)

    def environment(self, name: str) -> ArtEnvironment:
        """Return an environment of the file, or a built-in environment.

        Raises:
            InputError: It does not exist.
        """
        if name in self.environments:
            return self.environments[name]
        if name in DATASETS:
            return ArtEnvironment(name)
        known = tuple(dict.fromkeys((*DATASETS, *self.environments)))
        near = did_you_mean(name, known)
        raise InputError(
            f"Unknown environment: {name}",
            why=f"Available environments: {', '.join(known)}.",
            fix=f"Did you mean {near}?"
            if near
            else (
                "Describe it in a file: environments.NAME with mcp_config and dataset; --config "
                "FILE."
            ),
        )

    def setting(self, environment: str, name: str) -> Any:
        """A setting of the trainings of an environment.

        Of its own block, else of `default`; None if the file has none.
        """
        own = self.blocks.get(environment, {})
        return own[name] if name in own else self.default.get(name)


def read_art_config(path: Path, *, name: str | None = None) -> ArtConfig:
    """Read the file.

    Errors call it `name`; by default its path.

    Raises:
        InputError: It cannot be read, has an unknown key, or a value of a wrong type; the error
            names file, line and key.
    """
    return parse_art_config(read_text(path), name=name or str(path))


def parse_art_config(text: str, *, name: str) -> ArtConfig:
    """Read the text of the file; see `read_art_config`."""
    return _ConfigReader(load_yaml(text, name=name)).config(name)


class _ConfigReader:
    """Reads one document, and refuses the first thing in it that is wrong.

    Values are named by their paths. msgspec would check their types, but its errors name no key
    of a mapping, and so no line of the file.
    """

    def __init__(self, document: YamlDocument) -> None:
        self._document = document
        self._options, self._kinds = knobs_of(ArtRequest), kinds_of(ArtRequest)

    def config(self, name: str) -> ArtConfig:
        for path, keys in _KEYS.items():
            self._mapping(path, keys)
        kind = self._text("resources", "backend", "type") or "local"
        if kind not in ("local", "skypilot"):
            raise self._error(
                ("resources", "backend", "type"),
                f"{kind!r} is no backend",
                "It is local, or skypilot.",
            )
        share = self._number("resources", "gpu_memory_utilization")
        least = self._options["gpu_memory_utilization"].minimum or 0
        if share is not None and share < least:
            raise self._error(
                ("resources", "gpu_memory_utilization"),
                f"{share:g} is too small a share of a GPU",
                f"From {least:g} to 1.",
            )
        level = self._text("monitoring", "log_level")
        if level is not None and level.upper() not in LOG_LEVELS:
            raise self._error(
                ("monitoring", "log_level"),
                f"{level!r} is no level",
                f"Levels: {', '.join(LOG_LEVELS)}.",
            )
        project = self._text("monitoring", "wandb", "project")
        if project is not None:
            try:
                check_project(project)
            except InputError as error:
                raise self._error(
                    ("monitoring", "wandb", "project"), error.what, error.fix
                ) from None
        remarks = []
        if self._flag("resources", "backend", "in_process") is False:
            remarks.append(
                "resources.backend.in_process: false has no effect: on one GPU the trainer always "
                "runs in its process"
            )
        models = {
            key: self._text("training", "base_models", key, required=True)
            for key in self._mapping(("training", "base_models"))
        }
        blocks = {
            key: self._block(("training", key))
            for key in self._mapping(("training",))
            if key not in ("base_models", "default")
        }
        environments = self._mapping(("environments",))
        known = {*DATASETS, *environments}
        for key in blocks:
            if key not in known:
                raise self._unknown(
                    ("training", key), key, (*known, "default", "base_models"), "training"
                )
        return ArtConfig(
            environments={key: self._environment(key) for key in environments},
            default=self._block(("training", "default")),
            blocks=blocks,
            base_models={**BASE_MODELS, **models},
            targets=self._targets(known),
            gpu_memory_utilization=share,
            enforce_eager=self._flag("resources", "enforce_eager"),
            backend="skypilot" if kind == "skypilot" else "local",
            output_dir=self._text("resources", "backend", "output_dir"),
            cluster_name=self._text("resources", "skypilot", "cluster_name"),
            gpu=self._text("resources", "skypilot", "gpu"),
            spot=self._flag("resources", "skypilot", "spot"),
            wandb=self._flag("monitoring", "wandb", "enabled"),
            wandb_project=project,
            log_level=None if level is None else level.upper(),
            save_every=self._count("monitoring", "save_checkpoints_every"),
            eval_every=self._count("monitoring", "validate_every"),
            name=name,
            remarks=tuple(remarks),
            document=self._document,
        )

    def _environment(self, name: str) -> ArtEnvironment:
        path: YamlPath = ("environments", name)
        self._mapping(path, _ENVIRONMENT)
        return ArtEnvironment(
            name,
            mcp_config=self._servers((*path, "mcp_config")),
            description=self._text(*path, "description") or "",
            max_turns=self._count(*path, "max_turns"),
            dataset=self._text(*path, "dataset"),
            split=self._text(*path, "split"),
            gym=self._text(*path, "gym"),
            reward=self._text(*path, "reward"),
        )

    def _servers(self, path: YamlPath) -> dict[str, Any] | None:
        if self._value(path) is None:
            return None
        given = self._mapping(path)
        try:
            specs = parse_mcp_config(given, self._document.name)
        except SourceError as error:
            field_path = (error.where.field or "").split(".") if error.where is not None else ()
            raise self._error((*path, *filter(None, field_path)), error.what, error.fix) from None
        for server, entry in given.items():
            if isinstance(entry, dict):
                kinds = (("command", _COMMAND), ("url", _ADDRESS))
                known = [name for kind, names in kinds if kind in entry for name in names]
                self._mapping((*path, server), tuple(known))
        return {spec.name: spec.to_config() for spec in specs}

    def _block(self, path: YamlPath) -> dict[str, Any]:
        options: dict[str, Any] = {}
        for key in self._mapping(path, tuple(_BLOCK)):
            option = _BLOCK[key]
            kinds = get_args(self._kinds[option])
            if int in kinds:
                value = self._count(*path, key, least=int(self._options[option].minimum or 0))
            else:
                value = self._number(*path, key) if float in kinds else self._text(*path, key)
            if value is not None:
                options[option] = value
        return options

    def _targets(self, environments: Collection[str]) -> dict[str, tuple[Any, ...]]:
        known = [f"{name}_targets" for name in environments]
        targets: dict[str, tuple[Any, ...]] = {}
        for key, value in self._mapping(("scenarios",)).items():
            path = ("scenarios", key)
            if key not in known:
                raise self._unknown(path, key, known, "scenarios")
            if not isinstance(value, list) or not value:
                raise self._error(path, f"{key} is a list of targets", None)
            targets[key.removesuffix("_targets")] = tuple(value)
        return targets

    # --- values -----------------------------------------------------------------------------------

    def _value(self, path: YamlPath) -> Any:
        """The value of a path whose mappings have been checked.

        None if the file does not have it.
        """
        value = self._document.data
        for key in path:
            value = None if value is None else value.get(key)
        return value

    def _mapping(self, path: YamlPath, known: Collection[str] | None = None) -> Mapping[str, Any]:
        value = self._value(path)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(
                path, f"{path[-1] if path else 'this file'} is a mapping of names to values", None
            )
        if known is not None:
            for key in value:
                if key not in known:
                    raise self._unknown(
                        (*path, key),
                        key,
                        known,
                        str(path[-1]) if path else "a configuration of ART",
                    )
        return value

    def _text(self, *path: str | int, required: bool = False) -> Any:
        return self._checked(
            path,
            lambda value: isinstance(value, str) and bool(value.strip()),
            "text",
            required=required,
        )

    def _flag(self, *path: str | int) -> Any:
        return self._checked(path, lambda value: isinstance(value, bool), "true or false")

    def _number(self, *path: str | int) -> float | None:
        what = "a number above 0 and at most 1"
        value = self._checked(
            path, lambda value: _is_number(value, int | float) and 0 < value <= 1, what
        )
        return None if value is None else float(value)

    def _count(self, *path: str | int, least: int = 1) -> Any:
        return self._checked(
            path,
            lambda value: _is_number(value, int) and value >= least,
            f"a whole number of {least} or more",
        )

    def _checked(
        self, path: YamlPath, right: Callable[[Any], bool], what: str, *, required: bool = False
    ) -> Any:
        value = self._value(path)
        if (required or value is not None) and not right(value):
            raise self._error(path, f"{path[-1]} is {what}, not {value!r}", None)
        return value

    def _error(self, path: YamlPath, what: str, fix: str | None) -> InputError:
        return InputError(what, fix=fix, where=self._document.location(path))

    def _unknown(self, path: YamlPath, key: str, known: Collection[str], what: str) -> InputError:
        near = did_you_mean(str(key), known)
        fix = f"Did you mean {near}?" if near else f"Keys: {', '.join(sorted(known))}."
        return self._error(path, f"{what} has no key {key!r}", fix)


def _is_number(value: object, kind: type | UnionType) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)
