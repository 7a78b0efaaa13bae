"""Export of episodes: every form is read by what it is meant for."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from atif import Trajectory
from support.recorded import (
    art_trajectory,
    own_episode,
    verifiers_conversation,
    verifiers_episode,
    write_art_parquet,
    write_lines,
    write_own,
)

from hudtui.core.errors import InputError
from hudtui.core.results.export import ExportForm, WrittenExport, export_results, form_of
from hudtui.core.results.find import results_at
from hudtui.core.results.foreign import content_text
from hudtui.core.results.index import ResultIndex
from hudtui.core.rollouts.trace import read_trace

FORMS: tuple[ExportForm, ...] = ("jsonl", "markdown", "atif", "sft")


def opened(path: Path) -> ResultIndex:
    index = ResultIndex(results_at(path))
    index.finish()
    return index


@pytest.fixture
def everything(tmp_path: Path) -> ResultIndex:
    """One episode or more in each format; the last one of hudtui has no reply."""
    folder = tmp_path / "all"
    write_own(
        folder / "a" / "traces.jsonl",
        own_episode("own", 0.5, replies=("left()", "```\nx\n````"), model="m"),
        own_episode("own", None, replies=(), error="it broke"),
    )
    write_lines(folder / "b" / "traces.jsonl", verifiers_episode("v", agents=2))
    write_lines(folder / "c" / "traces.jsonl", verifiers_episode("w", 3.0))
    write_art_parquet(
        folder / "d" / "trajectories" / "train" / "0003.parquet",
        [art_trajectory(0.5, task_id="art")],
    )
    return opened(folder)


def write(index: ResultIndex, form: ExportForm, path: Path, **options: Any) -> WrittenExport:
    return export_results(index, range(len(index.entries)), form, path, **options)


def test_records_are_read_again_by_what_wrote_them(tmp_path: Path) -> None:
    source = write_own(
        tmp_path / "t.jsonl", *(own_episode(f"t{number}", number / 4) for number in range(4))
    )
    index, path = opened(source), tmp_path / "new" / "x.jsonl"
    made = export_results(index, [3, 1], "jsonl", path)
    assert (made.episodes, made.skipped, made.size) == (2, 0, path.stat().st_size)
    episodes = list(read_trace(source))
    assert list(read_trace(path)) == [episodes[3], episodes[1]]


def test_records_of_other_frameworks(everything: ResultIndex, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert write(everything, "jsonl", path).episodes == 6
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 5  # the two agents stand on one line
    group = opened(write_lines(tmp_path / "y.jsonl", lines[-1]))
    assert group.entries[0].reward == 0.5 and group.entries[0].task == "art"
    transcript = group.read(group.entries[0])
    assert transcript.turns[0].calls[0].name == "move" and transcript.info["step"] == 3


def test_markdown(everything: ResultIndex, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    assert form_of(path) == "markdown"
    write(everything, "markdown", path)
    text = path.read_text()
    for said in (
        "# own",
        "- reward: 0.5",
        "Go ✓",
        "<tool>left()</tool>",
        '"direction": "left"',
        "Moved 1",
        "it broke",
        "I move.",
        "done",
    ):
        assert said in text
    assert "### Call: move" in text and "### Thought" in text and "image/png, 0.0 kB]" in text
    fences = re.findall(r"^`{3,}\w*$", text, re.MULTILINE)
    assert "`````text" in fences and len(fences) % 2 == 0  # longer than what the reply holds


def test_markdown_holds_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    index = opened(
        write_own(
            tmp_path / "t.jsonl",
            own_episode("\x1b]0;x\x07# a\n# b", replies=("\x1b[2J\u202eleft()",)),
        )
    )
    write(index, "markdown", tmp_path / "x.md")
    text = (tmp_path / "x.md").read_text()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", text) and text.startswith(
        "# \\# a \\# b\n"
    )


def test_atif_is_valid_by_the_models_of_its_own_package(
    everything: ResultIndex, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    assert write(everything, "atif", path).episodes == 6
    read = [Trajectory.model_validate_json(line) for line in path.read_text().splitlines()]
    own, broken, agent = read[0], read[1], read[2]
    assert [step.source for step in own.steps] == ["system", "user", "agent", "agent"]
    step = own.steps[2]
    assert step.tool_calls is not None and step.tool_calls[0].arguments == {"direction": "left"}
    assert step.observation is not None and step.observation.results[0].content == "Moved 1"
    assert step.observation.results[0].source_call_id == step.tool_calls[0].tool_call_id
    assert step.metrics is not None and (
        step.metrics.prompt_tokens,
        step.metrics.completion_tokens,
    ) == (10, 3)
    assert own.agent.model_name == "m" and own.extra is not None and own.extra["reward"] == 0.5
    assert own.final_metrics is not None and own.final_metrics.total_steps == 4
    assert broken.extra is not None and broken.extra["error"] == "it broke"
    assert agent.steps[2].reasoning_content == "Left?"
    one = tmp_path / "one.json"
    export_results(everything, [0], "atif", one)
    assert Trajectory.model_validate_json(one.read_text()) == own
    with pytest.raises(InputError, match="one episode"):
        write(everything, "atif", tmp_path / "many.json")


def test_what_is_written_as_atif_is_read_again(everything: ResultIndex, tmp_path: Path) -> None:
    path, one = tmp_path / "x.jsonl", tmp_path / "one.json"
    write(everything, "atif", path)
    again = opened(path)
    assert not again.unread
    for before, after in zip(everything.entries, again.entries, strict=True):
        for name in (
            "task",
            "step",
            "split",
            "rollout",
            "reward",
            "parts",
            "stop",
            "tokens",
            "seconds",
            "started_at",
        ):
            assert getattr(after, name) == getattr(before, name), (name, before.task)
        assert bool(after.error) is bool(before.error)
        old, new = everything.read(before), again.read(after)
        assert [turn.reply for turn in new.turns] == [turn.reply for turn in old.turns]
        assert [turn.thought for turn in new.turns] == [turn.thought for turn in old.turns]
        assert [[(call.name, call.arguments) for call in turn.calls] for turn in new.turns] == [
            [
                (
                    call.name,
                    call.arguments
                    if isinstance(call.arguments, dict)
                    else {"text": call.arguments},
                )
                for call in turn.calls
            ]
            for turn in old.turns
        ]
        assert [turn.tokens for turn in new.turns] == [dict(turn.tokens) for turn in old.turns]
        assert [turn.is_error for turn in new.turns] == [turn.is_error for turn in old.turns]
        assert (
            len(new.opening) == len(old.opening)
            and new.tools == old.tools
            and new.error == old.error
        )
    write(again, "atif", tmp_path / "twice.jsonl")
    twice = [json.loads(line) for line in (tmp_path / "twice.jsonl").read_text().splitlines()]
    once = [json.loads(line) for line in path.read_text().splitlines()]
    for document in (*once, *twice):
        del document["session_id"]
    assert [document["steps"] for document in twice] == [document["steps"] for document in once]
    assert [document["extra"] for document in twice] == [document["extra"] for document in once]
    export_results(everything, [0], "atif", one)
    single = opened(one)
    (entry,) = single.entries
    assert entry.reward == 0.5 and len(single.read(entry).turns) == 2
    export_results(single, [0], "jsonl", tmp_path / "records.jsonl")
    assert len((tmp_path / "records.jsonl").read_text().splitlines()) == 1


def test_a_document_of_harbor_is_read(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"path": "a.png"}}
    steps = [
        {"step_id": 1, "source": "user", "message": [{"type": "text", "text": "Look."}, picture]},
        {
            "step_id": 2,
            "timestamp": "2026-11-01T10:00:00Z",
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": "c", "function_name": "ls", "arguments": {"path": "."}}
            ],
            "observation": {
                "results": [{"source_call_id": "c", "content": "a.txt"}, {"content": None}]
            },
        },
        {"step_id": 3, "source": "odd", "message": 7},
        {
            "step_id": 4,
            "source": "agent",
            "message": "Done.",
            "metrics": {"prompt_tokens": 5, "cost_usd": 0.1},
        },
    ]
    document = {
        "schema_version": "ATIF-v1.6",
        "session_id": "s-1",
        "agent": {"name": "terminus", "version": "2"},
        "steps": steps,
    }
    (tmp_path / "trajectory.json").write_text(json.dumps(document, indent=2))
    (tmp_path / "odd.jsonl").write_text(
        "".join(json.dumps({**document, "steps": odd}) + "\n" for odd in ([], [7, None], [{}]))
    )
    index = opened(tmp_path / "trajectory.json")
    (entry,) = index.entries
    assert (entry.task, entry.reward, entry.turns, entry.started_at) == (
        "s-1",
        None,
        2,
        "2026-11-01T10:00:00Z",
    )
    found = index.read(entry)
    assert content_text(found.opening[0]["content"]) == "Look.\n[image a.png]"
    assert [(turn.reply, turn.observation) for turn in found.turns] == [
        ("", "a.txt"),
        ("Done.", ""),
    ]
    assert (
        found.turns[0].calls[0].name == "ls"
        and found.turns[1].tokens == {"prompt": 5}
        and found.info["agent"] == "terminus 2"
    )
    odd = opened(tmp_path / "odd.jsonl")
    assert [one.turns for one in odd.entries] == [0, 0, 0] and not odd.unread
    assert [len(odd.read(one).turns) for one in odd.entries] == [0, 0, 0]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_sft_data_is_read_by_datasets(everything: ResultIndex, tmp_path: Path, suffix: str) -> None:
    from datasets import load_dataset

    path = tmp_path / f"x.{suffix}"
    made = write(everything, "sft", path)
    assert (made.episodes, made.skipped) == (5, 1)  # one has no reply to learn from
    loader = "json" if suffix == "jsonl" else suffix
    rows = load_dataset(
        loader, data_files=str(path), cache_dir=str(tmp_path / "cache"), split="train"
    )
    assert (
        rows["reward"] == [0.5, pytest.approx(0.6), pytest.approx(0.6), pytest.approx(1.6), 0.5]
        and rows["task"][0] == "own"
    )
    assert [(message["role"], message["content"]) for message in rows[0]["prompt"]] == [
        ("system", "You play."),
        ("user", "Go ✓"),
    ]
    assert [(message["role"], message["content"]) for message in rows[0]["completion"]] == [
        ("assistant", "<tool>left()</tool>"),
        ("user", "Moved 1"),
        ("assistant", "<tool>```\nx\n````</tool>"),
    ]
    for row in rows.select(range(1, 5)):
        call = row["completion"][0]["tool_calls"][0]
        assert call["function"]["name"] == "move" and json.loads(call["function"]["arguments"]) == {
            "direction": "left"
        }
        assert (
            row["completion"][1]["tool_call_id"] == "c1"
            and row["completion"][-1]["content"] == "done"
        )


def test_halves_of_surrogate_pairs_are_replaced_in_parquet_too(tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "traces.jsonl",
        verifiers_conversation(
            {"role": "user", "content": "\ud800"}, {"role": "assistant", "content": "a\udc00"}
        ),
    )
    assert r"\udc00" in source.read_text()
    write(opened(source), "sft", tmp_path / "x.parquet")
    (row,) = pq.read_table(tmp_path / "x.parquet").to_pylist()
    assert [message["content"] for message in row["prompt"] + row["completion"]] == ["?", "a?"]


def test_a_file_is_written_whole_or_not_at_all(everything: ResultIndex, tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        write(everything, "markdown", path)

    def cancel(done: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    for form, name in (("markdown", "x.md"), ("sft", "y.parquet")):
        with pytest.raises(KeyboardInterrupt):
            write(everything, form, tmp_path / name, replace=True, progress=cancel)  # type: ignore[arg-type]
    assert path.read_text() == "mine" and sorted(os.listdir(tmp_path)) == ["all", "x.md"]
    seen: list[int] = []
    write(everything, "markdown", path, replace=True, progress=seen.append)
    assert seen == list(range(1, 7)) and path.read_text() != "mine"


def test_nothing_to_write_is_said(everything: ResultIndex, tmp_path: Path) -> None:
    for form in FORMS:
        with pytest.raises(InputError, match="no episode"):
            export_results(everything, [], form, tmp_path / "x.txt")
    for name in ("x.txt", "x.parquet"):
        with pytest.raises(InputError, match="no episode"):
            export_results(everything, [1], "sft", tmp_path / name)
    with pytest.raises(InputError, match="only sft"):
        export_results(everything, [0], "jsonl", tmp_path / "x.parquet")
    assert os.listdir(tmp_path) == ["all"]
