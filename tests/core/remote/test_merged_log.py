"""Several logs as one, in the order of the times that the run's supervisor has recorded; here and behind SSH."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from hudtui.core.remote import merged_log
from hudtui.core.remote.host import FileStat, Host
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.log_file import LogFile, LogPlace
from hudtui.core.remote.log_search import LogFilter
from hudtui.core.remote.merged_log import RESTARTED, Growth, MergedLog, NamedLines, read_growth


class Stages:
    """A folder with logs that grow, and the record of that."""

    def __init__(self, folder: Path, host: Host, *names: str) -> None:
        self._folder, self._times = folder, folder / "log_times.jsonl"
        self.logs = {name: LogFile(LogPlace(host, str(self.path(name)), str(self._times))) for name in names}

    def path(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def write(self, name: str, text: str, at: float | None = None) -> None:
        """A stage prints; with a time, its supervisor writes down the size of the log."""
        with self.path(name).open("a") as stream:
            stream.write(text)
        if at is not None:
            with self._times.open("a") as stream:
                stream.write(json.dumps([at, name, self.path(name).stat().st_size]) + "\n")

    async def merged(self, **how: Any) -> list[str]:
        begins = how.pop("begins", {})
        merged = MergedLog(self.logs)
        found = merged.read({name: begins.get(name, 0) for name in self.logs}, **how)
        async with aclosing(found) as blocks:
            return [f"{name} {line}" async for name, lines in blocks for line in lines]


async def test_lines_stand_in_the_order_of_their_times(host: Host, tmp_path: Path) -> None:
    stages = Stages(tmp_path, host, "setup", "serve", "train")
    stages.write("setup", "one\ntwo\n", 100)
    stages.write("serve", "INFO loads\nERROR no ", 105)  # a line of two blocks counts with the second
    stages.write("train", "waits\n", 105)
    stages.write("setup", "three\n", 110)
    stages.write("serve", "room\n  why\n", 115)
    stages.write("train", "step 1\n", 120)
    stages.write("serve", "last, not recorded")
    whole = [
        *("setup one", "setup two", "serve INFO loads", "train waits", "setup three"),
        *("serve ERROR no room", "serve   why", "train step 1", "serve last, not recorded"),
    ]
    assert await stages.merged() == whole
    assert await stages.merged(last=3) == whole[-3:]
    assert await stages.merged(last=0) == []
    assert await stages.merged(begins={"setup": 8, "serve": 11, "train": 6}) == ["setup three", *whole[5:]]
    assert await stages.merged(wanted=LogFilter("[st]e[pr]")) == ["train step 1"]
    assert await stages.merged(wanted=LogFilter("o"), last=2) == [
        "serve ERROR no room",
        "serve last, not recorded",
    ]


async def test_without_a_record_stage_follows_stage(tmp_path: Path) -> None:
    stages = Stages(tmp_path, LocalHost(), "serve", "train", "never")
    stages.write("train", "step 1\n")
    stages.write("serve", "up\n")
    assert await stages.merged() == ["serve up", "train step 1"]


async def test_what_comes_later_is_followed_where_reading_ended(host: Host, tmp_path: Path) -> None:
    stages = Stages(tmp_path, host, "serve", "train")
    stages.write("serve", "up\nhal", 100)
    stages.write("train", "step 1\n", 105)
    merged, seen, more = MergedLog(stages.logs), list[str](), asyncio.Event()

    def put(found: NamedLines) -> None:
        seen.extend(f"{found.name} {line}" for line in found.lines)
        more.set()

    async def until(count: int) -> None:
        while len(seen) < count:
            more.clear()
            await more.wait()

    async with asyncio.timeout(60), aclosing(merged.read({"serve": 0, "train": 0}, follow=True)) as blocks:
        async for block in blocks:
            put(block)
        assert seen == ["serve up", "train step 1"] and merged.before == 0
        following = asyncio.create_task(merged.follow(put))
        stages.write("serve", "f\n")
        await until(3)
        stages.write("train", "step 2\n")
        await until(4)
        stages.path("train").write_text("again\n")
        await until(6)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert seen[2:] == ["serve half", "train step 2", f"train {RESTARTED}", "train again"]


async def test_of_a_long_record_only_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merged_log, "_PIECE", 500)
    read: list[int] = []

    class Counting(LocalHost):
        async def get(self, path: Any, *, offset: int = 0, limit: int | None = None) -> bytes:
            if str(path).endswith(".jsonl"):
                read.append(offset)
            return await super().get(path, offset=offset, limit=limit)

    stages = Stages(tmp_path, Counting(), "a", "b")
    for n in range(200):
        stages.write("ab"[n % 2], f"{n:03}\n", 100 + n)
    size = (tmp_path / "log_times.jsonl").stat().st_size
    tail = {name: 4 * 95 for name in "ab"}
    assert await stages.merged(begins=tail) == [f"{'ab'[n % 2]} {n:03}" for n in range(190, 200)]
    assert min(read) > size - 1_500
    assert await stages.merged() == [f"{'ab'[n % 2]} {n:03}" for n in range(200)]
    assert min(read) == 0


class Endless(LocalHost):
    """A machine that claims a record of a terabyte."""

    asked = 0

    async def stat(self, path: PurePosixPath | str) -> FileStat:
        return FileStat(10**12, 0.0, True)

    async def get(self, path: PurePosixPath | str, *, offset: int = 0, limit: int | None = None) -> bytes:
        assert limit is not None
        self.asked += limit
        return b"x" * (limit - 1) + b"\n"


async def test_a_record_without_an_end_is_read_in_part() -> None:
    host = Endless()
    assert await read_growth(host, "log_times.jsonl", {"a": 0}) == {"a": Growth([], [])}
    assert host.asked <= 16 << 20
