"""The size of a model.

By its name, or by its `config.json` and the index or header of its weights, if those are here.
Nothing is sent over the network, and no weights are read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.files import open_file, read_bytes
from hudtui.core.paths import typed_path

_ID = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
_VOCABULARY = 152_000
"""Size of a typical vocabulary; the logits of a batch have that many numbers per token."""
_MOST = 64 * 1024 * 1024
"""Most bytes that are read of a file that describes a model."""


@dataclass(frozen=True)
class ModelShape:
    """The size of a model, from which the memory of a training is estimated."""

    parameters: float
    width: float
    """Numbers in the state of one token between two layers."""
    depth: float
    """Layers."""
    cache_width: float
    """Numbers that one layer keeps of one token as its keys; as many again are its values."""
    vocabulary: int = _VOCABULARY
    source: str = "its name"
    """Source of the size, for the user."""


def billions(model: str) -> float | None:
    """Parameters of a model in billions, as its name tells; None when it does not."""
    found = re.findall(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([bBmM])(?![A-Za-z0-9])", model)
    if not found:
        return None
    number, unit = found[-1]
    return float(number) / (1 if unit in "bB" else 1000)


def shape_by_name(model: str) -> ModelShape | None:
    """Return the approximate size of a model whose name tells its parameters.

    None if it does not.
    """
    size = billions(model)
    if size is None:
        return None
    depth = 28 * max(size / 1.5, 0.5) ** 0.3
    width = math.sqrt(size * 1e9 / (12 * depth))
    return ModelShape(
        size * 1e9, width, depth, width / 4
    )  # keys and values are shared by groups of 4 heads


def find_shape(model: str, folder: Path) -> ModelShape | None:
    """Return the size of a model.

    By its files in a folder or in the Hub's cache here, otherwise by its name; None if unknown.
    Relative paths of folders start in `folder`.
    """
    place = folder / typed_path(model)
    if (place / "config.json").is_file():
        return shape_in_folder(place) or shape_by_name(model)
    cached = cached_folder(model)
    if cached is not None:
        return shape_in_folder(cached, default=shape_by_name(model)) or shape_by_name(model)
    return shape_by_name(model)


def is_hub_id(model: str) -> bool:
    """Return True if a name can be the id of a model on the Hub: `OWNER/NAME`."""
    return _ID.fullmatch(model) is not None and ".." not in model and "--" not in model


def cached_folder(model: str) -> Path | None:
    """Return the folder in the Hub's cache here that holds the `config.json` of a model.

    None if there is none.
    """
    if not is_hub_id(model):
        return None
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(model, "config.json")
    return Path(found).parent if isinstance(found, str) else None


def shape_in_folder(folder: Path, *, default: ModelShape | None = None) -> ModelShape | None:
    """Return the size of a model from the files in its folder; None if unclear.

    They are `config.json`, and the index or header of its safetensors files.

    `default` gives the parameters if no file here does.
    """
    config = json_object(folder / "config.json")
    dtype = _dtype(config)
    index = json_object(folder / "model.safetensors.index.json").get("metadata")
    counted = _positive(index.get("total_parameters")) if isinstance(index, Mapping) else None
    if counted is None and isinstance(index, Mapping) and dtype is not None:
        size = _positive(index.get("total_size"))
        counted = None if size is None else size / dtype
    if counted is None:
        counted = _count_header(folder / "model.safetensors")
    if counted is None and default is not None:
        counted = default.parameters
    return shape_from_config(config, parameters=counted)


def shape_from_config(
    config: Mapping[str, Any], *, parameters: float | None = None
) -> ModelShape | None:
    """Return the size of a model from the values of its `config.json`.

    None if they do not say enough.

    `parameters` is their number, if it is known from elsewhere; None to calculate it from the
    layers.
    """
    inner = config.get("text_config")  # models that also see pictures
    values: Mapping[str, Any] = {**config, **inner} if isinstance(inner, Mapping) else config

    def number(*names: str) -> float | None:
        return next(
            (found for name in names if (found := _positive(values.get(name))) is not None), None
        )

    width, depth = (
        number("hidden_size", "n_embd", "d_model"),
        number("num_hidden_layers", "n_layer", "num_layers"),
    )
    if width is None or depth is None:
        return None
    heads = number("num_attention_heads", "n_head") or max(width // 64, 1)
    head = number("head_dim") or width / heads
    keys = (number("num_key_value_heads") or heads) * head
    vocabulary = number("vocab_size") or _VOCABULARY
    if parameters is None:
        inside = number("intermediate_size", "n_inner") or 4 * width
        experts = number("num_experts", "num_local_experts", "n_routed_experts") or 1
        block = 3 * width * (number("moe_intermediate_size") or inside if experts > 1 else inside)
        attention = 2 * width * heads * head + 2 * width * keys
        embeddings = vocabulary * width * (1 if values.get("tie_word_embeddings") else 2)
        parameters = embeddings + depth * (attention + experts * block)
    return ModelShape(parameters, width, depth, keys, int(vocabulary), "its config.json")


def json_object(path: Path) -> Mapping[str, Any]:
    """Return the JSON object in a file; empty if there is none."""
    try:
        found = json.loads(read_bytes(path, limit=_MOST))
    except (InputError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _dtype(config: Mapping[str, Any]) -> int | None:
    """Return the bytes of one number of the weights, as a `config.json` says.

    None if it does not.
    """
    name = str(config.get("dtype") or config.get("torch_dtype") or "")
    return {"float32": 4, "float16": 2, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}.get(
        name
    )


def safetensors_header(path: Path) -> tuple[int, Mapping[str, Any]]:
    """Return the size of the header of a safetensors file, and its tensors by name.

    Raises:
        InputError: The file cannot be opened, or is none: a pipe is not waited for.
        OSError: It cannot be read.
        ValueError: It has no header.
    """
    with open_file(path) as stream:
        start = stream.read(8)
        size = int.from_bytes(start, "little")
        try:
            header = json.loads(stream.read(size)) if len(start) == 8 and size <= _MOST else None
        except RecursionError:
            header = None
    if not isinstance(header, dict):
        raise ValueError("it has no header")
    header.pop("__metadata__", None)
    return 8 + size, header


def _count_header(path: Path) -> float | None:
    """Return the number of parameters of a safetensors file, from its header."""
    try:
        _, tensors = safetensors_header(path)
    except (InputError, OSError, ValueError):
        return None
    total = 0.0
    for tensor in tensors.values():
        shape = tensor.get("shape") if isinstance(tensor, dict) else None
        if isinstance(shape, list) and all(isinstance(side, int) and side >= 0 for side in shape):
            total += math.prod(shape)
    return total or None


def _positive(value: Any) -> float | None:
    """Return a number above 0 and below a quadrillion as float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
        return None
    return float(value)
