"""Sessions with environments: one MCP server or several behind one set of tools.

    async with connect(source) as session:
        await session.call_tool("move", {"direction": "left"})

A session may be used from any task. Leaving the block ends every server that was started, also when
the block is cancelled.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hudtui.core.environment.bundled import is_bundled
from hudtui.core.environment.connection import RpcError, ServerConnection
from hudtui.core.environment.engine import engine_note
from hudtui.core.environment.episode_place import EpisodePlace, episode_place
from hudtui.core.environment.errors import INTERNAL_ERROR, rpc_fault
from hudtui.core.environment.login_file import LOGIN_LIMIT, LoginOptions
from hudtui.core.environment.openenv import PROTOCOL as OPENENV
from hudtui.core.environment.openenv import OpenEnvConnection, base_url, is_openenv
from hudtui.core.environment.program import program_of
from hudtui.core.environment.servers import Secrets, ServerSpec, fill_variables, parse_mcp_config
from hudtui.core.environment.source import Source, with_engine
from hudtui.core.environment.values import ContentBlock, Tool, ToolResult, read_result, read_tools
from hudtui.core.errors import ConnectError, SourceError
from hudtui.core.events import Progress
from hudtui.core.masking import mask_url
from hudtui.core.text import clean_line
from hudtui.core.trust import require
from hudtui.core.variables import Lookup

DEFAULT_TIMEOUT = 60.0
"""Seconds: for the start and the handshake, for a listing, and for a call."""

_PORTS = 3
"""How many ports of an episode are tried, where other programs take them before its server does."""
_PASSED_ON = re.compile(
    r"(?:\w*Error: )?MCP error (-?[0-9]{1,9}): (.{1,2000})", re.DOTALL | re.IGNORECASE
)
"""Text of an error of the protocol in the SDK of TypeScript."""

OnEvent = Callable[[Progress], None]


class EnvironmentSession:
    """An open connection to an environment, with all its servers.

    `values.Session` is what most users need of it.
    """

    def __init__(self, links: Sequence[ServerConnection], secrets: Secrets) -> None:
        self.links = tuple(links)
        self.secrets = secrets
        self.warnings: list[str] = []
        """Warnings for the user: unset variables, malformed tools, clashing names."""
        self.timings: dict[str, float] = {}
        """Seconds: `connect` and `list`."""
        self.place: EpisodePlace | None = None
        """Folder, id and port of the episode, where a server names one of them."""
        self._tools: dict[str, Tool] = {}
        self._routes: dict[str, tuple[ServerConnection, str]] = {}

    @property
    def tools(self) -> Mapping[str, Tool]:
        """All tools by name, as listed when the session began.

        Where two servers have a tool of the same name, the first server's keeps it, and the others'
        are called `server_tool`.
        """
        return self._tools

    @property
    def declined(self) -> tuple[str, ...]:
        """Questions of the servers to the user that were declined, in words."""
        return tuple(text for link in self.links for text in link.declined.values())

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        """Call a tool and return its answer.

        An error that the server answers, in whatever form, is a result with `is_error`.

        Args:
            name: A listed tool; with several servers also `server_tool`. With one server an
                unlisted name is sent all the same: hubs hide functions that can be called.
            arguments: Sent as they are.
            timeout: Seconds; None for the session's own limit.

        Raises:
            ConnectError: The server died, did not answer in time, answered with what is no answer,
                or has lost the session.
        """
        route = self._routes.get(name)
        if route is None:
            if len(self.links) != 1:
                return ToolResult((ContentBlock("text", text=f"Unknown tool: {name}"),), None, True)
            route = (self.links[0], name)
        link, tool = route
        try:
            result = read_result(
                await link.request(
                    "tools/call", {"name": tool, "arguments": dict(arguments)}, timeout=timeout
                )
            )
        except ConnectError as error:
            raise await _explained(link, error) from None
        except RpcError as error:
            content = (ContentBlock("text", text=error.message),)
            result = ToolResult(content, None, True, internal=error.code == INTERNAL_ERROR)
        if result.is_error and (passed := _PASSED_ON.fullmatch(result.text.strip())) is not None:
            # A proxy tells the error of the server behind it as the tool's own.
            fault = rpc_fault(
                link.spec.name,
                int(passed[1]),
                link.secrets.hide(passed[2]),
                f"{tool} {dict(arguments)}",
            )
            if fault is not None:
                raise fault
            result = replace(result, internal=int(passed[1]) == INTERNAL_ERROR)
        if result.is_error and name in self._tools and _unknown(tool, result.text):
            raise ConnectError(
                f"the server {link.spec.name!r} no longer has the tool {clean_line(tool, 80)}, "
                "which it listed",
                why=f"It answered: {link.secrets.hide(clean_line(result.text, 200))}",
                fix=(
                    "Another server answers at its address, or it was started again with other "
                    "tools. Connect again."
                ),
            )
        return replace(result, over=True) if link.over else result

    async def list_tools(self) -> None:
        """Fill `tools` from every server.

        Raises:
            ConnectError: A server refuses to list its tools, or the connection broke.
        """
        for link in self.links:
            if "tools" not in link.capabilities:
                self.warnings.append(f"the server {link.spec.name!r} offers no tools")
                continue
            try:
                entries, warnings = await link.pages("tools/list", "tools")
            except RpcError as error:
                raise ConnectError(
                    f"the server {link.spec.name!r} does not list its tools", why=error.message
                ) from None
            except ConnectError as error:
                raise await _explained(link, error) from None
            await link.learn_headers(entries)
            tools, more = read_tools(entries)
            self.warnings += [*warnings, *more]
            for tool in tools:
                self._add(link, tool)

    def _add(self, link: ServerConnection, tool: Tool) -> None:
        full = f"{link.spec.name}_{tool.name}"
        if tool.name in self._tools:
            self.warnings.append(
                f"two servers have a tool {tool.name!r}: that of {link.spec.name!r} is called "
                f"{full!r}"
            )
            self._tools[full] = replace(tool, name=full)
        else:
            self._tools[tool.name] = tool
            self._routes[tool.name] = (link, tool.name)
        if len(self.links) > 1:
            self._routes.setdefault(full, (link, tool.name))


@asynccontextmanager
async def connect(
    source: Source | Mapping[str, Any],
    *,
    timeout: float = DEFAULT_TIMEOUT,
    lookup: Lookup | None = None,
    on_event: OnEvent | None = None,
    login: LoginOptions | None = None,
    folder: Path | None = None,
    kept: Path | None = None,
) -> AsyncIterator[EnvironmentSession]:
    """A session with an environment, for the length of the block.

    Servers that name variables of the episode (`episode_place`) get their values of this session.

    Args:
        source: A source from `parse_source`, or an `mcp_config`.
        timeout: Seconds: for the start and the handshake, for listing the tools, and for a call
            that has no limit of its own.
        lookup: Returns the values of variables; by default the source's own lookup, else the
            process environment.
        on_event: Receives the progress of connecting.
        login: The login that the user asks for; None where only a kept one counts.
        folder: The project folder, in which templates of the episode's folder lie; by default the
            source's own, else the current one.
        kept: Gets the episode's folder where the episode fails; see `EpisodePlace.keep`.

    Raises:
        Untrusted: A file of the project names the source, and the user has not agreed to it.
        SourceError: The source cannot be connected to, or a required variable is not set.
        ConnectError: There is no connection, or it broke within the block; the error says why.
    """
    if isinstance(source, Source):
        lookup = lookup or source.lookup
        folder = folder or source.folder
        specs = _servers(source)
        await asyncio.to_thread(require, source.folder, source.powers)
    else:
        specs = parse_mcp_config(source, "mcp_config")
    lookup = lookup or os.environ.get
    folder = folder or Path.cwd()
    for left in reversed(range(_PORTS)):
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(episode_place(specs, folder, lookup, kept=kept))
            values = lookup if place is None else place.over(lookup)
            opening = _session(specs, values, timeout, on_event, login)
            try:
                session = await stack.enter_async_context(opening)
            except ConnectError:
                if place is None or not left or not await asyncio.to_thread(place.lost_its_port):
                    raise
                continue  # in another place: its folder may have been changed
            session.place = place
            yield session
            return


@asynccontextmanager
async def _session(
    specs: tuple[ServerSpec, ...],
    lookup: Lookup,
    timeout: float,
    on_event: OnEvent | None,
    login: LoginOptions | None,
) -> AsyncIterator[EnvironmentSession]:
    tell = on_event or (lambda _: None)
    # A bundled environment imports its own modules, whatever lies in the current folder.
    specs = tuple(
        replace(spec, env={**spec.env, "PYTHONSAFEPATH": "1"}) if is_bundled(spec) else spec
        for spec in specs
    )
    specs = tuple(await asyncio.to_thread(lambda: [with_engine(spec) for spec in specs]))
    hidden = Secrets()
    filled = [fill_variables(spec, lookup, hidden) for spec in specs]
    links = [
        (OpenEnvConnection if is_openenv(spec.url or "") else ServerConnection)(
            spec, written=written, timeout=timeout, secrets=hidden, login=login
        )
        for (spec, _), written in zip(filled, specs, strict=True)
    ]
    session = EnvironmentSession(links, hidden)
    session.warnings += [warning for _, warnings in filled for warning in warnings]
    if (
        any(spec.contained and spec.command == "podman" for spec in specs)
        and (note := engine_note()) is not None
    ):
        session.warnings.append(note)
    try:
        began = time.perf_counter()
        tell(
            Progress(
                "connect",
                ", ".join(
                    f"{'Starting' if spec.command else 'Connecting to'} {spec.where}"
                    for spec in specs
                ),
            )
        )
        session.links = tuple(await _open_all(links))
        session.warnings += [
            (
                f"the server {link.spec.name!r} speaks OpenEnv: as {mask_url(_socket_url(link))} "
                "it is reached at once"
            )
            for link in session.links
            if link.protocol == OPENENV and not is_openenv(link.spec.url or "")
        ]
        session.timings["connect"] = time.perf_counter() - began
        tell(Progress("tools", "Listing tools"))
        began = time.perf_counter()
        try:
            async with asyncio.timeout(timeout + (LOGIN_LIMIT if login else 0.0)):
                await session.list_tools()
        except TimeoutError:
            raise ConnectError(
                f"the tools were not listed within {timeout:g} s",
                fix="Give it more time, or check what the server does.",
            ) from None
        session.timings["list"] = time.perf_counter() - began
        yield session
    except BaseException as error:
        await _close_all(links, hurry=isinstance(error, asyncio.CancelledError))
        raise
    await _close_all(links, hurry=False)


def _unknown(tool: str, text: str) -> bool:
    """True if the text of an error says that the server does not know a tool, and no more."""
    name = rf"['\"`]?{re.escape(tool)}['\"`]?"
    says = (
        rf"(?:unknown|no such|no) tool(?: named)?:? {name}",
        rf"tool:? {name} (?:was |is )?(?:not found|unknown|not registered|does not exist"
        r"|not available)",
        rf"tool not found:? {name}",
    )
    return (
        re.fullmatch(rf"(?:mcp error -?\d+: )?(?:{'|'.join(says)})\.?", text.strip(), re.IGNORECASE)
        is not None
    )


def mask_result(result: ToolResult, secrets: Secrets) -> ToolResult:
    """A copy of `result` that can be shown: the keys that the server was given are masked."""
    blocks = tuple(ContentBlock(**secrets.hide_tree(dict(vars(block)))) for block in result.blocks)
    return replace(result, blocks=blocks, structured=secrets.hide_tree(result.structured))


def _servers(source: Source) -> tuple[ServerSpec, ...]:
    if source.kind == "hud-v6":
        raise SourceError(
            "a HUD v6 environment has tasks, not MCP tools: it can be analyzed, but an MCP agent "
            "cannot play it",
            fix="Use an environment that serves MCP (HUD v4 or v5).",
        )
    if not source.servers:
        raise SourceError(
            "this lock file names no image to run",
            fix="Name the image or the address of the environment instead.",
        )
    return source.servers


async def _open_all(links: list[ServerConnection]) -> list[ServerConnection]:
    """Open all connections at once. The first failure counts, and ends the wait for the others.

    Args:
        links: The connections; those that are made in place of one of them are added.
    """
    tasks = [asyncio.create_task(_open(link, links)) for link in tuple(links)]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def _open(link: ServerConnection, links: list[ServerConnection]) -> ServerConnection:
    """Open a connection.

    Where a URL turns out to be that of an OpenEnv server, the connection to that.
    """
    if link.spec.listens:
        link.program = await program_of(
            link.spec, link.written, timeout=link.timeout, secrets=link.secrets
        )
        await link.program.open()
    try:
        await link.open()
        return link
    except ConnectError as error:
        if link.spec.url is None or link.spec.sse or not link.refused:
            raise await _explained(link, error) from None
        other = OpenEnvConnection(
            link.spec, written=link.written, timeout=link.timeout, secrets=link.secrets
        )
        if not await other.answers():
            raise await _explained(link, error) from None
    links.append(other)
    await other.open()
    return other


async def _explained(link: ServerConnection, error: ConnectError) -> ConnectError:
    """The error of a connection, with what became of the program behind it."""
    return error if link.program is None else await link.program.explained(error)


def _socket_url(link: ServerConnection) -> str:
    return f"ws{base_url(link.spec.url or '').removeprefix('http')}"


async def _close_all(links: Sequence[ServerConnection], *, hurry: bool) -> None:
    """Close all connections, and then leave the programs behind them."""
    programs = [link.program for link in links if link.program is not None]
    try:
        await asyncio.gather(*[asyncio.create_task(link.close(hurry=hurry)) for link in links])
    finally:
        await asyncio.gather(
            *[asyncio.create_task(program.close(hurry=hurry)) for program in programs]
        )
