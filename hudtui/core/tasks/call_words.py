"""Calls, parts of an evaluation and steps of a solution as they are typed.

`write_file path=words.txt "content=a b"`, or as calls are shown: `write_file(path=words.txt)`.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hudtui.core.environment.form_args import ALL_ARGUMENTS, FormField, form_fields, read_form
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError, Location
from hudtui.core.tasks.expectation import PLAIN_CONDITIONS, TEXT_CONDITIONS
from hudtui.core.text import clean_line, did_you_mean

_SUBJECTS = ("reply", "turns")
_OF_PART = ("weight", "name")
_CALLED = re.compile(r"\s*([^\W\d][\w.-]*)\(")
_NAMED = re.compile(r"\s*([^\W\d][\w.-]*)\s*=(.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(['\\])")
_OPENING, _CLOSING = "([{", ")]}"


def find_tool(analysis: Analysis, name: str) -> Tool | None:
    """Return the tool or function of a hub that a name means: `move`, `board` or `setup.board`."""
    hub, _, function = name.rpartition(".")
    for tool in analysis.tools:
        if tool.name == name or (hub and tool.hub == hub and tool.name == function):
            return tool
    return None


def read_arguments(
    tool: Tool, typed: Mapping[str, str], kept: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the arguments of a call in a draft.

    What is typed is read as the tool's schema says, and a parameter that the schema does not have
    as JSON where it is JSON. Texts with variables stay texts, except in lists and objects.

    Args:
        tool: The tool that is called.
        typed: Parameter -> what was typed; an empty one is left out.
        kept: Arguments that are values already.

    Raises:
        InputError: A value cannot be read, or a required one is missing.
    """
    fields = {field.name: field for field in form_fields(tool)}
    varied = {name for name, text in typed.items() if "${" in text and name != ALL_ARGUMENTS}
    further = typed.keys() - fields.keys() - {ALL_ARGUMENTS}
    plain = {name: text for name, text in typed.items() if name not in varied | further}
    kept = kept or {}
    arguments = {**kept, **read_form(_without(tool, varied | kept.keys()), plain)}
    for name in typed:
        if name not in varied | further or not typed[name]:
            continue
        is_text = name in fields and fields[name].type == "string"
        arguments[name] = typed[name] if is_text else json_or_text(typed[name])
    order = [*fields, *kept, *typed]
    return {name: arguments[name] for name in sorted(arguments, key=_place_in(order))}


def typed_arguments(tool: Tool | None, arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of a call as they are typed; `read_arguments` gives them back."""
    fields = {field.name: field for field in form_fields(tool)} if tool is not None else {}
    typed = {}
    for name, value in arguments.items():
        is_text = isinstance(value, str)
        plain = is_text and (json_or_text(value) == value or _is_text(fields.get(name)))
        typed[name] = value if plain and value else json.dumps(value, ensure_ascii=False)
    return typed


def _is_text(field: FormField | None) -> bool:
    return field is not None and field.type == "string"


def read_call(text: str, analysis: Analysis, field: str) -> dict[str, Any]:
    """Return the call that a text says: `tool parameter=value`, or `tool(value, parameter=value)`.

    Args:
        text: The words, quoted as in a shell; between brackets, with commas and quotes as in JSON.
        analysis: The environment, whose schemas say what a value is.
        field: What the call is for, for errors.

    Raises:
        InputError: The words cannot be read.
    """
    name, typed, rest = _head(text, analysis, field)
    typed |= dict(_pair(word, field) for word in rest)
    return call_of(analysis, name, typed)


def read_step(text: str, analysis: Analysis, field: str) -> dict[str, Any]:
    """Return the step of a solution that a text says: a call, or `reply` and what is said.

    Raises:
        InputError: The words cannot be read.
    """
    word, _, said = text.strip().partition(" ")
    if word != "reply":
        return read_call(text, analysis, field)
    said = said.strip()
    return {"reply": _quoted(said) or said}


def call_of(analysis: Analysis, name: str, typed: Mapping[str, str]) -> dict[str, Any]:
    """Return a call of a draft.

    An unknown tool is kept as it is typed: the check of the draft names it.

    Raises:
        InputError: A value cannot be read, or a required one is missing.
    """
    tool = find_tool(analysis, name)
    if tool is None:
        values = {key: json_or_text(value) for key, value in typed.items() if value}
        return {"name": name, "arguments": values}
    arguments = read_arguments(tool, typed)
    if tool.hub is None:
        return {"name": tool.name, "arguments": arguments}
    return {"name": tool.hub, "arguments": {"name": tool.name, "arguments": arguments}}


def read_part(text: str, analysis: Analysis, field: str) -> dict[str, Any]:
    """Return the part of an evaluation that a text says.

    `read_file path=out.txt contains delta weight 0.6`, `read_file(out.txt) contains delta`, `reply
    number 42 tolerance 0.5`, `turns most 5`, `reply json items[0].name equals x`, `judge
    rubric="1 if it is polite" model=NAME`; or the part in JSON.

    Raises:
        InputError: The words cannot be read.
    """
    if text.lstrip().startswith("{"):
        return _object(text, field)
    subject, typed, rest = _head(text, analysis, field)
    while rest and rest[0] not in (*PLAIN_CONDITIONS, "json", *_OF_PART) and "=" in rest[0]:
        key, value = _pair(rest.pop(0), field)
        typed[key] = value
    part: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    target = expected
    for word, value in _pairs(rest, field):
        if word == "json":
            target = expected["json"] = {"path": value}
        elif word in _OF_PART:
            part[word] = value if word == "name" else json_or_text(value)
        elif word == "error":  # of the answer, also beside a path in it
            expected[word] = json_or_text(value)
        else:
            target[word] = value if word in TEXT_CONDITIONS else json_or_text(value)
    if subject in _SUBJECTS:
        return {subject: expected, **part}
    if subject == "judge" and find_tool(analysis, subject) is None:
        return {"judge": _judge(typed, expected, field), **part}
    return {"call": call_of(analysis, subject, typed), "expect": expected, **part}


def _judge(typed: Mapping[str, str], expected: Mapping[str, Any], field: str) -> dict[str, Any]:
    """Return the fields of a model that judges; what is wrong with them is the check's to say."""
    if expected:
        raise InputError(
            f"a judge gives a score by its rubric, and {next(iter(expected))!r} means nothing here",
            fix='Write it as judge rubric="1 if the reply is polite" model=NAME weight 0.5.',
            where=Location(field),
        )
    texts = ("rubric", "model", "endpoint", "key")
    return {name: text if name in texts else json_or_text(text) for name, text in typed.items()}


def _head(text: str, analysis: Analysis, field: str) -> tuple[str, dict[str, str], list[str]]:
    """Return the first word, the arguments between its brackets, and the words behind them."""
    called = _CALLED.match(text)
    if called is None:
        name, *rest = _words(text, field)
        return name, {}, rest
    items, end = _items(text, called.end(), field)
    tool = find_tool(analysis, called[1])
    order = [one.name for one in form_fields(tool) if one.name] if tool is not None else []
    typed: dict[str, str] = {}
    for place, item in enumerate(items):
        named = _NAMED.fullmatch(item)
        name, value = (named[1], named[2].strip()) if named else ("", item.strip())
        if not name and tool is None:
            raise _no_tool(called[1], analysis, field)
        if not name and place < len(order):
            name = order[place]
        if not name:
            raise _no_argument(item, field)
        quoted = _quoted(value)
        # A text in quotes stays a text, also where it looks like a number.
        typed[name] = value if quoted is None else typed_arguments(tool, {name: quoted})[name]
    return called[1], typed, _words(text[end:], field) if text[end:].strip() else []


def _no_tool(name: str, analysis: Analysis, field: str) -> InputError:
    near = did_you_mean(name, [tool.name for tool in analysis.tools])
    hint = f"; did you mean {near!r}?" if near else ""
    return InputError(
        f"the environment has no tool {clean_line(name, 60)!r}{hint}", where=Location(field)
    )


def _items(text: str, start: int, field: str) -> tuple[list[str], int]:
    """Return what stands between brackets, at its commas, and the place behind the last bracket."""
    items: list[str] = []
    item, depth, quote, before, place = "", 0, "", "(", start
    while place < len(text):
        sign = text[place]
        if quote:
            if sign == "\\":
                item, place = item + sign, place + 1
                sign = text[place : place + 1]
            elif sign == quote:
                quote = ""
        elif sign in "\"'" and before in "(,=[{:":
            quote = sign
        elif not depth and sign == ")":
            return [*items, item] if items or item.strip() else [], place + 1
        elif not depth and sign == ",":
            items, item, before, place = [*items, item], "", ",", place + 1
            continue
        else:
            depth += (sign in _OPENING) - (sign in _CLOSING)
        item, place = item + sign, place + 1
        before = before if sign.isspace() else sign
    what = f"the quote {quote} is not closed" if quote else "the bracket is not closed"
    raise InputError(
        "these words cannot be read",
        why=f"{what}: {clean_line(text, 60)}",
        where=Location(field),
    )


def _quoted(text: str) -> str | None:
    """Return the text between quotes; None for a text without them."""
    if len(text) < 2 or text[0] not in "\"'" or text[-1] != text[0]:
        return None
    if text[0] == "'":
        return _ESCAPED.sub(r"\1", text[1:-1])
    try:
        return str(json.loads(text, strict=False))
    except (ValueError, RecursionError):
        return text[1:-1]


def _words(text: str, field: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(
            "these words cannot be read", why=f"{error}.", where=Location(field)
        ) from None
    if not words:
        raise InputError("nothing is written here: a tool is needed", where=Location(field))
    return words


def _pair(word: str, field: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise _no_argument(word, field)
    return name, value


def _no_argument(word: str, field: str) -> InputError:
    return InputError(
        f"{clean_line(word, 60)!r} is no argument",
        fix='Write PARAMETER=VALUE, with quotes around what has blanks: "content=a b".',
        where=Location(field),
    )


def _pairs(words: Sequence[str], field: str) -> list[tuple[str, str]]:
    known = (*PLAIN_CONDITIONS, "json", *_OF_PART)
    for word in words[::2]:
        if word not in known:
            raise InputError(
                f"{clean_line(word, 60)!r} is no condition",
                fix=f"It is one of {', '.join(known)}, each followed by its value.",
                where=Location(field),
            )
    if len(words) % 2:
        raise InputError(f"there is no value after {words[-1]}", where=Location(field))
    return list(zip(words[::2], words[1::2], strict=True))


def _object(text: str, field: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("this is no JSON", why=f"{error}.", where=Location(field)) from None
    return dict(value)


def json_or_text(text: str) -> Any:
    """Return a text as the JSON value that it is, or as it is."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _without(tool: Tool, names: set[str]) -> Tool:
    """Return a tool that lacks parameters, so that the others can be read."""
    schema = dict(tool.input_schema or {})
    properties, required = schema.get("properties"), schema.get("required")
    if not names or not isinstance(properties, Mapping):
        return tool
    schema["properties"] = {key: value for key, value in properties.items() if key not in names}
    if isinstance(required, list):
        schema["required"] = [key for key in required if key not in names]
    return replace(tool, input_schema=schema)


def _place_in(order: list[str]) -> Any:
    places = {name: place for place, name in reversed(list(enumerate(order)))}
    return lambda name: places.get(name, len(order))
