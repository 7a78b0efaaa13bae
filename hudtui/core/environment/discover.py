"""The analysis of an environment: its tools and their kinds, hubs, resources and prompts."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hudtui.core.environment.client import DEFAULT_TIMEOUT, EnvironmentSession, OnEvent, connect
from hudtui.core.environment.connection import RpcError, ServerConnection
from hudtui.core.environment.source import Source
from hudtui.core.environment.values import (
    Analysis,
    Prompt,
    Resource,
    Server,
    Tool,
    hub_functions,
    read_prompts,
    read_resources,
    read_tools,
)
from hudtui.core.errors import ConnectError
from hudtui.core.events import Progress
from hudtui.core.text import clean_line, plural

_FUNCTIONS = re.compile(r"file:///(?P<hub>[^/]+)/functions\Z")


async def analyze(
    source: Source,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    live: bool = True,
    on_event: OnEvent | None = None,
) -> Analysis:
    """Analyze an environment.

    Args:
        source: A source from `parse_source`.
        timeout: Seconds for the start, and again for the listings.
        live: Start or reach the environment. False reads the lock file instead, where the source is
            one.
        on_event: Receives the progress.

    Raises:
        InputError: The source cannot be used (`SourceError`), or a lock file cannot be read.
        ConnectError: The environment cannot be reached, or breaks off.
    """
    tell = on_event or (lambda _: None)
    if source.kind == "lock" and not (live and source.servers):
        tell(Progress("read", f"Reading {source.text}"))
        return analysis_from_lock(source)
    if source.kind == "hud-v6":
        from hudtui.core.environment.hud_v6 import analyze_hud_v6

        tell(Progress("connect", f"Connecting to {source.text}"))
        analysis = await analyze_hud_v6(source, timeout=timeout)
        return replace(analysis, analyzed_at=_now())
    async with connect(source, timeout=timeout, on_event=on_event) as session:
        return await analyze_session(session, source, timeout=timeout, on_event=on_event)


async def analyze_session(
    session: EnvironmentSession,
    source: Source,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    on_event: OnEvent | None = None,
) -> Analysis:
    """The analysis of an environment to which a session is open.

    Raises:
        ConnectError: The connection broke, or listing took longer than `timeout` seconds.
    """
    tell = on_event or (lambda _: None)
    tell(Progress("list", "Listing resources and prompts"))
    began = time.perf_counter()
    warnings = list(session.warnings)
    resources: list[Resource] = []
    prompts: list[Prompt] = []
    tools: Sequence[Tool] = tuple(session.tools.values())
    try:
        async with asyncio.timeout(timeout):
            for link in session.links:
                resources += await _resources(link, warnings)
                prompts += await _prompts(link, warnings)
            hubs, undeclared = find_hubs(tools, resources)
            for hub in undeclared:
                if functions := await _functions(session.links, hub):
                    hubs[hub] = functions
    except TimeoutError:
        raise ConnectError(
            f"the environment was not listed within {timeout:g} s",
            fix="Give it more time with --timeout.",
        ) from None
    for link in session.links:
        count, first = link.stray_output
        if count:
            warnings.append(
                f"the server {link.spec.name!r} writes other text to standard output ({count} "
                f"lines, the first: {first}); only protocol messages belong there"
            )
    warnings += session.declined
    timings = dict(session.timings)
    timings["list"] = timings.get("list", 0.0) + time.perf_counter() - began
    images = [spec.image for spec in source.servers if spec.image]
    tools = add_hub_functions(tools, hubs)
    tell(Progress("done", plural(len(session.tools), "tool"), 1, 1))
    return Analysis(
        source=source.text,
        server=Server(
            ", ".join(link.server[0] or link.spec.name for link in session.links),
            ", ".join(link.server[1] for link in session.links),
        ),
        protocol=", ".join(dict.fromkeys(link.protocol for link in session.links)),
        tools=_hide_tools(session, tools),
        hubs=hubs,
        resources=tuple(
            Resource(**session.secrets.hide_tree(vars(resource))) for resource in resources
        ),
        prompts=tuple(prompts),
        timings={name: round(seconds, 4) for name, seconds in timings.items()},
        warnings=tuple(session.secrets.hide(warning) for warning in warnings),
        instructions=session.secrets.hide(
            "\n\n".join(link.instructions for link in session.links if link.instructions)
        ),
        image=source.image or (images[0] if images else None),
        analyzed_at=_now(),
    )


def analysis_from_lock(source: Source) -> Analysis:
    """The analysis that a lock file contains; nothing is started.

    Raises:
        InputError: The file cannot be read.
    """
    from hudtui.core.lockfile import read_lock

    assert source.lock is not None
    lock = read_lock(source.lock)
    tools, warnings = read_tools(
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in lock.tools
    )
    resources, more = read_resources(lock.resources)
    prompts, yet_more = read_prompts((*lock.prompts, *lock.scenarios))
    hubs, _ = find_hubs(tools, resources)
    hubs.update(lock.hubs)
    warnings += [*lock.notices, *more, *yet_more]
    if not lock.tools:
        reason = " (format 2.0 lists tasks instead)" if lock.version == "2.0" else ""
        warnings.append(f"the lock file lists no tools{reason}")
    if lock.version == "2.0":
        tasks = [
            {"name": task.get("id") or task.get("name"), **task}
            for task in lock.tasks
            if isinstance(task, Mapping)
        ]
        task_prompts, problems = read_prompts(tasks)
        prompts, warnings = (*prompts, *task_prompts), [*warnings, *problems]
    timings = {} if lock.initialize_ms is None else {"connect": lock.initialize_ms / 1000}
    return Analysis(
        source=source.text,
        server=Server(clean_line(lock.image or "", 200), lock.environment_version or ""),
        tools=add_hub_functions(tools, hubs),
        hubs=hubs,
        resources=resources,
        prompts=prompts,
        timings=timings,
        warnings=tuple(warnings),
        image=lock.image,
    )


async def _resources(link: ServerConnection, warnings: list[str]) -> list[Resource]:
    resources: list[Resource] = []
    if "resources" in link.capabilities:
        for method, field in (
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
        ):
            resources += await _listed(link, method, field, read_resources, warnings)
    return resources


async def _prompts(link: ServerConnection, warnings: list[str]) -> list[Prompt]:
    return (
        await _listed(link, "prompts/list", "prompts", read_prompts, warnings)
        if "prompts" in link.capabilities
        else []
    )


async def _listed(
    link: ServerConnection, method: str, field: str, read: Any, warnings: list[str]
) -> list[Any]:
    try:
        entries, problems = await link.pages(method, field)
    except RpcError as error:
        if (
            error.code != -32601 or method == "resources/list"
        ):  # many servers have resources and do not know templates
            warnings.append(
                f"the server {link.spec.name!r} refuses {method}: {clean_line(error.message, 200)}"
            )
        return []
    values, more = read(entries)
    warnings += [*problems, *more]
    return list(values)


async def _functions(links: Sequence[ServerConnection], hub: str) -> tuple[str, ...]:
    """The functions of a hub by its resource `file:///<hub>/functions`.

    None where that cannot be read.
    """
    from hudtui.core.errors import InputError
    from hudtui.core.files import parse_json

    for link in links:
        try:
            raw = await link.request("resources/read", {"uri": f"file:///{hub}/functions"})
            contents = raw.get("contents")
            names = (
                parse_json(contents[0]["text"], "functions") if isinstance(contents, list) else None
            )
        except (RpcError, InputError, KeyError, IndexError, TypeError):
            continue
        if isinstance(names, list):
            return tuple(name for name in names if isinstance(name, str))
    return ()


def _hide_tools(session: EnvironmentSession, tools: Sequence[Tool]) -> tuple[Tool, ...]:
    hide = session.secrets
    return tuple(
        replace(
            tool,
            description=hide.hide(tool.description),
            input_schema=hide.hide_tree(tool.input_schema),
        )
        for tool in tools
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def find_hubs(
    tools: Sequence[Tool], resources: Sequence[Resource]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return hubs by schema, and the names of further tools that a resource declares hubs.

    Such a resource is `file:///<hub>/functions`.
    """
    hubs = {
        tool.name: functions for tool in tools if (functions := hub_functions(tool)) is not None
    }
    names = {tool.name for tool in tools}
    declared = [match["hub"] for resource in resources if (match := _FUNCTIONS.match(resource.uri))]
    return hubs, [hub for hub in declared if hub in names and hub not in hubs]


def add_hub_functions(tools: Sequence[Tool], hubs: Mapping[str, Sequence[str]]) -> tuple[Tool, ...]:
    """Return `tools`, and after them one hidden tool for each unlisted function of a hub.

    Unlisted are those that the server does not list itself.

    A listed tool `int_<function>` is such a function, and hidden as well.
    """
    owners = {function: hub for hub, functions in hubs.items() for function in functions}
    marked = tuple(
        replace(tool, kind="hidden", hub=owners[tool.name.removeprefix("int_")])
        if tool.name.startswith("int_") and tool.name.removeprefix("int_") in owners
        else tool
        for tool in tools
    )
    listed = {(tool.hub, tool.name.removeprefix("int_")) for tool in marked if tool.hub}
    functions = tuple(
        Tool(function, f"Function of the hub {hub}", None, "hidden", hub)
        for hub, functions in hubs.items()
        for function in functions
        if (hub, function) not in listed
    )
    return marked + functions
