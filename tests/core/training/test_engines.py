from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.plain import from_plain, to_plain
from hudtui.core.training import engines
from hudtui.core.training.engines import (
    as_rehearsal,
    engine_names,
    find_engine,
    rehearsing_engine,
    trainer_environment,
)
from hudtui.core.training.features import Features
from hudtui.core.training.memory import layout
from hudtui.core.training.package_data import resource_bytes
from hudtui.core.training.plan import FileRef, JobSpec, Plan, Site, Stage
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.trl import serve_command

SPEC = JobSpec(
    "trl",
    "t",
    "/w",
    tasks=FileRef("/w/t.json", 2, "x"),
    config=FileRef("/w/c.yaml", 3, "y"),
    secrets=("HF_TOKEN", "HUD_API_KEY"),
)
POD = Site(".hudtui/runs/r", ("python3",))


def plan(**changes: Any) -> Plan:
    return find_engine("trl").plan(replace(SPEC, **changes), POD)


def stage(found: Plan, name: str) -> Stage:
    return next(stage for stage in found.stages if stage.name == name)


def option(words: tuple[str, ...], name: str) -> str:
    return words[words.index(name) + 1]


def test_two_gpus_one_serves_and_one_trains() -> None:
    found = plan()
    assert [stage.name for stage in found.stages] == ["bootstrap", "model", "serve", "train"]
    serve, train = stage(found, "serve"), stage(found, "train")
    assert serve.service and serve.ready is not None and serve.ready.port == 8000
    assert (serve.env["CUDA_VISIBLE_DEVICES"], train.env["CUDA_VISIBLE_DEVICES"]) == ("0", "1")
    assert serve.env["VLLM_SERVER_DEV_MODE"] == "1"
    assert train.env["HUDTUI_VLLM_URL"] == "http://127.0.0.1:8000"
    assert serve.argv[0].endswith("/bin/vllm") and train.argv[0].endswith("/bin/python")
    assert train.argv[1:3] == ("-m", "hudtui.trainers.grpo")
    assert serve.secrets == stage(found, "model").secrets == ("HF_TOKEN",) and train.secrets == (
        "HF_TOKEN",
        "HUD_API_KEY",
    )
    assert found.wheel and [port.number for port in found.ports] == [8000]
    assert {output.kind for output in found.outputs} == {"metrics", "traces", "model"}
    assert (
        option(stage(found, "bootstrap").argv, "--vram") == "8,8"
    )  # of each GPU at least; the machine looks before it installs
    assert len(found.notes) == 2 and found.notes[0].startswith("GPU 0 (serve): about")
    assert from_plain(json.loads(json.dumps(to_plain(found))), Plan) == found


def test_the_server_is_told_exactly_what_a_trainer_needs_and_listens_on_loopback() -> None:
    words = (
        "vllm serve Qwen/Qwen2.5-3B-Instruct --host 127.0.0.1 --port 8000 --max-model-len 4096 "
        "--gpu-memory-utilization 0.9 "
        '--weight-transfer-config \'{"backend": "nccl"}\' --logprobs-mode processed_logprobs '
        "--max-logprobs -1 "
        "--enable-scale-out"
    )
    assert shlex.join(serve_command("vllm", Recipe(), 1)) == words
    eager = stage(plan(gpus=2, training={"enforce_eager": True}), "serve").argv
    assert "--enforce-eager" in eager and "--enforce-eager" not in stage(plan(gpus=2), "serve").argv


def test_one_gpu_does_both_in_one_process() -> None:
    found = plan(gpus=1)
    assert [stage.name for stage in found.stages] == ["bootstrap", "model", "train"]
    assert "HUDTUI_VLLM_URL" not in stage(found, "train").env and found.ports == ()
    assert "serve and train" in found.notes[0]


def test_without_vllm_one_gpu_holds_the_weights_once() -> None:
    alone, beside = (
        layout(1, Recipe(model="x/y-3B", vllm=vllm), 80).memory for vllm in (False, True)
    )
    assert alone is not None and beside is not None
    assert beside[0].total - alone[0].total == pytest.approx(alone[0].weights)
    assert stage(plan(gpus=1, training={"vllm": False}), "train") == stage(plan(gpus=1), "train")
    with pytest.raises(InputError, match="takes one GPU, and this run has 2") as refused:
        plan(gpus=2, training={"vllm": False})
    assert "--gpus 1" in (refused.value.fix or "")


@pytest.mark.parametrize(
    ("gpus", "serving", "training"),
    [(3, "0", "1,2"), (4, "0,1", "2,3"), (6, "0,1", "2,3,4,5"), (8, "0,1,2,3", "4,5,6,7")],
)
def test_more_gpus_are_shared_out(gpus: int, serving: str, training: str) -> None:
    found = plan(gpus=gpus, training={"num_generations": 8})
    serve, train = stage(found, "serve"), stage(found, "train")
    assert (
        serve.env["CUDA_VISIBLE_DEVICES"] == serving
        and train.env["CUDA_VISIBLE_DEVICES"] == training
    )
    if "," in serving:
        assert option(serve.argv, "--tensor-parallel-size") == str(serving.count(",") + 1)
    assert train.argv[0].endswith("/bin/accelerate") and option(
        train.argv, "--num_processes"
    ) == str(training.count(",") + 1)
    assert "--multi_gpu" in train.argv and "--use_fsdp" not in train.argv


def test_a_model_too_large_for_one_gpu_is_spread() -> None:
    found = plan(gpus=8, model="Qwen/Qwen2.5-72B-Instruct", gpu_memory=141.0)
    train = stage(found, "train").argv
    assert "--use_fsdp" in train and "--multi_gpu" not in train
    assert (
        option(train, "--fsdp_auto_wrap_policy") == "TRANSFORMER_BASED_WRAP"
    )  # what is gathered at once is one layer
    assert (
        option(train, "--fsdp_state_dict_type") == "FULL_STATE_DICT"
    )  # with shards alone, the trainer would save no model


def test_what_does_not_fit_is_refused_before_anything_is_downloaded() -> None:
    with pytest.raises(InputError, match="GPU 0 would have to hold"):
        plan(model="Qwen/Qwen2.5-72B-Instruct", gpu_memory=80.0)
    assert any("is not known here" in note for note in plan(model="/models/mine").notes)


def test_memory_grows_with_the_model_and_shrinks_with_the_gpus() -> None:
    small, large = (layout(2, Recipe(model=f"x/y-{size}B"), 80).memory for size in (3, 7))
    assert small is not None and large is not None
    assert 5 < small[0].weights < 6.5 and 12 < large[0].weights < 14.5  # two bytes a parameter
    assert all(big.total > little.total for big, little in zip(large, small, strict=True))
    four = layout(4, Recipe(model="x/y-7B"), 80).memory
    assert four is not None and four[0].weights == pytest.approx(large[0].weights / 2)
    full = layout(2, Recipe(lora=False), 80).memory
    assert full is not None and full[1].optimizer > 40


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": None}, "needs a task file"),
        ({"config": None}, "needs a config"),
        ({"gpus": 9}, "a machine with fewer"),
        ({"model": "tiny"}, "for rehearsals"),
        ({"training": {"num_generations": 5}}, "does not divide"),
        ({"gpus": 4, "training": {"num_generations": 5}}, "32 episodes"),
    ],
)
def test_what_cannot_be_trained_is_said(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        plan(**changes)
    assert words in str(caught.value)


def test_a_rehearsal_has_the_same_files_and_outputs_and_no_gpu() -> None:
    real, rehearsal = plan(), plan(rehearse=True, gpus=0)
    assert [stage.name for stage in rehearsal.stages] == ["bootstrap", "train"]
    assert rehearsal.outputs == real.outputs
    assert {file.path for file in real.files} - {"files/train.txt"} <= {
        file.path for file in rehearsal.files
    }
    assert stage(rehearsal, "train").argv[1:] == stage(real, "train").argv[1:]
    assert stage(rehearsal, "train").env["CUDA_VISIBLE_DEVICES"] == ""
    recipe = json.loads(
        next(file.content or "" for file in rehearsal.files if file.path == "files/recipe.json")
    )
    assert recipe["model"] == "tiny"


def test_a_rehearsal_here_takes_an_environment_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Site(
        "/w/.hudtui/runs/r",
        (sys.executable,),
        "/w",
        environments=str(tmp_path),
        package="/lib/hudtui",
    )
    spec = as_rehearsal(SPEC)
    made = find_engine("trl").plan(spec, here)
    bootstrap = stage(made, "bootstrap")
    assert option(bootstrap.argv, "--package") == "/lib/hudtui" and not made.wheel
    trainer = trainer_environment(made)
    assert str(trainer.python).startswith(str(tmp_path)) and not trainer.ready
    trainer.python.parent.mkdir(parents=True)
    trainer.python.touch()
    assert not trainer_environment(made).ready  # half made
    (trainer.python.parent.parent / ".hudtui").touch()
    assert trainer_environment(made).ready
    monkeypatch.setenv("HUDTUI_TRAINER_PYTHON", sys.executable)
    own = find_engine("trl").plan(as_rehearsal(SPEC), here)
    assert [stage.name for stage in own.stages] == ["train"] and trainer_environment(own).ready


def test_locks_travel_by_name_and_hold_no_addresses() -> None:
    for name in ("train", "rehearse", "rehearse-cuda", "torch-cpu", "base", "uv"):
        text = resource_bytes(f"requirements/{name}.txt").decode()
        assert (
            "--hash=sha256:" in text
            and "://" not in text
            and "--index" not in text
            and "--find-links" not in text
        )
    train = resource_bytes("requirements/train.txt").decode()
    for wishes in (Path(__file__).parents[3] / "requirements").glob("*.in"):
        pins = re.findall(r"(?m)^([\w-]+)(?:\[[\w,]+\])?(==\S+)$", wishes.read_text())
        assert pins and all(
            f"\n{name}{version} " in f"\n{wishes.with_suffix('.txt').read_text()}"
            for name, version in pins
        ), wishes
    rehearse = resource_bytes("requirements/rehearse.txt").decode()
    versions = dict(
        line.split(" ")[0].split("==")
        for line in train.splitlines()
        if "==" in line and line[0].isalnum()
    )
    for line in rehearse.splitlines():
        name, _, version = line.split(" ")[0].partition("==")
        if version and name in (
            "trl",
            "transformers",
            "peft",
            "torch",
            "accelerate",
            "datasets",
            "mcp",
        ):
            assert versions[name] == version  # a rehearsal rehearses the real thing
    with pytest.raises(InputError, match="lacks"):
        resource_bytes("requirements/none.txt")


def test_who_rehearses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [rehearsing_engine(name) for name in ("rollouts", "trl", "art")] == ["trl", "trl", "art"]
    monkeypatch.setitem(engines.ENGINES, "plain", SimpleNamespace(features=Features()))
    with pytest.raises(InputError, match="plain cannot be rehearsed"):
        rehearsing_engine("plain")


def test_engines_of_other_packages_are_found_by_their_entry_points(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        engines,
        "_others",
        lambda: {"theirs": "hudtui.core.training.rollouts:Rollouts", "broken": "nowhere:X"},
    )
    assert engine_names() == ("rollouts", "trl", "art", "broken", "theirs")
    assert find_engine("theirs").name == "rollouts"
    with pytest.raises(InputError, match="'broken' cannot be loaded"):
        find_engine("broken")
    assert EntryPoint("x", "a:b", engines.ENTRY_POINTS).group == "hudtui.engines"
