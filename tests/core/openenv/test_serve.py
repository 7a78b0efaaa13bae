"""The OpenEnv server, asked over its own wire: what it plays, whom it refuses, and that nothing
outlives its client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys

import httpx2
import pytest
from httpx2.websockets import WebSocketUpgradeError
from support.games import generous
from support.openenv_client import code, connected
from support.played import play
from support.waiting import eventually

from hudtui.core.environment.values import ContentBlock, Tool, ToolResult
from hudtui.core.errors import ConnectError, InputError
from hudtui.core.events import Notice
from hudtui.core.flows.serve import Serving, serve_environment
from hudtui.core.gym.config import load_config
from hudtui.core.gym.values import GymConfig
from hudtui.core.openenv.app import Access, OpenEnvApp
from hudtui.core.openenv.listen import listening
from hudtui.core.openenv.options import ServeRequest
from hudtui.core.openenv.session import ServedTasks
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import EpisodeDone, connector
from hudtui.core.rollouts.policy import ReplayPolicy
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.settings import load_settings
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.task import Task, ToolCall

CONFIG = (
    "system_prompt: Build a tile.\nexamples: [{user: A board., assistant: <tool>left()</tool>}]\n"
    "action_mappings:\n"
    + "".join(
        f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
        for name in ("left", "right", "up", "down")
    )
)
CLOCKWISE = [f"<think>on</think><tool>{name}()</tool>" for name in ("left", "up", "right", "down")]
REPLIES = [
    *CLOCKWISE,
    "no call at all",
    "<tool>left()</tool>",
    "<think>x</think><tool>jump()</tool>",
    *CLOCKWISE,
]
DONE = "<think>enough</think><tool>done()</tool>"


class World:
    """An environment in this process: it counts who is connected, and holds a call that is to take
    long."""

    def __init__(self):
        self.open = 0
        self.most = 0
        self.stuck = asyncio.Event()
        self.tools = {
            "poke": Tool(
                "poke", "Poke it", {"type": "object", "properties": {"where": {"type": "string"}}}
            ),
            "wait": Tool("wait", "Take long", {"type": "object"}),
            "die": Tool("die", "Break the connection", {"type": "object"}),
            "look": Tool("look", "See it", {"type": "object"}),
            "evaluate": Tool("evaluate", "", {"type": "object"}, "evaluate"),
        }

    @contextlib.asynccontextmanager
    async def connect(self, mcp_config):
        if mcp_config == "unreachable":
            raise ConnectError("nothing answers there", why="It is not up.")
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            yield self
        finally:
            await asyncio.sleep(0)  # closing takes a while
            self.open -= 1

    async def call_tool(self, name, arguments, *, timeout=None):
        if name == "wait":
            self.stuck.set()
            await asyncio.sleep(3600)
        if name == "die":
            raise ConnectError("the server died")
        if name == "look":
            return ToolResult(
                (
                    ContentBlock("image", data="QUJD", mime_type="image/png"),
                    ContentBlock("text", text="a square"),
                )
            )
        if name == "evaluate":
            return ToolResult((), {"reward": 0.5})
        return ToolResult((ContentBlock("text", text=f"poked {arguments.get('where')}"),))


TASKS = (
    Task("a", "Poke it.", evaluate=(ToolCall("evaluate"),)),
    Task("b", "Do not.", evaluate=(ToolCall("evaluate"),)),
    Task("gone", "", mcp_config="unreachable"),
)


@contextlib.asynccontextmanager
async def serving(world, *, token=None, **options):
    kinds = {name: options.pop(name) for name in ("most", "idle", "on_refusal") if name in options}
    app = OpenEnvApp(
        ServedTasks(TASKS, GymConfig(allow_unmapped=True), world.connect, **options),
        name="world",
        description="A world",
        access=Access(token),
        **kinds,
    )
    try:
        async with listening(app.asgi, "127.0.0.1", 0) as (address, port):
            yield f"http://{address}:{port}", app
    finally:
        await app.aclose()


# What is played


@pytest.fixture
async def game(own_world, serve_2048):
    """text-2048 served from files: the address, the settings, and the reward of given replies
    played here."""
    async with serve_2048() as url:
        records = [
            {
                "id": f"game {seed}",
                "prompt": "Play.",
                "mcp_config": {"env": {"url": url}},
                "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": seed}},
                "evaluate_tool": {
                    "name": "evaluate",
                    "arguments": {"name": "max_number", "target": 64},
                },
            }
            for seed in (1, 2, 3)
        ]
        (own_world / "c.yaml").write_text(CONFIG)
        (own_world / "tasks.json").write_text(json.dumps(records))
        settings = load_settings(own_world, HUD)
        request = ServeRequest(
            config=own_world / "c.yaml", tasks="tasks.json", port=0, out_dir=own_world / "out"
        )
        async with contextlib.aclosing(serve_environment(request, settings)) as events:
            async for event in events:
                if isinstance(event, Serving):
                    yield event, own_world
                    break


async def played_here(folder, index, replies):
    task = read_tasks(folder / "tasks.json").tasks[index]
    async with connector(None, folder, os.environ.get, timeout=60)(task.mcp_config) as session:
        return await play(session, load_config(folder / "c.yaml"), task, ReplayPolicy(replies))


async def test_a_served_episode_has_the_reward_of_one_played_here(game):
    server, folder = game
    assert server.actions == ("left", "right", "up", "down", "done") and server.tasks == 3
    here = await played_here(folder, 1, [*REPLIES, DONE])
    async with connected(server.url, Authorization=f"Bearer {server.token}") as client:
        first = await client.reset(task_id="game 2", episode_id="mine")
        assert first["reward"] is None and first["done"] is False
        shown = first["observation"]
        assert (shown["task_id"], shown["turn"], shown["system_prompt"]) == (
            "game 2",
            0,
            "Build a tile.",
        )
        assert shown["examples"] == [{"user": "A board.", "assistant": "<tool>left()</tool>"}]
        assert shown["text"] == here.messages[3]["content"]
        for number, reply in enumerate(REPLIES):
            answer = await client.say(reply)
            assert (answer["reward"], answer["done"]) == (0.0, False)
            assert answer["observation"]["text"] == here.turns[number].observation
            assert answer["observation"]["is_error"] == here.turns[number].is_error
        last = await client.say(DONE)
        assert last["done"] is True and last["reward"] == here.scores.reward
        assert last["metadata"]["scores"]["format_compliance"] == here.scores.format_compliance
        state = await client.ask("state")
        assert state == {
            "type": "state",
            "data": {
                "episode_id": "mine",
                "step_count": len(REPLIES) + 1,
                "task_id": "game 2",
                "done": True,
                "reward": last["reward"],
            },
        }
    (episode,) = read_trace(folder / "out" / "traces.jsonl")
    assert episode.scores.reward == last["reward"] and episode.info["episode_id"] == "mine"


async def test_calls_of_the_models_own_have_the_reward_of_complete_replies(game):
    server, folder = game
    here = await played_here(folder, 0, [*CLOCKWISE, DONE])
    async with connected(
        f"{server.url}/{server.token}"
    ) as client:  # the token as the first part of the path
        tools = (await client.step(type="list_tools"))["observation"][
            "tools"
        ]  # before the first reset, too
        assert [tool["name"] for tool in tools] == ["left", "right", "up", "down", "done"]
        assert tools[0]["input_schema"] == {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        }
        await client.reset(index=0)
        for name in ("left", "up"):
            answer = await client.call(name)
            assert answer["observation"]["result"]["data"] == answer["observation"]["text"]
        answer = await client.ask(
            "mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "right"}}
        )
        assert answer["data"]["result"]["content"][0]["text"] == here.turns[2].observation
        await client.call("down")
        last = await client.call("done")
        assert (last["done"], last["reward"]) == (True, here.scores.reward)


async def test_reset_chooses_by_id_index_and_seed_and_else_goes_on(game):
    server, _ = game
    async with connected(server.url, Authorization=f"Bearer {server.token}") as client:

        async def chosen(**wanted):
            return (await client.reset(**wanted))["observation"]["task_id"]

        assert [await chosen(), await chosen(), await chosen(), await chosen()] == [
            "game 1",
            "game 2",
            "game 3",
            "game 1",
        ]
        assert [await chosen(seed=seed) for seed in (0, 4, 4)] == ["game 1", "game 2", "game 2"]
        assert await chosen(index=2, unknown=1) == "game 3"
        refused = await client.ask("reset", {"task_id": "game 22"})
        assert (
            code(refused) == "VALIDATION_ERROR"
            and "did you mean game 2?" in refused["data"]["message"]
        )
        for wrong in (
            {"index": 3},
            {"index": -1},
            {"seed": True},
            {"seed": 1.5},
            {"task_id": 7},
            {"episode_id": "x" * 256},
        ):
            assert code(await client.ask("reset", wrong)) == "VALIDATION_ERROR"


async def test_a_reward_outside_its_range_is_told_once(own_world, monkeypatch):
    monkeypatch.setenv("HUDTUI_PYTHON", sys.executable)
    monkeypatch.setenv("HUDTUI_TRUST", str(own_world))
    (own_world / "tasks.json").write_text(json.dumps([generous("a"), generous("b")]))
    request = ServeRequest(tasks="tasks.json", port=0)
    warnings, ended = [], 0
    async with contextlib.aclosing(
        serve_environment(request, load_settings(own_world, HUD))
    ) as events:
        async for event in events:
            if isinstance(event, Serving):
                async with connected(event.url, Authorization=f"Bearer {event.token}") as client:
                    for _ in range(2):
                        await client.reset()
                        assert (await client.call("done"))["done"] is True
            elif isinstance(event, Notice):
                warnings.append(event.message)
            elif isinstance(event, EpisodeDone):
                ended += 1
            if ended == 2:
                break
    assert len([text for text in warnings if "the reward 12, outside 0 to 1" in text]) == 1


async def test_the_limit_of_turns_ends_an_episode_and_evaluates_it():
    world = World()
    async with serving(world, max_turns=2) as (url, _), connected(url) as client:
        await client.reset()
        assert (await client.call("poke", where="here"))["done"] is False
        last = await client.call("poke", where="there")
        assert (
            last["done"]
            and last["metadata"]["stop"] == "max_turns"
            and last["observation"]["text"] == "poked there"
        )
        assert last["reward"] == pytest.approx(0.8 * 0.5 + 0.1 + 0.1)
        assert code(await client.ask("step", {"reply": "more"})) == "EXECUTION_ERROR"
        again = await client.reset()
        assert again["observation"]["turn"] == 0 and world.open == 1 and world.most == 1


async def test_images_are_sent_where_they_are_wanted():
    for images in (True, False):
        async with serving(World(), images=images) as (url, _), connected(url) as client:
            await client.reset()
            shown = (await client.call("look"))["observation"]
            assert shown["images"] == (["data:image/png;base64,QUJD"] if images else [])
            assert "a square" in shown["text"] and ("not shown" in shown["text"]) != images


# What is refused


async def test_messages_that_mean_nothing_cost_themselves_alone():
    async with serving(World()) as (url, _), connected(url) as client:
        assert code(await client.raw("{")) == "INVALID_JSON"
        assert code(await client.raw("[1]")) == "INVALID_JSON"
        assert code(await client.raw('{"type": "step", "data": {"reply": NaN}}')) == "INVALID_JSON"
        assert code(await client.raw("[" * 100_000)) == "INVALID_JSON"
        assert code(await client.raw("[" + "0," * 1_100_000 + "0]")) == "INVALID_JSON"
        assert code(await client.ask("dance")) == "UNKNOWN_TYPE"
        assert code(await client.ask("step", {"reply": "before a reset"})) == "EXECUTION_ERROR"
        await client.reset()
        for wrong in (
            None,
            {},
            [],
            {"reply": 7},
            {"reply": "x", "more": 1},
            {"type": "call_tool"},
            {"type": "call_tool", "tool_name": "poke", "arguments": []},
            {"type": "dance"},
            {"reply": "x" * 1_000_001},
        ):
            assert (
                code(await client.raw(json.dumps({"type": "step", "data": wrong})))
                == "VALIDATION_ERROR"
            )
        assert (await client.ask("state"))["data"]["step_count"] == 0
        assert (await client.call("poke", where="here"))["observation"]["text"] == "poked here"
        refused = await client.call("evaluate")
        assert (
            refused["observation"]["is_error"]
            and "unknown action evaluate" in refused["observation"]["text"]
        )
        assert (await client.ask("mcp", {"method": "tools/list"}))["data"]["error"][
            "code"
        ] == -32600
        assert (await client.ask("mcp", {"jsonrpc": "2.0", "method": "initialize"}))["data"][
            "error"
        ]["code"] == -32601


async def test_only_who_has_the_token_gets_in_and_no_web_page():
    told: list[str] = []
    only_with_token = serving(
        World(), token="a-token-of-some-length", on_refusal=lambda code, _: told.append(code)
    )
    async with only_with_token as (url, app), httpx2.AsyncClient(trust_env=False) as web:
        good = {"Authorization": "Bearer a-token-of-some-length"}
        answers = [
            await web.get(f"{url}/health"),
            await web.get(f"{url}/health", headers={"Authorization": "Bearer another"}),
            await web.get(f"{url}/wrong/health"),
            await web.get(f"{url}/health", headers={**good, "Origin": "http://127.0.0.1"}),
            await web.get(f"{url}/health", headers={**good, "Host": "rebound.example"}),
            await web.get(f"{url}/a-token-of-some-length/health", headers={"Origin": "null"}),
            await web.get(f"{url}/health", headers=good),
            await web.get(f"{url}/a-token-of-some-length/health"),
        ]
        assert [answer.status_code for answer in answers] == [
            401,
            401,
            401,
            403,
            421,
            403,
            200,
            200,
        ]
        for headers in (
            {},
            {"Authorization": "Bearer another"},
            {**good, "Origin": "http://evil.example"},
        ):
            with pytest.raises(WebSocketUpgradeError):
                async with connected(url, **headers):
                    pass
        assert app.sessions == 0
        assert told == ["HTTP 401", "HTTP 403", "HTTP 421"]  # however many there are


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (ServeRequest(), "there is nothing to serve"),
        (
            ServeRequest(source="text-2048", host="0.0.0.0", open=True),
            "everybody who reaches 0.0.0.0",
        ),
        (ServeRequest(source="text-2048", token_variable="MY_TOKEN"), "cannot be a token"),
        (ServeRequest(source="text-2048", token_variable="NOT_SET"), "NOT_SET is not set"),
    ],
)
async def test_requests_that_cannot_be_served(own_world, monkeypatch, request_, words):
    monkeypatch.setenv("MY_TOKEN", "short")
    with pytest.raises(InputError, match=words):
        async for _ in serve_environment(request_, load_settings(own_world, HUD)):
            pass


async def test_a_taken_port_is_said(own_world):
    async with serving(World()) as (url, _):
        port = int(url.rpartition(":")[2])
        with pytest.raises(InputError, match="cannot be listened at"):
            async with listening(None, "127.0.0.1", port):
                pass


async def test_what_cannot_be_started_or_was_lost_has_no_reward():
    world = World()
    async with serving(world) as (url, _), connected(url) as client:
        refused = await client.ask("reset", {"task_id": "gone"})
        assert (
            code(refused) == "FACTORY_ERROR"
            and "nothing answers there; It is not up." in refused["data"]["message"]
        )
        await client.reset(task_id="a")
        lost = await client.ask("step", {"type": "call_tool", "tool_name": "die", "arguments": {}})
        assert code(lost) == "SESSION_ERROR" and "the server died" in lost["data"]["message"]
        assert (await client.ask("state"))["data"]["reward"] is None
        assert (await client.reset(task_id="a"))["observation"]["turn"] == 0
        assert world.open == 1


# What outlives nobody


async def test_sessions_end_with_their_clients_also_in_the_middle_of_a_call():
    world = World()
    async with serving(world) as (url, app):
        async with connected(url) as polite:
            await polite.reset()
            assert (world.open, app.sessions) == (1, 1)
            await polite._session.send_text('{"type": "close"}')
        await eventually(lambda: world.open == 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
        writer.write(
            b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        await reader.readuntil(b"\r\n\r\n")
        for message in (
            b'{"type":"reset","data":{}}',
            b'{"type":"step","data":{"type":"call_tool","tool_name":"wait"}}',
        ):
            writer.write(bytes([0x81, 0x80 | len(message)]) + bytes(4) + message)
        await world.stuck.wait()
        assert world.open == 1
        writer.transport.abort()  # as when the client's process is killed
        await eventually(lambda: world.open == 0 and app.sessions == 0)


async def test_the_end_of_the_server_ends_every_session():
    world = World()
    async with contextlib.AsyncExitStack() as stack:
        async with serving(world) as (url, _):
            clients = [await stack.enter_async_context(connected(url)) for _ in range(3)]
            for client in clients:
                await client.reset(index=0)
            async with httpx2.AsyncClient(trust_env=False) as web:
                await web.post(f"{url}/reset", json={"index": 0})
            assert world.open == 4
        assert world.open == 0


async def test_there_are_no_more_sessions_than_allowed():
    world = World()
    async with serving(world, most=2) as (url, app), connected(url) as one, connected(url) as two:
        await one.reset()
        await two.reset()
        async with connected(url) as third:
            refused = json.loads(await third._session.receive_text(timeout=30))
            assert code(refused) == "CAPACITY_REACHED" and refused["data"]["max_sessions"] == 2
        async with httpx2.AsyncClient(trust_env=False) as web:
            assert (await web.post(f"{url}/reset", json={})).status_code == 503
        assert (app.sessions, world.open) == (2, 2)


async def test_an_environment_is_kept_for_the_next_task_where_that_is_wanted():
    world = World()
    for reuse, expected in ((True, 1), (False, 3)):
        starts = 0

        def counted(config):
            nonlocal starts
            starts += 1
            return world.connect(config)

        app = OpenEnvApp(
            ServedTasks(TASKS[:2], GymConfig(allow_unmapped=True), counted, reuse=reuse),
            name="w",
            description="",
            access=Access(None),
        )
        async with (
            listening(app.asgi, "127.0.0.1", 0) as (address, port),
            connected(f"http://{address}:{port}") as client,
        ):
            for _ in range(3):
                await client.reset()
                await client.call("done")
        assert starts == expected and world.open == 0


async def test_a_connection_that_never_says_anything_ends():
    world = World()
    async with serving(world, idle=0.2) as (url, app), httpx2.AsyncClient(trust_env=False) as web:
        async with web.websocket(f"ws{url.removeprefix('http')}/ws"):
            await eventually(lambda: app.sessions == 1)
            await eventually(lambda: app.sessions == 0)
        async with web.websocket(f"ws{url.removeprefix('http')}/ws") as socket:
            await socket.send_text('{"type": "state"}')
            await socket.receive_text()
            async with web.websocket(f"ws{url.removeprefix('http')}/ws"):
                await eventually(lambda: app.sessions == 2)
                await eventually(lambda: app.sessions == 1)
            await socket.send_text('{"type": "state"}')
            assert await socket.receive_text(), "a client that has spoken may be silent for longer"


# Over HTTP


async def test_an_episode_over_http_ends_with_its_last_step_or_when_nobody_asks_any_more():
    world = World()
    async with (
        serving(world, idle=0.2) as (url, app),
        httpx2.AsyncClient(trust_env=False, base_url=url) as web,
    ):
        first = (await web.post("/reset", json={"index": 1})).json()
        name = first["metadata"]["episode_id"]
        step = {
            "episode_id": name,
            "action": {"type": "call_tool", "tool_name": "poke", "arguments": {"where": "x"}},
        }
        assert (await web.post("/step", json=step)).json()["observation"]["text"] == "poked x"
        assert (await web.get("/state", params={"episode_id": name})).json()["step_count"] == 1
        last = (
            await web.post("/step", json={"episode_id": name, "action": {"reply": DONE}})
        ).json()
        assert last["done"] and last["reward"] == pytest.approx(0.8 * 0.5 + 0.1 + 0.1)
        assert world.open == 0 and app.sessions == 0
        assert (await web.post("/step", json=step)).status_code == 422
        assert (await web.post("/step", json={"action": {"reply": "x"}})).status_code == 422
        assert (await web.post("/reset", content=b"x" * (5 << 20))).status_code == 422
        await web.post("/reset", json={"episode_id": "left alone"})
        assert world.open == 1
        await eventually(lambda: world.open == 0 and app.sessions == 0)


async def test_the_routes_that_describe_the_server():
    async with (
        serving(World()) as (url, _),
        httpx2.AsyncClient(trust_env=False, base_url=url) as web,
    ):
        about = (await web.get("/metadata")).json()
        assert (about["name"], about["description"]) == ("world", "A world")
        assert (await web.get("/health")).json() == {"status": "healthy"}
        schema = (await web.get("/schema")).json()
        assert schema["action"]["required"] == ["reply"] and set(schema) >= {
            "observation",
            "state",
            "reset_observation",
        }
        document = (await web.get("/openapi.json")).json()
        assert document["info"]["version"].startswith("1.") and {
            "/reset",
            "/step",
            "/state",
        } <= set(document["paths"])
        assert (await web.post("/mcp", json={})).json()["jsonrpc"] == "2.0"
        call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "poke"}}
        assert (await web.post("/mcp", json=call)).json()["error"]["code"] == -32000
        assert (await web.get("/list_environments")).json() == ["world"]
        assert (await web.get("/world/splits")).json() == [{"name": "train", "type": "train"}]
        assert (await web.post("/world/num_tasks", json={"split": "train"})).json() == {
            "num_tasks": 3
        }
        task = {"index": 1, "task_id": "b", "prompt": "Do not."}
        assert (await web.post("/world/task", json={"split": "train", "index": 1})).json() == {
            "task": task
        }
        ranged = (
            await web.post("/world/task_range", json={"split": "train", "start": 1, "stop": 2})
        ).json()
        assert ranged == {"tasks": [task]}
        assert (await web.post("/world/tasks", json={"split": "test"})).status_code == 422
        assert (await web.get("/other/splits")).status_code == 404
