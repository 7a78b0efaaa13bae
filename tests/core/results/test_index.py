"""The index: formats, files that grow, bad lines, and results that are found."""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
from hudtui.core.results.export import atif, markdown, sft_row
from hudtui.core.results.find import find_results, note_results, results_at, results_named
from hudtui.core.results.index import ResultIndex, follow
from hudtui.core.results.queries import diff_transcripts, histogram
from hudtui.core.results.values import GroupKey
from hudtui.core.rollouts.trace import append_line, episode_to_json
from hudtui.trainers.records import forget_traces_after


def read(path: Path) -> ResultIndex:
    index = ResultIndex(results_at(path))
    index.finish()
    return index


@pytest.mark.parametrize(
    "form", [lambda episode: episode, version_1], ids=["version 2", "version 1"]
)
def test_own_episodes(tmp_path: Path, form: Callable[..., Any]) -> None:
    path = tmp_path / "traces.jsonl"
    for rollout in range(3):
        episode = own_episode(
            "a",
            0.25 * rollout,
            replies=("left()", "down()"),
            rollout=rollout,
            step=7,
            split="train",
        )
        if form is version_1:
            append_line(path, version_1(episode))
        else:
            write_own(path, episode)
    write_own(path, own_episode("b", None, replies=(), error="the server died", model="m"))
    index = read(path)
    (first, second) = index.groups()
    assert first.key == GroupKey(tmp_path.name, "train", 7, "a") and first.numbers == (0, 1, 2)
    assert (first.reward, first.reward_std, first.reward_min, first.reward_max) == (
        0.25,
        0.25,
        0.0,
        0.5,
    )
    assert (second.failed, second.reward) == (1, None) and index.members(second)[
        0
    ].error == "the server died"
    entry = index.entries[1]
    assert (entry.reward, entry.turns, entry.rollout, entry.stop, entry.seconds) == (
        0.25,
        2,
        1,
        "done",
        2.5,
    )
    assert (entry.prompt_tokens, entry.completion_tokens, entry.tokens) == (10, 3, 13)
    assert entry.parts == {
        "task_completion": 0.25,
        "tool_execution": 1.0,
        "format_compliance": 0.75,
    }
    assert (
        "task_completion" not in index.entries[3].parts
    )  # the evaluation found none: that is no score of 0
    transcript = index.read(entry)
    assert [message["role"] for message in transcript.opening] == ["system", "user"]
    (one, two) = transcript.turns
    assert (one.number, one.reply, one.observation, one.result) == (
        1,
        "<tool>left()</tool>",
        "Moved 1",
        {"score": 1},
    )
    assert one.calls[0].name == "move" and one.calls[0].arguments == {"direction": "left"}
    assert two.observation == "Moved 2"  # which no message says: no reply answers it
    assert two.seconds == {"complete": 0.5, "call": 0.25} and two.tokens == {
        "prompt": 20,
        "completion": 3,
    }
    assert transcript.evaluation == {"reward": 0.25} and transcript.info["step"] == 7


def test_examples_before_the_task_are_no_turns(tmp_path: Path) -> None:
    episode = own_episode(replies=("left()",))
    shown = [
        {"role": "user", "content": "A board."},
        {"role": "assistant", "content": "<tool>up()</tool>"},
    ]
    object.__setattr__(episode, "messages", (episode.messages[0], *shown, *episode.messages[1:]))
    index = read(write_own(tmp_path / "t.jsonl", episode))
    transcript = index.read(index.entries[0])
    assert len(transcript.turns) == 1 and [message["content"] for message in transcript.opening][
        1:3
    ] == [
        "A board.",
        "<tool>up()</tool>",
    ]


def test_the_words_that_end_the_head_may_stand_in_it(tmp_path: Path) -> None:
    """A reader that looked for them alone would cut the record in the middle of its `info`."""
    index = read(
        write_own(tmp_path / "t.jsonl", own_episode(info_={"a": 1, "messages": ["x"]}, step=4))
    )
    assert (index.entries[0].step, index.entries[0].turns) == (4, 1)


def test_verifiers(tmp_path: Path) -> None:
    none = {
        **verifiers_episode("lost"),
        "traces": [],
        "errors": [{"type": "BootError", "message": "no runtime"}],
        "ok": False,
    }
    path = write_lines(
        tmp_path / "traces.jsonl",
        verifiers_episode("b"),
        verifiers_episode("b", None, error="port 8001 is closed"),
        verifiers_episode("c", step=12),
        verifiers_episode("d", agents=2),
        none,
    )
    index = read(path)
    entries = index.entries
    assert [entry.task for entry in entries] == [
        "b",
        "b",
        "c",
        "d (agent-0)",
        "d (agent-1)",
        "lost",
    ]
    assert [entry.reward for entry in entries[:3]] == [pytest.approx(0.6), None, pytest.approx(0.6)]
    assert entries[0].parts == {"task": 1.0, "form": 1.0, "attempts": 2.0}
    assert (entries[0].turns, entries[0].stop, entries[0].seconds, entries[0].tokens) == (
        3,
        "done_tool",
        3.0,
        37,
    )
    assert entries[1].failed and entries[1].error == "ToolError: port 8001 is closed"
    assert (entries[2].step, entries[2].split, entries[0].step) == (12, "train", None)
    assert (entries[5].reward, entries[5].stop, entries[5].error) == (
        None,
        "error",
        "BootError: no runtime",
    )
    transcript = index.read(entries[1])
    assert [turn.reply for turn in transcript.turns] == [
        "I move.",
        "done",
    ]  # the branch that was given up is another one
    (moved, _) = transcript.turns
    assert (moved.thought, moved.observation, moved.calls[0].arguments) == (
        "Left?",
        "Moved left.",
        {"direction": "left"},
    )
    assert moved.tokens == {"prompt": 10, "completion": 5} and moved.seconds == {"complete": 0.5}
    assert transcript.error == "ToolError: port 8001 is closed\nin line 7"
    assert index.read(entries[5]).turns == ()
    image = index.read(entries[0]).opening[1]["content"][1]
    assert image["type"] == "image_url"


def test_a_file_of_an_unknown_format_is_named_line_by_line(tmp_path: Path) -> None:
    row = {"example_id": 1, "prompt": [], "completion": [], "reward": 1.0}
    index = read(write_lines(tmp_path / "rows.jsonl", row, row))
    assert not index.entries and [line.line for line in index.unread] == [1, 2]
    assert "known format" in index.unread[0].why


def test_trajectories_of_art(tmp_path: Path) -> None:
    folder = tmp_path / "trajectories"
    groups = (
        [art_trajectory(0.25 * n, task_id="a") for n in range(3)],
        [art_trajectory(1.0), art_trajectory(0.0)],
    )
    write_art_parquet(folder / "train" / "0007.parquet", *groups)
    write_lines(folder / "train" / "0008.jsonl", *({"trajectories": group} for group in groups))
    write_lines(
        folder / "train" / "0007.jsonl", {"trajectories": groups[0]}
    )  # what was converted is not read twice
    write_art_parquet(folder / "val" / "0007.parquet", groups[0])
    for place in (tmp_path, folder):
        index = read(place)
        keys = [
            (group.key.step, group.key.split, group.key.task, len(group.numbers))
            for group in index.groups()
        ]
        assert keys == [
            (7, "train", "a", 3),
            (7, "train", "group 1", 2),
            (7, "val", "a", 3),
            (8, "train", "a", 3),
            (8, "train", "group 1", 2),
        ]
    parquet, lines = index.entries[1], index.entries[9]
    assert (
        parquet.reward == lines.reward == 0.25
        and parquet.seconds == 1.5
        and parquet.turns == lines.turns == 2
    )
    for entry in (parquet, lines):
        transcript = index.read(entry)
        assert transcript.turns[0].calls[0].arguments == {"direction": "left"}
        assert (
            transcript.turns[0].observation == "Moved left." and transcript.turns[1].reply == "done"
        )
        assert transcript.info["task_id"] == "a" and transcript.info["logs"] == ["a line"]
    write_art_parquet(
        folder / "train" / "0009.parquet", groups[0]
    )  # the next step of a training that is going on
    index.finish()
    assert index.groups()[-1].key.step == 9


def test_bad_lines_are_named_and_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    write_own(path, own_episode("a"))
    with path.open("ab") as file:
        file.write(b'{"task": 1,\n\n[1, 2]\n"\xff\xfe"\n' + b"[" * 200_000 + b"\n")
        file.write(json.dumps({**version_1(own_episode()), "scores": 3}).encode() + b"\n")
        file.write(
            json.dumps(
                {**version_1(own_episode("odd")), "turns": [], "seconds": {"total": True}}
            ).encode()
            + b"\n"
        )
    write_own(path, own_episode("b"))
    index = read(path)
    assert [entry.task for entry in index.entries] == ["a", "odd", "b"] and [
        entry.number for entry in index.entries
    ] == [0, 1, 2]
    assert [line.line for line in index.unread] == [2, 4, 5, 6, 7] and all(
        line.file == path for line in index.unread
    )
    assert index.entries[1].seconds is None
    assert index.advance().unread == 5


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
RECORDS = [
    version_1(own_episode("a", replies=("left()", "up()"))),
    episode_to_json(own_episode("a", replies=("left()",), error="x", step=1)),
    verifiers_episode("v", error="x", step=1, agents=2),
    {"trajectories": [art_trajectory(task_id="a"), art_trajectory()]},
]


@st.composite
def odd_records(draw: st.DrawFn) -> Any:
    """A record with anything in some of its places."""
    record = json.loads(json.dumps(draw(st.sampled_from(RECORDS))))
    for _ in range(draw(st.integers(1, 3))):
        place: Any = record
        for _ in range(draw(st.integers(1, 7))):
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or not place[key]:
                break
            before, place = place, place[key]
        else:
            place = before
        if place is not record or isinstance(key, str):
            if isinstance(place, list):
                place[draw(st.integers(0, len(place) - 1))] = draw(ANYTHING)
            elif place:
                place[draw(st.sampled_from(sorted(place)))] = draw(ANYTHING)
    return record


@given(odd_records())
@settings(max_examples=300)
def test_a_record_with_anything_in_it_is_read_or_passed_over(record: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        index = read(write_lines(Path(folder) / "traces.jsonl", *RECORDS[:1], record))
        index_alone = read(write_lines(Path(folder) / "x.jsonl", record))
        for one in (index, index_alone):
            for entry in one.entries:
                assert entry.reward is None or math.isfinite(entry.reward)
                transcript = one.read(entry)
                markdown(transcript)
                json.dumps(atif(transcript), default=str)
                sft_row(transcript)
                diff_transcripts(transcript, transcript)


def test_numbers_that_are_none(tmp_path: Path) -> None:
    records = [
        {**version_1(own_episode(f"{n}")), "scores": {"reward": value}}
        for n, value in enumerate((math.nan, math.inf, True, "1"))
    ]
    index = read(write_lines(tmp_path / "t.jsonl", *records))
    assert [entry.reward for entry in index.entries] == [None] * 4
    assert {group.reward for group in index.groups()} == {None}


def test_numbers_that_cannot_be_computed_with(tmp_path: Path) -> None:
    records = [
        {**version_1(own_episode("a")), "scores": {"reward": value}}
        for value in (1e300, -1e300, 1.0, 0.0)
    ]
    records.append({**version_1(own_episode("a")), "scores": {}, "turn_count": 10**400})
    index = read(write_lines(tmp_path / "t.jsonl", *records))
    [group] = index.groups()
    assert len(group.numbers) == 5 and group.reward == 0.5 and group.turns < 100
    product = {"score": 1e90, "weight": 1e90}
    of_agents = read(
        write_lines(tmp_path / "v.jsonl", *[{"traces": [{"rewards": {"a": product}}]}] * 2)
    )
    assert [entry.reward for entry in of_agents.entries] == [None, None]
    assert (
        len(
            histogram(
                [
                    msgspec.structs.replace(index.entries[0], reward=value)
                    for value in (0.0, -5e-324)
                ]
            )
        )
        == 1
    )


def test_a_line_of_many_megabytes_is_passed_over_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hudtui.core.results.index.MAX_BYTES", 3 << 20)
    path = tmp_path / "t.jsonl"
    write_own(path, own_episode("a"))
    with path.open("ab") as file:
        file.write(b'{"task":"' + b"x" * (9 << 20) + b'"}\n')
    write_own(path, own_episode("b"))
    index = read(path)
    assert [entry.task for entry in index.entries] == ["a", "b"]
    assert [(line.line, line.why) for line in index.unread] == [
        (2, "the line is longer than 3 MiB")
    ]


def test_a_file_that_grows(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.touch()
    index = ResultIndex(results_at(path))
    assert index.advance().complete and index.entries == []
    write_own(path, own_episode("a", 1.0))
    assert index.advance().entries == 1
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:200])  # half a line
    assert index.advance().entries == 1
    path.write_bytes(whole + whole)
    assert index.advance().entries == 2 and index.generation == 0
    assert index.groups()[0].numbers == (0, 1)
    with path.open("ab") as file:
        file.write(
            whole.rstrip()
        )  # a whole record that lacks its newline, as a text editor leaves it
    assert index.advance().entries == 3
    with path.open("ab") as file:
        file.write(b"\n" + whole)
    assert (
        index.advance().entries == 4
        and [index.read(entry).turns[0].number for entry in index.entries] == [1] * 4
    )
    assert index.advance().unread == 0


def test_a_writer_that_died_in_a_line_and_began_again(tmp_path: Path) -> None:
    path = write_own(tmp_path / "traces.jsonl", own_episode("a"))
    whole = path.read_bytes()
    index = ResultIndex(results_at(path))
    for cut in (5, 100, len(whole) - 2):
        path.write_bytes(whole + whole[:cut].replace(b"left", b"lost"))
        assert index.advance().entries == 1
        write_own(path, own_episode("b"))  # which removes the half line
        progress = index.advance()
        assert (progress.entries, progress.unread, progress.generation) == (
            2,
            0,
            index.generation,
        ), cut
        assert [index.read(entry).entry.task for entry in index.entries] == ["a", "b"]
        path.write_bytes(whole)
        assert index.advance().entries == 1


def test_half_a_record_between_others_is_no_episode(tmp_path: Path) -> None:
    path = write_own(tmp_path / "traces.jsonl", own_episode("a"))
    whole = path.read_bytes().rstrip()
    head = whole.index(b'"messages":[')
    for cut in (head + 20, (head + len(whole)) // 2, len(whole) - 3):
        path.write_bytes(b"\n".join((whole, whole[:cut], whole, b"")))
        index = read(path)
        assert [index.read(entry).entry.task for entry in index.entries] == ["a", "a"]
        (unread,) = index.unread
        assert (unread.line, unread.why) == (2, "this record is cut off")


def test_a_file_that_was_cut_and_has_grown_past_its_old_end(tmp_path: Path) -> None:
    """As a training that goes on from a checkpoint leaves it, if nothing looked in between."""
    path = write_own(
        tmp_path / "traces.jsonl", *(own_episode("a", number / 8) for number in range(4))
    )
    index = read(path)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    write_own(path, *(own_episode("b", number / 8) for number in range(9)))
    progress = index.advance()
    assert (
        progress.generation == 1
        and [entry.task for entry in index.entries] == ["a"] * 2 + ["b"] * 9
    )


def test_a_file_that_is_replaced_begins_again(tmp_path: Path) -> None:
    path = write_own(tmp_path / "traces.jsonl", own_episode("a"), own_episode("b"))
    index = read(path)
    kept = index.entries
    path.with_suffix(".new").write_bytes(path.read_bytes().splitlines(keepends=True)[1])
    os.replace(path.with_suffix(".new"), path)
    progress = index.advance()
    assert (progress.generation, [entry.task for entry in index.entries]) == (1, ["b"])
    assert [entry.task for entry in kept] == ["a", "b"]  # who holds the old ones is not surprised
    path.unlink()
    assert index.advance().entries == 0


def test_a_resumed_training_writes_later_steps_again(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    forget_traces_after(path, 0)
    write_own(
        path,
        *(
            own_episode("a", step=step, split=split)
            for step in (1, 2, 3)
            for split in ("train", "eval")
        ),
    )
    forget_traces_after(path, 3)
    assert len(read(path).entries) == 6
    forget_traces_after(path, 2)
    write_own(path, own_episode("a", step=3, split="train"))
    assert [(entry.step, entry.split) for entry in read(path).entries[3:]] == [
        (2, "eval"),
        (3, "train"),
    ]
    forget_traces_after(path, 0)
    assert path.stat().st_size == 0


async def test_following(tmp_path: Path) -> None:
    path = write_own(tmp_path / "traces.jsonl", own_episode("a"))
    seen: list[int] = []
    async with (
        asyncio.timeout(60),
        aclosing(follow(ResultIndex(results_at(path)), every=0.01)) as pieces,
    ):
        async for progress in pieces:
            seen.append(progress.entries)
            if progress.entries == 3:
                break
            if progress.complete:
                await asyncio.to_thread(write_own, path, own_episode("b"))
    assert seen[-1] == 3 and seen == sorted(seen)


def test_reading_a_large_file_in_pieces_shows_the_first_group_first(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    line = json.dumps(version_1(own_episode("a", replies=["left()"] * 2_000))).encode() + b"\n"
    with path.open("wb") as file:
        for _ in range(40):
            file.write(line)
    index = ResultIndex(results_at(path))
    progress = index.advance(0.0)
    assert not progress.complete and 0 < progress.entries < 40 and progress.read < progress.size
    assert index.groups()[0].key.task == "a"
    while not progress.complete:
        progress = index.advance(0.0)
    assert progress.entries == 40 and progress.read == progress.size == path.stat().st_size


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        results_at(tmp_path / "none")
    with pytest.raises(InputError, match="has no results"):
        results_at(tmp_path)
    os.mkfifo(tmp_path / "traces.jsonl")
    with pytest.raises(InputError, match="regular file"):
        results_at(tmp_path / "traces.jsonl")
    damaged = tmp_path / "0001.parquet"
    damaged.write_bytes(b"PAR1" + b"\0" * 100)
    index = read(damaged)
    assert index.entries == [] and "damaged" in index.unread[0].why
    art = write_art_parquet(
        tmp_path / "t" / "trajectories" / "train" / "0001.parquet", [art_trajectory()]
    )
    index = read(art)
    art.write_bytes(art.read_bytes()[:-200])
    with pytest.raises(InputError, match="damaged"):
        index.read(index.entries[0])


def test_evaluations_elsewhere_are_found_once_they_are_noted(tmp_path: Path) -> None:
    project, away = tmp_path / "project", tmp_path / "away"
    for place in (away / "a", away / "b", project / "outputs" / "c", away / "run" / "out"):
        write_own(place / "traces.jsonl", own_episode("x"))
    (away / "run" / "plan.json").write_text("{}")
    assert [one.name for one in find_results(project)] == ["c"]
    for place in (away / "a", project / "outputs" / "c", away / "run" / "out", away / "a"):
        note_results(project, place)
    assert {one.name for one in find_results(project)} == {"c", str(away / "a")}
    (named,) = results_named(str(away / "a"), project)
    assert named.path == away / "a" / "traces.jsonl"
    note_results(project, away / "b")
    shutil.rmtree(away / "a")
    assert {one.name for one in find_results(project)} == {"c", str(away / "b")}


@pytest.mark.parametrize(
    "text", ["", "{", "7", '[7, null, "", "relative", "/a\\u0000b"]', "[" * 99_999]
)
def test_a_damaged_note_of_evaluations_is_passed_over(tmp_path: Path, text: str) -> None:
    (tmp_path / ".hudtui").mkdir()
    (tmp_path / ".hudtui" / "evaluations.json").write_text(text)
    assert find_results(tmp_path) == ()
    write_own(tmp_path / "away" / "traces.jsonl", own_episode("x"))
    note_results(tmp_path, tmp_path / "away")
    assert len(find_results(tmp_path)) == 1


def test_the_results_of_a_project_are_found(tmp_path: Path) -> None:
    for name in ("first", "second", "evals/env--m/0a"):
        write_own(tmp_path / "outputs" / name / "traces.jsonl", own_episode(name))
    write_lines(
        tmp_path / "outputs" / "evals" / "env--m" / "0b" / "results.jsonl", {"valid": True}
    )  # of `validate`
    write_lines(
        tmp_path / ".art" / "p" / "models" / "m" / "trajectories" / "train" / "0001.jsonl",
        {"trajectories": []},
    )
    os.utime(tmp_path / "outputs" / "first" / "traces.jsonl", (2e9, 2e9))
    found = find_results(tmp_path)
    assert found[0].name == "first"
    assert {(one.name, one.kind) for one in found} == {
        ("first", "evaluation"),
        ("second", "evaluation"),
        ("evals/env--m/0a", "evaluation"),
        (".art/p/models/m", "training"),
    }
    assert (
        results_named("second", tmp_path)[0].path
        == tmp_path / "outputs" / "second" / "traces.jsonl"
    )
    assert len(results_named("outputs", tmp_path)) == 3
    with pytest.raises(InputError, match="no results") as caught:
        results_named("secnd", tmp_path)
    assert caught.value.fix == "Did you mean second?"
