"""Lint beside the program: a helper process checks whole configurations, so that the interface never waits for them.

Checking is pure computation and would hold up the thread that draws, also from a thread of its own. The helper is this module run
as a program: it reads pickled requests (text, name, tools) and writes pickled findings, each answer after its length in 8 bytes.
It ends with its input. `ProcessPoolExecutor` would do the same, but starts its Python without `-P`: a `random.py` in the user's
folder would be carried out.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from collections.abc import Mapping
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.errors import HudtuiError
from hudtui.core.gym.lint.findings import Finding
from hudtui.core.python import python_command

_SAME_TOOLS = "the tools of the request before"


class LintWorker:
    """The helper process, started by the first check. For use from one event loop."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._tools: object = self
        """The tools that the helper has; itself for none yet."""
        self._turn = asyncio.Lock()

    async def check(self, text: str, name: str, tools: Mapping[str, Tool] | None) -> tuple[Finding, ...]:
        """Run `lint(text, name=name, tools=tools)` in the helper. Checks take turns; a cancelled check costs a new helper.

        Raises:
            HudtuiError: The helper cannot be started, or it ended.
        """
        async with self._turn:
            process = await self._running()
            request = (text, name, _SAME_TOOLS if self._tools is tools else None if tools is None else dict(tools))
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(pickle.dumps(request))
                await process.stdin.drain()
                size = int.from_bytes(await process.stdout.readexactly(8), "big")
                findings: tuple[Finding, ...] = pickle.loads(await process.stdout.readexactly(size))
            except (OSError, asyncio.IncompleteReadError):
                await self.close()
                raise HudtuiError("the checks broke off", fix="They start again with the next change.") from None
            except asyncio.CancelledError:
                await self.close()
                raise
            self._tools = tools
            return findings

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        transport: Any = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()  # asyncio itself waits until the pipes have been read to their ends

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *python_command("-m", "hudtui.core.gym.lint.worker"),
                    stdin=pipe,
                    stdout=pipe,
                    stderr=asyncio.subprocess.DEVNULL,
                )
            except OSError as error:
                raise HudtuiError("the checks cannot be run beside the editor", why=error.strerror or str(error)) from None
            self._tools = self
        return self._process


def main() -> None:
    """Answer until the input ends."""
    from hudtui.core.gym.lint.check import lint

    tools: Any = None
    while True:
        try:
            text, name, given = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        tools = tools if given == _SAME_TOOLS else given
        answer = pickle.dumps(lint(text, name=name, tools=tools))
        sys.stdout.buffer.write(len(answer).to_bytes(8, "big") + answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        main()
