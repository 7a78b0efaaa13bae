"""The pages of an episode's transcript."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.recorded import own_episode, write_own

from hudtui.core.gym.dialects.known import DIALECTS
from hudtui.core.results.find import results_at
from hudtui.core.results.index import ResultIndex
from hudtui.tui.results.transcript import turn_page


@pytest.mark.parametrize("name", DIALECTS)
def test_thoughts_are_those_of_the_dialect_in_which_the_episode_was_played(
    tmp_path: Path, name: str
) -> None:
    dialect = DIALECTS[name]
    thought, call = dialect.think("first up"), dialect.write("move", {"direction": "up"})
    episode = own_episode(dialect=name)
    turn = replace(episode.turns[0], reply=f"{thought}\n{call}")
    trace = write_own(tmp_path / "traces.jsonl", replace(episode, turns=(turn,)))
    index = ResultIndex(results_at(trace))
    while not index.advance(1.0).complete:
        pass
    page = turn_page(index.read(index.entries[0]))
    muted = "".join(
        line.plain[span.start : span.end]
        for line in page.lines
        for span in line.spans
        if span.style == "$foreground-muted"
    )
    assert "first up" in muted
    assert '"up"' not in muted and "move(" not in muted
