"""Calls and parts of an evaluation as they are typed: `write_file path=words.txt "content=a b"`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hudtui.core.environment.form_args import ALL_ARGUMENTS, FormField, form_fields, read_form
from hudtui.core.environment.values import Analysis, Tool
from hudtui.core.errors import InputError, Location
from hudtui.core.tasks.expectation import PLAIN_CONDITIONS, TEXT_CONDITIONS
from hudtui.core.text import clean_line

_SUBJECTS = ("reply", "turns")
_OF_PART = ("weight", "name")


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
    """Return the call that a text says: the tool, then `parameter=value` for each argument.

    Args:
        text: The words, quoted as in a shell.
        analysis: The environment, whose schemas say what a value is.
        field: What the call is for, for errors.

    Raises:
        InputError: The words cannot be read.
    """
    name, *rest = _words(text, field)
    typed = dict(_pair(word, field) for word in rest)
    return call_of(analysis, name, typed)


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

    `read_file path=out.txt contains delta weight 0.6`, `reply number 42 tolerance 0.5`, `turns most
    5`, `reply json items[0].name equals x`; or the part in JSON.

    Raises:
        InputError: The words cannot be read.
    """
    if text.lstrip().startswith("{"):
        return _object(text, field)
    subject, *rest = _words(text, field)
    typed: dict[str, str] = {}
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
        else:
            target[word] = value if word in TEXT_CONDITIONS else json_or_text(value)
    if subject in _SUBJECTS:
        return {subject: expected, **part}
    return {"call": call_of(analysis, subject, typed), "expect": expected, **part}


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
        raise InputError(
            f"{clean_line(word, 60)!r} is no argument",
            fix='Write PARAMETER=VALUE, with quotes around what has blanks: "content=a b".',
            where=Location(field),
        )
    return name, value


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
