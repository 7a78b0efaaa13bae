"""What every host promises: the same tests for this machine and for one behind a real SSH
server."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.sshd import connect_ssh
from support.tmux_world import list_sessions

from hudtui.core.errors import MachineError
from hudtui.core.remote import tmux
from hudtui.core.remote.follow import CHUNK
from hudtui.core.remote.host import FileChunk, FileRefused, Host
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.logs import offset_of_last_lines


@pytest.fixture(params=["local", "ssh"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    if request.param == "local":
        yield LocalHost()
        return
    box = request.getfixturevalue("ssh_box")
    if request.param == "ssh without python":
        box.world(PATH=str(few_programs(tmp_path / "programs")))
    async with await connect_ssh(box.target(), known_hosts=box.known_hosts()) as found:
        yield found


every_way_to_follow = pytest.mark.parametrize(
    "host", ["local", "ssh", "ssh without python"], indirect=True
)


def few_programs(folder: Path) -> Path:
    """A folder for PATH with what tests need, and without Python."""
    folder.mkdir()
    for name in (
        "sh",
        "cat",
        "sleep",
        "printf",
        "pwd",
        "true",
        "setsid",
        "tmux",
        "sha256sum",
        "head",
    ):
        found = shutil.which(name)
        assert found, name
        (folder / name).symlink_to(found)
    return folder


# --- commands -------------------------------------------------------------------------------------


async def test_run_gives_status_and_output(host: Host) -> None:
    done = await host.run(["sh", "-c", "cat; echo err >&2; exit 3"], stdin=b"in \xff")
    assert (done.exit_status, done.stdout, done.stderr, done.ok) == (3, "in \ufffd", "err\n", False)
    assert done.argv == ("sh", "-c", "cat; echo err >&2; exit 3")
    assert (await host.run(["true"])).ok


async def test_a_signal_is_a_negative_status(host: Host) -> None:
    assert (await host.run(["sh", "-c", "kill -TERM $$"])).exit_status == -15


async def test_without_input_there_is_none(host: Host) -> None:
    assert (await host.run(["cat"], timeout=20)).stdout == ""


async def test_run_has_the_folder_and_the_environment(host: Host, tmp_path: Path) -> None:
    there = tmp_path / "a b"
    there.mkdir()
    done = await host.run(
        ["sh", "-c", "pwd; echo $WORD; echo $HOME"], cwd=str(there), env={"WORD": "a  'b' \n$c"}
    )
    assert done.stdout.split("\n")[:4] == [str(there), "a 'b' $c", os.environ["HOME"], ""]
    assert (await host.run(["pwd"])).stdout.strip() == os.environ["HOME"]
    (Path.home() / "below").mkdir()
    assert (await host.run(["pwd"], cwd="below")).stdout.strip() == os.environ["HOME"] + "/below"


async def test_no_shell_is_in_between(host: Host) -> None:
    words = [
        "$HOME",
        "a  b",
        "*",
        "; rm x",
        "'",
        '"',
        "\\",
        "`id`",
        "",
        "-n",
        "two\nlines",
        "é€😀",
        "!!",
        "~",
        "--",
    ]
    done = await host.run(["sh", "-c", 'for word do printf "%s|" "$word"; done', "x", *words])
    assert done.stdout == "|".join([*words, ""])


async def test_much_output_on_both_pipes(host: Host) -> None:
    script = "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2"
    done = await host.run(["sh", "-c", script])
    assert (len(done.stdout), len(done.stderr)) == (3_000_000, 3_000_000)


async def test_much_input(host: Host) -> None:
    data = random.Random(1).randbytes(1_500_000).hex().encode()
    assert (await host.run(["cat"], stdin=data)).stdout.encode() == data
    assert (await host.run(["true"], stdin=data)).ok  # it never reads it


async def test_what_cannot_be_started_is_told(host: Host, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no-such-program") as caught:
        await host.run(["no-such-program"])
    assert caught.value.why == "No such file or directory"
    with pytest.raises(MachineError, match="cannot be started") as caught:
        await host.run([str(tmp_path / "none")])
    assert caught.value.why == "No such file or directory"
    with pytest.raises(MachineError, match="cannot be started") as caught:
        await host.run(["true"], cwd=str(tmp_path / "none"))
    assert caught.value.why == "No such file or directory"
    (tmp_path / "plain").write_text("no program")
    with pytest.raises(MachineError, match="cannot be started") as caught:
        await host.run([str(tmp_path / "plain")])
    assert caught.value.why == "Permission denied"
    with pytest.raises(MachineError, match="cannot be started"):
        await host.run(["echo", "a\0b"])
    assert (await host.run(["sh", "-c", "exit 127"])).exit_status == 127


async def test_a_command_that_takes_too_long_ends_with_its_children(host: Host) -> None:
    began = time.monotonic()
    with pytest.raises(MachineError, match=r"did not end within 0.7 s"):
        await host.run(["sh", "-c", "sleep 1000 & sleep 1000"], timeout=0.7)
    assert time.monotonic() - began < 20
    # own_tmux proves that nothing is left


async def test_cancelling_ends_the_command(host: Host, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    task = asyncio.create_task(host.run(["sh", "-c", f"sleep 1000 & : > {begun}; sleep 1000"]))
    while not begun.exists():  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("after", [0.0, 0.002, 0.005, 0.01, 0.02, 0.1])
async def test_cancelling_a_command_that_has_hardly_begun_ends_it(host: Host, after: float) -> None:
    await host.run(["true"])  # the connection is there
    task = asyncio.create_task(host.run(["sh", "-c", "sleep 1000 & sleep 1000"]))
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    # own_tmux proves that nothing is left


async def test_a_daemon_that_holds_the_pipes_does_not_hold_us(host: Host) -> None:
    began = time.monotonic()
    done = await host.run(["sh", "-c", "setsid sleep 60 & echo $!"], timeout=50)
    assert time.monotonic() - began < 40
    os.kill(int(done.stdout), 9)


async def test_many_commands_at_once(host: Host) -> None:
    done = await asyncio.gather(*(host.run(["sh", "-c", f"echo {n}"]) for n in range(12)))
    assert [each.stdout for each in done] == [f"{n}\n" for n in range(12)]


# --- files ----------------------------------------------------------------------------------------


async def test_put_and_get(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    await host.put(b"secret", str(path), mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    assert await host.get(str(path)) == b"secret"
    assert await host.get(str(path), offset=2, limit=3) == b"cre"
    assert await host.get(str(path), offset=100) == b""
    await host.put(path, "in-home")
    assert (Path.home() / "in-home").read_bytes() == b"secret"
    assert (Path.home() / "in-home").stat().st_mode & 0o777 == 0o644
    facts = await host.stat("in-home")
    assert facts is not None and facts.size == 6 and abs(facts.modified - time.time()) < 600
    assert await host.stat("in-home/nothing") is None
    assert await host.stat("nothing") is None


async def test_put_replaces_in_one_step_and_leaves_nothing_else(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "file"
    path.write_bytes(b"old")
    (folder / "link").symlink_to("file")
    with path.open("rb") as reader:
        await host.put(b"new", str(folder / "link"), mode=0o640)
        assert reader.read() == b"old"
    assert (folder / "link").is_symlink() and path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(folder)) == ["file", "link"]


async def test_larger_files_and_odd_names(host: Host, tmp_path: Path) -> None:
    data = random.Random(2).randbytes(3_000_001)
    path = tmp_path / "a b 'c' é"
    await host.put(data, str(path))
    assert path.read_bytes() == data
    assert await host.get(str(path)) == data
    assert await host.get(str(path), offset=2_000_000, limit=900_000) == data[2_000_000:2_900_000]


async def test_files_that_have_no_size(host: Host) -> None:
    assert (await host.get("/proc/self/status")).startswith(b"Name:")


async def test_failures_of_put_and_get_are_told(host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MachineError, match="cannot be written"):
        await host.put(b"x", str(tmp_path / "file" / "below"))
    with pytest.raises(MachineError, match="cannot be read"):
        await host.get(str(tmp_path / "none"))
    with pytest.raises(MachineError, match="cannot be read"):
        await host.put(tmp_path / "none", str(tmp_path / "copy"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(MachineError, match="cannot be written"):
        await host.put(b"x", str(tmp_path / "folder"))
    assert sorted(os.listdir(tmp_path / "folder")) == []


async def test_what_is_no_ordinary_file_is_looked_at_and_never_read(
    host: Host, tmp_path: Path
) -> None:
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("endless", "pipe", "folder"):
        facts = await host.stat(str(tmp_path / name))
        assert facts is not None and not facts.regular
        with pytest.raises(FileRefused, match="cannot be read") as caught:
            await host.get(str(tmp_path / name))
        assert caught.value.why == "it is not a regular file"
        with pytest.raises(FileRefused):
            await host.get(str(tmp_path / name), limit=10)
        with pytest.raises(MachineError):
            await host.download(str(tmp_path / name), tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert await host.get(str(tmp_path / "link")) == b"text"


async def test_a_file_that_is_read_as_a_whole_has_an_upper_size(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as stream:
        stream.truncate(2**42)  # sparse: nothing of it takes room
    with pytest.raises(FileRefused, match="is not read") as caught:
        await host.get(str(path))
    assert caught.value.why == "it is larger than 16 MiB"
    assert await host.get(str(path), offset=2**41, limit=5) == bytes(5)
    await host.download(str(path), tmp_path / "copy", most=1000)
    assert (tmp_path / "copy").read_bytes() == bytes(1000)


async def test_a_port_of_the_machine_is_reached_from_here(host: Host) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, host.forward(0, "127.0.0.1", server.sockets[0].getsockname()[1]) as here:
        reader, writer = await asyncio.open_connection("127.0.0.1", here)
        assert await reader.read() == b"hello"
        writer.close()


async def test_a_command_that_prints_without_end_is_ended(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("local", "ssh"):
        monkeypatch.setattr(f"hudtui.core.remote.{module}.OUTPUT_LIMIT", 2**20)
    with pytest.raises(MachineError, match="printed more than"):
        await host.run(["yes"])
    # own_tmux proves that nothing is left
    assert len((await host.run(["head", "-c", "1000000", "/dev/zero"])).stdout) == 1_000_000


# --- following ------------------------------------------------------------------------------------


class Follower:
    """Follows a file in a task of its own, and keeps what came."""

    def __init__(self, host: Host, path: Path, offset: int = 0) -> None:
        self.chunks: list[FileChunk] = []
        self._host, self._path, self._offset = host, path, offset

    async def __aenter__(self) -> Follower:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        stream: Any = self._host.follow(str(self._path), offset=self._offset)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                self.chunks.append(chunk)

    @property
    def data(self) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks)

    async def settle(self, size: int) -> bytes:
        """What came, when that many bytes had and nothing more followed."""
        await self.until(size)
        await asyncio.sleep(0.3)  # anything doubled would come now
        return await self.until(size)

    async def until(self, size: int, limit: float = 60.0) -> bytes:
        end = time.monotonic() + limit
        while len(self.data) < size and time.monotonic() < end and not self._task.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        if self._task.done():
            self._task.result()
        return self.data


@every_way_to_follow
async def test_follow_waits_for_the_file_and_loses_nothing(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "later.log"
    chance, written = random.Random(7), b""
    async with Follower(host, path) as follower:
        await asyncio.sleep(0.15)
        with path.open("ab", buffering=0) as stream:
            for _ in range(40):
                piece = chance.randbytes(chance.randint(0, 40_000))
                stream.write(piece)
                written += piece
                await asyncio.sleep(chance.random() * 0.02)
        assert await follower.settle(len(written)) == written
        ends = [chunk.offset + len(chunk.data) for chunk in follower.chunks]
        assert [chunk.offset for chunk in follower.chunks] == [0, *ends[:-1]]
        assert max(len(chunk.data) for chunk in follower.chunks) <= CHUNK


@every_way_to_follow
async def test_follow_begins_at_any_byte(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"0123456789")
    async with Follower(host, path, offset=4) as follower:
        assert await follower.until(6) == b"456789"
        with path.open("ab") as stream:
            stream.write(b"ab")
        assert await follower.settle(8) == b"456789ab"
    assert follower.chunks[0].offset == 4


@every_way_to_follow
async def test_follow_beyond_the_end_means_a_new_file(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"short\n")
    async with Follower(host, path, offset=1000) as follower:
        assert await follower.settle(6) == b"short\n"


@every_way_to_follow
@pytest.mark.parametrize("new", [b"new\n", b"much newer content than before\n"])
async def test_follow_notices_truncation(host: Host, tmp_path: Path, new: bytes) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"old content\n")
    async with Follower(host, path) as follower:
        await follower.until(12)
        path.write_bytes(new)  # the same file
        assert await follower.settle(12 + len(new)) == b"old content\n" + new
    assert [chunk.offset for chunk in follower.chunks] == [0, 0]


@every_way_to_follow
async def test_follow_finishes_the_old_file_before_the_new_one(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        async with Follower(host, path) as follower:
            await follower.until(4)
            os.rename(path, tmp_path / "a.log.1")
            writer.write(b"two\n")
            path.write_bytes(b"three\n")
            writer.write(b"late\n")
            assert await follower.settle(19) == b"one\ntwo\nlate\nthree\n"
    assert follower.chunks[-1].offset == 0


@every_way_to_follow
async def test_follow_stays_with_a_file_that_was_moved_away(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    with path.open("ab", buffering=0) as writer:
        writer.write(b"one\n")
        async with Follower(host, path) as follower:
            await follower.until(4)
            os.rename(path, tmp_path / "moved")
            await asyncio.sleep(0.3)
            writer.write(b"two\n")
            assert await follower.settle(8) == b"one\ntwo\n"


@every_way_to_follow
async def test_follow_refuses_what_is_no_file(host: Host, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "pipe"):
        if place.name == "pipe":
            os.mkfifo(place)
        stream: Any = host.follow(str(place))
        with pytest.raises(MachineError) as caught:
            await anext(stream)
        assert "not a regular file" in str(caught.value)


@every_way_to_follow
async def test_a_slow_consumer_makes_the_machine_wait_and_gets_all(
    host: Host, tmp_path: Path
) -> None:
    path = tmp_path / "a.log"
    data = b"".join(b"%015d\n" % number for number in range(1_000_000))
    path.write_bytes(data)
    got = bytearray()
    stream: Any = host.follow(str(path))
    async with aclosing(stream) as chunks:
        async for chunk in chunks:
            assert chunk.offset == len(got)
            got += chunk.data
            await asyncio.sleep(0.002)
            if len(got) == len(data):
                break
    assert got == data


@every_way_to_follow
async def test_many_files_at_once(host: Host, tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.log" for number in range(7)]
    async with asyncio.timeout(60):
        followers = [Follower(host, path) for path in paths]
        for follower in followers:
            await follower.__aenter__()
        for number, path in enumerate(paths):
            path.write_bytes(b"%d\n" % number * 1000)
        for path, follower in zip(paths, followers, strict=True):
            assert await follower.until(path.stat().st_size) == path.read_bytes()
        await asyncio.sleep(0.3)
        for path, follower in zip(paths, followers, strict=True):
            assert follower.data == path.read_bytes()
            await follower.__aexit__()
        assert (await host.run(["true"])).ok


async def test_the_last_lines(host: Host, tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as stream:
        stream.truncate(5_000_000_000)  # sparse
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nlast but one\nlast\n")
    offset = await offset_of_last_lines(host, str(path), 2)
    assert await host.get(str(path), offset=offset) == b"last but one\nlast\n"


# --- tmux -----------------------------------------------------------------------------------------


async def test_sessions_of_runs_are_found_and_closed(host: Host) -> None:
    assert await list_sessions(host) == ()
    for name in ("hudtui-a", "hudtui-ab", "mine"):
        assert (await host.run(["tmux", "new-session", "-d", "-s", name, "sleep", "1000"])).ok
    assert await list_sessions(host) == ("hudtui-a", "hudtui-ab")
    assert await tmux.close_detached(host, "hudtui-a")
    assert not await tmux.kill_session(host, "hudtui-a")
    assert await list_sessions(host) == ("hudtui-ab",)
    assert (await host.run(["tmux", "kill-server"], env={"TMUX": ""})).ok
    assert await list_sessions(host) == ()
    assert not await tmux.kill_session(host, "hudtui-ab")
