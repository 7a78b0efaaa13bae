"""What screens need, imported in the idle moment after the first paint, so that they open faster."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.tui.facts import Facts
from hudtui.tui.steps import screen_class

if TYPE_CHECKING:
    from hudtui.tui.app import HudtuiApp

_TRIM_THRESHOLD, _ARENA_MAX = -1, -8
"""`M_TRIM_THRESHOLD` and `M_ARENA_MAX` of `malloc.h`."""

BEHIND = {
    "mapping": (
        "hudtui.tui.mapping.view",
        "hudtui.core.gym.editing.outline",
        "hudtui.core.gym.editing.preview",
        "hudtui.core.gym.editing.samples",
        "hudtui.core.environment.cache",
        "hudtui.core.gym.editing.autosave",
        "hudtui.core.gym.lint.check",
        "hudtui.core.flows.file_buffer",
        "hudtui.core.rollouts.replies",
        "tree_sitter_yaml",
    ),
    "dataset": (
        "hudtui.tui.dataset.detail",
        "hudtui.core.tasks.prefilter",
        "hudtui.core.tasks.table",
        "hudtui.core.environment.cache",
    ),
    "compute": (
        "hudtui.core.compute.demo_simulator",
        "hudtui.core.compute.lifecycle",
        "hudtui.core.compute.overview",
        "hudtui.core.compute.prime.provider",
        "hudtui.core.compute.reconcile",
        "hudtui.core.compute.registry",
        "hudtui.core.runs.fit",
        "hudtui.core.runs.remote_run",
        "httpx2",
        "httpcore2",
        "anyio._backends._asyncio",
    ),
    "launch": (
        "hudtui.core.rollouts.policy",
        "hudtui.core.runs.plan_text",
        "hudtui.core.runs.preflight",
        "hudtui.core.runs.prepare",
        "hudtui.envs.text_2048.players",
    ),
    "settings": ("hudtui.core.credentials",),
    "results": ("hudtui.core.results.find", "hudtui.core.results.index"),
}
"""Screen -> modules that it imports late."""

ALWAYS = ("environment", "compute", "run", "launch", "results", "settings")
"""Screens that have something to show in every project."""


def soon(facts: Facts) -> tuple[str, ...]:
    """Return the screens that have something to show in this project."""
    there = {"mapping": facts.configs, "dataset": facts.task_files}
    return (*(name for name, files in there.items() if files), *ALWAYS)


async def prepare(app: HudtuiApp, names: tuple[str, ...]) -> None:
    """Import what some screens need, in a thread, and read their styles.

    Args:
        app: The app, which has painted.
        names: Screens.
    """
    await asyncio.to_thread(_import, names)
    for name in names:
        screen = screen_class(name)
        if isinstance(screen.CSS_PATH, str):
            app.read_styles([Path(import_module(screen.__module__).__file__ or "").with_name(screen.CSS_PATH)])


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        screen_class(name)
        for module in BEHIND.get(name, ()):
            import_module(module)


def share_memory() -> None:
    """Have all threads take memory from one pool that gives back what is free at its end, where the C library is glibc.

    Pools of their own kept 10 MiB that stood empty. Once a record of megabytes was freed, glibc by itself keeps up to 64 MiB.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_TRIM_THRESHOLD, 1 << 20)


COLLECT_AFTER = 10_000
"""Objects more than there were, after which Python looks for garbage. With its own 700 it looks often while a screen opens."""


def spare_collector() -> None:
    """Exclude the objects that live until the end from garbage collection.

    A full collection walks over every object: over half a million of modules and widgets that takes some 70 ms, in the middle
    of a keystroke. What is garbage by now is collected first: frozen, it would stay for good.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])
