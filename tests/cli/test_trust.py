"""`hudtui trust`, `--trust`, and the question, as a user meets them."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shlex
import sys
import time
from pathlib import Path

import pytest
from support.command import hudtui


@pytest.fixture(autouse=True)
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUDTUI_TRUST", raising=False)


@pytest.fixture
def folder(own_world: Path) -> Path:
    server = {"command": "sh", "args": ["-c", "touch ran; cat"]}
    call = {"name": "x", "arguments": {}}
    task = {
        "id": "a",
        "prompt": "Play.",
        "mcp_config": {"a": server},
        "setup_tool": call,
        "evaluate_tool": call,
    }
    (own_world / "tasks.json").write_text(json.dumps([task]))
    (own_world / ".env").write_text("HUDTUI_BUDGET_RUN=2\nOPENAI_API_KEY=sk-0123456789abcdef\n")
    (own_world / "play.yaml").write_text(
        "parser: {use_thinking: false}\naction_mappings:\n  x: {_parser: {positional: []}, _tool: "
        "x}\n"
    )
    return own_world


PLAY = ("eval", "tasks.json", "--config", "play.yaml", "--policy", "random")


def test_show_agree_and_revoke(folder: Path) -> None:
    shown = hudtui("trust", "--show", code=1).stdout
    assert "The files here would have hudtui" in shown
    for line in (
        "sh -c 'touch ran; cat'   [tasks.json]",
        "OPENAI_API_KEY   [.env]",
        "HUDTUI_BUDGET_RUN=2   [.env]",
    ):
        assert line in shown
    assert "sk-0123" not in shown
    assert (
        "OPENAI_API_KEY (line 2) stand in .env, which is not trusted, and do not count"
        in hudtui("settings").stderr
    )
    asked = hudtui("trust", "--yes")
    assert (
        f"{folder} is trusted" in asked.stderr and "do not count" not in hudtui("settings").stderr
    )
    state = json.loads(hudtui("trust", "--show", "--json").stdout)
    assert state["trusted"] and {power["kind"] for power in state["powers"]} == {
        "command",
        "key",
        "limit",
    }
    assert "You have agreed" in hudtui("trust", "--show").stdout
    (folder / ".env").write_text("HUDTUI_BUDGET_RUN=1\nOPENAI_API_KEY=sk-0123456789abcdef\n")
    changed = hudtui("trust", "--show", code=1).stdout
    assert "HUDTUI_BUDGET_RUN=1" in changed.partition("The files here would")[2]
    assert "HUDTUI_BUDGET_RUN=2" in changed.partition("instead of what you agreed to before")[2]
    assert "not trusted any more" in hudtui("trust", "--revoke").stderr
    assert not json.loads(hudtui("trust", "--show", "--json", code=1).stdout)["trusted"]
    assert not (folder / "ran").exists()


def test_a_folder_without_powers_needs_no_trust(own_world: Path) -> None:
    assert "need no agreement" in hudtui("trust", "--show").stdout
    assert "was not trusted" in hudtui("trust", "--revoke").stderr


def test_without_a_terminal_nothing_is_started(folder: Path) -> None:
    for words in (
        PLAY,
        ("runs", "start", "tasks.json", "--config", "play.yaml", "--policy", "random"),
        ("gpus",),
        ("settings", "test"),
    ):
        refused = hudtui(*words, code=2).stderr
        assert "this folder is not trusted" in refused and "hudtui --trust" in refused
    assert "hudtui cannot ask" in hudtui("trust", code=2).stderr or not (folder / "ran").exists()
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("claude.json", "hudtui trust"),
        (".mcp.json", "hudtui trust"),
        (".vscode/mcp.json", "hudtui trust"),
        ("of others/a b.json", "hudtui trust 'of others/a b.json'"),
        ("/elsewhere.json", "hudtui trust {}/elsewhere.json"),
        ("large.json", "hudtui trust large.json"),
    ],
)
def test_the_command_of_the_advice_is_the_one_that_works(
    own_world: Path, tmp_path: Path, file: str, command: str
) -> None:
    path = tmp_path / file[1:] if file.startswith("/") else own_world / file
    path.parent.mkdir(exist_ok=True)
    server = {"command": "sh", "args": ["-c", "touch ran; exit 1"], "cwd": str(own_world)}
    text = json.dumps({"servers" if "vscode" in file else "mcpServers": {"odd": server}})
    path.write_text(text + " " * (9 * 1024 * 1024 if file == "large.json" else 0))
    words = ("env", "show", str(path))
    refused = hudtui(*words, code=2).stderr
    advised = re.findall(r"agree with `(.*?)`", refused)
    assert advised == [command.format(tmp_path)] and f"`{advised[0]} --show`" in refused, refused
    assert not (own_world / "ran").exists()
    arguments = shlex.split(advised[0])[1:]
    assert "touch ran" in hudtui(*arguments, "--show", code=1).stdout
    hudtui(*arguments, "--yes")
    done = hudtui(*words, code=None)
    assert "not trusted" not in done.stderr and (own_world / "ran").exists(), done.stderr


def test_servers_of_a_large_task_file_are_agreed_to_by_its_name(folder: Path) -> None:
    (folder / ".env").unlink()
    (task,) = json.loads((folder / "tasks.json").read_text())
    (folder / "tasks.json").write_text(json.dumps([{**task, "prompt": "x" * 9_000_000}]))
    refused = hudtui(*PLAY, code=2).stderr
    assert "agree with `hudtui trust tasks.json`" in refused
    assert "touch ran" not in hudtui("trust", "--show").stdout
    hudtui("trust", "tasks.json", "--yes")
    assert "touch ran" in hudtui("trust", "tasks.json", "--show").stdout


def test_a_file_that_is_not_there_is_said(folder: Path) -> None:
    assert "no such file" in hudtui("trust", "nowhere.json", code=2).stderr


def test_looking_needs_no_trust(folder: Path) -> None:
    for words in (
        ("tasks", "check", "tasks.json"),
        ("lint", "play.yaml"),
        ("runs",),
        ("settings",),
        ("doctor",),
    ):
        done = hudtui(*words, code=None)
        assert "not trusted, and this needs" not in done.stderr
    looked = (
        "rl",
        "--dry-run",
        "--json",
        "--host",
        "local",
        "--engine",
        "rollouts",
        "--policy",
        "random",
        "--config",
        "play.yaml",
        "tasks.json",
    )
    assert json.loads(hudtui(*looked).stdout)["ready"]
    assert not (folder / "ran").exists()


def test_scripts_say_that_they_trust(folder: Path) -> None:
    done = hudtui("--trust", *PLAY, code=1)  # the program starts, and is no MCP server
    assert (folder / "ran").exists() and "not trusted" not in done.stderr
    assert json.loads(hudtui("trust", "--show", "--json").stdout)["trusted"]


@pytest.mark.parametrize(
    "words", [("--trust", "runs", "-C", "inner"), ("runs", "list", "--trust", "-C", "inner")]
)
def test_the_folder_that_is_trusted_is_the_one_the_command_works_in(
    folder: Path, words: tuple[str, ...]
) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / ".env").write_text("HUDTUI_BUDGET_RUN=2\n")
    hudtui(*words)
    assert json.loads(hudtui("trust", "--show", "--json").stdout)["trusted"]
    os.chdir(folder)
    assert not json.loads(hudtui("trust", "--show", "--json", code=1).stdout)["trusted"]


def on_terminal(words: tuple[str, ...], answer: str) -> str:
    """What a person sees who gives this answer to the first question."""
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [sys.executable, "-P", "-m", "hudtui", *words])
    seen, answered, until = b"", False, time.monotonic() + 100
    try:
        while time.monotonic() < until:
            if not select.select([terminal], [], [], 1)[0]:
                if answered:
                    os.write(terminal, b"\x04")  # whatever else is asked has no answer
                continue
            try:
                data = os.read(terminal, 10_000)
            except OSError:
                break
            if not data:
                break
            seen += data
            if not answered and b"Trust these files?" in seen:
                answered = True
                os.write(terminal, answer.encode())
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return seen.decode()


def test_a_person_is_asked_once_and_the_command_goes_on(folder: Path) -> None:
    said = on_terminal(PLAY, "n\n")
    assert (
        "touch ran; cat" in said
        and "Trust these files?" in said
        and "this folder is not trusted" in said
    )
    assert not (folder / "ran").exists()
    said = on_terminal(PLAY, "y\n")
    assert "Trust these files?" in said
    assert (folder / "ran").exists(), said
    assert "Trust these files?" not in on_terminal(PLAY, "")


SEED = (
    "HUD_API_KEY=sk-hud-0123456789\nPRIME_API_KEY=pit-0123456789ab\n"
    "WANDB_API_KEY=wandb-0123456789\n"
)
"""The three lines that a new user is told to begin with."""


@pytest.fixture
def fresh(own_world: Path) -> Path:
    (own_world / ".env").write_text(SEED)
    (own_world / "tasks.json").write_text(
        json.dumps(
            [
                {
                    "id": "a",
                    "prompt": "Play.",
                    "mcp_config": {
                        "hud": {
                            "url": "https://mcp.hud.ai/v3/mcp",
                            "headers": {"Authorization": "Bearer $HUD_API_KEY"},
                        }
                    },
                    "setup_tool": {"name": "setup", "arguments": {}},
                    "evaluate_tool": {"name": "evaluate", "arguments": {}},
                }
            ]
        )
    )
    return own_world


@pytest.mark.parametrize(
    "words",
    [
        ("rl",),
        ("rl", "--gpus", "4xH100", "--provider", "prime"),
        ("rl", "tasks.json", "--dry-run"),
        ("rl", "tasks.json", "--provider", "prime", "--dry-run"),
        ("rehearse",),
        ("runs", "start", "tasks.json"),
        ("pods",),
        ("pods", "offers"),
        ("pods", "wallet"),
        ("pods", "keys", "list"),
        ("settings", "test"),
        ("settings", "test", "PRIME_API_KEY"),
        ("hf", "tasks.json", "--name", "my-org/my-set"),
        ("tasks", "check", "tasks.json"),
        ("env", "show", "https://127.0.0.1:9/mcp", "-H", "Authorization=Bearer $HUD_API_KEY"),
        ("env", "show", "text-2048", "--env", "HUD_API_KEY"),
        ("doctor",),
        ("settings",),
    ],
    ids=" ".join,
)
def test_a_key_in_an_untrusted_file_is_never_called_missing(
    fresh: Path, words: tuple[str, ...]
) -> None:
    done = hudtui(*words, code=None)
    said = done.stdout + done.stderr
    assert "in .env" in said and "which is not trusted" in said and "hudtui trust" in said
    for name in ("HUD_API_KEY", "PRIME_API_KEY", "WANDB_API_KEY"):
        assert f"{name} is not set" not in said and not re.search(rf"{name}\s+not set", said)
        assert f"settings set {name}" not in said
    assert "Make one at" not in said and "0123456789" not in said


def test_rl_asks_about_the_file_and_goes_on(fresh: Path) -> None:
    said = on_terminal(("rl", "--config", "none.yaml"), "y\n")
    assert said.count("Trust these files?") == 1
    before, after = said.split("Trust these files?")
    assert all(name in before for name in ("HUD_API_KEY", "PRIME_API_KEY", "WANDB_API_KEY"))
    assert "which is not trusted" not in after and "tasks" in after, said
    assert all(f".env:{line})" in hudtui("settings").stdout for line in (1, 2, 3)), (
        "they count from now on"
    )
    (fresh / ".env").write_text(f"{SEED}HF_TOKEN=hf-0123456789\n")
    said = on_terminal(("rl", "--config", "none.yaml"), "n\n")
    assert "HF_TOKEN" in said and "HUD_API_KEY" not in said.partition("Trust these files?")[0]
    assert "HF_TOKEN stands in .env, line 4, which is not trusted" in said
    shown = hudtui("settings").stdout
    assert shown.count("which is not trusted") == 1 and ".env:1)" in shown, (
        "the others count, and only the new one waits"
    )


def test_a_dry_run_asks_at_a_terminal_and_shows_the_plan_whatever_the_answer(fresh: Path) -> None:
    words = ("rl", "tasks.json", "--dry-run", "--host", "local", "--engine", "rollouts")
    said = on_terminal(words, "n\n")
    assert (
        "Trust these files?" in said
        and "HUD_API_KEY stands in .env, line 1, which is not trusted" in said
    )
    said = on_terminal(words, "y\n")
    assert (
        "Trust these files?" in said
        and "which is not trusted" not in said
        and "HUD_API_KEY is not set" not in said
    )
    assert "can be used" in said
