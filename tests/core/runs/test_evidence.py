"""The episodes of a run as evidence: read on while it plays, here and on another machine."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from support.runs import make_run

from hudtui.core.remote.line_heads import line_heads
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs import evidence
from hudtui.core.runs.evidence import EpisodeEvidence
from hudtui.core.runs.store import RunStore
from hudtui.core.runs.watch import Monitor

FAILED = "episodes/failed_turns"


class Elsewhere(LocalHost):
    """A machine that is not this computer, and counts the bytes that come from it."""

    name = "box"

    def __init__(self) -> None:
        self.fetched = 0

    async def run(self, *given: Any, **more: Any) -> Any:
        done = await super().run(*given, **more)
        self.fetched += len(done.stdout)
        return done


def line(step: int, failed: int = 0, text: str = "", **changes: Any) -> str:
    record = {
        **dict(version=2, task="t", stop="max_turns", error=None, scores={"reward": 0.3}),
        **dict(info={"step": step, "split": "train"}, turn_count=2, slips={"failed": failed}),
        **dict(messages=[{"role": "user", "content": text}], turns=[]),
    }
    return json.dumps({**record, **changes}, separators=(",", ":")) + "\n"


def shares(read: EpisodeEvidence, name: str = FAILED) -> list[tuple[float, float]]:
    return [(point.x, point.y) for point in read.numbers.series(name)]


@pytest.mark.parametrize("host", [LocalHost(), Elsewhere()], ids=["here", "elsewhere"])
async def test_episodes_are_read_on_as_they_come(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    read = EpisodeEvidence(host, str(path))
    await read.read(whole=False)
    assert read.whole and read.numbers.names == (), "there is no file yet"
    path.write_text(line(1) + line(1, 2, "an \N{SNOWMAN}") + line(2, 2)[:60])
    await read.read(whole=False)
    assert read.whole and shares(read) == [(1, 0.5)], "a line without an end is being written"
    with path.open("a") as stream:
        stream.write(line(2, 2)[60:] + "no record\n\n" + line(1, 2) + line(3, info={"step": 3}))
    await read.read(whole=False)
    assert shares(read) == [(1, pytest.approx(2 / 3)), (2, 1), (3, 0)]
    path.write_text(line(1) + line(7, 1, "x" * 400))
    await read.read(whole=False)
    assert shares(read) == [(1, 0), (7, 0.5)], "the training went on from a checkpoint"


async def test_a_long_file_is_read_in_looks_and_whole_when_it_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "LOOK", 1)
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(line(step, 2, "x" * 100_000) for step in range(1, 121)))
    read = EpisodeEvidence(LocalHost(), str(path))
    await read.read(whole=False)
    assert not read.whole and 1 < len(shares(read)) < 120
    await read.read(whole=True)
    assert read.whole and len(shares(read)) == 120


async def test_conversations_stay_on_the_machine(tmp_path: Path) -> None:
    path, box = tmp_path / "traces.jsonl", Elsewhere()
    path.write_text("".join(line(step, 1, "x" * 100_000) for step in range(1, 61)))
    read = EpisodeEvidence(box, str(path))
    await read.read(whole=True)
    assert shares(read) == [(step, 0.5) for step in range(1, 61)] and box.fetched < 30_000


@pytest.mark.parametrize("host", [LocalHost(), Elsewhere()], ids=["here", "elsewhere"])
async def test_junk_and_lines_of_any_length_do_no_harm(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    junk = b"\x1b[2J\xff\xfe\x00" * 2_000_000  # longer than what is looked at together
    odd = [line(2, slips={"failed": 10**30}), line(2, info={"step": -1}), line(2, turn_count=None)]
    nan = line(4, 2, scores={"reward": float("nan")})
    path.write_bytes(junk + b"\n" + "".join([line(1, 2), *odd, nan]).encode())
    read = EpisodeEvidence(host, str(path))
    await read.read(whole=True)
    assert shares(read) == [(1, 1), (4, 1)] and read.problem is None
    path.unlink()
    path.mkdir()
    await read.read(whole=True)
    assert "not a regular file" in (read.problem or "")


@pytest.mark.parametrize("host", [LocalHost(), Elsewhere()], ids=["here", "elsewhere"])
async def test_a_file_that_was_cut_since_its_size_was_told(host: LocalHost, tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_bytes(b"one\ntwo tells much\nthr")
    options: dict[str, Any] = {"longest": 9, "until": b"tells"}
    heads = await line_heads(host, str(path), 0, 1_000, **options)
    assert heads is not None and heads.end == path.read_bytes().rindex(b"\n") + 1
    assert heads.lines[0] == b"one" and heads.lines[1].startswith(b"two tells"[:9])
    assert await line_heads(host, str(path), heads.end, 1_000, **options) is None


async def test_a_run_that_goes_on_shows_what_its_episodes_say(tmp_path: Path) -> None:
    """The numbers of this training say nothing of its calls, of which all fail."""
    rows = [{"step": step, "reward": 0.3, "reward_std": 0.2} for step in range(1, 61)]
    make_run(tmp_path, "ill-aaaa", "running", rows=rows, engine="trl")
    traces = tmp_path / ".hudtui" / "runs" / "ill-aaaa" / "out" / "traces.jsonl"
    traces.write_text("".join(line(step, 2 * (step > 30)) for step in range(1, 61)))
    view = await Monitor(RunStore(tmp_path / ".hudtui")).view("ill-aaaa")
    assert view.summary.active and view.diagnosis is not None
    assert "tools-fail" in [one.signature for one in view.diagnosis.findings]
    assert "tools-fail" in [alarm.kind for alarm in view.alarms]


async def test_a_look_that_is_broken_off_counts_no_episode_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, loop = tmp_path / "traces.jsonl", asyncio.get_running_loop()
    path.write_text(line(1, 2))
    read, read_played = EpisodeEvidence(LocalHost(), str(path)), evidence.read_played
    reads, goes_on = asyncio.Event(), threading.Event()

    def slow(head: bytes) -> evidence.Played | None:
        loop.call_soon_threadsafe(reads.set)
        goes_on.wait()
        return read_played(head)

    monkeypatch.setattr(evidence, "read_played", slow)
    look = asyncio.create_task(read.read(whole=False))
    await reads.wait()
    look.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await look
    with path.open("a") as stream:
        stream.write(line(1))
    await read.read(whole=False)
    assert shares(read) == [(1, 0.5)]
