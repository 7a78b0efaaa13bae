"""`hudtui runs export`: a trained model out of a run's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import hub_stub
from support.command import hudtui

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(own_world: Path) -> Path:
    """The folder of a run as a training leaves it."""
    folder = own_world / "mine"
    for name in ("out/model", "out/checkpoints/checkpoint-4"):
        place = folder / name
        place.mkdir(parents=True)
        (place / "adapter_model.safetensors").write_bytes(b"weights of " + name.encode())
        (place / "adapter_config.json").write_text('{"r": 8}')
        (place / "trainer_state.json").write_text("{}")
    (folder / "files").mkdir()
    (folder / "files" / "recipe.json").write_text('{"model": "Qwen/Qwen2.5-3B-Instruct"}')
    return folder


def export(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return hudtui("export", *words, code=code)


def process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hudtui", "export", *words]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=90)


def test_the_end_and_a_checkpoint_each_into_a_folder_of_its_own(run: Path, own_world: Path) -> None:
    end = export("--from", "mine")
    folder = own_world / "exports" / "mine"
    assert end.stdout == f"{folder}\n"
    assert (
        "serve it: vllm serve Qwen/Qwen2.5-3B-Instruct --host 127.0.0.1 --enable-lora" in end.stderr
    )
    step = export("--from", "mine", "--step", "4", "--json")
    told = json.loads(step.stdout)
    assert (told["folder"], told["step"], told["pushed"]) == (f"{folder}-step4", 4, None)
    assert (
        own_world / "exports" / "mine-step4" / "adapter_model.safetensors"
    ).read_bytes() == b"weights of out/checkpoints/checkpoint-4"
    assert "left as it is" in export("--from", "mine", code=2).stderr


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (("--format", "gguf"), "adapter or merged", 2),
        (("--from", "mine", "--step", "5"), "There are: 4.", 2),
        (("--from", "mine", "--push", "mine"), "'mine' is not a name for a model", 2),
        (("--from", "mine", "--format", "merged"), "neither is on this machine", 2),
        (("nothing",), "there are no runs in this workspace", 6),
    ],
)
def test_what_cannot_be_exported_is_said_and_nothing_is_left(
    words: tuple[str, ...], said: str, code: int, run: Path, own_world: Path
) -> None:
    done = export(*words, code=code)
    assert said in done.stderr and "Traceback" not in done.stderr
    assert not (own_world / "exports").exists()


def test_a_push_gives_the_address_and_one_that_fails_leaves_the_copy(
    run: Path, own_world: Path
) -> None:
    with hub_stub.HubStub() as hub:
        surroundings = {**hub.environment(), "HF_HOME": str(own_world / "hf")}
        unasked = process("--from", "mine", "--push", "me/mine", **surroundings)
        assert unasked.returncode == 2 and "add --yes" in unasked.stderr, unasked.stderr
        assert f"to {hub.url}/me/mine\nprivate: only you" in unasked.stderr
        assert not hub.repos and not (own_world / "exports").exists()
        refused = process(
            "--from",
            "mine",
            "--output",
            "one",
            "--push",
            "me/mine",
            "--yes",
            **{**surroundings, "HF_TOKEN": "hf_" + "wrong" * 7},
        )
        assert refused.returncode != 0 and "wrongwrong" not in refused.stderr
        assert (
            f"to send it later: hf upload me/mine {own_world / 'one'}" in refused.stderr
            and (own_world / "one").is_dir()
        )
        done = process(
            "--from",
            "mine",
            "--push",
            "me/mine",
            "--yes",
            "--json",
            **{**surroundings, "HF_TOKEN": hub_stub.TOKEN},
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["pushed"] == f"{hub.url}/me/mine"
        assert (
            hub.repos["me/mine"].private
            and "adapter_model.safetensors" in hub.repos["me/mine"].files
        )
