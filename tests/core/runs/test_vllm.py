from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support import vllm_server as fake
from support.sshd import connect_ssh

from hudtui.core.diagnosis.alarms import find_alarms
from hudtui.core.diagnosis.facts import Alarm, RunFacts, StageFacts
from hudtui.core.errors import MachineError
from hudtui.core.remote.hosts import close_hosts
from hudtui.core.remote.local import LocalHost
from hudtui.core.runs import vllm
from hudtui.core.runs.launch import launch, stop_run
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.runs.vllm import ServerMonitor, VllmSample, fetch, parse_vllm_metrics
from hudtui.core.runs.watch import Monitor
from hudtui.core.training.plan import Readiness, Stage

HOST = LocalHost()
SUPPORT = Path(__file__).parents[2] / "support" / "vllm_server.py"


class Server:
    """vLLM's stand-in, in this process."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state.json"
        self.say()
        self._server = fake.make_server(self.state)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}
        )
        self._thread.start()

    def say(self, **state: Any) -> None:
        new = self.state.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(self.state)

    def stop(self) -> None:
        self.say()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    with contextlib.suppress(OSError):
        running.stop()


def test_the_numbers_are_read() -> None:
    assert parse_vllm_metrics(fake.text()) == VllmSample(
        "Qwen/Qwen2.5-3B-Instruct", 12, 3, 0.25, 5000, 1000
    )


def test_engines_are_added_up_and_the_fullest_cache_counts() -> None:
    lines = [
        f'vllm:{name}{{engine="{engine}",model_name="a}} \\"b"}} {value}'
        for name, values in (
            ("num_requests_running", (1, 2)),
            ("kv_cache_usage_perc", (0.5, 0.75)),
            ("prompt_tokens", (10, 20)),
        )
        for engine, value in enumerate(values)
    ]
    assert parse_vllm_metrics("\n".join(lines)) == VllmSample('a} \\"b', 3, None, 0.75, 30)


@pytest.mark.parametrize(
    ("text", "sample"),
    [
        ("", None),
        ("<html>vllm:</html>", None),
        ("node_load1 0.5\n", None),
        ("vllm:num_requests_running NaN\n", None),
        ("vllm:num_requests_running 1e2 1763654300000\n", VllmSample(running=100)),
        (
            "vllm:num_requests_running\nvllm:num_requests_waiting {x 2\n\x1b]0;x\x07\n"
            "vllm:num_requests_waiting 2\n",
            VllmSample(waiting=2),
        ),
        (
            'vllm:num_requests_running{model_name="\x1b[31mred"} 1\n',
            VllmSample(model="red", running=1),
        ),
    ],
)
def test_what_is_no_number_of_vllm_is_passed_over(text: str, sample: VllmSample | None) -> None:
    assert parse_vllm_metrics(text) == sample


async def test_rates_are_what_was_made_since_the_answer_before(server: Server) -> None:
    watch = ServerMonitor("serve", server.port)
    first = await watch.ask(HOST, 100.0)
    assert (
        first is not None
        and first.answers
        and first.tokens_per_s is None
        and first.sample.running == 12
    )
    server.say(generated=1500, prompt=5100)
    second = await watch.ask(HOST, 102.0)
    assert second is not None and (second.tokens_per_s, second.prompt_tokens_per_s) == (250, 50)
    server.say(generated=40, prompt=0)  # it was started again
    third = await watch.ask(HOST, 104.0)
    assert third is not None and third.tokens_per_s == 20
    json.dumps(third.to_json())


async def test_requests_without_tokens_are_noticed(server: Server) -> None:
    watch, stuck = ServerMonitor("serve", server.port), []
    for now, state in (
        (0, {}),
        (50, {}),
        (100, {"generated": 1001}),
        (150, {"generated": 1001}),
        (200, {"running": 0}),
    ):
        server.say(**state)
        seen = await watch.ask(HOST, float(now))
        assert seen is not None
        stuck.append(seen.stuck)
    assert stuck == [0, 50, 0, 50, 0]


async def test_a_server_that_answers_no_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = ServerMonitor("serve", server.port)
    await watch.ask(HOST, 10.0)
    monkeypatch.setattr(vllm, "_PATIENCE", 0.2)
    server.say(hang=True)
    seen = await watch.ask(HOST, 40.0)
    assert (
        seen is not None
        and not seen.answers
        and seen.unanswered == 30
        and seen.problem == "no answer within 0.2 s"
    )
    assert seen.sample.running == 12  # as it was last
    server.say(status=500)
    monkeypatch.setattr(vllm, "_PATIENCE", 5.0)
    seen = await watch.ask(HOST, 50.0)
    assert seen is not None and seen.unanswered == 40 and "answers 500" in str(seen.problem)
    server.say()
    seen = await watch.ask(HOST, 60.0)
    assert seen is not None and seen.answers and seen.unanswered == 0
    server.stop()
    seen = await watch.ask(HOST, 90.0)
    assert seen is not None and seen.unanswered == 30


async def test_what_never_was_vllm_worries_nobody(server: Server) -> None:
    server.say(status=404)
    watch = ServerMonitor("serve", server.port)
    assert await watch.ask(HOST, 0.0) is None
    server.stop()
    assert await watch.ask(HOST, 100.0) is None
    with pytest.raises(MachineError, match="does not answer"):
        await fetch(HOST, server.port)


async def test_a_server_on_another_machine_is_asked_through_the_connection(
    server: Server, ssh_box: Any
) -> None:
    async with await connect_ssh(ssh_box.target(), known_hosts=ssh_box.known_hosts()) as host:
        watch = ServerMonitor("serve", server.port)
        seen = await watch.ask(host, 1.0)
        assert seen is not None and seen.sample.running == 12
        server.stop()
        seen = await watch.ask(host, 31.0)
        assert seen is not None and not seen.answers and seen.unanswered == 30
    await close_hosts()


def told(**serve: Any) -> list[Alarm]:
    stages = (
        StageFacts("serve", "ready", True, quiet=1.0, **serve),
        StageFacts("train", "running", quiet=200.0),
    )
    return list(find_alarms(RunFacts(active=True, stages=stages)))


def test_alarms_of_servers_that_answer_no_more_or_are_stuck() -> None:
    assert told() == [] and told(unanswered=19.0, stuck=59.0) == []
    [alarm] = told(unanswered=30.0)
    assert (alarm.kind, alarm.level, alarm.stage) == ("server", "error", "serve")
    assert (
        alarm.text
        == "serve has not answered for 30 s, and train has said nothing for 3 min: it waits in vain"
    )
    [alarm] = told(stuck=61.0)
    assert alarm.text.startswith("serve has requests, but has made no token for 61 s, and train")
    busy = (
        StageFacts("serve", "ready", True, stuck=61.0),
        StageFacts("train", "running", quiet=1.0),
    )
    assert [alarm.level for alarm in find_alarms(RunFacts(active=True, stages=busy))] == ["warning"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_silent_trainer_with_a_dead_server_behind_it(
    store: RunStore, make: Callable[..., RunRecord], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, port = tmp_path / "state.json", free_port()
    state.write_text("{}")
    stages = (
        Stage(
            "serve",
            (sys.executable, str(SUPPORT), str(port), str(state)),
            service=True,
            ready=Readiness(port=port),
            grace=1.0,
        ),
        Stage("train", ("bash", "-c", "echo step 1; sleep 600"), grace=1.0),
    )
    record = make(stages=stages)
    async for _ in launch(record, HOST, store):
        pass
    clock = {"ahead": 0.0}
    monitor = Monitor(store, now=lambda: time.time() + clock["ahead"])
    log = Path(record.folder) / "logs" / "train.log"
    async with aclosing(monitor.watch(record.id, every=0.05)) as views:
        async for view in views:
            if view.servers and log.exists() and log.stat().st_size:
                break
    [seen] = view.servers
    assert (seen.stage, seen.sample.running, seen.sample.model) == (
        "serve",
        12,
        "Qwen/Qwen2.5-3B-Instruct",
    )
    assert (
        view.load.series("serve running")[0].y == 12
        and view.load.series("serve KV cache %")[0].y == 25
    )
    assert view.to_json()["servers"][0]["waiting"] == 3 and not [
        alarm for alarm in view.alarms if alarm.kind == "server"
    ]

    monkeypatch.setattr(vllm, "_PATIENCE", 0.1)
    state.write_text('{"hang": true}')
    clock["ahead"] = 100.0
    long_ago = time.time() - 300
    os.utime(log, (long_ago, long_ago))
    async with aclosing(monitor.watch(record.id, every=0.05)) as views:
        async for view in views:
            if found := [alarm for alarm in view.alarms if alarm.kind == "server"]:
                break
    assert (
        found[0].level == "error"
        and "has not answered for" in found[0].text
        and "train has said nothing" in found[0].text
    )
    assert found[0].fix is not None
    await stop_run(record.id, HOST, store)
