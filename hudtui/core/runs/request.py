"""A run as its user asks for it. Commands and the screen Launch take their options, help, bounds and defaults from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudtui.core.knobs import knob
from hudtui.core.training.options import JobOptions

if TYPE_CHECKING:
    from hudtui.core.compute.values import Offer

AS_IS, REMOTE = "as-is", "remote"
"""Where the environments of the tasks run: where the tasks say, or on the platform."""


@dataclass(frozen=True, kw_only=True)
class RunRequest(JobOptions):
    """What to run, and where. None or an empty value leaves the choice to the workspace, the engine or the settings."""

    engine: str = knob(
        "trl",
        "trl trains; rollouts plays with --policy; or another one.",
        "--engine",
        "-e",
        hint="rollouts plays the tasks, trl trains a model",
    )
    tasks: str | None = knob(
        None, "A task file or folder, or a dataset on the Hub (org/name).", hint="task file, or a dataset on the Hub"
    )
    config: Path | None = knob(
        None,
        "Gym configuration; by default the only one here.",
        "--config",
        "-c",
        hint="gym configuration, e.g. configs/2048.yaml",
    )
    training: Path | None = knob(
        None,
        "The trainer's settings (YAML or JSON).",
        label="settings",
        hint="a file (YAML or JSON) with these and all other settings of the trainer",
    )
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Single settings of the trainer, by the names of `Recipe`. They take precedence over the file."""
    name: str | None = knob(None, "What to call the run.", hint="what to call it; made from config and policy when empty")
    host: str | None = knob(None, "A machine of yours: user@host, a name of ~/.ssh/config, local.")
    provider: str | None = knob(None, "Who to rent from: prime; local for this machine.")
    gpus: str | None = knob(
        None,
        "Such as 4xH100; a training gets 2xA100 otherwise.",
        "--gpus",
        "-g",
        label="GPUs",
        hint="to rent, such as 4xH100; 2xA100 for a training when empty",
    )
    offer: Offer | None = None
    """The offer to rent."""
    offer_name: str | None = knob(None, "This very offer: its six characters in hudtui gpus.", "--offer")
    clouds: tuple[str, ...] = knob((), "Whose machines: datacrunch, hyperstack, ... May be repeated.", "--cloud")
    regions: tuple[str, ...] = knob((), "Region (eu, eu_north), country (FI) or data centre. May be repeated.", "--region")
    budget: str | None = knob(
        None, "What the machine may cost in all, or none.", hint="what the machine may cost; the settings' when empty"
    )
    max_hours: str | None = knob(
        None,
        "Hours it may take in all, or none.",
        label="max hours",
        hint="the run is stopped after this time; no limit, or the settings', when empty",
    )
    idle_minutes: str | None = knob(None, "Minutes it may do nothing, or none.")
    keep_on_failure: bool = knob(False, "Leave the machine of a failed run to me; I pay for it.")
    environments: str = knob(
        AS_IS,
        "as-is; or remote: those of this computer run on the platform, from the lock's image.",
        label="envs",
        hint="as-is; or remote: those of this computer run on the platform, from the lock's image",
    )
    python: str | None = knob(
        None,
        "Python on the machine with all that is needed; else it is installed there.",
        hint="on the machine, with all that is needed; an environment is made there when empty",
    )
    output_dir: Path | None = knob(None, "Folder that the results come to.", "--output-dir", "-o")

    @property
    def trains(self) -> bool:
        """Whether the engine trains a model on GPUs."""
        return self.engine != "rollouts" and not self.rehearse

    @property
    def limits(self) -> dict[str, str]:
        """The limits that the user has set, as typed, by the names of `compute.limits.Limits`."""
        typed = {"run_budget": self.budget, "max_hours": self.max_hours, "idle_minutes": self.idle_minutes}
        return {name: text for name, text in typed.items() if text is not None}
