from __future__ import annotations

import json
import os
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.errors import InputError
from hudtui.core.files import (
    decode,
    file_lock,
    open_file,
    parse_json,
    read_bytes,
    read_json,
    read_text,
    write_atomic,
)

NOBODY = 65534


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """As on a full disk: no file can grow beyond `size` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def without_privileges() -> Iterator[None]:
    """Root may write anywhere; for as long as this lasts, the process is an ordinary user."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


# Reading


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes("ä\r\nb\rc\n".encode(encoding))
    assert read_text(path) == "ä\nb\nc\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_encodings_with_mark(encoding: str) -> None:
    assert decode("\ufeffa: 漢\n".encode(encoding), "f") == "a: 漢\n"


def test_wrong_encoding_names_the_line() -> None:
    with pytest.raises(InputError) as caught:
        decode("ok\nMünchen".encode("latin-1"), "f.yaml")
    assert str(caught.value.where) == "f.yaml:2"
    assert "UTF-8" in str(caught.value)
    assert "0xfc" in str(caught.value)


def test_binary_and_unmarked_utf_16_are_no_text() -> None:
    with pytest.raises(InputError, match="null bytes"):
        decode("a: 1\n".encode("utf-16-le"), "f.yaml")
    with pytest.raises(InputError) as caught:
        decode(b"one\ntwo\x00", "f.yaml")
    assert str(caught.value.where) == "f.yaml:2"


def test_reading_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_text(tmp_path / "missing")
    with pytest.raises(InputError, match="folder"):
        read_text(tmp_path)


def test_reading_what_may_not_be_read(open_folder: Path) -> None:
    path = open_folder / "secret"
    path.write_text("x")
    path.chmod(0)
    with without_privileges(), pytest.raises(InputError) as caught:
        read_text(path)
    assert "Permission denied" in str(caught.value)


# JSON


@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ('{"a": 1, "a": 2}', "duplicate", None),
        ('{"a": NaN}', "NaN", None),
        ("[Infinity]", "Infinity", None),
        ('{"a": 1,\n "b" 2}', "not valid JSON", 2),
        ("", "not valid JSON", 1),
        ('{"a": 1} x', "not valid JSON", 1),
        ("[" * 100_000, "nested too deeply", None),
        ('{"a":' * 100_000, "nested too deeply", None),
        ("9" * 10_000, "not valid JSON", None),
        ('"\x01"', "not valid JSON", 1),
    ],
)
def test_bad_json(text: str, words: str, line: int | None) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(text, "f.json")
    assert words in str(caught.value)
    assert caught.value.where is not None
    assert caught.value.where.file == "f.json"
    assert caught.value.where.line == line


def test_a_repeated_key_is_named() -> None:
    with pytest.raises(InputError) as caught:
        parse_json('{"x": {"a": 1, "b": 2, "b": 3, "a": 4}}', "f")
    assert caught.value.where is not None
    assert caught.value.where.field == "b"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    )
)
@settings(deadline=None)
def test_json_round_trip(value: object) -> None:
    assert parse_json("\ufeff" + json.dumps(value), "f") == value


def test_read_json(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes('{"a": "ä"}'.encode("utf-16"))
    assert read_json(tmp_path / "f.json") == {"a": "ä"}


# Writing


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.endswith(".tmp"))


_KILLED = """
import os, signal, sys
from pathlib import Path
from hudtui.core.files import temporary_folder, write_atomic

class Ends:
    def __init__(self, number): self.number = number
    def read(self, size):
        if self.number: os.kill(os.getpid(), self.number)
        print("here", flush=True)
        sys.stdin.read()
        return b""

path = Path(sys.argv[1])
with temporary_folder(path) as folder:
    (folder / "large").write_bytes(b"x")
    write_atomic(path, Ends(int(sys.argv[2])))
"""


def test_what_a_killed_process_left_is_removed_by_the_next_use(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _KILLED, str(tmp_path / "f.json")]
    killed = subprocess.run(
        [*words, str(int(signal.SIGKILL))], check=False, stdin=subprocess.DEVNULL
    )
    assert killed.returncode == -signal.SIGKILL and len(leftovers(tmp_path)) == 2
    with subprocess.Popen([*words, "0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lives:
        assert (
            lives.stdout is not None
            and lives.stdin is not None
            and lives.stdout.readline() == b"here\n"
        )
        theirs = leftovers(tmp_path)
        assert len(theirs) == 2, "what was left is gone, and what is written is there"
        strange = [
            ".f.json.tmp",
            ".f.json.abc123-1-1-00000000.tmp",
            theirs[0].replace("-", "_"),
        ]  # another program's, machine's
        for name in strange:
            (tmp_path / name).touch()
        write_atomic(tmp_path / "other", "x")
        assert set(leftovers(tmp_path)) == {*theirs, *strange}
        lives.stdin.close()
    assert set(leftovers(tmp_path)) == set(strange)


def test_write_makes_folders_and_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "f.txt"
    write_atomic(path, "ä\n")
    assert path.read_bytes() == "ä\n".encode()
    path.chmod(0o640)
    write_atomic(path, b"raw\x00")
    assert path.read_bytes() == b"raw\x00"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    write_atomic(path, "x", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not leftovers(path.parent)


def test_new_files_get_the_usual_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomic(tmp_path / "f", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


def test_a_secret_is_never_readable_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[int] = []
    replace = os.replace

    def watched(source: str, target: str) -> None:
        modes.append(stat.S_IMODE(os.stat(source).st_mode))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write_atomic(tmp_path / ".env", "KEY=1", mode=0o600)
    assert modes == [0o600]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "real" / "f"
    target.parent.mkdir()
    target.write_text("old")
    link = tmp_path / "link"
    link.symlink_to(target)
    write_atomic(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_the_owner_is_kept(open_folder: Path) -> None:
    path = open_folder / "f"
    path.write_text("old")
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    owner = path.stat().st_uid
    write_atomic(path, "new")
    assert path.read_text() == "new"
    assert path.stat().st_uid == owner


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("old")
    with file_size_limit(1000), pytest.raises(InputError) as caught:
        write_atomic(path, "x" * 5000)
    assert path.read_text() == "old"
    assert not leftovers(tmp_path)
    assert "unchanged" in caught.value.what
    assert caught.value.why == "File too large"
    with file_size_limit(1000):
        write_atomic(path, "x" * 1000)
    assert path.read_text() == "x" * 1000


def test_no_space_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError) as caught:
        write_atomic(path, "new")
    assert caught.value.lines()[1:] == [
        "No space left on device",
        "The disk is full: free some space and try again.",
    ]
    assert path.read_text() == "old"
    assert not leftovers(tmp_path)


def test_a_read_only_folder(open_folder: Path) -> None:
    folder = open_folder / "read-only"
    folder.mkdir()
    path = folder / "f"
    path.write_text("old")
    path.chmod(0o666)
    folder.chmod(0o555)
    with without_privileges(), pytest.raises(InputError) as caught:
        write_atomic(path, "new")
    assert caught.value.why == "Permission denied"
    assert "writable" in (caught.value.fix or "")
    assert str(caught.value.where) == str(path)
    assert path.read_text() == "old"
    folder.chmod(0o755)
    assert sorted(item.name for item in folder.iterdir()) == ["f"]


def test_a_folder_that_not_even_root_can_write_to() -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_atomic("/proc/hudtui-test", "x")
    with pytest.raises(InputError, match="cannot be used"), file_lock("/proc/hudtui-test/f"):
        raise AssertionError("unreachable")


def test_a_file_or_folder_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError):
        write_atomic(tmp_path / "file" / "f", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError):
        write_atomic(tmp_path / "folder", "x")
    assert not leftovers(tmp_path)


def test_an_interrupted_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f"
    path.write_text("old")

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert not leftovers(tmp_path)


def test_readers_see_the_old_or_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    contents = ["a" * 100_000, "b" * 100_000]
    path.write_text(contents[0])
    seen: list[str] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    turn, limit = 0, time.monotonic() + 60
    while (
        turn < 30 or len(seen) <= 5
    ) and time.monotonic() < limit:  # on a loaded machine the reader's turn comes late
        write_atomic(path, contents[turn % 2])
        turn += 1
    done.set()
    reader.join()
    assert len(seen) > 5
    assert set(seen) <= set(contents)


# Two at a time


COUNT_UP = """
import sys, time
from pathlib import Path
from hudtui.core.files import file_lock, write_atomic
path = Path("count")
for _ in range(20):
    with file_lock(path):
        number = int(path.read_text())
        time.sleep(0.0005)
        write_atomic(path, str(number + 1))
"""


def test_processes_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")
    children = [subprocess.Popen([sys.executable, "-c", COUNT_UP], cwd=tmp_path) for _ in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    assert path.read_text() == "60"
    assert [item.name for item in tmp_path.iterdir()] == ["count"]


def test_threads_take_turns(tmp_path: Path) -> None:
    path = tmp_path / "count"
    path.write_text("0")

    def count_up() -> None:
        for _ in range(20):
            with file_lock(path):
                number = int(path.read_text())
                time.sleep(0.0005)
                write_atomic(path, str(number + 1))

    threads = [threading.Thread(target=count_up) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "60"


def test_waiting_ends(tmp_path: Path) -> None:
    start = time.monotonic()
    with (
        file_lock(tmp_path / "f"),
        pytest.raises(InputError, match="another hudtui"),
        file_lock(tmp_path / "g", timeout=0.1),
    ):
        raise AssertionError("unreachable")
    assert time.monotonic() - start < 5
    with file_lock(tmp_path / "f", timeout=0):
        pass


def test_the_lock_ends_with_its_holder(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), file_lock(tmp_path / "f"):
        raise RuntimeError
    with file_lock(tmp_path / "f", timeout=0):
        pass


def test_only_ordinary_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / "plain").write_text("12345")
    (tmp_path / "link").symlink_to("plain")
    for name, words in (
        ("pipe", "not a regular file"),
        ("zero.yaml", "not a regular file"),
        (".", "folder"),
        ("no", "no such"),
    ):
        with pytest.raises(InputError, match=words):
            read_text(tmp_path / name)
        with pytest.raises(InputError, match=words):
            open_file(tmp_path / name)
    assert read_bytes(tmp_path / "link", limit=5) == b"12345"
    with pytest.raises(InputError, match="too large: at most 4 bytes"):
        read_bytes(tmp_path / "plain", limit=4)
