"""Checks a configuration against itself and, where they are known, its environment's tools.

Codes of findings made here; `parse_config` adds those of texts that cannot be read:

    two-forms    the prompt beside the dialect
    many-tokens    the size of the prompt with the tools' schemas
    actions    names that nothing has
    no-job-name, no-defaults, no-thinking, no-prompt, no-actions, weights-sum    sections of the
    document no-done, mapped-not-described, described-not-mapped                          the prompt
    beside the mappings usage-does-not-parse, usage-not-accepted
    examples in the prompt example-does-not-parse, example-not-accepted, example-form
       replies of `examples` unreachable-argument, transform-ignores-argument, transform-fails
         within a mapping unknown-tool, lifecycle-tool, unknown-parameter, missing-required,
    enum-mismatch, type-mismatch                                                 against the
    environment
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError
from hudtui.core.gym.action_tools import action_tools
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpreter, text_interpreter
from hudtui.core.gym.lint.examples import check_examples
from hudtui.core.gym.lint.findings import MAPPINGS, Finding, Fix, TextEdit
from hudtui.core.gym.lint.prompt import check_prompt
from hudtui.core.gym.lint.report import LintReport, suggest
from hudtui.core.gym.lint.tools import check_tools
from hudtui.core.gym.lint.transforms import check_arguments, check_transforms
from hudtui.core.gym.prompt_size import prompt_size, size_warning
from hudtui.core.gym.values import DEFAULT_WEIGHTS
from hudtui.core.yaml_doc import YamlPath, load_yaml

_SEVERITIES = ("error", "warning", "info")


def lint(text: str, *, name: str, tools: Mapping[str, Tool] | None = None) -> tuple[Finding, ...]:
    """Return all findings about a configuration, in the order of its lines.

    Findings call it `name`, usually the file's path. Without the tools of its environment it is
    checked only against itself.
    """
    config, parsed = parse_config(text, name=name)
    if config is None:
        return parsed
    try:
        document = load_yaml(text, name=name)
    except InputError:  # parse_config has reported it
        return parsed
    report = LintReport(document, config, tools)
    report.findings += (_with_fix(report, finding) for finding in parsed)
    _check_sections(report)
    if tools is not None:
        check_tools(report)
        _check_size(report)
    examples = check_prompt(report, text_interpreter(config, tools))
    check_examples(report, Interpreter(config, tools))
    check_arguments(report)
    check_transforms(report, examples)
    findings = dict.fromkeys(report.findings)
    return tuple(
        sorted(
            findings,
            key=lambda item: (item.line, item.column, _SEVERITIES.index(item.severity), item.code),
        )
    )


def _check_sections(report: LintReport) -> None:
    data = report.document.data
    job = data.get("job")
    if not isinstance(job, dict) or not str(job.get("name") or "").strip():
        message = (
            "the job has no name: its runs are hard to tell from other runs; add `job: name: ...`"
        )
        report.add("no-job-name", "warning", message, ("job",) if "job" in data else ())
    defaults = data.get("defaults")
    if not isinstance(defaults, dict) or "max_turns" not in defaults:
        turns = report.config.max_turns
        report.add(
            "no-defaults",
            "warning",
            f"`defaults.max_turns` is missing: {turns} is used here, and hud-vf-gym 0.1.1 does not "
            "load the file at all",
            ("defaults",) if "defaults" in data else (),
            fix=_insertion(report, "defaults", "max_turns", str(turns)),
        )
    parser = data.get("parser")
    if not isinstance(parser, dict) or "use_thinking" not in parser:
        report.add(
            "no-thinking",
            "warning",
            "`parser.use_thinking` is missing: true is used here, and hud-vf-gym 0.1.1 does not "
            "load the file at all",
            ("parser",) if "parser" in data else (),
            fix=_insertion(report, "parser", "use_thinking", "true"),
        )
    if not data.get(MAPPINGS) and not report.config.allow_unmapped:
        report.add(
            "no-actions",
            "warning",
            "no action is mapped: the agent can do nothing but `done()`",
            (MAPPINGS,),
        )
    _check_weights(report)


def _check_size(report: LintReport) -> None:
    """Report a prompt whose tools take many tokens."""
    tools = action_tools(report.config, report.tools or {})
    text = size_warning(prompt_size(report.config, tools))
    if text is not None:
        place = next((key for key in ("actions", MAPPINGS) if key in report.document.data), None)
        report.add("many-tokens", "warning", text, () if place is None else (place,))


def _check_weights(report: LintReport) -> None:
    weights = report.config.weights
    if report.config.reward:
        return  # the user's own parts have weights, too
    total = sum(weights[name] for name in DEFAULT_WEIGHTS)
    if abs(total - 1) < 1e-6:
        return
    written = report.document.at(("rubric", "weights"))
    assumed = [
        f"`{name}` is {weight:g} where it is not given"
        for name, weight in DEFAULT_WEIGHTS.items()
        if not isinstance(written, dict) or name not in written
    ]
    hint = f" ({', '.join(assumed)})" if assumed else ""
    report.add(
        "weights-sum",
        "warning",
        f"the weights add up to {total:.6g}, not to 1{hint}",
        ("rubric", "weights"),
    )


def _insertion(report: LintReport, section: str, key: str, value: str) -> Fix | None:
    """The fix that adds a setting with the value that it has without being written."""
    document = report.document
    lines = document.text.split("\n")
    title = f"add `{section}.{key}: {value}`"
    data = document.data
    if section not in data:
        last = next((line for line in reversed(lines) if line.strip()), "")
        if (
            document.text.lstrip()[:1] in ("{", "%")
            or last.startswith("...")
            or document.mark((next(iter(data), ""),)).column != 1
        ):
            return None
        begin = "" if lines[-1] == "" else "\n"
        if begin and _ends_in_block(report):
            return None  # the line end that it takes would become part of the text
        end = (len(lines), len(lines[-1]) + 1)
        return Fix(title, (TextEdit(*end, *end, f"{begin}{section}:\n  {key}: {value}\n"),))
    entries = data[section]
    if not isinstance(entries, dict) or not entries:
        return None
    first: YamlPath = (section, next(iter(entries)))
    mark = document.mark(first)
    line = lines[mark.line - 1]
    if (
        mark.line <= document.mark((section,)).line
        or line[: mark.column - 1].strip()
        or key in entries
    ):
        return None
    return Fix(
        title, (TextEdit(mark.line, 1, mark.line, 1, f"{line[: mark.column - 1]}{key}: {value}\n"),)
    )


def _ends_in_block(report: LintReport) -> bool:
    """True if the last value of the document is a text over several lines."""
    path: YamlPath = ()
    value = report.document.data
    while value and isinstance(value, dict | list):
        step = list(value)[-1] if isinstance(value, dict) else len(value) - 1
        path, value = (*path, step), value[step]
    mark = report.document.value_mark(path)
    return isinstance(value, str) and mark.line < mark.end_line


def _with_fix(report: LintReport, finding: Finding) -> Finding:
    """A finding of the reader with a fix, where only one thing can have been meant."""
    if (
        finding.fix is not None
        or finding.code != "from-arg"
        or finding.mapping is None
        or finding.parameter is None
    ):
        return finding
    path: YamlPath = (MAPPINGS, finding.mapping, finding.parameter, "from_arg")
    written: Any = report.document.at(path)
    listed = report.document.at((MAPPINGS, finding.mapping, "_parser", "positional"))
    if not isinstance(written, str) or not isinstance(listed, list):
        return finding
    names = [name for name in listed if isinstance(name, str)]
    _, fix, guess = suggest(
        written, names, lambda name: report.value(f"take it from `{name}`", path, name)
    )
    return replace(finding, fix=fix, guess=guess)
