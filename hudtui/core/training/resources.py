"""Files that come with hudtui and travel to machines: lock files, and the scripts of `hudtui.pod`."""

from __future__ import annotations

from pathlib import Path

import hudtui
from hudtui.core.errors import InputError

PACKAGE_FOLDER = Path(hudtui.__file__).parent
"""Folder of the package."""


def resource_bytes(name: str) -> bytes:
    """What is in such a file.

    Args:
        name: Relative to the package, such as `pod/bootstrap.py`; `requirements/...` lies beside it in a checkout.

    Raises:
        InputError: This installation does not have it.
    """
    for folder in (PACKAGE_FOLDER, PACKAGE_FOLDER.parent):
        path = folder / name
        if path.is_file():
            return path.read_bytes()
    raise InputError(f"this installation of hudtui lacks {name}", fix="Install it again.")
