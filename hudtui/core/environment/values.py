"""An environment as frozen values.

Its `Analysis`, the results of its tools, and how both are read from a server's JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol

from hudtui.core.plain import convert
from hudtui.core.text import clean_line

ToolKind = Literal["agent", "setup", "evaluate", "lifecycle", "hidden"]
"""The user of a tool: the agent; the task's setup or evaluation; other lifecycle work; `hidden`
for a function of a hub."""


@dataclass(frozen=True)
class Tool:
    """One MCP tool as its server describes it."""

    name: str
    description: str = ""
    input_schema: Mapping[str, Any] | None = None
    """JSON Schema of the arguments; None when the server gave none, or none that is an object."""
    kind: ToolKind = "agent"
    hub: str | None = None
    """Name of the hub tool that dispatches to this function; None for an ordinary tool."""
    deprecated: bool = False
    """The server says so beside the description: in the title, an annotation or the schema."""

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui env show --json`."""
        return vars(self).copy()


@dataclass(frozen=True)
class Server:
    """The server's own name and version; empty when the source is read offline and does not say."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True)
class Resource:
    """A resource, or a template when `uri` holds `{...}`."""

    uri: str
    name: str = ""
    description: str = ""
    mime_type: str | None = None


@dataclass(frozen=True)
class Prompt:
    """A prompt that the server offers, with the names of its arguments."""

    name: str
    description: str = ""
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Analysis:
    """Everything known about one environment source."""

    source: str
    """The source as the user wrote it, secrets masked."""
    server: Server = Server()
    protocol: str | None = None
    """Negotiated MCP protocol version; `hud-v6` for a control channel; None when read offline."""
    tools: tuple[Tool, ...] = ()
    hubs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Hub tool name -> names of the functions it dispatches to."""
    resources: tuple[Resource, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    """Seconds: `connect` (start-up and handshake), `list` (all listings)."""
    warnings: tuple[str, ...] = ()
    instructions: str = ""
    image: str | None = None
    """Container image behind the source, where there is one: tasks are pointed at it."""
    analyzed_at: str | None = None
    """ISO 8601 time (UTC) of the live look; None for a source that was only read."""

    @property
    def agent_tools(self) -> tuple[Tool, ...]:
        """The tools that an agent may use."""
        return tuple(tool for tool in self.tools if tool.kind == "agent")

    def tool(self, name: str) -> Tool | None:
        """The tool called `name`, or None."""
        return next((tool for tool in self.tools if tool.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui env show --json`; `analysis_from_json` reads it back."""
        return {
            **asdict(self),
            "hubs": {hub: list(functions) for hub, functions in self.hubs.items()},
        }


def analysis_from_json(data: Any) -> Analysis:
    """The analysis that `Analysis.to_json` wrote.

    Raises:
        ValueError: A field is missing or of the wrong kind.
    """
    import msgspec

    if not isinstance(data, Mapping) or _ANALYSIS_FIELDS - data.keys():
        raise ValueError("this is not an analysis: fields are missing")
    try:
        return convert(data, Analysis)
    except msgspec.ValidationError as error:
        raise ValueError(f"this is not an analysis: {error}") from None


_ANALYSIS_FIELDS = {
    "source",
    "server",
    "protocol",
    "tools",
    "hubs",
    "resources",
    "prompts",
    "timings",
    "warnings",
}


@dataclass(frozen=True)
class ContentBlock:
    """One content block of a tool's result."""

    type: str
    """`text`, `image`, `audio`, `resource`, `resource_link`, or what a newer server sends."""
    text: str | None = None
    data: str | None = None
    """Base64 of an image or a sound."""
    mime_type: str | None = None
    uri: str | None = None


@dataclass(frozen=True)
class ToolResult:
    """A tool's answer. An error answer is a result too: `is_error`."""

    blocks: tuple[ContentBlock, ...] = ()
    structured: Any = None
    is_error: bool = False
    over: bool = False
    """The environment says that the episode ends with this answer."""
    malformed: bool = False
    """It lacks content, or a text: an agent is shown what there is, and nothing is judged by it."""
    internal: bool = False
    """The server says that it failed itself (JSON-RPC's internal error, -32603): an agent is shown
    the error, and nothing is judged by it."""

    @property
    def text(self) -> str:
        """All text blocks, joined with newlines; not cleaned for display."""
        return "\n".join(
            block.text for block in self.blocks if block.type == "text" and block.text is not None
        )

    @property
    def repeats_text(self) -> bool:
        """True if the structured content says the same as the text.

        Servers send both, for clients that know only one.
        """
        text = self.text
        if self.structured is None or not text:
            return False
        if self.structured in (text, {"result": text}):
            return True
        try:
            return bool(json.loads(text) in (self.structured, [self.structured]))
        except (ValueError, RecursionError):
            return False


class Session(Protocol):
    """An open connection to an environment, as an episode, a form or a test needs it."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The server's tools by name, as listed when the session began."""
        ...

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None
    ) -> ToolResult:
        """Call a tool and wait for its answer.

        Args:
            name: A tool of the server; hub functions are called through their hub.
            arguments: Sent as they are.
            timeout: Seconds; None for the session's own limit.

        Raises:
            ConnectError: The server died, or did not answer in time.
        """
        ...


SETUP_TOOLS = frozenset(("setup", "_setup", "setup_environment", "setup_task"))
EVALUATE_TOOLS = frozenset(("evaluate", "_evaluate", "evaluate_environment", "evaluate_task"))
LIFECYCLE_TOOLS = frozenset(
    (
        "response",
        "_response",
        "teardown",
        "cleanup",
        "shutdown",
        "close_environment",
        "healthcheck",
        "health_check",
    )
)
"""Customary names of tools that manage the environment itself; they are not for an agent."""


def read_tools(entries: Iterable[Any]) -> tuple[list[Tool], list[str]]:
    """Tools in their order with their kinds, and warnings: a malformed entry costs itself alone.

    Args:
        entries: Objects with `name`, `description` and `inputSchema` (or `input_schema`), as a
            server or a lock file lists them.
    """
    tools: dict[str, Tool] = {}
    warnings: list[str] = []
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str) or not name:
            warnings.append(
                f"tool {index + 1} has no name and is left out: {clean_line(repr(entry), 80)}"
            )
            continue
        if name in tools:
            warnings.append(
                f"the tool {clean_line(name, 80)} is listed twice; the first one counts"
            )
            continue
        if _runs_as_a_task(entry):
            warnings.append(
                f"the tool {clean_line(name, 80)} runs only as a task of MCP, which hudtui does "
                "not start, and is left out"
            )
            continue
        schema = entry.get("inputSchema", entry.get("input_schema"))
        if schema is None:
            warnings.append(f"the tool {clean_line(name, 80)} has no input schema")
        elif not isinstance(schema, Mapping):
            warnings.append(
                f"the input schema of the tool {clean_line(name, 80)} is not an object and is left "
                "out"
            )
            schema = None
        old = _is_deprecated(entry, schema)
        tools[name] = Tool(name, _text(entry.get("description")), schema, deprecated=old)
    hubs = {
        name: functions
        for name, tool in tools.items()
        if (functions := hub_functions(tool)) is not None
    }
    hidden = {f"int_{name}" for names in hubs.values() for name in names}
    return [replace(tool, kind=_kind(tool.name, hidden)) for tool in tools.values()], warnings


def _runs_as_a_task(entry: Mapping[str, Any]) -> bool:
    """True if the server refuses an ordinary call: MCP of 2025-11-25, tool-level negotiation."""
    execution = entry.get("execution")
    return isinstance(execution, Mapping) and execution.get("taskSupport") == "required"


def _is_deprecated(entry: Mapping[str, Any], schema: Mapping[str, Any] | None) -> bool:
    notes = [schema, *(entry.get(name) for name in ("annotations", "_meta", "meta"))]
    places = [entry, *(note for note in notes if isinstance(note, Mapping))]
    titles = [title for place in places if isinstance(title := place.get("title"), str)]
    return any(place.get("deprecated") is True for place in places) or any(
        re.search(r"(?i)[(\[]deprecated\b|\bdeprecated[)\]]|\Adeprecated\b", title)
        for title in titles
    )


def hub_functions(tool: Tool) -> tuple[str, ...] | None:
    """The functions that a tool dispatches to, when it is a hub.

    Its schema has `name` with an enum, and `arguments`.
    """
    properties = (tool.input_schema or {}).get("properties")
    if not isinstance(properties, Mapping) or "arguments" not in properties:
        return None
    names = _enum(properties.get("name"))
    return tuple(names) if names else None


def read_resources(entries: Iterable[Any]) -> tuple[tuple[Resource, ...], list[str]]:
    """Resources and resource templates, with warnings about those that have no address."""
    resources: list[Resource] = []
    warnings: list[str] = []
    for index, entry in enumerate(entries):
        uri = (entry.get("uri") or entry.get("uriTemplate")) if isinstance(entry, Mapping) else None
        if not isinstance(uri, str):
            warnings.append(
                f"resource {index + 1} has no address and is left out: "
                f"{clean_line(repr(entry), 80)}"
            )
            continue
        mime = entry.get("mimeType", entry.get("mime_type"))
        resources.append(
            Resource(
                uri,
                _text(entry.get("name")),
                _text(entry.get("description")),
                mime if isinstance(mime, str) else None,
            )
        )
    return tuple(resources), warnings


def read_prompts(entries: Iterable[Any]) -> tuple[tuple[Prompt, ...], list[str]]:
    """Prompts, with warnings about those that have no name."""
    prompts: list[Prompt] = []
    warnings: list[str] = []
    for index, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(name, str):
            warnings.append(
                f"prompt {index + 1} has no name and is left out: {clean_line(repr(entry), 80)}"
            )
            continue
        given = entry.get("arguments")
        arguments = tuple(
            argument["name"]
            for argument in (given if isinstance(given, list) else [])
            if isinstance(argument, Mapping) and isinstance(argument.get("name"), str)
        )
        prompts.append(Prompt(name, _text(entry.get("description")), arguments))
    return tuple(prompts), warnings


def read_result(raw: Mapping[str, Any]) -> ToolResult:
    """A tool's answer. A block of an unknown type keeps its type, with its JSON as text."""
    if raw.get("resultType") == "input_required":
        text = "The tool asks the user for input during the call, and there is no user to ask."
        return ToolResult((ContentBlock("text", text=text),), None, True)
    content = raw.get("content")
    blocks = tuple(
        _block(entry)
        for entry in (
            content if isinstance(content, list) else [] if content is None else [content]
        )
    )
    structured = raw.get("structuredContent")
    lacks = not isinstance(content, list | str | Mapping) and structured is None
    malformed = lacks or any(map(_lacks_text, content if isinstance(content, list) else ()))
    return ToolResult(blocks, structured, raw.get("isError") is True, malformed=malformed)


def _lacks_text(entry: Any) -> bool:
    """True for a block of text whose text is none."""
    is_text = isinstance(entry, Mapping) and entry.get("type") == "text"
    return is_text and not isinstance(entry.get("text"), str)


def _block(entry: Any) -> ContentBlock:
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
    return ContentBlock(
        kind if isinstance(kind, str) else "unknown", text=json.dumps(entry, ensure_ascii=False)
    )


def _kind(name: str, hidden: Collection[str]) -> ToolKind:
    if name in SETUP_TOOLS:
        return "setup"
    if name in EVALUATE_TOOLS:
        return "evaluate"
    if name in LIFECYCLE_TOOLS:
        return "lifecycle"
    return "hidden" if name in hidden else "agent"


def _enum(schema: Any) -> list[str]:
    if not isinstance(schema, Mapping):
        return []
    for part in (
        schema,
        *(
            part
            for key in ("anyOf", "oneOf", "allOf")
            if isinstance(schema.get(key), list)
            for part in schema[key]
        ),
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
