from __future__ import annotations

import asyncio
import os
import random
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import MachineError
from hudtui.core.remote.follow import CHUNK
from hudtui.core.remote.host import FileChunk
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.logs import offset_of_last_lines


class Follower:
    """Follows a file in a task of its own, and keeps what came."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.chunks: list[FileChunk] = []
        self._path, self._offset = path, offset

    async def __aenter__(self) -> Follower:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        async with aclosing(LocalHost().follow(self._path, offset=self._offset)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                self.chunks.append(chunk)

    @property
    def data(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)

    async def until(self, size: int, limit: float = 20.0) -> bytes:
        end = time.monotonic() + limit
        while len(self.data) < size and time.monotonic() < end:  # noqa: ASYNC110 - what is tested tells nobody
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # anything doubled would come now
        return self.data


async def test_it_waits_for_the_file_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    chance, written = random.Random(7), b""
    async with Follower(path) as follower:
        await asyncio.sleep(0.15)
        with path.open("ab", buffering=0) as stream:
            for _ in range(60):
                piece = chance.randbytes(chance.randint(0, 40_000))
                stream.write(piece)
                written += piece
                await asyncio.sleep(chance.random() * 0.02)
        assert await follower.until(len(written)) == written
        ends = [chunk.offset + len(chunk.data) for chunk in follower.chunks]
        assert [chunk.offset for chunk in follower.chunks] == [0, *ends[:-1]]
        assert max(len(chunk.data) for chunk in follower.chunks) <= CHUNK


async def test_it_begins_at_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"0123456789")
    async with Follower(path, offset=4) as follower:
        assert await follower.until(6) == b"456789"
        with path.open("ab") as stream:
            stream.write(b"ab")
        assert await follower.until(8) == b"456789ab"
    assert follower.chunks[0].offset == 4


async def test_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"old content\n")
    async with Follower(path) as follower:
        await follower.until(12)
        with path.open("wb") as stream:
            stream.write(b"new\n")
        assert await follower.until(16) == b"old content\nnew\n"
    assert [chunk.offset for chunk in follower.chunks] == [0, 0]


async def test_truncation_is_noticed_when_the_file_has_outgrown_the_offset(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"old content\n")
    async with Follower(path) as follower:
        await follower.until(12)
        path.write_bytes(b"much newer content than before\n")  # same file, longer than it was
        assert await follower.until(43) == b"old content\nmuch newer content than before\n"
    assert [chunk.offset for chunk in follower.chunks] == [0, 0]


async def test_an_offset_beyond_the_end_means_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"short\n")
    async with Follower(path, offset=1000) as follower:
        assert await follower.until(6) == b"short\n"


async def test_rotation_finishes_the_old_file_first(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        async with Follower(path) as follower:
            await follower.until(4)
            os.rename(path, tmp_path / "a.log.1")
            writer.write(b"two\n")  # a writer keeps the old file open for a while
            path.write_bytes(b"three\n")
            writer.write(b"late\n")
            assert await follower.until(19) == b"one\ntwo\nlate\nthree\n"
    assert follower.chunks[-1].offset == 0


async def test_a_file_moved_away_is_followed_until_another_stands_there(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        async with Follower(path) as follower:
            await follower.until(4)
            os.rename(path, tmp_path / "moved")
            await asyncio.sleep(0.3)
            writer.write(b"two\n")
            assert await follower.until(8) == b"one\ntwo\n"


async def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="not a regular file"):
        await anext(LocalHost().follow(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MachineError, match="not a regular file"):
        await anext(LocalHost().follow(tmp_path / "pipe"))


async def test_waiting_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x\n")
    async with Follower(path):
        await asyncio.sleep(0.3)
        before = time.process_time()
        await asyncio.sleep(1.5)
        assert time.process_time() - before < 0.15


async def test_large_files_come_in_bounded_pieces_and_let_others_run(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"0123456789abcde\n" * 200_000)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    size = 0
    async with aclosing(LocalHost().follow(path)) as chunks:  # type: ignore[type-var]
        async for chunk in chunks:
            size += len(chunk.data)
            if size == 3_200_000:
                break
    ticking.cancel()
    assert ticks >= 3_200_000 // CHUNK


# --- reading backwards ----------------------------------------------------------------------------


def _expected(data: bytes, lines: int) -> int:
    starts = [0, *(place + 1 for place, byte in enumerate(data) if byte == 10)]
    if data.endswith(b"\n"):
        starts.pop()
    return starts[max(len(starts) - lines, 0)] if starts else 0


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a",
        b"a\n",
        b"\n",
        b"\n\n\n",
        b"a\nb",
        b"a\nb\n",
        b"a\n\nb\n\n",
        b"x" * 70_000 + b"\ny\n",
    ],
)
@pytest.mark.parametrize("lines", [1, 2, 3, 10])
async def test_the_last_lines_are_found(tmp_path: Path, data: bytes, lines: int) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(data)
    assert await offset_of_last_lines(LocalHost(), str(path), lines) == _expected(data, lines)


async def test_the_last_lines_over_many_blocks(tmp_path: Path) -> None:
    chance = random.Random(3)
    data = b"".join(b"z" * chance.randint(0, 3000) + b"\n" for _ in range(300))
    path = tmp_path / "a.log"
    path.write_bytes(data)
    for lines in (1, 17, 100, 299, 300, 301):
        assert await offset_of_last_lines(LocalHost(), str(path), lines) == _expected(data, lines)


async def test_the_last_lines_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    assert await offset_of_last_lines(LocalHost(), str(path), 10) == 0
    path.write_bytes(b"abc\ndef\n")
    assert await offset_of_last_lines(LocalHost(), str(path), 0) == 8


async def test_the_end_of_a_huge_file_is_read_without_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as stream:
        stream.truncate(5_000_000_000)  # sparse
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nlast but one\nlast\n")
    read = 0
    host: Any = LocalHost()
    get = host.get

    async def counting(place: str, *, offset: int = 0, limit: int | None = None) -> bytes:
        nonlocal read
        data: bytes = await get(place, offset=offset, limit=limit)
        read += len(data)
        return data

    monkeypatch.setattr(host, "get", counting)
    offset = await offset_of_last_lines(host, str(path), 2)
    assert await get(str(path), offset=offset) == b"last but one\nlast\n"
    assert read <= 64 * 1024
    assert (
        await offset_of_last_lines(host, str(path), 100, most=1_000_000)
        == path.stat().st_size - 1_000_000
    )
