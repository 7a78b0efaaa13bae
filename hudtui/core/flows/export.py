"""Export the model that a run has trained.

Copy it, or merge it with its base, and push the copy to the Hub.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hudtui.core import trust
from hudtui.core.errors import HudtuiError, InputError
from hudtui.core.events import Notice, Progress
from hudtui.core.flows.person import Person
from hudtui.core.paths import app_paths
from hudtui.core.project import Project
from hudtui.core.text import clean

if TYPE_CHECKING:
    from hudtui.core.training.export import TrainedModel


@dataclass(frozen=True)
class ExportRequest:
    """Which model to export, in which form, and where to."""

    run: str | None = None
    """Id of the run, its name, or the beginning of its id; None for the newest."""
    folder: Path | None = None
    """Folder of a run outside the project, instead of `run`."""
    step: int | None = None
    """Step of a checkpoint; None for the end of the training."""
    merged: bool = False
    """Merge the adapter with its base, in the environment that the run was trained in."""
    out: Path | None = None
    """Folder to make; None for one in `exports/`, named after the run."""
    push_to: str | None = None
    """`ORG/NAME` of the model on the Hub; None to keep the copy on this machine."""
    public: bool = False
    """Anyone may read a model that is new on the Hub."""


@dataclass(frozen=True)
class Exported:
    """A model that was exported."""

    folder: Path
    model: TrainedModel
    form: str
    """`adapter` or `merged`, as `hudtui runs export --format` takes it."""
    serve: tuple[str, ...]
    """The command that serves the copy; empty if there is none: `model.why_not_served`."""
    address: str | None = None
    """The model's address on the Hub, if it was pushed."""


async def export_model(
    project: Project, request: ExportRequest, person: Person
) -> AsyncIterator[Progress | Notice | Exported]:
    """Export a model. The person is asked before a push, and before anything is copied for it.

    Yields:
        A `Progress` for each step that takes time, then one `Exported`. If the push fails, a
        `Notice` that names the command to push the copy later. Nothing when the person declines.

    Raises:
        InputError: The run has no such model on this machine, the folder exists already, or the
            model's name is not valid.
        Untrusted: The user has not agreed to run the Python of the run's training environment, or
            to the token in `.env`.
        HudtuiError: The model cannot be merged, or the Hub refuses it. The copy stays where it is
            in the second case.
    """
    from hudtui.core.tasks.hub import use_hub_of
    from hudtui.core.training.export import copy_model, find_trained_model, merge_command, push

    if request.push_to is not None and request.push_to.count("/") != 1:
        raise InputError(f"{request.push_to!r} is not a name for a model", fix="Name it ORG/NAME.")
    token = None
    if request.push_to is not None:
        settings = await asyncio.to_thread(project.settings)
        token = settings.use("HF_TOKEN")
        use_hub_of(settings)
    place, name = await asyncio.to_thread(_run_folder, project, request)
    model = await asyncio.to_thread(find_trained_model, place, request.step)
    label = name if model.step is None else f"{name}-step{model.step}"
    out = request.out or Path("exports") / (f"{label}-merged" if request.merged else label)
    target = project.folder.absolute() / out
    if request.push_to is not None and not await _agrees_to_push(request, person):
        return
    if request.merged:
        command = merge_command(_training_python(project, place), place.absolute(), model, target)
        yield Progress(
            "merge",
            f"merging the adapter with {model.base}"
            if model.base
            else "merging the adapter with its base",
        )
        await _merge(command)
        model = replace(model, kind="weights")
    else:
        await asyncio.to_thread(copy_model, model, target)
    form = "merged" if request.merged else "adapter"
    exported = Exported(target, model, form, model.serve_command(target, label))
    if request.push_to is not None:
        yield Progress("push", f"sending {target} to {request.push_to}")
        try:
            address = await asyncio.to_thread(
                push, target, request.push_to, token=token, public=request.public
            )
        except HudtuiError:
            later = shlex.join(("hf", "upload", request.push_to, str(target)))
            yield Notice("info", f"the copy stays here; to send it later: {later}")
            raise
        exported = replace(exported, address=address)
    yield exported


async def _agrees_to_push(request: ExportRequest, person: Person) -> bool:
    from hudtui.core.tasks.hub import endpoint

    seen = (
        "! PUBLIC: everyone can read a model that is new there"
        if request.public
        else "private: only you and your organisation see a model that is new there"
    )
    return await person.confirm(
        f"Push the model to {request.push_to}?",
        (f"to {endpoint()}/{request.push_to}", seen),
        yes="Push",
        danger=request.public,
    )


def _run_folder(project: Project, request: ExportRequest) -> tuple[Path, str]:
    """Return the run's folder on this machine, and the name of what is exported from it."""
    from hudtui.core.runs.results import results_folder

    if request.folder is not None:
        folder = project.folder / request.folder
        return folder, folder.absolute().name
    store = project.runs
    record = store.own_record(store.find(request.run))
    place = results_folder(record, store)
    if not (place / "out").is_dir():
        raise InputError(
            f"the files of run {record.id} are not on this machine",
            fix=f"Fetch them first: hudtui runs pull {record.id}; or name their folder: --from.",
        )
    return place, record.id


def _training_python(project: Project, place: Path) -> str:
    """Return the Python of an environment that can merge.

    That of the training, else that of rehearsals on this machine.
    """
    from hudtui.core.training.engines import PYTHON_VARIABLE
    from hudtui.core.training.setup import environment_folder

    file = place.absolute() / "plan.json"
    try:
        plan = json.loads(file.read_text())
        python = next(stage["argv"][0] for stage in plan["stages"] if stage["name"] == "train")
    except (OSError, ValueError, KeyError, IndexError, TypeError, StopIteration):
        python = ""
    if not isinstance(python, str) or not Path(python).is_absolute() or not Path(python).exists():
        made = Path(environment_folder(str(app_paths().data / "environments"))) / "bin" / "python"
        python = os.environ.get(PYTHON_VARIABLE) or (str(made) if made.exists() else "")
        if python:
            return python  # the user's own, whatever the folder says
        raise InputError(
            "merging needs the environment that the run was trained in, or that of rehearsals; "
            "neither is on this machine",
            fix=(
                "hudtui rl --rehearse makes the second. Or export the adapter; vLLM serves it "
                "beside its base model."
            ),
        )
    trust.require(
        project.folder, [trust.power("command", f"{python} -m hudtui.trainers.merge", file, python)]
    )
    return python


async def _merge(command: tuple[str, ...]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise HudtuiError(
            "the adapter could not be merged",
            why=clean(output.decode(errors="replace"))[-1500:].strip(),
        )
