from __future__ import annotations

import pytest

from hudtui.core.environment.values import Tool
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.editing.completion import complete, new_action
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.lint.findings import Finding, Fix, errors_of
from hudtui.core.gym.lint.fixes import apply_fixes

MOVE = Tool(
    "move",
    "Push",
    {
        "type": "object",
        "properties": {
            "direction": {"type": "string", "enum": ["left", "right"]},
            "fast": {"type": "boolean"},
        },
        "required": ["direction"],
    },
)
TOOLS = {
    tool.name: tool for tool in (MOVE, Tool("click", "Click"), Tool("setup", "", None, "setup"))
}
HEAD = "action_mappings:\n  go:\n    _tool: move\n"


def offered(text: str, tools: dict[str, Tool] | None = TOOLS) -> list[str]:
    """The candidates where `|` stands in the text."""
    before, _, after = text.partition("|")
    lines = (before + after).split("\n")
    row = before.count("\n")
    found = complete(lines, row, len(before) - before.rfind("\n") - 1, tools)
    return [] if found is None else [candidate.label for candidate in found.candidates]


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("act|", ["action_mappings", "actions"]),
        (
            "parser:\n  |",
            ["use_thinking", "xml_weight", "action_weight", "dialect", "parallel"],
        ),
        (
            "parser:\n  xml_weight: 1\n  |",
            ["use_thinking", "action_weight", "dialect", "parallel"],
        ),
        ("parser:\n  dialect: |", ["text", "native", "hermes", "json", "harmony", "auto"]),
        ("parser:\n  dialect: h|", ["hermes", "harmony"]),
        ("parser:\n  parallel: |", ["first", "all", "refuse"]),
        ("parser:\n  use_thinking: |", ["true", "false"]),
        ("action_mappings:\n  |", ["move", "click"]),
        ("action_mappings:\n  go:\n    _tool: |", ["move", "click"]),
        ('action_mappings:\n  go:\n    _tool: "mo|"', ["move"]),
        ('action_mappings:\n  go:\n    _tool: "m|', ["move"]),
        (HEAD + "    |", ["_parser", "direction", "fast"]),
        (HEAD + "    direction: |", ["left", "right"]),
        (HEAD + "    direction:\n      static: |", ["left", "right"]),
        (HEAD + '    direction:\n      static: "r|"', ["right"]),
        (HEAD + "    fast:\n      default: |", ["true", "false"]),
        (
            HEAD + "    direction:\n      from_arg: where\n      |",
            ["static", "default", "transform", "use_context", "from_args", "defaults"],
        ),
        (
            HEAD + '    _parser:\n      positional: ["a", b]\n    direction:\n      from_arg: |',
            ["a", "b"],
        ),
        (
            HEAD
            + "    _parser:\n      positional:\n        - a\n    direction:\n      from_arg: |",
            ["a"],
        ),
        (HEAD + "    _parser:\n      positional: [|]", ["direction", "fast"]),
        (HEAD + "    _parser:\n      |", ["positional"]),
        ("job:\n  # par|", []),
        ("system_prompt: |\n  job|".replace("|\n", "\u0000\n"), []),
        ('job:\n  name: "par|"', []),
        ("examples:\n  - |", ["user", "assistant"]),
        ("examples:\n  - as|", ["assistant"]),
        ("examples:\n  - user: Your move.\n    |", ["assistant"]),
        ("examples:\n- user: Your move.\n  |", ["assistant"]),
        ("examples:\n  - user: a\n    assistant: b\n  - assistant: c\n    |", ["user"]),
        ("examples:\n  - user: |\n", []),
    ],
)
def test_what_can_stand_there(text: str, labels: list[str]) -> None:
    text = text.replace("\u0000", ">")
    assert offered(text) == labels


def test_without_an_analysis_there_are_only_the_words_of_the_format() -> None:
    assert offered(HEAD + "    direction: |", None) == []
    assert offered(HEAD + "    |", None) == ["_parser"]


def test_a_value_is_inserted_so_that_yaml_reads_it_as_text() -> None:
    found = complete(["action_mappings:", "  go:", "    _tool: m"], 2, 12, TOOLS)
    assert found is not None and (found.start, found.candidates[0].insert) == (11, '"move"')


TEXT = """\
job:
  name: t
system_prompt: |
  You act.

  - stay(): Stay
    Usage: <tool>stay()</tool>

  - done(): End
    Usage: <tool>done()</tool>

action_mappings:
  stay:
    _tool: wait

defaults:
  max_turns: 3
"""


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.replace("  - done(): End\n    Usage: <tool>done()</tool>\n", ""),
        TEXT.partition("defaults")[0].rstrip("\n"),
        TEXT.replace("  stay:\n    _tool: wait\n", ""),
        TEXT.partition("action_mappings")[0] + "defaults:\n  max_turns: 3\n",
    ],
)
def test_a_new_action_is_told_to_the_agent_and_mapped(text: str) -> None:
    made = new_action(text.split("\n"), MOVE)
    assert not isinstance(made, str)
    after = apply_fixes(text, (Finding("new", "info", "", fix=Fix("", made.edits)),))
    config, findings = parse_config(after, name="c")
    assert config is not None and not errors_of(findings), after
    assert config.mappings["move"].tool == "move"
    assert after.split("\n")[made.line].strip() == "move:"
    assert made.described and "- move(direction" in config.system_prompt
    assert not [
        finding for finding in lint(after, name="c", tools=TOOLS) if finding.mapping == "move"
    ]
    if "done()" in config.system_prompt:
        assert config.system_prompt.index("- move(") < config.system_prompt.index("- done(")


def test_a_second_action_for_a_tool_has_another_name() -> None:
    made = new_action(TEXT.replace("stay:", "move:").split("\n"), MOVE)
    assert (
        not isinstance(made, str)
        and "_tool" in made.edits[-1].text
        and "\n  move:" not in made.edits[-1].text
    )


def test_a_prompt_that_is_no_block_is_left_alone() -> None:
    made = new_action(['system_prompt: "x"', "action_mappings: {}", ""], MOVE)
    assert not isinstance(made, str) and not made.described
