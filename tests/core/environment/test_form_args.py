from __future__ import annotations

import pytest

from hudtui.core.environment.form_args import ALL_ARGUMENTS, FormField, form_fields, hub_call, read_form
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
    assert [field.name for field in form_fields(CLICK)] == ["x", "label", "button", "keys", "point", "odd"]
    assert form_fields(CLICK)[2] == FormField("button", "string", False, ("left", "right"), "left")


def test_what_was_typed_becomes_arguments() -> None:
    typed = {"x": " 3 ", "label": " OK ", "button": "right", "keys": '["a"]', "point": "here", "odd": "7"}
    assert read_form(CLICK, typed) == {"x": 3, "label": " OK ", "button": "right", "keys": ["a"], "point": "here", "odd": 7}


def test_empty_fields_are_left_out() -> None:
    assert read_form(CLICK, {"x": "1", "label": "a", "button": "", "keys": " "}) == {"x": 1, "label": "a"}


def test_a_required_text_is_not_sent_empty_unless_that_is_said() -> None:
    with pytest.raises(InputError, match="required") as caught:
        read_form(CLICK, {"x": "1"})
    assert str(caught.value.where) == "click (label)"
    assert caught.value.fix == 'Type "" to send an empty text.'
    chosen = Tool("move", input_schema={"properties": {"to": {"type": "string", "enum": ["left"]}}, "required": ["to"]})
    with pytest.raises(InputError, match="required") as caught:
        read_form(chosen, {})
    assert caught.value.fix is None, "an empty text is none of the choices"
    assert read_form(CLICK, {"x": "1", "label": '""', "button": '""'}) == {"x": 1, "label": "", "button": '""'}


@pytest.mark.parametrize(
    ("typed", "field"), [({"x": ""}, "click (x)"), ({"x": "one"}, "x"), ({"x": "1", "label": "a", "keys": "a, b"}, "keys")]
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
