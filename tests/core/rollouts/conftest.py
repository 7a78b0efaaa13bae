"""What the tests of rollouts share: an endpoint on loopback, the bundled environment without the
wire, a config, a task."""

import contextlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hudtui.core.environment.values import ContentBlock, Tool, ToolResult
from hudtui.core.gym.config import parse_config
from hudtui.core.tasks.task import Task, ToolCall
from hudtui.envs.text_2048 import environment


class Stub:
    """Answers each POST with the next of `answers`, the last one again and again.

    An answer is a text (a completion with that content), a pair (status, body), a triple with
    headers, None (the line goes dead), or a function of the request.
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
                stub.requests.append(
                    {"path": self.path, "headers": dict(self.headers), "body": body}
                )
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
                data = (
                    content.encode() if isinstance(content, str) else json.dumps(content).encode()
                )
                with contextlib.suppress(ConnectionError):  # some tests do not wait for the answer
                    self.send_response(status)
                    for name, value in (more[0] if more else {}).items():
                        self.send_header(name, value)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def completion(content, **message):
    return {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": "stop",
            }
        ],
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


class TableSession:
    """The bundled environment without the wire: its own tools and game, called in this process.

    `before` is called with every call before it is made, and may raise or give a result in its
    place.
    """

    def __init__(self, seed=1):
        self.table = environment.GameTable(seed)
        kinds = {"setup": "setup", "evaluate": "evaluate"}
        self.tools = {
            tool["name"]: Tool(
                tool["name"],
                tool["description"],
                tool["inputSchema"],
                kinds.get(tool["name"], "agent"),
            )
            for tool in environment.TOOLS
        }
        self.calls = []
        self.before = None

    async def call_tool(self, name, arguments, *, timeout=None):
        self.calls.append((name, dict(arguments)))
        if self.before is not None:
            result = self.before(name, arguments)
            if hasattr(result, "__await__"):
                result = await result
            if result is not None:
                return result
        answer = self.table.call(name, arguments)
        if answer is None:
            return ToolResult((ContentBlock("text", text=f"Unknown tool: {name}"),), is_error=True)
        return ToolResult(
            (ContentBlock("text", text=answer["text"]),), answer["structured"], answer["is_error"]
        )


@pytest.fixture
def new_session():
    return TableSession


@pytest.fixture
def session():
    return TableSession()


CONFIG = """
system_prompt: Play 2048.
action_mappings:
  left: {_tool: move, direction: {static: left}}
  right: {_tool: move, direction: {static: right}}
  up: {_tool: move, direction: {static: up}}
  down: {_tool: move, direction: {static: down}}
  judge: {_tool: evaluate, name: max_number}
  ghost: {_tool: teleport}
defaults: {max_turns: 12}
"""


@pytest.fixture
def make_config():
    def make(text=CONFIG):
        config, findings = parse_config(text, name="config.yaml")
        assert [finding for finding in findings if finding.severity == "error"] == []
        return config

    return make


@pytest.fixture
def config(make_config):
    return make_config()


@pytest.fixture
def task():
    return Task(
        id="board",
        prompt="Reach 64.",
        mcp_config={
            "text-2048": {"command": sys.executable, "args": ["-m", "hudtui.envs.text_2048"]}
        },
        setup=(ToolCall("setup", {"name": "board", "arguments": {"board_size": 4, "seed": 7}}),),
        evaluate=(ToolCall("evaluate", {"name": "max_number", "arguments": {"target": 64}}),),
    )
