"""`hudtui art`.

Training with OpenPipe's ART on an environment, with the options of HUD's own integration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import typer

from hudtui.cli import console, runlog
from hudtui.cli.command import HelpCommand
from hudtui.cli.options import Json, TrainerSettings, takes_request
from hudtui.cli.person import Terminal
from hudtui.cli.rl_run import How, carry_out, checked
from hudtui.core.runs.art_request import JUDGE, ArtRequest

app = typer.Typer(
    help="Train with OpenPipe's ART: models that call the environment's tools themselves.",
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Training with ART."""


class _JudgeMayBeLeftOut(HelpCommand):
    """A command whose `--ruler` may have no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Add the default judge to a `--ruler` without a value."""
        full: list[str] = []
        for index, word in enumerate(args):
            full.append(word)
            if word == "--ruler" and (index + 1 == len(args) or args[index + 1].startswith("-")):
                full.append(JUDGE)
        rest: list[str] = super().parse_args(ctx, full)
        return rest


@app.command("train", cls=_JudgeMayBeLeftOut)
@takes_request(kind=ArtRequest)
@takes_request("yes", "detach", "dry_run", "emit_script", "no_tmux", kind=How, to="how")
@console.run_async(when_ended=runlog.GOES_ON)
async def train(
    request: ArtRequest, settings: TrainerSettings = None, *, how: How, as_json: Json = False
) -> None:
    """Train a model on an environment with ART.

    It checks everything, shows the plan, rents a machine, trains, and fetches the model.

    --rehearse does the same on this computer without a model: random calls, or those of --base-url,
    are played, judged and recorded. Exit code 1 if the run did not finish, 2 if something is
    missing.
    """
    await train_art(checked(request, settings), how, as_json=as_json)


async def train_art(request: ArtRequest, how: How, *, as_json: bool) -> None:
    """Plan the training, start it if the user agrees, and follow it to its end.

    Raises:
        HudtuiError: See `plan_art`, and `rl_run.carry_out`.
    """
    from hudtui.core.flows.art import NoTasks, plan_art
    from hudtui.core.project import open_project

    project = open_project()
    try:
        planned = await plan_art(request, project)
    except NoTasks as error:
        if not console.interactive() or how.yes or how.only_looks:
            raise
        console.say(f"✗ {error.what}")
        dataset = await Terminal().ask(
            "Which tasks?", placeholder="a file, a folder, or a dataset on the Hub"
        )
        if dataset is None or not dataset.strip():
            raise
        planned = await plan_art(replace(request, dataset=dataset.strip()), project)
    await carry_out(planned, how, as_json=as_json)
