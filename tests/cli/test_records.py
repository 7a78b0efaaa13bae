"""`hudtui runs records`: what stands in the files of trackers, and in logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import hudtui
from support.tracker_files import WANDB_RUN, history, stats, wandb_file


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_records_of_a_run_are_printed_in_order() -> None:
    steps = [history({"_step": n, "loss": 1 / (n + 1)}) for n in range(3)]
    Path("run-1.wandb").write_bytes(wandb_file([WANDB_RUN, *steps]))
    lines = hudtui("runs", "records", "./run-1.wandb").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["1", "run"],
        ["2", "history"],
        ["3", "history"],
        ["4", "history"],
    ]
    none = hudtui("runs", "records", "./run-1.wandb", "--grep", "nothing of it")
    assert (none.returncode, none.stdout) == (0, "")
    assert "no record matches 'nothing of it'" in none.stderr
    only = hudtui("runs", "records", "./run-1.wandb", "--kind", "history", "--grep", "0.5")
    assert only.stdout.startswith("3 history ") and len(only.stdout.splitlines()) == 1
    told = hudtui("runs", "records", "./run-1.wandb", "--kind", "run", "--json").stdout
    record = json.loads(told)
    assert (record["record"], record["kind"]) == (1, "run")
    assert record["run"]["config"]["update"]["lr"] == 1e-05


def test_a_kind_that_no_record_has_is_an_error() -> None:
    Path("run-1.wandb").write_bytes(wandb_file([WANDB_RUN, history({"_step": 1, "loss": 1.0})]))
    done = hudtui("runs", "records", "./run-1.wandb", "--kind", "run", "--kind", "histroy", code=2)
    assert done.stdout.startswith("1 run ")
    assert "no records of kind 'histroy'" in done.stderr
    assert "It has run, history." in done.stderr


def test_a_damaged_file_is_an_error_after_its_records() -> None:
    whole = wandb_file(history({"_step": n, "note": "x" * 700}) for n in range(100))
    Path("run-1.wandb").write_bytes(whole[:40_000] + b"\0" + whole[40_001:])
    done = hudtui("runs", "records", "./run-1.wandb", code=2)
    assert "is damaged at byte 39,910, after 54 whole" in done.stderr and done.stdout.startswith(
        "1 history "
    )


def test_the_rows_and_lines_of_other_files() -> None:
    Path("train.log").write_text('{"step": 1, "loss": 0.5}\nsaved \x1b[2J model\n{"step": 2')
    done = hudtui("runs", "records", "./train.log")
    assert done.stdout.splitlines() == [
        '1 row {"step": 1, "loss": 0.5}',
        "2 line saved model",
        '3 line {"step": 2',
    ]
    state = {"log_history": [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}]}
    Path("trainer_state.json").write_text(json.dumps(state))
    done = hudtui("runs", "records", "./trainer_state.json", "--json")
    rows = [json.loads(line)["row"] for line in done.stdout.splitlines()]
    assert [row["loss"] for row in rows] == [2.0, 1.0]


def test_a_line_is_a_value_only_where_all_of_it_is_one() -> None:
    lines = ["[0] rank 0 of [8]", "{'a': {2}, (1, 2): b'x'}", '{"loss": 1e999, "n": NaN}', "[] a"]
    Path("train.log").write_text("\n".join([*lines, '{"a": 1} {"b": 2}', "{'a': 1} or {'b': 2}"]))
    assert hudtui("runs", "records", "./train.log").stdout.splitlines() == [
        "1 line [0] rank 0 of [8]",
        """2 row {"a": [2], "(1, 2)": "b'x'"}""",
        '3 row {"loss": "inf", "n": "nan"}',
        "4 line [] a",
        '5 line {"a": 1} {"b": 2}',
        "6 line {'a': 1} or {'b': 2}",
    ]


def test_what_cannot_be_read_is_said() -> None:
    Path("junk.bin").write_bytes(bytes(range(256)) * 100)
    assert "not a text file" in hudtui("runs", "records", "./junk.bin", code=2).stderr
    Path("empty.log").write_text("")
    assert "has no records" in hudtui("runs", "records", "./empty.log", code=2).stderr
    assert "is no path" in hudtui("runs", "records", "local", code=2).stderr
    assert "expression" in hudtui("runs", "records", "./empty.log", "--grep", "(", code=2).stderr


def test_the_load_of_the_machines_of_a_run() -> None:
    load = [
        stats(1700000000 + n, {"gpu.0.gpu": 50 + n, "gpu.1.gpu": 5, "cpu": n}) for n in range(3)
    ]
    Path("run-1.wandb").write_bytes(wandb_file([history({"_step": 0, "loss": 1.0}), *load]))
    lines = hudtui("runs", "metrics", "./run-1.wandb", "--machine").stdout.splitlines()
    rows = [line.split()[:4] for line in lines]
    assert ["GPU", "0", "52", "50"] in rows and ["GPU", "1", "5", "5"] in rows
    assert ["cpu", "2", "0", "2"] in rows
    told = json.loads(hudtui("runs", "metrics", "./run-1.wandb", "--machine", "--json").stdout)
    (run,) = told["runs"]
    assert run["maps"][0]["rows"][0]["samples"][-1] == [1700000002.0, 52]
    assert run["others"][0]["label"] == "cpu"
    assert run["others"][0]["samples"][0] == [1700000000.0, 0]
    for more in (["--csv", "-"], ["--all"]):
        refused = hudtui("runs", "metrics", "./run-1.wandb", "--machine", *more, code=2)
        assert "all of the load is printed" in refused.stderr
