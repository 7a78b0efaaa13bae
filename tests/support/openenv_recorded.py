"""OpenEnv servers that answer with messages recorded from openenv 0.10.0."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from hudtui.core.openenv.listen import listening

METADATA = {
    "name": "Game",
    "description": "Game environment",
    "readme_content": None,
    "version": "1.0.0",
    "author": None,
    "documentation_url": None,
}
_ABOUT = {
    "additionalProperties": True,
    "description": "Additional metadata for the action",
    "title": "Metadata",
    "type": "object",
}
GUESS = {  # an environment with an action class of its own: `class Guess(Action): number: int`
    "additionalProperties": False,
    "properties": {"metadata": _ABOUT, "number": {"title": "Number", "type": "integer"}},
    "required": ["number"],
    "title": "Guess",
    "type": "object",
}
CALL_TOOL = {  # an MCPEnvironment: `create_fastapi_app(Game, CallToolAction, CallToolObservation)`
    "additionalProperties": False,
    "description": "Call a specific tool via MCP.\n\nThis action triggers MCP's tools/call "
    "operation with the\nspecified tool name and arguments.",
    "properties": {
        "metadata": _ABOUT,
        "type": {"const": "call_tool", "default": "call_tool", "title": "Type", "type": "string"},
        "tool_name": {
            "description": "Name of the tool to call",
            "title": "Tool Name",
            "type": "string",
        },
        "arguments": {"additionalProperties": True, "title": "Arguments", "type": "object"},
    },
    "required": ["tool_name"],
    "title": "CallToolAction",
    "type": "object",
}
OBSERVATION = {
    "title": "Seen",
    "type": "object",
    "properties": {"hint": {"default": "", "type": "string"}},
}
STATE = {
    "title": "State",
    "type": "object",
    "properties": {"episode_id": {}, "step_count": {"type": "integer"}},
}

NO_MCP = {
    "jsonrpc": "2.0",
    "id": 1,
    "error": {"code": -32603, "message": "Environment does not support MCP", "data": None},
}
NO_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "error": {"code": -32601, "message": "Method not found: initialize", "data": None},
}
TOOLS = [
    {
        "name": "echo",
        "title": None,
        "description": "Echo it.",
        "inputSchema": {
            "additionalProperties": False,
            "properties": {
                "message": {"type": "string"},
                "times": {"default": 1, "type": "integer"},
            },
            "required": ["message"],
            "type": "object",
        },
        "outputSchema": {
            "properties": {"result": {"type": "string"}},
            "required": ["result"],
            "type": "object",
        },
        "icons": None,
        "annotations": None,
        "meta": {"fastmcp": {"tags": []}},
        "execution": None,
    },
    {
        "name": "fail",
        "description": "Fail.",
        "inputSchema": {"additionalProperties": False, "properties": {}, "type": "object"},
    },
]


def observed(observation: dict[str, Any], reward: Any = None, done: bool = False) -> dict[str, Any]:
    return {
        "type": "observation",
        "data": {"observation": {"metadata": {}, **observation}, "reward": reward, "done": done},
    }


def refused(code: str, message: str = "Invalid message", **more: Any) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code, **more}}


MISSING = [
    {
        "type": "missing",
        "loc": ["number"],
        "msg": "Field required",
        "input": {"x": 3},
        "url": "https://errors.pydantic.dev/2.14/v/missing",
    },
    {"type": "extra_forbidden", "loc": ["x"], "msg": "Extra inputs are not permitted", "input": 3},
]


def guessing() -> Callable[[dict[str, Any]], Any]:
    """The recorded game: `reset` with a seed hides seed % 10, each `step` guesses, five guesses."""
    game = {"number": 0, "left": 0}

    def answer(message: dict[str, Any]) -> Any:
        data = message.get("data", {})
        if message["type"] == "mcp":
            return {"type": "mcp", "data": NO_MCP}
        if message["type"] == "reset":
            game.update(number=data.get("seed", 0) % 10, left=5)
            return observed({"hint": "guess 0..9", "left": 5})
        if set(data) != {"number"}:
            return refused("VALIDATION_ERROR", errors=MISSING)
        game["left"] -= 1
        hit = data["number"] == game["number"]
        hint = "right" if hit else "higher" if data["number"] < game["number"] else "lower"
        return observed(
            {"hint": hint, "left": game["left"]}, 1.0 if hit else 0.0, hit or not game["left"]
        )

    return answer


def echoing() -> Callable[[dict[str, Any]], Any]:
    """The recorded MCP environment: each call is worth 0.25."""

    def answer(message: dict[str, Any]) -> Any:
        data = message.get("data", {})
        if message["type"] == "mcp":
            return {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "result": {"tools": TOOLS}}}
        if message["type"] == "reset":
            ready = {"observation": {"metadata": {"status": "ready"}}, "reward": 0.0, "done": False}
            return {"type": "observation", "data": {**ready, "metadata": {"status": "ready"}}}
        name, arguments = data["tool_name"], data["arguments"]
        if name != "echo":
            error = {"error_type": "execution_error", "message": "Error calling tool 'fail': no"}
            return observed({"tool_name": name, "result": None, "error": error}, 0.25)
        text = arguments["message"] * arguments.get("times", 1)
        result = {
            "content": [{"type": "text", "text": text, "annotations": None, "meta": None}],
            "structured_content": {"result": text},
            "meta": {"fastmcp": {"wrap_result": True}},
            "data": text,
            "is_error": False,
        }
        return observed({"tool_name": name, "result": result, "error": None}, 0.25)

    return answer


class Recorded:
    """A server: `answer` makes the answer to each message: values, raw text, None for none, or an
    exception that closes."""

    def __init__(
        self,
        action: Any,
        session: Callable[[], Callable[[dict[str, Any]], Any]],
        *,
        status: int = 200,
    ) -> None:
        self.action = action
        self.session = session
        self.status = status
        self.open = 0
        self.messages: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve; yields the address without its scheme."""

        async def schema(request: Any) -> Response:
            if self.status == 307:
                return RedirectResponse("http://192.0.2.1/schema")
            if self.status != 200:
                return JSONResponse({}, self.status)
            return JSONResponse({"action": self.action, "observation": OBSERVATION, "state": STATE})

        async def metadata(request: Any) -> Response:
            return JSONResponse(METADATA)

        async def mcp(request: Any) -> Response:
            return JSONResponse({**NO_INITIALIZE, "id": (await request.json()).get("id")})

        async def socket(web: WebSocket) -> None:
            await web.accept()
            self.open += 1
            self.headers.append(dict(web.headers))
            answer = self.session()
            try:
                while True:
                    message = json.loads(await web.receive_text())
                    self.messages.append(message)
                    if message["type"] == "close":
                        break
                    given = answer(message)
                    if inspect.isawaitable(given):
                        given = await given
                    if isinstance(given, Exception):
                        await web.close(1011, str(given))
                        return
                    for one in given if isinstance(given, list) else [given]:
                        if one is not None:
                            await web.send_text(one if isinstance(one, str) else json.dumps(one))
            except (WebSocketDisconnect, asyncio.CancelledError):
                pass
            finally:
                self.open -= 1

        routes = [
            Route("/schema", schema),
            Route("/metadata", metadata),
            Route("/mcp", mcp, methods=["POST"]),
        ]
        app = Starlette(routes=[*routes, WebSocketRoute("/ws", socket)])
        async with listening(app, "127.0.0.1", 0) as (host, port):
            yield f"{host}:{port}"
