"""Searching a log where it is: on this computer and behind SSH, in pages, by level, and by the time of its lines."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote import log_search
from hudtui.core.remote.host import Completed, Host
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.log_search import Level, LogFilter, LogMatch, SearchProgress, offset_of_time, search_log
from hudtui.core.remote.logs import lines_before
from hudtui.pod import search


async def found(host: Host, path: Path, wanted: LogFilter, **how: Any) -> list[LogMatch]:
    return [match async for match in search_log(host, str(path), wanted, **how)]


async def test_a_log_is_searched_to_its_beginning(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = [f"step {number} loss={number / 7:.3f}" for number in range(30_000)]
    lines[3] = "config Seed=7"
    lines[29_000] = "\x1b[31mOut of Memory\x1b[0m\x1b]52;c;ZXZpbA==\x07 at 数"
    log.write_text("\n".join(lines) + "\n")
    (first,) = await found(host, log, LogFilter("seed=\\d"))
    assert (first.number, first.text) == (3, "config Seed=7")
    assert log.read_bytes()[first.offset :].startswith(b"config Seed")
    (memory,) = await found(host, log, LogFilter("of memory"))
    assert memory.number == 29_000 and memory.text.startswith("Out of Memory") and "\x1b" not in memory.text
    assert not await found(host, log, LogFilter("out of Memory"))  # a capital letter asks for exactly that
    assert not await found(host, log, LogFilter("seed=\\d", regex=False))
    steps = await found(host, log, LogFilter("^step .*0$"), most=2_500)
    assert len(steps) == 2_500 and steps == sorted(steps, key=lambda match: match.number)  # in several requests
    assert len({match.number for match in steps}) == 2_500
    assert [match.number for match in await found(host, log, LogFilter("step"), offset=first.offset, most=1)] == [1]
    assert not await found(host, log, LogFilter("memory"), stop=memory.offset)
    assert not await found(host, tmp_path / "none.log", LogFilter("x"))


async def test_lines_of_a_level_come_with_what_belongs_to_them(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(
        "INFO started\nWARNING slow\n  twice\nINFO fine\nTraceback (most recent call last):\n  File x\nValueError: no\nINFO on\n"
    )

    async def numbers(level: Level, pattern: str = "") -> list[int]:
        return [match.number for match in await found(host, log, LogFilter(pattern, level=level))]

    assert await numbers(Level.ERROR) == [4, 5, 6]
    assert await numbers(Level.WARNING) == [1, 2, 4, 5, 6]
    assert await numbers(Level.WARNING, "^ ") == [2, 5]
    assert len(await numbers(Level.INFO)) == 8 and not await numbers(Level.ERROR, "started")


async def test_pages_go_on_with_the_level_and_number_of_the_page_before(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "MOST_FOUND", 3)
    log = tmp_path / "log"
    log.write_text("ERROR begins\n" + "".join(f"  frame {number}\n" for number in range(10)) + "INFO ends\n")
    matches = await found(host, log, LogFilter(level=Level.ERROR))
    assert [match.number for match in matches] == list(range(11)) and matches[-1].text == "  frame 9"


async def test_lines_without_end_and_returns_are_searched_as_they_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"10%\r50%\r100% done\r\n" + b"x" * 3_000_000 + b"needle\nlast without end")
    host = LocalHost()
    assert [match.text for match in await found(host, log, LogFilter("done"))] == ["100% done"]
    assert not await found(host, log, LogFilter("50%"))
    (long,) = await found(host, log, LogFilter("^x+"))
    assert (long.number, len(long.text) < 5_000, "more characters" in long.text) == (1, True, True)
    (last,) = await found(host, log, LogFilter("without"))
    assert log.read_bytes()[last.offset :] == b"last without end" and last.number == 2


async def test_what_cannot_be_searched_is_an_error_with_its_reason(host: Host, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a regular expression"):
        await found(host, tmp_path / "log", LogFilter("a(b"))
    with pytest.raises(MachineError, match="could not be searched") as refused:
        await found(host, tmp_path, LogFilter("x"))
    assert "directory" in str(refused.value.why)


async def test_a_machine_that_answers_with_more_lines_than_were_asked_for_is_not_believed(tmp_path: Path) -> None:
    class Talkative(LocalHost):
        async def run(self, *_: Any, **__: Any) -> Completed:
            return Completed((), 0, json.dumps({"found": [[n, n, "x"] for n in range(3)], "next": None, "level": 0}), "")

    assert len(await found(Talkative(), tmp_path / "log", LogFilter("x"), most=3)) == 3
    with pytest.raises(MachineError, match="could not be searched") as refused:
        await found(Talkative(), tmp_path / "log", LogFilter("x"), most=2)
    assert "3 lines, and 2 were asked for" in str(refused.value.why)


async def test_the_place_of_a_time_comes_from_the_sizes_that_were_recorded(host: Host, tmp_path: Path) -> None:
    times, now = tmp_path / "log_times.jsonl", time.time()
    rows = [[now - 900, "train", 10], [now - 800, "serve", 7], [now - 600, "train", 500], "torn", [now - 300, "train", 900]]
    times.write_text("".join(json.dumps(row) + "\n" for row in rows) + '[1, "tr')
    assert await offset_of_time(host, times, "train", 700) == 10
    assert await offset_of_time(host, times, "train", 400) == 500
    assert await offset_of_time(host, times, "train", 5) == 900
    assert await offset_of_time(host, times, "train", 5_000) == 0
    assert await offset_of_time(host, times, "other", 5) == 0
    assert await offset_of_time(host, tmp_path / "none", "train", 5) is None


async def test_earlier_lines_are_found_from_any_place(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))
    data = log.read_bytes()
    place = data.index(b"line 5000\n")
    start, lines = await lines_before(host, log, place, 2_000)
    assert lines == [f"line {number}" for number in range(3_000, 5_000)] and data[start:].startswith(b"line 3000\n")
    assert await lines_before(host, log, data.index(b"line 100\n"), 2_000) == (0, [f"line {number}" for number in range(100)])
    assert await lines_before(host, log, 0, 10) == (0, [])
    assert await lines_before(host, log, len(data) + 50, 10) == (len(data) + 50, []), "the log has become shorter"


async def test_earlier_lines_begin_where_a_line_begins(host: Host, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number} {'x' * 400_000}\n" for number in range(6)) + "last\n")
    data = log.read_bytes()
    start, lines = await lines_before(host, log, data.index(b"last"), 5)
    assert [line[:6] for line in lines] == ["line 4", "line 5"] and data[start:].startswith(b"line 4"), "a megabyte at a time"


async def test_a_search_tells_how_far_it_is_and_the_level_at_its_end(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_search, "SPAN", 1_000)
    log = tmp_path / "log"
    log.write_text("INFO x\n" * 500 + "ERROR y\n")
    told: list[SearchProgress] = []
    (match,) = await found(host, log, LogFilter("y", level=Level.INFO), progress=told.append)
    assert match.number == 500
    assert [one.offset for one in told] == [1_001, 2_002, 3_003, None]
    assert told[-1].level is Level.ERROR and told[0].level is Level.INFO


def test_the_program_needs_no_installed_package_and_no_text_encoding(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes("ünïcode 数\n".encode())
    order = {"path": str(log), "pattern": "数", "regex": True, "level": 0, "begin": None, "stop": None, "most": 5}
    command = [sys.executable, "-I", "-S", str(Path(search.__file__))]
    done = subprocess.run(command, input=json.dumps(order).encode(), capture_output=True, check=True, env={"LC_ALL": "C"})
    assert json.loads(done.stdout)["found"] == [[0, 0, "ünïcode 数"]]
