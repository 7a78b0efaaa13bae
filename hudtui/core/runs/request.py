"""The request for a run.

Commands and the screen Launch take their options, help, bounds and defaults from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hudtui.core.knobs import knob
from hudtui.core.training.options import (
    LIMITS,
    TRAINER,
    TRAINING,
    WHAT,
    WHERE,
    JobOptions,
    is_away,
    rents,
    searches,
    trains,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hudtui.core.compute.values import Offer
    from hudtui.core.training.features import Features
    from hudtui.core.training.plan import Continuation

AS_IS, REMOTE = "as-is", "remote"
"""Where the environments of the tasks run: where the tasks say, or on the platform."""


def _engines() -> Iterator[tuple[str, str]]:
    from hudtui.core.training.engines import engine_names  # not at the start of commands

    return ((name, name) for name in engine_names())


@dataclass(frozen=True, kw_only=True)
class RunRequest(JobOptions):
    """What to run, and where.

    For None or an empty value, the workspace, the engine or the settings decide.
    """

    names_machine: ClassVar[bool] = False
    """A file that the request names may choose the machine."""
    command: ClassVar[str] = "hudtui rl"
    """The command that takes such a request."""
    fixed: ClassVar[tuple[str, ...]] = ()
    """Options and settings that the user does not set."""
    tasks: str | None = knob(
        None,
        "A task file or folder, or a dataset on the Hub (org/name); by default the dataset in the "
        "lock file.",
        lists="tasks",
        required=True,
        place=-1,
        group=WHAT,
    )
    config: Path | None = knob(
        None,
        "Gym configuration; by default the only one here.",
        *("--config", "-c"),
        lists="configs",
        required=True,
        place=-1,
        group=WHAT,
    )
    select: str | None = knob(
        None,
        "Take only the tasks that match: metadata.kind:read, or difficulty:0.1-0.9 as measured by "
        "hudtui eval (0 always solved, 1 never).",
        *("--select",),
        metavar="FILTER",
        unset="all tasks",
        group=WHAT,
    )
    engine: str = knob(
        TRAINER,
        "Engine of the run: trl and art train, rollouts only plays the tasks.",
        *("--engine", "-e"),
        choices=_engines,
        place=-1,
        group=WHAT,
    )
    training: Path | None = knob(
        None,
        "File with settings of the trainer (YAML or JSON).",
        label="settings file",
        when=trains,
        place=1,
        group=TRAINING,
    )
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Single settings of the trainer, by the names of `Recipe`. They take precedence over the
    file."""
    name: str | None = knob(None, "Name of the run.", unset="made from the files", group=WHAT)
    host: str | None = knob(
        None,
        "Your own machine: user@host, a name in ~/.ssh/config, or local; again for each further "
        "node.",
        joined=",",
        in_form=False,
        group=WHERE,
    )
    provider: str | None = knob(
        None, "Provider to rent from: prime; or local for this machine.", in_form=False, group=WHERE
    )
    gpus: str | None = knob(
        None,
        "GPUs to rent, such as 4xH100, for each machine; by default those for a training that hold "
        "the model, the cheapest first.",
        *("--gpus", "-g"),
        label="GPUs",
        unset="by fit, then price",
        when=rents,
        group=WHERE,
    )
    nodes: int = knob(
        1,
        "Machines that train together; by default as many as --host names. Rented ones are one "
        "cluster. A rehearsal on this machine plays them all.",
        minimum=1,
        maximum=64,
        in_form=False,
        when=trains,
        group=WHERE,
    )
    offer: Offer | None = None
    """The offer to rent."""
    continues: Continuation | None = None
    """The earlier run that is continued."""
    offer_name: str | None = knob(
        None,
        "Rent this offer: its six characters in hudtui pods offers.",
        "--offer",
        in_form=False,
        group=WHERE,
    )
    clouds: tuple[str, ...] = knob(
        (),
        "Cloud to rent from, such as datacrunch; may be repeated.",
        "--cloud",
        in_form=False,
        group=WHERE,
    )
    regions: tuple[str, ...] = knob(
        (),
        "Region (eu, eu_north), country (FI) or data centre; may be repeated.",
        "--region",
        in_form=False,
        group=WHERE,
    )
    spot: bool | None = knob(
        None,
        "Only spot machines, which the provider may take back at any time, or only others; by "
        "default others for a training.",
        "--spot/--no-spot",
        choices=(("spot only", "true"), ("never spot", "false")),
        unset="usually on demand",
        when=searches,
        group=WHERE,
    )
    budget: str | None = knob(
        None, "The most that the machine may cost, or none for no limit.", when=rents, group=LIMITS
    )
    max_hours: str | None = knob(
        None, "Time limit in hours, or none for no limit.", label="max hours", group=LIMITS
    )
    idle_minutes: str | None = knob(
        None,
        "End the machine after this many idle minutes, or none for no limit.",
        when=rents,
        group=LIMITS,
    )
    stop_on: tuple[str, ...] = knob(
        (),
        "Stop the run at this trouble once it is certain: a signature, such as entropy-collapse, "
        "or critical for all that are; may be repeated.",
        "--stop-on",
        metavar="SIGNATURE",
        suggestions=("critical", "constant-reward", "entropy-collapse", "not-a-number"),
        unset="never",
        when=trains,
        group=LIMITS,
    )
    keep_on_failure: bool = knob(
        False,
        "Keep the machine of a failed run: you pay for it until you end it or its limits do.",
        when=rents,
        group=LIMITS,
    )
    environments: str = knob(
        AS_IS,
        "Where environments of this computer run: as-is (where the tasks say), or remote (on the "
        "platform, as the image).",
        choices=(("where the tasks say", AS_IS), ("on the platform", REMOTE)),
        when=is_away,
        group=WHERE,
    )
    python: str | None = knob(
        None,
        "Python on the machine with all requirements; by default an environment is made there.",
        unset="made there",
        when=is_away,
        group=WHERE,
    )
    remarks: tuple[str, ...] = ()
    """Remarks for the user about this request, one sentence each; shown among the checks."""
    output_dir: Path | None = knob(
        None,
        "Folder for the results.",
        "--output",
        "--output-dir",
        "-o",
        in_form=False,
        group=WHERE,
    )

    @property
    def trains(self) -> bool:
        """Whether a model is really trained.

        Raises:
            InputError: The engine does not exist.
        """
        return self.features.trains and not self.rehearse

    @property
    def features(self) -> Features:
        """Abilities of the engine.

        Raises:
            InputError: The engine does not exist.
        """
        from hudtui.core.training.engines import find_engine  # not at the start of commands

        return find_engine(self.engine).features

    @property
    def machines(self) -> tuple[str, ...]:
        """The machines of the user's that it names, node 0 first.

        An empty name is one of them: it is refused, and no machine is rented in its place.
        """
        return () if self.host is None else tuple(name.strip() for name in self.host.split(","))

    @property
    def node_count(self) -> int:
        """Number of machines that carry it out together: those of a cluster that is chosen, too."""
        chosen = 1 if self.offer is None else self.offer.nodes
        return max(self.nodes, len(self.machines), chosen)

    @property
    def limits(self) -> dict[str, str]:
        """The limits that the user has set, as typed, by the names of `compute.limits.Limits`."""
        typed = {
            "run_budget": self.budget,
            "max_hours": self.max_hours,
            "idle_minutes": self.idle_minutes,
        }
        return {name: text for name, text in typed.items() if text is not None}
