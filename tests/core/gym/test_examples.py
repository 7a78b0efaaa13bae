"""`examples:` and `job:` of a configuration: reading, findings with their places, samples of the
editor."""

from __future__ import annotations

import textwrap

import pytest

from hudtui.core.environment.values import Tool
from hudtui.core.errors import ConfigError
from hudtui.core.gym.config import load_config, parse_config
from hudtui.core.gym.editing.samples import Samples
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.values import ExampleRound

HEAD = """\
job: {name: t}
system_prompt: "Play. <tool>left()</tool> <tool>done()</tool>"
"""
TAIL = """\
parser: {use_thinking: false}
action_mappings:
  left: {_tool: move, _parser: {positional: [n]}, direction: left, steps: {from_arg: n, default: 1}}
defaults: {max_turns: 3}
"""
MOVE = Tool(
    "move",
    "",
    {
        "type": "object",
        "properties": {"direction": {"type": "string"}, "steps": {"type": "integer", "maximum": 3}},
    },
)


def text_of(examples: str, tail: str = TAIL) -> str:
    return HEAD + textwrap.dedent(examples).lstrip("\n") + tail


GOOD = text_of(
    """
    examples:
      - user: |
          2 2 . .
        assistant: <tool>left()</tool>
      - {user: "Your move.", assistant: "<tool>left(2)</tool>"}
    """
)


def test_rounds_are_read_in_their_order() -> None:
    config, findings = parse_config(GOOD, name="c.yaml")
    assert config is not None and findings == ()
    assert config.examples == (
        ExampleRound("2 2 . .\n", "<tool>left()</tool>"),
        ExampleRound("Your move.", "<tool>left(2)</tool>"),
    )
    assert [message["role"] for message in config.opening()] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert lint(GOOD, name="c.yaml", tools={"move": MOVE}) == ()


def test_the_editor_offers_their_replies() -> None:
    config, _ = parse_config(GOOD, name="c.yaml")
    assert config is not None
    offered = [(sample.label, sample.text) for sample in Samples().all(config, None)]
    assert offered[:2] == [
        ("example 1", "<tool>left()</tool>"),
        ("example 2", "<tool>left(2)</tool>"),
    ]


@pytest.mark.parametrize(
    ("examples", "line", "column", "words"),
    [
        ("examples: soon\n", 3, 1, "is a list, not a text"),
        (
            "examples:\n  - left()\n",
            4,
            5,
            "an example is a round `{user: ..., assistant: ...}`; this is a text",
        ),
        ("examples:\n  - user: a\n", 4, 5, "this example has no `assistant`"),
        ("examples:\n  - {user: a, assistant: [x]}\n", 4, 26, "`assistant` is a text, not a list"),
        (
            "examples:\n  - user: ' '\n    assistant: <tool>left()</tool>\n",
            4,
            11,
            "`user` is empty",
        ),
    ],
)
def test_what_is_no_round_keeps_the_file_from_being_used(
    examples: str, line: int, column: int, words: str, tmp_path
) -> None:
    text = text_of(examples)
    config, findings = parse_config(text, name="c.yaml")
    assert config is not None and config.examples == ()
    (found,) = findings
    assert (found.severity, found.line, found.column) == (
        "error",
        line,
        column,
    ) and words in found.message
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml")
    assert caught.value.where is not None and caught.value.where.line == line


def test_a_misspelt_key_of_a_round_is_told() -> None:
    text = text_of("examples:\n  - {user: a, assistent: b, assistant: <tool>left()</tool>}\n")
    (found,) = parse_config(text, name="c.yaml")[1]
    assert (found.severity, found.line) == (
        "warning",
        4,
    ) and "did you mean `assistant`?" in found.message


@pytest.mark.parametrize(
    ("reply", "code", "severity", "column", "words"),
    [
        ("I go left.", "example-does-not-parse", "error", 17, "is no call"),
        ("<tool>left(]</tool>", "example-does-not-parse", "error", 28, "is no call"),
        ("<tool>right()</tool>", "example-not-accepted", "error", 23, "unknown action"),
        ("<tool>left(9)</tool>", "example-not-accepted", "error", 28, "is refused"),
        (
            "<tool>left()</tool><tool>left()</tool>",
            "example-form",
            "warning",
            16,
            "only the first one",
        ),
        ("<|im_end|><tool>left()</tool>", "chat-mark", "warning", 17, "chat template"),
    ],
)
def test_a_reply_that_is_not_carried_out_is_found_where_it_stands(
    reply: str, code: str, severity: str, column: int, words: str
) -> None:
    text = text_of(f'examples:\n  - user: "a"\n    assistant: "{reply}"\n')
    (found,) = lint(text, name="c.yaml", tools={"move": MOVE})
    assert (found.code, found.severity, found.line) == (code, severity, 5), found
    assert words in found.message and found.column == column


def test_the_think_block_that_the_configuration_expects() -> None:
    tail = TAIL.replace("use_thinking: false", "use_thinking: true")
    assert [
        found.code
        for found in lint(
            text_of("examples: [{user: a, assistant: <tool>left()</tool>}]\n", tail), name="c"
        )
    ] == ["example-form"]
    good = text_of(
        'examples: [{user: a, assistant: "<think>x</think><tool>left()</tool>"}]\n', tail
    )
    assert lint(good, name="c.yaml") == ()


def test_examples_alone_make_no_configuration_of_another_file() -> None:
    config, (found,) = parse_config("examples: [1]\nservices: {web: {}}\n", name="compose.yaml")
    assert config is None and "a compose file" in found.message


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("{name: [a]}", "`name` is a text, not a list"),
        ("{name: n, metadata: [a]}", "`metadata` is a mapping, not a list"),
        ("{name: n, metadat: {a: 1}}", "did you mean `metadata`?"),
    ],
)
def test_what_the_platform_would_not_be_told_of_a_job(job: str, words: str) -> None:
    text = GOOD.replace("job: {name: t}", f"job: {job}")
    config, (found,) = parse_config(text, name="c.yaml")
    assert (
        config is not None
        and (found.severity, found.line) == ("warning", 1)
        and words in found.message
    )
