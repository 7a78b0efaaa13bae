"""Completions of a shell beyond commands and options.

Runs, machines, offers, files of the project, and words of an option. Only files are read:
completion starts no environment, asks no machine and no provider, and writes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from hudtui.core.text import clean_line

_SAFE = re.compile(r"[\w.@/+=,-][\w.@:/+=,-]*", re.ASCII)
"""A shell puts a value into the command line as it is: what it would expand or split is not
offered."""
_UNSAFE_HELP = re.compile(r"[^\w .,:%/@+<>=-]", re.ASCII)
_MOST = 300
"""Most values that are offered."""


@dataclass(frozen=True)
class Value:
    """One value that a shell may offer. The attributes are those that Typer expects."""

    value: str
    help: str = ""
    type: str = "plain"


Values = Iterable[Value | str]
Source = Callable[[Any], Values]
"""Gives the values of a parameter for the context of a command line that is not complete."""


def attach(context: Any, parameters: Iterable[Any]) -> None:
    """Have parameters complete their values from the project.

    Args:
        context: The context of the command. Its options so far are parsed; `-C` among them has
            changed the folder already.
        parameters: Parameters of the command. Those that nothing is known for are left as they are.
    """
    group = context.parent.info_name if context.parent is not None else ""
    for parameter in parameters:
        names = [name for name in parameter.opts if name.startswith("--")] or [str(parameter.name)]
        keys = [
            f"{before}{name}"
            for before in (f"{context.info_name} ", f"{group} ", "")
            for name in names
        ]
        source = next((_SOURCES[key] for key in keys if key in _SOURCES), None)
        if source is not None:
            parameter.shell_complete = partial(_complete, source)


def _complete(source: Source, context: Any, incomplete: str) -> list[Value]:
    found: dict[str, Value] = {}
    try:
        for item in source(context):
            one = item if isinstance(item, Value) else Value(item)
            if one.value.startswith(incomplete) and _SAFE.fullmatch(one.value):
                found.setdefault(
                    one.value, Value(one.value, _UNSAFE_HELP.sub(" ", clean_line(one.help, 60)))
                )
            if len(found) >= _MOST:
                break
    # an error message amid a command line would only be in the way, whatever is wrong with the
    # project
    except Exception:
        return []
    return list(found.values())


def _words(*words: str) -> Source:
    return lambda context: words


def _store() -> Any:
    from hudtui.core.runs.store import RunStore
    from hudtui.core.workspace import STATE_FOLDER

    return RunStore(Path.cwd() / STATE_FOLDER, patience=0.2)


def _runs(context: Any) -> Iterator[Value]:
    runs = _store().runs()[::-1]
    for run in runs:
        yield Value(run.id, f"{run.name}, {run.state}")
    for run in runs:
        yield Value(run.name, f"{run.id}, {run.state}")


def _active_runs(context: Any) -> Iterator[Value]:
    for run in _store().runs()[::-1]:
        if run.active or run.holds_machine:
            yield Value(run.id, f"{run.name}, {run.state}")


def _stages(context: Any) -> Iterator[str]:
    store = _store()
    for stage in store.record(store.find(context.params.get("run"))).plan.stages:
        yield stage.name


def _models(context: Any) -> Iterator[str]:
    from hudtui.core.training.recipe import Recipe

    yield Recipe().model
    for spec in _store().specs().values():
        if spec.model:
            yield spec.model


def _files(kind: str) -> Source:
    """The files of the workspace of a kind: `configs`, `art_configs` or `task_files`."""

    def found(context: Any) -> Iterator[str]:
        from hudtui.core.workspace import open_workspace

        place = open_workspace(Path.cwd())
        return map(place.relative, getattr(place, kind))

    return found


def _named(module: str, name: str) -> Source:
    """The words of a constant of the core, which is imported when it is needed."""
    return lambda context: tuple(getattr(import_module(f"hudtui.core.{module}"), name))


def _art_environments(context: Any) -> Iterator[Value]:
    from hudtui.core.runs.art_config import DATASETS, ArtConfig, read_art_config

    file = context.params.get("art_config")
    config = ArtConfig() if file is None else read_art_config(Path(file))
    for name, one in config.environments.items():
        yield Value(name, one.description)
    for name, dataset in DATASETS.items():
        yield Value(name, dataset)


def _base_models(context: Any) -> Iterator[Value | str]:
    from hudtui.core.runs.art_config import BASE_MODELS

    for name, model in BASE_MODELS.items():
        yield Value(name, model)
    yield from _models(context)


def _sources(context: Any) -> Iterator[Value]:
    from hudtui.core.environment.bundled import BUNDLED
    from hudtui.core.workspace import open_workspace

    for one in BUNDLED:
        yield Value(one.name, one.description)
    lock = open_workspace(Path.cwd()).lock
    if lock is not None:
        yield Value(lock.name, "the project's lock file")


def _tool_call(context: Any) -> Iterator[Value]:
    from hudtui.cli.sources import read_source
    from hudtui.core.environment.cache import load_analysis

    words = context.params.get("words") or ()
    if not words:
        yield from _sources(context)
    elif len(words) == 1 and (analysis := load_analysis(read_source(words[0]))) is not None:
        for tool in analysis.tools:
            yield Value(tool.name, tool.description or "")


def _pods(context: Any) -> Iterator[Value]:
    from hudtui.core.compute.pods import Ledger

    for one in Ledger(patience=0.2).records():
        yield Value(one.name, f"{one.provider}, {one.state}")


def _cached_offers() -> Any:
    from hudtui.core.compute.market import cached_offers
    from hudtui.core.paths import app_paths

    return cached_offers(app_paths().cache / "offers.json")


def _offers(context: Any) -> Iterator[Value]:
    for one in _cached_offers():
        if one.provider not in ("local", "ssh"):
            about = (
                f"{one.gpu_count}x {one.gpu_type}, {one.price.hourly:.2f} {one.price.currency}/h, "
                f"{one.cloud} {one.region}"
            )
            yield Value(one.short, about)


def _gpus(context: Any) -> Iterator[str]:
    kinds = {
        (one.gpu_type, one.gpu_count)
        for one in _cached_offers()
        if one.gpu_type and one.gpu_type != "CPU_NODE"
    }
    for kind, count in sorted(kinds):
        yield f"{count}x{kind}"
    yield from sorted({kind for kind, _ in kinds})
    yield "cpu"


def _gpus_or_offers(context: Any) -> Iterator[Value | str]:
    yield from _gpus(context)
    yield from _offers(context)


def _clouds(context: Any) -> Iterator[str]:
    return iter(sorted({one.cloud for one in _cached_offers() if one.cloud}))


def _regions(context: Any) -> Iterator[str]:
    return iter(
        sorted({word for one in _cached_offers() for word in (one.region, one.country) if word})
    )


def _hosts(context: Any) -> Iterator[str]:
    from hudtui.core.compute.owned_hosts import config_names

    yield "local"
    yield from config_names()


def _episode_fields(context: Any) -> Values:
    from hudtui.core.results.queries import EPISODE_FIELDS, GROUP_FIELDS

    return tuple(GROUP_FIELDS if context.params.get("groups") else EPISODE_FIELDS)


def _results(context: Any) -> Iterator[Value]:
    from hudtui.core.compute.hardware import size
    from hudtui.core.results.find import find_results

    for one in find_results(Path.cwd(), _store()):
        yield Value(one.name, f"{one.kind}, {size(one.size)}")


def _export_forms(context: Any) -> Values:
    from hudtui.core.results.export import FORMS

    return FORMS if _below(context, "rollouts") else ("adapter", "merged")


def _below(context: Any, group: str) -> bool:
    """Return whether a command belongs to a group."""
    return context.parent is not None and context.parent.info_name == group


def _policies(context: Any) -> Iterator[str]:
    """The players of the configuration that is named, or of the only one here."""
    from hudtui.core.errors import HudtuiError
    from hudtui.core.gym.config import load_config
    from hudtui.core.rollouts.policy import policy_names
    from hudtui.core.workspace import open_workspace

    named = context.params.get("config")
    configs = [Path(named)] if named else open_workspace(Path.cwd()).configs
    config = None
    if len(configs) == 1:
        with suppress(HudtuiError):
            config = load_config(configs[0])
    yield from (*policy_names(config), "replay:", "openai:")


def _option(name: str) -> Source:
    def texts(context: Any) -> Values:
        from hudtui.core.knobs import knobs_of
        from hudtui.core.runs.request import RunRequest

        about = knobs_of(RunRequest)[name]
        return (*about.suggestions, *(text for _, text in about.entries()))

    return texts


def _providers(context: Any) -> Values:
    from hudtui.core.compute.registry import provider_names

    return provider_names()


def _recipe(context: Any) -> Iterator[Value]:
    from dataclasses import fields

    from hudtui.core.training.recipe import Recipe

    for one in fields(Recipe):
        yield Value(f"{one.name}=", f"{one.default}")


def _settings(context: Any) -> Iterator[Value]:
    from hudtui.core.platform import choose_platform
    from hudtui.core.settings import known_settings

    for one in known_settings(choose_platform(Path.cwd())):
        yield Value(one.name, one.about)


def _platforms(context: Any) -> Iterator[str]:
    from hudtui.core.platform import platforms

    for one in platforms(Path.cwd()):
        yield one.name


_NONE = _words("none")
_RUN_FIELDS = _named("runs.listing", "RUN_FIELDS")
_SOURCES: dict[str, Source] = {
    # arguments, some with the name of the group or the command
    "run": _runs,
    "runs": _runs,
    "stop run": _active_runs,
    "resume run": _active_runs,
    "tasks": _files("task_files"),
    "config": _files("configs"),
    "init source": _sources,
    "show source": _sources,
    "analyze source": _sources,
    "words": _tool_call,
    "spec": _gpus,
    "create spec": _gpus_or_offers,
    "target": _hosts,
    "results": _results,
    "compare other": _results,
    "pods name": _pods,
    "pods names": _pods,
    "settings name": _settings,
    "settings names": _settings,
    # options, some with the name of the command
    "--platform": _platforms,
    "--config": _files("configs"),
    "art --config": _files("art_configs"),
    "art --env": _art_environments,
    "--base-model": _base_models,
    "--dataset": _files("task_files"),
    "--env": _sources,
    "--source": _sources,
    "--engine": _option("engine"),
    "--policy": _policies,
    "--model": _models,
    "--set": _recipe,
    "--environments": _option("environments"),
    "--window": _stages,
    "--host": _hosts,
    "--provider": _providers,
    "--gpus": _gpus,
    "--offer": _offers,
    "--cloud": _clouds,
    "--region": _regions,
    "--sort": _named("compute.choose", "ORDERS"),
    "list --sort": lambda context: (
        _episode_fields if _below(context, "rollouts") else _RUN_FIELDS
    )(context),
    "list --group": _RUN_FIELDS,
    "rollouts --sort": _episode_fields,
    "--budget": _NONE,
    "--day-budget": _NONE,
    "--max-hours": _NONE,
    "--idle-minutes": _NONE,
    "--format": _words("parquet", "jsonl", "dataset", "json", "tasks-jsonl"),
    "export --format": _export_forms,
    "--to": _words("v4", "v6"),
}
