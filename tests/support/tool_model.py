"""A model that calls tools behind an OpenAI-compatible endpoint on loopback, and a judge for
RULER."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """An answer that calls a tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return message(None, tool_calls=[{"id": "call_1", "type": "function", "function": function}])


def message(text: str | None, **more: Any) -> dict[str, Any]:
    """An answer in words."""
    reason = "tool_calls" if "tool_calls" in more else "stop"
    choice = {
        "index": 0,
        "finish_reason": reason,
        "message": {"role": "assistant", "content": text, **more},
    }
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


def judgement(body: dict[str, Any], score: Callable[[str], float]) -> dict[str, Any]:
    """The answer of a judge that RULER asks: a score for each trajectory, by its text."""
    import re

    text = body["messages"][-1]["content"]
    parts = re.findall(r'<trajectory id="(\d+)">(.*?)</trajectory>', text, re.DOTALL)
    scores = [
        {"trajectory_id": name, "explanation": "as told", "score": score(part)}
        for name, part in parts
    ]
    return message(json.dumps({"scores": scores}))


@contextmanager
def endpoint(answer: Answer) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve an answer to each request.

    Args:
        answer: Given the request's body; returns the status and the body of the answer.

    Yields:
        The base URL, and the bodies of the requests so far.
    """
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"data": []})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            self._send(*answer(body))

        def _send(self, status: int, found: Any) -> None:
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", asked
        finally:
            server.shutdown()
            thread.join()
