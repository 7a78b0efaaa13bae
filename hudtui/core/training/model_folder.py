"""A folder with a model on this computer.

The files that a training reads, and what is wrong with them. No weights are read. The chat
template, which is a program, runs in a process of its own with little time and memory.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.files import open_file, read_bytes
from hudtui.core.python import python_command
from hudtui.core.text import clean_line, plural
from hudtui.core.training.shape import safetensors_header

WANTED = ("*.safetensors", "*.json", "*.jinja", "*.model", "*.txt", "*.tiktoken")
"""Patterns of the files that a training reads. Many models also have the weights in other formats,
which are left out."""
_INDEX = "model.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_UNFINISHED = ("*.incomplete", "*.part", "*.crdownload", "*.aria2", "*.tmp")
_POINTER = b"version https://git-lfs.github.com/spec/"
_TOKENIZERS = (
    ("tokenizer.json",),
    ("tokenizer.model",),
    ("spiece.model",),
    ("vocab.json", "merges.txt"),
    ("vocab.txt",),
)
_AGAIN = "Fetch the model again, whole: hf download OWNER/NAME --local-dir FOLDER."
_TALKS = "Choose a model that was trained for conversations (often called Instruct)."
_JSON = 64 * 1024 * 1024
_TEMPLATE = 4 * 1024 * 1024
"""Bytes of a chat template; the longest known one has 30,000."""
_TEMPLATE_SECONDS = 20.0


@dataclass(frozen=True)
class ModelFolder:
    """A folder with a model that can be trained."""

    files: tuple[Path, ...]
    """The files that a training reads, by name."""
    size: int
    """Their bytes."""
    keeps_thoughts: bool
    """True if the chat template shows the thoughts of earlier replies."""


def read_model_folder(folder: Path, opening: Sequence[Mapping[str, str]] = ()) -> ModelFolder:
    """Return the files of a model after checking that a training can read them.

    The chat template has to show the `opening` messages, which stand before each task.

    Raises:
        InputError: No model, weights or tokenizer is there, one is incomplete, or the chat template
            cannot be used.
    """
    try:
        return _read(folder, opening)
    except OSError as error:
        raise InputError(
            "the folder with the model cannot be read", why=error.strerror or str(error)
        ) from None


def _read(folder: Path, opening: Sequence[Mapping[str, str]]) -> ModelFolder:
    names = sorted(entry.name for entry in folder.iterdir())
    if "config.json" not in names:
        fix = "Name the folder that holds it."
        if "adapter_config.json" in names:
            fix = "An adapter is merged with its model first: hudtui runs export --format merged."
        raise InputError("it has no config.json", fix=fix)
    files = [folder / name for name in names if any(fnmatch(name, pattern) for pattern in WANTED)]
    for file in files:
        if not file.exists():
            raise InputError(f"{file.name} leads to a file that is not there", fix=_AGAIN)
        with open_file(file) as stream:
            if stream.read(len(_POINTER)) == _POINTER:
                raise InputError(
                    f"{file.name} is a pointer of git-lfs, and not the file itself",
                    fix="Run in the folder: git lfs pull",
                )
    if not isinstance(_json(folder / "config.json").get("model_type"), str):
        raise InputError("its config.json names no model_type", fix=_AGAIN)
    _check_weights(folder, names)
    if not any(set(kind) <= set(names) for kind in _TOKENIZERS) and not any(
        name.endswith(".tiktoken") for name in names
    ):
        raise InputError(
            "it has no tokenizer (tokenizer.json, tokenizer.model, ...)",
            fix="Copy the tokenizer's files into it.",
        )
    if "tokenizer.json" in names:
        _json(folder / "tokenizer.json")
    keeps = _try_template(folder, names, opening)
    return ModelFolder(tuple(files), sum(file.stat().st_size for file in files), keeps)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(_bytes(path, _JSON))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{path.name} is no JSON object, or only a part of one", fix=_AGAIN)
    return found


def _bytes(path: Path, most: int) -> bytes:
    if path.stat().st_size > most:
        raise InputError(f"{path.name} has more than {most >> 20} MiB", fix=_AGAIN)
    return read_bytes(path, limit=most)


def _check_weights(folder: Path, names: Sequence[str]) -> None:
    weights = [name for name in names if name.endswith(".safetensors")]
    if not weights:
        cache = folder / ".cache" / "huggingface" / "download"
        begun = [*names, *(entry.name for entry in cache.iterdir())] if cache.is_dir() else names
        if any(fnmatch(name, pattern) for name in begun for pattern in _UNFINISHED):
            raise InputError("the download of its weights has not finished", fix=_AGAIN)
        if pickled := [
            name for name in names if any(fnmatch(name, pattern) for pattern in _PICKLED)
        ]:
            raise InputError(
                f"its weights are pickled ({pickled[0]}): loading them would run the code in them",
                fix="Take the weights as safetensors; many models on the Hub have both.",
            )
        if any(name.endswith(".gguf") for name in names):
            raise InputError(
                "its weights are a GGUF file, which the trainer does not read",
                fix="Take them as safetensors.",
            )
        raise InputError("it has no weights (*.safetensors)", fix=_AGAIN)
    if _INDEX in names:
        listed = _json(folder / _INDEX).get("weight_map")
        parts = sorted({str(part) for part in listed.values()}) if isinstance(listed, dict) else []
        if absent := [part for part in parts if part not in names]:
            raise InputError(
                f"{len(absent)} of {plural(len(parts), 'file')} with weights are missing: "
                f"{absent[0]}",
                fix=_AGAIN,
            )
    for name in weights:
        has, wanted = (folder / name).stat().st_size, _whole_size(folder / name)
        if has != wanted:
            why = (
                "it is not a safetensors file"
                if wanted is None
                else f"it has {has} bytes of {wanted}"
            )
            raise InputError(f"{name} is incomplete: {why}", fix=_AGAIN)


def _whole_size(path: Path) -> int | None:
    """Return the bytes that a safetensors file should have by its header.

    None if it has no header.
    """
    try:
        size, tensors = safetensors_header(path)
        return size + max(
            (int(tensor["data_offsets"][1]) for tensor in tensors.values()), default=0
        )
    except (ValueError, LookupError, TypeError):
        return None


# --- the chat template ----------------------------------------------------------------------------


def _template(folder: Path, names: Sequence[str], settings: Mapping[str, Any]) -> str | None:
    if "chat_template.jinja" in names:
        return _bytes(folder / "chat_template.jinja", _TEMPLATE).decode("utf-8", "replace")
    found = settings.get("chat_template")
    if found is None and "chat_template.json" in names:
        found = _json(folder / "chat_template.json").get("chat_template")
    if isinstance(found, list):
        found = next(
            (
                one.get("template")
                for one in found
                if isinstance(one, dict) and one.get("name") == "default"
            ),
            None,
        )
    if isinstance(found, str) and len(found) > _TEMPLATE:
        raise InputError(f"its chat template has more than {_TEMPLATE >> 20} MiB", fix=_AGAIN)
    return found if isinstance(found, str) and found.strip() else None


def _try_template(folder: Path, names: Sequence[str], opening: Sequence[Mapping[str, str]]) -> bool:
    """Render a conversation as the trainer does; return whether earlier thoughts are kept."""
    settings = _json(folder / "tokenizer_config.json") if "tokenizer_config.json" in names else {}
    text = _template(folder, names, settings)
    if text is None:
        raise InputError(
            "its tokenizer has no chat template: it does not know what a conversation looks like",
            fix=_TALKS,
        )
    tokens = {
        name: value.get("content") if isinstance(value, dict) else value
        for name, value in settings.items()
        if re.fullmatch(r"[a-z]+_token", name) and isinstance(value, str | dict)
    }
    asked = json.dumps({"template": text, "tokens": tokens, "opening": list(opening)})
    # No variable of the user's but the one that hudtui itself may have been found by.
    env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
    try:
        done = subprocess.run(
            python_command("-m", "hudtui.core.training.chat_template"),
            input=asked,
            capture_output=True,
            text=True,
            timeout=_TEMPLATE_SECONDS,
            check=False,
            env={**env, "PYTHONUTF8": "1"},
        )
        answer = json.loads(done.stdout)
        if "error" not in answer:
            return bool(answer["keeps_thoughts"])
        what, why, fix = (
            clean_line(str(answer[name] or ""), 300) for name in ("error", "why", "fix")
        )
    except (subprocess.TimeoutExpired, ValueError, LookupError, TypeError):
        what, why, fix = "the chat template of this model takes too much memory or time", "", ""
    raise InputError(what, why=why or None, fix=fix or "Choose another model.")
