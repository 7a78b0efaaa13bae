"""`hudtui rehearse`: a free training run on this machine's CPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hudtui.cli import console


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rehearse")(rehearse)


def rehearse(
    tasks: Annotated[
        Path | None,
        typer.Option("--tasks", "-t", help="Task file; by default the only one in the workspace.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Gym configuration; by default the only one in the workspace.", show_default=False),
    ] = None,
    training: Annotated[
        Path | None, typer.Option("--training", help="Training settings (YAML or JSON).", show_default=False)
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, max=1000, help="Training steps.")] = 3,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the environment for it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and start nothing.")] = False,
    no_tmux: Annotated[bool, typer.Option("--no-tmux", help="Detached processes, also where there is tmux.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Rehearse a training: the same plan with a tiny model, a few steps, on this machine's CPU.

    What can be wrong with tasks, configuration, environment or rewards shows here, before a GPU is paid for. The model knows
    nothing and is not worth keeping.
    """
    console.run(carry_out(tasks, config, training, steps, yes, dry_run, no_tmux, as_json), as_json=as_json)


async def carry_out(
    tasks: Path | None,
    config: Path | None,
    training: Path | None,
    steps: int,
    yes: bool,
    dry_run: bool,
    no_tmux: bool,
    as_json: bool,
    *,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Carry a rehearsal out, to the end; see `rehearse`."""
    from dataclasses import replace

    from hudtui.cli import runlog
    from hudtui.core.files import read_text
    from hudtui.core.remote.local import LocalHost
    from hudtui.core.runs.launch import draft_run, make_spec
    from hudtui.core.training.engine import SIZE, as_rehearsal, trainer_environment
    from hudtui.core.training.recipe import read_settings

    workspace = runlog.workspace()
    spec = make_spec(workspace, engine="trl", tasks=tasks, config=config, name="rehearsal")
    if training is not None:
        spec = replace(spec, training=read_settings(read_text(training), name=str(training)))
    spec = replace(spec, training={**spec.training, **(settings or {})})
    store, monitor = runlog.open_store()
    record = draft_run(as_rehearsal(spec, steps=steps), LocalHost(), store)
    if dry_run:
        if as_json:
            console.out_json({"id": record.id, "folder": record.folder, "plan": record.plan.to_json()})
        else:
            runlog.print_plan(record.plan.to_json(), record.folder)
        return
    trainer = trainer_environment(record.plan)
    if not trainer.ready and not yes:
        console.say(f"An environment for training is made once, in {trainer.python.parent.parent}: {SIZE}.")
        await console.confirm("Make it?")
    await runlog.launch(record, LocalHost(), store, tmux=not no_tmux)
    await runlog.follow_run(monitor, record, to_stderr=as_json)
    view = await monitor.view(record.id)
    if as_json:
        console.out_json(view.to_json())
    else:
        runlog.print_view(view)
    if view.summary.state != "finished":
        raise typer.Exit(1)
