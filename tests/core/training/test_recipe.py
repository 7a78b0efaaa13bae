from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from hudtui.core.errors import InputError
from hudtui.core.plain import to_plain
from hudtui.core.training.engines import recipe_for
from hudtui.core.training.plan import JobSpec
from hudtui.core.training.recipe import (
    OTHER_NAMES,
    Recipe,
    default_learning_rate,
    read_recipe,
    read_settings,
    recipe_from,
)
from hudtui.core.training.shape import billions

SPEC = JobSpec("trl", "x", "/w")


@pytest.mark.parametrize(
    ("model", "size", "rate"),
    [
        ("Qwen/Qwen2.5-3B-Instruct", 3.0, 1e-5),
        ("Qwen/Qwen2.5-0.5B-Instruct", 0.5, 1e-5),
        ("HuggingFaceTB/SmolLM2-360M-Instruct", 0.36, 1e-5),
        ("Qwen/Qwen2.5-7B-Instruct", 7.0, 5e-6),
        ("Qwen/Qwen2.5-14B-Instruct", 14.0, 1e-6),
        ("meta-llama/Llama-3.3-70B-Instruct", 70.0, 1e-6),
        ("/models/mine", None, 5e-6),
        ("org/v2b3-chat", None, 5e-6),
    ],
)
def test_the_learning_rate_follows_the_size(model: str, size: float | None, rate: float) -> None:
    assert billions(model) == size
    assert default_learning_rate(model) == rate
    assert Recipe(model=model).rate == rate and Recipe(model=model, learning_rate=3e-4).rate == 3e-4


def test_the_defaults_are_those_of_the_predecessor() -> None:
    recipe = Recipe()
    assert (recipe.lora_rank, recipe.lora_alpha, recipe.lora_targets) == (
        8,
        16,
        ("q_proj", "k_proj", "v_proj", "o_proj"),
    )
    assert (recipe.beta, recipe.epsilon, recipe.loss_type, recipe.max_grad_norm) == (
        0.001,
        0.2,
        "dr_grpo",
        0.01,
    )
    recipe.check_batch(1)


def test_a_recipe_goes_to_json_and_back() -> None:
    recipe = Recipe(steps=7, lora_targets=("all-linear",))
    assert recipe_from(json.loads(json.dumps(to_plain(recipe)))) == recipe


def test_a_file_overrides_and_the_spec_goes_before_it() -> None:
    settings = read_settings("steps: 7\nlearning_rate: 1e-4\nlora_rank: 16\n", name="t.yaml")
    spec = JobSpec("trl", "x", "/w", model="Qwen/Qwen2.5-7B-Instruct", steps=9, training=settings)
    recipe = recipe_for(spec)
    assert (recipe.model, recipe.steps, recipe.learning_rate, recipe.lora_rank) == (
        "Qwen/Qwen2.5-7B-Instruct",
        9,
        1e-4,
        16,
    )
    assert read_recipe('{"beta": 0}', name="t.json").beta == 0
    assert read_recipe("", name="t.yaml") == Recipe()


def test_a_rehearsal_takes_the_tiny_model_and_keeps_what_it_can() -> None:
    spec = JobSpec(
        "trl",
        "x",
        "/w",
        model="a/b-7B",
        steps=5,
        rehearse=True,
        training={"beta": 0.5, "model": "c/d-3B"},
    )
    recipe = recipe_for(spec)
    assert (recipe.model, recipe.steps, recipe.beta, recipe.learning_rate) == ("tiny", 5, 0.5, 1e-3)
    recipe.check_batch(1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lerning_rate: 1", "Did you mean learning_rate"),
        ("steps: many", "steps"),
        ("steps: 0", "steps must be at least 1"),
        ("- 1", "a mapping"),
        ("num_generations: 1", "num_generations must be at least 2"),
        ("max_tokens: 4096", "Lower max_tokens"),
        ("gpu_memory_utilization: 3", "at most 1"),
        ("learning_rate: -1", "learning_rate must be at least 0"),
    ],
)
def test_bad_settings_are_told_in_words(text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        read_settings(text, name="t.yaml")
    assert words in str(caught.value)


def test_generations_have_to_divide_the_batch() -> None:
    with pytest.raises(InputError, match=r"num_generations \(5\) does not divide the 16 episodes"):
        Recipe(num_generations=5).check_batch(1)
    Recipe(num_generations=6).check_batch(3)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"project": "../../elsewhere"}, "not a valid name of a project"),
        ({"project": "/tmp/elsewhere"}, "not a valid name of a project"),
        ({"project": ".."}, "not a valid name of a project"),
        ({"dialect": "hermess"}, "no dialect hermess; did you mean hermes"),
        ({"log_level": "LOUD"}, "no level of the log"),
        ({"learning_rate": float("nan")}, "learning_rate must be a number"),
        ({"learning_rate": float("inf")}, "learning_rate must be a number"),
        ({"steps": 10**400}, "steps must be a number"),
    ],
)
def test_settings_that_a_machine_would_stumble_over_are_refused_before_it_is_rented(
    values: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        recipe_from(values)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("per_device_train_batch_size: 4", "per_device_train_batch_size is batch_size"),
        ("model_name_or_path: a/b", "model_name_or_path is model"),
        ("max_completion_length: 512", "max_completion_length is max_tokens"),
        ("rollouts_per_group: 4", "rollouts_per_group is num_generations"),
        ("lora_r: 8", "lora_r is lora_rank"),
        ("output_dir: out", "output_dir is the option --output-dir"),
        ("zzz: sft", "Settings: "),
    ],
)
def test_a_name_of_another_trainer_is_answered_with_the_name_here(text: str, told: str) -> None:
    with pytest.raises(InputError) as error:
        read_recipe(text, name="t.yaml")
    assert (
        error.value.fix is not None
        and told in error.value.fix
        and text.partition(":")[0] in error.value.what
    )


def test_all_unknown_names_of_a_file_are_told_at_once() -> None:
    with pytest.raises(InputError) as error:
        read_recipe(
            "model_name_or_path: a/b\nlearning_rate: 1e-4\nper_device_train_batch_size: 2\n"
            "lerning_rate: 1",
            name="t.yaml",
        )
    assert "'model_name_or_path', 'per_device_train_batch_size', 'lerning_rate'" in error.value.what
    fix = error.value.fix or ""
    assert (
        "model_name_or_path is model, per_device_train_batch_size is batch_size" in fix
        and "learning_rate by lerning_rate" in fix
    )


def test_what_another_name_stands_for_is_a_setting_or_an_option() -> None:
    known = {field.name for field in fields(Recipe)}
    assert not known & set(OTHER_NAMES), "a name of ours is no other one"
    assert {name.split()[0] for name in OTHER_NAMES.values()} <= known | {"the"}
