"""Following over a bad line: nothing is lost and nothing comes twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.sshd import connect_ssh

from hudtui.core.errors import MachineError
from hudtui.core.remote import ssh_follow
from hudtui.core.remote.ssh_connection import SshConnection

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


@pytest.mark.parametrize("python", [True, False])
async def test_a_log_is_copied_exactly_over_many_disconnects(faults: Any, ssh_box: Box, tmp_path: Path, python: bool) -> None:
    if not python:
        programs = tmp_path / "programs"
        programs.mkdir()
        (programs / "sh").symlink_to(str(shutil.which("sh")))
        ssh_box.world(PATH=str(programs))
    result = await faults.trial(ssh_box, seed=3, disconnects=8 if python else 3, lines=40_000, seconds=2.0)
    assert result.identical and result.lost == 0 and result.doubled == 0
    assert result.disconnects >= (8 if python else 3) and result.connects == result.disconnects + 1


async def test_without_python_the_reader_may_be_gone_before_it_is_sent(ssh_box: Box, tmp_path: Path, monkeypatch: Any) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(str(shutil.which("sh")))
    ssh_box.world(PATH=str(programs))
    (ssh_box.home / "log").write_bytes(b"one\n")

    open_channel = SshConnection.open_channel

    async def slowly(link: SshConnection, connection: Any, command: str, listener: Any) -> Any:
        channel = await open_channel(link, connection, command, listener)
        async with asyncio.timeout(30):
            await channel.wait_closed()
        return channel

    monkeypatch.setattr(SshConnection, "open_channel", slowly)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        assert await collect(host, "log", 4) == b"one\n"


async def test_a_slow_line_moves_on(ssh_box: Box, bad_line: Any) -> None:
    data = b"".join(b"%09d\n" % number for number in range(30_000))
    (ssh_box.home / "log").write_bytes(data)
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()) as host,
    ):
        line.rate = 400_000.0
        await host.run(["true"])

        def cut_now_and_then(size: int) -> None:
            # Less than a whole frame passes between two cuts: what had come must count.
            if line.cuts < 3 and size >= 60_000 * (line.cuts + 1):
                line.cut()

        assert await collect(host, "log", len(data), cut_now_and_then) == data
        assert line.cuts == 3


@pytest.mark.parametrize("kind", ["rotated", "truncated", "replaced"])
async def test_what_happened_to_the_file_while_the_line_was_down(ssh_box: Box, bad_line: Any, kind: str) -> None:
    path = ssh_box.home / "log"
    path.write_bytes(b"one\n")
    got: list[tuple[int, bytes]] = []
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()) as host,
    ):
        stream: Any = host.follow("log")
        got.append(((await anext(stream)).offset, b"one\n"))
        await line.refuse()
        if kind == "rotated":
            with path.open("ab") as writer:
                writer.write(b"two\n")
            os.rename(path, ssh_box.home / "log.1")
            path.write_bytes(b"three\n")
            expected = [(4, b"two\n"), (0, b"three\n")]
        elif kind == "truncated":
            path.write_bytes(b"new, and longer\n")
            expected = [(0, b"new, and longer\n")]
        else:
            os.rename(path, ssh_box.home / "old")
            (ssh_box.home / "old").unlink()
            path.write_bytes(b"one\nbut of another file\n")
            expected = [(0, b"one\nbut of another file\n")]
        await line.open()
        async with asyncio.timeout(60):
            found = [await anext(stream) for _ in expected]
        assert [(chunk.offset, chunk.data) for chunk in found] == expected
        await stream.aclose()


async def test_a_cut_soon_after_a_new_beginning_doubles_nothing(ssh_box: Box, bad_line: Any) -> None:
    path = ssh_box.home / "log"
    path.write_bytes(b"the old content\n")
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()) as host,
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
        assert [(chunk.offset, chunk.data) for chunk in found[1:]] == [(0, b"new\n"), (4, b"more\n")]
        await stream.aclose()


async def test_a_line_that_falls_silent_is_noticed(ssh_box: Box, bad_line: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudtui.core.remote.ssh_connection.KEEP_ALIVE", 0.3)
    path = ssh_box.home / "log"
    path.write_bytes(b"one\n")
    async with (
        bad_line(ssh_box.port) as line,
        await connect_ssh(ssh_box.target(port=line.port), known_hosts=ssh_box.known_hosts()) as host,
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


async def test_readers_there_end_with_the_connection(ssh_box: Box) -> None:
    """`own_tmux` fails the test when a process is left; here the connection is cut from their side."""
    (ssh_box.home / "log").write_bytes(b"one\n")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        stream: Any = host.follow("log")
        await anext(stream)
        ssh_box.server.cut()
    await stream.aclose()


async def test_one_reader_follows_all_files_and_ends_with_the_last(ssh_box: Box) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        streams: list[Any] = []
        for number in range(30):
            (ssh_box.home / f"{number}").write_bytes(b"x" * (number + 1))
            streams.append(host.follow(f"{number}"))
        first = await asyncio.gather(*(anext(stream) for stream in streams))
        assert [len(chunk.data) for chunk in first] == list(range(1, 31))
        reader = await ssh_follow.shared_reader(await host.reach())
        assert len(reader.streams) == 30 and not reader.ended
        (ssh_box.home / "0").write_bytes(b"xy")
        assert (await anext(streams[0])).data == b"y"
        missing: Any = host.follow(str(ssh_box.home))
        with pytest.raises(MachineError, match="cannot be read"):
            await anext(missing)
        (ssh_box.home / "1").write_bytes(b"xxz")
        assert (await anext(streams[1])).data == b"z"  # what is wrong with one file is no matter to another
        for stream in streams:
            assert not reader.ended
            await stream.aclose()
        assert reader.ended
        again: Any = host.follow("3")
        assert len((await anext(again)).data) == 4 and (await ssh_follow.shared_reader(await host.reach())) is not reader
        await again.aclose()


async def test_memory_stays_bounded_when_nobody_takes_the_lines(ssh_box: Box) -> None:
    size = 40_000_000
    with (ssh_box.home / "log").open("wb") as stream:
        stream.truncate(size)
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        followed: Any = host.follow("log")
        first = await anext(followed)
        reader = await ssh_follow.shared_reader(await host.reach())
        (waiting,) = reader.streams.values()
        for _ in range(20):
            assert (await host.run(["true"])).ok  # the connection works on meanwhile
            assert waiting.waiting + len(first.data) <= ssh_follow.BUFFER and len(reader.buffer) <= ssh_follow.BUFFER
        got = len(first.data)
        async for chunk in followed:
            got += len(chunk.data)
            if got == size:
                break
        await followed.aclose()
