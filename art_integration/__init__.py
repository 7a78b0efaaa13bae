"""The Python side of training with ART on HUD environments, under the names of HUD's integration.

    from art_integration import train_hud_with_art

    await train_hud_with_art(environment="browser", base_model="Qwen/Qwen2.5-7B-Instruct",
    num_training_scenarios=24)

`ARTTrainingAgent` needs ART in the same environment (`pip install 'hudtui[art]'`); the other names
do not. Once this package is imported, `from art.skypilot import SkyPilotBackend` says what replaces
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hudtui.core.removed_imports import SKYPILOT, explain_removed_imports

if TYPE_CHECKING:
    from art_integration.agent import ARTTrainingAgent
    from art_integration.scenarios import generate_scenarios_from_hud, to_taskconfigs
    from art_integration.train_hud_art import train_hud_with_art

__all__ = [
    "ARTTrainingAgent",
    "generate_scenarios_from_hud",
    "to_taskconfigs",
    "train_hud_with_art",
]

explain_removed_imports()

_HOMES = {
    "ARTTrainingAgent": "agent",
    "generate_scenarios_from_hud": "scenarios",
    "to_taskconfigs": "scenarios",
    "train_hud_with_art": "train_hud_art",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        from hudtui.core.extras import from_extra

        with from_extra("art", "art"):
            return getattr(import_module(f"art_integration.{_HOMES[name]}"), name)
    if name == "SkyPilotBackend":
        raise ImportError(SKYPILOT)
    raise AttributeError(f"module 'art_integration' has no attribute {name!r}")
