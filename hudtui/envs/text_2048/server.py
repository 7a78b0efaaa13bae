"""The environment over streamable HTTP, on the MCP SDK.

Every MCP session has a table of its own, so that one server can serve many episodes at once.
Sessions exist in the handshake generations of the protocol (up to 2025-11-25): the newer,
sessionless one is declined, and clients then shake hands.
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from typing import Any

from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.types import (
    INVALID_PARAMS,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    TextContent,
    TextResourceContents,
    Tool,
)

from hudtui.envs.text_2048.environment import (
    INSTRUCTIONS,
    NAME,
    PROTOCOL_VERSIONS,
    RESOURCES,
    TOOLS,
    VERSION,
    GameTable,
    read_resource,
)

MOST_SESSIONS = 10_000
"""Tables kept over HTTP; beyond that the table that was idle longest is dropped."""


def build(seed: int | None = None) -> Server[Any]:
    """The MCP server.

    Args:
        seed: Seed of the game that is on every table before its first setup; None for a different
            one each.
    """
    tables: OrderedDict[str, GameTable] = OrderedDict()

    def table(context: ServerRequestContext[Any, Any]) -> GameTable:
        session = (
            context.request.headers.get("mcp-session-id") if context.request is not None else None
        )
        if session is None:
            raise _sessionless(context.protocol_version)
        if session not in tables:
            tables[session] = GameTable(seed)
            if len(tables) > MOST_SESSIONS:
                tables.popitem(last=False)
        tables.move_to_end(session)
        return tables[session]

    async def list_tools(
        _: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[Tool.model_validate(tool) for tool in TOOLS])

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> CallToolResult:
        answer = table(context).call(params.name, params.arguments or {})
        if answer is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        return CallToolResult(
            content=[TextContent(type="text", text=answer["text"])],
            structured_content=answer["structured"],
            is_error=answer["is_error"],
        )

    async def list_resources(
        _: ServerRequestContext[Any, Any], __: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        return ListResourcesResult(
            resources=[Resource.model_validate(resource) for resource in RESOURCES]
        )

    async def read(
        _: ServerRequestContext[Any, Any], params: ReadResourceRequestParams
    ) -> ReadResourceResult:
        text = read_resource(params.uri)
        if text is None:
            raise MCPError(INVALID_PARAMS, f"Unknown resource: {params.uri}", {"uri": params.uri})
        return ReadResourceResult(
            contents=[TextResourceContents(uri=params.uri, mime_type="application/json", text=text)]
        )

    server: Server[Any] = Server(
        NAME,
        version=VERSION,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read,
    )

    async def decline(context: ServerRequestContext[Any, Any], _: RequestParams) -> Any:
        raise _sessionless(context.protocol_version)

    server.add_request_handler("server/discover", RequestParams, decline)
    return server


async def serve_http(
    listener: socket.socket, *, host: str = "127.0.0.1", path: str = "/mcp", seed: int | None = None
) -> None:
    """Serve any number of clients over streamable HTTP, until SIGTERM or SIGINT.

    Args:
        listener: A bound socket.
        host: The name it is bound to: on a loopback name only requests for a loopback name are
            answered.
        path: Path of the MCP endpoint.
        seed: As for `build`.
    """
    import uvicorn

    app = build(seed).streamable_http_app(streamable_http_path=path, host=host)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
    await uvicorn.Server(config).serve(sockets=[listener])


def _sessionless(version: str) -> MCPError:
    return MCPError(
        UNSUPPORTED_PROTOCOL_VERSION,
        "This environment keeps one game a session: it needs a protocol version with sessions",
        {"supported": list(PROTOCOL_VERSIONS), "requested": version},
    )
