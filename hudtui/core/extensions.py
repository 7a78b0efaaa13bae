"""Additions of other packages to hudtui: objects behind entry points, beside our own."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")

PROVIDERS = "hudtui.providers"
"""Group of the entry points of providers: each names a `compute.entry.ProviderEntry`."""
SIGNATURES = "hudtui.signatures"
"""Group of signatures of trouble: each names a `diagnosis.table.Signature`."""
DIALECTS = "hudtui.dialects"
"""Group of dialects: each names a `gym.dialects.dialect.Dialect`."""
TRACKERS = "hudtui.trackers"
"""Group of the files of trackers: each names a `training.tracker_files.TrackerFormat`."""
ENVIRONMENTS = "hudtui.environments"
"""Group of environments: each names an `environment.bundled.BundledEnvironment`."""
_OURS: Mapping[str, Mapping[str, str]] = {
    PROVIDERS: {
        "prime": "hudtui.core.compute.prime.entry:PRIME",
        "sky": "hudtui.core.compute.skypilot_entry:SKY",
    }
}
"""The objects that come with hudtui and are loaded late, by group and name; those of other groups
stand in the module of their class."""
_KINDS: Mapping[str, str] = {
    PROVIDERS: "hudtui.core.compute.entry:ProviderEntry",
    SIGNATURES: "hudtui.core.diagnosis.table:Signature",
    DIALECTS: "hudtui.core.gym.dialects.dialect:Dialect",
    TRACKERS: "hudtui.core.training.tracker_files:TrackerFormat",
    ENVIRONMENTS: "hudtui.core.environment.bundled:BundledEnvironment",
}
"""The class of the objects of a group."""
ADDED = tuple(_KINDS)
"""The groups of which `extensions` knows the objects."""
_HEADER = re.compile(rb"^\[(hudtui\.[a-z]+)\]", re.MULTILINE)


@dataclass(frozen=True)
class Extensions:
    """The objects of one group."""

    loaded: Mapping[str, Any] = field(default_factory=dict)
    """By name: those of hudtui first."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Errors of those that cannot be loaded, by name."""


def entries(group: str) -> Mapping[str, str]:
    """Return the entry points of other packages by name. Nothing of them is imported."""
    return _entries(group, tuple(sys.path))


@cache
def _entries(group: str, path: tuple[str, ...]) -> Mapping[str, str]:
    # Reading all entry points takes a tenth of a second: not where no package has any for us.
    if group not in _groups(path):
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=group)}


@cache
def _groups(path: tuple[str, ...]) -> frozenset[str]:
    """Return our groups of which a package in these folders has an entry point."""
    found: set[str] = set()
    for folder in path:
        # At each start of hudtui: `glob` takes four times as long.
        with contextlib.suppress(OSError), os.scandir(folder or os.curdir) as there:
            packages = [one.path for one in there if one.name.endswith((".dist-info", ".egg-info"))]
            for package in packages:
                with (
                    contextlib.suppress(OSError),
                    open(f"{package}/entry_points.txt", "rb") as file,
                ):
                    found.update(map(bytes.decode, _HEADER.findall(file.read())))
    return frozenset(found)


def load(name: str, place: str, group: str) -> Any:
    """Return the object behind an entry point: `module:name`.

    Runs code of its package, which may raise any `Exception`.

    Raises:
        ImportError: The module ends the program, as a script does.
    """
    from importlib.metadata import EntryPoint

    try:
        return EntryPoint(name, place, group).load()
    except SystemExit as error:
        raise ImportError(f"{place} ends the program: {error}") from None


def extensions(group: str) -> Extensions:
    """Return all objects of a group. Those that cannot be loaded are named."""
    return _extensions(group, tuple(entries(group).items()))


@cache
def _extensions(group: str, others: tuple[tuple[str, str], ...]) -> Extensions:
    kind = _at(_KINDS[group])
    loaded = {name: _at(place) for name, place in _OURS.get(group, {}).items()}
    broken: dict[str, str] = {}
    for name, place in others:
        if name in loaded:
            continue
        try:
            value = load(name, place, group)
        except Exception as error:  # code of another package
            broken[name] = f"{type(error).__name__}: {error}"
            continue
        if isinstance(value, kind) and value.name == name:
            loaded[name] = value
        else:
            broken[name] = f"{place} is no {kind.__name__} with the name {name}"
    return Extensions(loaded, broken)


def beside(own: Mapping[str, T], group: str) -> dict[str, T]:
    """Return our objects by name, and behind them those of other packages with other names."""
    return {**own, **{n: one for n, one in extensions(group).loaded.items() if n not in own}}


def _at(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
