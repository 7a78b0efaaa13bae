"""From the options of `hudtui art train` and its file to the request of a run."""

import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.person import ScriptedPerson

from hudtui.core.environment.powers import task_powers
from hudtui.core.errors import InputError
from hudtui.core.flows.art import NoTasks, plan_art
from hudtui.core.flows.remove import remove
from hudtui.core.flows.trust import survey
from hudtui.core.gym.config import load_config
from hudtui.core.project import open_project
from hudtui.core.rollouts.reward import load_playable_config, own_scores
from hudtui.core.rollouts.values import Episode, Scores
from hudtui.core.runs.again import request_again
from hudtui.core.runs.art_request import ArtRequest
from hudtui.core.runs.prepare import prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.task import Task
from hudtui.core.training.engines import find_engine, recipe_for
from hudtui.core.training.plan import JobSpec, Site, file_ref
from hudtui.core.trust import Untrusted, agree
from hudtui.core.workspace import save_dataset_name

GAME = {"game": {"command": "${HUDTUI_PYTHON:-python3}", "args": ["-m", "hudtui.envs.text_2048"]}}


def record(number: int, target: int = 128, **changes) -> dict:
    return {
        "id": f"t{number}",
        "prompt": "Play.",
        "mcp_config": GAME,
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "target": target},
        },
        **changes,
    }


@pytest.fixture
def project(own_world):
    Path("tasks.json").write_text(
        json.dumps([record(number, 128 << number % 3) for number in range(10)])
    )
    return open_project(own_world)


def write(text: str) -> Path:
    Path("config.yaml").write_text(text)
    return Path("config.yaml")


CONFIG = """\
environments:
  mine: {dataset: tasks.json, max_turns: 7}
training:
  default: {rollouts_per_group: 5, learning_rate: 2e-5, num_val_scenarios: 2}
  mine: {rollouts_per_group: 6, num_training_scenarios: 4}
resources: {gpu_memory_utilization: 0.5, enforce_eager: true, backend: {output_dir: ./.art}}
monitoring: {wandb: {enabled: false, project: games}, validate_every: 3, save_checkpoints_every: 2}
"""


async def test_a_flag_precedes_the_environment_s_block_then_the_default_then_what_is_built_in(
    project,
):
    config = write(CONFIG)
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=config, learning_rate=3e-5, steps=2), project
    )
    request = plan
    settings = request.settings
    assert (settings["learning_rate"], settings["num_generations"], settings["max_seq_len"]) == (
        3e-5,
        6,
        8192,
    )
    assert (request.engine, request.max_turns, request.steps, settings["groups_per_step"]) == (
        "art",
        7,
        2,
        2,
    )
    assert (settings["gpu_memory_utilization"], settings["enforce_eager"], settings["wandb"]) == (
        0.5,
        True,
        False,
    )
    assert (settings["project"], settings["model_name"]) == ("games", "mine-qwen2.5-3b-instruct")
    assert (settings["eval_every"], settings["save_every"], settings["held_out"]) == (3, 2, 2)
    assert request.output_dir == project.folder.resolve() / ".art"
    chosen = read_tasks(request.tasks).tasks
    assert len(chosen) == 6 and len({task.id for task in chosen}) == 6
    gym = load_config(request.config)
    assert gym.allow_unmapped and gym.weights["task_completion"] == 1.0 and gym.max_turns == 7


@pytest.mark.parametrize("folder", ["/tmp/elsewhere", "../elsewhere", "a/../../elsewhere"])
async def test_a_file_writes_no_results_outside_of_the_project(project, folder):
    text = (
        "environments: {mine: {dataset: tasks.json}}\nresources: {backend: {output_dir: "
        f"{folder}}}}}"
    )
    with pytest.raises(InputError, match="outside of the project"):
        await plan_art(ArtRequest(environment="mine", art_config=write(text)), project)
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=write(text), output_dir=Path(folder)), project
    )
    assert plan.output_dir == Path(folder), "its user has typed it"


async def test_the_same_seed_chooses_the_same_tasks(project):
    async def ids(seed):
        plan = await plan_art(
            ArtRequest(environment="mine", art_config=write(CONFIG), seed=seed), project
        )
        return [task.id for task in read_tasks(plan.tasks).tasks]

    assert await ids(1) == await ids(1) != await ids(2)


@pytest.mark.parametrize(
    ("scenarios", "given", "steps", "groups"),
    [
        (8, {"steps": 4}, 4, 2),  # all tasks are seen in the steps that are asked for
        (8, {"steps": 4, "groups_per_step": 3}, 3, 3),
        (8, {"steps": 2, "groups_per_step": 1}, 2, 1),  # --steps is the most
        (4, {"steps": 10}, 4, 1),  # fewer tasks than steps
        (4, {"steps": 10, "epochs": 3}, 10, 1),
        (8, {}, 8, 1),
    ],
)
async def test_steps_limit_a_training_and_epochs_lengthen_it(
    project, scenarios, given, steps, groups
):
    request = ArtRequest(
        environment="mine", art_config=write(CONFIG), scenarios=scenarios, val_scenarios=0, **given
    )
    plan = await plan_art(request, project)
    assert (plan.steps, plan.settings["groups_per_step"]) == (steps, groups)
    assert any("--epochs" in remark for remark in plan.remarks) == (steps < given.get("steps", 10))


async def test_fewer_tasks_than_asked_for_are_told(project):
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=write(CONFIG), scenarios=50), project
    )
    assert "10 tasks, fewer than the 50 asked for: all are trained on" in plan.remarks
    assert "no task is left for evaluation: lower --scenarios to keep some" in plan.remarks


async def test_the_file_s_servers_replace_those_of_the_tasks_after_the_user_has_agreed(
    project, monkeypatch
):
    monkeypatch.delenv("HUDTUI_TRUST")
    config = write(
        "environments:\n  mine:\n    dataset: tasks.json\n    mcp_config:\n      local: {command: "
        "my-server, args: [--fast]}\n"
    )
    request = ArtRequest(environment="mine", art_config=config)
    with pytest.raises(Untrusted) as caught:
        await plan_art(request, project)
    assert (
        "my-server --fast" in caught.value.powers[0].text
        and caught.value.powers[0].file.name == "config.yaml"
    )
    agree(project.folder, caught.value.powers)
    plan = await plan_art(request, project)
    for task in read_tasks(plan.tasks).tasks:
        assert task.mcp_config == {"local": {"command": "my-server", "args": ["--fast"]}}


async def test_tasks_without_servers_and_a_file_without_them(project, monkeypatch):
    monkeypatch.delenv("HUDTUI_TRUST")
    Path("bare.json").write_text(json.dumps([{**record(1), "mcp_config": None}]))
    with pytest.raises(InputError) as caught:
        await plan_art(ArtRequest(environment="gmail", dataset="bare.json"), project)
    assert caught.value.what == "No MCP configuration found for the environment gmail"
    assert "environments.gmail.mcp_config" in (caught.value.fix or "")
    config = write("environments: {gmail: {mcp_config: {mail: {url: 'http://127.0.0.1:9/mcp'}}}}")
    with pytest.raises(Untrusted):  # now there is a server, and it is asked about
        await plan_art(
            ArtRequest(environment="gmail", dataset="bare.json", art_config=config), project
        )


async def test_only_tasks_with_one_of_the_targets_are_taken(project):
    config = write(
        "environments: {2048: {dataset: tasks.json}}\nscenarios: {2048_targets: [256]}\n"
    )
    plan = await plan_art(
        ArtRequest(environment="2048", art_config=config, val_scenarios=0), project
    )
    assert {task.evaluate[0].arguments["target"] for task in read_tasks(plan.tasks).tasks} == {256}
    config = write("environments: {2048: {dataset: tasks.json}}\nscenarios: {2048_targets: [7]}\n")
    with pytest.raises(InputError, match="no task of 2048 has one of the targets 7"):
        await plan_art(ArtRequest(environment="2048", art_config=config), project)


async def test_a_reward_of_one_s_own_replaces_that_of_the_environment(project, monkeypatch):
    Path("helper.py").write_text("def one_of(number):\n    return 1.0 / number\n")
    Path("mine.py").write_text(
        "import helper\n\ndef short(episode, task):\n    return helper.one_of(1 + "
        "len(episode.turns))\n"
    )
    text = "environments: {mine: {dataset: tasks.json, reward: 'mine.py:short'}}"
    monkeypatch.delenv("HUDTUI_TRUST")
    agree(project.folder, task_powers([GAME], Path("tasks.json")))
    with pytest.raises(Untrusted) as caught:  # code that a file names is asked about
        await plan_art(ArtRequest(environment="mine", art_config=write(text)), project)
    assert caught.value.powers[0].kind == "code"
    plain = write("environments: {mine: {dataset: tasks.json}}")
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=plain, reward="mine.py:short"), project
    )  # typed by its user
    gym = load_playable_config(plan.config, project.folder)
    assert gym.weights["task_completion"] == 0 and gym.own_parts is not None
    episode = Episode("t", (), (), Scores(1.0, 1.0, 1.0, 1.0, True), "done")
    assert await own_scores(gym, episode, Task("t", "p")) == {"short": 1.0}
    with pytest.raises(InputError, match=r"rubric\.reward in g\.yaml"):
        both = write("environments: {mine: {dataset: tasks.json, gym: g.yaml}}")
        await plan_art(
            ArtRequest(environment="mine", art_config=both, reward="mine.py:short"), project
        )


@pytest.mark.parametrize(
    ("entry", "line", "told"),
    [
        ("dataset: nowhere.json", 3, "there is no such file"),
        ("dataset: broken.json", 3, "broken.json"),
        ("dataset: tasks.json\n    gym: nowhere.yaml", 4, "there is no such file"),
        ("dataset: tasks.json\n    reward: nowhere.py:short", 4, "there is no such file"),
        ("dataset: tasks.json\n    reward: nonsense", 4, "`reward` is FILE.py:NAME"),
        ("max_turns: 3", 2, "no tasks are known for the environment mine"),
    ],
)
async def test_what_a_value_of_the_file_names_is_named_with_the_value_s_line(
    project, entry, line, told
):
    Path("broken.json").write_text("[{")
    Path("other.json").write_text(Path("tasks.json").read_text())  # which of two is not guessed
    config = write(f"environments:\n  mine:\n    {entry}\n")
    with pytest.raises(InputError) as caught:
        await plan_art(ArtRequest(environment="mine", art_config=config), project)
    error = caught.value
    assert error.where is not None and (error.where.file, error.where.line) == ("config.yaml", line)
    assert told in str(error)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"model": ""}, "--base-model is empty"),
        ({"ruler": ""}, "--ruler is empty"),
        ({"output_dir": Path()}, "--output is empty"),
        ({"base_url": "http://127.0.0.1:9/v1"}, "only for a rehearsal"),
        ({"base_url": "localhost", "rehearse": True}, "is not an address"),
    ],
)
async def test_options_without_a_meaning_are_refused(project, asked, told):
    with pytest.raises(InputError, match=told):
        await plan_art(ArtRequest(environment="mine", art_config=write(CONFIG), **asked), project)


async def test_a_short_conversation_has_short_replies(project):
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=write(CONFIG), max_seq_len=2048), project
    )
    assert (plan.settings["max_seq_len"], plan.settings["max_tokens"]) == (2048, 1024)


async def test_a_judge_that_a_file_names_is_asked_about_and_one_that_is_typed_is_not(
    project, monkeypatch
):
    monkeypatch.delenv("HUDTUI_TRUST")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine-000000000000")
    agree(project.folder, task_powers([GAME], Path("tasks.json")))
    Path("mine.py").write_text("def short(episode, task):\n    return 1.0\n")
    config = write(
        "environments: {mine: {dataset: tasks.json, reward: 'mine.py:short'}}\ntraining: {mine: "
        "{ruler: openai/o3}}\n"
    )
    asked = ArtRequest(environment="mine", art_config=config)
    with pytest.raises(Untrusted) as caught:
        await plan_art(asked, project)
    [power] = caught.value.powers
    assert (power.kind, power.file.name) == ("address", "config.yaml")
    assert power.text.startswith(
        "https://api.openai.com/v1 with OPENAI_API_KEY, for the judge openai/o3"
    )
    plain = write("environments: {mine: {dataset: tasks.json}}")
    typed = await plan_art(
        ArtRequest(environment="mine", art_config=plain, ruler="openai/o3"), project
    )
    assert typed.settings["ruler"] == "openai/o3"

    write(
        "environments: {mine: {dataset: tasks.json, reward: 'mine.py:short'}}\ntraining: {mine: "
        "{ruler: openai/o3}}\n"
    )
    agree(
        project.folder, survey(project.folder, project.platform)
    )  # `hudtui trust` lists all that the file asks for
    assert (await plan_art(asked, project)).settings["ruler"] == "openai/o3"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere.example/v1")
    with pytest.raises(Untrusted) as caught:  # another address
        await plan_art(asked, project)
    assert "elsewhere.example" in caught.value.powers[0].text


@pytest.mark.parametrize(
    ("judge", "variables", "state", "told"),
    [
        ("openai/o3", {}, "missing", "OPENAI_API_KEY is not set"),
        (
            "openai/o3",
            {"OPENAI_API_KEY": "sk-1"},
            "warning",
            "https://api.openai.com/v1 with OPENAI_API_KEY: about 4 calls",
        ),
        ("org/judge", {"OPENAI_API_KEY": "sk-1"}, "missing", "is not a model of OpenAI's"),
        (
            "org/judge",
            {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
            "warning",
            "http://127.0.0.1:9/v1: about 4 calls",
        ),
    ],
)
async def test_the_plan_names_the_judge_its_endpoint_and_its_calls(
    project, monkeypatch, judge, variables, state, told
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    request = ArtRequest(
        environment="mine",
        art_config=write(CONFIG),
        ruler=judge,
        steps=2,
        rehearse=True,
        host="local",
    )
    plan = await plan_art(request, project)
    prepared = await prepare_run(plan, project.workspace(), project.settings(), project.runs)
    [check] = [one for one in prepared.checks if one.name == "judge"]
    assert check.state == state and told in check.text, check
    assert (prepared.record is None) == (state == "missing")


async def test_a_judge_in_a_file_with_settings_of_the_trainer_is_asked_about_too(
    project, monkeypatch
):
    monkeypatch.delenv("HUDTUI_TRUST")
    agree(project.folder, task_powers([GAME], Path("tasks.json")))
    Path("gym.yaml").write_text("allow_unmapped: true\n")
    Path("training.yaml").write_text("ruler: openai/o3\n")
    request = RunRequest(
        engine="art",
        tasks="tasks.json",
        config=Path("gym.yaml"),
        training=Path("training.yaml"),
        rehearse=True,
    )
    with pytest.raises(Untrusted):
        await prepare_run(
            replace(request, host="local"), project.workspace(), project.settings(), project.runs
        )


async def test_an_environment_without_tasks_and_a_version_without_a_lock(project):
    Path("other.json").write_text(Path("tasks.json").read_text())  # which of two is not guessed
    with pytest.raises(NoTasks, match="no tasks are known for the environment mine") as error:
        await plan_art(
            ArtRequest(
                environment="mine", art_config=write("environments: {mine: {max_turns: 3}}")
            ),
            project,
        )
    assert "--dataset" in (error.value.fix or "") and error.value.where is not None
    with pytest.raises(InputError, match=r"no lock file for ART 0\.5\.23"):
        await plan_art(ArtRequest(environment="mine", engine_version="0.5.23"), project)


SEED_BLOCKS = {
    "my_env": """\
environments:
  my_env:
    mcp_config:
      local:
        command: "docker"
        args: ["run", "my-mcp-server"]
    max_turns: 15

training:
  default:
    learning_rate: 1e-5
    rollouts_per_group: 4
""",
    "remote_env": """\
# config.yaml
environments:
  remote_env:
    mcp_config:
      ssh:
        command: "ssh"
        args: ["user@host", "docker", "run", "mcp-server"]
""",
}


@pytest.mark.parametrize("name", sorted(SEED_BLOCKS))
async def test_a_file_without_tasks_takes_those_of_the_project_and_says_so(project, name):
    asked = ArtRequest(environment=name, art_config=write(SEED_BLOCKS[name]))
    plan = await plan_art(asked, project)
    assert any("names no dataset: tasks.json is taken" in remark for remark in plan.remarks)
    assert {server for task in read_tasks(plan.tasks).tasks for server in task.mcp_config} <= {
        "local",
        "ssh",
    }
    Path("made.json").write_text(json.dumps([record(99), record(98)]))
    save_dataset_name(
        project.folder, "made.json", 2, datetime.now(UTC)
    )  # two files now, of which one was made last
    plan = await plan_art(asked, open_project(project.folder))
    assert {task.id for task in read_tasks(plan.tasks).tasks} == {"t99", "t98"}


async def test_a_cloud_of_the_file_is_a_machine_from_skypilot(project):
    text = "environments: {mine: {dataset: tasks.json}}\n"
    text += "resources:\n  backend: {type: skypilot}\n  skypilot: {gpu: H100-SXM, spot: true}"
    plan = await plan_art(ArtRequest(environment="mine", art_config=write(text)), project)
    assert (plan.provider, plan.gpus) == ("sky", "1xH100")
    assert any("this one is not a spot machine" in remark for remark in plan.remarks)
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=write(text), spot=True), project
    )
    assert (plan.provider, plan.spot) == ("sky", True) and not any(
        "spot" in remark for remark in plan.remarks
    )
    plan = await plan_art(
        ArtRequest(environment="mine", art_config=write(text), host="me@box"), project
    )
    assert (plan.provider, plan.host) == (None, "me@box")


@pytest.mark.parametrize(
    ("model", "chosen", "rate"),
    [
        (None, "Qwen/Qwen2.5-3B-Instruct", 1e-5),
        ("medium", "Qwen/Qwen2.5-7B-Instruct", 5e-6),
        ("large", "Qwen/Qwen2.5-14B-Instruct", 1e-6),
        ("org/own-3B", "org/own-3B", 1e-5),
    ],
)
async def test_the_model_and_its_learning_rate(project, model, chosen, rate):
    config = write("environments: {mine: {dataset: tasks.json}}")
    plan = await plan_art(ArtRequest(environment="mine", art_config=config, model=model), project)
    spec = JobSpec(engine="art", name="x", workspace="/w", model=plan.model, training=plan.settings)
    recipe = recipe_for(spec)
    assert (recipe.model, recipe.rate) == (chosen, rate)


def spec(project, **changes) -> JobSpec:
    Path("gym.yaml").write_text("allow_unmapped: true\n")
    return JobSpec(
        **{
            "engine": "art",
            "name": "x",
            "workspace": str(project.folder),
            "tasks": file_ref("tasks.json"),
            "config": file_ref("gym.yaml"),
            "gpus": 1,
            **changes,
        }
    )


def test_the_plan_of_one_and_of_two_gpus(project):
    site = Site("runs/x", ("python3",), environments="/envs")
    plan = find_engine("art").plan(spec(project, secrets=("WANDB_API_KEY",)), site)
    bootstrap, train = plan.stages
    assert "--driver" in bootstrap.argv and plan.wheel
    assert train.argv[train.argv.index("--gpus") + 1] == "1" and train.secrets == ("WANDB_API_KEY",)
    assert plan.output("model").path == "out/.art"
    assert any("serves in turn" in note for note in plan.notes)
    two = find_engine("art").plan(spec(project, gpus=2), site)
    assert "GPU 0 trains, GPU 1 serves" in two.notes
    with pytest.raises(InputError, match="1 or 2 GPUs"):
        find_engine("art").plan(spec(project, gpus=4), site)


def test_settings_that_the_engine_does_not_have_are_refused_by_either(project):
    site = Site("runs/x", ("python3",))
    with pytest.raises(InputError, match="the engine art has no setting lora_targets"):
        find_engine("art").plan(spec(project, training={"lora_targets": ["q_proj"]}), site)
    with pytest.raises(InputError, match="only the engine art takes ruler"):
        find_engine("trl").plan(
            spec(project, engine="trl", training={"ruler": "openai/o3"}, gpus=2), site
        )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            {"python": "gone/bin/python"},
            r"gone/bin/python cannot be started on this machine\nNo such file or directory",
        ),
        ({"python": "./python"}, "python on this machine is not a Python with hudtui\nit has none"),
        ({"python": "./tool"}, "tool on this machine is not a Python with hudtui"),
        (
            {"gpus": "lots"},
            "'lots' names no GPUs\nWrite for instance H100, 4xH100, A100_80GB:2, or cpu",
        ),
    ],
)
async def test_what_cannot_be_used_is_said_before_anything_is_written(project, asked, words):
    for name, does in (("python", "echo it has none >&2; exit 1"), ("tool", "touch started")):
        Path(name).write_text(f"#!/bin/sh\n{does}\n")
        Path(name).chmod(0o755)
    request = ArtRequest(
        environment="mine", art_config=write(CONFIG), rehearse=True, host="local", **asked
    )
    with pytest.raises(InputError, match=words):
        await plan_art(request, project)
    assert not Path(".hudtui/art").exists()
    Path("gym.yaml").write_text("allow_unmapped: true\n")
    plain = RunRequest(
        engine="art",
        tasks="tasks.json",
        config=Path("gym.yaml"),
        rehearse=True,
        host="local",
        **asked,
    )
    if "gpus" in asked:
        with pytest.raises(InputError, match=words):
            await prepare_run(plain, project.workspace(), project.settings(), project.runs)
    else:
        prepared = await prepare_run(plain, project.workspace(), project.settings(), project.runs)
        assert [check.name for check in prepared.missing] == ["python"]
    assert not Path("started").exists(), "what has another name is not started"


async def test_files_that_were_made_go_with_the_last_run_that_was_planned_with_them(project):
    Path("mine.py").write_text("def short(episode, task):\n    return 1.0\n")

    async def planned(seed):
        request = ArtRequest(
            environment="mine",
            art_config=write(CONFIG),
            rehearse=True,
            host="local",
            seed=seed,
            reward="mine.py:short",
        )
        plan = await plan_art(request, project)
        return (
            await prepare_run(plan, project.workspace(), project.settings(), project.runs)
        ).require()

    def files():
        return {path.resolve() for path in Path(".hudtui/art").rglob("*") if path.is_file()}

    first, second = await planned(1), await planned(2)
    shared = {Path(second.spec.config.path), Path(second.spec.reward_file.path)}
    assert files() == {Path(first.spec.tasks.path), Path(second.spec.tasks.path), *shared}
    for record in (first, second):
        project.runs.add(record)
        project.runs.append(record.id, "failed", {"why": "out of memory"})
    assert request_again(first).tasks == first.spec.tasks.path
    async for _ in remove([first.id], project, ScriptedPerson(True)):
        pass
    assert files() == {Path(second.spec.tasks.path), *shared}
    tried = await planned(3)  # as with --dry-run
    await planned(2)
    assert Path(tried.spec.tasks.path) in files()
    for path in files():
        os.utime(path, (0, 0))
    await planned(2)
    assert files() == {Path(second.spec.tasks.path), *shared}
    async for _ in remove([second.id], project, ScriptedPerson(True)):
        pass
    assert not Path(".hudtui/art").exists()
