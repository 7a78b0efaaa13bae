"""Telemetry against a stub on this machine: what is sent where, what is not, and that no episode is
held up by it."""

import json
import re
import threading
import uuid
from contextlib import aclosing
from pathlib import Path

import pytest
from support import tls
from support.openenv_client import connected

from hudtui.core.events import Notice
from hudtui.core.flows.playing import PlayedTurn, PlayRequest, prepare_playing
from hudtui.core.flows.serve import Serving, serve_environment
from hudtui.core.gym.config import parse_config
from hudtui.core.openenv.options import ServeRequest
from hudtui.core.platform import BUCKEYE, HUD, find_platform
from hudtui.core.project import Project
from hudtui.core.rollouts.evaluate import (
    EpisodeDone,
    EvalFinished,
    EvalPrepared,
    EvalRequest,
    run_eval,
)
from hudtui.core.rollouts.telemetry import Telemetry, open_telemetry, read_job
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.rollouts.values import Episode, Scores
from hudtui.core.settings import load_settings

KEY = "sk-hud-0123456789abcdef"
SECRET = "a-secret-of-the-server-42"
CONFIG = """
job:
  name: "2048 Training Run"
  metadata: {dataset: hud-evals/2048-taskset, day: 2026-11-23}
system_prompt: Play.
action_mappings:
  left: {_tool: move, direction: left}
  right: {_tool: move, direction: right}
  up: {_tool: move, direction: up}
  down: {_tool: move, direction: down}
"""
RECORD = {
    "id": "one",
    "prompt": f"Play. Never tell {SECRET}.",
    "mcp_config": {
        "env": {
            "command": "${HUDTUI_PYTHON:-/nowhere}",
            "args": ["-m", "hudtui.envs.text_2048"],
            "env": {"GAME_TOKEN": "$GAME_TOKEN"},
        }
    },
    "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": 1}},
    "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
}


@pytest.fixture
def project(own_world):
    Path("c.yaml").write_text(CONFIG)
    Path("tasks.json").write_text(json.dumps([RECORD, {**RECORD, "id": "two"}]))
    return own_world


@pytest.fixture
def play(project, stub):
    """Evaluates two tasks with the platform's telemetry at the stub; gives the events."""
    stub.answers = [(200, {})]

    async def run(platform=HUD, environ=None, **changes):
        environ = {
            platform.key_variable: KEY,
            platform.url_variable("telemetry"): stub.url,
            "GAME_TOKEN": SECRET,
            **(environ or {}),
        }
        settings = load_settings(
            project, platform, environ={name: value for name, value in environ.items() if value}
        )
        request = EvalRequest(
            **{"tasks": "tasks.json", "config": Path("c.yaml"), "max_turns": 2, **changes}
        )
        async with aclosing(run_eval(request, settings)) as events:
            return [event async for event in events]

    return run


def job_of(events):
    return next(event for event in events if isinstance(event, EvalPrepared)).job


def warnings_of(events):
    return [
        event.message
        for event in events
        if isinstance(event, Notice) and event.severity == "warning"
    ]


def told(stub):
    """The requests, as path below the stub's address and body."""
    return [(request["path"].removeprefix("/v1"), request["body"]) for request in stub.requests]


@pytest.mark.parametrize("platform", [HUD, BUCKEYE], ids=lambda platform: platform.name)
async def test_a_job_with_a_trace_for_each_episode_as_the_seeds_spell_it(
    play, stub, project, platform
):
    events = await play(platform, group=2, out_dir=Path("out"))
    assert isinstance(events[-1], EvalFinished) and warnings_of(events) == []
    job = job_of(events)
    assert job.name == "2048 Training Run" and uuid.UUID(job.id)
    assert job.url == (f"https://hud.ai/jobs/{job.id}" if platform is HUD else None)
    assert read_job(project / "out" / "job.json") == job

    sent = told(stub)
    assert {request["headers"]["Authorization"] for request in stub.requests} == {f"Bearer {KEY}"}
    (first, began), *others, (last, ended) = sent
    assert first == last == f"/jobs/{job.id}/status"
    assert (began["status"], ended["status"]) == ("running", "completed")
    assert began["name"] == job.name
    expected = {"dataset": "hud-evals/2048-taskset", "policy": "greedy", "tasks": 2, "group": 2}
    assert expected.items() <= began["metadata"].items()
    traces = list(read_trace(project / "out" / "traces.jsonl"))
    assert {episode.info["job"] for episode in traces} == {job.id} and len(
        {episode.info["trace"] for episode in traces}
    ) == 4
    for episode in traces:
        number = episode.info["trace"]
        mine = [(path, body) for path, body in others if number in path]
        assert [path for path, _ in mine] == [
            f"/trace/{number}/status",
            f"/trace/{number}/telemetry-upload",
            f"/trace/{number}/status",
        ]
        (_, begun), (_, uploaded), (_, over) = mine
        assert (begun["status"], begun["job_id"], begun["task_id"]) == (
            "running",
            job.id,
            episode.task_id,
        )
        assert (over["status"], over["metadata"]["reward"]) == ("completed", episode.scores.reward)
        assert over["metadata"]["agent_steps"] == over["metadata"]["mcp_tool_steps"] == 2
        root, *spans = uploaded["telemetry"]
        assert [span["attributes"]["category"] for span in spans] == [
            "agent",
            "mcp",
            "agent",
            "mcp",
        ]
        for span in (root, *spans):
            assert (
                re.fullmatch(r"[0-9a-f]{32}", span["trace_id"])
                and span["trace_id"] == uuid.UUID(number).hex
            )
            assert (
                re.fullmatch(r"[0-9a-f]{16}", span["span_id"])
                and span["start_time"] <= span["end_time"]
            )
            assert span["attributes"]["task_run_id"] == number and span["status_code"] == "OK"
        assert root["parent_span_id"] is None and {span["parent_span_id"] for span in spans} == {
            root["span_id"]
        }
        assert spans[0]["attributes"]["result"]["content"] == episode.turns[0].reply
        assert spans[1]["attributes"]["request"] == {
            "method": "tools/call",
            "params": {"name": "move", "arguments": dict(episode.turns[0].call["arguments"])},
        }
        assert spans[1]["attributes"]["result"] == {
            "content": episode.turns[0].observation,
            "isError": False,
        }
        assert [m["role"] for m in root["attributes"]["request"]["messages"]] == ["system", "user"]
    assert len(others) == 12


async def test_the_spelling_of_today_s_service(play, stub, project):
    events = await play(environ={"HUD_API_URL": f"{stub.url}/api"}, out_dir=Path("out"), group=2)
    job, sent = job_of(events), told(stub)
    assert sent[0] == (f"/api/v2/trace/job/{job.id}/enter", {"name": job.name, "group": 2})
    groups = set()
    for episode in read_trace(project / "out" / "traces.jsonl"):
        number = episode.info["trace"]
        (first, entered), (second, uploaded), (third, left) = [
            (path, body) for path, body in sent if number in path
        ]
        assert (first, third) == (f"/api/v2/trace/{number}/enter", f"/api/v2/trace/{number}/exit")
        assert second == f"/trace/{number}/telemetry-upload" and set(uploaded) == {"telemetry"}
        assert (entered["job_id"], entered["task_slug"], entered["model"]) == (
            job.id,
            episode.task_id,
            "greedy",
        )
        groups.add((episode.task_id, entered["group_id"]))
        assert (left["status"], left["reward"], left["stop_reason"]) == (
            "completed",
            episode.scores.reward,
            "max_turns",
        )
        assert left["evaluation_result"] == episode.evaluation and "error" not in left
        for span in uploaded["telemetry"]:
            assert span["attributes"]["hud.task_run_id"] == number and span["kind"] == "INTERNAL"
            assert [event["name"] for event in span["events"]] == ["request", "result"]
    assert len(groups) == 2  # the rollouts of a task are a group
    assert len(sent) == 13


@pytest.mark.parametrize(
    ("platform", "environ", "config", "words"),
    [
        (HUD, {"HUD_API_KEY": ""}, CONFIG, None),
        (HUD, {"HUD_TELEMETRY_ENABLED": "false"}, CONFIG, None),
        (BUCKEYE, {"BUCKEYE_TELEMETRY_ENABLED": "no"}, CONFIG, None),
        (BUCKEYE, {"BUCKEYE_TELEMETRY_URL": ""}, CONFIG, None),
        (HUD, {}, "system_prompt" + CONFIG.partition("system_prompt")[2], None),
        (
            HUD,
            {"HUD_TELEMETRY_ENABLED": "perhaps"},
            CONFIG,
            "HUD_TELEMETRY_ENABLED: this is neither true nor false",
        ),
        (
            HUD,
            {"HUD_TELEMETRY_URL": "http://telemetry.example/api"},
            CONFIG,
            "http://telemetry.example/api is not https",
        ),
        (
            HUD,
            {"HUD_API_KEY": "two words"},
            CONFIG,
            "HUD_API_KEY: a key is one word of ASCII letters, digits and signs; character 4 is not "
            "one of them",
        ),
        (
            HUD,
            {"HUD_API_KEY": "your-hud-api-key"},
            CONFIG,
            "HUD_API_KEY: this is the placeholder of an example, not a key",
        ),
    ],
)
async def test_when_it_is_off(play, stub, project, platform, environ, config, words):
    Path("c.yaml").write_text(config)
    events = await play(platform, environ, out_dir=Path("out"))
    assert (
        stub.requests == []
        and job_of(events) is None
        and not (project / "out" / "job.json").exists()
    )
    assert (
        [f"telemetry is off: {words}"] == warnings_of(events)
        if words
        else warnings_of(events) == []
    )
    assert events[-1].summary.failed == 0


async def test_a_key_goes_to_the_address_that_its_owner_set_and_to_no_other(
    play, stub, project, monkeypatch
):
    """With the telemetry's address moved, the platform's own API is not told either."""
    assert warnings_of(await play()) == []
    assert {path.split("/")[1] for path, _ in told(stub)} == {"jobs", "trace"}
    stub.requests.clear()
    monkeypatch.delenv("HUDTUI_TRUST")
    (project / ".env").write_text(
        f"HUD_TELEMETRY_URL={stub.url}\n"
    )  # a folder's word alone moves nothing
    settings = load_settings(
        project, HUD, environ={"HUD_API_KEY": KEY, "HUD_TELEMETRY_ENABLED": "true"}
    )
    assert settings.withheld and settings.url("telemetry") == HUD.urls["telemetry"]


@pytest.mark.parametrize("secure", ["telemetry", "api"])
async def test_the_key_goes_over_no_tls_that_nobody_checked(play, stub, tmp_path, secure):
    """Two addresses, one of them on this machine without TLS: the other one's certificate counts
    all the same."""
    files = tls.write(tls.certificate("itself"), tmp_path, "itself")
    async with tls.relayed(stub.url.removeprefix("http://").partition("/")[0], files) as relay:
        services = {"telemetry": stub.url, "api": stub.url, secure: f"https://{relay}/secure"}
        events = await play(environ={HUD.url_variable(name): url for name, url in services.items()})
    assert "its certificate is not trusted" in warnings_of(events)[0]
    assert not [request for request in stub.requests if request["path"].startswith("/secure")]


async def test_the_folder_of_spans_needs_no_key(play, stub, project, tmp_path):
    spans = tmp_path / "spans"
    events = await play(
        environ={"HUD_API_KEY": "", "HUD_TELEMETRY_LOCAL_DIR": str(spans)}, out_dir=Path("out")
    )
    assert stub.requests == [] and job_of(events).url is None
    found = {
        file.name: [json.loads(line) for line in file.read_text().splitlines()]
        for file in spans.iterdir()
    }
    traces = list(read_trace(project / "out" / "traces.jsonl"))
    assert set(found) == {f"{uuid.UUID(episode.info['trace']).hex}.jsonl" for episode in traces}
    assert all(len(lines) == 5 for lines in found.values())


async def test_no_secret_is_sent_or_written(play, stub, project, tmp_path):
    Path("c.yaml").write_text(CONFIG.replace("hud-evals/2048-taskset", f"{KEY} {SECRET}"))
    environ = {
        "HUD_TELEMETRY_LOCAL_DIR": str(tmp_path / "spans"),
        "OPENAI_API_KEY": "sk-openai-99999999",
    }
    Path("tasks.json").write_text(
        json.dumps([{**RECORD, "prompt": f"{SECRET} sk-openai-99999999"}])
    )
    await play(environ=environ)
    sent = json.dumps([body for path, body in told(stub) if "/trace/" in path])
    written = "".join(file.read_text() for file in (tmp_path / "spans").iterdir())
    for text in (sent, written):
        assert text and "********" in text
        assert not any(secret in text for secret in (SECRET, KEY, "sk-openai-99999999"))
    assert KEY not in json.dumps(told(stub)[0][1])


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((500, "oops"), "500 oops"),
        ((403, {"detail": f"no such key {KEY}"}), "403 no such key •+"),
        (None, "disconnected"),
        ((302, "", {"Location": "http://127.0.0.1:9/"}), "302"),
    ],
)
async def test_a_service_that_fails_is_told_of_once_and_then_left_alone(play, stub, answer, words):
    stub.answers = [answer]
    events = await play(group=2)
    finished = events[-1].summary
    assert len(finished.outcomes) == 4 and finished.failed == 0
    (warning,) = warnings_of(events)
    assert (
        re.search(words, warning)
        and "the episodes continue without it" in warning
        and KEY not in warning
    )
    again = 2 if answer is None or answer[0] == 500 else 1
    assert len(stub.requests) <= 3 * again


async def test_nothing_listens_there(play):
    events = await play(environ={"HUD_TELEMETRY_URL": "http://127.0.0.1:9/api"})
    (warning,) = warnings_of(events)
    assert (
        "telemetry: traces cannot be sent to http://127.0.0.1:9/api (nothing answers there)"
        in warning
    )
    assert events[-1].summary.failed == 0


async def test_a_refusal_that_passes_costs_nothing(play, stub):
    stub.answers = [(401, {}), (200, {})]
    assert warnings_of(await play()) == []
    assert len([path for path, _ in told(stub) if path.startswith("/jobs/")]) == 3


def an_episode():
    return Episode(
        "t", (), (), Scores(1, 1, 1, 1, True), "done", started_at="2026-11-23T10:00:00+00:00"
    )


def opened(folder, **environ):
    config, _ = parse_config(CONFIG, name="c.yaml")
    settings = load_settings(folder, HUD, environ={"HUD_API_KEY": KEY, **environ})
    telemetry = open_telemetry(config, settings, folder)
    assert isinstance(telemetry, Telemetry)
    return telemetry


def test_a_service_that_hangs_holds_nothing_up(stub, own_world):
    stuck, before = threading.Event(), set(threading.enumerate())
    stub.answers = [lambda body: stuck.wait(60) and (200, {})]
    try:
        telemetry = opened(own_world, HUD_TELEMETRY_URL=stub.url)
        assert stub.arrived.wait(30)
        for _ in range(2_000):  # none of them waits, and what waits is bounded
            telemetry.end(telemetry.begin("t", "m"), an_episode())
        assert telemetry.warnings() == [
            f"telemetry: {stub.url} is too slow; some episodes are not sent"
        ]
        telemetry.close(within=0.1)
        assert telemetry.warnings() == [
            f"telemetry: {stub.url} is too slow; not everything was sent"
        ]
        assert len(stub.requests) == 1
        fresh = set(threading.enumerate()) - before
        (sender,) = (one for one in fresh if "telemetry" in one.name)
    finally:
        stuck.set()
    sender.join(30)
    assert not sender.is_alive(), "what it had in hand was the last"


def test_closing_sends_what_waits(stub, own_world):
    stub.answers = [(200, {})]
    telemetry = opened(own_world, HUD_TELEMETRY_URL=stub.url)
    for _ in range(20):
        telemetry.end(telemetry.begin("t", "m"), an_episode())
    telemetry.close("failed", within=60)
    assert len(stub.requests) == 62 and telemetry.warnings() == []
    assert told(stub)[-1][1]["status"] == "failed"


async def test_a_resumed_evaluation_goes_on_with_its_job(play, stub, project):
    first = job_of(await play(out_dir=Path("out")))
    second = job_of(await play(out_dir=Path("out"), resume=True, group=2))
    assert first == second
    assert (
        len({body["name"] for path, body in told(stub) if path == f"/jobs/{first.id}/status"}) == 1
    )


async def test_a_folder_that_holds_an_evaluation_begins_no_job(play, stub, project):
    job = job_of(await play(out_dir=Path("out")))
    stub.requests.clear()
    with pytest.raises(Exception, match="holds an evaluation already"):
        await play(out_dir=Path("out"))
    assert stub.requests == [] and read_job(project / "out" / "job.json") == job


async def test_an_episode_that_broke_off_is_an_error_of_its_trace(play, stub, project):
    broken = {**RECORD, "id": "broken", "mcp_config": {"env": {"command": "/nowhere/at-all"}}}
    Path("tasks.json").write_text(json.dumps([RECORD, broken]))
    events = await play(concurrency=1)
    (lost,) = [
        event.episode for event in events if isinstance(event, EpisodeDone) and not event.episode.ok
    ]
    over = [body for path, body in told(stub) if lost.info["trace"] in path][-1]
    assert over["status"] == "error" and over["error_message"] == lost.error


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"id": 1, "name": "x", "url": null}', '{"id": "x"}']
)
def test_a_damaged_job_is_none(tmp_path, text):
    (tmp_path / "job.json").write_text(text)
    assert read_job(tmp_path / "job.json") is None
    assert read_job(tmp_path / "none.json") is None


@pytest.mark.parametrize("number", ["../../keys", "a/b", "a?b=c", "", "a" * 101])
def test_a_job_whose_id_would_lead_to_another_address_counts_as_none(
    tmp_path: Path, number: str
) -> None:
    (tmp_path / "job.json").write_text(json.dumps({"id": number, "name": "n", "url": None}))
    assert read_job(tmp_path / "job.json") is None


def test_a_platform_of_one_s_own(own_world, stub):
    (own_world / ".hudtui" / "platforms").mkdir(parents=True)
    (own_world / ".hudtui" / "platforms" / "acme.yaml").write_text("title: Acme\n")
    acme = find_platform("acme", own_world)
    config, _ = parse_config(CONFIG, name="c.yaml")
    settings = load_settings(
        own_world, acme, environ={"ACME_API_KEY": KEY, "ACME_TELEMETRY_URL": stub.url}
    )
    stub.answers = [(200, {})]
    telemetry = open_telemetry(config, settings, own_world)
    assert isinstance(telemetry, Telemetry)
    telemetry.close(within=30)
    assert [body["status"] for _, body in told(stub)] == ["running", "completed"]


def sent_to(stub):
    return [(path, body.get("status")) for path, body in told(stub)]


def as_one_job(job, trace, *, over):
    return [
        (f"/jobs/{job}/status", "running"),
        (f"/trace/{trace}/status", "running"),
        (f"/trace/{trace}/telemetry-upload", None),
        (f"/trace/{trace}/status", "completed"),
        (f"/jobs/{job}/status", over),
    ]


@pytest.fixture
def told_by_keys(project, stub, monkeypatch):
    stub.answers = [(200, {})]
    monkeypatch.setenv("HUD_API_KEY", KEY)
    monkeypatch.setenv("HUD_TELEMETRY_URL", stub.url)
    return Project(project, HUD)


async def test_an_episode_that_is_played_is_a_job_of_its_own(told_by_keys, stub):
    request = PlayRequest("tasks.json", Path("c.yaml"), policy="greedy", max_turns=2)
    async with aclosing((await prepare_playing(told_by_keys, request)).play()) as events:
        found = [event async for event in events]
    (kept,) = read_trace(found[-1].file)
    assert sent_to(stub) == as_one_job(kept.info["job"], kept.info["trace"], over="completed")
    stub.requests.clear()
    async with aclosing((await prepare_playing(told_by_keys, request)).play()) as events:
        async for event in events:
            if isinstance(event, PlayedTurn):
                break
    assert sent_to(stub)[-1][1] == "failed", "it was broken off"
    assert not list(told_by_keys.folder.glob("**/job.json"))


async def test_serving_is_one_job_with_a_trace_for_each_episode(told_by_keys, stub):
    request = ServeRequest(
        config=Path("c.yaml"), tasks="tasks.json", port=0, open=True, out_dir=Path("out")
    )
    async with aclosing(serve_environment(request, told_by_keys.settings())) as events:
        serving = await anext(event async for event in events if isinstance(event, Serving))
        async with connected(serving.url) as client:
            await client.reset()
            await client.call("done")
        await anext(event async for event in events if isinstance(event, EpisodeDone))
    (kept,) = read_trace(Path("out", "traces.jsonl"))
    assert kept.info["job"] == serving.job.id == read_job(Path("out", "job.json")).id
    assert sent_to(stub) == as_one_job(serving.job.id, kept.info["trace"], over="completed")
