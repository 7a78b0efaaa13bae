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
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(Path(__file__).parent)]

from from_zero import CANDIDATES, Candidate, Play, done, player  # noqa: E402
from support.scripted_chat import scripted_chat  # noqa: E402


def convert(zone: str, hour: str) -> Play:
    """Return a task for the clock of mcp-server-time."""
    return Play(
        f"It is 12:00 in UTC. How late is it in {zone}? Say HH:MM.",
        [{"reply": {"contains": f"{hour}:00"}, "name": "said"}],
        (f'<tool>convert_time("UTC", "12:00", "{zone}")</tool>', done(f"It is {hour}:00.")),
    )


ZONES = {"Asia/Tokyo": "21", "Asia/Dubai": "16", "Asia/Bangkok": "19", "America/Bogota": "07"}
MORE = (
    Candidate(
        "mcp-server-time",
        ("uvx", "mcp-server-time"),
        "convert_time",
        tuple(convert(zone, hour) for zone, hour in ZONES.items()),
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
    for one in (*CANDIDATES, *MORE):
        if given.only in (None, one.name):
            print(f"== {one.name}\n{look(one, given.folder.resolve() / one.name)}", flush=True)


if __name__ == "__main__":
    main()
