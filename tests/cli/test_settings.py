from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.settings import user_file


def hudtui(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(build(), ["settings", *arguments], input=stdin)


@pytest.fixture
def service() -> Iterator[tuple[str, list[str]]]:
    """A stub of every service at once: knows the keys that begin with `good`. Gives its address and
    what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            good = "good" in (self.headers["Authorization"] or "")
            body = json.dumps({"name": "alice", "data": [{}]}).encode() if good else b"{}"
            self.send_response(200 if good else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_list(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (own_world / ".env").write_text(
        "HUD_API_KEY=secret-value-0123456\nHUD_CLIENT_TIMEOUT=soon\nbad line\n"
    )
    monkeypatch.setenv("HF_TOKEN", "short-secret")
    for arguments in ((), ("list",)):
        result = hudtui(*arguments)
        assert result.exit_code == 0
        assert "secret" not in result.output
        assert f"••••3456  ({own_world}/.env:1)" in result.stdout
        assert "••••  (environment)" in result.stdout
        assert "https://mcp.hud.ai/v3/mcp  (default)" in result.stdout
        assert "PRIME_API_KEY" in result.stdout
        assert "renting GPUs" in result.stdout
        assert "HUD_CLIENT_TIMEOUT: this is not a number of seconds" in result.stderr
        assert ".env:3" in result.stderr


def test_list_json(own_world: Path) -> None:
    (own_world / ".env").write_text("HUD_API_KEY=secret-value-0123456\n")
    data = json.loads(hudtui("--json").stdout)
    assert data == json.loads(hudtui("list", "--json").stdout)
    assert data["platform"] == "hud"
    assert data["user_file"] == str(user_file())
    entries = {entry["name"]: entry for entry in data["settings"]}
    assert entries["HUD_API_KEY"] == {
        "name": "HUD_API_KEY",
        "about": "HUD: environments and traces",
        "kind": "secret",
        "secret": True,
        "set": True,
        "value": "••••3456",
        "origin": ".env",
        "file": str(own_world / ".env"),
        "line": 1,
        "hides": [],
        "problem": None,
        "testable": True,
    }
    assert entries["HF_TOKEN"]["set"] is False
    assert "secret-value" not in json.dumps(data)


def test_set_from_a_pipe(own_world: Path) -> None:
    env = own_world / ".env"
    env.write_text("# mine\nA=1\n")
    result = hudtui("set", "HUD_API_KEY", stdin="k-123\n")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "k-123" not in result.stderr
    assert env.read_text() == "# mine\nA=1\nHUD_API_KEY=k-123\n"
    assert stat.S_IMODE(env.stat().st_mode) == 0o600


def test_set_for_the_user(own_world: Path) -> None:
    result = hudtui("set", "--user", "HF_TOKEN", "--json", stdin="hf_1")
    assert json.loads(result.stdout) == {
        "name": "HF_TOKEN",
        "file": str(user_file()),
        "origin": "user file",
    }
    assert user_file().read_text() == "HF_TOKEN=hf_1\n"
    assert not (own_world / ".env").exists()


def test_plain_values_may_stand_on_the_command_line(own_world: Path) -> None:
    assert hudtui("set", "HUD_MCP_URL", "http://127.0.0.1:1/mcp").exit_code == 0
    assert (own_world / ".env").read_text() == "HUD_MCP_URL=http://127.0.0.1:1/mcp\n"
    result = hudtui("set", "MY_REGION", "eu north")
    assert (own_world / ".env").read_text().endswith("MY_REGION='eu north'\n")
    assert "not a setting of hudtui itself" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "stdin", "words"),
    [
        (("HUD_API_KEY", "k-123"), None, "command line"),
        (("MY_OWN_TOKEN", "k-123"), None, "command line"),
        (("HUD_API_KEY=k-123",), None, "settings set HUD_API_KEY VALUE"),
        (("HUD_API_KEY=k-123", "--force"), None, "two words"),
        (("HUD_API_KEY",), "", "no value"),
        (("HUD_API_KEY",), "  \n", "no value"),
        (("HUD_API_KEY",), "your-hud-api-key", "placeholder"),
        (("HUD_API_KEY",), "two words", "one word"),
        (("HUD_APY_KEY",), "k-123", "Did you mean HUD_API_KEY?"),
        (("A-B", "x"), None, "name"),
        (("HUD_MCP_URL", "localhost"), None, "http://"),
    ],
)
def test_what_is_not_set(
    own_world: Path, arguments: tuple[str, ...], stdin: str | None, words: str
) -> None:
    result = hudtui("set", *arguments, "--json", stdin=stdin)
    assert result.exit_code == 2
    assert words in result.stderr
    assert "error" in json.loads(result.stdout)
    assert "k-123" not in result.output
    assert not (own_world / ".env").exists()


def test_force_takes_a_name_that_looks_like_a_slip(own_world: Path) -> None:
    assert hudtui("set", "--force", "HF_TOKEN2", stdin="x").exit_code == 0
    assert (own_world / ".env").read_text() == "HF_TOKEN2=x\n"


def test_another_value_still_counts(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUD_API_KEY", "other")
    result = hudtui("set", "HUD_API_KEY", stdin="k-123")
    assert "Another value takes precedence: from environment" in result.stderr
    result = hudtui("unset", "HUD_API_KEY")
    assert "still has a value: from environment" in result.stderr


def test_unset(own_world: Path) -> None:
    (own_world / ".env").write_text("# c\nHUD_API_KEY=k\n")
    result = hudtui("unset", "HUD_API_KEY", "--json")
    assert json.loads(result.stdout)["removed"] is True
    assert (own_world / ".env").read_text() == "# c\n"
    result = hudtui("unset", "HUD_API_KEY", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["removed"] is False
    assert "was not in" in result.stderr


def test_a_broken_file_is_left_alone(own_world: Path) -> None:
    (own_world / ".env").write_bytes(b"A=\xff\n")
    result = hudtui("set", "HUD_API_KEY", stdin="k-123")
    assert result.exit_code == 2
    assert "UTF-8" in result.stderr
    assert (own_world / ".env").read_bytes() == b"A=\xff\n"


def test_testing_keys(own_world: Path, service: tuple[str, list[str]]) -> None:
    url, asked = service
    (own_world / ".env").write_text(
        f"HF_TOKEN=good-1\nHF_ENDPOINT={url}\nOPENAI_API_KEY=bad-1\nOPENAI_BASE_URL={url}/v1\n"
    )
    result = hudtui("test", "HF_TOKEN")
    assert result.exit_code == 0
    assert "✓ HF_TOKEN: The key works: alice." in result.stdout
    assert asked == ["/api/whoami-v2"]
    result = hudtui("test", "--json")
    assert result.exit_code == 1
    verdicts = {entry["name"]: entry["verdict"] for entry in json.loads(result.stdout)["keys"]}
    assert verdicts == {"HF_TOKEN": "works", "OPENAI_API_KEY": "refused"}
    assert sorted(asked) == ["/api/whoami-v2", "/api/whoami-v2", "/v1/models"]
    assert "bad-1" not in result.output


def test_testing_without_an_answer(own_world: Path, service: tuple[str, list[str]]) -> None:
    (own_world / ".env").write_text("HF_TOKEN=good-1\nHF_ENDPOINT=http://127.0.0.1:1\n")
    result = hudtui("test")
    assert result.exit_code == 3
    assert "No connection to 127.0.0.1:1" in result.stdout


def test_testing_nothing(own_world: Path) -> None:
    assert "No key is set" in hudtui("test").stderr
    assert hudtui("test", "HF_TOKEN").exit_code == 1
    result = hudtui("test", "HUD_MCP_URL")
    assert result.exit_code == 2
    assert "HF_TOKEN" in result.stderr


def test_a_key_is_typed_unseen(own_world: Path) -> None:
    """In a real terminal: the key is asked for, not echoed, and kept."""
    terminal, other_end = pty.openpty()
    command = [sys.executable, "-m", "hudtui", "settings", "set", "HUD_API_KEY"]
    child = subprocess.Popen(
        command, stdin=other_end, stdout=other_end, stderr=other_end, start_new_session=True
    )
    os.close(other_end)
    shown = b""
    while b"HUD_API_KEY: " not in shown:  # the blank comes once the echo is off
        shown += os.read(terminal, 1000)
    os.write(terminal, b"typed-key-123\n")
    try:
        while chunk := os.read(terminal, 1000):
            shown += chunk
    except OSError:  # the terminal is gone with the child
        pass
    os.close(terminal)
    assert child.wait(60) == 0
    assert b"typed-key-123" not in shown
    assert (own_world / ".env").read_text() == "HUD_API_KEY=typed-key-123\n"


def test_help_names_the_commands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hudtui", "settings", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    for word in ("list", "set", "unset", "test"):
        assert word in done.stdout
