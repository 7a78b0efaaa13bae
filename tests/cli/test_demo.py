import json
import re
import sys

import pytest
from typer.testing import CliRunner

from hudtui.cli import console
from hudtui.cli.app import build
from hudtui.core.demo import FILES, make_workspace
from hudtui.core.runs.store import RunStore


def invoke(*arguments):
    return CliRunner().invoke(build(), ["demo", *map(str, arguments)])


@pytest.fixture
def short(own_world):
    """A demo workspace with a single short task."""
    folder = own_world / "demo"
    make_workspace(folder)
    tasks = json.loads((folder / "tasks.json").read_text())
    (folder / "tasks.json").write_text(json.dumps(tasks[:1]))
    return folder


def test_the_whole_road_with_a_table(short):
    result = invoke(short, "--headless")
    assert result.exit_code == 0, result.output
    head, row, mean = result.stdout.splitlines()
    assert head.split() == ["task", "reward", "turns", "best", "tile", "stop"]
    assert re.fullmatch(r"board-3x3-seed5 +0\.\d{3} +\d+ +\d+ +(done|max_turns)", row)
    assert re.fullmatch(r"mean +0\.\d{3}", mean)
    stages = [line.split()[0] for line in result.stderr.splitlines()]
    assert [stage for stage in dict.fromkeys(stages) if stage != "|"] == [
        "discover",
        "workspace",
        "check",
        "launch",
        "run",
    ]
    assert re.search(
        r"\| \d\d:\d\d:\d\d episode 1/1 task=board-3x3-seed5 reward=0\.\d{3} turns=\d+ stop=",
        result.stderr,
    )
    assert "in the tmux session hudtui-demo-" in result.stderr


def test_json_is_one_document(short):
    result = invoke(short, "--headless", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["run"]["state"], told["config"]["findings"]) == ("finished", 0)
    assert [row["task"] for row in told["rewards"]] == ["board-3x3-seed5"]
    assert set(told["rewards"][0]) == {"task", "reward", "turns", "best_tile", "stop"}
    assert [run.state for run in RunStore(short / ".hudtui").runs()] == ["finished"]


def test_without_a_screen_flag_the_app_opens_on_it(own_world, monkeypatch):
    opened = []

    def run_app(debug=False):
        opened.append((console.os.getcwd(), debug))
        return 7

    monkeypatch.setattr("hudtui.tui.app.run_app", run_app)
    result = invoke()
    folder = own_world / "hudtui-demo"
    assert (result.exit_code, opened) == (7, [(str(folder), False)])
    assert all((folder / name).is_file() for name in FILES)
    assert result.stdout == ""


def test_a_foreign_folder_is_refused(own_world):
    (own_world / "tasks.json").write_text("[]")
    for more in ([], ["--headless"], ["--headless", "--json"]):
        result = invoke(".", *more)
        assert result.exit_code == 2
        assert "the demo changes nothing there" in result.stderr
    assert json.loads(result.stdout)["error"]["type"] == "InputError"
    assert [path.name for path in own_world.iterdir()] == ["tasks.json"]


def test_json_alone_makes_no_sense():
    assert invoke("--json").exit_code == 2


def test_the_interpreter_is_not_in_what_is_printed(short):
    assert sys.prefix not in invoke(short, "--headless").output


def test_inside_a_demo_it_means_that_one(short, monkeypatch):
    monkeypatch.chdir(short)
    assert invoke("--headless").exit_code == 0
    assert not (short / "hudtui-demo").exists()
