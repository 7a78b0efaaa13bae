"""The lookout as it is used: started by the supervisor of a run, and heard at a web server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.pythons import PYTHONS
from support.training_runs import HEALTHY, healthy, sick

from hudtui.core.diagnosis.diagnose import diagnose
from hudtui.core.diagnosis.signatures import SIGNATURES
from hudtui.core.diagnosis.stop import lookout_plan, stopping
from hudtui.core.training.metrics import MetricsReader
from hudtui.pod import lookout, supervisor
from hudtui.pod.lookout import Finding, Lookout, Messenger, Numbers, Tail

FILE = Path(supervisor.__file__)
TOLD = ("entropy-collapse", "kl-blow-up", "constant-reward", "episodes-break")
"""Troubles of made-up runs that need no library."""


def seen(lines: list[dict[str, Any]], every: int = 1) -> dict[str, Finding]:
    """What is certain at any step, when it was first."""
    numbers = Numbers(lookout_plan("m", ()))
    found: dict[str, Finding] = {}
    for number, line in enumerate(lines):
        numbers.take(json.dumps(line).encode())
        if number % every == 0:
            found = {one.signature: one for one in numbers.findings()} | found
    return found


@pytest.mark.parametrize("kind", HEALTHY)
def test_no_step_of_a_healthy_run_is_certain_trouble(kind: str) -> None:
    for seed in range(10):
        assert seen(healthy(kind, seed)) == {}, (kind, seed)


KNOWN = (*TOLD, "no-spread-failed", "no-spread-solved", "no-spread")


@pytest.mark.parametrize("signature", KNOWN)
def test_a_strong_trouble_is_certain_under_the_name_that_the_table_has(signature: str) -> None:
    found = seen(sick(signature, "strong", 1))
    assert signature in found and set(found) <= {*SIGNATURES}
    if signature in TOLD:
        assert 90 <= found[signature].step <= 240, "it began at 120"


@pytest.mark.parametrize("strength", [0, 0.25, 0.5, 1])
@pytest.mark.parametrize("signature", KNOWN)
def test_what_a_machine_is_certain_of_the_diagnosis_is_certain_of_too(
    signature: str, strength: float
) -> None:
    for seed in range(2):
        metrics, numbers = MetricsReader(), Numbers(lookout_plan("m", ()))
        for line in sick(signature, strength, seed):
            metrics.add(line)
            numbers.take(json.dumps(line).encode())
        diagnosis = diagnose(metrics)
        for finding in numbers.findings():
            other = stopping(diagnosis, [finding.signature])
            assert other is not None, (finding.sentence, diagnosis.findings)
            if finding.signature != "entropy-collapse":  # milder where the reward still rises
                assert finding.severity == other.severity


def test_what_has_begun_again_is_judged_by_its_new_steps() -> None:
    lines: list[dict[str, Any]] = [{"step": n, "reward_std": 0.0} for n in range(1, 15)]
    assert seen(lines) == {}
    again = [{"step": n, "reward_std": 0.0} for n in range(5, 15)]
    assert seen([*lines, *again]) == {}, "ten of these steps were done twice"
    assert seen([*lines, *again, {"step": 15, "reward_std": 0.0}])["constant-reward"].step == 1


def test_lines_that_are_no_metrics_do_no_harm() -> None:
    numbers = Numbers(lookout_plan("m", ()))
    for line in (
        *(b"", b"[1]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"kl": "x"}'),
        *(b'{"reward": {"reward": {"reward": {"reward": {"a": 1}}}}}', b'{"entropy": true}'),
        *(b'{"kl": 1' + b"0" * 400 + b"}", b'{"step": NaN, "kl": Infinity}', b'{"": 1}'),
    ):
        numbers.take(line)
    assert [*numbers.findings()] == []
    for _ in range(3):
        numbers.take(b'{"step": 9, "train/loss": NaN}')
    assert [(one.signature, one.step) for one in numbers.findings()] == [("not-a-number", 9.0)]
    numbers.take(b'{"step": 10, "train/loss": 1}')
    assert [*numbers.findings()] == []


def test_a_file_is_read_as_it_grows_and_anew_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    tail = Tail(str(path))
    assert tail.lines() == []
    path.write_bytes(b'{"a": 1}\n{"b"')
    assert tail.lines() == [b'{"a": 1}']
    path.write_bytes(b'{"a": 1}\n{"b": 2}\n')
    assert tail.lines() == [b'{"b": 2}'] and tail.lines() == []
    path.write_bytes(b'{"c"')
    assert tail.lines() == []
    other = tmp_path / "other"
    other.write_bytes(b'{"d": 1}\n{"e": 1}\n{"f": 1}\n')
    other.replace(path)
    assert len(tail.lines()) == 3, "it is longer, and another file"
    path.unlink()
    os.mkfifo(path)
    assert tail.lines() == [], "a pipe is not waited for"


class Heard(BaseHTTPRequestHandler):
    """A webhook that keeps what it gets."""

    bodies: list[dict[str, Any]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append({"path": self.path, **json.loads(body)})
        self.send_response(self.status)
        if self.status == 302:
            self.send_header("Location", f"http://{self.headers['Host']}/elsewhere")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[tuple[str, type[Heard]]]:
    handler = type("Hook", (Heard,), {"bodies": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/topic-7731", handler
    server.shutdown()
    server.server_close()


def until(true: Callable[[], Any]) -> Any:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


class Training:
    """A run that writes the metrics of a made-up training, and then waits."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder, self.python = folder, python
        (folder / "out").mkdir(parents=True)
        for name in ("supervisor.py", "lookout.py"):
            shutil.copy(FILE.parent / name, folder / name)

    def start(self, lines: list[dict[str, Any]], *stop_on: str, **secrets: str) -> None:
        (self.folder / "lines").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        script = "cat lines >> out/metrics.jsonl; env > out/env; exec sleep 600"
        plan = {
            "run": "secret-plan-k3f9",
            "session": "hudtui-lookout",
            "tmux": False,
            "stages": [{"name": "train", "argv": ["sh", "-c", script], "grace": 1}],
            "lookout": lookout_plan("out/metrics.jsonl", stop_on),
        }
        (self.folder / "plan.json").write_text(json.dumps(plan))
        self.call("start", json.dumps({"env": secrets}))

    def call(self, word: str, text: str = "") -> dict[str, Any]:
        import subprocess

        argv = [self.python, "-I", str(self.folder / "supervisor.py"), word, str(self.folder)]
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=90)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
        return found

    def gone(self) -> bool:
        """Neither supervisor nor lookout lives."""
        answer = self.call("status")
        name = str(self.folder / "lookout.py").encode()
        commands = (path for path in Path("/proc").glob("[0-9]*/cmdline"))
        return (
            not answer["processes"]
            and answer["supervisor"] is None
            and not any(name in _read(path) for path in commands)
        )

    @property
    def events(self) -> list[dict[str, Any]]:
        text = (self.folder / "events.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_certain_finding_ends_the_run_and_is_told_once(
    tmp_path: Path, hook: tuple[str, type[Heard]], python: str
) -> None:
    url, handler = hook
    run = Training(tmp_path / "r", python)
    run.start(sick("entropy-collapse", "strong", 1), "entropy-collapse", HUDTUI_NOTIFY_URL=url)
    until(lambda: run.status["state"] == "stopped")
    why = run.status["why"]
    assert why.startswith("stopped on entropy-collapse: the entropy fell from 0."), why
    assert [one["data"]["why"] for one in run.events if one["type"] == "stopping"] == [why]
    until(lambda: len(handler.bodies) == 2)
    first, last = handler.bodies
    assert (first["event"], first["signature"], first["stops"]) == (
        "finding",
        "entropy-collapse",
        True,
    )
    assert (last["event"], last["state"], last["run"]) == ("end", "stopped", "k3f9")
    assert all(one["path"] == "/topic-7731" for one in handler.bodies)
    assert "secret-plan" not in json.dumps(handler.bodies) and "fell" not in json.dumps(first)
    kept = [path for path in run.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if b"topic-7731" in path.read_bytes()], (
        "the address is in no file and in no stage's environment"
    )
    until(run.gone)


def test_what_the_user_did_not_name_is_told_and_stops_nothing(
    tmp_path: Path, hook: tuple[str, type[Heard]]
) -> None:
    url, handler = hook
    run = Training(tmp_path / "r")
    lines = sick("entropy-collapse", "strong", 1)
    run.start(lines, "constant-reward", HUDTUI_NOTIFY_URL=url, HUDTUI_NOTIFY_TEXT="1")
    told = until(lambda: handler.bodies)[0]
    assert (told["signature"], told["stops"], told["name"]) == (
        "entropy-collapse",
        False,
        "secret-plan-k3f9",
    )
    assert "fell from" in told["message"] and run.status["state"] == "running"
    os.kill(
        run.status["pid"], signal.SIGKILL
    )  # a supervisor that is started again tells it not again
    run.call("stop")
    until(lambda: run.status["state"] in ("stopped", "failed"))
    assert [one["event"] for one in handler.bodies][:1] == ["finding"]
    until(run.gone)
    assert sum(one["event"] == "finding" for one in handler.bodies) == 1


def test_critical_stands_for_what_is_critical_alone(tmp_path: Path) -> None:
    run = Training(tmp_path / "r")
    lines = sick("entropy-collapse", "strong", 1)
    run.start([*lines, *({"step": 300 + n, "loss": float("nan")} for n in range(3))], "critical")
    until(lambda: run.status["state"] == "stopped")
    assert run.status["why"] == "stopped on not-a-number: numbers are not finite since step 300"
    until(run.gone)


def test_nobody_looks_where_nobody_wants_it(tmp_path: Path) -> None:
    run = Training(tmp_path / "r")
    run.start(sick("entropy-collapse", "strong", 1))
    until(lambda: run.status["stages"]["train"]["state"] == "running")
    commands = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [one for one in commands if str(run.folder / "lookout.py").encode() in one]
    run.call("stop")
    until(lambda: run.status["state"] == "stopped")


@pytest.mark.parametrize(("status", "count"), [(200, 1), (404, 1), (302, 1), (500, 4)])
def test_a_message_is_tried_again_where_that_may_help_and_goes_nowhere_else(
    tmp_path: Path,
    hook: tuple[str, type[Heard]],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    count: int,
) -> None:
    monkeypatch.setattr(lookout, "TRIES", (0, 0, 0, 0))
    url, handler = hook
    handler.status = status
    messenger = Messenger(str(tmp_path), url, False)
    messenger.tell("end", {"event": "end"}, {"name": "x"})
    messenger.tell("end", {"event": "end"}, {"name": "x"})
    messenger.wait()
    assert len(handler.bodies) == count and all("name" not in one for one in handler.bodies)
    assert Messenger(str(tmp_path), url, False).sent == ["end"]
    for wrong in ("file:///etc/passwd", "http://127.0.0.1:1/", "http://[", ""):
        other = Messenger(str(tmp_path), wrong, False)
        other.tell(f"end of {wrong}", {}, {})
        other.wait()
    assert len(handler.bodies) == count


def _equal(steps: range) -> list[dict[str, Any]]:
    return [{"step": step, "reward_std": 0.0, "entropy": 0.5} for step in steps]


def test_a_run_that_goes_on_from_one_that_was_stopped_is_judged_by_its_own_steps() -> None:
    numbers = Numbers(lookout_plan("m", (), 10))

    def take(steps: range) -> list[str]:
        for row in _equal(steps):
            numbers.take(json.dumps({**row, "loss": float("nan")}).encode())
        return [one.signature for one in numbers.findings()]

    assert take(range(1, 11)) == [], "these steps are of the run before"
    assert take(range(11, 13)) == []
    assert take(range(13, 14)) == ["not-a-number"]
    assert take(range(14, 25)) == ["not-a-number"]
    assert take(range(25, 26)) == ["not-a-number", "constant-reward"], "15 steps of its own"


def test_a_run_that_goes_on_is_stopped_by_no_number_of_the_run_before(tmp_path: Path) -> None:
    wish = lookout_plan("metrics.jsonl", ["critical"], 40)
    (tmp_path / "plan.json").write_text(json.dumps({"run": "r", "lookout": wish}))
    metrics, stop = tmp_path / "metrics.jsonl", tmp_path / "stop.json"

    def write(steps: range, at: float) -> None:
        metrics.write_text("".join(json.dumps(row) + "\n" for row in _equal(steps)))
        os.utime(metrics, (at, at))

    looking, started = Lookout(str(tmp_path)), 1000.0
    write(range(1, 60), at=started - 1)
    looking.look(started)
    assert not stop.exists(), "its trainer has not cut the file to the checkpoint yet"
    for number, last in enumerate((40, 54, 40, 54), 1):
        write(range(1, last + 1), at=started + number)  # its trainer was started again
        looking.look(started)
        assert not stop.exists()
    write(range(1, 56), at=started + 3)
    looking.look(started)
    why = json.loads(stop.read_text())["why"]
    assert why == "stopped on constant-reward: all rewards of a group are equal since step 41"


def test_a_request_that_cannot_be_written_stops_the_run_all_the_same(tmp_path: Path) -> None:
    run = Training(tmp_path / "r")
    (run.folder / "stop.json").mkdir()
    run.start(sick("constant-reward", "strong", 1), "critical")
    until(lambda: run.status["state"] == "stopped")
    assert run.status["why"] == "its supervisor was told to stop by SIGTERM"
    until(run.gone)


def test_a_stop_file_that_says_nothing_is_no_request(tmp_path: Path) -> None:
    run = Training(tmp_path / "r")
    (run.folder / "stop.json").write_text("[]")
    run.start(sick("constant-reward", "strong", 1), "critical")
    until(lambda: run.status["state"] == "stopped")
    assert run.status["why"].startswith("stopped on constant-reward: ")
    until(run.gone)


def test_an_address_that_answers_byte_by_byte_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookout, "PATIENCE", 0.5)
    asked, over = threading.Event(), threading.Event()

    class Slow(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nA: ")
            while not over.wait(0.05):
                self.wfile.write(b"x")

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        messenger = Messenger(str(tmp_path), f"http://127.0.0.1:{server.server_port}/", False)
        messenger.tell("end", {"event": "end"}, {})
        assert asked.wait(60)
        messenger.wait()
        assert not over.is_set() and all(one.daemon for one in messenger.senders)
        over.set()
        server.shutdown()
