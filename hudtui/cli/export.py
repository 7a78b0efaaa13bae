"""`hudtui export`: a trained model out of a run, and the command that serves it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from hudtui.cli import console
from hudtui.core import trust


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("export")(export)


def export(
    run: Annotated[
        str | None, typer.Argument(help="A run: its id, its name, or the beginning of an id; by default the newest.")
    ] = None,
    step: Annotated[int | None, typer.Option("--step", min=1, help="Of a checkpoint; by default the end.")] = None,
    form: Annotated[str, typer.Option("--format", "-f", help="adapter, or merged (needs the training environment).")] = "adapter",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder to make; exports/<run> by default.", show_default=False)
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--from", help="Folder of a run that lies elsewhere on this machine.", show_default=False)
    ] = None,
    push_to: Annotated[
        str | None, typer.Option("--push", metavar="ORG/NAME", help="Send it to the Hub, as a private model.")
    ] = None,
    public: Annotated[bool, typer.Option("--public", help="With --push: for everybody to see.")] = False,
    script: Annotated[bool, typer.Option("--script", help="Print the run's plan as a shell script instead.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Copy the model that a run has trained into a folder, and show the command that serves it in vLLM."""
    if form not in ("adapter", "merged"):
        raise typer.BadParameter("adapter or merged", param_hint="--format")
    if script:
        console.run(_script(run), as_json=as_json)
        return
    console.run(_export(run, step, form, out, folder, push_to, public, as_json), as_json=as_json)


async def _script(run: str | None) -> None:
    from hudtui.cli import runlog

    store, _ = runlog.open_store()
    runlog.print_script(store.record(store.find(run)))


async def _export(
    run: str | None,
    step: int | None,
    form: str,
    out: Path | None,
    folder: Path | None,
    push_to: str | None,
    public: bool,
    as_json: bool,
) -> None:
    import asyncio
    from dataclasses import replace

    from hudtui.cli import runlog
    from hudtui.core.errors import HudtuiError, InputError
    from hudtui.core.training.export import copy_model, find_trained_model, merge_command, push

    if push_to is not None and push_to.count("/") != 1:
        raise InputError(f"{push_to!r} is no name for a model", fix="Name it ORG/NAME.")
    place, name = _place(run, folder)
    trained = find_trained_model(place, step)
    label = name if trained.step is None else f"{name}-step{trained.step}"
    target = (out or Path("exports") / (f"{label}-merged" if form == "merged" else label)).absolute()
    if form == "merged":
        await _merge(merge_command(_python(place), place.absolute(), trained, target))
        trained = replace(trained, kind="weights")
    else:
        copy_model(trained, target)
    served = trained.serve_command(target, label)
    address = None
    if push_to is not None:
        token = runlog.settings().lookup("HF_TOKEN")
        console.say(f"sending {target} to {push_to}")
        try:
            address = await asyncio.to_thread(push, target, push_to, token=token, public=public)
        except HudtuiError:
            console.say(f"the copy stays here; to send it later: {shlex.join(('hf', 'upload', push_to, str(target)))}")
            raise
    if as_json:
        console.out_json(
            {
                "folder": str(target),
                "step": trained.step,
                "kind": form,
                "base": trained.base,
                "serve": list(served),
                "pushed": address,
            }
        )
        return
    console.out(str(target))
    if address:
        console.say(f"pushed: {address}")
    console.say(f"serve it: {shlex.join(served)}" if served else trained.why_not_served)


def _place(run: str | None, folder: Path | None) -> tuple[Path, str]:
    """The run's folder on this machine, and what to call what comes out of it."""
    from hudtui.cli import runlog
    from hudtui.core.errors import InputError
    from hudtui.core.runs.results import results_folder

    if folder is not None:
        return folder, folder.absolute().name
    store, _ = runlog.open_store()
    record = store.record(store.find(run))
    store.require_own(record.id)
    place = results_folder(record, store)
    if not (place / "out").is_dir():
        raise InputError(
            f"the files of run {record.id} are not on this machine",
            fix=f"Fetch them first: hudtui runs pull {record.id}; or name their folder: --from.",
        )
    return place, record.id


def _python(place: Path) -> str:
    """Python of the environment that the run was trained in."""
    import json

    from hudtui.core.errors import InputError

    try:
        plan = json.loads((place / "plan.json").read_text())
        python = next(stage["argv"][0] for stage in plan["stages"] if stage["name"] == "train")
    except (OSError, ValueError, KeyError, StopIteration):
        python = ""
    trust.require(
        Path.cwd(), [trust.power("command", f"{python} -m hudtui.trainers.merge", place.absolute() / "plan.json", python)]
    )
    if not python or not Path(python).is_absolute() or not Path(python).exists():
        raise InputError(
            "merging needs the environment that the run was trained in, and that is not on this machine",
            fix="Export the adapter; vLLM serves it beside its base model.",
        )
    return str(python)


async def _merge(command: tuple[str, ...]) -> None:
    import asyncio

    from hudtui.core.errors import HudtuiError
    from hudtui.core.text import clean

    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise HudtuiError("the adapter could not be merged", why=clean(said.decode(errors="replace"))[-1500:].strip())
