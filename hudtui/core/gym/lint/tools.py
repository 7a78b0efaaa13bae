"""Checks of the mappings against the tools of an environment."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from hudtui.core.gym.lint.findings import MAPPINGS
from hudtui.core.gym.lint.report import LintReport, shown, suggest
from hudtui.core.gym.schema_examples import SchemaProperty, ToolSchema
from hudtui.core.gym.values import MISSING, ActionMapping, FromArg, FromArgs, Static
from hudtui.core.text import clean_line, confident_match, did_you_mean
from hudtui.core.yaml_doc import YamlPath

_WHOSE = {
    "setup": "sets up tasks",
    "evaluate": "judges them",
    "lifecycle": "is not meant for the agent",
}
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?\Z")


def check_tools(report: LintReport) -> None:
    """Report unknown tools, unknown and missing parameters, and values against the schema."""
    assert report.tools is not None
    _check_actions(report)
    for mapping in (*report.config.mappings.values(), *report.config.partial.values()):
        if mapping.name == "done":
            continue
        tool = report.tools.get(mapping.tool)
        if tool is None or tool.hub is not None:
            _unknown_tool(report, mapping, None if tool is None else tool.hub)
            continue
        kind = tool.kind
        if kind in _WHOSE:
            report.add(
                "lifecycle-tool",
                "warning",
                f"the tool `{mapping.tool}` {_WHOSE[kind]}; an agent that may call it can cheat",
                (MAPPINGS, mapping.name, "_tool"),
                at_value=True,
            )
        schema = report.schema(mapping.tool)
        if schema is not None:
            _check_mapping(report, mapping, schema)


def _check_actions(report: LintReport) -> None:
    """Report names of `actions` that neither a mapping nor a tool has."""
    config, tools = report.config, report.tools or {}
    if not config.allow_unmapped:
        return  # the reader has reported them
    known = ["done", *config.mappings, *config.invalid, *config.left_out, *tools]
    for name in config.actions or ():
        if name in known:
            continue
        near = did_you_mean(name, known)
        hint = f"; did you mean `{near}`?" if near else ""
        message = f"`actions` names `{clean_line(name, 60)}`, and no action or tool is called so"
        place = ("actions", report.document.data["actions"].index(name))
        report.add("actions", "error", message + hint, place, at_value=True)


def _unknown_tool(report: LintReport, mapping: ActionMapping, hub: str | None) -> None:
    assert report.tools is not None
    path: YamlPath = (MAPPINGS, mapping.name, "_tool")
    offered = [
        tool.name for tool in report.tools.values() if tool.kind == "agent" and tool.hub is None
    ]
    hint, fix, guess = suggest(
        mapping.tool,
        offered,
        lambda name: report.value(f"call `{name}`", path, name),
        _listed(offered),
    )
    if hub is not None:
        hint, guess = f"; it is a function of the hub `{hub}`, which is called in its place", None
    report.add(
        "unknown-tool",
        "error",
        f"the environment has no tool `{mapping.tool}`{hint}",
        path,
        at_value=True,
        fix=fix,
        guess=guess,
    )


def _check_mapping(report: LintReport, mapping: ActionMapping, schema: ToolSchema) -> None:
    properties = {prop.name: prop for prop in schema.properties()}
    # A parameter that stands there but cannot be read is not missing.
    written = report.document.at((MAPPINGS, mapping.name)) or mapping.parameters
    missing = [
        prop.name for prop in properties.values() if prop.required and prop.name not in written
    ]
    for name, parameter in mapping.parameters.items():
        path: YamlPath = (MAPPINGS, mapping.name, name)
        if name not in properties:
            _unknown_parameter(report, mapping, name, schema, properties, missing)
            continue
        prop = properties[name]
        if isinstance(parameter, Static):
            inner = (*path, "static") if isinstance(report.document.at(path), dict) else path
            _check_value(report, mapping, prop, schema, parameter.value, inner, "the value")
        elif isinstance(parameter, FromArg):
            if parameter.default is not MISSING:
                _check_value(
                    report,
                    mapping,
                    prop,
                    schema,
                    parameter.default,
                    (*path, "default"),
                    "the default",
                )
        else:
            _check_list(report, mapping, prop, schema, parameter, path)
    for name in missing:
        report.add(
            "missing-required",
            "error",
            f"the tool `{mapping.tool}` requires `{name}` "
            f"({schema.words(properties[name].schema)}), and nothing supplies it",
            (MAPPINGS, mapping.name),
            parameter=name,
        )


def _unknown_parameter(
    report: LintReport,
    mapping: ActionMapping,
    name: str,
    schema: ToolSchema,
    properties: Mapping[str, SchemaProperty],
    missing: list[str],
) -> None:
    closed, open_ = _openness(schema, name)
    if open_ or (not properties and not closed):
        return  # anything goes there
    free = [known for known in properties if known not in mapping.parameters]
    path: YamlPath = (MAPPINGS, mapping.name, name)
    hint, fix, guess = suggest(
        name,
        free,
        lambda meant: report.key(f"rename to `{meant}`", path, meant),
        _listed(properties),
    )
    report.add(
        "unknown-parameter",
        "error" if closed or missing else "warning",
        f"the tool `{mapping.tool}` has no parameter `{name}`{hint}",
        path,
        fix=fix,
        guess=guess,
    )


def _listed(known: Collection[str]) -> str:
    names = [f"`{name}`" for name in list(known)[:8]]
    return (
        f"; it has {', '.join(names)}{', ...' if len(known) > 8 else ''}"
        if names
        else "; it has none"
    )


def _openness(schema: ToolSchema, name: str) -> tuple[bool, bool]:
    """Return two flags.

    Unlisted parameters are refused, and a rule of the schema covers this parameter.
    """
    plain = schema.resolved(schema.root)
    extra = plain.get("additionalProperties")
    patterns = plain.get("patternProperties")
    if isinstance(patterns, Mapping):
        # Patterns are the server's: only the validator looks for them in a bounded time.
        only = {"patternProperties": dict.fromkeys(patterns, True), "additionalProperties": False}
        if schema.fits(only, {name: None}):
            return False, True
    return extra is False or plain.get("unevaluatedProperties") is False, isinstance(
        extra, Mapping
    ) and bool(extra)


def _check_value(
    report: LintReport,
    mapping: ActionMapping,
    prop: SchemaProperty,
    schema: ToolSchema,
    value: Any,
    path: YamlPath,
    what: str,
) -> None:
    if schema.fits(prop.schema, value):
        return
    choices = prop.schema.get("enum")
    meant: Any = None
    if isinstance(choices, list):
        code = "enum-mismatch"
        texts = [choice for choice in choices if isinstance(choice, str)]
        if isinstance(value, str):
            meant = confident_match(value, texts)
        if meant is None:
            meant = next((choice for choice in choices if _same_written(choice, value)), None)
        near = (
            meant
            if meant is not None
            else did_you_mean(value, texts)
            if isinstance(value, str)
            else None
        )
    else:
        code = "type-mismatch"
        near = meant = _converted(schema, prop, value)
    hint = f"; did you mean {shown(near)}?" if near is not None else ""
    message = (
        f"{what} {shown(value)} does not fit: `{prop.name}` takes "
        f"{_article(schema.words(prop.schema))}{hint}"
    )
    report.add(
        code,
        "error",
        message,
        path,
        at_value=True,
        fix=None if meant is None else report.value(f"write {shown(meant)}", path, meant),
        guess=None
        if meant is not None or near is None
        else report.value(f"write {shown(near)}", path, near),
    )


def _check_list(
    report: LintReport,
    mapping: ActionMapping,
    prop: SchemaProperty,
    schema: ToolSchema,
    source: FromArgs,
    path: YamlPath,
) -> None:
    """The value of `from_args` is always a list, whatever the agent says."""
    kinds = _kinds(schema, prop.schema)
    if kinds and "array" not in kinds:
        report.add(
            "type-mismatch",
            "error",
            f"`from_args` gives a list, and `{prop.name}` takes "
            f"{_article(schema.words(prop.schema))}",
            path,
        )
    elif (
        source.defaults
        and len(source.defaults) == len(source.args)
        and not schema.fits(prop.schema, list(source.defaults))
    ):
        report.add(
            "type-mismatch",
            "error",
            f"the defaults {shown(list(source.defaults))} do not fit: `{prop.name}` takes "
            f"{_article(schema.words(prop.schema))}",
            (*path, "defaults"),
        )


def _kinds(schema: ToolSchema, part: Any, depth: int = 0) -> frozenset[str]:
    """The JSON types that a schema allows; empty where it does not say."""
    plain = schema.resolved(part)
    kind = plain.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(str(word) for word in kind)
    branches = plain.get("anyOf") or plain.get("oneOf")
    if isinstance(branches, list) and depth < 6:
        kinds = [_kinds(schema, branch, depth + 1) for branch in branches]
        return frozenset().union(*kinds) if all(kinds) else frozenset()
    return frozenset()


def kinds_only(schema: ToolSchema, part: Any) -> dict[str, Any] | None:
    """The types and choices of a schema, without its bounds.

    None where the schema restricts neither.
    """
    plain = schema.resolved(part)
    if isinstance(plain.get("enum"), list):
        return {"enum": plain["enum"]}
    kinds = _kinds(schema, part)
    return {"type": sorted(kinds)} if kinds else None


def _same_written(choice: Any, value: Any) -> bool:
    return not isinstance(choice, str) and isinstance(value, str) and shown(choice) == value.strip()


def _converted(schema: ToolSchema, prop: SchemaProperty, value: Any) -> Any:
    """The value converted to the type that the schema wants, where only one conversion is possible.

    Else None.
    """
    candidate: Any = None
    if isinstance(value, str):
        text = value.strip()
        number = _NUMBER.match(text) if len(text) < 16 else None
        if number:
            candidate = float(text) if number[1] else int(text)
        elif text.lower() in ("true", "false"):
            candidate = text.lower() == "true"
    elif isinstance(value, bool):
        candidate = None  # `true` as text may have been meant as `yes`, `1` or `True`
    elif isinstance(value, int):
        candidate = str(value)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        candidate = int(value)
    return candidate if candidate is not None and schema.fits(prop.schema, candidate) else None


def _article(words: str) -> str:
    if words.startswith(("always", "any", "one of")):
        return words
    return f"{'an' if words[:1] in 'aeiou' else 'a'} {words}"
