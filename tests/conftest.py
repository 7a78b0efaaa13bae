"""Every test runs in a world of its own: no settings, caches, keys or terminal traits of the
machine reach it."""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import socketserver
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, settings

# How fast a machine draws examples says nothing about what is tested. In CI the examples are the
# same each time, so that luck neither refuses nor passes a change; elsewhere they are new ones.
settings.register_profile(
    "any machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("any machine")

# Head and body of an answer are two packets; else the second one waits for the client's delayed
# acknowledgement, 40 ms.
socketserver.StreamRequestHandler.disable_nagle_algorithm = True

# An app is one great cycle. To look for cycles while it lives takes a fifth of the time of a test
# of a screen, so that is done between tests: see `cycles_between_tests`.
gc.set_threshold(200_000, 5, 5)

_KEPT = {
    "PATH",
    "LANG",
    "VIRTUAL_ENV",
    "CI",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
    "PYTEST_CURRENT_TEST",
    "PYTEST_VERSION",
    "TEXTUAL_SNAPSHOT_TEMPDIR",
    "TMPDIR",
    "PYTHONPATH",
    "COVERAGE_PROCESS_START",
}

# Before anything imports Textual: it reads these once. The environment is scrubbed because the
# snapshot report prints all of it.
for _name in list(os.environ):
    if _name not in _KEPT and not _name.startswith("PYTEST_"):
        del os.environ[_name]
os.environ.update(
    TEXTUAL_ANIMATIONS="none",
    TEXTUAL_SMOOTH_SCROLL="0",
    TERM="xterm-256color",
    COLORTERM="truecolor",
    TZ="UTC",
    LC_ALL="C.UTF-8",
    HF_HUB_OFFLINE="1",
    HUDTUI_TRUST=tempfile.gettempdir(),  # what tests write is theirs; tests of trust take this away
)


@pytest.fixture(scope="session", autouse=True)
def own_terminals() -> Iterator[None]:
    """A tmux server that is not the user's. Tests of runs have one each
    (tests/support/tmux_world.py)."""
    # Short, because the path of a socket may have little more than a hundred characters.
    folder = tempfile.mkdtemp(prefix="ht-", dir="/tmp")
    os.environ["TMUX_TMPDIR"] = folder
    yield
    subprocess.run(
        ["tmux", "kill-server"],
        env={**os.environ, "TMUX_TMPDIR": folder},
        capture_output=True,
        check=False,
    )
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def stores_off_the_loop() -> Iterator[None]:
    """Product code that uses a store on the event loop fails the test."""
    from support import loop_guard

    with loop_guard.stores_off_the_loop():
        yield


@pytest.fixture(autouse=True)
def cycles_between_tests() -> Iterator[None]:
    """What a test left is freed once it is enough to be worth a search."""
    yield
    if gc.get_count()[0] > 150_000:
        gc.collect()


_numbers = itertools.count()


def _fresh(factory: pytest.TempPathFactory, name: str) -> Path:
    """A new folder. `mktemp` finds a free number by reading the names of all folders there are: of
    thousands."""
    folder = factory.getbasetemp() / f"{name}{next(_numbers)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this test alone."""
    return _fresh(tmp_path_factory, "tmp")


@pytest.fixture(autouse=True)
def own_world(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder and XDG folders of this test alone, and a fresh working folder."""
    home = _fresh(tmp_path_factory, "home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv(
        "HUDTUI_SIM", "off"
    )  # demo workspaces start a simulator that outlives the test
    work = _fresh(tmp_path_factory, "work")
    monkeypatch.chdir(work)
    return work


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """The tree of commands does not change; making it takes most of the time of a command in the
    test's own process."""
    import typer.testing

    with patch("typer.testing._get_command", cache(typer.main.get_command)):
        yield


@pytest.fixture(scope="session")
def key_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private SSH key, with the public one beside it."""
    path = tmp_path_factory.mktemp("keys") / "id_ed25519"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", str(path)], check=True
    )
    return path


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """A size names its test as people write it. A long text does not name its test: names go from
    process to process, many times."""
    if argname == "size" and isinstance(val, tuple):
        return f"{val[0]}x{val[1]}"
    return f"{argname} of {len(val)}" if isinstance(val, str | bytes) and len(val) > 200 else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that one process runs one after the other come first: all others are done beside
    them."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection() -> None:
    """What is imported and collected stays to the end: the garbage collector goes through it not
    once."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a skipped test is a failure: whatever it needs, CI has to install."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None:
        return
    if reporter.stats.get("skipped") and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def art_python() -> str:
    """Python of the environment with ART that `scripts/bootstrap dev` makes."""
    python = Path(__file__).parents[1] / ".venv-art" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no .venv-art: scripts/bootstrap dev makes it")
    return str(python)
