"""What is typed about new tasks: rows of text over a task, without any widget.

The task itself stays at hand, so that whatever the page has no row for is kept: unknown fields,
parts of an evaluation of other kinds, and values whose row was not touched.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hudtui.core.environment.form_args import ALL_ARGUMENTS, FormField, form_fields, skeleton
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.tasks.agent import SHARES
from hudtui.core.tasks.call_words import (
    call_of,
    find_tool,
    json_or_text,
    read_arguments,
    typed_arguments,
)
from hudtui.core.tasks.expectation import PLAIN_CONDITIONS, TEXT_CONDITIONS
from hudtui.core.tasks.solution import FIELD as SOLUTION
from hudtui.core.text import clean_line

Kind = Literal["setup", "part", "evaluator", "step", "variable", "task"]

_MAIN = tuple(name for name in PLAIN_CONDITIONS if name != "tolerance")
"""Conditions that the page offers, one of a part; others beside it are kept."""
_JUDGE_TEXTS = ("rubric", "model", "endpoint", "key")
_JUDGED = ("reply", "transcript")
_BREAKS, _FAILS = "counts nowhere", "not met"
"""An error answer to a call breaks the evaluation, or is the agent's failure."""


@dataclass(frozen=True)
class Row:
    """One field of the page."""

    key: str
    """Its name, on which its text is kept: `setup.0.path`."""
    label: str
    text: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class Block:
    """Rows that are about one thing and go together."""

    kind: Kind
    number: int
    title: str
    rows: tuple[Row, ...]


@dataclass
class _Call:
    """A call as it is typed, beside what it was."""

    name: str
    """The tool, or `hub.function`."""
    was: Mapping[str, Any] = field(default_factory=dict)
    """Arguments before anything was typed."""
    texts: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    """Texts of `was`: what is still the same keeps its value."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    given: Mapping[str, Any] | None = None
    """The call as it was, which stays so while nothing is typed; None for a new one."""

    @classmethod
    def of(cls, call: Mapping[str, Any], analysis: Analysis) -> _Call:
        """Return a call of a task."""
        given = call
        name, arguments = str(call.get("name", "")), call.get("arguments")
        arguments = dict(arguments) if isinstance(arguments, Mapping) else {}
        if name in analysis.hubs and isinstance(arguments.get("name"), str):
            name = f"{name}.{arguments.pop('name')}"
            inner = arguments.get("arguments")
            arguments = dict(inner) if isinstance(inner, Mapping) else arguments
        typed = typed_arguments(find_tool(analysis, name), arguments)
        extra = {key: value for key, value in call.items() if key not in ("name", "arguments")}
        return cls(name, arguments, dict(typed), dict(typed), extra, given)

    @classmethod
    def new(cls, tool: Tool) -> _Call:
        """Return an empty call of a tool, with skeletons where lists and objects are needed."""
        name = f"{tool.hub}.{tool.name}" if tool.hub else tool.name
        texts = {one.name: skeleton(tool, one.name) for one in form_fields(tool) if one.required}
        return cls(name, texts={key: text for key, text in texts.items() if text})

    def rows(self, place: str, analysis: Analysis) -> Iterator[Row]:
        tool = find_tool(analysis, self.name)
        fields = form_fields(tool) if tool is not None else ()
        for one in fields:
            if one.name == ALL_ARGUMENTS:
                continue
            yield _row(place, one, self.texts.get(one.name, ""))
        known = {one.name for one in fields}
        for name in self.texts:
            if name not in known and name != ALL_ARGUMENTS:
                yield Row(f"{place}.{name}", name, self.texts[name], "empty leaves it out")
        if tool is None or any(one.name == ALL_ARGUMENTS for one in fields):
            hint = "further ones, such as size=4 seed=${seed}"
            yield Row(f"{place}.", "arguments", self.texts.get(ALL_ARGUMENTS, ""), hint)

    def call(self, analysis: Analysis) -> dict[str, Any]:
        """Return the call.

        Raises:
            InputError: A value cannot be read, or is missing.
        """
        if self.given is not None and self.texts == self.shown:
            return dict(self.given)
        same = {name: text for name, text in self.shown.items() if self.texts.get(name) == text}
        kept = {name: value for name, value in self.was.items() if name in same}
        typed = {name: text for name, text in self.texts.items() if name not in same}
        for name, value in _words(typed.pop(ALL_ARGUMENTS, "")).items():
            typed.setdefault(name, value)
        tool = find_tool(analysis, self.name)
        if tool is None:
            made = call_of(analysis, self.name, typed)
            made["arguments"] = {**kept, **made["arguments"]}
            return {**self.extra, **made}
        arguments = read_arguments(tool, typed, kept)
        if tool.hub is not None:
            arguments = {"name": tool.name, "arguments": arguments}
        return {**self.extra, "name": tool.hub or tool.name, "arguments": arguments}


def _row(place: str, one: FormField, text: str) -> Row:
    hint = " | ".join(one.choices[:8]) if one.choices else one.type
    hint = f"{hint}   default {one.default}" if one.default else hint
    choices = () if one.type == "array" else one.choices
    return Row(f"{place}.{one.name}", one.name, text, clean_line(hint, 80), choices, one.required)


def _words(text: str) -> dict[str, str]:
    """Return further arguments: in JSON, or as `name=value`."""
    if not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            return {str(key): json.dumps(value) for key, value in json.loads(text).items()}
        except (ValueError, RecursionError) as error:
            raise InputError(
                "this is no JSON", why=f"{error}.", where=Location("arguments")
            ) from None
    try:
        pairs = [word.partition("=") for word in shlex.split(text)]
    except ValueError as error:
        where = Location("arguments")
        raise InputError("these words cannot be read", why=f"{error}.", where=where) from None
    if wrong := next((name for name, equals, _ in pairs if not equals), None):
        fix = "Write name=value, with blanks between them."
        raise InputError(f"{wrong!r} is no argument", fix=fix, where=Location("arguments"))
    return {name: value for name, _, value in pairs}


@dataclass
class _Part:
    """A part of an evaluation as it is typed, beside what it was."""

    was: Mapping[str, Any]
    subject: str
    """`call`, `reply`, `turns`, `judge`; empty for a part of another kind, which stays JSON."""
    call: _Call | None = None
    texts: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, part: Any, analysis: Analysis) -> _Part:
        """Return a part of a task."""
        known = [name for name in ("call", "reply", "turns", "judge") if _has(part, name)]
        subject = known[0] if len(known) == 1 else ""
        expected = part[_key(subject)] if subject and _key(subject) in part else None
        if not subject or not isinstance(expected, Mapping):
            texts = {"json": json.dumps(part, ensure_ascii=False)}
            return cls({"": part}, "", None, dict(texts), texts)
        texts = {"weight": _typed(part.get("weight", 1))}
        if subject == "judge":
            texts |= {name: str(expected[name]) for name in _JUDGE_TEXTS if name in expected}
            texts["of"] = _typed(expected.get("of", _JUDGED[0]))
            return cls(part, subject, None, dict(texts), texts)
        call = _Call.of(part["call"], analysis) if subject == "call" else None
        inner = expected
        if set(expected) - {"error"} == {"json"} and isinstance(expected["json"], Mapping):
            inner = expected["json"]
            texts["path"] = str(inner.get("path", ""))
        main = next((name for name in _MAIN if name in inner), "")
        if main != "error" and expected.get("error") is False:
            texts["errs"] = _FAILS
        texts |= {"expect": main, "value": _typed(inner[main])} if main else {}
        if not main:
            texts["expects"] = json.dumps(expected, ensure_ascii=False)
        if "tolerance" in inner:
            texts["tolerance"] = _typed(inner["tolerance"])
        return cls(part, subject, call, dict(texts), texts)

    def rows(self, place: str, analysis: Analysis) -> Iterator[Row]:
        get = self.texts.get
        if not self.subject:
            yield Row(f"{place}.json", "part (JSON)", get("json", ""), "kept as it is")
            return
        if self.subject == "judge":
            yield from self._judge_rows(place)
            return
        if self.call is not None:
            yield from self.call.rows(f"{place}.call", analysis)
        if "expects" in self.texts:
            yield Row(f"{place}.expects", "expect (JSON)", get("expects", ""))
        else:
            choices = ("number", "least", "most") if self.subject == "turns" else _MAIN
            yield Row(f"{place}.expect", "expect", get("expect", ""), " | ".join(choices), choices)
            hint = "true | false" if get("expect") == "error" else "${name} is a variable"
            yield Row(f"{place}.value", "  value", get("value", ""), hint, required=True)
            if get("expect") == "number":
                yield Row(f"{place}.tolerance", "  tolerance", get("tolerance", ""), "0")
            if self.subject != "turns" and get("expect") != "error":
                hint = "in JSON: items[0].name; empty: the text"
                yield Row(f"{place}.path", "  at path", get("path", ""), hint)
            if self.call is not None and get("expect") != "error":
                # An error of the environment and one of the agent look the same.
                hint = f"{_BREAKS}: the evaluation is broken; or {_FAILS}, such as a missing file"
                choices = (_BREAKS, _FAILS)
                yield Row(f"{place}.errs", "  if it errs", get("errs", ""), hint, choices)
        yield Row(f"{place}.weight", "weight", get("weight", ""), "1")

    def _judge_rows(self, place: str) -> Iterator[Row]:
        get = self.texts.get
        hint = "what earns 1, what half, and what nothing"
        yield Row(f"{place}.rubric", "rubric", get("rubric", ""), hint, required=True)
        hint = "its name at the endpoint"
        yield Row(f"{place}.model", "model", get("model", ""), hint, required=True)
        hint = "http://127.0.0.1:8000/v1; empty: OPENAI_BASE_URL, or OpenAI"
        yield Row(f"{place}.endpoint", "endpoint", get("endpoint", ""), hint)
        hint = "NAME of the variable with the key, never the key itself"
        yield Row(f"{place}.key", "key", get("key", ""), hint)
        yield Row(f"{place}.of", "judges the", get("of", ""), _JUDGED[0], _JUDGED)
        yield Row(f"{place}.weight", "weight", get("weight", ""), "1")

    def part(self, analysis: Analysis) -> Any:
        """Return the part.

        Raises:
            InputError: A value cannot be read, or is missing.
        """
        if not self.subject:
            return self.was[""] if self.texts == self.shown else _json(self.texts["json"])
        made = dict(self.was)
        if self.call is not None:
            made["call"] = self.call.call(analysis)
        if self.texts != self.shown:
            judges = self.subject == "judge"
            made[_key(self.subject)] = self._judge() if judges else self._expected()
            weight = self.texts.get("weight", "").strip()
            made["weight"] = json_or_text(weight) if weight else 1
            if made["weight"] == 1 and "weight" not in self.was:
                del made["weight"]
        return made

    def _judge(self) -> dict[str, Any]:
        made = {**self.was["judge"]}
        for name in (*_JUDGE_TEXTS, "of"):
            text = self.texts.get(name, "")
            if text == self.shown.get(name):
                continue
            made[name] = json_or_text(text) if name == "of" else text
            if not text:
                del made[name]
        return made

    def _expected(self) -> Any:
        get = self.texts.get
        if "expects" in self.texts:
            return _json(self.texts["expects"])
        before = self.was.get(_key(self.subject), {})
        inner = before["json"] if self.shown.get("path") else before
        gone = {self.shown.get("expect"), "tolerance", "path"}
        gone |= {"error"} if self.shown.get("errs") else set()
        made = {name: value for name, value in inner.items() if name not in gone}
        main, value = get("expect", "").strip(), get("value", "")
        if main not in _MAIN:
            raise InputError(
                "choose what is expected",
                fix=f"One of {', '.join(_MAIN)}.",
                where=Location("expect"),
            )
        if not value:
            raise InputError(f"what it {main} is missing", where=Location("value"))
        made[main] = value if main in TEXT_CONDITIONS else json_or_text(value)
        if main == "number" and get("tolerance", "").strip():
            made["tolerance"] = json_or_text(get("tolerance", "").strip())
        path = get("path", "").strip()
        made = {"json": {"path": path, **made}} if path else made
        return {**made, **self._of_errors(main)}

    def _of_errors(self, main: str) -> dict[str, bool]:
        """What the part says of an error answer."""
        text = self.texts.get("errs", "").strip()
        if text not in ("", _BREAKS, _FAILS):
            fix = f"It is {_BREAKS} or {_FAILS}."
            raise InputError(
                "an error answer cannot mean this", fix=fix, where=Location("if it errs")
            )
        return {"error": False} if text == _FAILS and main != "error" else {}


@dataclass
class _Step:
    """A step of a solution as it is typed: a call, the last words, or something else, kept."""

    was: Any
    call: _Call | None = None
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, step: Any, analysis: Analysis) -> _Step:
        """Return a step of a task."""
        if isinstance(step, Mapping) and isinstance(step.get("reply"), str) and len(step) == 1:
            return cls(step, texts={"reply": step["reply"]})
        is_call = isinstance(step, Mapping) and isinstance(step.get("name"), str)
        return cls(step, _Call.of(step, analysis) if is_call else None)

    @property
    def title(self) -> str:
        if self.call is not None:
            return self.call.name
        return "the last reply" if self.texts else "kept as it is"

    def rows(self, place: str, analysis: Analysis) -> Iterator[Row]:
        if self.call is not None:
            yield from self.call.rows(f"{place}.call", analysis)
        elif self.texts:
            yield Row(f"{place}.reply", "says", self.texts["reply"], "what ends the task")

    def step(self, analysis: Analysis) -> Any:
        """Return the step.

        Raises:
            InputError: A value cannot be read, or is missing.
        """
        if self.call is not None:
            return self.call.call(analysis)
        return {"reply": self.texts["reply"]} if self.texts else self.was


def _has(part: Any, name: str) -> bool:
    return isinstance(part, Mapping) and name in part


def _key(subject: str) -> str:
    return "expect" if subject == "call" else subject


def _typed(value: Any) -> str:
    plain = isinstance(value, str) and json_or_text(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("this is no JSON", why=f"{error}.", where=Location("part")) from None


class DraftForm:
    """The page's state.

    Args:
        record: The task that it begins with, or its beginning.
        analysis: The environment.
        single: One task is changed: it has no variables, and `${name}` is mere text.
    """

    def __init__(
        self, record: Mapping[str, Any], analysis: Analysis, *, single: bool = False
    ) -> None:
        self.record, self.analysis, self.single = dict(record), analysis, single
        self.texts = {"id": str(record.get("id", ""))}
        self.prompt = str(record.get("prompt", ""))
        self.setup = [_Call.of(one, analysis) for one in _listed(record.get("setup_tool"))]
        self.parts = [_Part.of(one, analysis) for one in _listed(record.get("evaluate"))]
        self.evaluators = [_Call.of(one, analysis) for one in _listed(record.get("evaluate_tool"))]
        self.steps = [_Step.of(one, analysis) for one in _listed(record.get(SOLUTION))]
        self.variables: list[dict[str, str]] = []
        agent = record.get("agent_config")
        self.shares = bool(agent.get(SHARES)) if isinstance(agent, Mapping) else False

    # -- its rows
    # ----------------------------------------------------------------------------------------------

    def blocks(self) -> list[Block]:
        """Return the rows of the page, in their order; the prompt has a place of its own."""
        made = []
        for number, call in enumerate(self.setup):
            rows = tuple(call.rows(f"setup.{number}", self.analysis))
            made.append(Block("setup", number, f"Setup: {call.name}", rows))
        for number, part in enumerate(self.parts):
            rows = tuple(part.rows(f"part.{number}", self.analysis))
            made.append(Block("part", number, f"Expectation: {_subject(part)}", rows))
        for number, call in enumerate(self.evaluators):
            rows = tuple(call.rows(f"evaluator.{number}", self.analysis))
            made.append(Block("evaluator", number, f"Reward of {call.name}", rows))
        for number, step in enumerate(self.steps):
            rows = tuple(step.rows(f"step.{number}", self.analysis))
            made.append(Block("step", number, f"Solution: {step.title}", rows))
        for number, variable in enumerate(self.variables):
            place, hint = f"variable.{number}", "a, b, c   or 1..20   or seed   or a JSON list"
            rows = (
                Row(f"{place}.name", "name", variable.get("name", ""), "used as ${name}"),
                Row(f"{place}.values", "values", variable.get("values", ""), hint),
            )
            made.append(Block("variable", number, "Variable", rows))
        made.append(Block("task", 0, "Tasks", tuple(self._task_rows())))
        return made

    def _task_rows(self) -> Iterator[Row]:
        get = self.texts.get
        yield Row("task.id", "id", get("id", ""), "the tasks are called id-1, id-2 …")
        if self.single:
            return
        names = tuple(one.get("name", "") for one in self.variables if one.get("name"))
        yield Row("task.count", "how many", get("count", ""), "one of each combination")
        yield Row("task.held_out", "held out", get("held_out", ""), "a share, such as 0.1; none")
        yield Row("task.split_by", "  split by", get("split_by", ""), "each task", names)
        yield Row("task.seed", "seed", get("seed", ""), "0")
        yield Row("task.file", "file", get("file", ""), ".json or .jsonl; what is in it stays")

    def put(self, key: str, text: str) -> None:
        """Take what was typed into a row."""
        kind, number, name = (*key.split(".", 2), "")[:3]
        if kind == "task":
            self.texts[number] = text
        elif kind == "variable":
            self.variables[int(number)][name] = text
        elif kind in ("part", "step"):
            item: _Part | _Step = (self.parts if kind == "part" else self.steps)[int(number)]
            inside = item.call is not None and name.startswith("call.")
            target = item.call.texts if inside and item.call is not None else item.texts
            target[name.removeprefix("call.") if inside else name] = text
        else:
            calls = self.setup if kind == "setup" else self.evaluators
            calls[int(number)].texts[name] = text

    # -- adding and removing
    # ----------------------------------------------------------------------------------------------

    def add_setup(self, tool: Tool) -> None:
        """Add a setup call. An agent's own tool is shared with it."""
        self.setup.append(_Call.new(tool))
        self.shares = self.shares or tool.kind == "agent"

    def add_part(self, subject: str, tool: Tool | None = None) -> None:
        """Add an expectation of the reply, of the turns, of a tool's answer, or a judge."""
        call = None if tool is None else _Call.new(tool)
        if subject == "judge":
            self.parts.append(_Part({subject: {}}, subject))
            return
        usual = "most" if subject == "turns" else "contains"
        self.parts.append(_Part({subject: {}}, subject, call, {"expect": usual}))

    def add_evaluator(self, tool: Tool) -> None:
        """Add a call that answers with a reward."""
        self.evaluators.append(_Call.new(tool))

    def add_step(self, tool: Tool | None = None) -> None:
        """Add a step of the solution before the last words: a call of a tool, or those words."""
        ends = bool(self.steps) and self.steps[-1].call is None
        if tool is not None:
            self.steps.insert(len(self.steps) - ends, _Step({}, _Call.new(tool)))
        elif not ends:
            self.steps.append(_Step({}, texts={"reply": ""}))

    def add_variable(self, name: str = "") -> None:
        """Add a variable."""
        self.variables.append({"name": name, "values": ""})

    def remove(self, block: Block) -> None:
        """Take away a call, an expectation or a variable."""
        lists: dict[str, list[Any]] = {
            "setup": self.setup,
            "part": self.parts,
            "evaluator": self.evaluators,
            "step": self.steps,
            "variable": self.variables,
        }
        if block.kind in lists:
            del lists[block.kind][block.number]

    # -- what it says
    # ----------------------------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        """Return the draft as data, for `read_draft`; of a single task, the task.

        Raises:
            InputError: A row cannot be read; the error names it.
        """
        made = dict(self.record)
        made["id"], made["prompt"] = self.texts["id"].strip(), self.prompt
        calls = [
            ("setup_tool", [call.call for call in self.setup]),
            ("evaluate", [part.part for part in self.parts]),
            ("evaluate_tool", [call.call for call in self.evaluators]),
            (SOLUTION, [step.step for step in self.steps]),
        ]
        for name, readers in calls:
            values = []
            for number, read in enumerate(readers):
                with _at(f"{name}[{number}]"):
                    values.append(read(self.analysis))
            self._put_list(made, name, values)
        agent = made.get("agent_config")
        agent = dict(agent) if isinstance(agent, Mapping) else {}
        if self.shares != bool(agent.get(SHARES)):
            agent[SHARES] = self.shares
            made["agent_config"] = agent
        if self.single:
            return made
        made["variables"] = {
            one["name"].strip() or f"variable {number + 1}": one["values"]
            for number, one in enumerate(self.variables)
        }
        for name in ("count", "held_out", "split_by", "seed"):
            if text := self.texts.get(name, "").strip():
                made[name] = text if name == "split_by" else json_or_text(text)
        return made

    def _put_list(self, made: dict[str, Any], name: str, values: list[Any]) -> None:
        """Put calls or parts where they were: one alone as it was written, none left out."""
        before = self.record.get(name)
        fresh = not before and name in ("setup_tool", "evaluate_tool")
        if not values:
            if before:
                made.pop(name, None)
        elif len(values) == 1 and (isinstance(before, Mapping) or fresh):
            made[name] = values[0]
        else:
            made[name] = values


class _at:
    """Names the place of an error that a row raises."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, HudtuiError):
            inner = error.where.field or error.where.file if error.where else ""
            where = Location(f"{self._place}.{inner}" if inner else self._place)
            raise InputError(error.what, why=error.why, fix=error.fix, where=where) from None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _subject(part: _Part) -> str:
    if part.call is not None:
        return part.call.name
    names = {"reply": "the last reply", "turns": "the number of turns"}
    names["judge"] = "a model that judges"
    return names.get(part.subject, "kept as it is")
