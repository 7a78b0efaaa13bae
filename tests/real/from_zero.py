"""Six servers of npm and PyPI that were not written for training, each taken from zero to a
rehearsed training: its tools, a configuration, tasks judged without code, the weakest and the best
player, and the rehearsal. Prints a table.

    python tests/real/from_zero.py FOLDER [--only NAME] [--trainer PYTHON]
    python tests/real/from_zero.py --smoke

It needs `uvx`, `npx` and git, downloads the servers, and takes about ten minutes. `--trainer` is a
Python with TRL, such as .venv-train/bin/python; without it hudtui makes an environment. `--smoke`
takes a server of the tests' own, and plans the rehearsal alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.scripted_chat import scripted_chat  # noqa: E402

NPM = ("npx", "-y")
WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord")


@dataclass(frozen=True)
class Play:
    """A task and the replies that solve it."""

    prompt: str
    evaluate: list[dict[str, Any]]
    replies: tuple[str, ...]
    setup: tuple[dict[str, Any], ...] = ()


def nothing(folder: Path) -> None:
    """No files are needed."""


@dataclass(frozen=True)
class Candidate:
    """A server, the tools that the agent gets, and tasks for it."""

    name: str
    command: tuple[str, ...]
    only: str
    plays: tuple[Play, ...]
    more: dict[str, Any] = field(default_factory=dict)
    """Further fields of the server in `mcp_config`."""
    files: Callable[[Path], None] = nothing
    """Writes what the tasks' templates need."""


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a call of a tool."""
    return {"name": name, "arguments": arguments}


def by_call(name: str, asked: dict[str, Any], expect: Any) -> list[dict[str, Any]]:
    """Return an evaluation by what a call answers."""
    return [{"call": asked, "expect": expect, "name": name}]


def done(text: str = "") -> str:
    """Return a last reply."""
    return f"{text} <tool>done()</tool>"


def remember(word: str) -> Play:
    """Return a task for the graph of memory."""
    entity = [{"name": word, "entityType": "tree", "observations": ["is old"]}]
    return Play(
        f"Remember the tree {word}, of the type tree, with the observation: is old",
        by_call(
            "kept",
            call("open_nodes", names=[word]),
            [
                {"json": {"path": "entities[0].entityType", "equals": "tree"}},
                {"contains": "is old"},
            ],
        ),
        (f"<tool>create_entities({json.dumps(entity)})</tool>", done()),
    )


def add_up(first: int, second: int) -> Play:
    """Return a task for the sum of server-everything."""
    return Play(
        f"What is {first} plus {second}? Use the tool, and say the sum.",
        [{"reply": {"number": first + second}, "name": "said"}],
        (f"<tool>get_sum({first}, {second})</tool>", done(f"It is {first + second}.")),
    )


def think(number: int) -> Play:
    """Return a task for the thoughts, which the server counts."""
    thoughts = [
        f'<tool>sequentialthinking("step", true, {at + 1}, {number})</tool>' for at in range(number)
    ]
    counted = call(
        "sequentialthinking",
        thought="count",
        nextThoughtNeeded=False,
        thoughtNumber=1,
        totalThoughts=1,
    )
    expected = {"json": {"path": "thoughtHistoryLength", "number": number + 1}}
    return Play(
        f"Note {number} thoughts, one after the other.",
        by_call("thoughts", counted, expected),
        (*thoughts, done()),
    )


def calculate(expression: str, result: float) -> Play:
    """Return a task for the calculator."""
    return Play(
        f"What is {expression}? Say the result, with two decimals.",
        [{"reply": {"number": result, "tolerance": 0.005}, "name": "said"}],
        (f'<tool>calculate("{expression}")</tool>', done(f"It is {result:.2f}.")),
    )


def branch(word: str) -> Play:
    """Return a task for git."""
    return Play(
        f"Create the branch {word} in the repository of the folder `.`, and change to it.",
        by_call(
            "branch",
            call("git_branch", repo_path=".", branch_type="local"),
            [{"contains": word}, {"contains": f"* {word}"}],
        ),
        (
            f'<tool>git_create_branch(".", "{word}")</tool>',
            f'<tool>git_checkout(".", "{word}")</tool>',
            done(),
        ),
    )


def write_cell(cell: str, number: int) -> Play:
    """Return a task for a workbook."""
    return Play(
        f"Write the number {number} into the cell {cell} of the sheet Sheet1 of book.xlsx.",
        by_call(
            "cell",
            call("read_range", path="book.xlsx", sheet="Sheet1", range=cell),
            {"contains": str(number), "error": False},
        ),
        (f'<tool>write_range("book.xlsx", "Sheet1", "{cell}", [[{number}]])</tool>', done()),
        (call("create_workbook", path="book.xlsx"),),
    )


def repository(folder: Path) -> None:
    """Write a repository with one commit."""
    repo = folder / "repo"
    repo.mkdir()
    (repo / "a.txt").write_text("one\n")
    commands = (
        ("init", "-q", "-b", "main"),
        ("config", "user.name", "A"),
        ("config", "user.email", "a@b.example"),
        ("add", "a.txt"),
        ("commit", "-q", "-m", "First"),
    )
    for words in commands:
        subprocess.run(["git", "-C", repo, *words], check=True)


SUMS = ("17 * 23", "100 / 7", "2 ** 10", "3.5 * 4.25", "(8 + 9) * 11", "1 / 3")
CANDIDATES = (
    Candidate(
        "server-memory",
        (*NPM, "@modelcontextprotocol/server-memory@2026.8.31"),
        "create_entities,open_nodes",
        tuple(remember(word) for word in WORDS),
        {"env": {"MEMORY_FILE_PATH": "${EPISODE_DIR}/memory.jsonl"}},
    ),
    Candidate(
        "server-everything",
        (*NPM, "@modelcontextprotocol/server-everything@2026.8.31"),
        "get-sum",
        tuple(add_up(7 * at + 11, 30 - at) for at in range(6)),
    ),
    Candidate(
        "server-sequential-thinking",
        (*NPM, "@modelcontextprotocol/server-sequential-thinking@2026.8.31"),
        "*",
        tuple(think(number) for number in range(1, 5)),
    ),
    Candidate(
        "mcp-server-calculator",
        ("uvx", "mcp-server-calculator@0.2.1"),
        "*",
        tuple(calculate(text, eval(text)) for text in SUMS),  # noqa: S307  # the sums above
    ),
    Candidate(
        "mcp-server-git",
        ("uvx", "mcp-server-git@2026.10.19"),
        "git_branch,git_create_branch,git_checkout",
        tuple(branch(word) for word in WORDS),
        {"cwd": "${EPISODE_DIR:repo}"},
        repository,
    ),
    Candidate(
        "excel-mcp-server",
        ("uvx", "excel-mcp-server@2.2.2", "stdio"),
        "read_range,write_range",
        tuple(write_cell(f"{'ABCDEF'[at]}{at + 2}", 40 + at) for at in range(6)),
        {"cwd": "${EPISODE_DIR}", "env": {"EXCEL_FILES_PATH": "${EPISODE_DIR}"}},
    ),
)


def write_file(word: str) -> Play:
    """Return a task for the server of --smoke."""
    return Play(
        f"Write the word {word} into the file {word}.txt.",
        by_call("written", call("look"), {"json": {"path": f'["{word}.txt"]', "contains": word}}),
        (f'<tool>write("{word}.txt", "{word}")</tool>', done()),
    )


FILES = str(ROOT / "tests" / "support" / "file_server.py")
SMOKE = Candidate(
    "file_server.py",
    (sys.executable, FILES, "."),
    "write",
    tuple(write_file(word) for word in WORDS[:4]),
    {"args": [FILES, "${EPISODE_DIR}"]},
)
"""What --smoke takes."""


@dataclass
class Row:
    """A row of the table."""

    name: str
    tools: str = ""
    tokens: int = 0
    tasks: int = 0
    weakest: float = 0.0
    best: float = 0.0
    rehearsed: str = ""
    commands: int = 0
    seconds: float = 0.0


@dataclass
class Walk:
    """The commands of one server, in a folder of its own."""

    folder: Path
    env: dict[str, str]
    row: Row

    def run(self, *words: str) -> str:
        """Return what a command prints to standard output; one that fails ends the script."""
        begun = time.monotonic()
        command = [sys.executable, "-m", "hudtui", *words]
        ended = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )
        self.row.commands += 1
        self.row.seconds += time.monotonic() - begun
        if ended.returncode:
            raise SystemExit(f"{self.row.name}: {' '.join(words)}\n{ended.stdout}\n{ended.stderr}")
        return ended.stdout


def player(plays: Sequence[Play]) -> Callable[[Sequence[dict[str, Any]]], str]:
    """Return a player that solves each task."""

    def reply(messages: Sequence[dict[str, Any]]) -> str:
        prompt = next(one["content"] for one in messages if one["role"] == "user")
        turn = sum(one["role"] == "assistant" for one in messages)
        replies = next(play.replies for play in plays if play.prompt in prompt)
        return f"<think>So.</think> {replies[turn]}"

    return reply


def completion(printed: str) -> float:
    """Return the mean completion of the episodes of an evaluation's JSON."""
    episodes = [one for task in json.loads(printed)["tasks"] for one in task["episodes"]]
    return statistics.fmean(one["task_completion"] for one in episodes)


def walk(one: Candidate, folder: Path, trainer: Path | None, *, planned: bool = False) -> Row:
    """Take a server from zero to a rehearsal, or to the plan of one."""
    folder.mkdir(parents=True)
    one.files(folder)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OPENAI_API_KEY": "sk-none"}
    env["HUDTUI_TRUST"] = str(folder)
    if trainer is not None:
        env["HUDTUI_TRAINER_PYTHON"] = str(trainer.absolute())
    row = Row(one.name, tasks=len(one.plays))
    steps = Walk(folder, env, row)
    steps.run("env", "show", "--", *one.command)
    words = ("--only", one.only, "-o", "made.yaml", "--json")
    made = json.loads(steps.run("config", "init", *words, "--", *one.command))
    every = len(made["actions"]) + len(made["left_out"])
    row.tools = f"{len(made['actions'])} of {every}"
    row.tokens = made["estimated_tokens"]["prompt"]
    server = {"command": one.command[0], "args": list(one.command[1:]), **one.more}
    tasks = [
        {
            "id": f"{one.name}-{at}",
            "prompt": play.prompt,
            "mcp_config": {"server": server},
            **({"setup_tool": list(play.setup)} if play.setup else {}),
            "evaluate": play.evaluate,
        }
        for at, play in enumerate(one.plays)
    ]
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=2))
    steps.run("tasks", "check", "tasks.json", "--strict")
    steps.run("config", "check", "made.yaml")
    steps.run("tasks", "test", "tasks.json")
    play = ("eval", "tasks.json", "-c", "made.yaml", "--max-turns", "8", "--json")
    row.weakest = completion(steps.run(*play, "-p", "random"))
    with scripted_chat(player(one.plays)) as chat:
        model = ("-p", "openai:best", "--base-url", chat.url)
        row.best = completion(steps.run(*play, *model))
    rehearsal = ("rl", "--rehearse", "tasks.json", "--config", "made.yaml", "--yes", "--json")
    if planned:
        plan = json.loads(steps.run(*rehearsal, "--dry-run"))
        row.rehearsed = "planned" if plan["ready"] else "refused"
    else:
        row.rehearsed = json.loads(steps.run(*rehearsal))["state"]
    return row


def main() -> int:
    """Walk with each server, and print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("from-zero"))
    parser.add_argument("--only", help="the name of one server")
    parser.add_argument("--trainer", type=Path, help="a Python with TRL")
    parser.add_argument(
        "--smoke", action="store_true", help="a small server, nothing is downloaded"
    )
    parser.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = parser.parse_args()
    folder = (given.out if given.smoke else given.folder).resolve()
    ends = "planned" if given.smoke else "finished"
    good = True
    print("| server | tools | prompt tokens | tasks | random | best | rehearsal | commands | s |")
    print("| --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    for one in (SMOKE,) if given.smoke else CANDIDATES:
        if given.only not in (None, one.name):
            continue
        shutil.rmtree(folder / one.name, ignore_errors=True)
        trainer = Path(sys.executable) if given.smoke else given.trainer
        row = walk(one, folder / one.name, trainer, planned=given.smoke)
        good = good and row.best == 1.0 > row.weakest and row.rehearsed == ends
        print(
            f"| {row.name} | {row.tools} | {row.tokens:,} | {row.tasks} | {row.weakest:.3f} "
            f"| {row.best:.3f} | {row.rehearsed} | {row.commands} | {row.seconds:.0f} |",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
