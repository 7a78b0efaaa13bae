"""The gym `hud-vf-gym` for verifiers 0.4, which finds an environment as a module of its name.

See docs/verifiers.md. vf-eval hud-vf-gym --env.taskset.taskset tasks.json --env.taskset.config-path
configs/2048.yaml -m gpt-4.1-mini -n 2 -r 3
"""

from hudtui.core.extras import from_extra
from hudtui.core.removed_imports import explain_removed_imports

explain_removed_imports()

with from_extra("verifiers", "verifiers"):
    from hudtui.trainers.verifiers_gym import (
        HUDBaseRubric,
        HUDEnv,
        HUDGym,
        HUDTaskset,
        load_environment,
    )

__all__ = ["HUDBaseRubric", "HUDEnv", "HUDGym", "HUDTaskset", "load_environment"]
