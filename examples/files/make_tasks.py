"""Write `tasks.json`: 60 tasks of three kinds for the filesystem server, and the files they use.

Each task expects something of the files after the last turn, or of the last reply. No tool of the
server answers with a reward, and none is needed. The solution of each proves that it can be solved;
no agent is shown it.

    python make_tasks.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SERVER = {
    "command": "npx",
    "args": ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."],
    "cwd": "${EPISODE_DIR:folder}",
}
"""Each episode has a copy of `folder`, in which the server works."""
WORDS = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove"),
    *("heron", "inlet", "jetty", "kayak", "lemon", "maple", "north"),
    *("ocean", "pearl", "quartz", "river", "slate", "tulip"),
)
PLACES = ("attic", "barn", "cellar", "garden", "hall")


def write(word: str) -> dict[str, Any]:
    """Return a task to write a word into a file."""
    answer = {"name": "read_text_file", "arguments": {"path": "answer.txt"}}
    return {
        "id": f"write-{word}",
        "prompt": f"Write the word {word} into the file answer.txt.",
        "evaluate": [
            {
                "call": answer,
                "expect": [
                    {"contains": word, "error": False, "weight": 0.8},
                    {"equals": word, "error": False, "weight": 0.2},
                ],
                "name": "written",
                "weight": 0.9,
            },
            {"turns": {"most": 2}, "weight": 0.1},
        ],
        "solution": [
            {"name": "write_file", "arguments": {"path": "answer.txt", "content": word}},
        ],
    }


def find(word: str, place: str) -> dict[str, Any]:
    """Return a task to find the file that a word stands in."""
    return {
        "id": f"find-{word}",
        "prompt": f"One of the files in notes names the {word}. In which file does it lie? Say the "
        "name of the file in your last reply.",
        "evaluate": [{"reply": {"matches": f"\\b{place}(?:\\.txt)?\\b"}, "name": "said"}],
        "solution": [
            {"name": "list_directory", "arguments": {"path": "notes"}},
            {"name": "read_text_file", "arguments": {"path": f"notes/{place}.txt"}},
            {"reply": f"It lies in {place}.txt."},
        ],
    }


def move(word: str) -> dict[str, Any]:
    """Return a task to move a file."""
    there = {"name": "get_file_info", "arguments": {"path": f"archive/{word}.txt"}}
    here = {"name": "get_file_info", "arguments": {"path": f"{word}.txt"}}
    return {
        "id": f"move-{word}",
        "prompt": f"Move the file {word}.txt into the folder archive, and keep its name.",
        "evaluate": [
            {"call": there, "expect": {"error": False}, "name": "arrived", "weight": 2},
            {"call": here, "expect": {"error": True}, "name": "gone", "weight": 1},
        ],
        "solution": [
            {
                "name": "move_file",
                "arguments": {"source": f"{word}.txt", "destination": f"archive/{word}.txt"},
            },
        ],
    }


def main() -> None:
    """Write the tasks and the files."""
    places = [PLACES[number % len(PLACES)] for number in range(len(WORDS))]
    kinds = [
        [write(word) for word in WORDS],
        [find(word, place) for word, place in zip(WORDS, places, strict=True)],
        [move(word) for word in WORDS],
    ]
    tasks = [{**task, "mcp_config": {"files": SERVER}} for kind in kinds for task in kind]
    text = json.dumps(tasks, indent=2)
    (HERE / "tasks.json").write_text(f"{text}\n", encoding="utf-8")
    notes = HERE / "folder" / "notes"
    archive = HERE / "folder" / "archive"
    for folder in (notes, archive):
        folder.mkdir(parents=True, exist_ok=True)
    (archive / "README.txt").write_text("Old files.\n", encoding="utf-8")
    for place in PLACES:
        things = [word for word, one in zip(WORDS, places, strict=True) if one == place]
        lines = "".join(f"The {word} lies in the {place}.\n" for word in things)
        (notes / f"{place}.txt").write_text(lines, encoding="utf-8")
    for word in WORDS:
        (HERE / "folder" / f"{word}.txt").write_text(f"A file about {word}.\n", encoding="utf-8")


if __name__ == "__main__":
    main()
