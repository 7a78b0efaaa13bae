"""Runs on several machines, as far as one computer can show: real sshds in network namespaces.

    sudo python tests/real/nodes.py --trainer PYTHON [--nodes 2] [--only NAME]

Each node is a network namespace with an address, an sshd and a home folder of its own; a bridge
joins them. The rehearsals of `hudtui rl --host n0 --host n1` then meet what a cluster meets: killed
processes of each node, a network that is cut for 30 seconds, a node that stands still, a port that
is closed. PYTHON is one with TRL and hudtui. It needs root, `ip` and sshd, and takes some minutes a
case on a busy machine. Prints a table; exit code 1 if a case was not as promised.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from support.sshd import SSHD, make_key  # noqa: E402

from hudtui.core.demo.workspace import task_records  # noqa: E402

NETWORK = "10.203.0"
MARK = "hudtui"
WITHIN = 600.0


def ip(*words: str) -> None:
    """Run `ip`."""
    subprocess.run(["ip", *words], check=True)


@dataclass
class Node:
    """A machine: a network namespace, an sshd and a home folder."""

    number: int
    folder: Path
    server: subprocess.Popen[bytes] | None = None

    @property
    def space(self) -> str:
        return f"{MARK}-n{self.number}"

    @property
    def address(self) -> str:
        return f"{NETWORK}.{10 + self.number}"

    @property
    def link(self) -> str:
        """The bridge's end of its cable."""
        return f"{MARK}v{self.number}"

    def begin(self, key: Path) -> None:
        """Make the namespace, and start the sshd."""
        ip("netns", "add", self.space)
        ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        ip("link", "set", self.link, "master", f"{MARK}br", "up")
        ip("-n", self.space, "link", "set", "lo", "up")
        ip("-n", self.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.space, "link", "set", "eth0", "up")
        home = self.folder / "home"
        home.mkdir(parents=True)
        make_key(self.folder / "host_key")
        words = [
            f"ListenAddress {self.address}",
            f"HostKey {self.folder}/host_key",
            f"AuthorizedKeysFile {key}.pub",
            "PidFile none",
            "UsePAM no",
            "StrictModes no",
            "PermitRootLogin prohibit-password",
            "MaxStartups 200",
            "Subsystem sftp internal-sftp",
            f"SetEnv HOME={home}",
            f"ForceCommand cd {home}; case $SSH_ORIGINAL_COMMAND in "
            "internal-sftp*|*/sftp-server*) exec /usr/lib/openssh/sftp-server;; "
            '*) eval "exec sh -c \\"\\$SSH_ORIGINAL_COMMAND\\"";; esac',
        ]
        (self.folder / "config").write_text("\n".join(words) + "\n")
        Path("/run/sshd").mkdir(exist_ok=True)
        with open(self.folder / "log", "wb") as log:
            self.server = subprocess.Popen(
                [
                    "ip",
                    "netns",
                    "exec",
                    self.space,
                    SSHD,
                    "-D",
                    "-e",
                    "-f",
                    f"{self.folder}/config",
                ],
                stdout=log,
                stderr=log,
            )

    def end(self) -> None:
        """End the sshd, and remove the namespace."""
        if self.server is not None:
            self.server.terminate()
            self.server.wait(20)
        # The kernel takes away what is in a namespace some time after it: the cable goes first.
        for words in (("link", "del", self.link), ("netns", "del", self.space)):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*words)

    def pids(self) -> list[int]:
        """Processes of the node."""
        done = subprocess.run(
            ["ip", "netns", "pids", self.space], capture_output=True, text=True, check=False
        )
        return [int(word) for word in done.stdout.split()]

    def find(self, *words: str) -> int | None:
        """A process of the node whose command has these words."""
        for pid in self.pids():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if all(any(part.endswith(word) for part in command) for word in words):
                    return pid
        return None

    def left(self) -> list[int]:
        """Processes of runs that are still there."""
        found = []
        for pid in self.pids():
            with contextlib.suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
                if b"hudtui.trainers" in command or b"nodes.py" in command:
                    found.append(pid)
        return found


@contextlib.contextmanager
def cluster(count: int, folder: Path) -> Iterator[list[Node]]:
    """Nodes with a network."""
    key = make_key(folder / "key")
    ip("link", "add", f"{MARK}br", "type", "bridge")
    nodes = [Node(number, folder / f"n{number}") for number in range(count)]
    try:
        ip("addr", "add", f"{NETWORK}.1/24", "dev", f"{MARK}br")
        ip("link", "set", f"{MARK}br", "up")
        for node in nodes:
            node.begin(key)
        ssh = folder / "home" / ".ssh"
        ssh.mkdir(parents=True)
        text = "".join(
            f"Host n{node.number}\n  HostName {node.address}\n  User root\n  IdentityFile {key}\n"
            for node in nodes
        )
        (ssh / "config").write_text(text)
        yield nodes
    finally:
        for node in nodes:
            node.end()
        ip("link", "del", f"{MARK}br")


class Run:
    """A rehearsal on all nodes, from a workspace of its own."""

    def __init__(self, folder: Path, nodes: list[Node], trainer: Path, *, steps: int = 6) -> None:
        self.nodes, self.folder = nodes, folder
        (folder / "configs").mkdir(parents=True)
        shutil.copy(ROOT / "configs" / "2048.yaml", folder / "configs")
        (folder / "tasks.json").write_text(json.dumps(task_records()))
        home = nodes[0].folder.parent / "home"
        self.env = {**os.environ, "HOME": str(home), "HUDTUI_TRUST": str(folder)}
        words = [sys.executable, "-m", "hudtui", "rl", "tasks.json", "-c", "configs/2048.yaml"]
        words += [word for node in nodes for word in ("--host", f"n{node.number}")]
        words += ["--rehearse", "--steps", str(steps), "--python", str(trainer), "--yes", "--json"]
        with open(folder / "out", "wb") as out, open(folder / "err", "wb") as err:
            self.process = subprocess.Popen(words, cwd=folder, env=self.env, stdout=out, stderr=err)

    @property
    def log(self) -> str:
        return (self.folder / "err").read_text(errors="replace")

    def until(self, text: str) -> None:
        """Wait until the logs have said something."""
        latest = time.monotonic() + WITHIN
        while text not in self.log:
            if self.process.poll() is not None or time.monotonic() > latest:
                raise RuntimeError(f"{text!r} was not said: {self.log[-3000:]}")
            time.sleep(0.1)

    def result(self) -> tuple[str, str]:
        """State and reason, once the command has ended."""
        self.process.wait(WITHIN)
        try:
            found = json.loads((self.folder / "out").read_text())
        except ValueError:
            return "refused", self.log[-400:]
        if "state" not in found:
            return "an error", str(found.get("error"))
        return found["state"], found.get("why") or ""

    def nothing_left(self) -> bool:
        """Whether the nodes are empty, after a look that every start of hudtui takes."""
        words = [sys.executable, "-m", "hudtui", "runs", "list"]
        subprocess.run(words, cwd=self.folder, env=self.env, capture_output=True, check=False)
        latest = time.monotonic() + 60
        while any(node.left() for node in self.nodes):
            if time.monotonic() > latest:
                return False
            time.sleep(0.5)
        return True


Case = Callable[[Run, list[Node]], str]
"""Does something to a run, and returns the words that its reason needs to have; empty where it has
to finish."""


def nothing(run: Run, nodes: list[Node]) -> str:
    """A quiet run."""
    return ""


def kill(node: int, *words: str, why: str = "") -> Case:
    """Kill a process of a node in the middle of the training; `why` is what the run then says."""

    def case(run: Run, nodes: list[Node]) -> str:
        run.until("step 1/")
        pid = nodes[node].find(*words)
        if pid is None:
            raise RuntimeError(f"node {node} has no process {words}")
        os.kill(pid, signal.SIGKILL)
        return why or f"node {node} "

    return case


def lose(node: int) -> Case:
    """Kill everything on a node at once, as a lost machine does."""

    def case(run: Run, nodes: list[Node]) -> str:
        run.until("step 1/")
        ip("link", "set", nodes[node].link, "down")
        for pid in nodes[node].pids():
            if nodes[node].server is None or pid != nodes[node].server.pid:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        return f"node {node} "

    return case


def cut(node: int, seconds: float) -> Case:
    """Cut the network of a node for some seconds."""

    def case(run: Run, nodes: list[Node]) -> str:
        run.until("step 1/")
        ip("link", "set", nodes[node].link, "down")
        time.sleep(seconds)
        ip("link", "set", nodes[node].link, "up")
        return ""

    return case


def stand_still(node: int, seconds: float) -> Case:
    """Stop the training of a node for some seconds."""

    def case(run: Run, nodes: list[Node]) -> str:
        run.until("step 1/")
        pid = nodes[node].find("hudtui.trainers.grpo", "--recipe")
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        return ""

    return case


MEETS, RUNS = ("nodes.py", "meet"), ("nodes.py", "run")
CASES: dict[str, Case] = {
    "quiet": nothing,
    "trainer of node 1": kill(1, "-m", "hudtui.trainers.grpo", "-u"),
    "trainer of node 0": kill(0, "-m", "hudtui.trainers.grpo", "-u"),
    "watcher of node 1": kill(1, *MEETS),
    "watcher of node 0": kill(0, *MEETS, why="nodes: it was ended by SIGKILL"),
    "launcher of node 1": kill(1, *RUNS),
    "network of node 1 cut for 30 s": cut(1, 30.0),
    "node 1 stands still for 30 s": stand_still(1, 30.0),
    "node 1 is lost": lose(1),
}


def main() -> int:
    """Run the cases, and print what came of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--trainer", type=Path, required=True, help="a Python with TRL and hudtui")
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--only", action="append", help="a case; may be repeated")
    given = parser.parse_args()
    folder, bad = Path(tempfile.mkdtemp(prefix="hudtui-nodes-")), 0
    for name, case in CASES.items():
        if given.only and name not in given.only:
            continue
        place, began = folder / name.replace(" ", "-"), time.monotonic()
        place.mkdir()
        with cluster(given.nodes, place) as nodes:
            run = Run(place / "w", nodes, given.trainer.absolute())
            try:
                wanted = case(run, nodes)
                state, why = run.result()
            finally:
                if run.process.poll() is None:
                    run.process.kill()
            empty = run.nothing_left()
        good = (state == "failed" and wanted in why) if wanted else state == "finished"
        bad += not (good and empty)
        seconds = time.monotonic() - began
        mark = "as promised" if good and empty else "NOT AS PROMISED"
        left = "" if empty else ", processes left"
        print(f"| {name} | {state}{left} | {why[:160]} | {seconds:.0f} s | {mark} |", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
