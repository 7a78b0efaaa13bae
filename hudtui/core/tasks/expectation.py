"""Evaluators without code: what a task expects of answers, of the last reply and of the turns.

`evaluate` of a task is a list of parts. Each names what it looks at, a call made after the last
turn, the last reply or the number of turns, and what it expects there; or a model that judges, of
which the verdict is seen. `expectation_form` reads them; `judge` here gives each part its score
from what was seen, without any effect.

A score is 0 to 1. Conditions of one object must all hold; `all` counts the lowest score, `any` the
highest, `not` the opposite, and a list the mean by weight. The reward is the mean of the parts by
weight.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

from hudtui.core.environment.values import ToolResult
from hudtui.core.pattern import LinearPattern
from hudtui.core.tasks.task import ToolCall
from hudtui.core.text import clean_line

_NUMBER = re.compile(
    r"(?<![A-Za-z_.\d])[+\u2212-]?(?!0[xX][0-9A-Fa-f])"
    r"(?:[0-9]{1,3}+(?:[,\u00a0\u202f][0-9]{3}(?![0-9]))+|[0-9]++(?:_[0-9]++)*|(?=\.[0-9]))"
    r"(?:\.[0-9]++)?(?:[eE][+\u2212-]?[0-9]++)?"
)
_SPELLINGS = str.maketrans({"\u2212": "-"} | dict.fromkeys(",_\u00a0\u202f"))
"""Signs and marks of thousands that `Decimal` does not know."""
"""A number in a text: it may be written with thousands, and stands at no end of a word.

Letters of other scripts are no word: they stand beside a number without a blank."""
NUMBERS = Context(prec=50, traps=[])
TEXT_CONDITIONS = ("contains", "matches")
"""Conditions whose value is text."""
BOUNDS = ("number", "tolerance", "least", "most")
"""Conditions of a number, which belong together."""
PLAIN_CONDITIONS = ("contains", "equals", "matches", *BOUNDS, "error")
"""Conditions of one value, without others in them."""
"""Decimals keep 50 digits, and what overflows is an infinity rather than an error."""
_SHOWN = 60
_LONGEST = 160
Subject = Literal["call", "reply", "turns", "judge"]


# -- what was seen
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """The answer, reply or value that an expectation is held against."""

    text: str
    structured: Any = None
    """Structured content of an answer; None without any."""
    is_error: bool = False
    value: Any = None
    """The JSON value itself where a path chose it."""
    chosen: bool = False
    """True where a path chose `value`."""

    @cached_property
    def documents(self) -> tuple[Any, ...]:
        """The JSON values of this: the structured content, then the text read as JSON."""
        if self.chosen:
            return (self.value,)
        structured = () if self.structured is None else (self.structured,)
        try:
            return (*structured, json.loads(self.text, parse_constant=_no_json))
        except (ValueError, RecursionError):
            return structured

    @cached_property
    def number(self) -> Decimal | None:
        """The value as a number, or the last number of the text; None without one."""
        if self.chosen and not isinstance(self.value, str):
            return _decimal(self.value)
        last = deque(_NUMBER.finditer(self.text), maxlen=1)
        return _read_number(last[0][0]) if last else None


def seen_answer(result: ToolResult) -> Seen:
    """Return what an expectation sees of a tool's answer."""
    text = result.text
    if not text and result.structured is not None:
        text = _dumped(result.structured)
    return Seen(text, result.structured, result.is_error)


def seen_value(value: Any) -> Seen:
    """Return what an expectation sees of a JSON value."""
    return Seen(value if isinstance(value, str) else _dumped(value), value=value, chosen=True)


def _no_json(name: str) -> Any:
    raise ValueError(name)


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError):
        return ""


def _decimal(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, float):
        return Decimal(repr(value)) if math.isfinite(value) else None
    return Decimal(value)


def _read_number(written: str) -> Decimal | None:
    with localcontext(NUMBERS):
        number = Decimal(written.translate(_SPELLINGS))
    return number if number.is_finite() else None


# -- conditions
# --------------------------------------------------------------------------------------------------


class Condition(Protocol):
    """One thing that is expected."""

    @property
    def judges_errors(self) -> bool:
        """True if an error answer is judged by this, rather than a failed evaluation."""
        ...

    def score(self, seen: Seen) -> float:
        """Return how far this holds, 0 to 1."""
        ...

    def words(self) -> str:
        """Return what is expected, in words that follow the name of what is looked at."""
        ...


class _OfContent:
    """A condition on the content of an answer: an error answer has none."""

    judges_errors = False

    def score(self, seen: Seen) -> float:
        return float(not seen.is_error and self.holds(seen))

    def holds(self, seen: Seen) -> bool:
        raise NotImplementedError


@dataclass(frozen=True)
class Contains(_OfContent):
    """A text contains another; of values, a list has an item, and an object a key."""

    value: Any

    def holds(self, seen: Seen) -> bool:
        if seen.chosen and isinstance(seen.value, list):
            return any(same_json(item, self.value) for item in seen.value)
        if seen.chosen and isinstance(seen.value, Mapping):
            return self.value in seen.value if isinstance(self.value, str) else False
        return isinstance(self.value, str) and self.value in seen.text

    def words(self) -> str:
        return f"contains {_shown(self.value)}"


@dataclass(frozen=True)
class Equals(_OfContent):
    """A text is another, white space at the ends aside; of JSON, the values are the same."""

    value: Any

    def holds(self, seen: Seen) -> bool:
        if not isinstance(self.value, str):
            return any(same_json(document, self.value) for document in seen.documents)
        is_text = not seen.chosen or isinstance(seen.value, str)
        return is_text and seen.text.strip() == self.value.strip()

    def words(self) -> str:
        return f"is {_shown(self.value)}"


@dataclass(frozen=True)
class Matches(_OfContent):
    """A pattern is found in a text, in linear time."""

    pattern: LinearPattern

    def holds(self, seen: Seen) -> bool:
        return self.pattern.found_in(seen.text)

    def words(self) -> str:
        return f"matches {_shown(self.pattern.text)}"


@dataclass(frozen=True)
class Number(_OfContent):
    """A number lies within bounds, both included; None for no bound."""

    least: Decimal | None
    most: Decimal | None
    spoken: str
    """The bounds in words."""

    def holds(self, seen: Seen) -> bool:
        number = seen.number
        if number is None:
            return False
        above = self.least is None or number >= self.least
        return above and (self.most is None or number <= self.most)

    def words(self) -> str:
        return self.spoken


@dataclass(frozen=True)
class AnswersError:
    """An answer is an error, or is none."""

    expected: bool
    judges_errors = True

    def score(self, seen: Seen) -> float:
        return float(seen.is_error == self.expected)

    def words(self) -> str:
        return "answers with an error" if self.expected else "answers without an error"


@dataclass(frozen=True)
class AtPath(_OfContent):
    """The value at a path of JSON meets a condition. Without such a value it does not."""

    path: tuple[str | int, ...]
    written: str
    condition: Condition

    def score(self, seen: Seen) -> float:
        if seen.is_error:
            return 0.0
        for document in seen.documents:
            for value in _values_at(document, self.path):
                return self.condition.score(seen_value(value))
        return 0.0

    def words(self) -> str:
        return f"{_shown(self.written)} {self.condition.words()}"


@dataclass(frozen=True)
class AllOf:
    """Every condition counts: the score is the lowest."""

    conditions: tuple[Condition, ...]

    @cached_property
    def judges_errors(self) -> bool:
        return any(condition.judges_errors for condition in self.conditions)

    @cached_property
    def wants_error(self) -> bool:
        """True if this holds for no answer but an error."""
        return any(map(_wants_error, self.conditions))

    def score(self, seen: Seen) -> float:
        if not seen.is_error or not self.wants_error:
            return min(condition.score(seen) for condition in self.conditions)
        # The error is wanted, so what judges no errors is about its text.
        text = Seen(seen.text, seen.structured)
        return min(
            condition.score(seen if condition.judges_errors else text)
            for condition in self.conditions
        )

    def words(self) -> str:
        return _joined(self.conditions, " and ")


def _wants_error(condition: Condition) -> bool:
    if isinstance(condition, AllOf):
        return condition.wants_error
    opposite = isinstance(condition, Not) and condition.condition == AnswersError(False)
    return opposite or condition == AnswersError(True)


@dataclass(frozen=True)
class AnyOf:
    """One condition is enough: the score is the highest."""

    conditions: tuple[Condition, ...]

    @cached_property
    def judges_errors(self) -> bool:
        return any(condition.judges_errors for condition in self.conditions)

    def score(self, seen: Seen) -> float:
        return max(condition.score(seen) for condition in self.conditions)

    def words(self) -> str:
        return _joined(self.conditions, " or ")


@dataclass(frozen=True)
class Not:
    """The opposite of a condition. An error answer is no opposite of what its content would be."""

    condition: Condition

    @property
    def judges_errors(self) -> bool:
        return self.condition.judges_errors

    def score(self, seen: Seen) -> float:
        if seen.is_error and not self.condition.judges_errors:
            return 0.0
        return 1 - self.condition.score(seen)

    def words(self) -> str:
        return f"not ({self.condition.words()})"


@dataclass(frozen=True)
class Mean:
    """Several conditions, of which each gives its share: the score is the mean by weight."""

    conditions: tuple[Condition, ...]
    weights: tuple[float, ...]

    @cached_property
    def judges_errors(self) -> bool:
        return any(condition.judges_errors for condition in self.conditions)

    def score(self, seen: Seen) -> float:
        scores = [condition.score(seen) for condition in self.conditions]
        return weighted_mean(scores, self.weights)

    def words(self) -> str:
        return _joined(self.conditions, ", ")


@dataclass(frozen=True)
class ModelJudge:
    """A model that gives a score by a rubric. What is seen of it is its verdict.

    `rollouts.judging` asks it.
    """

    rubric: str
    model: str
    endpoint: str | None = None
    """Base URL of the endpoint; None: the one of the user's settings."""
    key: str | None = None
    """Name of the variable with the key; None: no key, or the settings' own without an endpoint."""
    of: Literal["reply", "transcript", "call"] = "reply"
    """The thing that is judged: the last reply, all messages, or the answer of the part's call."""
    price: tuple[float, float] | None = None
    """USD for a million tokens that the model reads, and that it writes."""
    judges_errors = True

    def score(self, seen: Seen) -> float:
        return float(seen.value)

    def words(self) -> str:
        return _shown(self.rubric)


def _joined(conditions: Sequence[Condition], word: str) -> str:
    texts = [
        f"({condition.words()})"
        if isinstance(condition, AllOf | AnyOf | Mean)
        else condition.words()
        for condition in conditions[:4]
    ]
    more = [f"{len(conditions) - 4} more"] if len(conditions) > 4 else []
    return word.join(texts + more)


def weighted_mean(scores: Sequence[float], weights: Sequence[float]) -> float:
    """Return the mean of scores by weight. The weights are not negative, and one is positive."""
    most = max(weights)  # divided by it, no sum of weights overflows
    shares = [weight / most for weight in weights]
    total = math.fsum(share * score for share, score in zip(shares, scores, strict=True))
    return min(total / math.fsum(shares), 1.0)


def same_json(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same: 1 is 1.0, and true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_json(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def _values_at(value: Any, path: Sequence[str | int]) -> Iterator[Any]:
    """Yield the value at a path, if there is one."""
    for step in path:
        if isinstance(step, str):
            inside = isinstance(value, Mapping) and step in value
        else:
            inside = isinstance(value, list) and -len(value) <= step < len(value)
        if not inside:
            return
        value = value[step]
    yield value


def _shown(value: Any) -> str:
    return clean_line(value if isinstance(value, str) else _dumped(value), _SHOWN)


# -- parts
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One part of `evaluate`: what is looked at, and what is expected there."""

    name: str
    subject: Subject
    condition: Condition
    weight: float
    call: ToolCall | None = None
    """The call that is made after the last turn; None for a reply and for turns."""

    @property
    def judge(self) -> ModelJudge | None:
        """The model that judges; None where none does."""
        return self.condition if isinstance(self.condition, ModelJudge) else None

    def words(self) -> str:
        """Return the part in words: `read_text_file(words.txt) contains delta`."""
        subject = {"reply": "the last reply", "turns": "the number of turns"}.get(self.subject, "")
        if self.call is not None:
            values = ", ".join(map(_shown, self.call.arguments.values()))
            subject = f"{self.call.name}({clean_line(values, _SHOWN)})"
        if self.judge is not None:
            whole = " of the transcript" if self.judge.of == "transcript" else ""
            subject = f"judge of {subject}:" if subject else f"judge{whole}:"
        return clean_line(f"{subject} {self.condition.words()}", _LONGEST)


class JudgedPart(NamedTuple):
    """The outcome of a part."""

    name: str
    score: float
    """0 to 1."""
    weight: float
    words: str
    """What was expected: `read_text_file(words.txt) contains delta`."""
    seen: str
    """The beginning of what was seen there; the reason of a model that judges."""
    judge: str = ""
    """The model that judged; empty where none did."""

    def line(self) -> str:
        """Return the outcome on one line: `✓ read_text_file(words.txt) contains delta (0.6)`."""
        words = clean_line(self.words, _LONGEST)
        seen = clean_line(self.seen, _LONGEST if self.judge else _SHOWN)
        if self.score >= 1:
            return f"✓ {words} ({self.weight:g})" + (f": {seen}" if self.judge and seen else "")
        if self.score <= 0:
            return f"✗ {words} (0 of {self.weight:g}): {seen or 'nothing'}"
        return f"~ {words} ({self.weight * self.score:.3g} of {self.weight:g}): {seen}"

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as plain data; `judge` where a model judged."""
        return {name: value for name, value in self._asdict().items() if name != "judge" or value}


def judge(parts: Sequence[Part], seen: Sequence[Seen]) -> tuple[JudgedPart, ...]:
    """Return the outcome of each part from what was seen for it."""
    return tuple(
        JudgedPart(
            part.name,
            part.condition.score(one),
            part.weight,
            part.words(),
            clean_line(one.text, _LONGEST),
            part.judge.model if part.judge is not None else "",
        )
        for part, one in zip(parts, seen, strict=True)
    )


def reward_of(judged: Sequence[JudgedPart]) -> float:
    """Return the reward of judged parts: the mean of their scores by weight, 0 to 1."""
    return weighted_mean([part.score for part in judged], [part.weight for part in judged])
