"""Checks of the system prompt.

Does it tell the agent what the mappings offer, and do its own examples work?
The conventions of a prompt that are read here:

- click(x, y): Click somewhere          a heading, with or without arguments
  Usage: <tool>click(100, 200)</tool>   a usage example
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hudtui.core.gym.dialects.known import AUTO, DIALECTS
from hudtui.core.gym.generate import DONE_LINES
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.lint.findings import MAPPINGS, Fix, TextEdit
from hudtui.core.gym.lint.report import PROMPT, LintReport
from hudtui.core.gym.reply import Call, ParseFailure, parse_call
from hudtui.core.gym.values import GymConfig
from hudtui.core.text import clean_line, confident_match, did_you_mean

CHAT_MARKS = re.compile(
    r"<\|[A-Za-z_][\w ]{0,40}\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
    r"|<[|｜][^<>|｜\s]{1,40}[|｜]>|<(?:bos|eos)>"
)
"""Marks by which chat templates separate turns."""
_DOTS = frozenset({"...", "…"})
_DONE = "done"
_USAGE_LINE = re.compile(r"(?:^|\n)[ \t]*Usage:[ \t]*<tool>\s*\Z")

# fmt: off
PLACEHOLDERS = frozenset({
    "action", "action_name", "function", "function_name", "function_call", "func", "my_tool",
    "name", "some_tool", "tool", "tool_call", "tool_name", "toolname", "your_action", "your_tool",
})
# fmt: on
"""Names that stand for any action when the prompt explains the form of a call."""

_OPEN, _CLOSE = "<tool>", "</tool>"
_HEADING = re.compile(
    r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+[`*\"']{0,3}(\w+)([`*\"']{0,3}(?=[:\s]|$)|\()",
    re.MULTILINE,
)
_CALLED = re.compile(r"\b(\w++)[ \t]*+\(")
_QUOTED = re.compile(r"[`\"'*<](\w++)(?=[`\"'*>])")
_ITEM = re.compile(r"^[ \t]*(?:[-*•+]|\d{1,3}[.)])[ \t]+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class UsageExample:
    """The content of one pair of tool tags in the prompt."""

    text: str
    """Stripped."""
    start: int
    """Index of `text` in the prompt."""


@dataclass(frozen=True)
class Heading:
    """A list item that begins with a name."""

    name: str
    start: int
    call: bool
    """True if it has a parenthesis: it is meant as a call, not as any other item of a list."""


def usage_examples(prompt: str) -> tuple[UsageExample, ...]:
    """Return the usage examples in order, without explanations such as `<tool>...</tool>`."""
    examples = []
    at = 0
    while (start := prompt.find(_OPEN, at)) >= 0:
        begin = start + len(_OPEN)
        end = prompt.find(_CLOSE, begin)
        if end < 0:
            break
        # The prompt may mention an opening tag in a sentence: the innermost pair counts.
        begin = (
            max(begin, prompt.rfind(_OPEN, begin, end) + len(_OPEN))
            if _OPEN in prompt[begin:end]
            else begin
        )
        body = prompt[begin:end]
        if body.strip() not in ({""} | _DOTS):
            examples.append(UsageExample(body.strip(), begin + len(body) - len(body.lstrip())))
        at = end + len(_CLOSE)
    return tuple(examples)


def headings(prompt: str) -> tuple[Heading, ...]:
    """Return the list items that begin with a name."""
    return tuple(
        Heading(match[1], match.start(1), match[2] == "(") for match in _HEADING.finditer(prompt)
    )


def mentioned(prompt: str) -> frozenset[str]:
    """Return all names that the prompt mentions.

    They stand there as a call, at the beginning of a list item, or in quotes of any kind.
    """
    return frozenset(
        name for pattern in (_CALLED, _QUOTED, _ITEM) for name in pattern.findall(prompt)
    )


def check_prompt(
    report: LintReport, interpreter: Interpreter
) -> dict[str, list[Mapping[str, Any]]]:
    """Check the prompt, and return the arguments of its usage examples by action."""
    prompt = report.config.system_prompt
    if not prompt.strip():
        if not isinstance(report.document.data.get("system_prompt"), str):
            path = PROMPT if "system_prompt" in report.document.data else ()
            report.add(
                "no-prompt",
                "warning",
                "there is no `system_prompt`: the agent learns nothing, and hud-vf-gym 0.1.1 does "
                "not load the file",
                path,
            )
        else:
            report.add(
                "no-prompt",
                "warning",
                "the `system_prompt` is empty: the agent learns nothing",
                PROMPT,
            )
        return {}
    for mark in CHAT_MARKS.finditer(prompt):
        message = (
            f"`{mark[0]}` is a mark of a chat template: a model takes it for the end of the prompt "
            "or of the turn"
        )
        report.add_in_prompt("chat-mark", "warning", message, mark.start(), len(mark[0]))
    reader = _PromptReader(report, interpreter)
    found = usage_examples(prompt)
    for usage in found:
        reader.usage(usage)
    for heading in headings(prompt):
        reader.heading(heading)
    if DIALECTS[report.config.parser.dialect].schemas != "none":
        _check_forms(report, found)
        return reader.examples  # the tools' schemas tell of the actions
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
                f"the action `{mapping.name}` is mapped, but the prompt does not tell the agent "
                "about it",
                (MAPPINGS, mapping.name),
            )
    return reader.examples


def two_forms(config: GymConfig) -> str | None:
    """Return a warning if the prompt teaches calls of the dialect `text`, and another one is read.

    None where there is nothing to warn of.
    """
    dialect = config.parser.dialect
    if dialect == AUTO or DIALECTS[dialect].schemas == "none":
        return None
    if not usage_examples(config.system_prompt):
        return None
    return (
        f"the prompt teaches calls in <tool> tags, and this configuration reads {dialect}: a "
        "model learns two forms"
    )


def _check_forms(report: LintReport, usages: Sequence[UsageExample]) -> None:
    """Report calls of the dialect `text` in the prompt of another one."""
    message = two_forms(report.config)
    if message is not None:
        first = usages[0]
        report.add_in_prompt("two-forms", "warning", message, first.start, len(first.text))


class _PromptReader:
    """Compares what the prompt says about actions with the mappings."""

    def __init__(self, report: LintReport, interpreter: Interpreter) -> None:
        self.report = report
        self.interpreter = interpreter
        self.examples: dict[str, list[Mapping[str, Any]]] = {}
        config = report.config
        self.actions = [*config.mappings, *config.invalid]
        self.settled = {_DONE, *self.actions, *PLACEHOLDERS}
        """Names that an agent may call, that stand for any name, or that were reported before."""
        if config.allow_unmapped:
            self.settled.update(name for name in report.tools or () if config.offers(name))
        self.anything = config.allow_unmapped and report.tools is None and config.actions is None
        self.wrong = {finding.mapping for finding in report.findings if finding.severity == "error"}
        """Actions whose mappings have errors, which were reported at their own places."""

    def heading(self, heading: Heading) -> None:
        if heading.call:
            self._not_mapped(heading.name, heading.start)

    def usage(self, usage: UsageExample) -> None:
        call = parse_call(usage.text)
        if isinstance(call, ParseFailure):
            self._does_not_parse(usage, call)
            return
        mapping = self.report.config.mappings.get(call.name)
        if mapping is None:
            self._not_mapped(call.name, usage.start + usage.text.index(call.name))
            return
        if _explains(usage, call, mapping.arguments):
            return
        result = self.interpreter.interpret(f"<think>-</think><tool>{usage.text}</tool>")
        if result.action is not None:
            self.examples.setdefault(call.name, []).append(result.action.arguments)
        if (
            result.error is not None
            and result.error.stage in ("mapping", "schema")
            and call.name not in self.wrong
        ):
            self.report.add_in_prompt(
                "usage-not-accepted",
                "error",
                f"the example `{_shown(usage)}` is refused: {result.error.message}",
                usage.start,
                len(usage.text),
                mapping=call.name,
            )

    def _not_mapped(self, name: str, start: int) -> None:
        if self.anything or name in self.settled:
            return
        self.settled.add(name)
        if name in self.report.config.left_out:
            message = (
                f"the prompt describes `{name}`, but `actions` leaves it out; an agent that calls "
                "it is refused"
            )
            self.report.add_in_prompt("described-not-mapped", "warning", message, start, len(name))
            return
        near, sure = did_you_mean(name, self.actions), confident_match(name, self.actions)
        hint = (
            f"; did you mean `{sure or near}`?"
            if sure or near
            else "; an agent that calls it is refused"
        )
        fix = None
        if sure is not None:
            calls = re.finditer(rf"\b{name}(?=[ \t]*+\()", self.report.config.system_prompt)
            fix = self.report.in_prompt(
                f"write `{sure}`", (start, *(call.start() for call in calls)), len(name), sure
            )
        guess = (
            None
            if sure or not near
            else self.report.in_prompt(f"write `{near}`", (start,), len(name), near)
        )
        message = f"the prompt describes `{name}`, but there is no such action{hint}"
        self.report.add_in_prompt(
            "described-not-mapped", "warning", message, start, len(name), fix=fix, guess=guess
        )

    def _does_not_parse(self, usage: UsageExample, refusal: ParseFailure) -> None:
        text = usage.text
        if "(" in text:
            at = min(max(refusal.column - 1, 0), len(text) - 1)
            message = f"the example `{_shown(usage)}` cannot be read: {refusal.message}"
            self.report.add_in_prompt(
                "usage-does-not-parse", "error", message, usage.start + at, len(text) - at
            )
        elif text == _DONE or text in self.actions:
            mapping = self.report.config.mappings.get(text)
            bare = text == _DONE or (mapping is not None and not mapping.positional)
            self.report.add_in_prompt(
                "usage-does-not-parse",
                "error",
                f"the example `{text}` cannot be read: a call has parentheses",
                usage.start,
                len(text),
                mapping=text,
                fix=self.report.in_prompt(
                    f"write `{text}()`", (usage.start,), len(text), f"{text}()"
                )
                if bare
                else None,
            )
        # Anything else without a parenthesis explains where the call goes: <tool>your call</tool>.


def _explains(usage: UsageExample, call: Call, positional: tuple[str, ...]) -> bool:
    """True if an example shows the names of its arguments, or dots, instead of values.

    `click(x, y)`.
    """
    values = [*call.args, *call.kwargs.values()]
    if any(value in _DOTS for value in values if isinstance(value, str)):
        return True
    if not call.args or call.kwargs or len(call.args) > len(positional):
        return False
    for value, name, column in zip(call.args, positional, call.columns, strict=False):
        quoted = usage.text[column - 1 : column] in "\"'"
        if quoted or not isinstance(value, str) or value != name:
            return False
    return True


def _add_done(report: LintReport, usages: tuple[UsageExample, ...]) -> Fix | None:
    """Return the fix that describes `done()` below the last usage line.

    It is indented as the lines around it.
    """
    prompt = report.config.system_prompt
    for usage in reversed(usages):
        before = prompt[max(usage.start - 100, 0) : usage.start]
        if _USAGE_LINE.search(before):
            break
    else:
        return None
    at = prompt.count("\n", 0, usage.start)
    lines = prompt.split("\n")
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
    return Fix("describe `done()`", (TextEdit(place, end, place, end, new),))


def _shown(usage: UsageExample) -> str:
    """An example as messages show it."""
    return clean_line(usage.text, 80)
