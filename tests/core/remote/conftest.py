from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


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
