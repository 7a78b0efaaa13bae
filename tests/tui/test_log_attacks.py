"""Logs that attack the terminal: the real app and the real commands, on a real terminal that keeps
every byte it is sent."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from base64 import b64encode
from pathlib import Path

import pytest
from support import tmux_world

from hudtui.core.process import machine_label
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, PlanOutput, Stage

MARK = "31337"
"""In every sequence of an attack, and in none that the app has a reason to send."""
PAYLOAD = b64encode(f"PWNED{MARK}".encode()).decode()
ATTACKS = (
    f"\x1b]52;c;{PAYLOAD}\x07",  # the clipboard
    f"\x1b]52;c;{PAYLOAD}\x1b\\",
    f"\x9d52;c;{PAYLOAD}\x9c",  # the same in 8 bits
    f"\x1b]0;PWNED{MARK}\x07",  # the title
    f"\x1b]2;PWNED{MARK}\x1b\\",
    f"\x1b]8;;file:///etc/{MARK}\x1b\\click\x1b]8;;\x1b\\",  # a link
    f"\x1b]1337;File=name={PAYLOAD}:{MARK}\x07",  # iTerm2
    f"\x1b]777;notify;PWNED;{MARK}\x07",
    f"\x1b]4;1;rgb:{MARK}\x07",  # colours
    f"\x1bP+q{MARK}\x1b\\",  # DCS
    f"\x1bPtmux;\x1b\x1b]52;c;{PAYLOAD}\x07\x1b\\",  # through tmux
    f"\x1b_G{MARK}\x1b\\",  # APC, PM, SOS
    f"\x1b^{MARK}\x1b\\",
    f"\x1bX{MARK}\x1b\\",
    f"\x1b[{MARK};1H",  # the cursor
    f"\x9b{MARK};1H",
    f"\x1b[{MARK}t",  # the window
    f"\x1b[?{MARK}h",
    f"\x1b[{MARK}n",  # questions that the terminal would answer into the shell
    f"\x1b[{MARK}",  # begun and not ended
    f"\x1b]52;c;{PAYLOAD}",
)
END = "THE-END-OF-THE-LOG"
STRINGS = re.compile(r"(?:\x1b[\]P_^X]|[\x90\x9d\x9e\x9f\x98])(.*?)(?:\x07|\x1b\\|\x9c)", re.DOTALL)
CSI = re.compile(r"(?:\x1b\[|\x9b)([0-?]*[ -/]*)([@-~])")


own_tmux = tmux_world.own_tmux


@pytest.fixture
def hostile(own_world: Path) -> Path:
    """A workspace with one run whose log, name, numbers and end are all attacks."""
    store = RunStore(own_world / ".hudtui")
    folder = store.folder / "evil-1"
    plan = Plan(
        "rollouts",
        (Stage("play", ("true",)),),
        outputs=(PlanOutput("out/metrics.jsonl", "metrics"),),
    )
    name, now = f"evil {ATTACKS[0]}{ATTACKS[15]}", time.time()
    spec = RunSpec("rollouts", name, str(own_world))
    store.add(
        RunRecord(
            "evil-1", now - 60, name, "rollouts", "local", machine_label(), str(folder), spec, plan
        )
    )
    for part in ("logs", "out"):
        (folder / part).mkdir(parents=True)
    lines = [
        f"attack {place} before {attack} after {place}" for place, attack in enumerate(ATTACKS)
    ]
    lines += ["ERROR " + "".join(ATTACKS), f"{ATTACKS[0]}\rprogress {ATTACKS[3]}\r{END}"]
    (folder / "logs" / "play.log").write_bytes(
        "\n".join(lines).encode() + b"\n\x9b31337n\x90 8 bits that are no UTF-8\n"
    )
    rows = [
        {"step": n, "task": f"t{n}{ATTACKS[3]}", "reward": n / 3, f"own {ATTACKS[0]}": n}
        for n in range(1, 4)
    ]
    (folder / "out" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    events = [
        {"seq": 1, "at": now - 50, "type": "started", "data": {"mode": "tmux", "run": "evil-1"}},
        {
            "seq": 2,
            "at": now - 49,
            "type": "stage_started",
            "data": {"stage": "play", "attempt": 1},
        },
        {
            "seq": 3,
            "at": now - 9,
            "type": "failed",
            "data": {"why": f"it ended {''.join(ATTACKS)}"},
        },
    ]
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    (folder / "status.json").write_text(
        json.dumps({"run": "evil-1", "state": "failed", "stages": {"play": {"state": "ended"}}})
    )
    store.mirror("evil-1", events)
    return own_world


class Screen:
    """A program on a pseudo-terminal; every byte that it sends is kept."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        command = [sys.executable, "-m", "hudtui", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self.output = b""

    def until(self, text: str, seconds: float = 60.0) -> None:
        """Read until the text was sent, wherever on the screen."""
        end = time.monotonic() + seconds
        while text.encode() not in self.output:
            assert time.monotonic() < end, self.output[-3000:]
            self.read()

    def read(self) -> bool:
        """Read what there is; False at the end."""
        if select.select([self.master], [], [], 0.1)[0]:
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:
                return False
            self.output += data
            return bool(data)
        return self.process.poll() is None

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def close(self) -> bytes:
        """All that was sent, to the end of the program."""
        end = time.monotonic() + 30
        while self.read():
            if time.monotonic() > end:
                self.process.kill()
        self.process.wait()
        os.close(self.master)
        return self.output


def harmless(output: bytes) -> None:
    """No sequence of an attack is in it, and nothing that could begin one."""
    text = output.decode("utf-8", "surrogateescape")
    assert not [
        part for part in STRINGS.findall(text) if MARK in part or PAYLOAD in part or "PWNED" in part
    ]
    assert not [part for part in CSI.findall(text) if MARK in part[0]]
    assert not re.findall("[\x80-\x9f\udc80-\udcff]", text), "an 8-bit control"


def test_the_check_finds_every_attack() -> None:
    for attack in ATTACKS[:-2]:
        with pytest.raises(AssertionError):
            harmless(attack.encode())
    harmless(b"\x1b]0;hudtui\x07\x1b[12;1H\x1b[31mfine 31337\x1b[0m")


def test_the_app_sends_none_of_them(hostile: Path) -> None:
    screen = Screen(hostile)
    try:
        screen.until("Quit")
        screen.type(b"5")
        screen.until(END)
        for keys in (
            b"\r",
            b"w",
            b"D",
            b"J",
            b"m",
            b"o",
            b"\x1b",
            b"e",
            b"\x1b",
            b"\r",
        ):  # the log, wrapped, with times, its errors; numbers; its name
            screen.type(keys)
            for _ in range(4):
                screen.read()
        for _ in range(3):  # result, events, plan
            screen.type(b"]")
            for _ in range(6):
                screen.read()
        screen.type(b"\x11")  # ^q
        output = screen.close()
    finally:
        if screen.process.poll() is None:
            screen.process.kill()
            screen.process.wait()
    assert END.encode() in output and b"after 20" in output
    harmless(output)


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "logs", "evil-1"),
        ("runs", "show", "evil-1"),
        ("runs", "list"),
        ("runs", "metrics", "--all", "evil-1"),
        (
            "runs",
            "watch",
            "local",
            "--once",
            "--log",
            "--file",
            ".hudtui/runs/evil-1/logs/play.log",
        ),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_the_commands_send_none_of_them(hostile: Path, arguments: tuple[str, ...]) -> None:
    words = [str(hostile / word) if word.startswith(".hudtui/") else word for word in arguments]
    output = Screen(hostile, *words).close()
    assert b"evil" in output or END.encode() in output
    harmless(output)


def test_tmux_around_the_app_is_told_nothing(hostile: Path) -> None:
    def tmux(*words: str) -> str:
        return subprocess.run(["tmux", *words], capture_output=True, text=True, check=True).stdout

    command = f"cd '{hostile}' && exec '{sys.executable}' -m hudtui"
    tmux(
        "new-session",
        "-d",
        "-x",
        "120",
        "-y",
        "40",
        "-s",
        "around",
        "cat",
        ";",
        "set-option",
        "-s",
        "set-clipboard",
        "on",
    )
    tmux("set-option", "-g", "allow-passthrough", "on")
    tmux("new-window", "-t", "=around:", "-n", "app", command)
    end = time.monotonic() + 60
    pressed = False
    while END not in (shown := tmux("capture-pane", "-p", "-t", "=around:app")):
        assert time.monotonic() < end, shown
        if not pressed and "Quit" in shown:
            tmux("send-keys", "-t", "=around:app", "5")
            pressed = True
        time.sleep(0.1)
    title = tmux("display-message", "-p", "-t", "=around:app", "#{pane_title} #{window_name}")
    assert "PWNED" not in title and tmux("list-buffers") == ""
    with contextlib.suppress(subprocess.CalledProcessError):
        tmux("send-keys", "-t", "=around:app", "C-q")
