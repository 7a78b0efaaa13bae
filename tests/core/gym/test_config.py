"""Reading configurations: what loads and what it means, and a finding with its place for everything
else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudtui.core.errors import ConfigError, InputError
from hudtui.core.gym.config import load_config, parse_config
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.lint.findings import Finding, errors_of
from hudtui.core.gym.transform import compile_transform
from hudtui.core.gym.values import (
    DEFAULT_MAX_TURNS,
    MISSING,
    FromArg,
    FromArgs,
    GymConfig,
    ParserSettings,
    Static,
)

FULL = """\
job:
  name: "2048 Training Run"
  metadata: {dataset: "org/tasks", experiment: baseline}
system_prompt: |
  Play.
parser:
  use_thinking: false
  xml_weight: 3
  action_weight: 1
defaults:
  max_turns: 7
action_mappings:
  left:
    _parser:
      positional: []  # no arguments
    _tool: "move"
    direction:
      static: "left"
  key:
    _parser: {positional: ["key", "times"]}
    _tool: computer
    action: press
    keys:
      from_arg: "key"
      transform: "lambda x: x.split('+')"
    times: {from_arg: times, default: 1}
    both: {from_args: [key, times], defaults: [a]}
    context: {from_arg: key, transform: "lambda x, ctx: ctx", use_context: true}
rubric:
  weights:
    task_completion: 0.9
logging: {level: INFO}
allow_unmapped: true
"""


def read(text: str) -> tuple[GymConfig, tuple[Finding, ...]]:
    config, findings = parse_config(text, name="c.yaml")
    assert config is not None, findings
    return config, findings


def test_a_full_configuration() -> None:
    config, findings = read(FULL)
    assert config.system_prompt == "Play.\n"
    assert config.parser == ParserSettings(False, 3.0, 1.0)
    assert config.max_turns == 7
    assert config.allow_unmapped
    assert config.weights == {
        "task_completion": 0.9,
        "tool_execution": 0.1,
        "format_compliance": 0.1,
    }
    assert config.job == {
        "name": "2048 Training Run",
        "metadata": {"dataset": "org/tasks", "experiment": "baseline"},
    }
    assert config.raw["logging"] == {"level": "INFO"}
    assert config.path == "c.yaml"
    assert list(config.mappings) == ["left", "key"]
    assert config.mappings["left"].tool == "move"
    assert config.mappings["left"].parameters == {"direction": Static("left")}
    key = config.mappings["key"]
    assert key.positional == ("key", "times")
    assert key.parameters == {
        "action": Static("press"),
        "keys": FromArg("key", MISSING, compile_transform("lambda x: x.split('+')")),
        "times": FromArg("times", 1),
        "both": FromArgs(("key", "times"), ("a",)),
        "context": FromArg("key", MISSING, compile_transform("lambda x, ctx: ctx"), True),
    }
    assert [(finding.code, finding.severity, finding.line) for finding in findings] == [
        ("unknown-key", "info", 32)
    ]


def test_what_is_not_said_has_defaults() -> None:
    for text in (
        "action_mappings: {}",
        "system_prompt:\njob:\nparser:\nrubric:\ndefaults:\naction_mappings:\n",
        "rubric: {weights: }",
    ):
        config, findings = read(text)
        assert config.parser == ParserSettings(True, 0.6, 0.4)
        assert config.weights == {
            "task_completion": 0.8,
            "tool_execution": 0.1,
            "format_compliance": 0.1,
        }
        assert config.max_turns == DEFAULT_MAX_TURNS
        assert (config.system_prompt, config.job, config.mappings, config.allow_unmapped) == (
            "",
            {},
            {},
            False,
        )
        assert not findings


def test_words_that_yaml_once_took_for_booleans() -> None:
    config, findings = read(
        "parser: {use_thinking: no}\n"
        "action_mappings:\n"
        "  on: {_tool: t, off: yes, y: {from_arg: n, use_context: On}, _parser: {positional: "
        "[n]}}\n"
    )
    assert not findings
    assert config.parser.use_thinking is False
    assert list(config.mappings) == ["on"]
    assert config.mappings["on"].parameters == {
        "off": Static("yes"),
        "y": FromArg("n", use_context=True),
    }
    assert read("action_mappings: {a: {_tool: t, x: 1e-5, '2048': 010, 5: 0o10}}")[0].mappings[
        "a"
    ].parameters == {
        "x": Static(1e-5),
        "2048": Static(10),
        "5": Static(8),
    }


def test_an_action_may_be_a_number() -> None:
    config, findings = read("action_mappings: {2048: {_tool: t}}")
    assert not findings
    assert Interpreter(config).interpret("<tool>2048()</tool>").call == ("t", {})


MAPPING = "action_mappings:\n  click:\n    _tool: t\n    _parser: {positional: [x, y]}\n"


@pytest.mark.parametrize(
    ("text", "code", "place", "mapping", "parameter", "words"),
    [
        ("- a", "shape", (1, 1), None, None, "a configuration is a mapping"),
        ("just text", "shape", (1, 1), None, None, "not a text"),
        ("", "shape", (1, 1), None, None, "not nothing"),
        ("a: 1\na: 2", "yaml", (2, 1), None, None, "line 1"),
        ("a: 1\n\tb: 2", "yaml", (2, 1), None, None, "tab"),
        ("a: &a [*a]", "yaml", (1, 8), None, None, ""),
        (
            "action_mappings: [a]",
            "type",
            (1, 1),
            None,
            None,
            "`action_mappings` is a mapping, not a list",
        ),
        ("system_prompt: [a]", "type", (1, 1), None, None, "`system_prompt` is a text"),
        ("job: x", "type", (1, 1), None, None, "`job` is a mapping"),
        ("parser: {use_thinking: maybe}", "type", (1, 24), None, None, "true or false"),
        ("parser: {xml_weight: heavy}", "type", (1, 22), None, None, "a number"),
        ("parser: {xml_weight: true}", "type", (1, 22), None, None, "a number"),
        ("parser: {xml_weight: .inf}", "type", (1, 22), None, None, "a number"),
        ("parser: {xml_weight: -1}", "weight", (1, 22), None, None, "negative"),
        ("rubric: {weights: [1]}", "type", (1, 10), None, None, "a mapping"),
        ("rubric: {weights: {task_completion: much}}", "type", (1, 37), None, None, "a number"),
        ("defaults: {max_turns: 0}", "type", (1, 23), None, None, "whole number from 1"),
        ("defaults: {max_turns: many}", "type", (1, 23), None, None, "whole number from 1"),
        ("allow_unmapped: 7", "type", (1, 17), None, None, "true or false"),
        ("action_mappings:\n  click: 5", "shape", (2, 3), "click", None, "this is a number"),
        ("action_mappings:\n  click: {x: 1}", "tool", (2, 3), "click", None, "`_tool` is missing"),
        ("action_mappings:\n  click: {_tool: 5}", "tool", (2, 18), "click", None, "not 5"),
        (
            "action_mappings:\n  click: {_tool: ''}",
            "tool",
            (2, 18),
            "click",
            None,
            "the name of an MCP tool",
        ),
        ("{}", "shape", (1, 1), None, None, "none of its keys"),
        (
            "compute_environment: LOCAL_MACHINE\nnum_processes: 2",
            "shape",
            (1, 1),
            None,
            None,
            "an accelerate configuration",
        ),
        (
            "zero_optimization: {stage: 3}\nbf16: {enabled: true}",
            "shape",
            (1, 1),
            None,
            None,
            "a DeepSpeed configuration",
        ),
        (
            "environments: {my_env: {max_turns: 15}}\ntraining: {}",
            "shape",
            (1, 1),
            None,
            None,
            "an ART configuration",
        ),
        ("version: '1.3'\nimages: {local: env}", "shape", (1, 1), None, None, "a lock file"),
        ("[{prompt: Go., mcp_config: {}}]", "shape", (1, 1), None, None, "seem to be tasks"),
        ("{prompt: Go., mcp_config: {}}", "shape", (1, 1), None, None, "seems to be a task"),
        ("learning_rate: 1e-5\nsteps: 10", "shape", (1, 1), None, None, "settings of a trainer"),
        ("logging: {}", "shape", (1, 1), None, None, "not a gym configuration"),
        ("action_mappings:\n  click: {_tool: null}", "tool", (2, 18), "click", None, "not nothing"),
        (MAPPING + "    a: {}", "form", (5, 5), "click", "a", "below `static`"),
        (MAPPING + "    a: {form_arg: x}", "form", (5, 5), "click", "a", "did you mean `from_arg`"),
        (MAPPING + "    a: {x: 1, y: 2}", "form", (5, 5), "click", "a", "below `static`"),
        (
            MAPPING + "    a: {from_arg: a b}",
            "from-arg",
            (5, 19),
            "click",
            "a",
            "cannot be given by this name",
        ),
        (
            MAPPING + "    a: {from_arg: [x]}",
            "from-arg",
            (5, 19),
            "click",
            "a",
            "the name of an argument",
        ),
        (MAPPING + "    a: {from_args: x}", "from-arg", (5, 20), "click", "a", "a list of names"),
        (
            MAPPING + "    a: {from_args: [x, 5]}",
            "from-arg",
            (5, 20),
            "click",
            "a",
            "a list of names",
        ),
        (
            MAPPING + "    a: {from_args: [x, 5z]}",
            "from-arg",
            (5, 24),
            "click",
            "a",
            "cannot be given by this name",
        ),
        (
            MAPPING + "    a: {from_args: [x], defaults: 5}",
            "default",
            (5, 35),
            "click",
            "a",
            "`defaults` is a list",
        ),
        (
            MAPPING + "    a: {from_args: [x], transform: 'lambda x: x'}",
            "form",
            (5, 25),
            "click",
            "a",
            "does not go with",
        ),
        (
            MAPPING + "    a: {from_args: [x], default: 5}",
            "form",
            (5, 25),
            "click",
            "a",
            "it is called `defaults`",
        ),
        (
            MAPPING + "    a: {from_arg: x, defaults: [5]}",
            "form",
            (5, 22),
            "click",
            "a",
            "it is called `default`",
        ),
        (
            MAPPING + "    a: {from_arg: x, tranform: 'lambda x: x'}",
            "unknown-key",
            (5, 22),
            "click",
            "a",
            "`transform`",
        ),
        (
            MAPPING + "    a: {from_arg: x, use_context: 3}",
            "type",
            (5, 35),
            "click",
            "a",
            "true or false",
        ),
        (
            MAPPING + "    a: {from_arg: x, transform: 5}",
            "transform",
            (5, 33),
            "click",
            "a",
            "in quotes",
        ),
        (
            MAPPING + '    a: {from_arg: x, transform: "lambda x: y"}',
            "transform",
            (5, 44),
            "click",
            "a",
            "y is not known",
        ),
        (
            MAPPING + "    a:\n      from_arg: x\n      transform: lambda x, y, z - 1",
            "transform",
            (7, 33),
            "click",
            "a",
            "not Python",
        ),
        (
            MAPPING
            + "    a:\n      from_arg: x\n      transform: |\n        lambda x: (\n          nope)",
            "transform",
            (9, 11),
            "click",
            "a",
            "nope",
        ),
        (MAPPING + "    a: {static: .inf}", "value", (5, 17), "click", "a", "not finite"),
        (MAPPING + "    a: [1, .nan]", "value", (5, 8), "click", "a", "not finite"),
        (
            MAPPING + "    a: {from_arg: x, default: .inf}",
            "value",
            (5, 31),
            "click",
            "a",
            "not finite",
        ),
        (
            "action_mappings:\n  f: {_tool: t, _parser: 5}",
            "positional",
            (2, 17),
            "f",
            None,
            "`_parser` is a mapping",
        ),
        (
            "action_mappings:\n  f: {_tool: t, _parser: {positional: x}}",
            "positional",
            (2, 39),
            "f",
            None,
            "a list of names, not a text",
        ),
        (
            "action_mappings:\n  f: {_tool: t, _parser: {positional: [x, 5]}}",
            "positional",
            (2, 43),
            "f",
            None,
            "5 is a number",
        ),
        (
            "action_mappings:\n  f: {_tool: t, _parser: {positional: [x, x]}}",
            "positional",
            (2, 43),
            "f",
            None,
            "appears twice",
        ),
        (
            "action_mappings:\n  f: {_tool: t, _parser: {positional: [a b]}}",
            "positional",
            (2, 40),
            "f",
            None,
            "is not a name",
        ),
    ],
)
def test_errors(
    text: str,
    code: str,
    place: tuple[int, int],
    mapping: str | None,
    parameter: str | None,
    words: str,
) -> None:
    _, findings = parse_config(text, name="c.yaml")
    errors = errors_of(findings)
    assert len(errors) == 1, errors
    (error,) = errors
    assert (error.code, error.line, error.column) == (code, *place), error
    assert (error.mapping, error.parameter) == (mapping, parameter)
    assert words in error.message
    assert error.render("c.yaml").startswith(f"c.yaml:{place[0]}:{place[1]}: error[{code}] ")


@pytest.mark.parametrize(
    ("text", "code", "severity", "words"),
    [
        ("job: {}\nlogging: {}", "unknown-key", "info", "ignored"),
        ("job: {}\nallowed_tools: [x]", "unknown-key", "info", "ignored"),
        (MAPPING + "    _tol: x", "unknown-key", "warning", "did you mean `_tool`?"),
        (MAPPING + "    _extra: x", "unknown-key", "warning", "`_tool` and `_parser`"),
        (MAPPING + "    '# TODO': more", "comment", "warning", "is not sent"),
        (MAPPING + "  '// later': {}", "comment", "warning", "is not sent"),
        (
            "action_mappings: {a: {_tool: t, _parser: {positional: [amount]}, b: {from_arg: "
            "amont}}}",
            "from-arg",
            "warning",
            "`amount`",
        ),
        ("action_mapping: {}", "unknown-key", "warning", "`action_mappings`"),
        ("parser: {use_thinkin: true}", "unknown-key", "warning", "`use_thinking`"),
        ("parser: {xml_weight: 0, action_weight: 0}", "weight", "warning", "always 0"),
        ("rubric: {weights: {format: 1}}", "unknown-key", "info", "ignored"),
        ("rubric: {weights: {task_completon: 1}}", "unknown-key", "warning", "`task_completion`"),
        ("defaults: {max_turn: 1}", "unknown-key", "warning", "`max_turns`"),
        ("action_mappings: {a-b: {_tool: t}}", "action-name", "warning", "no agent can call"),
        (
            MAPPING + "    a: {static: 1, from_arg: x}",
            "ignored",
            "warning",
            "because `static` is given",
        ),
        (
            MAPPING + "    a: {static: 1, transform: 'nonsense'}",
            "ignored",
            "warning",
            "because `static` is given",
        ),
        (
            MAPPING + "    a: {from_arg: x, from_args: [y]}",
            "ignored",
            "warning",
            "because `from_arg` is given",
        ),
        (MAPPING + "    a: {from_arg: x, description: of x}", "unknown-key", "info", "ignored"),
        (
            MAPPING + "    a: {from_args: [x], defaults: [1, 2]}",
            "default",
            "warning",
            "2 values for 1 arguments",
        ),
        (
            "action_mappings: {a: {_tool: t, _parser: {positionl: []}}}",
            "unknown-key",
            "warning",
            "`positional`",
        ),
    ],
)
def test_what_is_odd_but_loads(text: str, code: str, severity: str, words: str) -> None:
    config, findings = read(text)
    assert [(finding.code, finding.severity) for finding in findings] == [(code, severity)]
    assert words in findings[0].message
    assert not config.invalid


def test_static_wins_as_it_always_did() -> None:
    config, _ = read(
        MAPPING + "    a: {static: 1, from_arg: x}\n    b: {from_arg: x, from_args: [y]}"
    )
    assert config.mappings["click"].parameters == {"a": Static(1), "b": FromArg("x")}


def test_fixes_say_where_the_misspelt_key_is() -> None:
    text = MAPPING + "    a: {from_arg: x, tranform: 'lambda x: x'}"
    _, findings = read(text)
    fix = findings[0].fix
    assert fix is not None
    (edit,) = fix.edits
    line = text.split("\n")[edit.line - 1]
    assert edit.line == edit.end_line
    assert line[edit.column - 1 : edit.end_column - 1] == "tranform"
    assert edit.text == "transform"
    both, findings = read(
        MAPPING + "    a: {from_arg: x, tranform: 'lambda x: x', transform: 'lambda x: x'}"
    )
    assert findings[0].fix is None
    assert "click" in both.invalid


def test_one_bad_mapping_hides_no_other() -> None:
    config, findings = read(
        "action_mappings:\n"
        "  one: {_tool: t}\n"
        "  two: {x: 1}\n"
        "  three: {_tool: t, _parser: {positional: [a, a]}, p: {from_arg: a}, q: {}, r: {from_arg: "
        "b}}\n"
        "  four: {_tool: t, p: {from_arg: z, transform: nonsense(}}\n"
        "  five: {_tool: t}\n"
    )
    assert list(config.mappings) == ["one", "five"]
    assert list(config.invalid) == ["two", "three", "four"]
    assert [(finding.line, finding.mapping, finding.code) for finding in errors_of(findings)] == [
        (3, "two", "tool"),
        (4, "three", "positional"),
        (4, "three", "form"),
        (5, "four", "transform"),
    ]


def test_done_needs_no_tool() -> None:
    config, findings = read("action_mappings: {done: {_parser: {positional: [why]}}}")
    assert not findings
    assert config.mappings["done"].positional == ("why",)


def test_load_config(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(FULL)
    assert load_config(path).path == str(path)
    path.write_text("action_mappings:\n  a: {}\n  b: {_tool: t, x: {}}\n  c: {_tool: t}\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert len(caught.value.findings) == 2
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert f"{path}:2:3 (action_mappings.a): `_tool` is missing" in text
    assert f"{path}:3:17: error[form] b.x: " in text
    assert "hudtui config check" in text
    path.write_text("a: [")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    with pytest.raises(InputError, match="no such file"):
        load_config(tmp_path / "missing.yaml")


def test_findings_as_json() -> None:
    _, findings = parse_config("action_mappings:\n  a: {_tool: t, _parsr: {}}", name="c.yaml")
    assert findings[0].to_json() == {
        "code": "unknown-key",
        "severity": "warning",
        "message": "the key `_parsr` is not known, and is not sent; did you mean `_parser`?",
        "line": 2,
        "column": 17,
        "end_column": 23,
        "mapping": "a",
        "parameter": None,
        "fix": {
            "title": "rename to `_parser`",
            "edits": (
                {"line": 2, "column": 17, "end_line": 2, "end_column": 23, "text": "_parser"},
            ),
        },
        "guess": None,
    }


@settings(deadline=None)
@given(st.text() | st.text(alphabet="{}[]:,-#&*!|>'\"%@ \n\tab_0"))
def test_no_text_raises(text: str) -> None:
    config, findings = parse_config(text, name="c.yaml")
    assert config is not None or errors_of(findings)


SECTIONS = (
    "job system_prompt parser action_mappings rubric weights defaults max_turns use_thinking "
    "xml_weight click done x"
)
FORMS = "_tool _parser positional from_arg from_args static default transform use_context"
KEYS = st.sampled_from([*SECTIONS.split(), *FORMS.split()])
TREES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats()
    | st.sampled_from(["x", "lambda x: x", "lambda", "yes", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)


@settings(deadline=None)
@given(TREES, st.sampled_from(["x()", "click(1)", "done()"]))
def test_no_document_raises(tree: Any, text: str) -> None:
    import yaml

    for data in (
        tree,
        {"action_mappings": tree},
        {"action_mappings": {"click": tree}},
        {"action_mappings": {"x": {"_tool": "t", "p": tree}}},
    ):
        config, findings = parse_config(yaml.safe_dump(data), name="c.yaml")
        assert config is not None or errors_of(findings)
        for finding in findings:
            assert finding.message
            assert finding.line >= 1
            assert finding.column >= 1
        if config is not None:
            assert not (config.invalid.keys() & config.mappings.keys())
            Interpreter(config).interpret(f"<tool>{text}</tool>").to_json()


@pytest.mark.parametrize(
    ("written", "place", "words"),
    [
        (
            "actions: [lefft]",
            (1, 11),
            "`action_mappings` has no action `lefft`; did you mean `left`",
        ),
        ("actions: [left, left]", (1, 17), "`left` appears twice in `actions`"),
        ("actions:\n  - left\n  - 3", (3, 5), "a list of names; 3 is a number"),
        ("actions: left", (1, 1), "`actions` is a list of names, not a text"),
        ("actions: []", (1, 10), "`actions` is empty: the agent could do nothing"),
        ("observations: txt", (1, 15), 'one of text, structured, both, not "txt"; did you mean'),
        ("observations: 3", (1, 15), "one of text, structured, both, not 3"),
    ],
)
def test_what_is_wrong_with_actions_and_observations(
    written: str, place: tuple[int, int], words: str
) -> None:
    _, findings = read(f"{written}\naction_mappings: {{left: {{_tool: move}}}}\n")
    (finding,) = errors_of(findings)
    assert (finding.line, finding.column) == place and words in finding.message
