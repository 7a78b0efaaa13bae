"""The settings of a run, and how those of several runs differ."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from hudtui.core.compute.hardware import size
from hudtui.core.errors import InputError
from hudtui.core.knobs import knobs_of
from hudtui.core.plain import to_plain
from hudtui.core.row_filter import Fields
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord
from hudtui.core.text import MASK, clean_line, plural
from hudtui.core.training.engines import features_of, recipe_for
from hudtui.core.training.options import JobOptions
from hudtui.core.training.package_data import resource_bytes
from hudtui.core.training.plan import JobSpec, Plan
from hudtui.core.training.recipe import RECIPE, Recipe, recipe_from, settings_taken
from hudtui.core.training.setup import environment_folder

WHAT, MODEL, TRAINER, ROLLOUTS = "what", "model", "trainer", "rollouts"
MACHINE, LIMITS, VARIABLES, VERSIONS = "machine", "limits", "variables", "versions"

_OF_EVERY_RUN = frozenset({"name", "asked", "workspace", "remarks", "continues"})
"""Fields of a spec that do not affect the work of the run. What was `asked` for stands in the other
fields, masked."""
_IN_RECIPE = frozenset(
    {"model", "steps", "learning_rate", "held_out", "max_turns", "dialect", "seed", "training"}
)
"""Fields of a spec whose values a recipe holds."""
_OF_ROLLOUTS = frozenset(
    {
        "policy",
        "base_url",
        "group",
        "concurrency",
        "limit",
        "max_turns",
        "dialect",
        "seed",
        "policy_file",
    }
)
_OF_TRAININGS = frozenset(
    {
        "model",
        "steps",
        "gpus",
        "gpu_memory",
        "shape",
        "learning_rate",
        "held_out",
        "rehearse",
        "rehearse_model",
    }
)
_GROUPS: Mapping[str, str] = {
    **dict.fromkeys(("model", "shape", "rehearse_model", "model_files"), MODEL),
    **dict.fromkeys(_OF_ROLLOUTS, ROLLOUTS),
    **dict.fromkeys(("gpus", "gpu_memory", "machine", "trainer_python", "tunnels"), MACHINE),
    **dict.fromkeys(("max_seconds", "limits", "stop_on"), LIMITS),
    **dict.fromkeys(("secrets", "variables"), VARIABLES),
    **dict.fromkeys(("training", "steps", "learning_rate", "held_out"), TRAINER),
    "versions": VERSIONS,
}
"""Group of a setting by the first part of its name; `WHAT` for all others."""
_ORDER = (WHAT, MODEL, TRAINER, ROLLOUTS, MACHINE, LIMITS, VARIABLES, VERSIONS)
_PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "vllm",
    "verifiers",
    "openpipe-art",
    "unsloth",
)
"""Packages whose versions are shown, where the plan installs them from a lock."""
_PIN = re.compile(rf"^({'|'.join(_PACKAGES)})==([^\s;\\]+)", re.MULTILINE)
_SHOWN_KINDS = ("url", "flag", "seconds", "limit")
"""Kinds of hudtui's own settings without a secret, apart from a login in an address. Other
variables may contain anything."""


@dataclass(frozen=True)
class RunSetting:
    """A setting of a run."""

    name: str
    """Dotted name, such as `training.learning_rate`."""
    group: str
    value: Any = field(repr=False)
    """The value for comparisons with other runs; it may contain a secret."""
    shown: Any
    """The value as it may be shown; None where the run leaves it to the engine."""
    default: Any = None
    """The default for a run of this kind; None without a default."""
    changed: bool = False
    """True if the value differs from the default."""
    about: str = ""

    @property
    def label(self) -> str:
        """The name inside its group."""
        head, _, rest = self.name.partition(".")
        return rest if rest and head in ("training", *_ORDER) else self.name

    @property
    def text(self) -> str:
        return value_text(self.shown, self.name)

    @property
    def default_text(self) -> str:
        return value_text(self.default, self.name)

    @property
    def told(self) -> str:
        """The value as text, followed by the default if it differs."""
        return f"{self.text} (default {self.default_text})" if self.changed else self.text

    def to_json(self) -> dict[str, Any]:
        told = {
            "name": self.name,
            "group": self.group,
            "value": self.shown,
            "default": self.default,
            "changed": self.changed,
        }
        return told | {"about": self.about}


SETTING_FIELDS: Fields[RunSetting] = {
    "setting": lambda one: one.name,
    "group": lambda one: one.group,
    "value": lambda one: (
        one.shown
        if isinstance(one.shown, int | float) and not isinstance(one.shown, bool)
        else one.text
    ),
    "default": lambda one: one.default_text,
    "changed": lambda one: "yes" if one.changed else "no",
    "about": lambda one: one.about,
}
"""The fields by which settings can be filtered."""


def settings_of(record: RunRecord) -> tuple[RunSetting, ...]:
    """Return the planned settings of a run, by group. Later changes are not included.

    For a training, all settings of its trainer are included. Secrets, and variables that may
    contain one, have no value.
    """
    told = (one for one in _settings(record) if one.about or one.value not in (None, (), [], {}))
    return tuple(sorted(told, key=lambda one: _ORDER.index(one.group)))


def _settings(record: RunRecord) -> Iterator[RunSetting]:
    spec = record.spec
    plays = not features_of(spec.engine).trains
    recipe = None if plays else _recipe(record)
    left = set(_OF_EVERY_RUN)
    if plays:
        left |= _OF_TRAININGS
    elif recipe is not None:
        left |= _OF_ROLLOUTS | _IN_RECIPE
    if not spec.gpus:
        left.add("gpu_memory")
    about = {name: one.help for name, one in knobs_of(JobOptions).items()}
    defaults: dict[str, Any] = {}
    if plays:
        defaults = {
            option.name: option.default
            for option in fields(JobOptions)
            if option.default is not None
        }
    plain = to_plain(spec)
    for key, value in plain.items():
        if (
            key in left
            or (key == "limits" and spec.rent is None)
            or (key in ("rehearse", "rehearse_model") and not value)
        ):
            continue
        if key == "rent":
            yield from (_setting(name, found) for name, found in _machine(record))
        elif key == "variables":
            yield from (
                _setting(f"{key}.{name}", text, shown_variable(name, text))
                for name, text in spec.variables.items()
            )
        elif key == "model_files":
            yield _setting(key, value, plural(len(value), "file") if value else None)
        elif key == "base_url" and isinstance(value, str):
            yield _setting(key, value, shown_address(value), about=about[key])
        elif isinstance(value, Mapping):
            yield from (
                _setting(name, found)
                for name, found in _flat(value, key)
                if name != "limits.warn_at"
            )
        else:
            yield _setting(key, value, value, defaults.get(key), about.get(key, ""))
    if recipe is not None:
        yield from _trainer(recipe, spec)
    yield from (_setting(f"versions.{name}", version) for name, version in _versions(record.plan))


def _setting(
    name: str, value: Any, shown: Any = ..., default: Any = None, about: str = ""
) -> RunSetting:
    shown = value if shown is ... else shown
    changed = default is not None and value is not None and value != default
    return RunSetting(
        name, _GROUPS.get(name.partition(".")[0], WHAT), value, shown, default, changed, about
    )


def _machine(record: RunRecord) -> Iterator[tuple[str, Any]]:
    """Yield the settings of the machine.

    For a rented machine, only those that determine speed and price.
    """
    rent = record.spec.rent
    if rent is None:
        yield "machine.host", record.host
        return
    offer = rent.offer
    yield "machine.provider", offer.provider
    yield "machine.gpus", f"{offer.gpu_count}x{offer.gpu_type}"
    yield "machine.cloud", offer.cloud
    yield "machine.spot", offer.spot
    yield "machine.hourly", offer.price.hourly


def _recipe(record: RunRecord) -> Recipe | None:
    """Return the trainer's settings in the plan; None if this version cannot read them."""
    try:
        text = next((file.content for file in record.plan.files if file.path == RECIPE), None)
        return recipe_for(record.spec) if text is None else recipe_from(json.loads(text))
    except (InputError, ValueError):
        return None


def _trainer(recipe: Recipe, spec: RunSpec) -> Iterator[RunSetting]:
    plain = JobSpec(spec.engine, "", "", rehearse=spec.rehearse, rehearse_model=spec.rehearse_model)
    usual, knobs = recipe_for(plain), knobs_of(Recipe)
    # The default of the learning rate depends on the model.
    before = replace(usual, model=recipe.model).rate
    values = to_plain(replace(recipe, learning_rate=recipe.rate))
    defaults = to_plain(replace(usual, learning_rate=before))
    taken = settings_taken(features_of(spec.engine))
    for name, value in values.items():
        if name not in taken:
            continue
        about = knobs[name].help if name in knobs else ""
        one = _setting(
            "model" if name == "model" else f"training.{name}", value, value, defaults[name], about
        )
        yield replace(one, changed=value != defaults[name])


@cache
def _pins(lock: str) -> tuple[tuple[str, str], ...]:
    return tuple(_PIN.findall(resource_bytes(f"requirements/{lock}.txt").decode()))


def _versions(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the versions in the lock that the plan installs.

    Nothing if this version of hudtui has another lock.
    """
    for stage in plan.stages:
        if "--venv" not in stage.argv[:-1]:
            continue
        folder = PurePosixPath(stage.argv[stage.argv.index("--venv") + 1])
        lock = folder.name.rpartition("-")[0]
        if any(file.resource == f"requirements/{lock}.txt" for file in plan.files):
            if environment_folder("", lock).lstrip("/") == folder.name:
                yield from _pins(lock)
            return


def shown_variable(name: str, value: str) -> str:
    """Return the value of a variable as it may be shown.

    Masked, unless it is one of hudtui's settings that hold no secret.
    """
    return shown_address(value) if _kinds().get(name) in _SHOWN_KINDS else MASK


@cache
def _kinds() -> Mapping[str, str]:
    from hudtui.core.platform import BUILT_IN
    from hudtui.core.settings import known_settings

    return {key.name: key.kind for platform in BUILT_IN for key in known_settings(platform)}


def shown_address(value: str) -> str:
    """Return an address with the login and the secret fields in it masked."""
    from hudtui.core.masking import mask_url, without_login

    return without_login(mask_url(value))


def _flat(data: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _flat(value, f"{name}.{key}")
    else:
        yield name, data


@dataclass(frozen=True)
class Difference:
    """A setting that is not the same in all runs."""

    field: str
    """Its name, such as `training.learning_rate`."""
    values: tuple[Any, ...]
    """The value in each run as it may be shown, in the order of the runs; None where a run leaves
    it to the engine."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The values as texts. Sizes that look the same with units are in bytes."""
        told, exact = (
            [value_text(value, self.field) for value in self.values],
            [value_text(value) for value in self.values],
        )
        return tuple(told if len(set(told)) == len(set(exact)) else exact)


def differences(records: Sequence[RunRecord]) -> tuple[Difference, ...]:
    """Return the settings in which runs differ, in the order of `settings_of`.

    A file counts as different if its content is (`sha256`), wherever it lies.
    """
    of_runs = [{one.name: one for one in settings_of(record)} for record in records]
    names = list(dict.fromkeys(name for settings in of_runs for name in settings))
    found = []
    for name in names:
        values = _all(of_runs, name, lambda one: one.value)
        if any(value != values[0] for value in values[1:]):
            found.append(Difference(name, _all(of_runs, name, lambda one: one.shown)))
    changed = {one.field.rpartition(".")[0] for one in found if one.field.endswith(".sha256")}
    return tuple(one for one in found if not _same_file(one.field, of_runs[0], changed))


def _all(
    of_runs: Iterable[Mapping[str, RunSetting]], name: str, value: Callable[[RunSetting], Any]
) -> tuple[Any, ...]:
    return tuple(
        None if (one := settings.get(name)) is None else value(one) for settings in of_runs
    )


def _same_file(name: str, settings: Mapping[str, RunSetting], changed: set[str]) -> bool:
    """Return True if a setting is the path or size of a file with the same content in all runs."""
    owner, _, part = name.rpartition(".")
    return part in ("path", "size") and f"{owner}.sha256" in settings and owner not in changed


def value_text(value: Any, name: str = "") -> str:
    """Return the value of a setting as text; a dash where the run leaves it to the engine.

    Digests are cut.
    The name of the setting tells sizes, which have units: `2.0 KiB`.
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return (
            value[:12]
            if len(value) == 64 and set(value) <= set("0123456789abcdef")
            else clean_line(value)
        )
    if name.endswith(".size") and isinstance(value, int):
        return size(value)
    if name == "gpu_memory" and isinstance(value, int | float):
        return size(int(value * 2**30))
    return clean_line(json.dumps(value))
