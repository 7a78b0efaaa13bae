"""A reply's whole way: every stage, the JSON of `hudtui config try`, and any text at all."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hudtui.core.environment.values import Tool
from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import Interpretation, Interpreter
from hudtui.core.gym.values import GymConfig

COMPUTER = """
system_prompt: Use the computer.
action_mappings:
  screenshot:
    _parser: {positional: []}
    _tool: computer
    action: screenshot
  click:
    _parser: {positional: [x, y]}
    _tool: computer
    action: click
    x: {from_arg: x}
    y: {from_arg: y}
  type:
    _parser: {positional: [text]}
    _tool: computer
    action: type
    text: {from_arg: text, default: ""}
  key:
    _parser: {positional: [key]}
    _tool: computer
    action: press
    keys: {from_arg: key, transform: "lambda x: x.split('+')"}
  scroll:
    _parser: {positional: [direction, amount]}
    _tool: computer
    action: scroll
    scroll_y:
      from_arg: direction
      transform: "lambda d, ctx: ctx.get('amount', 3) if d == 'down'
        else -ctx.get('amount', 3) if d == 'up' else 0"
      use_context: true
  wait:
    _parser: {positional: [seconds]}
    _tool: computer
    action: wait
    time: {from_arg: seconds, transform: "lambda x: int(x * 1000)", default: 1000}
  drag:
    _parser: {positional: [x0, y0, x1, y1]}
    _tool: computer
    action: drag
    start: {from_args: [x0, y0], defaults: [0, 0]}
    end: {from_args: [x1, y1]}
    options: {static: {speed: [1, 2]}}
  todo:
    _parser: {positional: [item]}
    _tool: other
    item: {from_arg: item}
    priority: {from_arg: priority, default: low}
    note: {from_arg: note, transform: "lambda x, ctx: [ctx['item'], x.upper()]"}
    pair: {from_args: [item, tag], defaults: [none, none]}
  many:
    _parser: {positional: [a, b, c, d, e]}
    _tool: other
    all: {from_args: [a, b, c, d, e], defaults: [1, 2, 3, 4, 5]}
    odd: {from_arg: a, transform: "lambda x: {x}"}
"""
SCHEMA = {
    "type": "object",
    "properties": {
        "action": {"enum": ["screenshot", "click", "type", "press", "scroll", "wait", "drag"]},
        "x": {"type": "integer", "minimum": 0, "maximum": 1280},
        "y": {"type": "integer"},
        "text": {"type": "string"},
        "keys": {"type": "array", "items": {"type": "string", "minLength": 1}},
        "scroll_y": {"type": "integer"},
        "time": {"type": "integer", "minimum": 0},
        "start": {"type": "array", "items": {"type": "number"}},
        "end": {"type": "array"},
        "options": {"type": "object"},
    },
    "required": ["action"],
    "additionalProperties": False,
}


def config(text: str) -> GymConfig:
    found, findings = parse_config(text, name="c.yaml")
    assert found is not None, findings
    return found


def tools(*pairs: tuple[str, Any]) -> dict[str, Tool]:
    return {name: Tool(name, input_schema=schema) for name, schema in pairs}


PLAIN = Interpreter(config(COMPUTER))
STRICT = Interpreter(config(COMPUTER), tools(("computer", SCHEMA), ("other", None)))


def meaning(text: str, interpreter: Interpreter = PLAIN) -> Interpretation:
    return interpreter.interpret(f"<think>t</think><tool>{text}</tool>")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("screenshot()", {"action": "screenshot"}),
        ("click(100, 200)", {"action": "click", "x": 100, "y": 200}),
        ("click(y=200, x=100)", {"action": "click", "x": 100, "y": 200}),
        ('type("hello")', {"action": "type", "text": "hello"}),
        ("type()", {"action": "type", "text": ""}),
        ('key("ctrl+a")', {"action": "press", "keys": ["ctrl", "a"]}),
        ("key(ctrl+a)", {"action": "press", "keys": ["ctrl", "a"]}),
        ('scroll("down", 3)', {"action": "scroll", "scroll_y": 3}),
        ('scroll("up")', {"action": "scroll", "scroll_y": -3}),
        ("wait(2.5)", {"action": "wait", "time": 2500}),
        ("wait()", {"action": "wait", "time": 1000}),
        (
            "drag(1, 2, 3, 4)",
            {"action": "drag", "start": [1, 2], "end": [3, 4], "options": {"speed": [1, 2]}},
        ),
    ],
)
@pytest.mark.parametrize("interpreter", [PLAIN, STRICT], ids=["plain", "strict"])
def test_calls(text: str, arguments: dict[str, Any], interpreter: Interpreter) -> None:
    found = meaning(text, interpreter)
    assert found.error is None
    assert found.call == ("computer", arguments)
    assert list(found.call.arguments) == list(arguments)
    assert not found.done
    assert found.format == (1, 1)
    assert found.checked == (interpreter is STRICT)


def test_the_json_of_a_call() -> None:
    found = PLAIN.interpret("<think> why </think>\n<tool> click(100, y=2) </tool><tool>x</tool>")
    assert json.loads(json.dumps(found.to_json())) == {
        "think": "why",
        "tool": "click(100, y=2)",
        "extra_calls": 1,
        "action": {"name": "click", "arguments": {"x": 100, "y": 2}},
        "error": None,
        "call": {"tool": "computer", "arguments": {"action": "click", "x": 100, "y": 2}},
        "done": False,
        "format": {"xml": 1, "action": 1},
    }


@pytest.mark.parametrize(
    ("reply", "stage", "message", "column", "form"),
    [
        ("left", "tags", "there is no <tool>...</tool> in the reply", None, (0, 0)),
        ("<think>a</think><tool>left()", "tags", "the <tool> tag is not closed", None, (0, 0)),
        (
            "<think>a</think><tool>click(1</tool>",
            "syntax",
            "the parenthesis that opens in column 6 is not closed",
            6,
            (1, 0),
        ),
        (
            "<tool>click(1</tool>",
            "syntax",
            "the parenthesis that opens in column 6 is not closed",
            6,
            (0, 0),
        ),
        ("<tool>clik(1)</tool>", "mapping", "unknown action clik; did you mean click?", 1, (0, 1)),
        (
            "<tool>  Scroll(1)</tool>",
            "mapping",
            "unknown action Scroll; did you mean scroll?",
            1,
            (0, 1),
        ),
        (
            "<tool>zzzzzzz()</tool>",
            "mapping",
            "unknown action zzzzzzz; known actions are screenshot, click, type, key, scroll, wait, "
            "drag, todo, many, done",
            1,
            (0, 1),
        ),
        (
            "<tool>click(1, 2, 3)</tool>",
            "mapping",
            "click takes 2 arguments (x, y), not 3",
            13,
            (0, 1),
        ),
        (
            "<tool>wait('')</tool>",
            "transform",
            "argument seconds of wait: ValueError: invalid literal for int() with base 10: ''",
            6,
            (0, 1),
        ),
    ],
)
def test_refusals(
    reply: str, stage: str, message: str, column: int | None, form: tuple[int, int]
) -> None:
    found = PLAIN.interpret(reply)
    assert found.call is None
    assert found.error is not None
    assert (found.error.stage, found.error.message, found.error.column) == (stage, message, column)
    assert found.format == form
    assert (found.action is None) == (stage in ("tags", "syntax"))


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("click(1, 'a')", 'y: expected a whole number, got "a"', 10),
        ("click(2000, 1)", "x: expected a number of at most 1280, got 2000", 7),
        ("type(5)", "text: expected text, got 5", 6),
        ("key('')", 'keys[0]: expected text of at least 1 characters, got ""', 5),
        ("drag(x0=1, y0='b', x1=1, y1=2)", 'start[1]: expected a number, got "b"', 6),
    ],
)
def test_the_schema_is_checked(text: str, message: str, column: int) -> None:
    found = meaning(text, STRICT)
    assert found.error is not None
    assert (found.error.stage, found.error.message, found.error.column) == (
        "schema",
        message,
        column,
    )
    assert found.call is None
    assert found.draft is not None
    assert found.draft.tool == "computer"


@pytest.mark.parametrize(
    "text", ["done()", "done('with (words)', 3, [1])", "done(x=1)", "done(all good)", "done();"]
)
@pytest.mark.parametrize(
    "extra",
    [
        "",
        "  done: {_tool: computer, action: {from_arg: arg0, transform: 'lambda x: 1 / 0'}}\n",
        "  done: {}\n",
    ],
)
def test_done_ends_the_episode(text: str, extra: str) -> None:
    interpreter = Interpreter(config(COMPUTER + extra), tools(("done", {"required": ["z"]})))
    found = meaning(text, interpreter)
    assert found.done
    assert found.error is None
    assert found.call is None
    assert found.action is not None
    assert found.action.name == "done"


def test_done_that_does_not_parse_ends_nothing() -> None:
    assert not meaning("done(").done
    assert not meaning("Done()").done


def test_a_missing_argument_depends_on_the_schema() -> None:
    text = (
        "action_mappings:\n  move:\n    _parser: {positional: [d]}\n    _tool: move\n    "
        "direction: {from_arg: d}\n"
    )
    assert meaning("move()", Interpreter(config(text))).call == ("move", {})
    optional = Interpreter(
        config(text), tools(("move", {"properties": {"direction": {"type": "string"}}}))
    )
    assert meaning("move()", optional).call == ("move", {})
    required = Interpreter(config(text), tools(("move", {"required": ["direction"]})))
    found = meaning("move()", required)
    assert found.error is not None
    assert (found.error.stage, found.error.message) == (
        "mapping",
        "the argument d is missing: move requires direction",
    )


def test_a_tool_that_is_not_there() -> None:
    found = meaning("click(1, 2)", Interpreter(config(COMPUTER), tools(("computers", None))))
    assert found.error is not None
    assert found.error.message == "the environment has no tool computer; did you mean computers?"
    hub = {"computer": Tool("computer", hub="setup")}
    assert meaning("click(1, 2)", Interpreter(config(COMPUTER), hub)).error is not None


def test_unmapped_actions() -> None:
    text = COMPUTER + "allow_unmapped: true\n"
    given = {
        **tools(("move", {"properties": {"arg0": {"type": "string"}}}), ("setup_board", None)),
        "evaluate": Tool("evaluate", kind="evaluate"),
        "hub_function": Tool("hub_function", kind="hidden", hub="setup"),
    }
    interpreter = Interpreter(config(text), given, reserved={"setup_board": "sets this task up"})
    assert meaning("move('up')", interpreter).call == ("move", {"arg0": "up"})
    assert meaning("move(direction='up', n=[1])", interpreter).call == (
        "move",
        {"direction": "up", "n": [1]},
    )
    found = meaning("move(1)", interpreter)
    assert found.error is not None
    assert found.error.stage == "schema"
    for name in ("setup_board", "evaluate", "hub_function", "nothing"):
        found = meaning(f"{name}()", interpreter)
        assert found.error is not None
        assert found.error.stage == "mapping"
        assert found.error.message.startswith(f"unknown action {name}")
        assert f"mean {name}" not in found.error.message
    open_one = Interpreter(config(text), None, reserved={"setup": "sets this task up"})
    assert meaning("anything(1)", open_one).call == ("anything", {"arg0": 1})
    assert meaning("setup()", open_one).call is None
    assert meaning("move('up')", Interpreter(config(COMPUTER), given)).call is None


def test_an_action_that_is_mapped_to_the_task_s_own_tool_says_whose_it_is() -> None:
    text = COMPUTER + "  judge:\n    _tool: evaluate\n"
    found = meaning(
        "judge()",
        Interpreter(
            config(text), tools(("computer", None)), reserved={"evaluate": "judges this task"}
        ),
    )
    assert found.error is not None and found.call is None
    assert found.error.message == "evaluate judges this task; the agent cannot call it"


def test_an_action_with_a_broken_mapping_says_so() -> None:
    text = (
        COMPUTER + "  bad:\n    _tool: computer\n    x: {from_arg: x, transform: 'lambda x: y'}\n"
    )
    found = meaning("bad(1)", Interpreter(config(text)))
    assert found.error is not None
    assert found.error.message.startswith(
        "the action bad cannot be used, its mapping has an error: transform, column 11"
    )


def test_think_blocks_are_never_carried_out() -> None:
    text = COMPUTER + "parser: {use_thinking: false}\n"
    interpreter = Interpreter(config(text))
    found = interpreter.interpret("<think><tool>screenshot()</tool></think>")
    assert found.tool is None
    assert found.think == "<tool>screenshot()</tool>"
    assert interpreter.interpret("<tool>screenshot()</tool>").format == (1, 1)
    assert PLAIN.interpret("<tool>screenshot()</tool>").format == (0, 1)


def test_long_names_are_cut_in_messages() -> None:
    found = meaning("x" * 100_000 + "()")
    assert found.error is not None
    assert len(found.error.message) < 300


TODO = PLAIN.config.mappings["todo"]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('todo("milk")', {"item": "milk", "priority": "low", "pair": ["milk", "none"]}),
        (
            'todo("milk", priority="high")',
            {"item": "milk", "priority": "high", "pair": ["milk", "none"]},
        ),
        ("todo(item=milk, tag=1)", {"item": "milk", "priority": "low", "pair": ["milk", 1]}),
        (
            'todo("milk", note="two", priority=None)',
            {"item": "milk", "priority": None, "note": ["milk", "TWO"], "pair": ["milk", "none"]},
        ),
    ],
)
def test_arguments_that_positional_does_not_list_are_given_by_name(
    text: str, arguments: dict[str, Any]
) -> None:
    assert (TODO.positional, TODO.keywords) == (("item",), ("priority", "note", "tag"))
    found = meaning(text)
    assert found.error is None and found.call == ("other", arguments)
    coherent(f"<tool>{text}</tool>")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('todo("milk", "high")', "todo takes 1 argument (item), not 2"),
        ('todo("milk", priorty="high")', "todo has no argument priorty; did you mean priority?"),
        ('todo("milk", colour=1)', "todo has no argument colour; it has item, priority, note, tag"),
    ],
)
def test_arguments_by_name_are_held_to_their_names(text: str, message: str) -> None:
    found = meaning(text)
    assert found.error is not None and found.error.message == message
    coherent(f"<tool>{text}</tool>")


OLD = """
system_prompt: |
  - add_todo(title): Add a todo
    Usage: <tool>add_todo(...)</tool>
parser: {use_thinking: true, xml_weight: 0.6, action_weight: 0.4}
action_mappings:
  add_todo:
    _tool: add_todo
    _parser: {positional: [title]}
    title: {from_arg: title}
    priority: {from_arg: priority, default: null}
    "# TODO": check the parameters
  done: {_parser: {positional: []}, _tool: null}
rubric: {weights: {task_completion: 0.8, tool_execution: 0.1, format_compliance: 0.1}}
"""
"""The shape that earlier programs wrote for optional parameters."""


def test_files_of_that_shape_load_and_mean_what_they_meant() -> None:
    found, findings = parse_config(OLD, name="c.yaml")
    assert found is not None and [(finding.code, finding.severity) for finding in findings] == [
        ("comment", "warning")
    ]
    old = Interpreter(found)
    assert meaning('add_todo("milk", priority="high")', old).call == (
        "add_todo",
        {"title": "milk", "priority": "high"},
    )
    assert meaning('add_todo("milk")', old).call == (
        "add_todo",
        {"title": "milk", "priority": None},
    )
    ended = meaning("done()", old)
    assert ended.done and ended.call is None and ended.error is None


# Any reply


def coherent(reply: str) -> None:
    """Whatever a reply is, its meaning hangs together: a call, a refusal with its reason, or the
    end of the episode."""
    for interpreter in (PLAIN, STRICT):
        found = interpreter.interpret(reply)
        assert (found.call is None) == (found.error is not None or found.done), reply
        assert (found.tool is None) == (found.error is not None and found.error.stage == "tags"), (
            reply
        )
        assert (found.action is None) == (
            found.error is not None and found.error.stage in ("tags", "syntax")
        ), reply
        assert found.format == (
            int(found.tool is not None and found.think is not None),
            int(found.action is not None),
        ), reply
        if found.call is not None:
            assert found.call is found.draft, reply
            assert found.call.arguments == {
                trace.name: trace.after for trace in found.parameters if trace.origin != "left out"
            }
            json.dumps(found.call.arguments).encode()
        json.dumps(found.to_json())


NUMBERS = (
    "1 -1 +4 007 2.5 .5 5. 1e5 1e999 1_000 --1 - 12px 0x1 １ 999999999999999999999999999999 true "
    "True none null nan inf"
)
WORDS = "ctrl+a down up left é priority=9 note=a x=1 text='a' y [1] {} ( ) ' 'a' '(x)' 'é' '\ud800'"
QUOTED = r'"a" "" """a""" "a\n" "down" " "<tool>" "<"'
TOKENS = st.sampled_from(
    [
        *NUMBERS.split(),
        *WORDS.split(),
        *QUOTED.split(),
        "9" * 5000,
        "a b",
        "x = 2",
        '"a, b"',
        "'a' 'b'",
        '"a" ',
        " 3 ",
        "\n4",
        "",
    ]
)
SHAPES = st.sampled_from(
    [
        "<tool>{}</tool>",
        "<think>a</think><tool>{}</tool>",
        "prose <think>a b c</think> more\n<tool>\n{}\n</tool> end",
        "<think>a<tool>{}</tool></think>",
        "<think>a <tool>{}</tool>",
        "<tool>{}</tool><tool>screenshot()</tool>",
        "<tool>screenshot()</tool><tool>{}</tool>",
        "<tool></tool><tool>{}</tool>",
        "<tool>{};</tool>",
        "<tool>{}()</tool>",
        "<think>a</think><think>b</think><tool>{}</tool>",
        "a < b <tool>{}</tool>",
        "<tool>{}",
    ]
)


@settings(deadline=None, max_examples=settings.default.max_examples * 10)
@given(
    st.sampled_from(
        [
            "screenshot",
            "click",
            "type",
            "key",
            "scroll",
            "wait",
            "drag",
            "todo",
            "many",
            "done",
            "clik",
            "2048",
        ]
    ),
    st.lists(TOKENS, max_size=6),
    st.sampled_from([",", ", ", " , "]),
    SHAPES,
)
@example("wait", ["1e999"], ",", "<tool>{}</tool>")
@example("screenshot", ["1e999"], ",", "<tool>{}</tool>")
def test_any_call(name: str, tokens: list[str], comma: str, shape: str) -> None:
    coherent(shape.format(f"{name}({comma.join(tokens)})"))


@settings(deadline=None)
@given(st.text(), st.text(), st.sampled_from(["type", "key", "wait"]))
def test_any_text(before: str, argument: str, name: str) -> None:
    coherent(f"{before}<tool>{name}({argument})</tool>")
    coherent(f"{before}<tool>{name}({argument!r})</tool>{before}")
    coherent(before)


def test_calls_share_nothing() -> None:
    for text in ("screenshot()", "drag(1, 2, 3, 4)"):
        first = meaning(text).call
        assert first is not None
        kept = repr(first)
        first.arguments["new"] = 1
        for value in first.arguments.values():
            if isinstance(value, dict):
                value["speed"].append(3)
        assert repr(meaning(text).call) == kept


def test_threads_share_an_interpreter() -> None:
    wrong: list[str] = []

    def work(number: int) -> None:
        for step in range(200):
            reply = f"<tool>click({number}, {step})</tool>"
            call = STRICT.interpret(reply).call
            if call is None or call.arguments != {"action": "click", "x": number, "y": step}:
                wrong.append(reply)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
