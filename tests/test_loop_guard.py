"""The guard that keeps the stores off the event loop sees what it should, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.loop_guard import stores_off_the_loop

import hudtui
from hudtui.core.compute.pods import Ledger
from hudtui.core.runs.store import RunStore

PLANTED = """
import asyncio

def read(store):
    return store.runs()

async def directly(store, ledger):
    store.runs()

async def through_a_function(store, ledger):
    read(store)

async def the_other_store(store, ledger):
    ledger.records()

async def writing(store, ledger):
    ledger.unclaim("a machine")

async def in_a_generator(store, ledger):
    async def runs():
        yield store.runs()
    async for _ in runs():
        pass

async def in_a_comprehension(store, ledger):
    return [store.summary(run.id) for run in [*store.runs()]]

async def in_a_callback(store, ledger):
    asyncio.get_running_loop().call_soon(read, store)
    await asyncio.sleep(0)

async def in_a_task(store, ledger):
    await asyncio.create_task(directly(store, ledger))

async def under_a_lock(store, ledger):
    async with asyncio.Lock():
        read(store)

async def what_was_read_before(store, ledger):
    await store.run(store.runs)
    store.runs()

async def in_its_thread(store, ledger):
    await store.run(store.runs)
    await ledger.run(ledger.records)
    await store.run(lambda: [store.runs(), ledger.records()])

async def its_stamp(store, ledger):
    store.database.stamp()

async def in_another_thread(store, ledger):
    await asyncio.to_thread(read, store)

def without_a_loop(store, ledger):
    read(store)
"""
WRONG = (
    *(
        "directly",
        "through_a_function",
        "the_other_store",
        "writing",
        "in_a_generator",
        "in_a_comprehension",
    ),
    *("in_a_callback", "in_a_task", "under_a_lock", "what_was_read_before"),
)


@pytest.fixture
def planted() -> dict[str, Any]:
    """Functions that stand in a file of the product."""
    names: dict[str, Any] = {}
    exec(compile(PLANTED, str(Path(hudtui.__file__).parent / "planted.py"), "exec"), names)  # noqa: S102
    return names


@pytest.mark.parametrize("name", WRONG)
def test_a_store_on_the_loop_fails_and_its_place_is_named(
    planted: dict[str, Any], name: str, tmp_path: Path
) -> None:
    work = planted[name](RunStore(tmp_path), Ledger(tmp_path / "pods.db"))
    with pytest.raises(AssertionError, match=r"planted\.py:\d+ "), stores_off_the_loop():
        asyncio.run(work)


def test_a_store_off_the_loop_passes(planted: dict[str, Any], tmp_path: Path) -> None:
    store, ledger = RunStore(tmp_path), Ledger(tmp_path / "pods.db")
    with stores_off_the_loop():
        asyncio.run(planted["in_its_thread"](store, ledger))
        asyncio.run(planted["in_another_thread"](store, ledger))
        asyncio.run(planted["its_stamp"](store, ledger))
        planted["without_a_loop"](store, ledger)


def test_what_a_test_calls_itself_passes(planted: dict[str, Any], tmp_path: Path) -> None:
    async def look() -> None:
        store.runs()
        planted["read"](store)

    store = RunStore(tmp_path)
    with stores_off_the_loop():
        asyncio.run(look())
