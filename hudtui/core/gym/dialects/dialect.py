"""The declaration of a dialect, and what a reply in one is read as."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from hudtui.core.environment.values import Tool
from hudtui.core.gym.reply import Call, ParseFailure, Reply

Schemas: TypeAlias = Literal["none", "prompt", "apart"]
"""How a model learns of the tools: by the configuration's own prompt, by a section that the dialect
adds to it, or apart from it, as tools of a request or of a chat template."""


class Reading(NamedTuple):
    """What a reply says in a dialect."""

    parts: Reply
    calls: tuple[Call | ParseFailure, ...] = ()
    """The calls outside of thoughts, in their order, with those that cannot be read."""
    ends: bool = False
    """True for a reply that ends the episode because it makes no call."""


Read: TypeAlias = Callable[[str, bool], Reading]
"""Reads a reply; the flag says that a thought is expected. Takes time linear in the reply's
length, and never raises."""


@dataclass(frozen=True)
class Dialect:
    """One form of calls: how they are read, written and taught."""

    name: str
    title: str
    """The form in a few words, with an example."""
    read: Read
    write: Callable[[str, Mapping[str, Any]], str]
    """Returns a reply that makes one call, by its name and its arguments."""
    well_formed: str
    """What a reply needs for the part `xml` of format compliance; `action` needs a call that can be
    read."""
    spoken: Callable[[str], str]
    """Returns what a reply says beside thoughts and calls."""
    think: Callable[[str], str]
    """Returns a text as the thought that stands before a call."""
    schemas: Schemas = "none"
    teach: Callable[[Sequence[Tool], bool], str] = lambda tools, thinking: ""
    """Returns what the prompt must say of the tools; empty where it needs to say nothing."""
    answer: Callable[[str], str] = lambda observation: observation
    """Returns a tool's answer as the text of the message that shows it."""
    several: bool = False
    """True if a reply may make several calls; `parser.parallel` says which are played."""

    def functions(self, tools: Iterable[Tool]) -> list[dict[str, Any]]:
        """Return the tools that a request, or a chat template, is given apart from the prompt.

        Empty where the dialect keeps none apart.
        """
        return [as_function(tool) for tool in tools] if self.schemas == "apart" else []


def as_function(tool: Tool) -> dict[str, Any]:
    """Return a tool in the form of an OpenAI request."""
    schema = tool.input_schema or {"type": "object", "properties": {}}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": dict(schema),
        },
    }
