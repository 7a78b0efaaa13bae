"""A model behind an OpenAI-compatible endpoint on loopback, whose reply depends on nothing but the
conversation."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]


def any_reply(messages: Sequence[Message]) -> str:
    """A move of 2048 mostly, else one of the things that models do wrong: equal conversations,
    equal replies."""
    digest = hashlib.sha256(
        json.dumps([[one["role"], one["content"]] for one in messages]).encode()
    )
    choice = random.Random(digest.hexdigest())
    move = choice.choice(["left()", "right()", "up()", "down()"])
    return choice.choices(
        [
            f"<think>I go on.</think>\n<tool>{move}</tool>",
            f"<tool>{move}</tool>",
            "<think>What now?</think>",
            "<think>x</think><tool>jump(</tool>",
            "<think>x</think><tool>fly(3)</tool>",
            "<think>Enough.</think><tool>done()</tool>",
        ],
        weights=[12, 2, 1, 1, 1, 1],
    )[0]


@dataclass
class ScriptedChat:
    """The endpoint, and what it was asked."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    """The Authorization headers."""


@contextlib.contextmanager
def scripted_chat(
    reply: Callable[[Sequence[Message]], str | Message | int] = any_reply,
) -> Iterator[ScriptedChat]:
    """Serve until the block ends. `reply` gives the text of a message, the message (with its
    `finish_reason`, if that is another than `stop`), or the status of a refusal."""
    chat = ScriptedChat()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            chat.requests.append(body)
            chat.keys.append(self.headers.get("Authorization"))
            said = reply(body["messages"])
            if isinstance(said, int):
                self.send_error(said)
                return
            message = dict(said) if isinstance(said, dict) else {"content": said}
            message = {"role": "assistant", **message}
            ended = message.pop("finish_reason", "stop")
            answer = {
                "id": f"c{len(chat.requests)}",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [
                    {"index": 0, "message": message, "finish_reason": ended, "logprobs": None}
                ],
                "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(OSError):  # who asked may be gone
                self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    chat.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield chat
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
