"""Additions of other packages to hudtui: objects behind entry points, beside our own."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

PROVIDERS = "hudtui.providers"
"""Group of the entry points of providers: each names a `compute.entry.ProviderEntry`."""
_OURS: Mapping[str, Mapping[str, str]] = {
    PROVIDERS: {
        "prime": "hudtui.core.compute.prime.entry:PRIME",
        "sky": "hudtui.core.compute.skypilot_entry:SKY",
    }
}
"""The objects that come with hudtui, by group and name."""
_KINDS: Mapping[str, str] = {PROVIDERS: "hudtui.core.compute.entry:ProviderEntry"}
"""The class of the objects of a group."""


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
    if not any(_mentions(Path(folder), group) for folder in path):
        return {}
    from importlib.metadata import entry_points

    return {entry.name: entry.value for entry in entry_points(group=group)}


def _mentions(folder: Path, group: str) -> bool:
    """Return whether a package in a folder of `sys.path` has an entry point of a group."""
    header = f"[{group}]".encode()
    for kind in ("*.dist-info", "*.egg-info"):
        for file in folder.glob(f"{kind}/entry_points.txt"):
            try:
                if header in file.read_bytes():
                    return True
            except OSError:
                continue
    return False


def load(name: str, place: str, group: str) -> Any:
    """Return the object behind an entry point: `module:name`.

    Runs code of its package, which may raise anything.
    """
    from importlib.metadata import EntryPoint

    return EntryPoint(name, place, group).load()


def extensions(group: str) -> Extensions:
    """Return all objects of a group. Those that cannot be loaded are named."""
    return _extensions(group, tuple(entries(group).items()))


@cache
def _extensions(group: str, others: tuple[tuple[str, str], ...]) -> Extensions:
    kind = _at(_KINDS[group])
    loaded = {name: _at(place) for name, place in _OURS[group].items()}
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


def _at(place: str) -> Any:
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)
