"""The file of a reward with the modules beside it that it imports.

Read once, and carried out as it was read. What the user agreed to and what runs are the same bytes.
`import helper` in the file takes `helper.py` beside it, wherever the import stands; compiled files
and folders beside it are not imported. Everything else is imported as usual.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from hudtui.core.errors import InputError, Location
from hudtui.core.files import read_bytes

_MOST = 100
"""Modules beside a reward."""
_MOST_BYTES = 4 << 20


@dataclass(frozen=True)
class RewardCode:
    """A file of Python and the modules beside it that it imports."""

    file: Path
    sources: Mapping[str, bytes]
    """Their contents by the name of the module, the file itself first."""

    @property
    def modules(self) -> tuple[Path, ...]:
        """The files of the modules beside the file."""
        return tuple(
            self.file.parent / f"{name}.py" for name in self.sources if name != self.file.stem
        )

    @property
    def digest(self) -> str:
        """A digest of all contents."""
        if (
            len(self.sources) == 1
        ):  # as it was before modules counted, so that no agreement is asked for again
            return hashlib.sha256(self.sources[self.file.stem]).hexdigest()
        parts = [
            (name, hashlib.sha256(source).hexdigest())
            for name, source in sorted(self.sources.items())
        ]
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def read_code(file: Path) -> RewardCode:
    """Read a file of Python and, as far as its text tells, what it imports from its own folder.

    Raises:
        InputError: A file cannot be read, or there are too many.
    """
    sources: dict[str, bytes] = {}
    waiting = [file.stem]
    while waiting:
        name = waiting.pop(0)
        if name in sources:
            continue
        if len(sources) > _MOST:
            raise InputError(
                f"a reward imports more than {_MOST} modules from its folder",
                where=Location(str(file)),
            )
        sources[name] = read_bytes(file.parent / f"{name}.py", limit=_MOST_BYTES)
        waiting += [
            other for other in _imported(sources[name]) if (file.parent / f"{other}.py").is_file()
        ]
    return RewardCode(file, sources)


def _imported(source: bytes) -> list[str]:
    """The first parts of the names of modules that a source imports.

    None where it cannot be parsed.
    """
    names: list[str] = []
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
    first = dict.fromkeys(name.partition(".")[0] for name in names)
    return [name for name in first if name not in sys.stdlib_module_names and name.isidentifier()]


def run_code(code: RewardCode) -> ModuleType:
    """Carry the file out and return it as a module. What it raises is raised.

    The modules are known to `sys.modules` under names with the digest of the code, apart from those
    of other rewards.
    """
    prefix = f"hudtui_reward_{code.digest[:16]}"

    def load(name: str) -> ModuleType:
        full = f"{prefix}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        path = code.file.parent / f"{name}.py"
        module = sys.modules[full] = ModuleType(full)  # dataclasses look their module up
        module.__file__ = str(path)
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": find}
        try:
            exec(compile(code.sources[name], str(path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - agreed to
        except BaseException:
            del sys.modules[full]
            raise
        return module

    def find(
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of `__import__`
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if level == 0 and name in code.sources:
            return load(name)
        return __import__(name, globals, locals, fromlist or (), level)

    for name in [name for name in sys.modules if name.startswith(f"{prefix}.")]:
        del sys.modules[name]
    return load(code.file.stem)
