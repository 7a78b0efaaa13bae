from __future__ import annotations

import asyncio
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.tracker_files import TENSORBOARD, field, history, trackio_file, wandb_file

from hudtui.core.diagnosis.alarms import USUAL
from hudtui.core.errors import InputError, MachineError
from hudtui.core.remote.host import Completed
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs import sessions
from hudtui.core.runs.launch import launch, stop_run
from hudtui.core.runs.sessions import (
    ExternalSession,
    LogSource,
    SessionUpdate,
    SessionWatcher,
    _folder,
    _place,
    find_session,
    list_tmux_sessions,
)
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.tracker_files import _masked

HOST = LocalHost()
_RECORDS = [history({"_step": step, "loss": step / 3}) for step in range(3)]
WANDB = wandb_file(_RECORDS)
WANDB_LAST = len(wandb_file(_RECORDS[:2]))


def tmux(*arguments: str) -> str:
    done = subprocess.run(["tmux", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def session(name: str, script: str, *, size: tuple[int, int] = (80, 24)) -> None:
    """A tmux session that waits for a line before it runs its script, and stays."""
    wide, tall = map(str, size)
    tmux(
        "new-session",
        "-d",
        "-x",
        wide,
        "-y",
        tall,
        "-s",
        name,
        "bash",
        "--norc",
        "-c",
        f"read go; {script}\nread end",
    )


async def until(
    watch: SessionWatcher, done: Callable[[list[SessionUpdate]], bool]
) -> list[SessionUpdate]:
    """What is seen until `done`; the test's own time limit ends a watch that never gets there."""
    seen: list[SessionUpdate] = []
    async with aclosing(watch.follow()) as events:
        async for one in events:
            seen.append(one)
            if done(seen):
                return seen
    return seen


def lines_of(seen: list[SessionUpdate], source: str | None = None) -> list[str]:
    return [line for one in seen if source in (None, one.source) for line in one.lines]


async def test_a_session_is_followed_line_by_line() -> None:
    wide = "x" * 200
    script = (
        "for i in $(seq 300); do echo line $i; [ $((i % 50)) = 0 ] && sleep 0.3; done; for i in "
        f"$(seq 40); do echo same; done; echo {wide}; echo 'step 5/9 reward=0.5 loss=0.25'; echo "
        "the end; echo"
    )
    session("theirs", script)
    before = tmux("list-panes", "-a", "-F", "#{pane_pipe} #{pane_in_mode} #{session_attached}")
    watch = SessionWatcher(HOST, await find_session(HOST, session="theirs"), lines=1000)
    assert watch.foreign.title == "theirs" and len(watch.foreign.sources) == 1

    tmux("send-keys", "-t", "=theirs:", "go", "Enter")
    seen = await until(watch, lambda seen: "the end" in lines_of(seen))
    lines = lines_of(seen)
    assert [line for line in lines if line.startswith("line ")] == [
        f"line {n}" for n in range(1, 301)
    ]
    assert lines.count("same") == 40 and lines.count(wide) == 1
    assert watch.numbers.series("reward")[0].y == 0.5 and watch.numbers.max_step == 9
    assert not any(one.note for one in seen)
    assert (
        tmux("list-panes", "-a", "-F", "#{pane_pipe} #{pane_in_mode} #{session_attached}") == before
    )


async def test_more_than_the_window_remembers_is_said_to_be_missing() -> None:
    tmux(
        "start-server",
        ";",
        "set-option",
        "-g",
        "history-limit",
        "200",
        ";",
        "new-session",
        "-d",
        "-s",
        "first",
        "cat",
    )
    session("flood", "seq 1 20; sleep 1; seq 21 5000; echo the end; echo")
    tmux("send-keys", "-t", "=flood:", "go", "Enter")
    seen = await until(
        SessionWatcher(HOST, await find_session(HOST, session="flood")),
        lambda seen: "the end" in lines_of(seen),
    )
    numbers = [int(line) for line in lines_of(seen) if line.isdigit()]
    assert numbers == sorted(set(numbers)) and numbers[-1] == 5000
    if len(numbers) < 5000:
        assert any(one.note and "missing" in one.note for one in seen)


async def test_windows_that_are_closed_or_full_of_a_program() -> None:
    session("short", "echo hello; echo")
    tmux("send-keys", "-t", "=short:", "go", "Enter")
    watch, seen = (
        SessionWatcher(HOST, await find_session(HOST, session="short")),
        list[SessionUpdate](),
    )
    async with aclosing(watch.follow()) as events:
        async for one in events:
            seen.append(one)
            if "hello" in one.lines:
                tmux("kill-session", "-t", "=short")
    assert seen[-1].note == "the window was closed"
    session("full", "printf '\\033[?1049h'; echo inside")
    tmux("send-keys", "-t", "=full:", "go", "Enter")
    seen = await until(
        SessionWatcher(HOST, await find_session(HOST, session="full")),
        lambda seen: any(one.note for one in seen),
    )
    assert "full-screen program" in (seen[-1].note or "")


async def test_sessions_are_found_by_name() -> None:
    with pytest.raises(InputError, match="has no tmux session"):
        await find_session(HOST)
    session("alpha", "true")
    assert (await find_session(HOST)).title == "alpha"
    session("beta", "true")
    with pytest.raises(InputError) as caught:
        await find_session(HOST)
    assert "alpha" in str(caught.value.why) and "beta" in str(caught.value.why)
    session("hudtui-x-1", "true")
    assert (await find_session(HOST)).title == "hudtui-x-1"
    assert (await find_session(HOST, session="x-1")).title == "hudtui-x-1"
    assert (await find_session(HOST, session="al")).title == "alpha"
    with pytest.raises(InputError, match="no tmux session 'gamma'"):
        await find_session(HOST, session="gamma")
    session("hudtui-x-2", "true")
    with pytest.raises(InputError, match="several tmux sessions"):
        await find_session(HOST, session="hudtui-x")
    assert {one.run for one in await list_tmux_sessions(HOST)} == {None, "x-1", "x-2"}


async def test_a_run_of_a_colleague_is_read_from_its_files(
    store: RunStore, make: Callable[..., RunRecord]
) -> None:
    row = json.dumps({"step": 1, "max_steps": 2, "reward": 0.75})
    record = make(f"echo begun; echo '{row}' >> out/metrics.jsonl; sleep 60", run="theirs-1")
    async for _ in launch(record, HOST, store):
        pass
    async with aclosing(HOST.follow(f"{record.folder}/out/metrics.jsonl")) as chunks:  # type: ignore[type-var]
        await anext(chunks)
    # Nothing but the name of the session is known: neither the store nor the folder.
    foreign = await find_session(HOST)
    assert foreign.folder == record.folder and [source.name for source in foreign.sources] == [
        "s0",
        "metrics",
    ]
    watch = SessionWatcher(HOST, foreign)
    seen = await until(
        watch, lambda seen: "begun" in lines_of(seen, "s0") and any(one.rows for one in seen)
    )
    assert watch.numbers.series("reward")[0].y == 0.75
    assert [row["reward"] for one in seen for row in one.rows] == [0.75]
    await stop_run(record.id, HOST, store)


async def test_a_log_is_read_from_its_end_with_all_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    text = "".join(
        f"{{'loss': '{1 / n:.4f}', 'reward': '{n}', 'epoch': '0.1'}}\n" for n in range(1, 2001)
    )
    path.write_text(text + "RuntimeError: CUDA out of memory. \x1b]52;c;AAAA\x07\x1b[31mred\n")
    watch = SessionWatcher(
        HOST,
        ExternalSession("x", (LogSource("train.log", path=str(path)),)),
        lines=3,
        now=lambda: 7.0,
    )
    seen = [one async for one in watch.follow(once=True)]
    assert [line[:9] for line in lines_of(seen)] == ["{'loss': ", "{'loss': ", "RuntimeEr"]
    assert watch.numbers.series("reward")[-1].y == 2000 and watch.numbers.count == 2000
    assert [sign.kind for one in seen for sign in one.signs] == ["memory"]
    assert "\x1b" not in "".join(lines_of(seen)) and "\x07" not in "".join(lines_of(seen))
    nothing = SessionWatcher(
        HOST, ExternalSession("x", (LogSource("none", path=str(tmp_path / "none")),))
    )
    with pytest.raises(MachineError, match="there is no file"):
        [one async for one in nothing.follow(once=True)]


async def test_a_log_that_begins_anew_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n")
    watch, seen = (
        SessionWatcher(HOST, ExternalSession("x", (LogSource("log", path=str(path)),))),
        list[SessionUpdate](),
    )
    async with aclosing(watch.follow()) as events:
        async for one in events:
            seen.append(one)
            if lines_of(seen)[-1:] == ["one"]:
                path.write_text("")
                await asyncio.sleep(0.6)
                path.write_text("two\n")
            elif "two" in lines_of(seen):
                break
    assert any(one.note == "the log was restarted" for one in seen)


@pytest.mark.parametrize("kind", ["log", "wandb", "tensorboard", "trackio", "trainer"])
async def test_a_followed_file_that_is_removed_is_told(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_LOOK", 0.01)
    names = {"wandb": "run-1.wandb", "tensorboard": "events.out.tfevents.1.box"}
    names |= {"trackio": "p.db", "trainer": "trainer_state.json"}
    path = tmp_path / names.get(kind, "train.log")

    run = wandb_file(history({"_step": n, "loss": 1 / (n + 1)}) for n in range(3))
    whole = {"wandb": run, "tensorboard": TENSORBOARD, "trainer": _state(1.0, 0.5)}
    if kind == "trackio":
        trackio_file(path, [("theirs", 0, {"loss": 1.0})])
    else:
        path.write_bytes(whole.get(kind, b'{"step": 1, "loss": 0.5}\n'))
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)))

    def done(seen: list[SessionUpdate]) -> bool:
        if seen[-1].rows:
            path.unlink()
        return seen[-1].note is not None and "is gone" in seen[-1].note

    seen = await until(watch, done)
    assert seen[-1].note == f"{path} is gone; a new file of its name is followed"
    assert watch.numbers.count, "what was read stays"


@pytest.mark.parametrize(
    ("before", "lines", "grown", "place"),
    [
        (["a", "b"], ["a", "b", "c"], 1, 2),
        (["x", "x"], ["x", "x", "x", "x", "x"], 2, 3),
        (["x", "x"], ["x", "x"], 0, 2),
        (["a"], ["b", "c"], -5, None),
        ([], ["b"], 1, 0),
        (["a", "b"], ["b", "a", "b", "c", "a", "b"], -1, 6),
    ],
)
def test_where_new_lines_begin(
    before: list[str], lines: list[str], grown: int, place: int | None
) -> None:
    assert _place(before, lines, grown) == place


def test_the_folder_of_a_run_is_read_from_its_command() -> None:
    assert _folder("tail -c +1 -F '/runs/a b/logs/play.log'") == "/runs/a b"
    assert _folder('"tail -c +120 -F /r/logs/play.log"') == "/r"
    unlike = [
        "",
        "bash",
        "tail -F",
        "tail -f /r/logs/x.log",
        "tail -c +1 -F logs/x.log",
        "tail -c +1 -F /r/x.log",
        "a 'b",
    ]
    assert [_folder(one) for one in unlike] == [None] * len(unlike)


async def test_followed_logs_have_the_alarms_of_own_runs(tmp_path: Path) -> None:
    path = tmp_path / "their.log"
    path.write_text(
        "{'loss': 0.1, 'reward': 0.5, 'reward_std': 0.2}\n"
        + "{'loss': nan, 'reward': 0.5, 'reward_std': 0.0}\n" * 10
    )
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)), from_when=USUAL)
    assert [seen async for seen in watch.follow(once=True)]
    told = {alarm.kind: alarm.text for alarm in watch.alarms}
    assert (
        set(told) == {"not-a-number", "constant-reward"}
        and "loss is NaN or infinite" in told["not-a-number"]
        and "for 10 steps" in told["constant-reward"]
    )
    with path.open("a") as stream:
        stream.write("EngineDeadError: gone\ntorch.OutOfMemoryError: CUDA out of memory\n")
    again = SessionWatcher(HOST, watch.foreign, from_when=USUAL)
    assert [seen async for seen in again.follow(once=True)]
    assert [alarm.kind for alarm in again.alarms] == [
        "memory",
        "server",
        "not-a-number",
        "constant-reward",
    ]


@pytest.mark.parametrize(
    ("name", "head", "words"),
    [
        ("other.db", b"SQLite format 3\0" + bytes(100), "cannot be read"),
        ("trainer_state.json", b"{}", "cannot be read"),
        ("model.bin", b"\x80\0\0", "is not a text file"),
    ],
)
async def test_what_holds_no_numbers_is_named(
    tmp_path: Path, name: str, head: bytes, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "POLL", 0.0)
    (tmp_path / name).write_bytes(head)
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(tmp_path / name)))
    with pytest.raises(InputError, match=words):
        [seen async for seen in watch.follow(once=True)]


def _changed(whole: bytes, place: int) -> bytes:
    return whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]


@pytest.mark.parametrize(
    ("name", "content", "words", "rows"),
    [
        ("run-1.wandb", _changed(WANDB, 40), "is damaged at byte 7, after 0 whole records", 0),
        ("run-1.wandb", _changed(WANDB, 0), "is damaged at byte 0, after 0 whole records", 3),
        (
            "run-1.wandb",
            _changed(WANDB, len(WANDB) - 1),
            f"is damaged at byte {WANDB_LAST}, after 2 whole records",
            2,
        ),
        (
            "run-1.wandb",
            WANDB + bytes(100),
            f"is damaged at byte {len(WANDB)}, after 3 whole records",
            3,
        ),
        (
            "events.out.tfevents.1",
            _changed(TENSORBOARD, 2),
            "is damaged at byte 0, after 0 whole records",
            0,
        ),
        (
            "events.out.tfevents.1",
            TENSORBOARD + bytes(20),
            f"is damaged at byte {len(TENSORBOARD)}, after 4 whole records",
            3,
        ),
        (
            "trainer_state.json",
            b'{"log_history": [{"loss": 1.5}',
            r"cannot be read: .*line 1 column 31 \(char 30\)",
            0,
        ),
        ("trainer_state.json", b"[" * 200_000, "cannot be read: it is nested too deeply", 0),
    ],
    ids=[
        "record",
        "head",
        "last record",
        "zeros",
        "event",
        "zeros after events",
        "half a state",
        "depth",
    ],
)
async def test_a_damaged_file_is_named_with_the_place(
    tmp_path: Path,
    name: str,
    content: bytes,
    words: str,
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "POLL", 0.0)
    (tmp_path / name).write_bytes(content)
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(tmp_path / name)))
    seen: list[SessionUpdate] = []
    with pytest.raises(InputError, match=f"{name} {words}"):
        async for one in watch.follow(once=True):
            seen.append(one)
    assert sum(len(one.rows) for one in seen) == rows, "what can be read is shown"


async def test_a_damaged_database_is_named_with_the_last_row_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "POLL", 0.0)
    path = tmp_path / "p.db"
    trackio_file(path, [("r", n, {"loss": n / 3, "text": "x" * 900}) for n in range(40)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-8192] + bytes(8192))
    watch = SessionWatcher(HOST, await find_session(HOST, session="r", file=str(path)))
    with pytest.raises(
        InputError,
        match=r"p\.db cannot be read: database disk image is malformed, behind row \d+",
    ):
        [seen async for seen in watch.follow(once=True)]


@pytest.mark.parametrize("kind", ["wandb", "tensorboard", "trackio"])
async def test_a_file_of_a_tracker_is_followed(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "POLL", 0.01)
    monkeypatch.setattr(sessions, "_AGAIN", 0.01)
    path = (
        tmp_path
        / {"wandb": "run-1.wandb", "tensorboard": "events.out.tfevents.1.box", "trackio": "p.db"}[
            kind
        ]
    )
    run = wandb_file(history({"_step": n, "loss": 1 / (n + 1)}) for n in range(3))
    whole = {"wandb": run, "tensorboard": TENSORBOARD}.get(kind, b"")

    def grow(part: int) -> None:
        if kind == "trackio":
            steps = ([0], [1, 2])[part]
            trackio_file(path, [("theirs", step, {"loss": 1 / (step + 1)}) for step in steps])
        else:
            middle = len(whole) - 30  # in the middle of the last record
            path.write_bytes(whole if part else whole[:middle])

    watch, seen = (
        SessionWatcher(HOST, await find_session(HOST, file=str(path))),
        list[SessionUpdate](),
    )
    async with aclosing(watch.follow()) as events, asyncio.timeout(60):
        async for one in events:
            seen.append(one)
            if one.note is not None:
                assert "waiting for" in one.note
                grow(0)
            elif len(watch.numbers.series("loss")) < 3:
                grow(1)
            else:
                break
    assert [(point.x, round(point.y, 6)) for point in watch.numbers.quantity("loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, 0.333333),
    ]
    assert [json.loads(line)["loss"] for line in lines_of(seen)] == [
        row["loss"] for one in seen for row in one.rows
    ]
    assert len(lines_of(seen)) == 3
    assert {one.name for one in tmp_path.iterdir()} <= {
        path.name,
        f"{path.name}-wal",
        f"{path.name}-shm",
    }
    newest = SessionWatcher(HOST, watch.foreign, lines=1)
    assert [
        row["loss"] for one in [one async for one in newest.follow(once=True)] for row in one.rows
    ] == [pytest.approx(1 / 3)]
    assert newest.numbers.count == 3


async def test_of_several_runs_the_newest_or_the_named_one(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    trackio_file(path, [("old", 0, {"reward": 0.1}), ("new", 0, {"reward": 0.9})])
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)))
    (one,) = [one async for one in watch.follow(once=True)]
    assert (
        one.rows[0]["reward"] == 0.9
        and one.note == "the newest of 2 runs, new; --session NAME shows old"
    )
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path), session="old"))
    (one,) = [one async for one in watch.follow(once=True)]
    assert one.rows[0]["reward"] == 0.1 and one.note is None
    with pytest.raises(InputError, match="has no run 'none'"):
        [
            one
            async for one in SessionWatcher(
                HOST, await find_session(HOST, file=str(path), session="none")
            ).follow(once=True)
        ]
    (tmp_path / "log").write_text("loss=1\n")
    with pytest.raises(InputError, match="not a database with several runs"):
        [
            one
            async for one in SessionWatcher(
                HOST, await find_session(HOST, file=str(tmp_path / "log"), session="x")
            ).follow()
        ]


def _events(folder: Path, name: str, moment: int, content: bytes = TENSORBOARD) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (moment, moment))
    return path


def _state(*losses: float) -> bytes:
    return json.dumps(
        {"log_history": [{"step": step, "loss": loss} for step, loss in enumerate(losses)]}
    ).encode()


async def test_of_a_folder_the_newest_run_of_one_tracker(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="is a folder without files of W&B, TensorBoard or transformers"
    ):
        await find_session(HOST, file=str(tmp_path))
    offline = _events(tmp_path, "wandb/offline-run-2/run-b.wandb", 20, WANDB)
    _events(tmp_path, "wandb/offline-run-1/run-a.wandb", 10, WANDB[:WANDB_LAST])
    (tmp_path / "wandb" / "latest-run").symlink_to("offline-run-2")
    foreign = await find_session(HOST, file=str(tmp_path))
    assert foreign.sources[0].path == str(offline)
    words = "W&B: offline-run-2/run-b.wandb, the newest of 2 runs; the others are in offline-run-1"
    told = [
        one
        async for one in SessionWatcher(
            HOST, await find_session(HOST, file=f"{tmp_path}/wandb")
        ).follow(once=True)
    ]
    assert told[0].note == words and sum(len(one.rows) for one in told) == 3
    latest = (await find_session(HOST, file=f"{tmp_path}/wandb/latest-run")).sources[0].path
    assert latest is not None and os.path.samefile(latest, offline)
    _events(tmp_path, "runs/a/events.out.tfevents.1.box", 5)
    with pytest.raises(
        InputError,
        match=(
            r"contains files of several trackers: .*run-b\.wandb \(W&B\).*tfevents\.1\.box "
            r"\(TensorB"
        ),
    ):
        await find_session(HOST, file=str(tmp_path))


def _json_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _event_file(*points: tuple[int, str, float], at: float = 1.7e9) -> bytes:
    """An events file with scalars."""

    def record(data: bytes) -> bytes:
        head = struct.pack("<Q", len(data))
        return head + struct.pack("<I", _masked(head)) + data + struct.pack("<I", _masked(data))

    def event(body: bytes) -> bytes:
        return record(b"\x09" + struct.pack("<d", at) + body)

    found = event(b"\x1a\x0dbrain.Event:2")
    for step, tag, value in points:
        scalar = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
        summary = b"\x0a" + bytes([len(scalar)]) + scalar
        found += event(
            (b"\x10" + bytes([step]) if step else b"") + b"\x2a" + bytes([len(summary)]) + summary
        )
    return found


async def seen_of(place: Path, lines: int | None = None) -> tuple[SessionWatcher, list[str]]:
    """What is read at a path, and what is said about it."""
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(place)), lines=lines)
    return watch, [one.note async for one in watch.follow(once=True) if one.note]


FOLDERS: dict[str, tuple[str, list[dict[str, Any]], list[float]]] = {
    "prime-rl": (
        "outputs/run/metrics.jsonl",
        [
            {
                "step": step,
                "time": 1.7e9 + step,
                "train/agg/effective/player/reward/mean": step / 10,
            }
            for step in (0, 1)
        ],
        [0, 1],
    ),
    "Tinker": (
        "metrics.jsonl",
        [{"step": step, "env/all/reward/total": 0.5, "progress/batch": step} for step in (0, 1)],
        [0, 1],
    ),
    "ART": (
        ".art/project/models/name/history.jsonl",
        [
            {"training_step": step, "train/reward": 0.5, "recorded_at": "2026-11-01T10:00:00"}
            for step in (1, 2)
        ],
        [1, 2],
    ),
    "LLaMA-Factory": (
        "saves/trainer_log.jsonl",
        [
            {
                "current_steps": step,
                "total_steps": 50,
                "reward": 0.5,
                "lr": 1e-5,
                "epoch": step / 50,
            }
            for step in (10, 20)
        ],
        [10, 20],
    ),
    "verl": (
        "project/experiment.jsonl",
        [{"step": step, "data": {"critic/rewards/mean": 0.5}} for step in (1, 2)],
        [1, 2],
    ),
}


@pytest.mark.parametrize("trainer", FOLDERS)
async def test_the_folder_of_a_trainer_opens(tmp_path: Path, trainer: str) -> None:
    name, rows, steps = FOLDERS[trainer]
    _json_lines(tmp_path / name, rows)
    _json_lines(tmp_path / "rollouts" / "step_1" / "train" / "traces.jsonl", [{"reward": 0.5}])
    _json_lines(tmp_path / "data" / "train.jsonl", [{"reward": 9, "step": 7}])
    states = trainer in ("LLaMA-Factory", "Tinker")
    if states:
        _events(tmp_path, f"{Path(name).parent}/checkpoint-20/trainer_state.json", 10, _state(1.0))
    (tmp_path / "train.log").write_text("{'loss': 9, 'reward': 9, 'epoch': 9}\n")
    watch, notes = await seen_of(tmp_path)
    assert [point.x for point in watch.numbers.quantity("reward")] == steps, notes
    assert name in notes[0] and ("trainer_state.json" in notes[0]) is states, notes


async def test_a_folder_with_nothing_but_a_log(tmp_path: Path) -> None:
    (tmp_path / "install.log").write_text("Collecting torch\n")
    (tmp_path / "slurm-77.out").write_text(
        "(TaskRunner pid=1) step:3 - critic/rewards/mean:0.5 - actor/entropy:0.25\n"
    )
    os.utime(tmp_path / "install.log", (3e9, 3e9))
    watch, notes = await seen_of(tmp_path)
    assert notes == ["log: slurm-77.out"] and watch.numbers.quantity("reward")[0].x == 3
    (tmp_path / "slurm-77.out").write_text("Killed\n")
    with pytest.raises(InputError, match="no numbers were recognised in its logs"):
        await find_session(HOST, file=str(tmp_path))


async def test_the_output_of_a_trainer_is_the_checkpoint_with_the_most_steps(
    tmp_path: Path,
) -> None:
    for place, steps in enumerate((100, 10, 9)):
        _events(
            tmp_path,
            f"checkpoint-{steps}/trainer_state.json",
            10 + place,
            _state(*[1 / (n + 1) for n in range(steps)]),
        )
    watch, notes = await seen_of(tmp_path)
    assert (
        watch.numbers.newest == (99, None)
        and "checkpoint-100/trainer_state.json" in notes[0]
        and "3 checkpoints" in notes[0]
    )
    whole = {
        "epoch": 1.0,
        "global_step": 120,
        "log_history": [{"step": 120, "loss": 0.5}, {"step": 120, "train_runtime": 3.0}],
    }
    _events(tmp_path, "trainer_state.json", 1, json.dumps(whole).encode())
    watch, notes = await seen_of(tmp_path)
    assert watch.numbers.newest == (120, None) and notes[0].startswith(
        "transformers: trainer_state.json, the one with the most"
    )
    _events(
        tmp_path,
        "runs/Nov27_box/events.out.tfevents.1700000000.box",
        5,
        _event_file((125, "train/loss", 0.25)),
    )
    watch, notes = await seen_of(tmp_path)
    assert (
        watch.numbers.newest == (125, 1.7e9)
        and "there is also transformers: trainer_state.json" in notes[0]
    )


@pytest.mark.parametrize("name", ["metrics.jsonl", "checkpoint-{}/trainer_state.json"])
async def test_of_runs_that_were_copied_the_one_with_the_most_steps(
    tmp_path: Path, name: str
) -> None:
    def run(folder: str, steps: int, at: int) -> None:
        rows = "".join(f'{{"step": {step + 1}, "loss": {step}}}\n' for step in range(steps))
        data = rows.encode() if name.endswith("jsonl") else _state(*map(float, range(steps)))
        _events(tmp_path, f"{folder}/{name.format(steps)}", at, data)

    for place, (folder, steps) in enumerate((("a", 30), ("b", 50), ("c", 9))):
        run(folder, steps, 1_000_000 + place)
    watch, notes = await seen_of(tmp_path)
    assert watch.numbers.max_step is None and len(watch.numbers.quantity("loss")) == 50
    assert "b/" in notes[0] and "the newest of 3 runs; the others are in c, a" in notes[0]
    run("d", 12, 1_000_900)
    watch, notes = await seen_of(tmp_path)
    assert len(watch.numbers.quantity("loss")) == 12 and "d/" in notes[0], (
        "the run that is written now"
    )


async def test_numbers_are_found_among_many_files_without(tmp_path: Path) -> None:
    for number in range(40):
        _events(tmp_path, f"part-{number}.jsonl", 2_000 + number, b'{"x": 1}\n')
    with pytest.raises(InputError, match="28 older ones were not looked into"):
        await find_session(HOST, file=str(tmp_path))
    _events(tmp_path, "train.log", 1, b"step=1 loss=0.5\n")
    watch, notes = await seen_of(tmp_path)
    assert notes == ["log: train.log"] and [
        (point.x, point.y) for point in watch.numbers.quantity("loss")
    ] == [(1, 0.5)]


async def test_the_link_to_the_newest_run_of_wandb(tmp_path: Path) -> None:
    for begin, name in ((0, "20261101_100000"), (5, "20261102_090000")):
        data = wandb_file(
            history({"_step": step, "loss": step / 3}) for step in range(begin, begin + 5)
        )
        _events(tmp_path, f"wandb/offline-run-{name}-abc/run-abc.wandb", 5, data)
    link = tmp_path / "wandb" / "latest-run"
    link.symlink_to("offline-run-20261102_090000-abc")
    for place in ("", "wandb", "wandb/latest-run"):
        watch, notes = await seen_of(tmp_path / place)
        assert [point.x for point in watch.numbers.quantity("loss")] == list(range(10)), place
    link.unlink()
    shutil.copytree(tmp_path / "wandb" / "offline-run-20261102_090000-abc", link)
    watch, notes = await seen_of(tmp_path)
    assert [point.x for point in watch.numbers.quantity("loss")] == list(
        range(10)
    ) and "the others" not in notes[0]


async def test_event_files_without_scalars_are_left_out(tmp_path: Path) -> None:
    run = _event_file(*((step, "train/loss", 1 / (step + 1)) for step in range(3)))
    _events(tmp_path, "runs/a/events.out.tfevents.1700000001.box.1.0", 5, run)
    hparams = _events(
        tmp_path, "runs/a/1700000009.5/events.out.tfevents.1700000009.box.1.1", 99, _event_file()
    )
    watch, notes = await seen_of(tmp_path)
    assert [point.x for point in watch.numbers.quantity("loss")] == [0, 1, 2]
    hparams.write_bytes(_event_file((0, "hparam/accuracy", 0.5)))
    watch, notes = await seen_of(tmp_path)
    assert [point.x for point in watch.numbers.quantity("loss")] == [0, 1, 2], (
        "what add_hparams writes is no run"
    )
    _events(tmp_path, "runs/b/events.out.tfevents.1700000005.box.1.0", 1, _event_file())
    watch, notes = await seen_of(tmp_path)
    assert "without numbers, and left out: runs/b" in notes[0] and watch.numbers.quantity("loss")
    _events(
        tmp_path,
        "runs/c/events.out.tfevents.1700000007.box.1.0",
        1,
        _event_file((9, "train/loss", 0.5)),
    )
    watch, notes = await seen_of(tmp_path)
    assert watch.numbers.newest is not None and watch.numbers.newest[0] == 9, (
        "newest by its name, and not by its date"
    )


async def test_a_run_that_was_resumed_is_one_run(tmp_path: Path) -> None:
    def part(begin: int, end: int, at: float) -> bytes:
        return wandb_file(
            history(
                {
                    "_step": row,
                    "train/global_step": step,
                    "train/loss": step / 3,
                    "_timestamp": at + step,
                }
            )
            for row, step in enumerate(range(begin, end, 10))
        )

    for name, data in (
        ("wandb/offline-run-20261101_100000-abc/run-abc.wandb", part(10, 300, 1.7e9)),
        ("wandb/offline-run-20261102_090000-abc/run-abc.wandb", part(210, 260, 1.8e9)),
        ("wandb/offline-run-20261101_100001-other/run-other.wandb", part(10, 900, 1.7e9)),
    ):
        _events(tmp_path, name, 5, data)
    wanted = list(range(10, 260, 10))
    for place in ("", "wandb", "wandb/offline-run-20261101_100000-abc"):
        watch, notes = await seen_of(tmp_path / place)
        points = watch.numbers.quantity("loss")
        assert [point.x for point in points] == wanted and [point.y for point in points] == [
            x / 3 for x in wanted
        ]
        assert "with 1 file from before it was resumed" in notes[0], notes
    copied = tmp_path / "wandb" / "offline-run-20261102_090000-abc"
    for path in (*copied.parent.glob("*other"), copied):
        for one in path.iterdir():
            one.unlink()
        path.rmdir()
    _events(
        tmp_path, "wandb/offline-run-20261103_090000-abc/run-abc.wandb", 9, part(10, 300, 1.7e9)
    )
    watch, _ = await seen_of(tmp_path)
    assert [point.x for point in watch.numbers.quantity("loss")] == list(range(10, 300, 10)), (
        "a copy adds nothing"
    )


async def test_event_files_of_a_resumed_training_and_of_two_processes(tmp_path: Path) -> None:
    first = _event_file(*((step, "loss", step / 2) for step in range(0, 100, 10)), at=1.7e9)
    again = _event_file(*((step, "loss", -step) for step in range(60, 80, 10)), at=1.8e9)
    _events(tmp_path, "a/events.out.tfevents.1700000000.box.1.0", 5, first)
    _events(tmp_path, "a/events.out.tfevents.1800000000.box.2.0", 4, again)
    watch, _ = await seen_of(tmp_path / "a")
    assert [(point.x, point.y) for point in watch.numbers.series("loss")] == [
        *((step, step / 2) for step in range(0, 60, 10)),
        (60, -60),
        (70, -70),
    ]
    _events(tmp_path, "b/events.out.tfevents.1700000000.box.1.0", 5, first)
    _events(
        tmp_path,
        "b/events.out.tfevents.1700000000.box.2.0",
        4,
        _event_file((10, "loss", 7.0), at=1.7e9 - 1),
    )
    watch, _ = await seen_of(tmp_path / "b")
    assert [(point.x, point.y) for point in watch.numbers.series("loss")] == [
        (step, step / 2) for step in range(0, 100, 10)
    ]


async def test_a_checkpoint_whose_history_was_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_AGAIN", 0.01)
    path = _events(tmp_path, "checkpoint-4/trainer_state.json", 10, _state(1.0, 0.5, 0.25, 0.125))
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)))
    async with aclosing(watch.follow()) as events, asyncio.timeout(60):
        async for _ in events:
            if len(watch.numbers.series("loss")) == 4:
                _events(tmp_path, "checkpoint-4/trainer_state.json", 20, _state(1.0, 0.5, 9.0))
            elif watch.numbers.series("loss")[-1].y == 9.0:
                break
    assert [(point.x, point.y) for point in watch.numbers.series("loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, 9.0),
    ]


LOG = "".join(
    f"{{'loss': {1 / n:.3f}, 'reward': {n / 10}, 'note': 'Größe', 'epoch': {n / 10}}}\r\n"
    for n in range(1, 6)
)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-8"])
@pytest.mark.parametrize("lines", [2, None])
async def test_a_log_in_another_encoding(tmp_path: Path, encoding: str, lines: int | None) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(LOG.encode(encoding))
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)), lines=lines)
    seen = [one async for one in watch.follow(once=True)]
    assert [point.x for point in watch.numbers.series("loss")] == [1, 2, 3, 4, 5]
    told = lines_of(seen)
    assert (
        len(told) == (lines or 5)
        and "Größe" in told[-1]
        and not any("\ufeff" in line or "\0" in line for line in told)
    )


async def test_a_log_in_utf_16_is_followed(tmp_path: Path) -> None:
    path, data = tmp_path / "train.log", LOG.encode("utf-16")
    half = len(data) // 2 | 1  # in the middle of a character
    path.write_bytes(data[:half])
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)))
    async with aclosing(watch.follow()) as events, asyncio.timeout(60):
        async for _ in events:
            if path.stat().st_size == half:
                with path.open("ab") as stream:
                    stream.write(data[half:])
            elif len(watch.numbers.series("loss")) == 5:
                break
    assert [point.x for point in watch.numbers.series("loss")] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("hole", [3, 5000, 400_000])
@pytest.mark.parametrize("place", ["begin", "middle"])
async def test_a_log_with_nul_bytes(tmp_path: Path, hole: int, place: str) -> None:
    path, nul = tmp_path / "train.log", bytes(hole)
    whole = LOG.encode()
    path.write_bytes(nul + whole if place == "begin" else whole[:60] + nul + whole[60:])
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)), lines=None)
    told = lines_of([one async for one in watch.follow(once=True)])
    assert [point.y for point in watch.numbers.series("reward")] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert told[0].startswith("{'loss'") and len(told) == 5


async def test_the_steps_before_the_window_of_a_log_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BACKLOG", 3000)
    path = tmp_path / "train.log"
    path.write_text("".join(f"step {step} loss=0.5\n" for step in range(1, 1001)))
    watch, _ = await seen_of(path, lines=10)
    first = watch.numbers.series("loss")[0].x
    assert 800 < first < 900 and watch.window == f"steps before {first:g} are not read"
    for lines, size in ((None, 3000), (10, 1 << 20)):
        monkeypatch.setattr(sessions, "BACKLOG", size)
        whole, _ = await seen_of(path, lines=lines)
        assert whole.numbers.series("loss")[0].x == 1 and whole.window is None


async def test_a_training_in_a_terminal_counts_by_its_bar(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    rows = [(step, f"{{'loss': 0.5, 'epoch': {step / 50}}}") for step in (10, 20, 30)]
    drawn = "".join(
        f"\\r{' ' * 30}\\r{row}\\n\\r{step * 2:3}%|#    | {step}/50 [00:01<00:02, 1.00it/s]"
        for step, row in rows
    )
    script.write_text(f'printf "{drawn.replace("%", "%%")}"\n')
    session("bars", f"sh {script}; read end")
    watch = SessionWatcher(HOST, await find_session(HOST, session="bars"))
    tmux("send-keys", "-t", "=bars:", "go", "Enter")
    await until(watch, lambda _: len(watch.numbers.series("loss")) == 3)
    assert [point.x for point in watch.numbers.series("loss")] == [
        10,
        20,
        30,
    ] and watch.numbers.max_step == 50


async def test_event_files_continue_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_AGAIN", 0.01)
    parts = [TENSORBOARD[:150], TENSORBOARD[150:214], TENSORBOARD[214:]]
    _events(
        tmp_path, "runs/a/events.out.tfevents.1.box", 99, parts[0]
    )  # written last, and still continued by the next
    _events(tmp_path, "runs/a/events.out.tfevents.2.box", 20, parts[1])
    watch, notes = SessionWatcher(HOST, await find_session(HOST, file=str(tmp_path))), list[str]()
    async with aclosing(watch.follow()) as events, asyncio.timeout(60):
        async for one in events:
            notes += [one.note] if one.note else []
            if len(notes) == 2:
                break
            if len(watch.numbers.series("loss")) == 2:
                _events(tmp_path, "runs/a/events.out.tfevents.3.box", 30, parts[2] + bytes(20))
    assert [(point.x, round(point.y, 6)) for point in watch.numbers.quantity("loss")] == [
        (0, 1.0),
        (1, 0.5),
        (2, 0.333333),
    ]
    assert (
        notes[0] == "TensorBoard: runs/a/events.out.tfevents.2.box"
        and "tfevents.3.box is damaged" in notes[1]
    )
    with pytest.raises(
        InputError, match=r"tfevents\.3\.box is damaged at byte \d+, after 1 whole record"
    ):
        [one async for one in SessionWatcher(HOST, watch.foreign).follow(once=True)]


async def test_newer_checkpoints_continue_older_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_AGAIN", 0.01)
    _events(tmp_path, "checkpoint-4/trainer_state.json", 10, _state(1.0))
    older = _events(tmp_path, "checkpoint-20/trainer_state.json", 20, _state(1.0, 0.5))
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(tmp_path)))
    rows: list[float] = []
    async with aclosing(watch.follow()) as events, asyncio.timeout(60):
        async for one in events:
            rows += [row["loss"] for row in one.rows]
            if len(rows) == 2:
                _events(tmp_path, "checkpoint-30/trainer_state.json", 30, _state(1.0, 0.5, 0.25))
            elif len(rows) == 3:
                assert one.note == "read from checkpoint-30 now"
                break
    assert rows == [1.0, 0.5, 0.25]
    named = SessionWatcher(HOST, await find_session(HOST, file=str(older.parent)))
    assert [len(one.rows) async for one in named.follow(once=True)] == [0, 2], (
        "a checkpoint that is named is the one that is read"
    )


async def test_a_log_is_told_from_its_first_line_on(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    path.write_text("".join(f"line {n}\n" for n in range(10_000)))
    foreign = await find_session(HOST, file=str(path))
    newest, whole = (
        SessionWatcher(HOST, foreign, lines=10),
        SessionWatcher(HOST, foreign, lines=None),
    )
    assert lines_of([seen async for seen in newest.follow(once=True)]) == [
        f"line {n}" for n in range(9_990, 10_000)
    ]
    assert newest.before == {"long.log": path.stat().st_size - len("line 9990\n") * 10}
    assert lines_of([seen async for seen in whole.follow(once=True)]) == [
        f"line {n}" for n in range(10_000)
    ]
    assert whole.before == {"long.log": 0}


class Lies(LocalHost):
    """A machine whose tmux says anything."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    async def run(self, argv: Sequence[str], **_: Any) -> Completed:
        return Completed(
            tuple(argv), 0, self.answers.pop(0) if len(self.answers) > 1 else self.answers[0], ""
        )


async def test_a_tmux_that_says_anything() -> None:
    odd = ["%0 1 \u00b2 a:b", "%0 x 5 a:b", f"%0 1 {'9' * 400} a:b", "%0 1", "\0", "%1 0 5 good:w"]
    assert [one.name for one in await list_tmux_sessions(Lies("\n".join(odd), ""))] == ["good"]
    foreign = ExternalSession("x", (LogSource("x", pane="%0"),))
    for answers in (
        ("1 2 3 0 0 6", "x\nline\n"),
        ("1 2 3 0 0 6", "1\nline\n"),
        ("\u00b2 2 3 0 0 6",),
        ("9" * 400,),
    ):
        with pytest.raises(MachineError, match="is gone"):
            [seen async for seen in SessionWatcher(Lies(*answers), foreign).follow(once=True)]
    told = [
        seen
        async for seen in SessionWatcher(Lies("1 2 3 0 0 6", "1 0\nline\n"), foreign).follow(
            once=True
        )
    ]
    assert lines_of(told) == []  # in a window without width every line may go on


async def test_lines_that_a_run_of_wandb_printed_are_its_log(tmp_path: Path) -> None:
    path = tmp_path / "run-1.wandb"
    printed = field(13, field(3, b"  step 1\ntorch.OutOfMemoryError: CUDA out of memory\n"))
    path.write_bytes(wandb_file([history({"_step": 1, "loss": 0.5}), printed]))
    watch = SessionWatcher(HOST, await find_session(HOST, file=str(path)), from_when=USUAL)
    (seen,) = [one async for one in watch.follow(once=True)]
    assert [json.loads(line)["loss"] for line in seen.lines[:1]] == [0.5]
    assert seen.lines[1:] == ("  step 1", "torch.OutOfMemoryError: CUDA out of memory")
    assert len(seen.rows) == 1 and [alarm.kind for alarm in watch.alarms] == ["memory"]
