from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    known = sys.modules.get(f"support_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"support_{name}", Path(__file__).parents[2] / "support" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own_tmux = _load("tmux_world").own_tmux
ssh_server = _load("sshd").ssh_server
ssh_box = _load("sshd").ssh_box


@pytest.fixture
def bad_line() -> Any:
    """The class of proxies that stand for a bad line."""
    return _load("bad_line").BadLine


@pytest.fixture
def make_key() -> Any:
    """Makes a key: `make_key(path, words="pass-phrase")`."""
    return _load("sshd").make_key


@pytest.fixture
def own_server(own_tmux: str, tmp_path: Path) -> Iterator[Any]:
    """A machine whose server belongs to this test alone."""
    sshd = _load("sshd")
    with sshd.running_server() as server:
        box = sshd.Box(server, Path.home(), tmp_path / "own-pins")
        box.world()
        yield box


@pytest.fixture
def faults() -> Any:
    """The script `tests/faults/ssh_follow.py` as a module."""
    path = Path(__file__).parents[2] / "faults" / "ssh_follow.py"
    name = "faults_ssh_follow"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]
