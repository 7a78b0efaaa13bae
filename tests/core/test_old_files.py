"""What the first version of hudtui wrote is read, and acted on, as it was: `tests/data/first-store`.

The two databases are dumps (`@WORK@` and `@MACHINE@` stand for the workspace and the id of the machine). They were written by a
walk through the demo: a run on this machine, a run on a rented machine that ended, and a machine that is still rented.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.compute.limits import Limits
from hudtui.core.compute.pods import Ledger
from hudtui.core.process import machine_id

DATA = Path(__file__).parents[1] / "data" / "first-store"


def _database(name: str, path: Path, work: Path) -> None:
    text = (
        (DATA / name)
        .read_text()
        .replace("@WORK@", str(work))
        .replace("@MACHINE@", machine_id())
        .replace("@PYTHON@", sys.executable)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(text)
    connection.close()


@pytest.fixture
def old(own_world: Path) -> Path:
    """A workspace and a home folder as the first version left them."""
    data = Path(os.environ["XDG_DATA_HOME"]) / "hudtui"
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "hudtui"
    _database("pods.sql", data / "pods.db", own_world)
    _database("runs.sql", own_world / ".hudtui" / "runs.db", own_world)
    shutil.copy(DATA / "limits.json", data / "limits.json")
    config.mkdir(parents=True)
    shutil.copy(DATA / "settings.env", config / "settings.env")
    shutil.copytree(DATA / "run", own_world / ".hudtui" / "runs" / "2048-greedy-27pp")
    return own_world


def hudtui(*arguments: str) -> Any:
    done = subprocess.run([sys.executable, "-m", "hudtui", *arguments, "--json"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_runs_are_listed_with_how_they_ended_and_what_they_cost(old: Path) -> None:
    rented, local = hudtui("runs")
    assert (rented["id"], rented["state"], rented["stage"]) == ("2048-greedy-27pp", "finished", "play")
    assert (rented["hourly"], rented["currency"], rented["billed"], rented["cost"]) == (0.08, "USD", 0.001338, 0.001338)
    assert (rented["started"], rented["elapsed_seconds"]) == ("2026-11-22T17:37:53+00:00", 53.974)
    assert rented["results"] == str(old / ".hudtui" / "runs" / "2048-greedy-27pp") and rented["machine"] == "released"
    assert round(rented["reward"], 3) == 0.857 and rented["step"] == 6.0
    assert (local["id"], local["state"], local["host"], local["ended"]) == (
        "demo-kt2r",
        "finished",
        "local",
        "2026-11-22T17:30:07+00:00",
    )


def test_a_run_is_shown_with_its_stages_and_results(old: Path) -> None:
    shown = hudtui("runs", "show", "2048-greedy-27pp")
    stages = [(stage["name"], stage["state"], stage["exit"]) for stage in shown["stages"]]
    assert stages == [("bootstrap", "ended", 0), ("play", "ended", 0)]
    assert shown["result"]["episodes"] == 6 and len(shown["result"]["tasks"]) == 6


def test_pods_keep_their_price_their_offer_and_the_moment_that_ends_them(old: Path) -> None:
    ledger = Ledger()
    ended, live = ledger.get("hudtui-2048-greedy-dft6wz8y"), ledger.get("hudtui-old-d7tc62vc")
    assert ended is not None and live is not None
    assert (ended.state, ended.open, ended.run, ended.hourly, ended.billed) == (
        "ended",
        False,
        "2048-greedy-27pp",
        0.08,
        0.001338,
    )
    assert ended.why == "run 2048-greedy-27pp finished" and ended.workspace == str(old)
    assert (live.provider, live.pod, live.state, live.open) == ("prime", "simpod00000000000000000000000002", "ready", True)
    assert (live.run, live.by_hand, live.held, live.account) == (None, True, False, "Sim User")
    assert live.until is not None and round((live.until - live.created) / 3600, 2) == 11.54  # what its budget of $7.50 lasts
    pod = live.last_pod()
    assert (pod.stage, pod.gpu_type, pod.gpu_count, pod.hourly, pod.spot) == ("ready", "A100_80GB", 1, 0.65, True)
    assert live.order["offer"]["data_center"] == "FIN-01"


def test_pods_keep_the_limits_that_were_set_for_them(old: Path) -> None:
    ledger = Ledger()
    for _ in range(2):  # as yesterday's files have them, then after the first write has brought them into the ledger
        assert ledger.limits("hudtui-old-d7tc62vc") == Limits(7.5, 100.0, 24.0, None, 0.8)
        assert ledger.limits("hudtui-2048-greedy-dft6wz8y") == Limits(7.5, 100.0, 24.0, 30.0, 0.8)
        ledger.update("hudtui-old-d7tc62vc", hourly=0.65)


def test_a_reopened_store_takes_new_entries(old: Path) -> None:
    ledger = Ledger()
    ledger.update("hudtui-old-d7tc62vc", "ended", billed=1.25)
    again = Ledger().get("hudtui-old-d7tc62vc")
    assert again is not None and (again.state, again.billed, again.hourly) == ("ended", 1.25, 0.65)


def test_settings_of_the_user_count(old: Path) -> None:
    (budget,) = [setting for setting in hudtui("settings")["settings"] if setting["name"] == "HUDTUI_BUDGET_RUN"]
    assert (budget["value"], budget["set"]) == ("7.5", True)
