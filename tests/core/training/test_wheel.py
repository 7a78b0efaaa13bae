from __future__ import annotations

import importlib.metadata
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hudtui import __version__
from hudtui.core.errors import InputError
from hudtui.core.training import package_data
from hudtui.core.training.package_data import PACKAGE_FOLDER


def test_the_same_files_make_the_same_wheel() -> None:
    first = package_data.wheel_bytes()
    assert first == package_data.wheel_bytes()
    names = zipfile.ZipFile(io.BytesIO(first)).namelist()
    assert len(names) == len(set(names))
    assert {
        "hudtui/__init__.py",
        "hudtui/pod/bootstrap.py",
        "hudtui/requirements/train.txt",
        "hudtui/tui/app.tcss",
    } <= set(names)
    assert not any("__pycache__" in name for name in names)


def test_it_installs_and_runs(tmp_path: Path) -> None:
    file = tmp_path / package_data.NAME
    file.write_bytes(package_data.wheel_bytes())
    env = tmp_path / "env"
    # The packages that hudtui needs come from here; hudtui itself, which is installed in place,
    # must come from the wheel.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(env)], check=True)
    installer = [
        shutil.which("uv") or "",
        "pip",
        "install",
        "-q",
        "--python",
        str(env / "bin" / "python"),
    ]
    if not installer[0]:
        installer = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(env / "bin" / "python"),
            "install",
            "-q",
        ]
    subprocess.run([*installer, "--no-deps", "--no-index", str(file)], check=True, timeout=100)
    code = (
        "import hudtui; from hudtui.core.training.package_data import resource_bytes; "
        "print(hudtui.__file__, len(resource_bytes('requirements/train.txt')))"
    )
    done = subprocess.run(
        [env / "bin" / "python", "-I", "-c", code], capture_output=True, text=True, check=True
    )
    place, size = done.stdout.split()
    assert (
        place.startswith(str(env))
        and int(size) == (PACKAGE_FOLDER.parent / "requirements" / "train.txt").stat().st_size
    )
    assert f"hudtui-{__version__}.dist-info" in {
        path.name for path in env.glob("lib/*/site-packages/*")
    }


def test_without_an_installation_there_is_no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", nothing)
    with pytest.raises(InputError, match="not installed"):
        package_data.wheel_bytes()


def test_an_installation_of_another_version_makes_no_wheel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hudtui.__version__", "99.1")
    with pytest.raises(InputError, match=r"installed as .*, and its files are of 99\.1"):
        package_data.wheel_bytes()
