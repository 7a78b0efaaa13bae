import asyncio
import contextlib
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from hudtui.core.demo import (
    FILES,
    DemoResult,
    DemoWorkspace,
    LogLine,
    RunBegun,
    is_demo,
    make_workspace,
    prepare,
    walk,
)
from hudtui.core.demo.workspace import CONFIG, TASKS
from hudtui.core.environment.cache import load_analysis
from hudtui.core.environment.discover import analyze
from hudtui.core.environment.source import parse_source
from hudtui.core.errors import ConfigError, InputError, RunError
from hudtui.core.events import Notice
from hudtui.core.gym.config import load_config
from hudtui.core.gym.lint.check import lint
from hudtui.core.lockfile import read_lock
from hudtui.core.platform import HUD
from hudtui.core.rollouts.trace import read_trace
from hudtui.core.runs.launch import stop_run
from hudtui.core.runs.store import RunStore
from hudtui.core.settings import load_settings
from hudtui.core.tasks.read import read_tasks
from hudtui.core.workspace import open_workspace

FOLDER = Path("demo")


async def prepared(folder=FOLDER):
    async with contextlib.aclosing(prepare(folder)) as events:
        return [event async for event in events][-1]


def snapshot(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A demo workspace, made once: tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("template") / "demo"
    make_workspace(folder)
    return folder


@pytest.fixture
def workspace(template):
    shutil.copytree(template, FOLDER)
    return FOLDER


async def test_the_workspace_is_what_the_stations_look_for():
    made = await prepared()
    assert isinstance(made, DemoWorkspace)
    assert set(made.created) == {*FILES, ".env"}
    found = open_workspace(FOLDER)
    assert [path.relative_to(FOLDER.absolute()) for path in found.configs] == [Path(CONFIG)]
    assert [path.name for path in found.task_files] == [TASKS]
    assert found.lock is not None and found.notices == ()
    assert is_demo(FOLDER)
    assert load_analysis(parse_source("text-2048", folder=FOLDER)).tools == made.analysis.tools


async def test_the_lock_file_tells_what_is_in_the_environment(workspace):
    lock = read_lock(workspace / HUD.lock_name)
    assert (lock.version, lock.image) == ("1.3", None)
    assert [notice for notice in lock.notices if "no image is named" not in notice] == []
    live = await analyze(parse_source("text-2048"))
    offline = await analyze(parse_source(str(workspace / HUD.lock_name)), live=False)
    assert [tool.to_json() for tool in offline.tools] == [tool.to_json() for tool in live.tools]
    assert offline.hubs == live.hubs


async def test_the_configuration_is_clean_and_fits(workspace):
    live = await analyze(parse_source("text-2048"))
    tools = {tool.name: tool for tool in live.tools}
    assert lint((workspace / CONFIG).read_text(), name=CONFIG, tools=tools) == ()
    config = load_config(workspace / CONFIG)
    assert set(config.mappings) == {"left", "right", "up", "down"}
    assert config.max_turns == 200


async def test_the_tasks_are_valid_here(workspace):
    settings = load_settings(workspace, HUD)
    live = await analyze(parse_source("text-2048"))
    read = read_tasks(workspace / TASKS, lookup=settings.lookup, analysis=live)
    assert (len(read.tasks), read.problems) == (6, ())
    assert len({task.id for task in read.tasks}) == 6
    assert settings.get("HUDTUI_PYTHON") == sys.executable
    assert (
        settings.origin("HUDTUI_SIM") == "environment"
    )  # of the tests; the demo has one of its own
    assert "HUDTUI_SIM=demo" in (workspace / ".env").read_text().splitlines()


def test_what_is_shared_belongs_to_no_machine(workspace):
    kept_private = (workspace / ".gitignore").read_text().split()
    for name in FILES:
        text = (workspace / name).read_text()
        for private in (sys.prefix, str(Path.cwd()), str(Path.home()), os.uname().nodename):
            assert private not in text, (name, private)
    assert ".env" in kept_private
    assert (workspace / ".env").stat().st_mode & 0o777 == 0o600


def test_the_example_names_every_key_without_a_value(workspace):
    lines = (workspace / ".env.example").read_text().splitlines()
    values = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    assert {
        "HUD_API_KEY",
        "BUCKEYE_API_KEY",
        "WANDB_API_KEY",
        "PRIME_API_KEY",
        "OPENAI_API_KEY",
        "HF_TOKEN",
    } <= set(values)
    assert set(values.values()) == {""}


async def test_again_on_the_same_workspace_changes_nothing(workspace):
    (workspace / TASKS).write_text("[]  // the user's own edit")
    (workspace / CONFIG).unlink()
    before = snapshot(workspace)
    made = await prepared()
    assert made.created == (CONFIG,)
    after = snapshot(workspace)
    assert {name: after[name] for name in before if "analyses" not in name} == {
        name: data for name, data in before.items() if "analyses" not in name
    }


async def test_an_interpreter_that_is_gone_is_replaced(workspace):
    (workspace / ".env").write_text("# mine\nOTHER=1\nHUDTUI_PYTHON=/nowhere/python\n")
    await prepared()
    assert (workspace / ".env").read_text() == f"# mine\nOTHER=1\nHUDTUI_PYTHON={sys.executable}\n"


@pytest.mark.parametrize("name", [TASKS, CONFIG, HUD.lock_name, ".env.example"])
async def test_a_project_of_the_users_is_left_alone(name):
    (FOLDER / name).parent.mkdir(parents=True)
    (FOLDER / name).write_text("mine")
    before = snapshot(FOLDER)
    with pytest.raises(InputError, match="a project of its own") as caught:
        await prepared()
    assert name in caught.value.what and "NEWFOLDER" in caught.value.fix
    assert snapshot(FOLDER) == before


async def test_a_folder_with_other_things_in_it_will_do():
    FOLDER.mkdir()
    (FOLDER / "notes.txt").write_text("mine")
    (FOLDER / ".env").write_text("MINE=1\n")
    made = await prepared()
    assert set(made.created) == set(FILES)
    assert (FOLDER / "notes.txt").read_text() == "mine"
    assert (FOLDER / ".env").read_text() == "MINE=1\n"


async def test_places_where_no_folder_can_be():
    Path("file").write_text("x")
    with pytest.raises(InputError, match="not a folder"):
        await prepared(Path("file"))
    with pytest.raises(InputError, match="cannot be made"):
        await prepared(Path("file/below"))


async def test_from_a_thread_without_a_loop():
    made = await asyncio.to_thread(make_workspace, FOLDER)
    assert set(made) == {FOLDER / name for name in (*FILES, ".env")}


# -- the whole road
# --------------------------------------------------------------------------------------------------


async def test_the_whole_road(workspace):
    async with contextlib.aclosing(walk(workspace)) as events:
        seen = [event async for event in events]
    result = seen[-1]
    assert isinstance(result, DemoResult)
    assert (result.run.state, result.run.mode, result.findings) == ("finished", "tmux", 0)
    assert [row.task for row in result.rows] == [
        task.id for task in read_tasks(workspace / TASKS).tasks
    ]
    assert all(
        0 < row.reward <= 1 and row.turns > 30 and row.best_tile >= 32 for row in result.rows
    )
    assert {row.stop for row in result.rows} <= {"done", "max_turns"}
    lines = [event.text for event in seen if isinstance(event, LogLine)]
    for row in result.rows:
        assert any(
            f"task={row.task} reward={row.reward:.3f} turns={row.turns} stop={row.stop}" in line
            for line in lines
        )
    assert not [event for event in seen if isinstance(event, Notice)]
    (run,) = RunStore(workspace / ".hudtui").runs()
    assert run == result.run
    traces = list(read_trace(Path(run.folder) / "out" / "traces.jsonl"))
    assert len(traces) == 6
    json.dumps(result.to_json())


async def test_the_road_without_tmux(workspace):
    tasks = json.loads((workspace / TASKS).read_text())
    (workspace / TASKS).write_text(json.dumps(tasks[:1]))
    async with contextlib.aclosing(walk(workspace, tmux=False)) as events:
        seen = [event async for event in events]
    assert (seen[-1].run.state, seen[-1].run.mode, len(seen[-1].rows)) == (
        "finished",
        "processes",
        1,
    )


async def test_a_spoiled_configuration_stops_the_walk(workspace):
    (workspace / CONFIG).write_text("action_mappings: {left: {}}\n")
    with pytest.raises(ConfigError) as caught:
        async for event in walk(workspace):
            assert not isinstance(event, RunBegun)
    assert caught.value.where.line == 1 and "remove the file" in caught.value.fix


async def test_spoiled_tasks_stop_the_walk(workspace):
    (workspace / TASKS).write_text('[{"id": "x"}]')
    with pytest.raises(InputError, match="no task of this file"):
        async for event in walk(workspace):
            assert not isinstance(event, RunBegun)


async def test_a_run_that_is_stopped_is_no_result(workspace):
    from hudtui.core.remote.local import LocalHost

    store = RunStore(workspace / ".hudtui")
    with pytest.raises(RunError, match="stopped") as caught:
        async with contextlib.aclosing(walk(workspace)) as events:
            async for event in events:
                if isinstance(event, RunBegun):
                    await stop_run(event.run, LocalHost(), store)
    assert "runs logs" in caught.value.fix
    assert [run.state for run in store.runs()] == ["stopped"]
