"""`hudtui art train`, and the names of HUD's own integration for it."""

import io
import json
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from art_integration import generate_scenarios_from_hud, to_taskconfigs, train_hud_with_art
from hudtui.cli.app import build
from hudtui.core.environment.values import Tool
from hudtui.core.errors import InputError
from hudtui.core.flows.art import plan_art
from hudtui.core.project import open_project
from hudtui.core.rollouts.chat import Completion

ROOT = Path(__file__).parents[2]
CONFIG = (
    "environments: {mine: {dataset: tasks.json, max_turns: 5}}\ntraining: {mine: "
    "{num_training_scenarios: 4}}\n"
)


@pytest.fixture(autouse=True)
def project(own_world):
    task = {
        "prompt": "Play.",
        "mcp_config": {
            "game": {
                "command": "${HUDTUI_PYTHON:-python3}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
    }
    Path("tasks.json").write_text(json.dumps([{**task, "id": f"t{number}"} for number in range(6)]))
    Path("config.yaml").write_text(CONFIG)
    return own_world


def invoke(*arguments):
    return CliRunner().invoke(build(), ["art", "train", *map(str, arguments)])


def planned(*arguments):
    result = invoke(
        "--env", "mine", "--config", "config.yaml", "--rehearse", "--dry-run", "--json", *arguments
    )
    assert result.exit_code == 0, result.output
    plan = json.loads(result.stdout)["plan"]
    (recipe,) = [file["content"] for file in plan["files"] if file["path"] == "files/recipe.json"]
    return plan, json.loads(recipe), result.stderr


def test_the_flags_of_the_integration_are_settings_of_the_plan(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-judge-000000000001")
    plan, recipe, notes = planned(
        *(
            "--base-model",
            "Qwen/Qwen2.5-7B-Instruct",
            "--model-name",
            "mine-7b",
            "--scenarios",
            5,
            "--steps",
            2,
        ),
        *(
            "--learning-rate",
            "1e-5",
            "--max-turns",
            9,
            "--rollouts-per-group",
            6,
            "--ruler",
            "--val-scenarios",
            1,
        ),
        *(
            "--project",
            "games",
            "--max-seq-length",
            4096,
            "--gpu-memory-utilization",
            0.7,
            "--epochs",
            2,
            "--seed",
            3,
        ),
    )
    assert plan["engine"] == "art" and [stage["name"] for stage in plan["stages"]] == [
        "bootstrap",
        "train",
    ]
    expected = {
        "model": "Qwen/Qwen2.5-7B-Instruct",
        "model_name": "mine-7b",
        "steps": 2,
        "learning_rate": 1e-5,
        "max_turns": 9,
    }
    expected |= {
        "num_generations": 6,
        "ruler": "openai/o3",
        "held_out": 1,
        "project": "games",
        "max_seq_len": 4096,
    }
    expected |= {"gpu_memory_utilization": 0.7, "groups_per_step": 5, "seed": 3}
    assert {name: recipe[name] for name in expected} == expected
    assert notes == ""
    assert planned("--ruler", "openai/gpt-4.1")[1]["ruler"] == "openai/gpt-4.1"
    assert planned("--ruler", "--seed", 1)[1]["ruler"] == "openai/o3"
    assert planned()[1]["ruler"] is None


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--env", "mien", "--config", "config.yaml"), 2, "Unknown environment: mien"),
        (("--env", "mine"), 2, "Unknown environment: mine"),
        (("--env", "mine", "--config", "nowhere.yaml"), 2, "nowhere.yaml"),
        (("--env", "mine", "--config", "config.yaml", "--set", "lora_rnak=3"), 2, "lora_rank"),
        (
            ("--env", "mine", "--config", "config.yaml", "--rehearse", "--set", "warmup_steps=3"),
            2,
            "the engine art has no setting warmup_steps",
        ),
        (
            ("--env", "mine", "--config", "config.yaml", "--engine-version", "9"),
            2,
            "no lock file for ART 9",
        ),
        (
            ("--env", "mine", "--config", "config.yaml", "--host", "a", "--provider", "prime"),
            2,
            "exclude each other",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(words, code, told, own_world):
    result = invoke(*words, "--yes")
    assert result.exit_code == code, result.output
    assert told in " ".join(result.stderr.split())
    assert not list(own_world.glob(".hudtui/runs/*"))


def test_an_error_of_the_file_names_its_line():
    Path("config.yaml").write_text("environments:\n  mine:\n    max_turn: 4\n")
    result = invoke("--env", "mine", "--config", "config.yaml", "--json")
    assert result.exit_code == 2
    assert "config.yaml:3" in result.output and "max_turns" in result.output


def test_the_module_of_the_integration_is_the_same_command(own_world):
    words = [
        "--env",
        "mine",
        "--config",
        "config.yaml",
        "--rehearse",
        "--dry-run",
        "--json",
        "--scenarios",
        "4",
        "--steps",
        "2",
    ]
    argv = [sys.executable, "-P", "-m", "art_integration.train_hud_art", *words]
    done = subprocess.run(
        argv, cwd=own_world, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plan"]["engine"] == "art"


def test_tasks_that_nobody_names_are_asked_for_in_a_terminal(monkeypatch):
    Path("config.yaml").write_text("environments: {mine: {max_turns: 5}}\n")
    Path("other.json").write_text(Path("tasks.json").read_text())
    words = ("--env", "mine", "--config", "config.yaml", "--rehearse")
    refused = invoke(*words)
    assert (
        refused.exit_code == 2 and "no tasks are known for the environment mine" in refused.stderr
    )
    assert "environments.mine.dataset" in " ".join(refused.stderr.split())
    monkeypatch.setattr("hudtui.cli.console.interactive", lambda: True)
    asked = CliRunner().invoke(build(), ["art", "train", *words], input="other.json\nn\n")
    assert (
        "Which tasks?" in asked.stderr
        and "of .hudtui/art/mine-" in asked.stderr
        and asked.exit_code == 1
    )
    assert CliRunner().invoke(build(), ["art", "train", *words], input="\n").exit_code == 2


def test_its_help_names_a_program_that_exists(own_world):
    for words, told in (
        (["--help"], "Usage: hudtui art train"),
        (["--gpsu"], "hudtui art train -h"),
    ):
        argv = [sys.executable, "-P", "-m", "art_integration.train_hud_art", *words]
        done = subprocess.run(
            argv, cwd=own_world, capture_output=True, text=True, check=False, timeout=120
        )
        assert told in done.stdout + done.stderr and "python -m" not in done.stdout + done.stderr


async def test_the_function_without_a_terminal_says_what_to_pass():
    with pytest.raises(InputError, match="not a terminal") as error:
        await train_hud_with_art("mine", config_path="config.yaml", rehearse=True)
    assert error.value.fix is not None and "yes=True" in error.value.fix
    with pytest.raises(InputError, match="exclude each other"):
        await train_hud_with_art(
            "mine", config_path="config.yaml", host="a", provider="prime", yes=True
        )


@pytest.mark.parametrize("answer", ["n\n", ""])
async def test_no_to_the_function_s_question_ends_it_without_a_traceback(
    monkeypatch, answer, capsys
):
    monkeypatch.setattr("hudtui.cli.console.interactive", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    with pytest.raises(SystemExit) as end:
        await train_hud_with_art("mine", config_path="config.yaml", rehearse=True)
    assert end.value.code == 1
    assert "Nothing was started." in capsys.readouterr().err


async def test_what_the_function_is_not_told_is_left_to_the_file(own_world, monkeypatch):
    text = (
        "training: {mine: {base_model: org/own-3B, rollouts_per_group: 3}}\nmonitoring: {wandb: "
        "{project: games}}\n"
    )
    Path("config.yaml").write_text("environments: {mine: {dataset: tasks.json}}\n" + text)
    asked = []

    async def keep(request, how, **_):
        asked.append(request)

    monkeypatch.setattr("hudtui.cli.art.train_art", keep)
    await train_hud_with_art("mine", config_path="config.yaml")
    [request] = asked
    plan = await plan_art(request, open_project(own_world))
    assert (plan.model, plan.settings["project"], plan.settings["num_generations"]) == (
        "org/own-3B",
        "games",
        3,
    )


def test_the_rows_of_a_dataset_are_tasks_and_what_is_none_is_named_by_its_row():
    [task] = json.loads(Path("tasks.json").read_text())[:1]
    packed = {**task, **{name: json.dumps(task[name]) for name in ("mcp_config", "evaluate_tool")}}
    assert (
        to_taskconfigs([task]) == to_taskconfigs([packed]) and to_taskconfigs([task])[0].id == "t0"
    )
    for odd, told in (
        (
            {**task, "when": datetime(2026, 1, 1)},
            "row 1: the column when cannot be written as JSON",
        ),
        ({**task, "raw": b"x"}, "row 1: the column raw"),
        ([1, 2], "row 1 is not a mapping of columns to values, but list"),
        ({**task, "prompt": 3}, "1 of 2 rows are not tasks"),
    ):
        with pytest.raises(InputError, match=told):
            to_taskconfigs([task, odd])


async def test_a_model_that_writes_odd_tasks(monkeypatch):
    tasks = [
        {"prompt": "a", "evaluate_tool": {"name": ["evaluate"]}},
        {"prompt": "b", "evaluate_tool": {"name": "evaluate"}},
    ]

    replies = [Completion(json.dumps(tasks), cut=False), Completion('[{"prompt": "a"', cut=True)]

    async def complete(self, messages):
        return replies.pop(0)

    monkeypatch.setattr("hudtui.core.rollouts.chat.ChatEndpoint.complete", complete)
    tools = {"move": Tool("move"), "evaluate": Tool("evaluate", kind="evaluate")}
    made = await generate_scenarios_from_hud(
        SimpleNamespace(tools=tools), 2, base_url="http://127.0.0.1:9/v1"
    )
    assert [[call.name for call in task.evaluate] for task in made] == [[], ["evaluate"]]
    with pytest.raises(InputError) as refused:
        await generate_scenarios_from_hud(SimpleNamespace(tools=tools), 2)
    assert refused.value.fix is not None and "ask for fewer tasks" in refused.value.fix


def test_a_rehearsal_is_a_run_like_any_other(own_world, art_python):
    result = invoke(
        *(
            "--env",
            "mine",
            "--config",
            "config.yaml",
            "--rehearse",
            "--python",
            art_python,
            "--yes",
            "--json",
        ),
        *("--steps", 1, "--rollouts-per-group", 2, "--val-scenarios", 0),
    )
    assert result.exit_code == 0, result.output
    view = json.loads(result.stdout)
    assert view["state"] == "finished"
    (run,) = own_world.glob(".hudtui/runs/*/out/metrics.jsonl")
    shown = CliRunner().invoke(build(), ["runs", "show", view["id"], "--json"])
    assert shown.exit_code == 0 and json.loads(shown.stdout)["engine"] == "art"
    assert len((run.parent / "traces.jsonl").read_text().splitlines()) == 2 * 4
    (folder,) = run.parent.glob(".art/*/models/*")
    listed = CliRunner().invoke(build(), ["rollouts", "list", str(run.parent / ".art"), "--json"])
    assert listed.exit_code == 0, listed.output
    assert len(json.loads(listed.stdout)) == 2 * 4, "ART's own record of the trajectories"
    watched = CliRunner().invoke(
        build(), ["watch", "local", "--file", str(folder / "history.jsonl"), "--once"]
    )
    assert watched.exit_code == 0 and "reward" in watched.stdout, watched.output
