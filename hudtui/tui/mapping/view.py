"""What the mapping screen shows of a reply, an episode and a table of actions, as lines of text."""

from __future__ import annotations

import json

from textual.content import Content

from hudtui.core.environment.images import describe_image
from hudtui.core.environment.values import ToolResult
from hudtui.core.gym.editing.preview import ActionRow, describe_call, describe_check
from hudtui.core.gym.interpreter import Interpretation, ParameterTrace
from hudtui.core.gym.json_safe import dumps
from hudtui.core.gym.rubric import format_score
from hudtui.core.gym.schema_examples import literal
from hudtui.core.gym.values import GymConfig
from hudtui.core.text import clean, clean_line
from hudtui.tui.widgets.fit import cut, pad
from hudtui.tui.widgets.words import took

_MOST_LINES = 400
_LONGEST = 2_000
_ONE_LINE = 56
_MUTED = "$foreground-muted"
VERDICTS = {
    "ok": ("✓", "$success"),
    "error": ("✗", "$error"),
    "broken": ("✗", "$error"),
    "done": ("■", "$accent"),
    "left out": ("·", _MUTED),
}


_LEARNS = {
    "prompt": "of the tools by a section of the system prompt",
    "apart": "of the tools by schemas in the request, or in the chat template",
}
"""How a model learns of the tools, where its prompt alone does not say it."""


def _dialect_lines(config: GymConfig) -> list[Content]:
    """Say in which form the configuration reads calls, where it is not the default one."""
    from hudtui.core.gym.dialects.known import DEFAULT, DIALECTS

    dialect = DIALECTS[config.parser.dialect]
    if dialect.name == DEFAULT:
        return []
    named = Content.assemble((dialect.name, "bold $accent"), f"  {dialect.title}")
    lines = [_field("dialect", named)]
    if dialect.schemas in _LEARNS:
        lines.append(_field("learns", Content.styled(_LEARNS[dialect.schemas], _MUTED)))
    return lines


def preview_lines(meaning: Interpretation, config: GymConfig) -> list[Content]:
    """Return the meaning of a reply in full."""
    lines = _dialect_lines(config)
    error = meaning.error
    think = clean_line(meaning.think or "", 300)
    lines.append(
        _field(
            "think",
            Content.styled(think, "italic $secondary") if think else Content.styled("none", _MUTED),
        )
    )
    if meaning.tool is None:
        lines.append(_field("tool", Content.styled("none", _MUTED)))
    if meaning.extra_calls:
        word = "call is" if meaning.extra_calls == 1 else "calls are"
        lines.append(
            _field(
                "",
                Content.styled(
                    f"! {meaning.extra_calls} further {word} not carried out", "$warning"
                ),
            )
        )
    if meaning.more:
        count = len(meaning.more) + 1
        lines.append(
            _field("", Content.styled(f"{count} calls, played one after the other", _MUTED))
        )
    if meaning.action is not None:
        arguments = ", ".join(
            f"{clean_line(name, 60)}={_value(value, 80)}"
            for name, value in meaning.action.arguments.items()
        )
        lines.append(
            _field(
                "action",
                Content.assemble(
                    (clean_line(meaning.action.name, 80), "bold $accent"),
                    f"({cut(arguments, _LONGEST)})",
                ),
            )
        )
    if error is not None:
        place = f" (column {error.column} of the tool text)" if error.column is not None else ""
        lines.append(
            _field(
                "error",
                Content.assemble(
                    ("✗ ", "bold $error"),
                    (f"{error.stage}: ", "bold $error"),
                    clean_line(error.message, 400),
                    (place, _MUTED),
                ),
            )
        )
        if error.column is not None and meaning.tool is not None and len(meaning.tool) < 200:
            tool = clean_line(meaning.tool)
            if tool == meaning.tool and error.column <= len(tool) + 1:
                lines.append(_field("", Content.styled(tool, _MUTED)))
                lines.append(
                    _field("", Content.assemble(" " * (error.column - 1), ("^", "bold $error")))
                )
    if meaning.parameters:
        lines += [Content(""), _heading("parameters", meaning.draft.tool if meaning.draft else "")]
        width = min(max(len(clean_line(trace.name, 24)) for trace in meaning.parameters), 24)
        lines += [_parameter(trace, width) for trace in meaning.parameters]
    if meaning.draft is not None:
        lines += [
            Content(""),
            _heading(
                "call",
                "" if meaning.call is not None else "as far as it could be worked out; not sent",
            ),
        ]
        lines += _json(
            {"tool": meaning.draft.tool, "arguments": meaning.draft.arguments},
            dim=meaning.call is None,
        )
    verdict = describe_check(meaning)
    glyph, style = _glyph(meaning)
    lines += [
        Content(""),
        _field(
            "schema", Content.assemble((glyph + " ", f"bold {style}"), clean_line(verdict, 400))
        ),
    ]
    xml, action = meaning.format
    score = format_score((meaning,), config)
    lines.append(
        _field(
            "format",
            Content.assemble(
                (f"{score:.2f}", "bold"),
                f"   tags {_yes(xml)} x {config.parser.xml_weight:g}   call {_yes(action)} x "
                f"{config.parser.action_weight:g}",
            ),
        )
    )
    return lines


def _glyph(meaning: Interpretation) -> tuple[str, str]:
    if meaning.done or meaning.draft is None or not meaning.checked:
        return "·", _MUTED
    if meaning.error is not None:
        return ("✗", "$error") if meaning.error.stage == "schema" else ("·", _MUTED)
    return "✓", "$success"


def _yes(flag: int) -> str:
    return "✓" if flag else "✗"


def _field(name: str, value: Content) -> Content:
    return Content.assemble((pad(name, 8), "$primary"), value)


def _heading(title: str, note: str) -> Content:
    return Content.assemble(
        (title, "bold $primary"), (f"  {clean_line(note, 100)}" if note else "", _MUTED)
    )


def _value(value: object, most: int = _LONGEST) -> str:
    return cut(literal(value), most)


def _parameter(trace: ParameterTrace, width: int) -> Content:
    name = (f"  {pad(clean_line(trace.name, 24), width)}  ", "")
    source = ", ".join(clean_line(argument, 40) for argument in trace.arguments)
    if trace.origin == "static":
        return Content.assemble(name, (_value(trace.after, 400), "bold"), ("  static", _MUTED))
    if trace.origin == "argument":
        return Content.assemble(
            name, (_value(trace.after, 400), "bold"), (f"  argument {source}", _MUTED)
        )
    if trace.origin == "default":
        return Content.assemble(
            name, (_value(trace.after, 400), "bold"), (f"  default of {source}", _MUTED)
        )
    if trace.origin == "transform":
        return Content.assemble(
            name,
            _value(trace.before, 200),
            (" → ", "$accent"),
            (_value(trace.after, 400), "bold"),
            (f"  transform of {source}", _MUTED),
        )
    if trace.origin == "failed":
        return Content.assemble(
            name,
            _value(trace.before, 200),
            (" → ", "$accent"),
            ("✗ failed", "bold $error"),
            (f"  from {source}", _MUTED),
        )
    return Content.assemble(
        name, ("left out", "italic $foreground-muted"), (f"  {source} was not given", _MUTED)
    )


def _json(value: object, *, dim: bool = False) -> list[Content]:
    try:
        lines = _folded(value, "", "")
    except (RecursionError, ValueError, TypeError):
        lines = [dumps(value)]
    style = _MUTED if dim else ""
    return [
        Content.styled("  " + cut(clean(line), _LONGEST), style) for line in lines[:_MOST_LINES]
    ]


def _folded(value: object, margin: str, lead: str) -> list[str]:
    """JSON with short values on one line."""
    plain = json.dumps(value, ensure_ascii=False)
    if (
        not isinstance(value, dict | list)
        or not value
        or len(plain) + len(margin) + len(lead) <= _ONE_LINE
    ):
        return [margin + lead + plain]
    items = (
        [(f"{json.dumps(name, ensure_ascii=False)}: ", item) for name, item in value.items()]
        if isinstance(value, dict)
        else []
    )
    items = items or [("", item) for item in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    lines = [margin + lead + first]
    for number, (name, item) in enumerate(items):
        below = _folded(item, margin + "  ", name)
        below[-1] += "," if number < len(items) - 1 else ""
        lines += below
    return [*lines, margin + last]


def brief(meaning: Interpretation) -> Content:
    """The meaning of a reply on one line."""
    if meaning.error is not None:
        return Content.assemble(
            ("✗ ", "bold $error"),
            clean_line(f"{meaning.error.stage}: {meaning.error.message}", 300),
        )
    if meaning.done:
        return Content.assemble(("■ ", "bold $accent"), "ends the episode")
    glyph = ("✓ ", "bold $success") if meaning.checked else ("· ", _MUTED)
    return Content.assemble(glyph, describe_call(meaning))


def answer_lines(result: ToolResult, seconds: float) -> list[Content]:
    """What the environment answered."""
    state = ("✗ error", "bold $error") if result.is_error else ("✓ answered", "bold $success")
    lines = [Content.assemble(("sent  ", "bold $primary"), state, (f" in {took(seconds)}", _MUTED))]
    for block in result.blocks:
        if block.type == "text":
            lines += [
                Content("  " + cut(line, _LONGEST))
                for line in clean(block.text or "").split("\n")[:_MOST_LINES]
            ]
        elif block.type == "image":
            lines.append(Content.styled(f"  [image: {describe_image(block)}]", _MUTED))
        else:
            lines.append(
                Content.styled(
                    f"  [{clean_line(block.type, 40)} "
                    f"{clean_line(block.uri or block.mime_type or '', 200)}]",
                    _MUTED,
                )
            )
    if result.structured is not None and not result.repeats_text:
        lines += [Content.styled("  structured", "$primary"), *_json(result.structured)]
    return lines


def row_cells(row: ActionRow) -> tuple[str, str, str, str]:
    """A row of the table of actions."""
    word = f"{row.verdict} " if row.verdict in ("error", "broken") else ""
    return (
        VERDICTS[row.verdict][0],
        clean_line(row.action, 40),
        clean_line(row.example, 80),
        word + clean_line(row.words, 300),
    )
