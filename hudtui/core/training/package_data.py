"""The hudtui that runs here as a wheel, for machines that get the very same one: made of its own files, without a build tool."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from hudtui import __version__
from hudtui.core.errors import InputError
from hudtui.core.training.resources import PACKAGE_FOLDER

NAME = f"hudtui-{__version__}-py3-none-any.whl"
"""Of the file."""
_INFO = f"hudtui-{__version__}.dist-info"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every file in it, so that the same files make the same wheel."""


def wheel_bytes() -> bytes:
    """The wheel. The same bytes as long as no file of hudtui changes.

    Raises:
        InputError: hudtui runs from files that were never installed.
    """
    try:
        about = distribution("hudtui")
    except PackageNotFoundError:
        raise InputError("hudtui is not installed here", fix="Install it: pip install -e . in its folder.") from None
    files = dict(_files())
    files[f"{_INFO}/METADATA"] = (about.read_text("METADATA") or "").encode()
    files[f"{_INFO}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: hudtui\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{_INFO}/entry_points.txt"] = (about.read_text("entry_points.txt") or "").encode()
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([f"{_INFO}/RECORD", "", ""])
    files[f"{_INFO}/RECORD"] = record.getvalue().encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)
    return made.getvalue()


def _files() -> Iterator[tuple[str, bytes]]:
    """The package's files by their names in the wheel; lock files lie beside the package in a checkout, and in it elsewhere."""
    for path in _below(PACKAGE_FOLDER):
        yield f"hudtui/{path.relative_to(PACKAGE_FOLDER).as_posix()}", path.read_bytes()
    locks = PACKAGE_FOLDER.parent / "requirements"
    if not (PACKAGE_FOLDER / "requirements").is_dir() and locks.is_dir():
        for path in _below(locks):
            yield f"hudtui/requirements/{path.name}", path.read_bytes()


def _below(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc")
