"""What `hudtui env serve` costs beside bare MCP sessions of the same environment, and beside the
least that a server can do.

    python tests/bench/serve.py [--rounds 5] [--turns 30] [--sessions 64] [--only stdio|HTTP]

So many clients at once play text-2048: over `/ws` of one `hudtui env serve` (a process of its own,
started before), and as sessions of the SDK's client with the environment itself, over stdio (a
process for each session) and over HTTP (one server for all). The server reaches the environment in
the same way. The two take turns in one run, in both orders. "moves" is the time from the moment
when every session is set up to the last answer to a step but one; "in all" includes connections,
setup, the last step, the evaluation and the end of every environment. "processor" is the processor
time of this process, the client, alone. The frames are those of `GenericEnvClient`.

A bare session is one hop, and a served one is two: a client, a server, and the environment behind
it. "floor" is the least that such a server can do, in a process of its own: the same uvicorn and
Starlette, the SDK's client, and the same frames, with nothing of hudtui: no reading of replies, no
configuration, no checks of arguments, no rubric, no records.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for `support`

import httpx2
from httpx2.websockets import WebSocketDisconnect
from rollouts import (
    CONFIG,
    GAME,
    Clock,
    Wave,
    bare,
    compare,
    game_server,
    heading,
    make_tasks,
    moves,
    over_http,
    over_stdio,
    write_tasks,
)
from support.openenv_client import Socket

from hudtui.core.trust import VARIABLE


def served(url: str, sessions: int, turns: int) -> Wave:
    """Play all tasks at once over the sockets of a server."""

    async def episode(number: int, clock: Clock, web: httpx2.AsyncClient) -> None:
        async with web.websocket(f"ws{url.removeprefix('http')}/ws") as session:
            client = Socket(session)
            await client.reset(task_id=f"game-{number}")
            await clock.start()
            *earlier, last = moves(turns)
            for move in earlier:
                assert not (await client.call(move))["done"]
                clock.lap()
            answer = await client.call(last)
            assert answer["done"] and answer["metadata"]["reward_found"]
            await session.send_text(json.dumps({"type": "close"}))
            with contextlib.suppress(
                WebSocketDisconnect
            ):  # the server closes when it has ended the environment
                await session.receive_text(timeout=120)

    async def wave(clock: Clock) -> None:
        limits = httpx2.Limits(max_connections=None)
        async with httpx2.AsyncClient(trust_env=False, limits=limits, timeout=120) as web:
            await asyncio.gather(*(episode(number, clock, web) for number in range(sessions)))

    return wave


@contextlib.asynccontextmanager
async def server(servers: Mapping[str, Any], sessions: int, turns: int) -> AsyncIterator[str]:
    """`hudtui env serve` as a user starts it, without a token; gives its address."""
    with tempfile.TemporaryDirectory() as folder:
        write_tasks(Path(folder) / "tasks.json", make_tasks(sessions, servers))
        options = [
            "--port",
            "0",
            "--no-token",
            "--sessions",
            str(sessions),
            "--max-turns",
            str(turns),
            "--json",
        ]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hudtui", "env", "serve", str(CONFIG), "tasks.json", *options),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=folder,
            env={**os.environ, VARIABLE: folder},
        )
        assert process.stdout is not None
        try:
            lines: list[bytes] = []
            while not lines or lines[-1] != b"}\n":
                lines.append(await process.stdout.readline())
                assert lines[-1], b"".join(lines)
            yield json.loads(b"".join(lines))["url"]
        finally:
            process.terminate()
            await process.communicate()


def serve_floor(turns: int, game: str) -> None:
    """Serve the game with nothing of hudtui, over HTTP where `game` is an address, and print
    where."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import WebSocketRoute
    from starlette.websockets import WebSocket

    client = over_http(game) if game else over_stdio(*GAME)

    async def session(web: WebSocket) -> None:
        async def send(text: str, *, done: bool = False) -> None:
            data = {
                "observation": {"text": text},
                "reward": 0.0,
                "done": done,
                "metadata": {"reward_found": done},
            }
            await web.send_text(json.dumps({"type": "observation", "data": data}))

        await web.accept()
        (task,) = make_tasks(1, {})
        seed = int(json.loads(await web.receive_text())["data"]["task_id"].partition("-")[2])
        async with client() as environment:
            await environment.list_tools()
            begun = await environment.call_tool("setup", {**task.setup[0].arguments, "seed": seed})
            await send(begun.content[0].text)
            for turn in range(1, turns + 1):
                step = json.loads(await web.receive_text())
                moved = await environment.call_tool(
                    "move", {"direction": step["data"]["tool_name"]}
                )
                if turn == turns:
                    await environment.call_tool(
                        task.evaluate[0].name, dict(task.evaluate[0].arguments)
                    )
                await send(moved.content[0].text, done=turn == turns)
            await web.receive_text()
        await web.close()

    app = Starlette(routes=[WebSocketRoute("/ws", session)])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        gc.freeze()
        config = uvicorn.Config(
            app, ws="wsproto", ws_per_message_deflate=False, log_level="critical", lifespan="off"
        )
        uvicorn.Server(config).run(sockets=[listener])


@contextlib.asynccontextmanager
async def floor(turns: int, game: str = "") -> AsyncIterator[str]:
    """`serve_floor` in a process of its own; gives its address."""
    options = ("--turns", str(turns), "--floor", game)
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.terminate()
        await process.communicate()


async def run(rounds: int, turns: int, sessions: int, only: str | None) -> None:
    tasks = make_tasks(sessions, {})
    place = {"command": sys.executable, "args": list(GAME)}
    for name in ("stdio", "HTTP") if only is None else (only,):
        async with contextlib.AsyncExitStack() as stack:
            game = await stack.enter_async_context(game_server()) if name == "HTTP" else ""
            url = await stack.enter_async_context(
                server({"game": {"url": game} if game else place}, sessions, turns)
            )
            least = await stack.enter_async_context(floor(turns, game))
            ours, title = served(url, sessions, turns), f"{name}, {sessions} x {turns} steps"
            heading("served", "SDK")
            other = bare(
                tasks, turns, over_http(game) if game else over_stdio(*GAME), before_last=True
            )
            await compare(title, ours, other, sessions, rounds)
            heading("served", "floor")
            await compare(title, ours, served(least, sessions, turns), sessions, rounds)
            heading("floor", "SDK")
            await compare(title, served(least, sessions, turns), other, sessions, rounds)


def main() -> None:
    """Run the comparisons and print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--turns", type=int, default=30)
    options.add_argument("--sessions", type=int, default=64)
    options.add_argument("--only", choices=("stdio", "HTTP"))
    options.add_argument("--floor", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.floor is not None:
        serve_floor(given.turns, given.floor)
        return
    asyncio.run(run(given.rounds, given.turns, given.sessions, given.only))


if __name__ == "__main__":
    main()
