"""Each example of the page "Write your own" is built into a package, installed, and used."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.provider import OutOfCapacity, Provider
from hudtui.core.compute.values import Order
from hudtui.core.demo.workspace import task_records

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"^```toml\n(.*?)^```\n\n```python\n(.*?)^```\n", re.MULTILINE | re.DOTALL)
PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "hudtui-{module}"
version = "1.0"
[tool.hatch.build.targets.wheel]
only-include = ["{module}.py"]
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


def examples() -> dict[str, tuple[str, str, str]]:
    """Its module, its entry points and its code, by the name of its group."""
    found = {}
    for entry, code in EXAMPLE.findall(PAGE):
        ((group, names),) = tomllib.loads(entry)["project"]["entry-points"].items()
        (place,) = names.values()
        found[group.partition(".")[2]] = (place.partition(":")[0], entry, code)
    return found


EXAMPLES = examples()


@pytest.fixture
def install(own_world: Path, tmp_path: Path) -> Callable[[str], Run]:
    """Installs an example as a wheel of its own, and returns hudtui beside it."""

    def install(kind: str) -> Run:
        module, entry, code = EXAMPLES[kind]
        source, lib = tmp_path / "source", tmp_path / "lib"
        source.mkdir()
        (source / f"{module}.py").write_text(code)
        (source / "pyproject.toml").write_text(PROJECT.format(module=module) + entry)
        build = "import hatchling.build as b; print(b.build_wheel('.'))"
        wheel = subprocess.run(
            [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=True
        ).stdout.split()[-1]
        zipfile.ZipFile(source / wheel).extractall(lib)

        def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", "hudtui", "--trust", *words],
                cwd=own_world,
                input=stdin,
                env={**os.environ, "PYTHONPATH": str(lib)},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )

        return run

    return install


def answer(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_the_page_has_an_example_of_each_kind_in_40_lines() -> None:
    kinds = set(re.findall(r"`hudtui\.(\w+)` \|", PAGE))
    assert set(EXAMPLES) == kinds and len(kinds) == 6
    for kind, (_, _, code) in EXAMPLES.items():
        assert len([line for line in code.splitlines() if line]) <= 40, kind


def test_the_provider_lists_books_and_gives_back(
    install: Callable[[str], Run],
    own_world: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    machines = {
        "one.lab": {"gpu": "H100_80GB", "gpus": 2, "pod": None},
        "two.lab": {"gpu": "H100_80GB", "gpus": 8, "pod": "somebody"},
    }
    listed = own_world / "machines.json"
    listed.write_text(json.dumps(machines))
    monkeypatch.setenv("SHELF", str(listed))
    run = install("providers")
    offers = answer(run("pods", "offers", "--provider", "shelf", "--json"))["offers"]
    assert [(one["id"], one["gpu_count"]) for one in offers] == [("one.lab", 2)]
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    from hudtui.core.compute.registry import open_provider

    shelf = open_provider("shelf", os.environ.get)
    assert isinstance(shelf, Provider)

    async def use() -> None:
        (offer,) = (await shelf.offers()).found
        pod = await shelf.create(Order("mine", offer))
        assert (await shelf.find("mine")) == pod and not (await shelf.offers()).found
        with pytest.raises(OutOfCapacity):
            await shelf.create(Order("again", offer))
        await shelf.terminate(pod.id)
        assert await shelf.get(pod.id) is None and (await shelf.offers()).found == (offer,)
        await shelf.close()

    asyncio.run(use())


def test_the_engine_trains(install: Callable[[str], Run], own_world: Path) -> None:
    shutil.copy(ROOT / "configs" / "2048.yaml", own_world)
    (own_world / "tasks.json").write_text(json.dumps(task_records()))
    run = install("engines")
    words = ("rl", "tasks.json", "-c", "2048.yaml", "--engine", "mine", "--host", "local")
    assert "64 episodes at most" in run(*words, "--set", "batch_size=128", "--dry-run").stdout
    run_id = answer(run(*words, "--rehearse", "--no-tmux", "--yes", "--json"))["id"]
    metrics = answer(run("runs", "metrics", run_id, "--json"))
    assert "0.3" in json.dumps(metrics)


def test_the_signature_is_found(install: Callable[[str], Run], own_world: Path) -> None:
    run = install("signatures")
    rows = (
        {"step": step, "reward": 0.1 + step % 5 / 50, "completion_length": max(60 - step, 4)}
        for step in range(1, 81)
    )
    (own_world / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = run("runs", "diagnose", "metrics.jsonl", "--json")
    (mute,) = (one for one in json.loads(found.stdout)["findings"] if one["signature"] == "mute")
    assert mute["onset"] == 55 and "Lower learning_rate." in json.dumps(mute)


def test_the_dialect_is_read_written_and_named(
    install: Callable[[str], Run], own_world: Path
) -> None:
    text = (ROOT / "configs" / "2048.yaml").read_text()
    (own_world / "2048.yaml").write_text(text.replace("\nparser:\n", "\nparser:\n  dialect: at\n"))
    run = install("dialects")
    (own_world / "tasks.json").write_text(json.dumps(task_records()))
    for reply, read in (
        ("<think>Left.</think>\n@left {}", '"left"'),
        ("<think>\n@left {}\n</think>", "there is no line @NAME"),
    ):
        tried = run("config", "try", "2048.yaml", stdin=reply)
        assert read in tried.stdout, tried.stdout + tried.stderr
    words = ("-p", "random", "--max-turns", "2", "--limit", "1", "-o", "out")
    played = run("eval", "tasks.json", "-c", "2048.yaml", *words)
    assert played.returncode == 0, played.stderr
    assert "\\n@" in (own_world / "out" / "traces.jsonl").read_text()


def test_the_trackers_file_is_watched(install: Callable[[str], Run], own_world: Path) -> None:
    run = install("trackers")
    (own_world / "run").mkdir()
    file = own_world / "run" / "try.metrics.csv"
    file.write_text("step,reward\n1,0.25\n2,0.5\n")
    for place in (str(file), str(file.parent)):
        done = run("watch", place, "--once")
        assert done.returncode == 0 and "0.5" in done.stdout, done.stdout + done.stderr
    file.write_text("step,reward\n1,0.25\nbroken\n2,0.5\n")
    done = run("watch", str(file), "--once")
    assert done.returncode == 2 and "after 1 whole record" in done.stderr, done.stderr


def test_the_environment_is_known_by_its_name(install: Callable[[str], Run]) -> None:
    run = install("environments")
    assert "dice" in [one["name"] for one in answer(run("env", "list", "--json"))]
    tools = answer(run("env", "show", "dice", "--json"))["tools"]
    assert {tool["name"] for tool in tools} == {"setup", "guess", "evaluate"}


@pytest.mark.parametrize(
    "code", ["import nothing_of_the_kind\n", "raise SystemExit('needs nothing_of_the_kind')\n"]
)
def test_what_cannot_be_loaded_stops_nothing(
    install: Callable[[str], Run], monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    module, entry, _ = EXAMPLES["dialects"]
    monkeypatch.setitem(EXAMPLES, "dialects", (module, entry, code))
    run = install("dialects")
    assert "text-2048" in json.dumps(answer(run("env", "list", "--json")))
    told = run("doctor")
    assert "dialect at" in told.stdout and "nothing_of_the_kind" in told.stdout
