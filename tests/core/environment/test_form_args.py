from __future__ import annotations

from typing import Any

import pytest

from hudtui.core.environment.form_args import (
    ALL_ARGUMENTS,
    FormField,
    form_fields,
    hub_call,
    read_form,
)
from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError

CLICK = Tool(
    "click",
    input_schema={
        "type": "object",
        "properties": {
            "button": {"enum": ["left", "right"], "default": "left"},
            "x": {"type": "integer"},
            "label": {"type": "string"},
            "keys": {"type": "array"},
            "point": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "odd": True,
        },
        "required": ["x", "label"],
    },
)


def test_required_fields_come_first() -> None:
    assert [field.name for field in form_fields(CLICK)] == [
        "x",
        "label",
        "button",
        "keys",
        "point",
        "odd",
    ]
    assert form_fields(CLICK)[2] == FormField("button", "string", False, ("left", "right"), "left")


def test_what_was_typed_becomes_arguments() -> None:
    typed = {
        "x": " 3 ",
        "label": " OK ",
        "button": "right",
        "keys": '["a"]',
        "point": "here",
        "odd": "7",
    }
    assert read_form(CLICK, typed) == {
        "x": 3,
        "label": " OK ",
        "button": "right",
        "keys": ["a"],
        "point": "here",
        "odd": 7,
    }


def test_empty_fields_are_left_out() -> None:
    assert read_form(CLICK, {"x": "1", "label": "a", "button": "", "keys": " "}) == {
        "x": 1,
        "label": "a",
    }


def test_a_required_text_is_not_sent_empty_unless_that_is_said() -> None:
    with pytest.raises(InputError, match="required") as caught:
        read_form(CLICK, {"x": "1"})
    assert str(caught.value.where) == "click (label)"
    assert caught.value.fix == 'Type "" to send an empty text.'
    chosen = Tool(
        "move",
        input_schema={
            "properties": {"to": {"type": "string", "enum": ["left"]}},
            "required": ["to"],
        },
    )
    with pytest.raises(InputError, match="required") as caught:
        read_form(chosen, {})
    assert caught.value.fix is None, "an empty text is none of the choices"
    assert read_form(CLICK, {"x": "1", "label": '""'}) == {"x": 1, "label": ""}


WAY = {"type": "string", "enum": ["left", "Right", "up", "upwards"]}


@pytest.mark.parametrize(
    ("schema", "typed", "meant"),
    [
        (WAY, "left", "left"),
        (WAY, "l", "left"),
        (WAY, " LEF ", "left"),
        (WAY, "right", "Right"),
        (WAY, "up", "up"),
        (WAY, "upw", "upwards"),
        ({"enum": [1, 10, 2.5]}, "10", 10),
        ({"enum": [1, True, None, "text"]}, "nu", None),
        ({"enum": [1, True, None, "text"]}, "te", "text"),
        ({"type": "boolean", "enum": [True]}, "true", True),
        ({"type": "array", "items": WAY}, "l, Right", ["left", "Right"]),
        ({"type": "array", "items": WAY}, '["left"]', ["left"]),
        ({"oneOf": [{"const": "one"}, {"const": "two"}]}, "tw", "two"),
    ],
)
def test_of_a_choice_its_beginning_is_enough(
    schema: dict[str, Any], typed: str, meant: Any
) -> None:
    assert read_form(Tool("move", input_schema={"properties": {"to": schema}}), {"to": typed}) == {
        "to": meant
    }


@pytest.mark.parametrize(
    ("schema", "typed", "words"),
    [
        (WAY, "down", "to is one of left, Right, up, upwards, not 'down'"),
        (WAY, "u", "'u' may be up or upwards."),
        (WAY, "ft", "to is one of"),
        ({"enum": [1, 10, 20]}, "2", "to is one of 1, 10, 20, not '2'"),
        ({"type": "array", "items": WAY}, "left, x", "not 'x'"),
    ],
)
def test_what_is_no_choice_is_said_with_the_choices(
    schema: dict[str, Any], typed: str, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        read_form(Tool("move", input_schema={"properties": {"to": schema}}), {"to": typed})
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"x": ""}, "click (x)"),
        ({"x": "one"}, "x"),
        ({"x": "1", "label": "a", "keys": "a, b"}, "keys"),
    ],
)
def test_bad_fields_are_named(typed: dict[str, str], field: str) -> None:
    with pytest.raises(InputError) as caught:
        read_form(CLICK, typed)
    assert str(caught.value.where) == field


def test_without_a_schema_all_arguments_are_one_field() -> None:
    tool = Tool("free")
    assert [field.name for field in form_fields(tool)] == [ALL_ARGUMENTS]
    assert read_form(tool, {ALL_ARGUMENTS: '{"a": [1]}'}) == {"a": [1]}
    assert read_form(tool, {ALL_ARGUMENTS: "  "}) == {}
    with pytest.raises(InputError, match="object"):
        read_form(tool, {ALL_ARGUMENTS: "[1]"})


def test_no_parameters_no_fields() -> None:
    assert form_fields(Tool("look", input_schema={"type": "object"})) == ()


def test_a_hubs_function_is_called_through_its_hub() -> None:
    assert hub_call(Tool("board", kind="hidden", hub="setup"), {"size": 4}) == (
        "setup",
        {"name": "board", "arguments": {"size": 4}},
    )
    assert hub_call(CLICK, {"x": 1}) == ("click", {"x": 1})
