"""The user's own parts of the reward, beside task completion, tool execution and format.

`rubric.reward` in a configuration names the code: `FILE.py:NAME`, a file in the configuration's
folder or below, which may import modules that lie beside it (see `reward_code`), or
`package.module:NAME`, an installed package. NAME is a function or a subclass of `HUDBaseRubric`:

    def brevity(episode, task):                     # may be async
        return 1.0 if len(episode.turns) <= 5 else 0.0

    class Careful(HUDBaseRubric):
        WEIGHTS = {"no_errors": 0.3}

        def parts(self, episode, task):
            return {"no_errors": 0.0 if any(turn.is_error for turn in episode.turns) else 1.0}

The episode is a `hudtui.core.rollouts.values.Episode` with its evaluation, the task a
`hudtui.core.tasks.task.Task`. With a third parameter called `session` the code may call tools of
the environment, `await session.call_tool(name, arguments)`, as the last turn has left it.

The reward is the weighted sum of the three parts and these. The
weight of a part comes from `rubric.weights`, by its name (the function's), else from WEIGHTS, else
it is 1.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import math
import numbers
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from hudtui.core import trust
from hudtui.core.environment.values import Session
from hudtui.core.errors import HudtuiError, InputError, Location
from hudtui.core.gym.config import load_config, with_dialect
from hudtui.core.gym.values import GymConfig
from hudtui.core.rollouts.reward_code import RewardCode, read_code, run_code
from hudtui.core.rollouts.values import Episode
from hudtui.core.tasks.expectation_form import TAKEN_NAMES
from hudtui.core.tasks.task import Task

_MOST = 32
"""Parts that an episode may have."""
_SHAPE = "Name it as FILE.py:NAME or package.module:NAME."


class HUDBaseRubric:
    """The parts of the reward beside the three of every rubric: none. A subclass adds its own."""

    WEIGHTS: ClassVar[Mapping[str, float]] = {}
    """Weights of the parts that `rubric.weights` does not name."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.weights = {**self.WEIGHTS, **weights}

    def weight(self, name: str) -> float:
        """The weight of a part."""
        return float(self.weights.get(name, 1.0))

    def parts(self, episode: Episode, task: Task) -> Mapping[str, Any]:
        """The parts of an episode that is over, by name. May be async."""
        return {}


class _Function(HUDBaseRubric):
    """A function as the one part."""

    def __init__(self, function: Callable[..., Any], weights: Mapping[str, float]) -> None:
        super().__init__(weights)
        self._function = function

    def parts(
        self, episode: Episode, task: Task, session: Session | None = None
    ) -> Mapping[str, Any]:
        return {self._function.__name__: _asked(self._function, episode, task, session)}


def load_playable_config(
    path: Path, folder: Path, *, reward: str | None = None, dialect: str | None = None
) -> GymConfig:
    """Read a configuration that episodes are played with, and load the code of its own reward.

    The files of the project folder need the user's agreement to have code run. `reward` is code to
    use instead of `rubric.reward`, as the user typed it; a file is looked for in the project
    folder. `dialect` counts instead of `parser.dialect`.

    Raises:
        InputError: The file or the code cannot be read or used.
        ConfigError: The configuration has errors.
        Untrusted: The configuration names code that the user has not agreed to.
    """
    config = with_dialect(load_config(path), dialect)
    if reward is not None:
        return with_reward(config, reward, folder)
    if not config.reward:
        return config
    file = reward_file(config)
    if file is None:
        trust.require(folder, reward_powers(config))
        _require_installed(config, folder)
        return with_reward(config, config.reward, path.parent)
    code = _read(file, config.reward)
    trust.require(
        folder, [_code_power(config, code)]
    )  # what is agreed to is what runs: the file is not read again
    return _with_own(config, config.reward, _run(code, config.reward))


def with_reward(config: GymConfig, reward: str, folder: Path) -> GymConfig:
    """The configuration with code of one's own in its reward.

    `reward` is `FILE.py:NAME`, looked for in `folder`, or `package.module:NAME`. The weights of
    `config` count.

    Raises:
        InputError: There is no such code, or it cannot be loaded.
    """
    place, _, name = reward.rpartition(":")
    if not place or not name.isidentifier():
        raise InputError(f"{reward!r} names no code for the reward", fix=_SHAPE)
    module = (
        _run(_read(folder / place, reward), reward)
        if place.endswith(".py")
        else _import(place, reward)
    )
    return _with_own(config, reward, module)


def _with_own(config: GymConfig, reward: str, module: ModuleType) -> GymConfig:
    place, _, name = reward.rpartition(":")
    code = getattr(module, name, None)
    try:
        if isinstance(code, type) and issubclass(code, HUDBaseRubric):
            return replace(config, reward=reward, own_parts=code(config.weights))
    except Exception as error:  # code of the user's
        raise InputError(f"{reward} cannot be made", why=_told(error)) from None
    if code is None or isinstance(code, type) or not callable(code):
        what = (
            "has no" if code is None else "is neither a function nor a subclass of HUDBaseRubric:"
        )
        raise InputError(f"{place} {what} {name}", fix=_SHAPE)
    part = str(getattr(code, "__name__", name))
    if part in TAKEN_NAMES:
        raise InputError(
            f"the reward {reward} has a part called {part}, as every rubric or table has",
            why="A function's part is called like the function.",
            fix="Rename the function.",
        )
    return replace(config, reward=reward, own_parts=_Function(code, config.weights))


def reward_files(config: GymConfig) -> tuple[Path, ...]:
    """The file that `rubric.reward` names, and the modules beside it that it imports.

    None without one.

    Raises:
        InputError: A file cannot be read.
    """
    file = reward_file(config)
    return () if file is None else (file, *read_code(file).modules)


def reward_file(config: GymConfig) -> Path | None:
    """The file that `rubric.reward` names; None without one."""
    place = config.reward.rpartition(":")[0]
    return Path(config.path).parent / place if place.endswith(".py") and config.path else None


def reward_powers(config: GymConfig) -> tuple[trust.Power, ...]:
    """Return the powers that a configuration's own reward needs: the code as it is now."""
    if not config.reward or config.path is None:
        return ()
    file = reward_file(config)
    if file is None:
        return (trust.power("code", config.reward, Path(config.path), config.reward),)
    try:
        return (_code_power(config, read_code(file)),)
    except InputError:
        return ()  # it cannot be run either


def _code_power(config: GymConfig, code: RewardCode) -> trust.Power:
    assert config.path is not None
    beside = ", ".join(path.name for path in code.modules)
    text = f"{config.reward}, named by {Path(config.path).name}" + (
        f", with {beside}" if beside else ""
    )
    return trust.power("code", text, code.file, config.reward, code.digest)


def _require_installed(config: GymConfig, folder: Path) -> None:
    """Refuse a package that is no installed one but lies in the project folder.

    Its content is not agreed to.

    Raises:
        InputError: It lies there.
    """
    name = config.reward.partition(":")[0].partition(".")[0]
    with contextlib.suppress(ImportError, ValueError):
        module = importlib.util.find_spec(name)
        places = (
            [] if module is None else [module.origin, *(module.submodule_search_locations or ())]
        )
        roots = [
            Path(place).resolve()
            for place in places
            if place and place not in ("built-in", "frozen", "namespace")
        ]
        own = Path(sys.prefix).resolve()
        if any(
            root.is_relative_to(folder.resolve()) and not root.is_relative_to(own) for root in roots
        ):
            raise InputError(
                f"the package {name} of rubric.reward lies in this folder: it is not installed",
                fix="Name the file: FILE.py:NAME, in the configuration's folder or below.",
                where=Location(str(config.path)),
            )


def _asked(code: Callable[..., Any], episode: Episode, task: Task, session: Session | None) -> Any:
    """What code of the user's answers; it gets the session if it has a parameter of that name."""
    if "session" in inspect.signature(code).parameters:
        return code(episode, task, session=session)
    return code(episode, task)


async def own_scores(
    config: GymConfig, episode: Episode, task: Task, session: Session | None = None
) -> dict[str, float]:
    """The user's own parts of the reward of an episode that is over.

    Its environment is still open in `session`, if it was reached.

    Raises:
        HudtuiError: The code failed, or gave something that is no number.
    """
    if config.own_parts is None:
        raise HudtuiError(
            f"the reward {config.reward} was not loaded",
            fix="Read the configuration with load_playable_config.",
        )
    try:
        answer = _asked(config.own_parts.parts, episode, task, session)
        parts = dict(await answer if inspect.isawaitable(answer) else answer)
        values = {
            str(name): await value if inspect.isawaitable(value) else value
            for name, value in parts.items()
        }
    except Exception as error:  # code of the user's
        raise HudtuiError(f"the reward {config.reward} failed", why=_told(error)) from None
    for name, value in values.items():
        taken = "every rubric or table has" if name in TAKEN_NAMES else ""
        if name in episode.scores.completion_parts:
            taken = f"`evaluate` of the task {task.id} has"
        if taken:
            raise HudtuiError(
                f"the reward {config.reward} has a part called {name}, as {taken}",
                fix="Rename it.",
            )
        if not _is_number(value):
            raise HudtuiError(
                f"the reward {config.reward} gave {value!r:.80} for {name}",
                fix="Return a finite number.",
            )
    if len(values) > _MOST:
        raise HudtuiError(
            f"the reward {config.reward} has {len(values)} parts, and {_MOST} is the most"
        )
    return {name: float(value) for name, value in values.items()}


def _import(place: str, reward: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        fix = (
            "Install it beside hudtui; for a file: "
            f"{place.replace('.', '/')}.py:{reward.rpartition(':')[2]}."
        )
        raise InputError(
            f"the reward {reward} cannot be imported", why=str(error), fix=fix
        ) from None
    except Exception as error:
        raise InputError(f"the reward {reward} cannot be imported", why=_told(error)) from None


def _read(file: Path, reward: str) -> RewardCode:
    if not file.is_file():
        place = reward.rpartition(":")[0]
        raise InputError(
            f"there is no file {place} for the reward", where=Location(str(file.absolute()))
        )
    return read_code(file.absolute())


def _run(code: RewardCode, reward: str) -> ModuleType:
    try:
        return run_code(code)
    except Exception as error:
        raise InputError(
            f"the reward {reward} cannot be loaded",
            why=_told(error),
            where=Location(str(code.file)),
        ) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and math.isfinite(value)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
