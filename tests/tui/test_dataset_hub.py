"""The dataset screen and the Hugging Face Hub, end to end: the real client against a stand-in; and
carrying tasks over to v6."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import hub_stub as stub
from support.waiting import until

from hudtui.core.lockfile import read_lock
from hudtui.tui.dataset.dialogs import MakeDialog
from hudtui.tui.widgets.dialog import Confirm
from hudtui.tui.widgets.tick import Tick

pytestmark = pytest.mark.filterwarnings(
    "ignore:Use .content=:DeprecationWarning"
)  # the client's own affair

REPO = "my-org/boards"
SECRET = "sk-live-" + "a1" * 12


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from huggingface_hub import constants
    from huggingface_hub.utils import http_backoff

    with stub.HubStub() as running:
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(
            constants, "HF_HUB_DISABLE_XET", True
        )  # read when it was imported, as is the next
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr("hudtui.core.tasks.publish.FIRST_WAIT", 0.02)
        monkeypatch.setattr(http_backoff, "__kwdefaults__", dict(http_backoff.__kwdefaults__))
        stub.quick_retries()
        yield running


def task(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"board-{number}",
        "prompt": f"Reach the tile {2 ** (number + 5)}.",
        "mcp_config": {
            "text-2048": {"command": "python3", "args": ["-m", "hudtui.envs.text_2048"]}
        },
        "evaluate_tool": {
            "name": "evaluate",
            "arguments": {"name": "max_number", "arguments": {"target": 64}},
        },
        **changes,
    }


@pytest.fixture
def tasks(project: Path) -> Path:
    (project / "tasks.json").write_text(json.dumps([task(number) for number in range(5)]))
    return project


async def previewed(pilot: Any) -> MakeDialog:
    await until(
        pilot,
        lambda: (
            isinstance(pilot.app.screen, MakeDialog)
            and bool(pilot.app.screen.query("#make-preview"))
        ),
    )
    dialog = pilot.app.screen
    shown = dialog.query_one("#make-preview")
    await until(
        pilot,
        lambda: dialog._timer is None and any(mark in str(shown.content)[:2] for mark in "✓✗"),
    )
    return dialog


async def told(pilot: Any, dialog: MakeDialog, words: str, *, gone: bool = False) -> None:
    """Wait until the preview says something, or no longer."""
    shown = dialog.query_one("#make-preview")
    await until(
        pilot,
        lambda: (
            dialog.request is not None
            and dialog._timer is None
            and (words in str(shown.content)) != gone
        ),
    )


def busy(pilot: Any) -> bool:
    return "Asking the Hub" in pilot.app.screen.message


async def publish(pilot: Any, settle: Any) -> str:
    """Publish through the dialog; what the screen says in the end."""
    await pilot.press("P")
    dialog = await previewed(pilot)
    dialog.query_one("#make-name").value = REPO
    await pilot.press("ctrl+g")
    await until(
        pilot,
        lambda: (
            isinstance(pilot.app.screen, Confirm) or not (pilot.app.screen.is_modal or busy(pilot))
        ),
    )
    if isinstance(pilot.app.screen, Confirm):
        await pilot.press("y")
    await settle(pilot)
    said: str = pilot.app.screen.message
    return said


async def test_a_dataset_is_published_and_opened_again(
    hub: Any, open_app: Any, tasks: Path, settle: Any
) -> None:
    lock = tasks / "hud.lock.yaml"
    lock.write_text("image: my-org/my-env@sha256:" + "0" * 64 + "\n")
    async with open_app(tasks, size=(120, 40)) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        said = await publish(pilot, settle)
        assert f"Published at {hub.url}/datasets/{REPO}: 5 in train" in said
        assert hub.repos[REPO].private  # nothing else was asked for
        assert (
            len(hub.repos[REPO].commits) == 1
            and "data/train-00000-of-00001.parquet" in hub.repos[REPO].files
        )
        dataset = read_lock(lock).primary_dataset
        assert dataset is not None and (dataset.name, dataset.task_count) == (REPO, 5)

        app.open_screen("dataset", path=REPO)
        await settle(pilot)
        screen = app.screen
        assert (
            screen.open.complete
            and screen.open.index.total == 5
            and screen.open.index.row(4).id == "board-4"
        )


async def test_before_a_push_the_whole_of_it_is_said(
    hub: Any, open_app: Any, tasks: Path, settle: Any
) -> None:
    async with open_app(tasks, size=(120, 40)) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("P")
        dialog = await previewed(pilot)
        assert (
            dialog.query_one("#make-name").value == "demo-tasks"
        )  # the user's own namespace, whatever this machine calls them
        dialog.query_one("#make-private", Tick).toggle()
        await told(pilot, dialog, "public: everyone can read it")
        dialog.query_one("#make-seed").value = "7"
        await pilot.pause()  # from here on what is shown is of this seed
        await until(
            pilot,
            lambda: (
                dialog.request is not None
                and dialog.request.selection.seed == 7
                and dialog.rows == 5
            ),
        )
        await pilot.press("ctrl+g")
        await until(
            pilot,
            lambda: isinstance(app.screen, Confirm) and app.screen.query(".dialog-body Static"),
        )
        text = str(app.screen.query_one(".dialog-body Static").content)
        assert (
            f"5 rows to {hub.url}/datasets/{hub.user}/demo-tasks" in text
            and "PUBLIC" in text
            and "It is new." in text
        )
        await pilot.press("enter")  # a careless one
        dialog = await previewed(pilot)
        assert hub.repos == {} and dialog.query_one("#make-seed").value == "7"
        assert not dialog.query_one("#make-private", Tick).value
        await pilot.press("ctrl+g")
        await until(pilot, lambda: isinstance(app.screen, Confirm))
        await pilot.press("y")
        await settle(pilot)
        repo = hub.repos[f"{hub.user}/demo-tasks"]
        assert not repo.private and len(repo.commits) == 1


async def test_a_public_dataset_is_not_taken_for_a_private_one(
    hub: Any, open_app: Any, tasks: Path, settle: Any
) -> None:
    hub.repos[REPO] = stub.Repo(False)
    async with open_app(tasks, size=(120, 40)) as (_, pilot):
        await pilot.press("3")
        await settle(pilot)
        assert "public already" in await publish(pilot, settle) and hub.repos[REPO].commits == []
        await pilot.press("P")
        assert (await previewed(pilot)).query_one(
            "#make-name"
        ).value == REPO  # what was entered is still there


async def test_a_token_that_is_not_accepted(
    hub: Any, open_app: Any, tasks: Path, settle: Any
) -> None:
    hub.fault = lambda number, method, path: stub.Answer(401, b'{"error": "Invalid credentials"}')
    async with open_app(tasks, size=(120, 40)) as (_, pilot):
        await pilot.press("3")
        await settle(pilot)
        said = await publish(pilot, settle)
        assert "does not accept the token (401)" in said and stub.TOKEN not in said
        assert hub.repos == {}


async def test_a_push_that_is_cut_is_completed_by_the_next(
    hub: Any, open_app: Any, tasks: Path, settle: Any
) -> None:
    hub.fault = lambda number, method, path: stub.CUT_BEFORE if "/commit/" in path else None
    async with open_app(tasks, size=(120, 40)) as (_, pilot):
        await pilot.press("3")
        await settle(pilot)
        said = await publish(pilot, settle)
        assert "Published" not in said and "cannot be reached" in said
        assert hub.repos[REPO].commits == []
        hub.fault = lambda number, method, path: None
        assert "Published at" in await publish(pilot, settle)
        assert len(hub.repos[REPO].commits) == 1
        assert len(hub.uploads) == len(set(hub.uploads)) == 1


async def test_secrets_go_out_only_when_that_is_said(
    hub: Any, open_app: Any, project: Path, settle: Any
) -> None:
    config = {
        "hud": {
            "url": "https://mcp.hud.so/v3/mcp",
            "headers": {"Authorization": f"Bearer {SECRET}"},
        }
    }
    (project / "tasks.json").write_text(
        json.dumps([task(number, mcp_config=config) for number in range(4)])
    )
    async with open_app(project, size=(120, 40)) as (_, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("P")
        dialog = await previewed(pilot)
        dialog.query_one("#make-replace_secrets", Tick).toggle()
        await told(pilot, dialog, "secrets would be published")
        dialog.query_one("#make-keep_secrets", Tick).toggle()
        await told(pilot, dialog, "secrets would be published", gone=True)
        assert (
            dialog.request is not None
            and dialog.request.keep_secrets
            and not dialog.request.replace_secrets
        )
        await pilot.press("escape")
        await settle(pilot)
        assert hub.repos == {}


async def test_a_budget_and_the_file_itself(open_app: Any, tasks: Path, settle: Any) -> None:
    (tasks / "hud.lock.yaml").write_text("image: my-org/my-env@sha256:" + "0" * 64 + "\n")
    async with open_app(tasks, size=(120, 40)) as (_, pilot):
        await pilot.press("3")
        await settle(pilot)
        await pilot.press("c")
        dialog = await previewed(pilot)
        dialog.query_one("#make-token_budget").value = "1"
        dialog.query_one("#make-remote", Tick).toggle()
        dialog.query_one("#make-in_place", Tick).toggle()
        await told(pilot, dialog, "problems with this budget")
        await told(pilot, dialog, "the task file itself is changed")
        assert dialog.request is not None and dialog.request.token_budget == 1
        await pilot.press("ctrl+g")
        await settle(pilot)
        found = json.loads((tasks / "tasks.json").read_text())
        assert [one["id"] for one in found] == [f"board-{number}" for number in range(5)]
        assert all("command" not in json.dumps(one["mcp_config"]) for one in found)
        assert (tasks / "tasks.parquet").exists()


async def test_v5_tasks_are_carried_over(open_app: Any, project: Path, settle: Any) -> None:
    old = [
        {"id": f"old-{n}", "env": {"name": "browser"}, "scenario": "checkout", "args": {"n": n}}
        for n in range(2)
    ]
    (project / "tasks.json").write_text(json.dumps([*old, {"id": "broken"}]))
    async with open_app(project, size=(120, 40)) as (app, pilot):
        await pilot.press("3")
        await settle(pilot)
        assert app.screen.why_not("dataset.convert") == "no task can be used"
        await pilot.press("6")
        await until(pilot, lambda: app.screen.is_modal)
        await pilot.press("enter")
        await settle(pilot)
        assert "Wrote tasks-v6.json: 2 of 3 tasks; 1 left out" in app.screen.message
        made = json.loads((project / "tasks-v6.json").read_text())
        assert [one["args"] for one in made] == [{"n": 0}, {"n": 1}]
