"""Whether the Hub has the model is asked before a machine is rented, where the Hub can be
reached."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hub_stub import CUT_BEFORE, Answer, HubStub, refuse

from hudtui.core.compute import hardware as machines
from hudtui.core.compute.hardware import Gpu, Hardware
from hudtui.core.runs.prepare import prepare_run
from hudtui.core.runs.request import RunRequest
from hudtui.core.runs.store import RunStore
from hudtui.core.settings import load_settings
from hudtui.core.workspace import open_workspace

pytestmark = pytest.mark.filterwarnings(
    "ignore:Use .content=:DeprecationWarning"
)  # of the Hub's own client

NO_MODEL = refuse(404, "Repository not found", code="RepoNotFound")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStub]:
    from huggingface_hub import constants

    with HubStub() as hub:
        for name, value in hub.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)  # read when it was imported
        yield hub


async def check(project: Path, store: RunStore, **asked: Any) -> tuple[str, str]:
    """State and text of the check of the model."""
    workspace = open_workspace(project)
    settings = load_settings(workspace.folder, workspace.platform)
    prepared = await prepare_run(
        RunRequest(**{"provider": "prime", **asked}), workspace, settings, store
    )
    (found,) = [one for one in prepared.checks if one.name == "model"]
    return found.state, found.text


@pytest.mark.parametrize(
    ("name", "answer", "state", "says"),
    [
        ("org/there", Answer(200, json.dumps({"id": "org/there"}).encode()), "fine", "on the Hub"),
        ("org/gated", refuse(403, "gated", code="GatedRepo"), "fine", "on the Hub"),
        ("no-such/model-xyz", NO_MODEL, "missing", "the Hub has no model no-such/model-xyz"),
        (
            "org/private",
            refuse(401, "Repository not found", code="RepoNotFound"),
            "missing",
            "the Hub has no model",
        ),
        (
            "org/token",
            refuse(401, "Invalid credentials in Authorization header"),
            "warning",
            "is not known here",
        ),
        ("org/ill", Answer(500, b"{}"), "warning", "is not known here"),
        ("org/busy", Answer(429, b"{}"), "warning", "is not known here"),
        (
            "org/page",
            Answer(200, b"<html>", {"Content-Type": "text/html"}),
            "warning",
            "is not known here",
        ),
        ("org/odd", Answer(200, b"[1"), "warning", "is not known here"),
        ("org/cut", CUT_BEFORE, "warning", "is not known here"),
    ],
)
async def test_what_the_hub_says_of_a_model(
    project: Path,
    store: RunStore,
    hub: HubStub,
    name: str,
    answer: Answer | str,
    state: str,
    says: str,
) -> None:
    hub.fault = lambda number, method, path: answer if path.startswith("/api/models/") else None
    found, text = await check(project, store, model=name)
    assert found == state and says in text
    asked = [path for _, path in hub.requests if path.startswith("/api/models/")]
    assert set(asked) == {f"/api/models/{name}"}
    await check(project, store, model=name)
    assert [path for _, path in hub.requests if path.startswith("/api/models/")] == asked, (
        "a form asks again and again"
    )


async def test_a_machine_of_the_users_may_ask_another_hub(
    project: Path, store: RunStore, hub: HubStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def inspect(host: Any, *, python: str = "python3") -> Hardware:
        gpus = tuple(Gpu(number, "NVIDIA H100 80GB HBM3", 81559) for number in (0, 1))
        return Hardware(
            host.name, python="3.12", cpus=8, gpus=gpus, programs=(("tmux", "/usr/bin/tmux"),)
        )

    monkeypatch.setattr(machines, "inspect", inspect)
    hub.fault = lambda number, method, path: NO_MODEL if path.startswith("/api/models/") else None
    assert (await check(project, store, provider=None, host="me@box", model="org/elsewhere"))[
        0
    ] == "warning"
    assert (await check(project, store, provider=None, host="local", model="org/elsewhere"))[
        0
    ] == "missing"


async def test_an_offline_hub_is_not_asked(
    project: Path, store: RunStore, hub: HubStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    state, text = await check(project, store, model="org/offline")
    assert state == "warning" and "asked on the machine" in text and not hub.requests


async def test_asking_leaves_the_process_as_it_was(
    project: Path, store: RunStore, hub: HubStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.delenv("HF_HUB_DISABLE_XET")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    during: list[bool] = []

    def fault(number: int, method: str, path: str) -> Answer:
        during.append(constants.HF_HUB_DISABLE_XET)
        return NO_MODEL

    hub.fault = fault
    await check(project, store, model="org/as-before")
    assert during and all(during), "a mirror has no store of chunks"
    assert "HF_HUB_DISABLE_XET" not in os.environ and constants.HF_HUB_DISABLE_XET is False
