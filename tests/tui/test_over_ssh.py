"""The flows of the README by keys alone, at 80x24: tmux, a real sshd, and the real app behind
it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from support import sshd, tmux_world
from textual.keys import key_to_character

from hudtui.core.demo.workspace import make_workspace
from hudtui.core.runs.store import RunStore
from hudtui.sim import PrimeSimulator
from hudtui.tui import actions

pytestmark = pytest.mark.timeout(600)  # each wait has a limit of its own

own_tmux = tmux_world.own_tmux
ssh_server = sshd.ssh_server
ssh_box = sshd.ssh_box

NAMES = {
    "escape": "Escape",
    "enter": "Enter",
    "tab": "Tab",
    "backslash": "\\",
    "up": "Up",
    "down": "Down",
    "slash": "/",
}


class Screen:
    """The terminal of somebody who has logged in."""

    def __init__(self, box: sshd.Box, folder: Path) -> None:
        command = f"cd {shlex.quote(str(folder))}; exec {shlex.quote(sys.executable)} -m hudtui"
        options = [
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            f"UserKnownHostsFile={box.server.folder}/known",
        ]
        options += ["-o", "LogLevel=ERROR", "-tt", "-p", str(box.port), "-i", str(box.server.key)]
        ssh = shlex.join(["ssh", *options, "127.0.0.1", command])
        self._tmux("new-session", "-d", "-s", "mine", "-x", "80", "-y", "24", ssh)
        actions.load_all_actions()

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-f", os.devnull, *words], capture_output=True, text=True, check=True
        ).stdout

    @property
    def text(self) -> str:
        return "\n".join(
            line.ljust(80) for line in self._tmux("capture-pane", "-p", "-t", "mine").split("\n")
        )

    def until(self, *words: str, gone: str = "", seconds: float = 90) -> str:
        """What is on the screen when it holds all of the words, and no longer what is to be
        gone."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.text
            if all(word in text for word in words) and not (gone and gone in text):
                return text
            time.sleep(0.1)
        raise AssertionError(f"{words} did not come:\n{self.text}")

    def press(self, key: str) -> None:
        """Press a key by Textual's name of it."""
        control, name = key.startswith("ctrl+"), key.removeprefix("ctrl+")
        named = NAMES.get(name) or key_to_character(name) or name
        if control:
            named = f"C-{named}"
        elif key[0] == "f" and key[1:].isdigit():
            named = key.upper()
        self._tmux("send-keys", "-t", "mine", named)
        # Keys are as far apart as a hand sets them: see `typed.BURST`. What follows Escape at once
        # would be Alt with that key.
        time.sleep(0.5 if key == "escape" else 0.05)

    def write(self, text: str) -> None:
        self._tmux("send-keys", "-t", "mine", "-l", text)

    def type(self, text: str, *, seen: str = "") -> None:
        """Type a text, in place of what stands before the cursor, and see it: a key in the middle
        of others decides nothing."""
        self.press("ctrl+u")
        self.write(text)
        self.until(seen or f"  {text} ")
        time.sleep(1.0)  # the next key is no part of the burst, also where the app reads both late

    def do(self, action: str) -> None:
        """Press the first key of an action."""
        self.press(actions.REGISTRY[action].keys.split(",")[0])

    def quit(self) -> None:
        """Quit, and wait until the login has ended."""
        self.press("ctrl+q")
        self.wait_for_the_end()

    def wait_for_the_end(self) -> None:
        end = time.monotonic() + 60
        while (
            "mine"
            in subprocess.run(
                ["tmux", "ls", "-F", "#S"], capture_output=True, text=True
            ).stdout.split()
        ):
            assert time.monotonic() < end, self.text
            time.sleep(0.1)


@pytest.fixture
def log_in(ssh_box: sshd.Box) -> Callable[..., Screen]:
    """`log_in(folder, NAME="value")`: somebody logs in and starts hudtui in a folder, with
    variables of the machine."""

    def logged_in(folder: Path, **variables: str) -> Screen:
        usual = {
            "TERM": "xterm-256color",
            "HUDTUI_SIM": "off",
            "HUDTUI_TRUST": os.environ["HUDTUI_TRUST"],
        }
        ssh_box.world(**(usual | variables))
        return Screen(ssh_box, folder)

    return logged_in


@pytest.fixture
def demo(own_world: Path) -> Path:
    """The workspace that `hudtui demo` makes."""
    folder = own_world / "demo"
    make_workspace(folder)
    return folder


@pytest.fixture
def sim(own_world: Path) -> Iterator[PrimeSimulator]:
    """A Prime whose machines are ready at once, and offer one GPU."""
    with PrimeSimulator(rate=1.0) as running:
        running.behave(boot=0, install=0)
        yield running


def order_pod(sim: PrimeSimulator, name: str) -> None:
    """Order a machine as another client of the account does."""
    headers = {"Authorization": f"Bearer {sim.api_key}"}
    with httpx2.Client(base_url=f"{sim.url}/api/v1", headers=headers, trust_env=False) as client:
        offer = (
            client.get("/availability/gpus", params={"gpu_type": "RTX4090_24GB"})
            .raise_for_status()
            .json()["items"][0]
        )
        taken = ("cloudId", "gpuType", "socket", "gpuCount", "country", "security")
        pod = {key: offer[key] for key in taken} | {
            "name": name,
            "image": offer["images"][0],
            "dataCenterId": offer["dataCenter"],
        }
        client.post(
            "/pods/", json={"pod": pod, "provider": {"type": offer["provider"]}}
        ).raise_for_status()


def test_from_an_empty_folder_to_results(own_world: Path, log_in: Callable[..., Screen]) -> None:
    screen = log_in(own_world)
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
    screen.until(
        "answered in", "Score", "highest"
    )  # whether a tile moves is up to the board, which has no seed
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

    screen.do("run.back")
    screen.until("1 run ─")
    screen.do("run.again")
    screen.until("Start 2048 greedy?", "It runs on this machine; no machine is rented.")
    screen.press("y")
    screen.until("2048 greedy has started.")
    screen.until("✓ finished", "step 6/6")
    store, end = RunStore(own_world / "hudtui-demo" / ".hudtui"), time.monotonic() + 90
    while any(run.active for run in store.runs()):
        # The end on the screen may have been that of the first run, and the end of the second one
        # would take the place of the next sentence.
        assert time.monotonic() < end
        time.sleep(0.1)
    screen.do("run.differences")
    screen.until("The settings of 2048 greedy and 2048 greedy are the same.")
    screen.press("q")
    screen.wait_for_the_end()


def test_a_configuration_and_a_task_are_written_and_a_dataset(
    demo: Path, log_in: Callable[..., Screen]
) -> None:
    screen = log_in(demo)
    screen.until("no run yet")
    screen.press("1")
    screen.until("Agent tools", "move(direction)")
    screen.do("environment.generate")
    screen.until("Save configuration as")
    screen.press("enter")
    screen.until("Expand ", "Keep as argument")
    screen.press("enter")
    screen.until("written by `hudtui rl init`", "✓ saved")
    screen.type("# ours ", seen=" # ours #")
    screen.until("# ours #", "not saved")
    screen.do("mapping.save")
    screen.until("# ours #", "✓ saved")
    assert (demo / "configs" / "text-2048.yaml").read_text().startswith("# ours #")

    screen.do("editor.leave")
    screen.until("fits the tool's schema")
    screen.press("1")
    screen.until("Agent tools")
    screen.do("environment.new-task")
    screen.until("New tasks for text-2048", "Prompt")
    screen.write("Reach ${t}.")
    screen.until("Reach ${t}.")
    screen.press("f4")
    screen.until("Variable")
    screen.write("t")
    screen.press("enter")
    screen.type("64, 128", seen="64, 128")
    screen.until("2 tasks")
    screen.press("ctrl+g")
    screen.until("Wrote 2 tasks to text-2048-tasks.json")

    screen.press("3")
    screen.until("board-3x3-seed5", "6 ok")
    screen.do("dataset.convert")
    screen.until("tasks.parquet", "6 rows: 6 in train")
    screen.press("ctrl+g")
    screen.until("Wrote tasks.parquet: 6 in train")
    screen.do("dataset.open")
    screen.until("Which tasks?", "text-2048-tasks.json")
    screen.press("enter")
    screen.until("board-3x3-seed5", "3 files: o", gone="Which tasks?")
    screen.quit()


def test_a_task_is_played_and_its_episodes_are_read(
    demo: Path, log_in: Callable[..., Screen]
) -> None:
    screen = log_in(demo)
    screen.until("no run yet")
    screen.press("3")
    screen.until("board-3x3-seed5", "6 ok")
    screen.do("dataset.play")
    screen.until("policy    by hand")
    screen.do("playing.start")
    screen.until("the agent sees", "turn 0/")
    screen.do("playing.write")
    screen.until("your turn")
    screen.type("up()", seen=" up()")
    screen.until('"direction": "up"')
    screen.do("playing.send")
    screen.until("turn 1/", "1 up()  by hand", "Moved up")
    screen.do("playing.policy")
    screen.until("Who plays?")
    screen.press("down")
    screen.press("enter")
    screen.press("tab")
    screen.until("policy    greedy")
    for _ in range(5):
        screen.press("down")
    screen.press("enter")
    screen.until("Most replies in an episode")
    screen.type("8", seen="  8  ")
    screen.press("enter")
    screen.until("turns     8")
    screen.do("playing.start")
    screen.until("End the episode that is being played?")
    screen.press("y")
    screen.until("The episode is over: reward")

    screen.press("ctrl+p")
    screen.until("Search")
    screen.type("results")
    screen.until("The episodes that runs and files hold")
    screen.press("enter")
    screen.until("Groups", "1 group", "board-3x3-seed5")
    screen.press("enter")
    screen.until("2 episodes")
    screen.do("results.compare")
    screen.until("The episode is marked.")
    screen.do("results.search")
    screen.until("Search the texts of all episodes")
    screen.type("highest tile 4")
    screen.press("enter")
    screen.until("Found · highest tile 4", "hit")
    screen.press("enter")
    screen.until("[turns] │ messages", "highest tile 4")
    screen.press("escape")
    screen.until("Found · highest tile 4", "hit")
    screen.do("results.export")
    screen.until("Which episodes?")
    screen.press("enter")
    screen.until("Write 1 episode as")
    screen.press("enter")
    screen.until("File to write", "exports/")
    screen.press("enter")
    screen.until("1 episode written to exports/")
    screen.quit()


def test_a_machine_is_rented_entered_limited_and_ended(
    demo: Path, sim: PrimeSimulator, log_in: Callable[..., Screen]
) -> None:
    screen = log_in(demo, HUDTUI_SIM=sim.url, HUDTUI_SIM_KEY=sim.api_key)
    screen.until("no run yet")
    screen.press("4")
    screen.until("★", "20 offers", "wallet $100.00")
    screen.press("tab")
    screen.until("What 4 hours cost")
    screen.press("escape")
    screen.until("★", "20 offers")
    screen.do("compute.access")
    screen.until("An SSH key for rented machines")
    screen.press("enter")
    screen.until("Register this SSH key?")
    screen.press("y")
    screen.until("Everything is set up for renting machines.")
    screen.do("compute.rent")
    screen.until("Rent 1 ×", "No real money is spent.", "Rent (y)")
    screen.press("y")
    screen.until("is ready: t opens a terminal on it", "● ready", "1 rented")
    screen.do("compute.limits")
    screen.until("Limits of hudtui-pod-", "hours until it is ended           24")
    screen.press("down")
    screen.press("down")
    screen.press("enter")
    screen.until("Hours until it is ended", "OK (Enter)")
    screen.type("2", seen="  2  ")
    screen.press("enter")
    screen.until("hours until it is ended is 2 now")
    screen.do("compute.terminal")
    screen.until("root@", ":~#")
    screen.write("exit")
    screen.press("enter")
    screen.until("1 rented")
    screen.press("q")
    screen.until("Quit hudtui? 1 machine costs money without hudtui", "/h (simulated), and has no")
    screen.press("n")
    screen.until("1 rented", gone="Quit hudtui?")
    screen.do("compute.terminate")
    screen.until("Everything on it is lost.")
    screen.press("y")
    screen.until("has ended, verified: it cost $", "none rented")
    assert not sim.alive
    screen.do("compute.history")
    screen.until("Machines that have ended", "ended by hand")
    screen.press("escape")
    screen.until("none rented", gone="ended by hand")
    screen.quit()


def test_a_run_on_a_rented_machine_and_what_is_done_with_it(
    demo: Path, sim: PrimeSimulator, key_pair: Path, log_in: Callable[..., Screen]
) -> None:
    sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
    screen = log_in(
        demo, HUDTUI_SIM=sim.url, HUDTUI_SIM_KEY=sim.api_key, PRIME_SSH_KEY_PATH=str(key_pair)
    )
    screen.until("no run yet")
    screen.press("5")
    screen.until("No run yet.")
    screen.do("run.start")
    screen.until("Ready: no machine is rented.")
    screen.press("ctrl+backslash")
    screen.until("a Where")
    screen.press("a")
    screen.until("machine*")
    screen.press("enter")
    screen.until("Enter chooses", "rent: Prime (simulated)")
    screen.press("down")
    screen.press("enter")
    screen.until("rent: Prime (simulated)", "Ready (simulated)")
    for _ in range(4):
        screen.press("down")
    screen.until("python  ")
    screen.type(sys.executable, seen=sys.executable[-20:])
    screen.press("ctrl+backslash")
    screen.until("a What")
    screen.press("a")
    screen.until(
        "engine             trl"
    )  # what a rented machine is for, until something else is chosen
    screen.press("down")
    screen.press("down")
    screen.until("engine  Engine of the run")
    screen.press("enter")
    screen.until("Enter chooses", "rollouts")
    screen.press("up")
    screen.press("enter")
    screen.until("engine             rollouts", "Ready (simulated): ")
    screen.do("launch.start")
    screen.until(
        "Rent a machine for 2048 greedy?",
        "Prime (simulated): hudtui-2048-greedy",
        "without a GPU",
        "$0.080/h (simulated)",
        "Your wallet",
    )
    screen.press("y")
    screen.until("end episodes=6/6", "finished")
    screen.do("run.history")
    screen.until("is ended, and that was")
    assert not sim.alive

    screen.do("run.metrics")
    screen.until("by step", "┤")
    screen.press("enter")  # the chart alone
    screen.until("Enter: its episodes", "┤")
    screen.press("enter")
    screen.until("Groups · 2048-greedy", "board-3x3-seed5")
    screen.press("escape")
    screen.until("Enter: its episodes")
    screen.press("escape")  # all charts again
    screen.until("by step", gone="Enter: its episodes")
    screen.press("escape")
    screen.until("1 run ─", " sim")
    screen.do("run.export")
    screen.until("Export model: the run plays tasks and trains no model")
    screen.do("run.pull")
    screen.until("Fetched ")
    screen.do("run.again")
    screen.until("Rent a machine for 2048 greedy?")
    screen.press("n")
    screen.until("1 run ─", gone="Rent a machine")
    screen.do("run.tags")
    screen.until("Tags of 2048 greedy")
    screen.type("base")
    screen.press("enter")
    screen.until("Tags of 2048 greedy: base")
    screen.do("run.archive")
    screen.until("is archived; U lists archived runs")
    screen.do("run.archived")
    screen.until("1 run ─")
    screen.do("run.stop")
    screen.until("Remove run 2048-greedy")
    screen.press("y")
    screen.until("No run yet.")
    screen.quit()


def test_two_episodes_are_compared_and_a_machine_that_no_run_owns_is_ended(
    demo: Path, sim: PrimeSimulator, key_pair: Path, log_in: Callable[..., Screen]
) -> None:
    command = [
        sys.executable,
        "-m",
        "hudtui",
        "eval",
        "tasks.json",
        "-c",
        "configs/2048.yaml",
        "-p",
        "random",
    ]
    subprocess.run([*command, "-n", "1", "-r", "2"], cwd=demo, capture_output=True, check=True)
    sim.add_ssh_key(key_pair.with_suffix(".pub").read_text())
    for name in ("hudtui-lost", "colleague"):
        order_pod(sim, name)
    screen = log_in(
        demo, HUDTUI_SIM=sim.url, HUDTUI_SIM_KEY=sim.api_key, PRIME_SSH_KEY_PATH=str(key_pair)
    )
    screen.until("A machine without a run is alive: hudtui-lost", "4, then p, shows it")
    screen.press("ctrl+p")
    screen.until("Search")
    screen.type("results")
    screen.until("The episodes that runs and files hold")
    screen.press("enter")
    screen.until("1 group", "board-3x3-seed5")
    screen.press("enter")
    screen.until("2 episodes")
    screen.do("results.compare")
    screen.until("The episode is marked.", "◆#0")
    screen.press("down")
    screen.until("◆ board-3x3-seed5", gone="The episode is marked.")
    screen.do("results.compare")
    screen.until("· #1 ·", "─ turn 1  ≠ ")
    screen.do("results.difference")
    screen.until("─ turn 3  ≠ ", gone="─ turn 1 ")
    screen.press("tab")
    screen.until("· #0 ·", "─ turn 3  ≠ ")

    screen.press("4")
    screen.until("★", "20 offers", "Machines 2 ! 1 unclaimed")
    screen.do("compute.pods")
    screen.until("2 rented, 1 unclaimed (X ends it)")
    screen.press("enter")
    screen.until("owner    unclaimed")
    screen.do("compute.pods")
    screen.until("2 rented, 1 unclaimed (X ends it)")
    screen.do("compute.orphans")
    screen.until("End hudtui-lost?", "! It is unclaimed, and alive", "Everything on it is lost.")
    screen.press("y")
    screen.until("hudtui-lost has ended, verified: it cost $", "1 rented", gone="unclaimed")
    assert [pod.name for pod in sim.alive] == ["colleague"]
    screen.quit()


@pytest.mark.xdist_group("rehearsal")
def test_a_training_is_rehearsed_and_its_model_exported(
    demo: Path, log_in: Callable[..., Screen]
) -> None:
    python = Path(__file__).parents[2] / ".venv-train" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no .venv-train: scripts/bootstrap dev makes it")
    screen = log_in(demo, HUDTUI_TRAINER_PYTHON=str(python))
    screen.until("no run yet")
    screen.press("5")
    screen.until("No run yet.")
    screen.do("run.start")
    screen.until("Ready: no machine is rented.")
    screen.do("launch.rehearse")
    screen.until("rehearsal", "training is over at step 3", "finished", seconds=300)
    screen.do("run.metrics")
    screen.until("reward std", "by step")
    screen.press("enter")  # the chart alone
    screen.until("Enter: its episodes")
    screen.press("enter")
    screen.until("step:=3", "1 of 3 groups")
    screen.press("5")
    screen.until("Enter: its episodes")
    screen.do("run.export")
    screen.until("Export the model of rehearsal")
    screen.press("enter")
    screen.until("Folder for the model")
    screen.press("enter")
    screen.until("Push it to the Hub as")
    screen.press("enter")
    screen.until("The model is in", "not worth serving")
    screen.do("run.continue")
    screen.until("How many steps in all?", "has done all of its 3 steps")
    screen.type("4")
    screen.press("enter")
    screen.until("rehearsal has started.", "● running")
    screen.until("step 4/4", "✓ finished", seconds=300)
    screen.quit()


SHARED = """for i in 1 2 3 4 5 6 7 8 9; do
  l=0.$i; [ $i -gt 5 ] && l=NaN
  echo "{\\"step\\": $i, \\"loss\\": $l, \\"reward\\": 0.5}"
done; exec sleep 600"""
"""A training of somebody else, which goes wrong."""


def test_a_foreign_session_is_watched_and_a_key_is_set(
    demo: Path, sim: PrimeSimulator, log_in: Callable[..., Screen]
) -> None:
    screen = log_in(demo, PRIME_API_BASE_URL=sim.url)
    screen._tmux("new-session", "-d", "-s", "colleague", "sh", "-c", SHARED)
    screen.until("no run yet")
    screen.press("5")
    screen.until("No run yet.")
    screen.do("run.others")
    screen.until("External run on this machine", "colleague")
    screen.press("enter")
    screen.until("read-only", "loss is NaN or infinite since step 6", "reward", "┤")
    screen.press("m")
    screen.until('{"step": 9, ')
    screen.press("escape")
    screen.until("1 run")
    screen.press("x")
    screen.until("No run yet.")

    screen.press("comma")
    screen.until("HUD_API_KEY", "○ not set")
    screen.do("list.filter")
    screen.type("PRIME_API_KEY", seen="│ PRIME_API_KEY")
    screen.press("enter")
    screen.until("○ not set PRIME_API_KEY", "1 of ")
    screen.do("settings.edit")
    screen.until("PRIME_API_KEY in", "Next (Enter)")
    screen.write(sim.api_key)
    screen.until("••••")
    screen.press("enter")
    screen.until("Write this setting?", "PRIME_API_KEY = ••••")
    screen.press("y")
    screen.until("PRIME_API_KEY is set in")
    screen.do("settings.test")
    screen.until("The key works: sim@example.invalid.")
    assert sim.api_key not in screen.text

    screen.press("ctrl+p")
    screen.until("Search")
    screen.type("theme")
    screen.until("Choose the colours")
    screen.press("enter")
    screen.until("● hudtui", "monochrome")
    screen.type("monochrome")
    screen.press("enter")
    screen.until("PRIME_API_KEY", gone="ansi-dark")
    screen.press("question_mark")
    screen.until("Help: settings", "Esc close")
    screen.press("escape")
    screen.until("T Test key", gone="Help: settings")
    screen.quit()
