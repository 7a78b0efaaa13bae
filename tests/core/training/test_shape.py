"""The size of a model from its name and its small files; weights are never read."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.training.memory import layout
from hudtui.core.training.recipe import Recipe
from hudtui.core.training.shape import find_shape, shape_by_name, shape_from_config

QWEN = {  # the published values of Qwen2.5-3B
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def _folder(place: Path, config: dict[str, Any] | str, index: Any = None) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    (place / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    if index is not None:
        (place / "model.safetensors.index.json").write_text(json.dumps(index))
    return place


def test_the_layers_of_a_config_give_the_parameters() -> None:
    shape = shape_from_config(QWEN)
    assert shape is not None
    assert shape.parameters == pytest.approx(3.09e9, rel=0.02)  # as published
    assert (shape.width, shape.depth, shape.cache_width, shape.vocabulary) == (
        2048,
        36,
        256,
        151936,
    )


def test_experts_count_as_weights() -> None:
    experts = {
        **QWEN,
        "num_experts": 128,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "head_dim": 128,
    }
    experts |= {"num_attention_heads": 32, "num_key_value_heads": 4, "tie_word_embeddings": False}
    shape = shape_from_config(experts)
    assert shape is not None and shape.parameters == pytest.approx(
        30.5e9, rel=0.03
    )  # Qwen3-30B-A3B as published


def test_the_index_of_the_weights_counts_more_than_the_layers(tmp_path: Path) -> None:
    place = _folder(
        tmp_path / "mine", QWEN, {"metadata": {"total_size": 8_000_000_000}, "weight_map": {}}
    )
    shape = find_shape("mine", tmp_path)
    assert shape is not None and shape.parameters == 4e9  # two bytes each
    _folder(
        place, QWEN, {"metadata": {"total_parameters": 5_000_000_000, "total_size": 8_000_000_000}}
    )
    shape = find_shape("./mine", tmp_path)
    assert shape is not None and shape.parameters == 5e9


def test_the_header_of_a_single_file_is_read_and_not_its_weights(tmp_path: Path) -> None:
    place = _folder(tmp_path / "mine", QWEN)
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "BF16", "shape": [1000, 2000], "data_offsets": [0, 4_000_000]},
    }
    text = json.dumps(header).encode()
    (place / "model.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text
    )  # without any weight behind it
    shape = find_shape("mine", tmp_path)
    assert shape is not None and shape.parameters == 2_000_000


@pytest.mark.parametrize(
    "config",
    [
        "",
        "[]",
        "{}",
        '{"hidden_size": "x"}',
        '{"hidden_size": -1, "num_hidden_layers": 1e300}',
        "[" * 100_000,
    ],
)
def test_files_that_say_nothing_leave_the_name(tmp_path: Path, config: str) -> None:
    _folder(tmp_path / "my-7B", config, [])
    (tmp_path / "my-7B" / "model.safetensors").write_bytes(b"\xff" * 20)
    assert find_shape("my-7B", tmp_path) == shape_by_name("x/y-7B")
    _folder(tmp_path / "mine", config)
    assert find_shape("mine", tmp_path) is None


def test_a_model_in_the_cache_of_the_hub_is_measured_by_its_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--me--model"
    _folder(kept / "snapshots" / "abc", QWEN)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("abc")
    shape = find_shape("me/model", tmp_path)
    assert shape is not None and shape.width == 2048
    assert find_shape("me/other", tmp_path) is None


def test_the_estimate_takes_the_size_that_is_given() -> None:
    recipe = Recipe(model="me/model")
    assert layout(2, recipe, 80.0).memory is None
    shape = shape_from_config(QWEN)
    found = layout(2, recipe, 80.0, shape).memory
    assert found is not None and 5.5 < found[0].weights < 6.0
    full = layout(2, Recipe(model="me/model", bf16=False), 80.0, shape).memory
    assert full is not None and full[1].weights == pytest.approx(2 * found[1].weights), (
        "the trainer loads 32 bits"
    )
    assert full[0].weights == found[0].weights, "the server does not"
