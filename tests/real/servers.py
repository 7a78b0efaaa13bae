"""MCP servers from the package indexes, as a user meets them: analyzed, configured, evaluated, and
served over OpenEnv.

Run by hand: it fetches three packages from PyPI and three from npm, into a folder that is removed
at the end.

    .venv/bin/python tests/real/servers.py [--keep DIR] [NAME ...]
    .venv/bin/python tests/real/servers.py --smoke

For each server: `hudtui env analyze`, `hudtui config init` and `check`, `hudtui eval` with scripted
replies through an endpoint on loopback, and `hudtui env serve`, played by a client that sends the
frames of `GenericEnvClient`. None of these servers judges anything, and only the task of
`filesystem` names an `evaluate_tool`: the reward is code of the user's, the share of answers that
hold what the server is known to answer. It has to be 1 in both, and the whole reward equal. Prints
a table in Markdown. --smoke does so with the server that is installed beside hudtui for its tests.
"""

from __future__ import annotations

import argparse
import asyncio
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.openenv_client import connected  # noqa: E402
from support.scripted_chat import scripted_chat  # noqa: E402

PYTHON = (
    "mcp-server-time==2026.10.19",
    "mcp-server-fetch==2026.10.24",
    "mcp-server-git==2026.10.19",
)
NODE = tuple(
    f"@modelcontextprotocol/server-{name}@2026.8.31"
    for name in ("everything", "filesystem", "memory")
)
JUDGE = """\
EXPECTED = {expected!r}


def answered(episode, task):
    pairs = zip(EXPECTED, episode.turns)
    found = [text.lower() in turn.observation.lower() for text, turn in pairs]
    return sum(found) / len(EXPECTED)
"""
PAGE = b"<html><head><title>A page</title></head><body><p>Served on loopback.</p></body></html>"


@dataclass(frozen=True)
class Server:
    """A server and an episode with it: calls, each with a text that its answer holds."""

    name: str
    command: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    evaluate: dict[str, Any] | None = None
    """The call that judges; None: the user's code alone does."""
    env: Mapping[str, str] = field(default_factory=dict)
    fresh: Callable[[], object] = lambda: None
    """Sets its state up anew."""


def install(place: Path) -> None:
    """Install all servers below a folder, once."""
    if not (place / "py").exists():
        subprocess.run([sys.executable, "-m", "venv", place / "py"], check=True)
        subprocess.run(
            [place / "py/bin/python", "-m", "pip", "install", "--quiet", *PYTHON], check=True
        )
    if not (place / "node_modules").exists():
        npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--ignore-scripts"]
        subprocess.run([*npm, "--prefix", str(place), *NODE], check=True)


def servers(place: Path, page: str) -> list[Server]:
    """The servers, with state below `place`."""
    py, node = str(place / "py/bin"), str(place / "node_modules/.bin")
    state = place / "state"
    git, files, graph = state / "git", state / "files", state / "memory.jsonl"

    def repository() -> None:
        shutil.rmtree(git, ignore_errors=True)
        git.mkdir(parents=True)
        (git / "new.txt").write_text("new\n")
        for words in (
            ["init", "-q", "-b", "main"],
            ["config", "user.name", "A"],
            ["config", "user.email", "a@b.example"],
        ):
            subprocess.run(["git", "-C", git, *words], check=True)

    def folder() -> None:
        shutil.rmtree(files, ignore_errors=True)
        files.mkdir(parents=True)

    result = files / "result.json"
    entity = (
        '[{"name": "Ada", "entityType": "person", "observations": ["wrote the first program"]}]'
    )
    return [
        Server(
            "time",
            (f"{py}/mcp-server-time", "--local-timezone", "Etc/UTC"),
            (
                ('convert_time("Europe/Paris", "12:30", "Asia/Tokyo")', '"time_difference"'),
                ('convert_time("Nowhere/City", "12:30", "Asia/Tokyo")', "error"),
            ),
        ),
        Server(
            "fetch",
            (f"{py}/mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
            (
                (f'fetch("{page}")', "Served on loopback."),
                (f'fetch(url="{page}", raw=true, max_length=30)', "<html>"),
            ),
        ),
        Server(
            "git",
            (f"{py}/mcp-server-git", "--repository", str(git)),
            (
                (f'git_status("{git}")', "new.txt"),
                (f'git_add("{git}", ["new.txt"])', "staged"),
                (f'git_commit("{git}", "The first one")', "committed"),
                (f'git_log("{git}")', "The first one"),
            ),
            fresh=repository,
        ),
        Server(
            "everything",
            ("node", f"{node}/mcp-server-everything"),
            (
                ('echo("naïve 数 🙂")', "naïve 数 🙂"),
                ("get_sum(19, 23)", "42"),
                ('get_structured_content("New York")', "temperature"),
                ("get_tiny_image()", "MCP logo"),
                ("trigger_long_running_operation(1, 2)", "completed"),
                ("get_sum(1)", "error"),
            ),
        ),
        Server(
            "filesystem",
            ("node", f"{node}/mcp-server-filesystem", str(files)),
            (
                (f'write_file("{result}", "{{\\"reward\\": 0.75}}")', "Successfully wrote"),
                (f'list_directory("{files}")', "result.json"),
                (f'get_file_info("{result}")', "isFile: true"),
                ('list_directory("/etc")', "denied"),
            ),
            evaluate={"name": "read_text_file", "arguments": {"path": str(result)}},
            fresh=folder,
        ),
        Server(
            "memory",
            ("node", f"{node}/mcp-server-memory"),
            (
                (f"create_entities({entity})", "Ada"),
                ('search_nodes("program")', "first program"),
                ('delete_entities(["Ada"])', "deleted"),
                ('open_nodes(["Ada"])', '"entities": []'),
            ),
            env={"MEMORY_FILE_PATH": str(graph)},
            fresh=lambda: graph.unlink(missing_ok=True),
        ),
    ]


class Walk:
    """One server, from its tools to its rewards."""

    def __init__(self, server: Server, place: Path) -> None:
        self.server = server
        self.folder = place / "work" / server.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.replies = [f"<think>On.</think>\n<tool>{call}</tool>" for call, _ in server.calls]
        self.replies.append("<think>Enough.</think>\n<tool>done()</tool>")
        home = place / "home"
        home.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OPENAI_", "HUD", "PRIME_"))
        }
        self.env = {
            **kept,
            "HOME": str(home),
            "HUDTUI_TRUST": str(place),
            "OPENAI_API_KEY": "a-key-of-a-test",
            **server.env,
        }

    def hudtui(self, *words: str) -> Any:
        """Run a command and return its JSON document."""
        command = [sys.executable, "-m", "hudtui", *words]
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        if done.returncode:
            raise SystemExit(
                f"{self.server.name}: hudtui {' '.join(words)} ended with {done.returncode}\n"
                f"{done.stderr}{done.stdout}"
            )
        return json.loads(done.stdout) if "--json" in words else done.stdout

    def run(self) -> list[str]:
        """Do all of it, and return the row of the table."""
        server = self.server
        server.fresh()
        passed = [word for name in server.env for word in ("--env", f"{name}={server.env[name]}")]
        found = self.hudtui("env", "analyze", "--live", "--json", *passed, "--", *server.command)
        self.hudtui("config", "init", "-o", "c.yaml", *passed, "--", *server.command)
        config = self.folder / "c.yaml"
        config.write_text(
            config.read_text().replace("\nrubric:\n", '\nrubric:\n  reward: "judge.py:answered"\n')
        )
        (self.folder / "judge.py").write_text(
            JUDGE.format(expected=[text for _, text in server.calls])
        )
        self.hudtui("config", "check", "c.yaml")
        place = {"command": server.command[0], "args": server.command[1:], "env": server.env}
        task = {
            "id": server.name,
            "prompt": "Use the tools.",
            "mcp_config": {server.name: place},
            "evaluate_tool": server.evaluate,
        }
        (self.folder / "tasks.json").write_text(json.dumps([task]))
        self.hudtui("tasks", "check", "tasks.json")
        episode = self.evaluated()
        served = asyncio.run(self.served())
        scores, last = episode["scores"], served[-1]
        for (call, expected), turn in zip(server.calls, episode["turns"], strict=False):
            if expected.lower() not in turn["observation"].lower():
                raise SystemExit(
                    f"{server.name}: {call} answered {turn['observation']!r}, without {expected!r}"
                )
        if (
            scores["own"] != {"answered": 1.0}
            or not last["done"]
            or last["reward"] != scores["reward"]
        ):
            raise SystemExit(
                f"{server.name}: the evaluation gives {scores}, the client of env serve {last}"
            )
        about = found["server"]
        errors = sum(turn["is_error"] for turn in episode["turns"])
        offers = ", ".join(
            f"{len(found.get(kind) or [])} {kind}" for kind in ("tools", "resources", "prompts")
        )
        return [
            f"{server.name} ({about['name']} {about['version']})",
            found["protocol"],
            offers,
            f"{len(server.calls)} calls, {errors} refused",
            f"{scores['reward']:.3f}",
        ]

    def evaluated(self) -> dict[str, Any]:
        """The episode of `hudtui eval`."""
        self.server.fresh()
        replies = self.replies

        def reply(messages: Sequence[dict[str, Any]]) -> str:
            return replies[sum(message["role"] == "assistant" for message in messages)]

        with scripted_chat(reply) as chat:
            model = ("--policy", "openai:scripted", "--base-url", chat.url)
            self.hudtui("eval", "tasks.json", "-c", "c.yaml", *model, "-o", "out", "--json")
        (line,) = (self.folder / "out" / "traces.jsonl").read_text().splitlines()
        found: dict[str, Any] = json.loads(line)
        if found["error"]:
            raise SystemExit(f"{self.server.name}: {found['error']}")
        return found

    async def served(self) -> list[dict[str, Any]]:
        """The answers of `hudtui env serve` to the same replies."""
        self.server.fresh()
        words = (
            sys.executable,
            "-m",
            "hudtui",
            "env",
            "serve",
            "c.yaml",
            "tasks.json",
            "--port",
            "0",
            "--no-token",
            "--json",
        )
        process = await asyncio.create_subprocess_exec(
            *words,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=self.env,
        )
        assert process.stdout is not None
        try:
            document = b""
            while not document.endswith(b"}\n"):
                line = await process.stdout.readline()
                if not line:
                    raise SystemExit(
                        f"{self.server.name}: env serve did not start\n"
                        f"{(await process.communicate())[1].decode()}"
                    )
                document += line
            async with connected(json.loads(document)["url"]) as client:
                await client.reset()
                return [await client.say(reply) for reply in self.replies]
        finally:
            process.terminate()
            await process.communicate()


def page_server() -> http.server.ThreadingHTTPServer:
    """A page on loopback for the server that fetches."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    """Install the servers, walk through each, print the table."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("names", nargs="*")
    options.add_argument(
        "--keep", type=Path, help="a folder that is kept, so that nothing is installed twice"
    )
    options.add_argument("--smoke", action="store_true", help="one server, nothing is installed")
    options.add_argument("--out", type=Path, help="with --smoke: its folder")
    given = options.parse_args()
    if given.smoke:
        place = given.out.absolute()
        place.mkdir()
        (place / "py").symlink_to(sys.prefix)
        walk(place, ("time",))
        return
    with tempfile.TemporaryDirectory(prefix="hudtui-servers-") as made:
        place = (given.keep or Path(made)).absolute()
        place.mkdir(exist_ok=True)
        install(place)
        walk(place, given.names)


def walk(place: Path, names: Sequence[str]) -> None:
    """Walk through the servers of these names, or all, and print the table."""
    page = page_server()
    try:
        print("| server | MCP | offers | played | reward |\n|---|---|---|---|---|")
        for server in servers(place, f"http://127.0.0.1:{page.server_address[1]}/page.html"):
            if not names or server.name in names:
                print(f"| {' | '.join(Walk(server, place).run())} |", flush=True)
    finally:
        page.shutdown()
        page.server_close()


if __name__ == "__main__":
    main()
