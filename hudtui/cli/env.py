"""`hudtui env`.

Look at an environment, call its tools, serve it to trainers, list those that are bundled.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.analyses import look, say_warnings
from hudtui.cli.logins import login, logins, logout
from hudtui.cli.options import Json, takes_request
from hudtui.cli.sources import (
    SourceOptions,
    TakesCommand,
    given_command,
    login_settings,
    read_source,
)
from hudtui.core.errors import InputError, ToolError
from hudtui.core.openenv.options import ServeRequest

if TYPE_CHECKING:
    from hudtui.core.environment.source import Source
    from hudtui.core.environment.values import Analysis, Tool, ToolResult
    from hudtui.core.flows.serve import Serving

_SOURCE = (
    "Bundled name, image, folder, lock file, URL, mcp_config or tcp:// address; the current folder "
    "by default."
)


app = typer.Typer(
    no_args_is_help=True, help="Inspect environments and call their tools.", rich_markup_mode=None
)


@app.command("analyze", cls=TakesCommand)
@takes_request(kind=SourceOptions)
@console.run_async()
async def analyze(
    ctx: typer.Context,
    source: Annotated[str | None, typer.Argument(help=_SOURCE)] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help=(
                "Start the environment and inspect it, even if the cache or a lock file has the "
                "answer."
            ),
        ),
    ] = False,
    *,
    request: SourceOptions,
    as_json: Json = False,
) -> None:
    """Show what an environment offers: tools with their parameters, hubs, resources, prompts.

    The result is cached in the workspace and shown the next time; --live inspects the environment
    again.
    """
    from hudtui.core.flows.login import kept_logins

    place = read_source(source, given_command(ctx), request)
    found = await look(place, live=live, timeout=request.timeout)
    kept = kept_logins(place)
    if as_json:
        console.out_json({**found.to_json(), "logins": [one.to_json() for one in kept]})
        return
    _show(found, [one.words() for one in kept])


@app.command("call", cls=TakesCommand)
@takes_request(kind=SourceOptions)
@console.run_async()
async def call(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE TOOL [ARGS-JSON]", help="The source is left out before `-- COMMAND`."
        ),
    ] = None,
    *,
    request: SourceOptions,
    as_json: Json = False,
) -> None:
    """Call one tool in a fresh session and print its answer.

    The arguments are a JSON object, or @FILE to read one. Exit code 4 if the answer is an error.
    """
    command = given_command(ctx)
    given = list(words or [])
    if not command:
        if not given:
            raise typer.BadParameter("name a source and a tool", param_hint="SOURCE TOOL")
        source: str | None = given.pop(0)
    else:
        source = None
    if not 1 <= len(given) <= 2:
        raise typer.BadParameter(
            "name a tool, and its arguments as one JSON text"
            if not given
            else f"what is {given[2]!r} for? Quote the JSON text",
            param_hint="TOOL [ARGS-JSON]",
        )
    arguments = _arguments(given[1] if len(given) > 1 else "{}")
    result = await _call(
        read_source(source, command, request), given[0], arguments, request.timeout
    )
    if as_json:
        console.out_json(
            {
                "tool": given[0],
                "is_error": result.is_error,
                "content": [
                    {name: value for name, value in vars(block).items() if value is not None}
                    for block in result.blocks
                ],
                "structured": result.structured,
            }
        )
    else:
        _show_result(result)
    if result.is_error:
        console.say(f"error: the tool {given[0]} answered with an error")
        raise typer.Exit(ToolError.exit_code)


@app.command("serve")
@takes_request(kind=ServeRequest)
@console.run_async(when_ended="all sessions are closed")
async def serve(
    config: Annotated[
        Path | None,
        typer.Argument(help="Gym configuration (YAML); without one every tool is an action."),
    ] = None,
    tasks: Annotated[
        str | None,
        typer.Argument(help="A file or folder of tasks, or a dataset on the Hub (org/name)."),
    ] = None,
    *,
    request: ServeRequest,
    as_json: Json = False,
) -> None:
    """Serve tasks to trainers over the OpenEnv protocol, until Ctrl-C.

    Each client of /ws has an environment of its own, which ends with its connection. The address
    and the token go to standard output, a line for each episode to standard error.
    """
    from hudtui.core.events import Notice, Progress
    from hudtui.core.flows.serve import Serving, exposure, serve_environment
    from hudtui.core.settings import load_settings

    request = replace(request, config=config, tasks=tasks)
    settings = load_settings(Path.cwd())
    if (told := exposure(request)) is not None:
        console.say(f"warning: {told}")
    async with contextlib.aclosing(serve_environment(request, settings)) as events:
        async for event in events:
            if isinstance(event, Serving):
                gc.freeze()  # all is imported now: collections need not walk over modules any more
                if as_json:
                    console.out_json(event.to_json())
                else:
                    _announce(event)
                sys.stdout.flush()
            elif isinstance(event, Notice | Progress):
                console.tell(event)
            else:
                console.say(f"{time.strftime('%H:%M:%S')} {event.line()}")


def _announce(serving: Serving) -> None:
    console.out(f"url      {serving.url}")
    console.out(f"socket   {serving.socket}")
    console.out(f"token    {serving.token or 'not required'}")
    console.out(f"tasks    {serving.tasks}")
    console.out(f"actions  {', '.join(serving.actions)}")
    if serving.token is not None:
        console.say(
            "Clients send the token as the header `Authorization: Bearer TOKEN`, or as the first "
            "part of the path."
        )
    console.say("Ctrl-C ends the server and its sessions.")


@app.command("list")
def list_bundled(as_json: Json = False) -> None:
    """List the environments that come with hudtui."""
    from hudtui.core.environment.bundled import BUNDLED

    if as_json:
        about = [
            {
                "name": e.name,
                "description": e.description,
                "mcp_config": e.mcp_config,
                "folder": str(e.folder),
            }
            for e in BUNDLED
        ]
        console.out_json(about)
        return
    for entry in BUNDLED:
        console.out(f"{entry.name:<12} {entry.description}")
        console.out(f"{'':<12} {entry.folder}")


app.command("login")(login)
app.command("logout")(logout)
app.command("logins")(logins)


async def _call(source: Source, tool: str, arguments: dict[str, Any], timeout: float) -> ToolResult:
    from hudtui.cli.person import Terminal
    from hudtui.core.environment.client import connect, mask_result
    from hudtui.core.flows.login import with_login
    from hudtui.core.text import did_you_mean

    async def work() -> ToolResult:
        async with connect(source, timeout=timeout, on_event=console.tell) as session:
            for warning in session.warnings:
                console.say(f"warning: {warning}")
            if tool not in session.tools:
                near = did_you_mean(tool, session.tools)
                console.say(
                    "note: the environment lists no tool "
                    f"{tool!r}{f'; did you mean {near}?' if near else ''}"
                )
            result = mask_result(await session.call_tool(tool, arguments), session.secrets)
            for question in session.declined:
                console.say(f"note: {question}")
            return result

    login = login_settings()
    return await (work() if login is None else with_login(source, Terminal(), login, work))


def _arguments(text: str) -> dict[str, Any]:
    from hudtui.core.files import parse_json, read_json

    data = read_json(text[1:]) if text.startswith("@") else parse_json(text, "the arguments")
    if not isinstance(data, dict):
        raise InputError(
            "a tool's arguments are a JSON object", fix="""For example '{"direction": "left"}'."""
        )
    return data


def _show(found: Analysis, logins: list[str]) -> None:
    from hudtui.core.environment.form_args import signature

    server = " ".join(part for part in (found.server.name, found.server.version) if part)
    console.out(f"source      {found.source}")
    about = [
        ("server", server),
        ("protocol", found.protocol),
        ("image", found.image),
        ("seen", found.analyzed_at),
    ]
    for label, value in (*about, *(("login", words) for words in logins)):
        if value:
            console.out(f"{label:<11} {value}")
    if found.timings:
        console.out(
            "timings     "
            + ", ".join(f"{name} {seconds:.2f} s" for name, seconds in found.timings.items())
        )
    if found.instructions:
        console.out(f"says        {_short(found.instructions, 200)}")
    for title, kind in (
        ("tools", "agent"),
        ("setup", "setup"),
        ("evaluation", "evaluate"),
        ("other tools", "lifecycle"),
    ):
        tools = [tool for tool in found.tools if tool.kind == kind]
        if tools or kind == "agent":
            console.out()
            console.out(f"{title} ({len(tools)})")
        for tool in tools:
            console.out(
                f"  {signature(tool)}{'  (no schema)' if tool.input_schema is None else ''}"
            )
            if tool.name in found.hubs:
                console.out_text(f"functions: {', '.join(found.hubs[tool.name])}", indent=6)
            elif tool.description:
                console.out_text(_short(tool.description, 160), indent=6)
            for line in _parameters(tool):
                console.out_text(line, indent=6)
    for title, lines in (
        (
            "resources",
            [f"{entry.uri}  {entry.mime_type or ''}".rstrip() for entry in found.resources],
        ),
        (
            "prompts",
            [
                (
                    f"{entry.name}({', '.join(entry.arguments)})  {_short(entry.description, 100)}"
                ).rstrip()
                for entry in found.prompts
            ],
        ),
    ):
        if lines:
            console.out()
            console.out(f"{title} ({len(lines)})")
        for line in lines:
            console.out(f"  {line}")
    say_warnings(found)


def _parameters(tool: Tool) -> Iterator[str]:
    """Yield a line for each parameter: type, limits, description."""
    from hudtui.core.environment.schema_words import describe_schema

    rows = describe_schema(tool.input_schema or {})
    width = min(max((len(row.name) + 2 * row.depth for row in rows), default=0), 32)
    for row in rows:
        name = "  " * row.depth + row.name
        notes = f"  ({row.notes})" if row.notes else ""
        yield f"{name:<{width}}  {row.type}{notes}" + (
            f"  {_short(row.description, 100)}" if row.description else ""
        )


def _show_result(result: ToolResult) -> None:
    for block in result.blocks:
        if block.text is not None:
            console.out(block.text)
        elif block.data is not None:
            console.out(
                f"[{block.type}: {block.mime_type or 'unknown type'}, {len(block.data) * 3 // 4:,} "
                "bytes; --json has it]"
            )
        else:
            console.out(f"[{block.type}: {block.uri or block.mime_type or 'empty'}]")
    if result.structured is not None and not result.text:
        console.out(json.dumps(result.structured, ensure_ascii=False, indent=2))


def _short(text: str, limit: int) -> str:
    from hudtui.core.text import clean_line

    return clean_line(text, limit)
