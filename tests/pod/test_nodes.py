"""The meeting of the nodes of a run: real processes that connect over loopback and are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hudtui.pod
from hudtui.pod import nodes

PROGRAM = Path(hudtui.pod.__file__).parent / "nodes.py"
pytestmark = pytest.mark.timeout(120)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """The folders and programs of some nodes."""

    def __init__(self, folder: Path, count: int, **about: Any) -> None:
        self.folders = [folder / str(rank) for rank in range(count)]
        self.port = free_port()
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.others: list[subprocess.Popen[bytes]] = []
        for rank, place in enumerate(self.folders):
            (place / "logs").mkdir(parents=True)
            own = {
                "rank": rank,
                "hosts": [f"m{number}" for number in range(count)],
                "addresses": ["127.0.0.1"],
                "port": self.port,
                "key": "k",
                **about,
            }
            (place / "nodes.json").write_text(json.dumps(own))

    def change(self, rank: int, **about: Any) -> None:
        path = self.folders[rank] / "nodes.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **about}))

    def start(self, *ranks: int) -> None:
        for rank in ranks or range(len(self.folders)):
            folder = self.folders[rank]
            with open(folder / "log", "ab") as log:
                self.running[rank] = subprocess.Popen(
                    [sys.executable, str(PROGRAM), "meet", str(folder)], stdout=log, stderr=log
                )

    def run(self, rank: int, *command: str, stage: str = "train") -> subprocess.Popen[bytes]:
        folder = self.folders[rank]
        with open(folder / "logs" / f"{stage}.log", "ab") as log:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), "run", str(folder), *command],
                stdout=log,
                stderr=log,
                env={**os.environ, "HUDTUI_STAGE": stage},
            )
        self.others.append(process)
        return process

    def log(self, rank: int) -> str:
        return (self.folders[rank] / "log").read_text()

    def met(self, *ranks: int) -> list[dict[str, Any]]:
        chosen = ranks or range(len(self.folders))
        wait(lambda: all((self.folders[rank] / "nodes.met").exists() for rank in chosen), self)
        return [json.loads((self.folders[rank] / "nodes.met").read_text()) for rank in chosen]

    def error(self, rank: int) -> str:
        """The sentence that a node ends with."""
        assert self.running[rank].wait(60) == 5, self.log(rank)
        lines = [line for line in self.log(rank).splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 and "\nTraceback" not in self.log(rank), self.log(rank)
        return lines[0].removeprefix("error: ")


def wait(true: Callable[[], bool], cluster: Cluster) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until, [cluster.log(rank) for rank in cluster.running]
        time.sleep(0.02)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(count: int, **about: Any) -> Cluster:
        made.append(Cluster(tmp_path / str(len(made)), count, **about))
        return made[-1]

    yield make
    for one in made:
        for process in (*one.running.values(), *one.others):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait(20)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_nodes_meet_in_any_order_and_agree_on_an_address(
    order: tuple[int, ...], cluster: Callable[..., Cluster]
) -> None:
    nodes = cluster(3)
    for rank in order:
        nodes.start(rank)
    first, *others = nodes.met()
    assert first["address"] == "127.0.0.1" and first["interface"] == "lo"
    assert others == [first, first] and first["port"] != nodes.port


def test_a_command_learns_where_its_processes_meet(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2)
    nodes.start()
    port = nodes.met()[0]["port"]
    words = "import os, sys; print(sys.argv[1:], os.environ['GLOO_SOCKET_IFNAME'])"
    done = nodes.run(1, sys.executable, "-c", words, "{address}", "p={port}")
    assert done.wait(30) == 0
    log = (nodes.folders[1] / "logs" / "train.log").read_text()
    assert f"['127.0.0.1', 'p={port}'] lo" in log


def test_an_address_that_not_all_reach_is_not_taken(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(3, addresses=["127.0.0.2", "127.0.0.1"])
    nodes.change(2, addresses=["127.0.0.1"])
    nodes.start()
    assert {found["address"] for found in nodes.met()} == {"127.0.0.1"}


def test_no_common_address_ends_with_what_each_reaches(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(3, addresses=["127.0.0.2", "127.0.0.1"])
    nodes.change(1, addresses=["127.0.0.2"])
    nodes.change(2, addresses=["127.0.0.1"])
    nodes.start()
    for rank in range(3):
        said = nodes.error(rank)
        assert said.startswith("the nodes have no network in common: node 0 is reached by ")
        assert "node 1 (m1) at 127.0.0.2 and by node 2 (m2) at 127.0.0.1" in said


def test_a_port_that_is_closed_is_named(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2, wait=2.0)
    closed = free_port()
    nodes.change(1, port=closed)
    nodes.start()
    said = nodes.error(1)
    assert said.startswith(
        f"node 1 (m1) cannot reach node 0 (m0) at 127.0.0.1:{closed}: connection refused. "
    )
    assert "open the ports" in said
    assert nodes.error(0) == "node 1 (m1) did not come within 2 s"


def test_all_connections_are_tried_at_once(
    cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 40
    node = nodes.OtherNode(str(cluster(count).folders[3]))
    together = threading.Barrier(count - 1)

    def filtered(address: str, port: int) -> tuple[None, str]:
        together.wait(60)  # breaks unless all are on their way
        return None, "no answer (closed by a firewall?)"

    monkeypatch.setattr(nodes, "connection_problem", filtered)
    problems = node.probe({str(rank): ["10.9.9.9", 5000 + rank] for rank in range(count)})
    node.listener.close()
    assert len(problems) == count - 1
    assert problems[3] == (
        "node 3 (m3) cannot reach node 4 (m4) at 10.9.9.9:5004: no answer (closed by a firewall?)"
    )


def test_a_port_of_node_0_that_is_taken_is_named(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2)
    with socket.socket() as other:
        other.bind(("", nodes.port))
        other.listen()
        nodes.start(0)
        assert nodes.error(0).startswith(f"node 0 (m0) cannot listen on port {nodes.port}: ")


def test_who_does_not_know_the_key_does_not_belong_there(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(3, wait=15.0)
    nodes.change(2, key="another", wait=2.0)  # it gives up while node 0 still listens
    nodes.start()
    assert "another program answers there" in nodes.error(2)
    assert nodes.error(0) == "node 2 (m2) did not come within 15 s"
    assert not (nodes.folders[1] / "nodes.met").exists()


def test_strangers_at_the_port_do_no_harm(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2)
    nodes.start(0)
    wait(lambda: "waits for node 1" in nodes.log(0), nodes)
    for words in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 200_000,
        b'{"rank": 1, "proof": "x"}\n',
        b'{"rank": true, "proof": null}\n[[[[\n',
        b"",
    ):
        with socket.create_connection(("127.0.0.1", nodes.port)) as stranger:
            try:
                stranger.sendall(words)
            except OSError:
                continue
    nodes.start(1)
    assert len(nodes.met()) == 2


def test_strangers_that_say_nothing_keep_no_node_out(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2)
    nodes.start(0)
    wait(lambda: "waits for node 1" in nodes.log(0), nodes)
    with contextlib.ExitStack() as silent:
        for _ in range(40):
            stranger = socket.create_connection(("127.0.0.1", nodes.port))
            silent.enter_context(stranger)
        nodes.start(1)
        assert len(nodes.met()) == 2


def test_a_program_that_answers_letter_by_letter_is_not_waited_for(
    cluster: Callable[..., Cluster],
) -> None:
    nodes, over = cluster(2, wait=1.0), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with contextlib.suppress(OSError):
                stream, _ = other.accept()
                with stream:
                    while not over.wait(0.5):
                        stream.sendall(b"x")

        slow = threading.Thread(target=answer)
        slow.start()
        nodes.change(1, port=other.getsockname()[1])
        nodes.start(1)
        try:
            assert "another program answers there" in nodes.error(1)
        finally:
            over.set()
            with contextlib.suppress(OSError):
                socket.create_connection(other.getsockname()).close()
            slow.join(20)


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_all_say_which_node_was_killed(victim: int, cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(3)
    nodes.start()
    nodes.met()
    nodes.running[victim].kill()
    said = {nodes.error(rank) for rank in range(3) if rank != victim}
    assert len(said) == 1 and said.pop().startswith(f"node {victim} (m{victim}): it is gone")


@pytest.mark.parametrize("victim", [0, 2])
def test_a_silent_node_counts_as_lost(victim: int, cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(3, patience=5.0)
    nodes.start()
    nodes.met()
    nodes.running[victim].send_signal(signal.SIGSTOP)
    for rank in range(3):
        if rank != victim:
            assert nodes.error(rank) == (
                f"node {victim} (m{victim}): nothing was heard of it for 5 s"
            )


def test_a_short_silence_is_survived(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2, patience=30.0)
    nodes.start()
    nodes.met()
    nodes.running[1].send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    nodes.running[1].send_signal(signal.SIGCONT)
    nodes.running[1].terminate()
    assert nodes.running[1].wait(20) == 0 and nodes.running[0].poll() is None


def test_the_cause_is_said_and_not_the_complaint_about_it(
    cluster: Callable[..., Cluster],
) -> None:
    nodes = cluster(3)
    nodes.start()
    nodes.met()
    lost = "import sys; print('RuntimeError: Connection closed by peer [10.0.0.1]'); sys.exit(1)"
    for rank in (0, 2):
        nodes.run(rank, sys.executable, "-c", lost)
    wait(lambda: (nodes.folders[2] / "nodes.ended").exists(), nodes)
    nodes.run(1, sys.executable, "-c", "import sys; print('error: the disk is full'); sys.exit(3)")
    for rank in range(3):
        assert nodes.error(rank) == (
            "node 1 (m1): its training ended with status 3: the disk is full"
        )
    assert "node 0 (m0) | RuntimeError: Connection closed by peer" in nodes.log(0)


def test_a_command_that_is_killed_counts_most(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2)
    nodes.start()
    nodes.met()
    nodes.run(0, sys.executable, "-c", "import sys; sys.exit('some words')")
    nodes.run(1, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    said = {nodes.error(rank) for rank in range(2)}
    assert said == {"node 1 (m1): its training was ended by SIGKILL"}


def test_a_worker_that_is_killed_below_its_launcher_is_named(
    cluster: Callable[..., Cluster],
) -> None:
    nodes = cluster(2)
    nodes.start()
    nodes.met()
    report = "traceback : Signal 9 (SIGKILL) received by PID 17"
    nodes.run(1, sys.executable, "-c", f"import sys; print({report!r}); sys.exit(1)")
    assert nodes.error(0) == (
        "node 1 (m1): its training ended with status 1, because a process of it was ended by "
        "SIGKILL"
    )


REPORT = """\
W1128 11:00:42.583 3136 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 377
E1128 11:00:42.747 3136 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1)
Traceback (most recent call last):
  File "/venv/bin/accelerate", line 10, in <module>
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
{others}
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-28_11:00:42
  host      : localhost
  rank      : 0 (local_rank: 0)
  {cause}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================"""
"""What torchrun says last, whatever has happened."""
OTHERS = "\n".join(f"[{number}]:\n  exitcode  : -15 (pid: 377)" for number in range(1, 9))
EXIT = "exitcode  : 1 (pid: 376)"


@pytest.mark.parametrize(
    ("said", "report", "why"),
    [
        (
            "[rank0]: Traceback (most recent call last):\n"
            '[rank0]:   File "train.py", line 4, in <module>\n'
            "[rank0]: ValueError: the file is broken\n[rank0]: in many ways",
            REPORT.format(others=OTHERS, cause=EXIT),
            ": ValueError: the file is broken",
        ),
        (
            "error: the disk is full\nTraceback (most recent call last):\nOSError: 28",
            REPORT.format(others="  <NO_OTHER_FAILURES>", cause=EXIT),
            ": the disk is full",
        ),
        ("it does not fit\n----------\n[0]:", "", ": it does not fit"),
        ("==========\n----------", "", ""),
        (
            "step 1/3",
            REPORT.format(others="  <NO_OTHER_FAILURES>", cause="exitcode  : -9 (pid: 376)"),
            ", because a process of it was ended by SIGKILL",
        ),
        ("step 1/3", "", ": step 1/3"),
    ],
)
def test_the_reason_is_what_the_training_has_said_and_not_its_launcher(
    said: str, report: str, why: str, cluster: Callable[..., Cluster]
) -> None:
    nodes = cluster(2)
    nodes.start()
    nodes.met()
    script = nodes.folders[1] / "train.py"
    script.write_text(f"import sys\nprint({said + chr(10) + report!r})\nsys.exit(1)\n")
    nodes.run(1, sys.executable, str(script))
    assert nodes.error(0) == f"node 1 (m1): its training ended with status 1{why}"
    assert "FAILED" not in nodes.log(0), "the log of that node has the launcher's report"


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stop_on_one_node_stops_all(stopped: int, cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(3)
    nodes.start()
    nodes.met()
    (nodes.folders[stopped] / "status.json").write_text(
        json.dumps({"outcome": ["stopped", "its time limit of 5 s was reached"]})
    )
    nodes.running[stopped].terminate()
    assert nodes.running[stopped].wait(20) == 0
    first = 0 if stopped else 1
    wait(lambda: (nodes.folders[first] / "stop.json").exists(), nodes)
    wish = json.loads((nodes.folders[first] / "stop.json").read_text())
    assert "its time limit of 5 s was reached" in wish["why"]


@pytest.mark.parametrize("failed", [0, 1])
def test_a_stage_that_fails_before_the_training_ends_all(
    failed: int, cluster: Callable[..., Cluster]
) -> None:
    nodes = cluster(2)
    nodes.start()
    nodes.met()
    (nodes.folders[failed] / "status.json").write_text(
        json.dumps({"outcome": ["failed", "bootstrap failed (exit 5): no room"]})
    )
    nodes.running[failed].terminate()
    said = nodes.error(1 - failed)
    assert said == f"node {failed} (m{failed}): bootstrap failed (exit 5): no room"


@pytest.mark.parametrize(
    ("free", "words"), [(1, "its disk is full"), (10**9, "it was ended, and does not say why")]
)
def test_a_node_whose_supervisor_could_not_write_why_has_failed(
    free: int, words: str, cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = cluster(1).folders
    (folder / "status.json").write_text(json.dumps({"state": "running", "outcome": None}))
    room = os.statvfs(folder)
    found = os.statvfs_result((1, 1, room.f_blocks, free, free, *tuple(room)[5:10]))
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    node = nodes.OtherNode(str(folder))
    node.listener.close()
    assert node.outcome() == ("failed", words)


def test_a_node_that_is_ended_without_a_word_is_no_stop(cluster: Callable[..., Cluster]) -> None:
    made = cluster(2)
    made.start()
    made.met()
    made.running[1].terminate()
    assert made.error(0) == "node 1 (m1): it was ended, and does not say why"


def test_a_command_keeps_room_for_the_reason_of_its_failure(
    cluster: Callable[..., Cluster],
) -> None:
    made = cluster(2)
    made.start()
    made.met()
    room, sizes = made.folders[1] / "nodes.room", made.folders[1] / "sizes"
    made.run(1, "sh", "-c", f"wc -c <{room} >{sizes}; echo 'No space left on device'; exit 3")
    assert made.error(0).endswith("ended with status 3: No space left on device")
    assert int(sizes.read_text()) == 64 * 1024 and not room.exists()


def test_a_failure_that_cannot_be_written_down_ends_at_once(
    cluster: Callable[..., Cluster],
) -> None:
    made = cluster(2)
    made.start()
    made.met()
    (made.folders[1] / "nodes.ended").mkdir()
    process = made.run(1, "sh", "-c", "exit 3")
    assert process.wait(60) == 3
    text = (made.folders[1] / "logs" / "train.log").read_text()
    assert "what has failed cannot be written down" in text and "Traceback" not in text


def test_a_node_that_has_finished_is_not_lost(cluster: Callable[..., Cluster]) -> None:
    nodes = cluster(2, patience=3.0)
    nodes.start()
    nodes.met()
    (nodes.folders[0] / "status.json").write_text(json.dumps({"outcome": ["finished", None]}))
    nodes.running[0].terminate()
    assert nodes.running[0].wait(20) == 0
    time.sleep(4.0)
    assert nodes.running[1].poll() is None
    nodes.running[1].terminate()
    assert nodes.running[1].wait(20) == 0
