"""Says what replaces a part of ART that scripts of HUD's integration import, and that ART has removed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

SKYPILOT = (
    "ART has no SkyPilotBackend since 0.5.9. hudtui rents the machine through SkyPilot by itself: "
    "hudtui art train --provider sky --gpus 1xH100, or train_hud_with_art(provider='sky', gpus='1xH100')"
)


class RemovedModules(MetaPathFinder):
    """Refuses `art.skypilot` with a reason. The last of the finders: a module that there is comes from another one."""

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Raises ModuleNotFoundError for the removed module."""
        if fullname == "art.skypilot":
            raise ModuleNotFoundError(SKYPILOT, name=fullname)
        return None


def explain_removed_modules() -> None:
    """Have later imports of removed modules say what replaces them."""
    if not any(isinstance(finder, RemovedModules) for finder in sys.meta_path):
        sys.meta_path.append(RemovedModules())
