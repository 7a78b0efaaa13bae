"""Files that come with hudtui and travel to machines.

Lock files, the scripts of `hudtui.pod`, and hudtui itself as a wheel.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import hudtui
from hudtui.core.errors import InputError

PACKAGE_FOLDER = Path(hudtui.__file__).parent
"""Folder of the package."""
NAME = f"hudtui-{hudtui.__version__}-py3-none-any.whl"
"""File name of the wheel."""
_INFO = f"hudtui-{hudtui.__version__}.dist-info"
_GYMS = ("buckeye_vf_gym.py", "hud_vf_gym.py")
LOCKS = ("art", "art-rehearse", "base", "rehearse", "rehearse-cuda", "torch-cpu", "train", "uv")
"""Names of the lock files that machines are set up with."""
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every file in it, so that the same files make the same wheel."""


def wheel_bytes() -> bytes:
    """Return the hudtui that runs here as a wheel, made without a build tool.

    The same files give the same bytes.

    Raises:
        InputError: hudtui runs from files that were never installed, or of another version than
            the installed one.
    """
    import base64
    import csv
    import hashlib
    import io
    import zipfile
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        about = distribution("hudtui")
    except PackageNotFoundError:
        raise InputError(
            "hudtui is not installed here", fix="Install it: pip install -e . in its folder."
        ) from None
    if about.version != hudtui.__version__:
        raise InputError(
            f"hudtui is installed as {about.version}, and its files are of {hudtui.__version__}",
            fix="Install it again: pip install -e . in its folder.",
        )
    files = dict(_files())
    files[f"{_INFO}/METADATA"] = (about.read_text("METADATA") or "").encode()
    files[f"{_INFO}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: hudtui\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
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
    """The package's files by their names in the wheel.

    Lock files lie beside the package in a checkout, and in it elsewhere.
    The gyms are modules beside the package, because verifiers finds them by their names.
    """
    for name in _GYMS:
        yield name, (PACKAGE_FOLDER.parent / name).read_bytes()
    for path in _below(PACKAGE_FOLDER):
        yield f"hudtui/{path.relative_to(PACKAGE_FOLDER).as_posix()}", path.read_bytes()
    locks = PACKAGE_FOLDER.parent / "requirements"
    if not (PACKAGE_FOLDER / "requirements").is_dir() and locks.is_dir():
        for name in LOCKS:
            yield f"hudtui/requirements/{name}.txt", (locks / f"{name}.txt").read_bytes()


def _below(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(
        path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc"
    )


def resource_bytes(name: str) -> bytes:
    """Return the content of a file that comes with hudtui.

    `name` is relative to the package, such as `pod/bootstrap.py`; `requirements/...` lies beside it
    in a checkout.

    Raises:
        InputError: This installation does not have it.
    """
    for folder in (PACKAGE_FOLDER, PACKAGE_FOLDER.parent):
        path = folder / name
        if path.is_file():
            return path.read_bytes()
    raise InputError(f"this installation of hudtui lacks {name}", fix="Install it again.")
