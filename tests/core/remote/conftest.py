from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"support_{name}", Path(__file__).parents[2] / "support" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


own_tmux = _load("tmux_world").own_tmux
