"""Reading files in any Unicode encoding and writing them in one step."""

from __future__ import annotations

import codecs
import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from hudtui.core.errors import InputError, Location
from hudtui.core.process import is_running, machine_id, process_mark

MAX_BYTES = 64 << 20
"""Largest size of a file that is read as a whole, by default."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is its first half
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def find_encoding(data: bytes) -> tuple[bytes, str]:
    """The byte order mark that `data` begins with, and its encoding.

    An empty mark and UTF-8 if there is none.
    """
    return next(
        ((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", "utf-8")
    )


def decode(data: bytes, name: str) -> str:
    r"""`data` as text with `\n` line ends; UTF-8 unless a byte order mark says otherwise.

    Raises:
        InputError: The bytes are not valid in that encoding; the error names the line.
    """
    mark, encoding = find_encoding(data)
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, len(mark) + error.start) + 1
        raise InputError(
            f"this is not {encoding.upper().removesuffix('-LE').removesuffix('-BE')} text",
            why=(
                f"byte 0x{data[len(mark) + error.start]:02x} at offset {len(mark) + error.start}: "
                f"{error.reason}"
            ),
            fix="Save the file as UTF-8.",
            where=Location(name, line),
        ) from None
    if "\0" in text:
        # UTF-16 without its mark is valid UTF-8 as long as it is plain English.
        raise InputError(
            "this is not text: it holds null bytes",
            why="It may be a binary file, or UTF-16 without a byte order mark.",
            fix="Save the file as UTF-8.",
            where=Location(name, text.count("\n", 0, text.index("\0")) + 1),
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def open_file(path: Path | str) -> BinaryIO:
    """Open a regular file for reading. Neither waits for a pipe nor opens a device.

    Raises:
        InputError: The file is missing, a folder or not a regular file, or cannot be opened.
    """
    name = os.fspath(path)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise InputError("there is no such file", where=Location(name)) from None
    except OSError as error:
        raise InputError(
            "this file cannot be read", why=error.strerror or str(error), where=Location(name)
        ) from None
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return open(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(kind):
        raise InputError("this is a folder, and a file is needed", where=Location(name))
    raise InputError(
        "this is not a regular file",
        fix="Save its content in a regular file first.",
        where=Location(name),
    )


def read_bytes(path: Path | str, *, limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file.

    Args:
        path: The file.
        limit: The most bytes that it may have.

    Raises:
        InputError: See `open_file`; or the file cannot be read, or is larger than the limit.
    """
    name = os.fspath(path)
    with open_file(path) as stream:
        try:
            data = stream.read(limit + 1)
        except OSError as error:
            raise InputError(
                "this file cannot be read", why=error.strerror or str(error), where=Location(name)
            ) from None
    if len(data) > limit:
        raise InputError(
            f"this file is too large: at most {limit:,} bytes are read", where=Location(name)
        )
    return data


def read_text(path: Path | str, *, limit: int = MAX_BYTES) -> str:
    """The text of a file, read by `read_bytes` and decoded by `decode`.

    Raises:
        InputError: The file cannot be read, is too large or is not text.
    """
    return decode(read_bytes(path, limit=limit), os.fspath(path))


def edit_text(path: Path | str, edit: Callable[[str], str]) -> None:
    """Change the text of a file in one step.

    Its encoding stays; a file that is not changed is not written.

    Args:
        path: The file.
        edit: Gets the text with the file's own line ends, and returns the new one.

    Raises:
        InputError: The file cannot be read or written, or is not text.
    """
    data = read_bytes(path)
    decode(data, os.fspath(path))  # says in plain words what is wrong with a file that is no text
    mark, encoding = find_encoding(data)
    text = data[len(mark) :].decode(encoding)
    edited = edit(text)
    if edited != text:
        write_atomic(path, mark + edited.encode(encoding))


def write_atomic(
    path: Path | str, content: str | bytes | BinaryIO, *, mode: int | None = None
) -> None:
    """Write `content` to `path` in one step: readers see the old file or the new one, never a part.

    A stream is copied to its end. A symbolic link is followed, so that it stays a link. The mode of
    an existing file is kept unless `mode` is given; a new file gets `mode` or the process's
    default. The owner is kept where the system allows it.

    Raises:
        InputError: The file cannot be written, for instance because the disk is full. The old file
            is unchanged then.
    """
    target = Path(os.path.realpath(path))
    temporary: Path | None = None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(
            temporary := temporary_path(target),
            os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
            0o600,
        )
        with os.fdopen(handle, "wb") as stream:
            _keep_owner(stream.fileno(), target)
            os.fchmod(stream.fileno(), _mode_for(target) if mode is None else mode)
            if isinstance(content, str | bytes):
                stream.write(content.encode() if isinstance(content, str) else content)
            else:
                shutil.copyfileobj(content, stream, 1 << 20)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        if not isinstance(error, OSError):
            raise
        raise InputError(
            "this file cannot be written; its old content is unchanged",
            why=error.strerror or str(error),
            fix=_WRITE_ADVICE.get(error.errno or 0),
            where=Location(os.fspath(path)),
        ) from None
    with contextlib.suppress(
        OSError
    ):  # the new name survives a power cut only when the folder is on the disk too
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def temporary_path(target: Path) -> Path:
    """Return a hidden name beside `target` for a file or folder that is being written.

    The name holds the process: what killed processes left in that folder is removed first, once for
    each folder.
    """
    machine = machine_id()[:6]
    _remove_leftovers(target.parent, machine)
    mark = process_mark().replace(":", "-")
    return target.with_name(f".{target.name[:40]}.{machine}-{mark}-{secrets.token_hex(4)}.tmp")


@contextlib.contextmanager
def temporary_folder(target: Path | str) -> Iterator[Path]:
    """A folder for this user alone beside `target` (a mere name.

    In the system's folder for temporary files).
    It is removed at the end, or by the next use after its process was killed.

    Raises:
        OSError: It cannot be made.
    """
    path = temporary_path(
        target if isinstance(target, Path) else Path(tempfile.gettempdir(), target)
    )
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        remove_folder(path)


_swept: set[Path] = set()
"""The folders from which this process has removed leftovers."""


def _remove_leftovers(folder: Path, machine: str) -> None:
    if folder in _swept:
        return
    _swept.add(folder)
    name = re.compile(rf"\..*\.{re.escape(machine)}-(\d+)-(\d*)-[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = name.fullmatch(entry.name)
            if match is None or is_running(f"{match[1]}:{match[2]}"):
                continue
            if entry.is_dir(follow_symlinks=False):
                remove_folder(Path(entry.path))
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


def remove_folder(path: Path) -> bool:
    """Remove a folder with all in it, what a container wrote and folders without rights included.

    Returns True if nothing of it is left.
    """
    shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return True
    for parent, folders, _ in os.walk(path):  # each is opened before it is listed itself
        for folder in (os.path.join(parent, name) for name in folders):
            with contextlib.suppress(OSError):
                if not os.path.islink(folder):
                    os.chmod(folder, 0o700)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path) and (podman := shutil.which("podman")) is not None and os.getuid():
        # A container without root writes as users that exist in podman's name space alone.
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [podman, "unshare", "rm", "-rf", "--", str(path)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
    return not os.path.lexists(path)


_WRITE_ADVICE = {
    errno.ENOSPC: "The disk is full: free some space and try again.",
    errno.EDQUOT: "Your disk quota is used up: free some space and try again.",
    errno.EFBIG: "The system allows no larger file here (see `ulimit -f`).",
    errno.EROFS: "The disk is mounted read-only: choose another folder.",
    errno.EACCES: "Make the folder writable for you, or choose another one.",
    errno.EPERM: "Make the folder writable for you, or choose another one.",
    errno.EISDIR: "A folder of that name is in the way.",
    errno.ENOTDIR: "A part of this path is a file, not a folder.",
}


def _keep_owner(handle: int, target: Path) -> None:
    try:
        old, new = target.stat(), os.fstat(handle)
    except OSError:
        return
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(handle, old.st_uid, old.st_gid)


@contextlib.contextmanager
def file_lock(path: Path | str, *, timeout: float = 10.0) -> Iterator[None]:
    """Hold a lock while a file is read, edited and written.

    It holds against other processes and threads that use `file_lock`.

    The lock is the system's advisory lock (`flock`) on the file's folder. It leaves no file behind
    and ends with the process. On a file system without such locks the work is done without one.
    Waiting blocks the thread: use `to_thread` on an event loop.

    Args:
        path: The file that is going to be changed; it need not exist, and its folder is made.
        timeout: Seconds to wait for another holder.

    Raises:
        InputError: Another holder kept it all that time, or the folder cannot be made or opened.
    """
    import fcntl

    folder = Path(os.path.realpath(path)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(
            "this folder cannot be used",
            why=error.strerror or str(error),
            fix=_WRITE_ADVICE.get(error.errno or 0),
            where=Location(str(folder)),
        ) from None
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise InputError(
                        "another hudtui is changing this file",
                        fix="Try again when it is done.",
                        where=Location(os.fspath(path)),
                    ) from None
                time.sleep(0.02)
            except OSError:
                break
        yield
    finally:
        os.close(handle)


def _mode_for(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def parse_json(text: str, name: str) -> Any:
    """`text` as one JSON document.

    Raises:
        InputError: It is not valid JSON, has a key twice in one object, NaN or Infinity, or is
            nested too deeply; with line and column where the parser knows them.
    """

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            seen: set[str] = set()
            key = next(key for key, _ in items if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise InputError("duplicate key in one object", where=Location(name, field=key))
        return found

    def constant(word: str) -> Any:
        raise InputError(f"{word} is not a JSON value", where=Location(name))

    try:
        return json.loads(
            text.removeprefix("\ufeff"), object_pairs_hook=pairs, parse_constant=constant
        )
    except json.JSONDecodeError as error:
        raise InputError(
            f"this is not valid JSON: {error.msg}", where=Location(name, error.lineno, error.colno)
        ) from None
    except RecursionError:
        raise InputError("this JSON is nested too deeply", where=Location(name)) from None
    except ValueError as error:  # an integer beyond Python's digit limit
        raise InputError(f"this is not valid JSON: {error}", where=Location(name)) from None


def read_json(path: Path | str) -> Any:
    """The JSON document in a file, by `read_text` and `parse_json`."""
    return parse_json(read_text(path), os.fspath(path))
