import json
import sys
from contextlib import aclosing
from pathlib import Path

import pytest
from support import servers
from support.oauth_world import OAuthWorld
from support.person import ScriptedPerson

from hudtui.core.environment.bundled import with_python_variable
from hudtui.core.environment.login_file import LoginOptions
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConfigError, InputError
from hudtui.core.events import Notice
from hudtui.core.flows.login import log_in
from hudtui.core.gym.values import GymConfig
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import (
    EpisodeDone,
    EvalFinished,
    EvalPrepared,
    EvalRequest,
    new_out_dir,
    read_playable_tasks,
    run_eval,
)
from hudtui.core.settings import load_settings

odd_http = servers.odd_http
CONFIG = "action_mappings:\n" + "".join(
    f"  {name}: {{_tool: move, direction: {{static: {name}}}}}\n"
    for name in ("left", "right", "up", "down")
)
RECORD = {
    "id": "one",
    "prompt": "Play.",
    "mcp_config": {
        "env": {"command": "${HUDTUI_PYTHON:-/nowhere}", "args": ["-m", "hudtui.envs.text_2048"]}
    },
    "setup_tool": {"name": "setup", "arguments": {"name": "board", "seed": 1}},
    "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 64}},
}


@pytest.fixture
def project(own_world):
    Path("c.yaml").write_text(CONFIG)
    Path("tasks.json").write_text(json.dumps([RECORD]))
    return own_world


async def carry_out(project, **changes):
    request = EvalRequest(
        **{"tasks": "tasks.json", "config": Path("c.yaml"), "max_turns": 2, **changes}
    )
    async with aclosing(run_eval(request, load_settings(project, HUD))) as events:
        return [event async for event in events]


async def test_from_files_to_a_summary(project, monkeypatch):
    monkeypatch.chdir("/")  # relative paths start in the project, wherever the program runs
    events = await carry_out(project, group=2)
    prepared = next(event for event in events if isinstance(event, EvalPrepared))
    assert (prepared.policy, prepared.episodes, [task.id for task in prepared.tasks]) == (
        "greedy",
        2,
        ["one"],
    )
    assert len([event for event in events if isinstance(event, EpisodeDone)]) == 2
    finished = events[-1]
    assert isinstance(finished, EvalFinished)
    assert (len(finished.summary.outcomes), finished.summary.failed) == (2, 0)
    assert finished.out_dir == prepared.out_dir and finished.out_dir.parent == project / "outputs"


@pytest.mark.parametrize(("dialect", "told"), [(None, False), ("native", True), ("hermes", True)])
async def test_a_prompt_that_teaches_another_form_of_calls_is_told(project, dialect, told):
    (project / "c.yaml").write_text("system_prompt: Say <tool>left()</tool> or so.\n" + CONFIG)
    events = await carry_out(project, dialect=dialect)
    words = [event.message for event in events if isinstance(event, Notice)]
    assert any("teaches calls in <tool> tags" in one for one in words) is told


async def test_a_login_counts_without_a_question_and_its_tokens_reach_no_trace(project, odd_http):
    world = await OAuthWorld.start(odd_http)
    settings = load_settings(project, HUD)
    await log_in(
        parse_source(world.url),
        ScriptedPerson(world.browse),
        settings,
        options=LoginOptions(browser=False),
    )
    world.says = "you came with TOKEN"
    Path("c.yaml").write_text("action_mappings:\n  say: {_tool: say}\n")
    Path("tasks.json").write_text(json.dumps([{**RECORD, "mcp_config": {"w": {"url": world.url}}}]))
    await carry_out(project, policy="random", seed=1, out_dir=project / "out")
    written = "".join(file.read_text() for file in (project / "out").rglob("*") if file.is_file())
    assert "you came with ***" in written and "access-token" not in written
    assert set(world.tokens) == {"Bearer access-token-1"}


async def test_the_setting_limits_a_call_where_the_request_does_not(project, monkeypatch):
    server = "import sys, time; sys.stderr.write('loading'); time.sleep(3600)"
    Path("tasks.json").write_text(
        json.dumps(
            [{**RECORD, "mcp_config": {"env": {"command": sys.executable, "args": ["-c", server]}}}]
        )
    )
    monkeypatch.setenv("HUD_CLIENT_TIMEOUT", "0.5")
    (outcome,) = (await carry_out(project))[-1].summary.outcomes
    assert outcome.stop == "error" and "0.5 s" in outcome.error
    (outcome,) = (await carry_out(project, timeout=0.25))[-1].summary.outcomes
    assert "0.25 s" in outcome.error


async def test_going_on_sums_up_all_of_it(project):
    await carry_out(project, out_dir=Path("out"))
    events = await carry_out(project, out_dir=Path("out"), group=3, resume=True)
    assert len([event for event in events if isinstance(event, EpisodeDone)]) == 2
    assert [outcome.rollout for outcome in events[-1].summary.outcomes] == [0, 1, 2]


async def test_tasks_without_an_environment_run_the_locked_image(project):
    record = {key: value for key, value in RECORD.items() if key != "mcp_config"}
    Path("tasks.json").write_text(json.dumps([record]))
    with pytest.raises(InputError, match="no task can be"):
        await carry_out(project)
    Path("hud.lock.yaml").write_text("version: '1.0'\nimage: org/env:1\n")
    (task,) = read_playable_tasks("tasks.json", GymConfig(), load_settings(project, HUD))[0].tasks
    assert "org/env:1" in json.dumps(task.mcp_config)


@pytest.mark.parametrize("own", [None, {}, {"gone": {"url": "https://$NOWHERE.example/mcp"}}])
async def test_tasks_are_played_in_the_source_whatever_they_name(project, own):
    record = {**RECORD, "mcp_config": own}
    Path("tasks.json").write_text(json.dumps([record]))
    events = await carry_out(project, source="text-2048")
    (task,) = next(event for event in events if isinstance(event, EvalPrepared)).tasks
    assert list(task.mcp_config) == ["text-2048"], (
        "its servers, whose secrets are masked in the records"
    )
    assert events[-1].summary.failed == 0


async def test_a_broken_lock_file_is_no_hindrance_to_those_who_need_none(project):
    Path("hud.lock.yaml").write_text("image: [")
    events = await carry_out(project)
    assert isinstance(events[0], Notice) and "the lock file is left out" in events[0].message
    assert events[-1].summary.failed == 0


async def test_a_configuration_with_errors_plays_nothing(project):
    Path("c.yaml").write_text("action_mappings: {left: {}}\n")
    with pytest.raises(ConfigError):
        await carry_out(project)


def test_output_folders_have_names_of_their_own(project):
    request = EvalRequest("tasks.json", Path("configs/my gym.yaml"))
    first = new_out_dir(project, request, "openai:org/Model-1.5 x")
    assert first.parts[0] == "outputs" and first.name.startswith("my gym-Model-1.5-x-")
    (project / first).mkdir(parents=True)
    second = new_out_dir(project, request, "openai:org/Model-1.5 x")
    assert second != first
    assert "/" not in new_out_dir(project, request, "replay:../a/b.jsonl").name


def test_the_python_of_the_bundled_environments():
    assert with_python_variable({}.get)("HUDTUI_PYTHON") == sys.executable
    assert with_python_variable({"HUDTUI_PYTHON": "/own"}.get)("HUDTUI_PYTHON") == "/own"
    assert with_python_variable({}.get)("OTHER") is None


async def test_actions_whose_tool_judges_are_told_of(project):
    judged = {**RECORD, "evaluate_tool": {"name": "move", "arguments": {"direction": "left"}}}
    Path("tasks.json").write_text(json.dumps([judged]))
    told = [event.message for event in await carry_out(project) if isinstance(event, Notice)]
    assert any(
        text.startswith("left, right, up, down cannot be called: the tool judges task one")
        for text in told
    )


SOLVED = {
    "id": "solved",
    "solution": [{"name": "move", "arguments": {"direction": way}} for way in ("left", "down")] * 2,
    "evaluate_tool": {"name": "evaluate", "arguments": {"name": "max_number", "target": 4}},
}


async def test_the_solutions_of_tasks_are_played_beyond_the_limit_of_turns(project):
    tasks = [RECORD, {**RECORD, **SOLVED}]
    Path("tasks.json").write_text(json.dumps(tasks))
    events = await carry_out(project, policy="solution", group=2)
    (warning,) = (one.message for one in events if isinstance(one, Notice))
    assert "1 of 2 tasks have no solution and are not played: one is the first" in warning
    episodes = [one.episode for one in events if isinstance(one, EpisodeDone)]
    assert [episode.task_id for episode in episodes] == ["solved", "solved"]
    for episode in episodes:
        assert (episode.stop, episode.solved) == ("done", True)
        calls = [turn.call and turn.call["arguments"]["direction"] for turn in episode.turns]
        assert calls == ["left", "down", "left", "down", None]


async def test_tasks_without_a_solution_are_refused_before_anything_starts(project):
    with pytest.raises(InputError, match="has a solution to play"):
        await carry_out(project, policy="solution")
    assert not Path("outputs").exists()


async def test_no_other_player_is_shown_a_solution_and_no_trace_keeps_it(project):
    secret = {**SOLVED, "solution": [*SOLVED["solution"], {"reply": "the-hidden-words"}]}
    Path("tasks.json").write_text(json.dumps([{**RECORD, **secret}]))
    events = await carry_out(project, policy="greedy")
    trace = (events[-1].out_dir / "traces.jsonl").read_text()
    assert len(trace.splitlines()) == 1 and "Play." in trace
    assert "the-hidden-words" not in trace and "solution" not in trace
