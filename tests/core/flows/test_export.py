"""Exporting a trained model, without a face."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.person import ScriptedPerson

from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.events import Notice, Progress
from hudtui.core.flows.export import Exported, ExportRequest, export_model
from hudtui.core.paths import app_paths
from hudtui.core.platform import HUD
from hudtui.core.project import Project
from hudtui.core.training.setup import environment_folder
from hudtui.core.trust import VARIABLE, Untrusted


@pytest.fixture
def project(own_world: Path) -> Project:
    """A project beside the folder `mine` of a finished training."""
    model = own_world / "mine" / "out" / "model"
    model.mkdir(parents=True)
    (model / "adapter_model.safetensors").write_bytes(b"weights")
    (model / "adapter_config.json").write_text('{"r": 8}')
    (own_world / "mine" / "files").mkdir()
    (own_world / "mine" / "files" / "recipe.json").write_text(
        '{"model": "Qwen/Qwen2.5-3B-Instruct"}'
    )
    return Project(own_world, HUD)


def trained_with(project: Project, python: object) -> None:
    plan = {"stages": [{"name": "train", "argv": [python, "-m", "hudtui.trainers.grpo"]}]}
    (project.folder / "mine" / "plan.json").write_text(json.dumps(plan))


async def export(
    project: Project, person: ScriptedPerson | None = None, **request: object
) -> list[Progress | Notice | Exported]:
    wanted = ExportRequest(folder=Path("mine"), **request)  # type: ignore[arg-type]
    return [step async for step in export_model(project, wanted, person or ScriptedPerson())]


async def test_the_copy_lies_in_the_project_whatever_the_current_folder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (made,) = await export(project)
    assert isinstance(made, Exported) and (made.form, made.address, made.model.step) == (
        "adapter",
        None,
        None,
    )
    assert (
        made.folder == project.folder / "exports" / "mine"
        and (made.folder / "adapter_model.safetensors").is_file()
    )
    assert (
        made.serve[:3] == ("vllm", "serve", "Qwen/Qwen2.5-3B-Instruct")
        and f"mine={made.folder}" in made.serve
    )
    with pytest.raises(InputError, match="something of this name"):
        await export(project)
    (elsewhere,) = await export(project, out=tmp_path / "copy")
    assert isinstance(elsewhere, Exported) and elsewhere.folder == tmp_path / "copy"


@pytest.mark.parametrize("python", ["python3", "/no/such/python", 7, None])
async def test_merging_needs_the_training_environment(
    project: Project, python: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    if python is not None:
        trained_with(project, python)
    with pytest.raises(InputError, match="neither is on this machine"):
        await export(project, merged=True)


@pytest.mark.parametrize("named", [True, False])
async def test_what_was_trained_elsewhere_is_merged_in_the_environment_of_rehearsals(
    project: Project, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    monkeypatch.delenv(VARIABLE)
    python = Path(environment_folder(str(app_paths().data / "environments"))) / "bin" / "python"
    if named:
        python = project.folder.parent / "python"
        monkeypatch.setenv("HUDTUI_TRAINER_PYTHON", str(python))
    python.parent.mkdir(parents=True, exist_ok=True)
    python.write_text(f'#!/bin/sh\necho "$@" > {project.folder}/merged\n')
    python.chmod(0o755)
    trained_with(project, "/on/the/pod/python")
    await export(project, merged=True)
    assert "hudtui.trainers.merge" in (project.folder / "merged").read_text()


async def test_merging_runs_no_python_that_the_user_has_not_agreed_to(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    trained_with(project, sys.executable)
    with pytest.raises(Untrusted) as refused:
        await export(project, merged=True)
    assert [power.text for power in refused.value.powers] == [
        f"{sys.executable} -m hudtui.trainers.merge"
    ]


async def test_a_merge_that_fails_says_why(project: Project) -> None:
    script = project.folder / "python"
    script.write_text("#!/bin/sh\necho no room left >&2\nexit 3\n")
    script.chmod(0o755)
    trained_with(project, str(script))
    with pytest.raises(HudtuiError) as failed:
        await export(project, merged=True)
    assert failed.value.why == "no room left"


async def test_a_merge_reports_its_beginning(project: Project) -> None:
    script = project.folder / "python"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    trained_with(project, str(script))
    began, made = await export(project, merged=True)
    assert began == Progress("merge", "merging the adapter with Qwen/Qwen2.5-3B-Instruct")
    assert isinstance(made, Exported) and (made.form, made.model.kind) == ("merged", "weights")
    assert made.folder.name == "mine-merged" and made.serve[2] == str(made.folder)


async def test_a_name_that_the_hub_does_not_take_is_refused_before_anything_is_copied(
    project: Project,
) -> None:
    with pytest.raises(InputError, match="is not a name for a model"):
        await export(project, push_to="mine")
    assert not (project.folder / "exports").exists()


async def test_a_push_that_is_declined_copies_nothing(project: Project) -> None:
    person = ScriptedPerson(False)
    assert await export(project, person, push_to="me/mine", public=True) == []
    (question,) = person.questions
    assert question.title == "Push the model to me/mine?" and "PUBLIC" in str(question.lines)
    assert not (project.folder / "exports").exists()
