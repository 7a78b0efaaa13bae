"""The audit of servers of npm and PyPI that were not written for training, with a player that
solves their tasks as the ceiling. Prints what it says of each.

    python tests/real/audit.py FOLDER [--only NAME]

It needs `uvx`, `npx` and git, downloads the servers, and takes about ten minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from from_zero import (  # noqa: E402
    CANDIDATES,
    NPM,
    WORDS,
    Candidate,
    Play,
    by_call,
    call,
    done,
    player,
)
from support.scripted_chat import scripted_chat  # noqa: E402


def convert(zone: str, hour: str) -> Play:
    """Return a task for the clock of mcp-server-time."""
    return Play(
        f"It is 12:00 in UTC. How late is it in {zone}? Say HH:MM.",
        [{"reply": {"contains": f"{hour}:00"}, "name": "said"}],
        (f'<tool>convert_time("UTC", "12:00", "{zone}")</tool>', done(f"It is {hour}:00.")),
    )


def write_file(word: str) -> Play:
    """Return a task for the files of a folder."""
    return Play(
        f"Write the word {word} into the file answer.txt.",
        by_call(
            "written", call("read_text_file", path="answer.txt"), {"equals": word, "error": False}
        ),
        (f'<tool>write_file("answer.txt", "{word}")</tool>', done()),
    )


def plant(word: str) -> Play:
    """Return a task for a table of a database."""
    return Play(
        f"Insert the name {word} into the column name of the table trees.",
        by_call(
            "planted",
            call("read_query", query="SELECT name FROM trees"),
            {"contains": word, "error": False},
        ),
        (f"<tool>write_query(\"INSERT INTO trees VALUES ('{word}')\")</tool>", done()),
        (call("create_table", query="CREATE TABLE trees (name TEXT)"),),
    )


NUMBERS = {word: 17 * at + 23 for at, word in enumerate(WORDS)}


class Pages(BaseHTTPRequestHandler):
    """Serves a number for each word, and no more."""

    def do_GET(self) -> None:
        number = NUMBERS.get(self.path.strip("/"))
        text = f"<html><body><p>It is {number}.</p></body></html>".encode()
        self.send_response(404 if number is None else 200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def pages() -> Iterator[str]:
    """Serve the pages on loopback; give their address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fetch(url: str) -> Candidate:
    """Return mcp-server-fetch with tasks for the pages."""
    plays = tuple(
        Play(
            f"Which number does the page {url}/{word} name? Say it.",
            [{"reply": {"number": number}, "name": "said"}],
            (f'<tool>fetch("{url}/{word}")</tool>', done(f"It is {number}.")),
        )
        for word, number in NUMBERS.items()
    )
    return Candidate(
        "mcp-server-fetch",
        ("uvx", "mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
        "fetch",
        plays,
    )


ZONES = {"Asia/Tokyo": "21", "Asia/Dubai": "16", "Asia/Bangkok": "19", "America/Bogota": "07"}
MORE = (
    Candidate(
        "mcp-server-time",
        ("uvx", "mcp-server-time"),
        "convert_time",
        tuple(convert(zone, hour) for zone, hour in ZONES.items()),
    ),
    Candidate(
        "server-filesystem",
        (*NPM, "@modelcontextprotocol/server-filesystem@2026.8.31", "."),
        "write_file,read_text_file,list_directory",
        tuple(map(write_file, WORDS)),
        {"cwd": "${EPISODE_DIR}"},
    ),
    Candidate(
        "mcp-server-sqlite",
        ("uvx", "--with", "mcp==1.30.0", "mcp-server-sqlite@2025.4.25", "--db-path", "trees.db"),
        "read_query,write_query,list_tables,describe_table",
        tuple(map(plant, WORDS)),
        {"cwd": "${EPISODE_DIR}"},
    ),
)


def look(one: Candidate, folder: Path) -> str:
    """Audit a server; return what is printed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    one.files(folder)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HUDTUI_TRUST": str(folder)}

    def hudtui(*words: str) -> str:
        command = [sys.executable, "-m", "hudtui", *words]
        ended = subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        if ended.returncode not in (0, 1):
            raise SystemExit(f"{one.name}: {' '.join(words)}\n{ended.stdout}\n{ended.stderr}")
        return ended.stdout

    hudtui("config", "init", "--only", one.only, "-o", "made.yaml", "--json", "--", *one.command)
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
    with scripted_chat(player(one.plays)) as chat:
        env |= {"OPENAI_BASE_URL": chat.url, "OPENAI_API_KEY": "sk-none"}
        return hudtui("env", "audit", "made.yaml", "tasks.json", "-m", "best", "-n", "3")


def main() -> None:
    """Audit each server, and print what is said of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", help="the name of one server")
    given = parser.parse_args()
    with pages() as url:
        for one in (*CANDIDATES, *MORE, fetch(url)):
            if given.only in (None, one.name):
                print(f"== {one.name}\n{look(one, given.folder.resolve() / one.name)}", flush=True)


if __name__ == "__main__":
    main()
