"""`hudtui rollouts list|show|stats|diff|search|export`."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.command import hudtui
from support.pictures import png
from support.recorded import own_episode, verifiers_episode, write_lines, write_own

from hudtui.core.rollouts.values import KeptImage
from hudtui.core.tasks.expectation import JudgedPart


@pytest.fixture(autouse=True)
def folder(own_world: Path) -> Path:
    write_own(
        own_world / "outputs" / "first" / "traces.jsonl",
        *(
            own_episode("a", number / 4, rollout=number, replies=["left()"] * (number + 1))
            for number in range(5)
        ),
        own_episode("b\x1b[31m", 0.0, error="port 8001 is closed"),
        own_episode("b\x1b[31m", 0.0, error="port 8017 is closed"),
    )
    write_lines(
        own_world / "outputs" / "second" / "traces.jsonl",
        verifiers_episode("c", step=3),
        verifiers_episode("c", step=4),
    )
    return own_world


def test_what_there_is() -> None:
    told = hudtui("rollouts", "list").stdout
    assert "first" in told and "second" in told and told.startswith("NAME")
    found = json.loads(hudtui("rollouts", "list", "--json").stdout)
    assert {one["name"] for one in found} == {"first", "second"} and all(
        one["bytes"] > 0 for one in found
    )


def test_episodes_and_groups() -> None:
    told = hudtui("rollouts", "list", "first").stdout
    assert len(told.splitlines()) == 8 and "\x1b" not in told and "STEP" not in told.splitlines()[0]
    found = json.loads(
        hudtui("rollouts", "list", "first", "task:a", "reward:>=0.5", "--json").stdout
    )
    assert [one["number"] for one in found] == [2, 3, 4] and found[0]["parts"][
        "task_completion"
    ] == 0.5
    found = json.loads(
        hudtui(
            "rollouts", "list", "first", "--sort", "reward", "--reverse", "-n", "2", "--json"
        ).stdout
    )
    assert [one["reward"] for one in found] == [1.0, 0.75]
    found = json.loads(hudtui("rollouts", "list", "outputs", "--groups", "--json").stdout)
    assert [
        (one["run"], one["task"].strip("\x1b[31m"), one["step"], one["episodes"], one["failed"])
        for one in found
    ] == [
        ("first", "a", None, 5, 0),
        ("first", "b", None, 2, 2),
        ("second", "c", 3, 1, 0),
        ("second", "c", 4, 1, 0),
    ]
    assert "there is no field 'x'" in hudtui("rollouts", "list", "first", "x:1", code=2).stderr
    assert "fields are" in hudtui("rollouts", "list", "first", "--sort", "x", code=2).stderr


def test_one_episode() -> None:
    told = hudtui("rollouts", "show", "first", "1").stdout
    assert told.startswith("# a\n") and told.count("### Reply") == 2 and "Moved 2" in told
    found = json.loads(hudtui("rollouts", "show", "first", "1", "--json").stdout)
    assert found["reward"] == 0.25 and found["turns"][1]["calls"] == [
        {"name": "move", "arguments": {"direction": "left"}}
    ]
    assert "numbered from 0 to 6" in hudtui("rollouts", "show", "first", "7", code=2).stderr


def test_an_image_of_an_episode(own_world: Path) -> None:
    image = KeptImage("image/jpeg", 1, png())
    write_own(own_world / "seen.jsonl", replace(own_episode(), images=(image,)))
    assert "[image 1: image/png, 24x16, 0.7 kB]" in hudtui("rollouts", "show", "seen.jsonl").stdout
    made = hudtui("rollouts", "show", "seen.jsonl", "--image", "1", "--output", "board.png")
    assert made.stdout == "board.png\n" and (
        own_world / "board.png"
    ).read_bytes() == base64.b64decode(png())
    found = json.loads(
        hudtui("rollouts", "show", "seen.jsonl", "0", "--image", "1", "--json").stdout
    )
    assert found["path"] == "episode-0-image-1.png" and found["image"].startswith("image/png")
    assert (
        "exists already"
        in hudtui(
            "rollouts", "show", "seen.jsonl", "--image", "1", "-o", "board.png", code=2
        ).stderr
    )
    assert "no image 2" in hudtui("rollouts", "show", "seen.jsonl", "--image", "2", code=2).stderr
    assert "--image" in hudtui("rollouts", "show", "seen.jsonl", "-o", "x.png", code=2).stderr


def test_stats() -> None:
    found = json.loads(
        hudtui(
            "rollouts", "stats", "first", "--solved-at", "0.75", "--k", "1", "--k", "5", "--json"
        ).stdout
    )
    assert (found["episodes"], found["failed"]) == (7, 2)
    assert [(one["cause"], one["episodes"], one["numbers"]) for one in found["failures"]] == [
        ("port <n> is closed", 2, [5, 6])
    ]
    assert found["pass"]["rates"] == {"1": 0.4, "5": 1.0}
    assert sum(bar["episodes"] for bar in found["histogram"]) == 5
    told = hudtui("rollouts", "stats", "first", "task:a").stdout
    assert (
        "5 episodes of 1 task, mean reward 0.5" in told
        and "pass@4" in told
        and "failures" not in told
    )


def test_stats_count_what_went_wrong_within_episodes(own_world: Path) -> None:
    episode = own_episode(replies=("left()", "up()", "fly()"))
    one, other, third = (replace(turn, is_error=True) for turn in episode.turns)
    unread = replace(one, call=None, interpretation={"action": None})
    write_own(
        own_world / "seen.jsonl",
        replace(episode, turns=(unread, other, third)),
        replace(episode, turns=(unread,)),
    )
    told = hudtui("rollouts", "stats", "seen.jsonl").stdout
    within = [
        " ".join(line.split()) for line in told.partition("within episodes\n")[2].splitlines()
    ]
    assert within == [
        "2 replies without a call that can be read, in 2 episodes",
        "2 calls that the environment answered with an error, in 1 episode",
    ]
    found = json.loads(hudtui("rollouts", "stats", "seen.jsonl", "--json").stdout)["within"]
    assert [(one["times"], one["episodes"], one["numbers"]) for one in found] == [
        (2, 2, [0, 1]),
        (2, 1, [0]),
    ]


def test_the_rewards_of_tasks_over_steps(own_world: Path) -> None:
    rewards = {(1, "a"): 0.0, (2, "a"): 0.4, (3, "a"): 1.0, (2, "b\x1b[31m"): 0.5}
    episodes = (
        own_episode(task, reward, step=step, split="train")
        for (step, task), reward in rewards.items()
    )
    write_own(own_world / "outputs" / "grpo" / "traces.jsonl", *episodes)
    told = hudtui("rollouts", "map", "grpo")
    assert told.stdout.splitlines() == ["step  1 3", "a     049", "b      5"]
    assert "0 is a mean reward of 0, 9 of 1" in told.stderr
    found = json.loads(hudtui("rollouts", "map", "grpo", "task:a", "--json").stdout)
    steps = [
        {"step": step, "reward": reward, "episodes": 1}
        for step, reward in ((1, 0.0), (2, 0.4), (3, 1.0))
    ]
    assert found["steps"] == [1, 2, 3] and [
        (one["task"], one["steps"]) for one in found["tasks"]
    ] == [("a", steps)]
    assert "No episode is of a step" in hudtui("rollouts", "map", "first").stderr


def test_two_results() -> None:
    done = hudtui("rollouts", "compare", "second", "second", "--step", "3", "--other-step", "4")
    told = done.stdout
    assert "1 task in both, mean gain +0; 0 better, 1 equal, 0 worse" in done.stderr
    assert told.splitlines()[1].split() == ["c", "0.6", "0.6", "0", "[1,", "1]"]
    found = json.loads(hudtui("rollouts", "compare", "first", "second", "--json").stdout)
    assert found["compared"] == 0 and found["mean"] is None
    assert [
        (one["task"].strip("\x1b[31m"), one["left"], one["gain"], one["episodes"])
        for one in found["tasks"]
    ] == [
        ("a", 0.5, None, [5, 0]),
        ("b", None, None, [2, 0]),
        ("c", None, None, [0, 1]),
    ]


def test_two_episodes() -> None:
    assert "turn 1: the same" in hudtui("rollouts", "diff", "first", "0", "0").stdout
    told = hudtui("rollouts", "diff", "first", "0", "1", code=1).stdout
    assert "turn 2: only in the right episode" in told
    found = json.loads(hudtui("rollouts", "diff", "first", "0", "1", "--json", code=1).stdout)
    assert found["first"] == 2 and found["same_opening"]


def test_search() -> None:
    told = hudtui("rollouts", "search", "first", "MOVED 2".lower()).stdout.splitlines()
    assert [line.split()[0] for line in told] == ["1:2", "2:2", "3:2", "4:2"]
    found = [
        json.loads(line)
        for line in hudtui(
            "rollouts", "search", "first", "moved 2", "reward:1", "--json"
        ).stdout.splitlines()
    ]
    assert [(one["number"], one["turn"], one["field"]) for one in found] == [(4, 2, "observation")]
    done = hudtui("rollouts", "search", "first", "moved", "-n", "3")
    assert len(done.stdout.splitlines()) == 3 and "stopped after 3 hits" in done.stderr
    assert hudtui("rollouts", "search", "first", "nothing of that", code=1).stdout == ""


def test_export(folder: Path) -> None:
    lines = hudtui("rollouts", "export", "first", "reward:>0.5").stdout.splitlines()
    assert [json.loads(line)["scores"]["reward"] for line in lines] == [0.75, 1.0]
    done = hudtui(
        "rollouts", "export", "first", "--sort", "reward", "--reverse", "-n", "1", "-o", "best.md"
    )
    assert done.stdout == "best.md\n" and "- reward: 1\n" in (folder / "best.md").read_text()
    hudtui("rollouts", "export", "first", "-o", "best.md", code=2)
    hudtui("rollouts", "export", "first", "-o", "best.md", "--force")
    found = json.loads(
        hudtui("rollouts", "export", "first", "--format", "sft", "-o", "x.jsonl", "--json").stdout
    )
    assert (found["episodes"], found["skipped"], found["format"]) == (5, 2, "sft")
    assert "one of jsonl" in hudtui("rollouts", "export", "first", "--format", "csv", code=2).stderr


def test_what_is_no_episode_is_said(folder: Path) -> None:
    with (folder / "outputs" / "first" / "traces.jsonl").open("a") as file:
        file.write("{broken\n" * 5)
    done = hudtui("rollouts", "list", "first")
    assert (
        len(done.stdout.splitlines()) == 8
        and "traces.jsonl:8: " in done.stderr
        and "2 more lines" in done.stderr
    )
    (folder / "other.jsonl").write_text('{"a": 1}\n')
    assert "no record of an episode" in hudtui("rollouts", "list", "other.jsonl", code=2).stderr
    assert "Did you mean second" in hudtui("rollouts", "list", "secod", code=2).stderr


def test_it_can_be_piped_into_what_ends_early(folder: Path) -> None:
    write_own(
        folder / "outputs" / "third" / "traces.jsonl",
        *(own_episode("a", replies=["left()"] * 50) for _ in range(200)),
    )
    command = [sys.executable, "-m", "hudtui", "rollouts", "export", "third"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline().startswith(b'{"version":2')
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(60) == 141 and said == b""


def test_the_app_is_not_opened_at_results_that_are_not_there() -> None:
    assert (
        "there are no results of that name" in hudtui("rollouts", "open", "nowhere", code=2).stderr
    )
    assert "hudtui needs a terminal" in hudtui("rollouts", "open", "first", code=2).stderr


def test_a_file_with_half_a_record_is_told() -> None:
    Path("half.jsonl").write_text('{"id": "x", "prompt": ')
    done = hudtui("rollouts", "list", "half.jsonl", code=2)
    assert not done.stdout
    assert "half.jsonl:1: there is no whole record of an episode here" in done.stderr


def test_the_parts_of_a_task_are_shown_and_listed(own_world: Path) -> None:
    parts = (
        JudgedPart("words", 1.0, 0.6, "read_text_file(words.txt) contains delta", "delta"),
        JudgedPart("said", 1 / 3, 0.4, "the last reply is 42", "4\x1b[31m1"),
    )
    episode = own_episode("expects", 0.5)
    own = {part.name: part.score for part in parts}
    scores = replace(episode.scores, own=own, parts=parts)
    write_own(own_world / "outputs" / "parts" / "traces.jsonl", replace(episode, scores=scores))
    told = hudtui("rollouts", "show", "parts").stdout
    assert "✓ read_text_file(words.txt) contains delta (0.6)" in told and "\x1b" not in told
    assert "~ the last reply is 42 (0.133 of 0.4): 4" in told
    found = json.loads(hudtui("rollouts", "show", "parts", "--json").stdout)
    assert [part["words"] for part in found["judged"]] == [part.words for part in parts]
    assert found["judged"][0]["score"] == 1.0 and found["parts"]["said"] == 1 / 3
    (listed,) = json.loads(hudtui("rollouts", "list", "parts", "--json").stdout)
    assert listed["parts"]["words"] == 1.0 and listed["parts"]["said"] == 1 / 3
    assert json.loads(hudtui("rollouts", "show", "first", "--json").stdout)["judged"] == []
