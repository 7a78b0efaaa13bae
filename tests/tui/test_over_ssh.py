"""From an empty folder to the results of a run by keys alone, at 80x24: tmux, a real sshd, and the real app behind it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import sshd, tmux_world

from hudtui.tui import actions

own_tmux = tmux_world.own_tmux
ssh_server = sshd.ssh_server
ssh_box = sshd.ssh_box

NAMES = {"escape": "Escape", "enter": "Enter", "tab": "Tab", "comma": ",", "question_mark": "?"}


class Screen:
    """The terminal of somebody who has logged in."""

    def __init__(self, box: sshd.Box, folder: Path) -> None:
        command = f"cd {shlex.quote(str(folder))}; exec {shlex.quote(sys.executable)} -m hudtui"
        options = ["-F", "none", "-o", "StrictHostKeyChecking=no", "-o", f"UserKnownHostsFile={box.server.folder}/known"]
        options += ["-o", "LogLevel=ERROR", "-tt", "-p", str(box.port), "-i", str(box.server.key)]
        ssh = shlex.join(["ssh", *options, "127.0.0.1", command])
        self._tmux("new-session", "-d", "-s", "mine", "-x", "80", "-y", "24", ssh)
        actions.load_all_actions()

    def _tmux(self, *words: str) -> str:
        return subprocess.run(["tmux", "-f", os.devnull, *words], capture_output=True, text=True, check=True).stdout

    @property
    def text(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", "mine")

    def until(self, *words: str, seconds: float = 60) -> str:
        """What is on the screen when it holds all of the words."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.text
            if all(word in text for word in words):
                return text
            time.sleep(0.1)
        raise AssertionError(f"{words} did not come:\n{self.text}")

    def press(self, key: str) -> None:
        """Press a key by Textual's name of it."""
        named = NAMES.get(key, key)
        if named.startswith("ctrl+"):
            named = f"C-{named[5:]}"
        elif key[0] == "f" and key[1:].isdigit():
            named = key.upper()
        self._tmux("send-keys", "-t", "mine", named)
        if key == "escape":
            time.sleep(0.5)  # what follows at once would be Alt with that key

    def do(self, action: str) -> None:
        """Press the first key of an action."""
        self.press(actions.REGISTRY[actions.RENAMED.get(action, action)].keys.split(",")[0])


@pytest.fixture
def screen(ssh_box: sshd.Box, own_world: Path) -> Iterator[Screen]:
    ssh_box.world(TERM="xterm-256color", HUDTUI_SIM="off", HUDTUI_TRUST=os.environ["HUDTUI_TRUST"])
    yield Screen(ssh_box, own_world)


def test_from_an_empty_folder_to_results(screen: Screen) -> None:
    screen.until("Welcome")
    screen.do("home.demo")
    screen.until("(recommended)")
    screen.press("enter")
    screen.until("/hudtui-demo", "5 ►")

    screen.press("1")  # the environment: what it has, and a call by hand
    screen.until("Agent tools", "move(direction)")
    screen.do("environment.call")
    screen.until("direction *")
    screen.press("enter")
    screen.until("this parameter is required")
    screen.press("escape")
    screen.press("escape")

    screen.press("2")  # the mapping: a reply is sent to the real environment
    screen.until("configuration for 2048")
    screen.do("editor.leave")
    screen.until("fits the tool's schema")
    screen.do("mapping.send")
    screen.until("answered in", "Score", "highest")  # whether a tile moves is up to the board, which has no seed
    screen.press("escape")
    screen.press("escape")

    screen.press("3")  # the tasks, and one of them set up and judged
    screen.until("board-3x3-seed5", "6 ok", "calls checked against text-2048")
    screen.do("dataset.test")
    screen.until("no agent plays")
    screen.press("y")
    screen.until("reward")
    screen.press("escape")
    screen.press("escape")

    screen.press("5")  # a run: the plan, the start, its log and its numbers
    screen.until("No run yet")
    screen.do("run.start")
    screen.until("Ready: no machine is rented.")
    screen.do("launch.start")
    screen.until("end episodes=6/6", "finished")
    screen.do("run.metrics")
    screen.until("reward", "┤")
    screen.press("q")
    end = time.monotonic() + 30
    while "mine" in subprocess.run(["tmux", "ls"], capture_output=True, text=True).stdout:
        assert time.monotonic() < end, screen.text
        time.sleep(0.1)
