"""A folder with a model, as small as one can be: what a training reads, without a real weight."""

from __future__ import annotations

import json
import struct
from pathlib import Path

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def weights(numbers: int = 4) -> bytes:
    """A safetensors file with one tensor of zeros."""
    header = json.dumps(
        {"w": {"dtype": "F32", "shape": [numbers], "data_offsets": [0, 4 * numbers]}}
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4 * numbers)


def model_folder(folder: Path) -> Path:
    """Make a folder with a model that nothing is wrong with."""
    folder.mkdir()
    llama = {
        "model_type": "llama",
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "vocab_size": 16,
    }
    (folder / "config.json").write_text(json.dumps(llama))
    (folder / "model.safetensors").write_bytes(weights())
    (folder / "tokenizer.json").write_text("{}")
    settings = {"eos_token": {"content": "<|im_end|>"}, "chat_template": CHATML}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder
