"""One open connection to an OpenEnv server, asked as if it were an MCP server.

OpenEnv has actions and observations where MCP has tools. The connection shows them as tools:

    setup       begins an episode: OpenEnv's `reset` with these arguments step        an action,
    with the server's own schema; or, where the server's actions are tool calls, its tools by name
    evaluate    the rewards of the steps since `setup`: their sum, or the last one

The agent's tools act in the episode under way; an episode that was not begun is begun without
arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hudtui.core.environment.bounds import count_values, excess_of, excess_words
from hudtui.core.environment.calls import mended, words_of
from hudtui.core.environment.connection import RpcError, ServerConnection
from hudtui.core.environment.errors import (
    ResponseInfo,
    http_status_error,
    leaf_errors,
    timeout_error,
    too_much_error,
)
from hudtui.core.environment.openenv_messages import (
    ACTION_ERRORS,
    LIST_TOOLS,
    Observation,
    call_action,
    message,
    read_error,
    read_observation,
)
from hudtui.core.environment.web import web_client
from hudtui.core.errors import ConnectError
from hudtui.core.http import past_proxies, tls_context
from hudtui.core.masking import mask_url
from hudtui.core.text import clean_line

PROTOCOL = "openenv"
SETUP, STEP, EVALUATE = "setup", "step", "evaluate"

_MOST_BYTES = 32 << 20
"""Bytes of one message: a socket is read in pieces of up to this size."""
_MOST_TOOLS = 10_000
_DONE = "done"
_OWN = frozenset({SETUP, EVALUATE})
_STATE_LOST = (
    r"(?i)session|no episode|\breset\b.{0,30}\b(?:first|before|begins)|\bcall reset"
    r"|not (?:been )?(?:reset|initiali[sz]ed)"
)
"""Words of a server for a step that knows nothing of the episode under way."""
_EXTRA_SECONDS = 0.001
"""Seconds that are waited, before each message, for one that nobody asked for."""
_SCHEMES = {"ws": "http", "wss": "https", "http": "http", "https": "https"}
_METHOD_NOT_FOUND = -32601
_REFUSED = -32000

_SETUP_TOOL = {
    "name": SETUP,
    "description": (
        "Begins an episode (OpenEnv's reset). Further arguments are the environment's own."
    ),
    "inputSchema": {
        "type": "object",
        "properties": {
            "seed": {
                "type": "integer",
                "minimum": 0,
                "description": "Equal seeds, equal episodes.",
            },
            "episode_id": {"type": "string", "description": "A name for the episode."},
        },
        "additionalProperties": True,
    },
}
_EVALUATE_TOOL = {
    "name": EVALUATE,
    "description": "The reward of the episode: the rewards of its steps.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "of": {
                "enum": ["sum", "last"],
                "description": "Their sum, or the last one; the sum by default.",
            }
        },
        "additionalProperties": False,
    },
}


def is_openenv(url: str) -> bool:
    """True if an address says by its scheme that it is an OpenEnv server's."""
    return url.partition("://")[0].lower() in ("ws", "wss")


def base_url(url: str) -> str:
    """The http(s) address of a server, without the path of its socket or of its MCP endpoint."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    for end in ("/ws", "/mcp"):
        path = path.removesuffix(end)
    return urlunsplit(
        (_SCHEMES.get(parts.scheme.lower(), parts.scheme), parts.netloc, path, "", "")
    )


class OpenEnvConnection(ServerConnection):
    """An open connection to one OpenEnv server; the arguments are those of `ServerConnection`."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._socket: Any = None
        self._turn = asyncio.Lock()
        self._owed = 0
        """Answers that were given up waiting for; they come before the next one."""
        self._listed: list[Any] = []
        self._tool_calls = False
        """The server's actions are calls of its tools."""
        self._remote_done = False
        """One of its tools is `done`."""
        self._notes: list[str] = []
        self._rewards: list[float] | None = None
        """Rewards of the steps of the episode under way; None before the first episode."""
        self._steps = 0
        """Steps of the episode under way."""
        self._no_reward = ""
        """Text that stood for a reward in the episode under way, and is none."""
        self._last: str | bytes | None = None
        """The last answer, as it came."""

    async def answers(self) -> bool:
        """True if an OpenEnv server is at the address. Asks over HTTP alone, and never raises."""
        try:
            async with asyncio.timeout(self.timeout), self._client(self.spec.url or "") as web:
                schema = await self._describe(web, "/schema")
        except Exception:
            return False
        return isinstance(schema.get("action"), Mapping) and isinstance(
            schema.get("observation"), Mapping
        )

    async def request(
        self, method: str, params: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> Mapping[str, Any]:
        """Answer `tools/list` and `tools/call` as an MCP server would; no other method is known.

        Raises:
            RpcError: The server refuses the action.
            ConnectError: The connection is gone, or no answer came in time. After a timeout the
                connection stays usable.
        """
        if self._socket is None or self._owner is None or self._owner.done():
            raise self._why()
        if method == "tools/list":
            return {"tools": self._listed}
        if method != "tools/call" or params is None:
            raise RpcError(_METHOD_NOT_FOUND, f"an OpenEnv server does not know {method}")
        name, arguments = str(params.get("name")), params.get("arguments")
        given = dict(arguments) if isinstance(arguments, Mapping) else {}
        async with self._turn:
            if name == SETUP:
                return await self._reset(given, timeout)
            if name == EVALUATE:
                return await self._evaluate(given, timeout)
            return await self._step(name, given, timeout)

    async def pages(self, method: str, field: str) -> tuple[list[Any], list[str]]:
        """All entries of a listing, and warnings about what is left out."""
        return list((await self.request(method)).get(field, [])), list(self._notes)

    async def learn_headers(self, tools: list[Any]) -> None:
        """Do nothing: OpenEnv has no headers of that kind."""

    # The connection

    def _client(self, url: str) -> Any:
        import httpx2

        # Compressed, a small response could unpack to any size.
        headers = {"accept-encoding": "identity", **self.spec.headers}
        hooks: dict[str, list[Any]] = {"response": [self._note_response]}
        return web_client(
            self._watch,
            headers=headers,
            timeout=httpx2.Timeout(self.timeout),
            verify=tls_context(),
            mounts=past_proxies(url),
            event_hooks=hooks,
        )

    async def _over_http(self, url: str) -> None:
        await asyncio.to_thread(_import_socket)
        base = base_url(url)
        socket_url = f"ws{base.removeprefix('http')}/ws"
        try:
            async with self._client(base) as web:
                schema = await self._describe(web, "/schema")
                about = await self._describe(web, "/metadata", wanted=False)
                async with web.websocket(
                    socket_url,
                    max_message_size_bytes=_MOST_BYTES,
                    keepalive_ping_timeout_seconds=None,
                ) as socket:
                    self._socket = socket
                    self._introduce(about)
                    await self._learn(schema.get("action"))
                    self._ready.set()
                    await self._stop.wait()
                    with contextlib.suppress(Exception):  # it may be gone already
                        await socket.send_text(json.dumps(message("close")))
        except BaseException as error:
            from httpx2.websockets import WebSocketUpgradeError

            for leaf in leaf_errors(error):
                if isinstance(leaf, WebSocketUpgradeError):
                    status = leaf.response.status_code
                    raise http_status_error(
                        ResponseInfo(status, base), self.spec, self.written, self.secrets
                    ) from None
            raise
        finally:
            self._socket = None

    async def _describe(self, web: Any, path: str, *, wanted: bool = True) -> Mapping[str, Any]:
        response = await web.get(base_url(self.spec.url or "") + path)
        if response.status_code != 200:
            if not wanted:
                return {}
            info = ResponseInfo(
                response.status_code,
                str(response.url),
                response.headers.get("content-type", "").lower(),
                response.headers.get("www-authenticate", ""),
                response.headers.get("location", ""),
            )
            if info.status == 404:
                raise ConnectError(
                    f"404: there is no OpenEnv server at {self._shown}",
                    fix="Give the address without the path of its socket.",
                )
            raise http_status_error(info, self.spec, self.written, self.secrets)
        description = self._read(response.content)
        if not isinstance(description, dict):
            raise self._foreign(f"the answer to {path} is no JSON object")
        return description

    def _introduce(self, about: Mapping[str, Any]) -> None:
        def text(name: str) -> str:
            value = about.get(name)
            return value if isinstance(value, str) else ""

        self.server = (text("name"), text("version"))
        self.instructions = text("description")
        self.protocol = PROTOCOL
        self.capabilities = {"tools": {}}

    async def _learn(self, action: Any) -> None:
        """Find out what the agent's tools are."""
        schema = dict(action) if isinstance(action, Mapping) else {"type": "object"}
        properties = schema.get("properties")
        properties = dict(properties) if isinstance(properties, Mapping) else {}
        title = schema.get("title")
        self._tool_calls = "tool_name" in properties or title in (
            "Action",
            "CallToolAction",
            "ListToolsAction",
        )
        if not self._tool_calls:
            properties.pop("metadata", None)
            if properties:
                schema["properties"] = properties
            about = schema.get("description")
            words = (
                about
                if isinstance(about, str)
                else f"An action: {title}."
                if isinstance(title, str)
                else "An action."
            )
            self._listed = [
                {"name": STEP, "description": words, "inputSchema": schema},
                _SETUP_TOOL,
                _EVALUATE_TOOL,
            ]
            return
        tools: list[Any] = []
        for entry in await self._remote_tools():
            name = entry.get("name") if isinstance(entry, Mapping) else None
            if name == _DONE:
                self._remote_done = True
            elif name in _OWN:
                self._notes.append(
                    f"the tool {name} of the OpenEnv server is left out: hudtui has one of its own "
                    "here"
                )
            else:
                tools.append(entry)
        self._listed = [*tools[:_MOST_TOOLS], _SETUP_TOOL, _EVALUATE_TOOL]
        if len(tools) > _MOST_TOOLS:
            self._notes.append(
                f"the server lists too many tools: the first {_MOST_TOOLS:,} are used, the others "
                "left out"
            )

    async def _remote_tools(self) -> list[Any]:
        question = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        answer = await self._ask(message("mcp", question), None)
        if answer.get("type") == "mcp":
            data = answer.get("data")
            result = data.get("result") if isinstance(data, Mapping) else None
            tools = result.get("tools") if isinstance(result, Mapping) else None
            if isinstance(tools, list):
                return tools
        answer = await self._ask(message("step", LIST_TOOLS), None)
        observation = read_observation(answer.get("data"))
        tools = observation.fields.get("tools") if observation is not None else None
        if not isinstance(tools, list):
            raise self._foreign("its actions are tool calls, and it does not list its tools")
        return tools

    async def _ask(self, request: Mapping[str, Any], timeout: float | None) -> Mapping[str, Any]:
        """Send a message and return the answer to it.

        Raises:
            ConnectError: The connection is gone, no answer came in time, or it is not of the
                protocol.
        """
        from httpx2.websockets import HTTPXWSException, WebSocketDisconnect

        limit = self.timeout if timeout is None else timeout
        socket = self._socket
        try:
            text = json.dumps(request, ensure_ascii=False).encode("utf-8", "replace").decode()
        except (ValueError, TypeError, RecursionError):
            raise RpcError(_REFUSED, "the arguments cannot be written as JSON") from None
        try:
            async with asyncio.timeout(limit):
                if not self._owed:
                    await self._drop_repeated(socket)
                await socket.send_text(text)
                self._owed += 1
                while True:
                    answer = await socket.receive_text()
                    self._owed -= 1
                    if self._owed == 0:
                        break
                self._last = answer
        except ConnectError:
            raise
        except TimeoutError:
            raise timeout_error(
                self.spec, limit, None, self.secrets, str(request["type"])
            ) from None
        except WebSocketDisconnect as error:
            if error.code == 1009:
                raise too_much_error(repr(self.spec.name), excess_words(_MOST_BYTES)) from None
            why = (
                f"It said: {self.secrets.hide(clean_line(error.reason, 200))}"
                if error.reason
                else None
            )
            raise self._gone(why) from None
        except HTTPXWSException as error:
            raise self._gone(None if not str(error) else clean_line(str(error), 200)) from None
        except Exception as error:  # the stream behind the socket: closed, or broken
            raise self._gone(clean_line(f"{type(error).__name__}: {error}", 200)) from None
        parsed = self._read(answer)
        if not isinstance(parsed, dict) or not isinstance(parsed.get("type"), str):
            raise self._foreign(f"a message without a type: {clean_line(words_of(parsed), 200)}")
        return parsed

    async def _drop_repeated(self, socket: Any) -> None:
        """Take an answer that came twice off the socket.

        Answers have no ids, and the next call would take it for its own.

        Raises:
            ConnectError: Another message came that nobody asked for.
        """
        with contextlib.suppress(TimeoutError):
            while await socket.receive_text(timeout=_EXTRA_SECONDS) == self._last:
                pass
            raise self._foreign("a message that nobody asked for")

    def _read(self, raw: str | bytes) -> Any:
        data = mended(raw.encode("utf-8", "replace") if isinstance(raw, str) else raw)
        if excess := excess_of(len(data), count_values(data), _MOST_BYTES):
            raise too_much_error(repr(self.spec.name), excess)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            text = clean_line(data[:2000].decode("utf-8", "replace"), 200)
            raise self._foreign(f"something that is not JSON: {text or 'nothing'}") from None

    @property
    def _shown(self) -> str:
        return self.secrets.hide(mask_url(self.spec.url or ""))

    def _gone(self, why: str | None) -> ConnectError:
        self._stop.set()
        return ConnectError(
            f"the OpenEnv server {self._shown} has ended the connection",
            why=why,
            fix="Connect again.",
        )

    def _foreign(self, what: str) -> ConnectError:
        return ConnectError(
            f"{self._shown} does not speak OpenEnv's protocol",
            why=f"It sent {self.secrets.hide(what)}.",
        )

    # The episode

    async def _reset(self, arguments: dict[str, Any], timeout: float | None) -> Mapping[str, Any]:
        answer = await self._observe(message("reset", arguments), timeout)
        self._rewards, self.over, self._steps, self._no_reward = [], answer.done, 0, ""
        return _result(answer.fields, {})

    async def _step(
        self, name: str, arguments: dict[str, Any], timeout: float | None
    ) -> Mapping[str, Any]:
        if not self._tool_calls and name != STEP:
            raise RpcError(_REFUSED, f"Unknown tool: {name}")
        if self._rewards is None:
            await self._reset({}, timeout)
        if self.over:
            raise RpcError(_REFUSED, "the episode is over")
        action = call_action(name, arguments) if self._tool_calls else arguments
        answer = await self._observe(message("step", action), timeout)
        assert self._rewards is not None
        self._steps += 1
        if answer.reward is not None:
            self._rewards.append(answer.reward)
        self.over = answer.done
        return _result(answer.fields, {"reward": answer.reward, "done": answer.done})

    async def _evaluate(
        self, arguments: Mapping[str, Any], timeout: float | None
    ) -> Mapping[str, Any]:
        which = arguments.get("of", "sum")
        if which not in ("sum", "last"):
            raise RpcError(_REFUSED, "`of` is sum or last")
        if (
            self._remote_done and self._rewards is not None and not self.over
        ):  # the agent's own `done` ends the episode here alone
            await self._step(_DONE, {}, timeout)
        rewards = self._rewards or []
        reward = (sum(rewards) if which == "sum" else rewards[-1]) if rewards else 0.0
        score: dict[str, Any] = {"rewards": len(rewards), "done": self.over}
        if self._no_reward:
            score["problem"] = f"a step had the reward {self._no_reward}, which is no number"
        elif self._steps and self.over and not rewards:
            score["problem"] = "the episode is over, and no step had a reward"
        else:
            score = {"reward": reward, **score}
        return {
            "content": [{"type": "text", "text": json.dumps(score)}],
            "structuredContent": score,
        }

    async def _observe(self, request: Mapping[str, Any], timeout: float | None) -> Observation:
        """The observation that the server answers with.

        Raises:
            RpcError: It refuses the action.
            ConnectError: It cannot continue the session.
        """
        answer = await self._ask(request, timeout)
        if answer["type"] == "error":
            error = read_error(answer.get("data"))
            text = error.text + _details(error.errors)
            lost = request["type"] == "step" and re.search(_STATE_LOST, text) is not None
            if error.code in ACTION_ERRORS and not lost:
                raise RpcError(_REFUSED, text)
            raise ConnectError(
                f"the OpenEnv server {self._shown} cannot continue this session",
                why=self.secrets.hide(clean_line(text, 300)),
                fix="Lower the number of episodes at once."
                if error.code == "CAPACITY_REACHED"
                else None,
            )
        observation = (
            read_observation(answer.get("data")) if answer["type"] == "observation" else None
        )
        if observation is None:
            raise self._foreign(
                f"{clean_line(answer['type'], 40)} where an observation was expected"
            )
        self._no_reward = observation.no_reward or self._no_reward
        return observation


def _details(errors: Any) -> str:
    """Faults of single fields of an action, as a server's validation words them."""
    problems = []
    for entry in errors[:5] if isinstance(errors, list) else ():
        if isinstance(entry, Mapping):
            place = entry.get("loc")
            where = ".".join(str(part) for part in place[:8]) if isinstance(place, list) else ""
            problems.append(
                ": ".join(
                    part
                    for part in (clean_line(where, 80), clean_line(str(entry.get("msg")), 160))
                    if part
                )
            )
    return f" ({'; '.join(problems)})" if problems else ""


def _result(observation: Mapping[str, Any], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """An observation as the result of an MCP tool."""
    images = (
        [_image(entry) for entry in observation["images"]]
        if isinstance(observation.get("images"), list)
        else []
    )
    blocks = [image for image in images if image is not None]
    if "tool_name" in observation and ("result" in observation or "error" in observation):
        error, result = observation.get("error"), observation.get("result")
        if isinstance(error, Mapping):
            text = str(error.get("message") or error.get("error_type") or "the call failed")
            return {"content": [{"type": "text", "text": text}], "isError": True}
        if isinstance(result, Mapping) and isinstance(result.get("content"), list):
            return {
                "content": [*result["content"], *blocks],
                "structuredContent": {**_plain(result.get("structured_content")), **beside},
                "isError": result.get("is_error") is True,
            }
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        return {
            "content": [{"type": "text", "text": text}, *blocks],
            "structuredContent": dict(beside),
        }
    shown = {name: value for name, value in observation.items() if name != "metadata" or value}
    if isinstance(shown.get("text"), str):
        text = shown["text"]
    elif len(shown) == 1 and isinstance(only := next(iter(shown.values())), str):
        text = only
    else:
        text = json.dumps(shown, ensure_ascii=False)
    structured = {**{name: value for name, value in shown.items() if name != "images"}, **beside}
    return {
        "content": [{"type": "text", "text": text}, *blocks],
        "structuredContent": structured,
        "isError": observation.get("is_error") is True,
    }


def _plain(structured: Any) -> dict[str, Any]:
    return dict(structured) if isinstance(structured, Mapping) else {}


def _image(entry: Any) -> dict[str, Any] | None:
    """The image block of a data: URL."""
    if not isinstance(entry, str) or not entry.startswith("data:"):
        return None
    head, comma, data = entry[5:].partition(",")
    kind, _, coding = head.partition(";")
    return (
        {"type": "image", "data": data, "mimeType": kind} if comma and coding == "base64" else None
    )


def _import_socket() -> None:
    """Import what the socket needs, which takes a moment: call it in a thread."""
    import httpx2.websockets  # noqa: F401
