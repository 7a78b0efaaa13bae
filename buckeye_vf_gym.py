"""The gym `buckeye-vf-gym` for verifiers 0.4: `hud_vf_gym` on the platform Buckeye.

See docs/verifiers.md.
"""

from functools import partial

from hudtui.core.extras import from_extra
from hudtui.core.removed_imports import explain_removed_imports

explain_removed_imports()

with from_extra("verifiers", "verifiers"):
    from hudtui.trainers.verifiers_gym import BuckeyeTaskset, HUDBaseRubric, HUDEnv, HUDGym
    from hudtui.trainers.verifiers_gym import load_environment as _load

__all__ = ["BuckeyeTaskset", "HUDBaseRubric", "HUDEnv", "HUDGym", "load_environment"]

load_environment = partial(_load, gym="buckeye-vf-gym")
