"""Names of datasets: what the Hub takes, and what is suggested."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub.utils import validate_repo_id

from hudtui.core.errors import InputError
from hudtui.core.tasks.task import check_name, file_name, name_from_file, suggest_names


@pytest.mark.parametrize(
    "name", ["my-org/my-tasks", "tasks", "a/b", "Org_1/x.y-z_2", "a" * 40 + "/" + "b" * 40]
)
def test_names_that_the_hub_takes(name: str) -> None:
    validate_repo_id(name)
    assert check_name(f" {name} ") == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a/b/c",
        "-a/b",
        "a/b-",
        "a/b.",
        "a/b--c",
        "a/b..c",
        "a/b c",
        "a/ü",
        "a/b.git",
        "a" * 97,
        "/b",
        "a/",
        "a/b\n/c",
    ],
)
def test_names_that_the_hub_refuses(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name"):
        check_name(name)


def test_suggestions() -> None:
    found = suggest_names(
        image="docker.io/hud/hud-text-2048:1.0@sha256:ab", folder=Path("/x/My Project")
    )
    assert found == ("hud-text-2048-tasks", "my-project-tasks", "tasks")
    assert suggest_names(image="localhost:5000/env", folder=Path("/x/tasks"))[:2] == (
        "env-tasks",
        "tasks",
    )
    # Who the user of this machine is says nothing of who they are on the Hub.
    assert suggest_names(folder=Path("/x/boards")) == ("boards-tasks", "tasks")
    for name in (*found, *suggest_names(folder=Path("/"))):
        validate_repo_id(check_name(name))


def test_file_names() -> None:
    assert file_name("my-org/my-tasks") == "my-tasks"
    assert name_from_file("data/my tasks.jsonl.gz") == "my-tasks"
