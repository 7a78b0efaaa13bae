"""Action -> arguments of the MCP call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hudtui.core.gym.config import parse_config
from hudtui.core.gym.interpreter import MappedArguments, bind_arguments, map_arguments
from hudtui.core.gym.json_safe import MAX_DEPTH, NotJsonError, dumps, to_json_value
from hudtui.core.gym.lint.findings import errors_of
from hudtui.core.gym.reply import Call, parse_call
from hudtui.core.gym.values import ActionMapping


def mapping(body: str, positional: str = "[a, b]") -> ActionMapping:
    lines = "\n".join("    " + line for line in body.splitlines())
    text = (
        f"action_mappings:\n  act:\n    _parser: {{positional: {positional}}}\n    _tool: tool\n"
        f"{lines}\n"
    )
    config, findings = parse_config(text, name="c.yaml")
    assert not errors_of(findings), findings
    assert config is not None
    return config.mappings["act"]


def run(
    body: str, text: str, positional: str = "[a, b]", required: tuple[str, ...] = ()
) -> MappedArguments:
    made = mapping(body, positional)
    call = parse_call(text)
    assert isinstance(call, Call)
    bound = bind_arguments(call, made.positional)
    assert bound.problem is None, bound.problem
    return map_arguments(made, bound, required)


# Names


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("act()", {}),
        ("act(1)", {"a": 1}),
        ("act(1, 2)", {"a": 1, "b": 2}),
        ("act(b=2, a=1)", {"b": 2, "a": 1}),
        ("act(1, b=2)", {"a": 1, "b": 2}),
    ],
)
def test_positional_arguments_take_their_names(text: str, arguments: dict[str, Any]) -> None:
    call = parse_call(text)
    assert isinstance(call, Call)
    bound = bind_arguments(call, ("a", "b"))
    assert bound.problem is None
    assert bound.arguments == arguments


@pytest.mark.parametrize(
    ("text", "arguments", "message", "column"),
    [
        ("act(1, 2, 3)", {"a": 1, "b": 2, "arg2": 3}, "act takes 2 arguments (a, b), not 3", 11),
        (
            "act(1, 2, 3, 4)",
            {"a": 1, "b": 2, "arg2": 3, "arg3": 4},
            "act takes 2 arguments (a, b), not 4",
            11,
        ),
        ("act(1, B=2)", {"a": 1, "B": 2}, "act has no argument B; did you mean b?", 8),
        ("act(1, zzz=2)", {"a": 1, "zzz": 2}, "act has no argument zzz; it has a, b", 8),
        ("act(1, a=2)", {"a": 1}, "the argument a is given twice", 8),
    ],
)
def test_wrong_arguments(text: str, arguments: dict[str, Any], message: str, column: int) -> None:
    call = parse_call(text)
    assert isinstance(call, Call)
    bound = bind_arguments(call, ("a", "b"))
    assert bound.problem is not None
    assert (bound.problem.stage, bound.problem.message, bound.problem.column) == (
        "mapping",
        message,
        column,
    )
    assert bound.arguments == arguments


def test_counting_in_words() -> None:
    for text, names, message in (
        ("left(1)", (), "left takes no arguments, not 1"),
        ("key(1, 2)", ("key",), "key takes 1 argument (key), not 2"),
    ):
        call = parse_call(text)
        assert isinstance(call, Call)
        problem = bind_arguments(call, names).problem
        assert problem is not None
        assert problem.message == message


def test_without_a_mapping_arguments_are_numbered() -> None:
    call = parse_call("act(1, 'x', k=2)")
    assert isinstance(call, Call)
    bound = bind_arguments(call, None)
    assert bound.problem is None
    assert bound.arguments == {"arg0": 1, "arg1": "x", "k": 2}


# Parameters


@pytest.mark.parametrize(
    ("body", "text", "arguments"),
    [
        (
            "p: 1\nq: text\nr: [1, a]\ns: null\nt: true",
            "act()",
            {"p": 1, "q": "text", "r": [1, "a"], "s": None, "t": True},
        ),
        ("p: {static: {x: 1}}", "act()", {"p": {"x": 1}}),
        ("p: {static: yes}\nno: on", "act()", {"p": "yes", "no": "on"}),
        ("p: {from_arg: a}", "act(5)", {"p": 5}),
        ("p: {from_arg: a}", "act([1, {}])", {"p": [1, {}]}),
        ("p: {from_arg: a, default: 7}", "act()", {"p": 7}),
        ("p: {from_arg: a, default: null}", "act()", {"p": None}),
        ("p: {from_arg: a, default: 7}", "act(null)", {"p": None}),
        (
            "p: {from_arg: a, default: 1000, transform: 'lambda x: int(x * 1000)'}",
            "act()",
            {"p": 1000},
        ),
        (
            "p: {from_arg: a, default: 1000, transform: 'lambda x: int(x * 1000)'}",
            "act(2.5)",
            {"p": 2500},
        ),
        (
            "p: {from_arg: a, transform: \"lambda x: x.split('+')\"}",
            "act('ctrl+a')",
            {"p": ["ctrl", "a"]},
        ),
        ("p: {from_arg: a, transform: 'lambda x: (x, x)'}", "act(1)", {"p": [1, 1]}),
        (
            "p: {from_arg: a, transform: 'lambda x: {1: x, None: 2}'}",
            "act(1)",
            {"p": {"1": 1, "null": 2}},
        ),
        ("p: {from_arg: a, transform: ''}", "act(1)", {"p": 1}),
        ("p: {from_arg: a, transform: int}", "act('12')", {"p": 12}),
        (
            "p: {from_arg: a, transform: 'lambda x, ctx: [x, ctx]', use_context: true}",
            "act(1, 2)",
            {"p": [1, {"a": 1, "b": 2}]},
        ),
        ("p: {from_arg: a, transform: 'lambda x, others: others'}", "act(1)", {"p": {"a": 1}}),
        ("p: {from_arg: a, transform: 'lambda x, n=3: x * n'}", "act(2)", {"p": 6}),
        (
            "p: {from_arg: a, transform: 'lambda x, c=3: c', use_context: true}",
            "act(2)",
            {"p": {"a": 2}},
        ),
        ("p: {from_arg: a, transform: 'lambda x: x', use_context: true}", "act(2)", {"p": 2}),
        ("p: {from_args: [a, b]}", "act(1, 2)", {"p": [1, 2]}),
        ("p: {from_args: [b, a]}", "act(1, 2)", {"p": [2, 1]}),
        ("p: {from_args: [a, b], defaults: [8, 9]}", "act()", {"p": [8, 9]}),
        ("p: {from_args: [a, b], defaults: [8, 9]}", "act(1)", {"p": [1, 9]}),
        ("p: {from_args: [a, b], defaults: [8, 9]}", "act(b=1)", {"p": [8, 1]}),
        ("p: {from_args: [a, b], defaults: [8]}", "act()", {}),
        ("p: {from_args: [a, b]}", "act()", {}),
        ("p: {from_arg: a}\nq: 1", "act()", {"q": 1}),
        ("p: {from_arg: b}\nq: {from_arg: a}", "act(1, 2)", {"p": 2, "q": 1}),
    ],
)
def test_parameters(body: str, text: str, arguments: dict[str, Any]) -> None:
    mapped = run(body, text)
    assert mapped.problem is None, mapped.problem
    assert mapped.arguments == arguments
    assert list(mapped.arguments) == list(arguments)


def test_numbered_arguments_without_names() -> None:
    assert run(
        "p: {from_arg: arg0}\nq: {from_arg: arg1}", "act(1, 2)", positional="[]"
    ).arguments == {"p": 1, "q": 2}
    assert run("p: {from_arg: arg1}", "act(1, 2)", positional="[a]").arguments == {"p": 2}


def test_where_parameters_come_from() -> None:
    mapped = run(
        "p: 1\nq: {from_arg: a}\nr: {from_arg: b, default: 5}\ns: {from_arg: a, transform: 'lambda "
        "x: x * 2'}\n"
        "t: {from_arg: b}\nu: {from_arg: a, transform: 'lambda x: 1 / 0'}",
        "act(3)",
    )
    assert [
        (trace.name, trace.origin, trace.before, trace.after) for trace in mapped.parameters
    ] == [
        ("p", "static", 1, 1),
        ("q", "argument", 3, 3),
        ("r", "default", 5, 5),
        ("s", "transform", 3, 6),
        ("t", "left out", None, None),
        ("u", "failed", 3, None),
    ]
    assert mapped.arguments == {"p": 1, "q": 3, "r": 5, "s": 6}
    assert mapped.problem is not None


@pytest.mark.parametrize(
    ("body", "text", "required", "stage", "message", "column"),
    [
        (
            "p: {from_arg: a}",
            "act()",
            ("p",),
            "mapping",
            "the argument a is missing: tool requires p",
            None,
        ),
        (
            "p: {from_args: [a, b]}",
            "act(1)",
            ("p",),
            "mapping",
            "the argument b is missing: p is made of a, b",
            None,
        ),
        (
            "p: {from_args: [a, b]}",
            "act(1)",
            (),
            "mapping",
            "the argument b is missing: p is made of a, b",
            None,
        ),
        (
            "p: {from_args: [a, b], defaults: [8]}",
            "act(1)",
            (),
            "mapping",
            "the argument b is missing: p is made of a, b",
            None,
        ),
        (
            "p: {from_args: [a, b]}",
            "act()",
            ("p",),
            "mapping",
            "the arguments a and b are missing: tool requires p",
            None,
        ),
        (
            "p: {from_arg: a, transform: 'lambda x: x.upper()'}",
            "act( 5)",
            (),
            "transform",
            "argument a of act: AttributeError: a value of type int has no method upper",
            6,
        ),
        (
            "p: {from_arg: a, transform: \"lambda x: 'a' * x\"}",
            "act(1000001)",
            (),
            "transform",
            "argument a of act: it makes a text of more than 1,000,000 characters",
            5,
        ),
        (
            "p: {from_arg: a, transform: 'lambda x: set(x)'}",
            "act(ab)",
            (),
            "transform",
            "argument a of act: a value of type set cannot be sent; sorted(...) makes a list of it",
            5,
        ),
        (
            "p: {from_arg: a, transform: 'lambda x: 1e308 * 10'}",
            "act(1)",
            (),
            "transform",
            "argument a of act: the number inf is not finite",
            5,
        ),
        (
            "p: {from_arg: a}",
            r'act("\ud800")',
            (),
            "schema",
            "argument a of act: the text holds half a surrogate pair",
            5,
        ),
    ],
)
def test_problems(
    body: str, text: str, required: tuple[str, ...], stage: str, message: str, column: int | None
) -> None:
    mapped = run(body, text, required=required)
    assert mapped.problem is not None
    assert (mapped.problem.stage, mapped.problem.message, mapped.problem.column) == (
        stage,
        message,
        column,
    )


def test_calls_do_not_share_what_the_configuration_holds() -> None:
    made = mapping("p: {static: {x: [1]}}\nq: {from_arg: a, default: [2]}")
    call = parse_call("act()")
    assert isinstance(call, Call)
    first = map_arguments(made, bind_arguments(call, made.positional), ()).arguments
    first["p"]["x"].append(9)
    first["q"].append(9)
    assert map_arguments(made, bind_arguments(call, made.positional), ()).arguments == {
        "p": {"x": [1]},
        "q": [2],
    }


# JSON


def test_plain_makes_json_of_values() -> None:
    value = {"a": (1, [2, (3,)]), 4: {"b": None, True: 1.5, 2.5: "é"}}
    assert to_json_value(value) == {"a": [1, [2, [3]]], "4": {"b": None, "true": 1.5, "2.5": "é"}}
    assert to_json_value("\ud83d\ude00") == "\U0001f600"  # two halves make one character
    nested: Any = 1
    for _ in range(MAX_DEPTH):
        nested = (nested,)
    assert json.dumps(to_json_value(nested)) == "[" * MAX_DEPTH + "1" + "]" * MAX_DEPTH
    for _ in range(100_000):
        nested = (nested,)
    for deep in (nested, {"a": [nested]}):
        with pytest.raises(NotJsonError, match="nested more than 200 deep"):
            to_json_value(deep)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("inf")],
        {1, 2},
        {"a": range(3)},
        {(1,): 2},
        "\ud800",
        ["\udc00"],
        1j,
        {"\ud800": 1},
    ],
)
def test_what_json_cannot_hold(value: Any) -> None:
    with pytest.raises(NotJsonError):
        to_json_value(value)


def test_dumps_writes_what_json_writes() -> None:
    value = {
        "a": [1, "é\n", None, True, 2.5, {}, []],
        'k"': {"b": [[]]},
        "3": {5: 6, None: 7, True: 8},
    }
    assert dumps(value) == json.dumps(value)
    nested: Any = 1
    for _ in range(100_000):
        nested = [nested]
    assert dumps(nested) == '"[nested too deeply]"'
