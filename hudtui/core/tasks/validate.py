"""One record of a task file, checked completely: the precise way, taken where speed does not matter or something is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.files import parse_json
from hudtui.core.tasks.formats import not_for_training
from hudtui.core.tasks.rules import (
    CHARS_PER_TOKEN,
    FieldProblem,
    Rules,
    check_calls,
    check_config,
    is_empty,
    json_kind,
    without_nulls,
)

TASK_FIELDS = ("id", "prompt", "mcp_config", "setup_tool", "evaluate_tool", "metadata")
"""The columns of the dataset format, in its order. Everything else in a task is kept beside them."""


@dataclass(slots=True)
class CheckedTask:
    """A record after its checks. With an error among the remarks the fields are not to be used."""

    id: str | None = None
    """The record's own id; None where the file gives none, and the position gives it one."""
    prompt: str = ""
    mcp_config: dict[str, Any] = field(default_factory=dict)
    setup: list[dict[str, Any]] | dict[str, Any] | None = None
    evaluate: list[dict[str, Any]] | dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    elsewhere: str | None = None
    """What the task runs on, where its calls were not checked because the analysed environment is another one."""
    inferred: bool = False
    """The `mcp_config` comes from the lock file's image."""
    rewritten: tuple[str, ...] = ()
    """What `Rules.rewrite` changed."""
    remarks: list[FieldProblem] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether no remark is an error."""
        return all(remark.severity != "error" for remark in self.remarks)


def check_record(record: Any, rules: Rules) -> CheckedTask:
    """Check one task of the v4 generation. Never raises; what is wrong stands in the remarks."""
    found = CheckedTask()
    say = found.remarks.append
    if not isinstance(record, Mapping):
        say(FieldProblem(None, f"this is {json_kind(record)}, and a task is an object", "type"))
        return found
    if (other := not_for_training(record)) is not None:
        say(other)
        return found
    _identity(found, record)
    _prompt(found, record, rules)

    config = _data(found, record, "mcp_config")
    if is_empty(config):
        if rules.lock_image is None:
            say(FieldProblem("mcp_config", "this is missing, and no lock file names an image to infer it from", "missing"))
        else:
            config, found.inferred = rules.platform.mcp_config(rules.lock_image, rules.lookup), True
    if isinstance(config, Mapping) and config:
        config = without_nulls(config)
        found.elsewhere = rules.elsewhere(config)
        if rules.rewrite is not None:
            config, found.rewritten = rules.rewrite(config)
        found.mcp_config = config
    if not is_empty(config) and config is not BROKEN:
        found.remarks += check_config(config, rules)

    if found.elsewhere is not None:
        rules = replace(rules, analysis=None)
    setup = _data(found, record, "setup_tool")
    if not is_empty(setup) and setup is not BROKEN:
        found.setup = _calls(found, "setup_tool", setup, rules)
    evaluate = _data(found, record, "evaluate_tool")
    if is_empty(evaluate):
        say(FieldProblem("evaluate_tool", "this is missing, and without it nothing can judge the outcome", "missing"))
    elif evaluate is not BROKEN:
        found.evaluate = _calls(found, "evaluate_tool", evaluate, rules)

    metadata = _data(found, record, "metadata")
    if isinstance(metadata, Mapping):
        found.metadata = dict(metadata)
    elif not is_empty(metadata) and metadata is not BROKEN:
        say(FieldProblem("metadata", f"this is {json_kind(metadata)}, and an object is needed", "type"))

    found.extra = {key: value for key, value in record.items() if key not in TASK_FIELDS}
    if rules.strict:
        found.remarks = [remark._replace(severity="error") for remark in found.remarks]
    return found


def names_in(record: Any) -> tuple[str, str]:
    """What a record that may be unusable names: its servers, and its evaluators as `evaluate/function`; empty where unknown."""
    if not isinstance(record, Mapping):
        return "", ""
    config, calls = _loosely(record.get("mcp_config")), _loosely(record.get("evaluate_tool"))
    servers = ", ".join(str(name) for name in config) if isinstance(config, Mapping) else ""
    found = []
    for call in calls if isinstance(calls, list) else [calls]:
        if isinstance(call, Mapping) and isinstance(call.get("name"), str):
            arguments = _loosely(call.get("arguments"))
            inner = arguments.get("name") if isinstance(arguments, Mapping) else None
            found.append(f"{call['name']}/{inner}" if isinstance(inner, str) and inner else call["name"])
    return servers[:200], ", ".join(dict.fromkeys(found))[:200]


def _loosely(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_json(value, "")
    except InputError:
        return None


BROKEN: Any = object()
"""Stands for a field whose text is not JSON: a remark says so already."""


def _data(found: CheckedTask, record: Mapping[str, Any], name: str) -> Any:
    """A field as data, also where the file holds it as JSON text."""
    value = record.get(name)
    if not isinstance(value, str) or is_empty(value):
        return value
    try:
        return parse_json(value, name)
    except InputError as error:
        place = error.where.field if error.where is not None and error.where.field else None
        reason = f"{error.what} ({place})" if place else error.what
        found.remarks.append(FieldProblem(name, f"this is text that is not JSON: {reason}", "json"))
        return BROKEN


def _identity(found: CheckedTask, record: Mapping[str, Any]) -> None:
    value = record.get("id")
    if value is None or value == "":
        return
    if isinstance(value, str):
        found.id = value
        if not value.isprintable() or value != value.strip():
            found.remarks.append(FieldProblem("id", "the id holds control characters or blanks at its ends", "id", "warning"))
    elif isinstance(value, int) and not isinstance(value, bool):
        found.id = str(value)
        found.remarks.append(FieldProblem("id", f"the id is a number; it is kept as the text {value}", "id", "warning"))
    else:
        found.remarks.append(FieldProblem("id", f"this is {json_kind(value)}, and text is needed", "type"))


def _prompt(found: CheckedTask, record: Mapping[str, Any], rules: Rules) -> None:
    value = record.get("prompt")
    if value is None:
        found.remarks.append(FieldProblem("prompt", "this is missing: the agent would not know what to do", "missing"))
    elif not isinstance(value, str):
        found.remarks.append(FieldProblem("prompt", f"this is {json_kind(value)}, and text is needed", "type"))
    elif not value.strip():
        found.remarks.append(FieldProblem("prompt", "this is empty: the agent would not know what to do", "missing"))
    else:
        found.prompt = value
        tokens = -(-len(value) // CHARS_PER_TOKEN)
        if rules.token_budget is not None and tokens > rules.token_budget:
            message = f"about {tokens} tokens, and the budget is {rules.token_budget}"
            found.remarks.append(FieldProblem("prompt", message, "too-long", "warning"))


def _calls(found: CheckedTask, name: str, value: Any, rules: Rules) -> list[dict[str, Any]] | dict[str, Any] | None:
    """The calls in their own shape (one or a list), with arguments given as JSON text turned into data."""
    made = [_call(found, name, call) for call in value] if isinstance(value, list) else _call(found, name, value)
    found.remarks += check_calls(name, made, rules)
    return made


def _call(found: CheckedTask, name: str, call: Any) -> Any:
    if not isinstance(call, dict):
        return call
    if isinstance(call.get("arguments"), str):
        arguments = _data(found, call, "arguments")
        call = {**call, "arguments": {} if is_empty(arguments) or arguments is BROKEN else arguments}
    return call
