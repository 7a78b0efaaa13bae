from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import hub_stub

from hudtui.core.errors import MachineError
from hudtui.trainers.fetch import bytes_wanted, check_room, fetch

ROOT = Path(__file__).parents[2]
CODE = """
import sys
from hudtui.core.errors import HudtuiError
from hudtui.trainers.fetch import fetch
try:
    fetch(sys.argv[1])
except HudtuiError as error:
    print("|".join(error.lines()))
    sys.exit(error.exit_code)
"""


@pytest.fixture
def hub() -> Iterator[Any]:
    """The stand-in for the Hub, which knows datasets, with the same routes for models."""
    with hub_stub.HubStub() as server:
        yield server


def fetched(hub: Any, model: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **hub.environment(), "HF_HOME": str(home)}
    words = [sys.executable, "-c", CODE, model]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=90)


def test_a_model_comes_without_the_weights_that_nobody_uses(hub: Any, tmp_path: Path) -> None:
    files = {
        "config.json": b"{}",
        "model.safetensors": b"w" * 100,
        "pytorch_model.bin": b"x" * 900,
        "tokenizer.json": b"{}",
    }
    hub.repos["org/model"] = hub_stub.Repo(False, files)
    done = fetched(hub, "org/model", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fetching org/model" in done.stdout
    names = {path.name for path in tmp_path.rglob("snapshots/*/*")}
    assert names == {"config.json", "model.safetensors", "tokenizer.json"}


def test_one_that_is_not_there_or_has_no_weights_is_told(hub: Any, tmp_path: Path) -> None:
    missing = fetched(hub, "org/none", tmp_path)
    assert (
        missing.returncode == 2
        and "there is no model org/none on the Hub, or it is private" in missing.stdout
    )
    hub.repos["org/bare"] = hub_stub.Repo(False, {"config.json": b"{}"})
    bare = fetched(hub, "org/bare", tmp_path)
    assert bare.returncode == 2 and "has no weights" in bare.stdout


def test_a_gated_one_is_told(hub: Any, tmp_path: Path) -> None:
    said = json.dumps({"error": "Access to model org/gated is restricted."}).encode()
    headers = {
        "X-Error-Code": "GatedRepo",
        "X-Error-Message": "Access to model org/gated is restricted.",
    }
    hub.fault = lambda number, method, path: (
        hub_stub.Answer(403, said, headers) if "org/gated" in path else None
    )
    done = fetched(hub, "org/gated", tmp_path)
    assert (
        done.returncode == 2 and "org/gated is gated" in done.stdout and "HF_TOKEN" in done.stdout
    )


def test_a_small_disk_is_told_before_the_download(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"takes 1000000\.0 GiB"):
        check_room("org/model", 1_000_000 * 2**30, tmp_path / "not" / "there")
    check_room("org/model", 1, tmp_path)


def test_a_folder_is_left_alone_and_only_what_is_used_is_counted(tmp_path: Path) -> None:
    fetch(str(tmp_path))
    files = [
        SimpleNamespace(rfilename=name, size=size)
        for name, size in (("a.safetensors", 5), ("b.bin", 7), ("c.json", None))
    ]
    assert bytes_wanted(files) == 5
