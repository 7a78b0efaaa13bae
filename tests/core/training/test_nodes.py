"""Plans for one machine and for several."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.training.engines import as_rehearsal, find_engine
from hudtui.core.training.memory import layout
from hudtui.core.training.plan import FileRef, JobSpec, Plan, Site
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.script import plan_script
from hudtui.core.training.shape import shape_by_name

SPEC = JobSpec(
    "trl",
    "t",
    "/w",
    tasks=FileRef("/w/t.json", 2, "x"),
    config=FileRef("/w/c.yaml", 3, "y"),
    secrets=("HF_TOKEN", "HUD_API_KEY"),
    max_seconds=7200.0,
)
POD = Site(".hudtui/runs/r", ("python3",))
HERE = Site("/w/.hudtui/runs/r", ("/py",), "/w", environments="/e", package="/p/hudtui")
KEPT = Path(__file__).parents[2] / "data" / "plans-of-one-machine.json"
"""What the supervisor of one machine read before there were runs on several."""


def one_machine() -> dict[str, Plan]:
    """The plans of one machine that are compared, by a name."""
    plans = {
        f"trl on {gpus}": find_engine("trl").plan(
            replace(SPEC, gpus=gpus, training={"num_generations": 2}), POD
        )
        for gpus in (1, 2, 3, 4, 8)
    }
    large = {"model": "Qwen/Qwen2.5-32B-Instruct", "num_generations": 4}
    plans["trl sharded"] = find_engine("trl").plan(replace(SPEC, gpus=8, training=large), POD)
    small = replace(SPEC, gpus=0, training={"model": "HuggingFaceTB/SmolLM2-135M"})
    plans["trl on the CPU"] = find_engine("trl").plan(small, HERE)
    for name, site in (("here", HERE), ("there", POD)):
        plans[f"a rehearsal {name}"] = find_engine("trl").plan(
            replace(as_rehearsal(SPEC), trainer_python=None), site
        )
    plans["art"] = find_engine("art").plan(replace(SPEC, engine="art"), POD)
    plans["rollouts"] = find_engine("rollouts").plan(
        replace(SPEC, engine="rollouts", policy="random"), POD
    )
    return plans


def as_sent(plan: Plan) -> dict[str, Any]:
    """What of a plan the machine gets, without digests of the lock files."""
    text = json.dumps(
        {**plan.for_machine("r", "s"), "files": [file.path for file in plan.files]}, indent=1
    )
    read: dict[str, Any] = json.loads(re.sub(r"-[0-9a-f]{8}/", "-DIGEST/", text))
    return read


@pytest.mark.parametrize("name", sorted(one_machine()))
def test_a_plan_for_one_machine_is_what_it_was_before_there_were_nodes(name: str) -> None:
    kept = json.loads(KEPT.read_text())
    plan = one_machine()[name]
    assert json.dumps(as_sent(plan)) == json.dumps(kept[name])
    assert set(kept) == set(one_machine())


# --- several machines -----------------------------------------------------------------------------


def nodes(count: int, site: Site = POD, **changes: Any) -> Plan:
    return find_engine("trl").plan(replace(SPEC, nodes=count, **changes), site)


def option(words: tuple[str, ...], name: str) -> str:
    return words[words.index(name) + 1]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_each_node_has_its_stages_and_its_rank(count: int) -> None:
    plan = nodes(count, gpus=8, training={"num_generations": 8})
    assert plan.nodes == count
    for node in range(count):
        sent = plan.for_machine("r", "s", node=node)
        suffix = f"-{node}" if node else ""
        names = ["nodes", "bootstrap", "model", "train"]
        assert [stage["name"] for stage in sent["stages"]] == [name + suffix for name in names]
        meet, *_, train = sent["stages"]
        assert meet["service"] and meet["ready"]["path"] == "nodes.met"
        words = tuple(train["argv"])
        assert option(words, "--num_machines") == str(count)
        assert option(words, "--machine_rank") == str(node)
        assert option(words, "--num_processes") == str(8 * count)
        assert option(words, "--main_process_ip") == "{address}"
        assert option(words, "--main_process_port") == "{port}"
        assert "--multi_gpu" in words and train["env"]["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"
        assert "HUDTUI_VLLM_URL" not in train["env"] and "node" not in train
    assert plan.ports == () and "nodes.py" in [file.path for file in plan.files]
    assert len({file.path for file in plan.files}) == len(plan.files)


def test_nodes_on_one_disk_have_folders_of_their_own() -> None:
    plan = nodes(2, HERE, gpus=0, training={"model": "HuggingFaceTB/SmolLM2-135M"})
    first, second = (plan.for_machine("r", "s", node=node)["stages"][-1] for node in (0, 1))
    assert option(tuple(first["argv"]), "--out") == "/w/.hudtui/runs/r/out"
    assert option(tuple(second["argv"]), "--out") == "/w/.hudtui/runs/r.node-1/out"
    assert second["env"]["ACCELERATE_USE_CPU"] == "true" and second["cwd"] == "/w"


def test_weights_that_no_gpu_holds_are_spread_over_all_nodes() -> None:
    model = {"model": "Qwen/Qwen2.5-32B-Instruct", "lora": False, "num_generations": 8}
    recipe = Recipe(**model)
    shape = shape_by_name(recipe.model)
    two, four = (layout(8, recipe, 141.0, shape, count) for count in (2, 4))
    assert two.sharded and four.sharded and two.memory and four.memory
    assert four.memory[0].optimizer == two.memory[0].optimizer / 2
    assert four.memory[0].total < two.memory[0].total
    with pytest.raises(InputError, match=r"GPU 0 would have to hold \d+ GiB at least"):
        nodes(2, gpus=8, gpu_memory=80.0, training=model)
    assert "--use_fsdp" in nodes(4, gpus=8, gpu_memory=141.0, training=model).stages[3].argv


def test_each_gpu_of_several_nodes_serves_itself_and_trains() -> None:
    found = layout(8, Recipe(), 80.0, None, 2)
    alone = layout(1, Recipe(), 80.0, None)
    assert found.memory and alone.memory and len(found.memory) == 8
    assert {gpu.total for gpu in found.memory} == {alone.memory[0].total}
    assert {gpu.role for gpu in found.memory} == {"serve and train"}


@pytest.mark.parametrize(
    ("count", "gpus", "settings", "words"),
    [
        (2, 1, {"num_generations": 12}, r"With batch_size=\d+ the episodes"),
        (3, 8, {"num_generations": 7, "batch_size": 2}, "With batch_size=7 the"),
        (2, 0, {"model": "m/x", "num_generations": 16, "batch_size": 1}, "With batch_size=4 the"),
    ],
)
def test_a_batch_that_does_not_divide_is_refused_with_one_that_does(
    count: int, gpus: int, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        nodes(count, gpus=gpus, training=settings)
    assert refused.value.fix is not None and re.search(words, refused.value.fix)
    better = int(re.findall(r"batch_size=(\d+)", refused.value.fix)[0])
    nodes(count, gpus=gpus, training={**settings, "batch_size": better})


def test_groups_are_not_refilled_on_several_nodes() -> None:
    for gpus in (0, 1):
        with pytest.raises(InputError, match="groups are refilled on one training GPU"):
            nodes(2, gpus=gpus, training={"model": "m/x-1B", "refill_groups": 1})


def test_a_script_is_for_one_machine() -> None:
    with pytest.raises(InputError, match="a script runs on one machine, and this plan is for 2"):
        plan_script(nodes(2, gpus=1), name="t")


def test_each_node_needs_something_that_ends() -> None:
    plan = nodes(2, gpus=1)
    services = [replace(stage, service=stage.node == 1) for stage in plan.stages]
    with pytest.raises(ValueError, match="would never end"):
        replace(plan, stages=tuple(services))
