"""What is known of tasks before a run: the line, and the difficulties that tasks are chosen by."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hudtui.core.audit.kept import keep
from hudtui.core.audit.values import Audit
from hudtui.core.flows.baseline import Known, known_of, measurer, with_baseline
from hudtui.core.gym.config import load_config
from hudtui.core.project import Project, open_project
from hudtui.core.rollouts.measures import Measure, play_digest, read_measures, task_digest
from hudtui.core.runs.again import request_again
from hudtui.core.runs.checks import Check
from hudtui.core.runs.inputs import config_in
from hudtui.core.runs.prepare import Preparation, prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.select import Measured, select_tasks
from hudtui.core.tasks.task import Task

NOW = 1_000_000.0
TASKS = [Task(f"t{number}", f"Play {number}.") for number in range(4)]
MODEL = "openai:org/model"


def measure(number: int, player: str, *rewards: float, **changes: Any) -> Measure:
    task = TASKS[number]
    solved = sum(reward >= 1 for reward in rewards)
    own = 1 - sum(rewards) / len(rewards)
    one = Measure(task.id, task_digest(task), "p", player, rewards, solved, own, NOW - 7200)
    return replace(one, **changes)


def known(*measures: Measure, **options: Any) -> Known:
    asked = {"group": 4, "subject": MODEL, "command": "hudtui eval", "now": NOW, **options}
    return known_of(TASKS, "p", measures, **asked)


def played(player: str, *rewards: float) -> list[Measure]:
    return [measure(number, player, *rewards) for number in range(4)]


def test_nothing_known_is_said_with_the_command_that_finds_out() -> None:
    check = known().check()
    assert check is not None and check.state == "warning"
    assert check.text == "no evaluation of these tasks with this configuration is known"
    assert check.fix is not None and check.fix.startswith("Find out: hudtui eval (with ")
    assert known(subject=None).check() is None, "rollouts find out by themselves"


def test_the_weakest_and_the_best_player_are_named_with_their_age() -> None:
    line = known(*played("random", 0.0), *played("greedy", 0.5), *played("other", 0.25)).line()
    assert line == (
        "mean reward: weakest random 0.00 (2 hours ago), best greedy 0.50 (2 hours ago); "
        "org/model was not evaluated"
    )


def test_what_a_training_would_learn_from_is_said_of_its_own_model_alone() -> None:
    spread = played("random", 0.0, 1.0, 0.0, 1.0)
    assert "learn from" not in known(*spread).line()
    others = known(*spread, *played(MODEL, 1.0, 1.0, 1.0, 1.0))
    assert "org/model pass@1 1.00 (" in others.line() and "pass@4 1.00 (" in others.line()
    assert "a training would learn from 0% of the groups" in others.line()
    assert others.model is not None and others.model.player == MODEL


def test_a_spread_of_format_alone_is_said() -> None:
    words = "no episode got any of the tasks' own reward"
    calls_only = [replace(one, difficulty=1.0) for one in played(MODEL, 0.1, 0.2, 0.1, 0.2)]
    line = known(*calls_only).line()
    assert "learn from 100% of the groups" in line and words in line
    assert words not in known(*played(MODEL, 0.1, 0.2, 0.1, 0.2)).line()


def test_too_few_episodes_are_said() -> None:
    single = known(*played(MODEL, 1.0))
    assert "one episode a task is too few to say" in single.line() and not single.complete
    (check,) = [single.check()]
    assert check is not None and check.state == "warning" and check.fix is not None
    wide = known(measure(0, MODEL, 1.0, 0.0, 0.0, 1.0))
    assert "of only 1 task: the shares are as good as unknown" in wide.line()
    assert "1 of 4 tasks" in wide.line() and not wide.complete, "three are not measured"
    few = known(*played(MODEL, 1.0, 0.0, 0.0, 1.0), *played("random", 0.0)).check()
    assert few is not None and few.state == "fine", "no other evaluation would say more"
    many = [Task(f"m{number}", "Play.") for number in range(60)]
    measures = [
        Measure(one.id, task_digest(one), "p", MODEL, (1.0, 0.0), 1, 0.5, NOW) for one in many
    ]
    rough = known_of(many, "p", measures, group=4, subject=MODEL, now=NOW)
    assert "fewer episodes a task than a group has" in rough.line() and not rough.complete
    whole = [replace(one, rewards=(1.0, 0.0, 1.0, 0.0), solved=2) for one in measures]
    sure = known_of(many, "p", whole, group=4, subject=MODEL, now=NOW)
    assert sure.complete and "a training would learn from 100% of the groups" in sure.line()


def test_measures_from_before_a_change_do_not_count_and_are_said() -> None:
    before = [
        measure(0, MODEL, 1.0, task_digest="older"),
        measure(1, MODEL, 1.0, play_digest="older"),
        measure(2, MODEL, 1.0, play_digest="older", task_digest="older"),  # another task's name
        measure(3, MODEL, 1.0, play_digest="older"),
    ]
    found = known(*before, *[measure(3, MODEL, 0.0, 1.0)])
    assert found.stale == 2 and found.players[0].tasks == 1
    assert found.line().endswith("2 tasks measured before a change: not counted")


@pytest.mark.parametrize("player", ["solution", "replay:best.jsonl", "audit"])
def test_who_repeats_what_is_known_is_no_player(player: str) -> None:
    assert known(*played(player, 1.0, 1.0)).players == ()


def test_the_line_is_plain_data_too() -> None:
    plain = json.loads(json.dumps(known(*played(MODEL, 1.0, 0.0, 0.0, 1.0)).to_json()))
    (player,) = plain["players"]
    assert plain["evaluated"] and plain["model"] == MODEL and plain["tasks"] == 4
    assert player["baseline"]["pass@1"]["value"] == 0.5
    assert player["baseline"]["spread"]["value"] == 1.0


# --- in a project ---------------------------------------------------------------------------------

CONFIG = "action_mappings: {left: {_tool: move, direction: {static: left}}}\n"


@pytest.fixture
def project(own_world: Any) -> Project:
    server = {"command": "python", "args": ["-m", "hudtui.envs.text_2048"]}
    judge = {"name": "evaluate", "arguments": {"name": "max_number", "arguments": {"target": 64}}}
    task = {"prompt": "Play.", "mcp_config": {"text-2048": server}, "evaluate_tool": judge}
    tasks = [{**task, "id": f"t{number}"} for number in range(8)]
    (own_world / "tasks.json").write_text(json.dumps(tasks))
    (own_world / "c.yaml").write_text(CONFIG)
    return open_project(own_world)


async def prepare(project: Project, **options: Any) -> Preparation:
    asked = {"engine": "trl", "host": "local", "model": "tiny", "rehearse": True, **options}
    store = project.runs
    return await prepare_run(
        RunRequest(**asked),
        project.workspace(),
        project.settings(),
        store,
        measure=measurer(project.folder, store),
    )


async def evaluated(project: Project, **difficulties: tuple[float, ...]) -> None:
    """Write what evaluations of the project's tasks by some players have measured."""
    inputs = (await prepare(project, engine="rollouts", rehearse=False, model=None)).inputs
    assert inputs.config is not None and inputs.config_file is not None
    how = play_digest(config_in(inputs.config, inputs.config_file))
    for player, values in difficulties.items():
        folder = project.folder / "outputs" / player
        folder.mkdir(parents=True)
        (folder / "traces.jsonl").write_text("")
        lines = [
            {
                "task": task.id,
                "time": "2026-11-28T05:02:57.658+00:00",
                "player": player,
                "task_digest": task_digest(task),
                "play_digest": how,
                "rewards": [1 - value] * 4,
                "solved": 0.0,
                "difficulty": value,
            }
            for task, value in zip(inputs.tasks, values, strict=False)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        assert read_measures(folder / "metrics.jsonl")


def kept(prepared: Preparation) -> list[str]:
    return [task.id for task in prepared.inputs.tasks]


def test_tasks_that_were_measured_otherwise_are_said_to_be() -> None:
    chosen = select_tasks(TASKS, "difficulty:0.1-0.9", Measured(stale=3))
    assert chosen.text.endswith(
        "left out: 4 not measured as they are (3 with other turns, configuration or texts)"
    )
    assert select_tasks(TASKS, "difficulty:0-1", Measured()).text.endswith("4 not measured")


async def test_a_run_takes_the_tasks_of_a_difficulty(project: Project) -> None:
    await evaluated(project, greedy=(0.0, 0.05, 0.1, 0.5, 0.7, 0.9, 1.0), random=(1.0,) * 7)
    prepared = await prepare(project, select="difficulty:0.1-0.9")
    assert prepared.record is not None, prepared.missing
    assert kept(prepared) == ["t2", "t3", "t4", "t5"]
    selected = prepared.inputs.selected
    assert selected is not None
    numbers = (selected.too_easy, selected.too_hard, selected.unmeasured, selected.others)
    assert numbers == (2, 1, 1, 0)
    assert "left out: 2 too easy, 1 too hard, 1 not measured" in selected.text
    assert "measured with greedy" in selected.text, "the best player, where the model is unknown"
    spec = prepared.record.spec
    assert spec.tasks is not None
    written = json.loads((project.folder / spec.tasks.path).read_text())
    assert [one["id"] for one in written] == kept(prepared)


async def test_held_out_tasks_stay(project: Project) -> None:
    await evaluated(project, greedy=(0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0))
    prepared = await prepare(project, select="difficulty:0.1-0.9", settings={"held_out": 2})
    assert kept(prepared) == ["t0", "t1", "t2", "t3", "t6", "t7"]
    selected = prepared.inputs.selected
    assert selected is not None and selected.text.endswith("; the 2 held out stay")
    assert (selected.total, selected.too_easy) == (8, 2)


async def test_too_few_selected_tasks_are_refused_with_what_to_do(project: Project) -> None:
    prepared = await prepare(project, select="difficulty:0.1-0.9")
    (lack,) = prepared.missing
    assert "keeps 0 of 8 tasks; left out: 8 not measured" in lack.text
    assert lack.fix is not None and lack.fix.startswith("hudtui eval ")
    await evaluated(project, greedy=(0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))
    (lack,) = (await prepare(project, select="difficulty:0.1-0.9")).missing
    assert "keeps 2 of 8 tasks" in lack.text and "at least 4" in lack.text
    (lack,) = (await prepare(project, select="difficulty:>much")).missing
    assert "not a number" in lack.text
    (lack,) = (await prepare(project, select="dificulty:0.1-0.9")).missing
    assert "no task has a field 'dificulty'" in lack.text
    assert lack.fix == "Did you mean difficulty?"


async def test_tasks_are_selected_by_what_stands_in_them_too(project: Project) -> None:
    prepared = await prepare(project, select="id:[0-5]")
    assert kept(prepared) == [f"t{number}" for number in range(6)]
    await evaluated(project, greedy=(0.5,) * 8)
    prepared = await prepare(project, select="difficulty:0.1-0.9 -id:[67]")
    assert kept(prepared) == [f"t{number}" for number in range(6)]
    selected = prepared.inputs.selected
    assert selected is not None and selected.text.endswith("left out: 2 not matching")


async def test_a_baseline_is_no_part_of_a_rehearsal(project: Project) -> None:
    await evaluated(project, greedy=(0.5,) * 8)
    _, rehearsed = await with_baseline(await prepare(project), project)
    prepared, real = await with_baseline(
        await prepare(project, model="org/model", rehearse=False), project
    )
    assert rehearsed is None and real is not None
    (check,) = [one for one in prepared.checks if one.name == "baseline"]
    assert "greedy 0.50" in check.text and "org/model was not evaluated" in check.text
    assert "-p openai:org/model -r 16" in (check.fix or "")
    assert "hudtui eval tasks.json -c" in (check.fix or ""), "the file that was found is named"
    inside = str(project.folder / "tasks.json")
    prepared, _ = await with_baseline(
        await prepare(project, model="org/model", rehearse=False, tasks=inside), project
    )
    (check,) = [one for one in prepared.checks if one.name == "baseline"]
    assert check.fix is not None and "hudtui eval tasks.json -c" in check.fix


def sound(verdict: Any = "sound") -> Audit:
    return Audit(verdict, "so", (), 20, 8, None, None, 8, {}, ())


async def test_the_verdict_of_an_audit_is_a_check_until_something_changes(project: Project) -> None:
    real = {"model": "org/model", "rehearse": False}

    async def checked() -> list[Check]:
        prepared, _ = await with_baseline(await prepare(project, **real), project)
        return [check for check in prepared.checks if check.name == "audit"]

    assert await checked() == [], "an audit is not asked for by force"
    config = load_config(project.folder / "c.yaml")
    tasks = read_tasks("tasks.json", folder=project.folder).tasks
    keep(project.state_dir, sound("unsound"), config, tasks, project.folder / "outputs" / "one")
    (bad,) = await checked()
    assert bad.state == "warning" and bad.text.startswith("unsound (")
    assert "outputs/one/audit.json" in (bad.fix or "")
    keep(project.state_dir, sound(), config, tasks, project.folder / "outputs" / "two")
    (good,) = await checked()
    assert (good.state, good.fix) == ("fine", None) and good.text.startswith("sound (")
    (project.state_dir / "audits" / "9.json").write_text('{"play": 1')
    assert await checked() == [good], "a damaged record counts as none"
    changed = project.folder / "tasks.json"
    changed.write_text(changed.read_text().replace("Play.", "Play well."))
    assert await checked() == []


async def test_a_run_that_is_started_again_plays_the_tasks_that_were_selected(
    project: Project,
) -> None:
    await evaluated(project, greedy=(0.0, 0.5, 0.5, 0.5, 0.5, 1.0))
    first = await prepare(project, select="difficulty:0.1-0.9")
    assert first.record is not None
    store = project.runs
    await store.run(store.add, first.record)
    (project.folder / "outputs" / "greedy" / "metrics.jsonl").unlink()
    request = request_again(first.record)
    again = await prepare_run(request, project.workspace(), project.settings(), store)
    assert kept(again) == kept(first) == ["t1", "t2", "t3", "t4"]
