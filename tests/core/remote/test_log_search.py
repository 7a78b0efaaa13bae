"""Searching a log where it is: on this computer and behind SSH, by grep and without it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.sshd import connect_ssh

from hudtui.core.errors import MachineError
from hudtui.core.pattern import Pattern
from hudtui.core.remote import log_search
from hudtui.core.remote.host import Completed, Host
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.log_search import LogMatch, search_log
from hudtui.core.remote.logs import lines_before


async def found(
    host: Host, path: Path, text: str, *, regex: bool = True, **how: Any
) -> list[LogMatch]:
    pattern = Pattern(text, regex=regex)
    assert not pattern.error
    return [match async for match in search_log(host, str(path), pattern, **how)]


def offset_of(log: Path, line: bytes) -> int:
    return log.read_bytes().index(line)


async def test_a_log_is_searched_to_its_beginning(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = [f"step {number} loss={number / 7:.3f}" for number in range(30_000)]
    lines[3] = "config Seed=7"
    lines[29_000] = "\x1b[31mOut of Memory\x1b[0m\x1b]52;c;ZXZpbA==\x07 at 数"
    log.write_text("\n".join(lines) + "\n")
    (first,) = await found(host, log, "seed=\\d")
    assert first == LogMatch(offset_of(log, b"config"), "config Seed=7")
    (memory,) = await found(host, log, "of memory")
    assert memory.text == "Out of Memory at 数" and memory.offset == offset_of(log, b"\x1b[31m")
    assert not await found(host, log, "out of Memory"), "a capital letter asks for exactly that"
    assert not await found(host, log, "seed=\\d", regex=False)
    steps = await found(host, log, "^step .*0$", most=2_500)
    assert len(steps) == 2_500 and steps == sorted(set(steps), key=lambda match: match.offset)
    (second,) = await found(host, log, "step", offset=first.offset, most=1)
    assert second.text.startswith("step 4 ")
    assert not await found(host, log, "memory", stop=memory.offset)
    assert not await found(host, tmp_path / "none.log", "x")


@pytest.mark.parametrize(
    ("text", "regex", "line"),
    [
        ("loss=0.3", False, "loss=\x1b[32m0.3\x1b[0m"),
        ("^INFO step$", True, "\x1b[36mINFO step\x1b[0m"),
        ("a.c*[d]{2}|(x", False, "xx A.C*[D]{2}|(X yy"),
        ("$HOME `id` 'q' \"p\" \\", False, "$HOME `id` 'q' \"p\" \\"),
        ("-e", False, "run -e now"),
        ("--help", True, "see --help"),
        ("é", False, "CAFÉ"),
        ("数字", True, "名前と数字"),
        ("^.é$", True, "xé"),
        (r"\bgpu\s+\d{1,3}%", True, "gpu  97%"),
        (r"(?P<n>\d+)/(?P=n)$", True, "12/12"),
        (r"loss(?!\w)", True, "loss 3"),
        (r"^x{,2}y", True, "xxy"),
        (r"(?x) a  b # words", True, "zabz"),
        ("a\tb", False, "a\tb"),
        ("done$", True, "10%\r50%\rdone\r"),
        ("after", False, "before\0after"),
        ("bad", False, "\udcff\udcfe bad"),
        ("x" * 3000, False, "x" * 3000),
        ("", True, "any line"),
    ],
)
async def test_a_pattern_finds_what_the_screen_shows(
    host: Host, tmp_path: Path, text: str, regex: bool, line: str
) -> None:
    log = tmp_path / "log"
    others = ["", "other", "gpu 9", "10/11", "lossy"] if text else []
    log.write_bytes(
        "".join(one + "\n" for one in [*others, line]).encode("utf-8", "surrogateescape")
    )
    matches = await found(host, log, text, regex=regex)
    assert len(matches) == 1 and matches[0].offset >= sum(len(one) + 1 for one in others)


async def test_what_a_progress_bar_has_drawn_over_is_not_found(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"10%\r50%\r100% done\r\n" + b"x" * 3_000_000 + b"needle\nlast without end")
    assert [match.text for match in await found(host, log, "done")] == ["100% done"]
    assert not await found(host, log, "50%")
    (long,) = await found(host, log, "^x+")
    assert len(long.text) < 5_000 and long.text.endswith("more characters]")
    (last,) = await found(host, log, "without")
    assert log.read_bytes()[last.offset :] == b"last without end"


async def test_a_hole_is_not_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was emptied while its writer held a place in it begins with a hole."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in ("grep", "cut"):
        words = f'#!/bin/sh\nulimit -v 40000\nexec {shutil.which(tool)} "$@"\n'
        (programs / tool).write_text(words)
        (programs / tool).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    read: list[int] = []

    class Counted(LocalHost):
        async def get(self, *what: Any, **how: Any) -> bytes:
            data = await super().get(*what, **how)
            read.append(len(data))
            return data

    log, end = tmp_path / "log", 3 * 2**30
    with log.open("wb") as stream:
        stream.truncate(end)
        stream.seek(0, os.SEEK_END)
        stream.write(b"the end\n")
    (match,) = await found(Counted(), log, "the end", offset=end - 2**26)
    assert match == LogMatch(end, "the end")
    assert sum(read) < 2**24, "a program failed, and the log was read here"


@pytest.mark.parametrize("span", [40, 1_000, 65_537])
async def test_parts_of_a_log_cut_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: int
) -> None:
    monkeypatch.setattr(log_search, "SPAN", span)
    log = tmp_path / "log"
    count = 60 if span < 100 else 3_000
    log.write_text("".join(f"a line {number} b\n" for number in range(count)))
    reached: list[int | None] = []
    matches = await found(LocalHost(), log, "^a line .* b$", progress=reached.append)
    assert [match.text for match in matches] == [f"a line {number} b" for number in range(count)]
    assert reached[-1] is None and reached[:-1] == sorted(set(reached[:-1]))  # type: ignore[type-var]


async def test_an_answer_that_does_not_end_takes_further_commands(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number} {'z' * (number % 90)}\n" for number in range(3_000)))
    for size in (400, 401, 402, 5_000, 10**6):
        monkeypatch.setattr(log_search, "_ANSWER", size)
        matches = await found(host, log, "line", most=200, offset=0)
        assert [match.text.split()[1] for match in matches] == [
            str(number) for number in range(200)
        ]
    assert len(await found(host, log, "line")) == 3_000


@pytest.mark.parametrize("missing", ["grep", "cut", "tail", "P", "b"])
async def test_without_the_tools_the_log_is_read(
    ssh_box: Any, tmp_path: Path, missing: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in ("sh", "head", "tr", "cut", "tail", "grep"):
        if tool != missing:
            (programs / tool).symlink_to(str(shutil.which(tool)))
    if len(missing) == 1:  # as of busybox, which does not know these options
        (programs / "grep").unlink()
        words = (
            f'case $1 in *{missing}*) echo "grep: unrecognized option: {missing}" >&2; exit '
            "2;; esac"
        )
        (programs / "grep").write_text(f'#!/bin/sh\n{words}\nexec {shutil.which("grep")} "$@"\n')
        (programs / "grep").chmod(0o755)
    ssh_box.world(PATH=str(programs))
    log = ssh_box.home / "log"
    log.write_text("".join(f"step {number}\n" for number in range(500)) + "x" * 200_000 + "\nend")
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        matches = await found(host, log, r"^step 4\d{2}$")
        assert [match.text for match in matches] == [f"step {number}" for number in range(400, 500)]
        assert matches[-1].offset == offset_of(log, b"step 499")
        (end,) = await found(host, log, "end", regex=False)
        assert log.read_bytes()[end.offset :] == b"end"


async def test_what_cannot_be_searched_is_an_error_with_its_reason(
    host: Host, tmp_path: Path
) -> None:
    with pytest.raises(MachineError, match="is not read") as refused:
        await found(host, tmp_path, "x")
    assert "not a regular file" in str(refused.value.why)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(MachineError, match="is not read"):
        await found(host, tmp_path / "pipe", "x")


async def test_an_expression_without_end_is_named(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a" * 60 + "!\n")
    with pytest.raises(MachineError, match="takes too long") as refused:
        await found(host, log, r"^(a+)+\1?b$")
    assert refused.value.fix


@pytest.mark.parametrize(
    "answer", ["", "x\n", "end 0", "5:x", "99999:x\n99999:y\nend", "\x1b]0;evil\x07", "-3:x\nend"]
)
async def test_an_answer_that_makes_no_sense_is_not_believed(tmp_path: Path, answer: str) -> None:
    class Talkative(LocalHost):
        async def run(self, *_: Any, **__: Any) -> Completed:
            return Completed((), 0, answer, "")

    (tmp_path / "log").write_text("x\n")
    with pytest.raises(MachineError, match="could not be searched") as refused:
        await found(Talkative(), tmp_path / "log", "x")
    assert "\x1b" not in str(refused.value.why)


async def test_earlier_lines_are_found_from_any_place(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    data = log.read_bytes()
    place = data.index(b"line 5000\n")
    start, lines = await lines_before(host, log, place, 2_000)
    assert lines == [f"line {number}" for number in range(3_000, 5_000)] and data[
        start:
    ].startswith(b"line 3000\n")
    assert await lines_before(host, log, data.index(b"line 100\n"), 2_000) == (
        0,
        [f"line {number}" for number in range(100)],
    )
    assert await lines_before(host, log, 0, 10) == (0, [])
    assert await lines_before(host, log, len(data) + 50, 10) == (len(data) + 50, []), (
        "the log has become shorter"
    )


async def test_earlier_lines_begin_where_a_line_begins(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number} {'x' * 400_000}\n" for number in range(6)) + "last\n")
    data = log.read_bytes()
    start, lines = await lines_before(host, log, data.index(b"last"), 5)
    assert [line[:6] for line in lines] == ["line 4", "line 5"] and data[start:].startswith(
        b"line 4"
    ), "a megabyte at a time"
