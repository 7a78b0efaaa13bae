"""Says what replaces modules and names that nobody ships any more.

Scripts for HUD's packages import them.

Python answers such an import with words of its own until a package of hudtui's has been imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

SKYPILOT = (
    "ART has no SkyPilotBackend since 0.5.9. hudtui rents the machine through SkyPilot by itself: "
    "hudtui art train --provider sky --gpus 1xH100, or train_hud_with_art(provider='sky', "
    "gpus='1xH100')"
)
_TRAINER = (
    "verifiers has no trainer since 0.4. hudtui trains with TRL on the same tasks and "
    "configuration: hudtui rl --dataset TASKS --config FILE --model MODEL, or "
    "hudtui.gym.HudtuiSpec in a program with TRL's GRPOTrainer"
)
_LOAD = (
    "verifiers has no load_environment(taskset=..., config_path=...) since 0.4. The same call is "
    "there: from hud_vf_gym import load_environment"
)
_TASKS = (
    "HUD's package is not installed, and hudtui does not need it. The same function is there: "
    "from art_integration import to_taskconfigs"
)
MODULES = {
    "art.skypilot": SKYPILOT,
    "art": (
        "No module named 'art', which an extra of hudtui brings: pip install 'hudtui[art]'. "
        f"{SKYPILOT}"
    ),
    "verifiers.trainers": _TRAINER,
    "verifiers": (
        "No module named 'verifiers', which an extra of hudtui brings: pip install "
        f"'hudtui[verifiers]'. {_TRAINER}"
    ),
    "hud": f"{_TASKS}. For its other parts: docs/coming-from.md",
}
"""Modules that are looked for in vain, and what replaces them."""
NAMES = {
    "load_environment": _LOAD,
    **dict.fromkeys(
        ("GRPOTrainer", "GRPOConfig", "GRPOEnvTrainer", "grpo_defaults", "lora_defaults"), _TRAINER
    ),
    "get_model_and_tokenizer": _TRAINER,
}
"""Names that the package verifiers had."""


class RemovedModules(MetaPathFinder):
    """Refuses removed modules with a reason.

    The last of the finders: a module that there is comes from another one.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for a removed module.

        `importlib.util.find_spec`, which only looks, gets None.
        """
        if fullname in MODULES and sys._getframe(2).f_globals.get("__name__") != "importlib.util":
            raise ModuleNotFoundError(MODULES[fullname], name=fullname)
        return None


class _Verifiers(MetaPathFinder):
    """Finds verifiers as Python does, and adds what replaces the names that it had.

    The package says it when such a name is imported.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == "verifiers" else None
        if spec is None or spec.loader is None:
            return None
        carry_out = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            carry_out(module)
            _explain_names(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _explain_names(module: ModuleType) -> None:
    def refuse(name: str) -> Any:
        if name in NAMES:
            raise ImportError(NAMES[name], name=module.__name__)
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    if "__getattr__" not in vars(module):  # versions before 0.4 have one, and the names
        vars(module)["__getattr__"] = refuse


def explain_removed_imports() -> None:
    """Have later imports of removed modules and names say what replaces them."""
    if any(isinstance(finder, RemovedModules) for finder in sys.meta_path):
        return
    sys.meta_path.append(RemovedModules())
    known = sys.modules.get("verifiers")
    if known is None:
        sys.meta_path.insert(0, _Verifiers())
    else:
        _explain_names(known)
