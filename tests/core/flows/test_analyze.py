"""Analyzing an environment: the analysis is kept in the project, and a project that cannot keep it
is no failure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.person import ScriptedPerson

from hudtui.core.environment.cache import latest_analysis
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConnectError
from hudtui.core.events import Progress
from hudtui.core.flows.analyze import analyze_source


async def test_the_analysis_is_kept_in_the_project(own_world: Path) -> None:
    person, seen = ScriptedPerson(), list[Progress]()
    found = await analyze_source(
        parse_source("text-2048", folder=own_world), person, on_event=seen.append
    )
    kept = latest_analysis(own_world)
    assert (
        kept is not None
        and [tool.name for tool in kept.tools] == [tool.name for tool in found.tools] != []
    )
    assert seen and not person.said


async def test_an_analysis_that_cannot_be_kept_is_returned_with_a_warning(own_world: Path) -> None:
    (own_world / ".hudtui").write_text("a file is in the way")
    person = ScriptedPerson()
    found = await analyze_source(parse_source("text-2048", folder=own_world), person)
    assert (
        found.tools
        and person.severities == ["warning"]
        and person.said[0].startswith("The analysis is not kept: ")
    )


async def test_a_lock_file_is_read_unless_the_environment_is_asked_for(own_world: Path) -> None:
    lock = own_world / "hud.lock.yaml"
    lock.write_text(
        json.dumps(
            {
                "version": "1.0",
                "image": "org/env:1",
                "tools": [{"name": "move", "description": "Push."}],
            }
        )
    )
    found = await analyze_source(
        parse_source(str(lock), folder=own_world), ScriptedPerson(), live=False
    )
    assert [tool.name for tool in found.tools] == ["move"] and found.analyzed_at is None
    assert latest_analysis(own_world) is None


async def test_nothing_is_kept_of_an_environment_that_cannot_be_reached(own_world: Path) -> None:
    source = parse_source(None, [sys.executable, "-c", "raise SystemExit(3)"], folder=own_world)
    with pytest.raises(ConnectError):
        await analyze_source(source, ScriptedPerson())
    assert latest_analysis(own_world) is None
