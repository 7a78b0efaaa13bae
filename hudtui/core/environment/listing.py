"""From the JSON that a server answers to values, one entry at a time: a malformed one costs itself and a warning, no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hudtui.core.environment.servers import Secrets
from hudtui.core.environment.values import ContentBlock, Prompt, Resource, Tool, ToolKind, ToolResult
from hudtui.core.text import clean_line

SETUP_TOOLS = frozenset(("setup", "_setup", "setup_environment", "setup_task"))
EVALUATE_TOOLS = frozenset(("evaluate", "_evaluate", "evaluate_environment", "evaluate_task"))
LIFECYCLE_TOOLS = frozenset(
    ("response", "_response", "teardown", "cleanup", "shutdown", "close_environment", "healthcheck", "health_check")
)
"""Names by which tools of the environment's own life are known; an agent has no business with them."""

_FUNCTIONS = re.compile(r"file:///(?P<hub>[^/]+)/functions\Z")


def read_tools(
    entries: Iterable[Any], *, setup: Iterable[str] = (), evaluate: Iterable[str] = ()
) -> tuple[list[Tool], list[str]]:
    """Tools as a server or a lock file lists them.

    Args:
        entries: Objects with `name`, `description` and `inputSchema` (or `input_schema`).
        setup: Names of tools that a task uses to set up, besides the customary ones.
        evaluate: The same for the evaluation.

    Returns:
        The tools in their order, kinds told, and warnings.
    """
    found: dict[str, Tool] = {}
    warnings: list[str] = []
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            warnings.append(f"tool {index + 1} has no name and is left out: {clean_line(repr(entry), 80)}")
            continue
        if name in found:
            warnings.append(f"the tool {clean_line(name, 80)} is listed twice; the first one counts")
            continue
        schema = entry.get("inputSchema", entry.get("input_schema"))
        if schema is None:
            warnings.append(f"the tool {clean_line(name, 80)} has no input schema")
        elif not isinstance(schema, Mapping):
            warnings.append(f"the input schema of the tool {clean_line(name, 80)} is no object and is left out")
            schema = None
        found[name] = Tool(name, _text(entry.get("description")), schema)
    hubs = {name: functions for name, tool in found.items() if (functions := hub_functions(tool)) is not None}
    return [_told(tool, hubs, frozenset(setup), frozenset(evaluate)) for tool in found.values()], warnings


def hub_functions(tool: Tool) -> tuple[str, ...] | None:
    """The functions that a tool dispatches to, when it is a hub: its schema has `name` with an enum, and `arguments`."""
    properties = (tool.input_schema or {}).get("properties")
    if not isinstance(properties, Mapping) or "arguments" not in properties:
        return None
    names = _enum(properties.get("name"))
    return tuple(names) if names else None


def find_hubs(tools: Sequence[Tool], resources: Sequence[Resource]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Hubs by schema, and the names of further tools that a resource `file:///<hub>/functions` declares to be hubs."""
    hubs = {tool.name: functions for tool in tools if (functions := hub_functions(tool)) is not None}
    names = {tool.name for tool in tools}
    declared = [match["hub"] for resource in resources if (match := _FUNCTIONS.match(resource.uri))]
    return hubs, [hub for hub in declared if hub in names and hub not in hubs]


def add_hub_functions(tools: Sequence[Tool], hubs: Mapping[str, Sequence[str]]) -> tuple[Tool, ...]:
    """`tools`, and after them one hidden tool for each function of a hub that the server does not list itself.

    A listed tool `int_<function>` is such a function, and hidden as well.
    """
    owners = {function: hub for hub, functions in hubs.items() for function in functions}
    told = tuple(
        replace(tool, kind="hidden", hub=owners[tool.name.removeprefix("int_")])
        if tool.name.startswith("int_") and tool.name.removeprefix("int_") in owners
        else tool
        for tool in tools
    )
    listed = {(tool.hub, tool.name.removeprefix("int_")) for tool in told if tool.hub}
    functions = tuple(
        Tool(function, f"Function of the hub {hub}", None, "hidden", hub)
        for hub, functions in hubs.items()
        for function in functions
        if (hub, function) not in listed
    )
    return told + functions


def read_resources(entries: Iterable[Any]) -> tuple[tuple[Resource, ...], list[str]]:
    """Resources and resource templates, with warnings about those that have no address."""
    found: list[Resource] = []
    warnings: list[str] = []
    for index, entry in enumerate(entries):
        uri = (entry.get("uri") or entry.get("uriTemplate")) if isinstance(entry, Mapping) else None
        if not isinstance(uri, str):
            warnings.append(f"resource {index + 1} has no address and is left out: {clean_line(repr(entry), 80)}")
            continue
        mime = entry.get("mimeType", entry.get("mime_type"))
        found.append(
            Resource(uri, _text(entry.get("name")), _text(entry.get("description")), mime if isinstance(mime, str) else None)
        )
    return tuple(found), warnings


def read_prompts(entries: Iterable[Any]) -> tuple[tuple[Prompt, ...], list[str]]:
    """Prompts, with warnings about those that have no name."""
    found: list[Prompt] = []
    warnings: list[str] = []
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str):
            warnings.append(f"prompt {index + 1} has no name and is left out: {clean_line(repr(entry), 80)}")
            continue
        given = entry.get("arguments")
        arguments = tuple(
            argument["name"]
            for argument in (given if isinstance(given, list) else [])
            if isinstance(argument, Mapping) and isinstance(argument.get("name"), str)
        )
        found.append(Prompt(name, _text(entry.get("description")), arguments))
    return tuple(found), warnings


def read_result(raw: Mapping[str, Any]) -> ToolResult:
    """What a tool answered. A block of a type unknown here keeps its type, with its JSON as text."""
    if raw.get("resultType") == "input_required":
        text = "The tool asks the user for input in the middle of its work, and there is no user to ask."
        return ToolResult((ContentBlock("text", text=text),), None, True)
    content = raw.get("content")
    blocks = tuple(_block(entry) for entry in (content if isinstance(content, list) else [] if content is None else [content]))
    return ToolResult(blocks, raw.get("structuredContent"), raw.get("isError") is True)


def mask_result(result: ToolResult, secrets: Secrets) -> ToolResult:
    """An answer that can be shown: keys that the server was given are masked in it."""
    blocks = tuple(ContentBlock(**secrets.hide_tree(dict(vars(block)))) for block in result.blocks)
    return replace(result, blocks=blocks, structured=secrets.hide_tree(result.structured))


def _block(entry: Any) -> ContentBlock:
    import json

    if isinstance(entry, str):
        return ContentBlock("text", text=entry)
    if not isinstance(entry, Mapping):
        return ContentBlock("unknown", text=json.dumps(entry, ensure_ascii=False))
    kind = entry.get("type")
    mime = _optional(entry.get("mimeType"))
    if kind == "text":
        return ContentBlock("text", text=_text(entry.get("text")))
    if kind in ("image", "audio"):
        return ContentBlock(kind, data=_text(entry.get("data")), mime_type=mime)
    if kind == "resource_link":
        return ContentBlock(
            kind,
            text=_optional(entry.get("description")) or _optional(entry.get("name")),
            mime_type=mime,
            uri=_optional(entry.get("uri")),
        )
    inner = entry.get("resource")
    if kind == "resource" and isinstance(inner, Mapping):
        return ContentBlock(
            kind,
            text=_optional(inner.get("text")),
            data=_optional(inner.get("blob")),
            mime_type=_optional(inner.get("mimeType")),
            uri=_optional(inner.get("uri")),
        )
    return ContentBlock(kind if isinstance(kind, str) else "unknown", text=json.dumps(entry, ensure_ascii=False))


def _told(tool: Tool, hubs: Mapping[str, Sequence[str]], setup: frozenset[str], evaluate: frozenset[str]) -> Tool:
    kind: ToolKind = "agent"
    if tool.name in setup or tool.name in SETUP_TOOLS:
        kind = "setup"
    elif tool.name in evaluate or tool.name in EVALUATE_TOOLS:
        kind = "evaluate"
    elif tool.name in LIFECYCLE_TOOLS:
        kind = "lifecycle"
    elif tool.name.startswith("int_") and any(tool.name.removeprefix("int_") in functions for functions in hubs.values()):
        kind = "hidden"
    return tool if kind == "agent" else replace(tool, kind=kind)


def _enum(schema: Any) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    for part in (
        schema,
        *(part for key in ("anyOf", "oneOf", "allOf") if isinstance(schema.get(key), list) for part in schema[key]),
    ):
        if isinstance(part, Mapping):
            if isinstance(part.get("enum"), list):
                return [value for value in part["enum"] if isinstance(value, str)]
            if isinstance(part.get("const"), str):
                return [part["const"]]
    return []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _optional(value: Any) -> str | None:
    return value if isinstance(value, str) else None
