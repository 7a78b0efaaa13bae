"""A client of the OpenEnv protocol that sends the frames of the package's `GenericEnvClient`
(openenv 0.10.0)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2


class Socket:
    """One connection to `/ws`."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def raw(self, text: str) -> dict[str, Any]:
        await self._session.send_text(text)
        return json.loads(await self._session.receive_text(timeout=60))

    async def ask(self, kind: str, data: Any = None) -> dict[str, Any]:
        message = {"type": kind} if data is None else {"type": kind, "data": data}
        return await self.raw(json.dumps(message))

    async def reset(self, **wanted: Any) -> dict[str, Any]:
        return seen(await self.ask("reset", wanted))

    async def step(self, **action: Any) -> dict[str, Any]:
        return seen(await self.ask("step", action))

    async def say(self, reply: str) -> dict[str, Any]:
        return await self.step(reply=reply)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await self.step(type="call_tool", tool_name=name, arguments=arguments)


def seen(answer: dict[str, Any]) -> dict[str, Any]:
    assert answer["type"] == "observation", answer
    return answer["data"]


def code(answer: dict[str, Any]) -> str:
    assert answer["type"] == "error", answer
    return answer["data"]["code"]


@contextlib.asynccontextmanager
async def connected(url: str, **headers: str) -> AsyncIterator[Socket]:
    """A connection to the server at `url`."""
    async with (
        httpx2.AsyncClient(trust_env=False) as web,
        web.websocket(
            f"ws{url.removeprefix('http')}/ws", headers=headers, max_message_size_bytes=1 << 24
        ) as session,
    ):
        yield Socket(session)
