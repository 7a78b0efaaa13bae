"""Analyses of live environments, of lock files and of HUD v6 addresses, and what is remembered of
them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hudtui.core.environment import cache
from hudtui.core.environment.discover import analysis_from_lock, analyze
from hudtui.core.environment.source import parse_source
from hudtui.core.environment.values import (
    Analysis,
    Prompt,
    Resource,
    Server,
    Tool,
    analysis_from_json,
)
from hudtui.core.errors import ConnectError, InputError, SourceError


async def test_text_2048():
    events = []
    found = await analyze(parse_source("text-2048"), on_event=events.append)
    assert found.server == Server("text-2048", "1.0.0")
    assert found.protocol == "2025-11-25"
    assert [(tool.name, tool.kind, tool.hub) for tool in found.tools] == [
        ("move", "agent", None),
        ("setup", "setup", None),
        ("evaluate", "evaluate", None),
        ("board", "hidden", "setup"),
        ("max_number", "hidden", "evaluate"),
        ("efficiency", "hidden", "evaluate"),
    ]
    assert found.hubs == {"setup": ("board",), "evaluate": ("max_number", "efficiency")}
    assert [tool.name for tool in found.agent_tools] == ["move"]
    assert found.resources[0] == Resource(
        "file:///setup/functions",
        "setup functions",
        "The functions that the hub tool `setup` can call",
        "application/json",
    )
    assert set(found.timings) == {"connect", "list"}
    assert found.warnings == ()
    assert "2048" in found.instructions
    assert datetime.fromisoformat(found.analyzed_at).tzinfo is not None
    assert [event.stage for event in events] == ["connect", "tools", "list", "done"]
    assert analysis_from_json(json.loads(json.dumps(found.to_json()))) == found


async def test_server_everything(everything):
    found = await analyze(parse_source(None, ["node", str(everything)]))
    assert {tool.kind for tool in found.tools} == {"agent"}
    assert len(found.tools) >= 10
    assert any("{" in resource.uri for resource in found.resources), (
        "templates are among the resources"
    )
    assert "args-prompt" in {prompt.name for prompt in found.prompts}
    assert next(prompt for prompt in found.prompts if prompt.name == "args-prompt").arguments == (
        "city",
        "state",
    )


async def test_kinds_and_hubs(odd):
    found = await analyze(parse_source(None, odd("lifecycle")))
    assert {(tool.name, tool.kind, tool.hub) for tool in found.tools} == {
        ("setup", "setup", None),
        ("evaluate", "evaluate", None),
        ("response", "lifecycle", None),
        ("int_a", "hidden", "setup"),
        ("int_other", "agent", None),
        ("good", "agent", None),
        ("b", "hidden", "setup"),
        ("score", "hidden", "evaluate"),
        ("speed", "hidden", "evaluate"),
    }
    assert found.hubs == {"setup": ("a", "b"), "evaluate": ("score", "speed")}
    assert any("resource 2 has no address" in warning for warning in found.warnings)


async def test_stray_output_is_a_warning(odd):
    found = await analyze(parse_source(None, odd("junk")))
    assert any(
        "writes other text to standard output" in warning and "Loading layer 0" in warning
        for warning in found.warnings
    )


async def test_ten_thousand_tools_are_kept_and_read_back_in_linear_time(odd, tmp_path):
    async def spent(count):
        source = parse_source(None, odd("many", count), folder=tmp_path)
        found = await analyze(source)
        assert len(found.tools) == count
        began = time.process_time()
        cache.save_analysis(source, found)
        assert cache.load_analysis(source) == found
        return time.process_time() - began

    few = await spent(2_500)
    assert await spent(10_000) < 10 * few, (
        "4 times as many tools take 16 times as long where each looks at all others"
    )


async def test_several_servers():
    server = {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
    found = await analyze(parse_source(json.dumps({"one": server, "two": server})))
    assert found.server == Server("text-2048, text-2048", "1.0.0, 1.0.0")
    assert found.protocol == "2025-11-25"
    assert {"move", "two_move"} <= {tool.name for tool in found.tools}
    assert len(found.resources) == 4


async def test_a_container_is_a_real_session_through_the_engine(tmp_path, monkeypatch):
    """A stand-in for docker that checks how it is called, and then is the container."""
    log = tmp_path / "calls"
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"open({str(log)!r}, 'a').write(json.dumps([sys.argv[1:], os.environ.get('HUD_API_KEY')]) "
        "+ '\\n')\n"
        f"os.execv({sys.executable!r}, [{sys.executable!r}, '-m', 'hudtui.envs.text_2048'])\n"
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{docker.parent}:{os.environ['PATH']}")
    source = parse_source(
        "org/text-2048:1.0", env={"HUD_API_KEY": None}, lookup={"HUD_API_KEY": "sk-very-secret"}.get
    )
    found = await analyze(source)
    assert found.image == "org/text-2048:1.0"
    assert "move" in {tool.name for tool in found.tools}
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    ((argv, key),) = [
        call for call in calls if call[0][0] != "version"
    ]  # which asks whether the engine answers
    assert argv[0] == "run"
    assert [word for word in argv if not word.startswith("hudtui-") and word != "--name"] == [
        *("run", "--rm", "-i", "-e", "HUD_API_KEY", "org/text-2048:1.0")
    ]
    assert key == "sk-very-secret"


async def test_a_container_that_must_be_killed_is_removed(tmp_path, monkeypatch, odd, marker):
    log = tmp_path / "calls"
    engine = tmp_path / "podman"
    program = " ".join(odd("stubborn", marker.word))
    engine.write_text(f'#!/bin/sh\necho "$@" >> {log}\ncase $1 in run) exec {program};; esac\n')
    engine.chmod(0o755)
    monkeypatch.setenv("HUDTUI_ENGINE", str(engine))
    with pytest.raises(ConnectError, match="gave no answer"):
        await analyze(parse_source("org/env:1"), timeout=1.0)
    async with asyncio.timeout(10):
        while len(log.read_text().splitlines()) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    run, remove = (line.split() for line in log.read_text().splitlines())
    assert remove == ["rm", "-f", "-v", run[run.index("--name") + 1]]


async def test_an_image_that_is_still_being_fetched(tmp_path, monkeypatch):
    engine = tmp_path / "docker"
    engine.write_text(
        "#!/bin/sh\necho \"Unable to find image 'org/env:1' locally\" >&2\nexec sleep 60\n"
    )
    engine.chmod(0o755)
    monkeypatch.setenv("HUDTUI_ENGINE", str(engine))
    with pytest.raises(ConnectError) as caught:
        await analyze(parse_source("org/env:1"), timeout=1.0)
    assert f"{engine} pull org/env:1" in caught.value.fix


async def test_no_engine(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="no container engine on this machine") as caught:
        await analyze(parse_source("org/env:1"))
    assert "ssh user@host docker run" in caught.value.fix


async def test_the_last_words_of_a_program_say_why_it_ended():
    said = "docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock."
    code = f"import sys; sys.exit({said!r})"
    with pytest.raises(ConnectError) as caught:
        await analyze(parse_source(None, [sys.executable, "-c", code]))
    assert said in caught.value.why
    assert "Try it yourself" in caught.value.fix


# Lock files.

LOCK = """\
version: "{version}"
{image}
build: {{version: 0.3.1}}
environment:
  initializeMs: 2500
tools:
  - name: move
    description: Move the tiles
    inputSchema: {{type: object, properties: {{direction: {{type: string}}}}}}
  - name: setup
    description: Old style
    {internal}
"""


@pytest.mark.parametrize(
    ("version", "image", "internal"),
    [
        ("1.0", "image: org/env:1@sha256:" + "b" * 64, ""),
        (
            "1.1",
            "images: {local: a:dev, full: org/env:1@sha256:" + "b" * 64 + ", pushed: null}",
            "",
        ),
        (
            "1.3",
            "images: {local: a:dev, full: x/y:1, pushed: org/env:1@sha256:" + "b" * 64 + "}",
            "internalTools: [board]",
        ),
    ],
)
async def test_locks_are_read_offline(tmp_path, version, image, internal):
    (tmp_path / "hud.lock.yaml").write_text(
        LOCK.format(version=version, image=image, internal=internal)
    )
    source = parse_source(str(tmp_path))
    found = await analyze(source, live=False)
    assert found == analysis_from_lock(source)
    assert found.image == "org/env:1@sha256:" + "b" * 64
    assert found.server.version == "0.3.1"
    assert found.protocol is None
    assert found.analyzed_at is None
    assert found.timings == {"connect": 2.5}
    names = [(tool.name, tool.kind) for tool in found.tools]
    assert names[:2] == [("move", "agent"), ("setup", "setup")]
    assert (("board", "hidden") in names) == bool(internal)
    assert "the tool setup has no input schema" in found.warnings


async def test_a_lock_of_tasks(tmp_path):
    (tmp_path / "hud.lock.yaml").write_text(
        "version: '2.0'\nimages: {full: a/b:1}\ntasks:\n- {id: play, description: Play}\n"
    )
    found = await analyze(parse_source(str(tmp_path)), live=False)
    assert found.tools == ()
    assert found.prompts == (Prompt("play", "Play"),)
    assert any("lists no tools" in warning for warning in found.warnings)


async def test_a_lock_without_an_image_is_read_even_when_a_live_look_is_asked(tmp_path):
    (tmp_path / "hud.lock.yaml").write_text("version: '1.0'\ntools: [{name: a}]\n")
    found = await analyze(parse_source(str(tmp_path)), live=True)
    assert [tool.name for tool in found.tools] == ["a"]


# HUD v6.


async def v6(answers, *, first=b""):
    async def serve(reader, writer):
        writer.write(first)
        while line := await reader.readline():
            request = json.loads(line)
            answer = answers.get(
                request["method"], {"error": {"code": -32601, "message": "unknown"}}
            )
            if answer is None:
                break
            writer.write(b'{"jsonrpc": "2.0", "method": "event"}\n')
            writer.write(
                json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode() + b"\n"
            )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_v6():
    hello = {
        "session_id": "x",
        "env": {"name": "2048", "version": "2"},
        "bindings": [{"kind": "ssh"}, "mcp"],
    }
    tasks = [
        {"id": "play", "description": "Play", "args": {"properties": {"seed": {}, "size": {}}}},
        {"description": "?"},
    ]
    server, address = await v6(
        {"hello": {"result": hello}, "tasks.list": {"result": {"tasks": tasks}}}
    )
    async with server:
        found = await analyze(parse_source(address))
    assert (found.protocol, found.server, found.tools) == ("hud-v6", Server("2048", "2"), ())
    assert found.prompts == (Prompt("play", "Play", ("seed", "size")),)
    assert "ssh, mcp" in found.warnings[1]
    assert "task 2 has no id" in found.warnings[2]
    assert set(found.timings) == {"connect", "list"}


@pytest.mark.parametrize(
    ("answers", "first", "words"),
    [
        ({"hello": None}, b"", "closed the connection when asked for hello"),
        ({}, b"", "refused hello"),
        ({}, b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak HUD's control protocol"),
        ({}, b"[1]\n", "does not speak HUD's control protocol"),
    ],
)
async def test_v6_addresses_that_are_none(answers, first, words):
    server, address = await v6(answers, first=first)
    async with server:
        with pytest.raises(ConnectError, match=words):
            await analyze(parse_source(address))


async def test_v6_that_is_not_there_or_hangs():
    with pytest.raises(ConnectError, match=r"nothing answers at tcp://127\.0\.0\.1:9"):
        await analyze(parse_source("tcp://127.0.0.1:9"))

    async def hang(reader, writer):
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        address = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectError, match="gave no answer within"):
            await analyze(parse_source(address), timeout=0.3)


async def test_v6_cannot_be_played():
    from hudtui.core.environment.client import connect

    with pytest.raises(SourceError, match="has tasks, not MCP tools"):
        async with connect(parse_source("tcp://127.0.0.1:9")):
            pass


# The cache.

FOUND = Analysis(
    "text-2048",
    Server("s", "1"),
    "2025-11-25",
    (Tool("a", "b", {"type": "object"}), Tool("c", "", None, "hidden", "h")),
    {"h": ("c",)},
    (Resource("u", "n", "d", None),),
    (Prompt("p", "d", ("x",)),),
    {"connect": 1.5},
    ("w",),
    "i",
    "org/env:1",
    "2026-01-01T00:00:00+00:00",
)


def test_what_is_stored_comes_back(tmp_path):
    source = parse_source("text-2048", folder=tmp_path)
    assert cache.load_analysis(source) is None
    cache.save_analysis(source, FOUND)
    assert cache.load_analysis(source) == FOUND
    assert cache.load_analysis(parse_source("org/env:1", folder=tmp_path)) is None
    assert (tmp_path / ".hudtui" / ".gitignore").exists()


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": 1}', "\x00", '{"format": 99}'])
def test_a_damaged_cache_counts_as_none(tmp_path, damage):
    source = parse_source("text-2048", folder=tmp_path)
    cache.save_analysis(source, FOUND)
    (file,) = (tmp_path / ".hudtui" / "analyses").iterdir()
    file.write_text(damage)
    assert cache.load_analysis(source) is None


def test_a_cache_of_another_shape_counts_as_none(tmp_path):
    source = parse_source("text-2048", folder=tmp_path)
    cache.save_analysis(source, FOUND)
    (file,) = (tmp_path / ".hudtui" / "analyses").iterdir()
    data = json.loads(file.read_text())
    for field in ("tools", "server", "resources"):
        file.write_text(json.dumps({**data, "analysis": {**data["analysis"], field: [5]}}))
        assert cache.load_analysis(source) is None


def test_a_workspace_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / ".hudtui").write_text("in the way")
    with pytest.raises(InputError):
        cache.save_analysis(parse_source("text-2048", folder=tmp_path), FOUND)


async def test_no_secret_is_stored(tmp_path):
    """A server that repeats its key everywhere it can."""
    secret = "sk-repeated-by-the-server"
    code = (
        "import json, os, sys\n"
        "key = os.environ['MY_API_KEY']\n"
        "tool = {'name': 't', 'description': key, 'inputSchema': {'type': 'object', 'properties': "
        "{key: {'default': key}}}}\n"
        "info = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}, 'resources': {}}, "
        "'serverInfo': {'name': 's', 'version': '1'}, 'instructions': key}\n"
        "answers = {'initialize': info, 'tools/list': {'tools': [tool]}, 'resources/list': "
        "{'resources': [{'uri': 'http://h/' + key, 'name': key}]}, 'resources/templates/list': "
        "{}}\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line)\n"
        "    if 'id' in m: print(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': "
        "answers[m['method']]}), flush=True)\n"
    )
    config = {
        "s": {"command": sys.executable, "args": ["-c", code], "env": {"MY_API_KEY": "$MY_API_KEY"}}
    }
    source = parse_source(json.dumps(config), folder=tmp_path, lookup={"MY_API_KEY": secret}.get)
    found = await analyze(source)
    cache.save_analysis(source, found)
    (file,) = (tmp_path / ".hudtui" / "analyses").iterdir()
    assert secret not in file.read_text()
    assert secret not in repr(source)
    assert found.tools[0].description == "***"


def test_ages():
    now = datetime(2026, 1, 3, tzinfo=UTC)
    assert cache.analysis_age(FOUND, now) == 2 * 86400
    assert cache.analysis_age(replace(FOUND, analyzed_at=None), now) is None
    assert cache.analysis_age(replace(FOUND, analyzed_at="yesterday"), now) is None
    assert cache.analysis_age(replace(FOUND, analyzed_at="2026-01-02T23:59:00"), now) == 60
    assert cache.analysis_age(FOUND, now - timedelta(days=9)) == 0
    words = [cache.age_text(seconds) for seconds in (None, 5, 60, 7200, 90000, 200000)]
    assert words == [
        "some time ago",
        "just now",
        "1 minute ago",
        "2 hours ago",
        "1 day ago",
        "2 days ago",
    ]


@pytest.mark.parametrize(
    "data",
    [{}, {"source": "x"}, {**FOUND.to_json(), "tools": [{}]}, {**FOUND.to_json(), "hubs": 5}],
)
def test_what_is_no_analysis(data):
    with pytest.raises(ValueError, match="not an analysis"):
        analysis_from_json(data)
