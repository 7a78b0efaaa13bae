"""A stand-in for `vllm serve` that replies with tokens and takes adapters, in the shape of vLLM
0.31.

The fields are those that TRL 1.16's `VLLMClient.generate` sends and reads.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Sample = Callable[[list[int]], tuple[list[int], list[float | None]]]


class TokenServer:
    """What was asked of it, and what it answers."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.adapters: list[tuple[str, dict[str, Any]]] = []
        """What was to be loaded and unloaded, in order."""
        self.refuses: set[str] = set()
        self.failures: list[int] = []
        """Statuses of the next answers to completions, before it samples."""

    def answer(self, path: str, body: dict[str, Any] | None) -> tuple[int, Any]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]}
        if path in ("/v1/load_lora_adapter", "/v1/unload_lora_adapter") and body is not None:
            self.adapters.append((path.removeprefix("/v1/"), body))
            return (
                (400, {"error": {"message": "no adapter"}})
                if "adapter" in self.refuses
                else (200, "Success")
            )
        if path != "/v1/completions" or body is None:
            return 404, {"error": {"message": f"no {path}"}}
        self.asked.append(body)
        if self.failures:
            return self.failures.pop(0), {"error": {"message": "the engine is dead"}}
        (prompt,) = body["prompt"]
        ids, logprobs = self.sample(prompt)
        names = [f"token_id:{token}" for token in ids]
        tops = [{name: logprob} for name, logprob in zip(names, logprobs, strict=True)]
        choice = {
            "index": 0,
            "text": "",
            "logprobs": {
                "tokens": names,
                "token_logprobs": logprobs,
                "top_logprobs": tops,
                "text_offset": [],
            },
            "finish_reason": "stop",
            "prompt_token_ids": prompt,
            "token_ids": ids,
        }
        return 200, {
            "id": "cmpl-1",
            "object": "text_completion",
            "model": body["model"],
            "choices": [choice],
        }


@contextlib.contextmanager
def token_server(sample: Sample) -> Iterator[TokenServer]:
    """Serve on a port of the loopback address, a thread for each connection."""
    state = TokenServer(sample)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self, body: dict[str, Any] | None) -> None:
            status, found = state.answer(self.path, body)
            page = json.dumps(found).encode()  # NaN stays NaN, as vLLM sends it
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def do_GET(self) -> None:
            self.reply(None)

        def do_POST(self) -> None:
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
