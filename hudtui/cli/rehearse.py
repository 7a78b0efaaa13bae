"""`hudtui rl --rehearse`: a free training run on this machine's CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from hudtui.cli import console
from hudtui.cli.options import takes_request
from hudtui.cli.person import Terminal
from hudtui.core.runs.request import RunRequest

_MOST_STEPS = 1000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rehearse")(rehearse)


@takes_request("tasks", "config", "training", "steps", steps=3)
def rehearse(
    request: RunRequest,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Make the environment for it without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan, and start nothing.")] = False,
    no_tmux: Annotated[bool, typer.Option("--no-tmux", help="Run as detached processes, even if there is tmux.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Rehearse a training: the same plan with a tiny model, a few steps, on this machine's CPU.

    Errors in tasks, configuration, environment or rewards show here, before a GPU is paid for. The model knows nothing and is
    not worth keeping. Exit code 1 if the run did not finish.
    """
    if request.steps and request.steps > _MOST_STEPS:
        raise typer.BadParameter(f"at most {_MOST_STEPS}", param_hint="--steps")
    console.run(carry_out(request, yes, dry_run, no_tmux, as_json), as_json=as_json)


async def carry_out(request: RunRequest, yes: bool, dry_run: bool, no_tmux: bool, as_json: bool) -> None:
    """Run a rehearsal to its end; see `rehearse`."""
    from hudtui.cli import runlog
    from hudtui.core.flows.start import plan_rehearsal
    from hudtui.core.project import open_project
    from hudtui.core.runs.prepare import REHEARSAL_STEPS, draft_rehearsal

    store, monitor = runlog.open_store()
    project = open_project()
    if dry_run:
        steps = request.steps or REHEARSAL_STEPS
        record = draft_rehearsal(replace(request, steps=steps), project.workspace(), store)
        if as_json:
            console.out_json({"id": record.id, "folder": record.folder, "plan": record.plan.to_json()})
        else:
            runlog.print_plan(record.plan.to_json(), record.folder)
        return
    planned = await plan_rehearsal(request, project, Terminal(yes=yes))
    if planned is None:
        raise typer.Abort
    record = planned
    await runlog.launch(record, tmux=not no_tmux)
    await runlog.follow_run(monitor, record, to_stderr=as_json)
    view = await monitor.view(record.id)
    if as_json:
        console.out_json(view.to_json())
    else:
        runlog.print_view(view)
    if view.summary.state != "finished":
        raise typer.Exit(console.FOUND)
