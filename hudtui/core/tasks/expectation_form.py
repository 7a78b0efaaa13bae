"""The field `evaluate` of a task, read into parts; each mistake with its place and what to do."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any, Literal

from hudtui.core.errors import InputError, Location
from hudtui.core.http import is_http_url, is_loopback, keeps_secrets, parse_address
from hudtui.core.pattern import LinearPattern
from hudtui.core.tasks.expectation import (
    BOUNDS,
    NUMBERS,
    PLAIN_CONDITIONS,
    AllOf,
    AnswersError,
    AnyOf,
    AtPath,
    Condition,
    Contains,
    Equals,
    Matches,
    Mean,
    ModelJudge,
    Not,
    Number,
    Part,
    Subject,
    seen_value,
)
from hudtui.core.tasks.task import FieldProblem, Task, ToolCall, json_kind
from hudtui.core.text import clean_line, did_you_mean

MOST_PARTS = 64
"""Parts of one task."""
_DEEPEST = 12
_DEEPEST_VALUE = 64
_MOST_CONDITIONS = 500
_LONGEST_PATTERN = 2_000
_LONGEST_NAME = 40
_SUBJECTS = ("call", "reply", "turns", "judge")
_PART_KEYS = (*_SUBJECTS, "expect", "weight", "name")
TAKEN_NAMES = (
    *("task_completion", "tool_execution", "format_compliance", "reward", "reward_std"),
    *("step", "total_steps", "time", "task", "episodes", "turns", "errors", "seconds"),
    *("prompt_tokens", "completion_tokens"),
    *("player", "task_digest", "play_digest", "rewards", "solved", "difficulty"),
)
"""Names that each rubric, and each line of metrics, has already."""
_CONDITIONS = (*PLAIN_CONDITIONS, "json", "all", "any", "not")
_STEP = re.compile(r"\.?([^\W\d][\w-]*)|\[(-?[0-9]{1,9})\]|\[(\"(?:[^\"\\]|\\.)*\")\]")
_PATH_FORM = 'write it as `items[0].name`, and a key with other characters as `["a key"]`'
_JUDGE_KEYS = ("rubric", "model", "endpoint", "key", "of", "price")
_LONGEST_RUBRIC = 8_000
_LONGEST_MODEL = 200
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_JUDGE = (
    "a model that judges is a part of its own, beside the others: "
    '`{"judge": {"rubric", "model"}, "weight"}`'
)
_ENDPOINT_FORM = "https://api.openai.com/v1 or http://127.0.0.1:8000/v1"

_USUAL_NAMES = {"reply": "reply", "turns": "length", "judge": "judge"}
"""Names of parts that have none: `turns` is a column of its own wherever parts are columns."""


class _Wrong(Exception):
    """A mistake in the field, at a place."""

    def __init__(self, place: str, message: str, code: str = "expectation") -> None:
        super().__init__(message)
        self.problem = FieldProblem(place, message, code)


def read_parts(value: Any) -> tuple[tuple[Part, ...], list[FieldProblem]]:
    """Return the parts of an `evaluate` that is data, and what is wrong with it.

    With a problem among them the parts are incomplete.
    """
    parts: list[Part] = []
    problems: list[FieldProblem] = []
    listed = value if isinstance(value, list) else [value]
    if len(listed) > MOST_PARTS:
        message = f"{len(listed)} parts, and {MOST_PARTS} is the most"
        return (), [FieldProblem("evaluate", message, "expectation")]
    for number, one in enumerate(listed):
        place = f"evaluate[{number}]" if isinstance(value, list) else "evaluate"
        try:
            parts.append(_part(place, one))
        except _Wrong as wrong:
            problems.append(wrong.problem)
    if not problems:
        problems += _problems_of_all(parts)
    return _named(parts), problems


def parts_of(task: Task) -> tuple[Part, ...]:
    """Return the parts that a task is judged by without an evaluate tool; none of most tasks.

    Raises:
        InputError: They cannot be read. Those of a task that was read from a file can.
    """
    value = task.extra.get("evaluate")
    if not value:
        return ()
    parts, problems = read_parts(value)
    for problem in problems:
        where = Location(f"task {task.id}", field=problem.field)
        raise InputError("the task cannot be judged", why=problem.message, where=where)
    return parts


def part_calls(parts: Iterable[Part]) -> list[tuple[str, ToolCall]]:
    """Return the calls of parts, each with its place in the task."""
    calls = []
    for number, part in enumerate(parts):
        place = "judge.of.call" if part.judge is not None else "call"
        if part.call is not None:
            calls.append((f"evaluate[{number}].{place}", part.call))
    return calls


def _problems_of_all(parts: list[Part]) -> list[FieldProblem]:
    if not any(part.weight for part in parts):
        message = "the weights sum to 0, so nothing would count: give a part a weight"
        return [FieldProblem("evaluate", message, "weight")]
    given = [part.name for part in parts if part.name]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        message = f"two parts are called {twice!r}: rename one"
        return [FieldProblem("evaluate", message, "expectation")]
    return []


def _named(parts: list[Part]) -> tuple[Part, ...]:
    """Name the parts that have no name of their own by what they look at."""
    taken = {*TAKEN_NAMES, *(part.name for part in parts)}
    named = []
    for part in parts:
        called = _USUAL_NAMES.get(part.subject) or (part.call.name if part.call else "")
        called = called[:_LONGEST_NAME]
        name = plain = part.name or called
        number = 1
        while not part.name and name in taken:
            number += 1
            name = f"{plain}_{number}"
        taken.add(name)
        named.append(Part(name, part.subject, part.condition, part.weight, part.call))
    return tuple(named)


def _part(place: str, value: Any) -> Part:
    if not isinstance(value, Mapping):
        message = f"this is {json_kind(value)}, and a part is an object: {_PART_FORM}"
        raise _Wrong(place, message, "type")
    if "name" in value and "arguments" in value and not value.keys() & set(_SUBJECTS):
        message = "this is a call: write it in `call`, beside what you `expect`; a tool that "
        message += "answers with a reward itself stands in `evaluate_tool`"
        raise _Wrong(place, message, "missing")
    _known(place, value, _PART_KEYS)
    named = [name for name in _SUBJECTS if name in value]
    if len(named) != 1:
        what = " and ".join(f"`{name}`" for name in named) or "neither"
        message = f"a part has one of `call`, `reply`, `turns` and `judge`, and this has {what}"
        raise _Wrong(place, message, "missing")
    subject: Subject = named[0]  # type: ignore[assignment]
    call = None
    weight = _weight(f"{place}.weight", value.get("weight", 1))
    name = _name(f"{place}.name", value.get("name"))
    if subject == "call":
        call = _call(f"{place}.call", value["call"])
        if "expect" not in value:
            message = f"required: what {clean_line(call.name, _LONGEST_NAME)} is to answer"
            raise _Wrong(f"{place}.expect", message, "missing")
    elif "expect" in value:
        message = f"what is expected stands in `{subject}` itself, not in `expect`"
        raise _Wrong(f"{place}.expect", message, "unknown-key")
    if subject == "judge":
        judge, call = _model_judge(f"{place}.judge", value["judge"])
        return Part(name, subject, judge, weight, call)
    key = "expect" if subject == "call" else subject
    condition = _Reader(subject).read(f"{place}.{key}", value[key])
    return Part(name, subject, condition, weight, call)


_PART_FORM = (
    '`{"call": {"name", "arguments"}, "expect"}`, `{"reply"}`, `{"turns"}` or '
    '`{"judge": {"rubric", "model"}}`'
)


def _model_judge(place: str, value: Any) -> tuple[ModelJudge, ToolCall | None]:
    """Read a model that judges, and the call whose answer it judges, if it judges one."""
    if not isinstance(value, Mapping):
        message = f'this is {json_kind(value)}, and an object is needed: `{{"rubric", "model"}}`'
        raise _Wrong(place, message, "type")
    _known(place, value, _JUDGE_KEYS)
    rubric = _text(f"{place}.rubric", value.get("rubric"), "what earns a high score, and what none")
    if len(rubric) > _LONGEST_RUBRIC:
        message = f"the rubric has {len(rubric)} characters, and {_LONGEST_RUBRIC} is the most"
        raise _Wrong(f"{place}.rubric", message)
    model = _text(f"{place}.model", value.get("model"), "the name of the model at its endpoint")
    if len(model) > _LONGEST_MODEL or not model.isprintable() or model.strip() != model:
        message = f"the name of a model has at most {_LONGEST_MODEL} characters, on one line"
        raise _Wrong(f"{place}.model", message)
    endpoint, key = _endpoint(place, value.get("endpoint"), value.get("key"))
    of, call = _judged(f"{place}.of", value.get("of", "reply"))
    price = _price(f"{place}.price", value.get("price"))
    return ModelJudge(rubric, model, endpoint, key, of, price), call


def _text(place: str, value: Any, what: str) -> str:
    if value is None:
        raise _Wrong(place, f"required: {what}", "missing")
    if not isinstance(value, str) or not value.strip():
        kind = "empty" if isinstance(value, str) else json_kind(value)
        raise _Wrong(place, f"this is {kind}, and text is needed: {what}", "type")
    return value


def _endpoint(place: str, endpoint: Any, key: Any) -> tuple[str | None, str | None]:
    """Read the address of a judge, and the name of the variable with its key."""
    if key is not None and not (isinstance(key, str) and _VARIABLE.fullmatch(key)):
        message = "this is no name of a variable: write the name, such as OPENAI_API_KEY; the key "
        message += "itself stands in your settings, never in a task"
        raise _Wrong(f"{place}.key", message)
    if endpoint is None:
        return None, key
    if not isinstance(endpoint, str) or not is_http_url(endpoint) or not endpoint.isprintable():
        message = f"this is no address: write one like {_ENDPOINT_FORM}, without variables, or "
        message += "leave it out for the endpoint of your settings (OPENAI_BASE_URL)"
        raise _Wrong(f"{place}.endpoint", message)
    try:
        parts = parse_address(endpoint, "an endpoint", _ENDPOINT_FORM)
    except InputError as error:
        raise _Wrong(f"{place}.endpoint", f"{error.what}: name the key in `key`") from None
    if parts.query or parts.fragment:
        message = "an address of an endpoint ends with its path: name the key in `key`"
        raise _Wrong(f"{place}.endpoint", message)
    if key is None and parts.scheme == "https" and not is_loopback(endpoint):
        message = "required beside an https endpoint: the name of the variable with its key, which "
        message += "`hudtui settings set NAME` keeps"
        raise _Wrong(f"{place}.key", message, "missing")
    if key is not None and not keeps_secrets(endpoint):
        message = f"{key} would be sent in the clear: take an https address, or leave `key` out"
        raise _Wrong(f"{place}.key", message)
    return endpoint, key


def _judged(
    place: str, value: Any
) -> tuple[Literal["reply", "transcript", "call"], ToolCall | None]:
    """Read what a model judges."""
    if value == "reply" or value == "transcript":
        return value, None
    if isinstance(value, Mapping):
        _known(place, value, ("call",))
        if "call" in value:
            return "call", _call(f"{place}.call", value["call"])
    message = 'a judge is shown `"reply"`, `"transcript"` or `{"call": {"name", "arguments"}}`'
    raise _Wrong(place, message)


def _price(place: str, value: Any) -> tuple[float, float] | None:
    """Read USD for a million tokens that are read, and that are written."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        message = f"this is {json_kind(value)}, and an object is needed: "
        raise _Wrong(place, message + '`{"input": 0.4, "output": 1.6}`, USD for a million tokens')
    _known(place, value, ("input", "output"))
    prices = []
    for name in ("input", "output"):
        if name not in value:
            raise _Wrong(f"{place}.{name}", "required: USD for a million tokens", "missing")
        price = _finite(f"{place}.{name}", value[name])
        if price < 0:
            raise _Wrong(f"{place}.{name}", f"the price {value[name]} is negative")
        prices.append(float(price))
    return prices[0], prices[1]


def _call(place: str, value: Any) -> ToolCall:
    if not isinstance(value, Mapping):
        message = f"this is {json_kind(value)}, and a call is an object with `name` and `arguments`"
        raise _Wrong(place, message, "type")
    _known(place, value, ("name", "arguments"))
    name, arguments = value.get("name"), value.get("arguments")
    if name is None or name == "":
        raise _Wrong(f"{place}.name", "the call has no name of a tool", "missing")
    if not isinstance(name, str):
        message = f"this is {json_kind(name)}, and the name of a tool is needed"
        raise _Wrong(f"{place}.name", message, "type")
    if arguments is not None and not isinstance(arguments, Mapping):
        message = f"this is {json_kind(arguments)}, and an object is needed"
        raise _Wrong(f"{place}.arguments", message, "type")
    return ToolCall(name, arguments or {})


def _name(place: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise _Wrong(place, f"this is {json_kind(value)}, and a name is needed", "type")
    if len(value) > _LONGEST_NAME or not value.isprintable() or value.strip() != value:
        message = f"a name has at most {_LONGEST_NAME} characters, on one line"
        raise _Wrong(place, message)
    if value in TAKEN_NAMES:
        raise _Wrong(place, f"every rubric or table has {value} already: rename this one")
    return value


def _weight(place: str, value: Any) -> float:
    number = _finite(place, value)
    if number < 0:
        message = f"the weight {value} is negative: write 0 or more, and `not` for the opposite"
        raise _Wrong(place, message, "weight")
    return float(number)


def _finite(place: str, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Wrong(place, f"this is {json_kind(value)}, and a number is needed", "type")
    try:
        finite = math.isfinite(float(value))
    except OverflowError:
        finite = False
    if not finite:
        raise _Wrong(place, "this is no finite number")
    return Decimal(repr(value))


def _known(place: str, value: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in value:
        if name not in names:
            near = did_you_mean(str(name), names)
            hint = f"did you mean {near!r}?" if near else f"it has {', '.join(names)}"
            message = f"this means nothing here; {hint}"
            raise _Wrong(f"{place}.{clean_line(str(name), 40)}", message, "unknown-key")


class _Reader:
    """Reads what is expected of one subject."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._chosen = 0
        """Paths that lead to the value in hand."""
        self._count = 0
        self._depth = 0

    def read(self, place: str, value: Any) -> Condition:
        """Return the condition of an object of conditions, or of a list with weights."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Wrong(place, f"nested more than {_DEEPEST} deep")
        try:
            return self._mean(place, value) if isinstance(value, list) else self._all(place, value)
        finally:
            self._depth -= 1

    def _mean(self, place: str, value: list[Any]) -> Condition:
        conditions, weights = [], []
        for number, one in enumerate(value):
            here = f"{place}[{number}]"
            rest = one
            weight = 1.0
            if isinstance(one, Mapping) and "weight" in one:
                weight = _weight(f"{here}.weight", one["weight"])
                rest = {name: item for name, item in one.items() if name != "weight"}
            conditions.append(self.read(here, rest))
            weights.append(weight)
        if not any(weights):
            empty = "the list is empty, so nothing is expected"
            message = "the weights sum to 0, so nothing would count" if value else empty
            raise _Wrong(place, message, "weight")
        return Mean(tuple(conditions), tuple(weights))

    def _all(self, place: str, value: Any) -> Condition:
        if not isinstance(value, Mapping):
            message = f"this is {json_kind(value)}, and an object is needed, such as "
            message += '`{"most": 5}`' if self._subject == "turns" else '`{"contains": "text"}`'
            raise _Wrong(place, message, "type")
        if "judge" in value:
            raise _Wrong(f"{place}.judge", _JUDGE, "unknown-key")
        if "weight" in value:
            message = "a weight counts in a part of `evaluate` and in a list of expectations"
            raise _Wrong(f"{place}.weight", message, "weight")
        _known(place, value, _CONDITIONS)
        if not value:
            message = f"nothing is expected: name one of {', '.join(_CONDITIONS)}"
            raise _Wrong(place, message, "missing")
        self._count += len(value)
        if self._count > _MOST_CONDITIONS:
            raise _Wrong(place, f"more than {_MOST_CONDITIONS} conditions")
        conditions = [
            self._one(f"{place}.{name}", name, item)
            for name, item in value.items()
            if name not in BOUNDS
        ]
        if not value.keys().isdisjoint(BOUNDS):
            conditions.append(self._bounds(place, value))
        _require_possible(place, value, conditions, chosen=self._chosen > 0)
        return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))

    def _one(self, place: str, name: str, value: Any) -> Condition:
        if self._subject == "turns" and name not in ("all", "any", "not"):
            message = "turns are a number: expect `number`, `least` or `most` of them"
            raise _Wrong(place, message)
        return _READERS[name](self, place, value)

    def _contains(self, place: str, value: Any) -> Condition:
        if not self._chosen and not isinstance(value, str):
            message = f"this is {json_kind(value)}, and text is needed; an item of a list is "
            message += 'looked for at a path: `{"json": {"path", "contains"}}`'
            raise _Wrong(place, message, "type")
        if value == "":
            raise _Wrong(place, "every text contains the empty one: write what is looked for")
        _require_flat(place, value)
        return Contains(value)

    def _equals(self, place: str, value: Any) -> Condition:
        _require_flat(place, value)
        return Equals(value)

    def _matches(self, place: str, value: Any) -> Condition:
        if not isinstance(value, str):
            raise _Wrong(place, f"this is {json_kind(value)}, and a pattern is needed", "type")
        if len(value) > _LONGEST_PATTERN:
            message = f"the pattern has {len(value)} characters, and {_LONGEST_PATTERN} is the most"
            raise _Wrong(place, message, "pattern")
        pattern = LinearPattern(value)
        if pattern.error:
            message = f"the pattern does not compile: {clean_line(pattern.error, 120)}; patterns "
            message += "are RE2's, without back-references and look-around"
            raise _Wrong(place, message, "pattern")
        if pattern.found_in("") and pattern.found_in(_ANY_TEXT):
            message = "the pattern is found in every text, so it would always hold: anchor it by "
            message += "^ and $, or look for at least one character"
            raise _Wrong(place, message, "pattern")
        return Matches(pattern)

    def _json(self, place: str, value: Any) -> Condition:
        if not isinstance(value, Mapping):
            message = (
                f'this is {json_kind(value)}, and `{{"path", "equals"}}` or the like is needed'
            )
            raise _Wrong(place, message, "type")
        path = value.get("path")
        if not isinstance(path, str):
            message = f"required: where the value stands; {_PATH_FORM}"
            raise _Wrong(f"{place}.path", message, "path")
        steps = _path(f"{place}.path", path)
        rest = {name: item for name, item in value.items() if name != "path"}
        if not rest:
            message = f"nothing is expected of the value at {clean_line(path, 40)}: add `equals`, "
            message += "`number` or another condition"
            raise _Wrong(place, message, "missing")
        if "error" in rest:
            raise _Wrong(f"{place}.error", "a value is no error: expect `error` of the call itself")
        self._chosen += 1
        condition = self.read(place, rest)
        self._chosen -= 1
        return AtPath(steps, path, condition)

    def _several(self, place: str, value: Any) -> tuple[Condition, ...]:
        if not isinstance(value, list) or not value:
            what = "an empty list" if value == [] else json_kind(value)
            message = f"this is {what}, and a list of expectations is needed"
            raise _Wrong(place, message, "type")
        return tuple(self.read(f"{place}[{number}]", one) for number, one in enumerate(value))

    def _every(self, place: str, value: Any) -> Condition:
        return AllOf(self._several(place, value))

    def _some(self, place: str, value: Any) -> Condition:
        return AnyOf(self._several(place, value))

    def _not(self, place: str, value: Any) -> Condition:
        return Not(self.read(place, value))

    def _error(self, place: str, value: Any) -> Condition:
        if not isinstance(value, bool):
            raise _Wrong(place, f"this is {json_kind(value)}, and true or false is needed", "type")
        if self._subject != "call":
            raise _Wrong(
                place, f"a {self._subject} is never an error: only a call answers with one"
            )
        if self._chosen:
            raise _Wrong(place, "a value is no error: expect `error` of the call itself")
        return AnswersError(value)

    def _bounds(self, place: str, value: Mapping[str, Any]) -> Condition:
        given = {name: _finite(f"{place}.{name}", value[name]) for name in BOUNDS if name in value}
        number, tolerance = given.get("number"), given.get("tolerance")
        least, most = given.get("least"), given.get("most")
        if tolerance is not None and number is None:
            message = "a tolerance belongs to a `number`, and there is none beside it"
            raise _Wrong(f"{place}.tolerance", message)
        if tolerance is not None and tolerance < 0:
            message = f"the tolerance {value['tolerance']} is negative: write 0 or more"
            raise _Wrong(f"{place}.tolerance", message)
        spoken = []
        if least is not None:
            spoken.append(f"is at least {value['least']}")
        if most is not None:
            spoken.append(f"is at most {value['most']}")
        if number is not None:
            with localcontext(NUMBERS):
                below, above = number - (tolerance or 0), number + (tolerance or 0)
            least = below if least is None else max(least, below)
            most = above if most is None else min(most, above)
            around = f" ± {value['tolerance']}" if tolerance else ""
            spoken.insert(0, f"is {value['number']}{around}")
        if least is not None and most is not None and least > most:
            message = f"no number {' and '.join(spoken)}: this cannot hold"
            raise _Wrong(place, message)
        if self._subject == "turns":
            _require_turns(place, least, most)
        return Number(least, most, " and ".join(spoken))


def _require_flat(place: str, value: Any) -> None:
    """Refuse a value in which lists and objects lie deeper than they can be compared."""
    level = [value]
    for _ in range(_DEEPEST_VALUE):
        nested = [one for one in level if isinstance(one, list | Mapping)]
        if not nested:
            return
        level = [
            inner for one in nested for inner in (one if isinstance(one, list) else one.values())
        ]
    raise _Wrong(place, f"lists and objects are nested more than {_DEEPEST_VALUE} deep")


_ANY_TEXT = "".join(map(chr, range(1, 0x180))) + "\u2603 \u4e2d \u0416 \u05d0 \U0001f600"
_READERS: Mapping[str, Callable[[_Reader, str, Any], Condition]] = {
    "contains": _Reader._contains,
    "equals": _Reader._equals,
    "matches": _Reader._matches,
    "json": _Reader._json,
    "all": _Reader._every,
    "any": _Reader._some,
    "not": _Reader._not,
    "error": _Reader._error,
}


def _require_turns(place: str, least: Decimal | None, most: Decimal | None) -> None:
    """Refuse bounds that no number of turns meets, and those that each meets."""
    first = max(0, math.ceil(least)) if least is not None else 0
    if most is not None and first > most:
        raise _Wrong(place, "no number of turns lies there: this cannot hold")
    if most is None and first == 0:
        raise _Wrong(place, "every number of turns is at least 0: this always holds")


def _require_possible(
    place: str, value: Mapping[str, Any], conditions: Iterable[Condition], *, chosen: bool
) -> None:
    """Refuse an object whose text or value, given by `equals`, breaks another of its conditions."""
    equal = value.get("equals")
    if "equals" not in value or not (chosen or isinstance(equal, str)):
        return
    only = seen_value(equal)
    for condition in conditions:
        if isinstance(equal, str) and not _stands_in_text(condition):
            continue
        if condition.score(only) == 0:
            message = f"what equals {clean_line(str(equal), 40)!r} never "
            raise _Wrong(place, f"{message}{condition.words()}: this cannot hold")


def _stands_in_text(condition: Condition) -> bool:
    """True if white space at the ends of a text, which `equals` passes over, decides nothing."""
    if isinstance(condition, Contains):
        return isinstance(condition.value, str) and condition.value.strip() == condition.value
    return isinstance(condition, Number)


def _path(place: str, text: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    at = 1 if text.startswith("$") else 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (at == 0 and text.startswith(".")):
            message = f"character {at + 1} of the path {clean_line(text, 40)!r} cannot be read: "
            raise _Wrong(place, message + _PATH_FORM, "path")
        name, index, quoted = match.groups()
        if name is not None and at > 0 and text[at] != "." and text[at - 1] != "$":
            message = f"a dot is missing before character {at + 1} of {clean_line(text, 40)!r}"
            raise _Wrong(place, f"{message}; {_PATH_FORM}", "path")
        steps.append(name if name is not None else _quoted(place, quoted) if quoted else int(index))
        at = match.end()
    return tuple(steps)


def _quoted(place: str, text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        raise _Wrong(place, f"{text} is no text in quotes; {_PATH_FORM}", "path") from None
