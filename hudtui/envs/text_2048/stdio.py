"""The environment over standard input and output, with the standard library alone.

Over HTTP the MCP SDK serves (`server.py`). Here it would cost each episode nearly two seconds of
processor time and 70 MB merely to be imported, with one server started for every episode of a
batch; the protocol that a server without notifications needs is what stands below. The tests hold
it against the clients of the Python and the TypeScript SDK.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

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

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602


class ProtocolError(Exception):
    """A request that the protocol does not allow: answered with a code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StdioServer:
    """The server's side of one connection: takes messages, gives answers."""

    def __init__(self, table: GameTable) -> None:
        self._table = table
        self._methods: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": list(TOOLS)},
            "tools/call": self._call,
            "resources/list": lambda _: {"resources": list(RESOURCES)},
            "resources/templates/list": lambda _: {"resourceTemplates": []},
            "resources/read": self._read,
        }

    def answer(self, line: bytes) -> Any:
        """The answer to one line.

        An object, a list of them for a batch, or None where none is due.
        """
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return _error(None, PARSE_ERROR, "this line is not valid JSON")
        if isinstance(message, list):
            answers = [answer for entry in message if (answer := self._one(entry)) is not None]
            return answers or None
        return self._one(message)

    def _one(self, message: Any) -> dict[str, Any] | None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _error(None, INVALID_REQUEST, "this is no JSON-RPC 2.0 message")
        if "method" not in message or "id" not in message:
            return None  # a notification, or an answer to a request that we never send
        ident, method, params = message["id"], message["method"], message.get("params")
        if (
            not isinstance(method, str)
            or isinstance(ident, bool)
            or not isinstance(ident, str | int | float)
        ):
            return _error(None, INVALID_REQUEST, "a request needs a method and an id")
        run = self._methods.get(method)
        if run is None:
            return _error(ident, METHOD_NOT_FOUND, f"Method not found: {method}")
        if params is not None and not isinstance(params, dict):
            return _error(ident, INVALID_PARAMS, "params must be an object")
        try:
            return {"jsonrpc": "2.0", "id": ident, "result": run(params or {})}
        except ProtocolError as error:
            return _error(ident, error.code, error.message)

    def _initialize(self, params: Mapping[str, Any]) -> dict[str, Any]:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise ProtocolError(INVALID_PARAMS, "initialize needs a protocolVersion")
        return {
            "protocolVersion": wanted if wanted in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[0],
            "capabilities": {
                "tools": {"listChanged": False},
                "resources": {"subscribe": False, "listChanged": False},
            },
            "serverInfo": {"name": NAME, "version": VERSION},
            "instructions": INSTRUCTIONS,
        }

    def _call(self, params: Mapping[str, Any]) -> dict[str, Any]:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not (arguments is None or isinstance(arguments, dict)):
            raise ProtocolError(
                INVALID_PARAMS, "tools/call needs a name, and an object as arguments"
            )
        answer = self._table.call(name, arguments or {})
        if answer is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name}")
        result = {
            "content": [{"type": "text", "text": answer["text"]}],
            "isError": answer["is_error"],
        }
        if answer["structured"] is not None:
            result["structuredContent"] = answer["structured"]
        return result

    def _read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        uri = params.get("uri")
        text = read_resource(uri) if isinstance(uri, str) else None
        if text is None:
            raise ProtocolError(-32002, f"Unknown resource: {uri}")
        return {"contents": [{"uri": uri, "mimeType": "application/json", "text": text}]}


def serve(
    seed: int | None = None, incoming: BinaryIO | None = None, outgoing: BinaryIO | None = None
) -> None:
    """Serve one client until it closes our standard input, or no longer reads our standard output.

    Args:
        seed: Seed of the game that is on the table before any setup.
        incoming: Where requests come from; standard input by default.
        outgoing: Where answers go; standard output by default. What else is printed then goes to
            standard error.
    """
    if outgoing is None:
        outgoing = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        sys.stdout = sys.stderr
    peer = StdioServer(GameTable(seed))
    try:
        for line in incoming or sys.stdin.buffer:
            if line.strip() and (answer := peer.answer(line)) is not None:
                outgoing.write(json.dumps(answer).encode() + b"\n")
                outgoing.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), outgoing.fileno())


def _error(ident: Any, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": message}}
