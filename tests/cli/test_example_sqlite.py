"""The example `examples/sqlite`: tasks for PyPI's `mcp-server-sqlite`, judged without code. The
commands of its page run as they stand there."""

import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from support.scripted_chat import scripted_chat
from support.servers import python_server
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.rollouts.trace import read_trace

EXAMPLE = Path(__file__).parents[2] / "examples" / "sqlite"
pytestmark = pytest.mark.timeout(300)

INSTALLED = """#!/bin/sh
while [ "$1" != "mcp-server-sqlite@2025.4.25" ]; do shift; done
shift
exec {server} "$@"
"""
"""`uvx`, where the server is installed already."""


@pytest.fixture
def example(own_world, monkeypatch):
    """A copy of the example as it is in the repository, with the server installed for `uvx`."""
    shutil.copytree(EXAMPLE, own_world / "sqlite", ignore=shutil.ignore_patterns("data"))
    programs = own_world / "programs"
    programs.mkdir()
    uvx = programs / "uvx"
    uvx.write_text(INSTALLED.format(server=shlex.quote(str(python_server("mcp-server-sqlite")))))
    uvx.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.chdir(own_world / "sqlite")
    return own_world / "sqlite"


def page_commands():
    """Commands of the page, as lists of words."""
    (block,) = re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(), re.DOTALL)
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def few_tasks():
    """Keep a task of each kind. The others differ in their words and numbers alone."""
    tasks = json.loads(Path("tasks.json").read_text())
    kinds = [one["id"].partition("-")[0] for one in tasks]
    kept = [one for at, one in enumerate(tasks) if kinds[at] not in kinds[:at]]
    Path("tasks.json").write_text(json.dumps(kept))
    return kept


def run(words, folder):
    """What a command of the page prints; it has to work."""
    if words[0] == "python":
        subprocess.run([sys.executable, *words[1:]], cwd=folder, check=True)
        return ""
    assert words[0] == "hudtui", words
    result = CliRunner().invoke(build(), words[1:])
    assert result.exit_code == 0, result.output
    return result.output


def solution(task):
    """Replies that solve a task; the answers are asked of the database anew."""
    match = re.fullmatch(r"(\w+)-(\w+)", task)
    with closing(sqlite3.connect("data/shop.db")) as db:
        if match[1] == "spent":
            sql = (
                "SELECT sum(price * quantity) FROM customers "
                "JOIN orders ON customer = customers.id JOIN products ON product = products.id "
                f"WHERE lower(customers.name) = '{match[2]}'"
            )
            (amount,) = db.execute(sql).fetchone()
            return [f'<tool>query("{sql}")</tool>', f"It is {amount:.2f}. <tool>done()</tool>"]
        if match[1] == "most":
            sql = (
                "SELECT customers.name FROM customers "
                "JOIN orders ON customer = customers.id JOIN products ON product = products.id "
                f"WHERE products.name = '{match[2]}' "
                "GROUP BY customers.id ORDER BY sum(quantity) DESC LIMIT 1"
            )
            (name,) = db.execute(sql).fetchone()
            return [f'<tool>query("{sql}")</tool>', f"It is {name}. <tool>done()</tool>"]
    prompt = next(
        one["prompt"] for one in json.loads(Path("tasks.json").read_text()) if one["id"] == task
    )
    if match[1] == "add":
        name, city = re.search(r"customer (\w+), who lives in (\w+)", prompt).groups()
        sql = f"INSERT INTO customers (name, city) VALUES ('{name}', '{city}')"
    else:
        percent = re.search(r"by (\d+) percent", prompt)[1]
        factor = f"{100 + int(percent)} / 100.0"
        sql = f"UPDATE products SET price = price * {factor} WHERE name = '{match[2]}'"
    return [f'<tool>change("{sql}")</tool>', "<tool>done()</tool>"]


def player(solutions):
    """A player that solves each task."""

    def reply(messages):
        prompt = next(one["content"] for one in messages if one["role"] == "user")
        turn = sum(one["role"] == "assistant" for one in messages)
        replies = next(replies for words, replies in solutions.items() if words in prompt)
        return f"<think>I see.</think> {replies[turn]}"

    return reply


def test_the_commands_of_the_page_lead_from_the_server_to_a_rehearsal(example):
    change, make, *commands, rehearsal = page_commands()
    assert change == ["cd", "examples/sqlite"]
    run(make, example)
    before = Path("data/shop.db").read_bytes()
    tasks = few_tasks()
    with scripted_chat(player({one["prompt"]: solution(one["id"]) for one in tasks})) as chat:
        for words in commands:
            if "openai:MODEL" in words:
                words[words.index("--base-url") + 1] = chat.url
            run(words, example)
    assert Path("mine.yaml").read_text().count("_tool:") == 4
    random = list(read_trace(Path("random", "traces.jsonl")))
    assert [episode.scores.task_completion for episode in random] == [0.0] * 4
    model = list(read_trace(Path("model", "traces.jsonl")))
    assert {episode.task_id: episode.scores.task_completion for episode in model} == {
        one["id"]: 1.0 for one in tasks
    }
    assert Path("data/shop.db").read_bytes() == before
    assert "--rehearse" in rehearsal
    assert "4 tasks" in run([*rehearsal, "--dry-run"], example)


def test_the_solutions_solve_a_task_of_each_kind(example):
    run(["python", "make_tasks.py"], example)
    assert all(one["solution"] for one in json.loads(Path("tasks.json").read_text()))
    tasks = few_tasks()
    run(["hudtui", "trust", "--yes"], example)
    for one in tasks:
        words = ["tasks", "test", "tasks.json", "--task", one["id"], "--json"]
        result = CliRunner().invoke(build(), words)
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        assert told["solved"] is True, told


def test_a_player_that_does_something_else_gets_less(example):
    run(["python", "make_tasks.py"], example)
    tasks = {one["id"]: one for one in json.loads(Path("tasks.json").read_text())}
    everyone = "Ada, Bela, Carl, Dora, Emil, Fay, Gus, Hana, Ivo, Jill"
    wrong = {
        "dearer-tea": "UPDATE products SET price = 5.93",
        "dearer-rice": "UPDATE products SET price = 1 WHERE name = 'bread'",
        "add-kim": "INSERT INTO customers (name, city) VALUES ('Kim', 'Riga')",
        "add-lars": "DROP TABLE customers",
    }
    replies = {
        tasks[task]["prompt"]: [f'<tool>change("{sql}")</tool>', "<tool>done()</tool>"]
        for task, sql in wrong.items()
    }
    replies[tasks["most-tea"]["prompt"]] = [f"{everyone} <tool>done()</tool>"]
    replies[tasks["spent-ada"]["prompt"]] = ["It is 198.93. <tool>done()</tool>"]
    chosen = [tasks[task] for task in (*wrong, "most-tea", "spent-ada")]
    Path("few.json").write_text(json.dumps(chosen))
    run(["hudtui", "trust", "--yes"], example)
    with scripted_chat(player(replies)) as chat:
        words = ["--policy", "openai:tiny", "--base-url", chat.url, "--output", "out"]
        run(["hudtui", "eval", "few.json", "--config", "sqlite.yaml", *words], example)
    episodes = read_trace(Path("out", "traces.jsonl"))
    assert {episode.task_id: episode.scores.task_completion for episode in episodes} == {
        "dearer-tea": pytest.approx(2 / 3),
        "dearer-rice": 0,
        "add-kim": pytest.approx(2 / 3),
        "add-lars": 0,
        "most-tea": 0,
        "spent-ada": 0,
    }


def test_the_tasks_are_those_that_the_script_writes(example):
    run(["python", "make_tasks.py"], example)
    assert Path("tasks.json").read_bytes() == (EXAMPLE / "tasks.json").read_bytes()
