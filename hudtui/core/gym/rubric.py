"""The components of an episode's reward, and the reward in an evaluate tool's answer."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.environment.values import ToolResult
from hudtui.core.gym.interpreter import Interpretation
from hudtui.core.gym.values import GymConfig

REWARD_KEYS = ("reward", "grade", "score")
"""Keys of an evaluate tool's answer that hold the reward; the first key present counts."""

_LONGEST_JSON = 1_000_000
_MOST_WRAPPINGS = 8
_MOST_BLOCKS = 20
_NOISE = 1e-9
_FENCED = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:e[+-]?[0-9]{1,9})?"
    r"|[+-]?(?:nan|inf(?:inity)?)|true|false"
)
_BOOLEANS = {"true": True, "false": False}


@dataclass
class FormatCount:
    """Number of replies that kept to the expected form, without the replies themselves."""

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

        The share of replies with the expected tags and the share of tool texts that parse, weighted
        as the `parser` section says; 0 without replies. Without any tool text nothing has parsed.
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


def total_reward(
    task_completion: float, execution: float, format_compliance: float, config: GymConfig
) -> float:
    """Return the reward: the components, weighted as `rubric.weights` says.

    The weights need not sum to 1.
    """
    weights = config.weights
    return (
        weights["task_completion"] * task_completion
        + weights["tool_execution"] * execution
        + weights["format_compliance"] * format_compliance
    )


def find_reward(result: ToolResult) -> tuple[float, bool]:
    """Return the reward in the answer of an evaluate tool.

    Of all parts of the answer, structured content first, count in this order:

    1. an object's `reward`, `grade` or `score`, the first that is a number; else its `subscores`
       times weights;
    2. an object's `success`, true or false; or an answer that is nothing but a number, or true or
       false.

    A number may be a text of its own. An object may stand in `{"result": ...}`, be a text, or stand
    in a fenced block of a text. A sentence holds no reward, whatever numbers it names. A reward
    that is not finite is none: see `why_no_reward`.

    Returns:
        The reward, and whether the answer holds one. An error answer holds none.
    """
    if result.is_error:
        return 0.0, False
    reward = _first_number(result)
    return (0.0, False) if reward is None or not math.isfinite(reward) else (reward, True)


def why_no_reward(result: ToolResult) -> str:
    """Say why an answer of an evaluate tool holds no reward, for messages.

    The answer is one of those.
    """
    number = _first_number(result)
    if number is None:
        return "the evaluator returned no `reward`: docs/configuration.md says what counts as one"
    return f"the evaluator returned the reward {number}, and that is no finite number"


def reward_warning(completion: float) -> str | None:
    """Warning about a reward outside 0 to 1, shown once in a run; None for any other."""
    if -_NOISE <= completion <= 1 + _NOISE:
        return None
    return (
        f"an evaluator gave the reward {completion:g}, outside 0 to 1: it counts as it is, and "
        "outweighs the other parts"
    )


def _first_number(result: ToolResult) -> float | None:
    """The first reward in an answer, finite or not."""
    texts = [
        block.text for block in result.blocks if block.type == "text" and block.text is not None
    ]
    answers = [_unwrapped(result.structured), *(_unwrapped(text) for text in texts)]
    strong = (_reward_in(answer) for answer in answers)
    whole = (
        answers if len(texts) <= 1 else answers[:1]
    )  # one text of several is not the whole answer
    weak = (_success(answer) for answer in answers)
    bare = (_number(answer) for answer in whole)
    return next((number for number in (*strong, *weak, *bare) if number is not None), None)


def _unwrapped(answer: Any) -> Any:
    """Value inside a text or a wrapping object.

    That of JSON, also of a fenced block, and of `{"result": value}`.
    """
    for _ in range(_MOST_WRAPPINGS):
        if isinstance(answer, str):
            read = _json_in(answer)
            if read is None:
                return answer
            answer = read
        elif isinstance(answer, Mapping) and answer.keys() == {"result"}:
            answer = answer[
                "result"
            ]  # how MCP servers wrap an answer that they cannot describe as an object
        else:
            break
    return answer


def _json_in(text: str) -> Any:
    """Value of a text as JSON, also in a fenced block.

    An object, or a text in quotes; or the number in a block that is all.
    None for any other text.
    """
    if len(text) > _LONGEST_JSON:
        return None
    blocks = [block[1].strip() for block in itertools.islice(_FENCED.finditer(text), _MOST_BLOCKS)]
    for part in (text.strip(), *blocks):
        if part[:1] in ("{", '"'):
            with contextlib.suppress(ValueError, RecursionError):
                return json.loads(part, object_pairs_hook=_unique)
    alone = _FENCED.fullmatch(text.strip())
    return alone[1].strip() if alone is not None and _number(alone[1]) is not None else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members


def _reward_in(answer: Any) -> float | None:
    if not isinstance(answer, Mapping):
        return None
    for key in REWARD_KEYS:
        number = _number(answer.get(key))
        if number is not None:
            return number
    return _from_subscores(answer.get("subscores"), answer.get("weights"))


def _success(answer: Any) -> float | None:
    success = answer.get("success") if isinstance(answer, Mapping) else None
    return float(success) if isinstance(success, bool) else None


def _number(value: Any) -> float | None:
    """The value as a number, which may not be finite.

    None where it is no number, no boolean, and no text that is one.
    """
    if isinstance(value, str):
        written = value.strip().lower()
        if not _NUMBER.fullmatch(written):
            return None
        value = _BOOLEANS.get(written, written)
    elif not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _from_subscores(subscores: Any, weights: Any) -> float | None:
    """The sum of subscores times weights.

    An object of numbers beside an object of weights, or a list of objects with both.
    """
    parts: list[tuple[float | None, float | None]]
    if isinstance(subscores, Mapping) and subscores:
        if not isinstance(weights, Mapping) or not weights:
            return None
        parts = [
            (_number(value), _number(weights.get(name, 0))) for name, value in subscores.items()
        ]
    elif isinstance(subscores, Sequence) and not isinstance(subscores, str) and subscores:
        if not all(isinstance(part, Mapping) for part in subscores):
            return None
        parts = [
            (_number(part.get("value", part.get("score"))), _number(part.get("weight", 1)))
            for part in subscores
        ]
    else:
        return None
    result = 0.0
    for value, weight in parts:
        if value is None or weight is None:
            return None
        result += value * weight
    return result
