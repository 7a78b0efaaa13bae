"""verifiers 0.4 plays hudtui's gym: the same parts of rewards as here, to the bit; the example's
own gym and environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support import judged
from support.games import game, generous
from support.native_replies import GAMES, native_reply
from support.ready_python import ReadyPython
from support.scripted_chat import ScriptedChat, scripted_chat
from support.thoughts import CONFIG, any_replies, wanted_call

from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import EvalFinished, EvalRequest, run_eval
from hudtui.core.rollouts.outcome import EpisodeOutcome
from hudtui.core.rollouts.values import plain_number
from hudtui.core.settings import load_settings

ROOT = Path(__file__).parents[2]
VERIFIERS = ROOT / ".venv-verifiers"
MAIN = "from verifiers.v1.cli.eval.main import main; main()"
SECRET = "s3cret-of-the-environment"
pytestmark = [pytest.mark.xdist_group("verifiers"), pytest.mark.timeout(600)]

FREE = "allow_unmapped: true\nparser: {use_thinking: false}\ndefaults: {max_turns: 3}\n"
ECHO = """
import os
from mcp.server import MCPServer
server = MCPServer("echo")
@server.tool()
def setup() -> str:
    return "the key is " + os.environ["ECHO_KEY"]
@server.tool()
def evaluate() -> dict:
    return {"reward": 1.0}
server.run()
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENAI", "PRIME"))
    }
    return {
        **kept,
        "HOME": str(home),
        "HUDTUI_TRUST": str(home.parent),
        "OPENAI_API_KEY": "k-of-a-test",
        **more,
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifiers")
    shutil.copy(ROOT / "configs" / "2048.yaml", folder)
    shutil.copytree(ROOT / "examples" / "lights", folder / "lights")
    lights = folder / "lights" / "tasks.json"
    lights.write_text(json.dumps(json.loads(lights.read_text())[:2]))
    (folder / "tasks.json").write_text(json.dumps([game(seed) for seed in range(5)]))
    (folder / "many.json").write_text(json.dumps([game(seed) for seed in range(GAMES)]))
    plain = (folder / "2048.yaml").read_text()
    (folder / "native.yaml").write_text(plain.replace("parser:", "parser:\n  dialect: native", 1))
    (folder / "bare.json").write_text(
        json.dumps([{"id": "bare", "prompt": "p", "evaluate_tool": {"name": "e", "arguments": {}}}])
    )
    for name in ("hud", "buckeye"):
        (folder / f"{name}.lock.yaml").write_text("image: an/image:1\n")
    broken = game(1) | {"setup_tool": {"name": "setup", "arguments": {"name": "no such thing"}}}
    (folder / "broken.json").write_text(json.dumps([broken]))
    (folder / "free.yaml").write_text(FREE)
    (folder / "marks.yaml").write_text(CONFIG % "true")
    (folder / "replies.json").write_text(json.dumps(any_replies(1000)))
    judged.write_files(folder)
    (folder / "echo.py").write_text(ECHO)
    server = {
        "command": "${HUDTUI_PYTHON}",
        "args": [str(folder / "echo.py")],
        "env": {"ECHO_KEY": "${ECHO_KEY}"},
    }
    secret = {
        **game(1),
        "mcp_config": {"echo": server},
        "setup_tool": {"name": "setup", "arguments": {}},
    }
    secret["evaluate_tool"] = {"name": "evaluate", "arguments": {}}
    (folder / "secret.json").write_text(json.dumps([secret]))
    return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python environment with verifiers, hudtui as it is here, and the installed example."""
    if not VERIFIERS.exists():
        pytest.skip("there is no .venv-verifiers: scripts/bootstrap dev makes it")
    place = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([VERIFIERS / "bin" / "python", "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python3*/site-packages")
    (below,) = VERIFIERS.glob("lib/python3*/site-packages")
    (packages / "below.pth").write_text(f"{ROOT}\n{below}\n")
    made = str(place / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", made, "install", "--quiet", "--no-deps"]
    example = tmp_path_factory.mktemp("source") / "lights"
    shutil.copytree(ROOT / "examples" / "lights", example)
    env = environment(place.parent, PIP_DISABLE_PIP_VERSION_CHECK="1")
    subprocess.run([*command, "--no-build-isolation", example], check=True, env=env, timeout=300)
    return made


@pytest.fixture(scope="module")
def verifiers(python: str) -> Iterator[ReadyPython]:
    """The same Python, with verifiers imported: that takes seconds."""
    with ReadyPython(python, os.environ, ("verifiers.v1.cli.eval.main",), threads=True) as ready:
        yield ready


@pytest.fixture(scope="module")
def chat() -> Iterator[ScriptedChat]:
    with scripted_chat() as found:
        yield found


@pytest.fixture(scope="module")
def told(world: Path, python: str, chat: ScriptedChat) -> dict[str, Any]:
    """What one process with verifiers played."""

    def think(messages: Any) -> dict[str, Any]:
        move = ["left()", "up()", "done()"][sum(one["role"] == "assistant" for one in messages)]
        return {
            "role": "assistant",
            "content": f"<tool>{move}</tool>",
            "reasoning_content": f"I say {move}.",
        }

    def hesitate(messages: Any) -> str:
        if any(one["role"] == "assistant" for one in messages):
            time.sleep(20)
        return "<think>x</think><tool>left()</tool>"

    script = Path(__file__).with_name("inside_verifiers.py")
    with (
        scripted_chat(think) as thinking,
        scripted_chat(hesitate) as slow,
        scripted_chat(lambda _: 401) as closed,
    ):
        env = environment(
            world.parent,
            HUDTUI_PYTHON=python,
            ECHO_KEY=SECRET,
            HUD_TELEMETRY_LOCAL_DIR=str(world / "spans"),
        )
        command = [python, str(script), str(world), chat.url, thinking.url, slow.url, closed.url]
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=400, check=False
        )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


async def played_here(
    world: Path, chat: ScriptedChat, python: str, monkeypatch: pytest.MonkeyPatch, **request: Any
) -> dict[str, EpisodeOutcome]:
    """The same with hudtui's own evaluation."""
    monkeypatch.chdir(world)
    for name, value in {
        "HUDTUI_PYTHON": python,
        "OPENAI_API_KEY": "k-of-a-test",
        "HUDTUI_TRUST": str(world),
    }.items():
        monkeypatch.setenv(name, value)
    wanted = {"tasks": "tasks.json", "config": Path("2048.yaml"), **request}
    asked = EvalRequest(
        policy="openai:stub",
        base_url=chat.url,
        out_dir=world / f"out-{time.monotonic_ns()}",
        **wanted,
    )
    async with aclosing(run_eval(asked, load_settings(world, HUD))) as events:
        finished = [event async for event in events if isinstance(event, EvalFinished)]
    return {outcome.task: outcome for outcome in finished[0].summary.outcomes}


def rewards(episodes: list[dict[str, Any]]) -> dict[str, float]:
    """The rewards, which verifiers adds up by itself."""
    return {episode["task"]: plain_number(episode["reward"]) for episode in episodes}


async def test_the_rewards_are_those_of_hudtui_to_the_bit(
    told: dict[str, Any],
    world: Path,
    chat: ScriptedChat,
    python: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = await played_here(world, chat, python, monkeypatch)
    assert len({outcome.reward for outcome in here.values()}) > 3
    assert rewards(told["scripted"]) == {task: outcome.reward for task, outcome in here.items()}
    for episode in told["scripted"]:
        outcome = here[episode["task"]]
        assert episode["rewards"] == {
            "task_completion": [outcome.task_completion, 0.8],
            "tool_execution": [outcome.tool_execution, 0.1],
            "format_compliance": [outcome.format_compliance, 0.1],
        }
        assert episode["ok"] and episode["stop"] == outcome.stop and episode["branches"] == 1
    assert told["runtime"] == "subprocess" and told["two"] == 2
    assert rewards(told["wired"]) == {"game 0": here["game 0"].reward}


async def test_a_model_that_calls_tools_has_the_rewards_of_hudtui_to_the_bit(
    told: dict[str, Any], world: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"tasks": "many.json", "config": Path("native.yaml")}
    with scripted_chat(native_reply) as chat:
        here = await played_here(world, chat, python, monkeypatch, **files)
    assert any(one.cut for one in here.values()) and len({one.reward for one in here.values()}) > 5
    assert rewards(told["native"]) == {task: outcome.reward for task, outcome in here.items()}
    assert all(episode["ok"] and episode["branches"] == 1 for episode in told["native"])


async def test_what_tasks_expect_is_judged_as_by_hudtui_to_the_bit(
    told: dict[str, Any], world: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"tasks": "judged.json", "config": Path("judged.yaml")}
    with scripted_chat(judged.reply) as chat:
        here = await played_here(world, chat, python, monkeypatch, **files)
    assert rewards(told["judged"]) == {task: outcome.reward for task, outcome in here.items()}
    for episode in told["judged"]:
        parts = {name: episode["metrics"][name] for name in judged.SCORES[episode["task"]]}
        assert episode["ok"] and parts == judged.SCORES[episode["task"]]
        assert episode["rewards"]["task_completion"][0] == here[episode["task"]].task_completion


async def test_a_model_judges_as_by_hudtui_to_the_bit(
    told: dict[str, Any], world: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"tasks": "rubric.json", "config": Path("judged.yaml")}
    with scripted_chat(judged.reply) as chat, scripted_chat(judged.verdict) as judge:
        (world / "rubric.json").write_text(json.dumps(judged.by_rubric(judge.url)))
        here = await played_here(world, chat, python, monkeypatch, **files)
    [outcome] = here.values()
    [episode] = told["rubric"]
    assert episode["ok"] and episode["reward"] == outcome.reward
    assert 0 < outcome.own["state"] < 1
    assert {name: episode["metrics"][name] for name in outcome.own} == outcome.own


def test_a_call_in_a_thought_is_never_played(told: dict[str, Any]) -> None:
    assert told["marked"] == [wanted_call(reply) for reply in any_replies(1000)]


def test_reasoning_that_the_endpoint_keeps_apart_is_a_thought_and_stays_apart(
    told: dict[str, Any],
) -> None:
    (episode,) = told["keeps reasoning apart"]
    assert episode["ok"] and episode["branches"] == 1
    assert episode["rewards"]["format_compliance"][0] == 1.0


def test_what_verifiers_ends_is_evaluated(told: dict[str, Any]) -> None:
    (limited,) = told["verifiers' own limit"]
    assert (
        limited["stop"] == "max_turns"
        and limited["ok"]
        and limited["rewards"]["task_completion"][0] > 0
    )
    (hurried,) = told["out of time"]
    assert hurried["recorded"] and hurried["rewards"]["task_completion"][0] > 0, hurried


def test_secrets_reach_no_trace(told: dict[str, Any], chat: ScriptedChat) -> None:
    (episode,) = told["secret"]
    assert episode["ok"] and "the key is" in episode["record"]
    assert SECRET not in episode["record"] and "k-of-a-test" not in episode["record"]
    assert any(
        SECRET in json.dumps(request) for request in chat.requests
    )  # it was there to be recorded


def test_what_fails_is_told_and_has_no_reward(told: dict[str, Any]) -> None:
    (broken,) = told["broken"]
    assert not broken["ok"] and not broken["rewards"] and "the setup failed" in broken["errors"][0]
    (closed,) = told["no key"]
    assert not closed["ok"] and not closed["rewards"] and "401" in closed["errors"][0]
    assert "colour is no setting of hud-vf-gym" in told["refused"]["unknown"][0]
    assert "max_turns is no setting" in told["refused"]["wrong"][0]


async def test_the_example_has_an_environment_a_gym_and_a_rubric_of_its_own(
    told: dict[str, Any],
    world: Path,
    chat: ScriptedChat,
    python: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lights = {"tasks": "lights/tasks.json", "config": Path("lights/lights.yaml")}
    here = await played_here(world, chat, python, monkeypatch, **lights)
    plain = told["hud-vf-gym"]
    assert (
        rewards(plain) == {task: outcome.reward for task, outcome in here.items()}
        and len(plain) == 2
    )
    for episode in plain:
        assert list(episode["rewards"]) == [
            "task_completion",
            "tool_execution",
            "format_compliance",
            "no_errors",
            "thoughtful",
        ]
        assert {name: score for name, (score, _) in episode["rewards"].items()} == {
            **{name: getattr(here[episode["task"]], name) for name in list(episode["rewards"])[:3]},
            **here[episode["task"]].own,
        }
        assert episode["rewards"]["no_errors"][1] == 0.1
    told_of = {
        json.loads(episode["record"])["traces"][0]["info"]["hudtui"]["info"]["trace"]
        for episode in plain
    }
    assert all(
        (world / "spans" / f"{uuid.UUID(trace).hex}.jsonl").exists() for trace in told_of
    )  # a job of the configuration, traces below it
    assert all("repeated" in episode["metrics"] for episode in told["lights-vf-gym"])
    assert all(
        list(episode["rewards"])[3:] == ["brevity"]
        for episode in told["hud-vf-gym lights_rewards:brevity"]
    )


def test_buckeye_plays_on_its_own_platform_and_the_endpoint_needs_no_prime(
    told: dict[str, Any], chat: ScriptedChat
) -> None:
    assert list(told["buckeye"]) == ["buckeye"]
    assert told["default endpoint"] == chat.url
    assert told["with Prime's key"] == "PRIME_API_KEY"


def test_the_commands_of_the_seed(
    world: Path, python: str, chat: ScriptedChat, tmp_path: Path
) -> None:
    """`vf-eval`, and `hudtui eval` with the seed's words: the same rewards."""
    env = environment(
        tmp_path, HUDTUI_PYTHON=python, OPENAI_BASE_URL=chat.url, HUDTUI_TRUST=str(world)
    )
    words = [
        "--env.taskset.taskset",
        "tasks.json",
        "--env.taskset.config-path",
        "2048.yaml",
        "-m",
        "stub",
    ]
    command = [python, "-c", MAIN, "hud-vf-gym", *words, "-n", "2", "--rollouts-per-example", "2"]
    done = subprocess.run(
        [
            *command,
            "--no-rich",
            "-o",
            str(tmp_path / "vf"),
            "--run.name",
            "a",
        ],  # without Prime's key nothing is pushed
        cwd=world,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [
        json.loads(line)
        for line in (tmp_path / "vf" / "a" / "traces.jsonl").read_text().splitlines()
    ]
    theirs = sorted(
        (
            row["task"]["data"]["id"],
            plain_number(
                sum(one["score"] * one["weight"] for one in row["traces"][0]["rewards"].values())
            ),
        )
        for row in rows
    )
    arguments = json.dumps({"taskset": "tasks.json", "config_path": "./2048.yaml"})
    seed = [
        "hud-vf-gym",
        "--model",
        "stub",
        "--env-args",
        arguments,
        "--num-examples",
        "2",
        "--rollouts-per-example",
        "2",
    ]
    run = subprocess.run(
        [python, "-m", "hudtui", "eval", *seed, "--json", "-o", str(tmp_path / "out")],
        cwd=world,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stderr.count(" episode ") == 4
    tasks = json.loads(run.stdout)["tasks"]
    own = sorted(
        (episode["task"], episode["reward"]) for task in tasks for episode in task["episodes"]
    )
    assert own == theirs and len(own) == 4


def said_by_vf_eval(
    world: Path, python: str, verifiers: ReadyPython, *words: str, **variables: str
) -> tuple[int, str]:
    """The exit code of `vf-eval hud-vf-gym`, and what it says on standard error."""
    env = environment(
        world.parent, HUDTUI_PYTHON=python, HUD_TELEMETRY_ENABLED="false", **variables
    )
    env = {name: value for name, value in env.items() if value}
    done = verifiers.run("-c", MAIN, "hud-vf-gym", *words, cwd=world, env=env)
    return done.returncode, done.stderr


PLAYED = (
    "--env.taskset.taskset",
    "tasks.json",
    "-m",
    "stub",
    "-n",
    "1",
    "--rollouts-per-example",
    "1",
    "--no-rich",
    "--no-push",
)


def test_without_a_key_vf_eval_ends_at_once_in_words(
    world: Path, python: str, verifiers: ReadyPython
) -> None:
    code, said = said_by_vf_eval(
        world,
        python,
        verifiers,
        *PLAYED,
        "--env.taskset.config-path",
        "2048.yaml",
        OPENAI_API_KEY="",
    )
    assert code == 1 and "Traceback" not in said
    assert (
        "error: there is no key for the model" in said
        and "OPENAI_API_KEY nor PRIME_API_KEY" in said
    )


def test_a_file_that_is_missing_and_a_folder_that_is_not_trusted_are_words(
    world: Path, python: str, verifiers: ReadyPython
) -> None:
    code, said = said_by_vf_eval(
        world, python, verifiers, *PLAYED, "--env.taskset.config-path", "nope.yaml"
    )
    assert code == 1 and "nope.yaml: there is no such file" in said and "Traceback" not in said
    bare = (
        "--env.taskset.taskset",
        "secret.json",
        "--env.taskset.config-path",
        "free.yaml",
        *PLAYED[2:],
    )
    code, said = said_by_vf_eval(world, python, verifiers, *bare, HUDTUI_TRUST="")
    assert code == 1 and "hudtui trust" in said and "Traceback" not in said


def test_a_reward_outside_its_range_is_told_once(
    world: Path, python: str, verifiers: ReadyPython, chat: ScriptedChat
) -> None:
    (world / "generous.json").write_text(json.dumps([generous("a"), generous("b")]))
    words = (
        "--env.taskset.taskset",
        "generous.json",
        "--env.taskset.config-path",
        "free.yaml",
        *PLAYED[2:],
    )
    code, said = said_by_vf_eval(
        world, python, verifiers, *words, "-n", "2", OPENAI_BASE_URL=chat.url
    )
    assert code == 0, said
    assert said.count("the reward 12, outside 0 to 1") == 1


def test_options_that_verifiers_refuses_are_answered_with_the_command_that_takes_them(
    world: Path, python: str, verifiers: ReadyPython
) -> None:
    arguments = '{"taskset": "tasks.json", "config_path": "./configs/2048.yaml"}'
    code, said = said_by_vf_eval(
        world, python, verifiers, "--env-args", arguments, "--num-examples", "2"
    )
    assert code != 0 and f"hudtui eval hud-vf-gym --env-args '{arguments}' --num-examples 2" in said


def test_where_prompts_go_is_said_before_they_go(
    world: Path, python: str, verifiers: ReadyPython, chat: ScriptedChat
) -> None:
    code, said = said_by_vf_eval(
        world,
        python,
        verifiers,
        *PLAYED,
        "--env.taskset.config-path",
        "2048.yaml",
        OPENAI_BASE_URL=chat.url,
    )
    assert (
        code == 0
        and said.count(f"hudtui: prompts go to {chat.url} with OPENAI_API_KEY, and not to ") == 1
    )
    both = {"PRIME_API_KEY": "k-of-prime", "OPENAI_BASE_URL": chat.url, "PRIME_INFERENCE_URL": ""}
    env = environment(world.parent, **both)
    told = verifiers.run("-c", BOTH, cwd=world, env=env)
    assert told.returncode == 0, told.stderr
    assert (
        "prompts go to https://api.pinference.ai/api/v1 with PRIME_API_KEY, and OPENAI_API_KEY is "
        "not used" in told.stderr
    )
    assert "--no-push" in told.stderr


BOTH = """
import verifiers.v1 as vf
from hudtui.trainers import verifiers_gym
ctx = vf.ModelContext(client=vf.EvalClientConfig(), model="m")
assert verifiers_gym._reachable(ctx) is verifiers_gym._reachable(ctx) is ctx
"""


def test_an_interrupted_evaluation_leaves_nothing_behind(
    world: Path, python: str, tmp_path: Path
) -> None:
    def never(messages: Any) -> str:
        asked.append(1)
        time.sleep(30)
        return ""

    asked: list[int] = []
    with scripted_chat(never) as chat:
        env = environment(
            tmp_path, HUDTUI_PYTHON=python, OPENAI_BASE_URL=chat.url, HUDTUI_TRUST=str(world)
        )
        words = [
            "--env.taskset.taskset",
            "tasks.json",
            "--env.taskset.config-path",
            "2048.yaml",
            "-m",
            "stub",
            "-n",
            "2",
        ]
        more = ["--no-push", "--no-rich", "-o", str(tmp_path / "o")]
        process = subprocess.Popen(
            [python, "-c", MAIN, "hud-vf-gym", *words, *more],
            cwd=world,
            env=env,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        limit = time.monotonic() + 120
        while len(asked) < 2 and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.1)
        mark = str(tmp_path / "o").encode()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert len(asked) == 2 and process.returncode == 130, said
    assert not [
        pid
        for pid in _processes()
        if mark in pid[1] or (b"text_2048" in pid[1] and python.encode() in pid[1])
    ]


def _processes() -> list[tuple[int, bytes]]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found.append((int(place.name), (place / "cmdline").read_bytes()))
        except OSError:
            continue
    return found
