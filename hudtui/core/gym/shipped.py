"""The example configurations that come with hudtui, under the names that HUD's documents give them.

`configs/2048.yaml`.
"""

from __future__ import annotations

from pathlib import Path

import hudtui

_PACKAGE = Path(hudtui.__file__).parent
_FOLDERS = (_PACKAGE / "configs", _PACKAGE.parent / "configs")
"""In the package, and beside it in a checkout."""


def shipped_config(path: Path, folder: Path) -> tuple[Path, str | None]:
    """Return the file that a name stands for, and a sentence about it if it is not in the project.

    The user's own file comes first; a relative `configs/NAME` that does not exist is hudtui's
    example of that name, if there is one. Relative paths start in `folder`. All other paths are
    returned as they are.
    """
    if path.is_absolute() or path.parent != Path("configs") or (folder / path).exists():
        return path, None
    example = next((place / path.name for place in _FOLDERS if (place / path.name).is_file()), None)
    if example is None:
        return path, None
    return (
        example,
        f"there is no {path} here: the example of that name that comes with hudtui is used, "
        f"{example}",
    )
