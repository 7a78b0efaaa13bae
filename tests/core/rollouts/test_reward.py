"""The user's own parts of the reward: loading, weights, failures, trust; in an evaluation, over
OpenEnv, and with the trainer."""

from __future__ import annotations

import argparse
import json
import py_compile
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest
from support.played import play
from support.specs import spec_of

from hudtui.core.errors import ConfigError, InputError
from hudtui.core.flows.trust import run_powers, survey
from hudtui.core.gym.config import parse_config
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import EvalFinished, EvalRequest, run_eval
from hudtui.core.rollouts.policy import ReplayPolicy
from hudtui.core.rollouts.reward import load_playable_config, reward_powers, with_reward
from hudtui.core.rollouts.trace import episode_from_json, episode_to_json, read_trace, transcript
from hudtui.core.runs.request import RunRequest
from hudtui.core.settings import load_settings
from hudtui.core.training.engines import find_engine
from hudtui.core.training.plan import JobSpec, Site, file_ref
from hudtui.core.trust import Untrusted, agree
from hudtui.core.workspace import open_workspace

CONFIG = """
parser: {use_thinking: false}
action_mappings:
  left: {_tool: move, direction: {static: left}}
rubric: {reward: "code/rewards.py:NAME", weights: {brevity: 0.25, kept: 0.5}}
defaults: {max_turns: 4}
"""
CODE = """
import asyncio
from hudtui.core.rollouts.reward import HUDBaseRubric

def brevity(episode, task):
    return 1.0 if len(episode.turns) < 3 else 0.0

async def patience(episode, task):
    await asyncio.sleep(0)
    return len(episode.turns) / 4

class Own(HUDBaseRubric):
    WEIGHTS = {"kept": 9.0, "told": 0.125}
    def parts(self, episode, task):
        return {"kept": episode.scores.task_completion, "told": int(task.prompt != "")}

class Later(HUDBaseRubric):
    async def parts(self, episode, task):
        return {"brevity": brevity(episode, task)}

def raises(episode, task):
    return 1 / 0

def words(episode, task):
    return "much"

def endless(episode, task):
    return float("inf")

class Taken(HUDBaseRubric):
    def parts(self, episode, task):
        return {"task_completion": 1.0}

class Step(HUDBaseRubric):
    def parts(self, episode, task):
        return {"step": 1.0}

class Solved(HUDBaseRubric):
    def parts(self, episode, task):
        return {"solved": 1.0}

def reward(episode, task):
    return 1.0

class Many(HUDBaseRubric):
    def parts(self, episode, task):
        return {f"p{number}": 0.0 for number in range(40)}

class Unmade(HUDBaseRubric):
    def __init__(self, weights):
        raise RuntimeError("no")

NUMBER = 3
"""
TURNS = ["<tool>left()</tool>", "<tool>done()</tool>"]


@pytest.fixture
def folder(own_world: Path) -> Path:
    (own_world / "code").mkdir()
    (own_world / "code" / "rewards.py").write_text(CODE)
    return own_world


def config_file(folder: Path, name: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(CONFIG.replace("NAME", name))
    return path


@pytest.mark.parametrize(
    ("name", "own", "more"),
    [
        ("brevity", {"brevity": 1.0}, 0.25),
        ("patience", {"patience": 0.5}, 0.5),
        ("Later", {"brevity": 1.0}, 0.25),
        ("Own", {"kept": 0.25, "told": 1.0}, 0.125 + 0.125),
    ],
)
async def test_parts_are_added_by_their_weights(folder, session, task, name, own, more):
    config = load_playable_config(config_file(folder, name), folder)
    task = replace(task, prompt="Play.")
    plain = await play(
        session, replace(config, reward="", own_parts=None), task, ReplayPolicy(TURNS)
    )
    episode = await play(type(session)(), config, task, ReplayPolicy(TURNS))
    if name == "Own":
        own = {**own, "kept": plain.scores.task_completion}
        more = 0.5 * plain.scores.task_completion + 0.125
    assert episode.ok and episode.scores.own == own
    assert episode.scores.reward == pytest.approx(plain.scores.reward + more, abs=1e-12)
    assert (
        episode_from_json(json.loads(json.dumps(episode_to_json(episode)))).scores == episode.scores
    )
    assert (
        f"{next(iter(own))} " in transcript(episode)
        and "own" not in episode_to_json(plain)["scores"]
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "failed; ZeroDivisionError"),
        ("words", "gave 'much' for words"),
        ("endless", "gave inf"),
        ("Taken", "a part called task_completion"),
        ("Step", "a part called step, as every rubric or table has"),
        ("Solved", "a part called solved, as every rubric or table has"),
        ("Many", "40 parts"),
    ],
)
async def test_code_that_fails_breaks_the_episode_off(folder, session, task, name, said):
    config = load_playable_config(config_file(folder, name), folder)
    episode = await play(session, config, task, ReplayPolicy(TURNS))
    assert episode.stop == "error" and said in episode.error and not episode.scores.own


def test_a_function_that_is_called_like_a_column_is_refused_before_anything_starts(folder):
    with pytest.raises(InputError, match="a part called reward, as every rubric or table"):
        load_playable_config(config_file(folder, "reward"), folder)


async def test_a_configuration_that_was_only_read_cannot_be_scored(folder, session, task):
    config, _ = parse_config(CONFIG, name="c.yaml")
    episode = await play(session, config, task, ReplayPolicy(TURNS))
    assert episode.stop == "error" and "was not loaded" in episode.error


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("code/rewards.py:nothing", "has no nothing"),
        ("code/rewards.py:NUMBER", "neither a function nor a subclass"),
        ("code/rewards.py:Unmade", "cannot be made"),
        ("code/none.py:x", "no file code/none.py"),
        ("code/broken.py:x", "cannot be loaded"),
        ("no_such_package.rewards:x", "no_such_package"),
        ("rewards", "names no code"),
        ("rewards:", "names no code"),
    ],
)
def test_code_that_cannot_be_loaded_is_told(folder, name, said):
    (folder / "code" / "broken.py").write_text("import nothing_of_this_name\n")
    config, _ = parse_config(CONFIG, name="c.yaml")
    with pytest.raises(InputError) as caught:
        with_reward(config, name, folder)
    assert said in "; ".join(caught.value.lines())


def test_an_installed_function_is_taken(folder):
    config, _ = parse_config(CONFIG, name="c.yaml")
    assert with_reward(config, "os.path:basename", folder).own_parts is not None


@pytest.mark.parametrize(
    "value", ["../up.py:x", "/etc/x.py:x", "rewards.py", "a b.py:x", "[1]", "rewards.py:"]
)
def test_a_name_that_leaves_the_folder_is_an_error(folder, value):
    path = folder / "c.yaml"
    path.write_text(
        CONFIG.replace('"code/rewards.py:NAME"', json.dumps(value) if value != "[1]" else value)
    )
    with pytest.raises(ConfigError, match=r"`reward` is FILE\.py:NAME"):
        load_playable_config(path, folder)


def test_weights_of_own_parts_are_expected_only_with_a_reward():
    config, findings = parse_config(CONFIG, name="c.yaml")
    assert (
        not findings
        and config.weights["brevity"] == 0.25
        and config.reward == "code/rewards.py:NAME"
    )
    _, findings = parse_config(
        CONFIG.replace('reward: "code/rewards.py:NAME", ', ""), name="c.yaml"
    )
    assert {finding.code for finding in findings} == {"unknown-key"}


class TestTrust:
    @pytest.fixture(autouse=True)
    def unknown(self, monkeypatch):
        monkeypatch.delenv("HUDTUI_TRUST")

    def test_code_that_a_file_names_needs_agreement_and_a_change_needs_another(self, folder):
        path = config_file(folder, "brevity")
        (folder / "code" / "rewards.py").write_text(CODE + "\nopen('ran', 'w').close()\n")
        with pytest.raises(Untrusted) as caught:
            load_playable_config(path, folder)
        assert "run Python code" in str(caught.value.why) and not (folder / "ran").exists()
        assert [power.kind for power in survey(folder)] == ["code"]
        agree(folder, survey(folder))
        load_playable_config(path, folder)
        assert (folder / "ran").exists()
        (folder / "code" / "rewards.py").write_text(CODE + "# changed\n")
        with pytest.raises(Untrusted):
            load_playable_config(path, folder)

    def test_a_module_beside_the_code_is_agreed_to_with_it(self, folder):
        path = config_file(folder, "brevity")
        (folder / "code" / "rewards.py").write_text(
            "def brevity(episode, task):\n    import helper\n    return helper.VALUE\n"
        )
        (folder / "code" / "helper.py").write_text("from deeper import VALUE\n")
        (folder / "code" / "deeper.py").write_text("VALUE = 1.0\n")
        (folder / "code" / "unused.py").write_text("")
        (power,) = survey(folder)
        assert power.text.endswith("with helper.py, deeper.py")
        agree(folder, [power])
        config = load_playable_config(path, folder)
        (folder / "code" / "deeper.py").write_text("VALUE = 0.0\n")
        assert config.own_parts is not None and config.own_parts.parts(None, None) == {
            "brevity": 1.0
        }  # as it was agreed to
        with pytest.raises(Untrusted):
            load_playable_config(path, folder)
        (folder / "code" / "deeper.py").write_text("VALUE = 1.0\n")
        (folder / "code" / "unused.py").write_text("# of no account\n")
        load_playable_config(path, folder)

    def test_a_compiled_file_never_stands_in_for_the_text(self, folder):
        path = config_file(folder, "brevity")
        file = folder / "code" / "rewards.py"
        file.write_text("open('ran', 'w').close()\n" + CODE)
        py_compile.compile(
            str(file), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
        file.write_text("import beside\n" + CODE)
        agree(folder, survey(folder))
        with pytest.raises(
            InputError, match="cannot be loaded"
        ):  # there is no `beside`, and none is looked for
            load_playable_config(path, folder)
        (folder / "code" / "beside").mkdir()
        (folder / "code" / "beside" / "__init__.py").write_text("open('ran', 'w').close()\n")
        with pytest.raises(InputError, match="cannot be loaded"):
            load_playable_config(path, folder)
        assert not (folder / "ran").exists()

    def test_a_package_of_the_folder_is_no_installed_one(self, folder, monkeypatch):
        path = folder / "c.yaml"
        path.write_text(CONFIG.replace("code/rewards.py:NAME", "own_package:brevity"))
        (folder / "own_package.py").write_text("open('ran', 'w').close()\n" + CODE)
        monkeypatch.syspath_prepend(str(folder))
        agree(folder, survey(folder))
        with pytest.raises(InputError, match="lies in this folder"):
            load_playable_config(path, folder)
        assert not (folder / "ran").exists()

    def test_an_installed_package_that_a_file_names_needs_agreement(self, folder):
        path = folder / "c.yaml"
        path.write_text(CONFIG.replace("code/rewards.py:NAME", "os.path:basename"))
        with pytest.raises(Untrusted):
            load_playable_config(path, folder)

    def test_code_that_the_user_names_needs_none(self, folder):
        path = config_file(folder, "raises")
        assert (
            load_playable_config(path, folder, reward="code/rewards.py:brevity").reward
            == "code/rewards.py:brevity"
        )

    def test_a_run_needs_agreement(self, folder):
        path = config_file(folder, "brevity")
        spec = JobSpec("rollouts", "r", str(folder), config=file_ref(path))
        assert [power.kind for power in run_powers(spec, load_settings(folder, HUD))] == ["code"]


def record(number: int) -> dict[str, object]:
    return {
        "id": f"t{number}",
        "prompt": "Play.",
        "mcp_config": {
            "env": {
                "command": "${HUDTUI_PYTHON:-/nowhere}",
                "args": ["-m", "hudtui.envs.text_2048"],
            }
        },
        "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": number}},
        "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
    }


async def test_an_evaluation_counts_and_shows_it(folder):
    (folder / "tasks.json").write_text(json.dumps([record(1)]))
    path = config_file(folder, "patience")
    request = EvalRequest("tasks.json", path, policy="random", out_dir=Path("out"))
    async with aclosing(run_eval(request, load_settings(folder, HUD))) as events:
        (finished,) = [event async for event in events if isinstance(event, EvalFinished)]
    (outcome,) = finished.summary.outcomes
    (episode,) = read_trace(folder / "out" / "traces.jsonl")
    assert outcome.own == episode.scores.own == {"patience": 1.0}
    told = finished.summary.to_json()
    assert told["scores"]["patience"] == 1.0 and told["tasks"][0]["episodes"][0]["own"] == {
        "patience": 1.0
    }
    again = replace(request, resume=True, reward="code/rewards.py:brevity")
    with pytest.raises(InputError, match="another evaluation: its config"):
        async with aclosing(run_eval(again, load_settings(folder, HUD))) as events:
            [event async for event in events]


async def test_it_judges_tasks_that_name_no_evaluate_tool(folder):
    (folder / "tasks.json").write_text(json.dumps([{**record(1), "evaluate_tool": None}]))
    request = EvalRequest(
        "tasks.json", config_file(folder, "patience"), policy="random", out_dir=Path("out")
    )
    async with aclosing(run_eval(request, load_settings(folder, HUD))) as events:
        (finished,) = [event async for event in events if isinstance(event, EvalFinished)]
    (outcome,) = finished.summary.outcomes
    assert (
        outcome.own == {"patience": 1.0} and outcome.reward_found and outcome.task_completion == 0.0
    )
    (folder / "c.yaml").write_text(
        CONFIG.replace('reward: "code/rewards.py:NAME", ', "").replace(
            "brevity: 0.25, kept: 0.5", ""
        )
    )
    with pytest.raises(InputError, match="no task can be") as caught:
        async with aclosing(
            run_eval(replace(request, out_dir=Path("more")), load_settings(folder, HUD))
        ) as events:
            [event async for event in events]
    assert "neither the task nor `rubric.reward`" in str(caught.value.why)


@pytest.mark.parametrize("engine", ["rollouts", "trl"])
def test_the_code_goes_along_with_a_run(folder, engine):
    path = config_file(folder, "brevity")
    (folder / "tasks.json").write_text(json.dumps([record(number) for number in range(4)]))
    (folder / "code" / "helper.py").write_text("")
    (folder / "code" / "rewards.py").write_text("import helper\n" + CODE)
    request = RunRequest(
        engine=engine, policy="random", tasks="tasks.json", config=path, rehearse=True
    )
    spec = spec_of(request, open_workspace(folder))
    made = find_engine(engine).plan(spec, Site(".hudtui/runs/r", ("python3",)))
    code = [file.path for file in made.files if file.path.startswith("files/config/code/")]
    assert code == ["files/config/code/rewards.py", "files/config/code/helper.py"]
    assert made.stages[-1].env["HUDTUI_TRUST_RUN"].endswith("files")


def test_the_trainer_reads_it(folder, monkeypatch):
    from hudtui.trainers.grpo import read_all

    monkeypatch.delenv("HUDTUI_TRUST")
    path = config_file(folder, "brevity")
    (folder / "tasks.json").write_text(json.dumps([record(number) for number in range(5)]))
    (folder / "recipe.json").write_text("{}")
    given = argparse.Namespace(
        recipe="recipe.json", config=str(path), tasks="tasks.json", model=None
    )
    with pytest.raises(Untrusted):
        read_all(given, load_settings(folder, HUD))
    monkeypatch.setenv("HUDTUI_TRUST_RUN", str(folder))
    _, config, _ = read_all(given, load_settings(folder, HUD))
    assert config.own_parts is not None and config.own_parts.weight("brevity") == 0.25


def test_reward_powers_of_a_plain_configuration():
    config, _ = parse_config(CONFIG.replace('reward: "code/rewards.py:NAME", ', ""), name="c.yaml")
    assert reward_powers(config) == ()
