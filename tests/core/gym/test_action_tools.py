"""Actions as tools, and calls that a model makes by its own tool calling."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hudtui.core.environment.values import Tool
from hudtui.core.gym.action_tools import action_tools
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.gym.interpreter import Interpreter
from hudtui.core.gym.reply import Call, parse_call, spell_call
from hudtui.core.gym.values import GymConfig

TOOLS = {
    "move": Tool(
        "move",
        "Push the tiles.",
        {
            "type": "object",
            "properties": {
                "direction": {"type": "string", "enum": ["left", "up"]},
                "times": {"$ref": "#/$defs/n"},
            },
            "required": ["direction"],
            "$defs": {"n": {"type": "integer"}},
        },
    ),
    "click": Tool(
        "click",
        "Click.",
        {
            "type": "object",
            "properties": {
                "at": {"type": "array", "items": {"type": "integer"}},
                "button": {"type": "string"},
            },
            "required": ["at"],
        },
    ),
    "get-sum": Tool("get-sum", "Add.", {"type": "object", "properties": {"a": {"type": "number"}}}),
    "setup": Tool("setup", "", None, "setup"),
}
CONFIG, _ = parse_config(
    """
action_mappings:
  left: {_tool: move, direction: {static: left}}
  go:
    _parser: {positional: [way, times]}
    _tool: move
    direction: {from_arg: way}
    times: {from_arg: times, default: 1}
  click:
    _parser: {positional: [x, y]}
    _tool: click
    at: {from_args: [x, y]}
    button: {from_arg: b, default: main, transform: "lambda b: b"}
  ghost: {_tool: teleport}
""",
    name="c.yaml",
)


def test_the_schema_of_an_action_has_its_arguments():
    left, go, click, done = action_tools(CONFIG, TOOLS)  # `ghost` has no tool and is left out
    assert left == Tool(
        "left",
        'Push the tiles. Calls move(direction="left").',
        {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
            "$defs": {"n": {"type": "integer"}},
        },
    )
    assert go.input_schema["properties"] == {
        "way": {"type": "string", "enum": ["left", "up"]},
        "times": {"$ref": "#/$defs/n", "default": 1},
    }
    assert go.input_schema["required"] == ["way"]
    assert click.input_schema["properties"] == {
        "x": {"type": "integer"},
        "y": {"type": "integer"},
        "b": {"default": "main"},
    }
    assert click.input_schema["required"] == ["x", "y"]
    assert done.name == "done"


def test_unmapped_tools_are_actions_where_they_are_allowed_and_for_the_agent():
    assert [tool.name for tool in action_tools(GymConfig(allow_unmapped=True), TOOLS)] == [
        "move",
        "click",
        "get-sum",
        "done",
    ]
    assert [tool.name for tool in action_tools(GymConfig(), TOOLS)] == ["done"]


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), values, max_size=3))
def test_a_call_is_read_as_it_was_spelled(arguments):
    text = spell_call("act", arguments)
    assert "<" not in text
    parsed = parse_call(text)
    assert isinstance(parsed, Call) and parsed.args == () and dict(parsed.kwargs) == arguments


@given(
    st.sampled_from(["left", "go", "click", "ghost", "done", "jump", "move"]),
    st.dictionaries(st.sampled_from(["way", "times", "x", "y", "b", "odd"]), values, max_size=3),
)
def test_a_call_means_what_the_reply_with_it_means(name, arguments):
    interpreter = Interpreter(CONFIG, TOOLS)
    called = interpreter.interpret_call(name, arguments)
    told = interpreter.interpret(f"<think></think><tool>{spell_call(name, arguments)}</tool>")
    assert (called.call, called.done, called.format, called.action) == (
        told.call,
        told.done,
        told.format,
        told.action,
    )
    assert (called.error and called.error.message) == (told.error and told.error.message)


def test_a_tool_whose_name_is_no_word_can_be_called():
    meaning = Interpreter(GymConfig(allow_unmapped=True), TOOLS).interpret_call("get-sum", {"a": 1})
    assert meaning.call == ("get-sum", {"a": 1}) and meaning.format == (1, 1)


SUBSET = """
{head}
system_prompt: "Play. done()"
parser: {{dialect: {dialect}}}
action_mappings:
  left: {{_tool: move, direction: left}}
  up: {{_tool: move, direction: up}}
  press: {{_tool: click, _parser: {{positional: [x]}}, at: {{from_args: [x]}}}}
"""


def subset(head: str, dialect: str = "text") -> GymConfig:
    config, findings = parse_config(SUBSET.format(head=head, dialect=dialect), name="c.yaml")
    assert config is not None and not findings, findings
    return config


def test_actions_pick_a_subset_on_every_road() -> None:
    for dialect, declared in DIALECTS.items():
        config = subset("actions: [up]", dialect)
        assert list(config.mappings) == ["up"] and "left" in config.raw["action_mappings"]
        tools = action_tools(config, TOOLS)
        assert [tool.name for tool in tools] == ["up", "done"]
        taught = declared.teach(tools, False)
        assert "left" not in taught and (("up" in taught) is (declared.schemas == "prompt"))
        interpreter = Interpreter(config, TOOLS)
        played = interpreter.interpret(declared.write("up", {}))
        assert played.call is not None and played.call.arguments == {"direction": "up"}
        refused = interpreter.interpret(declared.write("left", {}))
        assert refused.call is None and refused.error is not None
        assert "unknown action left" in refused.error.message
        assert interpreter.interpret(declared.write("done", {})).done
        assert interpreter.interpret_call("left", {}).error is not None


def test_actions_pick_among_unmapped_tools_too() -> None:
    config = subset("actions: [up, click]\nallow_unmapped: true")
    assert [tool.name for tool in action_tools(config, TOOLS)] == ["up", "click", "done"]
    interpreter = Interpreter(config, TOOLS)
    assert interpreter.interpret("<tool>click(at=[1])</tool>").call is not None
    for left_out in ("<tool>move(direction='up')</tool>", "<tool>left()</tool>"):
        assert interpreter.interpret(left_out).call is None


def test_actions_with_done_alone_or_left_out() -> None:
    assert [tool.name for tool in action_tools(subset("actions: [done]"), TOOLS)] == ["done"]
    every = subset("actions: null")
    assert every.actions is None and len(every.mappings) == 3
