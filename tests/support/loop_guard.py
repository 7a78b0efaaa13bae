"""Stores stay off the event loop: product code that opens one on a thread with a running loop fails
the test.

A store may wait seconds for its lock. Nothing is timed here, so that the answer is the same on any
machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import hudtui
from hudtui.core.compute import pods
from hudtui.core.db import Database
from hudtui.core.runs import store

_PRODUCT, _TESTS = str(Path(hudtui.__file__).parent), str(Path(__file__).parents[1])
_STORES = {
    module.__file__
    for module in (contextlib, functools, pods, store, sys.modules[Database.__module__])
}
_ASYNC = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE | inspect.CO_ASYNC_GENERATOR

_places: dict[str, None] = {}
"""The places that have opened a store on a loop, in order."""


@contextlib.contextmanager
def stores_off_the_loop() -> Iterator[None]:
    """Watch the stores. Raises AssertionError on exit if product code has opened one on a running
    event loop."""
    outer = dict(_places)
    _places.clear()
    with contextlib.ExitStack() as patches:
        for name in ("reading", "writing", "stamp"):
            patches.enter_context(patch.object(Database, name, _watched(getattr(Database, name))))
        yield
    opened = list(_places)
    _places.clear()
    _places.update(outer)
    assert not opened, "\n".join(
        ("a store is used on the event loop; use `await store.run(...)`:", *opened)
    )


def _watched(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def watched(*args: Any) -> Any:
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            caller = sys._getframe(1)
            looks = (
                method.__name__ == "stamp" and caller.f_code.co_filename not in _STORES
            )  # at the file, not into it
            if not looks and (place := _place(caller)):
                _places[place] = None
        return method(*args)

    return watched


def _place(frame: FrameType | None) -> str | None:
    """Return the product's functions between a store and the loop; None where a test itself calls
    them."""
    names = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_TESTS):
            return None
        if code.co_filename.startswith(_PRODUCT) and code.co_filename not in _STORES:
            names.append(f"{code.co_filename}:{frame.f_lineno} {code.co_name}")
        if code.co_flags & _ASYNC or (
            names and not code.co_filename.startswith(_PRODUCT) and code.co_filename not in _STORES
        ):
            break
        frame = frame.f_back
    return " < ".join(names) or None
