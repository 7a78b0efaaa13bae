"""What is released: the wheel and the source distribution."""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest

import hudtui
from hudtui.core.training.package_data import LOCKS, wheel_bytes

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.xdist_group("release")  # built once

DATA = {
    *(f"hudtui/configs/{name}.yaml" for name in ("2048", "art", "default")),
    *(f"hudtui/requirements/{name}.txt" for name in LOCKS),
    "hudtui/envs/text_2048/Dockerfile",
    "hudtui/py.typed",
    "hudtui/tui/app.tcss",
    *(
        f"hudtui/tui/{name}/{name}.tcss"
        for name in (
            *("compute", "dataset", "environment", "launch"),
            *("mapping", "playing", "results", "runs", "settings"),
        )
    ),
}
"""All files of the wheel that are not Python."""
STARTED = {
    *("buckeye_vf_gym", "hud_vf_gym"),  # verifiers imports them
    *("hudtui.__main__", "hudtui.envs.text_2048.__main__", "hudtui.sim.__main__"),  # python -m
    *("hudtui.pod.bootstrap", "hudtui.pod.nodes", "hudtui.pod.watchdog"),  # travel to machines
}
"""Modules that no other module of the wheel imports or names."""


def build(source: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of a folder."""
    code = (
        "import sys; from hatchling.build import build_sdist, build_wheel; "
        "print(build_wheel(sys.argv[1]), build_sdist(sys.argv[1]))"
    )
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        cwd=source,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wheel, sdist = done.stdout.split()[-2:]
    return folder / wheel, folder / sdist


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(ROOT, tmp_path_factory.mktemp("release") / "built")


@cache
def wheel_files(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_is_released_builds_the_same_again(built: tuple[Path, Path], tmp_path: Path) -> None:
    """From the source distribution, which lies elsewhere and has other dates and another umask."""
    with tarfile.open(built[1]) as archive:
        # Python 3.11.2, that of Debian 12, has no filters yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(tmp_path / "source")
    (source,) = (tmp_path / "source").iterdir()
    for path in source.rglob("*.py"):
        path.chmod(path.stat().st_mode & 0o700)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    again = build(source, tmp_path / "again")
    assert [path.name for path in again] == [path.name for path in built]
    assert wheel_files(again[0]) == wheel_files(built[0])
    assert again[0].read_bytes() == built[0].read_bytes()
    assert again[1].read_bytes() == built[1].read_bytes()


def test_one_version_is_told_everywhere(built: tuple[Path, Path], own_world: Path) -> None:
    version = hudtui.__version__
    assert built[0].name == f"hudtui-{version}-py3-none-any.whl"
    assert built[1].name == f"hudtui-{version}.tar.gz"
    about = wheel_files(built[0])[f"hudtui-{version}.dist-info/METADATA"].decode()
    assert f"\nVersion: {version}\n" in about
    said = hudtui_says("--version").split()
    assert said == ["hudtui", version]
    facts = json.loads(hudtui_says("doctor", "--json"))["versions"]
    (told,) = [fact["value"] for fact in facts if fact["name"] == "hudtui"]
    assert told == version, "run scripts/bootstrap dev, which installs the checkout again"


def hudtui_says(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "hudtui", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_nothing_that_only_tests_need(built: tuple[Path, Path]) -> None:
    files = wheel_files(built[0])
    info = f"hudtui-{hudtui.__version__}.dist-info/"
    modules = {name for name in files if name.endswith(".py")}
    assert {name for name in files if not name.startswith(info)} - modules == DATA
    names = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): name
        for name in modules
    }
    used = {one for name in modules for one in mentions(files[name], name)}
    unused = {name for name in names if name not in used and not starts(names[name], used)}
    assert unused == STARTED


def starts(path: str, used: set[str]) -> bool:
    """Whether a package is used by one of its modules."""
    package = path.removesuffix("/__init__.py").replace("/", ".")
    return path.endswith("__init__.py") and any(one.startswith(f"{package}.") for one in used)


def mentions(source: bytes, path: str) -> set[str]:
    """The modules that a module imports, or names in a text."""
    here = path.removesuffix(".py").replace("/", ".")
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*here.split(".")[: -node.level], *filter(None, [base])])
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {word.partition(":")[0] for word in node.value.split() if "." in word}
            if node.value.isidentifier():  # the name of a module beside this one
                found.add(f"{here.rpartition('.')[0]}.{node.value}")
    return found - {here}


def test_what_travels_to_machines_is_a_part_of_the_wheel(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(BytesIO(wheel_bytes())) as archive:
        travels = {name: archive.read(name) for name in archive.namelist()}
    files = wheel_files(built[0])
    code = {name: data for name, data in travels.items() if ".dist-info/" not in name}
    assert code.items() <= files.items()
    left = {name for name in files if ".dist-info/" not in name} - code.keys()
    assert {name.rpartition("/")[0] for name in left} == {"art_integration", "hudtui/configs"}


def test_the_source_distribution_has_what_git_has(built: tuple[Path, Path]) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", ".", ":!.git*"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("this is no checkout of git")
    tracked = {name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()}
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert tracked <= names, sorted(tracked - names)


def matrix(*words: object) -> subprocess.CompletedProcess[str]:
    script = [sys.executable, str(ROOT / "scripts" / "matrix.py")]
    return subprocess.run(
        [*script, *map(str, words)], capture_output=True, text=True, timeout=110, check=False
    )


def test_the_wheel_runs_outside_of_the_repository(built: tuple[Path, Path]) -> None:
    """One interpreter, with the libraries that lie here; `scripts/matrix.py` tries them all."""
    libraries = sysconfig.get_path("purelib")
    done = matrix("--wheel", built[0], "--python", sys.executable, "--packages", libraries)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"ok    Python {platform.python_version()}" in done.stdout
    assert done.stdout.rstrip().rpartition("mean ")[2].replace(".", "").isdigit(), done.stdout


def test_the_matrix_says_what_fails(built: tuple[Path, Path], tmp_path: Path) -> None:
    done = matrix("--wheel", built[0], "--python", tmp_path / "none")
    assert done.returncode == 1, done.stderr
    assert f"FAIL  {tmp_path / 'none'} pip: " in done.stdout
