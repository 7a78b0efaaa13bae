from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.gym.config import load_config
from hudtui.core.yaml_doc import load_yaml

SERVER = [sys.executable, "-m", "hudtui.envs.text_2048"]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(build(), ["rl", *arguments])


def test_the_group_tells_of_its_commands() -> None:
    result = run("--help")
    assert (
        result.exit_code == 0
        and "init" in result.stdout
        and "run" in result.stdout
        and result.stderr == ""
    )


def test_the_bundled_environment(own_world: Path) -> None:
    result = run("init", "text-2048")
    assert result.exit_code == 0, result.output
    assert result.stdout == "configs/text-2048.yaml\n"
    assert "1 action: move, and done" in result.stderr
    assert "left out: setup (it sets up tasks)" in result.stderr
    assert (
        "hint: move has one parameter with few values: --per-value writes left() right() up() "
        "down()" in result.stderr
    )
    config = load_config(own_world / "configs" / "text-2048.yaml")
    assert list(config.mappings) == ["move"]
    assert config.job["metadata"] == {"environment": "text-2048"}
    checked = CliRunner().invoke(build(), ["lint", "configs/text-2048.yaml", "--env", "text-2048"])
    assert (checked.exit_code, checked.stdout) == (0, "nothing to report\n"), checked.output


def test_one_action_a_value(own_world: Path) -> None:
    result = run("init", "text-2048", "--per-value", "-o", "here.yaml")
    assert result.exit_code == 0 and result.stdout == "here.yaml\n" and "hint" not in result.stderr
    assert list(load_config(own_world / "here.yaml").mappings) == ["left", "right", "up", "down"]


def test_a_file_is_never_overwritten_unasked(own_world: Path) -> None:
    target = own_world / "mine.yaml"
    target.write_text("mine")
    result = run("init", "text-2048", "-o", "mine.yaml")
    assert result.exit_code == 2 and result.stdout == ""
    assert "mine.yaml: this file exists" in result.stderr and "--force" in result.stderr
    assert target.read_text() == "mine"
    assert run("init", "text-2048", "-o", "mine.yaml", "--force").exit_code == 0
    assert load_config(target).mappings


def test_nothing_is_started_when_the_file_is_there_already(own_world: Path) -> None:
    (own_world / "mine.yaml").write_text("mine")
    trace = own_world / "started"
    script = f"import pathlib; pathlib.Path({str(trace)!r}).touch()"
    result = run("init", "-o", "mine.yaml", "--", sys.executable, "-c", script)
    assert result.exit_code == 2 and not trace.exists()


def test_a_link_to_nowhere_is_a_file_too(own_world: Path) -> None:
    (own_world / "mine.yaml").symlink_to("elsewhere.yaml")
    assert run("init", "text-2048", "-o", "mine.yaml").exit_code == 2
    assert not (own_world / "elsewhere.yaml").exists()


def test_a_folder_as_output(own_world: Path) -> None:
    (own_world / "out").mkdir()
    assert run("init", "text-2048", "-o", "out").stdout == "out/text-2048.yaml\n"


def test_to_standard_output(own_world: Path) -> None:
    result = run("init", "text-2048", "--stdout", "--name", "my game")
    assert result.exit_code == 0
    document = load_yaml(result.stdout, name="x").data
    assert document["job"]["name"] == "RL Training - my game"
    assert not (own_world / "configs").exists()
    assert run("init", "text-2048", "--stdout", "-o", "x.yaml").exit_code == 2


def test_json(own_world: Path) -> None:
    result = run("init", "text-2048", "--per-value", "--json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["file"] == "configs/text-2048.yaml"
    assert (data["name"], data["environment"]) == ("text-2048", "text-2048")
    assert data["actions"][0] == {"name": "left", "tool": "move", "usage": "left()", "notes": []}
    assert data["left_out"] == [
        {"tool": "setup", "reason": "it sets up tasks"},
        {"tool": "evaluate", "reason": "it judges them"},
    ]
    assert data["per_value"] == {"move": ["left", "right", "up", "down"]} and data["findings"] == []
    assert (own_world / "configs" / "text-2048.yaml").read_text() == data["yaml"]
    assert json.loads(run("init", "text-2048", "--stdout", "--json").stdout)["file"] is None


def test_a_command_and_an_mcp_config(own_world: Path) -> None:
    assert run("init", "--", *SERVER).stdout == "configs/text_2048.yaml\n"
    (own_world / "games.json").write_text(
        json.dumps({"mcpServers": {"game": {"command": SERVER[0], "args": SERVER[1:]}}})
    )
    assert run("init", "games.json").stdout == "configs/games.yaml\n"
    first, second = (
        load_config(own_world / "configs" / name) for name in ("text_2048.yaml", "games.yaml")
    )
    assert first.mappings == second.mappings
    assert first.job["metadata"]["environment"] == shlex.join(SERVER)


def test_a_lock_file_is_read_and_nothing_started(own_world: Path) -> None:
    (own_world / "hud.lock.yaml").write_text(
        "version: '1.0'\n"
        "image: registry.example.com:5000/org/my-env:0.1@sha256:" + "0" * 64 + "\n"
        "tools:\n"
        "- name: setup\n  description: Begin\n"
        "- name: look\n  description: Look around\n"
    )
    result = run("init", ".")
    assert result.exit_code == 0, result.output
    assert result.stdout == "configs/my-env.yaml\n"
    assert "as listed in the lock file" in result.stderr
    assert "note: look: The server gave no schema" in result.stderr
    document = load_yaml((own_world / "configs" / "my-env.yaml").read_text(), name="x").data
    assert document["action_mappings"] == {"look": {"_tool": "look", "_parser": {"positional": []}}}
    assert document["job"]["metadata"]["environment"].startswith(
        "registry.example.com:5000/org/my-env:0.1@sha256:"
    )


@pytest.mark.parametrize(
    "arguments, code",
    [(("no such thing!",), 2), (("--", "/nonexistent/program"), None), (("--",), 2)],
)
def test_sources_that_cannot_be_used(
    arguments: tuple[str, ...], code: int | None, own_world: Path
) -> None:
    result = run("init", *arguments)
    assert result.exit_code not in (0, 1) and (code is None or result.exit_code == code)
    assert "Traceback" not in result.output
    assert not (own_world / "configs").exists()


def test_a_failure_in_json(own_world: Path) -> None:
    result = run("init", "no such thing!", "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"]["type"] == "SourceError"


def test_a_folder_that_cannot_be_written_to(own_world: Path) -> None:
    (own_world / "configs").write_text("a file where a folder is needed")
    result = run("init", "text-2048")
    assert result.exit_code == 2 and "cannot be written" in result.stderr


@pytest.mark.parametrize(
    "lock",
    [
        "image: org/env:1\n",
        "image: org/env:1\ntools: []\n",
        "version: '2.0'\nimages: {local: env}\ntasks: [{id: a}]\n",
    ],
)
@pytest.mark.parametrize("more", [(), ("--stdout",), ("--json",)])
def test_a_lock_file_without_tools_writes_nothing_and_says_what_to_do(
    own_world: Path, lock: str, more: tuple[str, ...]
) -> None:
    (own_world / "hud.lock.yaml").write_text(lock)
    result = run("init", *more)
    assert result.exit_code == 2 and "lists no tools" in result.stderr and "--live" in result.stderr
    assert not (own_world / "configs").exists() and "system_prompt" not in result.stdout


def test_an_environment_whose_tools_are_all_for_set_up_writes_nothing(own_world: Path) -> None:
    lock = (
        "image: org/env:1\ntools: [{name: setup, inputSchema: {type: object}}, {name: evaluate, "
        "inputSchema: {type: object}}]\n"
    )
    (own_world / "hud.lock.yaml").write_text(lock)
    result = run("init")
    assert (
        result.exit_code == 2
        and "Left out: setup" in result.stderr
        and not (own_world / "configs").exists()
    )
