"""The size of what every request tells a model: the system prompt, and the schemas of the tools."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from hudtui.core.environment.values import Tool
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.values import GymConfig
from hudtui.core.text import estimated_tokens, plural

MANY_TOKENS = 4_000
"""Tokens of prompt and schemas from which they are worth a warning."""


class PromptSize(NamedTuple):
    """Tokens that stand before the task in every request."""

    prompt: int
    schemas: int
    """Of the tools, wherever the dialect puts them; 0 where it sends none."""
    tools: int
    exact: bool = False
    """True if the model's tokenizer has counted them; else they are estimated."""

    @property
    def total(self) -> int:
        return self.prompt + self.schemas


def prompt_size(config: GymConfig, tools: Sequence[Tool]) -> PromptSize:
    """Return the estimated size of a configuration's prompt.

    `tools` are what the agent can call; see `action_tools`.
    """
    dialect = DIALECTS[config.parser.dialect]
    told = dialect.teach(tools, config.parser.use_thinking)
    if functions := dialect.functions(tools):
        told += json.dumps(functions, ensure_ascii=False, default=str)
    said = "\n\n".join(message["content"] for message in config.opening())
    return PromptSize(estimated_tokens(said), estimated_tokens(told), len(tools))


def size_warning(size: PromptSize) -> str | None:
    """Return a sentence about a prompt that takes many tokens; None for any other."""
    if size.total < MANY_TOKENS:
        return None
    how = "as the model's tokenizer counts" if size.exact else "as estimated at 4 characters each"
    told = f"the prompt takes {size.prompt:,} tokens"
    if size.schemas:
        tools = plural(size.tools, "tool")
        told += f" and the schemas of {tools} take {size.schemas:,}"
    hint = "; `actions: [...]` in the configuration picks a subset of the tools"
    return f"{told} in every request, {how}{hint if size.tools > 1 else ''}"
