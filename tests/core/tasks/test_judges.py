"""Models that judge tasks: what the user agrees to, and what is wrong before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hudtui.core import trust
from hudtui.core.errors import InputError
from hudtui.core.flows.trust import survey
from hudtui.core.gym.values import GymConfig
from hudtui.core.platform import HUD
from hudtui.core.rollouts.evaluate import read_playable_tasks
from hudtui.core.settings import load_settings
from hudtui.core.tasks.judges import judge_lines, required_powers
from hudtui.core.tasks.read import read_tasks
from hudtui.core.tasks.task import Task

SECURE = "https://judge.test/v1"
BUNDLED = {"text-2048": {"command": "python3", "args": ["-P", "-m", "hudtui.envs.text_2048"]}}


def record(name: str = "t", **judge: Any) -> dict[str, Any]:
    asked = {"rubric": "Is it polite?", "model": "m", **judge}
    parts = [{"judge": asked}]
    return {"id": name, "prompt": "Ask.", "mcp_config": BUNDLED, "evaluate": parts}


def write(folder: Path, *records: Any) -> None:
    (folder / "tasks.json").write_text(json.dumps(list(records), indent=1))


def playable(folder: Path, source: str | None = None) -> tuple[Task, ...]:
    settings = load_settings(folder, HUD)
    read, _ = read_playable_tasks("tasks.json", GymConfig(), settings, source=source)
    return read.tasks


@pytest.fixture
def folder(own_world: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MY_KEY", "sk-mine-0123456789")
    for name in ("HUDTUI_TRUST", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    return own_world


def test_a_judge_of_a_folder_is_asked_about(folder: Path):
    write(folder, record(endpoint=SECURE, key="MY_KEY"))
    with pytest.raises(trust.Untrusted) as refused:
        playable(folder)
    [power] = refused.value.powers
    assert power.kind == "address"
    assert power.text.startswith(f"{SECURE} with MY_KEY, for the judge m: it is sent the prompt")
    assert "sk-mine" not in str(power)
    assert power.token in {one.token for one in survey(folder)}
    trust.agree(folder, [power])
    assert [task.id for task in playable(folder)] == ["t"]


@pytest.mark.parametrize(
    "change",
    [
        {"endpoint": "https://judge.test:8443/v1"},
        {"endpoint": "https://evil.test/v1"},
        {"endpoint": "https://judge.test/v2"},
        {"key": "PRIME_API_KEY"},
        {"model": "gpt-expensive"},
        {"endpoint": None, "key": "MY_KEY"},
    ],
)
def test_another_judge_is_asked_about_again(
    folder: Path, change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PRIME_API_KEY", "sk-prime-0123456789")
    agreed = {"endpoint": SECURE, "key": "MY_KEY"}
    write(folder, record(**agreed))
    trust.agree(folder, survey(folder))
    playable(folder)
    write(folder, record(**agreed), record("other", **{**agreed, **change}))
    with pytest.raises(trust.Untrusted) as refused:
        playable(folder)
    assert len(refused.value.powers) == 1


def test_another_rubric_needs_no_question(folder: Path):
    write(folder, record(endpoint=SECURE, key="MY_KEY"))
    trust.agree(folder, survey(folder))
    write(folder, *(record(str(n), endpoint=SECURE, key="MY_KEY", rubric=f"{n}") for n in range(9)))
    assert len(playable(folder)) == 9


def test_a_judge_is_asked_about_also_where_tasks_play_elsewhere(folder: Path):
    write(folder, record(endpoint=SECURE, key="MY_KEY"))
    with pytest.raises(trust.Untrusted):
        playable(folder, source="text-2048")


def test_the_endpoint_of_the_settings_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-0123456789")
    write(folder, record())
    [power] = survey(folder)
    assert power.text.startswith("https://api.openai.com/v1 with OPENAI_API_KEY, for the judge m")
    trust.agree(folder, [power])
    playable(folder)
    monkeypatch.setenv("OPENAI_BASE_URL", "https://other.test/v1")
    with pytest.raises(trust.Untrusted):
        playable(folder)


def test_what_a_terminal_would_obey_is_spelled_out_in_the_question(folder: Path):
    one = Task(
        "t", "Ask.", {}, extra={"evaluate": [{"judge": {"rubric": "x", "model": "m\u202eq"}}]}
    )
    assert required_powers([one], folder / "t.json", {}.get) == ()  # such a model is refused
    assert judge_lines(one, {}.get) == ()


@pytest.mark.parametrize(
    ("judge", "lacks"),
    [
        ({"endpoint": SECURE, "key": "NO_KEY"}, "NO_KEY"),
        ({}, "OPENAI_API_KEY"),
        ({"endpoint": "http://127.0.0.1:1/v1", "key": "NO_KEY"}, "NO_KEY"),
    ],
)
def test_a_judge_without_key_is_named_before_anything_starts(
    folder: Path, judge: dict[str, Any], lacks: str
):
    write(folder, record("first", endpoint="http://127.0.0.1:1/v1"), record("second", **judge))
    settings = load_settings(folder, HUD)
    options: dict[str, Any] = {"lookup": settings.lookup, "lacking": settings.lacking}
    [problem] = read_tasks("tasks.json", folder=folder, **options).problems
    assert problem.severity == "warning" and problem.id == "second" and problem.line
    assert problem.field == "evaluate[0].judge.key"
    assert f"{lacks} is not set" in problem.message
    assert f"hudtui settings set {lacks}" in problem.message
    trust.agree(folder, survey(folder))
    with pytest.raises(InputError) as refused:
        playable(folder)
    error = refused.value
    assert error.where is not None and error.where.line == problem.line
    assert error.where.file.endswith("tasks.json") and error.where.field == problem.field
    assert lacks in str(error.why)


def test_a_judge_of_this_computer_needs_no_key(folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder, record(endpoint="http://127.0.0.1:8000/v1"))
    trust.agree(folder, survey(folder))
    assert playable(folder)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    write(folder, record())
    trust.agree(folder, survey(folder))
    assert playable(folder)
