"""How fast environments start and answer, beside the SDK doing the same:
`python tests/bench/environment.py`.

Every figure is the median of the rounds, in seconds; the two columns are measured turn by turn in
the same run.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

ODD = str(Path(__file__).parents[1] / "support" / "odd_server.py")
GAME = (sys.executable, "-m", "hudtui.envs.text_2048")
PEER = """
from mcp.server import MCPServer
server = MCPServer("peer")
@server.tool()
def move(direction: str) -> str:
    return direction
server.run()
"""
SDK_SERVER = (sys.executable, "-c", PEER)


async def ours(command: tuple[str, ...], tool: str | None = None, count: int = 1) -> int:
    from hudtui.core.environment.client import connect
    from hudtui.core.environment.source import parse_source

    async with connect(parse_source(None, command)) as session:
        for _ in range(count if tool else 0):
            await session.call_tool(tool or "", {"direction": "left"})
        return len(session.tools)


async def sdk(command: tuple[str, ...], tool: str | None = None, count: int = 1) -> int:
    from mcp import Client, StdioServerParameters, stdio_client

    wire = stdio_client(StdioServerParameters(command=command[0], args=list(command[1:])))
    async with Client(wire, mode="legacy", read_timeout_seconds=60) as client:
        tools = (await client.list_tools()).tools
        for _ in range(count if tool else 0):
            await client.call_tool(tool or "", {"direction": "left"})
        return len(tools)


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return time.perf_counter() - began


async def compare(
    title: str,
    one: Callable[[], Awaitable[object]],
    other: Callable[[], Awaitable[object]],
    rounds: int,
) -> None:
    pairs = [(await timed(one), await timed(other)) for _ in range(rounds)]
    first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{title:<58} {first:8.3f} {second:8.3f} {first / second:7.2f}")


async def cancelled(connect: Callable[[tuple[str, ...]], Awaitable[object]]) -> None:
    """Give up on a server that never answers."""
    task = asyncio.create_task(connect((sys.executable, ODD, "hang")))
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def main() -> None:
    """Run all comparisons and print the table."""
    await ours(GAME)
    await sdk(GAME)
    print(f"{'':<58} {'hudtui':>8} {'sdk':>8} {'ratio':>7}")
    await compare(
        "start text-2048 / a server on the SDK, list, leave",
        lambda: ours(GAME),
        lambda: sdk(SDK_SERVER),
        5,
    )
    await compare(
        "client alone: start text-2048, list, leave", lambda: ours(GAME), lambda: sdk(GAME), 5
    )
    await compare(
        "200 calls of move, start included",
        lambda: ours(GAME, "move", 200),
        lambda: sdk(GAME, "move", 200),
        3,
    )
    big = (sys.executable, ODD, "big", "8000000")
    await compare(
        "one result of 8 MB, start included", lambda: ours(big, "good"), lambda: sdk(big, "good"), 3
    )
    many = (sys.executable, ODD, "many", "10000")
    await compare("10 000 tools listed", lambda: ours(many), lambda: sdk(many), 3)
    await compare(
        "cancel a server that hangs (0.3 s of it waiting)",
        lambda: cancelled(ours),
        lambda: cancelled(sdk),
        3,
    )
    games = [ours(GAME, "move", 20) for _ in range(16)]
    print(
        f"{'16 games of 20 moves at once':<58} {await timed(lambda: asyncio.gather(*games)):8.3f}"
    )


if __name__ == "__main__":
    asyncio.run(main())
