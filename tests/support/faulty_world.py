"""Episodes over environments that fail, for `tests/faults/environments.py` and the part of it that
is an ordinary test.

One server on loopback speaks streamable HTTP, SSE and OpenEnv; over stdio each episode starts
`faulty_server.py`. An address or a command names the fault and the stage at which it comes. What is
counted comes from the evaluation itself: its summary, its metrics and its traces.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import json
import random
import re
import socket
import struct
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from support import faulty_server as wire
from support.openenv_recorded import CALL_TOOL, METADATA, OBSERVATION, STATE

from hudtui.core.environment.client import connect
from hudtui.core.gym.values import ActionMapping, GymConfig
from hudtui.core.rollouts.evaluate import EpisodeDone, evaluate
from hudtui.core.rollouts.outcome import outcome_of, summarise
from hudtui.core.rollouts.policy import PolicySource
from hudtui.core.rollouts.values import Episode
from hudtui.core.tasks.task import Task, ToolCall

TRANSPORTS = ("stdio", "http", "sse", "openenv")
SERVER = Path(__file__).with_name("faulty_server.py")
SOON = 2.0
"""Seconds within which a fault has to be known."""
HANG_LIMIT = 1.0
"""Limit of a call where the fault is that nothing comes at all."""

STATUSES = {
    "404 json": (
        "404 Not Found",
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Session not found"}}',
        wire.LOST,
    ),
    "404 text": ("404 Not Found", "Could not find session", wire.LOST),
    "404 page": ("404 Not Found", "<html><title>Not here</title></html>", wire.LOST),
    "401": ("401 Unauthorized", "", "401: "),
    "403": ("403 Forbidden", "no", "403: "),
    "405": ("405 Method Not Allowed", "", "405: "),
    "429": ("429 Too Many Requests", "slow down", "429: "),
    "500": ("500 Oops", "Internal Server Error", "500: "),
    "500 json": (
        "500 Oops",
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"it broke"}}',
        "500: ",
    ),
    "502": ("502 Bad Gateway", "<html><title>502</title></html>", "502: "),
    "503": ("503 Service Unavailable", "busy", "503: "),
    "504": ("504 Gateway Timeout", "<html><title>504</title></html>", "504: "),
    "page": ("200 OK", "<html>Log in</html>", "answers a web page"),
}
HTTP_ONLY = {
    "400 text": ("400 Bad Request", "who are you?", wire.LOST),
    "400 json": (
        "400 Bad Request",
        '{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"No valid session"}}',
        wire.LOST,
    ),
    "redirect": ("302 Found", "", "redirects elsewhere"),
    "202": ("202 Accepted", "", "not MCP"),
    "empty": ("200 OK", "", "is not of the protocol"),
    "plain": ("200 OK", "fine", "answers text/plain, not MCP"),
    "202 json": ("202 Accepted", "{}", "not MCP"),
    "detail": ("200 OK", '{"detail":"quota exceeded"}', r"is not of the protocol[\s\S]*quota"),
    "notice alone": (
        "200 OK",
        '{"jsonrpc":"2.0","method":"notifications/message"}',
        "is not of the protocol",
    ),
    "to a login": ("307 Temporary Redirect", "", "answers a web page"),
    "error event": (
        "200 OK",
        "event: error\ndata: no board\n\n",
        r"is not of the protocol[\s\S]*no board",
    ),
    "page in a stream": ("200 OK", "<html>Log in</html>\n", "is not of the protocol"),
}
SSE_ONLY = {
    "error event": (b"event: error\ndata: no board\n\n", r"is not of the protocol[\s\S]*no board"),
    "page in the stream": (b"<html>502</html>\n", "is not of the protocol"),
    "words in the stream": (b"Internal Server Error\n", "is not of the protocol"),
    "error in the response": (b'{"error":"quota exceeded"}', r"is not of the protocol[\s\S]*quota"),
    "lost in the response": (b'{"error":{"code":-32001,"message":"Session not found"}}', wire.LOST),
}
_CUT = (
    r"broke off the connection|broke off its answer|the connection to .* broke|nothing answers at"
)
HTTP_FAULTS = (
    wire.MESSAGE_FAULTS
    | {name: words for name, (_, _, words) in (STATUSES | HTTP_ONLY).items()}
    | {
        "new session": wire.LOST,
        "reset": _CUT,
        "close": _CUT,
        "half body": _CUT,
        "hang": "gave no answer",
    }
)
SSE_FAULTS = (
    wire.MESSAGE_FAULTS
    | {name: words for name, (_, _, words) in STATUSES.items()}
    | {name: words for name, (_, words) in SSE_ONLY.items()}
    | {"reset": _CUT, "close": _CUT, "hang": "gave no answer"}
)
_NOT_OPENENV, _ENDED, _LOST = (
    "does not speak OpenEnv's protocol",
    "has ended the connection",
    "cannot continue this session",
)
OPENENV_MESSAGES = {
    "words": ("these are words", _NOT_OPENENV),
    "half": ('{"type":"observation","data":{"obser', _NOT_OPENENV),
    "list": ("[1]", _NOT_OPENENV),
    "deep": ("[" * 100_000, _NOT_OPENENV),
    "number": ("7", _NOT_OPENENV),
    "null": ("null", _NOT_OPENENV),
    "empty": ("", _NOT_OPENENV),
    "no type": ('{"data":{}}', _NOT_OPENENV),
    "type number": ('{"type":5,"data":{}}', _NOT_OPENENV),
    "state": ('{"type":"state","data":{}}', _NOT_OPENENV),
    "mcp": ('{"type":"mcp","data":{}}', _NOT_OPENENV),
    "no data": ('{"type":"observation"}', _NOT_OPENENV),
    "no observation": ('{"type":"observation","data":{"reward":1.0}}', _NOT_OPENENV),
    "observation text": ('{"type":"observation","data":{"observation":"x"}}', _NOT_OPENENV),
    "observation list": ('{"type":"observation","data":{"observation":[]}}', _NOT_OPENENV),
    "error words": ('{"type":"error","data":"boom"}', _LOST),
    "error alone": ('{"type":"error"}', _LOST),
    **{
        f"error {code}": (
            json.dumps({"type": "error", "data": {"code": code, "message": message}}),
            _LOST,
        )
        for code, message in (
            ("SESSION_ERROR", "the episode broke off"),
            ("CAPACITY_REACHED", "full"),
            ("FACTORY_ERROR", "no board"),
            ("UNKNOWN_TYPE", "Unknown message type"),
            ("INVALID_JSON", "Invalid JSON"),
            ("NEW_CODE", "?"),
        )
    },
}
OPENENV_FAULTS = {name: words for name, (_, words) in OPENENV_MESSAGES.items()} | {
    "closes": _ENDED,
    "closes with a reason": r"has ended the connection[\s\S]*no more boards",
    "going away": _ENDED,
    "reset": _ENDED,
    "cut": _ENDED,
    "half a frame": _ENDED,
    "bytes": _ENDED,
    "bad text": _ENDED,
    "hang": "gave no answer",
}
FAULTS: Mapping[str, Mapping[str, str]] = {
    "stdio": wire.STDIO_FAULTS,
    "http": HTTP_FAULTS,
    "sse": SSE_FAULTS,
    "openenv": OPENENV_FAULTS,
}
"""Transport -> fault -> what the error of the episode says."""
HEALTHY = {
    "stdio": (*wire.HEALTHY_MESSAGES, "no end"),
    "http": (
        *(one for one in wire.HEALTHY_MESSAGES if one != "log line"),
        "429 once",
        "502 once",
        "503 once",
        "stateless",
        "ids vary",
    ),
    "sse": (
        *(one for one in wire.HEALTHY_MESSAGES if one != "log line"),
        "429 once",
        "502 once",
        "503 once",
        "ok",
    ),
    "openenv": ("plain", "surrogate", "bad byte", "twice", "slow", "agent's error"),
}
"""Transport -> oddities that are no fault."""


@dataclass(frozen=True)
class Case:
    """An episode: its transport, what is odd about it, and the stage of a fault; without a stage it
    is healthy."""

    number: int
    transport: str
    name: str
    stage: str = ""
    words: str = ""

    @property
    def id(self) -> str:
        return f"{self.number:05}"


def faulted(count: int, chance: random.Random) -> list[Case]:
    """At least `count` cases, every fault of every transport at every stage before any of them
    comes again."""
    made = [
        (transport, name, stage, words)
        for transport, faults in FAULTS.items()
        for name, words in faults.items()
        for stage in wire.STAGES
    ]
    made += [
        (transport, name, "evaluate", words)
        for transport in ("stdio", "http", "sse")
        for name, (_, words) in wire.EVALUATIONS.items()
    ]
    chance.shuffle(made)
    return [
        Case(number, *one) for number, one in zip(range(count), itertools.cycle(made), strict=False)
    ]


def healthy(count: int, chance: random.Random, first: int) -> list[Case]:
    """`count` cases without a fault."""
    made = [(transport, name) for transport, names in HEALTHY.items() for name in names]
    chance.shuffle(made)
    return [
        Case(first + number, *one)
        for number, one in zip(range(count), itertools.cycle(made), strict=False)
    ]


@dataclass
class Report:
    """What became of the episodes."""

    cases: Sequence[Case]
    episodes: dict[str, Episode] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    """How long the call took that failed, by the case's id."""
    wrong: list[str] = field(default_factory=list)

    def check(self) -> Report:
        """Hold every promise against what happened; what does not hold stands in `wrong`."""
        for case in self.cases:
            episode = self.episodes.get(case.id)
            if episode is None:
                self.wrong.append(f"{case}: not played")
            elif case.stage and episode.ok:
                self.wrong.append(
                    f"{case}: scored {episode.scores.reward:g} with stop={episode.stop}"
                )
            elif not case.stage and (not episode.ok or episode.scores.reward != wire.REWARD):
                self.wrong.append(
                    f"{case}: {episode.stop}, reward {episode.scores.reward:g}: {episode.error}"
                )
        outcomes = [outcome_of(episode) for episode in self.episodes.values()]
        mean = summarise(outcomes, [_task(case, "") for case in self.cases]).reward
        if mean != wire.REWARD:
            self.wrong.append(
                f"the mean reward is {mean}, and every healthy episode has {wire.REWARD}"
            )
        return self

    def causes(self) -> list[Case]:
        """The faults whose episodes say another cause, or another stage."""
        return [case for case in self.cases if case.stage and not self._says(case)]

    def late(self) -> list[Case]:
        """The faults that were known too late."""
        return [case for case in self.cases if case.stage and self.seconds.get(case.id, 0.0) > SOON]

    def _says(self, case: Case) -> bool:
        error = str(self.episodes[case.id].error)
        where = {
            "setup": error.startswith("setup, "),
            "evaluate": error.startswith(("evaluation, ", "the evaluation failed: ")),
        }
        place = where.get(case.stage, not any(where.values()))
        return place and re.search(case.words, error) is not None


CONFIG = GymConfig(
    mappings={"act": ActionMapping("act", "act", (), {})},
    weights={"task_completion": 1.0, "tool_execution": 0.0, "format_compliance": 0.0},
)


async def play(cases: Sequence[Case], out: Path, *, at_once: int = 12) -> Report:
    """Play every case in an evaluation, and check what came of it."""
    report = Report(cases)
    async with World().served() as port:
        hanging = [case for case in cases if case.name == "hang"]
        others = [case for case in cases if case.name != "hang"]
        if hanging:  # an evaluation gives up where nothing succeeds at first
            hanging.insert(
                0, others.pop(max(place for place, case in enumerate(others) if not case.stage))
            )
        for part, limit in ((others, 60.0), (hanging, HANG_LIMIT)):
            if part:
                await _evaluate(part, port, out / f"{limit:g}", limit, report, at_once)
    return report.check()


async def _evaluate(
    cases: Sequence[Case], port: int, out: Path, limit: float, report: Report, at_once: int
) -> None:
    tasks = [_task(case, port) for case in cases]

    async def act(messages: Any) -> str:
        return "<tool>act()</tool>"

    @asynccontextmanager
    async def timed(mcp_config: Mapping[str, Any]) -> AsyncIterator[Any]:
        async with connect(mcp_config, timeout=60.0) as session:
            yield _Timed(session, next(iter(mcp_config)), report.seconds)

    events = evaluate(
        tasks,
        CONFIG,
        policy=PolicySource("act", lambda task, rollout: act),
        connect=timed,
        out_dir=out,
        concurrency=at_once,
        max_turns=3,
        timeout=limit,
    )
    async with aclosing(events):
        async for event in events:
            if isinstance(event, EpisodeDone):
                report.episodes[event.episode.task_id] = event.episode
    for line in (out / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["errors"] and "reward" in row:
            report.wrong.append(f"the metrics give {row['task']} the reward {row['reward']}")


def _task(case: Case, port: Any) -> Task:
    name, stage = f"{case.name}", case.stage or "none"
    if case.transport == "stdio":
        server = {"command": sys.executable, "args": ["-S", str(SERVER), name, stage]}
    else:
        token = (
            base64.urlsafe_b64encode(json.dumps([case.transport, name, stage]).encode())
            .decode()
            .rstrip("=")
        )
        end = {"http": "/mcp", "sse": "/sse", "openenv": ""}[case.transport]
        server = {
            "url": (
                f"{'ws' if case.transport == 'openenv' else 'http'}://127.0.0.1:{port}/{token}{end}"
            )
        }
    return Task(
        case.id,
        "Act.",
        {case.id: server},
        setup=(ToolCall("setup"),),
        evaluate=(ToolCall("evaluate"),),
    )


class _Timed:
    """A session that notes how long a call took that failed."""

    def __init__(self, session: Any, name: str, seconds: dict[str, float]) -> None:
        self._session, self._name, self._seconds = session, name, seconds
        self.tools, self.warnings = session.tools, session.warnings

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> Any:
        began = time.monotonic()
        try:
            return await self._session.call_tool(name, arguments, timeout=timeout)
        except Exception:
            self._seconds[self._name] = time.monotonic() - began
            raise


class World:
    """Environments over streamable HTTP, SSE and OpenEnv, in this process: the path names fault and
    stage."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def served(self) -> AsyncIterator[int]:
        """Serve; yields the port."""
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().split("\r\n")
                headers = {
                    key.lower(): value.strip()
                    for key, _, value in (line.partition(":") for line in lines if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = first.split()
                if headers.get("upgrade", "").lower() == "websocket":
                    await _OpenEnv(reader, writer, *_case_of(path)[1:]).talk(headers)
                    return
                await self._answer(method, path, headers, body, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, writer: Any
    ) -> None:
        if path.endswith(("/schema", "/metadata")):
            about = (
                METADATA
                if path.endswith("/metadata")
                else {"action": CALL_TOOL, "observation": OBSERVATION, "state": STATE}
            )
            writer.write(_reply("200 OK", json.dumps(about)))
        elif path.endswith("/sse"):
            key = str(next(self._numbers))
            self._sessions[key] = session = _Session(key, *_case_of(path), stream=writer)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(f"event: endpoint\ndata: /post/{key}\n\n".encode())
            await writer.drain()
            await session.over.wait()
        elif path == "/login":
            writer.write(_reply("200 OK", "<html>Log in</html>"))
        elif method != "POST":
            writer.write(_reply("405 Method Not Allowed"))
        elif path.startswith("/post/"):
            await self._sessions[path.rpartition("/")[2]].take(json.loads(body), writer)
        else:
            key = headers.get("mcp-session-id") or str(next(self._numbers))
            transport, name, stage = _case_of(path)
            if name == "stateless":
                key = path
            session = self._sessions.setdefault(key, _Session(key, transport, name, stage))
            if name == "ids vary":  # each answer names another session
                key = str(next(self._numbers))
                session = _Session(key, transport, name, stage)
            await session.take(json.loads(body), writer)


class _Session:
    """One episode's server over HTTP."""

    def __init__(
        self, key: str, transport: str, name: str, stage: str, *, stream: Any = None
    ) -> None:
        self.key, self.name, self.stage, self.stream = key, name, stage, stream
        self.events = transport == "http" and random.Random(f"{key} {name}").random() < 0.5
        self.due = wire.Stage(stage)
        self.refused = 0
        self.refusing = False
        """A status that is the fault stays, however often it is asked again."""
        self.over = asyncio.Event()

    async def take(self, message: Mapping[str, Any], writer: Any) -> None:
        ident, method = message.get("id"), message.get("method")
        if ident is None or method is None:
            writer.write(_reply("202 Accepted"))
        elif method != "tools/call":
            found = {"jsonrpc": "2.0", "id": ident, "result": wire.basic(dict(message))}
            self.send([json.dumps(found).encode()], writer)
        else:
            await self._call(message["params"]["name"], ident, writer)

    async def _call(self, tool: str, ident: Any, writer: Any) -> None:
        name = self.name
        due = self.refusing or self.due.due(tool)
        self.refusing = due and name in STATUSES
        if self.stage in wire.STAGES and not due:
            self.send(wire.healthy("plain", tool, ident), writer)
        elif self.stage not in wire.STAGES:
            if name.endswith(" once") and not self.refused:
                self.refused += 1
                status, body, _ = STATUSES[name.removesuffix(" once")]
                writer.write(
                    _reply(
                        status, body, **({"retry-after": "0.2"} if name.startswith("429") else {})
                    )
                )
                return
            if name == "slow":
                await asyncio.sleep(0.3)
            self.send(wire.healthy(name, tool, ident), writer)
        elif name == "hang":
            await asyncio.sleep(3600)
        elif name in ("reset", "close"):
            (_abort if name == "reset" else _close)(self.stream or writer)
            self.over.set()
            if self.stream is not None:
                writer.write(_reply("202 Accepted"))
        elif name == "half body":
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{"
            )
            await writer.drain()
            _close(writer)
        elif name == "new session":
            self.key += "-again"
            self.send(wire.healthy("plain", tool, ident), writer)
        elif self.stream is not None and name in SSE_ONLY:
            beside = name.endswith("response")
            writer.write(_reply("200 OK", SSE_ONLY[name][0]) if beside else _reply("202 Accepted"))
            if not beside:
                self.stream.write(SSE_ONLY[name][0])
        elif name in STATUSES or name in HTTP_ONLY:
            status, body, _ = (STATUSES | HTTP_ONLY)[name]
            more = {
                "redirect": {"location": "http://192.0.2.1/"},
                "to a login": {"location": "/login"},
            }.get(name, {})
            kinds = {
                "empty": "application/json",
                "error event": "text/event-stream",
                "page in a stream": "text/event-stream",
            }
            writer.write(_reply(status, body, kinds.get(name, ""), **more))
        else:
            self.send([wire.faulty(name, tool, ident)], writer)

    def send(self, messages: Sequence[bytes], writer: Any) -> None:
        """Send messages in the form of the transport."""
        more = {} if self.name == "stateless" else {"mcp-session-id": self.key}
        if self.stream is not None:
            writer.write(
                _reply("200 OK", b'{"ok":true}') if self.name == "ok" else _reply("202 Accepted")
            )
            self.stream.write(
                b"".join(b"event: message\ndata: " + one + b"\n\n" for one in messages)
            )
        elif self.events or len(messages) > 1:
            data = b"".join(b"event: message\ndata: " + one + b"\n\n" for one in messages)
            writer.write(_reply("200 OK", data, "text/event-stream", **more))
        else:
            writer.write(_reply("200 OK", messages[0], **more))


class _OpenEnv:
    """One episode's server over OpenEnv's socket, frame by frame."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str, stage: str
    ) -> None:
        self.reader, self.writer, self.name, self.stage = reader, writer, name, stage
        self.due = wire.Stage(stage)

    async def talk(self, headers: Mapping[str, str]) -> None:
        accept = hashlib.sha1(
            (headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()
        ).digest()
        self.writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
            b"sec-websocket-accept: " + base64.b64encode(accept) + b"\r\n\r\n"
        )
        while (message := await self._receive()) is not None:
            if message.get("type") == "close" or not await self._answer(message):
                break

    async def _receive(self) -> dict[str, Any] | None:
        while True:
            first, second = await self.reader.readexactly(2)
            size = second & 127
            if size > 125:
                size = int.from_bytes(await self.reader.readexactly(2 if size == 126 else 8), "big")
            mask = await self.reader.readexactly(4)
            data = bytes(
                byte ^ mask[place % 4]
                for place, byte in enumerate(await self.reader.readexactly(size))
            )
            if first & 15 == 8:
                return None
            if first & 15 == 1:
                return json.loads(data)

    def _frame(self, data: bytes, kind: int = 1, *, whole: bool = True) -> None:
        size = len(data) if whole else 2 * len(data) + 10
        long = struct.pack("!BH", 126, size) if size < 1 << 16 else struct.pack("!BQ", 127, size)
        head = bytes([128 | kind]) + (bytes([size]) if size < 126 else long)
        self.writer.write(head + data)

    async def _answer(self, message: Mapping[str, Any]) -> bool:
        if message["type"] == "mcp":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("act", "done")]
            self._frame(
                json.dumps(
                    {"type": "mcp", "data": {"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}}
                ).encode()
            )
            return True
        name, data = self.name, message.get("data", {})
        tool = (
            "setup"
            if message["type"] == "reset"
            else {"done": "evaluate"}.get(data["tool_name"], data["tool_name"])
        )
        if self.stage not in wire.STAGES or not self.due.due(tool):
            await self._well(tool, "plain" if self.stage in wire.STAGES else name)
            return True
        if name == "hang":
            await asyncio.sleep(3600)
        elif name in ("reset", "cut"):
            (_abort if name == "reset" else _close)(self.writer)
        elif name == "half a frame":
            self._frame(b'{"type":"obs', whole=False)
            await self.writer.drain()
            _close(self.writer)
        elif name == "bytes":
            self._frame(b'{"type":"observation","data":{"observation":{}}}', 2)
        elif name == "bad text":
            self._frame(b'{"type":"observation","data":{"observation":{"text":"\xff\xfe"}}}')
        elif name in ("closes", "closes with a reason", "going away"):
            code, reason = {"closes": (1000, b""), "going away": (1001, b"")}.get(
                name, (1011, b"no more boards")
            )
            self._frame(struct.pack("!H", code) + reason, 8)
        else:
            self._frame(OPENENV_MESSAGES[name][0].encode())
            await self.writer.drain()
            return True
        await self.writer.drain()
        return False

    async def _well(self, tool: str, oddity: str) -> None:
        if oddity == "slow":
            await asyncio.sleep(0.3)
        reward = wire.REWARD if tool == "evaluate" else None if tool == "setup" else 0.0
        text = "half \ud83d" if oddity in ("surrogate", "bad byte") else "fine"
        result = {
            "content": [{"type": "text", "text": text}],
            "is_error": oddity == "agent's error" and tool == "act",
        }
        observation = (
            {"tool_name": tool, "result": result, "error": None}
            if tool != "setup"
            else {"text": text}
        )
        answer = {
            "type": "observation",
            "data": {"observation": observation, "reward": reward, "done": tool == "evaluate"},
        }
        for _ in range(2 if oddity == "twice" else 1):
            self._frame(json.dumps(answer).encode())
        await self.writer.drain()


def _case_of(path: str) -> tuple[str, str, str]:
    token = path.strip("/").partition("/")[0]
    transport, name, stage = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return transport, name, stage


def _reply(status: str, body: str | bytes = b"", kind: str = "", **headers: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    if not kind:
        kind = (
            "application/json"
            if data[:1] in b"{[" and data
            else "text/html"
            if data[:1] == b"<"
            else "text/plain"
        )
        kind = "application/json" if status == "200 OK" and isinstance(body, bytes) else kind
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n"
        f"{more}\r\n".encode()
        + data
    )


def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()


def _abort(writer: asyncio.StreamWriter) -> None:
    """End a connection by a reset."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
    writer.transport.abort()


def summary(report: Report) -> list[str]:
    """The report as lines."""
    faults = [case for case in report.cases if case.stage]
    whole = [case for case in report.cases if not case.stage]
    wrong, late = report.causes(), report.late()
    kinds = {(case.transport, case.name) for case in faults}
    known = [report.seconds[case.id] for case in faults if case.id in report.seconds]
    lines = [
        f"{len(faults)} episodes with {len(kinds)} faults x stages, {len(whole)} healthy ones",
        f"wrong: {len(report.wrong)}   causes not right: {len(wrong)} "
        f"({len(wrong) / max(len(faults), 1):.2%})   later than {SOON:g} s: {len(late)}   mean "
        f"{fmean(known) if known else 0:.3f} s, longest {max(known, default=0):.2f} s",
    ]
    count = Counter(case.transport for case in faults)
    lines.append(
        "  ".join(
            f"{name}: {count[name]} with {sum(one == name for one, _ in kinds)} faults"
            for name in TRANSPORTS
        )
    )
    lines += [f"WRONG {line}" for line in report.wrong[:40]]
    for case in wrong[:40]:
        lines.append(f"CAUSE {case}\n      {report.episodes[case.id].error!r:.300}")
    lines += [f"LATE  {case} {report.seconds[case.id]:.2f} s" for case in late[:40]]
    return lines
