"""Checks of the configuration's `examples`.

Hudtui must be able to carry out every reply in them.
"""

from __future__ import annotations

from hudtui.core.gym.interpreter import Interpretation, Interpreter
from hudtui.core.gym.lint.prompt import CHAT_MARKS
from hudtui.core.gym.lint.report import LintReport
from hudtui.core.yaml_doc import YamlPath

_MOST = 100
"""Rounds that are checked."""


def check_examples(report: LintReport, interpreter: Interpreter) -> None:
    """Check the replies of the examples, and both texts for marks of chat templates."""
    rounds = report.document.data.get("examples")
    if not isinstance(rounds, list):
        return
    wrong = {finding.mapping for finding in report.findings if finding.severity == "error"}
    for number, entry in enumerate(rounds[:_MOST]):
        if not isinstance(entry, dict):
            continue
        for key in ("user", "assistant"):
            mark = CHAT_MARKS.search(text) if isinstance(text := entry.get(key), str) else None
            if mark is not None:
                message = (
                    f"`{mark[0]}` is a mark of a chat template: a model takes it for the end of "
                    "the turn"
                )
                path: YamlPath = ("examples", number, key)
                report.add(
                    "chat-mark",
                    "warning",
                    message,
                    path,
                    place=report.document.inside(path, mark.start()),
                )
        reply = entry.get("assistant")
        if isinstance(reply, str) and reply.strip():
            _check_reply(
                report, ("examples", number, "assistant"), interpreter.interpret(reply), wrong
            )


def _check_reply(
    report: LintReport, path: YamlPath, meaning: Interpretation, wrong: set[str | None]
) -> None:
    error = meaning.error
    if error is not None:
        start = meaning.reply.tool_start if meaning.reply is not None else None
        offset = None if start is None else start + max((error.column or 1) - 1, 0)
        place = report.document.inside(path, offset or 0)
        action = meaning.action.name if meaning.action is not None else None
        if error.stage in ("tags", "syntax"):
            message = f"the reply of this example is no call: {error.message}"
            report.add("example-does-not-parse", "error", message, path, place=place)
        elif action not in wrong:  # the mapping's own errors stand at the mapping
            message = f"the reply of this example is refused: {error.message}"
            report.add("example-not-accepted", "error", message, path, place=place)
        return
    if not meaning.format.xml:
        message = (
            "the reply of this example has no think block, which `parser.use_thinking` expects"
        )
        report.add("example-form", "warning", message, path, at_value=True)
    if meaning.extra_calls:
        message = "the reply of this example holds several calls; only the first one is carried out"
        report.add("example-form", "warning", message, path, at_value=True)
