"""`hudtui rehearse`: an older spelling of `hudtui rl --rehearse`."""

from __future__ import annotations

from dataclasses import replace

from hudtui.cli import console
from hudtui.cli.command import top
from hudtui.cli.options import DryRunInWords, Json, NoTmux, StartWithoutAsking, TrainerSettings, takes_request
from hudtui.cli.rl_run import GOES_ON, How, carry_out, checked
from hudtui.core.runs.request import RunRequest


@top.command("rehearse")
@takes_request("tasks", "config", "model", "training", "steps", steps=3)
@console.run_async(when_ended=GOES_ON)
async def rehearse(
    request: RunRequest,
    settings: TrainerSettings = None,
    yes: StartWithoutAsking = False,
    dry_run: DryRunInWords = False,
    no_tmux: NoTmux = False,
    as_json: Json = False,
) -> None:
    """Rehearse a training: the same plan with a tiny model, a few steps, on this machine's CPU. As `hudtui rl --rehearse`.

    Errors in tasks, configuration, environment or rewards show here, before a GPU is paid for. The model knows nothing and is
    not worth keeping; --model takes a small real one instead. Exit code 1 if the run did not finish.
    """
    how = How(yes, False, dry_run, False, not no_tmux, as_json, brief=True)
    request = replace(request, rehearse=True, rehearse_model=request.model, model=None)
    await carry_out(checked(request, settings), how)
