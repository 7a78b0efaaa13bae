"""A draft of tasks: one task with variables in its texts, and how many tasks are made of it.

A draft is a task of a task file in which `${name}` stands for a value, with the values beside it.
`draft_tasks` makes the tasks without any effect: the same draft gives the same tasks. Every other
field of the task is kept as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from hudtui.core.environment.form_args import form_fields
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.files import read_text
from hudtui.core.tasks.expectation import TEXT_CONDITIONS
from hudtui.core.tasks.task import FieldProblem, json_kind
from hudtui.core.tasks.validate import Rules, TaskChecker
from hudtui.core.text import clean_line, did_you_mean
from hudtui.core.yaml_doc import load_yaml

MOST_TASKS = 100_000
"""Tasks of one draft, and values of one variable."""
UNASKED = 1_000
"""Tasks that a draft makes without being told how many."""
SEEDS = "seed"
"""Values of a variable that has another whole number in every task."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)\}")
_RANGE = re.compile(r"(-?[0-9.]+)\s*\.\.\s*(-?[0-9.]+)(?:\s+by\s+([0-9.]+))?")
_OWN = ("variables", "count", "held_out", "split_by", "seed")
"""Fields of a draft file beside those of a task."""
_KEPT = ("mcp_config",)
"""Fields whose variables are those of an episode."""


@dataclass(frozen=True)
class Variable:
    """A name that stands for another value in every task."""

    name: str
    values: Sequence[Any] = ()
    """The values, of which each task has one; empty for a seed."""
    seeds: bool = False
    """True if each task has a whole number of its own."""


@dataclass(frozen=True)
class Draft:
    """A task with variables, and what is made of it."""

    record: Mapping[str, Any]
    """A task of a task file, `${name}` in its texts."""
    variables: tuple[Variable, ...] = ()
    count: int | None = None
    """Tasks that are made; None for one of each combination of values."""
    held_out: float = 0.0
    """Share of the tasks, 0 to less than 1, that no training sees."""
    split_by: str = ""
    """Variable of which each value is either trained on or held out; empty to split by task."""
    seed: int = 0
    """Decides which combinations are taken, and what is held out."""


@dataclass(frozen=True)
class DraftedTasks:
    """The tasks of a draft as records of a task file, and what is wrong with them."""

    train: tuple[dict[str, Any], ...] = ()
    held_out: tuple[dict[str, Any], ...] = ()
    problems: tuple[FieldProblem, ...] = field(default=())

    @property
    def errors(self) -> tuple[FieldProblem, ...]:
        """What has to be mended before the tasks are written."""
        return tuple(problem for problem in self.problems if problem.severity == "error")


def escaped(value: Any) -> Any:
    """Return a value of a task as a draft has it, where `${name}` is mere text."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, Mapping):
        return {key: item if key in _KEPT else escaped(item) for key, item in value.items()}
    return [escaped(item) for item in value] if isinstance(value, list) else value


class _Wrong(Exception):
    """A mistake in a draft, at a field."""

    def __init__(self, place: str, message: str, code: str = "draft") -> None:
        super().__init__(message)
        self.problem = FieldProblem(place, message, code)


# -- reading
# --------------------------------------------------------------------------------------------------


def load_draft(path: Path, name: str) -> tuple[Draft, list[FieldProblem]]:
    """Return the draft of a YAML or JSON file, and what is wrong with it.

    Args:
        path: The file.
        name: The file as the user named it, for errors.

    Raises:
        InputError: The file cannot be read, or is not YAML.
    """
    return read_draft(load_yaml(read_text(path), name=name).data)


def read_draft(data: Any) -> tuple[Draft, list[FieldProblem]]:
    """Return a draft that is data, and what is wrong with it.

    The fields `variables`, `count`, `held_out`, `split_by` and `seed` are the draft's; all others
    are those of a task. With a problem among them the draft is incomplete.
    """
    if not isinstance(data, Mapping):
        message = f"this is {json_kind(data)}, and a draft is an object with the fields of a task"
        return Draft({}), [FieldProblem(None, message, "type")]
    problems: list[FieldProblem] = []
    record = {str(name): value for name, value in data.items() if name not in _OWN}
    for name in record:
        if near := did_you_mean(name, _OWN):
            message = f"this means nothing here; did you mean {near!r}?"
            problems.append(FieldProblem(clean_line(name, 40), message, "unknown-key", "warning"))
    variables = tuple(_variables(data.get("variables"), problems))
    count = _number(data, "count", problems, least=1, most=MOST_TASKS)
    seed = _number(data, "seed", problems, least=0, most=1 << 53)
    share = _share(data.get("held_out"), problems)
    key = data.get("split_by") or ""
    if not isinstance(key, str):
        message = f"this is {json_kind(key)}, and the name of a variable is needed"
        problems.append(FieldProblem("split_by", message, "type"))
        key = ""
    return Draft(record, variables, count, share, key, seed or 0), problems


def _variables(given: Any, problems: list[FieldProblem]) -> Iterator[Variable]:
    if given is None:
        return
    if not isinstance(given, Mapping):
        message = f"this is {json_kind(given)}, and an object of names and values is needed"
        problems.append(FieldProblem("variables", message, "type"))
        return
    for name, values in given.items():
        try:
            yield read_variable(str(name), values)
        except _Wrong as wrong:
            problems.append(wrong.problem)


def read_variable(name: str, values: Any) -> Variable:
    """Return a variable.

    Args:
        name: Its name.
        values: A list; or text: `seed`, a range `1..20` or `0..1 by 0.25` with both ends, a list
            in JSON, or values with commas between them.

    Raises:
        _Wrong: It has no values, or they cannot be read. `read_draft` reports it as a problem.
    """
    place = f"variables.{clean_line(name, 40)}"
    if not _NAME.fullmatch(name):
        raise _Wrong(place, "a name has letters, digits and _, and begins with no digit", "name")
    if isinstance(values, str):
        text = values.strip()
        if text == SEEDS:
            return Variable(name, seeds=True)
        if (match := _RANGE.fullmatch(text)) is not None:
            return Variable(name, _range(place, *match.groups()))
        values = _listed(place, text)
    elif values is not None and not isinstance(values, list):
        values = [values]
    if not values:
        message = "the variable has no values: give some, a range such as 1..20, or `seed`"
        raise _Wrong(place, message, "missing")
    if len(values) > MOST_TASKS:
        raise _Wrong(place, f"{len(values):,} values, and {MOST_TASKS:,} is the most")
    return Variable(name, tuple(values))


def _listed(place: str, text: str) -> list[Any]:
    if text.startswith("["):
        try:
            listed = json.loads(text)
        except (ValueError, RecursionError) as error:
            message = f"this begins like a list in JSON and is none: {clean_line(str(error), 80)}"
            raise _Wrong(place, message, "json") from None
        return list(listed)
    return [_word(word.strip()) for word in text.split(",") if word.strip()]


def _word(text: str) -> Any:
    """Return a number where a text is written as JSON writes this number, else the text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and json.dumps(value) == text else text


def _range(place: str, first: str, last: str, step: str | None) -> Sequence[Any]:
    try:
        low, high, by = Decimal(first), Decimal(last), Decimal(step or 1)
    except InvalidOperation:
        message = "the range cannot be read: write it as 1..20, or 0..1 by 0.25"
        raise _Wrong(place, message) from None
    if by <= 0 or high < low:
        message = "the range has no values: the first number is the lower one, the step above 0"
        raise _Wrong(place, message, "missing")
    steps = (high - low) // by
    if steps >= MOST_TASKS:
        raise _Wrong(place, f"{int(steps) + 1:,} values, and {MOST_TASKS:,} is the most")
    if all(number == number.to_integral_value() for number in (low, by)):
        return range(int(low), int(low) + int(by) * int(steps) + 1, int(by))
    return tuple(float(low + by * number) for number in range(int(steps) + 1))


def _number(
    data: Mapping[Any, Any], name: str, problems: list[FieldProblem], *, least: int, most: int
) -> int | None:
    value = data.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    message = f"this is {clean_line(str(value), 40)}, and a whole number from {least} to {most:,} "
    problems.append(FieldProblem(name, f"{message}is needed", "type"))
    return None


def _share(value: Any, problems: list[FieldProblem]) -> float:
    if value is None:
        return 0.0
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and 0 <= value < 1:
        return float(value)
    message = "a share from 0 to less than 1 is needed, such as 0.1 for a tenth"
    problems.append(FieldProblem("held_out", message, "type"))
    return 0.0


# -- making tasks
# --------------------------------------------------------------------------------------------------


def draft_tasks(
    draft: Draft, *, analysis: Analysis | None = None, rules: Rules | None = None
) -> DraftedTasks:
    """Return the tasks of a draft.

    The tasks have their values in `metadata.variables` and, where some are held out, in
    `metadata.split` what they are for. Each distinct problem is reported once, with the id of the
    first task that has it.

    Args:
        draft: The draft.
        analysis: Environment to check the calls against.
        rules: Further facts to check the tasks against.
    """
    try:
        rows = _rows(draft)
        rules = rules or Rules(analysis=analysis)
        fill = _Filling(rules.analysis)
        records = [fill.record(draft, row, number, len(rows)) for number, row in enumerate(rows)]
        held = _held_out(draft, rows)
    except _Wrong as wrong:
        return DraftedTasks(problems=(wrong.problem,))
    if draft.held_out:
        for number, record in enumerate(records):
            split = {"split": "held_out" if number in held else "train"}
            record["metadata"] = {**record["metadata"], **split}
    problems = [*_unused(draft), *record_problems(records, rules)]
    train = [record for number, record in enumerate(records) if number not in held]
    apart = [records[number] for number in sorted(held)]
    return DraftedTasks(tuple(train), tuple(apart), tuple(problems))


def _rows(draft: Draft) -> list[dict[str, Any]]:
    """Return the values of each task."""
    names = [variable.name for variable in draft.variables]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise _Wrong(f"variables.{twice}", f"two variables are called {twice}: rename one", "name")
    listed = [variable for variable in draft.variables if not variable.seeds]
    seeds = [variable for variable in draft.variables if variable.seeds]
    combinations = math.prod(len(variable.values) for variable in listed)
    count = combinations if draft.count is None else draft.count
    if draft.count is None and combinations > UNASKED:
        message = f"the values give {combinations:,} combinations: say how many tasks are made"
        raise _Wrong("count", message)
    if count > combinations and not seeds:
        what = "one task" if combinations == 1 else f"{combinations:,} different tasks"
        message = f"the variables give {what}, not {count:,}: add values or a seed, or lower this"
        raise _Wrong("count", message)
    rows = []
    for number, place in enumerate(_places(draft, combinations, count)):
        row: dict[str, Any] = {}
        for variable in listed:
            place, at = divmod(place, len(variable.values))
            row[variable.name] = variable.values[at]
        for variable in seeds:
            row[variable.name] = _digest(draft.seed, variable.name, number) >> 33
        rows.append({name: row[name] for name in names})
    return rows


def _places(draft: Draft, combinations: int, count: int) -> list[int]:
    """Return the combination of each task: all in their order, or some of them by the seed."""
    if count >= combinations:
        return [number % combinations for number in range(count)]
    chosen = random.Random(draft.seed)
    if combinations <= 4 * MOST_TASKS:
        return sorted(chosen.sample(range(combinations), count))
    places: dict[int, None] = {}
    while len(places) < count:
        places[chosen.randrange(combinations)] = None
    return sorted(places)


def _digest(*parts: Any) -> int:
    """Return 64 bits that depend on values alone."""
    text = json.dumps(parts, sort_keys=True, default=repr)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class _Filling:
    """Puts the values of a task in place of variables.

    Args:
        analysis: The environment, whose schemas say where a number is written as text.
    """

    def __init__(self, analysis: Analysis | None) -> None:
        tools = () if analysis is None else analysis.tools
        self._texts = {tool.name: _text_parameters(tool) for tool in tools}

    def record(
        self, draft: Draft, row: Mapping[str, Any], number: int, count: int
    ) -> dict[str, Any]:
        """Return a task of a draft."""
        record = {
            name: value if name in _KEPT else self.fill(name, value, row)
            for name, value in draft.record.items()
        }
        written = draft.record.get("id")
        if count > 1 and record.get("id") == written and isinstance(written, str):
            record["id"] = f"{written}-{number + 1}"
        metadata = record.get("metadata")
        if row or draft.held_out:
            record["metadata"] = {**metadata} if isinstance(metadata, Mapping) else {}
        if row:
            record["metadata"]["variables"] = dict(row)
        return record

    def fill(self, place: str, value: Any, row: Mapping[str, Any]) -> Any:
        """Return a value of a draft with the values of a task in it."""
        if isinstance(value, str):
            return _filled_text(place, value, row)
        if isinstance(value, list):
            items = enumerate(value)
            return [self.fill(f"{place}[{number}]", item, row) for number, item in items]
        if not isinstance(value, Mapping):
            return value
        filled = {name: self.fill(f"{place}.{name}", item, row) for name, item in value.items()}
        texts = self._texts.get(str(value.get("name")), frozenset())
        arguments = value.get("arguments")
        if isinstance(arguments, Mapping):
            inner = filled["arguments"]
            filled["arguments"] = {
                name: _spoken(item) if name in texts and arguments[name] != item else item
                for name, item in inner.items()
            }
        elif "path" not in value:
            for name in TEXT_CONDITIONS:  # also where a variable has a number
                if name in filled and filled[name] != value[name]:
                    filled[name] = _spoken(filled[name])
        return filled


def _text_parameters(tool: Tool) -> frozenset[str]:
    """Return the names of a tool's parameters that take text alone."""
    return frozenset(field.name for field in form_fields(tool) if field.type == "string")


def _filled_text(place: str, text: str, row: Mapping[str, Any]) -> Any:
    if "${" not in text:
        return text
    alone = _REFERENCE.fullmatch(text)
    if alone is not None and not alone[1] and place != "prompt" and place != "id":
        return _value(place, alone[2], row)

    def fill(match: re.Match[str]) -> str:
        return match[0][1:] if match[1] else _spoken(_value(place, match[2], row))

    return _REFERENCE.sub(fill, text)


def _value(place: str, reference: str, row: Mapping[str, Any]) -> Any:
    """Return the value of `name`, or of `name.key` where the values are objects."""
    name, *keys = reference.strip().split(".")
    if name not in row:
        near = did_you_mean(name, list(row))
        hint = f"did you mean {near!r}?" if near else "add it to the variables"
        message = f"there is no variable {clean_line(name, 40)!r}: {hint}, or write "
        raise _Wrong(place, f"{message}$${{{clean_line(reference, 40)}}} for this text", "variable")
    value = row[name]
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            message = f"a value of {name} has no {clean_line(key, 40)!r}: give it to all of them"
            raise _Wrong(place, message, "variable")
        value = value[key]
    return value


def _spoken(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _held_out(draft: Draft, rows: Sequence[Mapping[str, Any]]) -> set[int]:
    """Return the numbers of the tasks that are held out."""
    if not draft.held_out:
        if draft.split_by:
            message = "nothing is held out: give `held_out` a share, such as 0.1"
            raise _Wrong("split_by", message)
        return set()
    names = [variable.name for variable in draft.variables]
    if draft.split_by and draft.split_by not in names:
        near = did_you_mean(draft.split_by, names)
        known = f"did you mean {near!r}?" if near else f"there is {', '.join(names) or 'none'}"
        message = f"there is no variable {clean_line(draft.split_by, 40)!r}: {known}"
        raise _Wrong("split_by", message, "variable")
    groups: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        value = row[draft.split_by] if draft.split_by else [number, dict(row)]
        groups.setdefault(_digest(draft.seed, value), []).append(number)
    if len(groups) < 2:
        name = f"{draft.split_by} has" if draft.split_by else "there is"
        message = f"{name} one value only: nothing can be held out beside it"
        raise _Wrong("held_out", message if draft.split_by else "one task cannot be split")
    wanted = max(round(draft.held_out * len(rows)), 1)
    held: set[int] = set()
    for key in sorted(groups)[:-1]:
        if not held or len(held) + len(groups[key]) <= wanted:
            held.update(groups[key])
    return held


def _unused(draft: Draft) -> Iterator[FieldProblem]:
    """Yield a warning of each variable that no text of the task has."""
    given = {name: value for name, value in draft.record.items() if name not in _KEPT}
    text = json.dumps(given, ensure_ascii=False, default=str)
    used = {match[2].strip().partition(".")[0] for match in _REFERENCE.finditer(text)}
    for variable in draft.variables:
        if variable.name not in used:
            message = f"no text of the task has ${{{variable.name}}}, so it changes nothing"
            yield FieldProblem(f"variables.{variable.name}", message, "unused", "warning")


def record_problems(records: Sequence[Mapping[str, Any]], rules: Rules) -> list[FieldProblem]:
    """Return each distinct problem of tasks once, with the id of the first that has it."""
    checker = TaskChecker(rules)
    found: dict[tuple[str | None, str], FieldProblem] = {}
    ids: set[str] = set()
    for record in records:
        task = checker.check(dict(record))
        name = f"{clean_line(str(record.get('id')), 60)}: " if len(records) > 1 else ""
        if task.id and task.id in ids:
            message = f"two tasks have the id {task.id}: put all variables into it, or none"
            found.setdefault(("id", "twice"), FieldProblem("id", message, "duplicate-id"))
        ids.add(task.id)
        for problem in task.problems:
            told = problem._replace(message=f"{name}{problem.message}")
            found.setdefault((problem.field, problem.code), told)
    return list(found.values())
