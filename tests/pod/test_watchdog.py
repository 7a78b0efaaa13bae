"""The watchdog as it is used: armed by its command line, and the only thing it may ever switch off
is a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.pythons import PYTHONS

from hudtui.pod import watchdog

FILE = Path(watchdog.__file__)


class Guarded:
    """A run's folder with a guard."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder, self.off, self.python = folder, folder.parent / "off", python
        (folder / "logs").mkdir(parents=True)

    def arm(self, **rules: Any) -> dict[str, Any]:
        rules = {
            "look_seconds": 0.02,
            "power_off": [["nowhere-to-be-found"], ["false"], ["touch", str(self.off)]],
            **rules,
        }
        (self.folder / "guard.json").write_text(json.dumps(rules))
        return self.call("arm")

    def call(self, word: str) -> dict[str, Any]:
        done = subprocess.run(
            [self.python, str(FILE), word, str(self.folder)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def said(self) -> list[dict[str, Any]]:
        path = self.folder / "guard.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def until(self, kind: str) -> dict[str, Any]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if found := [line for line in self.said if line["type"] == kind]:
                return found[-1]
            time.sleep(0.02)
        raise AssertionError(self.said)

    def ended(self) -> None:
        pid = self.until("armed")["pid"]
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except FileNotFoundError:
                return
            if ended:  # whoever has to take note of it may take its time
                return
            time.sleep(0.02)
        raise AssertionError(f"the guard {pid} is still there: {self.said}")

    def state(self, state: str) -> None:
        (self.folder / "status.json").write_text(json.dumps({"state": state}))


@pytest.fixture
def run(tmp_path: Path) -> Guarded:
    return Guarded(tmp_path / "r")


@pytest.mark.parametrize(
    "python", PYTHONS, ids=lambda path: "old" if path != sys.executable else "own"
)
def test_a_limit_stops_the_run_and_then_switches_the_machine_off(
    tmp_path: Path, python: str
) -> None:
    run = Guarded(tmp_path / "r", python)
    run.state("running")
    assert run.arm(max_seconds=0.1, grace_seconds=0.2) == {"ok": True, "already": False}
    run.ended()
    wish = json.loads((run.folder / "stop.json").read_text())
    assert wish["grace"] is None and "time of" in wish["why"] and wish["why"].endswith("h is over")
    assert [line["type"] for line in run.said] == [
        "armed",
        "stop",
        "power_off",
        "tried",
        "tried",
        "tried",
    ]
    assert run.off.exists() and run.said[-1]["status"] == 0 and "problem" in run.said[3]


def test_its_time_ends_the_machine_of_a_run_that_has_ended_too(run: Guarded) -> None:
    run.state("running")
    run.arm(max_seconds=0.1, grace_seconds=0.2, after_seconds=None)
    run.until("stop")
    run.state("stopped")
    assert "time of" in run.until("power_off")["why"]
    run.ended()


def test_nothing_is_switched_off_where_no_command_says_how(run: Guarded) -> None:
    run.state("running")
    run.arm(max_seconds=0.0, grace_seconds=0.0, power_off=[])
    run.ended()
    assert run.said[-1]["type"] == "power_off" and not run.off.exists()


def test_a_run_that_never_began_and_one_that_nobody_fetches(run: Guarded, tmp_path: Path) -> None:
    run.arm(start_seconds=0.1)
    assert run.until("power_off")["why"] == "no run was begun here"
    run.ended()
    other = Guarded(tmp_path / "other" / "r")
    other.state("finished")
    other.arm(after_seconds=0.1, max_seconds=0.0)
    assert "its results were not fetched" in other.until("power_off")["why"]
    other.ended()
    assert not (other.folder / "stop.json").exists()


def test_idling_is_neither_logging_nor_computing(run: Guarded) -> None:
    run.state("running")
    long_ago = time.time() - 10_000
    (run.folder / "logs" / "a.log").touch()
    os.utime(run.folder / "logs" / "a.log", (long_ago, long_ago))
    busy = {"at": time.time() + 500, "gpus": [{"utilization": None}, {"utilization": 97}]}
    (run.folder / "gpu.jsonl").write_text(json.dumps(busy) + "\ntorn{\n")
    run.arm(idle_seconds=0.3, grace_seconds=1000)
    run.until("armed")
    time.sleep(1.0)
    assert [line["type"] for line in run.said] == ["armed"], "a GPU works"
    (run.folder / "gpu.jsonl").write_text(
        json.dumps({**busy, "gpus": [{"utilization": 0}]}) + '\n{"at": 1, "gpus": ["what"]}\n'
    )
    assert "no GPU worked" in run.until("stop")["why"]
    run.call("disarm")
    run.ended()


def test_a_date_that_is_set_later_is_no_idling(
    run: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.state("running")
    (run.folder / "logs" / "a.log").touch()
    guard, real = watchdog.Watchdog(str(run.folder)), time.time
    guard.rules = {"idle_seconds": 600}
    assert guard.look() is None
    monkeypatch.setattr(time, "time", lambda: real() + 7200)
    assert guard.look() is None and not (run.folder / "stop.json").exists() and guard.idle() < 60
    monkeypatch.setattr(watchdog, "clock", lambda: time.clock_gettime(time.CLOCK_BOOTTIME) + 700)
    monkeypatch.setattr(time, "time", lambda: real() + 7900)
    guard.look()
    assert "nothing was logged" in json.loads((run.folder / "stop.json").read_text())["why"], (
        "it has been idle since"
    )


def test_limits_may_be_raised_while_it_runs_and_one_guard_is_enough(run: Guarded) -> None:
    run.state("running")
    run.arm(max_seconds=0.05, grace_seconds=1000)
    run.until("stop")
    assert run.arm(max_seconds=None, grace_seconds=0.0) == {"ok": True, "already": True}
    time.sleep(0.5)
    assert not run.off.exists() and len([line for line in run.said if line["type"] == "armed"]) == 1
    run.call("disarm")
    run.ended()
    assert run.said[-1]["type"] == "disarmed"


class Office:
    """Whoever machines are rented from: remembers requests, and answers as it is told."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str | None]] = []
        self.answers: list[int] = []
        office = self

        class Handler(BaseHTTPRequestHandler):
            def do_DELETE(self) -> None:
                office.seen.append(("DELETE", self.path, self.headers["Authorization"]))
                self.send_response(office.answers.pop(0) if office.answers else 200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/api/v1/pods/p1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def office() -> Iterator[Office]:
    made = Office()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_with_a_key_the_provider_is_told_and_the_key_is_not(run: Guarded, office: Office) -> None:
    (run.folder / "guard.key").write_text("pit_narrow_key\n")
    office.answers = [503, 200]
    run.arm(max_seconds=0.0, grace_seconds=0.0, end={"url": office.url, "key_file": "guard.key"})
    run.ended()
    assert office.seen == [("DELETE", "/api/v1/pods/p1", "Bearer pit_narrow_key")] * 2
    assert [line["type"] for line in run.said][2:5] == [
        "not_ended",
        "ended",
        "power_off",
    ] and run.off.exists()
    assert "pit_narrow_key" not in json.dumps(run.said) and "503" in run.said[2]["problem"]


def test_a_machine_that_stays_on_is_tried_again_until_something_works(
    run: Guarded, office: Office
) -> None:
    (run.folder / "guard.key").write_text("k")
    office.answers = [503] * 6
    commands = [["false"], ["nowhere-to-be-found"]]
    run.arm(
        max_seconds=0.0,
        grace_seconds=0.0,
        power_off=commands,
        end={"url": office.url, "key_file": "guard.key"},
    )
    run.ended()
    kinds = [line["type"] for line in run.said]
    once = [*["not_ended"] * 3, "power_off", "tried", "tried", "still_on"]
    assert kinds == ["armed", "stop", *once, *once, "ended", "power_off", "tried", "tried"]
    assert run.said[8]["again_in"] == 0.02 and len(office.seen) == 7


def test_one_that_stays_on_may_be_given_more_time_and_be_left_alone(run: Guarded) -> None:
    run.state("running")
    run.arm(max_seconds=0.0, grace_seconds=0.0, power_off=[["false"]])
    run.until("still_on")
    run.arm(max_seconds=None, power_off=[["false"]])
    time.sleep(0.5)
    before = run.said
    time.sleep(0.5)
    assert run.said == before, "its time is not over any more"
    run.call("disarm")
    run.ended()
    assert run.said[-1]["type"] == "disarmed"


@pytest.mark.parametrize("key", [None, "two\nlines", ""])
def test_without_a_key_that_can_be_used_it_is_switched_off_all_the_same(
    run: Guarded, office: Office, key: str | None
) -> None:
    if key is not None:
        (run.folder / "guard.key").write_text(key)
    office.answers = [403] * 3
    run.arm(max_seconds=0.0, grace_seconds=0.0, end={"url": office.url, "key_file": "guard.key"})
    run.ended()
    assert sum(line["type"] == "not_ended" for line in run.said) == 3 and run.off.exists()
    assert "lines" not in json.dumps(run.said)


def test_the_time_counts_anew_when_it_is_told_so(run: Guarded) -> None:
    run.arm(max_seconds=1000, count_from="one", grace_seconds=0.0)
    time.sleep(0.6)
    told = time.monotonic()
    run.arm(max_seconds=0.5, count_from="two", grace_seconds=0.0)
    run.ended()
    assert run.off.exists() and time.monotonic() - told >= 0.5


def test_nothing_in_the_folder_ends_the_guard(run: Guarded) -> None:
    (run.folder / "status.json").write_text("[" * 100_000)
    (run.folder / "gpu.jsonl").write_text("[" * 60_000 + "\n" + '{"at": "never", "gpus": [[]]}\n')
    run.arm(max_seconds=0.3, grace_seconds=0.0)
    run.ended()
    assert run.off.exists()


@pytest.mark.parametrize("name", ["status.json", "gpu.jsonl", "guard.jsonl", "guard.key"])
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder"])
def test_no_kind_of_file_holds_the_guard_up(run: Guarded, name: str, kind: str) -> None:
    path = run.folder / name
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    nobody = {"url": "http://127.0.0.1:9/", "key_file": "guard.key"}
    run.arm(
        max_seconds=0.2,
        grace_seconds=0.0,
        idle_seconds=1000,
        look_seconds=0.01,
        **({"end": nobody} if "key" in name else {}),
    )
    end = time.monotonic() + 60
    while not run.off.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert run.off.exists()


def test_what_nobody_foresaw_is_told_once_and_the_guard_goes_on(
    run: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([ZeroDivisionError("one"), ZeroDivisionError("one"), None])

    def look(self: Any) -> None:
        if (error := next(looks, None)) is not None:
            raise error
        (run.folder / "guard.disarmed").touch()

    monkeypatch.setattr(watchdog.Watchdog, "look", look)
    (run.folder / "guard.json").write_text('{"look_seconds": 0.01}')
    watchdog.Watchdog(str(run.folder)).run()
    assert [(line["type"], line.get("problem")) for line in run.said] == [
        ("armed", None),
        ("trouble", "ZeroDivisionError"),
        ("disarmed", None),
    ]


def test_rules_that_make_no_sense_do_not_end_it_either(run: Guarded) -> None:
    run.arm(max_seconds=0.0, grace_seconds=0.0, power_off=[[5]])
    assert run.until("trouble")["problem"] == "TypeError"
    run.arm(max_seconds=0.0, grace_seconds=0.0)
    run.ended()
    assert run.off.exists()


def gone(pid: int) -> bool:
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    return not Path(f"/proc/{pid}").exists()


def test_a_folder_that_is_gone_does_not_end_it_and_the_limits_hold(
    run: Guarded, office: Office, tmp_path: Path
) -> None:
    (run.folder / "guard.key").write_text("narrow")
    run.state("running")
    office.answers = [200]
    run.arm(max_seconds=1.0, grace_seconds=0.0, end={"url": office.url, "key_file": "guard.key"})
    pid = run.until("armed")["pid"]
    time.sleep(0.3)  # it has looked
    run.folder.rename(tmp_path / "elsewhere")
    assert gone(pid) and run.off.exists()
    assert [(verb, key) for verb, _, key in office.seen] == [("DELETE", "Bearer narrow")]


def test_a_machine_that_is_gone_needs_no_guard(
    run: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "machine"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    run.arm()
    pid = run.until("armed")["pid"]
    home.rmdir()
    assert gone(pid) and not run.off.exists()


@pytest.mark.parametrize("spoilt", ["", "{", "[]", None])
def test_rules_that_cannot_be_read_are_not_taken_for_no_limits(
    run: Guarded, spoilt: str | None
) -> None:
    run.state("running")
    run.arm(max_seconds=0.0, grace_seconds=3.0)
    run.until("stop")
    if spoilt is None:
        (run.folder / "guard.json").unlink()
    else:
        (run.folder / "guard.json").write_text(spoilt)
    assert "what was read last holds" in run.until("trouble")["problem"]
    run.ended()
    assert run.off.exists() and sum(line["type"] == "stop" for line in run.said) == 1


def test_time_does_not_count_anew_when_the_rules_are_there_again(
    run: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(watchdog, "clock", lambda: now[0])
    run.state("running")
    rules, path = (
        json.dumps({"max_seconds": 100, "grace_seconds": 0, "count_from": "one"}),
        run.folder / "guard.json",
    )
    one, said = watchdog.Watchdog(str(run.folder)), []
    for moment, text in ((0.0, rules), (90.0, ""), (95.0, rules), (101.0, rules), (102.0, "")):
        now[0] = moment
        path.write_text(text)
        one.read()
        said.append(one.look())
    assert said[:4] == [None] * 4 and "h is over" in str(said[4])
