from __future__ import annotations

import contextlib
import json
import os
import pty
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import sshd, tmux_world, vllm_server
from support.tracker_files import WANDB_HISTORY, trackio_file, wandb_file
from typer.testing import CliRunner, Result

from hudtui.cli.app import build
from hudtui.core.diagnosis.facts import Alarm, RunFacts
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.table import watched, words
from hudtui.core.process import machine_label
from hudtui.core.runs.external import ExternalPlace, ExternalRun
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, PlanOutput, Stage

own_tmux = tmux_world.own_tmux

TRL = "{'loss': '-0.08', 'reward': '0.25', 'reward_std': '0.1', 'epoch': '0.5'}\n"


def hudtui(*arguments: str) -> Result:
    return CliRunner().invoke(build(), list(arguments))


def make_run(run: str, rewards: list[float]) -> None:
    store = RunStore(Path.cwd() / ".hudtui")
    folder = store.folder / run
    plan = Plan(
        "rollouts",
        (Stage("play", ("true",)),),
        outputs=(PlanOutput("out/metrics.jsonl", "metrics"),),
    )
    spec = RunSpec("rollouts", run, str(Path.cwd()))
    store.add(
        RunRecord(
            run, time.time(), run, "rollouts", "local", machine_label(), str(folder), spec, plan
        )
    )
    (folder / "out").mkdir(parents=True)
    rows = [
        {"step": step, "reward": reward, "custom": step} for step, reward in enumerate(rewards, 1)
    ]
    (folder / "out" / "metrics.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in rows) + '{"step": 9, "loss": NaN}\n'
    )


def test_metrics_of_runs() -> None:
    make_run("first", [0.1, 0.5])
    make_run("second", [0.2, 0.9, 0.3])
    done = hudtui("runs", "metrics", "first", "second")
    assert done.exit_code == 0, done.output
    assert "first  planned  step 2" in done.stdout and "second  planned  step 3" in done.stdout
    assert [line.split()[:4] for line in done.stdout.splitlines() if line.startswith("reward")] == [
        ["reward", "0.5", "0.1", "0.5"],
        ["reward", "0.3", "0.2", "0.9"],
    ]
    assert "custom" not in done.stdout and "loss is NaN or infinite" in done.stderr
    assert "custom" in hudtui("runs", "metrics", "--all").stdout
    told = json.loads(hudtui("runs", "metrics", "first", "--json").stdout)["runs"][0]
    assert told["series"]["reward"] == [[1.0, 0.1, None], [2.0, 0.5, None]]
    assert told["quantities"] == {"reward": "reward"} and told["not_finite"] == [
        {"name": "loss", "step": 9.0, "count": 1}
    ]
    assert hudtui("runs", "metrics", "third").exit_code != 0


def test_a_log_here_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(f"begun \x1b]0;owned\x07\n{TRL}torch.OutOfMemoryError: CUDA out of memory\n")
    done = hudtui("runs", "watch", "local", "--file", str(path), "--once")
    assert done.exit_code == 0, done.output
    assert "reward 0.25  reward std 0.1  loss -0.08" in done.stdout and "begun" not in done.stdout
    assert "! torch.OutOfMemoryError" in done.stderr and "batch_size" in done.stderr
    assert hudtui("runs", "watch", str(path), "--once").stdout == done.stdout, (
        "a log here is named alone, too"
    )
    everything = hudtui("runs", "watch", "local", "--file", str(path), "--once", "--log")
    assert (
        "begun" in everything.stdout
        and "\x1b" not in everything.stdout
        and "\x07" not in everything.stdout
    )
    rows = [
        json.loads(line)
        for line in hudtui(
            "runs", "watch", "local", "--file", str(path), "--once", "--json"
        ).stdout.splitlines()
    ]
    matches = ("runs", "watch", "local", "--once", "--json", "--file")
    (found,) = hudtui(*matches, str(path), "-n", "1", "--grep", "begun|memory").stdout.splitlines()
    assert json.loads(found) == {
        "source": "train.log",
        "line": "torch.OutOfMemoryError: CUDA out of memory",
    }
    assert json.loads(hudtui(*matches, str(path), "--grep", "BEGUN|gun").stdout)["line"].startswith(
        "begun"
    )
    assert hudtui(*matches, str(tmp_path / "none"), "--grep", "x").exit_code == 5
    assert [sorted(set(row) - {"source", "at"}) for row in rows] == [["metrics"], ["alarm"]]
    assert rows[0]["metrics"]["reward"] == 0.25 and rows[1]["alarm"]["kind"] == "memory"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    done = hudtui("runs", "watch", "local", "--file", str(tmp_path / "none"), "--once")
    assert done.exit_code != 0 and "there is no file" in done.stderr
    done = hudtui("watch", str(tmp_path / "none"), "--once")
    assert done.exit_code != 0 and "there is no file" in done.stderr
    done = hudtui("runs", "watch", "local", "--once")
    assert (
        done.exit_code != 0
        and "has no tmux session" in done.stderr
        and "--file PATH" in done.stderr
    )
    done = hudtui("watch", str(tmp_path), "--once")
    assert (
        done.exit_code != 0
        and "is a folder without files of W&B, TensorBoard or transformers" in done.stderr
    )
    (tmp_path / "log").write_text("loss=1\n")
    done = hudtui("runs", "watch", "local", "--file", str(tmp_path / "log"), "--session", "b")
    assert done.exit_code != 0 and "Give --session or --file" in done.stderr


@pytest.fixture
def box(own_tmux: str, tmp_path: Path) -> Iterator[Any]:
    with sshd.running_server() as server:
        found = sshd.Box(server, Path.home(), tmp_path / "pins")
        found.world()
        ssh = Path.home() / ".ssh"
        ssh.mkdir()
        (ssh / "config").write_text(
            f"Host box\n  HostName 127.0.0.1\n  Port {server.port}\n  IdentityFile {server.key}\n  "
            "IdentityAgent none\n"
        )
        yield found


def test_a_session_on_another_machine_is_watched(box: Any) -> None:
    script = f'echo "{TRL.strip()}"; echo; read end'
    subprocess.run(
        ["tmux", "new-session", "-d", "-s", "theirs", "-x", "200", "bash", "-c", script], check=True
    )
    rows: list[dict[str, Any]] = []
    while not rows:  # its shell may not have come so far
        done = hudtui("runs", "watch", "box", "--session", "the", "--once", "--json")
        assert done.exit_code == 0, done.output
        rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["metrics"]["reward"] == 0.25
    listed = json.loads(hudtui("runs", "watch", "box", "--list", "--json").stdout)
    assert [(one["name"], one["run"]) for one in listed] == [("theirs", None)]
    folder = Path.home() / "their runs" / "offline-run-1"
    folder.mkdir(parents=True)
    (folder / "run-1.wandb").write_bytes(wandb_file([WANDB_HISTORY]))
    done = hudtui("watch", "box", "--file", "their runs", "--once")
    assert (
        done.exit_code == 0
        and "W&B: offline-run-1/run-1.wandb" in done.stderr
        and "step 6" in done.stdout
    ), done.output


def test_show_and_list_tell_how_it_goes_and_what_is_wrong() -> None:
    make_run("first", [0.1, 0.5])
    folder = Path.cwd() / ".hudtui" / "runs" / "first"
    now = time.time()
    events = [{"seq": 1, "at": now - 50, "type": "started", "data": {"mode": "tmux"}}]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    stages = {"play": {"state": "running", "attempt": 1}}
    status = {
        "run": "first",
        "state": "running",
        "heartbeat": now - 3600,
        "stages": stages,
        "disk_free": 1000,
    }
    (folder / "status.json").write_text(json.dumps(status))
    gpus = [{"index": 0, "utilization": 93.0, "used_mib": 70_000, "memory_mib": 81_559}]
    (folder / "gpu.jsonl").write_text(json.dumps({"at": now - 5, "gpus": gpus}) + "\n")
    RunStore(Path.cwd() / ".hudtui").mirror("first", events)
    done = hudtui("runs", "show", "first")
    assert done.exit_code == 0, done.output
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert "step       2" in lines and "gpu        GPU 0 93 % 68/80 GiB" in lines
    assert (
        "alarm      no sign of life for 60 min" in lines
        and "alarm      the disk is full: 1000 B left" in lines
    )
    data = json.loads(hudtui("runs", "show", "first", "--json").stdout)
    assert [alarm["kind"] for alarm in data["alarms"]] == ["heartbeat", "disk", "not-a-number"]
    assert data["load"]["GPU 0 busy %"][0][1] == 93.0 and data["servers"] == []
    [row] = json.loads(hudtui("runs", "list", "--json").stdout)
    assert (row["reward"], row["step"], row["alarms"][0]["kind"]) == (0.5, 2, "heartbeat")
    done = json.loads(
        hudtui("runs", "acknowledge", "--alarm", "heartbeat", "--alarm", "disk", "--json").stdout
    )
    assert (done["run"], done["changed"]) == ("first", 2)
    assert [(one["kind"], one["acknowledged"]) for one in done["alarms"]] == [
        ("not-a-number", False),
        ("heartbeat", True),
        ("disk", True),
    ]
    assert "the disk is full: 1000 B left (acknowledged)" in hudtui("runs", "show").stdout
    assert "! kl" in hudtui("runs").stdout or "! loss" in hudtui("runs").stdout
    assert (
        "no alarm to acknowledge"
        in hudtui("runs", "acknowledge", "first", "--alarm", "disk").stderr
    )
    wrong = hudtui("runs", "acknowledge", "--alarm", "dsik")
    assert wrong.exit_code == 2 and "no alarm 'dsik'" in wrong.stderr
    assert (
        "first: the disk is full: 1000 B left\n" in hudtui("runs", "acknowledge", "--undo").stderr
    )
    assert "! no sign of life" in hudtui("runs", "list").stdout


def test_a_file_without_numbers_is_refused_on_one_line_of_json(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"\0" * 100)
    done = hudtui("runs", "watch", "local", "--file", str(path), "--once", "--json")
    assert done.exit_code != 0 and "is not a text file" in done.stderr
    [line] = [line for line in done.stdout.splitlines() if line]
    assert "is not a text file" in json.loads(line)["error"]["what"]


def test_a_file_of_a_tracker_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "run-1.wandb"
    path.write_bytes(wandb_file([WANDB_HISTORY]))
    done = hudtui("runs", "watch", "local", "--file", str(path), "--once")
    assert done.exit_code == 0, done.output
    assert (
        "step 6  reward 0.219  loss 0.125  KL nan  completion length 7" in done.stdout
        and "! kl is NaN" in done.stderr
    )
    row = json.loads(
        hudtui(
            "runs", "watch", "local", "--file", str(path), "--once", "--json"
        ).stdout.splitlines()[0]
    )
    assert row["metrics"]["train/reward"] == 0.21899553290626303 and row["metrics"]["kl"] is None
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    done = hudtui("runs", "watch", "local", "--file", str(path), "--once")
    assert (
        done.exit_code == 2 and f"{path} is damaged at byte 7, after 0 whole records" in done.stderr
    )


def test_what_is_told_of_an_evaluation_and_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    rows = [
        f"{{'loss': '{1 / n:.3f}', 'reward': '{n / 10}', 'epoch': '{n / 10}'}}" for n in range(1, 6)
    ]
    end = "{'train_runtime': '12.5', 'train_loss': '0.3', 'epoch': '0.5'}"
    path.write_text(
        "\n".join([*rows[:3], "{'eval_reward': '0.05', 'epoch': '0.3'}", *rows[3:], end])
    )
    done = hudtui("watch", str(path), "--once")
    lines = done.stdout.splitlines()
    assert (
        "step 3  evaluation reward 0.05" in lines
        and "step 5  the training in sum:  train_runtime 12.5  train_loss 0.3" in lines
    )
    assert [line.split()[1:4] for line in lines if line.startswith("reward ")] == [
        ["0.5", "0.1", "0.5"]
    ]
    assert [line.split()[:2] for line in lines if line.startswith("evaluation reward")] == [
        ["evaluation", "reward"]
    ]
    told = [
        json.loads(line)["metrics"]
        for line in hudtui("watch", str(path), "--once", "--json").stdout.splitlines()
    ]
    assert [row["step"] for row in told] == [1, 2, 3, 3, 4, 5, 5]


def test_last_lowest_and_highest_are_of_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    values = [(step, place * 37 % 100 / 10_000) for step in range(1, 301) for place in range(40)]
    path.write_text("".join(f"step {step} loss={value}\n" for step, value in values))
    done = hudtui("watch", str(path), "--once", "-n", "0")
    (cells,) = [line.split() for line in done.stdout.splitlines() if line.startswith("loss")]
    assert [float(cell) for cell in cells[1:4]] == [values[-1][1], 0.0, 0.0099]


def test_a_log_that_is_one_line_of_bars(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "".join(
            f"\r {n // 5:3}%|█  | {n}/500 [00:01<00:02, 9.1it/s, loss={n / 8}]"
            for n in range(1, 501)
        ),
        newline="",
    )
    done = hudtui("watch", str(path), "--once", "-n", "3")
    shown = [line for line in done.stdout.splitlines() if line.startswith("step")]
    assert shown == [
        "step 498/500  loss 62.25",
        "step 499/500  loss 62.38",
        "step 500/500  loss 62.5",
    ]
    assert [line.split()[1:4] for line in done.stdout.splitlines() if line.startswith("loss")] == [
        ["62.5", "0.125", "62.5"]
    ]


def test_parts_of_a_reward_are_shown_and_other_numbers_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    rows = (
        {
            "step": n,
            "reward": n / 10,
            "rewards/format/mean": n / 4,
            "rewards/format/std": 0,
            "foo": 3,
        }
        for n in (1, 2)
    )
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = hudtui("watch", str(path), "--once")
    table = {
        line.split()[0]: line.split()[1:4]
        for line in done.stdout.splitlines()
        if line.startswith("reward")
    }
    assert table == {"reward": ["0.2", "0.1", "0.2"], "rewards/format": ["0.5", "0.25", "0.5"]}
    assert "2 other numbers without a common name: --json" in done.stderr


def test_the_beginning_of_a_log_that_is_not_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hudtui.core.runs import sessions

    monkeypatch.setattr(sessions, "BACKLOG", 3000)
    path = tmp_path / "train.log"
    path.write_text("".join(f"step {step} loss=0.5\n" for step in range(1, 1001)))
    done = hudtui("watch", str(path), "--once", "-n", "10")
    first = done.stderr.partition("steps before ")[2].split()[0]
    assert 800 < int(first) < 900 and f"steps before {first} are not read" in done.stderr
    assert "not read" not in hudtui("watch", str(path), "--once", "-n", "2000").stderr


@pytest.mark.parametrize("step", ["'12'", "'twelve'", "x'ff00'", "NULL"])
def test_a_database_with_odd_steps_is_shown(tmp_path: Path, step: str) -> None:
    path = tmp_path / "p.db"
    trackio_file(path, [("r", n, {"reward": n / 4}) for n in range(3)])
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE free AS SELECT * FROM metrics; DROP TABLE metrics; ALTER TABLE free "
            f"RENAME TO metrics;UPDATE metrics SET step = {step} WHERE id = 3"
        )
    done = hudtui("watch", "local", "--file", str(path), "--once")
    assert done.exit_code == 0 and "step 1  reward 0.25" in done.stdout and "0.5" in done.stdout, (
        done.output
    )


def test_alarms_of_a_followed_log(tmp_path: Path) -> None:
    path = tmp_path / "their.log"
    path.write_text(
        "{'loss': 0.1, 'reward': 0.5, 'reward_std': 0.2}\n"
        + "{'loss': nan, 'reward': 0.5, 'reward_std': 0.0}\n" * 10
    )
    done = hudtui("runs", "watch", "local", "--file", str(path), "--once")
    assert done.exit_code == 0, done.output
    assert "! loss is NaN or infinite" in done.stderr and "zero reward variance" in done.stderr
    assert (
        next(line.split()[1] for line in done.stdout.splitlines() if line.startswith("loss "))
        == "nan"
    )
    done = hudtui("runs", "watch", "local", "--file", str(path), "--once", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {one["alarm"]["kind"] for one in told if "alarm" in one} == {
        "not-a-number",
        "constant-reward",
    }


@pytest.fixture
def surge() -> Iterator[None]:
    """A new signature, declared here and nowhere else."""

    @watched(
        "surge",
        "A number has risen",
        "It is too high.",
        threshold="flat",
        severity="medium",
        advice=words("Look at it."),
    )
    def find(facts: RunFacts, limit: float) -> Iterator[Alarm]:
        points = facts.metrics.series("custom")
        if points and points[-1].y >= limit:
            yield Alarm("surge", "warning", f"custom is {points[-1].y:g}", "Look at it.")

    yield
    del SIGNATURES["surge"]


@pytest.mark.usefixtures("surge")
def test_a_new_alarm_is_shown_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run("first", [0.1] * 6)
    path = tmp_path / "their.log"
    path.write_text("".join(f"{{'loss': 0.1, 'custom': {number}}}\n" for number in range(7)))
    watch = ("runs", "watch", "local", "--file", str(path), "--once")
    shown = json.loads(hudtui("runs", "show", "--json").stdout)
    assert {"kind": "surge", "text": "custom is 6"}.items() <= shown["alarms"][-1].items()
    assert "! custom is 6\n  Look at it.\n" in hudtui(*watch).stderr
    told = [json.loads(line) for line in hudtui(*watch, "--json").stdout.splitlines()]
    assert [one["alarm"] for one in told if "alarm" in one] == [
        {"kind": "surge", "text": "custom is 6", "fix": "Look at it."}
    ]
    done = hudtui("runs", "acknowledge", "--alarm", "surge")
    assert done.exit_code == 0 and "custom is 6 (acknowledged)" in done.stderr
    assert "surge" in hudtui("runs", "acknowledge", "--alarm", "sruge").stderr, (
        "the kinds are named"
    )
    monkeypatch.setenv("HUDTUI_ALARM_FLAT_STEPS", "none")
    assert "custom" not in hudtui(*watch).stderr
    assert all(
        one["kind"] != "surge"
        for one in json.loads(hudtui("runs", "show", "--json").stdout)["alarms"]
    )


def test_an_alarm_that_a_line_reports_is_told_once(tmp_path: Path) -> None:
    path = tmp_path / "their.log"
    line = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    path.write_text(f"{{'loss': 0.1}}\n{line}\nEngineDeadError: the engine is gone\n")
    said = hudtui("runs", "watch", "local", "--file", str(path), "--once").stderr
    assert said.count("CUDA out of memory") == said.count("EngineDeadError") == 1
    assert "ran out of memory" not in said and "is dead" not in said


def test_steps_of_a_training_are_its_result() -> None:
    make_run("first", [0.1, 0.5])
    RunStore(Path.cwd() / ".hudtui").append("first", "failed", {"why": "it is only looked at"})
    done = hudtui("runs", "show", "first")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("STEP"))
    assert [line.split()[:2] for line in lines[start + 1 : start + 3]] == [
        ["1", "0.100"],
        ["2", "0.500"],
    ]


def test_an_odd_word_of_a_machine_spoils_no_command() -> None:
    make_run("first", [0.1, 0.5])
    store = RunStore(Path.cwd() / ".hudtui")
    store.append("first", "failed", {"why": "it is only looked at"})
    odd = [
        {"seq": 90, "at": at, "type": "machine", "data": data}
        for at, data in ((1, {"kind": []}), (1e300, {"hourly": "abc"}))
    ]
    store.mirror("first", odd)
    with contextlib.closing(
        sqlite3.connect(store.path)
    ) as database:  # as an older hudtui took them in
        for event in odd:
            row = ("first", event["at"], "machine", "machine", json.dumps(event["data"]))
            database.execute(
                "INSERT INTO events (run, at, type, origin, data) VALUES (?, ?, ?, ?, ?)", row
            )
        database.commit()
    for command in (
        ["runs"],
        ["runs", "show", "first"],
        ["runs", "metrics", "first"],
        ["runs", "logs", "first"],
    ):
        done = hudtui(*command)
        assert done.exit_code == 0 and done.exception is None, (
            command,
            done.output,
            done.exception,
        )
    assert "2 records of the machine were not readable" in hudtui("runs", "show", "first").stdout
    assert json.loads(hudtui("runs", "--json").stdout)[0]["unreadable"] == 2


def test_a_file_is_looked_for_where_its_user_stands(own_world: Path) -> None:
    (own_world / "run.log").write_text(TRL)
    done = hudtui("watch", "local", "--file", "run.log", "--once")
    assert done.exit_code == 0 and "reward" in done.stdout, done.output


def test_a_model_server_that_is_just_there(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text(json.dumps({"running": 7, "kv": 0.5}))
    with vllm_server.make_server(state) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        port = str(server.server_address[1])
        try:
            done = hudtui("watch", "local", "--port", port, "--once")
            as_json = hudtui("watch", "local", "--port", port, "--once", "--json")
            state.write_text(json.dumps({"status": 500}))
            broken = hudtui("watch", "local", "--port", port, "--once")
        finally:
            server.shutdown()
            thread.join()
    assert done.exit_code == 0 and "7 running" in done.stdout and "KV 50 %" in done.stdout
    told = json.loads(as_json.stdout)
    assert (told["running"], told["kv_cache"], told["model"]) == (
        7.0,
        0.5,
        "Qwen/Qwen2.5-3B-Instruct",
    )
    assert broken.exit_code != 0 and "answers 500" in broken.stderr
    gone = hudtui("watch", "local", "--port", port, "--once")
    assert gone.exit_code != 0 and f"port {port} of local does not answer" in gone.stderr
    assert hudtui("watch", "local", "--port", port, "--file", "x").exit_code == 2


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """At a terminal: what the app was opened on."""
    places: list[Any] = []

    def run_app(debug: bool = False, *, opens: Any = None) -> int:
        places.append(opens)
        return 0

    monkeypatch.setattr("hudtui.cli.console.at_terminal", lambda: True)
    monkeypatch.setattr("hudtui.tui.app.run_app", run_app)
    return places


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["here.log"], ExternalPlace(file="here.log")),
        (["./none/yet.log"], ExternalPlace(file="./none/yet.log")),
        (["local", "--file", "here.log"], ExternalPlace(file="here.log")),
        (["odd:name.log"], ExternalPlace(file="odd:name.log")),
        (["gpu1:runs/7"], ExternalPlace("gpu1", file="runs/7")),
        (["gpu1:/data/a b.log"], ExternalPlace("gpu1", file="/data/a b.log")),
        (["me@gpu1:2222:/data"], ExternalPlace("me@gpu1:2222", file="/data")),
        (["me@[::1]:22:x.log"], ExternalPlace("me@[::1]:22", file="x.log")),
        (["pod:mine:/root/log"], ExternalPlace("pod:mine", file="/root/log")),
        (["pod:mine"], ExternalPlace("pod:mine")),
        (["me@gpu1:2222"], ExternalPlace("me@gpu1:2222")),
        (["gpu1", "--session", "train"], ExternalPlace("gpu1", session="train")),
        (["gpu1", "--port", "8000"], ExternalPlace("gpu1", port=8000)),
    ],
)
def test_at_a_terminal_the_app_opens(
    words: list[str], place: ExternalPlace, opened: list[Any]
) -> None:
    Path("here.log").write_text(TRL)
    Path("odd:name.log").write_text(TRL)
    done = hudtui("watch", *words)
    assert done.exit_code == 0, done.output
    ((screen, given),) = opened
    found = given["external"]
    assert screen == "run", "of what lies here, the run was found already"
    assert (found.place if isinstance(found, ExternalRun) else found) == place
    assert ExternalPlace.of(place.fields).id == place.id


@pytest.mark.parametrize("option", ["--once", "--json", "--grep=reward", "--lines=3", "--log"])
def test_what_is_printed_opens_no_app(option: str, opened: list[Any]) -> None:
    Path("here.log").write_text(TRL)
    done = hudtui("watch", "here.log", "--once", option)
    assert done.exit_code == 0 and "0.25" in done.stdout and not opened


def test_follow_prints_at_a_terminal(opened: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def watch(target: str, request: Any, as_json: bool) -> None:
        asked.append((target, request.file))

    monkeypatch.setattr("hudtui.cli.watch._watch", watch)
    assert hudtui("watch", "gpu1:a.log", "-f").exit_code == 0
    assert asked == [("gpu1", "a.log")] and not opened


def test_a_folder_without_numbers_opens_no_app(opened: list[Any]) -> None:
    Path("empty").mkdir()
    done = hudtui("watch", "empty")
    assert done.exit_code == 2 and "without files of W&B" in done.stderr and not opened


def test_metrics_of_runs_of_others_and_into_files() -> None:
    make_run("first", [0.1, 0.5])
    Path("their.log").write_text(TRL)
    done = hudtui("runs", "metrics", "first", "./their.log", "--csv", "-")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("run,step,time,reward") and lines[1].startswith("first,1,")
    assert any(line.startswith("their.log,") for line in lines)
    for _ in range(2):
        done = hudtui("runs", "metrics", "their.log", "--csv", "a.csv", "--picture", "a.svg")
        assert Path("a.csv").read_text().startswith("run,step")
        assert "<polyline" in Path("a.svg").read_text()
    assert done.exit_code == 2 and "a.csv exists" in done.stderr and "--force" in done.stderr
    assert hudtui("runs", "metrics", "their.log", "--csv", "a.csv", "--force").exit_code == 0
    shown = hudtui("runs", "metrics", "their.log")
    assert "reward std" in shown.stdout and "their.log" in shown.stdout
    Path("none.log").write_text("nothing\n")
    done = hudtui("runs", "metrics", "none.log", "--csv", "b.csv")
    assert done.exit_code == 2 and "there are no numbers" in done.stderr
    assert not Path("b.csv").exists()
    assert hudtui("runs", "metrics", "./not-there.log").exit_code != 0


def test_two_logs_of_one_name_stay_two_runs() -> None:
    for folder in ("a", "b"):
        Path(folder).mkdir()
        Path(folder, "train.log").write_text('{"step": 1, "reward": 0.5}\n')
    done = hudtui("runs", "metrics", "a/train.log", "b/train.log", "--csv", "-")
    assert [line.partition(",")[0] for line in done.stdout.splitlines()[1:]] == [
        "a/train.log",
        "b/train.log",
    ]
    done = hudtui("runs", "metrics", "a/train.log", "b/train.log", "--json")
    assert [run["id"] for run in json.loads(done.stdout)["runs"]] == ["a/train.log", "b/train.log"]


def test_a_file_of_curves_is_written_into_folders_that_exist() -> None:
    Path("train.log").write_text('{"step": 1, "reward": 0.5}\n')
    for path in ("none/a.svg", "train.log/a.svg"):
        done = hudtui("runs", "metrics", "train.log", "--csv", "a.csv", "--picture", path)
        assert done.exit_code != 0 and "is no folder" in done.stderr, done.stderr
        assert not Path("none").exists() and not Path("a.csv").exists(), "all or nothing"


@pytest.mark.parametrize("words", [("watch",), ("runs", "metrics"), ("runs", "diagnose")])
@pytest.mark.parametrize("name", ["a" * 5000, f"./{'a' * 5000}", f"{'a' * 300}.log"])
def test_a_name_that_no_file_can_have_is_an_error_in_words(
    words: tuple[str, ...], name: str
) -> None:
    more = ("--once",) if words == ("watch",) else ()
    done = hudtui(*words, name, *more)
    assert (
        done.exit_code != 0 and "error:" in done.stderr and done.exception.__class__ is SystemExit
    )


_INTERRUPTED = """
import sys
from hudtui.core.runs import external

async def interrupted(*_, **__):
    with open("looked", "a") as found:
        found.write("x")
    raise KeyboardInterrupt

external.find_external = interrupted
from hudtui.cli import main
main()
"""


def test_ctrl_c_ends_the_command_while_a_run_is_looked_for(own_world: Path) -> None:
    (own_world / "train.log").write_text(TRL)
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _INTERRUPTED, "watch", "train.log"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 130
    assert (own_world / "looked").read_text() == "x"
