"""HUD v6 environments: a control channel of one JSON-RPC object a line over TCP.

They are not MCP servers. What can be learnt without starting anything is who they are and which
tasks they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any

from hudtui.core.environment.bounds import count_values, excess_of
from hudtui.core.environment.source import Source
from hudtui.core.environment.values import Analysis, Prompt, Server
from hudtui.core.errors import ConnectError
from hudtui.core.text import clean_line

PROTOCOL = "hud-v6"

_LONGEST_LINE = 64 * 1024 * 1024


async def analyze_hud_v6(source: Source, *, timeout: float) -> Analysis:
    """Ask a HUD v6 environment who it is and what tasks it has.

    The tasks stand as prompts in the analysis.

    Args:
        source: With an `address`.
        timeout: Seconds for all of it.

    Raises:
        ConnectError: Nothing answers there, or not in this protocol, or not in time.
    """
    assert source.address is not None
    host, port = source.address
    try:
        async with asyncio.timeout(timeout):
            return await _look(source, host, port)
    except TimeoutError:
        raise ConnectError(
            f"{source.text} gave no answer within {timeout:g} s",
            fix="Is it a HUD v6 environment (hud serve)?",
        ) from None
    except OSError as error:
        raise ConnectError(
            f"nothing answers at {source.text}",
            why=error.strerror or str(error),
            fix="Check that the environment is being served (hud serve), and the port.",
        ) from None


async def _look(source: Source, host: str, port: int) -> Analysis:
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port, limit=_LONGEST_LINE)
    try:
        channel = _ControlChannel(source.text, reader, writer)
        hello = await channel.ask("hello")
        connected = time.perf_counter()
        listed = await channel.ask("tasks.list")
        done = time.perf_counter()
        with contextlib.suppress(ConnectError):
            await channel.ask("bye")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    env = hello.get("env")
    env = env if isinstance(env, Mapping) else {}
    warnings = [
        "This is a HUD v6 environment: it has tasks, which stand here as prompts, and no MCP tools."
    ]
    bindings = hello.get("bindings")
    kinds = [_capability(entry) for entry in bindings] if isinstance(bindings, list) else []
    if kinds:
        warnings.append(f"It offers these capabilities to an agent: {', '.join(kinds)}.")
    prompts: list[Prompt] = []
    tasks = listed.get("tasks")
    for index, task in enumerate(tasks if isinstance(tasks, list) else []):
        name = task.get("id") if isinstance(task, Mapping) else None
        if not isinstance(name, str):
            warnings.append(f"task {index + 1} has no id and is left out")
            continue
        schema = task.get("args")
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        description = task.get("description")
        prompts.append(
            Prompt(
                name,
                description if isinstance(description, str) else "",
                tuple(properties) if isinstance(properties, Mapping) else (),
            )
        )
    return Analysis(
        source=source.text,
        server=Server(str(env.get("name") or ""), str(env.get("version") or "")),
        protocol=PROTOCOL,
        prompts=tuple(prompts),
        timings={"connect": connected - began, "list": done - connected},
        warnings=tuple(warnings),
    )


class _ControlChannel:
    def __init__(
        self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._name = name
        self._reader = reader
        self._writer = writer
        self._count = 0

    async def ask(self, method: str) -> Mapping[str, Any]:
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": {}}
        self._writer.write(json.dumps(request).encode() + b"\n")
        await self._writer.drain()
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:
                raise self._foreign(f"a line of more than {_LONGEST_LINE >> 20} MiB") from None
            if not line:
                raise ConnectError(
                    f"{self._name} closed the connection when asked for {method}", fix=_HINT
                )
            if excess := excess_of(len(line), count_values(line), _LONGEST_LINE):
                raise self._foreign(excess)
            try:
                answer = json.loads(line)
            except (ValueError, RecursionError):
                raise self._foreign(clean_line(line[:200].decode(errors="replace"), 120)) from None
            if not isinstance(answer, dict):
                raise self._foreign(clean_line(str(answer), 120))
            if answer.get("id") != self._count:
                continue  # an event, or the answer to something else
            error = answer.get("error")
            if error is not None:
                message = error.get("message") if isinstance(error, Mapping) else error
                raise ConnectError(
                    f"{self._name} refused {method}", why=clean_line(str(message), 300)
                )
            result = answer.get("result")
            return result if isinstance(result, Mapping) else {}

    def _foreign(self, text: str) -> ConnectError:
        return ConnectError(
            f"{self._name} does not speak HUD's control protocol",
            why=f"It wrote: {text}",
            fix=_HINT,
        )


_HINT = "A HUD v4 or v5 environment is an MCP server: use http://host:port/mcp."


def _capability(entry: Any) -> str:
    if isinstance(entry, Mapping):
        entry = entry.get("kind") or entry.get("capability") or entry.get("name") or "?"
    return clean_line(str(entry), 40)
