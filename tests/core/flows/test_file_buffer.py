"""A file that is edited while other programs may change it."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

import pytest

from hudtui.core.errors import InputError
from hudtui.core.flows.file_buffer import FileBuffer, FileChange, look, open_buffer, save_buffer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "play.yaml"
    path.write_text("a: 1\nb: 2\n")
    return path


def write(file: Path, text: str) -> None:
    """Write as another program does: the file's time moves on, however coarse the clock of the
    folder is."""
    before = file.stat().st_mtime_ns
    file.write_text(text)
    os.utime(file, ns=(before + 10**9, before + 10**9))


async def change_of(buffer: FileBuffer) -> FileChange:
    change = await look(buffer)
    assert change is not None
    return change


@pytest.mark.parametrize(
    "data",
    [
        b"a: 1\nb: 2\n",
        b"a: 1\r\nb: 2\r\n",
        codecs.BOM_UTF8 + "a: ä\n".encode(),
        codecs.BOM_UTF16_LE + "a: ä\r\nb: 2\r\n".encode("utf-16-le"),
    ],
)
async def test_encoding_and_line_ends_stay(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    buffer = await open_buffer(file)
    assert "\r" not in buffer.saved and "\ufeff" not in buffer.saved
    saved = await save_buffer(buffer, buffer.saved)
    assert file.read_bytes() == data and saved.saved == buffer.saved
    assert await look(saved) is None, "hudtui's own writing is no change"


async def test_a_file_that_cannot_be_read_is_not_opened(file: Path) -> None:
    file.write_bytes(b"\xff\x00\x00")
    with pytest.raises(InputError):
        await open_buffer(file)
    with pytest.raises(InputError):
        await open_buffer(file.with_name("gone.yaml"))


async def test_an_untouched_text_follows_the_file(file: Path) -> None:
    buffer = await open_buffer(file)
    assert await look(buffer) is None
    write(file, "a: 3\n")
    now, outcome = buffer.changed(await change_of(buffer), buffer.saved)
    assert (outcome, now.saved, now.theirs) == ("followed", "a: 3\n", None)
    assert await look(now) is None


async def test_unsaved_work_is_a_conflict_until_the_user_decides(file: Path) -> None:
    buffer = await open_buffer(file)
    write(file, "theirs\n")
    now, outcome = buffer.changed(await change_of(buffer), "mine\n")
    assert (outcome, now.saved, now.theirs) == ("conflict", buffer.saved, "theirs\n")
    settled = now.settled()
    assert (settled.saved, settled.theirs) == ("theirs\n", None) and settled.settled() is settled
    saved = await save_buffer(settled, "mine\n")
    assert (file.read_text(), saved.saved) == ("mine\n", "mine\n")


async def test_a_file_that_holds_the_same_again_is_no_conflict(file: Path) -> None:
    buffer = await open_buffer(file)
    write(file, "theirs\n")
    conflict, _ = buffer.changed(await change_of(buffer), "mine\n")
    file.write_text("mine\n")
    os.utime(file, ns=(1, 1))
    now, outcome = conflict.changed(await change_of(conflict), "mine\n")
    assert (outcome, now.saved, now.theirs) == ("same", "mine\n", None)


async def test_a_file_that_is_gone_can_be_written_again(file: Path) -> None:
    buffer = await open_buffer(file)
    file.unlink()
    now, outcome = buffer.changed(await change_of(buffer), buffer.saved)
    assert (outcome, now.saved, now.theirs) == ("gone", buffer.saved, "")
    assert await look(now) is None, "it is noticed once"
    saved = await save_buffer(now.settled(), buffer.saved)
    assert file.read_text() == buffer.saved and saved.theirs is None
