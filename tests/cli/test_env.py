"""`hudtui env` as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import servers
from typer.testing import CliRunner

from hudtui.cli.app import build

odd, marker = servers.odd, servers.marker


def hudtui(*words):
    return CliRunner().invoke(build(), [str(word) for word in words])


def test_analyze_in_words_then_from_memory_then_afresh():
    first = hudtui("env", "analyze", "text-2048")
    assert first.exit_code == 0, first.output
    for line in (
        "server      text-2048 1.0.0",
        "tools (1)",
        "  move(direction)",
        '      direction  string  (one of "left", "right", "up", "down")  Where the tiles go',
        "  setup(name, arguments?)",
        "      functions: board",
    ):
        assert line in first.stdout.splitlines()
    assert first.stderr == ""
    again = hudtui("env", "analyze", "text-2048")
    assert again.stdout == first.stdout
    assert again.stderr == "as inspected just now; --live inspects it again\n"
    (file,) = Path(".hudtui/analyses").iterdir()
    data = json.loads(file.read_text())
    data["analysis"]["analyzed_at"] = "2020-01-01T00:00:00+00:00"
    file.write_text(json.dumps(data))
    assert "days ago; --live inspects it again" in hudtui("env", "analyze", "text-2048").stderr
    live = hudtui("env", "analyze", "text-2048", "--live")
    assert live.stderr == ""
    assert "2020" not in live.stdout


def test_analyze_as_json():
    result = hudtui("env", "analyze", "text-2048", "--json")
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert list(found)[:9] == [
        "source",
        "server",
        "protocol",
        "tools",
        "hubs",
        "resources",
        "prompts",
        "timings",
        "warnings",
    ]
    assert found["server"] == {"name": "text-2048", "version": "1.0.0"}
    assert set(found["tools"][0]) == {
        "name",
        "description",
        "input_schema",
        "kind",
        "hub",
        "deprecated",
    }
    assert found["hubs"]["setup"] == ["board"]
    assert {tool["kind"] for tool in found["tools"]} == {"agent", "setup", "evaluate", "hidden"}


def test_analyze_a_command(odd):
    result = hudtui("env", "analyze", "--json", "--", *odd("malformed"))
    found = json.loads(result.stdout)
    assert [tool["name"] for tool in found["tools"]] == [
        "no_schema",
        "bad_schema",
        "odd_description",
        "good",
    ]
    assert found["tools"][0]["input_schema"] is None
    assert len(found["warnings"]) == 5
    shown = hudtui("env", "analyze", "--live", "--", *odd("malformed"))
    assert "  no_schema(…)  (no schema)" in shown.stdout
    assert shown.stderr.count("warning: ") == 5


def test_options_after_the_dashes_belong_to_the_command():
    result = hudtui(
        "env",
        "analyze",
        "--json",
        "--",
        sys.executable,
        "-m",
        "hudtui.envs.text_2048",
        "--seed",
        "3",
    )
    assert json.loads(result.stdout)["server"]["name"] == "text-2048"


def test_analyze_a_lock_file_offline_and_from_the_current_folder():
    Path("hud.lock.yaml").write_text(
        "image: org/env:1\ntools:\n- {name: go, description: Go, inputSchema: {type: object}}\n"
    )
    for words in (("hud.lock.yaml",), (".",), ()):
        result = hudtui("env", "analyze", *words, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["image"] == "org/env:1"
        assert (
            result.stderr
            == "as listed in the lock file; --live starts the environment and inspects it\n"
        )
    assert not Path(".hudtui").exists()


def test_a_read_only_workspace_is_a_note_and_no_failure():
    Path(".hudtui").write_text("in the way")
    result = hudtui("env", "analyze", "text-2048", "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: The analysis is not kept: ")


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["analyze", "./missing"], 2, "error: ./missing: there is no such file or folder"),
        (
            ["analyze", "--", "no-such-program"],
            2,
            "error: there is no program called 'no-such-program'",
        ),
        (
            ["analyze", "http://127.0.0.1:9/mcp"],
            3,
            "error: nothing answers at http://127.0.0.1:9/mcp",
        ),
        (["analyze", "text-2048", "--", "x"], 2, "error: text-2048: there are two sources"),
        (["analyze", "text-2048", "--header", "A=b"], 2, "error: headers are for sources"),
        (["call", "text-2048", "move", "{"], 2, "error: the arguments:1:2: this is not valid JSON"),
        (["call", "text-2048", "move", "[]"], 2, "error: a tool's arguments are a JSON object"),
        (
            ["call", "text-2048", "move", "@missing.json"],
            2,
            "error: missing.json: there is no such file",
        ),
    ],
)
def test_failures_in_words_and_as_json(words, code, message):
    result = hudtui("env", *words)
    assert result.exit_code == code
    assert result.stderr.splitlines()[0].startswith(message)
    assert result.stdout == ""
    result = hudtui("env", words[0], "--json", *words[1:])
    assert result.exit_code == code
    assert json.loads(result.stdout)["error"]["what"] in result.stderr.splitlines()[0]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["analyze", "--"], "there is no command after it"),
        (["analyze", "text-2048", "--header", "novalue"], "'novalue' is not NAME=VALUE"),
        (["analyze", "text-2048", "--timeout", "0"], "0.1"),
        (["call"], "name a source and a tool"),
        (["call", "text-2048"], "name a tool"),
        (["call", "text-2048", "move", "{}", "more"], "Quote the JSON text"),
    ],
)
def test_usage(words, message):
    result = hudtui("env", *words)
    assert result.exit_code == 2
    assert message in result.stderr


def test_headers_take_settings_and_a_wrong_key_is_named(monkeypatch):
    monkeypatch.delenv("MY_KEY", raising=False)
    result = hudtui(
        "env", "analyze", "http://127.0.0.1:9/mcp", "-H", "Authorization: Bearer $MY_KEY"
    )
    assert result.exit_code == 2
    assert "MY_KEY is not set, and the header Authorization" in result.stderr
    Path(".env").write_text("MY_KEY=sk-in-dot-env\n")
    result = hudtui(
        "env", "analyze", "http://127.0.0.1:9/mcp", "-H", "Authorization=Bearer $MY_KEY"
    )
    assert result.exit_code == 3
    assert "sk-in-dot-env" not in result.output


def test_variables_are_passed_on_by_name(odd):
    Path(".env").write_text("MY_API_KEY=sk-in-dot-env\n")
    result = hudtui("env", "analyze", "--env", "MY_API_KEY", "--", *odd("tell_secret"))
    assert result.exit_code == 3
    assert "bad key ***" in result.stderr
    assert "bad key None" in hudtui("env", "analyze", "--", *odd("tell_secret")).stderr


def test_call_in_words_and_as_json():
    result = hudtui(
        "env", "call", "text-2048", "setup", '{"name": "board", "board": [[2, 2], [0, 4]]}'
    )
    assert result.exit_code == 0
    assert result.stdout.splitlines()[2:] == ["   2    2", "   .    4"]
    Path("args.json").write_text('{"direction": "left"}')
    found = json.loads(hudtui("env", "call", "text-2048", "move", "@args.json", "--json").stdout)
    assert (found["tool"], found["is_error"], found["content"][0]["type"]) == (
        "move",
        False,
        "text",
    )
    assert found["structured"]["attempts"] == 1


def test_call_through_a_command(odd):
    result = hudtui("env", "call", "good", '{"x": 1}', "--", *odd("plain"))
    assert (result.exit_code, result.stdout) == (0, '{"x": 1}\n')


def test_call_shows_what_is_no_text(odd):
    lines = hudtui("env", "call", "good", "--", *odd("blocks")).stdout.splitlines()
    assert lines[0] == "one"
    assert "[image: image/png, 6 bytes; --json has it]" in lines


def test_an_error_answer_has_its_own_exit_code():
    result = hudtui("env", "call", "text-2048", "move", '{"direction": "north"}')
    assert result.exit_code == 4
    assert "one of left, right, up, down" in result.stdout
    assert result.stderr == "error: the tool move answered with an error\n"
    result = hudtui("env", "call", "text-2048", "mve", "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout)["is_error"] is True
    assert "did you mean move?" in result.stderr


def test_list():
    assert hudtui("env", "list").stdout.startswith("text-2048")
    (entry,) = json.loads(hudtui("env", "list", "--json").stdout)
    assert entry["mcp_config"] == {
        "text-2048": {"command": "python", "args": ["-P", "-m", "hudtui.envs.text_2048"]}
    }


def test_interrupt_ends_a_hanging_environment_at_once(odd, marker):
    command = [
        sys.executable,
        "-m",
        "hudtui",
        "env",
        "analyze",
        "--",
        *odd("stubborn", marker.word),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ}
    )
    try:
        deadline = time.monotonic() + 30
        while len(marker.alive()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=45)  # the look itself would go on for its 60 s
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert out == b""
    assert err.decode().splitlines() == ["stopped"]
    assert marker.alive() == []


def test_the_sources_are_told_apart_without_loading_the_sdk():
    code = (
        "import sys; from hudtui.cli.app import build; build();from hudtui.core.environment.source "
        "import parse_source; from hudtui.core.environment import "
        "cache;cache.load_analysis(parse_source('text-2048'));print([m for m in ('mcp', 'httpx2', "
        "'pydantic', 'textual', 'jsonschema') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_key_that_the_server_sends_back_is_masked(odd, monkeypatch, options):
    monkeypatch.setenv("MY_API_KEY", "sk-not-to-be-shown-1234")
    result = hudtui("env", "call", "good", *options, "--env", "MY_API_KEY", "--", *odd("echo_key"))
    assert result.exit_code == 0, result.output
    assert "the key is ***" in result.stdout
    assert "sk-not" not in result.output


@pytest.mark.parametrize(
    "words", [["python3", "-m", "hudtui.envs.text_2048"], ["python3", "-x", "--trust"]]
)
def test_a_command_without_its_dashes_is_offered_as_one(own_world: Path, words: list[str]) -> None:
    for before in (["env", "show"], ["rl", "init"]):
        done = CliRunner().invoke(build(), [*before, *words])
        told = " ".join(done.stderr.replace("│", " ").split())
        assert done.exit_code == 2 and f"{' '.join(before)} -- {' '.join(words)}" in told, told
    unknown = CliRunner().invoke(build(), ["env", "show", "nosuch-program", "-x"]).stderr
    assert "is a program" not in unknown
