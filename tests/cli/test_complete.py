"""Completion as a shell asks for it, in a project with files, runs, offers and a rented machine."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import typer
from support.command import hudtui
from typer.testing import CliRunner

from hudtui.cli.app import build
from hudtui.core.compute.market import Market, ProviderOffers, cached_offers, save_cache
from hudtui.core.compute.pods import Ledger
from hudtui.core.compute.provider import Order
from hudtui.core.compute.values import Offer, Price
from hudtui.core.paths import app_paths
from hudtui.core.process import machine_label
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.store import RunRecord, RunStore
from hudtui.core.training.plan import Plan, Stage

OFFER = Offer(
    "prime",
    "cheap",
    "H100_80GB",
    2,
    Price(3.0),
    cloud="datacrunch",
    region="eu_north",
    country="FI",
)
HOSTILE = (
    "$(touch ran).yaml",
    "`touch ran`.yaml",
    "a b.yaml",
    "*.yaml",
    "~root.yaml",
    ";touch ran;.yaml",
    "\x1b[31mred.yaml",
)

ASK = """
source <(_HUDTUI_COMPLETE=source_bash hudtui)
while read -r -a words; do
    [[ ${words[-1]} == "''" ]] && words[-1]=""
    COMP_WORDS=("${words[@]}"); COMP_CWORD=$((${#words[@]} - 1)); COMPREPLY=()
    _hudtui_completion hudtui
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def project(
    own_world: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The folder. `hudtui` is on the PATH, as it is installed."""
    bin_folder = tmp_path_factory.mktemp("bin")
    (bin_folder / "hudtui").write_text(f"#!{sys.executable}\nfrom hudtui.cli import main\nmain()\n")
    (bin_folder / "hudtui").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (own_world / "configs").mkdir()
    for name in ("one.yaml", "two.yaml", *HOSTILE):
        (own_world / "configs" / name).write_text("action_mappings: {}\n")
    (own_world / "art.yaml").write_text("environments:\n  mine: {dataset: tasks.json}\n")
    call = {"name": "x", "arguments": {}}
    task = {
        "id": "a",
        "prompt": "Play.",
        "mcp_config": {},
        "setup_tool": call,
        "evaluate_tool": call,
    }
    (own_world / "tasks.json").write_text(json.dumps([task]))
    for name in ("played", "$(touch ran)"):
        (own_world / "outputs" / name).mkdir(parents=True)
        (own_world / "outputs" / name / "traces.jsonl").touch()
    store = RunStore(own_world / ".hudtui")
    plan = Plan(
        "rollouts", (Stage("play", ("true",), grace=1.0), Stage("score", ("true",), grace=1.0))
    )
    for name in ("first", "$(touch ran)"):
        spec = RunSpec("rollouts", name, str(own_world), model="org/mine")
        run = f"{name}-1" if name.isalpha() else "second-1"
        folder = str(store.folder / run)
        store.add(
            RunRecord(
                run, time.time(), name, "rollouts", "local", machine_label(), folder, spec, plan
            )
        )
    save_cache(
        Market({"prime": ProviderOffers("prime", "Prime", (OFFER,), at=1.0)}),
        app_paths().cache / "offers.json",
    )
    Ledger().reserve(Order("mine", OFFER), provider="prime")
    (Path.home() / ".ssh").mkdir()
    (Path.home() / ".ssh" / "config").write_text("Host box box2\nHost *.example\n")
    return own_world


def ask(*lines: str) -> list[list[str]]:
    """Returns what bash offers for each line; `''` at its end is a word that is not begun."""
    done = subprocess.run(
        ["bash", "--norc", "-c", ASK],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0 and not done.stderr and "\x1b" not in done.stdout, done
    return [line.split() for line in done.stdout.splitlines()]


def offered(line: str) -> list[str]:
    """Returns what hudtui answers the shell, in the process of the test."""
    words = line.replace("''", "").split(" ")
    asked = {
        "_HUDTUI_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = CliRunner().invoke(build(), [], env=asked, prog_name="hudtui")
    assert done.exit_code == 0 and not done.stderr and "\x1b" not in done.stdout, done
    return done.stdout.split()


IN_A_SHELL = {
    "hudtui ru": ["runs"],
    "hudtui rl --gp": ["--gpus"],
    "hudtui runs show ''": ["second-1", "first-1", "first"],
    "hudtui -C .. runs show ''": [],
    "hudtui rl ''": ["init", "tasks.json"],
    "hudtui rl tasks.json --config ''": ["configs/one.yaml", "configs/two.yaml"],
    "hudtui rollouts list ''": ["played"],
}
CASES = {
    "hudtui runs sh": ["show"],
    "hudtui runs logs fir": ["first-1", "first"],
    "hudtui runs metrics first-1 sec": ["second-1"],
    "hudtui runs logs first-1 --window ''": ["play", "score"],
    "hudtui config check configs/t": ["configs/two.yaml"],
    "hudtui art train --config ''": ["art.yaml"],
    "hudtui art train --config art.yaml --env ''": ["mine", "2048", "browser", "gmail"],
    "hudtui art train --base-model m": ["medium"],
    "hudtui tasks check t": ["tasks.json"],
    "hudtui rl --engine t": ["trl"],
    "hudtui rl --config configs/one.yaml --policy ''": ["random", "solution", "replay:", "openai:"],
    "hudtui rl --policy ''": ["greedy", "random", "solution", "replay:", "openai:"],
    "hudtui rl --provider ''": ["prime", "sky", "ssh", "local"],
    "hudtui rl --model o": ["org/mine"],
    "hudtui rl --set num_g": ["num_generations="],
    "hudtui rl --host ''": ["local", "box", "box2"],
    "hudtui watch bo": ["box", "box2"],
    "hudtui rl --gpus ''": ["2xH100_80GB", "H100_80GB", "cpu"],
    "hudtui rl --cloud ''": ["datacrunch"],
    "hudtui rl --region ''": ["FI", "eu_north"],
    "hudtui rl --offer ''": [OFFER.short],
    f"hudtui pods create {OFFER.short[:3]}": [OFFER.short],
    "hudtui pods terminate ''": ["mine"],
    "hudtui pods ssh m": ["mine"],
    "hudtui pods offers --sort g": ["gpu-price"],
    "hudtui runs list --sort mo": ["model"],
    "hudtui env show t": ["text-2048"],
    "hudtui settings set WANDB_A": ["WANDB_API_KEY"],
    "hudtui --platform b": ["buckeye"],
    "hudtui tasks push tasks.json --format p": ["parquet"],
    "hudtui runs export --format ''": ["adapter", "merged"],
    "hudtui rollouts export played --format ''": ["jsonl", "markdown", "atif", "sft"],
    "hudtui rollouts list played --sort rew": ["reward"],
    "hudtui rollouts list played --groups --sort sp": ["spread", "split"],
}


def test_a_shell_completes_values_from_the_project(project: Path) -> None:
    before = sorted(project.rglob("*"))
    assert dict(zip(IN_A_SHELL, ask(*IN_A_SHELL), strict=True)) == IN_A_SHELL
    assert {line: offered(line) for line in CASES} == CASES
    assert (
        sorted(project.rglob("*")) == before
    )  # nothing is written, and no name of a file or run is carried out


def test_a_damaged_project_completes_nothing_and_says_nothing(project: Path) -> None:
    (project / ".hudtui" / "runs.db").write_bytes(b"junk" * 1000)
    app_paths().cache.joinpath("offers.json").write_text("[")
    assert ask("hudtui runs show ''", "hudtui rl --offer ''", "hudtui runs sh") == [
        [],
        [],
        ["show"],
    ]


def test_tab_in_an_interactive_shell(project: Path) -> None:
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PS1="ready> ", TERM="dumb")
        os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
    seen = b""

    def until(mark: bytes) -> None:
        nonlocal seen
        end = time.monotonic() + 100
        while mark not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 10_000)
        assert mark in seen, seen.decode(errors="replace")

    try:
        until(b"ready> ")
        os.write(terminal, b"source <(_HUDTUI_COMPLETE=source_bash hudtui); echo so''urced\r")
        until(b"sourced\r\nready> ")
        os.write(terminal, b"hudtui runs show sec\t")
        until(b"show second-1")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def test_offers_that_a_command_has_listed_complete(own_world: Path) -> None:
    (Path.home() / ".ssh").mkdir()
    found = json.loads(hudtui("pods", "offers", "cpu", "--provider", "local", "--json").stdout)[
        "offers"
    ]
    kept = cached_offers(app_paths().cache / "offers.json")
    assert [one.short for one in kept] == [one["short"] for one in found]
    save_cache(
        Market({"prime": ProviderOffers("prime", "Prime", (OFFER,), at=1.0)}),
        app_paths().cache / "offers.json",
    )
    hudtui("pods", "offers", "cpu", "--provider", "local")
    assert (
        "Prime" in json.loads((app_paths().cache / "offers.json").read_text())["providers"]
    )  # others' offers stay


def test_every_parameter_with_values_of_the_project_completes() -> None:
    root: Any = typer.main.get_command(build())
    lacking = []

    def walk(command: Any, parent: Any, path: str) -> None:
        context = command.make_context(
            path.rpartition(" ")[2] or "hudtui", [], parent=parent, resilient_parsing=True
        )
        for parameter in command.get_params(context):
            named = {
                "run",
                "runs",
                "tasks",
                "--config",
                "--host",
                "--engine",
                "--provider",
                "--platform",
                "--offer",
                "--gpus",
            }
            if named & {*parameter.opts, parameter.name} and "shell_complete" not in vars(
                parameter
            ):
                lacking.append(f"{path} {parameter.name}")
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, context, f"{path} {name}".strip())

    walk(root, None, "")
    assert not lacking
