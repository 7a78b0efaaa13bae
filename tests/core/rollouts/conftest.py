"""A loopback endpoint in OpenAI's form, whose answers a test sets."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Stub:
    """Answers each POST with the next of `answers`, the last one again and again.

    An answer is a text (a completion with that content), a pair (status, body), a triple with headers, None (the line goes dead),
    or a function of the request.
    """

    def __init__(self):
        self.answers = ["<tool>done()</tool>"]
        self.requests = []
        self.arrived = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
                stub.arrived.set()
                answer = stub.answers.pop(0) if len(stub.answers) > 1 else stub.answers[0]
                if callable(answer):
                    answer = answer(body)
                if answer is None:  # hang up without a word
                    self.close_connection = True
                    return
                if isinstance(answer, str):
                    answer = (200, completion(answer))
                status, content, *more = answer
                data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in (more[0] if more else {}).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # some tests do not wait for the answer
                    self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def completion(content, **message):
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    }


@pytest.fixture
def stub():
    stub = Stub()
    yield stub
    stub.close()


@pytest.fixture
def as_completion():
    return completion
