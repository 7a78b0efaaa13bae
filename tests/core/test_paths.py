"""Paths as users write them: what names nothing is said in words, whatever it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.person import ScriptedPerson

from hudtui.core.environment.source import parse_source
from hudtui.core.errors import InputError
from hudtui.core.flows.person import may_replace
from hudtui.core.paths import typed_path
from hudtui.core.results.find import results_named
from hudtui.core.tasks.read import find_source
from hudtui.core.training.model import assess_model

NOTHING = [
    "~nosuchuser/x.json",
    "~nosuchuser",
    "x" * 300 + ".json",
    "a/" * 3000 + "x.json",
    "a\0b.json",
    "\ud800.json",
]


@pytest.mark.parametrize("text", NOTHING)
def test_a_path_that_cannot_be_is_an_error_in_words(text: str, tmp_path: Path) -> None:
    for names in (
        lambda: parse_source(text, folder=tmp_path),
        lambda: results_named(text, tmp_path),
    ):
        with pytest.raises(InputError):
            names()
    with pytest.raises(InputError, match="there is no such file or folder"):
        find_source(text, folder=tmp_path)
    assert assess_model(text, tmp_path, here=True).state == "refused"


@pytest.mark.parametrize("text", NOTHING)
async def test_nothing_is_replaced_where_nothing_can_be(text: str, tmp_path: Path) -> None:
    assert await may_replace(ScriptedPerson(), tmp_path / typed_path(text), text)


def test_homes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert typed_path("~/a") == tmp_path / "a" and typed_path(Path("~")) == tmp_path
    assert typed_path("~nosuchuser/a") == Path("~nosuchuser/a") and typed_path("a~") == Path("a~")
