"""A gym configuration as frozen values.

What the agent may say, and which tool call each action becomes.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.transform import Transform

DEFAULT_MAX_TURNS = 30
"""Turns of an episode when the configuration does not say (`defaults.max_turns`)."""

DEFAULT_WEIGHTS: Mapping[str, float] = {
    "task_completion": 0.8,
    "tool_execution": 0.1,
    "format_compliance": 0.1,
}
"""Weights of the reward's components when `rubric.weights` does not say, in the order they are
shown."""


OBSERVATIONS: Final = ("text", "structured", "both")
"""What an agent is shown of a tool's answer: its text, its structured content where it has some, or
both where they are not the same."""


class _Missing(enum.Enum):
    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing.MISSING
"""No default at all, as opposed to a default of null."""

MissingType: TypeAlias = Literal[_Missing.MISSING]


@dataclass(frozen=True)
class ParserSettings:
    """The `parser` section."""

    use_thinking: bool = True
    """True if a reply is expected to carry a think block."""
    xml_weight: float = 0.6
    action_weight: float = 0.4
    """Both as written, not normalised."""
    dialect: str = "text"
    """The form of calls; a name of `dialects.known.DIALECTS`."""
    parallel: str = "first"
    """What is played of a reply with several calls, in dialects that have such replies: `first`,
    `all`, or none (`refuse`)."""


@dataclass(frozen=True)
class Static:
    """A parameter that is the same in every call."""

    value: Any


@dataclass(frozen=True)
class FromArg:
    """A parameter taken from one argument of the action."""

    arg: str
    default: Any | MissingType = MISSING
    """Sent as written, without the transform, when the argument is missing."""
    transform: Transform | None = None
    use_context: bool = False


@dataclass(frozen=True)
class FromArgs:
    """A parameter that is the list of several arguments."""

    args: tuple[str, ...]
    defaults: tuple[Any, ...] = ()
    """Defaults of the first arguments, in their order. Further arguments have none."""


Parameter: TypeAlias = Static | FromArg | FromArgs


@dataclass(frozen=True)
class ActionMapping:
    """Tool call that one action of the agent becomes."""

    name: str
    tool: str
    """The MCP tool that is called."""
    positional: tuple[str, ...] = ()
    """Names that positional arguments take, in order. Keyword arguments use the same names."""
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    """Parameter of the tool -> where its value comes from, in the order of the file."""
    keywords: tuple[str, ...] = ()
    """Further arguments that parameters are taken from. They can only be given by name."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of all arguments, positional ones first."""
        return (*self.positional, *self.keywords)


class RewardParts(Protocol):
    """The code behind `rubric.reward`: parts of the reward beside the three.

    `core.rollouts.reward` loads it.
    """

    def weight(self, name: str) -> float:
        """The weight of a part."""
        ...

    def parts(self, episode: Any, task: Any) -> Mapping[str, Any] | Awaitable[Mapping[str, Any]]:
        """Return the parts of an episode by name.

        Each is a number or something to be awaited that gives one.
        """
        ...


@dataclass(frozen=True)
class ExampleRound:
    """A message to the agent and its reply, shown before the task.

    They are turns of the conversation.
    """

    user: str
    assistant: str


@dataclass(frozen=True)
class GymConfig:
    """A gym configuration; parts of it that have errors are left out."""

    system_prompt: str = ""
    examples: tuple[ExampleRound, ...] = ()
    """Rounds between the system prompt and the task, in the order of the file."""
    parser: ParserSettings = ParserSettings()
    mappings: Mapping[str, ActionMapping] = field(default_factory=dict)
    """Action -> mapping, in the order of the file; those with errors are in `invalid` instead."""
    invalid: Mapping[str, str] = field(default_factory=dict)
    """Action -> the error in its mapping, which is the answer to an agent that calls the action."""
    partial: Mapping[str, ActionMapping] = field(default_factory=dict)
    """Action -> what can be read of an invalid mapping, for `lint`. Never applied to a reply."""
    weights: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_WEIGHTS))
    """`rubric.weights` merged over the defaults, key by key; with the weights of the user's own
    parts."""
    reward: str = ""
    """`rubric.reward`: the code of the user's own parts of the reward, as `FILE.py:NAME` or
    `package.module:NAME`."""
    own_parts: RewardParts | None = None
    """Loaded code of `reward`. None in a configuration that was only read."""
    max_turns: int = DEFAULT_MAX_TURNS
    allow_unmapped: bool = False
    actions: tuple[str, ...] | None = None
    """The names that an agent may call beside `done`; None: all. `mappings` has no other."""
    left_out: tuple[str, ...] = ()
    """The names in `action_mappings` that are not among `actions`."""
    observations: str = "text"
    """What an agent is shown of a tool's answer; one of `OBSERVATIONS`."""
    job: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The whole document, with the sections that hudtui does not use."""
    path: str | None = None
    """The file that the configuration was read from."""

    def offers(self, name: str) -> bool:
        """Return whether `actions` lets an agent call a name."""
        return self.actions is None or name in self.actions

    @property
    def rounds(self) -> tuple[ExampleRound, ...]:
        """The examples that are shown: none where calls stand apart from the text."""
        return () if DIALECTS[self.parser.dialect].schemas == "apart" else self.examples

    def opening(self, added: str = "") -> tuple[dict[str, str], ...]:
        """The chat messages that stand before a task.

        The system prompt, where there is one, and the examples.

        `added` is what a task adds to the system prompt.
        """
        prompt = "\n\n".join(text for text in (self.system_prompt, added) if text)
        system = [{"role": "system", "content": prompt}] if prompt else []
        rounds = (
            message
            for example in self.rounds
            for message in (
                {"role": "user", "content": example.user},
                {"role": "assistant", "content": example.assistant},
            )
        )
        return (*system, *rounds)
