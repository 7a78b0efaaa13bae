"""The supervisor as it is used: started by its command line, watched through its files, with the
real tmux."""

from __future__ import annotations

import ast
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.pythons import PYTHONS

from hudtui.core.runs.reports import MachineReport, StatusReport, read_report
from hudtui.pod import supervisor

FILE = Path(supervisor.__file__)


class Run:
    """A run's folder, and its supervisor at the other end of a command line."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder, self.python = folder, python
        folder.mkdir(parents=True)

    def plan(self, *stages: dict[str, Any], **more: Any) -> Run:
        plan = {
            "run": self.folder.name,
            "session": f"hudtui-{self.folder.name}",
            "stages": stages,
            **more,
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))
        return self

    def call(
        self, *words: str, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        argv = [self.python, str(FILE), words[0], str(self.folder), *words[1:]]
        done = subprocess.run(
            argv, input=stdin, capture_output=True, env={**os.environ, **(env or {})}, timeout=100
        )
        return done.returncode, json.loads(done.stdout)

    def start(self, secrets: dict[str, str] | None = None, **env: str) -> int:
        code, answer = self.call(
            "start", stdin=json.dumps({"env": secrets}).encode() if secrets else b"", env=env
        )
        assert code == 0, answer
        return int(answer["pid"] or 0)

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
        return found

    @property
    def events(self) -> list[dict[str, Any]]:
        path = self.folder / "events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event["data"] for event in self.events if event["type"] == kind]

    def log(self, stage: str) -> bytes:
        return (self.folder / "logs" / f"{stage}.log").read_bytes()

    def until(self, true: Callable[[], Any], limit: float = 60.0) -> Any:
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if found := true():
                return found
            time.sleep(0.02)
        raise AssertionError(
            f"not within {limit} s; status: {self.status}; "
            f"{(self.folder / 'supervisor.log').read_text()}"
        )

    def end(self, state: str) -> dict[str, Any]:
        self.until(
            lambda: self.status["state"] in ("finished", "failed", "stopped") and self.gone()
        )
        assert self.status["state"] == state, self.status
        return self.status

    def gone(self) -> bool:
        _, answer = self.call("status")
        return not answer["processes"] and answer["supervisor"] is None and not answer["session"]

    def running(self, stage: str) -> dict[str, Any]:
        def look() -> Any:
            return (
                self.status["stages"][stage]
                if self.status["stages"][stage]["state"] in ("running", "ready")
                else None
            )

        found: dict[str, Any] = self.until(look)
        return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path / "r")


def sh(name: str, script: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "argv": ["bash", "-c", script], **more}


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def sessions() -> list[str]:
    done = subprocess.run(
        ["tmux", "list-sessions", "-F", "#{session_name}"], capture_output=True, text=True
    )
    return done.stdout.split()


# --- what a run does ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "minor"), [("supervisor", 8), ("watchdog", 8), ("lookout", 8), ("bootstrap", 8)]
)
def test_what_travels_needs_nothing_but_an_old_python(file: str, minor: int) -> None:
    tree = ast.parse(FILE.with_name(f"{file}.py").read_text(), feature_version=(3, minor))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        beside = (
            {"supervisor", "hudtui.pod.supervisor"} if file in ("watchdog", "lookout") else set()
        )
        assert all(
            name in beside or name.partition(".")[0] in sys.stdlib_module_names for name in names
        ), names


@pytest.mark.parametrize("tmux", [True, False], ids=["tmux", "processes"])
@pytest.mark.parametrize(
    "python", PYTHONS, ids=lambda path: "old" if path != sys.executable else "own"
)
def test_stages_run_one_after_the_other(tmp_path: Path, python: str, tmux: bool) -> None:
    run = Run(tmp_path / "r", python)
    exact = b"one\r50%\r100%\n\xff\xfe\x1b]52;c;x\x07\tno end"
    script = f"import sys; sys.stdout.buffer.write({exact!r})"
    run.plan(
        {"name": "first", "argv": [sys.executable, "-c", script]},
        sh("second", "pwd; echo $WORD; echo err >&2", cwd="work", env={"WORD": "a b"}),
        tmux=tmux,
    )
    (run.folder / "work").mkdir()
    run.start()
    status = run.end("finished")
    assert run.log("first") == exact
    assert run.log("second") == f"{run.folder}/work\na b\nerr\n".encode()
    assert status["mode"] == ("tmux" if tmux else "processes")
    assert {name: stage["exit"] for name, stage in status["stages"].items()} == {
        "first": 0,
        "second": 0,
    }
    assert status["heartbeat"] >= status["started"] > 0 and status["ended"] >= status["started"]
    kinds = [event["type"] for event in run.events]
    assert kinds == [
        "started",
        "stage_started",
        "stage_ended",
        "stage_started",
        "stage_ended",
        "finished",
    ]
    assert [event["seq"] for event in run.events] == list(range(1, len(kinds) + 1))
    assert sessions() == []


def test_windows_show_the_logs_and_outlive_their_stages(run: Run) -> None:
    run.plan(sh("first", "echo early"), sh("second", "echo late; sleep 60"))
    run.start()
    run.running("second")
    assert sessions() == ["hudtui-r"]
    listed = ["tmux", "list-windows", "-t", "=hudtui-r", "-F", "#W #{pane_dead}"]
    run.until(
        lambda: (
            subprocess.run(listed, capture_output=True, text=True).stdout.split("\n")[:2]
            == ["first 0", "second 0"]
        )
    )

    def screen(name: str) -> str:
        show = ["tmux", "capture-pane", "-p", "-t", f"=hudtui-r:={name}"]
        return subprocess.run(show, capture_output=True, text=True).stdout

    def shown() -> bool:
        return all(
            words in screen(name) for name, words in (("first", "early"), ("second", "late"))
        )

    run.until(shown)
    # Whoever attaches now sees the stage that runs.
    active = ["tmux", "display-message", "-p", "-t", "=hudtui-r:", "#W"]
    run.until(lambda: subprocess.run(active, capture_output=True, text=True).stdout == "second\n")
    run.call("stop")
    run.end("stopped")


def test_a_failing_stage_ends_the_run(run: Run) -> None:
    run.plan(sh("good", "true"), sh("bad", "echo broken; exit 3"), sh("never", "true")).start()
    status = run.end("failed")
    assert status["why"] == "bad: it ended with status 3"
    assert status["stages"]["never"]["state"] == "waiting"
    assert run.log("bad") == b"broken\n"


def test_the_reason_that_a_stage_gives_is_the_run_s(run: Run) -> None:
    first = "echo error: not this one; head -c 20000 /dev/zero | tr '\\0' x; echo"
    last = "printf 'error: \\033[1mno room for %s\\n  Make room.\\n' $A_KEY"
    run.plan(sh("bootstrap", f"{first}; {last}; exit 5", secrets=["A_KEY"])).start(
        {"A_KEY": "sk-very-secret"}
    )
    assert run.end("failed")["why"] == "bootstrap failed (exit 5): [1mno room for ***"


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (
            {"name": "s", "argv": ["no-such-program", "x"]},
            "s: `no-such-program` cannot be used: No such file or directory",
        ),
        (
            {"name": "s", "argv": ["true"], "cwd": "nowhere"},
            "nowhere cannot be used: No such file or directory",
        ),
        (
            sh("s", "kill -9 $$"),
            "s: it was ended by SIGKILL: perhaps the machine ran out of memory",
        ),
        (sh("s", "true", secrets=["KEY"]), "s: its secrets are not known here: KEY"),
        (
            sh("s", "sleep 60", max_seconds=0.3, grace=1),
            "s: it took longer than its limit of 0.3 s",
        ),
    ],
    ids=["program", "folder", "signal", "secret", "limit"],
)
def test_why_a_stage_failed_is_said(run: Run, stage: dict[str, Any], why: str) -> None:
    run.plan(stage).start()
    assert run.end("failed")["why"].endswith(why)


def test_a_service_runs_beside_the_stages_after_it(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    serve = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    get = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/').status)"
    run.plan(
        {"name": "serve", "argv": serve, "service": True, "ready": {"port": port, "timeout": 60}},
        {"name": "use", "argv": [sys.executable, "-c", get]},
    ).start()
    status = run.end("finished")
    assert run.log("use") == b"200\n"
    assert status["stages"]["serve"]["exit"] == -signal.SIGTERM
    assert [event["type"] for event in run.events][1:4] == [
        "stage_started",
        "stage_ready",
        "stage_started",
    ]


def test_a_service_that_dies_takes_the_run_with_it(run: Run) -> None:
    run.plan(sh("serve", "sleep 0.3; exit 0", service=True), sh("use", "sleep 60")).start()
    assert run.end("failed")["why"] == "serve: it ended with status 0"


def test_a_service_that_never_answers_is_given_up(run: Run) -> None:
    run.plan(
        sh("serve", "sleep 60", service=True, ready={"path": "sign", "timeout": 0.3}),
        sh("use", "true"),
    ).start()
    assert run.end("failed")["why"] == "serve: it was not ready after 0.3 s"


def test_a_stage_is_restarted_as_often_as_the_plan_allows(run: Run) -> None:
    script = "echo x >> tries; test $(wc -l < tries) = 3"
    run.plan(sh("flaky", script, restart={"times": 2, "delay": 0.05})).start()
    assert run.end("finished")["stages"]["flaky"]["attempt"] == 3
    worse = Run(run.folder.with_name("worse")).plan(
        sh("flaky", script, restart={"times": 1, "delay": 0.05})
    )
    worse.start()
    assert worse.end("failed")["stages"]["flaky"]["attempt"] == 2
    assert (worse.folder / "tries").read_text() == "x\nx\n"
    refused = Run(run.folder.with_name("refused")).plan(
        sh("model", "echo error: no such model; exit 2", restart={"times": 2, "delay": 60.0})
    )
    refused.start()
    ended = refused.end("failed")
    assert ended["stages"]["model"]["attempt"] == 1
    assert ended["why"] == "model failed (exit 2): no such model"


def test_the_time_of_a_run_is_limited(run: Run) -> None:
    run.plan(sh("long", "sleep 60"), max_seconds=0.5).start()
    assert run.end("stopped")["why"] == "its time limit of 0.5 s was reached"


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tmux", [True, False], ids=["tmux", "processes"])
def test_secrets_reach_the_stage_that_names_them_and_nothing_else(run: Run, tmux: bool) -> None:
    secret = "s3cr3t-0123456789"
    run.plan(
        sh("other", "env | grep -c s3cr3t"),
        sh("mine", "echo ${#KEY}; sleep 60", secrets=["KEY"]),
        tmux=tmux,
    )
    plan = json.loads((run.folder / "plan.json").read_text())
    plan["stages"][0]["argv"][2] += "; true"
    (run.folder / "plan.json").write_text(json.dumps(plan))
    run.start({"KEY": secret})
    pid = run.running("mine")["pid"]
    run.until(lambda: run.log("mine") == f"{len(secret)}\n".encode())
    assert run.log("other") == b"0\n"
    for path in run.folder.rglob("*"):
        assert not path.is_fifo(), path
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path
            assert path.stat().st_mode & 0o077 == 0 or path.name == "plan.json"
    assert run.folder.stat().st_mode & 0o777 == 0o700
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert secret.encode() not in entry.read_bytes(), entry
        except (FileNotFoundError, ProcessLookupError):
            continue
    if tmux:
        for words in (
            ["show-environment", "-g"],
            ["show-environment", "-t", "=hudtui-r"],
            ["list-panes", "-aF", "#{pane_start_command}"],
        ):
            assert (
                secret
                not in subprocess.run(
                    ["tmux", *words], capture_output=True, text=True, check=True
                ).stdout
            )
    assert secret.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    run.call("stop")
    run.end("stopped")


def test_exported_secrets_stay_out_of_the_tmux_server(run: Run) -> None:
    run.plan(sh("s", "echo $MY_API_KEY; sleep 60")).start(MY_API_KEY="s3cr3t", PLAIN_WORD="plain")
    run.until(lambda: (run.folder / "logs" / "s.log").exists() and run.log("s") == b"s3cr3t\n")
    shown = subprocess.run(
        ["tmux", "show-environment", "-g"], capture_output=True, text=True, check=True
    ).stdout
    assert "PLAIN_WORD=plain" in shown and "s3cr3t" not in shown
    run.call("stop")
    run.end("stopped")


# --- stopping -------------------------------------------------------------------------------------

RUNAWAYS = (
    '(setsid sleep 1000 & setsid setsid bash -c \'sleep 1001 & trap "" TERM INT HUP; '
    "while :; do sleep 0.1; done' &) ; "
)


@pytest.mark.parametrize("tmux", [True, False], ids=["tmux", "processes"])
def test_stopping_is_polite_first(run: Run, tmux: bool) -> None:
    script = (
        "import signal, sys; signal.signal(15, lambda *_: sys.exit(7)); print('up'); signal.pause()"
    )
    run.plan(
        {"name": "s", "argv": [sys.executable, "-c", script + "; print('not here')"]}, tmux=tmux
    ).start()
    run.until(lambda: (run.folder / "logs" / "s.log").exists() and run.log("s") == b"up\n")
    assert run.call("stop")[0] == 0
    status = run.end("stopped")
    assert status["why"] == "stopped on request"
    assert status["stages"]["s"]["exit"] == 7
    assert run.log("s") == b"up\n"


@pytest.mark.parametrize("tmux", [True, False], ids=["tmux", "processes"])
def test_stopping_ends_what_does_not_want_to_and_what_ran_away(
    run: Run, tmux: bool, own_tmux: str
) -> None:
    run.plan(
        sh("s", RUNAWAYS + "trap '' TERM; echo up; while :; do sleep 0.05; done", grace=0.3),
        tmux=tmux,
    ).start()
    run.until(lambda: (run.folder / "logs" / "s.log").exists() and run.log("s") == b"up\n")
    assert len(run.call("status")[1]["processes"]) >= 4
    run.call("stop")
    assert run.end("stopped")["stages"]["s"]["exit"] == -signal.SIGKILL


def test_what_a_stage_leaves_behind_ends_with_it(run: Run) -> None:
    run.plan(
        sh("s", "(setsid sleep 1000 &); echo done"),
        sh("next", "pgrep -f 'sleep 1000' || echo none"),
    ).start()
    run.end("finished")
    assert run.call("status")[1]["processes"] == []


def test_patience_can_be_lost(run: Run) -> None:
    run.plan(sh("s", "trap '' TERM; echo up; while :; do sleep 0.05; done", grace=600)).start()
    run.until(lambda: (run.folder / "logs" / "s.log").exists() and run.log("s") == b"up\n")
    run.call("stop")
    run.until(lambda: run.status["state"] == "stopping")
    run.call("stop", "0")
    began = time.monotonic()
    run.end("stopped")
    assert time.monotonic() - began < 30


def test_a_stop_that_comes_before_the_start_holds(run: Run) -> None:
    run.plan(sh("s", "echo x > ran")).call("stop")
    run.start()
    run.end("stopped")
    assert not (run.folder / "ran").exists()


def test_whatever_it_writes_is_taken_by_those_who_read_it(run: Run) -> None:
    run.plan(sh("s", "sleep 60")).start()
    run.running("s")
    run.call("stop", "0", "x" * 100_000)
    run.end("stopped")
    lines = (run.folder / "events.jsonl").read_bytes().splitlines()
    assert [type(read_report(line)) for line in lines] == [MachineReport] * len(lines) and len(
        lines
    ) >= 5
    status = msgspec.json.decode((run.folder / "status.json").read_bytes(), type=StatusReport)
    assert status.stages["s"].state == "ended" and status.heartbeat is not None


def test_sigterm_stops_the_run(run: Run) -> None:
    pid = run.plan(sh("s", "sleep 60")).start()
    run.running("s")
    os.kill(pid, signal.SIGTERM)
    assert run.end("stopped")["why"] == "its supervisor was told to stop by SIGTERM"


@pytest.mark.parametrize(
    "words",
    [
        ["kill-session", "-t", "=hudtui-r"],
        ["kill-server"],
        ["send-keys", "-t", "=hudtui-r:=s", "C-c"],
    ],
    ids=["session", "server", "interrupt"],
)
def test_a_window_shows_the_log_and_ends_nothing(run: Run, words: list[str]) -> None:
    run.plan(
        sh("s", "until test -e go; do sleep 0.02; done; echo went on"), sh("t", "true")
    ).start()
    run.running("s")
    subprocess.run(["tmux", *words], check=True)
    (run.folder / "go").touch()
    run.end("finished")
    assert run.log("s") == b"went on\n"


# --- what gets killed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['{"stages": [1]}', '{"stages": {"a": 3}, "session": [1]}', "[1]", "pipe", "endless", "folder"],
)
def test_status_answers_whatever_its_file_is(run: Run, text: str) -> None:
    path = run.folder / "status.json"
    run.folder.mkdir(exist_ok=True)
    if text == "pipe":
        os.mkfifo(path)
    elif text == "endless":
        path.symlink_to("/dev/zero")
    elif text == "folder":
        path.mkdir()
    else:
        path.write_text(text)
    code, answer = run.call("status")
    assert (
        code == 0
        and answer["supervisor"] is None
        and answer["stages"] == []
        and answer["session"] is False
    )


def test_a_second_supervisor_refuses(run: Run) -> None:
    run.plan(sh("s", "echo x >> started; sleep 60"))
    argv = [sys.executable, str(FILE), "start", str(run.folder)]
    many = [
        subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(5)
    ]
    answers = [json.loads(one.communicate(timeout=60)[0]) for one in many]
    assert sorted(one.returncode for one in many) == [0, 3, 3, 3, 3]
    assert {answer["error"] for answer in answers if not answer["ok"]} == {
        "another supervisor carries out this run"
    }
    run.running("s")
    assert run.call("start")[0] == 3
    run.call("stop")
    run.end("stopped")
    assert (run.folder / "started").read_text() == "x\n"
    code, answer = run.call("start")
    assert (code, answer["state"]) == (0, "stopped"), "a run that has ended is not begun again"
    assert (run.folder / "started").read_text() == "x\n"


KILLED = "its supervisor was killed, and the stage was ended with it"
UNSEEN = "its supervisor was killed, and the stage ended unseen"


@pytest.mark.parametrize("tmux", [True, False], ids=["tmux", "processes"])
def test_a_stage_whose_supervisor_was_killed_ends_with_an_honest_reason(
    run: Run, tmux: bool
) -> None:
    script = RUNAWAYS + "echo x >> started; trap '' TERM; while :; do sleep 0.05; done"
    pid = run.plan(sh("s", script), sh("t", "echo y >> started"), tmux=tmux).start()
    stage = run.running("s")["pid"]
    run.until((run.folder / "started").exists)
    os.kill(pid, signal.SIGKILL)
    run.until(lambda: not lives(pid))
    assert run.call("status")[1]["stages"] == ["s"]
    run.start()
    status = run.end("failed")
    assert status["why"] == f"s: {KILLED}" and status["stages"]["s"]["exit"] is None
    assert not lives(stage) and (run.folder / "started").read_text() == "x\n"
    assert run.of("stage_ended") == [
        {"stage": "s", "attempt": 1, "exit": None, "by": "error", "error": KILLED}
    ]
    assert [event["type"] for event in run.events].count("resumed") == 1
    assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))


def test_an_end_that_nobody_saw_is_not_guessed(run: Run) -> None:
    pid = run.plan(sh("s", "until test -e go; do sleep 0.02; done")).start()
    stage = run.running("s")["pid"]
    os.kill(pid, signal.SIGKILL)
    (run.folder / "go").touch()
    run.until(lambda: not lives(stage))
    run.start()
    assert run.end("failed")["why"] == f"s: {UNSEEN}"


def test_a_stage_that_may_have_begun_is_never_begun_again(run: Run) -> None:
    pid = run.plan(sh("s", "echo x >> started; sleep 60")).start()
    stage = run.running("s")["pid"]
    run.until((run.folder / "started").exists)
    os.kill(pid, signal.SIGKILL)
    run.until(lambda: not lives(pid))
    # As if it had been killed before it could note down that the stage runs.
    status = run.status
    status["stages"]["s"].update(state="starting", started=None, pid=None, pid_id=None)
    (run.folder / "status.json").write_text(json.dumps(status))
    run.start()
    assert run.end("failed")["why"] == f"s: {KILLED}"
    assert (run.folder / "started").read_text() == "x\n" and not lives(stage)


def test_a_killed_supervisor_counts_as_a_try_where_the_plan_allows_another(run: Run) -> None:
    script = "echo x >> started; test -e again || sleep 60"
    pid = run.plan(sh("s", script, restart={"times": 1, "delay": 0.05})).start()
    run.until((run.folder / "started").exists)
    run.running("s")
    os.kill(pid, signal.SIGKILL)
    run.until(lambda: not lives(pid))
    (run.folder / "again").touch()
    run.start()
    assert run.end("finished")["stages"]["s"]["attempt"] == 2


def test_an_end_that_was_noted_just_before_the_kill_counts(run: Run) -> None:
    run.plan(sh("s", "echo x >> started"), sh("t", "echo y >> started")).start()
    run.end("finished")
    status = run.status
    status["stages"]["t"].update(state="running", exit=None, ended=None)
    (run.folder / "status.json").write_text(
        json.dumps({**status, "state": "running", "outcome": None, "ended": None})
    )
    run.start()
    assert run.end("finished")["stages"]["t"]["exit"] == 0
    assert (run.folder / "started").read_text() == "x\ny\n" and len(run.of("stage_ended")) == 2


def test_between_two_stages_a_killed_supervisor_costs_nothing(run: Run) -> None:
    pid = run.plan(sh("s", "echo x >> started"), sh("t", "echo y >> started")).start()
    run.end("finished")
    status = run.status
    status["stages"]["t"].update(state="waiting", attempt=0, exit=None, started=None, ended=None)
    (run.folder / "status.json").write_text(
        json.dumps({**status, "state": "running", "outcome": None, "ended": None})
    )
    assert not lives(pid)
    run.start()
    run.end("finished")
    assert (run.folder / "started").read_text() == "x\ny\ny\n"


def test_stop_revives_a_killed_supervisor(run: Run) -> None:
    pid = run.plan(sh("s", RUNAWAYS + "sleep 60", grace=0.5)).start()
    run.running("s")
    os.kill(pid, signal.SIGKILL)
    run.until(lambda: not lives(pid))
    assert run.call("stop")[0] == 0
    run.end("stopped")


@pytest.mark.parametrize("tmux", [True, False], ids=["tmux", "processes"])
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_killed_again_and_again_each_stage_starts_once(run: Run, seed: int, tmux: bool) -> None:
    """Each attempt starts once; the plan allows another attempt for each kill that meets one."""
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(6)]
    again = {"times": 20, "delay": 0.0}
    script = "echo {0} >> started; sleep 0.0{1}"
    run.plan(
        *(sh(name, script.format(name, chance.randint(1, 9)), restart=again) for name in names),
        tmux=tmux,
    )
    for _ in range(12):
        code, answer = run.call("start")
        assert code == 0, (answer, run.events)
        if answer["pid"] is None:
            break
        time.sleep(chance.random() * 0.3)
        with contextlib.suppress(ProcessLookupError):  # the run may have ended meanwhile
            os.kill(answer["pid"], signal.SIGKILL)
        run.until(lambda pid=answer["pid"]: not lives(pid))
    run.start()
    status = run.end("finished")
    started = (run.folder / "started").read_text().split()
    assert started == sorted(started), "one stage after the other"
    assert all(1 <= started.count(name) <= status["stages"][name]["attempt"] for name in names)
    ends = [(end["stage"], end["attempt"]) for end in run.of("stage_ended")]
    assert len(set(ends)) == len(ends) == sum(status["stages"][name]["attempt"] for name in names)
    unseen = [end for end in run.of("stage_ended") if end["exit"] is None]
    assert {end["error"] for end in unseen} <= {KILLED, UNSEEN}
    assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))


@pytest.mark.parametrize("seed", [1, 2])
def test_without_another_attempt_the_first_kill_that_meets_a_stage_fails_the_run(
    run: Run, seed: int
) -> None:
    chance = random.Random(seed)
    names = [f"s{number}" for number in range(4)]
    run.plan(*(sh(name, f"echo {name} >> started; sleep 0.2") for name in names))
    for _ in range(8):
        answer = run.call("start")[1]
        if answer["pid"] is None:
            break
        time.sleep(chance.random() * 0.3)
        with contextlib.suppress(ProcessLookupError):  # the run may have ended meanwhile
            os.kill(answer["pid"], signal.SIGKILL)
        run.until(lambda pid=answer["pid"]: not lives(pid))
    run.start()
    run.until(lambda: run.status["state"] in ("finished", "failed") and run.gone())
    file = run.folder / "started"
    started = file.read_text().split() if file.exists() else []
    assert len(set(started)) == len(started), "none starts twice"
    if run.status["state"] == "failed":
        assert run.status["why"].endswith((KILLED, UNSEEN))


def test_an_orphan_without_the_marks_of_its_stage_ends_with_it(run: Run) -> None:
    """It has left its group, its session and its environment."""
    escape = "env -i PATH=$PATH setsid setsid bash -c 'echo $$ > orphan; sleep 1000' & sleep 0.3"
    look = (
        "until [ -s orphan ]; do sleep 0.05; done; kill -0 $(cat orphan) 2>/dev/null && echo alive "
        "|| echo gone"
    )
    run.plan(
        sh("s", f"{escape}; {{ until [ -s orphan ]; do sleep 0.05; done; }}"), sh("t", look)
    ).start()
    run.end("finished")
    assert run.log("t") == b"gone\n" and not lives(int((run.folder / "orphan").read_text()))


def test_the_user_s_tmux_server_outlives_a_run_that_started_it(run: Run) -> None:
    run.plan(sh("s", "until test -e go; do sleep 0.02; done")).start()
    run.running("s")
    subprocess.run(["tmux", "new-session", "-d", "-s", "mine", "sleep 1000"], check=True)
    (run.folder / "go").touch()
    run.end("finished")
    assert sessions() == ["mine"]
    subprocess.run(["tmux", "kill-server"], check=True)


def test_a_restarted_machine_is_recognised(run: Run) -> None:
    pid = run.plan(sh("s", "sleep 60")).start()
    stage = run.running("s")["pid"]
    os.kill(pid, signal.SIGKILL)
    os.killpg(stage, signal.SIGKILL)
    run.until(lambda: not lives(pid) and not lives(stage))
    # The same number may be another process now: this test's own, for one.
    status = run.status
    status["stages"]["s"].update(pid=os.getpid(), pid_id=supervisor.identity(os.getpid()))
    (run.folder / "status.json").write_text(json.dumps({**status, "boot": "another"}))
    run.start()
    assert run.end("failed")["why"] == "s: the machine was restarted"


def test_the_run_ends_when_its_folder_is_removed(run: Run, own_tmux: str) -> None:
    pid = run.plan(sh("s", "cd /; sleep 60", grace=1)).start()
    child = run.running("s")["pid"]
    shutil.rmtree(run.folder)
    end = time.monotonic() + 30
    while (lives(pid) or lives(child)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not lives(pid) and not lives(child)


# --- poor conditions ------------------------------------------------------------------------------


def _commands(folder: Path, *names: str) -> str:
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or name)
    return str(folder)


def test_without_tmux_detached_processes_stand_in(run: Run, tmp_path: Path) -> None:
    run.plan(sh("s", "echo hello")).start(PATH=_commands(tmp_path / "bin", "bash"))
    assert run.end("finished")["mode"] == "processes"
    assert run.log("s") == b"hello\n"
    message = run.of("note")[0]["message"]
    assert message == (
        "tmux is not installed on this machine: stages run as detached processes, without windows"
    )


def test_a_tmux_that_does_not_work_is_done_without(run: Run, tmp_path: Path) -> None:
    path = _commands(tmp_path / "bin", "bash", "sh")
    (tmp_path / "bin" / "tmux").write_text("#!/bin/sh\necho no luck >&2; exit 1\n")
    (tmp_path / "bin" / "tmux").chmod(0o755)
    run.plan(sh("s", "echo hello")).start(PATH=path)
    assert run.end("finished")["mode"] == "processes"
    assert run.of("note")[0]["message"].startswith("tmux cannot be used (no luck)")


def test_events_that_found_no_room_are_written_later(run: Run) -> None:
    run.plan(sh("s", "until test -e go; do sleep 0.05; done"), sh("t", "sleep 60")).start()
    run.running("s")
    path, aside = run.folder / "events.jsonl", run.folder / "aside"
    path.rename(aside)
    path.symlink_to("/dev/full")
    (run.folder / "go").touch()
    run.running("t")
    aside.rename(path)
    run.call("stop")
    run.end("stopped")
    assert [event["seq"] for event in run.events] == list(range(1, len(run.events) + 1))
    assert run.events[0]["type"] == "started" and run.events[-1]["type"] == "stopped"


def test_a_stage_without_room_for_its_log_fails_alone(run: Run) -> None:
    (run.folder / "logs").mkdir()
    (run.folder / "logs" / "s.log").symlink_to("/dev/full")
    run.plan(
        {"name": "s", "argv": [sys.executable, "-c", "print('x' * 100000, flush=True)"]}
    ).start()
    assert run.end("failed")["why"].startswith("s: it ended with status")


def test_a_torn_line_spoils_no_other(run: Run) -> None:
    pid = run.plan(sh("s", "sleep 1")).start()
    run.running("s")
    os.kill(pid, signal.SIGKILL)
    run.until(lambda: not lives(pid))
    whole = len(run.events)
    with open(run.folder / "events.jsonl", "a") as stream:
        stream.write('{"seq": 99, "at"')
    run.start()
    run.until(lambda: run.status["state"] == "failed" and run.gone())
    good = []
    for line in (run.folder / "events.jsonl").read_text().splitlines():
        try:
            good.append(json.loads(line)["seq"])
        except ValueError:
            assert line == '{"seq": 99, "at"'
    assert good == list(range(1, len(good) + 1)) and len(good) > whole


def test_bad_calls_are_answered(run: Run, tmp_path: Path) -> None:
    code, answer = run.call("start")
    assert code == 1 and "there is no readable plan.json" in answer["error"]
    run.plan(sh("s", "true"))
    assert run.call("start", stdin=b"no json")[0] == 2
    code, answer = run.call("status")
    assert code == 0 and answer["status"] is None and answer["supervisor"] is None
    gone = Run(tmp_path / "gone")
    gone.folder.rmdir()
    assert gone.call("status")[0] == 4


def test_a_process_is_known_by_more_than_its_number() -> None:
    record = supervisor.own_record()
    assert supervisor.is_alive(record)
    assert not supervisor.is_alive({**record, "pid_id": "1"})
    assert not supervisor.is_alive({**record, "boot": "another"})
    assert not supervisor.is_alive(None)
    assert os.getpid() in supervisor.processes()


# --- GPUs -----------------------------------------------------------------------------------------


def samples(path: Path) -> list[dict[str, Any]]:
    """What was written down of the load of the machine and its GPUs."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def smi(folder: Path, script: str) -> str:
    """A PATH on which nvidia-smi is that script."""
    folder.mkdir(exist_ok=True)
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "nvidia-smi").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("python", PYTHONS)
def test_gpus_are_sampled(tmp_path: Path, python: str) -> None:
    run = Run(tmp_path / "g", python).plan(
        sh("s", "until grep -q gpus ../gpu.jsonl; do sleep 0.05; done", cwd="logs")
    )
    run.start(
        PATH=smi(
            tmp_path / "bin",
            "echo '0, 87, 1024, 81559, 61, 402.50'; echo '1, [N/A], 0, 81559, nan, [N/A]'",
        )
    )
    run.end("finished")
    sample = next(row for row in samples(run.folder / "gpu.jsonl") if "gpus" in row)
    assert sample["gpus"] == [
        {
            "index": 0,
            "utilization": 87,
            "used_mib": 1024,
            "memory_mib": 81559,
            "celsius": 61,
            "watts": 402.5,
        },
        {
            "index": 1,
            "utilization": None,
            "used_mib": 0,
            "memory_mib": 81559,
            "celsius": None,
            "watts": None,
        },
    ]
    assert abs(sample["at"] - time.time()) < 600


def test_a_driver_that_hangs_or_fails_holds_nothing_up(tmp_path: Path) -> None:
    run = Run(tmp_path / "h").plan(sh("s", "sleep 0.3"))
    run.start(PATH=smi(tmp_path / "bin", f"echo $$ >>{tmp_path}/pid; exec sleep 1000"))
    run.end("finished")
    assert not [row for row in samples(run.folder / "gpu.jsonl") if "gpus" in row]
    pid = int((tmp_path / "pid").read_text())
    run.until(lambda: not Path(f"/proc/{pid}").exists())
    run = Run(tmp_path / "f").plan(sh("s", "sleep 0.3"))
    run.start(PATH=smi(tmp_path / "bin", "echo 'Failed to initialize NVML'; exit 9"))
    run.end("finished")
    assert not [row for row in samples(run.folder / "gpu.jsonl") if "gpus" in row]


@pytest.mark.parametrize("python", PYTHONS)
def test_the_load_of_the_machine_is_sampled(tmp_path: Path, python: str) -> None:
    run = Run(tmp_path / "m", python).plan(
        sh("s", "until grep -q machine ../gpu.jsonl; do sleep 0.05; done", cwd="logs")
    )
    run.start()
    run.end("finished")
    load = samples(run.folder / "gpu.jsonl")[0]["machine"]
    assert 0 <= load["cpu"] <= 100 and load["cpus"] >= 1
    assert 0 < load["memory_used"] < load["memory_total"]
    assert 0 <= load["disk_used"] <= load["disk_total"] and load["disk_free"] <= load["disk_total"]
    assert load["received"] >= 0 and load["sent"] >= 0


def test_the_load_of_a_container_is_that_of_its_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("max", "1073741824\n"),
        ("current", "700000000\n"),
        ("stat", "anon 1\ninactive_file 200000000\n"),
    ):
        (tmp_path / name).write_text(text)
    files = (
        str(tmp_path / "max"),
        str(tmp_path / "current"),
        str(tmp_path / "stat"),
        "inactive_file",
    )
    monkeypatch.setattr(supervisor.LoadReader, "LIMITS", (files,))
    load = supervisor.LoadReader(str(tmp_path)).read()
    assert (load["memory_total"], load["memory_used"]) == (1 << 30, 500_000_000)
    (tmp_path / "max").write_text("max\n")
    load = supervisor.LoadReader(str(tmp_path)).read()
    assert load["memory_total"] > 1 << 30 and load["memory_used"] != 500_000_000


def test_a_driver_that_cannot_even_be_killed_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(supervisor, "clock", lambda: now)
    monkeypatch.setenv("PATH", smi(tmp_path / "bin", "exec sleep 1000"))
    sampler = supervisor.Sampler(str(tmp_path / "gpu.jsonl"))
    sampler.tick()
    process = sampler.process
    assert process is not None
    kill, waits = process.kill, []

    def wait(timeout: float | None = None) -> int:
        waits.append(timeout)
        raise subprocess.TimeoutExpired("nvidia-smi", timeout or 0.0)

    monkeypatch.setattr(process, "kill", lambda: None)
    monkeypatch.setattr(process, "wait", wait)
    for _ in range(20):
        now += supervisor.SAMPLE
        sampler.tick()
    assert waits == [1.0] and sampler.process is process, (
        "it is given up once, and no other one is started beside it"
    )
    kill()
    monkeypatch.undo()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_what_a_driver_leaves_behind_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "PATH",
        smi(
            tmp_path / "bin", "sleep 1000 & echo $! >$0.pid; echo '0, 87, 1024, 81559, 61, 402.50'"
        ),
    )
    sampler = supervisor.Sampler(str(tmp_path / "gpu.jsonl"))
    sampler.tick()
    assert sampler.process is not None
    sampler.process.wait(timeout=60)
    sampler.tick()
    assert samples(tmp_path / "gpu.jsonl")[-1]["gpus"][0]["utilization"] == 87
    os.kill(int((tmp_path / "bin" / "nvidia-smi.pid").read_text()), signal.SIGKILL)


def test_a_supervisor_that_ends_while_it_is_looked_for_has_said_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not taken for one that was killed."""

    def told(state: str) -> None:
        (tmp_path / "status.json").write_text(json.dumps({"state": state, "stages": {}}))

    def ends(record: dict[str, Any]) -> bool:
        told("failed")
        return False

    told("stopping")
    (tmp_path / "supervisor.lock").write_text(json.dumps({"pid": 1}))
    monkeypatch.setattr(supervisor, "is_alive", ends)
    supervisor.status(str(tmp_path))
    found = json.loads(capsys.readouterr().out)
    assert (found["supervisor"], found["status"]["state"]) == (None, "failed")
