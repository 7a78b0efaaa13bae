"""The environments that come with hudtui."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from hudtui.core.environment.servers import ServerSpec
from hudtui.core.extensions import ENVIRONMENTS, beside
from hudtui.core.python import python_command
from hudtui.core.variables import Lookup


@dataclass(frozen=True)
class BundledEnvironment:
    """An environment that is a module of an installed package: `python -m MODULE` serves it."""

    name: str
    module: str
    description: str

    @property
    def folder(self) -> Path:
        """Its source code; of our own, with a Dockerfile."""
        found = find_spec(self.module)
        return Path(found.origin if found is not None and found.origin else ".").parent

    @property
    def spec(self) -> ServerSpec:
        """Starts it with our own interpreter, over standard input and output."""
        command, *args = python_command("-m", self.module)
        # Our own value: that of a folder's `.env` could point to other modules.
        env = {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}
        return ServerSpec(self.name, command=command, args=tuple(args), env=env, literal=True)

    @property
    def mcp_config(self) -> dict[str, object]:
        """The entry of a task file: started by the `python` that has hudtui installed."""
        return {
            self.name: {"command": "python", "args": list(python_command("-m", self.module)[1:])}
        }

    @property
    def portable_config(self) -> dict[str, object]:
        """The `mcp_config` of a task file.

        The setting `HUDTUI_PYTHON` names the interpreter of each machine.
        """
        return {
            self.name: {
                "command": f"${{{PYTHON_VARIABLE}:-python3}}",
                "args": list(python_command("-m", self.module)[1:]),
            }
        }


_GAME = BundledEnvironment(
    "text-2048",
    "hudtui.envs.text_2048",
    "The game 2048 in text: move(direction), set up by size and seed, judged by highest tile "
    "or efficiency.",
)
BUNDLED: tuple[BundledEnvironment, ...] = tuple(beside({_GAME.name: _GAME}, ENVIRONMENTS).values())
"""Our own environment, and those that other packages offer."""


PYTHON_VARIABLE = "HUDTUI_PYTHON"
"""In a task file: the interpreter that has hudtui, for environments that come with it."""


def with_python_variable(lookup: Lookup) -> Lookup:
    """`lookup`, with this interpreter as the value of `HUDTUI_PYTHON` where it has no other."""
    return lambda name: lookup(name) or (sys.executable if name == PYTHON_VARIABLE else None)


def find_bundled(name: str) -> BundledEnvironment | None:
    """The bundled environment of that name; `text_2048` is understood as `text-2048`."""
    return next(
        (entry for entry in BUNDLED if entry.name == name.strip().lower().replace("_", "-")), None
    )


_PYTHONS = (
    "python",
    "python3",
    "$HUDTUI_PYTHON",
    "${HUDTUI_PYTHON}",
    "${HUDTUI_PYTHON:-python3}",
    "${HUDTUI_PYTHON:-python}",
)


def is_bundled(spec: ServerSpec) -> bool:
    """True if a server is a bundled environment, as we start it or as a task file names it."""
    if any(spec == one.spec for one in BUNDLED):
        return True
    if (
        spec.command not in (*_PYTHONS, sys.executable)
        or spec.env
        or spec.url is not None
        or spec.cwd is not None
        or spec.contained
    ):
        return False
    return any(spec.args in (("-m", one.module), ("-P", "-m", one.module)) for one in BUNDLED)
