"""The command of the user: what it gets, when it is started, and what is said when it fails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hudtui.core.diagnosis.facts import Alarm
from hudtui.core.errors import InputError, MachineError
from hudtui.core.flows import notify as flow
from hudtui.core.flows.notify import NOTIFY_COMMAND, notify, notify_argv, notifying
from hudtui.core.process import machine_label
from hudtui.core.project import Project, open_project
from hudtui.core.runs.news import RunNews, news_between
from hudtui.core.runs.spec import RunSpec
from hudtui.core.runs.status import RunView
from hudtui.core.runs.store import RunRecord
from hudtui.core.runs.values import RunSummary
from hudtui.core.runs.watch import Monitor
from hudtui.core.settings import save_project_setting, save_user_setting
from hudtui.core.training.plan import Plan, Stage

KEY = "sk-of-somebody-0123456789"
FULL = Alarm("disk", "warning", "the disk is nearly full: 2 GiB left", "Remove old checkpoints.")


def view(state: str, *alarms: Alarm, why: str | None = None) -> RunView:
    summary = RunSummary(
        "grpo-aaaa", "grpo", "trl", "local", "/runs/grpo-aaaa", state=state, why=why
    )  # type: ignore[arg-type]
    return RunView(summary, alarms=alarms, cost=1.5)


@pytest.fixture
def project(own_world: Path) -> Project:
    found = open_project()
    plan, spec = Plan("trl", (Stage("train", ("true",)),)), RunSpec("trl", "grpo", str(own_world))
    found.runs.add(
        RunRecord(
            "grpo-aaaa", 1e9, "grpo", "trl", "local", machine_label(), "/runs/grpo-aaaa", spec, plan
        )
    )
    return found


def test_only_what_is_new_is_news() -> None:
    fuller = Alarm("disk", "warning", "the disk is nearly full: 1 GiB left", FULL.fix)
    full = Alarm("disk", "error", "the disk is full", FULL.fix)

    def told(before: RunView | None, now: RunView) -> list[str]:
        return [one.text for one in news_between(before, now)]

    assert told(None, view("running", FULL)) == told(None, view("failed")) == []
    assert told(view("running"), view("running", FULL)) == [FULL.text]
    assert told(view("running", FULL), view("running", fuller)) == [], (
        "the same alarm in other words"
    )
    assert told(view("running", FULL), view("running", full)) == [full.text], "it has become worse"
    known = replace(FULL, acknowledged=True)
    assert told(view("running"), view("running", known)) == [], "the user knows of it"
    assert told(view("running", known), view("running", FULL)) == [FULL.text], "it has come anew"
    assert told(view("stopping"), view("stopped", FULL)) == ["stopped"]
    assert told(view("failed"), view("failed")) == told(view("failed"), view("running", FULL)) == []


async def test_the_command_gets_each_event_once(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "to ld"
    told.mkdir()
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    save_user_setting(
        NOTIFY_COMMAND, f"""sh -c 'cat >"$0/$$"; pwd >>"$0/$$"' "{told}" '$(touch ran)'"""
    )
    end = RunNews(view("failed", FULL, why=f"it said {KEY} \x1b[31mand ended"))
    await asyncio.gather(
        notify([end], project), notify([RunNews(view("running"), FULL), end], open_project())
    )
    found = [one.read_text().splitlines() for one in told.iterdir()]
    assert [place for _, place in found] == [str(Path.home())] * 2, (
        "it is not started in the folder of the project"
    )
    by_event = {one["event"]: one for one in (json.loads(text) for text, _ in found)}
    assert by_event["alarm"]["text"] == f"grpo: {FULL.text}"
    assert by_event["end"] == {
        "event": "end",
        "text": "grpo: failed",
        "run": "grpo-aaaa",
        "name": "grpo",
        "state": "failed",
        "why": "it said •••• and ended",
        "step": None,
        "reward": None,
        "cost": 1.5,
        "currency": "USD",
        "simulated": False,
        "alarm": FULL.to_json(),
    }
    assert not Path("ran").exists() and not (Path.home() / "ran").exists(), "there is no shell"


@pytest.mark.parametrize(
    ("command", "patience", "words"),
    [
        ("sh -c 'echo not there >&2; exit 22'", 30.0, "status 22: not there"),
        ("/no/such/program", 30.0, "/no/such/program"),
        ("sleep 100", 0.2, "did not end within 0.2 s"),
    ],
)
async def test_a_failure_is_told_after_all_events(
    project: Project, monkeypatch: pytest.MonkeyPatch, command: str, patience: float, words: str
) -> None:
    monkeypatch.setattr(flow, "PATIENCE", patience)
    monkeypatch.setenv(NOTIFY_COMMAND, command)
    with pytest.raises(MachineError, match=f"the command of {NOTIFY_COMMAND} failed") as failed:
        await notify([RunNews(view("running"), FULL), RunNews(view("stopped"))], project)
    assert words in str(failed.value.why)
    assert [
        event.data["about"]
        for event in project.runs.events("grpo-aaaa")
        if event.type == "notified"
    ] == [
        "the alarm disk",
        "the end",
    ]
    await notify([RunNews(view("stopped"))], project)  # once, also where it failed


async def test_a_run_is_looked_at_again_after_its_machine_did_not_answer(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, said = tmp_path / "told", list[str]()
    silent = [MachineError("the machine does not answer")]

    async def watch(*_: Any, **__: Any) -> AsyncIterator[RunView]:
        if silent:
            raise silent.pop()
        yield view("running")
        yield view("running", FULL)
        await asyncio.Event().wait()

    async def look(*_: Any) -> RunView:
        return view("finished")

    monkeypatch.setattr(Monitor, "watch", watch)
    monkeypatch.setattr(Monitor, "view", look)
    monkeypatch.setattr(flow, "LOOK", 0.01)
    monkeypatch.setenv(NOTIFY_COMMAND, f"sh -c 'cat >>\"$0\"; exit 1' '{told}'")
    async with asyncio.timeout(60), notifying("grpo-aaaa", project, said.append):
        while not told.exists():  # noqa: ASYNC110 - another program writes it
            await asyncio.sleep(0.01)
    assert [json.loads(line)["event"] for line in told.read_text().splitlines()] == ["alarm", "end"]
    assert len(said) == 1 and "the command of HUDTUI_NOTIFY_COMMAND failed" in said[0], (
        "it is said once"
    )


def test_no_folder_names_the_command(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDTUI_TRUST", str(project.folder))
    (project.folder / ".env").write_text(f"{NOTIFY_COMMAND}=touch ran\n")
    with pytest.raises(InputError, match="is not taken from a project folder"):
        save_project_setting(project.folder, NOTIFY_COMMAND, "touch ran")
    assert notify_argv() == () and project.settings().get(NOTIFY_COMMAND) is None
    monkeypatch.setenv(NOTIFY_COMMAND, "curl 'it")
    with pytest.raises(InputError, match="cannot be read"):
        notify_argv()
