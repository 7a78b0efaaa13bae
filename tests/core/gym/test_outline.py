"""The outline of a configuration's text, by its lines alone."""

from __future__ import annotations

import pytest

from hudtui.core.gym.editing.outline import OutlineEntry, outline, split_parts


def test_the_outline_needs_no_valid_text() -> None:
    lines = ['job: "x', "action_mappings:", "  left: {", "  'odd name':", "    _tool: t", "rubric:"]
    assert [(entry.name, entry.line, entry.action) for entry in outline(lines)] == [
        ("job", 0, False),
        ("action_mappings", 1, False),
        ("left", 2, True),
        ("odd name", 3, True),
        ("rubric", 5, False),
    ]
    assert split_parts([""]) == []


def test_an_outline_of_sections_that_go_to_and_fro_takes_linear_time() -> None:
    lines = ["action_mappings:", " a:", "b:"] * 40_000
    found = outline(lines)
    assert len(found) == 3 * 40_000
    assert found[3] == OutlineEntry("action_mappings", 3, False)
    assert outline([" " * 200_000, "a" + " " * 200_000, "'" + "''" * 100_000]) == ()


@pytest.mark.parametrize(
    ("line", "name"),
    [("a b : 1", "a b"), ("'a: b' : 1", "a: b"), ('"x" y: 1', '"x" y'), ("a:b: 1", None)],
)
def test_names_of_sections(line: str, name: str | None) -> None:
    assert [entry.name for entry in outline([line])] == ([] if name is None else [name])
