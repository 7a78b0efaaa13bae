"""Following over a bad line: nothing is lost and nothing comes twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.sshd import connect_ssh

from hudtui.core.errors import MachineError
from hudtui.core.remote.follow import CHUNK
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.logs import offset_of_last_lines

Box = Any


async def collect(host: Any, path: str, size: int, progress: Any = None) -> bytes:
    got = bytearray()
    async with asyncio.timeout(100), aclosing(host.follow(path)) as chunks:
        async for chunk in chunks:
            assert chunk.offset == len(got)
            got += chunk.data
            if progress is not None:
                progress(len(got))
            if len(got) >= size:
                break
    return bytes(got)


async def test_a_log_is_copied_exactly_over_many_disconnects(
    faults: Any, ssh_box: Box, tmp_path: Path
) -> None:
    """The machine has no program but a shell."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(str(shutil.which("sh")))
    ssh_box.world(PATH=str(programs))
    result = await faults.trial(ssh_box, seed=3, disconnects=8, lines=40_000, seconds=2.0)
    assert result.identical and result.lost == 0 and result.doubled == 0
    assert result.disconnects >= 8 and result.connects == result.disconnects + 1


async def test_a_slow_line_moves_on(ssh_box: Box, bad_line: Any) -> None:
    data = b"".join(b"%09d\n" % number for number in range(30_000))
    (ssh_box.home / "log").write_bytes(data)
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(
            ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
        ) as host,
    ):
        line.rate = 400_000.0
        await host.run(["true"])

        def cut_now_and_then(size: int) -> None:
            # Less than a whole frame passes between two cuts: what had come must count.
            if line.cuts < 3 and size >= 60_000 * (line.cuts + 1):
                line.cut()

        assert await collect(host, "log", len(data), cut_now_and_then) == data
        assert line.cuts == 3


async def test_a_line_that_is_cut_before_a_whole_piece_is_there_moves_on(
    ssh_box: Box, bad_line: Any
) -> None:
    data = os.urandom(200_000)
    (ssh_box.home / "log").write_bytes(data)
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(
            ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
        ) as host,
    ):
        await host.run(["true"])

        async def cut_again_and_again() -> None:
            while True:
                cuts = line.cuts
                line.cut_after(90_000)
                while line.cuts == cuts:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        cutting = asyncio.create_task(cut_again_and_again())
        try:
            assert await collect(host, "log", len(data)) == data
        finally:
            cutting.cancel()
        assert line.cuts >= 2


@pytest.mark.parametrize("kind", ["rotated", "truncated", "replaced"])
async def test_what_happened_to_the_file_while_the_line_was_down(
    ssh_box: Box, bad_line: Any, kind: str
) -> None:
    path = ssh_box.home / "log"
    path.write_bytes(b"one\n")
    got: list[tuple[int, bytes]] = []
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(
            ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
        ) as host,
    ):
        stream: Any = host.follow("log")
        got.append(((await anext(stream)).offset, b"one\n"))
        await line.refuse()
        if kind == "rotated":
            os.rename(path, ssh_box.home / "log.1")
            path.write_bytes(b"three\n")
            expected = [(0, b"three\n")]
        elif kind == "truncated":
            path.write_bytes(b"new, and longer\n")
            expected = [(0, b"new, and longer\n")]
        else:
            os.rename(path, ssh_box.home / "old")
            (ssh_box.home / "old").unlink()
            path.write_bytes(b"the first of another file\n")
            expected = [(0, b"the first of another file\n")]
        await line.open()
        async with asyncio.timeout(60):
            found = [await anext(stream) for _ in expected]
        assert [(chunk.offset, chunk.data) for chunk in found] == expected
        await stream.aclose()


async def test_a_cut_soon_after_a_new_beginning_doubles_nothing(
    ssh_box: Box, bad_line: Any
) -> None:
    path = ssh_box.home / "log"
    path.write_bytes(b"the old content\n")
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(
            ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
        ) as host,
    ):
        stream: Any = host.follow("log")
        found = [await anext(stream)]
        path.write_bytes(b"new\n")
        found.append(await anext(stream))
        line.cut()
        with path.open("ab") as writer:
            writer.write(b"more\n")
        async with asyncio.timeout(60):
            found.append(await anext(stream))
        assert [(chunk.offset, chunk.data) for chunk in found[1:]] == [
            (0, b"new\n"),
            (4, b"more\n"),
        ]
        await stream.aclose()


async def test_a_line_that_falls_silent_is_noticed(
    ssh_box: Box, bad_line: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudtui.core.remote.ssh_connection.KEEP_ALIVE", 0.3)
    path = ssh_box.home / "log"
    path.write_bytes(b"one\n")
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(
            ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()
        ) as host,
    ):
        stream: Any = host.follow("log")
        assert (await anext(stream)).data == b"one\n"
        line.silent = True
        waiting = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(60):
            while (await host.reach()).live:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            line.silent = False
            with path.open("ab") as writer:
                writer.write(b"two\n")
            assert (await waiting).data == b"two\n"
        await stream.aclose()


async def test_nothing_is_left_there_when_the_connection_is_cut(ssh_box: Box) -> None:
    """`own_tmux` fails the test when a process is left; here the connection is cut from their
    side."""
    (ssh_box.home / "log").write_bytes(b"one\n")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        stream: Any = host.follow("log")
        await anext(stream)
        ssh_box.server.cut()
    await stream.aclose()


async def test_many_files_are_followed_over_one_channel(ssh_box: Box) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        streams: list[Any] = []
        for number in range(30):
            (ssh_box.home / f"{number}").write_bytes(b"x" * (number + 1))
            streams.append(host.follow(f"{number}"))
        first = await asyncio.gather(*(anext(stream) for stream in streams))
        assert [len(chunk.data) for chunk in first] == list(range(1, 31))
        (ssh_box.home / "0").write_bytes(b"xy")
        assert (await anext(streams[0])).data == b"y"
        missing: Any = host.follow(str(ssh_box.home))
        with pytest.raises(MachineError, match="cannot be read"):
            await anext(missing)
        (ssh_box.home / "1").write_bytes(b"xxz")
        assert (
            await anext(streams[1])
        ).data == b"z"  # what is wrong with one file is no matter to another
        for stream in streams:
            await stream.aclose()


@pytest.mark.parametrize("host_kind", ["here", "behind SSH"])
async def test_a_log_that_is_rotated_while_it_is_followed(
    ssh_box: Box, tmp_path: Path, host_kind: str
) -> None:
    folder = tmp_path if host_kind == "here" else ssh_box.home
    path = folder / "log"
    path.write_bytes(b"one\n")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as remote:
        host: Any = LocalHost() if host_kind == "here" else remote
        stream = host.follow(str(path))
        got = [await anext(stream)]
        with path.open("ab", buffering=0) as writer:
            os.rename(path, folder / "log.1")
            writer.write(b"two\n")
            path.write_bytes(b"three\n")
            writer.write(b"late\n")
        async with asyncio.timeout(60):
            while got[-1].data != b"three\n":
                got.append(await anext(stream))
        assert b"".join(chunk.data for chunk in got) == b"one\ntwo\nlate\nthree\n"
        assert got[-1].offset == 0
        await stream.aclose()


async def test_a_gigabyte_is_opened_at_its_end_at_once(ssh_box: Box) -> None:
    path = ssh_box.home / "log"
    with path.open("wb") as stream:
        stream.truncate(2**30)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nlast but one\nlast\n")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        offset = await offset_of_last_lines(host, "log", 2)
        follower: Any = host.follow("log", offset=offset)
        async with asyncio.timeout(10):
            assert (await anext(follower)).data == b"last but one\nlast\n"
        await follower.aclose()


async def test_a_line_without_end_comes_in_bounded_pieces(ssh_box: Box) -> None:
    data = os.urandom(3_000_000).replace(b"\n", b" ")
    (ssh_box.home / "log").write_bytes(data)
    sizes: list[int] = []
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        assert await collect(host, "log", len(data), lambda size: sizes.append(size)) == data
    assert max(after - before for before, after in pairwise([0, *sizes])) <= CHUNK
