"""An MCP server that writes files: `python file_server.py FOLDER [PORT]`, over stdio or HTTP.

Standard library only. `write` adds a line to a file of the folder, `look` answers with all files,
and the reward of `evaluate` is 1 where the folder holds what it is given, and no more.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
TOOLS = {"write": {"name": TEXT, "text": TEXT}, "look": {}, "evaluate": {"files": {}}}


def files(folder: Path) -> dict[str, str]:
    """All files below a folder, by their relative paths."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


def call(folder: Path, name: str, given: dict[str, Any]) -> str:
    """The answer of a tool."""
    if name == "write":
        with open(folder / given["name"], "a") as stream:
            stream.write(given["text"] + "\n")
        return "written"
    if name == "evaluate":
        return json.dumps({"reward": float(files(folder) == given["files"])})
    return json.dumps(files(folder))


def answer(folder: Path, message: dict[str, Any]) -> dict[str, Any] | None:
    """The response to a message; None to a notification."""
    if "id" not in message:
        return None
    method, params = message["method"], message.get("params") or {}
    result: dict[str, Any] = {}
    if method == "initialize":
        about = {"name": "files", "version": "1"}
        version = params["protocolVersion"]
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    elif method == "tools/list":
        result["tools"] = [
            {
                "name": name,
                "inputSchema": {"type": "object", "properties": found, "required": [*found]},
            }
            for name, found in TOOLS.items()
        ]
    elif method == "tools/call":
        text = call(folder, params["name"], params.get("arguments") or {})
        result["content"] = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def serve_http(folder: Path, port: int) -> None:
    """Serve until the process is ended."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            said = answer(folder, json.loads(body))
            data = b"" if said is None else json.dumps(said).encode()
            self.send_response(200 if data else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.send_error(405)

        def log_message(self, *_: Any) -> None:
            pass

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def main(folder: Path, port: int | None) -> None:
    if port is not None:
        serve_http(folder, port)
    for line in sys.stdin:
        said = answer(folder, json.loads(line))
        if said is not None:
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
