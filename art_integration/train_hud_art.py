"""`python -m art_integration.train_hud_art`.

Another name of `hudtui art train`; and the same as a function.
"""

from __future__ import annotations

import sys
from pathlib import Path


async def train_hud_with_art(
    environment: str = "2048",
    base_model: str | None = None,
    model_name: str | None = None,
    project_name: str | None = None,
    num_training_scenarios: int | None = None,
    num_val_scenarios: int | None = None,
    groups_per_step: int | None = None,
    rollouts_per_group: int | None = None,
    num_epochs: int | None = None,
    learning_rate: float | None = None,
    max_turns: int | None = None,
    config_path: str | None = None,
    output_dir: str | None = None,
    use_ruler: bool | str = False,
    reward: str | None = None,
    steps: int | None = None,
    provider: str | None = None,
    gpus: str | None = None,
    host: str | None = None,
    rehearse: bool = False,
    yes: bool = False,
) -> None:
    """Train a model, as `hudtui art train` does.

    Check, show the plan, ask, rent, train, fetch the results.
    None leaves a setting to the file, and then to what is built in.

    Args:
        environment: 2048, browser, gmail, or an environment of the file.
        base_model: An id on the Hub, a folder, or small, medium or large.
        model_name: Name of the trained model; made from environment and model by default.
        project_name: Project in ART's records.
        num_training_scenarios: Tasks to train on.
        num_val_scenarios: Tasks to evaluate on.
        groups_per_step: Tasks of a step.
        rollouts_per_group: Episodes of a task that are compared.
        num_epochs: Times that each task is trained on.
        learning_rate: By the size of the model when None.
        max_turns: Answers of the model in an episode; the environment's when None.
        config_path: File with environments and settings (YAML).
        output_dir: Folder for the results.
        use_ruler: Judge the episodes of a task against one another; a text names the judge.
        reward: Code that replaces the environment's reward: `FILE.py:NAME` or
            `package.module:NAME`.
        steps: Most training steps.
        provider: Provider to rent from; `local` for this machine.
        gpus: GPUs to rent, such as 1xH100.
        host: A machine of your own.
        rehearse: Train nothing: play, judge and record on this computer.
        yes: Start without a question, also where it costs money.

    Raises:
        HudtuiError: Something is missing or invalid, arguments exclude each other, there is no
            terminal to ask in and `yes` is False, or the run did not start.
        SystemExit: The run did not finish, or its user did not agree to it.
    """
    import typer

    from hudtui.cli import console
    from hudtui.cli.art import train_art
    from hudtui.cli.person import NoTerminal
    from hudtui.cli.rl_run import How, checked
    from hudtui.core.errors import InputError
    from hudtui.core.runs.art_request import JUDGE, ArtRequest

    request = ArtRequest(
        environment=environment,
        model=base_model,
        model_name=model_name,
        project=project_name,
        scenarios=num_training_scenarios,
        val_scenarios=num_val_scenarios,
        groups_per_step=groups_per_step,
        num_generations=rollouts_per_group,
        epochs=num_epochs,
        learning_rate=learning_rate,
        max_turns=max_turns,
        art_config=None if config_path is None else Path(config_path),
        output_dir=None if output_dir is None else Path(output_dir),
        ruler=use_ruler if isinstance(use_ruler, str) else JUDGE if use_ruler else None,
        reward=reward,
        steps=steps,
        provider=provider,
        gpus=gpus,
        host=host,
        rehearse=rehearse,
    )
    try:  # options that exclude each other are refused, too
        await train_art(checked(request, None), How(yes=yes), as_json=False)
    except typer.Exit as error:
        if error.exit_code:
            raise SystemExit(error.exit_code) from None
    except NoTerminal:
        fix = "Pass yes=True to agree in advance."
        raise InputError(
            "this is not a terminal, so hudtui cannot ask whether to start", fix=fix
        ) from None
    except typer.BadParameter as error:
        place = "" if error.param_hint is None else f"{error.param_hint}: "
        raise InputError(f"{place}{error.message}") from None
    except typer.Abort:
        console.say("Nothing was started.")
        raise SystemExit(console.FOUND) from None


def main() -> None:
    """Run the command line."""
    from hudtui.cli import main as hudtui

    sys.argv[:] = ["hudtui", "art", "train", *sys.argv[1:]]
    hudtui("hudtui")


if __name__ == "__main__":
    main()
