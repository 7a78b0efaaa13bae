"""What the dataset screen says about one task, about its test and in numbers.

Values as styled text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from textual.content import Content, Span

from hudtui.core.json_text import pretty
from hudtui.core.masking import mask_url
from hudtui.core.tasks.expectation import ModelJudge
from hudtui.core.tasks.expectation_form import read_parts
from hudtui.core.tasks.masking import masked_config, masked_text
from hudtui.core.tasks.solution import calls_in
from hudtui.core.tasks.table import ProblemKind, TaskRecord, TaskRow
from hudtui.core.text import clean, clean_line
from hudtui.tui.widgets.fit import cut, pad
from hudtui.tui.widgets.json_view import json_marks
from hudtui.tui.widgets.words import took

if TYPE_CHECKING:
    from hudtui.core.flows.trial import Trial
    from hudtui.core.platform import Platform
    from hudtui.core.tasks.table import TaskStats

LONGEST = 20_000
"""Characters of one text that are shown; copying gives all."""

LONGEST_BAR = 32

GLYPHS = {"ok": ("✓", "$success"), "warning": ("!", "$warning"), "error": ("✗", "bold $error")}
_SHOWN = ("mcp_config", "setup_tool", "evaluate_tool", "evaluate", "solution", "metadata")
"""Fields of a task with a place of their own."""
_JSON = {"key": "$primary", "text": "$success"}


def json_content(value: Any) -> Content:
    """A value as indented JSON in colour."""
    text = clean(pretty(value))
    shown = text[:LONGEST]
    made = Content(
        shown,
        spans=[
            Span(start, end, _JSON.get(kind, "$accent")) for start, end, kind in json_marks(shown)
        ],
    )
    return (
        made
        if len(text) <= LONGEST
        else made + Content.styled("\n… more; a copy of the task has all", "$foreground-muted")
    )


def _heading(text: str, more: str = "") -> Content:
    return Content.assemble(
        (text, "bold $primary"), (f"  {more}" if more else "", "$foreground-muted")
    )


def _long(text: str) -> Content:
    shown = Content(clean(text[:LONGEST]))
    if len(text) > LONGEST:
        shown += Content.styled(
            f"\n… {len(text) - LONGEST:,} more characters; a copy of the task has all",
            "$foreground-muted",
        )
    return shown


def problem_lines(kinds: Sequence[ProblemKind]) -> list[Content]:
    """Problems, one a line."""
    lines = []
    for kind in kinds:
        glyph, style = GLYPHS[kind.severity]
        field = f"{clean_line(kind.field, 80)}: " if kind.field else ""
        lines.append(
            Content.assemble(
                (f"{glyph} {kind.severity} ", style), (field, "bold"), clean_line(kind.message, 600)
            )
        )
    return lines


def told_calls(value: Any) -> Content:
    """`setup_tool` or `evaluate_tool` as text: the tool, then its arguments."""
    calls = value if isinstance(value, list) else [value]
    lines = []
    for call in calls:
        if not isinstance(call, Mapping):
            lines.append(json_content(call))
            continue
        name, arguments = str(call.get("name", "")), call.get("arguments") or {}
        if isinstance(arguments, Mapping) and isinstance(arguments.get("name"), str):
            inner = {key: item for key, item in arguments.items() if key != "name"}
            if list(inner) == ["arguments"]:
                inner = inner["arguments"]
            name, arguments = f"{name} / {arguments['name']}", inner
        lines.append(Content.assemble((clean_line(name), "bold"), "  " if arguments else ""))
        if arguments:
            lines[-1] += json_content(arguments)
    return Content("\n").join(lines)


def task_content(
    row: TaskRow,
    record: TaskRecord,
    kinds: Sequence[ProblemKind],
    platform: Platform,
    line: int | None,
) -> Content:
    """A usable task."""
    glyph, style = GLYPHS[row.state]
    place = f"task {row.index:,}" + (f", line {line:,}" if line else "")
    lines = [
        Content.assemble(
            (clean_line(record.id, 300), "bold"),
            (f"  {place}", "$foreground-muted"),
            (f"  {glyph} {row.state}", style),
        ),
        *problem_lines(kinds),
        Content(""),
        _heading(
            "Prompt",
            f"{len(record.prompt):,} characters, about {-(-len(record.prompt) // 4):,} tokens",
        ),
        _long(record.prompt),
    ]
    data = record.columns
    setup = told_calls(data["setup_tool"]) if data.get("setup_tool") else _muted("None.")
    lines += [
        Content(""),
        _heading("Setup"),
        setup,
        Content(""),
        _heading("Evaluation"),
        _evaluation(data),
        *_solution(data.get("solution")),
        Content(""),
        _heading("Servers", "secrets masked"),
        json_content(masked_config(data.get("mcp_config"), platform)),
    ]
    if data.get("metadata"):
        lines += [Content(""), _heading("Metadata"), json_content(data["metadata"])]
    for name, value in data.items():
        if name not in _SHOWN:
            shown = _long(value) if isinstance(value, str) else json_content(value)
            lines += [Content(""), _heading(clean_line(name, 80), "kept"), shown]
    return Content("\n").join(lines)


def _solution(steps: Any) -> list[Content]:
    """The calls that solve a task, and the reply at their end; empty where it names none."""
    if not steps:
        return []
    lines = [Content(""), _heading("Solution", "never shown to the agent; `test` plays it")]
    calls = calls_in(steps)
    if calls:
        lines.append(told_calls(calls))
    if "reply" in steps[-1]:
        lines.append(Content.assemble(("reply  ", "bold"), _long(str(steps[-1]["reply"]))))
    return lines


def _evaluation(data: Mapping[str, Any]) -> Content:
    """The calls that judge a task, or each part that is expected with its weight."""
    if data.get("evaluate_tool"):
        return told_calls(data["evaluate_tool"])
    if not data.get("evaluate"):
        return _muted("None.")
    parts, _ = read_parts(data["evaluate"])
    return Content("\n").join(
        Content.assemble(
            (clean_line(part.name), "bold"),
            f"  {part.words()}",
            (_asked(part.judge), "$foreground-muted"),
            (f"  {part.weight:g}", "$foreground-muted"),
        )
        for part in parts
    )


def _asked(judge: ModelJudge | None) -> str:
    """The model that judges a part, and where it is asked."""
    if judge is None:
        return ""
    place = f" at {mask_url(judge.endpoint)}" if judge.endpoint is not None else ""
    return "  " + clean_line(f"{judge.model}{place}", 200)


def broken_content(
    row: TaskRow, kinds: Sequence[ProblemKind], line: int | None, raw: Any, platform: Platform
) -> Content:
    """An unusable task: why, and its record in the source (`raw`; None until it is read)."""
    place = f"task {row.index:,}" + (f", line {line:,}" if line else "")
    lines = [
        Content.assemble(
            (clean_line(row.id, 300), "bold"),
            (f"  {place}", "$foreground-muted"),
            ("  ✗ error", "bold $error"),
        ),
        *problem_lines(kinds),
        Content(""),
        _heading("In the file", "excluded from datasets until fixed; secrets hidden"),
    ]
    if raw is None:
        lines.append(_muted("Reading …"))
    elif isinstance(raw, str):
        lines.append(_long(masked_text(raw)))
    else:
        shown = dict(raw) if isinstance(raw, Mapping) else raw
        if isinstance(shown, dict) and "mcp_config" in shown:
            shown["mcp_config"] = masked_config(shown["mcp_config"], platform)
        lines.append(json_content(shown))
    return Content("\n").join(lines)


def _muted(text: str) -> Content:
    return Content.styled(text, "$foreground-muted")


def stats_content(stats: TaskStats, width: int) -> Content:
    """The numbers as bars."""
    if not stats.tasks:
        return _muted("No usable task, so nothing to count.")
    lines: list[Content] = []
    lengths = stats.lengths
    bins: list[tuple[str, int]] = []
    if lengths is not None:
        bins = [
            (f"{low:,}–{high - 1:,}" if high - low > 1 else f"{low:,}", count)
            for low, high, count in lengths.bins
        ]
    groups = [bins, *(list(group.bars) for group in stats.groups)]
    draw = _Bars([row for rows in groups for row in rows], stats.tasks, width)
    if lengths is not None:
        told = f"median {lengths.median:,}, 95 % ≤ {lengths.most:,}, longest {lengths.longest:,}"
        lines += [_heading("Prompt length", "estimated tokens"), _muted(told), *draw.rows(bins)]
    for group in stats.groups:
        lines += [Content(""), _heading(clean_line(group.title, 60)), *draw.rows(group.bars)]
        if group.note:
            lines.append(_muted(clean_line(group.note, 300)))
    return Content("\n").join(lines)


_EIGHTHS = " ▏▎▍▌▋▊▉█"


class _Bars:
    """Rows of value, bar, count and share, with the same columns in every group."""

    def __init__(self, rows: Sequence[tuple[str, int]], total: int, width: int) -> None:
        self._total = total
        self._named = min(
            max((cell_len(clean_line(name)) for name, _ in rows), default=0), max(width // 3, 10)
        )
        self._counted = max((len(f"{count:,}") for _, count in rows), default=1)
        self._room = min(max(width - self._named - self._counted - 9, 4), LONGEST_BAR)

    def rows(self, rows: Sequence[tuple[str, int]]) -> list[Content]:
        most = max((count for _, count in rows), default=0) or 1
        lines = []
        for name, count in rows:
            eighths = max(round(self._room * 8 * count / most), 1 if count else 0)
            bar = "█" * (eighths // 8) + (_EIGHTHS[eighths % 8] if eighths % 8 else "")
            lines.append(
                Content.assemble(
                    pad(clean_line(name), self._named),
                    " ",
                    (pad(bar, self._room), "$accent"),
                    f" {count:>{self._counted},}",
                    (
                        f" {100 * count / self._total:>3.0f} %" if self._total else "",
                        "$foreground-muted",
                    ),
                )
            )
        return lines


def trial_content(trial: Trial) -> Content:
    """The outcome of a test."""
    glyph = {"success": "✓", "warning": "!", "error": "✗"}[trial.severity]
    style = {"success": "bold $success", "warning": "bold $warning", "error": "bold $error"}[
        trial.severity
    ]
    lines = [
        Content.assemble(
            (clean_line(trial.task, 200), "bold"),
            (f"  tested in {took(trial.seconds)}", "$foreground-muted"),
        ),
        Content.assemble((f"{glyph} ", style), (clean_line(trial.verdict, 2000), style)),
        *(_muted(clean_line(line, 600)) for line in trial.details),
    ]
    for number, step in enumerate(trial.steps):
        if step.solution and not trial.steps[number - 1].solution:
            lines += [Content(""), _heading("Solution", "on a connection of its own")]
        mark = ("✗ error", "bold $error") if step.failed else ("✓ answered", "$success")
        lines += [
            Content(""),
            Content.assemble(
                (clean_line(step.tool, 80), "bold $primary"),
                "  ",
                mark,
                (f" in {took(step.seconds)}", "$foreground-muted"),
            ),
            Content.styled(
                cut(
                    clean_line(json.dumps(dict(step.arguments), ensure_ascii=False, default=repr)),
                    400,
                ),
                "$foreground-muted",
            ),
            _long(step.answer),
        ]
    return Content("\n").join(lines)
