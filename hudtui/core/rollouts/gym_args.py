"""Arguments of `vf-eval` (verifiers), read for `hudtui eval`.

A gym's name, and the gym's own arguments as JSON.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hudtui.core.errors import InputError
from hudtui.core.files import parse_json
from hudtui.core.platform import Platform
from hudtui.core.text import clean_line, did_you_mean

EXAMPLES, ROLLOUTS = 5, 3
"""The defaults of `vf-eval`: tasks, and episodes for each."""

_FLAG = "--env-args"
_KEYS = ("taskset", "config_path", "split", "num_tasks", "reward")
_SHAPE = '{"taskset": "my-org/my-tasks", "config_path": "configs/my-env.yaml"}'


@dataclass(frozen=True)
class GymArgs:
    """Arguments of a gym."""

    taskset: str
    config: Path
    split: str | None = None
    tasks: int | None = None
    """Only the first so many; None: all."""
    reward: str | None = None
    """Code of the user's own for the reward; None: that of the configuration."""


def platform_of_gym(name: str, platform: Platform) -> Platform | None:
    """The platform that a gym plays on; None for a name that is no gym's.

    `name` is what the user calls the gym; `hud-vf-gym` plays on the platform of the folder,
    whichever it is.
    """
    from hudtui.core.platform import BUILT_IN, HUD

    gym = name.replace("_", "-")
    if gym in (platform.gym_id, HUD.gym_id):
        return platform
    return next((one for one in BUILT_IN if one.gym_id == gym), None)


def read_gym_args(text: str | None) -> GymArgs:
    """The gym's arguments from JSON.

    Raises:
        InputError: They are missing, are not a JSON object, or hold an unknown, wrong or missing
            argument.
    """
    fix = f"Give {_FLAG} '{_SHAPE}'."
    if text is None:
        raise InputError("a gym plays a taskset by a configuration, and neither is named", fix=fix)
    data = parse_json(text, _FLAG)
    if not isinstance(data, dict):
        raise InputError(f"{_FLAG} is a JSON object", fix=fix)
    for key in data:
        if key not in _KEYS:
            near = did_you_mean(key, _KEYS)
            raise InputError(
                f"{_FLAG} has no {clean_line(json.dumps(key), 60)}",
                fix=f"Did you mean {near}?"
                if near
                else f"There are: {', '.join(_KEYS)}. Other settings have flags of their own.",
            )
    for key in ("taskset", "config_path"):
        if not data.get(key):
            raise InputError(f"{_FLAG} lacks {key}", fix=fix)
    return GymArgs(
        _text(data, "taskset"),
        Path(_text(data, "config_path")),
        _text_or_none(data, "split"),
        _number(data),
        _text_or_none(data, "reward"),
    )


def _text(data: dict[str, Any], key: str) -> str:
    value = data[key]
    if not isinstance(value, str):
        raise InputError(f"{key} in {_FLAG} is a text, not {clean_line(json.dumps(value), 60)}")
    return value


def _text_or_none(data: dict[str, Any], key: str) -> str | None:
    return None if data.get(key) is None else _text(data, key)


def _number(data: dict[str, Any]) -> int | None:
    value = data.get("num_tasks")
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
        return value
    raise InputError(
        f"num_tasks in {_FLAG} is a whole number from 1, not {clean_line(json.dumps(value), 60)}"
    )
