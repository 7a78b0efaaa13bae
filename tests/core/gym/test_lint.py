from __future__ import annotations

import textwrap
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudtui.core.environment.values import Tool
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.editing.preview import action_rows
from hudtui.core.gym.lint.check import lint
from hudtui.core.gym.lint.findings import Finding
from hudtui.core.gym.lint.prompt import headings, mentioned, usage_examples
from hudtui.core.gym.lint.transforms import transform_traits
from hudtui.core.text import confident_match, did_you_mean


def schema(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **more}


MOVE = Tool(
    "move",
    "Move.",
    schema({"direction": {"type": "string", "enum": ["left", "right", "up", "down"]}}, "direction"),
)
CLICK = Tool(
    "click_at",
    "Click.",
    schema(
        {
            "x": {"type": "integer", "minimum": 0},
            "y": {"type": "integer"},
            "label": {"type": "string"},
            "fast": {"type": "boolean"},
            "keys": {"type": "array", "items": {"type": "string"}},
        },
        "x",
        "y",
        additionalProperties=False,
    ),
)
SETUP = Tool("setup", "Begin.", schema({"name": {"type": "string"}}), kind="setup")
INNER = Tool("board", "A board.", schema({}), kind="hidden", hub="setup")
FREE = Tool("free", "Anything goes.", {"type": "object"})
BARE = Tool("bare", "No schema.")
TOOLS = {tool.name: tool for tool in (MOVE, CLICK, SETUP, INNER, FREE, BARE)}

FRAME = """\
job:
  name: "Test"
system_prompt: |
  Play.
{prompt}
  - done(): End it.
    Usage: <tool>done()</tool>
parser:
  use_thinking: true
action_mappings:
{mappings}
rubric:
  weights: {{task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}}
defaults:
  max_turns: 5
"""


def config(mappings: str, prompt: str | None = None) -> str:
    """A configuration that is clean but for what is put in; actions of `mappings` are described
    unless a prompt is given."""
    body = textwrap.indent(textwrap.dedent(mappings).strip("\n"), "  ")
    if prompt is None:
        names = [
            line.strip().removesuffix(":")
            for line in body.split("\n")
            if line.startswith("  ") and line[2:3].isalnum()
        ]
        prompt = "\n".join(f"- {name}: Do it." for name in names)
    return FRAME.format(
        prompt=textwrap.indent(textwrap.dedent(prompt).strip("\n"), "  "), mappings=body
    )


def check(text: str, tools: dict[str, Tool] | None = TOOLS) -> tuple[Finding, ...]:
    return lint(text, name="test.yaml", tools=tools)


def one(text: str, code: str, tools: dict[str, Tool] | None = TOOLS) -> Finding:
    """The only finding, which has this code; its place really is where its line and column say."""
    findings = check(text, tools)
    assert [finding.code for finding in findings] == [code], [
        finding.render("test.yaml") for finding in findings
    ]
    return findings[0]


def marked(text: str, finding: Finding) -> str:
    """The text that a finding marks."""
    line = text.split("\n")[finding.line - 1]
    return line[finding.column - 1 : finding.end_column - 1 if finding.end_column else None]


GOOD = """
left:
  _tool: move
  direction: left
go:
  _tool: move
  _parser: {positional: [way]}
  direction: {from_arg: way, transform: "lambda w: w.lower()"}
click:
  _tool: click_at
  _parser: {positional: [x, y]}
  x: {from_arg: x}
  y: {from_arg: y, default: 3}
"""


def test_nothing_to_say() -> None:
    assert check(config(GOOD)) == ()
    assert check(config(GOOD), None) == ()


class TestSections:
    def test_text_that_is_no_yaml(self) -> None:
        assert [finding.code for finding in check("a: [")] == ["yaml"]
        assert [finding.code for finding in check("- a")] == ["shape"]

    def test_empty(self) -> None:
        assert [finding.severity for finding in check("")] == ["error"]

    @pytest.mark.parametrize(
        "job", ["", "job:\n", "job: {}\n", "job: {name: ''}\n", "job: {metadata: {a: b}}\n"]
    )
    def test_job_without_a_name(self, job: str) -> None:
        found = one(config(GOOD).replace('job:\n  name: "Test"\n', job), "no-job-name")
        assert found.severity == "warning" and found.fix is None and found.line == 1

    @pytest.mark.parametrize("defaults", ["", "defaults:\n", "defaults: {}\n"])
    def test_no_defaults(self, defaults: str) -> None:
        text = config(GOOD).replace("defaults:\n  max_turns: 5\n", defaults)
        found = one(text, "no-defaults")
        assert "30 is used here" in found.message
        assert (found.fix is not None) == (defaults == "")

    def test_no_thinking(self) -> None:
        found = one(
            config(GOOD).replace("  use_thinking: true\n", "  xml_weight: 0.5\n"), "no-thinking"
        )
        assert found.fix is not None

    @pytest.mark.parametrize(
        "weights, total",
        [
            ("{task_completion: 0.9, tool_execution: 0.1}", "1.1"),
            ("{task_completion: 1, tool_execution: 1, format_compliance: 1}", "3"),
            ("{task_completion: 0.5}", "0.7"),
        ],
    )
    def test_weights_that_do_not_add_up(self, weights: str, total: str) -> None:
        text = config(GOOD).replace(
            "{task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}", weights
        )
        found = one(text, "weights-sum")
        assert f"add up to {total}," in found.message
        assert ("`format_compliance` is 0.1 where it is not given" in found.message) == (
            total != "3"
        )

    @pytest.mark.parametrize(
        "weights", ["{task_completion: 1, tool_execution: 0, format_compliance: 0}", "{}", ""]
    )
    def test_weights_that_do(self, weights: str) -> None:
        text = config(GOOD).replace(
            "{task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}", weights
        )
        assert check(text) == ()

    def test_no_actions(self) -> None:
        text = config(GOOD)
        text = (
            text[: text.index("action_mappings")]
            + "action_mappings: {}\nrubric: {}\ndefaults: {max_turns: 1}\n"
        )
        text = "\n".join(line for line in text.split("\n") if "Do it." not in line)
        assert one(text, "no-actions").line == text[: text.index("action_mappings")].count("\n") + 1
        assert check(text + "allow_unmapped: true\n") == ()

    def test_no_prompt(self) -> None:
        text = config(GOOD)
        text = text[: text.index("system_prompt")] + text[text.index("parser:") :]
        assert one(text, "no-prompt").severity == "warning"
        assert one(text + "system_prompt: '  '\n", "no-prompt").severity == "warning"

    def test_findings_of_the_reader_are_there_too(self) -> None:
        findings = check(config("left:\n  _tol: move\nright:\n  _tool: mvoe\n  direction: right"))
        assert {(finding.code, finding.mapping) for finding in findings} >= {
            ("unknown-key", "left"),
            ("unknown-tool", "right"),
        }


class TestPrompt:
    def test_done_is_not_mentioned(self) -> None:
        text = config(GOOD).replace("  - done(): End it.\n    Usage: <tool>done()</tool>\n", "")
        found = one(text, "no-done")
        assert marked(text, found) == "system_prompt"
        assert check(text.replace("Play.", "Play. Call done() at the end.")) == ()
        assert check(text.replace("Play.", "Play. Use the `done` tool.")) == ()
        assert [finding.code for finding in check(text.replace("Play.", "Play until done."))] == [
            "no-done"
        ]

    def test_mapped_but_not_described(self) -> None:
        text = config("left:\n  _tool: move\n  direction: left", "- other things")
        found = one(text, "mapped-not-described")
        assert (found.mapping, marked(text, found)) == ("left", "left")

    @pytest.mark.parametrize(
        "told",
        ["- left: x", "left()", 'the "left" tool', "`left`", "* left", "3. left - x", "<left>"],
    )
    def test_described_in_any_manner(self, told: str) -> None:
        assert check(config("left:\n  _tool: move\n  direction: left", told)) == ()

    def test_an_example_of_an_action_that_is_not_mapped(self) -> None:
        text = config(
            "left:\n  _tool: move\n  direction: left",
            "- left: x\nUsage: <tool>jump(1)</tool>\n<tool>jump(2)</tool>",
        )
        found = one(text, "described-not-mapped")
        assert found.severity == "warning" and marked(text, found) == "jump" and found.fix is None

    @pytest.mark.parametrize(
        "mark", ["<|im_start|>", "<|eot_id|>", "[INST]", "</s>", "<start_of_turn>", "<｜User｜>"]
    )
    def test_marks_of_chat_templates(self, mark: str) -> None:
        text = config(
            "left:\n  _tool: move\n  direction: left",
            f"- left: x\nUsage: <tool>left()</tool> {mark}system",
        )
        found = one(text, "chat-mark")
        assert found.severity == "warning" and marked(text, found) == mark

    def test_text_with_angles_and_bars_is_no_mark(self) -> None:
        prompt = (
            "- left: x\nUsage: <tool>left()</tool>\nA | B <|> C, x <s y, [INSTALL], <think> a < b "
            "| c > d"
        )
        assert check(config("left:\n  _tool: move\n  direction: left", prompt)) == ()

    def test_a_misspelt_example(self) -> None:
        text = config(
            "left:\n  _tool: move\n  direction: left", "- left: x\nUsage: <tool>lefft()</tool>"
        )
        found = one(text, "described-not-mapped")
        assert "did you mean `left`?" in found.message and found.fix is not None

    def test_a_heading_of_an_action_that_is_not_mapped(self) -> None:
        text = config("left:\n  _tool: move\n  direction: left", "- left: x\n- jump(height): Jump")
        found = one(text, "described-not-mapped")
        assert found.severity == "warning" and marked(text, found) == "jump"

    def test_list_items_that_are_no_actions(self) -> None:
        prompt = (
            "- left: x\n- Resolution: 1280x800\n- Coordinates: (0,0) is top-left\n1. Always look\n"
            "- Note (important): x"
        )
        assert check(config("left:\n  _tool: move\n  direction: left", prompt)) == ()

    def test_unmapped_actions_may_be_meant(self) -> None:
        text = config(
            "left:\n  _tool: move\n  direction: left",
            "- left: x\n<tool>bare(1)</tool>\n<tool>jump()</tool>",
        )
        assert [finding.code for finding in check(text)] == ["described-not-mapped"] * 2
        assert [
            finding.message.split("`")[1] for finding in check(text + "allow_unmapped: true\n")
        ] == ["jump"]
        assert check(text + "allow_unmapped: true\n", None) == ()

    @pytest.mark.parametrize(
        "example",
        [
            "...",
            "",
            "tool_name(...)",
            "tool_name(args)",
            "your call",
            "click(x, y)",
            "click(...)",
            "function_name(x)",
            "tool call here",
        ],
    )
    def test_explanations_are_no_examples(self, example: str) -> None:
        assert (
            check(
                config(GOOD, f"- left: x\n- go: x\n- click: x\nWrite <tool>{example}</tool> please")
            )
            == ()
        )

    @pytest.mark.parametrize(
        "example, rest",
        [
            ('click("a)', '"a)'),
            ("click(1, 2", "(1, 2"),
            ("click(1 2)(", None),
            ("left() or go()", None),
            ("click(x=1, 2)", None),
        ],
    )
    def test_an_example_that_does_not_parse(self, example: str, rest: str | None) -> None:
        text = config(GOOD, f"- left: x\n- go: x\n- click: x\nUsage: <tool>{example}</tool>")
        found = one(text, "usage-does-not-parse")
        assert found.severity == "error"
        assert example.endswith(marked(text, found)) and marked(text, found)
        assert rest is None or marked(text, found) == rest

    def test_an_example_without_parentheses(self) -> None:
        text = config(GOOD, "- left: x\n- go: x\n- click: x\nUsage: <tool>left</tool>")
        found = one(text, "usage-does-not-parse")
        assert found.fix is not None and marked(text, found) == "left"
        found = one(text.replace("<tool>left<", "<tool>click<"), "usage-does-not-parse")
        assert found.fix is None  # it takes arguments, and nobody knows which

    @pytest.mark.parametrize(
        "example",
        ["left(1)", "click(1, 2, 3)", "click(z=1)", "click(-1, 2)", 'click("a", 2)', "click()"],
    )
    def test_an_example_that_is_refused(self, example: str) -> None:
        text = config(GOOD, f"- left: x\n- go: x\n- click: x\nUsage: <tool>{example}</tool>")
        found = one(text, "usage-not-accepted")
        assert marked(text, found) == example and found.mapping == example.partition("(")[0]

    def test_where_an_example_stands_in_a_prompt_in_quotes(self) -> None:
        text = config(GOOD)
        start, end = text.index("system_prompt"), text.index("parser:")
        text = (
            text[:start]
            + 'system_prompt: "left() go() click() done() <tool>click(\\"a)</tool>"\n'
            + text[end:]
        )
        found = one(text, "usage-does-not-parse")
        assert text.split("\n")[found.line - 1].startswith("system_prompt") and found.column > 50

    def test_a_folded_prompt_has_a_place_too(self) -> None:
        text = config(GOOD, "left() go() click()").replace("system_prompt: |", "system_prompt: >")
        found = one(text.replace("left()", '<tool>go("</tool> left()'), "usage-does-not-parse")
        assert found.line == 3 and 'the example `go("` cannot be read' in found.message

    def test_thinking_or_not_is_no_matter(self) -> None:
        text = config(
            GOOD,
            "- left: x\n- go: x\n- click: x\n<think>I say <tool> first</think>\n"
            '<tool>go("LEFT")</tool>',
        )
        assert check(text) == check(text.replace("use_thinking: true", "use_thinking: false")) == ()


class TestArguments:
    def test_an_argument_that_goes_nowhere(self) -> None:
        text = config(
            "go:\n  _tool: move\n  _parser: {positional: [way, speed]}\n  direction: {from_arg: "
            "way}"
        )
        found = one(text, "unreachable-argument")
        assert (found.severity, marked(text, found)) == ("warning", "speed")

    @pytest.mark.parametrize(
        "source",
        [
            "lambda w, ctx: w if ctx.get('speed', 1) else 'up'",
            "lambda w, ctx: w if ctx['speed'] else 'up'",
            "lambda w, ctx: w if 'speed' in ctx else 'up'",
            "lambda w, other: w if len(other) > 1 else 'up'",
        ],
    )
    def test_arguments_that_a_transform_reads(self, source: str) -> None:
        text = config(
            "go:\n  _tool: move\n  _parser: {positional: [way, speed]}\n  direction: "
            f'{{from_arg: way, transform: "{source}"}}'
        )
        assert check(text) == ()

    def test_an_argument_that_a_transform_does_not_read(self) -> None:
        text = config(
            "go:\n  _tool: move\n  _parser: {positional: [way, speed, x]}\n"
            "  direction: {from_arg: way, transform: \"lambda w, ctx: w if ctx.get('speed') else "
            "'up'\"}"
        )
        assert marked(text, one(text, "unreachable-argument")) == "x"

    def test_lists_of_arguments_count(self) -> None:
        text = config(
            "go:\n  _tool: bare\n  _parser: {positional: [a, b]}\n  both: {from_args: [a, b]}"
        )
        assert check(text) == ()

    def test_arguments_of_done_are_ignored(self) -> None:
        assert check(config("done:\n  _tool: move\n  _parser: {positional: [answer]}")) == ()


class TestTransforms:
    def transform(
        self, source: str, tool: str = "bare", prompt: str | None = None, more: str = ""
    ) -> str:
        return config(
            f"go:\n  _tool: {tool}\n  _parser: {{positional: [a, b]}}\n  other: {{from_arg: b}}\n"
            f"  value:\n    from_arg: a\n    transform: {source!r}\n{more}",
            prompt,
        )

    @pytest.mark.parametrize(
        "source", ["lambda x: 5", "lambda x: [y for y in range(3)]", "lambda _: 'left'"]
    )
    def test_one_that_ignores_its_argument(self, source: str) -> None:
        text = self.transform(source)
        found = one(text, "transform-ignores-argument")
        assert (found.severity, found.parameter, marked(text, found)) == (
            "warning",
            "value",
            "transform",
        )

    def test_one_that_reads_only_the_other_arguments(self) -> None:
        assert (
            one(
                self.transform("lambda x, ctx: ctx.get('b', 1)"), "transform-ignores-argument"
            ).severity
            == "info"
        )

    @pytest.mark.parametrize(
        "source",
        [
            "lambda x: 1 / 0",
            "lambda x: [][0]",
            "lambda x: {}[x]",
            "lambda x: x.split('+') * 'a'",
            "lambda x: 2 ** 99999 + int(x)",
        ],
    )
    def test_one_that_always_fails(self, source: str) -> None:
        findings = check(self.transform(source))
        found = next(finding for finding in findings if finding.code == "transform-fails")
        assert found.severity == "error" and "on every argument that was tried" in found.message

    def test_one_that_runs_out_of_its_budget_is_found_soon(self) -> None:
        found = one(self.transform("lambda x: [y for y in range(10000000)] + x"), "transform-fails")
        assert found.severity == "error"

    @pytest.mark.parametrize(
        "source",
        [
            "lambda x: int(x * 1000)",
            "lambda x: x.split('+')",
            "lambda x: x.upper()",
            "lambda x: {'n': 'north', 's': 'south'}[x]",
            "lambda x: x.split(':')[1]",
            "lambda x: int(x.split('x')[0])",
            "lambda x: [p['x'] for p in [x]]",
            "lambda x: x[0] + x[1]",
            "lambda x, ctx: x * ctx['b']",
            "lambda x, ctx: x + ctx['b'].upper()",
            "int",
        ],
    )
    def test_those_that_can_work(self, source: str) -> None:
        assert [
            finding for finding in check(self.transform(source)) if finding.severity != "info"
        ] == []

    @pytest.mark.parametrize(
        "source, value", [("lambda x: 10 / x", "0"), ("lambda x: x.strip()[0]", '""')]
    )
    def test_edges_are_mentioned(self, source: str, value: str) -> None:
        found = one(self.transform(source), "transform-fails")
        assert found.severity == "info" and f"fails on {value}:" in found.message

    def test_the_examples_of_the_prompt_count(self) -> None:
        text = self.transform(
            "lambda x: int(x * 1000)", prompt='- go(a, b): x\n  Usage: <tool>go("2.5", 1)</tool>'
        )
        found = one(text, "transform-fails")
        assert (
            found.severity == "error"
            and 'fails on "2.5", an example of the prompt' in found.message
        )
        assert check(text.replace('"2.5"', "2.5")) == ()

    @pytest.mark.parametrize(
        "source, code",
        [
            ("lambda x: x.upper() + '!'", "type-mismatch"),
            ("lambda x: [x]", "type-mismatch"),
            ("lambda x: int(x) / 2 + 0.25", "type-mismatch"),
        ],
    )
    def test_results_that_never_fit(self, source: str, code: str) -> None:
        text = config(
            "c:\n  _tool: click_at\n  _parser: {positional: [x]}\n  y: 1\n  x:\n    from_arg: "
            f"x\n    transform: {source!r}"
        )
        found = one(text, code)
        assert found.severity == "warning" and found.parameter == "x"

    def test_results_that_are_never_among_the_choices(self) -> None:
        text = config(
            "go:\n  _tool: move\n  _parser: {positional: [w]}\n  direction: {from_arg: w, "
            "transform: 'lambda w: w + \"!\"'}"
        )
        assert one(text, "enum-mismatch").severity == "warning"

    @pytest.mark.parametrize(
        "source", ["lambda w: w.lower()", "lambda w: {'l': 'left'}[w]", "lambda w: w[1:]", "str"]
    )
    def test_results_that_can_be_among_the_choices(self, source: str) -> None:
        text = config(
            "go:\n  _tool: move\n  _parser: {positional: [w]}\n  direction: {from_arg: w, "
            f"transform: {source!r}}}"
        )
        assert [finding for finding in check(text) if finding.severity != "info"] == []

    def test_bounds_are_not_guessed_about(self) -> None:
        text = config(
            "c:\n  _tool: click_at\n  _parser: {positional: [x]}\n  y: 1\n  x: {from_arg: x, "
            "transform: 'lambda x: -9 - int(x)'}"
        )
        assert check(text) == ()

    def test_what_a_lambda_shows(self) -> None:
        reading = transform_traits(
            "lambda d, ctx: ctx.get('n', 3) + ctx['m'] if d == 'x' and 'k' in ctx else 0"
        )
        assert reading.context == {"n", "m", "k"} and not reading.ignores_value
        assert transform_traits("lambda d, ctx: ctx").context is None
        assert transform_traits("lambda d, ctx: ctx.get(d)").context is None
        assert transform_traits("lambda d: d").context == frozenset()


class TestTools:
    def test_unknown_tool(self) -> None:
        text = config("left:\n  _tool: mvoe\n  direction: left")
        found = one(text, "unknown-tool")
        assert (found.severity, found.mapping, marked(text, found)) == ("error", "left", "mvoe")
        assert "did you mean `move`?" in found.message and found.fix is not None

    def test_unknown_tool_with_nothing_like_it(self) -> None:
        found = one(config("left:\n  _tool: zzzzzz\n  direction: left"), "unknown-tool")
        assert "it has `move`, `click_at`" in found.message and found.fix is None

    def test_nothing_is_known_of_the_environment(self) -> None:
        assert check(config("left:\n  _tool: mvoe\n  direction: left"), None) == ()

    def test_tools_that_are_not_the_agents(self) -> None:
        assert (
            one(config("again:\n  _tool: setup\n  name: board"), "lifecycle-tool").severity
            == "warning"
        )
        assert (
            "function of the hub `setup`"
            in one(config("again:\n  _tool: board"), "unknown-tool").message
        )

    def test_unknown_parameter(self) -> None:
        text = config("c:\n  _tool: click_at\n  x: 1\n  y: 2\n  z: 3")
        found = one(text, "unknown-parameter")
        assert (found.severity, found.parameter, marked(text, found)) == ("error", "z", "z")
        assert found.fix is None and "it has `x`, `y`" in found.message

    def test_unknown_parameter_where_others_are_not_excluded(self) -> None:
        assert (
            one(
                config("left:\n  _tool: move\n  direction: left\n  speed: 3"), "unknown-parameter"
            ).severity
            == "warning"
        )

    def test_where_anything_goes(self) -> None:
        assert check(config("a:\n  _tool: free\n  x: 1\nb:\n  _tool: bare\n  x: 1")) == ()
        extra = {
            "t": Tool(
                "t",
                "",
                {
                    "type": "object",
                    "properties": {"a": {}},
                    "additionalProperties": {"type": "integer"},
                },
            )
        }
        assert check(config("go:\n  _tool: t\n  b: 1"), extra) == ()
        pattern = {
            "t": Tool(
                "t",
                "",
                {
                    "properties": {"a": {}},
                    "patternProperties": {"^x-": {}},
                    "additionalProperties": False,
                },
            )
        }
        assert check(config("go:\n  _tool: t\n  x-1: 1"), pattern) == ()

    def test_a_misspelt_parameter(self) -> None:
        text = config("left:\n  _tool: move\n  directoin: left")
        findings = {finding.code: finding for finding in check(text)}
        assert set(findings) == {"unknown-parameter", "missing-required"}
        assert findings["unknown-parameter"].fix is not None
        assert findings["missing-required"].parameter == "direction"

    def test_required_and_never_supplied(self) -> None:
        text = config("c:\n  _tool: click_at\n  _parser: {positional: [x]}\n  x: {from_arg: x}")
        found = one(text, "missing-required")
        assert (found.severity, found.parameter, marked(text, found)) == ("error", "y", "c")

    @pytest.mark.parametrize(
        "form", ["direction: {}", "direction:\n    static: {}", "direction: {{static: {}}}"]
    )
    @pytest.mark.parametrize(
        "written, sure",
        [("Left", "left"), ("lft", "left"), ("sideways", None), ("3", None), ('"up "', "up")],
    )
    def test_a_value_that_is_not_among_the_choices(
        self, form: str, written: str, sure: str | None
    ) -> None:
        text = config(f"left:\n  _tool: move\n  {form.format(written)}")
        found = one(text, "enum-mismatch")
        assert (found.severity, found.parameter, marked(text, found)) == (
            "error",
            "direction",
            written,
        )
        assert (found.fix.title if found.fix else None) == (f'write "{sure}"' if sure else None)

    @pytest.mark.parametrize(
        "line, fix",
        [
            ('x: "100"', "100"),
            ("x: 1.5", None),
            ("x: abc", None),
            ("x: null", None),
            ("x: -1", None),  # below the minimum
            ("label: 3", '"3"'),
            ("label: true", None),
            ('fast: "true"', "true"),
            ("fast: yes", None),  # text in YAML 1.2
            ("keys: a", None),
            ("keys: {static: [1]}", None),
        ],
    )
    def test_a_value_of_the_wrong_type(self, line: str, fix: str | None) -> None:
        other = "" if line.startswith("x") else "\n  x: 1"
        found = one(config(f"c:\n  _tool: click_at\n  y: 2{other}\n  {line}"), "type-mismatch")
        assert found.severity == "error"
        assert (found.fix.title if found.fix else None) == (f"write {fix}" if fix else None)

    def test_defaults_are_held_against_the_schema(self) -> None:
        text = config(
            "c:\n  _tool: click_at\n  _parser: {positional: [x]}\n  y: 2\n  x:\n    from_arg: x\n  "
            '  default: "7"'
        )
        found = one(text, "type-mismatch")
        assert marked(text, found) == '"7"' and "the default" in found.message
        assert check(text.replace('"7"', "7")) == ()

    def test_a_list_for_a_parameter_that_takes_none(self) -> None:
        text = config(
            "c:\n  _tool: click_at\n  _parser: {positional: [a, b]}\n  y: 2\n  x: {from_args: [a, "
            "b]}"
        )
        assert "gives a list" in one(text, "type-mismatch").message
        good = config(
            "c:\n  _tool: click_at\n  _parser: {positional: [a, b]}\n  y: 2\n  x: 1\n  keys: "
            "{from_args: [a, b]}"
        )
        assert check(good) == ()
        bad = good.replace("from_args: [a, b]", "from_args: [a, b], defaults: [1, 2]")
        assert one(bad, "type-mismatch").severity == "error"

    def test_references_in_schemas_are_followed(self) -> None:
        tool = Tool(
            "t",
            "",
            {
                "$defs": {"Way": {"enum": ["a", "b"]}},
                **schema({"way": {"$ref": "#/$defs/Way"}}, "way"),
            },
        )
        assert check(config("go:\n  _tool: t\n  way: a"), {"t": tool}) == ()
        assert (
            one(config("go:\n  _tool: t\n  way: c"), "enum-mismatch", {"t": tool}).parameter
            == "way"
        )

    def test_one_that_excludes_nothing_by_mistake(self) -> None:
        broken = Tool(
            "t", "", {"type": "object", "properties": {"a": {"type": "nonsense"}}, "required": "a"}
        )
        assert check(config("go:\n  _tool: t\n  a: 1"), {"t": broken}) == ()

    def test_a_pattern_of_the_server_is_looked_for_in_bounded_time(self) -> None:
        tool = Tool(
            "t",
            "",
            {
                "properties": {"b": {}},
                "patternProperties": {"^(a+)+$": {}},
                "additionalProperties": False,
            },
        )
        began = time.process_time()
        assert (
            one(
                config(f"go:\n  _tool: t\n  {'a' * 40}b: 1"), "unknown-parameter", {"t": tool}
            ).severity
            == "error"
        )
        assert check(config(f"go:\n  _tool: t\n  {'a' * 40}: 1"), {"t": tool}) == ()
        assert time.process_time() - began < 5


class TestNames:
    @pytest.mark.parametrize(
        "word, known, near, sure",
        [
            ("mvoe", ["move", "setup"], "move", "move"),
            ("Move", ["move"], "move", "move"),
            ("my-tool", ["my_tool", "my_tools"], "my_tool", "my_tool"),
            ("click1", ["click2"], "click2", None),
            ("lef", ["left", "lift"], "left", None),
            ("up", ["us"], None, None),
            ("abc", ["xyz"], None, None),
            ("moves", ["move", "moved"], "move", None),
            ("MOVE", ["move", "Move"], "Move", None),
            ("x" * 100, ["x" * 99], None, None),
            ("", ["a"], None, None),
        ],
    )
    def test_nearest_and_surely(
        self, word: str, known: list[str], near: str | None, sure: str | None
    ) -> None:
        assert confident_match(word, known) == sure
        found = did_you_mean(word, known)
        assert found == near or (
            near is not None and found is not None and found.lower() == near.lower()
        )


class TestReadingPrompts:
    def test_usages(self) -> None:
        prompt = (
            "Write <tool>...</tool>. <tool> a(1) </tool> <tool>b()\n</tool> an open <tool> one, "
            "then <tool>c()</tool> <tool>"
        )
        found = usage_examples(prompt)
        assert [usage.text for usage in found] == ["a(1)", "b()", "c()"]
        assert all(prompt.startswith(usage.text, usage.start) for usage in found)

    def test_headings(self) -> None:
        prompt = "- a(x): y\n  * `b`: z\n1. c - d\n2) **e(f)**\n- G h: i\n-j\n-- k()"
        assert [(heading.name, heading.call) for heading in headings(prompt)] == [
            ("a", True),
            ("b", False),
            ("c", False),
            ("e", True),
            ("G", False),
        ]
        assert all(prompt.startswith(heading.name, heading.start) for heading in headings(prompt))

    def test_mentions(self) -> None:
        assert mentioned("a() `b` \"c\" 'd' *e* <f>\n- g h\nword (i)") >= {
            "a",
            "b",
            "c",
            "d",
            "e",
            "f",
            "g",
        }
        assert "h" not in mentioned("- g h")

    @given(st.text(alphabet="<>/tolthink()ab -\n`*", max_size=300))
    @settings(max_examples=200, deadline=None)
    def test_any_prompt_is_read(self, prompt: str) -> None:
        for usage in usage_examples(prompt):
            assert prompt.startswith(usage.text, usage.start)
        headings(prompt)
        mentioned(prompt)


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_gets_an_answer(text: str) -> None:
    assert isinstance(lint(text, name="x", tools=TOOLS), tuple)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "static",
                    "from_arg",
                    "from_args",
                    "default",
                    "defaults",
                    "transform",
                    "use_context",
                    "x",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
MAPPING = st.dictionaries(
    st.sampled_from(["_tool", "_parser", "_x", "direction", "x", "y", "keys", "z"]),
    st.one_of(
        VALUES,
        st.sampled_from(
            [
                "move",
                "click_at",
                "setup",
                "nothing",
                {"positional": ["x", "y"]},
                {"positional": ["x", "x", 3]},
            ]
        ),
        st.builds(
            lambda arg, source: {"from_arg": arg, "transform": source},
            st.sampled_from(["x", "y", "z"]),
            st.sampled_from(
                [
                    "lambda x: x",
                    "lambda x: 1 / x",
                    "lambda x, c: c['y']",
                    "lambda x: 'a'",
                    "lambda",
                    "int",
                ]
            ),
        ),
    ),
    max_size=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["left", "done", "a b", "on", "1"]), st.one_of(MAPPING, VALUES), max_size=4
    ),
    st.one_of(
        st.text(max_size=40),
        st.sampled_from(["- left(): x\n  Usage: <tool>left()</tool>", "<tool>left(1)</tool>"]),
        VALUES,
    ),
    st.one_of(st.none(), VALUES, st.lists(st.sampled_from(["left", "done", "move", "x"]))),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
@example(5, "", None, True)
@example({"left": {"_tool": "move"}}, "- left(): x", 5, True)
def test_any_document_gets_an_answer(
    mappings: Any, prompt: Any, actions: Any, unmapped: bool
) -> None:
    import json

    parts = {"action_mappings": mappings, "system_prompt": prompt, "allow_unmapped": unmapped}
    text = json.dumps(parts if actions is None else {**parts, "actions": actions})
    if (config := parse_config(text, name="x")[0]) is not None:
        action_rows(config, TOOLS)
    lines = text.split("\n")
    for finding in lint(text, name="x", tools=TOOLS):
        assert 1 <= finding.line <= len(lines) and finding.column >= 1
        assert finding.message and "\n" not in finding.message


def test_no_time_to_try_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudtui.core.gym.lint.transforms._PATIENCE", -1.0)
    text = (
        "action_mappings: {go: {_tool: move, _parser: {positional: [n]}, n: {from_arg: n, "
        'transform: "lambda n: n[5]"}}}'
    )
    assert "transform-fails" not in {
        finding.code for finding in lint(text, name="c.yaml", tools=None)
    }
    monkeypatch.undo()
    assert "transform-fails" in {finding.code for finding in lint(text, name="c.yaml", tools=None)}


def test_one_error_of_an_action_hides_no_other() -> None:
    text = """\
job: {name: t}
system_prompt: Play.
action_mappings:
  go:
    _tool: mvoe
    _parser: {positional: [where, where]}
    direction: {from_arg: whre}
    steps: {from_arg: where, transform: "lambda"}
    nothing: 1
parser: {use_thinking: true}
defaults: {max_turns: 3}
"""
    schema = {
        "type": "object",
        "properties": {"direction": {}, "steps": {}},
        "required": ["direction", "steps"],
    }
    tool = Tool("move", "", {**schema, "additionalProperties": False})
    codes = {
        finding.code
        for finding in lint(text, name="c.yaml", tools={"move": tool})
        if finding.mapping == "go"
    }
    assert {"unknown-tool", "positional", "transform"} <= codes
    right = text.replace("mvoe", "move")
    found = [
        finding
        for finding in lint(right, name="c.yaml", tools={"move": tool})
        if finding.mapping == "go"
    ]
    assert {"unknown-parameter", "positional", "transform"} <= {finding.code for finding in found}
    assert "missing-required" not in {
        finding.code for finding in found
    }  # `steps` is there, however it is written
    both = (
        right.replace("[where, where]", "[where]")
        .replace("mvoe", "move")
        .replace("_tool: move", "_tool: mvoe")
    )
    codes = {
        finding.code
        for finding in lint(both, name="c.yaml", tools={"move": tool})
        if finding.mapping == "go"
    }
    assert {"from-arg", "unknown-tool"} <= codes


def test_an_unclosed_quote_is_told_where_it_opens() -> None:
    text = (
        'job:\n  name: "Desk\nsystem_prompt: Play.\n# a comment with "quotes" in it\n'
        "action_mappings: {}\n"
    )
    (found,) = lint(text, name="c.yaml")
    assert (found.code, found.line, found.column) == ("yaml", 2, 9)
    assert "quote that opens here is closed only on line 4" in found.message
    (found,) = lint('a: "x" y\n', name="c.yaml")
    assert found.line == 1 and "unexpected text after the value" in found.message


def test_many_tokens_of_schemas_are_told_with_their_number() -> None:
    many = {
        f"tool_{number}": Tool(f"tool_{number}", "Words. " * 60, schema({"x": {"type": "string"}}))
        for number in range(90)
    }
    for dialect, told in (("text", False), ("hermes", True), ("native", True)):
        text = f"allow_unmapped: true\nparser: {{dialect: {dialect}}}\n"
        found = [one for one in check(text, many) if one.code == "many-tokens"]
        assert bool(found) is told
        for one_found in found:
            assert (
                one_found.severity == "warning" and "schemas of 91 tools take" in one_found.message
            )
            assert "as estimated at 4 characters each" in one_found.message
        few = [one.code for one in check(f"{text}actions: [tool_1]\n", many)]
        assert "many-tokens" not in few


def test_actions_beside_the_prompt_and_the_tools() -> None:
    mappings = """\
left: {_tool: move, direction: left}
up: {_tool: move, direction: up}
"""
    prompt = "- left(): Push.\n- up(): Push."
    text = config(mappings, prompt) + "actions: [left, fre]\nallow_unmapped: true\n"
    codes = {finding.code: finding for finding in check(text)}
    unknown = codes["actions"]
    assert unknown.severity == "error" and "`fre`" in unknown.message
    assert "did you mean `free`" in unknown.message
    assert marked(text, unknown).startswith("fre")
    assert "`actions` leaves it out" in codes["described-not-mapped"].message
    good = text.replace("fre]", "free]").replace("- up(): Push.", "")
    assert not [one for one in check(good) if one.code in ("actions", "mapped-not-described")]
