"""The actions of a configuration as tools with JSON Schemas.

They are for models and trainers that call tools by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.gym.interpreter import DONE, open_to_agent
from hudtui.core.gym.values import MISSING, ActionMapping, FromArg, FromArgs, GymConfig, Static

_DONE = Tool(
    DONE, "End the episode.", {"type": "object", "properties": {}, "additionalProperties": False}
)


def action_tools(
    config: GymConfig, tools: Mapping[str, Tool], *, reserved: Collection[str] = ()
) -> tuple[Tool, ...]:
    """Calls that an agent can make under a configuration.

    Each action, unmapped tools where they are allowed, and `done`.

    `tools` are the environment's, by name, without those that belong to the task. Those in
    `reserved` are reached by a mapping alone.

    Returns:
        The actions in the order of the configuration, then the unmapped tools, then `done`. The
        schema of an action has its
        arguments: an argument that becomes a tool's parameter unchanged has that parameter's
            schema, a transformed one has none.
        An action whose tool does not exist is left out, because it cannot be called.
    """
    agent_tools = [
        _action(mapping, tool)
        for mapping in config.mappings.values()
        if mapping.name != DONE
        and (tool := tools.get(mapping.tool)) is not None
        and tool.hub is None
    ]
    if config.allow_unmapped:
        taken = {*config.mappings, *config.invalid, *reserved, DONE}
        agent_tools += [
            tool
            for tool in tools.values()
            if tool.name not in taken and open_to_agent(tool) and config.offers(tool.name)
        ]
    return (*agent_tools, _DONE)


def _action(mapping: ActionMapping, tool: Tool) -> Tool:
    schema = tool.input_schema or {}
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    needed = (
        set(required)
        if isinstance(required, list) and all(isinstance(name, str) for name in required)
        else set()
    )
    arguments: dict[str, Any] = {name: {} for name in mapping.arguments}
    wanted: set[str] = set()
    for name, parameter in mapping.parameters.items():
        own = properties.get(name)
        own = dict(own) if isinstance(own, Mapping) else {}
        for argument, described, missing in _arguments(parameter, own):
            arguments[argument] = {**arguments.get(argument, {}), **described}
            if missing and name in needed:
                wanted.add(argument)
    written: dict[str, Any] = {
        "type": "object",
        "properties": arguments,
        "additionalProperties": False,
    }
    if wanted:
        written["required"] = [name for name in arguments if name in wanted]
    for key in ("$defs", "definitions"):
        if isinstance(schema.get(key), Mapping):
            written[key] = schema[key]
    fixed = [
        f"{name}={json.dumps(one.value, default=str)}"
        for name, one in mapping.parameters.items()
        if isinstance(one, Static)
    ]
    calls = f"Calls {mapping.tool}({', '.join(fixed)})." if fixed else ""
    return Tool(
        mapping.name, " ".join(part for part in (tool.description.strip(), calls) if part), written
    )


def _arguments(parameter: Any, own: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """The arguments that a parameter is taken from: name, schema, and whether it has no default."""
    if isinstance(parameter, FromArg):
        described = own if parameter.transform is None else {}
        if parameter.default is not MISSING:
            yield parameter.arg, {**described, "default": parameter.default}, False
        else:
            yield parameter.arg, described, True
    elif isinstance(parameter, FromArgs):
        items = own.get("items")
        for index, argument in enumerate(parameter.args):
            described = dict(items) if isinstance(items, Mapping) else {}
            if index < len(parameter.defaults):
                yield argument, {**described, "default": parameter.defaults[index]}, False
            else:
                yield argument, described, True
