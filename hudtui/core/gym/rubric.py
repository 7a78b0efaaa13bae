"""The components of an episode's reward, and the reward in an evaluate tool's answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.environment.values import ToolResult
from hudtui.core.errors import InputError
from hudtui.core.files import parse_json
from hudtui.core.gym.interpreter import Interpretation
from hudtui.core.gym.values import GymConfig

REWARD_KEYS = ("reward", "grade", "score")
"""Keys of an evaluate tool's answer that hold the reward; the first key present counts."""

_LONGEST_JSON = 1_000_000


@dataclass
class FormatCount:
    """How many replies kept to the expected form, without the replies themselves."""

    replies: int = 0
    tags: int = 0
    """Replies with the expected tags."""
    texts: int = 0
    """Replies with a tool text."""
    calls: int = 0
    """Tool texts that parse."""

    def add(self, interpretation: Interpretation) -> None:
        self.replies += 1
        self.tags += interpretation.format.xml
        self.texts += interpretation.tool is not None
        self.calls += interpretation.format.action

    def score(self, config: GymConfig) -> float:
        """Return how far the replies kept to the expected form, 0 to 1.

        The share of replies with the expected tags and the share of tool texts that parse, weighted as the `parser` section says;
        0 without replies. Without any tool text nothing has parsed.
        """
        weights = config.parser.xml_weight + config.parser.action_weight
        if not self.replies or weights <= 0:
            return 0.0
        tags = self.tags / self.replies
        calls = self.calls / self.texts if self.texts else 0.0
        return (config.parser.xml_weight * tags + config.parser.action_weight * calls) / weights


def format_score(interpretations: Iterable[Interpretation], config: GymConfig) -> float:
    """Return `FormatCount.score` of some replies."""
    count = FormatCount()
    for interpretation in interpretations:
        count.add(interpretation)
    return count.score(config)


def tool_execution(successes: int, attempts: int) -> float:
    """Return the share of attempted calls that succeeded; 0 without attempts."""
    return successes / attempts if attempts else 0.0


def total_reward(task_completion: float, execution: float, format_compliance: float, config: GymConfig) -> float:
    """Return the reward: the components, weighted as `rubric.weights` says. The weights need not sum to 1."""
    weights = config.weights
    return (
        weights["task_completion"] * task_completion
        + weights["tool_execution"] * execution
        + weights["format_compliance"] * format_compliance
    )


def find_reward(result: ToolResult) -> tuple[float, bool]:
    """Return the reward in the answer of an evaluate tool.

    Returns:
        The reward, and whether the answer holds one. The reward of an error answer is 0, and so is that of an answer without one.
    """
    if result.is_error:
        return 0.0, True
    found = _reward_in(result.structured)
    if found is None:
        for block in result.blocks:
            if block.type == "text" and block.text is not None:
                found = _reward_in(_json_object(block.text))
                if found is not None:
                    break
    return (0.0, False) if found is None else (found, True)


def _json_object(text: str) -> Any:
    stripped = text.strip()
    if not stripped.startswith("{") or len(stripped) > _LONGEST_JSON:
        return None
    try:
        return parse_json(stripped, "the answer")
    except InputError:
        return None


def _reward_in(answer: Any) -> float | None:
    if not isinstance(answer, Mapping):
        return None
    for key in REWARD_KEYS:
        number = _number(answer.get(key))
        if number is not None:
            return number
    found = _from_subscores(answer.get("subscores"), answer.get("weights"))
    if found is None and answer.keys() == {"result"}:
        # How MCP servers wrap an answer that they cannot describe as an object.
        return _reward_in(answer["result"])
    return found


def _number(value: Any) -> float | None:
    """The value as a finite number, where it is a number, a text that is one, or a boolean; else None."""
    if not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _from_subscores(subscores: Any, weights: Any) -> float | None:
    """The sum of subscores times weights: an object of numbers beside an object of weights, or a list of objects with both."""
    parts: list[tuple[float | None, float | None]]
    if isinstance(subscores, Mapping) and subscores:
        if not isinstance(weights, Mapping) or not weights:
            return None
        parts = [(_number(value), _number(weights.get(name, 0))) for name, value in subscores.items()]
    elif isinstance(subscores, Sequence) and not isinstance(subscores, str) and subscores:
        if not all(isinstance(part, Mapping) for part in subscores):
            return None
        parts = [(_number(part.get("value", part.get("score"))), _number(part.get("weight", 1))) for part in subscores]
    else:
        return None
    result = 0.0
    for value, weight in parts:
        if value is None or weight is None:
            return None
        result += value * weight
    return result if math.isfinite(result) else None
