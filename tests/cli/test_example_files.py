"""The example `examples/files`: tasks for npm's filesystem server, judged without code."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import servers
from support.scripted_chat import scripted_chat
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.rollouts.trace import read_trace

node_modules = servers.node_modules

EXAMPLE = Path(__file__).parents[2] / "examples" / "files"
pytestmark = pytest.mark.xdist_group("mcp-conformance")  # npm's programs, one after the other


def server_of(node_modules):
    """The command of the server, without its folders."""
    node = next((path / "bin" / "node" for path in node_modules.glob("node-linux-*")), "node")
    server = node_modules / "@modelcontextprotocol" / "server-filesystem" / "dist" / "index.js"
    return [str(node), str(server)]


@pytest.fixture
def example(own_world, node_modules):
    """Two tasks of each kind, with the server that is installed for the tests."""
    shutil.copytree(EXAMPLE, own_world, dirs_exist_ok=True)
    command, *arguments = server_of(node_modules)
    tasks = json.loads(Path("tasks.json").read_text())
    chosen = [task for task in tasks if re.fullmatch(r"\w+-(?:amber|birch)", task["id"])]
    for task in chosen:
        task["mcp_config"]["files"] |= {"command": command, "args": [*arguments, "."]}
    Path("tasks.json").write_text(json.dumps(chosen))
    return own_world


def right(messages):
    """A player that does what it is asked to do."""
    prompt = next(one["content"] for one in messages if one["role"] == "user")
    turn = sum(one["role"] == "assistant" for one in messages)
    if match := re.search(r"Write the word (\w+)", prompt):
        replies = [f'<tool>write("answer.txt", "{match[1]}")</tool>', "<tool>done()</tool>"]
    elif match := re.search(r"Move the file (\w+)\.txt", prompt):
        replies = [
            f'<tool>move("{match[1]}.txt", "archive/{match[1]}.txt")</tool>',
            "<tool>done()</tool>",
        ]
    else:
        place = "attic" if "amber" in prompt else "barn"
        replies = ['<tool>list("notes")</tool>', f"It lies in {place}.txt. <tool>done()</tool>"]
    return f"<think>I see.</think> {replies[turn]}"


def evaluate(reply):
    """Play the tasks; task -> its episode."""
    with scripted_chat(reply) as chat:
        words = ["--policy", "openai:tiny", "--base-url", chat.url, "--output", "out"]
        result = CliRunner().invoke(
            build(),
            ["eval", "tasks.json", "--config", "files.yaml", *words],
            env={"OPENAI_API_KEY": "sk-test", "HUDTUI_TRUST": str(Path.cwd())},
        )
    assert result.exit_code == 0, result.output
    return {episode.task_id: episode for episode in read_trace(Path("out", "traces.jsonl"))}


def test_a_player_that_does_its_task_gets_everything_and_touches_no_other_episode(example):
    before = {path: path.read_bytes() for path in Path("folder").rglob("*") if path.is_file()}
    episodes = evaluate(right)
    assert len(episodes) == 6
    assert {episode.scores.task_completion for episode in episodes.values()} == {1.0}
    lines = [part.line() for part in episodes["move-amber"].scores.parts]
    assert lines[0] == "✓ get_file_info(archive/amber.txt) answers without an error (2)"
    after = {path: path.read_bytes() for path in Path("folder").rglob("*") if path.is_file()}
    assert after == before


def test_the_solutions_solve_all_three_kinds(example):
    words = ["eval", "tasks.json", "--config", "files.yaml", "--policy", "solution"]
    trusted = {"HUDTUI_TRUST": str(Path.cwd())}
    result = CliRunner().invoke(build(), [*words, "--output", "out"], env=trusted)
    assert result.exit_code == 0, result.output
    episodes = list(read_trace(Path("out", "traces.jsonl")))
    assert {episode.task_id.partition("-")[0] for episode in episodes} == {"write", "find", "move"}
    assert len(episodes) == 6 and all(episode.solved for episode in episodes)


def test_a_test_says_by_which_part_a_solution_fails(example):
    tasks = json.loads(Path("tasks.json").read_text())
    tasks[0]["solution"][0]["arguments"]["content"] = "umber"
    Path("tasks.json").write_text(json.dumps(tasks))
    words, trusted = ["tasks", "test", "tasks.json", "--task"], {"HUDTUI_TRUST": str(Path.cwd())}
    result = CliRunner().invoke(build(), [*words, "write-amber"], env=trusted)
    assert result.exit_code == 1
    assert "write-amber: the solution does not solve it: reward 0.1" in result.output
    assert "✗ read_text_file(answer.txt)" in result.output
    result = CliRunner().invoke(build(), [*words, "write-birch", "--json"], env=trusted)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["solved"], told["reward"]) == (True, 0.1)
    assert [step["tool"] for step in told["steps"] if step["solution"]] == [
        "write_file",
        "read_text_file",
    ]
    assert not Path("folder", "answer.txt").exists()


def test_a_player_that_does_nothing_gets_no_task(example):
    episodes = evaluate(lambda messages: "<think>No.</think> <tool>done()</tool>")
    scores = {task: episode.scores.task_completion for task, episode in episodes.items()}
    assert scores == {
        "write-amber": pytest.approx(0.1),  # few turns
        "write-birch": pytest.approx(0.1),
        "find-amber": 0,
        "find-birch": 0,
        "move-amber": 0,
        "move-birch": 0,
    }


def test_the_tasks_are_those_that_the_script_writes(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "files")
    shutil.rmtree(tmp_path / "files" / "folder")
    subprocess.run([sys.executable, tmp_path / "files" / "make_tasks.py"], check=True)
    for path in [path for path in EXAMPLE.rglob("*") if path.is_file() and path.suffix != ".pyc"]:
        assert (tmp_path / "files" / path.relative_to(EXAMPLE)).read_bytes() == path.read_bytes()


def test_the_command_of_the_page_of_tasks_makes_what_it_says(own_world, node_modules):
    page = (EXAMPLE.parents[1] / "docs" / "tasks.md").read_text()
    command = re.search(r"\$ hudtui (tasks new --own-folder (?:.*\\\n)*.*)\n", page)
    assert command is not None
    words, server = shlex.split(command[1].replace("\\\n", "")), server_of(node_modules)
    words = [*words[: words.index("--") + 1], *server, "data"]
    (own_world / "data").mkdir()
    result = CliRunner().invoke(build(), [*words[:2], "--yes", *words[2:]])
    assert result.exit_code == 0, result.output
    made = [json.loads(Path(name).read_text()) for name in ("list.json", "list-held-out.json")]
    assert sum(map(len, made)) == 100 and all(made)
    trained, held_out = ({task["metadata"]["variables"]["word"] for task in one} for one in made)
    assert not trained & held_out
    assert "reward 0.2 before the first move" in result.output
    assert not list((own_world / "data").iterdir()), "the test worked in a copy"
