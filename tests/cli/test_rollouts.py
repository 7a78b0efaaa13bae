"""`hudtui rollouts play`: by a policy, by hand from a pipe; and what is left when it is stopped."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import judged, servers
from typer.testing import CliRunner, Result

from hudtui.cli.app import build
from hudtui.core.gym.config import load_config
from hudtui.core.rollouts.trace import read_trace, transcript

odd, marker = servers.odd, servers.marker

TRACE = Path("outputs/played/traces.jsonl")
CONFIG = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
    for name in ("left", "right", "up", "down")
)


def record(name: str, seed: int) -> dict[str, Any]:
    return {
        "id": name,
        "prompt": "Reach 64.",
        "mcp_config": {
            "env": {
                "command": "${HUDTUI_PYTHON:-/nowhere/python}",
                "args": ["-P", "-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {
            "name": "setup",
            "arguments": {"name": "board", "arguments": {"board_size": 3, "seed": seed}},
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
    }


@pytest.fixture(autouse=True)
def project(own_world: Path) -> Path:
    Path("c.yaml").write_text(CONFIG)
    Path("tasks.json").write_text(json.dumps([record("one", 1), record("two", 2)]))
    return own_world


def play(*words: object, said: str = "", code: int = 0) -> Result:
    done = CliRunner().invoke(
        build(), ["rollouts", "play", "tasks.json", *map(str, words)], input=said
    )
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, (done.stdout, done.stderr)
    return done


def kept() -> list[Any]:
    return list(read_trace(TRACE))


def test_the_transcript_of_a_policy_is_printed_and_kept() -> None:
    done = play("--policy", "greedy", "--max-turns", 3)
    (episode,) = kept()
    assert done.stdout == transcript(episode) and len(episode.turns) == 3
    assert (
        "turn 3 greedy reward=0." in done.stderr
        and "kept in outputs/played/traces.jsonl, episode 0" in done.stderr
    )


def test_replies_come_from_a_pipe() -> None:
    said = (
        'left()\n\n<think>now\nup</think>\n<tool>up()</tool>\n{"text": "left()"}\nI think\nso\n'
        "\nright(1)\ndone()\nup()\n"
    )
    done = play(said=said)
    (episode,) = kept()
    assert [turn.reply for turn in episode.turns] == [
        "<think>Let me try this.</think>\n<tool>left()</tool>",
        "<think>now\nup</think>\n<tool>up()</tool>",
        "left()",
        "I think\nso",
        "<think>Let me try this.</think>\n<tool>right(1)</tool>",
        "<think>Let me try this.</think>\n<tool>done()</tool>",
    ]
    assert (
        episode.stop == "done"
        and episode.info["policy"] == "by hand"
        and done.stdout == transcript(episode)
    )
    assert "turn 1 by hand" in done.stderr


def test_the_column_of_a_mistake_is_said() -> None:
    done = play(said="<tool>left(1,</tool>\n")
    assert "column" in done.stderr and kept()[0].turns[0].is_error


def test_commands_in_the_pipe() -> None:
    said = "/help\n/nonsense\n{1\n\nleft()\n/evaluate\n/step\n/go\n"
    done = play("--by-hand", "--policy", "random", "--seed", 2, "--max-turns", 5, said=said)
    assert kept()[0].info["played_by"] == ["by hand", "by hand", "random", "random", "random"]
    assert "/evaluate call" in done.stderr and "/nonsense is not known" in done.stderr
    assert "task_completion=0." in done.stderr


def test_a_policy_pauses_at_a_turn_and_the_end_of_the_input_ends_the_episode() -> None:
    play("--policy", "greedy", "--take-over", 3, "--task", "two", said="left()\n")
    (episode,) = kept()
    assert episode.task_id == "two" and episode.info["played_by"] == ["greedy", "greedy", "by hand"]
    assert episode.stop == "ended" and episode.scores.reward_found


def test_without_a_policy_nothing_can_be_given_to_it() -> None:
    done = play(said="/go\n/step\n/end\n")
    assert done.stderr.count("there is no policy") == 2 and not TRACE.exists()


def test_events_are_lines_of_json() -> None:
    done = play("--json", "--max-turns", 2, said="left()\n/evaluate\nup()\n")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    names = [
        "start",
        "reply-wanted",
        "turn",
        "reply-wanted",
        "evaluation",
        "reply-wanted",
        "turn",
        "end",
    ]
    assert [event["event"] for event in events] == names
    start, turn, end = events[0], events[2], events[-1]
    assert {action["name"] for action in start["actions"]} == {
        "left",
        "right",
        "up",
        "down",
        "done",
    }
    assert turn["by"] == "by hand" and turn["call"] == {
        "tool": "move",
        "arguments": {"direction": "left"},
    }
    assert (end["stop"], end["turns"], end["episode"]) == ("max_turns", 2, 0) and Path(
        end["trace"]
    ) == TRACE.absolute()
    assert end["scores"]["reward"] == kept()[0].scores.reward


def test_no_trace_and_examples() -> None:
    done = play("--policy", "greedy", "--max-turns", 4, "--no-trace", "--examples")
    assert not TRACE.exists() and "examples added to c.yaml" in done.stderr
    examples = load_config(Path("c.yaml")).examples
    assert examples and all("<tool>" in one.assistant for one in examples)


def test_a_recorded_episode_is_taken_over_in_the_middle() -> None:
    play("--policy", "greedy", "--max-turns", 4, "-o", "a.jsonl")
    done = play("--policy", "replay:a.jsonl", "--take-over", 3, said="up()\n/end\n")
    (recorded,) = read_trace(Path("a.jsonl"))
    (episode,) = kept()
    assert [turn.reply for turn in episode.turns[:2]] == [turn.reply for turn in recorded.turns[:2]]
    assert episode.info["played_by"][2:] == ["by hand"], done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--task", "on"), "Did you mean 'one'?"),
        (("--policy", "wise"), "no policy 'wise'"),
        (("--policy", "random", "--model", "m"), "exclude each other"),
        (("--take-over", 2), "name the policy"),
    ],
)
def test_what_cannot_be_played_is_said(words: tuple[Any, ...], said: str) -> None:
    assert said in " ".join(play(*words, code=2).stderr.replace("│", " ").split())


def test_the_configuration_has_to_be_named_where_there_are_two() -> None:
    Path("d.yaml").write_text(CONFIG)
    assert "several configurations" in play(code=2).stderr
    play("-c", "d.yaml", "--policy", "greedy", "--max-turns", 1)


def test_an_episode_that_breaks_off_has_the_code_of_its_failure(odd: Any) -> None:
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("die_in_call")
    task = {
        "id": "odd",
        "prompt": "Go.",
        "mcp_config": {"env": {"command": command, "args": arguments}},
    }
    Path("tasks.json").write_text(
        json.dumps([{**task, "evaluate_tool": {"name": "judge", "arguments": {}}}])
    )
    done = play("--json", said="go()\n", code=3)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert lines[-2]["stop"] == "error" and lines[-1]["error"]["type"] == "ConnectError"
    assert "out of tiles" in done.stderr and kept()[0].stop == "error"


def test_a_policy_that_fails_ends_an_episode_without_a_person() -> None:
    play("--policy", "greedy", "--max-turns", 2, "-o", "a.jsonl")
    done = play("--policy", "replay:a.jsonl", code=1)
    assert "ends after 2 replies" in done.stderr and kept()[0].stop == "error"


@pytest.fixture
def waiting(odd: Any, marker: Any) -> Iterator[tuple[subprocess.Popen[str], Any, int]]:
    """The command at a prompt, with a server that is known by a word."""
    Path("c.yaml").write_text("action_mappings: {go: {_tool: good, x: {static: 1}}}\n")
    command, *arguments = odd("plain", marker.word)
    task = {
        "id": "odd",
        "prompt": "Go.",
        "mcp_config": {"env": {"command": command, "args": arguments}},
    }
    Path("tasks.json").write_text(
        json.dumps([{**task, "evaluate_tool": {"name": "judge", "arguments": {}}}])
    )
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "hudtui", "rollouts", "play", "tasks.json"]
    work = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield work, marker, ours
    finally:
        work.kill()
        work.wait()
        assert work.stdout is not None
        work.stdout.close()
        os.close(ours)


def read_until(terminal: int, words: str) -> str:
    text, deadline = "", time.monotonic() + 60
    while words not in text:
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 4096).decode(errors="replace")
    return text


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_at_the_prompt_ends_the_environment(
    waiting: Any, number: int, status: int
) -> None:
    work, mark, terminal = waiting
    read_until(terminal, "turn 1")
    assert len(mark.alive()) == 1
    os.write(terminal, b"go()\n")
    read_until(terminal, "turn 2 (/help)")
    os.kill(work.pid, number)
    assert work.wait(60) == status
    assert mark.alive() == [] and [(one.stop, len(one.turns)) for one in kept()] == [
        ("cancelled", 1)
    ]


def test_what_a_task_expects_is_told_with_each_end(own_world: Path) -> None:
    judged.write_files(own_world)
    said = "\n".join(judged.replies("all")[:1]) + "\n"
    words = ["rollouts", "play", "judged.json", "-c", "judged.yaml", "--json"]
    done = CliRunner().invoke(build(), words, input=f"{said}It is 42. <tool>done()</tool>\n")
    assert done.exit_code == 0, done.output
    end = json.loads(done.stdout.splitlines()[-1])
    assert end["event"] == "end" and end["scores"]["own"] == judged.SCORES["all"]
    assert [part["weight"] for part in end["scores"]["parts"]] == [0.6, 0.3, 0.1]
