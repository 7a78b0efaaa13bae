"""Patterns that Python before 3.11.5, such as Debian 12's own, matches wrongly.

There a possessive group that gives up within a repetition keeps what it has read of it. A body that
looks around, or a group that may be missing, gives up so.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import hudtui

FILES = sorted(Path(hudtui.__file__).parent.rglob("*.py"))
POSSESSIVE = re.compile(r"\)([*+?])\+")


def possessive_groups(pattern: str) -> Iterator[str]:
    for end in POSSESSIVE.finditer(pattern):
        depth, start = 1, end.start()
        while depth and start:
            start -= 1
            if pattern[start - 1 : start] != "\\":
                depth += {")": 1, "(": -1}.get(pattern[start], 0)
        yield pattern[start : end.end()]


def misread(group: str) -> bool:
    return group.endswith("?+") or any(sign in group for sign in ("(?!", "(?=", "(?<"))


@pytest.mark.parametrize(
    ("pattern", "wrong"),
    [(r"a(?:b(?!c))*+", True), (r"(?:b\))?+", True), (r"(?=a)(?:bc)++", False), (r"(a)+", False)],
)
def test_such_patterns_are_seen(pattern: str, wrong: bool) -> None:
    assert any(map(misread, possessive_groups(pattern))) is wrong


def test_no_pattern_is_such_a_one() -> None:
    found = [
        (path.name, node.lineno, group)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
        for group in possessive_groups(
            node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        )
        if misread(group)
    ]
    assert not found
