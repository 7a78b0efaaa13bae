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
    index.finish()
    page = turn_page(index.read(index.entries[0]))
    muted = "".join(
        line.plain[span.start : span.end]
        for line in page.lines
        for span in line.spans
        if span.style == "$foreground-muted"
    )
    assert "first up" in muted
    assert '"up"' not in muted and "move(" not in muted


def lines_of(tmp_path: Path, dialect: str, reply: str, *, folded: bool, **turn: object) -> str:
    episode = own_episode(dialect=dialect)
    changed = replace(episode.turns[0], reply=reply, **turn)
    trace = write_own(tmp_path / "traces.jsonl", replace(episode, turns=(changed,)))
    index = ResultIndex(results_at(trace))
    index.finish()
    page = turn_page(index.read(index.entries[-1]), folded=folded)
    return "\n".join(line.plain for line in page.lines[page.turns[0] + 1 :])


@pytest.mark.parametrize("name", [name for name in DIALECTS if name not in ("text", "auto")])
def test_a_folded_reply_is_readable_and_unfolds(tmp_path: Path, name: str) -> None:
    dialect = DIALECTS[name]
    call = dialect.write("move", {"direction": "up"})
    thought = dialect.think("first up,\nthen left")
    reply = f"{thought}\n{call}"
    answer = "\n".join(f"line {number}" for number in range(40))
    played = {"tool": "move", "arguments": {"direction": "up"}}
    more = {"observation": answer, "call": played}
    shown = lines_of(tmp_path, name, reply, folded=True, **more).split("\n")
    assert shown[0] == "… thought: first up, then left (2 lines)"
    assert shown[1] == '→ move(direction="up")' and shown[2] == "  line 0"
    assert shown[14] == "  … 28 more lines" and '"arguments"' not in "\n".join(shown)
    whole = lines_of(tmp_path, name, reply, folded=False, **more)
    assert call.split("\n")[0] in whole and "line 39" in whole


def test_a_folded_reply_hides_nothing_that_was_not_played(tmp_path: Path) -> None:
    for reply, seen in (
        ('<tool_call>{"name": "move", </tool_call>', '… call: {"name": "move",'),
        ("<think>on and on", "… thought: <think>on and on"),
        ("I say so.", "I say so."),
        ("</tool_call>", "</tool_call>"),
    ):
        shown = lines_of(
            tmp_path, "hermes", reply, folded=True, call=None, interpretation={}, is_error=True
        )
        assert seen in shown, shown
    text = "<think>a\nb</think>\n<tool>move('up')</tool>"
    assert text in lines_of(tmp_path, "text", text, folded=True)
