"""Calling a tool by hand: from what was typed into a form to the arguments of a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError, Location
from hudtui.core.files import parse_json

ALL_ARGUMENTS = ""
"""Name of the one field of a tool whose parameters are not known: all arguments, as a JSON
object."""
_DEEPEST = 4
"""Objects in objects of a skeleton."""


@dataclass(frozen=True)
class FormField:
    """One field of the form."""

    name: str
    type: str
    """The schema's type word; `any` where it has none or several."""
    required: bool
    choices: tuple[str, ...] = ()
    """The values of an enum, as they are typed."""
    default: str = ""
    """As it would be typed; shown, not sent."""


def form_fields(tool: Tool) -> tuple[FormField, ...]:
    """The fields to fill in for a call of `tool`.

    Required ones first, each group in the order of the schema.
    """
    properties = (tool.input_schema or {}).get("properties")
    if not isinstance(properties, Mapping):
        return (
            (FormField(ALL_ARGUMENTS, "object", False),)
            if tool.input_schema is None or tool.hub
            else ()
        )
    required = tool.input_schema.get("required") if tool.input_schema else None
    needed = (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )
    fields = [
        _field(str(name), schema if isinstance(schema, Mapping) else {}, name in needed)
        for name, schema in properties.items()
    ]
    return tuple(sorted(fields, key=lambda field: not field.required))


def skeleton(tool: Tool, name: str) -> str:
    """Return the list or object of a parameter with empty values, in JSON, to be filled in.

    Empty for any other parameter, and where the schema does not say what is in it.
    """
    properties = (tool.input_schema or {}).get("properties")
    schema = properties.get(name) if isinstance(properties, Mapping) else None
    value = _empty(schema, 0)
    is_nested = isinstance(value, list | dict) and bool(value)
    return json.dumps(value, ensure_ascii=False) if is_nested else ""


def _empty(schema: Any, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return ""
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    kind, properties = schema.get("type"), schema.get("properties")
    if kind == "array":
        return [_empty(schema.get("items"), depth + 1)]
    if kind == "object" and isinstance(properties, Mapping):
        required = schema.get("required")
        wanted = required if isinstance(required, list) and required else list(properties)
        return {key: _empty(properties.get(key), depth + 1) for key in wanted}
    return {"object": {}, "boolean": False, "integer": 0, "number": 0}.get(str(kind), "")


def signature(tool: Tool, name: str | None = None) -> str:
    """Return a tool as its call is written: `move(direction, times?)`.

    `?` marks optional parameters, `…` unknown ones.
    """
    fields = form_fields(tool)
    known = [
        field.name + ("" if field.required else "?")
        for field in fields
        if field.name != ALL_ARGUMENTS
    ]
    return f"{name or tool.name}({', '.join(known) if len(known) == len(fields) else '…'})"


def read_form(tool: Tool, typed: Mapping[str, str]) -> dict[str, Any]:
    """The arguments of a call.

    A text parameter takes what was typed as it is; every other one is read as JSON. An empty field
    is left out. A required text that is to be empty is typed as `""`. Of a choice its beginning is
    enough, where no other choice begins like that.

    Args:
        tool: The tool that is called.
        typed: Field name -> what was typed.

    Raises:
        InputError: A field cannot be read or is none of its choices, or a required one is empty.
    """
    arguments: dict[str, Any] = {}
    for field in form_fields(tool):
        text = typed.get(field.name, "")
        if field.name == ALL_ARGUMENTS:
            if text.strip():
                arguments = _object(text)
        elif not (text if field.type == "string" else text.strip()):
            if field.required:
                fix = (
                    'Type "" to send an empty text.'
                    if field.type == "string" and not field.choices
                    else None
                )
                raise InputError(
                    "this parameter is required",
                    fix=fix,
                    where=Location(tool.name, field=field.name),
                )
        elif field.choices and not (field.type == "string" and text == '""' and field.required):
            arguments[field.name] = _chosen(field, text)
        elif field.type == "string":
            arguments[field.name] = "" if field.required and text == '""' else text
        else:
            arguments[field.name] = _value(field, text)
    return arguments


def hub_call(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name and the arguments to send: a hub's function is called through its hub."""
    if tool.hub is None:
        return tool.name, dict(arguments)
    return tool.hub, {"name": tool.name, "arguments": dict(arguments)}


def _field(name: str, schema: Mapping[str, Any], required: bool) -> FormField:
    kind = schema.get("type")
    default = schema.get("default")
    return FormField(
        name,
        kind if isinstance(kind, str) else "string" if _all_text(schema.get("enum")) else "any",
        required,
        _choices(schema),
        "" if default is None else _typed(default),
    )


def _choices(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The values that a schema allows for a field, or for each item of a list, as they are typed.

    Empty if it names none.
    """
    for one in (schema, schema.get("items") if schema.get("type") == "array" else None):
        if not isinstance(one, Mapping):
            continue
        if isinstance(one.get("enum"), list):
            return tuple(_typed(value) for value in one["enum"])
        for name in ("oneOf", "anyOf"):
            options = one.get(name)
            if (
                isinstance(options, list)
                and options
                and all(isinstance(each, Mapping) and "const" in each for each in options)
            ):
                return tuple(_typed(each["const"]) for each in options)
    return ()


def _all_text(choices: Any) -> bool:
    return (
        isinstance(choices, list)
        and bool(choices)
        and all(isinstance(choice, str) for choice in choices)
    )


def _typed(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)


def _chosen(field: FormField, text: str) -> Any:
    if field.type == "array":
        if text.lstrip().startswith("["):
            return _value(field, text)
        return [_choice(field, word.strip()) for word in text.split(",") if word.strip()]
    chosen = _choice(field, text.strip())
    return chosen if field.type == "string" else _value(field, chosen)


def _choice(field: FormField, text: str) -> str:
    """The choice that a text means.

    Itself, in whatever case, or the only one that begins with this word.

    Raises:
        InputError: It means none of them, or several.
    """
    if text in field.choices:
        return text
    folded = text.casefold()
    same = [choice for choice in field.choices if choice.casefold() == folded]
    # Half a number is another number.
    meant = same or [
        choice
        for choice in field.choices
        if text[:1].isalpha() and choice.casefold().startswith(folded)
    ]
    if len(meant) == 1:
        return meant[0]
    raise InputError(
        f"{field.name} is one of {', '.join(field.choices)}, not {text!r}",
        why=f"{text!r} may be {' or '.join(meant)}." if meant else None,
        where=Location(field.name),
    )


def _value(field: FormField, text: str) -> Any:
    try:
        return parse_json(text, field.name)
    except InputError as error:
        if field.type == "any":
            return text  # several types are possible, and everything fits into text
        example = {
            "boolean": "true",
            "integer": "3",
            "number": "2.5",
            "array": '["a", "b"]',
            "object": '{"key": "value"}',
        }
        raise InputError(
            f"this parameter is of type {field.type}, written as JSON",
            why=error.what,
            fix=f"For example: {example[field.type]}" if field.type in example else None,
            where=Location(field.name),
        ) from None


def _object(text: str) -> dict[str, Any]:
    value = parse_json(text, "arguments")
    if not isinstance(value, dict):
        raise InputError(
            "the arguments are a JSON object",
            fix='For example: {"key": "value"}',
            where=Location("arguments"),
        )
    return value
