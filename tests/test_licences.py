"""The licences of what hudtui installs: the page is what the packages say, and each goes together
with hudtui's own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "licences.md").read_text()
ROWS = re.findall(r"^\| ([a-z0-9][a-z0-9-]*) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)[1:]
PERMISSIVE = {
    *("0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD", "BSD-2-Clause"),
    *("BSD-3-Clause", "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU"),
    *("PSF-2.0", "Zlib"),
}
OWN_FILES = {"EPL-2.0", "MPL-2.0"}
"""Licences that ask for the source of changes to the package's own files, and of nothing else."""
LIBRARIES = {"LGPL-3.0-or-later"}
"""Licences under which a program of any licence may use a library; in extras alone."""
SAY_NOTHING = {"protobuf-py-ext"}
"""Packages of extras that say nothing of their licence."""


def allowed(expression: str, names: set[str]) -> bool:
    """Whether all the licences of one of the choices are among these names."""
    return any(set(choice.split(" AND ")) <= names for choice in expression.split(" OR "))


def test_the_page_is_what_the_packages_say() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "licences.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr


def test_each_licence_goes_together_with_ours() -> None:
    names = PERMISSIVE | OWN_FILES
    bad = [
        (package, licence)
        for package, licence, users in ROWS
        if not allowed(licence, names if users.strip() == "hudtui" else names | LIBRARIES)
    ]
    assert {package for package, _ in bad} == SAY_NOTHING, bad


def test_what_is_asked_for_is_on_the_page() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.match(r"[a-z0-9.-]+", line)[0] for line in project["dependencies"]}  # type: ignore[index]
    listed = {row[0] for row in ROWS if row[2].strip() == "hudtui"}
    assert {name.replace(".", "-") for name in wanted} <= listed
    assert not allowed("GPL-3.0-only", PERMISSIVE | OWN_FILES | LIBRARIES)
    assert project["license"] == "MIT" and (ROOT / "LICENSE").read_text().startswith("MIT License")
