"""What a training needs of its GPUs, from the request."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hudtui.core.compute.values import Offer, Price
from hudtui.core.errors import InputError
from hudtui.core.runs.demand import find_demand
from hudtui.core.runs.request import RunRequest


def _offer(memory: float | None, count: int = 2, gpu: str = "A100") -> Offer:
    return Offer("prime", "x", gpu, count, Price(1.0), gpu_memory=memory)


def test_the_settings_of_the_training_decide(tmp_path: Path) -> None:
    (tmp_path / "training.yaml").write_text("model: x/y-7B\nlora: false\n")
    lora = find_demand(RunRequest(model="x/y-7B"), tmp_path)
    full = find_demand(RunRequest(training=Path("training.yaml")), tmp_path)
    assert (lora.title, full.title) == ("y-7B, LoRA", "y-7B, all weights")
    assert lora.fit(_offer(80.0)).mark == "✓" and full.fit(_offer(80.0)).hopeless
    one = find_demand(
        RunRequest(model="x/y-7B", settings={"batch_size": 1, "num_generations": 2}), tmp_path
    )
    needed = [demand.fit(_offer(80.0)).needed for demand in (one, lora)]
    assert needed[0] is not None and needed[1] is not None and needed[0] < needed[1], (
        "single settings count too"
    )


def test_one_gpu_has_to_hold_both_tasks(tmp_path: Path) -> None:
    demand = find_demand(RunRequest(model="Qwen/Qwen2.5-3B-Instruct"), tmp_path)
    one, two = demand.fit(_offer(80.0, 1)), demand.fit(_offer(80.0, 2))
    assert one.needed is not None and two.needed is not None and one.needed > two.needed
    assert "serve and train" in one.why and "GPU 1 (train)" in two.why


def test_what_cannot_be_trained_there_is_no_fit(tmp_path: Path) -> None:
    demand = find_demand(RunRequest(model="x/y-3B"), tmp_path)
    assert demand.fit(_offer(80.0, 16)).mark == "✗ not on 16 GPUs"
    assert demand.fit(_offer(80.0, 1, "V100_32GB")).mark == "✗ no bfloat16"
    assert demand.fit(_offer(None)).mark == "?"
    odd = find_demand(RunRequest(model="x/y-3B", settings={"num_generations": 5}), tmp_path)
    assert "does not divide" in odd.fit(_offer(80.0)).why
    assert find_demand(RunRequest(model="me/mine"), tmp_path).fit(_offer(80.0)).mark == "?"


def test_a_training_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "training.yaml").write_text("batch: 2\n")
    with pytest.raises(InputError, match="no training setting"):
        find_demand(RunRequest(training=Path("training.yaml")), tmp_path)


def test_art_serves_and_trains_in_turn_on_one_gpu_and_its_own_settings_count(
    tmp_path: Path,
) -> None:
    asked = RunRequest(
        engine="art", model="Qwen/Qwen2.5-7B-Instruct", settings={"groups_per_step": 1}
    )
    art, trl = (
        find_demand(asked, tmp_path).fit(_offer(80.0, 1)),
        find_demand(RunRequest(model=asked.model), tmp_path),
    )
    assert art.state == "fits" and art.needed is not None and 20 < art.needed < 40, (
        "a 7B trains on one GPU of 80 GB"
    )
    both = trl.fit(_offer(80.0, 1)).needed
    assert both is not None and art.needed < both
    for changed in (
        {"max_seq_len": 32_768},
        {"num_generations": 16},
        {"gpu_memory_utilization": 0.3},
    ):
        needed = (
            find_demand(replace(asked, settings={**asked.settings, **changed}), tmp_path)
            .fit(_offer(80.0, 1))
            .needed
        )
        assert needed is not None and needed > art.needed, changed
    assert (
        find_demand(replace(asked, settings={"num_generations": 5}), tmp_path)
        .fit(_offer(80.0, 1))
        .holds
    )
    assert find_demand(asked, tmp_path).fit(_offer(80.0, 4)).mark == "✗ not on 4 GPUs"
    assert "max_seq_len" not in find_demand(asked, tmp_path).advice
