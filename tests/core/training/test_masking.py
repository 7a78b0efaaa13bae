"""Secrets among the settings and arguments of a run are masked; all else stays as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.tracker_files import field, wandb_file

from hudtui.core.training.masking import mask_arguments, mask_setting
from hudtui.core.training.tracker_files import WandbFile

KEY = "sk-abcdefgh12345678"


@pytest.mark.parametrize(
    "name, value",
    [
        ("hub_token", KEY),
        ("model/api_key", KEY),
        ("apiKey", KEY),
        ("api_keys", {"openai": KEY, "others": [KEY]}),
        ("env", {"OPENAI_API_KEY": KEY}),
        ("servers", [{"headers": {"Authorization": f"Bearer {KEY}"}}]),
        ("url", f"https://me:{KEY}@host/path"),
        ("remote", f"https://{KEY}@github.com/x/y"),
        ("command", f"serve --api-key {KEY} --port 80"),
        ("command", f"serve --api-key={KEY}"),
        ("command", ["serve", "--token", KEY]),
        ("curl", f"Authorization: Bearer {KEY}"),
        ("text", json.dumps({"password": KEY})),
    ],
)
def test_a_secret_is_masked(name: str, value: Any) -> None:
    shown = json.dumps(mask_setting(name, value))
    assert KEY not in shown and ("***" in shown or "••" in json.loads(shown))


@pytest.mark.parametrize(
    "name, value",
    [
        ("max_tokens", 512),
        ("max_tokens", "512"),
        ("pad_token", "<pad>"),
        ("eos_token", "<|im_end|>"),
        ("mask_token", "[MASK]"),
        ("hub_token", None),
        ("push_to_hub_token", False),
        ("token", ""),
        ("learning_rate", 1e-5),
        ("model", {"name": "tiny", "layers": [1, 2]}),
        ("data", "https://host/path"),
        ("text", "[not JSON"),
        ("command", "train --max-tokens 4096 --lr 1e-5"),
    ],
)
def test_what_is_no_secret_stays(name: str, value: Any) -> None:
    assert mask_setting(name, value) == value


def test_arguments_lose_no_word() -> None:
    given = ["run", "--hf-token", KEY, "--steps", "9", f"--password={KEY}", "--quiet", "last"]
    shown = ["run", "--hf-token", "***", "--steps", "9", "--password=***", "--quiet", "last"]
    assert mask_arguments(given) == shown


def test_secrets_in_a_file_of_wandb_are_masked() -> None:
    item = field(1, b"hub_token") + field(16, json.dumps(KEY).encode())
    config = field(5, field(1, item))
    long = field(1, b"deep") + field(16, json.dumps([{"a_token": KEY, "text": "x" * 600}]).encode())
    words = [b"--hf-token", KEY.encode(), b"--steps", b"9"]
    environment = field(26, b"".join(field(5, word) for word in words))
    file = WandbFile()
    file.feed(wandb_file([config, field(5, field(1, long)), environment]))
    assert KEY not in repr(file.about)
    assert file.about["settings"]["hub_token"] == "***"
    assert file.about["machine"]["arguments"] == "--hf-token *** --steps 9"
