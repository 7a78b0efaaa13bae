"""`hudtui runs export`: a trained model out of a run, and the command that serves it."""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hudtui.cli import console
from hudtui.cli.command import top
from hudtui.cli.options import Json, Yes
from hudtui.cli.person import Terminal


@top.command("export")
@console.run_async()
async def export(
    run: Annotated[
        str | None,
        typer.Argument(
            help="A run: its id, its name, or the beginning of an id; by default the newest."
        ),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option("--step", min=1, help="Step of a checkpoint; by default the final model."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="adapter, or merged (in the environment of the training, or of rehearsals here).",
        ),
    ] = "adapter",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="New folder; exports/<run> by default.")
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--from", help="Folder of a run that lies elsewhere on this machine."),
    ] = None,
    push_to: Annotated[
        str | None,
        typer.Option("--push", metavar="ORG/NAME", help="Push it to the Hub as a private model."),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="With --push: as a public model.")
    ] = False,
    script: Annotated[
        bool, typer.Option("--script", help="Print the run's plan as a shell script instead.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Copy the model that a run has trained into a folder, and show how vLLM serves it.

    The command that it shows serves the copy in vLLM. A push is asked about first.
    """
    if form not in ("adapter", "merged"):
        raise typer.BadParameter("adapter or merged", param_hint="--format")
    if script:
        from hudtui.cli import runlog

        store, _ = runlog.open_store()
        runlog.print_script(await store.run(lambda: store.record(store.find(run))))
        return
    from hudtui.core.flows.export import Exported, ExportRequest, export_model
    from hudtui.core.project import open_project

    request = ExportRequest(run, folder, step, form == "merged", output, push_to, public)
    made: Exported | None = None
    steps: Any = export_model(open_project(), request, Terminal(yes=yes))
    async with contextlib.aclosing(steps):
        async for told in steps:
            if isinstance(told, Exported):
                made = told
            else:
                console.say(told.message)
    if made is None:
        raise typer.Abort
    if as_json:
        console.out_json(
            {
                "folder": str(made.folder),
                "step": made.model.step,
                "kind": made.form,
                "base": made.model.base,
                "serve": list(made.serve),
                "pushed": made.address,
            }
        )
        return
    console.out(str(made.folder))
    if made.address:
        console.say(f"pushed: {made.address}")
    console.say(f"serve it: {shlex.join(made.serve)}" if made.serve else made.model.why_not_served)
