"""Checks of the system prompt: does it tell the agent what the mappings offer, and do its own examples work?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hudtui.core.gym.findings import Edit, Fix, Severity
from hudtui.core.gym.generate import DONE_LINES
from hudtui.core.gym.interpret import Interpreter
from hudtui.core.gym.lint_report import MAPPINGS, PROMPT, Report
from hudtui.core.gym.nearest import nearest, surely
from hudtui.core.gym.parser import Call, Refusal, parse_call
from hudtui.core.gym.prompt import PLACEHOLDERS, Usage, headings, mentioned, usages
from hudtui.core.text import clean_line

_DOTS = ("...", "…")
_DONE = "done"


def check_prompt(report: Report, interpreter: Interpreter) -> dict[str, list[Mapping[str, Any]]]:
    """Check the prompt.

    Returns:
        The arguments of the usage examples, by action.
    """
    prompt = report.config.system_prompt
    if not prompt.strip():
        if not isinstance(report.document.data.get("system_prompt"), str):
            path = PROMPT if "system_prompt" in report.document.data else ()
            report.add(
                "no-prompt",
                "warning",
                "there is no `system_prompt`: the agent is told nothing, and hud-vf-gym 0.1.1 does not load the file",
                path,
            )
        else:
            report.add("no-prompt", "warning", "the `system_prompt` is empty: the agent is told nothing", PROMPT)
        return {}
    examples: dict[str, list[Mapping[str, Any]]] = {}
    told: set[str] = set()
    found = usages(prompt)
    report.wrong = {finding.mapping for finding in report.findings if finding.severity == "error" and finding.mapping}
    for usage in found:
        _check_usage(report, interpreter, usage, examples, told)
    known = _known(report)
    for heading in headings(prompt):
        if heading.call and heading.name not in known | told and heading.name not in PLACEHOLDERS:
            told.add(heading.name)
            _not_mapped(report, heading.name, heading.start, "warning")
    names = mentioned(prompt)
    if _DONE not in names:
        report.add(
            "no-done",
            "warning",
            "the prompt does not mention `done()`: the agent cannot know how to end an episode",
            PROMPT,
            fix=_add_done(report, found),
        )
    for mapping in report.config.mappings.values():
        if mapping.name not in names and mapping.name != _DONE:
            report.add(
                "mapped-not-described",
                "warning",
                f"the action `{mapping.name}` is mapped, but the prompt does not tell the agent about it",
                (MAPPINGS, mapping.name),
                mapping=mapping,
            )
    return examples


def _known(report: Report) -> set[str]:
    """Names that an agent may call, or that are known to be meant."""
    names = {_DONE, *report.config.mappings, *report.config.broken}
    if report.config.allow_unmapped:
        names.update(report.tools or ())
    return names


def _check_usage(
    report: Report, interpreter: Interpreter, usage: Usage, examples: dict[str, list[Mapping[str, Any]]], told: set[str]
) -> None:
    call = parse_call(usage.text)
    if isinstance(call, Refusal):
        _does_not_parse(report, usage, call)
        return
    mapping = report.config.mappings.get(call.name)
    if mapping is None:
        if call.name in _known(report) or call.name in PLACEHOLDERS or call.name in told:
            return
        if report.config.allow_unmapped and report.tools is None:
            return
        told.add(call.name)
        _not_mapped(report, call.name, usage.start + usage.text.index(call.name), "error")
        return
    if _explains(usage, call, mapping.positional):
        return
    result = interpreter.interpret(f"<think>-</think><tool>{usage.text}</tool>")
    if result.action is not None:
        examples.setdefault(call.name, []).append(result.action.arguments)
    # What is wrong with the mapping itself has been told at its own place.
    if result.error is not None and result.error.stage in ("mapping", "schema") and call.name not in report.wrong:
        report.add_in_prompt(
            "usage-not-accepted",
            "error",
            f"the example `{shown_call(usage)}` is refused: {result.error.message}",
            usage.start,
            len(usage.text),
            mapping=call.name,
        )


def _does_not_parse(report: Report, usage: Usage, refusal: Refusal) -> None:
    text = usage.text
    if "(" in text:
        at = min(max(refusal.column - 1, 0), max(len(text) - 1, 0))
        message = f"the example `{shown_call(usage)}` cannot be read: {refusal.message}"
        report.add_in_prompt("usage-does-not-parse", "error", message, usage.start + at, len(text) - at)
        return
    if re.fullmatch(r"\w+", text) and text in _known(report):
        mapping = report.config.mappings.get(text)
        bare = text == _DONE or (mapping is not None and not mapping.positional)
        report.add_in_prompt(
            "usage-does-not-parse",
            "error",
            f"the example `{text}` cannot be read: a call has parentheses",
            usage.start,
            len(text),
            mapping=text,
            fix=report.in_prompt(f"write `{text}()`", (usage.start,), len(text), f"{text}()") if bare else None,
        )
    # Anything else without a parenthesis explains where the call goes: <tool>your call</tool>.


def _explains(usage: Usage, call: Call, positional: tuple[str, ...]) -> bool:
    """Whether an example shows the names of its arguments, or dots, instead of values: `click(x, y)`."""
    values = [*call.args, *call.kwargs.values()]
    if any(value in _DOTS for value in values if isinstance(value, str)):
        return True
    if not call.args or call.kwargs or len(call.args) > len(positional):
        return False
    bare = all(usage.text[column - 1 : column] not in "\"'" for column in call.columns[: len(call.args)])
    return bare and all(isinstance(value, str) and value == name for value, name in zip(call.args, positional, strict=False))


def _not_mapped(report: Report, name: str, start: int, severity: Severity) -> None:
    actions = [*report.config.mappings, *report.config.broken]
    near, sure = nearest(name, actions), surely(name, actions)
    hint = f"; did you mean `{sure or near}`?" if sure or near else "; an agent that calls it is refused"
    calls = [match.start() for match in re.finditer(rf"(?<!\w){name}(?=[ \t]*\()", report.config.system_prompt)]
    report.add_in_prompt(
        "described-not-mapped",
        severity,
        f"the prompt describes `{name}`, but there is no such action{hint}",
        start,
        len(name),
        fix=report.in_prompt(f"write `{sure}`", (start, *calls), len(name), sure) if sure is not None else None,
    )


def _add_done(report: Report, found: tuple[Usage, ...]) -> Fix | None:
    """The fix that describes `done()` below the last usage line, in the manner of the prompt."""
    prompt = report.config.system_prompt
    lines = prompt.split("\n")
    at = -1
    starts = {prompt.count("\n", 0, usage.start) for usage in found}
    for number, line in enumerate(lines):
        if number in starts and re.match(r"[ \t]*Usage:[ \t]*<tool>", line):
            at = number
    if at < 0:
        return None
    offset = sum(len(line) + 1 for line in lines[:at])
    place, _ = report.document.inside(PROMPT, offset)
    source = report.document.text.split("\n")
    indented = source[place - 1].rstrip("\r") if 0 < place <= len(source) else ""
    if not lines[at] or not indented.endswith(lines[at]):
        return None
    indent = indented[: len(indented) - len(lines[at])]
    if indent.strip():
        return None
    item = next((line for line in reversed(lines[:at]) if re.match(r"[ \t]*[-*•+] ", line)), "")
    indent += item[: len(item) - len(item.lstrip())]
    new = "".join(f"\n{indent}{line}" for line in DONE_LINES)
    end = len(indented) + 1
    return Fix("describe `done()`", (Edit(place, end, place, end, new),))


def shown_call(usage: Usage) -> str:
    """An example as messages show it."""
    return clean_line(usage.text, 80)
