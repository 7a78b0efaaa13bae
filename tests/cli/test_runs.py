"""`hudtui runs` as a user types it: exit codes, streams, and runs that go on without the
command."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import tmux_world
from support.command import hudtui
from support.runs import make_run

from hudtui.cli import runlog
from hudtui.core.errors import MachineError
from hudtui.core.process import machine_label
from hudtui.core.remote.local import LocalHost
from hudtui.core.remote.logs import LineBatch
from hudtui.core.runs import reconcile, watch
from hudtui.core.runs.launch import launch
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import FileRef, Plan, PlanOutput, Stage

own_tmux = tmux_world.own_tmux

CONFIG = """
system_prompt: Play 2048.
parser: {use_thinking: false}
action_mappings:
""" + "".join(
    f"  {word}:\n    _parser: {{positional: []}}\n    _tool: move\n    direction: {{static: "
    f"{word}}}\n"
    for word in ("left", "right", "up", "down")
)


@pytest.fixture
def workspace(own_world: Path) -> Path:
    server = {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
    tasks = [
        {
            "id": f"seed-{seed}",
            "prompt": "Reach 64.",
            "mcp_config": {"text-2048": server},
            "setup_tool": {
                "name": "setup",
                "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": seed}},
            },
            "evaluate_tool": {
                "name": "evaluate",
                "arguments": {"name": "max_number", "arguments": {"target": 64}},
            },
        }
        for seed in (1, 2)
    ]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    (own_world / "play.yaml").write_text(CONFIG)
    return own_world


@pytest.fixture
def endless(own_world: Path) -> Iterator[str]:
    """A run that prints hostile lines, and then goes on for ever."""
    store = RunStore(own_world / ".hudtui")
    script = r"printf 'one\n\033]52;c;ZXZpbA==\007two\033[31m red\n10%%\r100%%\n'; exec sleep 1000"
    plan = Plan("rollouts", (Stage("s0", ("bash", "-c", script), grace=1.0),))
    spec = RunSpec("rollouts", "endless", str(own_world))
    record = RunRecord(
        "endless-1",
        time.time(),
        "endless",
        "rollouts",
        "local",
        machine_label(),
        str(store.folder / "endless-1"),
        spec,
        plan,
    )

    async def work() -> None:
        async for _ in launch(record, LocalHost(), store):
            pass

    asyncio.run(work())
    log = Path(record.folder) / "logs" / "s0.log"
    while not log.exists() or b"100%" not in log.read_bytes():
        time.sleep(0.02)
    yield record.id
    hudtui("runs", "stop", record.id, "--yes", "--now")


def test_a_run_from_start_to_result(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "play.yaml").write_text("job: {name: Night run}\n" + CONFIG)
    monkeypatch.setenv("HUD_TELEMETRY_LOCAL_DIR", str(workspace / "spans"))
    started = hudtui(
        "runs",
        "start",
        "--engine",
        "rollouts",
        "--policy",
        "greedy",
        "--max-turns",
        "20",
        "--name",
        "First One",
    )
    run = started.stdout.strip()
    assert run.startswith("first-one-") and f"hudtui runs logs -f {run}" in started.stderr
    followed = hudtui("runs", "logs", "-f", "--all", run)
    assert "task=seed-1" in followed.stdout and "task=seed-2" in followed.stdout
    assert followed.stderr.strip().endswith(f"run {run} finished")
    assert hudtui("runs", "logs", run, "--all").stdout == followed.stdout
    assert (
        hudtui("runs", "logs", run, "--lines", "1").stdout
        == followed.stdout.splitlines(keepends=True)[-1]
    )
    shown = json.loads(hudtui("runs", "show", "--json").stdout)
    assert (shown["id"], shown["state"], shown["mode"]) == (run, "finished", "tmux")
    assert {row["task"] for row in shown["result"]["tasks"]} == {"seed-1", "seed-2"}
    assert len(shown["metrics"]["reward"]) == 2 and shown["plan"]["engine"] == "rollouts"
    assert shown["job"]["name"] == "Night run" and f"id={shown['job']['id']}" in followed.stdout
    (listed,) = json.loads(hudtui("runs", "--json").stdout)
    assert (listed["id"], listed["reward"]) == (run, shown["result"]["reward"])
    words = hudtui("runs", "show", run).stdout
    assert f"job        {shown['job']['id']}  (Night run)" in words
    assert "✓ finished" in words and "seed-1" in words and "mean reward" in words
    table = hudtui("runs").stdout.splitlines()
    assert (
        table[0].split()
        == [
            "STATE",
            "RUN",
            "MODEL",
            "STAGE",
            "STEP",
            "STARTED",
            "TIME",
            "REWARD",
            "COST",
            "HEARTBEAT",
            "NOTE",
        ]
        and run in table[1]
    )
    assert table[1].split()[3] == "greedy" and " 2/2 " in table[1], (
        "the player, and the step as on the screen"
    )


def test_following_from_the_start_prints_the_result_alone(workspace: Path) -> None:
    done = hudtui("runs", "start", "-f", "--json", "--max-turns", "5", "--no-tmux", "--limit", "1")
    view = json.loads(done.stdout)
    assert (view["state"], view["mode"], view["result"]["episodes"]) == ("finished", "processes", 1)
    assert "task=seed-1" in done.stderr


def test_a_run_that_fails_is_a_failure(workspace: Path) -> None:
    task = {
        "id": "a",
        "prompt": "p",
        "mcp_config": {"env": {"command": "false"}},
        "evaluate_tool": {"name": "evaluate"},
    }
    (workspace / "tasks.json").write_text(json.dumps([task]))
    done = hudtui("runs", "start", "-f", code=1)
    assert "✗ failed: play failed (exit 1): every episode broke off" in done.stdout
    (workspace / "tasks.json").write_text('[{"id": "a", "prompt": "no environment"}]')
    refused = hudtui("runs", "start", "-f", code=2)
    assert "0 of 1 task of" in refused.stderr and "mcp_config: required" in refused.stderr, (
        "what would fail is not started"
    )


def test_a_dry_run_shows_the_plan_and_leaves_no_trace(workspace: Path) -> None:
    done = hudtui("runs", "start", "--dry-run", "tasks.json", "--config", "play.yaml")
    assert (
        "\nplay " in done.stdout
        and "files/tasks/tasks.json" in done.stdout
        and "Ready: no machine is rented" in done.stdout
    )
    plan = json.loads(hudtui("runs", "start", "--dry-run", "--json").stdout)["plan"]
    assert plan["stages"][0]["name"] == "play"
    assert not (workspace / ".hudtui").exists()


def test_no_runs_is_no_error(own_world: Path) -> None:
    done = hudtui("runs")
    assert done.stdout == "" and "No runs yet" in done.stderr
    assert json.loads(hudtui("runs", "list", "--json").stdout) == []
    done = hudtui("runs", "show", "--json", code=6)
    assert json.loads(done.stdout)["error"]["type"] == "RunError" and "no runs" in done.stderr
    assert not (own_world / ".hudtui").exists()


def test_what_is_missing_is_told(own_world: Path, workspace: Path) -> None:
    assert "none.json: there is no such file" in hudtui("runs", "start", "none.json", code=2).stderr
    assert "no engine called 'magic'" in hudtui("runs", "start", "--engine", "magic", code=2).stderr
    (workspace / "play.yaml").unlink()
    assert "there is no config" in hudtui("runs", "start", code=2).stderr


def test_logs_are_harmless_and_folded(endless: str) -> None:
    done = hudtui("runs", "logs", endless)
    assert done.stdout == "one\ntwo red\n100%\n"
    lines = [
        json.loads(line) for line in hudtui("runs", "logs", endless, "--json").stdout.splitlines()
    ]
    assert lines[1] == {"window": "s0", "line": "two red"}
    assert "no window 'zzz'" in hudtui("runs", "logs", endless, "-w", "zzz", code=6).stderr


@pytest.mark.parametrize("words", [("--all",), ("--grep", "last")])
def test_of_a_log_without_end_the_last_part_is_printed(
    endless: str, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("hudtui.cli.runlog._MOST", 2**20)
    monkeypatch.setattr("hudtui.cli.runlog._MOST_SEARCHED", 2**20)
    folder = Path(json.loads(hudtui("runs", "show", endless, "--json").stdout)["folder"])
    hudtui("runs", "stop", endless, "--yes")
    with (folder / "logs" / "s0.log").open("ab") as stream:
        stream.truncate(2**43)  # takes no room, and days to read
        stream.seek(0, os.SEEK_END)
        stream.write(b"\nlast\n")
    done = hudtui("runs", "logs", endless, *words)
    assert done.stdout.endswith("last\n") and "one" not in done.stdout
    assert "s0: the first 8.0 TiB of the log are left out" in done.stderr


def test_leaving_a_followed_log_leaves_the_run(endless: str) -> None:
    argv = [sys.executable, "-m", "hudtui", "runs", "logs", "-f", endless]
    follower = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert follower.stdout is not None and follower.stderr is not None
    assert [follower.stdout.readline() for _ in range(3)] == ["one\n", "two red\n", "100%\n"]
    follower.send_signal(signal.SIGINT)
    _, said = follower.communicate(timeout=30)
    assert follower.returncode == 130 and "The run continues" in said
    (run,) = json.loads(hudtui("runs", "list", "--active", "--json").stdout)
    assert (run["id"], run["state"]) == (endless, "running")


def test_a_reader_that_goes_away_is_no_error(endless: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m hudtui runs logs {endless} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("one\n", "")


def test_stopping_asks_unless_told_not_to(endless: str) -> None:
    assert "--yes" in hudtui("runs", "stop", endless, code=2).stderr
    assert "Stop " in hudtui("runs", "stop", endless, "--yes", "--dry-run").stdout
    assert json.loads(hudtui("runs", "show", endless, "--json").stdout)["state"] == "running"
    done = hudtui("runs", "stop", endless, "--yes", "--json")
    assert json.loads(done.stdout)["state"] == "stopped"
    assert "none of its processes is running" in done.stderr
    assert "has ended already" in hudtui("runs", "stop", endless, "--yes").stderr
    assert "has ended already" in hudtui("runs", "stop", endless, "--dry-run").stderr


def test_attach_names_the_session(endless: str) -> None:
    assert (
        hudtui("runs", "attach", endless).stdout.strip()
        == "tmux attach-session -t =hudtui-endless-1"
    )
    hudtui("runs", "stop", endless, "--yes")
    assert "the run has ended" in hudtui("runs", "attach", endless, code=6).stderr


@pytest.mark.parametrize("words", [("runs", "start"), ("rehearse", "--yes")])
def test_ctrl_c_while_it_starts_means_not_to_start(workspace: Path, words: tuple[str, ...]) -> None:
    tasks = json.loads((workspace / "tasks.json").read_text())
    (workspace / "tasks.json").write_text(
        json.dumps([{**task, "id": f"{task['id']}-{n}"} for task in tasks for n in range(2)])
    )
    argv = [sys.executable, "-m", "hudtui", *words, "--no-tmux"]
    starter = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert starter.stderr is not None
    run = next(line for line in starter.stderr if line.startswith("run ")).split()[1]
    starter.send_signal(signal.SIGINT)
    _, said = starter.communicate(timeout=60)
    assert starter.returncode == 130 and f"run {run} is not started" in said
    (listed,) = json.loads(hudtui("runs", "--json").stdout)
    assert (listed["id"], listed["state"]) == (run, "stopped")


def test_killing_the_command_leaves_the_run(workspace: Path) -> None:
    argv = [sys.executable, "-m", "hudtui", "runs", "start", "-f", "--max-turns", "30"]
    starter = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert starter.stderr is not None
    run = next(line for line in starter.stderr if line.startswith("run ")).split()[1]
    for line in starter.stderr:
        if "supervisor" in line:
            break
    os.kill(starter.pid, signal.SIGKILL)
    starter.communicate()
    hudtui("runs", "logs", "-f", run)
    (listed,) = json.loads(hudtui("runs", "--json").stdout)
    assert (listed["id"], listed["state"]) == (run, "finished")


async def test_a_log_that_cannot_be_followed_leaves_none_of_the_others_at_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Watcher:
        def __init__(self, window: str = "") -> None:
            self.window = window

        async def tail(self, **_: object) -> int:
            return 0

        async def follow_lines(self, **_: object) -> AsyncGenerator[LineBatch, None]:
            yield LineBatch(["begun"], "")
            if self.window == "broken":
                raise MachineError("the machine is gone")
            await asyncio.Event().wait()

    before = asyncio.all_tasks()
    logs: Any = {window: Watcher(window) for window in ("fine", "broken")}
    sink = runlog.Sink(False, ["fine", "broken"])
    with pytest.raises(MachineError):
        await runlog.follow_logs(logs, runlog.EVERYTHING, sink)
    assert asyncio.all_tasks() == before
    assert capsys.readouterr().out == "fine   | begun\nbroken | begun\n"


def test_names_comments_and_differences(own_world: Path) -> None:
    store = RunStore(own_world / ".hudtui")
    for run, seed in (("one-aaaa", None), ("two-bbbb", 7)):
        spec = RunSpec("rollouts", "play", str(own_world), seed=seed)
        plan = Plan("rollouts", (Stage("play", ("true",)),))
        store.add(
            RunRecord(
                run,
                time.time(),
                "play",
                "rollouts",
                "local",
                machine_label(),
                str(store.folder / run),
                spec,
                plan,
            )
        )
        store.append(run, "stopped", {"why": "on request"})
    changed = json.loads(hudtui("runs", "rename", "one-aaaa", "base line", "--json").stdout)
    assert changed == {"run": "one-aaaa", "name": "base line", "comment": "", "tags": []}
    assert "one-aaaa: base line: flat" in hudtui("runs", "comment", "base line", "flat").stderr
    assert "comment    flat" in hudtui("runs", "show", "one-aaaa").stdout
    assert "on request" in hudtui("runs").stdout
    found = json.loads(hudtui("runs", "diff", "one-aaaa", "two-bbbb", "--json").stdout)
    assert found == {
        "runs": ["one-aaaa", "two-bbbb"],
        "differences": [{"field": "seed", "values": [None, 7]}],
    }
    assert hudtui("runs", "diff", "one-aaaa", "two-bbbb").stdout.splitlines() == [
        "SETTING  one-aaaa  two-bbbb",
        "seed     -         7",
    ]
    assert "are the same" in hudtui("runs", "diff", "one-aaaa", "one-aaaa").stderr
    assert "two runs or more" in hudtui("runs", "diff", "one-aaaa", code=2).stderr
    assert "not a valid name" in hudtui("runs", "rename", "one-aaaa", "\x1b[31m", code=2).stderr


def test_the_settings_of_a_run(own_world: Path) -> None:
    store = RunStore(own_world / ".hudtui")
    tasks = FileRef("/work/tasks.json", 3 * 2**20, "ab" * 32)
    spec = RunSpec(
        "trl",
        "grpo",
        str(own_world),
        tasks=tasks,
        training={"temperature": 0.7},
        variables={"MY_DSN": "hunter2"},
    )
    plan = Plan("trl", (Stage("train", ("true",), env={"MY_DSN": "hunter2"}),))
    store.add(
        RunRecord(
            "one-aaaa",
            1e9,
            "grpo",
            "trl",
            "local",
            machine_label(),
            str(store.folder / "one-aaaa"),
            spec,
            plan,
        )
    )
    lines = hudtui("runs", "settings").stdout.splitlines()
    assert (
        lines[0].split() == ["SETTING", "VALUE", "DEFAULT"]
        and "trainer" in lines
        and "variables" in lines
    )
    rows = [line.split() for line in lines]
    assert (
        ["temperature", "0.7", "1.0"] in rows
        and ["num_generations", "16"] in rows
        and ["MY_DSN", "••••"] in rows
    )
    assert ["tasks.size", "3.0", "MiB"] in rows
    changed = hudtui("runs", "settings", "one", "--changed").stdout.splitlines()
    assert [line.split() for line in changed[1:]] == [["trainer"], ["temperature", "0.7", "1.0"]]
    found = json.loads(hudtui("runs", "settings", "one-aaaa", "--json").stdout)
    (one,) = [row for row in found["settings"] if row["name"] == "training.temperature"]
    assert found["run"] == "one-aaaa" and (one["value"], one["default"], one["changed"]) == (
        0.7,
        1.0,
        True,
    )
    assert [row["value"] for row in found["settings"] if row["name"] == "tasks.size"] == [3 * 2**20]
    assert "hunter2" not in json.dumps(found)
    shown = hudtui("runs", "show", "one", "--json").stdout
    assert (
        json.loads(shown)["plan"]["stages"][0]["env"] == {"MY_DSN": "••••"}
        and "hunter2" not in shown
    )
    assert "no run" in hudtui("runs", "settings", "two", code=6).stderr


def test_tags_and_the_archive(own_world: Path) -> None:
    for run, state in (("one-aaaa", "finished"), ("two-bbbb", "failed"), ("now-cccc", "running")):
        make_run(own_world, run, state, name=run[:3])
    assert "one-aaaa: one: #flat #paper" in hudtui("runs", "tag", "one", "paper", "flat").stderr
    told = json.loads(hudtui("runs", "tag", "one", "flat", "--remove", "--json").stdout)
    assert told == {"run": "one-aaaa", "name": "one", "comment": "", "tags": ["paper"]}
    assert (
        "#paper" in hudtui("runs", "list", "tag:paper").stdout
        and "tags       paper" in hudtui("runs", "show", "one").stdout
    )
    assert "is not a tag" in hudtui("runs", "tag", "one", "two words", code=2).stderr
    assert "has not ended" in hudtui("runs", "archive", "one", "now", code=6).stderr
    assert json.loads(hudtui("runs", "archive", "one", "two", "--json").stdout)[0] == {
        "run": "one-aaaa",
        "archived": True,
    }
    listed = hudtui("runs")
    assert "now-cccc" in listed.stdout and "one-aaaa" not in listed.stdout
    assert "Not listed: 2 archived runs; --all lists all." in listed.stderr
    assert len(json.loads(hudtui("runs", "list", "--json").stdout)) == 1
    assert [
        one["archived"]
        for one in json.loads(hudtui("runs", "list", "--all", "two", "--json").stdout)
    ] == [True]
    assert "listed again" in hudtui("runs", "archive", "one", "--undo").stderr
    assert "one-aaaa" in hudtui("runs").stdout


def test_several_runs_are_removed_at_once(own_world: Path) -> None:
    for run, state in (("one-aaaa", "finished"), ("two-bbbb", "failed"), ("now-cccc", "running")):
        make_run(own_world, run, state, name=run[:3])
    assert (
        "now-cccc (now, running)"
        in hudtui("runs", "rm", "one", "two-bbbb", "now", "--yes", code=6).stderr
    )
    assert "add --yes" in hudtui("runs", "rm", "one", "two", code=2).stderr
    assert "Remove 2 runs?" in hudtui("runs", "rm", "one", "two", "--dry-run", "--yes").stdout
    gone = json.loads(hudtui("runs", "rm", "one", "two-bbbb", "--yes", "--json").stdout)
    assert [one["run"] for one in gone] == ["one-aaaa", "two-bbbb"]
    assert "run one-aaaa is no longer listed" in gone[0]["removed"]
    assert [run.id for run in RunStore(own_world / ".hudtui").runs()] == ["now-cccc"]


def test_the_list_is_filtered_sorted_and_grouped(own_world: Path) -> None:
    store = RunStore(own_world / ".hudtui")
    runs = (
        ("play-aaaa", "rollouts", "greedy", 0.5),
        ("grpo-bbbb", "trl", "", 0.25),
        ("play-cccc", "rollouts", "random", 0.75),
    )
    for number, (run, engine, policy, reward) in enumerate(runs):
        model = "org/Big-3B" if engine == "trl" else None
        spec = RunSpec(
            engine, run.partition("-")[0], str(own_world), policy=policy or "greedy", model=model
        )
        plan = Plan(
            engine,
            (Stage("play", ("true",)),),
            outputs=(PlanOutput("out/metrics.jsonl", "metrics"),),
        )
        folder = store.folder / run
        (folder / "out").mkdir(parents=True)
        (folder / "out" / "metrics.jsonl").write_text(
            json.dumps({"step": 1, "reward": reward}) + "\n"
        )
        store.add(
            RunRecord(
                run,
                1e9 + number,
                spec.name,
                engine,
                "local",
                machine_label(),
                str(folder),
                spec,
                plan,
            )
        )
        store.append(run, "stopped", {"why": "out of memory" if engine == "trl" else "on request"})

    def ids(*words: str) -> list[str]:
        return [row["id"] for row in json.loads(hudtui("runs", "list", "--json", *words).stdout)]

    assert ids() == ["play-cccc", "grpo-bbbb", "play-aaaa"]
    assert ids("name:play") == ["play-cccc", "play-aaaa"]
    assert ids("MEMORY") == ["grpo-bbbb"]
    assert ids("model:big", "engine:trl") == ["grpo-bbbb"]
    assert ids("!engine:trl", "--sort", "reward") == ["play-aaaa", "play-cccc"]
    assert ids("--sort", "reward", "--reverse", "-n", "1") == ["play-cccc"]
    for more in ((), ("--json",)):
        cut = hudtui("runs", "list", "-n", "2", *more)
        assert "2 of 3 runs are shown; --limit 3 shows all." in cut.stderr, (
            "also where a program reads the list"
        )
        assert "are shown" not in hudtui("runs", "list", "-n", "3", *more).stderr
    assert ids("reward:<0.6", "--reverse") == ["play-aaaa", "grpo-bbbb"]
    assert ids("--group", "model") == ["play-cccc", "grpo-bbbb", "play-aaaa"]
    lines = hudtui("runs", "list", "--group", "engine", "--sort", "name").stdout.splitlines()
    assert [line.split()[0:3] for line in lines[1:]] == [
        ["engine:", "trl"],
        ["■", "stopped", "grpo-bbbb"],
        ["engine:", "rollouts"],
        ["■", "stopped", "play-cccc"],
        ["■", "stopped", "play-aaaa"],
    ]
    assert "No run matches" in hudtui("runs", "list", "state:running").stderr
    wrong = hudtui("runs", "list", "colour:red", code=2)
    assert "no field 'colour'" in wrong.stderr and "state, name, id" in wrong.stderr


def test_a_run_is_started_again_and_continued(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = workspace / "told.jsonl"
    monkeypatch.setenv("HUDTUI_NOTIFY_COMMAND", f"tee -a '{told}'")
    first = json.loads(
        hudtui(
            "runs", "start", "-f", "--json", "--no-tmux", "--max-turns", "5", "--name", "base"
        ).stdout
    )
    (news,) = map(json.loads, told.read_text().splitlines())
    assert (news["event"], news["run"], news["state"], news["reward"]) == (
        "end",
        first["id"],
        "finished",
        first["result"]["reward"],
    )
    monkeypatch.delenv("HUDTUI_NOTIFY_COMMAND")
    store = RunStore(workspace / ".hudtui")
    assert (
        "not a terminal" in hudtui("runs", "rerun", first["id"], code=2).stderr
        and len(store.runs()) == 1
    )
    again = json.loads(hudtui("runs", "rerun", "base", "--yes", "--json", "--no-tmux").stdout)
    assert again["id"] != first["id"] and again["name"] == "base" and again["state"] == "finished"

    def tasks(view: dict[str, Any]) -> list[Any]:
        return sorted(view["result"]["tasks"], key=lambda row: row["task"])

    assert tasks(again) == tasks(first)
    specs = [store.record(run).spec for run in (first["id"], again["id"])]
    assert specs[0] == replace(specs[1], gpus=specs[0].gpus)  # which nothing of this run uses

    traces = Path(first["folder"]) / "out" / "traces.jsonl"
    kept = traces.read_text().splitlines()[0]
    traces.write_text(kept + "\n")  # as of a run that was ended in between
    further = json.loads(
        hudtui("runs", "continue", first["id"], "--yes", "--json", "--no-tmux").stdout
    )
    played = (Path(further["folder"]) / "out" / "traces.jsonl").read_text().splitlines()
    assert played[0] == kept and len(played) == 2 and tasks(further) == tasks(first)
    shown = hudtui("runs", "show", further["id"]).stdout
    assert f"continues  run {first['id']}\n" in shown
    assert json.loads(hudtui("runs", "show", further["id"], "--json").stdout)["continues"] == {
        "run": first["id"],
        "step": None,
    }
    assert (
        "only a training has steps"
        in hudtui("runs", "continue", first["id"], "--step", "3", code=2).stderr
    )
    planned = json.loads(hudtui("runs", "continue", first["id"], "--dry-run", "--json").stdout)
    assert "out/traces.jsonl" in [file["path"] for file in planned["plan"]["files"]]
    assert len(store.runs()) == 3


def test_the_log_is_searched(endless: str, own_world: Path) -> None:
    log = own_world / ".hudtui" / "runs" / endless / "logs" / "s0.log"
    head = (
        "config Seed=7\n"
        + "".join(f"INFO step {number}\n" for number in range(500))
        + "ERROR no room\n  on disk\nINFO again\n"
    )
    log.write_text(head)

    def logs(*words: str) -> list[str]:
        return hudtui("runs", "logs", endless, *words).stdout.splitlines()

    assert len(logs()) == 200 and logs()[-1] == "INFO again"
    assert logs("--grep", "seed") == ["config Seed=7"]
    assert logs("--grep", "step 49.$", "-n", "2") == ["INFO step 498", "INFO step 499"]
    assert (
        "not a regular expression" in hudtui("runs", "logs", endless, "--grep", "a(", code=2).stderr
    )
    with subprocess.Popen(
        [sys.executable, "-m", "hudtui", "runs", "logs", endless, "-f", "--grep", "room"],
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        try:
            assert following.stdout.readline() == "ERROR no room\n"
            with log.open("a") as stream:
                stream.write("INFO quiet\nmore room\n")
            assert following.stdout.readline() == "more room\n"
        finally:
            following.terminate()


def test_a_run_whose_machine_is_silent_shows_what_is_known(
    own_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PATIENCE", 1.0)
    monkeypatch.setattr(reconcile, "_ANSWERS", 1.0)
    key = Path.home() / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    store = RunStore(own_world / ".hudtui")
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as mute:  # connections are taken, and nothing is ever said
        host = f"127.0.0.1:{mute.getsockname()[1]}"
        plan = Plan("rollouts", (Stage("play", ("true",)),))
        spec = RunSpec("rollouts", "play", str(own_world))
        store.add(
            RunRecord(
                "mute-aaaa",
                1e9,
                "play",
                "rollouts",
                host,
                machine_label(),
                "/there/mute-aaaa",
                spec,
                plan,
            )
        )
        shown = hudtui("runs", "show", "mute-aaaa")
        told = json.loads(hudtui("runs", "show", "mute-aaaa", "--json").stdout)
    assert (
        shown.returncode == 0
        and "/there/mute-aaaa" in shown.stdout
        and "did not answer within 1 s" in shown.stdout
    )
    assert (
        "this is what was known before" in shown.stdout
        and "this is what was known before" in told["problem"]
    )
    assert told["host"] == host
