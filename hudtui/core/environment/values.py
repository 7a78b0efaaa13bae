"""What is known of an environment, as frozen values: an `Analysis` and the results of its tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

ToolKind = Literal["agent", "setup", "evaluate", "lifecycle", "hidden"]
"""Who a tool is for.

The agent; the task's set-up or evaluation; other lifecycle work; or nobody directly, being a hub's function.
"""


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

    def to_json(self) -> dict[str, Any]:
        """The form of `hudtui env analyze --json`."""
        return {
            "name": self.name,
            "description": self.description,
            "input_schema": self.input_schema,
            "kind": self.kind,
            "hub": self.hub,
        }


@dataclass(frozen=True)
class Server:
    """Who answered. Both are empty when the source is read offline and does not say."""

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
    """Everything discovered about one environment source."""

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
        """The form of `hudtui env analyze --json`; `analysis_from_json` reads it back."""
        return {
            "source": self.source,
            "server": {"name": self.server.name, "version": self.server.version},
            "protocol": self.protocol,
            "tools": [tool.to_json() for tool in self.tools],
            "hubs": {hub: list(functions) for hub, functions in self.hubs.items()},
            "resources": [vars(resource) for resource in self.resources],
            "prompts": [{**vars(prompt), "arguments": list(prompt.arguments)} for prompt in self.prompts],
            "timings": dict(self.timings),
            "warnings": list(self.warnings),
            "instructions": self.instructions,
            "image": self.image,
            "analyzed_at": self.analyzed_at,
        }


def analysis_from_json(data: Mapping[str, Any]) -> Analysis:
    """The analysis that `Analysis.to_json` wrote.

    Raises:
        ValueError: A field is missing or of the wrong kind.
    """
    try:
        return Analysis(
            source=str(data["source"]),
            server=Server(str(data["server"]["name"]), str(data["server"]["version"])),
            protocol=data["protocol"],
            tools=tuple(
                Tool(tool["name"], tool["description"], tool["input_schema"], tool["kind"], tool["hub"]) for tool in data["tools"]
            ),
            hubs={hub: tuple(functions) for hub, functions in data["hubs"].items()},
            resources=tuple(Resource(**resource) for resource in data["resources"]),
            prompts=tuple(Prompt(**{**prompt, "arguments": tuple(prompt["arguments"])}) for prompt in data["prompts"]),
            timings={name: float(seconds) for name, seconds in data["timings"].items()},
            warnings=tuple(data["warnings"]),
            instructions=data.get("instructions") or "",
            image=data.get("image"),
            analyzed_at=data.get("analyzed_at"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is no analysis: {error!r}") from None


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
    """What a tool answered. An error answer is a result too: `is_error`."""

    blocks: tuple[ContentBlock, ...] = ()
    structured: Any = None
    is_error: bool = False

    @property
    def text(self) -> str:
        """All text blocks, joined with newlines. Not cleaned: whoever shows it does that."""
        return "\n".join(block.text for block in self.blocks if block.type == "text" and block.text is not None)

    @property
    def repeats_text(self) -> bool:
        """Whether the structured content says what the text says: servers send both, for clients that know only one."""
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
    """An open connection to an environment: what an episode, a form or a test needs of it."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The server's tools by name, as listed when the session began."""
        ...

    async def call_tool(self, name: str, arguments: Mapping[str, Any], *, timeout: float | None = None) -> ToolResult:
        """Call a tool and wait for its answer.

        Args:
            name: A tool of the server; hub functions are called through their hub.
            arguments: Sent as they are.
            timeout: Seconds; None for the session's own limit.

        Raises:
            ConnectError: The server died, or did not answer in time.
        """
        ...
