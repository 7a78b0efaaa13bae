"""Meaning of replies under a configuration that is being written.

One example of every action, and calls in words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.gym.interpreter import DONE, Interpretation, Interpreter, text_interpreter
from hudtui.core.gym.lint.prompt import PLACEHOLDERS, usage_examples
from hudtui.core.gym.reply import Call, parse_call
from hudtui.core.gym.schema_examples import UNSET, ToolSchema, literal
from hudtui.core.gym.transform import TransformFailure
from hudtui.core.gym.values import ActionMapping, FromArg, FromArgs, GymConfig
from hudtui.core.text import clean_line

Tools = Mapping[str, Tool] | None
_KEPT_FROM_AGENT = ("setup", "evaluate", "hidden")
_GUESSES: tuple[Any, ...] = (
    1,
    "hello",
    "1",
    "a+b",
    [1, 2],
    True,
    "",
    {"x": 1, "y": 2},
    [[1, 2], [3, 4]],
    0.5,
)
_MOST_TRIED = 60


def agent_tools(analysis: Analysis) -> dict[str, Tool]:
    """Return the tools that a call of the agent can reach while a task is played, by name."""
    return {tool.name: tool for tool in analysis.tools if tool.kind not in _KEPT_FROM_AGENT}


def prompt_examples(config: GymConfig) -> dict[str, tuple[str, ...]]:
    """Return the usage examples of the prompt that are calls, by action.

    Explanations of the form are left out.
    """
    examples: dict[str, list[str]] = {}
    for usage in usage_examples(config.system_prompt):
        call = parse_call(usage.text)
        if not isinstance(call, Call) or not (call.name == DONE or config.offers(call.name)):
            continue
        if call.name not in PLACEHOLDERS or call.name in config.mappings:
            examples.setdefault(call.name, []).append(usage.text)
    return {name: tuple(dict.fromkeys(texts)) for name, texts in examples.items()}


def example_call(mapping: ActionMapping, tools: Tools) -> str:
    """Make up a call of an action.

    With arguments that its transforms take and that its tool accepts, where such are found.
    """
    tool = None if tools is None else tools.get(mapping.tool)
    schema = None if tool is None or tool.input_schema is None else ToolSchema(tool.input_schema)
    choices = [_values(mapping, name, schema) for name in mapping.positional]
    fallback = ""
    interpreter = Interpreter(GymConfig(mappings={mapping.name: mapping}), tools)
    for values in itertools.islice(_combinations(choices), _MOST_TRIED):
        text = f"{mapping.name}({', '.join(map(literal, values))})"
        fallback = fallback or text
        if interpreter.interpret(f"<tool>{text}</tool>").error is None:
            return text
    return fallback or f"{mapping.name}()"


def _combinations(choices: list[list[Any]]) -> Iterable[tuple[Any, ...]]:
    """Yield the values of arguments to try.

    First comes the first value of every argument, then one argument changed at a time, then the
    same guess for all arguments.
    """
    first = tuple(values[0] for values in choices)
    yield first
    for index, values in enumerate(choices):
        for value in values[1:]:
            yield (*first[:index], value, *first[index + 1 :])
    for value in _GUESSES:
        yield tuple(value for _ in choices)


def _values(mapping: ActionMapping, argument: str, schema: ToolSchema | None) -> list[Any]:
    """Values to try for an argument, the likeliest first."""
    likely: list[Any] = []
    properties = {prop.name: prop for prop in schema.properties()} if schema is not None else {}
    for name, parameter in mapping.parameters.items():
        prop = properties.get(name)
        if isinstance(parameter, FromArg) and parameter.arg == argument:
            example = (
                schema.example(prop.schema, name)
                if schema is not None and prop is not None
                else UNSET
            )
            if example is not UNSET and (
                parameter.transform is None or _passes(parameter, example)
            ):
                likely.append(example)
            if parameter.transform is not None:
                likely += [guess for guess in _GUESSES if _passes(parameter, guess)]
        elif (
            isinstance(parameter, FromArgs)
            and argument in parameter.args
            and schema is not None
            and prop is not None
        ):
            items = prop.schema.get("items")
            example = schema.example(items, argument) if isinstance(items, Mapping) else UNSET
            if example is not UNSET:
                likely.append(example)
    return [*likely, *_GUESSES]


def _passes(parameter: FromArg, value: Any) -> bool:
    assert parameter.transform is not None
    if parameter.transform.wants_context(parameter.use_context):
        return True  # depends on the other arguments; the interpreter tells
    try:
        parameter.transform(value, None)
    except TransformFailure:
        return False
    return True


ActionStatus = Literal["ok", "error", "broken", "done", "left out"]


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One action of the configuration with an example of it."""

    action: str
    example: str
    """The tool text."""
    origin: Literal["prompt", "made up"]
    verdict: ActionStatus
    words: str
    """The call that the example becomes, or why it becomes none; one line."""


def action_rows(config: GymConfig, tools: Tools) -> tuple[ActionRow, ...]:
    """Return a row for each action, in the order of the configuration."""
    examples = prompt_examples(config)
    interpreter = text_interpreter(config, tools)
    rows = []
    written = config.raw.get("action_mappings")
    for name in written if isinstance(written, dict) else ():
        if name in config.mappings or name in config.invalid:
            usage = examples.get(name, ("",))[0]
            rows.append(_row(name, config.mappings.get(name), usage, interpreter))
        elif name in config.left_out:
            words = "`actions` leaves it out: no agent can call it"
            rows.append(ActionRow(name, f"{name}()", "made up", "left out", words))
    return tuple(rows)


def _row(
    name: str, mapping: ActionMapping | None, usage: str, interpreter: Interpreter
) -> ActionRow:
    origin: Literal["prompt", "made up"] = "prompt" if usage else "made up"
    if mapping is None:
        return ActionRow(
            name, usage or f"{name}()", origin, "broken", interpreter.config.invalid.get(name, "")
        )
    if name == DONE:
        return ActionRow(name, usage or "done()", origin, "done", "ends the episode")
    text = usage or example_call(mapping, interpreter.tools)
    meaning = interpreter.interpret(f"<tool>{text}</tool>")
    if meaning.error is not None:
        return ActionRow(
            name, text, origin, "error", f"{meaning.error.stage}: {meaning.error.message}"
        )
    return ActionRow(name, text, origin, "ok", describe_call(meaning))


def describe_call(meaning: Interpretation) -> str:
    """Return the call of a reply on one line: `move(direction="left")`."""
    if meaning.done:
        return "ends the episode"
    if meaning.call is None:
        return "" if meaning.error is None else f"{meaning.error.stage}: {meaning.error.message}"
    arguments = ", ".join(
        f"{clean_line(name, 60)}={literal(value)}" for name, value in meaning.call.arguments.items()
    )
    return clean_line(f"{meaning.call.tool}({arguments})", 400)


def describe_check(meaning: Interpretation) -> str:
    """Say whether the call was checked against a schema, and with what result."""
    if meaning.done:
        return "no call: `done` ends the episode"
    if meaning.draft is None:
        return "no call to check"
    if not meaning.checked:
        return f"not checked: {meaning.unchecked}"
    if meaning.error is not None:
        return (
            f"refused: {meaning.error.message}"
            if meaning.error.stage == "schema"
            else "not checked: there is no call"
        )
    return "fits the tool's schema"
