"""Text search in results."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.recorded import (
    art_trajectory,
    own_episode,
    verifiers_episode,
    version_1,
    write_art_parquet,
    write_lines,
    write_own,
)

from hudtui.core.errors import InputError
from hudtui.core.results.find import results_at
from hudtui.core.results.index import BLOCK, ResultIndex
from hudtui.core.results.search import SearchHit, search


async def hits(place: Path | ResultIndex, text: str, **options: Any) -> list[SearchHit]:
    index = place if isinstance(place, ResultIndex) else ResultIndex(results_at(place))
    found: list[SearchHit] = []
    async with asyncio.timeout(60), aclosing(search(index, text, **options)) as pieces:
        async for piece in pieces:
            found += piece.hits
            assert piece.found == len(found)
    assert piece.complete
    return found


async def where(place: Path | ResultIndex, text: str, **options: Any) -> list[tuple[int, int, str]]:
    return [(hit.number, hit.turn, hit.field) for hit in await hits(place, text, **options)]


async def test_where_a_text_is(tmp_path: Path) -> None:
    path = write_own(
        tmp_path / "traces.jsonl",
        own_episode("first", replies=("left()", 'say("Ünïted\\nlines")', "left()")),
        own_episode("second", replies=("up()",), error="Port closed"),
    )
    assert await where(path, "LEFT(") == []  # a large letter is meant
    assert await where(path, "left(") == [(0, 1, "reply"), (0, 3, "reply")]
    assert await where(path, '"direction": "up"') == []  # bytes differ: "direction":"up"
    assert await where(path, "Moved 2") == [(0, 2, "observation")]
    assert await where(path, "moved 1") == [(0, 1, "observation"), (1, 1, "observation")]
    assert await where(path, "Go ✓") == [(0, 0, "opening"), (1, 0, "opening")]
    assert await where(path, "ünïted") == [(0, 2, "reply")]
    assert await where(path, "port CLOSED") == [] and await where(path, "port closed") == [
        (1, 0, "error")
    ]
    assert await where(path, 'say("') == [(0, 2, "reply")]
    assert await where(path, "second") == [(1, 0, "task")]
    assert (
        await where(path, "observation") == []
    )  # a name of the record is no text of the conversation
    assert await where(path, "is_error") == [] and await where(path, '"score":') == []
    names = write_own(
        tmp_path / "names.jsonl", own_episode("x", replies=('say({"reward": 1})', "the reward"))
    )
    assert await where(names, "reward") == [
        (0, 1, "reply"),
        (0, 2, "reply"),
    ]  # as text it is found all the same
    (hit,) = await hits(path, "Moved 2")
    assert hit.excerpt[hit.start : hit.end] == "Moved 2"
    for nothing in ("", "  ", "x" * 10_000):
        with pytest.raises(InputError):
            await hits(path, nothing)


async def test_every_format(tmp_path: Path) -> None:
    write_lines(
        tmp_path / "v" / "traces.jsonl", verifiers_episode("x"), verifiers_episode("y", agents=2)
    )
    assert await where(tmp_path / "v", "i move") == [
        (0, 1, "reply"),
        (1, 1, "reply"),
        (2, 1, "reply"),
    ]
    assert await where(tmp_path / "v", "given up") == []  # in a branch that is not shown
    write_lines(
        tmp_path / "o" / "traces.jsonl",
        verifiers_episode("x"),
        verifiers_episode("y", error="Quota used up"),
    )
    assert await where(tmp_path / "o", "quota") == [(1, 0, "error")]
    trajectories = [art_trajectory(task_id=name) for name in ("a", "bee")]
    write_art_parquet(tmp_path / "p" / "trajectories" / "train" / "0001.parquet", trajectories)
    assert await where(tmp_path / "p", "moved left") == [
        (0, 1, "observation"),
        (1, 1, "observation"),
    ]
    assert await where(tmp_path / "p", "bee") == [(1, 0, "task")]
    escaped = {**version_1(own_episode()), "error": "é"}
    write_lines(tmp_path / "e.jsonl", escaped)
    assert "\\u00e9" in (tmp_path / "e.jsonl").read_text() and await where(
        tmp_path / "e.jsonl", "é"
    ) == [(0, 0, "error")]


async def test_a_text_is_found_wherever_it_stands_among_the_blocks(tmp_path: Path) -> None:
    """The file is read in blocks; a line and a match may lie across two of them."""
    path = tmp_path / "traces.jsonl"
    record = version_1(own_episode("a"))
    marks = []
    with path.open("wb") as file:
        for number in range(60):
            padding = "x" * (BLOCK // 10 + 977 * number)
            said = f"needle-{number}-end"
            file.write(
                json.dumps({**record, "error": f"{padding}{said}{padding[:5000]}"}).encode() + b"\n"
            )
            marks.append(said)
    index = ResultIndex(results_at(path))
    assert [hit.number for hit in await hits(index, "needle-")] == list(range(60))
    for number in (0, 7, 8, 31, 59):
        assert [hit.number for hit in await hits(index, marks[number])] == [number]
    assert [hit.number for hit in await hits(index, "needle-", within=(3, 4, 50))] == [3, 4, 50]


async def test_a_search_ends_at_its_limit_and_when_it_is_closed(tmp_path: Path) -> None:
    path = write_own(
        tmp_path / "traces.jsonl", *(own_episode(f"t{number}") for number in range(30))
    )
    assert len(await hits(path, "moved", limit=7)) == 7
    async with aclosing(search(ResultIndex(results_at(path)), "moved")) as pieces:
        async for piece in pieces:
            assert piece.hits
            break


async def test_an_episode_that_was_written_meanwhile_is_searched_too(tmp_path: Path) -> None:
    path = write_own(tmp_path / "traces.jsonl", own_episode("a"))
    index = ResultIndex(results_at(path))
    assert await where(index, "moved") == [(0, 1, "observation")]
    write_own(path, own_episode("b"))
    assert await where(index, "moved") == [(0, 1, "observation"), (1, 1, "observation")]
