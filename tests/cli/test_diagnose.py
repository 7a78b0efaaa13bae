"""`hudtui runs diagnose`: of a file of metrics, of a run, and what it says without numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import hudtui
from support.runs import make_run
from support.training_runs import healthy, sick


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(name: str, lines: list[dict[str, float]]) -> str:
    Path(name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return name


def test_the_findings_of_a_file() -> None:
    path = written("metrics.jsonl", sick("entropy-collapse", "strong", 0))
    done = hudtui("runs", "diagnose", path, "--fail-on", "medium", code=1)
    assert "1 finding in 300 steps" in done.stdout
    assert "medium  The entropy of the policy has collapsed" in done.stdout
    assert "(entropy-collapse)" in done.stdout and "  entropy: " in done.stdout
    assert "> Raise temperature" in done.stdout and "  cost so far: " in done.stdout
    hudtui("runs", "diagnose", path, code=0)


def test_a_sound_run_and_its_json() -> None:
    path = written("metrics.jsonl", healthy("rising", 0))
    done = hudtui("runs", "diagnose", path, "--json")
    told = json.loads(done.stdout)
    assert (told["verdict"], told["findings"], told["steps"]) == ("sound", [], 300)
    assert "waits-for-tools" in told["unseen"]


def test_a_short_run_does_not_lack_numbers_but_steps() -> None:
    path = written("metrics.jsonl", healthy("rising", 0)[:5])
    done = hudtui("runs", "diagnose", path)
    assert "not enough evidence yet in 5 steps" in done.stdout
    assert "judged from step 20 on" in done.stderr and "no such numbers" not in done.stderr


def test_a_finding_as_json() -> None:
    path = written("metrics.jsonl", sick("kl-blow-up", "strong", 0))
    told = json.loads(hudtui("runs", "diagnose", path, "--json", code=1).stdout)
    (finding,) = told["findings"]
    assert told["verdict"] == "sick" and finding["signature"] == "kl-blow-up"
    assert finding["severity"] == "critical" and 0.9 < finding["probability"] < 1
    assert 90 < finding["onset"] < 150
    spent = {"steps": 300 - finding["onset"], "hours": None, "money": None, "currency": "USD"}
    assert finding["spent"] == spent
    assert {"series", "before", "now"} == set(finding["evidence"][0])
    assert all({"words", "settings"} == set(one) for one in finding["remedies"])


def test_without_numbers_it_says_so() -> None:
    Path("train.log").write_text("hello\n")
    done = hudtui("runs", "diagnose", "train.log", code=2)
    assert "has no numbers to diagnose" in done.stderr
    missing = hudtui("runs", "diagnose", "./nothing.jsonl", code=None)
    assert missing.returncode != 0 and "nothing.jsonl" in missing.stderr


def test_a_training_of_the_project_by_its_name(tmp_path: Path) -> None:
    make_run(tmp_path, "one", "finished", engine="trl", rows=sick("kl-blow-up", "strong", 3))
    done = hudtui("runs", "diagnose", "one", code=1)
    assert done.stdout.startswith("one: 1 finding in 300 steps") and "(kl-blow-up)" in done.stdout


def test_a_run_that_trains_nothing_is_not_diagnosed(tmp_path: Path) -> None:
    make_run(tmp_path, "two", "finished", rows=sick("kl-blow-up", "strong", 3))
    done = hudtui("runs", "diagnose", "two", code=2)
    assert "two plays episodes and trains nothing" in done.stderr
