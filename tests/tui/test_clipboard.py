"""Copying: through a real tmux, through OSC 52, and into a file, and what is said about it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import stat
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from hudtui.tui.clipboard import OSC52_LIMIT, copy

TEXT = "first line\nzweite Zeile äöü 名前\n"
SEQUENCE = f"\x1b]52;c;{b64encode(TEXT.encode()).decode()}\a"


async def test_a_plain_terminal_gets_osc_52_and_a_file(tmp_path: Path) -> None:
    sent: list[str] = []
    copied = await copy(
        TEXT, write=sent.append, file=tmp_path / "state" / "copied.txt", environ={"TERM": "xterm"}
    )
    assert copied.way == "osc52" and sent == [SEQUENCE]
    assert copied.file is not None and copied.file.read_text() == TEXT
    assert stat.S_IMODE(copied.file.stat().st_mode) == 0o600
    assert copied.note == f"Copied 2 lines through the terminal (OSC 52); also in {copied.file}."


@pytest.mark.parametrize(
    "bad",
    [
        "\x1b[201~",
        "\x1b]52;c;eA==\x07",
        "\x1bP+q\x1b\\",
        "\x9b201~",
        "\x90q\x9c",
        "\x03",
        "\x04",
        "\x08",
        "\x7f",
        "\u202e",
        "\u2066",
    ],
)
async def test_what_is_pasted_into_a_shell_commands_it_nothing(bad: str, tmp_path: Path) -> None:
    sent: list[str] = []
    copied = await copy(
        f"one{bad}\n\ttwo", write=sent.append, file=tmp_path / "copied.txt", environ={}
    )
    assert b64decode(sent[0][7:-1]) == b"one\n\ttwo"
    assert copied.file is not None and copied.file.read_text() == "one\n\ttwo"


async def test_half_a_character_is_copied_as_a_mark(tmp_path: Path) -> None:
    sent: list[str] = []
    await copy("a\ud800b", write=sent.append, file=tmp_path / "copied.txt", environ={})
    assert b64decode(sent[0][7:-1]).decode() == "a\ufffdb"


async def test_what_a_terminal_would_drop_goes_into_the_file_only(tmp_path: Path) -> None:
    sent: list[str] = []
    copied = await copy(
        "x" * (OSC52_LIMIT + 1), write=sent.append, file=tmp_path / "copied.txt", environ={}
    )
    assert copied.way == "file" and sent == []
    assert (
        "too long for the terminal" in copied.note and str(tmp_path / "copied.txt") in copied.note
    )


async def test_a_terminal_that_ignores_it_is_known(tmp_path: Path) -> None:
    sent: list[str] = []
    copied = await copy(
        "x",
        write=sent.append,
        file=tmp_path / "copied.txt",
        environ={"TERM_PROGRAM": "Apple_Terminal"},
    )
    assert copied.way == "file" and sent == []


async def test_no_way_at_all_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, where the folder would be")
    copied = await copy("x", write=None, file=tmp_path / "state" / "copied.txt", environ={})
    assert copied.way == "file" and copied.file is None and copied.note.startswith("Not copied: ")


async def test_a_secret_is_kept_in_no_file() -> None:
    sent: list[str] = []
    copied = await copy("s3cret", write=sent.append, file=None, environ={})
    assert copied.way == "osc52" and copied.file is None and "no file keeps it" in copied.note
    copied = await copy("s3cret", write=None, file=None, environ={})
    assert copied.note.startswith("Not copied: ")


async def test_a_tmux_that_is_gone_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/no-socket,1,0")
    sent: list[str] = []
    copied = await copy(TEXT, write=sent.append, file=tmp_path / "copied.txt")
    assert copied.way == "osc52" and sent == [SEQUENCE]


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    assert shutil.which("tmux"), "tmux is needed"
    path = tmp_path / "socket"
    yield path
    subprocess.run(["tmux", "-S", str(path), "kill-server"], capture_output=True)


def test_real_tmux_hands_it_to_its_terminal(tmp_path: Path, socket: Path) -> None:
    """tmux as it comes, without any setting: it passes the text on, and keeps it as its own
    buffer."""
    script = tmp_path / "put.py"
    script.write_text(
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from hudtui.tui.clipboard import copy\n"
        f"copied = asyncio.run(copy({TEXT!r}, write=sys.stdout.write, "
        f"file=Path({str(tmp_path / 'copied.txt')!r})))\n"
        f"Path({str(tmp_path / 'note.txt')!r}).write_text(copied.way + ': ' + copied.note)\n"
        "import time; time.sleep(30)\n"
    )
    master, slave = pty.openpty()
    process = subprocess.Popen(
        ["tmux", "-S", str(socket), "-f", os.devnull, "new-session", sys.executable, str(script)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(slave)
    output = b""
    wanted = b64encode(TEXT.encode())
    end = time.monotonic() + 60
    while wanted not in output and time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                output += os.read(master, 65536)
            except OSError:
                raise AssertionError(f"tmux ended: {output!r}") from None
    note = tmp_path / "note.txt"
    while not note.exists() and time.monotonic() < end:
        time.sleep(0.05)
    buffer = subprocess.run(
        ["tmux", "-S", str(socket), "show-buffer"], capture_output=True, text=True
    ).stdout
    subprocess.run(["tmux", "-S", str(socket), "kill-server"], capture_output=True)
    process.wait(20)
    os.close(master)
    assert b"\x1b]52;" in output and wanted in output, "the outer terminal was given the text"
    assert buffer == TEXT
    assert note.read_text().startswith("tmux: Copied 2 lines through tmux; also in ")
