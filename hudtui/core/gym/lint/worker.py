"""Lint beside the program: a helper process checks whole configurations, so that nothing waits for it.

Checking is pure computation and would hold up the thread that draws, also from a thread of its own. The helper is this module run
as a program: it reads one JSON object a line (`id`, `text`, `name`, and `tools` where they changed) and writes one back. It ends
with its input.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import sys
from collections.abc import Mapping
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.errors import HudtuiError
from hudtui.core.gym.lint.findings import Finding, Fix, TextEdit
from hudtui.core.python import python_command

_LIMIT = 1 << 27


def finding_from_json(data: Mapping[str, Any]) -> Finding:
    """The finding that `Finding.to_json` wrote."""

    def fix(name: str) -> Fix | None:
        found = data[name]
        return None if found is None else Fix(found["title"], tuple(TextEdit(**edit) for edit in found["edits"]))

    return Finding(**{**data, "fix": fix("fix"), "guess": fix("guess")})


class LintWorker:
    """The helper process, started by the first check. For use from one event loop."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)
        self._sent_tools: object = self
        self._start = asyncio.Lock()

    async def check(self, text: str, name: str, tools: Mapping[str, Tool] | None) -> tuple[Finding, ...]:
        """`lint(text, name=name, tools=tools)`. A caller that is cancelled meanwhile costs the helper nothing but its time.

        Raises:
            HudtuiError: The helper cannot be started, or it ended.
        """
        async with self._start:
            process = await self._running()
        number = next(self._ids)
        request: dict[str, Any] = {"id": number, "text": text, "name": name}
        if self._sent_tools is not tools:
            request["tools"] = None if tools is None else [tool.to_json() for tool in tools.values()]
            self._sent_tools = tools
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            assert process.stdin is not None
            process.stdin.write(json.dumps(request).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await process.stdin.drain()
            answer = await future
        finally:
            self._waiting.pop(number, None)
        return tuple(finding_from_json(finding) for finding in answer["findings"])

    async def close(self) -> None:
        """End the helper."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._reader is not None:
            await self._reader
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._reader is not None and not self._reader.done():
            return self._process
        await self.close()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *python_command("-m", "hudtui.core.gym.lint.worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LIMIT,
            )
        except OSError as error:
            raise HudtuiError("the checks cannot be run beside the editor", why=error.strerror or str(error)) from None
        self._sent_tools = self
        self._reader = asyncio.create_task(self._read(self._process))
        return self._process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            answer = json.loads(line)
            future = self._waiting.get(answer["id"])
            if future is not None and not future.done():
                future.set_result(answer)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(HudtuiError("the checks broke off", fix="They start again with the next change."))


def main() -> None:
    """Answer until the input ends."""
    from hudtui.core.gym.lint.check import lint

    tools: dict[str, Tool] | None = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "tools" in request:
            listed = request["tools"]
            tools = None if listed is None else {tool["name"]: Tool(**tool) for tool in listed}
        findings = lint(request["text"], name=request["name"], tools=tools)
        answer = {"id": request["id"], "findings": [finding.to_json() for finding in findings]}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main()
