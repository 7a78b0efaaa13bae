from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from hudtui.cli.app import build
from hudtui.core.errors import InputError
from hudtui.core.plain import from_plain, to_plain
from hudtui.core.training.engines import ENGINES, find_engine
from hudtui.core.training.plan import (
    FileRef,
    JobSpec,
    Plan,
    PlanFile,
    PlanOutput,
    PlanPort,
    Readiness,
    RestartPolicy,
    Site,
    Stage,
    file_ref,
)

FULL = Plan(
    engine="other",
    stages=(
        Stage(
            "serve",
            ("a", "b c"),
            cwd="x",
            env={"A": "1"},
            secrets=("KEY",),
            service=True,
            ready=Readiness(port=80),
        ),
        Stage(
            "train",
            ("d",),
            restart=RestartPolicy(2, 0.5),
            max_seconds=3600,
            grace=60,
            stop_signal="INT",
            secrets=("KEY", "OTHER"),
        ),
    ),
    files=(PlanFile("a/b.txt", content="ü"), PlanFile("c", source=FileRef("/home/me/c", 3, "abc"))),
    ports=(PlanPort(80, "the model"),),
    outputs=(PlanOutput("out/metrics.jsonl", "metrics", "numbers"),),
    max_seconds=10.0,
)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_a_plan_goes_to_json_and_back() -> None:
    assert from_plain(through_json(to_plain(FULL)), Plan) == FULL
    assert FULL.secrets == ("KEY", "OTHER")
    assert FULL.files[0].size == 2 and FULL.files[1].size == 3
    assert FULL.output("metrics") == FULL.outputs[0] and FULL.output("traces") is None


def test_the_machine_gets_what_the_supervisor_reads() -> None:
    machine = through_json(FULL.for_machine("r-1", "hudtui-r-1", tmux=False))
    assert (machine["run"], machine["session"], machine["tmux"], machine["max_seconds"]) == (
        "r-1",
        "hudtui-r-1",
        False,
        10.0,
    )
    assert [stage["name"] for stage in machine["stages"]] == ["serve", "train"]
    assert machine["stages"][0]["ready"]["port"] == 80 and machine["stages"][1]["restart"] == {
        "times": 2,
        "delay": 0.5,
    }


@pytest.mark.parametrize(
    "broken",
    [
        lambda: Stage("Bad Name", ("x",)),
        lambda: Stage("../x", ("x",)),
        lambda: Stage("s", ()),
        lambda: Stage("s", ("x",), env={"A B": ""}),
        lambda: Stage("s", ("x",), env={"KEY": "v"}, secrets=("KEY",)),
        lambda: PlanFile("/etc/passwd", content=""),
        lambda: PlanFile("a/../../b", content=""),
        lambda: PlanFile("a"),
        lambda: PlanFile("a", source=FileRef("b", 0, ""), content=""),
        lambda: Plan("e", ()),
        lambda: Plan("e", (Stage("s", ("x",)), Stage("s", ("y",)))),
        lambda: Plan("e", (Stage("s", ("x",), service=True),)),
        lambda: Plan(
            "e",
            (Stage("s", ("x",)),),
            files=(PlanFile("a", content=""), PlanFile("a", content="b")),
        ),
    ],
)
def test_what_cannot_work_is_no_plan(broken: Any) -> None:
    with pytest.raises(ValueError):
        broken()


@pytest.mark.parametrize(
    "data",
    [None, [], {}, {"engine": "e", "stages": []}, {"engine": "e", "stages": [{"name": "s"}]}],
)
def test_foreign_data_is_refused_in_words(data: Any) -> None:
    with pytest.raises(InputError, match="not a Plan that this version"):
        from_plain(data, Plan)


def test_files_are_remembered_with_their_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.json").write_text("[]")
    monkeypatch.chdir(tmp_path)
    ref = file_ref("t.json")
    assert (ref.path, ref.size, ref.name) == (str(tmp_path / "t.json"), 2, "t.json")
    assert ref.sha256 == "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    for bad in ("none.json", "."):
        with pytest.raises(InputError, match="cannot be read"):
            file_ref(bad)


SPEC = JobSpec(
    "rollouts",
    "my run",
    "/w",
    tasks=FileRef("/w/t.json", 2, "x"),
    config=FileRef("/w/configs/c.yaml", 3, "y"),
)


def test_a_spec_goes_to_json_and_back() -> None:
    spec = replace(
        SPEC, policy_file=FileRef("/p", 1, "z"), seed=3, secrets=("KEY",), max_seconds=1.5
    )
    assert from_plain(through_json(to_plain(spec)), JobSpec) == spec


def test_rollouts_play_the_tasks_where_their_paths_hold() -> None:
    plan = find_engine("rollouts").plan(
        replace(SPEC, policy="greedy"), Site("/w/.hudtui/runs/r", ("py",), workspace="/w")
    )
    folder = "/w/.hudtui/runs/r"
    (stage,) = plan.stages
    assert stage.cwd == "/w"
    assert stage.argv[:5] == ("py", "-P", "-m", "hudtui", "eval")
    assert stage.argv[5] == f"{folder}/files/tasks/t.json"
    options = dict(zip(stage.argv[6::2], stage.argv[7::2], strict=False))
    assert options["--config"] == f"{folder}/files/config/c.yaml"
    assert options["--output"] == f"{folder}/out"
    assert options["--policy"] == "greedy" and "--seed" not in options
    command: Any = typer.main.get_command(build())
    known = {word for parameter in command.commands["eval"].params for word in parameter.opts}
    assert {word for word in stage.argv[6:] if word.startswith("--")} <= known, (
        "the command knows its options"
    )
    assert [file.source for file in plan.files] == [SPEC.tasks, SPEC.config]


def test_rollouts_elsewhere_stay_in_the_folder_of_the_run() -> None:
    spec = replace(
        SPEC,
        policy="replay:/w/old.jsonl",
        policy_file=FileRef("/w/old.jsonl", 9, "p"),
        seed=4,
        limit=2,
    )
    plan = find_engine("rollouts").plan(spec, Site(".hudtui/runs/r", ("python3",)))
    bootstrap, stage = plan.stages
    assert stage.cwd == bootstrap.cwd == ""
    words = stage.argv
    assert words[words.index("--policy") + 1] == "replay:files/policy/old.jsonl"
    assert words[words.index("--seed") + 1] == "4" and words[words.index("--limit") + 1] == "2"
    assert not any(word.startswith("/") for word in (*words, *bootstrap.argv))
    mine = {"files/tasks/t.json", "files/config/c.yaml", "files/policy/old.jsonl"}
    assert {file.path for file in plan.files} == mine | {
        "bootstrap.py",
        "files/base.txt",
        "files/uv.txt",
    }


def test_a_machine_without_hudtui_gets_one_and_its_tasks_find_it() -> None:
    plan = find_engine("rollouts").plan(SPEC, Site(".hudtui/runs/r", ("python3",)))
    bootstrap, play = plan.stages
    assert plan.wheel and bootstrap.argv[:2] == ("python3", "bootstrap.py")
    venv = bootstrap.argv[bootstrap.argv.index("--venv") + 1]
    assert venv.startswith("../../environments/base-") and bootstrap.argv[-2:] == (
        "--wheel",
        "files/wheel",
    )
    assert play.argv[3:6] == (f"{venv}/bin", f"{venv}/bin/python", "-P")
    shown = subprocess.run(
        [*play.argv[:3], "/opt", "sh", "-c", "echo $PATH"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.startswith("/opt:")
    there = find_engine("rollouts").plan(
        replace(SPEC, trainer_python="/v/bin/python"), Site("r", ("python3",))
    )
    (stage,) = there.stages
    assert not there.wheel and stage.argv[3:5] == ("/v/bin", "/v/bin/python")


def test_planning_is_pure() -> None:
    site = Site("f", ("py",), "/w")
    assert ENGINES["rollouts"].plan(SPEC, site) == ENGINES["rollouts"].plan(SPEC, site)


def test_what_is_missing_is_asked_for() -> None:
    site = Site("f", ("py",))
    with pytest.raises(InputError, match="needs a task file"):
        find_engine("rollouts").plan(replace(SPEC, tasks=None), site)
    with pytest.raises(InputError, match="needs a config"):
        find_engine("rollouts").plan(replace(SPEC, config=None), site)
    with pytest.raises(InputError, match="no engine called 'magic'") as caught:
        find_engine("magic")
    assert "rollouts" in str(caught.value.fix)
