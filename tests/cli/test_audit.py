import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command import hudtui

from hudtui.core.audit.checks import CHECKS
from hudtui.core.rollouts.trace import read_trace

CONFIG = "defaults: {max_turns: 6}\naction_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
    for name in ("left", "right", "up", "down")
)


def task(number, **changes):
    server = {"command": "${HUDTUI_PYTHON}", "args": ["-m", "hudtui.envs.text_2048"]}
    board = {"name": "board", "board_size": 3, "seed": number}
    return {
        "id": f"t{number}",
        "prompt": "Reach 64.",
        "mcp_config": {"env": server},
        "setup_tool": {"name": "setup", "arguments": board},
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
        **changes,
    }


SMALL = ("--crowd", "4", "--group", "3")


@pytest.fixture(autouse=True)
def project(own_world):
    Path("c.yaml").write_text(CONFIG)
    Path("tasks.json").write_text(json.dumps([task(1), task(2)]))
    return own_world


def test_the_bundled_environment_is_sound_and_its_episodes_are_kept():
    done = hudtui("env", "audit", "--json", "-o", "out", *SMALL)
    audit = json.loads(done.stdout)
    assert (audit["verdict"], audit["findings"]) == ("sound", [])
    assert audit["signal"]["value"] > 0
    assert "one episode at a time: 1 of " in done.stderr
    assert "many episodes at once: 1 of " in done.stderr
    players = {episode.info["policy"] for episode in read_trace(Path("out/weak/traces.jsonl"))}
    assert {"audit:nothing", "audit:random"} <= players
    assert json.loads(Path("out/audit.json").read_text())["verdict"] == "sound"
    listed = hudtui("rollouts", "list", "out")
    assert "audit:greedy" in listed.stdout or "t1" in listed.stdout


def test_a_finding_of_high_severity_is_exit_code_1_and_names_an_episode_that_opens():
    easy = {"name": "evaluate", "arguments": {"name": "max_number", "arguments": {"target": 4}}}
    Path("tasks.json").write_text(
        json.dumps([task(1, evaluate_tool=easy), task(2, evaluate_tool=easy)])
    )
    done = hudtui("env", "audit", "c.yaml", "tasks.json", "--json", *SMALL, code=1)
    audit = json.loads(done.stdout)
    assert audit["verdict"] == "unsound"
    finding = audit["findings"][0]
    assert set(finding) >= {"signature", "severity", "onset", "evidence", "remedies"}
    assert finding["probability"] is None, "none is measured, and none is stated"
    assert (finding["signature"], finding["severity"]) == ("blind-wins", "high")
    assert finding["remedies"][0]["words"] in CHECKS["blind-wins"].remedies
    proof = finding["evidence"][0]
    shown = hudtui("rollouts", "show", proof["file"], str(proof["number"]))
    assert proof["task"] in shown.stdout
    assert hudtui("env", "audit", *SMALL, "--fail-on", "never").returncode == 0


def test_recorded_episodes_are_the_ceiling():
    hudtui("eval", "tasks.json", "-c", "c.yaml", "-p", "greedy", "-o", "good")
    done = hudtui("env", "audit", "--json", "--episodes", "good", *SMALL)
    assert "blind-wins" not in [one["signature"] for one in json.loads(done.stdout)["findings"]]
    other = hudtui("env", "audit", "--episodes", "nowhere", *SMALL, code=2)
    assert "nowhere" in other.stderr


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"d.yaml": CONFIG}, "there are several configurations here"),
        ({"more_tasks.json": "[]"}, "there are several task files here"),
        ({"tasks.json": "[]"}, "there are no tasks here"),
        ({"tasks.json": "{"}, "tasks.json"),
    ],
)
def test_bad_input_is_said(files, words):
    for name, text in files.items():
        Path(name).write_text(text)
    done = hudtui("env", "audit", code=2)
    assert words in done.stderr
    assert not Path("outputs").exists()


def test_a_server_that_does_not_start_is_an_error_and_no_verdict():
    gone = {"env": {"command": "/nowhere/server"}}
    Path("tasks.json").write_text(json.dumps([task(1, mcp_config=gone)]))
    done = hudtui("env", "audit", *SMALL, code=None)
    assert done.returncode not in (0, 1)
    assert "/nowhere/server" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_interrupted_audit_ends_its_servers_and_keeps_its_episodes():
    command = [sys.executable, "-m", "hudtui", "env", "audit", "c.yaml", "tasks.json", "-o", "out"]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ}, start_new_session=True
    )
    traces = Path("out/weak/traces.jsonl")
    deadline = time.monotonic() + 60
    while not traces.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert next(iter(read_trace(traces))).ok
    assert not Path("out/audit.json").exists()
